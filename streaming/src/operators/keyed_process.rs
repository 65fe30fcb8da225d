//! Functions over keyed streams that keep state of their own.

use super::{
    BoxError, Collector, Flow, KeySelector, Operator, OperatorContext,
    keyed::{Keyed, open_states},
};
use crate::{
    seam::{StreamEvent, TaskError},
    state::{KeyAddress, KeyGroups, States, ValueState},
    types::{FlottType, Key},
};

/// The key at hand: what state handles ask for.
#[derive(Debug)]
pub struct KeyContext<'a, K> {
    key: &'a K,
    address: KeyAddress,
}

impl<K> KeyContext<'_, K> {
    /// The key.
    pub fn key(&self) -> &K {
        self.key
    }
    /// Where its state is.
    pub fn address(&self) -> KeyAddress {
        self.address
    }
}

/// A function over a keyed stream that keeps state. Each subtask works on a clone of its own.
pub trait KeyedProcessFunction<K, T>: Clone + Send + 'static {
    /// What goes out.
    type Out: FlottType;

    /// Names the function's states, always the same ones.
    fn states(&mut self, states: &mut States<'_>);
    /// Before the first record.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// For every record, with its key.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn process(
        &mut self,
        key: &KeyContext<'_, K>,
        record: T,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// After the last record of bounded input; may still emit.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn finish(&mut self, _out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        Ok(())
    }
    /// After everything, also when the task was cancelled or failed.
    fn close(&mut self) {}
}

/// Runs a [`KeyedProcessFunction`].
#[derive(Debug)]
pub struct KeyedOperator<S, F> {
    selector: S,
    function: F,
    groups: KeyGroups,
    finished: bool,
}

impl<S, F> KeyedOperator<S, F> {
    /// With that function.
    pub fn new(selector: S, function: F) -> Self {
        let groups = KeyGroups { owned: 0..0, max_parallelism: 1 };
        Self { selector, function, groups, finished: false }
    }
}

impl<T, S, F> Operator<T> for KeyedOperator<S, F>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.groups = KeyGroups::of_subtask(
            context.subtask(),
            context.parallelism(),
            context.max_parallelism(),
        );
        open_states(context, |states| self.function.states(states))?;
        self.function.open(context).map_err(|error| context.user_error(error))
    }

    fn process(
        &mut self,
        records: &mut Vec<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        for record in records.drain(..) {
            let (key, record) = Keyed::new(&self.selector, record).into_both();
            let key = KeyContext { key: &key, address: self.groups.address(&key) };
            self.function.process(&key, record, out).map_err(|error| context.user_error(error))?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if event == StreamEvent::EndOfInput && !self.finished {
            self.finished = true;
            self.function.finish(out).map_err(|error| context.user_error(error))?;
        }
        Ok(Flow::Done)
    }

    fn expands(&self) -> bool {
        true
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let mut states = States::write();
        self.function.states(&mut states);
        states.written().map(Some).map_err(|error| context.codec_error(error))
    }

    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        self.function.close();
        Ok(())
    }

    fn dispose(&mut self, _context: &OperatorContext) {
        self.function.close();
    }
}

/// A closure with one value of state per key.
#[derive(Debug)]
pub struct StatefulFlatMap<K, V, F, Out> {
    name: String,
    /// `None` is kept only while the function looks at it.
    state: ValueState<K, Option<V>>,
    function: F,
    out: std::marker::PhantomData<fn() -> Out>,
}

impl<K, V, F, Out> StatefulFlatMap<K, V, F, Out> {
    /// With a state of that name.
    pub fn new(name: &str, function: F) -> Self {
        Self {
            name: name.to_owned(),
            state: ValueState::default(),
            function,
            out: std::marker::PhantomData,
        }
    }
}

impl<K: Key, V: FlottType, F: Clone, Out> Clone for StatefulFlatMap<K, V, F, Out> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            state: self.state.clone(),
            function: self.function.clone(),
            out: std::marker::PhantomData,
        }
    }
}

impl<K, T, V, F, Out> KeyedProcessFunction<K, T> for StatefulFlatMap<K, V, F, Out>
where
    K: Key,
    V: FlottType,
    Out: FlottType,
    F: FnMut(&K, T, &mut Option<V>, &mut Collector<Out>) + Clone + Send + 'static,
{
    type Out = Out;

    fn states(&mut self, states: &mut States<'_>) {
        self.state.visit(&self.name, states);
    }

    fn process(
        &mut self,
        key: &KeyContext<'_, K>,
        record: T,
        out: &mut Collector<Out>,
    ) -> Result<(), BoxError> {
        let value = self.state.get_or_insert_with(key, || None)?;
        (self.function)(key.key(), record, value, out);
        if value.is_none() {
            self.state.take(key);
        }
        Ok(())
    }
}
