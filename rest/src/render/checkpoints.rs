//! Renders checkpoint reports of the control plane as Flink's REST messages.

use super::{millis, throwable::failure};
use crate::messages::{
    AcknowledgedInfo, AlignmentInfo, CheckpointConfigInfo, CheckpointCountsInfo, CheckpointInfo,
    CheckpointSummary, CheckpointingStatistics, ExternalizationInfo, LatestCheckpoints,
    OperationInfo, OperationResult, QueueStatus, RestoredCheckpointInfo, SnapshotDuration,
    SpreadInfo, SubtaskCheckpointInfo, TaskCheckpointInfo, TriggeredCheckpoint,
    TriggeredCheckpointInfo, VertexCheckpointInfo, VertexCheckpointSummary,
};
use gateways::dispatcher::OperationState;
use model::{
    CheckpointKind, CheckpointReport, CheckpointSettings, CheckpointStats, CheckpointStatus,
    JobVertexId, Spread, SubtaskCheckpointStats, VertexCheckpointStats,
};
use std::collections::BTreeMap;

/// Flink's text for a checkpoint whose folder users do not know.
const NOT_EXTERNAL: &str = "<checkpoint-not-externally-addressable>";

/// Renders the answer to `GET /jobs/:jobid/checkpoints` from a job's report; the checkpoints in it have an empty `tasks`. Folders of
/// checkpoints are those that the report names ([`CheckpointReport::name_folders`]).
pub fn checkpoints(report: &CheckpointReport) -> CheckpointingStatistics {
    let counts = report.counts;
    let (size, duration) = (spread(report.state_bytes), spread(report.duration_ms));
    let brief =
        |stats: &CheckpointStats| CheckpointInfo { tasks: BTreeMap::new(), ..checkpoint(stats) };
    CheckpointingStatistics {
        counts: CheckpointCountsInfo {
            restored: counts.restored,
            total: counts.in_progress + counts.completed + counts.failed,
            in_progress: counts.in_progress,
            completed: counts.completed,
            failed: counts.failed,
        },
        summary: CheckpointSummary {
            checkpointed_size: size,
            state_size: size,
            end_to_end_duration: duration,
            alignment_buffered: SpreadInfo::default(),
            processed_data: SpreadInfo::default(),
            persisted_data: SpreadInfo::default(),
        },
        latest: LatestCheckpoints {
            completed: report.latest_completed.as_ref().map(brief),
            savepoint: report.latest_savepoint.as_ref().map(brief),
            failed: report.latest_failed.as_ref().map(brief),
            restored: report.restored.as_ref().map(|restored| RestoredCheckpointInfo {
                id: restored.checkpoint,
                restore_timestamp: millis(restored.restored_ms),
                is_savepoint: restored.is_savepoint,
                external_path: restored.external_path.clone(),
            }),
        },
        history: report.history.iter().map(brief).collect(),
    }
}

fn spread(spread: Spread) -> SpreadInfo {
    let [p50, p90, p95, p99, p999] = spread.percentiles;
    SpreadInfo { min: spread.min, max: spread.max, avg: spread.average, p50, p90, p95, p99, p999 }
}

/// Renders the answer to `GET /jobs/:jobid/checkpoints/config`; settings that Flink has and this runtime has not get the
/// value that describes what happens here. A job without periodic checkpoints has the interval `i64::MAX`; one without a
/// checkpoint directory has the storage `JobManager`. Times are in milliseconds.
pub fn checkpoint_config(settings: &CheckpointSettings) -> CheckpointConfigInfo {
    let storage = settings.directory.as_deref();
    CheckpointConfigInfo {
        mode: "exactly_once".to_owned(),
        interval: settings.interval_ms.map_or(i64::MAX, millis),
        timeout: millis(settings.timeout_ms),
        min_pause: millis(settings.min_pause_ms),
        max_concurrent: 1,
        externalization: ExternalizationInfo {
            enabled: settings.kept_if_failed,
            delete_on_cancellation: !settings.kept_if_canceled,
        },
        checkpoint_storage: storage.unwrap_or("JobManager").to_owned(),
        unaligned_checkpoints: false,
        tolerable_failed_checkpoints: settings.tolerable_failures,
        aligned_checkpoint_timeout: 0,
        checkpoints_after_tasks_finish: true,
        state_backend: "HashMapStateBackend".to_owned(),
        state_changelog_enabled: false,
        changelog_periodic_materialization_interval: 0,
        changelog_storage: String::new(),
    }
}

