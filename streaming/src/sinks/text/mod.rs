//! The sink of [`Stream::write_text`](crate::Stream::write_text): the whole output of a bounded job replaces an earlier result
//! in one step.
//!
//! Each subtask writes one part in the job's staging folder beside the destination, `.NAME.flott-JOBID`. The parts are the
//! committables. The global committer publishes them at the final checkpoint, and only then: the part of a single subtask
//! becomes the destination itself, those of several become the parts of a folder. Before that, nothing may be visible under the
//! destination's name.

mod commit;
mod publish;
#[cfg(test)]
mod tests;
mod writer;

use super::{NoCommitter, Sink, files::names::Names, two_phase::Shared};
use crate::{
    api::{Committers, CommittersOf},
    operators::{BoxError, OperatorContext},
    types::ToLine,
};
use commit::TextCommitter;
use std::path::PathBuf;
#[cfg(test)]
pub(in crate::sinks) use writer::TextState;
use writer::TextWriter;

/// A part that is written to its end: the committable of the sink.
#[derive(Debug, Clone, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
pub(crate) struct TextPart {
    /// The subtask that wrote the part and the name of its machine, for messages.
    subtask: u32,
    host: String,
    path: String,
    identity: Identity,
}

/// The identity that a file keeps when it is renamed: inode, length in bytes, and the time of its last change in nanoseconds since 1970.
/// The device is not part of it, because it has another number on each machine that mounts the file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
struct Identity {
    inode: u64,
    bytes: u64,
    modified_ns: u64,
}

#[cfg(test)]
impl TextPart {
    /// Returns a part with every field set.
    pub(in crate::sinks) fn example() -> Self {
        let identity = Identity { inode: 300, bytes: 70_000, modified_ns: 1 << 60 };
        Self { subtask: 2, host: "node-1".to_owned(), path: "/out/part".to_owned(), identity }
    }
}

/// Writes records as lines; the result appears when the job has finished.
#[derive(Debug)]
pub(crate) struct TextSink {
    destination: PathBuf,
}

impl TextSink {
    /// Creates a sink for a destination, which must be an absolute path.
    pub(super) fn new(destination: PathBuf) -> Self {
        Self { destination }
    }
}

/// Returns the committers of a sink of text. They are the same for all record types, for which `String` stands.
pub(super) fn committers(sink: Shared<TextSink>) -> Box<dyn Committers<TextPart>> {
    Box::new(CommittersOf::<String, TextSink>::new(sink))
}

impl<T: ToLine + Send + 'static> Sink<T> for TextSink {
    type Committable = TextPart;
    type Writer = TextWriter;
    type Committer = NoCommitter;
    type GlobalCommitter = TextCommitter;

    fn create_writer(&self, context: &OperatorContext) -> Result<TextWriter, BoxError> {
        Ok(TextWriter::new(self.destination.clone(), context, Names::of(context, "")))
    }
    fn create_committer(&self, _context: &OperatorContext) -> Result<NoCommitter, BoxError> {
        Ok(NoCommitter)
    }
    fn create_global_committer(
        &self,
        context: &OperatorContext,
    ) -> Result<TextCommitter, BoxError> {
        TextCommitter::start(self.destination.clone(), context)
    }
}
