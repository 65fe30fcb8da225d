//! The traits of a source: splits, the split enumerator that assigns them, and the readers of the subtasks, as in Flink's
//! FLIP-27. The enumerator is called by `coordinator.rs`, the reader by the head of the source's chain (`chain/source.rs`).

use super::{ReaderContext, ReaderOutput, SplitEnumeratorContext};
use crate::{
    api::Environment,
    operators::{BoxError, OperatorContext},
    types::{FlottType, Record, fingerprint},
};
use model::graph::StateDeclaration;

/// Says whether a source ends by itself; [`Source::boundedness`] returns it when the graph is built. A job is bounded if all its sources
/// are: only then may it use `write_text`, and `collect` shows its results at the end.
///
/// ```
/// use streaming::sources::{Boundedness, SequenceSource, SocketSource, Source};
///
/// assert_eq!(SequenceSource::new(0..10).boundedness(), Boundedness::Bounded);
/// let lines = SocketSource::text("localhost:9999");
/// assert_eq!(lines.boundedness(), Boundedness::ContinuousUnbounded);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boundedness {
    /// The input has an end; the source finishes there.
    Bounded,
    /// The input has no known end: the source is read until the job is cancelled or stopped, or until a reader says that it has ended.
    ContinuousUnbounded,
}

/// A part of a source's input that one subtask reads: a range of a file, a partition of a topic, a table.
///
/// A split is also its reader's state: a snapshot contains each split together with the position up to which it was read.
pub trait SourceSplit: FlottType + Clone {
    /// Returns the split's id, unique within its source. The id must not change while the split is being read: the watermark of the
    /// split is kept under it.
    fn split_id(&self) -> String;
}

/// The outcome of one call of [`SourceReader::poll_next`], which tells the task when to poll the reader again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadProgress {
    /// More input is available: the reader is polled again at once.
    More,
    /// No input is available: the reader is polled again after an event that it asked its context for (a timer, I/O, splits, an
    /// event of the enumerator), or earlier.
    Waiting,
    /// All input was read and no split follows: the subtask emits the final watermark and the end of input, and finishes. In a job with
    /// periodic checkpoints, with sinks that commit, or with an unbounded source, it first waits for the final checkpoint. The reader is
    /// not polled again, but `snapshot_state` is still called.
    Ended,
}

/// A source: creates the enumerator that divides the input into splits and the readers that turn splits into records.
///
/// One [`SplitEnumerator`] runs beside the JobMaster; it finds the splits and assigns them to subtasks. A [`SourceReader`] in each subtask
/// reads the splits assigned to it. After a failure of a subtask, it restarts from the newest complete checkpoint with all that it
/// exchanges records with, and the enumerator goes on; [`SplitEnumerator`] says how splits come back.
/// [`Environment::from_source`](crate::Environment::from_source) creates a stream of a source.
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
///     fn close(&mut self) {
///         eprintln!("{} ranges were not assigned", self.waiting.len());
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
///     fn close(&mut self) {
///         self.ranges.clear();
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
    /// The type of the records that the readers emit.
    type Record: Record;
    /// The type of the parts into which the input is divided; each part is read by one subtask.
    type Split: SourceSplit;
    /// The type of the enumerator that assigns splits; [`NoEnumerator`](super::NoEnumerator) if nothing has to be assigned at
    /// run time.
    type Enumerator: SplitEnumerator<Split = Self::Split>;
    /// The type of the readers, one per subtask.
    type Reader: SourceReader<Record = Self::Record, Split = Self::Split>;

    /// Returns whether the source ends by itself. A job is bounded if all its sources are. Called once, when the graph is built.
    fn boundedness(&self) -> Boundedness;

    /// Checks the source when the graph is built, and makes its paths absolute where relative ones are allowed; does nothing by
    /// default. A mistake is recorded in the environment and fails the build. `_operator`: the operator's name, for errors.
    #[doc(hidden)]
    fn resolve(&mut self, _env: &Environment, _operator: &str) {}

    /// Returns true if the source can have one subtask only; false by default. Such a source is a chain of its own, and its records
    /// are distributed round-robin to the subtasks of the next operator. Called once, when the graph is built.
    #[doc(hidden)]
    fn is_single(&self) -> bool {
        false
    }

    /// Creates the enumerator, beside the JobMaster: from the state `restored` of a checkpoint, or with `None` from scratch. The
    /// context may be kept, cloned, and used from other threads, which must not assign splits. May block: it runs on the enumerator's
    /// thread.
    ///
    /// # Errors
    /// Returns an error if the input cannot be examined, for instance because a file is absent; the job fails with it, before a reader
    /// starts, and is not restarted.
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<Self::Split>,
        restored: Option<<Self::Enumerator as SplitEnumerator>::Checkpoint>,
    ) -> Result<Self::Enumerator, BoxError>;

    /// Creates the reader of one subtask, each time the subtask is deployed, on the task's thread. The splits of a snapshot are passed
    /// afterwards, to [`SourceReader::add_splits`].
    ///
    /// # Errors
    /// The task fails with the returned error, as with that of [`SourceReader::start`].
    fn create_reader(&self, context: &OperatorContext) -> Result<Self::Reader, BoxError>;
}

