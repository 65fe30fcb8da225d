//! `cargo xtask simulate`: runs seeds of the simulated cluster in parallel, prints what was seen, and fails
//! with the seeds in which an invariant did not hold.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to people")]

use anyhow::{Result, bail};
use clap::Parser;
use control::mutation::Mutation;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use tests::simulation::{self, Outcome};

/// What must have happened in a whole run of the command, or it has shown nothing.
const MUST_HAPPEN: [&str; 4] = ["elections", "fenced calls", "slots reassigned", "workers lost"];
/// A run of fewer seeds is a replay: not everything has to happen in it.
const SEEDS_THAT_SHOW: u64 = 20;

#[derive(Debug, Parser)]
#[command(
    about = "Runs the real control plane under seeded faults",
    after_help = "Examples:\n  cargo xtask simulate --seeds 1000\n  \
                  cargo xtask simulate --seeds 1 --seed 42 --print\n  cargo xtask simulate --mutants"
)]
struct Cli {
    /// How many seeds
    #[arg(long, default_value_t = 50)]
    seeds: u64,
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
    /// Seeds that run at the same time [default: cores]
    #[arg(long)]
    threads: Option<usize>,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    if cli.mutants {
        return mutants(&cli);
    }
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut done, mut failed) = (0_u64, Vec::new());
    let progress = std::io::stderr().is_terminal();
    each_seed(&cli, Mutation::None, |outcome| {
        done += 1;
        for (what, n) in &outcome.counts {
            *counts.entry(what).or_default() += n;
        }
        for violation in &outcome.violations {
            println!("seed {}: {violation}", outcome.seed);
        }
        if !outcome.violations.is_empty() {
            failed.push(outcome.seed);
        }
        if cli.seeds == 1 {
            println!("seed {}: trace {}", outcome.seed, outcome.trace);
        }
        if progress {
            eprint!("\r{done} of {} seeds", cli.seeds);
        }
        true
    })?;
    if progress {
        eprintln!();
    }
    println!("{done} seeds from {}", cli.seed);
    for (what, n) in &counts {
        println!("{n:>10} {what}");
    }
    let absent: Vec<_> =
        MUST_HAPPEN.iter().filter(|what| counts.get(*what).copied().unwrap_or(0) == 0).collect();
    if done >= SEEDS_THAT_SHOW && !absent.is_empty() {
        println!("nothing was seen of: {absent:?}");
        return Ok(ExitCode::FAILURE);
    }
    failed.sort_unstable();
    if let Some(seed) = failed.first() {
        println!("{} seeds failed: {failed:?}", failed.len());
        println!("replay: cargo xtask simulate --seeds 1 --seed {seed} --print");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the seeds on several threads; `each` is told every outcome, and ends it all by answering `false`.
fn each_seed(cli: &Cli, mutation: Mutation, mut each: impl FnMut(Outcome) -> bool) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let (send, outcomes) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..cli.threads.unwrap_or(cores) {
            let (send, next, stop) = (send.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= cli.seeds {
                        break;
                    }
                    let found = mutation != Mutation::None;
                    let run = simulation::run(cli.seed + n, mutation, cli.print, found);
                    if send.send(run).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for outcome in outcomes {
            if !each(outcome?) {
                stop.store(true, Ordering::Relaxed);
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
    use tests::simulation::recorded_seed;
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let mut found: Option<(u64, String)> = None;
        let (seed, seeds) = match (cli.recorded, recorded_seed(mutation)) {
            (false, _) => (cli.seed, cli.seeds),
            (true, Some(seed)) => (seed, 1),
            (true, None) => {
                println!("{mutation:?}: no seed is recorded yet");
                continue;
            }
        };
        let mine = Cli { seeds, seed, ..Cli::parse() };
        each_seed(&mine, mutation, |outcome| {
            if let Some(violation) = outcome.violations.first() {
                found = Some((outcome.seed, violation.to_string()));
            }
            found.is_none()
        })?;
        match found {
            Some((seed, what)) => println!("{mutation:?}: found at seed {seed}: {what}"),
            None => {
                println!("{mutation:?}: NOT FOUND in {} seeds from {}", mine.seeds, mine.seed);
                missed.push(mutation);
            }
        }
    }
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("broken rules that no invariant found: {missed:?}")
}
