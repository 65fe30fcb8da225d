//! The JobMaster's gateway: TaskExecutors register and offer slots, tasks report, readers ask for splits.
//!
//! User data passes as opaque bytes only.

use crate::gateway;
use crate::{CallError, EndpointAddress, FabricError, NodeAddress};
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
    /// The gateway of a JobMaster, the leader of one job: TaskExecutors register, offer slots and report tasks; the
    /// Dispatcher cancels, asks and takes savepoints; the ResourceManager reports shortages.
    pub struct JobMasterGateway = "job_master", fenced by JobMasterId;
    RegisterTaskManager => TaskManagerAccepted, RegistrationRefused;
    OfferSlots => Vec<AllocationId>, JobMasterError;
    UpdateTaskStates => Vec<ExecutionAttemptId>, JobMasterError;
    FailSlot => (), JobMasterError;
    DisconnectTaskManager => (), crate::Never;
    DisconnectResourceManager => (), crate::Never;
    NotifyNotEnoughResources => (), crate::Never;
    YieldSlots => (), crate::Never;
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

/// TaskExecutor → JobMaster: registers a TaskExecutor that has slots for this job, before it offers them. The JobMaster
/// watches the TaskExecutor by heartbeats from then on. The call may be repeated. Another incarnation of the same
/// TaskExecutor (a later registration at the ResourceManager) replaces the former one, whose slots are lost and whose
/// tasks fail. Refused with `RegistrationRefused` once the job has ended at this JobMaster, or this JobMaster has given it up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterTaskManager {
    /// Resource id of the TaskExecutor that registers: the id of its process.
    pub resource_id: ResourceId,
    /// Incarnation of the TaskExecutor: the id that the ResourceManager gave to its latest registration.
    pub instance_id: InstanceId,
    /// Address of the TaskExecutor's endpoint.
    pub address: EndpointAddress,
    /// Session (one run) of the TaskExecutor's process, which calls to the TaskExecutor must name; others are refused
    /// as fenced.
    pub session: model::ProcessSession,
    /// Address of the heartbeat endpoint of the TaskExecutor's process, to which the JobMaster's process sends beats from now on.
    pub heartbeat: EndpointAddress,
    /// Host name of the node, shown to users.
    pub host: String,
}

/// Answer of a JobMaster to an accepted registration of a TaskExecutor: names the JobMaster's process and its heartbeat
/// endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskManagerAccepted {
    /// Resource id of the JobMaster's process.
    pub resource_id: ResourceId,
    /// Address of the heartbeat endpoint of the JobMaster's process, from which beats come; the TaskExecutor sends none there, and counts
    /// the JobMaster as lost if that process is lost.
    pub heartbeat: EndpointAddress,
}

/// A JobMaster or ResourceManager has refused a registration or a call; nothing changed. Causes: the job has ended at this JobMaster; the
/// ResourceManager of an external resource system has neither requested nor recovered the TaskExecutor; the JobMaster does not lead its
/// job; or the sender of a slot report or of requirements is not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{reason}")]
pub struct RegistrationRefused {
    /// Reason of the refusal as text for users.
    pub reason: String,
    /// True if registering at this leader again may help, after a pause. False: the refusal is for good (the job has finished, failed or
    /// was cancelled, or the TaskExecutor is not wanted any more), and the caller must not ask this leader again.
    pub retry: bool,
}

/// TaskExecutor → JobMaster: offers slots that were allocated to the job. The answer names the allocations of the
/// accepted slots, into which the JobMaster deploys tasks from now on; the TaskExecutor frees the rest. Accepted are only slots that the
/// job needs: none of a job that is ending or has ended, and none that it has freed before. Refused with
/// [`JobMasterError::NotRegistered`] if the TaskExecutor is not registered in this incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferSlots {
    /// Resource id of the TaskExecutor that offers the slots: the id of its process.
    pub resource_id: ResourceId,
    /// Incarnation (registration at the ResourceManager) in which the TaskExecutor registered at this JobMaster;
    /// another one is refused.
    pub instance_id: InstanceId,
    /// Slots that are offered, each with its allocation (the id under which the ResourceManager gave it to the job);
    /// offering an accepted one again is answered the same as long as the job holds it and is not ending.
    pub slots: Vec<SlotOffer>,
    /// Address at which the job's program host on that TaskExecutor (the process that runs the tasks) exchanges records
    /// with other hosts. If it differs from that of an accepted slot that is offered again, the host was replaced: the slot's tasks
    /// fail, and the slot stays accepted.
    pub data_address: NodeAddress,
}

