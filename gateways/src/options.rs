//! Settings of a process's RPC service. Plain values with defaults; nothing is read or bound here.

use crate::{
    disorder::Disorder,
    witness::{FabricFact, Witness},
};
use model::ClusterId;
use platform::{Credentials, Identity, Lane, PortSpec, Secret, Tls};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// Settings of an [`crate::RpcService`]: where it listens, its credentials and TLS, the time-outs of calls and connections, and the
/// bounds on calls, bytes and connections. The defaults named here are those of [`RpcOptions::in_process`]; the processes of a cluster
/// set several of them from the options `rpc.*` and `heartbeat.confirm-within`.
#[derive(Debug, Clone)]
pub struct RpcOptions {
    /// Address on which other processes connect. `None`: the service binds no port (its address is `local:<n>`), so only
    /// services made from clones of the same [`platform::Platform`], inside this process, can connect, and peers whose
    /// stream was handed to [`RpcService::adopt`](crate::RpcService::adopt).
    pub listen: Option<ListenOptions>,
    /// Credentials by which this process proves itself, and which it expects of others: a peer of another cluster or with
    /// another secret is refused at the handshake.
    pub credentials: Credentials,
    /// TLS for connections between processes, within which the handshake runs; `None`: connections are not encrypted.
    /// All processes of a cluster have it or none. Pipes inside the process and adopted streams never use it.
    pub tls: Option<Tls>,
    /// Deadline of [`crate::Remote::ask`]: time from the call to its answer; 10 s by default.
    pub ask_timeout: Duration,
    /// Time that a caller waits after the deadline of a call to another process for the callee's answer about it, before the call fails as
    /// unreachable; 300 ms by default.
    pub answer_grace: Duration,
    /// True in a test mode: calls inside the process are encoded and decoded too, as if they came from another process. False by default.
    pub force_serialization: bool,
    /// Maximum number of calls that wait in one endpoint's mailbox; further ones are refused as overloaded. 16,384 by
    /// default.
    pub mailbox_max: u64,
    /// Maximum number of unanswered calls of one endpoint, queued ones among them; further ones are refused as overloaded.
    /// 131,072 by default.
    pub in_flight_max: u64,
    /// Bytes of memory for bodies over 256 KiB while their parts arrive, on all connections together; 256 MiB by default. A body that does
    /// not fit is written to a file in one of `body_folders` meanwhile, so bodies may be of any size; while 64 are in files, further ones
    /// are refused as overloaded. On each connection twice as many bytes may wait to be sent (further long calls wait, and fail as
    /// overloaded at their deadlines; a long answer beyond four times that closes the connection), and wait for their endpoints (further
    /// calls are refused as overloaded).
    pub body_memory: usize,
    /// Folders for bodies that do not fit into `body_memory`, which take turns; made when a body comes. Their files lose their names as
    /// soon as they are made, so a crash leaves none. A folder that cannot be written, or whose disk has no room for all of the body, is
    /// passed over; if none is left, the call fails with `FabricError::NoRoom`. Empty, as by default: the system's temporary folder.
    pub body_folders: Vec<PathBuf>,
    /// Longest frame that is taken from a peer, in bytes; a longer one ends the connection. Bounds no message: bodies over 256 KiB go in
    /// frames of that size. 8 MiB by default.
    pub frame_max: usize,
    /// Bytes that may wait to be written to one connection in small frames (those with a body of at most 256 KiB); while more wait, further
    /// calls are refused as overloaded, and an answer beyond four times as many bytes closes the connection. 16 MiB by default.
    pub outbound_max: usize,
    /// Maximum number of calls on one connection that wait for an answer, in each direction; further ones are refused as
    /// overloaded. 65,536 by default.
    pub pending_max: usize,
    /// Number of open connections, dialled ones included, from which on accepted ones are closed at once; dialled ones are not limited.
    /// 16,384 by default.
    pub connections_max: usize,
    /// Maximum number of accepted connections that have not proved themselves yet; further ones are closed at once. 1,024
    /// by default.
    pub handshakes_max: usize,
    /// Maximum time of a handshake, also of the greetings on an adopted stream; then the connection is closed. 5 s by default.
    pub handshake_timeout: Duration,
    /// Maximum time of a connection attempt, without the handshake; then the attempt fails, and with it the calls that wait for it.
    /// 5 s by default.
    pub connect_timeout: Duration,
    /// Pause after the first failed attempt to connect; doubles with each further one. Calls fail at once during a pause, with the
    /// error of the last attempt; the first call after it makes the next attempt. 50 ms by default.
    pub reconnect_first: Duration,
    /// Upper bound of the pause between two attempts; 1 s by default.
    pub reconnect_max: Duration,
    /// Time within which a peer whose connection closed has to answer one new connection attempt before it counts as lost
    /// ([`PeerEvent::Confirmed`](crate::PeerEvent::Confirmed)); an attempt that fails earlier counts at once. 500 ms by default.
    pub suspicion_max: Duration,
    /// Silence on a connection after which the peer is pinged; 5 s by default.
    pub ping_after: Duration,
    /// Time without a byte from the peer, pongs included, after which a connection is given up; does not run while reading waits for the
    /// disk. 15 s by default.
    pub silence_max: Duration,
    /// Lane (event loop) on which connections run. A call to an actor on the same thread wakes no other thread.
    /// [`Lane::Io`] by default, which shares its thread with [`Lane::Heartbeat`], so a beat passes through one thread
    /// that nothing else can delay.
    pub io_lane: Lane,
    /// Witness that is shown which endpoints are served, which calls are let in or kept out, and how calls to other
    /// processes end; `None` outside of the simulation.
    pub witness: Option<Arc<dyn Witness>>,
    /// Decides for how long calls and answers are held back where no order is promised; `None` outside of the
    /// simulation.
    pub disorder: Option<Arc<dyn Disorder>>,
    /// True if endpoints wrongly take calls for other sessions: a broken rule that the simulation must find. Only with
    /// the feature `mutants`.
    #[cfg(feature = "mutants")]
    pub fences_ignored: bool,
    /// True if a withdrawn endpoint wrongly lets calls in: a broken rule that the simulation must find. Only with the
    /// feature `mutants`.
    #[cfg(feature = "mutants")]
    pub withdrawal_ignored: bool,
}

