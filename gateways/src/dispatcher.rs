//! The Dispatcher's gateway: jobs come in, are listed, cancelled and asked about.
//!
//! Control calls and diagnostics (what REST shows) are separate groups of one file; nothing here may
//! carry user data but as opaque bytes.

use crate::job_master::{CoordinationError, JobDetails};
use crate::{EndpointAddress, gateway};
use model::{
    CheckpointKind, CheckpointReport, DispatcherId, FailureCause, JobGraph, JobId, JobStatus,
    OperatorId, ProcessSession, TriggerId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

gateway! {
    /// The gateway (group of calls) of the Dispatcher, the component that accepts a cluster's jobs: clients submit,
    /// cancel and ask about jobs, take savepoints, and end the cluster.
    pub struct DispatcherGateway = "dispatcher", fenced by DispatcherId;
    SubmitJob => JobId, SubmitError;
    SubmitProgram => JobId, SubmitError;
    PlanProgram => JobGraph, SubmitError;
    RequestBlobServer => BlobServerLocation, crate::Never;
    CancelJob => (), JobError;
    ClientHeartbeat => (), JobError;
    TriggerSavepoint => (), JobError;
    RequestSavepoint => OperationState, OperationUnknown;
    DisposeSavepoint => (), crate::Never;
    RequestJobStatus => JobStatus, JobError;
    RequestJobResult => JobResult, JobError;
    RequestJobDetails => JobDetails, JobError;
    RequestJobCheckpoints => CheckpointReport, JobError;
    RequestJobsOverview => JobsOverview, crate::Never;
    DeliverCoordinationRequest => serde_bytes::ByteBuf, CoordinationError;
    ShutDownCluster => (), crate::Never;
}

/// Client → Dispatcher: submits a job as a graph that the client has built itself. Answered with the job's id when the
/// graph is stored; the job then runs, even if the caller has gone. A refusal is a `SubmitError`; the id of a known job
/// is refused (`DuplicateRunning`, `DuplicateTerminated`), so a repeated call starts no second job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitJob {
    /// The job's graph; the executable of its program must be in the BlobServer under its hash.
    pub graph: JobGraph,
}

/// Client or REST → Dispatcher: submits a program (an executable and its arguments). A child process of the JobManager builds the
/// graph (at most 150 s), which is then submitted like [`SubmitJob`]'s; answered with the job's id. The child also runs the job's
/// coordinators if the job gets its slots within 10 s; otherwise, or if its place is needed before, it is ended, and another one is
/// started for them. The job runs even if the caller has gone. A failed build is refused with `SubmitError::Build`, `SubmitError::Usage` or
/// `SubmitError::NoRoom`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SubmitProgram {
    /// The executable, which must be in the BlobServer under its hash, and its inputs (arguments, environment). Its
    /// `once`, the values that the program computes once for all processes, is empty: the build fills it, and an empty `env` from the
    /// environment of its child process.
    pub program: model::ProgramRef,
    /// Id that the job gets, drawn by the client; `None`: the Dispatcher draws one, and a repeated call starts a second
    /// job.
    pub job_id: Option<JobId>,
    /// Default parallelism of this job (number of subtasks of operators that set none), at least 1; `None`:
    /// `parallelism.default` of `options`, or else of the cluster.
    pub parallelism: Option<u32>,
    /// `-D` options of this job, by key; they override the cluster's.
    pub options: BTreeMap<String, String>,
}

/// REST → Dispatcher: builds the graph of a program in a child process of its own (at most 150 s) and returns it, to show it to
/// users; runs no job and keeps nothing. Only in session clusters: others refuse with [`SubmitError::SingleJob`]. A failed
/// build is refused with `SubmitError::Build`, `SubmitError::Usage` or `SubmitError::NoRoom`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlanProgram {
    /// The program and its inputs, as in [`SubmitProgram::program`].
    pub program: model::ProgramRef,
    /// Default parallelism of the graph, at least 1; `None`: `parallelism.default` of `options`, or else of the cluster.
    pub parallelism: Option<u32>,
    /// `-D` options for this graph, by key; they override the cluster's.
    pub options: BTreeMap<String, String>,
}

