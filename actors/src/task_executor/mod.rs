//! The TaskExecutor: offers this process's slots, runs the jobs' program hosts, hands tasks to them and
//! passes on what they report.
//!
//! A thin shell over `control::task_executor`: a message becomes an event, a command becomes a call. It
//! must never decide anything itself, and never answer a call before what it changed is published to the
//! heartbeats.

mod checkpoints;
mod handlers;
mod host_calls;
mod hosts;
mod job_masters;
mod logs;
mod manager;
#[cfg(test)]
mod tests;

pub use hosts::HostSettings;
pub use logs::LogFolder;

use crate::blob_server::BlobCache;
use crate::job_leader_service::{self, Introduction, JobLeaderServiceHandle, leaders, pauses};
use crate::probe::Fact;
use crate::services::{PeerWatch, ProcessServices, Running, TurnMarker, stops_at_once};
use crate::turns::Alarm;
use actix::{Actor, AsyncContext, Context};
use control::job_table::Connection;
use control::task_executor::{Command, Event, Settings, TaskExecutor as Core};
use gateways::job_master::{FailSlot, JobMasterGateway};
use gateways::job_services::{JobLeaderFact, ProgramHostsGateway};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::ResourceManagerGateway;
use gateways::task_executor::TaskExecutorGateway;
use gateways::{Call, CallError, Courier, EndpointAddress, Remote, TraceContext};
use hosts::RunningHost;
use model::slots::SlotAllocation;
use model::{
    InstanceId, JobId, LeaderSession, MemorySize, ProcessSession, ResourceManagerId,
    WorkerResourceSpec,
};
use platform::watch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The endpoint name that a TaskManager's TaskExecutor is served under.
pub const ENDPOINT: &str = "task_executor";

/// The parts from which a process's TaskExecutor is started, besides the services of the process: its resources and slots, facts
/// to show, the blob cache, the keeper and settings of program hosts, the source of data keys, and the log files.
#[derive(Clone, derive_more::Debug)]
#[debug("TaskExecutorDeps {{ spec: {:?}, .. }}", self.spec)]
pub struct TaskExecutorDeps {
    /// Resources of the whole TaskManager and the number of its slots, over which the resources are divided equally.
    pub spec: WorkerResourceSpec,
    /// Memory of the TaskManager and its program hosts together (`taskmanager.memory.process.size`), in bytes; only
    /// shown to users.
    pub process_memory: MemorySize,
    /// Facts about the machine and the rest of the process's memory; only shown to users.
    pub facts: model::TaskManagerFacts,
    /// Process id of this process on its machine, shown to users.
    pub pid: u32,
    /// Cache from which the program hosts' executables come. The TaskExecutor sets its BlobServer after each
    /// registration at a ResourceManager, and sweeps it at intervals.
    pub blobs: BlobCache,
    /// Gateway of this process's keeper of program hosts, which starts and ends the processes that run tasks.
    pub program_hosts: Remote<ProgramHostsGateway>,
    /// Settings that each program host receives when the TaskExecutor starts it.
    pub hosts: HostSettings,
    /// Function that returns the secret key, 32 bytes, of the data connections between the hosts of a job. The key is derived from the
    /// cluster's secret and the job id. The function is called when a host is started or the number of its slots changes.
    pub data_key: Arc<dyn Fn(JobId) -> [u8; 32] + Send + Sync>,
    /// Folder of the log files of this process and its hosts, served to users; `None` if the process logs elsewhere: the list
    /// of its log files is empty then.
    pub logs: Option<LogFolder>,
}

/// A running TaskExecutor. Dropping it ends it at once, without telling the ResourceManager and the JobMasters, and leaves its program
/// hosts to their keeper; [`TaskExecutorHandle::stop`] ends the hosts and tells the others first.
#[derive(Debug)]
pub struct TaskExecutorHandle {
    /// Address of the TaskExecutor's endpoint.
    pub address: EndpointAddress,
    /// Session of the process, which calls to its TaskExecutor have to name: it refuses others.
    pub session: ProcessSession,
    running: Running<TaskExecutor>,
    released: watch::Receiver<Option<String>>,
}

