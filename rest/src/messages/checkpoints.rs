//! Bodies about checkpoints and savepoints.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The answer to `GET /jobs/:jobid/checkpoints`: what the job's JobMaster has counted since it started; for a job that has ended, what its
/// last one had counted by then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointingStatistics {
    /// Numbers of checkpoints by outcome, since the JobMaster started.
    pub counts: CheckpointCountsInfo,
    /// Spreads of sizes and durations over the newest complete checkpoints, at most 1,000.
    pub summary: CheckpointSummary,
    /// The newest checkpoint of each kind (complete, savepoint, failed), and the one that the job was last restored from.
    pub latest: LatestCheckpoints,
    /// The newest checkpoints and savepoints of any status, newest first, at most `web.checkpoints.history` (0 counts as 1).
    pub history: Vec<CheckpointInfo>,
}

/// Numbers of checkpoints, savepoints included. They begin at 0 with each JobMaster, so a change of the leader resets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCountsInfo {
    /// Number of restores that were begun: one when the job starts from a checkpoint or savepoint, and one for each region (subtasks that
    /// restart together) that is deployed again with a checkpoint's state. As in Flink, a restore that fails counts, too, and so does each
    /// new attempt at it: three attempts until the tasks run are three restores.
    pub restored: u64,
    /// Number of checkpoints and savepoints that were triggered: the sum of `in_progress`, `completed` and `failed`.
    pub total: u64,
    /// Number of checkpoints and savepoints in progress now: 0 or 1; savepoints that wait for their turn are not counted.
    pub in_progress: u64,
    /// Number of checkpoints and savepoints that became complete since the JobMaster started, those deleted since included.
    pub completed: u64,
    /// Number of checkpoints and savepoints that failed since the JobMaster started, those included that were aborted because tasks failed
    /// or the job ended.
    pub failed: u64,
}

/// The spread of one number (bytes or milliseconds, as the field says) over several checkpoints or subtasks; all 0 if there
/// are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpreadInfo {
    /// Smallest of the values, in their unit; 0 if there are none.
    pub min: u64,
    /// Largest of the values, in their unit; 0 if there are none.
    pub max: u64,
    /// Arithmetic mean of the values, rounded down; 0 if there are none.
    pub avg: u64,
    /// Median of the values, by nearest rank; 0 if there are none.
    pub p50: u64,
    /// 90th percentile of the values, by nearest rank; 0 if there are none.
    pub p90: u64,
    /// 95th percentile of the values, by nearest rank; 0 if there are none.
    pub p95: u64,
    /// 99th percentile of the values, by nearest rank; 0 if there are none.
    pub p99: u64,
    /// 99.9th percentile of the values, by nearest rank; 0 if there are none.
    pub p999: u64,
}

/// Spreads of sizes and durations over the newest complete checkpoints, savepoints included, at most 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointSummary {
    /// Same value as `state_size`. With `execution.checkpointing.incremental` less was written, because parts that earlier checkpoints
    /// stored are used again; how much is not counted.
    pub checkpointed_size: SpreadInfo,
    /// Size of the whole state of a checkpoint in bytes, coordinators' state and parts that earlier checkpoints stored included.
    pub state_size: SpreadInfo,
    /// Milliseconds from the trigger of a checkpoint to its completion.
    pub end_to_end_duration: SpreadInfo,
    /// Always 0 (bytes): no input is buffered while a subtask waits for a checkpoint's barriers.
    pub alignment_buffered: SpreadInfo,
    /// Always 0: the bytes that are processed while a subtask waits for a checkpoint's barriers are not counted.
    pub processed_data: SpreadInfo,
    /// Always 0 (bytes): no records in flight between tasks are stored with a checkpoint.
    pub persisted_data: SpreadInfo,
}

