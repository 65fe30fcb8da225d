//! Failures: what a failed task, slot, TaskExecutor or coordinator takes with it, and when that is
//! started again.

use super::{Command, Coordinators, JobCore, Now, Phase, RegionState};
use crate::execution_graph::TaskIndex;
use crate::restart::Verdict;
use crate::scheduler::RegionIndex;
use model::job::FailureRecord;
use model::{ExecutionState, FailureCause, JobStatus};
use std::collections::BTreeSet;

/// The number of concurrent failures kept beside the one that is shown first.
const CONCURRENT: usize = 16;

impl JobCore {
    /// Records that a task has ended without finishing. A task that was being cancelled becomes
    /// CANCELED, whatever its cause; any other fails with the cause and is added to `failed`.
    pub(super) fn end_task(
        &mut self,
        index: TaskIndex,
        cause: Option<FailureCause>,
        now: Now,
        failed: &mut Vec<TaskIndex>,
    ) {
        let Some(state) = self.exec.task(index).map(|task| task.state) else {
            return;
        };
        let stopped = state == ExecutionState::Canceling;
        let to = if stopped { ExecutionState::Canceled } else { ExecutionState::Failed };
        if !self.exec.advance(index, to, now.unix_ms) {
            return;
        }
        self.one_less_alive(index);
        match cause {
            Some(cause) if stopped => self.record_concurrent(cause, index, now),
            Some(cause) => {
                self.exec.blame(index, cause);
                failed.push(index);
            }
            None => {}
        }
    }

    pub(super) fn finish_task(&mut self, index: TaskIndex, now: Now) {
        if !self.exec.advance(index, ExecutionState::Finished, now.unix_ms) {
            return;
        }
        self.one_less_alive(index);
        let region = self.regions.of_task(index);
        let over =
            |r: &RegionIndex| self.states.get(r.0 as usize).is_some_and(RegionState::is_over);
        if let Some(region) = region.filter(over).filter(|_| !self.exec.all_finished()) {
            self.retire(&[region], now);
        }
    }

    fn one_less_alive(&mut self, index: TaskIndex) {
        let region = self.regions.of_task(index);
        if let Some(state) = region.and_then(|region| self.region_state(region)) {
            debug_assert!(state.alive > 0, "a task of a region ended in which none was alive");
            state.alive = state.alive.saturating_sub(1);
        }
    }

    /// Draws the conclusions after tasks have ended: fails over the regions of the `failed` ones,
    /// lets stopped regions rest, and ends the job if those were its last tasks.
    pub(super) fn conclude(&mut self, failed: Vec<TaskIndex>, now: Now) {
        if let Some(first) = failed.first().copied() {
            let regions: BTreeSet<RegionIndex> =
                failed.iter().filter_map(|task| self.regions.of_task(*task)).collect();
            let regions: Vec<RegionIndex> = regions.into_iter().collect();
            let cause = self.exec.task(first).and_then(|task| task.cause.as_deref().cloned());
            if let Some(cause) = cause {
                self.fail_regions(&regions, cause, Some(first), now);
            }
        }
        self.settle(now);
    }

