//! Measures how soon a job ends that is cancelled by REST while its function is slow, or while its sink takes nothing, and
//! how soon the slow function's first output comes, on two TaskManagers with two slots each.
//!
//! `cargo xtask bench cancellation [--rounds N] [--slow-ms N]`. Each round is a job of its own, with processes of its own. *Slow map*: four
//! subtasks of a source, whose `map` sleeps 50 ms for each record, before four sinks. *Stalled*: four sources of records of 1 KiB, as fast
//! as they can, before one sink whose writer is full and stays so; it is cancelled when the sources have sent nothing for two seconds.
//! The job's state is asked for every 2 ms; it is CANCELED when all tasks have ended and the end is recorded.
//!
//! | metric | of what |
//! |---|---|
//! | `first_output_ms` | from when the first sink was opened to the first record at any sink |
//! | `all_outputs_ms` | the same to when every sink has had a record |
//! | `deployed_output_ms` | from the first task's deployment to the first record, the start of the processes included |
//! | `slow_map_cancel_ms`, `stalled_cancel_ms` | from the request to CANCELED; `…_max_ms`: the longest of all rounds |
//! | `stalled_sent_mib` | what the stalled job's sources had sent when they stopped |
//! | `slow_map_peak_mib`, `stalled_peak_mib` | the most of one TaskManager and its program hosts, the sum of each process's peak |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Result, bail, ensure};
use benches::{
    Report,
    cluster::{Cluster, millis, wait_a_moment},
    continuous,
    report::Goal,
    throughput::measure::PeakMemory,
};
use clap::Parser;
use std::{path::Path, time::Duration};
use tempfile::TempDir;
use tokio::time::Instant;

const TASK_MANAGERS: usize = 2;
/// The parallelism of the jobs: all slots.
const PARALLELISM: i64 = 4;
/// MiB that each TaskManager is given for itself and its program hosts: what is the default.
const PROCESS_MIB: f64 = 1_728.0;
/// Time between two looks at the state of a job.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Maximum time of a cancellation.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for which the sources must have sent nothing, and how often that is looked at.
const QUIET: Duration = Duration::from_secs(2);
const QUIET_LOOK_EVERY: Duration = Duration::from_millis(100);
/// Goals in milliseconds: of the first output, and of a cancellation: 50 for the record at work, and 100 after it.
const OUTPUT_WITHIN: f64 = 1_000.0;
const CANCELLED_WITHIN: f64 = 150.0;

#[derive(Parser)]
#[command(name = "cargo xtask bench cancellation")]
struct Cli {
    /// Rounds of each job.
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Milliseconds for which the slow function works on a record; the goals are those for 50.
    #[arg(long, default_value_t = 50)]
    slow_ms: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let report = Report::new("cancellation");
    let options = format!(
        "taskmanager.numberOfTaskSlots: {}\ntaskmanager.memory.process.size: {PROCESS_MIB}m\n",
        PARALLELISM / i64::try_from(TASK_MANAGERS)?
    );
    let cluster = Cluster::start(&options, TASK_MANAGERS).await?;
    slow_map(&cli, &cluster, &report).await?;
    stalled(&cli, &cluster, &report).await
}

async fn slow_map(cli: &Cli, cluster: &Cluster, report: &Report) -> Result<()> {
    let (mut first, mut all, mut deployed) = (Vec::new(), Vec::new(), Vec::new());
    let mut ends = Ends::default();
    for round in 0..cli.rounds {
        eprintln!("cancellation: slow map, round {} of {}", round + 1, cli.rounds);
        let (folder, peaks) = (TempDir::new()?, watch(cluster)?);
        let args = vec![folder.path().display().to_string(), cli.slow_ms.to_string()];
        let tasks = 2 * PARALLELISM as u32;
        let job = continuous::start(cluster, "slow_map", PARALLELISM, tasks, args).await?;
        let outputs = outputs(folder.path())?;
        first.push(outputs.first_ms);
        all.push(outputs.all_ms);
        let vertices = cluster.rest.job(&job).await?.vertices;
        let at = vertices.iter().map(|vertex| vertex.start_time).min().unwrap_or(0);
        deployed.push(outputs.first_at_ms - at as f64);
        // Other rounds cancel at another place within the 50 ms of a record.
        tokio::time::sleep(Duration::from_millis(500 + 13 * u64::from(round))).await;
        ends.add(cancel(cluster, &job).await?, peaks);
        cluster.until_no_hosts()?;
    }
    report.runs_with_goal("first_output_ms", &first, "ms", Goal::AtMost(OUTPUT_WITHIN))?;
    report.runs("all_outputs_ms", &all, "ms")?;
    report.runs("deployed_output_ms", &deployed, "ms")?;
    ends.report(report, "slow_map")
}

