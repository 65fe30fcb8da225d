//! A disk of a run: a file system in memory, which can be full, behind one that passes everything through and can be stopped. Both
//! need root.

use anyhow::{Context as _, Result, ensure};
use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::{
        signal::{Signal, kill},
        statvfs::statvfs,
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The size of the file system in bytes, of which a run takes a few MiB, and with high availability a program. It takes memory for what
/// is in it only.
const SIZE: u64 = 1 << 30;
/// The size of the file system, at least: one of 0 bytes has no limit.
const PAGE: u64 = 4_096;

/// A disk of 1 GiB in memory that can hang and be full. Dropping it unmounts it and loses its content.
#[derive(Debug)]
pub struct Disk {
    memory: PathBuf,
    through: PathBuf,
    server: Child,
}

impl Disk {
    /// Mounts the disk at `name` below a folder, with the program `passthrough_fs` of the folder `bins`, and waits until it answers. Needs
    /// root and `/dev/fuse`.
    ///
    /// # Errors
    /// The error says which of the two file systems cannot be mounted, and what it needs.
    pub fn mount(folder: &Path, name: &str, bins: &Path) -> Result<Self> {
        let (memory, through) = (folder.join(format!("{name}.memory")), folder.join(name));
        fs::create_dir_all(&memory)?;
        fs::create_dir_all(&through)?;
        mount(Some("tmpfs"), &memory, Some("tmpfs"), MsFlags::empty(), Some(&*size(SIZE)))
            .with_context(|| {
                format!("cannot mount a tmpfs on {} (full disks need root)", memory.display())
            })?;
        let server = Command::new(bins.join("passthrough_fs"))
            .args([&memory, &through])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join(format!("{name}.log")))?)
            .spawn();
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                umount2(&memory, MntFlags::MNT_DETACH)?;
                return Err(error).context("cannot start passthrough_fs");
            }
        };
        let mut disk = Self { memory, through, server };
        let mut ready = String::new();
        let out = disk.server.stdout.take().context("no standard output")?;
        BufReader::new(out).read_line(&mut ready)?;
        ensure!(
            ready == "mounted\n",
            "cannot mount a FUSE file system on {} (slow disks need root and /dev/fuse)",
            disk.through.display()
        );
        // The first operation waits until the kernel and the process have shaken hands.
        fs::metadata(disk.through.join("."))?;
        Ok(disk)
    }

    /// Returns the folder at which the disk is mounted: what happens there can be made to hang or to fail for lack of room.
    pub fn path(&self) -> &Path {
        &self.through
    }

    /// Makes every operation on the disk hang until [`Disk::go_on`]: stops the process of the file system and waits until it stands
    /// still.
    ///
    /// # Errors
    /// The process of the file system has ended.
    pub fn hang(&self) -> Result<()> {
        kill(self.pid(), Signal::SIGSTOP).context("passthrough_fs has ended")?;
        waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED))?;
        Ok(())
    }

    /// Lets the operations go on that hang.
    ///
    /// # Errors
    /// The process of the file system has ended.
    pub fn go_on(&self) -> Result<()> {
        kill(self.pid(), Signal::SIGCONT).context("passthrough_fs has ended")
    }

    /// Takes all free room away: writes fail for lack of it until [`Disk::make_room`]. What is deleted meanwhile makes room again.
    ///
    /// # Errors
    /// The file system cannot be made smaller, for another reason than that it grows meanwhile.
    pub fn fill(&self) -> Result<()> {
        loop {
            let now = statvfs(&self.memory)?;
            let used = now.blocks().saturating_sub(now.blocks_free()) * now.fragment_size();
            match self.resize(used.max(PAGE)) {
                Ok(()) => return Ok(()),
                // More was written since.
                Err(Errno::EINVAL) => {}
                Err(error) => return Err(error).context("cannot fill the disk"),
            }
        }
    }

    /// Makes room again after [`Disk::fill`].
    ///
    /// # Errors
    /// The file system cannot be made larger.
    pub fn make_room(&self) -> Result<()> {
        self.resize(SIZE).context("cannot make room on the disk")
    }

    fn resize(&self, bytes: u64) -> nix::Result<()> {
        let none: Option<&str> = None;
        mount(none, &self.memory, none, MsFlags::MS_REMOUNT, Some(&*size(bytes)))
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.server.id()).unwrap_or(0))
    }
}

/// Returns the option of a tmpfs of that many bytes.
fn size(bytes: u64) -> String {
    format!("size={bytes}")
}

impl Drop for Disk {
    /// Unmounts both file systems, even while operations hang: those fail then.
    fn drop(&mut self) {
        let _ = umount2(&self.through, MntFlags::MNT_DETACH);
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = umount2(&self.memory, MntFlags::MNT_DETACH);
    }
}
