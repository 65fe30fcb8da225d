//! The TaskExecutor through its gateway alone, on a paused clock. The test plays the ResourceManager, the
//! JobMasters, the keeper of program hosts and the hosts.

mod jobs;
mod registration;
mod serving;

use super::*;
use crate::blob_server::{BlobCache, CacheSettings};
use crate::services::{HeartbeatReport, Target};
use crate::testing::session;
use crate::testkit::{Script, World};
use actix::{Addr, Handler};
use gateways::heartbeat::{BeatPayload, Party};
use gateways::job_master::{
    DisconnectTaskManager, FailSlot, JobMasterGateway, OfferSlots, OperatorEvent,
    RegisterTaskManager, TaskManagerAccepted, TaskStateUpdate, UpdateTaskStates,
};
use gateways::job_services::{
    AwaitHostExit, HostAddress, HostExit, LaunchHost, ProgramHostsGateway, ReleaseHost,
};
use gateways::program_host::{
    CancelOnHost, DeployToHost, HostStarted, ProgramHostGateway, ReleaseSlot, StartHost,
};
use gateways::resource_manager::{
    DisconnectTaskExecutor, NotifySlotAvailable, RegisterTaskExecutor, ResourceManagerGateway,
    SendSlotReport, TaskExecutorAccepted,
};
use gateways::task_executor::{
    DeployTasks, ReportTaskStates, RequestSlot, SlotRequestError, TaskDeployment,
};
use gateways::{Call, CallError, NodeAddress};
use model::{
    AllocationId, ClusterId, ExecutionAttemptId, ExecutionState, Fence as _, JobGraph, JobMasterId,
    JobVertexId, ResourceId, ResourceProfile, SlotId, testing::state_of,
};
use storage::blobs::MemoryBlobs;

pub(super) const JOB: JobId = JobId(5);
pub(super) const A: AllocationId = AllocationId(10);
pub(super) const B: AllocationId = AllocationId(11);
pub(super) const ME: InstanceId = InstanceId(77);

pub(super) fn rm(n: u64) -> ResourceManagerId {
    ResourceManagerId(session(n))
}
pub(super) fn jm(n: u64) -> JobMasterId {
    JobMasterId(session(n))
}
pub(super) fn attempt(subtask: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask, attempt: 0 }
}
pub(super) fn state(subtask: u32, state: ExecutionState) -> TaskStateUpdate {
    state_of(attempt(subtask), state)
}
pub(super) async fn ms(n: u64) {
    tokio::time::sleep(Duration::from_millis(n)).await;
}

/// Hears what the played JobMasters' heartbeats report.
struct Ears {
    marker: TurnMarker,
    newest: std::sync::Arc<std::sync::Mutex<Option<BeatPayload>>>,
}

impl Actor for Ears {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.marker.tick(ctx, Duration::from_secs(1));
    }
}
impl Handler<HeartbeatReport> for Ears {
    type Result = ();

    fn handle(&mut self, report: HeartbeatReport, _: &mut Self::Context) {
        if let HeartbeatReport::Payload { payload: payload @ BeatPayload::Job { .. }, .. } = report
        {
            *self.newest.lock().unwrap() = Some(payload);
        }
    }
}

/// A TaskExecutor of two slots in a process of its own, and everybody around it.
pub(super) struct Setup {
    pub(super) world: World,
    pub(super) handle: TaskExecutorHandle,
    pub(super) te: Remote<TaskExecutorGateway>,
    pub(super) manager: Script,
    pub(super) keeper: Script,
    pub(super) host: Script,
    pub(super) programs: std::sync::Arc<MemoryBlobs>,
    ears: Addr<Ears>,
    marker: TurnMarker,
    newest: std::sync::Arc<std::sync::Mutex<Option<BeatPayload>>>,
}

impl Setup {
    pub(super) async fn with(options: &[(&str, &str)]) -> Self {
        Self::make(options, None).await
    }

    pub(super) async fn with_logs(logs: LogFolder) -> Self {
        Self::make(&[], Some(logs)).await
    }

    async fn make(options: &[(&str, &str)], logs: Option<LogFolder>) -> Self {
        let world = World::new(options).await;
        let own = world.services.session;
        let keeper = world.double("program_hosts", own, ProgramHostsGateway::endpoint);
        let host = world.double("program_host", own, ProgramHostGateway::endpoint);
        let services = &world.services;
        let settings = CacheSettings::from_options(&services.options);
        let programs = std::sync::Arc::new(MemoryBlobs::new());
        let store = std::sync::Arc::clone(&programs);
        let rpc = services.rpc.clone();
        let deps = TaskExecutorDeps {
            spec: WorkerResourceSpec {
                slots: 2,
                task: MemorySize(301),
                network: MemorySize(101),
                managed: MemorySize(200),
                extended: [("gpu".to_owned(), 5)].into(),
                ..Default::default()
            },
            process_memory: MemorySize::from_mib(1728),
            facts: model::TaskManagerFacts::default(),
            pid: 42,
            blobs: BlobCache::new(services.platform.clone(), rpc.clone(), store, settings),
            program_hosts: rpc.gateway(&keeper.address, own),
            hosts: HostSettings::from_options(
                &services.options,
                ClusterId::new("test"),
                "node-1".into(),
            ),
            data_key: std::sync::Arc::new(|job| [job.0 as u8; 32]),
            logs,
        };
        let manager = manager(&world, 1);
        let handle = start(services, deps);
        let te = services.rpc.gateway(&handle.address, handle.session);
        let marker = services.turn_marker("peer");
        let newest = std::sync::Arc::default();
        let ears = Ears { marker: marker.clone(), newest: std::sync::Arc::clone(&newest) }.start();
        Self { handle, te, manager, keeper, host, programs, ears, marker, newest, world }
    }

