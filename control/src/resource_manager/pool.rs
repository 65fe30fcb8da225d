//! The workers of an active ResourceManager, which become TaskManagers when they register. Failed starts are followed by a back-off.
//!
//! Laws: requested and starting workers together never exceed the number that was declared missing when they were
//! requested; after a failed start nothing is requested before the pause has ended; a worker is released if it comes a
//! second time, without a request, or late and is not needed.

use super::Command;
use super::counts::Counts;
use super::nodes::Nodes;
use super::under_way::{Starting, UnderWay};
use crate::mutation::{Mutation, Rule};
use model::{ResourceId, WorkerResourceSpec};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Failures are counted over this time.
const RATE_WINDOW: Duration = Duration::from_secs(60);
/// The longest pause after failed starts, as a multiple of the first.
const BACKOFF_MAX: u32 = 32;

/// The settings of the workers that a ResourceManager with a driver requests: pauses and limits after failed starts, the time within
/// which a started worker has to register, the time within which a worker is still taken in that comes after its request was cancelled or
/// failed (or that an earlier ResourceManager left), and a worker's default spec.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// Pause after the first failure to start a worker, before missing ones are requested again
    /// (`resourcemanager.start-worker.retry-interval`); doubles with each failure in a row, to at most 32 times the value. The first
    /// registration of a new TaskManager ends the row and the pause.
    pub retry_interval: Duration,
    /// Number of failures to start workers within the last minute at which no more are requested, until fewer fall into it
    /// (`resourcemanager.start-worker.max-failure-rate`); above 0, because with 0 no worker would ever be requested.
    pub max_failures_per_minute: f64,
    /// Maximum time between a worker's start (or its take-over) and its registration; then the worker is released and counts as
    /// a failure (`resourcemanager.taskmanager-registration.timeout`).
    pub registration_timeout: Duration,
    /// Time in which a late worker is still taken in: after its request was cancelled or failed, if the worker is needed; or, for a worker
    /// of an earlier ResourceManager, after the driver's first report of such workers. Later ones are released
    /// (`resourcemanager.late-worker.grace-period`).
    pub late_grace: Duration,
    /// The configured spec of a worker; a worker of an earlier ResourceManager counts as it until its TaskManager registers and
    /// reports its own.
    pub worker: WorkerResourceSpec,
}

/// A worker that an earlier ResourceManager of the application has left running, as the driver found it. Its TaskManager still runs and
/// registers by itself; the driver does not know its spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredWorker {
    /// Resource id of the worker's process, under which its TaskExecutor registers; not a process id of the system.
    pub resource_id: ResourceId,
    /// Host name of the worker's node, by which nodes are avoided and blocked.
    pub host: String,
}

/// An event that a driver (the connection to YARN or Kubernetes) reports to the ResourceManager, for
/// [`ResourceManager::driver`](super::ResourceManager::driver): a worker was found, started or lost, a request for one failed, or the
/// external system is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DriverEvent {
    /// Workers of an earlier ResourceManager of this application were found, at the start or later. They have to register like
    /// requested ones; workers that are known already change nothing, and those that come too late are released.
    Recovered {
        /// Workers that the driver found running.
        workers: Vec<RecoveredWorker>,
    },
    /// The worker of a request was started; it has to register within the registration time-out. If the request was cancelled or has
    /// failed, the worker is released unless it is needed and [`PoolSettings::late_grace`] has not passed; a second worker of an answered
    /// request is released too. For a worker that is known already, the report only ends the request.
    Started {
        /// Number of the request, as [`Command::RequestWorker`] gave it.
        request: u64,
        /// Resource id of the worker's process, under which its TaskExecutor will register.
        resource_id: ResourceId,
        /// Host name of the node the worker runs on.
        host: String,
    },
    /// A request failed and is over; after a pause, the worker is requested again if it is still missing. Counts as a failed start. The
    /// node, if known, is avoided for 32 times the retry interval. Ignored for a request that is not open (answered or cancelled).
    StartFailed {
        /// Number of the request, as [`Command::RequestWorker`] gave it.
        request: u64,
        /// The node of the worker; `None` if it was not known yet: then no node is avoided.
        host: Option<String>,
        /// Reason as text, for messages.
        cause: String,
    },
    /// A request can never be met, nor can any other request for its spec: the container would be larger than the external system's
    /// maximum, or (found before the driver is asked) the options leave no memory layout for the spec. The spec is not requested again
    /// until no job needs it any more, and the SlotManager is told ([`Command::NeverMet`]); the event is no failed start, and no pause
    /// follows. Ignored for a request that is not open.
    NeverMet {
        /// Number of the request, as [`Command::RequestWorker`] gave it.
        request: u64,
        /// Reason as text, for messages.
        cause: String,
    },
    /// A worker has ended, or its node is lost: its registration, if it has one, is closed and its TaskExecutor told to end. Counts as a
    /// failed start, after which its node is avoided for a while, if the worker had not registered by then. A replacement is requested if
    /// workers are missing. Nothing changes if the worker is not known (any more), for example because it was released.
    Lost {
        /// Resource id of the process of the worker that has ended.
        resource_id: ResourceId,
        /// Reason as text, for messages.
        cause: String,
    },
    /// The connection to the external resource system is lost for good; the process ends ([`Command::Fatal`]).
    Error {
        /// Reason as text, for messages.
        cause: String,
    },
}

