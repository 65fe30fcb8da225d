//! Bodies about jobs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of `PATCH /jobs/:jobid/clientHeartbeat`; one of the fields must be there.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientHeartbeatBody {
    /// Flink's field: Unix milliseconds, by the client's clock, at which the job is cancelled unless another beat
    /// comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_timestamp: Option<i64>,
    /// Ours, taken first: milliseconds from the arrival of this beat. No clocks have to agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// The answer to `GET /jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobIds {
    /// All jobs, running and ended.
    pub jobs: Vec<JobIdWithStatus>,
}

/// One job's id and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobIdWithStatus {
    /// Id, 32 hexadecimal digits.
    pub id: String,
    /// State by Flink's name, such as `RUNNING`.
    pub status: String,
}

/// The answer to `GET /jobs/overview`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobsOverview {
    /// All jobs, running and ended.
    pub jobs: Vec<JobOverview>,
}

/// One line of the overview.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobOverview {
    /// Job id, 32 hexadecimal digits.
    pub jid: String,
    /// Name meant for people; not unique.
    pub name: String,
    /// Start in Unix milliseconds.
    pub start_time: i64,
    /// Unix milliseconds; -1 while it runs.
    pub end_time: i64,
    /// Duration in milliseconds.
    pub duration: i64,
    /// State by Flink's name, such as `RUNNING`.
    pub state: String,
    /// Time of the last change of state, in Unix milliseconds.
    pub last_modification: i64,
    /// Subtasks by state in lower case, and `total`.
    pub tasks: BTreeMap<String, u32>,
    /// Operators of the job that are not chained into vertices yet: 0.
    #[serde(default)]
    pub pending_operators: u32,
}

/// The answer to `GET /jobs/:jobid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobDetailsInfo {
    /// Job id, 32 hexadecimal digits.
    pub jid: String,
    /// Name meant for people; not unique.
    pub name: String,
    /// True if it can be stopped with a savepoint.
    #[serde(rename = "isStoppable")]
    pub is_stoppable: bool,
    /// State by Flink's name, such as `RUNNING`.
    pub state: String,
    /// Type of the job, always `STREAMING`.
    pub job_type: String,
    /// Start in Unix milliseconds.
    pub start_time: i64,
    /// Unix milliseconds; -1 while it runs.
    pub end_time: i64,
    /// Duration in milliseconds.
    pub duration: i64,
    /// Greatest parallelism of all vertices that state allows; -1: not set.
    #[serde(rename = "maxParallelism")]
    pub max_parallelism: i64,
    /// Time at which the answer was made, in Unix milliseconds.
    pub now: i64,
    /// Unix milliseconds of each state's entry; 0: never entered.
    pub timestamps: BTreeMap<String, i64>,
    /// Vertices in topological order.
    pub vertices: Vec<JobVertexInfo>,
    /// Number of vertices by state.
    pub status_counts: BTreeMap<String, u32>,
    /// Operators of the job that are not chained into vertices yet.
    pub pending_operators: u32,
    /// Graph of the job, as Flink draws it.
    pub plan: JobPlan,
}

/// One vertex of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobVertexInfo {
    /// Id, 32 hexadecimal digits.
    pub id: String,
    /// Name of the slot sharing group.
    #[serde(rename = "slotSharingGroupId")]
    pub slot_sharing_group_id: String,
    /// Name meant for people; not unique.
    pub name: String,
    /// Number of key groups.
    #[serde(rename = "maxParallelism")]
    pub max_parallelism: u32,
    /// Number of subtasks.
    pub parallelism: u32,
    /// State of all subtasks together.
    pub status: String,
    /// Unix milliseconds; -1: not started.
    pub start_time: i64,
    /// Unix milliseconds; -1: not ended.
    pub end_time: i64,
    /// Duration in milliseconds; -1 if it has not started.
    pub duration: i64,
    /// Number of subtasks by state.
    pub tasks: BTreeMap<String, u32>,
    /// Sums over the subtasks.
    pub metrics: IoMetrics,
}

/// Records and bytes of a subtask or of several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IoMetrics {
    /// Number of bytes received.
    pub read_bytes: u64,
    /// True if all subtasks have reported.
    pub read_bytes_complete: bool,
    /// Number of bytes sent.
    pub write_bytes: u64,
    /// True if all subtasks have reported.
    pub write_bytes_complete: bool,
    /// Number of records received.
    pub read_records: u64,
    /// True if all subtasks have reported.
    pub read_records_complete: bool,
    /// Number of records sent.
    pub write_records: u64,
    /// True if all subtasks have reported.
    pub write_records_complete: bool,
    /// 0: not measured, but Flink's clients demand a number.
    #[serde(default)]
    pub accumulated_backpressured_time: u64,
    /// 0: not measured, but Flink's clients demand a number.
    #[serde(default)]
    pub accumulated_idle_time: u64,
    /// `NaN`: not measured, which Flink says in the same way.
    #[serde(default)]
    pub accumulated_busy_time: String,
}

/// The answer to `GET /jobs/:jobid/plan` and `/jars/:jarid/plan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanResponse {
    /// Graph of the job, as Flink draws it.
    pub plan: JobPlan,
}

/// A job's graph: chained vertices as nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// Job id, 32 hexadecimal digits.
    pub jid: String,
    /// Name of the job; not unique.
    pub name: String,
    /// Kind of the plan, always `STREAMING`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Sinks first, as Flink has them.
    pub nodes: Vec<PlanNode>,
}

