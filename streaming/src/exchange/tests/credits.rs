//! The credits of one link, both ends of it, with the wire in between driven by hand: every frame is written and
//! arrives when the test says so. The gate's last channel has its producer in the consumer's process.

use super::task;
use crate::{
    exchange::{
        connection::Connection,
        gate::{Gate, Pushed, Taken},
        hub::Hub,
        inflow::OVERDRAFT,
        outflow::LinkOut,
        outgoing::Outgoing,
        parcel::{PARCEL_OVERHEAD, Parcel, encoded_weight},
        wire::{self, FLAG_MORE, Frame},
    },
    memory::MemoryBudget,
    task::{Sleeper, TaskSignal},
};
use model::EdgeId;
use proptest::prelude::*;
use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::Instant;

/// One producer's end of a channel, as its task sees it.
#[derive(Default)]
struct Producer {
    signal: TaskSignal,
    /// Refused, and not woken since.
    refused: bool,
    /// Elements that it has not handed over yet.
    unsent: VecDeque<Vec<u8>>,
    /// Elements that the consumer has not seen yet, in order.
    expected: VecDeque<Vec<u8>>,
    /// Elements that lie in the gate.
    arrived: usize,
    paused: bool,
    /// Bytes that a gate has taken from a producer in its process while the channel was paused.
    while_paused: u64,
    /// Elements so far.
    number: u8,
}

impl Producer {
    fn refuse(&mut self, element: Vec<u8>) {
        self.unsent.push_front(element);
        self.refused = true;
    }
}

/// A link between two processes.
struct Wires {
    producing: Arc<Connection>,
    consuming: Arc<Connection>,
    link: Arc<LinkOut>,
    gate: Arc<Gate>,
    /// The consumer's budget.
    memory: Arc<MemoryBudget>,
    consumer: TaskSignal,
    /// The consumer found nothing, and was not woken since.
    parked: bool,
    /// The consumer's clock, and the number of records on which it has worked last.
    now: Instant,
    worked: usize,
    to_consumer: Vec<u8>,
    to_producer: Vec<u8>,
    producers: Vec<Producer>,
}

impl Wires {
    fn new(remote: u32, budget: u64) -> Self {
        Self::in_time(remote, budget, None)
    }

    fn in_time(remote: u32, budget: u64, target: Option<Duration>) -> Self {
        let (producing, consuming) = (Connection::new("p".into()), Connection::new("c".into()));
        let memory = MemoryBudget::new(budget);
        let consumer = TaskSignal::new();
        let gate = Gate::new(remote as usize + 1, consumer.clone(), Arc::clone(&memory), target);
        let asked: Vec<_> = (0..remote).map(|channel| (channel, 0, channel)).collect();
        consuming.request(&task(2, 0), &gate, 3, 0, &asked);
        consuming.write_control(&mut Vec::new());
        let hub = Arc::new(Hub::new(EdgeId(3)));
        let link = LinkOut::new(
            0,
            &producing,
            &hub,
            (0, 0),
            (0..remote).map(|subtask| (subtask, (subtask, 0))).collect(),
            MemoryBudget::new(1 << 20),
        );
        producing.put_link_out(0, Arc::clone(&link));
        link.set_share(gate.share());
        Self {
            producing,
            consuming,
            link,
            gate,
            memory,
            consumer,
            parked: false,
            now: Instant::now(),
            worked: 0,
            to_consumer: Vec::new(),
            to_producer: Vec::new(),
            producers: (0..=remote).map(|_| Producer::default()).collect(),
        }
    }

    /// The producer of `channel` makes an element of so many bytes, and sends it when it may.
    fn make(&mut self, channel: u32, len: usize) {
        let producer = &mut self.producers[channel as usize];
        producer.number = producer.number.wrapping_add(1);
        let bytes = vec![producer.number; len];
        producer.unsent.push_back(bytes.clone());
        producer.expected.push_back(bytes);
        self.send(channel);
    }

    /// The task of a producer runs, unless it waits to be woken; whether it sent something.
    fn send(&mut self, channel: u32) -> bool {
        let local = channel as usize + 1 == self.producers.len();
        let producer = &mut self.producers[channel as usize];
        if producer.refused && !producer.signal.take() {
            return false;
        }
        let waiting = producer.unsent.len();
        producer.refused = false;
        while !producer.refused
            && let Some(bytes) = producer.unsent.pop_front()
        {
            if local {
                let weight = encoded_weight(bytes.len());
                match self.gate.push(channel, Parcel::Batch(bytes), weight, &producer.signal) {
                    Pushed::Taken | Pushed::TakenForSleeper | Pushed::Dropped => {
                        self.gate.wake();
                        producer.arrived += 1;
                        producer.while_paused += if producer.paused { weight } else { 0 };
                    }
                    Pushed::Refused(Parcel::Batch(bytes)) => producer.refuse(bytes),
                    Pushed::Refused(_) => panic!("not what was sent"),
                }
            } else if self.link.has_room(channel, &producer.signal) {
                self.link.push(channel, Parcel::Batch(bytes));
            } else {
                producer.refuse(bytes);
            }
        }
        producer.unsent.len() < waiting
    }

