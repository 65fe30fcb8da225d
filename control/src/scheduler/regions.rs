//! Pipelined regions: connected components of subtasks that exchange data while they run. A subtask that fails takes its region
//! with it. Regions that share a coordinator are a group: the coordinator's failure takes all of them, and a region may start anew
//! without the others only if the group's coordinators take back what the region's subtasks had of them. This module must never split
//! what exchanges records, or regions with a coordinator of their own from their group.

use crate::execution_graph::{ExecutionGraph, TaskIndex};
use model::graph::{GraphNode, StateDeclaration};
use model::{OperatorId, ShipStrategy};
use std::collections::{BTreeMap, BTreeSet};

/// A region's index in [`Regions`], from 0, in the order of the regions' first subtasks. A region is a set of subtasks that
/// start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub u32);

/// A pipelined region: subtasks that exchange records while they run, so that they are started, restarted and cancelled together. A
/// subtask may finish before the others of its region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The region's subtasks, ascending.
    pub tasks: Vec<TaskIndex>,
    /// The group of regions that it shares coordinators (parts of operators that run once per job) with, which are started before its
    /// tasks; `None` if none of its operators has one.
    pub group: Option<GroupIndex>,
}

/// A group's index in [`Regions`], from 0, in the order of the groups' first regions. A group is a set of regions that share
/// coordinators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupIndex(pub u32);

/// A group: regions whose operators have coordinators in common, directly or by other regions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// The group's regions, ascending.
    pub regions: Vec<RegionIndex>,
    /// The operators whose coordinators serve these regions, and no others.
    pub operators: BTreeSet<OperatorId>,
    /// True if all of these coordinators are enumerators, which take back what a failed subtask had of them. A coordinator of another
    /// kind, such as that of collected results, starts anew with all regions that it serves.
    pub takes_back: bool,
}

/// All regions of a job (sets of subtasks that start together), in the order of their first subtask, and their groups. Each subtask is
/// in exactly one region. Computed once per JobMaster, from the graph alone.
#[derive(Debug, Clone)]
pub struct Regions {
    regions: Vec<Region>,
    of_task: Vec<u32>,
    groups: Vec<Group>,
}

impl Regions {
    /// Divides a job's subtasks into regions: subtasks that are connected by edges are in one region (a forward edge connects
    /// those of the same number only). Regions that have subtasks of one vertex with a coordinator are one group.
    pub fn of(exec: &ExecutionGraph) -> Self {
        let mut sets = DisjointSets::new(exec.len());
        for edge in &exec.graph().edges {
            let (Some(from), Some(to)) = (exec.place_of(edge.from), exec.place_of(edge.to)) else {
                continue;
            };
            let (from, to) = (exec.tasks_of(from), exec.tasks_of(to));
            if edge.ship == ShipStrategy::Forward {
                from.zip(to).for_each(|(a, b)| sets.join(a, b));
            } else {
                let first = from.start;
                from.chain(to).for_each(|task| sets.join(first, task));
            }
        }
        let (of_task, count) = sets.numbered();
        let mut regions = vec![Region { tasks: Vec::new(), group: None }; count];
        for (task, region) in (0..).map(TaskIndex).zip(&of_task) {
            if let Some(region) = regions.get_mut(*region as usize) {
                region.tasks.push(task);
            }
        }
        let mut all = Self { regions, of_task, groups: Vec::new() };
        all.find_groups(exec);
        all
    }