/// TaskExecutor → JobMaster: reports states of tasks, in the order in which they happened. For a failed task (or one that was cancelled
/// without the JobMaster's wish) the restart strategy decides whether its region (the tasks that restart together) is started again or the
/// job fails; one that has finished while it was to be cancelled counts as cancelled. When all have finished, the job ends, once its
/// coordinators have published its results. Answered with the attempts that the JobMaster does not know and that have not ended: the
/// TaskExecutor ends them. A repeated report changes nothing. Refused with [`JobMasterError::NotRegistered`] from another incarnation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateTaskStates {
    /// Resource id of the TaskExecutor that runs the tasks: the id of its process.
    pub resource_id: ResourceId,
    /// Incarnation (registration at the ResourceManager) in which the TaskExecutor registered at this JobMaster;
    /// another one is refused.
    pub instance_id: InstanceId,
    /// States of tasks, in the order in which the tasks entered them.
    pub updates: Vec<TaskStateUpdate>,
}

/// TaskExecutor → JobMaster: a slot is lost although its TaskExecutor lives: its program host (the process that runs
/// the job's tasks) died or could not be started. The JobMaster fails the tasks in the slot and asks for another one. The TaskExecutor
/// repeats the call until it is answered. A repetition changes nothing. Refused with
/// [`JobMasterError::NotRegistered`] if the TaskExecutor is not registered here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FailSlot {
    /// Resource id of the TaskExecutor that has the slot: the id of its process.
    pub resource_id: ResourceId,
    /// Allocation of the slot that is lost: the id under which the job got it.
    pub allocation_id: AllocationId,
    /// True if the TaskExecutor knows that the JobMaster accepted the slot. A slot whose host could not be started was
    /// never offered: then the regions (tasks that start together) that wait for slots fail with the cause. For an
    /// accepted slot that the job does not hold any more the report is late and changes nothing.
    pub accepted: bool,
    /// Reason why the slot is lost; the tasks in it fail with it.
    pub cause: FailureCause,
}

/// TaskExecutor → JobMaster: the TaskExecutor leaves, or has given this JobMaster up. The JobMaster drops it with its slots, fails
/// the tasks that ran there (the restart strategy decides), declares its requirements again unless the job is ending, and tells the
/// TaskExecutor by a `DisconnectJobMaster` (a hint that may be lost). Ignored if the TaskExecutor is not registered in this incarnation.
/// Often sent as a hint: missing heartbeats have the same effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectTaskManager {
    /// Resource id of the TaskExecutor that leaves: the id of its process.
    pub resource_id: ResourceId,
    /// Incarnation (registration at the ResourceManager) that leaves; another one than the registered one changes
    /// nothing.
    pub instance_id: InstanceId,
    /// Reason why the TaskExecutor leaves; the tasks there fail with it.
    pub cause: FailureCause,
}

/// ResourceManager → JobMaster: the ResourceManager ends the connection; the JobMaster registers again at the present
/// leader and keeps its slots. Ignored if the JobMaster is not registered at that one. Sent as a hint: missing heartbeats
/// have the same effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectResourceManager {
    /// Leadership of the ResourceManager that ends the connection.
    pub resource_manager: ResourceManagerId,
    /// Reason why the connection ends, as text for people.
    pub reason: String,
}

/// ResourceManager → JobMaster: the slots that the job has declared can't be provided. Sent as a hint, and again while the shortage lasts.
/// Idle slots of later regions (tasks that are deployed together) first go to regions that they complete. Regions that still miss slots
/// fail with this message, and the restart strategy decides, unless the job is bounded and another region of it runs, whose slots it gets
/// later; the failure of a region that waits too long then names the message. Ignored unless the job runs or restarts and the call carries
/// the session of the connected ResourceManager.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifyNotEnoughResources {
    /// The shortage, for people, such as "needs 8 slots of …, 4 registered, 0 free", with the last error of the
    /// external resource system if there was one; it becomes the text of the failure.
    pub message: String,
}

/// ResourceManager → JobMaster: asks the job to yield slots that it holds and can't use yet, because another job could
/// run with them. The JobMaster has their TaskExecutors free them; if it holds too few, it frees slots of regions as
/// they finish. Regions that its idle slots complete are deployed first. A new call replaces what is still owed. Ignored unless the
/// job runs or restarts and the call carries the session of the connected ResourceManager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct YieldSlots {
    /// Number of slots to yield, by the profile (amounts of resources) that each must have at least; the JobMaster may
    /// yield fewer.
    pub slots: Vec<ResourceRequirement>,
}

