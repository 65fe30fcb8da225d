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

/// A slot that a TaskExecutor offers to a job's JobMaster, after the SlotManager has allocated it to the job. The TaskExecutor frees it
/// again if the JobMaster does not accept it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotOffer {
    /// The allocation (claim of one job on one slot) under which the JobMaster may accept the slot.
    pub allocation_id: AllocationId,
    /// Index of the slot in its TaskExecutor, from 0.
    pub index: u32,
    /// The resources that the slot has.
    pub profile: ResourceProfile,
}

/// The state of one task, as its program host reports it to the TaskExecutor (at each change of the state, and about once a second while
/// its counts or metrics change), and the TaskExecutor to the job's JobMaster: at each change of the state, when the task has reached the
/// end of its data, and with its newest counts in the reports that go with heartbeats. Updates may overtake each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStateUpdate {
    /// The execution attempt whose state is reported.
    pub attempt: ExecutionAttemptId,
    /// The state that the attempt is in.
    pub state: ExecutionState,
    /// Reason of the failure; `None` unless the state is FAILED.
    pub cause: Option<FailureCause>,
    /// Counts of records and bytes since the attempt began.
    pub io: TaskIo,
    /// The latest values of the metrics that the functions of the program keep; empty if there are none.
    #[serde(default)]
    pub metrics: Arc<TaskMetrics>,
}

/// Values of the metrics that the program's functions keep in one task, by `OPERATOR.NAME`; the program decides what
/// they count.
pub type TaskMetrics = BTreeMap<String, i64>;

/// Counts of records and bytes of one task since its execution attempt began; they only grow. Another attempt begins with 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TaskIo {
    /// Number of records that the task has received from other tasks; 0 for a source's task, whatever it reads.
    pub records_in: u64,
    /// Number of records that the task has handed to its outputs to other tasks, where they may still wait; counted once for each output
    /// edge, also if the edge broadcasts them. Records between operators of the task's own chain do not count; 0 for a sink's task.
    pub records_out: u64,
    /// Number of bytes received: in serialised form, or an estimate of their memory for records handed over inside one process; plus
    /// 32 for each batch of records or event.
    pub bytes_in: u64,
    /// Number of bytes sent, counted like `bytes_in`, and for each subtask that they go to, unlike `records_out`.
    pub bytes_out: u64,
    /// True if the task has read all its input and has sent all its results; it may still wait for a final checkpoint. Stays true.
    #[serde(default)]
    pub end_of_data: bool,
}

/// Everything about a job as it is now or as it ended: the JobMaster makes it anew for each question and once at the job's end, REST shows
/// it, and the store of ended jobs keeps it. The Dispatcher makes one, without vertices, for a stored job that can never run again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobDetails {
    /// The job graph that the job runs, as it was submitted, or an empty one in its place if the stored graph can't be read; its
    /// parallelisms do not change while the job runs.
    pub graph: Arc<JobGraph>,
    /// State of the job when the details were made, or in which it ended. While the end is not recorded yet, the Dispatcher answers with
    /// the state before it (RUNNING, FAILING or CANCELLING), because another JobManager may have to run the job again.
    pub status: JobStatus,
    /// Unix milliseconds, on the JobManager's clock, of the latest entry into each state. INITIALIZING has `start_ms`; other states that
    /// were not entered under the present JobMaster are missing. Of a stored job that could not be recovered, only FAILED is there.
    pub timestamps: BTreeMap<JobStatus, u64>,
    /// Time at which the Dispatcher that runs or ran the job accepted it, or recovered it from its predecessor, in Unix milliseconds on the
    /// JobManager's clock.
    pub start_ms: u64,
    /// Time at which the job ended for good, in Unix milliseconds; `None` while it lasts or its end is not recorded, and for a
    /// suspended job.
    pub end_ms: Option<u64>,
    /// Time at which the details were made, in Unix milliseconds.
    pub now_ms: u64,
    /// State and counts of the vertices, in the graph's topological order.
    pub vertices: Vec<VertexDetails>,
    /// The failure that ended the job; `None` unless the job is failing or has failed. Failures after which it was restarted are in
    /// `failures`.
    pub cause: Option<FailureCause>,
    /// The failures so far under the present JobMaster, newest first, the one that ended the job included, and checkpoints that the
    /// JobMaster could not read and passed over at its start. Beyond `web.exception-history-size` failures (at least one is kept) the
    /// oldest are dropped.
    pub failures: Vec<FailureRecord>,
    /// Number of failures so far after which the failed part of the job was restarted, under the present JobMaster; 0 again after a change
    /// of the leader.
    pub restarts: u32,
    /// Statistics of the job's checkpoints since the present JobMaster began.
    #[serde(default)]
    pub checkpoints: Arc<CheckpointReport>,
}

/// State of one vertex of a job: its id, and the current attempt of each subtask with its state, times, place and counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VertexDetails {
    /// Id of the vertex in the job graph.
    pub id: JobVertexId,
    /// The current attempt of each of the vertex's subtasks, ordered by subtask index; its length is the vertex's parallelism.
    pub subtasks: Vec<SubtaskDetails>,
}

/// The current attempt of one subtask, as REST shows it: its state and when it entered each, its TaskManager, its counts, and its failure.
/// Earlier attempts are not kept; their failures are in the job's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubtaskDetails {
    /// The id of the subtask's current execution attempt.
    pub attempt: ExecutionAttemptId,
    /// State of the attempt.
    pub state: ExecutionState,
    /// Unix milliseconds, on the JobManager's clock, at which the JobMaster set the attempt to each state or learned of it from the
    /// TaskExecutor; states that were not entered are missing.
    pub timestamps: BTreeMap<ExecutionState, u64>,
    /// TaskManager that the attempt is deployed to; `None` before the deployment.
    pub resource_id: Option<ResourceId>,
    /// Host name of the attempt's TaskManager; `None` before the deployment.
    pub host: Option<String>,
    /// Counts of records and bytes since the attempt began.
    pub io: TaskIo,
    /// The latest values of the metrics that the functions of the program keep; empty if there are none.
    #[serde(default)]
    pub metrics: Arc<TaskMetrics>,
    /// Reason of the failure; `None` unless the attempt failed.
    pub cause: Option<FailureCause>,
}

/// One failure in a job's history, as REST shows it: the failures that led to one restart or to the job's end, or a checkpoint that a new
/// JobMaster could not read and passed over for an older one. Kept by the JobMaster in memory, and with the job's details at its end; a new
/// JobMaster of the job does not know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureRecord {
    /// Time at which the failure became known to the JobMaster, in Unix milliseconds on the JobManager's clock.
    pub at_ms: u64,
    /// Name of the task that failed first, with its subtask as `name (3/8)`; `None` if the failure is of no task.
    pub task: Option<String>,
    /// TaskManager of the failed task; `None` if it is unknown or there is no task.
    pub resource_id: Option<ResourceId>,
    /// The failure that users should look at first: if several came at the same time, one that is not only the
    /// consequence of another.
    pub cause: FailureCause,
    /// Further failures before the restart, one of each cause, at most 16 (later ones are left out); empty in the records of this
    /// list themselves.
    #[serde(default)]
    pub concurrent: Vec<FailureRecord>,
}
