mod drivers;
mod jobs;

use super::pool::RecoveredWorker;
use super::*;
use crate::testing::{picked, s, session, tm_name as tm};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn spec() -> WorkerResourceSpec {
    WorkerResourceSpec { slots: 2, ..Default::default() }
}
fn of(pool: Option<PoolSettings>, mutation: Mutation) -> ResourceManager {
    ResourceManager::new(Settings { pool, job_timeout: s(300), seed: 4, mutation })
}
fn passive() -> ResourceManager {
    of(None, Mutation::None)
}
fn pool_settings() -> PoolSettings {
    PoolSettings {
        retry_interval: s(3),
        max_failures_per_minute: 10.0,
        registration_timeout: s(120),
        late_grace: s(60),
        worker: spec(),
    }
}
fn active() -> ResourceManager {
    of(Some(pool_settings()), Mutation::None)
}
fn missing(n: u32) -> BTreeMap<WorkerResourceSpec, u32> {
    if n == 0 { BTreeMap::new() } else { BTreeMap::from([(spec(), n)]) }
}
/// An active one that was told at once that so many TaskManagers are missing.
fn needing(n: u32) -> ResourceManager {
    let mut rm = active();
    rm.need(s(0), 0, missing(n));
    rm
}
fn requested(commands: &[Command]) -> Vec<u64> {
    picked!(commands, Command::RequestWorker { request, .. } => *request)
}
fn started(request: u64, n: u32) -> DriverEvent {
    DriverEvent::Started { request, resource_id: tm(n), host: format!("host{n}") }
}
fn recovered(all: &[u32]) -> DriverEvent {
    let worker = |n: &u32| RecoveredWorker { resource_id: tm(*n), host: format!("host{n}") };
    DriverEvent::Recovered { workers: all.iter().map(worker).collect() }
}
fn avoided(commands: &[Command]) -> Option<&Vec<String>> {
    picked!(commands, Command::AvoidHosts(hosts) => hosts).into_iter().next()
}
fn failed(request: u64) -> DriverEvent {
    DriverEvent::StartFailed {
        request,
        host: Some("bad".to_owned()),
        cause: "image not found".to_owned(),
    }
}
fn register(rm: &mut ResourceManager, now: Duration, n: u32) -> InstanceId {
    let (id, _) = rm.register(now, &tm(n), format!("host{n}"), spec()).expect("accepted");
    assert_eq!(rm.reported(&tm(n), id), Some(true));
    id
}

#[test]
fn each_registration_is_a_new_incarnation_and_closes_the_earlier_one() {
    let mut rm = passive();
    let first = register(&mut rm, s(0), 1);
    let (second, commands) = rm.register(s(1), &tm(1), "host1".into(), spec()).expect("accepted");
    assert_ne!(first, second);
    let closed = Command::CloseTaskExecutor {
        resource_id: tm(1),
        instance_id: first,
        reported: true,
        cause: "it has registered again".into(),
        terminate: false,
    };
    assert_eq!(commands, [closed]);
    assert!(!rm.is_current(&tm(1), first) && rm.is_current(&tm(1), second));
    assert_eq!(rm.reported(&tm(1), first), None, "not heard any more");
    assert_eq!(rm.disconnect(first, "late".into()), []);
    assert_eq!(rm.reported(&tm(1), second), Some(true));
    assert_eq!(rm.reported(&tm(1), second), Some(false));
}

#[test]
fn an_active_one_refuses_who_was_not_asked_for() {
    let mut rm = active();
    rm.driver(s(0), recovered(&[]));
    let refused = rm.register(s(59), &tm(1), "host1".into(), spec()).unwrap_err();
    assert!(refused.retry, "it may be one that an earlier ResourceManager left");
    let refused = rm.register(s(60), &tm(1), "host1".into(), spec()).unwrap_err();
    assert!(!refused.retry);
    assert!(refused.to_string().contains("tm1 was neither requested"));
    let requests = requested(&rm.need(s(60), 0, missing(1)));
    let refused = rm.register(s(60), &tm(1), "host1".into(), spec()).unwrap_err();
    assert!(refused.retry, "it may be the one whose start was not reported yet");
    rm.driver(s(61), started(requests[0], 1));
    assert!(rm.register(s(61), &tm(1), "host1".into(), spec()).is_ok());
}

