//! The handles by which an enumerator reaches its readers and its own thread.

use super::{SourceSplit, coordinator::Shared, protocol::ToReader};
use crate::{
    operators::{BoxError, text_of},
    seam::CoordinatorWaker,
    types::encode_one,
};
use std::{marker::PhantomData, sync::Arc};
use thiserror::Error;

/// The error of sending to a subtask (the field) that has no registered reader: none has registered, or it
/// was told that no more splits follow. The module [`sources`](super) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "subtask {0} has no reader that takes splits: assign them after add_reader, and before no_more_splits"
)]
pub struct NotRegistered(pub u32);

/// The error of [`SplitEnumeratorContext::assign_splits`]; nothing is assigned then.
///
/// ```
/// use streaming::sources::{AssignError, NotRegistered, SourceSplit, SplitEnumeratorContext};
///
/// /// Assigns splits to a subtask. Returns them if the subtask's reader has failed meanwhile: its successor registers itself.
/// fn assign<S: SourceSplit>(
///     context: &SplitEnumeratorContext<S>,
///     subtask: u32,
///     splits: Vec<S>,
/// ) -> Result<Vec<S>, AssignError> {
///     match context.assign_splits(subtask, &splits) {
///         Ok(()) => Ok(Vec::new()),
///         Err(AssignError::NotRegistered(NotRegistered(_))) => Ok(splits),
///         Err(mistake @ AssignError::OutsideOfMethod) => Err(mistake),
///     }
/// }
/// assert!(AssignError::from(NotRegistered(3)).to_string().contains("subtask 3 has no reader"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AssignError {
    /// The subtask has no registered reader.
    #[error(transparent)]
    NotRegistered(#[from] NotRegistered),
    /// The call was made outside of a method of the enumerator, or by another thread than the one that runs the method.
    #[error(
        "splits are assigned in methods of the enumerator only, on their thread: another thread calls wake, and woken assigns the splits"
    )]
    OutsideOfMethod,
}

/// The handle by which an enumerator assigns splits and sends events. It can be cloned, kept, and used from any thread, but splits are
/// assigned in methods of [`SplitEnumerator`](super::SplitEnumerator) only: a thread of the enumerator's own calls
/// [`EnumeratorWaker::wake`] instead. When the enumerator has been closed, its calls reach nobody.
pub struct SplitEnumeratorContext<S> {
    shared: Arc<Shared>,
    split: PhantomData<fn(S)>,
}

impl<S> Clone for SplitEnumeratorContext<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), split: PhantomData }
    }
}

impl<S> SplitEnumeratorContext<S> {
    /// Creates the context of a coordinator's enumerator.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, split: PhantomData }
    }
}

impl<S: SourceSplit> SplitEnumeratorContext<S> {
    /// Returns a handle by which a thread of the enumerator's own has [`SplitEnumerator::woken`](super::SplitEnumerator::woken) called.
    pub fn waker(&self) -> EnumeratorWaker {
        EnumeratorWaker(self.shared.waker.clone())
    }

    /// Returns the number of the source's subtasks, which have the indices from 0 on.
    pub fn current_parallelism(&self) -> u32 {
        self.shared.parallelism
    }

