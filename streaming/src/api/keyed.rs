//! Keyed streams and what can be done with them.

use super::{
    Stream,
    builder::OperatorSpec,
    inputs::{Inputs, Partitioning},
};
use crate::{
    chain::HashByKey,
    operators::{
        Collector, Count, Fold, Folding, KeySelector, KeyedFold, KeyedOperator,
        KeyedProcessFunction, Operator, Reduce, StatefulFlatMap, Sum, UpdateMode,
    },
    state::{State, StateDeclaration},
    types::{FlottType, Record, fingerprint},
};
use std::{ops::AddAssign, rc::Rc};

/// A stream whose records are grouped by key: those of one key go to one subtask, in their order.
///
/// ```
/// use streaming::{Stream, api::{AtEnd, KeyedStream}, operators::KeySelector};
///
/// /// The number of records of each key, now and at the end.
/// fn counts<S: KeySelector<String, Key = String>>(words: &KeyedStream<String, S>) {
///     words.count().print();
///     let last: AtEnd<String, S> = words.at_end();
///     last.count().collect();
/// }
///
/// fn words(words: &Stream<String>) {
///     counts(&words.key_by(|word| word));
/// }
/// ```
#[derive(Clone)]
pub struct KeyedStream<T, S> {
    pub(super) stream: Stream<T>,
    pub(super) selector: S,
}

impl<T: Record, S: KeySelector<T>> KeyedStream<T, S> {
    pub(crate) fn new(stream: Stream<T>, selector: S) -> Self {
        Self { stream, selector }
    }

    /// As [`Stream::transform`]: an operator of one's own, with all records of a key in one subtask.
    pub fn transform<Op>(
        &self,
        kind: impl Into<String>,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        self.add(OperatorSpec { kind: kind.into(), ..OperatorSpec::default() }, make)
    }

    pub(super) fn add<Op>(
        &self,
        spec: OperatorSpec,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        let env = &self.stream.env;
        let inputs = Inputs::by_key(&self.stream.above, &partitioning(&self.selector));
        let pending = env.builder.borrow_mut().add_operator(spec, inputs, make);
        env.stream(pending)
    }

    /// Returns the same keys for functions that emit one value per key when bounded input ends, instead of one for every
    /// record: `words.key_by(|word| word).at_end().count()`.
    pub fn at_end(&self) -> AtEnd<T, S> {
        AtEnd { keyed: self.clone() }
    }

    fn folded<F: Folding<S::Key, T>>(&self, kind: &str, folding: F) -> Stream<F::Out> {
        self.fold_with(kind, folding, UpdateMode::EveryUpdate)
    }

    fn fold_with<F: Folding<S::Key, T>>(
        &self,
        kind: &str,
        folding: F,
        mode: UpdateMode,
    ) -> Stream<F::Out> {
        let states = of_key::<S::Key>(KeyedFold::<T, S, F>::declare());
        let spec = OperatorSpec { kind: kind.to_owned(), states, ..OperatorSpec::default() };
        let selector = self.selector.clone();
        self.add(spec, move || KeyedFold::new(selector.clone(), folding.clone(), mode))
    }

    /// How many records each key has had: `(key, count)`, for every record.
    pub fn count(&self) -> Stream<(S::Key, u64)> {
        self.folded("count", Count)
    }

    /// The sum of a number of each record: `(key, sum)`, for every record.
    pub fn sum<V, F>(&self, number: F) -> Stream<(S::Key, V)>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded("sum", Sum::new(number))
    }

    /// Merges each record into the one that is kept, and emits that, for every record:
    /// `orders.key_by(|o| &o.customer).reduce(|all, next| all.amount += next.amount)`.
    pub fn reduce<F>(&self, merge: F) -> Stream<T>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded("reduce", Reduce::new(merge))
    }

    /// Merges each record into a value that begins as `initial`: `(key, value)`, for every record.
    pub fn fold<A, F>(&self, initial: A, merge: F) -> Stream<(S::Key, A)>
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
        let kind = "keyed_process".to_owned();
        let spec = OperatorSpec { kind, states, ..OperatorSpec::default() };
        let selector = self.selector.clone();
        self.add(spec, move || {
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

/// What makes the partitioners of the producers of a keyed stream.
pub(super) fn partitioning<T: Record, S: KeySelector<T>>(selector: &S) -> Partitioning<T> {
    let selector = selector.clone();
    Rc::new(move || {
        let selector = selector.clone();
        Box::new(move |channels, key_groups| {
            Box::new(HashByKey::new(selector.clone(), channels, key_groups))
        })
    })
}

/// A keyed stream whose functions emit one value per key, when bounded input ends.
#[derive(Clone)]
pub struct AtEnd<T, S> {
    keyed: KeyedStream<T, S>,
}

impl<T: Record, S: KeySelector<T>> AtEnd<T, S> {
    fn folded<F: Folding<S::Key, T>>(&self, kind: &str, folding: F) -> Stream<F::Out> {
        self.keyed.fold_with(kind, folding, UpdateMode::AtEnd)
    }

    /// How many records each key has: `(key, count)`.
    pub fn count(&self) -> Stream<(S::Key, u64)> {
        self.folded("count_at_end", Count)
    }

    /// The sum of a number of each record: `(key, sum)`.
    pub fn sum<V, F>(&self, number: F) -> Stream<(S::Key, V)>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded("sum_at_end", Sum::new(number))
    }

    /// Merges the records of each key into one, as [`KeyedStream::reduce`] does.
    pub fn reduce<F>(&self, merge: F) -> Stream<T>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded("reduce_at_end", Reduce::new(merge))
    }

    /// Merges the records of each key into a value that begins as `initial`: `(key, value)`.
    pub fn fold<A, F>(&self, initial: A, merge: F) -> Stream<(S::Key, A)>
    where
        A: Record,
        F: FnMut(&mut A, T) + Clone + Send + 'static,
    {
        self.folded("fold_at_end", Fold::new(initial, merge))
    }
}
