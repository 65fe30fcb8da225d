//! The ExecutionGraph: every subtask's current attempt, its state, place and counts, in one dense table.
//! It must never decide what happens next: it applies transitions that are legal and refuses the others.
//!
//! A subtask is named by its [`TaskIndex`]: vertices in topological order, subtasks in order within. The
//! table costs about 200 bytes a subtask, so that a JobManager holds tens of thousands of them in a few
//! megabytes.

mod status;
#[cfg(test)]
mod tests;

pub use status::{IllegalTransition, StatusMachine};

use model::job::{SubtaskDetails, TaskIo, TaskMetrics, VertexDetails};
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, FailureCause, InstanceId, JobGraph,
    JobVertexId, ResourceId,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A subtask's index in an [`ExecutionGraph`], from 0: vertices are in topological order, and each vertex's subtasks in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIndex(pub u32);

/// A TaskExecutor as it registered at the JobMaster; after a restart or another registration at a ResourceManager it counts as
/// another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskManager {
    /// Resource id of the TaskExecutor's process, which stays the same when it registers again.
    pub resource_id: ResourceId,
    /// Id of the TaskExecutor's registration, which differs with each one at a ResourceManager.
    pub instance_id: InstanceId,
    /// Host name of the TaskExecutor's node, for users.
    pub host: String,
}

/// The place at which an execution attempt runs: TaskExecutor, slot and program host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The TaskExecutor that runs the attempt.
    pub task_manager: Arc<TaskManager>,
    /// Allocation of the slot that the attempt runs in: the id under which the job holds the slot.
    pub allocation: AllocationId,
    /// The address (`host:port`) at which the attempt's program host exchanges records.
    pub data_address: Arc<str>,
}

/// The current execution attempt of one subtask: its state, place and counts. Earlier attempts are not kept.
#[derive(Debug, Clone)]
pub struct Task {
    /// Number of the current attempt; the first is 0.
    pub attempt: u32,
    /// State of the current attempt, as last reported or as the JobMaster set it (before its deployment, while it is cancelled, or
    /// because it was lost).
    pub state: ExecutionState,
    /// Counts of records and bytes since the attempt began, each the highest that was reported, and whether its data has ended.
    pub io: TaskIo,
    /// The values of the program's metrics that the attempt last reported.
    pub metrics: Arc<TaskMetrics>,
    /// The place of the attempt; `None` before its deployment.
    pub placement: Option<Placement>,
    /// The reason of the failure; `None` unless the attempt failed.
    pub cause: Option<Box<FailureCause>>,
    /// True if the attempt's TaskExecutor has answered its deployment without refusing it.
    pub confirmed: bool,
    /// Reports in a row in which its TaskExecutor did not list it, though it had confirmed it.
    missed: u8,
    /// Unix milliseconds of each state's entry, 0 = never; in the order of [`ExecutionState::ALL`].
    entered: [u64; STATES],
}

const STATES: usize = ExecutionState::ALL.len();

impl Task {
    fn new(attempt: u32, now_ms: u64) -> Self {
        let mut task = Self {
            attempt,
            state: ExecutionState::Created,
            io: TaskIo::default(),
            metrics: Arc::default(),
            placement: None,
            cause: None,
            confirmed: false,
            missed: 0,
            entered: [0; STATES],
        };
        task.enter(ExecutionState::Created, now_ms);
        task
    }

    fn enter(&mut self, state: ExecutionState, now_ms: u64) {
        self.state = state;
        if let Some(slot) = self.entered.get_mut(state as usize) {
            *slot = now_ms.max(1);
        }
    }

    /// Returns the time at which each state was entered, in Unix milliseconds; states that were not entered are missing.
    pub fn timestamps(&self) -> BTreeMap<ExecutionState, u64> {
        let at = |state: ExecutionState| self.entered.get(state as usize).copied().unwrap_or(0);
        ExecutionState::ALL
            .into_iter()
            .filter(|state| at(*state) != 0)
            .map(|state| (state, at(state)))
            .collect()
    }
}

