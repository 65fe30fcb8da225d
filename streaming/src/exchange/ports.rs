//! The ports of tasks: the producing end of an edge, whose channels are looked up lazily, and the consuming end of an input.
//! They run on the task's thread and must never block it.

use super::{
    Links,
    debloat::batch_records,
    gate::{Closed, Gate, Pushed, Taken},
    hub::{Found, Hub, LocalTarget, Target},
    outflow::LinkOut,
    parcel::Parcel,
};
use crate::{
    lock,
    memory::{MemoryBudget, allocator},
    seam::{EdgeCodec, Element, InputPort, OutputPort, Polled, StreamEvent, TaskCounters},
    task::TaskControl,
    types::CodecError,
};
use model::{EdgeId, FailureCause};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// The producing end of an edge in one subtask.
pub(super) struct OutPort {
    pub(super) task: Arc<TaskControl>,
    pub(super) hub: Arc<Hub>,
    pub(super) codec: Arc<dyn EdgeCodec>,
    pub(super) force_serialization: bool,
    /// Consuming subtask of channel 0: the producer's own index on a forward edge, else 0.
    pub(super) first_consumer: u32,
    pub(super) channels: Vec<Channel>,
    /// Channels that refused an element and were not found writable since.
    pub(super) refused: Vec<usize>,
    pub(super) memory: Arc<MemoryBudget>,
    /// Bytes taken from the budget for what the producer holds unsent.
    pub(super) held: u64,
}

/// The consumer of a channel; looked up with the first element.
#[derive(Clone)]
pub(super) enum Channel {
    Unknown,
    Local(Arc<LocalTarget>),
    Remote(Arc<LinkOut>, u32),
}

impl OutPort {
    fn subtask(&self) -> u32 {
        self.task.attempt().subtask
    }

    /// Looks up a channel's consumer. Returns `Unknown` if the consumer is not there yet, or if this task is superseded and was
    /// failed for that.
    fn find(&self, channel: usize) -> Channel {
        let me = self.task.attempt();
        let consumer = self.first_consumer + u32::try_from(channel).unwrap_or(u32::MAX);
        match self.hub.find(consumer, me.subtask, me.attempt, self.task.signal()) {
            Found::Target(Target::Local(target)) => Channel::Local(target),
            Found::Target(Target::Remote(link)) => match link.attach(me.subtask, &self.task) {
                Some(index) => Channel::Remote(link, index),
                None => Channel::Unknown,
            },
            Found::NotYet => Channel::Unknown,
            Found::Superseded { expected } => {
                self.task.fail(FailureCause::recoverable(
                    "Superseded",
                    format!(
                        "task '{}': consumer {consumer} of edge {} takes attempt {expected}, this is attempt {}",
                        self.task.name(),
                        self.hub.edge().0,
                        me.attempt
                    ),
                ));
                Channel::Unknown
            }
        }
    }

    fn resolve(&mut self, channel: usize) -> Channel {
        match self.channels.get(channel) {
            Some(Channel::Unknown) => {
                let found = self.find(channel);
                if let Some(slot) = self.channels.get_mut(channel) {
                    slot.clone_from(&found);
                }
                found
            }
            Some(known) => known.clone(),
            None => Channel::Unknown,
        }
    }

    /// Encodes an element as [`Parcel::encode`] does. If that fails, the task fails, and the result is `None`.
    fn encode(&self, element: &Element) -> Option<(Parcel, Vec<Parcel>)> {
        match Parcel::encode(element, self.codec.as_ref()) {
            Ok(parcels) => Some(parcels),
            Err(error) => {
                codec_failure(&self.task, self.hub.edge(), "encoded", &error);
                None
            }
        }
    }

    fn send_local(&self, target: &LocalTarget, element: Element) -> Result<u64, Element> {
        let channel = target.channel(self.subtask());
        let signal = self.task.signal();
        if !self.force_serialization {
            let parcel = Parcel::Typed(element);
            let weight = parcel.weight(self.codec.as_ref());
            let memory = parcel.memory(weight);
            return match target.gate.push(channel, parcel, weight, signal) {
                Pushed::Refused(Parcel::Typed(element)) => Err(element),
                Pushed::Dropped => Ok(weight),
                pushed => {
                    allocator::hand_over(memory);
                    if matches!(pushed, Pushed::TakenForSleeper) {
                        self.task.owe_wake(target.gate.clone());
                    }
                    Ok(weight)
                }
            };
        }
        // The gate is asked first, so that a refused element is not encoded again and again. If the gate fills up in
        // between, it refuses the encoded copy, and the element itself is returned.
        if !target.gate.writable(channel, signal) {
            return Err(element);
        }
        let Some((parcel, others)) = self.encode(&element) else {
            return Err(element);
        };
        let mut sent = parcel.weight(self.codec.as_ref());
        let memory = parcel.memory(sent);
        let pushed = target.gate.push(channel, parcel, sent, signal);
        match pushed {
            Pushed::Refused(_) => return Err(element),
            Pushed::Dropped => return Ok(sent),
            Pushed::Taken | Pushed::TakenForSleeper => allocator::hand_over(memory),
        }
        let mut sleeps = matches!(pushed, Pushed::TakenForSleeper);
        for parcel in others {
            let weight = parcel.weight(self.codec.as_ref());
            allocator::hand_over(parcel.memory(weight));
            sleeps |= target.gate.push_more(channel, parcel, weight);
            sent += weight;
        }
        if sleeps {
            self.task.owe_wake(target.gate.clone());
        }
        Ok(sent)
    }

