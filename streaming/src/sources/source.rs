//! What a source is made of: its splits, the enumerator that hands them out, and the readers of its subtasks, as in Flink's
//! FLIP-27. Traits only; who calls them is in `coordinator.rs` and in the head of a source's chain.

use super::{ReaderContext, ReaderOutput, SplitEnumeratorContext};
use crate::{
    operators::{BoxError, OperatorContext},
    types::{FlottType, Record},
};
use std::marker::PhantomData;

/// Says whether a source ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundedness {
    /// The source ends by itself.
    Bounded,
    /// The source is read until the job is cancelled or stopped.
    ContinuousUnbounded,
}

/// A part of a source's input that one subtask reads: a range of a file, a partition of a topic, a table.
///
/// A split is also the state of its reader: a snapshot holds the split with the place up to which it was read.
pub trait SourceSplit: FlottType + Clone {
    /// Returns what names the split within its source. The name stays the same while the split is being read.
    fn split_id(&self) -> String;
}

/// How far a reader got in one call of [`SourceReader::poll_next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadProgress {
    /// There is more to read at once.
    More,
    /// There is nothing until something happens for which the reader asked its context: a timer, I/O, splits, an event.
    Waiting,
    /// Nothing follows; the subtask ends.
    Ended,
}

/// A source: where records come from, and how the work is divided among subtasks.
///
/// One [`SplitEnumerator`] runs beside the JobMaster; it finds the splits and gives them to subtasks. A [`SourceReader`] in
/// each subtask reads the splits that it was given. [`Environment::from_source`](crate::Environment::from_source) makes a
/// stream of a source.
///
/// A source that counts, in ranges of ten numbers:
///
/// ```
/// use std::collections::VecDeque;
/// use streaming::{
///     Environment,
///     operators::{BoxError, OperatorContext},
///     sources::*,
///     time::WatermarkStrategy,
///     types::{CodecError, FlottType, KeyHasher, Reader, Schema},
/// };
///
/// #[derive(Clone, derive::FlottType)]
/// #[flott(crate = streaming)]
/// struct Range {
///     next: u64,
///     end: u64,
/// }
///
/// impl SourceSplit for Range {
///     fn split_id(&self) -> String {
///         self.end.to_string()
///     }
/// }
///
/// struct Numbers {
///     below: u64,
/// }
///
/// impl Source for Numbers {
///     type Record = u64;
///     type Split = Range;
///     type Enumerator = Ranges;
///     type Reader = RangeReader;
///
///     fn boundedness(&self) -> Boundedness {
///         Boundedness::Bounded
///     }
///     fn create_enumerator(
///         &self,
///         context: SplitEnumeratorContext<Range>,
///         restored: Option<Vec<Range>>,
///     ) -> Result<Ranges, BoxError> {
///         let all = || {
///             (0..self.below).step_by(10).map(|next| Range { next, end: self.below.min(next + 10) })
///         };
///         let waiting = restored.unwrap_or_else(|| all().collect()).into();
///         Ok(Ranges { context, waiting })
///     }
///     fn create_reader(&self, _context: &OperatorContext) -> Result<RangeReader, BoxError> {
///         Ok(RangeReader::default())
///     }
/// }
///
/// struct Ranges {
///     context: SplitEnumeratorContext<Range>,
///     waiting: VecDeque<Range>,
/// }
///
/// impl SplitEnumerator for Ranges {
///     type Split = Range;
///     type Checkpoint = Vec<Range>;
///
///     fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError> {
///         match self.waiting.pop_front() {
///             Some(range) => self.context.assign_splits(subtask, vec![range])?,
///             None => self.context.no_more_splits(subtask)?,
///         }
///         Ok(())
///     }
///     fn add_splits_back(&mut self, splits: Vec<Range>, _subtask: u32) -> Result<(), BoxError> {
///         self.waiting.extend(splits);
///         Ok(())
///     }
///     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Range>, BoxError> {
///         Ok(self.waiting.iter().cloned().collect())
///     }
/// }
///
/// #[derive(Default)]
/// struct RangeReader {
///     ranges: VecDeque<Range>,
///     asked: bool,
///     no_more: bool,
/// }
///
/// impl SourceReader for RangeReader {
///     type Record = u64;
///     type Split = Range;
///
///     fn poll_next(
///         &mut self,
///         most: usize,
///         out: &mut ReaderOutput<u64>,
///         context: &mut ReaderContext<'_>,
///     ) -> Result<ReadProgress, BoxError> {
///         let Some(range) = self.ranges.front_mut() else {
///             if self.no_more {
///                 return Ok(ReadProgress::Ended);
///             }
///             if !std::mem::replace(&mut self.asked, true) {
///                 context.request_splits();
///             }
///             return Ok(ReadProgress::Waiting);
///         };
///         let to = range.end.min(range.next + most as u64);
///         out.split(&range.split_id()).collect_all(range.next..to);
///         range.next = to;
///         if range.next == range.end {
///             out.release_split(&range.split_id());
///             self.ranges.pop_front();
///         }
///         Ok(ReadProgress::More)
///     }
///     fn add_splits(
///         &mut self,
///         splits: Vec<Range>,
///         _context: &mut ReaderContext<'_>,
///     ) -> Result<(), BoxError> {
///         self.asked = false;
///         self.ranges.extend(splits);
///         Ok(())
///     }
///     fn no_more_splits(&mut self) {
///         self.no_more = true;
///     }
///     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Range>, BoxError> {
///         Ok(self.ranges.iter().cloned().collect())
///     }
/// }
///
/// fn squares(env: &Environment) {
///     let numbers =
///         env.from_source(Numbers { below: 100 }, WatermarkStrategy::no_watermarks(), "numbers");
///     numbers.map(|n| n * n).print();
/// }
///
/// # fn test() -> Result<(), streaming::TaskError> {
/// let mut test = streaming::testing::source(Numbers { below: 25 }).open()?;
/// test.run()?;
/// assert_eq!(test.output(), (0..25).collect::<Vec<_>>());
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
pub trait Source: Send + 'static {
    /// What the source's readers emit.
    type Record: Record;
    /// What the source is divided into.
    type Split: SourceSplit;
    /// Who hands out the splits; [`NoEnumerator`] where nothing has to be handed out at run time.
    type Enumerator: SplitEnumerator<Split = Self::Split>;
    /// Who reads splits.
    type Reader: SourceReader<Record = Self::Record, Split = Self::Split>;

    /// Returns whether the source ends by itself. A job is bounded if all its sources are.
    fn boundedness(&self) -> Boundedness;

    /// Makes the enumerator, beside the JobMaster: a fresh one, or one that goes on from `restored`. The context may be kept,
    /// cloned, and used from other threads.
    ///
    /// # Errors
    /// When the input cannot be looked at, as where a file is absent; the job fails with the error.
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Self::Split>,
        restored: Option<<Self::Enumerator as SplitEnumerator>::Checkpoint>,
    ) -> Result<Self::Enumerator, BoxError>;

    /// Makes the reader of one subtask. Splits from a snapshot come afterwards, by [`SourceReader::add_splits`].
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn create_reader(&self, context: &OperatorContext) -> Result<Self::Reader, BoxError>;
}

