//! The interfaces by which the keeper of program hosts reaches the deployment: a way to start a
//! host, and a way to get a program's file. This module must never start anything itself.

use futures::future::BoxFuture;
use gateways::job_services::HostAddress;
use gateways::program_host::BuildError;
use model::{BlobKey, BlobKind, JobId, ProgramRef};
use std::path::PathBuf;
use thiserror::Error;

/// The side of a job that a program host (process or thread that runs the program's code) serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSide {
    /// The host builds the job's graph and runs the job's coordinators (split enumerators, collectors).
    JobManager,
    /// The host runs the job's tasks for a TaskManager.
    TaskManager,
}

/// The order to a [`ProgramHostLauncher`] to start one program host: for which job, from which executable, for which side of
/// the job. The keeper of program hosts makes one per launch, once the executable is there.
#[derive(Debug, Clone)]
pub struct HostRequest {
    /// Job that the host is for.
    pub job_id: JobId,
    /// Path of the program's executable, whole and checked; `None`: this process is the program, and the host runs
    /// inside it.
    pub program: Option<PathBuf>,
    /// Side of the job that the host serves: coordinators on the JobManager, or tasks on a TaskManager.
    pub side: HostSide,
}

/// The reason of a program host's end, as text for users, such as "ended with exit code 101"; with the reason that the host has left, or
/// for which the launcher ended it, where there is one. A host inside this process just "ended".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitCause(pub String);

/// A program host that a launcher has started and that answers calls: its address, its end to wait for, and a way to kill it. Dropping
/// this value does not end the host; `kill` does.
#[derive(derive_more::Debug)]
#[debug("LaunchedHost({:?})", self.address)]
pub struct LaunchedHost {
    /// Address and session of the host's endpoint, and the host's process id if it is a process of its own.
    pub address: HostAddress,
    /// Future that resolves when the host has ended, for whatever reason, with that reason; the folders of the launch are deleted by
    /// then. The keeper polls it all the time, because the sizes of the host's log files are bounded meanwhile.
    pub exited: BoxFuture<'static, ExitCause>,
    /// Function that ends the host and returns at once; `exited` resolves when the host is gone. A child process and its process group
    /// are killed by SIGKILL; a host inside this process cancels its tasks and ends within 15 s. May be called again, also after the end.
    pub kill: Box<dyn Fn() + Send + Sync>,
}

/// Starts program hosts (processes or threads that run a program's code) for the keeper of a process's hosts: as child
/// processes, or inside this process.
pub trait ProgramHostLauncher: Send + Sync {
    /// Starts a host and waits until it answers calls. Dropping the future gives the launch up and leaves no process
    /// behind; the keeper does so after `taskmanager.program-host.start-timeout`.
    ///
    /// # Errors
    /// Returns a [`BuildError`] that says why the host could not be started: [`BuildError::NoRoom`] if the machine has too few
    /// descriptors or processes or too little memory for it now, otherwise [`BuildError::Process`]: its folders cannot be made, the
    /// file is no Flott program, the process cannot be started or ends or does not answer in time, or this process is ending. No
    /// process is left.
    fn launch(&self, request: HostRequest) -> BoxFuture<'static, Result<LaunchedHost, BuildError>>;

    /// Notes that the host with this process id now only serves what its finished job has collected, and was just asked for it. The
    /// keeper calls it when the job has finished and at each later request for the results, for hosts that are child processes. When memory
    /// runs short the host that was not asked for longest is ended before all others, unless it was asked within the last 2 s. Does nothing
    /// by default, or if this launcher did not start the host.
    fn serves_collected(&self, _pid: u32) {}
}

/// The error of [`Programs::fetch`], which cannot provide a program's executable as a file: the file is gone for good, or was not to be had
/// this time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// The JobManager's BlobServer does not have the file, or has other content in its place; another try will not
    /// help, so a job that needs the file fails for good. The text says which file.
    #[error("{0}")]
    Gone(String),
    /// The file could not be fetched or stored this time (no BlobServer is known or reached, it refused, the disk failed, or the process
    /// ends); another try may succeed, so a job that needs the file may be restarted. The text says why.
    #[error("{0}")]
    Failed(String),
}

/// A source of programs' executables, from which the keeper of program hosts gets them: the BlobServer's own store, or
/// a TaskManager's blob cache.
pub trait Programs: Send + Sync {
    /// Returns the path of the executable in the blob `key`: complete, checked and executable. Fetches the file first
    /// if necessary. Called by the keeper of program hosts before each launch of a child process, without a time limit of its own; not for
    /// a host inside this process.
    ///
    /// # Errors
    /// Returns a [`ProgramError`], which says whether another try may help.
    fn fetch(&self, key: BlobKey) -> BoxFuture<'static, Result<PathBuf, ProgramError>>;
}

/// Returns the key of the blob in which a program's executable is kept: a permanent one that belongs to no job. Does
/// not check whether the blob exists.
pub fn program_key(program: &ProgramRef) -> BlobKey {
    BlobKey { job: None, hash: program.hash, kind: BlobKind::Permanent, size: program.size }
}
