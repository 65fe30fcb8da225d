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
    /// What the election service of a JobManager answers (from inside its own process only).
    pub struct LeaderElectionGateway = "leader_election", fenced by ProcessSession;
    ConfirmLeadership => (), NotLeader;
}

gateway! {
    /// What the retrieval service of a process answers.
    pub struct LeaderRetrievalGateway = "leader_retrieval", fenced by ProcessSession;
    RequestLeader => Option<LeaderInformation>, Never;
}

/// What is led.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
pub enum Component {
    /// The Dispatcher.
    #[display("dispatcher")]
    Dispatcher,
    /// The ResourceManager.
    #[display("resource_manager")]
    ResourceManager,
    /// The REST endpoint.
    #[display("rest")]
    RestEndpoint,
    /// One job's JobMaster.
    #[display("job_master/{_0}")]
    JobMaster(JobId),
}

/// A published leader.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaderInformation {
    /// Its session.
    pub session: LeaderSession,
    /// Its endpoint.
    pub address: EndpointAddress,
}

/// The component answers and still leads: publish its address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfirmLeadership {
    /// Which.
    pub component: Component,
    /// Under which session.
    pub leader: LeaderInformation,
}

/// The session does not lead (any more); nothing was published.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("session {session} does not lead")]
pub struct NotLeader {
    /// The session that was named.
    pub session: LeaderSession,
}

/// Who leads a component. With `known`, answered when the leader differs from it, or at `wait_ms`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLeader {
    /// Which.
    pub component: Component,
    /// What the asker knows.
    pub known: Option<LeaderInformation>,
    /// Milliseconds to wait for a change.
    pub wait_ms: u64,
}
