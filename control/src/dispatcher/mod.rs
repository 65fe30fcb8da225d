//! The Dispatcher's table of jobs: which submissions are taken, what recovery runs, and what is done when a job
//! has ended.
//!
//! Everything that must survive is stored by commands with a completion event: a job is
//! [`JobPhase::Persisting`] until [`JobTable::stored`], and [`JobPhase::Ending`] until its result is recorded.
//! A slow store delays that one job and nothing else. The table must never store or start anything itself.

mod clients;
mod ended;
mod recovery;
#[cfg(test)]
mod tests;

pub use clients::AttachedClients;
pub use ended::{EndedJob, EndedJobs, Retention};
pub use recovery::{Found, Recovered};

use crate::job_graph;
use crate::registration::backoff;
use model::{JobGraph, JobId, JobStatus};
use recovery::Recovery;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thiserror::Error;

/// Pauses between the tries to record a job's result.
const RECORD_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What a cluster takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any number of jobs.
    Session,
    /// The one job of its application; its end ends the cluster.
    Application,
    /// The one job that it was started with; its end ends the cluster.
    PerJob,
}

impl Mode {
    /// Whether the cluster runs one job.
    pub fn is_single(self) -> bool {
        self != Self::Session
    }
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Application => "application",
            Self::PerJob => "per-job",
        }
    }
}

/// Who brings a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client.
    Client,
    /// The cluster itself: the job it was started for.
    Own,
}

/// Why a job is not taken in. Nothing of it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The job is being built, stored, recovered or run.
    #[error("it is running already")]
    DuplicateRunning,
    /// The job has ended, now or under an earlier Dispatcher.
    #[error("it has already ended as {0}")]
    DuplicateTerminated(JobStatus),
    /// Some vertices have resource specs and these do not.
    #[error("some vertices have resource specs, these do not: {}", .0.join(", "))]
    PartialResources(Vec<String>),
    /// The graph is malformed.
    #[error(transparent)]
    Graph(#[from] job_graph::GraphError),
    /// The cluster runs one job only.
    #[error("the cluster runs one job only ({})", .0.as_str())]
    SingleJob(Mode),
    /// The Dispatcher is going down.
    #[error("the Dispatcher is shutting down")]
    Closing,
}

/// The stage that a job has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPhase {
    /// An earlier Dispatcher left the job; its log is being read.
    Recovering,
    /// A child process builds the job's graph.
    Building,
    /// The graph is being stored. The job runs once [`JobTable::stored`] says so.
    Persisting,
    /// The job has a runner.
    Running,
    /// The job's tasks have ended; its result is being stored.
    Ending,
}

/// What is done when a job has ended, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStep {
    /// Store the job's details, then call [`JobTable::step_done`] whether that worked or not.
    StoreDetails,
    /// Record how the job ended, then call [`JobTable::step_done`], [`JobTable::record_failed`] or
    /// [`JobTable::superseded`]. The job has ended for every later Dispatcher once this is done.
    RecordResult,
    /// Delete the job's blobs.
    DeleteBlobs,
    /// End the job's program host, once nobody collects from it.
    ReleaseHost,
    /// The cluster has nothing left to do.
    EndCluster(JobStatus),
}

#[derive(Debug, Clone)]
struct Entry {
    phase: JobPhase,
    /// What is left to do for an ended job; the first step is under way.
    steps: VecDeque<EndStep>,
    /// Tries to record the result that have failed.
    failures: u32,
}

impl Entry {
    fn new(phase: JobPhase) -> Self {
        Self { phase, steps: VecDeque::new(), failures: 0 }
    }
}

/// The jobs of one Dispatcher.
#[derive(Debug, Clone)]
pub struct JobTable {
    mode: Mode,
    jobs: BTreeMap<JobId, Entry>,
    ended: EndedJobs,
    recovery: Recovery,
    closing: bool,
}

impl JobTable {
    /// Returns an empty table, whose recovery has not begun.
    pub fn new(mode: Mode, retention: Retention) -> Self {
        Self {
            mode,
            jobs: BTreeMap::new(),
            ended: EndedJobs::new(retention),
            recovery: Recovery::Listing,
            closing: false,
        }
    }

    /// Returns what the cluster takes.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the phase of a job that has not ended, or whose result is not recorded yet.
    pub fn phase(&self, job: JobId) -> Option<JobPhase> {
        self.jobs.get(&job).map(|entry| entry.phase)
    }

