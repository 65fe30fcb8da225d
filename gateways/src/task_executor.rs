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
    /// What a TaskExecutor answers. Calls of a JobMaster or ResourceManager carry that caller's session
    /// (`Remote::with_session`); it is compared with the connected one.
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

/// ResourceManager → TaskExecutor: this slot is for that job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSlot {
    /// Which slot.
    pub slot_id: SlotId,
    /// For which job.
    pub job_id: JobId,
    /// The allocation.
    pub allocation_id: AllocationId,
    /// What is needed.
    pub profile: ResourceProfile,
    /// The job's JobMaster.
    pub job_master: EndpointAddress,
    /// Its session.
    pub job_master_id: JobMasterId,
    /// The session of the ResourceManager that asks.
    pub resource_manager_id: ResourceManagerId,
    /// The program of the job's host; `None`: the TaskManager is the program itself.
    pub program: Option<BlobKey>,
}

/// Why a slot is not given.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SlotRequestError {
    /// It is allocated to another job or allocation.
    #[error("slot {slot} is allocated to job {job} already")]
    Occupied {
        /// Which.
        slot: SlotId,
        /// To whom.
        job: JobId,
        /// The allocation.
        allocation_id: AllocationId,
    },
    /// No such slot or allocation here.
    #[error("there is no slot {0} here")]
    NoSuchSlot(String),
    /// Not from the ResourceManager that this TaskExecutor is registered at.
    #[error("the caller is not the ResourceManager this TaskExecutor is registered at")]
    NotMyResourceManager,
    /// Not from the JobMaster that this TaskExecutor is connected to for that job.
    #[error("the caller is not the JobMaster this TaskExecutor is connected to")]
    NotMyJobMaster,
    /// The slot is not what was asked for.
    #[error("the slot can't be given: {0}")]
    Unsuitable(String),
}

/// JobMaster or ResourceManager → TaskExecutor: a slot is not needed any more, or its job has gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSlot {
    /// Which.
    pub allocation_id: AllocationId,
    /// Why.
    pub cause: String,
}

/// One deployment per TaskExecutor and region: the graph, one shared table per edge, the tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeployTasks {
    /// The job.
    pub job_id: JobId,
    /// Its JobMaster.
    pub job_master_id: JobMasterId,
    /// The graph; `None` where this TaskExecutor's host was sent it with an earlier deployment under the
    /// same JobMaster.
    pub graph: Option<Arc<JobGraph>>,
    /// Where each producer of an input runs: one table per (TaskExecutor, edge), shared by all that are
    /// deployed in the same turn.
    pub producers: Vec<Arc<EdgeProducers>>,
    /// The tasks.
    pub tasks: Vec<TaskDeployment>,
    /// The URI of the checkpoint directory; `None`: state goes with the acknowledgement.
    #[serde(default)]
    pub checkpoint_dir: Option<String>,
    /// Whether tasks wait, after the end of their data, for a final checkpoint.
    #[serde(default)]
    pub ends_with_checkpoint: bool,
}

/// Where the producers of one edge run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeProducers {
    /// Which edge.
    pub edge: EdgeId,
    /// The producing vertex.
    pub vertex: JobVertexId,
    /// Distinct data addresses.
    pub addresses: Vec<crate::NodeAddress>,
    /// Per producing subtask: attempt number and index into `addresses`; `u32::MAX` for one that has no
    /// place yet and that no consumer of this deployment reads from (forward edges).
    pub subtasks: Vec<(u32, u32)>,
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDeployment {
    /// Which attempt.
    pub attempt: ExecutionAttemptId,
    /// In which slot.
    pub allocation_id: AllocationId,
    /// The state of each operator to restore, in the order of the former subtasks.
    pub restore: Vec<(OperatorId, Vec<StateHandle>)>,
    /// Whether the subtask had reached the end of its data in the checkpoint that it is restored from.
    #[serde(default)]
    pub ended: bool,
}