    /// Fails regions together for one cause, which is one decision of the restart strategy. Regions
    /// that are stopped already are left alone.
    pub(super) fn fail_regions(
        &mut self,
        regions: &[RegionIndex],
        cause: FailureCause,
        task: Option<TaskIndex>,
        now: Now,
    ) {
        if !self.is_live() {
            return;
        }
        let running =
            |r: &RegionIndex| matches!(self.phase(*r), Phase::Waiting { .. } | Phase::Active);
        let regions: Vec<RegionIndex> = regions.iter().copied().filter(running).collect();
        if regions.is_empty() {
            return;
        }
        let state = |r: &RegionIndex| self.states.get(r.0 as usize);
        let deployed_once = regions.iter().all(|r| state(r).is_some_and(|s| s.deployed_once));
        let draw = self.draw();
        let verdict = self.restart.failed(now.mono, &cause, deployed_once, draw);
        let cause = match verdict {
            Verdict::GiveUp => cause,
            Verdict::RestartAfter(_) => self.pass_over_unreadable(&regions, cause),
        };
        self.record(&cause, task, now);
        match verdict {
            Verdict::GiveUp => self.fail_job(cause, now),
            Verdict::RestartAfter(delay) => {
                self.restarts = self.restarts.saturating_add(1);
                let resume = now.mono.saturating_add(delay);
                self.publishing = false;
                self.advance_status(JobStatus::Restarting, now);
                self.abort_checkpoint(&self.newest_failure(), now);
                let regions = self.with_regions_to_restart(regions);
                for region in &regions {
                    self.enter_phase(*region, Phase::Stopping { resume });
                }
                let tasks: Vec<TaskIndex> =
                    regions.iter().flat_map(|r| self.tasks_of(*r)).collect();
                self.cancel_tasks(&tasks, now);
                self.retire_finished(now);
            }
        }
        self.settle(now);
    }

    /// Adds a failure to the history that users see.
    pub(super) fn record(&mut self, cause: &FailureCause, task: Option<TaskIndex>, now: Now) {
        let record = self.failure_record(cause.clone(), task, now);
        self.failures.push_front(record);
        self.failures.truncate(self.config.history.max(1));
    }

    /// Regions have failed. If the reason is that files of the newest checkpoint are lost or damaged, the job continues from the checkpoint
    /// before where its options allow it, and the message says so, or what can be done. A region that was restored from another checkpoint
    /// than the newest one says nothing about that: two regions may find the same file damaged, and one checkpoint is passed over for both.
    pub(super) fn pass_over_unreadable(
        &mut self,
        regions: &[RegionIndex],
        mut cause: FailureCause,
    ) -> FailureCause {
        let newest = self.checkpoints.latest().map(|latest| latest.checkpoint);
        let of_newest = |region: &RegionIndex| {
            self.states.get(region.0 as usize).is_some_and(|state| state.restored_from == newest)
        };
        let unreadable = cause.kind == FailureCause::CHECKPOINT_UNREADABLE;
        let (Some(newest), Some(before)) = (newest, self.checkpoints.before_latest()) else {
            return cause;
        };
        if !unreadable || !regions.iter().any(of_newest) || self.is_bound_to_latest(regions) {
            return cause;
        }
        cause.message.push_str(&match self.checkpoints.pass_over_latest() {
            true => continues_from(before, newest),
            false => format!(
                "; restore the file, or let the job continue from checkpoint {before} with execution.checkpointing.fallback: \
                 true, which makes output that was committed after it a second time"
            ),
        });
        cause
    }

    /// Returns true if a region that has not failed would mix two checkpoints if the newest one were passed over now: one that is not
    /// deployed and whose coordinators have been started from it or go on from it, or one that has finished, or finishes, with it. The
    /// former passes: the regions that failed try again. The regions that share coordinators with a failed one restart with it.
    fn is_bound_to_latest(&self, failed: &[RegionIndex]) -> bool {
        let failed: BTreeSet<RegionIndex> = failed.iter().copied().collect();
        let groups: BTreeSet<_> =
            failed.iter().filter_map(|region| self.regions.group_of(*region)).collect();
        let restarts = |index: RegionIndex| {
            let group = self.regions.group_of(index);
            failed.contains(&index) || group.is_some_and(|group| groups.contains(&group))
        };
        self.regions.iter().filter(|(index, _)| !restarts(*index)).any(|(index, _)| {
            let over = self.states.get(index.0 as usize).is_some_and(RegionState::is_over);
            let waits = self.phase(index) != Phase::Active;
            let started =
                matches!(self.coordinators_of(index), Coordinators::Starting | Coordinators::Up);
            over || self.finishing.contains(&index) || (waits && started)
        })
    }

