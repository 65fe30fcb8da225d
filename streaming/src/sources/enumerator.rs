//! Which parts of which files there are, and who reads them. Runs beside the JobMaster.

use crate::{
    seam::{Coordinator, CoordinatorContext, CoordinatorFactory},
    types::{CodecError, decode_one, encode_one},
};
use model::ExecutionAttemptId;
use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    fs, io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::FileTypeExt,
    },
    path::{Path, PathBuf},
};
use storage::files::{self, OpenRemoteFiles};

/// A byte range of a file: the lines that begin in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSplit {
    /// Absolute, or the URI of a file of another system.
    pub path: PathBuf,
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

/// What an enumerator answers: the next splits of a reader, none when there are no more. Version byte 1, a count, and
/// of each split its path's bytes, start and end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileSplits(pub Vec<FileSplit>);

const VERSION: u8 = 1;
/// What a reader sends to ask for splits.
pub(super) const ASK: &[u8] = &[VERSION];

impl FileSplits {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let split = |split: &FileSplit| {
            (split.path.as_os_str().as_bytes().to_vec(), split.start, split.end)
        };
        let splits: Vec<(Vec<u8>, u64, u64)> = self.0.iter().map(split).collect();
        let mut out = vec![VERSION];
        out.extend(encode_one(&splits));
        out
    }

    /// Reads what [`FileSplits::encode`] gave.
    ///
    /// # Errors
    /// When the bytes are no splits.
    pub fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (version, rest) = bytes.split_first().ok_or(CodecError::Truncated)?;
        if *version != VERSION {
            return Err(CodecError::Invalid { what: "version of splits" });
        }
        let splits: Vec<(Vec<u8>, u64, u64)> = decode_one(rest)?;
        let split = |(path, start, end)| FileSplit {
            path: PathBuf::from(OsString::from_vec(path)),
            start,
            end,
        };
        Ok(Self(splits.into_iter().map(split).collect()))
    }
}

/// A split is not made smaller than this, nor larger than that.
const SMALLEST: u64 = 1 << 20;
const LARGEST: u64 = 64 << 20;
/// Small files are handed out together, at most so many.
const MOST_AT_ONCE: usize = 256;
/// Folders within folders, at most so deep.
const DEEPEST: usize = 64;

/// Hands out the byte ranges of files.
#[derive(Debug)]
pub struct FileEnumerator {
    paths: Vec<PathBuf>,
    parallelism: u32,
    /// Bytes of a split, where it is not for the enumerator to decide.
    split_bytes: Option<u64>,
    waiting: VecDeque<FileSplit>,
    /// By who reads them; what is finished is not told, so they stay until the job ends.
    given: BTreeMap<ExecutionAttemptId, Vec<FileSplit>>,
    hand_out: u64,
    open_remote: OpenRemoteFiles,
}

impl FileEnumerator {
    /// Of files and folders.
    pub fn new(paths: Vec<PathBuf>, parallelism: u32, split_bytes: Option<u64>) -> Self {
        Self {
            paths,
            parallelism,
            split_bytes,
            waiting: VecDeque::new(),
            given: BTreeMap::new(),
            hand_out: SMALLEST,
            open_remote: files::open,
        }
    }

    /// An enumerator that reaches other systems like this.
    pub(super) fn with_remote(self, open_remote: OpenRemoteFiles) -> Self {
        Self { open_remote, ..self }
    }

    fn next_splits(&mut self) -> FileSplits {
        let (mut splits, mut bytes) = (Vec::new(), 0);
        while splits.len() < MOST_AT_ONCE && (splits.is_empty() || bytes < self.hand_out) {
            let Some(split) = self.waiting.pop_front() else { break };
            bytes += split.end - split.start;
            splits.push(split);
        }
        FileSplits(splits)
    }
}

