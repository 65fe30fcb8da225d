//! A host as part of the process that asks for it: embedded and application mode, where the process is the program.

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
use std::{fmt, path::PathBuf, sync::Arc};
use streaming::ProgramEntry;
use thiserror::Error;

/// How a host in this process is made.
pub struct InProcess {
    /// What it is served under, e.g. `program_host/<job id>`; unique in the process.
    pub name: String,
    /// Its fence.
    pub session: ProcessSession,
    /// Whether relative paths resolve against the working directory.
    pub embedded: bool,
    /// Where its coordinators keep temporary files; exists.
    pub tmp_dir: PathBuf,
    /// User code that can't be stopped: the process must end.
    pub fatal: Fatal,
}

/// A host in this process. It lives until it is told to end, not until this is dropped.
pub struct InProcessHost {
    /// Where it answers.
    pub address: HostAddress,
    /// Ends when the host has.
    pub ended: BoxFuture<'static, ()>,
    /// Tells it to end: tasks are cancelled first.
    pub end: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for InProcessHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InProcessHost({})", self.address.address)
    }
}

/// The lane that hosts run on has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the process is ending; no host is started")]
pub struct NotStarted;

/// Starts a host in this process.
///
/// # Errors
/// When the process is ending.
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

/// Starts and serves the actor on the calling thread.
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
