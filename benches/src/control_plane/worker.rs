//! One virtual TaskExecutor: the decisions of `control::task_executor` with the fabric below.
//!
//! It must never wait inside a turn, and never answer for a task what a real host would not have reached.

use super::tally::Tally;
use actix::{Actor, ActorFutureExt as _, AsyncContext as _, Context, Handler, WrapFuture as _};
use anyhow::{Context as _, Result};
use control::task_executor::{Command, Event, Settings, TaskExecutor as Core};
use gateways::heartbeat::HeartbeatGateway;
use gateways::job_master::JobMasterGateway;
use gateways::leader_election::LeaderInformation;
use gateways::resource_manager::{NotifySlotAvailable, ResourceManagerGateway};
use gateways::task_executor::TaskExecutorGateway;
use gateways::{EndpointAddress, Registration, Remote, RpcOptions, RpcService};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, Fence as _, JobGraph, JobId, LeaderSession,
    MemorySize, ProcessSession, ResourceId, ResourceManagerId, SlotId, SlotReport,
    WorkerResourceSpec, testing::state_of,
};
use platform::{Lane, Platform};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The name that a TaskExecutor is served under, as in a real process.
const TASK_EXECUTOR: &str = "task_executor";
/// Name of the endpoint of its heartbeat service.
const HEARTBEAT: &str = "heartbeat";

/// The identity of a virtual TaskExecutor.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) resource_id: ResourceId,
    pub(super) session: ProcessSession,
    pub(super) address: EndpointAddress,
    pub(super) heartbeat: EndpointAddress,
    pub(super) spec: WorkerResourceSpec,
}

/// A job as this TaskExecutor knows it, besides the core.
#[derive(Debug, Default)]
pub(super) struct Job {
    /// Leader information of the job's JobMaster.
    pub(super) leader: Option<LeaderInformation>,
    pub(super) master: Option<Remote<JobMasterGateway>>,
    /// Session of the JobMaster that it is registered at, or registering; each further slot checks
    /// it again.
    pub(super) watched: Option<LeaderSession>,
    /// Graph that the first deployment brought.
    pub(super) graph: Option<Arc<JobGraph>>,
    /// Attempts on the job's host, and the slot of each.
    pub(super) hosted: BTreeMap<ExecutionAttemptId, AllocationId>,
}

/// An actor that plays a TaskExecutor without running tasks.
pub(super) struct VirtualWorker {
    pub(super) rpc: RpcService,
    pub(super) me: Identity,
    pub(super) core: Core,
    pub(super) leader: LeaderInformation,
    pub(super) manager: Option<Remote<ResourceManagerGateway>>,
    pub(super) report: SlotReport,
    /// Number of reports published so far, which is the version of the newest one.
    pub(super) reports: u64,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) tally: Arc<Tally>,
    /// Sender that reports when the ResourceManager has its first report.
    pub(super) registered: Option<oneshot::Sender<()>>,
}

/// One that runs, for as long as this value lives.
pub(super) struct Running {
    _rpc: RpcService,
    _endpoints: (Registration, Registration),
}

/// Starts one on the lane of its sockets, and waits until it is registered at the ResourceManager.
pub(super) async fn start(
    platform: &Platform,
    options: RpcOptions,
    number: usize,
    slots: u32,
    leader: LeaderInformation,
    tally: Arc<Tally>,
) -> Result<Running> {
    let rpc = RpcService::start(platform.clone(), options).await?;
    let mut session = ProcessSession::default();
    session.0.nonce = rpc.platform().random_u64();
    let me = Identity {
        resource_id: ResourceId::new(format!("{}-{number:05}", rpc.node())),
        session,
        address: rpc.address_of(TASK_EXECUTOR),
        heartbeat: rpc.address_of(HEARTBEAT),
        spec: WorkerResourceSpec {
            cpu_millis: 1_000,
            task: MemorySize::from_mib(256),
            network: MemorySize::from_mib(64),
            managed: MemorySize::from_mib(256),
            slots,
            extended: BTreeMap::new(),
        },
    };
    let service = rpc.clone();
    let (told, registered) = oneshot::channel();
    let actor = platform.lane(Lane::Io).run(move || async move {
        let worker = VirtualWorker {
            core: Core::new(service.platform().now(), settings(&me)),
            rpc: service,
            me,
            leader,
            manager: None,
            report: SlotReport::default(),
            reports: 0,
            jobs: BTreeMap::new(),
            tally,
            registered: Some(told),
        };
        worker.start()
    });
    let actor = actor.await?;
    let executor = rpc.serve(TASK_EXECUTOR, session, TaskExecutorGateway::endpoint(actor.clone()));
    let heartbeat = rpc.serve(HEARTBEAT, session, HeartbeatGateway::endpoint(actor.clone()));
    actor.send(Begin).await?;
    registered.await.context("it did not register")?;
    Ok(Running { _rpc: rpc, _endpoints: (executor, heartbeat) })
}

