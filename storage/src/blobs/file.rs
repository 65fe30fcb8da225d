//! Blobs as files: `<root>/<job id or "shared">/<permanent or transient>-<hash>`, content and nothing else.
//!
//! The directory is the only truth, so that processes may share it. One content under several jobs is one
//! inode with several links: the link count is the reference count, kept by the file system through any
//! crash. It must never give a file its name before its content is synced.

use super::{BlobStore, BlobStoreError, BlobWriter, hash_file};
use crate::objects::{
    StoreError,
    file::{
        ABANDONED_AFTER, TEMPORARY_PREFIX, absent, create_dirs, create_temporary, sync_folder_of,
    },
};
use bytes::Bytes;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const SHARED: &str = "shared";
/// Programs are started from their blobs; nobody else needs to read them.
const MODE: u32 = 0o700;

/// A store in a directory.
#[derive(Debug, Clone)]
pub struct FileBlobs {
    root: Arc<Path>,
    /// Contents that this process has written or read to the end and found right, and the files as they
    /// were then.
    verified: Arc<Mutex<BTreeSet<(ContentHash, Stamp)>>>,
}

/// A file as it stands: whoever writes to it afterwards changes this. Links to one content share it.
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
    /// Opens the store, creating the directory; fails at once if it can't be written to. What killed
    /// writers left behind is removed; blobs stay.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root: PathBuf = root.into();
        create_dirs(&root)?;
        let (probe, file) = create_temporary(&root)?;
        let now = file.metadata().and_then(|m| m.modified());
        fs::remove_file(&probe).map_err(|e| StoreError::from_io(&probe, &e))?;
        if let Ok(now) = now {
            for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
                let temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
                let age = entry.metadata().and_then(|m| m.modified());
                let age = age.ok().and_then(|at| now.duration_since(at).ok());
                if temporary && age.is_some_and(|age| age > ABANDONED_AFTER) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
        Ok(Self { root: root.into(), verified: Arc::default() })
    }

    fn verified(&self) -> MutexGuard<'_, BTreeSet<(ContentHash, Stamp)>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self, job: Option<JobId>) -> PathBuf {
        match job {
            None => self.root.join(SHARED),
            Some(job) => self.root.join(job.to_string()),
        }
    }

    fn file(&self, job: Option<JobId>, kind: BlobKind, hash: ContentHash) -> PathBuf {
        self.folder(job).join(format!("{}-{hash}", kind_name(kind)))
    }

    /// The blob's file, its content read and checked once per process, and again when it was changed.
    fn checked(&self, key: &BlobKey) -> Result<PathBuf, BlobStoreError> {
        let path = self.file(key.job, key.kind, key.hash);
        let stamp = match fs::metadata(&path) {
            Ok(meta) => Stamp::of(&meta),
            Err(e) if absent(&e) => return Err(BlobStoreError::NotFound(key.hash)),
            Err(e) => return Err(StoreError::from_io(&path, &e).into()),
        };
        if stamp.size == key.size && self.verified().contains(&(key.hash, stamp)) {
            return Ok(path);
        }
        let (actual, _) = hash_file(&path)?;
        if actual != key.hash {
            // Gone, the next upload puts it right; kept, it would answer "is here" for ever.
            fs::remove_file(&path).map_err(|e| StoreError::from_io(&path, &e))?;
            return Err(BlobStoreError::WrongHash { expected: key.hash, actual });
        }
        if stamp.size != key.size {
            return Err(BlobStoreError::NotFound(key.hash));
        }
        self.verify(key.hash, stamp);
        Ok(path)
    }

    /// The content is known to be right; what was known of former files of it is of no use any more.
    fn verify(&self, hash: ContentHash, stamp: Stamp) {
        let mut verified = self.verified();
        verified.retain(|(known, old)| *known != hash || old.inode != stamp.inode);
        verified.insert((hash, stamp));
    }

    /// A file of it is gone. Other files of it are read once more when they are asked for.
    fn forget(&self, hash: ContentHash) {
        self.verified().retain(|(known, _)| *known != hash);
    }

    /// A verified file of that content under any job, to link to.
    fn same_content(&self, hash: ContentHash) -> Option<PathBuf> {
        let keys = self.keys().ok()?;
        let mut same = keys.iter().filter(|key| key.hash == hash);
        same.find_map(|key| self.checked(key).ok())
    }
}

impl BlobStore for FileBlobs {
    fn begin(&self) -> Result<Box<dyn BlobWriter>, BlobStoreError> {
        let (path, file) = create_temporary(&self.root)?;
        Ok(Box::new(Incoming {
            store: self.clone(),
            path,
            file: Some(file),
            hasher: Sha256::new(),
            written: 0,
        }))
    }