/// The newest checkpoint of each kind under the present JobMaster, each with an empty `tasks`, and the one that the job was last restored
/// from; `None` (JSON `null`) if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestCheckpoints {
    /// Newest complete checkpoint that is not a savepoint; it may have been deleted since. `None` if none was completed since the
    /// JobMaster started, though older ones exist.
    pub completed: Option<CheckpointInfo>,
    /// Newest complete savepoint, also one of a stop; `None` if there was none since the JobMaster started.
    pub savepoint: Option<CheckpointInfo>,
    /// Newest checkpoint or savepoint that has failed; `None` if none has since the JobMaster started.
    pub failed: Option<CheckpointInfo>,
    /// The checkpoint or snapshot that the job was last restored from; `None` if it never was since the JobMaster started.
    pub restored: Option<RestoredCheckpointInfo>,
}

/// The checkpoint of the job's own, or the snapshot (savepoint or retained checkpoint) named at its start, that a job was
/// last restored from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredCheckpointInfo {
    /// Number of the checkpoint within its job (as in [`CheckpointInfo::id`]); for a snapshot of another job, that job's number.
    pub id: u64,
    /// Time at which the job or a part of it was restored, in Unix milliseconds.
    pub restore_timestamp: i64,
    /// True if the job was restored from the snapshot that it was started from, false if from a checkpoint of its own.
    pub is_savepoint: bool,
    /// Folder of the snapshot, or of the checkpoint of its own, that the job was restored from; `None` if it is a checkpoint of its own and
    /// the job has no checkpoint directory.
    pub external_path: Option<String>,
}

/// One checkpoint or savepoint: its state, times, sizes, acknowledgements, folder and failure. The answer to `GET
/// /jobs/:jobid/checkpoints/details/:checkpointid`, and an entry of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// `completed`, `failed` or `in_progress`: Flink's clients choose the class of the answer by it.
    #[serde(rename = "className")]
    pub class_name: String,
    /// Number of the checkpoint within its job, savepoints and failed ones included; no other one has it, also after a change of the leader,
    /// which may leave a number out.
    pub id: u64,
    /// State of the checkpoint: `COMPLETED`, `FAILED` or `IN_PROGRESS`.
    pub status: String,
    /// True if the checkpoint is a savepoint, also that of a stop.
    pub is_savepoint: bool,
    /// `CANONICAL` for savepoints, otherwise `None` (JSON `null`).
    #[serde(rename = "savepointFormat")]
    pub savepoint_format: Option<String>,
    /// Time at which the JobMaster triggered the checkpoint, in Unix milliseconds.
    pub trigger_timestamp: i64,
    /// Time of the latest acknowledgement of a subtask in Unix milliseconds; -1 if no subtask has acknowledged.
    pub latest_ack_timestamp: i64,
    /// Same value as `state_size`. With `execution.checkpointing.incremental` less was written, because parts that earlier checkpoints
    /// stored are used again; how much is not counted.
    pub checkpointed_size: u64,
    /// Size of the whole state in bytes, coordinators' state included; while the checkpoint is in progress, or if it
    /// failed, only that of the subtasks' parts that are present.
    pub state_size: u64,
    /// Milliseconds from the trigger to the completion or failure; while the checkpoint is in progress, to the latest
    /// acknowledgement, or -1 if there was none yet.
    pub end_to_end_duration: i64,
    /// Always 0 (bytes): no input is buffered while a subtask waits for a checkpoint's barriers.
    pub alignment_buffered: u64,
    /// Always 0: the bytes that are processed while a subtask waits for a checkpoint's barriers are not counted.
    pub processed_data: u64,
    /// Always 0 (bytes): no records in flight between tasks are stored with a checkpoint.
    pub persisted_data: u64,
    /// Number of all subtasks of the job, each of which the checkpoint needs a part of, acknowledged or not.
    pub num_subtasks: u32,
    /// Number of subtasks whose part is present: those that have acknowledged, and those whose part was taken over from the
    /// checkpoint before because they had finished or wait for a slot.
    pub num_acknowledged_subtasks: u32,
    /// Purpose of the checkpoint: `CHECKPOINT` (periodic, or triggered by a user), `SAVEPOINT`, or `SYNC_SAVEPOINT` (the
    /// savepoint of a stop).
    pub checkpoint_type: String,
    /// Parts of the checkpoint by vertex id, 32 hexadecimal digits; empty in the history and among the latest.
    pub tasks: BTreeMap<String, TaskCheckpointInfo>,
    /// The URI of the folder of a complete savepoint, or of a complete checkpoint in the checkpoint directory, which exists as long as the
    /// checkpoint is kept but is shown afterwards, too; `<checkpoint-not-externally-addressable>` for one that the JobManager keeps; absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_path: Option<String>,
    /// True if the complete checkpoint was deleted since, because newer ones replace it or with the end of its job, false if it is kept;
    /// absent if it is not complete.
    /// The deletion of a savepoint's folder is not noticed: for a savepoint it is false, except that it may be true for that of a stop
    /// after which the job went on because tasks failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded: Option<bool>,
    /// Time of a checkpoint's failure in Unix milliseconds; absent unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_timestamp: Option<i64>,
    /// The reason why the checkpoint failed; absent unless it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
}

