//! Chooses the free slots that a job gets for a requirement. This module looks only at the TaskManagers that it chooses and
//! at those on which the job holds slots; it must never iterate over all TaskManagers.

use super::shelves::{Shelves, most_used_first};
use super::task_managers::{TaskManager, TaskManagers};
use model::{InstanceId, JobId, ResourceProfile, ResourceRequirement};
use std::collections::{BTreeMap, BTreeSet};

/// A slot: its TaskManager and its index there.
type Place = (InstanceId, u32);

/// Returns free slots for a requirement, at most as many as it asks for, those with the smallest sufficient profile
/// first. Within a profile, TaskManagers on which the job holds slots come first, then those with the most used slots.
/// With `spread_out`, slots are taken in turn from the TaskManagers with the fewest used slots instead.
pub(super) fn choose(
    task_managers: &TaskManagers,
    job: JobId,
    need: &ResourceRequirement,
    spread_out: bool,
) -> Vec<Place> {
    let wanted = usize::try_from(need.slots).unwrap_or(usize::MAX);
    let own: BTreeMap<InstanceId, usize> = task_managers.holdings().task_managers_of(job).collect();
    let mut chosen = Vec::new();
    for (profile, shelf) in task_managers.shelves().fulfilling(&need.profile) {
        let left = wanted.saturating_sub(chosen.len());
        if left == 0 {
            break;
        }
        if spread_out {
            let others = shelf.iter().map(|(_, instance)| *instance);
            in_turn(task_managers, profile, &own, others, left, &mut chosen);
        } else {
            let others = most_used_first(shelf);
            one_after_the_other(task_managers, profile, &own, others, left, &mut chosen);
        }
    }
    chosen
}

/// Returns the indexes of a TaskManager's free slots that offer `profile`, ascending.
fn free_of<'w>(
    shelves: &'w Shelves,
    task_manager: &'w TaskManager,
    profile: &'w ResourceProfile,
) -> impl Iterator<Item = u32> + 'w {
    let free = move |(index, slot): (&u32, &super::task_managers::Slot)| {
        (slot.profile == *profile && shelves.is_free(slot)).then_some(*index)
    };
    task_manager.slots.iter().filter_map(free)
}

fn one_after_the_other(
    task_managers: &TaskManagers,
    profile: &ResourceProfile,
    own: &BTreeMap<InstanceId, usize>,
    others: impl Iterator<Item = InstanceId>,
    wanted: usize,
    chosen: &mut Vec<Place>,
) {
    let usable = |instance: &InstanceId| {
        task_managers.get(*instance).filter(|task_manager| task_manager.usable())
    };
    let mut first: Vec<_> = own
        .iter()
        .filter_map(|(instance, slots)| Some((*slots, usable(instance)?.used(), *instance)))
        .collect();
    first.sort_unstable_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(&b.2)));
    let first = first.into_iter().map(|(_, _, instance)| instance);
    let others = others.filter(|instance| !own.contains_key(instance));
    let all = first.chain(others).filter_map(|instance| Some((instance, usable(&instance)?)));
    let slots = all.flat_map(|(instance, task_manager)| {
        free_of(task_managers.shelves(), task_manager, profile).map(move |index| (instance, index))
    });
    chosen.extend(slots.take(wanted));
}

/// The order in which TaskManagers give slots in turn: used and newly chosen slots ascending, then the job's own slots
/// descending (as `usize::MAX` minus their number), then the TaskManager.
type Rank = (u32, usize, InstanceId);

fn in_turn(
    task_managers: &TaskManagers,
    profile: &ResourceProfile,
    own: &BTreeMap<InstanceId, usize>,
    others: impl Iterator<Item = InstanceId>,
    wanted: usize,
    chosen: &mut Vec<Place>,
) {
    let rank = |instance: InstanceId| -> Option<Rank> {
        let task_manager =
            task_managers.get(instance).filter(|task_manager| task_manager.usable())?;
        let slots = own.get(&instance).copied().unwrap_or(0);
        Some((task_manager.used(), usize::MAX - slots, instance))
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
        let Some(task_manager) = task_managers.get(instance) else {
            continue;
        };
        let free = given.entry(instance).or_insert_with(|| {
            let mut free: Vec<u32> =
                free_of(task_managers.shelves(), task_manager, profile).collect();
            free.reverse();
            free
        });
        if let Some(index) = free.pop() {
            chosen.push((instance, index));
            ranks.insert((used + 1, affinity, instance));
        }
    }
}
