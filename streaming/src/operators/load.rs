//! The size at which records make a batch: a number of records, or of bytes. A type without memory on the heap has a constant number, so
//! that its records are never weighed.

use super::BATCH_RECORDS;
use crate::types::FlottType;
use std::cell::Cell;

/// Bytes that make a batch, unless a single record has more.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// Returns how many records of a type make a batch if they have no memory on the heap: as many as [`BATCH_BYTES`] hold with their
/// event times, at most [`BATCH_RECORDS`].
pub(crate) const fn records_of<T>() -> usize {
    let most = BATCH_BYTES / (size_of::<T>() + size_of::<i64>());
    match most {
        0 => 1,
        1..BATCH_RECORDS => most,
        _ => BATCH_RECORDS,
    }
}

/// Returns true if a batch of records of this type never has more than [`BATCH_BYTES`], however large its records are: they have no
/// memory on the heap, and [`BATCH_RECORDS`] of them fit.
pub(crate) const fn is_light<T>() -> bool {
    !std::mem::needs_drop::<T>() && records_of::<T>() == BATCH_RECORDS
}

/// The bytes of the records in a buffer that is being filled; 0 for types without memory on the heap.
#[derive(Debug, Default)]
pub(crate) struct Load(Cell<usize>);

impl Load {
    /// Adds a record that goes into the buffer.
    #[inline(always)]
    pub(crate) fn add<T: FlottType>(&self, record: &T) {
        if std::mem::needs_drop::<T>() {
            self.0.set(self.0.get().saturating_add(record.weight()));
        }
    }
    /// Returns true if the buffer, which has so many records, makes a batch.
    #[inline(always)]
    pub(crate) fn makes_batch<T>(&self, records: usize) -> bool {
        let most = const { records_of::<T>() };
        records >= most || (std::mem::needs_drop::<T>() && self.0.get() >= BATCH_BYTES)
    }
    /// Returns the bytes of the records; 0 for types without memory on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.0.get()
    }
    /// Forgets the records: the buffer was emptied.
    #[inline]
    pub(crate) fn clear(&self) {
        self.0.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_types_make_full_batches_and_others_are_bounded_by_bytes() {
        assert!(is_light::<u64>() && is_light::<(u64, [u64; 20])>() && !is_light::<String>());
        assert_eq!((records_of::<[u8; 1_016]>(), records_of::<[u8; 1 << 20]>()), (256, 1));
        let load = Load::default();
        for records in 1..=100 {
            load.add(&7_u64);
            assert!(!load.makes_batch::<u64>(records));
        }
        assert!(load.makes_batch::<u64>(BATCH_RECORDS));
        let text = "x".repeat(100_000);
        for records in 1..=3 {
            load.add(&text);
            assert_eq!(load.makes_batch::<String>(records), records == 3);
        }
        load.clear();
        assert!(!load.makes_batch::<String>(1));
    }
}
