//! Pipelined regions: connected components of subtasks that exchange data while they run. A subtask that fails takes its region
//! with it. This module must never split what a coordinator serves: a coordinator starts anew with any subtask of its operator, so
//! all of these, and what is connected to them, are one region. Pipelines that exchange nothing are regions of their own, each with
//! its own coordinators.

use crate::execution_graph::{ExecutionGraph, TaskIndex};
use model::ShipStrategy;
use std::collections::{BTreeMap, BTreeSet};

/// A region's index in [`Regions`], from 0, in the order of the regions' first subtasks. A region is a set of subtasks that
/// start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionIndex(pub u32);

/// A pipelined region: subtasks that exchange records while they run, or share a coordinator, so that they are started, restarted and
/// cancelled together. A subtask may finish before the others of its region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// The region's subtasks, ascending.
    pub tasks: Vec<TaskIndex>,
    /// True if some of the region's operators have coordinators (parts that run once per job), which are started before its
    /// tasks.
    pub coordinated: bool,
}

/// All regions of a job (sets of subtasks that start together), in the order of their first subtask. Each subtask is in exactly one.
/// Computed once per JobMaster, from the graph alone.
#[derive(Debug, Clone)]
pub struct Regions {
    regions: Vec<Region>,
    of_task: Vec<u32>,
}

impl Regions {
    /// Divides a job's subtasks into regions: subtasks that are connected by edges are in one region (a forward edge connects
    /// those of the same number only), and so are all subtasks of a vertex with a coordinator.
    pub fn of(exec: &ExecutionGraph) -> Self {
        let coordinated = coordinated_vertices(exec);
        let mut sets = DisjointSets::new(exec.len());
        for vertex in &coordinated {
            let tasks = exec.tasks_of(*vertex);
            let first = tasks.start;
            tasks.for_each(|task| sets.join(first, task));
        }
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
        let served = coordinated.iter().map(|vertex| exec.tasks_of(*vertex).start);
        let served = served.map(|task| sets.root(task)).collect();
        Self::collect(exec.len(), &mut sets, &served)
    }

    fn collect(tasks: u32, sets: &mut DisjointSets, coordinated_roots: &BTreeSet<u32>) -> Self {
        let mut regions: Vec<Region> = Vec::new();
        let mut by_root: BTreeMap<u32, u32> = BTreeMap::new();
        let mut of_task = Vec::with_capacity(tasks as usize);
        for task in 0..tasks {
            let root = sets.root(task);
            let index = *by_root.entry(root).or_insert_with(|| {
                let coordinated = coordinated_roots.contains(&root);
                regions.push(Region { tasks: Vec::new(), coordinated });
                u32::try_from(regions.len() - 1).unwrap_or(u32::MAX)
            });
            of_task.push(index);
            if let Some(region) = regions.get_mut(index as usize) {
                region.tasks.push(TaskIndex(task));
            }
        }
        Self { regions, of_task }
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
}

fn coordinated_vertices(exec: &ExecutionGraph) -> BTreeSet<usize> {
    let graph = exec.graph();
    let nodes: BTreeSet<_> = graph.nodes.iter().filter(|n| n.coordinated).map(|n| n.id).collect();
    let vertices = graph.vertices.iter().enumerate();
    vertices
        .filter(|(_, v)| v.nodes.iter().any(|n| nodes.contains(n)))
        .map(|(place, _)| place)
        .collect()
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
}