impl TaskExecutorHandle {
    /// Waits until the ResourceManager has released this process; returns the reason as text. Stops nothing: the caller then calls
    /// `TaskExecutorHandle::stop`. Does not return once the TaskExecutor has died of a panic, which is reported as a fatal error.
    pub async fn released(&self) -> String {
        match self.released.clone().some().await {
            Ok(reason) => reason,
            Err(watch::Closed) => std::future::pending().await,
        }
    }

    /// Kills all program hosts, then tells the ResourceManager and the JobMasters that this process leaves with `cause`, and ends the
    /// TaskExecutor. Returns when the hosts have ended and the leaders have answered, for which it waits at most 1 s. To the jobs it is a
    /// recoverable failure of their tasks here.
    pub async fn stop(mut self, cause: &str) {
        self.running.unguard();
        let leave = handlers::Leave { cause: cause.to_owned() };
        if self.running.addr().send(leave).await.is_err() {
            tracing::debug!("the TaskExecutor had ended before it was stopped");
        }
    }
}

/// Starts the TaskExecutor of this process and its JobLeaderService (which finds and registers at JobMasters) on the
/// calling lane, and serves it as [`ENDPOINT`]. From then on it looks for the ResourceManager and registers there,
/// again after each loss. A final refusal, no registration within `taskmanager.registration.timeout`, a panic in the actor, or the death of
/// the JobLeaderService or of the keeper of program hosts is a fatal error, which ends the process. Returns before it is registered.
pub fn start(services: &ProcessServices, deps: TaskExecutorDeps) -> TaskExecutorHandle {
    let (release, released) = watch::channel(None);
    let session = services.session;
    let address = services.rpc.address_of(ENDPOINT);
    let services = services.clone();
    let (rpc, platform, fatal) =
        (services.rpc.clone(), services.platform.clone(), services.fatal.clone());
    let me = address.clone();
    let actor = TaskExecutor::create(move |ctx| {
        let introduction = Introduction {
            resource_id: services.resource_id.clone(),
            address: me.clone(),
            session,
            heartbeat: services.heartbeat_address(),
            host: services.host.clone(),
        };
        let reports = ctx.address().recipient();
        let leader_service = job_leader_service::start(&services, introduction, reports);
        TaskExecutor::new(services, deps, me, leader_service, release)
    });
    let endpoint = TaskExecutorGateway::endpoint(actor.clone());
    let registration = rpc.serve(ENDPOINT, session, endpoint);
    let running = Running::new(address.clone(), actor, registration).guarded(&platform, &fatal);
    TaskExecutorHandle { address, session, running, released }
}

/// The actor around the TaskExecutor's core.
struct TaskExecutor {
    services: ProcessServices,
    deps: TaskExecutorDeps,
    address: EndpointAddress,
    core: Core,
    marker: TurnMarker,
    /// Lives and ends with this actor.
    _leader_service: JobLeaderServiceHandle,
    job_leaders: Courier<JobLeaderFact>,
    /// The leader that the retrieval names.
    manager_leader: Option<LeaderInformation>,
    manager: Option<ManagerConnection>,
    jobs: BTreeMap<JobId, JobShell>,
    hosts: BTreeMap<JobId, RunningHost>,
    /// Allocation of each slot, as last passed to the probe.
    noted: Vec<Option<SlotAllocation>>,
    timer: Alarm,
    release: watch::Sender<Option<String>>,
    leaving: bool,
}

/// The ResourceManager that this process is registered at.
struct ManagerConnection {
    instance: InstanceId,
    remote: Remote<ResourceManagerGateway>,
    watch: PeerWatch,
}

/// The shell's state of a job besides the core's.
#[derive(Default)]
struct JobShell {
    /// Leader information of the job's JobMaster that came with the last slot request.
    hint: Option<LeaderInformation>,
    /// A registered JobMaster that the core is about to connect, or has.
    leader: Option<job_masters::JobMaster>,
    connection: Option<MasterConnection>,
    /// The trace of the last request that had one and started or ended work of the job here.
    trace: TraceContext,
}

