//! The workers of an active ResourceManager: requested, starting, registered; failed starts back off.
//!
//! Laws: workers that are under way never exceed what was declared missing when they were requested;
//! after a failed start nothing is requested before its pause is over; a worker that comes late, twice
//! or unasked is released.

use super::Command;
use crate::mutation::{Mutation, Rule};
use model::{ResourceId, WorkerResourceSpec};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Failures are counted over this time.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// The pause after failures grows up to so many times the first.
const BACKOFF_MAX: u32 = 32;

/// What a pool is made with.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// `resourcemanager.start-worker.retry-interval`.
    pub retry_interval: Duration,
    /// `resourcemanager.start-worker.max-failure-rate`, per minute.
    pub max_failures_per_minute: f64,
    /// How long a started worker may take to register.
    pub registration_timeout: Duration,
    /// What workers of an earlier ResourceManager are taken for.
    pub worker: WorkerResourceSpec,
}

/// What a driver reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverEvent {
    /// Workers of an earlier ResourceManager of this application.
    Recovered {
        /// Which.
        workers: Vec<ResourceId>,
    },
    /// A requested worker was started.
    Started {
        /// The request.
        request: u64,
        /// The worker.
        resource_id: ResourceId,
        /// Its node.
        host: String,
    },
    /// A request failed.
    StartFailed {
        /// The request.
        request: u64,
        /// Its node, if it got that far.
        host: Option<String>,
        /// Why.
        cause: String,
    },
    /// A worker has ended.
    Lost {
        /// Which.
        resource_id: ResourceId,
        /// Why.
        cause: String,
    },
    /// The connection to the external resource system is lost for good.
    Error {
        /// Why.
        cause: String,
    },
}

#[derive(Debug)]
struct Starting {
    spec: WorkerResourceSpec,
    host: Option<String>,
    until: Duration,
}

/// The pool's state.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    mutation: Mutation,
    wanted: BTreeMap<WorkerResourceSpec, u32>,
    requested: BTreeMap<u64, WorkerResourceSpec>,
    starting: BTreeMap<ResourceId, Starting>,
    /// Registered once, and what was asked for: these may register again (after a lost connection).
    ours: BTreeMap<ResourceId, WorkerResourceSpec>,
    next_request: u64,
    failures: VecDeque<Duration>,
    in_a_row: u32,
    not_before: Duration,
    failed_hosts: BTreeMap<String, Duration>,
    last_error: Option<String>,
}

impl Pool {
    pub(super) fn new(settings: PoolSettings, mutation: Mutation) -> Self {
        Self {
            settings,
            mutation,
            wanted: BTreeMap::new(),
            requested: BTreeMap::new(),
            starting: BTreeMap::new(),
            ours: BTreeMap::new(),
            next_request: 0,
            failures: VecDeque::new(),
            in_a_row: 0,
            not_before: Duration::ZERO,
            failed_hosts: BTreeMap::new(),
            last_error: None,
        }
    }

    pub(super) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    pub(super) fn want(&mut self, missing: BTreeMap<WorkerResourceSpec, u32>) {
        self.wanted = missing;
    }

    /// What was asked for where the worker is one of ours; it is registered from now on.
    pub(super) fn registered(
        &mut self,
        now: Duration,
        resource_id: &ResourceId,
    ) -> Option<&WorkerResourceSpec> {
        if let Some(starting) = self.starting.remove(resource_id) {
            self.in_a_row = 0;
            self.not_before = self.not_before.min(now);
            self.ours.insert(resource_id.clone(), starting.spec);
        }
        self.ours.get(resource_id)
    }

    /// Whether a worker may be known by and by: it can register before its driver has said that it started.
    pub(super) fn expects_more(&self) -> bool {
        !self.requested.is_empty()
    }

    /// A registered worker is dead as far as anybody can tell: it is ended, so that its replacement does not
    /// come on top of it.
    pub(super) fn gone(&mut self, resource_id: &ResourceId) -> Vec<Command> {
        if self.ours.remove(resource_id).is_none() {
            return Vec::new();
        }
        vec![Command::ReleaseWorker { resource_id: resource_id.clone() }]
    }

    pub(super) fn released(&mut self, resource_id: &ResourceId) {
        self.ours.remove(resource_id);
    }

    pub(super) fn event(&mut self, now: Duration, event: DriverEvent) -> Vec<Command> {
        match event {
            DriverEvent::Recovered { workers } => {
                for resource_id in workers {
                    self.start(now, resource_id, self.settings.worker.clone(), None);
                }
                Vec::new()
            }
            DriverEvent::Started { request, resource_id, host } => {
                self.started(now, request, resource_id, host)
            }
            DriverEvent::StartFailed { request, host, cause } => {
                if self.requested.remove(&request).is_some() {
                    self.fail(now, host, cause);
                }
                Vec::new()
            }
            DriverEvent::Lost { resource_id, cause } => {
                self.ours.remove(&resource_id);
                if let Some(starting) = self.starting.remove(&resource_id) {
                    let cause = format!("worker {resource_id} ended before it registered: {cause}");
                    self.fail(now, starting.host, cause);
                }
                Vec::new()
            }
            DriverEvent::Error { cause } => {
                self.last_error = Some(cause.clone());
                vec![Command::Fatal(cause)]
            }
        }
    }

