//! The consuming end of an input: one queue in order of arrival, bounded per channel, by the network budget and by the time that
//! the consumer needs for it.
//!
//! A channel costs four bytes while it is empty: with 128 x 128 channels in a process almost all of them are empty almost
//! always. A gate must never block and never scan its channels; a producer or consumer that cannot continue is woken by the
//! change that it waits for.

use super::{
    debloat::{Bounds, Debloat},
    inflow::Inflows,
    parcel::Parcel,
};
use crate::{
    lock,
    memory::MemoryBudget,
    task::{Sleeper, TaskSignal},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Maximum number of elements that wait in one local channel.
pub(super) const CHANNEL_ELEMENTS_MAX: u32 = 64;

/// Number of waiting elements at which a parked consumer is woken at once. For fewer it is woken at the end of the producer's
/// step.
const WAKE_ELEMENTS: usize = 8;

/// The wake-up of the consumer that a new element requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// None: the consumer is awake or is being woken, or the element's channel is paused.
    No,
    /// The consumer is parked and has work now: the caller must wake it soon, at the end of its step or read.
    Owed,
    /// The consumer is to be woken at once.
    Now,
}

/// The way in which a gate or link was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The consumer has finished: elements that still arrive are dropped.
    Finished,
    /// The consumer was stopped or has failed: elements are refused, and producers wait until they are stopped.
    Aborted,
}

/// The result of [`Gate::push`].
#[derive(Debug)]
pub(super) enum Pushed {
    /// The element is queued.
    Taken,
    /// The element was dropped, because the consumer has finished.
    Dropped,
    /// The element is queued, and the producer must wake the consumer before it parks.
    TakenForSleeper,
    /// The channel has no room for the element, which is returned; the producer is woken when there may be.
    Refused(Parcel),
}

/// The consuming end of one input.
pub(super) struct Gate {
    memory: Arc<MemoryBudget>,
    consumer: TaskSignal,
    /// Each channel's share in records, for producers of this process, which read it for every batch.
    share: AtomicU32,
    state: Mutex<GateState>,
}

pub(super) struct GateState {
    queue: VecDeque<Entry>,
    /// Elements of paused channels that the consumer has passed over, by channel.
    aside: BTreeMap<u32, VecDeque<Entry>>,
    paused: BTreeSet<u32>,
    /// Number of waiting elements by channel. A remote channel is bounded by memory only and may have many small ones.
    counts: Vec<u32>,
    /// Number of waiting elements in all channels, and in the paused ones.
    waiting: usize,
    waiting_paused: usize,
    /// Bytes taken from the budget: those that wait, and those granted to remote producers.
    pub(super) held: u64,
    /// True if the consumer found nothing in its last poll and has not been woken since.
    consumer_waits: bool,
    refused: BTreeMap<u32, TaskSignal>,
    pub(super) inflows: Inflows,
    debloat: Debloat,
    pub(super) closed: Option<Closed>,
}

struct Entry {
    channel: u32,
    weight: u64,
    /// Bytes of the element that arrived without a grant.
    overdraft: u64,
    parcel: Parcel,
}

/// The result of [`Gate::poll`].
#[derive(Debug)]
pub(super) enum Taken {
    /// A channel's next element, and its weight in bytes.
    Parcel(u32, Parcel, u64),
    /// No element is available; the consumer will be woken.
    Nothing,
}

impl Gate {
    /// Returns a gate whose channels hold what the consumer takes within `target`, as far as they have more than one element
    /// each; `None` leaves them unbounded in time.
    pub(super) fn new(
        channels: usize,
        consumer: TaskSignal,
        memory: Arc<MemoryBudget>,
        target: Option<Duration>,
    ) -> Arc<Self> {
        let debloat = Debloat::new(target, channels);
        Arc::new(Self {
            memory,
            consumer,
            share: AtomicU32::new(debloat.bounds().share),
            state: Mutex::new(GateState {
                queue: VecDeque::new(),
                aside: BTreeMap::new(),
                paused: BTreeSet::new(),
                counts: vec![0; channels],
                waiting: 0,
                waiting_paused: 0,
                held: 0,
                consumer_waits: false,
                refused: BTreeMap::new(),
                inflows: Inflows::default(),
                debloat,
                closed: None,
            }),
        })
    }

