//! Contention: several jobs wait for slots at the same time; which is served first, and which of
//! them yield.
//!
//! If several jobs each hold a part of the slots they need, none of them runs, and none ever will
//! while each keeps its part: after a failure, or when a JobManager has come back, parts are held
//! in any order. Therefore the jobs that are served later yield as many slots as one served earlier needs
//! to run. Functions of values alone. Which slots a job uses is not known here: its JobMaster keeps
//! that.
//!
//! Laws (see the property tests): a job yields only to one that is served before it; no job is
//! asked for more slots than are missing, nor for slots that would not suffice in the end; and the
//! first job that could be met with the slots of the jobs behind it is met.

use super::matching::{Slots, unmet_by};
use model::{JobId, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};

/// A job that waits for slots, with its shortage and the slots that it could yield (free for another job); an input of [`plan_yielding`],
/// which the SlotManager makes at most every 200 ms.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting<'a> {
    /// Id of the job that waits for slots.
    pub job_id: JobId,
    /// The job's place in the order of service; a job yields its slots only to jobs with a smaller one.
    pub turn: Turn,
    /// The requirements that the job's slots leave unfulfilled.
    pub unfulfilled: &'a [ResourceRequirement],
    /// Numbers of slots by profile that TaskExecutors have allocated to the job and that another job could use now. Empty if it has none,
    /// or is not to be asked: it was asked 2 to 15 s ago and has freed nothing since.
    pub held: Slots<'a>,
    /// True if the job has waited for slots longer than a grace time (0.5 s, or 15 s where TaskManagers are requested), so that
    /// other jobs are asked to yield to it. False: it may still get slots without that.
    pub is_due: bool,
}

/// A job's place in the order of service; the smaller is served first. Jobs that could be met with the free slots and those of
/// waiting jobs come before jobs that cannot be met until a running job ends, so that the latter do not keep the others
/// waiting. Among equals the job that declared first comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// True if the job needs more than the free slots and those of all waiting jobs, so that it has to wait for the end of a
    /// running job.
    pub exceeds: bool,
    /// The number of the job's first declaration; the job that declared first has the lowest.
    pub order: u64,
}

/// The decision which jobs yield (give up) slots and which jobs get them, made by [`plan_yielding`] and carried out by the SlotManager;
/// both sets are empty if no job yields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct YieldPlan {
    /// The jobs that are to be asked to yield, each with the number of slots of each profile that it is to give up; empty if no job yields.
    /// The SlotManager does not ask a job again that it asked less than 2 s ago.
    pub givers: BTreeMap<JobId, Vec<ResourceRequirement>>,
    /// The jobs that the slots are taken for: each will have all it needs with these slots and the ones it holds; empty if no job yields.
    /// Nothing is reserved for them: the freed slots are given in the order of service. Their shortages are not reported for 2 s.
    pub receivers: BTreeSet<JobId>,
}

/// Decides which waiting jobs yield slots so that others can run. For each job that is due, in the order of service, slots of later jobs
/// are taken, of the last one first, if they meet its whole shortage; otherwise nothing is taken for it. A job that yields gets nothing in
/// the same plan, and yields to one job only. Only decides; the SlotManager asks the jobs.
pub fn plan_yielding(mut waiting: Vec<Waiting<'_>>) -> YieldPlan {
    waiting.sort_by_key(|job| job.turn);
    let mut plan = YieldPlan::default();
    // Jobs that hold slots which they may yield, the job that is served last first: it yields first.
    let mut holders: Vec<&Waiting<'_>> =
        waiting.iter().rev().filter(|job| !job.held.is_empty()).collect();
    for job in waiting.iter().filter(|job| job.is_due) {
        if holders.is_empty() {
            break;
        }
        // The job yields its own slots in this round.
        if plan.givers.contains_key(&job.job_id) {
            continue;
        }
        let mut rest = job.unfulfilled.to_vec();
        let mut given = Vec::new();
        for other in holders.iter().take_while(|other| other.turn > job.turn) {
            if rest.is_empty() {
                break;
            }
            let left = unmet_by(&rest, other.held.clone());
            let gives = difference(&rest, &left);
            if !gives.is_empty() {
                given.push((other.job_id, gives));
                rest = left;
            }
        }
        if rest.is_empty() {
            plan.givers.extend(given);
            holders.retain(|holder| !plan.givers.contains_key(&holder.job_id));
            plan.receivers.insert(job.job_id);
        }
    }
    plan
}

