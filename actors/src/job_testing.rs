//! Doubles for unit tests of the actors that run jobs: an election that the test moves, program
//! hosts that obey or refuse as the test sets, TaskExecutors that obey or never answer, a
//! ResourceManager that records.

use crate::program_hosts::{
    self, ExitCause, HostRequest, HostSide, HostsDeps, LaunchedHost, ProgramError,
    ProgramHostLauncher, ProgramHosts, Programs,
};
use crate::services::{ConfirmError, Contention, LeaderElection, Leadership, Running};
use crate::testing::{TestProcess, session};
use actix::{Actor, Recipient};
use futures::future::BoxFuture;
use gateways::job_master::JobMasterGateway;
use gateways::job_master::{
    CoordinationError, OfferSlots, RegisterTaskManager, SlotOffer, TaskIo, TaskStateUpdate,
    UpdateTaskStates,
};
use gateways::job_services::{HostAddress, ProgramHostsGateway};
use gateways::leader_election::{Component, LeaderInformation, NotLeader};
use gateways::program_host::{self, BuildError, ProgramHostGateway};
use gateways::resource_manager::{self, ResourceManagerGateway};
use gateways::task_executor::{self, DeployError, TaskExecutorGateway};
use gateways::{Calls, Double, EndpointAddress, NodeAddress, Registration, Remote};
use model::testing::{pair, state_of};
use model::{
    AllocationId, BlobKey, ContentHash, ExecutionAttemptId, ExecutionState, FailureCause, Fence,
    InstanceId, JobGraph, JobId, LeaderSession, ProcessSession, ProgramRef, ResourceId,
    ResourceManagerId, ResourceProfile, ShipStrategy,
};
use platform::watch;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::ha::Lease;
use storage::jobs::{CheckpointRecords, JobLogs, LogId, OpenJobLog, Writer};
use storage::objects::{MemoryObjects, ObjectStore};
use tokio::sync::oneshot;

pub(crate) fn job(n: u128) -> JobId {
    JobId(n)
}

/// Returns the log of a job that was just submitted, in a store of its own.
pub(crate) fn log_of(graph: &JobGraph) -> OpenJobLog {
    log_in(Arc::new(MemoryObjects::new()), graph)
}

/// Returns the log of a new job in this store.
pub(crate) fn log_in(objects: Arc<dyn ObjectStore>, graph: &JobGraph) -> OpenJobLog {
    let network = Arc::new(platform::inproc::InProcessNetwork::new());
    let platform = platform::Platform::simulated(1, network);
    let logs = JobLogs::new(objects, platform, Lease::endless());
    let writer = Writer { session: LeaderSession::default(), address: "old:6123".into() };
    let id = LogId { creator: writer.session, count: 0 };
    let created = logs.clone().create(Arc::new(graph.clone()), id, writer.clone());
    let end = futures::executor::block_on(created).expect("a store in memory");
    OpenJobLog::new(logs, writer, end, CheckpointRecords::default())
}

pub(crate) fn program() -> ProgramRef {
    let hash = ContentHash([7; 32]);
    ProgramRef { hash, name: "words".into(), size: 10, ..ProgramRef::default() }
}

