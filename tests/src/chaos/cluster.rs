//! A cluster of real processes for one run: JobManagers with `filesystem` HA, and TaskManagers.

use super::processes::{Process, children, read};
use anyhow::{Context as _, Result, bail, ensure};
use rest::{
    client::{ClientTimeouts, RestClient},
    messages::JarRequest,
};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, AtomicU16, Ordering},
    thread,
    time::Duration,
};

/// Longest wait for anything that should take seconds at most, on a busy machine; after it a run fails.
pub const WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// True once a signal has asked the campaign to end: the next wait of [`Cluster::until`] fails, and the run's processes are killed.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A JobManager and its ports, which a successor on its place takes over.
#[derive(Debug)]
struct JobManager {
    process: Process,
    rpc_port: u16,
    rest_port: u16,
}

/// The processes of a run: JobManagers with high availability in a directory, and TaskManagers. Dropping it kills all of them.
pub struct Cluster {
    bins: PathBuf,
    folder: PathBuf,
    options: Vec<String>,
    jobmanagers: Vec<JobManager>,
    taskmanagers: Vec<Process>,
    /// The logs of all JobManagers that the run has had.
    logs: Vec<PathBuf>,
    started: usize,
    runtime: tokio::runtime::Runtime,
}

impl Cluster {
    /// Starts JobManagers and TaskManagers with options `KEY=VALUE`, and waits until all TaskManagers are registered. The program `flott`
    /// is taken from the folder `bins`; `folder` gets the processes' logs and temporary files, which stay.
    ///
    /// # Errors
    /// A process cannot be started, or the cluster is not complete within [`WITHIN`]; the processes that were started are killed.
    pub fn start(
        bins: &Path,
        folder: &Path,
        mut options: Vec<String>,
        jobmanagers: usize,
        taskmanagers: usize,
    ) -> Result<Self> {
        let tmp = folder.join("tmp");
        std::fs::create_dir_all(&tmp)?;
        options.push(format!("io.tmp.dirs={}", tmp.display()));
        options.push(format!("env.pid.dir={}", folder.join("pid").display()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut cluster = Self {
            bins: bins.to_owned(),
            folder: folder.to_owned(),
            options,
            jobmanagers: Vec::new(),
            taskmanagers: Vec::new(),
            logs: Vec::new(),
            started: 0,
            runtime,
        };
        for _ in 0..jobmanagers {
            let (rpc_port, rest_port) = (free_port()?, free_port()?);
            let started = cluster.start_jobmanager(rpc_port, rest_port)?;
            cluster.jobmanagers.push(started);
        }
        for _ in 0..taskmanagers {
            cluster.start_taskmanager()?;
        }
        cluster.until("TaskManagers are registered", WITHIN, |cluster| {
            let registered = cluster.ask(async |client| client.task_managers().await.ok())?;
            (registered.taskmanagers.len() == taskmanagers).then_some(())
        })?;
        Ok(cluster)
    }

    fn command(&self, role: &str, ports: &[String]) -> Command {
        let mut command = Command::new(self.bins.join("flott"));
        command.arg(role);
        for option in self.options.iter().chain(ports) {
            command.arg("-D").arg(option);
        }
        for variable in ["FLOTT_CONF_DIR", "RUST_LOG", "FLOTT_LOG_FILE", "FLOTT_PID_FILE"] {
            command.env_remove(variable);
        }
        command
    }

    fn log_file(&mut self, role: &str) -> PathBuf {
        self.started += 1;
        self.folder.join(format!("{:02}-{role}.log", self.started))
    }

    fn start_jobmanager(&mut self, rpc_port: u16, rest_port: u16) -> Result<JobManager> {
        let ports = [format!("jobmanager.rpc.port={rpc_port}"), format!("rest.port={rest_port}")];
        let (command, log) = (self.command("jobmanager", &ports), self.log_file("jobmanager"));
        self.logs.push(log.clone());
        Ok(JobManager { process: Process::start(command, log)?, rpc_port, rest_port })
    }

    fn start_taskmanager(&mut self) -> Result<()> {
        let (command, log) = (self.command("taskmanager", &[]), self.log_file("taskmanager"));
        self.taskmanagers.push(Process::start(command, log)?);
        Ok(())
    }

    /// Asks the JobManagers' REST endpoints one after the other, blocking the thread, and returns the first answer; `None` if `question`
    /// returns `None` for all.
    pub fn ask<T>(&self, mut question: impl AsyncFnMut(RestClient) -> Option<T>) -> Option<T> {
        self.jobmanagers.iter().find_map(|jobmanager| {
            let timeouts = ClientTimeouts::default();
            let client = RestClient::new("127.0.0.1", jobmanager.rest_port, timeouts);
            self.runtime.block_on(question(client))
        })
    }

    /// Calls `look` every 10 ms until it returns a value; blocks the thread.
    ///
    /// # Errors
    /// There is no value `within` the time, or the campaign is to end ([`INTERRUPTED`]); the text names `what` was waited for.
    pub fn until<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T> {
        let begin = tokio::time::Instant::now();
        loop {
            if let Some(value) = look(self) {
                return Ok(value);
            }
            ensure!(!INTERRUPTED.load(Ordering::Relaxed), "interrupted while waiting: {what}");
            ensure!(begin.elapsed() < within, "not within {} s: {what}", within.as_secs());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Uploads the program of this name from the folder of programs and runs it, each time anew until a JobManager accepts it; returns
    /// the job's id. A try whose answer was lost may have started a job, too.
    ///
    /// # Errors
    /// No JobManager accepts it within [`WITHIN`].
    pub fn submit(&mut self, program: &str, args: &[String], parallelism: u32) -> Result<String> {
        let program = self.bins.join(program);
        let request = JarRequest {
            program_args_list: Some(args.to_vec()),
            parallelism: Some(parallelism.into()),
            ..JarRequest::default()
        };
        self.until("the job is accepted", WITHIN, |cluster| {
            cluster.ask(async |client| {
                let jar = client.upload(&program, |_| ()).await.ok()?;
                client.run(jar.jar_id(), &request).await.ok().map(|run| run.jobid)
            })
        })
    }

    /// Returns a job's status, such as `RUNNING`; `None` while no JobManager answers or knows the job.
    pub fn status(&self, job: &str) -> Option<String> {
        self.ask(async |client| client.job_status(job).await.ok().map(|status| status.status))
    }

    /// Waits until a job is FINISHED.
    ///
    /// # Errors
    /// It is FAILED or CANCELED, or not at its end within [`WITHIN`].
    pub fn await_finished(&mut self, job: &str) -> Result<()> {
        let end = self.until(&format!("job {job} is FINISHED"), WITHIN, |cluster| {
            let status = cluster.status(job)?;
            ["FINISHED", "FAILED", "CANCELED"].contains(&status.as_str()).then_some(status)
        })?;
        if end != "FINISHED" {
            let why = self.ask(async |client| client.job_exceptions(job).await.ok());
            bail!("job {job} is {end}: {why:?}");
        }
        Ok(())
    }

    /// Returns how many lines of the logs of all JobManagers of the run, killed ones included, contain all of the texts.
    pub fn logged(&self, texts: &[&str]) -> usize {
        let has_all = |line: &&str| texts.iter().all(|text| line.contains(text));
        self.logs.iter().map(|log| read(log).lines().filter(has_all).count()).sum()
    }

    /// Returns the process ids of the program hosts of all TaskManagers.
    pub fn hosts(&self) -> Vec<i32> {
        self.taskmanagers.iter().flat_map(|process| children(process.pid())).collect()
    }

    /// Kills the TaskManager with a process id and starts another one in its stead, without waiting until that one is registered. Without
    /// an id one is taken that runs tasks, the `any`-th of them (modulo their number). Returns false, and kills nothing, if none has the
    /// id.
    ///
    /// # Errors
    /// No TaskManager runs tasks within [`WITHIN`], or the other one cannot be started.
    pub fn kill_taskmanager(&mut self, pid: Option<i32>, any: usize) -> Result<bool> {
        let pid = match pid {
            Some(pid) => pid,
            None => self.until("a TaskManager runs tasks", WITHIN, |cluster| {
                let pids = cluster.taskmanagers.iter().map(Process::pid);
                let busy: Vec<i32> = pids.filter(|pid| !children(*pid).is_empty()).collect();
                busy.get(any % busy.len().max(1)).copied()
            })?,
        };
        let Some(place) = self.taskmanagers.iter().position(|process| process.pid() == pid) else {
            return Ok(false);
        };
        self.taskmanagers.remove(place).kill();
        self.start_taskmanager()?;
        Ok(true)
    }

    /// Kills the JobManager that leads the job (the only one, if there is one), and starts another one with the same ports in its stead,
    /// without waiting for it: a single one leads next; where a standby takes over, the new one is the next standby.
    ///
    /// # Errors
    /// None of several JobManagers leads the job within [`WITHIN`], or the other one cannot be started.
    pub fn kill_jobmanager(&mut self) -> Result<()> {
        let place = self.until("a JobManager leads the job", WITHIN, |cluster| {
            // The coordinators of the job's sources run beside its JobMaster.
            let leads = |jm: &JobManager| !children(jm.process.pid()).is_empty();
            let is_alone = cluster.jobmanagers.len() == 1;
            cluster.jobmanagers.iter().position(|jm| is_alone || leads(jm))
        })?;
        let JobManager { mut process, rpc_port, rest_port } = self.jobmanagers.remove(place);
        process.kill();
        let started = self.start_jobmanager(rpc_port, rest_port)?;
        self.jobmanagers.push(started);
        Ok(())
    }

    /// Checks that none of the cluster's present processes has ended by itself.
    ///
    /// # Errors
    /// One has; the error names its log.
    pub fn check_processes(&mut self) -> Result<()> {
        let jobmanagers = self.jobmanagers.iter_mut().map(|jm| &mut jm.process);
        for process in jobmanagers.chain(&mut self.taskmanagers) {
            if !process.is_running() {
                bail!("a process has ended by itself: {}", process.log_file().display());
            }
        }
        Ok(())
    }
}

/// Returns a port that is free now and that no other process gets by chance: outgoing connections and listeners on port 0 get theirs from
/// 32768 on, and one of those might take the port before the process that it is meant for.
///
/// # Errors
/// No such port is free.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes of tests that run at the same time begin at different places.
    let first = u16::try_from(std::process::id() % 150).unwrap_or(0) * 100;
    for _ in 0..10_000 {
        let port = 12_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed) % 5_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    None.context("no free port from 12000 on")
}
