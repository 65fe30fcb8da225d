//! Renders jobs, vertices, plans and failures as Flink's JSON.

use super::{millis, throwable::failure};
use crate::messages::{
    ExceptionEntry, ExceptionHistory, ExecutionResult, IoMetrics, JobDetailsInfo, JobExceptions,
    JobExecutionResult, JobIdWithStatus, JobIds, JobOverview, JobPlan, JobVertexInfo, JobsOverview,
    PlanInput, PlanNode, PlanOperator, QueueStatus, SubtaskInfo, VertexDetailsInfo,
};
use gateways::dispatcher::{JobResult, JobSummary};
use gateways::job_master::{FailureRecord, JobDetails, SubtaskDetails, TaskIo, VertexDetails};
use model::{ExecutionState, JobGraph, JobStatus, JobVertex, JobVertexId, ShipStrategy};
use sha2::Digest as _;
use std::collections::BTreeMap;

/// Flink's order of job states.
const JOB_STATES: [JobStatus; 11] = [
    JobStatus::Initializing,
    JobStatus::Created,
    JobStatus::Running,
    JobStatus::Failing,
    JobStatus::Failed,
    JobStatus::Cancelling,
    JobStatus::Canceled,
    JobStatus::Finished,
    JobStatus::Restarting,
    JobStatus::Suspended,
    JobStatus::Reconciling,
];

/// Shown where a subtask has no TaskManager yet.
const UNASSIGNED: &str = "(unassigned)";

/// Renders the answer to `GET /jobs`: the ids and states of these jobs.
pub fn job_ids(jobs: &[JobSummary]) -> JobIds {
    JobIds {
        jobs: jobs
            .iter()
            .map(|job| JobIdWithStatus {
                id: job.job_id.to_string(),
                status: job.status.to_string(),
            })
            .collect(),
    }
}

/// Renders the answer to `GET /jobs/overview`, in the order of `jobs`. `now_ms` (Unix milliseconds) is the end of the
/// durations of jobs that have not ended.
pub fn jobs_overview(jobs: &[JobSummary], now_ms: u64) -> JobsOverview {
    JobsOverview { jobs: jobs.iter().map(|job| job_overview(job, now_ms)).collect() }
}

/// Renders one job of `GET /jobs/overview`. `now_ms` (Unix milliseconds) is the end of its duration if the job has not
/// ended.
pub fn job_overview(job: &JobSummary, now_ms: u64) -> JobOverview {
    let mut tasks: BTreeMap<String, u32> =
        ExecutionState::ALL.iter().map(|state| (state.as_str().to_ascii_lowercase(), 0)).collect();
    tasks.insert("reconciling".to_owned(), 0);
    let mut total = 0_u32;
    for (state, count) in &job.tasks {
        tasks.insert(state.as_str().to_ascii_lowercase(), *count);
        total = total.saturating_add(*count);
    }
    tasks.insert("total".to_owned(), total);
    JobOverview {
        jid: job.job_id.to_string(),
        name: job.name.clone(),
        start_time: millis(job.start_ms),
        end_time: job.end_ms.map_or(-1, millis),
        duration: millis(job.end_ms.unwrap_or(now_ms).saturating_sub(job.start_ms)),
        state: job.status.to_string(),
        last_modification: millis(job.last_modification_ms),
        tasks,
        pending_operators: 0,
    }
}

/// Renders the answer to `GET /jobs/:jobid`: state, vertices and plan. `now_ms` (Unix milliseconds) is shown as the
/// answer's time if the job has ended; otherwise the time at which its JobMaster made the details, up to which durations
/// count.
pub fn job_details(job: &JobDetails, now_ms: u64) -> JobDetailsInfo {
    let vertices: Vec<JobVertexInfo> = job
        .graph
        .vertices
        .iter()
        .map(|vertex| vertex_info(vertex, details_of(job, vertex.id), job.now_ms))
        .collect();
    let mut status_counts = state_counts();
    for vertex in &vertices {
        if let Some(count) = status_counts.get_mut(&vertex.status) {
            *count += 1;
        }
    }
    let timestamps = JOB_STATES
        .iter()
        .map(|state| {
            let at = job.timestamps.get(state).copied().unwrap_or(0);
            (state.to_string(), millis(at))
        })
        .collect();
    let end = job.end_ms.unwrap_or(job.now_ms);
    JobDetailsInfo {
        jid: job.graph.job_id.to_string(),
        name: job.graph.name.clone(),
        is_stoppable: false,
        state: job.status.to_string(),
        job_type: "STREAMING".to_owned(),
        start_time: millis(job.start_ms),
        end_time: job.end_ms.map_or(-1, millis),
        duration: millis(end.saturating_sub(job.start_ms)),
        max_parallelism: job
            .graph
            .vertices
            .iter()
            .map(|v| i64::from(v.max_parallelism))
            .min()
            .unwrap_or(-1),
        now: millis(now_of(job, now_ms)),
        timestamps,
        vertices,
        status_counts,
        pending_operators: 0,
        plan: plan(&job.graph),
    }
}

