//! The TaskExecutor's gateway: slots are requested and freed, tasks deployed and cancelled; its program
//! hosts report through it.

use crate::gateway;
use crate::job_master::{CheckpointAnswer, CoordinationError, TaskStateUpdate};
use crate::{EndpointAddress, Never};
use model::{
    AllocationId, BlobKey, CheckpointBarrier, EdgeId, ExecutionAttemptId, FailureCause, JobGraph,
    JobId, JobMasterId, JobVertexId, OperatorId, ProcessSession, ResourceManagerId,
    ResourceProfile, SlotId, StateHandle,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

gateway! {
    /// The gateway of a TaskExecutor, which gives its slots to jobs and has program hosts run their tasks. Calls of a
    /// JobMaster or ResourceManager carry that caller's session (`Remote::with_session`); it is compared with the
    /// session of the one that this TaskExecutor is registered at.
    pub struct TaskExecutorGateway = "task_executor", fenced by ProcessSession;
    RequestSlot => (), SlotRequestError;
    FreeSlot => (), SlotRequestError;
    DeployTasks => Vec<(ExecutionAttemptId, DeployError)>, DeployError;
    CancelTasks => (), Never;
    TriggerCheckpoint => (), Never;
    NotifyCheckpoint => (), Never;
    ForwardCheckpointAnswer => (), CheckpointAnswerError;
    DisconnectJobMaster => (), Never;
    DisconnectResourceManager => (), Never;
    ReportTaskStates => (), Never;
    ForwardOperatorEvent => serde_bytes::ByteBuf, CoordinationError;
    RequestLogs => Vec<LogFile>, LogError;
    ReadLog => serde_bytes::ByteBuf, LogError;
}

/// ResourceManager → TaskExecutor: gives a slot to a job. Answered when the slot is allocated; the TaskExecutor then
/// connects to the job's JobMaster, starts the job's program host (the process that runs its tasks) unless one runs, and
/// offers the slot. A slot that the JobMaster declines is freed again, and so is one that no JobMaster accepts within
/// `taskmanager.slot.timeout` (the host's start is not counted). Refused with a [`SlotRequestError`], and nothing is
/// allocated, if the caller is not the connected ResourceManager or the slot cannot be given. A repeated request with the
/// same allocation is answered as before and allocates nothing, unless the slot is lost or being freed by then (`Occupied`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSlot {
    /// Slot that is requested; one of another TaskExecutor is refused with [`SlotRequestError::NoSuchSlot`].
    pub slot_id: SlotId,
    /// Job that the slot is for.
    pub job_id: JobId,
    /// Id of the allocation that the request establishes, drawn by the caller; the JobMaster is offered the slot under
    /// it.
    pub allocation_id: AllocationId,
    /// Amounts of resources that the slot must have at least, otherwise [`SlotRequestError::Unsuitable`].
    pub profile: ResourceProfile,
    /// Address of the job's JobMaster, to which the slot is offered.
    pub job_master: EndpointAddress,
    /// Leadership of the job's JobMaster. If the TaskExecutor knows a later one, it keeps that one and its address.
    pub job_master_id: JobMasterId,
    /// The leadership of the ResourceManager that asks; it must be the connected one.
    pub resource_manager_id: ResourceManagerId,
    /// Program that the job's host runs, fetched with the job's first slot; `None`: the TaskManager is the program
    /// itself.
    pub program: Option<BlobKey>,
}

/// The reason why a TaskExecutor does not give or free a slot; nothing has changed. [`RequestSlot`] is refused with all but
/// `NotMyJobMaster`, [`FreeSlot`] only with `NoSuchSlot` and `NotMyJobMaster`.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SlotRequestError {
    /// The slot is allocated to another job or allocation, or is lost (its host has ended) or being freed under the requested one; the
    /// fields name the holder, so that the caller corrects its view.
    #[error("slot {slot} is allocated to job {job} already")]
    Occupied {
        /// Slot that the call is about.
        slot: SlotId,
        /// Job that has the slot.
        job: JobId,
        /// Allocation that has the slot.
        allocation_id: AllocationId,
    },
    /// This TaskExecutor has no such slot, or no slot is allocated under this allocation; the text is the slot or the
    /// allocation.
    #[error("there is no slot {0} here")]
    NoSuchSlot(String),
    /// The caller is not the ResourceManager that this TaskExecutor is registered at, its call does not carry its own session, or the
    /// TaskExecutor is stopping and gives no slots.
    #[error("the caller is not the ResourceManager this TaskExecutor is registered at")]
    NotMyResourceManager,
    /// The caller is neither the JobMaster that this TaskExecutor is connected to for the allocation's job, nor the
    /// ResourceManager that this TaskExecutor is registered at; or its call carries no session.
    #[error("the caller is not the JobMaster this TaskExecutor is connected to")]
    NotMyJobMaster,
    /// The slot has fewer resources than the profile asks for, or the allocation has another slot; the text says which.
    #[error("the slot can't be given: {0}")]
    Unsuitable(String),
}

