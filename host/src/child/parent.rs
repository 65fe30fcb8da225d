//! Watches the parent on threads of its own, so that neither a busy runtime nor user code can delay the end: the
//! process is killed when the socket closes or when the parent is silent for longer than allowed. The watch must never
//! wait for a lock that others hold.

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

/// The watch over the parent, shared by its threads and the host's actor.
#[derive(Debug)]
pub(super) struct ParentWatch {
    platform: Platform,
    /// The time of the last sign of life, in milliseconds on the platform's monotonic clock.
    heard_at: AtomicU64,
    /// The silence that is allowed, in milliseconds; 0 if unlimited.
    allowed: AtomicU64,
    /// The thread that watches the silence; started when a limit is first set.
    silence: OnceLock<Thread>,
    /// True once the process is ending as asked: the end of the socket does not kill it any more,
    /// so that the parent sees the exit code.
    ending: AtomicBool,
}

impl ParentWatch {
    /// Starts watching the socket. Silence is watched from the first call of [`ParentWatch::heard`] with a limit.
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

    /// Declares that `main` is about to return: from now on the end of the socket does not kill the process.
    pub(super) fn ending(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Records a sign of life of the parent. `Some` sets the silence that is allowed from now on, in milliseconds (0:
    /// unlimited). Kills the process if silence is to be watched and no thread for it can be started.
    pub(super) fn heard(self: &Arc<Self>, allowed_ms: Option<u64>) {
        self.heard_at.store(self.now_ms(), Ordering::Release);
        let Some(allowed_ms) = allowed_ms else { return };
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
                        tracing::error!(%error, "cannot start the thread that watches the parent's silence; this host ends");
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

/// Blocks until the other end is closed, even if data is waiting to be read.
fn wait_for_end(socket: &UnixStream) {
    loop {
        // With no event requested, `poll` reports a hang-up but never data.
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
