//! Blobs as files `<root>/<job id or "shared">/<permanent or transient>-<hash>`. A file holds the blob's content and
//! nothing else. There may be several roots, one for each disk: a blob is in one of them.
//!
//! All state is in the directories. The same content under several jobs is one inode with several hard links: the link
//! count is the reference count, which the file system keeps correct through any crash. The disk work of a call runs on
//! tokio's blocking threads, a bounded number of calls at a time ([`DiskCalls`]): a directory that hangs holds up these
//! calls but no lane. This module must never give a file its final name before its content is synced.

use super::layout::{file_name, folder_in, keys_in};
use super::{BlobFuture, BlobStore, BlobStoreError, BlobWriter};
use crate::disk::DiskCalls;
use crate::objects::{
    StoreError,
    file::{
        ABANDONED_AFTER, TEMPORARY_PREFIX, Temporary, absent, create_dirs, create_temporary,
        sync_folder_of,
    },
};
use bytes::Bytes;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use platform::{
    Disks,
    content::{ContentHasher, hash_file_now},
};
use std::{
    collections::BTreeSet,
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::runtime::Handle;

/// Mode of blobs: programs are started from them; no other user needs to read them.
const MODE: u32 = 0o700;
/// Bytes free on a disk below which it gets no blob while another disk has more: programs have some ten MiB, and the size of
/// a blob is known only at its end.
const ROOM_BYTES: u64 = 256 << 20;

/// A blob store in local directories, one file for each blob; equal content under several jobs is one file with several hard links. Each
/// content that this process has not written itself is read and checked once per process before it is given out, and again after a change
/// of its file or the removal of a blob with the same content. Clones are handles to the same store. At most eight calls use the disk at a
/// time; further ones wait without a limit.
#[derive(Debug, Clone)]
pub struct FileBlobs {
    folder: Arc<Folder>,
    calls: DiskCalls,
}

/// The store's directories and what this process knows about their files. All methods block the calling thread.
#[derive(Debug)]
struct Folder {
    roots: Disks,
    /// Directories whose blobs could not be listed when this was last tried.
    unlisted: Mutex<BTreeSet<PathBuf>>,
    /// Contents that this process has written or read to the end and found right, and the files as they
    /// were then.
    verified: Mutex<BTreeSet<(ContentHash, Stamp)>>,
    /// A call holds this lock while it verifies a file or changes names. Several calls for one file then read it once,
    /// and a call that found a damaged file cannot remove the good file that an upload has put in its place since.
    changes: Mutex<()>,
    /// A call that gives a file its name holds this lock from the look for equal content to the name: two calls with equal content would
    /// name both their files. Looks at all disks, which `changes` must not wait for.
    naming: Mutex<()>,
}

/// The identity of a file's content: it changes whenever somebody writes to the file. Links to the same content share
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    size: u64,
    inode: (u64, u64),
    modified: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            size: meta.len(),
            inode: (meta.dev(), meta.ino()),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

impl FileBlobs {
    /// Opens the store in the directory `root`, which is created where it is absent, and removes files that killed writers left half
    /// written more than an hour ago; blobs stay, and are not verified before their first use. Blocks the calling thread.
    ///
    /// # Errors
    /// Returns the system's error if the directory can't be created or written to. That old files cannot be removed is no error.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::open_on(vec![root.into()])
    }

    /// Opens the store in several directories, each as [`FileBlobs::open`] does. New blobs go to them in turn; a directory on a disk that
    /// takes no file, or has less than 256 MiB free, gets none while another one does. Equal content is on one disk, unless the disk that
    /// has it cannot be read. An empty list stands for the system's temporary directory.
    ///
    /// # Errors
    /// Returns the system's error if one of the directories can't be created or written to.
    pub fn open_on(roots: Vec<PathBuf>) -> Result<Self, StoreError> {
        let roots = Disks::new(roots);
        roots.folders().iter().try_for_each(|root| prepare(root))?;
        let calls = DiskCalls::new(roots.to_string().as_ref());
        let folder = Folder {
            roots,
            unlisted: Mutex::default(),
            verified: Mutex::default(),
            changes: Mutex::default(),
            naming: Mutex::default(),
        };
        Ok(Self { folder: Arc::new(folder), calls })
    }

    /// Runs `work` on a blocking thread once one of the store's `CALLS_MAX` places is free.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, BlobStoreError> + Send + 'static,
    ) -> BlobFuture<T> {
        let folder = Arc::clone(&self.folder);
        self.calls.run(move || work(&folder))
    }
}