/// JobMaster or ResourceManager → TaskExecutor: takes back a slot that is not needed any more, or whose job has ended.
/// Answered at once; the slot's tasks are cancelled, and the slot is free when they have ended, at once if there are none; the
/// ResourceManager is told (`NotifySlotAvailable`). If tasks have not ended after `task.cancellation.timeout` and
/// `taskmanager.slot.timeout` together, their program host is killed with all its tasks. With the job's last slot its host ends. Refused
/// with `SlotRequestError::NotMyJobMaster` if the caller is neither the job's connected JobMaster nor the connected ResourceManager. A
/// repetition changes nothing; it is refused with `SlotRequestError::NoSuchSlot` once the slot is free.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSlot {
    /// Allocation of the slot that is freed, which is the id under which the job has it;
    /// [`SlotRequestError::NoSuchSlot`] if no slot has it.
    pub allocation_id: AllocationId,
    /// Reason as text, for the log.
    pub cause: String,
}

/// JobMaster → TaskExecutor: deploys the tasks of one or more regions (tasks that start and restart together) that run on this
/// TaskExecutor. The TaskExecutor has the job's program host start them. Answered with the tasks that were refused, each with the reason;
/// the others report their states. An error means that none of the tasks runs, or that those which have begun are being cancelled. May be
/// repeated: an attempt that is here already is not started again. The slots of accepted tasks count as accepted by the JobMaster, even
/// if the answer to their offer is still on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeployTasks {
    /// Job that the tasks belong to.
    pub job_id: JobId,
    /// Leadership of the job's JobMaster; another than the connected one is refused with [`DeployError::OtherJobMaster`].
    pub job_master_id: JobMasterId,
    /// The job's graph; `None` if this JobMaster has sent it to this TaskExecutor's host with an earlier deployment. A host that lacks
    /// it refuses the whole call ([`DeployError::Host`]).
    pub graph: Option<Arc<JobGraph>>,
    /// The places of the subtasks that produce the tasks' inputs: one table for each input edge, shared by all tasks of
    /// this TaskExecutor that are deployed in the same turn.
    pub producers: Vec<Arc<EdgeProducers>>,
    /// Tasks to start, all of one job; each goes into the slot of its allocation.
    pub tasks: Vec<TaskDeployment>,
    /// The URI of the directory in which tasks store their state at checkpoints; `None`: a task sends its state within
    /// its answer to the checkpoint.
    #[serde(default)]
    pub checkpoint_dir: Option<String>,
    /// True if tasks, after the end of their data, wait for a final checkpoint before they finish, so that their sinks
    /// commit the last output with it.
    #[serde(default)]
    pub ends_with_checkpoint: bool,
}

/// The places of the subtasks that produce one edge's records, by which consumers find their inputs. Part of [`DeployTasks`]: made by
/// the JobMaster, read by the program hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeProducers {
    /// Edge that the table belongs to.
    pub edge: EdgeId,
    /// Vertex that produces the records.
    pub vertex: JobVertexId,
    /// Data addresses (`host:port`) of the program hosts in which the producing subtasks run, each address once.
    pub addresses: Vec<crate::NodeAddress>,
    /// For each producing subtask, by its index: its attempt number, and the index of its host in `addresses`, which is
    /// `u32::MAX` for one that has no place yet and that no consumer of this deployment reads from (forward edges).
    pub subtasks: Vec<(u32, u32)>,
}

/// The data by which one task, an execution attempt of a subtask, is started: the attempt, its slot, and the state to restore. Part of
/// [`DeployTasks`]; what the task does is in the job's graph, its inputs' places in [`EdgeProducers`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDeployment {
    /// Execution attempt that is started: vertex, subtask and attempt number.
    pub attempt: ExecutionAttemptId,
    /// Allocation of the slot that the attempt runs in, which is the id under which the job has the slot;
    /// [`DeployError::NoSuchAllocation`] if the job has no such slot here.
    pub allocation_id: AllocationId,
    /// Handles of the state to restore, by operator, those of one operator in the order of the former subtasks; empty:
    /// the task starts without state.
    pub restore: Vec<(OperatorId, Vec<StateHandle>)>,
    /// True if the subtask had reached the end of its data in the checkpoint that it is restored from: it then
    /// processes nothing more.
    #[serde(default)]
    pub ended: bool,
}

