//! Long bodies while their parts arrive: in memory as far as this process has room for them, otherwise in a file. So no call
//! fails for the size of its body, and no peer can make a process hold more than its bound.
//!
//! Must never block the thread that reads: files are written and read on the runtime's blocking threads.

use platform::{Disks, blocking};
use std::{
    fs::{DirBuilder, File, OpenOptions},
    io::{self, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes of one body that may wait for the disk. While more wait, its connection is not read, so that a peer sends no
/// faster than the disk writes.
const WAITING_BYTES: usize = 8 << 20;
/// Bodies of one process that are in files at once, each with a descriptor.
const FILES_MAX: usize = 64;

/// A process's room for long bodies whose parts are arriving.
pub(crate) struct Space {
    /// One permit per byte.
    memory: Arc<Semaphore>,
    files: Arc<Semaphore>,
    folders: Arc<Disks>,
}

/// The place of one body, in memory or in a file; its room is free again when this value is dropped.
pub(crate) enum Storage {
    /// The body fits into memory.
    Memory(OwnedSemaphorePermit),
    /// The body goes into a file.
    File(OwnedSemaphorePermit),
}

impl Space {
    /// Makes room for `memory` bytes in memory; files are made in `folders` in turn, or in the system's temporary folder if there are none.
    pub(crate) fn new(memory: usize, folders: Vec<PathBuf>) -> Self {
        Self {
            memory: Arc::new(Semaphore::new(memory.min(Semaphore::MAX_PERMITS))),
            files: Arc::new(Semaphore::new(FILES_MAX)),
            folders: Arc::new(Disks::new(folders)),
        }
    }

    /// Reserves storage for a body of `total` bytes: memory if all of it fits, otherwise a file. Returns `None` if
    /// [`FILES_MAX`] bodies are in files.
    pub(crate) fn reserve(&self, total: u64) -> Option<Storage> {
        let fits = |total| Arc::clone(&self.memory).try_acquire_many_owned(total).ok();
        match u32::try_from(total).ok().and_then(fits) {
            Some(room) => Some(Storage::Memory(room)),
            None => Arc::clone(&self.files).try_acquire_owned().ok().map(Storage::File),
        }
    }

    /// Returns the folders of the files.
    pub(crate) fn folders(&self) -> &Arc<Disks> {
        &self.folders
    }
}

/// The sending side of a body that goes into a file. Dropping it ends the body.
pub(crate) struct ToFile {
    parts: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

impl ToFile {
    /// Queues a part for the disk; drops it if writing has failed, which the writer reports.
    pub(crate) fn push(&self, part: &[u8]) {
        self.waiting.fetch_add(part.len(), Ordering::AcqRel);
        let _ = self.parts.send(part.to_vec());
    }

    /// Returns true if no more parts should be read until the disk has caught up.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > WAITING_BYTES && !self.parts.is_closed()
    }
}

/// The receiving side of a body that goes into a file.
pub(crate) struct Writer {
    parts: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
}

/// Makes the two sides of a body that goes into a file.
pub(crate) fn to_file() -> (ToFile, Writer) {
    let (sender, parts) = mpsc::unbounded_channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (ToFile { parts: sender, waiting: Arc::clone(&waiting) }, Writer { parts, waiting })
}

impl Writer {
    /// Writes the parts into `file`, which is empty, and calls `written` after each part. Returns the file, read from its
    /// beginning; `None` if the parts ended before `total` bytes.
    pub(crate) async fn write(
        mut self,
        mut file: File,
        total: u64,
        written: impl Fn(),
    ) -> io::Result<Option<File>> {
        let mut bytes = 0;
        while let Some(part) = self.parts.recv().await {
            let length = part.len();
            file = blocking(move || file.write_all(&part).map(|()| file)).await??;
            bytes += u64::try_from(length).unwrap_or(u64::MAX);
            self.waiting.fetch_sub(length, Ordering::AcqRel);
            written();
        }
        if bytes < total {
            return Ok(None);
        }
        file.rewind()?;
        Ok(Some(file))
    }
}

/// Makes a file for `total` bytes, as [`nameless`] does, in one of `folders`. Returns it with its folder.
pub(crate) async fn file_in(
    folders: Arc<Disks>,
    name: String,
    total: u64,
) -> io::Result<(PathBuf, File)> {
    let made =
        move || folders.place(total, |folder| Ok((folder.to_owned(), nameless(folder, &name)?)));
    blocking(made).await?
}

/// Makes a file that only this process can reach, and that the system deletes with its last descriptor, however the process
/// ends. The folder is made if absent.
fn nameless(folder: &Path, name: &str) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path: PathBuf = folder.join(name);
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn is_memory(place: Option<&Storage>) -> bool {
        matches!(place, Some(Storage::Memory(_)))
    }

    #[test]
    fn what_does_not_fit_into_memory_goes_into_one_of_a_few_files() {
        let space = Space::new(100, vec!["/".into()]);
        let first = space.reserve(60);
        assert!(is_memory(first.as_ref()));
        let second = space.reserve(60);
        assert!(matches!(second, Some(Storage::File(_))), "60 and 60 are more than 100");
        assert!(is_memory(space.reserve(40).as_ref()));
        drop(first);
        assert!(is_memory(space.reserve(100).as_ref()), "its room is free again");
        let mut files: Vec<_> = (1..FILES_MAX).map(|_| space.reserve(u64::MAX)).collect();
        assert!(files.iter().all(|file| matches!(file, Some(Storage::File(_)))));
        assert!(space.reserve(101).is_none());
        files.pop();
        assert!(space.reserve(101).is_some());
    }

    #[tokio::test]
    async fn parts_come_back_in_order_from_a_file_without_a_name() {
        let folder = std::env::temp_dir().join(format!("flott-spool-{}", std::process::id()));
        let folders = Arc::new(Disks::new(vec!["/dev/null/tmp".into(), folder.clone()]));
        let (to_file, writer) = to_file();
        let part = vec![7; WAITING_BYTES];
        to_file.push(&part);
        assert!(!to_file.is_full());
        to_file.push(b"end");
        assert!(to_file.is_full(), "the disk is behind");
        let total = u64::try_from(part.len() + 3).unwrap();
        let (caught_up, state) = (AtomicUsize::new(0), Arc::clone(&to_file.waiting));
        let written = || _ = caught_up.fetch_add(1, Ordering::Relaxed);
        drop(to_file);
        let (place, empty) = file_in(folders, "one".to_owned(), total).await.unwrap();
        assert_eq!(place, folder, "a disk that fails is passed over");
        let mut file = writer.write(empty, total, written).await.unwrap().unwrap();
        assert_eq!((caught_up.into_inner(), state.load(Ordering::Relaxed)), (2, 0));
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes[..part.len()] == part && bytes[part.len()..] == *b"end");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(folder).unwrap();
    }

    #[tokio::test]
    async fn a_body_that_ends_early_is_none_and_a_folder_that_cannot_be_made_an_error() {
        let (parts, writer) = to_file();
        parts.push(b"half");
        drop(parts);
        let here = Arc::new(Disks::new(Vec::new()));
        let name = format!("half-{}", std::process::id());
        let (_, file) = file_in(here, name, 8).await.unwrap();
        assert!(writer.write(file, 8, || {}).await.unwrap().is_none());
        let (parts, writer) = to_file();
        let nowhere = Arc::new(Disks::new(vec!["/dev/null/folder".into()]));
        assert!(file_in(nowhere, "x".to_owned(), 8).await.is_err());
        drop(writer);
        parts.push(&vec![0; WAITING_BYTES + 1]);
        assert!(!parts.is_full(), "a body that has failed stops nobody");
    }
}
