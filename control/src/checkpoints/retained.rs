//! The complete checkpoints that a job keeps, and the names of their objects.

use super::Checkpoints;
use model::{CheckpointMetadata, JobStatus};
use std::{collections::BTreeSet, sync::Arc};

impl Checkpoints {
    /// Returns the names of all objects (stored files) of the complete checkpoints that are kept, their metadata objects
    /// included, and of those that were passed over because they can't be read.
    pub fn kept_objects(&self) -> BTreeSet<String> {
        let kept = self.complete.iter().chain(&self.passed_over);
        kept.flat_map(|kept| all_objects(kept)).collect()
    }

    /// Returns the numbers of the complete checkpoints that will still be kept when one more is complete.
    pub fn kept_beside_next(&self) -> BTreeSet<u64> {
        let kept = self.complete.iter().rev().take(self.config.retained.saturating_sub(1));
        kept.map(|kept| kept.checkpoint).collect()
    }

    /// Adds complete checkpoints that are older than the one the job continues from, the newest last; the list may be empty. Called after
    /// [`Checkpoints::restore`], if that is called. New checkpoints get numbers after the two that follow from the job's log: `newest`, that
    /// of its newest checkpoint (0: there is none), which is higher than the one the job continues from if that one could not be read, and
    /// `given_out`, the newest number recorded by itself ([`CheckpointStep::RecordNumber`](super::CheckpointStep); 0: there is none).
    pub fn restore_older(
        &mut self,
        older: Vec<Arc<CheckpointMetadata>>,
        newest: u64,
        given_out: u64,
    ) {
        for checkpoint in older.into_iter().rev() {
            self.complete.push_front(checkpoint);
        }
        if newest > 0 {
            self.go_on_after_complete(newest);
        }
        self.go_on_after(given_out);
    }

    /// Returns the number of the kept checkpoint before the newest one, to which the job could fall back; `None` if there is
    /// none. The snapshot that the job was started from does not count: it may be deleted once the job has a checkpoint.
    pub fn before_latest(&self) -> Option<u64> {
        let before = self.complete.iter().rev().nth(1)?.checkpoint;
        let own = self.started_from.as_ref().is_none_or(|(number, _)| *number != before);
        own.then_some(before)
    }

    /// Passes over the newest complete checkpoint, which can't be read, so that restores use the one before. Returns false and changes
    /// nothing if the options forbid that or no other own checkpoint is kept. Its objects, and its place in the job's log, stay until a
    /// newer checkpoint is complete. Called when a region failed because files of that checkpoint are lost or damaged. Subtasks that are
    /// not restored have state on top of its objects, any of which may be damaged, so that the next checkpoints are full ones until one
    /// is complete.
    pub fn pass_over_latest(&mut self) -> bool {
        let may = self.config.falls_back && self.before_latest().is_some();
        let passed_over = if may { self.complete.pop_back() } else { None };
        self.has_orphans |= passed_over.is_some();
        self.needs_full |= passed_over.is_some();
        self.passed_over.extend(passed_over.clone());
        passed_over.is_some()
    }

    /// Records in the report that the job's checkpoints are deleted because it has ended for good as `status`, unless they are kept after
    /// such an end: after FAILED or CANCELED by `execution.checkpointing.externalized-checkpoint-retention`, after FINISHED never. Deletes
    /// nothing.
    pub fn job_ended(&mut self, status: JobStatus) {
        let (if_failed, if_canceled) = self.config.kept;
        let are_kept = match status {
            JobStatus::Failed => if_failed,
            JobStatus::Canceled => if_canceled,
            _ => false,
        };
        if !are_kept {
            self.history.discarded_all();
        }
    }

    /// Removes the oldest complete checkpoints that are too many, and those that were passed over, and returns their objects.
    pub(super) fn subsume(&mut self) -> BTreeSet<String> {
        let mut subsumed = BTreeSet::new();
        for old in std::mem::take(&mut self.passed_over) {
            self.history.discarded(old.checkpoint);
            subsumed.extend(all_objects(&old));
        }
        while self.complete.len() > self.config.retained.max(1) {
            if let Some(old) = self.complete.pop_front() {
                self.history.discarded(old.checkpoint);
                subsumed.extend(all_objects(&old));
            }
        }
        subsumed
    }
}

/// Returns the names of a checkpoint's objects and of its metadata.
fn all_objects(checkpoint: &CheckpointMetadata) -> BTreeSet<String> {
    let mut objects = checkpoint.objects();
    objects.insert(checkpoint.object_name());
    objects
}
