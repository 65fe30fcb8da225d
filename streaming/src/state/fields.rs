//! The kinds of state that a struct of state is made of, beside `Option<V>`.
//!
//! Single values and the fields themselves are resident whenever a function is called. A backend may keep the entries of
//! a map or a list elsewhere until they are asked for: access to these takes `&mut self`, so that what is read can be
//! kept, and returns a `Result`, which is never an error where all state is in memory.

use super::{
    StateError,
    row::{FieldRows, Row, StateField},
};
use crate::types::{CodecError, FlottType, fingerprint};
use std::{collections::BTreeMap, fmt};

/// A list of values, of a key or of a subtask.
///
/// Appending needs nothing of what is there: a backend can write what was appended behind what it has.
pub struct ListState<V> {
    values: Vec<V>,
}

impl<V: FlottType> ListState<V> {
    /// Appends a value.
    pub fn push(&mut self, value: V) {
        self.values.push(value);
    }
    /// Returns the values, oldest first.
    ///
    /// # Errors
    /// When the backend cannot read them.
    pub fn get(&mut self) -> Result<&[V], StateError> {
        Ok(&self.values)
    }
    /// Returns the values, oldest first, and leaves the list empty.
    ///
    /// # Errors
    /// When the backend cannot read them.
    pub fn take(&mut self) -> Result<Vec<V>, StateError> {
        Ok(std::mem::take(&mut self.values))
    }
    /// Removes all values.
    pub fn clear(&mut self) {
        self.values = Vec::new();
    }
    pub(super) fn of(values: Vec<V>) -> Self {
        Self { values }
    }
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
    pub(super) fn into_values(self) -> Vec<V> {
        self.values
    }
}

/// Rows of a list hold runs of it, in order; their entry is the number of the run's first value.
impl<V: FlottType> StateField for ListState<V> {
    const KIND: &'static str = "list";
    fn schemas() -> Vec<(&'static str, String)> {
        vec![("value", fingerprint::<V>())]
    }
    fn empty() -> Self {
        Self { values: Vec::new() }
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

/// A map per key, whose entries are ordered by their names. Each entry is a row of its own.
pub struct MapState<N, V> {
    entries: BTreeMap<N, V>,
}

impl<N: FlottType + Ord, V: FlottType> MapState<N, V> {
    /// Returns the value under a name.
    ///
    /// # Errors
    /// When the backend cannot read the entry.
    pub fn get(&mut self, name: &N) -> Result<Option<&V>, StateError> {
        Ok(self.entries.get(name))
    }
    /// Returns the value under a name, to be changed in place.
    ///
    /// # Errors
    /// When the backend cannot read the entry.
    pub fn get_mut(&mut self, name: &N) -> Result<Option<&mut V>, StateError> {
        Ok(self.entries.get_mut(name))
    }
    /// Returns the value under a name, to be changed in place; where there is none, `make` makes it.
    ///
    /// # Errors
    /// When the backend cannot read the entry.
    pub fn get_or_insert_with(
        &mut self,
        name: N,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, StateError> {
        Ok(self.entries.entry(name).or_insert_with(make))
    }
    /// Sets the value under a name. Needs nothing of what is there.
    pub fn insert(&mut self, name: N, value: V) {
        self.entries.insert(name, value);
    }
    /// Removes the value under a name. Needs nothing of what is there.
    pub fn remove(&mut self, name: &N) {
        self.entries.remove(name);
    }
    /// Removes the value under a name and returns it.
    ///
    /// # Errors
    /// When the backend cannot read the entry.
    pub fn take(&mut self, name: &N) -> Result<Option<V>, StateError> {
        Ok(self.entries.remove(name))
    }
    /// Calls `each` with every entry, in the order of their names. A backend may read them page by page.
    ///
    /// # Errors
    /// When the backend cannot read an entry.
    pub fn for_each(&mut self, each: impl FnMut((&N, &V))) -> Result<(), StateError> {
        self.entries.iter().for_each(each);
        Ok(())
    }
    /// Returns true if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

impl<N: FlottType + Ord, V: FlottType> StateField for MapState<N, V> {
    const KIND: &'static str = "map";
    fn schemas() -> Vec<(&'static str, String)> {
        vec![("name", fingerprint::<N>()), ("value", fingerprint::<V>())]
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

/// How the values of a [`ReducingState`] are merged into one.
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
    /// What is kept.
    type Value: FlottType;
    /// Merges a value into the one that is kept.
    fn merge(kept: &mut Self::Value, next: Self::Value);
}

/// How the inputs of an [`AggregatingState`] become one result, over what is kept between them.
pub trait Aggregate: 'static {
    /// What is added.
    type In;
    /// What is kept.
    type Kept: FlottType;
    /// What is asked for.
    type Out;
    /// Returns what is kept before the first input.
    fn start() -> Self::Kept;
    /// Adds an input.
    fn add(kept: &mut Self::Kept, input: Self::In);
    /// Returns the result of what was added so far.
    fn result(kept: &Self::Kept) -> Self::Out;
}

/// Values per key that are merged into one as they are added.
pub struct ReducingState<R: Reduce> {
    kept: Option<R::Value>,
}

impl<R: Reduce> ReducingState<R> {
    /// Merges a value in.
    pub fn add(&mut self, value: R::Value) {
        match &mut self.kept {
            Some(kept) => R::merge(kept, value),
            None => self.kept = Some(value),
        }
    }
    /// Returns the merged value; `None`: nothing was added.
    pub fn get(&self) -> Option<&R::Value> {
        self.kept.as_ref()
    }
    /// Removes the merged value.
    pub fn clear(&mut self) {
        self.kept = None;
    }
}

/// Inputs per key of which a smaller thing is kept, such as sum and count for a mean.
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
///         if let Some(sum) = state.by_article.get_mut(&article)? {
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
    /// Adds an input.
    pub fn add(&mut self, input: A::In) {
        A::add(self.kept.get_or_insert_with(A::start), input);
    }
    /// Returns the result; `None`: nothing was added.
    pub fn get(&self) -> Option<A::Out> {
        self.kept.as_ref().map(A::result)
    }
    /// Removes what is kept.
    pub fn clear(&mut self) {
        self.kept = None;
    }
}

/// A field that is an `Option` in another coat.
macro_rules! as_option {
    ($type:ident<$parameter:ident: $bound:ident>, $value:ident, $kind:literal) => {
        impl<$parameter: $bound> StateField for $type<$parameter> {
            const KIND: &'static str = $kind;
            fn schemas() -> Vec<(&'static str, String)> {
                <Option<$parameter::$value> as StateField>::schemas()
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
