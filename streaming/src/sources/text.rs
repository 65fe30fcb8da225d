//! The source of files with lines: reads the lines of byte ranges of files, local ones directly, remote ones by [`RemoteInput`].

use super::{
    Boundedness, FileEnumerator, FileSplit, LineBuffer, ReadProgress, ReaderContext, ReaderOutput,
    Source, SourceReader, SourceSplit, SplitEnumeratorContext,
    enumerator::{FileEnumeratorState, kind_of},
    lines::without_return,
    remote::{Block, RemoteInput},
};
use crate::{
    api::Environment,
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
    path::{Path, PathBuf},
    sync::Arc,
};
use storage::{
    files::{self, OpenRemoteFiles, RemoteFiles},
    objects::S3Settings,
};

/// A source of the lines of files. Files are divided into splits of byte ranges.
///
/// With a watermark strategy each split has watermarks of its own. A subtask reads its splits one after the other, in the order of the
/// files' names as far as it gets them, and its watermark never goes back: event times must grow from file to file, or the strategy's
/// out-of-orderness must cover their overlap. Otherwise records of a later split are late, and windows drop them. A subtask gets small
/// files together, up to 256 of them, until they have as many bytes as a whole split, and a file that it has not begun to read holds back
/// its watermark: windows fire only when it reads the last of them:
///
/// ```
/// # use streaming::{Environment, sources::FileSource, time::WatermarkStrategy};
/// # fn job(env: &Environment) {
/// let times = WatermarkStrategy::for_monotonous_timestamps(|line: &String| {
///     line.split(' ').next().and_then(|at| at.parse().ok()).unwrap_or(0)
/// });
/// let visits = env.from_source(FileSource::text("/data/visits"), times, "visits").uid("visits");
/// # visits.print();
/// # }
/// ```
///
/// A line ends with `\n` or `\r\n`, which is not part of the record; the last line needs no line end. In folders, files and folders
/// whose names begin with `.` or `_` are skipped. A relative path resolves against the working directory in embedded mode and fails the
/// build elsewhere. Files must not change while the job reads them: one that has become shorter, or a folder in its place, fails the job
/// without a restart; one that is gone, and an object of S3 that is replaced while a split of it is read, fail the task, which may be
/// restarted; other changes are not noticed. A line longer than 256 MiB fails the task. The job fails at its start if a path does not
/// exist, cannot be listed, is neither a file nor a folder, or has folders nested deeper than 64.
///
/// A local path, or its `file://` URI, must name the same files on the JobManager, which lists them, and on every TaskManager. Files of
/// other systems are named by their URIs, and read range by range: at most two blocks of 4 MiB of a split are in memory.
/// - `hdfs://nameservice/path` needs the feature `hdfs` or `yarn`; Hadoop's configuration is read from `HADOOP_CONF_DIR`.
/// - `s3://bucket/path` needs the feature `s3`. It names an object, or the folder of all objects whose names begin with `path/`; if
///   there are both, the folder is read. Characters are those of the object's name, without percent encoding. The options
///   `s3.endpoint`, `s3.region`, `s3.access-key`, `s3.secret-key` and `s3.path.style.access` of the job or the cluster count, else
///   the environment variables `AWS_…`.
///
/// [`Environment::read_text_file`] and [`Environment::read_lines`] are the short forms, without event times.
#[derive(Debug, Clone)]
pub struct FileSource<T> {
    paths: Vec<PathBuf>,
    split_bytes: Option<u64>,
    open_remote: OpenRemoteFiles,
    record: PhantomData<fn() -> T>,
}

impl FileSource<String> {
    /// Returns a source of the lines of a file, or of all files below a folder, as text. A line that is not UTF-8 fails the task.
    pub fn text(path: impl AsRef<Path>) -> Self {
        Self::new(vec![path.as_ref().to_owned()], None, files::open)
    }
}

impl FileSource<Vec<u8>> {
    /// Returns a source of the lines of a file, or of all files below a folder, as bytes, which need not be UTF-8.
    pub fn lines(path: impl AsRef<Path>) -> Self {
        Self::new(vec![path.as_ref().to_owned()], None, files::open)
    }
}

impl<T> FileSource<T> {
    /// Sets the size of splits in bytes, from 1 on (0 counts as 1) and without an upper bound. By default it is a quarter of each
    /// subtask's share of all bytes, at least 1 MiB and at most 64 MiB. Small files and the rests of larger ones are assigned together,
    /// up to about as many bytes. A restored job keeps the splits of its checkpoint.
    ///
    /// ```
    /// use streaming::{Environment, sources::FileSource, time::WatermarkStrategy};
    ///
    /// fn large_lines(env: &Environment) {
    ///     let lines = FileSource::text("/data/large").with_split_bytes(512 << 20);
    ///     env.from_source(lines, WatermarkStrategy::no_watermarks(), "lines").uid("lines").print();
    /// }
    /// ```
    pub fn with_split_bytes(mut self, bytes: u64) -> Self {
        self.split_bytes = Some(bytes.max(1));
        self
    }

