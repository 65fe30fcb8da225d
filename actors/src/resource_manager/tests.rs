mod external;
mod job_leaders;

use super::*;
use crate::services::{ConfirmError, Contention, LeaderElection, Leadership};
use crate::testing::{
    JobMasterDouble, Slots, TaskExecutorDouble, TestProcess, seconds, session, settle, slot_report,
    worker_spec,
};
use actix::Recipient;
use futures::future::BoxFuture;
use gateways::job_master::RegistrationRefused;
use gateways::leader_election::{Component, LeaderInformation, NotLeader};
use gateways::resource_manager::*;
use gateways::{CallError, FabricError};
use model::{
    AllocationId, LeaderSession, ResourceId, ResourceProfile, ResourceRequirement, SlotId,
};
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::sync::oneshot;

const JOB: JobId = JobId(1);

/// An external resource system in the hands of the test.
#[derive(Debug, Default, Clone)]
struct FakeDriver(Arc<Mutex<FakeState>>);

#[derive(Debug, Default)]
struct FakeState {
    events: Option<mpsc::Sender<DriverEvent>>,
    recovered: Vec<RecoveredWorker>,
    /// Every list of nodes to avoid that the driver received.
    avoided: Vec<Vec<String>>,
    requests: Vec<WorkerRequest>,
    cancelled: Vec<u64>,
    released: Vec<ResourceId>,
    deregistered: Vec<ApplicationStatus>,
    /// The outcomes of the next attempts to deregister, in order; further attempts succeed.
    deregistering: VecDeque<Deregistering>,
    terminated: u32,
    /// Initialisation waits for it.
    hold: Option<oneshot::Receiver<()>>,
    failure: Option<DriverError>,
}

/// The outcome of an attempt to deregister that does not succeed.
#[derive(Debug, Clone, Copy)]
enum Deregistering {
    Fails,
    NeverAnswers,
}

fn recovered(name: &str) -> RecoveredWorker {
    RecoveredWorker { resource_id: ResourceId::new(name), host: format!("host-{name}") }
}

impl FakeDriver {
    fn state(&self) -> std::sync::MutexGuard<'_, FakeState> {
        self.0.lock().expect("lock")
    }
    async fn say(&self, event: DriverEvent) {
        let events = self.state().events.clone().expect("initialised");
        events.send(event).await.expect("heard");
        settle().await;
    }
    async fn started(&self, request: u64, name: &str) {
        let (resource_id, host) = (ResourceId::new(name), format!("host-{name}"));
        self.say(DriverEvent::Started { request, resource_id, host }).await;
    }
    fn requests(&self) -> Vec<u64> {
        self.state().requests.iter().map(|request| request.request).collect()
    }
    fn released(&self) -> Vec<String> {
        self.state().released.iter().map(|id| id.0.clone()).collect()
    }
}

impl ResourceManagerDriver for FakeDriver {
    fn initialize(
        &self,
        events: mpsc::Sender<DriverEvent>,
    ) -> BoxFuture<'static, Result<Vec<RecoveredWorker>, DriverError>> {
        let driver = self.clone();
        Box::pin(async move {
            let hold = driver.state().hold.take();
            if let Some(hold) = hold {
                let _ = hold.await;
            }
            let mut state = driver.state();
            state.events = Some(events);
            match state.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(state.recovered.clone()),
            }
        })
    }
    fn avoid(&self, hosts: Vec<String>) {
        self.state().avoided.push(hosts);
    }
    fn request(&self, request: WorkerRequest) {
        self.state().requests.push(request);
    }
    fn cancel(&self, request: u64) {
        self.state().cancelled.push(request);
    }
    fn release(&self, resource_id: &ResourceId) {
        self.state().released.push(resource_id.clone());
    }
    fn deregister(
        &self,
        status: ApplicationStatus,
        _: Option<String>,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        self.state().deregistered.push(status);
        match self.state().deregistering.pop_front() {
            None => Box::pin(std::future::ready(Ok(()))),
            Some(Deregistering::Fails) => {
                Box::pin(std::future::ready(Err(DriverError("connection refused".into()))))
            }
            Some(Deregistering::NeverAnswers) => Box::pin(std::future::pending()),
        }
    }
    fn terminate(&self) -> BoxFuture<'static, ()> {
        self.state().terminated += 1;
        Box::pin(std::future::ready(()))
    }
}

