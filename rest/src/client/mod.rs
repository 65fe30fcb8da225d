//! The typed client of the endpoint: what the command line and tests talk through.
//!
//! One request, one connection: a client holds nothing open, so it can't hold a cluster up. Every wait is
//! bounded; uploads stream from disk and report their progress.

mod transport;
mod upload;

pub use transport::ClientError;

use crate::access::BearerToken;
use crate::decode;
use crate::messages::{
    BlockNodeBody, BlockedNodeInfo, BlockedNodes, CheckpointBody, CheckpointConfigInfo,
    CheckpointInfo, CheckpointingStatistics, ClientHeartbeatBody, ClusterOverview,
    ConfigurationEntry, CoordinationRequestBody, CoordinationResponseBody, DashboardConfiguration,
    DisposalBody, EmptyBody, ExecutionResult, JarList, JarRequest, JarRunResponse, JarUploaded,
    JobDetailsInfo, JobExceptions, JobStatusInfo, JobsOverview, LogList, OperationInfo,
    PlanResponse, SavepointBody, StopBody, TaskManagerInfo, TaskManagers, TriggerResponse,
    TriggeredCheckpointInfo, VertexCheckpointInfo, VertexDetailsInfo,
};
use gateways::TraceContext;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::time::Duration;
use transport::{Transport, escape};

/// The time limits of a client's requests; by default 5 s to connect, 30 s for an answer, 180 s for a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientTimeouts {
    /// Maximum time to connect, for each request; then [`ClientError::Unreachable`].
    pub connect: Duration,
    /// Maximum time from a request to the end of an ordinary answer, and in a download the wait for each piece; then
    /// [`ClientError::Broken`].
    pub answer: Duration,
    /// Maximum time from a request to the end of an answer that needs a program to be uploaded (a minute more for each whole GiB), built or
    /// submitted; then `ClientError::Broken`, and the endpoint may carry the request out all the same.
    pub build: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            build: Duration::from_secs(180),
        }
    }
}

/// A client of one REST endpoint. Each call opens a connection of its own, sends one request and waits for the answer; no call is repeated.
/// All calls return [`ClientError`]: `Unreachable` if no connection could be made, `Broken` if the answer did not come whole or in time,
/// `Refused` for a status of 400 or more, `Malformed` for an answer of another shape, and an upload `File` if its file cannot be read.
/// Besides the statuses that a method names, 400 means an id or field of the wrong form, 401 or 403 that the endpoint does not allow the
/// request (where a token protects it, the wrong or no token), 503 that no leader of the component in question is known, that it cannot be
/// reached, or that the endpoint is overloaded, and 504 that a component did not answer in time. A job whose graph is still being built
/// counts as unknown.
#[derive(Debug, Clone)]
pub struct RestClient {
    transport: Transport,
    timeouts: ClientTimeouts,
}

impl RestClient {
    /// Makes a client of the endpoint at `host:port` (an IPv6 address with or without brackets). Does not connect.
    /// Requests go over plain HTTP, without TLS.
    pub fn new(host: &str, port: u16, timeouts: ClientTimeouts) -> Self {
        Self { transport: Transport::new(host, port, timeouts.connect), timeouts }
    }

    /// Makes the client send this token in the header `Authorization` of every request; `None`: no token.
    #[must_use]
    pub fn with_token(mut self, token: Option<BearerToken>) -> Self {
        self.transport.token = token;
        self
    }

    /// Makes the client name this trace (W3C Trace Context) in the header `traceparent` of every request; the endpoint's
    /// processes log it with what they do for these requests. `TraceContext::NONE` sends no header.
    #[must_use]
    pub fn with_trace(mut self, trace: TraceContext) -> Self {
        self.transport.trace = trace;
        self
    }

    /// Returns the endpoint's host and port as URLs and messages name them, `host:port`; an IPv6 address has brackets.
    pub fn authority(&self) -> &str {
        self.transport.authority()
    }

