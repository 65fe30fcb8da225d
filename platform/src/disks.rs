//! Folders on several disks that take turns, such as those of `io.tmp.dirs`. Must never keep a file from being made while one
//! of the disks takes it.

use nix::sys::statvfs::statvfs;
use std::{
    collections::VecDeque,
    iter,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Folders on several disks, over which the files of a process are spread: each new file goes to the next folder in turn.
/// A disk with too little room, or on which the file cannot be made, is passed over while another one takes the file.
#[derive(Debug)]
pub struct Disks {
    folders: Vec<PathBuf>,
    taken: AtomicUsize,
}

impl Disks {
    /// Makes a list of folders that take turns from the first one on; an empty list stands for the system's temporary folder.
    /// Touches no disk.
    pub fn new(folders: Vec<PathBuf>) -> Self {
        let folders = if folders.is_empty() { vec![std::env::temp_dir()] } else { folders };
        Self { folders, taken: AtomicUsize::new(0) }
    }

    /// Returns the folders in the order in which they were given.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Calls `attempt` with the next folder in turn, and with further ones until it succeeds; folders whose disk has less than
    /// `bytes` bytes free for this user come last. Blocks the calling thread for as long as the disks need.
    ///
    /// # Errors
    /// Returns the error of the first attempt if all of them failed.
    pub fn place<T, E>(
        &self,
        bytes: u64,
        mut attempt: impl FnMut(&Path) -> Result<T, E>,
    ) -> Result<T, E> {
        let turn = self.taken.fetch_add(1, Ordering::Relaxed);
        let order = order(&self.folders, turn, |folder| free_bytes(folder) >= bytes);
        // The first attempt's error is the one to report: its disk had the most reason to take the file.
        let mut failed = None;
        for folder in order {
            match attempt(folder) {
                Ok(made) => return Ok(made),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or_else(|| attempt(&std::env::temp_dir()), Err)
    }
}

impl std::fmt::Display for Disks {
    /// Writes the folders, separated by commas.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let folders: Vec<_> = self.folders.iter().map(|f| f.display().to_string()).collect();
        f.write_str(&folders.join(", "))
    }
}

/// Returns the folders from number `turn` on, once around; those without room come after the others. A
/// folder is asked for its room when its turn comes, so that a disk that hangs stops nobody before; one folder alone is not asked.
fn order(
    folders: &[PathBuf],
    turn: usize,
    has_room: impl Fn(&Path) -> bool,
) -> impl Iterator<Item = &Path> {
    let (first, count) = (turn % folders.len().max(1), folders.len());
    let mut turns = folders.iter().map(PathBuf::as_path).cycle().skip(first).take(count);
    let mut full = VecDeque::new();
    iter::from_fn(move || {
        for folder in turns.by_ref() {
            if count == 1 || has_room(folder) {
                return Some(folder);
            }
            full.push_back(folder);
        }
        full.pop_front()
    })
}

/// Returns the bytes that this user may still write to the disk of a folder, or of its next parent that exists; 0 if the disk
/// does not tell.
fn free_bytes(folder: &Path) -> u64 {
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    statvfs(there).map_or(0, |disk| disk.blocks_available().saturating_mul(disk.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "/disk-1";
    const TWO: &str = "/disk-2";
    const THREE: &str = "/disk-3";

    fn three() -> Vec<PathBuf> {
        [ONE, TWO, THREE].map(PathBuf::from).into()
    }

    fn texts<'a>(order: impl Iterator<Item = &'a Path>) -> Vec<String> {
        order.map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn folders_take_turns_and_full_disks_come_last() {
        let folders = three();
        assert_eq!(texts(order(&folders, 0, |_| true)), [ONE, TWO, THREE]);
        assert_eq!(texts(order(&folders, 4, |_| true)), [TWO, THREE, ONE]);
        let two_is_full = |folder: &Path| folder != Path::new(TWO);
        assert_eq!(texts(order(&folders, 4, two_is_full)), [THREE, ONE, TWO]);
        assert_eq!(texts(order(&folders, 4, |_| false)), [TWO, THREE, ONE], "all are full");
        assert_eq!(order(&[], 7, |_| true).count(), 0);
    }

    #[test]
    fn a_disk_that_fails_is_passed_over_and_the_first_error_reported() {
        let disks = Disks::new(three());
        let mut tried = Vec::new();
        let made: Result<&str, String> = disks.place(0, |folder| {
            tried.push(folder.to_owned());
            if folder == Path::new(TWO) { Ok("made") } else { Err("read-only".to_owned()) }
        });
        assert_eq!((made, tried.len()), (Ok("made"), 2));
        let refused: Result<(), String> =
            disks.place(0, |folder| Err(folder.display().to_string()));
        assert_eq!(refused, Err(TWO.to_owned()), "the second turn is that of the second disk");
        assert_eq!(disks.to_string(), "/disk-1, /disk-2, /disk-3");
    }

    #[test]
    fn the_room_of_a_disk_is_that_of_the_nearest_folder_that_exists() {
        let here = std::env::temp_dir();
        assert!(free_bytes(&here) > 0);
        assert!(free_bytes(&here.join("not/there")) > 0);
        let only = Disks::new(Vec::new());
        let place = only.place(u64::MAX, |folder| Ok::<_, ()>(folder.to_owned()));
        assert_eq!(place, Ok(here));
    }
}