/// Returns the time of the answer: details of a job that has ended were made at its end, while
/// clients draw their time lines up to now.
fn now_of(job: &JobDetails, now_ms: u64) -> u64 {
    if job.end_ms.is_some() { now_ms.max(job.now_ms) } else { job.now_ms }
}

fn details_of(job: &JobDetails, id: JobVertexId) -> &[SubtaskDetails] {
    job.vertices
        .iter()
        .find(|details| details.id == id)
        .map_or(&[], |details: &VertexDetails| details.subtasks.as_slice())
}

fn state_counts() -> BTreeMap<String, u32> {
    let mut counts: BTreeMap<String, u32> =
        ExecutionState::ALL.iter().map(|state| (state.to_string(), 0)).collect();
    counts.insert("RECONCILING".to_owned(), 0);
    counts
}

/// Returns the id of a slot sharing group: 32 hexadecimal digits, as Flink's clients decode it, that follow from its name.
fn slot_sharing_group_id(name: &str) -> String {
    let digest = sha2::Sha256::digest(name.as_bytes());
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn vertex_info(vertex: &JobVertex, subtasks: &[SubtaskDetails], now_ms: u64) -> JobVertexInfo {
    let mut tasks = state_counts();
    for subtask in subtasks {
        if let Some(count) = tasks.get_mut(subtask.state.as_str()) {
            *count += 1;
        }
    }
    let start = subtasks.iter().filter_map(started_ms).min();
    let ended = !subtasks.is_empty() && subtasks.iter().all(|s| s.state.is_terminal());
    let end = ended.then(|| subtasks.iter().filter_map(ended_ms).max()).flatten();
    JobVertexInfo {
        id: vertex.id.to_string(),
        slot_sharing_group_id: slot_sharing_group_id(&vertex.slot_sharing_group),
        name: vertex.name.clone(),
        max_parallelism: vertex.max_parallelism,
        parallelism: vertex.parallelism,
        status: aggregate_state(subtasks).to_string(),
        start_time: start.map_or(-1, millis),
        end_time: end.map_or(-1, millis),
        duration: start.map_or(-1, |s| millis(end.unwrap_or(now_ms).saturating_sub(s))),
        tasks,
        metrics: sum_io(subtasks.iter().map(|s| &s.io), true),
    }
}

/// Derives the state of a vertex from those of its subtasks, by Flink's order of precedence.
fn aggregate_state(subtasks: &[SubtaskDetails]) -> ExecutionState {
    let any = |state| subtasks.iter().any(|s| s.state == state);
    for state in [
        ExecutionState::Failed,
        ExecutionState::Canceling,
        ExecutionState::Canceled,
        ExecutionState::Initializing,
        ExecutionState::Running,
    ] {
        if any(state) {
            return state;
        }
    }
    if any(ExecutionState::Finished) {
        if subtasks.iter().all(|s| s.state == ExecutionState::Finished) {
            return ExecutionState::Finished;
        }
        return ExecutionState::Running;
    }
    if any(ExecutionState::Deploying) {
        return ExecutionState::Deploying;
    }
    if any(ExecutionState::Scheduled) {
        return ExecutionState::Scheduled;
    }
    ExecutionState::Created
}

fn started_ms(subtask: &SubtaskDetails) -> Option<u64> {
    subtask.timestamps.get(&ExecutionState::Deploying).copied().filter(|ms| *ms > 0)
}

fn ended_ms(subtask: &SubtaskDetails) -> Option<u64> {
    if !subtask.state.is_terminal() {
        return None;
    }
    subtask.timestamps.get(&subtask.state).copied()
}

fn sum_io<'a>(parts: impl Iterator<Item = &'a TaskIo>, complete: bool) -> IoMetrics {
    let mut sum = IoMetrics {
        read_bytes_complete: complete,
        write_bytes_complete: complete,
        read_records_complete: complete,
        write_records_complete: complete,
        accumulated_busy_time: f64::NAN.to_string(),
        ..IoMetrics::default()
    };
    for io in parts {
        sum.read_bytes = sum.read_bytes.saturating_add(io.bytes_in);
        sum.write_bytes = sum.write_bytes.saturating_add(io.bytes_out);
        sum.read_records = sum.read_records.saturating_add(io.records_in);
        sum.write_records = sum.write_records.saturating_add(io.records_out);
    }
    sum
}

