//! The jobs that lack slots, in the order in which they are served, and what is asked of them. Who that is for is
//! decided in [`super::contention`].

use super::contention::{Turn, Waiting, ways};
use super::matching::{Slots, count, unmet, unmet_by};
use super::workers::{Slot, SlotState};
use super::{Command, Job, SlotManager, Supply, lacks::LACK_GRACE};
use crate::mutation::Rule;
use model::{JobId, ResourceRequirement};
use std::collections::BTreeMap;
use std::time::Duration;

/// Who gives way has freed slots by then.
const GIVES_WITHIN: Duration = Duration::from_secs(2);
/// Who has freed nothing can't: it runs in all it has. By then that may have changed, and the first word may have
/// been lost.
const ASK_AGAIN: Duration = Duration::from_secs(15);
/// Workers that were asked for have had time to come.
const WORKERS_COME: Duration = Duration::from_secs(15);
/// From one look at who might give way to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// That a job was asked to give way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    at: Duration,
    /// Whether a slot of it was freed since.
    gave: bool,
}

impl Asked {
    /// Whether the job may give some. Until it has had time to it is counted on.
    fn may_give(self, now: Duration) -> bool {
        let waited = now.saturating_sub(self.at);
        self.gave || waited < GIVES_WITHIN || waited >= ASK_AGAIN
    }

    fn is_recent(self, now: Duration) -> bool {
        now.saturating_sub(self.at) < GIVES_WITHIN
    }
}

impl Job {
    /// One of its slots was freed.
    pub(super) fn gave(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.gave = true;
        }
    }

    /// Whether others were asked a moment ago to give way to it.
    pub(super) fn is_promised(&self, now: Duration) -> bool {
        self.promised_at.is_some_and(|at| now.saturating_sub(at) < GIVES_WITHIN)
    }
}

impl SlotManager {
    /// What each job lacks, those first that are served first.
    pub(super) fn lacks_by_turn(&mut self) -> Vec<(Turn, JobId, Vec<ResourceRequirement>)> {
        let mut lacks = Vec::new();
        for (job_id, job) in &self.jobs {
            let held = self.workers.held_by(*job_id).map(|(_, _, slot)| &slot.profile);
            lacks.push((job.turn, *job_id, unmet(&job.requirements, held)));
        }
        // Where nobody else waits it does not matter.
        if lacks.iter().filter(|(_, _, lacking)| !lacking.is_empty()).count() > 1 {
            self.tell_who_exceeds(&mut lacks);
        }
        lacks.sort_unstable_by_key(|(turn, _, _)| *turn);
        lacks
    }

    fn tell_who_exceeds(&mut self, lacks: &mut [(Turn, JobId, Vec<ResourceRequirement>)]) {
        let free = self.usable_slots().filter(|slot| slot.state == SlotState::Free);
        let mut all = count(free.map(|slot| &slot.profile));
        let waiting = lacks.iter().filter(|(_, _, lacking)| !lacking.is_empty());
        let held: BTreeMap<JobId, Slots<'_>> =
            waiting.map(|(_, id, _)| (*id, self.usable_held_by(*id, true))).collect();
        for (profile, n) in held.values().flatten() {
            *all.entry(profile).or_default() += n;
        }
        for (turn, job_id, lacking) in lacks.iter_mut() {
            let Some(own) = held.get(job_id) else {
                continue;
            };
            let mut others = all.clone();
            for (profile, n) in own {
                let left = others.entry(profile).or_default();
                *left = left.saturating_sub(*n);
            }
            turn.exceeds = !unmet_by(lacking, others).is_empty();
        }
        for (turn, job_id, _) in lacks {
            if let Some(job) = self.jobs.get_mut(job_id) {
                job.turn = *turn;
            }
        }
    }

    /// What a job has that another one could use; with what it is about to get, or without.
    fn usable_held_by(&self, job_id: JobId, with_pending: bool) -> Slots<'_> {
        let there = |slot: &Slot| with_pending || matches!(slot.state, SlotState::Allocated(_));
        let held = self.workers.held_by(job_id).filter(|(instance, _, slot)| {
            there(slot) && self.workers.get(*instance).is_some_and(|worker| self.usable(worker))
        });
        count(held.map(|(_, _, slot)| &slot.profile))
    }

    /// Jobs that hold parts of what they need must not wait for each other.
    pub(super) fn ask_to_give_way(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let lacking = self.jobs.values().filter(|job| job.lacking_since.is_some()).count();
        let seen = self.queue_seen_at.is_some_and(|at| now.saturating_sub(at) < LOOK_EVERY);
        if lacking < 2 || seen || !self.settings.mutation.keeps(Rule::WaitingJobsGiveWay) {
            return;
        }
        self.queue_seen_at = Some(now);
        let grace = match self.settings.supply {
            Supply::Passive { .. } => LACK_GRACE,
            Supply::Active { .. } => WORKERS_COME,
        };
        let mut waiting = Vec::new();
        for (job_id, job) in &self.jobs {
            let Some(since) = job.lacking_since else {
                continue;
            };
            let held = self.usable_held_by(*job_id, false);
            let may_give = job.asked.is_none_or(|asked| asked.may_give(now));
            waiting.push(Waiting {
                job_id: *job_id,
                turn: job.turn,
                lacking: &job.lacking,
                held: if may_give { held } else { Slots::new() },
                is_due: now.saturating_sub(since) >= grace,
            });
        }
        let ways = ways(waiting);
        for (job_id, slots) in ways.givers {
            let Some(job) = self.jobs.get_mut(&job_id) else {
                continue;
            };
            if job.asked.is_none_or(|asked| !asked.is_recent(now)) {
                job.asked = Some(Asked { at: now, gave: false });
                let job_master_id = job.job_master_id;
                commands.push(Command::AskToGiveWay { job_id, job_master_id, slots });
            }
        }
        for job_id in ways.receivers {
            if let Some(job) = self.jobs.get_mut(&job_id) {
                job.promised_at = Some(now);
            }
        }
    }
}