    fn find(&self, job: Option<JobId>, hash: ContentHash) -> Option<BlobKey> {
        [BlobKind::Permanent, BlobKind::Transient].into_iter().find_map(|kind| {
            let meta = fs::metadata(self.file(job, kind, hash)).ok()?;
            Some(BlobKey { job, hash, kind, size: meta.len() })
        })
    }

    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> Result<Bytes, BlobStoreError> {
        let path = self.checked(key)?;
        let failed = |e: io::Error| BlobStoreError::from(StoreError::from_io(&path, &e));
        let left = key.size.saturating_sub(offset);
        let mut bytes = vec![0; max.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let file = File::open(&path).map_err(failed)?;
        file.read_exact_at(&mut bytes, offset).map_err(failed)?;
        Ok(bytes.into())
    }

    fn path(&self, key: &BlobKey) -> Result<Option<PathBuf>, BlobStoreError> {
        self.checked(key).map(Some)
    }

    fn references(&self, key: &BlobKey) -> Result<u64, BlobStoreError> {
        let path = self.file(key.job, key.kind, key.hash);
        match fs::metadata(&path) {
            Ok(meta) => Ok(meta.nlink()),
            Err(e) if absent(&e) => Err(BlobStoreError::NotFound(key.hash)),
            Err(e) => Err(StoreError::from_io(&path, &e).into()),
        }
    }

    fn remove(&self, key: &BlobKey) -> Result<bool, BlobStoreError> {
        let path = self.file(key.job, key.kind, key.hash);
        match fs::remove_file(&path) {
            Ok(()) => {
                self.forget(key.hash);
                Ok(true)
            }
            Err(e) if absent(&e) => Ok(false),
            Err(e) => Err(StoreError::from_io(&path, &e).into()),
        }
    }

    fn remove_job(&self, job: JobId) -> Result<(), BlobStoreError> {
        let folder = self.folder(Some(job));
        match fs::remove_dir_all(&folder) {
            Err(e) if !absent(&e) => Err(StoreError::from_io(&folder, &e).into()),
            _ => Ok(()),
        }
    }

    fn keys(&self) -> Result<Vec<BlobKey>, BlobStoreError> {
        let failed = |path: &Path, e: io::Error| StoreError::from_io(path, &e);
        let mut keys = Vec::new();
        for folder in fs::read_dir(&self.root).map_err(|e| failed(&self.root, e))? {
            let folder = folder.map_err(|e| failed(&self.root, e))?;
            let Some(job) = folder.file_name().to_str().and_then(parse_job) else {
                continue;
            };
            let path = folder.path();
            let files = match fs::read_dir(&path) {
                Ok(files) => files,
                Err(e) if absent(&e) => continue,
                Err(e) => return Err(failed(&path, e).into()),
            };
            for file in files.flatten() {
                let name = file.file_name();
                let Some((kind, hash)) = name.to_str().and_then(parse_file) else {
                    continue;
                };
                // A blob that goes while the folder is read is not here.
                let Ok(meta) = file.metadata() else { continue };
                keys.push(BlobKey { job, hash, kind, size: meta.len() });
            }
        }
        keys.sort();
        Ok(keys)
    }

    fn location(&self) -> String {
        self.root.display().to_string()
    }
}

/// A temporary file that grows; it goes when it is dropped.
struct Incoming {
    store: FileBlobs,
    path: PathBuf,
    file: Option<File>,
    hasher: Sha256,
    written: u64,
}

impl BlobWriter for Incoming {
    fn append(&mut self, bytes: &[u8]) -> Result<(), BlobStoreError> {
        if let Some(file) = &mut self.file {
            let failed = |e| StoreError::from_io(&self.store.root, &e);
            file.write_all(bytes).map_err(failed)?;
        }
        self.hasher.update(bytes);
        self.written = self.written.saturating_add(bytes.len() as u64);
        Ok(())
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn finish(
        mut self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> Result<BlobKey, BlobStoreError> {
        let actual = ContentHash(self.hasher.finalize_reset().into());
        if actual != expected {
            return Err(BlobStoreError::WrongHash { expected, actual });
        }
        let target = self.store.file(job, kind, expected);
        let failed = |e| StoreError::from_io(&target, &e);
        create_dirs(&self.store.folder(job))?;
        if let Some(file) = self.file.take() {
            file.set_permissions(Permissions::from_mode(MODE)).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            // Closed before it has a name: a file that is open for writing can't be executed.
        }
        let key = BlobKey { job, hash: expected, kind, size: self.written };
        let linked = self.store.checked(&key).is_ok()
            || match self.store.same_content(expected) {
                Some(same) => fs::hard_link(&same, &target).is_ok(),
                None => false,
            };
        if !linked {
            fs::rename(&self.path, &target).map_err(failed)?;
        }
        sync_folder_of(&target)?;
        if let Ok(meta) = fs::metadata(&target) {
            self.store.verify(expected, Stamp::of(&meta));
        }
        Ok(key)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After the rename there is nothing of that name.
        let _ = fs::remove_file(&self.path);
    }
}

fn kind_name(kind: BlobKind) -> &'static str {
    match kind {
        BlobKind::Permanent => "permanent",
        BlobKind::Transient => "transient",
    }
}

fn parse_job(folder: &str) -> Option<Option<JobId>> {
    match folder {
        SHARED => Some(None),
        id => id.parse().ok().map(Some),
    }
}

fn parse_file(name: &str) -> Option<(BlobKind, ContentHash)> {
    let (kind, hash) = name.split_once('-')?;
    let kind =
        [BlobKind::Permanent, BlobKind::Transient].into_iter().find(|k| kind_name(*k) == kind)?;
    Some((kind, hash.parse().ok()?))
}
