//! The RPC service of a process: hosts endpoints under names and hands out gateways to local and
//! remote ones. It must never decide what a failed call means.

use crate::{
    address::{EndpointAddress, NodeAddress},
    call::{Gateway, Principal},
    endpoint::{Allow, Bounds, Endpoint, Registered},
    frame::Kind,
    inner::Inner,
    options::{RpcOptions, Watch},
    peers::PeerEvent,
    remote::Remote,
    transport::PeerHandle,
};
use model::{ClusterId, Fence, JobId};
use platform::{BoxListener, BoxStream, Platform, Secret, Tls};
use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};
use thiserror::Error;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// The reason why [`RpcService::start`] has started no service: no port could be bound, or the thread of the sockets' lane could not be
/// started. Nothing is left behind; the call may be repeated.
#[derive(Debug, Error)]
pub enum RpcStartError {
    /// None of the configured ports could be bound, or the thread of the sockets' lane could not be started; the service was not
    /// started.
    #[error("no port of {ports} can be bound on {host}: {why}")]
    Bind {
        /// Local host name or address that was to be bound; `local` for a service without a port, `this process` if its thread failed.
        host: String,
        /// Ports as configured; `0` for a service without a port, `any` if the thread failed.
        ports: String,
        /// Error of the last attempt to bind a port, or of the start of the thread.
        why: io::Error,
    },
}

/// The RPC service of a process (its end of the fabric): serves endpoints and makes gateways to others. A cheap handle.
/// Clones and the gateways made from it ([`Remote`]) share one service: when the last of them is dropped, the listener
/// and all connections close, and calls over them fail. A [`Registration`] does not keep the service alive.
/// [`RpcService::shutdown`] ends the service in order, whoever still holds it.
#[derive(Clone, derive_more::Debug)]
#[debug("RpcService({})", self.0.node)]
pub struct RpcService(Arc<Inner>);

/// The least time that a shutdown has for writing out what waits.
const FAREWELL: Duration = Duration::from_millis(200);

async fn bind(
    platform: &Platform,
    options: &RpcOptions,
) -> Result<(BoxListener, NodeAddress), RpcStartError> {
    let Some(listen) = &options.listen else {
        let bound = platform.local_net().listen("local", 0).await;
        let listener = bound.map_err(|why| RpcStartError::Bind {
            host: "local".to_owned(),
            ports: "0".to_owned(),
            why,
        })?;
        let node = NodeAddress::of("local", listener.local_port());
        return Ok((listener, node));
    };
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no port is named");
    for port in listen.ports.iter() {
        match platform.net().listen(&listen.bind_host, port).await {
            Ok(listener) => {
                let node = NodeAddress::of(&listen.advertised_host, listener.local_port());
                return Ok((listener, node));
            }
            Err(error) => last = error,
        }
    }
    Err(RpcStartError::Bind {
        host: listen.bind_host.clone(),
        ports: listen.ports.to_string(),
        why: last,
    })
}

impl RpcService {
    /// Binds the first free port of the options, or makes a service without a port, and begins to accept connections.
    ///
    /// # Errors
    /// Returns [`RpcStartError::Bind`] if no port can be bound, or the thread of the sockets' lane cannot be started.
    pub async fn start(platform: Platform, options: RpcOptions) -> Result<Self, RpcStartError> {
        // On the lane that accepts: the socket belongs to that lane's reactor.
        let bound = (platform.clone(), options.clone());
        let bound =
            platform.lane(options.io_lane).run(|| async move { bind(&bound.0, &bound.1).await });
        let (listener, node) = bound.await.map_err(|ended| RpcStartError::Bind {
            host: "this process".to_owned(),
            ports: "any".to_owned(),
            why: io::Error::other(ended),
        })??;
        let inner = Arc::new(Inner::new(platform, options, node));
        inner.start_accepting(listener);
        Ok(Self(inner))
    }

    /// Returns the address by which peers reach this process: the advertised host and the bound port; `local:<n>` if
    /// the service has no port.
    pub fn node(&self) -> &NodeAddress {
        &self.0.node
    }