    fn write_control(&mut self) -> bool {
        let before = self.to_consumer.len();
        self.producing.write_control(&mut self.to_consumer);
        self.to_consumer.len() > before
    }

    fn write_part(&mut self) -> bool {
        let mut out = Outgoing::new(false);
        let written = self.producing.write_part(&mut out);
        self.to_consumer.append(out.frames());
        written
    }

    /// One frame arrives at the consumer's process.
    fn arrive(&mut self) -> bool {
        let Some((frame, len)) = wire::decode(&self.to_consumer).unwrap() else {
            return false;
        };
        if let Frame::Data { index, flags, .. } = frame
            && flags & FLAG_MORE == 0
        {
            self.producers[index as usize].arrived += 1;
        }
        if let Some(gate) = self.consuming.handle(frame, &Weak::new()).unwrap() {
            gate.wake();
        }
        self.to_consumer.drain(..len);
        true
    }

    /// One frame arrives at the producers' process.
    fn credit(&mut self) -> bool {
        self.consuming.write_control(&mut self.to_producer);
        let Some((frame, len)) = wire::decode(&self.to_producer).unwrap() else {
            return false;
        };
        self.producing.handle(frame, &Weak::new()).unwrap();
        self.to_producer.drain(..len);
        true
    }

    /// The consumer looks for an element, unless it waits to be woken; whether it did.
    fn poll(&mut self) -> bool {
        if self.parked && !self.consumer.take() {
            return false;
        }
        self.parked = false;
        match self.gate.poll(self.now, std::mem::take(&mut self.worked)) {
            Taken::Parcel(channel, Parcel::Batch(bytes), _) => {
                self.worked = bytes.len() / 8;
                let producer = &mut self.producers[channel as usize];
                assert!(!producer.paused, "channel {channel} is paused");
                let expected = producer.expected.pop_front().unwrap();
                assert!(bytes == expected, "another element of channel {channel} was next");
                producer.arrived -= 1;
            }
            Taken::Parcel(..) => panic!("not what was sent"),
            Taken::Nothing => self.parked = true,
        }
        true
    }

    fn pause(&mut self, channel: u32, paused: bool) {
        self.gate.pause(channel, paused);
        self.producers[channel as usize].paused = paused;
        // The consumer itself does it, and polls afterwards.
        self.parked = false;
    }

    /// Everything but the consumer goes on until nothing moves; whether anything did.
    fn flow(&mut self) -> bool {
        let mut moved = false;
        loop {
            let channels = 0..u32::try_from(self.producers.len()).unwrap();
            let sent = channels.filter(|channel| self.send(*channel)).count();
            let on_the_wire =
                self.write_control() | self.write_part() | self.arrive() | self.credit();
            if sent == 0 && !on_the_wire {
                return moved;
            }
            moved = true;
        }
    }

    /// Everything goes on until nothing moves.
    fn settle(&mut self) {
        while self.flow() | self.poll() {}
    }

    /// Elements that the consumer could take now.
    fn runnable(&self) -> usize {
        self.producers.iter().filter(|p| !p.paused).map(|p| p.arrived).sum()
    }

    /// Elements of channels that are not paused that the consumer has not seen.
    fn missing(&self) -> usize {
        self.producers.iter().filter(|p| !p.paused).map(|p| p.expected.len()).sum()
    }
}

/// After everything has come, a single element passes although the budget is full, and no memory is taken.
fn check_idle(mut wires: Wires) {
    wires.settle();
    assert_eq!(wires.missing(), 0);
    wires.memory.set_limit(0);
    wires.make(1, 2_000);
    wires.settle();
    assert_eq!(wires.missing(), 0, "the only element does not pass");
    assert_eq!(wires.memory.used(), 0, "channels without elements hold memory");
}

/// Payload of an element that weighs so much.
fn weighing(weight: u64) -> usize {
    usize::try_from(weight - PARCEL_OVERHEAD).unwrap()
}

