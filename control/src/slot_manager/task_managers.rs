//! The registered TaskManagers and the states of their slots. Every change updates the counts and indexes of `Shelves` and
//! `Holdings`, so that nothing has to be counted later.
//!
//! A TaskExecutor is the authority on its slots; this module keeps what the SlotManager knows of them. It must never
//! decide which job a slot is given to.

use super::holdings::Holdings;
use super::shelves::Shelves;
use model::slots::SlotAllocation;
use model::{
    AllocationId, InstanceId, JobId, ResourceId, ResourceProfile, SlotReport, WorkerResourceSpec,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The state of a slot as the SlotManager knows it; the TaskExecutor's own view may be newer. A `Pending` or `Allocated` slot counts as
/// held by its job; only a `Free` one is given to a job, an `Unknown` one to none before a later report tells its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// No job holds the slot. The next check may request it for one, unless the TaskManager is being released or its node is blocked.
    Free,
    /// The slot is requested from its TaskExecutor, which has not answered yet. It counts as held by the job, and reports do not change it;
    /// only the answer (or the request's failure) or a notice that the slot is free does.
    Pending(SlotAllocation),
    /// The TaskExecutor has said, by its answer or in a report, that it has allocated the slot to this job, which the SlotManager may not
    /// know (any more).
    Allocated(SlotAllocation),
    /// A request for the slot ended without a known holder ([`Refusal::NotKnown`](super::Refusal::NotKnown)). The first report after
    /// [`Settings::settle`](super::Settings::settle) tells the state; until then no job holds the slot and none gets it.
    Unknown,
}

impl SlotState {
    /// Returns the allocation that holds the slot, granted or pending; `None` if the slot is free or its state is unknown.
    pub fn holder(&self) -> Option<SlotAllocation> {
        match self {
            Self::Pending(held) | Self::Allocated(held) => Some(*held),
            Self::Free | Self::Unknown => None,
        }
    }
}

/// One slot of a TaskManager as the SlotManager knows it: what it offers, who holds it, and how fresh that knowledge is. Its
/// index is its key in [`TaskManager::slots`].
#[derive(Debug, Clone)]
pub struct Slot {
    /// The resources that the slot offers; a job's requirement is compared with them.
    pub profile: ResourceProfile,
    /// State of the slot: free, requested for a job and not answered yet, allocated to a job, or unknown until a later report.
    pub state: SlotState,
    /// Time (monotonic) at which the slot's state was last set: by a request, an answer, a notice that it is free, or a report that added
    /// or changed it. Reports that arrive within [`Settings::settle`](super::Settings::settle) after it do not change the slot, because
    /// they may have been made before. For a free slot that a later report than the TaskManager's first has added, the time lies so far
    /// back that the next report may change it.
    pub settled_at: Duration,
}

/// A TaskExecutor that has registered and sent its first slot report. The ResourceManager hands it to
/// [`SlotManager::add_task_manager`](super::SlotManager::add_task_manager), and [`TaskManagers::add`] makes a TaskManager of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTaskManager {
    /// Id of the TaskExecutor's registration, drawn by the ResourceManager at each one; names the TaskManager from now on.
    pub instance_id: InstanceId,
    /// Resource id of the TaskExecutor's process, which stays the same when it registers again.
    pub resource_id: ResourceId,
    /// Host name of the TaskManager's node, by which nodes are blocked.
    pub host: String,
    /// Resources of the TaskManager; for a requested one, those that were requested.
    pub spec: WorkerResourceSpec,
    /// The first report of the states of the TaskManager's slots.
    pub report: SlotReport,
}

/// One registered TaskManager with its slots, as the SlotManager knows it. [`TaskManagers`] makes and changes it, and drops it when the
/// TaskExecutor is gone or registers again.
#[derive(Debug, Clone)]
pub struct TaskManager {
    /// Resource id of the TaskExecutor's process, which stays the same when it registers again.
    pub resource_id: ResourceId,
    /// Host name of the TaskManager's node, by which nodes are blocked.
    pub host: String,
    /// Resources of the whole TaskManager, all slots together.
    pub spec: WorkerResourceSpec,
    /// Slots of the TaskManager by index, from 0.
    pub slots: BTreeMap<u32, Slot>,
    /// Time (monotonic) since when every slot is free, at first that at which the TaskManager was added; `None` if some slot is requested,
    /// held or in an unknown state.
    pub idle_since: Option<Duration>,
    /// True if the TaskManager is being released (idle for too long): none of its slots is given to a job any more. Never reset; the
    /// TaskManager stays until its TaskExecutor is removed.
    pub releasing: bool,
    /// True if the TaskManager's node is blocked: no new slots on it are given to jobs, and those that jobs hold stay held. False again
    /// when the block ends.
    pub blocked: bool,
    /// Number of slots that are not free.
    occupied: u32,
    /// Number of slots that jobs hold.
    used: u32,
}

