//! Starting, waiting for slots and coordinators, deploying, and the timers of regions.

use super::{Command, JobCore, Now, Phase};
use crate::execution_graph::TaskIndex;
use crate::restart::NO_RESOURCE;
use crate::scheduler::{RegionIndex, deployments};
use model::{ExecutionAttemptId, ExecutionState, FailureCause, JobStatus, ResourceId};
use std::collections::BTreeSet;
use std::time::Duration;

impl JobCore {
    /// Starts the job: it becomes RUNNING, declares its requirements and waits for slots; regions whose slots were all offered before are
    /// deployed at once, those with coordinators as soon as these have started. Does nothing unless the job is CREATED.
    pub fn start(&mut self, now: Now) {
        if self.status() != JobStatus::Created {
            return;
        }
        self.advance_status(JobStatus::Running, now);
        let all: Vec<RegionIndex> = self.regions.iter().map(|(index, _)| index).collect();
        self.schedule(&all, now);
    }

    /// Puts regions into the phase of waiting for slots and coordinators, and declares what they
    /// need.
    pub(super) fn schedule(&mut self, regions: &[RegionIndex], now: Now) {
        let deadline = now.mono.saturating_add(self.config.slot_timeout);
        for region in regions {
            for task in self.tasks_of(*region) {
                self.exec.advance(task, ExecutionState::Scheduled, now.unix_ms);
            }
            self.enter_phase(*region, Phase::Waiting { deadline });
            for slot in self.states.get(region.0 as usize).iter().flat_map(|s| &s.slots) {
                self.pool.revive(&self.plan, *slot);
            }
        }
        self.out.push(Command::Declare(self.pool.requirements()));
        self.deploy_ready(regions.iter().copied(), now);
    }

    pub(super) fn enter_phase(&mut self, region: RegionIndex, phase: Phase) {
        if let Some(state) = self.region_state(region) {
            state.phase = phase;
            state.cursor = 0;
        }
        match phase {
            Phase::Waiting { deadline: at } | Phase::Resting { resume: at } => {
                self.timers.insert((at, region));
            }
            Phase::Idle | Phase::Active | Phase::Stopping { .. } => {}
        }
    }

    /// Deploys the given regions that have everything they need, in one deployment per TaskExecutor. Starts the
    /// coordinators of a region only once it has its slots: until then the job needs no program host.
    pub(super) fn deploy_ready(
        &mut self,
        regions: impl IntoIterator<Item = RegionIndex>,
        now: Now,
    ) {
        let mut tasks = Vec::new();
        for region in regions {
            if self.has_slots(region) && self.has_coordinators(region) {
                self.place(region, now, &mut tasks);
            }
        }
        if tasks.is_empty() {
            return;
        }
        self.checkpoints.tasks_deployed(now.mono);
        self.do_checkpoint_steps(now);
        tasks.sort_unstable();
        for mut deployment in deployments(&self.exec, &tasks) {
            for task in &mut deployment.tasks {
                if let Some(index) = self.exec.locate(&task.attempt) {
                    (task.restore, task.ended) = self.restore_of(index);
                }
            }
            self.out.push(Command::Deploy(deployment));
        }
    }

    /// Returns true if the region waits and all of its slots are served.
    fn has_slots(&mut self, region: RegionIndex) -> bool {
        let waiting = self.is_live() && matches!(self.phase(region), Phase::Waiting { .. });
        waiting && self.first_unserved(region).is_none()
    }

    /// Returns the first unserved slot of a region, as an index into its list. The cursor makes
    /// repeated searches cost only what has come since.
    fn first_unserved(&mut self, region: RegionIndex) -> Option<usize> {
        let pool = &self.pool;
        let state = self.states.get_mut(region.0 as usize)?;
        let unserved = |from: usize| {
            let slots = state.slots.get(from..).unwrap_or_default();
            slots.iter().position(|slot| !pool.is_served(*slot)).map(|at| from + at)
        };
        // Slots before the cursor may have been lost since.
        let found = unserved(state.cursor).or_else(|| unserved(0));
        state.cursor = found.unwrap_or(0);
        found
    }

    fn place(&mut self, region: RegionIndex, now: Now, placed: &mut Vec<TaskIndex>) {
        for task in self.tasks_of(region) {
            let slot = self.plan.slot_of(&self.exec, task);
            let Some((slot, placement)) = slot.and_then(|s| Some((s, self.pool.placement(s)?)))
            else {
                continue;
            };
            self.pool.set_in_use(slot, true);
            self.exec.place(task, placement);
            self.exec.advance(task, ExecutionState::Deploying, now.unix_ms);
            placed.push(task);
        }
        self.note_restore(region);
        if let Some(state) = self.region_state(region)
            && std::mem::replace(&mut state.deployed_once, true)
        {
            self.checkpoints.note_restored(now.unix_ms);
        }
        self.enter_phase(region, Phase::Active);
    }

