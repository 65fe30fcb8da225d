//! The output of an operator: a buffer that is passed to the next operator when it is full.

mod batches;

use super::{
    Consumer, Flow, OutputTag, SideOutputs,
    backlog::{Backlog, HandedOn, wait_for_room},
    load::Load,
    pace::Pace,
};
use crate::{
    batch::{Batch, NO_TIME},
    seam::{Interrupt, StreamEvent, TaskError},
    types::Record,
};
use std::collections::VecDeque;

/// The number of records at which an output hands its batch on to the next operator. A batch of large records is handed on earlier, once it
/// has 256 KiB of them. Also the number of records that the task hands to its chain at once, unless the chain's
/// [`most_at_once`](super::Control::most_at_once) returns fewer.
pub const BATCH_RECORDS: usize = 1_024;

/// The output of a function or an operator: [`Collector::collect`] emits a record to the next operator, [`Collector::collect_to`] one to a
/// side output. Records are collected in a batch, which goes to the next operator when it is full or the function's operator returns. A
/// failure of a later operator is not seen here: it fails the task after the function has returned, and what the function emits until then
/// is dropped.
///
/// The operators behind work on what a call of a function emits while the call runs, and an output with room takes their results. If an
/// output is full because its consumer is slower than the call, up to 4 MiB are kept, and then the call waits for room, in
/// [`Collector::collect`] or one of the other methods that emit. The task takes no checkpoint while a call runs or waits. A function
/// whose one call emits much should therefore be divided: a source reader asks
/// [`ReaderOutput::is_stopped`](crate::sources::ReaderOutput::is_stopped), and a function with timers goes on at the next timer.
///
/// Some calls never wait, and keep all that they emit in memory: a call for a record that an interrupted step has left, and, only while
/// such records are left or an output is full, a call for a timer of the machine's clock or for an answer. Other calls for timers wait as
/// those for records do. A call of a task that was cancelled, or has been failed from outside, drops what it emits.
pub struct Collector<T> {
    /// Records that are not handed on yet. Those behind the end of the column of times were emitted with `time`: they get it when it
    /// changes, or when the buffer is handed on (nothing is written if it is [`NO_TIME`]).
    buffer: Batch<T>,
    /// The bytes in the buffer.
    load: Load,
    backlog: Backlog,
    /// Event time of the record at hand.
    time: i64,
    next: Box<dyn Consumer<T>>,
    sides: SideOutputs,
    /// Control elements of the operator's own that have to go on behind the buffer.
    events: VecDeque<StreamEvent>,
    /// The control element that the chain behind has begun with and is not done with: no other one may be handed in before it.
    begun: Option<Begun>,
    /// The first failure behind; user functions that emit do not see it, the operator's caller does.
    failure: Option<TaskError>,
    /// The chain behind took no more when it was last asked, or has not worked off what it took.
    stopped: bool,
    /// True if a loop over records with one event time has to look before the next one: `stopped`, or the time was set.
    halts: bool,
    interrupt: Interrupt,
    pace: Pace,
}

/// A control element that the chain behind has begun with.
#[derive(Debug, Clone, Copy)]
enum Begun {
    /// An event of the operator's own.
    Own(StreamEvent),
    /// An event that came to the operator, and that its caller hands in again.
    Passing,
}

impl<T: Record> Collector<T> {
    pub(crate) fn new(
        next: Box<dyn Consumer<T>>,
        sides: SideOutputs,
        interrupt: Interrupt,
    ) -> Self {
        Self {
            buffer: Batch::default(),
            load: Load::default(),
            backlog: Backlog::default(),
            time: NO_TIME,
            next,
            sides,
            events: VecDeque::new(),
            begun: None,
            failure: None,
            stopped: false,
            halts: false,
            interrupt,
            pace: Pace::default(),
        }
    }

    /// Returns true if an operator should go on with the next record of its batch. False if the step was interrupted (mail came, or the
    /// step lasts long), the rest of the chain takes no more, or an operator behind has failed: the operator then leaves the other
    /// records in the batch, and is called with them again. An operator calls this after a record, never before the first one, so that
    /// each call processes one record at least.
    #[inline]
    pub fn should_continue(&self) -> bool {
        !self.stopped && !self.interrupt.is_raised()
    }

    /// Emits a record with the event time that [`Collector::timestamp`] returns: that of the record, event-time timer or window that the
    /// function was called for, unless [`Collector::set_time`] has set another; without one if it is `None`.
    #[inline(always)]
    pub fn collect(&mut self, record: T) {
        self.load.add(&record);
        self.buffer.push_record(record);
        self.send_if_full();
    }

    /// Emits all records of an iterator, in their order, each as [`Collector::collect`] does. The iterator must end: the step cannot
    /// interrupt this call.
    #[inline]
    pub fn collect_all(&mut self, records: impl IntoIterator<Item = T>) {
        for record in records {
            self.collect(record);
        }
    }

