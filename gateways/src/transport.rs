//! Makes connections: dials, accepts and adopts streams. Every stranger is authenticated before a
//! single frame of it is read, outside of the accept loop, and within bounds of number, size and
//! time.

use crate::{
    address::NodeAddress,
    call::Principal,
    connection::{Connection, PeerInfo},
    driver::Driver,
    error::{Executed, FabricError},
    inner::Inner,
};
use platform::{
    BoxListener, BoxStream, HandshakeError, Identity, Introduction,
    auth::Party,
    handshake::{self, Peer},
};
use std::{
    future::Future,
    io,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Pause after the system refused to hand over a connection (out of descriptors, for one).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A handle to the stream to a peer, as `RpcService::adopt` returns it: waits for the stream's end, or closes it. Clones name the same
/// stream; dropping them leaves it open.
#[derive(Debug, Clone)]
pub struct PeerHandle {
    ended: CancellationToken,
    close: CancellationToken,
}

impl PeerHandle {
    /// Waits until the stream has ended: the peer closed it, died, did not introduce itself in time
    /// (`RpcOptions::handshake_timeout`), speaks another major version (as a user's program also a newer minor one) or another
    /// protocol, or this process closed it (also by `RpcService::shutdown`). Returns at once if the stream has ended already.
    pub async fn closed(&self) {
        self.ended.cancelled().await;
    }
    /// Requests that the stream be closed and returns at once. A stream whose peer has not introduced itself yet closes when the peer has,
    /// or has not in time. Calls to the peer that are under way then fail with `FabricError::Unreachable`, later ones too; the peer's own
    /// calls get no answer. The end of the stream is reported as [`PeerEvent::Confirmed`](crate::PeerEvent::Confirmed), like one that the
    /// peer causes, if the peer had introduced itself. May be repeated.
    pub fn close(&self) {
        self.close.cancel();
    }
}

impl Inner {
    fn introduction(&self, over_local: bool) -> Introduction {
        // A service without a port can be called back by its neighbours in the process only.
        let node =
            if self.node.is_local() && !over_local { String::new() } else { self.node.to_string() };
        Introduction { node, incarnation: self.incarnation }
    }

    /// Returns what this process shows to a peer; pipes inside a process have no TLS.
    fn party<'a>(&'a self, introduction: &'a Introduction, over_local: bool) -> Party<'a> {
        let tls = self.options.tls.as_ref().filter(|_| !over_local);
        Party { credentials: &self.options.credentials, introduction, tls }
    }

    /// Connects to a process and has it prove itself.
    pub(crate) async fn dial(
        self: &Arc<Self>,
        node: &NodeAddress,
    ) -> Result<Arc<Connection>, FabricError> {
        let lost = |why: String| FabricError::Unreachable {
            peer: node.clone(),
            executed: Executed::No,
            why,
        };
        let port = node
            .port()
            .ok_or_else(|| lost("it has no port, and no stream to it is open".to_owned()))?;
        let net = if node.is_local() { self.platform.local_net() } else { self.platform.net() };
        let options = &self.options;
        let stream = within(options.connect_timeout, net.connect(node.host(), port))
            .await
            .map_err(|error| lost(error.to_string()))?;
        let introduction = self.introduction(node.is_local());
        let party = self.party(&introduction, node.is_local());
        let proved = party.dial(&self.platform, stream, node.host());
        let (stream, peer) = tokio::time::timeout(options.handshake_timeout, proved)
            .await
            .map_err(|_| lost("the peer did not answer the handshake".to_owned()))?
            .map_err(|error| refused(node, error))?;
        let info = PeerInfo {
            node: Some(node.clone()),
            label: node.clone(),
            principal: principal(&peer),
            incarnation: peer.incarnation,
            dialable: true,
        };
        Ok(self.start_connection(stream, info))
    }

    fn start_connection(self: &Arc<Self>, stream: BoxStream, peer: PeerInfo) -> Arc<Connection> {
        let (read, write) = stream.split();
        let number = self.next_number();
        let idle = Arc::clone(&self.idle);
        let connection = Connection::new(number, peer, write, &self.options, idle);
        let connection = Arc::new(connection);
        self.keep_connection(&connection);
        let driver = (Arc::clone(&connection), Arc::clone(self));
        let lane = self.platform.lane(self.options.io_lane);
        lane.spawn_with(move || {
            let (connection, service) = driver;
            Driver::new(connection, &service, read)
        });
        self.connection_began(&connection);
        connection
    }

    pub(crate) fn start_accepting(self: &Arc<Self>, listener: BoxListener) {
        let service = Arc::downgrade(self);
        let closing = self.closing.clone();
        let handshakes = Arc::new(Semaphore::new(self.options.handshakes_max));
        let lane = self.platform.lane(self.options.io_lane);
        lane.spawn_local(async move {
            closing.run_until_cancelled(accept_all(service, listener, handshakes)).await;
        });
    }

    /// Makes an accepted stranger prove itself. On any failure the stream is closed without an
    /// answer.
    async fn greet(self: Arc<Self>, stream: BoxStream, from: String) {
        let options = &self.options;
        let over_local = self.node.is_local();
        let introduction = self.introduction(over_local);
        let party = self.party(&introduction, over_local);
        let proved = party.accept(&self.platform, stream);
        match tokio::time::timeout(options.handshake_timeout, proved).await {
            Ok(Ok((stream, peer))) => {
                let node = match peer.identity {
                    Identity::Cluster => peer.node.as_ref().and_then(|n| n.parse().ok()),
                    Identity::Host(_) => None,
                };
                let label = node.clone().unwrap_or_else(|| NodeAddress::new(&from));
                self.start_connection(
                    stream,
                    PeerInfo {
                        dialable: node.is_some(),
                        node,
                        label,
                        principal: principal(&peer),
                        incarnation: peer.incarnation,
                    },
                );
            }
            Ok(Err(error)) => {
                // Others scan ports, or have gone.
                let stranger = matches!(
                    error,
                    HandshakeError::Io(_) | HandshakeError::Malformed(_) | HandshakeError::Tls(_)
                );
                self.tell_refused(&from, &error.to_string(), !stranger);
            }
            Err(_) => self.tell_refused(&from, "it did not prove itself in time", false),
        }
    }

    /// Logs that a peer was refused, within bounds: see [`Strangers`](platform::Strangers).
    /// `ours` is true if the peer speaks as a process of a cluster does, so that a wrong
    /// configuration is likely.
    fn tell_refused(&self, from: &str, why: &str, ours: bool) {
        let now = self.platform.now();
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(untold_before) = strangers.refused(now) else { return };
        drop(strangers);
        if ours {
            tracing::warn!(from, why, untold_before, "refused a connection");
        } else {
            tracing::info!(from, why, untold_before, "refused a connection");
        }
    }

    pub(crate) fn adopt(
        self: &Arc<Self>,
        node: NodeAddress,
        mut stream: BoxStream,
        principal: Principal,
    ) -> PeerHandle {
        let handle =
            PeerHandle { ended: CancellationToken::new(), close: CancellationToken::new() };
        self.peers.expect(&node);
        let (service, mine) = (Arc::clone(self), handle.clone());
        let lane = self.platform.lane(self.options.io_lane);
        lane.spawn_local(async move {
            let _ended = mine.ended.drop_guard();
            let me = service.introduction(false);
            let of_program = matches!(principal, Principal::Host { .. });
            let introduced = handshake::introduce(&mut stream, &me, of_program);
            let introduced =
                tokio::time::timeout(service.options.handshake_timeout, introduced).await;
            let peer = match introduced {
                Ok(Ok(peer)) => peer,
                Ok(Err(error)) => {
                    tracing::warn!(%node, %error, "a given stream can't be used");
                    return service.peers.forget(&node);
                }
                Err(_) => {
                    tracing::warn!(%node, "the other end of a given stream is silent");
                    return service.peers.forget(&node);
                }
            };
            let info = PeerInfo {
                node: Some(node.clone()),
                label: node,
                principal,
                incarnation: peer.incarnation,
                dialable: false,
            };
            let connection = service.start_connection(stream, info);
            drop(service); // the stream must not keep the service alive
            let closed = mine.close.run_until_cancelled(connection.ended.cancelled());
            if closed.await.is_none() {
                connection.close("closed by this process");
            }
        });
        handle
    }
}

fn principal(peer: &Peer) -> Principal {
    match peer.identity {
        Identity::Cluster => Principal::Cluster,
        Identity::Host(job) => Principal::Host { job },
    }
}

fn refused(node: &NodeAddress, error: HandshakeError) -> FabricError {
    match error {
        HandshakeError::Version { theirs, ours } => FabricError::Incompatible {
            theirs: format!("protocol {theirs}"),
            ours: format!("protocol {ours}"),
        },
        HandshakeError::Cluster { theirs, ours } => FabricError::Incompatible {
            theirs: format!("cluster {theirs}"),
            ours: format!("cluster {ours}"),
        },
        HandshakeError::WrongSecret | HandshakeError::OtherJob => {
            FabricError::Forbidden { why: format!("{node}: {error}") }
        }
        HandshakeError::Io(_)
        | HandshakeError::Tls(_)
        | HandshakeError::Malformed(_)
        | HandshakeError::Unproved => FabricError::Unreachable {
            peer: node.clone(),
            executed: Executed::No,
            why: error.to_string(),
        },
    }
}

async fn within<T>(time: Duration, connect: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(time, connect).await {
        Ok(result) => result,
        Err(_) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {time:?}")))
        }
    }
}

async fn accept_all(service: Weak<Inner>, mut listener: BoxListener, handshakes: Arc<Semaphore>) {
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(service) = service.upgrade() else {
            return;
        };
        let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
            service.tell_refused(&from, "too many handshakes are under way", false);
            continue;
        };
        if service.connection_count() >= service.options.connections_max {
            service.tell_refused(&from, "there are too many connections", false);
            continue;
        }
        let lane = service.platform.lane(service.options.io_lane);
        lane.spawn_local(async move {
            service.greet(stream, from).await;
            drop(permit);
        });
    }
}
