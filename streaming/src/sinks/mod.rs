//! The built-in sinks: print, files, results for the client, and two for measurements.
//!
//! A sink must never publish output of a failed attempt: it writes under hidden names, which are committed when a checkpoint is
//! complete (`EXACTLY-ONCE.md` beside the crate's sources). Printing is the exception, and the sink for the client sends its
//! records to a coordinator beside the JobMaster.

mod api;
mod checksum;
#[doc(hidden)]
pub mod collect;
mod files;
mod marks;
mod print;
#[doc(hidden)]
pub mod sink;
mod spool;
mod text;
#[doc(hidden)]
pub mod two_phase;
mod without;
mod writer;

pub use checksum::{Checksum, Discard};
pub use files::{Encoder, FileSink, Lines, RollingPolicy};
pub use print::Print;
pub use sink::{CommitError, CommitRequest, Committer, GlobalCommitter, Sink};
pub use without::{NoCommitter, NoWriterState};
pub use writer::{Announcement, CommittingSinkWriter, SinkWriter, WriterContext};

// The parts of the built-in sinks. Programs do not name them.
#[doc(hidden)]
pub use self::{
    collect::{CollectChunk, CollectCoordinator, CollectRequest, CollectSink},
    files::{PartCommitter, PartWriter, PendingPart},
    without::WithoutCommitter,
};

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
