//! Where a reader puts its records, and what it may ask for. Without a strategy for watermarks records go straight into the
//! chain's buffer, at the speed of any other operator.

use super::protocol::FromReader;
use crate::{
    batch::{Batch, NO_TIME},
    operators::{BATCH_RECORDS, Collector, OperatorContext},
    seam::StreamEvent,
    time::SplitTimes,
};
use futures::future::BoxFuture;
use std::{path::Path, time::Duration};

/// Takes what a reader emits: records with or without an event time and, for each split, how far its event time has come.
///
/// A source that is read in splits emits by [`ReaderOutput::split`], so that each split has a generator of watermarks of its own.
/// What is emitted without a split counts as one more split.
pub struct ReaderOutput<T> {
    out: Collector<T>,
    times: Option<Box<dyn SplitTimes<T>>>,
    /// Records of the split at hand, where they get their times here.
    pending: Batch<T>,
    /// The split at hand; empty: none.
    split: String,
    now_ms: u64,
}

impl<T: 'static> ReaderOutput<T> {
    pub(crate) fn new(out: Collector<T>, times: Option<Box<dyn SplitTimes<T>>>) -> Self {
        Self { out, times, pending: Batch::default(), split: String::new(), now_ms: 0 }
    }

    /// Emits a record without a split.
    #[inline]
    pub fn collect(&mut self, record: T) {
        self.collect_at(record, NO_TIME);
    }

    /// Emits a record without a split, with its event time in milliseconds since 1970.
    #[inline]
    pub fn collect_at(&mut self, record: T, timestamp: i64) {
        if self.times.is_none() {
            return self.out.push(record, timestamp);
        }
        self.turn_to("");
        self.push(record, timestamp);
    }

    /// Emits records without a split, in their order.
    pub fn collect_all(&mut self, records: impl IntoIterator<Item = T>) {
        self.turn_to("");
        self.push_all(records.into_iter());
    }

    /// Returns the output of one split.
    pub fn split(&mut self, id: &str) -> SplitOutput<'_, T> {
        self.turn_to(id);
        SplitOutput { out: self }
    }

    /// A split was read to its end: it no longer holds back the subtask's watermark. Its records may still be on their way.
    pub fn release_split(&mut self, id: &str) {
        self.hand_over();
        if let Some(times) = &mut self.times {
            times.release(id);
        }
        self.emit_changes();
    }

    /// Returns whether the rest of the chain takes nothing more for now, or the step is to end. A reader that emits a lot at
    /// once goes on later then.
    pub fn is_stopped(&self) -> bool {
        !self.out.goes_on()
    }

    /// Emits as many records as a batch may have, in one go.
    #[inline]
    pub(crate) fn extend(&mut self, records: impl Iterator<Item = T>) {
        match self.times {
            None => self.out.extend(records),
            Some(_) => self.collect_all(records),
        }
    }

    /// Says what time it is; read only where generators ask for it.
    pub(crate) fn set_clock(&mut self, now_ms: impl FnOnce() -> u64) {
        if self.times.is_some() {
            self.now_ms = now_ms();
        }
    }

    pub(crate) fn collector(&mut self) -> &mut Collector<T> {
        &mut self.out
    }
    pub(crate) fn chain(&self) -> &Collector<T> {
        &self.out
    }
    pub(crate) fn times(&mut self) -> Option<&mut (dyn SplitTimes<T> + 'static)> {
        self.times.as_deref_mut()
    }

    /// Hands on what the reader has emitted.
    pub(crate) fn hand_over(&mut self) {
        if let Some(times) = &mut self.times
            && !self.pending.is_empty()
        {
            times.records(&self.split, &mut self.pending, self.now_ms);
            self.out.pass(&mut self.pending);
            self.emit_changes();
        }
    }

    pub(crate) fn emit_changes(&mut self) {
        let changes = self.times.as_mut().map(|times| times.changes());
        changes.into_iter().flatten().for_each(|change| self.out.emit(change));
    }

    /// Generators are asked, because records may not come for long.
    pub(crate) fn ask(&mut self) {
        let now_ms = self.now_ms;
        if let Some(times) = &mut self.times {
            times.ask(now_ms);
        }
        self.emit_changes();
    }

    fn turn_to(&mut self, split: &str) {
        if self.times.is_some() && self.split != split {
            self.hand_over();
            split.clone_into(&mut self.split);
        }
    }

    #[inline]
    fn push(&mut self, record: T, timestamp: i64) {
        if self.times.is_none() {
            return self.out.push(record, timestamp);
        }
        self.pending.push(record, timestamp);
        if self.pending.len() >= BATCH_RECORDS {
            self.hand_over();
        }
    }

    fn push_all(&mut self, records: impl Iterator<Item = T>) {
        records.for_each(|record| self.push(record, NO_TIME));
    }
}

/// Takes what a reader emits of one split.
pub struct SplitOutput<'a, T> {
    out: &'a mut ReaderOutput<T>,
}

impl<T: 'static> SplitOutput<'_, T> {
    /// Emits a record.
    #[inline]
    pub fn collect(&mut self, record: T) {
        self.out.push(record, NO_TIME);
    }