#[test]
fn recovered_workers_may_register_and_count() {
    let mut rm = active();
    rm.driver(s(0), recovered(&[1, 2]));
    assert_eq!(requested(&rm.need(s(0), 0, missing(3))).len(), 1);
    assert!(rm.register(s(1), &tm(1), "host1".into(), spec()).is_ok());
    let released = Command::ReleaseWorker { resource_id: tm(2) };
    assert!(rm.tick(s(120)).contains(&released), "the other one never came");
}

#[test]
fn missing_workers_are_requested_once_and_cancelled_when_not_needed() {
    let mut rm = active();
    assert_eq!(requested(&rm.need(s(0), 0, missing(2))), [1, 2]);
    assert_eq!(rm.need(s(1), 0, missing(2)), []);
    rm.driver(s(1), started(1, 1));
    assert_eq!(rm.need(s(1), 0, missing(1)), [Command::CancelRequest { request: 2 }]);
    assert_eq!(rm.need(s(1), 0, missing(0)), [], "what has started may come");
    let late = Command::ReleaseWorker { resource_id: tm(2) };
    assert_eq!(rm.driver(s(2), started(2, 2)), [late], "late");
}

#[test]
fn a_declaration_made_without_the_newest_task_managers_is_not_acted_on() {
    let mut rm = needing(1);
    rm.driver(s(1), started(1, 1));
    register(&mut rm, s(2), 1);
    assert_eq!(rm.need(s(2), 0, missing(1)), [], "made before tm1 was known");
    assert_eq!(rm.need(s(2), 1, missing(0)), []);
    assert_eq!(requested(&rm.need(s(3), 1, missing(1))), [2]);
}

#[test]
fn a_task_manager_between_registration_and_report_still_counts() {
    let mut rm = needing(1);
    rm.driver(s(1), started(1, 1));
    let (id, _) = rm.register(s(2), &tm(1), "host1".into(), spec()).expect("accepted");
    assert_eq!(rm.need(s(2), 0, missing(1)), []);
    assert_eq!(rm.reported(&tm(1), id), Some(true));
}

#[test]
fn a_worker_that_is_started_twice_or_unasked_is_released() {
    let mut rm = needing(1);
    assert_eq!(rm.driver(s(1), started(1, 1)), []);
    assert_eq!(rm.driver(s(1), started(1, 1)), [], "the same report again");
    let other = Command::ReleaseWorker { resource_id: tm(2) };
    assert_eq!(rm.driver(s(1), started(1, 2)), std::slice::from_ref(&other));
    assert_eq!(rm.driver(s(1), started(99, 2)), [other]);
}

#[test]
fn failed_starts_back_off_and_avoid_the_node() {
    let mut rm = needing(1);
    assert_eq!(rm.driver(s(1), failed(1)), [Command::AvoidHosts(vec!["bad".into()])]);
    assert_eq!(rm.last_driver_error(), Some("image not found"));
    assert_eq!(rm.tick(s(3)), []);
    assert_eq!(rm.tick(s(4)), [Command::RequestWorker { request: 2, spec: spec() }]);
    rm.driver(s(5), failed(2));
    assert_eq!(rm.tick(s(10)), []);
    assert_eq!(requested(&rm.tick(s(11))), [3], "6 s: doubled");
    rm.driver(s(11), started(3, 1));
    let id = register(&mut rm, s(12), 1);
    rm.lost(id, "silent".into());
    assert_eq!(requested(&rm.need(s(12), 2, missing(1))), [4], "a success ends the pause");
    rm.driver(s(12), failed(4));
    assert_eq!(requested(&rm.tick(s(15))), [5], "3 s again");
    assert_eq!(rm.driver(s(16), failed(4)), [], "membership_version twice, counted once");
}

