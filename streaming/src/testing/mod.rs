//! Tests of one operator, function or source. The test passes in records and watermarks, moves the clock, and reads output, side
//! outputs, state and timers.
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
//! The same link of a chain drives an operator here and in a task. This module must never be part of a running cluster.

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

/// Prepares the test of a [`ProcessFunction`].
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, OutputTag, ProcessFunction},
///     testing,
/// };
///
/// const ODD: OutputTag<u64> = OutputTag::new("odd");
///
/// /// Emits even numbers, and odd ones to a side output.
/// #[derive(Clone)]
/// struct Even;
///
/// impl ProcessFunction<u64> for Even {
///     type Out = u64;
///     fn process(&mut self, number: u64, out: &mut Collector<u64>) -> Result<(), BoxError> {
///         match number % 2 {
///             0 => out.collect(number),
///             _ => out.collect_to(&ODD, number),
///         }
///         Ok(())
///     }
/// }
///
/// let builder = testing::process(Even).subtask(1, 2).option("program.x", "y");
/// let mut test = builder.side_output(&ODD).open()?;
/// test.push(1)?;
/// test.push_batch([(2, 1_000), (3, 1_001)])?;
/// assert_eq!(test.output(), [2]);
/// assert_eq!(test.side_output(&ODD)?, [1, 3]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub fn process<T, F: ProcessFunction<T>>(function: F) -> HarnessBuilder<T, Process<F>> {
    operator(Process::new(function))
}

/// Prepares the test of a [`StatefulProcessFunction`].
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, StatefulProcessFunction},
///     state::{ListState, OperatorState},
///     testing,
/// };
///
/// /// Emits numbers in pairs.
/// #[derive(Clone)]
/// struct Pairs;
///
/// #[derive(OperatorState)]
/// # #[flott(crate = streaming)]
/// struct Half {
///     first: ListState<u64>,
/// }
///
/// impl StatefulProcessFunction<u64> for Pairs {
///     type State = Half;
///     type Out = (u64, u64);
///     fn process(
///         &mut self,
///         number: u64,
///         half: &mut Half,
///         out: &mut Collector<(u64, u64)>,
///     ) -> Result<(), BoxError> {
///         match half.first.take()?.pop() {
///             Some(first) => out.collect((first, number)),
///             None => half.first.push(number),
///         }
///         Ok(())
///     }
/// }
///
/// # fn test() -> Result<(), BoxError> {
/// let mut test = testing::process_with_state(Pairs).open()?;
/// test.push(1)?;
/// assert_eq!(test.operator_state().first.get()?, [1]);
///
/// let mut restored = testing::process_with_state(Pairs).restore(test.snapshot()?).open()?;
/// restored.push(2)?;
/// assert_eq!(restored.output(), [(1, 2)]);
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
pub fn process_with_state<T, F>(function: F) -> HarnessBuilder<T, StatefulProcess<F, F::State>>
where
    T: Send + 'static,
    F: StatefulProcessFunction<T>,
{
    operator(StatefulProcess::new(function))
}

/// Prepares the test of a [`KeyedProcessFunction`] whose key is a part of the record.
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

/// Prepares the test of a [`KeyedProcessFunction`] whose key is computed from the record.
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, Context, KeyedProcessFunction},
///     testing,
/// };
///
/// /// Emits the first word of each length.
/// #[derive(Clone)]
/// struct First;
///
/// impl KeyedProcessFunction<usize, String> for First {
///     type State = Option<bool>;
///     type Out = String;
///     fn process(
///         &mut self,
///         word: String,
///         seen: &mut Option<bool>,
///         _ctx: &mut Context<'_, usize>,
///         out: &mut Collector<String>,
///     ) -> Result<(), BoxError> {
///         if seen.replace(true).is_none() {
///             out.collect(word);
///         }
///         Ok(())
///     }
/// }
///
/// let mut test = testing::keyed_by_value(|word: &String| word.len(), First).open()?;
/// test.push("one".to_owned())?;
/// test.push("two".to_owned())?;
/// assert_eq!(test.output(), ["one"]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
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

/// Prepares the test of a [`CoProcessFunction`].
pub fn connected<A, B, F>(function: F) -> HarnessBuilder<Either<A, B>, Process<BothInputs<F>>>
where
    F: CoProcessFunction<A, B>,
{
    operator(Process::new(BothInputs(function)))
}