    /// Emits a record with its event time, in milliseconds since 1970.
    #[inline]
    pub fn collect_at(&mut self, record: T, timestamp: i64) {
        self.out.push(record, timestamp);
    }

    /// Emits records, in their order.
    pub fn collect_all(&mut self, records: impl IntoIterator<Item = T>) {
        self.out.push_all(records.into_iter());
    }

    /// Says that no record of this split with an event time of at most `ms` milliseconds follows, where the source knows that
    /// better than a generator does.
    pub fn emit_watermark(&mut self, ms: i64) {
        self.out.hand_over();
        let split = &self.out.split;
        if let Some(times) = &mut self.out.times {
            times.watermark(split, ms);
        }
        self.out.emit_changes();
    }

    /// Says that this split has no records for now: it holds nothing back until the next one comes.
    pub fn mark_idle(&mut self) {
        self.out.hand_over();
        let split = &self.out.split;
        if let Some(times) = &mut self.out.times {
            times.idle(split);
        }
        self.out.emit_changes();
    }
}

/// The reader's tickets for I/O are smaller; the others are those of the head of its chain.
pub(crate) const OWN_TICKETS: u32 = 1 << 31;
/// Tickets of the timers that a reader asks for begin here; each timer has one of its own.
pub(crate) const WAKE: u32 = OWN_TICKETS + 16;

/// What a reader has asked for and not been given.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) messages: Vec<FromReader>,
    /// When the reader's next timer is up, milliseconds since 1970, and its ticket.
    wake: Option<(u64, u32)>,
    timers: u32,
}

impl Wishes {
    /// A timer of the reader is up. One that an earlier one was asked for instead of means nothing any more.
    pub(crate) fn timer(&mut self, ticket: u32) {
        self.wake = self.wake.filter(|(_, next)| *next != ticket);
    }
}

/// What a reader knows of where it runs, and how it asks for things.
pub struct ReaderContext<'a> {
    operator: &'a OperatorContext,
    wishes: &'a mut Wishes,
}

impl<'a> ReaderContext<'a> {
    pub(crate) fn new(operator: &'a OperatorContext, wishes: &'a mut Wishes) -> Self {
        Self { operator, wishes }
    }

    /// Asks the enumerator for splits. They come by [`SourceReader::add_splits`](super::SourceReader::add_splits), now or later.
    pub fn request_splits(&mut self) {
        self.wishes.messages.push(FromReader::Request);
    }
    /// Sends an event of the source's own to the enumerator.
    pub fn send_event(&mut self, event: Vec<u8>) {
        self.wishes.messages.push(FromReader::Event(event));
    }
    /// Runs I/O beside the task. What it returns comes by [`SourceReader::io_done`](super::SourceReader::io_done) with the ticket,
    /// which must be below 2^31; the reader is polled then.
    pub fn spawn_io(&mut self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u32) {
        self.operator.spawn_io(work, ticket & !OWN_TICKETS);
    }
    /// Has the reader polled again after so long, or before.
    pub fn wake_after(&mut self, after: Duration) {
        let wait_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let due_ms = self.now_unix_ms().saturating_add(wait_ms);
        if self.wishes.wake.is_none_or(|(earlier, _)| due_ms < earlier) {
            let ticket = WAKE + self.wishes.timers;
            self.wishes.timers = (self.wishes.timers + 1) % (OWN_TICKETS / 2);
            self.wishes.wake = Some((due_ms, ticket));
            self.operator.wake_after(after, ticket);
        }
    }
    /// Returns the time of the machine's clock, in milliseconds since 1970.
    pub fn now_unix_ms(&self) -> u64 {
        self.operator.now_unix_ms()
    }
    /// Returns the operator's name.
    pub fn name(&self) -> &str {
        self.operator.name()
    }
    /// Returns the number of this subtask, from 0.
    pub fn subtask(&self) -> u32 {
        self.operator.subtask()
    }
    /// Returns the number of the source's subtasks.
    pub fn parallelism(&self) -> u32 {
        self.operator.parallelism()
    }
    /// Returns an option of the job.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.operator.option(key)
    }
    /// Returns a folder for temporary files.
    pub fn tmp_dir(&self) -> &Path {
        self.operator.tmp_dir()
    }

    pub(crate) fn operator(&self) -> &'a OperatorContext {
        self.operator
    }
}

/// Returns how far each split is whose name is given, for a snapshot.
pub(crate) fn watermark_of<T: 'static>(out: &mut ReaderOutput<T>, split: &str) -> i64 {
    out.times().and_then(|times| times.watermark_of(split)).unwrap_or(i64::MIN)
}

/// The end of event time: what waits for it must not wait for ever. An idle subtask is active again for it.
pub(crate) fn last_events<T: 'static>(out: &mut ReaderOutput<T>) -> Vec<StreamEvent> {
    let idle = out.times().is_some_and(|times| times.is_idle());
    let active = idle.then_some(StreamEvent::Idle(false));
    active.into_iter().chain([StreamEvent::Watermark(i64::MAX), StreamEvent::EndOfInput]).collect()
}
