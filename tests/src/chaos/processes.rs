//! The processes of a campaign: those that it starts, and the program hosts that those have started. What is started here is
//! killed when its owner is dropped.

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A process of the campaign, with its log file. Dropping it kills the process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a process in a group of its own, so that a terminal's signals reach the campaign alone. Standard output and error go
    /// to the file `log`.
    ///
    /// # Errors
    /// The file cannot be created, or the process cannot be started.
    pub fn start(mut command: Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let program = command.get_program().to_string_lossy().into_owned();
        command.process_group(0).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("cannot start '{program}'"))?;
        Ok(Self { child, log })
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }
    /// Kills the process by SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    /// Returns true if the process has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
    /// Returns what the process has written to its log so far; empty if that cannot be read.
    pub fn log(&self) -> String {
        read(&self.log)
    }
    /// Returns the path of the log file, which gets the process's standard output and error.
    pub fn log_file(&self) -> &Path {
        &self.log
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the text of a log file, malformed UTF-8 replaced; empty if the file cannot be read.
pub fn read(log: &Path) -> String {
    fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Kills a process by SIGKILL, without waiting for its end. Returns false, without an effect, if there is none of this id, it is 1 or
/// less, or it belongs to another user; true also for one that has ended and was not waited for.
pub fn kill_pid(pid: i32) -> bool {
    pid > 1 && kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
}

/// Returns the id of the parent of the process `pid`, from `/proc`; `None` if there is no such process. One that has ended is
/// there until its parent waits for it.
pub fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state parent …`, where the name may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the ids of the children of the process `pid`, from `/proc`, that have not been waited for; empty if the process has ended.
pub fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}
