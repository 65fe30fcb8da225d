//! Commands to drivers, and reports of drivers that come late, twice or never.

use super::*;

fn avoid(hosts: &[&str]) -> Command {
    Command::AvoidHosts(hosts.iter().map(|&host| host.into()).collect())
}
fn block_hosts(hosts: &[&str]) -> Command {
    Command::BlockHosts(hosts.iter().map(|&host| host.into()).collect())
}
fn block(rm: &mut ResourceManager, now: u64, node: &str, seconds: u64) -> Vec<Command> {
    rm.block(s(now), node, s(seconds), "disk".into()).expect("there is room").1
}
fn large() -> WorkerResourceSpec {
    WorkerResourceSpec { slots: 9, ..Default::default() }
}
fn released(n: u32) -> Command {
    Command::ReleaseWorker { resource_id: tm(n) }
}

#[test]
fn blocks_end_by_themselves_and_longer_ones_stand() {
    let mut rm = passive();
    block(&mut rm, 0, "a", 10);
    assert_eq!(block(&mut rm, 0, "b", 20), [block_hosts(&["a", "b"])]);
    let (stands, _) = rm.block(s(1), "b", s(1), "rack".into()).expect("there is room");
    assert_eq!(stands, Blocked { until: s(20), cause: "disk".into() });
    assert_eq!(rm.blocked()["b"], stands);
    assert_eq!(rm.tick(s(9)), []);
    assert_eq!(rm.tick(s(10)), [block_hosts(&["b"])]);
    assert_eq!(rm.tick(s(20)), [block_hosts(&[])]);
    assert_eq!(block(&mut rm, 30, "c", u64::MAX), [block_hosts(&["c"])], "for ever");
    assert_eq!(rm.tick(s(1 << 40)), []);
    assert_eq!(rm.unblock(s(1 << 40), "c"), Some(vec![block_hosts(&[])]));
    assert_eq!(rm.unblock(s(1 << 40), "c"), None);
}

#[test]
fn blocked_nodes_are_bounded() {
    let mut rm = passive();
    for n in 0..BLOCKED_MAX {
        block(&mut rm, 0, &format!("n{n}"), 10);
    }
    assert_eq!(rm.block(s(1), "one-more", s(10), "disk".into()), Err(TooManyBlocked));
    assert!(rm.block(s(1), "n7", s(10), "disk".into()).is_ok(), "it is blocked already");
    rm.tick(s(10));
    assert_eq!(block(&mut rm, 10, "one-more", 1), [block_hosts(&["n7", "one-more"])]);
}

#[test]
fn the_driver_is_told_whenever_the_nodes_to_avoid_change_also_when_there_are_none() {
    let mut rm = active();
    assert_eq!(block(&mut rm, 0, "a", 10), [block_hosts(&["a"]), avoid(&["a"])]);
    assert_eq!(block(&mut rm, 1, "a", 19), [block_hosts(&["a"])], "the same node");
    rm.need(s(1), 0, missing(1));
    assert_eq!(rm.driver(s(1), failed(1)), [avoid(&["a", "bad"])]);
    assert_eq!(requested(&rm.tick(s(4))), [2]);
    assert_eq!(rm.driver(s(4), failed(2)), [], "the same node again");
    assert_eq!(avoided(&rm.tick(s(20))), Some(&vec!["bad".to_owned()]));
    assert_eq!(avoided(&rm.tick(s(99))), None);
    let last = rm.tick(s(100));
    assert_eq!(last, [avoid(&[])], "96 s after the last failure there");
}

#[test]
fn the_only_node_of_a_cluster_is_tried_again_after_it_failed() {
    let mut rm = needing(1);
    let commands = rm.driver(s(0), failed(1));
    assert_eq!(commands, [avoid(&["bad"])]);
    assert_eq!(requested(&rm.tick(s(3))), [2]);
    // The request stays open in the external system, which has no node left to start the worker on.
    assert_eq!(rm.tick(s(95)), []);
    assert_eq!(rm.tick(s(96)), [avoid(&[])], "the open request can be met now");
    assert_eq!(rm.driver(s(97), started(2, 1)), []);
    register(&mut rm, s(98), 1);
}

#[test]
fn unblocking_a_node_forgets_that_workers_failed_there() {
    let mut rm = active();
    block(&mut rm, 0, "bad", 1000);
    rm.need(s(0), 0, missing(1));
    rm.driver(s(1), failed(1));
    assert_eq!(rm.unblock(s(2), "bad"), Some(vec![block_hosts(&[]), avoid(&[])]));
}

