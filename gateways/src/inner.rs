//! The RPC service of a process, as the fabric's own modules share it: its endpoints, peers and connections, and what is done
//! when a connection is needed or lost. A closed connection is a suspicion; it is confirmed or cleared within
//! `RpcOptions::suspicion_max`. It must never decide what becomes of a lost peer.

use crate::{
    address::NodeAddress,
    connection::Connection,
    disorder::Lines,
    endpoint::Registered,
    error::{Executed, FabricError},
    options::RpcOptions,
    peers::{Peer, PeerEvent, Peers, State, Step},
    spool::Space,
};
use dashmap::DashMap;
use hashbrown::DefaultHashBuilder;
use platform::{Platform, Strangers};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Peer events that a slow listener may lag behind.
const EVENTS_MAX: usize = 1024;

/// The state of a process's RPC service.
pub(crate) struct Inner {
    pub(crate) platform: Platform,
    pub(crate) options: RpcOptions,
    pub(crate) node: NodeAddress,
    /// Drawn at the start: tells this process from its predecessor at the same address.
    pub(crate) incarnation: u128,
    /// Room for long bodies that arrive.
    pub(crate) space: Space,
    /// Local calls that the simulation holds back.
    pub(crate) lines: Lines,
    pub(crate) endpoints: DashMap<String, Arc<Registered>, DefaultHashBuilder>,
    pub(crate) peers: Peers,
    pub(crate) events: broadcast::Sender<PeerEvent>,
    /// Ordered, so that a simulated shutdown is the same each time.
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
    numbers: AtomicU64,
    draining: AtomicBool,
    /// Ends the accept loop.
    pub(crate) closing: CancellationToken,
    /// Some connection has no more calls of its peer under way.
    pub(crate) idle: Arc<Notify>,
    /// Log limiter for peers that did not prove themselves.
    pub(crate) strangers: Mutex<Strangers>,
}

impl Inner {
    /// Makes the service of a process that is known as `node`.
    pub(crate) fn new(platform: Platform, options: RpcOptions, node: NodeAddress) -> Self {
        Self {
            incarnation: platform.random_u128(),
            space: Space::new(options.body_memory, options.body_folders.clone()),
            platform,
            options,
            node,
            lines: Lines::default(),
            endpoints: DashMap::default(),
            peers: Peers::default(),
            events: broadcast::Sender::new(EVENTS_MAX),
            connections: Mutex::default(),
            numbers: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            closing: CancellationToken::new(),
            idle: Arc::new(Notify::new()),
            strangers: Mutex::default(),
        }
    }

