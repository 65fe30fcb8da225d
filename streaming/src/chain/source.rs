//! The head of a chain that begins with a source: it drives the source's reader, and carries messages between the
//! reader and its enumerator.

use super::{Head, PassedBarrier};
use crate::{
    memory::allocator,
    operators::{
        BATCH_RECORDS, BoxError, Collector, Consumer, Flow, OperatorContext, OperatorMail,
        SideOutputs, ask_interval,
    },
    seam::{Barrier, Progress, StreamEvent, TaskError},
    sources::{
        ReadProgress, ReaderContext, ReaderOutput, SourceReader, SourceSplit,
        intern::{
            EnumeratorLink, FromReader, OWN_TICKETS, Requests, ToReader, WAKE, last_events,
            watermark_of,
        },
    },
    state::Slice,
    task::panics::catch,
    time::SplitTimes,
    types::{decode_one, encode_one},
};
use model::NodeId;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The ticket of polls of the enumerator, and of the timer that repeats a poll.
const POLL: u32 = OWN_TICKETS + 1;
/// The ticket of the timer that looks for idle splits.
const LOOK: u32 = OWN_TICKETS + 2;
/// The ticket of the timer that asks the watermark generators for periodic watermarks.
const ASK: u32 = OWN_TICKETS + 3;
/// The number of records that are read first, while nothing is known about the time that they take.
const FIRST_RECORDS: usize = 32;
/// The interval at which a poll is repeated, because the calls that carry it time out after a minute.
const POLL_AGAIN: Duration = Duration::from_secs(20);

/// The snapshot of a source's subtask: its splits, each with its watermark (milliseconds since 1970).
type Snapshot<S> = Vec<(S, i64)>;

/// The head of a chain with a source: drives the source's reader, and carries messages between the reader and its enumerator, which assigns
/// the splits (parts of the input) to the subtasks. At a checkpoint it takes the snapshot of the reader's splits, each with its watermark;
/// after a restore each subtask gets its own splits back, or with another parallelism about an equal part of all.
pub struct SourceHead<R: SourceReader> {
    reader: R,
    out: ReaderOutput<R::Record>,
    context: OperatorContext,
    requests: Requests,
    /// The message link to the enumerator, if the source has one.
    link: Option<EnumeratorLink>,
    /// Events that have to pass through the chain, in order.
    events: VecDeque<StreamEvent>,
    passed: Vec<PassedBarrier>,
    /// The time that the reader and the operators have taken for the barriers that pass through the chain.
    pause: Duration,
    /// The number of the newest checkpoint that was triggered.
    triggered: u64,
    read_to_end: bool,
    /// The checkpoint with which the source stops before the end of its data: nothing is read any more.
    stops_with: Option<u64>,
    /// True once the tasks behind this one are told, or about to be told, that nothing follows that checkpoint.
    stopped: bool,
    ended: bool,
    /// True once the reader was closed.
    closed: bool,
    /// The interval at which the watermark generators are asked while no records come; `None`: they are not asked then.
    ask_every: Option<Duration>,
    /// The number of records that the last call of the reader was told to read, if it found none.
    unused: Option<usize>,
    /// The largest number of records to read at once: it halves when a step is interrupted, for example because it lasts
    /// long, and doubles otherwise. A barrier waits for all records that were read before it.
    most: usize,
}

/// Returns the task's failure for an error of a source; a [`TaskError`] inside is returned as it is.
fn failure(context: &OperatorContext, error: BoxError) -> TaskError {
    match error.downcast::<TaskError>() {
        Ok(error) => *error,
        Err(error) => context.user_error(error),
    }
}

impl<R: SourceReader> SourceHead<R> {
    /// Returns the head of a chain that reads with `reader`. `coordinated`: the source has an enumerator. `times`: the
    /// source has a watermark strategy, which assigns event times here.
    pub(crate) fn new(
        reader: Result<R, BoxError>,
        coordinated: bool,
        times: Option<Box<dyn SplitTimes<R::Record>>>,
        next: Box<dyn Consumer<R::Record>>,
        context: OperatorContext,
    ) -> Result<Self, TaskError> {
        let out = Collector::new(next, SideOutputs::default(), context.shared.interrupt.clone());
        Ok(Self {
            reader: reader.map_err(|error| failure(&context, error))?,
            out: ReaderOutput::new(out, times),
            // A subtask that had read everything takes no splits any more, so its enumerator must not know it.
            link: (coordinated && !context.shared.restored_at_end).then(EnumeratorLink::default),
            context,
            requests: Requests::default(),
            events: VecDeque::new(),
            passed: Vec::new(),
            pause: Duration::ZERO,
            triggered: 0,
            read_to_end: false,
            stops_with: None,
            stopped: false,
            ended: false,
            closed: false,
            ask_every: None,
            unused: None,
            most: FIRST_RECORDS,
        })
    }

