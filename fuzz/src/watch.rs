//! Records what each thread is doing, in a file that outlives the process: a decoder that overflows
//! the stack or is refused memory takes the process with it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

const SLOT_BYTES: u64 = 16;

/// A thread's place in the file.
#[derive(Debug)]
pub(crate) struct Slot {
    file: File,
    at: u64,
}

impl Slot {
    /// The place of thread `thread`.
    pub(crate) fn open(path: &Path, thread: usize) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        Ok(Self { file, at: thread as u64 * SLOT_BYTES })
    }
    /// Records that the thread runs case `seed` of target number `target` from now on.
    pub(crate) fn says(&self, target: usize, seed: u64) -> io::Result<()> {
        let mut bytes = [0; SLOT_BYTES as usize];
        let (first, second) = bytes.split_at_mut(8);
        first.copy_from_slice(&(target as u64 + 1).to_le_bytes());
        second.copy_from_slice(&seed.to_le_bytes());
        self.file.write_all_at(&bytes, self.at)
    }
    /// Records that the thread is idle from now on.
    pub(crate) fn is_idle(&self) -> io::Result<()> {
        self.file.write_all_at(&[0; SLOT_BYTES as usize], self.at)
    }
}

/// Returns the cases that threads were running: target numbers and seeds.
pub(crate) fn under_way(path: &Path) -> io::Result<Vec<(usize, u64)>> {
    let bytes = std::fs::read(path)?;
    let slot = |slot: &[u8]| {
        let (target, seed) = slot.split_first_chunk::<8>()?;
        let seed = u64::from_le_bytes(seed.try_into().ok()?);
        let target = u64::from_le_bytes(*target).checked_sub(1)?;
        Some((usize::try_from(target).ok()?, seed))
    };
    Ok(bytes.chunks_exact(SLOT_BYTES as usize).filter_map(slot).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_said_is_read_back() {
        let path = std::env::temp_dir().join(format!("flott-fuzz-watch-{}", std::process::id()));
        let slots = [Slot::open(&path, 0).unwrap(), Slot::open(&path, 1).unwrap()];
        slots[0].says(3, 77).unwrap();
        slots[1].says(0, 5).unwrap();
        assert_eq!(under_way(&path).unwrap(), [(3, 77), (0, 5)]);
        slots[0].is_idle().unwrap();
        assert_eq!(under_way(&path).unwrap(), [(0, 5)]);
        std::fs::remove_file(path).unwrap();
    }
}