/// Why a deployment (or one task of it) was refused. Nothing of it runs.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum DeployError {
    /// No connection to a JobMaster of that job.
    #[error("there is no JobMaster associated with job {job}")]
    NoJobMaster {
        /// The job.
        job: JobId,
    },
    /// Connected to another JobMaster of that job.
    #[error("the caller is not the JobMaster that this TaskExecutor is connected to")]
    OtherJobMaster,
    /// The slot is not allocated to that job.
    #[error("allocation {allocation_id} is not a slot of job {job} here")]
    NoSuchAllocation {
        /// The allocation.
        allocation_id: AllocationId,
        /// The job.
        job: JobId,
    },
    /// The program host refused or is gone.
    #[error("the program host could not take the task: {0}")]
    Host(String),
}

/// Cancel attempts; states come back as updates.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelTasks {
    /// The job.
    pub job_id: JobId,
    /// Which.
    pub attempts: Vec<ExecutionAttemptId>,
}

/// JobMaster → TaskExecutor: the barrier of a checkpoint, for tasks with sources.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriggerCheckpoint {
    /// The job.
    pub job_id: JobId,
    /// The attempts of tasks with sources.
    pub attempts: Vec<ExecutionAttemptId>,
    /// The barrier.
    pub barrier: CheckpointBarrier,
}

/// JobMaster → TaskExecutor: how a checkpoint has ended. Tasks commit what belongs to a complete one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifyCheckpoint {
    /// The job.
    pub job_id: JobId,
    /// The attempts that are told.
    pub attempts: Vec<ExecutionAttemptId>,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// Whether it is complete; otherwise it was aborted.
    pub complete: bool,
}

/// Program host → TaskExecutor → JobMaster: a task has completed its part of a checkpoint, or says why it can't.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForwardCheckpointAnswer {
    /// The job.
    pub job_id: JobId,
    /// The answer.
    pub answer: CheckpointAnswer,
}

/// The reason why an answer did not reach the JobMaster.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CheckpointAnswerError {
    /// The task does not run here any more: nobody waits for its answer.
    #[error("attempt {attempt} is not current")]
    StaleAttempt {
        /// The attempt.
        attempt: ExecutionAttemptId,
    },
    /// No JobMaster is connected, or it does not answer: try again.
    #[error("the JobMaster is not available: {0}")]
    Unavailable(String),
}

/// The JobMaster ends the connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectJobMaster {
    /// The job.
    pub job_id: JobId,
    /// The session that ends.
    pub job_master_id: JobMasterId,
    /// Why.
    pub cause: FailureCause,
}

/// The ResourceManager ends the connection; the TaskExecutor registers again unless told to end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectResourceManager {
    /// The session that ends.
    pub resource_manager_id: ResourceManagerId,
    /// Why.
    pub cause: String,
    /// Whether the process should end (released, or refused for good).
    pub terminate: bool,
}

/// Program host → TaskExecutor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportTaskStates {
    /// The job.
    pub job_id: JobId,
    /// In order.
    pub updates: Vec<TaskStateUpdate>,
}

/// Program host → TaskExecutor → JobMaster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForwardOperatorEvent {
    /// The job.
    pub job_id: JobId,
    /// The sender.
    pub attempt: ExecutionAttemptId,
    /// The operator.
    pub operator: OperatorId,
    /// Opaque.
    #[serde(with = "serde_bytes")]
    pub event: Vec<u8>,
}

/// Log files of this process and its hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLogs {}

/// One log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    /// File name, no folder.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Unix milliseconds.
    pub modified_ms: u64,
}

/// A part of a log file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadLog {
    /// File name, no folder.
    pub name: String,
    /// From where.
    pub offset: u64,
    /// At most so many bytes (capped at 1 MiB).
    pub max: u64,
}

/// Why there is no log.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum LogError {
    /// No such file, or a name with a folder in it.
    #[error("there is no log file '{0}' here")]
    NoSuchFile(String),
    /// It could not be read.
    #[error("log file could not be read: {0}")]
    Io(String),
}
