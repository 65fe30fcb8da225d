//! Tests of one operator or function: records, watermarks and the clock go in by hand, and output, side outputs, state and
//! timers are looked at.
//!
//! ```
//! use streaming::{
//!     operators::{BoxError, Collector, Context, KeyedProcessFunction, Timer},
//!     testing,
//! };
//!
//! /// Emits the number of records of each key when event time has been quiet for 10 ms.
//! #[derive(Clone)]
//! struct Bursts;
//!
//! impl KeyedProcessFunction<String, String> for Bursts {
//!     type State = Option<u64>;
//!     type Out = (String, u64);
//!     fn process(
//!         &mut self,
//!         _word: String,
//!         count: &mut Option<u64>,
//!         ctx: &mut Context<'_, String>,
//!         _out: &mut Collector<(String, u64)>,
//!     ) -> Result<(), BoxError> {
//!         *count.get_or_insert(0) += 1;
//!         let at = ctx.timestamp().ok_or("a record without a time")?;
//!         ctx.timers().event_time(at + 10);
//!         Ok(())
//!     }
//!     fn on_timer(
//!         &mut self,
//!         _timer: Timer,
//!         count: &mut Option<u64>,
//!         ctx: &mut Context<'_, String>,
//!         out: &mut Collector<(String, u64)>,
//!     ) -> Result<(), BoxError> {
//!         if let Some(count) = count.take() {
//!             out.collect((ctx.key().clone(), count));
//!         }
//!         Ok(())
//!     }
//! }
//!
//! fn a_burst_is_counted() -> Result<(), streaming::TaskError> {
//!     let mut test = testing::keyed(|word: &String| word, Bursts).open()?;
//!     test.push_at("a".to_owned(), 100)?;
//!     test.push_at("a".to_owned(), 105)?;
//!     assert_eq!(test.state(&"a".to_owned()), Some(&Some(2)));
//!     assert_eq!(test.timers().len(), 2);
//!     test.watermark(109)?;
//!     assert_eq!(test.output(), []);
//!     test.watermark(110)?;
//!     assert_eq!(test.timed_output(), [(("a".to_owned(), 2), Some(110))]);
//!     Ok(())
//! }
//! # a_burst_is_counted().unwrap();
//! ```
//!
//! An operator here is driven as in a task, by the same link of a chain. This module must never be part of a running cluster.

mod gather;
mod host;
mod source;

use crate::{
    batch::{Batch, NO_TIME},
    operators::{
        BothInputs, BroadcastOperator, BroadcastProcessFunction, ByReference, ByValue,
        CoProcessFunction, Consumer, Either, EitherKey, Flow, InspectBroadcast, InspectKeyed,
        InspectOperatorState, KeyedBroadcastProcessFunction, KeyedCoProcessFunction, KeyedOperator,
        KeyedProcessFunction, Link, Operator, OutputTag, Process, ProcessFunction, Reading,
        SideOutput, SideOutputs, StatefulProcess, StatefulProcessFunction, Timer, side_output,
    },
    seam::{Barrier, Interrupt, StreamEvent, TaskError},
    state::State,
    types::{Key, Record},
};
use gather::{Gather, Gathered};
use host::Host;
#[cfg(test)]
pub(crate) use host::context;
pub use source::{SourceHarness, SourceHarnessBuilder, SourceSnapshot, source};
use std::{any::Any, collections::BTreeMap, sync::Arc};

/// Prepares the test of a function without keys.
pub fn process<T, F: ProcessFunction<T>>(function: F) -> HarnessBuilder<T, Process<F>> {
    operator(Process::new(function))
}

/// Prepares the test of a function with state of its subtask.
pub fn process_with_state<T, F>(function: F) -> HarnessBuilder<T, StatefulProcess<F, F::State>>
where
    T: Send + 'static,
    F: StatefulProcessFunction<T>,
{
    operator(StatefulProcess::new(function))
}

/// Prepares the test of a keyed function, whose key is a part of the record.
pub fn keyed<T, K, S, F>(
    key: S,
    function: F,
) -> HarnessBuilder<T, KeyedOperator<T, ByReference<S, K>, F>>
where
    T: Send + 'static,
    K: Key,
    S: Fn(&T) -> &K + Clone + Send + 'static,
    F: KeyedProcessFunction<K, T>,
{
    operator(KeyedOperator::new(ByReference::new(key), function, F::State::declare()))
}

/// Prepares the test of a keyed function, whose key is computed.
pub fn keyed_by_value<T, K, S, F>(
    key: S,
    function: F,
) -> HarnessBuilder<T, KeyedOperator<T, ByValue<S, K>, F>>
where
    T: Send + 'static,
    K: Key,
    S: Fn(&T) -> K + Clone + Send + 'static,
    F: KeyedProcessFunction<K, T>,
{
    operator(KeyedOperator::new(ByValue::new(key), function, F::State::declare()))
}