impl TaskManager {
    /// Iterates over the TaskManager's free slots with their indexes, also if the TaskManager is not [usable](TaskManager::usable).
    pub fn free(&self) -> impl Iterator<Item = (u32, &Slot)> {
        self.slots
            .iter()
            .filter(|(_, slot)| slot.state == SlotState::Free)
            .map(|(index, slot)| (*index, slot))
    }

    /// Returns true if the TaskManager's free slots may be given to jobs: it is not being released, and its node is not blocked.
    pub fn usable(&self) -> bool {
        !self.releasing && !self.blocked
    }

    /// Returns the number of the TaskManager's slots that jobs hold, those with a pending request included and those in an unknown
    /// state not.
    pub fn used(&self) -> u32 {
        self.used
    }
}

/// All registered TaskManagers and their slots, with the set of blocked nodes, as a part of the SlotManager, which alone makes and changes
/// it. Gives no slot to a job by itself and sends nothing.
#[derive(Debug)]
pub struct TaskManagers {
    all: BTreeMap<InstanceId, TaskManager>,
    by_resource: BTreeMap<ResourceId, InstanceId>,
    by_host: BTreeMap<String, BTreeSet<InstanceId>>,
    blocked_hosts: BTreeSet<String>,
    shelves: Shelves,
    holdings: Holdings,
    slots: u32,
    free: u32,
    unknown: u32,
}

impl TaskManagers {
    /// Makes an empty set. `pending_is_taken` is true in production; false only under a simulated mutation, in which slots that
    /// were already requested for a job are given again.
    pub fn new(pending_is_taken: bool) -> Self {
        Self {
            all: BTreeMap::new(),
            by_resource: BTreeMap::new(),
            by_host: BTreeMap::new(),
            blocked_hosts: BTreeSet::new(),
            shelves: Shelves::new(pending_is_taken),
            holdings: Holdings::default(),
            slots: 0,
            free: 0,
            unknown: 0,
        }
    }

    /// Iterates over all TaskManagers, by the ids of their registrations.
    pub fn iter(&self) -> impl Iterator<Item = (&InstanceId, &TaskManager)> {
        self.all.iter()
    }

    /// Returns three numbers: registered TaskManagers, their slots, and those slots that are free; TaskManagers on blocked nodes and those
    /// that are being released are included in all three.
    pub fn totals(&self) -> (u32, u32, u32) {
        (u32::try_from(self.all.len()).unwrap_or(u32::MAX), self.slots, self.free)
    }

    /// Returns the number of slots, over all TaskManagers, whose state is [`SlotState::Unknown`].
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Returns the TaskManager with this registration's id; `None` if it is not registered.
    pub fn get(&self, instance_id: InstanceId) -> Option<&TaskManager> {
        self.all.get(&instance_id)
    }

    /// Returns the index of free slots of usable TaskManagers.
    pub(super) fn shelves(&self) -> &Shelves {
        &self.shelves
    }

    /// Returns the slots that each job holds.
    pub(super) fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// Returns true if usable slots were lost since the last call.
    pub(super) fn take_shrunk(&mut self) -> bool {
        self.shelves.take_shrunk()
    }

    /// Returns the jobs whose slots have changed since the last call.
    pub(super) fn take_touched(&mut self) -> BTreeSet<JobId> {
        self.holdings.take_touched()
    }

    /// Iterates over the registered TaskManagers on blocked nodes, whose free slots no job gets, by host name and instance id.
    pub fn on_blocked_hosts(&self) -> impl Iterator<Item = &TaskManager> {
        let hosts = self.blocked_hosts.iter().filter_map(|host| self.by_host.get(host));
        hosts.flatten().filter_map(|instance| self.all.get(instance))
    }

