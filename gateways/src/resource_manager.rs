//! The ResourceManager's gateway: TaskExecutors and JobMasters register, jobs declare what they need.

use crate::{EndpointAddress, Facts, facts, gateway, job_master::RegistrationRefused};
use model::AllocationId;
use model::{
    BlobKey, FailureCause, InstanceId, JobId, JobMasterId, ResourceId, ResourceManagerId,
    ResourceProfile, ResourceRequirement, SlotId, SlotReport, WorkerResourceSpec,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

gateway! {
    /// What the ResourceManager answers.
    pub struct ResourceManagerGateway = "resource_manager", fenced by ResourceManagerId;
    RegisterTaskExecutor => TaskExecutorAccepted, RegistrationRefused;
    SendSlotReport => (), RegistrationRefused;
    NotifySlotAvailable => (), crate::Never;
    DisconnectTaskExecutor => (), crate::Never;
    RegisterJobMaster => JobMasterAccepted, RegistrationRefused;
    DeclareRequiredResources => (), RegistrationRefused;
    DisconnectJobMaster => (), crate::Never;
    RequestTaskManagers => Vec<TaskManagerSummary>, crate::Never;
    RequestResourceOverview => ResourceOverview, crate::Never;
    BlockNode => BlockedNode, BlockNodeError;
    UnblockNode => bool, crate::Never;
    RequestBlockedNodes => Vec<BlockedNode>, crate::Never;
    DeregisterApplication => (), DeregisterError;
    TakeFacts => u64, crate::Never;
    ReportLackOfSlots => (), crate::Never;
    AskToGiveWay => (), crate::Never;
}

/// A TaskExecutor introduces itself, then sends its slot report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterTaskExecutor {
    /// The process.
    pub resource_id: ResourceId,
    /// Its TaskExecutor endpoint.
    pub address: EndpointAddress,
    /// Fence of that endpoint.
    pub session: model::ProcessSession,
    /// Its heartbeat endpoint.
    pub heartbeat: EndpointAddress,
    /// Host (node) name.
    pub host: String,
    /// What it is made of.
    pub spec: WorkerResourceSpec,
    /// Process id, for people.
    pub pid: u32,
    /// `taskmanager.memory.process.size`.
    pub process_memory: model::MemorySize,
    /// Its machine and the rest of its memory, for people.
    #[serde(default)]
    pub facts: model::TaskManagerFacts,
}

/// Success: the incarnation under which everything that follows is stamped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskExecutorAccepted {
    /// New with every registration.
    pub instance_id: InstanceId,
    /// The ResourceManager's process.
    pub resource_id: ResourceId,
    /// Its heartbeat endpoint.
    pub heartbeat: EndpointAddress,
    /// Where programs are fetched.
    pub blob_server: EndpointAddress,
    /// Its fence.
    pub blob_session: model::ProcessSession,
}

/// All slots of a TaskExecutor, right after its registration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SendSlotReport {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// The report.
    pub report: SlotReport,
}

/// A slot became free.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifySlotAvailable {
    /// Its TaskExecutor's incarnation.
    pub instance_id: InstanceId,
    /// Which slot.
    pub slot_id: SlotId,
    /// The allocation that ended.
    pub allocation_id: AllocationId,
}

/// A TaskExecutor leaves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectTaskExecutor {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// Why.
    pub cause: FailureCause,
}

/// A JobMaster introduces itself. The ResourceManager checks with its own retrieval that it leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterJobMaster {
    /// The job.
    pub job_id: JobId,
    /// The JobMaster's session.
    pub job_master_id: JobMasterId,
    /// The JobMaster's process.
    pub resource_id: ResourceId,
    /// Its endpoint.
    pub address: EndpointAddress,
    /// Its heartbeat endpoint.
    pub heartbeat: EndpointAddress,
    /// Fence of that endpoint: the process's session.
    pub heartbeat_session: model::ProcessSession,
}

/// Success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMasterAccepted {
    /// The ResourceManager's process.
    pub resource_id: ResourceId,
    /// Its heartbeat endpoint.
    pub heartbeat: EndpointAddress,
}

/// What a job needs in all, replacing what it declared before. Repeatable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclareRequiredResources {
    /// The job.
    pub job_id: JobId,
    /// Its JobMaster's session.
    pub job_master_id: JobMasterId,
    /// Where offers go.
    pub target: EndpointAddress,
    /// For people: the job's name.
    pub job_name: String,
    /// The program that a TaskExecutor's host of this job runs; prefetched with the first slot.
    pub program: Option<BlobKey>,
    /// Whole amounts; empty: nothing more is needed.
    pub requirements: Vec<ResourceRequirement>,
}

/// A JobMaster leaves; its slots are freed by their TaskExecutors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectJobMaster {
    /// The job.
    pub job_id: JobId,
    /// The session that ends.
    pub job_master_id: JobMasterId,
    /// Whether the job has ended for good.
    pub finished: bool,
}

/// All registered TaskExecutors.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestTaskManagers {}

