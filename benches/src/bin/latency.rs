//! Measures how late results come at half of the highest rate that the job can take, with a
//! checkpoint every second: rate-limited source → key → running count → sink, two subtasks each, in
//! one TaskManager.
//!
//! `latency [--seconds N] [--rate N] [--warm-up-s N]`. First the same job runs without a rate, for the top rate. A latency is the time
//! from when a record is *due*, whether the source keeps up or not (open loop), to when the sink gets it; so a pause of the job
//! shows in all records that were due meanwhile. The latency of every 16th record counts. The clock is that of the machine, in which
//! sources of such a rate emit once per millisecond.
//!
//! | metric | of what |
//! |---|---|
//! | `top_rate` | records per second without a rate |
//! | `rate` | records per second of the measurement |
//! | `latency_p50_ms`, `latency_p99_ms`, `latency_p999_ms`, `latency_max_ms` | from due to the sink |
//! | `checkpoints`, `checkpoint_ms` | completed checkpoints of the measurement, and their durations |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result, ensure};
use benches::{
    Report,
    cluster::Cluster,
    continuous::{self, histogram::Histogram},
    report::Goal,
};
use clap::Parser;
use std::time::Duration;
use tempfile::TempDir;

const PARALLELISM: i64 = 2;

#[derive(Parser)]
struct Cli {
    /// Seconds of the measurement.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Seconds of the job before that, in which no latency counts.
    #[arg(long, default_value_t = 10)]
    warm_up_s: u64,
    /// Seconds for which the top rate is measured.
    #[arg(long, default_value_t = 15)]
    top_s: u64,
    /// Records per second; half of the measured top rate if it is left out.
    #[arg(long)]
    rate: Option<f64>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let report = Report::new("latency");
    let options = format!(
        "taskmanager.numberOfTaskSlots: {PARALLELISM}\nexecution.checkpointing.interval: 1 s\n"
    );
    let cluster = Cluster::start(&options, 1).await?;
    let rate = match cli.rate {
        Some(rate) => rate,
        None => {
            let top = top_rate(&cluster, cli.top_s).await?;
            report.value("top_rate", top, "records/s")?;
            (top / 2.0).round()
        }
    };
    report.value("rate", rate, "records/s")?;
    measure(&cli, &cluster, &report, rate).await
}

/// Starts the job. Returns its id and the folder of its marks.
async fn start(cluster: &Cluster, rate: f64, warm_up_s: u64) -> Result<(String, TempDir)> {
    let folder = TempDir::new()?;
    let args = vec![folder.path().display().to_string(), rate.to_string(), warm_up_s.to_string()];
    let job = continuous::start(cluster, "latency", PARALLELISM, 4, args).await?;
    Ok((job, folder))
}

/// The sinks' marks: the time in nanoseconds and the number of records of each one, and all latencies.
fn marks(folder: &TempDir) -> Result<(Vec<(u64, u64)>, Histogram)> {
    let (mut heads, mut all) = (Vec::new(), Histogram::default());
    for text in continuous::marks(folder.path(), "latencies-")? {
        let (head, counts) = text.split_once('\n').context("a mark has a first line")?;
        let (at, records) = head.split_once(' ').context("the first line has two numbers")?;
        heads.push((at.parse()?, records.parse()?));
        all.add_text(counts)?;
    }
    ensure!(heads.len() == PARALLELISM as usize, "{} subtasks have written marks", heads.len());
    heads.sort_unstable();
    Ok((heads, all))
}

/// Returns the records per second of the job without a rate.
async fn top_rate(cluster: &Cluster, seconds: u64) -> Result<f64> {
    eprintln!("latency: the top rate, {seconds} s");
    let (job, folder) = start(cluster, 0.0, 0).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut looks = Vec::new();
    for _ in 0..2 {
        let (heads, _) = marks(&folder)?;
        let at = heads.iter().map(|(at, _)| *at).max().unwrap_or(0);
        looks.push((at, heads.iter().map(|(_, records)| records).sum::<u64>()));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    continuous::cancel(cluster, &job).await?;
    let [(from, before), (to, after)] = looks.as_slice() else { return Ok(f64::NAN) };
    Ok((after - before) as f64 / ((to - from) as f64 / 1e9))
}

async fn measure(cli: &Cli, cluster: &Cluster, report: &Report, rate: f64) -> Result<()> {
    eprintln!("latency: {rate} records per second, {} s", cli.seconds);
    let (job, folder) = start(cluster, rate, cli.warm_up_s).await?;
    // A mark is at most a second old.
    tokio::time::sleep(Duration::from_secs(cli.warm_up_s + cli.seconds + 1)).await;
    let (_, latencies) = marks(&folder)?;
    let statistics = cluster.rest.checkpoints(&job).await?;
    continuous::cancel(cluster, &job).await?;
    let due = rate * cli.seconds as f64;
    let came = (latencies.count() * continuous::jobs::SAMPLED) as f64;
    ensure!(came > due * 0.9, "{came} of {due} records have come: the job does not keep up");
    report.value("latency_p50_ms", latencies.ms(0.5), "ms")?;
    let goal = |most| Goal::AtMost(most);
    report.runs_with_goal("latency_p99_ms", &[latencies.ms(0.99)], "ms", goal(10.0))?;
    report.runs_with_goal("latency_p999_ms", &[latencies.ms(0.999)], "ms", goal(25.0))?;
    report.value("latency_max_ms", latencies.ms(1.0), "ms")?;
    report.value("checkpoints", statistics.counts.completed as f64, "checkpoints")?;
    let completed = statistics.history.iter().filter(|c| c.status == "COMPLETED");
    let took: Vec<f64> = completed.map(|c| c.end_to_end_duration as f64).collect();
    report.runs("checkpoint_ms", &took, "ms")?;
    Ok(())
}
