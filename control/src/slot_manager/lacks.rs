//! What is said of requirements that can't be met: when, to whom, in which words. It must never say so of
//! slots that are merely on their way back.

use super::workers::SlotState;
use super::{
    Command, Job, Lack, SlotManager, Supply,
    matching::{count, unmet_by, workers_for},
};
use model::{JobId, ResourceProfile, ResourceRequirement};
use std::cell::LazyCell;
use std::fmt;
use std::time::Duration;

/// A lack is told again after so long while it lasts: what told it first may have been lost.
const TELL_AGAIN: Duration = Duration::from_secs(5);
/// A requirement counts as not met after so long: slots of a job that just ended may be coming back.
pub(super) const LACK_GRACE: Duration = Duration::from_millis(500);

impl SlotManager {
    /// Who can't be helped is told so.
    pub(super) fn tell_lacks(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let mut lacks = Vec::new();
        let all = LazyCell::new(|| count(self.usable_slots().map(|slot| &slot.profile)));
        for (job_id, job) in &self.jobs {
            let Some(since) = job.lacking_since else {
                continue;
            };
            let waited = now.saturating_sub(since);
            let told = job.told_at.is_some_and(|at| now.saturating_sub(at) < TELL_AGAIN);
            if told || job.is_promised(now) {
                continue;
            }
            let mut refused = Vec::new();
            let hopeless = match &self.settings.supply {
                // What others hold comes back, and is waited for: how long, the JobMaster knows.
                Supply::Passive { start_up_until } => {
                    let exceeds = || !unmet_by(&job.requirements, all.clone()).is_empty();
                    now >= *start_up_until && waited >= LACK_GRACE && exceeds()
                }
                Supply::Active { request_timeout, worker, .. } => {
                    let mut never = false;
                    if waited >= LACK_GRACE {
                        let needed = workers_for(&job.lacking, worker);
                        let specs = needed.workers.keys();
                        refused.extend(specs.filter_map(|spec| self.never_met.get(spec)));
                        never = !needed.impossible.is_empty() || !refused.is_empty();
                    }
                    never || waited >= *request_timeout
                }
            };
            if hopeless {
                lacks.push(Lack {
                    job_id: *job_id,
                    job_master_id: job.job_master_id,
                    acquired: self.acquired(*job_id),
                    message: self.lack_message(*job_id, job, &refused),
                });
            }
        }
        for lack in lacks {
            if let Some(job) = self.jobs.get_mut(&lack.job_id) {
                job.told_at = Some(now);
            }
            commands.push(Command::TellLack(lack));
        }
    }

    fn acquired(&self, job_id: JobId) -> Vec<ResourceRequirement> {
        let each = |(profile, slots): (&ResourceProfile, u32)| ResourceRequirement {
            profile: profile.clone(),
            slots,
        };
        let held = self.workers.held_by(job_id).map(|(_, _, slot)| &slot.profile);
        count(held).into_iter().map(each).collect()
    }

    /// "needs 8 slots of …, 12 registered, 0 free (held: 4 by this job, 8 by others that wait for slots)", for
    /// each profile that lacks. `refused`: why the external resource system can never provide a worker for them.
    fn lack_message(&self, job_id: JobId, job: &Job, refused: &[&String]) -> String {
        let mut parts = Vec::new();
        for lacking in &job.lacking {
            let profile = &lacking.profile;
            let same = job.requirements.iter().filter(|r| r.profile == *profile);
            let needs: u32 = same.map(|r| r.slots).fold(0, u32::saturating_add);
            let slots = if needs == 1 { "slot" } else { "slots" };
            let there = self.tally(job_id, profile);
            parts.push(format!("needs {needs} {slots} of {profile}, {there}"));
        }
        let never = "a TaskManager for them can never be started";
        parts.extend(refused.iter().map(|cause| format!("{never}: {cause}")));
        parts.join("; ")
    }

    /// Slots that fulfil a profile, by who has them.
    fn tally(&self, job_id: JobId, profile: &ResourceProfile) -> Tally {
        let mut tally = Tally::default();
        for (_, worker) in self.workers.iter() {
            for slot in worker.slots.values().filter(|slot| slot.profile.fulfils(profile)) {
                tally.registered += 1;
                let waits = |id| self.jobs.get(&id).is_some_and(|job| job.lacking_since.is_some());
                let of = match slot.state.holder() {
                    Some(held) if held.job_id == job_id => &mut tally.own,
                    Some(held) if waits(held.job_id) => &mut tally.waiting,
                    Some(held) if self.jobs.contains_key(&held.job_id) => &mut tally.running,
                    Some(_) => &mut tally.unknown,
                    None if slot.state == SlotState::Free && self.usable(worker) => &mut tally.free,
                    None => continue,
                };
                *of += 1;
            }
        }
        tally
    }
}

#[derive(Debug, Default)]
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
