//! The report of a job's checkpoints, in Flink's shapes.

use super::*;
use model::{
    CheckpointCounts, CheckpointKind, CheckpointReport, CheckpointSettings, CheckpointStats,
    CheckpointStatus, Spread, SubtaskCheckpointStats, TriggerId, VertexCheckpointStats,
};
use rest::messages::{CheckpointBody, SavepointBody, StopBody};

fn stats(checkpoint: u64, status: CheckpointStatus) -> CheckpointStats {
    CheckpointStats {
        checkpoint,
        kind: CheckpointKind::Checkpoint,
        status,
        triggered_ms: 1_000,
        ended_ms: Some(1_250),
        state_bytes: 90,
        failure: None,
        external_path: None,
        discarded: false,
        vertices: vec![VertexCheckpointStats {
            vertex: JobVertexId(0x77),
            parts: vec![
                None,
                Some(SubtaskCheckpointStats {
                    ack_ms: Some(1_200),
                    state_bytes: 80,
                    pause_us: 3_900,
                }),
            ],
        }],
    }
}

pub(super) fn report() -> CheckpointReport {
    let complete = stats(1, CheckpointStatus::Completed);
    let failed = CheckpointStats {
        failure: Some("the disk is full".to_owned()),
        ..stats(2, CheckpointStatus::Failed)
    };
    let running = CheckpointStats {
        kind: CheckpointKind::Stop { drain: false },
        ended_ms: None,
        ..stats(3, CheckpointStatus::InProgress)
    };
    CheckpointReport {
        settings: CheckpointSettings {
            timeout_ms: 600_000,
            kept_if_failed: true,
            directory: Some("/c/".to_owned()),
            ..CheckpointSettings::default()
        },
        counts: CheckpointCounts { restored: 0, in_progress: 1, completed: 1, failed: 1 },
        history: [running, failed.clone(), complete.clone()].into(),
        latest_completed: Some(complete),
        latest_failed: Some(failed),
        state_bytes: Spread::of([90]),
        duration_ms: Spread::of([250]),
        ..CheckpointReport::default()
    }
}

#[tokio::test(flavor = "local")]
async fn checkpoints_are_shown_with_flinks_fields() {
    let world = world(|_| ()).await;
    let job = JOB.to_string();
    let all = world.client.checkpoints(&job).await.unwrap();
    assert_eq!((all.counts.total, all.counts.completed), (3, 1));
    assert_eq!(all.summary.end_to_end_duration.p99, 250);
    let listed: Vec<_> = all.history.iter().map(|c| (c.id, c.class_name.as_str())).collect();
    assert_eq!(listed, [(3, "in_progress"), (2, "failed"), (1, "completed")]);
    assert!(all.history.iter().all(|c| c.tasks.is_empty()));
    let complete = all.latest.completed.unwrap();
    assert_eq!(
        complete.external_path,
        Some(format!("/c/{job}/chk-1")),
        "as `flott run -s` takes it"
    );
    let failed = all.latest.failed.unwrap();
    assert_eq!(failed.failure_message.as_deref(), Some("the disk is full"));
    assert_eq!((failed.failure_timestamp, failed.discarded), (Some(1_250), None));
    let one = world.client.checkpoint(&job, 3).await.unwrap();
    assert_eq!(one.checkpoint_type, "SYNC_SAVEPOINT");
    assert_eq!((one.num_subtasks, one.num_acknowledged_subtasks), (2, 1));
    assert_eq!((one.end_to_end_duration, one.external_path), (200, None));
    let task = &one.tasks[&JobVertexId(0x77).to_string()];
    assert_eq!((task.state_size, task.end_to_end_duration), (80, 200));
    let config = world.client.checkpoint_config(&job).await.unwrap();
    assert_eq!((config.interval, config.timeout), (i64::MAX, 600_000));
    assert!(config.externalization.enabled && config.externalization.delete_on_cancellation);
    let gone = world.client.checkpoint(&job, 9).await.unwrap_err();
    assert_eq!(gone.status(), Some(404));
    let gone = world.client.checkpoints(&ENDED.to_string()).await.unwrap_err();
    assert_eq!(gone.status(), Some(404));
    world.handle.stop().await;
}

/// Takes the request with which the tests begin an operation.
pub(super) fn trigger(call: TriggerSavepoint) -> Result<(), JobError> {
    let TriggerSavepoint { job_id, trigger_id, kind, directory, cancel } = call;
    match (job_id, kind) {
        (JOB, CheckpointKind::Savepoint) => {
            assert_eq!(
                (trigger_id, directory.as_deref(), cancel),
                (TriggerId(7), Some("/s"), true)
            );
            Ok(())
        }
        (JOB, CheckpointKind::Checkpoint) => {
            assert_eq!((directory, cancel), (None, false));
            Ok(())
        }
        (JOB, CheckpointKind::Stop { .. }) => {
            assert_eq!((directory, cancel), (None, false), "{kind:?}");
            Ok(())
        }
        (LOST, _) => Err(JobError::SavepointDirectory("name one".to_owned())),
        _ => Err(JobError::Terminated { job: job_id, status: JobStatus::Finished }),
    }
}

