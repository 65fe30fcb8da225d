//! The writer of the text sink: one file per attempt, which a restored attempt copies up to the length in the checkpoint. It
//! never writes to the file of another attempt, which another job may restore too.

use super::{Identity, TextPart, publish};
use crate::{
    operators::{BoxError, OperatorContext},
    seam::TaskError,
    sinks::{
        Announcement, CommittingSinkWriter, SinkWriter, WriterContext, files::names::Names, marks,
    },
    state::ListState,
    types::ToLine,
};
use std::{
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use storage::output::OutputFolder;

/// Size in bytes of the write buffer.
const BUFFER_BYTES: usize = 256 << 10;

/// The files of a subtask in a checkpoint, each with the length that counts.
#[derive(derive::OperatorState)]
#[flott(crate = crate)]
pub(crate) struct TextState {
    files: ListState<(String, u64)>,
}

#[cfg(test)]
impl TextState {
    /// Returns the state of a subtask that has taken over a part.
    pub(in crate::sinks) fn example() -> Self {
        let mut state = <Self as crate::state::State>::empty();
        state.files.push(("/out/part-1".to_owned(), 70_000));
        state.files.push(("/out/part-2".to_owned(), 3));
        state
    }
}

/// Writes the part of one subtask.
pub(crate) struct TextWriter {
    destination: PathBuf,
    /// The job's staging folder.
    staging: PathBuf,
    names: Names,
    /// The staging folder, for the mark.
    folder: Arc<dyn OutputFolder>,
    path: PathBuf,
    /// `None` once the part is written to its end, or if that is so in the restored checkpoint.
    file: Option<BufWriter<File>>,
    line: Vec<u8>,
    /// True once a checkpoint may contain the file or the committable: the file must outlive the attempt.
    kept: bool,
    ready: Option<TextPart>,
}

impl TextWriter {
    pub(super) fn new(destination: PathBuf, context: &OperatorContext, names: Names) -> Self {
        let staging = publish::staging(&destination, context.job_id());
        let path = staging.join(names.part(0));
        let folder = storage::output::local(&staging);
        let (file, line, kept, ready) = (None, Vec::new(), false, None);
        Self { destination, staging, names, folder, path, file, line, kept, ready }
    }

    fn wrong(&self, context: &OperatorContext, error: &io::Error) -> BoxError {
        let what = format!("the output '{}' can't be written", self.destination.display());
        context.io_error(what, error).into()
    }

    fn create(&self) -> io::Result<BufWriter<File>> {
        fs::create_dir_all(&self.staging)?;
        Ok(BufWriter::with_capacity(BUFFER_BYTES, File::create(&self.path)?))
    }

    /// Makes durable what was written, and returns the length.
    fn sync(&mut self) -> io::Result<u64> {
        let Some(file) = &mut self.file else { return Ok(0) };
        file.flush()?;
        file.get_ref().sync_data()?;
        Ok(file.get_ref().metadata()?.len())
    }

    /// Appends the part of an earlier attempt, which may have ended since, up to the length that counts. `NotFound` and `UnexpectedEof`
    /// mean that the part, or its end, is gone.
    fn append(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.flush()?;
        let part = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let others = [Some(ended(path)), publish::kept(path)];
                let found = others.into_iter().flatten().find_map(|path| File::open(path).ok());
                found.ok_or(error)?
            }
            opened => opened?,
        };
        let copied = io::copy(&mut part.take(bytes), file.get_mut())?;
        let why = || format!("it has {copied} bytes, the checkpoint {bytes}");
        if copied == bytes { Ok(()) } else { Err(io::Error::new(ErrorKind::UnexpectedEof, why())) }
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        self.sync()?;
        self.file = None;
        // From now on checkpoints hold the part itself, which must outlive all attempts: this name is never that of a leftover.
        let ended = ended(&self.path);
        fs::rename(&self.path, &ended)?;
        self.path = ended;
        File::open(&self.staging)?.sync_all()?;
        let identity = Identity::of(&self.path)?.ok_or(ErrorKind::NotFound)?;
        let (subtask, path) = (self.names.subtask(), self.path.display().to_string());
        self.ready = Some(TextPart { subtask, host: marks::host(), path, identity });
        Ok(())
    }
}

/// Returns the path of a part once it has ended.
fn ended(part: &Path) -> PathBuf {
    let name = part.file_name().unwrap_or_default();
    part.with_file_name(format!("ended-{}", name.display()))
}

