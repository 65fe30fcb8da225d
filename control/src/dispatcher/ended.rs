//! Which ended jobs are remembered. Their ids are refused until they are forgotten. It must never delete
//! anything itself: it names what is to go.

use model::{JobId, JobStatus};
use std::collections::{BTreeMap, BTreeSet};

/// How long ended jobs are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Most jobs (`jobstore.max-capacity`); the job that ended first goes first.
    pub jobs_max: usize,
    /// Most bytes of all details together; the details of the job that ended first go first.
    pub details_bytes_max: u64,
    /// Milliseconds from a job's end (`jobstore.expiration-time`).
    pub age_ms_max: u64,
}

/// An ended job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedJob {
    /// How it ended.
    pub status: JobStatus,
    /// Unix milliseconds of its end.
    pub end_ms: u64,
    /// Bytes of its stored details; 0 if there are none.
    pub details_bytes: u64,
}

/// The ended jobs of a cluster.
#[derive(Debug, Clone)]
pub struct EndedJobs {
    retention: Retention,
    jobs: BTreeMap<JobId, EndedJob>,
    /// Jobs that are not on their way out, by end.
    by_age: BTreeSet<(u64, JobId)>,
    /// Jobs with details, by end.
    with_details: BTreeSet<(u64, JobId)>,
    details_bytes: u64,
}

impl EndedJobs {
    /// Returns an empty set.
    pub fn new(retention: Retention) -> Self {
        Self {
            retention,
            jobs: BTreeMap::new(),
            by_age: BTreeSet::new(),
            with_details: BTreeSet::new(),
            details_bytes: 0,
        }
    }

    /// Returns an ended job.
    pub fn get(&self, job: JobId) -> Option<&EndedJob> {
        self.jobs.get(&job)
    }

    /// Remembers an ended job.
    pub fn keep(&mut self, job: JobId, ended: EndedJob) {
        debug_assert!(!self.jobs.contains_key(&job), "job {job} ends once");
        self.jobs.insert(job, ended);
        self.by_age.insert((ended.end_ms, job));
        if ended.details_bytes > 0 {
            self.with_details.insert((ended.end_ms, job));
            self.details_bytes += ended.details_bytes;
        }
    }

    /// Returns the jobs that are to be forgotten at `now_ms` (Unix), each once: the caller deletes what is
    /// stored of them, then calls [`EndedJobs::forget`] or [`EndedJobs::forget_failed`].
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

    /// Returns the jobs whose details are to be deleted because all details together are too large. From now
    /// on they have none.
    pub fn take_excess_details(&mut self) -> Vec<JobId> {
        let mut excess = Vec::new();
        while self.details_bytes > self.retention.details_bytes_max {
            let Some((_, job)) = self.with_details.pop_first() else { break };
            self.drop_details(job);
            excess.push(job);
        }
        excess
    }

    /// Forgets a job: its id may be used again.
    pub fn forget(&mut self, job: JobId) {
        self.drop_details(job);
        if let Some(ended) = self.jobs.remove(&job) {
            self.by_age.remove(&(ended.end_ms, job));
        }
    }

    /// Takes note that what is stored of a job could not be deleted: the job is due again.
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
