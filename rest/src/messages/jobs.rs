//! Bodies about jobs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The body of `PATCH /jobs/:jobid/clientHeartbeat`, by which an attached client (one that waits for the job) shows that it lives. At least
/// one field must be present, otherwise the answer is 400, as for an unknown field. Each beat replaces the deadline of the one before; when
/// the deadline passes without another beat, the job is cancelled, or left alone if it does not run yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientHeartbeatBody {
    /// Flink's field: time in Unix milliseconds, by the client's clock, at which the job is cancelled unless another beat
    /// comes first. The endpoint compares it with its own clock; a time that is past cancels the job at once. Ignored if
    /// `timeout` is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_timestamp: Option<i64>,
    /// Not Flink's: milliseconds from the arrival of this beat after which the job is cancelled unless another beat comes
    /// first, so that no clocks have to agree. 0 cancels the job at once; more than a day counts as a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// The answer to `GET /jobs`: the ids and states of all jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobIds {
    /// All jobs that the Dispatcher knows: those that are being stored or run, and ended ones that it still remembers. Jobs that a new
    /// leader is still recovering are missing.
    pub jobs: Vec<JobIdWithStatus>,
}

/// The id and state of one job in the answer to `GET /jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobIdWithStatus {
    /// Job id, 32 hexadecimal digits.
    pub id: String,
    /// State of the job by Flink's name, such as `RUNNING`; `INITIALIZING` if the job is being stored or its JobMaster does not answer
    /// within 2 s. A job whose end is not recorded yet is shown as `RUNNING`, `FAILING` or `CANCELLING`.
    pub status: String,
}

/// The answer to `GET /jobs/overview`: one line for each job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobsOverview {
    /// All jobs that the Dispatcher knows: those that are being stored or run, and ended ones that it still remembers. Jobs that a new
    /// leader is still recovering are missing.
    pub jobs: Vec<JobOverview>,
}

/// One job in the answer to `GET /jobs/overview`: its name, state and times, and the numbers of its subtasks by state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobOverview {
    /// Job id, 32 hexadecimal digits.
    pub jid: String,
    /// Name of the job, meant for people; not unique.
    pub name: String,
    /// Time in Unix milliseconds at which the job's latest leader began to run it: after the submission, or after the recovery
    /// from an earlier leader.
    pub start_time: i64,
    /// Time of the job's end, in Unix milliseconds; -1 until the job has ended and its end is recorded.
    pub end_time: i64,
    /// Milliseconds from `start_time` to the job's end, or to the time of the answer if it has not ended.
    pub duration: i64,
    /// State of the job by Flink's name, such as `RUNNING`; `INITIALIZING`, with no subtasks in `tasks`, if the job is being stored or its
    /// JobMaster does not answer within 2 s. A job whose end is not recorded yet is shown as `RUNNING`, `FAILING` or `CANCELLING`.
    pub state: String,
    /// Time of the last change of the job's or a subtask's state, in Unix milliseconds.
    pub last_modification: i64,
    /// Number of subtasks by the state of their current attempts in lower case, such as `running`; every state is there, if need be with 0,
    /// and their sum as `total`.
    pub tasks: BTreeMap<String, u32>,
    /// Always 0: every operator is in a vertex.
    #[serde(default)]
    pub pending_operators: u32,
}

/// The answer to `GET /jobs/:jobid`: the job's state and times, its vertices with the states of their subtasks, and its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobDetailsInfo {
    /// Job id, 32 hexadecimal digits.
    pub jid: String,
    /// Name of the job, meant for people; not unique.
    pub name: String,
    /// Always false, as in Flink; jobs are stopped by `POST /jobs/:jobid/stop` all the same.
    #[serde(rename = "isStoppable")]
    pub is_stoppable: bool,
    /// State of the job by Flink's name, such as `RUNNING`. A job whose end is not recorded yet is shown as `RUNNING`, `FAILING` or
    /// `CANCELLING`.
    pub state: String,
    /// Type of the job, always `STREAMING`.
    pub job_type: String,
    /// Time in Unix milliseconds at which the job's latest leader began to run it: after the submission, or after the recovery
    /// from an earlier leader.
    pub start_time: i64,
    /// Time of the job's end, in Unix milliseconds; -1 until the job has ended and its end is recorded.
    pub end_time: i64,
    /// Milliseconds from `start_time` to the job's end, or to `now` if it has not ended.
    pub duration: i64,
    /// Smallest maximum parallelism (number of key groups, the units in which keyed state is divided) of the job's
    /// vertices; -1 if the job has no vertex.
    #[serde(rename = "maxParallelism")]
    pub max_parallelism: i64,
    /// Time of these details in Unix milliseconds: for a job that runs, when its JobMaster made them; for one that has
    /// ended, when the endpoint answered.
    pub now: i64,
    /// Time of the latest entry into each job state in Unix milliseconds, by Flink's name; 0: not entered since the job's
    /// present JobMaster started.
    pub timestamps: BTreeMap<String, i64>,
    /// Vertices in topological order, each with the state of its subtasks.
    pub vertices: Vec<JobVertexInfo>,
    /// Number of vertices by their aggregated state, by Flink's name such as `RUNNING`; every state is there, if need be
    /// with 0.
    pub status_counts: BTreeMap<String, u32>,
    /// Always 0: every operator is in a vertex.
    pub pending_operators: u32,
    /// Graph of the job with its vertices as nodes, in the form that Flink's pages draw.
    pub plan: JobPlan,
}

