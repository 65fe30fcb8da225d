//! The control plane under load. A real `flott jobmanager --mode session`; in a second process at least
//! 500 virtual TaskExecutors (see `benches::control_plane`), each with a port and a connection of its own.
//!
//! `schedule_deploy_ms_*`: the clock starts before the JobGraph is sent to the Dispatcher, by its gateway
//! over TCP, from a third process. (A REST run would add the building of the graph by a program, which is not what
//! is measured here.) It stops when each task's RUNNING was reported to and confirmed by the JobMaster, and the
//! Dispatcher's overview says the same. In between: slots are requested one by one, offered, all tasks
//! deployed with their producers' table, every table decoded and walked once per consuming task, and both
//! INITIALIZING and RUNNING reported.
//!
//! `jobmanager_mib_20k`: RSS of the JobManager, two heartbeats after that.
//!
//! `heartbeat_core_percent_8k`: user and system time of the JobManager alone, over windows of 10 s, with 8,000
//! virtual TaskExecutors whose beats bring reports of 8 slots.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result, bail, ensure};
use benches::cluster::{Cluster, millis, wait_a_moment};
use benches::control_plane::{
    CLUSTER_ID, Queue, Submissions, Workers, WorkersRole, graph, leader_of, rpc_options,
};
use benches::process::{cpu_of, rss_mib};
use benches::report::Report;
use clap::{Parser, Subcommand};
use gateways::dispatcher::{
    CancelJob, DispatcherGateway, JobSummary, RequestJobsOverview, SubmitJob,
};
use gateways::leader_election::Component;
use gateways::{Remote, RpcService};
use model::{DispatcherId, ExecutionState, Fence as _, JobId, JobStatus};
use platform::Platform;
use std::time::Duration;
use tokio::time::Instant;

const RUNS: usize = 5;
/// TaskExecutors that a job is deployed to.
const WORKERS: usize = 500;
/// Number of TaskExecutors that only send beats, and of their slots.
const BEATING: (usize, u32) = (8_000, 8);
/// The number of TaskExecutors, and of slots on each, that one job holds while others wait for them.
const HELD: (usize, u32) = (4, 8);
/// Numbers of waiting jobs beside which submissions are measured.
const WAITING: [u32; 2] = [10, 1_000];
/// Length of one CPU measurement.
const WINDOW: Duration = Duration::from_secs(10);
/// Beats are spread over an interval, and the first ones bring what is new: those are not counted.
const SETTLED: Duration = Duration::from_secs(5);

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// Only the metrics whose names contain one of these, e.g. --only 8k,20k
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl Cli {
    /// Returns true if one of `metrics` was asked for, or none in particular.
    fn wants(&self, metrics: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| metrics.contains(only.as_str()))
    }
}

#[derive(Subcommand)]
enum Role {
    /// Be the process of the virtual TaskExecutors
    Workers(WorkersRole),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    if let Some(Role::Workers(role)) = &cli.role {
        return role.run().await;
    }
    let report = Report::new("control_plane");
    if cli.wants("schedule_deploy_ms_8k") {
        let runs = deploy(4_000).await.context("schedule_deploy_ms_8k")?;
        report.runs("schedule_deploy_ms_8k", &runs.millis, "ms")?;
    }
    if cli.wants("schedule_deploy_ms_20k jobmanager_mib_20k") {
        let runs = deploy(10_000).await.context("schedule_deploy_ms_20k")?;
        report.runs("schedule_deploy_ms_20k", &runs.millis, "ms")?;
        report.runs("jobmanager_mib_20k", &runs.mib, "MiB")?;
    }
    if cli.wants("submission_ms_waiting_10 submission_ms_waiting_1000 submission_cpu") {
        for (waiting, of) in submissions().await.context("submission_ms_waiting")? {
            report.runs(&format!("submission_ms_waiting_{waiting}"), &of.millis, "ms")?;
            let cpu = format!("submission_cpu_ms_waiting_{waiting}");
            report.runs(&cpu, &[of.cpu_millis], "ms")?;
            report.runs(
                &format!("idle_core_percent_waiting_{waiting}"),
                &[of.idle_percent],
                "%",
            )?;
        }
    }
    if cli.wants("heartbeat_core_percent_8k") {
        let percents = beat().await.context("heartbeat_core_percent_8k")?;
        report.runs("heartbeat_core_percent_8k", &percents, "%")?;
    }
    Ok(())
}

/// A JobManager, its virtual TaskExecutors, and the client that submits.
struct Rig {
    // Dropped in this order: the TaskExecutors go first.
    workers: Workers,
    dispatcher: Remote<DispatcherGateway>,
    cluster: Cluster,
    slots: u32,
}

