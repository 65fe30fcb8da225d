//! The in-memory backend: at least [`TABLES`] hash tables, each for one key group or a part of one. Small tables grow
//! in short steps, whereas one table of a million keys stops the task for milliseconds when it doubles.

mod place;

pub(crate) use place::PlaceInTable;
pub use place::{Occupied, Vacant};

use super::{
    Kept, KeyAddress, KeyGroups, Place, Slice, StateBackend, StateError,
    ahead::Places,
    backend::{Incremental, SnapshotKind},
    changes::Changes,
    row::RowWriter,
    writing::{Output, Written},
};
use crate::types::{Key, key_hash};
use hashbrown::{HashTable, hash_table::Entry};

/// The minimum number of hash tables of a subtask that owns a key group.
const TABLES: usize = 128;

/// The lowest bit of a hash that selects the part of a key group. With up to 32,768 key groups the bits below it select
/// the group.
const PART_BIT: u32 = 47;

/// Returns the base-2 logarithm of the number of hash tables for each of the owned groups.
pub(crate) fn part_bits(groups: &KeyGroups) -> u32 {
    TABLES.div_ceil(groups.owned.len().max(1)).next_power_of_two().trailing_zeros()
}

/// A map from keys to values in memory, divided into at least 128 hash tables by key group. As a [`StateBackend`] it keeps every key
/// resident and writes snapshots while records change the state. [`StateBackend::begin_incremental`] begins a full snapshot the first time
/// after a start or a [`StateBackend::begin_snapshot`], after a full one that was aborted or any of which it is not known whether it is
/// complete, while the last full one has at most [`Incremental::inline`] bytes, after 32 snapshots of changes in a row, after ones with
/// more than half of the full one's bytes in all, and after more than 16,384 removed keys; else one of changes.
#[derive(Debug)]
pub struct Table<K, V> {
    /// The hash tables, those of the first owned group first; empty before the first key. 100 empty tables take 4 KiB.
    parts: Vec<HashTable<(K, V)>>,
    /// The base-2 logarithm of the number of tables of a group.
    part_bits: u32,
    range: KeyGroups,
    places: Places,
    /// True while a snapshot is being written.
    is_writing: bool,
    /// True while a snapshot is being written or changes are followed: an access then does more than find a place.
    is_watched: bool,
    /// The marks of written entries, or the memory for them; `None` before the first snapshot of small state.
    written: Option<Box<Written>>,
    /// The chunks of the table's own snapshots; `None` as above, or if several tables share an output.
    output: Option<Box<Output>>,
    /// The changes since the last checkpoint; `None` while nobody follows them.
    changes: Option<Box<Changes<K>>>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self::new(KeyGroups { owned: 0..0, max_parallelism: 1 })
    }
}

impl<K, V> Table<K, V> {
    /// Returns an empty table for the keys of those groups. Allocates nothing before the first key.
    pub fn new(range: KeyGroups) -> Self {
        Self {
            parts: Vec::new(),
            part_bits: part_bits(&range),
            range,
            places: Places::default(),
            is_writing: false,
            is_watched: false,
            written: None,
            output: None,
            changes: None,
        }
    }

    /// Returns the hash tables, those of the first owned group first; none before the first key.
    pub(crate) fn parts_mut(&mut self) -> &mut [HashTable<(K, V)>] {
        &mut self.parts
    }

