//! Reading ahead in hash tables that are larger than the processor's caches: the places of the next keys are loaded
//! into the cache while the function processes the records before them.
//!
//! Addresses here are hints for the processor only. Nothing may ever be read through them, so that an outdated address
//! costs time and nothing else.

#![expect(unsafe_code, reason = "a prefetch is an unsafe intrinsic")]

use crate::types::{Key, key_hash};
use hashbrown::HashTable;
use std::ptr;

/// The size in bytes from which state no longer fits into the caches of one core, so that reading ahead saves time.
const LARGE_BYTES: usize = 512 << 10;

/// The addresses of the buckets of a subtask's hash tables.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<Place>);

/// The addresses of the buckets of one table. Bucket `i` ends where bucket `i - 1` begins; bucket 0 is followed by one
/// control byte per bucket.
#[derive(Debug, Default, Clone, Copy)]
struct Place {
    buckets: usize,
    first: usize,
}

impl Places {
    /// Updates the addresses of those tables whose number of buckets has changed, and calls `changed` with the number of each of
    /// them and of its buckets. Returns true if the tables are so large that reading ahead saves time; updates nothing otherwise.
    pub(super) fn find<K: Key, V>(
        &mut self,
        tables: &[HashTable<(K, V)>],
        mut changed: impl FnMut(usize, usize),
    ) -> bool {
        let Some(some) = tables.first() else { return false };
        // Hashes spread keys evenly, so all tables have about the size of the first one.
        if some.num_buckets() * size_of::<(K, V)>() * tables.len() < LARGE_BYTES {
            return false;
        }
        self.0.resize(tables.len(), Place::default());
        for (number, (place, table)) in self.0.iter_mut().zip(tables).enumerate() {
            if place.buckets != table.num_buckets() {
                *place = Place::of(table);
                changed(number, place.buckets);
            }
        }
        true
    }

    /// Asks the processor to load the bucket of table number `table` at which a search for `hash` begins, and its
    /// control byte. `size` is the size of a bucket in bytes.
    #[inline]
    pub(super) fn fetch(&self, table: usize, hash: u64, size: usize) {
        let Some(place) = self.0.get(table) else { return };
        // In every version of hashbrown so far the lowest bits of the hash select the bucket.
        let bucket = hash as usize & place.buckets.wrapping_sub(1);
        fetch(place.first.wrapping_sub(bucket * size));
        fetch(place.first.wrapping_add(size + bucket));
    }
}

impl Place {
    fn of<K: Key, V>(table: &HashTable<(K, V)>) -> Self {
        let mut place = Self { buckets: table.num_buckets(), first: 0 };
        if let Some(some) = table.iter().next() {
            let index = table.find_bucket_index(key_hash(&some.0), |entry| ptr::eq(entry, some));
            let behind = index.unwrap_or(0) * size_of::<(K, V)>();
            place.first = ptr::from_ref(some).addr().wrapping_add(behind);
        }
        place
    }
}

/// Asks the processor to load the cache line of an address, which may be any number.
#[inline]
fn fetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_that_a_search_begins_with_is_found() {
        let mut table = HashTable::new();
        for n in 0..50_000_u64 {
            table.insert_unique(key_hash(&n), (n, n), |(key, _)| key_hash(key));
        }
        let mut places = Places::default();
        assert!(places.find(std::slice::from_ref(&table), |_, _| {}));
        let place = places.0[0];
        let size = size_of::<(u64, u64)>();
        let mut at_first = 0;
        for (key, value) in &table {
            let index = table.find_bucket_index(key_hash(key), |entry| entry.0 == *key).unwrap();
            let entry = table.get_bucket(index).unwrap();
            assert_eq!((entry.0, entry.1), (*key, *value));
            assert_eq!(ptr::from_ref(entry).addr(), place.first - index * size);
            let begin = key_hash(key) as usize & (place.buckets - 1);
            at_first += usize::from(index.wrapping_sub(begin) & (place.buckets - 1) < 16);
        }
        // Searches look at 16 buckets at a time, and few need more.
        assert!(at_first > 45_000, "{at_first}");
    }

    #[test]
    fn small_tables_and_those_that_nothing_is_in_are_left_alone() {
        let mut places = Places::default();
        assert!(!places.find::<u64, u64>(&[], |_, _| {}));
        let mut tables: Vec<HashTable<(u64, u64)>> = vec![HashTable::new(), HashTable::new()];
        assert!(!places.find(&tables, |_, _| {}));
        tables[0] = HashTable::with_capacity(60_000);
        assert!(places.find(&tables, |_, _| {}));
        places.fetch(0, 7, 16);
        places.fetch(1, 7, 16);
        places.fetch(2, 7, 16);
    }
}
