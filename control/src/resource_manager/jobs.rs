//! JobMasters at the ResourceManager: who may register, and when a registration or a job ends.
//!
//! It must never believe a JobMaster that leads no more.

use super::{Command, NotLeading, ResourceManager};
use model::{Fence, JobId, JobMasterId, LeaderSession};
use std::time::Duration;

impl ResourceManager {
    /// Watches the leader of a job from now on. Returns whether it was not watched before.
    pub fn watch_job(&mut self, now: Duration, job_id: JobId) -> bool {
        self.jobs.watch(now, job_id)
    }

    /// Retrieval says who leads a job now; `None`: nobody. An older session than the known one is not believed.
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

    /// Registers the JobMaster that leads a watched job; one that is registered already stays so.
    ///
    /// # Errors
    /// Another session leads the job, or none, or the job is not watched.
    pub fn register_job_master(
        &mut self,
        job_id: JobId,
        job_master_id: JobMasterId,
    ) -> Result<(), NotLeading> {
        self.jobs.register(job_id, job_master_id)
    }

    /// A JobMaster has left or is not heard any more. Nothing follows for one that is not registered.
    pub fn job_master_gone(
        &mut self,
        job_id: JobId,
        session: LeaderSession,
        reason: String,
    ) -> Vec<Command> {
        let gone = self.jobs.deregister(job_id, session);
        gone.then_some(Command::CloseJob { job_id, reason }).into_iter().collect()
    }

    /// A JobMaster says that its job has ended. Nothing follows from one that is not registered.
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