#[test]
fn too_many_failures_in_a_minute_wait_for_the_minute_to_pass() {
    let mut settings = pool_settings();
    settings.retry_interval = s(0);
    settings.max_failures_per_minute = 3.0;
    let mut rm = of(Some(settings), Mutation::None);
    rm.need(s(0), 0, missing(1));
    for request in 1..=3 {
        rm.driver(s(request), failed(request));
    }
    assert_eq!(rm.tick(s(60)), [Command::AvoidHosts(vec![])], "with a pause of 0 s at once");
    assert_eq!(requested(&rm.tick(s(61))), [4]);
}

#[test]
fn a_worker_that_never_registers_is_given_up_and_replaced_after_the_pause() {
    let mut rm = needing(1);
    rm.driver(s(0), started(1, 1));
    assert_eq!(rm.tick(s(119)), []);
    let gone = Command::ReleaseWorker { resource_id: tm(1) };
    assert_eq!(rm.tick(s(120)), [gone, Command::AvoidHosts(vec!["host1".into()])]);
    assert_eq!(rm.last_driver_error(), Some("worker tm1 did not register within 120 s"));
    assert_eq!(requested(&rm.tick(s(123))), [2]);
    assert!(rm.register(s(123), &tm(1), "host1".into(), spec()).is_err(), "too late");
}

#[test]
fn a_lost_task_manager_is_closed_and_ended_one_that_left_may_come_back() {
    let mut rm = needing(2);
    rm.driver(s(0), started(1, 1));
    rm.driver(s(0), started(2, 2));
    let (one, two) = (register(&mut rm, s(1), 1), register(&mut rm, s(1), 2));
    let commands = rm.lost(one, "not heard".into());
    assert!(commands.contains(&Command::ReleaseWorker { resource_id: tm(1) }));
    assert!(rm.register(s(2), &tm(1), "host1".into(), spec()).is_err());
    assert_eq!(rm.disconnect(two, "heartbeat".into()).len(), 1);
    assert!(rm.register(s(2), &tm(2), "host2".into(), spec()).is_ok());
}

#[test]
fn a_container_that_exits_closes_its_task_executor_at_once() {
    let mut rm = needing(1);
    rm.driver(s(0), started(1, 1));
    let id = register(&mut rm, s(1), 1);
    let lost = DriverEvent::Lost { resource_id: tm(1), cause: "exit code 137".into() };
    let closed = Command::CloseTaskExecutor {
        resource_id: tm(1),
        instance_id: id,
        reported: true,
        cause: "its worker has ended: exit code 137".into(),
        terminate: true,
    };
    assert!(rm.is_wanted(&tm(1)));
    assert_eq!(rm.driver(s(2), lost), [closed]);
    assert!(!rm.is_wanted(&tm(1)));
}

#[test]
fn an_idle_task_manager_is_told_to_end_and_released() {
    let mut rm = needing(1);
    rm.driver(s(0), started(1, 1));
    let id = register(&mut rm, s(1), 1);
    let commands = rm.release(id, "idle".into());
    assert!(matches!(commands[0], Command::CloseTaskExecutor { terminate: true, .. }));
    assert_eq!(commands[1], Command::ReleaseWorker { resource_id: tm(1) });
    assert!(!rm.is_wanted(&tm(1)));
}

#[test]
fn a_driver_that_is_lost_for_good_ends_the_process() {
    let cause = "application was killed".to_owned();
    let error = DriverEvent::Error { cause: cause.clone() };
    assert_eq!(active().driver(s(0), error), [Command::Fatal(cause)]);
}

#[derive(Debug, Clone)]
enum Op {
    Need(u32),
    Start(usize, u32),
    /// Starts a worker for a request that was cancelled or has failed.
    StartLate(usize, u32),
    Fail(usize),
    Register(u32),
    Lose(u32),
    Exit(u32),
    Wait(u64),
}

fn an_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0u32..5).prop_map(Op::Need),
        (any::<usize>(), 0u32..8).prop_map(|(i, n)| Op::Start(i, n)),
        (any::<usize>(), 0u32..8).prop_map(|(i, n)| Op::StartLate(i, n)),
        any::<usize>().prop_map(Op::Fail),
        (0u32..8).prop_map(Op::Register),
        (0u32..8).prop_map(Op::Lose),
        (0u32..8).prop_map(Op::Exit),
        (0u64..200).prop_map(Op::Wait),
    ]
}

