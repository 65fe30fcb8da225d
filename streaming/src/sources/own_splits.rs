//! The splits of readers that know theirs without an enumerator.

use super::{ReadProgress, ReaderOutput, SequenceSplit, SourceSplit};
use crate::{operators::OperatorContext, types::Record};

/// The splits of a sequence's or collection's reader: the subtask's initial one or, after a restore, what is left of those of the
/// checkpoint.
#[derive(Debug)]
pub(super) struct OwnSplits {
    splits: Vec<SequenceSplit>,
    /// True if the splits are those of a snapshot; else they are the subtask's initial one.
    restored: bool,
}

impl OwnSplits {
    /// Returns the initial split of a subtask; that of subtask 0 begins at `start`.
    pub(super) fn of(context: &OperatorContext, start: u64) -> Self {
        let initial = SequenceSplit {
            subtask: context.subtask(),
            next: start.checked_add(u64::from(context.subtask())),
            stride: u64::from(context.parallelism()).max(1),
        };
        Self { splits: vec![initial], restored: false }
    }

    /// Adds splits of a snapshot, the first ones in the place of the initial split.
    pub(super) fn restore(&mut self, splits: Vec<SequenceSplit>) {
        if !std::mem::replace(&mut self.restored, true) {
            self.splits.clear();
        }
        self.splits.extend(splits);
    }

    /// Returns the splits that are not read to their ends.
    pub(super) fn left(&self) -> &[SequenceSplit] {
        &self.splits
    }

    /// Returns the split that is furthest behind, and its place; `None` if no split is left. The split holds back event time, and the
    /// others must not get further ahead of it. (A split with nothing left comes first.)
    pub(super) fn slowest(&mut self) -> Option<(usize, &mut SequenceSplit)> {
        self.splits.iter_mut().enumerate().min_by_key(|(_, split)| split.next)
    }

    /// Removes the split in this place, which is read to its end. Returns whether the reader goes on.
    pub(super) fn end<T: Record>(
        &mut self,
        place: usize,
        out: &mut ReaderOutput<T>,
    ) -> ReadProgress {
        out.release_split(&self.splits.remove(place).split_id());
        if self.splits.is_empty() { ReadProgress::Ended } else { ReadProgress::More }
    }
}
