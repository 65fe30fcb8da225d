//! The output and the context of a reader. Without a watermark strategy, records go straight into the chain's buffer, at the
//! speed of any other operator.

use super::{SourceSplit, protocol::FromReader};
use crate::{
    batch::{Batch, NO_TIME},
    operators::{Collector, Load, OperatorContext},
    seam::{StreamEvent, TaskError},
    time::SplitTimes,
    types::Record,
};
use futures::future::BoxFuture;
use std::{collections::VecDeque, path::Path, time::Duration};

/// The output of a reader for a split, with the split's id, while it waits for records before it to get their event times.
enum Left<T> {
    Records(String, Batch<T>),
    Watermark(String, i64),
    Idle(String),
    Release(String),
}

/// The output of a [`SourceReader`](super::SourceReader): takes records, with or without event times, and watermarks per split.
///
/// A reader of splits emits through [`ReaderOutput::split`], so that each split has a watermark generator of its own. Records
/// emitted without a split count as those of one more split: they do not advance the watermarks of the splits that the reader has been
/// given, by its enumerator or after a restore, so that those would hold back event time.
///
/// No method blocks or returns an error. What the rest of the chain does not take yet is kept in memory, without a bound: a reader must not
/// emit many more records than it is asked for. An error of the chain fails the task after the reader's call has returned.
pub struct ReaderOutput<T> {
    out: Collector<T>,
    times: Option<Box<dyn SplitTimes<T>>>,
    /// Records of the current split that have not got their event times; unused without a watermark strategy.
    pending: Batch<T>,
    /// The bytes of the pending records.
    load: Load,
    /// The output that has not been passed on, in order, because the step was interrupted while records got their times.
    left: VecDeque<Left<T>>,
    /// Id of the current split; empty for records without a split.
    split: String,
    now_ms: u64,
    /// The number of records that the reader was asked for in the current call and has not emitted.
    asked: usize,
}

impl<T: Record> ReaderOutput<T> {
    pub(crate) fn new(out: Collector<T>, times: Option<Box<dyn SplitTimes<T>>>) -> Self {
        let (pending, left) = (Batch::default(), VecDeque::new());
        let load = Load::default();
        Self { out, times, pending, load, left, split: String::new(), now_ms: 0, asked: usize::MAX }
    }

    /// Emits a record that belongs to no split and has no event time of its own; the source's watermark strategy may give it one.
    #[inline]
    pub fn collect(&mut self, record: T) {
        self.turn_to("");
        self.push_record(record);
    }

    /// Emits a record that belongs to no split, with its event time in milliseconds since 1970 (`i64::MIN` for none). A watermark strategy
    /// that has a timestamp assigner replaces the time by the assigner's.
    #[inline]
    pub fn collect_at(&mut self, record: T, timestamp: i64) {
        self.turn_to("");
        self.push(record, timestamp);
    }

    /// Emits records that belong to no split and have no event times of their own, in their order.
    pub fn collect_all(&mut self, records: impl IntoIterator<Item = T>) {
        self.turn_to("");
        self.push_all(records.into_iter());
    }

