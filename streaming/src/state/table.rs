//! The in-memory backend: hash tables, at least [`TABLES`] of them, each for one key group or a part of one. Small
//! tables grow in short steps: one table of a million keys stops the task for milliseconds when it doubles.

use super::{KeyAddress, KeyGroups};
use crate::types::{CodecError, FlottType, Key, Reader, key_hash, write_len, write_varint};
use hashbrown::{
    HashTable,
    hash_table::{Entry, OccupiedEntry, VacantEntry},
};
use thiserror::Error;

/// A key came to a subtask that does not own it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a record of key group {group} came to the subtask that owns groups {first} to {end} (exclusive)"
)]
pub struct AccessError {
    /// Of the key.
    pub group: u32,
    /// First owned group.
    pub first: u32,
    /// Behind the last owned group.
    pub end: u32,
}

/// The least number of hash tables of a subtask that owns any key group.
const TABLES: usize = 128;

/// The first bit of a hash that says which part of its key group it belongs to: above those that make the group.
const PART_BIT: u32 = 47;

/// Values by key.
#[derive(Debug, Clone)]
pub struct Table<K, V> {
    /// Of each owned group its parts, group by group.
    parts: Vec<HashTable<(K, V)>>,
    /// The logarithm of the number of parts of a group.
    part_bits: u32,
    range: KeyGroups,
}

impl<K: Key, V> Table<K, V> {
    /// Empty, for those groups.
    pub fn new(range: KeyGroups) -> Self {
        let groups = range.owned.len();
        let part_bits = TABLES.div_ceil(groups.max(1)).next_power_of_two().trailing_zeros();
        let parts = (0..groups << part_bits).map(|_| HashTable::new()).collect();
        Self { parts, part_bits, range }
    }

    /// The key groups.
    pub fn key_groups(&self) -> &KeyGroups {
        &self.range
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.parts.iter().map(HashTable::len).sum()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(HashTable::is_empty)
    }

    #[cold]
    fn out_of_range(range: &KeyGroups, group: u32) -> AccessError {
        AccessError { group, first: range.owned.start, end: range.owned.end }
    }

    #[inline]
    fn index(&self, at: KeyAddress) -> usize {
        let group = at.group.wrapping_sub(self.range.owned.start) as usize;
        let part = (at.hash >> PART_BIT) as usize & ((1 << self.part_bits) - 1);
        group << self.part_bits | part
    }

    #[inline]
    fn part_mut(&mut self, at: KeyAddress) -> Result<&mut HashTable<(K, V)>, AccessError> {
        let index = self.index(at);
        let part = self.parts.get_mut(index);
        part.ok_or_else(|| Self::out_of_range(&self.range, at.group))
    }

    /// The place of a key, taken or free. The comparison sees the keys that have the same hash.
    ///
    /// # Errors
    /// When this subtask does not own the key.
    #[inline]
    pub fn place(
        &mut self,
        at: KeyAddress,
        same: impl FnMut(&(K, V)) -> bool,
    ) -> Result<Entry<'_, (K, V)>, AccessError> {
        Ok(self.part_mut(at)?.entry(at.hash, same, |(key, _)| key_hash(key)))
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.get_at(self.range.address(key), key)
    }

    /// The value of a key at its address.
    #[inline]
    pub fn get_at(&self, at: KeyAddress, key: &K) -> Option<&V> {
        let part = self.parts.get(self.index(at))?;
        part.find(at.hash, |(k, _)| k == key).map(|(_, value)| value)
    }

    /// The value of a key at its address; made where there is none.
    ///
    /// # Errors
    /// When this subtask does not own the key.
    #[inline]
    pub fn get_or_insert_at(
        &mut self,
        at: KeyAddress,
        key: &K,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, AccessError> {
        let entry = match self.place(at, |(k, _)| k == key)? {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert((key.clone(), make())),
        };
        Ok(&mut OccupiedEntry::into_mut(entry).1)
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// When this subtask does not own the key.
    pub fn insert_at(
        &mut self,
        at: KeyAddress,
        key: &K,
        value: V,
    ) -> Result<Option<V>, AccessError> {
        Ok(match self.place(at, |(k, _)| k == key)? {
            Entry::Occupied(mut entry) => Some(std::mem::replace(&mut entry.get_mut().1, value)),
            Entry::Vacant(entry) => {
                VacantEntry::insert(entry, (key.clone(), value));
                None
            }
        })
    }

    /// Forgets a key.
    pub fn remove_at(&mut self, at: KeyAddress, key: &K) -> Option<V> {
        let part = self.part_mut(at).ok()?;
        let entry = part.find_entry(at.hash, |(k, _)| k == key).ok()?;
        Some(entry.remove().0.1)
    }

    /// All keys and values, group by group.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.parts.iter().flatten()
    }

    /// Takes the entries of the last part that has any; `None` when nothing is left.
    pub fn take_part(&mut self) -> Option<Vec<(K, V)>> {
        while let Some(part) = self.parts.last_mut() {
            if part.is_empty() {
                self.parts.pop();
                continue;
            }
            return Some(std::mem::take(part).into_iter().collect());
        }
        None
    }
}

impl<K: Key, V: FlottType> Table<K, V> {
    /// Appends the groups: their number, then of each its number, its entries' count and the entries.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_len(self.range.owned.len(), out);
        for (number, group) in self.range.owned.clone().zip(self.parts.chunks(1 << self.part_bits))
        {
            write_varint(u64::from(number), out);
            write_len(group.iter().map(HashTable::len).sum(), out);
            for (key, value) in group.iter().flatten() {
                key.encode(out);
                value.encode(out);
            }
        }
    }

    /// Adds what [`Table::write`] of some subtask wrote, as far as this one owns it.
    ///
    /// # Errors
    /// When the bytes are no groups of such a table.
    pub fn read(&mut self, input: &mut Reader<'_>) -> Result<(), CodecError> {
        let groups = input.count()?;
        for _ in 0..groups {
            let group = u32::decode(input)?;
            let entries = input.count()?;
            for _ in 0..entries {
                let key = K::decode(input)?;
                let value = V::decode(input)?;
                let at = self.range.address(&key);
                if at.group != group {
                    return Err(CodecError::Invalid { what: "key group" });
                }
                if self.range.owned.contains(&group) {
                    let _replaced = self
                        .insert_at(at, &key, value)
                        .map_err(|_| CodecError::Invalid { what: "key group" })?;
                }
            }
        }
        Ok(())
    }
}
