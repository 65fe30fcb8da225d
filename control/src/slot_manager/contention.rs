//! Jobs that wait for slots beside each other: which of them is served first, and who gives way.
//!
//! Of several jobs that each hold a part of what they need, none runs, and none ever will while each keeps its
//! part: after a failure, or when a JobManager has come back, parts are held in any order. So those that
//! are served later give way where that lets one run that is served earlier. Functions of values alone; what a
//! job uses is never asked for here, nor known: its JobMaster keeps that.
//!
//! Laws (see the property tests): a job gives way only to one that is served before it; it is asked only if
//! with it all that the other lacks is there; and the first that could be met with what all others hold, is.

use super::matching::unmet;
use model::{JobId, ResourceProfile, ResourceRequirement};
use std::collections::BTreeSet;

/// A job that lacks slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The job.
    pub job_id: JobId,
    /// Its place in the queue.
    pub turn: Turn,
    /// What it lacks.
    pub lacking: Vec<ResourceRequirement>,
    /// The slots that it has.
    pub held: Vec<ResourceProfile>,
    /// Whether it has waited for so long that others are asked.
    pub is_due: bool,
}

/// When a job is served: those that all slots there are could meet go before those that need more than there
/// is, and must not keep the others waiting for what may never come; then who declared first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Whether it needs more than all registered slots.
    pub exceeds: bool,
    /// The number of its first declaration.
    pub order: u64,
}

/// Who gives way, so that others can run.
pub fn who_gives_way(mut waiting: Vec<Waiting>) -> BTreeSet<JobId> {
    waiting.sort_by_key(|job| job.turn);
    let mut asked = BTreeSet::new();
    for (place, job) in waiting.iter().enumerate().filter(|(_, job)| job.is_due) {
        // It gave its own away.
        if asked.contains(&job.job_id) {
            continue;
        }
        let later = waiting.get(place + 1..).unwrap_or_default();
        let mut rest = job.lacking.clone();
        let mut givers = Vec::new();
        // Who is served last gives first.
        for other in later.iter().rev().filter(|other| !asked.contains(&other.job_id)) {
            if rest.is_empty() {
                break;
            }
            let left = unmet(&rest, &other.held);
            if left != rest {
                givers.push(other.job_id);
                rest = left;
            }
        }
        if rest.is_empty() {
            asked.extend(givers);
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn needs(slots: u32) -> Vec<ResourceRequirement> {
        vec![ResourceRequirement { profile: ResourceProfile::unknown(), slots }]
    }

    fn job(id: u128, lacks: u32, held: usize) -> Waiting {
        Waiting {
            job_id: JobId(id),
            turn: Turn { exceeds: false, order: u64::try_from(id).unwrap() },
            lacking: needs(lacks),
            held: vec![ResourceProfile::default(); held],
            is_due: true,
        }
    }

    fn ids(of: &[u128]) -> BTreeSet<JobId> {
        of.iter().copied().map(JobId).collect()
    }

    #[test]
    fn of_three_that_hold_a_part_each_the_last_gives_way_to_the_first() {
        assert_eq!(who_gives_way(vec![job(1, 4, 4), job(2, 4, 4), job(3, 4, 4)]), ids(&[3]));
    }

    #[test]
    fn nobody_gives_way_to_one_that_would_have_too_little_all_the_same() {
        assert_eq!(who_gives_way(vec![job(1, 9, 4), job(2, 4, 4), job(3, 4, 4)]), ids(&[3]));
        assert_eq!(who_gives_way(vec![job(1, 9, 4), job(2, 4, 4)]), ids(&[]));
    }

    #[test]
    fn one_that_needs_more_than_there_is_gives_way_to_those_that_came_later() {
        let mut first = job(1, 1, 18);
        first.turn.exceeds = true;
        assert_eq!(who_gives_way(vec![first, job(2, 4, 0)]), ids(&[1]));
    }

    #[test]
    fn a_job_that_has_waited_for_a_moment_only_takes_nothing_yet() {
        let mut first = job(1, 4, 4);
        first.is_due = false;
        assert_eq!(who_gives_way(vec![first, job(2, 4, 4)]), ids(&[]));
    }

    #[test]
    fn slots_that_are_too_small_are_not_asked_for() {
        let mut first = job(1, 1, 1);
        let large = ResourceProfile { cpu_millis: 2000, ..Default::default() };
        first.lacking = vec![ResourceRequirement { profile: large, slots: 1 }];
        assert_eq!(who_gives_way(vec![first, job(2, 4, 4)]), ids(&[]));
    }

    prop_compose! {
        fn a_job()(id in 1u128..7, lacks in 1u32..9, held in 0usize..9, exceeds in any::<bool>(), is_due in any::<bool>()) -> Waiting {
            let mut job = job(id, lacks, held);
            job.turn.exceeds = exceeds;
            job.is_due = is_due;
            job
        }
    }

    proptest! {
        #[test]
        fn who_gives_way_lets_somebody_before_him_run(jobs in proptest::collection::vec(a_job(), 0..6)) {
            let mut jobs = jobs;
            jobs.sort_by_key(|job| job.turn);
            jobs.dedup_by_key(|job| job.turn);
            let mut seen = BTreeSet::new();
            jobs.retain(|job| seen.insert(job.job_id));
            let asked = who_gives_way(jobs.clone());
            let lacks = |job: &Waiting| job.lacking.iter().map(|r| r.slots as usize).sum::<usize>();
            let given: usize = jobs.iter().filter(|j| asked.contains(&j.job_id)).map(|j| j.held.len()).sum();
            for giver in jobs.iter().filter(|j| asked.contains(&j.job_id)) {
                let mut before = jobs.iter().filter(|j| j.turn < giver.turn && j.is_due && !asked.contains(&j.job_id));
                prop_assert!(before.any(|j| lacks(j) <= given), "{giver:?} gives way for nothing");
            }
            // Progress: the first that could be met with all that those behind it hold is met.
            let met = jobs.iter().enumerate().find(|(place, job)| {
                let behind: usize = jobs.iter().skip(place + 1).map(|j| j.held.len()).sum();
                job.is_due && lacks(job) <= behind
            });
            if let Some((_, job)) = met {
                prop_assert!(!asked.contains(&job.job_id) && given >= lacks(job), "{job:?} waits for ever");
            }
        }
    }
}
