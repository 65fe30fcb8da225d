//! What each job holds, and what of it others could use. It must never decide who gets what.

use super::counts::Counts;
use super::workers::{Slot, SlotState};
use model::{InstanceId, JobId};
use std::collections::{BTreeMap, BTreeSet};

/// The slots of all jobs.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    by_job: BTreeMap<JobId, Held>,
    /// Jobs whose entry changed since that was last asked.
    touched: BTreeSet<JobId>,
}

/// The slots of one job.
#[derive(Debug, Default)]
pub(super) struct Held {
    slots: BTreeMap<InstanceId, BTreeSet<u32>>,
    /// All of them.
    pub(super) all: Counts,
    /// Those on usable workers.
    pub(super) usable: Counts,
    /// Those on usable workers that their TaskExecutor has given.
    pub(super) given: Counts,
}

impl Holdings {
    /// Returns the slots of a job; `None`: it holds none.
    pub(super) fn of(&self, job: JobId) -> Option<&Held> {
        self.by_job.get(&job)
    }

    /// Returns where the slots of a job are, workers in order.
    pub(super) fn slots_of(&self, job: JobId) -> impl Iterator<Item = (InstanceId, u32)> {
        let workers = self.by_job.get(&job).into_iter().flat_map(|held| &held.slots);
        workers.flat_map(|(instance, slots)| slots.iter().map(move |index| (*instance, *index)))
    }

    /// Returns the workers that a job holds slots of, in order, and how many.
    pub(super) fn workers_of(&self, job: JobId) -> impl Iterator<Item = (InstanceId, usize)> {
        let workers = self.by_job.get(&job).into_iter().flat_map(|held| &held.slots);
        workers.map(|(instance, slots)| (*instance, slots.len()))
    }

    /// Returns the jobs whose slots changed since this was last called.
    pub(super) fn take_touched(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.touched)
    }

    /// Counts a slot for the job that holds it; without a holder nothing changes.
    pub(super) fn add_slot(&mut self, place: (InstanceId, u32), slot: &Slot, usable: bool) {
        let Some(holder) = slot.state.holder() else {
            return;
        };
        let held = self.by_job.entry(holder.job_id).or_default();
        held.slots.entry(place.0).or_default().insert(place.1);
        held.all.add(&slot.profile, 1);
        if usable {
            held.count_usable(slot, true);
        }
        self.touched.insert(holder.job_id);
    }

    /// Counts a slot no longer for the job that holds it; without a holder nothing changes.
    pub(super) fn drop_slot(&mut self, place: (InstanceId, u32), slot: &Slot, usable: bool) {
        let Some(holder) = slot.state.holder() else {
            return;
        };
        let Some(held) = self.by_job.get_mut(&holder.job_id) else {
            debug_assert!(false, "a slot of job {} was not counted", holder.job_id);
            return;
        };
        if let Some(on_worker) = held.slots.get_mut(&place.0) {
            on_worker.remove(&place.1);
            if on_worker.is_empty() {
                held.slots.remove(&place.0);
            }
        }
        held.all.take(&slot.profile, 1);
        if usable {
            held.count_usable(slot, false);
        }
        if held.slots.is_empty() {
            debug_assert!(held.all.is_empty(), "slots are counted that nobody holds");
            self.by_job.remove(&holder.job_id);
        }
        self.touched.insert(holder.job_id);
    }

    /// Notes that a slot's worker is usable now, or is not any more.
    pub(super) fn set_usable(&mut self, slot: &Slot, usable: bool) {
        if let Some(holder) = slot.state.holder()
            && let Some(held) = self.by_job.get_mut(&holder.job_id)
        {
            held.count_usable(slot, usable);
            self.touched.insert(holder.job_id);
        }
    }
}

impl Held {
    fn count_usable(&mut self, slot: &Slot, usable: bool) {
        let given = matches!(slot.state, SlotState::Allocated(_));
        let of = [Some(&mut self.usable), given.then_some(&mut self.given)];
        for counts in of.into_iter().flatten() {
            match usable {
                true => counts.add(&slot.profile, 1),
                false => counts.take(&slot.profile, 1),
            }
        }
    }
}