    /// Returns the bytes that the hash tables take, and the memory for snapshots that are written while the job runs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let tables: u64 = self.parts.iter().map(|part| part.allocation_size() as u64).sum();
        let written = self.written.as_ref().map_or(0, |written| written.memory_bytes());
        let changes = self.changes.as_ref().map_or(0, |changes| changes.memory_bytes());
        let output = self.output.as_ref().map_or(0, |output| output.memory_bytes());
        tables + written + output + changes
    }

    /// Begins the snapshot of the present entries. The caller has begun it in an [`Output`], which several tables share, and passes
    /// that to every access until it calls [`Table::end_writing`].
    pub(crate) fn begin_writing(&mut self, output: &mut Output) {
        self.written.get_or_insert_default().begin(&self.parts);
        self.set_writing(true);
        let entries: usize = self.parts.iter().map(HashTable::len).sum();
        // Without what entries own elsewhere.
        output.expect(entries * size_of::<(K, V)>());
    }

    /// Begins the snapshot of the present entries in the table's own output.
    fn begin_own(&mut self, first: &[u8], head: &[u8]) {
        let mut output = self.output.take().unwrap_or_default();
        output.begin(&self.range.owned, first, head);
        self.begin_writing(&mut output);
        self.output = Some(output);
        if let Some(written) = &mut self.written {
            written.put_in_order(&self.parts);
        }
    }

    /// Ends a snapshot all of whose entries are written.
    pub(crate) fn end_writing(&mut self) {
        self.set_writing(false);
    }

    fn set_writing(&mut self, is_writing: bool) {
        self.is_writing = is_writing;
        self.is_watched = is_writing || self.changes.is_some();
    }

    /// Returns true while a snapshot is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.is_writing
    }

    #[cold]
    fn not_owned(range: &KeyGroups, group: u32) -> StateError {
        StateError::NotOwned { group, first: range.owned.start, end: range.owned.end }
    }

    /// Creates the hash tables if there are none.
    #[cold]
    fn make_parts(&mut self) {
        if self.parts.is_empty() {
            self.parts.resize_with(self.range.owned.len() << self.part_bits, HashTable::new);
        }
    }

    /// Returns the index of a key's hash table; out of range if this subtask does not own the key's group.
    #[inline]
    fn place_of_part(&self, at: KeyAddress) -> usize {
        part_of(at, self.range.owned.start, self.part_bits)
    }

    #[inline]
    fn part(&mut self, at: KeyAddress) -> Result<&mut HashTable<(K, V)>, StateError> {
        let part = self.place_of_part(at);
        if part >= self.parts.len() {
            self.make_parts();
        }
        let part = self.parts.get_mut(part);
        part.ok_or_else(|| Self::not_owned(&self.range, at.group))
    }

    /// Returns the hash tables of a group; none if this subtask does not own the group.
    fn group(&self, group: u32) -> &[HashTable<(K, V)>] {
        let first = (group.wrapping_sub(self.range.owned.start) as usize) << self.part_bits;
        self.parts.get(first..first + (1 << self.part_bits)).unwrap_or_default()
    }
}

impl<K: Key, V> Table<K, V> {
    /// Returns the place of a key, occupied or vacant. Must not be used to change entries while a snapshot is being written, which would
    /// then miss the old values, nor after [`StateBackend::begin_incremental`], because the next snapshot of changes would miss the new
    /// ones. `same` is called with stored keys whose hashes may be equal and returns true for the wanted one.
    ///
    /// # Errors
    /// Fails with [`StateError::NotOwned`] if this subtask does not own the key's group.
    #[inline]
    pub fn entry(
        &mut self,
        at: KeyAddress,
        mut same: impl FnMut(&K) -> bool,
    ) -> Result<Entry<'_, (K, V)>, StateError> {
        Ok(self.part(at)?.entry(at.hash, |(key, _)| same(key), |(key, _)| key_hash(key)))
    }

    /// Prepares for [`Table::fetch_ahead`]. Returns true if the tables are larger than the processor's caches. `output` is that of the
    /// table's snapshots, `None` for the table's own; its memory is allocated and touched when the state grows, not when a barrier
    /// comes.
    pub(crate) fn reads_ahead_with(&mut self, mut output: Option<&mut Output>) -> bool {
        let Self { places, parts, written, output: own, .. } = self;
        places.find(parts, |number, buckets| {
            match &mut output {
                Some(output) => output.prepare(),
                None => own.get_or_insert_default().prepare(),
            }
            written.get_or_insert_default().resize(number, buckets);
        })
    }

    /// Returns the value of a key; `None` if the key has none or is not owned.
    pub(crate) fn get(&self, at: KeyAddress, key: &K) -> Option<&V> {
        let part = self.parts.get(self.place_of_part(at))?;
        let found = part.find(at.hash, |(stored, _)| stored == key);
        found.map(|(_, value)| value)
    }

    /// Removes a key and returns its value; `None` if the key has none or is not owned. Must not be called while a snapshot is being
    /// written, nor after [`StateBackend::begin_incremental`], because the next snapshot of changes would still have the key.
    pub fn remove(&mut self, at: KeyAddress, key: &K) -> Option<V> {
        let found = self.part(at).ok()?.find_entry(at.hash, |(stored, _)| stored == key);
        Some(found.ok()?.remove().0.1)
    }

    /// Finds a key's place as [`StateBackend::place`] does. `output` is that of the table's snapshots, which several tables may
    /// share, `None` for the table's own; `rows` writes a value to it.
    #[inline]
    pub(crate) fn place_with(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
        output: Option<&mut Output>,
        rows: impl Fn(&V, &mut RowWriter),
    ) -> Result<PlaceInTable<'_, K, V>, StateError> {
        if self.is_watched {
            return self.place_watched(at, same, output, rows);
        }
        Ok(match self.entry(at, same)? {
            Entry::Occupied(entry) => Place::Taken(Occupied { entry, removed: None }),
            Entry::Vacant(entry) => Place::Free(Vacant { entry, marks: None, changed: None }),
        })
    }

    /// Returns the place of a key while a snapshot is being written or changes are followed: the key's old value is written first, to
    /// `output` or to the table's own, and the change is marked. A hash table that is written out needs no such care.
    #[inline(never)]
    fn place_watched(
        &mut self,
        at: KeyAddress,
        mut same: impl FnMut(&K) -> bool,
        output: Option<&mut Output>,
        rows: impl Fn(&V, &mut RowWriter),
    ) -> Result<PlaceInTable<'_, K, V>, StateError> {
        let number = self.place_of_part(at);
        if number >= self.parts.len() {
            self.make_parts();
        }
        let Self { parts, written, output: own, changes, is_writing, .. } = self;
        let part = parts.get_mut(number);
        let part = part.ok_or_else(|| Self::not_owned(&self.range, at.group))?;
        let is_full = part.len() == part.capacity();
        let followed = changes.as_deref_mut().map(|changes| changes.access(number, is_full));
        let (changed, removed) = followed.map_or((None, None), |(set, keys)| (set, Some(keys)));
        let output = output.or(own.as_deref_mut());
        let writing = written.as_deref_mut().zip(output).filter(|_| *is_writing);
        let (marks, output) = match writing {
            Some((written, output)) => {
                let marks = written.access((number, at.group), part, output, &rows)?;
                (marks, Some(output))
            }
            None => (None, None),
        };
        let entry = part.entry(at.hash, |(key, _)| same(key), |(key, _)| key_hash(key));
        Ok(match entry {
            Entry::Occupied(entry) => {
                if let Some((marks, output)) = marks.zip(output) {
                    let (key, value) = entry.get();
                    let of = (at.group, key);
                    marks.write_first(entry.bucket_index(), of, output, |to| rows(value, to))?;
                }
                if let Some(changed) = changed {
                    changed.mark(entry.bucket_index());
                }
                Place::Taken(Occupied { entry, removed: removed.map(|keys| (keys, at)) })
            }
            Entry::Vacant(entry) => Place::Free(Vacant { entry, marks, changed }),
        })
    }

    /// Returns the state of a key while changes are followed, and marks the change; `None` while a snapshot is being written.
    #[inline(never)]
    fn at_hand_watched(
        &mut self,
        at: KeyAddress,
        mut same: impl FnMut(&K) -> bool,
    ) -> Option<&mut V> {
        if self.is_writing {
            return None;
        }
        let part = self.place_of_part(at);
        let found = self.parts.get_mut(part)?.find_entry(at.hash, |(key, _)| same(key));
        let entry = found.ok()?;
        if let Some(changes) = &mut self.changes
            && let (Some(changed), _) = changes.access(part, false)
        {
            changed.mark(entry.bucket_index());
        }
        Some(&mut entry.into_mut().1)
    }

    /// Writes entries of the hash table `part` to `output` until the slice ends. Returns true if the hash table is written out.
    pub(crate) fn write_part(
        &mut self,
        part: usize,
        output: &mut Output,
        slice: &mut Slice<'_>,
        rows: impl Fn(&V, &mut RowWriter),
    ) -> bool {
        let of = (part, group_of(part, self.range.owned.start, self.part_bits));
        let written = self.written.as_mut().filter(|_| self.is_writing);
        written.is_none_or(|written| written.write_one(&self.parts, of, output, slice, rows))
    }
}

