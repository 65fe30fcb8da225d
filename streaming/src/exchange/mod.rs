//! The exchange of one task process: typed batches inside the process, credit-based streams between processes.
//!
//! A consumer names the attempts of the producers from which it takes data; producer and consumer may start in any order, and
//! the first waits for the other. Channels cost next to nothing until data flows. The exchange must never block a task's
//! thread: a full channel refuses an element and wakes the task later.
//!
//! # Credits between processes
//!
//! Both ends of a channel count the bytes of its elements from the first one on; such a count is a *position*. The
//! producer sends an element if the element ends at or before the channel's limit. The limit starts at the
//! overdraft, 1 KiB, so that events and tiny batches need no round trip.
//!
//! The producer announces elements beyond the limit: the positions at which the first and the last waiting element end. The consumer's gate
//! takes memory for all of them if the gate's share of the budget has room and the consumer's rate sets no bound, else for the first one,
//! and raises the limit by what it took: a grant. If there is no room even for the first one, the channel queues until the consumer has
//! taken something.
//!
//! Bytes that arrive without a grant use up the channel's overdraft. The gate raises the limit again when the
//! consumer takes the elements that these bytes belong to.
//!
//! If nothing waits in the gate and nothing granted is under way, the first announced element is granted however
//! full the budget is. Elements of paused channels count for neither, and paused channels are granted nothing.
//! Therefore a gate exceeds the budget by one element that its consumer can take, by the overdraft of its remote channels,
//! and by one such element in each channel that was paused afterwards.
//!
//! This rule requires that every grant is used. A grant ends where an announced element ends, and announced
//! elements are never withdrawn, so a granted byte always arrives. An announcement that arrives twice, or after its
//! elements, names positions for which memory was taken before, and takes none.
//!
//! For example, a producer has sent 900 bytes, and its next element has 900 bytes too. That element ends at 1800, beyond the limit of 1024,
//! so the producer announces 1800. The budget is full and an element of another channel waits in the gate, so the channel queues. The
//! consumer takes the first element and the gate raises the limit to 1924; the second element arrives as overdraft. When the gate has room
//! at last, memory up to 1800 is taken already, and the old announcement is granted nothing. Had 900 bytes been granted instead, the gate
//! would wait for bytes that never arrive, and with the budget full its other channels would wait for ever.

mod connection;
mod debloat;
mod gate;
mod hub;
mod incoming;
mod inflow;
mod outflow;
mod outgoing;
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
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::runtime::Handle;
use wire::{Frame, Request};

/// The limits of an exchange, the transport of batches between subtasks (one per task process): how many bytes and records may wait in
/// it, and how long a consumer tries to reach its producers.
#[derive(Debug, Clone)]
pub struct ExchangeOptions {
    /// The network budget: bytes that may wait in the exchange of the process, of all tasks together. Default 64 MiB. Producers wait once
    /// what waits for their consumer's input would exceed what is left free. So that no task waits for ever, the budget may be exceeded by
    /// one element per input, paused channel and channel to another process, by 1 KiB per channel from another process, and by the batches
    /// that producers have not sent yet. The buffers of a connection are not in it: 640 KiB of what it receives at most, and 512 KiB of
    /// what it sends; they are freed once the connection has been idle for 1 s.
    pub network_memory: u64,
    /// Maximum time for which a consumer tries to connect to a data port that does not answer; then its task fails with
    /// `DataConnectionFailed`. A port that proves to be another one (wrong key, another process) fails it at once. Default 30 s.
    pub connect_timeout: Duration,
    /// Maximum time for which a consumer of this process waits for producers in another one that are not deployed yet; then its task fails
    /// with `DataRequestRefused`; a part of a millisecond counts as a whole one. Zero: for ever. Default 300 s.
    pub producer_timeout: Duration,
    /// Bound in time on what waits for a consumer: its channels hold no more records than it takes within this time at its measured rate,
    /// but at least one element each; beyond it producers wait (Flink's buffer debloating). `None`: no such bound. Default 1 s.
    pub debloat_target: Option<Duration>,
}