/// Requests that were cancelled or have failed, kept as long as their worker may still be reported.
#[derive(Debug, Default)]
struct GivenUp {
    specs: BTreeMap<u64, WorkerResourceSpec>,
    /// The ends of these periods in ascending order.
    ends: VecDeque<(Duration, u64)>,
}

impl GivenUp {
    fn add(&mut self, request: u64, spec: WorkerResourceSpec, until: Duration) {
        self.specs.insert(request, spec);
        self.ends.push_back((until, request));
    }

    fn forget(&mut self, now: Duration) {
        while let Some((_, request)) = self.ends.pop_front_if(|(until, _)| *until <= now) {
            self.specs.remove(&request);
        }
    }
}

/// The workers of a ResourceManager with a driver: requested and starting ones, those that have registered as TaskManagers, and the
/// back-off after failed starts. A part of [`ResourceManager`](super::ResourceManager), which alone makes and uses it.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    mutation: Mutation,
    wanted: BTreeMap<WorkerResourceSpec, u32>,
    under_way: UnderWay,
    /// TaskManagers that have registered, with the spec that they count as. They may register again after a lost connection.
    ours: BTreeMap<ResourceId, WorkerResourceSpec>,
    given_up: GivenUp,
    /// End of the time in which workers of an earlier ResourceManager are taken over; `None` before the driver's first
    /// report of them.
    recovering_until: Option<Duration>,
    /// Wanted specs that the external system can never provide, each with the reason.
    never_met: BTreeMap<WorkerResourceSpec, String>,
    /// True if `never_met` has changed since the last call of [`Pool::newly_never_met`].
    never_met_changed: bool,
    /// Requests that have ended since the last call of [`Pool::take_ended`].
    ended: Vec<u64>,
    next_request: u64,
    failures: VecDeque<Duration>,
    in_a_row: u32,
    not_before: Duration,
    last_error: Option<String>,
}

impl Pool {
    pub(super) fn new(settings: PoolSettings, mutation: Mutation) -> Self {
        Self {
            settings,
            mutation,
            wanted: BTreeMap::new(),
            under_way: UnderWay::default(),
            ours: BTreeMap::new(),
            given_up: GivenUp::default(),
            recovering_until: None,
            never_met: BTreeMap::new(),
            never_met_changed: false,
            ended: Vec::new(),
            next_request: 0,
            failures: VecDeque::new(),
            in_a_row: 0,
            not_before: Duration::ZERO,
            last_error: None,
        }
    }

    pub(super) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    pub(super) fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// Replaces the wanted workers. A spec that is no longer wanted is removed from those that can never be met, so the
    /// next job that needs it asks the external system again.
    pub(super) fn want(&mut self, missing: BTreeMap<WorkerResourceSpec, u32>) {
        let before = self.never_met.len();
        self.never_met.retain(|spec, _| missing.contains_key(spec));
        self.never_met_changed |= self.never_met.len() != before;
        self.wanted = missing;
    }

    /// Returns all specs that can never be met if they have changed since the last call, otherwise `None`.
    pub(super) fn newly_never_met(&mut self) -> Option<Vec<(WorkerResourceSpec, String)>> {
        let changed = std::mem::take(&mut self.never_met_changed);
        let all = || self.never_met.iter().map(|(spec, cause)| (spec.clone(), cause.clone()));
        changed.then(|| all().collect())
    }

    /// Records that a worker has registered as a TaskManager, which reports the spec `own`. The first time, resets the failure
    /// count and ends the back-off. Returns the spec that the TaskManager counts as; `None` if the pool does not know
    /// the worker.
    pub(super) fn registered(
        &mut self,
        now: Duration,
        resource_id: &ResourceId,
        own: &WorkerResourceSpec,
    ) -> Option<&WorkerResourceSpec> {
        if let Some(starting) = self.under_way.take_starting(resource_id) {
            self.in_a_row = 0;
            self.not_before = self.not_before.min(now);
            self.ended.extend(starting.request);
            let spec = if starting.recovered { own.clone() } else { starting.spec };
            let before = self.ours.insert(resource_id.clone(), spec);
            debug_assert_eq!(before, None, "{resource_id} was starting and registered");
        }
        self.ours.get(resource_id)
    }

