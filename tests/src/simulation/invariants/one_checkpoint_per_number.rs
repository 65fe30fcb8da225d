//! There are never two checkpoints of one number: the numbers of the complete checkpoints in a job's log rise, whichever JobMaster
//! takes them, and tasks hear no number from two JobMasters, whether its checkpoint completes or fails.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use model::{ContentHash, JobId, LeaderSession};
use std::collections::BTreeMap;

/// The invariant that the numbers of complete checkpoints in a job's log rise, so that no two have the same number, and that tasks
/// acknowledge no number to two JobMasters. Holds the hash of the metadata under each number, to tell in the violation whether the second one has the
/// same content.
#[derive(Default)]
pub struct OneCheckpointPerNumber {
    /// The metadata that exists under the name of each checkpoint.
    stored: BTreeMap<(JobId, u64), ContentHash>,
    /// The complete checkpoints with the metadata that they were recorded with.
    complete: BTreeMap<JobId, BTreeMap<u64, Option<ContentHash>>>,
    /// The JobMaster of the first barrier of each number.
    triggered: BTreeMap<(JobId, u64), LeaderSession>,
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
            Noticed::TaskAcknowledges { job_id, job_master, checkpoint, .. } => {
                let first = *self.triggered.entry((*job_id, *checkpoint)).or_insert(*job_master);
                if first != *job_master {
                    return Err(format!(
                        "job {job_id}: JobMaster {job_master} triggers checkpoint {checkpoint}, a number that {first} has given out"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::observer::{Observer, Trace};
    use model::{Epoch, ExecutionAttemptId, JobVertexId};

    #[test]
    fn a_number_that_two_job_masters_trigger_is_found_and_one_that_many_tasks_hear_of_is_right() {
        let heard = |store, subtask, checkpoint| {
            let vertex = JobVertexId(1);
            let attempt = ExecutionAttemptId { graph: store, vertex, subtask, attempt: 0 };
            let epoch = Epoch { store, process: 1 };
            let job_master = LeaderSession { epoch, nonce: store };
            let (job_id, last) = (JobId(7), false);
            Noticed::TaskAcknowledges { job_id, attempt, job_master, checkpoint, last }
        };
        let found = |all: &[Noticed]| {
            let observer = Observer::new(Trace::Hashed);
            all.iter().for_each(|noticed| observer.notice(noticed));
            observer.violations().len()
        };
        assert_eq!(found(&[heard(1, 0, 4), heard(1, 1, 4), heard(2, 0, 5), heard(1, 2, 4)]), 0);
        assert_eq!(found(&[heard(1, 0, 4), heard(2, 0, 4)]), 1);
    }
}
