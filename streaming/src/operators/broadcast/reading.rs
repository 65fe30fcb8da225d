//! A function with its broadcast state, as an operator over the first stream runs it. It must never keep state of a key.

use super::{BroadcastProcessFunction, KeyedBroadcastProcessFunction, TakesBroadcast};
use crate::{
    operators::{
        BoxError, Collector, Context, KeySelector, KeyedOperator, KeyedProcessFunction, Process,
        ProcessFunction, Timer, process::lives_as,
    },
    state::StateBackend,
    types::FlottType,
};
use std::marker::PhantomData;

/// A function over a stream and a broadcast stream, joined with the subtask's copy of the broadcast state: a function over the first stream
/// alone, to whose calls it adds the state for reading. A [`BroadcastOperator`](super::BroadcastOperator) hands it the broadcast records,
/// writes the state to checkpoints and restores it.
pub struct Reading<F, B, V> {
    function: F,
    broadcast: V,
    create: fn(&F) -> V,
    record: PhantomData<fn(B)>,
}

impl<F, B, V> Reading<F, B, V> {
    /// Joins `function` with the broadcast state that `create(&function)` returns. A clone, which works in another subtask, gets a
    /// newly created state.
    pub fn new(function: F, create: fn(&F) -> V) -> Self {
        Self { broadcast: create(&function), function, create, record: PhantomData }
    }
}

impl<F: Clone, B, V> Clone for Reading<F, B, V> {
    /// Clones the function and begins with a new state, because a clone works in another subtask.
    fn clone(&self) -> Self {
        Self::new(self.function.clone(), self.create)
    }
}

impl<A, B, V, F> ProcessFunction<A> for Reading<F, B, V>
where
    B: 'static,
    V: FlottType,
    F: BroadcastProcessFunction<A, B, Broadcast = V>,
{
    type Out = F::Out;
    lives_as!(function);
    fn process(&mut self, record: A, out: &mut Collector<F::Out>) -> Result<(), BoxError> {
        self.function.process(record, &self.broadcast, out)
    }
}

impl<K, A, B, V, F> KeyedProcessFunction<K, A> for Reading<F, B, V>
where
    B: 'static,
    V: FlottType,
    F: KeyedBroadcastProcessFunction<K, A, B, Broadcast = V>,
{
    type State = F::State;
    type Out = F::Out;
    lives_as!(function);
    fn process(
        &mut self,
        record: A,
        state: &mut F::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        self.function.process(record, state, &self.broadcast, ctx, out)
    }
    fn on_timer(
        &mut self,
        timer: Timer,
        state: &mut F::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<F::Out>,
    ) -> Result<(), BoxError> {
        self.function.on_timer(timer, state, &self.broadcast, ctx, out)
    }
}

impl<A, B, V, F> TakesBroadcast<A, B> for Process<Reading<F, B, V>>
where
    B: 'static,
    V: FlottType,
    F: BroadcastProcessFunction<A, B, Broadcast = V>,
{
    type Broadcast = V;
    fn take(&mut self, record: B, out: &mut Collector<F::Out>) -> Result<(), BoxError> {
        let Reading { function, broadcast, .. } = &mut self.function;
        function.process_broadcast(record, broadcast, out)
    }
    fn broadcast(&self) -> &V {
        &self.function.broadcast
    }
    fn broadcast_mut(&mut self) -> &mut V {
        &mut self.function.broadcast
    }
    fn beside(&mut self) -> Option<&mut Vec<u8>> {
        None
    }
}

impl<A, B, V, S, F, K> TakesBroadcast<A, B> for KeyedOperator<A, S, Reading<F, B, V>, K>
where
    A: Send + 'static,
    B: 'static,
    V: FlottType,
    S: KeySelector<A>,
    F: KeyedBroadcastProcessFunction<S::Key, A, B, Broadcast = V>,
    K: StateBackend<S::Key, F::State>,
{
    type Broadcast = V;
    fn take(&mut self, record: B, out: &mut Collector<F::Out>) -> Result<(), BoxError> {
        let Reading { function, broadcast, .. } = &mut self.function;
        function.process_broadcast(record, broadcast, out)
    }
    fn broadcast(&self) -> &V {
        &self.function.broadcast
    }
    fn broadcast_mut(&mut self) -> &mut V {
        &mut self.function.broadcast
    }
    fn beside(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.beside)
    }
}
