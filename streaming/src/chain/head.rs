//! The interface of the head of a chain, and the head that reads inputs.

use super::{Alignment, Step};
use crate::{
    batch::{Batch, OwnedParts},
    operators::{Consumer, Control, Flow, OperatorMail},
    seam::{
        Barrier, Element, ErasedBatch, InputPort, Interrupt, Polled, Progress, StreamEvent,
        TaskCounters, TaskError,
    },
    state::Slice,
};
use model::NodeId;
use std::{any::type_name, collections::VecDeque, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A barrier that all operators of a chain have handled, as [`Head::passed_barriers`] gives it to the task. The task acknowledges its
/// checkpoint when the snapshots are written, or gives it up if the checkpoint was aborted meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedBarrier {
    /// The barrier, which came through the inputs or, at a source, by a trigger.
    pub barrier: Barrier,
    /// True if the end of input had passed through the chain before the barrier: a subtask that is restored from the checkpoint processes
    /// nothing more. False with a barrier that is `last`: the job is stopped, and the operators get no further record, event or timer, but
    /// still commit.
    pub ended: bool,
    /// The time for which the task has handled no records for the checkpoint: here what the operators, and a source's reader, took at the
    /// barrier. [`ChainTask`](super::ChainTask) raises it if a later pause, while the snapshots are written, is longer.
    pub pause: Duration,
}

