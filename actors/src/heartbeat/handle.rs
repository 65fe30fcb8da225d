//! The handle by which components use their process's heartbeat service: pairs that they watch or
//! expect beats from, payloads that they publish, turns that they mark.
//!
//! Nothing here waits or sends: the heartbeat actor reads what is written here on its own lane, so a
//! component that is busy does not delay its beats, and its newest payload is always at hand.

use super::table::{Pair, Table};
use actix::{Actor, AsyncContext, Context, Recipient};
use control::liveness::{Limits, Liveness, Role};
use gateways::heartbeat::{BeatPayload, Party};
use gateways::{EndpointAddress, NodeAddress};
use model::ProcessSession;
use platform::Platform;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The reason why a peer is lost: it was not heard within the time-out, its process is gone, its actor is stuck, or it does not
/// know the pair.
pub use control::liveness::Loss as LossCause;

/// A peer (actor in another process) that beats are sent to, as [`HeartbeatHandle::watch`] takes it: who it is, and where its process
/// answers beats. It comes from the peer's registration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Identity of the peer: a TaskExecutor in one registration, or a JobMaster or ResourceManager in one leadership.
    pub party: Party,
    /// Address of the heartbeat endpoint of the peer's process.
    pub address: EndpointAddress,
    /// Session of the peer's process, by which calls to its heartbeat endpoint are fenced.
    pub session: ProcessSession,
}

/// A report of the heartbeat service about a peer, sent to the actor that watches it or expects its beats. While that actor's mailbox is
/// full, reports wait and are tried again; if the actor has ended, they are dropped.
#[derive(Debug, Clone, PartialEq, actix::Message)]
#[rtype(result = "()")]
pub enum HeartbeatReport {
    /// The newest payload that the peer has published: reported when it changed, and again with every fifth beat or answer, so that
    /// the receiver can reconcile with it. An empty payload is not reported. Of reports that wait for the receiver's mailbox only the
    /// newest payload is kept; a loss of the peer drops it.
    Payload {
        /// Peer that the pair is with.
        party: Party,
        /// Payload that the peer published.
        payload: BeatPayload,
    },
    /// The peer was not heard for 0.6 of the time-out; reported once per silence, and only to the side that expects
    /// beats. The peer may soon declare this side dead, so the receiver must now end everything that must not outlive
    /// that. The pair goes on: if the peer is heard again in time, nothing more is reported about this silence.
    Silent {
        /// Peer that the pair is with.
        party: Party,
        /// Duration of the silence.
        since: Duration,
    },
    /// The peer is lost, and the pair of the two actors is over: no more beats are sent to the peer, and its beats are answered with
    /// "not known". The last report about the peer; to watch or expect it again, the actor makes a new pair.
    Lost {
        /// Peer that the pair is with.
        party: Party,
        /// Observation that showed the peer to be lost.
        cause: LossCause,
    },
}

/// A process's heartbeat service, as its components see it: they register the peers that they [watch](Self::watch)
/// (send beats to) or [expect](Self::expect) beats from, and get payloads and losses as [`HeartbeatReport`] messages.
/// Works only once `heartbeat::start` was called with it: before, no beat is sent, no loss and no stuck actor is noticed. Cheap to
/// clone; dropping clones stops nothing.
#[derive(Clone, derive_more::Debug)]
#[debug("HeartbeatHandle")]
pub struct HeartbeatHandle {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) platform: Platform,
    pub(super) limits: Limits,
    pub(super) table: Mutex<Table>,
}

