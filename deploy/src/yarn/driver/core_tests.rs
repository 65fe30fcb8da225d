//! The driver's decisions, one by one, and the laws that hold whatever YARN and the ResourceManager do.

use super::*;
use proptest::prelude::*;

fn size(memory_mib: i64) -> Size {
    Size { memory_mib, vcores: 1, others: BTreeMap::new() }
}

fn id(number: u32) -> ResourceId {
    ResourceId::new(format!("container_1_0001_01_{number:06}"))
}

fn node(host: &str) -> Node {
    Node { host: host.to_owned(), name: format!("{host}:45454") }
}

fn allocated(number: u32, priority: i32) -> Event {
    Event::Allocated { id: id(number), node: node("a"), priority }
}

fn request(core: &mut Core, request: u64, memory: i64) -> Vec<Command> {
    core.step(Event::Request { request, size: size(memory) })
}

fn ask(priority: i32, memory: i64, count: u32) -> Command {
    Command::Ask { priority, size: size(memory), count }
}

fn lost(number: u32, cause: &str) -> Command {
    Command::Report(DriverEvent::Lost { resource_id: id(number), cause: cause.to_owned() })
}

/// A core with the worker `number` of request 1 launched or being launched.
fn with_worker(number: u32, launched: bool) -> Core {
    let mut core = Core::default();
    request(&mut core, 1, 1024);
    core.step(allocated(number, 1));
    if launched {
        assert_eq!(core.step(Event::Launched { id: id(number) }), []);
    }
    core
}

#[test]
fn requests_of_one_size_are_asked_for_together() {
    let mut core = Core::default();
    assert_eq!(request(&mut core, 1, 1024), [ask(1, 1024, 1)]);
    assert_eq!(request(&mut core, 2, 2048), [ask(2, 2048, 1)]);
    assert_eq!(request(&mut core, 3, 1024), [ask(1, 1024, 2)]);
    assert_eq!(core.step(Event::Cancel { request: 1 }), [ask(1, 1024, 1)]);
    assert_eq!(core.step(Event::Cancel { request: 1 }), [], "it is closed");
}

#[test]
fn a_worker_is_reported_before_it_is_launched_and_the_oldest_request_gets_it() {
    let mut core = Core::default();
    request(&mut core, 7, 1024);
    request(&mut core, 8, 1024);
    let started =
        DriverEvent::Started { request: 7, resource_id: id(1), host: "a:45454".to_owned() };
    assert_eq!(
        core.step(allocated(1, 1)),
        [ask(1, 1024, 1), Command::Report(started), Command::Launch { id: id(1), request: 7 }]
    );
    assert_eq!(core.step(allocated(1, 1)), [], "told twice");
}

#[test]
fn a_container_that_nobody_asked_for_is_given_back() {
    let mut core = Core::default();
    let given_back = |number| [Command::GiveBack { id: id(number) }];
    assert_eq!(core.step(allocated(1, 1)), given_back(1), "no such size");
    request(&mut core, 1, 1024);
    assert_eq!(core.step(allocated(2, 0)), given_back(2));
    assert_eq!(core.step(allocated(3, 2)), given_back(3));
    core.step(Event::Cancel { request: 1 });
    assert_eq!(core.step(allocated(4, 1)), given_back(4), "granted before YARN heard of it");
    assert_eq!(core.step(Event::Completed { id: id(4), cause: String::new() }), []);
}

#[test]
fn a_failed_launch_is_a_lost_worker_whose_container_is_stopped_all_the_same() {
    let mut core = with_worker(1, false);
    let failed = Event::LaunchFailed { id: id(1), cause: "no disk".to_owned() };
    assert_eq!(core.step(failed.clone()), [Command::Stop { id: id(1) }, lost(1, "no disk")]);
    assert_eq!(core.step(failed), []);
    assert_eq!(core.workers(), []);
    let ended = Event::Completed { id: id(1), cause: "released".to_owned() };
    assert_eq!(core.step(ended), [], "its loss was reported");
}

