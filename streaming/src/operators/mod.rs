//! Operators: the processing steps of a chain, which take records one batch at a time.
//!
//! A chain is a sequence of boxed [`Consumer`]s, each linked to the next one with its record type. It costs one virtual call per batch and
//! operator, none per record. Nothing here may spawn, read a clock other than the host's, or block, except a call of a function that waits
//! for room in an output.

mod alarm;
mod assign;
mod backlog;
mod broadcast;
mod connected;
mod consumer;
mod context;
mod keyed;
mod keyed_process;
mod link;
mod load;
mod metrics;
mod one_piece;
mod output;
mod pace;
mod process;
mod sides;
mod simple;
mod stateful_flat_map;
mod stateful_process;
mod taken;
#[cfg(test)]
mod tests;
mod timers;
mod windows;

pub(crate) use assign::{ask_interval, watermark_state};
pub(crate) use broadcast::broadcast_state;
pub use broadcast::{BroadcastProcessFunction, KeyedBroadcastProcessFunction};
pub use connected::{CoProcessFunction, Either, KeyedCoProcessFunction};
pub(crate) use connected::{co_flat_map, co_map};
pub use consumer::Flow;
pub use context::{OperatorContext, OperatorMail};
pub(crate) use context::{split_ticket, ticket_of};
pub use keyed::KeySelector;
pub(crate) use keyed::failed as state_failed;
pub use keyed_process::{Context, KeyedProcessFunction};
pub(crate) use load::{BATCH_BYTES, Load};
pub use metrics::{Counter, Gauge, Metrics};
pub(crate) use one_piece::OnePiece;
pub use output::Collector;
pub(crate) use pace::Pace;
pub use process::ProcessFunction;
pub use sides::OutputTag;
pub(crate) use sides::side_output;
pub use stateful_process::StatefulProcessFunction;
pub(crate) use taken::join_chunks;
pub use timers::{TimeDomain, Timer, TimerService};
pub(crate) use windows::whole_ms;
pub use windows::{
    AggregateFunction, EventTimeAssigner, EventTimeSessionWindows, FixedGap, GapOf,
    ProcessingTimeSessionWindows, SessionGap, SlidingEventTimeWindows,
    SlidingProcessingTimeWindows, TimeWindow, TumblingEventTimeWindows,
    TumblingProcessingTimeWindows, WindowAssigner, WindowFunction,
};

// The parts of the runtime that the methods of streams and tests are made of. Programs do not name them.
#[doc(hidden)]
pub use self::{
    assign::AssignWatermarks,
    broadcast::{BroadcastOperator, InspectBroadcast, Reading, TakesBroadcast},
    connected::{BothInputs, EitherKey},
    consumer::{Consumer, Control},
    context::ChainShared,
    keyed::{
        ByReference, ByValue, Count, Fold, Folding, Keyed, KeyedFold, Reduce, Sum, UpdateMode,
    },
    keyed_process::{InspectKeyed, KeyedOperator},
    link::Link,
    output::BATCH_RECORDS,
    process::Process,
    sides::{SideOutput, SideOutputs},
    simple::{Filter, FlatMap, Inspect, Map, TryFilter, TryFlatMap, TryMap},
    stateful_flat_map::StatefulFlatMap,
    stateful_process::{InspectOperatorState, StatefulProcess},
    windows::{
        AggregateWindow, CountWindow, CountWindows, EventTimeWindows, Lateness, ProcessWindow,
        ProcessingTimeWindows, Slices, WindowFolding, WindowStore,
    },
};

pub use crate::seam::{Barrier, StreamEvent};
use crate::{
    batch::Batch,
    seam::TaskError,
    state::{Slice, SnapshotKind},
    types::Record,
};

/// The error type of user code: any error that can be sent between threads; `?` converts to it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the text of an error and of its causes, separated by `: `.
pub(crate) fn text_of(error: &BoxError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    model::shortened(text)
}

