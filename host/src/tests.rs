//! Hosts in one process, driven through their gateway alone.

#![allow(clippy::disallowed_methods, reason = "tests measure real time")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{programs, *};
use gateways::{CallError, program_host::*, task_executor::*};
use model::{AllocationId, ExecutionState as S, OperatorId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

const TEXT: &str =
    "to be or not to be\nthat is the question\nwhether tis nobler in the mind to suffer\n";

/// Returns a cluster with a host for coordinators.
async fn coordinators_host() -> (Cluster, Host) {
    let mut cluster = Cluster::start().await;
    let (_, coordinators) = cluster.in_process(&programs::entry()).await;
    (cluster, coordinators)
}

/// Returns a cluster with a host for coordinators, and one that is started with these options for tasks.
async fn hosts(options: &[(&str, &str)]) -> (Cluster, Host, Host) {
    let (mut cluster, coordinators) = coordinators_host().await;
    let worker = cluster.worker(&programs::entry(), options).await;
    (cluster, coordinators, worker)
}

fn counted(text: &str) -> BTreeSet<String> {
    let mut counts = BTreeMap::new();
    for word in text.split_ascii_whitespace() {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts.iter().map(|(word, n)| format!("{word}\t{n}")).collect()
}

#[tokio::test]
async fn words_are_counted_from_build_to_collected_result() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let text = text(cluster.tmp.path(), "text", &TEXT.repeat(200));
    let graph = cluster.build(&coordinators, 3, &["words", &text]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Finished, attempts.len()).await;
    for attempt in &attempts {
        assert_eq!(
            cluster.states_of(*attempt),
            [S::Deploying, S::Initializing, S::Running, S::Finished]
        );
    }
    let records: u64 = cluster.seen.iter().map(|u| u.io.records_in).max().unwrap_or(0);
    assert!(records > 0, "counts are told");
    assert_eq!(results(&coordinators, &graph).await, counted(&TEXT.repeat(200)));
}

#[tokio::test]
async fn two_hosts_exchange_records_over_their_data_ports() {
    let serialised = [("exchange.force-serialization", "true")];
    let (mut cluster, coordinators, a) = hosts(&serialised).await;
    let b = cluster.worker(&programs::entry(), &serialised).await;
    assert_ne!(a.data_address, b.data_address);
    let graph = cluster.build(&coordinators, 4, &["shuffle", "100000"]).await;
    let attempts = deploy(&graph, &[&a, &b], 0).await;
    cluster.all(S::Finished, attempts.len()).await;
    let lines = results(&coordinators, &graph).await;
    assert_eq!(lines.len(), 97);
    let total: u64 =
        lines.iter().map(|l| l.split_once('\t').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(total, 100_000);
}

/// The capacities of texts behind an edge, where the cluster and the job set `exchange.force-serialization`; "" for a job that does not.
async fn capacities(of_cluster: &str, of_job: &str) -> BTreeSet<String> {
    let options = [("exchange.force-serialization", of_cluster)];
    let (mut cluster, coordinators, worker) = hosts(&options).await;
    let graph = cluster.build(&coordinators, 1, &["capacities", of_job]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Finished, attempts.len()).await;
    results(&coordinators, &graph).await
}

#[tokio::test]
async fn a_job_sets_for_itself_whether_records_are_serialised_inside_a_process() {
    for (of_cluster, of_job, capacity) in [
        ("false", "true", "3"),
        ("true", "false", "4096"),
        ("false", "", "4096"),
        ("true", "", "3"),
    ] {
        let lines = capacities(of_cluster, of_job).await;
        assert_eq!(lines, [capacity.to_owned()].into(), "{of_cluster} {of_job}");
    }
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators, 1, &["capacities", "maybe"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Failed, attempts.len()).await;
    let cause = cluster.seen.iter().find_map(|update| update.cause.clone()).unwrap();
    assert!(cause.message.contains("'maybe' is wrong, it takes true or false"), "{cause}");
    assert!(!cause.recoverable, "{cause}");
}

#[tokio::test]
async fn subtasks_know_the_devices_of_their_slots() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators, 2, &["devices"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Finished, attempts.len()).await;
    let lines = results(&coordinators, &graph).await;
    assert_eq!(lines, ["0..2", "2..4"].map(str::to_owned).into());
}

#[tokio::test]
async fn a_job_without_end_is_cancelled_quickly_and_its_slot_can_be_released() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators, 2, &["forever"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Running, attempts.len()).await;
    // Subtask 1 of each vertex is in slot 1.
    worker.gateway.ask(ReleaseSlot { allocation_id: AllocationId(1) }).await.unwrap();
    cluster
        .until("slot 1 is empty", |newest| {
            newest.iter().all(|(a, u)| (a.subtask == 1) == (u.state == S::Canceled))
        })
        .await;
    let asked = Instant::now();
    worker.cancel(attempts.clone()).await;
    cluster.all(S::Canceled, attempts.len()).await;
    assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    for attempt in &attempts {
        let states = cluster.states_of(*attempt);
        assert_eq!(states[states.len() - 2..], [S::Canceling, S::Canceled]);
    }
    // The region starts again in the same host, with the graph that it knows.
    let again = deploy(&graph, &[&worker], 1).await;
    cluster
        .until("all run again", |newest| {
            again.iter().all(|a| newest.get(a).is_some_and(|u| u.state == S::Running))
        })
        .await;
    worker.cancel(again).await;
}