fn fence() -> ResourceManagerId {
    ResourceManagerId(session(4))
}
fn master(n: u64) -> JobMasterId {
    JobMasterId(session(n))
}

struct World {
    process: TestProcess,
    driver: FakeDriver,
    rm: Remote<ResourceManagerGateway>,
    _running: Running<ResourceManagerActor>,
    _heartbeats: Running<crate::heartbeat::HeartbeatActor>,
    alive: Mutex<Vec<PeerWatch>>,
}

fn deps(process: &TestProcess, mode: Mode) -> ResourceManagerDeps {
    let services = process.services.clone();
    let (blob_server, blob_session) = (services.rpc.address_of("blob_server"), services.session);
    ResourceManagerDeps { services, mode, blob_server, blob_session }
}

async fn world(active: bool, options: &[(&str, &str)]) -> World {
    let process = TestProcess::start(options).await;
    let heartbeats = process.heartbeats().await;
    let driver = FakeDriver::default();
    driver.state().recovered = vec![recovered("old")];
    let mode = match active {
        true => Mode::Active { driver: Arc::new(driver.clone()), worker: worker_spec(2) },
        false => Mode::Standalone,
    };
    let running = lead(deps(&process, mode), fence()).await.expect("leads");
    let rm = process.services.rpc.gateway(running.address(), fence());
    settle().await;
    let alive = Mutex::default();
    World { process, driver, rm, _running: running, _heartbeats: heartbeats, alive }
}

/// A receiver that discards all reports.
struct Nobody;
impl Actor for Nobody {
    type Context = Context<Self>;
}
impl Handler<HeartbeatReport> for Nobody {
    type Result = ();
    fn handle(&mut self, _: HeartbeatReport, _: &mut Context<Self>) {}
}

impl World {
    fn answer_beats(&self, me: Party) {
        let services = &self.process.services;
        let rm = Party::ResourceManager { session: fence().session() };
        let (node, marker) = (services.rpc.node().clone(), self.process.lively());
        let watch = services.heartbeat.expect(me, rm, node, &marker, Nobody.start().recipient());
        self.alive.lock().expect("lock").push(watch);
    }

    async fn register(
        &self,
        task_manager: &TaskExecutorDouble,
        slots: u32,
    ) -> Result<TaskExecutorAccepted, CallError<RegistrationRefused>> {
        let accepted = self.rm.ask(task_manager.introduction(&self.process, slots)).await?;
        self.answer_beats(task_manager.party(&self.process, accepted.instance_id));
        Ok(accepted)
    }

    /// Registers and reports; answers the incarnation.
    async fn join(&self, task_manager: &TaskExecutorDouble, slots: u32) -> InstanceId {
        let instance_id = self.register(task_manager, slots).await.expect("accepted").instance_id;
        let resource_id = task_manager.resource_id.clone();
        let report = slot_report(&resource_id, slots);
        let sent = SendSlotReport { resource_id, instance_id, report };
        self.rm.ask(sent).await.expect("known");
        settle().await;
        instance_id
    }

    fn task_manager(&self, name: &str) -> TaskExecutorDouble {
        TaskExecutorDouble::start(&self.process, name, Slots::Give)
    }

    async fn introduce(
        &self,
        master: JobMasterId,
    ) -> Result<JobMasterAccepted, CallError<RegistrationRefused>> {
        let services = &self.process.services;
        let registering = RegisterJobMaster {
            job_id: JOB,
            job_master_id: master,
            resource_id: services.resource_id.clone(),
            address: services.rpc.address_of(&format!("job_master/{JOB}")),
            heartbeat: services.heartbeat_address(),
            heartbeat_session: services.session,
        };
        self.rm.ask(registering).await
    }