    fn send_remote(
        &self,
        link: &Arc<LinkOut>,
        index: u32,
        element: Element,
    ) -> Result<u64, Element> {
        if !link.has_room(index, self.task.signal()) {
            return Err(element);
        }
        let Some((parcel, others)) = self.encode(&element) else {
            return Err(element);
        };
        let mut sent = 0;
        for parcel in std::iter::once(parcel).chain(others) {
            let weight = parcel.weight(self.codec.as_ref());
            allocator::hand_over(parcel.memory(weight));
            if let Some(connection) = link.push(index, parcel) {
                self.task.owe_wake(connection);
            }
            sent += weight;
        }
        Ok(sent)
    }
}

impl OutputPort for OutPort {
    fn channels(&self) -> usize {
        self.channels.len()
    }

    fn try_send(&mut self, channel: usize, element: Element) -> Result<(), Element> {
        let sent = match self.resolve(channel) {
            Channel::Unknown => Err(element),
            Channel::Local(target) => self.send_local(&target, element),
            Channel::Remote(link, index) => self.send_remote(&link, index, element),
        };
        match sent {
            Ok(weight) => {
                TaskCounters::add(&self.task.counters().bytes_out, weight);
                Ok(())
            }
            Err(element) => {
                // A receiver that sleeps makes no room, and a call that emits much would find the channel full until it returns.
                self.task.give_wakes();
                if !self.refused.contains(&channel) {
                    self.refused.push(channel);
                }
                Err(element)
            }
        }
    }

    fn writable(&mut self) -> bool {
        let mut refused = std::mem::take(&mut self.refused);
        refused.retain(|channel| match self.resolve(*channel) {
            Channel::Unknown => true,
            Channel::Local(target) => {
                !target.gate.writable(target.channel(self.subtask()), self.task.signal())
            }
            Channel::Remote(link, index) => !link.has_room(index, self.task.signal()),
        });
        self.refused = refused;
        self.refused.is_empty()
    }

    fn batch_records(&self, channel: usize) -> Option<usize> {
        match self.channels.get(channel)? {
            Channel::Local(target) => Some(batch_records(target.gate.share())),
            Channel::Remote(link, _) => Some(batch_records(link.share())),
            Channel::Unknown => None,
        }
    }

    /// Takes the held bytes from the budget even if they are not free, since they exist already; less remains for what is sent.
    fn hold(&mut self, bytes: u64) {
        match bytes.checked_sub(self.held) {
            Some(more) => self.memory.take(more),
            None => self.memory.give_back(self.held - bytes),
        }
        self.held = bytes;
    }
}

impl Drop for OutPort {
    fn drop(&mut self) {
        self.hold(0);
    }
}

/// The consuming end of an input in one subtask.
pub(super) struct InPort {
    pub(super) task: Arc<TaskControl>,
    pub(super) gate: Arc<Gate>,
    /// The edges that feed the input, in the order of their channels.
    pub(super) edges: Vec<InEdge>,
    pub(super) channels: usize,
    pub(super) ended: usize,
    /// Number of records of the last element.
    pub(super) records: usize,
}

/// One edge of an input.
pub(super) struct InEdge {
    /// The edge's first channel in the gate.
    pub(super) base: u32,
    pub(super) edge: EdgeId,
    pub(super) codec: Arc<dyn EdgeCodec>,
    pub(super) hub: Option<Arc<Hub>>,
    pub(super) links: Arc<Mutex<Links>>,
}

impl InPort {
    fn edge_of(&self, channel: u32) -> Option<&InEdge> {
        self.edges.iter().rev().find(|edge| edge.base <= channel)
    }

    fn decode(&self, channel: u32, parcel: Parcel) -> Option<Element> {
        let edge = self.edge_of(channel)?;
        match parcel.decode(edge.codec.as_ref()) {
            Ok(element) => Some(element),
            Err(error) => {
                codec_failure(&self.task, edge.edge, "decoded", &error);
                None
            }
        }
    }
}

impl InputPort for InPort {
    fn channels(&self) -> usize {
        self.channels
    }

    fn poll(&mut self) -> Polled {
        let worked = std::mem::take(&mut self.records);
        let taken = self.gate.poll(Instant::now(), worked);
        let Taken::Parcel(channel, parcel, weight) = taken else {
            let finished = self.ended >= self.channels;
            return if finished { Polled::Finished } else { Polled::Empty };
        };
        TaskCounters::add(&self.task.counters().bytes_in, weight);
        allocator::take_over(parcel.memory(weight));
        let Some(element) = self.decode(channel, parcel) else {
            return Polled::Empty; // The task has failed: it stops before its next step.
        };
        match &element {
            Element::Batch(batch) => self.records = batch.len(),
            Element::Event(StreamEvent::EndOfInput) => self.ended += 1,
            Element::Event(_) => {}
        }
        Polled::Element { channel: channel as usize, element }
    }

    fn pause(&mut self, channel: usize, paused: bool) {
        if let Ok(channel) = u32::try_from(channel) {
            self.gate.pause(channel, paused);
        }
    }
}

impl Drop for InPort {
    fn drop(&mut self) {
        let finished = self.task.has_succeeded();
        self.gate.close(if finished { Closed::Finished } else { Closed::Aborted });
        let subtask = self.task.attempt().subtask;
        for edge in &self.edges {
            // A finished consumer stays in the hub, so that what producers still send is dropped and does not wait.
            if !finished && let Some(hub) = &edge.hub {
                hub.forget_gate(subtask, &self.gate);
            }
            lock(&edge.links).release(finished);
        }
    }
}

fn codec_failure(task: &Arc<TaskControl>, edge: EdgeId, what: &str, error: &CodecError) {
    task.fail(FailureCause::recoverable(
        "CodecError",
        format!("task '{}': a record of edge {} can't be {what}: {error}", task.name(), edge.0),
    ));
}