#[test]
fn a_release_waits_until_the_node_has_answered() {
    let mut core = with_worker(1, false);
    assert_eq!(core.step(Event::Release { id: id(1) }), []);
    assert_eq!(core.workers(), [], "it is not for the next ResourceManager");
    assert_eq!(core.step(Event::Launched { id: id(1) }), [Command::Stop { id: id(1) }]);
    assert_eq!(core.step(Event::Release { id: id(1) }), []);
    let ended = Event::Completed { id: id(1), cause: "killed".to_owned() };
    assert_eq!(core.step(ended), [lost(1, "killed")]);
    assert_eq!(core.step(Event::Release { id: id(1) }), [], "it has ended");

    let mut core = with_worker(1, true);
    assert_eq!(core.step(Event::Release { id: id(1) }), [Command::Stop { id: id(1) }]);
}

#[test]
fn a_container_that_its_node_accepts_after_its_end_is_stopped() {
    let mut core = with_worker(1, false);
    let ended = Event::Completed { id: id(1), cause: "expired".to_owned() };
    assert_eq!(core.step(ended), [lost(1, "expired")]);
    assert_eq!(core.step(Event::Release { id: id(1) }), []);
    assert_eq!(core.step(Event::Launched { id: id(1) }), [Command::Stop { id: id(1) }]);
    assert!(!core.knows(&id(1)));
}

#[test]
fn nodes_are_blocked_by_the_names_that_yarn_has_for_them_and_only_as_long() {
    let mut core = with_worker(1, true);
    let avoid = |core: &mut Core, hosts: &[&str]| {
        core.step(Event::Avoid { hosts: hosts.iter().map(|h| (*h).to_owned()).collect() })
    };
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    assert_eq!(avoid(&mut core, &["a"]), [Command::Block { names: names(&["a", "a:45454"]) }]);
    assert_eq!(
        avoid(&mut core, &["a:45454", "b"]),
        [Command::Block { names: names(&["b"]) }, Command::Unblock { names: names(&["a"]) }]
    );
    // A node of a host that is avoided becomes known.
    let granted = Event::Allocated { id: id(2), node: node("b"), priority: 1 };
    assert_eq!(core.step(granted)[0], Command::Block { names: names(&["b:45454"]) });
    assert_eq!(
        avoid(&mut core, &[]),
        [Command::Unblock { names: names(&["a:45454", "b", "b:45454"]) }]
    );
}

#[test]
fn a_size_that_yarn_refuses_is_never_met() {
    let mut core = Core::default();
    request(&mut core, 1, 1 << 20);
    request(&mut core, 2, 1 << 20);
    request(&mut core, 3, 64);
    let never =
        |request| Command::Report(DriverEvent::NeverMet { request, cause: "too large".to_owned() });
    let refused = Event::Refused { priority: 1, cause: "too large".to_owned() };
    assert_eq!(core.step(refused), [never(1), never(2)]);
    assert_eq!(request(&mut core, 4, 1 << 20), [ask(1, 1 << 20, 1)], "asked anew");
}

#[test]
fn the_next_resource_manager_takes_the_workers_over_and_no_request() {
    let mut core = with_worker(1, true);
    request(&mut core, 2, 1024);
    core.step(Event::Avoid { hosts: vec!["z".to_owned()] });
    assert_eq!(
        core.step(Event::Detached),
        [ask(1, 1024, 0), Command::Unblock { names: vec!["z".to_owned()] }]
    );
    let host = "a:45454".to_owned();
    assert_eq!(core.workers(), [RecoveredWorker { resource_id: id(1), host }]);
    assert_eq!(core.step(allocated(2, 1)), [Command::GiveBack { id: id(2) }]);
}

#[test]
fn workers_of_an_earlier_attempt_are_reported_once() {
    let mut core = Core::default();
    let found = Event::Recovered { id: id(9), node: node("a") };
    assert!(matches!(
        core.step(found.clone())[..],
        [Command::Report(DriverEvent::Recovered { .. })]
    ));
    assert_eq!(core.step(found), []);
    assert_eq!(core.step(Event::Release { id: id(9) }), [Command::Stop { id: id(9) }]);
}

/// The observed history of each container and request.
#[derive(Debug, Default)]
struct Seen {
    allocated: BTreeSet<ResourceId>,
    given_back: BTreeSet<ResourceId>,
    launched: BTreeMap<ResourceId, u64>,
    stopped: BTreeSet<ResourceId>,
    started: BTreeSet<ResourceId>,
    lost: BTreeSet<ResourceId>,
    met: BTreeSet<u64>,
    /// Number of containers wanted at each priority, as last requested from YARN.
    asked: BTreeMap<i32, u32>,
}

