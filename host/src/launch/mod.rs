//! Starts program hosts as child processes: the child's standard input is the socket to the parent, its output goes to
//! files, its environment is cleared, and neither environment nor arguments contain a secret. This module must never
//! decide when a host is needed or what its end means.
//!
//! Children are started from one thread that lives as long as the process, because the kernel signals a child that has
//! requested it (`PR_SET_PDEATHSIG`) when the *thread* that started the child ends.

mod exit;
mod spawn;

pub(crate) use exit::last_words_file;
pub use exit::{ExitCause, Kill, KillOnDrop, last_words, overflowed_stack};
pub use spawn::{Launched, start};

use crate::child::{
    JOB_VARIABLE, PARENT_VARIABLE, ROLE, ROLE_VARIABLE, SESSION_VARIABLE, TMP_VARIABLE,
    TRACE_VARIABLE,
};
use futures::{FutureExt, future::BoxFuture};
use gateways::{
    CallError, EndpointAddress, FabricError, NodeAddress, Principal, RpcService, TraceContext,
    job_services::HostAddress,
    program_host::{ParentAlive, ProgramHostGateway},
};
use model::{JobId, ProcessSession};
use platform::{BoxStream, Lane};
use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use streaming::memory::huge_pages;
use thiserror::Error;

/// The name of the RPC endpoint at which a child process serves its program host, for calls over the socket to the child.
pub const ENDPOINT: &str = "program_host";

/// Maximum time from the loss of a child's connection to the child's end; a core dump is written in it.
const EXIT_WITHIN: Duration = Duration::from_secs(5);

/// The settings for starting a program host (a program that runs the tasks and coordinators of one job) as a child process, by
/// [`host()`] or [`start()`].
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// The program's file: a Flott program for this system. A relative path resolves against this process's working directory.
    pub program: PathBuf,
    /// The only job whose gateways the child may call on this process.
    pub job_id: JobId,
    /// The session that every call to the child must name, drawn by this process for this child; the child refuses calls with another one.
    pub session: ProcessSession,
    /// The address under which the child calls this process over the socket.
    pub parent: NodeAddress,
    /// The trace of the request for which the child is started, in which the child logs from its first line on; none without a request.
    pub trace: TraceContext,
    /// The child's working directory, which must exist (else the start fails) and should be empty. Nobody here deletes it.
    pub work_dir: PathBuf,
    /// An existing directory for temporary files. A child that kills itself leaves the reason beside it ([`last_words`]).
    pub tmp_dir: PathBuf,
    /// The child's whole environment, except for the variables of the host itself (`FLOTT_ROLE`, `FLOTT_HOST_…`), which are added.
    pub env: BTreeMap<String, String>,
    /// The file to which the child's standard output is appended; created if it does not exist.
    pub stdout: PathBuf,
    /// The file to which the child's standard error, its log included, is appended; created if it does not exist.
    pub stderr: PathBuf,
    /// The permission bits, e.g. `0o640`, less this process's umask, with which these two files are created.
    pub output_mode: u32,
}

/// The error of [`start()`] ([`LaunchError::NotAProgram`] and [`LaunchError::Io`] only) and of [`host()`]: a child was not started, or was
/// and gave no answer. No process is left in any case; the log files may have been created.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The file can't be read, is not a Flott program, or not one for this system. Nothing of it was executed.
    #[error(transparent)]
    NotAProgram(#[from] streaming::program_note::NotAProgram),
    /// The operating system refused a step of the start (a log file, the sockets, the process or a thread), or this (the parent) process
    /// is ending.
    #[error("{what} {path}: {source}", path = path.display())]
    Io {
        /// The step that was tried, e.g. "can't start", as the beginning of a sentence that `path` ends.
        what: &'static str,
        /// The file or directory that the step concerns.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The process ended before it answered the first call.
    #[error("the program {exit} before it answered{}", said(log_tail))]
    Ended {
        /// The way in which the process ended.
        exit: ExitCause,
        /// The end of the process's standard error, at most 2 KiB.
        log_tail: String,
    },
    /// The first call got no answer in time or failed (by a lost connection only if the process did not end within 5 s of it). The process
    /// was killed.
    #[error("the program did not answer within {} ms: {why}{}", within.as_millis(), said(log_tail))]
    Silent {
        /// The maximum time for the answer; the call may have failed earlier.
        within: Duration,
        /// The text of the error of the first call.
        why: String,
        /// The end of the process's standard error, at most 2 KiB.
        log_tail: String,
    },
}

impl LaunchError {
    /// Returns true if the system had no descriptor, process or memory left for the child, so that the same launch may succeed later: an
    /// I/O error for which [`is_no_room`] is true. Always false for `Ended` and `Silent`.
    pub fn is_no_room(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_no_room(source),
            Self::NotAProgram(streaming::program_note::NotAProgram::Io { why, .. }) => {
                is_no_room(why)
            }
            _ => false,
        }
    }
}

/// Returns true if an I/O error says that descriptors, processes or memory are exhausted (EMFILE, ENFILE, EAGAIN,
/// ENOMEM).
pub fn is_no_room(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN | Errno::ENOMEM))
}

