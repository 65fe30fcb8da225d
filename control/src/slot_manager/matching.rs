//! Matches slots with requirements, and computes the TaskManagers that the unmet rest needs. Functions
//! of values alone.
//!
//! Laws (see the property tests): a slot meets one requirement at most; a requirement is never met by
//! more slots than it asks for; TaskManagers asked for never offer a whole TaskManager more than is unmet.

use model::{ResourceProfile, ResourceRequirement, WorkerResourceSpec};
use std::collections::BTreeMap;

/// Returns the part of `requirements` that slots with the profiles in `held`, one slot for each, leave unmet, summed by profile,
/// the most demanding first (most CPU, then most memory); empty if all are met. The most demanding requirement chooses first, and takes
/// the smallest slots that fulfil it; each slot meets one requirement.
pub fn unmet<'a>(
    requirements: &[ResourceRequirement],
    held: impl IntoIterator<Item = &'a ResourceProfile>,
) -> Vec<ResourceRequirement> {
    unmet_by(requirements, count(held))
}

/// Number of slots for each profile (the resources that one slot offers), the least demanding first (least CPU, then least memory); an
/// input of [`unmet_by`], which uses them up.
pub type Slots<'a> = BTreeMap<&'a ResourceProfile, u32>;

/// Returns how many slots there are of each profile; each item of `slots` is the profile of one slot.
pub fn count<'a>(slots: impl IntoIterator<Item = &'a ResourceProfile>) -> Slots<'a> {
    let mut by_profile = Slots::new();
    for profile in slots {
        let slots = by_profile.entry(profile).or_default();
        *slots = slots.saturating_add(1);
    }
    by_profile
}

/// Computes the same as [`unmet`] from slots that were counted before, `by_profile`: returns the part of `requirements` that
/// they leave unmet.
pub fn unmet_by(
    requirements: &[ResourceRequirement],
    mut by_profile: Slots<'_>,
) -> Vec<ResourceRequirement> {
    let mut rest = Vec::new();
    for (need, slots) in demanding_first(requirements) {
        let mut missing = slots;
        for (_, have) in by_profile.iter_mut().filter(|(profile, _)| profile.fulfils(need)) {
            let taken = missing.min(*have);
            *have -= taken;
            missing -= taken;
        }
        if missing > 0 {
            rest.push(ResourceRequirement { profile: need.clone(), slots: missing });
        }
    }
    rest
}

/// Requirements summed by profile, the most demanding first.
fn demanding_first(requirements: &[ResourceRequirement]) -> Vec<(&ResourceProfile, u32)> {
    let mut sums: BTreeMap<&ResourceProfile, u32> = BTreeMap::new();
    for requirement in requirements {
        let slots = sums.entry(&requirement.profile).or_default();
        *slots = slots.saturating_add(requirement.slots);
    }
    sums.into_iter().rev().collect()
}

/// The new TaskManagers (still to be started) that unmet requirements need, as [`task_managers_for`] computes them for the SlotManager;
/// nothing is requested yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskManagersNeeded {
    /// Number of new TaskManagers by spec (the configured one, or the same with fewer, larger slots); 0 only for requirements of 0 slots.
    pub task_managers: BTreeMap<WorkerResourceSpec, u32>,
    /// The requirements that no TaskManager of the configured size can meet, not even with a single slot.
    pub impossible: Vec<ResourceRequirement>,
}

/// Computes the TaskManagers that would meet all of `unmet`, in whole TaskManagers. `task_manager` is the configured size; a requirement
/// larger than one of its slots gets TaskManagers of the same size, cut into fewer, larger slots, or is returned as impossible if it
/// exceeds the whole TaskManager. For each spec the number is rounded up; the spare slots of one spec are not used for requirements of
/// another. Slots that exist already are not considered: `unmet` is what they leave.
pub fn task_managers_for(
    unmet: &[ResourceRequirement],
    task_manager: &WorkerResourceSpec,
) -> TaskManagersNeeded {
    let mut slots_of: BTreeMap<WorkerResourceSpec, u32> = BTreeMap::new();
    let mut needed = TaskManagersNeeded::default();
    for (profile, slots) in demanding_first(unmet) {
        match spec_for(profile, task_manager) {
            Some(spec) => {
                let wanted = slots_of.entry(spec).or_default();
                *wanted = wanted.saturating_add(slots);
            }
            None => needed.impossible.push(ResourceRequirement { profile: profile.clone(), slots }),
        }
    }
    for (spec, slots) in slots_of {
        let task_managers = slots.div_ceil(spec.slots.max(1));
        needed.task_managers.insert(spec, task_managers);
    }
    needed
}