/// The head of a chain, which produces the chain's records: a source ([`SourceHead`](super::SourceHead)), or the inputs. It
/// owns the rest of the chain. [`ChainTask`](super::ChainTask) calls it, on the task's thread: `open` first; then, between steps, mail,
/// triggers and notifications, and for each step `flush`, `resume` and, if no record is left of an interrupted step, `step`; at last
/// `close` or `dispose`. After an error only `dispose` is called.
pub trait Head: Send {
    /// Opens the operators, last one first, then the head itself.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if an operator or the head cannot be opened.
    fn open(&mut self) -> Result<(), TaskError>;
    /// Processes about `budget` records, or fewer if the step is interrupted, and returns when the next step is due.
    /// [`Progress::Finished`] means that the end of input has passed through the chain.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn step(&mut self, budget: usize) -> Result<Progress, TaskError>;
    /// Starts a checkpoint if the head is a source: takes the reader's snapshot and puts the barrier behind the records read so far. A
    /// checkpoint that is not newer than the last one is ignored, and so is one after the end of the data in a job without a final
    /// checkpoint. After the barrier of a stop (`last`, before the end of the data) the source reads nothing more. Does nothing for heads
    /// that read inputs, because barriers come through these.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn trigger(&mut self, barrier: Barrier) -> Result<(), TaskError>;
    /// Ends the data of a source at its present position: nothing more is read, and the final watermark and the end of input follow what
    /// was read. Does nothing if the data has ended already or the barrier of a stop was triggered, and for heads that read inputs.
    fn drain(&mut self) {}
    /// Hands mail (the reply to an upcall, or a timer) to the operator `to` of the chain; drops mail for others, and timers of an operator
    /// whose input has ended or whose job is stopped, unless the operator commits.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError>;
    /// Tells the head and all operators that a checkpoint is complete in the whole job, so that sinks commit what it contains. A source
    /// that has stopped with this checkpoint then ends its output.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError>;
    /// Sends the batches that wait at the end of the chain: those that an output has refused, and, if all of these were taken and
    /// `partial` is true, also those that are not full yet. Returns true if no refused batch is left.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError>;
    /// Returns true if an output or a sink of the chain takes no more records for now.
    fn full(&self) -> bool;
    /// Continues with records that are left in the chain because a step was interrupted.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn resume(&mut self) -> Result<(), TaskError>;
    /// Returns true if records are left in the chain because a step was interrupted.
    fn is_interrupted(&self) -> bool;
    /// Returns the smallest id of the checkpoints for which an operator still writes its snapshot; `None` if no operator writes.
    fn writes(&self) -> Option<u64>;
    /// Writes a part of the snapshots that operators have begun, as much as `slice` allows. Full chunks go to the host.
    ///
    /// # Errors
    /// Fails with [`TaskError`], for instance if a value cannot be encoded.
    fn write_snapshots(&mut self, slice: &mut Slice<'_>) -> Result<(), TaskError>;
    /// Makes operators drop the snapshots that they still write for an aborted checkpoint. An operator that cannot drop its snapshot goes
    /// on writing it, and still counts for [`Head::writes`].
    fn abort_snapshots(&mut self, checkpoint: u64);
    /// Removes and returns the barriers that have passed through the whole chain since the last call.
    fn passed_barriers(&mut self) -> Vec<PassedBarrier>;
    /// Returns true while a sink of the chain commits results that a complete checkpoint contains. The task must not finish then.
    fn is_committing(&self) -> bool;
    /// Closes the operators, which calls the user's `close`, after the end of input has passed through the chain.
    ///
    /// # Errors
    /// Fails with [`TaskError`] if the head or an operator fails; the task fails with it.
    fn close(&mut self) -> Result<(), TaskError>;
    /// Releases the resources of a task that was cancelled or has failed. Called instead of `close`, or after a `close` that failed;
    /// operators that were closed already are left alone.
    fn dispose(&mut self);
}

/// A function that converts a batch of an input into records of the type that the chain's operators take. It returns a batch of another
/// type unchanged as the error. The batch's watermark is dropped, because the caller has read it before.
pub type OpenBatch<T> = fn(ErasedBatch) -> Result<Batch<T>, ErasedBatch>;

/// The head of a chain that reads inputs in turn, aligns their watermarks and barriers, and hands their records, converted to one type, to
/// the chain. A batch of another record type fails the task with [`TaskError::Codec`], an input that finishes without its end of input with
/// [`TaskError::Deployment`].
pub(crate) struct InputHead {
    ports: Vec<Box<dyn InputPort>>,
    /// The number of each port's first channel among all channels.
    offsets: Vec<usize>,
    /// The port to poll next.
    turn: usize,
    alignment: Alignment,
    steps: VecDeque<Step>,
    /// The time that the operators have taken for the barrier that passes through the chain.
    pause: Duration,
    feed: Box<dyn Feed>,
    passed: Vec<PassedBarrier>,
    ended: bool,
    counters: Arc<TaskCounters>,
    interrupt: Interrupt,
    place: String,
}

/// The part of an [`InputHead`] that knows the record type: the batch at work and the rest of the chain. All else is compiled once, not in
/// every program and for every record type.
pub(crate) trait Feed: Send {
    /// Returns the rest of the chain.
    fn chain(&self) -> &dyn Control;
    /// Returns the rest of the chain, to call it.
    fn chain_mut(&mut self) -> &mut dyn Control;
    /// Hands the batch at work to the chain, part by part. Returns `None` when the batch is done, else how the step
    /// ends.
    fn work_off(&mut self) -> Result<Option<Progress>, TaskError>;
    /// Converts a batch of the port with that number and hands it to the chain, which makes it the batch at work if it is large. `place`
    /// names the chain in errors.
    fn take(&mut self, port: usize, batch: ErasedBatch, place: &str) -> Result<(), TaskError>;
}

struct Records<T> {
    /// The conversion of each port's batches.
    open: Vec<OpenBatch<T>>,
    /// The rest of the batch at work, and the part of it that is handed on at once.
    current: OwnedParts<T>,
    part: Batch<T>,
    consumer: Box<dyn Consumer<T>>,
}

/// Returns the part of an [`InputHead`] that converts the batches of each port by its function in `open` and hands the records to `consumer`.
pub(crate) fn feed<T: Send + 'static>(
    open: Vec<OpenBatch<T>>,
    consumer: Box<dyn Consumer<T>>,
) -> Box<dyn Feed> {
    Box::new(Records { open, current: OwnedParts::default(), part: Batch::default(), consumer })
}