/// TaskExecutor → JobMaster: carries an event of a task's operator (a request for a split, for one) to the operator's coordinator,
/// its part that runs once per job; answered with the coordinator's answer. Refused with [`CoordinationError::StaleAttempt`] if the
/// attempt is not current, `CoordinationError::NoSuchOperator` without such a coordinator, `CoordinationError::Failed` if the
/// coordinator fails on it, `CoordinationError::Unavailable` if the coordinators are not up, cannot be reached, or have too many requests
/// waiting, and `CoordinationError::Unanswered` if their answer is missing: then the event may have been handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorEvent {
    /// Execution attempt (one try of a subtask) that sends the event.
    pub attempt: ExecutionAttemptId,
    /// Operator whose coordinator gets the event.
    pub operator: OperatorId,
    /// Event in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub event: Vec<u8>,
}

/// Dispatcher → JobMaster: carries a client's request to an operator's coordinator, the operator's part that runs once per job;
/// answered with the coordinator's answer. Refused with `CoordinationError::NoSuchOperator` without such a coordinator,
/// `CoordinationError::Failed` if the coordinator fails on it, `CoordinationError::Unavailable` if the coordinators are not up, cannot be
/// reached, or have too many requests waiting, and `CoordinationError::Unanswered` if their answer is missing: then the request may have
/// been handled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoordinationRequest {
    /// Operator whose coordinator gets the request.
    pub operator: OperatorId,
    /// Request in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub request: Vec<u8>,
}

/// The reason why an event, a client's request, or a call about checkpoints or the job's end was not answered by the operators'
/// coordinators. Returned by every hop on the way (TaskExecutor, Dispatcher, JobMaster, program host). Only after
/// [`Unanswered`](Self::Unanswered) the coordinator may have handled it; after [`Failed`](Self::Failed) it failed while it did.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CoordinationError {
    /// No job of that id is known to the Dispatcher; only [`DeliverCoordinationRequest`](crate::dispatcher::DeliverCoordinationRequest)
    /// is refused with it.
    #[error("job {job} is not known here")]
    NoSuchJob {
        /// Id of the job.
        job: JobId,
    },
    /// The job has no such operator, the operator has no coordinator, or it is not in the vertex of the task that sends the event.
    #[error("operator {operator} has no coordinator")]
    NoSuchOperator {
        /// Id of the operator.
        operator: OperatorId,
    },
    /// The JobMaster or the coordinator is not up yet, is being restarted or cannot be reached, or 4,096 requests wait for it: ask again.
    /// The text says which. The request was not handled.
    #[error("the coordinator is not available: {0}")]
    Unavailable(String),
    /// The attempt that sends the event is superseded, being cancelled, ended or unknown, so the event was not passed on. Only for events
    /// of tasks.
    #[error("attempt {attempt} is not current")]
    StaleAttempt {
        /// Execution attempt that the message concerns.
        attempt: ExecutionAttemptId,
    },
    /// The coordinator failed on this request; or, for collected results, the job has ended and its results are not served any more. The
    /// text says which.
    #[error("the coordinator failed: {0}")]
    Failed(String),
    /// The answer was lost or has not come in time, so the coordinator may have handled the request: repeat it only if that does no harm.
    #[error("the coordinator's answer is missing: {0}")]
    Unanswered(String),
}

impl From<CallError<CoordinationError>> for CoordinationError {
    fn from(error: CallError<CoordinationError>) -> Self {
        match error {
            CallError::Refused(error) => error,
            // Whether a handler has begun is not certain after its deadline.
            CallError::Fabric(error @ FabricError::DeadlineExceeded { .. }) => {
                Self::Unanswered(error.to_string())
            }
            CallError::Fabric(error) if error.may_have_run() => Self::Unanswered(error.to_string()),
            CallError::Fabric(error) => Self::Unavailable(error.to_string()),
        }
    }
}

/// Program host → JobMaster: a coordinator (an operator's part that runs once per job, in the JobManager-side host) has
/// failed outside of a call. The regions (tasks that restart together) that it serves, directly or by other coordinators, fail over; while
/// results are being published, all regions with coordinators do, or the job is cancelled if a client has asked for that meanwhile. A
/// report about an earlier start changes nothing, so the call may be repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoordinatorFailed {
    /// The number of the start that the coordinator belongs to
    /// ([`StartCoordinators::round`](crate::program_host::StartCoordinators::round)); a report about another start than
    /// the last one of its regions is ignored.
    pub round: u64,
    /// Reason of the coordinator's failure, with which the regions fail.
    pub cause: FailureCause,
}