    /// Returns the output of the split with this id. A split has a watermark generator of its own, and holds back the subtask's watermark
    /// until it is released: from the call of [`SourceReader::add_splits`](super::SourceReader::add_splits) with it on, or from its first
    /// record or watermark on if there was none. A record or watermark after the release makes it hold back again.
    pub fn split(&mut self, id: &str) -> SplitOutput<'_, T> {
        self.turn_to(id);
        SplitOutput { out: self }
    }

    /// Records that a split was read to its end, so that it no longer holds back the subtask's watermark. Must be called after the
    /// split's last record was emitted. Does nothing for an unknown split.
    pub fn release_split(&mut self, id: &str) {
        self.pass_pending();
        self.do_or_leave(Left::Release(id.to_owned()));
    }

    /// Returns true if the reader should return from this call and go on in the next one, because it has emitted as many records as it was
    /// asked for, the rest of the chain takes nothing more for now or the step should end. A reader that emits many records in one call
    /// asks after each; what it emits nevertheless is kept.
    pub fn is_stopped(&self) -> bool {
        self.asked == 0 || !self.left.is_empty() || !self.out.should_continue()
    }

    /// Begins a call in which the reader is asked for at most so many records.
    pub(crate) fn ask_for(&mut self, most: usize) {
        self.asked = most;
    }

    /// Emits the records of a split in one poll, at most as many as a batch may have.
    #[inline]
    pub(crate) fn extend(&mut self, split: &impl SourceSplit, records: impl Iterator<Item = T>) {
        match self.times {
            None => self.out.extend(records),
            Some(_) => self.split(&split.split_id()).collect_all(records),
        }
    }

    /// Sets the time for the watermark generators, in milliseconds since 1970. `now_ms` is called only if there are generators.
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

    /// Passes the pending records to the chain, with their event times and the watermarks that follow from them. If the step is
    /// interrupted, the records without event times are left to [`ReaderOutput::resume`] with.
    pub(crate) fn pass_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        self.load.clear();
        if self.left.is_empty() {
            let split = std::mem::take(&mut self.split);
            self.stamp(&split, &mut pending);
            self.split = split;
        }
        if pending.is_empty() {
            self.pending = pending;
        } else {
            self.left.push_back(Left::Records(self.split.clone(), pending));
        }
    }

    /// Passes records of one split to the chain, with their event times, until the step is interrupted; the others stay in the batch.
    fn stamp(&mut self, split: &str, batch: &mut Batch<T>) {
        let Self { out, times, now_ms, .. } = self;
        if let Some(times) = times {
            out.extend_stamped(batch, |batch, next| times.records(split, batch, *now_ms, next));
            self.emit_changes();
        }
    }

    /// Does what a reader has asked for, or leaves it to [`ReaderOutput::resume`] if records before it have no event times yet.
    fn do_or_leave(&mut self, asked: Left<T>) {
        match self.left.is_empty() {
            true => self.perform(asked),
            false => self.left.push_back(asked),
        }
    }

    /// Does what a reader has asked for. Records that are left because the step is interrupted become the first of `left`.
    fn perform(&mut self, mut asked: Left<T>) {
        if let Left::Records(split, batch) = &mut asked {
            self.stamp(split, batch);
            if !batch.is_empty() {
                self.left.push_front(asked);
            }
            return;
        }
        if let Some(times) = &mut self.times {
            match asked {
                Left::Watermark(split, ms) => times.watermark(&split, ms),
                Left::Idle(split) => times.idle(&split),
                Left::Release(split) => times.release(&split),
                Left::Records(..) => {}
            }
        }
        self.emit_changes();
    }

    /// Returns true if an interruption has left records to [`ReaderOutput::resume`] with, here or in the rest of the chain.
    pub(crate) fn is_interrupted(&self) -> bool {
        !self.left.is_empty() || self.out.is_interrupted()
    }

    /// Continues with what an interruption has left, until the step is interrupted again or the chain is full.
    pub(crate) fn resume(&mut self) -> Result<(), TaskError> {
        self.out.resume()?;
        while !self.left.is_empty()
            && !self.out.is_held_up()
            && let Some(left) = self.left.pop_front()
        {
            self.perform(left);
            self.out.flush()?;
            if !self.out.should_continue() {
                break;
            }
        }
        Ok(())
    }

    pub(crate) fn emit_changes(&mut self) {
        let changes = self.times.as_mut().map(|times| times.changes());
        changes.into_iter().flatten().for_each(|change| self.out.emit(change));
    }

    /// Asks the watermark generators for new watermarks, independently of records.
    pub(crate) fn ask(&mut self) {
        let now_ms = self.now_ms;
        if let Some(times) = &mut self.times {
            times.ask(now_ms);
        }
        self.emit_changes();
    }

    fn turn_to(&mut self, split: &str) {
        if self.times.is_some() && self.split != split {
            self.pass_pending();
            split.clone_into(&mut self.split);
        }
    }

    #[inline]
    fn push(&mut self, record: T, timestamp: i64) {
        self.asked = self.asked.saturating_sub(1);
        if self.times.is_none() {
            return self.out.push(record, timestamp);
        }
        self.load.add(&record);
        self.pending.push(record, timestamp);
        if self.load.makes_batch::<T>(self.pending.len()) {
            self.pass_pending();
        }
    }

    /// Does what [`ReaderOutput::push`] does for a record without an event time, without asking for the time.
    #[inline]
    fn push_record(&mut self, record: T) {
        if self.times.is_some() {
            return self.push(record, NO_TIME);
        }
        self.asked = self.asked.saturating_sub(1);
        // The chain's output has no time of its own here.
        self.out.collect(record);
    }

    fn push_all(&mut self, records: impl Iterator<Item = T>) {
        records.for_each(|record| self.push_record(record));
    }
}

