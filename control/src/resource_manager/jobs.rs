//! JobMasters at the ResourceManager: which of them may register, and when a registration or a job ends.
//!
//! This module must never trust a JobMaster that has lost its leadership.

use super::{Command, NotLeading, ResourceManager};
use model::{Fence, JobId, JobMasterId, LeaderSession};
use std::time::Duration;

impl ResourceManager {
    /// Begins to watch the leader of a job, so that its JobMaster can register. From `now` (monotonic) on the job counts as without a
    /// leader, until [`ResourceManager::leader_seen`] names one; without one for [`Settings::job_timeout`](super::Settings::job_timeout)
    /// the next tick removes it ([`Command::RemoveJob`]). Returns false, without a change, if the job was watched already.
    pub fn watch_job(&mut self, now: Duration, job_id: JobId) -> bool {
        self.jobs.watch(now, job_id)
    }

    /// Records the session that leads a job now; `None` if no session leads it: then the job time-out begins. The commands close the
    /// registration of a JobMaster that leads no more ([`Command::CloseJob`]). Ignored for the known session, an older one, and a job that
    /// is not watched. `now` is monotonic.
    pub fn leader_seen(
        &mut self,
        now: Duration,
        job_id: JobId,
        leader: Option<LeaderSession>,
    ) -> Vec<Command> {
        let closed = self.jobs.seen(now, job_id, leader);
        let reason = "it leads the job no more".to_owned();
        closed.then_some(Command::CloseJob { job_id, reason }).into_iter().collect()
    }

    /// Registers the JobMaster that leads a watched job, from which on its requirements are accepted; does nothing if it is registered
    /// already.
    ///
    /// # Errors
    /// Returns [`NotLeading`], without a change, if another session or none leads the job as far as [`ResourceManager::leader_seen`] was
    /// told, or the job is not watched. The JobMaster may try again: its leadership may not have been seen yet.
    pub fn register_job_master(
        &mut self,
        job_id: JobId,
        job_master_id: JobMasterId,
    ) -> Result<(), NotLeading> {
        self.jobs.register(job_id, job_master_id)
    }

    /// Handles that the JobMaster of this session has disconnected or its heartbeats stopped: its registration is closed
    /// ([`Command::CloseJob`]), the job keeps its slots and is still watched. No job time-out begins, as the session still counts as the
    /// leader. Does nothing if the JobMaster is not registered.
    pub fn job_master_gone(
        &mut self,
        job_id: JobId,
        session: LeaderSession,
        reason: String,
    ) -> Vec<Command> {
        let gone = self.jobs.deregister(job_id, session);
        gone.then_some(Command::CloseJob { job_id, reason }).into_iter().collect()
    }

    /// Handles a JobMaster's report that its job has ended: the job is no longer watched, and [`Command::RemoveJob`] frees its
    /// slots. Ignored if the JobMaster is not registered.
    pub fn job_ended(&mut self, job_id: JobId, job_master_id: JobMasterId) -> Vec<Command> {
        if !self.jobs.deregister(job_id, job_master_id.session()) {
            return Vec::new();
        }
        self.jobs.forget(job_id);
        vec![Command::RemoveJob { job_id, reason: "it has ended" }]
    }

    pub(super) fn jobs_timed_out(&mut self, now: Duration) -> Vec<Command> {
        let reason = "nobody has led it for too long";
        let next = || self.jobs.take_timed_out(now);
        std::iter::from_fn(next).map(|job_id| Command::RemoveJob { job_id, reason }).collect()
    }
}