/// REST of another JobManager → Dispatcher: asks for the BlobServer in which the Dispatcher looks for the executables of [`SubmitProgram`]
/// and [`PlanProgram`], that of its own process, so that a standby puts them there. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestBlobServer {}

/// Answer to [`RequestBlobServer`]: address and session of the BlobServer of the leading Dispatcher's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobServerLocation {
    /// Address of the BlobServer's endpoint.
    pub address: EndpointAddress,
    /// Session (one run) of the BlobServer's process, which calls to the BlobServer must name; others are refused as fenced.
    pub session: ProcessSession,
}

/// The reason why [`SubmitJob`], [`SubmitProgram`] or [`PlanProgram`] was refused: this request runs no job. A [`SubmitJob`] is not refused
/// with `Build`, `NoRoom` or `Usage`; a [`PlanProgram`] only with these, `SingleJob`, and `InvalidGraph` (for an option). Only after
/// [`Storage`](Self::Storage) and [`ShuttingDown`](Self::ShuttingDown) the graph may have been stored all the same; the next leader then
/// runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SubmitError {
    /// A job of that id is being built, stored or recovered, or it runs, or its end is not recorded yet; or an earlier leader has stored
    /// one without this Dispatcher's knowledge, which takes that job over now.
    #[error("job {job} is running already")]
    DuplicateRunning {
        /// Id of the job.
        job: JobId,
    },
    /// A job of that id has ended; an id can be used again only once the Dispatcher has forgotten the job.
    #[error("job {job} has already ended as {status}; a job id is used once")]
    DuplicateTerminated {
        /// Id of the job.
        job: JobId,
        /// State in which the job ended.
        status: JobStatus,
    },
    /// Some vertices of the graph declare the resources that they need and the listed ones do not; either all do or
    /// none.
    #[error("some vertices have resource specs, these do not: {}", vertices.join(", "))]
    PartialResources {
        /// Names of the vertices concerned.
        vertices: Vec<String>,
    },
    /// The cluster was started for one job or one program (it is no session cluster), and the submitted one is another.
    #[error("this cluster runs one application and takes no further jobs ({mode} mode)")]
    SingleJob {
        /// Mode of the cluster: `application` or `per-job`.
        mode: String,
    },
    /// The program could not be run (for example because it is not in the BlobServer, or its process died or did not answer in time), or
    /// its `build` failed; the text says how.
    #[error("the program could not be built into a job: {0}")]
    Build(String),
    /// There is no room now for the process that builds the program's graph: no place among the program hosts
    /// (`jobmanager.program-hosts.max`) became free in time, or the machine lacks descriptors, processes or memory. The same request may
    /// succeed later.
    #[error("the program cannot be built into a job now: {0}")]
    NoRoom(String),
    /// The program refuses its arguments, or was asked for help; `text` is what the program itself says. No graph was
    /// built.
    #[error("{text}")]
    Usage {
        /// Text to print: the program's help or complaint.
        text: String,
        /// True if help or the version was asked for: no failure.
        help: bool,
    },
    /// The graph is malformed (no vertices, above the limits of [`JobGraph`], duplicate ids, a parallelism out of its range, vertices or
    /// edges that do not fit together), or an option of the job is unknown, invalid or one of the cluster's, or a program has built the
    /// graph for another job id; the text says how.
    #[error("the job graph is invalid: {0}")]
    InvalidGraph(String),
    /// The job can't start from the savepoint that it names: that cannot be read, is a checkpoint of a job with the same id, was claimed by
    /// another job or is still needed by one, or does not fit the program. The text gives every reason. The job was not stored.
    #[error("the job can't start from its savepoint: {0}")]
    Restore(String),
    /// The job's checkpoint directory (`execution.checkpointing.dir`, or the cluster's default) cannot be opened or written to from the
    /// JobManager, or did not answer within 40 s; the text names it, the reason and the remedy. The job was not stored.
    #[error("the job can't store checkpoints: {0}")]
    CheckpointDirectory(String),
    /// The program or the graph could not be stored; the text says why. The job does not run now, but if the graph was stored all the same,
    /// the next leader runs it.
    #[error("the job graph could not be stored: {0}")]
    Storage(String),
    /// The Dispatcher shuts down or has lost its leadership; the same request may succeed at the next leader (after `ShutDownCluster` there
    /// is none). If the graph was stored all the same, the next leader runs the job.
    #[error("the Dispatcher is shutting down")]
    ShuttingDown,
}