impl Coordinator for FileEnumerator {
    fn start(&mut self, _restore: Option<Vec<u8>>) -> Result<(), String> {
        let mut found = Vec::new();
        for path in &self.paths {
            if let Some(uri) = path.to_str().filter(|path| files::is_remote(path)) {
                let listed = (self.open_remote)(uri)
                    .and_then(|remote| files::list_now(&*remote, uri))
                    .map_err(|error| format!("the input '{uri}' can't be read: {error}"))?;
                found
                    .extend(listed.into_iter().map(|(file, length)| (PathBuf::from(file), length)));
                continue;
            }
            list(path, 0, &mut found).map_err(|(path, error)| {
                format!("the input '{}' can't be read: {error}", path.display())
            })?;
        }
        let total: u64 = found.iter().map(|(_, len)| len).sum();
        let share = total / (u64::from(self.parallelism.max(1)) * 4);
        let split_bytes = self.split_bytes.unwrap_or_else(|| share.clamp(SMALLEST, LARGEST)).max(1);
        self.hand_out = split_bytes;
        self.given.clear();
        self.waiting = found
            .into_iter()
            .flat_map(|(path, len)| {
                let starts = (0..len.div_ceil(split_bytes)).map(move |i| i * split_bytes);
                starts.map(move |start| FileSplit {
                    path: path.clone(),
                    start,
                    end: (start + split_bytes).min(len),
                })
            })
            .collect();
        Ok(())
    }

    fn handle_event(&mut self, from: ExecutionAttemptId, event: &[u8]) -> Result<Vec<u8>, String> {
        if event != ASK {
            return Err("the enumerator was asked something that it does not know".into());
        }
        let splits = self.next_splits();
        let answer = splits.encode();
        self.given.entry(from).or_default().extend(splits.0);
        Ok(answer)
    }

    fn handle_request(&mut self, _request: &[u8]) -> Result<Vec<u8>, String> {
        Err("an enumerator answers no client".into())
    }

    fn attempts_ended(&mut self, attempts: &[ExecutionAttemptId]) {
        for attempt in attempts {
            self.waiting.extend(self.given.remove(attempt).unwrap_or_default());
        }
    }

    fn job_ended(&mut self, _finished: bool) -> Result<(), String> {
        Ok(())
    }
}

/// A path's files with their lengths, in the order of their names; hidden ones (`.x`, `_x`) inside folders are left
/// out, as in Flink.
fn list(
    path: &Path,
    depth: usize,
    files: &mut Vec<(PathBuf, u64)>,
) -> Result<(), (PathBuf, io::Error)> {
    let wrong = |error| (path.to_owned(), error);
    let metadata = fs::metadata(path).map_err(wrong)?;
    if metadata.is_file() {
        files.push((path.to_owned(), metadata.len()));
        return Ok(());
    }
    if !metadata.is_dir() {
        // It has no length, so it would be an empty input.
        let kind = kind_of(metadata.file_type());
        let why = format!("it is {kind}; text is read of files and folders");
        return Err(wrong(io::Error::other(why)));
    }
    if depth >= DEEPEST {
        return Err(wrong(io::Error::other("folders are nested too deeply (a link to itself?)")));
    }
    let entries = fs::read_dir(path).map_err(wrong)?;
    let mut names = entries
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong)?;
    names.retain(|name| !matches!(name.as_bytes().first(), Some(b'.' | b'_')));
    names.sort();
    names.iter().try_for_each(|name| list(&path.join(name), depth + 1, files))
}

/// What people call it, for those who took it for a file.
pub(super) fn kind_of(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a pipe (FIFO)",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() => "a character device",
        kind if kind.is_block_device() => "a block device",
        kind if kind.is_dir() => "a folder",
        _ => "something else",
    }
}

/// Makes the enumerator of a text source.
pub(super) struct EnumeratorFactory {
    pub(super) paths: Vec<PathBuf>,
    pub(super) split_bytes: Option<u64>,
    pub(super) open_remote: OpenRemoteFiles,
}

impl CoordinatorFactory for EnumeratorFactory {
    fn coordinator(&mut self, context: CoordinatorContext) -> Box<dyn Coordinator> {
        let paths = self.paths.clone();
        let files = FileEnumerator::new(paths, context.parallelism, self.split_bytes);
        Box::new(files.with_remote(self.open_remote))
    }
}
