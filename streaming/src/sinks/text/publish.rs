//! Replaces an earlier result by a new one so that one of the two is at the destination at every moment.
//!
//! Files are staged in a folder beside the destination, which is on the same file system. Nothing here may remove an earlier
//! result while the destination is empty. The success of a call is not judged by its return value, but by what is at the
//! destination afterwards: a network file system may report an error for a rename that took place.

use model::JobId;
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, RenameFlags, renameat2},
};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Name of the file or folder to be published, in the staging folder. The names below are in that folder too.
pub(super) const READY: &str = "result";
/// The result that was at the destination before.
const EARLIER: &str = "earlier";
/// A file that is locked while the job's committer lives.
const LOCK: &str = "lock";
/// A file that is created to read the clock of the file system.
const NOW: &str = "now";
/// Time without changes after which the staging folder of another job may be removed.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns a job's staging folder, which is beside the destination.
pub(super) fn staging(destination: &Path, job: JobId) -> PathBuf {
    destination.with_file_name(format!("{}{job}", staging_prefix(destination)))
}

/// Returns the path under which a part is kept for savepoints: in a folder beside the staging folder, with `.kept` behind its name. No job
/// deletes that folder.
pub(super) fn kept(part: &Path) -> Option<PathBuf> {
    let mut folder = part.parent()?.as_os_str().to_owned();
    folder.push(".kept");
    Some(PathBuf::from(folder).join(part.file_name()?))
}

/// Keeps a part for a savepoint: makes a second name for its file, by which the file outlives the job, also if it grows meanwhile. Does
/// nothing if the part is kept already, or is not there. On a file system without hard links the savepoint can be restored only while the
/// part is there, which is logged.
pub(super) fn keep(part: &Path) -> io::Result<()> {
    use io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied, Unsupported};
    let Some(kept) = kept(part).filter(|_| exists(part)) else { return Ok(()) };
    let folder = kept.with_file_name("");
    fs::create_dir_all(&folder)?;
    match fs::hard_link(part, &kept).map_err(|error| (error.kind(), error)) {
        Ok(()) => {}
        Err((AlreadyExists, _)) => return Ok(()),
        Err((NotFound, _)) if !exists(part) => return Ok(()),
        // Where links are refused, another part that cannot be kept either may have removed the folder in between.
        Err((PermissionDenied | Unsupported | NotFound, error)) => {
            // Fails if another part is kept there.
            let _ = fs::remove_dir(&folder);
            tracing::warn!(%error, part = %part.display(), "a savepoint can be restored only until its job ends or fails");
            return Ok(());
        }
        Err((_, error)) => return Err(error),
    }
    File::open(&folder)?.sync_all()?;
    folder.parent().map_or(Ok(()), |beside| File::open(beside)?.sync_all())
}

/// Returns the prefix of the names of a destination's staging folders, of any job.
fn staging_prefix(destination: &Path) -> String {
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.flott-")
}

/// Returns whose staging folder this is: the destination, and the job; `None` if the path is not that of a staging folder.
pub(super) fn owner(staging: &Path) -> Option<(PathBuf, JobId)> {
    let (name, job) = staging.file_name()?.to_str()?.strip_prefix('.')?.rsplit_once(".flott-")?;
    Some((staging.with_file_name(name), job.parse().ok()?))
}

/// The identity of a file or folder, independent of its name: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

/// Returns the identity of what is at a path, `None` if nothing is. Symbolic links are not followed.
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

/// Removes a file or folder, ignoring errors: what remains goes with the staging folder.
fn remove(path: &Path) {
    let _ = if is_folder(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Exchanges two names in one atomic step.
fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)
}

/// The publication of one job's result at one destination.
#[derive(Debug)]
pub(super) struct Publication {
    destination: PathBuf,
    staging: PathBuf,
    /// Exchanges two names; a field, so that tests can simulate file systems that cannot.
    exchange: fn(&Path, &Path) -> Result<(), Errno>,
    lock: Option<File>,
}

impl Publication {
    /// Returns the publication of a job's result at `destination`, an absolute path.
    pub(super) fn new(destination: PathBuf, job: JobId) -> Self {
        let staging = staging(&destination, job);
        Self { destination, staging, exchange, lock: None }
    }

    /// Returns the path at which the caller prepares the file or folder to be published.
    pub(super) fn ready(&self) -> PathBuf {
        self.staging.join(READY)
    }

    pub(super) fn staging(&self) -> &Path {
        &self.staging
    }

    fn earlier(&self) -> PathBuf {
        self.staging.join(EARLIER)
    }

