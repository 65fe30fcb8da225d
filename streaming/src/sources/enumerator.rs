//! Which parts of which files there are, and who reads them. Runs beside the JobMaster.

use super::{SourceSplit, SplitEnumerator, SplitEnumeratorContext};
use crate::{
    operators::BoxError,
    types::{CodecError, FlottType, KeyHasher, Reader, Schema},
};
use std::{
    collections::VecDeque,
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

/// A split on the wire and in snapshots: its path's bytes, start and end.
type Parts = (Vec<u8>, u64, u64);

impl FlottType for FileSplit {
    fn type_name() -> String {
        "FileSplit".to_owned()
    }
    fn describe(schema: &mut Schema) {
        Parts::describe(schema);
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (self.path.as_os_str().as_bytes().to_vec(), self.start, self.end).encode(out);
    }
    fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
        let (path, start, end) = Parts::decode(input)?;
        Ok(Self { path: PathBuf::from(OsString::from_vec(path)), start, end })
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        (self.path.as_os_str().as_bytes().to_vec(), self.start, self.end).hash_key(hasher);
    }
}

impl SourceSplit for FileSplit {
    /// The end stays while the split is read, and no two splits of a file have the same.
    fn split_id(&self) -> String {
        format!("{}:{}", self.path.display(), self.end)
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
pub struct FileEnumerator {
    context: SplitEnumeratorContext<FileSplit>,
    waiting: VecDeque<FileSplit>,
    /// Bytes that are handed out together.
    hand_out: u64,
}

/// What a checkpoint has of the enumerator: the splits that are not handed out, and how many bytes go out together.
pub type FileEnumeratorState = (Vec<FileSplit>, u64);

impl FileEnumerator {
    /// Lists the files, and cuts them into splits of that size; `None`: of the size that suits files and parallelism.
    pub(super) fn list(
        context: SplitEnumeratorContext<FileSplit>,
        paths: &[PathBuf],
        split_bytes: Option<u64>,
        open_remote: OpenRemoteFiles,
    ) -> Result<Self, BoxError> {
        let mut found = Vec::new();
        for path in paths {
            if let Some(uri) = path.to_str().filter(|path| files::is_remote(path)) {
                let listed = open_remote(uri)
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
        let share = total / (u64::from(context.current_parallelism().max(1)) * 4);
        let split_bytes = split_bytes.unwrap_or_else(|| share.clamp(SMALLEST, LARGEST)).max(1);
        let waiting = found.into_iter().flat_map(|(path, len)| {
            let starts = (0..len.div_ceil(split_bytes)).map(move |i| i * split_bytes);
            starts.map(move |start| FileSplit {
                path: path.clone(),
                start,
                end: (start + split_bytes).min(len),
            })
        });
        Ok(Self { waiting: waiting.collect(), hand_out: split_bytes, context })
    }

    /// Goes on from a checkpoint; files that came since are not read.
    pub(super) fn restore(
        context: SplitEnumeratorContext<FileSplit>,
        (waiting, hand_out): FileEnumeratorState,
    ) -> Self {
        Self { context, waiting: waiting.into(), hand_out }
    }

    fn next_splits(&mut self) -> Vec<FileSplit> {
        let (mut splits, mut bytes) = (Vec::new(), 0);
        while splits.len() < MOST_AT_ONCE && (splits.is_empty() || bytes < self.hand_out) {
            let Some(split) = self.waiting.pop_front() else { break };
            bytes += split.end - split.start;
            splits.push(split);
        }
        splits
    }
}

impl SplitEnumerator for FileEnumerator {
    type Split = FileSplit;
    type Checkpoint = FileEnumeratorState;

    fn handle_split_request(&mut self, subtask: u32) -> Result<(), BoxError> {
        let splits = self.next_splits();
        match splits.is_empty() {
            true => self.context.no_more_splits(subtask)?,
            false => self.context.assign_splits(subtask, splits)?,
        }
        Ok(())
    }
    fn add_splits_back(&mut self, splits: Vec<FileSplit>, _subtask: u32) -> Result<(), BoxError> {
        self.waiting.extend(splits);
        Ok(())
    }
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<FileEnumeratorState, BoxError> {
        Ok((self.waiting.iter().cloned().collect(), self.hand_out))
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
