//! The pairs and turn counters of one process. Every method is one step over plain data; reports leave
//! through the owners' mailboxes without ever waiting for them.

use super::handle::{HeartbeatReport, TurnMarker, Turns};
use actix::Recipient;
use actix::prelude::SendError;
use control::liveness::{Event, Limits, Liveness, TurnAge, Verdict};
use gateways::heartbeat::{Beat, BeatPayload, BeatReply, HeartbeatGateway, Party};
use gateways::{EndpointAddress, NodeAddress, Remote, RpcService};
use model::ProcessSession;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A payload that did not change is reported again after so many beats.
const REPORT_EVERY: u32 = 5;

/// One pair with one side in this process.
pub(super) struct Pair {
    me: Party,
    peer: Party,
    node: NodeAddress,
    beats_to: Option<(EndpointAddress, ProcessSession)>,
    gateway: Option<Remote<HeartbeatGateway>>,
    marker: TurnMarker,
    report_to: Recipient<HeartbeatReport>,
    liveness: Liveness,
    payload: BeatPayload,
    due_at: Duration,
    in_flight: bool,
    heard: BeatPayload,
    unchanged: u32,
    unsent: Unsent,
}

/// Reports that the owner's mailbox had no room for: the newest payload, and what ends things.
#[derive(Default)]
struct Unsent {
    payload: bool,
    silent: Option<Duration>,
    lost: Option<control::liveness::Loss>,
}

impl Pair {
    pub(super) fn new(
        me: Party,
        peer: Party,
        node: NodeAddress,
        beats_to: Option<(EndpointAddress, ProcessSession)>,
        marker: TurnMarker,
        report_to: Recipient<HeartbeatReport>,
        liveness: Liveness,
    ) -> Self {
        Self {
            me,
            peer,
            node,
            beats_to,
            gateway: None,
            marker,
            report_to,
            liveness,
            payload: BeatPayload::Empty,
            due_at: Duration::ZERO,
            in_flight: false,
            heard: BeatPayload::Empty,
            unchanged: 0,
            unsent: Unsent::default(),
        }
    }

    fn step(&mut self, now: Duration, event: Event) {
        match self.liveness.step(now, event) {
            Verdict::Fine => {}
            Verdict::Silent { since } => self.unsent.silent = Some(since),
            Verdict::Lost(loss) => self.unsent.lost = Some(loss),
        }
    }

    fn hear(&mut self, now: Duration, turn_age_ms: u64, payload: BeatPayload) {
        let turn_age = Duration::from_millis(turn_age_ms);
        self.step(now, Event::Heard { turn_age });
        if self.liveness.is_over() {
            return;
        }
        self.unchanged = self.unchanged.saturating_add(1);
        if self.heard != payload || self.unchanged >= REPORT_EVERY {
            self.unsent.payload = payload != BeatPayload::Empty;
            self.heard = payload;
            self.unchanged = 0;
        }
    }

    /// Hands over what there is to report; what finds no room waits for the next tick.
    fn flush(&mut self) {
        let party = &self.peer;
        let send = |report| match self.report_to.try_send(report) {
            Ok(()) | Err(SendError::Closed(_)) => true,
            Err(SendError::Full(_)) => false,
        };
        if let Some(since) = self.unsent.silent
            && send(HeartbeatReport::Silent { party: party.clone(), since })
        {
            self.unsent.silent = None;
        }
        if let Some(cause) = self.unsent.lost.clone()
            && send(HeartbeatReport::Lost { party: party.clone(), cause })
        {
            self.unsent.lost = None;
        }
        if self.unsent.payload
            && !self.liveness.is_over()
            && send(HeartbeatReport::Payload { party: party.clone(), payload: self.heard.clone() })
        {
            self.unsent.payload = false;
        }
    }
}

/// A beat to be sent now.
pub(super) struct DueBeat {
    pub(super) pair: u64,
    pub(super) to: Remote<HeartbeatGateway>,
    pub(super) beat: Beat,
}

/// How a beat went.
pub(super) enum Outcome {
    /// Answered.
    Answered(BeatReply),
    /// The peer's process is another incarnation.
    OtherIncarnation,
    /// No answer; silence is what the time-out counts.
    Nothing,
}

/// All pairs of a process.
pub(super) struct Table {
    limits: Limits,
    pairs: BTreeMap<u64, Pair>,
    by_parties: BTreeMap<(Party, Party), u64>,
    next: u64,
    turns: Vec<(Weak<Turns>, TurnAge)>,
    observed_at: Duration,
}

impl Table {
    pub(super) fn new(limits: Limits, now: Duration) -> Self {
        Self {
            limits,
            pairs: BTreeMap::new(),
            by_parties: BTreeMap::new(),
            next: 0,
            turns: Vec::new(),
            observed_at: now,
        }
    }

