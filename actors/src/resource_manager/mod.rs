//! The ResourceManager: TaskExecutors and JobMasters register here, and jobs declare their requirements.
//!
//! It owns the registrations of TaskExecutors and the requests for new workers; everything about a TaskExecutor reaches the SlotManager
//! through it, in order, stamped with the incarnation. `control::resource_manager` decides. It must never deploy a task or know what a job
//! does.

mod active;
pub mod driver;
mod handlers;
mod internal;
mod job_leaders;
mod nodes;
pub mod runner;
#[cfg(test)]
mod tests;

pub use driver::{DriverError, ResourceManagerDriver, WorkerRequest};
pub use runner::{ResourceManagerService, start};

use crate::probe::Fact;
use crate::services::{HeartbeatReport, PeerWatch, ProcessServices, Running, Stop, TurnMarker};
use crate::slot_manager;
use crate::turns::takes_steps;
use actix::{Actor, ActorContext, AsyncContext, Context, Handler};
use control::resource_manager::pool::{DriverEvent, PoolSettings, RecoveredWorker};
use control::resource_manager::{Command, ResourceManager, Settings};
use control::slot_manager::{Settings as SlotSettings, Supply};
use gateways::heartbeat::{BeatPayload, Party};
use gateways::job_master::{self, JobMasterGateway};
use gateways::leader_election::Component;
use gateways::resource_manager::{RegisterTaskExecutor, ResourceManagerGateway};
use gateways::slot_manager::{
    BlockHosts, ProcessRequirements, RefuseTaskManagers, RemoveJob, RemoveTaskExecutor,
    ReportSlots, SlotManagerFact, SlotManagerGateway,
};
use gateways::task_executor::{DisconnectResourceManager, TaskExecutorGateway};
use gateways::{Courier, EndpointAddress, Inbox, Remote};
use model::{
    Fence, InstanceId, JobId, JobMasterId, ProcessSession, ResourceManagerId, SlotManagerId,
    WorkerResourceSpec,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The endpoint name that a leading ResourceManager is served under in its process.
pub const ENDPOINT: &str = "resource_manager";

/// Interval at which pauses and blocks are checked.
const TICK: Duration = Duration::from_millis(250);
/// Maximum time for telling a TaskManager that it is released.
const RELEASED_WITHIN: Duration = Duration::from_secs(2);

/// The way in which the cluster gets its TaskManagers: they register by themselves, or the ResourceManager requests
/// them from an external system.
#[derive(Debug, Clone)]
pub enum Mode {
    /// TaskManagers are started from outside, by scripts or by hand; any that registers is accepted, and none is
    /// requested.
    Standalone,
    /// TaskManagers are requested as workers from an external resource system through a driver, and released when they are idle.
    Active {
        /// The driver of the external system.
        driver: Arc<dyn ResourceManagerDriver>,
        /// The default spec of a worker; a requirement of larger slots gets workers of the same size that are cut into fewer slots.
        worker: WorkerResourceSpec,
    },
}

/// The dependencies of a process's ResourceManagers: services, the source of TaskManagers, and the BlobServer to tell them of.
/// Each leadership of the process starts a new ResourceManager with them.
#[derive(Debug, Clone)]
pub struct ResourceManagerDeps {
    /// Services of the process: platform, RPC, options, heartbeats, leader retrieval, metrics and others.
    pub services: ProcessServices,
    /// Source of the TaskManagers: registered from outside, or requested from an external system through a driver.
    pub mode: Mode,
    /// Address of the BlobServer's endpoint, which TaskManagers learn at their registration and fetch programs from.
    pub blob_server: EndpointAddress,
    /// Session of the BlobServer's process, which TaskManagers name in calls to the BlobServer so that it accepts them.
    pub blob_session: ProcessSession,
}

/// A registered TaskExecutor.
#[derive(Debug)]
struct TaskManagerConnection {
    info: RegisterTaskExecutor,
    gateway: Remote<TaskExecutorGateway>,
    watch: PeerWatch,
}

/// A registered JobMaster.
#[derive(Debug)]
struct JobConnection {
    job_master_id: JobMasterId,
    gateway: Remote<JobMasterGateway>,
    _watch: PeerWatch,
    /// Last declaration of the job's requirements, `None` before the first.
    declared: Option<ProcessRequirements>,
}

/// The actor of a ResourceManager in one leadership: registers TaskExecutors and JobMasters, requests and releases
/// TaskManagers, and runs the SlotManager, which distributes the slots.
#[derive(Debug)]
pub struct ResourceManagerActor {
    core: ResourceManager,
    fence: ResourceManagerId,
    deps: ResourceManagerDeps,
    marker: TurnMarker,
    task_managers: BTreeMap<InstanceId, TaskManagerConnection>,
    jobs: BTreeMap<JobId, JobConnection>,
    slot_manager: Remote<SlotManagerGateway>,
    to_slot_manager: Courier<SlotManagerFact>,
    /// The inbox for facts from the SlotManager.
    facts: Inbox,
    /// The watched jobs, with their leaders according to the retrieval service.
    watched: BTreeMap<JobId, job_leaders::Watched>,
    /// The SlotManager, which lives as long as the ResourceManager.
    running_slot_manager: Option<Running<slot_manager::SlotManagerActor>>,
    events: Option<mpsc::Receiver<DriverEvent>>,
    recovered: Vec<RecoveredWorker>,
}

/// Starts the ResourceManager of one leadership with its SlotManager, on the current thread. In active mode the driver
/// is initialised first.
async fn lead(
    deps: ResourceManagerDeps,
    fence: ResourceManagerId,
) -> Result<Running<ResourceManagerActor>, DriverError> {
    let (mut events, mut recovered) = (None, Vec::new());
    if let Mode::Active { driver, .. } = &deps.mode {
        let (sender, receiver) = mpsc::channel(driver::EVENTS_MAX);
        recovered = driver.initialize(sender).await?;
        events = Some(receiver);
    }
    let services = &deps.services;
    let (rpc, platform) = (services.rpc.clone(), services.platform.clone());
    let (fatal, probe) = (services.fatal.clone(), Arc::clone(&services.probe));
    let address = rpc.address_of(ENDPOINT);
    let slot_fence = SlotManagerId::from_session(fence.session());
    let slot_manager = rpc.gateway(&rpc.address_of(slot_manager::ENDPOINT), slot_fence);
    let broken = {
        let fatal = fatal.clone();
        move |why| fatal.report(ENDPOINT, why)
    };
    let actor = ResourceManagerActor {
        to_slot_manager: Courier::new(slot_manager.clone(), broken),
        facts: Inbox::default(),
        core: ResourceManager::new(core_settings(&deps)),
        fence,
        marker: services.turn_marker(ENDPOINT),
        task_managers: BTreeMap::new(),
        jobs: BTreeMap::new(),
        slot_manager,
        watched: BTreeMap::new(),
        running_slot_manager: None,
        events,
        recovered,
        deps,
    };
    let addr = actor.start();
    let registration = rpc.serve(ENDPOINT, fence, ResourceManagerGateway::endpoint(addr.clone()));
    let (component, session) = (Component::ResourceManager, fence.session());
    probe.note(Fact::ComponentAnswers { component, session });
    Ok(Running::new(address, addr, registration).guarded(&platform, &fatal))
}

fn core_settings(deps: &ResourceManagerDeps) -> Settings {
    let options = &deps.services.options;
    let pool = match &deps.mode {
        Mode::Standalone => None,
        Mode::Active { worker, .. } => Some(PoolSettings {
            retry_interval: options.get(&conf::resourcemanager::START_WORKER_RETRY_INTERVAL),
            max_failures_per_minute: options
                .get(&conf::resourcemanager::START_WORKER_MAX_FAILURE_RATE),
            registration_timeout: options.get(&conf::resourcemanager::WORKER_REGISTRATION_TIMEOUT),
            late_grace: options.get(&conf::resourcemanager::LATE_WORKER_GRACE),
            worker: worker.clone(),
        }),
    };
    let seed = deps.services.platform.random_u128();
    let job_timeout = options.get(&conf::resourcemanager::JOB_TIMEOUT);
    Settings { pool, job_timeout, seed, mutation: deps.services.mutation }
}

fn slot_settings(deps: &ResourceManagerDeps) -> SlotSettings {
    let options = &deps.services.options;
    let supply = match &deps.mode {
        Mode::Standalone => {
            let period = options.get(&conf::resourcemanager::START_UP_TIME);
            let start_up_until = deps.services.platform.now().saturating_add(period);
            Supply::Passive { start_up_until }
        }
        Mode::Active { worker, .. } => Supply::Active {
            task_manager: worker.clone(),
            request_timeout: options.get(&conf::resourcemanager::SLOT_REQUEST_TIMEOUT),
            idle_timeout: options.get(&conf::resourcemanager::TASKMANAGER_TIMEOUT),
            slots_max: options.get(&conf::resourcemanager::SLOTS_MAX),
            redundant: options.get(&conf::resourcemanager::REDUNDANT_TASKMANAGERS),
        },
    };
    SlotSettings {
        supply,
        spread_out: options.get(&conf::resourcemanager::SPREAD_OUT),
        settle: deps.services.heartbeat.limits().interval.saturating_mul(2),
        seed: deps.services.platform.random_u128(),
        mutation: deps.services.mutation,
    }
}

impl Actor for ResourceManagerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        let services = &self.deps.services;
        self.marker.tick(ctx, services.heartbeat.limits().interval);
        self.running_slot_manager = Some(slot_manager::start(slot_manager::SlotManagerDeps {
            services: services.clone(),
            resource_manager_id: self.fence,
            resource_manager: services.rpc.gateway(&services.rpc.address_of(ENDPOINT), self.fence),
            settings: slot_settings(&self.deps),
            check_delay: services.options.get(&conf::resourcemanager::REQUIREMENTS_CHECK_DELAY),
        }));
        if let Some(events) = self.events.take() {
            actix::spawn(active::forward(events, ctx.address()));
            let workers = std::mem::take(&mut self.recovered);
            self.heard(DriverEvent::Recovered { workers });
        }
        ctx.run_interval(TICK, |actor, _| {
            let commands = actor.core.tick(actor.now());
            actor.obey(commands);
        });
    }

    fn stopped(&mut self, _: &mut Context<Self>) {
        // Peers then look for the next ResourceManager at once.
        for task_manager in self.task_managers.values() {
            task_manager.gateway.tell(DisconnectResourceManager {
                resource_manager_id: self.fence,
                cause: "it leads no more".to_owned(),
                terminate: false,
            });
        }
        for job in self.jobs.values() {
            job.gateway.tell(job_master::DisconnectResourceManager {
                resource_manager: self.fence,
                reason: "it leads no more".to_owned(),
            });
        }
    }
}

