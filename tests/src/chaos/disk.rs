//! The disk of the checkpoints: a small file system in memory, which can be filled, behind one that passes everything through
//! and can be stopped. Both need root.

use anyhow::{Context as _, Result, bail, ensure};
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, waitpid},
    },
    unistd::Pid,
};
use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The size of the file system: a run's checkpoints take a few MiB of it.
const SIZE: &str = "size=64m";
const BALLAST_PIECE: usize = 1 << 20;

/// A disk of 64 MiB in memory that can hang and be full. Dropping it unmounts it and loses its content.
#[derive(Debug)]
pub struct Disk {
    memory: PathBuf,
    through: PathBuf,
    server: Child,
}

impl Disk {
    /// Mounts the disk below a folder, with the program `passthrough_fs` of the folder `bins`, and waits until it answers. Needs root and
    /// `/dev/fuse`.
    ///
    /// # Errors
    /// The error says which of the two file systems cannot be mounted, and what it needs.
    pub fn mount(folder: &Path, bins: &Path) -> Result<Self> {
        let (memory, through) = (folder.join("disk"), folder.join("disk-through"));
        fs::create_dir_all(&memory)?;
        fs::create_dir_all(&through)?;
        mount(Some("tmpfs"), &memory, Some("tmpfs"), MsFlags::empty(), Some(SIZE)).with_context(
            || format!("cannot mount a tmpfs on {} (full disks need root)", memory.display()),
        )?;
        let server = Command::new(bins.join("passthrough_fs"))
            .args([&memory, &through])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("disk.log"))?)
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

    /// Fills the disk to the last byte with a file of its own: writes fail for lack of room until [`Disk::make_room`].
    ///
    /// # Errors
    /// Writing the file fails otherwise than by a lack of room; what was written stays.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::create(self.ballast())?;
        let mut piece = vec![0_u8; BALLAST_PIECE];
        loop {
            match ballast.write(&piece) {
                Ok(0) => bail!("the disk takes nothing"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull && piece.len() > 1 => {
                    piece.truncate(piece.len() / 2);
                }
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error).context("cannot fill the disk"),
            }
        }
    }

    /// Makes room again after [`Disk::fill`], by deleting its file.
    ///
    /// # Errors
    /// The file cannot be deleted, for example because the disk was not filled.
    pub fn make_room(&self) -> Result<()> {
        fs::remove_file(self.ballast()).context("cannot delete the ballast")
    }

    fn ballast(&self) -> PathBuf {
        self.memory.join("ballast")
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.server.id()).unwrap_or(0))
    }
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
