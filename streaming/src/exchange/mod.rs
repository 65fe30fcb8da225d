//! The exchange of one task process: typed batches inside the process, credit-based streams between processes.
//!
//! A consumer says which attempts of its producers it means; whoever comes first waits for the other. Channels
//! cost next to nothing until data flows. It must never block a task's thread: a full channel refuses and wakes.
//!
//! # Credits between processes
//!
//! Both ends of a channel count the bytes of its elements from the first one on; a count is a *position*. The
//! producer sends an element when the element ends at or before the channel's limit. The limit starts at the
//! overdraft, 1 KiB, so that events and tiny batches need no round trip.
//!
//! An element beyond the limit is announced: the producer says where the first waiting element ends, and where the
//! last one does. The consumer's gate takes memory for all of them if the gate's share of the budget has room, else
//! for the first one, and raises the limit by what it took: a grant. If there is no room, the channel waits in line
//! until the consumer has taken something.
//!
//! Bytes that come without a grant use the channel's overdraft up. The consumer raises the limit again when it takes
//! the elements that these bytes are of.
//!
//! If nothing waits in the gate and nothing granted is under way, the first announced element is granted however
//! full the budget is. Elements of paused channels count for neither, and paused channels are granted nothing.
//! So a gate exceeds the budget by one element that its consumer can take, by the overdraft of its remote channels,
//! and by such an element in each channel that was paused afterwards.
//!
//! This rule needs grants that are always used. Every grant ends where an announced element ends, and announced
//! elements are never taken back, so a granted byte always comes. An announcement that arrives twice, or after its
//! elements, names positions for which memory was taken before, and takes none.
//!
//! For example, a producer has sent 900 bytes, and the next element has 900 bytes too. The element ends at 1800,
//! beyond the limit of 1024, and the producer announces 1800. The budget is full and an element of another channel
//! waits in the gate, so that the channel waits in line. The consumer takes the first element and raises the limit to
//! 1924; the second element comes as overdraft. When the gate has room at last, memory is taken up to 1800 already,
//! and the old announcement gets nothing. Were 900 bytes granted instead, the gate would wait for bytes that never
//! come, and with the budget full its other channels would wait for ever.

mod connection;
mod gate;
mod hub;
mod inflow;
mod outflow;
mod parcel;
mod peers;
mod ports;
pub mod wire;

#[cfg(test)]
mod tests;

use crate::{
    lock,
    memory::MemoryBudget,
    seam::{EdgeCodec, InputPort, OutputPort},
    task::TaskControl,
};
use connection::{Connection, LinkIn};
use gate::{Closed, Gate};
use hub::{Expected, Hub, LocalTarget, Superseded, Target};
use model::{EdgeId, FailureCause, ShipStrategy};
use outflow::LinkOut;
use peers::Peers;
pub use peers::{DataPort, DataPortError};
use ports::{Channel, InEdge, InPort, OutPort};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::runtime::Handle;
use wire::{Frame, Request};

/// How an exchange is made.
#[derive(Debug, Clone)]
pub struct ExchangeOptions {
    /// Bytes that may wait in it.
    pub network_memory: u64,
    /// Encode and decode inside the process as well: for tests.
    pub force_serialization: bool,
    /// How long a data port that does not answer is tried.
    pub connect_timeout: Duration,
    /// How long producers that are not deployed yet are waited for.
    pub producer_timeout: Duration,
}

impl Default for ExchangeOptions {
    fn default() -> Self {
        Self {
            network_memory: 64 << 20,
            force_serialization: false,
            connect_timeout: Duration::from_secs(30),
            producer_timeout: Duration::from_secs(300),
        }
    }
}

/// Where the producers of an edge run: one table per edge, shared by all consumers in the process.
#[derive(Debug, Clone)]
pub struct Producers {
    /// Distinct data addresses.
    pub addresses: Arc<[String]>,
    /// By subtask: attempt, and index into `addresses`.
    pub subtasks: Arc<[(u32, u32)]>,
}

