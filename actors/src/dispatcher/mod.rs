//! The Dispatcher of a JobManager: jobs come in, are stored and run, asked about, cancelled, and put in
//! order when they have ended. `runner` stands for election and has one Dispatcher for as long as it
//! leads; `leader` is that Dispatcher.
//!
//! What is taken and what an end entails is decided in `control::dispatcher`. Nothing here may know what
//! a job does.

mod calls;
mod ending;
mod jobs;
mod leader;
mod programs;
mod questions;
mod recovery;
mod runner;
#[cfg(test)]
mod tests;

pub use leader::Dispatcher;
pub use runner::{DispatcherHandle, start};

use crate::blob_server::BlobsInUse;
use crate::leader_retrieval::LeaderTable;
use crate::services::{LeaderElection, ProcessServices};
use gateways::blob_server::BlobServerGateway;
use gateways::dispatcher::{JobSummary, SubmitProgram};
use gateways::job_services::ProgramHostsGateway;
use gateways::resource_manager::ApplicationStatus;
use gateways::{EndpointAddress, Remote};
use model::{FailureCause, JobGraph, JobId, JobStatus, ProcessSession};
use platform::watch;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use storage::jobs::{Archive, ArchiveBounds, JobGraphStore, JobResultStore};
use storage::objects::{ObjectStore, StoreError};

/// The name that the Dispatcher is served under.
pub const ENDPOINT: &str = "dispatcher";

/// What the cluster runs.
#[derive(Debug, Clone)]
pub enum ClusterMode {
    /// Any number of jobs, from clients.
    Session,
    /// The job of the program that this JobManager is (or is given); built here. Its id must be the same
    /// after a restart, so it is given.
    Application(Box<SubmitProgram>),
    /// A job whose graph the client made.
    PerJob(Box<JobGraph>),
}

/// Why the cluster has nothing left to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEnd {
    /// For the external resource system and the exit code.
    pub status: ApplicationStatus,
    /// The job that it ran (application and per-job mode).
    pub job: Option<(JobId, JobStatus)>,
    /// For people.
    pub diagnostics: Option<String>,
}

/// What a Dispatcher is made with. The stores are those of the cluster; with high availability they
/// outlive the process.
#[derive(Clone)]
pub struct DispatcherDeps {
    /// The process.
    pub services: ProcessServices,
    /// Where the Dispatcher stands for election.
    pub election: Arc<dyn LeaderElection>,
    /// Where the JobMasters of its jobs are made known.
    pub leaders: LeaderTable,
    /// The keeper of program hosts of this process, and its fence.
    pub hosts: (EndpointAddress, ProcessSession),
    /// Whose blobs go with their job.
    pub blobs: Option<Remote<BlobServerGateway>>,
    /// Told what blobs jobs need, while a Dispatcher of this process leads.
    pub in_use: BlobsInUse,
    /// Graphs that are to run.
    pub graphs: JobGraphStore,
    /// How jobs ended.
    pub results: JobResultStore,
    /// Ended jobs, for people.
    pub archive: JobArchive,
    /// What the cluster runs.
    pub mode: ClusterMode,
    /// Told once, when the cluster has nothing left to do.
    pub end: watch::Sender<Option<ClusterEnd>>,
    /// Whether TaskManagers fetch programs from here; false where every process is the program.
    pub ship_programs: bool,
    /// Whether programs may use relative paths (embedded mode).
    pub embedded: bool,
}

impl fmt::Debug for DispatcherDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherDeps").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl DispatcherDeps {
    fn hosts(&self) -> Remote<ProgramHostsGateway> {
        self.services.rpc.gateway(&self.hosts.0, self.hosts.1)
    }
}

/// An ended job in short.
#[derive(Debug, Clone)]
pub(crate) struct Archived {
    pub(crate) summary: JobSummary,
    pub(crate) cause: Option<FailureCause>,
}

/// The ended jobs of a process; shared by the Dispatchers of its leaderships. A cheap handle.
#[derive(Debug, Clone)]
pub struct JobArchive(Arc<Mutex<Archive<Archived>>>);

impl JobArchive {
    /// In objects that are this process's alone; bounds from `jobstore.*`.
    ///
    /// # Errors
    /// As the store's.
    pub fn open(
        objects: Arc<dyn ObjectStore>,
        options: &conf::Options,
    ) -> Result<Self, StoreError> {
        let age: Duration = options.get(&conf::jobmanager::STORE_EXPIRATION);
        let bounds = ArchiveBounds {
            jobs: options.get(&conf::jobmanager::STORE_CAPACITY) as usize,
            bytes: ARCHIVE_BYTES_MAX,
            age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
        };
        Ok(Self(Arc::new(Mutex::new(Archive::new(objects, bounds)?))))
    }

    fn lock(&self) -> MutexGuard<'_, Archive<Archived>> {
        // Every change is whole when the lock is let go, also by a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most bytes of ended jobs.
const ARCHIVE_BYTES_MAX: u64 = 64 << 20;