    /// Returns the id of the cluster that this process belongs to.
    pub fn cluster_id(&self) -> &ClusterId {
        &self.0.options.credentials.cluster
    }

    /// Returns the secret by which the program hosts of a job prove themselves to each other and to processes of the
    /// cluster. It is derived from this service's secret, the cluster's, so that a host never sees that one; always the same for
    /// the same job.
    pub fn job_key(&self, job: JobId) -> Secret {
        self.0.options.credentials.secret.for_job(job)
    }

    /// Returns the TLS settings of this process's connections; `None` without TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.0.options.tls.as_ref()
    }

    /// Returns a receiver of findings about other processes from now on; peers that have no address for calls back (clients, and program
    /// hosts that are no children of this process) cause none. A receiver that falls more than 1,024 events behind misses the oldest; its
    /// next read returns how many.
    pub fn peer_events(&self) -> broadcast::Receiver<PeerEvent> {
        self.0.events.subscribe()
    }

    /// Returns the number of connections to other processes that are open now and whose peers have proved themselves or
    /// were adopted.
    pub fn connections(&self) -> usize {
        self.0.connection_count()
    }

    /// Returns the number of other processes that are known: connected, being connected, or recently failed; for tests.
    #[cfg(feature = "testing")]
    pub fn known_peers(&self) -> usize {
        self.0.peers.len()
    }

    /// Talks to a peer over a stream that a common parent process (or this process itself) gave to both: nothing is
    /// proved, `principal` is the identity that the peer is taken to have. Returns at once. Calls to `peer` go this
    /// way, and the peer may call what its principal may. Calls wait until both sides have compared their versions (at most
    /// `RpcOptions::handshake_timeout`); if that fails, the stream is closed and they fail as unreachable. A stream that ends is not
    /// replaced; if the versions had been compared, its end is reported as [`PeerEvent::Confirmed`].
    pub fn adopt(&self, peer: NodeAddress, stream: BoxStream, principal: Principal) -> PeerHandle {
        self.0.adopt(peer, stream, principal)
    }

    /// Ends the service in order: gives its port back, waits at most `within` until the calls of other processes that are under way are
    /// answered, tells the peers, and closes all connections; at least 200 ms are left for writing out. Calls that have no answer by then
    /// get none. Further calls from other processes are refused with
    /// [`FabricError::ShuttingDown`](crate::FabricError::ShuttingDown). Calls to other processes go on while
    /// their connection is open, at most until this returns; no new connection is made, so without one they fail with the same error. Calls
    /// inside the process go on, also after this has returned. The service cannot be started again: a new one has to be made. May be
    /// repeated.
    pub async fn shutdown(&self, within: Duration) {
        let until = Instant::now() + within;
        let connections = self.0.drain();
        loop {
            let mut idle = std::pin::pin!(self.0.idle.notified());
            idle.as_mut().enable();
            let busy = connections.iter().any(|c| c.served.len() > 0);
            if !busy || tokio::time::timeout_at(until, idle).await.is_err() {
                break;
            }
        }
        for connection in &connections {
            connection.control(Kind::Goodbye);
            connection.finishing.store(true, Ordering::Release);
            connection.notify();
        }
        let until = until.max(Instant::now() + FAREWELL);
        for connection in &connections {
            let _ = tokio::time::timeout_at(until, connection.ended.cancelled()).await;
            connection.close("this process is shutting down");
        }
    }

    /// Returns the platform that the service runs on: its clock, lanes and sockets.
    pub fn platform(&self) -> &Platform {
        &self.0.platform
    }

    /// Serves an endpoint under a name until the registration is dropped. `fence` is the leader session that it answers
    /// in: a call that names another one is refused with `FabricError::Fenced`. The same name again replaces the
    /// earlier registration, whose waiting calls go on. Program hosts may not call the endpoint (`FabricError::Forbidden`). Call this
    /// on the actor's lane (thread with an event loop): longer calls of other processes are decoded there, so that they do not hold up the
    /// connections. The registration keeps the actor's address, so the actor does not end because nobody else has it.
    pub fn serve<G: Gateway>(
        &self,
        name: impl Into<String>,
        fence: G::Fence,
        endpoint: Endpoint<G>,
    ) -> Registration {
        self.register(name.into(), fence, &endpoint, Allow::Cluster)
    }

    /// Serves an endpoint under a name in the session `fence`, until the registration is dropped, as [`RpcService::serve`] does;
    /// program hosts of `job` may make the calls in `calls`, too (their names, such as `SubmitJob::NAME`; empty: all). Their other
    /// calls, and those of other jobs' hosts, are refused with `FabricError::Forbidden`.
    pub fn serve_for_job<G: Gateway>(
        &self,
        name: impl Into<String>,
        fence: G::Fence,
        endpoint: Endpoint<G>,
        job: JobId,
        calls: &[&str],
    ) -> Registration {
        let calls = calls.iter().map(|c| (*c).to_owned()).collect();
        self.register(name.into(), fence, &endpoint, Allow::Job { job, calls })
    }

    fn register<G: Gateway>(
        &self,
        name: String,
        fence: G::Fence,
        endpoint: &Endpoint<G>,
        allow: Allow,
    ) -> Registration {
        let bounds = Bounds {
            mailbox_max: self.0.options.mailbox_max,
            in_flight_max: self.0.options.in_flight_max,
        };
        let registered = Arc::new(Registered::new(
            name.clone(),
            self.0.node.clone(),
            fence.session(),
            endpoint,
            allow,
            bounds,
            Watch::of(&self.0.options),
        ));
        if let Some(replaced) = self.0.endpoints.insert(name, Arc::clone(&registered)) {
            replaced.died.notify_waiters();
        }
        registered.is_served();
        Registration { service: Arc::downgrade(&self.0), registered }
    }

    /// Makes a gateway to a local or remote endpoint in the leader session `fence`; calls are refused if the endpoint is in
    /// another session by then. No connection is made before the first call.
    pub fn gateway<G: Gateway>(&self, address: &EndpointAddress, fence: G::Fence) -> Remote<G> {
        Remote::new(Arc::clone(&self.0), address.clone(), fence)
    }

    /// Returns the address under which peers reach the endpoint `name` of this process; whether it is served is not
    /// checked.
    pub fn address_of(&self, name: &str) -> EndpointAddress {
        EndpointAddress::new(self.0.node.clone(), name)
    }
}

