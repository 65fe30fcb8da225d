//! The built-in sinks: print, files, results for the client, and two for measurements.
//!
//! A sink must never show output of a failed attempt: it writes under hidden names, which are committed when a checkpoint is
//! complete (`EXACTLY-ONCE.md` beside the crate's sources). Printing is the exception, and the sink for the client sends its
//! records to a coordinator beside the JobMaster.

mod api;
mod checksum;
pub mod collect;
mod files;
mod marks;
mod print;
pub mod sink;
mod spool;
mod text;
pub mod two_phase;
mod without;
mod writer;

pub use checksum::{Checksum, Discard};
pub use collect::{CollectChunk, CollectCoordinator, CollectRequest, CollectSink};
pub use files::{Encoder, FileSink, Lines, PartCommitter, PartWriter, PendingPart, RollingPolicy};
pub use print::Print;
pub use sink::{CommitError, CommitRequest, Committer, GlobalCommitter, Sink};
pub use without::{NoCommitter, NoWriterState, WithoutCommitter};
pub use writer::{Announcement, CommittingSinkWriter, SinkWriter, WriterContext};

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