    /// Runs a function under the gate's lock.
    pub(super) fn with<R>(&self, run: impl FnOnce(&mut GateState, &MemoryBudget) -> R) -> R {
        run(&mut lock(&self.state), &self.memory)
    }

    /// Queues an element of a local producer, of `weight` bytes, if there is room; else the producer is woken later.
    pub(super) fn push(
        &self,
        channel: u32,
        parcel: Parcel,
        weight: u64,
        producer: &TaskSignal,
    ) -> Pushed {
        let wake = {
            let mut state = lock(&self.state);
            match state.closed {
                Some(Closed::Finished) => return Pushed::Dropped,
                Some(Closed::Aborted) => return Pushed::Refused(parcel),
                None => {}
            }
            if !state.has_room(channel, weight, &self.memory) {
                state.refused.insert(channel, producer.clone());
                return Pushed::Refused(parcel);
            }
            state.take_for(weight, &self.memory);
            state.enqueue(channel, parcel, weight, 0)
        };
        match wake {
            Wake::No => Pushed::Taken,
            Wake::Owed => Pushed::TakenForSleeper,
            Wake::Now => {
                self.consumer.raise();
                Pushed::Taken
            }
        }
    }

    /// Queues an element of a local producer whatever room there is: a further part of one that was taken. Returns whether the producer
    /// must wake the consumer before it parks. Drops the element if the gate is closed.
    pub(super) fn push_more(&self, channel: u32, parcel: Parcel, weight: u64) -> bool {
        let wake = self.with(|state, memory| {
            if state.closed.is_some() {
                return Wake::No;
            }
            state.take_for(weight, memory);
            state.enqueue(channel, parcel, weight, 0)
        });
        if wake == Wake::Now {
            self.consumer.raise();
        }
        wake == Wake::Owed
    }

    /// Returns whether a local producer's next element would be taken; if not, the producer is woken when it may be.
    pub(super) fn writable(&self, channel: u32, producer: &TaskSignal) -> bool {
        let mut state = lock(&self.state);
        if state.closed == Some(Closed::Finished) {
            return true;
        }
        if state.closed.is_none() && state.has_room(channel, 1, &self.memory) {
            return true;
        }
        state.refused.insert(channel, producer.clone());
        false
    }

    /// Returns the number of records of each channel that may wait, in the gate and before it.
    pub(super) fn share(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    /// Takes the next element that is not of a paused channel, wakes producers that have room now, and sends grants. `worked` is the
    /// number of records of the element that was taken before, on which the consumer has worked until `now`.
    pub(super) fn poll(&self, now: Instant, worked: usize) -> Taken {
        let mut wake = Vec::new();
        let mut shares = Vec::new();
        let (taken, grants) = {
            let mut state = lock(&self.state);
            let next = state.dequeue();
            if state.debloat.polled(now, worked, next.is_some()) {
                let share = state.bounds().share;
                self.share.store(share, Ordering::Relaxed);
                shares = state.inflows.changed_share(share);
            }
            match next {
                None => {
                    state.consumer_waits = true;
                    // A consumer without work lets refused producers continue whatever the budget: a pause may have left
                    // it without work although no element was taken.
                    state.wake_refused(u32::MAX, &self.memory, &mut wake);
                    (Taken::Nothing, state.grant_wanting(&self.memory))
                }
                Some(Entry { channel, weight, overdraft, parcel }) => {
                    state.give_back(weight, &self.memory);
                    state.wake_refused(channel, &self.memory, &mut wake);
                    let grants = state.inflow_consumed(channel, overdraft, &self.memory);
                    (Taken::Parcel(channel, parcel, weight), grants)
                }
            }
        };
        for signal in wake {
            signal.raise();
        }
        for (link, share) in shares {
            link.share(share);
        }
        for grant in grants {
            grant.send();
        }
        taken
    }

    /// Wakes the consumer unconditionally.
    pub(super) fn raise_consumer(&self) {
        self.consumer.raise();
    }

    /// Pauses a channel, so that its elements are kept back, or resumes it.
    pub(super) fn pause(&self, channel: u32, paused: bool) {
        lock(&self.state).pause(channel, paused);
    }

    /// Closes the gate: drops the waiting elements, gives their memory back and wakes the refused producers.
    pub(super) fn close(&self, how: Closed) {
        let (refused, inflows) = {
            let mut state = lock(&self.state);
            if state.closed.is_some() {
                return;
            }
            state.closed = Some(how);
            state.queue.clear();
            state.aside.clear();
            state.counts.fill(0);
            (state.waiting, state.waiting_paused) = (0, 0);
            let held = std::mem::take(&mut state.held);
            self.memory.give_back(held);
            (std::mem::take(&mut state.refused), std::mem::take(&mut state.inflows))
        };
        for signal in refused.values() {
            signal.raise();
        }
        drop(inflows);
    }

    /// Returns the bytes taken from the budget.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        lock(&self.state).held
    }
}

