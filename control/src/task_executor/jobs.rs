//! Jobs of the TaskExecutor: their JobMasters, hosts, tasks and reports.

use super::{Command, Event, JobMasterRefusal, TaskExecutor};
use crate::job_table::{Connection, Host, Job};
use crate::slot_table::{Held, Phase};
use model::job::TaskStateUpdate;
use model::{AllocationId, ExecutionAttemptId, FailureCause, InstanceId, JobId, JobMasterId};
use std::time::Duration;

/// The result of [`TaskExecutor::deploy`] for a deployment that was not refused as a whole: the tasks that are accepted (perhaps none) and
/// those that are refused one by one.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// Number of the launch of the program host (the process that runs the job's tasks) that takes the tasks.
    pub launch: u64,
    /// The tasks to hand on to the host, which are recorded as DEPLOYING. If the host does not take them, the caller reports
    /// [`Event::NotDeployed`]. A task that the TaskExecutor has already is not among them: the request was repeated.
    pub accepted: Vec<ExecutionAttemptId>,
    /// The tasks that are refused because their slots are not allocated to the job, are lost, or are being freed, each with
    /// [`JobMasterRefusal::NoSuchAllocation`]; the caller tells the JobMaster.
    pub refused: Vec<(ExecutionAttemptId, JobMasterRefusal)>,
    /// Further commands for the caller, to be carried out in order.
    pub commands: Vec<Command>,
}

impl TaskExecutor {
    /// Deploys tasks of the JobMaster `by` into slots of its job `id`, each given with its allocation. Tasks are recorded as DEPLOYING and
    /// their slots as accepted; the caller hands the accepted ones to the program host. May be repeated. `now` is monotonic.
    ///
    /// # Errors
    ///
    /// Returns the reason why the whole call is refused, without a change: `by` is not the connected JobMaster (`NoJobMaster`,
    /// `OtherJobMaster`), or the job's program host is not up (`HostNotUp`). The refusal of a single task is no error: see
    /// [`Deployment::refused`].
    pub fn deploy(
        &mut self,
        now: Duration,
        id: JobId,
        by: JobMasterId,
        tasks: &[(ExecutionAttemptId, AllocationId)],
    ) -> Result<Deployment, JobMasterRefusal> {
        self.check_job_master(id, by)?;
        let job = self.jobs.get_mut(&id).ok_or(JobMasterRefusal::NoJobMaster(id))?;
        let launch = job.host_up().ok_or(JobMasterRefusal::HostNotUp)?;
        let mut accepted = Vec::new();
        let mut refused = Vec::new();
        for (attempt, allocation) in tasks {
            let held = self.slots.get(*allocation).filter(|held| held.job == id);
            match held.map(|held| held.phase) {
                Some(Phase::Active) => {}
                // Accepted, though the answer to the offer is still on its way.
                Some(Phase::Inactive) => {
                    self.slots.set_phase(now, *allocation, Phase::Active);
                }
                _ => {
                    refused.push((*attempt, JobMasterRefusal::NoSuchAllocation(*allocation)));
                    continue;
                }
            }
            if !job.has_task(*attempt) {
                job.add_task(*attempt, *allocation);
                accepted.push(*attempt);
            }
        }
        self.out.push(Command::PublishJob { job: id });
        let commands = std::mem::take(&mut self.out);
        Ok(Deployment { launch, accepted, refused, commands })
    }

    /// Has tasks cancelled for the JobMaster `by` of job `id` ([`Command::CancelOnHost`]); attempts that are not here or have ended are
    /// ignored, and so are all if the job's program host is not up. Returns before any task has ended; tasks report when they have. May be
    /// repeated.
    ///
    /// # Errors
    ///
    /// Returns the reason, without a change, if `by` is not the connected JobMaster of the job.
    pub fn cancel(
        &mut self,
        id: JobId,
        by: JobMasterId,
        attempts: &[ExecutionAttemptId],
    ) -> Result<Vec<Command>, JobMasterRefusal> {
        self.check_job_master(id, by)?;
        self.cancel_on_host(id, attempts);
        Ok(std::mem::take(&mut self.out))
    }

