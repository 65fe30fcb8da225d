//! The process of the virtual TaskExecutors, from both sides: the role that it runs in, and the handle that
//! the measuring process has of it.
//!
//! It ends with its standard input: it must never outlive the process that started it.

use super::tally::Tally;
use super::{leader_of, rpc_options, worker};
use anyhow::{Context, Result, bail};
use clap::Args;
use futures::stream::{StreamExt, TryStreamExt};
use gateways::leader_election::Component;
use gateways::{ListenOptions, NodeAddress, RpcOptions, RpcService};
use model::JobId;
use platform::{Platform, PortSpec};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// TaskExecutors that are being started and registered at the same time.
const STARTING_MAX: usize = 64;
/// Maximum time for any answer of the process.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command line arguments of the process that runs virtual TaskExecutors (real to the JobManager, but they run no task): the
/// JobManager's address, the secret's file, how many TaskExecutors there are, and the slots of each.
#[derive(Debug, Args)]
pub struct WorkersRole {
    /// The JobManager's RPC address
    #[arg(long)]
    jobmanager: String,
    /// The file with the cluster's secret
    #[arg(long)]
    secret: PathBuf,
    /// Number of TaskExecutors
    #[arg(long)]
    count: usize,
    /// Slots of each
    #[arg(long)]
    slots: u32,
}

impl WorkersRole {
    /// Starts the virtual TaskExecutors, each with a port and a connection of its own, registers them at the ResourceManager, and runs them
    /// until standard input ends. Prints a line when all are registered, one for each job of which all tasks run, and one for the first
    /// failure of a call, after which it goes on; [`Workers`] reads these lines. At the end no TaskExecutor says goodbye.
    ///
    /// # Errors
    /// The secret cannot be read, nobody leads the ResourceManager, or a TaskExecutor cannot be started or registered.
    pub async fn run(&self) -> Result<()> {
        let platform = Platform::production();
        let plain = rpc_options(&self.secret)?;
        let node: NodeAddress = self.jobmanager.parse()?;
        let rpc = RpcService::start(platform.clone(), plain.clone()).await?;
        let leader = leader_of(&rpc, &node, Component::ResourceManager).await?;
        let tally = Arc::new(Tally::new(self.count));
        let options = RpcOptions {
            listen: Some(ListenOptions {
                bind_host: "127.0.0.1".into(),
                advertised_host: "127.0.0.1".into(),
                ports: PortSpec::any(),
            }),
            ..plain
        };
        let starting = futures::stream::iter(0..self.count).map(|number| {
            let (options, leader) = (options.clone(), leader.clone());
            worker::start(&platform, options, number, self.slots, leader, Arc::clone(&tally))
        });
        let running: Vec<_> = starting.buffer_unordered(STARTING_MAX).try_collect().await?;
        let end = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        tokio::task::spawn_blocking(end).await??;
        drop(running);
        Ok(())
    }
}

/// The numbers of a job of which all tasks run, as the process of the virtual TaskExecutors counts them and [`Workers::running`] returns
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobRuns {
    /// Tasks whose RUNNING the JobMaster has confirmed.
    pub tasks: u64,
    /// Number of look-ups by which the tasks have learned where their producers are: one for each producing subtask, over all tasks.
    pub producers: u64,
}

/// The process of the virtual TaskExecutors, as the measuring process sees it. Dropping it kills the process.
#[derive(Debug)]
pub struct Workers {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Workers {
    /// Starts this binary again, as the process of `count` virtual TaskExecutors of `slots` slots each, and waits until all are registered.
    ///
    /// # Errors
    /// The process cannot be started, reports a failure, ends, or says nothing for 120 s.
    pub async fn start(
        jobmanager: &NodeAddress,
        secret: &Path,
        count: usize,
        slots: u32,
    ) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["workers", "--jobmanager", jobmanager.as_str(), "--secret"])
            .arg(secret)
            .args(["--count", &count.to_string(), "--slots", &slots.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let out = child.stdout.take().context("the TaskExecutors' process has no output")?;
        let mut workers = Self { _child: child, lines: BufReader::new(out).lines() };
        match workers.next().await?.as_slice() {
            [what, n] if what == "registered" && *n == count.to_string() => Ok(workers),
            other => bail!("TaskExecutors did not register: {}", other.join(" ")),
        }
    }

    /// Returns the id of the process; `None` once it has ended and was waited for.
    pub fn pid(&self) -> Option<u32> {
        self._child.id()
    }

    async fn next(&mut self) -> Result<Vec<String>> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.context("the TaskExecutors' process says nothing")??;
        let line = line.context("the TaskExecutors' process has ended")?;
        Ok(line.split(' ').map(str::to_owned).collect())
    }

    /// Waits until every task of a job runs; jobs must be waited for, each once, in the order in which they come to run.
    ///
    /// # Errors
    /// The process has ended, says nothing for 120 s, or reports a failure or another job.
    pub async fn running(&mut self, job: JobId) -> Result<JobRuns> {
        match self.next().await?.as_slice() {
            [what, id, tasks, producers] if what == "running" && *id == job.to_string() => {
                Ok(JobRuns { tasks: tasks.parse()?, producers: producers.parse()? })
            }
            other => bail!("job {job} does not run: {}", other.join(" ")),
        }
    }
}