    /// Iterates over the slots that `job` holds, allocated or with a pending request, also those on blocked and releasing TaskManagers: the
    /// TaskManager's instance id, the slot's index and the slot, ordered by both. Empty for an unknown job.
    pub fn held_by(&self, job: JobId) -> impl Iterator<Item = (InstanceId, u32, &Slot)> {
        self.holdings.slots_of(job).filter_map(|(instance, index)| {
            let slot = self.all.get(&instance)?.slots.get(&index)?;
            Some((instance, index, slot))
        })
    }

    /// Adds a TaskManager, idle since `now` (monotonic), and takes over all states of its first report. An earlier registration of the same
    /// process is removed with its slots. TaskManagers on blocked nodes are added as blocked.
    pub fn add(&mut self, now: Duration, task_manager: NewTaskManager) {
        if let Some(earlier) = self.by_resource.get(&task_manager.resource_id).copied() {
            self.remove(earlier);
        }
        let id = task_manager.instance_id;
        self.by_resource.insert(task_manager.resource_id.clone(), id);
        self.by_host.entry(task_manager.host.clone()).or_default().insert(id);
        let added = TaskManager {
            resource_id: task_manager.resource_id,
            blocked: self.blocked_hosts.contains(&task_manager.host),
            host: task_manager.host,
            spec: task_manager.spec,
            slots: BTreeMap::new(),
            idle_since: Some(now),
            releasing: false,
            occupied: 0,
            used: 0,
        };
        self.shelves.put(id, &added);
        self.all.insert(id, added);
        self.reconcile(now, id, task_manager.report, Duration::ZERO);
    }

    /// Removes a TaskManager with its slots and everything held on them, and returns it; `None`, without a change, if it is not registered.
    /// Jobs miss the slots that they held there.
    pub fn remove(&mut self, instance_id: InstanceId) -> Option<TaskManager> {
        let task_manager = self.all.remove(&instance_id)?;
        self.shelves.take(instance_id, &task_manager);
        if task_manager.usable() {
            self.shelves.shrinks();
        }
        if self.by_resource.get(&task_manager.resource_id) == Some(&instance_id) {
            self.by_resource.remove(&task_manager.resource_id);
        }
        if let Some(on_host) = self.by_host.get_mut(&task_manager.host) {
            on_host.remove(&instance_id);
            if on_host.is_empty() {
                self.by_host.remove(&task_manager.host);
            }
        }
        for (index, slot) in &task_manager.slots {
            self.count(slot.state, false);
            self.holdings.drop_slot((instance_id, *index), slot, task_manager.usable());
        }
        self.slots -= u32::try_from(task_manager.slots.len()).unwrap_or(u32::MAX);
        Some(task_manager)
    }

    /// Marks a TaskManager as being released, which is never taken back: none of its slots is given to a job any more. Sends nothing;
    /// the TaskManager stays until it is removed. Does nothing if it is not registered.
    pub fn release(&mut self, instance_id: InstanceId) {
        self.change(instance_id, |task_manager| task_manager.releasing = true);
    }

    /// Replaces the set of blocked nodes: no new slots on their TaskManagers are given to jobs, and held slots stay held.
    /// TaskManagers of nodes that are no longer in the set may be used again; TaskManagers that are added later on a blocked node
    /// count as blocked, too. Host names must be spelled as the TaskManagers registered them.
    pub fn block_hosts(&mut self, hosts: BTreeSet<String>) {
        let before = std::mem::replace(&mut self.blocked_hosts, hosts);
        let changed: Vec<(InstanceId, bool)> = before
            .symmetric_difference(&self.blocked_hosts)
            .filter_map(|host| Some((self.by_host.get(host)?, self.blocked_hosts.contains(host))))
            .flat_map(|(instances, blocked)| instances.iter().map(move |id| (*id, blocked)))
            .collect();
        for (instance_id, blocked) in changed {
            self.change(instance_id, |task_manager| task_manager.blocked = blocked);
        }
    }