    /// Returns a source of files and folders. `open_remote` opens the systems of remote files.
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        split_bytes: Option<u64>,
        open_remote: OpenRemoteFiles,
    ) -> Self {
        Self { paths, split_bytes, open_remote, record: PhantomData }
    }
}

impl<T: FromLine> Source for FileSource<T> {
    type Record = T;
    type Split = FileSplit;
    type Enumerator = FileEnumerator;
    type Reader = FileReader<T>;

    fn boundedness(&self) -> Boundedness {
        Boundedness::Bounded
    }
    fn resolve(&mut self, env: &Environment, operator: &str) {
        for path in &mut self.paths {
            *path = env.resolve_input(operator, path, self.open_remote);
        }
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
    fn create_reader(&self, context: &OperatorContext) -> Result<FileReader<T>, BoxError> {
        let s3 = S3Settings::from_texts(|key| context.option(key).map(str::to_owned));
        Ok(FileReader::with_remote(self.open_remote, s3))
    }
}

/// Bytes of a file that one poll emits lines of before the task looks at its mailbox.
const TURN_BYTES: u64 = 256 << 10;

/// A split that is being read.
#[derive(Debug)]
struct Open {
    /// The split's id.
    id: String,
    /// Start offset of the split.
    start: u64,
    input: Input,
    path: PathBuf,
    /// Length of the file in bytes when it was opened; 0 for a remote file.
    length: u64,
    /// Offset up to which bytes were read from the file.
    read_to: u64,
    /// Offset of the next line.
    at: u64,
    /// End offset of the split; lines that begin here or later belong to the next split.
    end: u64,
    /// The bytes up to the first line end are to be skipped: they belong to a line of the previous split.
    skip_first: bool,
    at_end_of_file: bool,
}

/// The file that a split's bytes are read from.
#[derive(Debug)]
enum Input {
    Local(File),
    Remote(Box<RemoteInput>),
}

/// The outcome of one call of [`FileReader::read_lines`].
enum Turn {
    /// The split was read to its end.
    Done,
    /// More lines are available at once.
    More,
    /// No line is available until mail announces the next block.
    Waiting,
}

/// The reader of a [`FileSource`] in one subtask: reads one split after the other, and asks for more when it has none. A file that is gone
/// or cannot be opened or read, a line that is no record and a line longer than 256 MiB fail the task with `TaskError::Io`, and the restart
/// strategy decides what follows. A file that has become shorter, a path that names a folder or pipe now, and a URI of a system for which
/// no client can be made fail the job with `TaskError::Input`.
#[derive(Debug)]
pub struct FileReader<T> {
    splits: VecDeque<FileSplit>,
    open: Option<Open>,
    lines: LineBuffer,
    asked: bool,
    no_more: bool,
    open_remote: OpenRemoteFiles,
    s3: S3Settings,
    /// Scheme and authority of the last remote split, and the client for them.
    remote: Option<(String, Arc<dyn RemoteFiles>)>,
    /// Ticket of the last remote split's reads.
    ticket: u32,
    record: PhantomData<fn() -> T>,
}

impl<T> FileReader<T> {
    /// Creates a reader that opens remote files by `open_remote`, those of S3 with the settings `s3`.
    pub(crate) fn with_remote(open_remote: OpenRemoteFiles, s3: S3Settings) -> Self {
        Self {
            splits: VecDeque::new(),
            open: None,
            lines: LineBuffer::default(),
            asked: false,
            no_more: false,
            open_remote,
            s3,
            remote: None,
            ticket: 0,
            record: PhantomData,
        }
    }
}

impl<T: FromLine> FileReader<T> {
    /// Opens the next split; returns false if there is none. A range inside a file is read from one byte before its start, so that
    /// a line that begins exactly at the start is recognised.
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
        // Without O_NONBLOCK the open of a pipe would wait for a writer; the type is checked on the opened file.
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
            _ => (self.open_remote)(uri, &self.s3)
                .map_err(|error| context.input_error(error.to_string()))?,
        };
        self.remote = Some((service, files.clone()));
        self.ticket = self.ticket.wrapping_add(1);
        Ok(RemoteInput::new(files, uri.to_owned(), range, self.ticket))
    }

    /// Emits at most `most` lines of the open split, and at most about [`TURN_BYTES`]; ends early where the step should end.
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
                    // The file's last line has no line end; an empty rest is no line.
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
                if out.is_stopped() {
                    return Ok(Turn::More);
                }
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

/// Reads a block; returns false if a remote block has not arrived yet. While the first line is skipped, its bytes are dropped.
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

    /// Returns the unread rest of the split for a snapshot, `None` if there is none. A range that begins where a line begins
    /// contains that line.
    fn rest(&self) -> Option<FileSplit> {
        let start = if self.skip_first { self.start } else { self.at };
        let left = start < self.end;
        left.then(|| FileSplit { path: self.path.clone(), start, end: self.end })
    }

    /// Records the end of the file. Fails if the file is shorter than it was: the missing bytes may have belonged to this split.
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

impl<T: FromLine> SourceReader for FileReader<T> {
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
        // The result may be of a split that was closed before.
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
