//! The CPU that a job with state and checkpoints takes: the *state* workload (`benches::continuous::state`) in one TaskManager with two
//! slots, of which every second a checkpoint of 100 MiB is stored. The JobManager, the TaskManager and the job's processes count.
//!
//! `checkpoint_cpu [--seconds N] [--against flink]`.
//!
//! | metric | of what |
//! |---|---|
//! | `cpu_s_per_checkpoint` | CPU-seconds ÷ completed checkpoints, the updates between them included |
//! | `full_…` | the same with `execution.checkpointing.incremental: false` |
//! | `checkpoints`, `checkpoint_ms` | completed checkpoints of the measurement, and the durations of the last ones |
//! | `peak_mib` | peak of resident memory of all processes |
//! | `flink_…` | the same of Flink |
//! | `checkpoint_cpu` | Flink's CPU for each checkpoint ÷ ours, both as they come: full ones of Flink, whose heap state has no others |
//! | `full_checkpoint_cpu` | the same, both with full checkpoints |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Result, ensure};
use benches::{
    Report,
    continuous::state::StateJob,
    process::{child_ids_of, cpu_of_tree, peak_mib},
    report::Goal,
    throughput::flink::{Against, Installed},
};
use clap::Parser;
use std::time::Duration;

#[derive(Parser)]
#[command(name = "cargo xtask bench checkpoint_cpu")]
struct Cli {
    /// Seconds of each side's measurement.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds before that, in which Flink's compiler does its work.
    #[arg(long, default_value_t = 30)]
    warm_up_s: u64,
    #[command(flatten)]
    against: Against,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let flink = cli.against.flink()?;
    let report = Report::new("checkpoint_cpu");
    let ours = measure(&cli, &report, None, "").await?;
    let full = measure(&cli, &report, None, "full_").await?;
    if let Some(flink) = &flink {
        let theirs = measure(&cli, &report, Some(flink), "flink_").await?;
        report.value("full_checkpoint_cpu", theirs / full, "ratio")?;
        report.runs_with_goal("checkpoint_cpu", &[theirs / ours], "ratio", Goal::AtLeast(3.0))?;
    }
    Ok(())
}

/// Returns the CPU-seconds for each checkpoint. `prefix` begins the metrics' names, and says which side is measured.
async fn measure(
    cli: &Cli,
    report: &Report,
    flink: Option<&Installed>,
    prefix: &str,
) -> Result<f64> {
    let more = match prefix {
        "full_" => "execution.checkpointing.incremental: false\n",
        _ => "",
    };
    let side = prefix.trim_end_matches('_');
    eprintln!("checkpoint_cpu: {side} {} s after {} s", cli.seconds, cli.warm_up_s);
    let job = StateJob::start(flink, 1, 2, more).await?;
    tokio::time::sleep(Duration::from_secs(cli.warm_up_s)).await;
    let (before, cpu_before) = (job.checkpoints().await?.completed(), cpu(&job)?);
    tokio::time::sleep(Duration::from_secs(cli.seconds)).await;
    let (lines, cpu_after) = (job.checkpoints().await?, cpu(&job)?);
    let (after, took) = (lines.completed(), lines.durations_ms());
    ensure!(after > before, "no checkpoint is complete");
    let peak: f64 = processes(&job).into_iter().filter_map(|pid| peak_mib(pid).ok()).sum();
    job.end().await?;
    let each = (cpu_after - cpu_before) / (after - before) as f64;
    report.value(&format!("{prefix}cpu_s_per_checkpoint"), each, "s")?;
    report.value(&format!("{prefix}checkpoints"), (after - before) as f64, "checkpoints")?;
    report.runs(&format!("{prefix}checkpoint_ms"), &took, "ms")?;
    report.value(&format!("{prefix}peak_mib"), peak, "MiB")?;
    Ok(each)
}

/// Returns all processes of the cluster and the job.
fn processes(job: &StateJob) -> Vec<u32> {
    let mut all = job.processes();
    let mut next = 0;
    while let Some(pid) = all.get(next).copied() {
        all.extend(child_ids_of(pid).unwrap_or_default());
        next += 1;
    }
    all
}

/// Returns the CPU-seconds that they have taken so far.
fn cpu(job: &StateJob) -> Result<f64> {
    let each = processes(job).into_iter().map(|pid| cpu_of_tree(pid).map(|cpu| cpu.0));
    Ok(each.sum::<std::io::Result<f64>>()?)
}