/// Prepares the test of a function of two inputs.
pub fn connected<A, B, F>(function: F) -> HarnessBuilder<Either<A, B>, Process<BothInputs<F>>>
where
    F: CoProcessFunction<A, B>,
{
    operator(Process::new(BothInputs(function)))
}

/// What finds the key of a record of either input, as a part of the record.
type KeyOfEither<K, S, R> = EitherKey<ByReference<S, K>, ByReference<R, K>>;
/// The operator of a keyed function of two inputs.
type KeyedConnected<A, B, K, S, R, F> =
    KeyedOperator<Either<A, B>, KeyOfEither<K, S, R>, BothInputs<F>>;
/// The test of a keyed function of two inputs, before it is open.
type KeyedConnectedBuilder<A, B, K, S, R, F> =
    HarnessBuilder<Either<A, B>, KeyedConnected<A, B, K, S, R, F>>;

/// Prepares the test of a keyed function of two inputs, whose keys are parts of the records.
pub fn keyed_connected<A, B, K, S, R, F>(
    key1: S,
    key2: R,
    function: F,
) -> KeyedConnectedBuilder<A, B, K, S, R, F>
where
    A: Send + 'static,
    B: Send + 'static,
    K: Key,
    S: Fn(&A) -> &K + Clone + Send + 'static,
    R: Fn(&B) -> &K + Clone + Send + 'static,
    F: KeyedCoProcessFunction<K, A, B>,
{
    let key = EitherKey { left: ByReference::new(key1), right: ByReference::new(key2) };
    operator(KeyedOperator::new(key, BothInputs(function), F::State::declare()))
}

/// The operator of a function with broadcast state.
type Broadcast<A, B, F, V> = BroadcastOperator<Process<Reading<F, B, V>>, A, B>;
/// The test of a function with broadcast state, before it is open.
type BroadcastBuilder<A, B, F, V> = HarnessBuilder<Either<A, B>, Broadcast<A, B, F, V>>;

/// Prepares the test of a function with broadcast state.
pub fn broadcast<A, B, F>(function: F) -> BroadcastBuilder<A, B, F, F::Broadcast>
where
    A: Send + 'static,
    B: Send + 'static,
    F: BroadcastProcessFunction<A, B>,
{
    operator(BroadcastOperator::new(Process::new(Reading::new(function))))
}

/// The keyed operator inside one with broadcast state.
type KeyedReading<A, B, K, S, F, V> = KeyedOperator<A, ByReference<S, K>, Reading<F, B, V>>;
/// The operator of a keyed function with broadcast state.
type KeyedBroadcast<A, B, K, S, F, V> = BroadcastOperator<KeyedReading<A, B, K, S, F, V>, A, B>;
/// The test of a keyed function with broadcast state, before it is open.
type KeyedBroadcastBuilder<A, B, K, S, F, V> =
    HarnessBuilder<Either<A, B>, KeyedBroadcast<A, B, K, S, F, V>>;

/// Prepares the test of a keyed function with broadcast state, whose key is a part of the record.
pub fn keyed_broadcast<A, B, K, S, F>(
    key: S,
    function: F,
) -> KeyedBroadcastBuilder<A, B, K, S, F, F::Broadcast>
where
    A: Send + 'static,
    B: Send + 'static,
    K: Key,
    S: Fn(&A) -> &K + Clone + Send + 'static,
    F: KeyedBroadcastProcessFunction<K, A, B>,
{
    let fields = F::State::declare();
    let keyed = KeyedOperator::new(ByReference::new(key), Reading::new(function), fields);
    operator(BroadcastOperator::new(keyed))
}

/// Prepares the test of an operator of one's own.
pub fn operator<T, Op: Operator<T>>(operator: Op) -> HarnessBuilder<T, Op> {
    HarnessBuilder {
        operator,
        place: (0, 1),
        restore: Vec::new(),
        options: BTreeMap::new(),
        sides: Vec::new(),
        gathered: BTreeMap::new(),
        interrupt: Interrupt::default(),
        record: std::marker::PhantomData,
    }
}

