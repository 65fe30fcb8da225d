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
    /// What the SlotManager answers.
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

/// A TaskExecutor was registered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddTaskExecutor {
    /// The process.
    pub resource_id: ResourceId,
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// Where slots are requested.
    pub address: EndpointAddress,
    /// Fence there.
    pub session: ProcessSession,
    /// Node.
    pub host: String,
    /// What it is made of.
    pub spec: WorkerResourceSpec,
    /// Its slots.
    pub report: SlotReport,
}

/// A TaskExecutor is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveTaskExecutor {
    /// The incarnation.
    pub instance_id: InstanceId,
}

/// A full report from a heartbeat: reconciles.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReportSlots {
    /// The incarnation.
    pub instance_id: InstanceId,
    /// Its slots.
    pub report: SlotReport,
}

/// A slot became free.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FreeSlot {
    /// The incarnation.
    pub instance_id: InstanceId,
    /// Which.
    pub slot_id: SlotId,
    /// The allocation that ended.
    pub allocation_id: AllocationId,
}

/// What a job needs in all.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProcessRequirements {
    /// The job.
    pub job_id: JobId,
    /// Its JobMaster.
    pub job_master_id: JobMasterId,
    /// Where offers go.
    pub target: EndpointAddress,
    /// Its name.
    pub job_name: String,
    /// The program to prefetch.
    pub program: Option<BlobKey>,
    /// Whole amounts.
    pub requirements: Vec<ResourceRequirement>,
}

/// A job has gone: the TaskExecutors are told to free its slots, because nobody else will tell them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RemoveJob {
    /// Which.
    pub job_id: JobId,
}

/// The blocked nodes, whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlockHosts {
    /// Host names.
    pub hosts: Vec<String>,
}

/// The complete list of workers that the external resource system can never provide. Jobs that wait for them are
/// notified at once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RefuseWorkers {
    /// The specs of these workers, each with the reason.
    pub specs: Vec<(WorkerResourceSpec, String)>,
}

/// Sums and every TaskExecutor's slots.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestSlotOverview {}

/// What the SlotManager knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlotOverview {
    /// Sums.
    pub totals: ResourceOverview,
    /// Per TaskExecutor: free slots, allocated slots by job.
    pub workers: Vec<WorkerSlots>,
}

/// A TaskExecutor's free slots, and its allocated ones by job.
pub type WorkerSlots = (InstanceId, u32, Vec<(JobId, ResourceProfile)>);