/// Renders a job graph as Flink's plan, for `/jobs/:jobid` and the `plan` paths: vertices in reverse topological order, sinks
/// first, each with its operators and the edges that end at it.
pub fn plan(graph: &JobGraph) -> JobPlan {
    let nodes = graph.vertices.iter().rev().map(|vertex| plan_node(graph, vertex)).collect();
    JobPlan {
        jid: graph.job_id.to_string(),
        name: graph.name.clone(),
        kind: "STREAMING".to_owned(),
        nodes,
    }
}

fn plan_node(graph: &JobGraph, vertex: &JobVertex) -> PlanNode {
    let operators = graph
        .nodes
        .iter()
        .filter(|node| vertex.nodes.contains(&node.id))
        .map(|node| PlanOperator {
            id: node.operator_id.to_string(),
            uid: node.uid.clone(),
            kind: node.kind.clone(),
            name: node.name.clone(),
            output: node.output.clone(),
            coordinated: node.coordinated,
        })
        .collect();
    let inputs = graph
        .inputs_of(vertex.id)
        .map(|edge| PlanInput {
            num: edge.input,
            id: edge.from.to_string(),
            ship_strategy: ship_name(edge.ship).to_owned(),
            exchange: "pipelined_bounded".to_owned(),
        })
        .collect();
    PlanNode {
        id: vertex.id.to_string(),
        parallelism: vertex.parallelism,
        operator: String::new(),
        operator_strategy: String::new(),
        description: vertex.name.clone(),
        slot_sharing_group: vertex.slot_sharing_group.clone(),
        operators,
        inputs,
        optimizer_properties: String::new(),
    }
}

fn ship_name(ship: ShipStrategy) -> &'static str {
    match ship {
        ShipStrategy::Forward => "FORWARD",
        ShipStrategy::Hash => "HASH",
        ShipStrategy::Rebalance => "REBALANCE",
        ShipStrategy::Broadcast => "BROADCAST",
        ShipStrategy::Custom => "CUSTOM",
    }
}

/// Renders the answer to `GET /jobs/:jobid/vertices/:vertexid`: the vertex and its subtasks; `None` if the job has no such
/// vertex. `now_ms` (Unix milliseconds) is shown as the answer's time if the job has ended; otherwise the time at which its
/// JobMaster made the details.
pub fn vertex_details(job: &JobDetails, id: JobVertexId, now_ms: u64) -> Option<VertexDetailsInfo> {
    let vertex = job.graph.vertex(id)?;
    Some(VertexDetailsInfo {
        id: id.to_string(),
        name: vertex.name.clone(),
        parallelism: vertex.parallelism,
        max_parallelism: vertex.max_parallelism,
        now: millis(now_of(job, now_ms)),
        subtasks: details_of(job, id)
            .iter()
            .map(|subtask| subtask_info(subtask, job.now_ms))
            .collect(),
    })
}

