//! Functions over keyed streams that keep state and timers per key.

mod context;
mod firing;
mod inspect;
pub(super) mod snapshots;

pub use context::Context;
pub use inspect::InspectKeyed;
use snapshots::{WRITTEN_AT_ONCE, before_state, heads, write_timers};

use super::{
    BoxError, Collector, Flow, KeySelector, Operator, OperatorContext, OperatorMail,
    alarm::{Alarm, clock},
    broadcast::BROADCAST,
    keyed::{Keyed, Resident, Work, failed},
    timers::{TimeDomain, Timer, Timers},
};
use crate::{
    batch::{Batch, NO_TIME},
    seam::{StreamEvent, TaskError},
    state::{Free, KeyAddress, Place, Slice, SnapshotKind, State, StateBackend, Table, Taken},
    types::Record,
};
use model::graph::StateDeclaration;

/// A function over a keyed stream that keeps state and timers per key, which are in checkpoints. Each subtask works on its own clone, on
/// one thread; what the clone has in its own fields is lost at a restart. The task calls `open` once the state is restored, then `process`
/// for each record and `on_timer` for each timer that is due, `finish` after the last record of bounded input, and `close` at its end,
/// however it ends. An error fails the task with [`TaskError::User`].
///
/// ```
/// use streaming::{
///     operators::{BoxError, Collector, Context, KeyedProcessFunction},
///     state::State,
///     testing,
/// };
///
/// /// Lets the first record of each key through, and every hundredth. The last record has no key.
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
///     fn finish(&mut self, out: &mut Collector<(String, u64)>) -> Result<(), BoxError> {
///         out.collect((String::new(), 0));
///         Ok(())
///     }
///     fn close(&mut self) {
///         eprintln!("no more samples are taken");
///     }
/// }
///
/// let mut test = testing::keyed_by_value(|n: &u64| format!("{}", n % 2), Sample).open()?;
/// for number in 0..201 {
///     test.push(number)?;
/// }
/// test.end_of_input()?;
/// let numbers: Vec<u64> = test.output().into_iter().map(|(_, number)| number).collect();
/// assert_eq!(numbers, [0, 1, 200, 0]);
/// # Ok::<(), streaming::TaskError>(())
/// ```
pub trait KeyedProcessFunction<K, T>: Clone + Send + 'static {
    /// The state of one key: a struct with `#[derive(State)]`, or an `Option<V>` alone for a single value.
    type State: State;
    /// The type of the emitted records.
    type Out: Record;

    /// Called once per attempt in each subtask, after the state was restored and before the first record. Cannot reach
    /// state of keys. Answers to requests that are made with the context do not reach the function. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn open(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called for every record with the state of its key (an empty one if the key has none), which it changes in place. A key whose state
    /// is empty afterwards is removed; its timers stay. Records that it emits get the event time of `record`, unless it gives them another.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn process(
        &mut self,
        record: T,
        state: &mut Self::State,
        ctx: &mut Context<'_, K>,
        out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError>;
    /// Called once for every timer that is due, with the state of its key, an empty one if the key has none; the timer is gone. A key whose
    /// state is empty afterwards is removed. Records that it emits for a timer of event time get the timer's moment as their event time;
    /// for a timer of processing time they get none. At the end of bounded input all timers of event time fire, and those of processing
    /// time that are due by then, before `finish`; the others are dropped. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn on_timer(
        &mut self,
        _timer: Timer,
        _state: &mut Self::State,
        _ctx: &mut Context<'_, K>,
        _out: &mut Collector<Self::Out>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called after the last record of bounded input and the timers that fire there; cannot reach state of keys. May still emit records,
    /// without an event time unless it gives them one. Not called if the job is cancelled, fails, or is stopped with a savepoint and not
    /// drained, nor once more after a restore from a checkpoint in which the subtask had ended. By default does nothing.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn finish(&mut self, _out: &mut Collector<Self::Out>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Called once at the end of the task, also if it was cancelled or has failed, and then perhaps without `open` before it. By
    /// default does nothing.
    fn close(&mut self) {}
}

/// The operator that runs a [`KeyedProcessFunction`]: keeps the state and the timers of its subtask's keys and the watermark, writes them
/// to checkpoints, and calls the function for records and for timers that are due. An error of the function fails the task with
/// [`TaskError::User`], a record whose key belongs to another subtask with [`TaskError::Deployment`]. A watermark goes on once its timers
/// have fired; after the restore of timers of processing time that are due, they fire before the first record. While it has timers or a
/// watermark, its snapshots are full ones, also with `execution.checkpointing.incremental`.
pub struct KeyedOperator<T, S, F, B = Table<<S as KeySelector<T>>::Key, StateOf<T, S, F>>>
where
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
{
    selector: S,
    pub(super) function: F,
    resident: Resident<S::Key, F::State, T, B>,
    timers: Timers<S::Key>,
    watermark: i64,
    alarm: Alarm,
    /// Some timers of processing time that are due have not fired, because the output was full, a key was not resident, or the step was
    /// interrupted.
    due_left: bool,
    /// Timers that were due when they were restored have not all fired: no record comes before.
    restored_due: bool,
    /// The moment of the clock at which the end of input came: timers that are due by then fire, and no later ones.
    ended_at: Option<i64>,
    finished: bool,
    /// The bytes that an operator around this one writes into its snapshot, or has found there.
    pub(super) beside: Vec<u8>,
}