proptest! {
    /// Under any order of events: what is under way never exceeds what is missing when it is requested, a
    /// request has one name, and nothing is requested within the pause after a failure.
    #[test]
    fn never_more_workers_than_declared(ops in proptest::collection::vec(an_op(), 1..100)) {
        let mut rm = active();
        let (mut now, mut wanted) = (s(0), 0_u32);
        let mut open: Vec<u64> = Vec::new();
        let mut given_up: Vec<u64> = Vec::new();
        let mut starting: BTreeSet<u32> = BTreeSet::new();
        let mut names: BTreeSet<u64> = BTreeSet::new();
        let mut failed_at = None;
        for op in ops {
            let mut registered = None;
            let commands = match op {
                Op::Need(n) => { wanted = n; rm.need(now, rm.membership_version, missing(n)) }
                Op::Start(i, n) if !open.is_empty() => {
                    let request = open.remove(i % open.len());
                    let new = !starting.contains(&n) && rm.pool.as_ref().is_some_and(|p| !p.is_ours(&tm(n)));
                    if new { starting.insert(n); }
                    rm.driver(now, started(request, n))
                }
                Op::StartLate(i, n) if !given_up.is_empty() => {
                    let request = given_up.remove(i % given_up.len());
                    let new = !starting.contains(&n) && rm.pool.as_ref().is_some_and(|p| !p.is_ours(&tm(n)));
                    let commands = rm.driver(now, started(request, n));
                    if new && !commands.contains(&Command::ReleaseWorker { resource_id: tm(n) }) {
                        starting.insert(n);
                        prop_assert!(starting.len() <= wanted as usize, "taken without need");
                    }
                    commands
                }
                Op::Fail(i) if !open.is_empty() => {
                    failed_at = Some(now);
                    let request = open.remove(i % open.len());
                    given_up.push(request);
                    rm.driver(now, failed(request))
                }
                Op::Register(n) => {
                    if let Ok((id, commands)) = rm.register(now, &tm(n), "h".into(), spec()) {
                        if starting.remove(&n) {
                            // A late worker may register when no more are wanted.
                            wanted -= u32::from(wanted > 0);
                            failed_at = None;
                        }
                        rm.reported(&tm(n), id);
                        registered = Some(rm.membership_version);
                        commands
                    } else { vec![] }
                }
                Op::Lose(n) => match rm.registered.get(&tm(n)).map(|w| w.instance_id) {
                    Some(id) => rm.lost(id, "x".into()),
                    None => vec![],
                },
                Op::Exit(n) => {
                    if starting.remove(&n) { failed_at = Some(now); }
                    rm.driver(now, DriverEvent::Lost { resource_id: tm(n), cause: "x".into() })
                }
                Op::Wait(seconds) => {
                    now += s(seconds);
                    rm.tick(now)
                }
                _ => vec![],
            };
            let mut commands = commands;
            if let Some(seen) = registered {
                commands.extend(rm.need(now, seen, missing(wanted)));
            }
            rm.check();
            let before = open.len() + starting.len();
            for command in &commands {
                match command {
                    Command::RequestWorker { request, .. } => {
                        prop_assert!(names.insert(*request));
                        open.push(*request);
                    }
                    Command::CancelRequest { request } => {
                        open.retain(|r| r != request);
                        given_up.push(*request);
                    }
                    Command::ReleaseWorker { resource_id } => {
                        let n: u32 = resource_id.0.split_at(2).1.parse().expect("a number");
                        if starting.remove(&n) { failed_at = Some(now); }
                    }
                    _ => {}
                }
            }
            let requested = requested(&commands).len();
            if requested > 0 {
                prop_assert!(open.len() + starting.len() <= wanted as usize, "{} {:?} > {}", before, starting, wanted);
                if let Some(at) = failed_at { prop_assert!(now >= at + s(3)); }
            }
        }
    }
}
