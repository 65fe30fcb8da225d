//! Slot reports and requirements, as they travel between TaskExecutor, ResourceManager and JobMaster.

use crate::{
    ids::{AllocationId, JobId, SlotId},
    resources::ResourceProfile,
};
use serde::{Deserialize, Serialize};

/// One slot as its TaskExecutor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// The slot that the status is about.
    pub slot_id: SlotId,
    /// Profile that the slot offers.
    pub profile: ResourceProfile,
    /// Allocation of the slot; `None` if it is free.
    pub allocation: Option<SlotAllocation>,
}

/// The job and allocation that have a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotAllocation {
    /// Job that has the slot.
    pub job_id: JobId,
    /// Allocation that has the slot.
    pub allocation_id: AllocationId,
}

/// All slots of a TaskExecutor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotReport {
    /// Statuses of all slots, by ascending index.
    pub slots: Vec<SlotStatus>,
}

/// A number of slots that fulfil a profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceRequirement {
    /// Profile that each slot must fulfil.
    pub profile: ResourceProfile,
    /// Number of slots; the whole amount, not a difference.
    pub slots: u32,
}
