//! Where clusters of tests are: a directory for each run, which the next one may have when the run and its guard
//! have ended, however they did. It starts and removes nothing.

use crate::run::Result;
use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

/// Runs at the same time; each takes a gigabyte of memory.
const MOST: u32 = 16;

/// A directory, and what says whose it is.
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// The directory is taken as long as this file, or a copy of its handle, is open in any process.
    pub(super) lock: File,
}

/// Takes the first that nobody has.
pub(super) fn take(home: &Path) -> Result<Place> {
    fs::create_dir_all(home)?;
    for number in 1..=MOST {
        let dir = home.join(format!("test-{number}"));
        let lock = open(&dir.with_extension("lock"))?;
        match lock.try_lock() {
            Ok(()) => return Ok(Place { dir, lock }),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Err(format!("{}: {MOST} clusters of tests are there already", home.display()).into())
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

    #[test]
    fn no_two_runs_have_one_place_and_it_can_be_had_again() {
        let home = std::env::temp_dir().join(format!("xtask-place-{}", std::process::id()));
        let (first, second) = (take(&home).unwrap(), take(&home).unwrap());
        assert_ne!(first.dir, second.dir);
        // The guard outlives the run.
        let guards = first.lock.try_clone().unwrap();
        drop(first.lock);
        assert_ne!(take(&home).unwrap().dir, first.dir);
        drop(guards);
        assert_eq!(take(&home).unwrap().dir, first.dir);
        fs::remove_dir_all(home).unwrap();
    }
}
