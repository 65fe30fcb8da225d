//! `/overview`, `/config`, `/cluster`, `/jobmanager/*`.

use super::{Answer, State, ok, on, resource};
use crate::decode;
use crate::error::ApiError;
use crate::handlers::logs;
use crate::messages::{ClusterOverview, DashboardConfiguration, EmptyBody, Features, MetricSample};
use actix_web::HttpRequest;
use actix_web::web::{Path, ServiceConfig};
use gateways::Remote;
use gateways::dispatcher::{RequestJobsOverview, ShutDownCluster};
use gateways::metric_query::{MetricQueryGateway, QueryMetrics};
use gateways::resource_manager::RequestResourceOverview;
use model::JobStatus;

pub(super) fn routes(config: &mut ServiceConfig) {
    config
        .service(resource("/overview", [on!(GET overview)]))
        .service(resource("/config", [on!(GET dashboard_config)]))
        .service(resource("/cluster", [on!(DELETE shut_down)]))
        .service(resource("/jobmanager/config", [on!(GET configuration)]))
        .service(resource("/jobmanager/metrics", [on!(GET metrics)]))
        .service(resource("/jobmanager/logs", [on!(GET log_list)]))
        .service(resource("/jobmanager/logs/{file}", [on!(GET log_file)]))
        .service(resource("/jobmanager/log", [on!(GET main_log)]))
        .service(resource("/jobmanager/stdout", [on!(GET stdout)]));
}

async fn overview(state: State) -> Answer {
    let jobs = state.ask(RequestJobsOverview {});
    let resources = state.ask_resource_manager(RequestResourceOverview {});
    let (jobs, resources) = futures::try_join!(jobs, resources)?;
    let running = jobs.jobs.iter().filter(|job| !job.status.is_globally_terminal()).count();
    let ended = |status: JobStatus| {
        let listed = jobs.jobs.iter().filter(|job| job.status == status).count() as u64;
        let forgotten = jobs.forgotten.get(&status).copied().unwrap_or(0);
        u32::try_from(listed.saturating_add(forgotten)).unwrap_or(u32::MAX)
    };
    ok(&ClusterOverview {
        taskmanagers: resources.task_managers,
        slots_total: resources.slots,
        slots_available: resources.free_slots,
        taskmanagers_blocked: resources.blocked_task_managers,
        slots_free_and_blocked: resources.blocked_free_slots,
        jobs_running: u32::try_from(running).unwrap_or(u32::MAX),
        jobs_finished: ended(JobStatus::Finished),
        jobs_cancelled: ended(JobStatus::Canceled),
        jobs_failed: ended(JobStatus::Failed),
        flink_version: state.settings.version.clone(),
        flink_commit: state.settings.commit.clone(),
    })
}

async fn dashboard_config(state: State) -> Answer {
    ok(&DashboardConfiguration {
        refresh_interval: state.settings.refresh_interval_ms,
        timezone_name: "Coordinated Universal Time".to_owned(),
        timezone_offset: 0,
        flink_version: state.settings.version.clone(),
        flink_revision: state.settings.commit.clone(),
        features: Features {
            web_submit: state.settings.submit_refused.is_none(),
            web_cancel: state.settings.cancel_allowed,
            web_rescale: false,
            web_history: false,
        },
    })
}

async fn shut_down(state: State) -> Answer {
    state.ask(ShutDownCluster {}).await?;
    ok(&EmptyBody {})
}

async fn configuration(state: State) -> Answer {
    ok(&state.settings.configuration)
}

async fn metrics(state: State, request: HttpRequest) -> Answer {
    let local = crate::services::metric_query_of(&state.rpc, &state.blobs);
    ok(&query_metrics(&state, &local, request.query_string()).await?)
}

/// Answers with the names of all metrics, or with the values of those that `get` names.
pub(super) async fn query_metrics(
    state: &State,
    gateway: &Remote<MetricQueryGateway>,
    query: &str,
) -> Result<Vec<MetricSample>, ApiError> {
    let pairs = decode::query_pairs(query)?;
    let wanted: Option<Vec<&str>> =
        pairs.iter().find(|(key, _)| key == "get").map(|(_, names)| names.split(',').collect());
    let values = gateway
        .ask_within(QueryMetrics { prefix: String::new() }, state.settings.answer_within)
        .await?;
    Ok(values
        .into_iter()
        .filter(|v| wanted.as_ref().is_none_or(|names| names.contains(&v.name.as_str())))
        .map(|v| MetricSample { id: v.name, value: wanted.is_some().then(|| v.value.to_string()) })
        .collect())
}

async fn log_list(state: State) -> Answer {
    ok(&logs::list(state.settings.log_dir.as_deref()).await?)
}

async fn log_file(state: State, file: Path<String>) -> Answer {
    logs::serve(state.settings.log_dir.as_deref(), &file).await
}

async fn main_log(state: State) -> Answer {
    let file = state.settings.log_file.clone().ok_or_else(logs::none_here)?;
    logs::serve(state.settings.log_dir.as_deref(), &file).await
}

async fn stdout(state: State) -> Answer {
    let file = state
        .settings
        .log_file
        .as_deref()
        .and_then(|log| log.strip_suffix(".log"))
        .map(|stem| format!("{stem}.out"))
        .ok_or_else(logs::none_here)?;
    logs::serve(state.settings.log_dir.as_deref(), &file).await
}