/// Client or REST → Dispatcher: cancels a job. The answer means that its JobMaster was asked to cancel it, not that it has ended. Errors:
/// [`JobError::NotFound`], also while the job's graph is still being built; [`JobError::Terminated`] if the job has ended;
/// `JobError::Unavailable` if the job is being stored or recovered, or is unknown while the Dispatcher still lists its predecessor's jobs,
/// or no JobMaster answers by the call's deadline (the job may be cancelled all the same). May be repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelJob {
    /// Job to cancel; [`JobError::NotFound`] if it is not known.
    pub job_id: JobId,
}

/// Client or REST → Dispatcher: a sign of life of the client that is attached to a job (waits for its end). The first beat binds the job to
/// its client: the Dispatcher cancels it once, with at most 30 s for the JobMaster's answer, when no further beat comes within
/// `timeout_ms` (a later beat binds the job anew); a job that does not run yet then is not cancelled. Jobs that are being built, stored or
/// recovered are bound, too. A job that was submitted with `execution.shutdown-on-attached-exit` is bound without a beat from the time at
/// which it begins to run, also at the next leading Dispatcher; other bindings end with the leadership. Errors: [`JobError::NotFound`];
/// [`JobError::Terminated`] if the job has ended; `JobError::Unavailable` if the job is unknown while the Dispatcher still lists its
/// predecessor's jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientHeartbeat {
    /// Job that the client is attached to; [`JobError::NotFound`] if it is not known.
    pub job_id: JobId,
    /// Milliseconds from the arrival of this beat until the job is cancelled unless another beat comes, which replaces the
    /// deadline; 0 cancels at once, more than a day counts as a day.
    pub timeout_ms: u64,
}

/// Client or REST → Dispatcher: begins a savepoint, a stop (a savepoint with which the job ends) or a checkpoint of a
/// running job. Answered as soon as the operation is known under its id, by which [`RequestSavepoint`] asks how it
/// goes; a repeated call with the same id begins nothing. Errors: `JobError::NotFound`; `JobError::Terminated` if the
/// job has ended (also for a repeated call); `JobError::Unavailable` while it is being stored or recovered, or if it is unknown while the
/// Dispatcher still lists its predecessor's jobs; `JobError::SavepointDirectory` if a savepoint or stop has no directory, a relative
/// one, or one in the folder of the job's checkpoints. A savepoint that fails later (also because no JobMaster is found within 60 s, or
/// because it takes more than 6 h) shows only in `OperationState::Failed`. Operations are not stored: another leader knows none of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriggerSavepoint {
    /// Job of which the savepoint is taken.
    pub job_id: JobId,
    /// The id of the operation, drawn by the client or by REST. One that is known for this job already begins nothing new (checkpoints
    /// and savepoints do not know each other's ids); an id may be used again once its operation is forgotten.
    pub trigger_id: TriggerId,
    /// Kind of the operation: a savepoint, after which the job goes on; a stop, which ends the job with a savepoint; or
    /// a checkpoint for the job's own recovery beside the periodic ones.
    pub kind: CheckpointKind,
    /// The directory in which the savepoint's folder is made, a URI or an absolute path; `None`:
    /// `execution.checkpointing.savepoint-dir`. A checkpoint ignores it.
    pub directory: Option<String>,
    /// True if the job is cancelled once the savepoint is complete; a savepoint that fails cancels nothing. If the JobMaster does not
    /// take the cancellation within 60 s, the operation has failed although the savepoint exists. The operation is done before the job
    /// has ended. Without effect on a stop, which ends the job anyway.
    pub cancel: bool,
}

