//! A host inside the process that asks for it: for embedded and application mode, where the process is the program.

use crate::{
    actor::{ProgramHost, Side},
    program::{Fatal, Place},
};
use actix::Actor;
use futures::{FutureExt, channel::oneshot, future::BoxFuture};
use gateways::{
    RpcService,
    job_services::HostAddress,
    program_host::{EndHost, ProgramHostGateway},
};
use model::ProcessSession;
use platform::Lane;
use std::{path::PathBuf, sync::Arc};
use streaming::ProgramEntry;
use thiserror::Error;

/// The settings for [`in_process`], which starts a program host (it builds the job graph and runs the tasks and coordinators of one
/// program) inside the calling process instead of a child process.
pub struct InProcess {
    /// The name of the host's endpoint in the RPC service, e.g. `program_host/<job id>-tasks-0`; must be unique in the process: a second
    /// host of one name takes the first one's place, which cannot be called any more.
    pub name: String,
    /// The session that every call to the host must name, drawn by the caller; a call with another session is refused, so that a call
    /// meant for an earlier host of the same name does not reach this one.
    pub session: ProcessSession,
    /// True if relative paths of sources and sinks resolve against the process's working directory, as in an embedded cluster; if false,
    /// building a graph with a relative path fails. It counts for graphs that are built to run tasks: the requests
    /// [`gateways::program_host::BuildGraph`] and [`gateways::program_host::StartCoordinators`] have values of their own.
    pub embedded: bool,
    /// An existing directory for temporary files of the host's tasks and coordinators. The host neither creates nor deletes it.
    pub tmp_dir: PathBuf,
    /// Called with the reason when a task does not stop within `task.cancellation.timeout`, or does not give memory back at its limit.
    /// The function must end the process.
    pub fatal: Fatal,
}

/// A handle to a host in this process, as [`in_process`] returns it. Dropping the handle does not end the host; `end` does.
#[derive(derive_more::Debug)]
#[debug("InProcessHost({})", self.address.address)]
pub struct InProcessHost {
    /// The host's address and session; no process id, because the host is in this process.
    pub address: HostAddress,
    /// Completes when the host's actor has stopped, also if it panicked. Tasks that did not end within 15 s may still run then.
    pub ended: BoxFuture<'static, ()>,
    /// Asks the host to end. Returns at once; the host cancels its tasks, waits up to 15 s for them, and then completes `ended`. May be
    /// called again, also after the end.
    pub end: Arc<dyn Fn() + Send + Sync>,
}

/// The error of [`in_process`]: the work lane, the thread on which the actors of hosts run, has ended or could not be started, because
/// the process is ending. Nothing was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the process is ending; no host is started")]
pub struct NotStarted;

/// Starts a program host in this process: creates its actor on the work lane (a thread) and serves the RPC endpoint `options.name`.
/// Completes when the host can be called, and starts no process and no task. No user code runs before a call asks for it.
///
/// # Errors
/// Returns `NotStarted` if the work lane has ended, which means that the process is ending.
pub async fn in_process(
    rpc: &RpcService,
    program: ProgramEntry,
    options: InProcess,
) -> Result<InProcessHost, NotStarted> {
    let InProcess { name, session, embedded, tmp_dir, fatal } = options;
    let address = HostAddress { address: rpc.address_of(&name), session, pid: None };
    let (ended, on_end) = oneshot::channel();
    let host = ProgramHost {
        program,
        rpc: rpc.clone(),
        place: Place::InProcess(fatal),
        embedded,
        tmp_dir,
        heard: None,
        worker: Side::None,
        coordination: None,
        registration: None,
        ended: Some(ended),
    };
    let service = rpc.clone();
    rpc.platform()
        .lane(Lane::Work)
        .run(move || async move { start(&service, host, name, session) })
        .await
        .map_err(|_| NotStarted)?;
    let gateway = rpc.gateway::<ProgramHostGateway>(&address.address, session);
    Ok(InProcessHost {
        address,
        ended: on_end.map(|_| ()).boxed(),
        end: Arc::new(move || gateway.tell(EndHost {})),
    })
}

/// Creates the host's actor on the calling thread, which must be one of the work lane, and serves it.
pub(crate) fn start(
    rpc: &RpcService,
    mut host: ProgramHost,
    name: String,
    session: ProcessSession,
) {
    let rpc = rpc.clone();
    ProgramHost::create(move |ctx| {
        use actix::AsyncContext;
        let endpoint = ProgramHostGateway::endpoint(ctx.address());
        host.registration = Some(rpc.serve(name, session, endpoint));
        host
    });
}
