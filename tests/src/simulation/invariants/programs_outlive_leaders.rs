//! Programs outlive leaders: as long as a job that a client knows to be taken has not ended, the object store holds a
//! complete copy of its program. Without the copy, the next leader could not run the job.

use super::Invariant;
use crate::simulation::observer::{Noticed, Seen, What};
use model::{ContentHash, JobId};
use std::collections::{BTreeMap, BTreeSet};
use storage::jobs::LogId;

/// The invariant that the object store holds a complete copy of a job's program from the moment that a client knows the job to be taken
/// until it has ended. Holds the copies of each program and the jobs that run.
#[derive(Default)]
pub struct ProgramsOutliveLeaders {
    copies: BTreeMap<ContentHash, BTreeSet<LogId>>,
    /// The program of each job that has a record.
    programs: BTreeMap<JobId, ContentHash>,
    /// The jobs that were taken and have not ended.
    running: BTreeSet<JobId>,
    ended: BTreeSet<JobId>,
}

impl ProgramsOutliveLeaders {
    fn judge(&self) -> Result<(), String> {
        for job in &self.running {
            let Some(program) = self.programs.get(job) else { continue };
            if self.copies.get(program).is_none_or(BTreeSet::is_empty) {
                return Err(format!("job {job} has not ended and nobody keeps program {program}"));
            }
        }
        Ok(())
    }
}

impl Invariant for ProgramsOutliveLeaders {
    fn see(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        let What::Client(noticed) = &seen.what else { return Ok(()) };
        match noticed {
            Noticed::Recorded { job_id, result, program, .. } => {
                if let Some(program) = program {
                    self.programs.insert(*job_id, *program);
                }
                if *result {
                    self.ended.insert(*job_id);
                    self.running.remove(job_id);
                }
                Ok(())
            }
            Noticed::JobTaken { job_id } => {
                if !self.ended.contains(job_id) {
                    self.running.insert(*job_id);
                }
                self.judge()
            }
            Noticed::ProgramKept { hash, copy } => {
                self.copies.entry(*hash).or_default().insert(*copy);
                Ok(())
            }
            Noticed::ProgramDropped { hash, copy } => {
                self.copies.entry(*hash).or_default().remove(copy);
                self.judge()
            }
            _ => Ok(()),
        }
    }
}
