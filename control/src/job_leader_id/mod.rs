//! Which session leads each job that a ResourceManager serves, and when a job has been without one for so
//! long that it is removed.
//!
//! It never asks anybody and frees nothing itself: it answers which jobs have timed out.

use model::{JobId, LeaderSession};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
struct Entry {
    leader: Option<LeaderSession>,
    /// Since when nobody leads.
    alone_since: Option<Duration>,
}

/// A job's leader has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaderChange {
    /// Which job.
    pub job_id: JobId,
    /// Who led.
    pub before: Option<LeaderSession>,
    /// Who leads.
    pub now: Option<LeaderSession>,
}

/// The jobs that are watched.
#[derive(Debug)]
pub struct JobLeaderIds {
    timeout: Duration,
    jobs: BTreeMap<JobId, Entry>,
}

impl JobLeaderIds {
    /// `timeout`: `resourcemanager.job.timeout`.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, jobs: BTreeMap::new() }
    }

    /// Watches a job from now on; answers whether it was not watched before.
    pub fn add(&mut self, now: Duration, job_id: JobId) -> bool {
        let new = !self.jobs.contains_key(&job_id);
        self.jobs.entry(job_id).or_insert(Entry { leader: None, alone_since: Some(now) });
        new
    }

    /// Watches it no longer; answers whether it was watched.
    pub fn remove(&mut self, job_id: JobId) -> bool {
        self.jobs.remove(&job_id).is_some()
    }

    /// Whether a job is watched.
    pub fn contains(&self, job_id: JobId) -> bool {
        self.jobs.contains_key(&job_id)
    }

    /// Who leads a job.
    pub fn leader(&self, job_id: JobId) -> Option<LeaderSession> {
        self.jobs.get(&job_id)?.leader
    }

    /// Retrieval says who leads now. A session older than the known one is old news.
    pub fn notice(
        &mut self,
        now: Duration,
        job_id: JobId,
        leader: Option<LeaderSession>,
    ) -> Option<LeaderChange> {
        let entry = self.jobs.get_mut(&job_id)?;
        let before = entry.leader;
        if before == leader || (leader.is_some() && leader < before) {
            return None;
        }
        entry.leader = leader;
        entry.alone_since = match leader {
            Some(_) => None,
            None => Some(entry.alone_since.unwrap_or(now)),
        };
        Some(LeaderChange { job_id, before, now: leader })
    }

    /// Jobs that nobody has led for the time-out; they are watched no longer.
    pub fn timed_out(&mut self, now: Duration) -> Vec<JobId> {
        let timeout = self.timeout;
        let over = |entry: &Entry| {
            entry.alone_since.is_some_and(|since| now.saturating_sub(since) >= timeout)
        };
        let late: Vec<JobId> =
            self.jobs.iter().filter(|(_, entry)| over(entry)).map(|(job_id, _)| *job_id).collect();
        self.jobs.retain(|_, entry| !over(entry));
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Epoch;

    const JOB: JobId = JobId(1);
    fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }
    fn session(process: u64) -> LeaderSession {
        LeaderSession { epoch: Epoch { store: 1, process }, nonce: process }
    }

    #[test]
    fn a_job_without_a_leader_times_out_once() {
        let mut jobs = JobLeaderIds::new(s(300));
        assert!(jobs.add(s(0), JOB));
        assert!(!jobs.add(s(200), JOB), "watched since 0");
        assert_eq!(jobs.timed_out(s(299)), []);
        assert_eq!(jobs.timed_out(s(300)), [JOB]);
        assert_eq!(jobs.timed_out(s(900)), []);
        assert!(!jobs.contains(JOB));
    }

    #[test]
    fn a_leader_ends_the_waiting_and_its_loss_starts_it_anew() {
        let mut jobs = JobLeaderIds::new(s(300));
        jobs.add(s(0), JOB);
        let change = jobs.notice(s(299), JOB, Some(session(1))).expect("changed");
        assert_eq!((change.before, change.now), (None, Some(session(1))));
        assert_eq!(jobs.timed_out(s(9_000)), []);
        jobs.notice(s(9_000), JOB, None);
        assert_eq!(jobs.notice(s(9_100), JOB, None), None);
        assert_eq!(jobs.timed_out(s(9_299)), []);
        assert_eq!(jobs.timed_out(s(9_300)), [JOB]);
    }

    #[test]
    fn old_news_does_not_bring_an_earlier_leader_back() {
        let mut jobs = JobLeaderIds::new(s(300));
        jobs.add(s(0), JOB);
        jobs.notice(s(1), JOB, Some(session(2)));
        assert_eq!(jobs.notice(s(2), JOB, Some(session(1))), None);
        assert_eq!(jobs.leader(JOB), Some(session(2)));
        assert_eq!(jobs.notice(s(3), JobId(9), Some(session(1))), None, "not watched");
    }
}