impl Sleeper for Gate {
    fn wake(&self) {
        let wake = {
            let mut state = lock(&self.state);
            let has_work = state.waiting > state.waiting_paused;
            has_work && std::mem::take(&mut state.consumer_waits)
        };
        if wake {
            self.consumer.raise();
        }
    }
}

impl GateState {
    /// Returns the number of elements that the consumer could take now, plus that of channels with granted bytes under way.
    fn runnable(&self) -> usize {
        self.waiting.saturating_sub(self.waiting_paused) + self.inflows.promised_runnable()
    }

    /// Returns whether `weight` more bytes may be held. If the consumer has no work, the answer is always yes: otherwise tasks
    /// could wait for each other's memory for ever.
    pub(super) fn may_hold(&self, weight: u64, memory: &MemoryBudget) -> bool {
        self.runnable() == 0 || memory.has_share(self.held, weight)
    }

    fn has_room(&self, channel: u32, weight: u64, memory: &MemoryBudget) -> bool {
        self.count(channel) < self.bounds().elements && self.may_hold(weight, memory)
    }

    /// Returns the number of waiting elements of a channel.
    pub(super) fn count(&self, channel: u32) -> u32 {
        self.counts.get(channel as usize).copied().unwrap_or(0)
    }

    /// Returns what each channel may hold by the consumer's rate.
    pub(super) fn bounds(&self) -> Bounds {
        self.debloat.bounds()
    }

    pub(super) fn is_paused(&self, channel: u32) -> bool {
        self.paused.contains(&channel)
    }

    pub(super) fn take_for(&mut self, weight: u64, memory: &MemoryBudget) {
        memory.take(weight);
        self.held = self.held.saturating_add(weight);
    }

    pub(super) fn give_back(&mut self, weight: u64, memory: &MemoryBudget) {
        // At most what is held: a close in between has given everything back already.
        let weight = weight.min(self.held);
        self.held -= weight;
        memory.give_back(weight);
    }

    /// Appends an element for which memory was taken. Returns the wake-up that the consumer needs.
    pub(super) fn enqueue(
        &mut self,
        channel: u32,
        parcel: Parcel,
        weight: u64,
        overdraft: u64,
    ) -> Wake {
        let Some(count) = self.counts.get_mut(channel as usize) else {
            return Wake::No;
        };
        *count = count.saturating_add(1);
        self.waiting += 1;
        let paused = self.paused.contains(&channel);
        if paused {
            self.waiting_paused += 1;
        }
        self.queue.push_back(Entry { channel, weight, overdraft, parcel });
        let waiting = self.waiting.saturating_sub(self.waiting_paused);
        match paused || !self.consumer_waits {
            true => Wake::No,
            false if waiting >= WAKE_ELEMENTS => {
                self.consumer_waits = false;
                Wake::Now
            }
            false if waiting == 1 => Wake::Owed,
            false => Wake::No,
        }
    }

    /// Takes the next element of a channel that is not paused; sets aside those of paused ones.
    fn dequeue(&mut self) -> Option<Entry> {
        while let Some(entry) = self.queue.pop_front() {
            if self.paused.contains(&entry.channel) {
                self.aside.entry(entry.channel).or_default().push_back(entry);
                continue;
            }
            if let Some(count) = self.counts.get_mut(entry.channel as usize) {
                *count = count.saturating_sub(1);
            }
            self.waiting = self.waiting.saturating_sub(1);
            return Some(entry);
        }
        // An empty queue keeps little capacity: thousands of gates are idle most of the time.
        if self.queue.capacity() > 64 {
            self.queue.shrink_to(16);
        }
        None
    }