impl Rig {
    async fn start(count: usize, slots: u32) -> Result<Self> {
        let mut cluster = Cluster::prepare(&format!("cluster.id: {CLUSTER_ID}\n"))?;
        cluster.start_jobmanager().await?;
        let secret = cluster.secret_file();
        let rpc = RpcService::start(Platform::production(), rpc_options(&secret)?).await?;
        let node = cluster.jobmanager_node();
        let leader = leader_of(&rpc, &node, Component::Dispatcher).await?;
        let dispatcher = rpc.gateway(&leader.address, DispatcherId::from_session(leader.session));
        let began = Instant::now();
        let workers = Workers::start(&node, &secret, count, slots).await?;
        eprintln!("control_plane: {count} TaskExecutors registered in {:.0} ms", millis(began));
        Ok(Self { workers, dispatcher, cluster, slots: u32::try_from(count)? * slots })
    }

    fn jobmanager(&self) -> Result<u32> {
        self.cluster.jobmanager_pid().context("the JobManager does not run")
    }

    async fn summary(&self, job: JobId) -> Result<JobSummary> {
        let jobs = self.dispatcher.ask(RequestJobsOverview {}).await?.jobs;
        jobs.into_iter().find(|line| line.job_id == job).context("the job is not listed")
    }

    /// Submission to RUNNING, in milliseconds.
    async fn run(&mut self, job: JobId, parallelism: u32) -> Result<f64> {
        let tasks = u64::from(parallelism) * 2;
        let graph = graph(job, parallelism);
        let began = Instant::now();
        self.dispatcher.ask(SubmitJob { graph }).await?;
        let runs = self.workers.running(job).await?;
        let summary = self.summary(job).await?;
        let took = millis(began);
        ensure!(runs.tasks == tasks, "{} of {tasks} tasks run", runs.tasks);
        let pairs = u64::from(parallelism) * u64::from(parallelism);
        ensure!(runs.producers == pairs, "{} of {pairs} producers were found", runs.producers);
        let running = summary.tasks.get(&ExecutionState::Running).copied().unwrap_or(0);
        ensure!(summary.status == JobStatus::Running && u64::from(running) == tasks, "{summary:?}");
        Ok(took)
    }

    /// Cancels a job and waits until all slots are free again.
    async fn cancel(&self, job: JobId) -> Result<()> {
        self.dispatcher.ask(CancelJob { job_id: job }).await?;
        let began = Instant::now();
        loop {
            let ended = self.summary(job).await?.status == JobStatus::Canceled;
            // Refused while ten thousand notices of free slots fill the ResourceManager's mailbox.
            let free = self.cluster.rest.overview().await.map(|all| all.slots_available);
            if ended && free.is_ok_and(|free| free == self.slots) {
                return Ok(());
            }
            wait_a_moment(began, "the end of the job")?;
        }
    }
}

/// Measures the cost of a submission beside each of these numbers of waiting jobs.
async fn submissions() -> Result<Vec<(u32, Submissions)>> {
    let (count, slots) = HELD;
    let mut rig = Rig::start(count, slots).await?;
    let parallelism = rig.slots;
    rig.run(JobId(1), parallelism).await?;
    let mut queue = Queue::new(&rig.dispatcher, &rig.cluster, parallelism);
    let mut measured = Vec::new();
    for waiting in WAITING {
        let of = queue.measure(waiting).await?;
        eprintln!("control_plane: {waiting} jobs wait: {of:?}");
        measured.push((waiting, of));
    }
    Ok(measured)
}

struct Deployed {
    millis: Vec<f64>,
    mib: Vec<f64>,
}

async fn deploy(parallelism: u32) -> Result<Deployed> {
    let slots = parallelism.div_ceil(u32::try_from(WORKERS)?);
    let mut rig = Rig::start(WORKERS, slots).await?;
    let mut deployed = Deployed { millis: Vec::new(), mib: Vec::new() };
    for run in 0..RUNS {
        let job = JobId(u128::try_from(run)? + 1);
        let cpu = cpu_of(rig.jobmanager()?)?;
        let took = rig.run(job, parallelism).await?;
        let cpu = cpu_of(rig.jobmanager()?)? - cpu;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mib = rss_mib(rig.jobmanager()?)?;
        eprintln!(
            "control_plane: {parallelism} x 2, run {} of {RUNS}: {took:.0} ms (JobManager {:.0} ms CPU), {mib:.1} MiB",
            run + 1,
            cpu.0 * 1e3,
        );
        deployed.millis.push(took);
        deployed.mib.push(mib);
        rig.cancel(job).await?;
    }
    Ok(deployed)
}

async fn beat() -> Result<Vec<f64>> {
    let (count, slots) = BEATING;
    let rig = Rig::start(count, slots).await?;
    tokio::time::sleep(SETTLED).await;
    let mut percents = Vec::new();
    for window in 0..RUNS {
        let (cpu, began) = (cpu_of(rig.jobmanager()?)?, Instant::now());
        tokio::time::sleep(WINDOW).await;
        let used = cpu_of(rig.jobmanager()?)? - cpu;
        let percent = 100.0 * used.0 / began.elapsed().as_secs_f64();
        let registered = rig.cluster.rest.overview().await?.taskmanagers;
        if usize::try_from(registered)? != count {
            bail!("{registered} of {count} TaskExecutors are left");
        }
        eprintln!("control_plane: window {} of {RUNS}: {percent:.1} % of a core", window + 1);
        percents.push(percent);
    }
    Ok(percents)
}
