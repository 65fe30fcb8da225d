//! The in-memory backend: one hash table per owned key group.

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

/// Values by key.
#[derive(Debug, Clone)]
pub struct Table<K, V> {
    groups: Vec<HashTable<(K, V)>>,
    range: KeyGroups,
}

impl<K: Key, V> Table<K, V> {
    /// Empty, for those groups.
    pub fn new(range: KeyGroups) -> Self {
        let groups = range.owned.clone().map(|_| HashTable::new()).collect();
        Self { groups, range }
    }

    /// The key groups.
    pub fn key_groups(&self) -> &KeyGroups {
        &self.range
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.groups.iter().map(HashTable::len).sum()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(HashTable::is_empty)
    }

    fn out_of_range(&self, group: u32) -> AccessError {
        AccessError { group, first: self.range.owned.start, end: self.range.owned.end }
    }

    #[inline]
    fn group_mut(&mut self, group: u32) -> Result<&mut HashTable<(K, V)>, AccessError> {
        let missing = self.out_of_range(group);
        let index = group.wrapping_sub(self.range.owned.start) as usize;
        self.groups.get_mut(index).ok_or(missing)
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
        Ok(self.group_mut(at.group)?.entry(at.hash, same, |(key, _)| key_hash(key)))
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.range.address(key);
        let group = self.groups.get(at.group.wrapping_sub(self.range.owned.start) as usize)?;
        group.find(at.hash, |(k, _)| k == key).map(|(_, value)| value)
    }

    /// The value of a key at its address.
    #[inline]
    pub fn get_at(&self, at: KeyAddress, key: &K) -> Option<&V> {
        let group = self.groups.get(at.group.wrapping_sub(self.range.owned.start) as usize)?;
        group.find(at.hash, |(k, _)| k == key).map(|(_, value)| value)
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
        let group = self.group_mut(at.group).ok()?;
        let entry = group.find_entry(at.hash, |(k, _)| k == key).ok()?;
        Some(entry.remove().0.1)
    }

    /// All keys and values, group by group.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.groups.iter().flatten()
    }

    /// Takes the entries of the last group that has any; `None` when nothing is left.
    pub fn take_group(&mut self) -> Option<Vec<(K, V)>> {
        while let Some(group) = self.groups.last_mut() {
            if group.is_empty() {
                self.groups.pop();
                continue;
            }
            return Some(std::mem::take(group).into_iter().collect());
        }
        None
    }
}

impl<K: Key, V: FlottType> Table<K, V> {
    /// Appends the groups: their number, then of each its number, its entries' count and the entries.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_len(self.groups.len(), out);
        for (number, group) in self.range.owned.clone().zip(&self.groups) {
            write_varint(u64::from(number), out);
            write_len(group.len(), out);
            for (key, value) in group {
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