/// One vertex (a chain of operators that run in one task) of a job: its parallelism, and the states, times and numbers of records
/// of its subtasks together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobVertexInfo {
    /// Vertex id, 32 hexadecimal digits.
    pub id: String,
    /// Id of the slot sharing group, whose subtasks may share a slot: 32 hexadecimal digits that follow from the group's
    /// name.
    #[serde(rename = "slotSharingGroupId")]
    pub slot_sharing_group_id: String,
    /// Name of the vertex, meant for people: the names of the chained operators; not unique.
    pub name: String,
    /// Number of key groups (the units in which keyed state is divided), and so the largest parallelism that the vertex can have.
    #[serde(rename = "maxParallelism")]
    pub max_parallelism: u32,
    /// Number of subtasks, at least 1; it does not change while the job runs.
    pub parallelism: u32,
    /// State of all subtasks together, by Flink's order of precedence: the first of `FAILED`, `CANCELING`, `CANCELED`, `INITIALIZING` and
    /// `RUNNING` that one subtask is in; else `FINISHED` if all have finished, `RUNNING` if some have; else `DEPLOYING`, `SCHEDULED` or
    /// `CREATED`.
    pub status: String,
    /// Time of the first deployment among the subtasks' current attempts, in Unix milliseconds; -1: none is deployed.
    pub start_time: i64,
    /// Time at which the last subtask ended in Unix milliseconds; -1: not all have ended.
    pub end_time: i64,
    /// Milliseconds from `start_time` to `end_time`, or to the time of the details if not all subtasks have ended; -1: none
    /// is deployed.
    pub duration: i64,
    /// Number of subtasks by the state of their current attempts, by Flink's name such as `RUNNING`; every state is there, if need be with
    /// 0 (`RECONCILING`, which does not occur, always).
    pub tasks: BTreeMap<String, u32>,
    /// Records and bytes, summed over the subtasks' current attempts.
    pub metrics: IoMetrics,
}

/// Numbers of records and bytes that a subtask's current attempt has received and sent since it began, or the sums over several subtasks.
/// Times are not measured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct IoMetrics {
    /// Number of bytes received from other tasks: in serialised form, or an estimate of their memory for records handed over inside
    /// one process.
    pub read_bytes: u64,
    /// Always true: no count is partial.
    pub read_bytes_complete: bool,
    /// Number of bytes sent to other tasks: in serialised form, or an estimate of their memory for records handed over inside one
    /// process. Bytes of a broadcast count for each subtask that they go to, unlike its records.
    pub write_bytes: u64,
    /// Always true: no count is partial.
    pub write_bytes_complete: bool,
    /// Number of records received from other tasks; 0 for a source.
    pub read_records: u64,
    /// Always true: no count is partial.
    pub read_records_complete: bool,
    /// Number of records sent to other tasks; 0 for a sink. A record counts once for each outgoing edge, also if the edge broadcasts it.
    pub write_records: u64,
    /// Always true: no count is partial.
    pub write_records_complete: bool,
    /// Always 0 (milliseconds in Flink): not measured, but Flink's clients demand a number.
    #[serde(default)]
    pub accumulated_backpressured_time: u64,
    /// Always 0 (milliseconds in Flink): not measured, but Flink's clients demand a number.
    #[serde(default)]
    pub accumulated_idle_time: u64,
    /// Always `NaN` (milliseconds in Flink): not measured, which Flink says in the same way.
    #[serde(default)]
    pub accumulated_busy_time: String,
}

/// The answer to `GET /jobs/:jobid/plan`, and to GET and POST of `/jars/:jarid/plan`: the graph of a job, or of the job that a
/// program would run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanResponse {
    /// Graph of the job with its vertices as nodes, in the form that Flink's pages draw.
    pub plan: JobPlan,
}