/// One edge of an input.
#[derive(Clone)]
pub struct InputEdge {
    /// Which.
    pub edge: EdgeId,
    /// How records find their subtask.
    pub ship: ShipStrategy,
    /// Where they come from.
    pub producers: Producers,
    /// Its records.
    pub codec: Arc<dyn EdgeCodec>,
}

/// One output.
#[derive(Clone)]
pub struct OutputEdge {
    /// Which.
    pub edge: EdgeId,
    /// How records find their subtask.
    pub ship: ShipStrategy,
    /// Consuming subtasks.
    pub consumers: u32,
    /// Its records.
    pub codec: Arc<dyn EdgeCodec>,
}

/// The exchange of one task process. A cheap handle; the last one ends its connections.
#[derive(Clone)]
pub struct Exchange {
    shared: Arc<Shared>,
}

struct Shared {
    options: ExchangeOptions,
    memory: Arc<MemoryBudget>,
    hubs: Mutex<Hubs>,
    peers: Peers,
    runtime: Handle,
}

#[derive(Default)]
struct Hubs {
    /// By execution graph and edge; they go with their execution graph.
    hubs: BTreeMap<(u64, EdgeId), Arc<Hub>>,
    /// Execution graphs that are over.
    retired: BTreeSet<u64>,
}

impl Exchange {
    /// An exchange; `port` is where other processes reach it, `None` where there are none.
    pub fn new(options: ExchangeOptions, port: Option<DataPort>, runtime: Handle) -> Self {
        let memory = MemoryBudget::new(options.network_memory);
        let (listener, peers) = Peers::new(port);
        let shared = Arc::new(Shared { options, memory, hubs: Mutex::default(), peers, runtime });
        if let Some(listener) = listener {
            tracing::debug!(address = shared.peers.own_address(), "data port is open");
            shared.listen(listener);
        }
        Self { shared }
    }

    /// Where other processes reach it.
    pub fn address(&self) -> &str {
        self.shared.peers.own_address()
    }

    /// What waits in it.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.shared.memory
    }

    /// The execution graph is over: its consumers elsewhere are refused.
    pub fn retire(&self, graph: u64) {
        let mut hubs = lock(&self.shared.hubs);
        hubs.retired.insert(graph);
        hubs.hubs.retain(|(of, _), _| *of != graph);
        // Only those of late requests matter, and these come soon or never.
        if hubs.retired.len() > 64 {
            hubs.retired.pop_first();
        }
    }

    /// Ends all connections; tasks that need them fail.
    pub fn shutdown(&self) {
        self.shared.peers.shutdown();
    }

    /// The consuming end of an input, made of its edges. Channels are numbered through in their order.
    pub fn open_input(&self, task: &Arc<TaskControl>, edges: Vec<InputEdge>) -> Box<dyn InputPort> {
        let channels = edges.iter().map(InputEdge::channels).sum();
        let gate = Gate::new(channels, task.signal().clone(), Arc::clone(&self.shared.memory));
        let mut port = InPort {
            task: Arc::clone(task),
            gate,
            edges: Vec::with_capacity(edges.len()),
            channels,
            ended: 0,
        };
        let mut base = 0;
        for edge in edges {
            let width = u32::try_from(edge.channels()).unwrap_or(u32::MAX);
            let opened = self.shared.open_edge(task, &port.gate, base, edge);
            port.edges.push(opened);
            base += width;
        }
        Box::new(port)
    }

    /// The producing end of an edge.
    pub fn open_output(&self, task: &Arc<TaskControl>, output: OutputEdge) -> Box<dyn OutputPort> {
        let me = task.attempt();
        let hub = self.shared.hub(me.graph, output.edge);
        if let Err(Superseded { by }) = hub.put_producer(me.subtask, me.attempt) {
            superseded(task, by);
        }
        let (first_consumer, channels) = match output.ship {
            ShipStrategy::Forward => (me.subtask, 1),
            _ => (0, output.consumers as usize),
        };
        Box::new(OutPort {
            task: Arc::clone(task),
            hub,
            codec: output.codec,
            force_serialization: self.shared.options.force_serialization,
            first_consumer,
            channels: vec![Channel::Unknown; channels],
            refused: Vec::new(),
            memory: Arc::clone(&self.shared.memory),
            held: 0,
        })
    }
}

