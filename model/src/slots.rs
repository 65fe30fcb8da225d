//! Slot reports and requirements, as they travel between TaskExecutor, ResourceManager and JobMaster.

use crate::{
    ids::{AllocationId, JobId, SlotId},
    resources::ResourceProfile,
};
use serde::{Deserialize, Serialize};

/// The state of one slot, as its TaskExecutor reports it to the ResourceManager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// The slot that the status is about.
    pub slot_id: SlotId,
    /// The resources that the slot has.
    pub profile: ResourceProfile,
    /// The job and the allocation (claim of a job) that have the slot; `None` if the slot is free.
    pub allocation: Option<SlotAllocation>,
}

/// The job that has a slot, and the allocation (one claim of the job on the slot, until the slot is freed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotAllocation {
    /// The job that has the slot.
    pub job_id: JobId,
    /// The id of the job's claim on the slot; the slot's next allocation has another one.
    pub allocation_id: AllocationId,
}

/// The statuses of all slots of a TaskExecutor, free ones included, sent to the ResourceManager after its registration and with
/// heartbeats. A report replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotReport {
    /// The statuses of all slots, by ascending index.
    pub slots: Vec<SlotStatus>,
}

/// A number of slots of one profile that a job needs, as its JobMaster declares it to the ResourceManager, in a list with one entry per
/// profile that replaces the list before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceRequirement {
    /// The profile that each of the slots must fulfil.
    pub profile: ResourceProfile,
    /// Number of slots: the whole amount that the job wants, not a difference to what it has.
    pub slots: u32,
}
