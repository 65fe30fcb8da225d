use super::*;
use crate::testing::{TestProcess, seconds, session, settle};
use futures::FutureExt as _;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{CallError, EndpointAddress, FabricError, NodeAddress};
use model::{DispatcherId, Fence, JobId};
use platform::watch;
use storage::ha::LeaderRecord;

const RM: Component = Component::ResourceManager;

fn leader(process: u64) -> LeaderInformation {
    let address = EndpointAddress::new(NodeAddress::new("jm:1"), "resource_manager");
    LeaderInformation { session: session(process), address }
}

fn remote(process: &TestProcess, node: LeaderNode) -> RemoteRetrieval {
    let services = &process.services;
    let settings = RetrievalSettings::default();
    RemoteRetrieval::new(services.platform.clone(), services.rpc.clone(), node, None, settings)
}

fn here(process: &TestProcess) -> NodeAddress {
    process.services.rpc.node().clone()
}

#[tokio::test(start_paused = true)]
async fn the_table_tells_its_watchers_and_forgets_what_nobody_leads_or_watches() {
    let table = LeaderTable::default();
    let mut seen = table.watch(RM);
    assert_eq!(*seen.borrow_and_update(), None);
    table.set(RM, Some(leader(1)));
    assert_eq!(seen.changed().now_or_never(), Some(Ok(())));
    assert_eq!(*seen.borrow_and_update(), Some(leader(1)));
    table.set(RM, None);
    assert_eq!(*seen.borrow_and_update(), None);
    assert_eq!(*table.watch(RM).borrow(), None);
}

#[test]
fn a_job_master_is_known_while_the_dispatcher_is_that_it_belongs_to() {
    let (table, job) = (LeaderTable::default(), JobId(1));
    let known = || table.watch(Component::JobMaster(job)).borrow().clone();
    let of = |n| DispatcherId::from_session(session(n));
    table.add_job(of(1), job, leader(10));
    assert_eq!(known(), None, "the Dispatcher does not answer yet");
    table.set(Component::Dispatcher, Some(leader(1)));
    assert_eq!(known(), Some(leader(10)));
    table.add_job(of(1), job, leader(11));
    assert_eq!(known(), Some(leader(11)));
    table.remove_job(job, session(10));
    assert_eq!(known(), Some(leader(11)), "another one was meant");
    table.set(Component::Dispatcher, None);
    assert_eq!(known(), None, "it goes with its Dispatcher");
    table.set(Component::Dispatcher, Some(leader(2)));
    assert_eq!(known(), None, "and is not the next one's");
    table.add_job(of(2), job, leader(20));
    assert_eq!(known(), Some(leader(20)));
    table.remove_job(job, session(20));
    assert_eq!(known(), None);
}

