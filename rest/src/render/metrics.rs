//! The metrics of a vertex's subtasks: the runtime's own under Flink's names, and those of the program's functions.

use crate::messages::{AggregatedMetric, MetricSample};
use gateways::job_master::{JobDetails, SubtaskDetails};
use model::JobVertexId;
use std::collections::{BTreeMap, BTreeSet};

/// The names of the metrics whose values a request wants (its parameter `get`); `None`: it has no `get` and wants the names of all metrics,
/// without values. Names that no metric has are ignored.
pub type Wanted<'a> = Option<BTreeSet<&'a str>>;

/// Returns all metrics of one subtask, by name.
fn all_of(subtask: &SubtaskDetails) -> BTreeMap<&str, i128> {
    let io = &subtask.io;
    let own = [
        ("numBytesIn", io.bytes_in),
        ("numBytesOut", io.bytes_out),
        ("numRecordsIn", io.records_in),
        ("numRecordsOut", io.records_out),
    ];
    let functions = subtask.metrics.iter().map(|(name, n)| (name.as_str(), i128::from(*n)));
    own.into_iter().map(|(name, n)| (name, i128::from(n))).chain(functions).collect()
}

fn subtasks(job: &JobDetails, vertex: JobVertexId) -> Option<&[SubtaskDetails]> {
    job.vertices.iter().find(|v| v.id == vertex).map(|v| v.subtasks.as_slice())
}

fn samples(subtask: &SubtaskDetails, prefix: &str, wanted: &Wanted<'_>) -> Vec<MetricSample> {
    let named = all_of(subtask).into_iter().map(|(name, n)| (format!("{prefix}{name}"), n));
    named
        .filter(|(id, _)| wanted.as_ref().is_none_or(|names| names.contains(id.as_str())))
        .map(|(id, n)| MetricSample { id, value: wanted.is_some().then(|| n.to_string()) })
        .collect()
}

/// Renders the answer to `GET /jobs/:jobid/vertices/:vertexid/metrics`: the metrics of all subtasks, each named with the
/// subtask's index and a dot before (`0.numRecordsIn`); wanted names have this form, too. Wanted names that no subtask has are left out.
/// `None` if the job has no such vertex.
pub fn vertex_metrics(
    job: &JobDetails,
    vertex: JobVertexId,
    wanted: &Wanted<'_>,
) -> Option<Vec<MetricSample>> {
    let of = |s: &SubtaskDetails| samples(s, &format!("{}.", s.attempt.subtask), wanted);
    Some(subtasks(job, vertex)?.iter().flat_map(of).collect())
}

/// Renders the answer to `GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtask/metrics`: the metrics of the current
/// attempt of the subtask with the index `subtask`, from 0. Wanted names that it has not are left out. `None` if the job
/// has no such vertex or subtask.
pub fn subtask_metrics(
    job: &JobDetails,
    vertex: JobVertexId,
    subtask: u32,
    wanted: &Wanted<'_>,
) -> Option<Vec<MetricSample>> {
    let found = subtasks(job, vertex)?.iter().find(|s| s.attempt.subtask == subtask)?;
    Some(samples(found, "", wanted))
}

/// Renders the answer to `GET /jobs/:jobid/vertices/:vertexid/subtasks/metrics`: minimum, maximum, mean and sum of each
/// metric over the subtasks that have it and for which `chosen` (called once with each subtask's index, from 0) returns
/// true. If `wanted` is `None`, all metrics without values; wanted names that no chosen subtask has are left out. Returns `None` if
/// the job has no such vertex.
pub fn aggregated_metrics(
    job: &JobDetails,
    vertex: JobVertexId,
    chosen: impl Fn(u32) -> bool,
    wanted: &Wanted<'_>,
) -> Option<Vec<AggregatedMetric>> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for subtask in subtasks(job, vertex)?.iter().filter(|s| chosen(s.attempt.subtask)) {
        for (name, n) in all_of(subtask) {
            // Flink's numbers here are of 64 bits with a fraction.
            values.entry(name).or_default().push(n as f64);
        }
    }
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|names| names.contains(name));
    let metrics = values.into_iter().filter(|(name, _)| is_wanted(name));
    Some(metrics.map(|(name, values)| aggregated(name, &values, wanted.is_some())).collect())
}

fn aggregated(name: &str, values: &[f64], with_values: bool) -> AggregatedMetric {
    let sum: f64 = values.iter().sum();
    let value = |value: f64| with_values.then_some(value);
    AggregatedMetric {
        id: name.to_owned(),
        min: value(values.iter().copied().fold(f64::INFINITY, f64::min)),
        max: value(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        avg: value(sum / values.len().max(1) as f64),
        sum: value(sum),
    }
}
