//! The number of workers of each spec.
//!
//! The module counts what its owner adds and removes. A count must never go below zero: that would mean that the
//! owner's records are wrong.

use model::WorkerResourceSpec;
use std::collections::BTreeMap;

/// A number of workers per spec. A spec with the count zero has no entry.
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
