//! Captures the answers of servers that are short of something: a handler for one more call, room for one more container, a
//! node. The script's cluster is configured to report each shortage within seconds.

use super::client::size;
use super::master::Life;
use super::wire::Wire;
use super::world::{ALICE, Server, Who, World};
use hadoop::rpc::{Advice, CallError, ConnectionError, ErrorCode, Request};
use hadoop::tokens::Token;
use hadoop::yarn::messages::*;
use hadoop::yarn::{Ask, ContainerExit, MasterEvent, Place};
use prost::Message as _;
use std::path::PathBuf;
use std::process::Command;

/// Number of calls at once, more than the server takes: one is carried out, and one may wait.
const CALLS: usize = 24;
/// Memory of each container in MiB; the cluster has room for eight of them.
const MEMORY: i64 = 512;

pub(super) fn all(world: &World) {
    busy(world);
    preempted(world);
    lost(world);
}

/// A server that has too much to do says so and closes. Whoever waits there may ask again.
fn busy(world: &World) {
    let open = |name| world.open(name, &Server::ResourceManager, Who::Simple);
    let mut wire = open("failures/busy");
    let request = GetClusterNodesRequest::default();
    let calls: Vec<i32> = (0..CALLS).map(|_| wire.send("getClusterNodes", &request)).collect();
    let mut refused = Vec::new();
    for id in calls {
        let answer: Result<GetClusterNodesResponse, CallError> = wire.answer(id);
        match answer {
            Ok(answer) => assert_eq!(answer.node_reports.len(), 2),
            Err(error) => {
                let thrown = error.remote().unwrap_or_else(|| panic!("{error:?}"));
                assert!(thrown.is("org.apache.hadoop.ipc.RetriableException"), "{thrown:?}");
                assert_eq!((thrown.code, thrown.fatal), (ErrorCode::RpcServer, true));
                assert_eq!(thrown.advice(), Advice::Retry);
                refused.push(id);
            }
        }
    }
    // The next try has the same number.
    let id = *refused.first().expect("a call too many");
    assert!(matches!(wire.closed, Some(ConnectionError::Fatal(_))), "{:?}", wire.closed);
    drop(wire);
    // What it had taken is in the way of the next one.
    for _ in 0..8 {
        world.pause();
    }
    let mut wire = open("failures/busy-retried");
    let body = request.encode_to_vec().into();
    wire.send_as(Request { retry: 1, ..Request::new(id, "getClusterNodes", body) });
    let answer: GetClusterNodesResponse = wire.answer(id).unwrap();
    assert_eq!(answer.node_reports.len(), 2);
}

/// An application that waits for its ApplicationMaster, and the token for that one.
fn submitted(world: &World, name: &str, queue: &str) -> Token {
    let mut wire = world.open(&format!("client/{name}"), &Server::ResourceManager, Who::Simple);
    let new: GetNewApplicationResponse =
        wire.call("getNewApplication", &GetNewApplicationRequest {}).unwrap();
    let context = ApplicationSubmissionContext {
        application_id: new.application_id,
        queue: Some(queue.to_owned()),
        unmanaged_am: Some(true),
        max_app_attempts: Some(1),
        am_container_spec: Some(ContainerLaunchContext::default()),
        resource: Some(size(64)),
        ..ApplicationSubmissionContext::default()
    };
    let request = SubmitApplicationRequest { application_submission_context: Some(context) };
    let _: SubmitApplicationResponse = wire.call("submitApplication", &request).unwrap();
    let request = GetApplicationReportRequest { application_id: new.application_id };
    loop {
        let report: GetApplicationReportResponse =
            wire.call("getApplicationReport", &request).unwrap();
        let report = report.application_report.unwrap();
        assert_eq!(report.user(), ALICE);
        if let Some(token) = report.am_rm_token {
            return token.into();
        }
        world.pause();
    }
}

fn register<'a>(world: &'a World, name: &str, queue: &str) -> Life<'a> {
    let token = submitted(world, name, queue);
    let (life, events) = Life::register(world, name, token);
    assert!(matches!(events[..], [MasterEvent::Registered(_)]), "{events:?}");
    life
}

/// Two containers of a queue that has all the cluster, for one that has a right to them: the first is given back, the
/// second taken.
fn preempted(world: &World) {
    let mut greedy = register(world, "greedy", "default");
    let mut entitled = register(world, "entitled", "small");
    let crowd = greedy.containers(8, Ask::new(8, size(MEMORY)));
    let is_one = |id| crowd.iter().any(|container| container.id == Some(id));

    entitled.asks(Ask::new(1, size(MEMORY)));
    let given = told(&mut greedy);
    assert!(is_one(given));
    greedy.gives(given);
    greedy.ended(given, ContainerExit::Aborted);
    granted(&mut entitled);

    entitled.asks(Ask::new(1, size(MEMORY)));
    let kept = told(&mut greedy);
    assert!(is_one(kept) && kept != given);
    greedy.ended(kept, ContainerExit::Preempted);
    granted(&mut entitled);
    entitled.finish();
    greedy.finish();
}

