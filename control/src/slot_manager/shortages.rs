//! Reports of requirements that cannot be met: their time, receiver and text. This module must never report slots that
//! are merely about to be returned.

use super::task_managers::{Slot, SlotState, TaskManager};
use super::{
    Command, Job, Shortage, SlotManager, Supply,
    matching::{task_managers_for, unmet_by},
};
use model::{JobId, ResourceProfile, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Interval at which a shortage is reported again while it lasts, because a report may be lost.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// Time after which a requirement counts as unfulfilled: slots of a job that has just ended may still be returned.
pub(super) const SHORTAGE_GRACE: Duration = Duration::from_millis(500);

/// The times at which jobs are to be checked for a shortage. Each job has at most one entry.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    by_time: BTreeSet<(Duration, JobId)>,
    of_job: BTreeMap<JobId, Duration>,
}

impl Agenda {
    /// Schedules a check of a job, replacing an earlier one.
    pub(super) fn plan(&mut self, job: JobId, at: Duration) {
        self.cancel(job);
        self.of_job.insert(job, at);
        self.by_time.insert((at, job));
    }

    /// Cancels the scheduled check of a job, if there is one.
    pub(super) fn cancel(&mut self, job: JobId) {
        if let Some(at) = self.of_job.remove(&job) {
            let was_planned = self.by_time.remove(&(at, job));
            debug_assert!(was_planned, "job {job} has a time and is not planned");
        }
    }

    /// Removes the jobs whose time has come and returns them.
    fn take_due(&mut self, now: Duration) -> BTreeSet<JobId> {
        let mut due = BTreeSet::new();
        while let Some((at, job)) = self.by_time.first().copied().filter(|(at, _)| *at <= now) {
            self.by_time.remove(&(at, job));
            self.of_job.remove(&job);
            due.insert(job);
        }
        due
    }
}

/// Returns the time of the first check of a job that has waited since `since`. Before that time its requirements do not
/// count as unfulfillable.
pub(super) fn first_look(supply: &Supply, since: Duration) -> Duration {
    let grace = since.saturating_add(SHORTAGE_GRACE);
    match supply {
        Supply::Passive { start_up_until } => grace.max(*start_up_until),
        Supply::Active { .. } => grace,
    }
}

/// The prospect of a waiting job.
enum Outlook {
    /// The job's requirements cannot be met.
    Hopeless,
    /// The job's requirements may still be met until this monotonic time.
    HopefulUntil(Duration),
    /// The job's requirements can be met unless slots are lost.
    Hopeful,
}

impl SlotManager {
    /// Reports requirements that cannot be met to their JobMasters.
    pub(super) fn report_shortages(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let passive = matches!(self.settings.supply, Supply::Passive { .. });
        let refused = std::mem::take(&mut self.refusals_changed);
        if refused || (self.task_managers.take_shrunk() && passive) {
            // A job that was `Hopeful` may be `Hopeless` now.
            for job_id in self.queue.jobs() {
                let since = self.jobs.get(&job_id).and_then(|job| job.short_since);
                let first = first_look(&self.settings.supply, since.unwrap_or(now));
                self.agenda.plan(job_id, first.max(now));
            }
        }
        let mut tallies = BTreeMap::new();
        for job_id in self.agenda.take_due(now) {
            let Some(job) = self.jobs.get(&job_id) else {
                continue;
            };
            let told_until = job.told_at.map(|at| at.saturating_add(TELL_AGAIN));
            let wait = told_until.max(job.promised_until()).filter(|until| now < *until);
            if let Some(until) = wait {
                self.agenda.plan(job_id, until);
                continue;
            }
            match self.outlook(now, job_id, job) {
                Outlook::Hopeful => continue,
                Outlook::HopefulUntil(at) => {
                    self.agenda.plan(job_id, at);
                    continue;
                }
                Outlook::Hopeless => self.agenda.plan(job_id, now.saturating_add(TELL_AGAIN)),
            }
            commands.push(Command::ReportShortage(Shortage {
                job_id,
                job_master_id: job.job_master_id,
                message: self.shortage_message(job_id, job, &mut tallies),
            }));
            if let Some(job) = self.jobs.get_mut(&job_id) {
                job.told_at = Some(now);
            }
        }
    }

