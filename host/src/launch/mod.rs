//! Starting program hosts as child processes: the socket to the parent is the child's standard input, output goes
//! to files, the environment is cleared, and nothing secret is in it or in the arguments. It must never decide
//! when a host is needed or what its end means.
//!
//! Children are started from one thread that lives as long as the process: the kernel ends a child that asked for
//! it (`PR_SET_PDEATHSIG`) when the *thread* that started it ends.

mod exit;
mod spawn;

pub use exit::{ExitCause, Kill};
pub use spawn::{Launched, start};

use crate::child::{
    JOB_VARIABLE, PARENT_VARIABLE, ROLE, ROLE_VARIABLE, SESSION_VARIABLE, TMP_VARIABLE,
};
use futures::{FutureExt, future::BoxFuture};
use gateways::{
    EndpointAddress, NodeAddress, Principal, RpcService,
    job_services::HostAddress,
    program_host::{ParentAlive, ProgramHostGateway},
};
use model::{JobId, ProcessSession};
use platform::{BoxStream, Lane};
use std::{
    collections::BTreeMap,
    fmt, io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use thiserror::Error;

/// The name a host is served under on its side of the socket.
pub const ENDPOINT: &str = "program_host";

/// How a child is started.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// The program: an executable of this system.
    pub program: PathBuf,
    /// The only job whose gateways it may call.
    pub job_id: JobId,
    /// Its fence: drawn by the parent.
    pub session: ProcessSession,
    /// This process, as the child calls it.
    pub parent: NodeAddress,
    /// Its working directory: exists, empty.
    pub work_dir: PathBuf,
    /// For temporary files: exists.
    pub tmp_dir: PathBuf,
    /// The whole environment beside what the host itself needs.
    pub env: BTreeMap<String, String>,
    /// Its standard output is appended here.
    pub stdout: PathBuf,
    /// Its standard error is appended here.
    pub stderr: PathBuf,
    /// The mode of these two files where they are new.
    pub output_mode: u32,
}

/// Why there is no child.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The file is no program of ours, or not for this system.
    #[error(transparent)]
    NotAProgram(#[from] streaming::program_note::NotAProgram),
    /// The system refused something.
    #[error("{what} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// The process ended before it answered.
    #[error("the program {exit} before it answered{}", said(log_tail))]
    Ended {
        /// How.
        exit: ExitCause,
        /// The end of its standard error.
        log_tail: String,
    },
    /// The process lives but does not answer.
    #[error("the program did not answer within {} ms: {why}{}", within.as_millis(), said(log_tail))]
    Silent {
        /// How long it was waited for.
        within: Duration,
        /// What the call said.
        why: String,
        /// The end of its standard error.
        log_tail: String,
    },
}

impl LaunchError {
    /// Returns true if the system has no room for another process now: too few descriptors or processes, or too little
    /// memory. The same launch may succeed later.
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

/// Returns true if the system refused something for lack of descriptors, processes or memory.
pub fn is_no_room(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN | Errno::ENOMEM))
}

fn said(log_tail: &str) -> String {
    if log_tail.is_empty() { String::new() } else { format!("; it said:\n{log_tail}") }
}

/// A child that answers.
pub struct LaunchedHost {
    /// Where.
    pub address: HostAddress,
    /// Ends when the process has.
    pub exited: BoxFuture<'static, ExitCause>,
    /// Ends the process and what it has started, at once.
    pub kill: Kill,
}

impl fmt::Debug for LaunchedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaunchedHost({}, pid {:?})", self.address.address, self.address.pid)
    }
}

impl LaunchSpec {
    /// What the child finds in its environment.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        env.extend([
            (ROLE_VARIABLE.to_owned(), ROLE.to_owned()),
            (SESSION_VARIABLE.to_owned(), crate::child::session_text(self.session)),
            (PARENT_VARIABLE.to_owned(), self.parent.as_str().to_owned()),
            (JOB_VARIABLE.to_owned(), self.job_id.to_string()),
            (TMP_VARIABLE.to_owned(), self.tmp_dir.display().to_string()),
        ]);
        env
    }
}

/// Starts a child, adopts its socket and waits at most `within` until it answers.
///
/// # Errors
/// Why there is none; nothing of it is left then.
pub async fn host(
    rpc: &RpcService,
    spec: LaunchSpec,
    within: Duration,
) -> Result<LaunchedHost, LaunchError> {
    static CHILDREN: AtomicU64 = AtomicU64::new(0);
    let (job, session, stderr) = (spec.job_id, spec.session, spec.stderr.clone());
    let Launched { stream, pid, exited, kill } = start(spec).await?;
    let number = CHILDREN.fetch_add(1, Ordering::Relaxed);
    let node = NodeAddress::new(format!("host:{pid}-{number}"));
    let address = EndpointAddress::new(node.clone(), ENDPOINT);
    let adopting = rpc.clone();
    // The socket belongs to the lane where connections run.
    let adopted = rpc
        .platform()
        .lane(Lane::Io)
        .run(move || async move {
            stream.set_nonblocking(true)?;
            let stream = BoxStream::from(tokio::net::UnixStream::from_std(stream)?);
            Ok::<_, io::Error>(adopting.adopt(node, stream, Principal::Host { job }))
        })
        .await;
    let failed = |what: &'static str, source: io::Error| LaunchError::Io {
        what,
        path: stderr.clone(),
        source,
    };
    let peer = match adopted {
        Ok(Ok(peer)) => peer,
        Ok(Err(error)) => {
            kill.kill();
            return Err(failed("the socket of the host with log", error));
        }
        Err(_) => {
            kill.kill();
            return Err(failed("no lane for the host with log", io::Error::other("ending")));
        }
    };
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
        // A child that ends while it is asked looks like a lost connection first.
        if let Ok(exit) = tokio::time::timeout(Duration::from_millis(200), exited.clone()).await {
            return Err(LaunchError::Ended { exit, log_tail: exit::log_tail(&stderr) });
        }
        kill.kill();
        let (why, log_tail) = (error.to_string(), exit::log_tail(&stderr));
        return Err(LaunchError::Silent { within, why, log_tail });
    }
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