#[test]
fn a_recovered_worker_counts_as_the_default_until_its_task_manager_says_what_it_is() {
    let mut rm = active();
    rm.driver(s(0), recovered(&[1, 2]));
    rm.driver(s(0), recovered(&[2]));
    assert_eq!(requested(&rm.need(s(0), 0, missing(2))), [], "two, however often they are told");
    let (id, _) = rm.register(s(1), &tm(1), "host1".into(), large()).expect("ours");
    assert_eq!(rm.get(&tm(1)).map(|known| &known.spec), Some(&large()));
    assert_eq!(requested(&rm.need(s(1), 0, missing(2))), [1], "it is not one of the default");
    let lost = DriverEvent::Lost { resource_id: tm(2), cause: "exit code 1".into() };
    let commands = rm.driver(s(2), lost);
    assert_eq!(avoided(&commands), Some(&vec!["host2".to_owned()]), "its node is known");
    // Registering again does not change the spec that the worker counts as.
    rm.disconnect(id, "restarting".into());
    rm.register(s(3), &tm(1), "host1".into(), spec()).expect("ours");
    assert_eq!(rm.get(&tm(1)).map(|known| &known.spec), Some(&large()));
    rm.check();
}

#[test]
fn recovered_workers_are_taken_within_the_grace_period_only() {
    let mut rm = active();
    rm.driver(s(5), recovered(&[]));
    assert_eq!(rm.driver(s(64), recovered(&[1])), []);
    assert_eq!(rm.driver(s(65), recovered(&[1, 2])), [released(2)]);
    assert!(rm.register(s(65), &tm(1), "host1".into(), spec()).is_ok());
}

#[test]
fn a_worker_whose_request_was_cancelled_is_taken_if_one_is_needed_again() {
    let mut rm = needing(1);
    assert_eq!(rm.need(s(1), 0, missing(0)), [Command::CancelRequest { request: 1 }]);
    assert_eq!(requested(&rm.need(s(2), 0, missing(1))), [2]);
    let taken = rm.driver(s(3), started(1, 1));
    assert_eq!(taken, [Command::CancelRequest { request: 2 }], "not counted twice");
    assert_eq!(rm.driver(s(4), started(2, 2)), [released(2)], "one is enough");
    assert!(rm.register(s(5), &tm(1), "host1".into(), spec()).is_ok());
    assert_eq!(rm.take_ended_requests(), [1, 2]);
}

#[test]
fn a_worker_that_starts_after_its_request_failed_is_taken_within_the_grace_period() {
    for (late, commands) in
        [(60, vec![Command::CancelRequest { request: 2 }]), (61, vec![released(1)])]
    {
        let mut rm = needing(1);
        rm.driver(s(1), failed(1));
        assert_eq!(requested(&rm.tick(s(4))), [2]);
        assert_eq!(rm.driver(s(late), started(1, 1)), commands, "{late}");
        rm.check();
    }
}

#[test]
fn a_task_manager_whose_worker_may_yet_be_reported_is_to_ask_again() {
    let mut rm = active();
    rm.driver(s(0), recovered(&[]));
    rm.need(s(100), 0, missing(1));
    rm.need(s(100), 0, missing(0));
    let mut asks = |now| rm.register(s(now), &tm(1), "host1".into(), spec()).unwrap_err().retry;
    assert!(asks(159));
    assert!(!asks(160));
}

#[test]
fn what_can_never_be_met_is_told_and_not_asked_for_again_while_it_is_wanted() {
    let mut rm = active();
    let wanted = BTreeMap::from([(spec(), 1), (large(), 2)]);
    assert_eq!(requested(&rm.need(s(0), 0, wanted.clone())), [1, 2, 3]);
    let cause = "maximum is 8 GiB".to_owned();
    let never = DriverEvent::NeverMet { request: 2, cause: cause.clone() };
    let rest = Command::CancelRequest { request: 3 };
    let told = Command::NeverMet(vec![(large(), cause)]);
    assert_eq!(rm.driver(s(1), never.clone()), [rest, told.clone()]);
    assert_eq!(rm.driver(s(1), never), [], "told twice");
    assert_eq!(rm.tick(s(500)), [], "neither asked for again nor counted as a failure");
    assert_eq!(rm.last_driver_error(), None);
    assert_eq!(rm.need(s(501), 0, wanted.clone()), []);
    // The job that needed these workers is gone; the next job requests them anew.
    assert_eq!(rm.need(s(502), 0, missing(1)), [Command::NeverMet(vec![])]);
    assert_eq!(requested(&rm.need(s(503), 0, wanted)), [4, 5]);
    let again = DriverEvent::NeverMet { request: 4, cause: "maximum is 8 GiB".into() };
    assert!(rm.driver(s(504), again).contains(&told));
    rm.check();
}

#[test]
fn every_request_ends_once_whatever_becomes_of_its_worker() {
    let mut rm = needing(5);
    rm.driver(s(0), started(1, 1));
    rm.driver(s(0), started(2, 2));
    rm.driver(s(0), started(3, 3));
    assert_eq!(rm.take_ended_requests(), []);
    register(&mut rm, s(1), 1);
    rm.driver(s(1), DriverEvent::Lost { resource_id: tm(2), cause: "x".into() });
    rm.driver(s(1), failed(4));
    rm.need(s(2), 1, missing(1));
    assert_eq!(rm.take_ended_requests(), [1, 2, 4, 5]);
    rm.tick(s(120));
    assert_eq!(rm.take_ended_requests(), [3]);
}