    pub(super) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// Returns one that is registered at ResourceManager 1, whose heartbeats go on while they are held.
    pub(super) async fn registered() -> (Self, PeerWatch) {
        let mut setup = Self::new().await;
        let beats = setup.register().await;
        (setup, beats)
    }

    /// … and that has given slot A to the job of the JobMaster that is returned.
    pub(super) async fn with_slot() -> (Self, Script, PeerWatch) {
        let (setup, beats) = Self::registered().await;
        let master = setup.job_master(1);
        setup.request_slot(0, A, &master).await;
        (setup, master, beats)
    }

    pub(super) fn lead(&self, component: Component, script: &Script) {
        self.world.leaders.set(component, Some(script.leader()));
    }

    pub(super) fn accepted(&self) -> TaskExecutorAccepted {
        TaskExecutorAccepted {
            instance_id: ME,
            resource_id: ResourceId::new("rm"),
            heartbeat: self.world.services.heartbeat_address(),
            blob_server: self.world.services.rpc.address_of("blob_server"),
            blob_session: self.world.services.session,
        }
    }

    /// The peer's heartbeats, until the answer is dropped.
    pub(super) fn beats_of(&self, peer: Party) -> PeerWatch {
        let services = &self.world.services;
        let party = Party::TaskExecutor {
            resource_id: services.resource_id.clone(),
            session: services.session,
            instance_id: ME,
        };
        let address = services.heartbeat_address();
        let target = Target { party, address, session: services.session };
        services.heartbeat.watch(peer, target, &self.marker, self.ears.clone().recipient())
    }

    /// Waits for the next beats, and returns the payload that the JobMaster receives.
    pub(super) async fn heard(&self) -> BeatPayload {
        ms(2_500).await;
        self.newest.lock().unwrap().clone().expect("nothing was heard")
    }

    pub(super) fn manager_beats(&self) -> PeerWatch {
        self.beats_of(Party::ResourceManager { session: session(1) })
    }

    pub(super) fn job_master_beats(&self, n: u64) -> PeerWatch {
        self.beats_of(Party::JobMaster { job_id: JOB, session: session(n) })
    }

    /// Registers it at ResourceManager 1, whose heartbeats go on while the answer is held.
    pub(super) async fn register(&mut self) -> PeerWatch {
        self.lead(Component::ResourceManager, &self.manager);
        let accepted = self.accepted();
        self.manager.next::<RegisterTaskExecutor>().await.answer(Ok(accepted));
        let beats = self.manager_beats();
        self.manager.next::<SendSlotReport>().await.answer(Ok(()));
        beats
    }

    pub(super) fn job_master(&self, n: u64) -> Script {
        self.world.double(&format!("job_master/{n}"), jm(n), JobMasterGateway::endpoint)
    }

    pub(super) fn request(
        &self,
        index: u32,
        allocation: AllocationId,
        master: &Script,
    ) -> RequestSlot {
        RequestSlot {
            slot_id: SlotId { resource_id: self.world.services.resource_id.clone(), index },
            job_id: JOB,
            allocation_id: allocation,
            profile: ResourceProfile::unknown(),
            job_master: master.address.clone(),
            job_master_id: JobMasterId::from_session(master.session),
            resource_manager_id: rm(1),
            program: None,
        }
    }

    pub(super) async fn request_slot(&self, index: u32, allocation: AllocationId, master: &Script) {
        let request = self.request(index, allocation, master);
        self.te.with_session(session(1)).ask(request).await.unwrap();
    }

    pub(super) fn host_address(&self, pid: Option<u32>) -> HostAddress {
        HostAddress {
            address: self.host.address.clone(),
            session: self.world.services.session,
            pid,
        }
    }

    /// Launches the host as it is asked for; answering the result is the host's end.
    pub(super) async fn launch(&mut self) -> crate::testkit::Received<AwaitHostExit> {
        let address = self.host_address(None);
        let launch = self.keeper.next::<LaunchHost>().await.answer(Ok(address));
        assert_eq!(launch.job_id, JOB);
        let exit = self.keeper.next::<AwaitHostExit>().await;
        let data_address = NodeAddress::of("node-1", 4000);
        self.host.next::<StartHost>().await.answer(Ok(HostStarted { data_address }));
        exit
    }

