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

/// A slot that a TaskExecutor offers to a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotOffer {
    /// Allocation that the slot is offered under.
    pub allocation_id: AllocationId,
    /// Index of the slot in its TaskExecutor, from 0.
    pub index: u32,
    /// Profile that the slot offers.
    pub profile: ResourceProfile,
}

/// A change of one task's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStateUpdate {
    /// Execution attempt that the update is about.
    pub attempt: ExecutionAttemptId,
    /// The new state.
    pub state: ExecutionState,
    /// Reason of the failure; `None` unless the state is FAILED.
    pub cause: Option<FailureCause>,
    /// Records and bytes so far.
    pub io: TaskIo,
    /// Metrics that the functions of the program report.
    #[serde(default)]
    pub metrics: Arc<TaskMetrics>,
}

/// The metrics that the functions of one task keep, by `OPERATOR.NAME`.
pub type TaskMetrics = BTreeMap<String, i64>;

/// Counts of records and bytes of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskIo {
    /// Number of records received.
    pub records_in: u64,
    /// Number of records sent.
    pub records_out: u64,
    /// Number of bytes received: the encoded size of batches from other processes, and an estimate (the sum
    /// of the records' sizes in memory) for batches that are handed over inside a process.
    pub bytes_in: u64,
    /// Number of bytes sent, counted like `bytes_in`.
    pub bytes_out: u64,
    /// True if all data was read and has left the task.
    #[serde(default)]
    pub end_of_data: bool,
}

/// A job as it is, or as it ended: what REST shows and the archive keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobDetails {
    /// Graph that the job runs.
    pub graph: Arc<JobGraph>,
    /// State of the job.
    pub status: JobStatus,
    /// Unix milliseconds of each state's latest entry.
    pub timestamps: BTreeMap<JobStatus, u64>,
    /// Start in Unix milliseconds.
    pub start_ms: u64,
    /// End in Unix milliseconds; `None` while it lasts.
    pub end_ms: Option<u64>,
    /// Time at which the details were made, in Unix milliseconds.
    pub now_ms: u64,
    /// Vertices in topological order.
    pub vertices: Vec<VertexDetails>,
    /// Root cause of the end, if it failed.
    pub cause: Option<FailureCause>,
    /// Failures so far, newest first, bounded (`web.exception-history-size`).
    pub failures: Vec<FailureRecord>,
    /// Number of restarts so far.
    pub restarts: u32,
    /// Report of the job's checkpoints.
    #[serde(default)]
    pub checkpoints: Arc<CheckpointReport>,
}

/// State and numbers of one vertex.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VertexDetails {
    /// Id of the vertex.
    pub id: JobVertexId,
    /// Subtasks, ordered by index.
    pub subtasks: Vec<SubtaskDetails>,
}

/// The current attempt of one subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubtaskDetails {
    /// Current execution attempt of the subtask.
    pub attempt: ExecutionAttemptId,
    /// State of the attempt.
    pub state: ExecutionState,
    /// Unix milliseconds of each state's entry.
    pub timestamps: BTreeMap<ExecutionState, u64>,
    /// TaskManager that the attempt is assigned to, `None` before that.
    pub resource_id: Option<ResourceId>,
    /// Host name of that TaskManager.
    pub host: Option<String>,
    /// Counts of records and bytes so far.
    pub io: TaskIo,
    /// Metrics that the functions of the program report.
    #[serde(default)]
    pub metrics: Arc<TaskMetrics>,
    /// Reason of the failure; `None` unless the attempt failed.
    pub cause: Option<FailureCause>,
}

/// One failure in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Time of the failure in Unix milliseconds.
    pub at_ms: u64,
    /// Task name with subtask, if one task failed first.
    pub task: Option<String>,
    /// TaskManager of the failed task; `None` if it is unknown.
    pub resource_id: Option<ResourceId>,
    /// Failure that came first.
    pub cause: FailureCause,
    /// Further failures until the restart, one of each cause; their number is bounded.
    #[serde(default)]
    pub concurrent: Vec<FailureRecord>,
}
