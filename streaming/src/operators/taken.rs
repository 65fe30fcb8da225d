//! The snapshots that the operators of a chain have taken, until their task acknowledges the checkpoint. Nothing here writes one.

use super::ChainShared;
use crate::lock;
use bytes::Bytes;
use model::OperatorId;
use std::sync::atomic::Ordering;

/// The snapshots of a chain's operators for one checkpoint, each in chunks.
pub(crate) type Snapshots = Vec<(OperatorId, Vec<Bytes>)>;

impl ChainShared {
    /// Returns true if this checkpoint is the newest of those that were aborted: it will not be complete, and was not before.
    pub(crate) fn is_newest_aborted(&self, checkpoint: u64) -> bool {
        self.aborted.load(Ordering::Relaxed) == checkpoint.saturating_add(1)
    }

    /// Adds the chunks of an operator's snapshot, which the acknowledgement of the checkpoint will contain.
    pub(crate) fn add_snapshot(&self, checkpoint: u64, operator: OperatorId, chunks: Vec<Bytes>) {
        lock(&self.snapshots).entry(checkpoint).or_default().push((operator, chunks));
    }
    /// Records that an operator's snapshot for a checkpoint may be built on, and the checkpoint that it builds on itself.
    pub(crate) fn add_base(&self, checkpoint: u64, operator: OperatorId, base: Option<u64>) {
        lock(&self.bases).insert((checkpoint, operator), base);
    }
    /// Removes and returns what [`ChainShared::add_base`] has recorded for a checkpoint, and discards older records.
    pub(crate) fn take_bases(&self, checkpoint: u64) -> Vec<(OperatorId, Option<u64>)> {
        let mut bases = lock(&self.bases);
        let newer = bases.split_off(&(checkpoint.saturating_add(1), OperatorId(0)));
        let older = std::mem::replace(&mut *bases, newer).into_iter();
        let of = older.filter(|((number, _), _)| *number == checkpoint);
        of.map(|((_, operator), base)| (operator, base)).collect()
    }
    /// Removes and returns the snapshots for a checkpoint, and discards those of older checkpoints, which were given up.
    pub(crate) fn take_snapshots(&self, checkpoint: u64) -> Snapshots {
        let mut snapshots = lock(&self.snapshots);
        let newer = snapshots.split_off(&checkpoint.saturating_add(1));
        let mut older = std::mem::replace(&mut *snapshots, newer);
        older.remove(&checkpoint).unwrap_or_default()
    }
}

/// Returns the chunks of one operator's snapshot as one.
pub(crate) fn join_chunks(chunks: &[Bytes]) -> Vec<u8> {
    chunks.concat()
}
