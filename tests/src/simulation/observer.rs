//! Sees every fact of a run in order, keeps the trace's hash, counts, and lets each invariant judge.
//!
//! It must never change what it sees.

#![expect(clippy::print_stderr, reason = "a printed trace is for people")]

use super::invariants::{Invariant, all};
use actors::probe::{Fact, Probe};
use gateways::RpcService;
use model::{AllocationId, SlotId};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A fact with its time and place.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Virtual time.
    pub at: Duration,
    /// Host.
    pub host: String,
    /// Which start of the host: 1, 2, …
    pub incarnation: u32,
    /// For a published leader: whether its endpoint is served in this process at this moment.
    pub answers: bool,
    /// What happened.
    pub fact: Fact,
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name.
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

struct State {
    hash: Sha256,
    invariants: Vec<Box<dyn Invariant>>,
    violations: Vec<Violation>,
    counts: BTreeMap<&'static str, u64>,
    /// The last allocation of each slot.
    slots: BTreeMap<SlotId, AllocationId>,
    print: bool,
}

/// All that is seen of one run. Cheap to clone.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<State>>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Observer {
    /// Nothing seen yet; `print` writes the trace to standard error.
    pub fn new(print: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            hash: Sha256::new(),
            invariants: all(),
            violations: Vec::new(),
            counts: BTreeMap::new(),
            slots: BTreeMap::new(),
            print,
        })))
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A line of the trace that is not a fact of an actor: a fault, a job's state.
    pub fn remark(&self, at: Duration, text: &str) {
        self.with(|s| s.trace(&format!("{:>9.3} {text}", at.as_secs_f64())));
    }

    /// Counts something.
    pub fn count(&self, what: &'static str, n: u64) {
        self.with(|s| *s.counts.entry(what).or_default() += n);
    }

    /// A violation that the run itself finds.
    pub fn violation(&self, invariant: &'static str, what: String) {
        self.with(|s| s.violations.push(Violation { invariant, what }));
    }

    /// A host starts anew: what its earlier start held in memory is gone.
    pub fn host_started(&self, host: &str, incarnation: u32) {
        self.with(|s| {
            for invariant in &mut s.invariants {
                invariant.host_started(host, incarnation);
            }
        });
    }

    /// What was found so far.
    pub fn violations(&self) -> Vec<Violation> {
        self.with(|s| s.violations.clone())
    }

    /// Counts so far.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.with(|s| s.counts.clone())
    }

    /// Hash of the trace so far.
    pub fn trace_hash(&self) -> String {
        self.with(|s| {
            let digest = s.hash.clone().finalize();
            digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
        })
    }

    /// What a host's actors note their facts to.
    pub fn probe(&self, host: &str, incarnation: u32, rpc: &RpcService) -> Arc<dyn Probe> {
        let (observer, host, rpc) = (self.clone(), host.to_owned(), rpc.clone());
        Arc::new(HostProbe { observer, host, incarnation, rpc })
    }
}

impl State {
    fn trace(&mut self, line: &str) {
        self.hash.update(line.as_bytes());
        self.hash.update(b"\n");
        if self.print {
            eprintln!("{line}");
        }
    }

    fn see(&mut self, seen: &Seen) {
        self.trace(&format!(
            "{:>9.3} {}#{} {:?}",
            seen.at.as_secs_f64(),
            seen.host,
            seen.incarnation,
            seen.fact
        ));
        let counted = match &seen.fact {
            Fact::LeadershipGranted { .. } => Some("elections"),
            Fact::StaleCallerRefused { .. } | Fact::CallFenced { .. } => Some("fenced calls"),
            Fact::SlotAnswered { granted: true, .. } => Some("slots given"),
            Fact::WorkerLost { .. } => Some("workers lost"),
            Fact::WorkerRequested { .. } => Some("workers requested"),
            _ => None,
        };
        if let Some(what) = counted {
            *self.counts.entry(what).or_default() += 1;
        }
        if let Fact::SlotAllocation { slot_id, allocation: Some((_, id)), .. } = &seen.fact
            && self.slots.insert(slot_id.clone(), *id).is_some_and(|before| before != *id)
        {
            *self.counts.entry("slots reassigned").or_default() += 1;
        }
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.see(seen) {
                let at = seen.at.as_secs_f64();
                let what = format!("at {at:.3} s on {}: {what}", seen.host);
                self.violations.push(Violation { invariant: invariant.name(), what });
            }
        }
    }
}

#[derive(Debug)]
struct HostProbe {
    observer: Observer,
    host: String,
    incarnation: u32,
    rpc: RpcService,
}

impl Probe for HostProbe {
    fn note(&self, fact: Fact) {
        let answers = match &fact {
            Fact::LeaderPublished { leader, .. } => {
                self.rpc.serves(&leader.address.endpoint, leader.session)
            }
            _ => false,
        };
        let seen = Seen {
            answers,
            at: turmoil::sim_elapsed().unwrap_or_default(),
            host: self.host.clone(),
            incarnation: self.incarnation,
            fact,
        };
        self.observer.with(|s| s.see(&seen));
    }
}
