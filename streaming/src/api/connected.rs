//! Operators that read two streams with different record types.

use super::{
    KeyedStream, Stream,
    builder::OperatorSpec,
    inputs::Inputs,
    keyed::{copied, of_key, partitioning},
};
use crate::{
    batch::Batch,
    operators::{
        BothInputs, BroadcastOperator, BroadcastProcessFunction, CoProcessFunction, Collector,
        Either, EitherKey, KeySelector, KeyedBroadcastProcessFunction, KeyedCoProcessFunction,
        KeyedOperator, Operator, Process, Reading, broadcast_state, co_flat_map, co_map,
    },
    seam::ErasedBatch,
    state::State,
    types::{Key, Record},
};

/// Two streams with record types of their own, which one operator reads; made by [`Stream::connect`]. The methods add that
/// operator, which begins a chain, and return its output.
///
/// ```
/// use streaming::Environment;
///
/// fn both(env: &Environment) {
///     let numbers = env.from_collection([1_u64, 2]);
///     let words = env.from_collection(["one".to_owned(), "two".to_owned()]);
///     numbers.connect(&words).map(|number| number.to_string(), |word| word).print();
/// }
/// ```
#[derive(Clone)]
pub struct ConnectedStreams<A, B> {
    first: Stream<A>,
    second: Stream<B>,
}

/// Two streams that are partitioned by keys of one type, for one operator: records with equal keys, of either stream, go to the
/// same subtask; made by [`KeyedStream::connect`] or [`ConnectedStreams::key_by`].
///
/// ```
/// use streaming::{
///     Stream,
///     api::{BroadcastConnectedStream, ConnectedStreams, KeyedBroadcastConnectedStream},
///     operators::{KeyedBroadcastProcessFunction, KeyedCoProcessFunction},
/// };
///
/// type Order = (u64, u32);
/// type Name = (u64, String);
///
/// /// Runs functions of one's own on both streams.
/// fn together<F, G>(orders: &Stream<Order>, names: &Stream<Name>, function: F, rules: G)
/// where
///     F: KeyedCoProcessFunction<u64, Order, Name>,
///     G: KeyedBroadcastProcessFunction<u64, Order, Name>,
/// {
///     let both: ConnectedStreams<Order, Name> = orders.connect(names);
///     both.key_by(|(customer, _)| customer, |(customer, _)| customer).process(function);
///     let _all_names: BroadcastConnectedStream<Order, Name> = orders.connect_broadcast(names);
///     let of_customer: KeyedBroadcastConnectedStream<Order, _, Name> =
///         orders.key_by(|(customer, _)| customer).connect_broadcast(names);
///     of_customer.process(rules);
/// }
/// ```
#[derive(Clone)]
pub struct KeyedConnectedStreams<A, SA, B, SB> {
    first: KeyedStream<A, SA>,
    second: KeyedStream<B, SB>,
}

/// A stream, and a broadcast stream whose records go to every subtask of the operator that reads both; made by
/// [`Stream::connect_broadcast`]. [`BroadcastConnectedStream::process`] adds that operator.
#[derive(Clone)]
pub struct BroadcastConnectedStream<A, B> {
    first: Stream<A>,
    second: Stream<B>,
}

/// A keyed stream, and a broadcast stream whose records go to every subtask of the operator that reads both, while a keyed record goes to
/// the subtask of its key; made by [`KeyedStream::connect_broadcast`]. [`KeyedBroadcastConnectedStream::process`] adds that operator.
#[derive(Clone)]
pub struct KeyedBroadcastConnectedStream<A, S, B> {
    first: KeyedStream<A, S>,
    second: Stream<B>,
}

fn left<A: Send + 'static, B>(batch: ErasedBatch) -> Result<Batch<Either<A, B>>, ErasedBatch> {
    batch.downcast::<A>().map(|batch| batch.wrap(Either::Left))
}

fn right<A, B: Send + 'static>(batch: ErasedBatch) -> Result<Batch<Either<A, B>>, ErasedBatch> {
    batch.downcast::<B>().map(|batch| batch.wrap(Either::Right))
}

/// Returns both inputs as one, with records as [`Either`].
fn either<A: Record, B: Record>(first: Inputs<A>, second: Inputs<B>) -> Inputs<Either<A, B>> {
    first.wrapped(left).and(second.wrapped(right))
}

fn spec(kind: &str) -> OperatorSpec {
    OperatorSpec { kind: kind.to_owned(), ..OperatorSpec::default() }
}