    /// Checks that a call comes from the JobMaster that this TaskExecutor is connected to for the job; changes nothing.
    ///
    /// # Errors
    ///
    /// Returns the reason why the call must change nothing: no JobMaster or another one is connected.
    pub fn check_job_master(&self, id: JobId, by: JobMasterId) -> Result<(), JobMasterRefusal> {
        let connected = self.jobs.get(&id).and_then(|job| job.job_master);
        match connected {
            None => Err(JobMasterRefusal::NoJobMaster(id)),
            Some(connection) if connection.id != by => Err(JobMasterRefusal::OtherJobMaster),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn job_event(&mut self, now: Duration, event: Event) {
        match event {
            Event::JobMasterGained { job, id, instance } => self.gained(now, job, id, instance),
            Event::JobMasterLost { job, id, reason, reconnect } => {
                self.lost(now, job, id, reason, reconnect);
            }
            Event::JobMasterRefused { job, reason } => self.refused(now, job, reason),
            Event::JobMasterSilent { job, id } => self.fence(now, job, id),
            Event::HostUp { job, launch } => self.host_up(now, job, launch),
            Event::HostLost { job, launch, cause } => self.host_lost(now, job, launch, &cause),
            Event::HostEnded { job, launch } => self.host_ended(job, launch),
            Event::OffersAnswered { job, connection, accepted } => {
                self.offers_answered(now, job, connection, &accepted);
            }
            Event::OffersFailed { job, connection } => {
                if let Some(job) = self.connected(job, connection) {
                    job.offer_failed(now);
                }
            }
            Event::ReportsTaken { job, connection, unknown } => {
                self.reports_taken(now, job, connection, &unknown);
            }
            Event::ReportsFailed { job, connection } => {
                if let Some(job) = self.connected(job, connection) {
                    job.batch_failed(now);
                }
            }
            Event::TaskStates { job, updates } => self.task_states(now, job, updates),
            Event::NotDeployed { job, attempts } => self.not_deployed(now, job, &attempts),
            // Not of a job: taken before.
            Event::ResourceManager(_)
            | Event::RegistrationAccepted { .. }
            | Event::RegistrationRefused { .. }
            | Event::RegistrationFailed { .. }
            | Event::ResourceManagerLost { .. }
            | Event::ResourceManagerReleases { .. }
            | Event::Tick => {}
        }
    }

    pub(super) fn tick_jobs(&mut self, now: Duration) {
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            self.report(now, id);
            self.offer(now, id);
        }
    }

    pub(super) fn connected(&mut self, id: JobId, connection: u64) -> Option<&mut Job> {
        self.jobs.get_mut(&id).filter(|job| job.is_connection(connection))
    }

    fn gained(&mut self, now: Duration, id: JobId, master: JobMasterId, instance: InstanceId) {
        let before = match self.jobs.get(&id) {
            Some(job) if job.watched => job.job_master,
            _ => {
                self.out.push(Command::ForgetJob { job: id });
                return;
            }
        };
        match before {
            Some(c) if (c.id, c.instance) == (master, instance) => return,
            Some(_) => {
                let cause = FailureCause::recoverable(
                    "JobMasterChanged",
                    "another JobMaster leads the job",
                );
                self.drop_job_master(now, id, Some(cause));
            }
            None => {}
        }
        // The former one's slots may have gone with it, and then so has the job.
        if !self.jobs.get(&id).is_some_and(|job| job.watched) {
            return;
        }
        self.connections = self.connections.wrapping_add(1);
        let number = self.connections;
        let has_slots = self.slots.of_job(id).any(|held| held.phase == Phase::Inactive);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.job_master = Some(Connection { id: master, instance, number });
            if has_slots {
                job.want_host();
            }
        }
        self.out.push(Command::ConnectJobMaster { job: id, id: master, instance });
        self.out.push(Command::PublishJob { job: id });
        self.launch_if_wanted(id);
        self.report(now, id);
        self.offer(now, id);
        self.close_if_done(id);
    }