/// The output of one split of a source, to which a reader emits the split's records; made by [`ReaderOutput::split`].
pub struct SplitOutput<'a, T> {
    out: &'a mut ReaderOutput<T>,
}

impl<T: Record> SplitOutput<'_, T> {
    /// Emits a record of the split without an event time of its own; the source's watermark strategy may give it one.
    #[inline]
    pub fn collect(&mut self, record: T) {
        self.out.push_record(record);
    }

    /// Emits a record of the split with its event time, in milliseconds since 1970 (`i64::MIN` for none). A watermark strategy that has a
    /// timestamp assigner replaces the time by the assigner's.
    #[inline]
    pub fn collect_at(&mut self, record: T, timestamp: i64) {
        self.out.push(record, timestamp);
    }

    /// Emits records of the split without event times of their own, in their order.
    pub fn collect_all(&mut self, records: impl IntoIterator<Item = T>) {
        self.out.push_all(records.into_iter());
    }

    /// Returns true if the reader should return from this call and go on in the next one; see [`ReaderOutput::is_stopped`].
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.out.is_stopped()
    }

    /// Sets this split's watermark to `ms`, in milliseconds since 1970: no record of the split with an event time up to `ms` may follow.
    /// For sources that know this better than a generator. Works with every strategy, also
    /// [`WatermarkStrategy::no_watermarks`](crate::time::WatermarkStrategy::no_watermarks). Ends the split's idleness; a watermark below
    /// the split's current one changes nothing else.
    pub fn emit_watermark(&mut self, ms: i64) {
        self.out.pass_pending();
        let split = self.out.split.clone();
        self.out.do_or_leave(Left::Watermark(split, ms));
    }

    /// Marks this split as idle: until its next record or watermark the subtask's watermark does not wait for it.
    pub fn mark_idle(&mut self) {
        self.out.pass_pending();
        let split = self.out.split.clone();
        self.out.do_or_leave(Left::Idle(split));
    }
}

/// First ticket that the runtime uses itself (in the head of the chain); a reader's tickets for I/O are below.
pub(crate) const OWN_TICKETS: u32 = 1 << 31;
/// First ticket of the timers that a reader asks for; each timer has its own.
pub(crate) const WAKE: u32 = OWN_TICKETS + 16;

/// A reader's unfulfilled requests: messages to the enumerator and a timer.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) messages: Vec<FromReader>,
    /// The time at which the reader's next timer is due, in milliseconds since 1970, and its ticket.
    wake: Option<(u64, u32)>,
    timers: u32,
}

impl Requests {
    /// Records that a timer of the reader is due. A timer that an earlier one has replaced changes nothing.
    pub(crate) fn timer(&mut self, ticket: u32) {
        self.wake = self.wake.filter(|(_, next)| *next != ticket);
    }
}

/// The context of a [`SourceReader`](super::SourceReader)'s calls: its task's identity and options, and its means to ask for
/// splits, I/O and timers.
///
/// ```
/// use std::time::Duration;
/// use streaming::sources::ReaderContext;
///
/// /// Returns true if a reader may ask its system at this poll, at most once a second, and otherwise has itself polled when it may.
/// fn may_ask(next_ms: &mut u64, context: &mut ReaderContext<'_>) -> bool {
///     let now_ms = context.now_unix_ms();
///     if now_ms < *next_ms {
///         context.wake_after(Duration::from_millis(*next_ms - now_ms));
///         return false;
///     }
///     *next_ms = now_ms + 1_000;
///     eprintln!("{} asks for records", context.name());
///     true
/// }
/// ```
pub struct ReaderContext<'a> {
    operator: &'a OperatorContext,
    requests: &'a mut Requests,
}

