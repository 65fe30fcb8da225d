//! A host in a process of its own: takes over the socket to its parent, serves the gateway on it, and ends with its
//! parent. The process must never outlive its use for the parent: it ends when the socket closes, when the parent is
//! silent for too long, or when the parent calls `EndHost`.

mod parent;

use crate::{
    actor::{ProgramHost, Side},
    in_process,
    launch::ENDPOINT,
    program::Place,
};
use futures::channel::oneshot;
use gateways::{NodeAddress, Principal, RpcOptions, RpcService, TraceContext};
use model::{Epoch, LeaderSession, ProcessSession};
use nix::{
    sys::resource::{Resource, setrlimit},
    sys::signal::{Signal, kill, killpg},
    unistd::{Pid, getpgrp, getpid},
};
use parent::ParentWatch;
use platform::{BoxStream, Lane, Platform};
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::FileTypeExt, unix::net::UnixStream},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use streaming::ProgramEntry;
use thiserror::Error;

/// The environment variable that names the role in which a program is started, read by `flott::run`: [`ROLE`], or `cluster` for a
/// JobManager or TaskManager that is the program. It is not set for a program that a user starts, which runs its job in an embedded
/// cluster; another value has the same effect.
pub const ROLE_VARIABLE: &str = "FLOTT_ROLE";
/// The value of [`ROLE_VARIABLE`] for a program host: a program that a TaskManager or JobManager starts as a child, and that calls [`run`].
pub const ROLE: &str = "program-host";
pub(crate) const SESSION_VARIABLE: &str = "FLOTT_HOST_SESSION";
pub(crate) const PARENT_VARIABLE: &str = "FLOTT_HOST_PARENT";
pub(crate) const JOB_VARIABLE: &str = "FLOTT_HOST_JOB";
pub(crate) const TMP_VARIABLE: &str = "FLOTT_HOST_TMP";
/// Names the trace in which the host was launched, as an HTTP header `traceparent` does; all zeros if in none.
pub(crate) const TRACE_VARIABLE: &str = "FLOTT_HOST_TRACE";

/// The exit code of a host that could not start, or whose actor panicked, as [`run`] returns it. A panic in user code is a failure of its
/// task, and not an end of the host.
pub const FAILED: u8 = 1;

/// Reasons why a child process fails as a host.
#[derive(Debug, Error)]
enum ChildError {
    #[error(
        "{0} is not set or malformed: a program host is started by a TaskManager or JobManager"
    )]
    Variable(&'static str),
    #[error("cannot use the socket to the parent: {0}")]
    Socket(io::Error),
    #[error("cannot start the RPC service: {0}")]
    Rpc(String),
    #[error("the process is ending")]
    Ending,
    #[error("the program host's actor has panicked")]
    Died,
}

/// The time that calls under way have to complete after the host's actor has ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// Enters the trace of the request for which this process was launched (`FLOTT_HOST_TRACE`), for all work of the process that has none of
/// its own, so that the log's first line is in it; does nothing if the launcher has named none, or the text is malformed.
pub fn enter_trace() {
    let named = std::env::var(TRACE_VARIABLE).ok();
    let named = named.as_deref().and_then(TraceContext::from_traceparent);
    named.unwrap_or_default().enter_process();
}

/// Runs a program as a host until its parent ends it, and returns the exit code for `main`. Blocks the calling thread. The launcher's
/// `FLOTT_HOST_…` variables and a socket as standard input must be there; standard input becomes `/dev/null`, and core files and `ptrace`
/// are switched off.
///
/// Returns 0 after the parent's `EndHost`, and [`FAILED`] (1), with the reason on standard error and in the log, if a variable is missing
/// or malformed, or the socket or a thread is missing, at the start, or if the host's actor panics later.
///
/// Does not return if the parent has died or has closed the socket, if a TaskManager as the parent is silent for longer than 0.6 of its
/// heartbeat time-out, or if a task does not stop or give memory back: the process and its process group are killed by SIGKILL then.
pub fn run(program: ProgramEntry) -> ExitCode {
    match serve(program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "this program host fails");
            #[expect(clippy::print_stderr, reason = "the parent shows what a host said last")]
            {
                eprintln!("this program host fails: {error}");
            }
            ExitCode::from(FAILED)
        }
    }
}

/// Kills this process and its process group at once, including the processes that user code has started.
pub(crate) fn end_at_once() -> ! {
    // The launcher made this process the leader of its own group. If something else started it, the group may contain
    // processes that are not its own.
    if getpgrp() == getpid() {
        let _ = killpg(getpgrp(), Signal::SIGKILL);
    }
    let _ = kill(Pid::this(), Signal::SIGKILL);
    // Not reached: the signal can't be caught.
    std::process::abort()
}

