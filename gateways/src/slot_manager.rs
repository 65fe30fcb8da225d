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

/// ResourceManager → its SlotManager: events. The answer is the number of the fact that is expected next.
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

/// Adds a TaskExecutor that was registered, with its slots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTaskExecutor {
    /// Process of the TaskExecutor.
    pub resource_id: ResourceId,
    /// Incarnation of the TaskExecutor.
    pub instance_id: InstanceId,
    /// Address of the TaskExecutor, to which slot requests go.
    pub address: EndpointAddress,
    /// Session of the process, by which the calls are fenced.
    pub session: ProcessSession,
    /// Host name of the node.
    pub host: String,
    /// Resources of the TaskExecutor.
    pub spec: WorkerResourceSpec,
    /// Slots of the TaskExecutor and who holds them.
    pub report: SlotReport,
}

/// Removes a TaskExecutor that is lost, with its slots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveTaskExecutor {
    /// Incarnation of the TaskExecutor.
    pub instance_id: InstanceId,
}

/// Passes on a TaskExecutor's full slot report from a heartbeat; the SlotManager corrects its view by it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportSlots {
    /// Incarnation of the TaskExecutor.
    pub instance_id: InstanceId,
    /// Slots of the TaskExecutor and who holds them.
    pub report: SlotReport,
}

/// Tells the SlotManager that a TaskExecutor has freed a slot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSlot {
    /// Incarnation of the TaskExecutor.
    pub instance_id: InstanceId,
    /// Slot that the message concerns.
    pub slot_id: SlotId,
    /// The allocation that ended.
    pub allocation_id: AllocationId,
}

/// Declares all slots that a job needs, replacing its last declaration. One of an earlier JobMaster that arrives late
/// changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessRequirements {
    /// Job that the value belongs to.
    pub job_id: JobId,
    /// Leadership of the job's JobMaster.
    pub job_master_id: JobMasterId,
    /// Address of the JobMaster to which TaskExecutors offer the slots.
    pub target: EndpointAddress,
    /// Name of the job.
    pub job_name: String,
    /// Program that TaskExecutors may fetch in advance.
    pub program: Option<BlobKey>,
    /// Requirements in whole amounts, held slots among them; they replace the last ones. Empty: none is needed any
    /// more.
    pub requirements: Vec<ResourceRequirement>,
}

/// Removes a job: the SlotManager asks the TaskExecutors to free the job's slots, because no one
/// else will.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveJob {
    /// Job that the call is about.
    pub job_id: JobId,
}

/// Sets the blocked nodes; they replace the last ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockHosts {
    /// Host names of the blocked nodes.
    pub hosts: Vec<String>,
}

/// The complete list of workers that the external resource system can never provide. Jobs that wait for them are
/// notified at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefuseWorkers {
    /// The specs of these workers, each with the reason.
    pub specs: Vec<(WorkerResourceSpec, String)>,
}

/// Asks for the sums over all TaskExecutors and for each TaskExecutor's slots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSlotOverview {}

/// The SlotManager's view of workers and slots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlotOverview {
    /// Sums over all TaskExecutors.
    pub totals: ResourceOverview,
    /// Each TaskExecutor's number of free slots, and its allocated slots by job.
    pub workers: Vec<WorkerSlots>,
}

/// A TaskExecutor's incarnation, the number of its free slots, and its allocated slots: the job and the resources of
/// each.
pub type WorkerSlots = (InstanceId, u32, Vec<(JobId, ResourceProfile)>);