#[test]
fn what_nobody_leads_and_nobody_watches_is_forgotten() {
    let table = LeaderTable::default();
    let watched = table.watch(RM);
    table.set(Component::Dispatcher, Some(leader(1)));
    for n in 0..10_000 {
        let dispatcher = DispatcherId::from_session(session(1));
        table.add_job(dispatcher, JobId(n), leader(2));
        assert!(table.watch(Component::JobMaster(JobId(n))).borrow().is_some());
        table.remove_job(JobId(n), session(2));
    }
    assert!(table.len() < 200, "{}", table.len());
    table.set(RM, Some(leader(3)));
    assert_eq!(*watched.borrow(), Some(leader(3)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_question_is_answered_at_once_or_when_the_leader_changes_or_at_the_end_of_the_wait() {
    let process = TestProcess::start(&[]).await;
    let services = &process.services;
    let running =
        start(&services.platform, &services.rpc, process.leaders.clone()).await.expect("started");
    let gateway = services
        .rpc
        .gateway::<LeaderRetrievalGateway>(running.address(), ProcessSession::default());
    let ask = |known, wait_ms| gateway.ask(RequestLeader { component: RM, known, wait_ms });
    assert_eq!(ask(None, 2_000).await, Ok(None), "at the end of the wait");
    process.leaders.set(RM, Some(leader(1)));
    assert_eq!(ask(None, 60_000).await, Ok(Some(leader(1))), "at once");
    let waiting = ask(Some(leader(1)), 60_000);
    let change = async {
        seconds(3).await;
        process.leaders.set(RM, Some(leader(2)));
    };
    let (answer, ()) = futures::join!(waiting, change);
    assert_eq!(answer, Ok(Some(leader(2))));
    // A wait longer than the caller's deadline is cut, so that there is an answer.
    assert_eq!(ask(Some(leader(2)), 3_600_000).await, Ok(Some(leader(2))));
    let other = ProcessSession::from_session(session(1));
    let fenced = services.rpc.gateway::<LeaderRetrievalGateway>(running.address(), other);
    let answer = fenced.ask(RequestLeader { component: RM, known: None, wait_ms: 0 }).await;
    assert!(matches!(answer, Err(CallError::Fabric(FabricError::Fenced { .. }))));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_remote_watch_follows_every_change_and_survives_an_absent_process() {
    let process = TestProcess::start(&[]).await;
    let services = &process.services;
    let retrieval = remote(&process, LeaderNode::Fixed(here(&process)));
    let mut seen = retrieval.watch(RM);
    seconds(5).await;
    assert_eq!(*seen.borrow_and_update(), None, "nobody answers yet");
    process.leaders.set(RM, Some(leader(1)));
    let running =
        start(&services.platform, &services.rpc, process.leaders.clone()).await.expect("started");
    seconds(1).await;
    assert_eq!(*seen.borrow_and_update(), Some(leader(1)));
    process.leaders.set(RM, Some(leader(2)));
    settle().await;
    assert_eq!(*seen.borrow_and_update(), Some(leader(2)));
    drop(running);
    seconds(60).await;
    assert_eq!(seen.changed().now_or_never(), None, "the last answer stands");
    assert_eq!(*retrieval.watch(RM).borrow(), Some(leader(2)), "one question for all watchers");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_process_that_the_record_names_is_asked() {
    let process = TestProcess::start(&[]).await;
    let services = &process.services;
    let _running =
        start(&services.platform, &services.rpc, process.leaders.clone()).await.expect("started");
    process.leaders.set(RM, Some(leader(1)));
    let record = |epoch, node: &str| {
        let (node, rest, identity) = (node.to_owned(), String::new(), String::new());
        Some(LeaderRecord { store_epoch: epoch, node, rest, identity })
    };
    let records = watch::Sender::new(None);
    let retrieval = remote(&process, LeaderNode::Record(records.subscribe()));
    let mut seen = retrieval.watch(RM);
    seconds(2).await;
    assert_eq!(*seen.borrow_and_update(), None, "nobody leads");
    records.send_replace(record(1, "nowhere:1"));
    seconds(2).await;
    assert_eq!(*seen.borrow_and_update(), None);
    records.send_replace(record(2, here(&process).as_str()));
    seconds(2).await;
    assert_eq!(*seen.borrow_and_update(), Some(leader(1)));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_process_that_leads_itself_asks_its_own_table() {
    let process = TestProcess::start(&[]).await;
    let services = &process.services;
    let own = process.leaders.clone();
    let node = LeaderNode::Fixed(here(&process));
    let retrieval = RemoteRetrieval::new(
        services.platform.clone(),
        services.rpc.clone(),
        node,
        Some(own.clone()),
        RetrievalSettings::default(),
    );
    let mut seen = retrieval.watch(RM);
    own.set(RM, Some(leader(1)));
    settle().await;
    assert_eq!(*seen.borrow_and_update(), Some(leader(1)));
    own.set(RM, None);
    settle().await;
    assert_eq!(*seen.borrow_and_update(), None);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_leader_process_that_is_started_again_is_found_within_two_seconds() {
    let net = std::sync::Arc::new(platform::inproc::InProcessNetwork::new());
    let tm = TestProcess::start_at(&net, "tm").await;
    let retrieval = remote(&tm, LeaderNode::Fixed(NodeAddress::new("jm:6123")));
    let mut seen = retrieval.watch(RM);
    seconds(30).await;
    for round in 1..4 {
        let jm = TestProcess::start_at(&net, "jm").await;
        let services = &jm.services;
        let running =
            start(&services.platform, &services.rpc, jm.leaders.clone()).await.expect("started");
        jm.leaders.set(RM, Some(leader(round)));
        seconds(2).await;
        assert_eq!(*seen.borrow_and_update(), Some(leader(round)));
        jm.services.rpc.shutdown(Duration::ZERO).await;
        drop((running, jm));
        seconds(30).await;
    }
}
