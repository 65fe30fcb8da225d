//! Sources: what they are made of, and those that every program has: files of text, collections, sequences, a socket.
//!
//! A source's reader runs in its task; where its input must be divided, an enumerator runs beside the JobMaster and
//! hands out the parts.

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
pub use socket::{SocketReader, SocketSource, SocketSplit};
pub use source::{
    Boundedness, NoEnumerator, ReadProgress, Source, SourceReader, SourceSplit, SplitEnumerator,
};
pub use text::{TextReader, TextSource};

/// What the chain and the builder need of this module.
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
