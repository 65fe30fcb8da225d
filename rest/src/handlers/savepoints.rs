//! Savepoints, stops and disposals: operations that are triggered, and then asked about by their id.

use super::jobs::check_cancel_allowed;
use super::{Answer, State, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::messages::TriggerResponse;
use crate::render;
use actix_web::HttpResponse;
use actix_web::web::{Bytes, Path, ServiceConfig};
use gateways::dispatcher::{DisposeSavepoint, OperationState, RequestSavepoint, TriggerSavepoint};
use model::{CheckpointKind, JobId, TriggerId};

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/jobs/{job}/savepoints", [on!(POST savepoint)]))
        .service(resource("/jobs/{job}/savepoints/{trigger}", [on!(GET status)]))
        .service(resource("/jobs/{job}/stop", [on!(POST stop)]))
        .service(resource("/savepoint-disposal", [on!(POST dispose)]))
        .service(resource("/savepoint-disposal/{trigger}", [on!(GET disposal_status)]));
}

async fn savepoint(state: State, job: Path<String>, body: Bytes) -> Answer {
    let job_id = decode::job_id(&job)?;
    let asked = decode::savepoint_request(&body)?;
    if asked.cancel {
        check_cancel_allowed(&state)?;
    }
    begin(&state, job_id, CheckpointKind::Savepoint, asked).await
}

async fn stop(state: State, job: Path<String>, body: Bytes) -> Answer {
    let (asked, drain) = decode::stop_request(&body)?;
    stop_job(&state, &job, asked, drain).await
}

pub(super) async fn stop_job(
    state: &State,
    job: &str,
    asked: decode::SavepointRequest,
    drain: bool,
) -> Answer {
    check_cancel_allowed(state)?;
    begin(state, decode::job_id(job)?, CheckpointKind::Stop { drain }, asked).await
}

/// Begins an operation that takes a savepoint or a checkpoint.
pub(super) async fn begin(
    state: &State,
    job_id: JobId,
    kind: CheckpointKind,
    asked: decode::SavepointRequest,
) -> Answer {
    let trigger_id = asked.trigger_id.unwrap_or_else(|| TriggerId(state.platform.random_u128()));
    let decode::SavepointRequest { directory, cancel, .. } = asked;
    let call = TriggerSavepoint { job_id, trigger_id, kind, directory, cancel };
    state.ask(call).await?;
    let request_id = trigger_id.to_string();
    Ok(HttpResponse::Accepted().json(TriggerResponse { request_id }))
}

/// Returns how an operation stands, whose job and id the path names: a checkpoint, or else a savepoint or stop.
pub(super) async fn state_of(
    state: &State,
    (job, trigger): (String, String),
    is_checkpoint: bool,
) -> Result<OperationState, ApiError> {
    let call = RequestSavepoint {
        job_id: Some(decode::job_id(&job)?),
        is_checkpoint,
        trigger_id: decode::trigger_id(&trigger)?,
    };
    state.ask(call).await
}

async fn status(state: State, path: Path<(String, String)>) -> Answer {
    ok(&render::operation(&state_of(&state, path.into_inner(), false).await?, true))
}

async fn dispose(state: State, body: Bytes) -> Answer {
    check_cancel_allowed(&state)?;
    let path = decode::disposal_request(&body)?;
    let trigger_id = TriggerId(state.platform.random_u128());
    state.ask(DisposeSavepoint { trigger_id, path }).await?;
    ok(&TriggerResponse { request_id: trigger_id.to_string() })
}

async fn disposal_status(state: State, trigger: Path<String>) -> Answer {
    let trigger_id = decode::trigger_id(&trigger)?;
    let call = RequestSavepoint { job_id: None, is_checkpoint: false, trigger_id };
    ok(&render::operation(&state.ask(call).await?, false))
}