    /// Returns the value of a job option, `None` if it is not set. Of the cluster's options only those that begin with `s3.` are
    /// included.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.shared.options.get(key).map(String::as_str)
    }

    /// Returns the subtasks, in ascending order, whose readers have registered and have not been sent
    /// [`SplitEnumeratorContext::no_more_splits`]. A failed reader counts until [`SplitEnumerator::add_splits_back`] is called for its
    /// subtask, or a new enumerator is created.
    ///
    /// [`SplitEnumerator::add_splits_back`]: super::SplitEnumerator::add_splits_back
    pub fn registered_readers(&self) -> Vec<u32> {
        self.shared.registered()
    }

    /// Assigns splits to a subtask, whether or not it has asked for some, in a method of the enumerator. Returns before the reader has the
    /// splits. Other threads must not assign splits, because the enumerator's snapshot could be taken between their choice of a split and
    /// its assignment: the split would be in no part of the checkpoint, or in two, and be lost or read twice after a restore. If the
    /// subtask fails before a checkpoint that contains the splits as its own is complete, the enumerator gets them back;
    /// see [`SplitEnumerator`](super::SplitEnumerator).
    ///
    /// # Errors
    /// Returns [`AssignError::NotRegistered`] if no reader of the subtask is registered, or it was told that no more splits follow, and
    /// [`AssignError::OutsideOfMethod`] on another thread or outside of the enumerator's methods; nothing is assigned then.
    pub fn assign_splits(&self, subtask: u32, splits: impl AsRef<[S]>) -> Result<(), AssignError> {
        if !self.shared.is_in_method() {
            return Err(AssignError::OutsideOfMethod);
        }
        let splits = splits.as_ref().iter().map(encode_one).collect();
        Ok(self.shared.say(subtask, ToReader::Splits(splits))?)
    }

    /// Tells a subtask that it gets no more splits. Nothing else can be sent to this attempt afterwards; a repetition does nothing.
    ///
    /// # Errors
    /// Returns [`NotRegistered`] if no reader of the subtask is registered; nothing is sent then.
    pub fn no_more_splits(&self, subtask: u32) -> Result<(), NotRegistered> {
        self.shared.say(subtask, ToReader::NoMoreSplits)
    }

    /// Sends an event that the source defines to a subtask's [`SourceReader::handle_source_event`](super::SourceReader). Returns before the
    /// reader has the event, which is in no checkpoint: a failure may lose it.
    ///
    /// # Errors
    /// Returns [`NotRegistered`] if no reader of the subtask is registered, or it was told that no more splits follow.
    pub fn send_event(&self, subtask: u32, event: Vec<u8>) -> Result<(), NotRegistered> {
        self.shared.say(subtask, ToReader::Event(event))
    }

    /// Fails the source with an error, from a thread of the enumerator's own; methods of [`SplitEnumerator`](super::SplitEnumerator)
    /// return theirs instead. The job's restart strategy decides what follows; where none is configured, the job fails. Only the first call
    /// counts.
    pub fn fail(&self, why: impl Into<BoxError>) {
        self.shared.fail(&text_of(&why.into()));
    }
}

