//! The Dispatcher's gateway: jobs come in, are listed, cancelled and asked about.
//!
//! Control calls and diagnostics (what REST shows) are separate groups of one file; nothing here may
//! carry user data but as opaque bytes.

use crate::gateway;
use crate::job_master::{CoordinationError, JobDetails};
use model::{
    CheckpointKind, CheckpointReport, DispatcherId, FailureCause, JobGraph, JobId, JobStatus,
    OperatorId, TriggerId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

gateway! {
    /// What the Dispatcher answers.
    pub struct DispatcherGateway = "dispatcher", fenced by DispatcherId;
    SubmitJob => JobId, SubmitError;
    SubmitProgram => JobId, SubmitError;
    PlanProgram => JobGraph, SubmitError;
    CancelJob => (), JobError;
    ClientHeartbeat => (), JobError;
    TriggerSavepoint => (), JobError;
    RequestSavepoint => OperationState, OperationUnknown;
    DisposeSavepoint => (), crate::Never;
    RequestJobStatus => JobStatus, JobError;
    RequestJobResult => JobResult, JobError;
    RequestJobDetails => JobDetails, JobError;
    RequestJobCheckpoints => CheckpointReport, JobError;
    RequestJobsOverview => Vec<JobSummary>, crate::Never;
    DeliverCoordinationRequest => serde_bytes::ByteBuf, CoordinationError;
    ShutDownCluster => (), crate::Never;
}

/// A graph that exists already: persisted, then run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitJob {
    /// The graph; its program must be in the BlobServer under its hash.
    pub graph: JobGraph,
}

/// Have a child process build the program's graph, then submit it. The child becomes the job's
/// JobManager-side program host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitProgram {
    /// The program and its inputs. `once` is empty: the build fills it.
    pub program: model::ProgramRef,
    /// Given by the client, or drawn.
    pub job_id: Option<JobId>,
    /// `parallelism.default` for this job.
    pub parallelism: Option<u32>,
    /// `-D` options of this job.
    pub options: BTreeMap<String, String>,
}

/// Build and return the graph; run nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanProgram {
    /// As in [`SubmitProgram`].
    pub program: model::ProgramRef,
    /// As in [`SubmitProgram`].
    pub parallelism: Option<u32>,
    /// As in [`SubmitProgram`].
    pub options: BTreeMap<String, String>,
}

/// Why a submission was refused. Nothing of it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SubmitError {
    /// A job of that id is running.
    #[error("job {job} is running already")]
    DuplicateRunning {
        /// The id.
        job: JobId,
    },
    /// A job of that id has ended.
    #[error("job {job} has already ended as {status}; a job id is used once")]
    DuplicateTerminated {
        /// The id.
        job: JobId,
        /// How it ended.
        status: JobStatus,
    },
    /// Some vertices have resource specs and these do not.
    #[error("some vertices have resource specs, these do not: {}", vertices.join(", "))]
    PartialResources {
        /// Their names.
        vertices: Vec<String>,
    },
    /// This cluster runs one job or one program only.
    #[error("this cluster runs one application and takes no further jobs ({mode} mode)")]
    SingleJob {
        /// `application` or `per-job`.
        mode: String,
    },
    /// The program could not be run or its `build` failed.
    #[error("the program could not be built into a job: {0}")]
    Build(String),
    /// There is no room now for the process that builds the program's graph. The same request may succeed later.
    #[error("the program cannot be built into a job now: {0}")]
    NoRoom(String),
    /// The program refuses its arguments, or was asked for help: what it says, as it says it.
    #[error("{text}")]
    Usage {
        /// What to print.
        text: String,
        /// Whether help or the version was asked for: no failure.
        help: bool,
    },
    /// The graph is malformed.
    #[error("the job graph is invalid: {0}")]
    InvalidGraph(String),
    /// The job can't start from the savepoint that it names.
    #[error("the job can't start from its savepoint: {0}")]
    Restore(String),
    /// The graph could not be persisted.
    #[error("the job graph could not be stored: {0}")]
    Storage(String),
    /// The Dispatcher is shutting down or losing leadership.
    #[error("the Dispatcher is shutting down")]
    ShuttingDown,
}

/// Cancel; answered once the job was told, not once it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelJob {
    /// Which.
    pub job_id: JobId,
}

