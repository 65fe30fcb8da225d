//! The registered workers and the states of their slots, with an index of who holds what.
//!
//! A TaskExecutor is the truth about its slots; this is what is known of it. Nothing here decides whom
//! a slot is given to.

use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, ResourceId, ResourceProfile, SlotReport, WorkerResourceSpec,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is known of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Nobody's.
    Free,
    /// Requested from its TaskExecutor, not answered yet.
    Pending(SlotAllocation),
    /// Its TaskExecutor gave it to a job.
    Allocated(SlotAllocation),
    /// A request for it came to nothing that is known; the next report tells.
    Unknown,
}

impl SlotState {
    /// Whom it is held by.
    pub fn holder(&self) -> Option<SlotAllocation> {
        match self {
            Self::Pending(held) | Self::Allocated(held) => Some(*held),
            Self::Free | Self::Unknown => None,
        }
    }
}

/// One slot.
#[derive(Debug, Clone)]
pub struct Slot {
    /// What it offers.
    pub profile: ResourceProfile,
    /// Its state.
    pub state: SlotState,
    /// When its TaskExecutor last answered about it: older reports may still be under way.
    pub settled_at: Duration,
}

/// A worker as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorker {
    /// Its incarnation.
    pub instance_id: InstanceId,
    /// The process.
    pub resource_id: ResourceId,
    /// Node.
    pub host: String,
    /// What it is made of.
    pub spec: WorkerResourceSpec,
    /// Its slots.
    pub report: SlotReport,
}

/// One registered worker.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The process.
    pub resource_id: ResourceId,
    /// Node.
    pub host: String,
    /// What it is made of.
    pub spec: WorkerResourceSpec,
    /// By index.
    pub slots: BTreeMap<u32, Slot>,
    /// Since when every slot is free.
    pub idle_since: Option<Duration>,
    /// Whether it is being released: nothing new goes there.
    pub releasing: bool,
}

impl Worker {
    /// Its free slots.
    pub fn free(&self) -> impl Iterator<Item = (u32, &Slot)> {
        self.slots
            .iter()
            .filter(|(_, slot)| slot.state == SlotState::Free)
            .map(|(index, slot)| (*index, slot))
    }
}

/// All workers.
#[derive(Debug, Default)]
pub struct Workers {
    all: BTreeMap<InstanceId, Worker>,
    by_resource: BTreeMap<ResourceId, InstanceId>,
    held: BTreeMap<JobId, BTreeSet<(InstanceId, u32)>>,
    /// Kept up to date with every change: they are asked for several times a second.
    slots: u32,
    free: u32,
}

impl Workers {
    /// Every worker.
    pub fn iter(&self) -> impl Iterator<Item = (&InstanceId, &Worker)> {
        self.all.iter()
    }

    /// How many workers, slots, and free slots there are.
    pub fn totals(&self) -> (u32, u32, u32) {
        (u32::try_from(self.all.len()).unwrap_or(u32::MAX), self.slots, self.free)
    }

    /// One worker.
    pub fn get(&self, instance_id: InstanceId) -> Option<&Worker> {
        self.all.get(&instance_id)
    }

    /// The slots that `job` holds: allocated, or requested for it.
    pub fn held_by(&self, job: JobId) -> impl Iterator<Item = (InstanceId, u32, &Slot)> {
        let held = self.held.get(&job).into_iter().flatten();
        held.filter_map(|(instance, index)| {
            let slot = self.all.get(instance)?.slots.get(index)?;
            Some((*instance, *index, slot))
        })
    }

    /// Adds a worker; an earlier incarnation of the same process goes.
    pub fn add(&mut self, now: Duration, worker: NewWorker) {
        if let Some(earlier) = self.by_resource.get(&worker.resource_id).copied() {
            self.remove(earlier);
        }
        let id = worker.instance_id;
        self.by_resource.insert(worker.resource_id.clone(), id);
        self.all.insert(
            id,
            Worker {
                resource_id: worker.resource_id,
                host: worker.host,
                spec: worker.spec,
                slots: BTreeMap::new(),
                idle_since: Some(now),
                releasing: false,
            },
        );
        self.reconcile(now, id, worker.report, Duration::ZERO);
    }

