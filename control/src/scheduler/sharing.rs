//! Slot sharing: one subtask of each vertex of a group per slot. Shared slot *i* of a group holds
//! subtask *i* of every vertex of the group with more than *i* subtasks. This module must never put
//! two subtasks of one vertex into one slot.

use crate::execution_graph::{ExecutionGraph, TaskIndex};
use model::{MemorySize, ResourceProfile};
use std::collections::BTreeMap;

/// A slot that the job needs, by its number in the job's [`SlotPlan`], whichever real slot of a TaskExecutor serves it. Several subtasks of
/// different vertices of one slot sharing group share it. The real slot may change when the job restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedSlot(pub u32);

/// A slot sharing group, vertices whose subtasks share slots, with its shared slots. Shared slot `first + i` takes subtask `i`
/// of every vertex of the group that has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotGroup {
    /// Name of the slot sharing group.
    pub name: String,
    /// The profile that each slot of the group must fulfil: the largest amount of each resource that one of its vertices asks
    /// for; 0 of all if none asks, so that any slot will do.
    pub profile: ResourceProfile,
    /// Index of the group's first shared slot in the whole [`SlotPlan`].
    pub first: u32,
    /// Number of the group's slots: the highest parallelism of its vertices.
    pub slots: u32,
    /// The group's vertices, by place in the topological order.
    vertices: Vec<usize>,
}

/// All shared slots that a job needs, numbered from 0, by group. A shared slot stands for one real slot and takes one subtask of each
/// vertex of its group at most. Computed once per JobMaster, from the graph alone; which real slots serve them is not in it.
#[derive(Debug, Clone)]
pub struct SlotPlan {
    groups: Vec<SlotGroup>,
    /// Index of each vertex's group, by place in the topological order.
    of_vertex: Vec<u32>,
    slots: u32,
}

impl SlotPlan {
    /// Plans the shared slots of a job: each group gets as many as the highest parallelism of its vertices. Groups are in the
    /// order of their names.
    pub fn of(exec: &ExecutionGraph) -> Self {
        let graph = exec.graph();
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, vertex) in graph.vertices.iter().enumerate() {
            by_name.entry(&vertex.slot_sharing_group).or_default().push(place);
        }
        let mut of_vertex = vec![0; graph.vertices.len()];
        let mut groups = Vec::new();
        let mut first = 0u32;
        for (name, vertices) in by_name {
            let mut slots = 0;
            let mut profile = ResourceProfile::unknown();
            for place in &vertices {
                let Some(vertex) = graph.vertices.get(*place) else { continue };
                slots = slots.max(vertex.parallelism);
                if let Some(needs) = &vertex.resources {
                    widen(&mut profile, needs);
                }
                if let Some(group) = of_vertex.get_mut(*place) {
                    *group = u32::try_from(groups.len()).unwrap_or(u32::MAX);
                }
            }
            groups.push(SlotGroup { name: name.to_owned(), profile, first, slots, vertices });
            first = first.saturating_add(slots);
        }
        Self { groups, of_vertex, slots: first }
    }

    /// Returns the slot sharing groups, ordered by name.
    pub fn groups(&self) -> &[SlotGroup] {
        &self.groups
    }

    /// Returns the number of shared slots of all groups.
    #[expect(clippy::len_without_is_empty, reason = "a plan has a slot")]
    pub fn len(&self) -> u32 {
        self.slots
    }

    /// Returns the index, in [`SlotPlan::groups`], of a shared slot's group; `None` if there is no such shared slot.
    pub fn group_of(&self, slot: SharedSlot) -> Option<usize> {
        let group = self.groups.partition_point(|g| g.first <= slot.0).checked_sub(1)?;
        (slot.0 < self.slots).then_some(group)
    }

    /// Returns the profile that the real slot which serves `slot` must fulfil; `None` if there is no such shared slot.
    pub fn profile_of(&self, slot: SharedSlot) -> Option<&ResourceProfile> {
        self.groups.get(self.group_of(slot)?).map(|group| &group.profile)
    }

    /// Returns the shared slot that a subtask runs in; `None` if its vertex is not in the plan.
    pub fn slot_of(&self, exec: &ExecutionGraph, task: TaskIndex) -> Option<SharedSlot> {
        let (vertex, subtask) = exec.split(task);
        let group = self.groups.get(*self.of_vertex.get(vertex)? as usize)?;
        Some(SharedSlot(group.first.checked_add(subtask)?))
    }

    /// Iterates over the subtasks that run in a shared slot, in topological order; none if there is no such shared slot.
    pub fn tasks_in<'a>(
        &'a self,
        exec: &'a ExecutionGraph,
        slot: SharedSlot,
    ) -> impl Iterator<Item = TaskIndex> + 'a {
        let group = self.group_of(slot).and_then(|g| self.groups.get(g));
        group.into_iter().flat_map(move |group| {
            debug_assert!(slot.0 >= group.first, "{slot:?} is not of its group");
            let subtask = slot.0.saturating_sub(group.first);
            group.vertices.iter().filter_map(move |vertex| {
                let range = exec.tasks_of(*vertex);
                let task = range.start.checked_add(subtask)?;
                (task < range.end).then_some(TaskIndex(task))
            })
        })
    }
}

/// Makes `profile` serve `needs` too.
fn widen(profile: &mut ResourceProfile, needs: &ResourceProfile) {
    let most = |a: MemorySize, b: MemorySize| a.max(b);
    profile.cpu_millis = profile.cpu_millis.max(needs.cpu_millis);
    profile.task = most(profile.task, needs.task);
    profile.managed = most(profile.managed, needs.managed);
    profile.network = most(profile.network, needs.network);
    for (name, amount) in &needs.extended {
        let entry = profile.extended.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}
