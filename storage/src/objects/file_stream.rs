//! The writing of a store's files, in one piece or many: to a temporary name, with the header filled in at the end. A [`FileStream`] must
//! never write or remove anything on the thread that polls a future.

use super::{
    ObjectStream, StoreError, StoreFuture,
    file::{Folder, Temporary, sync_folder_of},
    frame::{self, FILE_MAGIC, HEADER_BYTES},
};
use crate::disk::{DiskCalls, in_background};
use bytes::Bytes;
use std::{
    fs::{self, File},
    io::{self, Write as _},
    mem,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// One file that is being written.
#[derive(Debug)]
pub(super) struct FileStream {
    folder: Arc<Folder>,
    calls: DiskCalls,
    name: String,
    /// Calls follow one after the other, so nobody waits for this lock.
    progress: Arc<Mutex<Progress>>,
}

/// The state that the calls of a stream have left it in.
#[derive(Debug, Default)]
enum Progress {
    /// No call was made: there is no file yet.
    #[default]
    Unbegun,
    /// A part of the content is in the file.
    Begun(Written),
    /// The object is whole, or a call has failed: further calls are refused, because they would begin another, truncated object.
    Over,
}

/// The temporary file, and the length and checksum of its content so far.
#[derive(Debug)]
pub(super) struct Written {
    target: PathBuf,
    temporary: Temporary,
    file: File,
    checksum: crc32fast::Hasher,
    bytes: u64,
}

impl FileStream {
    pub(super) fn new(folder: Arc<Folder>, calls: DiskCalls, name: String) -> Self {
        Self { folder, calls, name, progress: Arc::default() }
    }

    /// Runs `work` on a blocking thread, with what is written so far taken out: a call that fails leaves nothing to go on with.
    fn call(
        &self,
        work: impl FnOnce(Written) -> Result<Option<Written>, StoreError> + Send + 'static,
    ) -> StoreFuture<()> {
        let (folder, name) = (Arc::clone(&self.folder), self.name.clone());
        let progress = Arc::clone(&self.progress);
        self.calls.run(move || {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = match mem::replace(&mut *progress, Progress::Over) {
                Progress::Unbegun => Written::begin(&folder, &name)?,
                Progress::Begun(begun) => begun,
                Progress::Over => return Err(over(&folder.path(&name)?)),
            };
            if let Some(begun) = work(begun)? {
                *progress = Progress::Begun(begun);
            }
            Ok(())
        })
    }
}

fn over(target: &Path) -> StoreError {
    let why = "it was finished, or a write before this one failed".to_owned();
    StoreError::Io { path: target.display().to_string(), why }
}

impl Written {
    /// Creates the temporary file of an object of this name, and the folders above it.
    pub(super) fn begin(folder: &Folder, name: &str) -> Result<Self, StoreError> {
        let target = folder.path(name)?;
        let (path, file) = folder.create_beside(&target)?;
        let temporary = folder.temporary(path);
        let begun = Self { target, temporary, file, checksum: crc32fast::Hasher::new(), bytes: 0 };
        // The header's place, until the length and the checksum are known.
        begun.done((&begun.file).write_all(&[0; HEADER_BYTES]))?;
        Ok(begun)
    }

    fn done<T>(&self, result: io::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError::from_io(&self.target, &error))
    }

    /// Appends a piece to the content.
    pub(super) fn write(mut self, piece: &[u8]) -> Result<Self, StoreError> {
        self.checksum.update(piece);
        self.bytes += piece.len() as u64;
        self.done((&self.file).write_all(piece))?;
        Ok(self)
    }

    /// Writes the header: the file is whole now, under its temporary name.
    fn write_header(&self) -> Result<(), StoreError> {
        let header = frame::header_of(FILE_MAGIC, self.bytes, self.checksum.clone());
        self.done(self.file.write_all_at(&header, 0))
    }

    /// Writes the header, syncs the file, and returns it under its temporary name.
    pub(super) fn seal(self) -> Result<Temporary, StoreError> {
        self.write_header()?;
        self.done(self.file.sync_all())?;
        Ok(self.temporary)
    }

    /// Gives the whole file the object's name, where it replaces another one.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        let target = self.target.clone();
        renamed(&self.seal()?, &target)?;
        sync_folder_of(&target)
    }

    /// Does as [`Self::finish`], but does not wait until the disk has the file.
    pub(super) fn finish_unsynced(self) -> Result<(), StoreError> {
        self.write_header()?;
        let Self { target, temporary, file, .. } = self;
        // A network file system may say only here that its disk is full.
        let closed = nix::unistd::close(file).map_err(io::Error::from);
        closed.map_err(|error| StoreError::from_io(&target, &error))?;
        renamed(&temporary, &target)
    }
}

fn renamed(temporary: &Temporary, target: &Path) -> Result<(), StoreError> {
    fs::rename(&temporary.path, target).map_err(|error| StoreError::from_io(target, &error))
}

impl ObjectStream for FileStream {
    fn write(&mut self, piece: Bytes) -> StoreFuture<()> {
        self.call(move |written| written.write(&piece).map(Some))
    }

    fn finish(&mut self) -> StoreFuture<()> {
        self.call(|written| written.finish().map(|()| None))
    }
}

impl Drop for FileStream {
    fn drop(&mut self) {
        let progress = Arc::clone(&self.progress);
        if progress.try_lock().is_ok_and(|progress| !matches!(*progress, Progress::Begun(_))) {
            return;
        }
        // Removing the temporary file is disk work. A call that still runs removes it at its end.
        in_background(move || drop(progress));
    }
}
