//! The driver's task on the I/O lane: orders of the ResourceManager and events of YARN in, the core's commands out.
//!
//! It must never wait for a node, for YARN or for the ResourceManager without also taking what else comes.

use super::core::{Command, Core, Event, Node};
use super::launch::{LaunchPlan, resource};
use super::{COMPONENT, DriverSettings, YarnDriverParts};
use actors::resource_manager::{DriverError, WorkerRequest};
use actors::services::FatalErrorHandler;
use control::resource_manager::pool::{DriverEvent, RecoveredWorker};
use futures::future::LocalBoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use hadoop::yarn::messages::{Container, NodeId};
use hadoop::yarn::{AmRmClient, AmRmEvents, Ask, MasterEvent, NmClient, RequestId, YarnError};
use model::ResourceId;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Maximum time for a node to answer a launch, all tries included. Then the ResourceManager looks
/// for another node.
const LAUNCH_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time for a node to answer that it stops a container. Then YARN's ResourceManager is
/// asked to stop it.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// A call of Flott's ResourceManager.
#[derive(Debug)]
pub(super) enum Order {
    /// A ResourceManager leads now and receives the events. The reply names the workers that exist.
    Attach {
        events: mpsc::Sender<DriverEvent>,
        reply: oneshot::Sender<Result<Vec<RecoveredWorker>, DriverError>>,
    },
    /// The ResourceManager's leadership has ended.
    Detach {
        reply: oneshot::Sender<()>,
    },
    Request(WorkerRequest),
    Cancel(u64),
    Avoid(Vec<String>),
    Release(ResourceId),
}

/// Registers the application when a ResourceManager leads for the first time, then serves until the driver or the
/// registration has ended.
pub(super) async fn run(
    parts: YarnDriverParts,
    mut orders: mpsc::Receiver<Order>,
    registered: Arc<OnceLock<AmRmClient>>,
) {
    let (events, reply) = loop {
        match orders.recv().await {
            Some(Order::Attach { events, reply }) => break (events, reply),
            // Nothing is there yet.
            Some(_) => {}
            None => return,
        }
    };
    match register(&parts).await {
        Ok((yarn, nodes, told)) => {
            // It is set here alone.
            let _ = registered.set(yarn.clone());
            let task = Task::new(parts, yarn, nodes, orders, told);
            task.serve(events, reply).await;
        }
        Err(error) => {
            let error =
                DriverError(format!("the application cannot be registered at YARN: {error}"));
            // The ResourceManager that asked says why it cannot start.
            let _ = reply.send(Err(error));
        }
    }
}

async fn register(
    parts: &YarnDriverParts,
) -> Result<(AmRmClient, NmClient, AmRmEvents), YarnError> {
    let (conf, login) = (&parts.hadoop, &parts.login);
    let nodes = NmClient::new(conf, login)?;
    let registration = parts.registration.clone();
    let beats = parts.settings.beats;
    let (yarn, events) = AmRmClient::register(conf, login, registration, beats).await?;
    tracing::info!(url = parts.registration.tracking_url, "the application is registered at YARN");
    Ok((yarn, nodes, events))
}

/// The answer of a NodeManager to a launch.
struct Answer {
    id: ResourceId,
    /// The reason why the node did not start the container, or why that is not known; `None` if it did.
    refusal: Option<String>,
}

/// Calls to nodes that are under way: launches, and stops, which have no answer of interest.
type Work = FuturesUnordered<LocalBoxFuture<'static, Option<Answer>>>;

struct Task {
    core: Core,
    settings: DriverSettings,
    plan: LaunchPlan,
    fatal: FatalErrorHandler,
    yarn: AmRmClient,
    nodes: NmClient,
    orders: mpsc::Receiver<Order>,
    told: AmRmEvents,
    /// The ResourceManager that leads.
    leader: Option<mpsc::Sender<DriverEvent>>,
    /// Events that it has not taken yet; one or two for each container.
    backlog: VecDeque<DriverEvent>,
    work: Work,
    /// The containers that were granted and have not ended.
    containers: BTreeMap<ResourceId, Container>,
    /// The open requests by their number.
    requests: BTreeMap<u64, WorkerRequest>,
    /// YARN's request of each priority.
    asked: BTreeMap<i32, RequestId>,
}