    fn started(
        &mut self,
        now: Duration,
        request: u64,
        resource_id: ResourceId,
        host: String,
    ) -> Vec<Command> {
        let known =
            self.starting.contains_key(&resource_id) || self.ours.contains_key(&resource_id);
        match self.requested.remove(&request) {
            Some(spec) if !known => {
                self.start(now, resource_id, spec, Some(host));
                Vec::new()
            }
            // Reported twice.
            _ if known => Vec::new(),
            // Late: cancelled or given up; or another worker for a request that was answered already.
            _ => vec![Command::ReleaseWorker { resource_id }],
        }
    }

    fn start(
        &mut self,
        now: Duration,
        resource_id: ResourceId,
        spec: WorkerResourceSpec,
        host: Option<String>,
    ) {
        let until = now.saturating_add(self.settings.registration_timeout);
        self.starting.insert(resource_id, Starting { spec, host, until });
    }

    fn fail(&mut self, now: Duration, host: Option<String>, cause: String) {
        let pause = |doublings: u32| {
            let times = 1_u32.checked_shl(doublings).unwrap_or(BACKOFF_MAX).min(BACKOFF_MAX);
            self.settings.retry_interval.saturating_mul(times)
        };
        let (next, longest) = (pause(self.in_a_row), pause(BACKOFF_MAX));
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.not_before = self.not_before.max(now.saturating_add(next));
        self.failures.push_back(now);
        if let Some(host) = host {
            self.failed_hosts.insert(host, now.saturating_add(longest));
        }
        self.last_error = Some(cause);
    }

    /// Requests what is missing, cancels what is too much. `unreported`: registered, but the SlotManager does
    /// not know them yet.
    pub(super) fn request_missing(
        &mut self,
        now: Duration,
        blocked: Vec<String>,
        unreported: BTreeMap<WorkerResourceSpec, u32>,
    ) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut under_way = unreported;
        if self.mutation.keeps(Rule::PendingWorkersCount) {
            let starting = self.starting.values().map(|starting| &starting.spec);
            for spec in self.requested.values().chain(starting) {
                *under_way.entry(spec.clone()).or_default() += 1;
            }
        }
        self.cancel_surplus(&mut under_way, &mut commands);
        if !self.may_request(now) {
            return commands;
        }
        self.failed_hosts.retain(|_, until| *until > now);
        let mut avoid = blocked;
        avoid.extend(self.failed_hosts.keys().cloned());
        avoid.sort();
        avoid.dedup();
        for (spec, wanted) in &self.wanted {
            let have = under_way.get(spec).copied().unwrap_or(0);
            for _ in have..*wanted {
                self.next_request += 1;
                self.requested.insert(self.next_request, spec.clone());
                commands.push(Command::RequestWorker {
                    request: self.next_request,
                    spec: spec.clone(),
                    avoid: avoid.clone(),
                });
            }
        }
        commands
    }

    /// Gives up what did not register in time.
    pub(super) fn give_up(&mut self, now: Duration) -> Vec<Command> {
        let late: Vec<ResourceId> = self
            .starting
            .iter()
            .filter(|(_, starting)| starting.until <= now)
            .map(|(resource_id, _)| resource_id.clone())
            .collect();
        let mut commands = Vec::new();
        for resource_id in late {
            if let Some(starting) = self.starting.remove(&resource_id) {
                let seconds = self.settings.registration_timeout.as_secs();
                let cause = format!("worker {resource_id} did not register within {seconds} s");
                self.fail(now, starting.host, cause);
            }
            commands.push(Command::ReleaseWorker { resource_id });
        }
        commands
    }

    /// Requests beyond what is wanted are cancelled, the newest first; workers that have started register and
    /// are released when they stay idle.
    fn cancel_surplus(
        &mut self,
        under_way: &mut BTreeMap<WorkerResourceSpec, u32>,
        commands: &mut Vec<Command>,
    ) {
        let mut cancelled = Vec::new();
        for (request, spec) in self.requested.iter().rev() {
            let have = under_way.entry(spec.clone()).or_default();
            if *have > self.wanted.get(spec).copied().unwrap_or(0) {
                *have -= 1;
                cancelled.push(*request);
            }
        }
        for request in cancelled {
            self.requested.remove(&request);
            commands.push(Command::CancelRequest { request });
        }
    }

    fn may_request(&mut self, now: Duration) -> bool {
        while self.failures.front().is_some_and(|at| now.saturating_sub(*at) >= RATE_WINDOW) {
            self.failures.pop_front();
        }
        let rate = self.failures.len() as f64;
        now >= self.not_before && rate < self.settings.max_failures_per_minute
    }
}

#[cfg(test)]
impl Pool {
    pub(super) fn is_ours(&self, resource_id: &ResourceId) -> bool {
        self.ours.contains_key(resource_id)
    }
}
