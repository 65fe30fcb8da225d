//! Sources: the traits that a source implements, and the built-in sources (text files, collections, sequences, a socket).
//!
//! A reader runs in each subtask of a source. If the input must be divided at run time, a split enumerator runs beside the
//! JobMaster and assigns splits to the readers. Neither may block: I/O runs beside the task.

mod api;
mod collection;
mod coordinator;
mod enumerator;
mod lines;
mod link;
mod output;
mod protocol;
mod remote;
mod sequence;
mod socket;
mod source;
mod text;

pub use collection::{CollectionReader, CollectionSource};
pub use coordinator::{NotRegistered, SplitEnumeratorContext};
pub use enumerator::{FileEnumerator, FileEnumeratorState, FileSplit};
pub use lines::{LineBuffer, LineTooLong};
pub use output::{ReaderContext, ReaderOutput, SplitOutput};
pub use sequence::{SequenceReader, SequenceSource, SequenceSplit};
pub use source::{
    Boundedness, NoEnumerator, ReadProgress, Source, SourceReader, SourceSplit, SplitEnumerator,
};

/// Re-exports for the chain and the graph builder; not public.
pub(crate) mod intern {
    pub(crate) use super::{
        coordinator::{SourceCoordinator, SourceCoordinators},
        link::EnumeratorLink,
        output::{OWN_TICKETS, WAKE, Wishes, last_events, watermark_of},
        protocol::{FromReader, ToReader},
    };
}

#[cfg(test)]
mod tests;
