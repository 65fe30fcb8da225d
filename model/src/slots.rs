//! Slot reports and requirements, as they travel between TaskExecutor, ResourceManager and JobMaster.

use crate::{
    ids::{AllocationId, JobId, SlotId},
    resources::ResourceProfile,
};
use serde::{Deserialize, Serialize};

/// One slot as its TaskExecutor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// Which slot.
    pub slot_id: SlotId,
    /// What it offers.
    pub profile: ResourceProfile,
    /// Whom it is allocated to.
    pub allocation: Option<SlotAllocation>,
}

/// Whom a slot is allocated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotAllocation {
    /// The job.
    pub job_id: JobId,
    /// This allocation.
    pub allocation_id: AllocationId,
}

/// All slots of a TaskExecutor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotReport {
    /// By ascending index.
    pub slots: Vec<SlotStatus>,
}

/// So many slots of a profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceRequirement {
    /// What each slot must fulfil.
    pub profile: ResourceProfile,
    /// How many: the whole amount, not a difference.
    pub slots: u32,
}
