//! Logs of containers. Once an application has ended (or while it runs, where it asked for that), its
//! nodes put their containers' logs into HDFS, one file per node in one of two formats; before that they
//! are on the nodes, which hand them out over HTTP.
//!
//! | what | where |
//! |---|---|
//! | which directories an application's logs may be in | [`places`], [`NodeFile`] |
//! | a node's file, of either format, from anything that reads ranges | [`LogReader`], [`ReadRange`] |
//! | the same without any reading | [`LogDecoder`] |
//! | containers that run, on their nodes | [`NodeLogs`] |
//!
//! Decoders take bytes and give [`LogEvent`]s: the beginning of a log, pieces of it, its end. They keep a
//! piece and an index in memory, never a whole log, and never more because a file says so. What a file
//! says about containers it was not written for is not looked for: it is its writer's word.
//!
//! ```
//! use hadoop::logs::{LogDecoder, LogEvent, LogFormat, LogStep, Selection};
//!
//! # fn demo(file: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let application = "application_1570379089091_0019".parse()?;
//! let all = Selection::default();
//! let mut decoder = LogDecoder::new(LogFormat::TFile, application, file.len() as u64, all);
//! loop {
//!     match decoder.step()? {
//!         LogStep::Read { offset, length } => {
//!             let from = usize::try_from(offset)?;
//!             let bytes = file.get(from..from + length).ok_or("the file is shorter than it was")?;
//!             decoder.give(bytes::Bytes::copy_from_slice(bytes))?;
//!         }
//!         LogStep::Event(LogEvent::File(header)) => print!("{} {}:", header.container, header.name),
//!         LogStep::Event(LogEvent::Bytes(piece)) => print!("{}", String::from_utf8_lossy(&piece)),
//!         LogStep::Event(LogEvent::End { complete }) => assert!(complete),
//!         LogStep::End => break,
//!     }
//! }
//! # Ok(()) }
//! ```

mod compression;
mod cursor;
mod http;
mod ifile;
mod java;
mod layout;
mod local;
mod node;
mod reader;
mod records;
#[cfg(test)]
mod tests;
mod tfile;

pub use http::HttpResponse;
pub use ifile::checksum;
pub use layout::{LogPlace, NodeFile, places};
pub use local::{LocalLog, LocalLogs, local_logs};
pub use node::{NodeLogStream, NodeLogs};
pub use reader::{LogDecoder, LogReader, LogStep, ReadRange};

use crate::yarn::messages::ContainerId;
use bytes::Bytes;

/// The format of the file in which a node collects the logs of an application's containers: TFile (Hadoop's default) or indexed. The
/// cluster chooses it by `yarn.log-aggregation.file-formats`; a reader learns it from the file's directory (a [`LogPlace`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LogFormat {
    /// `TFile`, Hadoop's default: one record for each container, with all its logs.
    TFile,
    /// `IFile`, "indexed": logs one after the other, and an index of them at the end.
    Indexed,
}

/// The container, file name, size and time of one log, as a decoder gives it in [`LogEvent::File`]; the log's bytes follow in other events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHeader {
    /// The container that wrote the log.
    pub container: ContainerId,
    /// Name of the log's file: `stdout`, `stderr`, ….
    pub name: String,
    /// Length of the log in bytes, as its writer says; the log may turn out shorter.
    pub length: u64,
    /// Time of the log's last change in milliseconds since 1970. `None` where it is not known: TFile does not keep it, and
    /// nodes tell it in words.
    pub modified: Option<i64>,
}

/// An event of a decoder of logs: for each log first `File`, then its `Bytes` in any number of pieces (none for an empty log), then `End`,
/// which says whether the log is complete. Given out by [`LogReader::next`] and [`NodeLogStream::next`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEvent {
    /// A log begins; the events until its `End` are about it.
    File(LogHeader),
    /// The next bytes of the log that has begun.
    Bytes(Bytes),
    /// The log has ended; a further event is about another one. `complete` is false if it was cut off, which is no error.
    End {
        /// True if it had as many bytes as its header says.
        complete: bool,
    },
}

/// Selects, by container and file name, the logs that a decoder gives out: those that fulfil both fields. The default selects all. If none
/// fits, the decoder comes to its end without an event, which is no error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Selects only logs of this container; `None` selects those of all.
    pub container: Option<ContainerId>,
    /// Selects only logs whose file has this name, such as `stdout`; `None` selects all.
    pub file: Option<String>,
}

impl Selection {
    fn takes(&self, container: ContainerId, file: &str) -> bool {
        self.container.is_none_or(|wanted| same(wanted, container))
            && self.file.as_ref().is_none_or(|wanted| wanted == file)
    }
}

/// Messages carry an application's id twice, or once.
fn same(one: ContainerId, other: ContainerId) -> bool {
    (one.app_attempt_id, one.id) == (other.app_attempt_id, other.id)
}

/// The reason why logs could not be read: a file that is damaged, of another application or of an unsupported kind, its source, or a node
/// that does not give them. A [`LogReader`] goes on only after `Read`; a [`NodeLogs`] can be asked anew after any.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The bytes of a log file or of its checksum file are not of the expected format, or damaged; the text says what is wrong. Also an
    /// index that names far more logs than its size allows.
    #[error("not a log file of this format, or a damaged one: {0}")]
    Malformed(&'static str),
    /// The log file was written for another application than the decoder's. Noticed of indexed files only.
    #[error("the file was not written for this application")]
    OtherApplication,
    /// The log file is compressed by the method that the value names; only gzip and no compression are supported.
    #[error("the file is compressed with {0}, which is not supported: none and gz are")]
    Compression(String),
    /// An index in the log file is larger than this library reads: above 64 KiB or 16 MiB in a TFile, 8 MiB (20 MiB when
    /// decoded) in an indexed file, or than the file itself says.
    #[error("the {what} has {bytes} bytes, at most {max} are taken")]
    TooLarge {
        /// The part of the file, in words.
        what: &'static str,
        /// Size of that part of the file, in bytes, as far as it was read.
        bytes: u64,
        /// Largest size that is accepted for it, in bytes.
        max: u64,
    },
    /// The source of a [`LogReader`] failed to read a range of the file, or gave another number of bytes than asked for; the read may be
    /// tried again.
    #[error("the log file cannot be read: {0}")]
    Read(#[source] std::io::Error),
    /// A node's HTTP answer is not one that nodes give; the text says what is wrong.
    #[error("the node's answer cannot be understood: {0}")]
    Answer(&'static str),
    /// A node could not be reached, broke the connection, did not answer in time, or wants TLS.
    #[error("node {address}: {source}")]
    Node {
        /// The node's web address, as `host:port`.
        address: String,
        /// The I/O error.
        source: std::io::Error,
    },
    /// A node answered with another HTTP status than 200, so without the log or list.
    #[error("node {address}: {status} {reason}")]
    Refused {
        /// The node's web address, as `host:port`.
        address: String,
        /// The HTTP status of the answer.
        status: u16,
        /// The beginning of the answer's body, at most 300 characters without control characters; may be empty.
        reason: String,
    },
}
