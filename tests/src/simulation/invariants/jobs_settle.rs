//! Every submitted job settles: once everything is healed it is over, or all of its subtasks run.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use model::{ExecutionState, JobId, JobStatus};
use std::collections::{BTreeMap, BTreeSet};

/// The invariant that, once everything is healed, each submitted job has ended, or runs with all of its tasks running or finished; a job
/// that nobody knows or could be asked about breaks it. Holds the jobs that have not been judged.
#[derive(Default)]
pub struct JobsSettle {
    /// Jobs that were to be submitted and have not settled.
    wanted: BTreeSet<JobId>,
}

fn settled(status: JobStatus, tasks: &BTreeMap<ExecutionState, u32>) -> bool {
    let runs = |state: &ExecutionState| {
        matches!(state, ExecutionState::Running | ExecutionState::Finished)
    };
    status.is_globally_terminal() || status == JobStatus::Running && tasks.keys().all(runs)
}

impl Invariant for JobsSettle {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        match &seen.what {
            What::Client(Noticed::JobWanted { job_id, .. }) => {
                self.wanted.insert(*job_id);
                Ok(())
            }
            What::Client(Noticed::JobInTheEnd { job_id, status, tasks }) => {
                self.wanted.remove(job_id);
                match status {
                    Some(status) if settled(*status, tasks) => Ok(()),
                    Some(status) => {
                        Err(format!("job {job_id} is {status} after healing, its tasks {tasks:?}"))
                    }
                    None => Err(format!("nobody knows job {job_id} after healing")),
                }
            }
            _ => Ok(()),
        }
    }

    fn run_ended(&mut self) -> Vec<String> {
        let lost = |job: &JobId| format!("nobody could be asked about job {job} after healing");
        self.wanted.iter().map(lost).collect()
    }
}
