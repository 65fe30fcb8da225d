//! Bodies about checkpoints and savepoints.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `GET /jobs/:jobid/checkpoints`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointingStatistics {
    /// Number of checkpoints by outcome.
    pub counts: CheckpointCountsInfo,
    /// Spreads of sizes and durations over the newest complete checkpoints.
    pub summary: CheckpointSummary,
    /// The newest checkpoint of each kind.
    pub latest: LatestCheckpoints,
    /// The newest checkpoints, newest first.
    pub history: Vec<CheckpointInfo>,
}

/// Numbers of checkpoints since the JobMaster started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCountsInfo {
    /// Number of restores from a checkpoint.
    pub restored: u64,
    /// Number of checkpoints that were triggered.
    pub total: u64,
    /// Number of checkpoints in progress.
    pub in_progress: u64,
    /// Number of complete checkpoints.
    pub completed: u64,
    /// Number of failed checkpoints.
    pub failed: u64,
}

/// The spread of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpreadInfo {
    /// Smallest of the values.
    pub min: u64,
    /// Largest of the values.
    pub max: u64,
    /// Arithmetic mean of the values.
    pub avg: u64,
    /// Median of the values.
    pub p50: u64,
    /// 90th percentile of the values.
    pub p90: u64,
    /// 95th percentile of the values.
    pub p95: u64,
    /// 99th percentile of the values.
    pub p99: u64,
    /// 99.9th percentile of the values.
    pub p999: u64,
}

/// Spreads over the newest complete checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSummary {
    /// Bytes that were written; equal to `state_size`, because every checkpoint is whole.
    pub checkpointed_size: SpreadInfo,
    /// Size of the state in bytes.
    pub state_size: SpreadInfo,
    /// Milliseconds from the trigger to the end.
    pub end_to_end_duration: SpreadInfo,
    /// Always 0: no input is buffered for alignment.
    pub alignment_buffered: SpreadInfo,
    /// 0: it is not counted.
    pub processed_data: SpreadInfo,
    /// 0: no data in flight is stored.
    pub persisted_data: SpreadInfo,
}

/// The newest checkpoint of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestCheckpoints {
    /// Newest complete checkpoint that is not a savepoint.
    pub completed: Option<CheckpointInfo>,
    /// Newest complete savepoint.
    pub savepoint: Option<CheckpointInfo>,
    /// Newest failed checkpoint.
    pub failed: Option<CheckpointInfo>,
    /// The one that the job was restored from.
    pub restored: Option<RestoredCheckpointInfo>,
}

/// The checkpoint that a job was restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredCheckpointInfo {
    /// Number of the checkpoint, unique within its job.
    pub id: u64,
    /// Time of the restore, in Unix milliseconds.
    pub restore_timestamp: i64,
    /// True if it is a savepoint.
    pub is_savepoint: bool,
    /// URI of the checkpoint's folder, if it is retained for users.
    pub external_path: Option<String>,
}

/// `GET /jobs/:jobid/checkpoints/details/:checkpointid`, and an entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// `completed`, `failed` or `in_progress`: Flink's clients choose the class by it.
    #[serde(rename = "className")]
    pub class_name: String,
    /// Number of the checkpoint, unique within its job.
    pub id: u64,
    /// `COMPLETED`, `FAILED` or `IN_PROGRESS`.
    pub status: String,
    /// True if it is a savepoint.
    pub is_savepoint: bool,
    /// Format, `CANONICAL` for savepoints; absent otherwise.
    #[serde(rename = "savepointFormat")]
    pub savepoint_format: Option<String>,
    /// Time of the trigger, in Unix milliseconds.
    pub trigger_timestamp: i64,
    /// Time of the last acknowledgement in Unix milliseconds; -1 if there was none.
    pub latest_ack_timestamp: i64,
    /// Bytes written for this checkpoint.
    pub checkpointed_size: u64,
    /// Size of the state in bytes.
    pub state_size: u64,
    /// Time from the trigger to the last acknowledgement, in milliseconds; -1 if there was none.
    pub end_to_end_duration: i64,
    /// Always 0: no input is buffered for alignment.
    pub alignment_buffered: u64,
    /// 0: it is not counted.
    pub processed_data: u64,
    /// 0: no data in flight is stored.
    pub persisted_data: u64,
    /// Number of subtasks that take part.
    pub num_subtasks: u32,
    /// Number of subtasks that have acknowledged.
    pub num_acknowledged_subtasks: u32,
    /// `CHECKPOINT`, `SAVEPOINT` or `SYNC_SAVEPOINT` (the one of `stop`).
    pub checkpoint_type: String,
    /// Parts of the checkpoint by vertex id; empty in the history.
    pub tasks: BTreeMap<String, TaskCheckpointInfo>,
    /// The folder of a complete checkpoint, if users know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_path: Option<String>,
    /// Whether a complete checkpoint is deleted already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded: Option<bool>,
    /// The end of a failed checkpoint in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_timestamp: Option<i64>,
    /// The reason why a checkpoint failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
}

