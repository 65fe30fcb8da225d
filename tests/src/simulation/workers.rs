//! The external resource system of the runs whose ResourceManager is active: it starts TaskManagers on free
//! hosts after a while, now and then fails to, and says when one has ended.
//!
//! It outlives every JobManager of the run, as YARN or Kubernetes do.

use super::plan::{WORKERS, worker};
use actors::resource_manager::{DriverError, ResourceManagerDriver, WorkerRequest};
use control::resource_manager::pool::{DriverEvent, RecoveredWorker};
use futures::FutureExt;
use futures::future::BoxFuture;
use gateways::resource_manager::ApplicationStatus;
use model::ResourceId;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

#[derive(Debug)]
struct State {
    rng: ChaCha8Rng,
    /// What runs, or is about to, by host.
    running: BTreeMap<String, ResourceId>,
    /// Requests that were taken back before they were served.
    cancelled: BTreeSet<u64>,
    /// The channel for the newest connection's events.
    events: Option<mpsc::Sender<DriverEvent>>,
    /// The newest connection's number.
    connections: u64,
    started: u64,
}

/// The system itself.
#[derive(Debug, Clone)]
pub struct ExternalSystem(Arc<Mutex<State>>);

impl ExternalSystem {
    /// With no worker running.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x5eed),
            running: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            events: None,
            connections: 0,
            started: 0,
        })))
    }

    /// Returns a driver for one process.
    pub fn driver(&self) -> Driver {
        Driver { system: self.clone(), connection: AtomicU64::new(0) }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is to run on a host.
    pub fn wanted_on(&self, host: &str) -> Option<ResourceId> {
        self.with(|s| s.running.get(host).cloned())
    }

    /// What ran on a host has ended.
    pub fn ended(&self, host: &str, cause: &str) {
        self.with(|s| {
            if let Some(resource_id) = s.running.remove(host) {
                s.tell(DriverEvent::Lost { resource_id, cause: cause.to_owned() });
            }
        });
    }

    async fn serve(self, request: u64) {
        let delay = self.with(|s| Duration::from_millis(s.rng.random_range(500..4_000)));
        tokio::time::sleep(delay).await;
        self.with(|s| {
            if s.cancelled.remove(&request) {
                return;
            }
            let free = (0..WORKERS).map(worker).find(|host| !s.running.contains_key(host));
            let event = match free {
                Some(_) if s.rng.random_bool(0.1) => {
                    DriverEvent::StartFailed { request, host: free, cause: "start failed".into() }
                }
                Some(host) => {
                    s.started += 1;
                    let resource_id = ResourceId::new(format!("container-{}", s.started));
                    s.running.insert(host.clone(), resource_id.clone());
                    DriverEvent::Started { request, resource_id, host }
                }
                None => {
                    let cause = "no host is free".to_owned();
                    DriverEvent::StartFailed { request, host: None, cause }
                }
            };
            s.tell(event);
        });
    }
}

impl State {
    fn tell(&mut self, event: DriverEvent) {
        // A ResourceManager that is gone hears of it when its successor initialises.
        let _ = self.events.as_ref().map(|events| events.try_send(event));
    }
}

/// The connection of one process to the system. A newer connection replaces it; what the older process then does has no
/// effect on the newer one.
#[derive(Debug)]
pub struct Driver {
    system: ExternalSystem,
    /// Number of the latest initialisation.
    connection: AtomicU64,
}

impl Driver {
    /// Runs `f` if this is the newest connection; calls of an older one are ignored.
    fn with(&self, f: impl FnOnce(&mut State)) {
        let mine = self.connection.load(Ordering::Relaxed);
        self.system.with(|s| {
            if s.connections == mine {
                f(s);
            }
        });
    }
}

impl ResourceManagerDriver for Driver {
    fn initialize(
        &self,
        events: mpsc::Sender<DriverEvent>,
    ) -> BoxFuture<'static, Result<Vec<RecoveredWorker>, DriverError>> {
        let (connection, workers) = self.system.with(|s| {
            s.connections += 1;
            s.events = Some(events);
            s.cancelled.clear();
            let running = s.running.iter();
            let workers = running
                .map(|(host, id)| RecoveredWorker { resource_id: id.clone(), host: host.clone() })
                .collect();
            (s.connections, workers)
        });
        self.connection.store(connection, Ordering::Relaxed);
        async move { Ok(workers) }.boxed()
    }

    // No host is avoided, because any host may be the only free one.
    fn avoid(&self, _: Vec<String>) {}

    fn request(&self, request: WorkerRequest) {
        let system = self.system.clone();
        self.with(|_| {
            tokio::task::spawn_local(system.serve(request.request));
        });
    }

    fn cancel(&self, request: u64) {
        self.with(|s| {
            s.cancelled.insert(request);
        });
    }

    fn release(&self, resource_id: &ResourceId) {
        self.with(|s| {
            let host = s.running.iter().find(|(_, id)| *id == resource_id).map(|(h, _)| h.clone());
            if let Some(host) = host {
                s.running.remove(&host);
                let cause = "released".to_owned();
                s.tell(DriverEvent::Lost { resource_id: resource_id.clone(), cause });
            }
        });
    }

    fn deregister(
        &self,
        _: ApplicationStatus,
        _: Option<String>,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        async { Ok(()) }.boxed()
    }

    fn terminate(&self) -> BoxFuture<'static, ()> {
        self.with(|s| s.events = None);
        async {}.boxed()
    }
}
