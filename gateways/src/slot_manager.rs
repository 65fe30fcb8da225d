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
    /// The gateway of the SlotManager, which matches requirements with slots; only its ResourceManager calls it, inside
    /// one process.
    pub struct SlotManagerGateway = "slot_manager", fenced by SlotManagerId;
    TakeFacts => u64, Never;
    RequestSlotOverview => SlotOverview, Never;
}

/// ResourceManager → its SlotManager: what the SlotManager has to know, in order. The answer is the number of the fact that
/// is expected next (see `crate::delivery`).
pub type TakeFacts = Facts<SlotManagerFact>;

facts! {
    /// The facts that the SlotManager receives from its ResourceManager, in order.
    pub enum SlotManagerFact {
        AddTaskExecutor,
        RemoveTaskExecutor,
        ReportSlots,
        FreeSlot,
        ProcessRequirements,
        RemoveJob,
        BlockHosts,
        RefuseWorkers,
    }
}

/// ResourceManager → SlotManager: a TaskExecutor has registered and sent its first slot report. Its free slots are given to
/// jobs from now on; an earlier incarnation of its process is removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTaskExecutor {
    /// Process of the TaskExecutor that was added.
    pub resource_id: ResourceId,
    /// Incarnation of this registration, which later facts about the TaskExecutor name.
    pub instance_id: InstanceId,
    /// Address of the TaskExecutor, to which slot requests go.
    pub address: EndpointAddress,
    /// Session of the TaskExecutor's process, by which calls to the TaskExecutor are fenced.
    pub session: ProcessSession,
    /// Host name of the node; [`BlockHosts`] names nodes by it.
    pub host: String,
    /// Resources of the TaskExecutor; for a worker that was requested, those that were requested.
    pub spec: WorkerResourceSpec,
    /// The first report: the TaskExecutor's slots and who holds them.
    pub report: SlotReport,
}

/// ResourceManager → SlotManager: a TaskExecutor is lost, released, or has registered again; it is removed with its slots,
/// which jobs that held them lack from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveTaskExecutor {
    /// Incarnation of the TaskExecutor that is removed; an unknown one changes nothing.
    pub instance_id: InstanceId,
}

/// ResourceManager → SlotManager: passes on a TaskExecutor's full slot report from a heartbeat; the SlotManager corrects
/// its view by it, except where a newer answer of the TaskExecutor overrides the report. Slots held for removed jobs are
/// freed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportSlots {
    /// Incarnation of the TaskExecutor that reports; an unknown one changes nothing.
    pub instance_id: InstanceId,
    /// All slots of the TaskExecutor and who holds them.
    pub report: SlotReport,
}

/// ResourceManager → SlotManager: a TaskExecutor has freed a slot. Ignored if the slot is held under another allocation by
/// now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSlot {
    /// Incarnation of the slot's TaskExecutor.
    pub instance_id: InstanceId,
    /// The slot that became free.
    pub slot_id: SlotId,
    /// The allocation that ended; the slot stays held if another allocation has it by now.
    pub allocation_id: AllocationId,
}

/// ResourceManager → SlotManager: declares all slots that a job needs, replacing its last declaration. One of an earlier
/// JobMaster that arrives late changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessRequirements {
    /// Job that needs the slots.
    pub job_id: JobId,
    /// Leadership of the JobMaster that declared; slot requests pass it on to TaskExecutors.
    pub job_master_id: JobMasterId,
    /// Address of the JobMaster to which TaskExecutors offer the slots.
    pub target: EndpointAddress,
    /// Name of the job, for messages; not unique.
    pub job_name: String,
    /// Program that TaskExecutors fetch for the job's host; `None`: the TaskManager is the program itself.
    pub program: Option<BlobKey>,
    /// Requirements in whole amounts, held slots among them; they replace the last ones. Empty: none is needed any
    /// more.
    pub requirements: Vec<ResourceRequirement>,
}

/// ResourceManager → SlotManager: a job has ended, or was without a leader for too long. Its requirements are dropped, and
/// the SlotManager asks the TaskExecutors to free its slots, because no one else will.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveJob {
    /// Job that is removed; one that is not known changes nothing.
    pub job_id: JobId,
}

/// ResourceManager → SlotManager: sets the blocked nodes; they replace the last ones. Slots of TaskExecutors there are
/// given to no job; held slots stay held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockHosts {
    /// Host names of all blocked nodes; empty: none is blocked.
    pub hosts: Vec<String>,
}

/// ResourceManager → SlotManager: the complete list of workers that the external resource system can never provide; it
/// replaces the last one. Jobs that wait for them are notified at once instead of after `slot.request.timeout`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefuseWorkers {
    /// The specs of the workers that can never be provided, each with the reason; empty: all can.
    pub specs: Vec<(WorkerResourceSpec, String)>,
}

/// ResourceManager → SlotManager: asks for the sums over all TaskExecutors and for each TaskExecutor's slots. Changes
/// nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSlotOverview {}

/// The SlotManager's view of workers and slots: the answer to `RequestSlotOverview`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlotOverview {
    /// Sums of slots and workers over all TaskExecutors.
    pub totals: ResourceOverview,
    /// Each TaskExecutor's number of free slots, and its allocated slots by job.
    pub workers: Vec<WorkerSlots>,
}

/// A TaskExecutor's incarnation, the number of its free slots, and its allocated slots: the job and the resources of
/// each.
pub type WorkerSlots = (InstanceId, u32, Vec<(JobId, ResourceProfile)>);