impl InputEdge {
    fn channels(&self) -> usize {
        match self.ship {
            ShipStrategy::Forward => 1,
            _ => self.producers.subtasks.len(),
        }
    }

    /// Producers of this consumer: subtask, attempt, address index, channel within the edge.
    fn producers_of(&self, consumer: u32) -> impl Iterator<Item = (u32, u32, u32, u32)> + '_ {
        let forward = self.ship == ShipStrategy::Forward;
        (0u32..)
            .zip(self.producers.subtasks.iter())
            .filter(move |(subtask, _)| !forward || *subtask == consumer)
            .map(move |(subtask, (attempt, address))| {
                (subtask, *attempt, *address, if forward { 0 } else { subtask })
            })
    }
}

fn superseded(task: &Arc<TaskControl>, by: u32) {
    task.fail(FailureCause::recoverable(
        "Superseded",
        format!("task '{}' is superseded by attempt {by}", task.name()),
    ));
}

impl Shared {
    fn hub(&self, graph: u64, edge: EdgeId) -> Arc<Hub> {
        let mut hubs = lock(&self.hubs);
        let hub = hubs.hubs.entry((graph, edge));
        Arc::clone(hub.or_insert_with(|| Arc::new(Hub::new(edge))))
    }

    /// Connects one edge of a consumer with its producers, here and elsewhere.
    fn open_edge(
        self: &Arc<Self>,
        task: &Arc<TaskControl>,
        gate: &Arc<Gate>,
        base: u32,
        edge: InputEdge,
    ) -> InEdge {
        let me = task.attempt();
        let own = self.peers.own_address();
        let own_index = edge.producers.addresses.iter().position(|a| a == own);
        let mut remote: BTreeMap<u32, Vec<(u32, u32, u32)>> = BTreeMap::new();
        let mut local = false;
        for (subtask, attempt, address, channel) in edge.producers_of(me.subtask) {
            if Some(address as usize) == own_index {
                local = true;
            } else {
                let producers = remote.entry(address).or_default();
                producers.push((subtask, attempt, base + channel));
            }
        }
        let hub = local.then(|| self.put_local(task, gate, base, &edge));
        let links = Arc::new(Mutex::new(Links::default()));
        for (address, producers) in remote {
            let Some(address) = edge.producers.addresses.get(address as usize) else {
                task.fail(FailureCause::fatal(
                    "DeploymentMismatch",
                    format!("task '{}': a producer has no address", task.name()),
                ));
                continue;
            };
            self.request(task, gate, edge.edge, address.clone(), producers, &links);
        }
        InEdge { base, edge: edge.edge, codec: edge.codec, hub, links }
    }

    fn put_local(
        &self,
        task: &Arc<TaskControl>,
        gate: &Arc<Gate>,
        base: u32,
        edge: &InputEdge,
    ) -> Arc<Hub> {
        let me = task.attempt();
        let hub = self.hub(me.graph, edge.edge);
        let expected = match edge.ship {
            ShipStrategy::Forward => {
                let attempt = edge.producers.subtasks.get(me.subtask as usize);
                Expected::One(me.subtask, attempt.map_or(0, |(attempt, _)| *attempt))
            }
            _ => Expected::All(Arc::clone(&edge.producers.subtasks)),
        };
        let target =
            Target::Local(Arc::new(LocalTarget { gate: Arc::clone(gate), base, expected }));
        if let Err(Superseded { by }) = hub.put_consumer(me.subtask, me.attempt, target) {
            superseded(task, by);
        }
        hub
    }