    /// Accepts the registration at a JobMaster.
    pub(super) async fn connect(&self, master: &mut Script) -> RegisterTaskManager {
        let accepted = TaskManagerAccepted {
            resource_id: ResourceId::new("jm"),
            heartbeat: self.world.services.heartbeat_address(),
        };
        master.next::<RegisterTaskManager>().await.answer(Ok(accepted))
    }

    /// A job with slot A, accepted by JobMaster 1.
    pub(super) async fn serve(&mut self) -> Serving {
        let manager_beats = self.register().await;
        let mut master = self.job_master(1);
        self.request_slot(0, A, &master).await;
        let exit = self.launch().await;
        self.connect(&mut master).await;
        let beats = self.job_master_beats(1);
        let offered = master.next::<OfferSlots>().await.answer(Ok(vec![A]));
        assert_eq!(offered.data_address, NodeAddress::of("node-1", 4000));
        ms(1).await;
        Serving { master, beats: Some(beats), exit, _manager_beats: manager_beats }
    }

    /// … and with these tasks running in it.
    pub(super) async fn run_tasks(&mut self, subtasks: &[u32]) -> Serving {
        let mut serving = self.serve().await;
        let deploy = self.deploy(subtasks, A);
        let te = self.as_master(1);
        let answered = te.ask(deploy);
        let on_host = async {
            self.host.next::<DeployToHost>().await.answer(Ok(vec![]));
        };
        let (answer, ()) = futures::join!(answered, on_host);
        assert_eq!(answer, Ok(vec![]));
        let updates = subtasks.iter().map(|n| state(*n, ExecutionState::Running)).collect();
        self.report(updates).await;
        serving.master.next::<UpdateTaskStates>().await.answer(Ok(vec![]));
        ms(1).await;
        serving
    }

    pub(super) fn deploy(&self, subtasks: &[u32], allocation_id: AllocationId) -> DeployTasks {
        let task = |n: &u32| TaskDeployment {
            attempt: attempt(*n),
            allocation_id,
            restore: vec![],
            ended: false,
        };
        DeployTasks {
            job_id: JOB,
            job_master_id: jm(1),
            graph: None::<std::sync::Arc<JobGraph>>,
            producers: vec![],
            tasks: subtasks.iter().map(task).collect(),
            checkpoint_dir: None,
            ends_with_checkpoint: false,
        }
    }

    pub(super) fn as_master(&self, n: u64) -> Remote<TaskExecutorGateway> {
        self.te.with_session(session(n))
    }

    pub(super) async fn report(&self, updates: Vec<TaskStateUpdate>) {
        self.te.ask(ReportTaskStates { job_id: JOB, updates }).await.unwrap();
    }

    pub(super) fn slots_noted(&self) -> Vec<(u32, Option<AllocationId>)> {
        let facts = self.world.facts.all();
        let slots = facts.iter().filter_map(|fact| match fact {
            Fact::SlotAllocation { slot_id, allocation, .. } => {
                Some((slot_id.index, allocation.map(|(_, allocation)| allocation)))
            }
            _ => None,
        });
        slots.collect()
    }
}

pub(super) fn manager(world: &World, n: u64) -> Script {
    world.double(&format!("resource_manager/{n}"), rm(n), ResourceManagerGateway::endpoint)
}

/// A job that is served: its JobMaster with its heartbeats, and the question for its host's end.
pub(super) struct Serving {
    pub(super) master: Script,
    pub(super) beats: Option<PeerWatch>,
    pub(super) exit: crate::testkit::Received<AwaitHostExit>,
    _manager_beats: PeerWatch,
}

/// Takes apart the payload for a JobMaster.
pub(super) fn job_payload(payload: &BeatPayload) -> (Vec<AllocationId>, Vec<TaskStateUpdate>) {
    match payload {
        BeatPayload::Job { allocations, tasks } => (allocations.clone(), tasks.clone()),
        other => panic!("{other:?}"),
    }
}

pub(super) fn refused<C: Call>(answer: Result<C::Reply, CallError<C::Error>>) -> C::Error {
    match answer {
        Err(CallError::Refused(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_sessions_are_fenced_before_anything_changes() {
    let (mut s, _beats) = Setup::registered().await;
    let master = s.job_master(1);
    for wrong in [session(0), session(2)] {
        let te: Remote<TaskExecutorGateway> =
            s.world.services.rpc.gateway(&s.handle.address, ProcessSession(wrong));
        let refused = te.ask(s.request(0, A, &master)).await.unwrap_err();
        assert!(matches!(refused, CallError::Fabric(gateways::FabricError::Fenced { .. })));
    }
    s.keeper.silent_for(Duration::from_secs(1)).await;
    assert_eq!(s.slots_noted(), []);
}
