//! Jobs that run until they are cancelled, and the marks by which a benchmark sees from outside what they do: files in a
//! folder that the benchmark names. A mark must never be written so often that it is a part of what is measured.

pub mod cancelled;
pub mod histogram;
pub mod jobs;
pub mod state;

use crate::cluster::{Cluster, binaries, wait_a_moment};
use crate::throughput::ours::request_of;
use anyhow::{Result, bail};
use rest::client::RestClient;
use std::{
    fs, io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// The program with the jobs.
const PROGRAM: &str = "continuous_jobs";

/// Returns the present time of the system's clock in nanoseconds since 1970, which processes of one machine can compare.
#[expect(
    clippy::disallowed_methods,
    reason = "two processes compare their times, to less than a millisecond"
)]
pub fn now_unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Writes a file that readers see either whole or not at all, in place of an existing one, by way of a file with the extension `draft` (in
/// place of `path`'s own). Not forced to the disk.
///
/// # Errors
/// When the file cannot be written.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("draft");
    fs::write(&draft, text)?;
    fs::rename(draft, path)
}

/// Returns the contents of the files in a folder whose names begin with `prefix`, in no order; drafts of [`write_whole`] are left out.
///
/// # Errors
/// When the folder or a file cannot be read.
pub fn marks(folder: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(prefix) && !name.ends_with(".draft") {
            texts.push(fs::read_to_string(path)?);
        }
    }
    Ok(texts)
}

/// Uploads the program `continuous_jobs`, runs its job of the name `job`, and returns the job's id as soon as `tasks` tasks run;
/// blocks the thread between two looks.
///
/// # Errors
/// When the cluster refuses it or does not answer, the job ends before, or its tasks do not run within 60 s; the job runs on then.
pub async fn start(
    cluster: &Cluster,
    job: &str,
    parallelism: i64,
    tasks: u32,
    args: Vec<String>,
) -> Result<String> {
    let program = binaries()?.join(PROGRAM);
    let jar = cluster.rest.upload(&program, |_| {}).await?.jar_id().to_owned();
    let request = request_of(job, args, parallelism);
    let id = cluster.rest.run(&jar, &request).await?.jobid;
    until_running(&cluster.rest, &id, tasks).await?;
    Ok(id)
}

/// Waits until so many tasks of the job run; blocks the thread between two looks.
///
/// # Errors
/// When the endpoint does not answer, the job ends before, or its tasks do not run within 60 s.
pub async fn until_running(rest: &RestClient, job: &str, tasks: u32) -> Result<()> {
    let began = Instant::now();
    while running(rest, job).await? < tasks {
        wait_a_moment(began, "the running of all tasks")?;
    }
    Ok(())
}

/// Returns the number of the job's tasks that run now.
///
/// # Errors
/// When the job has ended (the text has its failures), or the endpoint does not list it or does not answer.
pub async fn running(rest: &RestClient, job: &str) -> Result<u32> {
    let overview = rest.jobs_overview().await?;
    let Some(line) = overview.jobs.iter().find(|line| line.jid == job) else {
        bail!("job {job} is not listed");
    };
    if ["FAILED", "FINISHED", "CANCELED"].contains(&line.state.as_str()) {
        let why = rest.job_exceptions(job).await.map(|why| format!("{why:?}"));
        bail!("job {job} is {}: {}", line.state, why.unwrap_or_default());
    }
    Ok(line.tasks.get("running").copied().unwrap_or(0))
}

/// Cancels a job and waits, blocking the thread, until all processes that the cluster has started for jobs are gone, those of other jobs
/// too.
///
/// # Errors
/// When the job cannot be cancelled, or its processes are not gone within 60 s.
pub async fn cancel(cluster: &Cluster, job: &str) -> Result<()> {
    cluster.rest.cancel(job).await?;
    cluster.until_no_hosts()
}
