//! The jobs with a shortage, in the order in which they are served, with sums that show which of them can be met. No
//! operation on one job may iterate over the whole queue: one more job costs the same with ten and with a thousand jobs
//! waiting.

use super::contention::Turn;
use super::counts::Counts;
use super::matching::unmet_by;
use model::{JobId, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The queue's entry for one job.
#[derive(Debug)]
pub(super) struct Waiter {
    /// The number of the job's first declaration.
    pub(super) order: u64,
    /// The job's unfulfilled requirements; not empty.
    pub(super) unfulfilled: Vec<ResourceRequirement>,
    /// The slots that the job holds on usable TaskManagers.
    pub(super) own: Counts,
    /// True if a TaskExecutor has allocated some of these slots, so that other jobs could use them.
    pub(super) gives: bool,
}

impl Waiter {
    /// Returns the number of slots that the job is short of.
    fn shortage(&self) -> u64 {
        self.unfulfilled.iter().map(|need| u64::from(need.slots)).sum()
    }

    /// Returns the number of slots that the pool must contain for this job, its own included.
    fn demand(&self) -> u64 {
        self.shortage() + self.own.total()
    }
}

/// Jobs by a number of slots, then by the order of their declarations.
type BySlots = BTreeMap<u64, BTreeMap<u64, JobId>>;

/// All jobs with a shortage.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: BTreeMap<JobId, Waiter>,
    by_order: BTreeMap<u64, JobId>,
    by_demand: BySlots,
    by_shortage: BySlots,
    givers: BTreeSet<JobId>,
    /// The unfulfilled requirements of all waiting jobs together.
    unfulfilled: Counts,
    /// The slots that all waiting jobs hold on usable TaskManagers.
    own: Counts,
}

impl Queue {
    /// Returns the number of waiting jobs.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns true if no job waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Returns the entry of a job; `None` if it does not wait.
    pub(super) fn get(&self, job: JobId) -> Option<&Waiter> {
        self.waiters.get(&job)
    }

    /// Returns all waiting jobs.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.waiters.keys().copied()
    }

    /// Returns the waiting jobs that hold slots which other jobs could use.
    pub(super) fn givers(&self) -> impl Iterator<Item = JobId> {
        self.givers.iter().copied()
    }

    /// Returns the unfulfilled requirements of all waiting jobs together.
    pub(super) fn unfulfilled(&self) -> &Counts {
        &self.unfulfilled
    }

    /// Returns the slots that all waiting jobs hold on usable TaskManagers.
    pub(super) fn own(&self) -> &Counts {
        &self.own
    }

    /// Inserts a job, or replaces its entry.
    pub(super) fn put(&mut self, job: JobId, waiter: Waiter) {
        self.remove(job);
        self.by_order.insert(waiter.order, job);
        self.by_demand.entry(waiter.demand()).or_default().insert(waiter.order, job);
        self.by_shortage.entry(waiter.shortage()).or_default().insert(waiter.order, job);
        if waiter.gives {
            self.givers.insert(job);
        }
        self.unfulfilled.add_all(&waiter.unfulfilled.iter().collect());
        self.own.add_all(&waiter.own);
        self.waiters.insert(job, waiter);
    }

    /// Removes a job; does nothing if it does not wait.
    pub(super) fn remove(&mut self, job: JobId) {
        let Some(waiter) = self.waiters.remove(&job) else {
            return;
        };
        self.by_order.remove(&waiter.order);
        take_from(&mut self.by_demand, waiter.demand(), waiter.order);
        take_from(&mut self.by_shortage, waiter.shortage(), waiter.order);
        self.givers.remove(&job);
        self.unfulfilled.take_all(&waiter.unfulfilled.iter().collect());
        self.own.take_all(&waiter.own);
    }

    /// Returns the first job behind the declaration number `last`, in the order of declarations.
    pub(super) fn next(&self, last: Option<u64>) -> Option<(u64, JobId)> {
        first_after(&self.by_order, last)
    }

    /// Returns the first job behind `last` whose demand is at most `pool` slots. Profiles are not compared.
    pub(super) fn next_within(&self, pool: u64, last: Option<u64>) -> Option<(u64, JobId)> {
        self.by_demand.range(..=pool).filter_map(|(_, jobs)| first_after(jobs, last)).min()
    }

    /// Returns the jobs with a shortage of at most `slots` slots.
    pub(super) fn shortage_at_most(&self, slots: u64) -> impl Iterator<Item = JobId> {
        self.by_shortage.range(..=slots).flat_map(|(_, jobs)| jobs.values().copied())
    }

    /// Returns true if a job needs more than the slots of `pool` that are not its own. Such a job cannot be met before
    /// a running job ends.
    pub(super) fn exceeds(waiter: &Waiter, pool: &Counts) -> bool {
        if waiter.demand() > pool.total() {
            return true;
        }
        let mut others = pool.as_slots();
        for (profile, own) in waiter.own.iter() {
            if let Some(slots) = others.get_mut(profile) {
                debug_assert!(*slots >= own, "a job's own slots are not in the pool");
                *slots -= own.min(*slots);
            }
        }
        !unmet_by(&waiter.unfulfilled, others).is_empty()
    }

    /// Returns a job's place in the order of service, given a pool of these slots.
    pub(super) fn turn(waiter: &Waiter, pool: &Counts) -> Turn {
        Turn { exceeds: Self::exceeds(waiter, pool), order: waiter.order }
    }
}

fn first_after(jobs: &BTreeMap<u64, JobId>, last: Option<u64>) -> Option<(u64, JobId)> {
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    jobs.range((from, Bound::Unbounded)).next().map(|(order, job)| (*order, *job))
}

fn take_from(of: &mut BySlots, slots: u64, order: u64) {
    if let Some(jobs) = of.get_mut(&slots) {
        jobs.remove(&order);
        if jobs.is_empty() {
            of.remove(&slots);
        }
    }
}
