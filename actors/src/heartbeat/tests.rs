use super::*;
use crate::testing::{TestProcess, seconds, session, settle};
use actix::Recipient;
use gateways::heartbeat::{BeatPayload, Party};
use gateways::{EndpointAddress, NodeAddress};
use model::{AllocationId, Fence, InstanceId, JobId, ResourceId};
use platform::inproc::InProcessNetwork;
use tokio::sync::mpsc;

struct Owner(mpsc::UnboundedSender<HeartbeatReport>);
impl Actor for Owner {
    type Context = Context<Self>;
}
impl Handler<HeartbeatReport> for Owner {
    type Result = ();
    fn handle(&mut self, report: HeartbeatReport, _: &mut Context<Self>) {
        let _ = self.0.send(report);
    }
}

type Reports = mpsc::UnboundedReceiver<HeartbeatReport>;

fn owner() -> (Recipient<HeartbeatReport>, Reports) {
    let (sender, reports) = mpsc::unbounded_channel();
    (Owner(sender).start().recipient(), reports)
}

fn master() -> Party {
    Party::JobMaster { job_id: JobId(1), session: session(3) }
}
fn task_manager(process: &TestProcess) -> Party {
    Party::TaskExecutor {
        resource_id: ResourceId::new("tm"),
        session: process.services.session,
        instance_id: InstanceId(5),
    }
}
fn job(allocation: u128) -> BeatPayload {
    BeatPayload::Job { allocations: vec![AllocationId(allocation)], tasks: vec![] }
}

