//! `cargo xtask simulate`: runs seeds of the simulated cluster in parallel, prints what was seen, and fails
//! with the seeds in which an invariant did not hold.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to people")]

use anyhow::{Result, bail};
use clap::Parser;
use control::mutation::Mutation;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use tests::simulation::{self, Outcome, RECORDED, Trace};

/// The events that must have happened in a whole run of the command; otherwise it has shown
/// nothing.
const MUST_HAPPEN: &[&str] = &[
    "elections",
    "fenced calls",
    "stale callers refused",
    "slots reassigned",
    "TaskManagers lost",
    "workers requested",
    "loss",
    "delay",
    "hold",
    "partition",
    "partition one way",
    "crash",
    "bounce",
    "storage slow",
    "storage hangs",
    "storage fails",
    "freeze",
    "reset",
    "program host crash",
    "flood",
    "calls overtaken",
    "calls refused by full mailboxes",
    "tasks failed",
    "restart strategies that gave up",
    "restarts for want of slots",
    "shortages after the start-up time",
    "registrations that timed out",
    "checkpoints complete",
    "final barriers",
    "tasks restored",
    "coordinators restored",
];
/// Number of seeds of a run that names no number.
const SEEDS: u64 = 50;
/// Number of seeds that are tried for a broken rule before it counts as not found. The first seed that finds it ends
/// the search.
const MUTANT_SEEDS: u64 = 500;
/// A run of fewer seeds is a replay: not everything has to happen in it.
const SEEDS_THAT_SHOW: u64 = 20;
/// Number of first seeds that are run a second time: the same seed must give the same trace.
const TWICE: u64 = 2;

#[derive(Debug, Parser)]
#[command(
    about = "Runs the real control plane under seeded faults",
    after_help = "Examples:\n  cargo xtask simulate --seeds 1000\n  \
                  cargo xtask simulate --seeds 1 --seed 42 --print\n  cargo xtask simulate --mutants"
)]
struct Cli {
    /// Number of seeds; with --mutants: how many are tried for each rule [default: 50; with
    /// --mutants: 500]
    #[arg(long)]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Break each rule on purpose, and find it
    #[arg(long)]
    mutants: bool,
    /// With --mutants: only the recorded seed of each
    #[arg(long, requires = "mutants")]
    recorded: bool,
    /// Print the trace of each run
    #[arg(long)]
    print: bool,
    /// Run every seed twice and compare the traces
    #[arg(long)]
    twice: bool,
    /// Seeds that run at the same time [default: cores]
    #[arg(long)]
    threads: Option<usize>,
}

impl Cli {
    /// The seeds of a run, in order.
    fn seeds(&self) -> Vec<u64> {
        let count = self.count();
        let mut seeds: Vec<u64> = (self.seed..self.seed.saturating_add(count)).collect();
        if count >= SEEDS_THAT_SHOW {
            let recorded = RECORDED.iter().map(|(seed, _)| *seed);
            let others: Vec<u64> = recorded.filter(|seed| !seeds.contains(seed)).collect();
            seeds.extend(others);
        }
        seeds
    }

    fn count(&self) -> u64 {
        self.seeds.unwrap_or(if self.mutants { MUTANT_SEEDS } else { SEEDS })
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or(cores).max(1)
    }
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        simulation::note_panic(info.to_string());
        quiet(info);
    }));
    match cli.mutants {
        true => mutants(&cli),
        false => invariants(&cli),
    }
}