/// Renders the answer to `GET /jobs/:jobid/checkpoints/details/:checkpointid`: one checkpoint, with the sums of each vertex
/// but without subtasks. Times and durations that are not known yet are -1. Only a completed checkpoint has a folder.
pub fn checkpoint(stats: &CheckpointStats) -> CheckpointInfo {
    let is = |status| stats.status == status;
    let complete = is(CheckpointStatus::Completed);
    let failed = is(CheckpointStatus::Failed);
    let checkpoint_type = match stats.kind {
        CheckpointKind::Checkpoint => "CHECKPOINT",
        CheckpointKind::Savepoint => "SAVEPOINT",
        CheckpointKind::Stop { .. } => "SYNC_SAVEPOINT",
    };
    let is_savepoint = stats.kind.is_savepoint();
    CheckpointInfo {
        class_name: stats.status.as_str().to_ascii_lowercase(),
        id: stats.checkpoint,
        status: stats.status.as_str().to_owned(),
        is_savepoint,
        savepoint_format: is_savepoint.then(|| "CANONICAL".to_owned()),
        trigger_timestamp: millis(stats.triggered_ms),
        latest_ack_timestamp: stats.latest_ack_ms().map_or(-1, millis),
        checkpointed_size: stats.state_bytes,
        state_size: stats.state_bytes,
        end_to_end_duration: stats.duration_ms().map_or(-1, millis),
        alignment_buffered: 0,
        processed_data: 0,
        persisted_data: 0,
        num_subtasks: stats.subtasks(),
        num_acknowledged_subtasks: stats.acknowledged(),
        checkpoint_type: checkpoint_type.to_owned(),
        tasks: tasks(stats),
        external_path: complete
            .then(|| stats.external_path.clone().unwrap_or_else(|| NOT_EXTERNAL.to_owned())),
        discarded: complete.then_some(stats.discarded),
        failure_timestamp: stats.ended_ms.filter(|_| failed).map(millis),
        failure_message: stats.failure.clone(),
    }
}

fn tasks(stats: &CheckpointStats) -> BTreeMap<String, TaskCheckpointInfo> {
    let vertices = stats.vertices.iter();
    vertices.map(|vertex| (vertex.vertex.to_string(), task(stats, vertex))).collect()
}

fn task(stats: &CheckpointStats, vertex: &VertexCheckpointStats) -> TaskCheckpointInfo {
    let (latest, bytes) = (vertex.latest_ack_ms(), vertex.state_bytes());
    let duration = latest.map(|at| at.saturating_sub(stats.triggered_ms));
    TaskCheckpointInfo {
        id: stats.checkpoint,
        status: stats.status.as_str().to_owned(),
        latest_ack_timestamp: latest.map_or(-1, millis),
        checkpointed_size: bytes,
        state_size: bytes,
        end_to_end_duration: duration.map_or(-1, millis),
        alignment_buffered: 0,
        processed_data: 0,
        persisted_data: 0,
        num_subtasks: vertex.subtasks(),
        num_acknowledged_subtasks: vertex.acknowledged(),
    }
}