/// Source → sink, hash edge; both are coordinated if asked for.
pub(crate) fn graph(id: u128, parallelism: u32, coordinated: bool) -> JobGraph {
    let mut graph = pair(parallelism, parallelism, ShipStrategy::Hash);
    for (node, kind) in graph.nodes.iter_mut().zip(["text_source", "collect"]) {
        kind.clone_into(&mut node.kind);
        node.coordinated = coordinated;
    }
    JobGraph { job_id: job(id), name: format!("job {id}"), program: program(), ..graph }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ---- election ---------------------------------------------------------------------------------

#[derive(Default)]
struct Contenders {
    by_component: BTreeMap<Component, (Recipient<Leadership>, Option<LeaderSession>)>,
    grants: u64,
    confirmed: Vec<(Component, LeaderInformation)>,
}

/// An election that grants at once (unless held back), and revokes when the test says so.
#[derive(Clone)]
pub(crate) struct ElectionDouble {
    state: Arc<Mutex<Contenders>>,
    process: TestProcess,
    at_once: bool,
}

impl ElectionDouble {
    pub(crate) fn start(process: &TestProcess) -> Arc<Self> {
        Arc::new(Self { state: Arc::default(), process: process.clone(), at_once: true })
    }
    pub(crate) fn held_back(process: &TestProcess) -> Arc<Self> {
        Arc::new(Self { state: Arc::default(), process: process.clone(), at_once: false })
    }
    /// Grants a new session; the contender has received it when this returns.
    pub(crate) async fn grant(&self, component: Component) -> LeaderSession {
        let (to, granted) = self.next_grant(component);
        to.send(Leadership::Granted(granted)).await.expect("the contender lives");
        granted
    }
    fn next_grant(&self, component: Component) -> (Recipient<Leadership>, LeaderSession) {
        let mut state = lock(&self.state);
        state.grants += 1;
        let granted = session(100 + state.grants);
        let entry = state.by_component.get_mut(&component).expect("it contends");
        entry.1 = Some(granted);
        (entry.0.clone(), granted)
    }
    /// Revokes; what was started has ended when this returns.
    pub(crate) async fn revoke(&self, component: Component) {
        let revoked = {
            let mut state = lock(&self.state);
            let entry = state.by_component.get_mut(&component).expect("it contends");
            entry.1.take().map(|session| (entry.0.clone(), session))
        };
        self.process.leaders.set(component, None);
        if let Some((to, session)) = revoked {
            to.send(Leadership::Revoked(session)).await.expect("the contender lives");
        }
    }
    pub(crate) fn leader(&self, component: Component) -> Option<LeaderSession> {
        lock(&self.state).by_component.get(&component).and_then(|(_, session)| *session)
    }
    pub(crate) fn confirmed(&self) -> Vec<(Component, LeaderInformation)> {
        lock(&self.state).confirmed.clone()
    }
}

impl LeaderElection for ElectionDouble {
    fn contend(&self, component: Component, contender: Recipient<Leadership>) -> Contention {
        lock(&self.state).by_component.insert(component, (contender, None));
        if self.at_once {
            let (to, granted) = self.next_grant(component);
            actix::spawn(async move {
                let _ = to.send(Leadership::Granted(granted)).await;
            });
        }
        let (state, leaders) = (self.state.clone(), self.process.leaders.clone());
        Contention::new(move || {
            lock(&state).by_component.remove(&component);
            leaders.set(component, None);
        })
    }

    fn confirm(
        &self,
        component: Component,
        leader: LeaderInformation,
    ) -> BoxFuture<'static, Result<(), ConfirmError>> {
        let leads = self.leader(component) == Some(leader.session);
        if leads {
            lock(&self.state).confirmed.push((component, leader.clone()));
            self.process.leaders.set(component, Some(leader));
            return Box::pin(async { Ok(()) });
        }
        let session = leader.session;
        Box::pin(async move { Err(NotLeader { session }.into()) })
    }
}

// ---- program hosts ----------------------------------------------------------------------------

/// Ends a host with a cause, once.
type ExitSwitch = Arc<Mutex<Option<oneshot::Sender<ExitCause>>>>;

/// The behaviour of a [`LauncherDouble`]'s hosts, and a record of their calls.
#[derive(Clone, Default)]
pub(crate) struct HostScript {
    /// Answer to a build.
    pub(crate) build: Arc<Mutex<Option<Result<JobGraph, BuildError>>>>,
    /// Failure with which hosts do not start.
    pub(crate) fail_launch: Arc<Mutex<Option<BuildError>>>,
    /// True if hosts never come up.
    pub(crate) hang_launch: Arc<Mutex<bool>>,
    /// The next host's address is nobody's, as if its process had died before its first answer.
    pub(crate) lose_launch: Arc<Mutex<bool>>,
    /// Error with which `StartCoordinators` is answered.
    pub(crate) fail_start: Arc<Mutex<Option<BuildError>>>,
    /// Error with which `ResetSubtasks` is answered.
    pub(crate) fail_reset: Arc<Mutex<Option<CoordinationError>>>,
    /// Error with which `JobEnded` is answered.
    pub(crate) fail_publish: Arc<Mutex<Option<CoordinationError>>>,
    /// Ends of hosts that are asked to end do not come.
    pub(crate) deaf: Arc<Mutex<bool>>,
    pub(crate) launches: Calls<HostRequest>,
    pub(crate) started: Calls<program_host::StartCoordinators>,
    pub(crate) reset: Calls<program_host::ResetSubtasks>,
    pub(crate) ended: Calls<program_host::JobEnded>,
    pub(crate) alive: Calls<program_host::ParentAlive>,
    pub(crate) killed: Calls<()>,
    hosts: Arc<Mutex<Vec<ExitSwitch>>>,
}

impl HostScript {
    /// All hosts die.
    pub(crate) fn kill_all(&self, cause: &str) {
        for host in lock(&self.hosts).drain(..) {
            if let Some(exit) = lock(&host).take() {
                let _ = exit.send(ExitCause(cause.to_owned()));
            }
        }
    }
    pub(crate) fn set<T>(&self, what: &Arc<Mutex<T>>, value: T) {
        *lock(what) = value;
    }
}

