//! The data port and the connections to other task processes: one per pair, whoever dials. Peers that do not
//! prove the job's key can make this process do nothing but close.

#[cfg(test)]
pub(super) use super::auth_shim::Secret as Key;
use super::auth_shim::{self as auth, Secret};
use super::{Connection, Shared, wire};
use crate::lock;
use bytes::BytesMut;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared as SharedFuture},
};
use platform::{BoxListener, BoxStream, Network, PortSpec};
use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Notify, Semaphore},
};
use wire::{Frame, VERSION};

/// How long a peer may take to prove itself.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// Peers that may be proving themselves at once.
const HANDSHAKES_MAX: usize = 64;
/// Between two tries to connect.
const RETRY_FIRST: Duration = Duration::from_millis(20);
const RETRY_LAST: Duration = Duration::from_secs(1);
/// The most bytes of a Hello.
const HELLO_MAX: usize = 1024;

/// Where other task processes of the job reach this one.
pub struct DataPort {
    network: Arc<dyn Network>,
    listener: BoxListener,
    address: String,
    key: Secret,
}

/// Why there is no data port.
#[derive(Debug, Error)]
pub enum DataPortError {
    /// None of the ports could be bound.
    #[error("no data port of {ports} can be bound on {host}: {source}")]
    Bind {
        /// What was tried.
        ports: PortSpec,
        /// Where.
        host: String,
        /// Of the last try.
        source: io::Error,
    },
}

impl DataPort {
    /// Binds the first free one of `ports` on `bind_host`; others reach it as `advertised_host`. `key` is known to
    /// the processes of the job alone.
    ///
    /// # Errors
    /// When none can be bound.
    pub async fn bind(
        network: Arc<dyn Network>,
        bind_host: &str,
        advertised_host: &str,
        ports: &PortSpec,
        key: Secret,
    ) -> Result<Self, DataPortError> {
        let mut last = io::Error::other("no port is given");
        for port in ports.iter() {
            match network.listen(bind_host, port).await {
                Ok(listener) => {
                    let address = format!("{advertised_host}:{}", listener.local_port());
                    return Ok(Self { network, listener, address, key });
                }
                Err(error) => last = error,
            }
        }
        Err(DataPortError::Bind { ports: ports.clone(), host: bind_host.to_owned(), source: last })
    }

    /// `host:port`, as others reach it.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl fmt::Debug for DataPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataPort({})", self.address)
    }
}

type Dial = SharedFuture<BoxFuture<'static, Result<Arc<Connection>, String>>>;

/// All connections of an exchange.
pub(super) struct Peers {
    address: String,
    dialling: Option<(Arc<dyn Network>, Secret)>,
    table: Mutex<BTreeMap<String, Peer>>,
    /// Told when the exchange ends.
    end: Arc<Notify>,
}

enum Peer {
    Dialling(Dial),
    Up(Arc<Connection>),
}

/// Why a stream is not a connection.
#[derive(Debug, Error)]
enum NoConnection {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the handshake failed: {0}")]
    Auth(#[from] auth::AuthError),
    #[error("the handshake took longer than {} s", HANDSHAKE_LIMIT.as_secs())]
    Slow,
    #[error("it does not speak the data protocol: {0}")]
    Protocol(String),
    #[error("it speaks version {0} of the data protocol, this is version {VERSION}")]
    Version(u16),
}

impl NoConnection {
    /// Whether another try can't help.
    fn is_final(&self) -> bool {
        !matches!(self, Self::Io(_) | Self::Slow)
    }
}

impl Peers {
    pub(super) fn new(port: Option<DataPort>) -> (Option<BoxListener>, Self) {
        let (listener, address, dialling) = match port {
            Some(port) => (Some(port.listener), port.address, Some((port.network, port.key))),
            None => (None, "local".to_owned(), None),
        };
        let peers =
            Self { address, dialling, table: Mutex::default(), end: Arc::new(Notify::new()) };
        (listener, peers)
    }

    pub(super) fn own_address(&self) -> &str {
        &self.address
    }

    pub(super) fn shutdown(&self) {
        self.end.notify_waiters();
        let table = std::mem::take(&mut *lock(&self.table));
        for peer in table.values() {
            if let Peer::Up(connection) = peer {
                connection.lose("the exchange of this process ended");
            }
        }
    }

    /// Puts a connection that a peer has dialled into the table, unless our own dial goes first.
    fn put_inbound(&self, connection: &Arc<Connection>) {
        let mut table = lock(&self.table);
        let peer = connection.peer();
        let replace = match table.get(peer) {
            None => true,
            // Both dialled: the dial of the smaller address wins, on both sides.
            Some(Peer::Dialling(_)) => peer < self.address.as_str(),
            // The peer would not dial if it had a living one.
            Some(Peer::Up(there)) => there.lost_because().is_some(),
        };
        if replace {
            table.insert(peer.to_owned(), Peer::Up(Arc::clone(connection)));
        }
    }