/// Returns true if the state of an attempt may change from `from` to `to`. Once an attempt is DEPLOYING, states may be skipped
/// forwards (reports are batched, and a lost one is made good by the next). CANCELED and FAILED may follow every state that is not
/// terminal. States are never entered again or walked backwards, FINISHED does not follow CANCELING, and nothing follows a terminal
/// state.
pub fn may_follow(from: ExecutionState, to: ExecutionState) -> bool {
    use ExecutionState as S;
    if from.is_terminal() || from == to {
        return false;
    }
    match to {
        S::Created => false,
        S::Scheduled => from == S::Created,
        S::Deploying => from == S::Scheduled,
        S::Initializing => from == S::Deploying,
        S::Running => matches!(from, S::Deploying | S::Initializing),
        S::Finished => matches!(from, S::Deploying | S::Initializing | S::Running),
        S::Canceling => matches!(from, S::Deploying | S::Initializing | S::Running),
        S::Canceled | S::Failed => true,
    }
}

/// All subtasks of a job with their current execution attempts. Decides nothing: applies the changes that its owner, the
/// JobMaster's core, commands.
#[derive(Debug, Clone)]
pub struct ExecutionGraph {
    graph: Arc<JobGraph>,
    id: u64,
    /// First task of each vertex, and the end.
    starts: Vec<u32>,
    by_vertex: BTreeMap<JobVertexId, u32>,
    tasks: Vec<Task>,
    counts: [u32; STATES],
    /// Unix milliseconds of the latest change of any state.
    modified_ms: u64,
    /// State changes that [`ExecutionGraph::take_changes`] has not returned yet; `None` unless they are watched.
    changes: Option<Vec<(ExecutionAttemptId, ExecutionState)>>,
}

impl ExecutionGraph {
    /// Creates the subtasks of a graph that passed [`crate::job_graph::check`], each in its first attempt (number 0) and
    /// CREATED at `now_ms` (Unix milliseconds). `id` becomes part of the attempts' ids and keeps those of different JobMasters
    /// apart.
    pub fn new(graph: Arc<JobGraph>, id: u64, now_ms: u64) -> Self {
        let mut starts = Vec::with_capacity(graph.vertices.len() + 1);
        let mut by_vertex = BTreeMap::new();
        let mut end = 0u32;
        for (place, vertex) in graph.vertices.iter().enumerate() {
            starts.push(end);
            by_vertex.insert(vertex.id, u32::try_from(place).unwrap_or(u32::MAX));
            end = end.saturating_add(vertex.parallelism);
        }
        starts.push(end);
        let tasks = (0..end).map(|_| Task::new(0, now_ms)).collect();
        let count =
            |state: &ExecutionState| if *state == ExecutionState::Created { end } else { 0 };
        let counts = ExecutionState::ALL.each_ref().map(count);
        Self { graph, id, starts, by_vertex, tasks, counts, modified_ms: now_ms, changes: None }
    }

    /// Returns the id that is part of the attempts' ids and keeps this graph apart from those of other JobMasters of the job.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the job graph that the subtasks were created from.
    pub fn graph(&self) -> &Arc<JobGraph> {
        &self.graph
    }

    /// Returns the time of the latest change of any subtask's state, in Unix milliseconds; a new attempt
    /// ([`ExecutionGraph::renew`]) counts from its first change on.
    pub fn modified_ms(&self) -> u64 {
        self.modified_ms
    }

    /// Returns the number of subtasks of all vertices.
    #[expect(clippy::len_without_is_empty, reason = "a graph has a subtask")]
    pub fn len(&self) -> u32 {
        u32::try_from(self.tasks.len()).unwrap_or(u32::MAX)
    }

    /// Returns the current attempt of the subtask at that index; `None` if the graph has fewer subtasks.
    pub fn task(&self, index: TaskIndex) -> Option<&Task> {
        self.tasks.get(index.0 as usize)
    }

    /// Returns the range of the [`TaskIndex`] numbers of the subtasks of the vertex at that place of the topological order;
    /// empty if there is no such vertex.
    pub fn tasks_of(&self, vertex: usize) -> Range<u32> {
        match (self.starts.get(vertex), self.starts.get(vertex + 1)) {
            (Some(start), Some(end)) => *start..*end,
            _ => 0..0,
        }
    }

    /// Returns the place of a vertex in the topological order, from 0; `None` if the graph does not have the vertex.
    pub fn place_of(&self, vertex: JobVertexId) -> Option<usize> {
        self.by_vertex.get(&vertex).map(|place| *place as usize)
    }

