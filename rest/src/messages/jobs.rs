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

/// `GET /jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobIds {
    /// Running and ended ones.
    pub jobs: Vec<JobIdWithStatus>,
}

/// One job's id and state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobIdWithStatus {
    /// Its id.
    pub id: String,
    /// Its state.
    pub status: String,
}

/// `GET /jobs/overview`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobsOverview {
    /// Running and ended ones.
    pub jobs: Vec<JobOverview>,
}

/// One line of the overview.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobOverview {
    /// Id.
    pub jid: String,
    /// Name.
    pub name: String,
    /// Unix milliseconds.
    pub start_time: i64,
    /// Unix milliseconds; -1 while it runs.
    pub end_time: i64,
    /// Milliseconds.
    pub duration: i64,
    /// State.
    pub state: String,
    /// Unix milliseconds.
    pub last_modification: i64,
    /// Subtasks by state in lower case, and `total`.
    pub tasks: BTreeMap<String, u32>,
    /// Operators of the job that are not chained into vertices yet: 0.
    #[serde(default)]
    pub pending_operators: u32,
}

/// `GET /jobs/:jobid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobDetailsInfo {
    /// Id.
    pub jid: String,
    /// Name.
    pub name: String,
    /// Whether it can be stopped with a savepoint.
    #[serde(rename = "isStoppable")]
    pub is_stoppable: bool,
    /// State.
    pub state: String,
    /// `STREAMING`.
    pub job_type: String,
    /// Unix milliseconds.
    pub start_time: i64,
    /// Unix milliseconds; -1 while it runs.
    pub end_time: i64,
    /// Milliseconds.
    pub duration: i64,
    /// Greatest parallelism of all vertices that state allows; -1: not set.
    #[serde(rename = "maxParallelism")]
    pub max_parallelism: i64,
    /// When this was made.
    pub now: i64,
    /// Unix milliseconds of each state's entry; 0: never entered.
    pub timestamps: BTreeMap<String, i64>,
    /// In topological order.
    pub vertices: Vec<JobVertexInfo>,
    /// Vertices by state.
    pub status_counts: BTreeMap<String, u32>,
    /// Operators of the job that are not chained into vertices yet.
    pub pending_operators: u32,
    /// The graph.
    pub plan: JobPlan,
}

/// One vertex of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobVertexInfo {
    /// Id.
    pub id: String,
    /// Slot sharing group.
    #[serde(rename = "slotSharingGroupId")]
    pub slot_sharing_group_id: String,
    /// Name.
    pub name: String,
    /// Key groups.
    #[serde(rename = "maxParallelism")]
    pub max_parallelism: u32,
    /// Subtasks.
    pub parallelism: u32,
    /// State of all subtasks together.
    pub status: String,
    /// Unix milliseconds; -1: not started.
    pub start_time: i64,
    /// Unix milliseconds; -1: not ended.
    pub end_time: i64,
    /// Milliseconds; -1: not started.
    pub duration: i64,
    /// Subtasks by state.
    pub tasks: BTreeMap<String, u32>,
    /// Sums over the subtasks.
    pub metrics: IoMetrics,
}

/// Records and bytes of a subtask or of several.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IoMetrics {
    /// Bytes in.
    pub read_bytes: u64,
    /// Whether all subtasks have reported.
    pub read_bytes_complete: bool,
    /// Bytes out.
    pub write_bytes: u64,
    /// Whether all subtasks have reported.
    pub write_bytes_complete: bool,
    /// Records in.
    pub read_records: u64,
    /// Whether all subtasks have reported.
    pub read_records_complete: bool,
    /// Records out.
    pub write_records: u64,
    /// Whether all subtasks have reported.
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

/// `GET /jobs/:jobid/plan` and `/jars/:jarid/plan`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanResponse {
    /// The graph.
    pub plan: JobPlan,
}

/// A job's graph: chained vertices as nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// Job id.
    pub jid: String,
    /// Job name.
    pub name: String,
    /// `STREAMING`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Sinks first, as Flink has them.
    pub nodes: Vec<PlanNode>,
}

