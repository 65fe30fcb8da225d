//! The enumerator of file sources: lists files, cuts them into splits and assigns these. Runs beside the JobMaster.

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
use storage::{
    files::{self, OpenRemoteFiles},
    objects::{S3Settings, StoreError},
};

/// A byte range of a file, the split of a [`FileSource`](super::FileSource). Its records are the lines that begin in the range; the
/// last one may reach beyond it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSplit {
    /// Absolute path of a local file, or URI of a remote one.
    pub path: PathBuf,
    /// Start of the range: offset in the file in bytes, inclusive. In a reader's snapshot it is the offset of the first line not emitted,
    /// or unchanged if no line was read.
    pub start: u64,
    /// End of the range: offset in the file in bytes, exclusive.
    pub end: u64,
}

/// The encoded form of a split, on the wire and in snapshots: path as bytes, start, end.
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
    /// Returns path and end offset. The start moves while the split is read; the end does not, and is unique within a file.
    fn split_id(&self) -> String {
        format!("{}:{}", self.path.display(), self.end)
    }
}

/// Smallest and largest size in bytes that is chosen for splits.
const SMALLEST: u64 = 1 << 20;
const LARGEST: u64 = 64 << 20;
/// Maximum number of splits (small files) in one assignment.
const MOST_AT_ONCE: usize = 256;
/// Maximum nesting of folders below an input path.
const DEEPEST: usize = 64;

/// The enumerator of a [`FileSource`](super::FileSource): assigns byte ranges of files to the subtasks that ask for them, in the
/// order of paths and file names. Splits that come back from a failed subtask are assigned before all later ones, so that a watermark
/// does not pass them. One request gets splits (at most 256) until they have together as many bytes as a whole split, or
/// the message that there are no more. The files are listed when the source starts without a checkpoint; a restored source does not
/// list again, and does not read files that were created meanwhile.
pub struct FileEnumerator {
    context: SplitEnumeratorContext<FileSplit>,
    /// All splits, also those that were assigned, in the order in which they are assigned.
    splits: Vec<FileSplit>,
    /// The indices of all splits by path and start, sorted when splits come back for the first time; empty before.
    by_place: Vec<usize>,
    /// The indices of the splits that are not assigned, ascending.
    waiting: VecDeque<usize>,
    /// Splits are assigned together until they have this many bytes.
    hand_out: u64,
}

/// The state of a [`FileEnumerator`] in a checkpoint: the unassigned splits, and the number of bytes from which on one request gets
/// no further split.
pub type FileEnumeratorState = (Vec<FileSplit>, u64);

impl FileEnumerator {
    /// Lists the files and cuts them into splits of `split_bytes`; with `None`, of a quarter of each subtask's share of all bytes,
    /// between 1 MiB and 64 MiB. Fails if a path cannot be listed.
    pub(super) fn list(
        context: SplitEnumeratorContext<FileSplit>,
        paths: &[PathBuf],
        split_bytes: Option<u64>,
        open_remote: OpenRemoteFiles,
    ) -> Result<Self, BoxError> {
        let mut found = Vec::new();
        for path in paths {
            if let Some(uri) = path.to_str().filter(|path| files::is_remote(path)) {
                let s3 = S3Settings::from_texts(|key| context.option(key).map(str::to_owned));
                let listed = open_remote(uri, &s3).and_then(|all| files::list_now(&*all, uri));
                let listed = listed.map_err(|error| unreadable(uri, &error))?;
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
        let splits = found.into_iter().flat_map(|(path, len)| {
            let starts = (0..len.div_ceil(split_bytes)).map(move |i| i * split_bytes);
            starts.map(move |start| FileSplit {
                path: path.clone(),
                start,
                end: (start + split_bytes).min(len),
            })
        });
        Ok(Self::restore(context, (splits.collect(), split_bytes)))
    }

    /// Continues from a checkpoint; files created after the first listing are not read.
    pub(super) fn restore(
        context: SplitEnumeratorContext<FileSplit>,
        (splits, hand_out): FileEnumeratorState,
    ) -> Self {
        let waiting = (0..splits.len()).collect();
        Self { context, waiting, splits, by_place: Vec::new(), hand_out }
    }

    fn next_splits(&mut self) -> Vec<FileSplit> {
        let (mut splits, mut bytes) = (Vec::new(), 0);
        while splits.len() < MOST_AT_ONCE && (splits.is_empty() || bytes < self.hand_out) {
            let next = self.waiting.pop_front().and_then(|index| self.splits.get(index));
            let Some(split) = next else { break };
            bytes += split.end - split.start;
            splits.push(split.clone());
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
        if splits.is_empty() {
            return Ok(());
        }
        let place = |index: &usize| {
            self.splits.get(*index).map(|split| (split.path.as_path(), split.start))
        };
        if self.by_place.is_empty() {
            self.by_place = (0..self.splits.len()).collect();
            self.by_place.sort_unstable_by(|a, b| place(a).cmp(&place(b)));
        }
        for split in &splits {
            // A split comes back as it was assigned, and once.
            let wanted = Some((split.path.as_path(), split.start));
            let found = self.by_place.binary_search_by(|index| place(index).cmp(&wanted));
            let Some(index) = found.ok().and_then(|found| self.by_place.get(found)) else {
                continue;
            };
            let at = self.waiting.partition_point(|waiting| waiting < index);
            if self.waiting.get(at) != Some(index) {
                self.waiting.insert(at, *index);
            }
        }
        Ok(())
    }
    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<FileEnumeratorState, BoxError> {
        let waiting = self.waiting.iter().filter_map(|index| self.splits.get(*index));
        Ok((waiting.cloned().collect(), self.hand_out))
    }
}

/// Returns the error of a remote input that cannot be listed.
fn unreadable(uri: &str, error: &StoreError) -> String {
    let hint = match error {
        StoreError::NotFound { .. } if uri.starts_with("s3://") => {
            "; check the names of bucket and folder, which are case-sensitive, s3.endpoint and s3.region"
        }
        StoreError::NotFound { .. } => "; check the path",
        _ => "",
    };
    format!("the input '{uri}' can't be read: {error}{hint}")
}

/// Appends a path's files with their lengths in bytes, in the order of their names. Hidden entries (`.x`, `_x`) of folders are
/// skipped, as in Flink.
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
        // A pipe or device has no length: it would pass for an empty input.
        let kind = kind_of(metadata.file_type());
        let why = format!("it is {kind}; only files and folders can be read");
        return Err(wrong(io::Error::other(why)));
    }
    if depth >= DEEPEST {
        return Err(wrong(io::Error::other(
            "folders are nested deeper than 64 (a link to itself?)",
        )));
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

/// Returns the name of a file type for error messages, with its article.
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