/// The part of one vertex in a checkpoint, over all its subtasks: state in bytes, times, and the number of acknowledgements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCheckpointInfo {
    /// Number of the checkpoint that the part belongs to.
    pub id: u64,
    /// State of the whole checkpoint by Flink's name, such as `COMPLETED`.
    pub status: String,
    /// Time of the latest acknowledgement of the vertex's subtasks in Unix milliseconds; -1 if none has acknowledged.
    pub latest_ack_timestamp: i64,
    /// Same value as `state_size`. With `execution.checkpointing.incremental` less was written, because parts that earlier checkpoints
    /// stored are used again; how much is not counted.
    pub checkpointed_size: u64,
    /// Sum of the state of the vertex's subtasks in bytes, as far as their parts are present.
    pub state_size: u64,
    /// Milliseconds from the trigger to the latest acknowledgement of the vertex's subtasks; -1 if none has acknowledged.
    pub end_to_end_duration: i64,
    /// Always 0 (bytes): no input is buffered while a subtask waits for a checkpoint's barriers.
    pub alignment_buffered: u64,
    /// Always 0: the bytes that are processed while a subtask waits for a checkpoint's barriers are not counted.
    pub processed_data: u64,
    /// Always 0 (bytes): no records in flight between tasks are stored with a checkpoint.
    pub persisted_data: u64,
    /// Number of the vertex's subtasks, acknowledged or not.
    pub num_subtasks: u32,
    /// Number of the vertex's subtasks whose part is present: those that have acknowledged, and those whose part was taken
    /// over from the checkpoint before because they had finished or wait for a slot.
    pub num_acknowledged_subtasks: u32,
}

/// The answer to `GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`: one vertex's part of a
/// checkpoint, subtask by subtask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexCheckpointInfo {
    /// The part of the vertex as a whole; in JSON its fields stand beside `summary` and `subtasks`.
    #[serde(flatten)]
    pub task: TaskCheckpointInfo,
    /// Spreads of sizes and durations over the vertex's subtasks whose part of the checkpoint is present.
    pub summary: VertexCheckpointSummary,
    /// The parts of all subtasks of the vertex, by index.
    pub subtasks: Vec<SubtaskCheckpointInfo>,
}

/// Spreads of sizes and durations over those subtasks of a vertex whose part of a checkpoint is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VertexCheckpointSummary {
    /// Same value as `state_size`. With `execution.checkpointing.incremental` less was written, because parts that earlier checkpoints
    /// stored are used again; how much is not counted.
    pub checkpointed_size: SpreadInfo,
    /// Size of a subtask's whole state in bytes, not only of what changed since the checkpoint before.
    pub state_size: SpreadInfo,
    /// Milliseconds from the trigger to a subtask's acknowledgement; 0 for a part that was taken over from the checkpoint
    /// before.
    pub end_to_end_duration: SpreadInfo,
    /// The spread of the times for which the subtasks that have acknowledged handled no records; `beside` is always 0.
    pub checkpoint_duration: SnapshotDuration<SpreadInfo>,
    /// Always 0: the wait of a subtask for a checkpoint's barriers on all its inputs is not measured.
    pub alignment: AlignmentInfo<SpreadInfo>,
    /// Always 0: the time until a checkpoint's barrier (the mark in the stream at which a subtask takes its snapshot)
    /// arrives is not measured.
    pub start_delay: SpreadInfo,
}

