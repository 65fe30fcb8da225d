//! Operators that fold the records of a key into one value: count, sum, reduce, fold.

mod folding;
mod resident;
mod selector;

pub use folding::{Count, Fold, Folding, Reduce, Sum};
pub(crate) use resident::failed;
pub(super) use resident::{Resident, Work, columns};
pub use selector::{ByReference, ByValue, KeySelector, Keyed};

use super::{Collector, Flow, InspectKeyed, Operator, OperatorContext, OperatorMail, Timer};
use crate::{
    batch::Batch,
    seam::{StreamEvent, TaskError},
    state::{
        Free, KeyAddress, Place, Single, Slice, SnapshotKind, StateBackend, StateField, Table,
        Taken,
    },
    types::Record,
};
use model::graph::StateDeclaration;

/// The times at which a fold (count, sum, reduce, fold per key) emits its values: with every record, as the methods of a
/// [`KeyedStream`](crate::api::KeyedStream) do, or once when the input ends, after `at_end()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    /// The fold emits the new value of the key after every record, with that record's event time.
    EveryUpdate,
    /// The fold emits one value per key when its input ends, without event times and in no particular order, and removes the state.
    /// Unbounded input ends only with a stop that is drained. Nothing is emitted before, and nothing at all if the job is cancelled, or
    /// stopped with a savepoint and not drained.
    AtEnd,
}

/// The state that a fold keeps of each key.
type FoldState<T, S, F> = Single<<F as Folding<<S as KeySelector<T>>::Key, T>>::Kept>;

/// The operator that folds the records of each key into one value by a [`Folding`] (count, sum, reduce, fold), which is emitted as the
/// [`UpdateMode`] says. Its keyed state is in checkpoints, with `execution.checkpointing.incremental` mostly only what has changed.
/// Watermarks pass through. A record whose key belongs to another subtask fails the task with [`TaskError::Deployment`].
pub struct KeyedFold<T, S, F, B = Table<<S as KeySelector<T>>::Key, FoldState<T, S, F>>>
where
    S: KeySelector<T>,
    F: Folding<S::Key, T>,
{
    selector: S,
    folding: F,
    mode: UpdateMode,
    resident: Resident<S::Key, FoldState<T, S, F>, T, B>,
    /// Entries of the part of the state that is being emitted at the end of input.
    ending: std::vec::IntoIter<(S::Key, FoldState<T, S, F>)>,
}

impl<T, S: KeySelector<T>, F: Folding<S::Key, T>> KeyedFold<T, S, F> {
    /// Returns the declaration of the fold's keyed state, which is named `fold`, for the job graph. A restore is refused if the type of the
    /// kept value has changed.
    pub fn declare() -> Vec<StateDeclaration> {
        vec![<Option<F::Kept> as StateField>::declare("fold")]
    }

    /// Makes the fold of one subtask, which keeps its state in memory.
    pub fn new(selector: S, folding: F, mode: UpdateMode) -> Self {
        Self::with_backend(selector, folding, mode, Table::default())
    }
}

impl<T, S, F, B> KeyedFold<T, S, F, B>
where
    S: KeySelector<T>,
    F: Folding<S::Key, T>,
    B: StateBackend<S::Key, FoldState<T, S, F>>,
{
    /// Makes the fold of one subtask, which keeps its state in `backend`. Records whose keys are not in memory wait until the
    /// backend has fetched them; control elements wait behind them. From 16,384 waiting records on the operator takes no more records.
    pub fn with_backend(selector: S, folding: F, mode: UpdateMode, backend: B) -> Self {
        let resident = Resident::new(backend, KeyedFold::<T, S, F>::declare());
        Self { selector, folding, mode, resident, ending: Vec::new().into_iter() }
    }
}

/// Folds the records of one batch, or those whose keys have become resident.
struct Folds<'a, F, Out> {
    folding: &'a mut F,
    mode: UpdateMode,
    out: &'a mut Collector<Out>,
    context: &'a OperatorContext,
}

