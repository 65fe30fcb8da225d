//! Two streams of different records that one operator reads.

use super::{
    KeyedStream, Stream,
    builder::OperatorSpec,
    inputs::Inputs,
    keyed::{of_key, partitioning},
};
use crate::{
    batch::Batch,
    operators::{
        BothInputs, BroadcastOperator, BroadcastProcessFunction, CoProcessFunction, Collector,
        Either, EitherKey, FlatMap, KeySelector, KeyedBroadcastProcessFunction,
        KeyedCoProcessFunction, KeyedOperator, Map, Operator, Process, Reading, broadcast_state,
    },
    seam::ErasedBatch,
    state::State,
    types::{Key, Record},
};

/// Two streams that keep their types.
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

/// Two streams that are grouped by keys of one type: records of equal keys meet in one subtask.
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
/// /// Functions of one's own, given both streams in the three ways.
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

/// A stream, and one whose records go to all of its subtasks.
#[derive(Clone)]
pub struct BroadcastConnectedStream<A, B> {
    first: Stream<A>,
    second: Stream<B>,
}

/// A keyed stream, and one whose records go to all of its subtasks.
#[derive(Clone)]
pub struct KeyedBroadcastConnectedStream<A, S, B> {
    first: KeyedStream<A, S>,
    second: Stream<B>,
}

fn left<A: Send + 'static, B>(batch: ErasedBatch) -> Result<Batch<Either<A, B>>, ErasedBatch> {
    batch.downcast::<A>().map(|batch| batch.map(Either::Left))
}

fn right<A, B: Send + 'static>(batch: ErasedBatch) -> Result<Batch<Either<A, B>>, ErasedBatch> {
    batch.downcast::<B>().map(|batch| batch.map(Either::Right))
}

/// The records of both as one type.
fn either<A: Record, B: Record>(first: Inputs<A>, second: Inputs<B>) -> Inputs<Either<A, B>> {
    first.wrapped(left).and(second.wrapped(right))
}

fn spec(kind: &str) -> OperatorSpec {
    OperatorSpec { kind: kind.to_owned(), ..OperatorSpec::default() }
}

impl<A: Record> Stream<A> {
    /// Puts a stream of other records beside this one, for one operator that reads both. The records of each keep their
    /// order; which stream comes first is not known. Event time comes as far as the slower of both has: behind the operator
    /// there is none where one of them has no watermarks.
    pub fn connect<B: Record>(&self, other: &Stream<B>) -> ConnectedStreams<A, B> {
        ConnectedStreams { first: self.clone(), second: other.clone() }
    }

    /// Puts a stream beside this one whose records go to every subtask of the operator that reads both, such as rules. Event
    /// time comes as far as the slower of both has: for timers and windows rules need watermarks, too, or
    /// [`with_idleness`](crate::time::WatermarkStrategy::with_idleness).
    pub fn connect_broadcast<B: Record>(
        &self,
        other: &Stream<B>,
    ) -> BroadcastConnectedStream<A, B> {
        BroadcastConnectedStream { first: self.clone(), second: other.broadcast() }
    }
}

impl<A: Record, S: KeySelector<A>> KeyedStream<A, S> {
    /// Puts another keyed stream beside this one, for one operator that reads both with one state per key.
    pub fn connect<B: Record, SB: KeySelector<B, Key = S::Key>>(
        &self,
        other: &KeyedStream<B, SB>,
    ) -> KeyedConnectedStreams<A, S, B, SB> {
        KeyedConnectedStreams { first: self.clone(), second: other.clone() }
    }

    /// Puts a stream beside this one whose records go to every subtask of the operator that reads both, such as rules. Event
    /// time comes as far as the slower of both has: for timers and windows rules need watermarks, too, or
    /// [`with_idleness`](crate::time::WatermarkStrategy::with_idleness).
    pub fn connect_broadcast<B: Record>(
        &self,
        other: &Stream<B>,
    ) -> KeyedBroadcastConnectedStream<A, S, B> {
        KeyedBroadcastConnectedStream { first: self.clone(), second: other.broadcast() }
    }
}

