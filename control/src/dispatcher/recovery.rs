//! Take-over of the jobs that an earlier Dispatcher left: their logs are listed, then read in the background, several
//! at a time. New jobs are accepted meanwhile. This module must never read anything itself.

use super::{EndedJob, Entry, JobPhase, JobTable};
use crate::job_graph;
use model::{JobGraph, JobId};

/// The progress of recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// The logs are being listed.
    Listing,
    /// `left` of `total` logs have not been read yet; `left` is never 0.
    Reading { left: usize, total: usize },
    /// Every job that an earlier Dispatcher left is known.
    Done,
}

/// The content of the log of a job that an earlier Dispatcher left, as the Dispatcher's recovery has read it, for [`JobTable::recovered`].
/// A log that can't be read because the store fails is none of these: the caller reads it again.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// The job has not ended, and this Dispatcher owns it now.
    Running(&'a JobGraph),
    /// The job has ended with this result.
    Ended(EndedJob),
    /// The log has a record that can't be read and no result, and this Dispatcher owns it now.
    Damaged,
    /// There is no such job (any more): its log is gone, says that the job is forgotten, or counts as none (a ghost).
    Nothing,
    /// Another leader owns the job.
    Superseded,
}

/// The action that the Dispatcher takes for a job whose log was read, from [`JobTable::recovered`]: start the job, fail it (its graph or
/// log can't be used), or nothing. After `Run` and `Fail` the job's phase is [`JobPhase::Running`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// Start a JobMaster for the job.
    Run,
    /// Do nothing: the job has ended, and the table remembers its result.
    Keep,
    /// Fail the job now, because it can never run again: its graph has this error, or (`None`) its log is damaged.
    Fail(Option<job_graph::GraphError>),
    /// Do nothing: there is no such job.
    Nothing,
    /// Do nothing: the job belongs to another leader, or is no longer recovering.
    Leave,
}

impl JobTable {
    /// Takes the ids of all jobs that have a log in the store, once, at the start of recovery. Those that the table does not
    /// know become [`JobPhase::Recovering`] and are returned: the caller reads their logs and calls [`JobTable::recovered`].
    /// Jobs that the table knows (submitted meanwhile, ended, or adopted) are left out. Recovery is done at once if no log is left to read,
    /// otherwise once [`JobTable::recovered`] was called for each; see [`JobTable::recovery_progress`].
    pub fn listed(&mut self, jobs: &[JobId]) -> Vec<JobId> {
        let known =
            |table: &Self, job| table.jobs.contains_key(&job) || table.ended.get(job).is_some();
        let left: Vec<JobId> = jobs.iter().copied().filter(|job| !known(self, *job)).collect();
        // Jobs that were adopted while the logs were being listed are being read too.
        let adopted = self.jobs.values().filter(|job| job.phase == JobPhase::Recovering).count();
        self.jobs.extend(left.iter().map(|job| (*job, Entry::new(JobPhase::Recovering))));
        self.recovery = match left.len() + adopted {
            0 => Recovery::Done,
            total => Recovery::Reading { left: total, total },
        };
        left
    }

    /// Adds a job as [`JobPhase::Recovering`] whose log [`JobTable::listed`] has not named (yet): for instance a superseded leader wrote it
    /// late, and a client now submits the same id again. Returns true if the caller has to read the log, false if the job is known already.
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

    /// Records the content of a job's log, moves the job to its next phase ([`JobPhase::Running`] for `Run` and `Fail`, otherwise
    /// none), and returns the action that follows: [`Recovered::Leave`], without a change, if the job is not being recovered.
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
                Recovered::Nothing
            }
            Found::Superseded => {
                self.forget(job);
                Recovered::Leave
            }
        }
    }

    /// Returns the number of logs that were read and the total number of logs to be read; (0, 0) while the logs are being
    /// listed, `None` once recovery is done.
    pub fn recovery_progress(&self) -> Option<(usize, usize)> {
        match self.recovery {
            Recovery::Listing => Some((0, 0)),
            Recovery::Reading { left, total } => Some((total - left, total)),
            Recovery::Done => None,
        }
    }

    /// Returns true if recovery may still find a job of this id: the logs are being listed, or the job's log is being read. Questions about
    /// an unknown job are answered with "not available yet" then, instead of "not known".
    pub fn may_turn_up(&self, job: JobId) -> bool {
        self.recovery == Recovery::Listing || self.phase(job) == Some(JobPhase::Recovering)
    }
}
