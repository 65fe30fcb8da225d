//! Serves the requests under `/jobs/:jobid/checkpoints`.

use super::savepoints::{begin, state_of};
use super::{Answer, State, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::render;
use actix_web::web::{Bytes, Path, ServiceConfig};
use gateways::dispatcher::RequestJobCheckpoints;
use model::{CheckpointKind, CheckpointReport, CheckpointStats, JobId};

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/jobs/{job}/checkpoints", [on!(GET statistics), on!(POST trigger)]))
        .service(resource("/jobs/{job}/checkpoints/config", [on!(GET settings)]))
        .service(resource("/jobs/{job}/checkpoints/details/{checkpoint}", [on!(GET details)]))
        .service(resource(
            "/jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}",
            [on!(GET subtasks)],
        ))
        // Behind the paths that an id could be taken for.
        .service(resource("/jobs/{job}/checkpoints/{trigger}", [on!(GET status)]));
}

async fn report_of(state: &State, job_id: JobId) -> Result<CheckpointReport, ApiError> {
    let mut report: CheckpointReport = state.ask(RequestJobCheckpoints { job_id }).await?;
    report.name_folders(job_id);
    Ok(report)
}

async fn statistics(state: State, job: Path<String>) -> Answer {
    ok(&render::checkpoints(&report_of(&state, decode::job_id(&job)?).await?))
}

/// Returns what is known of one checkpoint of a job, both as the path names them.
async fn stats_of(state: &State, job: &str, checkpoint: &str) -> Result<CheckpointStats, ApiError> {
    let job_id = decode::job_id(job)?;
    let number: u64 = checkpoint.parse().map_err(|_| {
        ApiError::bad_request(format!("'{checkpoint}' is not the number of a checkpoint"))
    })?;
    let report = report_of(state, job_id).await?;
    report.find(number).cloned().ok_or_else(|| {
        ApiError::not_found(format!(
            "job {job_id} has no checkpoint {number} among the newest {} (web.checkpoints.history)",
            report.history.len()
        ))
    })
}

async fn details(state: State, path: Path<(String, String)>) -> Answer {
    let (job, checkpoint) = path.into_inner();
    ok(&render::checkpoint(&stats_of(&state, &job, &checkpoint).await?))
}

async fn subtasks(state: State, path: Path<(String, String, String)>) -> Answer {
    let (job, checkpoint, vertex) = path.into_inner();
    let vertex_id = decode::vertex_id(&vertex)?;
    let stats = stats_of(&state, &job, &checkpoint).await?;
    let found = render::checkpoint_of_vertex(&stats, vertex_id);
    ok(&found.ok_or_else(|| {
        ApiError::not_found(format!(
            "job {job} has no vertex {vertex_id} in checkpoint {checkpoint}"
        ))
    })?)
}

async fn trigger(state: State, job: Path<String>, body: Bytes) -> Answer {
    let job_id = decode::job_id(&job)?;
    let trigger_id = decode::checkpoint_request(&body)?;
    let asked = decode::SavepointRequest { trigger_id, ..decode::SavepointRequest::default() };
    begin(&state, job_id, CheckpointKind::Checkpoint, asked).await
}

async fn status(state: State, path: Path<(String, String)>) -> Answer {
    ok(&render::triggered_checkpoint(&state_of(&state, path.into_inner(), true).await?))
}

async fn settings(state: State, job: Path<String>) -> Answer {
    let job_id = decode::job_id(&job)?;
    let settings = report_of(&state, job_id).await?.settings;
    ok(&render::checkpoint_config(&settings))
}