fn settings(me: &Identity) -> Settings {
    const LONG: Duration = Duration::from_secs(3_600);
    let slots = usize::try_from(me.spec.slots).unwrap_or(usize::MAX);
    Settings {
        resource_id: me.resource_id.clone(),
        slots: vec![me.spec.slot_profile(); slots],
        registration: control::registration::Pauses::default(),
        // Nothing is tried again here: what fails, fails the benchmark.
        registration_timeout: LONG,
        slot_timeout: LONG,
        release_timeout: LONG,
        mutation: control::mutation::Mutation::None,
    }
}

/// Message: the endpoint is served, so the worker may register.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Begin;

impl Actor for VirtualWorker {
    type Context = Context<Self>;
}

impl Handler<Begin> for VirtualWorker {
    type Result = ();
    fn handle(&mut self, _: Begin, ctx: &mut Context<Self>) {
        let id = ResourceManagerId::from_session(self.leader.session);
        self.step(Event::ResourceManager(Some(id)), ctx);
    }
}

impl VirtualWorker {
    pub(super) fn now(&self) -> Duration {
        self.rpc.platform().now()
    }

    /// Gives an event to the core and does what follows.
    pub(super) fn step(&mut self, event: Event, ctx: &mut Context<Self>) {
        let commands = self.core.step(self.now(), event);
        self.apply(commands, ctx);
    }

    /// Does what the core has decided, in order, and what follows from that.
    pub(super) fn apply(&mut self, commands: Vec<Command>, ctx: &mut Context<Self>) {
        let mut commands = VecDeque::from(commands);
        while let Some(command) = commands.pop_front() {
            if let Some(event) = self.execute(command, ctx) {
                commands.extend(self.core.step(self.now(), event));
            }
        }
    }

    /// Does one thing; the event that it is answered with at once.
    fn execute(&mut self, command: Command, ctx: &mut Context<Self>) -> Option<Event> {
        match command {
            Command::Register { at } => self.register(at, ctx),
            Command::ConnectResourceManager { instance, .. } => self.send_report(instance, ctx),
            Command::NotifySlotAvailable { instance, index, allocation, .. } => {
                let slot_id = SlotId { resource_id: self.me.resource_id.clone(), index };
                let notice = NotifySlotAvailable {
                    instance_id: instance,
                    slot_id,
                    allocation_id: allocation,
                };
                if let Some(manager) = &self.manager {
                    manager.tell(notice);
                }
            }
            Command::WatchJob { job, instance } => self.watch_job(job, instance, ctx),
            Command::ForgetJob { job } => drop(self.jobs.remove(&job)),
            Command::DropJobMaster { job, .. } => {
                if let Some(job) = self.jobs.get_mut(&job) {
                    job.master = None;
                }
            }
            Command::LaunchHost { job, launch, .. } => return Some(Event::HostUp { job, launch }),
            Command::EndHost { job, launch, .. } => return Some(Event::HostEnded { job, launch }),
            Command::CancelOnHost { job, attempts } => return self.cancel(job, attempts),
            Command::ReleaseSlotOnHost { job, allocation } => {
                let hosted = self.jobs.get(&job).map(|job| &job.hosted);
                let inside = hosted.into_iter().flatten().filter(|(_, at)| **at == allocation);
                let attempts = inside.map(|(attempt, _)| *attempt).collect();
                return self.cancel(job, attempts);
            }
            Command::OfferSlots { job, to, slots } => self.offer(job, to, slots, ctx),
            Command::UpdateTaskStates { job, to, updates } => {
                self.update_states(job, to, updates, ctx);
            }
            Command::PublishSlots => self.publish_slots(),
            Command::ConnectJobMaster { .. }
            | Command::ReconnectJob { .. }
            | Command::ResizeHost { .. }
            | Command::PublishJob { .. } => {}
            Command::DropResourceManager { .. } => {
                self.tally.failed("the ResourceManager was lost");
            }
            Command::FailSlot { cause, .. } => self.tally.failed(&cause.to_string()),
            Command::Fail { reason } | Command::End { reason } => self.tally.failed(&reason),
        }
        None
    }

    /// The host cancels tasks, which takes no time.
    fn cancel(&mut self, job: JobId, attempts: Vec<ExecutionAttemptId>) -> Option<Event> {
        let hosted = &mut self.jobs.get_mut(&job)?.hosted;
        let here = attempts.into_iter().filter(|attempt| hosted.remove(attempt).is_some());
        let updates: Vec<_> = here.map(|a| state_of(a, ExecutionState::Canceled)).collect();
        (!updates.is_empty()).then_some(Event::TaskStates { job, updates })
    }

    /// Makes a call, and gives what it is answered with to the actor.
    pub(super) fn ask<T: 'static>(
        &self,
        asked: impl Future<Output = T> + 'static,
        ctx: &mut Context<Self>,
        answered: impl FnOnce(&mut Self, T, &mut Context<Self>) + 'static,
    ) {
        ctx.spawn(
            asked.into_actor(self).map(move |answer, worker, ctx| answered(worker, answer, ctx)),
        );
    }

    /// Publishes the current state of the slots with the next beat.
    pub(super) fn publish_slots(&mut self) {
        self.report = self.core.slot_report();
        self.reports += 1;
    }
}
