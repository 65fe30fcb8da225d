//! Serves the requests under `/jobs`, except those about checkpoints and metrics.

use super::{Answer, State, ok, on, resource};
use crate::decode::{self, OperatorName};
use crate::error::ApiError;
use crate::kinds::{self, Kinds};
use crate::messages::{CoordinationResponseBody, EmptyBody, JobStatusInfo, PlanResponse};
use crate::render;
use actix_web::http::Method;
use actix_web::web::{self, Bytes, Data, Path, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use gateways::dispatcher::{
    CancelJob, ClientHeartbeat, DeliverCoordinationRequest, RequestJobDetails, RequestJobResult,
    RequestJobStatus, RequestJobsOverview,
};
use gateways::job_master::JobDetails;
use model::{JobId, OperatorId};
use std::time::Duration;

/// Failures that are shown where `maxExceptions` is not given: Flink's number.
const EXCEPTIONS_DEFAULT: usize = 20;
/// Longest wait that `execution-result?wait=` may ask for.
const WAIT_MS_MAX: u64 = 60_000;

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/jobs", [on!(GET ids)]))
        .service(resource("/jobs/overview", [on!(GET overview)]))
        .service(resource("/jobs/{job}", [on!(GET details), on!(PATCH cancel)]))
        .service(resource("/jobs/{job}/plan", [on!(GET plan)]))
        // HEAD is to change nothing.
        .service(resource("/jobs/{job}/yarn-cancel", [(Method::GET, web::get().to(yarn_cancel))]))
        .service(resource("/jobs/{job}/yarn-stop", [(Method::GET, web::get().to(yarn_stop))]))
        .service(resource("/jobs/{job}/clientHeartbeat", [on!(PATCH client_heartbeat)]))
        .service(resource("/jobs/{job}/status", [on!(GET status)]))
        .service(resource("/jobs/{job}/exceptions", [on!(GET exceptions)]))
        .service(resource("/jobs/{job}/execution-result", [on!(GET execution_result)]))
        .service(resource("/jobs/{job}/vertices/{vertex}", [on!(GET vertex)]))
        .service(resource("/jobs/{job}/coordinators/{operator}", [on!(POST coordinate)]));
}

async fn ids(state: State) -> Answer {
    ok(&render::job_ids(&state.ask(RequestJobsOverview {}).await?.jobs))
}

async fn overview(state: State) -> Answer {
    let jobs = state.ask(RequestJobsOverview {}).await?;
    ok(&render::jobs_overview(&jobs.jobs, state.now_ms()))
}

pub(super) async fn details_of(state: &State, job_id: JobId) -> Result<JobDetails, ApiError> {
    state.ask(RequestJobDetails { job_id }).await
}

async fn details(state: State, job: Path<String>) -> Answer {
    let details = details_of(&state, decode::job_id(&job)?).await?;
    ok(&render::job_details(&details, state.now_ms()))
}

async fn plan(state: State, job: Path<String>) -> Answer {
    let details = details_of(&state, decode::job_id(&job)?).await?;
    ok(&PlanResponse { plan: render::plan(&details.graph) })
}

async fn status(state: State, job: Path<String>) -> Answer {
    let status = state.ask(RequestJobStatus { job_id: decode::job_id(&job)? }).await?;
    ok(&JobStatusInfo { status: status.to_string() })
}

async fn exceptions(state: State, job: Path<String>, request: HttpRequest) -> Answer {
    let pairs = decode::query_pairs(request.query_string())?;
    let max = number(&pairs, "maxExceptions")?.unwrap_or(EXCEPTIONS_DEFAULT as u64);
    let details = details_of(&state, decode::job_id(&job)?).await?;
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    ok(&render::job_exceptions(&details, max))
}

/// Answers with the result of a job. With `?wait=MS` (not Flink's) the answer comes when the job
/// has ended, at the latest after that many milliseconds.
async fn execution_result(
    state: State,
    job: Path<String>,
    request: HttpRequest,
    kinds: Data<Kinds>,
) -> Answer {
    let pairs = decode::query_pairs(request.query_string())?;
    let wait_ms = number(&pairs, "wait")?.unwrap_or(0).min(WAIT_MS_MAX);
    let job_id = decode::job_id(&job)?;
    let (dispatcher, answer_within) = (state.dispatcher()?, state.settings.answer_within);
    let ask = |wait_ms| {
        let within = answer_within + Duration::from_millis(wait_ms);
        dispatcher.ask_within(RequestJobResult { job_id, wait_ms }, within)
    };
    let waits = (wait_ms > 0).then(|| kinds.polls.wait(kinds::counted(request.peer_addr())));
    let result = match waits.flatten() {
        // Answered at once with what is known, as without a wait.
        None => ask(0).await?,
        Some((_place, gives_way)) => tokio::select! {
            biased;
            result = ask(wait_ms) => result?,
            _ = gives_way => ask(0).await?,
        },
    };
    ok(&render::execution_result(&result))
}

