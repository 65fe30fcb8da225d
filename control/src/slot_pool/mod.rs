//! The slot pool of one job: which TaskExecutors are registered, which of their slots it holds, and which
//! shared slot each of them serves. It must never give one slot to two shared slots, nor keep a slot that
//! nothing needs.

#[cfg(test)]
mod tests;

use crate::execution_graph::{Placement, TaskManager};
use crate::scheduler::{SharedSlot, SlotPlan};
use model::job::SlotOffer;
use model::{AllocationId, InstanceId, ResourceId, ResourceProfile, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A slot of a TaskExecutor that the job holds: the TaskExecutor offered it and the job accepted.
#[derive(Debug, Clone)]
pub struct HeldSlot {
    /// TaskExecutor, as it registered at the job, that the slot is on.
    pub task_manager: Arc<TaskManager>,
    /// Resources that the slot offers; they may exceed those that the shared slot which it serves needs.
    pub profile: ResourceProfile,
    data_address: Arc<str>,
    serves: SharedSlot,
    /// True if tasks were deployed into the slot and have not all ended, so that it can't serve anything else.
    in_use: bool,
    /// Reports in a row in which its TaskExecutor did not list it.
    missed: u8,
}

#[derive(Debug, Clone)]
struct Registered {
    task_manager: Arc<TaskManager>,
    allocations: BTreeSet<AllocationId>,
}

/// The state of one slot sharing group.
#[derive(Debug, Clone)]
struct GroupState {
    profile: ResourceProfile,
    /// The group's shared slots that no held slot serves although something is to run there, lowest
    /// first.
    missing: BTreeSet<u32>,
    /// The group's shared slots in which everything has finished.
    retired: BTreeSet<u32>,
    slots: u32,
}

/// The result of [`SlotPool::register`], the registration of a TaskExecutor at the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registration {
    /// The TaskExecutor was not registered before.
    New,
    /// The TaskExecutor was registered before under the same instance id; nothing has changed.
    Known,
    /// The TaskExecutor was registered before under another instance id; that registration was removed with all its slots.
    Replaced {
        /// Shared slots that its slots served, and that no slot serves now.
        lost: Vec<SharedSlot>,
    },
}

/// The result of [`SlotPool::offer`], an offer of slots to the job. A shared slot is a slot that the job needs ([`SlotPlan`]);
/// a real slot of a TaskExecutor serves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The offered allocations whose slots the job holds now, including those that it held before; the TaskExecutor frees the
    /// others.
    pub accepted: Vec<AllocationId>,
    /// Shared slots that one of the job's slots serves now and that none served before.
    pub served: Vec<SharedSlot>,
    /// Shared slots whose program host (the process that runs the job's tasks on that TaskExecutor) was replaced by another:
    /// the tasks that ran there have ended.
    pub moved: Vec<SharedSlot>,
}

/// The result of [`SlotPool::retire`]: the fate of the slot that served a shared slot (a slot of the job's plan) in which
/// everything has finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retired {
    /// The slot now serves this other shared slot.
    Serves(SharedSlot),
    /// The slot with this allocation was removed from the pool; the caller has to free it at this TaskExecutor.
    Free(Arc<TaskManager>, AllocationId),
    /// No slot served the shared slot, so there is nothing to free.
    Unserved,
}

/// The slots of TaskExecutors that a job holds, which shared slot (a slot of the job's [`SlotPlan`]) each of them serves, and the
/// TaskExecutors that are registered and may offer slots. A part of the JobMaster's core, which alone makes and changes it. Frees no slot
/// at a TaskExecutor itself.
#[derive(Debug, Clone)]
pub struct SlotPool {
    groups: Vec<GroupState>,
    /// Groups, the most demanding profile first.
    by_demand: Vec<usize>,
    /// The slot that serves each shared slot.
    serving: Vec<Option<AllocationId>>,
    held: BTreeMap<AllocationId, HeldSlot>,
    task_managers: BTreeMap<ResourceId, Registered>,
}