#[test]
fn an_announced_element_that_came_without_the_grant_leaves_no_grant_behind() {
    let mut wires = Wires::new(2, 0);
    wires.make(0, weighing(900));
    wires.make(1, weighing(100));
    wires.flow();
    // Does not fit beside the first one: it is announced, and the budget is full.
    wires.make(0, weighing(900));
    wires.flow();
    assert_eq!(wires.producers[0].arrived, 1);
    // The other channel's element still waits, so that nothing is granted; the first one's overdraft goes back.
    assert!(wires.poll());
    assert_eq!(wires.runnable(), 1);
    wires.flow();
    assert_eq!(wires.producers[0].arrived, 1, "the second one came by the overdraft");
    check_idle(wires);
}

#[test]
fn an_element_that_is_announced_twice_is_granted_once() {
    let mut wires = Wires::new(2, 1 << 20);
    wires.make(0, weighing(900));
    wires.flow();
    wires.make(0, weighing(2_000));
    assert!(wires.write_control(), "announced");
    // The overdraft goes back before the announcement has arrived, and it is too little: announced again.
    assert!(wires.poll());
    assert!(wires.credit());
    assert!(wires.write_control(), "announced again");
    check_idle(wires);
}

#[test]
fn an_announcement_that_arrives_after_its_element_grants_nothing() {
    let mut wires = Wires::new(2, 1 << 20);
    wires.make(0, weighing(900));
    wires.flow();
    wires.make(0, weighing(900));
    // The announcement is queued, but the writer is at work on parts, and credit comes meanwhile.
    assert!(wires.poll());
    assert!(wires.credit());
    assert!(wires.write_part());
    assert!(wires.write_control());
    check_idle(wires);
}

#[test]
fn a_peer_that_sends_or_announces_too_much_is_refused() {
    let refused = |frames: Vec<Frame<'_>>| {
        let wires = Wires::new(1, 64 << 20);
        let (last, before) = frames.split_last().unwrap();
        for frame in before {
            wires.consuming.handle(frame.clone(), &Weak::new()).unwrap();
        }
        let used = wires.memory.used();
        let error = wires.consuming.handle(last.clone(), &Weak::new()).err().unwrap().to_string();
        assert_eq!(wires.memory.used(), used, "nothing is taken for it");
        error
    };
    let part = vec![0; wire::PART_MAX];
    let data =
        |flags, payload| Frame::Data { link: 0, index: 0, flags, next: 0, backlog: 0, payload };
    let announced = |next| Frame::Backlog { link: 0, index: 0, next, backlog: next };
    let error = refused(vec![data(0, &part)]);
    assert!(error.contains("beyond what it was granted"), "{error}");
    for much in [u64::MAX, 17 << 20] {
        let error = refused(vec![announced(much)]);
        assert!(error.contains("as one element of channel 0; at most 16777216"), "{error}");
    }
    // Each part is granted, but there is no last one.
    let mut frames = vec![announced(16 << 20), data(FLAG_MORE, &part)];
    frames.resize(129, data(FLAG_MORE, &part));
    frames.extend([announced(17 << 20), data(FLAG_MORE, &part)]);
    let error = refused(frames);
    assert!(error.contains("as one element of channel 0; at most 16777216"), "{error}");
}

#[test]
fn a_large_backlog_is_granted_in_whole_elements() {
    let mut wires = Wires::new(2, 4 << 20);
    for _ in 0..4 {
        wires.make(0, 100_000);
    }
    // One at first, for there was one when it was announced; of the other three two are granted, then the last.
    wires.flow();
    wires.memory.set_limit(0);
    check_idle(wires);
}

#[test]
fn a_paused_channel_is_granted_nothing_until_it_goes_on() {
    let mut wires = Wires::new(2, 0);
    wires.pause(0, true);
    for _ in 0..3 {
        wires.make(0, 2_000);
        wires.make(1, 2_000);
    }
    wires.settle();
    assert_eq!((wires.missing(), wires.memory.used()), (0, 0));
    wires.pause(0, false);
    check_idle(wires);
}

#[test]
fn overdraft_goes_back_with_the_elements_that_used_it() {
    let mut wires = Wires::new(2, 1 << 20);
    for _ in 0..4 {
        wires.make(0, weighing(2_000));
        wires.flow();
    }
    // From now on there is no room: two elements come without a grant, the others wait.
    wires.memory.set_limit(0);
    for _ in 0..4 {
        wires.make(0, weighing(512));
    }
    wires.flow();
    assert_eq!(wires.producers[0].arrived, 6);
    for left in (2..6).rev() {
        wires.poll();
        wires.flow();
        assert_eq!(wires.producers[0].arrived, left, "the overdraft is in use");
    }
    wires.poll();
    wires.flow();
    assert_eq!(wires.producers[0].arrived, 2, "one was taken, one came");
    check_idle(wires);
}