/// An endpoint that is served under a name, as [`RpcService::serve`] returns it. Dropping it ends that, unless another registration
/// has replaced it: later calls fail with `FabricError::NoSuchEndpoint`; calls that are in the actor's mailbox or have begun go on.
#[derive(derive_more::Debug)]
#[must_use = "dropping a registration ends it"]
#[debug("Registration({})", self.registered.name)]
pub struct Registration {
    service: Weak<Inner>,
    registered: Arc<Registered>,
}

/// Interval at which [`Registration::died`] checks, if no call has found the actor dead before.
const DEATH_CHECK: Duration = Duration::from_secs(1);

impl Registration {
    /// Returns true if the endpoint's actor takes messages; false once it has stopped or panicked. Says nothing about whether another
    /// registration has replaced this one.
    pub fn is_alive(&self) -> bool {
        self.registered.connected()
    }

    /// Waits until the endpoint's actor has ended, whether it stopped or panicked. The end is noticed by the first call
    /// that comes after it, or within 1 s. Returns at once if the actor has ended already.
    pub async fn died(&self) {
        while self.registered.connected() {
            let _ = tokio::time::timeout(DEATH_CHECK, self.registered.died.notified()).await;
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registered.withdraw();
        if let Some(service) = self.service.upgrade() {
            let removed = service.endpoints.remove_if(&self.registered.name, |_, current| {
                Arc::ptr_eq(current, &self.registered)
            });
            if removed.is_some() {
                self.registered.is_withdrawn();
            }
        }
    }
}