/// The part of one vertex in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCheckpointInfo {
    /// Number of the checkpoint.
    pub id: u64,
    /// State of the checkpoint by Flink's name, such as `COMPLETED`.
    pub status: String,
    /// Time of the last acknowledgement in Unix milliseconds; -1 if there was none.
    pub latest_ack_timestamp: i64,
    /// Bytes written for this checkpoint.
    pub checkpointed_size: u64,
    /// Size of the state in bytes.
    pub state_size: u64,
    /// Time from the trigger to the last acknowledgement, in milliseconds; -1 if there was none.
    pub end_to_end_duration: i64,
    /// Always 0: no input is buffered for alignment.
    pub alignment_buffered: u64,
    /// 0: it is not counted.
    pub processed_data: u64,
    /// 0: no data in flight is stored.
    pub persisted_data: u64,
    /// Number of subtasks that take part.
    pub num_subtasks: u32,
    /// Number of subtasks that have acknowledged.
    pub num_acknowledged_subtasks: u32,
}

/// Answers `GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexCheckpointInfo {
    /// The part of the vertex as a whole.
    #[serde(flatten)]
    pub task: TaskCheckpointInfo,
    /// Spreads over the subtasks that have acknowledged.
    pub summary: VertexCheckpointSummary,
    /// The subtasks, by their indices.
    pub subtasks: Vec<SubtaskCheckpointInfo>,
}

/// Spreads over the subtasks of a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexCheckpointSummary {
    /// Bytes that were written; equal to `state_size`.
    pub checkpointed_size: SpreadInfo,
    /// Bytes of state.
    pub state_size: SpreadInfo,
    /// Milliseconds from the trigger to the acknowledgement.
    pub end_to_end_duration: SpreadInfo,
    /// 0: it is not measured.
    pub checkpoint_duration: SnapshotDuration<SpreadInfo>,
    /// 0: it is not measured.
    pub alignment: AlignmentInfo<SpreadInfo>,
    /// 0: it is not measured.
    pub start_delay: SpreadInfo,
}

/// The time that a snapshot took, by Flink's two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotDuration<T> {
    /// Milliseconds in which the task did nothing else.
    pub sync: T,
    /// Milliseconds beside the task's work.
    #[serde(rename = "async")]
    pub beside: T,
}

/// The alignment of the barriers of several inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentInfo<T> {
    /// Bytes that were buffered; 0, because barriers never overtake records.
    pub buffered: T,
    /// Bytes that were processed meanwhile.
    pub processed: T,
    /// Bytes of data in flight that were stored; 0.
    pub persisted: T,
    /// Milliseconds from the first barrier to the last one.
    pub duration: T,
}

/// The part of one subtask in a checkpoint. Flink's clients choose the class by `className`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "className", rename_all = "snake_case")]
pub enum SubtaskCheckpointInfo {
    /// The part is there.
    Completed(AcknowledgedInfo),
    /// The part is missing.
    Pending {
        /// The index of the subtask.
        index: u32,
        /// Always the text `pending_or_failed`.
        status: String,
    },
}

/// The part of a subtask that has acknowledged a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedInfo {
    /// The index of the subtask.
    pub index: u32,
    /// Always the text `completed`.
    pub status: String,
    /// Unix milliseconds; the trigger's, if the part comes from the checkpoint before.
    pub ack_timestamp: i64,
    /// Milliseconds from the trigger to the acknowledgement.
    pub end_to_end_duration: i64,
    /// Bytes that were written.
    pub checkpointed_size: u64,
    /// Bytes of state.
    pub state_size: u64,
    /// -1: it is not measured.
    pub checkpoint: SnapshotDuration<i64>,
    /// The duration is -1, because it is not measured.
    pub alignment: AlignmentInfo<i64>,
    /// -1: it is not measured.
    pub start_delay: i64,
    /// `false`: barriers never overtake records.
    pub unaligned_checkpoint: bool,
    /// Always `false`: a subtask's part is shown once it is complete.
    pub aborted: bool,
}