    /// Creates the staging folder, where it is absent. If the destination is empty, and this job or one that was killed had moved
    /// an earlier result away, that result is put back.
    pub(super) fn start(&mut self) -> io::Result<()> {
        if !exists(&self.destination) {
            if exists(&self.earlier()) {
                fs::rename(self.earlier(), &self.destination)?;
            } else {
                self.put_back_of_dead_jobs();
            }
        }
        fs::create_dir_all(&self.staging)?;
        let lock = File::create(self.staging.join(LOCK))?;
        // On a file system without locks the folder has none, and no other job removes it.
        self.lock = lock.try_lock().is_ok().then_some(lock);
        Ok(())
    }

    /// Publishes the file or folder at [`Publication::ready`] by moving it to the destination.
    pub(super) fn publish(&self) -> io::Result<()> {
        let ready = identity(&self.ready())?.ok_or(io::ErrorKind::NotFound)?;
        let placed = self.place(&self.ready(), &self.earlier());
        if identity(&self.destination)? != Some(ready) {
            placed?;
            return Err(io::Error::other("another process replaced it at the same time"));
        }
        if let Some(parent) = self.destination.parent()
            && let Err(error) = File::open(parent).and_then(|folder| folder.sync_all())
        {
            // The result is in place, so the job has it, though a power failure could still take it away.
            tracing::warn!(%error, folder = %parent.display(), "cannot sync the folder of a published result");
        }
        Ok(())
    }

    /// Removes the staging folder. If the destination is empty, the earlier result is put back first; if that fails, the folder
    /// stays.
    pub(super) fn clean_up(&self) {
        let missing = matches!(identity(&self.destination), Ok(None)) && exists(&self.earlier());
        if missing && let Err(error) = fs::rename(self.earlier(), &self.destination) {
            let kept = self.earlier();
            tracing::error!(%error, kept = %kept.display(), "cannot move an earlier result back");
            return;
        }
        // A failure is ignored: the folder is hidden and harmless.
        let _ = fs::remove_dir_all(&self.staging);
    }

    /// Moves `from` to the destination and what was there to `aside`.
    fn place(&self, from: &Path, aside: &Path) -> io::Result<()> {
        if !exists(&self.destination) {
            return fs::rename(from, &self.destination);
        }
        // A result that stands is there, so that no earlier one is needed.
        remove(aside);
        match (self.exchange)(from, &self.destination) {
            Ok(()) => {
                // A failure is ignored: the replaced result goes with the folder under this name too.
                let _ = fs::rename(from, aside);
                Ok(())
            }
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => self.place_apart(from, aside),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Does what [`Publication::place`] does on a file system that cannot exchange names. Between the two renames the destination
    /// is empty; after a kill there, the next `start` puts the earlier result back.
    fn place_apart(&self, from: &Path, aside: &Path) -> io::Result<()> {
        if !is_folder(from) && !is_folder(&self.destination) {
            // A rename replaces a file by a file in one step. The hard link keeps the earlier one; not all file systems have links.
            let _ = fs::hard_link(&self.destination, aside);
            return fs::rename(from, &self.destination);
        }
        fs::rename(&self.destination, aside)?;
        fs::rename(from, &self.destination).inspect_err(|_| {
            // If this fails too, the next `start` does it.
            let _ = fs::rename(aside, &self.destination);
        })
    }

    /// Returns the staging folders of other jobs with the same destination.
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

    /// Puts back the earlier result of a job that was killed while the destination was empty and has not been restarted.
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

    /// Removes the staging folders of jobs that ended without cleaning up: those whose lock is free and in which nothing has
    /// changed for a day. A folder without a lock, or on a file system without locks, stays.
    pub(super) fn remove_stale(&self) {
        // The time is taken from the file system, whose clock may differ from this machine's.
        let stamp = self.staging.join(NOW);
        let Some(now) = File::create(&stamp).ok().and_then(|_| modified(&stamp)) else { return };
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

impl Drop for Publication {
    fn drop(&mut self) {
        // If the job was cancelled before it had written anything that a checkpoint holds, the folder is empty but for the lock;
        // otherwise it stays, for the next attempt or until it is stale.
        if fs::read_dir(&self.staging).is_ok_and(|entries| entries.count() == 1) {
            let _ = fs::remove_file(self.staging.join(LOCK));
        }
        let _ = fs::remove_dir(&self.staging);
    }
}

/// Locks a staging folder. Returns the lock if the job's committer is certainly gone, else `None`.
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

/// Returns when the folder or an entry of it was last modified, `None` if that cannot be determined.
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