    /// Returns true if an unknown worker may become known soon, because it can register before the driver reports it.
    pub(super) fn expects_more(&self, now: Duration) -> bool {
        self.under_way.has_requests()
            || self.is_recovering(now)
            || self.given_up.ends.back().is_some_and(|(until, _)| now < *until)
    }

    fn is_recovering(&self, now: Duration) -> bool {
        self.recovering_until.is_none_or(|until| now < until)
    }

    /// Handles that a registered TaskManager is considered dead: it is ended through the driver, so that the TaskManager and its
    /// replacement do not both run.
    pub(super) fn gone(&mut self, resource_id: &ResourceId) -> Vec<Command> {
        if self.ours.remove(resource_id).is_none() {
            return Vec::new();
        }
        vec![Command::ReleaseWorker { resource_id: resource_id.clone() }]
    }

    pub(super) fn released(&mut self, resource_id: &ResourceId) {
        self.ours.remove(resource_id);
    }

    /// Handles an event of the driver. `unreported` counts the registered TaskManagers that the SlotManager does not know
    /// yet.
    pub(super) fn event(
        &mut self,
        now: Duration,
        event: DriverEvent,
        unreported: &Counts,
        nodes: &mut Nodes,
    ) -> Vec<Command> {
        match event {
            DriverEvent::Recovered { workers } => return self.recovered(now, workers),
            DriverEvent::Started { request, resource_id, host } => {
                return self.started(now, request, resource_id, host, unreported);
            }
            DriverEvent::StartFailed { request, host, cause } => {
                if let Some(spec) = self.under_way.take_request(request) {
                    self.give_up_request(now, request, spec);
                    self.fail(now, host, cause, nodes);
                }
            }
            DriverEvent::NeverMet { request, cause } => {
                if let Some(spec) = self.under_way.take_request(request) {
                    self.ended.push(request);
                    if self.wanted.contains_key(&spec) {
                        self.never_met.insert(spec, cause);
                        self.never_met_changed = true;
                    }
                }
            }
            DriverEvent::Lost { resource_id, cause } => {
                self.ours.remove(&resource_id);
                if let Some(starting) = self.under_way.take_starting(&resource_id) {
                    self.ended.extend(starting.request);
                    let cause = format!("worker {resource_id} ended before it registered: {cause}");
                    self.fail(now, Some(starting.host), cause, nodes);
                }
            }
            DriverEvent::Error { cause } => {
                self.last_error = Some(cause.clone());
                return vec![Command::Fatal(cause)];
            }
        }
        Vec::new()
    }

    /// Returns true if a worker is starting or has registered as a TaskManager, and was not released.
    pub(super) fn is_known(&self, resource_id: &ResourceId) -> bool {
        self.under_way.is_starting(resource_id) || self.ours.contains_key(resource_id)
    }

    fn recovered(&mut self, now: Duration, workers: Vec<RecoveredWorker>) -> Vec<Command> {
        let grace = now.saturating_add(self.settings.late_grace);
        let in_time = now < *self.recovering_until.get_or_insert(grace);
        let mut commands = Vec::new();
        for RecoveredWorker { resource_id, host } in workers {
            if self.is_known(&resource_id) {
                continue;
            }
            if in_time {
                let spec = self.settings.worker.clone();
                let starting = Starting { recovered: true, ..self.starting(now, spec, host) };
                self.under_way.start(resource_id, starting);
            } else {
                commands.push(Command::ReleaseWorker { resource_id });
            }
        }
        commands
    }

    fn started(
        &mut self,
        now: Duration,
        request: u64,
        resource_id: ResourceId,
        host: String,
        unreported: &Counts,
    ) -> Vec<Command> {
        let open = self.under_way.take_request(request);
        if self.is_known(&resource_id) {
            // The driver reported the start twice.
            self.ended.extend(open.map(|_| request));
            return Vec::new();
        }
        if let Some(spec) = open {
            let starting = Starting { request: Some(request), ..self.starting(now, spec, host) };
            self.under_way.start(resource_id, starting);
            return Vec::new();
        }
        self.given_up.forget(now);
        let late = self.given_up.specs.remove(&request);
        if let Some(spec) = late.filter(|spec| self.is_needed(spec, unreported)) {
            self.under_way.start(resource_id, self.starting(now, spec, host));
            return Vec::new();
        }
        // The worker is too late or not needed, or its request was answered with another worker already.
        vec![Command::ReleaseWorker { resource_id }]
    }

