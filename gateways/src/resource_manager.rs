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
    /// The gateway of the ResourceManager, which knows the cluster's TaskExecutors and has slots given to jobs:
    /// TaskExecutors and JobMasters register, jobs declare their requirements, and REST lists TaskManagers and blocks
    /// nodes.
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
    ReportShortage => (), crate::Never;
    AskToYield => (), crate::Never;
}

/// TaskExecutor → ResourceManager: registers a TaskExecutor; an earlier registration (incarnation) of its process is
/// dropped. Its slots are used only after its [`SendSlotReport`]. The ResourceManager watches it by heartbeats from
/// then on. Refused by a ResourceManager that requests its TaskManagers itself (YARN, Kubernetes) if it neither requested
/// nor recovered this one; `retry` then tells whether registering again may help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterTaskExecutor {
    /// Resource id of the TaskExecutor that registers: the id of its process.
    pub resource_id: ResourceId,
    /// Address of the TaskExecutor's endpoint.
    pub address: EndpointAddress,
    /// Session (one run) of the TaskExecutor's process, which calls to the TaskExecutor must name; others are refused
    /// as fenced.
    pub session: model::ProcessSession,
    /// Address of the heartbeat endpoint of the TaskExecutor's process, to which the ResourceManager's process sends beats from now on.
    pub heartbeat: EndpointAddress,
    /// Host name of the node that the TaskManager runs on; [`BlockNode`] names nodes by it.
    pub host: String,
    /// Resources of the whole TaskExecutor, which its slots share equally; the number of slots is part of it.
    pub spec: WorkerResourceSpec,
    /// Process id of the TaskManager on its machine, shown to users.
    pub pid: u32,
    /// Memory of the whole TaskManager process in bytes (`taskmanager.memory.process.size`), shown to users.
    pub process_memory: model::MemorySize,
    /// Facts about the machine and the rest of the process's memory, shown to users; no decision depends on them.
    #[serde(default)]
    pub facts: model::TaskManagerFacts,
}

/// Answer of a ResourceManager to an accepted registration of a TaskExecutor. The registration makes a new incarnation
/// of the TaskExecutor, which both name in all later messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskExecutorAccepted {
    /// Incarnation of the TaskExecutor; new with every registration. Both sides name it in what follows, so that messages
    /// of an earlier registration are recognised and ignored.
    pub instance_id: InstanceId,
    /// Resource id of the ResourceManager's process.
    pub resource_id: ResourceId,
    /// Address of the heartbeat endpoint of the ResourceManager's process, from which beats come; the TaskExecutor sends none there.
    pub heartbeat: EndpointAddress,
    /// Address of the BlobServer, from which the TaskExecutor fetches the programs of jobs.
    pub blob_server: EndpointAddress,
    /// Session (one run) of the BlobServer's process, which calls to the BlobServer must name; others are refused as
    /// fenced.
    pub blob_session: model::ProcessSession,
}

/// TaskExecutor → ResourceManager: reports all slots of a TaskExecutor; the first report after its registration makes
/// them available to jobs, later ones correct the SlotManager's view. Refused (`retry` is true) if the TaskExecutor is
/// not registered in this incarnation (under this registration): it must register again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SendSlotReport {
    /// Resource id of the TaskExecutor that reports: the id of its process.
    pub resource_id: ResourceId,
    /// Incarnation: the id with which the TaskExecutor's last registration was answered; with an earlier one the report
    /// is refused.
    pub instance_id: InstanceId,
    /// All slots of the TaskExecutor, and the job and allocation that hold each.
    pub report: SlotReport,
}

/// TaskExecutor → ResourceManager: a slot became free, because its job gave it back or its allocation ended otherwise;
/// jobs may get it now. Ignored if the incarnation is not the current one, or the slot is not (or no longer) known as held under this
/// allocation. Sent as a hint: the slot report of the next heartbeat makes up for a lost one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifySlotAvailable {
    /// Incarnation (registration at this ResourceManager) of the slot's TaskExecutor; a message of an earlier one is
    /// late and ignored.
    pub instance_id: InstanceId,
    /// The slot that became free.
    pub slot_id: SlotId,
    /// The allocation that ended, which is the id under which a job had the slot; if the slot is held under another one
    /// by now, the message is late and ignored.
    pub allocation_id: AllocationId,
}

/// TaskExecutor → ResourceManager: the TaskManager stops, so its registration and its slots are dropped at once, not
/// only when heartbeats time out. Jobs miss these slots from then on; the JobMasters are told by the TaskExecutor
/// itself. If an external resource system (YARN, Kubernetes) runs the TaskManager, this does not release it there: it
/// may register again until it ends. Ignored if the incarnation is not registered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectTaskExecutor {
    /// Resource id of the TaskExecutor that leaves (the id of its process); not used, because `instance_id` alone tells
    /// which registration is meant.
    pub resource_id: ResourceId,
    /// Incarnation (registration at this ResourceManager) of the TaskExecutor that leaves; an earlier one than the
    /// registered one changes nothing.
    pub instance_id: InstanceId,
    /// Reason why the TaskExecutor leaves, for the log.
    pub cause: FailureCause,
}

