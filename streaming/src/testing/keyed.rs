//! Tests of the operators of keyed streams: folds, and windows with what is computed over them. The methods are named as those of
//! [`KeyedStream`](crate::api::KeyedStream) and [`WindowedStream`](crate::api::WindowedStream), and make the same operators.

use super::{HarnessBuilder, operator};
use crate::{
    operators::{
        AggregateFunction, AggregateWindow, ByReference, ByValue, Collector, Count, CountWindows,
        EventTimeAssigner, Fold, Folding, KeySelector, KeyedFold, KeyedOperator,
        KeyedProcessFunction, Lateness, OutputTag, ProcessWindow, Reduce, StatefulFlatMap, Sum,
        UpdateMode, WindowAssigner, WindowFolding, WindowFunction, whole_ms,
    },
    state::State,
    types::{FlottType, Key, Record},
};
use std::{marker::PhantomData, ops::AddAssign, time::Duration};

/// Prepares the test of an operator of a keyed stream whose key is a part of the record: `key` returns a reference to it. A method
/// of the result chooses the operator.
///
/// ```
/// use streaming::testing;
///
/// let mut test = testing::key_by(|word: &String| word).count().open()?;
/// for word in ["a", "b", "a"] {
///     test.push(word.to_owned())?;
/// }
/// let counts = [("a", 1), ("b", 1), ("a", 2)].map(|(word, n)| (word.to_owned(), n));
/// assert_eq!(test.output(), counts);
/// assert_eq!(test.state(&"a".to_owned()), Some(&2));
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub fn key_by<T, K, F>(key: F) -> KeyedTest<T, ByReference<F, K>>
where
    T: Send + 'static,
    K: Key,
    F: Fn(&T) -> &K + Clone + Send + 'static,
{
    KeyedTest::new(ByReference::new(key))
}

/// Prepares the test of an operator of a keyed stream whose key `key` computes from the record. A method of the result chooses the
/// operator.
///
/// ```
/// use streaming::testing;
///
/// let mut test = testing::key_by_value(|n: &u64| n % 2).at_end().sum(|n| *n).open()?;
/// for n in 1..=4 {
///     test.push(n)?;
/// }
/// assert_eq!(test.output(), []);
/// test.end_of_input()?;
/// let mut sums = test.output();
/// sums.sort();
/// assert_eq!(sums, [(0, 6), (1, 4)]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub fn key_by_value<T, K, F>(key: F) -> KeyedTest<T, ByValue<F, K>>
where
    T: Send + 'static,
    K: Key,
    F: Fn(&T) -> K + Clone + Send + 'static,
{
    KeyedTest::new(ByValue::new(key))
}

/// The test of a keyed stream before its operator is chosen; made by [`key_by`] and [`key_by_value`]. A method chooses the operator and
/// returns a [`HarnessBuilder`], whose `open` begins the test; several tests can be made of one value.
///
/// ```
/// use streaming::{
///     TaskError,
///     operators::{Collector, KeySelector},
///     testing::{self, KeyedTest},
/// };
///
/// /// Returns what the operators of a keyed stream make of the numbers 1, 2 and 4.
/// fn made<S: KeySelector<u64, Key = u64>>(keyed: &KeyedTest<u64, S>) -> Result<(), TaskError> {
///     let double = |_: &u64, n: u64, last: &mut Option<u64>, out: &mut Collector<u64>| {
///         out.collect(n + last.replace(n).unwrap_or(0));
///     };
///     let mut reduce = keyed.reduce(|all, next| *all += next).open()?;
///     let mut fold = keyed.fold(10, |all, next| *all += next).open()?;
///     let mut pairs = keyed.flat_map_with_state(double).open()?;
///     for n in [1, 2, 4] {
///         reduce.push(n)?;
///         fold.push(n)?;
///         pairs.push(n)?;
///     }
///     assert_eq!(reduce.output(), [1, 3, 7]);
///     assert_eq!(fold.output(), [(0, 11), (0, 13), (0, 17)]);
///     assert_eq!(pairs.output(), [1, 3, 6]);
///     Ok(())
/// }
/// # made(&testing::key_by_value(|_: &u64| 0))?;
/// # Ok::<(), TaskError>(())
/// ```
#[derive(Clone)]
pub struct KeyedTest<T, S> {
    selector: S,
    mode: UpdateMode,
    record: PhantomData<fn(T)>,
}

/// The test of a fold before it is opened.
type FoldBuilder<T, S, F> = HarnessBuilder<T, KeyedFold<T, S, F>>;
/// The test of a closure with one value of state per key before it is opened.
type StatefulBuilder<T, S, V, F, U> =
    HarnessBuilder<T, KeyedOperator<T, S, StatefulFlatMap<V, F, U>>>;

impl<T, S> KeyedTest<T, S> {
    fn new(selector: S) -> Self {
        Self { selector, mode: UpdateMode::EveryUpdate, record: PhantomData }
    }
}

