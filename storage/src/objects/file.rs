//! Objects as files below one directory: written to a temporary name, synced, then linked or renamed.
//!
//! Each file begins with a header (`frame.rs`) of magic `FLOTTOB3`. The disk work of a call runs on tokio's blocking
//! threads, a bounded number of calls at a time ([`DiskCalls`]): a directory that hangs (NFS, a full device queue)
//! holds up these calls but no lane. This module must never show a file that was not written to its end, never leave
//! its directory, and never let other users of the machine read its files.

use super::file_stream::{FileStream, Written};
use super::frame::{self, FILE_MAGIC};
use super::{FolderChoice, ObjectStore, ObjectStream, PutNew, StoreError, StoreFuture, check_name};
use crate::disk::DiskCalls;
use bytes::Bytes;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Age from which a temporary file counts as abandoned where others may write; a write takes milliseconds.
pub(crate) const ABANDONED_AFTER: Duration = Duration::from_secs(3600);
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";
/// Graphs hold arguments and environments, so folders are made for this user alone. An existing
/// folder keeps its mode.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Distinguishes temporary files of one process; `create_new` does so among processes.
static TEMPORARY_COUNTER: AtomicU64 = AtomicU64::new(0);

/// Maximum number of times that another call may remove a folder between its creation and its use.
const CREATE_TRIES: u32 = 100;

/// An object store in a directory of a local (or mounted) file system, one file for each object, with a header that has its checksum. Other
/// users cannot read files and folders that the store makes; folders that existed keep their mode. At most eight calls use the disk at a
/// time, on blocking threads; further ones wait without a limit.
#[derive(Debug)]
pub struct FileObjects {
    folder: Arc<Folder>,
    calls: DiskCalls,
}

/// The content of folders below the store's directory.
#[derive(Debug, Default)]
struct Walked {
    /// The names of the objects that begin with the prefix.
    names: Vec<String>,
    /// The folders that were looked into, each behind the one that it is in.
    folders: Vec<String>,
    /// The temporary files, each with the name of its folder.
    temporaries: Vec<(String, PathBuf)>,
}

/// The store's directory. All methods block the calling thread.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
    /// The time on the file system when the store was opened for writing; `None` if it was opened for reading.
    opened: Option<SystemTime>,
}

impl FileObjects {
    /// Opens the store in the directory `root`, which is created where it is absent, and checks that it can be written to. The opened
    /// store removes temporary files that killed writers left more than an hour before the opening, when it lists the folder that they
    /// are in, and younger ones too in the folders that [`ObjectStore::sweep`] is called for; it does not look for them elsewhere, because
    /// `root` may be a user's folder with other files. Blocks the calling thread.
    ///
    /// # Errors
    /// Returns the system's error if the directory can't be created or written to.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        create_dirs(&root)?;
        // The probe shows that the directory is writable, and its time is "now" on that file system.
        let (probe, file) = create_temporary(&root)?;
        let opened = file.metadata().and_then(|m| m.modified()).ok();
        drop(file);
        fs::remove_file(&probe).map_err(|e| StoreError::from_io(&probe, &e))?;
        let folder = Folder { root, opened };
        Ok(Self { calls: DiskCalls::new(&folder.root), folder: Arc::new(folder) })
    }

    /// Opens the store in a directory that must exist, for reading a snapshot, say. Unlike [`FileObjects::open`] this writes nothing: it
    /// does not check that the directory can be written to, and its listings never remove what killed writers left. Blocks the calling
    /// thread.
    ///
    /// # Errors
    /// Returns [`StoreError::NotFound`] if the path names no directory, or the system's error.
    pub fn open_existing(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let folder = Folder { root: root.into(), opened: None };
        let found = fs::metadata(&folder.root);
        match found.map_err(|error| StoreError::from_io(&folder.root, &error))?.is_dir() {
            true => Ok(Self { calls: DiskCalls::new(&folder.root), folder: Arc::new(folder) }),
            false => Err(StoreError::NotFound { path: folder.root.display().to_string() }),
        }
    }

    /// Runs `work` on a blocking thread once one of the store's `CALLS_MAX` places is free.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreFuture<T> {
        let folder = Arc::clone(&self.folder);
        self.calls.run(move || work(&folder))
    }
}

