//! The place of a key in a table, occupied or vacant. It marks what a snapshot that is being written, or one of changes, has to know.

use crate::state::{
    Free, KeyAddress, Place, Taken,
    changes::{Buckets, Removed},
    writing::Marks,
};
use hashbrown::hash_table::{OccupiedEntry, VacantEntry};

/// The place of a key in a table.
pub(crate) type PlaceInTable<'a, K, V> = Place<Occupied<'a, K, V>, Vacant<'a, K, V>>;

/// The place of a key that has state in a [`Table`](crate::state::Table), which the table's `place` returns: gives access to key and state,
/// and removes them.
#[derive(Debug)]
pub struct Occupied<'a, K, V> {
    pub(super) entry: OccupiedEntry<'a, (K, V)>,
    /// The removed keys, while changes are followed, and the key's address.
    pub(super) removed: Option<(&'a mut Removed<K>, KeyAddress)>,
}

/// The place of a key that has no state in a [`Table`](crate::state::Table); inserting there stores the key.
#[derive(Debug)]
pub struct Vacant<'a, K, V> {
    pub(super) entry: VacantEntry<'a, (K, V)>,
    /// The marks of the table, in which a new entry is marked, so that a snapshot that is being written leaves it out.
    pub(super) marks: Option<&'a mut Marks>,
    /// The entries that have changed, in which a new one is marked while changes are followed.
    pub(super) changed: Option<&'a mut Buckets>,
}

impl<K, V> Free<K, V> for Vacant<'_, K, V> {
    #[inline]
    fn insert(self, key: K, state: V) {
        let entry = self.entry.insert((key, state));
        if let Some(marks) = self.marks {
            marks.mark(entry.bucket_index());
        }
        if let Some(changed) = self.changed {
            changed.mark(entry.bucket_index());
        }
    }
}

impl<K, V> Taken<K, V> for Occupied<'_, K, V> {
    #[inline]
    fn entry(&mut self) -> (&K, &mut V) {
        let (key, value) = self.entry.get_mut();
        (key, value)
    }
    #[inline]
    fn remove(self) {
        let ((key, _), _) = self.entry.remove();
        if let Some((removed, at)) = self.removed {
            removed.add(at, key);
        }
    }
}
