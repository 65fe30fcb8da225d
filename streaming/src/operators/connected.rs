//! Functions over two streams with different records.
//!
//! The head of the chain merges the records of both streams into one type ([`Either`]), so that an operator with two inputs is
//! an operator like any other: interruptions, resident keys and the order of records are handled in one place.

use super::{
    BoxError, Collector, Context, FlatMap, KeySelector, KeyedProcessFunction, Map, Operator,
    OperatorContext, ProcessFunction, Timer, process::lives_as,
};
use crate::{state::State, types::Record};

/// A record of one of two connected streams. Connecting streams wraps each record in an `Either`, so that one operator reads both as one
/// stream. An operator of one's own (`transform`) gets the `Either`, a function of the program the unwrapped record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Either<A, B> {
    /// A record of the first stream.
    Left(A),
    /// A record of the second stream.
    Right(B),
}

/// Creates the operator of a `map` over two streams: emits, for each record, the one that the function of its stream returns, with the same
/// event time.
pub(crate) fn co_map<A, B, U>(
    mut first: impl FnMut(A) -> U + Send + 'static,
    mut second: impl FnMut(B) -> U + Send + 'static,
) -> impl Operator<Either<A, B>, Out = U>
where
    A: Record,
    B: Record,
    U: Record,
{
    Map::new(move |record| match record {
        Either::Left(record) => first(record),
        Either::Right(record) => second(record),
    })
}

/// Creates the operator of a `flat_map` over two streams: calls the function of the record's stream, which emits any number of records,
/// with the event time of that record.
pub(crate) fn co_flat_map<A, B, U>(
    mut first: impl FnMut(A, &mut Collector<U>) + Send + 'static,
    mut second: impl FnMut(B, &mut Collector<U>) + Send + 'static,
) -> impl Operator<Either<A, B>, Out = U>
where
    A: Record,
    B: Record,
    U: Record,
{
    FlatMap::new(move |record, out: &mut Collector<U>| match record {
        Either::Left(record) => first(record, out),
        Either::Right(record) => second(record, out),
    })
}

/// A function over two streams without keys that is opened and closed and may fail. Each subtask works on its own clone, and what the clone
/// has in its fields is not in checkpoints: after a restart a fresh clone begins. The task calls `open`, then `process1` and `process2` for
/// the records, `finish` after the last record of both streams, and `close` at its end, however it ends. An error fails the task with
/// `TaskError::User`. Records that one producer has sent come in their order; those of several, and of the two streams, in any order.
///
/// ```
/// use streaming::{
///     operators::{BoxError, CoProcessFunction, Collector},
///     testing,
/// };
///
/// /// Emits, when both inputs have ended, how many numbers were above the limit that was the newest one then.
/// #[derive(Clone, Default)]
/// struct Above {
///     limit: u64,
///     above: u64,
/// }
///
/// impl CoProcessFunction<u64, u64> for Above {
///     type Out = u64;
///     fn process1(&mut self, number: u64, _: &mut Collector<u64>) -> Result<(), BoxError> {
///         self.above += u64::from(number > self.limit);
///         Ok(())
///     }
///     fn process2(&mut self, limit: u64, _: &mut Collector<u64>) -> Result<(), BoxError> {
///         self.limit = limit;
///         Ok(())
///     }
///     fn finish(&mut self, out: &mut Collector<u64>) -> Result<(), BoxError> {
///         out.collect(self.above);
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("the last limit was {}", self.limit);
///     }
/// }
///
/// let mut test = testing::connected(Above::default()).open()?;
/// test.push2(5)?;
/// test.push1(4)?;
/// test.push1(6)?;
/// test.end_of_input()?;
/// assert_eq!(test.output(), [1]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait CoProcessFunction<A, B>: Clone + Send + 'static {
    /// The type of the emitted records.
    type Out: Record;

    /// Called once per attempt in each subtask, before the first record of either stream. Answers to requests that are made with the
    /// context, such as `spawn_io`, do not reach the function. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task with `TaskError::User`.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record of the first stream. Records that it emits get the event time of `record`, unless it gives them another.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process1(&mut self, record: A, out: &mut Collector<Self::Out>) -> Result<(), BoxError>;
    /// Called for every record of the second stream. Records that it emits get the event time of `record`, unless it gives them another.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process2(&mut self, record: B, out: &mut Collector<Self::Out>) -> Result<(), BoxError>;
    /// Called after the last record of both inputs; may still emit records, without an event time unless it gives them one. Not called if
    /// the job is cancelled, fails, or is stopped with a savepoint and not drained, nor once more after a restore from a checkpoint in
    /// which the subtask had ended. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn finish(&mut self, _out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called once at the end of the task, also if it was cancelled or has failed, and then perhaps without `open` before it. By
    /// default does nothing.
    fn close(&mut self) {}
}

