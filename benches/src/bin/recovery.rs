//! The time from the SIGKILL of a TaskManager until its job runs again: the *state* workload, 100 MiB of keyed state in 102,400 keys,
//! 5,000 updates per second, a checkpoint every second. Two subtasks each on two TaskManagers with one slot, and a third
//! TaskManager whose slot is spare; restarts without a delay.
//!
//! `recovery [--rounds N]`. Each round has a cluster of its own.
//!
//! | metric | of what |
//! |---|---|
//! | `recovery_ms` | from the kill until every task runs again and every sink subtask has got a record |
//! | `running_ms` | from the kill until the REST endpoint says that every task runs again |
//! | `first_output_ms` | from the kill until the first record of a sink subtask |
//! | `recovery_max_ms` | the longest round |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result, ensure};
use benches::{
    Report,
    cluster::{Cluster, wait_a_moment},
    continuous,
    report::Goal,
};
use clap::Parser;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;
use tokio::time::Instant;

const PARALLELISM: i64 = 2;
const TASKS: u32 = 4;
const OPTIONS: &str = "taskmanager.numberOfTaskSlots: 1\nexecution.checkpointing.interval: 1 s\n\
    restart-strategy.type: fixed-delay\nrestart-strategy.fixed-delay.attempts: 1000\n\
    restart-strategy.fixed-delay.delay: 0 s\n";
/// Bytes of a checkpoint from which on the state is there.
const STATE_BYTES: u64 = 100 << 20;

#[derive(Parser)]
struct Cli {
    /// Number of kills.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
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

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let report = Report::new("recovery");
    let mut rounds = Vec::new();
    for n in 0..cli.rounds {
        eprintln!("recovery: round {} of {}", n + 1, cli.rounds);
        rounds.push(round(cli.logs.as_ref().map(|logs| logs.join(n.to_string()))).await?);
    }
    let of = |figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<f64>>();
    let recovery = of(|round| round.running.max(round.all_outputs));
    report.runs_with_goal("recovery_ms", &recovery, "ms", Goal::AtMost(500.0))?;
    report.value("recovery_max_ms", recovery.iter().copied().fold(0.0, f64::max), "ms")?;
    report.runs("running_ms", &of(|round| round.running), "ms")?;
    report.runs("first_output_ms", &of(|round| round.first_output), "ms")?;
    Ok(())
}

async fn round(logs: Option<PathBuf>) -> Result<Round> {
    let (folder, checkpoints) = (TempDir::new()?, TempDir::new()?);
    let directory = checkpoints.path().display();
    let mut cluster =
        Cluster::prepare(&format!("{OPTIONS}execution.checkpointing.dir: {directory}\n"))?;
    cluster.start_jobmanager().await?;
    for _ in 0..3 {
        cluster.start_taskmanager().await?;
    }
    let args = vec![folder.path().display().to_string()];
    let job = continuous::start(&cluster, "state", PARALLELISM, TASKS, args).await?;
    let began = Instant::now();
    loop {
        let statistics = cluster.rest.checkpoints(&job).await?;
        let full = |c: &&_| is_full(c);
        if statistics.history.iter().filter(full).count() >= 2 {
            break;
        }
        wait_a_moment(began, "two checkpoints with all of the state")?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let victim = victim(&cluster)?;
    let killed = Instant::now();
    let killed_ns = continuous::now_unix_ns();
    kill(Pid::from_raw(i32::try_from(victim)?), Signal::SIGKILL)?;
    let running = until_running(&cluster, &job, killed).await?;
    let outputs = until_output(&folder, killed_ns, killed)?;
    if let Some(logs) = logs {
        std::fs::create_dir_all(&logs)?;
        std::fs::write(logs.join("killed"), (killed_ns / 1_000_000).to_string())?;
        for entry in std::fs::read_dir(cluster.folder().join("log"))? {
            let path = entry?.path();
            std::fs::copy(&path, logs.join(path.file_name().context("a log has a name")?))?;
        }
    }
    continuous::cancel(&cluster, &job).await?;
    let since = |at: u64| (at.saturating_sub(killed_ns)) as f64 / 1e6;
    let (first, last) = (outputs.iter().min(), outputs.iter().max());
    Ok(Round {
        running,
        first_output: first.map_or(f64::NAN, |at| since(*at)),
        all_outputs: last.map_or(f64::NAN, |at| since(*at)),
    })
}

fn is_full(checkpoint: &rest::messages::CheckpointInfo) -> bool {
    checkpoint.status == "COMPLETED" && checkpoint.state_size >= STATE_BYTES
}

/// Returns a TaskManager that has a process of the job.
fn victim(cluster: &Cluster) -> Result<u32> {
    let busy = |pid: &u32| benches::children_of(*pid).is_ok_and(|children| children > 0);
    let pids: Vec<u32> = cluster.taskmanager_pids().into_iter().filter(busy).collect();
    ensure!(pids.len() == PARALLELISM as usize, "the job runs on {} TaskManagers", pids.len());
    pids.first().copied().context("no TaskManager has a process of the job")
}

/// Waits until the job's tasks have stopped to run and all run again. Returns the milliseconds since the kill.
async fn until_running(cluster: &Cluster, job: &str, killed: Instant) -> Result<f64> {
    let mut failed = false;
    loop {
        let running = continuous::running(cluster, job).await?;
        failed |= running < TASKS;
        if failed && running == TASKS {
            return Ok(benches::cluster::millis(killed));
        }
        wait_a_moment(killed, "the restart")?;
    }
}

/// Waits until both sink subtasks have got a record since the kill. Returns when, in nanoseconds since 1970.
fn until_output(folder: &TempDir, killed_ns: u64, killed: Instant) -> Result<Vec<u64>> {
    loop {
        let mut outputs = Vec::new();
        for subtask in 0..PARALLELISM {
            for text in continuous::marks(folder.path(), &format!("first-{subtask}-"))? {
                let at: u64 = text.parse()?;
                if at > killed_ns {
                    outputs.push(at);
                }
            }
        }
        if outputs.len() >= PARALLELISM as usize {
            return Ok(outputs);
        }
        wait_a_moment(killed, "the first outputs")?;
    }
}
