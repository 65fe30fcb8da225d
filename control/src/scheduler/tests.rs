use super::*;
use crate::execution_graph::{ExecutionGraph, Placement, TaskIndex};
use crate::slot_pool::SlotPool;
use crate::testing::task_manager;
use model::testing::{coordinate, edge, enumerate, graph, pair, vertex};
use model::{AllocationId, JobGraph, MemorySize, ResourceProfile, ShipStrategy};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn exec(graph: JobGraph) -> ExecutionGraph {
    ExecutionGraph::new(Arc::new(graph), 1, 0)
}

fn region_sizes(exec: &ExecutionGraph) -> Vec<usize> {
    Regions::of(exec).iter().map(|(_, r)| r.tasks.len()).collect()
}

#[test]
fn an_exchange_joins_all_subtasks_of_both_sides() {
    let exec = exec(pair(3, 2, ShipStrategy::Hash));
    assert_eq!(region_sizes(&exec), [5]);
}

#[test]
fn forward_edges_join_pairs_of_subtasks_only() {
    let exec = exec(pair(3, 3, ShipStrategy::Forward));
    assert_eq!(region_sizes(&exec), [2, 2, 2]);
}

#[test]
fn regions_that_share_a_coordinator_are_one_group() {
    let mut graph = graph(
        vec![vertex(1, 3), vertex(2, 3), vertex(3, 2), vertex(4, 1)],
        vec![edge(0, 1, 2, ShipStrategy::Forward)],
    );
    enumerate(&mut graph, 1);
    enumerate(&mut graph, 2);
    coordinate(&mut graph, 3);
    let regions = Regions::of(&exec(graph));
    let shown: Vec<_> =
        regions.iter().map(|(_, r)| (r.tasks.len(), r.group.map(|g| g.0))).collect();
    let (a, b) = (Some(0), Some(1));
    assert_eq!(shown, [(2, a), (2, a), (2, a), (1, b), (1, b), (1, None)]);
    let groups: Vec<_> = regions
        .groups()
        .map(|(_, group)| {
            let operators: Vec<u128> = group.operators.iter().map(|id| id.0).collect();
            (group.regions.len(), operators, group.takes_back)
        })
        .collect();
    assert_eq!(groups, [(3, vec![1, 2], true), (2, vec![3], false)]);
}

#[test]
fn a_slot_holds_one_subtask_of_each_vertex_of_its_group() {
    let mut other = vertex(3, 2);
    other.slot_sharing_group = "other".into();
    other.resources = Some(ResourceProfile { task: MemorySize(5), ..ResourceProfile::default() });
    let exec = exec(graph(vec![vertex(1, 3), vertex(2, 1), other], vec![]));
    let plan = SlotPlan::of(&exec);
    assert_eq!(plan.len(), 5);
    let in_slot = |slot| plan.tasks_in(&exec, SharedSlot(slot)).map(|t| t.0).collect::<Vec<_>>();
    assert_eq!(in_slot(0), [0, 3]);
    assert_eq!(in_slot(2), [2]);
    assert_eq!(in_slot(3), [4]);
    assert_eq!(in_slot(5), Vec::<u32>::new());
    let needs = SlotPool::new(&plan).requirements();
    assert_eq!(
        needs.iter().map(|r| (r.profile.task.0, r.slots)).collect::<Vec<_>>(),
        [(0, 3), (5, 2)]
    );
}

#[test]
fn each_task_executor_gets_one_deployment_and_edges_share_one_table() {
    let mut exec = exec(pair(4, 4, ShipStrategy::Hash));
    let task_managers: Vec<_> = (0..2).map(|n| Arc::new(task_manager(n, 1))).collect();
    let all: Vec<TaskIndex> = (0..8).map(TaskIndex).collect();
    for task in &all {
        let on = (task.0 % 4) as usize / 2;
        exec.place(
            *task,
            Placement {
                task_manager: task_managers[on].clone(),
                allocation: AllocationId(u128::from(task.0 % 4)),
                data_address: Arc::from(format!("host{on}:1")),
            },
        );
    }
    let sent = deployments(&exec, &all);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].tasks.len(), 4);
    assert!(Arc::ptr_eq(&sent[0].producers[0], &sent[1].producers[0]));
    let table = &sent[0].producers[0];
    assert_eq!(table.subtasks, [(0, 0), (0, 0), (0, 1), (0, 1)]);
    assert_eq!(
        table.addresses.iter().map(|a| a.to_string()).collect::<Vec<_>>(),
        ["host0:1", "host1:1"]
    );
}