/// Client or REST → Dispatcher: asks for the state of an operation that [`TriggerSavepoint`] or [`DisposeSavepoint`] began.
/// A Dispatcher knows the operations of its own leadership that are under way, and the 256 of all jobs that ended last; others are
/// refused with [`OperationUnknown`]. Changes nothing: the outcome may be asked for again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSavepoint {
    /// The job that the savepoint was triggered for; `None` if the operation is a disposal.
    pub job_id: Option<JobId>,
    /// True if the operation is a checkpoint ([`CheckpointKind::Checkpoint`]), false if it is a savepoint, a stop or a disposal.
    pub is_checkpoint: bool,
    /// The id of the operation that is asked about; [`OperationUnknown`] if none of that id and kind is known for the job.
    pub trigger_id: TriggerId,
}

/// Client or REST → Dispatcher: begins to delete a savepoint with all its files. Answered as soon as the operation is known under
/// its id, like [`TriggerSavepoint`], and never refused. The operation fails later if no savepoint is at the path or it cannot be read or
/// deleted, if it is a checkpoint of a running job, if other checkpoints of its job build on its files (the cause names them), if a running
/// job was started from it and has no complete checkpoint of its own yet, or while the Dispatcher still reads its predecessor's jobs. Jobs
/// that have ended protect no savepoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisposeSavepoint {
    /// The id of the operation, drawn by the client or by REST; one that is known already (of a disposal) begins nothing new.
    pub trigger_id: TriggerId,
    /// URI or absolute path of the savepoint's folder, which is deleted with all its files.
    pub path: String,
}

/// The state of an operation that [`TriggerSavepoint`] or [`DisposeSavepoint`] began, as [`RequestSavepoint`] is answered: under way, done
/// with a result, or failed for good with a cause. Kept in the Dispatcher's memory only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationState {
    /// The operation has not ended yet; ask again.
    InProgress,
    /// The operation has succeeded. For a savepoint or a stop: the URI of the savepoint's folder; for a checkpoint: its number; for a
    /// disposal: the path that was given. A stop is done when the job's end is recorded, or 60 s after the JobMaster has answered that the
    /// job has finished.
    Done(String),
    /// The operation has failed, for the reason in the cause (kind `SavepointFailed`). If the savepoint is complete and only the
    /// cancellation failed, the cause says so.
    Failed(FailureCause),
}

/// No operation of this id is known here: it was never triggered, or for another job, or is of another kind; the Dispatcher's leadership
/// has changed since; or 256 others have ended after it. The only error of [`RequestSavepoint`]; holds the id that was asked about.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error(
    "no operation with trigger id {0} is known here; it is forgotten when the JobManager changes"
)]
pub struct OperationUnknown(pub TriggerId);

/// Client or REST → Dispatcher: asks for the state of a job, running or ended. A job whose graph is being stored is `Initializing`;
/// one whose graph is still being built is not known; one whose end is not recorded yet is still running, failing or cancelling.
/// Errors: [`JobError::NotFound`] if the job is neither running nor remembered; `JobError::Unavailable` if no JobMaster answers by the
/// call's deadline, the job is being recovered, or it is unknown while the Dispatcher still lists its predecessor's jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobStatus {
    /// Job whose state is asked for.
    pub job_id: JobId,
}