    /// Adds a pair. First beats are spread over an interval, so that many peers are not asked at once.
    pub(super) fn add(&mut self, mut pair: Pair, now: Duration) -> u64 {
        let id = self.next;
        self.next += 1;
        let sixteenth = u32::try_from(id.wrapping_mul(7) % 16).unwrap_or(0) + 1;
        pair.due_at = now.saturating_add(self.limits.interval.saturating_mul(sixteenth) / 16);
        self.by_parties.insert((pair.me.clone(), pair.peer.clone()), id);
        self.pairs.insert(id, pair);
        id
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(pair) = self.pairs.remove(&id) {
            let key = (pair.me, pair.peer);
            if self.by_parties.get(&key) == Some(&id) {
                self.by_parties.remove(&key);
            }
        }
    }

    pub(super) fn publish(&mut self, id: u64, payload: BeatPayload) {
        if let Some(pair) = self.pairs.get_mut(&id) {
            pair.payload = payload;
        }
    }

    pub(super) fn silence(&self, id: u64, now: Duration) -> Duration {
        self.pairs.get(&id).map_or(Duration::ZERO, |pair| pair.liveness.silence(now))
    }

    pub(super) fn add_turns(&mut self, turns: &Arc<Turns>) {
        self.turns.push((Arc::downgrade(turns), TurnAge::default()));
    }

    /// Lets time pass for every pair.
    pub(super) fn tick(&mut self, now: Duration) {
        for pair in self.pairs.values_mut() {
            pair.step(now, Event::Tick);
            pair.flush();
        }
    }

    /// The beats whose time has come.
    pub(super) fn due(&mut self, now: Duration, rpc: &RpcService) -> Vec<DueBeat> {
        let interval = self.limits.interval;
        let mut due = Vec::new();
        for (id, pair) in &mut self.pairs {
            let Some((address, session)) = &pair.beats_to else {
                continue;
            };
            if pair.in_flight || pair.liveness.is_over() || pair.due_at > now {
                continue;
            }
            let to = pair
                .gateway
                .get_or_insert_with(|| rpc.gateway::<HeartbeatGateway>(address, *session))
                .clone();
            pair.in_flight = true;
            // Keeps its phase; after a stop of this process there is one beat, not one per missed interval.
            let next = pair.due_at.saturating_add(interval);
            pair.due_at = if next > now { next } else { now.saturating_add(interval) };
            let beat = Beat {
                from: pair.me.clone(),
                to: pair.peer.clone(),
                turn_age_ms: millis(pair.marker.age()),
                payload: pair.payload.clone(),
            };
            due.push(DueBeat { pair: *id, to, beat });
        }
        due
    }

    /// A beat of a pair came to its end.
    pub(super) fn settle(&mut self, id: u64, now: Duration, outcome: Outcome) {
        let Some(pair) = self.pairs.get_mut(&id) else {
            return;
        };
        pair.in_flight = false;
        match outcome {
            Outcome::Answered(reply) if reply.known => {
                pair.hear(now, reply.turn_age_ms, reply.payload);
            }
            Outcome::Answered(_) | Outcome::OtherIncarnation => pair.step(now, Event::NotKnown),
            Outcome::Nothing => {}
        }
        pair.flush();
    }

    /// A beat of a peer came in.
    pub(super) fn receive(&mut self, now: Duration, beat: Beat) -> BeatReply {
        let key = (beat.to, beat.from);
        let pair = self.by_parties.get(&key).and_then(|id| self.pairs.get_mut(id));
        let Some(pair) = pair.filter(|pair| !pair.liveness.is_over()) else {
            return BeatReply { known: false, turn_age_ms: 0, payload: BeatPayload::Empty };
        };
        pair.hear(now, beat.turn_age_ms, beat.payload);
        pair.flush();
        BeatReply {
            known: !pair.liveness.is_over(),
            turn_age_ms: millis(pair.marker.age()),
            payload: pair.payload.clone(),
        }
    }

    /// The fabric found a process dead.
    pub(super) fn confirmed(&mut self, now: Duration, node: &NodeAddress, why: &str) {
        for pair in self.pairs.values_mut().filter(|pair| pair.node == *node) {
            pair.step(now, Event::Confirmed { why: why.to_owned() });
            pair.flush();
        }
    }

    /// Observes every turn counter; answers the actor that is stuck longest, if one is.
    pub(super) fn observe_turns(&mut self, now: Duration) -> Option<(String, Duration)> {
        let passed = now.saturating_sub(self.observed_at);
        self.observed_at = now;
        let Limits { interval, stuck_after, .. } = self.limits;
        let mut worst: Option<(String, Duration)> = None;
        self.turns.retain_mut(|(turns, seen)| {
            let Some(turns) = turns.upgrade() else {
                return false;
            };
            let age = seen.observe(turns.finished.load(Ordering::Relaxed), passed, interval);
            turns.age_ms.store(millis(age), Ordering::Relaxed);
            if age > stuck_after && worst.as_ref().is_none_or(|(_, longest)| age > *longest) {
                worst = Some((turns.actor.clone(), age));
            }
            true
        });
        worst
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
