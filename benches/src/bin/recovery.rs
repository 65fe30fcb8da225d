//! The time from the SIGKILL of a TaskManager until its job runs again: the *state* workload (`benches::continuous::state`) with its two
//! subtasks each on two TaskManagers with one slot, and a third TaskManager whose slot is spare; restarts without a delay.
//!
//! `recovery [--rounds N] [--against flink]`. Each round has a cluster of its own.
//!
//! | metric | of what |
//! |---|---|
//! | `recovery_ms` | from the kill until every task runs again and every sink subtask has got a record |
//! | `running_ms` | from the kill until the REST endpoint says that every task runs again |
//! | `first_output_ms` | from the kill until the first record of a sink subtask |
//! | `recovery_max_ms` | the longest round |
//! | `flink_recovery_ms`, `flink_running_ms` | the same of Flink, with its default heartbeats |
//! | `flink_over_ours` | Flink's `recovery_ms` ÷ ours |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::Result;
use benches::{
    Report,
    cluster::{millis, wait_a_moment},
    continuous::{
        self,
        state::{PARALLELISM, StateJob, TASKS},
    },
    median,
    report::Goal,
    throughput::flink::{Against, Installed},
};
use clap::Parser;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::path::PathBuf;
use tokio::time::Instant;

#[derive(Parser)]
#[command(name = "cargo xtask bench recovery")]
struct Cli {
    /// Number of kills.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of kills of Flink's TaskManagers.
    #[arg(long, default_value_t = 2)]
    flink_rounds: usize,
    #[command(flatten)]
    against: Against,
    /// Keeps the logs of each round's processes below this folder.
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// One kill, in milliseconds since.
struct Round {
    running: f64,
    first_output: f64,
    all_outputs: f64,
}

impl Round {
    fn recovery(&self) -> f64 {
        self.running.max(self.all_outputs)
    }
}

fn of(rounds: &[Round], figure: fn(&Round) -> f64) -> Vec<f64> {
    rounds.iter().map(figure).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let flink = cli.against.flink()?;
    let report = Report::new("recovery");
    let rounds = kills(&cli, None, cli.rounds).await?;
    let recovery = of(&rounds, Round::recovery);
    report.runs_with_goal("recovery_ms", &recovery, "ms", Goal::AtMost(500.0))?;
    report.value("recovery_max_ms", recovery.iter().copied().fold(0.0, f64::max), "ms")?;
    report.runs("running_ms", &of(&rounds, |round| round.running), "ms")?;
    report.runs("first_output_ms", &of(&rounds, |round| round.first_output), "ms")?;
    if let Some(flink) = &flink {
        let rounds = kills(&cli, Some(flink), cli.flink_rounds).await?;
        let theirs = of(&rounds, Round::recovery);
        report.runs("flink_recovery_ms", &theirs, "ms")?;
        report.runs("flink_running_ms", &of(&rounds, |round| round.running), "ms")?;
        report.value("flink_over_ours", median(&theirs) / median(&recovery), "ratio")?;
    }
    Ok(())
}

async fn kills(cli: &Cli, flink: Option<&Installed>, rounds: usize) -> Result<Vec<Round>> {
    let whose = if flink.is_some() { "flink" } else { "ours" };
    let mut done = Vec::new();
    for n in 1..=rounds {
        eprintln!("recovery: {whose}, round {n} of {rounds}");
        let logs = cli.logs.as_ref().map(|logs| logs.join(format!("{whose}-{n}")));
        done.push(round(flink, logs).await?);
    }
    Ok(done)
}

async fn round(flink: Option<&Installed>, logs: Option<PathBuf>) -> Result<Round> {
    let job = StateJob::start(flink, 3, 1, "").await?;
    let victim = job.busy_taskmanager().await?;
    let killed = Instant::now();
    let killed_ns = continuous::now_unix_ns();
    kill(Pid::from_raw(i32::try_from(victim)?), Signal::SIGKILL)?;
    let running = until_running(&job, killed).await?;
    let outputs = until_output(&job, killed_ns, killed)?;
    if let Some(logs) = logs {
        job.copy_logs(&logs)?;
        std::fs::write(logs.join("killed"), (killed_ns / 1_000_000).to_string())?;
    }
    job.end().await?;
    let since = |at: u64| (at.saturating_sub(killed_ns)) as f64 / 1e6;
    let (first, last) = (outputs.iter().min(), outputs.iter().max());
    Ok(Round {
        running,
        first_output: first.map_or(f64::NAN, |at| since(*at)),
        all_outputs: last.map_or(f64::NAN, |at| since(*at)),
    })
}

/// Waits until the job's tasks have stopped to run and all run again. Returns the milliseconds since the kill.
async fn until_running(job: &StateJob, killed: Instant) -> Result<f64> {
    let mut failed = false;
    loop {
        let running = continuous::running(job.rest(), job.id()).await?;
        failed |= running < TASKS;
        if failed && running == TASKS {
            return Ok(millis(killed));
        }
        wait_a_moment(killed, "the restart")?;
    }
}

/// Waits until both sink subtasks have got a record since the kill. Returns when, in nanoseconds since 1970.
fn until_output(job: &StateJob, killed_ns: u64, killed: Instant) -> Result<Vec<u64>> {
    loop {
        let mut outputs = Vec::new();
        for subtask in 0..PARALLELISM {
            outputs.extend(job.first_records(subtask)?.into_iter().filter(|at| *at > killed_ns));
        }
        if outputs.len() >= PARALLELISM as usize {
            return Ok(outputs);
        }
        wait_a_moment(killed, "the first outputs")?;
    }
}
