//! Serves the requests under `/taskmanagers`.

use super::cluster::query_metrics;
use super::{Answer, State, logs, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::messages::{LogInfo, LogList, TaskManagers};
use crate::render;
use actix_web::HttpRequest;
use actix_web::web::{Path, ServiceConfig};
use futures::stream;
use gateways::EndpointAddress;
use gateways::Remote;
use gateways::metric_query::{MetricQueryGateway, QueryMetrics};
use gateways::resource_manager::{RequestTaskManagers, TaskManagerSummary};
use gateways::task_executor::{LogFile, ReadLog, RequestLogs, TaskExecutorGateway};
use std::time::Duration;

const LOG_CHUNK_BYTES: u64 = 1 << 18;
/// The metric with the bytes that a TaskManager and its program hosts use.
const MEMORY_USED: &str = "Status.Memory.Used";
/// Maximum time to wait for the metrics of a TaskManager; then its details are shown without them.
const METRICS_WITHIN: Duration = Duration::from_secs(2);

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/taskmanagers", [on!(GET list)]))
        .service(resource("/taskmanagers/{id}", [on!(GET details)]))
        .service(resource("/taskmanagers/{id}/metrics", [on!(GET metrics)]))
        .service(resource("/taskmanagers/{id}/logs", [on!(GET log_list)]))
        .service(resource("/taskmanagers/{id}/logs/{file}", [on!(GET log_file)]))
        .service(resource("/taskmanagers/{id}/log", [on!(GET main_log)]))
        .service(resource("/taskmanagers/{id}/stdout", [on!(GET stdout)]));
}

pub(super) async fn one(state: &State, id: &str) -> Result<TaskManagerSummary, ApiError> {
    state
        .ask_resource_manager(RequestTaskManagers {})
        .await?
        .into_iter()
        .find(|tm| tm.resource_id.as_str() == id)
        .ok_or_else(|| ApiError::not_found(format!("TaskManager '{id}' is not registered here")))
}

async fn list(state: State) -> Answer {
    let now = state.now_ms();
    let registered = state.ask_resource_manager(RequestTaskManagers {}).await?;
    let taskmanagers = registered.iter().map(|tm| render::task_manager(tm, now)).collect();
    ok(&TaskManagers { taskmanagers })
}

async fn details(state: State, id: Path<String>) -> Answer {
    let summary = one(&state, &id).await?;
    let used = memory_used(&state, &summary).await;
    ok(&render::task_manager_details(&summary, used, state.now_ms()))
}

fn metric_query(state: &State, summary: &TaskManagerSummary) -> Remote<MetricQueryGateway> {
    let address =
        EndpointAddress { node: summary.address.node.clone(), endpoint: "metric_query".to_owned() };
    state.rpc.gateway(&address, summary.session)
}

/// Asks a TaskManager for its memory in use, in bytes. Returns `None` if it does not answer in
/// time: its details are shown all the same, because it may be the very one that a user
/// investigates.
async fn memory_used(state: &State, summary: &TaskManagerSummary) -> Option<u64> {
    let ask = QueryMetrics { prefix: MEMORY_USED.to_owned() };
    let within = state.settings.answer_within.min(METRICS_WITHIN);
    let values = metric_query(state, summary).ask_within(ask, within).await.ok()?;
    let value = values.iter().find(|v| v.name == MEMORY_USED)?.value;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes; a float outside of the range becomes its end"
    )]
    Some(value as u64)
}

async fn metrics(state: State, id: Path<String>, request: HttpRequest) -> Answer {
    let summary = one(&state, &id).await?;
    let gateway = metric_query(&state, &summary);
    ok(&query_metrics(&state, &gateway, request.query_string()).await?)
}

async fn executor(state: &State, id: &str) -> Result<Remote<TaskExecutorGateway>, ApiError> {
    let summary = one(state, id).await?;
    Ok(state.rpc.gateway(&summary.address, summary.session))
}

/// Asks the TaskManager for its log files and those of its program hosts.
async fn files_of(state: &State, id: &str) -> Result<Vec<LogFile>, ApiError> {
    Ok(executor(state, id).await?.ask_within(RequestLogs {}, state.settings.answer_within).await?)
}

async fn log_list(state: State, id: Path<String>) -> Answer {
    let logs = files_of(&state, &id)
        .await?
        .into_iter()
        .map(|file| LogInfo { name: file.name, size: file.size, mtime: file.modified_ms })
        .collect();
    ok(&LogList { logs })
}

async fn log_file(state: State, path: Path<(String, String)>) -> Answer {
    let (id, file) = path.into_inner();
    serve(&state, &id, decode::plain_file_name(&file)?).await
}

async fn main_log(state: State, id: Path<String>) -> Answer {
    serve_by_suffix(&state, &id, ".log").await
}

async fn stdout(state: State, id: Path<String>) -> Answer {
    serve_by_suffix(&state, &id, ".out").await
}

/// Serves the TaskManager's own log file, the one with that suffix in its name; hosts of jobs have
/// files of their own.
async fn serve_by_suffix(state: &State, id: &str, suffix: &str) -> Answer {
    let file = files_of(state, id)
        .await?
        .into_iter()
        .filter(|f| f.name.ends_with(suffix))
        .min_by_key(|f| (!f.name.contains("taskmanager"), f.name.len()))
        .ok_or_else(logs::none_here)?;
    serve(state, id, &file.name).await
}

async fn serve(state: &State, id: &str, name: &str) -> Answer {
    let gateway = executor(state, id).await?;
    let within = state.settings.answer_within;
    let read = move |offset: u64, name: String, gateway: Remote<TaskExecutorGateway>| async move {
        let ask = ReadLog { name, offset, max: LOG_CHUNK_BYTES };
        gateway.ask_within(ask, within).await.map_err(ApiError::from)
    };
    // The first part is asked for before the answer's head goes out, so that an absent file is a 404.
    let first = read(0, name.to_owned(), gateway.clone()).await?;
    let rest = stream::try_unfold(
        (first.len() as u64, first.is_empty(), name.to_owned()),
        move |(offset, ended, name)| {
            let gateway = gateway.clone();
            async move {
                if ended {
                    return Ok(None);
                }
                let bytes = read(offset, name.clone(), gateway).await?.into_vec();
                let next = (offset + bytes.len() as u64, bytes.is_empty(), name);
                Ok((!bytes.is_empty()).then(|| (bytes::Bytes::from(bytes), next)))
            }
        },
    );
    let head = stream::once(async move { Ok(bytes::Bytes::from(first.into_vec())) });
    logs::streamed(futures::StreamExt::chain(head, rest))
}
