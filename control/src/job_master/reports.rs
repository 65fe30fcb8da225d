//! Takes in what TaskExecutors report: states of tasks, and full reports by heartbeat. Also decides
//! which attempt may send messages to which coordinator.

use super::{Command, Coordinators, JobCore, Now};
use crate::execution_graph::TaskIndex;
use model::job::TaskStateUpdate;
use model::{
    AllocationId, ExecutionAttemptId, ExecutionState, FailureCause, InstanceId, OperatorId,
    ResourceId,
};
use std::collections::BTreeSet;
use thiserror::Error;

use super::slots::NotRegistered;

/// Full reports in a row that must miss a thing before it counts as lost. The first may have been made
/// before the thing was there; the next one was not.
const STRIKES: u8 = 2;

/// The reason why a message to a coordinator (the part of an operator that runs once per job) is not passed on now, from
/// [`JobCore::route_event`] (a task's message) and [`JobCore::route_request`] (a client's); no other causes exist. The JobMaster answers
/// the sender with it and keeps no message for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unroutable {
    /// The sending attempt is superseded, being cancelled, ended or unknown; for a task's message only.
    #[error("the attempt is not current")]
    StaleAttempt,
    /// There is no such operator, it has no coordinator, or the attempt's vertex does not contain it.
    #[error("the operator has no coordinator")]
    NoSuchOperator,
    /// The coordinators do not run now: the regions that they serve wait for slots or for their restart after a failure, or they are being
    /// started. The sender may send the message again later.
    #[error("the coordinators are being started")]
    Unavailable,
}

impl JobCore {
    /// Handles reported states of tasks on a TaskExecutor, in order: applies them with their counts and metrics, fails the regions of
    /// failed tasks (the restart strategy decides), ends the job after its last task. A task that reports CANCELED although it was not to
    /// be cancelled counts as failed, and one that finished or failed while it was to be cancelled as CANCELED. Returns those attempts that
    /// are not current here and that have not ended: the TaskExecutor is to end them.
    ///
    /// # Errors
    ///
    /// Returns [`NotRegistered`], and changes nothing, if the TaskExecutor is not registered as `instance`.
    pub fn update_tasks(
        &mut self,
        now: Now,
        resource: &ResourceId,
        instance: InstanceId,
        updates: Vec<TaskStateUpdate>,
    ) -> Result<Vec<ExecutionAttemptId>, NotRegistered> {
        if self.pool.task_manager(resource, instance).is_none() {
            return Err(NotRegistered);
        }
        let mut unknown = Vec::new();
        let mut failed = Vec::new();
        for update in updates {
            match self.exec.locate(&update.attempt).filter(|task| self.runs_on(*task, resource)) {
                Some(task) => self.apply(task, update, now, &mut failed),
                None if update.state.is_terminal() => {}
                None => unknown.push(update.attempt),
            }
        }
        self.conclude(failed, now);
        Ok(unknown)
    }

    fn runs_on(&self, task: TaskIndex, resource: &ResourceId) -> bool {
        let placement = self.exec.task(task).and_then(|task| task.placement.as_ref());
        placement.is_some_and(|p| p.task_manager.resource_id == *resource)
    }

    /// Applies one report.
    fn apply(
        &mut self,
        task: TaskIndex,
        update: TaskStateUpdate,
        now: Now,
        failed: &mut Vec<TaskIndex>,
    ) {
        self.exec.count(task, update.io, update.metrics);
        let canceling = self.exec.task(task).is_some_and(|t| t.state == ExecutionState::Canceling);
        match update.state {
            ExecutionState::Failed => {
                let unknown =
                    || FailureCause::recoverable("TaskFailed", "the task failed without a cause");
                let cause = update.cause.unwrap_or_else(unknown);
                self.end_task(task, Some(cause), now, failed);
            }
            ExecutionState::Canceled => {
                let message = "the task was cancelled by its TaskManager";
                let cause = FailureCause::recoverable("TaskCanceled", message);
                self.end_task(task, Some(cause), now, failed);
            }
            // It ended well before the word reached it; what it did does not count any more.
            ExecutionState::Finished if canceling => self.end_task(task, None, now, failed),
            ExecutionState::Finished => self.finish_task(task, now),
            state @ (ExecutionState::Initializing | ExecutionState::Running) => {
                self.exec.advance(task, state, now.unix_ms);
            }
            _ => {}
        }
    }