/// TaskExecutor → JobMaster: a task has completed its part of a checkpoint or savepoint, or says why it can't, which aborts that: an
/// aborted checkpoint counts towards the tolerated failures; with an aborted savepoint of a stop all tasks fail. The call may be repeated.
/// An answer that comes too late, repeatedly or from a superseded attempt changes nothing; of the stored objects that it names those are
/// deleted to which no checkpoint refers. A refusal is ignored once the checkpoint is being stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointAnswer {
    /// The execution attempt (one try of a subtask) whose task answers; the answer of a superseded one does not count.
    pub attempt: ExecutionAttemptId,
    /// The number of the checkpoint that the barrier named.
    pub checkpoint: u64,
    /// `Ok`: the handles of the state that the task has stored. `Err`: the reason why the task has none; the checkpoint then fails. If the
    /// reason is not recoverable and the task was to end with this checkpoint, the job fails.
    pub answer: Result<SubtaskSnapshot, FailureCause>,
}

/// Dispatcher → JobMaster: cancels the job. The answer means that the JobMaster has taken the request, not that the job
/// has ended. The checkpoint under way fails unless its pointer file is being written, and so do waiting savepoints. A job that is ending
/// already, or has ended, is not changed; one whose coordinators are publishing its results is cancelled only if that fails. May be
/// repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Cancel {}

/// Dispatcher → JobMaster: takes a savepoint. Answered with the URI of its folder when it is complete; for a stop, when the
/// job has finished as well; for [`CheckpointKind::Checkpoint`], with the number of the checkpoint as text. Savepoints are taken
/// one after the other; one waits for tasks that come up for at most `execution.checkpointing.timeout`. It is taken even if the
/// caller does not wait any more. Each call takes another savepoint. Refused with `SavepointError`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TakeSavepoint {
    /// Kind of the operation: a savepoint, after which the job goes on; a stop, which ends the job with a savepoint; or
    /// a checkpoint for the job's own recovery beside the periodic ones.
    pub kind: CheckpointKind,
    /// The directory in which the savepoint's folder is made; `None`: `execution.checkpointing.savepoint-dir`. A checkpoint ignores
    /// it.
    pub directory: Option<String>,
}

/// The reason why a savepoint or checkpoint that [`TakeSavepoint`] asked for was refused, before anything was begun, or has failed
/// ([`Failed`](Self::Failed)).
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SavepointError {
    /// The request names no directory, nor does the configuration (`execution.checkpointing.savepoint-dir`); nothing
    /// was begun.
    #[error(
        "no directory for the savepoint is given; name one in the request, or set execution.checkpointing.savepoint-dir"
    )]
    NoDirectory,
    /// The directory for the savepoint can't be opened or written to, is a relative path, or is in the folder of the job's checkpoints,
    /// also by a symbolic link; the text names it, the reason and the remedy. Nothing was begun.
    #[error("{0}")]
    Directory(String),
    /// The job takes no savepoint: not now, because it does not run, tasks wait for slots, its coordinators are not up, no task runs any
    /// more, it is about to finish, a stop waits already, or 16 savepoints wait; or never, because it takes no checkpoints at all (bounded
    /// input, no interval, no sinks that commit). The text says which. Nothing was begun. Tasks that start are no reason: the savepoint
    /// waits for them.
    #[error("{0}")]
    Refused(String),
    /// The savepoint was accepted and has failed: tasks failed, did not all run in time or could not store their state, it took longer
    /// than `execution.checkpointing.timeout`, or the job ended or was left to another JobMaster; the text says why. After a stop the
    /// savepoint may be complete, and only the job has not finished with it; the text then names the savepoint.
    #[error("{0}")]
    Failed(String),
}

/// Dispatcher or the job's runner → JobMaster: asks for the job's state; the runner learns by it that the JobMaster
/// lives. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestStatus {}

/// Dispatcher → JobMaster: asks for the job's line in the list of jobs (name, state, times, number of subtasks by
/// state). Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSummary {}

/// Dispatcher → JobMaster: asks for everything about the job that REST shows. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestDetails {}

/// Dispatcher → JobMaster: asks for the report of the job's checkpoints (counts, history, sizes). Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestCheckpoints {}

/// The reason why the JobMaster refuses a call from a TaskExecutor ([`OfferSlots`], [`UpdateTaskStates`], [`FailSlot`]); nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum JobMasterError {
    /// The TaskExecutor is not registered in this incarnation (registration at the ResourceManager): it must register
    /// again. [`FailSlot`] names no incarnation, and is refused only if the TaskExecutor is not registered at all.
    #[error("TaskExecutor {resource_id} is not registered in this incarnation")]
    NotRegistered {
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
    },
}
