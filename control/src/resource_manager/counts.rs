//! How many workers there are of each spec.
//!
//! It counts what its owner adds and removes, and must never count below zero: that would mean that the owner's
//! books are wrong.

use model::WorkerResourceSpec;
use std::collections::BTreeMap;

/// A count per spec. A spec whose count is zero is not held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<WorkerResourceSpec, u32>);

impl Counts {
    pub(super) fn get(&self, spec: &WorkerResourceSpec) -> u32 {
        self.0.get(spec).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, spec: &WorkerResourceSpec) {
        match self.0.get_mut(spec) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(spec.clone(), 1);
            }
        }
    }

    pub(super) fn remove(&mut self, spec: &WorkerResourceSpec) {
        match self.0.get_mut(spec) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.0.remove(spec);
            }
            None => debug_assert!(false, "a worker of {spec:?} is removed that was never added"),
        }
    }
}

impl<'a> FromIterator<&'a WorkerResourceSpec> for Counts {
    fn from_iter<I: IntoIterator<Item = &'a WorkerResourceSpec>>(specs: I) -> Self {
        let mut counts = Self::default();
        specs.into_iter().for_each(|spec| counts.add(spec));
        counts
    }
}