impl<T: Send + 'static, S: KeySelector<T>> KeyedTest<T, S> {
    /// Returns the same test for folds (`count`, `sum`, `reduce`, `fold`) that emit one value per key at the end of input, instead of one
    /// for every record. Windows and the other operators ignore it.
    pub fn at_end(self) -> Self {
        Self { mode: UpdateMode::AtEnd, ..self }
    }
    fn folded<F: Folding<S::Key, T>>(&self, folding: F) -> FoldBuilder<T, S, F> {
        operator(KeyedFold::new(self.selector.clone(), folding, self.mode))
    }
    /// Prepares the test of [`KeyedStream::count`](crate::api::KeyedStream::count): `(key, count)` for every record, or after
    /// [`KeyedTest::at_end`] for every key at the end of input.
    pub fn count(&self) -> FoldBuilder<T, S, Count> {
        self.folded(Count)
    }
    /// Prepares the test of [`KeyedStream::sum`](crate::api::KeyedStream::sum): `(key, sum)` of `number` for every record, or after
    /// [`KeyedTest::at_end`] for every key at the end of input.
    pub fn sum<V, F>(&self, number: F) -> FoldBuilder<T, S, Sum<F, V>>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded(Sum::new(number))
    }
    /// Prepares the test of [`KeyedStream::reduce`](crate::api::KeyedStream::reduce): `merge(&mut kept, record)`, then the merged record of
    /// the key for every record, or after [`KeyedTest::at_end`] for every key at the end of input.
    pub fn reduce<F>(&self, merge: F) -> FoldBuilder<T, S, Reduce<F>>
    where
        T: Record,
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded(Reduce::new(merge))
    }
    /// Prepares the test of [`KeyedStream::fold`](crate::api::KeyedStream::fold): `merge(&mut value, record)`, then `(key, value)` for
    /// every record, or after [`KeyedTest::at_end`] for every key at the end of input.
    pub fn fold<A, F>(&self, initial: A, merge: F) -> FoldBuilder<T, S, Fold<A, F>>
    where
        A: Record,
        F: FnMut(&mut A, T) + Clone + Send + 'static,
    {
        self.folded(Fold::new(initial, merge))
    }
    /// Prepares the test of a [`KeyedProcessFunction`], as [`keyed`](super::keyed) does.
    pub fn process<F>(&self, function: F) -> HarnessBuilder<T, KeyedOperator<T, S, F>>
    where
        F: KeyedProcessFunction<S::Key, T>,
    {
        operator(KeyedOperator::new(self.selector.clone(), function, F::State::declare()))
    }
    /// Prepares the test of [`KeyedStream::flat_map_with_state`](crate::api::KeyedStream::flat_map_with_state): the closure is called for
    /// every record with the key, the record, the key's value of state and the output. The state is named `value` here, so that a snapshot
    /// of a job that names it otherwise is restored without this state.
    pub fn flat_map_with_state<V, U, F>(&self, function: F) -> StatefulBuilder<T, S, V, F, U>
    where
        V: FlottType,
        U: Record,
        F: FnMut(&S::Key, T, &mut Option<V>, &mut Collector<U>) + Clone + Send + 'static,
    {
        self.process(StatefulFlatMap::new(function))
    }
    /// Prepares the test of a computation over windows, which a method of the result chooses. For impossible windows, such as ones without
    /// length, [`HarnessBuilder::open`] fails, where building a program would.
    pub fn window<W: WindowAssigner<T>>(self, assigner: W) -> WindowedTest<T, S, W>
    where
        T: Record,
    {
        WindowedTest { selector: self.selector, assigner, lateness: 0.into() }
    }
    /// Prepares the test of a computation over windows of `records` records of a key; for 0 [`HarnessBuilder::open`] fails.
    pub fn count_window(self, records: u64) -> WindowedTest<T, S, CountWindows>
    where
        T: Record,
    {
        self.count_window_sliding(records, records)
    }
    /// Prepares the test of a computation over windows of the last `size` records of a key, at every `slide` records; if either is 0,
    /// [`HarnessBuilder::open`] fails.
    pub fn count_window_sliding(self, size: u64, slide: u64) -> WindowedTest<T, S, CountWindows>
    where
        T: Record,
    {
        self.window(CountWindows::of(size, slide))
    }
}