    fn find_groups(&mut self, exec: &ExecutionGraph) {
        let count = u32::try_from(self.regions.len()).unwrap_or(u32::MAX);
        let mut sets = DisjointSets::new(count);
        let of = |tasks: std::ops::Range<u32>| {
            tasks.filter_map(|task| self.of_task.get(task as usize).copied())
        };
        // Each coordinated operator, with the first region that it serves.
        let mut served = Vec::new();
        for (node, tasks) in coordinated(exec) {
            let Some(first) = of(tasks.clone()).next() else { continue };
            of(tasks).for_each(|region| sets.join(first, region));
            served.push((node, first));
        }
        let roots: BTreeSet<u32> = served.iter().map(|(_, region)| sets.root(*region)).collect();
        let numbers: BTreeMap<u32, GroupIndex> =
            roots.into_iter().zip((0..).map(GroupIndex)).collect();
        let empty = Group { takes_back: true, ..Group::default() };
        self.groups = vec![empty; numbers.len()];
        for (node, region) in served {
            let group = numbers.get(&sets.root(region));
            if let Some(group) = group.and_then(|group| self.groups.get_mut(group.0 as usize)) {
                group.operators.insert(node.operator_id);
                group.takes_back &= is_enumerated(node);
            }
        }
        for (index, region) in (0..).zip(&mut self.regions) {
            region.group = numbers.get(&sets.root(index)).copied();
            let group = region.group.and_then(|group| self.groups.get_mut(group.0 as usize));
            group.into_iter().for_each(|group| group.regions.push(RegionIndex(index)));
        }
    }

    /// Returns the region that a subtask belongs to; `None` if there is no such subtask.
    pub fn of_task(&self, task: TaskIndex) -> Option<RegionIndex> {
        self.of_task.get(task.0 as usize).copied().map(RegionIndex)
    }

    /// Returns the region of that index; `None` if there is none.
    pub fn get(&self, index: RegionIndex) -> Option<&Region> {
        self.regions.get(index.0 as usize)
    }

    /// Iterates over all regions, in the order of their first subtask.
    pub fn iter(&self) -> impl Iterator<Item = (RegionIndex, &Region)> {
        (0u32..).map(RegionIndex).zip(&self.regions)
    }

    /// Returns the group of a region; `None` if the region has no coordinators, or there is no such region.
    pub fn group_of(&self, region: RegionIndex) -> Option<GroupIndex> {
        self.get(region)?.group
    }

    /// Returns the group of that index; `None` if there is none.
    pub fn group(&self, index: GroupIndex) -> Option<&Group> {
        self.groups.get(index.0 as usize)
    }

    /// Iterates over all groups, in the order of their first region.
    pub fn groups(&self) -> impl Iterator<Item = (GroupIndex, &Group)> {
        (0u32..).map(GroupIndex).zip(&self.groups)
    }
}

/// Returns the operators that have coordinators, each with its vertex's subtasks.
fn coordinated(exec: &ExecutionGraph) -> Vec<(&GraphNode, std::ops::Range<u32>)> {
    let graph = exec.graph();
    let nodes: BTreeMap<_, _> =
        graph.nodes.iter().filter(|n| n.coordinated).map(|n| (n.id, n)).collect();
    let vertices = graph.vertices.iter().enumerate();
    vertices
        .flat_map(|(place, vertex)| vertex.nodes.iter().map(move |id| (place, id)))
        .filter_map(|(place, id)| Some((*nodes.get(id)?, exec.tasks_of(place))))
        .collect()
}

/// Returns true if the coordinator of the operator is an enumerator.
fn is_enumerated(node: &GraphNode) -> bool {
    node.states.iter().any(|state| state.kind == StateDeclaration::ENUMERATOR)
}

/// Union–find with path halving; the smallest member is the root.
struct DisjointSets(Vec<u32>);

impl DisjointSets {
    fn new(n: u32) -> Self {
        Self((0..n).collect())
    }

    fn parent(&self, of: u32) -> u32 {
        self.0.get(of as usize).copied().unwrap_or(of)
    }

    fn set(&mut self, of: u32, parent: u32) {
        if let Some(slot) = self.0.get_mut(of as usize) {
            *slot = parent;
        }
    }

    fn root(&mut self, mut of: u32) -> u32 {
        loop {
            let parent = self.parent(of);
            if parent == of {
                return of;
            }
            let grandparent = self.parent(parent);
            self.set(of, grandparent);
            of = grandparent;
        }
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.set(a.max(b), a.min(b));
    }

    /// Returns the number of each member's set, in the order of the sets' smallest members, and the number of sets.
    fn numbered(&mut self) -> (Vec<u32>, usize) {
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let number = |member| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(self.root(member)).or_insert(next)
        };
        let all = (0..count).map(number).collect();
        (all, numbers.len())
    }
}
