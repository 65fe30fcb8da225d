//! Functions over keyed streams that keep state of their own.

use super::{
    BoxError, Collector, Flow, KeySelector, Operator, OperatorContext, OperatorMail,
    keyed::{Keyed, Resident, failed},
};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    state::{Free, KeyAddress, Place, State, StateBackend, Table, Taken},
    types::{FlottType, Key, Record},
};
use model::graph::StateDeclaration;
use std::marker::PhantomData;

/// What a keyed function is handed beside the record and its key's state.
pub struct Context<'a, K> {
    key: &'a K,
    operator: &'a OperatorContext,
}

impl<K> Context<'_, K> {
    /// Returns the record's key.
    pub fn key(&self) -> &K {
        self.key
    }
    /// Returns where the function runs: its subtask, the job's options, the time of day.
    pub fn operator(&self) -> &OperatorContext {
        self.operator
    }
}

/// A function over a keyed stream that keeps state per key. Each subtask works on a clone of its own.
///
/// ```
/// use streaming::operators::{BoxError, Collector, Context, KeyedProcessFunction};
/// use streaming::state::State;
///
/// /// Lets the first record of each key through, and every hundredth.
/// #[derive(Clone)]
/// struct Sample;
///
/// #[derive(State)]
/// # #[flott(crate = streaming)]
/// struct Seen {
///     records: Option<u64>,
/// }
///
/// impl KeyedProcessFunction<String, u64> for Sample {
///     type State = Seen;
///     type Out = (String, u64);
///
///     fn process(
///         &mut self,
///         record: u64,
///         seen: &mut Seen,
///         ctx: &mut Context<'_, String>,
///         out: &mut Collector<(String, u64)>,
///     ) -> Result<(), BoxError> {
///         let records = seen.records.get_or_insert(0);
///         if records.is_multiple_of(100) {
///             out.collect((ctx.key().clone(), record));
///         }
///         *records += 1;
///         Ok(())
///     }
/// }
/// ```
pub trait KeyedProcessFunction<K, T>: Clone + Send + 'static {
    /// The state of one key: a struct with `#[derive(State)]`.
    type State: State;
    /// What goes out.
    type Out: Record;

    /// Called before the first record.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record with the state of its key, which is changed in place. A key whose state is empty
    /// afterwards is not kept.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn process(
        &mut self,
        record: T,
        state: &mut Self::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called after the last record of bounded input; may still emit.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn finish(&mut self, _out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called after everything, also when the task was cancelled or failed.
    fn close(&mut self) {}
}

/// Runs a [`KeyedProcessFunction`].
pub struct KeyedOperator<T, S, F, B = Table<<S as KeySelector<T>>::Key, StateOf<T, S, F>>>
where
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
{
    selector: S,
    function: F,
    resident: Resident<S::Key, F::State, T, B>,
    finished: bool,
}

/// The state that a function keeps of each key.
type StateOf<T, S, F> = <F as KeyedProcessFunction<<S as KeySelector<T>>::Key, T>>::State;

impl<T, S: KeySelector<T>, F: KeyedProcessFunction<S::Key, T>> KeyedOperator<T, S, F> {
    /// Makes one that keeps its state in memory; `fields` are the declared ones of `F::State`.
    pub fn new(selector: S, function: F, fields: Vec<StateDeclaration>) -> Self {
        Self::with_backend(selector, function, fields, Table::default())
    }
}

impl<T, S, F, B> KeyedOperator<T, S, F, B>
where
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    /// Makes one that keeps its state in `backend`.
    pub fn with_backend(
        selector: S,
        function: F,
        fields: Vec<StateDeclaration>,
        backend: B,
    ) -> Self {
        let resident = Resident::new(backend, fields);
        Self { selector, function, resident, finished: false }
    }
}

/// Calls the function for a record with the state of its key.
#[inline]
fn call<T, S, F, B>(
    function: &mut F,
    backend: &mut B,
    at: KeyAddress,
    record: Keyed<'_, T, S>,
    out: &mut Collector<F::Out>,
    operator: &OperatorContext,
) -> Result<(), TaskError>
where
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    let place = backend.place(at, |key| key == record.key());
    match place.map_err(|error| failed(operator, error))? {
        Place::Taken(mut place) => {
            let (key, state) = place.entry();
            let mut ctx = Context { key, operator };
            let called = function.process(record.into_record(), state, &mut ctx, out);
            called.map_err(|error| operator.user_error(error))?;
            if State::holds_nothing(state) {
                place.remove();
            }
        }
        Place::Free(place) => {
            let (key, record) = record.into_both();
            let mut state = F::State::empty();
            let mut ctx = Context { key: &key, operator };
            let called = function.process(record, &mut state, &mut ctx, out);
            called.map_err(|error| operator.user_error(error))?;
            if !State::holds_nothing(&state) {
                place.insert(key, state);
            }
        }
    }
    Ok(())
}

impl<T, S, F, B> Operator<T> for KeyedOperator<T, S, F, B>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    type Out = F::Out;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.resident.open(context)?;
        self.function.open(context).map_err(|error| context.user_error(error))
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { selector, function, resident, .. } = self;
        resident.batch(selector, batch, context, |backend, at, record, time| {
            out.set_time(time);
            call(function, backend, at, record, out, context)?;
            Ok(out.goes_on())
        })
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { selector, function, resident, .. } = self;
        resident.mail(selector, mail, context, |backend, at, record, time| {
            out.set_time(time);
            call(function, backend, at, record, out, context)
        })
    }

    fn event(
        &mut self,
        event: StreamEvent,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<Flow, TaskError> {
        if self.resident.waits() {
            return Ok(Flow::Waiting);
        }
        if event == StreamEvent::EndOfInput && !self.finished {
            self.finished = true;
            self.function.finish(out).map_err(|error| context.user_error(error))?;
        }
        Ok(Flow::Done)
    }

    fn full(&self) -> bool {
        self.resident.full()
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        self.resident.snapshot(context)
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
pub struct StatefulFlatMap<V, F, Out> {
    function: F,
    types: PhantomData<fn() -> (V, Out)>,
}

impl<V, F, Out> StatefulFlatMap<V, F, Out> {
    /// With that closure.
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