impl<T: Send + 'static> Feed for Records<T> {
    fn chain(&self) -> &dyn Control {
        &*self.consumer
    }
    fn chain_mut(&mut self) -> &mut dyn Control {
        &mut *self.consumer
    }

    fn work_off(&mut self) -> Result<Option<Progress>, TaskError> {
        loop {
            if self.consumer.is_interrupted() {
                return Ok(Some(Progress::Busy));
            }
            if self.current.is_empty() {
                return Ok(None);
            }
            if self.consumer.full() {
                return Ok(Some(Progress::Blocked));
            }
            let most = self.consumer.most_at_once();
            self.current.take_into(most, &mut self.part);
            self.consumer.batch(&mut self.part)?;
            self.part.clear();
        }
    }

    fn take(&mut self, port: usize, batch: ErasedBatch, place: &str) -> Result<(), TaskError> {
        let opened = self.open.get(port).and_then(|open| open(batch).ok());
        let mut batch = opened.ok_or_else(|| other_type(place, type_name::<T>()))?;
        if batch.len() <= self.consumer.most_at_once() {
            return self.consumer.batch(&mut batch).map(drop);
        }
        self.current = batch.into();
        Ok(())
    }
}

fn other_type(place: &str, wanted: &'static str) -> TaskError {
    let source = crate::types::CodecError::OtherType(wanted);
    TaskError::Codec { place: place.to_owned(), source }
}

impl InputHead {
    /// Creates a head that reads `ports` in turn and hands their batches to `feed`. `place` names the chain in errors.
    /// `barriers_after_end` is true if inputs deliver barriers after their end, as in a job with a final checkpoint.
    pub(crate) fn new(
        ports: Vec<Box<dyn InputPort>>,
        feed: Box<dyn Feed>,
        counters: Arc<TaskCounters>,
        interrupt: Interrupt,
        barriers_after_end: bool,
        place: String,
    ) -> Self {
        let mut offsets = Vec::with_capacity(ports.len());
        let mut channels = 0;
        for port in &ports {
            offsets.push(channels);
            channels += port.channels();
        }
        Self {
            ports,
            offsets,
            turn: 0,
            alignment: Alignment::new(channels, barriers_after_end),
            steps: VecDeque::new(),
            pause: Duration::ZERO,
            feed,
            passed: Vec::new(),
            ended: false,
            counters,
            interrupt,
            place,
        }
    }

    fn take_batch(
        &mut self,
        port: usize,
        channel: usize,
        batch: ErasedBatch,
    ) -> Result<(), TaskError> {
        TaskCounters::add(&self.counters.records_in, batch.len() as u64);
        if let Some(ms) = batch.watermark {
            // These steps are done after the batch's records, because the watermark follows them.
            self.steps.extend(self.alignment.event(channel, StreamEvent::Watermark(ms)));
        }
        self.feed.take(port, batch, &self.place)
    }

    /// Does the steps that events have caused. Returns `None` when all are done, else how the task's step ends.
    fn do_steps(&mut self) -> Result<Option<Progress>, TaskError> {
        while let Some(step) = self.steps.front().copied() {
            match step {
                Step::Emit(event) => {
                    let began = matches!(event, StreamEvent::Barrier(_)).then(Instant::now);
                    let flow = self.feed.chain_mut().event(event)?;
                    self.pause += began.map_or(Duration::ZERO, |began| began.elapsed());
                    match flow {
                        Flow::Done => {}
                        Flow::More => return Ok(Some(Progress::Blocked)),
                        Flow::Waiting => return Ok(Some(Progress::Starved)),
                    }
                    match event {
                        StreamEvent::Barrier(barrier) => {
                            let (ended, pause) = (self.ended, std::mem::take(&mut self.pause));
                            self.passed.push(PassedBarrier { barrier, ended, pause });
                        }
                        StreamEvent::EndOfInput => self.ended = true,
                        StreamEvent::Watermark(_) | StreamEvent::Idle(_) => {}
                    }
                }
                Step::Pause(channel) => self.pause(channel, true),
                Step::Resume => {
                    (0..self.offsets.len()).for_each(|port| self.resume(port));
                }
            }
            self.steps.pop_front();
        }
        Ok(None)
    }

    fn pause(&mut self, channel: usize, paused: bool) {
        let port = self.offsets.partition_point(|first| *first <= channel).saturating_sub(1);
        let first = self.offsets.get(port).copied().unwrap_or(0);
        if let Some(port) = self.ports.get_mut(port) {
            port.pause(channel - first, paused);
        }
    }

