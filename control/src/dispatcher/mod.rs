//! The Dispatcher's table of jobs: what is taken in, what is refused and why, what recovery runs, and
//! what is to be done when a job has ended. It must never store or start anything: it says what to do.

use crate::job_graph;
use model::{JobGraph, JobId, JobStatus};
use std::collections::BTreeMap;
use thiserror::Error;

#[cfg(test)]
mod tests;

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
    /// It is being built, stored or run.
    #[error("it is running already")]
    DuplicateRunning,
    /// It has ended, now or under an earlier Dispatcher.
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

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPhase {
    /// A child process builds its graph.
    Building,
    /// Its graph is being stored.
    Persisting,
    /// It has a runner.
    Running,
    /// It has ended; its traces are being put in order.
    Cleaning,
}

/// What is to be done when a job has ended, in this order. A step that fails is logged and, where the
/// result was recorded, done again at the next recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStep {
    /// Keep its details for people.
    Archive,
    /// Record how it ended: from here on it is over for every later Dispatcher.
    RecordResult,
    /// Remove its graph.
    RemoveGraph,
    /// Delete its blobs.
    DeleteBlobs,
    /// End its program host, once nobody collects from it.
    ReleaseHost,
    /// All traces are in order.
    MarkClean,
    /// The cluster has nothing left to do.
    EndCluster(JobStatus),
}

/// What a new Dispatcher does with what an earlier one left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Graphs to run.
    pub run: Vec<JobId>,
    /// Ended jobs whose traces are to be put in order.
    pub clean: Vec<(JobId, JobStatus)>,
}

/// The table.
#[derive(Debug, Clone)]
pub struct JobTable {
    mode: Mode,
    jobs: BTreeMap<JobId, JobPhase>,
    closing: bool,
}

impl JobTable {
    /// Empty.
    pub fn new(mode: Mode) -> Self {
        Self { mode, jobs: BTreeMap::new(), closing: false }
    }

    /// What the cluster takes.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The phase of a job that has not been forgotten.
    pub fn phase(&self, job: JobId) -> Option<JobPhase> {
        self.jobs.get(&job).copied()
    }

    /// All jobs, by id.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, JobPhase)> {
        self.jobs.iter().map(|(id, phase)| (*id, *phase))
    }

    /// Keeps a place for a job whose graph has to be built first. `ended`: how a job of that id ended,
    /// as the result store knows it.
    pub fn reserve(
        &mut self,
        job: JobId,
        ended: Option<JobStatus>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        self.check_id(job, ended, origin)?;
        self.jobs.insert(job, JobPhase::Building);
        Ok(())
    }

    /// Takes a graph in: it is to be stored next. `ended` as in [`JobTable::reserve`].
    pub fn admit(
        &mut self,
        graph: &JobGraph,
        ended: Option<JobStatus>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        if self.phase(graph.job_id) != Some(JobPhase::Building) {
            self.check_id(graph.job_id, ended, origin)?;
        } else if self.closing {
            return Err(Refusal::Closing);
        }
        job_graph::check(graph)?;
        let partial = job_graph::partial_resources(graph);
        if !partial.is_empty() {
            return Err(Refusal::PartialResources(partial));
        }
        self.jobs.insert(graph.job_id, JobPhase::Persisting);
        Ok(())
    }

    fn check_id(
        &self,
        job: JobId,
        ended: Option<JobStatus>,
        origin: Origin,
    ) -> Result<(), Refusal> {
        if self.closing {
            return Err(Refusal::Closing);
        }
        if self.jobs.contains_key(&job) && ended.is_none() {
            return Err(Refusal::DuplicateRunning);
        }
        if let Some(status) = ended {
            return Err(Refusal::DuplicateTerminated(status));
        }
        if self.mode.is_single() && origin == Origin::Client {
            return Err(Refusal::SingleJob(self.mode));
        }
        Ok(())
    }

    /// The graph is stored: the job is to be run. False: it was given up meanwhile.
    pub fn stored(&mut self, job: JobId) -> bool {
        match self.jobs.get_mut(&job) {
            Some(phase @ JobPhase::Persisting) => {
                *phase = JobPhase::Running;
                true
            }
            _ => false,
        }
    }

    /// The job did not come to run, or its runner gave it up for another leader: forget it.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// A running job has ended for good.
    pub fn ended(&mut self, job: JobId, status: JobStatus) -> Vec<EndStep> {
        match self.jobs.get_mut(&job) {
            Some(phase @ JobPhase::Running) => *phase = JobPhase::Cleaning,
            _ => return Vec::new(),
        }
        self.end_steps(status, true)
    }

    /// A stored job whose graph can't be read has failed. The graph stays for people to look at.
    pub fn unreadable(&mut self, job: JobId) -> Vec<EndStep> {
        self.jobs.insert(job, JobPhase::Cleaning);
        let mut steps = self.end_steps(JobStatus::Failed, true);
        steps.retain(|step| *step != EndStep::RemoveGraph);
        steps
    }

    fn end_steps(&self, status: JobStatus, first_time: bool) -> Vec<EndStep> {
        let mut steps = Vec::with_capacity(7);
        if first_time {
            steps.extend([EndStep::Archive, EndStep::RecordResult]);
        }
        steps.extend([
            EndStep::RemoveGraph,
            EndStep::DeleteBlobs,
            EndStep::ReleaseHost,
            EndStep::MarkClean,
        ]);
        if self.mode.is_single() {
            steps.push(EndStep::EndCluster(status));
        }
        steps
    }

    /// What an earlier Dispatcher left: stored graphs, and results whose traces were not put in order.
    /// `ended`: how a job ended, as the result store knows it.
    pub fn recover(
        &mut self,
        graphs: &[JobId],
        dirty: &[(JobId, JobStatus)],
        ended: impl Fn(JobId) -> Option<JobStatus>,
    ) -> Recovery {
        let mut recovery = Recovery { run: Vec::new(), clean: dirty.to_vec() };
        for job in graphs {
            match ended(*job) {
                None => {
                    self.jobs.insert(*job, JobPhase::Running);
                    recovery.run.push(*job);
                }
                Some(status) if !dirty.iter().any(|(id, _)| id == job) => {
                    recovery.clean.push((*job, status));
                }
                Some(_) => {}
            }
        }
        recovery
    }

    /// Puts the traces of an ended job in order again.
    pub fn clean_steps(&self, status: JobStatus) -> Vec<EndStep> {
        self.end_steps(status, false)
    }

    /// Takes nothing any more.
    pub fn close(&mut self) {
        self.closing = true;
    }
}
