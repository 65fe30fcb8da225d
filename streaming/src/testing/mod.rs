//! Tests of one operator, function, source or sink, without a cluster. The test passes in records and watermarks, moves the clock, and
//! reads output, side outputs, state and timers. Everything but I/O runs on the thread of the test: a call returns when all that it has
//! caused is done.
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

pub(crate) mod gather;
mod harness;
mod host;
mod keyed;
mod sink;
mod source;

use crate::{
    operators::{
        BothInputs, BroadcastOperator, BroadcastProcessFunction, ByReference, ByValue,
        CoProcessFunction, Either, EitherKey, KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction, KeyedOperator, KeyedProcessFunction, Operator, Process,
        ProcessFunction, Reading, StatefulProcess, StatefulProcessFunction,
    },
    state::State,
    types::Key,
};
pub use harness::{HarnessBuilder, OperatorHarness};
#[cfg(test)]
pub(crate) use host::{Host, context};
pub use keyed::{KeyedTest, WindowedTest, key_by, key_by_value};
pub use sink::{SinkHarness, SinkHarnessBuilder, SinkSnapshot, sink};
pub use source::{SourceHarness, SourceHarnessBuilder, SourceSnapshot, source};

/// Prepares the test of a [`ProcessFunction`]. The function is not called before [`HarnessBuilder::open`].
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

/// Prepares the test of a [`StatefulProcessFunction`], whose state is empty unless [`HarnessBuilder::restore`] sets it.
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

/// Prepares the test of a [`KeyedProcessFunction`] on a stream whose key is a part of the record: `key` returns a reference to it.
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

/// Prepares the test of a [`KeyedProcessFunction`] on a stream whose key `key` computes from the record.
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

/// Prepares the test of a [`CoProcessFunction`]: [`OperatorHarness::push1`] passes in records of the first stream,
/// [`OperatorHarness::push2`] those of the second one.
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

/// Prepares the test of a [`KeyedCoProcessFunction`] whose keys are parts of the records: `key1` finds those of the first stream, whose
/// records [`OperatorHarness::push1`] passes in, `key2` those of the second one, for [`OperatorHarness::push2`].
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

/// Prepares the test of a [`BroadcastProcessFunction`]: [`OperatorHarness::push1`] passes in records of the first stream,
/// [`OperatorHarness::push2`] those of the broadcast stream.
///
/// ```
/// use streaming::{
///     operators::{BoxError, BroadcastProcessFunction, Collector},
///     testing,
/// };
///
/// /// Emits the numbers that are not on the list, and 0 at the end.
/// #[derive(Clone)]
/// struct NotListed;
///
/// impl BroadcastProcessFunction<u64, u64> for NotListed {
///     type Broadcast = Vec<u64>;
///     type Out = u64;
///     fn create_broadcast(&self) -> Vec<u64> {
///         Vec::new()
///     }
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
///     fn finish(&mut self, out: &mut Collector<u64>) -> Result<(), BoxError> {
///         out.collect(0);
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("the list is closed");
///     }
/// }
///
/// let mut test = testing::broadcast::<u64, u64, _>(NotListed).open()?;
/// test.push2(3)?;
/// test.push1(3)?;
/// test.push1(4)?;
/// assert_eq!((test.output(), test.broadcast_state()), (vec![4], &vec![3]));
/// test.end_of_input()?;
/// assert_eq!(test.output(), [0]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub fn broadcast<A, B, F>(function: F) -> BroadcastBuilder<A, B, F, F::Broadcast>
where
    A: Send + 'static,
    B: Send + 'static,
    F: BroadcastProcessFunction<A, B>,
{
    operator(BroadcastOperator::new(Process::new(Reading::new(function, F::create_broadcast))))
}

/// The keyed operator inside the operator of a [`KeyedBroadcastProcessFunction`].
type KeyedReading<A, B, K, S, F, V> = KeyedOperator<A, ByReference<S, K>, Reading<F, B, V>>;
/// The operator of a [`KeyedBroadcastProcessFunction`].
type KeyedBroadcast<A, B, K, S, F, V> = BroadcastOperator<KeyedReading<A, B, K, S, F, V>, A, B>;
/// The test of a [`KeyedBroadcastProcessFunction`] before it is opened.
type KeyedBroadcastBuilder<A, B, K, S, F, V> =
    HarnessBuilder<Either<A, B>, KeyedBroadcast<A, B, K, S, F, V>>;

/// Prepares the test of a [`KeyedBroadcastProcessFunction`] whose key is a part of the record: [`OperatorHarness::push1`] passes in
/// records of the keyed stream, [`OperatorHarness::push2`] those of the broadcast stream.
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
    let keyed = KeyedOperator::new(
        ByReference::new(key),
        Reading::new(function, F::create_broadcast),
        fields,
    );
    operator(BroadcastOperator::new(keyed))
}

/// Prepares the test of an operator of one's own, as [`Stream::transform`](crate::Stream::transform) adds it to a job. The operator
/// is not called before [`HarnessBuilder::open`].
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
    HarnessBuilder::new(operator)
}

#[cfg(test)]
mod tests;