/// The reason why a deployment (or one task of it) was refused. `NoSuchAllocation` concerns one task, `NoJobMaster` and
/// `OtherJobMaster` the whole call, `Host` either. What was refused does not run; after `Host` for a whole call tasks may have begun
/// and are being cancelled.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum DeployError {
    /// This TaskExecutor has no connection to a JobMaster of that job.
    #[error("there is no JobMaster associated with job {job}")]
    NoJobMaster {
        /// Job that the message concerns.
        job: JobId,
    },
    /// This TaskExecutor is connected to another JobMaster of that job, or the call does not carry its caller's
    /// session.
    #[error("the caller is not the JobMaster that this TaskExecutor is connected to")]
    OtherJobMaster,
    /// The allocation that the task names is not a slot of that job here, or the slot is lost (its host has ended) or being freed.
    #[error("allocation {allocation_id} is not a slot of job {job} here")]
    NoSuchAllocation {
        /// Allocation of the slot concerned.
        allocation_id: AllocationId,
        /// Job that the message concerns.
        job: JobId,
    },
    /// The job's program host (the process that runs its tasks) refused (it lacks the graph or the vertex, or has run a later attempt of
    /// the subtask), is not up, did not answer in time, or has ended; the text says which.
    #[error("the program host could not take the task: {0}")]
    Host(String),
}

/// JobMaster → TaskExecutor: cancels execution attempts. Answered at once, before they have ended; their final states
/// come later as `UpdateTaskStates`. The TaskExecutor passes the call on to the program host once: if the host does not answer,
/// or 1,024 calls wait for it, the cancellation is lost and logged. Ignored, with the same answer, unless it comes from the
/// connected JobMaster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelTasks {
    /// Job that the attempts belong to.
    pub job_id: JobId,
    /// Execution attempts (tries of subtasks) to cancel; unknown ones and ended ones are skipped, and all if the job's program host is
    /// not up.
    pub attempts: Vec<ExecutionAttemptId>,
}

/// JobMaster → TaskExecutor → program host: begins a checkpoint at tasks with sources, which send its barrier
/// downstream. Answered at once, before the tasks have it: the TaskExecutor repeats the call to the program host
/// ([`TriggerOnHost`](crate::program_host::TriggerOnHost)) until it is answered; without a host, or while 1,024 calls wait for the host,
/// it is lost. The tasks answer later by `CheckpointAnswer`. Ignored, with the same answer, unless it comes from the connected JobMaster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriggerCheckpoint {
    /// Job that takes the checkpoint.
    pub job_id: JobId,
    /// The attempts (tries of subtasks) of tasks with sources, which send the barrier; those that run here no more are
    /// skipped.
    pub attempts: Vec<ExecutionAttemptId>,
    /// Barrier that the sources are to send: the checkpoint's number and how the sources go on after it.
    pub barrier: CheckpointBarrier,
}

/// JobMaster → TaskExecutor → program host: tells tasks how a checkpoint has ended. Answered at once, before the tasks have
/// acted: the TaskExecutor repeats the call to the program host until it is answered; without a host, or while 1,024 calls wait for the
/// host, it is lost. Ignored, with the same answer, unless it comes from the connected JobMaster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifyCheckpoint {
    /// Job that the checkpoint belongs to.
    pub job_id: JobId,
    /// Attempts (tries of subtasks) whose tasks are notified; those that run here no more are skipped.
    pub attempts: Vec<ExecutionAttemptId>,
    /// The number of the checkpoint that has ended.
    pub checkpoint: u64,
    /// True if the checkpoint is complete, so that sinks commit; false: it was aborted, or is a savepoint after which the job goes on.
    pub complete: bool,
}

/// Program host → TaskExecutor → JobMaster: a task has completed its part of a checkpoint, or says why it can't.
/// Answered when the JobMaster has taken the answer, otherwise refused with a `CheckpointAnswerError`. The call may be
/// repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForwardCheckpointAnswer {
    /// Job of the task; a host may answer for its own job only, otherwise the answer is refused as stale.
    pub job_id: JobId,
    /// Answer of the task to the checkpoint's barrier, which is passed on as it is.
    pub answer: CheckpointAnswer,
}

/// The reason why a task's answer about a checkpoint is not known to have reached the JobMaster, as [`ForwardCheckpointAnswer`] is
/// refused: the task is not here any more, or no JobMaster has answered by the call's deadline.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CheckpointAnswerError {
    /// The task does not run here any more, or the host is another job's: the answer is not needed.
    #[error("attempt {attempt} is not current")]
    StaleAttempt {
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
    },
    /// No JobMaster is connected, or it has not answered (it may have taken the answer): try again.
    #[error("the JobMaster is not available: {0}")]
    Unavailable(String),
}