/// An operator before its test.
///
/// ```
/// use streaming::{
///     operators::{BoxError, CoProcessFunction, Collector},
///     testing::{self, HarnessBuilder, OperatorHarness},
/// };
///
/// /// Passes numbers on that are beyond the newest limit.
/// #[derive(Clone, Default)]
/// struct Beyond(u64);
///
/// impl CoProcessFunction<u64, u64> for Beyond {
///     type Out = u64;
///     fn process1(&mut self, number: u64, out: &mut Collector<u64>) -> Result<(), BoxError> {
///         if number > self.0 {
///             out.collect(number);
///         }
///         Ok(())
///     }
///     fn process2(&mut self, limit: u64, _: &mut Collector<u64>) -> Result<(), BoxError> {
///         self.0 = limit;
///         Ok(())
///     }
/// }
///
/// let builder: HarnessBuilder<_, _> = testing::connected(Beyond::default());
/// let mut test: OperatorHarness<_, _> = builder.interrupted().open()?;
/// test.push2(5)?;
/// test.push1(7)?;
/// test.push2_at(9, 1_000)?;
/// test.push1_at(8, 1_001)?;
/// test.watermark(1_001)?;
/// assert_eq!((test.output(), test.last_watermark()), (vec![7], Some(1_001)));
/// test.advance_clock_to(60_000)?;
/// test.end_of_input()?;
/// test.close()?;
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub struct HarnessBuilder<T, Op> {
    operator: Op,
    place: (u32, u32),
    restore: Vec<Vec<u8>>,
    options: BTreeMap<String, String>,
    sides: Vec<(&'static str, Box<dyn SideOutput>)>,
    gathered: BTreeMap<&'static str, Box<dyn Any + Send>>,
    interrupt: Interrupt,
    record: std::marker::PhantomData<fn(T)>,
}

impl<T: Send + 'static, Op: Operator<T>> HarnessBuilder<T, Op> {
    /// Makes it the subtask of that number, from 0, of so many.
    pub fn subtask(self, subtask: u32, of: u32) -> Self {
        Self { place: (subtask, of.max(1)), ..self }
    }
    /// Begins with snapshots that [`OperatorHarness::snapshot`] gave, of one subtask or of several.
    pub fn restore(self, snapshots: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { restore: snapshots.into_iter().collect(), ..self }
    }
    /// Sets an option of the job.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }
    /// Reads a side output; what goes to the others is dropped.
    pub fn side_output<U: Record>(mut self, tag: &OutputTag<U>) -> Self {
        let gathered = Gathered::<U>::default();
        self.sides.push((tag.name(), side_output(Box::new(Gather(gathered.clone())))));
        self.gathered.insert(tag.name(), Box::new(gathered));
        self
    }
    /// Ends every step of the operator behind its first record, as mail to the task would.
    pub fn interrupted(self) -> Self {
        self.interrupt.raise();
        self
    }
    /// Opens the operator.
    ///
    /// # Errors
    /// What the operator says, as when a snapshot is not its own.
    pub fn open(self) -> Result<OperatorHarness<T, Op>, TaskError> {
        let host = Arc::new(Host::default());
        let context = host::context(self.place, self.options, self.interrupt, host.clone());
        let context = context.restoring(self.restore);
        let output = Gathered::default();
        let next = Box::new(Gather(output.clone()));
        let sides = SideOutputs::new(self.sides);
        let shared = context.shared().clone();
        let mut link = Link::new(self.operator, next, sides, context);
        link.open()?;
        Ok(OperatorHarness { link, host, shared, output, sides: self.gathered, checkpoint: 0 })
    }
}

/// An operator in its test. Whatever is pushed is worked off before the call returns.
pub struct OperatorHarness<T, Op: Operator<T>> {
    link: Link<T, Op>,
    host: Arc<Host>,
    shared: Arc<crate::operators::ChainShared>,
    output: Gathered<Op::Out>,
    sides: BTreeMap<&'static str, Box<dyn Any + Send>>,
    checkpoint: u64,
}

