//! The table of other processes: for each its one connection, or the attempt to make it with its back-off. It must
//! never dial itself, nor decide what a loss means.

use crate::{address::NodeAddress, connection::Connection, error::FabricError};
use dashmap::DashMap;
use hashbrown::DefaultHashBuilder;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
/// leaves the table when its loss is confirmed, at the latest 1 s (`RpcOptions::reconnect_max`) after the pause that
/// follows the last attempt to connect.
#[derive(Default)]
pub(crate) struct Peers(DashMap<NodeAddress, Arc<Peer>, DefaultHashBuilder>);

/// One of them.
#[derive(Default)]
pub(crate) struct Peer {
    state: Mutex<State>,
    pub(crate) changed: Notify,
}

/// The state of a process's connection.
#[derive(Default)]
pub(crate) enum State {
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
pub(crate) enum Step {
    Use(Arc<Connection>),
    /// Start an attempt at once. The value is the pause that followed the last failed attempt (0 if there was none); if this one fails too,
    /// the next pause is computed from it.
    Dial(Duration),
    /// Wait for an attempt that is under way.
    Wait,
}

impl Peer {
    /// Returns what a caller does that wants a connection; it has `waited` for an attempt already, or heeds the back-off if
    /// `back_off` is true.
    ///
    /// # Errors
    /// The last attempt's failure, after a wait or within the back-off.
    pub(crate) fn next_step(&self, back_off: bool, waited: bool) -> Result<Step, FabricError> {
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

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
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
    pub(crate) fn peer(&self, node: &NodeAddress) -> Arc<Peer> {
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
    pub(crate) fn forget_failed(&self, node: &NodeAddress, until: Instant) {
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