    fn lost(
        &mut self,
        now: Duration,
        id: JobId,
        master: JobMasterId,
        reason: String,
        reconnect: bool,
    ) {
        let connected = self.jobs.get(&id).is_some_and(|job| job.is_connected_to(master));
        if !connected {
            return;
        }
        let cause = FailureCause::recoverable("JobMasterLost", reason);
        self.drop_job_master(now, id, Some(cause));
        if reconnect && self.jobs.get(&id).is_some_and(|job| job.watched) {
            self.out.push(Command::ReconnectJob { job: id });
        }
    }

    fn refused(&mut self, now: Duration, id: JobId, reason: String) {
        let cause = FailureCause::recoverable("RegistrationRefused", reason);
        self.drop_job_master(now, id, Some(cause));
        self.end_host(id, true);
        let allocations: Vec<_> = self.slots.of_job(id).map(|held| held.allocation).collect();
        allocations.into_iter().for_each(|allocation| self.free_now(id, allocation));
    }

    /// Ends the connection and everything that was deployed over it; accepted slots wait for the next
    /// JobMaster.
    fn drop_job_master(&mut self, now: Duration, id: JobId, tell: Option<FailureCause>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.job_master.is_none() {
            return;
        }
        let Some(connection) = job.disconnect() else {
            return;
        };
        let kill = matches!(job.host, Host::Up { .. });
        job.wants_host &= !kill;
        self.out.push(Command::DropJobMaster {
            job: id,
            id: connection.id,
            instance: connection.instance,
            tell,
        });
        if kill {
            self.end_host(id, true);
        }
        let slots: Vec<Held> = self.slots.of_job(id).collect();
        for held in slots {
            match held.phase {
                Phase::Inactive | Phase::Active => {
                    self.slots.set_phase(now, held.allocation, Phase::Inactive);
                }
                Phase::Failing | Phase::Releasing => self.free_now(id, held.allocation),
            }
        }
        self.out.push(Command::PublishJob { job: id });
        self.close_if_done(id);
    }

    /// Ends everything that this process runs for a job, before the job's JobMaster may declare
    /// this process dead.
    fn fence(&mut self, now: Duration, id: JobId, master: JobMasterId) {
        let job = self.jobs.get(&id).filter(|job| job.is_connected_to(master));
        if job.is_none_or(|job| job.running().next().is_none()) {
            return;
        }
        let message = "the JobMaster was not heard for 0.6 of heartbeat.timeout, so the job's tasks here were ended";
        self.end_host(id, true);
        self.fail_job(now, id, &FailureCause::recoverable("Fenced", message));
    }

    /// Fails a job's tasks and reports its slots as lost, because its host has ended or will end.
    pub(super) fn fail_job(&mut self, now: Duration, id: JobId, cause: &FailureCause) {
        let slots: Vec<Held> = self.slots.of_job(id).collect();
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.wants_host = false;
        job.fail_running(cause);
        let mut released = Vec::new();
        for held in slots {
            match held.phase {
                Phase::Inactive | Phase::Active => {
                    self.slots.set_phase(now, held.allocation, Phase::Failing);
                    let accepted = held.phase == Phase::Active;
                    job.slot_failed(held.allocation, accepted, cause.clone());
                }
                Phase::Failing => {}
                Phase::Releasing => released.push(held.allocation),
            }
        }
        self.out.push(Command::PublishJob { job: id });
        released.into_iter().for_each(|allocation| self.free_now(id, allocation));
        self.report(now, id);
    }

