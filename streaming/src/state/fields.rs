//! The kinds of state that a struct of state can have as fields, besides `Option<V>`.
//!
//! Single values and the fields themselves are resident whenever a function is called. A backend may keep the entries
//! of a map or a list elsewhere until they are read: access to entries therefore takes `&mut self`, so that the field
//! can keep what was read, and returns a `Result`, which is never an error with the in-memory backend.

use super::{
    StateError,
    lists::Unwritten,
    row::{FieldRows, Row, StateField},
};
use crate::types::{CodecError, FlottType, fingerprint, structure};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// A list of values that belongs to a key or to a subtask. Checkpoints contain all values.
///
/// Appending does not read the list: a backend can write the new values after the ones it has.
pub struct ListState<V> {
    values: Vec<V>,
    /// The part of the values that the running snapshot of operator state still has to write; `None` for a list of a key.
    unwritten: Option<Arc<Unwritten<V>>>,
}

impl<V: FlottType> ListState<V> {
    /// Appends a value to the list, without reading the list.
    pub fn push(&mut self, value: V) {
        self.values.push(value);
    }
    /// Returns the values of the key's or the subtask's list in the order in which they were appended; empty if there are none. A list of a
    /// subtask that was dealt out anew at a restore has the order of the former subtasks.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the values; never with the in-memory backend.
    pub fn get(&mut self) -> Result<&[V], StateError> {
        Ok(&self.values)
    }
    /// Returns the values in the order in which they were appended, and leaves the list empty. While a checkpoint is being written,
    /// encodes first what it still needs of a subtask's list, which takes the longer the larger the list is; [`ListState::clear`] does not.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the values; never with the in-memory backend.
    pub fn take(&mut self) -> Result<Vec<V>, StateError> {
        if let Some(unwritten) = self.unwritten.take() {
            unwritten.encode(&self.values);
        }
        Ok(std::mem::take(&mut self.values))
    }
    /// Removes all values of the list and frees their memory; those that a running checkpoint needs, as soon as it has written them.
    pub fn clear(&mut self) {
        *self = Self::of(Vec::new());
    }
    pub(super) fn of(values: Vec<V>) -> Self {
        Self { values, unwritten: None }
    }
    pub(super) fn parts(&mut self) -> (&[V], &mut Option<Arc<Unwritten<V>>>) {
        (&self.values, &mut self.unwritten)
    }
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
    pub(super) fn into_values(mut self) -> Vec<V> {
        std::mem::take(&mut self.values)
    }
}

impl<V> Drop for ListState<V> {
    /// Leaves the values to the snapshot that is being written.
    fn drop(&mut self) {
        if let Some(unwritten) = self.unwritten.take() {
            unwritten.keep(std::mem::take(&mut self.values));
        }
    }
}

/// A row holds a run of the list; its entry is the index of the run's first value. Rows must be read in order.
impl<V: FlottType> StateField for ListState<V> {
    const KIND: &'static str = "list";
    fn schemas() -> Vec<(&'static str, String)> {
        vec![("value", fingerprint::<V>())]
    }
    fn types() -> Vec<(&'static str, String)> {
        vec![("value", structure::<V>())]
    }
    fn empty() -> Self {
        Self::of(Vec::new())
    }
    fn holds_nothing(&self) -> bool {
        self.values.is_empty()
    }
    fn write(&self, rows: &mut FieldRows<'_>) {
        if !self.values.is_empty() {
            rows.row(|entry| 0_u64.encode(entry), |out| self.values.encode(out));
        }
    }
    fn read(&mut self, row: Row<'_>) -> Result<(), CodecError> {
        if row.entry::<u64>()? != self.values.len() as u64 {
            return Err(CodecError::Invalid { what: "order of a list's rows" });
        }
        self.values.append(&mut row.value::<Vec<V>>()?);
        Ok(())
    }
}

/// A map from names (the map's own keys) to values that belongs to one key of the stream, in the order of the names. Checkpoints contain
/// all entries. A backend can read and write each entry by itself.
///
/// ```
/// use streaming::state::{MapState, State, StateError};
///
/// /// The state of a shop: what it has earned by each article.
/// #[derive(State)]
/// # #[flott(crate = streaming)]
/// struct Shop {
///     earned: MapState<String, u64>,
/// }
///
/// /// Adds a sale, and returns what the shop has earned by the article.
/// fn sell(shop: &mut Shop, article: &str, price: u64) -> Result<u64, StateError> {
///     let earned = shop.earned.get_or_insert_with(article.to_owned(), || 0)?;
///     *earned += price;
///     Ok(*earned)
/// }
///
/// let mut shop = Shop::empty();
/// assert!(shop.earned.is_empty());
/// sell(&mut shop, "tea", 3)?;
/// assert_eq!(sell(&mut shop, "tea", 4)?, 7);
/// assert_eq!(shop.earned.get(&"milk".to_owned())?, None);
/// # Ok::<(), StateError>(())
/// ```
pub struct MapState<N, V> {
    entries: BTreeMap<N, V>,
}