impl Folder {
    fn verified(&self) -> MutexGuard<'_, BTreeSet<(ContentHash, Stamp)>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the job's folder on each disk, whether or not it is there.
    fn of_job(&self, job: Option<JobId>) -> impl Iterator<Item = PathBuf> {
        self.roots.folders().iter().map(move |root| folder_in(root, job))
    }

    /// Returns the places in which the blob's file may be: one on each disk.
    fn places(&self, key: &BlobKey) -> impl Iterator<Item = PathBuf> {
        let name = file_name(key.kind, key.hash);
        self.of_job(key.job).map(move |folder| folder.join(&name))
    }

    /// Returns the blob's file. The content is read and checked once per process, and again after it was changed.
    fn checked(&self, key: &BlobKey) -> Result<PathBuf, BlobStoreError> {
        let (path, meta) = self.there(key)?;
        if self.is_verified(key, Stamp::of(&meta)) {
            return Ok(path);
        }
        self.checked_alone(key, &self.changes())
    }

    /// Does what [`Folder::checked`] does, for a call that holds the lock. Before it got the lock, another call may have verified the file,
    /// removed it or replaced it.
    fn checked_alone(
        &self,
        key: &BlobKey,
        _changes: &MutexGuard<'_, ()>,
    ) -> Result<PathBuf, BlobStoreError> {
        let (path, meta) = self.there(key)?;
        let stamp = Stamp::of(&meta);
        if self.is_verified(key, stamp) {
            return Ok(path);
        }
        let (actual, _) = hash_file_now(&path).map_err(|e| StoreError::from_io(&path, &e))?;
        if actual != key.hash {
            // The damaged file is removed, so that the next upload replaces it. If it stayed, `find` would report it
            // for ever.
            fs::remove_file(&path).map_err(|e| StoreError::from_io(&path, &e))?;
            return Err(BlobStoreError::WrongHash { expected: key.hash, actual });
        }
        if stamp.size != key.size {
            return Err(BlobStoreError::NotFound(key.hash));
        }
        self.verify(key.hash, stamp);
        Ok(path)
    }

    /// Returns the blob's file and its metadata. A disk that fails is an error only if no other disk has the blob.
    fn there(&self, key: &BlobKey) -> Result<(PathBuf, fs::Metadata), BlobStoreError> {
        let mut missing = BlobStoreError::NotFound(key.hash);
        for path in self.places(key) {
            match fs::metadata(&path) {
                Ok(meta) => return Ok((path, meta)),
                Err(e) if absent(&e) => {}
                Err(e) => missing = StoreError::from_io(&path, &e).into(),
            }
        }
        Err(missing)
    }

    fn is_verified(&self, key: &BlobKey, stamp: Stamp) -> bool {
        stamp.size == key.size && self.verified().contains(&(key.hash, stamp))
    }

    /// Records that the content of a file is verified; what was known of earlier files with the same hash is dropped.
    fn verify(&self, hash: ContentHash, stamp: Stamp) {
        let mut verified = self.verified();
        verified.retain(|(known, old)| *known != hash || old.inode != stamp.inode);
        verified.insert((hash, stamp));
    }

    /// Records that a file with this content was removed. Its other links are verified again on their next use.
    fn forget(&self, hash: ContentHash) {
        self.verified().retain(|(known, _)| *known != hash);
    }

    /// Returns a verified file with that content under any job, to link to.
    fn same_content(&self, hash: ContentHash) -> Option<PathBuf> {
        let keys = self.keys().ok()?;
        let mut same = keys.iter().filter(|key| key.hash == hash);
        same.find_map(|key| self.checked(key).ok())
    }