/// An operator: turns the records that it takes into other records. A task runs it as a link of a chain. The task calls `open` once, in
/// which a restored operator reads its state from the context; then `process` for records, `event` for control elements and `mail` for
/// answers and timers; at a barrier `event` first, then `snapshot`; `notify_complete` for a complete checkpoint; at the end `close`, or
/// `dispose` if it was cancelled or has failed. Each subtask has its own one, which only the task's thread calls; no method but `open` may
/// block. A panic fails the task, except one in `dispose`.
///
/// Operators of this crate with large state write it while records come: at the barrier the task calls `begin_incremental` or
/// `begin_snapshot`, and `snapshot` only if that one has begun none.
///
/// An operator that emits, at each watermark, how many records came since the watermark before. The number is its state:
///
/// ```
/// use streaming::{
///     TaskError,
///     batch::{Batch, NO_TIME},
///     operators::{Barrier, Collector, Flow, Operator, OperatorContext, StreamEvent},
///     testing,
/// };
///
/// #[derive(Default)]
/// struct Tally {
///     records: u8,
///     savepoints: Vec<u64>,
/// }
///
/// impl Operator<String> for Tally {
///     type Out = u8;
///     const HAS_STATE: bool = true;
///     fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
///         if !context.is_restored() {
///             println!("subtask {} begins with 0", context.subtask());
///         }
///         while let Some(snapshot) = context.next_snapshot()? {
///             self.records += snapshot.iter().sum::<u8>();
///         }
///         Ok(())
///     }
///     fn process(
///         &mut self,
///         batch: &mut Batch<String>,
///         _out: &mut Collector<u8>,
///         _context: &OperatorContext,
///     ) -> Result<(), TaskError> {
///         batch.each(|_, _| self.records += 1);
///         Ok(())
///     }
///     fn event(
///         &mut self,
///         event: StreamEvent,
///         out: &mut Collector<u8>,
///         _context: &OperatorContext,
///     ) -> Result<Flow, TaskError> {
///         match event {
///             // No room: the task hands the same watermark in again.
///             StreamEvent::Watermark(_) if !out.should_continue() => return Ok(Flow::More),
///             StreamEvent::Watermark(ms) if ms < i64::MAX => {
///                 out.push(std::mem::take(&mut self.records), ms);
///             }
///             StreamEvent::EndOfInput => out.push(std::mem::take(&mut self.records), NO_TIME),
///             StreamEvent::Barrier(Barrier { checkpoint, savepoint: true, .. }) => {
///                 self.savepoints.push(checkpoint);
///             }
///             _ => {}
///         }
///         Ok(Flow::Done)
///     }
///     fn snapshot(&mut self, _: u64, _: &OperatorContext) -> Result<Option<Vec<u8>>, TaskError> {
///         Ok(Some(vec![self.records]))
///     }
/// }
///
/// let mut test = testing::operator(Tally::default()).open()?;
/// test.push("a".to_owned())?;
/// test.push("b".to_owned())?;
/// test.watermark(1_000)?;
/// assert_eq!(test.timed_output(), [(2, Some(1_000))]);
/// test.push("c".to_owned())?;
/// let savepoint = test.savepoint(1)?;
/// test.cancel();
///
/// let mut restored = testing::operator(Tally::default()).restore(savepoint).open()?;
/// restored.end_of_input()?;
/// assert_eq!(restored.output(), [1]);
/// # Ok::<(), TaskError>(())
/// ```
pub trait Operator<In>: Send {
    /// The type of the emitted records.
    type Out: Record;
    /// True if [`Operator::snapshot`] returns state. With periodic checkpoints the operator then needs a uid, unless
    /// `pipeline.auto-generate-uids` is true. A task fails whose operator returns state although this is false, as by default.
    const HAS_STATE: bool = false;
    /// True if the whole snapshot is keyed state, windows and timers, which an operator at the end of its input no longer needs. No
    /// commits may depend on such a snapshot: the last one of a job without a checkpoint directory is not taken.
    #[doc(hidden)]
    const ONLY_KEYED_STATE: bool = false;

