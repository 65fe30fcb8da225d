//! Folding the records of a key into one value: count, sum, reduce, fold.

use super::{Collector, Flow, Operator, OperatorContext};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    state::{KeyGroups, States, Table, key_group, read_snapshot},
    types::{FlottType, Key, key_hash},
};
use hashbrown::hash_table::Entry;
use std::{marker::PhantomData, ops::AddAssign};

/// How the key of a record is found.
pub trait KeySelector<T>: Clone + Send + 'static {
    /// The key.
    type Key: Key;
    /// Looks at the record's key.
    fn with<R>(&self, record: &T, look: impl FnOnce(&Self::Key) -> R) -> R;
    /// The record's key, to keep.
    fn owned(&self, record: &T) -> Self::Key;
}

/// The key is a part of the record.
#[derive(Debug)]
pub struct ByReference<F, K> {
    function: F,
    key: PhantomData<fn() -> K>,
}

/// The key is computed from the record.
#[derive(Debug)]
pub struct ByValue<F, K> {
    function: F,
    key: PhantomData<fn() -> K>,
}

impl<F, K> ByReference<F, K> {
    /// With that function.
    pub fn new(function: F) -> Self {
        Self { function, key: PhantomData }
    }
}
impl<F, K> ByValue<F, K> {
    /// With that function.
    pub fn new(function: F) -> Self {
        Self { function, key: PhantomData }
    }
}
impl<F: Clone, K> Clone for ByReference<F, K> {
    fn clone(&self) -> Self {
        Self::new(self.function.clone())
    }
}
impl<F: Clone, K> Clone for ByValue<F, K> {
    fn clone(&self) -> Self {
        Self::new(self.function.clone())
    }
}

impl<T, K: Key, F: Fn(&T) -> &K + Clone + Send + 'static> KeySelector<T> for ByReference<F, K> {
    type Key = K;
    #[inline]
    fn with<R>(&self, record: &T, look: impl FnOnce(&K) -> R) -> R {
        look((self.function)(record))
    }
    #[inline]
    fn owned(&self, record: &T) -> K {
        (self.function)(record).clone()
    }
}

impl<T, K: Key, F: Fn(&T) -> K + Clone + Send + 'static> KeySelector<T> for ByValue<F, K> {
    type Key = K;
    #[inline]
    fn with<R>(&self, record: &T, look: impl FnOnce(&K) -> R) -> R {
        look(&(self.function)(record))
    }
    #[inline]
    fn owned(&self, record: &T) -> K {
        (self.function)(record)
    }
}

/// How records become one value per key.
pub trait Folding<K, T>: Clone + Send + 'static {
    /// What is kept per key.
    type Kept: FlottType;
    /// What goes out.
    type Out: FlottType;
    /// Of the key's first record.
    fn first(&mut self, record: T) -> Self::Kept;
    /// Adds another record.
    fn add(&mut self, kept: &mut Self::Kept, record: T);
    /// What goes out for an update.
    fn update(&self, key: &K, kept: &Self::Kept) -> Self::Out;
    /// What goes out at the end.
    fn last(&self, key: K, kept: Self::Kept) -> Self::Out;
}

/// How many records.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count;

impl<K: Key, T> Folding<K, T> for Count {
    type Kept = u64;
    type Out = (K, u64);
    #[inline]
    fn first(&mut self, _record: T) -> u64 {
        1
    }
    #[inline]
    fn add(&mut self, kept: &mut u64, _record: T) {
        *kept += 1;
    }
    #[inline]
    fn update(&self, key: &K, kept: &u64) -> (K, u64) {
        (key.clone(), *kept)
    }
    fn last(&self, key: K, kept: u64) -> (K, u64) {
        (key, kept)
    }
}

/// The sum of a number of each record.
#[derive(Debug)]
pub struct Sum<F, V> {
    function: F,
    value: PhantomData<fn() -> V>,
}

impl<F, V> Sum<F, V> {
    /// Of what that function finds.
    pub fn new(function: F) -> Self {
        Self { function, value: PhantomData }
    }
}
impl<F: Clone, V> Clone for Sum<F, V> {
    fn clone(&self) -> Self {
        Self::new(self.function.clone())
    }
}

impl<K, T, V, F> Folding<K, T> for Sum<F, V>
where
    K: Key,
    V: FlottType + AddAssign,
    F: FnMut(&T) -> V + Clone + Send + 'static,
{
    type Kept = V;
    type Out = (K, V);
    #[inline]
    fn first(&mut self, record: T) -> V {
        (self.function)(&record)
    }
    #[inline]
    fn add(&mut self, kept: &mut V, record: T) {
        *kept += (self.function)(&record);
    }
    #[inline]
    fn update(&self, key: &K, kept: &V) -> (K, V) {
        (key.clone(), kept.clone())
    }
    fn last(&self, key: K, kept: V) -> (K, V) {
        (key, kept)
    }
}

/// The records themselves, merged.
#[derive(Debug, Clone)]
pub struct Reduce<F> {
    function: F,
}

