//! Errors of requests to YARN. They name what exists instead of what was asked for.

use super::messages::{ApplicationId, ContainerId, YarnApplicationState};
use crate::conf::ConfError;
use crate::login::LoginError;
use crate::rpc::{CallError, is_class};

/// The reason why a request to YARN failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YarnError {
    /// A call failed, after all tries.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The configuration could not be read, or lacks something.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The user could not be found out or logged in.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// There is no such queue, or it is not a leaf.
    #[error("no queue '{queue}' to submit to; there are: {}", .there_are.join(", "))]
    Queue {
        /// The queue that was asked for.
        queue: String,
        /// The leaves, by their full paths.
        there_are: Vec<String>,
    },
    /// The name means several queues.
    #[error("queue '{queue}' could be any of: {}", .candidates.join(", "))]
    QueueAmbiguous {
        /// The queue that was asked for.
        queue: String,
        /// Full paths of all queues that the name fits.
        candidates: Vec<String>,
    },
    /// The queue takes no applications.
    #[error("queue '{queue}' is stopped")]
    QueueStopped {
        /// The queue's full path.
        queue: String,
    },
    /// More is wanted than a container may have.
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
    /// The application ended before it got as far as the call waits for, for example because it was refused.
    #[error("{application} is {state:?}: {diagnostics}")]
    Ended {
        /// The application that was waited for.
        application: ApplicationId,
        /// The application's state.
        state: YarnApplicationState,
        /// The reason, in YARN's words.
        diagnostics: String,
    },
    /// A node did not do what was asked with a container, and says why.
    #[error("{id}: {class}: {message}")]
    Container {
        /// The container that the request was about.
        id: ContainerId,
        /// The class of the exception.
        class: String,
        /// The exception's message, as the node sent it.
        message: String,
    },
    /// A ResourceManager's host is not known, and a token must name its address.
    #[error("no address of {host} for a token's service")]
    Address {
        /// Host name that resolves to no address.
        host: String,
    },
    /// The response, or a value given by the caller, lacks what it must have.
    #[error("the response to {method} has no {field}")]
    Incomplete {
        /// Name of the remote method that was called.
        method: &'static str,
        /// The missing part, in words.
        field: &'static str,
    },
}

impl YarnError {
    /// Returns true if a server threw this exception, for the call or for a container in it. `class` is the Java class
    /// with or without its package and the class around it.
    #[must_use]
    pub fn is_remote(&self, class: &str) -> bool {
        match self {
            Self::Call(error) => error.remote().is_some_and(|exception| exception.is(class)),
            Self::Container { class: thrown, .. } => is_class(thrown, class),
            _ => false,
        }
    }
}
