//! Measures how long checkpoints take while eight producers flood one consumer that takes a
//! millisecond for each record: with the bound on the waiting time in front of a consumer, and
//! without it. See `streaming/CHAINS.md`.
//!
//! `slow_consumer [--seconds N] [--micros N]`. A checkpoint is triggered every second. Without the bound none completes within
//! minutes; then the age of the one that is under way is printed, in `_unfinished_ms`.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::Result;
use benches::{Report, cluster::Cluster, continuous};
use clap::Parser;
use std::time::Duration;

const PRODUCERS: i64 = 8;

#[derive(Parser)]
struct Cli {
    /// Seconds of each run.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Microseconds for which the consumer works on a record.
    #[arg(long, default_value_t = 1_000)]
    micros: u64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let report = Report::new("slow_consumer");
    for (name, task_managers) in [("local", 1), ("tcp", 2)] {
        for bounded in [true, false] {
            let metric = format!("{name}_{}", if bounded { "bounded" } else { "unbounded" });
            eprintln!("slow_consumer: {metric}, {} s", cli.seconds);
            run(&cli, &report, &metric, task_managers, bounded).await?;
        }
    }
    Ok(())
}

async fn run(
    cli: &Cli,
    report: &Report,
    metric: &str,
    task_managers: i64,
    bounded: bool,
) -> Result<()> {
    let options = format!(
        "taskmanager.numberOfTaskSlots: {}\nexecution.checkpointing.interval: 1 s\n\
         taskmanager.network.memory.buffer-debloat.enabled: {bounded}\n",
        PRODUCERS / task_managers
    );
    let cluster = Cluster::start(&options, usize::try_from(task_managers)?).await?;
    let args = vec![cli.micros.to_string()];
    let job = continuous::start(&cluster, "slow", PRODUCERS, PRODUCERS as u32 + 1, args).await?;
    tokio::time::sleep(Duration::from_secs(cli.seconds)).await;
    let statistics = cluster.rest.checkpoints(&job).await?;
    let completed = statistics.history.iter().filter(|c| c.status == "COMPLETED");
    let mut took: Vec<f64> = completed.map(|c| c.end_to_end_duration as f64).collect();
    // The newest one comes first.
    took.reverse();
    if took.is_empty() {
        let now = continuous::now_unix_ns() as f64 / 1e6;
        let ages = statistics.history.iter().map(|c| now - c.trigger_timestamp as f64);
        report.value(&format!("{metric}_unfinished_ms"), ages.fold(0.0, f64::max), "ms")?;
    } else {
        report.runs(&format!("{metric}_checkpoint_ms"), &took, "ms")?;
    }
    continuous::cancel(&cluster, &job).await
}
