//! Errors of requests to YARN. They name what exists instead of what was asked for.

use super::messages::{ApplicationId, ContainerId, YarnApplicationState};
use crate::conf::ConfError;
use crate::login::LoginError;
use crate::rpc::{CallError, is_class};

/// The reason why a request to YARN failed: a call or the configuration or login for it, a queue or size that the cluster does not have, an
/// application that ended, a node's refusal of a container, a host without an address, or an answer with a part missing.
/// [`YarnClient`](super::YarnClient), [`NmClient`](super::NmClient) and [`AmRmClient`](super::AmRmClient) return it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YarnError {
    /// A call to a ResourceManager or NodeManager failed after all tries that the configuration allows, or with an exception
    /// of the server's that is not tried again.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The configuration could not be read, lacks a property, or has a wrong value.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The user could not be determined or logged in, or is to authenticate by Kerberos at a ResourceManager whose principal
    /// the configuration does not name.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// There is no queue of this name, or it is no leaf, and only leaves take applications; found by
    /// [`YarnClient::check_queue`](super::YarnClient::check_queue).
    #[error("no queue '{queue}' to submit to; there are: {}", .there_are.join(", "))]
    Queue {
        /// The queue that was asked for.
        queue: String,
        /// The leaves, by their full paths.
        there_are: Vec<String>,
    },
    /// The queue's short name fits several leaf queues; a full path is needed. Found by
    /// [`YarnClient::check_queue`](super::YarnClient::check_queue).
    #[error("queue '{queue}' could be any of: {}", .candidates.join(", "))]
    QueueAmbiguous {
        /// The queue that was asked for.
        queue: String,
        /// Full paths of all queues that the name fits.
        candidates: Vec<String>,
    },
    /// The queue is stopped or draining, so that it takes no applications; found by
    /// [`YarnClient::check_queue`](super::YarnClient::check_queue).
    #[error("queue '{queue}' is stopped")]
    QueueStopped {
        /// The queue's full path.
        queue: String,
    },
    /// More of a resource is asked for than a container of this cluster may have; found by `Resource::check`, which asks no
    /// server.
    #[error(
        "{wanted} {resource} for one container are more than the cluster's maximum of {maximum}"
    )]
    Capability {
        /// The name of the resource, in words such as `MiB of memory`.
        resource: String,
        /// The amount that was asked for.
        wanted: i64,
        /// The largest amount that a container may have.
        maximum: i64,
    },
    /// The application that [`YarnClient::submit`](super::YarnClient::submit) waited for failed or was killed, for example
    /// because the scheduler refused it.
    #[error("{application} is {state:?}: {diagnostics}")]
    Ended {
        /// The application that was waited for.
        application: ApplicationId,
        /// The application's state: `Failed` or `Killed`.
        state: YarnApplicationState,
        /// The reason, in YARN's words.
        diagnostics: String,
    },
    /// A node refused or failed to do what was asked with a container (from `NmClient::start`, `status` and `stop`), and gives an exception
    /// as the reason. The call itself succeeded, and is not tried again.
    #[error("{id}: {class}: {message}")]
    Container {
        /// The container that the request was about.
        id: ContainerId,
        /// The exception's Java class; empty if the node gave none.
        class: String,
        /// The exception's message, as the node sent it.
        message: String,
    },
    /// A ResourceManager's host name resolves to no address, and the service of a new delegation token must name the
    /// address. The ResourceManager has issued the token already; it is lost.
    #[error("no address of {host} for a token's service")]
    Address {
        /// Host name that resolves to no address.
        host: String,
    },
    /// A server's response lacks a part that it must have, such as the queue that was asked for if there is none; or a value that the
    /// caller gave does, such as a container without a node, a node without a valid port, or a submission without an id.
    #[error("the response to {method} has no {field}")]
    Incomplete {
        /// Name of the remote method that was called.
        method: &'static str,
        /// The missing part, in words.
        field: &'static str,
    },
}

impl YarnError {
    /// Returns true if a server threw an exception of this class, for the call, its connection, or a container in it. `class` is the
    /// Java class, with or without its package and outer class.
    #[must_use]
    pub fn is_remote(&self, class: &str) -> bool {
        match self {
            Self::Call(error) => error.remote().is_some_and(|exception| exception.is(class)),
            Self::Container { class: thrown, .. } => is_class(thrown, class),
            _ => false,
        }
    }
}