/// One TaskExecutor, for REST.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskManagerSummary {
    /// The process.
    pub resource_id: ResourceId,
    /// Its endpoint.
    pub address: EndpointAddress,
    /// Fence of that endpoint.
    pub session: model::ProcessSession,
    /// Host.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// What it is made of.
    pub spec: WorkerResourceSpec,
    /// `taskmanager.memory.process.size`.
    pub process_memory: model::MemorySize,
    /// Its machine and the rest of its memory, for people.
    #[serde(default)]
    pub facts: model::TaskManagerFacts,
    /// Slots that are free.
    pub free_slots: u32,
    /// Allocated slots by job.
    pub allocated: Vec<(JobId, ResourceProfile)>,
    /// Milliseconds since its last heartbeat.
    pub last_heartbeat_age_ms: u64,
    /// Whether its node is blocked.
    pub blocked: bool,
}

/// Sums.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestResourceOverview {}

/// Sums over all TaskExecutors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceOverview {
    /// Registered TaskExecutors.
    pub task_managers: u32,
    /// All slots.
    pub slots: u32,
    /// Free slots.
    pub free_slots: u32,
    /// Blocked TaskExecutors.
    pub blocked_task_managers: u32,
    /// Free slots on blocked nodes.
    pub blocked_free_slots: u32,
}

/// Blocks a node: its TaskManagers get no new slots, and no worker is started there. Slots in use stay. An existing
/// block of the node that ends later stays too. The answer is the block that holds from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockNode {
    /// The node's host name, as its TaskManagers register with it.
    pub host: String,
    /// Duration of the block in milliseconds.
    pub for_ms: u64,
    /// The reason, for the list of blocked nodes.
    pub cause: String,
}

/// A blocked node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedNode {
    /// The node's host name.
    pub host: String,
    /// Time until the block ends, in milliseconds.
    pub remaining_ms: u64,
    /// The reason that was given for the block.
    pub cause: String,
    /// Number of TaskManagers that are registered on the node.
    pub task_managers: u32,
}

/// The reason why a node cannot be blocked.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BlockNodeError {
    /// The name is empty or too long for a host name.
    #[error("'{0}' cannot be a host name: 1 to 255 bytes are allowed")]
    InvalidName(String),
    /// Too many other nodes are blocked.
    #[error("{0} nodes are blocked already; unblock some of them first")]
    TooMany(u64),
}

/// Unblocks a node and forgets that workers failed to start there. The answer is true if the node was blocked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnblockNode {
    /// The node's host name.
    pub host: String,
}

/// Asks for all blocked nodes, which are listed by name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestBlockedNodes {}

/// The application has ended: deregister it at the external resource system, or, without one, release all TaskManagers.
/// Takes up to `resourcemanager.deregister.timeout`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeregisterApplication {
    /// How it ended.
    pub status: ApplicationStatus,
    /// For people.
    pub diagnostics: Option<String>,
}

/// The application could not be deregistered: the external resource system still considers it running, and may start it
/// a second time.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error(
    "the application was not unregistered within {within_ms} ms, in {attempts} attempts: {cause}"
)]
pub struct DeregisterError {
    /// `resourcemanager.deregister.timeout` in milliseconds.
    pub within_ms: u64,
    /// Number of attempts that were made.
    pub attempts: u32,
    /// The error of the last attempt.
    pub cause: String,
}

/// How an application ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplicationStatus {
    /// Its jobs finished.
    Succeeded,
    /// A job failed.
    Failed,
    /// Cancelled.
    Canceled,
    /// Not known.
    Unknown,
}

/// SlotManager → its ResourceManager: its decisions. The answer is the number of the fact that is expected next (see
/// [`crate::delivery`]).
pub type TakeFacts = Facts<ResourceManagerFact>;

facts! {
    /// The facts that the ResourceManager receives from its SlotManager, in order.
    pub enum ResourceManagerFact {
        DeclareNeededWorkers,
        ReleaseIdleWorker,
    }
}

/// SlotManager → its ResourceManager: what is missing beyond the workers that it knows, whole amounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclareNeededWorkers {
    /// Additions and removals of workers that this takes into account.
    pub seen: u64,
    /// By spec; empty: none.
    pub missing: Vec<(WorkerResourceSpec, u32)>,
}

/// SlotManager → its ResourceManager: nobody has used this worker for long enough.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseIdleWorker {
    /// Its incarnation.
    pub instance_id: InstanceId,
}

/// SlotManager → its ResourceManager: a job's requirements can't be met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportLackOfSlots {
    /// The job.
    pub job_id: JobId,
    /// The JobMaster that declared them.
    pub job_master_id: JobMasterId,
    /// "needs 8 slots of …, 4 registered, 0 free".
    pub message: String,
}

/// SlotManager → its ResourceManager: another job could run with the slots that this one holds and can't use
/// yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskToGiveWay {
    /// The job that is asked.
    pub job_id: JobId,
    /// Its JobMaster.
    pub job_master_id: JobMasterId,
    /// How many, by what they must offer.
    pub slots: Vec<ResourceRequirement>,
}