    /// Returns the place of the subtask's vertex in the topological order, and the subtask's number within the vertex, both
    /// from 0. The index must be one of this graph.
    pub fn split(&self, index: TaskIndex) -> (usize, u32) {
        let vertex = self.starts.partition_point(|start| *start <= index.0).saturating_sub(1);
        let start = self.starts.get(vertex).copied().unwrap_or(0);
        (vertex, index.0 - start)
    }

    /// Returns the id of a subtask's current attempt; `None` if there is no such subtask.
    pub fn attempt_id(&self, index: TaskIndex) -> Option<ExecutionAttemptId> {
        let task = self.task(index)?;
        let (place, subtask) = self.split(index);
        let vertex = self.graph.vertices.get(place)?.id;
        Some(ExecutionAttemptId { graph: self.id, vertex, subtask, attempt: task.attempt })
    }

    /// Returns the subtask whose *current* attempt this is; `None` for a superseded attempt, one of another graph, or an
    /// unknown one.
    pub fn locate(&self, attempt: &ExecutionAttemptId) -> Option<TaskIndex> {
        if attempt.graph != self.id {
            return None;
        }
        let range = self.tasks_of(self.place_of(attempt.vertex)?);
        let index = range.start.checked_add(attempt.subtask)?;
        let current = self.tasks.get(index as usize).map(|task| task.attempt);
        (index < range.end && current == Some(attempt.attempt)).then_some(TaskIndex(index))
    }

    /// Describes a subtask for users: "name (3/8)", counted from 1; empty if there is no such subtask.
    pub fn describe(&self, index: TaskIndex) -> String {
        let (place, subtask) = self.split(index);
        match self.graph.vertices.get(place) {
            Some(vertex) => format!("{} ({}/{})", vertex.name, subtask + 1, vertex.parallelism),
            None => String::new(),
        }
    }

    /// Moves a subtask's current attempt to a state and notes the time (Unix milliseconds). Returns false, without a change, if
    /// [`may_follow`] forbids the step or there is no such subtask.
    pub fn advance(&mut self, index: TaskIndex, to: ExecutionState, now_ms: u64) -> bool {
        let Some(task) = self.tasks.get_mut(index.0 as usize) else {
            return false;
        };
        if !may_follow(task.state, to) {
            return false;
        }
        let from = task.state;
        task.enter(to, now_ms);
        self.recount(from, to);
        self.modified_ms = self.modified_ms.max(now_ms);
        self.note_change(index, to);
        true
    }

    /// Records the reason why a subtask's current attempt failed; its state does not change. Does nothing if there is no such
    /// subtask.
    pub fn blame(&mut self, index: TaskIndex, cause: FailureCause) {
        if let Some(task) = self.tasks.get_mut(index.0 as usize) {
            task.cause = Some(Box::new(cause));
        }
    }

    /// Records the counts and metrics that a subtask's attempt reports. Reports may overtake each other: each count takes the
    /// higher value, `end_of_data` stays true, and the metrics of an older report are ignored. Does nothing if there is no such subtask.
    pub fn count(&mut self, index: TaskIndex, io: TaskIo, metrics: Arc<TaskMetrics>) {
        if let Some(task) = self.tasks.get_mut(index.0 as usize) {
            let old = task.io;
            if io.records_in >= old.records_in && io.records_out >= old.records_out {
                task.metrics = metrics;
            }
            task.io = TaskIo {
                records_in: old.records_in.max(io.records_in),
                records_out: old.records_out.max(io.records_out),
                bytes_in: old.bytes_in.max(io.bytes_in),
                bytes_out: old.bytes_out.max(io.bytes_out),
                end_of_data: old.end_of_data || io.end_of_data,
            };
        }
    }

    /// Records the place of a subtask's current attempt; its state does not change. Does nothing if there is no such
    /// subtask.
    pub fn place(&mut self, index: TaskIndex, placement: Placement) {
        if let Some(task) = self.tasks.get_mut(index.0 as usize) {
            task.placement = Some(placement);
        }
    }

    /// Records that the subtask's TaskExecutor has answered the deployment of the current attempt without refusing it. From then on
    /// [`ExecutionGraph::listed`] counts the reports that do not list the attempt. Does nothing if there is no such subtask.
    pub fn confirm(&mut self, index: TaskIndex) {
        if let Some(task) = self.tasks.get_mut(index.0 as usize) {
            task.confirmed = true;
        }
    }

