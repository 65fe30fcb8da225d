//! The producing end of a link: what waits for a consumer in another process, per producing subtask of this one.
//! It must never send beyond a channel's limit and never block a producer's thread. The scheme is in [`super`].

use super::{
    connection::Connection,
    gate::Closed,
    hub::Hub,
    inflow::OVERDRAFT,
    parcel::{Parcel, encoded_weight},
    wire::{FLAG_EVENT, FLAG_MORE, Frame, PART_MAX},
};
use crate::{
    lock,
    memory::MemoryBudget,
    task::{Sleeper, TaskControl, TaskSignal},
};
use model::{EdgeId, FailureCause};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, Weak},
};

/// Elements of one channel that may wait here: a write to the connection and a grant are to be for many, because each wakes a thread.
const WAITING_MAX: usize = 64;
/// A channel that has so many bytes waiting takes no more, unless fewer than [`WAITING_FEW`] elements wait.
const WAITING_BYTES: u64 = 256 << 10;
/// So many elements may always wait, as far as the memory goes: one is sent while the next is made.
const WAITING_FEW: usize = 4;

/// The most that is announced at once, beyond the first waiting element.
const ANNOUNCED_MAX: u64 = 256 << 10;

/// One consuming subtask in another process, as its producers in this one see it.
pub(super) struct LinkOut {
    id: u32,
    connection: Weak<Connection>,
    /// Weak: the hub holds the link.
    hub: Weak<Hub>,
    edge: EdgeId,
    /// The consuming subtask and its attempt.
    pub(super) consumer: (u32, u32),
    /// By producing subtask: place in the request, expected attempt.
    producers: BTreeMap<u32, (u32, u32)>,
    memory: Arc<MemoryBudget>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    channels: BTreeMap<u32, Outflow>,
    /// Channels that may send.
    ready: VecDeque<u32>,
    /// Whether the connection's writer knows that some may.
    listed: bool,
    held: u64,
    closed: Option<Closed>,
    tasks: Vec<Weak<TaskControl>>,
}

struct Outflow {
    queue: VecDeque<Waiting>,
    /// Weight of the queue.
    waiting: u64,
    /// Bytes of the first element that are sent already.
    sent: usize,
    /// Weight of all elements of the channel up to the last one that was sent, or begun.
    position: u64,
    /// Position up to which the channel may send.
    limit: u64,
    /// The first waiting element was announced, and no credit has come since.
    announced: bool,
    ready: bool,
    producer: Option<TaskSignal>,
}

struct Waiting {
    bytes: Vec<u8>,
    event: bool,
}

impl Waiting {
    fn weight(&self) -> u64 {
        encoded_weight(self.bytes.len())
    }
}