impl<N: FlottType + Ord, V: FlottType> MapState<N, V> {
    /// Returns the value under a name; `None` if there is none.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the entry; never with the in-memory backend.
    pub fn get(&mut self, name: &N) -> Result<Option<&V>, StateError> {
        Ok(self.entries.get(name))
    }
    /// Returns the value under a name, which the caller may change in place; `None` if there is none.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the entry; never with the in-memory backend.
    pub fn get_mut(&mut self, name: &N) -> Result<Option<&mut V>, StateError> {
        Ok(self.entries.get_mut(name))
    }
    /// Returns the value under a name, which the caller may change in place. If there is none, the result of `make` is inserted first.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the entry; never with the in-memory backend.
    pub fn get_or_insert_with(
        &mut self,
        name: N,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, StateError> {
        Ok(self.entries.entry(name).or_insert_with(make))
    }
    /// Sets the value under a name, without reading the old one, which is dropped.
    pub fn insert(&mut self, name: N, value: V) {
        self.entries.insert(name, value);
    }
    /// Removes the value under a name, without reading it; does nothing if there is none.
    pub fn remove(&mut self, name: &N) {
        self.entries.remove(name);
    }
    /// Removes the value under a name and returns it; `None` if there is none.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read the entry; never with the in-memory backend.
    pub fn take(&mut self, name: &N) -> Result<Option<V>, StateError> {
        Ok(self.entries.remove(name))
    }
    /// Calls `each` with every entry, in the order of the names. A backend may read the entries page by page.
    ///
    /// # Errors
    /// Fails with the backend's error if it cannot read an entry; never with the in-memory backend.
    pub fn for_each(&mut self, each: impl FnMut((&N, &V))) -> Result<(), StateError> {
        self.entries.iter().for_each(each);
        Ok(())
    }
    /// Returns true if the map has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Removes all entries of the map.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl<N: FlottType + Ord, V: FlottType> StateField for MapState<N, V> {
    const KIND: &'static str = "map";
    fn schemas() -> Vec<(&'static str, String)> {
        vec![("name", fingerprint::<N>()), ("value", fingerprint::<V>())]
    }
    fn types() -> Vec<(&'static str, String)> {
        vec![("name", structure::<N>()), ("value", structure::<V>())]
    }
    fn empty() -> Self {
        Self { entries: BTreeMap::new() }
    }
    fn holds_nothing(&self) -> bool {
        self.entries.is_empty()
    }
    fn write(&self, rows: &mut FieldRows<'_>) {
        for (name, value) in &self.entries {
            rows.row(|entry| name.encode(entry), |out| value.encode(out));
        }
    }
    fn read(&mut self, row: Row<'_>) -> Result<(), CodecError> {
        self.entries.insert(row.entry()?, row.value()?);
        Ok(())
    }
}

/// Says how the values of a [`ReducingState`] are merged into one, by an associated function without a `self`.
///
/// ```
/// use streaming::state::Reduce;
///
/// struct Highest;
/// impl Reduce for Highest {
///     type Value = u64;
///     fn merge(kept: &mut u64, next: u64) {
///         *kept = (*kept).max(next);
///     }
/// }
/// ```
pub trait Reduce: 'static {
    /// The type of the values, and of the merged value that is stored.
    type Value: FlottType;
    /// Merges `next` into the stored value `kept`, in place. Called for every value but the first since the state was empty, in the order
    /// in which the values are added; two merged values are never merged with each other, so that it need not be associative.
    fn merge(kept: &mut Self::Value, next: Self::Value);
}

/// Says how the inputs of an [`AggregatingState`] are accumulated and how a result is computed from the accumulator.
pub trait Aggregate: 'static {
    /// The type of the inputs, which are not stored.
    type In;
    /// The accumulator, which is stored.
    type Kept: FlottType;
    /// The type of the result that [`AggregatingState::get`] returns.
    type Out;
    /// Returns the accumulator before the first input. Called at the first input of a key, and at the first one after
    /// [`AggregatingState::clear`].
    fn start() -> Self::Kept;
    /// Adds an input to the accumulator `kept`, in place.
    fn add(kept: &mut Self::Kept, input: Self::In);
    /// Returns the result of the inputs added so far, without changing the accumulator.
    fn result(kept: &Self::Kept) -> Self::Out;
}

/// The values of a key, merged by a [`Reduce`] into one value as they are added. Only that value is stored.
pub struct ReducingState<R: Reduce> {
    kept: Option<R::Value>,
}

impl<R: Reduce> ReducingState<R> {
    /// Merges a value into the stored one; the first value is stored as it is.
    pub fn add(&mut self, value: R::Value) {
        match &mut self.kept {
            Some(kept) => R::merge(kept, value),
            None => self.kept = Some(value),
        }
    }
    /// Returns the merged value; `None` if nothing was added since the state was empty.
    pub fn get(&self) -> Option<&R::Value> {
        self.kept.as_ref()
    }
    /// Removes the merged value: the next one is stored as it is.
    pub fn clear(&mut self) {
        self.kept = None;
    }
}