/// Launches doubles of hosts in the test's process.
pub(crate) struct LauncherDouble {
    pub(crate) script: HostScript,
    process: TestProcess,
    launched: AtomicU64,
    /// Whether hosts look like child processes.
    pid: Option<u32>,
}

impl ProgramHostLauncher for LauncherDouble {
    fn launch(&self, request: HostRequest) -> BoxFuture<'static, Result<LaunchedHost, BuildError>> {
        let script = self.script.clone();
        script.launches.push(request.clone());
        if let Some(error) = lock(&script.fail_launch).clone() {
            return Box::pin(async move { Err(error) });
        }
        if *lock(&script.hang_launch) {
            return Box::pin(std::future::pending());
        }
        let n = self.launched.fetch_add(1, Ordering::Relaxed);
        let fence = ProcessSession(session(500 + n));
        let name = format!("program_host/{}/{n}", request.job_id);
        let rpc = self.process.services.rpc.clone();
        let (exit, exited) = oneshot::channel();
        let exit = Arc::new(Mutex::new(Some(exit)));
        lock(&script.hosts).push(exit.clone());
        let host = host_double(script.clone(), exit.clone());
        let endpoint = ProgramHostGateway::endpoint(host.start());
        let registration = rpc.serve(name.clone(), fence, endpoint);
        let address = match std::mem::take(&mut *lock(&script.lose_launch)) {
            true => EndpointAddress::new(NodeAddress::new("host:7-0"), name.as_str()),
            false => rpc.address_of(&name),
        };
        let address = HostAddress { address, session: fence, pid: self.pid };
        let exited = Box::pin(async move {
            let cause = exited.await.unwrap_or_else(|_| ExitCause("dropped".into()));
            drop(registration);
            cause
        });
        let kill = Box::new(move || {
            script.killed.push(());
            if let Some(exit) = lock(&exit).take() {
                let _ = exit.send(ExitCause("killed by SIGKILL".into()));
            }
        });
        Box::pin(async move { Ok(LaunchedHost { address, exited, kill }) })
    }
}

struct ProgramsDouble;

impl Programs for ProgramsDouble {
    fn fetch(&self, key: BlobKey) -> BoxFuture<'static, Result<PathBuf, ProgramError>> {
        Box::pin(async move {
            match key.hash.0[0] {
                7 => Ok(PathBuf::from("/programs/words")),
                8 => Err(ProgramError::Failed("no blob server is known".to_owned())),
                _ => Err(ProgramError::Gone(format!("there is no blob {} here", key.hash))),
            }
        })
    }
}

/// A keeper of program hosts with hosts that follow `script`.
pub(crate) struct HostsDouble {
    pub(crate) running: Running<ProgramHosts>,
    pub(crate) gateway: Remote<ProgramHostsGateway>,
    pub(crate) script: HostScript,
}

impl HostsDouble {
    pub(crate) async fn start(process: &TestProcess, side: HostSide) -> Self {
        Self::start_with(process, side, None, Some(17)).await
    }

    pub(crate) async fn start_with(
        process: &TestProcess,
        side: HostSide,
        own_program: Option<ContentHash>,
        pid: Option<u32>,
    ) -> Self {
        let script = HostScript::default();
        let launcher = LauncherDouble {
            script: script.clone(),
            process: process.clone(),
            launched: AtomicU64::new(0),
            pid,
        };
        let deps = HostsDeps {
            services: process.services.clone(),
            launcher: Arc::new(launcher),
            programs: Arc::new(ProgramsDouble),
            side,
            own_program,
            embedded: false,
        };
        let running = program_hosts::start(deps).await.expect("started");
        let services = &process.services;
        let gateway = services.rpc.gateway(running.address(), services.session);
        Self { running, gateway, script }
    }
}

