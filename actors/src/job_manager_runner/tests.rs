use super::*;
use crate::job_testing::{
    Deployments, HostsDouble, ManagerDouble, TaskManagerDouble, graph, job, log_of, until,
};
use crate::leader_shell::tests::KillLeader;
use crate::program_hosts::HostSide;
use crate::services::{LeaderRetrieval as _, Stop};
use crate::testing::{TestProcess, seconds, session, settle};
use gateways::job_master::JobMasterGateway;
use gateways::{CallError, FabricError};
use model::JobStatus;

struct Fixture {
    process: TestProcess,
    dispatcher: DispatcherId,
    runner: Remote<JobManagerRunnerGateway>,
    started: StartedRunner,
    hosts: HostsDouble,
    _manager: ManagerDouble,
}

const FENCE: u64 = 40;
const COMPONENT: Component = Component::JobMaster(JobId(1));

fn dispatcher(process: u64) -> DispatcherId {
    DispatcherId::from_session(session(process))
}

fn launch(process: &TestProcess, hosts: &HostsDouble, dispatcher: DispatcherId) -> StartedRunner {
    start(RunnerDeps {
        services: process.services.clone(),
        leaders: process.leaders.clone(),
        dispatcher,
        graph: Arc::new(graph(1, 1, false)),
        options: process.services.options.as_ref().clone(),
        submitted_ms: 1,
        trace: gateways::TraceContext::NONE,
        hosts: hosts.gateway.clone(),
        log: log_of(&graph(1, 1, false)),
        program: None,
        embedded: false,
    })
}

impl Fixture {
    /// Starts a runner under a Dispatcher that is published.
    async fn start() -> Self {
        let f = Self::hidden().await;
        f.dispatcher_is(Some(f.dispatcher));
        until("known", || f.known().is_some()).await;
        f
    }

    /// Starts a runner under a Dispatcher that is not published yet.
    async fn hidden() -> Self {
        let process = TestProcess::start(&[]).await;
        let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
        let manager = ManagerDouble::lead(&process, 60);
        let dispatcher = dispatcher(FENCE);
        let started = launch(&process, &hosts, dispatcher);
        let runner = process.services.rpc.gateway(started.running.address(), dispatcher);
        settle().await;
        Self { process, dispatcher, runner, started, hosts, _manager: manager }
    }

    fn dispatcher_is(&self, dispatcher: Option<DispatcherId>) {
        let address = self.process.services.rpc.address_of("dispatcher");
        let leader = dispatcher.map(|d| LeaderInformation { session: d.session(), address });
        self.process.leaders.set(Component::Dispatcher, leader);
    }

    /// Returns the JobMaster as other components see it.
    fn known(&self) -> Option<LeaderInformation> {
        self.process.leaders.watch(COMPONENT).borrow().clone()
    }

    async fn job_master(&self) -> Option<JobMasterAddress> {
        self.runner.ask(RequestJobMaster {}).await.unwrap()
    }

    fn gateway(&self, found: &JobMasterAddress) -> Remote<JobMasterGateway> {
        self.process.services.rpc.gateway(&found.address, found.job_master_id)
    }