#[derive(Debug, Clone)]
enum Step {
    Make(u32, usize),
    Send(u32),
    WriteControl,
    WritePart,
    Arrive,
    Credit,
    Poll,
    Pause(u32, bool),
    Limit(u64),
    /// The consumer works for so many milliseconds on what it has taken.
    Work(u64),
}

/// Channels with a producer in another process.
const REMOTE: u32 = 3;

fn steps() -> impl Strategy<Value = Step> {
    let len = prop_oneof![6 => 0_usize..400, 6 => 400_usize..3_000, 1 => 3_000_usize..300_000];
    prop_oneof![
        4 => (0..=REMOTE, len).prop_map(|(channel, len)| Step::Make(channel, len)),
        1 => (0..=REMOTE).prop_map(Step::Send),
        3 => Just(Step::WriteControl),
        4 => Just(Step::WritePart),
        4 => Just(Step::Arrive),
        4 => Just(Step::Credit),
        4 => Just(Step::Poll),
        1 => (0..=REMOTE, any::<bool>()).prop_map(|(channel, paused)| Step::Pause(channel, paused)),
        1 => prop_oneof![Just(0_u64), 0_u64..20_000, Just(1_u64 << 20)].prop_map(Step::Limit),
        2 => prop_oneof![Just(1_u64), 1_u64..10_000].prop_map(Step::Work),
    ]
}

/// Bytes that may be taken beyond the budget: the overdraft of each remote channel, one element that always passes,
/// one more for each time that a channel was paused with such an element in it, and the elements that a local
/// producer puts into a paused channel where nothing else can run: these are bounded by their number alone.
struct Allowance {
    most_budget: u64,
    largest: u64,
    pauses: u64,
}

impl Allowance {
    fn check(&self, wires: &Wires) {
        let local: u64 = wires.producers.iter().map(|producer| producer.while_paused).sum();
        let over = (self.pauses + 1) * self.largest + u64::from(REMOTE) * OVERDRAFT + local;
        let used = wires.memory.used();
        assert!(used <= self.most_budget + over, "{used} bytes are taken");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// In any order of events, every element comes, in order, with the content it had, as long as its channel
    /// is not paused, however small the budget is and however slow the consumer; and the memory that is taken stays within the allowance.
    #[test]
    fn every_element_of_a_running_channel_comes_within_the_budget(
        steps in prop::collection::vec(steps(), 0..150), budget in 0_u64..20_000, last_budget in 0_u64..3_000,
        target in prop_oneof![Just(None), Just(Some(Duration::from_millis(1))), Just(Some(Duration::from_secs(1)))],
    ) {
        let mut wires = Wires::in_time(REMOTE, budget, target);
        let mut allowance = Allowance { most_budget: budget, largest: 0, pauses: 0 };
        for step in steps {
            let before = wires.memory.used();
            let pushes = matches!(step, Step::Make(..) | Step::Send(_));
            let busy_before = wires.runnable() > 0;
            match step {
                Step::Make(channel, len) => {
                    allowance.largest = allowance.largest.max(encoded_weight(len));
                    wires.make(channel, len);
                }
                Step::Send(channel) => { wires.send(channel); },
                Step::WriteControl => { wires.write_control(); }
                Step::WritePart => { wires.write_part(); }
                Step::Arrive => { wires.arrive(); }
                Step::Credit => { wires.credit(); }
                Step::Poll => { wires.poll(); }
                Step::Pause(channel, paused) => {
                    allowance.pauses += u64::from(paused);
                    wires.pause(channel, paused);
                }
                Step::Limit(bytes) => {
                    allowance.most_budget = allowance.most_budget.max(bytes);
                    wires.memory.set_limit(bytes);
                }
                Step::Work(ms) => wires.now += Duration::from_millis(ms),
            }
            let used = wires.memory.used();
            allowance.check(&wires);
            let busy = if pushes { busy_before } else { wires.runnable() > 0 };
            prop_assert!(
                !busy || used <= wires.memory.limit() || used <= before + OVERDRAFT,
                "more is taken than the budget has, although the consumer has work"
            );
        }
        wires.memory.set_limit(last_budget);
        wires.settle();
        prop_assert_eq!(wires.missing(), 0, "an element of a channel that runs does not come");
        for channel in 0..=REMOTE {
            wires.pause(channel, false);
        }
        wires.settle();
        prop_assert_eq!(wires.missing(), 0);
        prop_assert_eq!(wires.memory.used(), 0, "channels without elements hold memory");
    }
}