impl SlotPool {
    /// Makes a pool without slots and TaskExecutors, in which every shared slot of the plan is missing one. All later calls
    /// must get the same plan.
    pub fn new(plan: &SlotPlan) -> Self {
        let groups: Vec<GroupState> = plan
            .groups()
            .iter()
            .map(|g| GroupState {
                profile: g.profile.clone(),
                missing: (g.first..g.first.saturating_add(g.slots)).collect(),
                retired: BTreeSet::new(),
                slots: g.slots,
            })
            .collect();
        let mut by_demand: Vec<usize> = (0..groups.len()).collect();
        by_demand.sort_by(|a, b| demand(&groups, *b).cmp(&demand(&groups, *a)));
        Self {
            groups,
            by_demand,
            serving: vec![None; plan.len() as usize],
            held: BTreeMap::new(),
            task_managers: BTreeMap::new(),
        }
    }

    /// Registers a TaskExecutor, so that it may offer slots. The same instance id again changes nothing; a registration of the
    /// same process under another instance id is removed with all its slots.
    pub fn register(&mut self, plan: &SlotPlan, task_manager: TaskManager) -> Registration {
        let found = match self.task_managers.get(&task_manager.resource_id) {
            Some(known) if known.task_manager.instance_id == task_manager.instance_id => {
                return Registration::Known;
            }
            Some(known) => Some(known.task_manager.instance_id),
            None => None,
        };
        let lost = found
            .map(|instance| self.release_task_manager(plan, &task_manager.resource_id, instance));
        let entry = Registered {
            task_manager: Arc::new(task_manager.clone()),
            allocations: BTreeSet::new(),
        };
        self.task_managers.insert(task_manager.resource_id, entry);
        match lost {
            Some(lost) => Registration::Replaced { lost },
            None => Registration::New,
        }
    }

    /// Returns the TaskExecutor if it is registered under that instance id; otherwise `None`.
    pub fn task_manager(
        &self,
        resource: &ResourceId,
        instance: InstanceId,
    ) -> Option<&Arc<TaskManager>> {
        self.current(resource, instance).map(|known| &known.task_manager)
    }

    fn current(&self, resource: &ResourceId, instance: InstanceId) -> Option<&Registered> {
        self.task_managers.get(resource).filter(|known| known.task_manager.instance_id == instance)
    }

    /// Iterates over the registered TaskExecutors.
    pub fn task_managers(&self) -> impl Iterator<Item = &Arc<TaskManager>> {
        self.task_managers.values().map(|known| &known.task_manager)
    }