/// Assigns the splits of a source to its subtasks. One enumerator runs per source and job, beside the JobMaster, on a thread of
/// its own: a slow method delays this source's other requests and, but for two cases, nothing else. The tasks of all operators that are
/// connected with the source, other sources of the job included, are deployed when [`Source::create_enumerator`] and
/// [`SplitEnumerator::start`] have returned for every enumerator among them; after 120 s the start has failed, and the restart strategy
/// decides what follows. A checkpoint of the job waits for [`SplitEnumerator::snapshot_state`] and fails after 60 s.
///
/// Splits are assigned through the [`SplitEnumeratorContext`], in any of these methods: a request can be answered later, and a subtask can
/// get splits that it has not asked for. A thread of the enumerator's own, which looks for new input, assigns nothing; it has
/// [`SplitEnumerator::woken`] called by an [`EnumeratorWaker`](super::EnumeratorWaker), which has an example.
///
/// [`Source::create_enumerator`] makes the enumerator; `start` is called next, then `add_reader` for each subtask when its reader has
/// started, and the other methods as requests, events, wakes and checkpoints come; `close` is the last call. An error of `start` fails the
/// job for good; an error of another method fails the source, and the restart strategy decides what follows.
///
/// # Failures
/// When a subtask of a source fails, the subtasks that it is connected with by records restart from the newest complete checkpoint; a sink
/// with a global committer connects all of its writers. All other subtasks and the enumerator go on. The enumerator gets the splits back
/// that were assigned to the failed attempts since that checkpoint ([`SplitEnumerator::add_splits_back`]), and each new reader gets the
/// splits of its snapshot back, and registers with them ([`SplitEnumerator::add_reader`]). So no split is lost and none is read by two.
/// For example: checkpoint 5 is complete; then the enumerator assigns split *a* to subtask 1, which fails. *a* comes back to the
/// enumerator, which assigns it again, to whichever subtask asks first. A split that subtask 1 held in checkpoint 5 comes back to its
/// reader with its position, and not to the enumerator. Events are in no checkpoint: the enumerator sends those again in `add_reader` that
/// a new reader must know.
///
/// When the enumerator fails, or the process that it runs in, all readers of the source and all that is connected to them restart with it.
/// A new one is created with the state of [`SplitEnumerator::snapshot_state`] in the newest complete checkpoint, or without state if there
/// is none. In the example, that state has *a*, which was not assigned yet. The same happens if the job continues from an older
/// checkpoint, because the newest one can't be read, after a change of the JobMaster, and after every failure if the source is connected
/// with [`Stream::collect`](crate::Stream::collect).
pub trait SplitEnumerator: Send + 'static {
    /// The type of the splits that the enumerator assigns.
    type Split: SourceSplit;
    /// The type of the enumerator's state in a checkpoint, from which a new enumerator continues.
    type Checkpoint: FlottType;

    /// `false` for [`NoEnumerator`](super::NoEnumerator) only: the source then has no coordinator, and each reader gets
    /// [`SourceReader::no_more_splits`] at its start.
    #[doc(hidden)]
    const COORDINATED: bool = true;

    /// Starts the enumerator. Called once, before every other method, on the enumerator's thread, as they are. The tasks that are connected
    /// with the source are not deployed before it returns.
    ///
    /// # Errors
    /// A returned error fails the job, which is not restarted; the enumerator is closed. What may fail for a while belongs on a thread that
    /// reports by [`SplitEnumeratorContext::fail`].
    fn start(&mut self) -> Result<(), BoxError> {
        Ok(())
    }
    /// Reacts to the registration of a subtask's reader; `_held` are the splits that the reader has restored from a snapshot, which
    /// must not be assigned again. Called once per execution attempt; from this call on splits can be assigned to the subtask. A subtask
    /// that had read everything in the restored checkpoint does not register.
    ///
    /// # Errors
    /// A returned error fails the source: the restart strategy decides what follows; where none is configured, the job fails.
    fn add_reader(&mut self, _subtask: u32, _held: Vec<Self::Split>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Handles a reader's request for splits. Splits, or [`SplitEnumeratorContext::no_more_splits`], may be sent now or later.
    ///
    /// # Errors
    /// A returned error fails the source: the restart strategy decides what follows; where none is configured, the job fails.
    fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError>;
    /// Reacts to a wake of the enumerator's own threads ([`EnumeratorWaker::wake`](super::EnumeratorWaker::wake)), on the enumerator's
    /// thread like every other method: what was found meanwhile can be assigned here. Called once for all wakes since the last call, after
    /// `start`, and not after `close`. Does nothing by default.
    ///
    /// # Errors
    /// A returned error fails the source: the restart strategy decides what follows; where none is configured, the job fails.
    fn woken(&mut self) -> Result<(), BoxError> {
        Ok(())
    }
    /// Takes back the splits that were assigned to an attempt of a subtask since the last complete checkpoint, because the attempt has
    /// ended. There may be none: requests of the attempt that were not answered are void then, too, and nothing can be assigned to the
    /// subtask before its next attempt registers ([`SplitEnumerator::add_reader`]). Where event time grows from split to split, they are
    /// to be assigned before later ones: records behind the watermark are late.
    ///
    /// # Errors
    /// A returned error fails the source: the restart strategy decides what follows; where none is configured, the job fails.
    fn add_splits_back(&mut self, splits: Vec<Self::Split>, subtask: u32) -> Result<(), BoxError>;
    /// Handles an event that a subtask's reader sent with [`ReaderContext::send_event`]. Drops it by default.
    ///
    /// # Errors
    /// A returned error fails the source: the restart strategy decides what follows; where none is configured, the job fails.
    fn handle_source_event(&mut self, _subtask: u32, _event: Vec<u8>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Returns the state from which a restored enumerator continues: the splits not yet assigned, and how much of the input was
    /// discovered. Called before any subtask takes its snapshot of the checkpoint. Splits and events that are sent to a reader after this
    /// call reach it only when it has taken its own snapshot, or the checkpoint has ended.
    ///
    /// # Errors
    /// A returned error fails the checkpoint and the source: the restart strategy decides what follows; where none is configured, the job
    /// fails.
    fn snapshot_state(&mut self, checkpoint: u64) -> Result<Self::Checkpoint, BoxError>;
    /// Records that a checkpoint, or the savepoint of a stop, is complete on all subtasks and coordinators: what it contains can be
    /// acknowledged to the source's system. May be called twice for one checkpoint. Does nothing by default.
    ///
    /// # Errors
    /// A returned error fails the source: the restart strategy decides what follows; where none is configured, the job fails.
    fn notify_checkpoint_complete(&mut self, _checkpoint: u64) -> Result<(), BoxError> {
        Ok(())
    }
    /// Releases the enumerator's resources. Called once: when the job has ended, before a new enumerator takes over, after
    /// [`SplitEnumerator::start`] returned an error, or after another method panicked. No other method is called afterwards. Not called if
    /// the process is killed.
    fn close(&mut self) {}
}

/// Reads splits in one subtask, on the task's thread. After a restore `add_splits` comes first, with the splits of the snapshot (even if
/// there are none); then, and without a restore at once, `start`, and after it everything else, `close` last. If the subtask had read
/// everything in the restored checkpoint, `no_more_splits` comes in place of `start`, and the reader is never polled. No method may block:
/// pass work that waits to [`ReaderContext::spawn_io`]. An error that a method returns fails the task.
pub trait SourceReader: Send + 'static {
    /// The type of the records that the reader emits.
    type Record: Record;
    /// The type of the splits that the reader reads.
    type Split: SourceSplit;

    /// Starts the reader. Called once, after [`SourceReader::add_splits`] with the splits of a snapshot (if there is one) and before
    /// every other method. Not called if the subtask had read everything in the restored checkpoint.
    ///
    /// # Errors
    /// The task fails with the returned error, as it does with the errors of the other methods. A
    /// [`TaskError`](crate::TaskError) is reported unchanged; any other error becomes an error of user code.
    fn start(&mut self, _context: &mut ReaderContext<'_>) -> Result<(), BoxError> {
        Ok(())
    }
    /// Reads and emits up to about `most` records, and returns within milliseconds; a few more do no harm. `most` is from 1 to 1,024: less
    /// for large records and slow consumers, and 1 with a buffer timeout of 0. The result says when the reader is polled again. Not called
    /// while the rest of the chain takes no records.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<Self::Record>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError>;
    /// Adds splits to those that the reader reads, from a snapshot or from the enumerator. The splits of a snapshot are added before
    /// every other call, even if the snapshot contains none.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn add_splits(
        &mut self,
        splits: Vec<Self::Split>,
        context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError>;
    /// Records that the enumerator has no more splits and no more events for this subtask, so that the reader may end once its
    /// splits are read. Called at most once: without an enumerator right after [`SourceReader::start`]; instead of `start` if the subtask
    /// had read everything in the restored checkpoint.
    fn no_more_splits(&mut self);
    /// Handles an event that the enumerator sent with [`SplitEnumeratorContext::send_event`]. Drops it by default.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn handle_source_event(
        &mut self,
        _event: Vec<u8>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Takes the result of I/O that [`ReaderContext::spawn_io`] started with this ticket; an error is the reason, as text, why there is
    /// none. The reader is polled afterwards. Drops the result by default.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn io_done(
        &mut self,
        _ticket: u32,
        _result: Result<Vec<u8>, String>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        Ok(())
    }
    /// Returns the splits that are not read to their ends, each with the position after the last record that was emitted. Called for
    /// each checkpoint and savepoint, between two polls, and also after the reader has ended. A split that is left out is not read again
    /// after a restore.
    ///
    /// # Errors
    /// The task fails with the returned error.
    fn snapshot_state(&mut self, checkpoint: u64) -> Result<Vec<Self::Split>, BoxError>;
    /// Records that a checkpoint, or the savepoint of a stop, is complete everywhere: input read before it can be acknowledged to the
    /// source's system. May be called twice for one checkpoint. Does nothing by default.
    ///
    /// # Errors
    /// A returned error fails the task.
    fn notify_checkpoint_complete(&mut self, _checkpoint: u64) -> Result<(), BoxError> {
        Ok(())
    }
    /// Releases the reader's resources. Called when the task is over, whether it finished, failed or was cancelled, and also if
    /// [`SourceReader::start`] was never reached, but not if the process is killed; must be harmless when called twice.
    fn close(&mut self) {}
}

/// Returns the declarations of a source's state for the job graph, so that a restore into another kind of source is refused before
/// anything is stopped: the types of the splits and of the enumerator's checkpoint, by name and structure.
pub(crate) fn declare<S: Source>() -> Vec<StateDeclaration> {
    let declaration = |kind: &str, role: &str, schema| StateDeclaration {
        name: kind.to_owned(),
        kind: kind.to_owned(),
        schemas: [(role.to_owned(), schema)].into(),
        types: Default::default(),
        ttl_ms: None,
        settings: None,
    };
    let mut states = vec![declaration(StateDeclaration::SPLITS, "split", shown::<S::Split>())];
    if S::Enumerator::COORDINATED {
        let checkpoint = shown::<<S::Enumerator as SplitEnumerator>::Checkpoint>();
        states.push(declaration(StateDeclaration::ENUMERATOR, "value", checkpoint));
    }
    states
}

/// Returns the name of a type for people, with the fingerprint of its structure.
fn shown<T: FlottType>() -> String {
    format!("{} ({})", T::type_name(), fingerprint::<T>())
}
