//! Numbers of slots by profile. A profile with the count zero must never have an entry, so that "no slot" is "empty".

use super::matching::Slots;
use model::{ResourceProfile, ResourceRequirement};
use std::collections::BTreeMap;

/// Numbers of slots by profile (the resources that a slot offers), and their total. The SlotManager keeps its sums in it: free slots, slots
/// of each job, and shortages. A profile without slots has no entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// Sums of what several jobs declare, so that they may be above [`u32::MAX`].
    of: BTreeMap<ResourceProfile, u64>,
    total: u64,
}

impl Counts {
    /// Returns the number of slots of all profiles together.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns true if there is no slot.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Adds a number of slots of one profile; adding 0 changes nothing.
    pub fn add(&mut self, profile: &ResourceProfile, slots: u32) {
        self.add_many(profile, u64::from(slots));
    }

    fn add_many(&mut self, profile: &ResourceProfile, slots: u64) {
        if slots == 0 {
            return;
        }
        self.total += slots;
        match self.of.get_mut(profile) {
            Some(counted) => *counted += slots,
            None => drop(self.of.insert(profile.clone(), slots)),
        }
    }

    /// Removes a number of slots of one profile. At least as many must have been added before: a debug build panics otherwise,
    /// a release build removes those that there are.
    pub fn take(&mut self, profile: &ResourceProfile, slots: u32) {
        self.take_many(profile, u64::from(slots));
    }

    fn take_many(&mut self, profile: &ResourceProfile, slots: u64) {
        let Some(counted) = self.of.get_mut(profile).filter(|_| slots > 0) else {
            debug_assert!(slots == 0, "{slots} slots of {profile} leave that were not counted");
            return;
        };
        debug_assert!(*counted >= slots, "{slots} slots of {profile} leave of {counted}");
        let taken = slots.min(*counted);
        *counted -= taken;
        self.total -= taken;
        if *counted == 0 {
            self.of.remove(profile);
        }
    }

    /// Adds the slots of all profiles of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (profile, slots) in &other.of {
            self.add_many(profile, *slots);
        }
    }

    /// Removes the slots of all profiles of `other`, each as by [`Counts::take`]: they must have been added before.
    pub fn take_all(&mut self, other: &Self) {
        for (profile, slots) in &other.of {
            self.take_many(profile, *slots);
        }
    }

    /// Iterates over the profiles with their numbers of slots (never 0, and at most [`u32::MAX`] of one profile), the least demanding profile
    /// (least CPU, then least memory) first.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceProfile, u32)> {
        let shown = |slots: u64| u32::try_from(slots).unwrap_or(u32::MAX);
        self.of.iter().map(move |(profile, slots)| (profile, shown(*slots)))
    }

    /// Returns the numbers by profile, in the form that the functions of [`super::matching`] take.
    pub fn as_slots(&self) -> Slots<'_> {
        self.iter().collect()
    }

    /// Returns the counts as requirements, one for each profile.
    pub fn as_requirements(&self) -> Vec<ResourceRequirement> {
        let each = |(profile, slots): (&ResourceProfile, u32)| ResourceRequirement {
            profile: profile.clone(),
            slots,
        };
        self.iter().map(each).collect()
    }
}

impl<'a> FromIterator<&'a ResourceRequirement> for Counts {
    fn from_iter<T: IntoIterator<Item = &'a ResourceRequirement>>(requirements: T) -> Self {
        let mut counts = Self::default();
        for need in requirements {
            counts.add(&need.profile, need.slots);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two JobMasters declare as much as a declaration can say.
    #[test]
    fn sums_of_the_highest_numbers_neither_overflow_nor_forget_a_part() {
        let profile = ResourceProfile::unknown();
        let one: Counts = [&ResourceRequirement { profile: profile.clone(), slots: u32::MAX }]
            .into_iter()
            .collect();
        let mut sum = one.clone();
        sum.add_all(&one);
        assert_eq!(sum.total(), 2 * u64::from(u32::MAX));
        assert_eq!(sum.iter().collect::<Vec<_>>(), [(&profile, u32::MAX)]);
        sum.take_all(&one);
        assert_eq!(sum, one);
        sum.take_all(&one);
        assert!(sum.is_empty());
    }
}