fn serve(program: ProgramEntry) -> Result<(), ChildError> {
    let session = variable(SESSION_VARIABLE, parse_session)?;
    let parent = variable(PARENT_VARIABLE, |text| text.parse::<NodeAddress>().ok())?;
    let job: model::JobId = variable(JOB_VARIABLE, |text| text.parse().ok())?;
    let tmp_dir = variable(TMP_VARIABLE, |text| Some(PathBuf::from(text)))?;
    let socket = take_socket().map_err(ChildError::Socket)?;
    // In addition to watching the socket: when the parent is killed, the kernel's signal is faster.
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        tracing::debug!(%error, "cannot request SIGKILL at the parent's death; only its socket and its silence are watched");
    }
    keep_memory_private();
    let platform = Platform::production();
    let watch = ParentWatch::start(&socket, &platform).map_err(ChildError::Socket)?;
    let (ended, on_end) = oneshot::channel();
    let until_told = Arc::clone(&watch);
    let host = move |rpc: RpcService| ProgramHost {
        program,
        rpc,
        place: Place::Child(crate::launch::last_words_file(&tmp_dir)),
        embedded: false,
        tmp_dir,
        heard: Some(Arc::new(move |silence_ms| watch.heard(silence_ms))),
        worker: Side::None,
        coordination: None,
        registration: None,
        ended: Some(ended),
    };
    tracing::info!(%job, %parent, pid = std::process::id(), "program host");
    let (rpc, peer) = block_on(connect(platform, parent, socket, session, host))??;
    // Waits for the actor's end after `EndHost`. Every other reason to end kills the process elsewhere.
    let ended = block_on(on_end)?;
    until_told.ending();
    // The answer to `EndHost` is written before the process goes.
    block_on(rpc.shutdown(FAREWELL))?;
    drop(peer);
    // A sender that was dropped without a message means that the actor has panicked.
    ended.map_err(|_| ChildError::Died)
}

/// Keeps this process's memory, in which the job's key and the cluster's TLS key are, out of core dumps and from other
/// processes of the same user: no core file, no `ptrace`, and a `/proc/PID/mem` that belongs to root. What the parent
/// reads of this process (`/proc/PID/status`, `/proc/PID/stat`) stays readable. Failures are logged, and not fatal.
fn keep_memory_private() {
    if let Err(error) = setrlimit(Resource::RLIMIT_CORE, 0, 0) {
        tracing::warn!(%error, "cannot switch off core files; a crash may write this host's keys to the disk");
    }
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "cannot close this host's memory to other processes of its user");
    }
}

/// Starts an RPC service, adopts the socket as its connection to the parent, and serves the host on it.
async fn connect(
    platform: Platform,
    parent: NodeAddress,
    socket: UnixStream,
    session: ProcessSession,
    host: impl FnOnce(RpcService) -> ProgramHost + Send + 'static,
) -> Result<(RpcService, gateways::PeerHandle), ChildError> {
    let io = platform.clone();
    let adopted = platform.lane(Lane::Io).run(move || async move {
        let rpc = RpcService::start(io, RpcOptions::in_process())
            .await
            .map_err(|e| ChildError::Rpc(e.to_string()))?;
        socket.set_nonblocking(true).map_err(ChildError::Socket)?;
        let stream = tokio::net::UnixStream::from_std(socket).map_err(ChildError::Socket)?;
        // The host is served before the parent's first call can be read.
        let (service, work) = (rpc.clone(), rpc.clone());
        let served = rpc.platform().lane(Lane::Work).run(move || async move {
            let host = host(service.clone());
            in_process::start(&work, host, ENDPOINT.to_owned(), session);
        });
        served.await.map_err(|_| ChildError::Ending)?;
        let peer = rpc.adopt(parent, BoxStream::from(stream), Principal::Cluster);
        Ok((rpc, peer))
    });
    adopted.await.map_err(|_| ChildError::Ending)?
}

/// Runs a future to its end on the main thread, which does nothing else.
fn block_on<T>(work: impl Future<Output = T>) -> Result<T, ChildError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|e| ChildError::Rpc(e.to_string()))?;
    Ok(runtime.block_on(work))
}

fn variable<T>(name: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, ChildError> {
    let text = std::env::var(name).map_err(|_| ChildError::Variable(name))?;
    parse(&text).ok_or(ChildError::Variable(name))
}

/// Takes the socket to the parent, which is standard input, and replaces standard input by `/dev/null` for user code.
fn take_socket() -> io::Result<UnixStream> {
    let kind = std::fs::metadata("/proc/self/fd/0")?;
    if !kind.file_type().is_socket() {
        return Err(io::Error::other("standard input is not a socket"));
    }
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    Ok(socket)
}

/// Returns a session as the text of an environment variable.
pub(crate) fn session_text(session: ProcessSession) -> String {
    let LeaderSession { epoch, nonce } = session.0;
    format!("{}.{}.{nonce}", epoch.store, epoch.process)
}

fn parse_session(text: &str) -> Option<ProcessSession> {
    let mut parts = text.split('.').map(str::parse::<u64>);
    let (store, process, nonce) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let session = LeaderSession { epoch: Epoch { store, process }, nonce };
    parts.next().is_none().then_some(ProcessSession(session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::{prctl::get_dumpable, resource::getrlimit};

    #[test]
    fn a_session_comes_back_as_it_was() {
        let epoch = Epoch { store: 1_700_000_000_000, process: 3 };
        let session = ProcessSession(LeaderSession { epoch, nonce: u64::MAX });
        assert_eq!(parse_session(&session_text(session)), Some(session));
        for wrong in ["", "1.2", "1.2.3.4", "1.x.3"] {
            assert_eq!(parse_session(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_program_host_leaves_no_core_file_and_is_closed_to_other_processes() {
        keep_memory_private();
        assert_eq!(getrlimit(Resource::RLIMIT_CORE), Ok((0, 0)));
        assert_eq!(get_dumpable(), Ok(false));
    }
}
