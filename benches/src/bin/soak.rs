//! Measures what thousands of tiny jobs leave behind in one session: memory, threads, descriptors, processes and files
//! of every role, after the first jobs and after all of them, each time after a rest.
//!
//! `soak [--first 300] [--jobs 3000] [--rest-s 120] [--at-once 6]`. Every second job collects its result, the others
//! write a file. The goal is that nothing has grown by more than 10 % between the two measurements.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result};
use benches::cluster::{Cluster, binaries, millis};
use benches::throughput::ours::until_finished;
use benches::{Report, children_of, descriptors_of, median, rss_mib, threads_of};
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use rest::messages::JarRequest;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::Instant;

const OPTIONS: &str =
    "taskmanager.numberOfTaskSlots: 4\njobstore.max-capacity: 100\nlog.jobs.max: 20\n";
const TASK_MANAGERS: usize = 2;

#[derive(Parser)]
struct Cli {
    /// Jobs before the first look.
    #[arg(long, default_value_t = 300)]
    first: usize,
    /// Jobs in all.
    #[arg(long, default_value_t = 3000)]
    jobs: usize,
    /// Seconds of rest before each look.
    #[arg(long, default_value_t = 120)]
    rest_s: u64,
    /// Jobs that are submitted and not ended at any time: more than one TaskManager has slots, so that both are in use
    /// before the first look.
    #[arg(long, default_value_t = 6)]
    at_once: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let cluster = Cluster::start(OPTIONS, TASK_MANAGERS).await?;
    let results = TempDir::new()?;
    let program = binaries()?.join("sequence_sum");
    let jar = cluster.rest.upload(&program, |_| {}).await?.jar_id().to_owned();
    let report = Report::new("soak");
    let mut looks = Vec::new();
    for (from, to) in [(0, cli.first), (cli.first, cli.jobs)] {
        let began = Instant::now();
        let runs = stream::iter(from..to).map(|n| run(&cluster, &jar, n, results.path()));
        let took: Vec<f64> = runs.buffer_unordered(cli.at_once.max(1)).try_collect().await?;
        eprintln!("soak: {to} jobs; the last {} in {:.0} s", to - from, millis(began) / 1e3);
        report.value(&format!("submission_ms_{to}"), median(&took), "ms")?;
        tokio::time::sleep(Duration::from_secs(cli.rest_s)).await;
        let look = look(&cluster)?;
        for (metric, (value, unit)) in &look {
            report.value(&format!("{metric}_{to}"), *value, unit)?;
        }
        looks.push(look);
    }
    if let [first, last] = looks.as_slice() {
        for (metric, (value, _)) in last {
            let before = first.get(metric).map_or(0.0, |(value, _)| *value);
            // Zero before and zero now counts as no growth.
            let growth = if before == *value { 1.0 } else { value / before };
            report.value(&format!("{metric}_growth"), growth, "ratio")?;
        }
    }
    Ok(())
}

/// Longest time that one job may take.
const JOB_WITHIN: Duration = Duration::from_secs(120);

/// Runs one job to its end. Returns the duration of its submission in milliseconds.
async fn run(cluster: &Cluster, jar: &str, n: usize, results: &Path) -> Result<f64> {
    let mut args = vec!["--count".to_owned(), "100".to_owned()];
    let output = results.join(format!("sums-{n}"));
    if !n.is_multiple_of(2) {
        args.extend(["--output".to_owned(), output.display().to_string()]);
    }
    let request =
        JarRequest { program_args_list: Some(args), parallelism: Some(1), ..JarRequest::default() };
    let began = Instant::now();
    let job = cluster.rest.run(jar, &request).await?.jobid;
    let took = millis(began);
    let finished = tokio::time::timeout(JOB_WITHIN, until_finished(&cluster.rest, &job)).await;
    finished.context("it takes more than 120 s")?.with_context(|| format!("job {n}"))?;
    Ok(took)
}

/// The measured values and their units, by metric.
type Look = BTreeMap<String, (f64, &'static str)>;

fn look(cluster: &Cluster) -> Result<Look> {
    let mut look = Look::new();
    let jobmanager = cluster.jobmanager_pid().map(|pid| ("jobmanager".to_owned(), pid));
    let taskmanagers = (1..).zip(cluster.taskmanager_pids());
    let taskmanagers = taskmanagers.map(|(n, pid)| (format!("taskmanager{n}"), pid));
    for (role, pid) in jobmanager.into_iter().chain(taskmanagers) {
        look.insert(format!("{role}_rss"), (rss_mib(pid)?, "MiB"));
        look.insert(format!("{role}_threads"), (threads_of(pid)? as f64, "threads"));
        look.insert(format!("{role}_descriptors"), (descriptors_of(pid)? as f64, "descriptors"));
        look.insert(format!("{role}_processes"), (children_of(pid)? as f64, "processes"));
    }
    for entry in std::fs::read_dir(cluster.folder())? {
        let entry = entry?;
        let metric = format!("files_in_{}", entry.file_name().to_string_lossy());
        look.insert(metric, (files_below(&entry.path())? as f64, "files"));
    }
    Ok(look)
}

/// Counts the files and folders below a path, including itself.
fn files_below(path: &Path) -> Result<usize> {
    if !path.is_dir() || path.is_symlink() {
        return Ok(1);
    }
    let mut files = 1;
    for entry in std::fs::read_dir(path)? {
        files += files_below(&entry?.path())?;
    }
    Ok(files)
}