impl<F, Out: Record> Folds<'_, F, Out> {
    /// Adds a record to the kept value of its key.
    #[inline(always)]
    fn update<T, S>(&mut self, kept: &mut <F as Folding<S::Key, T>>::Kept, record: Keyed<'_, T, S>)
    where
        S: KeySelector<T>,
        F: Folding<S::Key, T, Out = Out>,
    {
        match self.mode {
            UpdateMode::EveryUpdate => self.out.collect(self.folding.update(kept, record)),
            UpdateMode::AtEnd => self.folding.add(kept, record.into_record()),
        }
    }

    /// Adds a record of a key that has no state, or whose state takes more than a look-up.
    #[inline(never)]
    fn at_place<T, S, B>(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<(), TaskError>
    where
        S: KeySelector<T>,
        F: Folding<S::Key, T, Out = Out>,
        B: StateBackend<S::Key, FoldState<T, S, F>>,
    {
        let place = backend.place(at, |key| key == record.key());
        match place.map_err(|error| failed(self.context, error))? {
            Place::Taken(mut place) => self.update(&mut place.entry().1.0, record),
            Place::Free(place) => {
                let both = record.into_new(at).map_err(|error| failed(self.context, error));
                let (key, record) = both?;
                let kept = self.folding.first(record);
                if self.mode == UpdateMode::EveryUpdate {
                    self.out.collect(self.folding.emit(&key, &kept));
                }
                place.insert(key, Single(kept));
            }
        }
        Ok(())
    }
}

impl<T, S, F, B> Work<T, S, B> for Folds<'_, F, F::Out>
where
    S: KeySelector<T>,
    F: Folding<S::Key, T>,
    B: StateBackend<S::Key, FoldState<T, S, F>>,
{
    #[inline]
    fn turn_to(&mut self, time: i64) {
        self.out.turn_to(time);
    }

    /// Adds the record to the kept value of its key.
    #[inline(always)]
    fn record(
        &mut self,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError> {
        match backend.at_hand(at, |key| key == record.key()) {
            Some(Single(kept)) => self.update(kept, record),
            None => self.at_place(backend, at, record)?,
        }
        Ok(self.out.should_continue())
    }
}

impl<T, S, F, B> Operator<T> for KeyedFold<T, S, F, B>
where
    T: Send + 'static,
    S: KeySelector<T>,
    F: Folding<S::Key, T>,
    B: StateBackend<S::Key, FoldState<T, S, F>>,
{
    type Out = F::Out;
    const HAS_STATE: bool = true;
    const ONLY_KEYED_STATE: bool = true;

    fn open(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        self.resident.open(context);
        while let Some(snapshot) = context.next_snapshot()? {
            self.resident.restore_all(&snapshot, context)?;
        }
        Ok(())
    }

    fn process(
        &mut self,
        batch: &mut Batch<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { selector, folding, mode, resident, .. } = self;
        let mut work = Folds { folding, mode: *mode, out, context };
        resident.batch(selector, batch, context, &mut work)
    }

    fn mail(
        &mut self,
        mail: OperatorMail,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Self { selector, folding, mode, resident, .. } = self;
        let mut work = Folds { folding, mode: *mode, out, context };
        resident.mail(selector, mail, context, &mut work)
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
        if event != StreamEvent::EndOfInput || self.mode != UpdateMode::AtEnd {
            return Ok(Flow::Done);
        }
        if self.resident.is_writing() {
            // The snapshot needs the entries that the emission removes.
            return Ok(Flow::More);
        }
        // The state can be large: the emission stops when the output is full and continues there in the next call.
        loop {
            for (key, Single(kept)) in self.ending.by_ref() {
                out.collect(self.folding.last(key, kept));
                if !out.should_continue() {
                    return Ok(Flow::More);
                }
            }
            match self.resident.backend.take_part().map_err(|error| failed(context, error))? {
                Some(part) => self.ending = part.into_iter(),
                None => return Ok(Flow::Done),
            }
        }
    }

    fn full(&self) -> bool {
        self.resident.full()
    }

    fn state_bytes(&self) -> Option<u64> {
        Some(self.resident.memory_bytes())
    }

    fn snapshot(
        &mut self,
        _checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        self.resident.snapshot(context).map(Some)
    }

    fn begin_snapshot(
        &mut self,
        _checkpoint: u64,
        _context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        Ok(self.resident.begin_snapshot(Vec::new(), Vec::new()))
    }

    fn begin_incremental(
        &mut self,
        checkpoint: u64,
        context: &OperatorContext,
    ) -> Result<Option<SnapshotKind>, TaskError> {
        Ok(self.resident.begin_incremental(checkpoint, Vec::new(), Vec::new(), context))
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
        self.resident.write_snapshot(slice, context)
    }

    fn abort_snapshot(&mut self) -> bool {
        self.resident.abort_snapshot()
    }
}

impl<T, S: KeySelector<T>, F: Folding<S::Key, T>> InspectKeyed for KeyedFold<T, S, F> {
    type Key = S::Key;
    type State = F::Kept;
    fn state(&self, key: &S::Key) -> Option<&F::Kept> {
        let at = self.resident.groups().address(key);
        self.resident.backend.get(at, key).map(|Single(kept)| kept)
    }
    fn timers(&self) -> Vec<(S::Key, Timer)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
