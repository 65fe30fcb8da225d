//! Closures over keyed streams with one value of state per key.

use super::{BoxError, Collector, Context, KeyedProcessFunction};
use crate::types::{FlottType, Key, Record};
use std::marker::PhantomData;

/// A keyed function that calls a closure with one value of state per key;
/// [`KeyedStream::flat_map_with_state`](crate::api::KeyedStream::flat_map_with_state) makes it. The closure gets the key, the record, the
/// state and the output; a key whose state is `None` afterwards is removed. The values are in checkpoints; there are no timers, and the
/// closure cannot fail other than by a panic.
#[derive(Debug)]
pub struct StatefulFlatMap<V, F, Out> {
    function: F,
    types: PhantomData<fn() -> (V, Out)>,
}

impl<V, F, Out> StatefulFlatMap<V, F, Out> {
    /// Makes the function around a closure, which is called as `function(&key, record, &mut value, out)` for every record; the value is
    /// `None` at the first record of a key, and at the first one after the closure has set it to `None`.
    pub fn new(function: F) -> Self {
        Self { function, types: PhantomData }
    }
}

impl<V, F: Clone, Out> Clone for StatefulFlatMap<V, F, Out> {
    fn clone(&self) -> Self {
        Self::new(self.function.clone())
    }
}

impl<K, T, V, F, Out> KeyedProcessFunction<K, T> for StatefulFlatMap<V, F, Out>
where
    K: Key,
    V: FlottType,
    Out: Record,
    F: FnMut(&K, T, &mut Option<V>, &mut Collector<Out>) + Clone + Send + 'static,
{
    type State = Option<V>;
    type Out = Out;

    fn process(
        &mut self,
        record: T,
        state: &mut Option<V>,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<Out>,
    ) -> Result<(), BoxError> {
        (self.function)(ctx.key(), record, state, out);
        Ok(())
    }
}