impl Folder {
    /// Removes a temporary file that is so old that its writer was killed. A failure is ignored: it is only tidiness.
    fn remove_abandoned(&self, temporary: &Path) {
        let modified = fs::symlink_metadata(temporary).and_then(|meta| meta.modified()).ok();
        let age = self.opened.zip(modified).and_then(|(now, at)| now.duration_since(at).ok());
        if age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_file(temporary);
        }
    }

    pub(super) fn path(&self, name: &str) -> Result<PathBuf, StoreError> {
        check_name(name)?;
        Ok(self.root.join(name))
    }

    /// Creates the folders above `target` and a temporary file beside it. Tries again if a concurrent
    /// [`Folder::delete`] removes a folder in between.
    pub(super) fn create_beside(&self, target: &Path) -> Result<(PathBuf, File), StoreError> {
        let folder = target.parent().unwrap_or(&self.root);
        let mut tries = 0;
        loop {
            match create_dirs(folder).and_then(|()| create_temporary(folder)) {
                Err(StoreError::NotFound { .. }) if tries < CREATE_TRIES => tries += 1,
                created => return created,
            }
        }
    }

    /// Returns the guard of a temporary file at `path`.
    pub(super) fn temporary(&self, path: PathBuf) -> Temporary {
        Temporary { path, root: self.root.clone() }
    }
}

impl Folder {
    /// Opens the file of an object for reading; `None` if there is none.
    fn open_file(path: &Path) -> Result<Option<File>, StoreError> {
        // Opening a named pipe waits for somebody who writes to it, so the type is looked at first.
        let opened = fs::metadata(path).and_then(|meta| match meta.is_file() {
            true => File::open(path).map(|file| (meta, Some(file))),
            false => Ok((meta, None)),
        });
        match opened {
            Ok((_, Some(file))) => Ok(Some(file)),
            Ok((meta, None)) if meta.is_dir() => Ok(None),
            Ok((_, None)) => {
                let why = "it is a named pipe, a socket or a device, not a regular file".to_owned();
                Err(StoreError::Corrupt { path: path.display().to_string(), why })
            }
            Err(e) if absent(&e) => Ok(None),
            Err(e) => Err(StoreError::from_io(path, &e)),
        }
    }

    fn get_ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Option<Bytes>, StoreError> {
        let path = self.path(name)?;
        let Some(mut file) = Self::open_file(&path)? else { return Ok(None) };
        let mut all = Vec::new();
        // The system refuses to seek to places that no file has.
        let length = file.metadata().map_err(|e| StoreError::from_io(&path, &e))?.len();
        for Range { start, end } in ranges {
            let begin = start.saturating_add(frame::HEADER_BYTES as u64).min(length);
            let read = file.seek(SeekFrom::Start(begin));
            let read = read
                .and_then(|_| (&mut file).take(end.saturating_sub(*start)).read_to_end(&mut all));
            read.map_err(|e| StoreError::from_io(&path, &e))?;
        }
        Ok(Some(all.into()))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let path = self.path(name)?;
        let Some(mut file) = Self::open_file(&path)? else { return Ok(None) };
        let mut all = Vec::new();
        file.read_to_end(&mut all).map_err(|e| StoreError::from_io(&path, &e))?;
        frame::checked(FILE_MAGIC, &path.display().to_string(), all.into()).map(Some)
    }

    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<PutNew, StoreError> {
        let target = self.path(name)?;
        // A cheap check for an existing object; the link below decides between two concurrent calls.
        if target.exists() {
            return Ok(PutNew::Exists);
        }
        let temporary = Written::begin(self, name)?.write(bytes)?.seal()?;
        match fs::hard_link(&temporary.path, &target) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(PutNew::Exists),
            Err(e) => return Err(StoreError::from_io(&target, &e)),
        }
        sync_folder_of(&target)?;
        Ok(PutNew::Created)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        Written::begin(self, name)?.write(bytes)?.finish()
    }

    fn delete(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => {
                match sync_folder_of(&path) {
                    // Another call has removed the folder, and the object with it.
                    Ok(()) | Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
                remove_empty_folders_above(&self.root, &path);
                Ok(true)
            }
            Err(e) if absent(&e) => Ok(false),
            Err(e) => Err(StoreError::from_io(&path, &e)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let Walked { mut names, temporaries, .. } = self.walk(prefix)?;
        temporaries.iter().for_each(|(_, temporary)| self.remove_abandoned(temporary));
        names.sort();
        Ok(names)
    }

    /// Removes the temporary files in the chosen folders, and those of the folders that are empty then.
    fn sweep(&self, prefix: &str, chosen: &FolderChoice) -> Result<(), StoreError> {
        let Walked { folders, temporaries, .. } = self.walk(prefix)?;
        for (_, temporary) in temporaries.iter().filter(|(folder, _)| chosen(folder)) {
            match fs::remove_file(temporary) {
                // Its writer has given it the object's name, or removed it.
                Err(error) if absent(&error) => {}
                removed => removed.map_err(|error| StoreError::from_io(temporary, &error))?,
            }
        }
        for folder in folders.iter().rev().filter(|folder| chosen(folder)) {
            remove_empty_folders(&self.root, &self.root.join(folder));
        }
        Ok(())
    }

    /// Looks into the deepest folder that `prefix` names completely and into those below it that begin with `prefix`.
    fn walk(&self, prefix: &str) -> Result<Walked, StoreError> {
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        if !folder.is_empty() {
            check_name(folder)?;
        }
        let mut walked = Walked::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let path = self.root.join(&folder);
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(e) if absent(&e) => continue,
                Err(e) => return Err(StoreError::from_io(&path, &e)),
            };
            for entry in entries {
                let entry = entry.map_err(|e| StoreError::from_io(&path, &e))?;
                let file_name = entry.file_name();
                let Some(segment) = file_name.to_str().filter(|s| check_name(s).is_ok()) else {
                    if file_name.to_str().is_some_and(is_temporary) {
                        walked.temporaries.push((folder.clone(), entry.path()));
                    }
                    continue;
                };
                let name = match folder.as_str() {
                    "" => segment.to_owned(),
                    folder => format!("{folder}/{segment}"),
                };
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && name.starts_with(prefix) => folders.push(name),
                    Ok(kind) if kind.is_dir() => {}
                    Ok(_) if name.starts_with(prefix) => walked.names.push(name),
                    _ => {}
                }
            }
            walked.folders.push(folder);
        }
        Ok(walked)
    }
}