/// A connected JobMaster.
struct MasterConnection {
    remote: Remote<JobMasterGateway>,
    watch: PeerWatch,
}

impl Actor for TaskExecutor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        let interval = self.services.heartbeat.limits().interval;
        self.marker.tick(ctx, interval);
        let manager = self.services.retrieval.watch(Component::ResourceManager);
        ctx.add_stream(futures::StreamExt::map(leaders(manager), manager::ManagerLeader));
        let blobs = self.deps.blobs.clone();
        let sweep = self.services.options.get(&conf::rpc::BLOB_CLEANUP_INTERVAL) / 4;
        ctx.run_interval(sweep.max(Duration::from_secs(1)), move |_, _| drop(blobs.sweep()));
        self.rearm(ctx);
    }
}

impl TaskExecutor {
    fn new(
        services: ProcessServices,
        deps: TaskExecutorDeps,
        address: EndpointAddress,
        leader_service: JobLeaderServiceHandle,
        release: watch::Sender<Option<String>>,
    ) -> Self {
        let options = &services.options;
        let slots = usize::try_from(deps.spec.slots).unwrap_or(usize::MAX);
        let settings = Settings {
            resource_id: services.resource_id.clone(),
            slots: vec![deps.spec.slot_profile(); slots],
            registration: pauses(options),
            registration_timeout: options.get(&conf::taskmanager::REGISTRATION_TIMEOUT),
            slot_timeout: options.get(&conf::taskmanager::SLOT_TIMEOUT),
            release_timeout: options
                .get(&conf::taskmanager::CANCELLATION_TIMEOUT)
                .saturating_add(options.get(&conf::taskmanager::SLOT_TIMEOUT)),
            mutation: services.mutation,
        };
        let job_leaders = services.rpc.gateway(&leader_service.address, leader_service.session);
        let fatal = services.fatal.clone();
        let job_leaders = Courier::new(job_leaders, move |why| fatal.report(ENDPOINT, why));
        Self {
            core: Core::new(services.platform.now(), settings),
            marker: services.turn_marker(ENDPOINT),
            job_leaders,
            _leader_service: leader_service,
            address,
            manager_leader: None,
            manager: None,
            jobs: BTreeMap::new(),
            hosts: BTreeMap::new(),
            noted: vec![None; slots],
            timer: Alarm::default(),
            release,
            leaving: false,
            services,
            deps,
        }
    }

    fn now(&self) -> Duration {
        self.services.platform.now()
    }

