//! Asks waiting jobs to yield slots to other waiting jobs. [`super::contention`] decides which job yields to which.
//! This module must never ask a job again that was asked a moment ago.

use super::contention::{Waiting, plan_yielding};
use super::matching::Slots;
use super::queue::Queue;
use super::shortages::SHORTAGE_GRACE;
use super::{Command, Job, SlotManager, Supply};
use crate::mutation::Rule;
use model::slots::SlotAllocation;
use model::{InstanceId, JobId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time within which a job that was asked to yield frees its slots.
pub(super) const GIVES_WITHIN: Duration = Duration::from_secs(2);
/// Time after which a job that was asked and freed nothing is asked again. It may have used all of its slots then, or
/// the first message may have been lost.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// Time that requested TaskManagers are given to register before waiting jobs are asked to yield.
const TASK_MANAGERS_COME: Duration = Duration::from_secs(15);
/// Minimum time between two evaluations of which jobs should yield.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The last time when a job was asked to yield.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Duration,
    /// True if one of the job's slots was freed since.
    gave: bool,
}

impl Asked {
    /// Returns true if the job can be expected to yield slots. This holds until [`GIVES_WITHIN`] has passed, even if
    /// the job has freed nothing.
    fn may_give(self, now: Duration) -> bool {
        let waited = now.saturating_sub(self.at);
        self.gave || waited < GIVES_WITHIN || waited >= ASK_AGAIN
    }

    fn is_recent(self, now: Duration) -> bool {
        now.saturating_sub(self.at) < GIVES_WITHIN
    }
}

impl Job {
    /// Records that one of the job's slots was freed.
    pub(super) fn gave(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.gave = true;
        }
    }

    /// Returns the time until which jobs that were asked to yield to this job may free their slots.
    pub(super) fn promised_until(&self) -> Option<Duration> {
        self.promised_at.map(|at| at.saturating_add(GIVES_WITHIN))
    }
}

impl SlotManager {
    /// Returns the slots of a TaskExecutor that jobs hold, by index.
    pub(super) fn held_on(&self, instance_id: InstanceId) -> Vec<(u32, SlotAllocation)> {
        let slots = self
            .task_managers
            .get(instance_id)
            .into_iter()
            .flat_map(|task_manager| &task_manager.slots);
        slots.filter_map(|(index, slot)| Some((*index, slot.state.holder()?))).collect()
    }

    /// Records which jobs no longer hold slots that they held `before` a report: the notices that these slots are free were lost.
    pub(super) fn note_given(&mut self, instance_id: InstanceId, before: &[(u32, SlotAllocation)]) {
        for (index, held) in before {
            if !self.task_managers.is_held_under(instance_id, *index, held.allocation_id)
                && let Some(job) = self.jobs.get_mut(&held.job_id)
            {
                job.gave();
            }
        }
    }

    /// Asks jobs to yield, so that jobs which each hold a part of what they need do not wait for each other for ever.
    /// Does nothing if no waiting job holds slots that others could use.
    pub(super) fn ask_to_yield(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let seen = self.queue_seen_at.is_some_and(|at| now.saturating_sub(at) < LOOK_EVERY);
        let nobody = self.queue.len() < 2 || self.queue.givers().next().is_none();
        if nobody || seen || !self.settings.mutation.keeps(Rule::WaitingJobsYield) {
            return;
        }
        self.queue_seen_at = Some(now);
        let plan = plan_yielding(self.who_might(now));
        for (job_id, slots) in plan.givers {
            let Some(job) = self.jobs.get_mut(&job_id) else {
                continue;
            };
            if job.asked.is_none_or(|asked| !asked.is_recent(now)) {
                job.asked = Some(Asked { at: now, gave: false });
                let job_master_id = job.job_master_id;
                commands.push(Command::AskToYield { job_id, job_master_id, slots });
            }
        }
        for job_id in plan.receivers {
            if let Some(job) = self.jobs.get_mut(&job_id) {
                job.promised_at = Some(now);
            }
        }
    }

    /// Returns the jobs that may yield, and the jobs whose shortage is at most the number of slots that these hold.
    fn who_might(&self, now: Duration) -> Vec<Waiting<'_>> {
        let grace = match self.settings.supply {
            Supply::Passive { .. } => SHORTAGE_GRACE,
            Supply::Active { .. } => TASK_MANAGERS_COME,
        };
        let given = |job| self.task_managers.holdings().of(job).map(|held| &held.given);
        let slots = self.queue.givers().filter_map(given).map(|given| given.total()).sum();
        let jobs: BTreeSet<JobId> =
            self.queue.givers().chain(self.queue.shortage_at_most(slots)).collect();
        let pool = self.pool();
        let each = |job_id: JobId| {
            let (job, waiter) = (self.jobs.get(&job_id)?, self.queue.get(job_id)?);
            let may_give = job.asked.is_none_or(|asked| asked.may_give(now));
            let held = given(job_id).filter(|_| may_give).map_or_else(Slots::new, |g| g.as_slots());
            Some(Waiting {
                job_id,
                turn: Queue::turn(waiter, &pool),
                unfulfilled: &waiter.unfulfilled,
                held,
                is_due: job.short_since.is_some_and(|at| now.saturating_sub(at) >= grace),
            })
        };
        jobs.into_iter().filter_map(each).collect()
    }
}
