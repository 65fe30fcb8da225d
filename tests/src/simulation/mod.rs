//! One simulated run: the real actors of JobManagers and TaskManagers in turmoil hosts, under the faults of
//! a plan that is drawn from a seed.
//!
//! The same seed gives the same trace. Nothing here may read the machine's clock or draw from the system.

pub mod barriers;
pub mod client;
pub mod disorder;
pub mod faults;
pub mod flood;
pub mod freezer;
pub mod ghosts;
pub mod host_double;
pub mod hosts;
pub mod invariants;
pub mod network;
pub mod noticed;
pub mod observed;
pub mod observer;
pub mod plan;
pub mod programs;
pub mod storage;
pub mod uploads;
pub mod workers;

pub use observer::{Trace, Violation};

use control::mutation::Mutation;
use faults::Faults;
use hosts::World;
use observer::Observer;
use plan::{CANDIDATES, CLIENT, Plan, RUN, WORKERS, candidate, worker};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The step of virtual time: the finest difference that a run distinguishes.
const TICK: Duration = Duration::from_millis(20);

/// The result of one simulated run: what broke, what happened how often, and the trace's hash.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Seed of the run; the same seed gives the same trace.
    pub seed: u64,
    /// The trace's hash, 16 hexadecimal digits: equal for equal runs.
    pub trace: String,
    /// The breaks of invariants, in the order in which they were found, and panics last; empty if all held.
    pub violations: Vec<Violation>,
    /// Number of faults that were begun, by [`Fault::kind`](plan::Fault::kind), whether a component observed them or not.
    pub begun: BTreeMap<&'static str, u64>,
    /// All counts by what was counted, such as `elections`, `calls` or a fault's kind; a fault is counted only if a component observed
    /// it.
    pub counts: BTreeMap<&'static str, u64>,
    /// The lines of the trace with [`Trace::Kept`]; otherwise empty.
    pub lines: Vec<String>,
}

thread_local! {
    /// Texts of the panics on this thread since the run began.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Notes the text of a panic on this thread, for the [`run`] on it, which makes a violation `no_panic` of each. The process's panic
/// hook must call it.
pub fn note_panic(what: String) {
    PANICS.with_borrow_mut(|panics| panics.push(what));
}

/// Simulates the run of a seed on this thread, in virtual time: draws its [`Plan`], starts the real actors on simulated hosts, applies the
/// faults, and lets all invariants judge. `mutation` breaks a rule of the control plane, `trace` says what becomes of the trace. With
/// `stop_at_first` the run ends at the first violation. Violations are in the outcome; they are no error.
///
/// # Errors
/// The run itself could not be set up, or a host failed in a way that no process would; there is no outcome then.
pub fn run(
    seed: u64,
    mutation: Mutation,
    trace: Trace,
    stop_at_first: bool,
) -> anyhow::Result<Outcome> {
    let plan = Plan::draw(seed);
    let observer = Observer::new(trace);
    observer.count("jobs", plan.jobs.len() as u64);
    let mut faults = Faults::of(&plan);
    let world = World::new(plan, mutation, observer.clone());
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(RUN + Duration::from_secs(60))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(60))
        .tcp_capacity(4096)
        .build();
    for i in 0..CANDIDATES {
        let (world, host) = (world.clone(), candidate(i));
        sim.host(candidate(i), move || {
            let run = hosts::jobmanager(world.clone(), host.clone());
            let (freezer, host) = (world.freezer.clone(), host.clone());
            async move { Ok(freezer.run(&host, run).await??) }
        });
    }
    for i in 0..WORKERS {
        let (world, host) = (world.clone(), worker(i));
        sim.host(worker(i), move || {
            let run = hosts::taskmanager(world.clone(), host.clone());
            let (freezer, host) = (world.freezer.clone(), host.clone());
            async move { Ok(freezer.run(&host, run).await??) }
        });
    }
    let clients = world.clone();
    sim.client(CLIENT, async move { Ok(client::run(clients).await?) });
    PANICS.take();
    while !sim.step().map_err(|error| anyhow::anyhow!("seed {seed}: {error}"))? {
        faults.apply(&mut sim, &world);
        if stop_at_first && !observer.violations().is_empty() {
            break;
        }
    }
    if !stop_at_first || observer.violations().is_empty() {
        observer.run_ended();
    }
    for panic in PANICS.take() {
        observer.violation("no_panic", panic);
    }
    Ok(Outcome {
        seed,
        trace: observer.trace_hash(),
        violations: observer.violations(),
        begun: observer.faults_begun(),
        counts: observer.counts(),
        lines: observer.take_lines(),
    })
}

/// Seeds that once found a fault that was then put right, each with the fault in words. Large simulations run them beside their own seeds.
pub const RECORDED: &[(u64, &str)] = &[
    (
        39,
        "subtasks at the end of their data waited for a final checkpoint that waited for subtasks without slots, and kept their own",
    ),
    (
        397,
        "a program host that replaced a crashed one under the same address got a deployment without the graph, and ran it",
    ),
];
