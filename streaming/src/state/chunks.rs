//! The chunks that a snapshot is written into while the job runs, and the slices of time in which it is written.

use crate::{lock, memory::allocator, seam::StateChunk};
use bytes::Bytes;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

/// The size in bytes from which a chunk is full. A chunk ends after the entry that fills it.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// The memory that a new chunk gets, so that a last entry of 1 KiB does not move it.
const CHUNK_CAPACITY: usize = CHUNK_BYTES + (8 << 10);
/// The number of chunks of one operator that may wait for their storage before slices end; empty ones are kept up to this number.
const POOLED: usize = 8;
/// The most chunks that may wait beyond these before the operator takes no more records: 64 MiB. A disk that others write to stops
/// for tens of milliseconds, in which records that change the state fill some megabytes.
const RESERVE_MAX: usize = 256;
/// The part of the state that the chunks beyond [`POOLED`] may take in memory: a sixteenth.
const RESERVE_PART: usize = 16;
/// The work of looking at one entry, in bytes of encoding that take as long: an entry is often not in the cache.
pub(crate) const ENTRY_WORK: usize = 64;

/// The chunks of one operator. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Empty chunks whose memory has been touched.
    free: Mutex<Vec<Vec<u8>>>,
    /// The number of full chunks that are not stored yet.
    out: AtomicUsize,
    /// The number of them that may wait beyond [`POOLED`] before the operator takes no more records.
    reserve: AtomicUsize,
}

impl Pool {
    /// Allocates and touches the memory of all chunks, because pages that are touched for the first time in a slice would prolong
    /// it.
    pub(crate) fn prepare(&self) {
        let mut free = lock(&self.0.free);
        while free.len() < POOLED {
            // Not zero, because zeroed memory is mapped and not touched.
            let mut chunk = vec![1; CHUNK_CAPACITY];
            chunk.clear();
            // Chunks that are no task's at work belong to nobody, because the thread that stores one may free it.
            allocator::hand_over(chunk.capacity() as u64);
            free.push(chunk);
        }
    }

    /// Returns an empty chunk; a new one if none is left.
    pub(crate) fn take(&self) -> Vec<u8> {
        let Some(chunk) = lock(&self.0.free).pop() else {
            return Vec::with_capacity(CHUNK_CAPACITY);
        };
        allocator::take_over(chunk.capacity() as u64);
        chunk
    }

    /// Returns a full chunk as bytes. When these are dropped, its memory comes back.
    pub(crate) fn full(&self, bytes: Vec<u8>) -> Bytes {
        self.0.out.fetch_add(1, Ordering::Relaxed);
        allocator::hand_over(bytes.capacity() as u64);
        Bytes::from_owner(Full { bytes, pool: self.0.clone() })
    }

    /// Sets how many chunks may wait while records come, for state of about so many bytes.
    pub(crate) fn reserve_for(&self, state_bytes: usize) {
        let reserve = (state_bytes / RESERVE_PART / CHUNK_BYTES).min(RESERVE_MAX);
        self.0.reserve.store(reserve, Ordering::Relaxed);
    }

    /// Returns true if so many chunks wait for their storage that no more should be made without need.
    pub(crate) fn is_used_up(&self) -> bool {
        self.0.out.load(Ordering::Relaxed) >= POOLED
    }

    /// Takes back the memory of a chunk whose bytes are no longer needed.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        drop(self.full(bytes));
    }

    /// Returns true if so many chunks wait for their storage, with `more` that are not full, that no more should be made at all.
    pub(crate) fn is_overdrawn(&self, more: usize) -> bool {
        let most = POOLED + self.0.reserve.load(Ordering::Relaxed);
        self.0.out.load(Ordering::Relaxed) + more >= most
    }

    /// Returns about how many bytes the chunks take that are free or full.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let chunks = lock(&self.0.free).len() + self.0.out.load(Ordering::Relaxed);
        (chunks * CHUNK_CAPACITY) as u64
    }
}

/// A full chunk on its way to the storage.
struct Full {
    bytes: Vec<u8>,
    pool: Arc<Shared>,
}

