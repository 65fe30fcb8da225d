//! Reads the lines of files, a byte range at a time.

use super::{
    FileSplit, FileSplits, LineBuffer,
    enumerator::{ASK, kind_of},
};
use crate::{
    chain::{ReadProgress, SourceReader},
    operators::{Collector, OperatorContext, OperatorMail},
    seam::TaskError,
    types::FromLine,
};
use nix::fcntl::OFlag;
use std::{
    collections::VecDeque,
    fs::File,
    io::{Read, Seek, SeekFrom},
    marker::PhantomData,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

/// Bytes that one read takes of a file before it lets others have the thread.
const TURN_BYTES: u64 = 256 << 10;

/// A split that is being read.
#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    /// How long the file was when it was opened.
    length: u64,
    /// What is before was read.
    read_to: u64,
    /// Where the next line begins.
    at: u64,
    /// Lines that begin here or later are another's.
    end: u64,
    /// The line that is under way at the start belongs to whoever has its beginning.
    skip_first: bool,
    at_end_of_file: bool,
}

/// Reads lines as `T`.
#[derive(Debug)]
pub struct TextReader<T> {
    splits: VecDeque<FileSplit>,
    open: Option<Open>,
    lines: LineBuffer,
    asked: bool,
    no_more: bool,
    record: PhantomData<fn() -> T>,
}

impl<T> Default for TextReader<T> {
    fn default() -> Self {
        Self {
            splits: VecDeque::new(),
            open: None,
            lines: LineBuffer::default(),
            asked: false,
            no_more: false,
            record: PhantomData,
        }
    }
}

impl<T: FromLine> TextReader<T> {
    /// Opens the next split. A range that does not begin its file begins one byte earlier, so that a line that
    /// begins exactly at its start is seen to begin there.
    fn open_next(&mut self, context: &OperatorContext) -> Result<bool, TaskError> {
        let Some(split) = self.splits.pop_front() else { return Ok(false) };
        let wrong = |what: &str, error| {
            context.io_error(format!("can't {what} '{}'", split.path.display()), error)
        };
        // A pipe would be waited for; what it is is asked of what was opened.
        let mut options = File::options();
        let opened = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&split.path);
        let mut file = opened.map_err(|error| wrong("open", error))?;
        let metadata = file.metadata().map_err(|error| wrong("open", error))?;
        if !metadata.is_file() {
            let (path, kind) = (split.path.display(), kind_of(metadata.file_type()));
            return Err(context.input_error(format!("'{path}' is {kind}, not a file")));
        }
        let from = split.start.saturating_sub(1);
        file.seek(SeekFrom::Start(from)).map_err(|error| wrong("read", error))?;
        self.lines.clear();
        self.open = Some(Open {
            file,
            path: split.path,
            length: metadata.len(),
            read_to: from,
            at: from,
            end: split.end,
            skip_first: split.start > 0,
            at_end_of_file: false,
        });
        Ok(true)
    }

    /// Emits lines of the open split. Whether it is done with.
    fn read_lines(
        &mut self,
        most: usize,
        out: &mut Collector<T>,
        context: &OperatorContext,
    ) -> Result<bool, TaskError> {
        let Some(open) = &mut self.open else { return Ok(true) };
        let turn_end = open.at.saturating_add(TURN_BYTES);
        let mut emitted = 0;
        loop {
            while emitted < most && open.at < turn_end {
                if open.at >= open.end {
                    return Ok(true);
                }
                let line = match self.lines.next_line() {
                    Some(line) => line,
                    None if !open.at_end_of_file => break,
                    // The last line has no end of its own; where there is no byte there is no line.
                    None => {
                        let rest = self.lines.rest();
                        if !rest.is_empty() && !open.skip_first {
                            out.collect(record(open, rest, context)?);
                        }
                        return Ok(true);
                    }
                };
                let begins = open.at;
                open.at += line.len() as u64 + 1;
                if open.skip_first {
                    open.skip_first = false;
                    continue;
                }
                out.collect(record_at(open, begins, line, context)?);
                emitted += 1;
            }
            if emitted >= most || open.at >= turn_end {
                return Ok(false);
            }
            fill(open, &mut self.lines, context)?;
        }
    }
}

/// Reads a block. While the first line is skipped nothing of it is kept.
fn fill(
    open: &mut Open,
    lines: &mut LineBuffer,
    context: &OperatorContext,
) -> Result<(), TaskError> {
    let what = |path: &PathBuf| format!("can't read '{}'", path.display());
    if open.skip_first {
        open.at += lines.rest().len() as u64;
    }
    let room = lines.room().map_err(|error| context.io_error(what(&open.path), error))?;
    match open.file.read(room) {
        Ok(0) => {
            // What is missing may have been of this range, or of the line that begins in it.
            let expected = open.length.max(open.end);
            if open.read_to < expected {
                return Err(context.input_error(format!(
                    "'{}' became shorter while it was read: it ends at byte {}, before byte {expected}",
                    open.path.display(),
                    open.read_to
                )));
            }
            open.at_end_of_file = true;
        }
        Ok(read) => {
            open.read_to += read as u64;
            lines.filled(read);
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(error) => return Err(context.io_error(what(&open.path), error)),
    }
    Ok(())
}

fn record<T: FromLine>(
    open: &Open,
    line: &[u8],
    context: &OperatorContext,
) -> Result<T, TaskError> {
    record_at(open, open.at, line, context)
}

fn record_at<T: FromLine>(
    open: &Open,
    begins: u64,
    line: &[u8],
    context: &OperatorContext,
) -> Result<T, TaskError> {
    T::from_line(line).map_err(|why| {
        context.io_error(format!("can't read '{}' at byte {begins}", open.path.display()), why)
    })
}

impl<T: FromLine> SourceReader for TextReader<T> {
    type Record = T;

    fn read(
        &mut self,
        most: usize,
        out: &mut Collector<T>,
        context: &OperatorContext,
    ) -> Result<ReadProgress, TaskError> {
        if self.open.is_none() && !self.open_next(context)? {
            if self.no_more {
                return Ok(ReadProgress::Ended);
            }
            if !self.asked {
                self.asked = true;
                context.ask_coordinator(ASK.to_vec(), 0);
            }
            return Ok(ReadProgress::Waiting);
        }
        if self.read_lines(most, out, context)? {
            self.open = None;
        }
        Ok(ReadProgress::More)
    }

    fn mail(&mut self, mail: OperatorMail, context: &OperatorContext) -> Result<(), TaskError> {
        let OperatorMail::Reply { result, .. } = mail else { return Ok(()) };
        let answer = result.map_err(|why| context.coordinator_error(why))?;
        let splits = FileSplits::decode(&answer).map_err(|error| context.codec_error(error))?;
        self.asked = false;
        self.no_more = splits.0.is_empty();
        self.splits.extend(splits.0);
        Ok(())
    }

    fn close(&mut self) {
        self.open = None;
    }
}
