//! The free slots of usable TaskManagers, by profile and by the number of used slots of their TaskManager, so that the slots for
//! a requirement are found without looking at the others; and the idle TaskManagers. This module must never offer a slot of
//! a TaskManager that is being released or whose node is blocked.

use super::counts::Counts;
use super::task_managers::{Slot, SlotState, TaskManager};
use model::{InstanceId, ResourceProfile};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

/// Usable TaskManagers with free slots of one profile, as (used slots of the TaskManager, TaskManager).
type Shelf = BTreeSet<(u32, InstanceId)>;

/// The slots that can be given to jobs.
#[derive(Debug)]
pub(super) struct Shelves {
    pending_is_taken: bool,
    by_profile: BTreeMap<ResourceProfile, Shelf>,
    /// Free slots of usable TaskManagers.
    free: Counts,
    /// All slots of usable TaskManagers.
    usable: Counts,
    /// TaskManagers that hold no job's slot and are not being released, the longest idle first.
    idle: BTreeSet<(Duration, InstanceId)>,
    /// Number of idle TaskManagers that are usable.
    idle_usable: u32,
    /// True if slots of usable TaskManagers were lost since the last call of [`Shelves::take_shrunk`].
    shrunk: bool,
}

impl Shelves {
    /// Returns empty shelves; see [`super::task_managers::TaskManagers::new`] for `pending_is_taken`.
    pub(super) fn new(pending_is_taken: bool) -> Self {
        Self {
            pending_is_taken,
            by_profile: BTreeMap::new(),
            free: Counts::default(),
            usable: Counts::default(),
            idle: BTreeSet::new(),
            idle_usable: 0,
            shrunk: false,
        }
    }

    /// Returns the free slots of usable TaskManagers.
    pub(super) fn free(&self) -> &Counts {
        &self.free
    }

    /// Returns all slots of usable TaskManagers, held or free.
    pub(super) fn usable(&self) -> &Counts {
        &self.usable
    }

    /// Returns the idle TaskManagers, longest idle first.
    pub(super) fn idle(&self) -> impl Iterator<Item = (Duration, InstanceId)> {
        self.idle.iter().copied()
    }

    /// Returns the number of idle TaskManagers and the number of usable ones among them.
    pub(super) fn idle_counts(&self) -> (usize, u32) {
        (self.idle.len(), self.idle_usable)
    }

    /// Returns true if usable slots were lost since the last call.
    pub(super) fn take_shrunk(&mut self) -> bool {
        std::mem::take(&mut self.shrunk)
    }

    /// Records that slots of usable TaskManagers were lost.
    pub(super) fn shrinks(&mut self) {
        self.shrunk = true;
    }

    /// Returns true if a slot may be given to a job.
    pub(super) fn is_free(&self, slot: &Slot) -> bool {
        match slot.state {
            SlotState::Free => true,
            SlotState::Pending(_) => !self.pending_is_taken,
            SlotState::Allocated(_) | SlotState::Unknown => false,
        }
    }

    /// Returns the profiles of free slots that fulfil `need`, the least demanding first.
    pub(super) fn fulfilling(
        &self,
        need: &ResourceProfile,
    ) -> impl Iterator<Item = (&ResourceProfile, &Shelf)> {
        self.by_profile.iter().filter(|(profile, _)| profile.fulfils(need))
    }

    /// Removes a TaskManager that is about to change; the caller then calls [`Shelves::put`] with the changed TaskManager.
    pub(super) fn take(&mut self, instance: InstanceId, task_manager: &TaskManager) {
        self.place(instance, task_manager, false);
    }

    /// Inserts a TaskManager.
    pub(super) fn put(&mut self, instance: InstanceId, task_manager: &TaskManager) {
        self.place(instance, task_manager, true);
    }

    fn place(&mut self, instance: InstanceId, task_manager: &TaskManager, put: bool) {
        if let Some(since) = task_manager.idle_since.filter(|_| !task_manager.releasing) {
            let changed = match put {
                true => self.idle.insert((since, instance)),
                false => self.idle.remove(&(since, instance)),
            };
            debug_assert!(changed, "TaskManager {instance} is idle twice, or was not");
            let usable = u32::from(task_manager.usable());
            self.idle_usable =
                if put { self.idle_usable + usable } else { self.idle_usable - usable };
        }
        if !task_manager.usable() {
            return;
        }
        // Nearly always one profile, because the slots of a TaskManager are equal.
        let mut profiles: Vec<(&ResourceProfile, u32, u32)> = Vec::new();
        for slot in task_manager.slots.values() {
            let free = u32::from(self.is_free(slot));
            match profiles.iter_mut().find(|(profile, _, _)| **profile == slot.profile) {
                Some((_, slots, of_them)) => (*slots, *of_them) = (*slots + 1, *of_them + free),
                None => profiles.push((&slot.profile, 1, free)),
            }
        }
        for (profile, slots, free) in profiles {
            if put {
                self.usable.add(profile, slots);
                self.free.add(profile, free);
            } else {
                self.usable.take(profile, slots);
                self.free.take(profile, free);
            }
            if free > 0 {
                self.shelve((task_manager.used(), instance), profile, put);
            }
        }
    }

    fn shelve(&mut self, task_manager: (u32, InstanceId), profile: &ResourceProfile, put: bool) {
        match self.by_profile.get_mut(profile) {
            Some(shelf) if put => drop(shelf.insert(task_manager)),
            None if put => {
                self.by_profile.insert(profile.clone(), Shelf::from([task_manager]));
            }
            Some(shelf) => {
                shelf.remove(&task_manager);
                if shelf.is_empty() {
                    self.by_profile.remove(profile);
                }
            }
            None => debug_assert!(false, "there is no shelf for {profile}"),
        }
    }
}

/// Returns the TaskManagers of a shelf in descending order of their used slots; equally used TaskManagers come in ascending
/// order.
pub(super) fn most_used_first(shelf: &Shelf) -> impl Iterator<Item = InstanceId> + '_ {
    let highest = shelf.last().map(|(used, _)| *used);
    let levels = std::iter::successors(highest, |used| {
        shelf.range(..(*used, InstanceId(0))).next_back().map(|(used, _)| *used)
    });
    levels.flat_map(|used| {
        let from = Bound::Included((used, InstanceId(0)));
        let to = Bound::Included((used, InstanceId(u128::MAX)));
        shelf.range((from, to)).map(|(_, instance)| *instance)
    })
}