    /// Asks another process, on the runtime: connecting may take its time.
    fn request(
        self: &Arc<Self>,
        task: &Arc<TaskControl>,
        gate: &Arc<Gate>,
        edge: EdgeId,
        address: String,
        producers: Vec<(u32, u32, u32)>,
        links: &Arc<Mutex<Links>>,
    ) {
        let shared = Arc::clone(self);
        let (task, gate, links) = (Arc::clone(task), Arc::clone(gate), Arc::clone(links));
        self.runtime.spawn(async move {
            match shared.connect(&address).await {
                Ok(connection) => {
                    let wait_ms = shared.options.producer_timeout.as_millis();
                    let wait_ms = u32::try_from(wait_ms).unwrap_or(u32::MAX);
                    // Under the lock, so that a port that closes meanwhile either prevents it or releases it.
                    let mut links = lock(&links);
                    if links.closed == Some(Closed::Aborted) {
                        return;
                    }
                    let link = connection.request(&task, &gate, edge.0, wait_ms, &producers);
                    match links.closed {
                        // It needed nothing: its producers must know, or they would wait for it.
                        Some(_) => link.release(true),
                        None => links.open.push(link),
                    }
                }
                Err(why) => task.fail(FailureCause::recoverable(
                    "DataConnectionFailed",
                    format!(
                        "task '{}' can't connect to {address}, where producers of edge {} run: {why}",
                        task.name(),
                        edge.0
                    ),
                )),
            }
        });
    }

    /// A consumer in another process asks.
    fn accept_request(self: &Arc<Self>, connection: &Arc<Connection>, request: Request) {
        let refuse = |why: &str| {
            connection.send(&Frame::Refused { link: request.link, why });
        };
        if lock(&self.hubs).retired.contains(&request.graph) {
            return refuse("its execution graph is over here");
        }
        let hub = self.hub(request.graph, EdgeId(request.edge));
        let producers: BTreeMap<u32, (u32, u32)> = (0u32..)
            .zip(&request.producers)
            .map(|(index, (subtask, attempt))| (*subtask, (index, *attempt)))
            .collect();
        for (subtask, (_, attempt)) in &producers {
            if let Some(newest) = hub.producer(*subtask)
                && newest > *attempt
            {
                return refuse(&format!(
                    "producer {subtask} runs as attempt {newest}, attempt {attempt} is superseded"
                ));
            }
        }
        let link = LinkOut::new(
            request.link,
            connection,
            &hub,
            (request.consumer, request.attempt),
            producers,
            Arc::clone(&self.memory),
        );
        let target = Target::Remote(Arc::clone(&link));
        connection.put_link_out(request.link, Arc::clone(&link));
        if let Err(Superseded { by }) = hub.put_consumer(request.consumer, request.attempt, target)
        {
            connection.drop_link_out(request.link);
            return refuse(&format!("consumer {} is superseded by attempt {by}", request.consumer));
        }
        if request.wait_ms > 0 {
            self.watch_producers(connection, &link, &request);
        }
    }

    /// Refuses the request when its producers have not come in time.
    fn watch_producers(
        &self,
        connection: &Arc<Connection>,
        link: &Arc<LinkOut>,
        request: &Request,
    ) {
        let (connection, link) = (Arc::downgrade(connection), Arc::downgrade(link));
        let (id, wait_ms) = (request.link, request.wait_ms);
        self.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(u64::from(wait_ms))).await;
            let (Some(connection), Some(link)) = (connection.upgrade(), link.upgrade()) else {
                return;
            };
            let missing = link.missing();
            if !missing.is_empty() && connection.drop_link_out(id) {
                let few: Vec<String> = missing.iter().take(8).map(u32::to_string).collect();
                let why = format!(
                    "{} of its producers did not come within {} s: subtasks {}",
                    missing.len(),
                    wait_ms / 1000,
                    few.join(", ")
                );
                connection.send(&Frame::Refused { link: id, why: &why });
            }
        });
    }
}

/// The links of an input's edge; they come when their connections are there.
#[derive(Default)]
struct Links {
    open: Vec<Arc<LinkIn>>,
    closed: Option<Closed>,
}

impl Links {
    /// Tells the producers that the consumer is gone.
    fn release(&mut self, finished: bool) {
        self.closed = Some(if finished { Closed::Finished } else { Closed::Aborted });
        for link in self.open.drain(..) {
            link.release(finished);
        }
    }
}