    /// Adds to the failures that users see that a new JobMaster of the job continues from checkpoint `to`, because newer ones that are
    /// complete can't be read: `passed_over` has their numbers and the reasons, the newest last. Not called for a fallback while this
    /// JobMaster runs, which is part of the failure that has led to it. Counts as no restart, and issues no command. To be called after
    /// [`JobCore::restore`] and before [`JobCore::start`].
    pub fn fell_back(&mut self, now: Now, passed_over: &[(u64, String)], to: u64) {
        for (number, why) in passed_over {
            let message =
                format!("checkpoint {number} can't be read: {why}{}", continues_from(to, *number));
            let cause = FailureCause::recoverable(FailureCause::CHECKPOINT_UNREADABLE, message);
            self.record(&cause, None, now);
        }
    }

    /// Says in one line what has failed last, for checkpoints and savepoints that it has ended.
    pub(super) fn newest_failure(&self) -> String {
        let Some(FailureRecord { task, cause, .. }) = self.failures.front() else {
            return "tasks of the job have failed".to_owned();
        };
        let what = task.as_ref().map_or("the job".to_owned(), |task| format!("task '{task}'"));
        let first_line = cause.message.lines().next().unwrap_or_default();
        format!("{what} has failed: {}: {first_line}", cause.kind)
    }

    fn failure_record(
        &self,
        cause: FailureCause,
        task: Option<TaskIndex>,
        now: Now,
    ) -> FailureRecord {
        let placement = task.and_then(|t| self.exec.task(t)).and_then(|t| t.placement.as_ref());
        FailureRecord {
            at_ms: now.unix_ms,
            task: task.map(|t| self.exec.describe(t)),
            resource_id: placement.map(|p| p.task_manager.resource_id.clone()),
            cause,
            concurrent: Vec::new(),
        }
    }

    /// Adds the failure of a task that was being cancelled to the failure it was cancelled for.
    /// When a process dies, its peers' failures are often reported before its own; its own then
    /// takes their place in front.
    fn record_concurrent(&mut self, cause: FailureCause, task: TaskIndex, now: Now) {
        if cause.is_consequence() || self.status() != JobStatus::Restarting {
            return;
        }
        let mut record = self.failure_record(cause, Some(task), now);
        let Some(newest) = self.failures.front_mut() else {
            return;
        };
        if newest.cause.is_consequence() {
            record.concurrent = std::mem::take(&mut newest.concurrent);
            std::mem::swap(newest, &mut record);
        }
        let known = newest.cause == record.cause
            || newest.concurrent.iter().any(|other| other.cause == record.cause);
        if !known && newest.concurrent.len() < CONCURRENT {
            newest.concurrent.push(record);
        }
    }

    /// Cancels subtasks: those that were not deployed end at once, for the others their
    /// TaskExecutors are asked to cancel them.
    pub(super) fn cancel_tasks(&mut self, tasks: &[TaskIndex], now: Now) {
        let mut told = Vec::new();
        for index in tasks {
            let Some(task) = self.exec.task(*index) else { continue };
            match task.state {
                ExecutionState::Created | ExecutionState::Scheduled => {
                    self.exec.advance(*index, ExecutionState::Canceled, now.unix_ms);
                    self.one_less_alive(*index);
                }
                ExecutionState::Deploying
                | ExecutionState::Initializing
                | ExecutionState::Running => {
                    self.exec.advance(*index, ExecutionState::Canceling, now.unix_ms);
                    told.push(*index);
                }
                _ => {}
            }
        }
        for (task_manager, attempts) in self.by_task_manager(told) {
            self.out.push(Command::CancelTasks { task_manager, attempts });
        }
    }

    /// Returns true if a region waits and misses slots.
    pub(super) fn misses_slots(&self, region: RegionIndex) -> bool {
        let Some(state) = self.states.get(region.0 as usize) else {
            return false;
        };
        let waiting = matches!(state.phase, Phase::Waiting { .. });
        waiting && !state.slots.iter().all(|slot| self.pool.is_served(*slot))
    }
}

/// Returns the end of the message about a checkpoint that was passed over for an older one.
fn continues_from(older: u64, passed_over: u64) -> String {
    format!(
        "; the job continues from checkpoint {older}, so output that was committed with checkpoint {passed_over} comes again"
    )
}