/// JobMaster → ResourceManager: registers a JobMaster, which the ResourceManager watches by heartbeats from then on.
/// The ResourceManager looks up who leads the job (waiting up to 1 s for the job's first leader), and refuses a JobMaster that
/// does not; asking again may help. Declares no requirements by itself; those that the same JobMaster declared before stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterJobMaster {
    /// Job that the JobMaster leads.
    pub job_id: JobId,
    /// The JobMaster's leadership; one that is not the job's published leader is refused.
    pub job_master_id: JobMasterId,
    /// Resource id of the JobMaster's process.
    pub resource_id: ResourceId,
    /// Address of the JobMaster's endpoint.
    pub address: EndpointAddress,
    /// Address of the heartbeat endpoint of the JobMaster's process, to which the ResourceManager's process sends beats from now on.
    pub heartbeat: EndpointAddress,
    /// Session (one run) of the JobMaster's process, which calls to its heartbeat endpoint must name; others are
    /// refused as fenced.
    pub heartbeat_session: model::ProcessSession,
}

/// Answer of a ResourceManager to an accepted registration of a JobMaster: names the ResourceManager's process and its heartbeat
/// endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMasterAccepted {
    /// Resource id of the ResourceManager's process.
    pub resource_id: ResourceId,
    /// Address of the heartbeat endpoint of the ResourceManager's process, from which beats come; the JobMaster sends none there.
    pub heartbeat: EndpointAddress,
}

/// JobMaster → ResourceManager: declares all slots that a job needs, replacing its last declaration. Answered when the
/// declaration is taken, before any slot is there; slots are offered later by TaskExecutors, and a shortage comes as
/// `NotifyNotEnoughResources`. May be repeated. Not stored: a JobMaster declares again at each ResourceManager that it registers at.
/// Refused (`retry` is true) if this JobMaster is not registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclareRequiredResources {
    /// Job that needs the slots.
    pub job_id: JobId,
    /// Leadership of the JobMaster that declares; if it is not the registered one, the declaration is refused and
    /// changes nothing.
    pub job_master_id: JobMasterId,
    /// Address of the JobMaster, to which TaskExecutors offer the slots.
    pub target: EndpointAddress,
    /// Name of the job, for messages and logs; not unique.
    pub job_name: String,
    /// The program that a TaskExecutor's host of this job runs; a TaskExecutor fetches it with the job's first slot.
    /// `None`: the TaskManager is the program itself (embedded mode).
    pub program: Option<BlobKey>,
    /// Numbers of slots that are needed by profile, held ones included; empty, or all 0: none is needed any more. Slots that the job holds
    /// beyond them stay until it frees them.
    pub requirements: Vec<ResourceRequirement>,
}

/// JobMaster → ResourceManager: the JobMaster leaves, so its requirements are dropped. If the job has ended, it is forgotten and its slots
/// are freed. Otherwise the ResourceManager leaves them to the next JobMaster, and has them freed once the job has had no leader for
/// `resourcemanager.job.timeout`; TaskExecutors free them earlier if no JobMaster accepts them within `taskmanager.slot.timeout`. Ignored
/// if this JobMaster is not registered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DisconnectJobMaster {
    /// Job that the JobMaster led.
    pub job_id: JobId,
    /// Leadership of the JobMaster that leaves.
    pub job_master_id: JobMasterId,
    /// True if the job has ended for good, whether it finished, failed or was cancelled.
    pub finished: bool,
}

/// REST → ResourceManager: asks for all registered TaskExecutors, each with its slots, by resource id. Changes nothing. If
/// the SlotManager does not answer, all show 0 free and no allocated slots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestTaskManagers {}