impl<F> Reduce<F> {
    /// With that function.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<K, T, F> Folding<K, T> for Reduce<F>
where
    T: FlottType,
    F: FnMut(&mut T, T) + Clone + Send + 'static,
{
    type Kept = T;
    type Out = T;
    #[inline]
    fn first(&mut self, record: T) -> T {
        record
    }
    #[inline]
    fn add(&mut self, kept: &mut T, record: T) {
        (self.function)(kept, record);
    }
    #[inline]
    fn update(&self, _key: &K, kept: &T) -> T {
        kept.clone()
    }
    fn last(&self, _key: K, kept: T) -> T {
        kept
    }
}

/// Any value, from an initial one.
#[derive(Debug, Clone)]
pub struct Fold<A, F> {
    initial: A,
    function: F,
}

impl<A, F> Fold<A, F> {
    /// From that value, with that function.
    pub fn new(initial: A, function: F) -> Self {
        Self { initial, function }
    }
}

impl<K, T, A, F> Folding<K, T> for Fold<A, F>
where
    K: Key,
    A: FlottType,
    F: FnMut(&mut A, T) + Clone + Send + 'static,
{
    type Kept = A;
    type Out = (K, A);
    #[inline]
    fn first(&mut self, record: T) -> A {
        let mut kept = self.initial.clone();
        (self.function)(&mut kept, record);
        kept
    }
    #[inline]
    fn add(&mut self, kept: &mut A, record: T) {
        (self.function)(kept, record);
    }
    #[inline]
    fn update(&self, key: &K, kept: &A) -> (K, A) {
        (key.clone(), kept.clone())
    }
    fn last(&self, key: K, kept: A) -> (K, A) {
        (key, kept)
    }
}

/// When a fold emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    /// For every record.
    EveryUpdate,
    /// Once per key, when bounded input ends.
    AtEnd,
}

/// Folds the records of each key.
pub struct KeyedFold<T, S: KeySelector<T>, F: Folding<S::Key, T>> {
    selector: S,
    folding: F,
    mode: UpdateMode,
    kept: Option<Table<S::Key, F::Kept>>,
    /// At the end: the entries of the group that is being emitted.
    ending: std::vec::IntoIter<(S::Key, F::Kept)>,
}

impl<T, S: KeySelector<T>, F: Folding<S::Key, T>> KeyedFold<T, S, F> {
    /// Empty.
    pub fn new(selector: S, folding: F, mode: UpdateMode) -> Self {
        Self { selector, folding, mode, kept: None, ending: Vec::new().into_iter() }
    }

    /// Names its state.
    pub fn visit(&mut self, states: &mut States<'_>) {
        states.table("fold", "value", &mut self.kept);
    }
}

impl<T: Send + 'static, S: KeySelector<T>, F: Folding<S::Key, T>> Operator<T>
    for KeyedFold<T, S, F>
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        open_states(context, |states| self.visit(states))
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Some(table) = &mut self.kept else {
            return Err(TaskError::Deployment(format!("'{}' was not opened", context.name())));
        };
        let max_parallelism = table.key_groups().max_parallelism;
        batch.try_each_while(|record, time| {
            out.set_time(time);
            let place = self.selector.with(&record, |key| {
                let hash = key_hash(key);
                let at = crate::state::KeyAddress { hash, group: key_group(hash, max_parallelism) };
                table.place(at, |(k, _)| k == key)
            });
            let entry = match place.map_err(|error| TaskError::Deployment(error.to_string()))? {
                Entry::Occupied(mut entry) => {
                    self.folding.add(&mut entry.get_mut().1, record);
                    entry
                }
                Entry::Vacant(entry) => {
                    let key = self.selector.owned(&record);
                    entry.insert((key, self.folding.first(record)))
                }
            };
            if self.mode == UpdateMode::EveryUpdate {
                let (key, kept) = entry.get();
                out.collect(self.folding.update(key, kept));
            }
            Ok(out.goes_on())
        })
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<F::Out>,
        _context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event != StreamEvent::EndOfInput || self.mode != UpdateMode::AtEnd {
            return Ok(Flow::Done);
        }
        // A whole state can be large: stop where the output is full, go on where it stopped.
        loop {
            for (key, kept) in self.ending.by_ref() {
                out.collect(self.folding.last(key, kept));
                if !out.goes_on() {
                    return Ok(Flow::More);
                }
            }
            match self.kept.as_mut().and_then(Table::take_group) {
                Some(group) => self.ending = group.into_iter(),
                None => return Ok(Flow::Done),
            }
        }
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let mut states = States::write();
        self.visit(&mut states);
        states.written().map(Some).map_err(|error| context.codec_error(error))
    }
}

/// Opens the states of an operator, with what its context restores.
pub(super) fn open_states(
    context: &OperatorContext,
    visit: impl FnOnce(&mut States<'_>),
) -> Result<(), TaskError> {
    let groups =
        KeyGroups::of_subtask(context.subtask(), context.parallelism(), context.max_parallelism());
    let mut restored = Vec::new();
    for snapshot in context.restore() {
        restored.extend(read_snapshot(snapshot).map_err(|error| context.codec_error(error))?);
    }
    let mut states = States::open(groups, &restored);
    visit(&mut states);
    states.opened().map_err(|error| context.codec_error(error))
}
