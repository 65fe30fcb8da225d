//! The external resource system of the runs whose ResourceManager is active: it starts TaskManagers on free
//! hosts after a while, now and then fails to, and says when one has ended. While faults are planned it also loses,
//! delays and duplicates containers, each as the contract of `ResourceManagerDriver` allows.
//!
//! It outlives every JobManager of the run, as YARN or Kubernetes do.

use super::observer::Observer;
use super::plan::{FAULT_PHASE, WORKERS, worker};
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

/// A trouble with the container that is started for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// The container is started, but no process of it ever comes up.
    Vanishes,
    /// The container ends shortly after it was started, perhaps before its TaskManager has registered.
    Ends,
    /// The container is started long after the request, and also if the request was cancelled meanwhile.
    Late,
    /// A second container is started for the same request.
    Doubled,
    /// The start of the container is reported twice.
    ToldTwice,
}

impl Trouble {
    /// Returns the name under which the trouble is counted.
    fn kind(self) -> &'static str {
        match self {
            Self::Vanishes => "container never comes up",
            Self::Ends => "container ends at once",
            Self::Late => "container late",
            Self::Doubled => "container doubled",
            Self::ToldTwice => "container told twice",
        }
    }
}

#[derive(Debug)]
struct State {
    rng: ChaCha8Rng,
    /// Draws the troubles, so that they do not change what else is drawn.
    troubles: ChaCha8Rng,
    observer: Observer,
    /// Workers that run, or are about to, by host.
    running: BTreeMap<String, ResourceId>,
    /// Containers that never come up, with the hosts on which they are said to be.
    vanished: BTreeMap<ResourceId, String>,
    /// The time at which each container was started, since the beginning of the run.
    begun: BTreeMap<ResourceId, Duration>,
    /// Requests that were taken back before they were served.
    cancelled: BTreeSet<u64>,
    /// The channel for the newest connection's events.
    events: Option<mpsc::Sender<DriverEvent>>,
    /// The newest connection's number.
    connections: u64,
    started: u64,
}

/// The external resource system of a run, which starts the containers of TaskManagers that a ResourceManager requests, as YARN would: after
/// 0.5 to 4 s, sometimes in vain, and with troubles while faults are planned. Outlives all JobManagers. Clones share it.
#[derive(Debug, Clone)]
pub struct ExternalSystem(Arc<Mutex<State>>);

impl ExternalSystem {
    /// Creates the system without any worker. What it draws follows from `seed`; it counts its troubles at `observer`.
    pub fn new(seed: u64, observer: Observer) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: ChaCha8Rng::seed_from_u64(seed ^ 0x5eed),
            troubles: ChaCha8Rng::seed_from_u64(seed ^ 0xc0_47a1),
            observer,
            running: BTreeMap::new(),
            vanished: BTreeMap::new(),
            begun: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            events: None,
            connections: 0,
            started: 0,
        })))
    }

    /// Returns a driver by which the ResourceManager of one process uses the system, from its initialisation on.
    pub fn driver(&self) -> Driver {
        Driver { system: self.clone(), connection: AtomicU64::new(0) }
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the id of the container whose TaskManager is to run on a host now; `None` if there is none.
    pub fn wanted_on(&self, host: &str) -> Option<ResourceId> {
        self.with(|s| s.running.get(host).cloned())
    }

    /// Returns the containers that were started at the virtual time `before` or earlier and have not ended, those that never came up
    /// included.
    pub fn started_before(&self, before: Duration) -> Vec<ResourceId> {
        self.with(|s| {
            let all = s.running.values().chain(s.vanished.keys());
            let old = |id: &&ResourceId| s.begun.get(id).is_none_or(|at| *at <= before);
            all.filter(old).cloned().collect()
        })
    }

    /// Ends the container on a host, if there is one, and reports it with its `cause` to the ResourceManager that is connected last; if
    /// none is connected, its successor learns of it when it initialises. A TaskManager that still runs there notices within 250 ms of
    /// virtual time, and ends.
    pub fn ended(&self, host: &str, cause: &str) {
        self.with(|s| {
            if let Some(resource_id) = s.running.remove(host) {
                s.tell(DriverEvent::Lost { resource_id, cause: cause.to_owned() });
            }
        });
    }

    async fn serve(self, request: u64) {
        let (delay, trouble) = self.with(State::draw);
        tokio::time::sleep(delay).await;
        let ending = self.with(|s| s.answer(request, trouble));
        if let Some((host, resource_id, after)) = ending {
            tokio::time::sleep(after).await;
            if self.wanted_on(&host).as_ref() == Some(&resource_id) {
                self.ended(&host, "its container was lost");
            }
        }
    }
}