/// Returns the difference between `of` and `left` for each profile.
fn difference(
    of: &[ResourceRequirement],
    left: &[ResourceRequirement],
) -> Vec<ResourceRequirement> {
    let slots_in = |all: &[ResourceRequirement], like: &ResourceRequirement| {
        let same = all.iter().filter(|r| r.profile == like.profile);
        same.map(|r| r.slots).fold(0, u32::saturating_add)
    };
    let each = of.iter().map(|need| {
        let unmet = slots_in(left, need);
        debug_assert!(unmet <= need.slots, "more is unmet than was unfulfilled");
        let slots = need.slots.saturating_sub(unmet);
        ResourceRequirement { profile: need.profile.clone(), slots }
    });
    each.filter(|need| need.slots > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ResourceProfile;
    use proptest::prelude::*;

    /// A job's shortage and held slots, all of one profile.
    #[derive(Debug, Clone)]
    struct Job {
        id: u128,
        exceeds: bool,
        unfulfilled: Vec<ResourceRequirement>,
        held: u32,
        is_due: bool,
    }

    fn slots(slots: u32) -> Vec<ResourceRequirement> {
        vec![ResourceRequirement { profile: ResourceProfile::unknown(), slots }]
    }

    fn job(id: u128, shortage: u32, held: u32) -> Job {
        Job { id, exceeds: false, unfulfilled: slots(shortage), held, is_due: true }
    }

    fn plan_of(jobs: &[Job]) -> YieldPlan {
        let profile = ResourceProfile::default();
        let waiting = jobs.iter().map(|job| Waiting {
            job_id: JobId(job.id),
            turn: Turn { exceeds: job.exceeds, order: u64::try_from(job.id).unwrap() },
            unfulfilled: &job.unfulfilled,
            held: BTreeMap::from([(&profile, job.held)]),
            is_due: job.is_due,
        });
        plan_yielding(waiting.collect())
    }

    /// Returns the jobs that yield, each with its number of slots.
    fn gives(jobs: &[Job]) -> Vec<(u128, u32)> {
        let sum = |of: Vec<ResourceRequirement>| of.iter().map(|r| r.slots).sum();
        plan_of(jobs).givers.into_iter().map(|(id, of)| (id.0, sum(of))).collect()
    }

    #[test]
    fn of_three_that_hold_a_part_each_the_last_yields_to_the_first() {
        let three = [job(1, 4, 4), job(2, 4, 4), job(3, 4, 4)];
        assert_eq!(gives(&three), [(3, 4)]);
        assert_eq!(plan_of(&three).receivers, BTreeSet::from([JobId(1)]));
    }

    #[test]
    fn no_job_yields_to_one_that_would_have_too_little_all_the_same() {
        assert_eq!(gives(&[job(1, 9, 4), job(2, 4, 4), job(3, 4, 4)]), [(3, 4)]);
        assert_eq!(gives(&[job(1, 9, 4), job(2, 4, 4)]), []);
    }

    #[test]
    fn one_that_needs_more_than_there_is_yields_to_later_ones_what_they_need() {
        let first = Job { exceeds: true, ..job(1, 1, 18) };
        assert_eq!(gives(&[first, job(2, 4, 0)]), [(1, 4)]);
    }

    #[test]
    fn a_job_that_has_waited_for_a_moment_only_takes_nothing_yet() {
        let first = Job { is_due: false, ..job(1, 4, 4) };
        assert_eq!(gives(&[first, job(2, 4, 4)]), []);
    }

    #[test]
    fn slots_that_are_too_small_are_not_asked_for() {
        let profile = ResourceProfile { cpu_millis: 2000, ..Default::default() };
        let unfulfilled = vec![ResourceRequirement { profile, slots: 1 }];
        assert_eq!(gives(&[Job { unfulfilled, ..job(1, 1, 1) }, job(2, 4, 4)]), []);
    }

    prop_compose! {
        fn a_job()(id in 1u128..7, shortage in 1u32..9, held in 0u32..9, exceeds in any::<bool>(), is_due in any::<bool>()) -> Job {
            Job { exceeds, is_due, ..job(id, shortage, held) }
        }
    }

    proptest! {
        #[test]
        fn a_job_that_yields_lets_an_earlier_one_run(jobs in proptest::collection::vec(a_job(), 0..6)) {
            let mut jobs = jobs;
            jobs.sort_by_key(|job| job.id);
            jobs.dedup_by_key(|job| job.id);
            jobs.sort_by_key(|job| (job.exceeds, job.id));
            let (plan, gives) = (plan_of(&jobs), gives(&jobs));
            let shortage = |job: &Job| job.unfulfilled[0].slots;
            let receives = |job: &&Job| plan.receivers.contains(&JobId(job.id));
            let place = |id| jobs.iter().position(|job| job.id == id).unwrap();
            // The yielded slots cover a shortage exactly, and were held.
            let given: u32 = gives.iter().map(|(_, slots)| slots).sum();
            prop_assert_eq!(given, jobs.iter().filter(receives).map(shortage).sum::<u32>());
            for (giver, slots) in &gives {
                prop_assert!(*slots > 0 && *slots <= jobs[place(*giver)].held);
                let mut before = jobs.iter().take(place(*giver)).filter(receives);
                prop_assert!(before.any(|job| job.is_due), "{giver} yields for nothing");
                prop_assert!(!plan.receivers.contains(&JobId(*giver)));
            }
            // Progress: the first job that could be met with everything that later jobs hold is met.
            let met = jobs.iter().enumerate().find(|(place, job)| {
                let behind: u32 = jobs.iter().skip(place + 1).map(|j| j.held).sum();
                job.is_due && shortage(job) <= behind
            });
            if let Some((_, job)) = met {
                prop_assert!(receives(&job), "{job:?} waits for ever");
            }
        }
    }
}