/// Renders the answer to `GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`: the part of one vertex,
/// subtask by subtask. A part that was taken over from the checkpoint before is shown as acknowledged at the trigger, with the
/// duration 0. Returns `None` if the checkpoint has no such vertex.
pub fn checkpoint_of_vertex(
    stats: &CheckpointStats,
    vertex: JobVertexId,
) -> Option<VertexCheckpointInfo> {
    let vertex = stats.vertices.iter().find(|part| part.vertex == vertex)?;
    let took = |part: &SubtaskCheckpointStats| {
        part.ack_ms.map_or(0, |at| at.saturating_sub(stats.triggered_ms))
    };
    let size = spread(Spread::of(vertex.present().map(|part| part.state_bytes)));
    let duration = spread(Spread::of(vertex.present().map(took)));
    let own = vertex.present().filter(|part| part.ack_ms.is_some());
    let pause = spread(Spread::of(own.map(|part| part.pause_us / 1_000)));
    let none = SpreadInfo::default();
    let summary = VertexCheckpointSummary {
        checkpointed_size: size,
        state_size: size,
        end_to_end_duration: duration,
        checkpoint_duration: SnapshotDuration { sync: pause, beside: none },
        alignment: AlignmentInfo {
            buffered: none,
            processed: none,
            persisted: none,
            duration: none,
        },
        start_delay: none,
    };
    let subtask = |(index, part): (u32, &Option<SubtaskCheckpointStats>)| {
        let Some(part) = part else {
            let status = "pending_or_failed".to_owned();
            return SubtaskCheckpointInfo::Pending { index, status };
        };
        let sync = part.ack_ms.map_or(-1, |_| millis(part.pause_us / 1_000));
        SubtaskCheckpointInfo::Completed(AcknowledgedInfo {
            index,
            status: "completed".to_owned(),
            ack_timestamp: millis(part.ack_ms.unwrap_or(stats.triggered_ms)),
            end_to_end_duration: millis(took(part)),
            checkpointed_size: part.state_bytes,
            state_size: part.state_bytes,
            checkpoint: SnapshotDuration { sync, beside: -1 },
            alignment: AlignmentInfo { buffered: 0, processed: 0, persisted: 0, duration: -1 },
            start_delay: -1,
            unaligned_checkpoint: false,
            aborted: false,
        })
    };
    let subtasks = (0..).zip(&vertex.parts).map(subtask).collect();
    Some(VertexCheckpointInfo { task: task(stats, vertex), summary, subtasks })
}

/// Renders the answer to `GET /jobs/:jobid/checkpoints/:triggerid`, the state of a checkpoint that a user triggered: in
/// progress, or ended with the checkpoint's number or the failure.
pub fn triggered_checkpoint(state: &OperationState) -> TriggeredCheckpointInfo {
    let (checkpoint_id, failure_cause) = match state {
        OperationState::InProgress => (None, None),
        OperationState::Done(number) => (number.parse().ok(), None),
        OperationState::Failed(cause) => (None, Some(failure(cause))),
    };
    let ended = *state != OperationState::InProgress;
    let operation = ended.then_some(TriggeredCheckpoint { checkpoint_id, failure_cause });
    TriggeredCheckpointInfo { status: queue_status(ended), operation }
}

fn queue_status(ended: bool) -> QueueStatus {
    QueueStatus { id: if ended { "COMPLETED" } else { "IN_PROGRESS" }.to_owned() }
}

/// Renders the state of an operation: the answer to `GET /jobs/:jobid/savepoints/:triggerid` (`located` is true: a success
/// names the savepoint's folder) and to `GET /savepoint-disposal/:triggerid` (false: it names none).
pub fn operation(state: &OperationState, located: bool) -> OperationInfo {
    let operation = match state {
        OperationState::InProgress => None,
        OperationState::Done(folder) => {
            Some(OperationResult { location: located.then(|| folder.clone()), failure_cause: None })
        }
        OperationState::Failed(cause) => {
            Some(OperationResult { location: None, failure_cause: Some(failure(cause)) })
        }
    };
    OperationInfo { status: queue_status(operation.is_some()), operation }
}