    /// Emits a record with an event time of its own, in milliseconds since 1970; [`NO_TIME`] stands for none. Later records of
    /// [`Collector::collect`] keep theirs.
    #[inline]
    pub fn collect_at(&mut self, record: T, timestamp: i64) {
        self.push(record, timestamp);
    }

    /// Emits a record to a side output, which [`Stream::side_output`](crate::Stream::side_output) reads; where nothing reads it,
    /// the record is dropped. The record gets the same event time as one of [`Collector::collect`]. The call waits for room as
    /// `collect` does. If the side output is read with another record type, the task fails with [`TaskError::Deployment`] after the
    /// call, and the job is not restarted.
    pub fn collect_to<U: Record>(&mut self, tag: &OutputTag<U>, record: U) {
        let pushed = self.sides.push(tag, record, self.time, &self.interrupt);
        self.handed_on(pushed, true);
    }

    /// Keeps the first failure.
    #[cold]
    fn fail(&mut self, failure: TaskError) {
        self.failure.get_or_insert(failure);
        self.stopped = true;
    }

    /// Returns the event time that [`Collector::collect`] gives to records, in milliseconds since 1970: that of the record, event-time
    /// timer or window that the function was called for, or the one set by [`Collector::set_time`]. `None` if records get none.
    pub fn timestamp(&self) -> Option<i64> {
        (self.time != NO_TIME).then_some(self.time)
    }

    /// Sets the event time that [`Collector::collect`] gives to records from now on, in milliseconds since 1970, or [`NO_TIME`]. Each call
    /// of a function sets it anew; in an operator of one's own it stays until a control element or mail comes, which resets it to
    /// [`NO_TIME`].
    #[inline]
    pub fn set_time(&mut self, time: i64) {
        self.turn_to(time);
        self.halts = true;
    }

    /// Does what [`Collector::set_time`] does, for an operator that sets the time for each call of its function.
    #[inline]
    pub(super) fn turn_to(&mut self, time: i64) {
        if time != self.time {
            self.buffer.give(self.time);
            self.time = time;
        }
    }

    /// Emits a record with its event time in milliseconds since 1970, or [`NO_TIME`], as [`Collector::collect_at`] does; for operators,
    /// which have the time beside the record.
    #[inline(always)]
    pub fn push(&mut self, record: T, time: i64) {
        let has_own = self.time != NO_TIME;
        if has_own {
            self.buffer.give(self.time);
        }
        self.load.add(&record);
        self.buffer.push(record, time);
        if has_own {
            self.buffer.give(NO_TIME);
        }
        self.send_if_full();
    }