/// Finds the key of a record of either input, as a part of the record.
type KeyOfEither<K, S, R> = EitherKey<ByReference<S, K>, ByReference<R, K>>;
/// The operator of a [`KeyedCoProcessFunction`].
type KeyedConnected<A, B, K, S, R, F> =
    KeyedOperator<Either<A, B>, KeyOfEither<K, S, R>, BothInputs<F>>;
/// The test of a [`KeyedCoProcessFunction`] before it is opened.
type KeyedConnectedBuilder<A, B, K, S, R, F> =
    HarnessBuilder<Either<A, B>, KeyedConnected<A, B, K, S, R, F>>;

/// Prepares the test of a [`KeyedCoProcessFunction`] whose keys are parts of the records.
///
/// ```
/// use streaming::{
///     TaskError,
///     operators::{KeyedBroadcastProcessFunction, KeyedCoProcessFunction},
///     testing,
/// };
///
/// type Order = (u64, u32);
/// type Name = (u64, String);
///
/// /// Returns what a function emits for a product's name and an order of the product.
/// fn together<F>(function: F) -> Result<Vec<F::Out>, TaskError>
/// where
///     F: KeyedCoProcessFunction<u64, Order, Name>,
/// {
///     let builder = testing::keyed_connected(
///         |(product, _): &Order| product,
///         |(product, _): &Name| product,
///         function,
///     );
///     let mut test = builder.open()?;
///     test.push2((7, "pear".to_owned()))?;
///     test.push1((7, 12))?;
///     Ok(test.output())
/// }
/// ```
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

/// The operator of a [`BroadcastProcessFunction`].
type Broadcast<A, B, F, V> = BroadcastOperator<Process<Reading<F, B, V>>, A, B>;
/// The test of a [`BroadcastProcessFunction`] before it is opened.
type BroadcastBuilder<A, B, F, V> = HarnessBuilder<Either<A, B>, Broadcast<A, B, F, V>>;

/// Prepares the test of a [`BroadcastProcessFunction`].
///
/// ```
/// use streaming::{
///     operators::{BoxError, BroadcastProcessFunction, Collector},
///     testing,
/// };
///
/// /// Emits the numbers that are not on the list.
/// #[derive(Clone)]
/// struct NotListed;
///
/// impl BroadcastProcessFunction<u64, u64> for NotListed {
///     type Broadcast = Vec<u64>;
///     type Out = u64;
///     fn process(
///         &mut self,
///         number: u64,
///         list: &Vec<u64>,
///         out: &mut Collector<u64>,
///     ) -> Result<(), BoxError> {
///         if !list.contains(&number) {
///             out.collect(number);
///         }
///         Ok(())
///     }
///     fn process_broadcast(
///         &mut self,
///         number: u64,
///         list: &mut Vec<u64>,
///         _out: &mut Collector<u64>,
///     ) -> Result<(), BoxError> {
///         list.push(number);
///         Ok(())
///     }
/// }
///
/// let mut test = testing::broadcast::<u64, u64, _>(NotListed).open()?;
/// test.push2(3)?;
/// test.push1(3)?;
/// test.push1(4)?;
/// assert_eq!((test.output(), test.broadcast_state()), (vec![4], &vec![3]));
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub fn broadcast<A, B, F>(function: F) -> BroadcastBuilder<A, B, F, F::Broadcast>
where
    A: Send + 'static,
    B: Send + 'static,
    F: BroadcastProcessFunction<A, B>,
{
    operator(BroadcastOperator::new(Process::new(Reading::new(function))))
}

/// The keyed operator inside the operator of a [`KeyedBroadcastProcessFunction`].
type KeyedReading<A, B, K, S, F, V> = KeyedOperator<A, ByReference<S, K>, Reading<F, B, V>>;
/// The operator of a [`KeyedBroadcastProcessFunction`].
type KeyedBroadcast<A, B, K, S, F, V> = BroadcastOperator<KeyedReading<A, B, K, S, F, V>, A, B>;
/// The test of a [`KeyedBroadcastProcessFunction`] before it is opened.
type KeyedBroadcastBuilder<A, B, K, S, F, V> =
    HarnessBuilder<Either<A, B>, KeyedBroadcast<A, B, K, S, F, V>>;

