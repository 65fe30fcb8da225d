//! Containers that are taken away for others: what an ApplicationMaster is told before, what it can do about it,
//! and how those end that it keeps. Both schedulers that take some away are asked: one negotiates, the other only
//! announces.

use super::master::{Running, command};
use super::settings::{Settings, conf_dir};
use super::{size, until};
use hadoop::yarn::messages::{
    Container, ContainerId, ContainerSubState, NodeState, PreemptionMessage,
};
use hadoop::yarn::{Ask, ContainerExit, MasterEvent};
use std::path::PathBuf;

const MANAGER: &str = "resourcemanager";
/// How each container ends that is taken away.
const TAKEN: &str = "preempted";

/// Queues are looked at often, and what was asked for is taken away after three seconds.
const NEGOTIATES: &[(&str, &str)] = &[
    ("yarn.resourcemanager.scheduler.monitor.enable", "true"),
    ("yarn.resourcemanager.monitor.capacity.preemption.monitoring_interval", "100"),
    ("yarn.resourcemanager.monitor.capacity.preemption.max_wait_before_kill", "3000"),
    ("yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round", "1.0"),
    ("yarn.resourcemanager.monitor.capacity.preemption.natural_termination_factor", "1.0"),
    ("yarn.resourcemanager.monitor.capacity.preemption.max_ignored_over_capacity", "0.0"),
];

/// Takes all of the cluster's memory, in containers of this size that run.
async fn crowd(master: &mut Running, memory: i64) -> Vec<Container> {
    let nodes = master.application.yarn.nodes(&[NodeState::Running]).await.unwrap();
    let all: i64 = nodes.iter().map(|node| node.capability.as_ref().unwrap().memory()).sum();
    let count = u32::try_from(all / memory).unwrap();
    master.yarn.request(Ask::new(count, size(memory))).unwrap();
    let mut granted = Vec::new();
    while granted.len() < count as usize {
        if let MasterEvent::Allocated { container, .. } = master.event().await {
            master.start(&container, command("exec sleep 600")).await;
            granted.push(*container);
        }
    }
    // A node that hears of the end of a container before it has begun to start it forgets the end, and the room is
    // never free.
    for container in &granted {
        let (node, id) = (container.node_id.clone().unwrap(), container.id.unwrap());
        let token = master.yarn.nm_token(&node).unwrap();
        until("a container that runs", async || {
            let status = master.nodes.status(&node, &token, id).await.unwrap();
            (status.container_sub_state() == ContainerSubState::Running).then_some(())
        })
        .await;
    }
    granted
}

/// Returns the first preemption message; panics if a container ends before it comes.
async fn told(master: &mut Running) -> PreemptionMessage {
    loop {
        match master.event().await {
            MasterEvent::Preemption(message) => return *message,
            MasterEvent::Completed { id, exit, diagnostics } => {
                panic!("{id} ended unasked: {exit:?} {diagnostics}")
            }
            _ => {}
        }
    }
}

/// Checks that CapacityScheduler asks for resources of the size of one container, and returns the container that it names.
fn asked(message: &PreemptionMessage) -> ContainerId {
    assert_eq!(message.strict_contract, None);
    let contract = message.contract.as_ref().unwrap();
    let [resource] = &contract.resource[..] else { panic!("{contract:?}") };
    let resource = resource.resource.as_ref().unwrap();
    // In the smallest containers that there are, as many as have that share of what is scarcest: here one, which has
    // an eighth of the cluster's cores, as the container has of its memory.
    assert_eq!((resource.resource_name(), resource.num_containers()), ("*", 1), "{contract:?}");
    assert_eq!(resource.capability.as_ref().unwrap().memory(), 64, "{contract:?}");
    let [container] = &contract.container[..] else { panic!("{contract:?}") };
    container.id.unwrap()
}

