//! Sinks that every program has: print, files, results for the client, and two for measuring.
//!
//! A sink shows nothing of a failed attempt: what must survive is written under names private to the attempt, told to a
//! coordinator beside the JobMaster, and published when the job has finished. Printing is the exception.

mod api;
mod checksum;
pub mod collect;
mod file;
mod print;
mod publish;
mod spool;

pub use checksum::{Checksum, Discard};
pub use collect::{CollectChunk, CollectCoordinator, CollectRequest, CollectSink};
pub use file::{FileCommitter, FileSink};
pub use print::Print;

#[cfg(test)]
mod tests;
