//! Decides what a TaskExecutor does: registers at the ResourceManager, gives slots, has hosts launched,
//! offers slots to JobMasters, takes tasks, passes states on, fences itself.
//!
//! Leaders come and go; an answer or a request of one that is not the present one changes nothing. A slot
//! that is given back must never be free for others before its tasks have ended or their process was told to end at once (it may live
//! some milliseconds longer); a job's tasks must never outlive the connection to the JobMaster that deployed them.

mod jobs;
mod messages;
mod offers;
mod slots;
#[cfg(test)]
mod tests;

pub use jobs::Deployment;
pub use messages::{Command, Event};

use crate::job_table::Job;
use crate::mutation::Mutation;
use crate::registration::{Next, Pauses, Registration};
use crate::slot_table::{Phase, SlotTable};
use model::job::TaskStateUpdate;
use model::{
    AllocationId, BlobKey, ExecutionAttemptId, InstanceId, JobId, ResourceId, ResourceManagerId,
    ResourceProfile, SlotReport,
};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// The settings of a TaskExecutor, fixed at its start: its id, its slots, and the time-outs and pauses of registrations and slots.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Resource id of this TaskExecutor's process, under which it registers.
    pub resource_id: ResourceId,
    /// Resources that each slot offers, by the slot's index.
    pub slots: Vec<ResourceProfile>,
    /// Pauses between attempts to register (`cluster.registration.*`).
    pub registration: Pauses,
    /// Maximum time without a registration at a ResourceManager, from the start or the loss of the last one on; then the process ends
    /// with an error (`taskmanager.registration.timeout`).
    pub registration_timeout: Duration,
    /// Time after which a slot that no JobMaster accepts, or whose loss no JobMaster confirms, is freed
    /// (`taskmanager.slot.timeout`); does not run while the job's program host is starting, and begins anew when the host is up.
    pub slot_timeout: Duration,
    /// Time after which the program host of a slot that was given back is killed, with all tasks of its job here, if tasks in
    /// the slot have not ended; in production the sum of `task.cancellation.timeout` and `taskmanager.slot.timeout`.
    pub release_timeout: Duration,
    /// A rule that a simulation breaks on purpose; [`Mutation::None`] in production.
    pub mutation: Mutation,
}

/// The reason why [`TaskExecutor::request_slot`] does not give the slot; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SlotRefusal {
    /// The caller is not the ResourceManager that this process is registered at.
    #[error("not from the ResourceManager this TaskExecutor is registered at")]
    NotMyResourceManager,
    /// The slot is not there, taken or too small, or the allocation has another slot here: the slot table refused, for this reason.
    #[error(transparent)]
    Table(#[from] crate::slot_table::AllocateError),
}

/// The reason why a call of a JobMaster ([`TaskExecutor::deploy`], [`TaskExecutor::cancel`], [`TaskExecutor::free_slot`],
/// [`TaskExecutor::check_job_master`]), or one task of a deployment, is refused; nothing has changed for it. `cancel` and
/// `check_job_master` have the first two reasons only.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobMasterRefusal {
    /// No JobMaster of the job with this id is connected.
    #[error("no JobMaster of job {0} is connected")]
    NoJobMaster(JobId),
    /// Another JobMaster of the job is connected, so the caller may be superseded.
    #[error("another JobMaster of the job is connected")]
    OtherJobMaster,
    /// For one task of a deployment: its allocation is not that of a slot of the job here, or the slot is lost or being freed. For
    /// `free_slot`: no slot here has the allocation.
    #[error("allocation {0} is not a slot of the job")]
    NoSuchAllocation(AllocationId),
    /// The job's program host is starting, ending or absent, so that a whole deployment is refused now.
    #[error("the job's program host is not up")]
    HostNotUp,
}