/// Hands out the splits of a source. It runs once per job, beside the JobMaster, on a thread of its own: a method that takes its
/// time delays this source's other requests, and nothing else.
///
/// Splits are given out by the [`SplitEnumeratorContext`], at any time and from any thread: a request can be answered later,
/// and splits can be given to a subtask that has not asked.
pub trait SplitEnumerator: Send + 'static {
    /// What it hands out.
    type Split: SourceSplit;
    /// What it keeps in a checkpoint.
    type Checkpoint: FlottType;

    /// Is false for [`NoEnumerator`] alone: the source then has no coordinator, and its readers hear nothing but the end of
    /// splits.
    #[doc(hidden)]
    const COORDINATED: bool = true;

    /// Is called once, before every other method.
    ///
    /// # Errors
    /// The job fails with what is returned, as it does with the errors of the other methods.
    fn start(&mut self) -> Result<(), BoxError> {
        Ok(())
    }
    /// The reader of a subtask has registered, with the splits that it holds from a snapshot. From here on splits can be given to
    /// the subtask.
    ///
    /// # Errors
    /// See [`SplitEnumerator::start`].
    fn add_reader(&mut self, _subtask: u32, _held: Vec<Self::Split>) -> Result<(), BoxError> {
        Ok(())
    }
    /// The reader of a subtask asks for splits. The answer may come later.
    ///
    /// # Errors
    /// See [`SplitEnumerator::start`].
    fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError>;
    /// An attempt of a subtask has ended without success: takes back the splits that it was given since the last completed
    /// checkpoint.
    ///
    /// # Errors
    /// See [`SplitEnumerator::start`].
    fn add_splits_back(&mut self, splits: Vec<Self::Split>, subtask: u32) -> Result<(), BoxError>;
    /// The reader of a subtask sent an event of the source's own.
    ///
    /// # Errors
    /// See [`SplitEnumerator::start`].
    fn handle_source_event(&mut self, _subtask: u32, _event: Vec<u8>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Returns what a restored enumerator has to know: the splits that are not given out, and what it has seen of its input.
    ///
    /// # Errors
    /// The checkpoint fails with what is returned.
    fn snapshot_state(&mut self, checkpoint: u64) -> Result<Self::Checkpoint, BoxError>;
    /// A checkpoint is complete everywhere.
    ///
    /// # Errors
    /// See [`SplitEnumerator::start`].
    fn notify_checkpoint_complete(&mut self, _checkpoint: u64) -> Result<(), BoxError> {
        Ok(())
    }
    /// Is called once, when the job is over or the enumerator is started anew.
    fn close(&mut self) {}
}