/// Summary of one registered TaskExecutor, an entry of the answer to `RequestTaskManagers`: where it runs and is called, its
/// resources and slots, and the age of its last heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskManagerSummary {
    /// Resource id of the TaskExecutor: the id of its process.
    pub resource_id: ResourceId,
    /// Address of the TaskExecutor's endpoint.
    pub address: EndpointAddress,
    /// Session (one run) of the TaskExecutor's process, which calls to the TaskExecutor must name; others are refused
    /// as fenced.
    pub session: model::ProcessSession,
    /// Host name of the TaskExecutor's node.
    pub host: String,
    /// Process id of the TaskManager on its machine.
    pub pid: u32,
    /// Resources of the whole TaskExecutor, which its slots share equally.
    pub spec: WorkerResourceSpec,
    /// Memory of the whole TaskManager process in bytes (`taskmanager.memory.process.size`).
    pub process_memory: model::MemorySize,
    /// Facts about the machine and the rest of the process's memory, shown to users.
    #[serde(default)]
    pub facts: model::TaskManagerFacts,
    /// Number of free slots, those on a blocked node included; 0 until the SlotManager knows the TaskExecutor by its first
    /// report.
    pub free_slots: u32,
    /// One entry for each slot that is allocated to a job, or requested for it and not answered yet: the job, and the slot's resources.
    pub allocated: Vec<(JobId, ResourceProfile)>,
    /// Milliseconds since the ResourceManager last heard a heartbeat from the TaskExecutor, or since its registration if none was heard.
    pub last_heartbeat_age_ms: u64,
    /// True if the TaskExecutor's node is blocked, so that jobs get no new slots there.
    pub blocked: bool,
}

/// REST → ResourceManager: asks for the sums over all TaskExecutors. All sums are 0 if the SlotManager does not answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestResourceOverview {}

/// Sums of slots and TaskExecutors over all registered TaskExecutors that have sent their first slot report, as the SlotManager knows
/// them: the answer to [`RequestResourceOverview`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceOverview {
    /// Number of registered TaskExecutors that have reported their slots.
    pub task_managers: u32,
    /// Number of all slots of these TaskExecutors, free or allocated.
    pub slots: u32,
    /// Number of slots that are free, those on blocked nodes included.
    pub free_slots: u32,
    /// Number of these TaskExecutors that are on blocked nodes.
    pub blocked_task_managers: u32,
    /// Number of free slots on blocked nodes, which no job gets; they are part of `free_slots`.
    pub blocked_free_slots: u32,
}

/// REST → ResourceManager: blocks a node for a time: jobs get no new slots of its TaskManagers, and no TaskManager is started there. Slots
/// in use stay. An existing block of the node that ends later stays, with its cause; one that ends earlier is replaced. The answer is the
/// block that holds from now on. A node without TaskManagers may be blocked. Blocks are not stored: the next leading ResourceManager knows
/// none. Refused with [`BlockNodeError`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockNode {
    /// The node's host name, as its TaskManagers register with it; if it is empty or longer than 255 bytes, the call is
    /// refused with [`BlockNodeError::InvalidName`].
    pub host: String,
    /// Duration of the block in milliseconds, from the arrival of the request on (monotonic clock); without an upper bound. 0 ends the
    /// block at the ResourceManager's next check.
    pub for_ms: u64,
    /// The reason, for the list of blocked nodes.
    pub cause: String,
}

/// A node on which, for a time, no slots are given to jobs and no TaskManagers are started: the answer to [`BlockNode`], and an entry of
/// that to [`RequestBlockedNodes`]. Held in the ResourceManager's memory only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedNode {
    /// The node's host name.
    pub host: String,
    /// Milliseconds from the answer until the block ends; 0 if its time is over and the next check removes it.
    pub remaining_ms: u64,
    /// The reason that was given for the block, for people.
    pub cause: String,
    /// Number of TaskManagers that are registered on the node.
    pub task_managers: u32,
}

/// The reason why a node cannot be blocked (its name is no host name, or too many nodes are blocked); nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BlockNodeError {
    /// The name, which is the value (cut to 255 characters), is empty or longer than 255 bytes.
    #[error("'{0}' cannot be a host name: 1 to 255 bytes are allowed")]
    InvalidName(String),
    /// 10,000 other nodes, the most that may be blocked at the same time, are blocked already; the value is that number.
    #[error("{0} nodes are blocked already; unblock some of them first")]
    TooMany(u64),
}

/// REST → ResourceManager: ends the block of a node, and forgets that TaskManagers failed to start there, so that jobs
/// and TaskManagers get places on it again. The answer is true if the node was blocked; if not, it is false and no
/// error.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnblockNode {
    /// The node's host name, exactly as it was blocked.
    pub host: String,
}

/// REST → ResourceManager: asks for all blocked nodes; the answer lists them by name. Nodes that are only avoided for a
/// time, because TaskManagers failed to start there, are not among them. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestBlockedNodes {}

/// JobManager's process → its ResourceManager: deregisters the application, which has ended, at the external resource system (YARN,
/// Kubernetes). Takes up to `resourcemanager.deregister.timeout`, in which failed attempts, and those without an answer for a quarter of
/// that time, are repeated after 0.5 s to 5 s; then it fails with [`DeregisterError`], so the call's deadline must be later. Without such a
/// system it tells all TaskManagers to end (with `diagnostics` as the cause), and never fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeregisterApplication {
    /// Outcome of the application, as its users see it in the external resource system.
    pub status: ApplicationStatus,
    /// Diagnostics meant for people, shown by the external resource system; `None`: nothing to add to the status.
    pub diagnostics: Option<String>,
}

