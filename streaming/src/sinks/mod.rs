//! The built-in sinks: print, files, results for the client, and two for measurements.
//!
//! A sink must never show output of a failed attempt: it writes under names that are private to the attempt and reports them
//! to a coordinator beside the JobMaster, which publishes them when the job has finished. Printing is the exception.

mod api;
mod checksum;
pub mod collect;
mod files;
mod print;
mod publish;
pub mod sink;
mod spool;
mod text_file;
pub mod two_phase;
mod without;

pub use checksum::{Checksum, Discard};
pub use collect::{CollectChunk, CollectCoordinator, CollectRequest, CollectSink};
pub use files::{Encoder, FileSink, Lines, PartCommitter, PartWriter, PendingPart, RollingPolicy};
pub use print::Print;
pub use sink::{
    CommitError, CommitRequest, Committer, CommittingSinkWriter, GlobalCommitter, Sink, SinkWriter,
    WriterContext,
};
pub use text_file::{FileCommitter, TextFileSink};
pub use without::{NoCommitter, NoWriterState, WithoutCommitter};

#[cfg(test)]
mod tests;