/// Returns a host that follows `script` until it is asked to end.
fn host_double(script: HostScript, exit: ExitSwitch) -> Double<HostScript> {
    Double::of(script)
        .on(|script, call: program_host::BuildGraph| {
            let scripted = lock(&script.build).clone();
            let mut graph = scripted.unwrap_or_else(|| Ok(graph(0, call.parallelism, true)))?;
            graph.job_id = call.job_id;
            let of_the_program = std::mem::replace(&mut graph.options, call.defaults);
            graph.options.extend(of_the_program);
            graph.options.extend(call.options);
            Ok(graph)
        })
        .on(|script, call: program_host::StartCoordinators| {
            script.started.push(call);
            lock(&script.fail_start).take().map_or(Ok(()), Err)
        })
        .on(|script, call: program_host::ResetSubtasks| {
            script.reset.push(call);
            lock(&script.fail_reset).take().map_or(Ok(()), Err)
        })
        .on(|script, call: program_host::JobEnded| {
            script.ended.push(call);
            lock(&script.fail_publish).take().map_or(Ok(()), Err)
        })
        .on(|_, call: program_host::HandleOperatorEvent| {
            Ok([b"split for ", &call.event[..]].concat().into())
        })
        .on(|_, call: program_host::HandleCoordinationRequest| {
            Ok([b"results from ", &call.request[..]].concat().into())
        })
        .on(|script, call: program_host::ParentAlive| {
            script.alive.push(call);
            Ok(())
        })
        .on(move |script, _: program_host::EndHost| {
            if !*lock(&script.deaf)
                && let Some(exit) = lock(&exit).take()
            {
                let _ = exit.send(ExitCause("exit code 0".into()));
            }
            Ok(())
        })
}

// ---- TaskExecutor -----------------------------------------------------------------------------

/// The behaviour of a TaskExecutor at deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployments {
    Take,
    Refuse,
    /// The TaskExecutor never answers anything.
    Never,
}

/// A TaskExecutor as a JobMaster sees it.
pub(crate) struct TaskManagerDouble {
    pub(crate) resource_id: ResourceId,
    pub(crate) instance_id: InstanceId,
    pub(crate) deployed: Calls<task_executor::DeployTasks>,
    pub(crate) cancelled: Calls<task_executor::CancelTasks>,
    pub(crate) triggered: Calls<task_executor::TriggerCheckpoint>,
    pub(crate) notified: Calls<task_executor::NotifyCheckpoint>,
    pub(crate) freed: Calls<task_executor::FreeSlot>,
    pub(crate) disconnected: Calls<task_executor::DisconnectJobMaster>,
    session: ProcessSession,
    address: gateways::EndpointAddress,
    process: TestProcess,
    job_master: Remote<JobMasterGateway>,
    _registration: Registration,
}

impl TaskManagerDouble {
    /// Starts one and registers it at a JobMaster.
    pub(crate) async fn register(
        process: &TestProcess,
        name: &str,
        mode: Deployments,
        job_master: &Remote<JobMasterGateway>,
    ) -> Self {
        let task_manager = Self::start(process, name, mode, job_master);
        task_manager.job_master.ask(task_manager.introduction()).await.expect("registered");
        task_manager
    }

    pub(crate) fn start(
        process: &TestProcess,
        name: &str,
        mode: Deployments,
        job_master: &Remote<JobMasterGateway>,
    ) -> Self {
        let rpc = &process.services.rpc;
        let (deployed, cancelled, triggered, notified, freed, disconnected): (
            Calls<task_executor::DeployTasks>,
            _,
            _,
            _,
            _,
            _,
        ) = Default::default();
        let actor = Double::of(deployed.clone())
            .on_later(move |deployed, call: task_executor::DeployTasks| {
                let job = call.job_id;
                deployed.push(call);
                match mode {
                    Deployments::Take => Box::pin(async { Ok(vec![]) }),
                    Deployments::Refuse => {
                        Box::pin(async move { Err(DeployError::NoJobMaster { job }) })
                    }
                    Deployments::Never => Box::pin(std::future::pending()),
                }
            })
            .records::<task_executor::CancelTasks>(&cancelled)
            .records::<task_executor::TriggerCheckpoint>(&triggered)
            .records::<task_executor::NotifyCheckpoint>(&notified)
            .records::<task_executor::FreeSlot>(&freed)
            .records::<task_executor::DisconnectJobMaster>(&disconnected);
        let endpoint = format!("task_executor/{name}");
        let session = process.services.session;
        let registration =
            rpc.serve(endpoint.clone(), session, TaskExecutorGateway::endpoint(actor.start()));
        Self {
            resource_id: ResourceId::new(name),
            instance_id: InstanceId(1),
            deployed,
            cancelled,
            triggered,
            notified,
            freed,
            disconnected,
            session,
            address: rpc.address_of(&endpoint),
            process: process.clone(),
            job_master: job_master.clone(),
            _registration: registration,
        }
    }

    pub(crate) fn introduction(&self) -> RegisterTaskManager {
        RegisterTaskManager {
            resource_id: self.resource_id.clone(),
            instance_id: self.instance_id,
            address: self.address.clone(),
            session: self.session,
            heartbeat: self.process.services.heartbeat_address(),
            host: format!("host-{}", self.resource_id),
        }
    }