/// The container that is wanted, which is the only one.
fn told(life: &mut Life<'_>) -> ContainerId {
    life.until(|event| {
        let MasterEvent::Preemption(message) = event else { panic!("{event:?}") };
        assert_eq!(message.strict_contract, None);
        let contract = message.contract.unwrap();
        let [PreemptionResourceRequest { resource: Some(much) }] = &contract.resource[..] else {
            panic!("{contract:?}")
        };
        assert_eq!((much.resource_name(), much.num_containers()), ("*", 1));
        assert_eq!(much.capability.as_ref().unwrap().memory(), 64);
        let [container] = &contract.container[..] else { panic!("{contract:?}") };
        container.id
    })
}

fn granted(life: &mut Life<'_>) -> Container {
    life.until(|event| match event {
        MasterEvent::Allocated { container, .. } => Some(*container),
        other => panic!("{other:?}"),
    })
}

/// The node that was started last.
const NODE_MANAGER: &str = "nodemanager2";

/// A NodeManager that is killed and started again: what clients and an ApplicationMaster with a container there hear.
fn lost(world: &World) {
    let mut wire = world.open("client/lost", &Server::ResourceManager, Who::Simple);
    let running = nodes(&mut wire, NodeState::Running);
    let node = running.iter().max_by_key(|node| node.node_id.clone()).unwrap();
    let (node, rack) = (node.node_id.clone().unwrap(), node.rack_name().to_owned());
    let mut life = register(world, "bereft", "default");
    let place = Place::OnHost { host: node.to_string(), rack };
    life.asks(Ask { place, ..Ask::new(1, size(MEMORY)) });
    let container = granted(&mut life);
    assert_eq!(container.node_id.as_ref(), Some(&node));

    daemon(world, "kill");
    until(world, &mut wire, |metrics| metrics.num_lost_nms() == 1);
    let [of_lost] = &nodes(&mut wire, NodeState::Lost)[..] else { panic!("one is lost") };
    assert_eq!((of_lost.node_id.as_ref(), of_lost.node_state()), (Some(&node), NodeState::Lost));
    assert_eq!(nodes(&mut wire, NodeState::Running).len(), 1);
    let (mut told, mut ended) = (false, false);
    life.until(|event| {
        match event {
            MasterEvent::Nodes(nodes) => {
                let [one] = &nodes[..] else { panic!("{nodes:?}") };
                assert_eq!(
                    (one.node_id.as_ref(), one.node_state()),
                    (Some(&node), NodeState::Lost)
                );
                told = true;
            }
            MasterEvent::Completed { id, exit, diagnostics } => {
                assert_eq!((Some(id), exit), (container.id, ContainerExit::Aborted));
                assert!(diagnostics.contains("lost"), "{diagnostics}");
                ended = true;
            }
            other => panic!("{other:?}"),
        }
        (told && ended).then_some(())
    });

    daemon(world, "start");
    until(world, &mut wire, |metrics| metrics.num_active_nms() == 2);
    assert!(nodes(&mut wire, NodeState::Lost).is_empty());
    life.until(|event| {
        let MasterEvent::Nodes(nodes) = event else { panic!("{event:?}") };
        let [one] = &nodes[..] else { panic!("{nodes:?}") };
        assert_eq!((one.node_id.as_ref(), one.node_state()), (Some(&node), NodeState::Running));
        Some(())
    });
    life.finish();
}

fn nodes(wire: &mut Wire, state: NodeState) -> Vec<NodeReport> {
    let request = GetClusterNodesRequest { node_states: vec![state.into()] };
    let nodes: GetClusterNodesResponse = wire.call("getClusterNodes", &request).unwrap();
    nodes.node_reports
}

fn until(world: &World, wire: &mut Wire, is_so: impl Fn(&YarnClusterMetrics) -> bool) {
    loop {
        let metrics: GetClusterMetricsResponse =
            wire.call("getClusterMetrics", &GetClusterMetricsRequest {}).unwrap();
        if is_so(&metrics.cluster_metrics.unwrap()) {
            return;
        }
        world.pause();
    }
}

/// Kills or starts the NodeManager, where there is one.
fn daemon(world: &World, what: &str) {
    if world.is_live() {
        let conf = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap());
        let mut told = Command::new(conf.join("../bin/daemon"));
        assert!(told.args([what, NODE_MANAGER]).status().unwrap().success());
    }
}
