//! The moments at which the keys of windows are looked at next.

use crate::{
    state::{KeyAddress, KeyGroups, Table},
    types::Key,
};
use hashbrown::hash_table::Entry;
use std::collections::BTreeMap;

/// Keys ordered by the moment at which they are looked at next, in milliseconds. An entry that is not the key's last one is
/// outdated: it stays in the queue and is ignored when its turn comes.
pub(super) struct Queue<K> {
    moments: BTreeMap<i64, Vec<(KeyAddress, K)>>,
    /// Places of all moments together.
    len: usize,
    /// The moment of each key's last entry, where the state of a key may leave the memory and cannot remember it.
    beside: Option<Table<K, i64>>,
}

impl<K: Key> Queue<K> {
    /// Makes an empty queue for a backend that keeps all states in memory, where the state of a key remembers its moment.
    pub(super) fn new() -> Self {
        Self { moments: BTreeMap::new(), len: 0, beside: None }
    }

    /// Makes the queue remember the moments, for a backend that may read the state of a key anew.
    pub(super) fn remember_for(&mut self, groups: &KeyGroups) {
        self.beside = Some(Table::new(groups.clone()));
    }

    /// Queues a key to be looked at when time reaches `moment`.
    pub(super) fn push(&mut self, moment: i64, at: KeyAddress, key: &K) {
        self.moments.entry(moment).or_default().push((at, key.clone()));
        self.len += 1;
        self.remember(moment, at, key);
    }

    /// Notes that the key's entry at `moment` is its last one.
    pub(super) fn remember(&mut self, moment: i64, at: KeyAddress, key: &K) {
        let Some(beside) = &mut self.beside else { return };
        match beside.entry(at, |stored| stored == key) {
            Ok(Entry::Occupied(mut taken)) => taken.get_mut().1 = moment,
            Ok(Entry::Vacant(free)) => {
                free.insert((key.clone(), moment));
            }
            // The backend has refused the key before.
            Err(_) => {}
        }
    }

    /// Returns the moment of the key's last entry, if the queue remembers moments and the key has one.
    pub(super) fn remembered(&self, at: KeyAddress, key: &K) -> Option<i64> {
        self.beside.as_ref()?.get(at, key).copied()
    }

    /// Drops the moment of a key that has no state any more. Its entries stay and are ignored.
    pub(super) fn forget(&mut self, at: KeyAddress, key: &K) {
        if let Some(beside) = &mut self.beside {
            beside.remove(at, key);
        }
    }

    /// Returns the earliest moment, `None` if no key is queued.
    pub(super) fn first(&self) -> Option<i64> {
        self.moments.first_key_value().map(|(moment, _)| *moment)
    }

    /// Removes and returns a key with the earliest moment that is at most `until`; `None` if there is none.
    pub(super) fn pop(&mut self, until: i64) -> Option<(i64, KeyAddress, K)> {
        let mut slot = self.moments.first_entry().filter(|slot| *slot.key() <= until)?;
        let moment = *slot.key();
        let popped = slot.get_mut().pop();
        if slot.get().is_empty() {
            slot.remove();
        }
        self.len -= usize::from(popped.is_some());
        popped.map(|(at, key)| (moment, at, key))
    }

    /// Returns the number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns about how many bytes the queue takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let moment = size_of::<(i64, Vec<(KeyAddress, K)>)>();
        let queued = self.moments.len() * moment + self.len * size_of::<(KeyAddress, K)>();
        queued as u64 + self.beside.as_ref().map_or(0, Table::memory_bytes)
    }
}