    /// Sends GET for a path of the endpoint below `/v1`, such as `/jobs/overview`, and decodes the JSON answer as `T`. The
    /// path must be escaped already. Waits at most [`ClientTimeouts::connect`] for the connection, then [`ClientTimeouts::answer`].
    ///
    /// # Errors
    /// Returns [`ClientError`]: also `Refused` for a status of 400 or more, and `Malformed` if the answer has another
    /// shape.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, None::<&EmptyBody>, self.timeouts.answer).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
        within: Duration,
    ) -> Result<T, ClientError> {
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(|e| malformed(path, &e))?,
            None => Vec::new(),
        };
        let answer = self.transport.send(method, path, body, within).await?;
        serde_json::from_slice(&answer).map_err(|e| malformed(path, &e))
    }

    /// Sends a request whose answer says no more than that it was carried out.
    async fn done(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(), ClientError> {
        let EmptyBody {} = self.call(method, path, body, self.timeouts.answer).await?;
        Ok(())
    }

    /// Sends POST for an operation that is then asked about by the id that it gets; returns the id.
    async fn begin(&self, path: &str, body: &impl Serialize) -> Result<String, ClientError> {
        let begun: TriggerResponse =
            self.call(Method::POST, path, Some(body), self.timeouts.answer).await?;
        Ok(begun.request_id)
    }

    /// Sends `GET /overview`: the numbers of TaskManagers, slots and jobs. Refused with 503 while no Dispatcher leads,
    /// and while no ResourceManager leads.
    pub async fn overview(&self) -> Result<ClusterOverview, ClientError> {
        self.get("/overview").await
    }
    /// Sends `GET /config`: version of the endpoint, and the features that it allows (uploads, cancelling).
    pub async fn dashboard_config(&self) -> Result<DashboardConfiguration, ClientError> {
        self.get("/config").await
    }
    /// Sends `GET /jobmanager/config`: the options that are set for the JobManager that answers, secrets masked; defaults
    /// are not listed.
    pub async fn configuration(&self) -> Result<Vec<ConfigurationEntry>, ClientError> {
        self.get("/jobmanager/config").await
    }
    /// Sends `GET /jobmanager/logs`: names, sizes and times of the log files of the JobManager that answers; the list is empty if it logs
    /// to its console. Refused with 500 if the log folder cannot be read.
    pub async fn logs(&self) -> Result<LogList, ClientError> {
        self.get("/jobmanager/logs").await
    }
    /// Sends `GET /jobmanager/logs/:file` and calls `each` with the pieces of the file, up to its length at the request, as
    /// they come; the first error of `each` ends the download and is returned. Not the download as a whole, but the wait
    /// for each piece is limited by `ClientTimeouts::answer`. Refused with 404 if there is no such log file; a
    /// `ClientError` is converted to `E`.
    pub async fn log<E: From<ClientError>>(
        &self,
        file: &str,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = format!("/jobmanager/logs/{}", escape(file));
        self.transport.download(&path, self.timeouts.answer, each).await
    }
    /// Sends `GET /taskmanagers/:id/logs`: names, sizes and times of the log files of the TaskManager with the resource id `id` and its
    /// program hosts (the processes that run jobs' code). The endpoint asks the TaskManager for them. Refused with 404 if it is not
    /// registered, with 503 while no ResourceManager leads or the TaskManager cannot be reached, with 504 if it does not answer in time,
    /// and with 500 if it cannot read its log folder.
    pub async fn task_manager_logs(&self, id: &str) -> Result<LogList, ClientError> {
        self.get(&format!("/taskmanagers/{}/logs", escape(id))).await
    }
    /// Sends `GET /taskmanagers/:id/logs/:file` and calls `each` with the pieces of the file as they come; the first error of `each` ends
    /// the download and is returned. Not the download as a whole, but the wait for each piece is limited by `ClientTimeouts::answer`.
    /// Refused with 404 if the TaskManager or the log file is unknown, with 500, 503 or 504 as the list of its logs; if the TaskManager
    /// fails later, the download ends as `Broken`. A `ClientError` is converted to `E`.
    pub async fn task_manager_log<E: From<ClientError>>(
        &self,
        id: &str,
        file: &str,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = format!("/taskmanagers/{}/logs/{}", escape(id), escape(file));
        self.transport.download(&path, self.timeouts.answer, each).await
    }
    /// Sends `GET /jobs/overview`: one line for each job that the Dispatcher knows: being stored, running, or ended and
    /// still remembered. A job that is being stored, or whose JobMaster does not answer within 2 s, is shown as
    /// `INITIALIZING`. Refused with 503 while no Dispatcher leads.
    pub async fn jobs_overview(&self) -> Result<JobsOverview, ClientError> {
        self.get("/jobs/overview").await
    }
    /// Sends `GET /jobs/:jobid`: the state, vertices and plan of the job with the id `job`, running or ended. Refused with 404 for an
    /// unknown job, 410 if it has ended and only its result is left, 503 while no Dispatcher leads, no JobMaster of the job is found, or
    /// it is being stored or recovered, 503 or 504 if its JobMaster does not answer in time, and 400 if `job` is not an id.
    pub async fn job(&self, job: &str) -> Result<JobDetailsInfo, ClientError> {
        self.get(&format!("/jobs/{}", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/status`: the job's state alone, also of one that has ended, `INITIALIZING` while it is being stored. Refused
    /// with 404 for an unknown job, and with 503 while the job is being recovered or its JobMaster does not answer.
    pub async fn job_status(&self, job: &str) -> Result<JobStatusInfo, ClientError> {
        self.get(&format!("/jobs/{}/status", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/plan`: the job's graph, with its vertices as nodes. Refused like `RestClient::job`:
    /// 404, 410, 503 or 504.
    pub async fn job_plan(&self, job: &str) -> Result<PlanResponse, ClientError> {
        self.get(&format!("/jobs/{}/plan", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/exceptions`: the job's failures, newest first, at most 20 and no more than its JobMaster keeps
    /// (`web.exception-history-size`). Refused like `RestClient::job`: 404, 410, 503 or 504.
    pub async fn job_exceptions(&self, job: &str) -> Result<JobExceptions, ClientError> {
        self.get(&format!("/jobs/{}/exceptions", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/checkpoints`: statistics of the job's checkpoints since its JobMaster started. Refused like
    /// `RestClient::job`: 404, 410, 503 or 504.
    pub async fn checkpoints(&self, job: &str) -> Result<CheckpointingStatistics, ClientError> {
        self.get(&format!("/jobs/{}/checkpoints", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/checkpoints/config`: the job's checkpoint settings. Refused like `RestClient::job`:
    /// 404, 410, 503 or 504.
    pub async fn checkpoint_config(&self, job: &str) -> Result<CheckpointConfigInfo, ClientError> {
        self.get(&format!("/jobs/{}/checkpoints/config", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/checkpoints/details/:checkpointid`: the checkpoint with the number `id`, vertex by vertex. Refused with 404
    /// if the job is unknown or the checkpoint is neither among the newest that are remembered (`web.checkpoints.history`) nor the newest
    /// of its kind, otherwise like `RestClient::job`.
    pub async fn checkpoint(&self, job: &str, id: u64) -> Result<CheckpointInfo, ClientError> {
        self.get(&format!("/jobs/{}/checkpoints/details/{id}", escape(job))).await
    }
    /// Sends `GET /jobs/:jobid/vertices/:vertexid`: the vertex with the id `vertex` (32 hexadecimal digits) and its subtasks. Refused with
    /// 404 if the job or the vertex is unknown, 400 if one is not an id, otherwise like `RestClient::job`.
    pub async fn vertex(&self, job: &str, vertex: &str) -> Result<VertexDetailsInfo, ClientError> {
        self.get(&format!("/jobs/{}/vertices/{}", escape(job), escape(vertex))).await
    }
    /// Sends `GET /jobs/:jobid/execution-result?wait=…` and waits. The answer is `COMPLETED` with the result when the job
    /// has ended, also when it failed or was cancelled; after `wait` it is `IN_PROGRESS`. The endpoint waits a minute at
    /// most, and less when too many clients wait, so callers ask again in a loop. The client itself waits
    /// [`ClientTimeouts::answer`] longer than `wait`.
    ///
    /// # Errors
    /// Returns [`ClientError::Refused`] with status 404 for an unknown job, 400 if `job` is not an id, and 503 while the job
    /// is being stored or recovered; otherwise as every call.
    pub async fn execution_result(
        &self,
        job: &str,
        wait: Duration,
    ) -> Result<ExecutionResult, ClientError> {
        let path = format!("/jobs/{}/execution-result?wait={}", escape(job), wait.as_millis());
        let within = self.timeouts.answer.saturating_add(wait);
        self.call(Method::GET, &path, None::<&EmptyBody>, within).await
    }
    /// Sends `PATCH /jobs/:jobid?mode=cancel`: asks to cancel the job, and does not wait for its end. Refused with 404 for
    /// an unknown job, with 409 if it has ended, with 503 or 504 if its JobMaster does not answer in time (it may be cancelled
    /// all the same) or the job is being stored or recovered, and with 403 if `web.cancel.enable` is false there.
    pub async fn cancel(&self, job: &str) -> Result<(), ClientError> {
        let path = format!("/jobs/{}?mode=cancel", escape(job));
        self.done(Method::PATCH, &path, None::<&EmptyBody>).await
    }
    /// Sends `PATCH /jobs/:jobid/clientHeartbeat`: binds the job to this client; the job is cancelled unless another beat comes within
    /// `timeout` (whole milliseconds; 0 cancels it at once, more than a day counts as a day) of this one's arrival. A job that does not run
    /// yet when the time is over is left alone. The client sends no further beat by itself. Refused with 404 for an unknown job, with 409
    /// if it has ended, with 503 while a new leader still lists its predecessor's jobs and does not know this one yet, and with 403 if
    /// `web.cancel.enable` is false there.
    pub async fn client_heartbeat(&self, job: &str, timeout: Duration) -> Result<(), ClientError> {
        let path = format!("/jobs/{}/clientHeartbeat", escape(job));
        let timeout = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let body = ClientHeartbeatBody { timeout, ..ClientHeartbeatBody::default() };
        self.done(Method::PATCH, &path, Some(&body)).await
    }
    /// Sends `POST /jobs/:jobid/coordinators/:operatorUid`: passes `request` to the coordinator of an operator (its part on the
    /// JobManager's side), named by id or `uid`, and returns its answer. Both are bytes in the operator's own encoding. Refused with 404 if
    /// the job or the coordinator is unknown, 503 while the job is being stored or recovered, its coordinators are not up, or their answer
    /// is missing (the request may have been handled), 500 if the coordinator fails or the job has ended (by `uid` also 410 if its details
    /// are gone). Only results that a finished job has collected are served on, for at most 60 s after each request.
    pub async fn coordinate(
        &self,
        job: &str,
        operator: &str,
        request: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let path = format!("/jobs/{}/coordinators/{}", escape(job), escape(operator));
        let body =
            CoordinationRequestBody { serialized_coordination_request: decode::to_base64(request) };
        let answer: CoordinationResponseBody =
            self.call(Method::POST, &path, Some(&body), self.timeouts.answer).await?;
        decode::from_base64(&answer.serialized_coordination_result)
            .map_err(|e| ClientError::Malformed { what: path, why: e.errors.join("; ") })
    }
    /// Sends `GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid`: a vertex's part of the checkpoint `id`, subtask by
    /// subtask. Refused with 404 if the job, the checkpoint or the vertex in it is unknown, otherwise like [`RestClient::checkpoint`].
    pub async fn checkpoint_of_vertex(
        &self,
        job: &str,
        id: u64,
        vertex: &str,
    ) -> Result<VertexCheckpointInfo, ClientError> {
        let vertex = escape(vertex);
        self.get(&format!("/jobs/{}/checkpoints/details/{id}/subtasks/{vertex}", escape(job))).await
    }
    /// Sends `POST /jobs/:jobid/checkpoints`: triggers a checkpoint beside the periodic ones and does not wait for it.
    /// Returns the id of the operation, for [`RestClient::triggered_checkpoint`], which alone shows a later failure.
    /// Refused with 404 for an unknown job, with 409 if it has ended, and with 503 while it is being stored or recovered.
    pub async fn trigger_checkpoint(
        &self,
        job: &str,
        body: &CheckpointBody,
    ) -> Result<String, ClientError> {
        self.begin(&format!("/jobs/{}/checkpoints", escape(job)), body).await
    }
    /// Sends `GET /jobs/:jobid/checkpoints/:triggerid`: the progress and result of a checkpoint that was triggered by
    /// [`RestClient::trigger_checkpoint`], also after the job has ended. Refused with 404 if the operation is unknown or forgotten, as
    /// after a change of the leader or when 256 later ones have ended.
    pub async fn triggered_checkpoint(
        &self,
        job: &str,
        trigger: &str,
    ) -> Result<TriggeredCheckpointInfo, ClientError> {
        self.get(&format!("/jobs/{}/checkpoints/{}", escape(job), escape(trigger))).await
    }
    /// Sends `POST /jobs/:jobid/savepoints`: triggers a savepoint and does not wait for it. Returns the id of the operation, for
    /// [`RestClient::savepoint_status`], which alone shows a later failure. Refused with 404 for an unknown job, with 409 if it has ended,
    /// with 503 while it is being stored or recovered, with 400 if there is no directory for it, or only one that is a relative path or in
    /// the folder of the job's checkpoints, and with 403 if `body` asks to cancel the job and `web.cancel.enable` is false there.
    pub async fn savepoint(&self, job: &str, body: &SavepointBody) -> Result<String, ClientError> {
        self.begin(&format!("/jobs/{}/savepoints", escape(job)), body).await
    }
    /// Sends `POST /jobs/:jobid/stop`: takes a savepoint with which the job ends, and does not wait for it. Returns the id of the
    /// operation, for [`RestClient::savepoint_status`], which alone shows a later failure. Refused with 404 for an unknown job, with 409 if
    /// it has ended, with 503 while it is being stored or recovered, with 400 if there is no directory for the savepoint, or only one that
    /// is a relative path or in the folder of the job's checkpoints, and with 403 if `web.cancel.enable` is false there.
    pub async fn stop(&self, job: &str, body: &StopBody) -> Result<String, ClientError> {
        self.begin(&format!("/jobs/{}/stop", escape(job)), body).await
    }
    /// Sends `GET /jobs/:jobid/savepoints/:triggerid`: the progress and result of a savepoint or stop, also after the job has ended.
    /// Refused with 404 if the operation `trigger` is unknown or forgotten, as after a change of the leader or when 256 later ones have
    /// ended.
    pub async fn savepoint_status(
        &self,
        job: &str,
        trigger: &str,
    ) -> Result<OperationInfo, ClientError> {
        self.get(&format!("/jobs/{}/savepoints/{}", escape(job), escape(trigger))).await
    }
    /// Sends `POST /savepoint-disposal`: begins to delete the savepoint at this path or URI and does not wait for it. Returns the id of the
    /// operation, for [`RestClient::disposal_status`], which alone shows a failure: no savepoint is there, a running job or another
    /// checkpoint needs it, jobs are still being recovered so that it is not known whether one does, or the store failed. Refused with 400
    /// for an empty path, and with 403 if `web.cancel.enable` is false there.
    pub async fn dispose_savepoint(&self, path: &str) -> Result<String, ClientError> {
        let body = DisposalBody { savepoint_path: path.to_owned() };
        self.begin("/savepoint-disposal", &body).await
    }
    /// Sends `GET /savepoint-disposal/:triggerid`: the progress and result of a savepoint's deletion. Refused with 404 if the operation
    /// `trigger` is unknown or forgotten, as after a change of the leader or when 256 later ones have ended.
    pub async fn disposal_status(&self, trigger: &str) -> Result<OperationInfo, ClientError> {
        self.get(&format!("/savepoint-disposal/{}", escape(trigger))).await
    }
    /// Sends `GET /taskmanagers`: all registered TaskManagers. Refused with 503 while no ResourceManager leads.
    pub async fn task_managers(&self) -> Result<TaskManagers, ClientError> {
        self.get("/taskmanagers").await
    }
    /// Sends `GET /taskmanagers/:id`: the TaskManager with the resource id `id`, its slots in use and its memory. Refused
    /// with 404 if it is not registered, and with 503 while no ResourceManager leads.
    pub async fn task_manager(&self, id: &str) -> Result<TaskManagerInfo, ClientError> {
        self.get(&format!("/taskmanagers/{}", escape(id))).await
    }
    /// Sends `GET /blocklist/nodes`: the nodes that are blocked now, which get no new slots and TaskManagers, sorted by
    /// name. Refused with 503 while no ResourceManager leads.
    pub async fn blocked_nodes(&self) -> Result<BlockedNodes, ClientError> {
        self.get("/blocklist/nodes").await
    }
    /// Sends `POST /blocklist/nodes/:node`: blocks the node with this host name for a time, so that it gets no new slots
    /// and workers; slots in use stay. Returns the block that holds: an existing one that ends later stays. Refused with
    /// 400 for a bad body or name, 409 if too many nodes are blocked, and 503 while no ResourceManager leads.
    pub async fn block_node(
        &self,
        node: &str,
        body: &BlockNodeBody,
    ) -> Result<BlockedNodeInfo, ClientError> {
        let path = format!("/blocklist/nodes/{}", escape(node));
        self.call(Method::POST, &path, Some(body), self.timeouts.answer).await
    }
    /// Sends `DELETE /blocklist/nodes/:node`: ends the block of the node with the host name `node`. Refused with 404 if the
    /// node is not blocked, and with 503 while no ResourceManager leads.
    pub async fn unblock_node(&self, node: &str) -> Result<(), ClientError> {
        let path = format!("/blocklist/nodes/{}", escape(node));
        self.done(Method::DELETE, &path, None::<&EmptyBody>).await
    }
    /// Sends `GET /jars`: the programs that were uploaded to this endpoint, newest first. Refused with 403 if uploads are
    /// not allowed there.
    pub async fn jars(&self) -> Result<JarList, ClientError> {
        self.get("/jars").await
    }
    /// Sends `POST /jars/upload` and streams the program at `path`. `progress` is called for each piece with the total number of bytes of
    /// the file that were read for sending so far. The endpoint keeps the program under a new id after it has checked it and run it to
    /// learn its job names. May take [`ClientTimeouts::build`], and a minute more for each whole GiB.
    ///
    /// # Errors
    /// Returns [`ClientError::File`] if the file cannot be opened or its size not be read, and [`ClientError::Refused`] if the endpoint
    /// does not take the program: with 403 if uploads are not allowed, 400 if it is no program, 413 if it is too large, 408 if it comes too
    /// slowly, 503 if too many uploads are under way, 507 if the endpoint's disk is full, 500 if it fails otherwise; else as every call.
    pub async fn upload(
        &self,
        path: &Path,
        progress: impl FnMut(u64) + Send + Sync + 'static,
    ) -> Result<JarUploaded, ClientError> {
        let answer = upload::send(&self.transport, path, progress, self.timeouts.build).await?;
        serde_json::from_slice(&answer).map_err(|e| malformed("/jars/upload", &e))
    }
    /// Sends `POST /jars/:jarid/run`: builds the uploaded program's graph on the cluster and submits its job. Returns the job's id; does
    /// not wait for the job. May take [`ClientTimeouts::build`]. Refused with 404 for an unknown program, 400 if the request, the build,
    /// the savepoint or the checkpoint directory is at fault, 409 if the job id is that of a job that runs or is still remembered, 403 if
    /// submissions are not allowed or the cluster is for one job only, 500 if the job or its program cannot be stored, 503 if there is no
    /// room now or the cluster is shutting down, 507 if the disk for programs is full. After 500, 503, 504 or `Broken` the job may have
    /// been submitted.
    pub async fn run(
        &self,
        jar: &str,
        request: &JarRequest,
    ) -> Result<JarRunResponse, ClientError> {
        let path = format!("/jars/{}/run", escape(jar));
        self.call(Method::POST, &path, Some(request), self.timeouts.build).await
    }
    /// Sends `POST /jars/:jarid/plan`: runs the uploaded program on the cluster to build its graph, and returns that; submits nothing. May
    /// take [`ClientTimeouts::build`]. Refused with 404 for an unknown program, 400 if the request or the build is at fault, 403 if
    /// submissions are not allowed or the cluster is for one job only, 500 if the program cannot be stored, 503 if there is no room for
    /// the build now, 507 if the disk for programs is full.
    pub async fn plan(&self, jar: &str, request: &JarRequest) -> Result<PlanResponse, ClientError> {
        let path = format!("/jars/{}/plan", escape(jar));
        self.call(Method::POST, &path, Some(request), self.timeouts.build).await
    }
    /// Sends `DELETE /jars/:jarid`: deletes the uploaded program from the endpoint's folder before the answer; its jobs go on. Refused with
    /// 404 for an unknown program, with 403 if uploads are not allowed there, and with 500 if the disk fails.
    pub async fn delete_jar(&self, jar: &str) -> Result<(), ClientError> {
        let path = format!("/jars/{}", escape(jar));
        self.done(Method::DELETE, &path, None::<&EmptyBody>).await
    }
    /// Sends `DELETE /cluster`, which is answered at once: from the answer on the cluster refuses new jobs; it cancels all
    /// its jobs, waits 30 s at most for their ends, and then its leading JobManager and its TaskManagers end. Standby
    /// JobManagers are not told, and one of them may lead the empty cluster. Refused with 503 while no Dispatcher leads.
    pub async fn shut_down_cluster(&self) -> Result<(), ClientError> {
        self.done(Method::DELETE, "/cluster", None::<&EmptyBody>).await
    }
}

/// Makes the error of a body to or from this path that has not the shape that it should have.
fn malformed(path: &str, error: &serde_json::Error) -> ClientError {
    ClientError::Malformed { what: path.to_owned(), why: error.to_string() }
}