    /// Lists the jobs that [`JobTable::phase`] knows, by id.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, JobPhase)> {
        self.jobs.iter().map(|(id, entry)| (*id, entry.phase))
    }

    /// Returns the ended jobs that are remembered.
    pub fn ended_jobs(&self) -> &EndedJobs {
        &self.ended
    }

    /// Returns the ended jobs that are remembered, to let some go.
    pub fn ended_jobs_mut(&mut self) -> &mut EndedJobs {
        &mut self.ended
    }

    /// Keeps a place for a job whose graph has to be built first.
    ///
    /// # Errors
    /// The reason why the job is not taken.
    pub fn reserve(&mut self, job: JobId, origin: Origin) -> Result<(), Refusal> {
        self.check_id(job, origin)?;
        self.jobs.insert(job, Entry::new(JobPhase::Building));
        Ok(())
    }

    /// Takes a graph in. On `Ok` the caller stores the graph, then calls [`JobTable::stored`] or
    /// [`JobTable::forget`].
    ///
    /// # Errors
    /// The reason why the job is not taken.
    pub fn admit(&mut self, graph: &JobGraph, origin: Origin) -> Result<(), Refusal> {
        if self.phase(graph.job_id) != Some(JobPhase::Building) {
            self.check_id(graph.job_id, origin)?;
        } else if self.closing {
            return Err(Refusal::Closing);
        }
        job_graph::check(graph)?;
        let partial = job_graph::partial_resources(graph);
        if !partial.is_empty() {
            return Err(Refusal::PartialResources(partial));
        }
        self.jobs.insert(graph.job_id, Entry::new(JobPhase::Persisting));
        Ok(())
    }

    fn check_id(&self, job: JobId, origin: Origin) -> Result<(), Refusal> {
        if self.closing {
            return Err(Refusal::Closing);
        }
        if let Some(ended) = self.ended.get(job) {
            return Err(Refusal::DuplicateTerminated(ended.status));
        }
        if self.jobs.contains_key(&job) {
            return Err(Refusal::DuplicateRunning);
        }
        if self.mode.is_single() && origin == Origin::Client {
            return Err(Refusal::SingleJob(self.mode));
        }
        Ok(())
    }

    /// Takes note that the graph is stored. Returns whether the job is to be run: `false` if it is not
    /// [`JobPhase::Persisting`] any more.
    pub fn stored(&mut self, job: JobId) -> bool {
        match self.jobs.get_mut(&job) {
            Some(entry) if entry.phase == JobPhase::Persisting => {
                entry.phase = JobPhase::Running;
                true
            }
            _ => false,
        }
    }

    /// Forgets a job that did not come to run.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Takes note that another leader owns the job. Nothing may be done for it any more.
    pub fn superseded(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Takes note that a running job has ended for good. Returns the first step; `None` if the job does
    /// not run (any more).
    pub fn ended(&mut self, job: JobId, status: JobStatus) -> Option<EndStep> {
        let steps = self.end_steps(status);
        let entry = self.jobs.get_mut(&job).filter(|entry| entry.phase == JobPhase::Running)?;
        entry.phase = JobPhase::Ending;
        entry.steps = steps.into();
        entry.steps.front().copied()
    }

    /// Takes note that the first step of an ended job is done. Returns the next one; `None` when nothing is
    /// left: the job is remembered as `ended`.
    pub fn step_done(&mut self, job: JobId, ended: EndedJob) -> Option<EndStep> {
        let entry = self.jobs.get_mut(&job).filter(|entry| entry.phase == JobPhase::Ending)?;
        let done = entry.steps.pop_front();
        if done == Some(EndStep::RecordResult) {
            self.ended.keep(job, ended);
        }
        let next = entry.steps.front().copied();
        if next.is_none() {
            self.jobs.remove(&job);
        }
        next
    }

    /// Takes note that a result could not be recorded. Returns the pause before the next try. Without a
    /// recorded result the next Dispatcher would run the job again, so the tries never end.
    pub fn record_failed(&mut self, job: JobId) -> Option<Duration> {
        let entry = self.jobs.get_mut(&job).filter(|entry| entry.phase == JobPhase::Ending)?;
        let pause = backoff(RECORD_RETRY.0, RECORD_RETRY.1, entry.failures);
        entry.failures = entry.failures.saturating_add(1);
        Some(pause)
    }

    fn end_steps(&self, status: JobStatus) -> Vec<EndStep> {
        let mut steps = vec![
            EndStep::StoreDetails,
            EndStep::RecordResult,
            EndStep::DeleteBlobs,
            EndStep::ReleaseHost,
        ];
        if self.mode.is_single() {
            steps.push(EndStep::EndCluster(status));
        }
        steps
    }

    /// Takes no further job.
    pub fn close(&mut self) {
        self.closing = true;
    }
}
