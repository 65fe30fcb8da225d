//! The end of a chain: it puts records into one buffer per channel and sends the buffers as batches. Elements that a
//! full channel refuses are kept in order and tried again; the chain takes no more input meanwhile. Records that are left when
//! the step is interrupted in a partitioner that calls a function of the program are kept as well, in front of the partitioner,
//! together with what comes after them.
//!
//! If a consumer is slow, batches have fewer records, so that a barrier behind them passes soon: each channel's port is asked
//! how many its consumer wants. All channels get batches of the smallest of these numbers, because one full channel stops the
//! chain anyway.
//!
//! A watermark does not cause a batch to be sent. It follows the records of the next batch of each channel, or is sent
//! alone when everything that waits is sent (`execution.buffer-timeout`). A late watermark is still correct; one that
//! overtook a record would not be.

use super::Partitioner;
use crate::{
    batch::Batch,
    operators::{BATCH_BYTES, BATCH_RECORDS, Consumer, Control, Flow},
    seam::{Element, ErasedBatch, Interrupt, OutputPort, StreamEvent, TaskCounters, TaskError},
    types::{Record, weigh},
};
use std::{
    cell::Cell,
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

/// The lower bound of a batch's maximum size in bytes, however many channels there are.
const FEWEST_BYTES: usize = 8 * 1024;
/// The change of the held bytes from which the new number is reported to the port.
const HELD_STEP: usize = 64 * 1024;
/// All buffers of an edge together hold at most as much as this many full batches: with more than 16 channels each gets
/// a share.
const OPEN_BATCHES: usize = 16;
/// The lower bound of a batch's maximum number of records, however many channels there are.
const FEWEST_RECORDS: usize = 32;

/// The records that wait in front of the partitioner because the step was interrupted.
enum Left<T> {
    Batch(Batch<T>),
    Event(StreamEvent),
}

/// The end of a chain that sends records and events on one edge. The writer collects the records of each channel in a batch, and sends it
/// when it is full, before an event other than a watermark, or at a flush. A batch has fewer records the more channels there are, the
/// larger the records and the slower the consumers. A watermark goes with the next batch, or alone before another event or at a flush.
/// While a channel refuses an element, the writer keeps what comes and is full: the chain then takes no more input.
pub struct EdgeWriter<T> {
    channels: Channels,
    partitioner: Box<dyn Partitioner<T>>,
    interrupt: Interrupt,
    /// Batches that came in and were not partitioned, in order, because the step was interrupted.
    rest: VecDeque<Left<T>>,
    /// The records that are not sent yet, by channel.
    buffers: Vec<Batch<T>>,
    /// The bytes and the number of the records in all buffers and in `rest`.
    open: (usize, usize),
    /// The number of times that the chain has asked how many records to work on at once since records came here last.
    quiet: Cell<u32>,
    /// The maximum records of a batch, given the size of the records too; low until their size is known.
    sized: usize,
    /// The limit by which the buffers were filled last: none has as many records, or it was sent.
    filled_to: usize,
    ready: Vec<usize>,
}

/// The part of an [`EdgeWriter`] that knows no record type: it sends elements, and keeps those that a full channel refuses.
struct Channels {
    port: Box<dyn OutputPort>,
    /// The elements that a full channel refused, with their sizes in bytes, by channel.
    queues: Vec<VecDeque<(Element, usize)>>,
    queued: usize,
    /// The bytes of all queued elements.
    queued_bytes: usize,
    /// The held bytes that the port was told last.
    reported: usize,
    /// The maximum records of a batch by each channel's consumer; `None` if the consumer is not there yet, or was never sent a
    /// batch: one that has never worked knows nothing of its rate.
    asked: Vec<Option<usize>>,
    /// True for each channel on which a batch was sent.
    written: Vec<bool>,
    /// The smallest number in `asked`; low if there is none.
    paced: usize,
    /// The maximum records and bytes of a batch, which follow from the number of channels.
    most_records: usize,
    most_bytes: usize,
    /// The newest watermark that came to this edge.
    watermark: i64,
    /// The last watermark that was sent, by channel.
    watermarks_sent: Vec<i64>,
    counters: Arc<TaskCounters>,
}

/// Returns the smallest number of records that a consumer asks for.
fn smallest(asked: &[Option<usize>]) -> usize {
    asked.iter().flatten().copied().min().unwrap_or(FEWEST_RECORDS)
}

impl Channels {
    fn new(port: Box<dyn OutputPort>, counters: Arc<TaskCounters>) -> Self {
        let channels = port.channels();
        let share = |all: usize| OPEN_BATCHES * all / channels.max(1);
        let asked: Vec<_> = (0..channels).map(|channel| port.batch_records(channel)).collect();
        Self {
            port,
            queues: (0..channels).map(|_| VecDeque::new()).collect(),
            queued: 0,
            queued_bytes: 0,
            reported: 0,
            paced: smallest(&asked),
            asked,
            written: vec![false; channels],
            most_records: share(BATCH_RECORDS).clamp(FEWEST_RECORDS, BATCH_RECORDS),
            most_bytes: share(BATCH_BYTES).clamp(FEWEST_BYTES, BATCH_BYTES),
            watermark: i64::MIN,
            watermarks_sent: vec![i64::MIN; channels],
            counters,
        }
    }

    /// Returns the maximum records of a batch if the largest record has that many bytes.
    fn most_for(&self, largest: usize) -> usize {
        let by_bytes = self.most_bytes / largest.max(1);
        self.most_records.min(by_bytes.max(1))
    }

    /// Sends an element of that many bytes, or queues it after those that wait for the channel.
    fn send(&mut self, channel: usize, element: Element, bytes: usize) {
        let Some(queue) = self.queues.get_mut(channel) else { return };
        let refused = match queue.is_empty() {
            true => self.port.try_send(channel, element).err(),
            false => Some(element),
        };
        if let Some(element) = refused {
            queue.push_back((element, bytes));
            self.queued += 1;
            self.queued_bytes += bytes;
        }
    }

    /// Reports to the port how many bytes are held, `open` of them in buffers, if that has changed much.
    fn report_held(&mut self, open: usize) {
        let held = open + self.queued_bytes;
        if held.abs_diff(self.reported) >= HELD_STEP || (held == 0 && self.reported > 0) {
            self.reported = held;
            self.port.hold(held as u64);
        }
    }

    /// Sends a batch, followed by the newest watermark if the channel has not been sent it.
    fn send_batch(&mut self, channel: usize, batch: ErasedBatch, bytes: usize) {
        let watermark = self.take_watermark(channel);
        let batch = batch.with_watermark(watermark);
        self.send(channel, Element::Batch(batch), bytes);
        if let Some(written) = self.written.get_mut(channel) {
            *written = true;
        }
        let now = self.port.batch_records(channel);
        if let Some(asked) = self.asked.get_mut(channel).filter(|asked| **asked != now) {
            *asked = now;
            self.paced = smallest(&self.asked);
        }
    }

    /// Asks how many records a batch may have, if that are few.
    fn ask_if_slow(&mut self) {
        if self.paced < self.most_records {
            // The consumer of a channel to which nothing was sent may have become fast.
            self.ask_all();
        }
    }

    /// Asks the channels on which batches were sent how many records a batch may have.
    fn ask_all(&mut self) {
        for (channel, (asked, written)) in self.asked.iter_mut().zip(&self.written).enumerate() {
            *asked = if *written { self.port.batch_records(channel) } else { None };
        }
        self.paced = smallest(&self.asked);
    }

    /// Returns the newest watermark and counts it as sent; `None` if the channel has been sent it already.
    fn take_watermark(&mut self, channel: usize) -> Option<i64> {
        let sent = self.watermarks_sent.get_mut(channel)?;
        (*sent < self.watermark).then(|| {
            *sent = self.watermark;
            self.watermark
        })
    }

    /// Sends the newest watermark alone to channels for which no batch carried it.
    fn send_watermark(&mut self) {
        for channel in 0..self.queues.len() {
            if let Some(ms) = self.take_watermark(channel) {
                self.send(channel, Element::Event(StreamEvent::Watermark(ms)), 0);
            }
        }
    }

    /// Keeps a watermark, which waits for the next batch.
    fn keep_watermark(&mut self, ms: i64) {
        // The counter holds the bits of the signed number.
        self.counters.watermark_ms.store(ms as u64, Ordering::Relaxed);
        self.watermark = self.watermark.max(ms);
    }

    /// Sends an event to all channels.
    fn send_event(&mut self, event: StreamEvent) {
        for channel in 0..self.queues.len() {
            self.send(channel, Element::Event(event), 0);
        }
    }

    /// Tries to send the queued elements again, each channel in order.
    fn retry(&mut self) {
        if self.queued == 0 {
            return;
        }
        for (channel, queue) in self.queues.iter_mut().enumerate() {
            while let Some((element, bytes)) = queue.pop_front() {
                if let Err(element) = self.port.try_send(channel, element) {
                    queue.push_front((element, bytes));
                    break;
                }
                self.queued -= 1;
                self.queued_bytes -= bytes;
            }
        }
        // The elements may have waited for long, so that the numbers are old.
        self.ask_all();
    }
}

impl<T: Record> EdgeWriter<T> {
    /// Creates a writer that sends to `port`. `partitioner` selects the channel of each record if there are several; one that calls a
    /// function of the program stops between two records when `interrupt` is raised. The writer counts the records that it takes and the
    /// newest watermark in `counters`.
    pub fn new(
        port: Box<dyn OutputPort>,
        partitioner: Box<dyn Partitioner<T>>,
        counters: Arc<TaskCounters>,
        interrupt: Interrupt,
    ) -> Self {
        let mut buffers = Vec::new();
        buffers.resize_with(port.channels(), Batch::default);
        let channels = Channels::new(port, counters);
        // A record of a type without heap memory has the size of the type.
        let sized = match std::mem::needs_drop::<T>() {
            true => FEWEST_RECORDS,
            false => channels.most_for(size_of::<T>()),
        };
        let filled_to = sized.min(channels.paced);
        Self {
            channels,
            partitioner,
            interrupt,
            rest: VecDeque::new(),
            buffers,
            open: (0, 0),
            quiet: Cell::new(0),
            sized,
            filled_to,
            ready: Vec::new(),
        }
    }

    /// Returns the maximum records of a batch.
    fn limit(&self) -> usize {
        self.sized.min(self.channels.paced)
    }

    /// Sends a channel's buffer, if it has records; the next buffer gets room for `reserve` records.
    fn ship(&mut self, channel: usize, reserve: usize) {
        let Some(buffer) = self.buffers.get_mut(channel) else { return };
        if buffer.is_empty() {
            return;
        }
        let batch = std::mem::replace(buffer, Batch::with_capacity(reserve));
        // Its size is its share of all buffers, so that no record is weighed twice.
        let (open, records) = self.open;
        let bytes = open * batch.len() / records.max(1);
        self.open = (open - bytes, records - batch.len());
        if self.partitioner.broadcasts() {
            for other in 1..self.buffers.len() {
                self.channels.send_batch(other, ErasedBatch::new(batch.clone()), bytes);
            }
        }
        self.channels.send_batch(channel, ErasedBatch::new(batch), bytes);
    }

    /// Sends all buffers, and the newest watermark alone to channels for which no batch carried it.
    fn ship_all(&mut self) {
        self.channels.ask_if_slow();
        for channel in 0..self.buffers.len() {
            self.ship(channel, 0);
        }
        self.channels.send_watermark();
    }

    /// Sends the buffers that have `limit` records or more. A partitioner reports a buffer when its length reaches the limit, so that
    /// this must be done when the limit is lowered.
    fn ship_beyond(&mut self, limit: usize) {
        for channel in 0..self.buffers.len() {
            if self.buffers.get(channel).is_some_and(|buffer| buffer.len() >= limit) {
                self.ship(channel, limit);
            }
        }
    }

    /// Moves the records of a batch into the buffers of their channels and sends the full ones. Records that are left because the
    /// step is interrupted become the first of `rest`.
    fn distribute(&mut self, batch: &mut Batch<T>) -> Result<(), TaskError> {
        // Sending may lower the limit again.
        let mut limit = self.limit();
        while limit < std::mem::replace(&mut self.filled_to, limit) {
            self.ship_beyond(limit);
            limit = self.limit();
        }
        let mut ready = std::mem::take(&mut self.ready);
        let Self { partitioner, buffers, interrupt, .. } = self;
        partitioner.partition(batch, buffers, limit, &mut ready, interrupt)?;
        for channel in ready.drain(..) {
            self.ship(channel, self.limit());
        }
        self.ready = ready;
        if !batch.is_empty() {
            self.rest.push_front(Left::Batch(std::mem::take(batch)));
        }
        Ok(())
    }

    /// Sends an event to all channels, after all records that came before it; a watermark waits for the next batch.
    fn pass(&mut self, event: StreamEvent) {
        if let StreamEvent::Watermark(ms) = event {
            return self.channels.keep_watermark(ms);
        }
        self.ship_all();
        self.channels.send_event(event);
    }
}

impl<T: Record> Consumer<T> for EdgeWriter<T> {
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError> {
        if batch.is_empty() {
            return Ok(self.channels.queued == 0 && self.rest.is_empty());
        }
        self.quiet.set(0);
        TaskCounters::add(&self.channels.counters.records_out, batch.len() as u64);
        // Those of an edge before are of other keys.
        batch.forget_hashes();
        let (bytes, largest) = weigh(batch.records());
        let hashes = if self.buffers.len() > 1 { self.partitioner.bytes_beside() } else { 0 };
        let beside = batch.bytes_beside() + hashes * batch.len();
        let (bytes, largest) = (bytes + beside, largest + beside / batch.len());
        self.open = (self.open.0 + bytes, self.open.1 + batch.len());
        self.sized = self.channels.most_for(largest);
        let limit = self.limit();
        if let [only] = self.buffers.as_mut_slice() {
            only.append(batch);
            if only.len() >= limit {
                self.ship(0, limit);
            }
            self.channels.report_held(self.open.0);
            return Ok(self.channels.queued == 0);
        }
        let waits = self.partitioner.calls_function() && self.interrupt.is_raised();
        if waits || !self.rest.is_empty() {
            self.rest.push_back(Left::Batch(std::mem::take(batch)));
        } else {
            self.distribute(batch)?;
        }
        self.channels.report_held(self.open.0);
        Ok(self.channels.queued == 0 && self.rest.is_empty())
    }
}

impl<T: Record> Control for EdgeWriter<T> {
    fn resume(&mut self) -> Result<(), TaskError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        // At least one record, so that the chain proceeds however often a step is interrupted.
        while self.channels.queued == 0
            && let Some(left) = self.rest.pop_front()
        {
            match left {
                Left::Event(event) => self.pass(event),
                Left::Batch(mut batch) => {
                    self.distribute(&mut batch)?;
                    if self.interrupt.is_raised() {
                        break;
                    }
                }
            }
        }
        self.channels.report_held(self.open.0);
        Ok(())
    }

    fn is_interrupted(&self) -> bool {
        !self.rest.is_empty()
    }

    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        // Side outputs hand events in although records are left; the order is kept here.
        match self.rest.is_empty() {
            true => self.pass(event),
            false => self.rest.push_back(Left::Event(event)),
        }
        Ok(Flow::Done)
    }

    fn full(&self) -> bool {
        self.channels.queued > 0
    }

    fn most_at_once(&self) -> usize {
        // A chain of which few records come here, because it filters or sums up, takes more at once the longer none come:
        // what its consumer can take is no reason to work in small parts.
        let quiet = self.quiet.replace(self.quiet.get().saturating_add(1));
        let factor = 1_usize.checked_shl(quiet).unwrap_or(usize::MAX);
        self.sized.min(self.channels.paced.saturating_mul(factor)).min(BATCH_RECORDS)
    }

    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.channels.retry();
        if partial && self.channels.queued == 0 {
            self.ship_all();
        }
        self.channels.report_held(self.open.0);
        Ok(self.channels.queued == 0)
    }
}
