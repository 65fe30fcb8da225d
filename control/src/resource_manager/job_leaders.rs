//! The leader of each job, whether that JobMaster is registered, and the jobs that have had no leader for too long.
//!
//! This module must never treat a JobMaster as registered that does not lead its job.

use model::Fence;
use model::{JobId, JobMasterId, LeaderSession};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use thiserror::Error;

/// The error of [`ResourceManager::register_job_master`](super::ResourceManager::register_job_master) that a JobMaster may not register,
/// because another session leads the job, or none as far as known, or the job is not watched; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "JobMaster {job_master_id} does not lead job {job_id}; leader as far as known: {}",
    .leader.map_or("none".to_owned(), |leader| leader.to_string())
)]
pub struct NotLeading {
    /// The job that the JobMaster claims to lead.
    pub job_id: JobId,
    /// The leader session that the refused JobMaster claims.
    pub job_master_id: JobMasterId,
    /// The session that leads the job as far as the ResourceManager knows; `None` if none is known or the job is not watched.
    pub leader: Option<LeaderSession>,
}

#[derive(Debug, Default)]
struct Entry {
    leader: Option<LeaderSession>,
    /// True if the leader's JobMaster is registered.
    registered: bool,
    /// The time since when the job has had no leader; `None` exactly while it has one.
    alone_since: Option<Duration>,
}

/// The jobs whose leaders are watched.
#[derive(Debug)]
pub(super) struct JobLeaders {
    timeout: Duration,
    jobs: BTreeMap<JobId, Entry>,
    /// Jobs without a leader, by the time since when.
    alone: BTreeSet<(Duration, JobId)>,
}

impl JobLeaders {
    /// Returns an empty set. `timeout` is `resourcemanager.job.timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, jobs: BTreeMap::new(), alone: BTreeSet::new() }
    }

    /// Watches a job from now on. Returns false if it was watched already.
    pub(super) fn watch(&mut self, now: Duration, job_id: JobId) -> bool {
        if self.jobs.contains_key(&job_id) {
            return false;
        }
        self.jobs.insert(job_id, Entry { alone_since: Some(now), ..Entry::default() });
        self.alone.insert((now, job_id));
        true
    }

    /// Stops watching a job.
    pub(super) fn forget(&mut self, job_id: JobId) {
        let since = self.jobs.remove(&job_id).and_then(|entry| entry.alone_since);
        if let Some(since) = since {
            self.alone.remove(&(since, job_id));
        }
    }

    /// Records the session that leads a job now. Ignores a session older than the known one, and a job that is not
    /// watched. Returns true if a registered JobMaster has lost its leadership.
    pub(super) fn seen(
        &mut self,
        now: Duration,
        job_id: JobId,
        leader: Option<LeaderSession>,
    ) -> bool {
        let Some(entry) = self.jobs.get_mut(&job_id) else {
            return false;
        };
        if entry.leader == leader || (leader.is_some() && leader < entry.leader) {
            return false;
        }
        entry.leader = leader;
        match (leader, entry.alone_since) {
            (Some(_), Some(since)) => {
                entry.alone_since = None;
                let known = self.alone.remove(&(since, job_id));
                debug_assert!(known, "job {job_id} waits for a leader and is not listed");
            }
            (None, None) => {
                entry.alone_since = Some(now);
                self.alone.insert((now, job_id));
            }
            (None, Some(_)) => debug_assert!(false, "job {job_id} lost a leader that it had not"),
            (Some(_), None) => {}
        }
        std::mem::take(&mut entry.registered)
    }

    /// Registers the JobMaster that leads a job; does nothing if it is registered already.
    pub(super) fn register(
        &mut self,
        job_id: JobId,
        job_master_id: JobMasterId,
    ) -> Result<(), NotLeading> {
        let entry = self.jobs.get_mut(&job_id);
        match entry.filter(|entry| entry.leader == Some(job_master_id.session())) {
            Some(entry) => {
                entry.registered = true;
                Ok(())
            }
            None => {
                let leader = self.jobs.get(&job_id).and_then(|entry| entry.leader);
                Err(NotLeading { job_id, job_master_id, leader })
            }
        }
    }

    /// Ends the registration of a JobMaster. Returns true if it was registered.
    pub(super) fn deregister(&mut self, job_id: JobId, session: LeaderSession) -> bool {
        let entry = self.jobs.get_mut(&job_id).filter(|entry| entry.leader == Some(session));
        entry.is_some_and(|entry| std::mem::take(&mut entry.registered))
    }

    /// Removes a job that has had no leader for the time-out, and returns it; `None` if there is none.
    pub(super) fn take_timed_out(&mut self, now: Duration) -> Option<JobId> {
        let (since, job_id) = *self.alone.first()?;
        if now < since.saturating_add(self.timeout) {
            return None;
        }
        self.forget(job_id);
        Some(job_id)
    }
}