/// Client or REST → Dispatcher: asks for the result of a job. The answer comes when the job has ended, or after `wait_ms`
/// with its present state (the call's own deadline must be later). Errors: [`JobError::NotFound`] if the job is neither running nor
/// remembered; `JobError::Unavailable` while it is being stored or recovered, or if it is unknown while the Dispatcher still lists its
/// predecessor's jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobResult {
    /// Job whose result is asked for.
    pub job_id: JobId,
    /// Maximum time to wait for the job's end, in milliseconds; 0 answers at once, more than five minutes count as
    /// five.
    pub wait_ms: u64,
}

/// The result of a job that has ended, or the present state of one that has not: the answer to [`RequestJobResult`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// Job that the result belongs to.
    pub job_id: JobId,
    /// Name of the job; not unique.
    pub name: String,
    /// State of the job: a globally terminal one (finished, failed or cancelled) if its end is recorded, otherwise the present one;
    /// `Initializing` if its JobMaster does not answer within 1 s.
    pub status: JobStatus,
    /// Reason of the job's failure; `None` unless the job has failed for good.
    pub cause: Option<FailureCause>,
    /// Milliseconds from the time at which the Dispatcher accepted the job, or recovered it from its predecessor, to the job's end; for a
    /// job that has not ended, until now.
    pub runtime_ms: u64,
}

/// REST → Dispatcher: asks for everything about one job that REST shows: from its JobMaster, or from the stored details
/// if it has ended. Errors: [`JobError::NotFound`]; [`JobError::Unavailable`] if no JobMaster answers by the call's deadline, the job is
/// being stored or recovered, or it is unknown while the Dispatcher still lists its predecessor's jobs; [`JobError::DetailsGone`] if the
/// details of the ended job were lost or dropped, or cannot be read. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobDetails {
    /// Job whose details are asked for.
    pub job_id: JobId,
}

/// REST → Dispatcher: asks for the report of one job's checkpoints: from its JobMaster, or from the archived details if it
/// has ended. Errors: [`JobError::NotFound`] for an unknown job; [`JobError::Unavailable`] if no JobMaster answers by the call's deadline,
/// the job is being stored or recovered, or it is unknown while the Dispatcher still lists its predecessor's jobs;
/// [`JobError::DetailsGone`] if the details of the ended job were lost or dropped, or cannot be read. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobCheckpoints {
    /// Job whose checkpoints are reported.
    pub job_id: JobId,
}

/// REST → Dispatcher: asks for all jobs: those that run, are being stored, or have ended and are remembered; those whose graph is
/// still being built, and those that are still being read after a change of the leader, are not among them. A job whose JobMaster
/// does not answer within 2 s shows as `Initializing`. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobsOverview {}

/// The jobs that the Dispatcher knows, and the numbers of those that it has forgotten: the answer to `RequestJobsOverview`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JobsOverview {
    /// The jobs that run or are being stored, and those that have ended and are still remembered.
    pub jobs: Vec<JobSummary>,
    /// Number of ended jobs that this leader has forgotten (`jobstore.max-capacity`, `jobstore.expiration-time`), by the
    /// state in which they ended.
    pub forgotten: BTreeMap<JobStatus, u64>,
}

/// One line of the list of jobs ([`JobsOverview::jobs`]): a job's id, name, state, times and number of subtasks; running or ended. A
/// running job's is made by its JobMaster, or by the Dispatcher if that does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// Id of the job in this line.
    pub job_id: JobId,
    /// Name of the job; not unique.
    pub name: String,
    /// State of the job; `Initializing` if the job is being stored or its JobMaster has not answered.
    pub status: JobStatus,
    /// Time at which the Dispatcher that runs or ran the job accepted it, or recovered it from its predecessor, in Unix milliseconds.
    pub start_ms: u64,
    /// Time at which the job ended, in Unix milliseconds; `None` while it has not.
    pub end_ms: Option<u64>,
    /// Time of the last change of the state of the job or of one of its subtasks, in Unix milliseconds.
    pub last_modification_ms: u64,
    /// Number of subtasks by state; states without a subtask are left out. Empty while no JobMaster has answered.
    pub tasks: BTreeMap<model::ExecutionState, u32>,
}

