//! Windows on keyed streams.

use super::{KeyedStream, Stream, builder::OperatorSpec, keyed::of_key};
use crate::{
    operators::{
        AggregateFunction, AggregateWindow, Count, CountWindows, EventTimeAssigner, KeySelector,
        Lateness, OutputTag, ProcessWindow, Reduce, Sum, WindowAssigner, WindowFolding,
        WindowFunction, whole_ms,
    },
    types::Record,
};
use std::{ops::AddAssign, time::Duration};

/// A keyed stream whose records are grouped into windows; made by [`KeyedStream::window`] or [`KeyedStream::count_window`]. Its functions
/// emit a window's result for each key that has records in it when the window ends. By default the allowed lateness is 0, and late records
/// are dropped and counted in the operator's metric `numLateRecordsDropped`.
///
/// A result of a window of time has the window's last millisecond as its event time.
///
/// ```
/// use std::time::Duration;
/// use streaming::{Environment, operators::TumblingEventTimeWindows, time::WatermarkStrategy};
///
/// fn clicks_per_minute(env: &Environment) {
///     let clicks = env.from_collection([(1_000_i64, 7_u64), (800, 8), (2_500, 7)]);
///     let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
///         Duration::from_secs(5),
///         |(at_ms, _user): &(i64, u64)| *at_ms,
///     );
///     clicks
///         .assign_timestamps_and_watermarks(strategy)
///         .key_by(|(_, user)| user)
///         .window(TumblingEventTimeWindows::of(Duration::from_secs(60)))
///         .allowed_lateness(Duration::from_secs(30))
///         .count()
///         .print();
/// }
/// ```
#[derive(Clone)]
pub struct WindowedStream<T, S, W> {
    keyed: KeyedStream<T, S>,
    assigner: W,
    lateness: Lateness<T>,
}

/// A stream whose records have keys. No type implements this trait: it carries the compiler's message for [`Stream::window`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a stream without keys has no windows",
    label = "not a keyed stream",
    note = "call `key_by(|record| &record.field)` or `key_by_value(|record| …)` before; `key_by_value(|_| ())` puts all records into the windows of one key, which one subtask processes"
)]
pub trait HasKeys {
    /// The result of grouping the records.
    type Windows;
    /// Groups the records.
    fn windows(&self) -> Self::Windows;
}

impl<T: Record> Stream<T> {
    /// Cannot be called: it makes the compiler say that [`Stream::key_by`] comes before [`KeyedStream::window`].
    #[doc(hidden)]
    pub fn window<W>(&self, _assigner: W) -> <Self as HasKeys>::Windows
    where
        Self: HasKeys,
    {
        self.windows()
    }
}

impl<T: Record, S: KeySelector<T>> KeyedStream<T, S> {
    /// Groups the records of each key into windows: `clicks.key_by(|c|
    /// &c.user).window(TumblingEventTimeWindows::of(Duration::from_secs(60))).count()`. The build fails if a size, slide or fixed gap is
    /// below 1 ms; a computed gap below 1 ms fails the task. A record without an event time in a window of event time fails the job, which
    /// is not restarted. A job that is to be restored with another size, slide or offset under the same uid is refused when it is
    /// submitted; with another session gap it is not: sessions that had begun keep the end that they have.
    pub fn window<W: WindowAssigner<T>>(&self, assigner: W) -> WindowedStream<T, S, W> {
        if let Some(mistake) = assigner.mistake() {
            self.stream.env.builder.borrow_mut().invalid(mistake);
        }
        WindowedStream { keyed: self.clone(), assigner, lateness: 0.into() }
    }

    /// Groups every `records` records of each key into a window, whatever their times. The build fails if `records` is 0. A result has
    /// the event time of the record that completed its window. A window that is incomplete when the input ends emits nothing. A restore
    /// with another number is not refused: the windows that had begun then have wrong numbers of records.
    ///
    /// ```
    /// use streaming::Environment;
    ///
    /// fn sums_of_four(env: &Environment) {
    ///     env.sequence(0..100).key_by_value(|n| n % 3).count_window(4).sum(|n| *n).print();
    /// }
    /// ```
    pub fn count_window(&self, records: u64) -> WindowedStream<T, S, CountWindows> {
        self.window(CountWindows::of(records, records))
    }

    /// Groups the last `size` records of each key into a window, at every `slide` records of the key. The first windows of a key have fewer
    /// than `size` records if `slide` is less than `size`; if it is greater, only the last `size` of every `slide` records are in a window,
    /// and those before them are dropped, also the key's first ones. A result has the event time of its window's last record; records after
    /// a key's last window emit nothing when the input ends. The build fails if either number is 0.
    ///
    /// ```
    /// use streaming::Environment;
    ///
    /// fn greatest_of_the_last_ten(env: &Environment) {
    ///     let keyed = env.sequence(0..100).key_by_value(|n| n % 3);
    ///     keyed.count_window_sliding(10, 2).reduce(|most, next| *most = next.max(*most)).print();
    /// }
    /// ```
    pub fn count_window_sliding(
        &self,
        size: u64,
        slide: u64,
    ) -> WindowedStream<T, S, CountWindows> {
        self.window(CountWindows::of(size, slide))
    }
}

