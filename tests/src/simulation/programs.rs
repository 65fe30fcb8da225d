//! Starts program host doubles and makes those of a process crash.
//!
//! The process only sees that the host is gone, as in a real crash.

use super::barriers::Barriers;
use super::host_double::{self, RunningHost};
use super::observer::Observer;
use actors::program_hosts::{ExitCause, HostRequest, LaunchedHost, ProgramHostLauncher};
use futures::FutureExt;
use futures::future::BoxFuture;
use gateways::RpcService;
use gateways::program_host::BuildError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Time that a double takes to start.
const START: Duration = Duration::from_millis(50);

/// Senders that make the program hosts of one parent crash.
type Crashes = Vec<oneshot::Sender<u64>>;

/// The program hosts of a run, by the simulated host of their parents, and the barriers between them. Clones share both.
#[derive(Debug, Clone, Default)]
pub struct Programs {
    hosts: Arc<Mutex<BTreeMap<String, Crashes>>>,
    barriers: Barriers,
}

impl Programs {
    fn with<T>(&self, host: &str, f: impl FnOnce(&mut Crashes) -> T) -> T {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        f(hosts.entry(host.to_owned()).or_default())
    }

    /// Makes every program host double of the process on `host` crash, for the fault of this number, which is observed with each that still
    /// ran. The process sees only that its hosts have ended.
    pub fn crash(&self, host: &str, fault: u64) {
        for program in self.with(host, std::mem::take) {
            // The program may have ended already.
            let _ = program.send(fault);
        }
    }

    fn started(&self, host: &str) -> oneshot::Receiver<u64> {
        let (crash, crashed) = oneshot::channel();
        self.with(host, |programs| {
            programs.retain(|program| !program.is_closed());
            programs.push(crash);
        });
        crashed
    }
}

/// The launcher of program hosts of one simulated process: it starts doubles in the same process, each after 50 ms, in place of real
/// program host processes.
pub struct Doubles {
    rpc: RpcService,
    host: String,
    programs: Programs,
    observer: Observer,
    serial: AtomicU64,
}

impl Doubles {
    /// Returns the launcher of the process on `host` whose fabric is `rpc`. `programs` can make what it starts crash.
    pub fn new(rpc: RpcService, host: &str, programs: Programs, observer: Observer) -> Self {
        Self { rpc, host: host.to_owned(), programs, observer, serial: AtomicU64::new(0) }
    }
}

impl ProgramHostLauncher for Doubles {
    fn launch(&self, request: HostRequest) -> BoxFuture<'static, Result<LaunchedHost, BuildError>> {
        let (rpc, observer) = (self.rpc.clone(), self.observer.clone());
        let (programs, host) = (self.programs.clone(), self.host.clone());
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::sleep(START).await;
            let (job, barriers) = (request.job_id, programs.barriers.clone());
            let running = host_double::start(&rpc, job, serial, observer.clone(), barriers);
            Ok(launched(running, programs.started(&host), observer))
        }
        .boxed()
    }
}

fn launched(
    host: RunningHost,
    crashed: oneshot::Receiver<u64>,
    observer: Observer,
) -> LaunchedHost {
    let address = host.address.clone();
    let (killed, gone) = oneshot::channel::<()>();
    let running = Arc::new(Mutex::new(Some((host, killed))));
    let crashing = Arc::clone(&running);
    LaunchedHost {
        address,
        exited: async move {
            tokio::select! {
                biased;
                // The sender was dropped because the program was killed.
                _ = gone => ExitCause("killed".to_owned()),
                Ok(fault) = crashed => {
                    crashing.lock().unwrap_or_else(PoisonError::into_inner).take();
                    observer.fault_observed(fault);
                    ExitCause("crashed".to_owned())
                }
            }
        }
        .boxed(),
        kill: Box::new(move || {
            running.lock().unwrap_or_else(PoisonError::into_inner).take();
        }),
    }
}
