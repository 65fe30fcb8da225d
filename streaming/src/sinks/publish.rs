//! Replaces an earlier result by a new one so that one of the two is at the destination at every moment, and withdraws the new
//! result if the job fails after all.
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
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Name of the file or folder to be published, in the staging folder. The names below are in that folder too.
const READY: &str = "result";
/// The result that was at the destination before the job's first publication.
const EARLIER: &str = "earlier";
/// A replaced result that is not needed any more.
const REPLACED: &str = "replaced";
/// A file with the identity (device and inode) of what the job publishes; written before the publication.
const RECORD: &str = "publishing";
/// A file that is locked while the job's coordinator lives.
const LOCK: &str = "lock";
/// Time without changes after which the staging folder of another job may be removed.
const STALE_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns a job's staging folder, which is beside the destination.
pub(super) fn staging(destination: &Path, job: JobId) -> PathBuf {
    destination.with_file_name(format!("{}{job}", staging_prefix(destination)))
}

/// Returns the prefix of the names of a destination's staging folders, of any job.
fn staging_prefix(destination: &Path) -> String {
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.flott-")
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

    /// Creates the staging folder and cleans up after earlier processes: if the destination is empty and one of them had moved an
    /// earlier result away, that result is put back. Returns whether this job has published before.
    pub(super) fn start(&mut self) -> io::Result<bool> {
        let standing = identity(&self.destination)?;
        let published = standing.is_some() && standing == self.recorded();
        if published {
            // An earlier process was killed after the exchange: the earlier result is still under the other name.
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
        // On a file system without locks the folder has none, and no other job removes it.
        self.lock = lock.try_lock().is_ok().then_some(lock);
        Ok(published)
    }

    /// Publishes the file or folder at [`Publication::ready`] by moving it to the destination. May be repeated with a new one.
    pub(super) fn publish(&self) -> io::Result<()> {
        let ready = identity(&self.ready())?.ok_or(io::ErrorKind::NotFound)?;
        // If the job publishes several times, the result from before its first publication is the one to be put back.
        let own = self.recorded();
        let own_stands = own.is_some() && identity(&self.destination)? == own;
        let aside = if own_stands || exists(&self.earlier()) { REPLACED } else { EARLIER };
        self.record(ready)?;
        let placed = self.place(&self.ready(), &self.staging.join(aside));
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

    /// Withdraws a published result and puts the earlier one back. Does nothing if the destination holds another result than this
    /// job's.
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
        if aside.ends_with(REPLACED) {
            remove(aside);
        }
        if !exists(&self.destination) {
            return fs::rename(from, &self.destination);
        }
        match (self.exchange)(from, &self.destination) {
            Ok(()) => {
                // A failure is ignored: `start` also looks for it under its old name.
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

    fn record(&self, Identity(device, inode): Identity) -> io::Result<()> {
        let mut file = File::create(self.staging.join(RECORD))?;
        write!(file, "{device} {inode}")?;
        file.sync_all()?;
        File::open(&self.staging)?.sync_all()
    }

    /// Returns the identity of what this job published last, or was about to publish.
    fn recorded(&self) -> Option<Identity> {
        let text = fs::read_to_string(self.staging.join(RECORD)).ok()?;
        let (device, inode) = text.split_once(' ')?;
        Some(Identity(device.parse().ok()?, inode.parse().ok()?))
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

/// Locks a staging folder. Returns the lock if the job's coordinator is certainly gone, else `None`.
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