    /// Returns true if more workers of a spec are wanted than have started. Open requests do not count: the worker that
    /// is there replaces one of them.
    fn is_needed(&self, spec: &WorkerResourceSpec, unreported: &Counts) -> bool {
        self.under_way.starting_of(spec) + unreported.get(spec) < self.wanted_of(spec)
    }

    fn wanted_of(&self, spec: &WorkerResourceSpec) -> u32 {
        if self.never_met.contains_key(spec) {
            return 0;
        }
        self.wanted.get(spec).copied().unwrap_or(0)
    }

    fn starting(&self, now: Duration, spec: WorkerResourceSpec, host: String) -> Starting {
        let until = now.saturating_add(self.settings.registration_timeout);
        Starting { request: None, spec, recovered: false, host, until }
    }

    fn give_up_request(&mut self, now: Duration, request: u64, spec: WorkerResourceSpec) {
        self.ended.push(request);
        self.given_up.forget(now);
        self.given_up.add(request, spec, now.saturating_add(self.settings.late_grace));
    }

    fn fail(&mut self, now: Duration, host: Option<String>, cause: String, nodes: &mut Nodes) {
        let pause = |doublings: u32| {
            let times = 1_u32.checked_shl(doublings).unwrap_or(BACKOFF_MAX).min(BACKOFF_MAX);
            self.settings.retry_interval.saturating_mul(times)
        };
        let (next, longest) = (pause(self.in_a_row), pause(BACKOFF_MAX));
        // A higher count would not change the pause, which has reached its maximum.
        self.in_a_row = (self.in_a_row + 1).min(BACKOFF_MAX);
        self.not_before = self.not_before.max(now.saturating_add(next));
        self.failures.push_back(now);
        if let Some(host) = host {
            nodes.fail(host, now.saturating_add(longest));
        }
        self.last_error = Some(cause);
    }

    /// Requests the missing workers and cancels requests beyond them. `unreported` is as for [`Pool::event`].
    pub(super) fn request_missing(&mut self, now: Duration, unreported: &Counts) -> Vec<Command> {
        let mut commands = self.cancel_surplus(now, unreported);
        if !self.may_request(now) {
            return commands;
        }
        for spec in self.wanted.keys() {
            let wanted = self.wanted_of(spec);
            for _ in self.have(spec, unreported)..wanted {
                self.next_request += 1;
                let (request, spec) = (self.next_request, spec.clone());
                self.under_way.request(request, spec.clone());
                commands.push(Command::RequestWorker { request, spec });
            }
        }
        commands
    }

    /// Returns the number of workers of a spec that will become available without another request.
    fn have(&self, spec: &WorkerResourceSpec, unreported: &Counts) -> u32 {
        let mut have = unreported.get(spec);
        if self.mutation.keeps(Rule::PendingWorkersCount) {
            have += self.under_way.requested_of(spec) + self.under_way.starting_of(spec);
        }
        have
    }

    /// Gives up what did not register in time.
    pub(super) fn give_up(&mut self, now: Duration, nodes: &mut Nodes) -> Vec<Command> {
        let mut commands = Vec::new();
        while let Some((resource_id, starting)) = self.under_way.take_late(now) {
            self.ended.extend(starting.request);
            let seconds = self.settings.registration_timeout.as_secs();
            let cause = format!("worker {resource_id} did not register within {seconds} s");
            self.fail(now, Some(starting.host), cause, nodes);
            if self.mutation.keeps(Rule::SilentWorkersGo) {
                commands.push(Command::ReleaseWorker { resource_id });
            }
        }
        commands
    }

    /// Requests beyond what is wanted are cancelled, the newest first; workers that have started register and
    /// are released when they stay idle.
    fn cancel_surplus(&mut self, now: Duration, unreported: &Counts) -> Vec<Command> {
        let surplus = |spec: &WorkerResourceSpec| {
            let surplus = self.have(spec, unreported).checked_sub(self.wanted_of(spec));
            surplus.filter(|surplus| *surplus > 0).map(|surplus| (spec.clone(), surplus))
        };
        let surplus: Vec<_> = self.under_way.requested_specs().filter_map(surplus).collect();
        let mut commands = Vec::new();
        for (spec, surplus) in surplus {
            for request in self.under_way.take_newest(&spec, surplus) {
                self.give_up_request(now, request, spec.clone());
                commands.push(Command::CancelRequest { request });
            }
        }
        commands
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

    /// Checks that the indexes agree with one another.
    pub(super) fn check(&self) {
        self.under_way.check();
        assert!(self.ours.keys().all(|id| !self.under_way.is_starting(id)));
        assert!(self.never_met.keys().all(|spec| self.wanted.contains_key(spec)));
        assert!(self.given_up.specs.len() <= self.given_up.ends.len());
    }
}
