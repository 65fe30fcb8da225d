//! Records which parts of the hash tables of a [`Table`](super::Table) have changed since a complete checkpoint, so that the next
//! snapshot need not contain the rest. A snapshot must never build on a checkpoint that may not be complete: the objects of such a
//! one are deleted.
//!
//! Two sets of marks, one bit per bucket, tell what has changed between the last complete checkpoint and the last barrier, and since
//! that barrier. If the checkpoint of that barrier becomes complete, the first set is dropped; if it is aborted, the sets are joined,
//! and the next snapshot contains both. A table that grows loses the places of its entries: all of them then count as changed.

use super::KeyAddress;

/// The most snapshots in a row that contain changes only: a restore reads all of them.
const CHAIN_MAX: u32 = 32;
/// The most removed keys that are remembered; with more the next snapshot is a full one. Looking all of them up takes 1 ms.
const REMOVED_MAX: usize = 16 << 10;

/// The changes of one table.
#[derive(Debug)]
pub(super) struct Changes<K> {
    /// The complete checkpoint that the next snapshot may build on.
    base: Option<u64>,
    /// The newest snapshot that was begun.
    last: Last,
    /// The marks of each hash table.
    tables: Vec<Changed>,
    /// The keys that were removed up to the last barrier, and since.
    removed_before: Removed<K>,
    removed: Removed<K>,
    /// The bytes of the full snapshot below `base`, of the changes on top of it, and their number.
    full_bytes: usize,
    changed_bytes: usize,
    chain: u32,
}

/// A snapshot that was begun.
#[derive(Debug, Clone, Copy)]
struct Last {
    checkpoint: u64,
    is_complete: bool,
    is_full: bool,
}

/// The marks of one hash table: from the base to the last barrier, and since.
#[derive(Debug, Default)]
struct Changed {
    before: Buckets,
    since: Buckets,
}

/// A set of buckets of one hash table.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    /// True if every bucket counts, because the entries have changed their places.
    all: bool,
    words: Vec<u64>,
}

/// Keys without state that may have some in an earlier snapshot.
#[derive(Debug)]
pub(super) struct Removed<K> {
    keys: Vec<(KeyAddress, K)>,
    /// True if more keys were removed than are remembered.
    are_too_many: bool,
}

impl<K> Default for Removed<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), are_too_many: false }
    }
}

impl<K> Removed<K> {
    pub(super) fn add(&mut self, at: KeyAddress, key: K) {
        match self.keys.len() < REMOVED_MAX {
            true => self.keys.push((at, key)),
            false => self.are_too_many = true,
        }
    }

    fn join(&mut self, later: Self) {
        self.are_too_many |= later.are_too_many || self.keys.len() + later.keys.len() > REMOVED_MAX;
        if !self.are_too_many {
            self.keys.extend(later.keys);
        }
    }
}

impl Buckets {
    pub(super) fn mark(&mut self, bucket: usize) {
        if let Some(word) = self.words.get_mut(bucket / 64) {
            *word |= 1 << (bucket % 64);
        }
    }

    /// Empties the set and makes room for so many buckets.
    fn reset(&mut self, buckets: usize) {
        self.all = false;
        self.words.clear();
        self.words.resize(buckets.div_ceil(64), 0);
    }

    fn join(&mut self, later: &Self) {
        // Sets of different sizes are of before and after a growth, where all counts.
        self.all |= later.all || self.words.len() != later.words.len();
        for (word, later) in self.words.iter_mut().zip(&later.words) {
            *word |= later;
        }
    }

    /// Returns the marks of all other buckets.
    pub(super) fn others(&self) -> impl Iterator<Item = u64> + '_ {
        let none = self.all;
        self.words.iter().map(move |word| if none { 0 } else { !word })
    }
}

impl<K> Changes<K> {
    /// Begins to follow changes with the full snapshot of this checkpoint.
    pub(super) fn since(checkpoint: u64, buckets: impl Iterator<Item = usize>) -> Self {
        let mut changes = Self {
            base: None,
            last: Last { checkpoint, is_complete: false, is_full: true },
            tables: Vec::new(),
            removed_before: Removed::default(),
            removed: Removed::default(),
            full_bytes: 0,
            changed_bytes: 0,
            chain: 0,
        };
        changes.reset(buckets);
        changes
    }