/// The graph of a job, of which each node is a vertex: a chain of operators that run in one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobPlan {
    /// Job id, 32 hexadecimal digits; in the plan of an uploaded program it names no job that runs.
    pub jid: String,
    /// Name of the job; not unique.
    pub name: String,
    /// Kind of the plan, always `STREAMING`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The vertices in reverse topological order: sinks first, as in Flink.
    pub nodes: Vec<PlanNode>,
}

/// One vertex of a plan: its name, parallelism and operators, and the edges that end at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanNode {
    /// Vertex id, 32 hexadecimal digits.
    pub id: String,
    /// Number of subtasks that the vertex has, or would have if the plan is of an uploaded program.
    pub parallelism: u32,
    /// Always empty, as in Flink's streaming plans.
    pub operator: String,
    /// Always empty, as in Flink's streaming plans.
    pub operator_strategy: String,
    /// Name of the vertex: the names of the chained operators.
    pub description: String,
    /// Name of the slot sharing group: subtasks of vertices in one group may share a slot.
    #[serde(default)]
    pub slot_sharing_group: String,
    /// Operators of the vertex's chain, first to last.
    #[serde(default)]
    pub operators: Vec<PlanOperator>,
    /// Edges that end at this vertex, in the order of the graph; empty for a source.
    #[serde(default)]
    pub inputs: Vec<PlanInput>,
    /// Always empty: there is no optimizer.
    pub optimizer_properties: String,
}

/// One operator of a vertex's chain: its ids, kind and name, the type of its output, and whether it has a coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOperator {
    /// Operator id, 32 hexadecimal digits.
    pub id: String,
    /// The operator's `uid` as the program gives it; absent if the program gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Kind of the operator as the program's graph names it: `map`, `text_source`, …
    pub kind: String,
    /// Name of the operator, meant for people; not unique.
    pub name: String,
    /// Rust type of the records that go out, as text; absent for a sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// True if the operator has a coordinator, its part on the JobManager's side, which answers coordination requests.
    #[serde(default)]
    pub coordinated: bool,
}

/// One edge of a plan, at the vertex that consumes its records: where they come from, and how they are distributed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanInput {
    /// Index of the input at the consuming vertex, from 0.
    pub num: u32,
    /// Id of the vertex that produces the edge's records, 32 hexadecimal digits.
    pub id: String,
    /// Distribution of the records to the consumer's subtasks: `FORWARD` (same index), `HASH` (by key), `REBALANCE` (in
    /// turn), `BROADCAST` (to all) or `CUSTOM` (by the program).
    pub ship_strategy: String,
    /// Kind of exchange, always `pipelined_bounded`: records flow while both vertices run.
    pub exchange: String,
}

/// The answer to `GET /jobs/:jobid/status`: the job's state alone; `INITIALIZING` while the job is being stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStatusInfo {
    /// State of the job by Flink's name, such as `RUNNING`. A job whose end is not recorded yet is shown as `RUNNING`, `FAILING` or
    /// `CANCELLING`.
    pub status: String,
}

/// The answer to `GET /jobs/:jobid/execution-result`: `COMPLETED` with the result if the job has ended for good, also if it failed or was
/// cancelled, otherwise `IN_PROGRESS` without one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ExecutionResult {
    /// `COMPLETED` if the job has ended for good, otherwise `IN_PROGRESS`.
    pub status: QueueStatus,
    /// The result of the job; absent until the job has ended for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_execution_result: Option<JobExecutionResult>,
}

/// The state of something that a client waits for: a job's end, or a triggered checkpoint, savepoint, stop or disposal. It says whether
/// that has ended, not whether it succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// `IN_PROGRESS` or `COMPLETED`, the latter also if the operation failed.
    pub id: String,
}

/// The outcome of a job that has ended for good (finished, failed or cancelled), its running time, and the reason if it failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct JobExecutionResult {
    /// Job id, 32 hexadecimal digits.
    pub id: String,
    /// Outcome of the job: `SUCCEEDED`, `FAILED` or `CANCELED`.
    pub application_status: String,
    /// Always empty: there are no accumulators.
    pub accumulator_results: BTreeMap<String, String>,
    /// Milliseconds from the time at which the last leader began to run the job (after its submission or recovery) to its
    /// end.
    pub net_runtime: u64,
    /// Reason of the job's failure; absent unless the job failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_cause: Option<FailureBody>,
}

/// A failure of a job or an operation, in the form that Flink's clients read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailureBody {
    /// Kind of the failure, such as `UserError`, where Flink has a Java class.
    pub class: String,
    /// Message of the failure for users, in one or more lines; no stack trace.
    pub stack_trace: String,
    /// The failure as a Java object stream with Flink's `SerializedThrowable`, in base64, for Flink's own client.
    #[serde(default)]
    pub serialized_throwable: String,
}