    /// A JobMaster that leads, is registered and alive.
    async fn job(&self, master: JobMasterId) -> JobMasterDouble {
        let double = JobMasterDouble::start(&self.process, JOB, master);
        self.process.publish_job_master(JOB, master);
        settle().await;
        self.introduce(master).await.expect("accepted");
        self.answer_beats(Party::JobMaster { job_id: JOB, session: master.session() });
        double
    }

    async fn require(
        &self,
        master: JobMasterId,
        slots: u32,
    ) -> Result<(), CallError<RegistrationRefused>> {
        let profile = ResourceProfile::unknown();
        let declared = DeclareRequiredResources {
            job_id: JOB,
            job_master_id: master,
            target: self.process.services.rpc.address_of(&format!("job_master/{JOB}")),
            job_name: "count".into(),
            program: None,
            requirements: vec![ResourceRequirement { profile, slots }],
        };
        let answer = self.rm.ask(declared).await;
        settle().await;
        answer
    }

    async fn overview(&self) -> ResourceOverview {
        self.rm.ask(RequestResourceOverview {}).await.expect("answered")
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_declared_slot_is_requested_from_a_registered_task_executor() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    let accepted = world.register(&task_manager, 2).await.expect("accepted");
    assert_eq!(accepted.blob_server.endpoint, "blob_server");
    let instance = world.join(&task_manager, 2).await;
    assert_ne!(instance, accepted.instance_id, "a new incarnation with each registration");
    assert_eq!(task_manager.disconnects.all().len(), 0, "it knows that it registered again");
    let _master = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    let request = task_manager.requests.take().remove(0);
    assert_eq!((request.job_id, request.job_master_id), (JOB, master(7)));
    let summaries = world.rm.ask(RequestTaskManagers {}).await.expect("answered");
    let one = &summaries[0];
    assert_eq!((summaries.len(), one.free_slots, one.allocated.len()), (1, 1, 1));
    assert_eq!((one.host.as_str(), one.blocked), ("host-tm-1", false));
    assert!(one.last_heartbeat_age_ms < 2_000);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_tokens_change_nothing() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    for other in [3, 5] {
        let fence = ResourceManagerId(session(other));
        let rpc = &world.process.services.rpc;
        let gateway = rpc.gateway::<ResourceManagerGateway>(world.rm.address(), fence);
        let refused = gateway.ask(task_manager.introduction(&world.process, 2)).await;
        assert!(matches!(refused, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    }
    assert_eq!(world.rm.ask(RequestTaskManagers {}).await.map(|all| all.len()), Ok(0));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_another_incarnation_says_is_not_heard() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    let old = world.join(&task_manager, 1).await;
    let new = world.join(&task_manager, 1).await;
    let resource_id = task_manager.resource_id.clone();
    for instance_id in [old, InstanceId(99)] {
        let report = slot_report(&resource_id, 9);
        let sent = SendSlotReport { resource_id: resource_id.clone(), instance_id, report };
        let refused = world.rm.ask(sent).await.expect_err("refused").refused().expect("typed");
        assert!(refused.retry);
        let cause = model::FailureCause::recoverable("Test", "late");
        let resource_id = resource_id.clone();
        let left = DisconnectTaskExecutor { resource_id, instance_id, cause };
        world.rm.ask(left).await.expect("ignored");
    }
    let slot_id = SlotId { resource_id: resource_id.clone(), index: 0 };
    let allocation_id = AllocationId(1);
    let freed = NotifySlotAvailable { instance_id: old, slot_id, allocation_id };
    world.rm.ask(freed).await.expect("ignored");
    assert_eq!(world.overview().await.slots, 1);
    let cause = model::FailureCause::recoverable("Test", "leaving");
    let left = DisconnectTaskExecutor { resource_id, instance_id: new, cause };
    world.rm.ask(left).await.expect("taken");
    settle().await;
    assert_eq!(world.overview().await, ResourceOverview::default());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn only_the_job_master_that_leads_registers_and_declares() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 4).await;
    let refused = |answer: Result<_, CallError<RegistrationRefused>>| {
        let refused: RegistrationRefused = answer.expect_err("refused").refused().expect("typed");
        assert!(refused.retry, "{refused}");
        refused.reason
    };
    let reason = refused(world.introduce(master(7)).await.map(|_| ()));
    assert!(reason.contains("leader as far as known: none"), "{reason}");
    refused(world.require(master(7), 1).await);
    let first = world.job(master(7)).await;
    refused(world.introduce(master(6)).await.map(|_| ()));
    refused(world.require(master(6), 3).await);
    let second = world.job(master(8)).await;
    assert_eq!(first.disconnects.all().len() + second.disconnects.all().len(), 0);
    refused(world.require(master(7), 3).await);
    assert_eq!(task_manager.requests.all().len(), 0);
    world.require(master(8), 1).await.expect("taken");
    assert_eq!(task_manager.requests.all().len(), 1);
    let refusals = world.process.facts.all();
    let stale = |fact: &&Fact| matches!(fact, Fact::StaleCallerRefused { .. });
    assert_eq!(refusals.iter().filter(stale).count(), 5);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn within_the_start_up_period_a_job_waits_after_it_the_shortage_is_reported() {
    let options = [("resourcemanager.standalone.start-up-time", "30 s")];
    let world = world(false, &options).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 4).await;
    let job = world.job(master(7)).await;
    world.require(master(7), 8).await.expect("taken");
    seconds(28).await;
    assert_eq!(job.shortages.all().len(), 0);
    seconds(3).await;
    let shortage = job.shortages.take().remove(0);
    assert_eq!(
        shortage.message,
        "needs 8 slots of any size, 4 registered, 0 free (held: 4 by this job)"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_task_managers_of_an_ended_application_have_heard_of_it_before_it_is_deregistered() {
    let world = world(false, &[]).await;
    let (one, two) = (world.task_manager("tm-1"), world.task_manager("tm-2"));
    world.join(&one, 1).await;
    world.join(&two, 1).await;
    let status = ApplicationStatus::Succeeded;
    let diagnostics = Some("all is done".to_owned());
    world.rm.ask(DeregisterApplication { status, diagnostics }).await.expect("done");
    for task_manager in [one, two] {
        let heard = task_manager.disconnects.take();
        let words = heard.iter().map(|d| (d.terminate, d.cause.as_str())).collect::<Vec<_>>();
        assert_eq!(words, [(true, "all is done")]);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_master_is_asked_to_yield_and_one_that_leads_no_more_is_not() {
    let world = world(false, &[]).await;
    let job = world.job(master(7)).await;
    for master in [master(6), master(7)] {
        let asked = AskToYield { job_id: JOB, job_master_id: master, slots: vec![] };
        world.rm.ask(asked).await.expect("taken");
    }
    settle().await;
    assert_eq!(job.yield_slots.all().len(), 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_task_executor_is_told_and_its_slots_come_from_another() {
    let world = world(false, &[]).await;
    let (one, two) = (world.task_manager("tm-1"), world.task_manager("tm-2"));
    let lost = world.join(&one, 1).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    assert_eq!(one.requests.all().len(), 1);
    world.join(&two, 1).await;
    seconds(3).await;
    assert_eq!(two.requests.all().len(), 0);
    // Its side of the pair goes: it does not know the ResourceManager any more.
    let mine = one.party(&world.process, lost);
    world.alive.lock().expect("lock").remove(0);
    seconds(2).await;
    assert_eq!(two.requests.all().len(), 1);
    let told = one.disconnects.all();
    assert_eq!(told.len(), 1);
    assert!(!told[0].terminate && told[0].resource_manager_id == fence(), "{mine:?}");
    let lost_fact = |fact: &Fact| matches!(fact, Fact::TaskManagerLost { instance_id, .. } if *instance_id == lost);
    assert!(world.process.facts.all().iter().any(lost_fact));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn reports_in_heartbeats_reconcile() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 1).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    assert_eq!(task_manager.requests.all().len(), 1);
    let report = BeatPayload::Slots(slot_report(&task_manager.resource_id, 1));
    world.alive.lock().expect("lock")[0].publish(report);
    seconds(12).await;
    assert!(task_manager.requests.all().len() > 1, "the TaskExecutor has lost it");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_job_master_keeps_no_requirement_and_a_finished_job_is_forgotten() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    let job = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    seconds(3).await;
    world.alive.lock().expect("lock").clear();
    seconds(2).await;
    assert_eq!(job.disconnects.all().len(), 1);
    world.join(&task_manager, 1).await;
    assert_eq!(task_manager.requests.all().len(), 0);
    let _again = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    assert_eq!(task_manager.requests.all().len(), 1);
    let (job_id, finished) = (JOB, true);
    let stale = DisconnectJobMaster { job_id, job_master_id: master(6), finished };
    world.rm.ask(stale).await.expect("ignored");
    world.require(master(7), 1).await.expect("still registered");
    let left = DisconnectJobMaster { job_id, job_master_id: master(7), finished };
    world.rm.ask(left).await.expect("taken");
    assert!(world.require(master(7), 1).await.is_err());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_nobody_leads_is_removed_and_its_slots_freed() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 1).await;
    let job = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    let given = task_manager.requests.all()[0].allocation_id;
    world.process.leaders.set(Component::JobMaster(JOB), None);
    seconds(290).await;
    assert_eq!(task_manager.freed.all().len(), 0);
    assert_eq!(job.disconnects.all().len(), 1, "it leads no more");
    seconds(15).await;
    let freed: Vec<_> = task_manager.freed.all().iter().map(|freed| freed.allocation_id).collect();
    assert_eq!(freed, [given]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_blocked_node_gets_nothing_for_its_time() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 1).await;
    let block = BlockNode { host: "host-tm-1".into(), for_ms: 20_000, cause: "disk".into() };
    world.rm.ask(block).await.expect("blocked");
    let _job = world.job(master(7)).await;
    world.require(master(7), 1).await.expect("taken");
    let sums = world.overview().await;
    assert_eq!((sums.blocked_task_managers, sums.blocked_free_slots), (1, 1));
    assert!(world.rm.ask(RequestTaskManagers {}).await.expect("answered")[0].blocked);
    assert_eq!(task_manager.requests.all().len(), 0);
    seconds(21).await;
    assert_eq!(task_manager.requests.all().len(), 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn workers_are_requested_and_their_task_executors_serve_the_job() {
    let world = world(true, &[]).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 3).await.expect("taken");
    assert_eq!(world.driver.requests(), [1], "a recovered one may yet come");
    let request = world.driver.state().requests[0].clone();
    assert_eq!(request.spec, worker_spec(2));
    assert!(request.memory.total() > model::MemorySize::from_mib(100));
    world.driver.started(1, "tm-1").await;
    let (one, old) = (world.task_manager("tm-1"), world.task_manager("old"));
    world.join(&one, 2).await;
    world.join(&old, 2).await;
    assert_eq!(one.requests.all().len() + old.requests.all().len(), 3);
    assert_eq!(world.driver.requests(), [1]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn who_was_not_asked_for_is_refused_and_who_comes_late_or_twice_is_released() {
    let world = world(true, &[]).await;
    let refuse = async |name: &str| {
        let answer = world.register(&world.task_manager(name), 2).await;
        answer.expect_err("refused").refused().expect("typed")
    };
    assert!(refuse("stranger").await.retry, "an earlier JobManager may have started it");
    seconds(61).await;
    let refused = refuse("stranger").await;
    assert!(!refused.retry && refused.reason.contains("neither requested"), "{refused}");
    let _job = world.job(master(7)).await;
    world.require(master(7), 3).await.expect("taken");
    assert!(refuse("early").await.retry, "its start may not have been told yet");
    world.driver.started(1, "tm-1").await;
    world.driver.started(1, "tm-1").await;
    world.driver.started(1, "twice").await;
    world.driver.started(77, "unasked").await;
    assert_eq!(world.driver.released(), ["twice", "unasked"]);
    world.require(master(7), 5).await.expect("taken");
    assert_eq!(world.driver.requests(), [1, 2]);
    world.require(master(7), 3).await.expect("taken");
    assert_eq!(world.driver.state().cancelled, [2]);
    world.driver.started(2, "late").await;
    assert_eq!(world.driver.released(), ["twice", "unasked", "late"]);
    seconds(61).await;
    assert!(!refuse("late").await.retry);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failed_starts_back_off_and_the_job_fails_with_the_last_error() {
    let options =
        [("slot.request.timeout", "30 s"), ("resourcemanager.start-worker.retry-interval", "10 s")];
    let world = world(true, &options).await;
    world
        .driver
        .say(DriverEvent::Lost { resource_id: ResourceId::new("old"), cause: "?".into() })
        .await;
    seconds(11).await;
    let job = world.job(master(7)).await;
    world.require(master(7), 2).await.expect("taken");
    let fail = |request, cause: &str| DriverEvent::StartFailed {
        request,
        host: Some("bad".into()),
        cause: cause.to_owned(),
    };
    world.driver.say(fail(1, "no such image")).await;
    seconds(18).await;
    assert_eq!(world.driver.requests(), [1], "20 s: the second failure in a row");
    seconds(3).await;
    assert_eq!(world.driver.requests(), [1, 2]);
    let avoided = world.driver.state().avoided.clone();
    assert_eq!(avoided, [vec!["host-old"], vec!["bad", "host-old"]], "told before the request");
    world.driver.say(fail(2, "quota exceeded")).await;
    assert_eq!(job.shortages.all().len(), 0);
    seconds(10).await;
    let shortage = job.shortages.take().remove(0);
    assert_eq!(
        shortage.message,
        "needs 2 slots of any size, 0 registered, 0 free; the resource system's last error: quota exceeded"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_task_manager_that_vanishes_is_replaced_and_an_idle_one_is_released() {
    let world = world(true, &[]).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 4).await.expect("taken");
    world.driver.started(1, "tm-1").await;
    let (one, old) = (world.task_manager("tm-1"), world.task_manager("old"));
    world.join(&one, 2).await;
    world.join(&old, 2).await;
    let cause = "exit code 137".to_owned();
    world.driver.say(DriverEvent::Lost { resource_id: one.resource_id.clone(), cause }).await;
    assert_eq!(world.driver.requests(), [1, 2]);
    world.driver.started(2, "tm-2").await;
    let two = world.task_manager("tm-2");
    let instance_id = world.join(&two, 2).await;
    assert_eq!(two.requests.all().len(), 2);
    world.require(master(7), 2).await.expect("taken");
    for request in two.requests.take() {
        let (slot_id, allocation_id) = (request.slot_id, request.allocation_id);
        let freed = NotifySlotAvailable { instance_id, slot_id, allocation_id };
        world.rm.ask(freed).await.expect("taken");
    }
    seconds(28).await;
    assert_eq!(two.disconnects.all().len(), 0);
    seconds(3).await;
    assert!(two.disconnects.all().iter().all(|told| told.terminate));
    assert_eq!(two.disconnects.all().len(), 1);
    assert_eq!(world.driver.released(), ["tm-2"]);
    assert_eq!(world.driver.requests(), [1, 2], "not needed");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_recovered_worker_that_does_not_come_is_given_up() {
    let world = world(true, &[("resourcemanager.taskmanager-registration.timeout", "60 s")]).await;
    seconds(61).await;
    assert_eq!(world.driver.released(), ["old"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_driver_that_is_lost_ends_the_process_and_an_ended_application_is_deregistered() {
    let world = world(true, &[]).await;
    let status = ApplicationStatus::Succeeded;
    world.rm.ask(DeregisterApplication { status, diagnostics: None }).await.expect("done");
    assert_eq!(world.driver.state().deregistered, [status]);
    world.driver.say(DriverEvent::Error { cause: "killed by the user".into() }).await;
    let fatal = world.process.services.fatal.first().expect("reported");
    assert_eq!(fatal.to_string(), "resource_manager failed: killed by the user");
}

/// An election in the hands of the test: what is confirmed is kept.
#[derive(Default)]
struct HandElection {
    contender: Mutex<Option<Recipient<Leadership>>>,
    confirmed: Mutex<Vec<LeaderInformation>>,
    refuse: bool,
}

impl LeaderElection for HandElection {
    fn contend(&self, component: Component, contender: Recipient<Leadership>) -> Contention {
        assert_eq!(component, Component::ResourceManager);
        *self.contender.lock().expect("lock") = Some(contender);
        Contention::new(|| {})
    }
    fn confirm(
        &self,
        _: Component,
        leader: LeaderInformation,
    ) -> BoxFuture<'static, Result<(), ConfirmError>> {
        let session = leader.session;
        let answer = if self.refuse { Err(NotLeader { session }.into()) } else { Ok(()) };
        self.confirmed.lock().expect("lock").push(leader);
        Box::pin(std::future::ready(answer))
    }
}

impl HandElection {
    fn tell(&self, leadership: Leadership) -> actix::dev::RecipientRequest<Leadership> {
        self.contender.lock().expect("lock").clone().expect("contends").send(leadership)
    }
    fn confirmed(&self) -> Vec<LeaderSession> {
        self.confirmed.lock().expect("lock").iter().map(|leader| leader.session).collect()
    }
}

async fn answers(process: &TestProcess, session: LeaderSession) -> bool {
    let rpc = &process.services.rpc;
    let fence = ResourceManagerId(session);
    let rm = rpc.gateway::<ResourceManagerGateway>(&rpc.address_of(ENDPOINT), fence);
    rm.ask(RequestResourceOverview {}).await.is_ok()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn each_leadership_is_a_new_resource_manager_under_its_own_fence() {
    let process = TestProcess::start(&[]).await;
    let election = Arc::new(HandElection::default());
    let service = start(deps(&process, Mode::Standalone), election.clone()).await.expect("up");
    election.tell(Leadership::Granted(session(2))).await.expect("heard");
    settle().await;
    assert_eq!(election.confirmed(), [session(2)]);
    assert!(answers(&process, session(2)).await);
    election.tell(Leadership::Revoked(session(9))).await.expect("not the one that leads");
    assert!(answers(&process, session(2)).await);
    election.tell(Leadership::Revoked(session(2))).await.expect("ended");
    assert!(!answers(&process, session(2)).await);
    election.tell(Leadership::Granted(session(3))).await.expect("heard");
    settle().await;
    assert!(answers(&process, session(3)).await && !answers(&process, session(2)).await);
    service.stop().await;
    assert!(!answers(&process, session(3)).await);
    assert_eq!(process.services.fatal.first(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_revocation_during_the_start_leaves_nothing_behind() {
    let process = TestProcess::start(&[]).await;
    let (election, driver) = (Arc::new(HandElection::default()), FakeDriver::default());
    let (release, hold) = oneshot::channel();
    driver.state().hold = Some(hold);
    let mode = Mode::Active { driver: Arc::new(driver.clone()), worker: worker_spec(1) };
    let _service = start(deps(&process, mode), election.clone()).await.expect("up");
    election.tell(Leadership::Granted(session(2))).await.expect("heard");
    settle().await;
    election.tell(Leadership::Revoked(session(2))).await.expect("ended");
    let _ = release.send(());
    settle().await;
    assert_eq!(election.confirmed(), []);
    assert!(!answers(&process, session(2)).await);
    assert_eq!(driver.state().terminated, 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_resource_manager_that_cannot_start_ends_the_process() {
    let process = TestProcess::start(&[]).await;
    let (election, driver) = (Arc::new(HandElection::default()), FakeDriver::default());
    driver.state().failure = Some(DriverError("no such queue".into()));
    let mode = Mode::Active { driver: Arc::new(driver), worker: worker_spec(1) };
    let _service = start(deps(&process, mode), election.clone()).await.expect("up");
    election.tell(Leadership::Granted(session(2))).await.expect("heard");
    settle().await;
    let fatal = process.services.fatal.first().expect("reported");
    assert_eq!(fatal.cause, "it could not start: no such queue");
    assert_eq!(election.confirmed(), []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn peers_are_told_when_a_resource_manager_ends() {
    let world = world(false, &[]).await;
    let task_manager = world.task_manager("tm-1");
    world.join(&task_manager, 1).await;
    let job = world.job(master(7)).await;
    world._running.stop().await;
    settle().await;
    assert_eq!(task_manager.disconnects.all().len(), 1);
    assert_eq!(job.disconnects.all()[0].resource_manager, fence());
}