/// The state that the function `F` keeps of each key.
type StateOf<T, S, F> = <F as KeyedProcessFunction<<S as KeySelector<T>>::Key, T>>::State;

impl<T, S: KeySelector<T>, F: KeyedProcessFunction<S::Key, T>> KeyedOperator<T, S, F> {
    /// Makes the operator of one subtask, which keeps its state in memory. `fields` are the declared fields of `F::State`, by which
    /// snapshots are written and restored.
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
    /// Makes the operator of one subtask, which keeps its state in `backend`. `fields` are the declared fields of `F::State`, by which
    /// snapshots are written and restored. Records and timers whose keys are not in memory wait until the backend has fetched them;
    /// control elements wait behind them. From 16,384 waiting records and timers on the operator takes no more records.
    pub fn with_backend(
        selector: S,
        function: F,
        fields: Vec<StateDeclaration>,
        backend: B,
    ) -> Self {
        let resident = Resident::new(backend, fields);
        Self {
            selector,
            function,
            resident,
            timers: Timers::default(),
            watermark: i64::MIN,
            alarm: Alarm::default(),
            due_left: false,
            restored_due: false,
            ended_at: None,
            finished: false,
            beside: Vec::new(),
        }
    }
}

/// Calls the function for the records of one batch, or for timers, or after keys have become resident.
struct Calls<'a, K, F, Out> {
    function: &'a mut F,
    timers: &'a mut Timers<K>,
    watermark: i64,
    /// The event time of the records at hand.
    timestamp: i64,
    out: &'a mut Collector<Out>,
    operator: &'a OperatorContext,
}

impl<'a, K, F, Out> Calls<'a, K, F, Out> {
    fn new(
        function: &'a mut F,
        timers: &'a mut Timers<K>,
        watermark: i64,
        out: &'a mut Collector<Out>,
        operator: &'a OperatorContext,
    ) -> Self {
        Self { function, timers, watermark, timestamp: NO_TIME, out, operator }
    }
}

impl<T, S, F, B> Work<T, S, B> for Calls<'_, S::Key, F, F::Out>
where
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    #[inline]
    fn turn_to(&mut self, time: i64) {
        self.timestamp = time;
        self.out.begin_run(time);
    }

    #[inline(always)]
    fn record(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError> {
        let Self { function, timers, watermark, timestamp, out, operator } = self;
        let (operator, watermark, timestamp) = (*operator, *watermark, *timestamp);
        let place = backend.place(at, |key| key == record.key());
        match place.map_err(|error| failed(operator, error))? {
            Place::Taken(mut place) => {
                let (key, state) = place.entry();
                let mut ctx = Context { key, at, operator, timestamp, watermark, timers };
                let called = function.process(record.into_record(), state, &mut ctx, out);
                called.map_err(|error| operator.user_error(error))?;
                if State::holds_nothing(state) {
                    place.remove();
                }
            }
            Place::Free(place) => {
                let both = record.into_new(at).map_err(|error| failed(operator, error));
                let (key, record) = both?;
                let mut state = F::State::empty();
                let mut ctx = Context { key: &key, at, operator, timestamp, watermark, timers };
                let called = function.process(record, &mut state, &mut ctx, out);
                called.map_err(|error| operator.user_error(error))?;
                if !State::holds_nothing(&state) {
                    place.insert(key, state);
                }
            }
        }
        Ok(out.goes_on(timestamp))
    }

    fn timer(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        key: S::Key,
        timer: Timer,
    ) -> Result<(), TaskError> {
        let Self { function, timers, watermark, out, operator, .. } = self;
        let (operator, watermark, timestamp) = (*operator, *watermark, timer.timestamp);
        out.set_time(match timer.domain {
            TimeDomain::EventTime => timestamp,
            TimeDomain::ProcessingTime => NO_TIME,
        });
        let mut ctx = Context { key: &key, at, operator, timestamp, watermark, timers };
        let place = backend.place(at, |stored| *stored == key);
        match place.map_err(|error| failed(operator, error))? {
            Place::Taken(mut place) => {
                let (_, state) = place.entry();
                let called = function.on_timer(timer, state, &mut ctx, out);
                called.map_err(|error| operator.user_error(error))?;
                if State::holds_nothing(state) {
                    place.remove();
                }
            }
            Place::Free(place) => {
                let mut state = F::State::empty();
                let called = function.on_timer(timer, &mut state, &mut ctx, out);
                called.map_err(|error| operator.user_error(error))?;
                if !State::holds_nothing(&state) {
                    place.insert(key, state);
                }
            }
        }
        Ok(())
    }
}

