//! Selects the state of a checkpoint that each subtask gets, and puts a checkpoint together from the parts of subtasks. It trusts
//! that the checkpoint fits the graph: `compatible` has checked it.

use super::Checkpoints;
use crate::execution_graph::{ExecutionGraph, TaskIndex};
use model::graph::{GraphNode, StateDeclaration};
use model::{
    CheckpointMetadata, JobGraph, JobVertex, OperatorId, OperatorState, OperatorSubtaskState,
    RestoredCheckpoint, StateHandle, StatePart, SubtaskSnapshot, owned_key_groups,
};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Checkpoints {
    /// Records the complete checkpoint that the job continues from. Must be called before the first checkpoint begins; the
    /// numbers of new checkpoints continue after it, and leave out the next one if it is the job's own. `from` is the URI of the snapshot if it is not a checkpoint of this job,
    /// else `None`. Counts as a restore in the report.
    pub fn restore(
        &mut self,
        now_unix_ms: u64,
        restored: Arc<CheckpointMetadata>,
        from: Option<String>,
    ) {
        match from {
            Some(_) => self.go_on_after(restored.checkpoint),
            None => self.go_on_after_complete(restored.checkpoint),
        }
        self.started_from = from.map(|uri| (restored.checkpoint, uri));
        self.complete.push_back(restored);
        self.note_restored(now_unix_ms);
    }

    /// Returns the newest complete checkpoint if it is the snapshot that the job was started from (a savepoint or a
    /// retained checkpoint); also after a change of the JobMaster. `None` once a checkpoint of the job's own is complete,
    /// or if the job was not started from a snapshot. Savepoints that the job takes do not count as checkpoints here, but that of a stop
    /// does.
    pub fn started_from_latest(&self) -> Option<&Arc<CheckpointMetadata>> {
        let (number, _) = self.started_from.as_ref()?;
        self.complete.back().filter(|latest| latest.checkpoint == *number)
    }

    /// Records in the report that subtasks were deployed with the state of the newest complete checkpoint; does nothing if there is none.
    /// Each call counts as one restore, whether or not the subtasks succeed with it.
    pub fn note_restored(&mut self, now_unix_ms: u64) {
        let Some(latest) = self.complete.back() else { return };
        let from = self.started_from.as_ref();
        let from = from.filter(|(checkpoint, _)| *checkpoint == latest.checkpoint);
        self.history.restored(RestoredCheckpoint {
            checkpoint: latest.checkpoint,
            restored_ms: now_unix_ms,
            is_savepoint: from.is_some(),
            // Its folder, without the name of the metadata in it.
            external_path: from.map(|(_, uri)| {
                uri.rsplit_once('/').map_or(uri.as_str(), |(folder, _)| folder).to_owned()
            }),
        });
    }
}

/// Returns true if the vertex is to run with another parallelism than in the snapshot: one of its operators has another number of subtasks
/// there. False if none of its operators is in the snapshot.
pub fn is_rescaled(snapshot: &CheckpointMetadata, graph: &JobGraph, vertex: &JobVertex) -> bool {
    nodes_of(graph, vertex)
        .filter_map(|node| snapshot.operators.get(&node.operator_id))
        .any(|saved| saved.subtasks.len() != vertex.parallelism as usize)
}

/// Makes the metadata of a checkpoint from its number, its times (of the trigger, and at which all parts were there, in Unix milliseconds),
/// the parts of all subtasks and the states of the coordinators. A subtask without a part counts as one without state that has not reached
/// the end of its data. Stores nothing.
pub fn assemble(
    exec: &ExecutionGraph,
    (checkpoint, triggered_ms, completed_ms): (u64, u64, u64),
    mut parts: BTreeMap<TaskIndex, SubtaskSnapshot>,
    mut coordinators: BTreeMap<OperatorId, StateHandle>,
) -> CheckpointMetadata {
    let graph = exec.graph();
    let mut operators = BTreeMap::new();
    for (place, vertex) in graph.vertices.iter().enumerate() {
        for node in nodes_of(graph, vertex) {
            let subtasks = exec.tasks_of(place).map(|task| {
                let Some(part) = parts.get_mut(&TaskIndex(task)) else {
                    return OperatorSubtaskState::default();
                };
                let place = part.operators.iter().position(|(id, _)| *id == node.operator_id);
                let state = place.map(|place| part.operators.swap_remove(place).1);
                OperatorSubtaskState { ended: part.ended, state }
            });
            let state = OperatorState {
                name: node.name.clone(),
                uid: node.uid.clone(),
                max_parallelism: vertex.max_parallelism,
                states: node.states.clone(),
                subtasks: subtasks.collect(),
                coordinator: coordinators.remove(&node.operator_id),
            };
            operators.insert(node.operator_id, state);
        }
    }
    CheckpointMetadata {
        job_id: graph.job_id,
        checkpoint,
        graph: exec.id(),
        triggered_ms,
        completed_ms,
        operators,
    }
}

