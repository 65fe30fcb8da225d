//! A snapshot of in-memory tables that is written while records change the state: of one table, or of several that share an
//! [`Output`], as those of a window's panes.
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
//! Every chunk is a snapshot of its own, so that a restore reads only those with the key groups that it needs. A chunk that is written in
//! turn has the groups of a few tables. What is written because it is about to change goes into chunks of its own, of large state one for
//! each eighth of the key groups. What an operator writes before its entries, such as timers, is a chunk of its own, of any group.

mod output;

pub(crate) use output::Output;

use super::{StateError, changes::Buckets, chunks::Slice, row::RowWriter};
use crate::types::{Key, check_written};
use hashbrown::HashTable;
use output::Turn;

/// A table is written before all others if its free places are fewer than this part of all: a sixteenth.
const NEAR_GROWTH: usize = 16;
/// The number of empty or written buckets that are passed over between two looks at the slice.
const LOOK: usize = 256;

/// The progress of writing the hash tables of one [`Table`](super::Table).
#[derive(Debug, Default)]
pub(super) struct Written {
    marks: Vec<Marks>,
    /// The numbers of the tables, in the order in which they are written; empty if no snapshot is being written.
    order: Vec<usize>,
    /// The place in `order` of the table at work.
    turn: usize,
}

/// The entries of one hash table that are written.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// One bit per bucket: true for an entry that is written or did not exist at the barrier.
    written: Vec<u64>,
    /// All entries in buckets before this one are written. `usize::MAX`: the table is written out.
    next: usize,
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

impl Written {
    /// Makes room for the marks of a table that has so many buckets.
    pub(super) fn resize(&mut self, table: usize, buckets: usize) {
        if self.marks.len() <= table {
            // A table that is made after the barrier has nothing of the snapshot; [`Written::begin`] resets all others.
            let written_out = || Marks { next: usize::MAX, ..Marks::default() };
            self.marks.resize_with(table + 1, written_out);
        }
        if let Some(marks) = self.marks.get_mut(table) {
            marks.resize(buckets);
        }
    }

    /// Begins a snapshot of the present contents of the tables.
    pub(super) fn begin<T>(&mut self, tables: &[HashTable<T>]) {
        self.marks.truncate(tables.len());
        for (number, table) in tables.iter().enumerate() {
            self.resize(number, table.num_buckets());
        }
        for marks in &mut self.marks {
            marks.written.fill(0);
            marks.next = 0;
        }
    }

    /// Leaves out of the snapshot that was begun all entries but those of the buckets that `changed` returns for a hash table; `None`: all
    /// of the table's entries are in the snapshot.
    pub(super) fn leave_out<'a>(&mut self, changed: impl Fn(usize) -> Option<&'a Buckets>) {
        for (number, marks) in self.marks.iter_mut().enumerate() {
            if let Some(changed) = changed(number) {
                for (word, others) in marks.written.iter_mut().zip(changed.others()) {
                    *word = others;
                }
            }
        }
    }

    /// Chooses the order for [`Written::write`], after [`Written::begin`].
    pub(super) fn put_in_order<T>(&mut self, tables: &[HashTable<T>]) {
        self.order_by(tables.len(), &|number| {
            let table = tables.get(number);
            table.map_or((0, 0), |table| (table.capacity() - table.len(), table.capacity()))
        });
    }

    /// Chooses the order of so many tables; `room` returns a table's free places and all of its places.
    fn order_by(&mut self, tables: usize, room: &dyn Fn(usize) -> (usize, usize)) {
        self.order.clear();
        self.order.extend(0..tables);
        // Tables in the order of their key groups make chunks with few groups.
        self.order.sort_by_cached_key(|number| {
            let (room, all) = room(*number);
            match room < all / NEAR_GROWTH {
                true => (0, room),
                false => (1, *number),
            }
        });
        self.turn = 0;
    }

    /// Returns the bytes that the marks take.
    pub(super) fn memory_bytes(&self) -> u64 {
        let marks = self.marks.iter().map(|marks| marks.written.capacity() * size_of::<u64>());
        marks.sum::<usize>() as u64
    }

    /// Prepares a table for an access: writes all of its entries if a new entry would make it grow. Returns the marks of the table,
    /// `None` if all of its entries are written. `rows` writes a value.
    pub(super) fn access<'a, K: Key, V>(
        &'a mut self,
        (number, group): (usize, u32),
        table: &HashTable<(K, V)>,
        output: &mut Output,
        rows: impl Fn(&V, &mut RowWriter),
    ) -> Result<Option<&'a mut Marks>, StateError> {
        let Some(marks) = self.marks.get_mut(number).filter(|marks| !marks.is_written_out()) else {
            return Ok(None);
        };
        if table.len() == table.capacity() {
            output.without_waiting(|output| {
                write_table(marks, output, group, table, &mut Slice::whole(), rows)
            });
            return check_written().map(|()| None).map_err(StateError::from);
        }
        Ok(Some(marks))
    }

    /// Writes entries in the chosen order until the slice ends. Returns true if all tables are written out.
    pub(super) fn write<K: Key, V>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        group: impl Fn(usize) -> u32,
        output: &mut Output,
        slice: &mut Slice<'_>,
        rows: impl Fn(&V, &mut RowWriter),
    ) -> bool {
        while let Some(number) = self.order.get(self.turn).copied() {
            if !self.write_one(tables, (number, group(number)), output, slice, &rows) {
                return false;
            }
            self.turn += 1;
        }
        true
    }

    /// Writes entries of one table until the slice ends. Returns true if the table is written out.
    pub(super) fn write_one<K: Key, V>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        (number, group): (usize, u32),
        output: &mut Output,
        slice: &mut Slice<'_>,
        rows: impl Fn(&V, &mut RowWriter),
    ) -> bool {
        match (self.marks.get_mut(number), tables.get(number)) {
            (Some(marks), Some(table)) => write_table(marks, output, group, table, slice, rows),
            _ => true,
        }
    }

    /// Writes all entries that are left; the chunks stay in the output until they are asked for.
    pub(super) fn write_all<K: Key, V>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        group: impl Fn(usize) -> u32,
        output: &mut Output,
        rows: impl Fn(&V, &mut RowWriter),
    ) {
        output.without_waiting(|output| {
            self.write(tables, group, output, &mut Slice::whole(), rows);
        });
    }
}

/// Writes entries of a table until the slice ends. Returns true if the table is written out.
fn write_table<K: Key, V>(
    marks: &mut Marks,
    output: &mut Output,
    group: u32,
    table: &HashTable<(K, V)>,
    slice: &mut Slice<'_>,
    rows: impl Fn(&V, &mut RowWriter),
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
            Some((key, value)) if !written => {
                let work = output.entry(Turn::Ordered, group, key, |writer| rows(value, writer));
                slice.goes_on(work)
            }
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

impl Marks {
    /// Writes an entry before it is changed, unless it is written already.
    pub(super) fn write_first<K: Key>(
        &mut self,
        bucket: usize,
        (group, key): (u32, &K),
        output: &mut Output,
        rows: impl FnOnce(&mut RowWriter),
    ) -> Result<(), StateError> {
        if self.is_written(bucket) {
            return Ok(());
        }
        output.entry(Turn::Early, group, key, rows);
        self.mark(bucket);
        Ok(check_written()?)
    }
}

#[cfg(test)]
mod tests;
