//! Measures how soon the processes of a standalone cluster are of use, what they hold when idle,
//! and how large the binaries are.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result};
use benches::cluster::{Cluster, binaries};
use benches::{Report, rss_mib};
use std::{fs, path::PathBuf, time::Duration};

const RUNS: usize = 5;
/// Memory is read once start-up work is over.
const SETTLE: Duration = Duration::from_secs(2);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let report = Report::new("startup");
    let (mut ready, mut registered, mut jm_idle, mut tm_idle) = (vec![], vec![], vec![], vec![]);
    for run in 0..RUNS {
        eprintln!("startup: run {} of {RUNS}", run + 1);
        let mut cluster = Cluster::prepare("")?;
        ready.push(cluster.start_jobmanager().await?);
        registered.push(cluster.start_taskmanager().await?);
        tokio::time::sleep(SETTLE).await;
        jm_idle.push(rss_mib(cluster.jobmanager_pid().context("no JobManager")?)?);
        for pid in cluster.taskmanager_pids() {
            tm_idle.push(rss_mib(pid)?);
        }
    }
    report.runs("jobmanager_rest_ready_ms", &ready, "ms")?;
    report.runs("taskmanager_registered_ms", &registered, "ms")?;
    report.runs("jobmanager_idle_mib", &jm_idle, "MiB")?;
    report.runs("taskmanager_idle_mib", &tm_idle, "MiB")?;
    for (metric, binary) in [("flott_mib", "flott"), ("program_mib", "word_count")] {
        let bytes = fs::metadata(handed_out(binary)?)?.len();
        report.value(metric, bytes as f64 / f64::from(1 << 20), "MiB")?;
    }
    Ok(())
}

/// A program as `cargo xtask dist` hands it out (release, its names kept, DWARF in a file beside it); as it was
/// built for this benchmark where that has not been done.
fn handed_out(program: &str) -> Result<PathBuf> {
    let built = binaries()?;
    let small = built.with_file_name("dist").join("programs").join(program);
    if small.is_file() {
        return Ok(small);
    }
    eprintln!("startup: {program} is measured as built; 'cargo xtask dist' makes a smaller one");
    Ok(built.join(program))
}