/// Reads splits in one subtask. No method may block: what has to wait is handed to [`ReaderContext::spawn_io`].
pub trait SourceReader: Send + 'static {
    /// What it emits.
    type Record: Record;
    /// What it reads.
    type Split: SourceSplit;

    /// Is called once, behind the splits of a snapshot and before everything else.
    ///
    /// # Errors
    /// The task fails with what is returned, as it does with the errors of the other methods. A
    /// [`TaskError`](crate::TaskError) stays what it is.
    fn start(&mut self, _context: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Emits at most about `most` records, and returns within milliseconds.
    ///
    /// # Errors
    /// See [`SourceReader::start`].
    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<Self::Record>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError>;
    /// Takes splits: from a snapshot, or from the enumerator. A reader that goes on from a snapshot is called with the snapshot's
    /// splits before everything else, also where no split was left.
    ///
    /// # Errors
    /// See [`SourceReader::start`].
    fn add_splits(
        &mut self,
        splits: Vec<Self::Split>,
        context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError>;
    /// The enumerator has no more splits for this subtask; nothing else comes from it either.
    fn no_more_splits(&mut self);
    /// The enumerator sent an event of the source's own.
    ///
    /// # Errors
    /// See [`SourceReader::start`].
    fn handle_source_event(
        &mut self,
        _event: Vec<u8>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// I/O that [`ReaderContext::spawn_io`] started under this ticket is done.
    ///
    /// # Errors
    /// See [`SourceReader::start`].
    fn io_done(
        &mut self,
        _ticket: u32,
        _result: Result<Vec<u8>, String>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Returns the splits that are not read to their ends, each with the place behind the records that were emitted.
    ///
    /// # Errors
    /// The task fails with what is returned.
    fn snapshot_state(&mut self, checkpoint: u64) -> Result<Vec<Self::Split>, BoxError>;
    /// A checkpoint is complete everywhere: what the reader read before can be acknowledged to its system.
    ///
    /// # Errors
    /// See [`SourceReader::start`].
    fn notify_checkpoint_complete(&mut self, _checkpoint: u64) -> Result<(), BoxError> {
        Ok(())
    }
    /// Is called once, when the task is over, whichever way.
    fn close(&mut self) {}
}

/// The enumerator of a source whose readers know by themselves what to read: by the numbers of their subtasks, or because there
/// is one subtask only. Such a source has no coordinator.
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
