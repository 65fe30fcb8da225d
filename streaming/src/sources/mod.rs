//! Sources that every program has: files of text, collections, sequences, a socket.
//!
//! A source's reader runs in its task; where its input must be divided, an enumerator runs beside the JobMaster and
//! hands out the parts.

mod api;
mod collection;
mod enumerator;
mod lines;
mod remote;
mod sequence;
mod socket;
mod text;

pub use collection::CollectionReader;
pub use enumerator::{FileEnumerator, FileSplit, FileSplits};
pub use lines::{LineBuffer, LineTooLong};
pub use sequence::SequenceReader;
pub use socket::SocketReader;
pub use text::TextReader;

#[cfg(test)]
mod tests;