    /// Records whether a full report of the subtask's TaskExecutor listed its current attempt. Returns the number of reports in
    /// a row that did not, for an attempt whose deployment was confirmed and that has not ended; otherwise 0.
    pub fn listed(&mut self, index: TaskIndex, listed: bool) -> u8 {
        let Some(task) = self.tasks.get_mut(index.0 as usize) else {
            return 0;
        };
        let live = task.confirmed && !task.state.is_terminal();
        task.missed = if listed || !live { 0 } else { task.missed.saturating_add(1) };
        task.missed
    }

    /// Replaces a subtask's attempt by the next one (number plus 1), in state CREATED, entered at `now_ms` (Unix milliseconds), and
    /// without place, counts, metrics and cause. To be called when the former attempt has ended, which is not checked. Does nothing
    /// if there is no such subtask.
    pub fn renew(&mut self, index: TaskIndex, now_ms: u64) {
        let Some(task) = self.tasks.get_mut(index.0 as usize) else {
            return;
        };
        let from = task.state;
        *task = Task::new(task.attempt.saturating_add(1), now_ms);
        self.recount(from, ExecutionState::Created);
        self.note_change(index, ExecutionState::Created);
    }

    /// Begins to record every change of an attempt's state, for [`ExecutionGraph::take_changes`]. For the simulation; off
    /// by default.
    pub fn watch(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Removes and returns the changes of attempts' states since the last call, in order; always empty unless
    /// [`ExecutionGraph::watch`] was called.
    pub fn take_changes(&mut self) -> Vec<(ExecutionAttemptId, ExecutionState)> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note_change(&mut self, index: TaskIndex, state: ExecutionState) {
        if self.changes.is_some()
            && let Some(attempt) = self.attempt_id(index)
            && let Some(changes) = &mut self.changes
        {
            changes.push((attempt, state));
        }
    }

    fn recount(&mut self, from: ExecutionState, to: ExecutionState) {
        if let Some(n) = self.counts.get_mut(from as usize) {
            debug_assert!(*n > 0, "a subtask leaves {from:?} that was not counted there");
            *n = n.saturating_sub(1);
        }
        if let Some(n) = self.counts.get_mut(to as usize) {
            *n += 1;
        }
    }

    /// Returns the number of subtasks whose current attempt is in that state.
    pub fn in_state(&self, state: ExecutionState) -> u32 {
        self.counts.get(state as usize).copied().unwrap_or(0)
    }

    /// Returns true if every subtask is FINISHED.
    pub fn all_finished(&self) -> bool {
        self.in_state(ExecutionState::Finished) == self.len()
    }

    /// Returns true if the current attempt of every subtask is FINISHED, CANCELED or FAILED.
    pub fn all_ended(&self) -> bool {
        let ended = self.in_state(ExecutionState::Finished)
            + self.in_state(ExecutionState::Canceled)
            + self.in_state(ExecutionState::Failed);
        ended == self.len()
    }

    /// Returns the number of subtasks in each state; states without a subtask are left out.
    pub fn states(&self) -> BTreeMap<ExecutionState, u32> {
        ExecutionState::ALL
            .into_iter()
            .map(|state| (state, self.in_state(state)))
            .filter(|(_, n)| *n > 0)
            .collect()
    }

    /// Returns every vertex with the current attempt of every subtask (id, state and its times, place, counts, metrics, failure), as REST
    /// shows them.
    pub fn details(&self) -> Vec<VertexDetails> {
        let vertices = self.graph.vertices.iter().enumerate();
        vertices
            .map(|(place, vertex)| VertexDetails {
                id: vertex.id,
                subtasks: self.tasks_of(place).filter_map(|i| self.subtask(TaskIndex(i))).collect(),
            })
            .collect()
    }

    fn subtask(&self, index: TaskIndex) -> Option<SubtaskDetails> {
        let task = self.task(index)?;
        let task_manager = task.placement.as_ref().map(|p| &p.task_manager);
        Some(SubtaskDetails {
            attempt: self.attempt_id(index)?,
            state: task.state,
            timestamps: task.timestamps(),
            resource_id: task_manager.map(|known| known.resource_id.clone()),
            host: task_manager.map(|known| known.host.clone()),
            io: task.io,
            metrics: task.metrics.clone(),
            cause: task.cause.as_deref().cloned(),
        })
    }
}