    /// Applies a change of the flags that make a TaskManager usable or not, and updates the indexes.
    fn change(&mut self, instance_id: InstanceId, change: impl FnOnce(&mut TaskManager)) {
        let Some(task_manager) = self.all.get_mut(&instance_id) else {
            return;
        };
        let before = task_manager.usable();
        self.shelves.take(instance_id, task_manager);
        change(task_manager);
        self.shelves.put(instance_id, task_manager);
        if before != task_manager.usable() {
            if before {
                self.shelves.shrinks();
            }
            for slot in task_manager.slots.values() {
                self.holdings.set_usable(slot, task_manager.usable());
            }
        }
    }

    /// Sets a slot's state at `now` (monotonic), as its TaskExecutor answered or as it was requested, whatever the state before, and
    /// updates the TaskManager's `idle_since`. Sends nothing; [`TaskManagers::reconcile`] leaves the slot alone for a while after. Returns
    /// false, without a change, if there is no such TaskManager or slot.
    pub fn set(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        index: u32,
        state: SlotState,
    ) -> bool {
        let Some(task_manager) = self.all.get_mut(&instance_id) else {
            return false;
        };
        if !task_manager.slots.contains_key(&index) {
            return false;
        }
        self.shelves.take(instance_id, task_manager);
        let usable = task_manager.usable();
        let mut before = SlotState::Free;
        if let Some(slot) = task_manager.slots.get_mut(&index) {
            self.holdings.drop_slot((instance_id, index), slot, usable);
            before = std::mem::replace(&mut slot.state, state);
            slot.settled_at = now;
            self.holdings.add_slot((instance_id, index), slot, usable);
        }
        task_manager.occupied -= u32::from(before != SlotState::Free);
        task_manager.occupied += u32::from(state != SlotState::Free);
        task_manager.used -= u32::from(before.holder().is_some());
        task_manager.used += u32::from(state.holder().is_some());
        let idle = task_manager.occupied == 0;
        task_manager.idle_since = idle.then(|| task_manager.idle_since.unwrap_or(now));
        self.shelves.put(instance_id, task_manager);
        self.count(before, false);
        self.count(state, true);
        true
    }

    /// Adds a slot's state to the counts, or removes it.
    fn count(&mut self, state: SlotState, added: bool) {
        let of = match state {
            SlotState::Free => &mut self.free,
            SlotState::Unknown => &mut self.unknown,
            SlotState::Pending(_) | SlotState::Allocated(_) => return,
        };
        debug_assert!(added || *of > 0, "a slot in {state:?} leaves that was not counted");
        *of = if added { *of + 1 } else { *of - 1 };
    }

    /// Returns the state of a slot; `None` if there is no such slot.
    pub fn state(&self, instance_id: InstanceId, index: u32) -> Option<SlotState> {
        Some(self.all.get(&instance_id)?.slots.get(&index)?.state)
    }

    /// Returns true if the slot is requested for, or allocated under, the allocation `of`; false, too, if there is no such slot.
    pub fn is_held_under(&self, instance_id: InstanceId, index: u32, of: AllocationId) -> bool {
        self.state(instance_id, index)
            .and_then(|state| state.holder())
            .is_some_and(|held| held.allocation_id == of)
    }

    /// Applies a TaskManager's full slot report; slots that were not known are added, and known ones that it does not list stay as they
    /// are; a known slot keeps its profile. A slot that was set less than `settle` ago or has a pending request keeps its state, because
    /// the report may have been made before. Returns true if anything changed; false, too, if the TaskManager is not registered. `now` is
    /// monotonic.
    pub fn reconcile(
        &mut self,
        now: Duration,
        instance_id: InstanceId,
        report: SlotReport,
        settle: Duration,
    ) -> bool {
        let mut changed = false;
        for status in report.slots {
            let Some(task_manager) = self.all.get_mut(&instance_id) else {
                return false;
            };
            let index = status.slot_id.index;
            if !task_manager.slots.contains_key(&index) {
                changed = true;
                self.shelves.take(instance_id, task_manager);
                let settled_at = now.saturating_sub(settle);
                let slot = Slot { profile: status.profile, state: SlotState::Free, settled_at };
                task_manager.slots.insert(index, slot);
                self.shelves.put(instance_id, task_manager);
                self.slots += 1;
                self.free += 1;
            }
            let Some(slot) = self.all.get(&instance_id).and_then(|w| w.slots.get(&index)) else {
                continue;
            };
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
}
