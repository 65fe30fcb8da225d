//! The SlotManager's gateway, which only its ResourceManager calls, inside one process.
//!
//! Everything about a TaskExecutor reaches the SlotManager through the ResourceManager, in order, stamped with its
//! InstanceId, as facts (see [`crate::delivery`]); both components live in the same session.

use crate::{EndpointAddress, Facts, Never, facts, gateway, resource_manager::ResourceOverview};
use model::{
    AllocationId, BlobKey, InstanceId, JobId, JobMasterId, ProcessSession, ResourceId,
    ResourceProfile, ResourceRequirement, SlotId, SlotManagerId, SlotReport, WorkerResourceSpec,
};
use serde::{Deserialize, Serialize};

gateway! {
    /// The gateway of the SlotManager, which matches the slots that jobs require with those of TaskExecutors; only its
    /// ResourceManager calls it, inside one process.
    pub struct SlotManagerGateway = "slot_manager", fenced by SlotManagerId;
    TakeFacts => u64, Never;
    RequestSlotOverview => SlotOverview, Never;
}

/// ResourceManager → its SlotManager: carries facts (messages that must arrive exactly once and in order) about
/// TaskExecutors, slots and jobs. The answer is the number of the fact that is expected next (see `crate::delivery`).
pub type TakeFacts = Facts<SlotManagerFact>;

facts! {
    /// The facts (messages that must arrive exactly once and in order) that the SlotManager receives from its
    /// ResourceManager, each with the message of its name: TaskExecutors that come and go, their slots, the requirements
    /// of jobs and their ends, blocked nodes, and TaskManagers that can never be provided.
    pub enum SlotManagerFact {
        AddTaskExecutor,
        RemoveTaskExecutor,
        ReportSlots,
        FreeSlot,
        ProcessRequirements,
        RemoveJob,
        BlockHosts,
        RefuseTaskManagers,
    }
}

/// ResourceManager → SlotManager: a TaskExecutor has registered and sent its first slot report. Its free slots are
/// given to jobs from now on. An earlier incarnation (registration) of its process is removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTaskExecutor {
    /// Resource id of the TaskExecutor that was added: the id of its process.
    pub resource_id: ResourceId,
    /// Incarnation: the id of this registration, by which later facts name the TaskExecutor.
    pub instance_id: InstanceId,
    /// Address of the TaskExecutor, to which slot requests go.
    pub address: EndpointAddress,
    /// Session (one run) of the TaskExecutor's process, which calls to the TaskExecutor must name; others are refused
    /// as fenced.
    pub session: ProcessSession,
    /// Host name of the node; [`BlockHosts`] names nodes by it.
    pub host: String,
    /// Resources of the whole TaskExecutor; for one that the ResourceManager requested from a resource system, those
    /// that it requested.
    pub spec: WorkerResourceSpec,
    /// The first report: the TaskExecutor's slots and who holds them.
    pub report: SlotReport,
}

/// ResourceManager → SlotManager: a TaskExecutor is lost, released, or has registered again; it is removed with its slots,
/// which jobs that held them miss from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveTaskExecutor {
    /// Incarnation (registration at the ResourceManager) of the TaskExecutor that is removed; an unknown one changes
    /// nothing.
    pub instance_id: InstanceId,
}

/// ResourceManager → SlotManager: passes on a TaskExecutor's full slot report, from a heartbeat or a repeated `SendSlotReport`. The
/// SlotManager corrects its view by it, except for slots with an unanswered request and those whose state an answer, a freed slot or an
/// earlier report has changed less than two heartbeat intervals ago. The SlotManager asks the TaskExecutor to free each reported slot
/// that is held for a removed job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportSlots {
    /// Incarnation (registration at the ResourceManager) of the TaskExecutor that reports; an unknown one changes
    /// nothing.
    pub instance_id: InstanceId,
    /// All slots of the TaskExecutor and who holds them.
    pub report: SlotReport,
}

/// ResourceManager → SlotManager: a TaskExecutor has freed a slot, which may be given to a job now. Ignored unless the SlotManager
/// knows the slot as requested for, or held under, that allocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSlot {
    /// Incarnation (registration at the ResourceManager) of the slot's TaskExecutor.
    pub instance_id: InstanceId,
    /// The slot that became free.
    pub slot_id: SlotId,
    /// The allocation that ended, which is the id under which a job had the slot; the slot stays held if another
    /// allocation has it by now.
    pub allocation_id: AllocationId,
}

/// ResourceManager → SlotManager: declares all slots that a job needs, replacing its last declaration; the SlotManager
/// then requests free slots for it. A declaration of an earlier JobMaster that arrives late changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessRequirements {
    /// Job that needs the slots.
    pub job_id: JobId,
    /// Leadership of the JobMaster that declared; slot requests to TaskExecutors name it.
    pub job_master_id: JobMasterId,
    /// Address of the JobMaster to which TaskExecutors offer the slots.
    pub target: EndpointAddress,
    /// Name of the job, for messages; not unique.
    pub job_name: String,
    /// Program that TaskExecutors fetch for the job's host; `None`: the TaskManager is the program itself.
    pub program: Option<BlobKey>,
    /// Whole numbers of slots that the job needs by profile, held ones included; they replace the last ones. Empty:
    /// none is needed any more.
    pub requirements: Vec<ResourceRequirement>,
}

/// ResourceManager → SlotManager: a job has ended, or was without a leader for too long. Its requirements are dropped, and
/// the SlotManager asks the TaskExecutors to free its slots, because no one else will.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveJob {
    /// Job that is removed. Slots that TaskExecutors hold for it are freed also if it has declared no requirements.
    pub job_id: JobId,
}

/// ResourceManager → SlotManager: sets the blocked nodes; they replace the last ones. Slots of TaskExecutors there are
/// given to no job; held slots stay held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockHosts {
    /// Host names of all blocked nodes, whose free slots no job gets; empty: none is blocked.
    pub hosts: Vec<String>,
}

/// ResourceManager → SlotManager: the complete list of TaskManagers that the external resource system (YARN,
/// Kubernetes) can never provide; it replaces the last one. The JobMasters of jobs that wait for them are notified of the shortage 0.5 s
/// after it began, or at once if that time has passed, instead of after `slot.request.timeout`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefuseTaskManagers {
    /// Resources of the TaskManagers that can never be provided, each with the reason; empty: all can.
    pub specs: Vec<(WorkerResourceSpec, String)>,
}

/// ResourceManager → SlotManager: asks for the sums over all TaskExecutors and for each TaskExecutor's slots. Changes
/// nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSlotOverview {}

/// The SlotManager's view of TaskExecutors and slots: the answer to `RequestSlotOverview`, from which the ResourceManager answers REST.
/// TaskExecutors without a first report are not in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlotOverview {
    /// Sums of slots and TaskExecutors over all TaskExecutors.
    pub totals: ResourceOverview,
    /// For each TaskExecutor the number of its free slots, and its slots that are allocated or requested, with their jobs.
    pub task_managers: Vec<TaskManagerSlots>,
}

/// A TaskExecutor's incarnation (registration at the ResourceManager), the number of its free slots, and one entry for each slot that is
/// allocated to a job, or requested for it and not answered yet: the job, and the slot's resources. Slots in an unknown state (the last
/// request failed, or was refused for another reason than that the slot is occupied) are in neither until a later report tells their
/// state.
pub type TaskManagerSlots = (InstanceId, u32, Vec<(JobId, ResourceProfile)>);
