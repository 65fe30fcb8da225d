//! The CPU that a checkpoint every second costs: word count with two subtasks each, in one TaskManager, in turn with and without
//! checkpoints. The CPU of the JobManager, the TaskManager and the job's process counts.
//!
//! `checkpoint_cost [--pairs N] [--records N]`. A run should last several seconds, or it has few checkpoints.
//!
//! | metric | of what |
//! |---|---|
//! | `word_count_checkpointed_percent` | CPU with checkpoints ÷ CPU without, of each pair, less 1, in percent |
//! | `word_count_checkpointed_cpu_s`, `word_count_unchecked_cpu_s` | CPU-seconds of the runs |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result, ensure};
use benches::{
    Report,
    cluster::{Cluster, binaries},
    process::cpu_of_tree,
    report::Goal,
    throughput::{Run, Workload, ours},
};
use clap::Parser;
use tempfile::TempDir;

#[derive(Parser)]
struct Cli {
    /// Runs of each kind; one more warms up.
    #[arg(long, default_value_t = 5)]
    pairs: usize,
    /// Words of a run.
    #[arg(long, default_value_t = 100_000_000)]
    records: u64,
}

/// A cluster with the program, and where its checkpoints go.
struct Side {
    cluster: Cluster,
    jar: String,
    _checkpoints: TempDir,
}

impl Side {
    async fn prepare(checkpointed: bool) -> Result<Self> {
        let checkpoints = TempDir::new()?;
        let mut options = "taskmanager.numberOfTaskSlots: 2\n".to_owned();
        if checkpointed {
            options.push_str(&format!(
                "execution.checkpointing.interval: 1 s\npipeline.auto-generate-uids: true\n\
                 execution.checkpointing.dir: {}\n",
                checkpoints.path().display()
            ));
        }
        let cluster = Cluster::start(&options, 1).await?;
        let jar = cluster.rest.upload(&binaries()?.join("throughput_jobs"), |_| {}).await?;
        let jar = jar.jar_id().to_owned();
        Ok(Self { cluster, jar, _checkpoints: checkpoints })
    }

    /// Runs the job once. Returns the CPU-seconds of all processes, and the rest of what was measured.
    async fn run(&self, workload: &Workload, records: u64) -> Result<(f64, Run)> {
        let jobmanager = self.cluster.jobmanager_pid().context("there is no JobManager")?;
        let before = cpu_of_tree(jobmanager)?;
        let run = ours::in_cluster(&self.cluster, &self.jar, workload, records).await?;
        Ok((run.cpu_s + (cpu_of_tree(jobmanager)? - before).0, run))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let workload = Workload::named("word_count_p2")?;
    let (with, without) = (Side::prepare(true).await?, Side::prepare(false).await?);
    let (mut checkpointed, mut unchecked) = (Vec::new(), Vec::new());
    for n in 0..=cli.pairs {
        eprintln!("checkpoint_cost: pair {n} of {}", cli.pairs);
        // Each kind is the first one in turn.
        let (one, other) = if n % 2 == 0 {
            let one = with.run(workload, cli.records).await?;
            (one, without.run(workload, cli.records).await?)
        } else {
            let other = without.run(workload, cli.records).await?;
            (with.run(workload, cli.records).await?, other)
        };
        ensure!(one.1.checksum == other.1.checksum, "the runs have different checksums");
        if n > 0 {
            checkpointed.push(one.0);
            unchecked.push(other.0);
        }
    }
    let report = Report::new("checkpoint_cost");
    let pairs = checkpointed.iter().zip(&unchecked);
    let percent: Vec<f64> = pairs.map(|(with, without)| (with / without - 1.0) * 100.0).collect();
    let metric = "word_count_checkpointed_percent";
    report.runs_with_goal(metric, &percent, "percent", Goal::AtMost(5.0))?;
    report.runs("word_count_checkpointed_cpu_s", &checkpointed, "s")?;
    report.runs("word_count_unchecked_cpu_s", &unchecked, "s")?;
    Ok(())
}
