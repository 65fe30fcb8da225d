//! Operators: what happens to the records of a chain, a batch at a time.
//!
//! A chain is a row of boxed [`Consumer`]s, each linked to the next with its record type. One virtual call is
//! paid per batch and operator, none per record. Nothing here may block, spawn, or read a clock.

mod alarm;
mod assign;
mod broadcast;
mod connected;
mod context;
mod keyed;
mod keyed_process;
mod link;
mod metrics;
mod output;
mod process;
mod sides;
mod simple;
mod stateful_flat_map;
mod stateful_process;
#[cfg(test)]
mod tests;
mod timers;
mod windows;

pub use assign::AssignWatermarks;
pub(crate) use assign::{INTERVAL, INTERVAL_DEFAULT};
pub(crate) use broadcast::broadcast_state;
pub use broadcast::{
    BroadcastOperator, BroadcastProcessFunction, InspectBroadcast, KeyedBroadcastProcessFunction,
    Reading, TakesBroadcast,
};
pub use connected::{BothInputs, CoProcessFunction, Either, EitherKey, KeyedCoProcessFunction};
pub use context::{ChainShared, OperatorContext, OperatorMail};
pub(crate) use context::{milliseconds, split_ticket, ticket_of};
pub use keyed::{
    ByReference, ByValue, Count, Fold, Folding, KeySelector, Keyed, KeyedFold, Reduce, Sum,
    UpdateMode,
};
pub use keyed_process::{Context, InspectKeyed, KeyedOperator, KeyedProcessFunction};
pub use link::Link;
pub use metrics::{Counter, Gauge, Metrics};
pub use output::{BATCH_RECORDS, Collector};
pub use process::{Process, ProcessFunction};
pub(crate) use sides::side_output;
pub use sides::{OutputTag, SideOutput, SideOutputs};
pub use simple::{Filter, FlatMap, Inspect, Map, TryFilter, TryFlatMap, TryMap};
pub use stateful_flat_map::StatefulFlatMap;
pub use stateful_process::{InspectOperatorState, StatefulProcess, StatefulProcessFunction};
pub use timers::{TimeDomain, Timer, TimerService};
pub(crate) use windows::whole_ms;
pub use windows::{
    AggregateFunction, AggregateWindow, CountWindow, CountWindows, EventTimeAssigner,
    EventTimeSessionWindows, EventTimeWindows, FixedGap, GapOf, Lateness, ProcessWindow,
    ProcessingTimeSessionWindows, ProcessingTimeWindows, SessionGap, Slices,
    SlidingEventTimeWindows, SlidingProcessingTimeWindows, TimeWindow, TumblingEventTimeWindows,
    TumblingProcessingTimeWindows, WindowAssigner, WindowFolding, WindowFunction, WindowStore,
};

use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
};

/// What user code may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How far a control element got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Through the whole chain.
    Done,
    /// An output is full: hand the same event in again when it is not.
    More,
    /// An operator waits for mail: hand the same event in again after it came.
    Waiting,
}

/// What takes records: the rest of a chain.
pub trait Consumer<T>: Send {
    /// Opens from the last operator to this one.
    ///
    /// # Errors
    /// When an operator can't be opened.
    fn open(&mut self) -> Result<(), TaskError>;
    /// Takes all records; the batch comes back empty, with its capacity. Whether the chain takes more: nothing is full, and
    /// nothing was interrupted.
    ///
    /// # Errors
    /// When an operator fails; the task is over then.
    fn batch(&mut self, batch: &mut Batch<T>) -> Result<bool, TaskError>;
    /// Goes on with records that were handed in when the step was interrupted, as far as the step is not interrupted again
    /// and nothing is full.
    ///
    /// # Errors
    /// As [`Consumer::batch`].
    fn resume(&mut self) -> Result<(), TaskError>;
    /// Whether such records are left. No event is handed in meanwhile; records that are handed in wait.
    fn is_interrupted(&self) -> bool;
    /// Takes a control element, behind all records that came before. Where the answer is not
    /// [`Flow::Done`] the same event is handed in again before anything else.
    ///
    /// # Errors
    /// As [`Consumer::batch`].
    fn event(&mut self, event: StreamEvent) -> Result<Flow, TaskError>;
    /// Whether an output or sink of the chain takes nothing more for now. What is handed in nevertheless is kept.
    fn full(&self) -> bool;
    /// How many records should be handed in at once, so that not too much is kept when the chain gets full: few where
    /// records are large.
    fn most_at_once(&self) -> usize;
    /// Sends on what waits: full batches, with `partial` the others too. Whether nothing waits any more.
    ///
    /// # Errors
    /// As [`Consumer::batch`].
    fn flush(&mut self, partial: bool) -> Result<bool, TaskError>;
    /// Hands mail to the operator it is for.
    ///
    /// # Errors
    /// As [`Consumer::batch`].
    fn deliver(&mut self, to: model::NodeId, mail: OperatorMail) -> Result<(), TaskError>;
    /// A checkpoint is complete everywhere.
    ///
    /// # Errors
    /// As [`Consumer::batch`].
    fn notify_complete(&mut self, checkpoint: u64) -> Result<(), TaskError>;
    /// After the end of input went through.
    ///
    /// # Errors
    /// As [`Consumer::batch`].
    fn close(&mut self) -> Result<(), TaskError>;
    /// Instead of `close`, when cancelled or failed.
    fn dispose(&mut self);
}

/// One operator: how records become other records. [`Link`] makes a [`Consumer`] of it.
pub trait Operator<In>: Send {
    /// What goes out.
    type Out: Send + 'static;

    /// Before the first record.
    ///
    /// # Errors
    /// When it can't work.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }
    /// Works on a batch until it is empty, or the collector says that the step was interrupted: then it is called with the other
    /// records again.
    ///
    /// # Errors
    /// When the task must fail.
    fn process(
        &mut self,
        batch: &mut Batch<In>,
        out: &mut Collector<Self::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError>;
    /// Sees a control element before it goes on. Where the answer is not [`Flow::Done`], it is called again with
    /// the same event.
    ///
    /// # Errors
    /// When the task must fail.
    fn event(
        &mut self,
        _event: StreamEvent,
        _out: &mut Collector<Self::Out>,
        _context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        Ok(Flow::Done)
    }
    /// Mail for this operator.
    ///
    /// # Errors
    /// When the task must fail.
    fn mail(
        &mut self,
        _mail: OperatorMail,
        _out: &mut Collector<Self::Out>,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }
    /// Returns the bytes of memory that its state takes, timers included; `None`: it keeps none. REST shows the number as the metric
    /// `stateBytes` of the operator.
    fn state_bytes(&self) -> Option<u64> {
        None
    }
    /// Whether a control element goes on after [`Operator::event`] has seen it.
    fn passes(&self, _event: StreamEvent) -> bool {
        true
    }
    /// Whether it takes nothing more for now (a sink that waits for an answer).
    fn full(&self) -> bool {
        false
    }
    /// Its state at a barrier, after all records before it.
    ///
    /// # Errors
    /// When it can't be written.
    fn snapshot(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        Ok(None)
    }
    /// A checkpoint is complete everywhere.
    ///
    /// # Errors
    /// When what was prepared can't be committed.
    fn notify_complete(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        Ok(())
    }
    /// After the end of input.
    ///
    /// # Errors
    /// When the task must fail.
    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        Ok(())
    }
    /// Instead of `close`: what is private to the attempt goes.
    fn dispose(&mut self, _context: &OperatorContext) {}
}