/// Returns `task_manager`, cut into as many slots as possible that each fulfil `profile`.
fn spec_for(
    profile: &ResourceProfile,
    task_manager: &WorkerResourceSpec,
) -> Option<WorkerResourceSpec> {
    (1..=task_manager.slots.max(1)).rev().find_map(|slots| {
        let spec = WorkerResourceSpec { slots, ..task_manager.clone() };
        spec.slot_profile().fulfils(profile).then_some(spec)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::MemorySize;
    use proptest::prelude::*;

    fn profile(cpu: u64, task: u64) -> ResourceProfile {
        ResourceProfile { cpu_millis: cpu, task: MemorySize(task), ..Default::default() }
    }
    fn needs(cpu: u64, slots: u32) -> ResourceRequirement {
        ResourceRequirement { profile: profile(cpu, 0), slots }
    }
    fn task_manager(slots: u32) -> WorkerResourceSpec {
        WorkerResourceSpec { cpu_millis: 4000, task: MemorySize(4096), slots, ..Default::default() }
    }

    #[test]
    fn small_slots_are_taken_first_and_large_needs_choose_first() {
        let (small, large) = (profile(1000, 0), profile(2000, 0));
        assert_eq!(unmet(&[needs(0, 1), needs(2000, 1)], [&large, &small]), []);
        assert_eq!(unmet(&[needs(0, 1), needs(2000, 1)], [&small, &small]), [needs(2000, 1)]);
        assert_eq!(unmet(&[needs(0, 3)], [&small, &large]), [needs(0, 1)]);
    }

    #[test]
    fn task_managers_are_counted_in_whole_ones_and_resized_for_large_slots() {
        let of = |spec: WorkerResourceSpec, n| TaskManagersNeeded {
            task_managers: BTreeMap::from([(spec, n)]),
            impossible: vec![],
        };
        assert_eq!(task_managers_for(&[needs(0, 8)], &task_manager(4)), of(task_manager(4), 2));
        assert_eq!(task_managers_for(&[needs(0, 9)], &task_manager(4)), of(task_manager(4), 3));
        assert_eq!(task_managers_for(&[needs(2000, 3)], &task_manager(4)), of(task_manager(2), 2));
        assert_eq!(
            task_managers_for(&[needs(5000, 1)], &task_manager(4)).impossible,
            [needs(5000, 1)]
        );
    }

    prop_compose! {
        fn a_profile()(cpu in 0u64..5, task in 0u64..5) -> ResourceProfile { profile(cpu * 1000, task * 1024) }
    }
    prop_compose! {
        fn a_requirement()(profile in a_profile(), slots in 0u32..6) -> ResourceRequirement {
            ResourceRequirement { profile, slots }
        }
    }

    proptest! {
        #[test]
        fn a_slot_meets_one_requirement_at_most(
            requirements in proptest::collection::vec(a_requirement(), 0..5),
            held in proptest::collection::vec(a_profile(), 0..20),
        ) {
            let rest = unmet(&requirements, &held);
            let sum = |of: &[ResourceRequirement]| of.iter().map(|r| r.slots as usize).sum::<usize>();
            let met = sum(&requirements) - sum(&rest);
            prop_assert!(met <= held.len());
            for left in &rest {
                let asked: u32 = requirements.iter().filter(|r| r.profile == left.profile).map(|r| r.slots).sum();
                prop_assert!(left.slots <= asked);
            }
            // With what is missing added, everything is met: nothing was overlooked.
            let more = rest.iter().flat_map(|r| std::iter::repeat_n(r.profile.clone(), r.slots as usize));
            let enough: Vec<_> = held.iter().cloned().chain(more).collect();
            prop_assert!(sum(&unmet(&requirements, &enough)) <= sum(&rest));
        }

        #[test]
        fn task_managers_never_exceed_what_is_unmet(
            requirements in proptest::collection::vec(a_requirement(), 0..5), slots in 1u32..6,
        ) {
            let needed = task_managers_for(&requirements, &task_manager(slots));
            let unmet: u32 = requirements.iter().map(|r| r.slots).sum();
            let impossible: u32 = needed.impossible.iter().map(|r| r.slots).sum();
            let (mut offered, mut slack) = (0, 0);
            for (spec, n) in &needed.task_managers {
                prop_assert!(*n > 0 || unmet == 0 || requirements.iter().any(|r| r.slots == 0));
                offered += spec.slots * n;
                slack += spec.slots - 1;
            }
            prop_assert!(offered + impossible >= unmet);
            prop_assert!(offered <= unmet - impossible + slack);
        }
    }
}
