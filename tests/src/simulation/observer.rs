//! Sees everything of a run in order, keeps the trace's hash, counts, and lets each invariant judge.
//!
//! It must never change what it sees.

#![expect(clippy::print_stderr, reason = "a printed trace is for people")]

use super::invariants::{Invariant, all};
pub use super::noticed::{Noticed, Restored};
use super::observed::{Faults, SLOW};
use super::plan::Fault;
use actors::probe::{Fact, Probe};
use control::restart::NO_RESOURCE;
use gateways::Call;
use gateways::job_master::NotifyNotEnoughResources;
use gateways::leader_election::RequestLeader;
use gateways::witness::{FabricFact, Witness};
use model::{AllocationId, ExecutionState, JobStatus, SlotId};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Something that has happened in a simulated run, by where it was seen.
#[derive(Debug, Clone, Copy)]
pub enum What<'a> {
    /// A fact that an actor (a control plane component) reports of itself.
    Actor(&'a Fact),
    /// A fact of the fabric, which carries calls between endpoints.
    Fabric(FabricFact<'a>),
    /// A fact that was noticed outside of the cluster: by the client, a program host double or the shared store.
    Client(&'a Noticed),
}

/// An observation with its virtual time and the process that it was made in, as invariants see it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Virtual time since the run's start. For what is seen while a host crashes, that of the observation before.
    pub at: Duration,
    /// Name of the simulated host that it was seen on; for [`What::Client`] always that of the client, also for facts of program host
    /// doubles and of the store.
    pub host: &'a str,
    /// Number of the host's start, 1, 2, …: which process on the host it was; always 1 for [`What::Client`].
    pub incarnation: u32,
    /// Fact that was observed.
    pub what: What<'a>,
}

impl Seen<'_> {
    /// Returns the process in which it was seen: the host's name and the number of the host's start.
    pub fn process(&self) -> (String, u32) {
        (self.host.to_owned(), self.incarnation)
    }
}

/// A break of an invariant, found in a simulated run; shown as `invariant: what`.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{}: {}", self.invariant, self.what)]
pub struct Violation {
    /// Name of the invariant that was broken.
    pub invariant: &'static str,
    /// The way in which it is broken; for an observation with its virtual time and host.
    pub what: String,
}

/// The use that is made of the trace (a line for each observation) besides its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trace {
    /// Keeps only the trace's hash, no lines.
    #[default]
    Hashed,
    /// The trace's lines are written to standard error, except those of calls that succeed quickly.
    Printed,
    /// Every line is kept in memory for [`Observer::take_lines`], those of all calls included.
    Kept,
}

struct State {
    hash: Sha256,
    invariants: Vec<(&'static str, Box<dyn Invariant>)>,
    violations: Vec<Violation>,
    counts: BTreeMap<&'static str, u64>,
    faults: Faults,
    /// The last allocation of each slot.
    slots: BTreeMap<SlotId, AllocationId>,
    trace: Trace,
    lines: Vec<String>,
    /// The last moment that anything was seen at.
    now: Duration,
}

/// Sees everything of one run in order: hashes and keeps the trace, counts, lets each invariant judge, and collects violations. Clones
/// share all of it.
#[derive(Clone, derive_more::Debug)]
#[debug("Observer")]
pub struct Observer(Arc<Mutex<State>>);

impl Observer {
    /// Creates an observer that has seen nothing, with new invariants; `trace` says what becomes of the trace's lines.
    pub fn new(trace: Trace) -> Self {
        Self(Arc::new(Mutex::new(State {
            hash: Sha256::new(),
            invariants: all(),
            violations: Vec::new(),
            counts: BTreeMap::new(),
            faults: Faults::default(),
            slots: BTreeMap::new(),
            trace,
            lines: Vec::new(),
            now: Duration::ZERO,
        })))
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a line at the virtual time `at` to the trace, and so to its hash, that no invariant judges: a fault, a process that ends.
    pub fn remark(&self, at: Duration, text: &str) {
        self.with(|s| s.line(&format!("{:>9.3} {text}", at.as_secs_f64())));
    }

    /// Observes a fact that was noticed outside of the cluster, at the present virtual time: it becomes a line of the trace, is counted
    /// where it is of a counted kind, and all invariants judge it.
    pub fn notice(&self, noticed: &Noticed) {
        self.with(|s| s.see(super::plan::CLIENT, 1, What::Client(noticed)));
    }

    /// Adds `n` to the counter named `what`, which [`Outcome::counts`](super::Outcome::counts) will have.
    pub fn count(&self, what: &'static str, n: u64) {
        self.with(|s| *s.counts.entry(what).or_default() += n);
    }

    /// Records that a fault begins at the virtual time `now`. Returns its number, by which it can be ended and observed.
    pub fn fault_begins(&self, fault: &Fault, now: Duration) -> u64 {
        self.with(|s| s.faults.begin(fault, now))
    }

    /// Records that the fault of this number has ended at `now`. For at least 15 s more, calls that were pending meanwhile may observe it.
    pub fn fault_ends(&self, number: u64, now: Duration) {
        self.with(|s| s.faults.end(number, now));
    }

    /// Records that a component got the error of the fault of this number. Counts each fault once, under its kind.
    pub fn fault_observed(&self, number: u64) {
        self.with(|s| {
            if let Some(kind) = s.faults.observe(number) {
                *s.counts.entry(kind).or_default() += 1;
            }
        });
    }

    /// Returns the number of begun faults of each kind, observed or not.
    pub fn faults_begun(&self) -> BTreeMap<&'static str, u64> {
        self.with(|s| s.faults.begun())
    }

