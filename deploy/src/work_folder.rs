//! A process's own folder for what need not outlive it: blobs, uploads, working directories of hosts.
//!
//! It is locked while the process lives and removed at its end; what killed processes left behind is
//! removed by the next one that starts beside it.

use crate::entrypoint::StartError;
use conf::{Options, cluster};
use nix::fcntl::{Flock, FlockArg};
use platform::Platform;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LOCK: &str = "lock";
/// The name of the folder for checkpoints.
const CHECKPOINTS: &str = "checkpoints";
/// The name of the lock file until it is locked.
const NEW_LOCK: &str = "lock.new";
/// Age at which a folder without a lock is that of a dead process: a host that was still writing has made it again after a sweep. The
/// living make their lock at once.
const UNLOCKED_AFTER: Duration = Duration::from_secs(3_600);

/// The folder, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    path: PathBuf,
    /// The process's folders on further disks.
    others: Vec<Self>,
    /// Held until the folder is gone.
    _lock: Flock<File>,
}

impl WorkFolder {
    /// Makes `<base>/flott-<role>-<pid>-<unique>`, and removes what is left of dead ones beside it.
    pub(crate) fn make(base: &Path, role: &str, unique: u64) -> io::Result<Self> {
        std::fs::create_dir_all(base)?;
        let prefix = format!("flott-{role}-");
        let now = Duration::from_millis(Platform::production().unix_millis());
        sweep(base, &prefix, UNIX_EPOCH + now);
        let path = base.join(format!("{prefix}{}-{unique:016x}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path)?;
        // Under the name that others look for it is locked from the beginning: a process that starts at the same time would take an
        // unlocked one for that of a dead process.
        let new = path.join(NEW_LOCK);
        let file = OpenOptions::new().create_new(true).write(true).open(&new)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
        std::fs::rename(new, path.join(LOCK))?;
        Ok(Self { path, others: Vec::new(), _lock: lock })
    }

    /// Makes a folder as [`WorkFolder::make`] does in each directory of `io.tmp.dirs`. The first one is the folder itself.
    ///
    /// # Errors
    /// A folder cannot be made; the error names its directory.
    pub(crate) fn on_all_disks(
        options: &Options,
        role: &str,
        unique: u64,
    ) -> Result<Self, StartError> {
        let dirs = options.get(&cluster::TMP_DIRS).0;
        let default = ["/tmp".to_owned()];
        let dirs = if dirs.is_empty() { &default[..] } else { &dirs[..] };
        let make = |dir: &String| {
            Self::make(dir.as_ref(), role, unique)
                .map_err(|e| StartError::storage(format!("io.tmp.dirs {dir}"), e))
        };
        let mut all = dirs.iter().map(make).collect::<Result<Vec<_>, _>>()?.into_iter();
        let first = all.next();
        let mut first =
            first.ok_or_else(|| StartError::Invalid("io.tmp.dirs is empty".to_owned()))?;
        first.others = all.collect();
        Ok(first)
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Absolute path of the folder for checkpoints in it, of a cluster that has no other place for them. Nothing is made.
    pub(crate) fn checkpoints(&self) -> String {
        let path = self.path.join(CHECKPOINTS);
        // Program hosts have working folders of their own.
        std::path::absolute(&path).unwrap_or(path).display().to_string()
    }

    /// Returns a folder in it, which is made if absent.
    pub(crate) fn sub(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Returns a folder of this name on each disk, made if absent: what is many goes to them in turn.
    pub(crate) fn subs(&self, name: &str) -> Result<Vec<PathBuf>, StartError> {
        let disks = std::iter::once(self).chain(&self.others);
        disks.map(|disk| disk.sub(name).map_err(|e| StartError::storage(name, e))).collect()
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, folder = %self.path.display(), "a work folder stays behind");
        }
    }
}

/// Removes folders of this role whose process is dead: nobody holds their lock, or they hold only what a late upload has made again
/// and have not changed for [`UNLOCKED_AFTER`] at `now`.
fn sweep(base: &Path, prefix: &str, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(base) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let path = entry.path();
        let dead = match OpenOptions::new().write(true).open(path.join(LOCK)) {
            Ok(file) => Flock::lock(file, FlockArg::LockExclusiveNonblock).ok().map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let changed = entry.metadata().and_then(|of| of.modified()).ok();
                let age = changed.and_then(|at| now.duration_since(at).ok());
                // A younger one may be being made just now.
                let is_old = age.is_some_and(|age| age >= UNLOCKED_AFTER);
                (is_old && is_made_again(&path, prefix)).then_some(None)
            }
            // It is another user's.
            Err(_) => None,
        };
        if let Some(_lock) = dead {
            tracing::info!(folder = %path.display(), "removing what a dead process left behind");
            // A second sweeper may be quicker.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Returns true for a folder that has the name of a process's and nothing but [`CHECKPOINTS`] in it. A host that still uploads makes such a
/// one after the sweep. A user's folder has another name, and that of a living process whose lock somebody has deleted has more in it.
fn is_made_again(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let of_process = name.strip_prefix(prefix).and_then(|rest| rest.split_once('-'));
    let is_ours = of_process.is_some_and(|(pid, id)| {
        pid.parse::<u32>().is_ok() && id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit())
    });
    let only_checkpoints = |mut entries: std::fs::ReadDir| {
        entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == CHECKPOINTS))
    };
    is_ours && std::fs::read_dir(path).is_ok_and(only_checkpoints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_living_stay_and_those_of_the_dead_go() {
        let base = tempfile::tempdir().unwrap();
        let alive = WorkFolder::make(base.path(), "test", 1).unwrap();
        let dead = base.path().join("flott-test-1-0000000000000002");
        std::fs::create_dir_all(dead.join("blobs")).unwrap();
        std::fs::write(dead.join(LOCK), "").unwrap();
        let foreign = base.path().join("flott-other-1-0000000000000002");
        std::fs::create_dir_all(&foreign).unwrap();
        let next = WorkFolder::make(base.path(), "test", 3).unwrap();
        assert!(alive.path().is_dir() && next.path().is_dir() && foreign.is_dir());
        assert!(!dead.exists());
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }

    /// The folder of a killed JobManager is removed while a host of its last job still writes a checkpoint, which makes it again.
    #[test]
    fn a_folder_that_was_made_again_without_a_lock_goes_after_an_hour() {
        let base = tempfile::tempdir().unwrap();
        let again = base.path().join("flott-test-1-0000000000000002");
        let foreign = base.path().join("flott-other-1-0000000000000002");
        let of_user = base.path().join("flott-test-savepoints");
        let without_lock = base.path().join("flott-test-1-0000000000000003");
        for folder in [&again, &foreign, &of_user, &without_lock] {
            std::fs::create_dir_all(folder.join(CHECKPOINTS)).unwrap();
        }
        std::fs::create_dir_all(without_lock.join("hosts")).unwrap();
        let alive = WorkFolder::make(base.path(), "test", 1).unwrap();
        let made = std::fs::metadata(&again).unwrap().modified().unwrap();
        let swept_after = |age| sweep(base.path(), "flott-test-", made + age);
        swept_after(UNLOCKED_AFTER - Duration::from_secs(1));
        assert!(again.is_dir(), "a process may be making it");
        swept_after(UNLOCKED_AFTER);
        assert!(!again.exists());
        assert!(alive.path().is_dir() && foreign.is_dir());
        // Long after all of them were made.
        swept_after(UNLOCKED_AFTER * 2);
        assert!(of_user.is_dir(), "a folder of the user's own");
        assert!(without_lock.is_dir(), "its process may live, and its lock was deleted");
    }

    #[test]
    fn a_list_of_directories_has_a_folder_in_each() {
        let base = tempfile::tempdir().unwrap();
        let dirs = ["one", "two"].map(|name| base.path().join(name).display().to_string());
        let options = Options::from_map([("io.tmp.dirs", dirs.join(","))]).unwrap();
        let work = WorkFolder::on_all_disks(&options, "test", 7).unwrap();
        let hosts = work.subs("hosts").unwrap();
        assert_eq!(hosts.len(), 2);
        for (folder, dir) in hosts.iter().zip(&dirs) {
            assert!(folder.starts_with(dir) && folder.is_dir(), "{folder:?}");
        }
        assert!(work.path().starts_with(&dirs[0]));
        drop(work);
        assert!(hosts.iter().all(|folder| !folder.exists()));
        std::fs::write(&dirs[1], "").unwrap_err();
        std::fs::remove_dir_all(&dirs[1]).unwrap();
        std::fs::write(&dirs[1], "a file").unwrap();
        let refused = WorkFolder::on_all_disks(&options, "test", 8).unwrap_err().to_string();
        assert!(refused.contains(&dirs[1]), "{refused}");
    }

    #[test]
    fn processes_that_start_together_leave_each_other_alone() {
        let base = tempfile::tempdir().unwrap();
        let start = |first: u64| {
            let base = base.path().to_owned();
            let make = move || {
                for unique in first..first + 300 {
                    let folder = WorkFolder::make(&base, "test", unique).unwrap();
                    assert!(folder.path().join(LOCK).is_file(), "it was removed");
                }
            };
            std::thread::Builder::new().spawn(make).unwrap()
        };
        let threads = [0, 1_000, 2_000].map(start);
        assert!(threads.into_iter().all(|thread| thread.join().is_ok()));
    }
}
