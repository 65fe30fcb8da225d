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

/// The slots of one TaskExecutor, and the allocation (job and id under which it is held) that each belongs to. A part of the TaskExecutor's
/// core, which alone changes it. Only keeps the record: starts and ends no task.
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

/// The allocation of a slot to a job, and its phase: on its way in, accepted, or on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Job that holds the slot.
    pub job: JobId,
    /// Id under which the job holds the slot, drawn by the SlotManager and passed on by the ResourceManager's request.
    pub allocation: AllocationId,
    /// Phase of the allocation: accepted by a JobMaster, waiting for one, or on its way to be freed.
    pub phase: Phase,
    /// Monotonic time at which the phase began, or was last set again.
    pub since: Duration,
}

/// The phase of an allocated slot, as its TaskExecutor sees it; decides whether tasks may be deployed into it and when it is
/// freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No JobMaster has accepted the slot, or the one that had is disconnected; the slot is freed after
    /// `taskmanager.slot.timeout`, which does not run while the job's program host is being started, and begins anew when it is up.
    Inactive,
    /// The connected JobMaster has accepted the slot, by its answer to the offer or by deploying into it; kept without a time limit.
    Active,
    /// The slot's program host (the process that runs the job's tasks) has ended, is being killed or could not be started; the slot is
    /// freed once the JobMaster has confirmed the report of that or is disconnected, or after `taskmanager.slot.timeout`.
    Failing,
    /// The slot was given back, but tasks in it still run; it is freed when they have ended, or at once if their host ends or the
    /// JobMaster is disconnected. If they have not ended within the TaskExecutor's release time-out, their host is killed.
    Releasing,
}

/// The result of a successful [`SlotTable::allocate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocated {
    /// The slot was free and is allocated now, in phase [`Phase::Inactive`].
    New,
    /// The slot had this allocation already, because the request was repeated; nothing has changed.
    Already,
}

/// The reason why [`SlotTable::allocate`] gave no slot (there is none of that index, it or the allocation is taken, or it is too small);
/// nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AllocateError {
    /// The table has no slot of that index.
    #[error("there is no slot {0}")]
    NoSuchSlot(u32),
    /// The slot belongs to another allocation, or to this one but is lost or being given back.
    #[error("the slot belongs to job {job}")]
    Occupied {
        /// Job that has the slot now.
        job: JobId,
        /// Allocation that has the slot now.
        allocation: AllocationId,
    },
    /// The slot that was asked for is free, but the allocation already has another slot of this TaskExecutor.
    #[error("allocation {0} has another slot here")]
    AllocatedElsewhere(AllocationId),
    /// The slot is free, but offers less of some resource than is needed.
    #[error("slot {index} has {has}, {need} is needed")]
    TooSmall {
        /// Index of the slot in its TaskExecutor.
        index: u32,
        /// Profile that the slot has.
        has: Box<ResourceProfile>,
        /// Profile that the slot must fulfil.
        need: Box<ResourceProfile>,
    },
}

/// A slot that has become free, as [`SlotTable::free`] returns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    /// Index of the slot, from 0.
    pub index: u32,
    /// The job that had the slot.
    pub job: JobId,
    /// The allocation under which the job had the slot, which has ended.
    pub allocation: AllocationId,
}

impl SlotTable {
    /// Makes a table with one free slot for each profile, indexed from 0.
    pub fn new(resource_id: ResourceId, profiles: Vec<ResourceProfile>) -> Self {
        let slots = profiles.into_iter().map(|profile| Slot { profile, held: None });
        Self { resource_id, slots: slots.collect(), by_allocation: BTreeMap::new() }
    }

    /// Gives the free slot of this index to an allocation, in phase [`Phase::Inactive`] from `now` (monotonic) on. If the slot
    /// has this allocation already and is not on its way out, nothing changes and [`Allocated::Already`] is returned.
    ///
    /// # Errors
    ///
    /// Returns [`AllocateError`], without a change, if there is no such slot, it or the allocation is taken, or it does not
    /// fulfil `need`.
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

    /// Returns the allocation's record (job, phase and since when); `None` if no slot has this allocation.
    pub fn get(&self, allocation: AllocationId) -> Option<Held> {
        let at = *self.by_allocation.get(&allocation)?;
        self.slots.get(at)?.held
    }

    /// Returns the index of the slot that has this allocation; `None` if none has.
    pub fn index_of(&self, allocation: AllocationId) -> Option<u32> {
        u32::try_from(*self.by_allocation.get(&allocation)?).ok()
    }

    /// Sets the phase of an allocated slot, whichever it has (also to the same one); its time in that phase starts at `now`
    /// (monotonic). Returns false, without a change, if no slot has this allocation.
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

    /// Frees the slot of an allocation at once, whatever its phase, and returns it; `None` if no slot has this allocation.
    pub fn free(&mut self, allocation: AllocationId) -> Option<Freed> {
        let at = self.by_allocation.remove(&allocation)?;
        let held = self.slots.get_mut(at)?.held.take();
        debug_assert_eq!(held.map(|held| held.allocation), Some(allocation), "of slot {at}");
        let held = held?;
        Some(Freed { index: u32::try_from(at).ok()?, job: held.job, allocation })
    }

    /// Iterates over the slots that are allocated to a job, by index.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = Held> {
        self.held().filter(move |held| held.job == job)
    }

    /// Returns the slots of the job that no JobMaster has accepted ([`Phase::Inactive`]), as offers, by index.
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

    /// Iterates over all allocated slots, by index.
    pub fn held(&self) -> impl Iterator<Item = Held> {
        self.slots.iter().filter_map(|slot| slot.held)
    }

    /// Returns the state of every slot (free, or its job and allocation), as the ResourceManager receives it.
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