impl<K: Key, V: Kept> StateBackend<K, V> for Table<K, V> {
    type Taken<'a> = Occupied<'a, K, V>;
    type Free<'a> = Vacant<'a, K, V>;
    const ALWAYS_RESIDENT: bool = true;

    fn open(&mut self, groups: KeyGroups) {
        *self = Self::new(groups);
    }

    fn memory_bytes(&self) -> u64 {
        Table::memory_bytes(self)
    }

    #[inline]
    fn place(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&K) -> bool,
    ) -> Result<Place<Self::Taken<'_>, Self::Free<'_>>, StateError> {
        self.place_with(at, same, None, V::write)
    }

    #[inline(always)]
    fn at_hand(&mut self, at: KeyAddress, mut same: impl FnMut(&K) -> bool) -> Option<&mut V> {
        if self.is_watched {
            return self.at_hand_watched(at, same);
        }
        let part = self.place_of_part(at);
        let found = self.parts.get_mut(part)?.find_mut(at.hash, |(key, _)| same(key));
        found.map(|(_, state)| state)
    }

    fn reads_ahead(&mut self) -> bool {
        self.reads_ahead_with(None)
    }

    #[inline]
    fn fetch_ahead(&self, at: KeyAddress) {
        self.places.fetch(self.place_of_part(at), at.hash, size_of::<(K, V)>());
    }

    fn restore(&mut self, at: KeyAddress, key: K, state: V) -> Result<(), StateError> {
        match self.entry(at, |stored| *stored == key)? {
            Entry::Occupied(mut taken) => taken.get_mut().1 = state,
            Entry::Vacant(free) => {
                free.insert((key, state));
            }
        }
        Ok(())
    }

    fn restore_joined(
        &mut self,
        at: KeyAddress,
        key: K,
        part: V,
        join: fn(&mut V, V),
    ) -> Result<(), StateError> {
        match self.entry(at, |stored| *stored == key)? {
            Entry::Occupied(mut taken) => join(&mut taken.get_mut().1, part),
            Entry::Vacant(free) => {
                free.insert((key, part));
            }
        }
        Ok(())
    }

    fn for_each(&mut self, group: u32, each: &mut dyn FnMut(&K, &V)) -> Result<(), StateError> {
        self.group(group).iter().flatten().for_each(|(key, state)| each(key, state));
        Ok(())
    }

    fn begin_snapshot(&mut self, first: &[u8], head: &[u8]) -> bool {
        // The next snapshot cannot build on this one, nor on those before.
        self.changes = None;
        self.begin_own(first, head);
        true
    }

    fn begin_incremental(&mut self, incremental: &Incremental<'_>) -> Option<SnapshotKind> {
        let Incremental { checkpoint, inline, is_aborted, head, changes_head } = *incremental;
        let bytes = self.output.as_ref().map_or(0, |output| output.bytes());
        let buckets = self.parts.iter().map(HashTable::num_buckets);
        let base = match &mut self.changes {
            Some(changes) => changes.begin(checkpoint, is_aborted, (bytes, inline), buckets),
            none => {
                *none = Some(Box::new(Changes::since(checkpoint, buckets)));
                None
            }
        };
        let head = if base.is_some() { changes_head } else { head };
        self.begin_own(head, head);
        let Some(base) = base else { return Some(SnapshotKind::Full) };
        let Self { parts, written, output, changes, .. } = self;
        let (Some(written), Some(output), Some(changes)) = (written, output, changes) else {
            return Some(SnapshotKind::Full);
        };
        written.leave_out(|table| changes.before(table));
        let owns = self.range.owned.start;
        for (at, key) in changes.removed() {
            let part = part_of(*at, owns, self.part_bits);
            let found = parts.get(part).and_then(|p| p.find(at.hash, |(stored, _)| stored == key));
            if found.is_none() {
                output.removed(at.group, key);
            }
        }
        Some(SnapshotKind::Changes { base })
    }

    fn checkpoint_complete(&mut self, checkpoint: u64) {
        if let Some(changes) = &mut self.changes {
            changes.complete(checkpoint);
        }
    }

    fn restore_removed(&mut self, at: KeyAddress, key: &K) -> Result<(), StateError> {
        self.remove(at, key);
        Ok(())
    }

    fn write_snapshot(&mut self, slice: &mut Slice<'_>) -> Result<bool, StateError> {
        let (first, bits) = (self.range.owned.start, self.part_bits);
        let Self { parts, written, output, .. } = self;
        let Some((written, output)) =
            written.as_mut().zip(output.as_mut()).filter(|_| self.is_writing)
        else {
            return Ok(true);
        };
        let done = output.advance(slice, |output, slice| {
            written.write(parts, |part| group_of(part, first, bits), output, slice, V::write)
        })?;
        self.set_writing(!done);
        Ok(done)
    }

    fn abort_snapshot(&mut self) -> bool {
        if let Some(output) = self.output.as_mut().filter(|_| self.is_writing) {
            output.abort();
        }
        self.set_writing(false);
        true
    }

    fn waits_for_storage(&self) -> bool {
        self.is_writing && self.output.as_ref().is_some_and(|output| output.is_overdrawn())
    }

    /// Removes the entries of the last hash table that has any.
    fn take_part(&mut self) -> Result<Option<Vec<(K, V)>>, StateError> {
        if self.is_writing
            && let (Some(written), Some(output)) = (&mut self.written, &mut self.output)
        {
            let (first, bits) = (self.range.owned.start, self.part_bits);
            let group = |part| group_of(part, first, bits);
            written.write_all(&self.parts, group, output, V::write);
        }
        // The entries go without a trace.
        self.changes = None;
        while let Some(part) = self.parts.last_mut() {
            if !part.is_empty() {
                return Ok(Some(std::mem::take(part).into_iter().collect()));
            }
            self.parts.pop();
        }
        Ok(None)
    }
}

/// Returns the index of a key's hash table in a subtask whose first group is `first`; out of range if the subtask does not own the
/// key's group.
#[inline]
fn part_of(at: KeyAddress, first: u32, part_bits: u32) -> usize {
    let group = at.group.wrapping_sub(first) as usize;
    let part = (at.hash >> PART_BIT) as usize & ((1 << part_bits) - 1);
    group << part_bits | part
}

/// Returns the key group of a hash table.
fn group_of(part: usize, first: u32, part_bits: u32) -> u32 {
    // A subtask owns at most 32,768 groups.
    first + (part >> part_bits) as u32
}
