//! Takes a cluster down when whoever started it is gone, however it went: a process of its own holds the other
//! end of a pipe, and acts when that closes. It does nothing to anything but the cluster.

use super::{down, processes};
use crate::run::Result;
use std::{
    io::{Read, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// The argument with which this program starts itself as a guard.
pub(super) const COMMAND: &str = "guard";
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Written to the guard that is no longer needed.
const DISARM: &[u8] = b"d";

/// The guard's action when its caller is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// The processes are stopped; logs stay.
    Stop,
    /// The processes are stopped and the cluster's directory is removed, as by `down`.
    Remove,
}

/// The caller's end.
pub(super) struct Guard(Child);

impl Guard {
    /// It has what is `held` open as long as it lives.
    pub(super) fn new(dir: &Path, after: After, held: Stdio) -> Result<Self> {
        // By its file, not by its name: a build that this process has started may have replaced that.
        let mut guard = Command::new(THIS_PROGRAM);
        guard.args(["yarn", COMMAND, if after == After::Stop { "stop" } else { "remove" }]);
        // A group of its own: the terminal's Ctrl-C is not for it.
        let child = guard.arg(dir).stdin(Stdio::piped()).stdout(held).process_group(0);
        Ok(Self(child.spawn()?))
    }

    /// All went well: what there is stays.
    pub(super) fn disarm(mut self) -> Result<()> {
        if let Some(mut stdin) = self.0.stdin.take() {
            stdin.write_all(DISARM)?;
        }
        self.wait()
    }

    /// Has it act now, and waits until it has.
    pub(super) fn end(mut self) -> Result<()> {
        self.0.stdin = None;
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        match self.0.wait()?.success() {
            true => Ok(()),
            false => Err("the cluster could not be taken down".into()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // After an error: it acts, and is waited for, so that nothing runs when the error is shown.
        self.0.stdin = None;
        let _ = self.0.wait();
    }
}

/// The guard itself: waits until it is disarmed or alone.
pub(super) fn watch(args: &[String]) -> Result<()> {
    let [after, dir] = args else { return Err("the guard is not for people".into()) };
    let mut told = Vec::new();
    // An end that cannot be read is one all the same.
    let _ = std::io::stdin().read_to_end(&mut told);
    let dir = Path::new(dir);
    match (told.as_slice(), after.as_str()) {
        (DISARM, _) => Ok(()),
        (_, "remove") => down(dir),
        _ => processes::stop(dir),
    }
}