/// Prepares the test of a [`KeyedBroadcastProcessFunction`] whose key is a part of the record.
///
/// ```
/// use streaming::{TaskError, operators::KeyedBroadcastProcessFunction, testing};
///
/// type Payment = (String, u64);
///
/// /// Returns what a function emits for a payment of 100 above the limit of its country.
/// fn above_limit<F>(function: F) -> Result<Vec<F::Out>, TaskError>
/// where
///     F: KeyedBroadcastProcessFunction<String, Payment, Payment>,
/// {
///     let builder = testing::keyed_broadcast(|(country, _): &Payment| country, function);
///     let mut test = builder.open()?;
///     test.push2(("se".to_owned(), 1_000))?;
///     test.push1(("se".to_owned(), 1_100))?;
///     Ok(test.output())
/// }
/// ```
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

/// Prepares the test of an operator of one's own, see [`Stream::transform`](crate::Stream::transform).
///
/// ```
/// use streaming::{operators::Map, testing};
///
/// let mut test = testing::operator(Map::new(|number: u64| number * 10)).open()?;
/// test.push(4)?;
/// assert_eq!(test.output(), [40]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
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

/// The test of an operator before it is opened: place, options, side outputs and snapshots.
///
/// ```
/// use streaming::{
///     operators::{BoxError, CoProcessFunction, Collector},
///     testing::{self, HarnessBuilder, OperatorHarness},
/// };
///
/// /// Lets numbers through that are above the newest limit.
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
    /// Makes the operator subtask number `subtask`, from 0, of `of` subtasks. By default it is the only one.
    pub fn subtask(self, subtask: u32, of: u32) -> Self {
        Self { place: (subtask, of.max(1)), ..self }
    }
    /// Restores the operator from snapshots of [`OperatorHarness::snapshot`], of one subtask or of several.
    pub fn restore(self, snapshots: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { restore: snapshots.into_iter().collect(), ..self }
    }
    /// Sets an option of the job, which the operator's context returns.
    pub fn option(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.insert(key.into(), value.into());
        self
    }
    /// Keeps the records of a side output for [`OperatorHarness::side_output`]. Records of other side outputs are dropped.
    pub fn side_output<U: Record>(mut self, tag: &OutputTag<U>) -> Self {
        let gathered = Gathered::<U>::default();
        self.sides.push((tag.name(), side_output(Box::new(Gather(gathered.clone())))));
        self.gathered.insert(tag.name(), Box::new(gathered));
        self
    }
    /// Interrupts every step of the operator behind its first record, as mail to the task does.
    pub fn interrupted(self) -> Self {
        self.interrupt.raise();
        self
    }
    /// Opens the operator and returns its test.
    ///
    /// # Errors
    /// Fails with the operator's own error, for example when a snapshot is not its own.
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

/// The opened test of an operator. Everything that is passed in is processed before the call returns.
pub struct OperatorHarness<T, Op: Operator<T>> {
    link: Link<T, Op>,
    host: Arc<Host>,
    shared: Arc<crate::operators::ChainShared>,
    output: Gathered<Op::Out>,
    sides: BTreeMap<&'static str, Box<dyn Any + Send>>,
    checkpoint: u64,
}

