//! The producing end of a link: the queues of elements for a consumer in another process, one per producing subtask of this
//! process. It must never send beyond a channel's limit and never block a producer's thread. The scheme is in [`super`].

use super::{
    connection::Connection,
    debloat::{FIRST_SHARE, elements_to_send},
    gate::Closed,
    hub::Hub,
    inflow::OVERDRAFT,
    outgoing::Outgoing,
    parcel::{Parcel, encoded_weight},
    wire::{FLAG_EVENT, FLAG_MORE, Frame, PART_MAX},
};
use crate::{
    lock,
    memory::MemoryBudget,
    task::{Sleeper, TaskControl, TaskSignal},
};
use bytes::Bytes;
use model::{EdgeId, FailureCause};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Range,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

/// Maximum number of elements of one channel that wait here. A write to the connection and a grant wake a thread each, so that both
/// should be for many elements.
const WAITING_MAX: usize = 64;
/// Number of waiting bytes at which a channel takes no more, unless fewer than [`WAITING_FEW`] elements wait.
const WAITING_BYTES: u64 = 256 << 10;
/// Number of elements that may wait whatever their size, so that the next one is encoded while one is sent.
const WAITING_FEW: usize = 4;

/// Maximum number of bytes announced at once. The first waiting element is announced whatever its size.
const ANNOUNCED_MAX: u64 = 256 << 10;

/// The producers' end of a link to one consuming subtask in another process.
pub(super) struct LinkOut {
    id: u32,
    connection: Weak<Connection>,
    /// The edge's hub; weak, because the hub holds the link.
    hub: Weak<Hub>,
    edge: EdgeId,
    /// The consuming subtask and its attempt.
    pub(super) consumer: (u32, u32),
    /// The producing subtasks: for each its index in the request, and the expected attempt.
    producers: BTreeMap<u32, (u32, u32)>,
    memory: Arc<MemoryBudget>,
    /// Number of records of each channel that may wait, here and elsewhere, as the consumer has told.
    share: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    channels: BTreeMap<u32, Outflow>,
    /// Indices of the channels that may send now.
    ready: VecDeque<u32>,
    /// True if the link is in the connection's list of links that may send.
    listed: bool,
    held: u64,
    closed: Option<Closed>,
    tasks: Vec<Weak<TaskControl>>,
}

struct Outflow {
    queue: VecDeque<Waiting>,
    /// Weight of the elements in the queue.
    waiting: u64,
    /// Number of bytes of the first element that were sent already.
    sent: usize,
    /// Position of the end of the last element that was sent or begun.
    position: u64,
    /// Position up to which the consumer lets the channel send.
    limit: u64,
    /// True if the first waiting element was announced and no credit has arrived since.
    announced: bool,
    ready: bool,
    producer: Option<TaskSignal>,
}

struct Waiting {
    /// The encoded bytes, until a part of them is sent.
    bytes: Vec<u8>,
    /// The same bytes from then on, shared with the parts that the connection has not written yet. The task does not share them itself: it
    /// would count what sharing allocates, and the connection frees that.
    shared: Bytes,
    event: bool,
}

impl Waiting {
    fn weight(&self) -> u64 {
        encoded_weight(self.len())
    }

    fn len(&self) -> usize {
        self.bytes().len()
    }

    fn bytes(&self) -> &[u8] {
        if self.bytes.is_empty() { &self.shared } else { &self.bytes }
    }

