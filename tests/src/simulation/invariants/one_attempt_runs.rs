//! At most one attempt of a subtask runs as far as its JobMaster knows: from the moment that an attempt is deployed
//! until the JobMaster knows that it has ended, no other attempt of the subtask is deployed.

use super::Invariant;
use crate::simulation::observer::{Seen, What};
use actors::probe::Fact;
use model::{ExecutionState, JobId, JobVertexId, LeaderSession};
use std::collections::BTreeMap;

/// A subtask of one JobMaster.
type Subtask = (LeaderSession, JobId, JobVertexId, u32);

/// The invariant that a JobMaster deploys no attempt of a subtask while it knows another attempt of the subtask that has not ended.
/// Holds the running attempt of each subtask.
#[derive(Default)]
pub struct OneAttemptRuns {
    /// The running attempt of each subtask, and its state.
    running: BTreeMap<Subtask, (u32, ExecutionState)>,
}

fn runs(state: ExecutionState) -> bool {
    use ExecutionState as S;
    matches!(state, S::Deploying | S::Initializing | S::Running | S::Canceling)
}

impl Invariant for OneAttemptRuns {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Actor(Fact::TaskState { session, job_id, attempt, state }) = seen.what else {
            return Ok(());
        };
        let subtask = (*session, *job_id, attempt.vertex, attempt.subtask);
        let other = self.running.get(&subtask).filter(|(number, _)| *number != attempt.attempt);
        if let Some((number, other)) = other
            && runs(*state)
        {
            return Err(format!(
                "job {job_id}: {attempt} is {state} while attempt {number} of it is {other}"
            ));
        }
        if runs(*state) {
            self.running.insert(subtask, (attempt.attempt, *state));
        } else if other.is_none() {
            self.running.remove(&subtask);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::observer::{Observer, Trace};
    use ExecutionState as S;
    use actors::probe::Probe;
    use model::{Epoch, ExecutionAttemptId};

    /// Returns the number of violations found in these changes of one subtask's attempts.
    fn found(changes: &[(u32, ExecutionState)]) -> usize {
        let session = LeaderSession { epoch: Epoch { store: 1, process: 1 }, nonce: 1 };
        let observer = Observer::new(Trace::Hashed);
        let probe = observer.probe("jobmanager-0", 1);
        for (attempt, state) in changes {
            let (attempt, state) = (*attempt, *state);
            let vertex = JobVertexId(1);
            let attempt = ExecutionAttemptId { graph: 1, vertex, subtask: 0, attempt };
            probe.note(Fact::TaskState { session, job_id: JobId(1), attempt, state });
        }
        observer.violations().len()
    }

    #[test]
    fn an_attempt_may_follow_one_that_has_ended() {
        let ended = [(0, S::Deploying), (0, S::Canceling), (0, S::Canceled), (1, S::Created)];
        assert_eq!(found(&[&ended[..], &[(1, S::Deploying), (1, S::Running)]].concat()), 0);
    }

    #[test]
    fn an_attempt_may_not_run_beside_one_that_is_being_cancelled() {
        assert_eq!(found(&[(0, S::Running), (0, S::Canceling), (1, S::Deploying)]), 1);
    }
}
