//! Serves the requests under `/jobs/:jobid/checkpoints`.

use super::{Answer, State, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::render;
use actix_web::web::{Path, ServiceConfig};
use gateways::dispatcher::RequestJobCheckpoints;
use model::{CheckpointReport, JobId};

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/jobs/{job}/checkpoints", [on!(GET statistics)]))
        .service(resource("/jobs/{job}/checkpoints/config", [on!(GET settings)]))
        .service(resource("/jobs/{job}/checkpoints/details/{checkpoint}", [on!(GET details)]));
}

async fn report_of(state: &State, job_id: JobId) -> Result<CheckpointReport, ApiError> {
    let request = RequestJobCheckpoints { job_id };
    Ok(state.dispatcher()?.ask_within(request, state.settings.answer_within).await?)
}

async fn statistics(state: State, job: Path<String>) -> Answer {
    ok(&render::checkpoints(&report_of(&state, decode::job_id(&job)?).await?))
}

async fn details(state: State, path: Path<(String, String)>) -> Answer {
    let (job, checkpoint) = path.into_inner();
    let job_id = decode::job_id(&job)?;
    let number: u64 = checkpoint.parse().map_err(|_| {
        ApiError::bad_request(format!("'{checkpoint}' is not the number of a checkpoint"))
    })?;
    let report = report_of(&state, job_id).await?;
    let stats = report.find(number).ok_or_else(|| {
        ApiError::not_found(format!(
            "job {job_id} has no checkpoint {number} among the newest {} (web.checkpoints.history)",
            report.history.len()
        ))
    })?;
    ok(&render::checkpoint(stats))
}

async fn settings(state: State, job: Path<String>) -> Answer {
    let job_id = decode::job_id(&job)?;
    let settings = report_of(&state, job_id).await?.settings;
    ok(&render::checkpoint_config(&settings))
}