impl AsRef<[u8]> for Full {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        self.pool.out.fetch_sub(1, Ordering::Relaxed);
        let mut chunk = std::mem::take(&mut self.bytes);
        let mut free = lock(&self.pool.free);
        // A chunk that an entry of megabytes has enlarged is not kept.
        if free.len() < POOLED && (CHUNK_CAPACITY..=2 * CHUNK_CAPACITY).contains(&chunk.capacity())
        {
            chunk.clear();
            free.push(chunk);
        } else {
            // Freed here, and it was handed over when it became full.
            allocator::take_over(chunk.capacity() as u64);
        }
    }
}

/// A slice of the work on the snapshots of a chain's operators: how much to write, and the chunks that became full. A task makes one after
/// each step while a snapshot is being written, and hands it to its operators in turn, which count their work in it.
///
/// Work is counted in bytes and not in time, so that a simulated run does the same work every time: 128 KiB take about 0.1 ms.
#[derive(derive_more::Debug)]
#[debug("Slice({} of {} to {} bytes)", self.done, self.least, self.most)]
pub struct Slice<'a> {
    least: usize,
    most: usize,
    done: usize,
    stop: &'a dyn Fn() -> bool,
    /// True if the host stores chunks while the snapshot is written, so that too many of them make the operator wait.
    pub(crate) stored: bool,
    /// The full chunks, in their order; the caller of the operator takes them out.
    pub(crate) chunks: Vec<StateChunk>,
    waits: bool,
}

impl<'a> Slice<'a> {
    /// Makes a slice that ends after `most` bytes of work, or after `least` bytes as soon as `stop` returns true. `stop` is called
    /// about once per entry.
    pub fn new(least: usize, most: usize, stop: &'a dyn Fn() -> bool) -> Self {
        Self { least, most, done: 0, stop, stored: false, chunks: Vec::new(), waits: false }
    }

    /// Makes a slice without a limit, in which a snapshot is written to its end unless it has to wait for storage.
    pub fn whole() -> Slice<'static> {
        Slice::new(usize::MAX, usize::MAX, &|| false)
    }

    /// Counts `bytes` of work that was done. Returns false if the slice ends (see [`Slice::new`]) and the caller should go on in the
    /// next one.
    #[inline]
    pub fn goes_on(&mut self, bytes: usize) -> bool {
        self.done = self.done.saturating_add(bytes);
        self.done < self.least || (self.done < self.most && !(self.stop)())
    }

    /// Records that the work cannot go on until the host has stored a chunk.
    pub(crate) fn wait(&mut self) {
        self.waits = true;
    }

    /// Returns true if the work ended because too many chunks wait for the host to store them: it can go on when one is stored.
    pub fn waits(&self) -> bool {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_slice_does_the_least_work_whatever_is_due_and_the_most_if_nothing_is() {
        let due = Cell::new(true);
        let stop = || due.get();
        let mut slice = Slice::new(100, 1_000, &stop);
        assert!(slice.goes_on(99));
        assert!(!slice.goes_on(1));
        due.set(false);
        assert!(slice.goes_on(899));
        assert!(!slice.goes_on(1));
    }

    #[test]
    fn memory_of_chunks_comes_back_and_is_bounded() {
        let pool = Pool::default();
        pool.prepare();
        let before = pool.memory_bytes();
        assert_eq!(before, (POOLED * CHUNK_CAPACITY) as u64);
        let address = |chunk: &[u8]| chunk.as_ptr().addr();
        let mut chunk = pool.take();
        chunk.push(7);
        let first = address(&chunk);
        let chunk = pool.full(chunk);
        assert_eq!((&chunk[..], address(&chunk)), (&[7][..], first));
        drop(chunk);
        let again = pool.take();
        assert_eq!((again.is_empty(), address(&again)), (true, first));

        let mut others: Vec<Bytes> = (1..POOLED).map(|_| pool.full(pool.take())).collect();
        assert!(!pool.is_used_up());
        others.extend((0..5).map(|_| pool.full(pool.take())));
        assert!(pool.is_used_up());
        others.push(pool.full(Vec::with_capacity(10 * CHUNK_CAPACITY)));
        drop(others);
        assert!(!pool.is_used_up());
        assert!(pool.memory_bytes() <= before);
    }
}