impl ResourceManagerActor {
    fn now(&self) -> Duration {
        self.deps.services.platform.now()
    }

    fn me(&self) -> Party {
        Party::ResourceManager { session: self.fence.session() }
    }

    fn note(&self, fact: Fact) {
        self.deps.services.probe.note(fact);
    }

    fn stale(&self, call: &'static str, caller: impl Fence) {
        let caller = caller.session();
        tracing::debug!(call, %caller, "a stale caller was refused");
        self.note(Fact::StaleCallerRefused { call, caller });
    }

    fn obey(&mut self, commands: Vec<Command>) {
        // Ended requests are recorded before the requests that replace them.
        let session = self.fence.session();
        for request in self.core.take_ended_requests() {
            self.note(Fact::WorkerRequestEnded { session, request });
        }
        let mut events = Vec::new();
        for command in commands {
            match command {
                Command::CloseTaskExecutor {
                    instance_id,
                    reported,
                    cause,
                    terminate,
                    resource_id,
                } => {
                    tracing::info!(%resource_id, %instance_id, cause, "TaskExecutor disconnected");
                    self.note(Fact::TaskManagerLost { session, resource_id, instance_id });
                    self.close_task_manager(instance_id, reported, cause, terminate);
                }
                Command::BlockHosts(hosts) => self.to_slot_manager.deliver(BlockHosts { hosts }),
                Command::NeverMet(specs) => {
                    for (spec, cause) in &specs {
                        tracing::error!(?spec, cause, "workers of this spec can never start");
                    }
                    self.to_slot_manager.deliver(RefuseTaskManagers { specs });
                }
                Command::CloseJob { job_id, reason } => self.close_job(job_id, &reason),
                Command::RemoveJob { job_id, reason } => self.remove_job(job_id, reason),
                other => events.extend(self.obey_driver(other)),
            }
        }
        for event in events {
            let commands = self.core.driver(self.now(), event);
            self.obey(commands);
        }
    }