impl LinkOut {
    pub(super) fn new(
        id: u32,
        connection: &Arc<Connection>,
        hub: &Arc<Hub>,
        consumer: (u32, u32),
        producers: BTreeMap<u32, (u32, u32)>,
        memory: Arc<MemoryBudget>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            connection: Arc::downgrade(connection),
            hub: Arc::downgrade(hub),
            edge: hub.edge(),
            consumer,
            producers,
            memory,
            state: Mutex::new(State::default()),
        })
    }

    /// The attempt of a producing subtask that the consumer means.
    pub(super) fn expected(&self, producer: u32) -> Option<u32> {
        self.producers.get(&producer).map(|(_, attempt)| *attempt)
    }

    /// Producing subtasks whose meant attempt has not shown up here.
    pub(super) fn missing(&self) -> Vec<u32> {
        let Some(hub) = self.hub.upgrade() else {
            return Vec::new();
        };
        self.producers
            .iter()
            .filter(|(subtask, (_, attempt))| hub.producer(**subtask) != Some(*attempt))
            .map(|(subtask, _)| *subtask)
            .collect()
    }

    /// A producer starts to send here: it fails with the connection. Its place in the request.
    pub(super) fn attach(&self, producer: u32, task: &Arc<TaskControl>) -> Option<u32> {
        let (index, _) = self.producers.get(&producer)?;
        lock(&self.state).tasks.push(Arc::downgrade(task));
        if let Some(why) = self
            .connection
            .upgrade()
            .map_or_else(|| Some("it is closed".to_owned()), |connection| connection.lost_because())
        {
            self.fail(task, "its consumer's process", &why);
        }
        Some(*index)
    }

    /// Whether the next element of a channel is taken; when not, its producer is woken when it may be.
    pub(super) fn has_room(&self, index: u32, producer: &TaskSignal) -> bool {
        let mut state = lock(&self.state);
        match state.closed {
            Some(Closed::Finished) => return true,
            Some(Closed::Aborted) => return false,
            None => {}
        }
        let held = state.held;
        let flow = state.channels.entry(index).or_insert_with(Outflow::new);
        // An empty channel always takes one, so that no producer waits for another's consumer.
        let room = flow.queue.is_empty() || (flow.takes_more() && self.memory.has_share(held, 1));
        flow.producer = (!room).then(|| producer.clone());
        room
    }

    /// Queues an encoded element; there was room for it. Returns the connection, if its writer has to be woken: the producer does
    /// that when its step is over.
    pub(super) fn push(self: &Arc<Self>, index: u32, parcel: Parcel) -> Option<Arc<Connection>> {
        let (bytes, event) = match parcel {
            Parcel::Batch(bytes) => (bytes, false),
            Parcel::Event(bytes) => (bytes, true),
            Parcel::Typed(_) => return None, // Ports encode what goes to another process.
        };
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return None;
        }
        let element = Waiting { bytes, event };
        let weight = element.weight();
        self.memory.take(weight);
        state.held += weight;
        let flow = state.channels.entry(index).or_insert_with(Outflow::new);
        flow.queue.push_back(element);
        flow.waiting += weight;
        self.pump(&mut state, index)
    }

    /// The consumer lets a channel send so many bytes more.
    pub(super) fn credit(self: &Arc<Self>, index: u32, bytes: u64) {
        let mut state = lock(&self.state);
        let Some(flow) = state.channels.get_mut(&index) else {
            return;
        };
        flow.limit = flow.limit.saturating_add(bytes);
        flow.announced = false;
        if let Some(connection) = self.pump(&mut state, index) {
            connection.wake();
        }
    }

    /// Makes a channel ready, or announces what waits in it. Returns the connection, if its writer has to be woken for a channel
    /// that is ready.
    fn pump(self: &Arc<Self>, state: &mut State, index: u32) -> Option<Arc<Connection>> {
        let flow = state.channels.get_mut(&index)?;
        if flow.ready || flow.queue.is_empty() {
            return None;
        }
        let connection = self.connection.upgrade()?;
        let Some((next, backlog)) = flow.beyond_limit(0) else {
            flow.ready = true;
            state.ready.push_back(index);
            if std::mem::replace(&mut state.listed, true) {
                return None;
            }
            connection.list(Arc::clone(self));
            return Some(connection);
        };
        if !std::mem::replace(&mut flow.announced, true) {
            connection.send(&Frame::Backlog { link: self.id, index, next, backlog });
        }
        None
    }

    /// Appends the next part that may be sent; whether more may be.
    pub(super) fn write_part(&self, out: &mut Vec<u8>) -> bool {
        let (more, wake) = {
            let mut state = lock(&self.state);
            let wake = self.write_locked(&mut state, out);
            state.listed = !state.ready.is_empty();
            (state.listed, wake)
        };
        if let Some(producer) = wake {
            producer.raise();
        }
        more
    }

    fn write_locked(&self, state: &mut State, out: &mut Vec<u8>) -> Option<TaskSignal> {
        let index = state.ready.pop_front()?;
        let flow = state.channels.get_mut(&index)?;
        flow.ready = false;
        let head = flow.queue.front()?;
        let (event, weight, len) = (head.event, head.weight(), head.bytes.len());
        if flow.sent == 0 {
            flow.position += weight;
        }
        let end = len.min(flow.sent + PART_MAX);
        let more = end < len;
        let start = std::mem::replace(&mut flow.sent, if more { end } else { 0 });
        let mut flags = u8::from(event) * FLAG_EVENT;
        let (mut next, mut backlog) = (0, 0);
        if more {
            flags |= FLAG_MORE;
        } else if let Some(waits) = flow.beyond_limit(1) {
            // What waits behind is announced with this part, instead of by a frame of its own.
            (next, backlog) = waits;
            flow.announced = true;
        }
        Frame::Data {
            link: self.id,
            index,
            flags,
            next,
            backlog,
            payload: head.bytes.get(start..end).unwrap_or_default(),
        }
        .encode(out);
        if more {
            flow.ready = true;
            state.ready.push_back(index);
            return None;
        }
        flow.queue.pop_front();
        flow.waiting = flow.waiting.saturating_sub(weight);
        if !flow.queue.is_empty() && next == 0 {
            flow.ready = true;
            state.ready.push_back(index);
        }
        let wake = if flow.is_half_empty() { flow.producer.take() } else { None };
        let weight = weight.min(state.held);
        state.held -= weight;
        self.memory.give_back(weight);
        wake
    }

    /// The consumer is gone, or the connection is.
    pub(super) fn close(&self, how: Closed) {
        let state = {
            let mut state = lock(&self.state);
            if state.closed.is_some() {
                return;
            }
            std::mem::replace(&mut *state, State { closed: Some(how), ..State::default() })
        };
        self.memory.give_back(state.held);
        // A finished consumer stays known: what producers still send is dropped instead of waiting.
        if how == Closed::Aborted
            && let Some(hub) = self.hub.upgrade()
        {
            hub.forget_link(self);
        }
        for flow in state.channels.values() {
            if let Some(producer) = &flow.producer {
                producer.raise();
            }
        }
    }

    /// The connection is lost: who sends here fails.
    pub(super) fn lost(&self, peer: &str, why: &str) {
        let tasks = std::mem::take(&mut lock(&self.state).tasks);
        for task in tasks.iter().filter_map(Weak::upgrade) {
            self.fail(&task, peer, why);
        }
        self.close(Closed::Aborted);
    }

    fn fail(&self, task: &Arc<TaskControl>, peer: &str, why: &str) {
        task.fail(FailureCause::recoverable(
            "DataConnectionLost",
            format!(
                "task '{}' lost the data connection to {peer}, where consumer {} of edge {} runs: {why}",
                task.name(),
                self.consumer.0,
                self.edge.0,
            ),
        ));
    }

    /// Links are told apart by where they are.
    pub(super) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Outflow {
    fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            waiting: 0,
            sent: 0,
            position: 0,
            limit: OVERDRAFT,
            announced: false,
            ready: false,
            producer: None,
        }
    }

    fn takes_more(&self) -> bool {
        let waiting = self.queue.len();
        waiting < WAITING_FEW || (waiting < WAITING_MAX && self.waiting < WAITING_BYTES)
    }

    /// Returns true where a producer that was refused is woken: it has room for more than one element.
    fn is_half_empty(&self) -> bool {
        let waiting = self.queue.len();
        waiting <= WAITING_FEW / 2
            || (waiting <= WAITING_MAX / 2 && self.waiting <= WAITING_BYTES / 2)
    }

    /// Returns the positions to announce for the elements behind the first `begun` ones: where the first of them ends,
    /// and where the last one ends that is announced with it. `None`: there are none, or the first one may be sent.
    fn beyond_limit(&self, begun: usize) -> Option<(u64, u64)> {
        let mut ends = self.queue.iter().skip(begun).scan(self.position, |end, element| {
            *end += element.weight();
            Some(*end)
        });
        let next = ends.next().filter(|next| *next > self.limit)?;
        let last = ends.take_while(|end| end - self.position <= ANNOUNCED_MAX).last();
        Some((next, last.unwrap_or(next)))
    }
}