    /// Returns the recorded facts about the job's leadership, in order.
    fn leadership(&self) -> Vec<(&'static str, LeaderSession)> {
        let of_job = |fact: Fact| match fact {
            Fact::LeadershipGranted { component: COMPONENT, session } => Some(("granted", session)),
            Fact::LeadershipRevoked { component: COMPONENT, session } => Some(("revoked", session)),
            Fact::LeadershipEnded { component: COMPONENT, session } => Some(("ended", session)),
            Fact::LeaderPublished { component: COMPONENT, leader } => {
                Some(("published", leader.session))
            }
            _ => None,
        };
        self.process.facts.all().into_iter().filter_map(of_job).collect()
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_master_leads_under_the_dispatchers_session_and_is_known_once_that_is() {
    let f = Fixture::hidden().await;
    let found = f.job_master().await.unwrap();
    assert_eq!(found.job_master_id, job_session(f.dispatcher, job(1), 0));
    assert_eq!(f.gateway(&found).ask(RequestStatus {}).await.unwrap(), JobStatus::Running);
    assert_eq!(f.known(), None, "its Dispatcher is not known");
    f.dispatcher_is(Some(dispatcher(FENCE - 1)));
    assert_eq!(f.known(), None, "another Dispatcher is");
    f.dispatcher_is(Some(f.dispatcher));
    let session = found.job_master_id.session();
    assert_eq!(f.known(), Some(LeaderInformation { session, address: found.address.clone() }));
    f.dispatcher_is(None);
    assert_eq!(f.known(), None, "taken back before the JobMaster hears of it");
    assert_eq!(f.gateway(&found).ask(RequestStatus {}).await.unwrap(), JobStatus::Running);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn callers_of_another_dispatcher_are_fenced() {
    let f = Fixture::start().await;
    for other in [FENCE - 1, FENCE + 1] {
        let fence = DispatcherId::from_session(session(other));
        let rpc = &f.process.services.rpc;
        let gateway: Remote<JobManagerRunnerGateway> =
            rpc.gateway(f.started.running.address(), fence);
        let answer = gateway.ask(RequestJobMaster {}).await;
        assert!(matches!(answer, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stopped_job_master_has_ended_before_the_next_dispatcher_starts_one() {
    let f = Fixture::start().await;
    let first = f.job_master().await.unwrap();
    let before = first.job_master_id.session();
    let gateway = f.gateway(&first);
    f.started.running.addr().send(Stop).await.unwrap();
    assert!(gateway.ask(RequestStatus {}).await.is_err(), "it has ended");
    assert_eq!(f.known(), None);
    let next = launch(&f.process, &f.hosts, dispatcher(FENCE + 1));
    f.dispatcher_is(Some(dispatcher(FENCE + 1)));
    until("known", || f.known().is_some()).await;
    let after = f.known().unwrap().session;
    assert!(after.epoch > before.epoch);
    let stale = gateway.ask(RequestStatus {}).await;
    assert!(matches!(stale, Err(CallError::Fabric(FabricError::Fenced { .. }))));
    next.running.stop().await;
    let ends = |of| ["granted", "published", "revoked", "ended"].map(|what| (what, of));
    assert_eq!(f.leadership(), [ends(before), ends(after)].concat());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_runner_that_is_stopped_during_the_start_leaves_nothing_behind() {
    let f = Fixture::start().await;
    let other = dispatcher(FENCE + 1);
    f.dispatcher_is(Some(other));
    let started = launch(&f.process, &f.hosts, other);
    started.running.stop().await;
    settle().await;
    assert_eq!(f.known(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_master_that_dies_is_replaced_under_a_higher_epoch_twice_and_then_ends_the_process() {
    let f = Fixture::start().await;
    let mut last = f.known().unwrap().session;
    for _ in 1..DEATHS_MAX {
        f.started.running.addr().send(KillLeader).await.unwrap();
        until("replaced", || f.known().is_some_and(|known| known.session != last)).await;
        let next = f.known().unwrap().session;
        assert!(next.epoch > last.epoch);
        assert_eq!(f.job_master().await.unwrap().job_master_id.session(), next);
        last = next;
    }
    assert_eq!(f.process.services.fatal.first(), None);
    f.started.running.addr().send(KillLeader).await.unwrap();
    seconds(2).await;
    let fatal = f.process.services.fatal.first().unwrap().to_string();
    assert!(fatal.contains("died 3 times"), "{fatal}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_has_ended_is_not_run_again_when_its_job_master_dies() {
    let mut f = Fixture::start().await;
    let found = f.job_master().await.unwrap();
    f.gateway(&found).ask(gateways::job_master::Cancel {}).await.unwrap();
    let (details, _) = (&mut f.started.end).await.unwrap();
    assert_eq!(details.status, JobStatus::Canceled);
    f.started.running.addr().send(KillLeader).await.unwrap();
    seconds(10).await;
    assert_eq!(f.job_master().await, None);
    assert_eq!(f.process.services.fatal.first(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_end_of_the_job_is_handed_over_once_and_only_by_who_leads() {
    let mut f = Fixture::start().await;
    let found = f.job_master().await.unwrap();
    let gateway = f.gateway(&found);
    let details = gateway.ask(gateways::job_master::RequestDetails {}).await.unwrap();
    let forged = JobReachedTerminalState {
        job_master_id: JobMasterId(session(1)),
        details: Box::new(details),
        status: JobStatus::Finished,
    };
    f.runner.ask(forged).await.unwrap();
    assert!(f.started.end.try_recv().is_err());
    let task_manager =
        TaskManagerDouble::register(&f.process, "tm1", Deployments::Take, &gateway).await;
    task_manager.offer(&[1]).await;
    until("deployed", || task_manager.attempts().len() == 2).await;
    task_manager.finish_all().await;
    let (details, _) = (&mut f.started.end).await.unwrap();
    assert_eq!(details.status, JobStatus::Finished);
    assert_eq!(details.graph.job_id, job(1));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stopped_runner_withdraws_and_has_ended_its_job_master() {
    let f = Fixture::start().await;
    let found = f.job_master().await.unwrap();
    let gateway = f.gateway(&found);
    f.started.running.addr().send(Stop).await.unwrap();
    assert!(gateway.ask(RequestStatus {}).await.is_err());
    assert_eq!(f.known(), None);
    assert!(f.started.end.await.is_err(), "the job was suspended, not ended");
}
