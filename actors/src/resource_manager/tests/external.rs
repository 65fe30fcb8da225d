//! Tests of the external resource system: nodes to avoid, late workers, TaskManagers that can never be provided,
//! deregistration.

use super::*;

const GRACE: (&str, &str) = ("resourcemanager.late-worker.grace-period", "60 s");

fn failed(request: u64, host: &str) -> DriverEvent {
    let (host, cause) = (Some(host.to_owned()), "disk full".to_owned());
    DriverEvent::StartFailed { request, host, cause }
}

async fn block(world: &World, host: &str, for_ms: u64) -> BlockedNode {
    let block = BlockNode { host: host.into(), for_ms, cause: "disk".into() };
    world.rm.ask(block).await.expect("blocked")
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_driver_hears_which_nodes_to_avoid_also_when_there_are_none_left() {
    let world = world(true, &[]).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 3).await.expect("taken");
    block(&world, "node-1", 10_000).await;
    world.driver.say(failed(1, "node-2")).await;
    seconds(11).await;
    assert_eq!(world.driver.requests(), [1, 2]);
    // The longest pause is 32 times the first pause of 3 s.
    seconds(90).await;
    let told = world.driver.state().avoided.clone();
    assert_eq!(told, [vec!["node-1"], vec!["node-1", "node-2"], vec!["node-2"], vec![]]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn blocked_nodes_are_listed_with_their_task_managers_and_unblocked() {
    let world = world(false, &[]).await;
    for name in ["tm-1", "tm-2"] {
        let introduction = RegisterTaskExecutor {
            host: "node".into(),
            ..world.task_manager(name).introduction(&world.process, 1)
        };
        world.rm.ask(introduction).await.expect("accepted");
    }
    let blocked = block(&world, "node", 20_000).await;
    let expected = BlockedNode {
        host: "node".into(),
        remaining_ms: 20_000,
        cause: "disk".into(),
        task_managers: 2,
    };
    assert_eq!(blocked, expected);
    assert_eq!(block(&world, "node", 5).await, expected, "the longer one stands");
    assert_eq!(block(&world, "elsewhere", 30_000).await.task_managers, 0);
    seconds(1).await;
    let all = world.rm.ask(RequestBlockedNodes {}).await.expect("answered");
    let all: Vec<_> = all.iter().map(|node| (node.host.as_str(), node.remaining_ms)).collect();
    assert_eq!(all, [("elsewhere", 29_000), ("node", 19_000)]);
    let unblock = || world.rm.ask(UnblockNode { host: "node".into() });
    assert_eq!(unblock().await, Ok(true));
    assert_eq!(unblock().await, Ok(false));
    assert_eq!(world.rm.ask(RequestBlockedNodes {}).await.map(|all| all.len()), Ok(1));
    for host in [String::new(), "x".repeat(256)] {
        let block = BlockNode { host, for_ms: 1, cause: String::new() };
        let refused = world.rm.ask(block).await.expect_err("refused").refused();
        assert!(matches!(refused, Some(BlockNodeError::InvalidName(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_worker_that_is_reported_after_its_request_failed_serves_the_job() {
    let world = world(true, &[GRACE]).await;
    let _job = world.job(master(7)).await;
    world.require(master(7), 4).await.expect("taken");
    assert_eq!(world.driver.requests(), [1]);
    world.driver.say(failed(1, "node-2")).await;
    seconds(4).await;
    assert_eq!(world.driver.requests(), [1, 2]);
    world.driver.started(1, "slow").await;
    assert_eq!(world.driver.state().cancelled, [2], "one is enough");
    assert_eq!(world.driver.released().len(), 0);
    let slow = world.task_manager("slow");
    world.join(&slow, 2).await;
    assert_eq!(slow.requests.all().len(), 2);
    world.driver.started(2, "too-many").await;
    assert_eq!(world.driver.released(), ["too-many"]);
    let ended: Vec<u64> = world
        .process
        .facts
        .all()
        .iter()
        .filter_map(|fact| match fact {
            Fact::WorkerRequestEnded { request, .. } => Some(*request),
            _ => None,
        })
        .collect();
    assert_eq!(ended, [1, 2]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_worker_of_an_earlier_attempt_may_register_before_the_system_reports_it() {
    let world = world(true, &[GRACE, ("resourcemanager.taskmanager-timeout", "1 h")]).await;
    let late = world.task_manager("late");
    let refused = world.register(&late, 5).await.expect_err("refused").refused().expect("typed");
    assert!(refused.retry, "{refused}");
    world
        .driver
        .say(DriverEvent::Recovered { workers: vec![recovered("late"), recovered("old")] })
        .await;
    world.join(&late, 5).await;
    assert_eq!(
        world.overview().await.slots,
        5,
        "as its TaskManager says, not as new ones are asked for"
    );
    seconds(61).await;
    world
        .driver
        .say(DriverEvent::Recovered { workers: vec![recovered("late"), recovered("too-late")] })
        .await;
    assert_eq!(world.driver.released(), ["too-late"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_job_whose_task_managers_can_never_be_had_is_told_at_once() {
    let world = world(true, &[("slot.request.timeout", "5 min")]).await;
    let cause = "exit".to_owned();
    world.driver.say(DriverEvent::Lost { resource_id: ResourceId::new("old"), cause }).await;
    seconds(10).await;
    let job = world.job(master(7)).await;
    world.require(master(7), 3).await.expect("taken");
    assert_eq!(world.driver.requests(), [1, 2]);
    let cause = "4096 MiB are more than yarn.scheduler.maximum-allocation-mb (1024)".to_owned();
    world.driver.say(DriverEvent::NeverMet { request: 1, cause }).await;
    assert_eq!(world.driver.state().cancelled, [2]);
    seconds(1).await;
    let shortage = job.shortages.take().remove(0);
    let told = "a TaskManager for them can never be started: 4096 MiB are more than";
    assert!(shortage.message.contains(told), "{}", shortage.message);
    seconds(60).await;
    assert_eq!(world.driver.requests(), [1, 2], "not asked for again while it is wanted");
    world.require(master(7), 0).await.expect("taken");
    world.require(master(7), 1).await.expect("taken");
    assert_eq!(world.driver.requests(), [1, 2, 3], "another job may find another system");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_application_is_deregistered_again_until_it_is() {
    let world = world(true, &[("resourcemanager.deregister.timeout", "40 s")]).await;
    world.driver.state().deregistering =
        [Deregistering::Fails, Deregistering::NeverAnswers, Deregistering::Fails].into();
    let status = ApplicationStatus::Failed;
    let before = tokio::time::Instant::now();
    let goodbye = DeregisterApplication { status, diagnostics: None };
    world.rm.ask_within(goodbye, Duration::from_secs(60)).await.expect("done");
    assert_eq!(world.driver.state().deregistered, [status; 4]);
    // The time consists of pauses of 0.5, 1 and 2 s, and a quarter of the whole time for the attempt that is never
    // answered.
    assert_eq!(before.elapsed().as_millis() / 100, 135);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_application_that_cannot_be_deregistered_is_an_error() {
    let world = world(true, &[("resourcemanager.deregister.timeout", "4 s")]).await;
    world.driver.state().deregistering = [Deregistering::Fails; 9].into();
    let status = ApplicationStatus::Succeeded;
    let goodbye = DeregisterApplication { status, diagnostics: None };
    let failed = world.rm.ask_within(goodbye, Duration::from_secs(60)).await;
    let failed = failed.expect_err("it failed").refused().expect("typed");
    let expected =
        "the application was not unregistered within 4000 ms, in 4 attempts: connection refused";
    assert_eq!(failed.to_string(), expected);
}