    /// Removes a worker and everything held on it.
    pub fn remove(&mut self, instance_id: InstanceId) -> Option<Worker> {
        let worker = self.all.remove(&instance_id)?;
        if self.by_resource.get(&worker.resource_id) == Some(&instance_id) {
            self.by_resource.remove(&worker.resource_id);
        }
        for (index, slot) in &worker.slots {
            self.slots = self.slots.saturating_sub(1);
            self.free = self.free.saturating_sub(u32::from(slot.state == SlotState::Free));
            self.unlink(instance_id, *index, slot.state);
        }
        Some(worker)
    }

    /// Marks a worker as being released.
    pub fn release(&mut self, instance_id: InstanceId) {
        if let Some(worker) = self.all.get_mut(&instance_id) {
            worker.releasing = true;
        }
    }

    /// Sets a slot's state as its TaskExecutor answered, or as it was requested. Answers whether there is
    /// such a slot.
    pub fn set(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        index: u32,
        state: SlotState,
    ) -> bool {
        let Some(worker) = self.all.get_mut(&instance_id) else {
            return false;
        };
        let Some(slot) = worker.slots.get_mut(&index) else {
            return false;
        };
        let before = std::mem::replace(&mut slot.state, state);
        slot.settled_at = now;
        self.free = self.free.saturating_sub(u32::from(before == SlotState::Free));
        self.free += u32::from(state == SlotState::Free);
        let idle = worker.slots.values().all(|slot| slot.state == SlotState::Free);
        worker.idle_since = idle.then(|| worker.idle_since.unwrap_or(now));
        self.unlink(instance_id, index, before);
        if let Some(holder) = state.holder() {
            self.held.entry(holder.job_id).or_default().insert((instance_id, index));
        }
        true
    }

    /// The state of a slot.
    pub fn state(&self, instance_id: InstanceId, index: u32) -> Option<SlotState> {
        Some(self.all.get(&instance_id)?.slots.get(&index)?.state)
    }

    /// Whether a slot is held under this allocation.
    pub fn is_held_under(&self, instance_id: InstanceId, index: u32, of: AllocationId) -> bool {
        self.state(instance_id, index)
            .and_then(|state| state.holder())
            .is_some_and(|held| held.allocation_id == of)
    }

    /// Takes a full report. What a TaskExecutor answered less than `settle` ago stands against it (the
    /// report may have been made before), and so does a request that is still under way. Answers whether
    /// anything changed.
    pub fn reconcile(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        report: SlotReport,
        settle: Duration,
    ) -> bool {
        let mut changed = false;
        for status in report.slots {
            let Some(worker) = self.all.get_mut(&instance_id) else {
                return false;
            };
            let index = status.slot_id.index;
            let slot = worker.slots.entry(index).or_insert_with(|| {
                changed = true;
                self.slots += 1;
                self.free += 1;
                Slot {
                    profile: status.profile,
                    state: SlotState::Free,
                    settled_at: now.saturating_sub(settle),
                }
            });
            let fresh = now.saturating_sub(slot.settled_at) < settle;
            let pending = matches!(slot.state, SlotState::Pending(_));
            let reported = match status.allocation {
                Some(held) => SlotState::Allocated(held),
                None => SlotState::Free,
            };
            if slot.state != reported && !fresh && !pending {
                changed |= self.set(now, instance_id, index, reported);
            }
        }
        changed
    }

    fn unlink(&mut self, instance_id: InstanceId, index: u32, state: SlotState) {
        if let Some(holder) = state.holder()
            && let Some(held) = self.held.get_mut(&holder.job_id)
        {
            held.remove(&(instance_id, index));
            if held.is_empty() {
                self.held.remove(&holder.job_id);
            }
        }
    }
}
