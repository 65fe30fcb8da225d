//! The enumerator of sources that need none.

use super::{SourceSplit, SplitEnumerator};
use crate::operators::BoxError;
use std::marker::PhantomData;

/// The enumerator type of a source whose readers know what to read without one: from their subtask numbers, or because there
/// is one subtask only. Such a source has no coordinator: `create_enumerator` is never called, requests and events of its readers are
/// dropped, and each reader gets `no_more_splits` at its start.
///
/// ```
/// use streaming::{
///     operators::{BoxError, OperatorContext},
///     sources::{
///         Boundedness, NoEnumerator, ReadProgress, ReaderContext, ReaderOutput, Source,
///         SourceReader, SourceSplit, SplitEnumeratorContext,
///     },
///     testing,
/// };
///
/// /// The numbers below a bound, from one subtask.
/// struct Below(u64);
///
/// /// The numbers that are left.
/// #[derive(Clone, derive::FlottType)]
/// #[flott(crate = streaming)]
/// struct Left {
///     next: u64,
///     below: u64,
/// }
///
/// impl SourceSplit for Left {
///     fn split_id(&self) -> String {
///         "all".to_owned()
///     }
/// }
///
/// impl Source for Below {
///     type Record = u64;
///     type Split = Left;
///     type Enumerator = NoEnumerator<Left>;
///     type Reader = Left;
///
///     fn boundedness(&self) -> Boundedness {
///         Boundedness::Bounded
///     }
///     fn is_single(&self) -> bool {
///         true
///     }
///     fn create_enumerator(
///         &self,
///         _context: SplitEnumeratorContext<Left>,
///         _restored: Option<()>,
///     ) -> Result<NoEnumerator<Left>, BoxError> {
///         Ok(NoEnumerator::default())
///     }
///     fn create_reader(&self, _context: &OperatorContext) -> Result<Left, BoxError> {
///         Ok(Left { next: 0, below: self.0 })
///     }
/// }
///
/// impl SourceReader for Left {
///     type Record = u64;
///     type Split = Left;
///
///     fn poll_next(
///         &mut self,
///         most: usize,
///         out: &mut ReaderOutput<u64>,
///         _context: &mut ReaderContext<'_>,
///     ) -> Result<ReadProgress, BoxError> {
///         for _ in 0..most {
///             if self.next == self.below {
///                 return Ok(ReadProgress::Ended);
///             }
///             out.collect(self.next);
///             self.next += 1;
///         }
///         Ok(ReadProgress::More)
///     }
///     fn add_splits(
///         &mut self,
///         splits: Vec<Left>,
///         _context: &mut ReaderContext<'_>,
///     ) -> Result<(), BoxError> {
///         // Without an enumerator, splits come from a snapshot only.
///         splits.into_iter().for_each(|split| *self = split);
///         Ok(())
///     }
///     fn no_more_splits(&mut self) {}
///     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Left>, BoxError> {
///         Ok(vec![self.clone()])
///     }
/// }
///
/// # fn test() -> Result<(), streaming::TaskError> {
/// let mut test = testing::source(Below(4)).open()?;
/// test.poll()?;
/// assert_eq!(test.output(), [0, 1, 2, 3]);
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
#[derive(Debug)]
pub struct NoEnumerator<S>(PhantomData<fn() -> S>);

impl<S> Default for NoEnumerator<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<S: SourceSplit> SplitEnumerator for NoEnumerator<S> {
    type Split = S;
    type Checkpoint = ();
    const COORDINATED: bool = false;

    fn handle_split_request(&mut self, _subtask: u32) -> Result<(), BoxError> {
        Ok(())
    }
    fn add_splits_back(&mut self, _splits: Vec<S>, _subtask: u32) -> Result<(), BoxError> {
        Ok(())
    }
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<(), BoxError> {
        Ok(())
    }
}
