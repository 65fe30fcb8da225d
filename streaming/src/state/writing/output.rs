//! The chunks of a snapshot that is being written, up to the time when they are handed over.

use crate::{
    seam::StateChunk,
    state::{
        StateError,
        chunks::{CHUNK_BYTES, ENTRY_WORK, Pool, Slice},
        row::RowWriter,
        snapshot::{END, write_entry},
    },
    types::{Key, check_written},
};
use std::ops::Range;

/// The most chunks that are open for entries that are about to change, each for its part of the key groups.
const EARLY: usize = 8;
/// The bytes of state for each of these chunks: four times what gives one chunk more that may wait for its storage, because these wait too.
const STATE_OF_EARLY: usize = 64 * CHUNK_BYTES;

/// The encoded part of the snapshot that was not handed over, and the memory for the next one.
#[derive(Debug, Default)]
pub(crate) struct Output {
    rows: RowWriter,
    /// The first chunk, if it has more before its entries than the others have; empty once it is written.
    first: OpenChunk,
    /// The chunk with entries in the order of the tables.
    ordered: OpenChunk,
    /// The chunks with entries that were about to change, by parts of the key groups.
    early: [OpenChunk; EARLY],
    /// The key groups of the tables.
    owned: Range<u32>,
    /// The number of early chunks for each key group, times 2³².
    early_scale: u64,
    /// The beginning of every chunk but the first.
    head: Vec<u8>,
    full: Vec<StateChunk>,
    pool: Pool,
    /// True if the host stores chunks while the snapshot is written.
    stored: bool,
    /// The bytes of all chunks of the snapshot, and those of the snapshot before.
    bytes: usize,
    before: usize,
    /// About how many bytes the tables take that have begun the snapshot.
    expected: usize,
    /// True once the memory for the snapshots of large state is allocated.
    is_prepared: bool,
}

/// A chunk that is not full; without bytes, it has no memory yet.
#[derive(Debug, Default)]
struct OpenChunk {
    bytes: Vec<u8>,
    /// One bit for each key group that has entries here.
    groups: Vec<u64>,
    /// True if it may be of any group, as timers are.
    is_any: bool,
}

/// The reason for which an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The entry's turn in the table has come.
    Ordered,
    /// The entry is about to change.
    Early,
}

impl OpenChunk {
    #[inline]
    fn note(&mut self, group: u32) {
        let (word, bit) = ((group / 64) as usize, 1 << (group % 64));
        match self.groups.get_mut(word) {
            Some(groups) => *groups |= bit,
            None => {
                self.groups.resize(word, 0);
                self.groups.push(bit);
            }
        }
    }

    /// Returns the noted groups, ascending; `None`: any.
    fn groups(&self) -> Option<Vec<u32>> {
        let of = |(first, word): (u32, &u64)| {
            let word = *word;
            (0..u64::BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        };
        let words = (0..).step_by(64).zip(&self.groups);
        (!self.is_any).then(|| words.flat_map(of).collect())
    }

    /// Appends the entries of another chunk, behind its head of so many bytes.
    fn append(&mut self, other: &Self, head: usize) {
        self.bytes.extend_from_slice(other.bytes.get(head..).unwrap_or_default());
        other.groups().into_iter().flatten().for_each(|group| self.note(group));
    }
}

impl Output {
    /// Allocates and touches the memory for the snapshots of large state, the first time.
    pub(in crate::state) fn prepare(&mut self) {
        if !std::mem::replace(&mut self.is_prepared, true) {
            self.pool.prepare();
        }
    }

    /// Begins a snapshot of entries with key groups in `owned`. `first` is what precedes the entries in the first chunk, `head` in the
    /// others.
    pub(crate) fn begin(&mut self, owned: &Range<u32>, first: &[u8], head: &[u8]) {
        self.before = std::mem::take(&mut self.bytes);
        self.owned = owned.clone();
        self.expected = 0;
        self.expect(0);
        self.head = head.to_vec();
        if first == head {
            // Written even if no entry follows.
            self.ordered.bytes = self.pool.take();
            self.ordered.bytes.extend_from_slice(first);
        } else {
            // Every subtask of a rescaled job must read this chunk, so that it has no more than it needs.
            self.first = OpenChunk { bytes: first.to_vec(), is_any: true, ..OpenChunk::default() };
        }
    }

    /// Returns the bytes of all chunks of the newest snapshot, as far as it is written.
    pub(in crate::state) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes that a key has no state any more.
    pub(in crate::state) fn removed<K: Key>(&mut self, group: u32, key: &K) {
        self.entry(Turn::Ordered, group, key, |_| {});
    }

    /// Takes note that a table begins the snapshot that takes about so many bytes: so much more may wait for its storage. The size
    /// of the snapshot before is known to the byte. Small state has one chunk for all entries that are about to change.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.expected += bytes;
        let state = self.before.max(self.expected);
        self.pool.reserve_for(state);
        let early = (state / STATE_OF_EARLY).clamp(1, EARLY) as u64;
        self.early_scale = (early << 32) / (self.owned.len() as u64).max(1);
    }

