//! A snapshot of the in-memory backend that is written while records change the state.
//!
//! A bitmap for each hash table says which entries are written already; all entries before the writer's place in a table are
//! written too. A barrier therefore only clears the bitmaps: 125 KiB for a million buckets. Three rules keep the snapshot equal
//! to the state at the barrier:
//!
//! - An entry that is not written is written before a function gets it, because the function may change or remove it.
//! - A new entry is marked as written.
//! - A table that is about to grow is written out first, because its entries change their places. Tables that are nearest to
//!   growing are written first of all.
//!
//! Every chunk is a snapshot of its own, so that a restore reads only those with the key groups that it needs. What is written
//! because it is about to change goes into chunks of its own, of any key group; the other chunks have the groups of a few tables.

use super::{
    Kept, StateError,
    chunks::{CHUNK_BYTES, ENTRY_WORK, Pool, Slice},
    row::RowWriter,
    snapshot::{END, write_entry},
};
use crate::{
    seam::StateChunk,
    types::{Key, check_written},
};
use hashbrown::HashTable;

/// A table is written before all others if its free places are fewer than this part of all: a sixteenth.
const NEAR_GROWTH: usize = 16;
/// The number of empty or written buckets that are passed over between two looks at the slice.
const LOOK: usize = 256;

/// The snapshot that is being written, or the memory for the next one.
#[derive(Debug, Default)]
pub(super) struct Writing {
    marks: Vec<Marks>,
    /// The numbers of the tables, in the order in which they are written; empty if no snapshot is being written.
    order: Vec<usize>,
    /// The place in `order` of the table at work.
    turn: usize,
    output: Output,
}

/// The entries of one hash table that are written.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// One bit per bucket: true for an entry that is written or did not exist at the barrier.
    written: Vec<u64>,
    /// All entries in buckets before this one are written. `usize::MAX`: the table is written out.
    next: usize,
}

/// The encoded part of the snapshot that was not handed over.
#[derive(Debug, Default)]
struct Output {
    rows: RowWriter,
    /// The chunk with entries in the order of the tables.
    ordered: OpenChunk,
    /// The chunk with entries that were about to change.
    early: OpenChunk,
    /// The beginning of every chunk but the first.
    head: Vec<u8>,
    full: Vec<StateChunk>,
    pool: Pool,
    /// True if the host stores chunks while the snapshot is written.
    stored: bool,
    /// The bytes of all chunks of the snapshot.
    bytes: usize,
}

/// A chunk that is not full.
#[derive(Debug, Default)]
struct OpenChunk {
    bytes: Vec<u8>,
    /// The key groups of its entries, in the order in which they came; `None`: any, as those of timers.
    groups: Option<Vec<u32>>,
}

/// The reason for which an entry is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is the entry's turn in the table.
    Ordered,
    /// The entry is about to change.
    Early,
}

impl Marks {
    /// Makes room for the marks of so many buckets, and touches it.
    fn resize(&mut self, buckets: usize) {
        self.written.resize(buckets.div_ceil(64), 0);
    }

    #[inline]
    fn is_written(&self, bucket: usize) -> bool {
        let word = self.written.get(bucket / 64).copied().unwrap_or(0);
        bucket < self.next || word >> (bucket % 64) & 1 == 1
    }

    /// Marks an entry as written.
    #[inline]
    pub(super) fn mark(&mut self, bucket: usize) {
        if let Some(word) = self.written.get_mut(bucket / 64) {
            *word |= 1 << (bucket % 64);
        }
    }

    fn is_written_out(&self) -> bool {
        self.next == usize::MAX
    }
}

