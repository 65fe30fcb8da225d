//! Workers that were requested but have not registered yet: open requests, and workers that have started.
//!
//! Every query costs O(log n). This module must never hold an entry in one index that is missing in another.

use super::counts::Counts;
use model::{ResourceId, WorkerResourceSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A worker that has started but has not registered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Starting {
    /// The request that the worker was started for; `None` for a recovered worker, and for one whose request was given
    /// up.
    pub(super) request: Option<u64>,
    /// The spec that the worker counts as.
    pub(super) spec: WorkerResourceSpec,
    /// True if an earlier ResourceManager left the worker: its TaskManager reports the real spec when it registers.
    pub(super) recovered: bool,
    pub(super) host: String,
    /// Time at which the worker is given up, monotonic.
    pub(super) until: Duration,
}

/// Open requests and starting workers.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    requested: BTreeMap<u64, WorkerResourceSpec>,
    by_spec: BTreeMap<WorkerResourceSpec, BTreeSet<u64>>,
    starting: BTreeMap<ResourceId, Starting>,
    starting_by_spec: Counts,
    deadlines: BTreeSet<(Duration, ResourceId)>,
}

impl UnderWay {
    pub(super) fn has_requests(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Returns the specs that have an open request.
    pub(super) fn requested_specs(&self) -> impl Iterator<Item = &WorkerResourceSpec> {
        self.by_spec.keys()
    }

    pub(super) fn requested_of(&self, spec: &WorkerResourceSpec) -> u32 {
        let requests = self.by_spec.get(spec).map_or(0, BTreeSet::len);
        u32::try_from(requests).unwrap_or(u32::MAX)
    }

    pub(super) fn starting_of(&self, spec: &WorkerResourceSpec) -> u32 {
        self.starting_by_spec.get(spec)
    }

    pub(super) fn request(&mut self, request: u64, spec: WorkerResourceSpec) {
        self.by_spec.entry(spec.clone()).or_default().insert(request);
        let before = self.requested.insert(request, spec);
        debug_assert_eq!(before, None, "request {request} was made twice");
    }

    /// Removes an open request and returns its spec; `None` if the request is not open.
    pub(super) fn take_request(&mut self, request: u64) -> Option<WorkerResourceSpec> {
        let spec = self.requested.remove(&request)?;
        if let Some(requests) = self.by_spec.get_mut(&spec) {
            let known = requests.remove(&request);
            debug_assert!(known, "request {request} is not listed under its spec");
            if requests.is_empty() {
                self.by_spec.remove(&spec);
            }
        }
        Some(spec)
    }

    /// Removes the newest open requests of a spec, at most `most`, and returns them, newest first.
    pub(super) fn take_newest(&mut self, spec: &WorkerResourceSpec, most: u32) -> Vec<u64> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let newest = self.by_spec.get(spec).into_iter().flatten().rev();
        let newest: Vec<u64> = newest.take(most).copied().collect();
        newest.iter().for_each(|request| drop(self.take_request(*request)));
        newest
    }

    pub(super) fn is_starting(&self, resource_id: &ResourceId) -> bool {
        self.starting.contains_key(resource_id)
    }

    pub(super) fn start(&mut self, resource_id: ResourceId, worker: Starting) {
        self.starting_by_spec.add(&worker.spec);
        self.deadlines.insert((worker.until, resource_id.clone()));
        let before = self.starting.insert(resource_id, worker);
        debug_assert_eq!(before, None, "a worker has started twice");
    }

    /// Removes a starting worker and returns it; `None` if it is not starting.
    pub(super) fn take_starting(&mut self, resource_id: &ResourceId) -> Option<Starting> {
        let worker = self.starting.remove(resource_id)?;
        self.starting_by_spec.remove(&worker.spec);
        let known = self.deadlines.remove(&(worker.until, resource_id.clone()));
        debug_assert!(known, "starting worker {resource_id} has no deadline");
        Some(worker)
    }

    /// Removes a worker whose deadline has passed at `now` and returns it; `None` if there is none.
    pub(super) fn take_late(&mut self, now: Duration) -> Option<(ResourceId, Starting)> {
        let (until, resource_id) = self.deadlines.first()?;
        if *until > now {
            return None;
        }
        let resource_id = resource_id.clone();
        let worker = self.take_starting(&resource_id);
        debug_assert!(worker.is_some(), "{resource_id} has a deadline and is not starting");
        Some((resource_id, worker?))
    }
}

#[cfg(test)]
impl UnderWay {
    /// Recomputes every index from the two tables and compares it.
    pub(super) fn check(&self) {
        let mut by_spec: BTreeMap<WorkerResourceSpec, BTreeSet<u64>> = BTreeMap::new();
        for (request, spec) in &self.requested {
            by_spec.entry(spec.clone()).or_default().insert(*request);
        }
        assert_eq!(self.by_spec, by_spec);
        let counts: Counts = self.starting.values().map(|worker| &worker.spec).collect();
        assert_eq!(self.starting_by_spec, counts);
        let deadlines = self.starting.iter().map(|(id, worker)| (worker.until, id.clone()));
        assert_eq!(self.deadlines, deadlines.collect());
    }
}