fn invariants(cli: &Cli) -> Result<ExitCode> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut begun: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut done, mut failed) = (0_u64, Vec::new());
    let progress = std::io::stderr().is_terminal();
    let seeds = cli.seeds();
    let trace = if cli.print { Trace::Printed } else { Trace::Hashed };
    each_seed(&seeds, cli.threads(), Mutation::None, trace, |outcome| {
        done += 1;
        for (what, n) in &outcome.counts {
            *counts.entry(what).or_default() += n;
        }
        for (what, n) in &outcome.begun {
            *begun.entry(what).or_default() += n;
        }
        for violation in &outcome.violations {
            println!("seed {}: {violation}", outcome.seed);
        }
        if !outcome.violations.is_empty() {
            failed.push(outcome.seed);
        }
        if cli.count() == 1 {
            println!("seed {}: trace {}", outcome.seed, outcome.trace);
        }
        if progress {
            eprint!("\r{done} of {} seeds", seeds.len());
        }
        true
    })?;
    if progress {
        eprintln!();
    }
    println!("{done} seeds from {}", cli.seed);
    print_counts(&counts, &begun);
    println!("{:>10.2} CPU seconds per seed", cpu_seconds()? / done.max(1) as f64);
    let shows = done >= SEEDS_THAT_SHOW;
    let absent: Vec<_> =
        MUST_HAPPEN.iter().filter(|what| counts.get(*what).copied().unwrap_or(0) == 0).collect();
    if shows && !absent.is_empty() {
        println!("nothing was seen of: {absent:?}");
        return Ok(ExitCode::FAILURE);
    }
    failed.sort_unstable();
    if let Some(seed) = failed.first() {
        println!("{} seeds failed: {failed:?}", failed.len());
        println!("replay: cargo xtask simulate --seeds 1 --seed {seed} --print");
        return Ok(ExitCode::FAILURE);
    }
    if shows || cli.twice {
        let twice = if cli.twice { seeds.len() } else { TWICE as usize };
        return same_traces(seeds.get(..twice).unwrap_or(&seeds), cli.threads());
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints for each kind of fault how many were observed by a component, of those that were begun; prints all other
/// counts as they are.
fn print_counts(counts: &BTreeMap<&'static str, u64>, begun: &BTreeMap<&'static str, u64>) {
    for (what, n) in counts.iter().filter(|(what, _)| !begun.contains_key(*what)) {
        println!("{n:>10} {what}");
    }
    println!("faults that a component observed, of those that were begun:");
    for (what, of) in begun {
        let n = counts.get(what).copied().unwrap_or(0);
        println!("{n:>10} of {of:>6} {what}");
    }
}

/// Returns the seconds of CPU time that this process has used so far.
fn cpu_seconds() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(micros as f64 / 1e6)
}

/// Runs seeds twice; the same seed must give the same trace, whatever runs beside it.
fn same_traces(seeds: &[u64], threads: usize) -> Result<ExitCode> {
    let mut first: BTreeMap<u64, Outcome> = BTreeMap::new();
    let mut differs = false;
    let both: Vec<u64> = seeds.iter().flat_map(|seed| [*seed, *seed]).collect();
    each_seed(&both, threads, Mutation::None, Trace::Kept, |again| {
        let Some(once) = first.remove(&again.seed) else {
            first.insert(again.seed, again);
            return true;
        };
        if once.trace != again.trace {
            differs = true;
            println!("seed {}: two runs differ:", once.seed);
            let mut lines = once.lines.iter().zip(&again.lines);
            if let Some((a, b)) = lines.find(|(a, b)| a != b) {
                println!("  {a}\n  {b}");
            }
        }
        true
    })?;
    if differs {
        return Ok(ExitCode::FAILURE);
    }
    println!("{:>10} seeds gave the same trace twice", seeds.len());
    Ok(ExitCode::SUCCESS)
}

/// Runs seeds on several threads. Calls `each` with every outcome, and stops when it returns false.
fn each_seed(
    seeds: &[u64],
    threads: usize,
    mutation: Mutation,
    trace: Trace,
    mut each: impl FnMut(Outcome) -> bool,
) -> Result<()> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, outcomes) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (send, next, stop) = (send.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) else {
                        break;
                    };
                    let found = mutation != Mutation::None;
                    let run = simulation::run(*seed, mutation, trace, found);
                    if send.send(run).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for outcome in outcomes {
            if !each(outcome?) {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        Ok(())
    })
}

#[cfg(not(feature = "mutants"))]
fn mutants(_: &Cli) -> Result<ExitCode> {
    bail!("this build holds no broken rules: build with --features mutants, as xtask does")
}

#[cfg(feature = "mutants")]
fn mutants(cli: &Cli) -> Result<ExitCode> {
    use simulation::invariants::{Mutant, mutants};
    let mut missed = Vec::new();
    for Mutant { rule, invariant, seed } in mutants() {
        let mut found: Option<(u64, String)> = None;
        // The seed that is known to find the broken rule comes first; others are tried only if it no longer does.
        let mut seeds = vec![seed];
        if !cli.recorded {
            seeds.extend(cli.seeds().into_iter().filter(|other| *other != seed));
        }
        each_seed(&seeds, cli.threads(), rule, Trace::Hashed, |outcome| {
            // Other invariants may see something of it too.
            let mut violations = outcome.violations.iter();
            if let Some(violation) = violations.find(|v| v.invariant == invariant) {
                found = Some((outcome.seed, violation.to_string()));
            }
            found.is_none()
        })?;
        match found {
            Some((seed, what)) => println!("{rule:?}: found at seed {seed}: {what}"),
            None => {
                println!("{rule:?}: NOT FOUND by {invariant} in {} seeds", seeds.len());
                missed.push(rule);
            }
        }
    }
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("broken rules that no invariant found: {missed:?}")
}