    /// Called once, before the first record and after the `open` of the operators behind this one in its chain.
    /// [`OperatorContext::next_snapshot`] has the state to restore. Does nothing by default.
    ///
    /// # Errors
    /// An error fails the task.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }
    /// Drops what [`Operator::open`] has kept of a state of the restored snapshots that the operator does not declare, and returns the
    /// name of that state, which is also its kind; `None`, as by default, if it has found nothing of the kind. Called once after `open`. In
    /// a job the user has allowed the loss (`--allowNonRestoredState`), because the Dispatcher refuses the restore otherwise; the test of
    /// one operator refuses it.
    #[doc(hidden)]
    fn drop_undeclared(&mut self) -> Option<&'static str> {
        None
    }
    /// Works on a batch until it is empty, or until [`Collector::should_continue`] is false: records that are left in the batch then are
    /// handed in again.
    ///
    /// # Errors
    /// An error fails the task.
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Self::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError>;
    /// Takes a control element (watermark, idleness, barrier, end of input) before the next operator does. Unless this returns
    /// [`Flow::Done`], as by default, it is called again with the same event. Only barriers come in a subtask that is restored at the end
    /// of its data, and nothing comes after the barrier of a stop with a savepoint that is not drained.
    ///
    /// # Errors
    /// An error fails the task.
    fn event(
        &mut self,
        _event: StreamEvent,
        _out: &mut Collector<Self::Out>,
        _context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        Ok(Flow::Done)
    }
    /// Takes mail for this operator: an answer or a timer that it has asked for. Drops the mail by default. Timers come neither after the
    /// operator's end of input, nor after the barrier of a stop that is not drained, nor in a subtask that is restored at the end of its
    /// data, unless [`Operator::is_committing`] is true.
    ///
    /// # Errors
    /// An error fails the task.
    fn mail(
        &mut self,
        _mail: OperatorMail,
        _out: &mut Collector<Self::Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }
    /// Returns the bytes that the tables and timers of the operator's keyed state or windows take. What keys and values have on the heap
    /// (texts, maps, lists) does not count. `None`, as by default, if the operator has no such state. REST shows the number as the metric
    /// `stateBytes` of the operator. Called after `open`; if it did not return `None` then, also whenever the task sends batches that are
    /// not full, by default at least 10 times a second under load.
    fn state_bytes(&self) -> Option<u64> {
        None
    }
    /// Returns true if a control element goes on to the next operator and the side outputs after [`Operator::event`] has seen it, as by
    /// default.
    fn passes(&self, _event: StreamEvent) -> bool {
        true
    }
    /// Returns true if the operator takes nothing more for now, such as a sink that waits for an answer. Batches that are on their way
    /// come nevertheless. False by default.
    fn full(&self) -> bool {
        false
    }
    /// Begins to write the operator's state at a barrier, after all records before it and [`Operator::event`], while later records come.
    /// Returns true if the operator does so: [`Operator::write_snapshot`] is then called until the snapshot is complete or dropped
    /// ([`Operator::abort_snapshot`]), and no other barrier comes before. Returns false, as by default, if [`Operator::snapshot`] has to be
    /// called, as for small state.
    ///
    /// # Errors
    /// An error fails the task: the state cannot be written.
    #[doc(hidden)]
    fn begin_snapshot(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        Ok(false)
    }
    /// Begins to write the operator's state as [`Operator::begin_snapshot`] does, or only what has changed since a complete checkpoint.
    /// Called instead of it if `execution.checkpointing.incremental` is on and the host stores changes, but not for savepoints nor where
    /// the barrier asks for a full snapshot. Returns the kind of the snapshot that was begun, `None` if [`Operator::snapshot`] has to be
    /// called. By default the snapshot is a full one.
    ///
    /// # Errors
    /// An error fails the task: the state cannot be written.
    #[doc(hidden)]
    fn begin_incremental(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<SnapshotKind>, TaskError> {
        let begun = self.begin_snapshot(checkpoint, context)?;
        Ok(begun.then_some(SnapshotKind::Full))
    }
    /// Writes as much of the snapshot that was begun as the slice (a number of bytes) allows, and appends full chunks to the slice.
    /// Returns true if the snapshot is complete. After a restore [`OperatorContext::snapshots`] returns its chunks, of which the host may
    /// have joined some; if it has only changes, behind those of the snapshots that it builds on.
    ///
    /// # Errors
    /// An error fails the task: the state cannot be written.
    #[doc(hidden)]
    fn write_snapshot(
        &mut self,
        _slice: &mut Slice<'_>,
        _context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        Ok(true)
    }
    /// Drops the snapshot that was begun and is not complete, because its checkpoint was aborted. Returns true if the operator does
    /// so: [`Operator::write_snapshot`] is not called again before the next snapshot begins. Returns false if the operator has
    /// to write it to its end, as by default.
    #[doc(hidden)]
    fn abort_snapshot(&mut self) -> bool {
        false
    }
    /// Returns the operator's encoded state at a barrier, after all records before it and [`Operator::event`]; `None`, as by default, if
    /// the operator has no state, and always unless [`Operator::HAS_STATE`] is true. Also called, and its result dropped, if the checkpoint
    /// was aborted before its barrier came.
    ///
    /// # Errors
    /// An error fails the task: the state cannot be written.
    fn snapshot(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(None)
    }
    /// Called when a checkpoint, or the savepoint of a stop, is complete in the whole job: what was prepared for it, or for an earlier
    /// one, may be committed. Not called for a savepoint after which the job continues. Does nothing by default.
    ///
    /// # Errors
    /// An error fails the task: what was prepared for the checkpoint cannot be committed.
    fn notify_complete(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }
    /// Returns true while the operator commits what [`Operator::notify_complete`] has released, for instance because a commit is under
    /// way or will be repeated. A task does not finish before. False by default.
    fn is_committing(&self) -> bool {
        false
    }
    /// Called once when the task finishes, after the end of input has gone through the chain; also where [`Operator::event`] was not called
    /// with that end, after a stop that is not drained or a restore at the end of the data. [`Operator::dispose`] is not called after it,
    /// even if it fails. Does nothing by default.
    ///
    /// # Errors
    /// An error fails the task.
    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }
    /// Releases the resources that only this attempt uses, such as its files. Called instead of `close` if the task was cancelled
    /// or has failed, also if `open` was not called; a panic here is logged and ignored. Does nothing by default.
    fn dispose(&mut self, _context: &OperatorContext) {}
}
