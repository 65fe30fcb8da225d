//! The data port and the connections to other task processes: one per pair, whichever side dials. A peer that does not prove
//! that it has the job's key, and where the cluster uses TLS a certificate of its authority, must not be able to do anything but
//! make this process close the connection.

use super::{Connection, Shared};
use crate::lock;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared as SharedFuture},
};
use platform::{
    BoxListener, BoxStream, Credentials, HandshakeError, Introduction, Platform, PortSpec,
    Strangers, Tls, auth::Party,
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};

/// Maximum duration of a handshake, that of TLS included, and of establishing a TCP connection.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum number of incoming handshakes at the same time.
const HANDSHAKES_MAX: usize = 64;
/// Pause between two attempts to connect: doubles from the first to the last value.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// A bound port at which other task processes of the job reach this one. Nothing is accepted before the port is given to
/// [`Exchange::new`](super::Exchange::new). Dropping it closes the port.
#[derive(derive_more::Debug)]
#[debug("DataPort({})", self.address())]
pub struct DataPort {
    listener: BoxListener,
    me: Me,
}

/// The identity of this process in handshakes.
#[derive(Clone)]
struct Me {
    platform: Platform,
    credentials: Credentials,
    introduction: Introduction,
    tls: Option<Tls>,
}

/// The error of [`DataPort::bind`]: no port of the list could be bound, or the list is empty.
#[derive(Debug, Error)]
pub enum DataPortError {
    /// None of the ports can be bound, for instance because all of them are in use or the host has no such address.
    #[error("no data port of {ports} can be bound on {host}: {source}")]
    Bind {
        /// The ports that were tried.
        ports: PortSpec,
        /// The host or interface to bind on.
        host: String,
        /// The system's error for the last port, or "no port is given".
        source: io::Error,
    },
}

impl DataPort {
    /// Binds the first free port of `ports`, in their order, on `bind_host`; other processes connect to `advertised_host`. `credentials`
    /// contain the job's key, which both sides of a connection prove to have within 5 s; while 64 incoming connections do so, further ones
    /// are closed. With `tls` all connections of the exchange use TLS: the certificate must name `advertised_host`, and peers without a
    /// certificate of the same authority are refused. Must run on the runtime that will serve the port.
    ///
    /// # Errors
    /// Fails with [`DataPortError::Bind`] if none of the ports can be bound, or `ports` is empty.
    pub async fn bind(
        platform: &Platform,
        bind_host: &str,
        advertised_host: &str,
        ports: &PortSpec,
        credentials: Credentials,
        tls: Option<Tls>,
    ) -> Result<Self, DataPortError> {
        let mut last = io::Error::other("no port is given");
        for port in ports.iter() {
            match platform.net().listen(bind_host, port).await {
                Ok(listener) => {
                    let node = format!("{advertised_host}:{}", listener.local_port());
                    let introduction = Introduction { node, incarnation: platform.random_u128() };
                    let me = Me { platform: platform.clone(), credentials, introduction, tls };
                    return Ok(Self { listener, me });
                }
                Err(error) => last = error,
            }
        }
        Err(DataPortError::Bind { ports: ports.clone(), host: bind_host.to_owned(), source: last })
    }

    /// Returns the address, `host:port`, at which other processes reach the port: the advertised host and the port that was bound.
    pub fn address(&self) -> &str {
        &self.me.introduction.node
    }
}

type Dial = SharedFuture<BoxFuture<'static, Result<Arc<Connection>, String>>>;

/// The table of an exchange's connections.
pub(super) struct Peers {
    address: String,
    me: Option<Me>,
    table: Mutex<BTreeMap<String, Peer>>,
    strangers: Mutex<Strangers>,
    /// Set to true when the exchange ends.
    end: watch::Sender<bool>,
}

enum Peer {
    Dialling(Dial),
    Up(Arc<Connection>),
}

/// The reason why a connection was not established.
#[derive(Debug, Error)]
enum NoConnection {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the handshake failed: {0}")]
    Handshake(HandshakeError),
    #[error("the handshake took longer than {} s", HANDSHAKE_LIMIT.as_secs())]
    Slow,
    #[error("{0}")]
    Wrong(String),
}

impl From<HandshakeError> for NoConnection {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Io(error) => Self::Io(error),
            other => Self::Handshake(other),
        }
    }
}

impl NoConnection {
    /// Returns whether another attempt to connect is useless.
    fn is_final(&self) -> bool {
        !matches!(self, Self::Io(_) | Self::Slow)
    }
}