/// A function over two keyed streams that keeps state and timers per key, which both streams share. State and timers are in checkpoints.
/// Each subtask works on its own clone. The order between records of the two streams is undefined.
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, Context, KeyedCoProcessFunction, Timer},
///     testing,
/// };
///
/// /// Emits orders with the name of their product, and drops orders that come before the name or a day after it. The last record has no
/// /// name.
/// #[derive(Clone)]
/// struct WithNames;
///
/// impl KeyedCoProcessFunction<u64, (u64, u32), (u64, String)> for WithNames {
///     type State = Option<String>;
///     type Out = (String, u32);
///
///     fn process1(
///         &mut self,
///         (_product, pieces): (u64, u32),
///         name: &mut Option<String>,
///         _ctx: &mut Context<'_, u64>,
///         out: &mut Collector<(String, u32)>,
///     ) -> Result<(), BoxError> {
///         if let Some(name) = name {
///             out.collect((name.clone(), pieces));
///         }
///         Ok(())
///     }
///     fn process2(
///         &mut self,
///         (_product, new): (u64, String),
///         name: &mut Option<String>,
///         ctx: &mut Context<'_, u64>,
///         _out: &mut Collector<(String, u32)>,
///     ) -> Result<(), BoxError> {
///         *name = Some(new);
///         let at = ctx.timestamp().ok_or("a name without a time")?;
///         ctx.timers().event_time(at + 86_400_000);
///         Ok(())
///     }
///     fn on_timer(
///         &mut self,
///         _day: Timer,
///         name: &mut Option<String>,
///         _ctx: &mut Context<'_, u64>,
///         _out: &mut Collector<(String, u32)>,
///     ) -> Result<(), BoxError> {
///         *name = None;
///         Ok(())
///     }
///     fn finish(&mut self, out: &mut Collector<(String, u32)>) -> Result<(), BoxError> {
///         out.collect((String::new(), 0));
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("no more orders get names");
///     }
/// }
///
/// let keyed = |function| {
///     testing::keyed_connected(|(id, _): &(u64, u32)| id, |(id, _): &(u64, String)| id, function)
/// };
/// let mut test = keyed(WithNames).open()?;
/// test.push2_at((7, "tea".to_owned()), 1_000)?;
/// test.push1((7, 12))?;
/// test.watermark(86_401_000)?;
/// assert_eq!((test.output(), test.state(&7)), (vec![("tea".to_owned(), 12)], None));
/// test.end_of_input()?;
/// assert_eq!(test.output(), [(String::new(), 0)]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait KeyedCoProcessFunction<K, A, B>: Clone + Send + 'static {
    /// The state of one key: a struct with `#[derive(State)]`, or an `Option<V>` alone for a single value.
    type State: State;
    /// The type of the emitted records.
    type Out: Record;

    /// Called once per attempt in each subtask, after the state was restored and before the first record of either stream. Cannot reach
    /// state of keys. Answers to requests that are made with the context, such as `spawn_io`, do not reach the function. By default does
    /// nothing.
    ///
    /// # Errors
    /// A returned error fails the task with `TaskError::User`.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record of the first stream with the state of its key (an empty one if the key has none), which it changes in place.
    /// A key whose state is empty afterwards is removed; its timers stay. Records that it emits get the event time of `record`, unless it
    /// gives them another.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process1(
        &mut self,
        record: A,
        state: &mut Self::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called for every record of the second stream with the state of its key (an empty one if the key has none), which it changes in
    /// place. A key whose state is empty afterwards is removed; its timers stay. Records that it emits get the event time of `record`,
    /// unless it gives them another.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process2(
        &mut self,
        record: B,
        state: &mut Self::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called once for every timer that is due, with the state of its key, as [`KeyedProcessFunction::on_timer`] is: records that it emits
    /// get the moment of a timer of event time as their event time, and none for a timer of processing time. The watermark that fires
    /// timers of event time is the smaller one of the two streams, of which an idle one does not count. At the end of both bounded inputs
    /// all timers of event time fire, before `finish`; timers of processing time that are not due by then are dropped. By default does
    /// nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn on_timer(
        &mut self,
        _timer: Timer,
        _state: &mut Self::State,
        _ctx: &mut Context<'_, K>,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called after the last record of both inputs and the timers that fire there; cannot reach state of keys. May still emit records,
    /// without an event time unless it gives them one. Not called if the job is cancelled, fails, or is stopped with a savepoint and not
    /// drained, nor once more after a restore from a checkpoint in which the subtask had ended. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn finish(&mut self, _out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called once at the end of the task, also if it was cancelled or has failed, and then perhaps without `open` before it. By
    /// default does nothing.
    fn close(&mut self) {}
}

