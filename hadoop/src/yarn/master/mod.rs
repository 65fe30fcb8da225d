//! The ApplicationMaster's side of the ResourceManager: what is wanted, what was granted, what has ended. The
//! core ([`Master`]) knows neither sockets nor time; [`AmRmClient`] beats its heart.

mod client;
mod core;
mod exit;
mod pace;
#[cfg(test)]
mod tests;

pub use client::{AmRmClient, AmRmEvents, AmRmOptions, Finish, Registration};
pub use core::{Master, Refused};
pub use exit::ContainerExit;

use super::messages::{
    Container, ContainerId, NodeReport, PreemptionMessage, RegisterApplicationMasterResponse,
    Resource,
};
use crate::tokens::Token;

/// Names a request for containers, counted from 0 within one [`AmRmClient`] or [`Master`] and never used again there; a later attempt of
/// the application counts from 0 again. `AmRmClient::request` returns it, and each container that is granted for the request comes with it
/// (YARN's `allocation_request_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub i64);

/// The place in the cluster at which the containers of a request are wanted; the default is anywhere. Names of hosts and racks are YARN's
/// own and not checked: with `OnHost` and `OnRack`, a request for a place that does not exist waits for ever.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// On any node of the cluster.
    #[default]
    Anywhere,
    /// On these hosts if possible, else on these racks, else anywhere. Both lists may be empty.
    Preferred {
        /// Hosts, as their NodeManagers are named.
        hosts: Vec<String>,
        /// Racks, the hosts' own among them.
        racks: Vec<String>,
    },
    /// On this host only: the request waits while the host has no room.
    OnHost {
        /// The host, as its NodeManager is named.
        host: String,
        /// Its rack: `/default-rack` where the cluster has none.
        rack: String,
    },
    /// On this rack only, such as `/rack-1`: the request waits while the rack has no room.
    OnRack(String),
}

/// A request for containers of one size, for [`AmRmClient::request`] or [`Master::request`]: how many, how large, where, and how urgent.
/// Only the count is checked before it is sent; the ResourceManager may refuse the request later ([`MasterEvent::Refused`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Number of containers that are wanted, at most `i32::MAX`; a request for 0 asks for none, and is open only until the next heartbeat
    /// is answered.
    pub count: u32,
    /// Memory, cores and further resources of each container.
    pub capability: Resource,
    /// Priority among the requests of this application; lower numbers are served first.
    pub priority: i32,
    /// The place at which the containers are wanted.
    pub place: Place,
    /// Node label that the containers' nodes must have; `None`: the application's default label.
    pub label: Option<String>,
}

impl Ask {
    /// Makes a request for `count` containers of this size anywhere, with priority 0. It goes out by
    /// [`AmRmClient::request`].
    #[must_use]
    pub fn new(count: u32, capability: Resource) -> Self {
        Self { count, capability, priority: 0, place: Place::Anywhere, label: None }
    }
}

/// An event from the ResourceManager, in the order in which [`AmRmEvents`] gives them out (or [`Master::registered`] and
/// [`Master::allocated`] return them): `Registered` first (unless its answer was lost) and after each restart of the ResourceManager, then
/// what happens to requests, containers and nodes; nothing after `Shutdown`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MasterEvent {
    /// The ApplicationMaster has been registered, for the first time or after a restart of the ResourceManager. Holds
    /// the answer, with the limits for requests.
    Registered(Box<RegisterApplicationMasterResponse>),
    /// A container was granted for a request, which wants one less from now on. It must be started on its node before its
    /// token expires, or released; otherwise it is lost, and comes as `Completed` with `ContainerExit::Aborted`.
    Allocated {
        /// Id of the request that the container is for.
        request: RequestId,
        /// The granted container, with the token that starts it.
        container: Box<Container>,
    },
    /// A container that an earlier attempt of the application left running now belongs to this attempt. Comes once for each, with or after
    /// `Registered`; never unless the application keeps its containers across attempts.
    Recovered(Box<Container>),
    /// A container has ended, for whatever reason: its own end, a stop, a release, or the loss of its node. No other is asked for in its
    /// place. Does not come for a container that was released before this process had heard of it.
    Completed {
        /// Id of the container that has ended.
        id: ContainerId,
        /// How the container ended, from its exit status.
        exit: ContainerExit,
        /// The reason, in YARN's words.
        diagnostics: String,
    },
    /// The state of these nodes has changed: lost, unhealthy, or usable again. Their containers that are lost come as `Completed` as well.
    Nodes(Vec<NodeReport>),
    /// The scheduler will take containers away: the message names at least one of them, or the resources that should be
    /// given back. CapacityScheduler says it once, FairScheduler with every answer until the containers have ended.
    Preemption(Box<PreemptionMessage>),
    /// The ResourceManager has replaced the AMRMToken, the token for its scheduler. The client uses this one already,
    /// and the login holds it.
    TokenReplaced(Token),
    /// The ResourceManager refused these requests because they can never be met, for example for more memory than a container
    /// may have. They are not open any more.
    Refused {
        /// The refused requests.
        requests: Vec<RequestId>,
        /// The reason, in YARN's words.
        reason: String,
    },
    /// The ApplicationMaster must end: another attempt has taken over, or the application was killed. The last event:
    /// the heartbeats have stopped.
    Shutdown,
}