    /// Offers slots; those that are accepted.
    pub(crate) async fn offer(&self, allocations: &[u128]) -> Vec<AllocationId> {
        let offers = allocations.iter().enumerate().map(|(index, allocation)| SlotOffer {
            allocation_id: AllocationId(*allocation),
            index: index as u32,
            profile: ResourceProfile { cpu_millis: 1000, ..ResourceProfile::default() },
        });
        let offer = OfferSlots {
            resource_id: self.resource_id.clone(),
            instance_id: self.instance_id,
            slots: offers.collect(),
            data_address: NodeAddress::new(format!("{}:7000", self.resource_id)),
        };
        self.job_master.ask(offer).await.expect("registered")
    }

    /// Attempts that were deployed here, in order.
    pub(crate) fn attempts(&self) -> Vec<ExecutionAttemptId> {
        let deployments = self.deployed.all();
        deployments.iter().flat_map(|d| d.tasks.iter().map(|t| t.attempt)).collect()
    }

    pub(crate) async fn report(
        &self,
        attempts: &[ExecutionAttemptId],
        state: ExecutionState,
    ) -> Vec<ExecutionAttemptId> {
        let failed = state == ExecutionState::Failed;
        let updates = attempts.iter().map(|attempt| TaskStateUpdate {
            cause: failed.then(|| FailureCause::recoverable("TaskFailed", "it broke")),
            io: TaskIo { records_in: 3, ..TaskIo::default() },
            ..state_of(*attempt, state)
        });
        let update = UpdateTaskStates {
            resource_id: self.resource_id.clone(),
            instance_id: self.instance_id,
            updates: updates.collect(),
        };
        self.job_master.ask(update).await.expect("registered")
    }

    /// Everything that was deployed here runs.
    pub(crate) async fn run_all(&self) {
        self.report(&self.attempts(), ExecutionState::Running).await;
    }

    /// Everything that was deployed here runs and finishes.
    pub(crate) async fn finish_all(&self) {
        let attempts = self.attempts();
        self.report(&attempts, ExecutionState::Running).await;
        self.report(&attempts, ExecutionState::Finished).await;
    }
}

// ---- ResourceManager --------------------------------------------------------------------------

/// A ResourceManager that accepts every JobMaster and gives nothing.
pub(crate) struct ManagerDouble {
    pub(crate) registered: Calls<resource_manager::RegisterJobMaster>,
    pub(crate) declared: Calls<resource_manager::DeclareRequiredResources>,
    pub(crate) left: Calls<resource_manager::DisconnectJobMaster>,
    pub(crate) fence: ResourceManagerId,
    _registration: Registration,
}

impl ManagerDouble {
    /// Starts one and publishes it as the leader.
    pub(crate) fn lead(process: &TestProcess, epoch: u64) -> Self {
        let services = &process.services;
        let fence = ResourceManagerId::from_session(session(epoch));
        let (registered, declared, left): (Calls<resource_manager::RegisterJobMaster>, _, _) =
            Default::default();
        let heartbeat = services.heartbeat_address();
        let actor = Double::of(registered.clone())
            .on(move |registered, call: resource_manager::RegisterJobMaster| {
                registered.push(call);
                let resource_id = ResourceId::new("rm");
                Ok(resource_manager::JobMasterAccepted {
                    resource_id,
                    heartbeat: heartbeat.clone(),
                })
            })
            .records::<resource_manager::DeclareRequiredResources>(&declared)
            .records::<resource_manager::DisconnectJobMaster>(&left);
        let name = format!("resource_manager/{epoch}");
        let endpoint = ResourceManagerGateway::endpoint(actor.start());
        let registration = services.rpc.serve(name.clone(), fence, endpoint);
        let leader =
            LeaderInformation { session: fence.session(), address: services.rpc.address_of(&name) };
        process.leaders.set(Component::ResourceManager, Some(leader));
        Self { registered, declared, left, fence, _registration: registration }
    }

    /// Slots of each declaration so far.
    pub(crate) fn declared_slots(&self) -> Vec<u32> {
        let all = self.declared.all();
        all.iter().map(|d| d.requirements.iter().map(|r| r.slots).sum()).collect()
    }
}

/// Waits (in virtual time) until something is so.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

/// The value of a channel once it is there.
pub(crate) async fn received<T: Clone>(channel: &mut watch::Receiver<Option<T>>) -> T {
    let value = channel.wait_for(Option::is_some).await.expect("the sender lives");
    value.clone().expect("is some")
}
