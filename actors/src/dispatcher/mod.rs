//! The Dispatcher of a JobManager takes jobs in, stores and runs them, answers questions about them, cancels
//! them, and records how they ended. `runner` stands for election and has one Dispatcher for as long as it
//! leads; `leader` is that Dispatcher.
//!
//! What is taken and what an end entails is decided in `control::dispatcher`. No handler waits for storage:
//! a write is a future whose outcome comes back as a message. Nothing here may know what a job does.

mod calls;
mod clients;
mod ended;
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
use gateways::dispatcher::SubmitProgram;
use gateways::job_services::ProgramHostsGateway;
use gateways::resource_manager::ApplicationStatus;
use gateways::{EndpointAddress, Remote};
use model::{JobGraph, JobId, JobStatus, ProcessSession};
use platform::watch;
use std::fmt;
use std::sync::Arc;
use storage::ha::Lease;
use storage::objects::ObjectStore;

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
    /// Whether a client has said that it needs the cluster no longer: it has fetched what it wanted.
    pub dismissed: bool,
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
    /// The logs of jobs; with high availability, shared with the other JobManagers.
    pub objects: Arc<dyn ObjectStore>,
    /// The details of ended jobs; with high availability the same store.
    pub details: Arc<dyn ObjectStore>,
    /// The leader's lease: nothing is written after its end.
    pub lease: Lease,
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
