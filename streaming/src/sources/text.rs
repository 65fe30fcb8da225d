//! Reads the lines of files, a byte range at a time: local files directly, those of other systems by [`RemoteInput`].

use super::{
    Boundedness, FileEnumerator, FileSplit, LineBuffer, ReadProgress, ReaderContext, ReaderOutput,
    Source, SourceReader, SourceSplit, SplitEnumeratorContext,
    enumerator::{FileEnumeratorState, kind_of},
    lines::without_return,
    remote::{Block, RemoteInput},
};
use crate::{
    operators::{BoxError, OperatorContext},
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
    sync::Arc,
};
use storage::files::{self, OpenRemoteFiles, RemoteFiles};

/// The lines of files, as `T`, in splits of byte ranges.
#[derive(Debug, Clone)]
pub struct TextSource<T> {
    paths: Vec<PathBuf>,
    split_bytes: Option<u64>,
    open_remote: OpenRemoteFiles,
    record: PhantomData<fn() -> T>,
}

impl<T> TextSource<T> {
    /// Of files and folders, absolute or by their URIs; `split_bytes` where the size of splits is not to be chosen by the source.
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        split_bytes: Option<u64>,
        open_remote: OpenRemoteFiles,
    ) -> Self {
        Self { paths, split_bytes, open_remote, record: PhantomData }
    }
}

impl<T: FromLine> Source for TextSource<T> {
    type Record = T;
    type Split = FileSplit;
    type Enumerator = FileEnumerator;
    type Reader = TextReader<T>;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn create_enumerator(
        &self,
        context: SplitEnumeratorContext<FileSplit>,
        restored: Option<FileEnumeratorState>,
    ) -> Result<FileEnumerator, BoxError> {
        match restored {
            Some(restored) => Ok(FileEnumerator::restore(context, restored)),
            None => FileEnumerator::list(context, &self.paths, self.split_bytes, self.open_remote),
        }
    }
    fn create_reader(&self, _context: &OperatorContext) -> Result<TextReader<T>, BoxError> {
        Ok(TextReader::with_remote(self.open_remote))
    }
}

/// Bytes that one read takes of a file before it lets others have the thread.
const TURN_BYTES: u64 = 256 << 10;

/// A split that is being read.
#[derive(Debug)]
struct Open {
    /// The split's name.
    id: String,
    /// Where the split begins.
    start: u64,
    input: Input,
    path: PathBuf,
    /// How long the file was when it was opened, as far as that is known.
    length: u64,
    /// Everything before this byte was read.
    read_to: u64,
    /// Where the next line begins.
    at: u64,
    /// Lines that begin here or later are another's.
    end: u64,
    /// The line that is under way at the start belongs to whoever has its beginning.
    skip_first: bool,
    at_end_of_file: bool,
}

/// Where the bytes of a split come from.
#[derive(Debug)]
enum Input {
    Local(File),
    Remote(Box<RemoteInput>),
}

/// How far a turn has come.
enum Turn {
    /// The split is done with.
    Done,
    /// There is more at once.
    More,
    /// Nothing until mail comes.
    Waiting,
}

/// Reads lines as `T`.
#[derive(Debug)]
pub struct TextReader<T> {
    splits: VecDeque<FileSplit>,
    open: Option<Open>,
    lines: LineBuffer,
    asked: bool,
    no_more: bool,
    open_remote: OpenRemoteFiles,
    /// The client of the last remote split, and its scheme and authority.
    remote: Option<(String, Arc<dyn RemoteFiles>)>,
    /// The name of the last split's questions.
    ticket: u32,
    record: PhantomData<fn() -> T>,
}

impl<T> TextReader<T> {
    /// A reader that reaches other systems like this.
    pub(crate) fn with_remote(open_remote: OpenRemoteFiles) -> Self {
        Self {
            splits: VecDeque::new(),
            open: None,
            lines: LineBuffer::default(),
            asked: false,
            no_more: false,
            open_remote,
            remote: None,
            ticket: 0,
            record: PhantomData,
        }
    }
}

impl<T: FromLine> TextReader<T> {
    /// Opens the next split. A range that does not begin its file begins one byte earlier, so that a line that
    /// begins exactly at its start is seen to begin there.
    fn open_next(&mut self, context: &OperatorContext) -> Result<bool, TaskError> {
        let Some(split) = self.splits.pop_front() else { return Ok(false) };
        let from = split.start.saturating_sub(1);
        self.lines.clear();
        if let Some(uri) = split.path.to_str().filter(|path| files::is_remote(path)) {
            let input = self.remote_input(uri, (from, split.end), context)?;
            self.open = Some(Open::new(Input::Remote(Box::new(input)), split, 0));
            return Ok(true);
        }
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
        file.seek(SeekFrom::Start(from)).map_err(|error| wrong("read", error))?;
        self.open = Some(Open::new(Input::Local(file), split, metadata.len()));
        Ok(true)
    }

    fn remote_input(
        &mut self,
        uri: &str,
        range: (u64, u64),
        context: &OperatorContext,
    ) -> Result<RemoteInput, TaskError> {
        let service: String = uri.split_inclusive('/').take(3).collect();
        let files = match &self.remote {
            Some((of, files)) if *of == service => files.clone(),
            _ => (self.open_remote)(uri).map_err(|error| context.input_error(error.to_string()))?,
        };
        self.remote = Some((service, files.clone()));
        self.ticket = self.ticket.wrapping_add(1);
        Ok(RemoteInput::new(files, uri.to_owned(), range, self.ticket))
    }