    fn host_up(&mut self, now: Duration, id: JobId, launch: u64) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.host != (Host::Launching { launch }) {
            return;
        }
        job.host = Host::Up { launch };
        // Their time to be accepted starts now.
        let waiting: Vec<Held> =
            self.slots.of_job(id).filter(|h| h.phase == Phase::Inactive).collect();
        for held in waiting {
            self.slots.set_phase(now, held.allocation, Phase::Inactive);
        }
        self.resize_host(id);
        self.offer(now, id);
    }

    fn host_lost(&mut self, now: Duration, id: JobId, launch: u64, cause: &FailureCause) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.host == (Host::Launching { launch }) || job.host == (Host::Up { launch }) {
            job.host = Host::Absent;
            self.fail_job(now, id, cause);
            self.close_if_done(id);
        } else {
            self.host_ended(id, launch);
        }
    }

    fn host_ended(&mut self, id: JobId, launch: u64) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.host != (Host::Ending { launch }) {
            return;
        }
        job.host = Host::Absent;
        self.launch_if_wanted(id);
        self.close_if_done(id);
    }

    fn task_states(&mut self, now: Duration, id: JobId, updates: Vec<TaskStateUpdate>) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        for update in updates {
            job.update(update);
        }
        self.out.push(Command::PublishJob { job: id });
        self.free_idle_releasing(id);
        self.report(now, id);
    }

    fn not_deployed(&mut self, now: Duration, id: JobId, attempts: &[ExecutionAttemptId]) {
        if let Some(job) = self.jobs.get_mut(&id) {
            attempts.iter().for_each(|attempt| {
                job.remove_task(*attempt);
            });
            self.out.push(Command::PublishJob { job: id });
            self.free_idle_releasing(id);
            self.report(now, id);
        }
    }

    /// Frees the slots that were given back and in which nothing runs any more.
    fn free_idle_releasing(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let idle =
            |held: &Held| held.phase == Phase::Releasing && !job.slot_is_busy(held.allocation);
        let idle: Vec<AllocationId> =
            self.slots.of_job(id).filter(idle).map(|h| h.allocation).collect();
        idle.into_iter().for_each(|allocation| self.free_now(id, allocation));
    }

    pub(super) fn cancel_on_host(&mut self, id: JobId, attempts: &[ExecutionAttemptId]) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.host_up().is_some()) else {
            return;
        };
        let running = attempts.iter().copied().filter(|attempt| job.is_running(*attempt));
        let attempts: Vec<_> = running.collect();
        if !attempts.is_empty() {
            self.out.push(Command::CancelOnHost { job: id, attempts });
        }
    }

    pub(super) fn launch_if_wanted(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.host != Host::Absent || !job.wants_host {
            return;
        }
        self.launches = self.launches.wrapping_add(1);
        let launch = self.launches;
        job.host = Host::Launching { launch };
        job.wants_host = false;
        let program = job.program;
        self.out.push(Command::LaunchHost { job: id, launch, program });
    }

    pub(super) fn resize_host(&mut self, id: JobId) {
        if let Some(launch) = self.jobs.get(&id).and_then(Job::host_up) {
            self.out.push(Command::ResizeHost { job: id, launch });
        }
    }

    pub(super) fn end_host(&mut self, id: JobId, at_once: bool) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let (launch, at_once) = match job.host {
            Host::Up { launch } => (launch, at_once),
            Host::Launching { launch } => (launch, true),
            Host::Absent | Host::Ending { .. } => return,
        };
        job.host = Host::Ending { launch };
        self.out.push(Command::EndHost { job: id, launch, at_once });
    }

    /// Forgets a job without slots, once its JobMaster has all reports and its host has ended.
    pub(super) fn close_if_done(&mut self, id: JobId) {
        if self.slots.of_job(id).next().is_some() {
            return;
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if job.job_master.is_some() && !job.reported_all() {
            return;
        }
        if std::mem::take(&mut job.watched) {
            if let Some(connection) = job.disconnect() {
                let message = "the TaskManager has no slots for the job any more";
                self.out.push(Command::DropJobMaster {
                    job: id,
                    id: connection.id,
                    instance: connection.instance,
                    tell: Some(FailureCause::recoverable("NoSlots", message)),
                });
            }
            self.out.push(Command::ForgetJob { job: id });
        }
        if job.host == Host::Absent {
            self.jobs.remove(&id);
        }
    }
}
