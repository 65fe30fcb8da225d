//! Keyed streams and the operations on them.

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
    types::{FlottType, Record, fingerprint, structure},
};
use std::{ops::AddAssign, rc::Rc};

/// A stream that is partitioned by key: all records of a key go to one subtask, and those of one producer keep their order. The subtask
/// follows from the key's hash. An operator on a keyed stream begins a chain.
///
/// [`KeyedStream::count`], [`KeyedStream::sum`], [`KeyedStream::reduce`] and [`KeyedStream::fold`] keep one value per key for as long
/// as the job runs, also in checkpoints: the state grows with the number of keys.
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

    /// Adds an operator of one's own, as [`Stream::transform`] does; all records of a key go to one of its subtasks. The operator gets
    /// no keyed state; [`KeyedStream::process`] runs a function with state.
    ///
    /// ```
    /// use std::collections::BTreeSet;
    /// use streaming::{
    ///     Stream, TaskError,
    ///     batch::Batch,
    ///     operators::{Collector, Operator, OperatorContext},
    /// };
    ///
    /// /// Lets the first record of each key through; what it has seen is lost with the task.
    /// #[derive(Default)]
    /// struct Distinct(BTreeSet<u64>);
    ///
    /// impl Operator<u64> for Distinct {
    ///     type Out = u64;
    ///     fn process(
    ///         &mut self,
    ///         batch: &mut Batch<u64>,
    ///         out: &mut Collector<u64>,
    ///         _context: &OperatorContext,
    ///     ) -> Result<(), TaskError> {
    ///         batch.try_each_while(|record, time| {
    ///             if self.0.insert(record) {
    ///                 out.push(record, time);
    ///             }
    ///             Ok(out.should_continue())
    ///         })
    ///     }
    /// }
    ///
    /// fn distinct(numbers: &Stream<u64>) -> Stream<u64> {
    ///     numbers.key_by(|n| n).transform("distinct", Distinct::default)
    /// }
    /// ```
    pub fn transform<Op>(
        &self,
        kind: impl Into<String>,
        make: impl FnMut() -> Op + Send + 'static,
    ) -> Stream<Op::Out>
    where
        Op: Operator<T> + 'static,
        Op::Out: Record,
    {
        self.add(OperatorSpec::of::<_, Op>(kind), make)
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

    /// Returns this stream with functions (count, sum, reduce, fold) that emit one value per key when bounded input ends, instead
    /// of one for every record: `words.key_by(|word| word).at_end().count()`.
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
        let states = of_key::<S::Key>(&KeyedFold::<T, S, F>::declare());
        let spec = OperatorSpec { kind: kind.to_owned(), states, ..OperatorSpec::default() };
        let selector = self.selector.clone();
        self.add(spec, move || KeyedFold::new(selector.clone(), folding.clone(), mode))
    }

    /// Emits `(key, count)` for every record, with its event time: how many records the key has had so far, this one included. The count
    /// of each key is kept, also in checkpoints, for as long as the job runs.
    pub fn count(&self) -> Stream<(S::Key, u64)> {
        self.folded("count", Count)
    }

    /// Emits `(key, sum)` for every record, with its event time: the sum of `number` over the key's records so far, made with `+=`. The sum
    /// of each key is kept, also in checkpoints, for as long as the job runs.
    ///
    /// ```
    /// use streaming::Stream;
    ///
    /// type Order = (String, u64);
    ///
    /// fn amounts(orders: &Stream<Order>) {
    ///     let by_customer = orders.key_by(|(customer, _)| customer);
    ///     by_customer.sum(|(_, amount)| *amount).print();
    ///     by_customer.reduce(|all, next| all.1 += next.1).print();
    ///     by_customer.fold(0_u64, |most, (_, amount)| *most = amount.max(*most)).print();
    ///     let last = by_customer.at_end();
    ///     last.sum(|(_, amount)| *amount).print();
    ///     last.reduce(|all, next| all.1 += next.1).print();
    ///     last.fold(0_u64, |most, (_, amount)| *most = amount.max(*most)).print();
    /// }
    /// ```
    pub fn sum<V, F>(&self, number: F) -> Stream<(S::Key, V)>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded("sum", Sum::new(number))
    }

    /// Merges each record into the kept record of its key by `merge(&mut kept, record)` and emits the kept record, once for every record
    /// and with that record's event time; a key's first record is kept and emitted as it is, and the kept record of each key stays for as
    /// long as the job runs, also in checkpoints: `orders.key_by(|o| &o.customer).reduce(|all, next| all.amount += next.amount)`.
    pub fn reduce<F>(&self, merge: F) -> Stream<T>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded("reduce", Reduce::new(merge))
    }

    /// Merges each record into the key's value by `merge(&mut value, record)`, and emits `(key, value)` for every record, with its event
    /// time. The value of a new key is a clone of `initial`, to which its first record is merged. The value of each key is kept, also in
    /// checkpoints, for as long as the job runs.
    pub fn fold<A, F>(&self, initial: A, merge: F) -> Stream<(S::Key, A)>
    where
        A: Record,
        F: FnMut(&mut A, T) + Clone + Send + 'static,
    {
        self.folded("fold", Fold::new(initial, merge))
    }

    /// Runs a function that keeps state and timers per key, see [`KeyedProcessFunction`]: it is called for every record and for every timer
    /// that is due. State and timers are in checkpoints; an error of the function fails the task.
    pub fn process<P: KeyedProcessFunction<S::Key, T>>(&self, function: P) -> Stream<P::Out> {
        self.process_with(P::State::declare(), function)
    }

    fn process_with<P>(&self, fields: Vec<StateDeclaration>, function: P) -> Stream<P::Out>
    where
        P: KeyedProcessFunction<S::Key, T>,
    {
        let states = of_key::<S::Key>(&fields);
        let kind = "keyed_process".to_owned();
        let spec = OperatorSpec { kind, states, ..OperatorSpec::default() };
        let selector = self.selector.clone();
        self.add(spec, move || {
            KeyedOperator::new(selector.clone(), function.clone(), copied(&fields))
        })
    }

    /// Runs a closure with one value of state per key. The closure is called for every record with the key, the record, the value and the
    /// output. The value is `None` at first; a key whose value is left `None` has no state. Records that the closure emits get the event
    /// time of the record; a panic of the closure fails the task. `state` names the state in checkpoints: a changed program that names it
    /// otherwise cannot be restored from them, or loses the state (`--allowNonRestoredState`).
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

