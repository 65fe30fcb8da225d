//! The *state* workload, on a cluster of ours or of Flink's: 100 MiB of keyed state in 102,400 keys, 5,000 updates per second, a
//! checkpoint every second, two subtasks of source and keyed operator each. What a cluster has started ends with the value.

use super::{marks, start, until_running};
use crate::{
    children_of,
    cluster::{Cluster, wait_a_moment},
    throughput::flink::{Flink, Installed},
};
use anyhow::{Context, Result, ensure};
use rest::client::RestClient;
use serde::Deserialize;
use std::{fs, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::time::Instant;

/// The parallelism of both vertices (source and keyed operator) of the job `state`, of Flott and of Flink.
pub const PARALLELISM: i64 = 2;
/// The number of tasks of the job `state`, of both vertices together.
pub const TASKS: u32 = 4;
const OPTIONS: &str = "execution.checkpointing.interval: 1 s\nrestart-strategy.type: fixed-delay\n\
    restart-strategy.fixed-delay.attempts: 1000\nrestart-strategy.fixed-delay.delay: 0 s\n";
/// Bytes of a checkpoint from which on the state is there.
const STATE_BYTES: u64 = 100 << 20;
/// Flink's side of the job.
const PEER: &str = "peer.State";

enum Side {
    Ours(Cluster),
    Flink(Flink),
}

/// An endpoint's answer about a job's checkpoints (their number, and the newest ones), without the parts that Flott and Flink write
/// differently.
#[derive(Deserialize)]
pub struct CheckpointLines {
    counts: CheckpointCounts,
    history: Vec<CheckpointLine>,
}

#[derive(Deserialize)]
struct CheckpointCounts {
    completed: u64,
}

#[derive(Deserialize)]
struct CheckpointLine {
    status: String,
    state_size: u64,
    end_to_end_duration: i64,
}

impl CheckpointLines {
    /// Returns the number of checkpoints that the job has completed so far under its present JobMaster, also those no longer listed.
    pub fn completed(&self) -> u64 {
        self.counts.completed
    }
    /// Returns the end-to-end durations in milliseconds of the complete checkpoints that the endpoint still lists.
    pub fn durations_ms(&self) -> Vec<f64> {
        let complete = self.history.iter().filter(|line| line.status == "COMPLETED");
        complete.map(|line| line.end_to_end_duration as f64).collect()
    }
}

/// The running job `state` (100 MiB of keyed state in 102,400 keys, 5,000 updates per second, a checkpoint every second) with the cluster,
/// Flott's or Flink's, that was started for it. Dropping it kills the cluster's processes and deletes their files, checkpoints included.
pub struct StateJob {
    side: Side,
    job: String,
    marks: TempDir,
    checkpoints: TempDir,
}

impl StateJob {
    /// Starts a cluster of so many TaskManagers with so many slots each, Flink's if it is given, and the job, with the further lines
    /// `more` of options (empty, or with a line feed at the end). Returns once two checkpoints with all of the state are complete.
    ///
    /// # Errors
    /// When something does not start, the job ends, or the checkpoints are not complete within 60 s; the cluster is killed then.
    pub async fn start(
        flink: Option<&Installed>,
        taskmanagers: usize,
        slots: u32,
        more: &str,
    ) -> Result<Self> {
        let (marks, checkpoints) = (TempDir::new()?, TempDir::new()?);
        let options = format!(
            "{OPTIONS}{more}taskmanager.numberOfTaskSlots: {slots}\nexecution.checkpointing.dir: file://{}\n",
            checkpoints.path().display()
        );
        let args = vec![marks.path().display().to_string()];
        let (side, job) = match flink {
            None => {
                let cluster = Cluster::start(&options, taskmanagers).await?;
                let job = start(&cluster, "state", PARALLELISM, TASKS, args).await?;
                (Side::Ours(cluster), job)
            }
            Some(installed) => {
                let flink = Flink::start_with(installed, taskmanagers, &options).await?;
                let job = flink.submit(PEER, PARALLELISM, args).await?;
                until_running(flink.rest(), &job, TASKS).await?;
                (Side::Flink(flink), job)
            }
        };
        let job = Self { side, job, marks, checkpoints };
        let began = Instant::now();
        while job.full_checkpoints().await? < 2 {
            wait_a_moment(began, "two checkpoints with all of the state")?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(job)
    }

    /// Returns the number of complete checkpoints with all of the state that the endpoint still lists.
    async fn full_checkpoints(&self) -> Result<usize> {
        let full = |c: &&CheckpointLine| c.status == "COMPLETED" && c.state_size >= STATE_BYTES;
        Ok(self.checkpoints().await?.history.iter().filter(full).count())
    }

    /// Asks the REST endpoint for the job's checkpoints.
    ///
    /// # Errors
    /// When the endpoint does not answer.
    pub async fn checkpoints(&self) -> Result<CheckpointLines> {
        Ok(self.rest().get(&format!("/jobs/{}/checkpoints", self.job)).await?)
    }

    /// Returns the client of the cluster's REST endpoint.
    pub fn rest(&self) -> &RestClient {
        match &self.side {
            Side::Ours(cluster) => &cluster.rest,
            Side::Flink(flink) => flink.rest(),
        }
    }

    /// Returns the id of the job.
    pub fn id(&self) -> &str {
        &self.job
    }

    /// Returns the process ids of the JobManager and the TaskManagers.
    pub fn processes(&self) -> Vec<u32> {
        match &self.side {
            Side::Ours(cluster) => {
                cluster.jobmanager_pid().into_iter().chain(cluster.taskmanager_pids()).collect()
            }
            Side::Flink(flink) => flink.processes(),
        }
    }

    /// Returns the process id of a TaskManager that has tasks of the job, in a cluster of TaskManagers with one slot each.
    ///
    /// # Errors
    /// When there is none, the job does not run on two TaskManagers of Flott, or Flink's endpoint does not answer.
    pub async fn busy_taskmanager(&self) -> Result<u32> {
        let busy = match &self.side {
            Side::Ours(cluster) => {
                let busy = |pid: &u32| children_of(*pid).is_ok_and(|children| children > 0);
                let pids: Vec<u32> = cluster.taskmanager_pids().into_iter().filter(busy).collect();
                let at = pids.len();
                ensure!(at == PARALLELISM as usize, "the job runs on {at} TaskManagers");
                pids.first().copied()
            }
            Side::Flink(flink) => flink.busy_taskmanager().await?,
        };
        busy.context("no TaskManager has tasks of the job")
    }

    /// Returns the times at which the sink's subtask of this number, from 0 on, got the first record in each of its attempts, in
    /// nanoseconds since 1970, in no order.
    ///
    /// # Errors
    /// When the marks cannot be read.
    pub fn first_records(&self, subtask: i64) -> Result<Vec<u64>> {
        let texts = marks(self.marks.path(), &format!("first-{subtask}-"))?;
        texts.iter().map(|text| Ok(text.trim().parse()?)).collect()
    }

    /// Copies the logs of the cluster's processes to a folder, which is made; of Flink its configuration too.
    ///
    /// # Errors
    /// When a log cannot be read, or the folder cannot be written.
    pub fn copy_logs(&self, to: &Path) -> Result<()> {
        let from = match &self.side {
            Side::Ours(cluster) => cluster.folder().join("log"),
            Side::Flink(flink) => flink.folder().to_owned(),
        };
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let path = entry?.path();
            if path.is_file() {
                fs::copy(&path, to.join(path.file_name().context("a log has a name")?))?;
            }
        }
        Ok(())
    }

    /// Cancels the job, waits (with Flott) until its processes are gone, kills the cluster, and deletes its files. With Flink it does not
    /// wait for the job's end.
    ///
    /// # Errors
    /// When the job cannot be cancelled or does not end, or the checkpoints' folder cannot be deleted.
    pub async fn end(self) -> Result<()> {
        match &self.side {
            Side::Ours(cluster) => super::cancel(cluster, &self.job).await?,
            Side::Flink(flink) => flink.rest().cancel(&self.job).await?,
        }
        // The processes end before the folder goes that they write to.
        drop(self.side);
        Ok(self.checkpoints.close()?)
    }
}