    fn outlook(&self, now: Duration, job_id: JobId, job: &Job) -> Outlook {
        let waiter = self.queue.get(job_id);
        let (Some(waiter), Some(since)) = (waiter, job.short_since) else {
            return Outlook::Hopeful;
        };
        match &self.settings.supply {
            // Slots that other jobs hold will be returned, so the job may wait for them. Its JobMaster decides how
            // long.
            Supply::Passive { .. } => {
                let all = self.task_managers.shelves().usable().as_slots();
                match unmet_by(&job.requirements, all).is_empty() {
                    true => Outlook::Hopeful,
                    false => Outlook::Hopeless,
                }
            }
            Supply::Active { request_timeout, task_manager, .. } => {
                let until = since.saturating_add(*request_timeout);
                let needed = task_managers_for(&waiter.unfulfilled, task_manager);
                let refused =
                    || needed.task_managers.keys().any(|spec| self.never_met.contains_key(spec));
                match now >= until || !needed.impossible.is_empty() || refused() {
                    true => Outlook::Hopeless,
                    false => Outlook::HopefulUntil(until),
                }
            }
        }
    }

    /// Returns the message about a job's shortage, for each unfulfilled profile: "needs 8 slots of …, 12 registered, 0
    /// free (held: 4 by this job, 8 by others that wait for slots)". `tallies` caches the counts for the other jobs of
    /// the same check.
    fn shortage_message(
        &self,
        job_id: JobId,
        job: &Job,
        tallies: &mut BTreeMap<ResourceProfile, Tally>,
    ) -> String {
        let unfulfilled: &[ResourceRequirement] =
            self.queue.get(job_id).map(|waiter| waiter.unfulfilled.as_slice()).unwrap_or_default();
        let mut parts = Vec::new();
        for ResourceRequirement { profile, .. } in unfulfilled {
            let same = job.requirements.iter().filter(|r| r.profile == *profile);
            let needs: u32 = same.map(|r| r.slots).fold(0, u32::saturating_add);
            let slots = if needs == 1 { "slot" } else { "slots" };
            let all = *tallies.entry(profile.clone()).or_insert_with(|| self.tally(profile));
            let there = self.seen_by(job_id, profile, all);
            parts.push(format!("needs {needs} {slots} of {profile}, {there}"));
        }
        if let Supply::Active { task_manager, .. } = &self.settings.supply {
            let never = "a TaskManager for them can never be started";
            let needed = task_managers_for(unfulfilled, task_manager).task_managers;
            let refused = needed.keys().filter_map(|spec| self.never_met.get(spec));
            parts.extend(refused.map(|cause| format!("{never}: {cause}")));
        }
        parts.join("; ")
    }

    /// Counts the slots that fulfil a profile, by the kind of their holder. The slots of all waiting jobs are counted
    /// together.
    fn tally(&self, profile: &ResourceProfile) -> Tally {
        let mut tally = Tally::default();
        for (_, task_manager) in self.task_managers.iter() {
            for slot in task_manager.slots.values().filter(|slot| slot.profile.fulfils(profile)) {
                tally.registered += 1;
                if let Some(of) = self.share_of(task_manager, slot, &mut tally) {
                    *of += 1;
                }
            }
        }
        tally
    }

    fn share_of<'t>(
        &self,
        task_manager: &TaskManager,
        slot: &Slot,
        tally: &'t mut Tally,
    ) -> Option<&'t mut u32> {
        match slot.state.holder() {
            Some(held) if self.queue.get(held.job_id).is_some() => Some(&mut tally.waiting),
            Some(held) if self.jobs.contains_key(&held.job_id) => Some(&mut tally.running),
            Some(_) => Some(&mut tally.unknown),
            None => {
                let free = slot.state == SlotState::Free && task_manager.usable();
                free.then_some(&mut tally.free)
            }
        }
    }

    /// Splits a waiting job's own slots off from those of all waiting jobs.
    fn seen_by(&self, job_id: JobId, profile: &ResourceProfile, mut tally: Tally) -> Tally {
        let held = self.task_managers.holdings().of(job_id);
        let own = held.into_iter().flat_map(|held| held.all.iter());
        let own = own.filter(|(of, _)| of.fulfils(profile)).map(|(_, slots)| slots).sum();
        debug_assert!(own <= tally.waiting, "{own} slots are a job's own, {tally:?}");
        tally.own = own;
        tally.waiting -= own.min(tally.waiting);
        tally
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    registered: u32,
    free: u32,
    own: u32,
    waiting: u32,
    running: u32,
    unknown: u32,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registered, free, own, waiting, running, unknown } = self;
        write!(f, "{registered} registered, {free} free")?;
        let held = [
            (own, "by this job"),
            (waiting, "by others that wait for slots"),
            (running, "by others that have all they need"),
            (unknown, "by jobs that have not come back, or have ended"),
        ];
        let held: Vec<String> = held
            .into_iter()
            .filter(|(slots, _)| **slots > 0)
            .map(|(slots, whom)| format!("{slots} {whom}"))
            .collect();
        if held.is_empty() { Ok(()) } else { write!(f, " (held: {})", held.join(", ")) }
    }
}