impl State {
    /// Draws how long a request takes and what goes wrong with it.
    fn draw(&mut self) -> (Duration, Option<Trouble>) {
        let delay = Duration::from_millis(self.rng.random_range(500..4_000));
        if turmoil::sim_elapsed().is_none_or(|now| now > FAULT_PHASE) {
            return (delay, None);
        }
        match self.troubles.random_range(0..16) {
            0 => (delay, Some(Trouble::Vanishes)),
            1 => (delay, Some(Trouble::Ends)),
            2 => {
                let late = Duration::from_millis(self.troubles.random_range(5_000..60_000));
                (delay + late, Some(Trouble::Late))
            }
            3 => (delay, Some(Trouble::Doubled)),
            4 => (delay, Some(Trouble::ToldTwice)),
            _ => (delay, None),
        }
    }

    fn free_host(&self) -> Option<String> {
        (0..WORKERS).map(worker).find(|host| !self.running.contains_key(host))
    }

    /// Starts a container on a free host.
    fn start(&mut self, host: String) -> ResourceId {
        self.started += 1;
        let resource_id = ResourceId::new(format!("container-{}", self.started));
        self.running.insert(host.clone(), resource_id.clone());
        self.begun.insert(resource_id.clone(), turmoil::sim_elapsed().unwrap_or_default());
        resource_id
    }

    /// Ends a request by an event, or by none if it was cancelled. Returns the container that is to end, and when.
    fn answer(
        &mut self,
        request: u64,
        trouble: Option<Trouble>,
    ) -> Option<(String, ResourceId, Duration)> {
        if self.cancelled.remove(&request) && trouble != Some(Trouble::Late) {
            return None;
        }
        let free = self.free_host();
        let failed =
            |host, cause: &str| DriverEvent::StartFailed { request, host, cause: cause.into() };
        let Some(host) = free else {
            self.tell(failed(None, "no host is free"));
            return None;
        };
        if self.rng.random_bool(0.1) {
            self.tell(failed(Some(host), "start failed"));
            return None;
        }
        let started = |resource_id, host| DriverEvent::Started { request, resource_id, host };
        let resource_id = self.start(host.clone());
        self.tell(started(resource_id.clone(), host.clone()));
        let trouble = trouble?;
        self.observer.count(trouble.kind(), 1);
        match trouble {
            Trouble::Vanishes => {
                self.running.remove(&host);
                self.vanished.insert(resource_id, host);
                None
            }
            Trouble::Ends => {
                let after = Duration::from_millis(self.troubles.random_range(0..2_000));
                Some((host, resource_id, after))
            }
            Trouble::Late => None,
            Trouble::Doubled => {
                let second = self.free_host()?;
                let resource_id = self.start(second.clone());
                self.tell(started(resource_id, second));
                None
            }
            Trouble::ToldTwice => {
                self.tell(started(resource_id, host));
                None
            }
        }
    }

    fn tell(&mut self, event: DriverEvent) {
        // A ResourceManager that is gone hears of it when its successor initialises.
        let _ = self.events.as_ref().map(|events| events.try_send(event));
    }
}

/// The connection of one process's ResourceManager to the external system. A newer connection replaces it: the calls of the older one then
/// have no effect.
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
            let vanished = s.vanished.iter().map(|(id, host)| (host, id));
            let workers = s.running.iter().chain(vanished);
            let workers = workers
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
            let ran = host.is_some_and(|host| s.running.remove(&host).is_some());
            if ran || s.vanished.remove(resource_id).is_some() {
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