    fn close_task_manager(
        &mut self,
        instance_id: InstanceId,
        reported: bool,
        cause: String,
        terminate: bool,
    ) {
        if reported {
            self.to_slot_manager.deliver(RemoveTaskExecutor { instance_id });
        }
        if let Some(task_manager) = self.task_managers.remove(&instance_id) {
            let resource_manager_id = self.fence;
            task_manager.gateway.tell(DisconnectResourceManager {
                resource_manager_id,
                cause,
                terminate,
            });
        }
    }

    /// Releases all TaskManagers. The future resolves when each has answered, or is too slow: this
    /// process ends then, and a TaskManager that was not reached would look for the next one.
    fn release_all(&mut self, cause: &str) -> impl Future<Output = ()> + use<> {
        let mut goodbyes = Vec::new();
        for (instance_id, task_manager) in std::mem::take(&mut self.task_managers) {
            self.to_slot_manager.deliver(RemoveTaskExecutor { instance_id });
            let goodbye = DisconnectResourceManager {
                resource_manager_id: self.fence,
                cause: cause.to_owned(),
                terminate: true,
            };
            goodbyes.push(async move {
                if let Err(error) = task_manager.gateway.ask_within(goodbye, RELEASED_WITHIN).await {
                    tracing::warn!(%instance_id, %error, "a TaskExecutor may not have heard that it is released");
                }
            });
        }
        async move {
            futures::future::join_all(goodbyes).await;
        }
    }

