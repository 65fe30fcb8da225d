//! The complete checkpoints that a job keeps, and the names of their objects.

use super::Checkpoints;
use model::CheckpointMetadata;
use std::collections::BTreeSet;

impl Checkpoints {
    /// Returns the names of all objects of the complete checkpoints that are kept, their metadata included.
    pub fn kept_objects(&self) -> BTreeSet<String> {
        self.complete.iter().flat_map(|kept| all_objects(kept)).collect()
    }

    /// Removes the oldest complete checkpoints that are too many, and returns their objects.
    pub(super) fn subsume(&mut self) -> BTreeSet<String> {
        let mut subsumed = BTreeSet::new();
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
