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

/// Names a request for containers, unique within the ApplicationMaster's process: `AmRmClient::request` returns it,
/// and each container that is granted for the request comes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub i64);

/// The place at which containers are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// On any node of the cluster.
    #[default]
    Anywhere,
    /// Best on these hosts, else on these racks, else anywhere. Both may be empty.
    Preferred {
        /// Hosts, as their NodeManagers are named.
        hosts: Vec<String>,
        /// Racks, the hosts' own among them.
        racks: Vec<String>,
    },
    /// On this host or nowhere: the request waits while the host has no room.
    OnHost {
        /// The host, as its NodeManager is named.
        host: String,
        /// Its rack: `/default-rack` where the cluster has none.
        rack: String,
    },
    /// On this rack, such as `/rack-1`, or nowhere.
    OnRack(String),
}

/// A request for containers of one size, for [`AmRmClient::request`].
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Number of containers that are wanted.
    pub count: u32,
    /// The size of each container.
    pub capability: Resource,
    /// Lower numbers are served first within the application.
    pub priority: i32,
    /// The place of the containers.
    pub place: Place,
    /// Label that the nodes must have; `None`: the application's default.
    pub label: Option<String>,
}

impl Ask {
    /// Asks for `count` containers of this size anywhere, with priority 0.
    #[must_use]
    pub fn new(count: u32, capability: Resource) -> Self {
        Self { count, capability, priority: 0, place: Place::Anywhere, label: None }
    }
}

/// An event from the ResourceManager, in the order in which [`AmRmEvents`] gives them out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum MasterEvent {
    /// The ApplicationMaster has been registered, for the first time or after a restart of the
    /// ResourceManager.
    Registered(Box<RegisterApplicationMasterResponse>),
    /// A container was granted. It must be started before its token expires, or released.
    Allocated {
        /// Id of the request that the container is for.
        request: RequestId,
        /// The granted container, with the token that starts it.
        container: Box<Container>,
    },
    /// A container of an earlier attempt is still running and is this attempt's now.
    Recovered(Box<Container>),
    /// A container has ended.
    Completed {
        /// Id of the container that has ended.
        id: ContainerId,
        /// How the container ended, from its exit status.
        exit: ContainerExit,
        /// The reason, in YARN's words.
        diagnostics: String,
    },
    /// Nodes have changed: lost, unhealthy, usable again.
    Nodes(Vec<NodeReport>),
    /// Containers will be taken away. It names at least one of them, or how much is wanted. Told once by
    /// CapacityScheduler, and with every answer until they have ended by FairScheduler.
    Preemption(Box<PreemptionMessage>),
    /// The token for the ResourceManager has been replaced; it is in use already.
    TokenReplaced(Token),
    /// The ResourceManager refused these requests, which can never be met. They are taken back.
    Refused {
        /// The refused requests.
        requests: Vec<RequestId>,
        /// The reason, in YARN's words.
        reason: String,
    },
    /// The ApplicationMaster must end: another attempt has taken over, or the application was killed.
    Shutdown,
}