    fn resume(&mut self, port: usize) {
        if let Some(port) = self.ports.get_mut(port) {
            (0..port.channels()).for_each(|channel| port.pause(channel, false));
        }
    }

    /// Polls the ports in turn.
    fn poll(&mut self) -> Poll {
        let ports = self.ports.len();
        let mut finished = 0;
        for _ in 0..ports {
            let index = self.turn % ports;
            self.turn = index + 1;
            let Some(port) = self.ports.get_mut(index) else { continue };
            match port.poll() {
                Polled::Element { channel, element } => {
                    let first = self.offsets.get(index).copied().unwrap_or(0);
                    return Poll::Element(index, first + channel, element);
                }
                Polled::Empty => {}
                Polled::Finished => finished += 1,
            }
        }
        if finished == ports { Poll::Finished } else { Poll::Empty }
    }
}

/// The result of polling all ports of a head.
enum Poll {
    /// The next element, with its port and the number of its channel among the channels of all ports.
    Element(usize, usize, Element),
    /// No port has an element.
    Empty,
    /// Every channel has delivered its end.
    Finished,
}

impl Head for InputHead {
    fn open(&mut self) -> Result<(), TaskError> {
        self.feed.chain_mut().open()
    }

    fn step(&mut self, budget: usize) -> Result<Progress, TaskError> {
        let mut worked = 0;
        loop {
            if let Some(progress) = self.feed.work_off()? {
                return Ok(progress);
            }
            if let Some(progress) = self.do_steps()? {
                return Ok(progress);
            }
            if self.feed.chain().full() {
                return Ok(Progress::Blocked);
            }
            // Small batches leave no rest when a step is interrupted, so that the flag is looked at between them too.
            if worked >= budget || (worked > 0 && self.interrupt.is_raised()) {
                return Ok(Progress::Busy);
            }
            match self.poll() {
                Poll::Element(port, channel, Element::Batch(batch)) => {
                    worked += batch.len().max(1);
                    self.take_batch(port, channel, batch)?;
                }
                Poll::Element(_, channel, Element::Event(event)) => {
                    worked += 1;
                    self.steps.extend(self.alignment.event(channel, event));
                }
                // After the end of input only barriers come.
                Poll::Empty | Poll::Finished if self.ended => return Ok(Progress::Finished),
                Poll::Finished if !self.alignment.all_ended() => {
                    return Err(TaskError::Deployment(format!(
                        "the inputs of '{}' are finished, but not every channel has delivered its end of input",
                        self.place
                    )));
                }
                Poll::Empty | Poll::Finished => return Ok(Progress::Starved),
            }
        }
    }

    fn trigger(&mut self, _barrier: Barrier) -> Result<(), TaskError> {
        // Barriers come through the inputs.
        Ok(())
    }
    fn deliver(&mut self, to: NodeId, mail: OperatorMail) -> Result<(), TaskError> {
        self.feed.chain_mut().deliver(to, mail)
    }
    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError> {
        self.feed.chain_mut().notify_complete(checkpoint)
    }
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError> {
        self.feed.chain_mut().flush(partial)
    }
    fn full(&self) -> bool {
        self.feed.chain().full()
    }
    fn resume(&mut self) -> Result<(), TaskError> {
        self.feed.chain_mut().resume()
    }
    fn is_interrupted(&self) -> bool {
        self.feed.chain().is_interrupted()
    }
    fn writes(&self) -> Option<u64> {
        self.feed.chain().writes()
    }
    fn write_snapshots(&mut self, slice: &mut Slice<'_>) -> Result<(), TaskError> {
        self.feed.chain_mut().write_snapshots(slice)
    }
    fn abort_snapshots(&mut self, checkpoint: u64) {
        self.feed.chain_mut().abort_snapshots(checkpoint);
    }
    fn passed_barriers(&mut self) -> Vec<PassedBarrier> {
        std::mem::take(&mut self.passed)
    }
    fn is_committing(&self) -> bool {
        self.feed.chain().is_committing()
    }
    fn close(&mut self) -> Result<(), TaskError> {
        self.feed.chain_mut().close()
    }
    fn dispose(&mut self) {
        self.feed.chain_mut().dispose();
    }
}
