//! Serves the metric requests of vertices and subtasks.

use super::{Answer, State, jobs::details_of, ok, on, resource};
use crate::{decode, error::ApiError, render, render::Wanted};
use actix_web::{
    HttpRequest,
    web::{Path, ServiceConfig},
};
use gateways::job_master::JobDetails;
use model::JobVertexId;

/// The aggregations that `agg` may name.
const AGGREGATIONS: [&str; 4] = ["min", "max", "avg", "sum"];

pub(super) fn routes(config: &mut ServiceConfig) {
    let vertex = "/jobs/{job}/vertices/{vertex}";
    config
        .service(resource(&format!("{vertex}/metrics"), [on!(GET of_vertex)]))
        .service(resource(&format!("{vertex}/subtasks/metrics"), [on!(GET aggregated)]))
        .service(resource(
            &format!("{vertex}/subtasks/{{subtask}}/metrics"),
            [on!(GET of_subtask)],
        ));
}

async fn found(
    state: &State,
    job: &str,
    vertex: &str,
) -> Result<(JobDetails, JobVertexId), ApiError> {
    let id = decode::vertex_id(vertex)?;
    Ok((details_of(state, decode::job_id(job)?).await?, id))
}

fn absent(job: &JobDetails, what: &str) -> ApiError {
    ApiError::not_found(format!("job {} has no {what}", job.graph.job_id))
}

fn list<'a>(pairs: &'a [(String, String)], key: &str) -> Option<Vec<&'a str>> {
    pairs.iter().find(|(k, _)| k == key).map(|(_, names)| names.split(',').collect())
}

fn wanted(pairs: &[(String, String)]) -> Wanted<'_> {
    list(pairs, "get").map(|names| names.into_iter().collect())
}

async fn of_vertex(state: State, path: Path<(String, String)>, request: HttpRequest) -> Answer {
    let pairs = decode::query_pairs(request.query_string())?;
    let (job, vertex) = path.into_inner();
    let (details, id) = found(&state, &job, &vertex).await?;
    let metrics = render::vertex_metrics(&details, id, &wanted(&pairs));
    ok(&metrics.ok_or_else(|| absent(&details, &format!("vertex {id}")))?)
}

async fn of_subtask(
    state: State,
    path: Path<(String, String, String)>,
    request: HttpRequest,
) -> Answer {
    let pairs = decode::query_pairs(request.query_string())?;
    let (job, vertex, subtask) = path.into_inner();
    let number: u32 = subtask.parse().map_err(|_| {
        ApiError::bad_request(format!("'{subtask}' is not the number of a subtask"))
    })?;
    let (details, id) = found(&state, &job, &vertex).await?;
    let metrics = render::subtask_metrics(&details, id, number, &wanted(&pairs));
    ok(&metrics.ok_or_else(|| absent(&details, &format!("subtask {number} of vertex {id}")))?)
}

/// Aggregates metrics over subtasks: `subtasks=0,2-4` selects the subtasks, `agg=min,max,avg,sum`
/// the aggregations; each is complete if it is absent.
async fn aggregated(state: State, path: Path<(String, String)>, request: HttpRequest) -> Answer {
    let pairs = decode::query_pairs(request.query_string())?;
    let ranges = list(&pairs, "subtasks").map(|parts| parts.into_iter().map(range).collect());
    let ranges: Option<Vec<(u32, u32)>> = ranges.transpose()?;
    let kept = list(&pairs, "agg").unwrap_or_else(|| AGGREGATIONS.to_vec());
    if let Some(unknown) = kept.iter().find(|name| !AGGREGATIONS.contains(name)) {
        let known = AGGREGATIONS.join(", ");
        return Err(ApiError::bad_request(format!(
            "agg '{unknown}' is not known; possible: {known}"
        )));
    }
    let (job, vertex) = path.into_inner();
    let (details, id) = found(&state, &job, &vertex).await?;
    let chosen = |subtask: u32| {
        let within = |(first, last): &(u32, u32)| (*first..=*last).contains(&subtask);
        ranges.as_ref().is_none_or(|ranges| ranges.iter().any(within))
    };
    let metrics = render::aggregated_metrics(&details, id, chosen, &wanted(&pairs));
    let mut metrics = metrics.ok_or_else(|| absent(&details, &format!("vertex {id}")))?;
    for metric in &mut metrics {
        metric.keep(&kept);
    }
    ok(&metrics)
}

/// Reads the first and the last number of `3` or `1-4`.
fn range(text: &str) -> Result<(u32, u32), ApiError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let why = || format!("subtasks '{text}' is neither a number nor a range such as 0-3");
        text.trim().parse().map_err(|_| ApiError::bad_request(why()))
    };
    Ok((number(first)?, number(last)?))
}
