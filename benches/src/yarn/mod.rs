//! Applications on a real YARN: Flott's, the floor's and Flink's, each started by its own client, measured, and ended
//! in order.
//!
//! Nothing here may leave an application on the cluster, and none of the three may get anything that the others do not
//! get.

pub mod flink;
pub mod floor;
pub mod flott;
pub mod hdfs;
pub mod memory;

use crate::cluster::millis;
use anyhow::{Context, Result, bail};
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::{ApplicationId, NodeState, YarnApplicationState};
use hdfs_native::Client;
use rest::client::RestClient;
use std::{future::Future, time::Duration};
use tokio::time::Instant;

/// Maximum time of each step of an application before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two looks at what an application does. Looking costs both sides CPU.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// Between two looks whether an application has ended, which is not measured.
const END_EVERY: Duration = Duration::from_millis(50);
/// Time for which nodes tidy up after the last container has ended.
const TIDY: Duration = Duration::from_millis(1500);

/// A connection to the YARN cluster on which applications are measured, and to its HDFS.
pub struct Yarn {
    /// Hadoop configuration of the cluster.
    pub conf: Configuration,
    user: String,
    yarn: YarnClient,
    hdfs: Client,
}

/// A running application of which all tasks run (Flott, Flink), or whose worker runs (the floor), with the figures of its start. To be
/// ended by [`Yarn::end`]: an application of Flott or Flink whose value is only dropped runs on.
pub struct Running {
    id: ApplicationId,
    /// Milliseconds from the start of its client until all tasks, or the worker, ran.
    pub took_ms: f64,
    /// MiB that its client has put into HDFS for it, in the cache of programs and the application's own folder; of programs that were in
    /// the cache already, nothing.
    pub uploaded_mib: f64,
    end: End,
}

enum End {
    /// A job that is cancelled.
    Job(RestClient, String),
    /// A worker that ends when its connection closes.
    Connection(tokio::net::TcpStream),
}

impl Yarn {
    /// Reads the configuration that `HADOOP_CONF_DIR` names, logs in, and makes the clients of that cluster's YARN and HDFS.
    ///
    /// # Errors
    /// The configuration cannot be used, or the user cannot log in. A cluster that is not there is noticed later.
    pub async fn connect() -> Result<Self> {
        let conf = Configuration::load()?;
        let login = Login::current(&conf).await?;
        let user = login.short_name().to_owned();
        let yarn = YarnClient::new(&conf, login.clone()).await?;
        let hdfs = hdfs::hdfs(&conf, &login)?;
        Ok(Self { conf, user, yarn, hdfs })
    }

    fn home(&self) -> String {
        format!("/user/{}", self.user)
    }

    /// Removes a folder of HDFS with everything in it; does nothing if it is absent. Fails if HDFS does not answer or refuses.
    pub async fn remove(&self, path: &str) -> Result<()> {
        self.hdfs.delete(path, true).await?;
        Ok(())
    }

    /// MiB of all files below a folder; 0 where it is absent.
    async fn mib_below(&self, path: &str) -> Result<f64> {
        if self.hdfs.get_file_info(path).await.is_err() {
            return Ok(0.0);
        }
        let files = self.hdfs.list_status(path, true).await?;
        let bytes: usize = files.iter().filter(|file| !file.isdir).map(|file| file.length).sum();
        Ok(bytes as f64 / f64::from(1 << 20))
    }

    /// Ends an application in order, by cancelling its job or closing the worker's connection, and waits until no container is on any node,
    /// then 1.5 s more. An application that does not end within 180 s, or whose report cannot be had, is killed.
    ///
    /// # Errors
    /// The job cannot be cancelled (it is left running then), another call fails, or containers are left after 180 s, also those of other
    /// applications.
    pub async fn end(&self, running: Running) -> Result<()> {
        match running.end {
            End::Job(rest, job) => rest.cancel(&job).await?,
            End::Connection(connection) => drop(connection),
        }
        let ended = async || match self.yarn.report(running.id).await?.state() {
            YarnApplicationState::Finished
            | YarnApplicationState::Failed
            | YarnApplicationState::Killed => Ok(Some(())),
            _ => Ok(None),
        };
        if until("the application's end", END_EVERY, ended).await.is_err() {
            self.yarn.kill(running.id, None).await?;
        }
        let empty = async || {
            let nodes = self.yarn.nodes(&[NodeState::Running]).await?;
            let containers: i32 = nodes.iter().map(|node| node.num_containers()).sum();
            Ok((containers == 0).then_some(()))
        };
        until("the end of the containers", END_EVERY, empty).await?;
        tokio::time::sleep(TIDY).await;
        Ok(())
    }
}

impl Running {
    /// Waits 2 s and returns the memory of the application's processes, which must be on this machine, as [`memory::of`] counts it: without
    /// Flott's program hosts, unless this user is root.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub async fn memory(&self) -> Result<memory::Memory> {
        // By then the memory that starting needed has been freed.
        tokio::time::sleep(Duration::from_secs(2)).await;
        memory::of(&self.id)
    }
}

/// Asks again and again until there is an answer.
async fn until<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    every: Duration,
    mut ask: impl FnMut() -> F,
) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if began.elapsed() > PATIENCE {
            bail!("{what} did not come within {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(every).await;
    }
}

/// Waits until all tasks of the one job of a cluster run; the job's id, and milliseconds since `began`.
async fn all_running(rest: &RestClient, began: Instant) -> Result<(String, f64)> {
    let ask = async || {
        // It may not answer yet.
        let Ok(overview) = rest.jobs_overview().await else { return Ok(None) };
        let Some(job) = overview.jobs.into_iter().next() else { return Ok(None) };
        if matches!(job.state.as_str(), "FAILED" | "FINISHED" | "CANCELED") {
            bail!("job {} is {}", job.jid, job.state);
        }
        let count = |state: &str| job.tasks.get(state).copied().unwrap_or(0);
        let run = count("total") > 0 && count("running") == count("total");
        Ok(run.then(|| (job.jid, millis(began))))
    };
    until("the running of all tasks", LOOK_EVERY, ask).await
}

fn endpoint(text: &str) -> Result<(&str, u16)> {
    let (host, port) = text.rsplit_once(':').with_context(|| format!("'{text}' has no port"))?;
    Ok((host, port.parse()?))
}

fn parsed(id: &str) -> Result<ApplicationId> {
    id.parse().map_err(|_| anyhow::anyhow!("'{id}' is no application's id"))
}