/// The client that is attached to a job lives. The first beat binds the job to its client: the Dispatcher cancels it
/// when no beat comes in time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientHeartbeat {
    /// Which.
    pub job_id: JobId,
    /// Milliseconds until the job is cancelled unless another beat comes; at most a day counts.
    pub timeout_ms: u64,
}

/// Take a savepoint. Answered once the operation is known under its id, which [`RequestSavepoint`] asks about; a repeated call with
/// the same id changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriggerSavepoint {
    /// The job.
    pub job_id: JobId,
    /// The id of the operation.
    pub trigger_id: TriggerId,
    /// A savepoint, a stop, or a checkpoint of the job's own beside the periodic ones.
    pub kind: CheckpointKind,
    /// The directory; `None`: the configured one.
    pub directory: Option<String>,
    /// Whether the job is cancelled when the savepoint is complete.
    pub cancel: bool,
}

/// How an operation on savepoints stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSavepoint {
    /// The job; `None` for a disposal.
    pub job_id: Option<JobId>,
    /// The id of the operation.
    pub trigger_id: TriggerId,
}

/// Delete a savepoint. Answered like [`TriggerSavepoint`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisposeSavepoint {
    /// The id of the operation.
    pub trigger_id: TriggerId,
    /// The URI of the savepoint's folder.
    pub path: String,
}

/// How an operation stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationState {
    /// It runs.
    InProgress,
    /// It is done. For a savepoint: the URI of its folder; for a checkpoint: its number.
    Done(String),
    /// It has failed.
    Failed(FailureCause),
}

/// No operation of this id is known: it was never triggered here, the Dispatcher's leadership has changed since, or many others have
/// ended since.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error(
    "no operation with trigger id {0} is known here; it is forgotten when the JobManager changes"
)]
pub struct OperationUnknown(pub TriggerId);

/// The state of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobStatus {
    /// Which.
    pub job_id: JobId,
}

/// The result of a job: answered when it has ended, or at `wait_ms` with what is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobResult {
    /// Which.
    pub job_id: JobId,
    /// Milliseconds to wait for the end; 0 answers at once.
    pub wait_ms: u64,
}

/// How a job ended, or that it has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// Which.
    pub job_id: JobId,
    /// Its name.
    pub name: String,
    /// Globally terminal, or the present state of a job that has not ended.
    pub status: JobStatus,
    /// Why it failed.
    pub cause: Option<FailureCause>,
    /// Milliseconds from first start to end (or now).
    pub runtime_ms: u64,
}

/// Everything about one job that REST shows; archived for ended jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobDetails {
    /// Which.
    pub job_id: JobId,
}

/// The checkpoints of one job; archived with the details of ended jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobCheckpoints {
    /// The job.
    pub job_id: JobId,
}

/// All jobs, running and archived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobsOverview {}

/// One line of the list of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Which.
    pub job_id: JobId,
    /// Its name.
    pub name: String,
    /// Its state.
    pub status: JobStatus,
    /// Unix milliseconds.
    pub start_ms: u64,
    /// Unix milliseconds; `None` while it runs.
    pub end_ms: Option<u64>,
    /// Unix milliseconds of the last change.
    pub last_modification_ms: u64,
    /// Subtasks by state.
    pub tasks: BTreeMap<model::ExecutionState, u32>,
}

/// To a coordinator of a running job, by its operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeliverCoordinationRequest {
    /// Which.
    pub job_id: JobId,
    /// The operator that the coordinator belongs to.
    pub operator: OperatorId,
    /// Opaque.
    #[serde(with = "serde_bytes")]
    pub request: Vec<u8>,
}

/// End the cluster: running jobs are cancelled, HA data is cleaned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShutDownCluster {}

/// Why a question about a job has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum JobError {
    /// Neither running nor archived.
    #[error("job {job} is not known here")]
    NotFound {
        /// The id.
        job: JobId,
    },
    /// Known, but its JobMaster is not up (starting, or changing leader): ask again.
    #[error("the JobMaster of job {job} is not available yet")]
    Unavailable {
        /// The id.
        job: JobId,
    },
    /// It has ended.
    #[error("job {job} has already ended as {status}")]
    Terminated {
        /// The id.
        job: JobId,
        /// How.
        status: JobStatus,
    },
    /// It has ended, and nothing but its result can be told.
    #[error("job {job} has ended as {status}, and its details are gone: {why}")]
    DetailsGone {
        /// The id.
        job: JobId,
        /// The state in which it ended.
        status: JobStatus,
        /// The reason.
        why: String,
    },
}