    /// Our dial succeeded: the connection to use, which may be the peer's.
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
    /// The connection to a task process; dialled if there is none.
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
        let end = Arc::clone(&self.peers.end);
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        self.runtime.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    biased;
                    accepted = listener.accept() => accepted,
                    () = end.notified() => return,
                };
                let Some(alive) = shared.upgrade() else {
                    return;
                };
                match accepted {
                    Ok((stream, from)) => {
                        let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
                            tracing::warn!(%from, "too many unproven peers at the data port; one is closed");
                            continue;
                        };
                        let runtime = alive.runtime.clone();
                        runtime.spawn(serve(Arc::downgrade(&alive), stream, from, permit));
                    }
                    Err(error) => {
                        // Out of descriptors, mostly: the next accept would fail at once again.
                        tracing::warn!(%error, "the data port could not accept");
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
    let Some((_, key)) = &alive.peers.dialling else {
        return;
    };
    match prove(stream, key, &alive.peers.address, false).await {
        Ok((stream, peer)) => {
            drop(permit);
            let connection = Connection::new(peer);
            alive.peers.put_inbound(&connection);
            drop(alive);
            run(connection, stream, shared).await;
        }
        Err(error) => tracing::warn!(%from, %error, "a peer at the data port was closed"),
    }
}

async fn run(connection: Arc<Connection>, stream: BoxStream, shared: Weak<Shared>) {
    Arc::clone(&connection).run(stream, Weak::clone(&shared)).await;
    if let Some(shared) = shared.upgrade() {
        shared.peers.forget(&connection);
    }
}

/// Dials until it answers, refuses for good, or the time is up.
async fn dial(shared: Weak<Shared>, address: String) -> Result<Arc<Connection>, String> {
    let ended = || "the exchange of this process ended".to_owned();
    let limit = shared.upgrade().ok_or_else(ended)?.options.connect_timeout;
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
                    drop(alive);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(RETRY_LAST);
                }
            }
        }
    };
    match tokio::time::timeout(limit, tries).await {
        Ok(result) => result,
        Err(_) => Err(format!("it did not answer within {} s", limit.as_secs())),
    }
}

async fn try_dial(shared: &Shared, address: &str) -> Result<(BoxStream, String), NoConnection> {
    let Some((network, key)) = &shared.peers.dialling else {
        return Err(NoConnection::Protocol("this process has no data port".to_owned()));
    };
    let (host, port) = split(address).ok_or_else(|| {
        NoConnection::Protocol(format!("'{address}' is not an address, host:port"))
    })?;
    let stream = tokio::time::timeout(HANDSHAKE_LIMIT, network.connect(host, port))
        .await
        .map_err(|_| NoConnection::Slow)??;
    let (stream, said) = prove(stream, key, &shared.peers.address, true).await?;
    if said == address {
        Ok((stream, said))
    } else {
        // Another process took the port over: of this job, so it is no stranger, but not who is meant.
        Err(NoConnection::Protocol(format!(
            "it calls itself {said}: another process listens there now"
        )))
    }
}

fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').map_or(host, |h| h.trim_end_matches(']'));
    Some((host, port.parse().ok()?))
}

/// Both sides prove the key, then say who they are.
async fn prove(
    stream: BoxStream,
    key: &Secret,
    own: &str,
    dialled: bool,
) -> Result<(BoxStream, String), NoConnection> {
    let proving = async {
        let mut stream = if dialled {
            auth::dial(stream, key).await?
        } else {
            auth::accept(stream, key).await?
        };
        let mut hello = Vec::new();
        Frame::Hello { version: VERSION, address: own }.encode(&mut hello);
        stream.write_all(&hello).await?;
        let peer = read_hello(&mut stream).await?;
        Ok((stream, peer))
    };
    tokio::time::timeout(HANDSHAKE_LIMIT, proving).await.map_err(|_| NoConnection::Slow)?
}

async fn read_hello(stream: &mut BoxStream) -> Result<String, NoConnection> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).await?;
    let len = wire::frame_len(prefix).map_err(|e| NoConnection::Protocol(e.to_string()))?;
    if len > HELLO_MAX {
        return Err(NoConnection::Protocol(format!("a hello of {len} bytes")));
    }
    let mut body = BytesMut::zeroed(len);
    stream.read_exact(&mut body).await?;
    match wire::decode_body(&body) {
        Ok(Frame::Hello { version, address }) if version == VERSION => Ok(address.to_owned()),
        Ok(Frame::Hello { version, .. }) => Err(NoConnection::Version(version)),
        Ok(_) => Err(NoConnection::Protocol("no hello comes first".to_owned())),
        Err(error) => Err(NoConnection::Protocol(error.to_string())),
    }
}
