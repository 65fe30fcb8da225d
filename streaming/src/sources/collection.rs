//! The source of a collection in the program's memory.

use super::{
    Boundedness, NoEnumerator, ReadProgress, ReaderContext, ReaderOutput, SequenceSplit, Source,
    SourceReader, SourceSplit, SplitEnumeratorContext, own_splits::OwnSplits,
};
use crate::{
    lock,
    operators::{BoxError, OperatorContext},
    types::Record,
};
use std::sync::{Arc, Mutex};

/// A bounded source of the values of a collection. With n subtasks, subtask i emits the values at the positions i, i + n, i + 2n
/// and so on, counted from 0.
///
/// The collection is made by the program in every process that runs a subtask, so that it must have the same values in the same
/// order each time; values that differ, such as the time, belong into [`Environment::once`](crate::Environment::once).
///
/// ```
/// # use streaming::{Environment, sources::CollectionSource, time::WatermarkStrategy};
/// # fn job(env: &Environment) {
/// let times = WatermarkStrategy::for_monotonous_timestamps(|(at, _): &(i64, String)| *at);
/// let visits = CollectionSource::new(vec![(1_000, "a".to_owned()), (3_000, "b".to_owned())]);
/// env.from_source(visits, times, "visits").print();
/// # }
/// # fn test() -> Result<(), streaming::TaskError> {
/// let mut test = streaming::testing::source(CollectionSource::new(vec!['a', 'b', 'c'])).open()?;
/// test.run()?;
/// assert_eq!(test.output(), ['a', 'b', 'c']);
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
///
/// [`Environment::from_collection`](crate::Environment::from_collection) is the short form, without event times.
#[derive(Debug)]
pub struct CollectionSource<T>(Arc<Mutex<Vec<T>>>);

impl<T> CollectionSource<T> {
    /// Creates a source of these values, all of which stay in memory. The subtasks of one process share them; each value is cloned
    /// when it is emitted.
    pub fn new(all: Vec<T>) -> Self {
        Self(Arc::new(Mutex::new(all)))
    }
}

impl<T: Record> Source for CollectionSource<T> {
    type Record = T;
    type Split = SequenceSplit;
    type Enumerator = NoEnumerator<SequenceSplit>;
    type Reader = CollectionReader<T>;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        _context: SplitEnumeratorContext<SequenceSplit>,
        _restored: Option<()>,
    ) -> Result<NoEnumerator<SequenceSplit>, BoxError> {
        Ok(NoEnumerator::default())
    }
    fn create_reader(&self, context: &OperatorContext) -> Result<CollectionReader<T>, BoxError> {
        Ok(CollectionReader { all: self.0.clone(), splits: OwnSplits::of(context, 0) })
    }
}

/// The reader of a [`CollectionSource`] in one subtask: emits the subtask's share of the values, after a restore what is left of the splits
/// of the checkpoint, and ends.
#[derive(Debug)]
pub struct CollectionReader<T> {
    all: Arc<Mutex<Vec<T>>>,
    splits: OwnSplits,
}

impl<T: Record> SourceReader for CollectionReader<T> {
    type Record = T;
    type Split = SequenceSplit;

    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<T>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        let Some((place, split)) = self.splits.slowest() else {
            return Ok(ReadProgress::Ended);
        };
        let stride = usize::try_from(split.stride.max(1))?;
        let first = split.next.map(usize::try_from).transpose()?;
        // The values are emitted after the lock is released: the rest of the chain must not hold up the other subtasks.
        let (values, left) = match first {
            Some(first) => {
                let all = lock(&self.all);
                let own = all.iter().skip(first).step_by(stride);
                let values: Vec<T> = own.take(most).cloned().collect();
                let next = first.saturating_add(values.len().saturating_mul(stride));
                split.next = u64::try_from(next).ok();
                (values, next < all.len())
            }
            None => (Vec::new(), false),
        };
        out.split(&split.split_id()).collect_all(values);
        Ok(if left { ReadProgress::More } else { self.splits.end(place, out) })
    }

    fn add_splits(
        &mut self,
        splits: Vec<SequenceSplit>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        self.splits.restore(splits);
        Ok(())
    }
    fn no_more_splits(&mut self) {}
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<SequenceSplit>, BoxError> {
        Ok(self.splits.left().to_vec())
    }
}