fn subtask_info(subtask: &SubtaskDetails, now_ms: u64) -> SubtaskInfo {
    let start = started_ms(subtask);
    let end = ended_ms(subtask);
    SubtaskInfo {
        subtask: subtask.attempt.subtask,
        status: subtask.state.to_string(),
        attempt: subtask.attempt.attempt,
        endpoint: subtask.host.clone().unwrap_or_else(|| UNASSIGNED.to_owned()),
        start_time: start.map_or(-1, millis),
        end_time: end.map_or(-1, millis),
        duration: start.map_or(-1, |s| millis(end.unwrap_or(now_ms).saturating_sub(s))),
        metrics: sum_io(std::iter::once(&subtask.io), true),
        taskmanager_id: subtask
            .resource_id
            .as_ref()
            .map_or_else(|| UNASSIGNED.to_owned(), ToString::to_string),
        status_duration: status_durations(subtask, now_ms),
    }
}

/// Returns the milliseconds that the attempt spent in each non-terminal state: from the state's
/// entry to the next entry, or to now; -1 for a state that was never entered.
fn status_durations(subtask: &SubtaskDetails, now_ms: u64) -> BTreeMap<String, i64> {
    let mut entries: Vec<(u64, ExecutionState)> = subtask
        .timestamps
        .iter()
        .filter(|(_, at)| **at > 0)
        .map(|(state, at)| (*at, *state))
        .collect();
    entries.sort_unstable();
    let mut durations: BTreeMap<String, i64> = ExecutionState::ALL
        .iter()
        .filter(|state| !state.is_terminal())
        .map(|state| (state.to_string(), -1))
        .collect();
    for (i, (at, state)) in entries.iter().enumerate() {
        let until = entries.get(i + 1).map_or(now_ms, |(next, _)| *next);
        if let Some(slot) = durations.get_mut(state.as_str()) {
            *slot = millis(until.saturating_sub(*at));
        }
    }
    durations
}

/// Renders the answer to `GET /jobs/:jobid/exceptions`: the root (the failure that ended the job or else the newest one), and a history of
/// the newest failures, at most `max`, newest first; `truncated` is true if there are more. The time shown with the root is always that of
/// the newest failure. With `max` 0 the history is empty and the root is still shown.
pub fn job_exceptions(job: &JobDetails, max: usize) -> JobExceptions {
    let newest = job.failures.first();
    let root = job.cause.as_ref().or(newest.map(|record| &record.cause)).map(ToString::to_string);
    let entries: Vec<ExceptionEntry> =
        job.failures.iter().take(max).map(|record| exception(job, record)).collect();
    JobExceptions {
        root_exception: root,
        timestamp: newest.map(|record| millis(record.at_ms)),
        exception_history: ExceptionHistory {
            truncated: job.failures.len() > entries.len(),
            entries,
        },
    }
}

fn exception(job: &JobDetails, record: &FailureRecord) -> ExceptionEntry {
    let host = record.resource_id.as_ref().and_then(|id| {
        job.vertices
            .iter()
            .flat_map(|v| v.subtasks.iter())
            .find(|s| s.resource_id.as_ref() == Some(id))
            .and_then(|s| s.host.clone())
    });
    ExceptionEntry {
        exception_name: record.cause.kind.clone(),
        stacktrace: record.cause.message.clone(),
        timestamp: millis(record.at_ms),
        task_name: record.task.clone(),
        endpoint: host,
        task_manager_id: record.resource_id.as_ref().map(ToString::to_string),
        concurrent_exceptions: record
            .concurrent
            .iter()
            .map(|other| exception(job, other))
            .collect(),
        ..ExceptionEntry::default()
    }
}

/// Renders the answer to `GET /jobs/:jobid/execution-result`: `IN_PROGRESS` without a result until the job has ended for good.
pub fn execution_result(result: &JobResult) -> ExecutionResult {
    if !result.status.is_globally_terminal() {
        return ExecutionResult {
            status: QueueStatus { id: "IN_PROGRESS".to_owned() },
            job_execution_result: None,
        };
    }
    let application_status = match result.status {
        JobStatus::Finished => "SUCCEEDED",
        JobStatus::Canceled => "CANCELED",
        JobStatus::Failed => "FAILED",
        _ => "UNKNOWN",
    };
    ExecutionResult {
        status: QueueStatus { id: "COMPLETED".to_owned() },
        job_execution_result: Some(JobExecutionResult {
            id: result.job_id.to_string(),
            application_status: application_status.to_owned(),
            accumulator_results: BTreeMap::new(),
            net_runtime: result.runtime_ms,
            failure_cause: result.cause.as_ref().map(failure),
        }),
    }
}
