//! How a new Dispatcher takes over the jobs that an earlier one left: the logs are listed, then read in the
//! background, several at a time. New jobs are taken meanwhile. It must never read anything itself.

use super::{EndedJob, Entry, JobPhase, JobTable};
use crate::job_graph;
use model::{JobGraph, JobId};

/// How far recovery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The logs are being listed.
    Listing,
    /// So many of `total` logs have not been read yet; never 0.
    Reading { left: usize, total: usize },
    /// Every job that an earlier Dispatcher left is known.
    Done,
}

/// What the log of a job that an earlier Dispatcher left says.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// The job has not ended, and this Dispatcher owns it now.
    Running(&'a JobGraph),
    /// The job has ended.
    Ended(EndedJob),
    /// The log is damaged, and this Dispatcher owns it now.
    Damaged,
    /// There is no job: what is stored of it is to be deleted.
    Nothing,
    /// Another leader owns the job.
    Superseded,
}

/// What is done with a job that was recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// Run it.
    Run,
    /// Remember how it ended.
    Keep,
    /// The job can never run again: it fails now, for this reason (`None`: its log is damaged).
    Fail(Option<job_graph::GraphError>),
    /// Delete what is stored of it.
    Delete,
    /// Leave it to the other leader.
    Leave,
}

impl JobTable {
    /// Takes the ids of all jobs that have a log. Returns those to read: a job that was submitted to this
    /// Dispatcher in the meantime is known already.
    pub fn listed(&mut self, jobs: &[JobId]) -> Vec<JobId> {
        let known =
            |table: &Self, job| table.jobs.contains_key(&job) || table.ended.get(job).is_some();
        let left: Vec<JobId> = jobs.iter().copied().filter(|job| !known(self, *job)).collect();
        self.jobs.extend(left.iter().map(|job| (*job, Entry::new(JobPhase::Recovering))));
        self.recovery = match left.len() {
            0 => Recovery::Done,
            total => Recovery::Reading { left: total, total },
        };
        left
    }

    /// Takes in a job whose log was found after recovery: a superseded leader has written it late, and a
    /// client submits the same id again. Returns whether its log is to be read.
    pub fn adopt(&mut self, job: JobId) -> bool {
        if self.jobs.contains_key(&job) || self.ended.get(job).is_some() {
            return false;
        }
        self.jobs.insert(job, Entry::new(JobPhase::Recovering));
        if let Recovery::Reading { left, total } = &mut self.recovery {
            *left += 1;
            *total += 1;
        }
        true
    }

    /// Takes what a log says.
    pub fn recovered(&mut self, job: JobId, found: Found<'_>) -> Recovered {
        if self.phase(job) != Some(JobPhase::Recovering) {
            return Recovered::Leave;
        }
        if let Recovery::Reading { left, total } = self.recovery {
            self.recovery = match left {
                0 | 1 => Recovery::Done,
                left => Recovery::Reading { left: left - 1, total },
            };
        }
        let mut next = |phase| self.jobs.insert(job, Entry::new(phase));
        match found {
            Found::Running(graph) => {
                next(JobPhase::Running);
                match job_graph::check(graph) {
                    Ok(()) => Recovered::Run,
                    Err(error) => Recovered::Fail(Some(error)),
                }
            }
            Found::Damaged => {
                next(JobPhase::Running);
                Recovered::Fail(None)
            }
            Found::Ended(ended) => {
                self.jobs.remove(&job);
                self.ended.keep(job, ended);
                Recovered::Keep
            }
            Found::Nothing => {
                self.jobs.remove(&job);
                Recovered::Delete
            }
            Found::Superseded => {
                self.forget(job);
                Recovered::Leave
            }
        }
    }

    /// Returns how many logs were read, of how many; `None` once every job is known.
    pub fn recovery_progress(&self) -> Option<(usize, usize)> {
        match self.recovery {
            Recovery::Listing => Some((0, 0)),
            Recovery::Reading { left, total } => Some((total - left, total)),
            Recovery::Done => None,
        }
    }

    /// Returns whether a job of this id may turn up that is not known yet.
    pub fn may_turn_up(&self, job: JobId) -> bool {
        self.recovery == Recovery::Listing || self.phase(job) == Some(JobPhase::Recovering)
    }
}