/// Body of `POST /jobs/:jobid/checkpoints`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointBody {
    /// `CONFIGURED`, `FULL` or `INCREMENTAL`, as Flink's clients send it; every checkpoint is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_type: Option<String>,
    /// The id of the operation; absent: drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
}

/// Answers `GET /jobs/:jobid/checkpoints/:triggerid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredCheckpointInfo {
    /// `IN_PROGRESS` or `COMPLETED`; a failed operation is completed too.
    pub status: super::QueueStatus,
    /// The result, once it is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<TriggeredCheckpoint>,
}

/// The result of a checkpoint that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggeredCheckpoint {
    /// The number of the complete checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<u64>,
    /// The reason why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<super::FailureBody>,
}

/// The answer to `GET /jobs/:jobid/checkpoints/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointConfigInfo {
    /// Checkpointing mode, always `exactly_once`.
    pub mode: String,
    /// Milliseconds; the largest signed number where there are no periodic checkpoints.
    pub interval: i64,
    /// Longest time a checkpoint may take, in milliseconds.
    pub timeout: i64,
    /// Shortest pause between two checkpoints, in milliseconds.
    pub min_pause: i64,
    /// Most checkpoints at the same time; always 1.
    pub max_concurrent: u32,
    /// The fate of checkpoints at the end of the job.
    pub externalization: ExternalizationInfo,
    /// The checkpoint directory; `JobManager` where the JobManager keeps the state.
    pub checkpoint_storage: String,
    /// `false`: barriers never overtake records.
    pub unaligned_checkpoints: bool,
    /// Failures in a row that the job tolerates.
    pub tolerable_failed_checkpoints: u32,
    /// Milliseconds: 0, barriers never overtake records.
    pub aligned_checkpoint_timeout: i64,
    /// Always `true`: checkpoints go on after some tasks have finished.
    pub checkpoints_after_tasks_finish: bool,
}

/// The fate of checkpoints at the end of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalizationInfo {
    /// True if they are kept in some case.
    pub enabled: bool,
    /// True if they are deleted if the job is cancelled.
    pub delete_on_cancellation: bool,
}

/// The body of `POST /jobs/:jobid/savepoints`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SavepointBody {
    /// The directory; absent: the configured one.
    #[serde(rename = "target-directory", default, skip_serializing_if = "Option::is_none")]
    pub target_directory: Option<String>,
    /// Whether the job is cancelled when the savepoint is complete.
    #[serde(rename = "cancel-job", default)]
    pub cancel_job: Option<bool>,
    /// `CANONICAL` or `NATIVE`, as Flink's clients send it; there is one format.
    #[serde(rename = "formatType", default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<String>,
    /// The id of the operation; absent: drawn.
    #[serde(rename = "triggerId", default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
}

/// The body of `POST /jobs/:jobid/stop`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopBody {
    /// The directory; absent: the configured one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_directory: Option<String>,
    /// Whether operators emit what they hold, as at the end of the data.
    #[serde(default)]
    pub drain: Option<bool>,
    /// `CANONICAL` or `NATIVE`, as Flink's clients send it; there is one format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<String>,
    /// The id of the operation; absent: drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
}

/// The body of `POST /savepoint-disposal`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DisposalBody {
    /// Path or URI of the savepoint's folder.
    #[serde(rename = "savepoint-path")]
    pub savepoint_path: String,
}

/// The answer to a request that begins an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerResponse {
    /// The id of the operation.
    #[serde(rename = "request-id")]
    pub request_id: String,
}

/// The answer to `GET /jobs/:jobid/savepoints/:triggerid` and `/savepoint-disposal/:triggerid`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationInfo {
    /// `IN_PROGRESS` or `COMPLETED`; a failed operation is completed too.
    pub status: super::QueueStatus,
    /// The result, once it is completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationResult>,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperationResult {
    /// The folder of a savepoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The reason why the operation has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<super::FailureBody>,
}