#[tokio::test]
async fn a_panic_of_user_code_fails_its_task_by_name_and_no_other() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators, 1, &["panic"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    let newest =
        cluster.until("a failure", |newest| newest.values().any(|u| u.state == S::Failed)).await;
    let failed: Vec<_> = newest.values().filter(|u| u.state == S::Failed).collect();
    assert_eq!(failed.len(), 1);
    let cause = failed[0].cause.as_ref().unwrap();
    assert_eq!(cause.kind, "UserError");
    assert!(cause.message.contains("five hundred is too much"), "{cause}");
    assert!(cause.message.contains("picky"), "{cause}");
    worker.cancel(attempts.clone()).await;
    cluster
        .until("all ended", |newest| {
            newest.len() == attempts.len() && newest.values().all(|u| u.state.is_terminal())
        })
        .await;
    assert!(cluster.fatal.lock().unwrap().is_empty());
}

#[tokio::test]
async fn code_that_does_not_return_is_reported_as_fatal_in_process() {
    let patience = [("task.cancellation.timeout", "100 ms")];
    let (mut cluster, coordinators, worker) = hosts(&patience).await;
    let entered = cluster.tmp.path().join("entered");
    let graph = cluster.build(&coordinators, 1, &["loop", &entered.to_string_lossy()]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    made(&entered).await;
    worker.cancel(attempts).await;
    let fatal = std::sync::Arc::clone(&cluster.fatal);
    let said = soon("the fatal error", async move {
        loop {
            if let Some(why) = fatal.lock().unwrap().first() {
                return why.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(said.contains("task.cancellation.timeout") && said.contains("sequence"), "{said}");
}

#[tokio::test]
async fn a_program_that_builds_another_graph_fails_its_tasks_for_good() {
    // A program of its own: its builds are counted.
    let builds = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counting = std::sync::Arc::clone(&builds);
    let program = streaming::ProgramEntry::new().job(
        "fickle",
        move |env: &streaming::Environment, _: streaming::Args| {
            let numbers = env.sequence(0..10);
            if counting.fetch_add(1, Ordering::SeqCst) == 0 {
                numbers.map(|n| n).name("first").discard();
            } else {
                numbers.filter(|n| *n > 1).name("second").discard();
            }
            Ok::<(), std::convert::Infallible>(())
        },
    );
    let mut cluster = Cluster::start().await;
    let (_, coordinators) = cluster.in_process(&program).await;
    let worker = cluster.worker(&program, &[]).await;
    let graph = cluster.build(&coordinators, 2, &[]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Failed, attempts.len()).await;
    let cause = cluster.seen.iter().find_map(|u| u.cause.clone()).unwrap();
    assert_eq!((cause.kind.as_str(), cause.recoverable), ("Differs", false));
    assert!(cause.message.contains("second") && cause.message.contains("node 1"), "{cause}");
    assert_eq!(builds.load(Ordering::SeqCst), 2, "built once per host");
}

#[tokio::test]
async fn a_build_that_fails_says_why() {
    let program = programs::entry();
    let mut cluster = Cluster::start().await;
    let (_, host) = cluster.in_process(&program).await;
    let said = |result: Result<_, CallError<BuildError>>| match result {
        Err(CallError::Refused(BuildError::Program(why))) => why,
        other => panic!("{other:?}"),
    };
    assert!(said(host.build(1, &["build-panics"]).await).contains("no graph today"));
    assert!(said(host.build(1, &["build-fails"]).await).contains("no such table"));
    // A source whose file is absent fails where its coordinator starts.
    let graph = std::sync::Arc::new(host.build(1, &["words", "/no/such/file"]).await.unwrap());
    let start = cluster.start_coordinators(&graph);
    match host.gateway.ask(start).await {
        Err(CallError::Refused(BuildError::Program(why))) => {
            assert!(why.contains("/no/such/file"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    match host.build(1, &["words", "relative/path"]).await {
        Err(CallError::Refused(BuildError::Invalid(why))) => {
            assert!(why.contains("relative/path"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_program_names_its_jobs_and_gives_its_help() {
    use streaming::{Args, Environment};
    let job = |env: &Environment, _: Args| {
        env.sequence(0..1).discard();
        Ok::<(), std::convert::Infallible>(())
    };
    let program = streaming::ProgramEntry::new().job("second", job).job("a", job);
    let mut cluster = Cluster::start().await;
    let (_, host) = cluster.in_process(&program).await;
    let described = host.gateway.ask(DescribeProgram {}).await.unwrap();
    assert_eq!(described.jobs, ["second", "a"]);
    match host.build(1, &["--help"]).await {
        Err(CallError::Refused(BuildError::Usage { text, help: true })) => {
            assert!(text.contains("\n  second\n  a\n"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn deployments_that_do_not_fit_are_refused_and_repeated_ones_are_not_run_twice() {
    let (mut cluster, coordinators) = coordinators_host().await;
    let graph = cluster.build(&coordinators, 1, &["forever"]).await;
    let deployment = |graph_sent: bool, job_id, from, attempt| DeployToHost {
        deployment: DeployTasks {
            job_id,
            job_master_id: job_master(from),
            graph: graph_sent.then(|| std::sync::Arc::clone(&graph)),
            producers: Vec::new(),
            tasks: vec![TaskDeployment {
                attempt: attempt_of(graph.vertices[0].id, 0, attempt),
                allocation_id: AllocationId(0),
                restore: Vec::new(),
                ended: false,
            }],
            checkpoint_dir: None,
            ends_with_checkpoint: false,
        },
        devices: Default::default(),
    };
    let (_, idle) = cluster.in_process(&programs::entry()).await;
    let refused = idle.gateway.ask(deployment(true, JOB, 1, 0)).await;
    assert!(matches!(refused, Err(CallError::Refused(DeployError::Host(_)))), "not started");
    let worker = cluster.worker(&programs::entry(), &[]).await;
    let ask = |d| worker.gateway.ask(d);
    let other_job = ask(deployment(true, model::JobId(9), 1, 0)).await;
    assert!(matches!(other_job, Err(CallError::Refused(DeployError::Host(_)))));
    let no_graph = ask(deployment(false, JOB, 1, 0)).await;
    assert!(matches!(no_graph, Err(CallError::Refused(DeployError::Host(_)))));
    assert_eq!(ask(deployment(true, JOB, 1, 1)).await.unwrap(), []);
    assert_eq!(ask(deployment(true, JOB, 1, 1)).await.unwrap(), [], "repeated");
    let stale = ask(deployment(false, JOB, 1, 0)).await.unwrap();
    assert!(
        matches!(&stale[..], [(a, DeployError::Host(why))] if a.attempt == 0 && why.contains("superseded by attempt 1"))
    );
    let other_master = ask(deployment(false, JOB, 2, 2)).await;
    assert!(matches!(other_master, Err(CallError::Refused(DeployError::Host(_)))));
    cluster.all(S::Running, 1).await;
    let deploying = cluster.seen.iter().filter(|u| u.state == S::Deploying).count();
    assert_eq!(deploying, 1);
    worker.cancel(vec![attempt_of(graph.vertices[0].id, 0, 1)]).await;
    cluster.all(S::Canceled, 1).await;
}

/// A path may mean another directory on the machine of a TaskManager: its checkpoints would be lost to everybody else.
#[tokio::test]
async fn tasks_whose_checkpoint_directory_is_not_the_jobmanagers_are_refused_with_both_named() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators, 2, &["shuffle", "10"]).await;
    let directory = cluster.tmp.path().join("checkpoints").display().to_string();
    let attempts = deploy_with(&graph, &[&worker], 0, Some(&directory)).await;
    cluster.all(S::Failed, attempts.len()).await;
    let here = nix::unistd::gethostname().unwrap().into_string().unwrap();
    let theirs = format!("the JobManager's directory {directory} is another one");
    let ours = format!("than {directory} on '{here}'");
    for cause in cluster.seen.iter().filter_map(|update| update.cause.as_ref()) {
        assert_eq!(cause.kind, model::FailureCause::CHECKPOINT_DIRECTORY_UNUSABLE);
        for part in ["execution.checkpointing.dir", &theirs, &ours, "that all machines share"] {
            assert!(cause.message.contains(part), "no '{part}' in: {}", cause.message);
        }
    }
    // No task of the job has begun.
    let begun = |update: &&model::job::TaskStateUpdate| {
        matches!(update.state, S::Initializing | S::Running)
    };
    assert_eq!(cluster.seen.iter().find(begun), None);
    // The JobMaster's mark tells that the directory is the same one.
    let s3 = storage::objects::S3Settings::default();
    let objects = storage::objects::open(&directory, &cluster.platform, &s3).unwrap();
    storage::checkpoints::CheckpointDirectory::new(objects).mark_shared(JOB).await.unwrap();
    let start = cluster.start_coordinators(&graph);
    coordinators.gateway.ask(start).await.unwrap();
    let second = deploy_with(&graph, &[&worker], 1, Some(&directory)).await;
    cluster
        .until("the tasks with a shared directory", |newest| {
            second.iter().all(|a| newest.get(a).is_some_and(|u| u.state == S::Finished))
        })
        .await;
}

#[tokio::test]
async fn reports_are_repeated_until_the_parent_has_them() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    cluster.deaf.store(1, Ordering::SeqCst);
    let graph = cluster.build(&coordinators, 1, &["shuffle", "10"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Finished, attempts.len()).await;
    for attempt in &attempts {
        assert_eq!(
            cluster.states_of(*attempt),
            [S::Deploying, S::Initializing, S::Running, S::Finished]
        );
    }
}

#[tokio::test]
async fn coordinators_are_started_anew_and_stale_callers_are_told() {
    let (mut cluster, coordinators) = coordinators_host().await;
    let early = HandleCoordinationRequest { operator: model::OperatorId(1), request: Vec::new() };
    let early = coordinators.gateway.ask(early).await;
    assert!(matches!(
        early,
        Err(CallError::Refused(gateways::job_master::CoordinationError::Unavailable(_)))
    ));
    let worker = cluster.worker(&programs::entry(), &[]).await;
    let text = text(cluster.tmp.path(), "text", TEXT);
    let graph = cluster.build(&coordinators, 2, &["words", &text]).await;
    let first = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Finished, first.len()).await;
    // A restart of the whole job: everything is handed out and collected again, nothing twice.
    let start = cluster.start_coordinators(&graph);
    coordinators.gateway.ask(start).await.unwrap();
    let second = deploy(&graph, &[&worker], 1).await;
    cluster
        .until("the second round", |newest| {
            second.iter().all(|a| newest.get(a).is_some_and(|u| u.state == S::Finished))
        })
        .await;
    assert_eq!(results(&coordinators, &graph).await, counted(TEXT));
    let unknown = HandleCoordinationRequest { operator: model::OperatorId(1), request: Vec::new() };
    let unknown = coordinators.gateway.ask(unknown).await;
    assert!(matches!(
        unknown,
        Err(CallError::Refused(gateways::job_master::CoordinationError::NoSuchOperator { .. }))
    ));
}

#[tokio::test]
async fn a_start_replaces_the_coordinators_of_its_operators_and_those_of_other_job_masters() {
    let (mut cluster, coordinators) = coordinators_host().await;
    let text = text(cluster.tmp.path(), "text", TEXT);
    let graph = cluster.build(&coordinators, 2, &["words", &text]).await;
    let coordinated = graph.nodes.iter().filter(|node| node.coordinated);
    let coordinated: Vec<_> = coordinated.map(|node| node.operator_id).collect();
    let [source, sink] = coordinated[..] else { panic!("{coordinated:?}") };
    let is_started = async |operator| {
        let request = HandleCoordinationRequest { operator, request: Vec::new() };
        let answer = coordinators.gateway.ask(request).await;
        let absent = gateways::job_master::CoordinationError::Unavailable(
            "its coordinator is not started".to_owned(),
        );
        answer != Err(CallError::Refused(absent))
    };
    let mut start = cluster.start_coordinators(&graph);
    start.operators = [sink].into();
    coordinators.gateway.ask(start.clone()).await.unwrap();
    assert!(is_started(source).await && is_started(sink).await);
    start.job_master_id = common::job_master(2);
    coordinators.gateway.ask(start).await.unwrap();
    assert!(!is_started(source).await && is_started(sink).await);
}

#[tokio::test]
async fn enumerators_take_splits_back_and_other_coordinators_refuse() {
    let (cluster, coordinators) = coordinators_host().await;
    let text = text(cluster.tmp.path(), "text", TEXT);
    let graph = Arc::new(coordinators.build(2, &["words", &text]).await.unwrap());
    let coordinated = graph.nodes.iter().filter(|node| node.coordinated);
    let coordinated: Vec<_> = coordinated.map(|node| node.operator_id).collect();
    let [source, sink] = coordinated[..] else { panic!("{coordinated:?}") };
    let reset = async |operators: &[OperatorId]| {
        let attempt = model::ExecutionAttemptId {
            graph: 1,
            vertex: graph.vertices[0].id,
            subtask: 1,
            attempt: 0,
        };
        let attempts = operators.iter().map(|operator| (*operator, vec![attempt])).collect();
        match coordinators.gateway.ask(ResetSubtasks { attempts, checkpoint: Some(3) }).await {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let mut start = cluster.start_coordinators(&graph);
    start.operators = [sink].into();
    coordinators.gateway.ask(start.clone()).await.unwrap();
    assert!(reset(&[source]).await.contains("not started"));
    start.operators = [source].into();
    coordinators.gateway.ask(start).await.unwrap();
    assert_eq!(reset(&[source]).await, "done");
    assert!(reset(&[source, sink]).await.contains("starts anew with its subtasks"));
}

#[tokio::test]
async fn a_coordinator_that_is_slow_to_start_holds_up_no_other_one() {
    let (cluster, coordinators) = coordinators_host().await;
    let text = text(cluster.tmp.path(), "text", TEXT);
    let gateway = &coordinators.gateway;
    let graph = Arc::new(coordinators.build(2, &["held", &text]).await.unwrap());
    let of = |held: bool| {
        let mut start = cluster.start_coordinators(&graph);
        let named = |node: &&model::graph::GraphNode| (node.name == "held") == held;
        let nodes = graph.nodes.iter().filter(|node| node.coordinated).filter(named);
        start.operators = nodes.map(|node| node.operator_id).collect();
        start
    };
    let gate = programs::GATE.lock().await;
    // Started anew while its first start lasts: neither makes the others wait.
    let slow = futures::future::join(gateway.ask(of(true)), gateway.ask(of(true)));
    let others = async {
        let start = of(false);
        let operator = *start.operators.last().unwrap();
        gateway.ask(start).await.unwrap();
        let request = HandleCoordinationRequest { operator, request: Vec::new() };
        let answer = gateway.ask(request).await;
        assert!(matches!(
            answer,
            Err(CallError::Refused(gateways::job_master::CoordinationError::Failed(_))) | Ok(_)
        ));
        drop(gate);
    };
    let ((first, second), ()) = futures::future::join(slow, others).await;
    assert_eq!((first, second), (Ok(()), Ok(())));
}

/// One enumerator is in a call that does not return; the other one takes its snapshot, answers and assigns its splits meanwhile.
#[tokio::test]
async fn a_coordinator_that_is_slow_in_a_call_holds_up_no_other_ones_requests_and_snapshots() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let text = text(cluster.tmp.path(), "text", TEXT);
    let gateway = &coordinators.gateway;
    let gate = programs::CALLS.lock().await;
    let graph = cluster.build(&coordinators, 2, &["slow-enumerator", &text]).await;
    let node = |name: &str| graph.nodes.iter().find(|node| node.name == name).unwrap();
    let (slow, quick) = (node("slow").id, node("quick").operator_id);
    let operators = cluster.start_coordinators(&graph).operators;
    let ask = SnapshotCoordinators { checkpoint: 1, operators: operators.clone() };
    let snapshot = gateway.ask_within(ask, PATIENCE);
    let meanwhile = async {
        while programs::SNAPSHOTS.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let request = HandleCoordinationRequest { operator: quick, request: Vec::new() };
        let answer = gateway.ask(request).await;
        assert!(matches!(
            answer,
            Err(CallError::Refused(gateways::job_master::CoordinationError::Failed(_))) | Ok(_)
        ));
        // Splits that are assigned behind a snapshot are held until its checkpoint has ended.
        let ended = CoordinatorsCheckpointEnded { checkpoint: 1, complete: false };
        gateway.ask(ended).await.unwrap();
        // Nor does it hold up a checkpoint in which its region takes no part.
        let alone = SnapshotCoordinators { checkpoint: 2, operators: [quick].into() };
        let taken = gateway.ask(alone).await.unwrap();
        assert_eq!(taken.iter().map(|(operator, _)| *operator).collect::<Vec<_>>(), [quick]);
        let ended = CoordinatorsCheckpointEnded { checkpoint: 2, complete: false };
        gateway.ask(ended).await.unwrap();
        let attempts = deploy(&graph, &[&worker], 0).await;
        let others = |attempt: &&model::ExecutionAttemptId| {
            !graph.vertex(attempt.vertex).unwrap().nodes.contains(&slow)
        };
        let others: Vec<_> = attempts.iter().filter(others).copied().collect();
        assert!(!others.is_empty() && others.len() < attempts.len(), "{others:?}");
        cluster
            .until("the tasks of the other source", |newest| {
                others.iter().all(|a| newest.get(a).is_some_and(|u| u.state == S::Finished))
            })
            .await;
        drop(gate);
        attempts.len()
    };
    let (snapshot, tasks) =
        futures::future::join(snapshot, soon("the other coordinator", meanwhile)).await;
    let snapshot = snapshot.unwrap().into_iter().map(|(operator, _)| operator);
    assert_eq!(snapshot.collect::<BTreeSet<_>>(), operators);
    cluster.all(S::Finished, tasks).await;
}

#[tokio::test]
async fn a_host_that_is_told_to_end_cancels_its_tasks_first() {
    let (mut cluster, coordinators) = coordinators_host().await;
    let (started, worker) = cluster.in_process(&programs::entry()).await;
    let start = cluster.start_host(&[]);
    let data_address = worker.gateway.ask(start.clone()).await.unwrap().data_address;
    let mut bigger = start;
    bigger.network_memory = model::MemorySize::from_mib(64);
    let again = worker.gateway.ask(bigger).await.unwrap();
    assert_eq!(again.data_address, data_address, "only its memory has changed");
    let worker = Host { data_address, ..worker };
    let graph = cluster.build(&coordinators, 2, &["forever"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster.all(S::Running, attempts.len()).await;
    (started.end)();
    soon("the end of the host", started.ended).await;
    let gone = worker.gateway.ask(ParentAlive {}).await;
    assert!(matches!(gone, Err(CallError::Fabric(_))), "{gone:?}");
}

#[tokio::test]
async fn counts_of_running_tasks_are_told_again() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators, 1, &["forever"]).await;
    let attempts = deploy(&graph, &[&worker], 0).await;
    let counted = cluster
        .until("growing counts", |newest| newest.values().any(|u| u.io.records_in > 1_000))
        .await;
    assert!(counted.values().all(|u| u.state == S::Running));
    worker.cancel(attempts.clone()).await;
    cluster.all(S::Canceled, attempts.len()).await;
}

#[tokio::test]
async fn a_hundred_and_twenty_eight_times_two_tasks_are_deployed_in_no_time() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    // All-to-all: 16,384 channels in this process.
    let graph =
        cluster.build(&coordinators, 128, &["words", &text(cluster.tmp.path(), "t", "")]).await;
    let began = Instant::now();
    let attempts = deploy(&graph, &[&worker], 0).await;
    cluster
        .until("all run", |newest| {
            newest.len() == attempts.len()
                && newest.values().all(|u| matches!(u.state, S::Running | S::Finished))
        })
        .await;
    // The goal of 150 ms is for a release build; this catches what is quadratic.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    println!("{} tasks run after {:?}", attempts.len(), began.elapsed());
    cluster.all(S::Finished, attempts.len()).await;
}