/// One vertex of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanNode {
    /// Vertex id.
    pub id: String,
    /// Subtasks.
    pub parallelism: u32,
    /// Empty, as in Flink's streaming plans.
    pub operator: String,
    /// Empty, as in Flink's streaming plans.
    pub operator_strategy: String,
    /// Names of the chained operators.
    pub description: String,
    /// Slot sharing group.
    #[serde(default)]
    pub slot_sharing_group: String,
    /// The chained operators.
    #[serde(default)]
    pub operators: Vec<PlanOperator>,
    /// Edges that end here.
    #[serde(default)]
    pub inputs: Vec<PlanInput>,
    /// Empty.
    pub optimizer_properties: String,
}

/// One operator of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOperator {
    /// Operator id.
    pub id: String,
    /// `uid` as the program gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// `map`, `text_source`, …
    pub kind: String,
    /// Name.
    pub name: String,
    /// Record type that goes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether a coordinator answers requests for it.
    #[serde(default)]
    pub coordinated: bool,
}

/// One edge of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanInput {
    /// Place among the inputs.
    pub num: u32,
    /// Producing vertex.
    pub id: String,
    /// `FORWARD`, `HASH`, `REBALANCE`, `BROADCAST`.
    pub ship_strategy: String,
    /// `pipelined_bounded`.
    pub exchange: String,
}

/// `GET /jobs/:jobid/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatusInfo {
    /// State.
    pub status: String,
}

/// `GET /jobs/:jobid/execution-result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExecutionResult {
    /// Whether there is one.
    pub status: QueueStatus,
    /// The result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_execution_result: Option<JobExecutionResult>,
}

/// `IN_PROGRESS` or `COMPLETED`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Which.
    pub id: String,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobExecutionResult {
    /// Job id.
    pub id: String,
    /// `SUCCEEDED`, `FAILED`, `CANCELED`, `UNKNOWN`.
    pub application_status: String,
    /// Empty: there are no accumulators.
    pub accumulator_results: BTreeMap<String, String>,
    /// Milliseconds.
    pub net_runtime: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<FailureBody>,
}

/// A failure, as Flink's clients expect it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailureBody {
    /// Kind of failure.
    pub class: String,
    /// What happened.
    pub stack_trace: String,
    /// A Java object stream with Flink's `SerializedThrowable`, in base64.
    #[serde(default)]
    pub serialized_throwable: String,
}

/// `GET /jobs/:jobid/exceptions`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobExceptions {
    /// The cause of the job's end, or of its last restart.
    #[serde(rename = "root-exception", default)]
    pub root_exception: Option<String>,
    /// When.
    #[serde(default)]
    pub timestamp: Option<i64>,
    /// Newest first.
    #[serde(rename = "exceptionHistory")]
    pub exception_history: ExceptionHistory,
}

/// The failures so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExceptionHistory {
    /// Newest first.
    pub entries: Vec<ExceptionEntry>,
    /// Whether older ones are missing.
    pub truncated: bool,
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionEntry {
    /// Kind of failure.
    pub exception_name: String,
    /// What happened.
    pub stacktrace: String,
    /// Unix milliseconds.
    pub timestamp: i64,
    /// Empty: there are no failure enrichers.
    pub failure_labels: BTreeMap<String, String>,
    /// Task that failed first.
    pub task_name: Option<String>,
    /// Host of its TaskManager.
    pub endpoint: Option<String>,
    /// Its TaskManager.
    pub task_manager_id: Option<String>,
    /// What else failed until the restart.
    pub concurrent_exceptions: Vec<ExceptionEntry>,
}

/// `GET /jobs/:jobid/vertices/:vertexid`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexDetailsInfo {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Subtasks.
    pub parallelism: u32,
    /// Key groups.
    pub max_parallelism: u32,
    /// When this was made.
    pub now: i64,
    /// By index.
    pub subtasks: Vec<SubtaskInfo>,
}

/// The current attempt of one subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SubtaskInfo {
    /// Index.
    pub subtask: u32,
    /// State.
    pub status: String,
    /// Attempt number.
    pub attempt: u32,
    /// Host, or `(unassigned)`.
    pub endpoint: String,
    /// Unix milliseconds; -1: not started.
    pub start_time: i64,
    /// Unix milliseconds; -1: not ended.
    pub end_time: i64,
    /// Milliseconds; -1: not started.
    pub duration: i64,
    /// Records and bytes.
    pub metrics: IoMetrics,
    /// TaskManager, or `(unassigned)`.
    pub taskmanager_id: String,
    /// Milliseconds in each state; -1: never in it.
    pub status_duration: BTreeMap<String, i64>,
}
