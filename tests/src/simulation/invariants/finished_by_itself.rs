//! A job is FINISHED only if every subtask ended by itself in exactly one attempt: the JobMaster that reports it
//! believes one attempt of each subtask FINISHED and all others ended or replaced, and each attempt that it believes
//! FINISHED did end by itself in its program host.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use actors::probe::Fact;
use model::{ExecutionAttemptId, ExecutionState, JobId, JobStatus, JobVertexId, LeaderSession};
use std::collections::{BTreeMap, BTreeSet};

/// The newest attempt of each subtask and its state.
type Newest = BTreeMap<(JobVertexId, u32), (u32, ExecutionState)>;

/// The invariant that a job is FINISHED only if each of its subtasks is, by one attempt that ended by itself in its program host. Holds
/// the ends that program hosts reported and the newest attempts as each JobMaster knows them.
#[derive(Default)]
pub struct FinishedByItself {
    /// Number of subtasks of each job.
    subtasks: BTreeMap<JobId, usize>,
    /// Attempts that ended by themselves, according to their program hosts.
    finished: BTreeSet<ExecutionAttemptId>,
    /// The newest attempts according to each JobMaster.
    believed: BTreeMap<(LeaderSession, JobId), Newest>,
}

impl FinishedByItself {
    fn finished(&self, session: LeaderSession, job_id: JobId) -> Result<(), String> {
        let newest = self.believed.get(&(session, job_id));
        let ended = newest.into_iter().flatten();
        let ended = ended.filter(|(_, (_, state))| *state == ExecutionState::Finished).count();
        match self.subtasks.get(&job_id) {
            Some(subtasks) if *subtasks != ended => {
                Err(format!("job {job_id} is FINISHED with {ended} of {subtasks} subtasks"))
            }
            _ => Ok(()),
        }
    }
}

impl Invariant for FinishedByItself {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match &seen.what {
            What::Client(Noticed::JobWanted { job_id, subtasks, .. }) => {
                self.subtasks.insert(*job_id, *subtasks);
            }
            What::Client(Noticed::AttemptFinished { attempt }) => {
                self.finished.insert(*attempt);
            }
            What::Actor(Fact::TaskState { session, job_id, attempt, state }) => {
                let subtasks = self.believed.entry((*session, *job_id)).or_default();
                subtasks.insert((attempt.vertex, attempt.subtask), (attempt.attempt, *state));
                if *state == ExecutionState::Finished && !self.finished.contains(attempt) {
                    return Err(format!(
                        "job {job_id}: {attempt} is believed FINISHED, but did not end by itself"
                    ));
                }
            }
            What::Actor(Fact::JobStatusChanged { session, job_id, status, .. })
                if *status == JobStatus::Finished =>
            {
                return self.finished(*session, *job_id);
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
    use actors::probe::Probe;
    use model::Epoch;

    const SESSION: LeaderSession =
        LeaderSession { epoch: Epoch { store: 1, process: 1 }, nonce: 1 };
    const JOB: JobId = JobId(7);

    fn attempt(subtask: u32, attempt: u32) -> ExecutionAttemptId {
        ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask, attempt }
    }

    /// Returns the number of violations when a job of two subtasks is FINISHED, given the attempts that ended by
    /// themselves and those that the JobMaster believes FINISHED.
    fn found(by_themselves: &[ExecutionAttemptId], believed: &[ExecutionAttemptId]) -> usize {
        let observer = Observer::new(Trace::Hashed);
        let (checkpoints, bounded) = (false, true);
        observer.notice(&Noticed::JobWanted { job_id: JOB, subtasks: 2, checkpoints, bounded });
        for attempt in by_themselves {
            observer.notice(&Noticed::AttemptFinished { attempt: *attempt });
        }
        let probe = observer.probe("jobmanager-0", 1);
        for attempt in believed {
            let (attempt, state) = (*attempt, ExecutionState::Finished);
            probe.note(Fact::TaskState { session: SESSION, job_id: JOB, attempt, state });
        }
        let status = JobStatus::Finished;
        probe.note(Fact::JobStatusChanged { session: SESSION, job_id: JOB, status, cause: None });
        observer.violations().len()
    }

    #[test]
    fn a_job_whose_subtasks_all_ended_by_themselves_is_finished() {
        let both = [attempt(0, 0), attempt(1, 3)];
        assert_eq!(found(&both, &both), 0);
    }

    #[test]
    fn a_subtask_that_did_not_end_or_in_another_attempt_is_found() {
        let both = [attempt(0, 0), attempt(1, 0)];
        assert_eq!(found(&both, &[attempt(0, 0)]), 1);
        assert_eq!(found(&[attempt(0, 0)], &both), 1);
        assert_eq!(found(&both, &[attempt(0, 0), attempt(1, 1)]), 1);
    }
}
