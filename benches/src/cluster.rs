//! A standalone cluster of real processes on free loopback ports, in a folder of its own.
//!
//! Everything is ended and removed when the value is dropped. It must never touch another cluster's files.

use crate::process::children_of;
use anyhow::{Context, Result, bail};
use gateways::NodeAddress;
use rest::client::{ClientTimeouts, RestClient};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// Maximum time of any step before a benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the folder that holds this benchmark's binary, and so the release binaries beside it. Fails if the system does not tell the
/// binary's path.
pub fn binaries() -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.parent().context("the benchmark has no folder")?.to_owned())
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A standalone cluster of real processes of the binary `flott` on this machine: one JobManager and TaskManagers, with free ports and a
/// temporary folder. Dropping it kills the processes, which takes their program hosts along, and deletes the folder.
pub struct Cluster {
    folder: TempDir,
    flott: PathBuf,
    /// Client of the cluster's REST endpoint.
    pub rest: RestClient,
    rpc_port: u16,
    jobmanager: Option<Child>,
    taskmanagers: Vec<Child>,
}

impl Cluster {
    /// Writes the configuration and the secret into a new folder, and chooses free ports, which stay unbound; starts no process of the
    /// cluster yet. `options` are further lines of flott.yaml, which are not checked here.
    ///
    /// # Errors
    /// The binary `flott` is not beside the benchmark's, the folder cannot be written, or the secret cannot be made.
    pub fn prepare(options: &str) -> Result<Self> {
        let flott = binaries()?.join("flott");
        if !flott.exists() {
            bail!("{} is absent: cargo build --release --bin flott", flott.display());
        }
        let folder = TempDir::new()?;
        let dir = folder.path().display();
        let (rest_port, rpc_port) = (free_port()?, free_port()?);
        fs::write(
            folder.path().join("flott.yaml"),
            format!(
                "jobmanager.rpc.address: 127.0.0.1\njobmanager.rpc.port: {rpc_port}\n\
                 rest.address: 127.0.0.1\nrest.port: {rest_port}\n\
                 security.cluster-secret-file: {dir}/secret/cluster.secret\n\
                 web.upload.dir: {dir}/upload\nblob.storage.directory: {dir}/blobs\n\
                 io.tmp.dirs: {dir}/tmp\nlog.dir: {dir}/log\n{options}"
            ),
        )?;
        fs::create_dir_all(folder.path().join("tmp"))?;
        let cluster = Self {
            flott,
            rest: RestClient::new("127.0.0.1", rest_port, ClientTimeouts::default()),
            rpc_port,
            jobmanager: None,
            taskmanagers: Vec::new(),
            folder,
        };
        let made = cluster.command(&["make-secret"]).stdout(Stdio::null()).status()?;
        if !made.success() {
            bail!("flott make-secret failed: {made}");
        }
        Ok(cluster)
    }

    /// Starts a cluster of a JobManager and so many TaskManagers, and waits until all are registered. `options` are further lines of
    /// flott.yaml.
    ///
    /// # Errors
    /// It cannot be prepared, or a process cannot be started or is not there within 60 s.
    pub async fn start(options: &str, taskmanagers: usize) -> Result<Self> {
        let mut cluster = Self::prepare(options)?;
        cluster.start_jobmanager().await?;
        for _ in 0..taskmanagers {
            cluster.start_taskmanager().await?;
        }
        Ok(cluster)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.flott);
        command
            .args(args)
            .arg("--config-dir")
            .arg(self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Starts the JobManager and waits until its REST endpoint gives an overview, for which its Dispatcher and its ResourceManager must
    /// lead. Returns the milliseconds that this took from the process's start. To be called once: a process that was started before is
    /// forgotten, and not killed.
    ///
    /// # Errors
    /// The process cannot be started, or gives no overview within 60 s, also if it has ended; it is killed with the cluster.
    pub async fn start_jobmanager(&mut self) -> Result<f64> {
        let began = Instant::now();
        self.jobmanager = Some(self.command(&["jobmanager", "--mode", "session"]).spawn()?);
        while self.rest.overview().await.is_err() {
            wait_a_moment(began, "the JobManager's REST endpoint")?;
        }
        Ok(millis(began))
    }

    /// Starts one more TaskManager and waits until it is registered. Returns the milliseconds that this took from the process's start.
    ///
    /// # Errors
    /// The process cannot be started, the JobManager does not answer, or the TaskManager is not registered within 60 s.
    pub async fn start_taskmanager(&mut self) -> Result<f64> {
        let before = self.rest.task_managers().await?.taskmanagers.len();
        let began = Instant::now();
        self.taskmanagers.push(self.command(&["taskmanager"]).spawn()?);
        while self.rest.task_managers().await?.taskmanagers.len() <= before {
            wait_a_moment(began, "the TaskManager's registration")?;
        }
        Ok(millis(began))
    }

    /// Returns the process id of the JobManager; `None` before it is started.
    pub fn jobmanager_pid(&self) -> Option<u32> {
        self.jobmanager.as_ref().map(Child::id)
    }

    /// Returns the process ids of the TaskManagers, in the order in which they were started.
    pub fn taskmanager_pids(&self) -> Vec<u32> {
        self.taskmanagers.iter().map(Child::id).collect()
    }

    /// Returns the number of processes that the cluster's processes have started for jobs and not yet waited for, on JobManager and
    /// TaskManagers together; 0 once everything of all jobs has ended.
    ///
    /// # Errors
    /// The system does not tell it. A process of the cluster that has ended is no error, and counts as one without children.
    pub fn program_hosts(&self) -> Result<usize> {
        let mut hosts = 0;
        for pid in self.taskmanager_pids().into_iter().chain(self.jobmanager_pid()) {
            hosts += children_of(pid)?;
        }
        Ok(hosts)
    }

    /// Waits until everything of all jobs has ended ([`Cluster::program_hosts`]); blocks the thread.
    ///
    /// # Errors
    /// It has not within 60 s, or the system does not tell it.
    pub fn until_no_hosts(&self) -> Result<()> {
        let began = Instant::now();
        while self.program_hosts()? > 0 {
            wait_a_moment(began, "the end of the job's processes")?;
        }
        Ok(())
    }

    /// Returns the RPC address of the JobManager, which is chosen before it is started.
    pub fn jobmanager_node(&self) -> NodeAddress {
        NodeAddress::of("127.0.0.1", self.rpc_port)
    }

    /// Returns the path of the file with the cluster's secret.
    pub fn secret_file(&self) -> PathBuf {
        self.folder.path().join("secret/cluster.secret")
    }

    /// Returns the folder that holds the cluster's files: configuration, secret, `log`, `tmp`, `upload`, `blobs`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.taskmanagers.iter_mut().chain(self.jobmanager.iter_mut()) {
            // The process may have ended already; either way nothing of it is left.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Pause between two polls. It blocks the thread: a timer of the runtime is at least 1 ms late, by which figures of a few
/// milliseconds would come in steps of two.
const POLL_EVERY: Duration = Duration::from_micros(200);

/// Blocks the thread for 200 µs before the next poll of something that is waited for.
///
/// # Errors
/// 60 s have passed since `began`; the text names `what` was waited for. Does not block then.
pub fn wait_a_moment(began: Instant, what: &str) -> Result<()> {
    if began.elapsed() > PATIENCE {
        bail!("{what} did not come within {} s", PATIENCE.as_secs());
    }
    std::thread::sleep(POLL_EVERY);
    Ok(())
}

/// Returns the milliseconds that have passed since `began`.
pub fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}