/// The test of windows before their computation is chosen; made by [`KeyedTest::window`], [`KeyedTest::count_window`] and
/// [`KeyedTest::count_window_sliding`]. A method chooses the computation and returns a [`HarnessBuilder`], whose `open` begins the test.
///
/// ```
/// use std::time::Duration;
/// use streaming::{
///     TaskError,
///     operators::{
///         BoxError, Collector, OutputTag, TimeWindow, TumblingEventTimeWindows, WindowFunction,
///     },
///     testing::{self, WindowedTest},
/// };
///
/// const LATE: OutputTag<(String, u64)> = OutputTag::new("late");
///
/// /// Emits the greatest price of each article, with the beginning of its window.
/// #[derive(Clone)]
/// struct Greatest;
///
/// impl WindowFunction<String, (String, u64)> for Greatest {
///     type Out = (String, i64, u64);
///     fn process(
///         &mut self,
///         article: &String,
///         window: TimeWindow,
///         prices: Vec<(String, u64)>,
///         out: &mut Collector<Self::Out>,
///     ) -> Result<(), BoxError> {
///         let greatest = prices.into_iter().map(|(_, price)| price).max();
///         out.collect((article.clone(), window.start(), greatest.unwrap_or(0)));
///         Ok(())
///     }
/// }
///
/// fn the_greatest_price_of_a_minute_is_emitted() -> Result<(), TaskError> {
///     let tea = |price| ("tea".to_owned(), price);
///     let minutes = TumblingEventTimeWindows::of(Duration::from_secs(60));
///     let windows: WindowedTest<_, _, _> =
///         testing::key_by(|(article, _): &(String, u64)| article).window(minutes);
///     let test = windows.side_output_late_data(&LATE).process(Greatest);
///     let mut test = test.side_output(&LATE).open()?;
///     test.push_at(tea(3), 60_000)?;
///     test.push_at(tea(5), 119_999)?;
///     test.watermark(119_998)?;
///     assert_eq!(test.output(), []);
///     test.watermark(119_999)?;
///     assert_eq!(test.timed_output(), [(("tea".to_owned(), 60_000, 5), Some(119_999))]);
///     test.push_at(tea(9), 60_001)?;
///     assert_eq!(test.side_output(&LATE)?, [tea(9)]);
///     Ok(())
/// }
/// # the_greatest_price_of_a_minute_is_emitted().unwrap();
/// ```
#[derive(Clone)]
pub struct WindowedTest<T, S, W> {
    selector: S,
    assigner: W,
    lateness: Lateness<T>,
}

impl<T, S, W: EventTimeAssigner> WindowedTest<T, S, W> {
    /// Keeps each window for late records until `lateness` after its end (0 by default, rounded down to whole milliseconds), as
    /// [`WindowedStream::allowed_lateness`](crate::api::WindowedStream::allowed_lateness) does.
    pub fn allowed_lateness(self, lateness: Duration) -> Self {
        Self { lateness: self.lateness.with_ms(whole_ms(lateness)), ..self }
    }
    /// Sends records that come too late to a side output instead of dropping and counting them. [`HarnessBuilder::side_output`] with the
    /// same tag keeps them for the test; without it they are dropped, and not counted either.
    pub fn side_output_late_data(self, tag: &OutputTag<T>) -> Self {
        Self { lateness: self.lateness.with_output(*tag), ..self }
    }
}

/// The test of a computation over windows before it is opened.
type WindowBuilder<T, S, W, F> = HarnessBuilder<T, <W as WindowAssigner<T>>::Operator<S, F>>;

impl<T: Record, S: KeySelector<T>, W: WindowAssigner<T>> WindowedTest<T, S, W> {
    fn folded<F: WindowFolding<S::Key, T>>(&self, folding: F) -> WindowBuilder<T, S, W, F> {
        let (selector, lateness) = (self.selector.clone(), self.lateness.clone());
        let made = operator(self.assigner.operator::<S, F>(selector, folding, lateness));
        made.mistaken(self.assigner.mistake())
    }
    /// Prepares the test of [`WindowedStream::count`](crate::api::WindowedStream::count): `(key, count)` for each key and window.
    pub fn count(&self) -> WindowBuilder<T, S, W, Count> {
        self.folded(Count)
    }
    /// Prepares the test of [`WindowedStream::sum`](crate::api::WindowedStream::sum): `(key, sum)` of `number` for each key and window.
    pub fn sum<V, F>(&self, number: F) -> WindowBuilder<T, S, W, Sum<F, V>>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded(Sum::new(number))
    }
    /// Prepares the test of [`WindowedStream::reduce`](crate::api::WindowedStream::reduce): the merged record of each key and window.
    pub fn reduce<F>(&self, merge: F) -> WindowBuilder<T, S, W, Reduce<F>>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded(Reduce::new(merge))
    }
    /// Prepares the test of an [`AggregateFunction`]: `(key, value)` for each key and window.
    pub fn aggregate<F>(&self, function: F) -> WindowBuilder<T, S, W, AggregateWindow<F>>
    where
        F: AggregateFunction<T>,
    {
        self.folded(AggregateWindow(function))
    }
    /// Prepares the test of a [`WindowFunction`], which is called with all records of each key and window.
    pub fn process<F>(&self, function: F) -> WindowBuilder<T, S, W, ProcessWindow<F>>
    where
        F: WindowFunction<S::Key, T>,
    {
        self.folded(ProcessWindow(function))
    }
}