/// Client or REST → Dispatcher: sends a request to an operator's coordinator, the part of the operator that runs once
/// per job, on the JobManager; answered with the coordinator's answer. The job must run, or have finished while its
/// program host still serves the results that it collected: for 60 s after the job's end and after each request, unless its place is
/// needed (after 5 s) or more than 16 hosts serve results. A job that has ended otherwise, or whose results are gone, is refused with
/// `CoordinationError::Failed`. A job without a JobMaster, one that is being stored or recovered, and one that is unknown while the
/// Dispatcher still lists its predecessor's jobs, are refused with `CoordinationError::Unavailable`. If the coordinator's answer is
/// missing, the call fails with `CoordinationError::Unanswered`: the request may have been handled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeliverCoordinationRequest {
    /// Job that the coordinator belongs to; [`CoordinationError::NoSuchJob`] if it is not known.
    pub job_id: JobId,
    /// Operator whose coordinator gets the request; [`CoordinationError::NoSuchOperator`] if it has none.
    pub operator: OperatorId,
    /// Request in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub request: Vec<u8>,
}

/// Client or REST → Dispatcher: shuts the cluster down: no job is accepted any more, running ones are cancelled, and
/// the processes of the leading JobManager's cluster begin to end when the jobs have ended, or after 30 s. Answered at once, before
/// anything has ended; later submissions are refused with [`SubmitError::ShuttingDown`]. May be repeated. Standby JobManagers are not
/// told: one may lead the empty cluster afterwards.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShutDownCluster {}

/// The reason why the Dispatcher refused a call about one job: the job is not known ([`NotFound`](Self::NotFound)), cannot be asked now
/// ([`Unavailable`](Self::Unavailable): ask again), has ended ([`Terminated`](Self::Terminated), only of calls that change something), or
/// has ended and lost its details ([`DetailsGone`](Self::DetailsGone)), or the savepoint's directory is wrong
/// ([`SavepointDirectory`](Self::SavepointDirectory)). The call has changed nothing, except that after `Unavailable` the
/// JobMaster may have carried it out and only its answer was lost.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum JobError {
    /// The Dispatcher knows no such job: it neither runs nor is remembered as ended. A job whose graph is still being built counts as
    /// unknown, except for [`ClientHeartbeat`].
    #[error("job {job} is not known here")]
    NotFound {
        /// Id of the job.
        job: JobId,
    },
    /// The job is being stored or recovered, its JobMaster does not answer (the leader changes, for example), or the Dispatcher still lists
    /// its predecessor's jobs and does not know yet whether there is such a job. Ask again; only a JobMaster that did not answer may have
    /// carried the call out.
    #[error("the JobMaster of job {job} is not available yet")]
    Unavailable {
        /// Id of the job.
        job: JobId,
    },
    /// The job has ended as `status`: it cannot be cancelled, bound to a client or asked for a savepoint any more. A [`CancelJob`] under
    /// way while the job ends is refused so, too, and may itself have ended it.
    #[error("job {job} has already ended as {status}")]
    Terminated {
        /// Id of the job.
        job: JobId,
        /// State in which the job ended.
        status: JobStatus,
    },
    /// The job has ended as `status`, and only its result is left: its details were not stored, had to make room for newer ones, or cannot
    /// be read (the text `why` says which). Of [`RequestJobDetails`] and [`RequestJobCheckpoints`] only.
    #[error("job {job} has ended as {status}, and its details are gone: {why}")]
    DetailsGone {
        /// Id of the job.
        job: JobId,
        /// The state in which it ended.
        status: JobStatus,
        /// Reason as text for people.
        why: String,
    },
    /// A savepoint or stop was asked for without a directory, and `execution.checkpointing.savepoint-dir` is not set for the job; or the
    /// directory is a relative path, no URI that can be read, or in the folder of the job's checkpoints. The text says which, and the
    /// remedy. Of [`TriggerSavepoint`] only.
    #[error("{0}")]
    SavepointDirectory(String),
}