impl Default for ExchangeOptions {
    fn default() -> Self {
        Self {
            network_memory: 64 << 20,
            connect_timeout: Duration::from_secs(30),
            producer_timeout: Duration::from_secs(300),
            debloat_target: Some(Duration::from_secs(1)),
        }
    }
}

/// The producing subtasks of an edge, with their attempts and the addresses of their processes, for [`InputEdge`]. There is one table per
/// edge, which all consumers in the process share.
#[derive(Debug, Clone)]
pub struct Producers {
    /// The distinct data addresses, `host:port`, of the producers' processes. Data of the exchange's own address passes inside the process.
    pub addresses: Arc<[String]>,
    /// The producing subtasks in the order of their indices: for each its attempt, and the index of its address in `addresses`.
    pub subtasks: Arc<[(u32, u32)]>,
}

/// The settings of one edge of an input, for [`Exchange::open_input`].
#[derive(Clone)]
pub struct InputEdge {
    /// Id of the edge in the job graph.
    pub edge: EdgeId,
    /// The distribution of records: `Forward` connects subtasks of the same index, all others connect all with all.
    pub ship: ShipStrategy,
    /// The producing subtasks: their attempts and addresses.
    pub producers: Producers,
    /// The codec for batches of the edge's records.
    pub codec: Arc<dyn EdgeCodec>,
}

/// The settings of one edge of an output, for [`Exchange::open_output`].
#[derive(Clone)]
pub struct OutputEdge {
    /// Id of the edge in the job graph.
    pub edge: EdgeId,
    /// The distribution of records: `Forward` connects subtasks of the same index, all others connect all with all.
    pub ship: ShipStrategy,
    /// Number of consuming subtasks; not used on a forward edge.
    pub consumers: u32,
    /// The codec for batches of the edge's records.
    pub codec: Arc<dyn EdgeCodec>,
    /// True if batches are encoded and decoded inside the process too, as they always are between processes; for tests of codecs.
    pub force_serialization: bool,
}

/// The exchange of one task process: it hands batches from producing to consuming subtasks, in the process and over TCP. Clones are cheap
/// handles to it. Dropping the last one closes the data port only: connections last until [`Exchange::shutdown`], or until their peers end
/// them or request data on them.
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
    /// The hubs by execution graph and edge; removed when their execution graph is retired.
    hubs: BTreeMap<(u64, EdgeId), Arc<Hub>>,
    /// The last [`RETIRED_MAX`] execution graphs that have ended, oldest first.
    retired: VecDeque<u64>,
}

/// Number of ended execution graphs whose late requests are refused. Such requests arrive soon or never.
const RETIRED_MAX: usize = 64;

impl Hubs {
    fn retire(&mut self, graph: u64) {
        self.hubs.retain(|(of, _), _| *of != graph);
        if !self.retired.contains(&graph) {
            let surplus = (self.retired.len() + 1).saturating_sub(RETIRED_MAX);
            self.retired.drain(..surplus);
            self.retired.push_back(graph);
        }
    }
}

impl Exchange {
    /// Creates an exchange and starts to accept connections on `port`, in tasks of `runtime`. `None` if there are no other task processes:
    /// a task with a producer at another address than `local` then fails with `DataConnectionFailed`.
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

    /// Returns the address, `host:port`, at which other processes reach the exchange; `local` if it has no data port.
    pub fn address(&self) -> &str {
        self.shared.peers.own_address()
    }

