mod checkpoints;
mod numbers;
mod savepoints;

use super::*;
use crate::job_testing::{
    Deployments, HostsDouble, ManagerDouble, TaskManagerDouble, graph, job, log_of, program, until,
};
use crate::program_hosts::{HostSide, program_key};
use crate::testing::{TestProcess, seconds, session, settle};
use gateways::job_master::{
    Cancel, CoordinationError, CoordinationRequest, CoordinatorFailed, DisconnectTaskManager,
    FailSlot, JobDetails, JobMasterError, NotifyNotEnoughResources, OfferSlots, OperatorEvent,
    RequestDetails, RequestStatus, RequestSummary, YieldSlots,
};
use gateways::job_services::JobReachedTerminalState;
use gateways::program_host::BuildError;
use gateways::{CallError, Calls, Double, FabricError, NodeAddress, Registration};
use model::testing::{enumerate, pair};
use model::{
    AllocationId, DispatcherId, ExecutionState, FailureCause, InstanceId, JobStatus, OperatorId,
    ShipStrategy,
};
use storage::jobs::OpenJobLog;

struct Fixture {
    process: TestProcess,
    running: Running<JobMaster>,
    gateway: Remote<JobMasterGateway>,
    hosts: HostsDouble,
    manager: ManagerDouble,
    ended: Calls<JobReachedTerminalState>,
    log: OpenJobLog,
    _runner: Registration,
}

const FENCE: u64 = 50;

impl Fixture {
    async fn start(graph: JobGraph, options: &[(&str, &str)]) -> Self {
        let process = TestProcess::start(options).await;
        let manager = ManagerDouble::lead(&process, 60);
        let log = log_of(&graph);
        Self::start_on(process, manager, graph, program_key(&program()), log).await
    }

    /// A TaskManager tells the JobMaster that it shuts down.
    async fn leaves(&self, task_manager: &TaskManagerDouble) {
        let gone = DisconnectTaskManager {
            resource_id: task_manager.resource_id.clone(),
            instance_id: task_manager.instance_id,
            cause: FailureCause::recoverable("TaskManagerStopped", "it shuts down"),
        };
        self.gateway.ask(gone).await.unwrap();
    }

    async fn start_on(
        process: TestProcess,
        manager: ManagerDouble,
        graph: JobGraph,
        program: BlobKey,
        log: OpenJobLog,
    ) -> Self {
        let hosts = HostsDouble::start(&process, HostSide::JobManager).await;
        let rpc = process.services.rpc.clone();
        let ended = Calls::default();
        let fence = DispatcherId(session(40));
        let runner = Double::of(()).records::<JobReachedTerminalState>(&ended).start();
        let runner = JobManagerRunnerGateway::endpoint(runner);
        let registration = rpc.serve("job_manager_runner/test", fence, runner);
        let own = graph.options.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let options = process.services.options.overlaid(own, "the job").unwrap();
        let running = start(JobMasterDeps {
            services: process.services.clone(),
            program: Some(program),
            options,
            log: log.clone(),
            graph: Arc::new(graph),
            session: JobMasterId(session(FENCE)),
            submitted_ms: process.services.platform.unix_millis(),
            trace: gateways::TraceContext::NONE,
            hosts: hosts.gateway.clone(),
            runner: rpc.gateway(&rpc.address_of("job_manager_runner/test"), fence),
            embedded: false,
        });
        let gateway: Remote<JobMasterGateway> =
            rpc.gateway(running.address(), JobMasterId(session(FENCE)));
        // The job starts when its log was read.
        while gateway.ask(RequestStatus {}).await.expect("it answers") == JobStatus::Created {
            tokio::task::yield_now().await;
        }
        Self { process, running, gateway, hosts, manager, ended, log, _runner: registration }
    }

    async fn task_manager(&self, name: &str, mode: Deployments) -> TaskManagerDouble {
        TaskManagerDouble::register(&self.process, name, mode, &self.gateway).await
    }