    /// Writes entries to the chunks as `write` says, which returns true if the snapshot is complete, and moves the chunks that became
    /// full to the slice.
    pub(crate) fn advance(
        &mut self,
        slice: &mut Slice<'_>,
        write: impl FnOnce(&mut Self, &mut Slice<'_>) -> bool,
    ) -> Result<bool, StateError> {
        self.stored = slice.stored;
        let done = write(self, slice);
        if done {
            self.end();
        }
        slice.chunks.append(&mut self.full);
        check_written()?;
        Ok(done)
    }

    /// Runs `write` with chunks that need not wait for their storage: the operator takes no more records if there are too many.
    pub(super) fn without_waiting<R>(&mut self, write: impl FnOnce(&mut Self) -> R) -> R {
        let stored = std::mem::replace(&mut self.stored, false);
        let result = write(self);
        self.stored = stored;
        result
    }

    /// Writes an entry whose rows `value` writes, and returns how much work that was.
    pub(super) fn entry<K: Key>(
        &mut self,
        turn: Turn,
        group: u32,
        key: &K,
        value: impl FnOnce(&mut RowWriter),
    ) -> usize {
        let chunk = match turn {
            Turn::Early => {
                let place = u64::from(group.saturating_sub(self.owned.start)) * self.early_scale;
                self.early.get_mut((place >> 32) as usize).unwrap_or(&mut self.ordered)
            }
            Turn::Ordered => &mut self.ordered,
        };
        if chunk.bytes.is_empty() {
            chunk.bytes = self.pool.take();
            chunk.bytes.extend_from_slice(&self.head);
        }
        chunk.note(group);
        let before = chunk.bytes.len();
        write_entry(group, key, value, &mut self.rows, &mut chunk.bytes);
        let work = chunk.bytes.len() - before + ENTRY_WORK;
        if chunk.bytes.len() >= CHUNK_BYTES {
            let full = std::mem::take(chunk);
            self.push(turn, full);
        }
        work
    }

    /// Ends a chunk, unless it is empty. What precedes all entries is the first chunk.
    fn push(&mut self, turn: Turn, chunk: OpenChunk) {
        for mut chunk in [std::mem::take(&mut self.first), chunk] {
            if !chunk.bytes.is_empty() {
                chunk.bytes.push(END);
                self.bytes += chunk.bytes.len();
                let (groups, is_early) = (chunk.groups(), turn == Turn::Early);
                self.full.push(StateChunk { groups, is_early, bytes: self.pool.full(chunk.bytes) });
            }
        }
    }

    /// Ends all chunks. Neighbours among the early ones are joined if they fit into one, and all chunks if they are the whole snapshot.
    fn end(&mut self) {
        let first = [std::mem::take(&mut self.first), std::mem::take(&mut self.ordered)];
        let first = first.map(|chunk| (Turn::Ordered, chunk));
        let early = std::mem::take(&mut self.early).map(|chunk| (Turn::Early, chunk));
        let all: usize = first.iter().chain(&early).map(|(_, chunk)| chunk.bytes.len()).sum();
        let is_small = self.bytes == 0 && all <= CHUNK_BYTES;
        let open = first.into_iter().chain(early).filter(|(_, chunk)| !chunk.bytes.is_empty());
        let mut last: Option<(Turn, OpenChunk)> = None;
        for (turn, next) in open {
            match &mut last {
                Some((of, last))
                    if is_small
                        || (*of, turn) == (Turn::Early, Turn::Early)
                            && last.bytes.len() + next.bytes.len() <= CHUNK_BYTES =>
                {
                    last.append(&next, self.head.len());
                    self.pool.give_back(next.bytes);
                }
                last => {
                    let ended = last.replace((turn, next));
                    ended.into_iter().for_each(|(turn, chunk)| self.push(turn, chunk));
                }
            }
        }
        last.into_iter().for_each(|(turn, chunk)| self.push(turn, chunk));
    }

    /// Drops what is encoded of a snapshot that is not complete.
    pub(crate) fn abort(&mut self) {
        self.first = OpenChunk::default();
        for chunk in std::iter::once(&mut self.ordered).chain(&mut self.early) {
            let OpenChunk { bytes, .. } = std::mem::take(chunk);
            if self.is_prepared {
                self.pool.give_back(bytes);
            }
        }
        self.full.clear();
    }

    pub(super) fn waits(&self) -> bool {
        self.stored && self.pool.is_used_up()
    }

    /// Returns true if more chunks wait for their storage than should. No more records should come then, because they make more.
    pub(crate) fn is_overdrawn(&self) -> bool {
        let early = || self.early.iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
        self.stored && self.pool.is_overdrawn(early() / CHUNK_BYTES)
    }

    /// Returns about how many bytes the chunks take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let open = [&self.first, &self.ordered].into_iter().chain(&self.early);
        let open: usize = open.map(|chunk| chunk.bytes.capacity()).sum();
        self.pool.memory_bytes() + open as u64
    }
}