/// JobMaster → TaskExecutor: the JobMaster ends the connection. The TaskExecutor sends it a `DisconnectTaskManager` in return, ends the
/// job's tasks by killing their program host, and registers again at the job's present leader after a pause. Slots that are lost or being
/// freed become free at once, the others if no JobMaster accepts them within `taskmanager.slot.timeout`. Answered before that has happened.
/// Ignored, with the same answer, from another than the connected JobMaster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectJobMaster {
    /// Job that the JobMaster led.
    pub job_id: JobId,
    /// Leadership of the JobMaster that ends the connection.
    pub job_master_id: JobMasterId,
    /// Reason why the connection ends, for the log.
    pub cause: FailureCause,
}

/// ResourceManager → TaskExecutor: the ResourceManager ends the connection; the TaskExecutor registers again unless
/// `terminate` is set, and its process fails if that does not succeed within `taskmanager.registration.timeout`. Ignored, with
/// the same answer, from another than the connected ResourceManager. Answered before that has happened; mostly sent as a hint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectResourceManager {
    /// Leadership of the ResourceManager that ends the connection.
    pub resource_manager_id: ResourceManagerId,
    /// Reason why the connection ends, as text for people.
    pub cause: String,
    /// True if the TaskManager's process should end, because it is not needed any more or the external resource system has reported it
    /// (or its node) lost; the TaskExecutor then ends its program hosts first, tells its JobMasters and the ResourceManager, and ends.
    /// False: it keeps its slots and tasks, and registers again.
    pub terminate: bool,
}

/// Program host → TaskExecutor: reports the states of tasks. The TaskExecutor passes new states on to the JobMaster,
/// repeatedly until it confirms them; counts and metrics go along with heartbeats. A slot that is being freed becomes free with the end
/// of its last task. Answered before the JobMaster has the states. Ignored, with the same answer, if the host belongs to another job
/// than `job_id`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportTaskStates {
    /// Job that the tasks belong to.
    pub job_id: JobId,
    /// States of the job's tasks, in the order in which the tasks entered them.
    pub updates: Vec<TaskStateUpdate>,
}

/// Program host → TaskExecutor → JobMaster: carries a task's event to its operator's coordinator (the operator's part
/// that runs once per job, on the JobManager); answered with the coordinator's answer, in the operator's own encoding.
/// Refused with a `CoordinationError`: `StaleAttempt` if the attempt does not run here, `Unavailable` if no JobMaster
/// is connected or it cannot be reached, `Unanswered` if its answer is missing (the event may have been handled), otherwise with the
/// JobMaster's own refusal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForwardOperatorEvent {
    /// Job that the operator belongs to.
    pub job_id: JobId,
    /// Execution attempt (one try of a subtask) that sends the event; [`CoordinationError::StaleAttempt`] unless it
    /// runs here.
    pub attempt: ExecutionAttemptId,
    /// Operator whose coordinator gets the event.
    pub operator: OperatorId,
    /// Event in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub event: Vec<u8>,
}

/// REST → TaskExecutor: asks for the log files of the TaskManager's process and its program hosts, sorted by name; none if
/// the process writes none. [`LogError::Io`] if the folder cannot be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLogs {}

/// Name, size and time of one log file of a TaskManager's process or of one of its program hosts, as the answer to `RequestLogs` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    /// Name of the file, without a folder, by which [`ReadLog`] asks for it.
    pub name: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Time of the file's last change, in Unix milliseconds on the TaskManager's clock; 0 if the system does not tell it.
    pub modified_ms: u64,
}

/// REST → TaskExecutor: reads a part of a log file of the TaskManager's process or one of its program hosts. The answer
/// has fewer than `max` bytes at the file's end, and none behind it. Refused with [`LogError`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadLog {
    /// Name of the file in the TaskManager's log folder, as [`RequestLogs`] lists it. A name with a folder in it, of no
    /// such regular file, or of another process's file is refused with [`LogError::NoSuchFile`].
    pub name: String,
    /// Offset in bytes of the first byte wanted, from 0; at or behind the file's end the answer is empty.
    pub offset: u64,
    /// Maximum number of bytes to return; more than 1 MiB counts as that.
    pub max: u64,
}

/// The reason why a TaskExecutor gives no list of log files ([`RequestLogs`]: only `Io`), or no part of one ([`ReadLog`]).
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum LogError {
    /// There is no such regular file in the log folder, the name has a folder in it or is another process's, or this process writes no log
    /// files.
    #[error("there is no log file '{0}' here")]
    NoSuchFile(String),
    /// The log folder or the file could not be read; the text is the error.
    #[error("log file could not be read: {0}")]
    Io(String),
}
