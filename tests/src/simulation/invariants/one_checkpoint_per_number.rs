//! There are never two complete checkpoints of one number: the numbers of the checkpoints in a job's log rise, whichever JobMaster
//! takes them.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use model::{ContentHash, JobId};
use std::collections::BTreeMap;

/// The invariant that the numbers of complete checkpoints in a job's log rise, so that no two have the same number. Holds the hash of the
/// metadata under each number, to tell in the violation whether the second one has the same content.
#[derive(Default)]
pub struct OneCheckpointPerNumber {
    /// The metadata that exists under the name of each checkpoint.
    stored: BTreeMap<(JobId, u64), ContentHash>,
    /// The complete checkpoints with the metadata that they were recorded with.
    complete: BTreeMap<JobId, BTreeMap<u64, Option<ContentHash>>>,
}

impl Invariant for OneCheckpointPerNumber {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Client(noticed) = &seen.what else { return Ok(()) };
        match noticed {
            Noticed::MetadataStored { job_id, checkpoint, content } => {
                self.stored.insert((*job_id, *checkpoint), *content);
            }
            Noticed::Recorded { job_id, checkpoint: Some(checkpoint), .. } => {
                let content = self.stored.get(&(*job_id, *checkpoint)).copied();
                let complete = self.complete.entry(*job_id).or_default();
                let newest = complete.keys().last().copied();
                let before = complete.insert(*checkpoint, content);
                if let Some(before) = before {
                    let same = if before == content { "the same" } else { "other" };
                    return Err(format!(
                        "job {job_id}: checkpoint {checkpoint} is complete a second time, with {same} content"
                    ));
                }
                if let Some(newest) = newest.filter(|newest| newest > checkpoint) {
                    return Err(format!(
                        "job {job_id}: checkpoint {checkpoint} is complete after checkpoint {newest}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