    /// Ends the connection of a JobMaster and drops its declaration: the next JobMaster declares
    /// anew.
    fn close_job(&mut self, job_id: JobId, reason: &str) {
        let Some(job) = self.jobs.remove(&job_id) else { return };
        tracing::info!(%job_id, session = %job.job_master_id, reason, "JobMaster disconnected");
        if let Some(mut declared) = job.declared {
            declared.requirements.clear();
            self.to_slot_manager.deliver(declared);
        }
        job.gateway.tell(job_master::DisconnectResourceManager {
            resource_manager: self.fence,
            reason: reason.to_owned(),
        });
    }

    /// Removes a job. A JobMaster that is still registered is not notified, because it has ended the job itself or lost
    /// its leadership.
    fn remove_job(&mut self, job_id: JobId, reason: &str) {
        tracing::info!(%job_id, reason, "job removed");
        self.jobs.remove(&job_id);
        self.watched.remove(&job_id);
        // The SlotManager frees a slot that was given at the last moment: the JobMaster has ended, so nobody else
        // would.
        self.to_slot_manager.deliver(RemoveJob { job_id });
    }
}

impl Handler<HeartbeatReport> for ResourceManagerActor {
    type Result = ();

    fn handle(&mut self, report: HeartbeatReport, _: &mut Context<Self>) {
        match report {
            HeartbeatReport::Payload {
                party: Party::TaskExecutor { resource_id, instance_id, .. },
                payload: BeatPayload::Slots(report),
            } => {
                // The SlotManager does not know a TaskExecutor before the TaskExecutor's first own report.
                let known = self.core.get(&resource_id);
                if known.is_some_and(|w| w.instance_id == instance_id && w.reported) {
                    self.to_slot_manager.deliver(ReportSlots { instance_id, report });
                }
            }
            HeartbeatReport::Lost { party: Party::TaskExecutor { instance_id, .. }, cause } => {
                let commands = self.core.lost(instance_id, cause.to_string());
                self.obey(commands);
            }
            HeartbeatReport::Lost { party: Party::JobMaster { job_id, session }, cause } => {
                let commands = self.core.job_master_gone(job_id, session, cause.to_string());
                self.obey(commands);
            }
            HeartbeatReport::Payload { .. }
            | HeartbeatReport::Silent { .. }
            | HeartbeatReport::Lost { .. } => {}
        }
    }
}

impl Handler<Stop> for ResourceManagerActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        self.running_slot_manager = None;
        ctx.stop();
    }
}

takes_steps!(ResourceManagerActor);
