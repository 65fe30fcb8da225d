//! Foldings: how records become one value per key.

use super::{KeySelector, selector::Keyed};
use crate::types::{FlottType, Key, Record};
use std::{marker::PhantomData, ops::AddAssign};

/// A folding of the records of a key into one value, which [`KeyedFold`](super::KeyedFold) keeps and emits: a count, a sum, a reduction.
/// `first` makes the value of a key's first record. Where every record emits, `emit` follows it, and `update` serves each later record; at
/// the end of input (`at_end()`) and in windows `add` serves the later records, and `last` emits. Each subtask works on its own clone. A
/// folding cannot return an error; a panic fails the task.
pub trait Folding<K, T>: Clone + Send + 'static {
    /// The value that is kept per key and written to checkpoints.
    type Kept: FlottType;
    /// The type of the emitted records.
    type Out: Record;
    /// Returns the value to keep for a key, or for its part of a window, that has had no record before `record`; `record` counts in it.
    fn first(&mut self, record: T) -> Self::Kept;
    /// Adds another record to the kept value of its key. Called where not every record emits: with `at_end()`, and in windows.
    fn add(&mut self, kept: &mut Self::Kept, record: T);
    /// Adds another record to the kept value and returns what to emit for it; called instead of [`Folding::add`] where every record emits,
    /// for all records of a key but its first one. The key is taken from the record, so that a record that is its own key is moved, not
    /// cloned.
    fn update<S>(&mut self, kept: &mut Self::Kept, record: Keyed<'_, T, S>) -> Self::Out
    where
        S: KeySelector<T, Key = K>;
    /// Returns what to emit for the kept value of a key; changes nothing. Called for a key's first record where every record emits,
    /// after [`Folding::first`]; [`Folding::update`] serves the records after it.
    fn emit(&self, key: &K, kept: &Self::Kept) -> Self::Out;
    /// Returns what to emit for a key at the end of input, or for a key of a window that fires: key and kept value are not needed any more.
    fn last(&self, key: K, kept: Self::Kept) -> Self::Out;
}

/// The folding of `count`: counts the records of each key and emits `(key, count)`, with every record unless `at_end()` or windows put
/// that off.
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
    fn update<S>(&mut self, kept: &mut u64, record: Keyed<'_, T, S>) -> (K, u64)
    where
        S: KeySelector<T, Key = K>,
    {
        *kept += 1;
        (record.into_key(), *kept)
    }
    #[inline]
    fn emit(&self, key: &K, kept: &u64) -> (K, u64) {
        (key.clone(), *kept)
    }
    fn last(&self, key: K, kept: u64) -> (K, u64) {
        (key, kept)
    }
}

/// The folding of `sum`: adds a number of each record by `+=` and emits `(key, sum)`, with every record unless `at_end()` or windows
/// put that off.
#[derive(Debug, Clone)]
pub struct Sum<F, V> {
    function: F,
    value: PhantomData<fn() -> V>,
}

impl<F, V> Sum<F, V> {
    /// Makes the folding of the sum of the numbers that `function` returns, which is called once per record.
    pub fn new(function: F) -> Self {
        Self { function, value: PhantomData }
    }
}

impl<K, T, V, F> Folding<K, T> for Sum<F, V>
where
    K: Key,
    V: Record + AddAssign,
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
    fn update<S>(&mut self, kept: &mut V, record: Keyed<'_, T, S>) -> (K, V)
    where
        S: KeySelector<T, Key = K>,
    {
        *kept += (self.function)(record.record());
        (record.into_key(), kept.clone())
    }
    #[inline]
    fn emit(&self, key: &K, kept: &V) -> (K, V) {
        (key.clone(), kept.clone())
    }
    fn last(&self, key: K, kept: V) -> (K, V) {
        (key, kept)
    }
}

/// The folding of `reduce`: merges the records of each key into one record and emits that, with every record unless `at_end()` or
/// windows put that off. The first record of a key is kept as it is, and emitted without a call of the function.
#[derive(Debug, Clone)]
pub struct Reduce<F> {
    function: F,
}

impl<F> Reduce<F> {
    /// Makes the folding whose `function` merges its second argument, the new record, into the first one, the kept record. In sliding
    /// windows and sessions it also merges kept records of two parts of a window, the later one as the second argument.
    pub fn new(function: F) -> Self {
        Self { function }
    }
}

impl<K, T, F> Folding<K, T> for Reduce<F>
where
    T: Record,
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
    fn update<S>(&mut self, kept: &mut T, record: Keyed<'_, T, S>) -> T
    where
        S: KeySelector<T, Key = K>,
    {
        (self.function)(kept, record.into_record());
        kept.clone()
    }
    #[inline]
    fn emit(&self, _key: &K, kept: &T) -> T {
        kept.clone()
    }
    fn last(&self, _key: K, kept: T) -> T {
        kept
    }
}

/// The folding of `fold`: folds the records of each key into a value that starts from an initial one, and emits `(key, value)`, with every
/// record unless `at_end()` puts that off. Windows have no `fold`, because two values cannot be merged.
#[derive(Debug, Clone)]
pub struct Fold<A, F> {
    initial: A,
    function: F,
}

impl<A, F> Fold<A, F> {
    /// Makes the folding that starts each key's value from a clone of `initial`. `function(&mut value, record)` adds each record to its
    /// key's value in place.
    pub fn new(initial: A, function: F) -> Self {
        Self { initial, function }
    }
}

impl<K, T, A, F> Folding<K, T> for Fold<A, F>
where
    K: Key,
    A: Record,
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
    fn update<S>(&mut self, kept: &mut A, record: Keyed<'_, T, S>) -> (K, A)
    where
        S: KeySelector<T, Key = K>,
    {
        let (key, record) = record.into_both();
        (self.function)(kept, record);
        (key, kept.clone())
    }
    #[inline]
    fn emit(&self, key: &K, kept: &A) -> (K, A) {
        (key.clone(), kept.clone())
    }
    fn last(&self, key: K, kept: A) -> (K, A) {
        (key, kept)
    }
}
