//! Keyed streams and what can be done with them.

use super::{Stream, builder::OperatorSpec};
use crate::{
    chain::HashByKey,
    graph::draft::MakeHash,
    operators::{
        Collector, Count, Fold, Folding, KeySelector, KeyedFold, KeyedOperator,
        KeyedProcessFunction, Operator, Reduce, StatefulFlatMap, Sum, UpdateMode,
    },
    state::{State, StateDeclaration},
    types::{FlottType, Record, fingerprint},
};
use std::{
    ops::{AddAssign, Deref},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A stream whose records are grouped by key: those of one key go to one subtask, in their order.
#[derive(Clone)]
pub struct KeyedStream<T, S> {
    pub(super) stream: Stream<T>,
    pub(super) selector: S,
}

impl<T: Record, S: KeySelector<T>> KeyedStream<T, S> {
    pub(crate) fn new(stream: Stream<T>, selector: S) -> Self {
        Self { stream, selector }
    }

    pub(super) fn transform<Op>(
        &self,
        spec: OperatorSpec,
        operator: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        let selector = self.selector.clone();
        let hash = move || -> MakeHash<T> {
            let selector = selector.clone();
            Box::new(move |channels, key_groups| {
                Box::new(HashByKey::new(selector.clone(), channels, key_groups))
            })
        };
        let env = &self.stream.env;
        let mut builder = env.builder.borrow_mut();
        let pending = builder.add_operator(spec, &self.stream.above, Some(hash), operator);
        drop(builder);
        env.stream(pending)
    }

    fn folded<F: Folding<S::Key, T>>(&self, kind: &'static str, folding: F) -> Aggregated<F::Out> {
        let states = KeyedFold::<T, S, F>::declare();
        let at_end = Arc::new(AtomicBool::new(false));
        let (selector, mode) = (self.selector.clone(), at_end.clone());
        let spec =
            OperatorSpec { kind, states: of_key::<S::Key>(states), ..OperatorSpec::default() };
        let stream = self.transform(spec, move || {
            let mode = if mode.load(Ordering::Relaxed) {
                UpdateMode::AtEnd
            } else {
                UpdateMode::EveryUpdate
            };
            KeyedFold::new(selector.clone(), folding.clone(), mode)
        });
        Aggregated { stream, at_end }
    }

    /// How many records each key has had: `(key, count)`, for every record.
    pub fn count(&self) -> Aggregated<(S::Key, u64)> {
        self.folded("count", Count)
    }

    /// The sum of a number of each record: `(key, sum)`, for every record.
    pub fn sum<V, F>(&self, number: F) -> Aggregated<(S::Key, V)>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded("sum", Sum::new(number))
    }

    /// Merges each record into the one that is kept, and emits that, for every record:
    /// `orders.key_by(|o| &o.customer).reduce(|all, next| all.amount += next.amount)`.
    pub fn reduce<F>(&self, merge: F) -> Aggregated<T>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded("reduce", Reduce::new(merge))
    }

    /// Merges each record into a value that begins as `initial`: `(key, value)`, for every record.
    pub fn fold<A, F>(&self, initial: A, merge: F) -> Aggregated<(S::Key, A)>
    where
        A: Record,
        F: FnMut(&mut A, T) + Clone + Send + 'static,
    {
        self.folded("fold", Fold::new(initial, merge))
    }

    /// A function that keeps state per key.
    pub fn process<P: KeyedProcessFunction<S::Key, T>>(&self, function: P) -> Stream<P::Out> {
        self.process_with(P::State::declare(), function)
    }

    fn process_with<P>(&self, fields: Vec<StateDeclaration>, function: P) -> Stream<P::Out>
    where
        P: KeyedProcessFunction<S::Key, T>,
    {
        let states = of_key::<S::Key>(fields.clone());
        let spec = OperatorSpec { kind: "keyed_process", states, ..OperatorSpec::default() };
        let selector = self.selector.clone();
        self.transform(spec, move || {
            KeyedOperator::new(selector.clone(), function.clone(), fields.clone())
        })
    }

    /// A closure with one value of state per key: it is handed the key, the record, the value (`None` at first and
    /// whenever it was left so) and the output.
    pub fn flat_map_with_state<V, U, F>(&self, state: &str, function: F) -> Stream<U>
    where
        V: FlottType,
        U: Record,
        F: FnMut(&S::Key, T, &mut Option<V>, &mut Collector<U>) + Clone + Send + 'static,
    {
        let mut fields = <Option<V> as State>::declare();
        fields.iter_mut().for_each(|field| state.clone_into(&mut field.name));
        self.process_with(fields, StatefulFlatMap::new(function))
    }
}

/// The declarations of fields that are kept per key of that type.
pub(super) fn of_key<K: FlottType>(mut fields: Vec<StateDeclaration>) -> Vec<StateDeclaration> {
    for field in &mut fields {
        field.schemas.insert("key".to_owned(), fingerprint::<K>());
    }
    fields
}

/// The stream of an aggregation: a value for every update, unless [`Aggregated::at_end`] is asked for.
pub struct Aggregated<T> {
    stream: Stream<T>,
    at_end: Arc<AtomicBool>,
}

impl<T: Record> Aggregated<T> {
    /// One value per key, when bounded input ends.
    pub fn at_end(self) -> Stream<T> {
        self.at_end.store(true, Ordering::Relaxed);
        super::stream::set_on_node(&self.stream.env, self.stream.node, "at_end", |node| {
            node.kind.push_str("_at_end");
        });
        self.stream
    }

    /// A value for every update, as a plain stream.
    pub fn updates(self) -> Stream<T> {
        self.stream
    }

    /// As [`Stream::uid`].
    pub fn uid(self, uid: impl Into<String>) -> Self {
        Self { stream: self.stream.uid(uid), at_end: self.at_end }
    }
    /// As [`Stream::name`].
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { stream: self.stream.name(name), at_end: self.at_end }
    }
    /// As [`Stream::set_parallelism`].
    pub fn set_parallelism(self, parallelism: u32) -> Self {
        Self { stream: self.stream.set_parallelism(parallelism), at_end: self.at_end }
    }
    /// As [`Stream::slot_sharing_group`].
    pub fn slot_sharing_group(self, group: impl Into<String>) -> Self {
        Self { stream: self.stream.slot_sharing_group(group), at_end: self.at_end }
    }
}

impl<T> Deref for Aggregated<T> {
    type Target = Stream<T>;
    fn deref(&self) -> &Stream<T> {
        &self.stream
    }
}