/// The end of the first container that ends.
async fn end(master: &mut Running) -> (ContainerId, ContainerExit, String) {
    loop {
        if let MasterEvent::Completed { id, exit, diagnostics } = master.event().await {
            return (id, exit, diagnostics);
        }
    }
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR, for itself"]
async fn a_container_that_another_queue_has_a_right_to_is_given_back_or_taken() {
    const MEMORY: i64 = 512;
    let settings = Settings::of([MANAGER.to_owned()]);
    settings.set(NEGOTIATES);
    let mut greedy = Running::register().await;
    let mut entitled = Running::register_in("small").await;
    let crowd = crowd(&mut greedy, MEMORY).await;
    let is_one = |id| crowd.iter().any(|container| container.id == Some(id));

    // Given back in time, it does not end as one that was taken.
    let gives = async {
        let given = asked(&told(&mut greedy).await);
        greedy.yarn.release(given);
        (given, end(&mut greedy).await)
    };
    let (first, (given, (ended, exit, diagnostics))) =
        tokio::join!(entitled.allocated(Ask::new(1, size(MEMORY))), gives);
    assert!(is_one(given));
    assert_eq!((ended, exit), (given, ContainerExit::Aborted), "{diagnostics}");
    entitled.start(&first, command("exec sleep 600")).await;

    let keeps = async {
        let kept = asked(&told(&mut greedy).await);
        (kept, end(&mut greedy).await)
    };
    let (second, (kept, (ended, exit, diagnostics))) =
        tokio::join!(entitled.allocated(Ask::new(1, size(MEMORY))), keeps);
    assert!(is_one(kept) && kept != given);
    assert_eq!((ended, exit), (kept, ContainerExit::Preempted), "{diagnostics}");
    assert!(diagnostics.contains(TAKEN) && !exit.is_own_fault(), "{diagnostics}");
    entitled.start(&second, command("true")).await;
    assert_eq!(end(&mut entitled).await.0, second.id.unwrap());

    // The others have not been touched.
    let attempt = crowd[0].id.unwrap().app_attempt_id.unwrap();
    let living = greedy.application.yarn.containers(attempt).await.unwrap();
    assert_eq!(living.len(), crowd.len() - 2);
    entitled.finish().await;
    greedy.finish().await;
    drop(settings);
}

/// The queues of the scheduler that only announces. It is removed when this is dropped.
struct Queues(PathBuf);

impl Queues {
    fn write() -> Self {
        let queues = "<allocations>
            <queue name=\"greedy\"/>
            <queue name=\"entitled\"/>
            <defaultFairSharePreemptionTimeout>1</defaultFairSharePreemptionTimeout>
            <defaultFairSharePreemptionThreshold>1.0</defaultFairSharePreemptionThreshold>
        </allocations>";
        let file = conf_dir().join("fair-scheduler.xml");
        std::fs::write(&file, queues).unwrap();
        Self(file)
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR, for itself"]
async fn a_container_that_is_only_announced_to_be_taken_is_taken() {
    // What this scheduler rounds up to.
    const MEMORY: i64 = 1024;
    let queues = Queues::write();
    let settings = Settings::of([MANAGER.to_owned()]);
    settings.set(&[
        (
            "yarn.resourcemanager.scheduler.class",
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fair.FairScheduler",
        ),
        ("yarn.scheduler.fair.allocation.file", queues.0.to_str().unwrap()),
        ("yarn.scheduler.fair.preemption", "true"),
        ("yarn.scheduler.fair.update-interval-ms", "100"),
        ("yarn.scheduler.fair.waitTimeBeforeKill", "2000"),
    ]);
    let mut greedy = Running::register_in("greedy").await;
    let mut entitled = Running::register_in("entitled").await;
    let crowd = crowd(&mut greedy, MEMORY).await;

    let keeps = async {
        let message = told(&mut greedy).await;
        assert_eq!(message.contract, None);
        let strict = message.strict_contract.unwrap();
        let [container] = &strict.container[..] else { panic!("{strict:?}") };
        // It is said again until then, and nothing else with it.
        let ended = loop {
            match greedy.event().await {
                MasterEvent::Preemption(again) => {
                    assert_eq!(again.strict_contract.as_ref(), Some(&strict));
                }
                MasterEvent::Completed { id, exit, diagnostics } => break (id, exit, diagnostics),
                _ => {}
            }
        };
        (container.id.unwrap(), ended)
    };
    let (container, (announced, (ended, exit, diagnostics))) =
        tokio::join!(entitled.allocated(Ask::new(1, size(MEMORY))), keeps);
    assert!(crowd.iter().any(|container| container.id == Some(announced)));
    assert_eq!((ended, exit), (announced, ContainerExit::Preempted), "{diagnostics}");
    assert!(diagnostics.contains(TAKEN), "{diagnostics}");
    entitled.start(&container, command("true")).await;
    assert_eq!(end(&mut entitled).await.1, ContainerExit::Success);
    entitled.finish().await;
    greedy.finish().await;
    drop((settings, queues));
}