    /// Handles a TaskExecutor's answer to [`Command::Deploy`]: the attempts that it refused, which fail with their causes (the others
    /// count as confirmed: its reports must list them from now on), or (`Err`) the reason why the whole call failed. In the latter case
    /// all `attempts` that have not ended fail, and are cancelled there in case they run. The restart strategy decides what follows.
    pub fn deploy_answered(
        &mut self,
        now: Now,
        resource: &ResourceId,
        attempts: &[ExecutionAttemptId],
        answer: Result<Vec<(ExecutionAttemptId, FailureCause)>, FailureCause>,
    ) {
        let refused = match answer {
            Ok(refused) => refused,
            Err(cause) => {
                // The call may have been executed: tasks that run there must be cancelled.
                let live = attempts.iter().copied().filter(|a| self.is_live_on(a, resource));
                let live: Vec<_> = live.collect();
                self.cancel_on(resource, live.clone());
                live.into_iter().map(|attempt| (attempt, cause.clone())).collect()
            }
        };
        let refused_ids: BTreeSet<ExecutionAttemptId> = refused.iter().map(|(id, _)| *id).collect();
        for attempt in attempts.iter().filter(|a| !refused_ids.contains(a)) {
            if let Some(task) = self.exec.locate(attempt) {
                self.exec.confirm(task);
            }
        }
        let mut failed = Vec::new();
        for (attempt, cause) in refused {
            if let Some(task) = self.exec.locate(&attempt) {
                self.end_task(task, Some(cause), now, &mut failed);
            }
        }
        self.conclude(failed, now);
    }

    fn is_live_on(&self, attempt: &ExecutionAttemptId, resource: &ResourceId) -> bool {
        let task = self.exec.locate(attempt).and_then(|index| self.exec.task(index));
        task.is_some_and(|task| {
            let there =
                task.placement.as_ref().is_some_and(|p| p.task_manager.resource_id == *resource);
            there && !task.state.is_terminal()
        })
    }

    fn cancel_on(&mut self, resource: &ResourceId, attempts: Vec<ExecutionAttemptId>) {
        let task_manager =
            self.pool.task_managers().find(|known| known.resource_id == *resource).cloned();
        if let Some(task_manager) = task_manager
            && !attempts.is_empty()
        {
            self.out.push(Command::CancelTasks { task_manager, attempts });
        }
    }

    /// Returns the monotonic time at which [`JobCore::tick`] is to be called next at the latest: a restart or a checkpoint is due, or
    /// the time of a region's wait for slots, a checkpoint or a savepoint is over; `None` if nothing is pending.
    pub fn next_deadline(&self) -> Option<Duration> {
        let region = self.timers.first().map(|(at, _)| *at);
        region.into_iter().chain(self.checkpoint_deadline()).min()
    }

    /// Handles the passing of time: restarts regions whose pause is over, fails those that have waited too long for slots (but not while
    /// the job is bounded and another region runs: they wait as long again), begins checkpoints and savepoints that are due, and aborts
    /// checkpoints and fails savepoints whose time is over. Before regions fail for want of slots, idle slots of later regions go to
    /// earlier ones that they complete, which are deployed. While the pointer of a checkpoint is being written no region restarts. Does
    /// nothing unless the job is RUNNING or RESTARTING.
    pub fn tick(&mut self, now: Now) {
        let mut resume = Vec::new();
        let mut starved = Vec::new();
        while let Some((at, region)) = self.timers.first().copied() {
            if at > now.mono {
                break;
            }
            self.timers.pop_first();
            match self.phase(region) {
                Phase::Resting { resume: due } if due == at => resume.push(region),
                Phase::Waiting { deadline } if deadline == at => starved.push(region),
                _ => {}
            }
        }
        if !self.is_live() {
            return;
        }
        self.end_waiting(starved, now);
        resume.retain(|region| matches!(self.phase(*region), Phase::Resting { .. }));
        // While a checkpoint's pointer is being written, it is unknown which checkpoint is the
        // newest: the regions start again when the outcome is known.
        if self.is_live() && !resume.is_empty() && !self.checkpoints.is_persisting() {
            self.resume(&resume, now);
        }
        self.advance_checkpoints(now);
    }

    /// Fails regions that have waited for slots for too long, unless they have all slots by now or
    /// the job makes progress without them.
    fn end_waiting(&mut self, mut starved: Vec<RegionIndex>, now: Now) {
        starved.retain(|region| self.first_unserved(*region).is_some());
        if starved.is_empty() {
            return;
        }
        self.gather(now);
        starved.retain(|region| self.misses_slots(*region));
        if self.can_progress() {
            let deadline = now.mono.saturating_add(self.config.slot_timeout);
            for region in starved {
                self.enter_phase(region, Phase::Waiting { deadline });
            }
        } else if !starved.is_empty() {
            let cause = self.shortage();
            self.fail_regions(&starved, cause, None, now);
        }
    }

    /// Restarts regions with new attempts.
    fn resume(&mut self, regions: &[RegionIndex], now: Now) {
        self.reset_subtasks(regions);
        for region in regions {
            self.finishing.remove(region);
            let tasks = self.tasks_of(*region);
            for task in &tasks {
                self.exec.renew(*task, now.unix_ms);
            }
            if let Some(state) = self.region_state(*region) {
                state.alive = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
                state.phase = Phase::Idle;
            }
        }
        let pending = |state: &super::RegionState| {
            matches!(state.phase, Phase::Stopping { .. } | Phase::Resting { .. })
        };
        if !self.states.iter().any(pending) {
            self.advance_status(JobStatus::Running, now);
        }
        self.schedule(regions, now);
    }

    fn shortage(&self) -> FailureCause {
        let seconds = self.config.slot_timeout.as_secs();
        let needs: u32 =
            self.pool.requirements().iter().map(|need| need.slots).fold(0, u32::saturating_add);
        let mut message = format!(
            "needs {needs} slots, has {}; the others did not come within {seconds} s (slot.request.timeout)",
            self.pool.len(),
        );
        if let Some(why) = &self.last_shortage {
            message = format!("{message}: {why}");
        }
        FailureCause::recoverable(NO_RESOURCE, message)
    }
}
