//! Watches the parent from threads of its own, so that a busy runtime or user code can't delay the end: the socket
//! closes, or the parent is silent for longer than it may be. It must never wait for a lock that others hold.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use platform::Platform;
use std::{
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::Thread,
    time::Duration,
};
use streaming::task::threads;

const STACK_BYTES: usize = 64 << 10;

/// What is known of the parent's life.
#[derive(Debug)]
pub(super) struct ParentWatch {
    platform: Platform,
    /// Milliseconds on the platform's clock.
    heard_at: AtomicU64,
    /// Silence that is allowed, milliseconds; 0: any.
    allowed: AtomicU64,
    silence: OnceLock<Thread>,
    /// This process is ending anyway, as it was told to: its exit code is to be heard, not a signal.
    ending: AtomicBool,
}

impl ParentWatch {
    /// Watches the socket; silence is watched once it is said how much is allowed.
    pub(super) fn start(socket: &UnixStream, platform: &Platform) -> io::Result<Arc<Self>> {
        let socket = socket.try_clone()?;
        let watch = Arc::new(Self {
            platform: platform.clone(),
            heard_at: AtomicU64::new(0),
            allowed: AtomicU64::new(0),
            silence: OnceLock::new(),
            ending: AtomicBool::new(false),
        });
        let watching = Arc::clone(&watch);
        threads::spawn("flott-parent", STACK_BYTES, move || {
            wait_for_end(&socket);
            if !watching.ending.load(Ordering::Acquire) {
                crate::child::end_at_once();
            }
        })?;
        Ok(watch)
    }

    /// From now on the end of the socket is no news: `main` returns.
    pub(super) fn ending(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// The parent was heard; `allowed_ms`: from now on it may be silent for so long (0: for ever).
    pub(super) fn heard(self: &Arc<Self>, allowed_ms: Option<u64>) {
        self.heard_at.store(self.now_ms(), Ordering::Release);
        let Some(allowed_ms) = allowed_ms else {
            return;
        };
        self.allowed.store(allowed_ms, Ordering::Release);
        if allowed_ms == 0 {
            return;
        }
        match self.silence.get() {
            Some(thread) => thread.unpark(),
            None => {
                let watch = Arc::clone(self);
                match threads::spawn("flott-silence", STACK_BYTES, move || watch.watch_silence()) {
                    Ok(thread) => {
                        let _ = self.silence.set(thread.thread().clone());
                    }
                    Err(error) => {
                        tracing::error!(%error, "the parent's silence can't be watched");
                        crate::child::end_at_once();
                    }
                }
            }
        }
    }

    fn watch_silence(&self) {
        loop {
            let allowed = self.allowed.load(Ordering::Acquire);
            if allowed == 0 {
                std::thread::park();
                continue;
            }
            let silent = self.now_ms().saturating_sub(self.heard_at.load(Ordering::Acquire));
            match allowed.checked_sub(silent) {
                None | Some(0) => crate::child::end_at_once(),
                Some(left) => std::thread::park_timeout(Duration::from_millis(left)),
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.platform.now().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Returns when the other end is closed, whatever still waits to be read.
fn wait_for_end(socket: &UnixStream) {
    loop {
        // No event is asked for: a hang-up is always told, data never.
        let mut fds = [PollFd::new(socket.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => {
                if fds.iter().any(|fd| fd.revents().is_some_and(|r| !r.is_empty())) {
                    return;
                }
            }
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => {}
            Err(_) => return,
        }
    }
}