impl<T, S, W> WindowedStream<T, S, W> {
    /// Keeps each window until the watermark is `lateness` beyond its end: 0 by default, rounded down to whole milliseconds. A record that
    /// arrives in that time makes the window emit its whole result for the record's key once more; a session that it extends beyond the
    /// watermark does so only at its new end. A record that arrives later is dropped, or goes to [`WindowedStream::side_output_late_data`].
    /// The state of windows grows with `lateness`.
    pub fn allowed_lateness(self, lateness: Duration) -> Self
    where
        W: EventTimeAssigner,
    {
        Self { lateness: self.lateness.with_ms(whole_ms(lateness)), ..self }
    }

    /// Sends the records that arrive too late for every window, with their event times, to a side output, instead of dropping and
    /// counting them; the last call counts. If nothing reads the side output, they are dropped without being counted. It is read from the
    /// stream of results:
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::{
    ///     Stream,
    ///     operators::{OutputTag, TumblingEventTimeWindows},
    /// };
    ///
    /// const LATE: OutputTag<(i64, u64)> = OutputTag::new("late");
    ///
    /// fn clicks_per_minute(clicks: &Stream<(i64, u64)>) {
    ///     let counts = clicks
    ///         .key_by(|(_, user)| user)
    ///         .window(TumblingEventTimeWindows::of(Duration::from_secs(60)))
    ///         .side_output_late_data(&LATE)
    ///         .count();
    ///     counts.print();
    ///     counts.side_output(&LATE).discard();
    /// }
    /// ```
    pub fn side_output_late_data(self, tag: &OutputTag<T>) -> Self
    where
        W: EventTimeAssigner,
    {
        Self { lateness: self.lateness.with_output(*tag), ..self }
    }
}

impl<T: Record, S: KeySelector<T>, W: WindowAssigner<T>> WindowedStream<T, S, W> {
    fn folded<F: WindowFolding<S::Key, T>>(&self, folding: F) -> Stream<F::Out> {
        let mut states = of_key::<S::Key>(&W::states::<S, F>());
        states.iter_mut().for_each(|state| state.settings = self.assigner.settings());
        let spec = OperatorSpec { kind: W::KIND.to_owned(), states, ..OperatorSpec::default() };
        let (selector, assigner) = (self.keyed.selector.clone(), self.assigner.clone());
        let lateness = self.lateness.clone();
        self.keyed.add(spec, move || {
            assigner.operator::<S, F>(selector.clone(), folding.clone(), lateness.clone())
        })
    }

    /// Emits `(key, count)` for each key and window when the window ends: how many records of the key the window has. Emits the new count
    /// again for each late record that the window still takes.
    pub fn count(&self) -> Stream<(S::Key, u64)> {
        self.folded(Count)
    }

    /// Emits `(key, sum)` for each key and window when the window ends: the sum of `number` over the window's records of the key, made with
    /// `+=`. Emits the new sum again for each late record that the window still takes.
    pub fn sum<V, F>(&self, number: F) -> Stream<(S::Key, V)>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded(Sum::new(number))
    }

    /// Merges the records of each key and window into one by `merge(&mut kept, record)`, and emits that one (without the key) when the
    /// window ends, and once more for each late record that the window still takes: `orders.reduce(|all, next| all.amount += next.amount)`.
    /// `merge` must be associative and commutative: the records of each pane (a part) of a sliding window, and of sessions that become one,
    /// are merged among themselves first.
    pub fn reduce<F>(&self, merge: F) -> Stream<T>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded(Reduce::new(merge))
    }

    /// Aggregates the records of each key and window in an accumulator, and emits `(key, value)` with the function's result when the window
    /// ends, and once more for each late record that the window still takes. [`AggregateFunction`] has an example of a function.
    ///
    /// ```
    /// use std::time::Duration;
    /// use streaming::{
    ///     Stream,
    ///     operators::{AggregateFunction, TumblingEventTimeWindows},
    /// };
    ///
    /// fn means<F: AggregateFunction<u64, Out = f64>>(numbers: &Stream<u64>, mean: F) {
    ///     let minutes = TumblingEventTimeWindows::of(Duration::from_secs(60));
    ///     numbers.key_by_value(|n| n % 3).window(minutes).aggregate(mean).print();
    /// }
    /// ```
    pub fn aggregate<F: AggregateFunction<T>>(&self, function: F) -> Stream<(S::Key, F::Out)> {
        self.folded(AggregateWindow(function))
    }

    /// Calls a function with all records of each key and window when the window ends, and once more for each late record that the window
    /// still takes, and emits what it collects. All records are kept until the window is discarded, also in checkpoints;
    /// [`WindowedStream::aggregate`] keeps accumulators instead.
    pub fn process<F: WindowFunction<S::Key, T>>(&self, function: F) -> Stream<F::Out> {
        self.folded(ProcessWindow(function))
    }
}
