//! Feeds every decoder of bytes from the wire, disk or user with valid encodings, broken in many
//! ways: none may panic, run for long or take memory that its input does not justify.
//!
//! Needs no special toolchain: inputs are made from a seed, so that a failure is replayed by its seed
//! alone. `cargo xtask fuzz --seconds 60`; `cargo xtask fuzz --target NAME --seed N` replays one case.
//!
//! ```text
//! parent: starts a worker, and says which cases were under way if it dies
//! worker: threads; each draws a case, makes its input, runs the decoder under a watch
//! ```

#![expect(clippy::print_stderr, reason = "it talks to the person at the terminal")]

mod allocator;
mod mutate;
mod rng;
mod runner;
mod targets;
mod watch;

use clap::Parser;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

/// Fuzzes every decoder.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Args {
    /// Duration of the run in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first case; with it, exactly one case of each target is run.
    #[arg(long)]
    seed: Option<u64>,
    /// Only this target.
    #[arg(long)]
    target: Option<String>,
    /// Only lists the targets.
    #[arg(long)]
    list: bool,
    /// Set by the parent: the file in which threads say what they are doing.
    #[arg(long, hide = true)]
    worker: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        targets::all().iter().for_each(|target| eprintln!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    let result = match &args.worker {
        Some(file) => runner::work(&args, file),
        None => runner::supervise(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
