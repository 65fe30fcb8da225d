//! Chooses the free slots that a job gets for a requirement. This module looks only at the workers that it chooses and
//! at those on which the job holds slots; it must never iterate over all workers.

use super::shelves::{Shelves, most_used_first};
use super::workers::{Worker, Workers};
use model::{InstanceId, JobId, ResourceProfile, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};

/// A slot: its worker and its index on that worker.
type Place = (InstanceId, u32);

/// Returns free slots for a requirement, at most as many as it asks for, those with the smallest sufficient profile
/// first. Within a profile, workers on which the job holds slots come first, then the workers with the most used slots.
/// With `spread_out`, slots are taken in turn from the workers with the fewest used slots instead.
pub(super) fn choose(
    workers: &Workers,
    job: JobId,
    need: &ResourceRequirement,
    spread_out: bool,
) -> Vec<Place> {
    let wanted = usize::try_from(need.slots).unwrap_or(usize::MAX);
    let own: BTreeMap<InstanceId, usize> = workers.holdings().workers_of(job).collect();
    let mut chosen = Vec::new();
    for (profile, shelf) in workers.shelves().fulfilling(&need.profile) {
        let left = wanted.saturating_sub(chosen.len());
        if left == 0 {
            break;
        }
        if spread_out {
            let others = shelf.iter().map(|(_, instance)| *instance);
            in_turn(workers, profile, &own, others, left, &mut chosen);
        } else {
            let others = most_used_first(shelf);
            one_after_the_other(workers, profile, &own, others, left, &mut chosen);
        }
    }
    chosen
}

/// Returns the indexes of a worker's free slots that offer `profile`, ascending.
fn free_of<'w>(
    shelves: &'w Shelves,
    worker: &'w Worker,
    profile: &'w ResourceProfile,
) -> impl Iterator<Item = u32> + 'w {
    let free = move |(index, slot): (&u32, &super::workers::Slot)| {
        (slot.profile == *profile && shelves.is_free(slot)).then_some(*index)
    };
    worker.slots.iter().filter_map(free)
}

fn one_after_the_other(
    workers: &Workers,
    profile: &ResourceProfile,
    own: &BTreeMap<InstanceId, usize>,
    others: impl Iterator<Item = InstanceId>,
    wanted: usize,
    chosen: &mut Vec<Place>,
) {
    let usable = |instance: &InstanceId| workers.get(*instance).filter(|worker| worker.usable());
    let mut first: Vec<_> = own
        .iter()
        .filter_map(|(instance, slots)| Some((*slots, usable(instance)?.used(), *instance)))
        .collect();
    first.sort_unstable_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(&b.2)));
    let first = first.into_iter().map(|(_, _, instance)| instance);
    let others = others.filter(|instance| !own.contains_key(instance));
    let all = first.chain(others).filter_map(|instance| Some((instance, usable(&instance)?)));
    let slots = all.flat_map(|(instance, worker)| {
        free_of(workers.shelves(), worker, profile).map(move |index| (instance, index))
    });
    chosen.extend(slots.take(wanted));
}

/// The order in which workers give slots in turn: used and newly chosen slots ascending, then the job's own slots
/// descending (as `usize::MAX` minus their number), then the worker.
type Rank = (u32, usize, InstanceId);

fn in_turn(
    workers: &Workers,
    profile: &ResourceProfile,
    own: &BTreeMap<InstanceId, usize>,
    others: impl Iterator<Item = InstanceId>,
    wanted: usize,
    chosen: &mut Vec<Place>,
) {
    let rank = |instance: InstanceId| -> Option<Rank> {
        let worker = workers.get(instance).filter(|worker| worker.usable())?;
        let slots = own.get(&instance).copied().unwrap_or(0);
        Some((worker.used(), usize::MAX - slots, instance))
    };
    let mut ranks: BTreeSet<Rank> = own.keys().filter_map(|instance| rank(*instance)).collect();
    // `others` is sorted by rank and read only as far as needed.
    let others = others.filter(|instance| !own.contains_key(instance));
    let mut others = others.filter_map(rank).peekable();
    let mut given: BTreeMap<InstanceId, Vec<u32>> = BTreeMap::new();
    let end = chosen.len().saturating_add(wanted);
    while chosen.len() < end {
        let next_other = others.next_if(|other| ranks.first().is_none_or(|first| other < first));
        let Some((used, affinity, instance)) = next_other.or_else(|| ranks.pop_first()) else {
            return;
        };
        let Some(worker) = workers.get(instance) else {
            continue;
        };
        let free = given.entry(instance).or_insert_with(|| {
            let mut free: Vec<u32> = free_of(workers.shelves(), worker, profile).collect();
            free.reverse();
            free
        });
        if let Some(index) = free.pop() {
            chosen.push((instance, index));
            ranks.insert((used + 1, affinity, instance));
        }
    }
}
