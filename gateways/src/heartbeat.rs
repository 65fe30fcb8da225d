//! The heartbeat gateway: one per process, on a lane of its own.
//!
//! A beat carries the newest payload that the sending actor published, unless the other side has confirmed that it has
//! that payload. Most beats therefore carry none: 8,000 unchanged slot reports a second would cost a tenth of a core to
//! encode, decode and compare. No actor is asked for its payload. Heartbeat actors decide nothing: they report
//! (resource, incarnation, lost).

use crate::job_master::TaskStateUpdate;
use crate::{Never, gateway};
use model::{
    AllocationId, ExecutionAttemptId, InstanceId, JobId, LeaderSession, ProcessSession, ResourceId,
    SlotReport,
};
use serde::{Deserialize, Serialize};

gateway! {
    /// What a heartbeat service answers.
    pub struct HeartbeatGateway = "heartbeat", fenced by ProcessSession;
    Beat => BeatReply, Never;
}

/// One beat from the side that watches to the side that is watched; its reply is the other's beat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// Who asks.
    pub from: Party,
    /// Who is asked.
    pub to: Party,
    /// Milliseconds since the asking actor finished a turn.
    pub turn_age_ms: u64,
    /// Newest payload of the asking actor.
    pub newest: Newest,
}

/// One side's newest payload.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Newest {
    /// The payload's version. It rises with every payload that a process publishes; 0 means that nothing was published.
    pub version: u64,
    /// The payload; `None` if nothing was published or the other side has this version.
    pub payload: Option<BeatPayload>,
    /// The version of the other side's newest payload that this side has.
    pub heard: u64,
}

impl Newest {
    /// Returns the payload part of a beat. `version` is the version of this side's payload, `peer_has` the version that
    /// the other side has of it, and `heard` the version that this side has of the other side's payload.
    pub fn of(
        version: u64,
        payload: impl FnOnce() -> BeatPayload,
        peer_has: u64,
        heard: u64,
    ) -> Self {
        Self { version, payload: (version != peer_has).then(payload), heard }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BeatReply {
    /// Whether the asked party knows the asking one in this session and is itself the one meant; false: the
    /// connection is over, register again.
    pub known: bool,
    /// Milliseconds since the asked actor finished a turn.
    pub turn_age_ms: u64,
    /// Newest payload of the asked actor.
    pub newest: Newest,
}

/// One side of a pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Party {
    /// A TaskExecutor.
    TaskExecutor {
        /// The process.
        resource_id: ResourceId,
        /// Its session (process incarnation).
        session: ProcessSession,
        /// Its registration at the ResourceManager.
        instance_id: InstanceId,
    },
    /// A JobMaster.
    JobMaster {
        /// The job.
        job_id: JobId,
        /// Its session.
        session: LeaderSession,
    },
    /// A ResourceManager.
    ResourceManager {
        /// Its session.
        session: LeaderSession,
    },
}

/// What a beat carries.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum BeatPayload {
    /// Nothing.
    #[default]
    Empty,
    /// TaskExecutor → ResourceManager.
    Slots(SlotReport),
    /// TaskExecutor → JobMaster: what of that job it holds.
    Job {
        /// Allocated slots.
        allocations: Vec<AllocationId>,
        /// Attempts with state and counts.
        tasks: Vec<TaskStateUpdate>,
    },
    /// JobMaster → TaskExecutor: what it believes is there.
    Deployed {
        /// Allocations it holds on that TaskExecutor.
        allocations: Vec<AllocationId>,
        /// Attempts it deployed there.
        attempts: Vec<ExecutionAttemptId>,
    },
}