    /// Takes the slots that a TaskExecutor offers, as far as they are needed; the TaskExecutor frees those that are not
    /// accepted. An idle held slot may be moved to another shared slot so that the offered one is of use. `data_address` is
    /// where the job's program host there exchanges records: offered slots that are held already, with another address, get the new
    /// one and are returned as moved. Returns `None` if the TaskExecutor is not registered under this instance id.
    pub fn offer<'a>(
        &mut self,
        plan: &SlotPlan,
        resource: &ResourceId,
        instance: InstanceId,
        offers: impl IntoIterator<Item = &'a SlotOffer>,
        data_address: &Arc<str>,
    ) -> Option<Accepted> {
        let task_manager = self.current(resource, instance)?.task_manager.clone();
        let mut answer = Accepted::default();
        for offer in offers {
            match self.held.get_mut(&offer.allocation_id) {
                Some(slot) if slot.task_manager == task_manager => {
                    slot.missed = 0;
                    if slot.data_address != *data_address {
                        slot.data_address = data_address.clone();
                        answer.moved.push(slot.serves);
                    }
                }
                Some(_) => continue,
                None => match self.take(plan, &task_manager, offer, data_address) {
                    Some(served) => answer.served.push(served),
                    None => continue,
                },
            }
            answer.accepted.push(offer.allocation_id);
        }
        Some(answer)
    }

    /// Holds a slot, if something needs it; returns the shared slot that is served with it.
    fn take(
        &mut self,
        plan: &SlotPlan,
        task_manager: &Arc<TaskManager>,
        offer: &SlotOffer,
        data_address: &Arc<str>,
    ) -> Option<SharedSlot> {
        let (serves, served) = self.find_use(plan, &offer.profile)?;
        self.serve(plan, serves, Some(offer.allocation_id));
        let slot = HeldSlot {
            task_manager: task_manager.clone(),
            profile: offer.profile.clone(),
            data_address: data_address.clone(),
            serves,
            in_use: false,
            missed: 0,
        };
        self.held.insert(offer.allocation_id, slot);
        if let Some(known) = self.task_managers.get_mut(&task_manager.resource_id) {
            known.allocations.insert(offer.allocation_id);
        }
        Some(served)
    }

    /// Finds the shared slot that a slot of this profile is to serve, and the one that gets a slot
    /// by this. Both are the same missing slot of the most demanding group that the slot can serve,
    /// if there is one. Otherwise an idle slot is moved to a missing shared slot that only it can
    /// serve, and the new slot takes its place. Returns `None` if the slot is of no use.
    fn find_use(
        &mut self,
        plan: &SlotPlan,
        profile: &ResourceProfile,
    ) -> Option<(SharedSlot, SharedSlot)> {
        if let Some(slot) = self.missing_for(profile) {
            return Some((slot, slot));
        }
        if self.groups.len() < 2 || self.is_complete() {
            return None;
        }
        self.exchange(plan, profile)
    }

    /// Returns the first missing shared slot of the most demanding group that a slot of this
    /// profile can serve.
    fn missing_for(&self, profile: &ResourceProfile) -> Option<SharedSlot> {
        let mut groups = self.by_demand.iter().filter_map(|g| self.groups.get(*g));
        let group = groups.find(|g| !g.missing.is_empty() && profile.fulfils(&g.profile))?;
        group.missing.first().copied().map(SharedSlot)
    }

    /// Moves one idle slot to a group that misses one, so that a slot of `profile` can take its place.
    fn exchange(
        &mut self,
        plan: &SlotPlan,
        profile: &ResourceProfile,
    ) -> Option<(SharedSlot, SharedSlot)> {
        let idle = self.held.iter().filter(|(_, slot)| !slot.in_use);
        let (allocation, from, to) = idle.into_iter().find_map(|(allocation, slot)| {
            let group = self.groups.get(plan.group_of(slot.serves)?)?;
            if !profile.fulfils(&group.profile) {
                return None;
            }
            let mut others = self.groups.iter().filter(|g| slot.profile.fulfils(&g.profile));
            let to = others.find_map(|g| g.missing.first().copied())?;
            Some((*allocation, slot.serves, SharedSlot(to)))
        })?;
        self.reassign(plan, allocation, to);
        Some((from, to))
    }

    fn serve(&mut self, plan: &SlotPlan, slot: SharedSlot, by: Option<AllocationId>) {
        if let Some(entry) = self.serving.get_mut(slot.0 as usize) {
            debug_assert!(by.is_none() || entry.is_none(), "{slot:?} is served twice");
            *entry = by;
        }
        let group = plan.group_of(slot).and_then(|g| self.groups.get_mut(g));
        if let Some(group) = group {
            match by {
                Some(_) => group.missing.remove(&slot.0),
                None => !group.retired.contains(&slot.0) && group.missing.insert(slot.0),
            };
        }
    }

    /// Removes a TaskExecutor with all its slots, and returns the shared slots that these served; those that are not retired
    /// are missing a slot now. Does nothing, and returns none, if the TaskExecutor is not registered under this instance id.
    pub fn release_task_manager(
        &mut self,
        plan: &SlotPlan,
        resource: &ResourceId,
        instance: InstanceId,
    ) -> Vec<SharedSlot> {
        if self.current(resource, instance).is_none() {
            return Vec::new();
        }
        let gone = self.task_managers.remove(resource);
        let allocations = gone.map(|known| known.allocations).unwrap_or_default();
        allocations.into_iter().filter_map(|a| self.release_slot(plan, a)).collect()
    }

    /// Removes a slot and returns the shared slot that it served, which is missing one now unless it is retired (all its tasks
    /// have finished); `None` if the pool does not hold the slot. The caller frees it at its TaskExecutor.
    pub fn release_slot(
        &mut self,
        plan: &SlotPlan,
        allocation: AllocationId,
    ) -> Option<SharedSlot> {
        let slot = self.held.remove(&allocation)?;
        if let Some(known) = self.task_managers.get_mut(&slot.task_manager.resource_id) {
            known.allocations.remove(&allocation);
        }
        self.serve(plan, slot.serves, None);
        Some(slot.serves)
    }

    /// Returns the place that tasks of a shared slot are deployed to: the TaskExecutor and allocation of the slot that serves
    /// it, and the address of the job's program host there; `None` if no slot serves it.
    pub fn placement(&self, slot: SharedSlot) -> Option<Placement> {
        let allocation = (*self.serving.get(slot.0 as usize)?)?;
        let held = self.held.get(&allocation)?;
        Some(Placement {
            task_manager: held.task_manager.clone(),
            allocation,
            data_address: held.data_address.clone(),
        })
    }

    /// Marks the slot that serves a shared slot as in use (tasks were deployed into it) or not (all of them have ended). A slot
    /// in use is not moved to another shared slot by an offer. Does nothing if no slot serves it.
    pub fn set_in_use(&mut self, slot: SharedSlot, in_use: bool) {
        let allocation = self.serving.get(slot.0 as usize).copied().flatten();
        if let Some(held) = allocation.and_then(|a| self.held.get_mut(&a)) {
            held.in_use = in_use;
        }
    }

    /// Counts, for each held slot on a TaskExecutor, the full reports in a row that did not list it; `listed` is what the newest
    /// report lists. An offer of the slot ends its row. Returns the slots that at least `strikes` reports in a row have not listed; the
    /// caller removes them. Empty if the TaskExecutor is not registered.
    pub fn reconcile(
        &mut self,
        resource: &ResourceId,
        listed: &BTreeSet<AllocationId>,
        strikes: u8,
    ) -> Vec<AllocationId> {
        let Some(known) = self.task_managers.get(resource) else {
            return Vec::new();
        };
        let mut gone = Vec::new();
        for allocation in &known.allocations {
            let Some(slot) = self.held.get_mut(allocation) else { continue };
            slot.missed =
                if listed.contains(allocation) { 0 } else { slot.missed.saturating_add(1) };
            if slot.missed >= strikes {
                gone.push(*allocation);
            }
        }
        gone
    }

    /// Returns true if a slot serves this shared slot.
    pub fn is_served(&self, slot: SharedSlot) -> bool {
        self.serving.get(slot.0 as usize).is_some_and(Option::is_some)
    }

    /// Returns true if every shared slot is served by a held slot or retired (everything in it has finished).
    pub fn is_complete(&self) -> bool {
        self.groups.iter().all(|g| g.missing.is_empty())
    }

    /// Returns the number of slots that the pool holds.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns true if the pool holds no slot.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Records that everything in a shared slot has finished, so that it needs no slot any more (it is retired). If `pass_on`
    /// is true, the slot that served it serves a shared slot that is missing one, if it fits one; otherwise the slot is removed
    /// from the pool and the caller has to free it.
    pub fn retire(&mut self, plan: &SlotPlan, slot: SharedSlot, pass_on: bool) -> Retired {
        if let Some(group) = plan.group_of(slot).and_then(|g| self.groups.get_mut(g)) {
            group.retired.insert(slot.0);
            group.missing.remove(&slot.0);
        }
        let allocation = self.serving.get(slot.0 as usize).copied().flatten();
        let Some((allocation, held)) = allocation.and_then(|a| Some((a, self.held.get_mut(&a)?)))
        else {
            return Retired::Unserved;
        };
        held.in_use = false;
        let (task_manager, profile) = (held.task_manager.clone(), held.profile.clone());
        match self.missing_for(&profile).filter(|_| pass_on) {
            Some(to) => {
                self.reassign(plan, allocation, to);
                Retired::Serves(to)
            }
            None => {
                self.release_slot(plan, allocation);
                Retired::Free(task_manager, allocation)
            }
        }
    }

    /// Makes a held slot, in which nothing runs, serve the shared slot `to`, which no slot serves and whose profile it fulfils (the
    /// caller's duty). The shared slot that it served is missing one then, unless it is retired (everything in it has finished). Does
    /// nothing if the slot is not held.
    pub fn reassign(&mut self, plan: &SlotPlan, allocation: AllocationId, to: SharedSlot) {
        let Some(held) = self.held.get_mut(&allocation) else {
            return;
        };
        let from = std::mem::replace(&mut held.serves, to);
        held.in_use = false;
        self.serve(plan, from, None);
        self.serve(plan, to, Some(allocation));
    }

    /// Records that a shared slot that was retired ([`SlotPool::retire`]) is needed again, because its tasks restart, and is
    /// missing a slot; does nothing if it is not retired.
    pub fn revive(&mut self, plan: &SlotPlan, slot: SharedSlot) {
        let group = plan.group_of(slot).and_then(|g| self.groups.get_mut(g));
        if let Some(group) = group
            && group.retired.remove(&slot.0)
        {
            group.missing.insert(slot.0);
        }
    }

    /// Returns the slots that the job needs for all that has not finished, held or not, as the job declares them to the
    /// ResourceManager: whole amounts, one entry per profile (of 0 slots if all that needs the profile has finished), ordered by profile.
    pub fn requirements(&self) -> Vec<ResourceRequirement> {
        let mut by_profile: BTreeMap<&ResourceProfile, u32> = BTreeMap::new();
        for group in &self.groups {
            let retired = u32::try_from(group.retired.len()).unwrap_or(u32::MAX);
            debug_assert!(retired <= group.slots, "{retired} of {} slots are retired", group.slots);
            let slots = by_profile.entry(&group.profile).or_default();
            *slots = slots.saturating_add(group.slots.saturating_sub(retired));
        }
        by_profile
            .into_iter()
            .map(|(profile, slots)| ResourceRequirement { profile: profile.clone(), slots })
            .collect()
    }

    /// Iterates over all held slots, with the shared slot that each serves and its allocation, ordered by allocation.
    pub fn slots(&self) -> impl Iterator<Item = (SharedSlot, AllocationId, &HeldSlot)> {
        self.held.iter().map(|(allocation, slot)| (slot.serves, *allocation, slot))
    }

    /// Iterates over the held slots of a TaskExecutor with the shared slots that they serve, by ascending allocation id.
    pub fn slots_on(
        &self,
        resource: &ResourceId,
    ) -> impl Iterator<Item = (AllocationId, SharedSlot)> {
        let known = self.task_managers.get(resource);
        known
            .into_iter()
            .flat_map(|known| &known.allocations)
            .filter_map(|a| Some((*a, self.held.get(a)?.serves)))
    }

    /// Returns true if the pool holds the slot of this allocation on the TaskExecutor with this resource id.
    pub fn holds(&self, resource: &ResourceId, allocation: AllocationId) -> bool {
        self.task_managers
            .get(resource)
            .is_some_and(|known| known.allocations.contains(&allocation))
    }
}

fn demand(groups: &[GroupState], group: usize) -> Option<&ResourceProfile> {
    groups.get(group).map(|g| &g.profile)
}