/// The answer to `GET /jobs/:jobid/exceptions`: the job's failures since its present JobMaster started, those that a restart has cured
/// included, but at most the newest `web.exception-history-size` (0 counts as 1). For a job that has ended: those until its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobExceptions {
    /// The failure that ended the job, or else the newest one of its history, as `KIND: MESSAGE`; `None` (JSON `null`) if
    /// there was none.
    #[serde(rename = "root-exception", default)]
    pub root_exception: Option<String>,
    /// Time of the newest failure of the history in Unix milliseconds; `None` (JSON `null`) if that is empty.
    #[serde(default)]
    pub timestamp: Option<i64>,
    /// The history of the job's failures, newest first.
    #[serde(rename = "exceptionHistory")]
    pub exception_history: ExceptionHistory,
}

/// The newest failures of a job's history since its present JobMaster started, and whether older ones are left out of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExceptionHistory {
    /// Failures, newest first, at most as many as the request's `maxExceptions` (by default 20).
    pub entries: Vec<ExceptionEntry>,
    /// True if older failures of the history, which has at most `web.exception-history-size` (0 counts as 1), are left out because of
    /// `maxExceptions`.
    pub truncated: bool,
}

/// One failure of a job in its history: its cause and time, the task and TaskManager where it occurred, and the further failures of other
/// tasks before the restart, which are entries of the same form. The history is that of one JobMaster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExceptionEntry {
    /// Kind of the failure, such as `UserError`, where Flink has a Java class.
    pub exception_name: String,
    /// Message of the failure for users; no stack trace.
    pub stacktrace: String,
    /// Time at which the JobMaster learned of the failure, in Unix milliseconds on its clock.
    pub timestamp: i64,
    /// Always empty: there are no failure enrichers.
    pub failure_labels: BTreeMap<String, String>,
    /// Name of the task that failed first, with its subtask as `name (3/8)`; `None` (JSON `null`) if no task did.
    pub task_name: Option<String>,
    /// Host name, without a port, of the TaskManager that ran the task. `None` (JSON `null`) if no task failed, the TaskManager is unknown,
    /// or none of the job's current attempts runs, or last ran, on that TaskManager.
    pub endpoint: Option<String>,
    /// Resource id of the TaskManager that ran the task; `None` (JSON `null`) if no task failed or it is unknown.
    pub task_manager_id: Option<String>,
    /// Further failures that came before the job was restarted, one of each cause; beyond 16 they are dropped. Empty for an entry
    /// of this list itself.
    pub concurrent_exceptions: Vec<ExceptionEntry>,
}

/// The answer to `GET /jobs/:jobid/vertices/:vertexid`: a vertex with its subtasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VertexDetailsInfo {
    /// Vertex id, 32 hexadecimal digits.
    pub id: String,
    /// Name of the vertex: the names of the chained operators; not unique.
    pub name: String,
    /// Number of subtasks, at least 1; it does not change while the job runs.
    pub parallelism: u32,
    /// Number of key groups (the units in which keyed state is divided), and so the largest parallelism that the vertex can have.
    pub max_parallelism: u32,
    /// Time of these details in Unix milliseconds: for a job that runs, when its JobMaster made them; for one that has
    /// ended, when the endpoint answered.
    pub now: i64,
    /// The vertex's subtasks with their current attempts, ordered by index.
    pub subtasks: Vec<SubtaskInfo>,
}

/// The current execution attempt (one try to run it) of one subtask of a vertex: its state, TaskManager, times and numbers of
/// records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SubtaskInfo {
    /// Index of the subtask in its vertex, from 0.
    pub subtask: u32,
    /// State of the attempt by Flink's name, such as `RUNNING`.
    pub status: String,
    /// Number of the subtask's current attempt, from 0 with each JobMaster; grows with every restart of the subtask.
    pub attempt: u32,
    /// Host name of the TaskManager that runs the attempt, or `(unassigned)` before the deployment.
    pub endpoint: String,
    /// Time of the attempt's deployment in Unix milliseconds; -1: not deployed.
    pub start_time: i64,
    /// Time of the attempt's end in Unix milliseconds; -1: not ended.
    pub end_time: i64,
    /// Milliseconds from `start_time` to `end_time`, or to the time of the details if the attempt has not ended; -1: not
    /// deployed.
    pub duration: i64,
    /// Records and bytes of the subtask's current attempt.
    pub metrics: IoMetrics,
    /// Resource id of the TaskManager that runs the attempt, or `(unassigned)` before the deployment.
    pub taskmanager_id: String,
    /// Milliseconds that the attempt spent in each state that is not terminal, by Flink's name such as `RUNNING`; -1: never
    /// in it. The present state counts up to the time of the details.
    pub status_duration: BTreeMap<String, i64>,
}
