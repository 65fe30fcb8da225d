//! Renders checkpoint reports of the control plane as Flink's REST messages.

use super::{millis, throwable::failure};
use crate::messages::{
    CheckpointConfigInfo, CheckpointCountsInfo, CheckpointInfo, CheckpointSummary,
    CheckpointingStatistics, ExternalizationInfo, LatestCheckpoints, OperationInfo,
    OperationResult, QueueStatus, RestoredCheckpointInfo, SpreadInfo, TaskCheckpointInfo,
};
use gateways::dispatcher::OperationState;
use model::{
    CheckpointKind, CheckpointReport, CheckpointSettings, CheckpointStats, CheckpointStatus,
    Spread, VertexCheckpointStats,
};
use std::collections::BTreeMap;

/// Flink's text for a checkpoint whose folder users do not know.
const NOT_EXTERNAL: &str = "<checkpoint-not-externally-addressable>";

/// Renders the answer to `GET /jobs/:jobid/checkpoints`.
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

/// Renders the answer to `GET /jobs/:jobid/checkpoints/config`.
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
    }
}

/// Renders the answer to `GET /jobs/:jobid/checkpoints/details/:checkpointid`.
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
    let info = |vertex: &VertexCheckpointStats| {
        let duration = vertex.latest_ack_ms.map(|at| at.saturating_sub(stats.triggered_ms));
        let info = TaskCheckpointInfo {
            id: stats.checkpoint,
            status: stats.status.as_str().to_owned(),
            latest_ack_timestamp: vertex.latest_ack_ms.map_or(-1, millis),
            checkpointed_size: vertex.state_bytes,
            state_size: vertex.state_bytes,
            end_to_end_duration: duration.map_or(-1, millis),
            alignment_buffered: 0,
            processed_data: 0,
            persisted_data: 0,
            num_subtasks: vertex.subtasks,
            num_acknowledged_subtasks: vertex.acknowledged,
        };
        (vertex.vertex.to_string(), info)
    };
    stats.vertices.iter().map(info).collect()
}

/// Renders the answer to `GET /jobs/:jobid/savepoints/:triggerid` (`located`) and
/// `/savepoint-disposal/:triggerid`.
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
    let id = if operation.is_some() { "COMPLETED" } else { "IN_PROGRESS" };
    OperationInfo { status: QueueStatus { id: id.to_owned() }, operation }
}