impl Task {
    fn new(
        parts: YarnDriverParts,
        yarn: AmRmClient,
        nodes: NmClient,
        orders: mpsc::Receiver<Order>,
        told: AmRmEvents,
    ) -> Self {
        Self {
            core: Core::default(),
            settings: parts.settings,
            plan: parts.plan,
            fatal: parts.fatal,
            yarn,
            nodes,
            orders,
            told,
            leader: None,
            backlog: VecDeque::new(),
            work: Work::new(),
            containers: BTreeMap::new(),
            requests: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    async fn serve(
        mut self,
        events: mpsc::Sender<DriverEvent>,
        reply: oneshot::Sender<Result<Vec<RecoveredWorker>, DriverError>>,
    ) {
        self.attach(events, reply);
        loop {
            let leader = self.leader.clone();
            let ready = async {
                match &leader {
                    Some(leader) => leader.reserve().await.ok(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                permit = ready, if !self.backlog.is_empty() => match (permit, self.backlog.pop_front()) {
                    (Some(permit), Some(event)) => permit.send(event),
                    // It has ended without a word; the next one attaches.
                    _ => self.leader = None,
                },
                told = self.told.next() => match told {
                    Ok(Some(event)) => self.hear(event),
                    // The application is finished.
                    Ok(None) => return,
                    // The process must not unregister an application that may be another attempt's.
                    Err(error) => {
                        return self.fatal.report(COMPONENT, format!("YARN's ResourceManager: {error}"));
                    }
                },
                order = self.orders.recv() => match order {
                    Some(order) => self.obey_order(order),
                    None => return,
                },
                Some(answer) = self.work.next(), if !self.work.is_empty() => match answer {
                    Some(Answer { id, refusal: None }) => self.step_of(id, |id| Event::Launched { id }),
                    Some(Answer { id, refusal: Some(cause) }) => {
                        self.step_of(id, |id| Event::LaunchFailed { id, cause });
                    }
                    None => {}
                },
            }
        }
    }

    fn attach(
        &mut self,
        events: mpsc::Sender<DriverEvent>,
        reply: oneshot::Sender<Result<Vec<RecoveredWorker>, DriverError>>,
    ) {
        self.detach();
        let workers = self.core.workers();
        if reply.send(Ok(workers)).is_ok() {
            self.leader = Some(events);
        }
    }

    fn detach(&mut self) {
        self.step(Event::Detached);
        self.requests.clear();
        self.leader = None;
        self.backlog.clear();
    }

    fn obey_order(&mut self, order: Order) {
        match order {
            Order::Attach { events, reply } => self.attach(events, reply),
            Order::Detach { reply } => {
                self.detach();
                // Whoever asked may have gone.
                let _ = reply.send(());
            }
            Order::Request(worker) => {
                let (request, size) = (worker.request, self.plan.size(&worker));
                self.requests.insert(request, worker);
                self.step(Event::Request { request, size });
            }
            Order::Cancel(request) => {
                self.requests.remove(&request);
                self.step(Event::Cancel { request });
            }
            Order::Avoid(hosts) => self.step(Event::Avoid { hosts }),
            Order::Release(id) => self.step(Event::Release { id }),
        }
    }

    fn hear(&mut self, event: MasterEvent) {
        match event {
            MasterEvent::Allocated { container, .. } => {
                let priority = container.priority.as_ref().and_then(|p| p.priority).unwrap_or(0);
                if let Some((id, node)) = self.keep(*container) {
                    self.step(Event::Allocated { id, node, priority });
                }
            }
            MasterEvent::Recovered(container) => {
                if let Some((id, node)) = self.keep(*container) {
                    self.step(Event::Recovered { id, node });
                }
            }
            MasterEvent::Completed { id, exit, diagnostics } => {
                let cause = format!("its container ended ({exit:?}): {}", diagnostics.trim());
                self.step_of(ResourceId::new(id.to_string()), |id| Event::Completed { id, cause });
            }
            MasterEvent::Refused { requests, reason } => self.refuse(&requests, &reason),
            MasterEvent::Registered(response) => {
                let maximum = response.maximum_capability.unwrap_or_default();
                let (memory_mib, vcores) = (maximum.memory(), maximum.virtual_cores());
                tracing::info!(memory_mib, vcores, "YARN grants containers of up to this size");
            }
            MasterEvent::Shutdown => self.fatal.report(
                COMPONENT,
                "YARN has ended this attempt of the application: it was killed, or another one runs",
            ),
            // Containers of lost nodes and containers that are taken away end, which is heard then; tokens are replaced by
            // the library.
            _ => {}
        }
    }

    /// Remembers a container by its id. One without an id or a node is none.
    fn keep(&mut self, container: Container) -> Option<(ResourceId, Node)> {
        let id = ResourceId::new(container.id?.to_string());
        let place = container.node_id.clone()?;
        let name = match self.settings.port_in_node_name {
            true => place.to_string(),
            false => place.host().to_owned(),
        };
        self.containers.insert(id.clone(), container);
        Some((id, Node { host: place.host().to_owned(), name }))
    }

    fn refuse(&mut self, refused: &[RequestId], reason: &str) {
        let of_ours = self.asked.iter().filter(|(_, id)| refused.contains(id));
        let priorities: Vec<i32> = of_ours.map(|(priority, _)| *priority).collect();
        for priority in priorities {
            self.asked.remove(&priority);
            self.step(Event::Refused { priority, cause: reason.to_owned() });
        }
    }

    /// Steps with an event of one container, which is forgotten when nothing more can come of it.
    fn step_of(&mut self, id: ResourceId, event: impl FnOnce(ResourceId) -> Event) {
        self.step(event(id.clone()));
        if !self.core.knows(&id) {
            self.containers.remove(&id);
        }
    }

    fn step(&mut self, event: Event) {
        for command in self.core.step(event) {
            self.obey(command);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Ask { priority, size, count } => {
                let open = self.asked.get(&priority);
                if open.is_some_and(|id| self.yarn.set_count(*id, count)) {
                    return;
                }
                self.asked.remove(&priority);
                if count == 0 {
                    return;
                }
                let (capability, label) = (resource(&size), self.settings.label.clone());
                let ask = Ask { priority, label, ..Ask::new(count, capability) };
                match self.yarn.request(ask) {
                    Ok(id) => drop(self.asked.insert(priority, id)),
                    Err(error) => self.fatal.report(COMPONENT, error.to_string()),
                }
            }
            Command::GiveBack { id } => {
                tracing::info!(container = %id, "a container is given back: nothing needs it");
                if let Some(id) = self.containers.remove(&id).and_then(|container| container.id) {
                    self.yarn.release(id);
                }
            }
            Command::Launch { id, request } => self.launch(id, request),
            Command::Stop { id } => self.stop(&id),
            Command::Block { names } => self.yarn.block(names),
            Command::Unblock { names } => self.yarn.unblock(names),
            Command::Report(event) => {
                if self.leader.is_some() {
                    self.backlog.push_back(event);
                }
            }
        }
    }

    fn launch(&mut self, id: ResourceId, request: u64) {
        let worker = self.requests.remove(&request);
        let container = self.containers.get(&id).cloned();
        let node = container.as_ref().and_then(|c| c.node_id.clone()).unwrap_or_default();
        let (Some(worker), Some(container)) = (worker, container) else {
            let cause = "its request or its container is not known".to_owned();
            return self.step(Event::LaunchFailed { id, cause });
        };
        let Some(token) = self.yarn.nm_token(&node) else {
            let cause = format!("YARN gave no token for node {node}");
            return self.step(Event::LaunchFailed { id, cause });
        };
        let launch = self.plan.launch(&id, &worker);
        let nodes = self.nodes.clone().with_deadline(LAUNCH_WITHIN);
        self.work.push(Box::pin(async move {
            let started = nodes.start(&container, &token, launch).await;
            let why = |error| format!("node {node} did not start its container: {error}");
            Some(Answer { id, refusal: started.err().map(why) })
        }));
    }

    fn stop(&mut self, id: &ResourceId) {
        let Some(container) = self.containers.get(id) else { return };
        let Some(container_id) = container.id else { return };
        let node: NodeId = container.node_id.clone().unwrap_or_default();
        let (yarn, nodes) = (self.yarn.clone(), self.nodes.clone().with_deadline(STOP_WITHIN));
        let token = yarn.nm_token(&node);
        self.work.push(Box::pin(async move {
            if let Some(token) = token
                && let Err(error) = nodes.stop(&node, &token, container_id).await
            {
                tracing::debug!(container = %container_id, %node, %error, "not stopped by its node");
            }
            yarn.release(container_id);
            None
        }));
    }
}