    /// Moves the signals of local producers that can continue, after an element of `channel` was taken, to `wake`.
    fn wake_refused(&mut self, channel: u32, memory: &MemoryBudget, wake: &mut Vec<TaskSignal>) {
        if self.refused.is_empty() {
            return;
        }
        if self.runnable() == 0 || memory.has_share(self.held, self.held) {
            // The budget has room for all: every producer whose channel is at most half full continues. Half full,
            // so that a producer is woken for more than one element.
            let (counts, few) = (&self.counts, self.debloat.bounds().elements / 2);
            self.refused.retain(|channel, signal| {
                let count = counts.get(*channel as usize).copied().unwrap_or(0);
                let go = count <= few;
                if go {
                    wake.push(signal.clone());
                }
                !go
            });
        } else if self.count(channel) <= self.bounds().elements / 2
            && memory.has_share(self.held, 1)
            && let Some(signal) = self.refused.remove(&channel)
        {
            wake.push(signal);
        }
    }

    fn pause(&mut self, channel: u32, paused: bool) {
        let count = self.count(channel) as usize;
        if paused {
            if self.paused.insert(channel) {
                self.waiting_paused += count;
                self.inflows.pause(channel, true);
            }
        } else if self.paused.remove(&channel) {
            self.waiting_paused = self.waiting_paused.saturating_sub(count);
            self.inflows.pause(channel, false);
            // The elements set aside are older than those of this channel in the queue, so they go first.
            for entry in self.aside.remove(&channel).into_iter().flatten().rev() {
                self.queue.push_front(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::{Element, StreamEvent};

    fn event(n: i64) -> Parcel {
        Parcel::Typed(Element::Event(StreamEvent::Watermark(n)))
    }

    fn taken(gate: &Gate) -> Option<(u32, i64)> {
        match gate.poll(Instant::now(), 0) {
            Taken::Parcel(channel, Parcel::Typed(Element::Event(StreamEvent::Watermark(n))), _) => {
                Some((channel, n))
            }
            Taken::Parcel(..) => panic!("not what was put in"),
            Taken::Nothing => None,
        }
    }

    fn gate(channels: usize, budget: u64) -> (Arc<Gate>, Arc<MemoryBudget>, TaskSignal) {
        let memory = MemoryBudget::new(budget);
        let consumer = TaskSignal::new();
        let gate = Gate::new(channels, consumer.clone(), Arc::clone(&memory), None);
        (gate, memory, consumer)
    }

    #[test]
    fn elements_come_in_order_of_arrival_and_memory_goes_back() {
        let (gate, memory, consumer) = gate(3, 10_000);
        let producer = TaskSignal::new();
        assert_eq!(taken(&gate), None);
        for n in 0..6 {
            let pushed = gate.push(n % 3, event(i64::from(n)), 100, &producer);
            assert_eq!(matches!(pushed, Pushed::TakenForSleeper), n == 0, "owed once");
        }
        assert!(!consumer.take(), "it is woken when the producer's step is over");
        gate.wake();
        assert!(consumer.take(), "the waiting consumer was woken");
        gate.wake();
        assert!(!consumer.take(), "it does not wait any more");
        assert_eq!(memory.used(), 600);
        for n in 0..6 {
            assert_eq!(taken(&gate), Some((n % 3, i64::from(n))));
        }
        assert_eq!((taken(&gate), memory.used()), (None, 0));
    }

    #[test]
    fn a_parked_consumer_is_woken_at_once_when_much_waits() {
        let (gate, _, consumer) = gate(1, 1 << 20);
        let producer = TaskSignal::new();
        assert_eq!(taken(&gate), None);
        for n in 1..=2 * WAKE_ELEMENTS {
            let pushed = gate.push(0, event(n as i64), 1, &producer);
            assert_eq!(matches!(pushed, Pushed::TakenForSleeper), n == 1);
            assert_eq!(consumer.take(), n == WAKE_ELEMENTS);
        }
        // An element of a paused channel wakes nobody, and neither does who owes a wake-up for what is gone.
        while taken(&gate).is_some() {}
        gate.pause(0, true);
        assert!(matches!(gate.push(0, event(1), 1, &producer), Pushed::Taken));
        gate.wake();
        assert!(!consumer.take());
    }

    #[test]
    fn a_full_channel_refuses_only_its_own_producer_and_wakes_it_when_half_empty() {
        let (gate, _, _) = gate(2, 1 << 20);
        let (slow, other) = (TaskSignal::new(), TaskSignal::new());
        for n in 0..i64::from(CHANNEL_ELEMENTS_MAX) {
            assert!(matches!(gate.push(0, event(n), 1, &slow), Pushed::Taken));
        }
        assert!(matches!(gate.push(0, event(99), 1, &slow), Pushed::Refused(_)));
        assert!(!gate.writable(0, &slow));
        assert!(matches!(gate.push(1, event(0), 1, &other), Pushed::Taken));
        for _ in 0..CHANNEL_ELEMENTS_MAX / 2 {
            assert!(!slow.take());
            assert!(taken(&gate).is_some());
        }
        assert!(slow.take() && !other.take());
        assert!(gate.writable(0, &slow));
    }

    #[test]
    fn an_element_larger_than_the_budget_goes_through_alone() {
        let (gate, memory, _) = gate(2, 100);
        let (a, b) = (TaskSignal::new(), TaskSignal::new());
        assert!(matches!(gate.push(0, event(0), 5_000, &a), Pushed::Taken));
        assert!(matches!(gate.push(1, event(1), 10, &b), Pushed::Refused(_)));
        assert_eq!(memory.used(), 5_000);
        assert_eq!(taken(&gate), Some((0, 0)));
        assert!(b.take(), "woken when there is nothing left to do");
        assert!(matches!(gate.push(1, event(1), 10, &b), Pushed::Taken));
    }

    #[test]
    fn paused_channels_keep_their_elements_in_order_and_let_others_pass() {
        let (gate, _, consumer) = gate(2, 10);
        let signal = TaskSignal::new();
        assert!(matches!(gate.push(0, event(1), 50, &signal), Pushed::Taken));
        gate.pause(0, true);
        assert!(
            matches!(gate.push(1, event(10), 50, &signal), Pushed::Taken),
            "what waits in a paused channel does not block the others, whatever the budget"
        );
        assert_eq!(taken(&gate), Some((1, 10)));
        assert_eq!(taken(&gate), None);
        assert!(matches!(gate.push(0, event(2), 1, &signal), Pushed::Taken));
        assert!(!consumer.take(), "nobody is woken for a paused channel");
        gate.pause(0, false);
        assert_eq!(taken(&gate), Some((0, 1)));
        assert_eq!(taken(&gate), Some((0, 2)));
        assert_eq!(gate.held(), 0);
    }

    #[test]
    fn a_paused_channel_with_very_many_elements_does_not_hold_up_the_others() {
        let (gate, memory, _) = gate(2, 100);
        // As from a remote producer, whose elements are bounded by memory alone.
        gate.with(|state, memory| {
            for n in 0..70_000 {
                state.take_for(1, memory);
                state.enqueue(0, event(n), 1, 0);
            }
        });
        gate.pause(0, true);
        let signal = TaskSignal::new();
        assert!(matches!(gate.push(1, event(-1), 1, &signal), Pushed::Taken));
        assert_eq!((taken(&gate), taken(&gate)), (Some((1, -1)), None));
        gate.pause(0, false);
        for n in 0..70_000 {
            assert_eq!(taken(&gate), Some((0, n)));
        }
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_closed_gate_gives_its_memory_back_and_says_how_it_ended() {
        let producer = TaskSignal::new();
        let (finished, memory, _) = gate(1, 1_000);
        assert!(matches!(finished.push(0, event(0), 100, &producer), Pushed::Taken));
        finished.close(Closed::Finished);
        assert_eq!(memory.used(), 0);
        assert!(finished.writable(0, &producer));
        assert!(matches!(finished.push(0, event(0), 100, &producer), Pushed::Dropped));
        assert_eq!(memory.used(), 0);
        let (aborted, _, _) = gate(1, 1_000);
        aborted.close(Closed::Aborted);
        assert!(matches!(aborted.push(0, event(0), 1, &producer), Pushed::Refused(_)));
    }
}
