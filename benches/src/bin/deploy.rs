//! Measures the time from a REST run to all tasks RUNNING: the *trivial* workload with a hash edge,
//! session mode, warm.
//!
//! Warm means that the program is in the blob caches and no process of the job is alive.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result};
use benches::Report;
use benches::cluster::{Cluster, binaries, millis, wait_a_moment};
use benches::continuous::until_running;
use rest::messages::JarRequest;
use tokio::time::Instant;

const RUNS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let report = Report::new("deploy");
    for (metric, parallelism, workers) in
        [("running_ms_p1", 1, 1), ("running_ms_p128", 128, 1), ("running_ms_p1000", 1000, 4)]
    {
        let runs = measure(parallelism, workers).await.with_context(|| metric.to_owned())?;
        report.runs(metric, &runs, "ms")?;
    }
    Ok(())
}

async fn measure(parallelism: i64, workers: i64) -> Result<Vec<f64>> {
    let slots = (parallelism + workers - 1) / workers;
    let options = format!("taskmanager.numberOfTaskSlots: {slots}\n");
    let cluster = Cluster::start(&options, usize::try_from(workers)?).await?;
    let program = binaries()?.join("trivial");
    let jar = cluster.rest.upload(&program, |_| {}).await?.jar_id().to_owned();
    let mut runs = Vec::new();
    // The first run fills the blob caches and is not counted.
    for run in 0..=RUNS {
        eprintln!("deploy: parallelism {parallelism}, run {run} of {RUNS}");
        let took = run_once(&cluster, &jar, parallelism).await?;
        if run > 0 {
            runs.push(took);
        }
    }
    Ok(runs)
}

async fn run_once(cluster: &Cluster, jar: &str, parallelism: i64) -> Result<f64> {
    let request = JarRequest { parallelism: Some(parallelism), ..JarRequest::default() };
    let began = Instant::now();
    let job = cluster.rest.run(jar, &request).await?.jobid;
    until_running(&cluster.rest, &job, u32::try_from(2 * parallelism)?).await?;
    let took = millis(began);
    cluster.rest.cancel(&job).await?;
    let ended = Instant::now();
    while cluster.rest.job_status(&job).await?.status != "CANCELED" {
        wait_a_moment(ended, "the end of the job")?;
    }
    cluster.until_no_hosts()?;
    Ok(took)
}