pub(super) fn operation(call: &RequestSavepoint) -> Result<OperationState, OperationUnknown> {
    match (call.job_id, call.is_checkpoint, call.trigger_id) {
        (Some(JOB), false, TriggerId(7)) => Ok(OperationState::Done("/s/savepoint-1".to_owned())),
        (Some(JOB), _, TriggerId(8)) => Ok(OperationState::InProgress),
        (Some(JOB), _, TriggerId(9)) => {
            Ok(OperationState::Failed(model::FailureCause::recoverable("SavepointFailed", "full")))
        }
        (Some(JOB), true, TriggerId(5)) => Ok(OperationState::Done("41".to_owned())),
        (None, false, _) => Ok(OperationState::Done("/s/savepoint-1".to_owned())),
        (_, _, unknown) => Err(OperationUnknown(unknown)),
    }
}

#[tokio::test(flavor = "local")]
async fn the_subtasks_of_a_vertex_are_shown_with_flinks_fields() {
    let world = world(|_| ()).await;
    let (job, vertex) = (JOB.to_string(), JobVertexId(0x77).to_string());
    let of = async |id, vertex: &str| world.client.checkpoint_of_vertex(&job, id, vertex).await;
    let shown = serde_json::to_value(of(3, &vertex).await.unwrap()).unwrap();
    let spread = |n| {
        serde_json::json!({
            "min": n, "max": n, "avg": n, "p50": n, "p90": n, "p95": n, "p99": n, "p999": n
        })
    };
    let zero = spread(0);
    let expected = serde_json::json!({
        "id": 3, "status": "IN_PROGRESS", "latest_ack_timestamp": 1_200,
        "checkpointed_size": 80, "state_size": 80, "end_to_end_duration": 200,
        "alignment_buffered": 0, "processed_data": 0, "persisted_data": 0,
        "num_subtasks": 2, "num_acknowledged_subtasks": 1,
        "summary": {
            "checkpointed_size": spread(80), "state_size": spread(80),
            "end_to_end_duration": spread(200),
            "checkpoint_duration": {"sync": spread(3), "async": zero},
            "alignment": {
                "buffered": zero, "processed": zero, "persisted": zero, "duration": zero
            },
            "start_delay": zero,
        },
        "subtasks": [
            {"className": "pending", "index": 0, "status": "pending_or_failed"},
            {
                "className": "completed", "index": 1, "status": "completed",
                "ack_timestamp": 1_200, "end_to_end_duration": 200,
                "checkpointed_size": 80, "state_size": 80,
                "checkpoint": {"sync": 3, "async": -1},
                "alignment": {"buffered": 0, "processed": 0, "persisted": 0, "duration": -1},
                "start_delay": -1, "unaligned_checkpoint": false, "aborted": false,
            },
        ],
    });
    assert_eq!(shown, expected);
    assert_eq!(of(9, &vertex).await.unwrap_err().status(), Some(404));
    let other = JobVertexId(0x78).to_string();
    assert_eq!(of(3, &other).await.unwrap_err().status(), Some(404));
    assert_eq!(of(3, "odd").await.unwrap_err().status(), Some(400));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn checkpoints_are_triggered_and_asked_about_in_flinks_shapes() {
    let world = world(|_| ()).await;
    let job = JOB.to_string();
    let body = CheckpointBody {
        checkpoint_type: Some("FULL".to_owned()),
        trigger_id: Some(TriggerId(5).to_string()),
    };
    let id = world.client.trigger_checkpoint(&job, &body).await.unwrap();
    assert_eq!(id, TriggerId(5).to_string());
    let done = world.client.triggered_checkpoint(&job, &id).await.unwrap();
    let expected =
        serde_json::json!({"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 41}});
    assert_eq!(serde_json::to_value(done).unwrap(), expected);
    let of = async |n| world.client.triggered_checkpoint(&job, &TriggerId(n).to_string()).await;
    let running = of(8).await.unwrap();
    assert_eq!((running.status.id.as_str(), running.operation), ("IN_PROGRESS", None));
    let failed = serde_json::to_value(of(9).await.unwrap()).unwrap();
    assert_eq!(failed["operation"]["failureCause"]["stack-trace"], "full");
    assert_eq!(of(10).await.unwrap_err().status(), Some(404));
    let drawn = world.client.trigger_checkpoint(&job, &CheckpointBody::default()).await;
    assert_eq!(drawn.unwrap().len(), 32);
    let odd = CheckpointBody { checkpoint_type: Some("HALF".to_owned()), ..body };
    let odd = world.client.trigger_checkpoint(&job, &odd).await.unwrap_err();
    assert_eq!(odd.status(), Some(400));
    let (ended, body) = (ENDED.to_string(), CheckpointBody::default());
    let refused = world.client.trigger_checkpoint(&ended, &body).await.unwrap_err();
    assert_eq!(refused.status(), Some(409));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_in_a_format_that_there_is_not_is_refused_and_the_one_that_there_is_named() {
    let world = world(|_| ()).await;
    let (job, native) = (JOB.to_string(), Some("NATIVE".to_owned()));
    let savepoint = SavepointBody { format_type: native.clone(), ..SavepointBody::default() };
    let stop = StopBody { format_type: native, ..StopBody::default() };
    let refused = [
        world.client.savepoint(&job, &savepoint).await.unwrap_err(),
        world.client.stop(&job, &stop).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.status(), Some(400));
        assert!(error.to_string().contains("send CANONICAL"), "{error}");
    }
    let canonical = StopBody { format_type: Some("CANONICAL".to_owned()), ..StopBody::default() };
    assert_eq!(world.client.stop(&job, &canonical).await.unwrap().len(), 32);
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn savepoints_are_triggered_and_asked_about_in_flinks_shapes() {
    let world = world(|_| ()).await;
    let job = JOB.to_string();
    let body = SavepointBody {
        target_directory: Some("/s".to_owned()),
        cancel_job: Some(true),
        format_type: Some("CANONICAL".to_owned()),
        trigger_id: Some(TriggerId(7).to_string()),
    };
    let id = world.client.savepoint(&job, &body).await.unwrap();
    assert_eq!(id, TriggerId(7).to_string());
    let done = world.client.savepoint_status(&job, &id).await.unwrap();
    let done = serde_json::to_value(done).unwrap();
    let expected = serde_json::json!({
        "status": {"id": "COMPLETED"}, "operation": {"location": "/s/savepoint-1"}
    });
    assert_eq!(done, expected);
    let of = async |n| world.client.savepoint_status(&job, &TriggerId(n).to_string()).await;
    let running = of(8).await.unwrap();
    assert_eq!((running.status.id.as_str(), running.operation), ("IN_PROGRESS", None));
    let failed = of(9).await.unwrap().operation.unwrap();
    assert_eq!(failed.failure_cause.unwrap().stack_trace, "full");
    assert_eq!(of(10).await.unwrap_err().status(), Some(404));
    let odd = SavepointBody { format_type: Some("AVRO".to_owned()), ..body };
    assert_eq!(world.client.savepoint(&job, &odd).await.unwrap_err().status(), Some(400));

    let drain = StopBody { drain: Some(true), ..StopBody::default() };
    assert_eq!(world.client.stop(&job, &drain).await.unwrap().len(), 32);
    let ended = world.client.stop(&ENDED.to_string(), &drain).await.unwrap_err();
    assert_eq!(ended.status(), Some(409));

    let id = world.client.dispose_savepoint("/s/savepoint-1").await.unwrap();
    let gone = world.client.disposal_status(&id).await.unwrap();
    assert_eq!(gone.operation.unwrap().location, None);
    assert_eq!(world.client.dispose_savepoint("").await.unwrap_err().status(), Some(400));
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_checkpoint_is_not_found_as_a_savepoint_nor_a_savepoint_as_a_checkpoint() {
    let world = world(|_| ()).await;
    let job = JOB.to_string();
    let (savepoint, checkpoint) = (TriggerId(7).to_string(), TriggerId(5).to_string());
    assert!(world.client.savepoint_status(&job, &savepoint).await.is_ok());
    assert!(world.client.triggered_checkpoint(&job, &checkpoint).await.is_ok());
    let other = world.client.savepoint_status(&job, &checkpoint).await.unwrap_err();
    assert_eq!(other.status(), Some(404), "{other}");
    let other = world.client.triggered_checkpoint(&job, &savepoint).await.unwrap_err();
    assert_eq!(other.status(), Some(404), "{other}");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn a_savepoint_without_a_directory_is_a_bad_request() {
    let world = world(|_| ()).await;
    let asked = world.client.savepoint(&LOST.to_string(), &SavepointBody::default()).await;
    let error = asked.unwrap_err();
    assert_eq!(error.status(), Some(400), "{error}");
    assert!(error.to_string().contains("name one"), "{error}");
    world.handle.stop().await;
}

#[tokio::test(flavor = "local")]
async fn where_cancelling_is_off_a_job_cannot_be_stopped_either() {
    let world = world(|settings| settings.cancel_allowed = false).await;
    let refused = world.client.stop(&JOB.to_string(), &StopBody::default()).await.unwrap_err();
    assert_eq!(refused.status(), Some(403));
    world.handle.stop().await;
}