    /// Records a violation that the run itself finds, not an invariant; `invariant` names what is broken.
    pub fn violation(&self, invariant: &'static str, what: String) {
        self.with(|s| s.violations.push(Violation { invariant, what }));
    }

    /// Tells all invariants that a host starts anew, for the `incarnation`-th time: what its earlier process held in memory is gone.
    pub fn host_started(&self, host: &str, incarnation: u32) {
        self.with(|s| {
            for (_, invariant) in &mut s.invariants {
                invariant.host_started(host, incarnation);
            }
        });
    }

    /// Has all invariants judge, at the end of the run, what had to happen by now; what they find becomes violations.
    pub fn run_ended(&self) {
        self.with(|s| {
            for (name, invariant) in &mut s.invariants {
                let found = invariant.run_ended().into_iter();
                s.violations.extend(found.map(|what| Violation { invariant: name, what }));
            }
        });
    }

    /// Returns the violations found so far, in the order in which they were found.
    pub fn violations(&self) -> Vec<Violation> {
        self.with(|s| s.violations.clone())
    }

    /// Returns the counts so far, by what was counted; a fault is counted, under its kind, only once a component observed it.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.with(|s| s.counts.clone())
    }

    /// Returns the hash of the trace so far, of its lines and all calls: 16 hexadecimal digits.
    pub fn trace_hash(&self) -> String {
        self.with(|s| {
            let digest = s.hash.clone().finalize();
            digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
        })
    }

    /// Takes out the lines of the trace that were kept since the last time; none unless the trace is [`Trace::Kept`].
    pub fn take_lines(&self) -> Vec<String> {
        self.with(|s| std::mem::take(&mut s.lines))
    }

    /// Returns a probe, to be given to the actors and the fabric of the `incarnation`-th process on `host`, that observes them.
    pub fn probe(&self, host: &str, incarnation: u32) -> Arc<HostProbe> {
        Arc::new(HostProbe { observer: self.clone(), host: host.to_owned(), incarnation })
    }
}

impl State {
    fn line(&mut self, line: &str) {
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        match self.trace {
            Trace::Hashed => {}
            Trace::Printed => eprintln!("{line}"),
            Trace::Kept => self.lines.push(line.to_owned()),
        }
    }

    /// Adds a call to the trace. There are many thousand calls, so they become lines only if every
    /// line is kept.
    fn trace_call(&mut self, seen: &Seen<'_>, endpoint: &str, call: &str) {
        self.hash.update(seen.at.as_nanos().to_le_bytes());
        for part in [seen.host, endpoint, call] {
            self.hash.update(part.as_bytes());
            self.hash.update(b"\n");
        }
        if self.trace == Trace::Kept {
            let at = seen.at.as_secs_f64();
            self.lines.push(format!("{at:>9.3} {} {endpoint} {call}", seen.host));
        }
    }

    /// Handles the end of a call. A call that succeeds quickly is ignored: the trace contains it where it was let in.
    fn see_asked(&mut self, host: &str, fact: FabricFact<'_>) {
        let FabricFact::Asked { to, call, took, lost } = fact else { return };
        if !lost && took < SLOW {
            return;
        }
        let to = to.host();
        let (at, took_s) = (self.now.as_secs_f64(), took.as_secs_f64());
        self.line(&format!("{at:>9.3} {host} {call} to {to} took {took_s:.3} s, lost: {lost}"));
        // The client is no component, and a request for a leader is slow because it waits until there is a new leader.
        if host == super::plan::CLIENT || !lost && call == RequestLeader::NAME {
            return;
        }
        *self.counts.entry(if lost { "calls lost" } else { "slow calls" }).or_default() += 1;
        for kind in self.faults.bad_call((host, to), self.now, took) {
            *self.counts.entry(kind).or_default() += 1;
        }
    }