/// Adds the schema of the key type `K` to declarations of state.
pub(super) fn of_key<K: FlottType>(fields: &[StateDeclaration]) -> Vec<StateDeclaration> {
    with_key(fields, &fingerprint::<K>(), &structure::<K>())
}

fn with_key(fields: &[StateDeclaration], schema: &str, structure: &str) -> Vec<StateDeclaration> {
    let mut fields = copied(fields);
    for field in &mut fields {
        field.schemas.insert("key".to_owned(), schema.to_owned());
        field.types.insert("key".to_owned(), structure.to_owned());
    }
    fields
}

/// Returns a copy. Copying declarations is much code, which programs need not compile for each operator.
pub(super) fn copied(fields: &[StateDeclaration]) -> Vec<StateDeclaration> {
    fields.to_vec()
}

/// Returns a factory of partitioners that send each record to the subtask of its key.
pub(super) fn partitioning<T: Record, S: KeySelector<T>>(selector: &S) -> Partitioning<T> {
    let selector = selector.clone();
    Rc::new(move || {
        let selector = selector.clone();
        Box::new(move |channels, key_groups| {
            Box::new(HashByKey::new(selector.clone(), channels, key_groups))
        })
    })
}

/// A keyed stream whose functions emit one value per key when the input ends, in no particular order and without event times; made by
/// [`KeyedStream::at_end`]. They emit nothing while unbounded input goes on, nor if the job is stopped with a savepoint and not drained.
#[derive(Clone)]
pub struct AtEnd<T, S> {
    keyed: KeyedStream<T, S>,
}

impl<T: Record, S: KeySelector<T>> AtEnd<T, S> {
    fn folded<F: Folding<S::Key, T>>(&self, kind: &str, folding: F) -> Stream<F::Out> {
        self.keyed.fold_with(kind, folding, UpdateMode::AtEnd)
    }

    /// Emits `(key, count)` for each key when bounded input ends, in no particular order and without an event time: how many records the
    /// key had. Emits nothing if the job is cancelled, or stopped with a savepoint and not drained.
    pub fn count(&self) -> Stream<(S::Key, u64)> {
        self.folded("count_at_end", Count)
    }

    /// Emits `(key, sum)` for each key when bounded input ends, in no particular order and without an event time: the sum of `number` over
    /// the key's records. Emits nothing if the job is cancelled, or stopped with a savepoint and not drained.
    pub fn sum<V, F>(&self, number: F) -> Stream<(S::Key, V)>
    where
        V: Record + AddAssign,
        F: FnMut(&T) -> V + Clone + Send + 'static,
    {
        self.folded("sum_at_end", Sum::new(number))
    }

    /// Merges the records of each key into one by `merge(&mut kept, record)`, as [`KeyedStream::reduce`] does, and emits that one, without
    /// the key and without an event time, when bounded input ends, in no particular order. Emits nothing if the job is cancelled, or
    /// stopped with a savepoint and not drained.
    pub fn reduce<F>(&self, merge: F) -> Stream<T>
    where
        F: FnMut(&mut T, T) + Clone + Send + 'static,
    {
        self.folded("reduce_at_end", Reduce::new(merge))
    }

    /// Merges the records of each key into a value by `merge(&mut value, record)`, and emits `(key, value)`, without an event time, when
    /// bounded input ends, in no particular order. The value of a key begins as a clone of `initial`. Emits nothing if the job is
    /// cancelled, or stopped with a savepoint and not drained.
    pub fn fold<A, F>(&self, initial: A, merge: F) -> Stream<(S::Key, A)>
    where
        A: Record,
        F: FnMut(&mut A, T) + Clone + Send + 'static,
    {
        self.folded("fold_at_end", Fold::new(initial, merge))
    }
}