    /// Returns a part of the bytes, without copying them.
    fn part(&mut self, part: Range<usize>) -> Bytes {
        if !self.bytes.is_empty() {
            self.shared = std::mem::take(&mut self.bytes).into();
        }
        self.shared.slice(part)
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
            share: AtomicU32::new(FIRST_SHARE),
            state: Mutex::new(State::default()),
        })
    }

    /// Returns the attempt of a producing subtask that the consumer expects; `None` if the subtask is not in its request.
    pub(super) fn expected(&self, producer: u32) -> Option<u32> {
        self.producers.get(&producer).map(|(_, attempt)| *attempt)
    }

    /// Returns the requested producing subtasks whose expected attempt has not opened its output here.
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

    /// Registers a producer's task, which fails if the connection is lost, now or later. Returns the producer's index in the
    /// request, `None` if the request does not name it.
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

    /// Sets the share of each channel. A producer that waits is woken when its queue is half empty by the new share.
    pub(super) fn set_share(&self, records: u32) {
        self.share.store(records, Ordering::Relaxed);
    }

    /// Returns the share of each channel in records.
    pub(super) fn share(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of elements of one channel that wait here.
    fn waiting_max(&self) -> usize {
        elements_to_send(self.share(), WAITING_MAX)
    }

    /// Returns whether the next element of a channel would be taken; if not, its producer is woken when it may be.
    pub(super) fn has_room(&self, index: u32, producer: &TaskSignal) -> bool {
        let mut state = lock(&self.state);
        match state.closed {
            Some(Closed::Finished) => return true,
            Some(Closed::Aborted) => return false,
            None => {}
        }
        let held = state.held;
        let flow = state.channels.entry(index).or_insert_with(Outflow::new);
        // An empty channel always takes one element, so that no producer waits for another's consumer.
        let room = flow.queue.is_empty()
            || (flow.takes_more(self.waiting_max()) && self.memory.has_share(held, 1));
        flow.producer = (!room).then(|| producer.clone());
        room
    }

    /// Queues an encoded element; the caller has checked [`LinkOut::has_room`]. Returns the connection if its writer has to be
    /// woken, which the producer does at the end of its step.
    pub(super) fn push(self: &Arc<Self>, index: u32, parcel: Parcel) -> Option<Arc<Connection>> {
        let (bytes, event) = match parcel {
            Parcel::Batch(bytes) => (bytes, false),
            Parcel::Event(bytes) => (bytes, true),
            // Ports encode what goes to another process.
            Parcel::Typed(_) | Parcel::Received(_) => return None,
        };
        let mut state = lock(&self.state);
        if state.closed.is_some() {
            return None;
        }
        let element = Waiting { bytes, shared: Bytes::new(), event };
        let weight = element.weight();
        self.memory.take(weight);
        state.held += weight;
        let flow = state.channels.entry(index).or_insert_with(Outflow::new);
        flow.queue.push_back(element);
        flow.waiting += weight;
        self.pump(&mut state, index)
    }

    /// Raises a channel's limit by the bytes of a grant.
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

    /// Lists a channel as ready if its first element is within the limit, else announces its elements. Returns the connection if
    /// its writer has to be woken.
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

    /// Appends the next part that may be sent as a frame. Returns whether there may be more.
    pub(super) fn write_part(&self, out: &mut Outgoing) -> bool {
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

    fn write_locked(&self, state: &mut State, out: &mut Outgoing) -> Option<TaskSignal> {
        let index = state.ready.pop_front()?;
        let flow = state.channels.get_mut(&index)?;
        flow.ready = false;
        let head = flow.queue.front()?;
        let (event, weight, len) = (head.event, head.weight(), head.len());
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
            // The elements after this one are announced with its last part, instead of by a frame of their own.
            (next, backlog) = waits;
            flow.announced = true;
        }
        let head = flow.queue.front_mut()?;
        let payload = head.bytes().get(start..end).unwrap_or_default();
        let frame = Frame::Data { link: self.id, index, flags, next, backlog, payload };
        // A slice of the last part would keep the whole element, whose memory is given back below.
        if out.copies(payload.len()) || (!more && start > 0) {
            frame.encode(out.frames());
        } else {
            frame.encode_head(out.frames());
            out.put_payload(head.part(start..end));
        }
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
        let wake = if flow.is_half_empty(self.waiting_max()) { flow.producer.take() } else { None };
        let weight = weight.min(state.held);
        state.held -= weight;
        self.memory.give_back(weight);
        wake
    }

    /// Closes the link because its consumer or its connection has ended: queued elements are dropped and waiting producers woken.
    pub(super) fn close(&self, how: Closed) {
        let state = {
            let mut state = lock(&self.state);
            if state.closed.is_some() {
                return;
            }
            std::mem::replace(&mut *state, State { closed: Some(how), ..State::default() })
        };
        self.memory.give_back(state.held);
        // A finished consumer stays in the hub, so that what producers still send is dropped and does not wait.
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

    /// Fails the tasks that send on this link, and closes it, because the connection is lost.
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

    /// Returns whether both are the same link, by address.
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

    /// Returns true where one more element may wait, beside at most `most` in all.
    fn takes_more(&self, most: usize) -> bool {
        let waiting = self.queue.len();
        waiting < WAITING_FEW.min(most) || (waiting < most && self.waiting < WAITING_BYTES)
    }

    /// Returns true where a producer that was refused is woken, because there is room for more than one element.
    fn is_half_empty(&self, most: usize) -> bool {
        let waiting = self.queue.len();
        waiting <= WAITING_FEW.min(most) / 2
            || (waiting <= most / 2 && self.waiting <= WAITING_BYTES / 2)
    }

    /// Returns the positions to announce for the elements after the first `begun` ones: the end of the first of them, and the end
    /// of the last one that is announced with it. `None` if there are none, or if the first one may be sent.
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
