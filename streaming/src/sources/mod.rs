//! Sources: the traits that a source implements, and the built-in sources (text files, collections, sequences, a socket).
//!
//! A reader runs in each subtask of a source. If the input must be divided at run time, a split enumerator runs beside the JobMaster and
//! assigns splits to the readers. A reader must not block: its I/O runs beside the task. An enumerator has a thread of its own; what
//! else an enumerator runs, such as a thread that looks for new input, wakes it by an [`EnumeratorWaker`], which has an example.
//!
//! [`Source`] has a small example. This one reads the queues of a service, one per subtask, until one of them has sent the end
//! of the day:
//!
//! ```
//! use std::{collections::VecDeque, path::PathBuf};
//! use streaming::{
//!     operators::{BoxError, OperatorContext},
//!     sources::*,
//!     testing,
//! };
//!
//! /// Stands in for a client of the service.
//! #[derive(Clone, Default)]
//! struct Client {
//!     spool: PathBuf,
//! }
//!
//! impl Client {
//!     /// Fetches messages from position `from` on, and acknowledges those before `acknowledged`. No message: the day is over.
//!     async fn fetch(self, from: u64, acknowledged: u64) -> Result<Vec<u8>, String> {
//!         assert!(acknowledged <= from && !self.spool.as_os_str().is_empty());
//!         Ok(b"abc".iter().skip(from as usize).copied().collect())
//!     }
//!     /// Waits until the service is gone.
//!     fn watch() -> std::io::Error {
//!         loop {
//!             std::thread::park();
//!         }
//!     }
//! }
//!
//! /// A queue, and the position up to which it was read.
//! #[derive(Clone, derive::FlottType)]
//! # #[flott(crate = streaming)]
//! struct Queue {
//!     id: u32,
//!     next: u64,
//! }
//!
//! impl SourceSplit for Queue {
//!     fn split_id(&self) -> String {
//!         self.id.to_string()
//!     }
//! }
//!
//! struct Queues {
//!     context: SplitEnumeratorContext<Queue>,
//!     /// The event that says that the day is over.
//!     day_over: Option<Vec<u8>>,
//! }
//!
//! impl SplitEnumerator for Queues {
//!     type Split = Queue;
//!     type Checkpoint = Option<Vec<u8>>;
//!
//!     fn start(&mut self) -> Result<(), BoxError> {
//!         let context = self.context.clone();
//!         std::thread::spawn(move || context.fail(Client::watch()));
//!         Ok(())
//!     }
//!     fn add_reader(&mut self, subtask: u32, held: Vec<Queue>) -> Result<(), BoxError> {
//!         if held.is_empty() {
//!             self.context.assign_splits(subtask, [Queue { id: subtask, next: 0 }])?;
//!         }
//!         // A failure loses events: the subtask's next attempt is told again.
//!         if let Some(event) = &self.day_over {
//!             self.context.send_event(subtask, event.clone())?;
//!         }
//!         Ok(())
//!     }
//!     fn handle_split_request(&mut self, _subtask: u32) -> Result<(), BoxError> {
//!         Ok(())
//!     }
//!     /// Tells all readers what one of them has found: the day is over.
//!     fn handle_source_event(&mut self, _subtask: u32, event: Vec<u8>) -> Result<(), BoxError> {
//!         for reader in self.context.registered_readers() {
//!             match self.context.send_event(reader, event.clone()) {
//!                 Ok(()) => {}
//!                 // It was told already that no more splits follow.
//!                 Err(NotRegistered(_)) => {}
//!             }
//!         }
//!         self.day_over = Some(event);
//!         Ok(())
//!     }
//!     fn add_splits_back(&mut self, _queues: Vec<Queue>, _subtask: u32) -> Result<(), BoxError> {
//!         Ok(()) // `add_reader` assigns the queue to the next attempt.
//!     }
//!     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Option<Vec<u8>>, BoxError> {
//!         Ok(self.day_over.clone())
//!     }
//! }
//!
//! #[derive(Default)]
//! struct QueueReader {
//!     queue: Option<Queue>,
//!     client: Client,
//!     messages: VecDeque<u8>,
//!     fetching: bool,
//!     /// The position in the newest snapshot, and in the newest complete checkpoint.
//!     snapshot: u64,
//!     acknowledged: u64,
//!     over: bool,
//! }
//!
//! impl SourceReader for QueueReader {
//!     type Record = char;
//!     type Split = Queue;
//!
//!     fn start(&mut self, context: &mut ReaderContext<'_>) -> Result<(), BoxError> {
//!         let queues = context.option("program.queues").ok_or("program.queues is not set")?;
//!         if queues.parse() != Ok(context.parallelism()) {
//!             return Err(format!("{queues} queues need as many subtasks").into());
//!         }
//!         self.client.spool = context.tmp_dir().join(format!("spool-{}", context.subtask()));
//!         Ok(())
//!     }
//!     fn poll_next(
//!         &mut self,
//!         _most: usize,
//!         out: &mut ReaderOutput<char>,
//!         context: &mut ReaderContext<'_>,
//!     ) -> Result<ReadProgress, BoxError> {
//!         let Some(queue) = &mut self.queue else { return Ok(ReadProgress::Waiting) };
//!         let id = queue.split_id();
//!         while let Some(message) = self.messages.pop_front() {
//!             out.split(&id).collect_at(char::from(message), queue.next as i64);
//!             queue.next += 1;
//!             if out.is_stopped() {
//!                 return Ok(ReadProgress::More);
//!             }
//!         }
//!         if self.over {
//!             return Ok(ReadProgress::Ended);
//!         }
//!         let mut out: SplitOutput<'_, char> = out.split(&id);
//!         if self.fetching {
//!             out.mark_idle();
//!         } else {
//!             // The event time of a message is its position, so all that follow are later.
//!             out.emit_watermark(queue.next as i64 - 1);
//!             let fetched = self.client.clone().fetch(queue.next, self.acknowledged);
//!             context.spawn_io(Box::pin(fetched), 0);
//!             self.fetching = true;
//!         }
//!         Ok(ReadProgress::Waiting)
//!     }
//!     fn io_done(
//!         &mut self,
//!         _ticket: u32,
//!         result: Result<Vec<u8>, String>,
//!         context: &mut ReaderContext<'_>,
//!     ) -> Result<(), BoxError> {
//!         self.messages = result?.into();
//!         if self.messages.is_empty() {
//!             context.send_event(b"the day is over".to_vec());
//!         } else {
//!             self.fetching = false;
//!         }
//!         Ok(())
//!     }
//!     fn add_splits(
//!         &mut self,
//!         queues: Vec<Queue>,
//!         _context: &mut ReaderContext<'_>,
//!     ) -> Result<(), BoxError> {
//!         self.queue = queues.into_iter().next();
//!         Ok(())
//!     }
//!     fn no_more_splits(&mut self) {}
//!     fn handle_source_event(
//!         &mut self,
//!         _event: Vec<u8>,
//!         _context: &mut ReaderContext<'_>,
//!     ) -> Result<(), BoxError> {
//!         self.over = true;
//!         Ok(())
//!     }
//!     fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<Queue>, BoxError> {
//!         self.snapshot = self.queue.as_ref().map_or(0, |queue| queue.next);
//!         Ok(self.queue.iter().cloned().collect())
//!     }
//!     fn notify_checkpoint_complete(&mut self, _checkpoint: u64) -> Result<(), BoxError> {
//!         self.acknowledged = self.snapshot;
//!         Ok(())
//!     }
//! }
//!
//! struct Messages;
//!
//! impl Source for Messages {
//!     type Record = char;
//!     type Split = Queue;
//!     type Enumerator = Queues;
//!     type Reader = QueueReader;
//!
//!     fn boundedness(&self) -> Boundedness {
//!         Boundedness::Bounded
//!     }
//!     fn create_enumerator(
//!         &self,
//!         context: SplitEnumeratorContext<Queue>,
//!         restored: Option<Option<Vec<u8>>>,
//!     ) -> Result<Queues, BoxError> {
//!         Ok(Queues { context, day_over: restored.flatten() })
//!     }
//!     fn create_reader(&self, _context: &OperatorContext) -> Result<QueueReader, BoxError> {
//!         Ok(QueueReader::default())
//!     }
//! }
//!
//! # fn test() -> Result<(), streaming::TaskError> {
//! let mut test = testing::source(Messages).option("program.queues", "1").open()?;
//! test.poll()?;
//! test.snapshot()?;
//! test.run()?;
//! assert_eq!(test.output(), ['a', 'b', 'c']);
//! assert!(test.has_ended());
//! # Ok(())
//! # }
//! # test().unwrap();
//! ```

