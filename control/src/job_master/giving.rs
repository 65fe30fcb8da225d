//! Slots that the job holds and does not need, or can't use yet: they serve its other regions, or
//! are returned. Regions that run, or that are complete and about to run, keep their slots.

use super::{Command, JobCore, Now, Phase, RegionState};
use crate::execution_graph::{TaskIndex, TaskManager};
use crate::scheduler::{RegionIndex, SharedSlot};
use crate::slot_pool::{HeldSlot, Retired};
use model::{AllocationId, ExecutionState, ResourceProfile, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Freed slots that are remembered: words about them may still be under way.
const REMEMBERED: usize = 10_000;

/// Idle slots by the shared slot that they serve, each with its allocation and profile.
type IdleSlots = BTreeMap<SharedSlot, (AllocationId, ResourceProfile)>;

impl JobCore {
    /// Reuses the slots of regions that have finished while others have not: they serve waiting
    /// regions, or are returned.
    pub(super) fn retire(&mut self, regions: &[RegionIndex], now: Now) {
        let mut freed = Vec::new();
        let mut served = Vec::new();
        let slots: Vec<SharedSlot> =
            regions.iter().flat_map(|region| self.finished_slots(*region)).collect();
        for slot in slots {
            let pass_on = self.owed == 0;
            match self.pool.retire(&self.plan, slot, pass_on) {
                Retired::Serves(to) => served.push(to),
                Retired::Free(task_manager, allocation) => {
                    // If no slot is owed, this one is returned because nothing needs it.
                    self.owed -= u32::from(!pass_on);
                    freed.push((task_manager, allocation));
                }
                Retired::Unserved => {}
            }
        }
        // Said first: else what goes back would be requested for the job again.
        self.out.push(Command::Declare(self.pool.requirements()));
        for (task_manager, allocation) in freed {
            self.free(task_manager, allocation);
        }
        let ready = self.regions_of(&served);
        self.deploy_ready(ready, now);
    }

    /// Returns the slots of regions in which no task runs. The job does not declare them again until the regions are
    /// scheduled.
    pub(super) fn give_back_idle(&mut self, regions: &[RegionIndex]) {
        let states = regions.iter().filter_map(|region| self.states.get(region.0 as usize));
        let slots: Vec<SharedSlot> = states.flat_map(|state| state.slots.iter().copied()).collect();
        let mut freed = Vec::new();
        for slot in slots.into_iter().filter(|slot| !self.is_live_in(*slot)).collect::<Vec<_>>() {
            if let Retired::Free(task_manager, allocation) =
                self.pool.retire(&self.plan, slot, false)
            {
                freed.push((task_manager, allocation));
            }
        }
        // The declaration is sent first: otherwise the ResourceManager would request the returned slots for this job
        // again.
        self.out.push(Command::Declare(self.pool.requirements()));
        for (task_manager, allocation) in freed {
            self.free(task_manager, allocation);
        }
    }

    /// Returns true if a task was deployed into the slot and has not ended.
    fn is_live_in(&self, slot: SharedSlot) -> bool {
        let live = |index: TaskIndex| {
            let state = self.exec.task(index).map(|task| task.state);
            state.is_some_and(|state| {
                !state.is_terminal()
                    && !matches!(state, ExecutionState::Created | ExecutionState::Scheduled)
            })
        };
        self.plan.tasks_in(&self.exec, slot).any(live)
    }

    /// Returns a region's slots in which everything has finished.
    fn finished_slots(&self, region: RegionIndex) -> Vec<SharedSlot> {
        let finished = |index| {
            let state = self.exec.task(index).map(|task| task.state);
            state.is_none_or(|state| state == ExecutionState::Finished)
        };
        let slots = self.states.get(region.0 as usize).map(|state| state.slots.as_slice());
        let all = |slot: &SharedSlot| self.plan.tasks_in(&self.exec, *slot).all(finished);
        slots.unwrap_or_default().iter().copied().filter(all).collect()
    }

    /// Retires regions that have finished and still hold slots, because other regions are to run
    /// again.
    pub(super) fn retire_finished(&mut self, now: Now) {
        let over = |region: &RegionIndex| {
            let state = self.states.get(region.0 as usize);
            state.is_some_and(|s| s.is_over() && s.slots.iter().any(|s| self.pool.is_served(*s)))
        };
        let all = self.regions.iter().map(|(index, _)| index);
        let finished: Vec<RegionIndex> = all.filter(over).collect();
        if !finished.is_empty() {
            self.retire(&finished, now);
        }
    }

    /// Frees slots that the job holds and can't use yet ([`Command::FreeSlot`]), for other jobs that want these amounts; before that,
    /// regions that idle slots of later ones complete get these and are deployed. If too few slots are left, the rest is owed: when
    /// regions finish, as many of their slots are freed instead of reused.
    /// Called when the ResourceManager asks the job to yield; a new call replaces what is owed. Does nothing unless the job is
    /// RUNNING or RESTARTING.
    pub fn yield_slots(&mut self, now: Now, wanted: &[ResourceRequirement]) {
        if !self.is_live() {
            return;
        }
        self.gather(now);
        let mut wanted = wanted.to_vec();
        let mut given = Vec::new();
        // The last regions have to wait the longest all the same.
        for (_, allocation, slot) in self.idle().into_iter().rev() {
            let need = wanted.iter_mut().find(|r| r.slots > 0 && slot.profile.fulfils(&r.profile));
            if let Some(need) = need {
                need.slots -= 1;
                given.push((slot.task_manager.clone(), allocation));
            }
        }
        for (task_manager, allocation) in given {
            self.pool.release_slot(&self.plan, allocation);
            self.free(task_manager, allocation);
        }
        self.owed = wanted.iter().map(|need| need.slots).fold(0, u32::saturating_add);
    }

    fn free(&mut self, task_manager: Arc<TaskManager>, allocation: AllocationId) {
        self.remember(allocation);
        self.out.push(Command::FreeSlot { task_manager, allocation });
    }

    /// Takes note that the slot of this allocation is gone: a late offer of it is not taken.
    pub(super) fn remember(&mut self, allocation: AllocationId) {
        if self.freed.len() >= REMEMBERED {
            self.freed.clear();
        }
        self.freed.insert(allocation);
    }

    /// Returns the slots in which nothing runs and that no region keeps, with the shared slots that
    /// they serve.
    fn idle(&self) -> Vec<(SharedSlot, AllocationId, &HeldSlot)> {
        let complete = |state: &&RegionState| {
            !state.is_over() && state.slots.iter().all(|slot| self.pool.is_served(*slot))
        };
        let kept: BTreeSet<SharedSlot> =
            self.states.iter().filter(complete).flat_map(|s| s.slots.iter().copied()).collect();
        let idle = self.pool.slots().filter(|(slot, _, _)| !kept.contains(slot));
        let mut idle: Vec<_> = idle.filter(|(slot, _, _)| !self.is_live_in(*slot)).collect();
        idle.sort_unstable_by_key(|(slot, _, _)| *slot);
        idle
    }

    /// Moves idle slots of later waiting regions to earlier ones, and deploys those that are
    /// complete then.
    pub(super) fn gather(&mut self, now: Now) {
        let idle = self.idle().into_iter();
        let mut idle: IdleSlots = idle
            .map(|(slot, allocation, held)| (slot, (allocation, held.profile.clone())))
            .collect();
        let mut completed = Vec::new();
        for region in self.starving() {
            if idle.is_empty() {
                break;
            }
            let Some(state) = self.states.get(region.0 as usize) else { continue };
            let Some(moves) = self.completing(&state.slots, &idle) else { continue };
            idle.retain(|slot, _| state.slots.binary_search(slot).is_err());
            for (from, to) in moves {
                if let Some((allocation, _)) = idle.remove(&from) {
                    self.pool.reassign(&self.plan, allocation, to);
                }
            }
            completed.push(region);
        }
        self.deploy_ready(completed, now);
    }

    /// Finds idle slots of other regions that together serve every shared slot which the given
    /// region still needs, taking the last idle ones first. Returns the moves (from, to); `None` if some
    /// shared slot finds none.
    fn completing(
        &self,
        slots: &[SharedSlot],
        idle: &IdleSlots,
    ) -> Option<Vec<(SharedSlot, SharedSlot)>> {
        let mut moves: Vec<(SharedSlot, SharedSlot)> = Vec::new();
        for to in slots.iter().filter(|slot| !self.pool.is_served(**slot)) {
            let needs = self.plan.profile_of(*to)?;
            let (from, _) = idle.iter().rev().find(|(from, (_, profile))| {
                let own = slots.binary_search(from).is_ok();
                let taken = moves.iter().any(|(taken, _)| taken == *from);
                !own && !taken && profile.fulfils(needs)
            })?;
            moves.push((*from, *to));
        }
        Some(moves)
    }

    /// Returns true if the job makes progress although some of its regions wait: it is bounded and
    /// some region runs, so slots will come back to it. A region that has ended waits for its final checkpoint, and gives no slot
    /// back while that has to wait for subtasks that are to be rescaled.
    pub(super) fn can_progress(&self) -> bool {
        let waits = self.waits_to_be_rescaled();
        let runs = |(index, state): (RegionIndex, &RegionState)| {
            state.phase == Phase::Active && state.alive > 0 && !(waits && self.ends(index))
        };
        self.exec.graph().bounded && (0u32..).map(RegionIndex).zip(&self.states).any(runs)
    }
}
