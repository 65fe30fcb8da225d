//! Our side of a workload: the program by itself, or in a standalone cluster with two TaskManagers.

use super::measure::{self, Run, Span};
use super::{Place, Workload};
use crate::cluster::{Cluster, binaries};
use anyhow::{Context, Result, bail};
use rest::client::RestClient;
use rest::messages::JarRequest;
use std::{fs, process::Command};
use tokio::time::Instant;

/// The program with a job for each workload.
const PROGRAM: &str = "throughput_jobs";
/// Names the job that a program with several is asked for.
const ENTRY_VARIABLE: &str = "FLOTT_PIPELINE_ENTRY";

/// Flott's side of the workloads of one place: a process for each run, or a running cluster of two TaskManagers with the program uploaded.
pub struct Ours {
    cluster: Option<(Cluster, String)>,
}

impl Ours {
    /// Prepares for workloads of this place: starts a cluster of two TaskManagers and uploads the program for [`Place::TwoTaskManagers`],
    /// otherwise does nothing.
    ///
    /// # Errors
    /// When the cluster does not start, or the upload fails.
    pub async fn prepare(place: Place) -> Result<Self> {
        if place == Place::OneProcess {
            return Ok(Self { cluster: None });
        }
        let cluster = Cluster::start("taskmanager.numberOfTaskSlots: 1\n", 2).await?;
        let jar = cluster.rest.upload(&binaries()?.join(PROGRAM), |_| {}).await?;
        let jar = jar.jar_id().to_owned();
        Ok(Self { cluster: Some((cluster, jar)) })
    }

    /// Runs the workload once with so many records: as a process of its own, start-up measured too, or, if this was prepared for two
    /// TaskManagers, as a job in their cluster.
    ///
    /// # Errors
    /// When the job fails, does not end within 600 s (in the cluster; a process of its own may take any time), or gives no checksum.
    pub async fn run(&self, workload: &Workload, records: u64) -> Result<Run> {
        match &self.cluster {
            None => {
                let mut program = Command::new(binaries()?.join(PROGRAM));
                program.env(ENTRY_VARIABLE, workload.name).arg(records.to_string());
                measure::of_process(&mut program)
            }
            Some((cluster, jar)) => in_cluster(cluster, jar, workload, records).await,
        }
    }
}

/// Runs a workload once in a cluster to which the program was uploaded as `jar`, and waits until its processes have ended. CPU is that of
/// the TaskManagers and of the processes that they started for the job, until these have ended; the duration is that from submission to
/// FINISHED; the peak of memory includes what the TaskManagers had before.
///
/// # Errors
/// When the job fails, does not end within 600 s, or writes no checksum, or its processes are not gone 60 s after its end.
pub async fn in_cluster(
    cluster: &Cluster,
    jar: &str,
    workload: &Workload,
    records: u64,
) -> Result<Run> {
    let output = cluster.folder().join("checksum");
    let args = vec![records.to_string(), output.display().to_string()];
    let request = request_of(workload.name, args, workload.parallelism.into());
    let span = Span::begin(cluster.taskmanager_pids())?;
    run_to_end(&cluster.rest, jar, &request).await?;
    let wall_s = span.seconds();
    // Only processes that were waited for count.
    cluster.until_no_hosts()?;
    let text = fs::read_to_string(&output)
        .with_context(|| format!("the job has not written {}", output.display()))?;
    fs::remove_file(&output)?;
    span.end(wall_s, text.parse()?)
}

/// Makes the request to run a job of an uploaded program, by the job's name (Flink: by its class).
pub fn request_of(entry: &str, args: Vec<String>, parallelism: i64) -> JarRequest {
    JarRequest {
        entry_class: Some(entry.to_owned()),
        program_args_list: Some(args),
        parallelism: Some(parallelism),
        ..JarRequest::default()
    }
}

/// Runs a job of an uploaded program by REST, of Flott or of Flink, and waits until it is FINISHED, asking every 20 ms. Its processes may
/// still be there then.
///
/// # Errors
/// When the job is refused, FAILED or CANCELED; or it runs for more than 600 s, or the endpoint does not answer, and then runs on.
pub async fn run_to_end(rest: &RestClient, jar: &str, request: &JarRequest) -> Result<()> {
    let job = rest.run(jar, request).await?.jobid;
    until_finished(rest, &job).await
}

/// Waits until a job is FINISHED, asking every 20 ms.
///
/// # Errors
/// When the job is FAILED or CANCELED; or it runs for more than 600 s, or the endpoint does not answer, and then runs on.
pub async fn until_finished(rest: &RestClient, job: &str) -> Result<()> {
    let began = Instant::now();
    loop {
        let status = rest.job_status(job).await?.status;
        match status.as_str() {
            "FINISHED" => return Ok(()),
            "FAILED" | "CANCELED" => {
                let why = rest.job_exceptions(job).await.map(|why| format!("{why:?}"));
                bail!("job {job} is {status}: {}", why.unwrap_or_default())
            }
            _ if began.elapsed() > super::measure::PATIENCE => bail!("job {job} does not end"),
            _ => tokio::time::sleep(super::measure::LOOK_EVERY).await,
        }
    }
}
