//! A storage directory that can hang: it is mounted a second time through a process that can be stopped.

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A directory mounted through the program `passthrough_fs`. Dropping this value unmounts it.
pub struct PassthroughMount {
    server: Child,
    mountpoint: TempDir,
}

impl PassthroughMount {
    /// Mounts `dir` on a new temporary directory and waits until it is mounted. The error says why it cannot be
    /// mounted, for example because there is no `/dev/fuse`; tests must fail with it, never skip.
    pub fn start(dir: &Path) -> Result<Self, String> {
        let temporary = |error| format!("no temporary directory: {error}");
        let mountpoint = tempfile::tempdir().map_err(temporary)?;
        let mut errors = tempfile::tempfile().map_err(temporary)?;
        let server = Command::new(env!("CARGO_BIN_EXE_passthrough_fs"))
            .args([dir, mountpoint.path()])
            // The process has a group of its own: if the test dies, that group is orphaned, and the system continues
            // its stopped process.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().map_err(temporary)?)
            .spawn()
            .map_err(|e| format!("cannot start passthrough_fs: {e}"))?;
        let mut mount = Self { server, mountpoint };
        let mut ready = String::new();
        let out = mount.server.stdout.take().ok_or("no standard output")?;
        match BufReader::new(out).read_line(&mut ready) {
            // The first operation waits until the kernel and the process have shaken hands.
            Ok(_) if ready == "mounted\n" => std::fs::metadata(mount.path().join("."))
                .map(|_| mount)
                .map_err(|e| format!("the mounted {} does not answer: {e}", dir.display())),
            read => {
                let mut why = String::new();
                let _ = errors.rewind().and_then(|()| errors.read_to_string(&mut why));
                Err(format!("cannot mount {} with FUSE: {read:?} {why}", dir.display()))
            }
        }
    }

    /// Returns the directory whose operations go through the process.
    pub fn path(&self) -> &Path {
        self.mountpoint.path()
    }

    /// Stops the process and returns once it is stopped: every operation on [`Self::path`] hangs from now on.
    pub fn freeze(&self) {
        kill(self.pid(), Signal::SIGSTOP).unwrap();
        let status = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(status, WaitStatus::Stopped(self.pid(), Signal::SIGSTOP));
    }

    /// Continues the process after [`Self::freeze`], and with it the operations that hung.
    pub fn thaw(&self) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.server.id()).unwrap())
    }
}

impl Drop for PassthroughMount {
    /// Kills the process even while it is frozen. Operations that still hang then fail.
    fn drop(&mut self) {
        let _ = umount2(self.mountpoint.path(), MntFlags::MNT_DETACH);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
