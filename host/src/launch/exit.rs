//! The end of a child: waited for on a thread of its own, killed with everything it has started. It must never
//! signal a process id that may belong to somebody else by now.

use crate::sync::lock;
use nix::{
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use std::{
    fmt,
    io::{Read, Seek, SeekFrom},
    path::Path,
    process::{Child, ExitStatus},
    sync::{Arc, Mutex},
};

/// Bytes of a log that an error shows.
const LOG_TAIL_BYTES: u64 = 2048;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCause {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// The system does not say.
    Unknown,
}

impl fmt::Display for ExitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(number) => match Signal::try_from(number) {
                Ok(signal) => write!(f, "was ended by {signal}"),
                Err(_) => write!(f, "was ended by signal {number}"),
            },
            Self::Unknown => f.write_str("ended"),
        }
    }
}

impl From<ExitStatus> for ExitCause {
    fn from(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// Ends a child. Does nothing when it has ended.
#[derive(Clone)]
pub struct Kill {
    /// Its process group, until it is reaped.
    group: Arc<Mutex<Option<Pid>>>,
}

impl fmt::Debug for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kill({:?})", lock(&self.group))
    }
}

impl Kill {
    pub(super) fn new(child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().filter(|pid| *pid > 1);
        Self { group: Arc::new(Mutex::new(pid.map(Pid::from_raw))) }
    }

    /// SIGKILL to the child and everything in its process group.
    pub fn kill(&self) {
        if let Some(group) = *lock(&self.group) {
            // An error means that nobody is left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// Waits for the child's end. Its id stays its own until it is reaped, which happens under the lock.
    pub(super) fn wait(&self, mut child: Child) -> ExitCause {
        // Not under the lock: who kills must not wait for the end.
        let pid = *lock(&self.group);
        if let Some(pid) = pid {
            while let Err(nix::errno::Errno::EINTR) =
                waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
            {}
        }
        let mut group = lock(&self.group);
        if let Some(group) = group.take() {
            // What it has started does not outlive it.
            let _ = killpg(group, Signal::SIGKILL);
        }
        child.wait().map_or(ExitCause::Unknown, ExitCause::from)
    }
}

/// The end of a log, for an error's text.
pub(super) fn log_tail(path: &Path) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}
