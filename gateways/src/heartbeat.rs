//! The heartbeat gateway: one per process, on a lane of its own.
//!
//! A beat carries the newest payload that the sending actor published, unless the other side has confirmed that it has
//! that payload. Most beats therefore carry none: 8,000 unchanged slot reports a second would cost a tenth of a core to
//! encode, decode and compare. No actor is asked for its payload. Heartbeat actors decide nothing: they report
//! (resource, incarnation, lost).

use crate::job_master::TaskStateUpdate;
use crate::{Never, gateway};
use model::{
    AllocationId, InstanceId, JobId, LeaderSession, ProcessSession, ResourceId, SlotReport,
};
use serde::{Deserialize, Serialize};

gateway! {
    /// The gateway of a process's heartbeat service, which sends and answers beats for the process's actors, so that
    /// the actors of two processes (a JobMaster and a TaskExecutor, for example) notice each other's loss.
    pub struct HeartbeatGateway = "heartbeat", fenced by ProcessSession;
    Beat => BeatReply, Never;
}

/// One sign of life from the actor that watches to the actor that is watched, sent by the heartbeat service of the former for each pair
/// once per `heartbeat.interval`, but not while the last beat is unanswered (it is given up after the longer of the interval and a
/// quarter of `heartbeat.timeout`). The reply is the other side's sign of life, so one call serves both. A failed beat alone is no loss.
/// After silence for 0.6 of `heartbeat.timeout` the watched actor is told, so that it can end its work before it is given up. A
/// side counts the other as lost after silence for `heartbeat.timeout`, and at once when the RPC service finds the other's process gone,
/// or when a beat or reply shows its actor to be stuck ([`Beat::turn_age_ms`]). A sender that was answered before also does on
/// [`BeatReply::known`] false, and on `Fenced` (the peer's process is in another session), which counts like that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// Party that sends the beat: the actor that watches.
    pub from: Party,
    /// Party that the beat is for. If no such actor lives here, or it expects no beats of `from`, the reply says that
    /// the pair is not known ([`BeatReply::known`]).
    pub to: Party,
    /// Milliseconds since the actor that `from` names last finished a turn (the handling of a message or timer); if they are more than
    /// `heartbeat.stuck-after`, the receiver counts the actor as lost although its process lives.
    pub turn_age_ms: u64,
    /// Version of the newest payload of the actor that `from` names, and the payload itself unless the peer has that
    /// version already.
    pub newest: Newest,
}

/// The newest payload (report) of one side of a pair of watching actors, as it travels with a beat or its reply: the payload if the other
/// side lacks it, its version, and the version of the other side's payload that has come.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Newest {
    /// The payload's version, from one counter of the process for all its pairs, which rises whenever a pair publishes another payload
    /// than its last; 0 means that nothing was published. A restarted process counts anew.
    pub version: u64,
    /// The payload; `None` if nothing was published or the other side has this version.
    pub payload: Option<BeatPayload>,
    /// The version of the other side's newest payload that the sender of this value has; 0: none yet.
    pub heard: u64,
}

impl Newest {
    /// Returns the payload part of a beat. `version` is the version of this side's payload, `peer_has` the version that the
    /// other side has of it, and `heard` the version that this side has of the other side's payload. `payload` is called
    /// only if the two former differ; otherwise the beat carries none.
    pub fn of(
        version: u64,
        payload: impl FnOnce() -> BeatPayload,
        peer_has: u64,
        heard: u64,
    ) -> Self {
        Self { version, payload: (version != peer_has).then(payload), heard }
    }
}

/// Reply to one beat: the sign of life of the actor that is watched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BeatReply {
    /// True if the party that the beat names as `to` lives here and expects beats of its sender. False: this side knows no such pair (any
    /// more), or has counted the sender as lost. A sender that was answered with true before then counts its peer as lost, and the two
    /// have to register with each other again; one that was not ignores it.
    pub known: bool,
    /// Milliseconds since the asked actor last finished a turn (the handling of a message or timer); if they are more than
    /// `heartbeat.stuck-after`, the watching side counts the actor as lost. 0 if the pair is not known.
    pub turn_age_ms: u64,
    /// Version of the asked actor's newest payload, and the payload itself unless the asking actor has that version already; empty if the
    /// pair is not known.
    pub newest: Newest,
}

/// One side of a pair of actors that watch each other, named so that an earlier registration or leadership of the same
/// component is another party.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Party {
    /// A TaskExecutor in one incarnation (registration at the ResourceManager), so that an earlier registration of its
    /// process is another party.
    TaskExecutor {
        /// Process of the TaskExecutor.
        resource_id: ResourceId,
        /// Session of the TaskExecutor's process.
        session: ProcessSession,
        /// The TaskExecutor's incarnation, given by its registration at the ResourceManager.
        instance_id: InstanceId,
    },
    /// A JobMaster, for one job in one leadership.
    JobMaster {
        /// Job that the JobMaster leads.
        job_id: JobId,
        /// Leadership of the JobMaster.
        session: LeaderSession,
    },
    /// A ResourceManager in one leadership.
    ResourceManager {
        /// Leadership of the ResourceManager.
        session: LeaderSession,
    },
}

/// The payload of a beat or its reply: the report that the sending actor has published for the other side. Only TaskExecutors publish
/// one: `Slots` for their ResourceManager, `Job` for each JobMaster. Only the newest is sent, until the other side has confirmed it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum BeatPayload {
    /// The beat carries no report, because its sender has published none.
    #[default]
    Empty,
    /// TaskExecutor → ResourceManager: the state of all slots; the ResourceManager passes it on to the SlotManager.
    Slots(SlotReport),
    /// TaskExecutor → JobMaster: the accepted slots and the tasks of that JobMaster's job on the TaskExecutor; the
    /// JobMaster corrects its view by them.
    Job {
        /// Allocations of the job's slots on the TaskExecutor that this JobMaster has accepted; offered ones are not among
        /// them.
        allocations: Vec<AllocationId>,
        /// Attempts of the job on the TaskExecutor with newest state, counts and metrics; ended ones too, until the
        /// JobMaster has confirmed their end.
        tasks: Vec<TaskStateUpdate>,
    },
}