impl<A: Record> Stream<A> {
    /// Connects this stream with another one, for one operator that reads both. Records that one subtask has emitted keep their order; the
    /// order of others to each other is undefined. The operator's watermark is the smaller one of both streams: if one stream has no
    /// watermarks and is not idle, the operator has none before that stream ends.
    pub fn connect<B: Record>(&self, other: &Stream<B>) -> ConnectedStreams<A, B> {
        ConnectedStreams { first: self.clone(), second: other.clone() }
    }

    /// Connects this stream with a broadcast one, such as rules: every record of `other` goes to every subtask of the operator that
    /// reads both. The operator's watermark is the smaller one of both streams: for timers and windows `other` needs watermarks
    /// too, or [`with_idleness`](crate::time::WatermarkStrategy::with_idleness).
    pub fn connect_broadcast<B: Record>(
        &self,
        other: &Stream<B>,
    ) -> BroadcastConnectedStream<A, B> {
        BroadcastConnectedStream { first: self.clone(), second: other.broadcast() }
    }
}

impl<A: Record, S: KeySelector<A>> KeyedStream<A, S> {
    /// Connects this stream with another keyed one, for one operator that reads both and keeps one state per key. The order between the
    /// streams is undefined. The operator's watermark is the smaller one of both streams; a stream that is idle does not count: if one
    /// stream has no watermarks and is not idle, the operator has none before that stream ends.
    pub fn connect<B: Record, SB: KeySelector<B, Key = S::Key>>(
        &self,
        other: &KeyedStream<B, SB>,
    ) -> KeyedConnectedStreams<A, S, B, SB> {
        KeyedConnectedStreams { first: self.clone(), second: other.clone() }
    }

    /// Connects this stream with a broadcast one, such as rules: every record of `other` goes to every subtask of the operator that
    /// reads both. The operator's watermark is the smaller one of both streams: for timers and windows `other` needs watermarks
    /// too, or [`with_idleness`](crate::time::WatermarkStrategy::with_idleness).
    pub fn connect_broadcast<B: Record>(
        &self,
        other: &Stream<B>,
    ) -> KeyedBroadcastConnectedStream<A, S, B> {
        KeyedBroadcastConnectedStream { first: self.clone(), second: other.broadcast() }
    }
}

impl<A: Record, B: Record> ConnectedStreams<A, B> {
    /// Converts every record with the function of its stream (`first` or `second`), which returns exactly one record for each; the new
    /// record gets the event time of the old one.
    pub fn map<U, F, G>(&self, first: F, second: G) -> Stream<U>
    where
        U: Record,
        F: FnMut(A) -> U + Clone + Send + 'static,
        G: FnMut(B) -> U + Clone + Send + 'static,
    {
        self.transform("co_map", move || co_map(first.clone(), second.clone()))
    }

    /// Replaces every record by those that the function of its stream (`first` or `second`) emits: none, one or several, with the event
    /// time of that record.
    ///
    /// ```
    /// use streaming::Stream;
    ///
    /// fn words(lines: &Stream<String>, numbers: &Stream<u64>) -> Stream<String> {
    ///     lines.connect(numbers).flat_map(
    ///         |line: String, out| out.collect_all(line.split_whitespace().map(str::to_owned)),
    ///         |number: u64, out| out.collect(number.to_string()),
    ///     )
    /// }
    /// ```
    pub fn flat_map<U, F, G>(&self, first: F, second: G) -> Stream<U>
    where
        U: Record,
        F: FnMut(A, &mut Collector<U>) + Clone + Send + 'static,
        G: FnMut(B, &mut Collector<U>) + Clone + Send + 'static,
    {
        self.transform("co_flat_map", move || co_flat_map(first.clone(), second.clone()))
    }

    /// Runs a function that is opened and closed and may fail; see [`CoProcessFunction`].
    ///
    /// ```
    /// use streaming::{
    ///     Stream,
    ///     operators::{BoxError, CoProcessFunction, Collector},
    /// };
    ///
    /// /// Lets texts through that are at most as long as the newest limit.
    /// #[derive(Clone, Default)]
    /// struct Shorter {
    ///     limit: usize,
    /// }
    ///
    /// impl CoProcessFunction<String, u32> for Shorter {
    ///     type Out = String;
    ///     fn process1(&mut self, text: String, out: &mut Collector<String>) -> Result<(), BoxError> {
    ///         if text.len() <= self.limit {
    ///             out.collect(text);
    ///         }
    ///         Ok(())
    ///     }
    ///     fn process2(&mut self, limit: u32, _: &mut Collector<String>) -> Result<(), BoxError> {
    ///         self.limit = usize::try_from(limit)?;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn shorter(texts: &Stream<String>, limits: &Stream<u32>) -> Stream<String> {
    ///     texts.connect(&limits.broadcast()).process(Shorter::default())
    /// }
    /// ```
    pub fn process<F: CoProcessFunction<A, B>>(&self, function: F) -> Stream<F::Out> {
        self.transform("co_process", move || Process::new(BothInputs(function.clone())))
    }