/// Returns the state that subtask number `subtask` (from 0) of a vertex is restored with: for each of its operators that gets any, the
/// states of the subtasks in the checkpoint that it needs, in their order; an operator that gets none is left out. An operator all of whose
/// state, apart from broadcast state, is keyed gets the state of the same subtask or, with another parallelism, of the subtasks that had
/// some of its key groups. In both cases parts and ranges that have none of its key groups are left out, and the first subtask's state is
/// added if there is broadcast state. Any other operator, also one whose number of key groups has changed, gets the states of all subtasks.
/// The flag is true if the subtask had reached the end of its data (with another parallelism, if all subtasks of its operators had); false
/// if one of its operators is not in the checkpoint.
pub fn restore_of(
    metadata: &CheckpointMetadata,
    graph: &JobGraph,
    vertex: &JobVertex,
    subtask: u32,
) -> (Vec<(OperatorId, Vec<StateHandle>)>, bool) {
    let mut restore = Vec::new();
    let mut ended = !vertex.nodes.is_empty();
    for node in nodes_of(graph, vertex) {
        let Some(state) = metadata.operators.get(&node.operator_id) else {
            ended = false;
            continue;
        };
        let same = state.subtasks.len() == vertex.parallelism as usize;
        let own = state.subtasks.get(subtask as usize).filter(|_| same);
        ended &= match own {
            Some(own) => own.ended,
            None => state.subtasks.iter().all(|former| former.ended),
        };
        let groups_are_same = state.max_parallelism == vertex.max_parallelism;
        let choice = match own {
            _ if !is_keyed(node) || !groups_are_same => Choice::All,
            Some(_) => Choice::Own,
            None => Choice::Overlapping,
        };
        let now = (subtask, vertex.parallelism);
        let former = state.subtasks.iter().enumerate();
        let all_read = |index| index == 0 && node.states.iter().any(is_broadcast);
        let former = former.filter(|(index, _)| all_read(*index) || choice.has(*index, state, now));
        let states = former.filter_map(|(_, former)| former.state.as_ref());
        let own = owned_key_groups(subtask, vertex.parallelism, vertex.max_parallelism);
        let needed = |part: &StatePart| match choice {
            Choice::All => Some(part.state.clone()),
            // With broadcast state, parts of the first subtask are read too.
            Choice::Own | Choice::Overlapping => part.needed(&own),
        };
        let mut handles = Vec::new();
        for state in states {
            match state {
                StateHandle::Parts(parts) => handles.extend(parts.iter().filter_map(needed)),
                whole => handles.push(whole.clone()),
            }
        }
        if !handles.is_empty() {
            restore.push((node.operator_id, handles));
        }
    }
    (restore, ended)
}

/// The former subtasks whose state a subtask gets.
#[derive(Debug, Clone, Copy)]
enum Choice {
    All,
    /// The one of the same index.
    Own,
    /// The former subtasks that owned key groups which the subtask owns now.
    Overlapping,
}

impl Choice {
    /// Returns true for the former subtask `index` if `now`, a subtask and the present parallelism, gets its state.
    fn has(self, index: usize, state: &OperatorState, now: (u32, u32)) -> bool {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let index = count(index);
        match self {
            Self::All => true,
            Self::Own => index == now.0,
            Self::Overlapping => {
                let groups = state.max_parallelism;
                let before = owned_key_groups(index, count(state.subtasks.len()), groups);
                let own = owned_key_groups(now.0, now.1, groups);
                before.start.max(own.start) < before.end.min(own.end)
            }
        }
    }
}

/// Returns the part of one subtask in a checkpoint of the same graph, to be used again in a later checkpoint in which the subtask takes no
/// part. It has no states if the checkpoint has none of it. Its `ended` is true if the subtask had reached the end of its data.
pub fn part_of(
    metadata: &CheckpointMetadata,
    exec: &ExecutionGraph,
    task: TaskIndex,
) -> SubtaskSnapshot {
    let (place, subtask) = exec.split(task);
    let graph = exec.graph();
    let mut part = SubtaskSnapshot { ended: true, ..SubtaskSnapshot::default() };
    for node in graph.vertices.get(place).into_iter().flat_map(|vertex| nodes_of(graph, vertex)) {
        let state = metadata.operators.get(&node.operator_id);
        let state = state.and_then(|state| state.subtasks.get(subtask as usize));
        part.ended &= state.is_some_and(|state| state.ended);
        let handle = state.and_then(|state| state.state.clone());
        part.operators.extend(handle.map(|handle| (node.operator_id, handle)));
    }
    part
}

/// Returns the first operator of a subtask that declares keyed state and has no state in this part of a checkpoint; `None` if there is no
/// such operator.
pub fn lacks_keyed_state<'a>(
    exec: &'a ExecutionGraph,
    task: TaskIndex,
    part: &SubtaskSnapshot,
) -> Option<&'a GraphNode> {
    let (place, _) = exec.split(task);
    let graph = exec.graph();
    let has_state = |node: &GraphNode| part.operators.iter().any(|(id, _)| *id == node.operator_id);
    let mut nodes =
        graph.vertices.get(place).into_iter().flat_map(|vertex| nodes_of(graph, vertex));
    nodes.find(|node| node.states.iter().any(StateDeclaration::is_keyed) && !has_state(node))
}

/// Iterates over the operators whose coordinators have state in the checkpoint, with that state.
pub fn coordinator_state(
    metadata: &CheckpointMetadata,
) -> impl Iterator<Item = (OperatorId, &StateHandle)> {
    let states = metadata.operators.iter();
    states.filter_map(|(id, state)| Some((*id, state.coordinator.as_ref()?)))
}

/// Returns true if all state of an operator belongs to keys, but for what its first subtask writes for all. A former subtask then
/// owned the same key groups as the subtask of that index owns now, if neither number has changed.
fn is_keyed(node: &GraphNode) -> bool {
    let mut own = node.states.iter().filter(|state| !is_broadcast(state)).peekable();
    own.peek().is_some() && own.all(StateDeclaration::is_keyed)
}

fn is_broadcast(state: &StateDeclaration) -> bool {
    state.kind == StateDeclaration::BROADCAST
}

fn nodes_of<'a>(graph: &'a JobGraph, vertex: &'a JobVertex) -> impl Iterator<Item = &'a GraphNode> {
    vertex.nodes.iter().filter_map(|id| graph.nodes.iter().find(|node| node.id == *id))
}