impl<T: Send + 'static, Op: Operator<T>> OperatorHarness<T, Op> {
    /// Passes in a record without an event time.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push(&mut self, record: T) -> Result<(), TaskError> {
        self.push_batch([(record, NO_TIME)])
    }
    /// Passes in a record with an event time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push_at(&mut self, record: T, timestamp: i64) -> Result<(), TaskError> {
        self.push_batch([(record, timestamp)])
    }
    /// Passes in records as one batch, each with its event time in milliseconds since 1970.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push_batch(
        &mut self,
        records: impl IntoIterator<Item = (T, i64)>,
    ) -> Result<(), TaskError> {
        let mut batch = Batch::default();
        records.into_iter().for_each(|(record, time)| batch.push(record, time));
        self.link.batch(&mut batch)?;
        self.work_off()
    }
    /// Passes in a watermark: no record with an event time of at most `ms` milliseconds follows.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn watermark(&mut self, ms: i64) -> Result<(), TaskError> {
        self.event(StreamEvent::Watermark(ms))
    }
    /// Moves the clock to `ms` milliseconds since 1970, and fires each timer that is due on the way. The clock begins at 0 and
    /// never goes back.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn advance_clock_to(&mut self, ms: u64) -> Result<(), TaskError> {
        while let Some(ticket) = self.host.next_timer(ms) {
            self.deliver(ticket)?;
        }
        self.host.set_clock(ms);
        Ok(())
    }
    /// Passes in the final watermark, then the end of bounded input.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn end_of_input(&mut self) -> Result<(), TaskError> {
        self.watermark(i64::MAX)?;
        self.event(StreamEvent::EndOfInput)
    }
    /// Closes the operator, as a task does after the end of input.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn close(mut self) -> Result<(), TaskError> {
        self.link.close()
    }
    /// Returns the records that were emitted since the last call, in their order.
    pub fn output(&mut self) -> Vec<Op::Out> {
        self.timed_output().into_iter().map(|(record, _)| record).collect()
    }
    /// Returns the records that were emitted since the last call, each with its event time in milliseconds since 1970; `None`: the
    /// record has no event time.
    pub fn timed_output(&mut self) -> Vec<(Op::Out, Option<i64>)> {
        self.output.take_records()
    }
    /// Returns the newest watermark that the operator let through or emitted; `None` before the first one.
    pub fn last_watermark(&self) -> Option<i64> {
        self.output.last_watermark()
    }
    /// Returns the records that were emitted to a side output since the last call, in their order.
    ///
    /// # Errors
    /// Fails when [`HarnessBuilder::side_output`] was not called with a tag of this name and record type.
    pub fn side_output<U: Record>(&mut self, tag: &OutputTag<U>) -> Result<Vec<U>, TaskError> {
        let found = self.sides.get(tag.name()).and_then(|side| side.downcast_ref::<Gathered<U>>());
        let gathered = found.ok_or_else(|| {
            let name = tag.name();
            TaskError::Deployment(format!(
                "side output '{name}' of {} is not kept: call HarnessBuilder::side_output with its tag before open",
                U::type_name()
            ))
        })?;
        Ok(gathered.take_records().into_iter().map(|(record, _)| record).collect())
    }
    /// Takes a checkpoint and returns the operator's snapshots in it; none if the operator has no state.
    ///
    /// # Errors
    /// Fails with the error of the operator.
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

    /// Processes replies and interrupted records until none waits.
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
    /// Returns the state of a key; `None` if the key has none.
    pub fn state(&self, key: &Op::Key) -> Option<&Op::State> {
        self.link.operator().state(key)
    }
    /// Returns the timers that are set, each with its key: those of event time first, and each clock's in the order of their
    /// moments.
    pub fn timers(&self) -> Vec<(Op::Key, Timer)> {
        self.link.operator().timers()
    }
}

impl<A: Send + 'static, B: Send + 'static, Op> OperatorHarness<Either<A, B>, Op>
where
    Op: Operator<Either<A, B>>,
{
    /// Passes in a record of the first input without an event time.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push1(&mut self, record: A) -> Result<(), TaskError> {
        self.push(Either::Left(record))
    }
    /// Passes in a record of the first input with an event time, in milliseconds since 1970.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push1_at(&mut self, record: A, timestamp: i64) -> Result<(), TaskError> {
        self.push_at(Either::Left(record), timestamp)
    }
    /// Passes in a record of the second input, or of the broadcast stream, without an event time.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push2(&mut self, record: B) -> Result<(), TaskError> {
        self.push(Either::Right(record))
    }
    /// Passes in a record of the second input, or of the broadcast stream, with an event time in milliseconds since 1970.
    ///
    /// # Errors
    /// Fails with the error of the operator.
    pub fn push2_at(&mut self, record: B, timestamp: i64) -> Result<(), TaskError> {
        self.push_at(Either::Right(record), timestamp)
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectBroadcast> OperatorHarness<T, Op> {
    /// Returns the broadcast state, which starts as its type's default.
    pub fn broadcast_state(&self) -> &Op::State {
        self.link.operator().broadcast_state()
    }
}

impl<T: Send + 'static, Op: Operator<T> + InspectOperatorState> OperatorHarness<T, Op> {
    /// Returns the state of the subtask. It is mutable because lists are read with `&mut`.
    pub fn operator_state(&mut self) -> &mut Op::State {
        self.link.operator_mut().operator_state()
    }
}

#[cfg(test)]
mod tests;
