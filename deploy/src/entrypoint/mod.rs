//! Cluster processes: what a JobManager and a TaskManager process start around their components, in which
//! order, and how they end. Exit codes are those of [`crate::exit`].

mod application_end;
mod ha_store;
mod jobmanager;
mod rest_endpoint;
mod rpc;
mod stores;
mod taskmanager;

pub(crate) use jobmanager::{JobManagerProcess, ReadyAddresses, run as run_jobmanager};
pub(crate) use taskmanager::{TaskManagerProcess, run as run_taskmanager};
pub(crate) use taskmanager::{job_key, offer};

use crate::cluster_files::ClusterFilesError;
use crate::components::ComponentError;
use crate::stop::Stop;
use storage::objects::StoreError;
use thiserror::Error;

/// Errors of starting a JobManager or TaskManager process, or an embedded cluster. Each ends the process with exit code 1; only a
/// [`StartError::Stopped`] that leaves the application alone ends it with the exit code of its order. What was started before is dropped.
#[derive(Debug, Error)]
pub enum StartError {
    /// The file with the cluster's id or secret cannot be read or made, or did not appear in time. Not in embedded clusters or on YARN,
    /// which use no such file.
    #[error(transparent)]
    Identity(#[from] ClusterFilesError),
    /// The RPC service of an embedded cluster could not be started. Processes that listen report [`StartError::Port`] instead.
    #[error(transparent)]
    Rpc(#[from] gateways::RpcStartError),
    /// None of the configured ports of the RPC service or the REST endpoint could be bound (taken, not allowed, or no such address on this
    /// machine); the text names the options that set them.
    #[error("{why}; set {ports}, or {host}")]
    Port {
        /// The address concerned, what was tried, and the reason.
        why: String,
        /// Key of the option with the ports.
        ports: &'static str,
        /// Key of the option with the interface or host to bind on.
        host: &'static str,
    },
    /// A component of the process (heartbeats, BlobServer, REST endpoint and others) could not be started.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// A folder (for temporary files or blobs), the high-availability storage, or a file (program, job graph, certificate) could
    /// not be opened, made or read; or `rest.bind-address` names a host that cannot be resolved.
    #[error("{what}: {why}")]
    Storage {
        /// The folder, store, file or option concerned.
        what: String,
        /// Reason as text for people.
        why: String,
    },
    /// The options for memory, cores or slots contradict each other, or do not fit into the container or machine of a TaskManager or, on
    /// YARN, of a JobManager; the text says how.
    #[error("{0}")]
    Memory(String),
    /// Something else that the options or arguments ask for is impossible, such as high availability without a
    /// directory or a malformed certificate, or on YARN the process's container is not as the options say; the text
    /// says what.
    #[error("{0}")]
    Invalid(String),
    /// The process was told to stop, by a signal or a fatal error of a component, before it was up; the order says why. Never in an
    /// embedded cluster.
    #[error("stopped while starting: {0}")]
    Stopped(Stop),
}

impl StartError {
    pub(crate) fn storage(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::Storage { what: what.into(), why: why.to_string() }
    }
}

/// Runs `open`, which waits for a disk, on a thread of its own, so that the process still hears signals meanwhile.
async fn opened<T: Send + 'static>(
    what: impl Into<String>,
    open: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StartError> {
    match platform::blocking(open).await {
        Ok(Ok(store)) => Ok(store),
        Ok(Err(error)) => Err(StartError::storage(what, error)),
        Err(why) => Err(StartError::storage(what, why)),
    }
}
