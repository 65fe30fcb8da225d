//! The blobs of one JobManager, with copies of jobs' programs in the cluster's object store.
//!
//! The files of a JobManager go with its machine, and another JobManager that recovers its jobs needs their programs.
//! A leader therefore copies a program before it records a job that needs it ([`DurableBlobs::keep`]). A program that is
//! missing among the files is restored from a copy, and removing a program removes its copies too.
//!
//! No store can delete on a condition, so the name of a copy is never used twice: `programs/<hash>/<id>/…`, where the id
//! is the leader's session and a count. Suppose leader A hangs in the removal of a program that no job needs any more,
//! and a job with the same program is submitted at leader B. B makes a copy of its own. When A's removal takes effect at
//! last, it finds the copies of A and of earlier leaders only.
//!
//! This module must never delete a copy of a later leader, and never decide which programs are needed: that is the
//! BlobServer's decision.

use super::{BlobFuture, BlobStore, BlobStoreError, BlobWriter};
use crate::jobs::LogId;
use crate::objects::{ObjectStore, StoreError};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::Shared;
use model::{BlobKey, BlobKind, ContentHash, JobId, LeaderSession};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The first segment of the names of all copies.
const PREFIX: &str = "programs/";
/// The last segment of the name of the object that completes a copy, before the copy's size in bytes.
const WHOLE: &str = "whole.";
/// Bytes of one part of a copy; no more of a program is in memory at a time.
const PART_BYTES: usize = 8 << 20;

/// Blobs of a JobManager that may be superseded by another one; clones are handles to the same store.
#[derive(Debug, Clone)]
pub struct DurableBlobs {
    files: Arc<dyn BlobStore>,
    objects: Arc<dyn ObjectStore>,
    copies: Arc<Mutex<Copies>>,
    /// Held while a program is restored, so that several calls for a program restore it once.
    restoring: Arc<tokio::sync::Mutex<()>>,
}

/// The copies as this process knows them.
#[derive(Debug, Default)]
struct Copies {
    /// The id of the next copy; `None` before this process leads for the first time.
    next: Option<LogId>,
    /// The copies that this leadership has made or is making.
    kept: BTreeMap<ContentHash, Kept>,
}

/// The outcome of making a copy, for all jobs that wait for it.
type Kept = Shared<BlobFuture<()>>;

impl DurableBlobs {
    /// Returns a store over the files of this JobManager and the object store that it shares with others.
    pub fn new(files: Arc<dyn BlobStore>, objects: Arc<dyn ObjectStore>) -> Self {
        Self { files, objects, copies: Arc::default(), restoring: Arc::default() }
    }

    /// Records that this process leads. Copies of earlier leaders are its to remove from now on, and it makes copies of
    /// its own.
    pub fn lead(&self, leader: LeaderSession) {
        let mut copies = self.copies();
        copies.next = Some(LogId { creator: leader, count: 0 });
        copies.kept.clear();
    }

    /// Copies a program into the object store, unless this leadership has done so already.
    ///
    /// # Errors
    /// [`BlobStoreError::NotFound`] if the program is not here; the object store's error, also if this process has never
    /// led. A later call tries again.
    pub fn keep(&self, program: &BlobKey) -> BlobFuture<()> {
        let mut copies = self.copies();
        if let Some(kept) = copies.kept.get(&program.hash)
            && !matches!(kept.peek(), Some(Err(_)))
        {
            return kept.clone().boxed();
        }
        let Some(id) = copies.next else {
            let why = "this process does not lead".to_owned();
            let error = StoreError::Io { path: self.objects.location(), why };
            return futures::future::err(error.into()).boxed();
        };
        copies.next = Some(LogId { count: id.count.saturating_add(1), ..id });
        let kept = self.clone().copy(*program, id).boxed().shared();
        copies.kept.insert(program.hash, kept.clone());
        kept.boxed()
    }