    /// Compares a TaskExecutor's full report with the job's own records (the JobMaster calls it when a beat brings a changed report, and
    /// with an unchanged one again every 5 beats), and issues commands that bring both together: applies the reported states like
    /// [`JobCore::update_tasks`], cancels attempts that are not current or missed their cancellation, frees slots that the job does not
    /// have, and fails tasks and slots that two reports in a row did not list (about their regions the restart strategy decides).
    /// `allocations` are the slots whose offer was accepted, `tasks` the attempts that run or whose end was not confirmed yet. Ignored if
    /// the TaskExecutor is not registered as `instance`.
    pub fn reconcile(
        &mut self,
        now: Now,
        resource: &ResourceId,
        instance: InstanceId,
        allocations: &[AllocationId],
        tasks: Vec<TaskStateUpdate>,
    ) {
        let Some(task_manager) = self.pool.task_manager(resource, instance).cloned() else {
            return;
        };
        let listed: BTreeSet<ExecutionAttemptId> = tasks.iter().map(|t| t.attempt).collect();
        let missing = self.missing_tasks(resource, &listed);
        // Told to cancel, and running all the same: the word was lost.
        let deaf: Vec<ExecutionAttemptId> =
            tasks.iter().filter(|t| self.missed_cancellation(t)).map(|t| t.attempt).collect();
        let unknown = self.update_tasks(now, resource, instance, tasks).unwrap_or_default();
        let attempts: Vec<ExecutionAttemptId> = deaf.into_iter().chain(unknown).collect();
        if !attempts.is_empty() {
            self.out.push(Command::CancelTasks { task_manager: task_manager.clone(), attempts });
        }
        for allocation in allocations.iter().filter(|a| !self.pool.holds(resource, **a)) {
            self.out.push(Command::FreeSlot {
                task_manager: task_manager.clone(),
                allocation: *allocation,
            });
        }
        let mut failed = Vec::new();
        for task in missing {
            let message = format!("TaskManager {resource} no longer runs the task");
            let cause = FailureCause::recoverable("TaskLost", message);
            self.end_task(task, Some(cause), now, &mut failed);
        }
        self.conclude(failed, now);
        let listed: BTreeSet<AllocationId> = allocations.iter().copied().collect();
        for allocation in self.pool.reconcile(resource, &listed, STRIKES) {
            let message = format!("TaskManager {resource} no longer holds slot {allocation}");
            self.slot_failed(
                now,
                resource,
                allocation,
                true,
                &FailureCause::recoverable("SlotLost", message),
            );
        }
    }

    fn missed_cancellation(&self, update: &TaskStateUpdate) -> bool {
        let task = self.exec.locate(&update.attempt).and_then(|index| self.exec.task(index));
        let running = matches!(
            update.state,
            ExecutionState::Deploying | ExecutionState::Initializing | ExecutionState::Running
        );
        running && task.is_some_and(|task| task.state == ExecutionState::Canceling)
    }

    fn missing_tasks(
        &mut self,
        resource: &ResourceId,
        listed: &BTreeSet<ExecutionAttemptId>,
    ) -> Vec<TaskIndex> {
        let on_task_manager = self.tasks_on(resource);
        let mut missing = Vec::new();
        for task in on_task_manager {
            let is_listed = self.exec.attempt_id(task).is_some_and(|id| listed.contains(&id));
            if self.exec.listed(task, is_listed) >= STRIKES {
                missing.push(task);
            }
        }
        missing
    }

    /// Checks that an attempt may send an event to the coordinator of an operator now: the attempt is current and not being
    /// cancelled, the operator is in its vertex and has a coordinator, and that runs. Returns the first reason against it.
    /// Sends nothing itself.
    pub fn route_event(
        &self,
        attempt: &ExecutionAttemptId,
        operator: OperatorId,
    ) -> Result<(), Unroutable> {
        let index = self.exec.locate(attempt).ok_or(Unroutable::StaleAttempt)?;
        let live = self.exec.task(index).is_some_and(|task| {
            !task.state.is_terminal() && task.state != ExecutionState::Canceling
        });
        if !live {
            return Err(Unroutable::StaleAttempt);
        }
        if self.coordinated.get(&operator) != Some(&self.exec.split(index).0) {
            return Err(Unroutable::NoSuchOperator);
        }
        self.coordinators_answer(operator)
    }

    /// Checks that a client may send a request to the coordinator of an operator now: the operator has one, and it runs.
    /// Returns the reason against it otherwise. Sends nothing itself.
    pub fn route_request(&self, operator: OperatorId) -> Result<(), Unroutable> {
        if !self.coordinated.contains_key(&operator) {
            return Err(Unroutable::NoSuchOperator);
        }
        self.coordinators_answer(operator)
    }

    fn coordinators_answer(&self, operator: OperatorId) -> Result<(), Unroutable> {
        match self.coordinators_of_operator(operator) {
            Coordinators::Up => Ok(()),
            _ => Err(Unroutable::Unavailable),
        }
    }

    /// Returns the tasks that were deployed into slots of a TaskExecutor.
    fn tasks_on(&self, resource: &ResourceId) -> Vec<TaskIndex> {
        let mut tasks = Vec::new();
        for (allocation, slot) in self.pool.slots_on(resource) {
            for index in self.plan.tasks_in(&self.exec, slot) {
                let placement = self.exec.task(index).and_then(|task| task.placement.as_ref());
                if placement.is_some_and(|p| p.allocation == allocation) {
                    tasks.push(index);
                }
            }
        }
        tasks
    }
}