/// The inputs of a key, of which only an accumulator is stored, such as sum and count for a mean.
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, Context, KeyedProcessFunction},
///     state::{Aggregate, AggregatingState, ListState, MapState, Reduce, ReducingState, State},
/// };
///
/// struct Mean;
/// impl Aggregate for Mean {
///     type In = u64;
///     type Kept = (u64, u64);
///     type Out = u64;
///     fn start() -> (u64, u64) {
///         (0, 0)
///     }
///     fn add((sum, count): &mut (u64, u64), input: u64) {
///         (*sum, *count) = (*sum + input, *count + 1);
///     }
///     fn result((sum, count): &(u64, u64)) -> u64 {
///         sum / count
///     }
/// }
///
/// struct Highest;
/// impl Reduce for Highest {
///     type Value = u64;
///     fn merge(kept: &mut u64, next: u64) {
///         *kept = (*kept).max(next);
///     }
/// }
///
/// /// What is kept of each customer.
/// #[derive(State)]
/// # #[flott(crate = streaming)]
/// struct Customer {
///     mean: AggregatingState<Mean>,
///     highest: ReducingState<Highest>,
///     amounts: ListState<u64>,
///     by_article: MapState<String, u64>,
/// }
///
/// #[derive(Clone)]
/// struct Tell;
///
/// impl KeyedProcessFunction<u64, (u64, String, u64)> for Tell {
///     type State = Customer;
///     type Out = (u64, u64, u64);
///     fn process(
///         &mut self,
///         (customer, article, cents): (u64, String, u64),
///         state: &mut Customer,
///         _: &mut Context<'_, u64>,
///         out: &mut Collector<(u64, u64, u64)>,
///     ) -> Result<(), BoxError> {
///         state.mean.add(cents);
///         state.highest.add(cents);
///         state.amounts.push(cents);
///         if cents == 0 {
///             // The article was given back.
///             state.by_article.remove(&article);
///         } else if let Some(sum) = state.by_article.get_mut(&article)? {
///             *sum += cents;
///         } else {
///             state.by_article.insert(article, cents);
///         }
///         let mut articles = 0;
///         state.by_article.for_each(|(_, sum)| articles += u64::from(*sum > 1_000))?;
///         if articles > 10 {
///             let highest = state.highest.get().copied().unwrap_or_default();
///             out.collect((customer, highest, state.mean.get().unwrap_or_default()));
///             state.mean.clear();
///             state.highest.clear();
///             state.amounts.clear();
///             state.by_article.clear();
///         }
///         Ok(())
///     }
/// }
/// ```
pub struct AggregatingState<A: Aggregate> {
    kept: Option<A::Kept>,
}

impl<A: Aggregate> AggregatingState<A> {
    /// Adds an input to the accumulator, which [`Aggregate::start`] returns for the first input.
    pub fn add(&mut self, input: A::In) {
        A::add(self.kept.get_or_insert_with(A::start), input);
    }
    /// Returns the result of the inputs; `None` if nothing was added since the state was empty.
    pub fn get(&self) -> Option<A::Out> {
        self.kept.as_ref().map(A::result)
    }
    /// Removes the accumulator: the next input begins a new one.
    pub fn clear(&mut self) {
        self.kept = None;
    }
}

/// Implements [`StateField`] and `Debug` for a field that wraps an `Option` named `kept`.
macro_rules! as_option {
    ($type:ident<$parameter:ident: $bound:ident>, $value:ident, $kind:literal) => {
        impl<$parameter: $bound> StateField for $type<$parameter> {
            const KIND: &'static str = $kind;
            fn schemas() -> Vec<(&'static str, String)> {
                <Option<$parameter::$value> as StateField>::schemas()
            }
            fn types() -> Vec<(&'static str, String)> {
                <Option<$parameter::$value> as StateField>::types()
            }
            fn empty() -> Self {
                Self { kept: None }
            }
            fn holds_nothing(&self) -> bool {
                self.kept.is_none()
            }
            fn write(&self, rows: &mut FieldRows<'_>) {
                StateField::write(&self.kept, rows);
            }
            fn read(&mut self, row: Row<'_>) -> Result<(), CodecError> {
                StateField::read(&mut self.kept, row)
            }
        }
        impl<$parameter: $bound> fmt::Debug for $type<$parameter>
        where
            $parameter::$value: fmt::Debug,
        {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($type)).field(&self.kept).finish()
            }
        }
    };
}
as_option!(ReducingState<R: Reduce>, Value, "reducing");
as_option!(AggregatingState<A: Aggregate>, Kept, "aggregating");

impl<V: fmt::Debug> fmt::Debug for ListState<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.values).finish()
    }
}
impl<N: fmt::Debug, V: fmt::Debug> fmt::Debug for MapState<N, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.entries).finish()
    }
}