    /// Deletes the copies of all programs, because the cluster has ended.
    ///
    /// # Errors
    /// The object store's error; copies that were deleted before it stay deleted.
    pub async fn clear(&self) -> Result<(), StoreError> {
        for name in self.objects.list(PREFIX).await? {
            self.objects.delete(&name).await?;
        }
        Ok(())
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn copy(self, program: BlobKey, id: LogId) -> Result<(), BlobStoreError> {
        let name = |last: String| format!("{}{id}/{last}", of_program(program.hash));
        let (mut offset, mut part) = (0, 0_u32);
        while offset < program.size {
            let bytes = self.read(&program, offset, PART_BYTES).await?;
            if bytes.is_empty() {
                return Err(BlobStoreError::NotFound(program.hash));
            }
            offset = offset.saturating_add(bytes.len() as u64);
            self.objects.put(&name(part.to_string()), bytes).await?;
            part = part.saturating_add(1);
        }
        self.objects.put(&name(format!("{WHOLE}{}", program.size)), Bytes::new()).await?;
        tracing::debug!(hash = %program.hash, %id, bytes = program.size, "program copied");
        Ok(())
    }

    /// Deletes the copies of a program whose ids are lower than `below`. Returns true if there were any.
    async fn delete_copies(self, hash: ContentHash, below: LogId) -> Result<bool, StoreError> {
        let names = self.objects.list(&of_program(hash)).await?;
        let mut were_here = false;
        // In descending order the object that completes a copy comes before its parts.
        for name in names.iter().rev() {
            if parse(name).is_some_and(|copied| copied.id < below) {
                were_here |= self.objects.delete(name).await?;
            }
        }
        Ok(were_here)
    }

    /// Takes a program that is missing among the files from its newest complete copy.
    async fn restore(&self, hash: ContentHash) -> Result<Option<BlobKey>, BlobStoreError> {
        let _one = self.restoring.lock().await;
        if let Some(key) = self.files.find(None, hash).await?.filter(is_program) {
            return Ok(Some(key));
        }
        let names = self.objects.list(&of_program(hash)).await?;
        let mut copies: Vec<_> =
            names.iter().filter_map(|name| parse(name)).filter_map(Copied::whole).collect();
        copies.sort();
        for (id, size) in copies.into_iter().rev() {
            match self.read_copy(hash, id, size).await {
                Ok(key) => {
                    tracing::info!(%hash, bytes = size, "program restored from {}", self.objects.location());
                    return Ok(Some(key));
                }
                Err(
                    error @ (BlobStoreError::NotFound(_)
                    | BlobStoreError::WrongHash { .. }
                    | BlobStoreError::Store(StoreError::Corrupt { .. })),
                ) => tracing::warn!(%hash, %id, %error, "a copy of the program is damaged"),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn read_copy(
        &self,
        hash: ContentHash,
        id: LogId,
        size: u64,
    ) -> Result<BlobKey, BlobStoreError> {
        let mut writer = self.files.begin().await?;
        let (mut read, mut part) = (0_u64, 0_u32);
        while read < size {
            let bytes = self.objects.get(&format!("{}{id}/{part}", of_program(hash))).await?;
            let bytes = bytes.filter(|bytes| !bytes.is_empty());
            let bytes = bytes.ok_or(BlobStoreError::NotFound(hash))?;
            read = read.saturating_add(bytes.len() as u64);
            part = part.saturating_add(1);
            writer = writer.append(bytes).await?;
        }
        writer.finish(None, BlobKind::Permanent, hash).await
    }

    /// Calls `ask` for a blob, and once more after restoring it if it is a program that is missing or damaged.
    fn restored<T: Send + 'static>(
        &self,
        key: BlobKey,
        ask: impl Fn(&dyn BlobStore, &BlobKey) -> BlobFuture<T> + Send + 'static,
    ) -> BlobFuture<T> {
        let store = self.clone();
        Box::pin(async move {
            let first = ask(&*store.files, &key).await;
            match &first {
                Err(BlobStoreError::NotFound(_) | BlobStoreError::WrongHash { .. })
                    if is_program(&key) => {}
                _ => return first,
            }
            match store.restore(key.hash).await? {
                Some(_) => ask(&*store.files, &key).await,
                None => first,
            }
        })
    }

    /// Lists the programs that have copies.
    async fn copied(&self) -> Result<Vec<BlobKey>, StoreError> {
        let mut sizes = BTreeMap::new();
        for copied in self.objects.list(PREFIX).await?.iter().filter_map(|name| parse(name)) {
            let size: &mut u64 = sizes.entry(copied.hash).or_default();
            *size = copied.whole().map_or(*size, |(_, size)| size);
        }
        let key = |(hash, size)| BlobKey { job: None, hash, kind: BlobKind::Permanent, size };
        Ok(sizes.into_iter().map(key).collect())
    }
}

impl BlobStore for DurableBlobs {
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>> {
        self.files.begin()
    }

    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        let store = self.clone();
        Box::pin(async move {
            match store.files.find(job, hash).await? {
                None if job.is_none() => store.restore(hash).await,
                found => Ok(found),
            }
        })
    }

    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes> {
        self.restored(*key, move |files, key| files.read(key, offset, max))
    }

    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>> {
        self.restored(*key, |files, key| files.path(key))
    }

    fn references(&self, key: &BlobKey) -> BlobFuture<u64> {
        self.files.references(key)
    }

    fn remove(&self, key: &BlobKey) -> BlobFuture<bool> {
        let (store, key) = (self.clone(), *key);
        // The bound is fixed now: a copy that is made from here on belongs to a job that comes later.
        let below = is_program(&key).then(|| {
            let mut copies = self.copies();
            copies.kept.remove(&key.hash);
            copies.next
        });
        Box::pin(async move {
            let was_here = store.files.remove(&key).await?;
            match below.flatten() {
                Some(below) => Ok(store.delete_copies(key.hash, below).await? || was_here),
                None => Ok(was_here),
            }
        })
    }

    fn remove_job(&self, job: JobId) -> BlobFuture<()> {
        self.files.remove_job(job)
    }

    fn keys(&self) -> BlobFuture<Vec<BlobKey>> {
        let store = self.clone();
        Box::pin(async move {
            let mut keys = store.files.keys().await?;
            // Copies are listed by a leader only: it may remove them.
            let leads = store.copies().next.is_some();
            if leads {
                let here = keys.iter().filter(|key| is_program(key)).map(|key| key.hash);
                let here: BTreeSet<ContentHash> = here.collect();
                let copied = store.copied().await?.into_iter();
                keys.extend(copied.filter(|key| !here.contains(&key.hash)));
                keys.sort();
            }
            Ok(keys)
        })
    }

    fn location(&self) -> String {
        self.files.location()
    }
}

fn is_program(key: &BlobKey) -> bool {
    key.job.is_none() && key.kind == BlobKind::Permanent
}

fn of_program(hash: ContentHash) -> String {
    format!("{PREFIX}{hash}/")
}

/// Returns the program and the copy that an object's name completes; `None` if it does not complete a copy.
pub fn parse_copy_name(name: &str) -> Option<(ContentHash, LogId)> {
    let copied = parse(name)?;
    let hash = copied.hash;
    copied.whole().map(|(id, _)| (hash, id))
}

/// A parsed name of an object of a copy.
struct Copied<'a> {
    hash: ContentHash,
    id: LogId,
    last: &'a str,
}

impl Copied<'_> {
    /// Returns the copy's id and size if this object completes it.
    fn whole(self) -> Option<(LogId, u64)> {
        Some((self.id, self.last.strip_prefix(WHOLE)?.parse().ok()?))
    }
}

fn parse(name: &str) -> Option<Copied<'_>> {
    let mut segments = name.strip_prefix(PREFIX)?.split('/');
    let (hash, id, last) = (segments.next()?, segments.next()?, segments.next()?);
    Some(Copied { hash: hash.parse().ok()?, id: id.parse().ok()?, last })
}