    fn see(&mut self, host: &str, incarnation: u32, what: What<'_>) {
        // The end of an actor on a host that crashes is seen outside of the simulation's time.
        self.now = turmoil::sim_elapsed().unwrap_or(self.now);
        let seen = &Seen { at: self.now, host, incarnation, what };
        match what {
            What::Fabric(FabricFact::Admitted { endpoint, call, .. }) => {
                self.trace_call(seen, endpoint, call);
            }
            What::Fabric(fact @ FabricFact::Asked { .. }) => return self.see_asked(host, fact),
            What::Fabric(fact) => self.trace_fact(seen, &fact),
            What::Actor(fact) => self.trace_fact(seen, fact),
            What::Client(noticed) => self.trace_fact(seen, noticed),
        }
        if let Some(what) = counted(&what) {
            *self.counts.entry(what).or_default() += 1;
        }
        if let What::Actor(Fact::SlotAllocation { slot_id, allocation: Some((_, id)), .. }) = what
            && self.slots.insert(slot_id.clone(), *id).is_some_and(|before| before != *id)
        {
            *self.counts.entry("slots reassigned").or_default() += 1;
        }
        for (name, invariant) in &mut self.invariants {
            if let Err(what) = invariant.see(seen) {
                let at = seen.at.as_secs_f64();
                let what = format!("at {at:.3} s on {host}: {what}");
                self.violations.push(Violation { invariant: name, what });
            }
        }
    }

    fn trace_fact(&mut self, seen: &Seen<'_>, fact: &impl fmt::Debug) {
        let (at, host) = (seen.at.as_secs_f64(), seen.host);
        self.line(&format!("{at:>9.3} {host}#{} {fact:?}", seen.incarnation));
    }
}

fn counted(what: &What<'_>) -> Option<&'static str> {
    match what {
        What::Fabric(FabricFact::Admitted { .. }) => Some("calls"),
        What::Fabric(FabricFact::Fenced { .. }) => Some("fenced calls"),
        What::Fabric(FabricFact::Overloaded { .. }) => Some("calls refused by full mailboxes"),
        What::Fabric(
            FabricFact::Served { .. } | FabricFact::Withdrawn { .. } | FabricFact::Asked { .. },
        ) => None,
        What::Client(noticed) => match noticed {
            Noticed::Recorded { checkpoint: Some(_), .. } => Some("checkpoints complete"),
            Noticed::TaskAcknowledges { last: true, .. } => Some("final barriers"),
            Noticed::TaskRestored { from: Restored::Checkpoint(_), .. } => Some("tasks restored"),
            Noticed::CoordinatorsRestored { from: Restored::Checkpoint(_), .. } => {
                Some("coordinators restored")
            }
            Noticed::SubtasksReset { .. } => Some("subtasks reset"),
            _ => None,
        },
        What::Actor(fact) => match fact {
            Fact::LeadershipGranted { .. } => Some("elections"),
            Fact::StaleCallerRefused { .. } => Some("stale callers refused"),
            Fact::SlotAnswered { granted: true, .. } => Some("slots given"),
            Fact::TaskManagerLost { .. } => Some("TaskManagers lost"),
            Fact::WorkerRequested { .. } => Some("workers requested"),
            Fact::TaskState { state: ExecutionState::Failed, .. } => Some("tasks failed"),
            Fact::JobStatusChanged { status, cause, .. } => counted_job(*status, cause.as_deref()),
            Fact::LeaderObeyed { call, .. } if *call == NotifyNotEnoughResources::NAME => {
                Some("shortages after the start-up time")
            }
            _ => None,
        },
    }
}

fn counted_job(status: JobStatus, cause: Option<&str>) -> Option<&'static str> {
    match status {
        JobStatus::Restarting if cause == Some(NO_RESOURCE) => Some("restarts for want of slots"),
        JobStatus::Restarting => Some("restarts"),
        JobStatus::Failing => Some("restart strategies that gave up"),
        _ => None,
    }
}

/// The eyes of the observer in one process: passes the facts of its actors and fabric on, with the host and the number of its start.
#[derive(Debug)]
pub struct HostProbe {
    observer: Observer,
    host: String,
    incarnation: u32,
}

impl Probe for HostProbe {
    fn note(&self, fact: Fact) {
        self.observer.with(|s| s.see(&self.host, self.incarnation, What::Actor(&fact)));
    }

    fn watches_tasks(&self) -> bool {
        true
    }
}

impl Witness for HostProbe {
    fn sees(&self, fact: FabricFact<'_>) {
        self.observer.with(|s| s.see(&self.host, self.incarnation, What::Fabric(fact)));
    }
}