fn number(pairs: &[(String, String)], key: &str) -> Result<Option<u64>, ApiError> {
    pairs
        .iter()
        .find(|(k, _)| k == key)
        .map(|(_, v)| {
            v.parse().map_err(|_| ApiError::bad_request(format!("{key} '{v}' is not a number")))
        })
        .transpose()
}

async fn vertex(state: State, path: Path<(String, String)>) -> Answer {
    let (job, vertex) = path.into_inner();
    let id = vertex
        .parse()
        .map_err(|e: model::ids::ParseIdError| ApiError::bad_request(e.to_string()))?;
    let details = details_of(&state, decode::job_id(&job)?).await?;
    let rendered = render::vertex_details(&details, id, state.now_ms()).ok_or_else(|| {
        ApiError::not_found(format!("job {} has no vertex {id}", details.graph.job_id))
    })?;
    ok(&rendered)
}

async fn cancel(state: State, job: Path<String>, request: HttpRequest) -> Answer {
    let pairs = decode::query_pairs(request.query_string())?;
    let mode = pairs.iter().find(|(k, _)| k == "mode").map(|(_, v)| v.as_str());
    if !matches!(mode, None | Some("cancel")) {
        return Err(ApiError::bad_request(format!(
            "mode '{}' is not known; possible: cancel",
            mode.unwrap_or_default()
        )));
    }
    cancel_job(&state, &job).await
}

async fn cancel_job(state: &State, job: &str) -> Answer {
    check_cancel_allowed(state)?;
    state.ask(CancelJob { job_id: decode::job_id(job)? }).await?;
    Ok(HttpResponse::Accepted().json(EmptyBody {}))
}

/// Cancels in answer to GET, because YARN's proxy forwards no PATCH.
async fn yarn_cancel(state: State, job: Path<String>) -> Answer {
    check_protected(&state)?;
    cancel_job(&state, &job).await
}

/// Stops in answer to GET, with a savepoint in the configured directory.
async fn yarn_stop(state: State, job: Path<String>) -> Answer {
    check_protected(&state)?;
    super::savepoints::stop_job(&state, &job, decode::SavepointRequest::default(), false).await
}

/// Refuses a GET that changes something on an endpoint without access rules (a token, or the
/// proxy's cookie): there any page could make a browser send it.
fn check_protected(state: &State) -> Result<(), ApiError> {
    match state.settings.access {
        Some(_) => Ok(()),
        None => {
            Err(ApiError::not_found("this path is served on YARN only; PATCH /jobs/:jobid cancels"))
        }
    }
}

pub(super) fn check_cancel_allowed(state: &State) -> Result<(), ApiError> {
    match state.settings.cancel_allowed {
        true => Ok(()),
        false => Err(ApiError::forbidden("cancelling by REST is switched off (web.cancel.enable)")),
    }
}

/// Binds a job to its client for a time; when the beats stop, the job is cancelled.
async fn client_heartbeat(state: State, job: Path<String>, body: Bytes) -> Answer {
    check_cancel_allowed(&state)?;
    let job_id = decode::job_id(&job)?;
    let timeout_ms = decode::client_heartbeat(&body, state.now_ms())?;
    state.ask(ClientHeartbeat { job_id, timeout_ms }).await?;
    Ok(HttpResponse::Accepted().json(EmptyBody {}))
}

async fn coordinate(state: State, path: Path<(String, String)>, body: Bytes) -> Answer {
    let (job, operator) = path.into_inner();
    let job_id = decode::job_id(&job)?;
    let request = decode::coordination_request(&body)?;
    let operator = match decode::operator_name(&operator) {
        OperatorName::Id(id) => id,
        OperatorName::Uid(uid) => operator_of(&state, job_id, &uid).await?,
    };
    let answer = state.ask(DeliverCoordinationRequest { job_id, operator, request }).await?;
    ok(&CoordinationResponseBody { serialized_coordination_result: decode::to_base64(&answer) })
}

async fn operator_of(state: &State, job_id: JobId, uid: &str) -> Result<OperatorId, ApiError> {
    details_of(state, job_id)
        .await?
        .graph
        .nodes
        .iter()
        .find(|node| node.uid.as_deref() == Some(uid))
        .map(|node| node.operator_id)
        .ok_or_else(|| {
            ApiError::not_found(format!("job {job_id} has no operator with uid '{uid}'"))
        })
}
