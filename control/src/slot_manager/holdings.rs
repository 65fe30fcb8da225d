//! The slots that each job holds, and which of them other jobs could use. This module must never decide which job gets
//! a slot.

use super::counts::Counts;
use super::task_managers::{Slot, SlotState};
use model::{InstanceId, JobId};
use std::collections::{BTreeMap, BTreeSet};

/// The slots of all jobs.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    by_job: BTreeMap<JobId, Held>,
    /// Jobs whose entry has changed since the last call of [`Holdings::take_touched`].
    touched: BTreeSet<JobId>,
}

/// The slots of one job.
#[derive(Debug, Default)]
pub(super) struct Held {
    slots: BTreeMap<InstanceId, BTreeSet<u32>>,
    /// All slots that the job holds.
    pub(super) all: Counts,
    /// The job's slots on usable TaskManagers.
    pub(super) usable: Counts,
    /// The job's slots on usable TaskManagers that a TaskExecutor has allocated to it; pending ones do not count.
    pub(super) given: Counts,
}

impl Holdings {
    /// Returns the slots of a job; `None` if it holds none.
    pub(super) fn of(&self, job: JobId) -> Option<&Held> {
        self.by_job.get(&job)
    }

    /// Returns the TaskManager and index of each slot of a job, ascending.
    pub(super) fn slots_of(&self, job: JobId) -> impl Iterator<Item = (InstanceId, u32)> {
        let task_managers = self.by_job.get(&job).into_iter().flat_map(|held| &held.slots);
        task_managers
            .flat_map(|(instance, slots)| slots.iter().map(move |index| (*instance, *index)))
    }

    /// Returns the TaskManagers on which a job holds slots, ascending, and the number of its slots on each.
    pub(super) fn task_managers_of(&self, job: JobId) -> impl Iterator<Item = (InstanceId, usize)> {
        let task_managers = self.by_job.get(&job).into_iter().flat_map(|held| &held.slots);
        task_managers.map(|(instance, slots)| (*instance, slots.len()))
    }

    /// Returns the jobs whose slots have changed since the last call.
    pub(super) fn take_touched(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.touched)
    }

    /// Adds a slot to the job that holds it; does nothing if no job holds it.
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

    /// Removes a slot from the job that holds it; does nothing if no job holds it.
    pub(super) fn drop_slot(&mut self, place: (InstanceId, u32), slot: &Slot, usable: bool) {
        let Some(holder) = slot.state.holder() else {
            return;
        };
        let Some(held) = self.by_job.get_mut(&holder.job_id) else {
            debug_assert!(false, "a slot of job {} was not counted", holder.job_id);
            return;
        };
        if let Some(on_task_manager) = held.slots.get_mut(&place.0) {
            on_task_manager.remove(&place.1);
            if on_task_manager.is_empty() {
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

    /// Records that a slot's TaskManager has become usable or unusable.
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
