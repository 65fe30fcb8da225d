//! Puts a result in the place of an earlier one so that at every moment one of the two is there, and takes it back
//! where the job fails after all.
//!
//! Everything happens in the staging folder beside the destination, which is on the same file system. It must never
//! remove an earlier result while nothing else stands, nor believe an error of a call: what stands at the destination
//! decides.

use model::JobId;
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, RenameFlags, renameat2},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// What is to be published.
const READY: &str = "result";
/// What stood at the destination before.
const EARLIER: &str = "earlier";
/// What stood there and is not wanted any more.
const REPLACED: &str = "replaced";
/// Which file or folder the job publishes: written before it does.
const RECORD: &str = "publishing";
/// Locked for as long as the job's coordinator lives.
const LOCK: &str = "lock";
/// A staging folder of another job is not looked at before nothing in it has changed for so long.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder beside the destination where attempts write.
pub(super) fn staging(destination: &Path, job: JobId) -> PathBuf {
    destination.with_file_name(format!("{}{job}", staging_prefix(destination)))
}

/// How staging folders of a destination begin, whatever the job.
fn staging_prefix(destination: &Path) -> String {
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.flott-")
}

/// A file or folder, whatever its name: file system and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

/// What is there, `None` where nothing is. A link is itself.
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(Identity(metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn exists(path: &Path) -> bool {
    matches!(identity(path), Ok(Some(_)))
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

/// Best effort: it goes with its folder otherwise.
fn remove(path: &Path) {
    let _ = if is_folder(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Two names change places in one step.
fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)
}

/// One job's way to one destination.
#[derive(Debug)]
pub(super) struct Publication {
    destination: PathBuf,
    staging: PathBuf,
    /// Not every file system can do it.
    exchange: fn(&Path, &Path) -> Result<(), Errno>,
    lock: Option<File>,
}

impl Publication {
    pub(super) fn new(destination: PathBuf, job: JobId) -> Self {
        let staging = staging(&destination, job);
        Self { destination, staging, exchange, lock: None }
    }

    /// Where what is to be published is gathered.
    pub(super) fn ready(&self) -> PathBuf {
        self.staging.join(READY)
    }

    pub(super) fn staging(&self) -> &Path {
        &self.staging
    }

    fn earlier(&self) -> PathBuf {
        self.staging.join(EARLIER)
    }

    /// Makes the staging folder, and finds what earlier processes left: a result that they had moved away and nothing
    /// stands in its place is put back. Whether this very job has published already.
    pub(super) fn start(&mut self) -> io::Result<bool> {
        let standing = identity(&self.destination)?;
        let published = standing.is_some() && standing == self.recorded();
        if published {
            // Killed behind the exchange: what was to be published is where it was gathered, under the other name.
            if !exists(&self.earlier()) && exists(&self.ready()) {
                fs::rename(self.ready(), self.earlier())?;
            }
            for entry in fs::read_dir(&self.staging)?.flatten() {
                let name = entry.file_name();
                if name != EARLIER && name != RECORD {
                    remove(&entry.path());
                }
            }
        } else {
            self.clean_up();
            if !exists(&self.destination) {
                self.put_back_of_dead_jobs();
            }
        }
        fs::create_dir_all(&self.staging)?;
        let lock = File::create(self.staging.join(LOCK))?;
        // A file system without locks: then nobody takes this folder for one that nobody needs.
        self.lock = lock.try_lock().is_ok().then_some(lock);
        Ok(published)
    }

    /// Puts what is ready at the destination.
    pub(super) fn publish(&self) -> io::Result<()> {
        let ready = identity(&self.ready())?.ok_or(io::ErrorKind::NotFound)?;
        // What stood there before the first of several publications of this job is what may be put back.
        let own = self.recorded();
        let own_stands = own.is_some() && identity(&self.destination)? == own;
        let aside = if own_stands || exists(&self.earlier()) { REPLACED } else { EARLIER };
        self.record(ready)?;
        let placed = self.place(&self.ready(), &self.staging.join(aside));
        if identity(&self.destination)? != Some(ready) {
            placed?;
            return Err(io::Error::other("somebody else replaced it at once"));
        }
        if let Some(parent) = self.destination.parent()
            && let Err(error) = File::open(parent).and_then(|folder| folder.sync_all())
        {
            // It stands there: the job has its result, though a power failure could still take it.
            tracing::warn!(%error, folder = %parent.display(), "a published result may not be on disk");
        }
        Ok(())
    }

    /// The job fails though it had published: what stood there before is put back.
    pub(super) fn withdraw(&self) -> io::Result<()> {
        let standing = identity(&self.destination)?;
        if standing.is_none() || standing != self.recorded() {
            return Ok(());
        }
        let replaced = self.staging.join(REPLACED);
        if exists(&self.earlier()) {
            return self.place(&self.earlier(), &replaced);
        }
        remove(&replaced);
        fs::rename(&self.destination, replaced)
    }

    /// Removes the staging folder. An earlier result that nothing stands for is put back, and else stays.
    pub(super) fn clean_up(&self) {
        let missing = matches!(identity(&self.destination), Ok(None)) && exists(&self.earlier());
        if missing && let Err(error) = fs::rename(self.earlier(), &self.destination) {
            let kept = self.earlier();
            tracing::error!(%error, kept = %kept.display(), "an earlier result can't be put back");
            return;
        }
        // What is left over is hidden and harmless.
        let _ = fs::remove_dir_all(&self.staging);
    }

    /// Puts `from` at the destination; what stood there goes `aside`.
    fn place(&self, from: &Path, aside: &Path) -> io::Result<()> {
        if aside.ends_with(REPLACED) {
            remove(aside);
        }
        if !exists(&self.destination) {
            return fs::rename(from, &self.destination);
        }
        match (self.exchange)(from, &self.destination) {
            Ok(()) => {
                // It is found under its old name too, after a kill.
                let _ = fs::rename(from, aside);
                Ok(())
            }
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => self.place_apart(from, aside),
            Err(errno) => Err(errno.into()),
        }
    }

    /// [`Publication::place`] where names can't change places. Between the two renames nothing stands there: whoever
    /// comes next finds what was put aside.
    fn place_apart(&self, from: &Path, aside: &Path) -> io::Result<()> {
        if !is_folder(from) && !is_folder(&self.destination) {
            // A file replaces a file in one step. The second name is for putting it back; not all file systems have it.
            let _ = fs::hard_link(&self.destination, aside);
            return fs::rename(from, &self.destination);
        }
        fs::rename(&self.destination, aside)?;
        fs::rename(from, &self.destination).inspect_err(|_| {
            // Where that fails too, the next start does it.
            let _ = fs::rename(aside, &self.destination);
        })
    }

    fn record(&self, Identity(device, inode): Identity) -> io::Result<()> {
        let mut file = File::create(self.staging.join(RECORD))?;
        write!(file, "{device} {inode}")?;
        file.sync_all()?;
        File::open(&self.staging)?.sync_all()
    }

    fn recorded(&self) -> Option<Identity> {
        let text = fs::read_to_string(self.staging.join(RECORD)).ok()?;
        let (device, inode) = text.split_once(' ')?;
        Some(Identity(device.parse().ok()?, inode.parse().ok()?))
    }

    /// Staging folders of other jobs with the same destination.
    fn others(&self) -> Vec<PathBuf> {
        let prefix = staging_prefix(&self.destination);
        let Some(Ok(entries)) = self.destination.parent().map(fs::read_dir) else {
            return Vec::new();
        };
        let of_a_job = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let job = name.strip_prefix(&prefix).and_then(|id| id.parse::<JobId>().ok());
            job.is_some() && *path != self.staging && is_folder(path)
        };
        entries.flatten().map(|entry| entry.path()).filter(of_a_job).collect()
    }

    /// A job was killed while nothing stood at the destination, and has not come back.
    fn put_back_of_dead_jobs(&self) {
        for other in self.others() {
            let earlier = other.join(EARLIER);
            if exists(&earlier)
                && let Some(_lock) = lock_of_the_dead(&other)
                && fs::rename(earlier, &self.destination).is_ok()
            {
                return;
            }
        }
    }

    /// Removes staging folders of jobs that have ended without cleaning up: nothing in them has changed for a day, and
    /// their lock is free. Where one has no lock, or the file system has none, it stays.
    pub(super) fn remove_stale(&self) {
        // The file system's own clock, which may be another than this machine's.
        let Some(now) = modified(&self.staging.join(RECORD)) else { return };
        for other in self.others() {
            let age = latest_change(&other).and_then(|changed| now.duration_since(changed).ok());
            if age.is_some_and(|age| age >= STALE_AFTER)
                && let Some(_lock) = lock_of_the_dead(&other)
            {
                remove(&other);
            }
        }
    }
}

/// The lock of a staging folder, if its job's coordinator is gone for sure.
fn lock_of_the_dead(staging: &Path) -> Option<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = File::options();
    options.read(true).write(true).custom_flags(flags.bits());
    let lock = options.open(staging.join(LOCK)).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// When something in the folder was last written. `None` where that can't be said.
fn latest_change(staging: &Path) -> Option<SystemTime> {
    let mut latest = modified(staging)?;
    for entry in fs::read_dir(staging).ok()? {
        latest = latest.max(modified(&entry.ok()?.path())?);
    }
    Some(latest)
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