impl Seen {
    fn take(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Ask { priority, count, .. } => {
                    self.asked.insert(priority, count);
                }
                Command::GiveBack { id } => {
                    assert!(!self.launched.contains_key(&id), "{id} is launched and given back");
                    assert!(self.given_back.insert(id), "given back twice");
                }
                Command::Launch { id, request } => {
                    assert!(self.started.contains(&id), "{id} is launched before it is reported");
                    assert!(!self.given_back.contains(&id), "{id} is given back and launched");
                    assert!(self.met.insert(request), "two containers for request {request}");
                    assert!(self.launched.insert(id, request).is_none(), "launched twice");
                }
                Command::Stop { id } => assert!(self.stopped.insert(id), "stopped twice"),
                Command::Report(DriverEvent::Started { resource_id, .. }) => {
                    assert!(self.started.insert(resource_id), "started twice");
                }
                Command::Report(DriverEvent::Lost { resource_id, .. }) => {
                    assert!(self.started.contains(&resource_id), "{resource_id} never started");
                    assert!(self.lost.insert(resource_id), "lost twice");
                }
                Command::Report(_) | Command::Block { .. } | Command::Unblock { .. } => {}
            }
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let number = || (0_u32..12).prop_map(id);
    prop_oneof![
        4 => (0_u64..40, 1_i64..4).prop_map(|(request, memory)| Event::Request {
            request,
            size: size(memory)
        }),
        1 => (0_u64..40).prop_map(|request| Event::Cancel { request }),
        5 => (number(), 0_i32..5).prop_map(|(id, priority)| Event::Allocated {
            id,
            node: node("a"),
            priority
        }),
        2 => number().prop_map(|id| Event::Release { id }),
        3 => number().prop_map(|id| Event::Launched { id }),
        2 => number().prop_map(|id| Event::LaunchFailed { id, cause: String::new() }),
        2 => number().prop_map(|id| Event::Completed { id, cause: String::new() }),
        1 => Just(Event::Detached),
    ]
}

proptest! {
    #[test]
    fn nothing_leaks_and_nothing_is_given_twice(events in proptest::collection::vec(any_event(), 0..200)) {
        let mut core = Core::default();
        let mut seen = Seen::default();
        let mut requested = BTreeSet::new();
        // Containers whose launch was answered, and containers that YARN has reported as ended:
        // YARN reports each once.
        let (mut answered, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for event in events {
            match &event {
                // The ResourceManager names no request twice.
                Event::Request { request, .. } if !requested.insert(*request) => continue,
                // YARN has an id for one container.
                Event::Allocated { id, .. } if !seen.allocated.insert(id.clone()) => continue,
                Event::Launched { id } | Event::LaunchFailed { id, .. }
                    if !seen.launched.contains_key(id) || !answered.insert(id.clone()) => continue,
                Event::Completed { id, .. }
                    if !seen.allocated.contains(id) || !ended.insert(id.clone()) => continue,
                _ => {}
            }
            seen.take(core.step(event));
        }
        // Every container was launched or given back.
        for id in &seen.allocated {
            prop_assert!(seen.launched.contains_key(id) != seen.given_back.contains(id));
        }
        // All launches are answered, all workers are released, all containers end.
        for id in seen.launched.keys().cloned().collect::<Vec<_>>() {
            if answered.insert(id.clone()) {
                seen.take(core.step(Event::Launched { id: id.clone() }));
            }
            seen.take(core.step(Event::Release { id: id.clone() }));
            prop_assert!(seen.stopped.contains(&id) || ended.contains(&id), "{id} leaks");
            if ended.insert(id.clone()) {
                seen.take(core.step(Event::Completed { id, cause: String::new() }));
            }
        }
        prop_assert_eq!(&seen.started, &seen.lost);
        prop_assert!(core.workers.is_empty());
        // YARN was last asked for what is wanted now.
        for (priority, count) in &seen.asked {
            let open = core.open.get(priority).map_or(0, BTreeSet::len);
            prop_assert_eq!(usize::try_from(*count).unwrap(), open);
        }
        let open: usize = core.open.values().map(BTreeSet::len).sum();
        prop_assert_eq!(core.requests.len(), open);
    }
}