/// Turns a function over two streams (the field) into a function over one stream of [`Either`]: calls `process1` for `Left` and
/// `process2` for `Right`, and passes `open`, `on_timer`, `finish` and `close` on. `process` of two connected streams makes it.
#[derive(Debug, Clone)]
pub struct BothInputs<F>(pub F);

impl<A, B, F: CoProcessFunction<A, B>> ProcessFunction<Either<A, B>> for BothInputs<F> {
    type Out = F::Out;
    lives_as!(0);
    #[inline]
    fn process(
        &mut self,
        record: Either<A, B>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        match record {
            Either::Left(record) => self.0.process1(record, out),
            Either::Right(record) => self.0.process2(record, out),
        }
    }
}

impl<K, A, B, F> KeyedProcessFunction<K, Either<A, B>> for BothInputs<F>
where
    F: KeyedCoProcessFunction<K, A, B>,
{
    type State = F::State;
    type Out = F::Out;
    lives_as!(0);
    #[inline]
    fn process(
        &mut self,
        record: Either<A, B>,
        state: &mut F::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        match record {
            Either::Left(record) => self.0.process1(record, state, ctx, out),
            Either::Right(record) => self.0.process2(record, state, ctx, out),
        }
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        state: &mut F::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        self.0.on_timer(timer, state, ctx, out)
    }
}

/// The key selector of a stream of [`Either`], which uses the selector of the record's stream. The key is held beside every record: one
/// that is a part of its record is cloned, because nothing can be borrowed from two types at once.
#[derive(Debug, Clone)]
pub struct EitherKey<SA, SB> {
    /// The key selector of the first stream.
    pub left: SA,
    /// The key selector of the second stream.
    pub right: SB,
}

impl<A, B, SA, SB> KeySelector<Either<A, B>> for EitherKey<SA, SB>
where
    SA: KeySelector<A>,
    SB: KeySelector<B, Key = SA::Key>,
{
    type Key = SA::Key;
    type Held = SA::Key;
    const COMPUTES: bool = SA::COMPUTES || SB::COMPUTES;
    #[inline]
    fn hold(&self, record: &Either<A, B>) -> SA::Key {
        match record {
            Either::Left(record) => self.left.own(record, self.left.hold(record)),
            Either::Right(record) => self.right.own(record, self.right.hold(record)),
        }
    }
    #[inline]
    fn key<'a>(&self, _record: &'a Either<A, B>, held: &'a SA::Key) -> &'a SA::Key {
        held
    }
    #[inline]
    fn own(&self, _record: &Either<A, B>, held: SA::Key) -> SA::Key {
        held
    }
    #[inline]
    fn take(&self, _record: Either<A, B>, held: SA::Key) -> SA::Key {
        held
    }
}