async fn stalled(cli: &Cli, cluster: &Cluster, report: &Report) -> Result<()> {
    let (mut sent, mut ends) = (Vec::new(), Ends::default());
    for round in 0..cli.rounds {
        eprintln!("cancellation: stalled sink, round {} of {}", round + 1, cli.rounds);
        let peaks = watch(cluster)?;
        let tasks = PARALLELISM as u32 + 1;
        let job = continuous::start(cluster, "stalled", PARALLELISM, tasks, Vec::new()).await?;
        sent.push(until_quiet(cluster, &job).await? as f64 / f64::from(1 << 20));
        ends.add(cancel(cluster, &job).await?, peaks);
        cluster.until_no_hosts()?;
    }
    report.runs("stalled_sent_mib", &sent, "MiB")?;
    ends.report(report, "stalled")
}

/// The ends of the rounds of one job: milliseconds from request to CANCELED, and the larger peak of the TaskManagers in MiB.
#[derive(Default)]
struct Ends {
    cancels: Vec<f64>,
    peaks: Vec<f64>,
}

impl Ends {
    /// Adds a round, whose watches of the memory end with it.
    fn add(&mut self, cancel_ms: f64, peaks: Vec<PeakMemory>) {
        self.cancels.push(cancel_ms);
        self.peaks.push(largest(peaks.into_iter().map(PeakMemory::end)));
    }

    /// Prints the figures, whose names begin with that of the job.
    fn report(&self, report: &Report, job: &str) -> Result<()> {
        let goal = Goal::AtMost(CANCELLED_WITHIN);
        report.runs_with_goal(&format!("{job}_cancel_ms"), &self.cancels, "ms", goal)?;
        let longest = largest(self.cancels.iter().copied());
        report.runs_with_goal(&format!("{job}_cancel_max_ms"), &[longest], "ms", goal)?;
        let peak = largest(self.peaks.iter().copied());
        let goal = Goal::AtMost(PROCESS_MIB);
        Ok(report.runs_with_goal(&format!("{job}_peak_mib"), &[peak], "MiB", goal)?)
    }
}

/// Returns the largest of some figures; NaN if there are none.
fn largest(figures: impl Iterator<Item = f64>) -> f64 {
    figures.fold(f64::NAN, f64::max)
}

/// Starts to watch the memory of each TaskManager, with its program hosts.
fn watch(cluster: &Cluster) -> Result<Vec<PeakMemory>> {
    cluster.taskmanager_pids().into_iter().map(|pid| PeakMemory::watch(vec![pid])).collect()
}

/// The outputs of a job, from when its first sink was opened.
struct Outputs {
    /// Milliseconds to the first record at any sink.
    first_ms: f64,
    /// Milliseconds until the last sink has had a record.
    all_ms: f64,
    /// Time of the first record in milliseconds since 1970.
    first_at_ms: f64,
}

/// Waits until each sink has had a record, and says when; blocks the thread.
fn outputs(folder: &Path) -> Result<Outputs> {
    let began = Instant::now();
    loop {
        let first = times(folder, "first-")?;
        if first.len() >= PARALLELISM as usize
            && let [first, .., last] = first.as_slice()
            && let Some(opened) = times(folder, "opened-")?.first()
        {
            let since = |at: u64| at.saturating_sub(*opened) as f64 / 1e6;
            return Ok(Outputs {
                first_ms: since(*first),
                all_ms: since(*last),
                first_at_ms: *first as f64 / 1e6,
            });
        }
        wait_a_moment(began, "the first records of all sinks")?;
    }
}

/// Returns the times of the marks whose names begin so, in nanoseconds since 1970, the earliest first.
fn times(folder: &Path, prefix: &str) -> Result<Vec<u64>> {
    let texts = continuous::marks(folder, prefix)?;
    let mut times =
        texts.iter().map(|text| Ok(text.trim().parse()?)).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times)
}

/// Waits until the job's tasks have sent something and then nothing more for two seconds. Returns the bytes that were sent.
async fn until_quiet(cluster: &Cluster, job: &str) -> Result<u64> {
    let (mut sent, mut changed) = (0, Instant::now());
    let began = changed;
    loop {
        let vertices = cluster.rest.job(job).await?.vertices;
        let now = vertices.iter().map(|vertex| vertex.metrics.write_bytes).sum();
        if now != sent {
            (sent, changed) = (now, Instant::now());
        }
        if sent > 0 && changed.elapsed() >= QUIET {
            return Ok(sent);
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "the sources go on, or have sent nothing: {sent} bytes"
        );
        tokio::time::sleep(QUIET_LOOK_EVERY).await;
    }
}

/// Cancels the job by REST. Returns the milliseconds from the request until the job is CANCELED.
async fn cancel(cluster: &Cluster, job: &str) -> Result<f64> {
    let began = Instant::now();
    cluster.rest.cancel(job).await?;
    loop {
        let status = cluster.rest.job_status(job).await?.status;
        match status.as_str() {
            "CANCELED" => return Ok(millis(began)),
            "FAILED" | "FINISHED" => bail!("job {job} is {status} and not CANCELED"),
            _ => ensure!(began.elapsed() < PATIENCE, "job {job} is still {status} after 60 s"),
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