impl<T: Send + 'static, Op: Operator<T>> OperatorHarness<T, Op> {
    /// Hands in a record without a time.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push(&mut self, record: T) -> Result<(), TaskError> {
        self.push_batch([(record, NO_TIME)])
    }
    /// Hands in a record with an event time, in milliseconds since 1970.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push_at(&mut self, record: T, timestamp: i64) -> Result<(), TaskError> {
        self.push_batch([(record, timestamp)])
    }
    /// Hands in records as one batch, each with its event time.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push_batch(
        &mut self,
        records: impl IntoIterator<Item = (T, i64)>,
    ) -> Result<(), TaskError> {
        let mut batch = Batch::default();
        records.into_iter().for_each(|(record, time)| batch.push(record, time));
        self.link.batch(&mut batch)?;
        self.work_off()
    }
    /// Hands in a watermark: no record with an event time of at most this many milliseconds follows.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn watermark(&mut self, ms: i64) -> Result<(), TaskError> {
        self.event(StreamEvent::Watermark(ms))
    }
    /// Moves the clock to so many milliseconds since 1970, from timer to timer. It begins at 0 and never goes back.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn advance_clock_to(&mut self, ms: u64) -> Result<(), TaskError> {
        while let Some(ticket) = self.host.next_timer(ms) {
            self.deliver(ticket)?;
        }
        self.host.set_clock(ms);
        Ok(())
    }
    /// Hands in the end of bounded input, behind the last watermark.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn end_of_input(&mut self) -> Result<(), TaskError> {
        self.watermark(i64::MAX)?;
        self.event(StreamEvent::EndOfInput)
    }
    /// Closes the operator, as after the end of input.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn close(mut self) -> Result<(), TaskError> {
        self.link.close()
    }
    /// Returns what was emitted since the last call.
    pub fn output(&mut self) -> Vec<Op::Out> {
        self.timed_output().into_iter().map(|(record, _)| record).collect()
    }
    /// Returns what was emitted since the last call, each record with its event time.
    pub fn timed_output(&mut self) -> Vec<(Op::Out, Option<i64>)> {
        self.output.take_records()
    }
    /// Returns the newest watermark that the operator let through or emitted.
    pub fn last_watermark(&self) -> Option<i64> {
        self.output.last_watermark()
    }
    /// Returns what was emitted to a side output since the last call.
    ///
    /// # Errors
    /// When the side output was not asked for before [`HarnessBuilder::open`].
    pub fn side_output<U: Record>(&mut self, tag: &OutputTag<U>) -> Result<Vec<U>, TaskError> {
        let found = self.sides.get(tag.name()).and_then(|side| side.downcast_ref::<Gathered<U>>());
        let gathered = found.ok_or_else(|| {
            let name = tag.name();
            TaskError::Deployment(format!(
                "side output '{name}' of {} is not read here: call side_output with its tag before open",
                U::type_name()
            ))
        })?;
        Ok(gathered.take_records().into_iter().map(|(record, _)| record).collect())
    }
    /// Returns the state as a checkpoint would hold it: nothing where the operator has none.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn snapshot(&mut self) -> Result<Vec<Vec<u8>>, TaskError> {
        self.checkpoint += 1;
        let checkpoint = self.checkpoint;
        self.event(StreamEvent::Barrier(Barrier { checkpoint, triggered_ms: 0, last: false }))?;
        Ok(self.shared.take_snapshots(checkpoint).into_iter().map(|(_, bytes)| bytes).collect())
    }

    fn event(&mut self, event: StreamEvent) -> Result<(), TaskError> {
        while self.link.event(event)? != Flow::Done {
            self.work_off()?;
        }
        self.work_off()
    }

    /// Goes on until nothing of what was pushed waits.
    fn work_off(&mut self) -> Result<(), TaskError> {
        loop {
            if let Some((ticket, result)) = self.host.next_reply() {
                self.link.deliver(host::NODE, host::reply(ticket, result))?;
            } else if self.link.is_interrupted() {
                self.link.resume()?;
            } else {
                return self.link.flush(true).map(drop);
            }
        }
    }

    fn deliver(&mut self, ticket: u64) -> Result<(), TaskError> {
        self.link.deliver(host::NODE, host::timer(ticket))?;
        self.work_off()
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectKeyed> OperatorHarness<T, Op> {
    /// Returns the state of a key; `None`: it has none.
    pub fn state(&self, key: &Op::Key) -> Option<&Op::State> {
        self.link.operator().state(key)
    }
    /// Returns the timers that are set, with their keys: those of event time first, each clock's in their order.
    pub fn timers(&self) -> Vec<(Op::Key, Timer)> {
        self.link.operator().timers()
    }
}

impl<A: Send + 'static, B: Send + 'static, Op> OperatorHarness<Either<A, B>, Op>
where
    Op: Operator<Either<A, B>>,
{
    /// Hands in a record of the first input without a time.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push1(&mut self, record: A) -> Result<(), TaskError> {
        self.push(Either::Left(record))
    }
    /// Hands in a record of the first input with an event time.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push1_at(&mut self, record: A, timestamp: i64) -> Result<(), TaskError> {
        self.push_at(Either::Left(record), timestamp)
    }
    /// Hands in a record of the second input, or of the broadcast stream, without a time.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push2(&mut self, record: B) -> Result<(), TaskError> {
        self.push(Either::Right(record))
    }
    /// Hands in a record of the second input, or of the broadcast stream, with an event time.
    ///
    /// # Errors
    /// What the operator fails with.
    pub fn push2_at(&mut self, record: B, timestamp: i64) -> Result<(), TaskError> {
        self.push_at(Either::Right(record), timestamp)
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectBroadcast> OperatorHarness<T, Op> {
    /// Returns the broadcast state.
    pub fn broadcast_state(&self) -> &Op::State {
        self.link.operator().broadcast_state()
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectOperatorState> OperatorHarness<T, Op> {
    /// Returns the state of the subtask, changeable because lists are read with `&mut`.
    pub fn operator_state(&mut self) -> &mut Op::State {
        self.link.operator_mut().operator_state()
    }
}

#[cfg(test)]
mod tests;
