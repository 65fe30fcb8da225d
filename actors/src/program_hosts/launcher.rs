//! What the keeper of program hosts needs from the deployment: a way to start one, and a way to a
//! program's file. Both are handed in; nothing here starts anything.

use futures::future::BoxFuture;
use gateways::job_services::HostAddress;
use gateways::program_host::BuildError;
use model::{BlobKey, BlobKind, JobId, ProgramRef};
use std::path::PathBuf;
use thiserror::Error;

/// Which side of a job a host serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSide {
    /// Builds the graph, runs coordinators.
    JobManager,
    /// Runs tasks.
    TaskManager,
}

/// A host that is to be started.
#[derive(Debug, Clone)]
pub struct HostRequest {
    /// For which job.
    pub job_id: JobId,
    /// The program's file, whole and checked; `None`: this process is the program.
    pub program: Option<PathBuf>,
    /// What it will do.
    pub side: HostSide,
}

/// How a host ended, for people: "exit code 101", "killed by SIGKILL".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitCause(pub String);

/// A host that is up: its gateway answers.
#[derive(derive_more::Debug)]
#[debug("LaunchedHost({:?})", self.address)]
pub struct LaunchedHost {
    /// Where it answers.
    pub address: HostAddress,
    /// Resolves when it is gone, whatever ended it.
    pub exited: BoxFuture<'static, ExitCause>,
    /// Ends it at once; `exited` follows. May be called again.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// Starts program hosts: child processes, or in this process. Dropping the future gives the launch up and
/// leaves no process behind.
pub trait ProgramHostLauncher: Send + Sync {
    /// Starts a host and waits until its gateway answers.
    fn launch(&self, request: HostRequest) -> BoxFuture<'static, Result<LaunchedHost, BuildError>>;
}

/// Why a program's file is not here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// The JobManager's own store does not have it, or something else in its place: no try again mends that.
    #[error("{0}")]
    Gone(String),
    /// It could not be fetched or kept this time.
    #[error("{0}")]
    Failed(String),
}

/// Where programs come from: the BlobServer's own store, or a TaskManager's blob cache.
pub trait Programs: Send + Sync {
    /// The file of a program, whole, checked and executable.
    fn fetch(&self, key: BlobKey) -> BoxFuture<'static, Result<PathBuf, ProgramError>>;
}

/// The blob that a program is kept under: it belongs to no job.
pub fn program_key(program: &ProgramRef) -> BlobKey {
    BlobKey { job: None, hash: program.hash, kind: BlobKind::Permanent, size: program.size }
}