proptest! {
    #[test]
    fn regions_partition_the_subtasks_and_edges_never_leave_one(
        parallelism in prop::collection::vec(1u32..6, 2..6),
        edges in prop::collection::vec((0usize..5, 0usize..5, 0usize..3), 0..8),
        coordinated in prop::collection::vec(0usize..6, 0..3),
    ) {
        let vertices: Vec<_> = parallelism.iter().enumerate().map(|(i, p)| vertex(i as u32, *p)).collect();
        let ships = [ShipStrategy::Hash, ShipStrategy::Broadcast, ShipStrategy::Forward];
        let mut list = Vec::new();
        for (a, b, ship) in edges {
            let (a, b) = (a % vertices.len(), b % vertices.len());
            let ship = ships[ship];
            let fits = ship != ShipStrategy::Forward || vertices[a].parallelism == vertices[b].parallelism;
            if a < b && fits {
                list.push(edge(list.len() as u32, a as u32, b as u32, ship));
            }
        }
        let mut graph = graph(vertices, list);
        for vertex in &coordinated {
            coordinate(&mut graph, *vertex as u32);
        }
        prop_assert_eq!(crate::job_graph::check(&graph), Ok(()));
        let exec = exec(graph);
        let regions = Regions::of(&exec);
        let mut seen = BTreeSet::new();
        for (index, region) in regions.iter() {
            for task in &region.tasks {
                prop_assert!(seen.insert(*task));
                prop_assert_eq!(regions.of_task(*task), Some(index));
            }
        }
        prop_assert_eq!(seen.len(), exec.len() as usize);
        for edge in &exec.graph().edges {
            let from: Vec<u32> = exec.tasks_of(exec.place_of(edge.from).unwrap()).collect();
            let to: Vec<u32> = exec.tasks_of(exec.place_of(edge.to).unwrap()).collect();
            for (i, a) in from.iter().enumerate() {
                for (j, b) in to.iter().enumerate() {
                    if edge.ship != ShipStrategy::Forward || i == j {
                        prop_assert_eq!(regions.of_task(TaskIndex(*a)), regions.of_task(TaskIndex(*b)));
                    }
                }
            }
        }
        let served: BTreeSet<_> = (0..exec.graph().vertices.len())
            .filter(|place| coordinated.contains(place))
            .flat_map(|place| exec.tasks_of(place).map(move |task| (place, task)))
            .map(|(place, task)| (place, regions.of_task(TaskIndex(task)).unwrap()))
            .collect();
        let groups: BTreeSet<_> =
            served.iter().map(|(place, region)| (place, regions.group_of(*region).unwrap())).collect();
        let places: BTreeSet<_> = served.iter().map(|(place, _)| *place).collect();
        prop_assert_eq!(groups.len(), places.len(), "a coordinator serves one group");
        for (index, region) in regions.iter() {
            prop_assert_eq!(region.group.is_some(), served.iter().any(|(_, of)| *of == index));
        }
        let listed: Vec<_> = regions.groups().flat_map(|(group, of)| of.regions.iter().map(move |r| (*r, group))).collect();
        for (region, group) in &listed {
            prop_assert_eq!(regions.group_of(*region), Some(*group));
        }
        prop_assert_eq!(listed.len(), regions.iter().filter(|(_, r)| r.group.is_some()).count());
    }

    #[test]
    fn every_subtask_has_a_slot_and_no_slot_has_two_of_a_vertex(
        vertices in prop::collection::vec((1u32..6, 0u32..3), 1..6),
    ) {
        let vertices: Vec<_> = vertices.iter().enumerate().map(|(i, (p, group))| {
            let mut v = vertex(i as u32, *p);
            v.slot_sharing_group = format!("g{group}");
            v
        }).collect();
        let exec = exec(graph(vertices, vec![]));
        let plan = SlotPlan::of(&exec);
        let mut seen = BTreeSet::new();
        for slot in 0..plan.len() {
            let mut of = BTreeSet::new();
            for task in plan.tasks_in(&exec, SharedSlot(slot)) {
                prop_assert!(of.insert(exec.split(task).0));
                prop_assert!(seen.insert(task));
                prop_assert_eq!(plan.slot_of(&exec, task), Some(SharedSlot(slot)));
            }
            prop_assert!(!of.is_empty());
        }
        prop_assert_eq!(seen.len(), exec.len() as usize);
        let declared: u32 = SlotPool::new(&plan).requirements().iter().map(|r| r.slots).sum();
        prop_assert_eq!(declared, plan.len());
    }
}
