//! Serves `log-url` of the JobManager and of TaskManagers: the page on which users read their log
//! files. On YARN that is a page of the NodeManager, which outlives the process; otherwise a path
//! of this endpoint. No file is read here.

use super::taskmanagers::one;
use super::{Answer, State, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::messages::LogUrl;
use actix_web::HttpRequest;
use actix_web::web::{Path, ServiceConfig};
use gateways::dispatcher::RequestJobStatus;

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/jobs/{job}/jobmanager/log-url", [on!(GET of_job_manager)]))
        .service(resource("/jobs/{job}/taskmanagers/{id}/log-url", [on!(GET of_task_manager)]));
}

/// Fails if the job is unknown.
async fn check_job(state: &State, job: &str) -> Result<(), ApiError> {
    state.ask(RequestJobStatus { job_id: decode::job_id(job)? }).await.map(|_| ())
}

/// Returns the address under which the client has reached this endpoint, with another path.
fn here(request: &HttpRequest, path: &str) -> String {
    let reached = request.connection_info();
    format!("{}://{}{path}", reached.scheme(), reached.host())
}

async fn of_job_manager(state: State, job: Path<String>, request: HttpRequest) -> Answer {
    check_job(&state, &job).await?;
    let page = state.settings.log_page.clone();
    ok(&LogUrl { url: page.unwrap_or_else(|| here(&request, "/jobmanager/log")) })
}

async fn of_task_manager(
    state: State,
    path: Path<(String, String)>,
    request: HttpRequest,
) -> Answer {
    let (job, id) = path.into_inner();
    check_job(&state, &job).await?;
    let page = one(&state, &id).await?.facts.log_page;
    ok(&LogUrl { url: page.unwrap_or_else(|| here(&request, &format!("/taskmanagers/{id}/log"))) })
}