/// The time that a snapshot took, in Flink's two parts, of which only the first is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotDuration<T> {
    /// The longest time in whole milliseconds, rounded down, for which the task processed no records because of the snapshot: at the
    /// barrier, and while a slice of the snapshot was written and input waited. -1 for a subtask whose part was taken over from the
    /// checkpoint before.
    pub sync: T,
    /// Milliseconds that the snapshot took beside the task's work (Flink's `async`); not measured: 0 in spreads, -1 for a
    /// subtask.
    #[serde(rename = "async")]
    pub beside: T,
}

/// The alignment: the time in which a subtask of several inputs waits until the barrier (the mark of a checkpoint in the
/// stream) has come on all. Not measured: every value is 0, and a subtask's `duration` -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlignmentInfo<T> {
    /// Bytes that were buffered during the alignment; always 0, because barriers never overtake records.
    pub buffered: T,
    /// Bytes that were processed during the alignment; not counted, always 0.
    pub processed: T,
    /// Bytes of records in flight that were stored with the checkpoint; always 0.
    pub persisted: T,
    /// Milliseconds from the first barrier to the last one; not measured: 0 in spreads, -1 for a subtask.
    pub duration: T,
}

/// The part of one subtask in a checkpoint: present (`Completed`), or missing (`Pending`), for good if the checkpoint has failed. Flink's
/// clients choose the class by the field `className`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "className", rename_all = "snake_case")]
pub enum SubtaskCheckpointInfo {
    /// The part is present: the subtask has acknowledged, or its part was taken over from the checkpoint before because it
    /// had finished or waits for a slot.
    Completed(AcknowledgedInfo),
    /// The part is missing: the subtask has not acknowledged, because the checkpoint is in progress or failed before. The `className` is
    /// `pending`, the `status` is `pending_or_failed`.
    Pending {
        /// The index of the subtask in its vertex, from 0.
        index: u32,
        /// Always the text `pending_or_failed`.
        status: String,
    },
}

/// One subtask's part of a checkpoint, with its times and sizes. The subtask has acknowledged the checkpoint, or its part was
/// taken over from the checkpoint before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcknowledgedInfo {
    /// The index of the subtask in its vertex, from 0.
    pub index: u32,
    /// Always the text `completed`.
    pub status: String,
    /// Time of the acknowledgement in Unix milliseconds; the time of the trigger if the part was taken over from the
    /// checkpoint before.
    pub ack_timestamp: i64,
    /// Milliseconds from the trigger to the acknowledgement; 0 if the part was taken over from the checkpoint before.
    pub end_to_end_duration: i64,
    /// Same value as `state_size`. With `execution.checkpointing.incremental` less was written, because parts that earlier checkpoints
    /// stored are used again; how much is not counted.
    pub checkpointed_size: u64,
    /// Size of the subtask's whole state in bytes.
    pub state_size: u64,
    /// The time for which the subtask processed no records; `beside` is always -1.
    pub checkpoint: SnapshotDuration<i64>,
    /// Always 0, and the duration -1, because it is not measured.
    pub alignment: AlignmentInfo<i64>,
    /// Always -1: the time until the checkpoint's barrier arrives at the subtask is not measured.
    pub start_delay: i64,
    /// Always `false`: the barriers that mark a checkpoint in the stream never overtake records.
    pub unaligned_checkpoint: bool,
    /// Always `false`: a subtask's part is shown once it is complete.
    pub aborted: bool,
}

/// The body of `POST /jobs/:jobid/checkpoints`, which triggers a checkpoint of the job's own beside the periodic ones and is answered
/// before it is taken. It may be empty; malformed fields are refused with 400, unknown ones ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointBody {
    /// `CONFIGURED`, `FULL` or `INCREMENTAL`, as Flink's clients send it; all mean the same: whether parts of earlier checkpoints are used
    /// again is decided by `execution.checkpointing.incremental` alone. Another text is refused with 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_type: Option<String>,
    /// The id for the operation, 32 hexadecimal digits (otherwise 400); absent: the endpoint draws one and returns it. A request with an id
    /// that a triggered checkpoint of the job has already begins nothing new, so a client may repeat it, but gets 409 once the job
    /// has ended. After the operation is forgotten (after a change of the leader, or 256 later ones have ended) it begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
}