impl Peers {
    pub(super) fn new(port: Option<DataPort>) -> (Option<BoxListener>, Self) {
        let (listener, me) = match port {
            Some(port) => (Some(port.listener), Some(port.me)),
            None => (None, None),
        };
        let address = me.as_ref().map_or("local", |me| &me.introduction.node).to_owned();
        let (table, strangers) = Default::default();
        let peers = Self { address, me, table, strangers, end: watch::Sender::new(false) };
        (listener, peers)
    }

    /// Logs, within the bounds of [`Strangers`], that a connection to the data port was refused.
    fn tell_refused(&self, from: &str, why: &str) {
        let Some(me) = &self.me else { return };
        let Some(untold_before) = lock(&self.strangers).refused(me.platform.now()) else { return };
        tracing::warn!(from, why, untold_before, "a connection to the data port was refused");
    }

    pub(super) fn own_address(&self) -> &str {
        &self.address
    }

    pub(super) fn shutdown(&self) {
        self.end.send_replace(true);
        let table = std::mem::take(&mut *lock(&self.table));
        for peer in table.values() {
            if let Peer::Up(connection) = peer {
                connection.lose("the exchange of this process ended");
            }
        }
    }

    /// Adds a connection that a peer has dialled to the table, unless this process's own dial takes precedence.
    fn put_inbound(&self, connection: &Arc<Connection>) {
        let mut table = lock(&self.table);
        let peer = connection.peer();
        let replace = match table.get(peer) {
            None => true,
            // If both sides dial, the dial of the smaller address wins, on both sides.
            Some(Peer::Dialling(_)) => peer < self.address.as_str(),
            // A peer with a live connection would not dial.
            Some(Peer::Up(there)) => there.lost_because().is_some(),
        };
        if replace {
            table.insert(peer.to_owned(), Peer::Up(Arc::clone(connection)));
        }
    }

    /// Adds a connection that this process has dialled. Returns the connection to use, which may be one that the peer has dialled,
    /// and whether it is the given one.
    fn put_dialled(&self, connection: Arc<Connection>) -> (Arc<Connection>, bool) {
        let mut table = lock(&self.table);
        if let Some(Peer::Up(there)) = table.get(connection.peer())
            && there.lost_because().is_none()
        {
            return (Arc::clone(there), false);
        }
        table.insert(connection.peer().to_owned(), Peer::Up(Arc::clone(&connection)));
        (connection, true)
    }

    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        lock(&self.table).values().filter(|peer| matches!(peer, Peer::Up(_))).count()
    }

    fn forget(&self, connection: &Arc<Connection>) {
        let mut table = lock(&self.table);
        if let Some(Peer::Up(there)) = table.get(connection.peer())
            && Arc::ptr_eq(there, connection)
        {
            table.remove(connection.peer());
        }
    }
}

impl Shared {
    /// Returns the connection to a task process, dialling if there is none. Concurrent calls share one dial. The error is a text
    /// for the failure cause of the asking task.
    pub(super) async fn connect(
        self: &Arc<Self>,
        address: &str,
    ) -> Result<Arc<Connection>, String> {
        let dial = {
            let mut table = lock(&self.peers.table);
            match table.get(address) {
                Some(Peer::Up(connection)) if connection.lost_because().is_none() => {
                    return Ok(Arc::clone(connection));
                }
                Some(Peer::Dialling(dial)) if dial.peek().is_none() => dial.clone(),
                _ => {
                    let shared = Arc::downgrade(self);
                    let dial = dial(shared, address.to_owned()).boxed().shared();
                    table.insert(address.to_owned(), Peer::Dialling(dial.clone()));
                    dial
                }
            }
        };
        dial.await
    }

    /// Serves the data port until the exchange ends.
    pub(super) fn listen(self: &Arc<Self>, mut listener: BoxListener) {
        let shared = Arc::downgrade(self);
        let mut end = self.peers.end.subscribe();
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        self.runtime.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    biased;
                    accepted = listener.accept() => accepted,
                    _ = end.wait_for(|ended| *ended) => return,
                };
                let Some(alive) = shared.upgrade() else {
                    return;
                };
                match accepted {
                    Ok((stream, from)) => {
                        let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
                            alive.peers.tell_refused(
                                &from,
                                "too many others have not proved themselves yet",
                            );
                            continue;
                        };
                        let runtime = alive.runtime.clone();
                        runtime.spawn(serve(Arc::downgrade(&alive), stream, from, permit));
                    }
                    Err(error) => {
                        // Mostly the process is out of file descriptors, and the next accept would fail at once too.
                        tracing::warn!(%error, "the data port cannot accept a connection");
                        drop(alive);
                        tokio::time::sleep(RETRY_FIRST).await;
                    }
                }
            }
        });
    }
}

