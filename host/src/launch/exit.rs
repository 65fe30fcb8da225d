//! The end of a child process: it is awaited on a thread of its own, and the child is killed together with its process
//! group. This module must never signal a process id that may belong to another process by now.

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
    path::{Path, PathBuf},
    process::{Child, ExitStatus},
    sync::{Arc, Mutex},
};

/// The maximum number of bytes of a log in an error's text.
const LOG_TAIL_BYTES: u64 = 2048;
/// The maximum number of bytes of a log in which a stack overflow is looked for: other threads may log something behind it.
const OVERFLOW_BYTES: u64 = 64 << 10;

/// The way in which a child process ended. Displays as the end of a sentence, e.g. "ended with exit code 1".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitCause {
    /// The child ended by itself with this exit code.
    Code(i32),
    /// A signal ended the child; the field is the signal's number.
    Signal(i32),
    /// The operating system did not report how the child ended.
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

/// A handle that kills a child and its process group. Clones share it. The handle does nothing once the child has been reaped.
#[derive(Clone, derive_more::Debug)]
#[debug("Kill({:?})", lock(&self.group))]
pub struct Kill {
    /// The child's process group; `None` after the child was reaped, because its id may be reused then.
    group: Arc<Mutex<Option<Pid>>>,
}

impl Kill {
    /// Returns the handle of a child, which must be the leader of its own process group. Has no effect on the child.
    pub fn of(child: &Child) -> Self {
        let pid = i32::try_from(child.id()).ok().filter(|pid| *pid > 1);
        Self { group: Arc::new(Mutex::new(pid.map(Pid::from_raw))) }
    }

    /// Sends SIGKILL to the child and everything in its process group, and returns at once. Does nothing once the child has been reaped.
    pub fn kill(&self) {
        if let Some(group) = *lock(&self.group) {
            // An error means that no process of the group is left.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// Returns a guard that kills the child when it is dropped, unless [`KillOnDrop::keep`] was called.
    pub fn on_drop(&self) -> KillOnDrop {
        KillOnDrop(Some(self.clone()))
    }

    /// Blocks until the child ends, without a time limit, kills what is left of its process group, and reaps the child. Returns how the
    /// child ended. The process id cannot be reused before the reaping, which happens under the lock; [`Kill::kill`] does nothing
    /// afterwards. To be called once, on a thread that may block, with the child that the handle was made of.
    pub fn wait(&self, mut child: Child) -> ExitCause {
        // Not under the lock: `kill` must not wait for the child's end.
        let pid = *lock(&self.group);
        if let Some(pid) = pid {
            while let Err(nix::errno::Errno::EINTR) =
                waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
            {}
        }
        let mut group = lock(&self.group);
        if let Some(group) = group.take() {
            // Processes that the child has started must not outlive it.
            let _ = killpg(group, Signal::SIGKILL);
        }
        child.wait().map_or(ExitCause::Unknown, ExitCause::from)
    }
}

/// A guard (see [`Kill::on_drop`]) that kills a child and its process group when it is dropped, so that a future which its caller gives
/// up leaves no process behind.
#[derive(Debug)]
pub struct KillOnDrop(Option<Kill>);

impl KillOnDrop {
    /// Disarms the guard and drops it: the child lives on.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(kill) = &self.0 {
            kill.kill();
        }
    }
}

/// Returns the file in which a child with this folder for temporary files leaves the reason why it kills itself. The file is
/// beside the folder, not among the program's own.
pub(crate) fn last_words_file(tmp_dir: &Path) -> PathBuf {
    tmp_dir.with_extension("last-words")
}

/// Returns what a child said on its standard error when a thread of it overflowed its stack, which names the thread and so the task:
/// `thread 'map (1/2)' (4711) has overflowed its stack`. `stderr` is the file of its standard error, in which bytes before `from` are of
/// earlier processes, unless the file was emptied. `None` if the child did not end by a signal, or said no such thing in the last 64 KiB.
pub fn overflowed_stack(exit: ExitCause, stderr: &Path, from: u64) -> Option<String> {
    let ExitCause::Signal(_) = exit else { return None };
    let said = tail(stderr, from, OVERFLOW_BYTES);
    let line = said.lines().rev().find(|line| line.ends_with("has overflowed its stack"))?;
    Some(model::shortened(line))
}

/// Returns the reason, at most the last 2 KiB of it, that a child whose temporary directory is `tmp_dir` has left for killing itself: the
/// content of the file beside `tmp_dir` that has its name with the extension `last-words` (instead of `tmp_dir`'s own, if it has one).
/// `None` if there is no such file, or it is empty or unreadable.
pub fn last_words(tmp_dir: &Path) -> Option<String> {
    let words = log_tail(&last_words_file(tmp_dir));
    (!words.is_empty()).then_some(words)
}

/// Returns the end of a log for an error's text; empty if the log cannot be read.
pub(super) fn log_tail(path: &Path) -> String {
    tail(path, 0, LOG_TAIL_BYTES)
}

/// Returns at most the last `most` bytes of a log, without those before `from` where the log is as long as that.
fn tail(path: &Path, from: u64, most: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = std::fs::File::open(path)?;
        let len = file.metadata()?.len();
        let from = if from <= len { from } else { 0 };
        file.seek(SeekFrom::Start(from.max(len.saturating_sub(most))))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}