impl<A: Record, B: Record> ConnectedStreams<A, B> {
    /// Every record becomes another, by the function of its stream.
    pub fn map<U, F, G>(&self, first: F, second: G) -> Stream<U>
    where
        U: Record,
        F: FnMut(A) -> U + Clone + Send + 'static,
        G: FnMut(B) -> U + Clone + Send + 'static,
    {
        self.transform("co_map", move || {
            let (mut first, mut second) = (first.clone(), second.clone());
            Map::new(move |record| match record {
                Either::Left(record) => first(record),
                Either::Right(record) => second(record),
            })
        })
    }

    /// Every record becomes any number of others, by the function of its stream.
    pub fn flat_map<U, F, G>(&self, first: F, second: G) -> Stream<U>
    where
        U: Record,
        F: FnMut(A, &mut Collector<U>) + Clone + Send + 'static,
        G: FnMut(B, &mut Collector<U>) + Clone + Send + 'static,
    {
        self.transform("co_flat_map", move || {
            let (mut first, mut second) = (first.clone(), second.clone());
            FlatMap::new(move |record, out: &mut Collector<U>| match record {
                Either::Left(record) => first(record, out),
                Either::Right(record) => second(record, out),
            })
        })
    }

    /// A function that is opened and closed and may fail.
    pub fn process<F: CoProcessFunction<A, B>>(&self, function: F) -> Stream<F::Out> {
        self.transform("co_process", move || Process::new(BothInputs(function.clone())))
    }

    /// Groups the records of both streams by keys of one type, which are parts of them; for computed keys,
    /// `first.key_by_value(…).connect(&second.key_by_value(…))`.
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

    /// As [`Stream::transform`]: an operator of one's own that reads both.
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
        let pending = env.builder.borrow_mut().add_operator(spec(kind), inputs, make);
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
    /// A function that keeps state per key, which both streams share.
    pub fn process<F: KeyedCoProcessFunction<SA::Key, A, B>>(&self, function: F) -> Stream<F::Out> {
        let fields = F::State::declare();
        let mut spec = spec("keyed_co_process");
        spec.states = of_key::<SA::Key>(fields.clone());
        let key =
            EitherKey { left: self.first.selector.clone(), right: self.second.selector.clone() };
        self.add(spec, move || {
            KeyedOperator::new(key.clone(), BothInputs(function.clone()), fields.clone())
        })
    }

    /// As [`Stream::transform`]: an operator of one's own that reads both, with all records of a key in one subtask.
    pub fn transform<Op>(
        &self,
        kind: &str,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<Either<A, B>> + 'static,
        Op::Out: Record,
    {
        self.add(spec(kind), make)
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
    /// A function that keeps what the broadcast stream brings, in every subtask.
    pub fn process<F: BroadcastProcessFunction<A, B>>(&self, function: F) -> Stream<F::Out> {
        let mut spec = spec("broadcast_process");
        spec.states = vec![broadcast_state::<F::Broadcast>()];
        let env = &self.first.env;
        let inputs = either(Inputs::of(&self.first.above), Inputs::of(&self.second.above));
        let pending = env.builder.borrow_mut().add_operator(spec, inputs, move || {
            BroadcastOperator::new(Process::new(Reading::new(function.clone())))
        });
        env.stream(pending)
    }
}

impl<A: Record, S: KeySelector<A>, B: Record> KeyedBroadcastConnectedStream<A, S, B> {
    /// A function that keeps state per key, and in every subtask what the broadcast stream brings.
    pub fn process<F>(&self, function: F) -> Stream<F::Out>
    where
        F: KeyedBroadcastProcessFunction<S::Key, A, B>,
    {
        let fields = F::State::declare();
        let selector = self.first.selector.clone();
        let make = {
            let fields = fields.clone();
            move || {
                let function = Reading::new(function.clone());
                let keyed = KeyedOperator::new(selector.clone(), function, fields.clone());
                BroadcastOperator::<_, A, B>::new(keyed)
            }
        };
        let mut spec = spec("keyed_broadcast_process");
        spec.states = of_key::<S::Key>(fields);
        spec.states.push(broadcast_state::<F::Broadcast>());
        let env = &self.first.stream.env;
        let first = Inputs::by_key(&self.first.stream.above, &partitioning(&self.first.selector));
        let inputs = either(first, Inputs::of(&self.second.above));
        let pending = env.builder.borrow_mut().add_operator(spec, inputs, make);
        env.stream(pending)
    }
}
