//! The interfaces by which the keeper of program hosts reaches the deployment: a way to start a
//! host, and a way to get a program's file. This module must never start anything itself.

use futures::future::BoxFuture;
use gateways::job_services::HostAddress;
use gateways::program_host::BuildError;
use model::{BlobKey, BlobKind, JobId, ProgramRef};
use std::path::PathBuf;
use thiserror::Error;

/// The side of a job that a program host serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSide {
    /// The host builds the graph and runs coordinators.
    JobManager,
    /// The host runs the job's tasks on a TaskManager.
    TaskManager,
}

/// A program host that is to be started.
#[derive(Debug, Clone)]
pub struct HostRequest {
    /// Job that the host is for.
    pub job_id: JobId,
    /// The program's file, whole and checked; `None`: this process is the program, and the host runs inside it.
    pub program: Option<PathBuf>,
    /// Side of the job that the host serves: coordinators on the JobManager, or tasks on a TaskManager.
    pub side: HostSide,
}

/// The reason of a host's end, as text for users: "exit code 101", "killed by SIGKILL".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitCause(pub String);

/// A program host that is up: its gateway answers.
#[derive(derive_more::Debug)]
#[debug("LaunchedHost({:?})", self.address)]
pub struct LaunchedHost {
    /// Address of the host's endpoint.
    pub address: HostAddress,
    /// Future that resolves when the host has ended, for whatever reason; it may be polled only by one owner.
    pub exited: BoxFuture<'static, ExitCause>,
    /// Function that kills the host and returns at once; `exited` resolves when the host is gone. May be called again, also
    /// after the end.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// Starts program hosts: child processes, or hosts inside this process. Dropping the future of a launch gives the launch up
/// and leaves no process behind.
pub trait ProgramHostLauncher: Send + Sync {
    /// Starts a host and waits until its gateway answers.
    ///
    /// # Errors
    /// A [`BuildError`] that says why it could not be started: [`BuildError::NoRoom`] if the same may succeed later.
    fn launch(&self, request: HostRequest) -> BoxFuture<'static, Result<LaunchedHost, BuildError>>;
}

/// The reason why a program's file is not available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// The JobManager's own store does not have the file, or has something else in its place;
    /// another try is of no use.
    #[error("{0}")]
    Gone(String),
    /// The file could not be fetched or stored this time; another try may succeed.
    #[error("{0}")]
    Failed(String),
}

/// A source of programs: the BlobServer's own store, or a TaskManager's blob cache.
pub trait Programs: Send + Sync {
    /// Returns the path of a program's file: complete, checked and executable. Fetches the file first if necessary.
    ///
    /// # Errors
    /// A [`ProgramError`], which says whether another try may help.
    fn fetch(&self, key: BlobKey) -> BoxFuture<'static, Result<PathBuf, ProgramError>>;
}

/// Returns the key of the blob in which a program is kept: a permanent one that belongs to no job. Whether the blob exists
/// is not checked.
pub fn program_key(program: &ProgramRef) -> BlobKey {
    BlobKey { job: None, hash: program.hash, kind: BlobKind::Permanent, size: program.size }
}
