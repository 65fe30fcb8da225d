//! Leader sessions: ordered epochs with a nonce, one distinct type per component.
//!
//! A token never changes during an actor's life: a new leadership is a new actor.

use derive_more::Display;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The place of a leadership in the order of leaderships: compared by `store` first, then by `process`. A leadership
/// with a higher epoch supersedes one with a lower epoch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Epoch {
    /// Number of the process's lease among all processes' leases. With HA, the counter in the HA store; without HA, on YARN the number of
    /// the application attempt, elsewhere the process's start time in Unix milliseconds.
    pub store: u64,
    /// A counter of the leading process, which grows with every leadership that it grants to a component. A JobMaster's
    /// is derived from its Dispatcher's and grows with every JobMaster of the job.
    pub process: u64,
}

/// The identity of one leadership of one component. Calls carry it, so that calls from or to a former leader are
/// recognised and refused. Displays as `STORE.PROCESS/NONCE`, the nonce in 16 hex digits.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, Display,
)]
#[display("{}.{}/{:016x}", self.epoch.store, self.epoch.process, self.nonce)]
pub struct LeaderSession {
    /// Place of the leadership in the order of leaderships; a later one has a higher epoch.
    pub epoch: Epoch,
    /// Random number, so that two leaders that were given the same epoch by mistake have different sessions.
    pub nonce: u64,
}

impl fmt::Debug for LeaderSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A component's fencing token: a [`LeaderSession`] with a type of its own for each component. A call carries the token
/// of the callee that the caller means, and is refused, without an effect, if the callee runs under another one, higher or lower.
pub trait Fence: Copy + Eq + Ord + fmt::Debug + fmt::Display + Send + Sync + 'static {
    /// Wraps a session that came in a message as this component's token; checks nothing.
    fn from_session(session: LeaderSession) -> Self;
    /// Returns the session inside the token, as messages carry it.
    fn session(self) -> LeaderSession;
}

macro_rules! fence {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[derive(Display, derive_more::Debug)]
        #[debug("{_0}")]
        #[serde(transparent)]
        pub struct $name(pub LeaderSession);

        impl Fence for $name {
            fn from_session(session: LeaderSession) -> Self {
                Self(session)
            }
            fn session(self) -> LeaderSession {
                self.0
            }
        }
    };
}

fence!(
    /// The session of a Dispatcher: one leadership of it, by which its gateway is fenced.
    DispatcherId);
fence!(
    /// The session of a ResourceManager: one leadership of it, by which its gateway is fenced. Another one than that of the Dispatcher in
    /// the same process.
    ResourceManagerId);
fence!(
    /// The session of a SlotManager: that of the ResourceManager it lives and dies with.
    SlotManagerId);
fence!(
    /// The session of a JobMaster: one leadership of one job, derived from its Dispatcher's. A later JobMaster of the job has a
    /// higher one.
    JobMasterId);
fence!(
    /// The session of anything else: the process incarnation of a TaskExecutor, a program host, a
    /// BlobServer, a heartbeat or election service. Its epoch's `store` is the time at which the process (or host) was started, in Unix
    /// milliseconds; a restart gives another one. The default value fences the endpoint of leader retrieval, which is called by processes
    /// that do not know a session yet.
    ProcessSession);
