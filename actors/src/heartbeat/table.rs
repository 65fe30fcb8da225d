//! The pairs and turn counters of one process. Every method is one step over plain data; reports leave
//! through the owners' mailboxes without ever waiting for them.

use super::handle::{HeartbeatReport, TurnMarker, Turns};
use actix::Recipient;
use actix::prelude::SendError;
use control::liveness::{Event, Limits, Liveness, TurnAge, Verdict};
use gateways::heartbeat::{Beat, BeatPayload, BeatReply, HeartbeatGateway, Newest, Party};
use gateways::{EndpointAddress, NodeAddress, Remote, RpcService};
use model::ProcessSession;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Number of beats after which an unchanged payload is reported again.
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
    /// Version of `payload`; rises with every change.
    version: u64,
    /// The version of the newest payload that the peer has confirmed.
    peer_has: u64,
    due_at: Duration,
    in_flight: bool,
    /// Time under which the pair is in the agenda; `None` if it is not.
    look_at: Option<Duration>,
    heard: BeatPayload,
    /// Version of `heard`; rises with every change.
    heard_version: u64,
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
            version: 0,
            peer_has: 0,
            due_at: Duration::ZERO,
            in_flight: false,
            look_at: None,
            heard: BeatPayload::Empty,
            heard_version: 0,
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

    /// Lets time pass that has passed since a turn in which there was nothing to look at.
    fn tick(&mut self, turned_at: Duration, now: Duration) {
        // Steps as if the pair had been looked at in every turn: the long pause is this process's
        // own.
        self.step(turned_at, Event::Tick);
        self.step(now, Event::Tick);
        self.flush();
    }

    /// Returns the monotonic time at which the pair has to be looked at again; `None`: never.
    fn next_look(&self, now: Duration, interval: Duration) -> Option<Duration> {
        if self.unsent.payload || self.unsent.silent.is_some() || self.unsent.lost.is_some() {
            return Some(now);
        }
        if self.liveness.is_over() {
            return None;
        }
        let beat = self.beats_to.as_ref().filter(|_| !self.in_flight).map(|_| self.due_at);
        let latest = now.saturating_add(interval).min(self.liveness.deadline());
        Some(beat.map_or(latest, |due_at| due_at.min(latest)))
    }

    /// Returns the beat that is due at `now`, if there is one.
    fn due(&mut self, now: Duration, interval: Duration, rpc: &RpcService) -> Option<Addressed> {
        let (address, session) = self.beats_to.as_ref()?;
        if self.in_flight || self.liveness.is_over() || self.due_at > now {
            return None;
        }
        let gateway = self.gateway.get_or_insert_with(|| rpc.gateway(address, *session));
        let to = gateway.clone();
        self.in_flight = true;
        // Keeps its phase; after a stop of this process there is one beat, not one per missed interval.
        let next = self.due_at.saturating_add(interval);
        self.due_at = if next > now { next } else { now.saturating_add(interval) };
        let beat = Beat {
            from: self.me.clone(),
            to: self.peer.clone(),
            turn_age_ms: millis(self.marker.age()),
            newest: self.newest(),
        };
        Some((to, beat))
    }

    /// Returns the part of the next beat or answer that carries the payload.
    fn newest(&self) -> Newest {
        Newest::of(self.version, || self.payload.clone(), self.peer_has, self.heard_version)
    }

    fn hear(&mut self, now: Duration, turn_age_ms: u64, newest: Newest) {
        let turn_age = Duration::from_millis(turn_age_ms);
        self.step(now, Event::Heard { turn_age });
        if self.liveness.is_over() {
            return;
        }
        self.peer_has = newest.heard;
        self.unchanged = self.unchanged.saturating_add(1);
        let changed = newest.version != self.heard_version
            && (newest.payload.is_some() || newest.version == 0);
        if changed {
            // The peer has started anew and has not published a payload yet.
            self.heard = newest.payload.unwrap_or_default();
            self.heard_version = newest.version;
        }
        if changed || self.unchanged >= REPORT_EVERY {
            self.unsent.payload = self.heard != BeatPayload::Empty;
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

/// A beat and whom it is for.
type Addressed = (Remote<HeartbeatGateway>, Beat);

/// A beat to be sent now.
pub(super) struct DueBeat {
    pub(super) pair: u64,
    pub(super) to: Remote<HeartbeatGateway>,
    pub(super) beat: Beat,
}

/// The outcome of a beat.
pub(super) enum Outcome {
    /// The peer's reply to a beat.
    Answered(BeatReply),
    /// The peer's process is another incarnation.
    OtherIncarnation,
    /// No answer came; the silence counts towards the time-out.
    Nothing,
}

/// All pairs of a process.
pub(super) struct Table {
    limits: Limits,
    pairs: BTreeMap<u64, Pair>,
    by_parties: BTreeMap<(Party, Party), u64>,
    /// The times at which pairs are to be looked at, with the pairs' ids.
    agenda: BTreeSet<(Duration, u64)>,
    /// Time of the last turn.
    turned_at: Duration,
    next: u64,
    /// Number of payloads published so far by all pairs, so that a pair that is made anew never uses a version again.
    published: u64,
    turns: Vec<(Weak<Turns>, TurnAge)>,
    observed_at: Duration,
}

impl Table {
    pub(super) fn new(limits: Limits, now: Duration) -> Self {
        Self {
            limits,
            pairs: BTreeMap::new(),
            by_parties: BTreeMap::new(),
            agenda: BTreeSet::new(),
            turned_at: now,
            next: 0,
            published: 0,
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
        self.plan(id, now);
        id
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(pair) = self.pairs.remove(&id) {
            if let Some(planned) = pair.look_at {
                self.agenda.remove(&(planned, id));
            }
            let key = (pair.me, pair.peer);
            if self.by_parties.get(&key) == Some(&id) {
                self.by_parties.remove(&key);
            }
        }
    }

    pub(super) fn publish(&mut self, id: u64, payload: BeatPayload) {
        if let Some(pair) = self.pairs.get_mut(&id).filter(|pair| pair.payload != payload) {
            self.published += 1;
            pair.version = self.published;
            pair.payload = payload;
        }
    }

    pub(super) fn silence(&self, id: u64, now: Duration) -> Duration {
        self.pairs.get(&id).map_or(Duration::ZERO, |pair| pair.liveness.silence(now))
    }

    pub(super) fn add_turns(&mut self, turns: &Arc<Turns>) {
        self.turns.push((Arc::downgrade(turns), TurnAge::default()));
    }

    /// Lets time pass; the beats whose time has come. Only pairs at which there is something to look at are
    /// touched, each about once an interval: eight turns an interval over thousands of pairs cost little.
    pub(super) fn turn(&mut self, now: Duration, rpc: &RpcService) -> Vec<DueBeat> {
        let mut looks = Vec::new();
        while let Some((at, id)) = self.agenda.first().copied() {
            if at > now {
                break;
            }
            self.agenda.pop_first();
            looks.push(id);
        }
        looks.sort_unstable();
        let mut due = Vec::new();
        for id in looks {
            let Some(pair) = self.pairs.get_mut(&id) else { continue };
            pair.look_at = None;
            pair.tick(self.turned_at, now);
            let beat = pair.due(now, self.limits.interval, rpc);
            due.extend(beat.map(|(to, beat)| DueBeat { pair: id, to, beat }));
            self.plan(id, now);
        }
        self.turned_at = now;
        due
    }

    /// Sees to it that a pair is looked at in time.
    fn plan(&mut self, id: u64, now: Duration) {
        let Some(pair) = self.pairs.get_mut(&id) else { return };
        let next = pair.next_look(now, self.limits.interval);
        if let Some(next) = next
            && pair.look_at.is_none_or(|planned| next < planned)
        {
            if let Some(planned) = pair.look_at.replace(next) {
                self.agenda.remove(&(planned, id));
            }
            self.agenda.insert((next, id));
        }
    }

    /// Records the outcome of a pair's beat.
    pub(super) fn settle(&mut self, id: u64, now: Duration, outcome: Outcome) {
        let Some(pair) = self.pairs.get_mut(&id) else { return };
        pair.in_flight = false;
        match outcome {
            Outcome::Answered(reply) if reply.known => {
                pair.hear(now, reply.turn_age_ms, reply.newest);
            }
            Outcome::Answered(_) | Outcome::OtherIncarnation => pair.step(now, Event::NotKnown),
            Outcome::Nothing => {}
        }
        pair.flush();
        self.plan(id, now);
    }

    /// Takes in a peer's beat and returns the reply.
    pub(super) fn receive(&mut self, now: Duration, beat: Beat) -> BeatReply {
        let key = (beat.to, beat.from);
        let known = self.by_parties.get(&key).and_then(|id| Some((*id, self.pairs.get_mut(id)?)));
        let Some((id, pair)) = known.filter(|(_, pair)| !pair.liveness.is_over()) else {
            return BeatReply { known: false, turn_age_ms: 0, newest: Newest::default() };
        };
        pair.hear(now, beat.turn_age_ms, beat.newest);
        pair.flush();
        let reply = BeatReply {
            known: !pair.liveness.is_over(),
            turn_age_ms: millis(pair.marker.age()),
            newest: pair.newest(),
        };
        self.plan(id, now);
        reply
    }

    /// Records that the fabric found a process dead.
    pub(super) fn confirmed(&mut self, now: Duration, node: &NodeAddress, why: &str) {
        let mut ended = Vec::new();
        for (id, pair) in self.pairs.iter_mut().filter(|(_, pair)| pair.node == *node) {
            pair.step(now, Event::Confirmed { why: why.to_owned() });
            pair.flush();
            ended.push(*id);
        }
        ended.into_iter().for_each(|id| self.plan(id, now));
    }

    /// Observes every turn counter; answers the actor that is stuck longest, if one is.
    pub(super) fn observe_turns(&mut self, now: Duration) -> Option<(String, Duration)> {
        let passed = now.saturating_sub(self.observed_at);
        self.observed_at = now;
        let Limits { interval, stuck_after, .. } = self.limits;
        let mut worst: Option<(String, Duration)> = None;
        self.turns.retain_mut(|(turns, seen)| {
            let Some(turns) = turns.upgrade() else { return false };
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