impl ObjectStore for FileObjects {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        let name = name.to_owned();
        self.call(move |folder| folder.get(&name))
    }

    fn get_ranges(&self, name: &str, ranges: Vec<Range<u64>>) -> StoreFuture<Option<Bytes>> {
        let name = name.to_owned();
        self.call(move |folder| folder.get_ranges(&name, &ranges))
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        let name = name.to_owned();
        self.call(move |folder| folder.put_new(&name, &bytes))
    }

    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        let name = name.to_owned();
        self.call(move |folder| folder.put(&name, &bytes))
    }

    fn mark(&self, name: &str) -> StoreFuture<()> {
        let name = name.to_owned();
        self.call(move |folder| Written::begin(folder, &name)?.finish_unsynced())
    }

    fn begin(&self, name: &str) -> Option<Box<dyn ObjectStream>> {
        let folder = Arc::clone(&self.folder);
        Some(Box::new(FileStream::new(folder, self.calls.clone(), name.to_owned())))
    }

    fn delete(&self, name: &str) -> StoreFuture<bool> {
        let name = name.to_owned();
        self.call(move |folder| folder.delete(&name))
    }

    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        let prefix = prefix.to_owned();
        self.call(move |folder| folder.list(&prefix))
    }

    fn sweep(&self, prefix: &str, chosen: FolderChoice) -> StoreFuture<()> {
        let prefix = prefix.to_owned();
        self.call(move |folder| folder.sweep(&prefix, &chosen))
    }

    fn location(&self) -> String {
        self.folder.root.display().to_string()
    }
}

/// A temporary file that is removed when this value is dropped, with the folders between it and `root` that are empty then: a
/// checkpoint that was aborted leaves no folder. After a rename nothing is left to remove.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) path: PathBuf,
    pub(crate) root: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if fs::remove_file(&self.path).is_ok() {
            remove_empty_folders_above(&self.root, &self.path);
        }
    }
}

/// Removes the empty folders above a file that was removed, up to `root`, which stays.
fn remove_empty_folders_above(root: &Path, file: &Path) {
    if let Some(folder) = file.parent() {
        remove_empty_folders(root, folder);
    }
}

/// Removes a folder if it is empty, and those above it that are empty then, up to `root`, which stays.
fn remove_empty_folders(root: &Path, folder: &Path) {
    for folder in folder.ancestors().take_while(|folder| *folder != root) {
        // The system refuses to remove a folder that is not empty; the folders above it are not empty either.
        if fs::remove_dir(folder).is_err() {
            return;
        }
    }
}

/// Returns true for the names that [`create_temporary`] gives.
fn is_temporary(name: &str) -> bool {
    let number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let numbers = name.strip_prefix(TEMPORARY_PREFIX).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(process, n)| number(process) && number(n))
}

pub(crate) fn create_temporary(folder: &Path) -> Result<(PathBuf, File), StoreError> {
    loop {
        let n = TEMPORARY_COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{TEMPORARY_PREFIX}{}-{n}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path) {
            Ok(file) => return Ok((path, file)),
            // The name was left by another process of that id, or is used by another host on a shared disk: try the
            // next.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StoreError::from_io(folder, &e)),
        }
    }
}

/// Creates the missing folders and syncs the parents of each, so that they survive what is in them.
pub(crate) fn create_dirs(folder: &Path) -> Result<(), StoreError> {
    if folder.is_dir() {
        return Ok(());
    }
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(FOLDER_MODE);
    builder.create(folder).map_err(|e| StoreError::from_io(folder, &e))?;
    missing.iter().try_for_each(|made| sync_folder_of(made))
}

pub(crate) fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| StoreError::from_io(folder, &e))
}

/// Returns true if the error says that there is no such file: it is missing, or a file is where a folder would be.
pub(crate) fn absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    )
}
