//! Finds directories for the clusters of tests: one for each run, which the next run may have when this one and its
//! guard have ended, however they did. It starts and removes nothing.

use crate::run::Result;
use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    process::Stdio,
};

/// Runs at the same time; each takes a gigabyte of memory.
const MOST: u32 = 16;

/// A directory, and what says whose it is.
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The directory is taken as long as this file, or a copy of its handle, is open in any process.
    pub(super) lock: File,
}

/// Takes the first that nobody has; with others that nobody has and where something was left.
pub(super) fn take(home: &Path) -> Result<(Place, Vec<Place>)> {
    fs::create_dir_all(home)?;
    let (mut taken, mut left) = (None, Vec::new());
    for number in 1..=MOST {
        let dir = home.join(format!("test-{number}"));
        if taken.is_some() && !dir.exists() {
            continue;
        }
        let lock = open(&dir.with_extension("lock"))?;
        let place = match lock.try_lock() {
            Ok(()) => Place { dir, lock },
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error.into()),
        };
        match &taken {
            None => taken = Some(place),
            Some(_) => left.push(place),
        }
    }
    let none = || format!("{}: {MOST} clusters of tests are there already", home.display());
    Ok((taken.ok_or_else(none)?, left))
}

/// A standard input for a process that must not outlive a lock: as long as it or a child of it has that open, the
/// lock is not free. There is nothing to be read from it.
pub(super) fn held(lock: &File) -> Result<Stdio> {
    Ok(lock.try_clone()?.into())
}

/// Waits until nobody else has this file, which is then this process's until it is dropped.
pub(super) fn alone(file: &Path) -> Result<File> {
    let lock = open(file)?;
    lock.lock()?;
    Ok(lock)
}

fn open(file: &Path) -> Result<File> {
    Ok(File::options().create(true).write(true).truncate(false).open(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn no_two_runs_have_one_place_and_it_can_be_had_again() {
        let home = std::env::temp_dir().join(format!("xtask-place-{}", std::process::id()));
        let taken = || take(&home).unwrap().0;
        let (first, second) = (taken(), taken());
        assert_ne!(first.dir, second.dir);
        // What the run has started outlives it.
        let mut test = Command::new("tail");
        test.args(["-f", "/dev/null"]).stdin(held(&first.lock).unwrap());
        let mut child = test.spawn().unwrap();
        drop((first.lock, test));
        assert_ne!(taken().dir, first.dir);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(taken().dir, first.dir);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn what_runs_left_is_found_where_nobody_is() {
        let home = std::env::temp_dir().join(format!("xtask-left-{}", std::process::id()));
        let taken = || take(&home).unwrap().0;
        let (first, second, third) = (taken(), taken(), taken());
        for place in [&first, &second, &third] {
            fs::create_dir(&place.dir).unwrap();
        }
        // The second run has ended, the third has not. Dropping the handles would not release the locks: a child that
        // another test forks at this moment holds copies of them until it executes another program.
        first.lock.unlock().unwrap();
        second.lock.unlock().unwrap();
        let (mine, left) = take(&home).unwrap();
        assert_eq!(mine.dir, first.dir);
        assert_eq!(left.iter().map(|place| &place.dir).collect::<Vec<_>>(), [&second.dir]);
        // Nobody else takes it while it is being cleared.
        assert_eq!(taken().dir, home.join("test-4"));
        fs::remove_dir_all(home).unwrap();
    }
}