    /// Returns the network budget, from which waiting elements take their memory, in bytes. Its limit can be changed while tasks run.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.shared.memory
    }

    /// Ends an execution graph (the job's run under one JobMaster, by its id): drops its edges' tables and refuses later requests of remote
    /// consumers: their tasks fail with `DataRequestRefused`. The last 64 ended graphs are remembered for that. Open ports go on.
    pub fn retire(&self, graph: u64) {
        lock(&self.shared.hubs).retire(graph);
    }

    /// Ends all connections and stops accepting new ones. Tasks that use a connection fail with `DataConnectionLost`; channels inside
    /// the process go on. An input that is opened afterwards still dials its producers' processes.
    pub fn shutdown(&self) {
        self.shared.peers.shutdown();
    }

    /// Opens the consuming end of an input and connects it with its producers. Returns at once; remote producers are connected in the
    /// background. Channels are numbered consecutively over the edges, in their order: one per producing subtask, or one on a forward
    /// edge.
    ///
    /// Failures fail the task, now or later: `Superseded` if a later attempt of the subtask is here, `DataConnectionFailed`,
    /// `DataRequestRefused` or `DataConnectionLost` for a remote producer, `DeploymentMismatch` for one without address, `CodecError` for
    /// bytes that can't be decoded. Dropping the port releases its producers: they drop what they still send if the task has succeeded,
    /// else they wait until they are stopped.
    pub fn open_input(&self, task: &Arc<TaskControl>, edges: Vec<InputEdge>) -> Box<dyn InputPort> {
        let channels = edges.iter().map(InputEdge::channels).sum();
        let gate = Gate::new(
            channels,
            task.signal().clone(),
            Arc::clone(&self.shared.memory),
            self.shared.options.debloat_target,
        );
        let mut port = InPort {
            task: Arc::clone(task),
            gate,
            edges: Vec::with_capacity(edges.len()),
            channels,
            ended: 0,
            records: 0,
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

    /// Opens the producing end of an edge, with one channel per consuming subtask, or one on a forward edge. A channel's consumer is looked
    /// up when the first element is sent. Fails the task with `Superseded` if a later attempt of its subtask has opened the edge here or,
    /// at that look-up, is expected by a consumer; `DataConnectionLost` if a consumer's connection ends; `CodecError` for a batch that
    /// cannot be encoded.
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
            force_serialization: output.force_serialization,
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

    /// Returns the producers of a consumer: subtask, attempt, address index, channel within the edge.
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

    /// Connects one edge of a consumer with its producers in this process and in others.
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

    /// Requests the output of producers in another process. Runs on the tokio runtime, because connecting may take long.
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
                    let wait_ms = shared.options.producer_timeout.as_micros().div_ceil(1_000);
                    let wait_ms = u32::try_from(wait_ms).unwrap_or(u32::MAX);
                    // Under the lock, so that a port that closes meanwhile either prevents the request or releases the link.
                    let mut links = lock(&links);
                    if links.closed == Some(Closed::Aborted) {
                        return;
                    }
                    let link = connection.request(&task, &gate, edge.0, wait_ms, &producers);
                    match links.closed {
                        // The consumer finished without this data: its producers must know, or they would wait for it.
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

    /// Handles the request of a consumer in another process, or refuses it.
    fn accept_request(self: &Arc<Self>, connection: &Arc<Connection>, request: Request) {
        let refuse = |why: &str| {
            connection.send(&Frame::Refused { link: request.link, why });
        };
        if lock(&self.hubs).retired.contains(&request.graph) {
            return refuse("its execution graph has ended here");
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

    /// Refuses a request later if its producers have not started within its waiting time.
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
                    "{} of its producers did not start within {} s: subtasks {}",
                    missing.len(),
                    wait_ms / 1000,
                    few.join(", ")
                );
                connection.send(&Frame::Refused { link: id, why: &why });
            }
        });
    }
}

/// The links of an input's edge; each is added when its connection is established.
#[derive(Default)]
struct Links {
    open: Vec<Arc<LinkIn>>,
    closed: Option<Closed>,
}

impl Links {
    /// Closes the links: tells the producers that the consumer has finished, or was stopped.
    fn release(&mut self, finished: bool) {
        self.closed = Some(if finished { Closed::Finished } else { Closed::Aborted });
        for link in self.open.drain(..) {
            link.release(finished);
        }
    }
}