impl Shared {
    /// Locks the table. A panic of another thread that held it leaves it usable, because every
    /// change is one step.
    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeartbeatHandle {
    /// Makes the handle of a heartbeat service that watches and expects no peers yet. Peers may be added at once, but
    /// beats are sent and answered only once [`super::start`] was called with the handle.
    pub fn new(platform: Platform, limits: Limits) -> Self {
        let table = Mutex::new(Table::new(limits, platform.now()));
        Self { shared: Arc::new(Shared { platform, limits, table }) }
    }

    /// Returns the limits of the service: beat interval, time-out, and the time after which an actor counts as stuck.
    pub fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Watches a peer (JobMaster → TaskExecutor, ResourceManager → TaskExecutor, ResourceManager → JobMaster): sends
    /// beats from `me` to `target` at each interval, the first after at most 9/8 of one, and tells `report_to` the peer's payloads and its
    /// loss. Returns at once. A beat waits for its answer for an interval, or a quarter of the time-out if that is longer; meanwhile no
    /// other is sent. The beats say how long ago the actor of `marker` finished a turn. A peer is lost after the time-out (from now on, if
    /// it is never heard), when its process is gone, when it does not know the pair (any more) after it was heard once, or when its
    /// actor is stuck. Dropping the returned watch ends the pair without a report.
    pub fn watch(
        &self,
        me: Party,
        target: Target,
        marker: &TurnMarker,
        report_to: Recipient<HeartbeatReport>,
    ) -> PeerWatch {
        let node = target.address.node.clone();
        let beats_to = Some((target.address, target.session));
        self.add(me, target.party, node, beats_to, marker, report_to)
    }

    /// Expects beats from `peer`, whose process is at `node`: answers them, sends none itself, and tells `report_to` the peer's
    /// payloads, its silence and its loss. The answers say how long ago the actor of `marker` finished a turn, by which the
    /// peer finds out that it is stuck. The peer is lost after the time-out (from now on, if it is never heard), when its process is gone,
    /// or when its actor is stuck.
    /// A later pair of the same two parties takes the beats over. Dropping the returned watch ends the pair without a report;
    /// beats are answered with "not known" from then on.
    pub fn expect(
        &self,
        me: Party,
        peer: Party,
        node: NodeAddress,
        marker: &TurnMarker,
        report_to: Recipient<HeartbeatReport>,
    ) -> PeerWatch {
        self.add(me, peer, node, None, marker, report_to)
    }

    fn add(
        &self,
        me: Party,
        peer: Party,
        node: NodeAddress,
        beats_to: Option<(EndpointAddress, ProcessSession)>,
        marker: &TurnMarker,
        report_to: Recipient<HeartbeatReport>,
    ) -> PeerWatch {
        let role = if beats_to.is_some() { Role::Watching } else { Role::Watched };
        let now = self.shared.platform.now();
        let liveness = Liveness::new(role, self.shared.limits, now);
        let pair = Pair::new(me, peer, node, beats_to, marker.clone(), report_to, liveness);
        let id = self.shared.lock().add(pair, now);
        PeerWatch { id, shared: Arc::clone(&self.shared) }
    }

    /// Makes a turn marker (counter of finished turns) for one actor, which the log calls `actor`. The process's
    /// watchdog looks at it until its last clone is dropped: once an actor has finished no turn for longer than
    /// `heartbeat.stuck-after`, the watchdog logs the stacks of all threads, if it has a function for that, and reports a fatal error,
    /// which ends the process. The age counts from the marker's creation, so its actor must call [`TurnMarker::tick`] when it starts.
    pub fn turn_marker(&self, actor: impl Into<String>) -> TurnMarker {
        let marker = TurnMarker {
            inner: Arc::new(Turns {
                actor: actor.into(),
                finished: AtomicU64::new(0),
                age_ms: AtomicU64::new(0),
            }),
        };
        self.shared.lock().add_turns(&marker.inner);
        marker
    }
}

/// The registration of one peer at the heartbeat service, as [`HeartbeatHandle::watch`] and [`HeartbeatHandle::expect`] return it, for as
/// long as this value lives: dropping it ends beats and reports about the peer, without a report. A report that is in the owner's mailbox
/// already may still arrive after that.
#[derive(derive_more::Debug)]
#[debug("PeerWatch({id})")]
pub struct PeerWatch {
    id: u64,
    shared: Arc<Shared>,
}

impl PeerWatch {
    /// Replaces the payload that this side's next beats (or answers to beats) carry to the peer, at first an empty one. Sends nothing
    /// itself. Each beat carries the payload until the peer has confirmed it; an equal payload is not sent again. Only the newest is
    /// sent: one that is replaced before a beat is lost.
    pub fn publish(&self, payload: BeatPayload) {
        self.shared.lock().publish(self.id, payload);
    }

    /// Returns the time since a beat or answer of the peer was last received, or since the pair was made if none was; it goes on to grow
    /// after the peer's loss. On the side that sends beats, time in which this process itself did not run does not count.
    pub fn silence(&self) -> Duration {
        let now = self.shared.platform.now();
        self.shared.lock().silence(self.id, now)
    }
}

impl Drop for PeerWatch {
    fn drop(&mut self) {
        self.shared.lock().remove(self.id);
    }
}

/// Counts an actor's finished turns, to notice that the actor is stuck. An actor keeps one for its life and calls
/// [`TurnMarker::tick`] when it starts; a handler that blocks, or a `ctx.wait` that never ends, then shows as growing
/// age. Peers get the age with each beat, and the watchdog ends the process when it exceeds `heartbeat.stuck-after`.
#[derive(Debug, Clone)]
pub struct TurnMarker {
    pub(super) inner: Arc<Turns>,
}

#[derive(Debug)]
pub(super) struct Turns {
    pub(super) actor: String,
    pub(super) finished: AtomicU64,
    pub(super) age_ms: AtomicU64,
}

impl TurnMarker {
    /// Records that the actor has finished a turn now; the watchdog sets the actor's age to zero at its next look.
    pub fn mark(&self) {
        self.inner.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a finished turn at once, and again after each interval `every` for as long as the actor of `ctx` takes
    /// turns. An actor calls this once, when it starts.
    pub fn tick<A: Actor<Context = Context<A>>>(&self, ctx: &mut Context<A>, every: Duration) {
        self.mark();
        let marker = self.clone();
        ctx.run_interval(every, move |_, _| marker.mark());
    }

    /// Returns the time since the actor last finished a turn (called [`TurnMarker::mark`]), as the watchdog saw it at its last look; it
    /// looks eight times per beat interval. Zero before its first look. A stop of the whole process counts as two beat intervals at most.
    pub fn age(&self) -> Duration {
        Duration::from_millis(self.inner.age_ms.load(Ordering::Relaxed))
    }
}