impl Output {
    /// Writes an entry, and returns how much work that was.
    fn entry<K: Key, V: Kept>(&mut self, turn: Turn, group: u32, (key, value): &(K, V)) -> usize {
        let chunk = match turn {
            Turn::Ordered => &mut self.ordered,
            Turn::Early => &mut self.early,
        };
        if chunk.bytes.is_empty() {
            chunk.bytes = self.pool.take();
            chunk.bytes.extend_from_slice(&self.head);
        }
        if let Some(groups) = &mut chunk.groups
            && groups.last() != Some(&group)
        {
            groups.push(group);
        }
        let before = chunk.bytes.len();
        write_entry(group, key, value, &mut self.rows, &mut chunk.bytes);
        let work = chunk.bytes.len() - before + ENTRY_WORK;
        if chunk.bytes.len() >= CHUNK_BYTES {
            self.end_chunk(turn);
        }
        work
    }

    /// Ends a chunk, unless it is empty.
    fn end_chunk(&mut self, turn: Turn) {
        let (chunk, next) = match turn {
            Turn::Ordered => (&mut self.ordered, Some(Vec::new())),
            Turn::Early => (&mut self.early, None),
        };
        let OpenChunk { mut bytes, mut groups } =
            std::mem::replace(chunk, OpenChunk { bytes: Vec::new(), groups: next });
        if let Some(groups) = &mut groups {
            groups.sort_unstable();
            groups.dedup();
        }
        if !bytes.is_empty() {
            bytes.push(END);
            self.bytes += bytes.len();
            self.full.push(StateChunk { groups, bytes: self.pool.full(bytes) });
        }
    }

    fn waits(&self) -> bool {
        self.stored && self.pool.is_used_up()
    }
}

impl Writing {
    /// Allocates and touches the memory for the snapshots of large state.
    pub(super) fn prepare(&mut self) {
        self.output.pool.prepare();
    }

    /// Makes room for the marks of a table that has so many buckets.
    pub(super) fn resize(&mut self, table: usize, buckets: usize) {
        if self.marks.len() <= table {
            self.marks.resize_with(table + 1, Marks::default);
        }
        if let Some(marks) = self.marks.get_mut(table) {
            marks.resize(buckets);
        }
    }

    /// Begins the snapshot of the present contents of the tables. `first` is what precedes the entries in the first chunk, `head` in
    /// the others.
    pub(super) fn begin<T>(&mut self, tables: &[HashTable<T>], first: &[u8], head: &[u8]) {
        self.marks.truncate(tables.len());
        for (number, table) in tables.iter().enumerate() {
            self.resize(number, table.num_buckets());
        }
        for marks in &mut self.marks {
            marks.written.fill(0);
            marks.next = 0;
        }
        self.order.clear();
        self.order.extend(0..tables.len());
        // Tables in the order of their key groups make chunks with few groups.
        self.order.sort_by_cached_key(|number| {
            let table = tables.get(*number);
            let (room, all) = table.map_or((0, 0), |t| (t.capacity() - t.len(), t.capacity()));
            match room < all / NEAR_GROWTH {
                true => (0, room),
                false => (1, *number),
            }
        });
        self.turn = 0;
        let entries: usize = tables.iter().map(HashTable::len).sum();
        let output = &mut self.output;
        // The size of the last snapshot is known to the byte; the first one is estimated, without what entries own elsewhere.
        let before = std::mem::take(&mut output.bytes);
        output.pool.reserve_for(before.max(entries * size_of::<T>()));
        output.head = head.to_vec();
        output.ordered.bytes = output.pool.take();
        output.ordered.bytes.extend_from_slice(first);
        // What only the first chunk has may be of any key group: every subtask of a rescaled job must read it.
        output.ordered.groups = (first == head).then(Vec::new);
    }

    /// Drops what is encoded of a snapshot that is not complete.
    pub(super) fn abort(&mut self) {
        let Output { ordered, early, full, .. } = &mut self.output;
        (*ordered, *early) = (OpenChunk::default(), OpenChunk::default());
        full.clear();
    }

    /// Returns true if more chunks wait for their storage than should. No more records should come then, because they make more.
    pub(super) fn waits(&self) -> bool {
        self.output.stored && self.output.pool.is_overdrawn()
    }

    /// Returns the bytes that the marks and chunks take.
    pub(super) fn memory_bytes(&self) -> u64 {
        let marks = self.marks.iter().map(|marks| marks.written.capacity() * size_of::<u64>());
        marks.sum::<usize>() as u64 + self.output.pool.memory_bytes()
    }