    /// Emits lines of the open split.
    fn read_lines(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<T>,
        context: &mut ReaderContext<'_>,
    ) -> Result<Turn, TaskError> {
        let Some(open) = &mut self.open else { return Ok(Turn::Done) };
        let mut out = out.split(&open.id);
        let operator = context.operator();
        let turn_end = open.at.saturating_add(TURN_BYTES);
        let mut emitted = 0;
        loop {
            while emitted < most && open.at < turn_end {
                if open.at >= open.end {
                    return Ok(Turn::Done);
                }
                let line = match self.lines.next_line() {
                    Some(line) => line,
                    None if !open.at_end_of_file => break,
                    // The last line has no end of its own; where there is no byte there is no line.
                    None => {
                        let rest = self.lines.rest();
                        if !rest.is_empty() && !open.skip_first {
                            out.collect(record(open, rest, operator)?);
                        }
                        return Ok(Turn::Done);
                    }
                };
                let begins = open.at;
                open.at += line.len() as u64 + 1;
                if open.skip_first {
                    open.skip_first = false;
                    continue;
                }
                out.collect(record_at(open, begins, line, operator)?);
                emitted += 1;
            }
            if emitted >= most || open.at >= turn_end {
                return Ok(Turn::More);
            }
            if !fill(open, &mut self.lines, context)? {
                return Ok(Turn::Waiting);
            }
        }
    }
}

/// Reads a block; returns false if none has come yet. While the first line is skipped nothing of it is kept.
fn fill(
    open: &mut Open,
    lines: &mut LineBuffer,
    reader: &mut ReaderContext<'_>,
) -> Result<bool, TaskError> {
    let context = reader.operator();
    let what = |path: &PathBuf| format!("can't read '{}'", path.display());
    if open.skip_first {
        open.at += lines.rest().len() as u64;
    }
    let too_long = |error| context.io_error(what(&open.path), error);
    let file = match &mut open.input {
        Input::Local(file) => file,
        Input::Remote(input) => {
            match input.take(reader) {
                Block::Bytes(block) => {
                    lines.push(&block).map_err(too_long)?;
                    open.read_to += block.len() as u64;
                }
                Block::Pending => return Ok(false),
                Block::End => open.ended(context)?,
            }
            return Ok(true);
        }
    };
    match file.read(lines.room().map_err(too_long)?) {
        Ok(0) => open.ended(context)?,
        Ok(read) => {
            open.read_to += read as u64;
            lines.filled(read);
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(error) => return Err(context.io_error(what(&open.path), error)),
    }
    Ok(true)
}

impl Open {
    fn new(input: Input, split: FileSplit, length: u64) -> Self {
        let from = split.start.saturating_sub(1);
        Self {
            id: split.split_id(),
            start: split.start,
            input,
            path: split.path,
            length,
            read_to: from,
            at: from,
            end: split.end,
            skip_first: split.start > 0,
            at_end_of_file: false,
        }
    }

    /// Returns what is left of the split; `None`: nothing. A range that begins where a line begins has the line.
    fn rest(&self) -> Option<FileSplit> {
        let start = if self.skip_first { self.start } else { self.at };
        let left = start < self.end;
        left.then(|| FileSplit { path: self.path.clone(), start, end: self.end })
    }

    /// The file has no more bytes. What is missing may have been of this range, or of the line that begins in it.
    fn ended(&mut self, context: &OperatorContext) -> Result<(), TaskError> {
        let expected = self.length.max(self.end);
        if self.read_to < expected {
            return Err(context.input_error(format!(
                "'{}' became shorter while it was read: it ends at byte {}, before byte {expected}",
                self.path.display(),
                self.read_to
            )));
        }
        self.at_end_of_file = true;
        Ok(())
    }
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
    T::from_line(without_return(line)).map_err(|why| {
        context.io_error(format!("can't read '{}' at byte {begins}", open.path.display()), why)
    })
}

impl<T: FromLine> SourceReader for TextReader<T> {
    type Record = T;
    type Split = FileSplit;

    fn poll_next(
        &mut self,
        most: usize,
        out: &mut ReaderOutput<T>,
        context: &mut ReaderContext<'_>,
    ) -> Result<ReadProgress, BoxError> {
        if self.open.is_none() && !self.open_next(context.operator())? {
            if self.no_more {
                return Ok(ReadProgress::Ended);
            }
            if !std::mem::replace(&mut self.asked, true) {
                context.request_splits();
            }
            return Ok(ReadProgress::Waiting);
        }
        Ok(match self.read_lines(most, out, context)? {
            Turn::Done => {
                if let Some(open) = self.open.take() {
                    out.release_split(&open.id);
                }
                ReadProgress::More
            }
            Turn::More => ReadProgress::More,
            Turn::Waiting => ReadProgress::Waiting,
        })
    }

    fn add_splits(
        &mut self,
        splits: Vec<FileSplit>,
        _context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        self.asked = false;
        self.splits.extend(splits);
        Ok(())
    }

    fn no_more_splits(&mut self) {
        self.no_more = true;
    }

    fn io_done(
        &mut self,
        ticket: u32,
        result: Result<Vec<u8>, String>,
        context: &mut ReaderContext<'_>,
    ) -> Result<(), BoxError> {
        // The answer may be for a split that was done with before.
        if let Some(Open { input: Input::Remote(input), path, .. }) = &mut self.open
            && input.is_asked_by(ticket)
        {
            let what = || format!("can't read '{}'", path.display());
            input.answered(result.map_err(|why| context.operator().io_error(what(), why))?);
        }
        Ok(())
    }

    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<Vec<FileSplit>, BoxError> {
        let open = self.open.as_ref().and_then(Open::rest);
        Ok(open.into_iter().chain(self.splits.iter().cloned()).collect())
    }

    fn close(&mut self) {
        self.open = None;
    }
}
