//! A task is told that a checkpoint is complete only if it is, and only by the leader that completed it: the checkpoint's pointer is
//! in the job's log, the Dispatcher of the task's JobMaster has written it, and the task has acknowledged the checkpoint.
//!
//! Otherwise a task would commit what the next leader takes back, because that restores from an older checkpoint.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use model::{ExecutionAttemptId, JobId};
use std::collections::{BTreeMap, BTreeSet};

/// The invariant that a task hears that a checkpoint is complete only if its pointer is in the job's log, written by the leader of the
/// task's JobMaster, and the task has acknowledged it. Holds the recorded checkpoints and the acknowledgements.
#[derive(Default)]
pub struct OnlyCompleteIsAnnounced {
    /// The leader, by its number in the store, that has recorded each checkpoint.
    complete: BTreeMap<(JobId, u64), u64>,
    acknowledged: BTreeSet<(ExecutionAttemptId, u64)>,
}

impl Invariant for OnlyCompleteIsAnnounced {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Client(noticed) = &seen.what else { return Ok(()) };
        match noticed {
            Noticed::Recorded { job_id, checkpoint: Some(checkpoint), session, .. } => {
                self.complete.insert((*job_id, *checkpoint), session.epoch.store);
            }
            Noticed::TaskAcknowledges { attempt, checkpoint, .. } => {
                self.acknowledged.insert((*attempt, *checkpoint));
            }
            Noticed::CompletionHeard { job_id, attempt, job_master, checkpoint } => {
                let told = format!(
                    "job {job_id}: {attempt} hears that checkpoint {checkpoint} is complete"
                );
                match self.complete.get(&(*job_id, *checkpoint)) {
                    None => return Err(format!("{told}, but it is not in the job's log")),
                    Some(by) if *by != job_master.epoch.store => {
                        return Err(format!(
                            "{told} from {job_master}, but leader {by} completed it"
                        ));
                    }
                    Some(_) => {}
                }
                if !self.acknowledged.contains(&(*attempt, *checkpoint)) {
                    return Err(format!("{told}, but did not take part in it"));
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
    use model::{Epoch, JobVertexId, LeaderSession};
    use storage::jobs::LogId;

    const JOB: JobId = JobId(7);
    const ATTEMPT: ExecutionAttemptId =
        ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };

    fn session(store: u64) -> LeaderSession {
        LeaderSession { epoch: Epoch { store, process: 1 }, nonce: store }
    }

    /// Returns the number of violations if a task hears, under leader 1, that checkpoint 3 is complete.
    fn found(acknowledged: Option<u64>, recorded_by: Option<u64>) -> usize {
        let observer = Observer::new(Trace::Hashed);
        let (job_id, attempt, content) = (JOB, ATTEMPT, model::ContentHash([1; 32]));
        observer.notice(&Noticed::MetadataStored { job_id, checkpoint: 3, content });
        if let Some(checkpoint) = acknowledged {
            let (job_master, last) = (session(1), false);
            observer.notice(&Noticed::TaskAcknowledges {
                job_id,
                attempt,
                job_master,
                checkpoint,
                last,
            });
        }
        if let Some(store) = recorded_by {
            let log = LogId { creator: session(1), count: 0 };
            let (number, result) = (1, false);
            let (session, checkpoint, program) = (session(store), Some(3), None);
            observer.notice(&Noticed::Recorded {
                job_id,
                log,
                number,
                session,
                result,
                checkpoint,
                program,
            });
        }
        let (job_master, checkpoint) = (session(1), 3);
        observer.notice(&Noticed::CompletionHeard { job_id, attempt, job_master, checkpoint });
        observer.violations().len()
    }

    #[test]
    fn a_task_hears_of_a_checkpoint_that_is_in_the_log_and_in_which_it_took_part() {
        assert_eq!(found(Some(3), Some(1)), 0);
    }

    #[test]
    fn what_is_not_in_the_log_or_is_another_leaders_or_has_no_part_of_the_task_is_found() {
        assert_eq!(found(Some(3), None), 1);
        assert_eq!(found(Some(3), Some(2)), 1);
        assert_eq!(found(Some(2), Some(1)), 1);
    }
}