/// The address on which a service listens, and the one that it tells its peers.
#[derive(Debug, Clone)]
pub struct ListenOptions {
    /// Local address or host name to bind, such as `0.0.0.0`.
    pub bind_host: String,
    /// Host name that is published to peers; not checked, so a wrong one makes this process unreachable.
    pub advertised_host: String,
    /// Ports to try in order; the first that can be bound is used. If none can, the service does not start.
    pub ports: PortSpec,
}

impl RpcOptions {
    /// Makes the options of a process without a port: for embedded clusters, program hosts and tests of one process.
    /// Its cluster is `local` and its secret all zero; an ask times out after 10 s. All other fields have the defaults that they name;
    /// TLS, witness and disorder are off.
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
            body_memory: 256 << 20,
            body_folders: Vec::new(),
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
    /// other settings have their defaults, as in [`RpcOptions::in_process`]; TLS is not used.
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

/// The witness of a registration's calls, and the test mutations that let calls in.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    witness: Option<Arc<dyn Witness>>,
    #[cfg(feature = "mutants")]
    fences_ignored: bool,
    #[cfg(feature = "mutants")]
    withdrawal_ignored: bool,
}

impl Watch {
    pub(crate) fn of(options: &RpcOptions) -> Self {
        Self {
            witness: options.witness.clone(),
            #[cfg(feature = "mutants")]
            fences_ignored: options.fences_ignored,
            #[cfg(feature = "mutants")]
            withdrawal_ignored: options.withdrawal_ignored,
        }
    }

    pub(crate) fn sees(&self, fact: FabricFact<'_>) {
        if let Some(witness) = &self.witness {
            witness.sees(fact);
        }
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) fn compares_fences(&self) -> bool {
        true
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn compares_fences(&self) -> bool {
        !self.fences_ignored
    }

    #[cfg(not(feature = "mutants"))]
    pub(crate) fn heeds_withdrawal(&self) -> bool {
        true
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn heeds_withdrawal(&self) -> bool {
        !self.withdrawal_ignored
    }
}