    fn reset(&mut self, buckets: impl Iterator<Item = usize>) {
        let mut tables = 0;
        for (number, buckets) in buckets.enumerate() {
            if self.tables.len() <= number {
                self.tables.push(Changed::default());
            }
            if let Some(table) = self.tables.get_mut(number) {
                table.since.reset(buckets);
            }
            tables = number + 1;
        }
        self.tables.truncate(tables);
    }

    /// Takes note that a checkpoint is complete.
    pub(super) fn complete(&mut self, checkpoint: u64) {
        self.last.is_complete |= self.last.checkpoint == checkpoint;
    }

    /// Begins the snapshot of a checkpoint. Returns the checkpoint that it may build on; `None` if it has to be a full one. `bytes` are
    /// those of the snapshot before, and a full snapshot of up to `inline` bytes needs no object; `is_aborted` tells whether its checkpoint
    /// was aborted, and `buckets` gives the size of each table.
    pub(super) fn begin(
        &mut self,
        checkpoint: u64,
        is_aborted: impl Fn(u64) -> bool,
        (bytes, inline): (usize, u64),
        buckets: impl Iterator<Item = usize>,
    ) -> Option<u64> {
        let last = self.last;
        let removed = std::mem::take(&mut self.removed);
        if last.is_complete {
            match last.is_full {
                true => (self.full_bytes, self.changed_bytes, self.chain) = (bytes, 0, 0),
                false => {
                    self.changed_bytes += bytes;
                    self.chain += 1;
                }
            }
            self.base = Some(last.checkpoint);
            for table in &mut self.tables {
                std::mem::swap(&mut table.before, &mut table.since);
            }
            self.removed_before = removed;
        } else if is_aborted(last.checkpoint) && self.base.is_some() {
            for table in &mut self.tables {
                table.before.join(&table.since);
            }
            self.removed_before.join(removed);
        } else {
            // Nobody knows yet whether the checkpoint is complete, and with it whether the objects of the base are still there.
            self.base = None;
        }
        self.reset(buckets);
        let is_long = self.chain >= CHAIN_MAX || self.changed_bytes > self.full_bytes / 2;
        let is_inline = self.full_bytes as u64 <= inline;
        if is_inline || is_long || self.removed_before.are_too_many {
            self.base = None;
        }
        self.last = Last { checkpoint, is_complete: false, is_full: self.base.is_none() };
        self.base
    }

    /// Returns the marks of a hash table between the base and the barrier; `None` if the table is newer.
    pub(super) fn before(&self, table: usize) -> Option<&Buckets> {
        self.tables.get(table).map(|changed| &changed.before)
    }

    /// Returns the keys that were removed between the base and the barrier. Some may have state again.
    pub(super) fn removed(&self) -> &[(KeyAddress, K)] {
        &self.removed_before.keys
    }

    /// Prepares for an access to a hash table, which is full if its next new entry makes it grow. Returns where the change is noted.
    pub(super) fn access(
        &mut self,
        table: usize,
        is_full: bool,
    ) -> (Option<&mut Buckets>, &mut Removed<K>) {
        let Some(Changed { since, .. }) = self.tables.get_mut(table) else {
            return (None, &mut self.removed);
        };
        since.all |= is_full;
        let marks = if since.all { None } else { Some(since) };
        (marks, &mut self.removed)
    }

    /// Returns about how many bytes the marks and the removed keys take.
    pub(super) fn memory_bytes(&self) -> u64 {
        let words = |set: &Buckets| set.words.capacity() * size_of::<u64>();
        let marks = self.tables.iter().map(|table| words(&table.before) + words(&table.since));
        let removed = self.removed.keys.capacity() + self.removed_before.keys.capacity();
        (marks.sum::<usize>() + removed * size_of::<(KeyAddress, K)>()) as u64
    }
}

#[cfg(test)]
mod tests;
