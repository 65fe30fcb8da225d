//! The cost of one more submission beside jobs that wait for the slots of a job that holds all of them.

use super::graph;
use crate::cluster::{Cluster, millis, wait_a_moment};
use crate::process::cpu_of;
use anyhow::{Context, Result};
use gateways::Remote;
use gateways::dispatcher::{DispatcherGateway, RequestJobsOverview, SubmitJob};
use model::{JobId, JobStatus};
use std::time::Duration;
use tokio::time::Instant;

/// Number of submissions that are measured one by one.
const SAMPLES: u32 = 20;
/// Time for which the JobManager's CPU is measured while nothing is submitted.
const IDLE: Duration = Duration::from_secs(5);
/// Pause between two measured submissions, longer than the SlotManager waits before it matches again.
const PACE: Duration = Duration::from_millis(100);

/// The measured cost of one more submission for the JobManager while other jobs wait for slots.
#[derive(Debug, Default)]
pub struct Submissions {
    /// Milliseconds from each measured SubmitJob call to its answer, in the order of the calls.
    pub millis: Vec<f64>,
    /// CPU time of the JobManager for one submission in milliseconds, without what it uses in the same time when idle.
    pub cpu_millis: f64,
    /// CPU usage of the JobManager while nothing is submitted, in percent of a core.
    pub idle_percent: f64,
}

/// Submits jobs that wait for slots, all of which job 1 holds, and measures what further submissions cost.
pub struct Queue<'a> {
    dispatcher: &'a Remote<DispatcherGateway>,
    cluster: &'a Cluster,
    parallelism: u32,
    submitted: u32,
}

impl<'a> Queue<'a> {
    /// Makes a queue without waiting jobs. Each job needs `parallelism` slots; job 1, which runs already, must hold all that there are.
    pub fn new(
        dispatcher: &'a Remote<DispatcherGateway>,
        cluster: &'a Cluster,
        parallelism: u32,
    ) -> Self {
        Self { dispatcher, cluster, parallelism, submitted: 1 }
    }

    async fn submit(&mut self) -> Result<JobId> {
        self.submitted += 1;
        let job = JobId(u128::from(self.submitted));
        self.dispatcher.ask(SubmitJob { graph: graph(job, self.parallelism) }).await?;
        Ok(job)
    }

    /// Waits until the Dispatcher lists a job as running.
    async fn listed(&self, job: JobId) -> Result<()> {
        let began = Instant::now();
        loop {
            let jobs = self.dispatcher.ask(RequestJobsOverview {}).await?.jobs;
            if jobs.iter().any(|line| line.job_id == job && line.status == JobStatus::Running) {
                return Ok(());
            }
            wait_a_moment(began, "the job")?;
        }
    }

    fn cpu(&self) -> Result<f64> {
        let pid = self.cluster.jobmanager_pid().context("the JobManager does not run")?;
        Ok(cpu_of(pid)?.0)
    }

    /// Submits jobs until `waiting` jobs wait (none if so many wait already), measures the idle JobManager for 5 s, then submits 20 further
    /// jobs, 100 ms apart, and measures these. All jobs stay, the measured ones too, so that the next call goes on from there.
    ///
    /// # Errors
    /// The Dispatcher refuses a job or does not answer, or lists the last waiting one as running only after 60 s; or the JobManager's CPU
    /// time cannot be read.
    pub async fn measure(&mut self, waiting: u32) -> Result<Submissions> {
        while self.submitted <= waiting {
            let job = self.submit().await?;
            if self.submitted > waiting {
                self.listed(job).await?;
            }
        }
        tokio::time::sleep(PACE * 10).await;
        let (before, began) = (self.cpu()?, Instant::now());
        tokio::time::sleep(IDLE).await;
        let idle = (self.cpu()? - before) / began.elapsed().as_secs_f64();
        let mut measured = Submissions { idle_percent: idle * 100.0, ..Submissions::default() };
        let (before, started) = (self.cpu()?, Instant::now());
        for _ in 0..SAMPLES {
            let began = Instant::now();
            self.submit().await?;
            measured.millis.push(millis(began));
            tokio::time::sleep(PACE.saturating_sub(began.elapsed())).await;
        }
        let used = self.cpu()? - before - idle * started.elapsed().as_secs_f64();
        measured.cpu_millis = used * 1e3 / f64::from(SAMPLES);
        Ok(measured)
    }
}
