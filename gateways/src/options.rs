//! Settings of a process's RPC service. Plain values with defaults; nothing is read or bound here.

use crate::{disorder::Disorder, witness::Witness};
use model::ClusterId;
use platform::{Credentials, Identity, Lane, PortSpec, Secret, Tls};
use std::{sync::Arc, time::Duration};

/// Settings of an [`crate::RpcService`].
#[derive(Debug, Clone)]
pub struct RpcOptions {
    /// Address on which peers connect; `None`: only services that share the platform value connect,
    /// and adopted streams.
    pub listen: Option<ListenOptions>,
    /// Credentials by which this process proves itself, and which it expects of others.
    pub credentials: Credentials,
    /// TLS under the handshake; all processes of a cluster have it or none.
    pub tls: Option<Tls>,
    /// Deadline of [`crate::Remote::ask`]: time from the call to its answer.
    pub ask_timeout: Duration,
    /// Time that a caller waits after a call's deadline for the callee's answer about it, before it
    /// reports the peer as unreachable.
    pub answer_grace: Duration,
    /// Test mode: calls inside the process are encoded and decoded too, as if they came from another process.
    pub force_serialization: bool,
    /// Maximum number of calls that wait in one endpoint's mailbox; further ones are refused as overloaded.
    pub mailbox_max: u64,
    /// Maximum number of unanswered calls of one endpoint, queued ones among them; further ones are refused as
    /// overloaded.
    pub in_flight_max: u64,
    /// Longest body of a request or a reply, in bytes; a longer one fails its call as too large.
    pub body_max: usize,
    /// Longest frame that is taken from a peer, in bytes; a longer one ends the connection.
    pub frame_max: usize,
    /// Bytes of small frames that wait for one connection.
    pub outbound_max: usize,
    /// Maximum number of calls on one connection that wait for an answer, in each direction.
    pub pending_max: usize,
    /// Maximum number of live accepted connections; further ones are closed at once.
    pub connections_max: usize,
    /// Maximum number of accepted connections that have not proved themselves yet; further ones are closed at once.
    pub handshakes_max: usize,
    /// Maximum time of a handshake; then the connection is closed.
    pub handshake_timeout: Duration,
    /// Maximum time of a connection attempt, without the handshake.
    pub connect_timeout: Duration,
    /// Pause after the first failed attempt to connect; doubles with each further one. Calls fail at once during a
    /// pause.
    pub reconnect_first: Duration,
    /// Upper bound of the pause between two attempts.
    pub reconnect_max: Duration,
    /// Time within which a peer whose connection closed has to answer again before it counts as
    /// lost.
    pub suspicion_max: Duration,
    /// Silence on a connection after which the peer is pinged.
    pub ping_after: Duration,
    /// Time without a frame from the peer, pongs included, after which a connection is given up.
    pub silence_max: Duration,
    /// Lane on which connections run. A call to an actor on the same thread wakes no other thread.
    /// In production it is [`Lane::Heartbeat`], so a beat passes through one thread that nothing
    /// else can delay.
    pub io_lane: Lane,
    /// Witness of the calls that are let in and kept out; `None` outside of the simulation.
    pub witness: Option<Arc<dyn Witness>>,
    /// Holds calls and answers back where no order is promised; `None` outside of the simulation.
    pub disorder: Option<Arc<dyn Disorder>>,
    /// True if endpoints wrongly take calls for other sessions: a broken rule that the simulation must find.
    #[cfg(feature = "mutants")]
    pub fences_ignored: bool,
    /// True if a withdrawn endpoint wrongly lets calls in: a broken rule that the simulation must find.
    #[cfg(feature = "mutants")]
    pub withdrawal_ignored: bool,
}

/// The address on which a service listens, and the one that it tells its peers.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Local address or host name to bind.
    pub bind_host: String,
    /// Host name that is published to peers.
    pub advertised_host: String,
    /// Ports to try in order; the first that can be bound is used.
    pub ports: PortSpec,
}

impl RpcOptions {
    /// Makes the options of a process without a port: for embedded clusters, program hosts and tests of one process.
    /// Its cluster is `local` and its secret all zero; an ask times out after 10 s.
    pub fn in_process() -> Self {
        Self {
            listen: None,
            credentials: Credentials {
                cluster: ClusterId::new("local"),
                identity: Identity::Cluster,
                // Pipes inside the process are nobody else's; nobody else accepts this.
                secret: Secret::new([0; 32]),
            },
            tls: None,
            ask_timeout: Duration::from_secs(10),
            answer_grace: Duration::from_millis(300),
            force_serialization: false,
            mailbox_max: 16_384,
            in_flight_max: 131_072,
            body_max: 256 << 20,
            frame_max: 8 << 20,
            outbound_max: 16 << 20,
            pending_max: 65_536,
            connections_max: 16_384,
            handshakes_max: 1_024,
            handshake_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            reconnect_first: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            suspicion_max: Duration::from_millis(500),
            ping_after: Duration::from_secs(5),
            silence_max: Duration::from_secs(15),
            io_lane: Lane::Io,
            witness: None,
            disorder: None,
            #[cfg(feature = "mutants")]
            fences_ignored: false,
            #[cfg(feature = "mutants")]
            withdrawal_ignored: false,
        }
    }

    /// Makes the options of a process that is bound to `bind_host` and known to its peers as `advertised_host`. All
    /// other settings are those of [`RpcOptions::in_process`]: no TLS among them.
    pub fn listening(
        bind_host: impl Into<String>,
        advertised_host: impl Into<String>,
        ports: PortSpec,
        cluster: ClusterId,
        secret: Secret,
    ) -> Self {
        Self {
            listen: Some(ListenOptions {
                bind_host: bind_host.into(),
                advertised_host: advertised_host.into(),
                ports,
            }),
            credentials: Credentials { cluster, identity: Identity::Cluster, secret },
            ..Self::in_process()
        }
    }
}