/// The answer to `GET /jobs/:jobid/checkpoints/:triggerid`: the state of a checkpoint that a user triggered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredCheckpointInfo {
    /// `IN_PROGRESS` or `COMPLETED`; a failed operation is `COMPLETED` too.
    pub status: super::QueueStatus,
    /// The result; absent while the operation is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<TriggeredCheckpoint>,
}

/// The result of a checkpoint that a user triggered: `checkpoint_id` is set if it is complete, `failure_cause` if it failed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TriggeredCheckpoint {
    /// The number of the checkpoint, which is complete; absent if the operation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<u64>,
    /// The reason why the checkpoint failed; absent if it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<super::FailureBody>,
}

/// The answer to `GET /jobs/:jobid/checkpoints/config`: the job's checkpoint settings (interval, time-out, pause, retention,
/// directory, tolerated failures); of what is not there, such as unaligned checkpoints, that it is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointConfigInfo {
    /// Checkpointing mode, always `exactly_once`.
    pub mode: String,
    /// Milliseconds between the triggers of two checkpoints; `i64::MAX` if the job has no periodic ones.
    pub interval: i64,
    /// Milliseconds from the trigger after which a checkpoint is aborted and counts as failed, unless all subtasks have acknowledged by
    /// then.
    pub timeout: i64,
    /// Minimum number of milliseconds between the completion of a checkpoint or savepoint and the trigger of the next periodic checkpoint.
    pub min_pause: i64,
    /// Maximum number of checkpoints at the same time; always 1.
    pub max_concurrent: u32,
    /// Tells whether the newest checkpoints are kept when the job fails or is cancelled.
    pub externalization: ExternalizationInfo,
    /// The checkpoint directory as it was set, a URI or an absolute path; the text `JobManager` if none is set: checkpoints are then in
    /// the store of the job logs, the HA storage directory with high availability, otherwise the JobManager's memory.
    pub checkpoint_storage: String,
    /// Always `false`: the barriers that mark a checkpoint in the stream never overtake records.
    pub unaligned_checkpoints: bool,
    /// Number of failed checkpoints in a row that the job tolerates; the next one fails its tasks, about which the restart
    /// strategy decides. Savepoints, and checkpoints that were aborted because tasks failed, do not count; one with which tasks end is
    /// tried again instead. The savepoint of a stop fails the tasks at once if it fails after its sources have begun it.
    pub tolerable_failed_checkpoints: u32,
    /// Always 0 (milliseconds): the barriers that mark a checkpoint in the stream never overtake records.
    pub aligned_checkpoint_timeout: i64,
    /// Always `true`: checkpoints go on after some tasks have finished.
    pub checkpoints_after_tasks_finish: bool,
    /// Always `HashMapStateBackend`, Flink's name of a backend that keeps state in memory.
    pub state_backend: String,
    /// Always `false`: changes of state are not logged.
    pub state_changelog_enabled: bool,
    /// Always 0 (milliseconds): there is no log of changes.
    pub changelog_periodic_materialization_interval: i64,
    /// Always empty: there is no log of changes.
    pub changelog_storage: String,
}

/// Tells whether the newest checkpoints are kept or deleted when the job ends without having finished; those of a job that
/// finished are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalizationInfo {
    /// True if the newest checkpoints are kept when the job fails for good (whatever happens on cancellation); otherwise they are deleted.
    pub enabled: bool,
    /// True if all checkpoints are deleted when the job is cancelled; otherwise the newest are kept.
    pub delete_on_cancellation: bool,
}