/// A handle by which a thread of an enumerator's own has [`SplitEnumerator::woken`](super::SplitEnumerator::woken) called, so that the
/// thread can look for splits while the enumerator assigns them between its snapshots. [`SplitEnumeratorContext::waker`] makes it; it can
/// be cloned and sent to other threads.
///
/// A source of tables, which a thread of its enumerator discovers:
///
/// ```
/// use std::{collections::VecDeque, sync::mpsc};
/// use streaming::{operators::*, sources::*, testing};
///
/// /// A table, which is one record.
/// #[derive(Clone, derive::FlottType)]
/// #[flott(crate = streaming)]
/// struct Table(u64);
///
/// impl SourceSplit for Table {
///     fn split_id(&self) -> String {
///         self.0.to_string()
///     }
/// }
///
/// /// Assigns each table to the next reader that requests one.
/// struct Tables {
///     context: SplitEnumeratorContext<Table>,
///     found: mpsc::Receiver<Table>,
///     waiting: VecDeque<Table>,
///     /// The number of the next table to be found.
///     next: u64,
///     /// Subtasks that wait for a table.
///     asking: VecDeque<u32>,
/// }
///
/// impl Tables {
///     /// Looks for tables, on a thread that only finds them. Table 3 is the last one.
///     fn look(first: u64, found: mpsc::Sender<Table>, waker: EnumeratorWaker) {
///         std::thread::spawn(move || {
///             for id in first..=3 {
///                 // The enumerator may be closed by now; then a wake does nothing.
///                 let _ = found.send(Table(id));
///                 waker.wake();
///             }
///         });
///     }
/// }
///
/// impl SplitEnumerator for Tables {
///     type Split = Table;
///     type Checkpoint = (Vec<Table>, u64);
///
///     fn woken(&mut self) -> Result<(), BoxError> {
///         for table in self.found.try_iter() {
///             self.next = table.0 + 1;
///             self.waiting.push_back(table);
///         }
///         while let Some(subtask) = self.asking.pop_front() {
///             match self.waiting.pop_front() {
///                 Some(table) => self.context.assign_splits(subtask, [table])?,
///                 None if self.next > 3 => self.context.no_more_splits(subtask)?,
///                 None => {
///                     self.asking.push_front(subtask);
///                     break;
///                 }
///             }
///         }
///         Ok(())
///     }
///     fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError> {
///         self.asking.push_back(subtask);
///         self.woken()
///     }
///     fn add_splits_back(&mut self, tables: Vec<Table>, subtask: u32) -> Result<(), BoxError> {
///         // The subtask asks again when it has started again.
///         self.asking.retain(|asking| *asking != subtask);
///         self.waiting.extend(tables);
///         self.woken()
///     }
///     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<(Vec<Table>, u64), BoxError> {
///         // A table that the thread has sent and `woken` has not seen is found again after a restore.
///         Ok((self.waiting.iter().cloned().collect(), self.next))
///     }
/// }
///
/// struct Database;
///
/// impl Source for Database {
///     type Record = u64;
///     type Split = Table;
///     type Enumerator = Tables;
///     type Reader = TableReader;
///
///     fn boundedness(&self) -> Boundedness {
///         Boundedness::Bounded
///     }
///     fn create_enumerator(
///         &self,
///         context: SplitEnumeratorContext<Table>,
///         restored: Option<(Vec<Table>, u64)>,
///     ) -> Result<Tables, BoxError> {
///         let (waiting, next) = restored.unwrap_or_default();
///         let (finds, found) = mpsc::channel();
///         Tables::look(next, finds, context.waker());
///         Ok(Tables { context, found, waiting: waiting.into(), next, asking: VecDeque::new() })
///     }
///     fn create_reader(&self, _context: &OperatorContext) -> Result<TableReader, BoxError> {
///         Ok(TableReader::default())
///     }
/// }
/// # #[derive(Default)]
/// # struct TableReader(VecDeque<Table>, bool, bool);
/// # impl SourceReader for TableReader {
/// #     type Record = u64;
/// #     type Split = Table;
/// #     fn poll_next(
/// #         &mut self,
/// #         _most: usize,
/// #         out: &mut ReaderOutput<u64>,
/// #         context: &mut ReaderContext<'_>,
/// #     ) -> Result<ReadProgress, BoxError> {
/// #         if let Some(table) = self.0.pop_front() {
/// #             out.collect(table.0);
/// #             self.1 = false;
/// #             return Ok(ReadProgress::More);
/// #         }
/// #         if self.2 {
/// #             return Ok(ReadProgress::Ended);
/// #         }
/// #         if !std::mem::replace(&mut self.1, true) {
/// #             context.request_splits();
/// #         }
/// #         Ok(ReadProgress::Waiting)
/// #     }
/// #     fn add_splits(&mut self, tables: Vec<Table>, _: &mut ReaderContext<'_>) -> Result<(), BoxError> {
/// #         self.0.extend(tables);
/// #         Ok(())
/// #     }
/// #     fn no_more_splits(&mut self) {
/// #         self.2 = true;
/// #     }
/// #     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Table>, BoxError> {
/// #         Ok(self.0.iter().cloned().collect())
/// #     }
/// # }
///
/// # fn test() -> Result<(), streaming::TaskError> {
/// let mut test = testing::source(Database).open()?;
/// while !test.has_ended() {
///     // The thread finds tables meanwhile.
///     test.poll()?;
/// }
/// assert_eq!(test.output(), [0, 1, 2, 3]);
/// # Ok(())
/// # }
/// # test().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct EnumeratorWaker(CoordinatorWaker);

impl EnumeratorWaker {
    /// Asks for a call of [`SplitEnumerator::woken`](super::SplitEnumerator::woken) and returns at once. Wakes before the call begins are
    /// one; a wake during the call leads to another one. A wake before [`SplitEnumerator::start`](super::SplitEnumerator::start) has
    /// returned waits for that; one after [`SplitEnumerator::close`](super::SplitEnumerator::close) does nothing.
    pub fn wake(&self) {
        self.0.wake();
    }
}