impl Identity {
    /// Returns the identity of what is at a path, `None` if nothing is. Symbolic links are not followed.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let modified_ns = u64::try_from(ns).unwrap_or(0);
        Ok(Some(Self { inode: metadata.ino(), bytes: metadata.len(), modified_ns }))
    }
}

impl<T: ToLine> SinkWriter<T> for TextWriter {
    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        if !context.shared().restored_at_end {
            self.file = Some(self.create().map_err(|error| self.wrong(context, &error))?);
        }
        Ok(())
    }

    fn write(&mut self, record: T, context: &WriterContext<'_>) -> Result<(), BoxError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.line.clear();
        record.write_line(&mut self.line);
        self.line.push(b'\n');
        file.write_all(&self.line).map_err(|error| self.wrong(context, &error))
    }

    fn flush(&mut self, end_of_input: bool, context: &OperatorContext) -> Result<(), BoxError> {
        if end_of_input {
            self.finish().map_err(|error| self.wrong(context, &error))?;
        }
        Ok(())
    }

    fn close(&mut self) {
        self.file = None;
        if !self.kept {
            // Failures are ignored: the folder is hidden, and the job's next attempt uses it.
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_dir(&self.staging);
        }
    }
}

impl<T: ToLine> CommittingSinkWriter<T> for TextWriter {
    type Committable = TextPart;
    type State = TextState;
    // A part is prepared at its subtask's end, under a name that is no leftover's; others have been copied by then.
    const ABORTS_BEFORE_END: bool = true;

    fn prepare_commit(&mut self) -> Result<Vec<TextPart>, BoxError> {
        Ok(self.ready.take().into_iter().collect())
    }

    fn snapshot_state(&mut self, _checkpoint: u64) -> Result<TextState, BoxError> {
        self.kept = true;
        let mut state = <TextState as crate::state::State>::empty();
        if self.file.is_some() {
            let bytes = self.sync()?;
            state.files.push((self.path.display().to_string(), bytes));
        }
        Ok(state)
    }

    fn keep(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        if self.file.is_none() {
            return Ok(());
        }
        publish::keep(&self.path).map_err(|error| {
            let what = format!("cannot keep '{}' for a savepoint", self.path.display());
            context.io_error(what, error).into()
        })
    }

    fn restore_state(
        &mut self,
        mut state: TextState,
        context: &OperatorContext,
    ) -> Result<(), BoxError> {
        for (path, bytes) in state.files.take()? {
            self.append(Path::new(&path), bytes).map_err(|error| -> BoxError {
                let kept = publish::kept(Path::new(&path)).unwrap_or_default();
                // What the checkpoint counts does not come back: the job is not restarted.
                let what = match error.kind() {
                    ErrorKind::NotFound => format!(
                        "cannot be continued: '{path}', which an earlier attempt has written, does not exist, nor is it kept in '{}', \
                         as it is for a savepoint: it was deleted, or the TaskManagers do not share the folder",
                        kept.with_file_name("").display()
                    ),
                    ErrorKind::UnexpectedEof => format!(
                        "cannot be continued: '{path}', which an earlier attempt has written, or '{}', where it is kept for a savepoint, \
                         was truncated: {error}; start the job from another savepoint",
                        kept.display()
                    ),
                    _ => {
                        let what =
                            format!("cannot take over '{path}', which an earlier attempt has written");
                        return context.io_error(what, error).into();
                    }
                };
                TaskError::Output { operator: context.name().to_owned(), what }.into()
            })?;
        }
        Ok(())
    }

    fn announce(&mut self, context: &OperatorContext) -> Option<Announcement<TextPart>> {
        let shown = self.destination.display().to_string();
        let left = marks::leave(&self.folder, &shown, &self.names, context);
        let (subtask, host) = (self.names.subtask(), marks::host());
        let part = move |path| TextPart { subtask, host, path, identity: Identity::default() };
        Some(Box::pin(async move { Ok(left.await?.map(part)) }))
    }

    fn withdraw(&mut self) {
        marks::withdraw(&*self.folder, &self.names);
    }

    fn abort_leftovers(&mut self, _context: &OperatorContext) -> Result<(), BoxError> {
        for entry in fs::read_dir(&self.staging).into_iter().flatten().flatten() {
            let name = entry.file_name();
            // A part, or a mark that no committer has taken.
            let name = name.to_str().map(|name| name.strip_prefix('.').unwrap_or(name));
            if name.is_some_and(|name| self.names.is_leftover(name)) {
                // A failure is ignored: the file goes with the folder.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }
}