fn said(log_tail: &str) -> String {
    if log_tail.is_empty() { String::new() } else { format!("; it said:\n{log_tail}") }
}

/// A program host in a running child process, which has answered its first call and can be called at its address; [`host()`] makes it.
/// Dropping the value does not end the child; it ends with this process or the connection to it (`RpcService::shutdown` ends that too), by
/// its `EndHost` call, or by `kill`.
#[derive(derive_more::Debug)]
#[debug("LaunchedHost({}, pid {:?})", self.address.address, self.address.pid)]
pub struct LaunchedHost {
    /// The host's address, session and process id.
    pub address: HostAddress,
    /// Completes when the process has ended and was reaped, with how it ended.
    pub exited: BoxFuture<'static, ExitCause>,
    /// A handle by which the caller kills the process and its process group.
    pub kill: Kill,
}

impl LaunchSpec {
    /// Returns the complete environment of the child.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        env.extend([
            (ROLE_VARIABLE.to_owned(), ROLE.to_owned()),
            (SESSION_VARIABLE.to_owned(), crate::child::session_text(self.session)),
            (PARENT_VARIABLE.to_owned(), self.parent.as_str().to_owned()),
            (JOB_VARIABLE.to_owned(), self.job_id.to_string()),
            (TMP_VARIABLE.to_owned(), self.tmp_dir.display().to_string()),
            (TRACE_VARIABLE.to_owned(), self.trace.traceparent()),
        ]);
        if huge_pages::are_off_for_now() {
            env.insert(huge_pages::INHERITED_VARIABLE.to_owned(), "1".to_owned());
        }
        env
    }
}

/// Starts a child, adopts its socket as a connection of `rpc`, and waits at most `within` for the child to answer a first call
/// ([`ParentAlive`]); if the connection is lost meanwhile, then up to 5 s more for the child's end, to report how it ended. From the
/// adoption on the child may call the gateways of its job, and no others, over the socket. No job code runs yet.
///
/// # Errors
/// Returns [`LaunchError::NotAProgram`] or [`LaunchError::Io`] if the child was not started or its socket not adopted,
/// [`LaunchError::Ended`] if it ended before it answered, [`LaunchError::Silent`] if it did not answer in time or the call failed
/// otherwise. The child is killed in each case, and if the caller drops the future.
pub async fn host(
    rpc: &RpcService,
    spec: LaunchSpec,
    within: Duration,
) -> Result<LaunchedHost, LaunchError> {
    static CHILDREN: AtomicU64 = AtomicU64::new(0);
    let (job, session, stderr) = (spec.job_id, spec.session, spec.stderr.clone());
    let Launched { stream, pid, exited, kill } = start(spec).await?;
    let guard = kill.on_drop();
    let number = CHILDREN.fetch_add(1, Ordering::Relaxed);
    let node = NodeAddress::new(format!("host:{pid}-{number}"));
    let address = EndpointAddress::new(node.clone(), ENDPOINT);
    let adopting = rpc.clone();
    // The socket is registered on the lane on which connections run.
    let adopted = rpc
        .platform()
        .lane(Lane::Io)
        .run(move || async move {
            stream.set_nonblocking(true)?;
            let stream = BoxStream::from(tokio::net::UnixStream::from_std(stream)?);
            Ok::<_, io::Error>(adopting.adopt(node, stream, Principal::Host { job }))
        })
        .await;
    let adopted = adopted.unwrap_or_else(|_| Err(io::Error::other("the process is ending")));
    let peer = adopted.map_err(|source| {
        let what = "cannot adopt the socket of the program host with the log";
        LaunchError::Io { what, path: stderr.clone(), source }
    })?;
    let exited = exited.shared();
    let gateway = rpc.gateway::<ProgramHostGateway>(&address, session);
    let answered = tokio::select! {
        biased;
        exit = exited.clone() => {
            return Err(LaunchError::Ended { exit, log_tail: exit::log_tail(&stderr) });
        }
        answered = gateway.ask_within(ParentAlive {}, within) => answered,
    };
    if let Err(error) = answered {
        // When a child ends during the call, the lost connection may be noticed before the exit. A child that did not
        // answer in time is not waited for.
        let lost = matches!(error, CallError::Fabric(FabricError::Unreachable { .. }));
        let patience = if lost { EXIT_WITHIN } else { Duration::ZERO };
        if let Ok(exit) = tokio::time::timeout(patience, exited.clone()).await {
            return Err(LaunchError::Ended { exit, log_tail: exit::log_tail(&stderr) });
        }
        let (why, log_tail) = (error.to_string(), exit::log_tail(&stderr));
        return Err(LaunchError::Silent { within, why, log_tail });
    }
    guard.keep();
    let exited = async move {
        let exit = exited.await;
        drop(peer);
        exit
    };
    Ok(LaunchedHost {
        address: HostAddress { address, session, pid: Some(pid) },
        exited: exited.boxed(),
        kill,
    })
}