    fn find(
        &self,
        job: Option<JobId>,
        hash: ContentHash,
    ) -> Result<Option<BlobKey>, BlobStoreError> {
        for kind in [BlobKind::Permanent, BlobKind::Transient] {
            let key = BlobKey { job, hash, kind, size: 0 };
            match self.there(&key) {
                Ok((_, meta)) => return Ok(Some(BlobKey { size: meta.len(), ..key })),
                Err(BlobStoreError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> Result<Bytes, BlobStoreError> {
        let path = self.checked(key)?;
        let failed = |e: io::Error| BlobStoreError::from(StoreError::from_io(&path, &e));
        let left = key.size.saturating_sub(offset);
        let mut bytes = vec![0; max.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let file = match File::open(&path) {
            Ok(file) => file,
            // Another call removed the file after it was checked.
            Err(e) if absent(&e) => return Err(BlobStoreError::NotFound(key.hash)),
            Err(e) => return Err(failed(e)),
        };
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes.into())
    }

    fn remove(&self, key: &BlobKey) -> Result<bool, BlobStoreError> {
        let _changes = self.changes();
        let mut outcome = Ok(false);
        for path in self.places(key) {
            match fs::remove_file(&path) {
                Ok(()) => outcome = Ok(true),
                Err(e) if absent(&e) || matches!(outcome, Ok(true)) => {}
                Err(e) => outcome = Err(StoreError::from_io(&path, &e).into()),
            }
        }
        if matches!(outcome, Ok(true)) {
            self.forget(key.hash);
        }
        outcome
    }

    fn remove_job(&self, job: JobId) -> Result<(), BlobStoreError> {
        let _changes = self.changes();
        let removed = self.of_job(Some(job)).map(|folder| match fs::remove_dir_all(&folder) {
            Err(e) if !absent(&e) => Err(StoreError::from_io(&folder, &e).into()),
            _ => Ok(()),
        });
        // Each disk is cleared, also after one that fails.
        removed.fold(Ok(()), Result::and)
    }

    /// Lists the blobs on all disks. A disk that cannot be read is passed over if another one can: the caller takes its blobs for removed,
    /// which loses nothing, and sees them again once the disk can be read. The first time in a row is logged.
    fn keys(&self) -> Result<Vec<BlobKey>, BlobStoreError> {
        let mut keys = Vec::new();
        let roots = self.roots.folders();
        let listed = roots.iter().map(|root| (root, keys_in(root, &mut keys)));
        let failed: Vec<_> = listed.filter_map(|(root, done)| Some((root, done.err()?))).collect();
        if failed.len() == roots.len()
            && let Some((_, error)) = failed.first()
        {
            return Err(error.clone());
        }
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        unlisted.retain(|root| failed.iter().any(|(failed, _)| *failed == root));
        for (root, error) in failed {
            if unlisted.insert(root.clone()) {
                tracing::warn!(%error, dir = %root.display(), "the blobs on a disk cannot be listed, those on other disks are");
            }
        }
        keys.sort();
        keys.dedup();
        Ok(keys)
    }
}

/// Creates a directory of a store if it is absent, checks that it can be written to, and removes the files that killed writers left in it.
fn prepare(root: &Path) -> Result<(), StoreError> {
    create_dirs(root)?;
    let (probe, file) = create_temporary(root)?;
    let now = file.metadata().and_then(|m| m.modified());
    fs::remove_file(&probe).map_err(|e| StoreError::from_io(&probe, &e))?;
    let Ok(now) = now else { return Ok(()) };
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let age = entry.metadata().and_then(|m| m.modified());
        let age = age.ok().and_then(|at| now.duration_since(at).ok());
        if temporary && age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

impl BlobStore for FileBlobs {
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>> {
        let store = self.clone();
        self.call(move |folder| {
            let open = folder.roots.place(ROOM_BYTES, |root| {
                let (path, file) = create_temporary(root)?;
                Ok::<_, StoreError>((Temporary { path, root: root.to_owned() }, file))
            })?;
            Ok(Box::new(Incoming { store, open: Some(open), hasher: ContentHasher::default() })
                as Box<_>)
        })
    }

    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        self.call(move |folder| folder.find(job, hash))
    }

    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes> {
        let key = *key;
        self.call(move |folder| folder.read(&key, offset, max))
    }

    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>> {
        let key = *key;
        self.call(move |folder| folder.checked(&key).map(Some))
    }

    fn references(&self, key: &BlobKey) -> BlobFuture<u64> {
        let key = *key;
        self.call(move |folder| folder.there(&key).map(|(_, meta)| meta.nlink()))
    }

    fn remove(&self, key: &BlobKey) -> BlobFuture<bool> {
        let key = *key;
        self.call(move |folder| folder.remove(&key))
    }

    fn remove_job(&self, job: JobId) -> BlobFuture<()> {
        self.call(move |folder| folder.remove_job(job))
    }

    fn keys(&self) -> BlobFuture<Vec<BlobKey>> {
        self.call(Folder::keys)
    }

    fn location(&self) -> String {
        self.folder.roots.to_string()
    }
}

/// A temporary file that is being written. It is removed when this value is dropped.
struct Incoming {
    store: FileBlobs,
    /// The temporary file; `None` once a call has taken it over, to write it, finish it or remove it.
    open: Option<(Temporary, File)>,
    hasher: ContentHasher,
}

impl Incoming {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobStoreError> {
        let Some((temporary, mut file)) = self.open.take() else {
            return Ok(());
        };
        // If the write fails, the temporary file is removed on this thread, which may block.
        file.write_all(bytes).map_err(|e| StoreError::from_io(&temporary.root, &e))?;
        self.open = Some((temporary, file));
        self.hasher.add(bytes);
        Ok(())
    }

    /// Checks the content's hash, syncs the file and gives it its final name.
    fn name(
        mut self,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> Result<BlobKey, BlobStoreError> {
        let Some((temporary, file)) = self.open.take() else {
            return Err(BlobStoreError::NotFound(expected));
        };
        let (actual, size) = std::mem::take(&mut self.hasher).finish();
        if actual != expected {
            return Err(BlobStoreError::WrongHash { expected, actual });
        }
        let folder = Arc::clone(&self.store.folder);
        let synced =
            file.set_permissions(Permissions::from_mode(MODE)).and_then(|()| file.sync_all());
        synced.map_err(|e| StoreError::from_io(&temporary.root, &e))?;
        // The file is closed before it gets its name: a file that is open for writing cannot be executed.
        drop(file);
        let key = BlobKey { job, hash: expected, kind, size };
        let _naming = folder.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let there = folder.checked(&key).ok();
        let same = if there.is_some() { None } else { folder.same_content(expected) };
        let _changes = folder.changes();
        let target = match there.filter(|there| there.exists()) {
            Some(there) => there,
            None => {
                let link = |same: PathBuf| {
                    let root = same.parent()?.parent()?;
                    named(root, &key, |target| fs::hard_link(&same, target)).ok()
                };
                let rename = |target: &Path| fs::rename(&temporary.path, target);
                same.and_then(link).map_or_else(|| named(&temporary.root, &key, rename), Ok)?
            }
        };
        sync_folder_of(&target)?;
        if let Ok(meta) = fs::metadata(&target) {
            folder.verify(expected, Stamp::of(&meta));
        }
        Ok(key)
    }
}

impl BlobWriter for Incoming {
    fn append(mut self: Box<Self>, bytes: Bytes) -> BlobFuture<Box<dyn BlobWriter>> {
        let store = self.store.clone();
        store.call(move |_| {
            self.write(&bytes)?;
            Ok(self as Box<dyn BlobWriter>)
        })
    }

    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> BlobFuture<BlobKey> {
        let store = self.store.clone();
        store.call(move |_| self.name(job, kind, expected))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        // An actor may have dropped the writer, so a blocking thread removes the file. Without a runtime the caller is
        // no actor, and `open` is dropped here.
        if let Ok(runtime) = Handle::try_current() {
            let gone = self.store.call(move |_| {
                drop(open);
                Ok(())
            });
            drop(runtime.spawn(gone));
        }
    }
}

/// Gives a file the name of a blob in the directory `root` of a store by `give`, and returns the new path.
fn named(
    root: &Path,
    key: &BlobKey,
    give: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<PathBuf, StoreError> {
    let folder = folder_in(root, key.job);
    create_dirs(&folder)?;
    let target = folder.join(file_name(key.kind, key.hash));
    give(&target).map_err(|e| StoreError::from_io(&target, &e))?;
    Ok(target)
}