    /// Prepares a table for an access: writes all of its entries if a new entry would make it grow. Returns the marks of the table,
    /// `None` if all of its entries are written.
    pub(super) fn access<K: Key, V: Kept>(
        &mut self,
        number: usize,
        group: u32,
        table: &HashTable<(K, V)>,
    ) -> Result<Option<Access<'_>>, StateError> {
        let Self { marks, output, .. } = self;
        let Some(marks) = marks.get_mut(number).filter(|marks| !marks.is_written_out()) else {
            return Ok(None);
        };
        if table.len() == table.capacity() {
            // The chunks that this takes may be more than should wait: the operator takes no more records then.
            let stored = std::mem::replace(&mut output.stored, false);
            write_table(marks, output, group, table, &mut Slice::whole());
            output.stored = stored;
            return check_written().map(|()| None).map_err(StateError::from);
        }
        Ok(Some(Access { marks, output }))
    }

    /// Writes entries until the slice ends. Returns true if the snapshot is complete.
    pub(super) fn advance<K: Key, V: Kept>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        group: impl Fn(usize) -> u32,
        slice: &mut Slice<'_>,
    ) -> Result<bool, StateError> {
        self.output.stored = slice.stored;
        let done = self.write(tables, group, slice);
        if done {
            self.output.end_chunk(Turn::Ordered);
            self.output.end_chunk(Turn::Early);
        }
        slice.chunks.append(&mut self.output.full);
        check_written()?;
        Ok(done)
    }

    fn write<K: Key, V: Kept>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        group: impl Fn(usize) -> u32,
        slice: &mut Slice<'_>,
    ) -> bool {
        while let Some(number) = self.order.get(self.turn).copied() {
            if let (Some(marks), Some(table)) = (self.marks.get_mut(number), tables.get(number))
                && !write_table(marks, &mut self.output, group(number), table, slice)
            {
                return false;
            }
            self.turn += 1;
        }
        true
    }

    /// Writes all entries that are left; the chunks stay here until they are asked for.
    pub(super) fn write_all<K: Key, V: Kept>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        group: impl Fn(usize) -> u32,
    ) {
        let stored = std::mem::replace(&mut self.output.stored, false);
        self.write(tables, group, &mut Slice::whole());
        self.output.stored = stored;
    }
}

/// Writes entries of a table until the slice ends. Returns true if the table is written out.
fn write_table<K: Key, V: Kept>(
    marks: &mut Marks,
    output: &mut Output,
    group: u32,
    table: &HashTable<(K, V)>,
    slice: &mut Slice<'_>,
) -> bool {
    let buckets = if marks.is_written_out() { 0 } else { table.num_buckets() };
    let mut passed_over = 0;
    while marks.next < buckets {
        if output.waits() {
            slice.wait();
            return false;
        }
        let bucket = marks.next;
        let written = marks.is_written(bucket);
        marks.next += 1;
        let goes_on = match table.get_bucket(bucket) {
            Some(entry) if !written => slice.goes_on(output.entry(Turn::Ordered, group, entry)),
            _ => {
                passed_over += 1;
                passed_over % LOOK != 0 || slice.goes_on(LOOK)
            }
        };
        if !goes_on {
            return false;
        }
    }
    marks.next = usize::MAX;
    true
}

/// The access to a table that is not written out.
pub(super) struct Access<'a> {
    pub(super) marks: &'a mut Marks,
    output: &'a mut Output,
}

impl Access<'_> {
    /// Writes an entry before it is changed, unless it is written already.
    pub(super) fn write_first<K: Key, V: Kept>(
        &mut self,
        bucket: usize,
        group: u32,
        entry: &(K, V),
    ) -> Result<(), StateError> {
        if self.marks.is_written(bucket) {
            return Ok(());
        }
        self.output.entry(Turn::Early, group, entry);
        self.marks.mark(bucket);
        Ok(check_written()?)
    }
}

#[cfg(test)]
mod tests;