    /// Partitions both streams by keys of one type that are parts of the records; adds no operator; `first` and `second` return a reference
    /// to the key in a record of their stream. For computed keys write `first.key_by_value(…).connect(&second.key_by_value(…))`.
    pub fn key_by<K, F, G>(
        &self,
        first: F,
        second: G,
    ) -> KeyedConnectedStreams<
        A,
        impl KeySelector<A, Key = K> + use<A, B, K, F, G>,
        B,
        impl KeySelector<B, Key = K> + use<A, B, K, F, G>,
    >
    where
        K: Key,
        F: Fn(&A) -> &K + Clone + Send + 'static,
        G: Fn(&B) -> &K + Clone + Send + 'static,
    {
        self.first.key_by(first).connect(&self.second.key_by(second))
    }

    /// Adds an operator of one's own that reads both streams, as [`Stream::transform`] does for one. `make` makes the operator of
    /// each subtask, and `kind` is the operator's kind in the job graph.
    ///
    /// ```
    /// use streaming::{
    ///     Stream, TaskError,
    ///     batch::Batch,
    ///     operators::{Collector, Either, Operator, OperatorContext},
    /// };
    ///
    /// /// Emits numbers as they are, and the lengths of texts.
    /// struct Lengths;
    ///
    /// impl Operator<Either<u64, String>> for Lengths {
    ///     type Out = u64;
    ///     fn process(
    ///         &mut self,
    ///         batch: &mut Batch<Either<u64, String>>,
    ///         out: &mut Collector<u64>,
    ///         _context: &OperatorContext,
    ///     ) -> Result<(), TaskError> {
    ///         batch.try_each_while(|record, time| {
    ///             let length = match record {
    ///                 Either::Left(number) => number,
    ///                 Either::Right(text) => text.len() as u64,
    ///             };
    ///             out.push(length, time);
    ///             Ok(out.should_continue())
    ///         })
    ///     }
    /// }
    ///
    /// fn lengths(numbers: &Stream<u64>, texts: &Stream<String>) {
    ///     numbers.connect(texts).transform("lengths", || Lengths).print();
    ///     let (numbers, texts) =
    ///         (numbers.key_by(|n| n), texts.key_by_value(|text| text.len() as u64));
    ///     numbers.connect(&texts).transform("keyed_lengths", || Lengths).print();
    /// }
    /// ```
    pub fn transform<Op>(
        &self,
        kind: &str,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<Either<A, B>> + 'static,
        Op::Out: Record,
    {
        let env = &self.first.env;
        let inputs = either(Inputs::of(&self.first.above), Inputs::of(&self.second.above));
        let pending =
            env.builder.borrow_mut().add_operator(OperatorSpec::of::<_, Op>(kind), inputs, make);
        env.stream(pending)
    }
}

impl<A, SA, B, SB> KeyedConnectedStreams<A, SA, B, SB>
where
    A: Record,
    B: Record,
    SA: KeySelector<A>,
    SB: KeySelector<B, Key = SA::Key>,
{
    /// Runs a function that keeps state and timers per key, which both streams share; see [`KeyedCoProcessFunction`].
    ///
    /// ```
    /// use streaming::{
    ///     Stream,
    ///     api::{KeyedConnectedStreams, KeyedStream},
    ///     operators::{KeySelector, KeyedCoProcessFunction},
    /// };
    ///
    /// /// Runs a function on two streams of numbers with keys of their own.
    /// fn both<S, F>(left: &KeyedStream<u64, S>, right: &KeyedStream<u64, S>, function: F) -> Stream<F::Out>
    /// where
    ///     S: KeySelector<u64>,
    ///     F: KeyedCoProcessFunction<S::Key, u64, u64>,
    /// {
    ///     let connected: KeyedConnectedStreams<u64, S, u64, S> = left.connect(right);
    ///     connected.process(function)
    /// }
    /// ```
    pub fn process<F: KeyedCoProcessFunction<SA::Key, A, B>>(&self, function: F) -> Stream<F::Out> {
        let fields = F::State::declare();
        let mut spec = spec("keyed_co_process");
        spec.states = of_key::<SA::Key>(&fields);
        let key =
            EitherKey { left: self.first.selector.clone(), right: self.second.selector.clone() };
        self.add(spec, move || {
            KeyedOperator::new(key.clone(), BothInputs(function.clone()), copied(&fields))
        })
    }

    /// Adds an operator of one's own that reads both streams, as [`ConnectedStreams::transform`] does; all records of a key go to
    /// one of its subtasks. The operator gets no keyed state.
    pub fn transform<Op>(
        &self,
        kind: &str,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<Either<A, B>> + 'static,
        Op::Out: Record,
    {
        self.add(OperatorSpec::of::<_, Op>(kind), make)
    }

    fn add<Op>(
        &self,
        spec: OperatorSpec,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<Either<A, B>> + 'static,
        Op::Out: Record,
    {
        let env = &self.first.stream.env;
        let first = Inputs::by_key(&self.first.stream.above, &partitioning(&self.first.selector));
        let second =
            Inputs::by_key(&self.second.stream.above, &partitioning(&self.second.selector));
        let inputs = either(first, second);
        let pending = env.builder.borrow_mut().add_operator(spec, inputs, make);
        env.stream(pending)
    }
}

impl<A: Record, B: Record> BroadcastConnectedStream<A, B> {
    /// Runs a function over both streams. What it keeps of the broadcast stream is a copy in the memory of every subtask, and is in
    /// checkpoints once; see [`BroadcastProcessFunction`].
    ///
    /// ```
    /// use std::collections::BTreeSet;
    /// use streaming::{
    ///     Stream,
    ///     operators::{BoxError, BroadcastProcessFunction, Collector},
    /// };
    ///
    /// /// Drops the words that the broadcast stream names.
    /// #[derive(Clone)]
    /// struct Without;
    ///
    /// impl BroadcastProcessFunction<String, String> for Without {
    ///     type Broadcast = BTreeSet<String>;
    ///     type Out = String;
    ///     fn create_broadcast(&self) -> BTreeSet<String> {
    ///         BTreeSet::new()
    ///     }
    ///     fn process(
    ///         &mut self,
    ///         word: String,
    ///         stop: &BTreeSet<String>,
    ///         out: &mut Collector<String>,
    ///     ) -> Result<(), BoxError> {
    ///         if !stop.contains(&word) {
    ///             out.collect(word);
    ///         }
    ///         Ok(())
    ///     }
    ///     fn process_broadcast(
    ///         &mut self,
    ///         word: String,
    ///         stop: &mut BTreeSet<String>,
    ///         _out: &mut Collector<String>,
    ///     ) -> Result<(), BoxError> {
    ///         stop.insert(word);
    ///         Ok(())
    ///     }
    /// }
    ///
    /// fn without(words: &Stream<String>, stop_words: &Stream<String>) -> Stream<String> {
    ///     words.connect_broadcast(stop_words).process(Without)
    /// }
    /// ```
    pub fn process<F: BroadcastProcessFunction<A, B>>(&self, function: F) -> Stream<F::Out> {
        let mut spec = spec("broadcast_process");
        spec.states = vec![broadcast_state::<F::Broadcast>()];
        let env = &self.first.env;
        let inputs = either(Inputs::of(&self.first.above), Inputs::of(&self.second.above));
        let pending = env.builder.borrow_mut().add_operator(spec, inputs, move || {
            BroadcastOperator::new(Process::new(Reading::new(
                function.clone(),
                F::create_broadcast,
            )))
        });
        env.stream(pending)
    }
}

impl<A: Record, S: KeySelector<A>, B: Record> KeyedBroadcastConnectedStream<A, S, B> {
    /// Runs a function over both streams, which keeps state and timers per key. What it keeps of the broadcast stream is a copy in
    /// the memory of every subtask, and is in checkpoints once; see [`KeyedBroadcastProcessFunction`].
    pub fn process<F>(&self, function: F) -> Stream<F::Out>
    where
        F: KeyedBroadcastProcessFunction<S::Key, A, B>,
    {
        let fields = F::State::declare();
        let selector = self.first.selector.clone();
        let mut spec = spec("keyed_broadcast_process");
        spec.states = of_key::<S::Key>(&fields);
        spec.states.push(broadcast_state::<F::Broadcast>());
        let make = move || {
            let function = Reading::new(function.clone(), F::create_broadcast);
            let keyed = KeyedOperator::new(selector.clone(), function, copied(&fields));
            BroadcastOperator::<_, A, B>::new(keyed)
        };
        let env = &self.first.stream.env;
        let first = Inputs::by_key(&self.first.stream.above, &partitioning(&self.first.selector));
        let inputs = either(first, Inputs::of(&self.second.above));
        let pending = env.builder.borrow_mut().add_operator(spec, inputs, make);
        env.stream(pending)
    }
}
