//! A job that takes checkpoints ends with one: each of its subtasks is FINISHED only after the subtask was told that a checkpoint is
//! complete whose barrier was its last. Otherwise what came after the last checkpoint would never be committed.
//!
//! The final checkpoint also comes: a job of this kind whose data has an end is over in the end, unless it was started anew shortly
//! before.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use actors::probe::Fact;
use model::{ExecutionAttemptId, ExecutionState, JobId, JobStatus};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time from the last deployment of a task after which a job with bounded data is over: tasks run for at most 60 s.
const OVER_WITHIN: Duration = Duration::from_secs(120);

/// The invariant that a job with checkpoints ends with one: a subtask is FINISHED only after it heard that the checkpoint of its last
/// barrier is complete, and in the end no job whose data has an end runs on, if its tasks were deployed over 120 s ago (virtual time).
#[derive(Default)]
pub struct FinishedAfterFinalCheckpoint {
    /// The jobs with checkpoints, and whether their data has an end.
    jobs: BTreeMap<JobId, bool>,
    /// The attempts that took their last barrier, with the checkpoint.
    last: BTreeSet<(ExecutionAttemptId, u64)>,
    /// The attempts that heard that the checkpoint of their last barrier is complete.
    committed: BTreeSet<ExecutionAttemptId>,
    /// Virtual time at which a task of each job was deployed last.
    deployed: BTreeMap<JobId, Duration>,
}

impl FinishedAfterFinalCheckpoint {
    fn noticed(&mut self, at: Duration, noticed: &Noticed) -> Result<(), String> {
        match noticed {
            Noticed::JobWanted { job_id, checkpoints: true, bounded, .. } => {
                self.jobs.insert(*job_id, *bounded);
            }
            Noticed::TaskRestored { job_id, .. } => {
                self.deployed.insert(*job_id, at);
            }
            Noticed::TaskAcknowledges { attempt, checkpoint, last: true, .. } => {
                self.last.insert((*attempt, *checkpoint));
            }
            Noticed::CompletionHeard { attempt, checkpoint, .. }
                if self.last.contains(&(*attempt, *checkpoint)) =>
            {
                self.committed.insert(*attempt);
            }
            Noticed::JobInTheEnd { job_id, status: Some(JobStatus::Running), .. } => {
                let since = self.deployed.get(job_id).copied().unwrap_or_default();
                if self.jobs.get(job_id) == Some(&true) && at > since + OVER_WITHIN {
                    let since = since.as_secs();
                    return Err(format!(
                        "job {job_id} has no final checkpoint, though its tasks run since {since} s"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Invariant for FinishedAfterFinalCheckpoint {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match &seen.what {
            What::Client(noticed) => self.noticed(seen.at, noticed),
            What::Actor(Fact::TaskState { job_id, attempt, state, .. })
                if *state == ExecutionState::Finished
                    && self.jobs.contains_key(job_id)
                    && !self.committed.contains(attempt) =>
            {
                Err(format!("job {job_id}: {attempt} is FINISHED without a final checkpoint"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Epoch, JobVertexId, LeaderSession};

    const SESSION: LeaderSession =
        LeaderSession { epoch: Epoch { store: 1, process: 1 }, nonce: 1 };
    const ATTEMPT: ExecutionAttemptId =
        ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };

    /// Returns whether an attempt may be FINISHED after it took the barrier of checkpoint 3 and heard of another checkpoint.
    fn may_finish(last: bool, heard: u64) -> bool {
        let mut invariant = FinishedAfterFinalCheckpoint::default();
        let (job_id, attempt, job_master) = (JobId(7), ATTEMPT, SESSION);
        let (subtasks, checkpoints, bounded) = (1, true, true);
        let all = [
            Noticed::JobWanted { job_id, subtasks, checkpoints, bounded },
            Noticed::TaskAcknowledges { job_id, attempt, job_master, checkpoint: 3, last },
            Noticed::CompletionHeard { job_id, attempt, job_master, checkpoint: heard },
        ];
        for noticed in &all {
            invariant.noticed(Duration::ZERO, noticed).unwrap();
        }
        let state = ExecutionState::Finished;
        let fact = Fact::TaskState { session: SESSION, job_id, attempt, state };
        let what = What::Actor(&fact);
        invariant.see(&Seen { at: Duration::ZERO, host: "a", incarnation: 1, what }).is_ok()
    }

    #[test]
    fn a_subtask_finishes_only_after_the_checkpoint_of_its_last_barrier() {
        assert!(may_finish(true, 3));
        assert!(!may_finish(true, 2));
        assert!(!may_finish(false, 3));
    }

    #[test]
    fn a_job_that_waits_for_its_final_checkpoint_for_ever_is_found() {
        let job_id = JobId(7);
        let mut invariant = FinishedAfterFinalCheckpoint::default();
        invariant.jobs.insert(job_id, true);
        let (status, tasks) = (Some(JobStatus::Running), BTreeMap::new());
        let end = Noticed::JobInTheEnd { job_id, status, tasks };
        assert!(invariant.noticed(OVER_WITHIN, &end).is_ok());
        assert!(invariant.noticed(OVER_WITHIN + Duration::from_secs(1), &end).is_err());
    }
}