/// A ResourceManager's request that this TaskExecutor give a slot to a job, for [`TaskExecutor::request_slot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRequest {
    /// Leader session of the ResourceManager that asks; refused unless this process is registered there.
    pub by: ResourceManagerId,
    /// Index of the slot that is requested, from 0.
    pub index: u32,
    /// Job that the slot is for.
    pub job: JobId,
    /// Id under which the job is to hold the slot.
    pub allocation: AllocationId,
    /// Profile that the slot must fulfil.
    pub need: ResourceProfile,
    /// The program that the job's host runs; `None`: this process itself is the program.
    pub program: Option<BlobKey>,
}

/// The state of a TaskExecutor, the component of a TaskManager that offers its slots and runs tasks in them: its registration, its slots
/// and the jobs that have some. In memory only: a process that starts anew has all slots free. Calls nobody: events
/// ([`TaskExecutor::step`]) and the calls of the ResourceManager and of JobMasters return commands.
#[derive(Debug, Clone)]
pub struct TaskExecutor {
    settings: Settings,
    registration: Registration<ResourceManagerId>,
    /// The newest incarnation, and the ResourceManager that gave it.
    instance: Option<(ResourceManagerId, InstanceId)>,
    /// Time since which the process is not registered, and the last obstacle; `None` while it is
    /// registered.
    unregistered: Option<(Duration, String)>,
    slots: SlotTable,
    jobs: BTreeMap<JobId, Job>,
    launches: u64,
    connections: u64,
    out: Vec<Command>,
}

impl TaskExecutor {
    /// Makes a TaskExecutor without registration and with all slots free; `now` (monotonic) starts the registration
    /// time-out (`Settings::registration_timeout`). It gives no commands before an event.
    pub fn new(now: Duration, settings: Settings) -> Self {
        Self {
            registration: Registration::new(settings.registration),
            instance: None,
            unregistered: Some((now, "no ResourceManager was found".into())),
            slots: SlotTable::new(settings.resource_id.clone(), settings.slots.clone()),
            jobs: BTreeMap::new(),
            launches: 0,
            connections: 0,
            out: Vec::new(),
            settings,
        }
    }

    /// Takes an event at `now` (monotonic) and returns the commands that follow, in order. Events that name a leader,
    /// connection or launch that is not the present one change nothing.
    pub fn step(&mut self, now: Duration, event: Event) -> Vec<Command> {
        match event {
            Event::ResourceManager(leader) => self.resource_manager_changed(now, leader),
            Event::RegistrationAccepted { by, instance } => self.registered(by, instance),
            Event::RegistrationRefused { by, reason, retry } => {
                self.registration_refused(now, by, reason, retry);
            }
            Event::RegistrationFailed { at, reason } => {
                if self.registration.leader() == Some(at) {
                    self.note_obstacle(reason);
                }
                self.registration.failed(now, at);
            }
            Event::ResourceManagerLost { id, reason } => {
                if self.registration.lost(now, id) {
                    self.drop_resource_manager(now, reason);
                }
            }
            Event::ResourceManagerReleases { id, reason } => {
                if self.registration.registered() == Some(id) {
                    self.out.push(Command::End { reason });
                }
            }
            Event::Tick => self.tick(now),
            of_a_job => self.job_event(now, of_a_job),
        }
        std::mem::take(&mut self.out)
    }

    /// Returns the monotonic time at which [`Event::Tick`] is due at the latest, to repeat a call or end a wait; `None` if
    /// nothing is pending.
    pub fn deadline(&self) -> Option<Duration> {
        let registration = self.unregistered.as_ref();
        let give_up =
            registration.map(|(since, _)| since.saturating_add(self.settings.registration_timeout));
        let jobs = self.jobs.values().filter_map(Job::deadline);
        let slots = self.slots.held().filter_map(|held| self.slot_deadline(&held));
        let one = [give_up, self.registration.deadline()];
        one.into_iter().flatten().chain(jobs).chain(slots).min()
    }

    /// Returns the ResourceManager that this process is registered at, and the instance id that it gave for the registration;
    /// `None` if not registered.
    pub fn registered_at(&self) -> Option<(ResourceManagerId, InstanceId)> {
        self.instance.filter(|(id, _)| self.registration.registered() == Some(*id))
    }