fn target(process: &TestProcess) -> Target {
    let services = &process.services;
    Target {
        party: task_manager(process),
        address: services.heartbeat_address(),
        session: services.session,
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn beats_carry_the_newest_payload_both_ways_and_changes_are_reported() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let (heartbeat, marker) = (&process.services.heartbeat, process.lively());
    let ((to_master, mut at_master), (to_task_manager, mut at_task_manager)) = (owner(), owner());
    let watch = heartbeat.watch(master(), target(&process), &marker, to_master);
    let node = process.services.rpc.node().clone();
    let expect = heartbeat.expect(task_manager(&process), master(), node, &marker, to_task_manager);
    watch.publish(job(7));
    expect.publish(job(1));
    expect.publish(job(2));
    seconds(2).await;
    let party = task_manager(&process);
    let report = HeartbeatReport::Payload { party: party.clone(), payload: job(2) };
    assert_eq!(at_master.try_recv(), Ok(report));
    let report = HeartbeatReport::Payload { party: master(), payload: job(7) };
    assert_eq!(at_task_manager.try_recv(), Ok(report));
    expect.publish(job(3));
    seconds(2).await;
    let report = HeartbeatReport::Payload { party, payload: job(3) };
    assert_eq!(at_master.try_recv(), Ok(report.clone()));
    assert!(at_master.try_recv().is_err(), "not again at once");
    seconds(6).await;
    assert_eq!(at_master.try_recv(), Ok(report), "but later");
    assert!(watch.silence() < Duration::from_secs(2));
    seconds(60).await;
    while let Ok(report) = at_task_manager.try_recv() {
        assert!(matches!(report, HeartbeatReport::Payload { .. }), "{report:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_side_that_is_made_anew_hears_what_the_other_has_not_published_again() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let (heartbeat, marker) = (&process.services.heartbeat, process.lively());
    let node = process.services.rpc.node().clone();
    let make_watch = |to| heartbeat.watch(master(), target(&process), &marker, to);
    let make_expect =
        |to| heartbeat.expect(task_manager(&process), master(), node.clone(), &marker, to);
    let ((to_master, _at_master), (to_task_manager, _at_task_manager)) = (owner(), owner());
    let (watch, expect) = (make_watch(to_master), make_expect(to_task_manager));
    watch.publish(job(7));
    expect.publish(job(1));
    seconds(3).await;
    // The pair is replaced within one turn, so that the other side does not notice.
    let (to_task_manager, mut at_task_manager) = owner();
    drop(expect);
    let expect = make_expect(to_task_manager);
    seconds(3).await;
    let report = HeartbeatReport::Payload { party: master(), payload: job(7) };
    assert_eq!(at_task_manager.try_recv(), Ok(report));
    expect.publish(job(1));
    seconds(3).await;
    let (to_master, mut at_master) = owner();
    drop(watch);
    let _watch = make_watch(to_master);
    seconds(3).await;
    let report = HeartbeatReport::Payload { party: task_manager(&process), payload: job(1) };
    assert_eq!(at_master.try_recv(), Ok(report));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_peer_that_has_forgotten_the_pair_is_lost_at_once() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let (heartbeat, marker) = (&process.services.heartbeat, process.lively());
    let ((to_master, mut at_master), (to_task_manager, _at_task_manager)) = (owner(), owner());
    let _watch = heartbeat.watch(master(), target(&process), &marker, to_master);
    let node = process.services.rpc.node().clone();
    let expect = heartbeat.expect(task_manager(&process), master(), node, &marker, to_task_manager);
    seconds(3).await;
    drop(expect);
    seconds(2).await;
    let lost = HeartbeatReport::Lost { party: task_manager(&process), cause: LossCause::Unknown };
    assert_eq!(at_master.try_recv(), Ok(lost));
    seconds(60).await;
    assert!(at_master.try_recv().is_err(), "once");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_peer_that_never_answers_is_lost_at_the_time_out() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let marker = process.lively();
    let (to_master, mut at_master) = owner();
    let nowhere = EndpointAddress::new(NodeAddress::new("nowhere:1"), ENDPOINT);
    let target = Target { address: nowhere, ..target(&process) };
    let _watch = process.services.heartbeat.watch(master(), target, &marker, to_master);
    tokio::time::sleep(Duration::from_millis(4_800)).await;
    assert!(at_master.try_recv().is_err());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let lost = at_master.try_recv();
    let timed_out = |cause: &LossCause| matches!(cause, LossCause::Timeout { .. });
    assert!(
        matches!(&lost, Ok(HeartbeatReport::Lost { cause, .. }) if timed_out(cause)),
        "{lost:?}"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stale_or_future_process_session_is_fenced_and_counts_as_silence() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let marker = process.lively();
    for other in [0, 2] {
        let ((to_master, mut at_master), (to_task_manager, _at)) = (owner(), owner());
        let fence = ProcessSession::from_session(session(other));
        let target = Target { session: fence, ..target(&process) };
        let heartbeat = &process.services.heartbeat;
        let _watch = heartbeat.watch(master(), target, &marker, to_master);
        let node = process.services.rpc.node().clone();
        let _expect =
            heartbeat.expect(task_manager(&process), master(), node, &marker, to_task_manager);
        seconds(6).await;
        assert!(matches!(at_master.try_recv(), Ok(HeartbeatReport::Lost { .. })));
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_watched_side_is_told_of_silence_and_then_of_the_loss() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let marker = process.lively();
    let (to_task_manager, mut at_task_manager) = owner();
    let node = NodeAddress::new("nowhere:1");
    let heartbeat = &process.services.heartbeat;
    let _expect =
        heartbeat.expect(task_manager(&process), master(), node, &marker, to_task_manager);
    tokio::time::sleep(Duration::from_millis(2_900)).await;
    assert!(at_task_manager.try_recv().is_err());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let told = at_task_manager.try_recv();
    assert!(matches!(told, Ok(HeartbeatReport::Silent { .. })), "{told:?}");
    seconds(2).await;
    assert!(matches!(at_task_manager.try_recv(), Ok(HeartbeatReport::Lost { .. })));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_stuck_actor_is_lost_for_its_peer_and_ends_its_process() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let heartbeat = &process.services.heartbeat;
    let (well, stuck) = (process.lively(), process.services.turn_marker("task_executor"));
    let ((to_master, mut at_master), (to_task_manager, _at_task_manager)) = (owner(), owner());
    let _watch = heartbeat.watch(master(), target(&process), &well, to_master);
    let node = process.services.rpc.node().clone();
    let _expect = heartbeat.expect(task_manager(&process), master(), node, &stuck, to_task_manager);
    seconds(9).await;
    assert!(at_master.try_recv().is_err());
    assert_eq!(process.services.fatal.first(), None);
    seconds(3).await;
    let lost = at_master.try_recv();
    let by_age = |cause: &LossCause| matches!(cause, LossCause::Stuck { .. });
    assert!(matches!(&lost, Ok(HeartbeatReport::Lost { cause, .. }) if by_age(cause)), "{lost:?}");
    let fatal = process.services.fatal.first().expect("reported");
    assert_eq!(fatal.component, "watchdog");
    assert!(fatal.cause.starts_with("task_executor has not finished a turn for 10"), "{fatal}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_actor_that_has_ended_is_not_stuck() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    drop(process.services.turn_marker("short-lived"));
    seconds(60).await;
    assert_eq!(process.services.fatal.first(), None);
}

/// An owner that takes no turn for a while.
struct Busy(mpsc::UnboundedSender<HeartbeatReport>);
impl Actor for Busy {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Context<Self>) {
        use actix::{AsyncContext, WrapFuture};
        ctx.set_mailbox_capacity(1);
        ctx.wait(seconds(30).into_actor(self));
    }
}
impl Handler<HeartbeatReport> for Busy {
    type Result = ();
    fn handle(&mut self, report: HeartbeatReport, _: &mut Context<Self>) {
        let _ = self.0.send(report);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_loss_reaches_an_owner_whose_mailbox_was_full() {
    let process = TestProcess::start(&[]).await;
    let _service = process.heartbeats().await;
    let (heartbeat, marker) = (&process.services.heartbeat, process.lively());
    let (sender, mut reports) = mpsc::unbounded_channel();
    let busy = Busy(sender).start();
    settle().await;
    let (to_task_manager, _at_task_manager) = owner();
    let _watch = heartbeat.watch(master(), target(&process), &marker, busy.recipient());
    let node = process.services.rpc.node().clone();
    let expect = heartbeat.expect(task_manager(&process), master(), node, &marker, to_task_manager);
    for allocation in 0..10 {
        expect.publish(job(allocation));
        seconds(1).await;
    }
    drop(expect);
    seconds(30).await;
    let mut last = None;
    while let Ok(report) = reports.try_recv() {
        last = Some(report);
    }
    let lost = HeartbeatReport::Lost { party: task_manager(&process), cause: LossCause::Unknown };
    assert_eq!(last, Some(lost));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_process_whose_connection_closes_and_is_refused_is_lost_within_a_second() {
    let net = Arc::new(InProcessNetwork::new());
    let (jm, tm) =
        (TestProcess::start_at(&net, "jm").await, TestProcess::start_at(&net, "tm").await);
    let (_at_jm, at_tm) = (jm.heartbeats().await, tm.heartbeats().await);
    let ((to_master, mut at_master), (to_task_manager, _at_task_manager)) = (owner(), owner());
    let _watch = jm.services.heartbeat.watch(master(), target(&tm), &jm.lively(), to_master);
    let node = jm.services.rpc.node().clone();
    let expect = tm.services.heartbeat.expect(
        task_manager(&tm),
        master(),
        node,
        &tm.lively(),
        to_task_manager,
    );
    expect.publish(job(1));
    seconds(3).await;
    assert!(matches!(at_master.try_recv(), Ok(HeartbeatReport::Payload { .. })));
    tm.services.rpc.shutdown(Duration::ZERO).await;
    drop((at_tm, expect, tm));
    tokio::time::sleep(Duration::from_millis(900)).await;
    let lost = at_master.try_recv();
    let by_connection = |cause: &LossCause| matches!(cause, LossCause::Connection { .. });
    assert!(
        matches!(&lost, Ok(HeartbeatReport::Lost { cause, .. }) if by_connection(cause)),
        "{lost:?}"
    );
}