/// The application could not be deregistered in time: the external resource system (YARN, Kubernetes) still considers
/// it running, and may start it a second time.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error(
    "the application was not unregistered within {within_ms} ms, in {attempts} attempts: {cause}"
)]
pub struct DeregisterError {
    /// Maximum time for the deregistration, in milliseconds (`resourcemanager.deregister.timeout`).
    pub within_ms: u64,
    /// Number of attempts that were begun; the last one may have been cut off.
    pub attempts: u32,
    /// The error of the last attempt that failed or got no answer, as text.
    pub cause: String,
}

/// The outcome of an application, as [`DeregisterApplication`] tells it to the external resource system (YARN, Kubernetes); without one
/// it has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplicationStatus {
    /// The application's only job finished; or the cluster was shut down on request: a session however its jobs have ended, an application
    /// if its job never ran or did not end in time.
    Succeeded,
    /// The application's only job failed, or was refused at its submission.
    Failed,
    /// The application's only job was cancelled.
    Canceled,
    /// The application's only job is in another state than a globally terminal one, so its outcome is not known.
    Unknown,
}

/// SlotManager → its ResourceManager: carries the SlotManager's decisions as facts (messages that must arrive exactly once and in order).
/// The answer is the number of the fact that is expected next (see [`crate::delivery`]). Facts from another process are not taken.
pub type TakeFacts = Facts<ResourceManagerFact>;

facts! {
    /// The facts (messages that must arrive exactly once and in order) that the ResourceManager receives from its SlotManager, each with
    /// the message of its name: how many more TaskManagers the jobs need, and that one is idle and is to be released.
    pub enum ResourceManagerFact {
        DeclareNeededTaskManagers,
        ReleaseIdleTaskManager,
    }
}

/// SlotManager → its ResourceManager: declares how many TaskManagers of an external resource system are
/// missing beyond the known ones, never more than `slotmanager.number-of-slots.max` allows: the whole number, not a difference
/// to the last declaration, which it replaces. Spare ones (`slotmanager.redundant-taskmanager-num`) are included while any job has
/// requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclareNeededTaskManagers {
    /// Number of additions and removals of TaskManagers that the SlotManager had processed before this declaration. If
    /// the ResourceManager has reported more by then, it ignores the declaration, because the SlotManager will declare
    /// again.
    pub seen: u64,
    /// Number of missing TaskManagers by their resources, beyond those that the SlotManager knows; empty: none is missing,
    /// so pending requests are cancelled.
    pub missing: Vec<(WorkerResourceSpec, u32)>,
}

/// SlotManager → its ResourceManager: this TaskManager has been idle for
/// `resourcemanager.taskmanager-timeout`, while no job waits for slots or its node is blocked. The ResourceManager closes its
/// registration, tells the process to end, and
/// has the driver of the external resource system release it. Does nothing if the incarnation is not registered any
/// more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseIdleTaskManager {
    /// Incarnation of the idle TaskExecutor, as its registration at the ResourceManager was answered; if the TaskExecutor
    /// has registered again since, this one is unknown and nothing is released.
    pub instance_id: InstanceId,
}

/// SlotManager → its ResourceManager: a job's requirements can't be met. Without a resource system: all registered slots, those that other
/// jobs hold included and those on blocked nodes not, would not suffice, 0.5 s after the shortage began (and after the start-up period);
/// with one (YARN, Kubernetes): unmet for `slot.request.timeout`, or after 0.5 s if no TaskManager can ever offer them. The ResourceManager
/// adds the last error of the external resource system and tells the job's JobMaster (`NotifyNotEnoughResources`, a hint that may be lost);
/// it ignores the message if that JobMaster is not registered any more, or another process sends it. Repeated every 5 s while the shortage
/// lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportShortage {
    /// Job whose requirements cannot be met.
    pub job_id: JobId,
    /// Leadership of the JobMaster that declared the requirements.
    pub job_master_id: JobMasterId,
    /// Description for people, such as "needs 8 slots of …, 4 registered, 0 free".
    pub message: String,
}

/// SlotManager → its ResourceManager: another job could run with the slots that this job holds and can't use yet. The
/// ResourceManager asks the job's JobMaster for them (`YieldSlots`, a hint that may be lost), and ignores the message if that JobMaster
/// is not registered any more, or another process sends it. Repeated while the other job waits: at most every 2 s to a job that has freed
/// slots since the last time, and every 15 s to one that has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskToYield {
    /// The job that is asked to yield slots.
    pub job_id: JobId,
    /// Leadership of the JobMaster that is asked.
    pub job_master_id: JobMasterId,
    /// Number of slots to yield, by the profile (amounts of resources) that each must have at least.
    pub slots: Vec<ResourceRequirement>,
}