    /// Takes no more calls and no more connections. Returns the connections that are open.
    pub(crate) fn drain(&self) -> Vec<Arc<Connection>> {
        self.draining.store(true, Ordering::Release);
        self.closing.cancel();
        self.connections().values().cloned().collect()
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn keep_connection(&self, connection: &Arc<Connection>) {
        self.connections().insert(connection.number, Arc::clone(connection));
    }

    pub(crate) fn forget_connection(&self, number: u64) {
        let forgotten = self.connections().remove(&number);
        drop(forgotten);
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections().len()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub(crate) fn takes_calls(&self) -> Result<(), FabricError> {
        if self.is_stopping() { Err(FabricError::ShuttingDown) } else { Ok(()) }
    }

    /// Returns the endpoint that this process serves under a name.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Registered>, FabricError> {
        match self.endpoints.get(name) {
            Some(registered) => Ok(Arc::clone(&registered)),
            None => Err(FabricError::NoSuchEndpoint {
                peer: self.node.clone(),
                endpoint: name.chars().take(256).collect(),
            }),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing.cancel();
        let connections = std::mem::take(&mut *self.connections());
        for connection in connections.into_values() {
            connection.close("the service was dropped");
        }
    }
}

impl Inner {
    /// Returns the open connection to a process, or makes a new one. Within a back-off the last
    /// failure is returned at once. Has no time-out of its own: the caller sets one.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        node: &NodeAddress,
    ) -> Result<Arc<Connection>, FabricError> {
        self.connect_after(node, true).await
    }

    async fn connect_after(
        self: &Arc<Self>,
        node: &NodeAddress,
        back_off: bool,
    ) -> Result<Arc<Connection>, FabricError> {
        let mut waited = false;
        loop {
            self.takes_calls()?;
            let peer = self.peers.peer(node);
            let mut changed = std::pin::pin!(peer.changed.notified());
            changed.as_mut().enable();
            match peer.next_step(back_off, waited)? {
                Step::Use(connection) => return Ok(connection),
                Step::Dial(pause) => self.start_dialling(node, &peer, pause),
                Step::Wait => {}
            }
            changed.await;
            // Whoever waited for an attempt takes its outcome.
            waited = true;
        }
    }

    fn start_dialling(self: &Arc<Self>, node: &NodeAddress, peer: &Arc<Peer>, pause: Duration) {
        let (service, node) = (Arc::clone(self), node.clone());
        let mut dialling = Dialling { peer: Arc::clone(peer), outcome: State::Idle };
        let lane = self.platform.lane(self.options.io_lane);
        lane.spawn_local(async move {
            // A success is in place already: the new connection announced itself.
            let Err(error) = service.dial(&node).await else {
                return;
            };
            tracing::debug!(%node, %error, "connection attempt failed");
            let pause = next_pause(pause, &service.options);
            let until = Instant::now() + pause;
            dialling.outcome = State::Down { until, pause, error };
            drop(dialling);
            // Once nobody has called the process for longer than any pause, its back-off is no longer needed.
            let (forget_at, service) =
                (until + service.options.reconnect_max, Arc::downgrade(&service));
            tokio::time::sleep_until(forget_at).await;
            if let Some(service) = service.upgrade() {
                service.peers.forget_failed(&node, until);
            }
        });
    }

    /// Records that the connection's task has ended.
    pub(crate) fn connection_ended(self: &Arc<Self>, connection: &Arc<Connection>) {
        self.forget_connection(connection.number);
        let was_in_use = self.peers.disconnected(connection);
        let Some(node) = connection.peer.node.clone() else {
            return;
        };
        if !was_in_use || self.is_stopping() {
            return;
        }
        let left = connection.left.load(Ordering::Acquire);
        tracing::debug!(%node, why = connection.why(), "connection to a peer ended");
        if left || !connection.peer.dialable {
            let cause = if left { "it has shut down".to_owned() } else { connection.why() };
            self.peers.forget(&node);
            self.emit(PeerEvent::Confirmed { node, cause });
            return;
        }
        self.emit(PeerEvent::Suspected { node: node.clone() });
        let service = Arc::clone(self);
        let incarnation = connection.peer.incarnation;
        let lane = self.platform.lane(self.options.io_lane);
        lane.spawn_local(async move { service.settle(node, incarnation).await });
    }

    /// Confirms or clears a suspicion.
    async fn settle(self: Arc<Self>, node: NodeAddress, incarnation: u128) {
        let within = self.options.suspicion_max;
        let answered = tokio::time::timeout(within, self.connect_after(&node, false)).await;
        let cause = match answered {
            Ok(Ok(open)) if open.peer.incarnation == incarnation => {
                return self.emit(PeerEvent::Cleared { node });
            }
            Ok(Ok(_)) => "another incarnation answers at its address".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it did not answer a new connection within {within:?}"),
        };
        self.peers.forget(&node);
        self.emit(PeerEvent::Confirmed { node, cause });
    }

    /// Records that the peer said goodbye: no more calls are sent to it.
    pub(crate) fn peer_left(&self, connection: &Arc<Connection>) {
        tracing::debug!(peer = %connection.peer.label, "peer is shutting down");
        connection.pending.close_new(FabricError::Unreachable {
            peer: connection.peer.label.clone(),
            executed: Executed::No,
            why: "it is shutting down".to_owned(),
        });
    }

    /// Records that a process has connected. Another incarnation at its address has ended then.
    pub(crate) fn connection_began(&self, connection: &Arc<Connection>) {
        if let Some(former) = self.peers.connected(connection) {
            former.close("another incarnation connected from its address");
            if let Some(node) = former.peer.node.clone() {
                self.emit(PeerEvent::Confirmed {
                    node,
                    cause: "another incarnation connected from its address".to_owned(),
                });
            }
        }
    }

    fn emit(&self, event: PeerEvent) {
        tracing::debug!(?event, "peer");
        // Nobody listening is fine.
        let _ = self.events.send(event);
    }
}

/// An attempt to connect. However it ends (its lane may end first), every waiting caller is woken.
struct Dialling {
    peer: Arc<Peer>,
    outcome: State,
}

impl Drop for Dialling {
    fn drop(&mut self) {
        let outcome = std::mem::take(&mut self.outcome);
        let mut state = self.peer.state();
        if matches!(*state, State::Connecting) {
            *state = outcome;
        }
        drop(state);
        self.peer.changed.notify_waiters();
    }
}

fn next_pause(pause: Duration, options: &RpcOptions) -> Duration {
    if pause.is_zero() {
        options.reconnect_first
    } else {
        pause.saturating_mul(2).min(options.reconnect_max)
    }
}