    /// Emits a whole batch, which comes back empty.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, batch: &mut Batch<T>) {
        self.turn_to(NO_TIME);
        self.buffer.append(batch);
        self.send_if_full();
    }

    #[inline]
    fn send_if_full(&mut self) {
        if self.load.makes_batch::<T>(self.buffer.len()) {
            self.send(true);
        }
    }

    /// Hands the buffer on. With `in_call` a call of a function emits, which waits if too much is kept.
    #[cold]
    fn send(&mut self, in_call: bool) {
        if self.time != NO_TIME {
            self.buffer.give(self.time);
        }
        let Self { buffer, load, backlog, next, interrupt, failure, .. } = self;
        let sent = match failure {
            None => Some(backlog.hand_on(buffer, load, &mut **next, interrupt)),
            Some(_) => None,
        };
        buffer.clear();
        load.clear();
        if let Some(sent) = sent {
            self.handed_on(sent, in_call);
        }
    }

    /// Notes the outcome of handing records on. A call waits if too much is kept.
    fn handed_on(&mut self, outcome: Result<HandedOn, TaskError>, in_call: bool) {
        let outcome = outcome.and_then(|handed| {
            if in_call && handed == HandedOn::KeepsMuch && self.failure.is_none() {
                if !self.buffer.is_empty() {
                    // The consumer of this output may be the one that has room.
                    self.send(false);
                }
                wait_for_room(&mut *self.next, &mut self.sides, &self.interrupt)?;
                self.backlog.clear();
            }
            Ok(handed)
        });
        match outcome {
            Ok(handed) => self.stopped |= handed != HandedOn::TakesMore,
            Err(failure) => self.fail(failure),
        }
        self.halts |= self.stopped;
    }

    /// Asks the chain behind again whether it takes more, if it took no more when it was last asked.
    fn ask_whether_stopped(&mut self) {
        if self.stopped {
            let behind = self.next.full() || self.is_interrupted() || self.sides.full();
            self.stopped = self.failure.is_some() || behind;
            if !behind {
                self.backlog.clear();
            }
        }
    }

    /// Returns true if the chain behind took no more when it was last asked.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped || !self.events.is_empty() || self.begun.is_some()
    }

    /// Emits a control element of the operator's own, behind the records that it has emitted. It goes on with the next
    /// [`Collector::flush`]; a watermark takes the place of one that still waits.
    pub(crate) fn emit(&mut self, event: StreamEvent) {
        if let (StreamEvent::Watermark(_), Some(StreamEvent::Watermark(_))) =
            (event, self.events.back())
        {
            self.events.pop_back();
        }
        self.events.push_back(event);
    }

    /// Hands on what was emitted. Control elements that find the chain full stay, and the chain says that it is full.
    pub(crate) fn flush(&mut self) -> Result<(), TaskError> {
        if !self.buffer.is_empty() {
            self.send(false);
        }
        if self.failure.is_none() {
            match self.sides.send() {
                Ok(takes_more) => self.stopped |= !takes_more,
                Err(failure) => self.fail(failure),
            }
        }
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        // An event goes behind the records before it.
        // Whether there is one is asked first: the other question goes through the whole chain.
        while self.has_own_event()
            && !self.next.is_interrupted()
            && let Some(event) = self.next_own_event()
        {
            let flow = self.next.event(event)?;
            self.begun = (flow != Flow::Done).then_some(Begun::Own(event));
            if flow != Flow::Done {
                break;
            }
            self.sides.event(event)?;
        }
        self.ask_whether_stopped();
        Ok(())
    }

    /// Takes out the control element of the operator's own that goes on next; `None`: there is none, or one from before the operator
    /// is not through.
    fn next_own_event(&mut self) -> Option<StreamEvent> {
        match self.begun.take() {
            None => self.events.pop_front(),
            Some(Begun::Own(event)) => Some(event),
            Some(Begun::Passing) => {
                self.begun = Some(Begun::Passing);
                None
            }
        }
    }

    /// Sends on what waits here and behind: full batches, with `partial` the others too. Whether nothing waits for room any
    /// more.
    pub(crate) fn flush_all(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.flush()?;
        let sent = self.next.flush(partial)? & self.sides.flush(partial)?;
        if !self.events_wait() || !sent {
            self.ask_whether_stopped();
            return Ok(sent);
        }
        // There is room now that was not there before.
        self.flush()?;
        Ok(self.next.flush(partial)? && !self.events_wait())
    }

    /// Returns true if control elements wait for room. Those that only wait for records which the chain behind still has to process do
    /// not count.
    fn events_wait(&self) -> bool {
        self.has_own_event() && !self.next.is_interrupted()
    }

    /// Returns true if a control element of the operator's own has not passed through the chain behind.
    fn has_own_event(&self) -> bool {
        !self.events.is_empty() || matches!(self.begun, Some(Begun::Own(_)))
    }

    /// Returns true if emitted records or control elements wait here or in the chain behind.
    pub(crate) fn is_held_up(&self) -> bool {
        self.is_full() || self.is_interrupted()
    }

    /// Returns true if an interruption has left records in the rest of the chain or in a side output.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.next.is_interrupted() || self.sides.is_interrupted()
    }

    /// Continues with the records that an interruption has left in the rest of the chain and in the side outputs.
    pub(crate) fn resume(&mut self) -> Result<(), TaskError> {
        self.next.resume()?;
        self.sides.resume()?;
        self.flush()
    }

    /// Passes a control element to the side outputs, behind the records that were emitted to them.
    pub(crate) fn side_event(&mut self, event: StreamEvent) -> Result<(), TaskError> {
        self.sides.event(event)
    }

    /// Passes a control element on, behind the records that were emitted, unless records before it are still to be processed. If this
    /// does not return [`Flow::Done`], the caller hands the same element in again before any other.
    pub(crate) fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError> {
        self.flush()?;
        // What the operator emitted since the chain behind has begun with this one goes behind it.
        let begun = matches!(self.begun, Some(Begun::Passing));
        let own_first = !begun && (self.begun.is_some() || !self.events.is_empty());
        if own_first || self.next.is_interrupted() {
            return Ok(Flow::More);
        }
        let flow = self.next.event(event)?;
        self.begun = (flow != Flow::Done).then_some(Begun::Passing);
        Ok(flow)
    }

    /// Returns true if the rest of the chain takes nothing more for now, or has failed. Records that are emitted nevertheless are kept, but
    /// dropped after a failure. A function that emits many records by itself, such as for timers, should stop then and continue later.
    pub fn is_full(&self) -> bool {
        self.failure.is_some() || self.events_wait() || self.next.full() || self.sides.full()
    }

    /// Returns true if records were emitted that are not handed on yet.
    pub(crate) fn holds_records(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Returns how many records to process at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.next.most_at_once()
    }

    pub(crate) fn next(&self) -> &dyn Consumer<T> {
        &*self.next
    }
    pub(crate) fn next_mut(&mut self) -> &mut dyn Consumer<T> {
        &mut *self.next
    }
}
