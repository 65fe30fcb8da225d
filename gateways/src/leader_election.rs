//! The gateways of leader election and retrieval.
//!
//! A process has one election: its driver holds one lease for all components, and each component is granted a session
//! of its own. JobMasters are not elected: a JobMaster's session follows from the Dispatcher's. Retrieval answers which
//! leader a component has, for callers inside and outside of the process.

use crate::{EndpointAddress, Never, gateway};
use derive_more::Display;
use model::{JobId, LeaderSession, ProcessSession};
use serde::{Deserialize, Serialize};
use thiserror::Error;

gateway! {
    /// The gateway of a JobManager's election service, which grants leaderships to the components of its process and
    /// publishes their addresses. Only for components of the same process: a call from another one is refused with `NotLeader`.
    pub struct LeaderElectionGateway = "leader_election", fenced by ProcessSession;
    ConfirmLeadership => (), NotLeader;
}

gateway! {
    /// The gateway of a JobManager process's leader retrieval service, which answers with the leaders that this process's own election
    /// has published, and with its JobMasters; a standby JobManager has none. It is always served under `ProcessSession::default()` (all
    /// zero), and callers name that session, because they can't know the process's own one yet.
    pub struct LeaderRetrievalGateway = "leader_retrieval", fenced by ProcessSession;
    RequestLeader => Option<LeaderInformation>, Never;
}

/// A component that has one leader at a time, for whose address and session the leader retrieval is asked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
pub enum Component {
    /// The component that accepts jobs and starts their JobMasters.
    #[display("dispatcher")]
    Dispatcher,
    /// The component that tracks TaskExecutors and requests TaskManagers from an external resource system.
    #[display("resource_manager")]
    ResourceManager,
    /// The component that serves the REST API.
    #[display("rest")]
    RestEndpoint,
    /// The JobMaster of the job with this id.
    #[display("job_master/{_0}")]
    JobMaster(JobId),
}

/// Address and session of a component's published leader, as the election service publishes them and the retrieval service
/// answers. Without a leader there is no such value (`None`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaderInformation {
    /// Leadership under which the component answers; a later one has a higher epoch, and calls under an earlier one are
    /// refused as fenced.
    pub session: LeaderSession,
    /// Address of the component's RPC endpoint under that leadership: process (`host:port`) and endpoint name.
    pub address: EndpointAddress,
}

/// Component → its process's election service: confirms that the component answers under the session (leadership) that
/// it was granted. If the session still leads, the election publishes the address, so that retrievals name it;
/// otherwise it refuses with [`NotLeader`] and publishes nothing. May be repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfirmLeadership {
    /// Component that confirms.
    pub component: Component,
    /// Address and session to publish.
    pub leader: LeaderInformation,
}

/// The error of [`ConfirmLeadership`]: the session does not lead (any more), was never granted, or the caller is another process; nothing
/// was published. The component does not ask again: it waits for the revocation of the session, which ends its leader.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("session {session} does not lead")]
pub struct NotLeader {
    /// The session that the caller named.
    pub session: LeaderSession,
}

/// Another process → leader retrieval of a JobManager: asks for the leader of a component. Answered with the leader that this process has
/// published, `None` if there is none: at once if it differs from `known`, otherwise as soon as it does (the loss of the leader counts,
/// too) or when `wait_ms` is over without a change. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLeader {
    /// Component whose leader is asked for.
    pub component: Component,
    /// Leader that the caller knows already; `None` if it knows of none.
    pub known: Option<LeaderInformation>,
    /// Milliseconds to wait for a change; at most 30,000, and at most until 0.5 s before the caller's deadline. 0 answers at once.
    pub wait_ms: u64,
}