/// One vertex of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanNode {
    /// Vertex id, 32 hexadecimal digits.
    pub id: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Empty, as in Flink's streaming plans.
    pub operator: String,
    /// Empty, as in Flink's streaming plans.
    pub operator_strategy: String,
    /// Names of the chained operators.
    pub description: String,
    /// Name of the slot sharing group.
    #[serde(default)]
    pub slot_sharing_group: String,
    /// Operators of the chain, first to last.
    #[serde(default)]
    pub operators: Vec<PlanOperator>,
    /// Edges that end at this vertex.
    #[serde(default)]
    pub inputs: Vec<PlanInput>,
    /// Always empty: there is no optimizer.
    pub optimizer_properties: String,
}

/// One operator of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOperator {
    /// Operator id, 32 hexadecimal digits.
    pub id: String,
    /// `uid` as the program gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Kind of the operator: `map`, `text_source`, …
    pub kind: String,
    /// Name meant for people; not unique.
    pub name: String,
    /// Record type that goes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// True if a coordinator answers requests for it.
    #[serde(default)]
    pub coordinated: bool,
}

/// One edge of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanInput {
    /// Index among the inputs, from 0.
    pub num: u32,
    /// Id of the producing vertex.
    pub id: String,
    /// Distribution of the records: `FORWARD`, `HASH`, `REBALANCE` or `BROADCAST`.
    pub ship_strategy: String,
    /// Kind of exchange, always `pipelined_bounded`.
    pub exchange: String,
}

/// The answer to `GET /jobs/:jobid/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatusInfo {
    /// State by Flink's name, such as `RUNNING`.
    pub status: String,
}

/// The answer to `GET /jobs/:jobid/execution-result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExecutionResult {
    /// Tells whether the job has ended: `COMPLETED` or `IN_PROGRESS`.
    pub status: QueueStatus,
    /// Result of the job, only when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_execution_result: Option<JobExecutionResult>,
}

/// The state of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// `IN_PROGRESS` or `COMPLETED`.
    pub id: String,
}

/// The outcome of a job that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobExecutionResult {
    /// Job id, 32 hexadecimal digits.
    pub id: String,
    /// `SUCCEEDED`, `FAILED`, `CANCELED`, `UNKNOWN`.
    pub application_status: String,
    /// Empty: there are no accumulators.
    pub accumulator_results: BTreeMap<String, String>,
    /// Run time of the job, in milliseconds.
    pub net_runtime: u64,
    /// Reason of the failure; absent unless the job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<FailureBody>,
}

/// A failure, as Flink's clients expect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailureBody {
    /// Kind of the failure, such as `UserError`.
    pub class: String,
    /// Text of the failure, with its causes.
    pub stack_trace: String,
    /// A Java object stream with Flink's `SerializedThrowable`, in base64.
    #[serde(default)]
    pub serialized_throwable: String,
}

/// The answer to `GET /jobs/:jobid/exceptions`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobExceptions {
    /// The cause of the job's end, or of its last restart.
    #[serde(rename = "root-exception", default)]
    pub root_exception: Option<String>,
    /// Time of the failure in Unix milliseconds.
    #[serde(default)]
    pub timestamp: Option<i64>,
    /// Failures, newest first.
    #[serde(rename = "exceptionHistory")]
    pub exception_history: ExceptionHistory,
}

/// The history of a job's failures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExceptionHistory {
    /// Failures, newest first, at most `web.exception-history-size`.
    pub entries: Vec<ExceptionEntry>,
    /// True if older ones are missing.
    pub truncated: bool,
}

/// One failure of a job in its history.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionEntry {
    /// Kind of the failure, such as `UserError`.
    pub exception_name: String,
    /// Text of the failure, with its causes.
    pub stacktrace: String,
    /// Time in Unix milliseconds.
    pub timestamp: i64,
    /// Empty: there are no failure enrichers.
    pub failure_labels: BTreeMap<String, String>,
    /// Name of the task that failed first; absent if no task did.
    pub task_name: Option<String>,
    /// Host name of the TaskManager; absent if unknown.
    pub endpoint: Option<String>,
    /// TaskManager of the task; absent if it is unknown.
    pub task_manager_id: Option<String>,
    /// Further failures until the restart.
    pub concurrent_exceptions: Vec<ExceptionEntry>,
}

/// The answer to `GET /jobs/:jobid/vertices/:vertexid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexDetailsInfo {
    /// Id, 32 hexadecimal digits.
    pub id: String,
    /// Name meant for people; not unique.
    pub name: String,
    /// Number of subtasks.
    pub parallelism: u32,
    /// Number of key groups.
    pub max_parallelism: u32,
    /// Time at which the answer was made, in Unix milliseconds.
    pub now: i64,
    /// Subtasks, ordered by index.
    pub subtasks: Vec<SubtaskInfo>,
}

/// The current attempt of one subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SubtaskInfo {
    /// Index of the subtask, from 0.
    pub subtask: u32,
    /// State by Flink's name, such as `RUNNING`.
    pub status: String,
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// Host name of the TaskManager, or `(unassigned)`.
    pub endpoint: String,
    /// Unix milliseconds; -1: not started.
    pub start_time: i64,
    /// Unix milliseconds; -1: not ended.
    pub end_time: i64,
    /// Duration in milliseconds; -1 if it has not started.
    pub duration: i64,
    /// Records and bytes.
    pub metrics: IoMetrics,
    /// Resource id of the TaskManager, or `(unassigned)`.
    pub taskmanager_id: String,
    /// Milliseconds in each state; -1: never in it.
    pub status_duration: BTreeMap<String, i64>,
}