    /// Returns a TaskExecutor in whose one slot the job's two tasks are deployed.
    async fn deployed(&self, name: &str) -> TaskManagerDouble {
        let task_manager = self.task_manager(name, Deployments::Take).await;
        task_manager.offer(&[1]).await;
        until("deployed", || task_manager.attempts().len() == 2).await;
        task_manager
    }

    async fn status(&self) -> JobStatus {
        self.gateway.ask(RequestStatus {}).await.expect("it answers")
    }

    async fn details(&self) -> JobDetails {
        self.gateway.ask(RequestDetails {}).await.expect("it answers")
    }

    async fn ended_as(&self) -> JobStatus {
        until("the end of the job", || !self.ended.all().is_empty()).await;
        self.ended.all()[0].status
    }
}

const PATIENT: &[(&str, &str)] = &[
    ("restart-strategy.type", "fixed-delay"),
    ("restart-strategy.fixed-delay.attempts", "10"),
    ("restart-strategy.fixed-delay.delay", "1 s"),
];

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_registers_declares_deploys_and_finishes() {
    let f = Fixture::start(graph(1, 2, false), &[]).await;
    until("declared", || f.manager.declared_slots() == [2]).await;
    let registered = &f.manager.registered.all()[0];
    assert_eq!(registered.address, *f.running.address());
    assert_eq!(f.manager.declared.all()[0].program, Some(program_key(&program())));
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    assert_eq!(task_manager.offer(&[1, 2, 3]).await, [AllocationId(1), AllocationId(2)]);
    until("deployed", || task_manager.attempts().len() == 4).await;
    let deployments = task_manager.deployed.all();
    assert_eq!(deployments.len(), 1, "one deployment per TaskExecutor");
    assert!(deployments[0].graph.is_some());
    assert_eq!(deployments[0].producers[0].subtasks, [(0, 0), (0, 0)]);
    assert_eq!(deployments[0].producers[0].addresses, [NodeAddress::new("tm1:7000")]);
    task_manager.finish_all().await;
    assert_eq!(f.ended_as().await, JobStatus::Finished);
    let details = &f.ended.all()[0].details;
    assert_eq!(details.vertices[0].subtasks[1].io.records_in, 3);
    assert_eq!(details.vertices[0].subtasks[1].host.as_deref(), Some("host-tm1"));
    until("slots freed", || task_manager.freed.all().len() == 2).await;
    until("disconnected", || task_manager.disconnected.all().len() == 1).await;
    until("left", || f.manager.left.all().len() == 1).await;
    assert!(f.manager.left.all()[0].finished);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn stale_and_future_callers_are_fenced_and_change_nothing() {
    let f = Fixture::start(graph(1, 2, false), &[]).await;
    for other in [FENCE - 1, FENCE + 1] {
        let rpc = &f.process.services.rpc;
        let gateway: Remote<JobMasterGateway> =
            rpc.gateway(f.running.address(), JobMasterId(session(other)));
        let answer = gateway.ask(Cancel {}).await;
        assert!(matches!(answer, Err(CallError::Fabric(FabricError::Fenced { .. }))));
        let task_manager = TaskManagerDouble::start(&f.process, "tm1", Deployments::Take, &gateway);
        assert!(gateway.ask(task_manager.introduction()).await.is_err());
    }
    assert_eq!(f.status().await, JobStatus::Running);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn slots_of_an_unregistered_task_executor_are_refused() {
    let f = Fixture::start(graph(1, 2, false), &[]).await;
    let task_manager = TaskManagerDouble::start(&f.process, "tm1", Deployments::Take, &f.gateway);
    let offer = OfferSlots {
        resource_id: task_manager.resource_id.clone(),
        instance_id: task_manager.instance_id,
        slots: vec![],
        data_address: NodeAddress::new("x:1"),
    };
    let error = f.gateway.ask(offer).await.unwrap_err().refused();
    assert!(matches!(error, Some(JobMasterError::NotRegistered { .. })));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn coordinators_run_before_tasks_answer_them_and_publish_at_the_end() {
    let f = Fixture::start(graph(1, 1, true), &[]).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    seconds(20).await;
    assert_eq!(f.hosts.script.launches.all().len(), 0, "no host while it waits for slots");
    task_manager.offer(&[1]).await;
    until("coordinators started", || f.hosts.script.started.all().len() == 1).await;
    let start = &f.hosts.script.started.all()[0];
    assert_eq!(
        (&start.job_master, start.job_master_id),
        (f.running.address(), JobMasterId(session(FENCE)))
    );
    until("deployed", || task_manager.attempts().len() == 2).await;
    let attempt = task_manager.attempts()[0];
    let ask = |attempt, operator| OperatorEvent {
        attempt,
        operator: OperatorId(operator),
        event: b"me".to_vec(),
    };
    assert_eq!(f.gateway.ask(ask(attempt, 1)).await.unwrap().as_ref(), b"split for me");
    let stale = model::ExecutionAttemptId { attempt: 9, ..attempt };
    let error = f.gateway.ask(ask(stale, 1)).await.unwrap_err().refused();
    assert_eq!(error, Some(CoordinationError::StaleAttempt { attempt: stale }));
    let error = f.gateway.ask(ask(attempt, 9)).await.unwrap_err().refused();
    assert_eq!(error, Some(CoordinationError::NoSuchOperator { operator: OperatorId(9) }));
    let request = CoordinationRequest { operator: OperatorId(2), request: b"0".to_vec() };
    assert_eq!(f.gateway.ask(request).await.unwrap().as_ref(), b"results from 0");
    task_manager.finish_all().await;
    assert_eq!(f.ended_as().await, JobStatus::Finished);
    assert!(f.hosts.script.ended.all()[0].finished);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn slots_go_back_while_there_is_no_room_for_the_coordinators_host() {
    let f = Fixture::start(graph(1, 1, true), &[]).await;
    let no_room = BuildError::NoRoom("Too many open files (os error 24)".into());
    f.hosts.script.set(&f.hosts.script.fail_launch, Some(no_room));
    until("registered", || !f.manager.declared.all().is_empty()).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    task_manager.offer(&[1]).await;
    until("given back", || task_manager.freed.all().len() == 1).await;
    assert_eq!(f.manager.declared_slots().last(), Some(&0));
    f.hosts.script.set(&f.hosts.script.fail_launch, None);
    until("declared again", || f.manager.declared_slots().last() == Some(&1)).await;
    task_manager.offer(&[2]).await;
    until("deployed", || task_manager.attempts().len() == 2).await;
    assert_eq!(f.details().await.restarts, 0);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_publication_that_fails_is_a_failover() {
    let f = Fixture::start(graph(1, 1, true), PATIENT).await;
    let failure = CoordinationError::Failed("the disk of /out is full".into());
    f.hosts.script.set(&f.hosts.script.fail_publish, Some(failure));
    let task_manager = f.deployed("tm1").await;
    task_manager.finish_all().await;
    until("deployed again", || task_manager.attempts().len() == 4).await;
    assert_eq!(f.hosts.script.started.all().len(), 2);
    assert!(f.details().await.failures[0].cause.message.contains("/out is full"));
    assert!(task_manager.deployed.all()[1].graph.is_none(), "its host has the graph");
    task_manager.finish_all().await;
    assert_eq!(f.ended_as().await, JobStatus::Finished);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_dead_coordinator_host_is_launched_again_and_its_job_fails_over() {
    let f = Fixture::start(graph(1, 1, true), PATIENT).await;
    let task_manager = f.deployed("tm1").await;
    let first = task_manager.attempts();
    f.hosts.script.kill_all("killed by SIGKILL");
    until("cancelled", || task_manager.cancelled.all().len() == 1).await;
    assert_eq!(f.status().await, JobStatus::Restarting);
    task_manager.report(&first, ExecutionState::Canceled).await;
    until("deployed again", || task_manager.attempts().len() == 4).await;
    assert_eq!(f.hosts.script.launches.all().len(), 2);
    let details = f.details().await;
    assert_eq!(details.failures[0].cause.kind, "CoordinatorHostLost");
    assert!(details.failures[0].cause.message.contains("SIGKILL"));
    task_manager.report(&task_manager.attempts()[2..], ExecutionState::Finished).await;
    assert_eq!(f.ended_as().await, JobStatus::Finished);
}

/// The code of a user's enumerator overflows its stack: the process is gone before it answers.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stack_overflow_at_the_start_of_coordinators_is_told_by_its_signal() {
    let f = Fixture::start(graph(1, 1, true), PATIENT).await;
    let task_manager = f.deployed("tm1").await;
    f.hosts.script.set(&f.hosts.script.lose_launch, true);
    f.hosts.script.kill_all("killed by SIGTERM");
    until("cancelled", || task_manager.cancelled.all().len() == 1).await;
    task_manager.report(&task_manager.attempts(), ExecutionState::Canceled).await;
    until("launched again", || f.hosts.script.launches.all().len() == 2).await;
    // The connection is lost before the end of the process is known.
    tokio::time::sleep(Duration::from_millis(100)).await;
    f.hosts.script.kill_all("was ended by SIGABRT");
    until("launched a third time", || f.hosts.script.launches.all().len() == 3).await;
    let details = f.details().await;
    let messages: Vec<_> = details.failures.iter().map(|failure| &failure.cause.message).collect();
    let (lost, killed) = ("can't be reached", ["SIGABRT", "SIGTERM"]);
    assert!(
        killed.iter().all(|how| messages.iter().any(|text| text.contains(how))),
        "{messages:?}"
    );
    assert!(!messages.iter().any(|text| text.contains(lost)), "{messages:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_coordinator_that_reports_its_failure_is_a_failover() {
    let f = Fixture::start(graph(1, 1, true), PATIENT).await;
    let _task_manager = f.deployed("tm1").await;
    let cause = FailureCause::recoverable("UserError", "the enumerator panicked");
    let failed = |round| CoordinatorFailed { round, cause: cause.clone() };
    f.gateway.ask(failed(0)).await.unwrap();
    assert_eq!(f.status().await, JobStatus::Running, "a report about an earlier start");
    f.gateway.ask(failed(1)).await.unwrap();
    assert_eq!(f.status().await, JobStatus::Restarting);
    assert_eq!(f.details().await.failures[0].cause, cause);
}

/// Two regions share an enumerator; the TaskExecutor of one is lost.
#[tokio::test(flavor = "local", start_paused = true)]
async fn an_enumerator_takes_back_what_a_lost_region_had_before_the_region_is_deployed_again() {
    for fails in [false, true] {
        let forward = pair(2, 2, ShipStrategy::Forward);
        let mut graph = JobGraph { job_id: job(1), program: program(), ..forward };
        enumerate(&mut graph, 1);
        let f = Fixture::start(graph, PATIENT).await;
        let first = f.task_manager("tm1", Deployments::Take).await;
        let second = f.task_manager("tm2", Deployments::Take).await;
        first.offer(&[1]).await;
        second.offer(&[2]).await;
        until("deployed", || first.attempts().len() + second.attempts().len() == 4).await;
        first.run_all().await;
        if fails {
            let failure = CoordinationError::Failed("it knows no such split".into());
            f.hosts.script.set(&f.hosts.script.fail_reset, Some(failure));
        }
        f.leaves(&second).await;
        let third = f.task_manager("tm3", Deployments::Take).await;
        assert_eq!(third.offer(&[3]).await, [AllocationId(3)]);
        until("reset", || f.hosts.script.reset.all().len() == 1).await;
        let reset = &f.hosts.script.reset.all()[0];
        let ended: Vec<_> = second.attempts().into_iter().filter(|a| a.vertex.0 == 1).collect();
        assert_eq!(reset.attempts, [(OperatorId(1), ended)].into());
        assert_eq!(reset.checkpoint, None);
        if fails {
            until("the other region restarts too", || !first.cancelled.all().is_empty()).await;
            let failures = f.details().await.failures;
            assert!(failures[0].cause.message.contains("it knows no such split"), "{failures:?}");
            continue;
        }
        until("deployed again", || third.attempts().len() == 2).await;
        assert_eq!(first.cancelled.all().len(), 0, "the other region was not touched");
        assert_eq!(f.hosts.script.started.all().len(), 1);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_program_that_builds_another_graph_fails_the_job_for_good() {
    let f = Fixture::start(graph(1, 1, true), PATIENT).await;
    let differs = BuildError::Differs("node 3 'map' has another type".into());
    f.hosts.script.set(&f.hosts.script.fail_start, Some(differs));
    f.task_manager("tm1", Deployments::Take).await.offer(&[1]).await;
    assert_eq!(f.ended_as().await, JobStatus::Failed);
    let cause = f.ended.all()[0].details.cause.clone().unwrap();
    assert!(cause.message.contains("node 3 'map'"), "{cause}");
}

/// Keeps what a thread logs: the level, and the fields as text, the message among them.
#[derive(Clone, Default)]
struct Logged(Arc<std::sync::Mutex<Vec<(tracing::Level, String)>>>);

impl tracing::Subscriber for Logged {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text += &format!(" {}={value:?}", field.name());
        });
        self.0.lock().unwrap().push((*event.metadata().level(), text));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "a_failure_that_repeats_is_one_warning_and_at_the_end_its_count runs it in a process of its own"]
async fn lines_of_a_failure_that_repeats() {
    let logged = Logged::default();
    let _watched = tracing::subscriber::set_default(logged.clone());
    let f = Fixture::start(graph(1, 1, false), PATIENT).await;
    let task_manager = f.deployed("tm1").await;
    let newest = || task_manager.attempts().split_off(task_manager.attempts().len() - 2);
    for failure in 1..=4 {
        let attempts = newest();
        task_manager.report(&attempts, ExecutionState::Running).await;
        task_manager.report(&attempts[..1], ExecutionState::Failed).await;
        task_manager.report(&attempts[1..], ExecutionState::Canceled).await;
        until("deployed again", || task_manager.attempts().len() == 2 + 2 * failure).await;
    }
    task_manager.report(&newest(), ExecutionState::Running).await;
    task_manager.report(&newest(), ExecutionState::Finished).await;
    assert_eq!(f.ended_as().await, JobStatus::Finished);
    let lines = logged.0.lock().unwrap().clone();
    let warnings = |words: &str| -> Vec<String> {
        let of = lines
            .iter()
            .filter(|(level, text)| *level == tracing::Level::WARN && text.contains(words));
        of.map(|(_, text)| text.clone()).collect()
    };
    let [status] = &warnings("message=job status")[..] else { panic!("{lines:?}") };
    assert!(status.contains("status=RESTARTING") && status.contains("it broke"), "{status}");
    let [count] = &warnings("the last failure of the job came again")[..] else {
        panic!("{lines:?}")
    };
    assert!(count.contains("repeats=3"), "{count}");
    let restarts = lines.iter().filter(|(_, text)| text.contains("status=RESTARTING"));
    assert_eq!(restarts.count(), 4, "the others are for those who look closer");
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "a_storm_of_restarts_is_slowed_and_fills_no_log runs it in a process of its own"]
async fn lines_of_a_storm_of_restarts() {
    let logged = Logged::default();
    let _watched = tracing::subscriber::set_default(logged.clone());
    let begun = tokio::time::Instant::now();
    let no_delay = [
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1000000"),
        ("restart-strategy.fixed-delay.delay", "0 ms"),
    ];
    let f = Fixture::start(graph(1, 1, false), &no_delay).await;
    let task_manager = f.deployed("tm1").await;
    let mut restarts = 0;
    while begun.elapsed() < Duration::from_secs(10) {
        let attempts = task_manager.attempts().split_off(2 * restarts);
        task_manager.report(&attempts, ExecutionState::Running).await;
        task_manager.report(&attempts[..1], ExecutionState::Failed).await;
        task_manager.report(&attempts[1..], ExecutionState::Canceled).await;
        restarts += 1;
        until("deployed again", || task_manager.attempts().len() == 2 + 2 * restarts).await;
    }
    // The first at once, each further one after 200 ms and the steps of the test; without the delay they would be thousands.
    assert!((30..=51).contains(&restarts), "{restarts} restarts");
    let lines = logged.0.lock().unwrap().clone();
    let shown: Vec<_> = lines.iter().filter(|(level, _)| *level <= tracing::Level::INFO).collect();
    let bytes: usize = shown.iter().map(|(_, text)| text.len()).sum();
    assert!(shown.len() <= 20 && bytes < 4 << 10, "{bytes} bytes: {shown:#?}");
    let failures = shown.iter().filter(|(_, text)| text.contains("status=RESTARTING"));
    assert_eq!(failures.count(), 1);
}

/// Runs an ignored test of this file by itself. Another test's thread, which has no subscriber, may switch a line off for all threads of its
/// process, so that lines are looked at in a process where no other test runs.
fn run_alone(test: &str) {
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    alone.args(["--ignored", "--exact", &format!("job_master::tests::{test}")]);
    let ran = alone.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_failure_that_repeats_is_one_warning_and_at_the_end_its_count() {
    run_alone("lines_of_a_failure_that_repeats");
}

#[test]
fn a_storm_of_restarts_is_slowed_and_fills_no_log() {
    run_alone("lines_of_a_storm_of_restarts");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_lost_task_executor_is_replaced_by_anothers_free_slot() {
    let f = Fixture::start(graph(1, 2, false), PATIENT).await;
    let first = f.task_manager("tm1", Deployments::Take).await;
    let second = f.task_manager("tm2", Deployments::Take).await;
    first.offer(&[1]).await;
    second.offer(&[2]).await;
    until("deployed", || second.attempts().len() == 2).await;
    f.leaves(&second).await;
    until("cancelled", || first.cancelled.all().len() == 1).await;
    first.report(&first.attempts(), ExecutionState::Canceled).await;
    let third = f.task_manager("tm3", Deployments::Take).await;
    assert_eq!(third.offer(&[3]).await, [AllocationId(3)]);
    until("deployed again", || third.attempts().len() == 2).await;
    assert_eq!(f.manager.declared_slots().last(), Some(&2));
    until("in vain told", || second.disconnected.all().len() == 1).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn heartbeats_tell_that_a_task_executor_is_gone() {
    let f = Fixture::start(graph(1, 1, false), PATIENT).await;
    let _heartbeats = f.process.heartbeats().await;
    // Its process answers beats, but does not know this connection.
    let task_manager = f.deployed("tm1").await;
    seconds(30).await;
    let details = f.details().await;
    assert_eq!(details.failures.len(), 1);
    assert_eq!(details.failures[0].cause.kind, "TaskManagerLost");
    assert_eq!(details.failures[0].resource_id, Some(task_manager.resource_id.clone()));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_black_hole_holds_nothing_up_but_itself() {
    let f = Fixture::start(graph(1, 1, false), PATIENT).await;
    let hole = f.task_manager("tm1", Deployments::Never).await;
    hole.offer(&[1]).await;
    until("deployed", || hole.attempts().len() == 2).await;
    assert_eq!(f.status().await, JobStatus::Running, "it answers meanwhile");
    seconds(61).await;
    assert_eq!(f.details().await.failures[0].cause.kind, "DeploymentFailed");
    until("cancelled", || !hole.cancelled.all().is_empty()).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_refused_deployment_fails_over() {
    let f = Fixture::start(graph(1, 1, false), PATIENT).await;
    let task_manager = f.task_manager("tm1", Deployments::Refuse).await;
    task_manager.offer(&[1]).await;
    until("tried again", || task_manager.deployed.all().len() >= 2).await;
    assert!(task_manager.deployed.all()[1].graph.is_some(), "nobody knows whether its host has it");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_slot_without_a_host_fails_over() {
    let f = Fixture::start(graph(1, 1, false), PATIENT).await;
    let task_manager = f.deployed("tm1").await;
    let fail = FailSlot {
        resource_id: task_manager.resource_id.clone(),
        allocation_id: AllocationId(1),
        accepted: true,
        cause: FailureCause::recoverable("ProgramHostLost", "killed by SIGKILL"),
    };
    f.gateway.ask(fail).await.unwrap();
    assert_eq!(f.status().await, JobStatus::Restarting);
    assert_eq!(task_manager.offer(&[2]).await, [AllocationId(2)]);
    until("deployed again", || task_manager.attempts().len() == 4).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn too_few_slots_fail_the_job_in_the_resource_managers_words() {
    let f = Fixture::start(graph(1, 8, false), &[]).await;
    let message = "needs 8 slots of any size, 4 registered, 0 free".to_owned();
    let notify = NotifyNotEnoughResources { message };
    let from = |fence: u64| f.gateway.with_session(session(fence));
    until("registered", || !f.manager.declared.all().is_empty()).await;
    from(59).ask(notify.clone()).await.unwrap();
    f.gateway.ask(notify.clone()).await.unwrap();
    assert_eq!(f.status().await, JobStatus::Running, "not its ResourceManager");
    from(60).ask(notify).await.unwrap();
    assert_eq!(f.ended_as().await, JobStatus::Failed);
    let cause = f.ended.all()[0].details.cause.clone().unwrap();
    assert!(cause.message.contains("needs 8 slots of any size, 4 registered, 0 free"));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_that_yields_frees_its_slots_and_waits_on() {
    let f = Fixture::start(graph(1, 3, false), &[]).await;
    until("registered", || !f.manager.declared.all().is_empty()).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    task_manager.offer(&[1, 2]).await;
    let profile = model::ResourceProfile::unknown();
    let two = YieldSlots { slots: vec![model::ResourceRequirement { profile, slots: 2 }] };
    f.gateway.with_session(session(59)).ask(two.clone()).await.unwrap();
    f.gateway.ask(two.clone()).await.unwrap();
    assert_eq!(task_manager.freed.all().len(), 0, "not its ResourceManager");
    f.gateway.with_session(session(60)).ask(two).await.unwrap();
    until("slots freed", || task_manager.freed.all().len() == 2).await;
    assert_eq!(f.status().await, JobStatus::Running);
    assert_eq!(task_manager.offer(&[3, 4, 5]).await.len(), 3);
    until("deployed", || task_manager.attempts().len() == 6).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_new_resource_manager_is_registered_at_and_told_everything() {
    let f = Fixture::start(graph(1, 2, false), &[]).await;
    until("declared", || f.manager.declared_slots() == [2]).await;
    let next = ManagerDouble::lead(&f.process, 61);
    until("declared there", || next.declared_slots() == [2]).await;
    assert_eq!(f.status().await, JobStatus::Running);
    assert_eq!(next.fence, model::ResourceManagerId(session(61)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_resource_manager_that_ends_the_connection_is_registered_at_again() {
    let f = Fixture::start(graph(1, 2, false), &[]).await;
    until("declared", || f.manager.declared_slots() == [2]).await;
    let end = |fence| gateways::job_master::DisconnectResourceManager {
        resource_manager: model::ResourceManagerId(session(fence)),
        reason: "time-out".into(),
    };
    f.gateway.ask(end(59)).await.unwrap();
    settle().await;
    assert_eq!(f.manager.registered.all().len(), 1, "it is another one's word");
    f.gateway.ask(end(60)).await.unwrap();
    until("declared again", || f.manager.declared_slots() == [2, 2]).await;
    assert_eq!(f.manager.registered.all().len(), 2);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_cancelled_job_ends_when_its_tasks_have() {
    let f = Fixture::start(graph(1, 1, true), &[]).await;
    let task_manager = f.deployed("tm1").await;
    f.gateway.ask(Cancel {}).await.unwrap();
    assert_eq!(f.status().await, JobStatus::Cancelling);
    until("told", || task_manager.cancelled.all().len() == 1).await;
    task_manager.report(&task_manager.attempts(), ExecutionState::Canceled).await;
    assert_eq!(f.ended_as().await, JobStatus::Canceled);
    until("abandoned", || !f.hosts.script.ended.all().is_empty()).await;
    assert!(!f.hosts.script.ended.all()[0].finished);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stopped_job_master_suspends_the_job_and_tells_everybody() {
    let f = Fixture::start(graph(1, 1, false), &[]).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    task_manager.offer(&[1]).await;
    until("declared", || !f.manager.declared.all().is_empty()).await;
    let Fixture { running, ended, manager, gateway, .. } = f;
    running.stop().await;
    until("told", || task_manager.disconnected.all().len() == 1).await;
    assert_eq!(task_manager.freed.all().len(), 0, "slots are kept for the next one");
    until("left", || manager.left.all().len() == 1).await;
    assert!(!manager.left.all()[0].finished);
    assert_eq!(ended.all().len(), 0);
    let answer = gateway.ask(RequestStatus {}).await;
    assert!(matches!(answer, Err(CallError::Fabric(FabricError::NoSuchEndpoint { .. }))));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_task_executor_with_slots_and_tasks_of_an_earlier_job_master_starts_clean() {
    let f = Fixture::start(graph(1, 1, false), &[]).await;
    let task_manager = f.task_manager("tm1", Deployments::Take).await;
    let old = model::ExecutionAttemptId {
        graph: 1,
        vertex: model::JobVertexId(1),
        subtask: 0,
        attempt: 0,
    };
    assert_eq!(task_manager.report(&[old], ExecutionState::Running).await, [old]);
    assert_eq!(task_manager.report(&[old], ExecutionState::Canceled).await, []);
    assert_eq!(task_manager.offer(&[1]).await, [AllocationId(1)]);
    until("deployed", || task_manager.attempts().len() == 2).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_task_executor_may_register_again_and_a_new_incarnation_has_lost_its_tasks() {
    let f = Fixture::start(graph(1, 1, false), PATIENT).await;
    let mut task_manager = f.deployed("tm1").await;
    f.gateway.ask(task_manager.introduction()).await.unwrap();
    assert_eq!(task_manager.offer(&[1]).await, [AllocationId(1)]);
    assert_eq!(f.status().await, JobStatus::Running);
    task_manager.instance_id = InstanceId(2);
    f.gateway.ask(task_manager.introduction()).await.unwrap();
    assert_eq!(f.status().await, JobStatus::Restarting);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_ended_job_takes_no_task_executor() {
    let f = Fixture::start(graph(1, 1, false), &[]).await;
    f.gateway.ask(Cancel {}).await.unwrap();
    assert_eq!(f.ended_as().await, JobStatus::Canceled);
    let task_manager = TaskManagerDouble::start(&f.process, "tm1", Deployments::Take, &f.gateway);
    let refused = f.gateway.ask(task_manager.introduction()).await.unwrap_err().refused().unwrap();
    assert!(!refused.retry, "{refused}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_in_one_line() {
    let f = Fixture::start(graph(1, 2, false), &[]).await;
    let summary = f.gateway.ask(RequestSummary {}).await.unwrap();
    assert_eq!((summary.status, summary.name.as_str()), (JobStatus::Running, "job 1"));
    assert_eq!(summary.tasks, [(ExecutionState::Scheduled, 4)].into());
    assert_eq!(summary.end_ms, None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_whose_program_is_gone_fails_with_the_reason_and_does_not_restart() {
    let process = TestProcess::start(PATIENT).await;
    let manager = ManagerDouble::lead(&process, 60);
    let missing = BlobKey { hash: model::ContentHash([9; 32]), ..program_key(&program()) };
    let graph = graph(1, 1, true);
    let log = log_of(&graph);
    let f = Fixture::start_on(process, manager, graph, missing, log).await;
    f.task_manager("tm1", Deployments::Take).await.offer(&[1]).await;
    assert_eq!(f.ended_as().await, JobStatus::Failed);
    let details = f.details().await;
    assert_eq!(details.restarts, 0);
    let cause = details.cause.unwrap().to_string();
    assert!(cause.contains("can't be fetched: there is no blob 0909"), "{cause}");
}