    /// Returns the state of every slot (free, or its job and allocation), as the ResourceManager receives it.
    pub fn slot_report(&self) -> SlotReport {
        self.slots.report()
    }

    /// Returns the report that heartbeats carry to a job's JobMaster: the allocations that it has accepted, and the tasks that
    /// are here with their newest states and counts; ended tasks too, until the JobMaster has confirmed their end. Both are
    /// empty for an unknown job.
    pub fn job_report(&self, job: JobId) -> (Vec<AllocationId>, Vec<TaskStateUpdate>) {
        let active = self.slots.of_job(job).filter(|held| held.phase == Phase::Active);
        let tasks = self.jobs.get(&job).map(Job::snapshot).unwrap_or_default();
        (active.map(|held| held.allocation).collect(), tasks)
    }

    /// Returns the connection to a job's JobMaster; `None` if none is connected.
    pub fn job_master(&self, job: JobId) -> Option<crate::job_table::Connection> {
        self.jobs.get(&job)?.job_master
    }

    /// Iterates over the jobs that have slots or a host here, or whose reports are not confirmed.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// Returns the number of this process's slots that are allocated to a job.
    pub fn slots_of(&self, job: JobId) -> usize {
        self.slots.of_job(job).count()
    }

    /// Returns the index of the slot that has this allocation; `None` if none has.
    pub fn slot_index(&self, allocation: AllocationId) -> Option<u32> {
        self.slots.index_of(allocation)
    }

    /// Returns true if the job's attempt is here and has not ended.
    pub fn is_running(&self, job: JobId, attempt: ExecutionAttemptId) -> bool {
        self.jobs.get(&job).is_some_and(|j| j.is_running(attempt))
    }

    fn resource_manager_changed(&mut self, now: Duration, leader: Option<ResourceManagerId>) {
        let before = self.registered_at();
        let next = self.registration.leader_changed(leader);
        if let Some((id, instance)) = before
            && self.registration.registered() != Some(id)
        {
            self.out.push(Command::DropResourceManager { id, instance });
            self.unregistered =
                Some((now, "the ResourceManager it was registered at leads no more".into()));
        }
        if let Next::Ask(at) = next {
            self.out.push(Command::Register { at });
        }
    }

    fn registered(&mut self, by: ResourceManagerId, instance: InstanceId) {
        if !self.registration.accepted(by) {
            return;
        }
        self.instance = Some((by, instance));
        self.unregistered = None;
        self.out.push(Command::ConnectResourceManager { id: by, instance });
    }

    fn registration_refused(
        &mut self,
        now: Duration,
        by: ResourceManagerId,
        reason: String,
        retry: bool,
    ) {
        if !self.registration.refused(now, by, retry) {
            return;
        }
        if retry {
            self.note_obstacle(format!("it refused: {reason}"));
        } else {
            let reason = format!("the ResourceManager refused this TaskManager: {reason}");
            self.out.push(Command::Fail { reason });
        }
    }

    fn drop_resource_manager(&mut self, now: Duration, reason: String) {
        if let Some((id, instance)) = self.instance {
            self.out.push(Command::DropResourceManager { id, instance });
        }
        self.unregistered = Some((now, reason));
    }

    fn note_obstacle(&mut self, reason: String) {
        if let Some((_, obstacle)) = &mut self.unregistered {
            *obstacle = reason;
        }
    }

    fn tick(&mut self, now: Duration) {
        if let Next::Ask(at) = self.registration.tick(now) {
            self.out.push(Command::Register { at });
        }
        if let Some((since, obstacle)) = &self.unregistered
            && now >= since.saturating_add(self.settings.registration_timeout)
        {
            let timeout = self.settings.registration_timeout.as_millis();
            let reason =
                format!("not registered at a ResourceManager within {timeout} ms: {obstacle}");
            self.out.push(Command::Fail { reason });
            self.unregistered = None;
        }
        self.tick_slots(now);
        self.tick_jobs(now);
    }
}
