//! The Dispatcher's table of jobs: which submissions are accepted, which jobs recovery runs, and which steps follow
//! when a job has ended.
//!
//! Everything that must survive is stored by a command whose completion comes back as an event: a job is
//! [`JobPhase::Persisting`] until [`JobTable::stored`], and [`JobPhase::Ending`] until its last end step is done. A
//! slow store delays only the job that waits for it. The table must never store or start anything itself.

mod clients;
mod ended;
mod operations;
mod recovery;
#[cfg(test)]
mod tests;

pub use clients::AttachedClients;
pub use ended::{EndedJob, EndedJobs, Retention};
pub use operations::{OperationKey, Operations};
pub use recovery::{Found, Recovered};

use crate::job_graph;
use crate::registration::backoff;
use model::{JobGraph, JobId, JobStatus};
use recovery::Recovery;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thiserror::Error;

/// The first and the longest pause between attempts to record a job's result.
const RECORD_RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The number of jobs that a cluster runs, and whether it ends with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The cluster runs any number of jobs and outlives them.
    Session,
    /// The cluster was started with a program, builds the program's one job itself, and ends with it.
    Application,
    /// The cluster was started with the graph of one job, runs it, and ends with it.
    PerJob,
}

impl Mode {
    /// Returns true if the cluster runs only one job ([`Mode::Application`] and [`Mode::PerJob`]).
    pub fn is_single(self) -> bool {
        self != Self::Session
    }
    /// Returns the mode's name, `session`, `application` or `per-job`, for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Application => "application",
            Self::PerJob => "per-job",
        }
    }
}

/// The origin of a submission, which decides whether a cluster that runs one job only accepts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client submits the job; refused if the cluster runs one job only.
    Client,
    /// The cluster submits the job that it was started for.
    Own,
}

/// The reason why [`JobTable::reserve`] or [`JobTable::admit`] refuses a submission; `Graph` and `PartialResources`, which need the graph,
/// come from `admit` alone. Nothing of the job was stored, and the table has not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A job with this id is being recovered, built or stored, or it is running or ending.
    #[error("it is running already")]
    DuplicateRunning,
    /// A job with this id has ended in this state, now or under an earlier Dispatcher, and is still remembered ([`EndedJobs`]).
    #[error("it has already ended as {0}")]
    DuplicateTerminated(JobStatus),
    /// Some vertices have resource specs and the listed ones have none.
    #[error("some vertices have resource specs, these do not: {}", .0.join(", "))]
    PartialResources(Vec<String>),
    /// The job graph is invalid: [`job_graph::check`] has found this fault.
    #[error(transparent)]
    Graph(#[from] job_graph::GraphError),
    /// The cluster runs only the job that it was started for, in this mode.
    #[error("the cluster runs one job only ({})", .0.as_str())]
    SingleJob(Mode),
    /// The Dispatcher shuts down and accepts no jobs.
    #[error("the Dispatcher is shutting down")]
    Closing,
}

/// The phase of a job that has not ended, or whose end steps are not all done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPhase {
    /// An earlier Dispatcher left the job, and its log is being read.
    Recovering,
    /// The job's graph is being built by its program host; the id is reserved meanwhile.
    Building,
    /// The graph is being stored. The job runs once [`JobTable::stored`] is called.
    Persisting,
    /// The job has, or is about to get, a runner (the component that starts and watches its JobMaster); or recovery found that it can
    /// never run again, and it is being failed.
    Running,
    /// The job has ended, and its end steps are being done; after the last one it has no phase.
    Ending,
}

/// A step that follows when a job has ended; the caller does them one by one, in this order, and reports each to
/// [`JobTable::step_done`], which returns the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStep {
    /// Store the job's details, then call [`JobTable::step_done`] even if storing failed.
    StoreDetails,
    /// Record the job's result, then call [`JobTable::step_done`], [`JobTable::record_failed`] (and try again after its pause),
    /// or [`JobTable::forget`] if another leader owns the job. Once the result is recorded, every later Dispatcher knows that
    /// the job has ended.
    RecordResult,
    /// Ask for the deletion of the job's blobs (files that were stored for it), then call [`JobTable::step_done`] without waiting.
    DeleteBlobs,
    /// Have the job's program host ended, at once, or later if a client may still collect results from it; then call
    /// [`JobTable::step_done`] without waiting for its end.
    ReleaseHost,
    /// End the cluster, because its only job has ended in this state; the last step, only if the cluster runs one job.
    EndCluster(JobStatus),
}

#[derive(Debug, Clone)]
struct Entry {
    phase: JobPhase,
    /// The remaining steps of an ended job; the first one is being done.
    steps: VecDeque<EndStep>,
    /// Number of failed attempts to record the result.
    failures: u32,
}

impl Entry {
    fn new(phase: JobPhase) -> Self {
        Self { phase, steps: VecDeque::new(), failures: 0 }
    }
}

