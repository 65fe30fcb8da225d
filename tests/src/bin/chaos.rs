//! `cargo xtask chaos`: runs a generated job mix on real clusters whose processes are killed and whose disks are slow and
//! full, and fails where the committed output is not the undisturbed one.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to people")]

use anyhow::{Context as _, Result};
use clap::Parser;
use nix::sys::signal::{SigSet, Signal};
use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::atomic::Ordering, thread};
use tests::chaos::{
    cluster::INTERRUPTED,
    run::{Settings, run},
    totals::Totals,
};

#[derive(Debug, Parser)]
#[command(
    about = "Kills the processes of real clusters and compares what their jobs commit",
    after_help = "Examples:\n  cargo xtask chaos --runs 50 --seed 1\n  cargo xtask chaos --runs 1 --seed 42 --keep"
)]
struct Cli {
    /// Number of runs
    #[arg(long, default_value_t = 50)]
    runs: u64,
    /// The seed of the first run; each further run has the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out slow and full disks, which need root and /dev/fuse
    #[arg(long)]
    no_disks: bool,
    /// Break two-phase commit on purpose: what is prepared is committed at once. The campaign must fail
    #[arg(long)]
    commits_early: bool,
    /// Keep the folders of all runs, and not only that of the failed one
    #[arg(long)]
    keep: bool,
}

impl Cli {
    /// Returns the command that repeats one run.
    fn repeat(&self, seed: u64) -> String {
        let mut command = format!("cargo xtask chaos --runs 1 --seed {seed}");
        for (is_set, option) in
            [(self.no_disks, " --no-disks"), (self.commits_early, " --commits-early")]
        {
            command.push_str(if is_set { option } else { "" });
        }
        command
    }
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    end_with_signals()?;
    let settings =
        Settings { bins: bins()?, disks: !cli.no_disks, commits_early: cli.commits_early };
    let mut totals = Totals::default();
    for seed in (cli.seed..).take(usize::try_from(cli.runs)?) {
        if !one(&cli, seed, &settings, &mut totals)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    if cli.no_disks {
        println!("slow and full disks were left out (--no-disks)");
    }
    for line in totals.lines() {
        println!("{line}");
    }
    let absent = totals.never_happened(cli.runs, !cli.no_disks);
    if !absent.is_empty() {
        println!("never happened: {}", absent.join(", "));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Does one run and prints its line. Returns false if it failed.
fn one(cli: &Cli, seed: u64, settings: &Settings, totals: &mut Totals) -> Result<bool> {
    let folder = tempfile::Builder::new().prefix("flott-chaos-").tempdir()?;
    let begin = tokio::time::Instant::now();
    let shows = std::io::stderr().is_terminal();
    let outcome = run(seed, settings, folder.path(), |step| {
        if shows {
            eprint!("\r\x1b[Kseed {seed}: {step}");
        }
    });
    if shows {
        eprint!("\r\x1b[K");
    }
    let seconds = begin.elapsed().as_secs_f64();
    match outcome {
        Ok(seen) => {
            println!(
                "seed {seed}: {} kills ({} at points), {} checkpoints, {} lines, {}, {seconds:.1} s",
                seen.all_kills(),
                seen.hits.values().sum::<usize>(),
                seen.checkpoints,
                seen.lines,
                if seen.has_standby { "standby" } else { "restarted" },
            );
            for point in &seen.missed {
                println!("  no process came to '{}' in time", point.name());
            }
            totals.add(&seen);
            if cli.keep {
                println!("  its folder: {}", folder.keep().display());
            }
            Ok(true)
        }
        Err(error) => {
            println!("seed {seed} failed after {seconds:.1} s: {error:#}");
            println!("  its folder: {}", folder.keep().display());
            println!("  to repeat it: {}", cli.repeat(seed));
            Ok(false)
        }
    }
}

/// Returns the folder of this program, where those that it starts are too.
fn bins() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().context("this program has no folder")?.to_owned();
    for name in ["flott", "chaos_job", "passthrough_fs"] {
        let program = folder.join(name);
        anyhow::ensure!(program.is_file(), "{} is not built", program.display());
    }
    Ok(folder)
}

/// Makes the signals that end a command end the run instead, which then kills its processes and unmounts its disk.
fn end_with_signals() -> Result<()> {
    let ends: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    // Blocked before the first thread starts, because threads inherit the mask. Started processes do not.
    ends.thread_block().context("cannot block signals")?;
    let wait = move || {
        if ends.wait().is_ok() {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}
