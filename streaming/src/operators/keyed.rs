//! Folding the records of a key into one value: count, sum, reduce, fold.

mod folding;
mod selector;

pub use folding::{Count, Fold, Folding, Reduce, Sum};
pub use selector::{ByReference, ByValue, KeySelector, Keyed};

use super::{Collector, Flow, Operator, OperatorContext};
use crate::{
    seam::{StreamEvent, TaskError},
    state::{KeyGroups, States, Table, read_snapshot},
};
use hashbrown::hash_table::Entry;

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
    /// At the end: the entries of the part of the table that is being emitted.
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
        records: &mut Vec<T>,
        out: &mut Collector<F::Out>,
        context: &OperatorContext,
    ) -> Result<(), TaskError> {
        let Some(table) = &mut self.kept else {
            return Err(TaskError::Deployment(format!("'{}' was not opened", context.name())));
        };
        let groups = table.key_groups().clone();
        let every = self.mode == UpdateMode::EveryUpdate;
        for record in records.drain(..) {
            let record = Keyed::new(&self.selector, record);
            let at = groups.address(record.key());
            let place = table.place(at, |(key, _)| key == record.key());
            match place.map_err(|error| TaskError::Deployment(error.to_string()))? {
                Entry::Occupied(mut entry) => {
                    let kept = &mut entry.get_mut().1;
                    if every {
                        out.collect(self.folding.update(kept, record));
                    } else {
                        self.folding.add(kept, record.into_record());
                    }
                }
                Entry::Vacant(entry) => {
                    let (key, record) = record.into_both();
                    let entry = entry.insert((key, self.folding.first(record)));
                    if every {
                        let (key, kept) = entry.get();
                        out.collect(self.folding.emit(key, kept));
                    }
                }
            }
        }
        Ok(())
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
            let mut emitted = 0_usize;
            for (key, kept) in self.ending.by_ref() {
                out.collect(self.folding.last(key, kept));
                emitted += 1;
                if emitted.is_multiple_of(super::BATCH_RECORDS) && out.is_full() {
                    return Ok(Flow::More);
                }
            }
            match self.kept.as_mut().and_then(Table::take_part) {
                Some(part) => self.ending = part.into_iter(),
                None => return Ok(Flow::Done),
            }
            if out.is_full() {
                return Ok(Flow::More);
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
