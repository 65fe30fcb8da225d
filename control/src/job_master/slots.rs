//! TaskExecutors come and go, offer slots and lose them.

use super::{Command, JobCore, Now};
use crate::execution_graph::{TaskIndex, TaskManager};
use crate::mutation::Rule;
use crate::restart::NO_RESOURCE;
use crate::scheduler::{RegionIndex, SharedSlot};
use crate::slot_pool::Registration;
use model::job::SlotOffer;
use model::{AllocationId, ExecutionAttemptId, FailureCause, InstanceId, JobStatus, ResourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// The error of [`JobCore::offer`] and [`JobCore::update_tasks`] that the call comes from a TaskExecutor that is not registered at the
/// JobMaster under this instance id (which differs with each registration at a ResourceManager); the call has changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the TaskExecutor is not registered in this incarnation")]
pub struct NotRegistered;

/// Attempts of one TaskExecutor.
pub(super) type OfTaskManager = (Arc<TaskManager>, Vec<ExecutionAttemptId>);

impl JobCore {
    /// Registers a TaskExecutor, so that it may offer slots; the same instance id again changes nothing. A registration of the same process
    /// under another instance id is removed: its slots are lost, their tasks fail (the restart strategy decides about their regions), and,
    /// if it had slots and the job is not ending, the requirements are declared again.
    pub fn register_task_manager(&mut self, now: Now, task_manager: TaskManager) -> Registration {
        let resource = task_manager.resource_id.clone();
        let registration = self.pool.register(&self.plan, task_manager);
        if let Registration::Replaced { lost } = &registration {
            let message = format!("TaskManager {resource} came back as a new process");
            let cause = FailureCause::recoverable("TaskManagerLost", message);
            self.slots_lost(lost, &cause, now);
        }
        registration
    }

    /// Returns the allocations of the slots that the job holds on the TaskExecutor with this resource id, in use or not; empty if the
    /// TaskExecutor is not registered. The JobMaster frees them there when the job has ended.
    pub fn slots_on(&self, resource: &ResourceId) -> Vec<AllocationId> {
        self.pool.slots_on(resource).map(|(allocation, _)| allocation).collect()
    }

    /// Takes the slots that a TaskExecutor offers, as far as regions that wait, or are to restart, miss slots (a job that is ending needs
    /// none, and none that it has freed before is taken), and deploys regions that are complete with them. Returns the accepted
    /// allocations, also those that were accepted before; the TaskExecutor frees the others.
    ///
    /// `data_address` is where the job's program host on that TaskExecutor exchanges records. If it differs from that of an offered slot
    /// that the job holds already, the host was replaced, and the slot's tasks fail; the slot stays.
    ///
    /// # Errors
    /// Returns [`NotRegistered`] if the TaskExecutor is not registered as `instance`.
    pub fn offer(
        &mut self,
        now: Now,
        resource: &ResourceId,
        instance: InstanceId,
        offers: &[SlotOffer],
        data_address: &str,
    ) -> Result<Vec<AllocationId>, NotRegistered> {
        let needed = matches!(
            self.status(),
            JobStatus::Created | JobStatus::Running | JobStatus::Restarting
        );
        if !needed {
            return self
                .pool
                .task_manager(resource, instance)
                .map(|_| Vec::new())
                .ok_or(NotRegistered);
        }
        let data_address = Arc::from(data_address);
        // An offer may have been repeated before the slot went back.
        let offers = offers.iter().filter(|offer| !self.freed.contains(&offer.allocation_id));
        let answer = self
            .pool
            .offer(&self.plan, resource, instance, offers, &data_address)
            .ok_or(NotRegistered)?;
        if !answer.moved.is_empty() {
            let message = format!("the program host on TaskManager {resource} was replaced");
            self.tasks_gone(
                &answer.moved,
                &FailureCause::recoverable("ProgramHostLost", message),
                now,
            );
        }
        if !answer.served.is_empty() {
            let ready = self.regions_of(&answer.served);
            self.deploy_ready(ready, now);
        }
        Ok(answer.accepted)
    }

    pub(super) fn regions_of(&self, slots: &[SharedSlot]) -> BTreeSet<RegionIndex> {
        let tasks = slots.iter().flat_map(|slot| self.plan.tasks_in(&self.exec, *slot));
        tasks.filter_map(|task| self.regions.of_task(task)).collect()
    }

    /// Returns the current attempts of subtasks, by the TaskExecutors that they are placed on.
    pub(super) fn by_task_manager(
        &self,
        tasks: impl IntoIterator<Item = TaskIndex>,
    ) -> Vec<OfTaskManager> {
        let mut by_task_manager: BTreeMap<ResourceId, OfTaskManager> = BTreeMap::new();
        for index in tasks {
            let placement = self.exec.task(index).and_then(|task| task.placement.as_ref());
            let (Some(placement), Some(attempt)) = (placement, self.exec.attempt_id(index)) else {
                continue;
            };
            let task_manager = placement.task_manager.clone();
            let of = by_task_manager.entry(task_manager.resource_id.clone());
            of.or_insert_with(|| (task_manager, Vec::new())).1.push(attempt);
        }
        by_task_manager.into_values().collect()
    }

    /// Handles the loss of a TaskExecutor (it died, is unreachable, or has disconnected): its slots are removed and their tasks fail with
    /// `cause`. If it had slots and the job is not ending, the requirements are declared again. The restart strategy decides about the
    /// regions of these tasks. Ignored if the TaskExecutor is not registered as `instance`.
    pub fn task_manager_lost(
        &mut self,
        now: Now,
        resource: &ResourceId,
        instance: InstanceId,
        cause: &FailureCause,
    ) {
        let lost = self.pool.release_task_manager(&self.plan, resource, instance);
        self.slots_lost(&lost, cause, now);
    }

    /// Handles a report that a slot is lost although its TaskExecutor lives: the slot is removed, its tasks fail with `cause` (the restart
    /// strategy decides), and the requirements are declared again unless the job is ending. If `accepted` is false and the job does not
    /// hold the slot, the slot was never offered because its program host could not be started, and all regions that wait for missing slots
    /// fail with `cause`, once for each slot. Nothing changes if the job does not hold the slot and has accepted, freed or lost it before.
    pub fn slot_failed(
        &mut self,
        now: Now,
        resource: &ResourceId,
        allocation: AllocationId,
        accepted: bool,
        cause: &FailureCause,
    ) {
        if !self.pool.holds(resource, allocation) {
            if accepted || self.freed.contains(&allocation) {
                return;
            }
            // The call may come again, because its answer was lost: it must not take another restart.
            self.remember(allocation);
            let starving = self.starving();
            self.fail_regions(&starving, cause.clone(), None, now);
            return;
        }
        // The report may come again here, too.
        self.remember(allocation);
        let lost = self.pool.release_slot(&self.plan, allocation);
        self.slots_lost(lost.as_slice(), cause, now);
    }

    /// Handles the loss of slots: the tasks that ran there have failed. Declares the requirements
    /// again, so that the ResourceManager looks for replacements.
    fn slots_lost(&mut self, slots: &[SharedSlot], cause: &FailureCause, now: Now) {
        if slots.is_empty() {
            return;
        }
        self.tasks_gone(slots, cause, now);
        if self.is_live() {
            self.out.push(Command::Declare(self.pool.requirements()));
        }
    }

    fn tasks_gone(&mut self, slots: &[SharedSlot], cause: &FailureCause, now: Now) {
        let tasks: Vec<TaskIndex> =
            slots.iter().flat_map(|slot| self.plan.tasks_in(&self.exec, *slot)).collect();
        let mut failed = Vec::new();
        for index in tasks {
            let placed = self.exec.task(index).is_some_and(|task| task.placement.is_some());
            if placed && !self.config.mutation.keeps(Rule::LostTasksFail) {
                self.finish_task(index, now);
            } else if placed {
                self.end_task(index, Some(cause.clone()), now, &mut failed);
            }
        }
        self.conclude(failed, now);
    }

    /// Handles the ResourceManager's report, with the text `message`, that the declared requirements can't be met. Regions that idle slots
    /// of later ones complete get these and are deployed; those that still miss slots fail with this message (kind [`NO_RESOURCE`], about
    /// which the restart strategy decides), unless the job is bounded and another region runs, whose slots will become free. The text is
    /// kept for the message of a region that later waits for slots too long. Ignored unless the job is RUNNING or RESTARTING.
    pub fn not_enough_resources(&mut self, now: Now, message: &str) {
        if !self.is_live() {
            return;
        }
        self.last_shortage = Some(message.to_owned());
        self.gather(now);
        let starving = self.starving();
        if !starving.is_empty() && !self.can_progress() {
            let cause = FailureCause::recoverable(NO_RESOURCE, message);
            self.fail_regions(&starving, cause, None, now);
        }
    }

    /// Returns the regions that wait and miss slots.
    pub(super) fn starving(&self) -> Vec<RegionIndex> {
        let all = self.regions.iter().map(|(index, _)| index);
        all.filter(|region| self.misses_slots(*region)).collect()
    }
}
