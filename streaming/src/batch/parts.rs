//! The records of a batch, handed on in parts from the front. A record keeps its event time.

use super::Batch;

/// The records of a batch that are handed on in parts, from the front. [`Batch::drain_parts`] makes one that borrows the batch,
/// [`OwnedParts`] owns its records.
#[derive(Debug)]
pub struct Parts<R, S> {
    pub(super) records: R,
    pub(super) times: S,
    pub(super) hashes: std::vec::IntoIter<u64>,
}

/// Parts that own the records and times of a batch, made by `OwnedParts::from(batch)`; the default has no records.
pub type OwnedParts<T> = Parts<std::vec::IntoIter<T>, std::vec::IntoIter<i64>>;

impl<T> Default for OwnedParts<T> {
    fn default() -> Self {
        Self::from(Batch::default())
    }
}

impl<T> From<Batch<T>> for OwnedParts<T> {
    fn from(batch: Batch<T>) -> Self {
        let Batch { records, times, hashes } = batch;
        Self { records: records.into_iter(), times: times.into_iter(), hashes: hashes.into_iter() }
    }
}

impl<R: ExactSizeIterator, S: ExactSizeIterator<Item = i64>> Parts<R, S> {
    /// Returns true if all records were handed on.
    pub fn is_empty(&self) -> bool {
        self.records.len() == 0
    }

    /// Moves the next `most` records, with their event times, to the end of a batch; all that are left if there are fewer. Moves none if
    /// none are left or `most` is 0.
    pub fn take_into(&mut self, most: usize, batch: &mut Batch<R::Item>) {
        if self.times.len() > 0 {
            batch.fill_times();
            batch.times.extend(self.times.by_ref().take(most));
        }
        let hashes = self.hashes.by_ref().take(most);
        match batch.hashes.len() == batch.records.len() {
            true => batch.hashes.extend(hashes),
            false => hashes.for_each(drop),
        }
        batch.records.extend(self.records.by_ref().take(most));
    }
}
