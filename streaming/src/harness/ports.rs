//! Ports that are bounded queues in memory.

use super::upcalls::Flag;
use crate::{
    lock,
    seam::{EdgeCodec, Element, InputPort, OutputPort, Polled, StreamEvent},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// A channel from one subtask to another.
pub(super) struct Channel {
    elements: Mutex<VecDeque<Element>>,
    most: usize,
    producer: Arc<Flag>,
    consumer: Arc<Flag>,
}

impl Channel {
    pub(super) fn new(most: usize, producer: Arc<Flag>, consumer: Arc<Flag>) -> Self {
        Self { elements: Mutex::default(), most, producer, consumer }
    }
}

pub(super) struct MemoryOutput {
    channels: Vec<Arc<Channel>>,
    codec: Option<Arc<dyn EdgeCodec>>,
}

impl MemoryOutput {
    pub(super) fn new(channels: Vec<Arc<Channel>>, codec: Option<Arc<dyn EdgeCodec>>) -> Self {
        Self { channels, codec }
    }

    /// Encodes and decodes an element, as if it crossed a network.
    fn through_codec(&self, element: Element) -> Element {
        let (Some(codec), Element::Batch(batch)) = (&self.codec, &element) else {
            if let Element::Event(event) = &element {
                let mut bytes = Vec::new();
                event.encode(&mut bytes);
                return StreamEvent::decode(&bytes).map_or(element, Element::Event);
            }
            return element;
        };
        let mut bytes = Vec::new();
        let decoded = codec.encode(batch, &mut bytes).and_then(|()| codec.decode(&bytes));
        // A batch that cannot be encoded or decoded becomes one of another type, which the consumer refuses.
        Element::Batch(
            decoded
                .unwrap_or_else(|_| crate::ErasedBatch::new(crate::batch::Batch::<()>::default())),
        )
    }
}

impl OutputPort for MemoryOutput {
    fn channels(&self) -> usize {
        self.channels.len()
    }
    fn try_send(&mut self, channel: usize, element: Element) -> Result<(), Element> {
        let Some(to) = self.channels.get(channel) else { return Err(element) };
        let mut elements = lock(&to.elements);
        if elements.len() >= to.most {
            return Err(element);
        }
        let element = self.through_codec(element);
        elements.push_back(element);
        to.consumer.set();
        Ok(())
    }
    fn writable(&mut self) -> bool {
        self.channels.iter().all(|channel| lock(&channel.elements).len() < channel.most)
    }
}

pub(super) struct MemoryInput {
    channels: Vec<Arc<Channel>>,
    paused: Vec<bool>,
    ended: usize,
    turn: usize,
}

impl MemoryInput {
    pub(super) fn new(channels: Vec<Arc<Channel>>) -> Self {
        Self { paused: vec![false; channels.len()], channels, ended: 0, turn: 0 }
    }
}

impl InputPort for MemoryInput {
    fn channels(&self) -> usize {
        self.channels.len()
    }
    fn poll(&mut self) -> Polled {
        for _ in 0..self.channels.len() {
            let index = self.turn % self.channels.len();
            self.turn = index + 1;
            if self.paused.get(index).copied().unwrap_or(true) {
                continue;
            }
            let Some(channel) = self.channels.get(index) else { continue };
            if let Some(element) = lock(&channel.elements).pop_front() {
                channel.producer.set();
                if matches!(element, Element::Event(StreamEvent::EndOfInput)) {
                    self.ended += 1;
                }
                return Polled::Element { channel: index, element };
            }
        }
        if self.ended == self.channels.len() { Polled::Finished } else { Polled::Empty }
    }
    fn pause(&mut self, channel: usize, paused: bool) {
        if let Some(state) = self.paused.get_mut(channel) {
            *state = paused;
        }
    }
}