/// The jobs of one Dispatcher, in memory: those that it recovers, builds, stores, runs or ends, and the ended ones that it remembers. A new
/// job goes through [`JobTable::reserve`] (if its graph has to be built), [`JobTable::admit`], [`JobTable::stored`], [`JobTable::ended`]
/// and [`JobTable::step_done`]; one of an earlier leader through [`JobTable::listed`] and [`JobTable::recovered`]. Submissions are accepted
/// during recovery, too. Decides only; the caller stores and starts the jobs.
#[derive(Debug, Clone)]
pub struct JobTable {
    mode: Mode,
    jobs: BTreeMap<JobId, Entry>,
    ended: EndedJobs,
    recovery: Recovery,
    closing: bool,
}

impl JobTable {
    /// Returns an empty table that waits for recovery; recovery begins with [`JobTable::listed`].
    pub fn new(mode: Mode, retention: Retention) -> Self {
        Self {
            mode,
            jobs: BTreeMap::new(),
            ended: EndedJobs::new(retention),
            recovery: Recovery::Listing,
            closing: false,
        }
    }

    /// Returns whether the cluster runs one job or many, and whether it ends with its job.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the phase of a job; `None` if the job is unknown or all its end steps are done.
    pub fn phase(&self, job: JobId) -> Option<JobPhase> {
        self.jobs.get(&job).map(|entry| entry.phase)
    }

    /// Iterates over the jobs that have a phase, in ascending order of their ids; remembered ended jobs are not among them.
    pub fn jobs(&self) -> impl Iterator<Item = (JobId, JobPhase)> {
        self.jobs.iter().map(|(id, entry)| (*id, entry.phase))
    }

    /// Returns the ended jobs that the table remembers.
    pub fn ended_jobs(&self) -> &EndedJobs {
        &self.ended
    }

    /// Returns the ended jobs that the table remembers, mutably, so that the caller can forget some of them.
    pub fn ended_jobs_mut(&mut self) -> &mut EndedJobs {
        &mut self.ended
    }

    /// Reserves the id of a job whose graph has to be built first: the job becomes [`JobPhase::Building`]. The caller then
    /// calls [`JobTable::admit`] with the graph, or [`JobTable::forget`] if building fails.
    ///
    /// # Errors
    ///
    /// Returns [`Refusal::Closing`], [`Refusal::DuplicateTerminated`], [`Refusal::DuplicateRunning`] or [`Refusal::SingleJob`]; nothing
    /// changes then.
    pub fn reserve(&mut self, job: JobId, origin: Origin) -> Result<(), Refusal> {
        self.check_id(job, origin)?;
        self.jobs.insert(job, Entry::new(JobPhase::Building));
        Ok(())
    }

    /// Accepts a job graph after all checks (of its id, which may have been reserved, and of the graph): the job becomes
    /// [`JobPhase::Persisting`]. The caller stores the graph, then calls [`JobTable::stored`], or [`JobTable::forget`] if
    /// storing fails.
    ///
    /// # Errors
    ///
    /// Returns the reason why the job is refused: one of those of [`JobTable::reserve`] (only `Closing` if the id is reserved),
    /// [`Refusal::Graph`] or [`Refusal::PartialResources`]. A reserved id stays reserved then.
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

    /// Records that the graph of a job is stored, which makes it [`JobPhase::Running`]. Returns true if the caller has to start
    /// the job; false, without a change, if the job is not (or no longer) [`JobPhase::Persisting`].
    pub fn stored(&mut self, job: JobId) -> bool {
        match self.jobs.get_mut(&job) {
            Some(entry) if entry.phase == JobPhase::Persisting => {
                entry.phase = JobPhase::Running;
                true
            }
            _ => false,
        }
    }

    /// Removes a job that never started to run, or that another leader owns (the caller's duty: the phase is not checked); its id may be
    /// submitted again. Its end steps are not done. Does nothing if the job is unknown; ended jobs are not forgotten by it.
    pub fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// Records that a running job has reached the terminal state `status`: the job becomes [`JobPhase::Ending`]. Returns the
    /// first end step, which the caller does; `None`, without a change, if the job was not running.
    pub fn ended(&mut self, job: JobId, status: JobStatus) -> Option<EndStep> {
        let steps = self.end_steps(status);
        let entry = self.jobs.get_mut(&job).filter(|entry| entry.phase == JobPhase::Running)?;
        entry.phase = JobPhase::Ending;
        entry.steps = steps.into();
        entry.steps.front().copied()
    }

    /// Records that the current end step is done, and returns the next one; `None` if that was the last, or the job is not
    /// ending. When the step [`EndStep::RecordResult`] is done, the job is remembered as `ended`; after the last step it has no
    /// phase.
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

    /// Records that a job's result could not be stored. Returns the pause before the next attempt (1 s, doubling up to 30 s);
    /// `None` if the job is not ending. The attempts never end: without a recorded result the next Dispatcher would run the job
    /// again.
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

    /// Refuses all further submissions ([`Refusal::Closing`]), also graphs for ids that are reserved; jobs that are known go on.
    pub fn close(&mut self) {
        self.closing = true;
    }
}
