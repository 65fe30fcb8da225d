//! The slots of one TaskExecutor: which are free, and to which allocation of which job the others belong.
//!
//! A slot never belongs to two allocations and an allocation never to two slots. The table must never
//! free a slot by itself: it says what is overdue, its owner decides.

#[cfg(test)]
mod tests;

use model::job::SlotOffer;
use model::slots::SlotAllocation;
use model::{AllocationId, JobId, ResourceId, ResourceProfile, SlotId, SlotReport, SlotStatus};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// The slots of one TaskExecutor.
#[derive(Debug, Clone)]
pub struct SlotTable {
    resource_id: ResourceId,
    slots: Vec<Slot>,
    by_allocation: BTreeMap<AllocationId, usize>,
}

#[derive(Debug, Clone)]
struct Slot {
    profile: ResourceProfile,
    held: Option<Held>,
}

/// An allocated slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// The allocation.
    pub allocation: AllocationId,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is in that phase.
    pub since: Duration,
}

/// How far an allocated slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not accepted by a JobMaster (any more, or yet).
    Inactive,
    /// Accepted by the connected JobMaster.
    Active,
    /// Its host is gone; freed when the JobMaster was told.
    Failing,
    /// Given back, but tasks in it still run; freed when they have ended.
    Releasing,
}

/// What became of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocated {
    /// The slot was free.
    New,
    /// It had this allocation already: a repeated request.
    Already,
}

/// Why a slot was not allocated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AllocateError {
    /// There is none of that index.
    #[error("there is no slot {0}")]
    NoSuchSlot(u32),
    /// It has another allocation, or is being freed.
    #[error("the slot belongs to job {job}")]
    Occupied {
        /// Whose.
        job: JobId,
        /// Which allocation.
        allocation: AllocationId,
    },
    /// The allocation has another slot.
    #[error("allocation {0} has another slot here")]
    AllocatedElsewhere(AllocationId),
    /// The slot has less than is needed.
    #[error("slot {index} has {has}, {need} is needed")]
    TooSmall {
        /// Which.
        index: u32,
        /// Its profile.
        has: Box<ResourceProfile>,
        /// The needed one.
        need: Box<ResourceProfile>,
    },
}

/// A slot that became free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Which.
    pub index: u32,
    /// The job it belonged to.
    pub job: JobId,
    /// The allocation that ended.
    pub allocation: AllocationId,
}

impl SlotTable {
    /// All free.
    pub fn new(resource_id: ResourceId, profiles: Vec<ResourceProfile>) -> Self {
        let slots = profiles.into_iter().map(|profile| Slot { profile, held: None });
        Self { resource_id, slots: slots.collect(), by_allocation: BTreeMap::new() }
    }

    /// Gives a free slot to an allocation. Repeating it is harmless.
    pub fn allocate(
        &mut self,
        now: Duration,
        index: u32,
        job: JobId,
        allocation: AllocationId,
        need: &ResourceProfile,
    ) -> Result<Allocated, AllocateError> {
        let at = usize::try_from(index).map_err(|_| AllocateError::NoSuchSlot(index))?;
        let elsewhere = self.by_allocation.get(&allocation).is_some_and(|i| *i != at);
        let slot = self.slots.get_mut(at).ok_or(AllocateError::NoSuchSlot(index))?;
        match slot.held {
            Some(held) if (held.job, held.allocation) == (job, allocation) => match held.phase {
                Phase::Inactive | Phase::Active => Ok(Allocated::Already),
                Phase::Failing | Phase::Releasing => {
                    Err(AllocateError::Occupied { job, allocation })
                }
            },
            Some(held) => {
                Err(AllocateError::Occupied { job: held.job, allocation: held.allocation })
            }
            None if elsewhere => Err(AllocateError::AllocatedElsewhere(allocation)),
            None if !slot.profile.fulfils(need) => Err(AllocateError::TooSmall {
                index,
                has: Box::new(slot.profile.clone()),
                need: Box::new(need.clone()),
            }),
            None => {
                let phase = Phase::Inactive;
                slot.held = Some(Held { job, allocation, phase, since: now });
                self.by_allocation.insert(allocation, at);
                Ok(Allocated::New)
            }
        }
    }

    /// The allocated slot.
    pub fn get(&self, allocation: AllocationId) -> Option<Held> {
        let at = *self.by_allocation.get(&allocation)?;
        self.slots.get(at)?.held
    }

    /// The index of an allocated slot.
    pub fn index_of(&self, allocation: AllocationId) -> Option<u32> {
        u32::try_from(*self.by_allocation.get(&allocation)?).ok()
    }

    /// Moves an allocated slot into another phase; its time there starts now. Whether there is one.
    pub fn set_phase(&mut self, now: Duration, allocation: AllocationId, phase: Phase) -> bool {
        let at = self.by_allocation.get(&allocation).copied();
        let held = at.and_then(|at| self.slots.get_mut(at)?.held.as_mut());
        match held {
            Some(held) => {
                held.phase = phase;
                held.since = now;
                true
            }
            None => false,
        }
    }

    /// Frees a slot, whatever its phase.
    pub fn free(&mut self, allocation: AllocationId) -> Option<Freed> {
        let at = self.by_allocation.remove(&allocation)?;
        let held = self.slots.get_mut(at)?.held.take();
        debug_assert_eq!(held.map(|held| held.allocation), Some(allocation), "of slot {at}");
        let held = held?;
        Some(Freed { index: u32::try_from(at).ok()?, job: held.job, allocation })
    }

    /// The slots of a job, by index.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = Held> {
        self.held().filter(move |held| held.job == job)
    }

    /// Those slots of a job that no JobMaster has accepted, as offers.
    pub fn offers(&self, job: JobId) -> Vec<SlotOffer> {
        let slots = (0u32..).zip(&self.slots);
        slots
            .filter_map(|(index, slot)| {
                let held = slot.held.filter(|h| h.job == job && h.phase == Phase::Inactive)?;
                Some(SlotOffer {
                    allocation_id: held.allocation,
                    index,
                    profile: slot.profile.clone(),
                })
            })
            .collect()
    }

    /// All allocated slots, by index.
    pub fn held(&self) -> impl Iterator<Item = Held> {
        self.slots.iter().filter_map(|slot| slot.held)
    }

    /// Every slot as the ResourceManager is told of it.
    pub fn report(&self) -> SlotReport {
        let slots = (0u32..).zip(&self.slots).map(|(index, slot)| SlotStatus {
            slot_id: SlotId { resource_id: self.resource_id.clone(), index },
            profile: slot.profile.clone(),
            allocation: slot
                .held
                .map(|held| SlotAllocation { job_id: held.job, allocation_id: held.allocation }),
        });
        SlotReport { slots: slots.collect() }
    }
}