impl<T, S, F, B> Operator<T> for KeyedOperator<T, S, F, B>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: KeyedProcessFunction<S::Key, T>,
    B: StateBackend<S::Key, F::State>,
{
    type Out = F::Out;
    const HAS_STATE: bool = true;
    const ONLY_KEYED_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.resident.open(context);
        while let Some(snapshot) = context.next_snapshot()? {
            self.restore(&snapshot, context)?;
        }
        let first = self.timers.processing.first();
        self.restored_due =
            !context.shared().restored_at_end && first.is_some_and(|first| first <= clock(context));
        self.wake_for_timers(false, context);
        self.function.open(context).map_err(|error| context.user_error(error))
    }

    fn drop_undeclared(&mut self) -> Option<&'static str> {
        // An operator around this one that declares broadcast state has taken it.
        let undeclared = std::mem::take(&mut self.beside);
        (!undeclared.is_empty()).then_some(BROADCAST)
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { selector, function, resident, timers, watermark, .. } = self;
        let mut work = Calls::new(function, timers, *watermark, out, context);
        resident.batch(selector, batch, context, &mut work)?;
        self.wake_for_timers(out.is_full(), context);
        Ok(())
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        if let OperatorMail::Timer { .. } = mail {
            self.clock_came(out, context)?;
        } else {
            let Self { selector, function, resident, timers, watermark, .. } = self;
            let mut work = Calls::new(function, timers, *watermark, out, context);
            resident.mail(selector, mail, context, &mut work)?;
        }
        self.wake_for_timers(out.is_full(), context);
        Ok(())
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
        match event {
            StreamEvent::Watermark(ms) => {
                // What comes after a restore may be behind the watermark that was restored.
                self.watermark = self.watermark.max(ms);
                let fired = self.fire(TimeDomain::EventTime, self.watermark, out, context)?;
                self.wake_for_timers(out.is_full(), context);
                return Ok(fired);
            }
            StreamEvent::EndOfInput if !self.finished => {
                let fired = self.fire_at_end(out, context)?;
                if fired != Flow::Done {
                    return Ok(fired);
                }
                self.finished = true;
                // A timer may have set one.
                out.set_time(NO_TIME);
                self.function.finish(out).map_err(|error| context.user_error(error))?;
            }
            _ => {}
        }
        Ok(Flow::Done)
    }

    fn full(&self) -> bool {
        self.resident.full() || self.timers.waits_for_storage() || self.restored_due
    }

    fn state_bytes(&self) -> Option<u64> {
        Some(self.resident.memory_bytes() + self.timers.memory_bytes())
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let beside = std::mem::take(&mut self.beside);
        let mut bytes = before_state(Some(&self.timers), self.watermark, &beside, context)?;
        bytes.append(&mut self.resident.snapshot(context)?);
        Ok(Some(bytes))
    }

    fn begin_snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        let few = self.timers.len() <= WRITTEN_AT_ONCE;
        let timers = few.then_some(&self.timers);
        let (first, none) = heads(timers, self.watermark, &mut self.beside, context)?;
        let begun = self.resident.begin_snapshot(first, none);
        if begun && !few {
            self.timers.begin_snapshot(self.resident.groups());
        }
        Ok(begun)
    }

    fn begin_incremental(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<SnapshotKind>, TaskError> {
        if self.timers.len() > 0 {
            let begun = self.begin_snapshot(checkpoint, context)?;
            return Ok(begun.then_some(SnapshotKind::Full));
        }
        let (first, none) = heads(Some(&self.timers), self.watermark, &mut self.beside, context)?;
        Ok(self.resident.begin_incremental(checkpoint, first, none, context))
    }

    fn notify_complete(
        &mut self,
        checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<(), TaskError> {
        self.resident.backend.checkpoint_complete(checkpoint);
        Ok(())
    }

    fn write_snapshot(
        &mut self,
        slice: &mut Slice<'_>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        let Self { timers, resident, .. } = self;
        let timers = timers.write_snapshot(slice, |timers, chunk| {
            write_timers(timers, chunk);
            resident.write_empty(chunk);
        });
        let timers = timers.map_err(|error| context.codec_error(error))?;
        // Also takes out the chunks of state that has changed while the timers were written.
        Ok(resident.write_snapshot(slice, context)? && timers)
    }

    fn abort_snapshot(&mut self) -> bool {
        let aborted = self.resident.abort_snapshot();
        if aborted {
            self.timers.abort_snapshot();
        }
        aborted
    }

    fn close(&mut self, _context: &OperatorContext) -> Result<(), TaskError> {
        self.function.close();
        Ok(())
    }

    fn dispose(&mut self, _context: &OperatorContext) {
        self.function.close();
    }
}
