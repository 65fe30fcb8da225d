//! Other processes: one connection each, made when it is first needed, made again with back-off, and
//! what its loss means. A closed connection is a suspicion; it is confirmed or cleared within
//! `RpcOptions::suspicion_max`. It must never decide what becomes of a lost peer.

use crate::{
    address::NodeAddress,
    connection::Connection,
    error::{Executed, FabricError},
    options::RpcOptions,
    rpc::Inner,
};
use dashmap::DashMap;
use hashbrown::DefaultHashBuilder;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A finding of the RPC service about another process, as [`RpcService::peer_events`](crate::RpcService::peer_events)
/// gives it out. A `Suspected` is followed by `Confirmed` or `Cleared`; a `Confirmed` may also come alone. The service only reports:
/// whoever reads the events (the heartbeat service does) decides what a loss means. None comes for connections that never stood, and none
/// for those that end once this service shuts down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerEvent {
    /// The peer's connection closed unannounced, or this service gave it up: nothing was heard for `RpcOptions::silence_max`, the peer
    /// broke the protocol, or it did not read its answers. The service now
    /// dials the peer once, for at most `RpcOptions::suspicion_max`; calls to the peer use the new connection if there is one.
    Suspected {
        /// The process that is suspected: its address, by which calls reach it.
        node: NodeAddress,
    },
    /// The peer is gone: it refused the new connection (which confirms at once) or did not answer it in time, said goodbye and closed, its
    /// adopted stream (which cannot be dialled again) ended, or another incarnation of it (a process started later) has connected from
    /// its address or answers there. Calls to the address are still possible; the next one dials again.
    Confirmed {
        /// The process that is gone: the address by which calls reached it.
        node: NodeAddress,
        /// Reason as text for people; no code depends on it.
        cause: String,
    },
    /// The same incarnation (the process that had been connected) answered again in time: the suspicion is over.
    Cleared {
        /// The process that answered again: its address, by which calls reach it.
        node: NodeAddress,
    },
}

/// All processes that are connected, are being connected, or could recently not be connected. A process that is gone
/// leaves the table when its loss is confirmed, at the latest 1 s ([`RpcOptions::reconnect_max`]) after the pause that
/// follows the last attempt to connect.
#[derive(Default)]
pub(crate) struct Peers(DashMap<NodeAddress, Arc<Peer>, DefaultHashBuilder>);

/// One of them.
#[derive(Default)]
pub(crate) struct Peer {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Connecting,
    Up(Arc<Connection>),
    Down {
        until: Instant,
        pause: Duration,
        error: FabricError,
    },
}

/// The next step of a caller that wants a connection.
enum Step {
    Use(Arc<Connection>),
    /// Start an attempt; the value is the pause before it.
    Dial(Duration),
    /// Wait for an attempt that is under way.
    Wait,
}

impl Peer {
    fn next_step(&self, back_off: bool, waited: bool) -> Result<Step, FabricError> {
        let mut state = self.state();
        let pause = match &*state {
            State::Up(open) if open.is_open() => return Ok(Step::Use(Arc::clone(open))),
            State::Connecting => return Ok(Step::Wait),
            State::Down { until, error, .. } if waited || (back_off && Instant::now() < *until) => {
                return Err(error.clone());
            }
            State::Down { pause, .. } => *pause,
            State::Idle | State::Up(_) => Duration::ZERO,
        };
        *state = State::Connecting;
        Ok(Step::Dial(pause))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn up(&self) -> Option<Arc<Connection>> {
        match &*self.state() {
            State::Up(connection) if connection.is_open() => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    fn set(&self, state: State) {
        *self.state() = state;
        self.changed.notify_waiters();
    }
}

impl Peers {
    fn peer(&self, node: &NodeAddress) -> Arc<Peer> {
        if let Some(peer) = self.0.get(node) {
            return Arc::clone(&peer);
        }
        Arc::clone(&self.0.entry(node.clone()).or_default())
    }

    /// Returns the open connection to a process, `None` if there is none.
    pub(crate) fn up(&self, node: &NodeAddress) -> Option<Arc<Connection>> {
        self.0.get(node)?.up()
    }

    /// Records that a connection is about to be made by other means than dialling.
    pub(crate) fn expect(&self, node: &NodeAddress) {
        self.peer(node).set(State::Connecting);
    }

    /// Forgets a process, unless it is connected.
    pub(crate) fn forget(&self, node: &NodeAddress) {
        let removed = self.0.remove_if(node, |_, peer| peer.up().is_none());
        if let Some((_, peer)) = removed {
            peer.set(State::Idle); // those who wait dial anew
        }
    }

    /// Removes a process that could not be connected, unless it was called again since: `until` is the end of the pause
    /// after the failed attempt.
    fn forget_failed(&self, node: &NodeAddress, until: Instant) {
        self.0.remove_if(node, |_, peer| {
            matches!(&*peer.state(), State::Down { until: newest, .. } if *newest == until)
        });
    }

    /// Returns the number of known processes: connected, being connected, or recently failed.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Records that a process has connected (or was connected to): calls to it use this connection
    /// from now on, unless another one to the same incarnation is open. Returns a connection to a
    /// former incarnation.
    pub(crate) fn connected(&self, connection: &Arc<Connection>) -> Option<Arc<Connection>> {
        let node = connection.peer.node.as_ref()?;
        let peer = self.peer(node);
        let mut state = peer.state();
        let mut former = None;
        if let State::Up(open) = &*state {
            if open.is_open() && open.peer.incarnation == connection.peer.incarnation {
                return None;
            }
            if open.peer.incarnation != connection.peer.incarnation {
                former = Some(Arc::clone(open));
            }
        }
        *state = State::Up(Arc::clone(connection));
        drop(state);
        peer.changed.notify_waiters();
        former
    }

    /// Returns true if calls to its node went over this connection.
    pub(crate) fn disconnected(&self, connection: &Arc<Connection>) -> bool {
        let Some(node) = &connection.peer.node else {
            return false;
        };
        let Some(peer) = self.0.get(node).map(|p| Arc::clone(&p)) else {
            return false;
        };
        let mut state = peer.state();
        match &*state {
            State::Up(open) if Arc::ptr_eq(open, connection) => {
                *state = State::Idle;
                true
            }
            _ => false,
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
