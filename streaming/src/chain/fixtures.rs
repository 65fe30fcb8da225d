//! A port for tests of edges: it keeps what it is sent, and the test sets what it takes.

use super::{EdgeWriter, Partitioner};
use crate::{
    lock,
    seam::{Element, ErasedBatch, Interrupt, OutputPort, StreamEvent, TaskCounters},
    types::Record,
};
use std::sync::{Arc, Mutex, MutexGuard};

/// A batch with the watermark behind it, or an event.
pub(crate) type Content<T> = Result<(Vec<T>, Option<i64>), StreamEvent>;

/// The state of a test port: the elements that it was sent, the calls that it got, and the room that it has.
pub(crate) struct PortState<T> {
    /// How many more elements each channel takes.
    pub(crate) room: Vec<usize>,
    /// The elements that were sent, in order, with their channels.
    pub(crate) sent: Vec<(usize, Content<T>)>,
    /// The hashes of keys in all batches that were sent, in order.
    pub(crate) hashes: Vec<u64>,
    /// The bytes that the producer holds unsent, as it said last.
    pub(crate) held: u64,
    /// How many records the consumer of each channel wants in a batch.
    pub(crate) asked: Vec<Option<usize>>,
}

/// A port of records of type `T`. Clones are the same port.
#[derive(Clone)]
pub(crate) struct TestPort<T>(Arc<Mutex<PortState<T>>>);

impl<T: Record> TestPort<T> {
    /// Makes a port each of whose channels takes `room` elements, in batches of any size.
    pub(crate) fn new(channels: usize, room: usize) -> Self {
        Self(Arc::new(Mutex::new(PortState {
            room: vec![room; channels],
            sent: Vec::new(),
            hashes: Vec::new(),
            held: 0,
            asked: vec![Some(usize::MAX); channels],
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, PortState<T>> {
        lock(&self.0)
    }

    /// Makes the end of a chain that sends to this port.
    pub(crate) fn writer(
        &self,
        partitioner: Box<dyn Partitioner<T>>,
        interrupt: &Interrupt,
    ) -> EdgeWriter<T> {
        let counters = Arc::new(TaskCounters::default());
        EdgeWriter::new(Box::new(self.clone()), partitioner, counters, interrupt.clone())
    }

    /// Takes out what was sent, which is batches only; returns their numbers of records, with their channels.
    pub(crate) fn take_lengths(&self) -> Vec<(usize, usize)> {
        let sent = std::mem::take(&mut self.state().sent);
        sent.into_iter().map(|(channel, content)| (channel, content.unwrap().0.len())).collect()
    }
}

impl<T: Record> OutputPort for TestPort<T> {
    fn channels(&self) -> usize {
        self.state().room.len()
    }
    fn try_send(&mut self, channel: usize, element: Element) -> Result<(), Element> {
        let mut state = self.state();
        if state.room[channel] == 0 {
            return Err(element);
        }
        state.room[channel] -= 1;
        let content = match element {
            Element::Batch(batch) => {
                let watermark = batch.watermark;
                let batch = ErasedBatch::downcast::<T>(batch).unwrap();
                state.hashes.extend_from_slice(batch.hashes());
                Ok((batch.into_parts().0, watermark))
            }
            Element::Event(event) => Err(event),
        };
        state.sent.push((channel, content));
        Ok(())
    }
    fn writable(&mut self) -> bool {
        self.state().room.iter().all(|room| *room > 0)
    }
    fn batch_records(&self, channel: usize) -> Option<usize> {
        self.state().asked[channel]
    }
    fn hold(&mut self, bytes: u64) {
        self.state().held = bytes;
    }
}