    /// Gives an event to the core and does what follows.
    fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        let commands = self.core.step(self.now(), event);
        self.apply(commands, ctx);
    }

    /// Does what the core has decided, in order.
    fn apply(&mut self, commands: Vec<Command>, ctx: &mut Context<Self>) {
        for command in commands {
            self.execute(command, ctx);
        }
        self.rearm(ctx);
    }

    fn execute(&mut self, command: Command, ctx: &mut Context<Self>) {
        match command {
            Command::Register { at } => self.register(at, ctx),
            Command::ConnectResourceManager { id, instance } => {
                self.connect_manager(id, instance, ctx);
            }
            Command::DropResourceManager { id, instance } => self.drop_manager(id, instance),
            Command::NotifySlotAvailable { id, instance, index, allocation } => {
                self.notify_slot_available(id, instance, index, allocation);
            }
            Command::WatchJob { job, instance } => self.watch_job(job, instance),
            Command::ReconnectJob { job } => self.reconnect_job(job),
            Command::ForgetJob { job } => self.forget_job(job),
            Command::ConnectJobMaster { job, id, instance } => {
                self.connect_job_master(job, id, instance, ctx);
            }
            Command::DropJobMaster { job, id, instance, tell } => {
                self.drop_job_master(job, id, instance, tell);
            }
            Command::LaunchHost { job, launch, program } => {
                self.launch_host(job, launch, program, ctx);
            }
            Command::EndHost { job, launch, at_once } => self.end_host(job, launch, at_once, ctx),
            Command::ResizeHost { job, launch } => self.resize_host(job, launch),
            Command::CancelOnHost { job, attempts } => self.cancel_on_host(job, attempts),
            Command::ReleaseSlotOnHost { job, allocation } => {
                self.release_slot_on_host(job, allocation);
            }
            Command::OfferSlots { job, to, slots } => self.offer_slots(job, to, slots, ctx),
            Command::UpdateTaskStates { job, to, updates } => {
                self.update_task_states(job, to, updates, ctx);
            }
            Command::FailSlot { job, to, allocation, accepted, cause } => {
                let resource_id = self.services.resource_id.clone();
                let message = FailSlot { resource_id, allocation_id: allocation, accepted, cause };
                self.fail_slot(job, to, message, ctx);
            }
            Command::PublishSlots => self.publish_slots(),
            Command::PublishJob { job } => self.publish_job(job),
            Command::Fail { reason } => {
                let obstacle = self.services.retrieval.obstacle();
                let more =
                    obstacle.map(|why| format!("; the JobManager: {why}")).unwrap_or_default();
                self.services.fatal.report(ENDPOINT, format!("{reason}{more}"));
            }
            Command::End { reason } => {
                tracing::info!(%reason, "the ResourceManager releases this TaskManager");
                self.release.send_replace(Some(reason));
            }
        }
    }

    /// Wakes up when the core is due again.
    fn rearm(&mut self, ctx: &mut Context<Self>) {
        let (due, now) = (self.core.deadline(), self.now());
        self.timer.set(due, now, ctx, |executor, ctx| {
            executor.timer.clear();
            executor.step(Event::Tick, ctx);
        });
    }

    /// Publishes the slots' allocations: to the heartbeats, and changes to the probe.
    fn publish_slots(&mut self) {
        let report = self.core.slot_report();
        for (slot, noted) in report.slots.iter().zip(&mut self.noted) {
            if *noted != slot.allocation {
                *noted = slot.allocation;
                self.services.probe.note(Fact::SlotAllocation {
                    session: self.services.session.0,
                    slot_id: slot.slot_id.clone(),
                    allocation: slot.allocation.map(|a| (a.job_id, a.allocation_id)),
                });
            }
        }
        if let Some(manager) = &self.manager {
            manager.watch.publish(gateways::heartbeat::BeatPayload::Slots(report));
        }
    }

    pub(super) fn note_followed(&self, leader: Component, session: LeaderSession) {
        let by = ENDPOINT.to_owned();
        self.services.probe.note(Fact::LeaderFollowed { by, leader, session });
    }

    pub(super) fn note_left(&self, leader: Component, session: LeaderSession) {
        let by = ENDPOINT.to_owned();
        self.services.probe.note(Fact::LeaderLeft { by, leader, session });
    }

    pub(super) fn note_obeyed<C: Call>(&self, leader: Component, session: LeaderSession) {
        let by = ENDPOINT.to_owned();
        self.services.probe.note(Fact::LeaderObeyed { by, leader, session, call: C::NAME });
    }

    /// Notes that a call was fenced, if that is what became of it.
    fn note_fenced<C: Call>(&self, error: &CallError<C::Error>) {
        if let Some(fact) = Fact::fenced::<C>(error) {
            self.services.probe.note(fact);
        }
    }

    fn connection(&self, job: JobId, to: Connection) -> Option<&MasterConnection> {
        let current = self.core.job_master(job)?;
        let connection = self.jobs.get(&job)?.connection.as_ref()?;
        (current.number == to.number).then_some(connection)
    }

    fn registered_manager(&self) -> Option<(ResourceManagerId, &ManagerConnection)> {
        let (id, _) = self.core.registered_at()?;
        Some((id, self.manager.as_ref()?))
    }
}

stops_at_once!(TaskExecutor);
