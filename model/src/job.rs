//! Reports about a running or ended job: task states on their way up, and the whole of a job as
//! people see it.

use crate::{
    checkpoint_stats::CheckpointReport,
    execution::{ExecutionState, FailureCause, JobStatus},
    graph::JobGraph,
    ids::{AllocationId, ExecutionAttemptId, JobVertexId, ResourceId},
    resources::ResourceProfile,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// One offered slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotOffer {
    /// Its allocation.
    pub allocation_id: AllocationId,
    /// Its index.
    pub index: u32,
    /// What it has.
    pub profile: ResourceProfile,
}

/// One task's new state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStateUpdate {
    /// Which attempt.
    pub attempt: ExecutionAttemptId,
    /// The new state.
    pub state: ExecutionState,
    /// Why, for FAILED.
    pub cause: Option<FailureCause>,
    /// Records and bytes so far.
    pub io: TaskIo,
    /// What the functions of the program count.
    #[serde(default)]
    pub metrics: Arc<TaskMetrics>,
}

/// The metrics that the functions of one task keep, by `OPERATOR.NAME`.
pub type TaskMetrics = BTreeMap<String, i64>;

/// Counts of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskIo {
    /// Records that came in.
    pub records_in: u64,
    /// Records that went out.
    pub records_out: u64,
    /// Bytes that came in (serialised size; 0 for typed hand-over).
    pub bytes_in: u64,
    /// Bytes that went out.
    pub bytes_out: u64,
    /// Whether all data was read and has left the task.
    #[serde(default)]
    pub end_of_data: bool,
}

/// A job as it is, or as it ended: what REST shows and the archive keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobDetails {
    /// The graph.
    pub graph: Arc<JobGraph>,
    /// State.
    pub status: JobStatus,
    /// Unix milliseconds of each state's latest entry.
    pub timestamps: BTreeMap<JobStatus, u64>,
    /// Unix milliseconds.
    pub start_ms: u64,
    /// Unix milliseconds.
    pub end_ms: Option<u64>,
    /// When this was made, Unix milliseconds.
    pub now_ms: u64,
    /// By topological order.
    pub vertices: Vec<VertexDetails>,
    /// Root cause of the end, if it failed.
    pub cause: Option<FailureCause>,
    /// Failures so far, newest first, bounded (`web.exception-history-size`).
    pub failures: Vec<FailureRecord>,
    /// Restarts so far.
    pub restarts: u32,
    /// The checkpoints so far.
    #[serde(default)]
    pub checkpoints: Arc<CheckpointReport>,
}

/// One vertex.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VertexDetails {
    /// Id.
    pub id: JobVertexId,
    /// Subtasks in order.
    pub subtasks: Vec<SubtaskDetails>,
}

/// The current attempt of one subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubtaskDetails {
    /// Which attempt.
    pub attempt: ExecutionAttemptId,
    /// State.
    pub state: ExecutionState,
    /// Unix milliseconds of each state's entry.
    pub timestamps: BTreeMap<ExecutionState, u64>,
    /// TaskManager, once assigned.
    pub resource_id: Option<ResourceId>,
    /// Its host name.
    pub host: Option<String>,
    /// Counts so far.
    pub io: TaskIo,
    /// What the functions of the program count.
    #[serde(default)]
    pub metrics: Arc<TaskMetrics>,
    /// Why it failed.
    pub cause: Option<FailureCause>,
}

/// One failure in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Unix milliseconds.
    pub at_ms: u64,
    /// Task name with subtask, if one task failed first.
    pub task: Option<String>,
    /// TaskManager.
    pub resource_id: Option<ResourceId>,
    /// Why.
    pub cause: FailureCause,
    /// What else failed until the restart, one of each cause; bounded.
    #[serde(default)]
    pub concurrent: Vec<FailureRecord>,
}