/// The body of `POST /jobs/:jobid/savepoints`, which triggers a savepoint and is answered before it is taken. It may be empty; malformed
/// fields are refused with 400, unknown ones ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SavepointBody {
    /// The directory for the savepoint's folder, a URI or an absolute path; absent: `execution.checkpointing.savepoint-dir`. Refused with
    /// 400 if neither is there, or it is a relative path, cannot be understood, or is in the folder of the job's checkpoints.
    #[serde(rename = "target-directory", default, skip_serializing_if = "Option::is_none")]
    pub target_directory: Option<String>,
    /// True if the job is cancelled when the savepoint is complete; absent: false. Refused with 403 where
    /// `web.cancel.enable` is false.
    #[serde(rename = "cancel-job", default)]
    pub cancel_job: Option<bool>,
    /// `CANONICAL` in this spelling, as Flink's clients send it unless they are told otherwise: the one format that there is; absent means
    /// the same. Any other text, Flink's `NATIVE` included, is refused with 400.
    #[serde(rename = "formatType", default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<String>,
    /// The id for the operation, 32 hexadecimal digits (otherwise 400); absent: the endpoint draws one and returns it. A request with an id
    /// that a savepoint or stop of the job has already begins nothing new, so a client may repeat it, but gets 409 once the job
    /// has ended. After the operation is forgotten (after a change of the leader, or 256 later ones have ended) it begins anew.
    #[serde(rename = "triggerId", default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
}

/// The body of `POST /jobs/:jobid/stop`, which ends the job with a savepoint and is answered before it is taken. If the savepoint fails,
/// the job goes on, or restarts if its sources had stopped already. It may be empty; malformed fields are refused with 400, unknown ones
/// ignored. The request is refused with 403 where `web.cancel.enable` is false.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopBody {
    /// The directory for the savepoint's folder, a URI or an absolute path; absent: `execution.checkpointing.savepoint-dir`. Refused with
    /// 400 if neither is there, or it is a relative path, cannot be understood, or is in the folder of the job's checkpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_directory: Option<String>,
    /// True if the sources first emit the final watermark and the end of their data, so that operators emit what they hold;
    /// absent: false.
    #[serde(default)]
    pub drain: Option<bool>,
    /// `CANONICAL` in this spelling, as Flink's clients send it unless they are told otherwise: the one format that there is; absent means
    /// the same. Any other text, Flink's `NATIVE` included, is refused with 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<String>,
    /// The id for the operation, 32 hexadecimal digits (otherwise 400); absent: the endpoint draws one and returns it. A request with an id
    /// that a savepoint or stop of the job has already begins nothing new, so a client may repeat it, but gets 409 once the job
    /// has ended. After the operation is forgotten (after a change of the leader, or 256 later ones have ended) it begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
}

/// The body of `POST /savepoint-disposal`, which deletes a savepoint, or a retained checkpoint, with all its files, unless a running job
/// or another checkpoint needs it. It is answered before anything is deleted; the outcome, also that something needs it, is asked for by
/// the operation's id. The request is refused with 403 where `web.cancel.enable` is false.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DisposalBody {
    /// Path or URI of the savepoint's folder, which is to be deleted; absent or empty: refused with 400.
    #[serde(rename = "savepoint-path")]
    pub savepoint_path: String,
}

/// The answer to a request that triggers a checkpoint, savepoint, stop or disposal (status 202, for a disposal 200). It is sent before
/// anything is done: whether the operation succeeds, a later request by the id shows, as long as the leader does not change and fewer than
/// 256 operations have ended since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerResponse {
    /// The id of the operation, 32 hexadecimal digits, by which the client asks for its state and result.
    #[serde(rename = "request-id")]
    pub request_id: String,
}

/// The answer to `GET /jobs/:jobid/savepoints/:triggerid` and `/savepoint-disposal/:triggerid`: the state of a savepoint,
/// stop or disposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationInfo {
    /// `IN_PROGRESS` or `COMPLETED`; a failed operation is `COMPLETED` too.
    pub status: super::QueueStatus,
    /// The result; absent while the operation is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationResult>,
}

/// The result of a savepoint, stop or disposal that has ended: `failure_cause` is set if it failed. Of a disposal that
/// succeeded no field is set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperationResult {
    /// The URI of the savepoint's folder; absent if the operation failed, and for a disposal. If only the cancellation or the end of the
    /// job failed, the failure's text names the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The reason why the operation failed; absent if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<super::FailureBody>,
}