impl<'a> ReaderContext<'a> {
    pub(crate) fn new(operator: &'a OperatorContext, requests: &'a mut Requests) -> Self {
        Self { operator, requests }
    }

    /// Asks the enumerator for splits, which arrive at [`SourceReader::add_splits`](super::SourceReader::add_splits), or for the
    /// message that there are no more. Each call makes one request, which is sent when the call of the reader returns. Does nothing if the
    /// source has no enumerator.
    pub fn request_splits(&mut self) {
        self.requests.messages.push(FromReader::Request);
    }
    /// Sends an event that the source defines to the enumerator
    /// ([`SplitEnumerator::handle_source_event`](super::SplitEnumerator::handle_source_event)), when the call of the reader returns.
    /// Does nothing if the source has no enumerator.
    pub fn send_event(&mut self, event: Vec<u8>) {
        self.requests.messages.push(FromReader::Event(event));
    }
    /// Runs I/O beside the task, on the process's tokio runtime. Its result arrives with the ticket at
    /// [`SourceReader::io_done`](super::SourceReader::io_done), and the reader is polled afterwards. Only the lower 31 bits of the
    /// ticket are kept. Results of several calls may come in any order. The result is an error also if the work panics, or if 4,096 calls
    /// of the task are unanswered. Work that is not done when the task ends is dropped.
    pub fn spawn_io(&mut self, work: BoxFuture<'static, Result<Vec<u8>, String>>, ticket: u32) {
        self.operator.spawn_io(work, ticket & !OWN_TICKETS);
    }
    /// Asks that the reader is polled again in `after`, or earlier. While a timer is pending that is due at the same time or earlier, in
    /// whole milliseconds, the call is ignored: the reader asks again when it is polled. Timers are not in checkpoints.
    pub fn wake_after(&mut self, after: Duration) {
        let wait_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let due_ms = self.now_unix_ms().saturating_add(wait_ms);
        if self.requests.wake.is_none_or(|(earlier, _)| due_ms < earlier) {
            let ticket = WAKE + self.requests.timers;
            self.requests.timers = (self.requests.timers + 1) % (OWN_TICKETS / 2);
            self.requests.wake = Some((due_ms, ticket));
            self.operator.wake_after(after, ticket);
        }
    }
    /// Returns the time of the process's clock, in milliseconds since 1970.
    pub fn now_unix_ms(&self) -> u64 {
        self.operator.now_unix_ms()
    }
    /// Returns the name of the source's operator, as error messages have it.
    pub fn name(&self) -> &str {
        self.operator.name()
    }
    /// Returns the index of this subtask, from 0.
    pub fn subtask(&self) -> u32 {
        self.operator.subtask()
    }
    /// Returns the parallelism: the number of the source's subtasks.
    pub fn parallelism(&self) -> u32 {
        self.operator.parallelism()
    }
    /// Returns the value of the job option `key` as text, unparsed; if neither client nor program sets it, that of the TaskManager for keys
    /// of the data plane (`s3.`, `execution.`, `task.` and others), else `None`.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.operator.option(key)
    }
    /// Returns an existing folder for the task's temporary files. The job's other tasks on the TaskManager use it too, so file names
    /// should contain operator and subtask. It is deleted when the job's process on the TaskManager ends, not at the end of the task.
    pub fn tmp_dir(&self) -> &Path {
        self.operator.tmp_dir()
    }

    pub(crate) fn operator(&self) -> &'a OperatorContext {
        self.operator
    }
}

/// Returns the watermark of a split for a snapshot; `i64::MIN` if it has none.
pub(crate) fn watermark_of<T: Record>(out: &mut ReaderOutput<T>, split: &str) -> i64 {
    out.times().and_then(|times| times.watermark_of(split)).unwrap_or(i64::MIN)
}

/// Returns the events that end a source: the final watermark, so that nothing waits for event time for ever, and the end of
/// input. An idle subtask becomes active first, so that the watermark counts.
pub(crate) fn last_events<T: Record>(out: &mut ReaderOutput<T>) -> Vec<StreamEvent> {
    let idle = out.times().is_some_and(|times| times.is_idle());
    let active = idle.then_some(StreamEvent::Idle(false));
    active.into_iter().chain([StreamEvent::Watermark(i64::MAX), StreamEvent::EndOfInput]).collect()
}