mod api;
mod collection;
mod context;
mod coordinator;
mod enumerator;
mod factory;
mod lines;
mod link;
mod no_enumerator;
mod output;
mod own_splits;
mod protocol;
mod reader_state;
mod remote;
mod sequence;
mod socket;
mod source;
mod text;

pub use collection::CollectionSource;
pub use context::{AssignError, EnumeratorWaker, NotRegistered, SplitEnumeratorContext};
pub use lines::{LineBuffer, LineTooLong};
pub use no_enumerator::NoEnumerator;
pub use output::{ReaderContext, ReaderOutput, SplitOutput};
pub use sequence::SequenceSource;
pub use socket::SocketSource;
pub use source::{Boundedness, ReadProgress, Source, SourceReader, SourceSplit, SplitEnumerator};
pub use text::FileSource;

// The parts of the built-in sources. Programs do not name them.
#[doc(hidden)]
pub use self::{
    collection::CollectionReader,
    enumerator::{FileEnumerator, FileEnumeratorState, FileSplit},
    sequence::{SequenceReader, SequenceSplit},
    socket::{SocketReader, SocketSplit},
    text::FileReader,
};

/// Re-exports for the chain and the graph builder; not public.
pub(crate) mod intern {
    pub(crate) use super::{
        coordinator::SourceCoordinator,
        factory::SourceCoordinators,
        link::EnumeratorLink,
        output::{OWN_TICKETS, Requests, WAKE, last_events, watermark_of},
        protocol::{FromReader, ToReader},
        source::declare,
    };
}

#[cfg(test)]
mod tests;
