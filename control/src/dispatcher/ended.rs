//! The ended jobs that a Dispatcher remembers; a submission with one of their ids is refused. This module must never
//! delete anything itself: it returns the jobs whose stored data the caller has to delete.

use model::{JobId, JobStatus};
use std::collections::{BTreeMap, BTreeSet};

/// Limits on the ended jobs that a Dispatcher remembers: their number, the size of their details, and their age. [`EndedJobs`] names the
/// jobs over a limit; the Dispatcher deletes what is stored of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum number of jobs (`jobstore.max-capacity`); beyond it (0: at once) the job that ended first is forgotten first: its stored
    /// result and details are deleted, and its id may be submitted again.
    pub jobs_max: usize,
    /// Maximum size of the details of all jobs together, in bytes; beyond it (0: at once) the details of the job that ended first are
    /// deleted first, and the job itself is still remembered.
    pub details_bytes_max: u64,
    /// Time after a job's end at which the job is forgotten, with all that is stored of it, in milliseconds; 0: at once
    /// (`jobstore.expiration-time`).
    pub age_ms_max: u64,
}

/// The facts that the Dispatcher's table keeps in memory about an ended job: how and when it ended, and the size of its stored details. The
/// result and the details themselves are in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedJob {
    /// The terminal state in which the job ended.
    pub status: JobStatus,
    /// The time of the job's end, in Unix milliseconds.
    pub end_ms: u64,
    /// Size of the job's stored details in bytes; 0 if none are stored, because storing them failed or they were deleted for
    /// `details_bytes_max`.
    pub details_bytes: u64,
}

/// The ended jobs that a Dispatcher remembers, in memory, those of earlier leaders that recovery found included. Their ids are refused for
/// new submissions until they are forgotten. Deletes nothing itself: the Dispatcher asks for the jobs over a limit
/// ([`EndedJobs::take_due`], [`EndedJobs::take_excess_details`]), deletes what is stored of them, and then calls [`EndedJobs::forget`].
#[derive(Debug, Clone)]
pub struct EndedJobs {
    retention: Retention,
    jobs: BTreeMap<JobId, EndedJob>,
    /// Jobs that [`EndedJobs::take_due`] has not returned yet, by the time of their end.
    by_age: BTreeSet<(u64, JobId)>,
    /// Jobs with stored details, by the time of their end.
    with_details: BTreeSet<(u64, JobId)>,
    details_bytes: u64,
    /// Number of forgotten jobs by the state in which they ended.
    forgotten: BTreeMap<JobStatus, u64>,
}

impl EndedJobs {
    /// Returns an empty set of ended jobs with these limits.
    pub fn new(retention: Retention) -> Self {
        Self {
            retention,
            jobs: BTreeMap::new(),
            by_age: BTreeSet::new(),
            with_details: BTreeSet::new(),
            details_bytes: 0,
            forgotten: BTreeMap::new(),
        }
    }

    /// Returns the number of jobs that were forgotten since the Dispatcher's start, by the state in which they ended; states
    /// without such a job are missing.
    pub fn forgotten(&self) -> &BTreeMap<JobStatus, u64> {
        &self.forgotten
    }

    /// Returns what is remembered of a job; `None` if it has not ended or is forgotten.
    pub fn get(&self, job: JobId) -> Option<&EndedJob> {
        self.jobs.get(&job)
    }

    /// Remembers a job that has ended, and counts its details. Forgets none beyond the limits: [`EndedJobs::take_due`] and
    /// [`EndedJobs::take_excess_details`] name those. A job must be added once only: a debug build panics otherwise.
    pub fn keep(&mut self, job: JobId, ended: EndedJob) {
        debug_assert!(!self.jobs.contains_key(&job), "job {job} ends once");
        self.jobs.insert(job, ended);
        self.by_age.insert((ended.end_ms, job));
        if ended.details_bytes > 0 {
            self.with_details.insert((ended.end_ms, job));
            self.details_bytes += ended.details_bytes;
        }
    }

    /// Returns the jobs that are too many or too old at `now_ms` (Unix milliseconds), each once; they are still remembered. The
    /// caller deletes what is stored about each, then calls [`EndedJobs::forget`] or [`EndedJobs::forget_failed`].
    pub fn take_due(&mut self, now_ms: u64) -> Vec<JobId> {
        let mut due = Vec::new();
        while let Some((end_ms, job)) = self.by_age.first().copied() {
            let old = now_ms.saturating_sub(end_ms) >= self.retention.age_ms_max;
            if !old && self.by_age.len() <= self.retention.jobs_max {
                break;
            }
            self.by_age.pop_first();
            due.push(job);
        }
        due
    }

    /// Returns the jobs whose details the caller has to delete because all details together exceed the limit, the job that ended first
    /// before the others. From now on these jobs count as having no details, also if the deletion fails.
    pub fn take_excess_details(&mut self) -> Vec<JobId> {
        let mut excess = Vec::new();
        while self.details_bytes > self.retention.details_bytes_max {
            let Some((_, job)) = self.with_details.pop_first() else { break };
            self.drop_details(job);
            excess.push(job);
        }
        excess
    }

    /// Forgets a job and counts it as forgotten; its id may be used again. Does nothing if the job is not remembered.
    pub fn forget(&mut self, job: JobId) {
        self.drop_details(job);
        if let Some(ended) = self.jobs.remove(&job) {
            self.by_age.remove(&(ended.end_ms, job));
            *self.forgotten.entry(ended.status).or_insert(0) += 1;
        }
    }

    /// Records that the stored data of a job could not be deleted, so that [`EndedJobs::take_due`] returns the job again. Does
    /// nothing if the job is not remembered.
    pub fn forget_failed(&mut self, job: JobId) {
        if let Some(ended) = self.jobs.get(&job) {
            self.by_age.insert((ended.end_ms, job));
        }
    }

    fn drop_details(&mut self, job: JobId) {
        if let Some(ended) = self.jobs.get_mut(&job) {
            self.with_details.remove(&(ended.end_ms, job));
            debug_assert!(self.details_bytes >= ended.details_bytes, "details are counted once");
            self.details_bytes -= std::mem::take(&mut ended.details_bytes);
        }
    }
}
