//! The in-memory backend: hash tables, at least [`TABLES`] of them, each for one key group or a part of one. Small
//! tables grow in short steps: one table of a million keys stops the task for milliseconds when it doubles.

use super::{
    Free, Kept, KeyAddress, KeyGroups, Place, StateBackend, StateError, Taken, ahead::Places,
};
use crate::types::{Key, key_hash};
use hashbrown::{
    HashTable,
    hash_table::{Entry, OccupiedEntry, VacantEntry},
};

/// The least number of hash tables of a subtask that owns any key group.
const TABLES: usize = 128;

/// The first bit of a hash that says which part of its key group it belongs to: above those that make the group.
const PART_BIT: u32 = 47;

/// Returns the logarithm of the number of hash tables that each of those groups has.
pub(crate) fn part_bits(groups: &KeyGroups) -> u32 {
    TABLES.div_ceil(groups.owned.len().max(1)).next_power_of_two().trailing_zeros()
}

/// Values by key.
#[derive(Debug)]
pub struct Table<K, V> {
    /// Of each owned group its parts, group by group; none before the first key. A hundred of them are 4 KiB.
    parts: Vec<HashTable<(K, V)>>,
    /// The logarithm of the number of parts of a group.
    part_bits: u32,
    range: KeyGroups,
    places: Places,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self::new(KeyGroups { owned: 0..0, max_parallelism: 1 })
    }
}

impl<K, V> Table<K, V> {
    /// Makes an empty table for those groups.
    pub fn new(range: KeyGroups) -> Self {
        Self { parts: Vec::new(), part_bits: part_bits(&range), range, places: Places::default() }
    }

    /// Returns the hash tables: those of the first owned group, then those of the next one. Where no key ever came there are
    /// none.
    pub(crate) fn parts_mut(&mut self) -> &mut [HashTable<(K, V)>] {
        &mut self.parts
    }

    /// Returns the bytes that the hash tables take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.allocation_size() as u64).sum()
    }

    #[cold]
    fn not_owned(range: &KeyGroups, group: u32) -> StateError {
        StateError::NotOwned { group, first: range.owned.start, end: range.owned.end }
    }

    /// Makes the hash tables, if there are none.
    #[cold]
    fn make_parts(&mut self) {
        if self.parts.is_empty() {
            self.parts.resize_with(self.range.owned.len() << self.part_bits, HashTable::new);
        }
    }

    /// Returns the number of the hash table that a key is in.
    #[inline]
    fn place_of_part(&self, at: KeyAddress) -> usize {
        let group = at.group.wrapping_sub(self.range.owned.start) as usize;
        let part = (at.hash >> PART_BIT) as usize & ((1 << self.part_bits) - 1);
        group << self.part_bits | part
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

    /// Returns the tables of a group; none where this subtask does not own it.
    fn group(&self, group: u32) -> &[HashTable<(K, V)>] {
        let first = (group.wrapping_sub(self.range.owned.start) as usize) << self.part_bits;
        self.parts.get(first..first + (1 << self.part_bits)).unwrap_or_default()
    }
}

impl<K: Key, V> Table<K, V> {
    /// Returns the place of a key, taken or free. `same` sees the keys that have the same hash.
    ///
    /// # Errors
    /// When this subtask does not own the key.
    #[inline]
    pub fn entry(
        &mut self,
        at: KeyAddress,
        mut same: impl FnMut(&K) -> bool,
    ) -> Result<Entry<'_, (K, V)>, StateError> {
        Ok(self.part(at)?.entry(at.hash, |(key, _)| same(key), |(key, _)| key_hash(key)))
    }

    /// Prepares for [`Table::fetch_ahead`]. Returns whether the tables are so large that it pays.
    pub(crate) fn reads_ahead(&mut self) -> bool {
        self.places.find(&self.parts)
    }

    /// Fetches the place of a key that comes soon into the processor's cache.
    #[inline]
    pub(crate) fn fetch_ahead(&self, at: KeyAddress) {
        self.places.fetch(self.place_of_part(at), at.hash, size_of::<(K, V)>());
    }

    /// Returns what is kept for a key.
    pub(crate) fn get(&self, at: KeyAddress, key: &K) -> Option<&V> {
        let part = self.parts.get(self.place_of_part(at))?;
        let found = part.find(at.hash, |(stored, _)| stored == key);
        found.map(|(_, value)| value)
    }

    /// Removes a key and returns what was kept for it.
    pub fn remove(&mut self, at: KeyAddress, key: &K) -> Option<V> {
        let found = self.part(at).ok()?.find_entry(at.hash, |(stored, _)| stored == key);
        Some(found.ok()?.remove().0.1)
    }
}

impl<K, V> Taken<K, V> for OccupiedEntry<'_, (K, V)> {
    #[inline]
    fn entry(&mut self) -> (&K, &mut V) {
        let (key, value) = self.get_mut();
        (key, value)
    }
    #[inline]
    fn remove(self) {
        OccupiedEntry::remove(self);
    }
}

impl<K, V> Free<K, V> for VacantEntry<'_, (K, V)> {
    #[inline]
    fn insert(self, key: K, state: V) {
        VacantEntry::insert(self, (key, state));
    }
}

impl<K: Key, V: Kept> StateBackend<K, V> for Table<K, V> {
    type Taken<'a> = OccupiedEntry<'a, (K, V)>;
    type Free<'a> = VacantEntry<'a, (K, V)>;
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
        Ok(match self.entry(at, same)? {
            Entry::Occupied(taken) => Place::Taken(taken),
            Entry::Vacant(free) => Place::Free(free),
        })
    }

    fn reads_ahead(&mut self) -> bool {
        Table::reads_ahead(self)
    }

    #[inline]
    fn fetch_ahead(&self, at: KeyAddress) {
        Table::fetch_ahead(self, at);
    }

    fn restore(&mut self, at: KeyAddress, key: K, state: V) -> Result<(), StateError> {
        match self.entry(at, |stored| *stored == key)? {
            Entry::Occupied(mut taken) => taken.get_mut().1 = state,
            Entry::Vacant(free) => Free::insert(free, key, state),
        }
        Ok(())
    }

    fn for_each(&mut self, group: u32, each: &mut dyn FnMut(&K, &V)) -> Result<(), StateError> {
        self.group(group).iter().flatten().for_each(|(key, state)| each(key, state));
        Ok(())
    }

    /// Takes the entries of the last hash table that has any.
    fn take_part(&mut self) -> Result<Option<Vec<(K, V)>>, StateError> {
        while let Some(part) = self.parts.last_mut() {
            if !part.is_empty() {
                return Ok(Some(std::mem::take(part).into_iter().collect()));
            }
            self.parts.pop();
        }
        Ok(None)
    }
}