    /// Makes the reader read so many records at first.
    pub(crate) fn reading_first(self, records: usize) -> Self {
        Self { most: records, ..self }
    }

    /// Passes the waiting events through the chain. Returns `None` when no event waits any more, else how the step
    /// ends.
    fn do_events(&mut self) -> Result<Option<Progress>, TaskError> {
        while let Some(event) = self.events.front().copied() {
            let began = matches!(event, StreamEvent::Barrier(_)).then(Instant::now);
            let flow = self.out.collector().event(event)?;
            self.pause += began.map_or(Duration::ZERO, |began| began.elapsed());
            match flow {
                Flow::Done => {}
                Flow::More => return Ok(Some(Progress::Blocked)),
                Flow::Waiting => return Ok(Some(Progress::Starved)),
            }
            self.events.pop_front();
            match event {
                StreamEvent::Barrier(barrier) => {
                    let (ended, pause) = (self.ended, std::mem::take(&mut self.pause));
                    self.passed.push(PassedBarrier { barrier, ended, pause });
                }
                StreamEvent::EndOfInput => self.ended = true,
                StreamEvent::Watermark(_) | StreamEvent::Idle(_) => {}
            }
        }
        Ok(None)
    }

    /// Calls the reader; an error of the reader fails the task.
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut R, &mut ReaderContext<'_>) -> Result<T, BoxError>,
    ) -> Result<T, TaskError> {
        let Self { reader, context, requests, .. } = self;
        call(reader, &mut ReaderContext::new(context, requests))
            .map_err(|error| failure(context, error))
    }

    /// Hands splits to the reader. From now on each split holds back the watermark, even before the reader begins to
    /// read it.
    fn add_splits(&mut self, splits: Snapshot<R::Split>) -> Result<(), TaskError> {
        if let Some(times) = self.out.times() {
            for (split, watermark) in &splits {
                times.register(&split.split_id(), *watermark);
            }
        }
        let splits = splits.into_iter().map(|(split, _)| split).collect();
        self.call(|reader, context| reader.add_splits(splits, context))
    }

    /// Restores this subtask's share of the splits in the snapshots, and registers at the enumerator with it. With an unchanged
    /// parallelism a subtask gets its own splits, otherwise the splits of all former subtasks are dealt out one by one.
    fn restore(&mut self) -> Result<(), TaskError> {
        let former = self.context.snapshots()?;
        let (subtask, parallelism) =
            (self.context.subtask() as usize, self.context.parallelism() as usize);
        let mut held = Snapshot::new();
        for (index, snapshot) in former.iter().enumerate() {
            let splits = decode_one::<Snapshot<R::Split>>(snapshot);
            let splits = splits.map_err(|source| {
                let operator = self.context.name().to_owned();
                TaskError::Restore { operator, source }
            })?;
            if former.len() != parallelism || index == subtask {
                held.extend(splits);
            }
        }
        if former.len() != parallelism {
            let mut place = 0..;
            held.retain(|_| place.next().is_some_and(|n: usize| n % parallelism == subtask));
        }
        if let Some(link) = &mut self.link {
            link.say(FromReader::Register(
                held.iter().map(|(split, _)| encode_one(split)).collect(),
            ));
        }
        // Called with no splits too if there was a snapshot: a restored reader must not start from the beginning.
        if self.context.is_restored() { self.add_splits(held) } else { Ok(()) }
    }

    /// Processes the enumerator's messages, except those that must wait for a checkpoint.
    fn handle_messages(&mut self) -> Result<(), TaskError> {
        while let Some(message) = self.link.as_mut().and_then(EnumeratorLink::next) {
            match message {
                ToReader::Splits(splits) => {
                    let split = |bytes: &Vec<u8>| Ok((decode_one(bytes)?, i64::MIN));
                    let splits = splits.iter().map(split).collect::<Result<_, _>>();
                    self.add_splits(splits.map_err(|error| self.context.codec_error(error))?)?;
                }
                ToReader::Event(event) => {
                    self.call(|reader, context| reader.handle_source_event(event, context))?;
                }
                ToReader::NoMoreSplits => self.reader.no_more_splits(),
                ToReader::Release(_) => {}
            }
        }
        Ok(())
    }

    /// Sends the reader's messages to the enumerator with a poll, if one is due; `again`: also repeats a poll whose
    /// answer is outstanding.
    fn poll_enumerator(&mut self, again: bool) {
        let Some(link) = &mut self.link else {
            return self.requests.messages.clear();
        };
        self.requests.messages.drain(..).for_each(|message| link.say(message));
        if let Some(poll) = link.poll(again) {
            let shared = &self.context.shared;
            let ticket = crate::operators::ticket_of(self.context.node, POLL);
            shared.upcalls.operator_poll(self.context.operator, poll, ticket);
        }
    }

    /// Closes the reader, once.
    fn close_reader(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.reader.close();
        }
    }

    /// Schedules the next call of the watermark generators, if they are called at intervals.
    fn ask_later(&self) {
        if let Some(every) = self.ask_every {
            self.context.wake_after(every, ASK);
        }
    }

    fn timer(&mut self, ticket: u32) -> Result<(), TaskError> {
        match ticket {
            // The snapshot of the stop is all that remains of the chain.
            _ if self.stops_with.is_some() => {}
            WAKE.. => self.requests.timer(ticket),
            POLL if self.link.as_ref().is_some_and(|link| !link.is_over()) => {
                self.poll_enumerator(true);
                self.context.wake_after(POLL_AGAIN, POLL);
            }
            // After the final watermark only the end of input follows.
            ASK | LOOK if self.read_to_end => {}
            ASK => {
                self.out.set_clock(|| self.context.now_unix_ms());
                self.out.ask();
                self.out.collector().flush()?;
                self.ask_later();
            }
            LOOK => {
                let held_up = self.out.is_interrupted() || self.out.chain().is_full();
                if let Some(times) = self.out.times() {
                    times.look(held_up);
                    if let Some(every) = times.look_every() {
                        self.context.wake_after(every, LOOK);
                    }
                }
                self.out.emit_changes();
                self.out.collector().flush()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn mail(&mut self, mail: OperatorMail) -> Result<(), TaskError> {
        match mail {
            OperatorMail::Timer { ticket } => self.timer(ticket)?,
            OperatorMail::Reply { ticket: POLL, result } => {
                let answer = result.map_err(|why| self.context.coordinator_error(why))?;
                if let Some(link) = &mut self.link {
                    link.answered(&answer).map_err(|error| self.context.codec_error(error))?;
                }
                self.handle_messages()?;
            }
            OperatorMail::Reply { ticket, result } => {
                self.call(|reader, context| reader.io_done(ticket, result, context))?;
            }
        }
        self.poll_enumerator(false);
        Ok(())
    }
}

impl<R: SourceReader> Head for SourceHead<R> {
    fn open(&mut self) -> Result<(), TaskError> {
        self.out.collector().next_mut().open()?;
        self.restore()?;
        if self.context.shared.restored_at_end {
            // Everything was read and has left the chain: only its end is told again.
            self.read_to_end = true;
            self.reader.no_more_splits();
            return Ok(());
        }
        self.call(|reader, context| reader.start(context))?;
        if self.link.is_some() {
            self.context.wake_after(POLL_AGAIN, POLL);
        } else {
            self.reader.no_more_splits();
        }
        self.poll_enumerator(false);
        if let Some(times) = self.out.times() {
            let (periodic, look_every) = (times.is_periodic(), times.look_every());
            if periodic {
                self.ask_every = ask_interval(&self.context)?;
                self.ask_later();
            }
            if let Some(every) = look_every {
                self.context.wake_after(every, LOOK);
            }
        }
        Ok(())
    }

    fn step(&mut self, budget: usize) -> Result<Progress, TaskError> {
        if let Some(progress) = self.do_events()? {
            return Ok(progress);
        }
        if self.ended {
            return Ok(Progress::Finished);
        }
        if self.stops_with.is_some() {
            return Ok(Progress::Starved);
        }
        if self.read_to_end {
            self.events.extend(last_events(&mut self.out));
            return Ok(Progress::Busy);
        }
        if self.out.chain().is_full() {
            return Ok(Progress::Blocked);
        }
        // A chain that is asked again and again without records in between would take more and more at once.
        let asked = self.unused.take().unwrap_or_else(|| self.out.chain().most_at_once());
        let most = budget.min(self.most).min(asked);
        let Self { reader, out, context, requests, .. } = self;
        out.set_clock(|| context.now_unix_ms());
        out.ask_for(most);
        let read = reader.poll_next(most, out, &mut ReaderContext::new(context, requests));
        let read = read.map_err(|error| failure(context, error))?;
        self.out.pass_pending();
        let found_none = read == ReadProgress::Waiting && !self.out.chain().holds_records();
        self.unused = found_none.then_some(asked);
        self.out.collector().flush()?;
        self.most = match self.out.is_interrupted() {
            true => (most / 2).max(1),
            false if found_none => self.most,
            false => (self.most * 2).min(BATCH_RECORDS),
        };
        if !self.requests.messages.is_empty() {
            self.poll_enumerator(false);
        }
        Ok(match read {
            ReadProgress::More => Progress::Busy,
            ReadProgress::Waiting => Progress::Starved,
            ReadProgress::Ended => {
                self.read_to_end = true;
                Progress::Busy
            }
        })
    }

    fn trigger(&mut self, barrier: Barrier) -> Result<(), TaskError> {
        // A trigger may come twice. Without a final checkpoint the task is over when its data has ended.
        let over = self.ended && !self.context.shared.ends_with_checkpoint;
        if over || barrier.checkpoint <= self.triggered {
            return Ok(());
        }
        self.triggered = barrier.checkpoint;
        let began = Instant::now();
        let splits = self.call(|reader, _| reader.snapshot_state(barrier.checkpoint))?;
        let out = &mut self.out;
        let with_watermark = |split: R::Split| {
            let watermark = watermark_of(out, &split.split_id());
            (split, watermark)
        };
        let snapshot: Snapshot<R::Split> = splits.into_iter().map(with_watermark).collect();
        let snapshot = encode_one(&snapshot);
        allocator::hand_over(snapshot.capacity() as u64);
        let chunks = vec![snapshot.into()];
        self.context.shared.add_snapshot(barrier.checkpoint, self.context.operator, chunks);
        self.pause += began.elapsed();
        self.events.push_back(StreamEvent::Barrier(barrier));
        if barrier.last && !self.read_to_end {
            self.stops_with = Some(barrier.checkpoint);
        }
        if let Some(link) = &mut self.link {
            link.checkpoint_passed(barrier.checkpoint);
        }
        self.handle_messages()
    }

    fn drain(&mut self) {
        if self.stops_with.is_none()
            && !self.ended
            && !self.events.contains(&StreamEvent::EndOfInput)
        {
            self.read_to_end = true;
            self.events.extend(last_events(&mut self.out));
        }
    }

    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError> {
        if to == self.context.node {
            return self.mail(mail);
        }
        self.out.collector().next_mut().deliver(to, mail)
    }
    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.call(|reader, _| reader.notify_checkpoint_complete(checkpoint))?;
        // The notification may come twice, and a second end would count as that of another channel.
        if self.stops_with == Some(checkpoint) && !std::mem::replace(&mut self.stopped, true) {
            // The operators are stopped; it only tells the tasks behind this one that nothing follows.
            self.events.push_back(StreamEvent::EndOfInput);
        }
        self.out.collector().next_mut().notify_complete(checkpoint)
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.out.collector().flush_all(partial)
    }
    fn full(&self) -> bool {
        self.out.chain().is_full()
    }
    fn resume(&mut self) -> Result<(), TaskError> {
        self.out.resume()
    }
    fn is_interrupted(&self) -> bool {
        self.out.is_interrupted()
    }
    fn writes(&self) -> Option<u64> {
        self.out.chain().next().writes()
    }
    fn write_snapshots(&mut self, slice: &mut Slice<'_>) -> Result<(), TaskError> {
        self.out.collector().next_mut().write_snapshots(slice)
    }
    fn abort_snapshots(&mut self, checkpoint: u64) {
        self.out.collector().next_mut().abort_snapshots(checkpoint);
    }
    fn passed_barriers(&mut self) -> Vec<PassedBarrier> {
        std::mem::take(&mut self.passed)
    }
    fn is_committing(&self) -> bool {
        self.out.chain().next().is_committing()
    }
    fn close(&mut self) -> Result<(), TaskError> {
        self.close_reader();
        self.out.collector().next_mut().close()
    }
    fn dispose(&mut self) {
        // A panic must not keep the operators from disposing.
        if let Err(panic) = catch(|| self.close_reader()) {
            let operator = self.context.name();
            tracing::warn!(operator, panic, "the reader panicked when it was closed");
        }
        self.out.collector().next_mut().dispose();
    }
}
