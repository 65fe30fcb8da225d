//! The jobs that lack slots, in the order in which they are served, with the sums that say who can be met. It must
//! never be walked over for the sake of one job: with a thousand jobs waiting, one more costs as much as with ten.

use super::contention::Turn;
use super::counts::Counts;
use super::matching::unmet_by;
use model::{JobId, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What the queue knows of one job.
#[derive(Debug)]
pub(super) struct Waiter {
    /// The number of its first declaration.
    pub(super) order: u64,
    /// What it lacks; not empty.
    pub(super) lacking: Vec<ResourceRequirement>,
    /// What it holds on usable workers.
    pub(super) own: Counts,
    /// Whether some of that was given by a TaskExecutor: then others may have use for it.
    pub(super) gives: bool,
}

impl Waiter {
    fn lacks(&self) -> u64 {
        self.lacking.iter().map(|need| u64::from(need.slots)).sum()
    }

    /// How many slots it must find in the pool, its own among them.
    fn demand(&self) -> u64 {
        self.lacks() + self.own.total()
    }
}

/// Jobs by a number of slots, then by their order.
type BySlots = BTreeMap<u64, BTreeMap<u64, JobId>>;

/// All jobs that lack slots.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiters: BTreeMap<JobId, Waiter>,
    by_order: BTreeMap<u64, JobId>,
    by_demand: BySlots,
    by_lack: BySlots,
    givers: BTreeSet<JobId>,
    /// What all of them lack.
    lacking: Counts,
    /// What all of them hold on usable workers.
    own: Counts,
}

impl Queue {
    /// Returns how many jobs wait.
    pub(super) fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Returns whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Returns a job that waits.
    pub(super) fn get(&self, job: JobId) -> Option<&Waiter> {
        self.waiters.get(&job)
    }

    /// Returns every job that waits.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.waiters.keys().copied()
    }

    /// Returns the jobs that hold slots for which others may have use.
    pub(super) fn givers(&self) -> impl Iterator<Item = JobId> {
        self.givers.iter().copied()
    }

    /// Returns what all jobs lack together.
    pub(super) fn lacking(&self) -> &Counts {
        &self.lacking
    }

    /// Returns what all jobs that wait hold on usable workers.
    pub(super) fn own(&self) -> &Counts {
        &self.own
    }

    /// Puts a job in its place, or in another one.
    pub(super) fn put(&mut self, job: JobId, waiter: Waiter) {
        self.remove(job);
        self.by_order.insert(waiter.order, job);
        self.by_demand.entry(waiter.demand()).or_default().insert(waiter.order, job);
        self.by_lack.entry(waiter.lacks()).or_default().insert(waiter.order, job);
        if waiter.gives {
            self.givers.insert(job);
        }
        self.lacking.add_all(&waiter.lacking.iter().collect());
        self.own.add_all(&waiter.own);
        self.waiters.insert(job, waiter);
    }

    /// Takes a job out; nothing happens where it does not wait.
    pub(super) fn remove(&mut self, job: JobId) {
        let Some(waiter) = self.waiters.remove(&job) else {
            return;
        };
        self.by_order.remove(&waiter.order);
        take_from(&mut self.by_demand, waiter.demand(), waiter.order);
        take_from(&mut self.by_lack, waiter.lacks(), waiter.order);
        self.givers.remove(&job);
        self.lacking.take_all(&waiter.lacking.iter().collect());
        self.own.take_all(&waiter.own);
    }

    /// Returns the first job behind `last` (a number of a declaration), in order.
    pub(super) fn next(&self, last: Option<u64>) -> Option<(u64, JobId)> {
        behind(&self.by_order, last)
    }

    /// Returns the first job behind `last` that a pool of so many slots might meet, by their number.
    pub(super) fn next_within(&self, pool: u64, last: Option<u64>) -> Option<(u64, JobId)> {
        self.by_demand.range(..=pool).filter_map(|(_, jobs)| behind(jobs, last)).min()
    }

    /// Returns the jobs that lack so many slots at most.
    pub(super) fn lacking_at_most(&self, slots: u64) -> impl Iterator<Item = JobId> {
        self.by_lack.range(..=slots).flat_map(|(_, jobs)| jobs.values().copied())
    }

    /// Returns whether a job needs more than the slots of `pool` that are not its own: then it cannot be met before
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
        !unmet_by(&waiter.lacking, others).is_empty()
    }

    /// Returns when a job is served, in a pool of these slots.
    pub(super) fn turn(waiter: &Waiter, pool: &Counts) -> Turn {
        Turn { exceeds: Self::exceeds(waiter, pool), order: waiter.order }
    }
}

fn behind(jobs: &BTreeMap<u64, JobId>, last: Option<u64>) -> Option<(u64, JobId)> {
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
