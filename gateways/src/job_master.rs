//! The JobMaster's gateway: TaskExecutors register and offer slots, tasks report, readers ask for splits.
//!
//! User data passes as opaque bytes only.

use crate::gateway;
use crate::{EndpointAddress, NodeAddress};
pub use model::job::{
    FailureRecord, JobDetails, SlotOffer, SubtaskDetails, TaskIo, TaskStateUpdate, VertexDetails,
};
use model::{
    AllocationId, CheckpointKind, CheckpointReport, ExecutionAttemptId, FailureCause, InstanceId,
    JobId, JobMasterId, JobStatus, OperatorId, ResourceId, ResourceManagerId, ResourceRequirement,
    SubtaskSnapshot,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

gateway! {
    /// What a JobMaster answers.
    pub struct JobMasterGateway = "job_master", fenced by JobMasterId;
    RegisterTaskManager => TaskManagerAccepted, RegistrationRefused;
    OfferSlots => Vec<AllocationId>, JobMasterError;
    UpdateTaskStates => Vec<ExecutionAttemptId>, JobMasterError;
    FailSlot => (), JobMasterError;
    DisconnectTaskManager => (), crate::Never;
    DisconnectResourceManager => (), crate::Never;
    NotifyNotEnoughResources => (), crate::Never;
    GiveWay => (), crate::Never;
    OperatorEvent => serde_bytes::ByteBuf, CoordinationError;
    CoordinationRequest => serde_bytes::ByteBuf, CoordinationError;
    CoordinatorFailed => (), crate::Never;
    CheckpointAnswer => (), crate::Never;
    Cancel => (), crate::Never;
    TakeSavepoint => String, SavepointError;
    RequestStatus => JobStatus, crate::Never;
    RequestSummary => crate::dispatcher::JobSummary, crate::Never;
    RequestDetails => JobDetails, crate::Never;
    RequestCheckpoints => CheckpointReport, crate::Never;
}

/// A TaskExecutor that has slots for this job introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterTaskManager {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation as the ResourceManager knows it.
    pub instance_id: InstanceId,
    /// Its TaskExecutor endpoint.
    pub address: EndpointAddress,
    /// Fence of that endpoint.
    pub session: model::ProcessSession,
    /// Its heartbeat endpoint.
    pub heartbeat: EndpointAddress,
    /// Host name, for people.
    pub host: String,
}

/// The JobMaster's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskManagerAccepted {
    /// The JobMaster's process.
    pub resource_id: ResourceId,
    /// Its heartbeat endpoint.
    pub heartbeat: EndpointAddress,
}

/// A registration that was refused; `retry` false: do not ask again.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{reason}")]
pub struct RegistrationRefused {
    /// Why, for people.
    pub reason: String,
    /// Whether asking again may help.
    pub retry: bool,
}

/// Slots for the job. Answered with those that are accepted; the TaskExecutor frees the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferSlots {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// The offers.
    pub slots: Vec<SlotOffer>,
    /// Where the job's program host on that TaskExecutor exchanges data.
    pub data_address: NodeAddress,
}

/// States of tasks, in the order in which they happened. Answered with the attempts that the
/// JobMaster does not know: their TaskExecutor ends them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateTaskStates {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// The states.
    pub updates: Vec<TaskStateUpdate>,
}

/// A slot is lost although its TaskExecutor lives: its program host died or could not be started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FailSlot {
    /// The process.
    pub resource_id: ResourceId,
    /// Which slot.
    pub allocation_id: AllocationId,
    /// True if the TaskExecutor knows that the JobMaster accepted the slot. A slot whose host could not be started was
    /// never offered: then the regions that wait for slots fail with the cause. For an accepted slot that the job no
    /// longer holds the report is late and changes nothing.
    pub accepted: bool,
    /// Why.
    pub cause: FailureCause,
}

/// The TaskExecutor ends the connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectTaskManager {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// Why.
    pub cause: FailureCause,
}

/// The ResourceManager ends the connection; the JobMaster registers again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectResourceManager {
    /// Which session ends.
    pub resource_manager: ResourceManagerId,
    /// Why.
    pub reason: String,
}

/// The ResourceManager can't meet the declared requirements.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifyNotEnoughResources {
    /// "needs 8 slots of …, 4 registered, 0 free", or the driver's last error.
    pub message: String,
}

/// The ResourceManager asks for slots that the job holds and can't use yet: with them another job could run. The
/// JobMaster has their TaskExecutors free them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GiveWay {
    /// How many, by what they must offer.
    pub slots: Vec<ResourceRequirement>,
}

/// From a task's operator to its coordinator (a split request among them), and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorEvent {
    /// The sender.
    pub attempt: ExecutionAttemptId,
    /// The operator.
    pub operator: OperatorId,
    /// Opaque.
    #[serde(with = "serde_bytes")]
    pub event: Vec<u8>,
}

/// From a client to a coordinator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoordinationRequest {
    /// The operator.
    pub operator: OperatorId,
    /// Opaque.
    #[serde(with = "serde_bytes")]
    pub request: Vec<u8>,
}

/// Why a coordinator did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CoordinationError {
    /// No such job.
    #[error("job {job} is not known here")]
    NoSuchJob {
        /// The id.
        job: JobId,
    },
    /// No such operator, or it has no coordinator.
    #[error("operator {operator} has no coordinator")]
    NoSuchOperator {
        /// The id.
        operator: OperatorId,
    },
    /// The JobMaster or the coordinator is not up yet, or being restarted: ask again.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
    /// The asking attempt is superseded or unknown.
    #[error("attempt {attempt} is not current")]
    StaleAttempt {
        /// The attempt.
        attempt: ExecutionAttemptId,
    },
    /// The coordinator failed on this request.
    #[error("the coordinator failed: {0}")]
    Failed(String),
}

/// A coordinator of the JobManager-side host has failed: a failover of the job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoordinatorFailed {
    /// The number of the start that it belongs to.
    pub round: u64,
    /// The reason.
    pub cause: FailureCause,
}

/// A task has completed its part of a checkpoint, or says why it can't. It may be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointAnswer {
    /// The attempt that answers.
    pub attempt: ExecutionAttemptId,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// The handles of its state, or the reason why there are none.
    pub answer: Result<SubtaskSnapshot, String>,
}

/// The user cancels the job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancel {}

/// Take a savepoint. Answered with the URI of its folder when it is complete; for a stop, when the job has finished as well.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TakeSavepoint {
    /// A savepoint, or a stop.
    pub kind: CheckpointKind,
    /// The directory in which the savepoint's folder is made; `None`: `execution.checkpointing.savepoint-dir`.
    pub directory: Option<String>,
}

/// The reason why there is no savepoint.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SavepointError {
    /// The request names no directory, nor does the configuration.
    #[error(
        "no directory for the savepoint is given; name one in the request, or set execution.checkpointing.savepoint-dir"
    )]
    NoDirectory,
    /// The directory can't be used; nothing was begun.
    #[error("{0}")]
    Directory(String),
    /// The job takes no savepoint now; nothing was begun.
    #[error("{0}")]
    Refused(String),
    /// It was begun and has failed.
    #[error("{0}")]
    Failed(String),
}

/// The job's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestStatus {}

/// The job in one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSummary {}

/// Everything about the job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestDetails {}

/// The job's checkpoints.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestCheckpoints {}

/// Why the JobMaster refuses a call from a TaskExecutor.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum JobMasterError {
    /// It is not registered in this incarnation: register again.
    #[error("TaskExecutor {resource_id} is not registered in this incarnation")]
    NotRegistered {
        /// The process.
        resource_id: ResourceId,
    },
}
