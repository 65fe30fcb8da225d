//! The Dispatcher of a JobManager accepts jobs, stores and runs them, answers questions about them, cancels them, and
//! records their results. `runner` stands for election and runs one Dispatcher while it leads; `leader` is that
//! Dispatcher.
//!
//! `control::dispatcher` decides which jobs are accepted and which steps follow an end. No handler waits for storage: a
//! write is a future whose outcome comes back as a message. Nothing here may know what a job does.

mod calls;
mod clients;
mod directory;
mod ended;
mod ending;
mod jobs;
mod leader;
mod needs;
mod programs;
mod questions;
mod recovery;
mod restoring;
mod runner;
mod savepoints;
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
use std::sync::Arc;
use storage::blobs::DurableBlobs;
use storage::ha::Lease;
use storage::objects::ObjectStore;

/// The endpoint name that a leading Dispatcher is served under in its process.
pub const ENDPOINT: &str = "dispatcher";

/// The jobs that the cluster runs: any that clients submit, or its own one only.
#[derive(Debug, Clone)]
pub enum ClusterMode {
    /// The cluster runs any number of jobs, submitted by clients.
    Session,
    /// The cluster runs one job: when the Dispatcher has recovered the jobs of an earlier leader and this one is not running among
    /// them, it builds this program's graph and runs it. If the job has ended already, the cluster ends with that state; if it is
    /// refused for another reason than that it runs already or the Dispatcher stops, as failed. The submission must have a job id, the
    /// same after each restart; without one the process ends with a fatal error.
    Application(Box<SubmitProgram>),
    /// The cluster runs one job, whose graph was built by the client. The Dispatcher submits it when it has recovered the jobs of an
    /// earlier leader and this one is not running among them. If the job has ended already, the cluster ends with that state; if it
    /// is refused for another reason than that it runs already or the Dispatcher stops, as failed.
    PerJob(Box<JobGraph>),
}

/// The outcome of the cluster, once it has nothing left to do: its own job has ended, or a client has shut it down. The leading Dispatcher
/// makes it; the process's entrypoint reads it and then ends the process. It is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEnd {
    /// The final status, for the external resource system and the exit code: that of `job`, or `Succeeded` if `job` is `None`.
    pub status: ApplicationStatus,
    /// The job that the cluster ran and its last state (application and per-job mode), `Failed` also if it was refused and
    /// never ran; `None` if a client has shut down a session, or a cluster whose job did not run yet or did not end within 30 s.
    pub job: Option<(JobId, JobStatus)>,
    /// Explanation as text for people: the job's failure, the reason why it was refused, or, if `job` is `None`, that a client has
    /// shut the cluster down; `None` if there is nothing to explain.
    pub diagnostics: Option<String>,
    /// True if no client needs the cluster any more: a client has shut it down, or the client that the job is bound to
    /// had gone before the job ended, so the process may end at once. False: it may go on answering questions about the job.
    pub dismissed: bool,
}

/// The dependencies of a process's Dispatchers; each leadership starts one with them: services, the election, stores of jobs and
/// programs, the keeper of program hosts, the BlobServer, the mode, and the cell for the cluster's end. The stores are those of
/// the cluster; with high availability they outlive the process.
#[derive(Clone, derive_more::Debug)]
#[debug("DispatcherDeps {{ mode: {:?}, .. }}", self.mode)]
pub struct DispatcherDeps {
    /// Services of the process: platform, RPC, options, heartbeats, leader retrieval, metrics and others.
    pub services: ProcessServices,
    /// Election service of this process, in which the Dispatcher stands for leadership.
    pub election: Arc<dyn LeaderElection>,
    /// Table to which the runners of the Dispatcher's jobs add their JobMasters, so that leader retrieval finds them.
    pub leaders: LeaderTable,
    /// Address and session of this process's keeper of program hosts, in which graphs are built and coordinators run;
    /// calls name the session.
    pub hosts: (EndpointAddress, ProcessSession),
    /// The BlobServer that the Dispatcher tells to delete a job's own blobs when the job has ended; `None`: they are
    /// not deleted.
    pub blobs: Option<Remote<BlobServerGateway>>,
    /// With high availability, the store in which the Dispatcher keeps programs for the next leader, before their jobs are stored: only in
    /// [`ClusterMode::Session`], because in the other modes each JobManager is started with the program. `None` without high availability.
    pub durable: Option<DurableBlobs>,
    /// The record of the blobs that jobs need, by which the BlobServer knows what to keep. The leading Dispatcher
    /// updates it.
    pub in_use: BlobsInUse,
    /// The store of the jobs' logs (graphs, checkpoints and results); with high availability, shared with the other
    /// JobManagers.
    pub objects: Arc<dyn ObjectStore>,
    /// The store of the details of ended jobs, which REST shows; with high availability, the same store as `objects`.
    pub details: Arc<dyn ObjectStore>,
    /// The directory (path or URI) for the checkpoints of jobs that name none, which all TaskManagers share and which holds only what this
    /// cluster writes; `None`: there is no such directory.
    pub checkpoint_directory: Option<String>,
    /// The process's lease (its permission to lead until a deadline), as the election extends it. Once the lease has ended, the
    /// Dispatcher begins no append to a job's log and deletes none.
    pub lease: Lease,
    /// Jobs that the cluster runs: any that clients submit (session), or one of its own.
    pub mode: ClusterMode,
    /// Set once by the Dispatcher, when the cluster has nothing left to do; the entrypoint waits for it and ends the
    /// process. Later only [`ClusterEnd::dismissed`] may become true.
    pub end: watch::Sender<Option<ClusterEnd>>,
    /// True if TaskManagers fetch programs from this process's BlobServer; false in an embedded cluster, whose only
    /// process is the program.
    pub ship_programs: bool,
    /// True if programs may use relative paths, as only in an embedded cluster.
    pub embedded: bool,
}

impl DispatcherDeps {
    fn hosts(&self) -> Remote<ProgramHostsGateway> {
        self.services.rpc.gateway(&self.hosts.0, self.hosts.1)
    }
}
