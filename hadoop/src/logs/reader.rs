//! A node's file, read from anything that gives ranges of it. The decoder says which range comes next; the
//! reader fetches it, and does nothing else.

use super::ifile::Indexed;
use super::tfile::TFile;
use super::{LogError, LogEvent, LogFormat, Selection};
use crate::yarn::messages::ApplicationId;
use bytes::Bytes;
use std::future::Future;

/// Bytes of a log that are read at once.
pub(super) const READ_MAX: u64 = 1 << 20;

/// The thing that a [`LogDecoder`] needs or has found next, from [`LogDecoder::step`]: bytes of the file to be read, an event for the
/// caller, or the end of the selected logs. After an event or given bytes the next step is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogStep {
    /// The decoder needs exactly these bytes of the file, to be given to [`LogDecoder::give`].
    Read {
        /// Offset in the file, in bytes.
        offset: u64,
        /// Number of bytes to read, exactly.
        length: usize,
    },
    /// The decoder has found the beginning of a log, bytes of it, or its end.
    Event(LogEvent),
    /// The file has no more of the selected logs.
    End,
}

/// Decodes the file in which one node collected an application's logs: it says which bytes it needs, and gives events out. Reads nothing
/// itself. One decoder is for one file, from which it gives the selected logs once, in the file's order. A [`LogReader`] drives it.
pub struct LogDecoder(Format);

enum Format {
    TFile(Box<TFile>),
    Indexed(Box<Indexed>),
}

impl std::fmt::Debug for LogDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = match self.0 {
            Format::TFile(_) => LogFormat::TFile,
            Format::Indexed(_) => LogFormat::Indexed,
        };
        f.debug_struct("LogDecoder").field("format", &format).finish_non_exhaustive()
    }
}

impl LogDecoder {
    /// Makes a decoder for a file of `length` bytes; for an indexed file beside which there is a
    /// [`checksum`](super::checksum), `length` is the number in that. `selection` chooses the logs. `application` is
    /// checked for an indexed file only, because a TFile does not name its application.
    #[must_use]
    pub fn new(
        format: LogFormat,
        application: ApplicationId,
        length: u64,
        selection: Selection,
    ) -> Self {
        Self(match format {
            LogFormat::TFile => Format::TFile(Box::new(TFile::new(length, selection))),
            LogFormat::Indexed => {
                Format::Indexed(Box::new(Indexed::new(application, length, selection)))
            }
        })
    }

    /// Returns what the decoder needs or has found next. A [`LogStep::Read`] is returned again until its bytes are
    /// given.
    ///
    /// # Errors
    /// Fails with a [`LogError`] for a file that is damaged, too large in some part, of another application or
    /// compressed in an unsupported way. Events given out before are right; the decoder is of no use any more.
    pub fn step(&mut self) -> Result<LogStep, LogError> {
        match &mut self.0 {
            Format::TFile(file) => file.step(),
            Format::Indexed(file) => file.step(),
        }
    }

    /// Takes the bytes that the last [`LogStep::Read`] asked for.
    ///
    /// # Errors
    /// Fails with a [`LogError`] if the bytes show that the file is damaged, too large in some part, of another application
    /// or compressed in an unsupported way.
    pub fn give(&mut self, bytes: Bytes) -> Result<(), LogError> {
        match &mut self.0 {
            Format::TFile(file) => file.give(bytes),
            Format::Indexed(file) => file.give(bytes),
        }
    }
}

/// A node's log file of which ranges can be read, such as one in HDFS; the caller of `LogReader` implements it. The reader asks for one
/// range at a time, and again for the same one after an error.
pub trait ReadRange: Send {
    /// Reads the `length` bytes of the file from `offset` on, neither more nor less. Called by [`LogReader::next`], of which a
    /// call after an error asks for the same range again.
    ///
    /// # Errors
    /// Fails with any error that keeps them from being read; an early end of the file is one.
    fn read_range(
        &mut self,
        offset: u64,
        length: usize,
    ) -> impl Future<Output = std::io::Result<Bytes>> + Send;
}

/// Reads the logs of one node's file: fetches the ranges (of at most 1 MiB, indexes aside) that its `LogDecoder` asks for from the source
/// `S`, one after the other, and gives out the decoder's events.
#[derive(Debug)]
pub struct LogReader<S> {
    source: S,
    decoder: LogDecoder,
}

impl<S: ReadRange> LogReader<S> {
    /// Makes a reader that reads `source` as `decoder` asks for it. Reads nothing yet.
    #[must_use]
    pub fn new(source: S, decoder: LogDecoder) -> Self {
        Self { source, decoder }
    }

    /// Returns the next event of the selected logs; `None` at the end. The future may be dropped while it waits, and
    /// the call made again.
    ///
    /// # Errors
    /// Fails with [`LogError::Read`] if the source does (the call may be repeated), otherwise as [`LogDecoder::step`]
    /// does.
    pub async fn next(&mut self) -> Result<Option<LogEvent>, LogError> {
        loop {
            match self.decoder.step()? {
                LogStep::Event(event) => return Ok(Some(event)),
                LogStep::End => return Ok(None),
                LogStep::Read { offset, length } => {
                    let read = self.source.read_range(offset, length).await;
                    let bytes = read.map_err(LogError::Read)?;
                    if bytes.len() != length {
                        let short = std::io::ErrorKind::UnexpectedEof;
                        return Err(LogError::Read(short.into()));
                    }
                    self.decoder.give(bytes)?;
                }
            }
        }
    }
}