async fn serve(
    shared: Weak<Shared>,
    stream: BoxStream,
    from: String,
    permit: tokio::sync::OwnedSemaphorePermit,
) {
    let Some(alive) = shared.upgrade() else {
        return;
    };
    let Some(me) = &alive.peers.me else {
        return;
    };
    match me.prove(stream, None).await {
        Ok((stream, peer)) => {
            drop(permit);
            let connection = Connection::new(peer);
            alive.peers.put_inbound(&connection);
            drop(alive);
            run(connection, stream, shared).await;
        }
        Err(error) => alive.peers.tell_refused(&from, &error.to_string()),
    }
}

async fn run(connection: Arc<Connection>, stream: BoxStream, shared: Weak<Shared>) {
    Arc::clone(&connection).run(stream, Weak::clone(&shared)).await;
    if let Some(shared) = shared.upgrade() {
        shared.peers.forget(&connection);
    }
}

/// Dials an address until a connection is established, the peer refuses for good, or the connect timeout has passed.
async fn dial(shared: Weak<Shared>, address: String) -> Result<Arc<Connection>, String> {
    let ended = || "the exchange of this process ended".to_owned();
    let limit = shared.upgrade().ok_or_else(ended)?.options.connect_timeout;
    let mut last = None;
    let tries = async {
        let mut pause = RETRY_FIRST;
        loop {
            let alive = shared.upgrade().ok_or_else(ended)?;
            match try_dial(&alive, &address).await {
                Ok((stream, peer)) => {
                    let (connection, ours) = alive.peers.put_dialled(Connection::new(peer));
                    if ours {
                        let running = run(Arc::clone(&connection), stream, Weak::clone(&shared));
                        alive.runtime.spawn(running);
                    }
                    return Ok(connection);
                }
                Err(error) if error.is_final() => return Err(error.to_string()),
                Err(error) => {
                    tracing::debug!(%address, %error, "data port does not answer yet");
                    last = Some(error);
                    drop(alive);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_LAST);
                }
            }
        }
    };
    match tokio::time::timeout(limit, tries).await {
        Ok(result) => result,
        Err(_) => {
            let last = last.map(|error| format!("; the last attempt: {error}"));
            let last = last.unwrap_or_default();
            Err(format!("it did not answer within {} s{last}", limit.as_secs()))
        }
    }
}

async fn try_dial(shared: &Shared, address: &str) -> Result<(BoxStream, String), NoConnection> {
    let wrong = |why: String| Err(NoConnection::Wrong(why));
    let Some(me) = &shared.peers.me else {
        return wrong("this process has no data port".to_owned());
    };
    let Some((host, port)) = split(address) else {
        return wrong(format!("'{address}' is not an address, host:port"));
    };
    let stream = tokio::time::timeout(HANDSHAKE_LIMIT, me.platform.net().connect(host, port))
        .await
        .map_err(|_| NoConnection::Slow)??;
    let (stream, said) = me.prove(stream, Some(host)).await?;
    if said == address {
        return Ok((stream, said));
    }
    // Another process of this job has taken over the port; it has proved the key but is not the one that was asked for.
    wrong(format!("it calls itself {said}: another process listens there now"))
}

fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').map_or(host, |h| h.trim_end_matches(']'));
    Some((host, port.parse().ok()?))
}

impl Me {
    /// Performs the handshake, over TLS where the cluster uses it: both sides prove that they have the job's key. `host` is the
    /// host that this process has dialled, `None` if the peer has dialled. Returns the stream and the peer's data address.
    async fn prove(
        &self,
        stream: BoxStream,
        host: Option<&str>,
    ) -> Result<(BoxStream, String), NoConnection> {
        let party = Party {
            credentials: &self.credentials,
            introduction: &self.introduction,
            tls: self.tls.as_ref(),
        };
        let proving = async {
            match host {
                Some(host) => party.dial(&self.platform, stream, host).await,
                None => party.accept(&self.platform, stream).await,
            }
        };
        let (stream, peer) = tokio::time::timeout(HANDSHAKE_LIMIT, proving)
            .await
            .map_err(|_| NoConnection::Slow)??;
        match peer.node {
            Some(node) => Ok((stream, node)),
            None => Err(NoConnection::Wrong("it has no data port of its own".to_owned())),
        }
    }
}
