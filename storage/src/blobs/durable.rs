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
//! Every leader makes copies of its own, also of the programs of the jobs that it recovers, so that a late removal of an
//! earlier leader does no harm to them. A complete copy replaces the copies with lower ids.
//!
//! This module must never delete a copy of a later leader, and never decide which programs are needed: that is the
//! BlobServer's decision.

use super::copying::{CopyProgress, Kept};
use super::{BlobFuture, BlobStore, BlobStoreError, BlobWriter};
use crate::jobs::LogId;
use crate::objects::{ObjectStore, StoreError};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{Shared, join_all};
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
/// Bytes of one part of a copy. One part of one program is in memory at a time while copies are made. The store computes
/// a checksum of each part on the thread of its caller, so parts are small.
const PART_BYTES: usize = 2 << 20;
/// Number of times that the copies of a program are listed while it is restored. A copy that was listed may be replaced
/// by another one before it is read.
const LISTINGS: u32 = 3;

/// The blobs of a JobManager: files of its own, with copies of jobs' programs in the cluster's object store, because another JobManager
/// that takes the jobs over has other files. Programs are the permanent blobs of no job; other blobs have no copies. The leading Dispatcher
/// calls `lead`, then `keep` before it records a job. `find`, `read` and `path` first restore a program that is missing here from a copy,
/// `read` and `path` also one that they find damaged. A removal also deletes the copies that this leader and earlier ones made, never those
/// of a later leader; `keys` deletes copies that a newer complete one replaces; neither deletes copies before `lead`. Clones share a store.
#[derive(Debug, Clone)]
pub struct DurableBlobs {
    files: Arc<dyn BlobStore>,
    objects: Arc<dyn ObjectStore>,
    copies: Arc<Mutex<Copies>>,
    /// Held while a program is copied, so that one is copied at a time.
    copying: Arc<tokio::sync::Mutex<()>>,
}

/// The copies as this process knows them.
#[derive(Debug, Default)]
struct Copies {
    /// The id of the next copy; `None` before this process leads for the first time.
    next: Option<LogId>,
    /// The copies that this leadership has made or is making.
    kept: BTreeMap<ContentHash, Kept>,
    /// The copies of earlier leaderships of this process that may still be being made, and are given up.
    former: Vec<Shared<BlobFuture<()>>>,
    /// The programs that are being restored.
    restoring: BTreeMap<ContentHash, Restored>,
}

/// The outcome of restoring a program, for all calls that wait for it.
type Restored = Shared<BlobFuture<Option<BlobKey>>>;

impl DurableBlobs {
    /// Makes a store over the files of this JobManager and the object store that it shares with others. Writes nothing; the store makes
    /// and removes no copies before [`DurableBlobs::lead`].
    pub fn new(files: Arc<dyn BlobStore>, objects: Arc<dyn ObjectStore>) -> Self {
        Self { files, objects, copies: Arc::default(), copying: Arc::default() }
    }

    /// Records that this process leads from now on, in the session `leader`: it makes copies of its own under this session, also of
    /// programs that an earlier leadership has copied, and may remove copies of earlier leaders. Copies that an earlier leadership of this
    /// process is making are given up before their next part. Called by a new leading Dispatcher. Reads and writes nothing.
    pub fn lead(&self, leader: LeaderSession) {
        let mut copies = self.copies();
        copies.next = Some(LogId { creator: leader, count: 0 });
        // Those that are still being made are of no use to this leadership, which would not know them when it removes programs.
        for (_, Kept { made, progress }) in std::mem::take(&mut copies.kept) {
            if progress.give_up() && made.peek().is_none() {
                copies.former.push(made);
            }
        }
    }

    /// Copies a program into the object store, unless this leadership has done so already; calls for one program share one copy, and one
    /// program is copied at a time. The copying goes on only while one of the returned futures is polled; the copy is durable when the
    /// future returns `Ok`. Must succeed before a job that needs the program is recorded in its log.
    ///
    /// # Errors
    /// Returns [`BlobStoreError::NotFound`] if the program is not here and cannot be restored, or if the copy was given up: by a removal of
    /// the program, [`DurableBlobs::clear`], or a new leadership of this process; [`BlobStoreError::WrongHash`] if it is damaged here and
    /// cannot be restored. Otherwise the store's error ([`StoreError::Io`] if this process has never led). The parts of a failed copy are
    /// deleted (best effort), and a later call tries again.
    pub fn keep(&self, program: &BlobKey) -> BlobFuture<()> {
        let mut copies = self.copies();
        if let Some(Kept { made, .. }) = copies.kept.get(&program.hash)
            && !matches!(made.peek(), Some(Err(_)))
        {
            return made.clone().boxed();
        }
        let Some(id) = copies.next else {
            let why = "this process does not lead".to_owned();
            let error = StoreError::Io { path: self.objects.location(), why };
            return futures::future::err(error.into()).boxed();
        };
        copies.next = Some(LogId { count: id.count.saturating_add(1), ..id });
        let progress = Arc::<CopyProgress>::default();
        let made = self.clone().copy(*program, id, Arc::clone(&progress)).boxed().shared();
        copies.kept.insert(program.hash, Kept { made: made.clone(), progress });
        made.boxed()
    }

    /// Deletes the copies of all programs that this leader and earlier ones made, because the cluster has ended. A copy that is still
    /// being made is given up first. Does nothing if this process has never led.
    ///
    /// # Errors
    /// Returns the object store's error; copies that were deleted before it stay deleted.
    pub async fn clear(&self) -> Result<(), StoreError> {
        let (next, kept, former) = {
            let mut copies = self.copies();
            (copies.next, std::mem::take(&mut copies.kept), std::mem::take(&mut copies.former))
        };
        let Some(next) = next else { return Ok(()) };
        join_all(kept.into_values().map(Kept::give_up)).await;
        join_all(former).await;
        self.clone().delete_copies(PREFIX.to_owned(), |id| id < next).await.map(drop)
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn copy(
        self,
        program: BlobKey,
        id: LogId,
        progress: Arc<CopyProgress>,
    ) -> Result<(), BlobStoreError> {
        let copying = Arc::clone(&self.copying);
        let _one = copying.lock().await;
        if !progress.begin() {
            return Err(BlobStoreError::NotFound(program.hash));
        }
        let copied = self.write_copy(program, id, &progress).await;
        if copied.is_err() {
            let parts = self.clone().delete_copies(of_program(program.hash), |other| other == id);
            if let Err(error) = parts.await {
                tracing::debug!(hash = %program.hash, %error, "parts of a copy stay for now");
            }
        }
        copied
    }

    async fn write_copy(
        &self,
        program: BlobKey,
        id: LogId,
        progress: &CopyProgress,
    ) -> Result<(), BlobStoreError> {
        let name = |last: String| format!("{}{id}/{last}", of_program(program.hash));
        let (mut offset, mut part) = (0, 0_u32);
        while offset < program.size {
            let bytes = self.read(&program, offset, PART_BYTES).await?;
            if bytes.is_empty() || progress.is_unwanted() {
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

    /// Deletes the copies below `prefix` whose ids `takes` accepts. Returns true if there were any.
    async fn delete_copies(
        self,
        prefix: String,
        takes: impl Fn(LogId) -> bool,
    ) -> Result<bool, StoreError> {
        let names = self.objects.list(&prefix).await?;
        let mut were_here = false;
        // In descending order the object that completes a copy comes before its parts.
        for name in names.iter().rev() {
            if parse(name).is_some_and(|copied| takes(copied.id)) {
                were_here |= self.objects.delete(name).await?;
            }
        }
        Ok(were_here)
    }

    /// Takes a program that is missing among the files from its newest complete copy. Several calls for a program
    /// restore it once.
    fn restore(&self, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        let mut copies = self.copies();
        if let Some(restored) = copies.restoring.get(&hash) {
            return restored.clone().boxed();
        }
        let store = self.clone();
        let restored = async move {
            let restored = store.restore_from_any(hash).await;
            store.copies().restoring.remove(&hash);
            restored
        };
        let restored = restored.boxed().shared();
        copies.restoring.insert(hash, restored.clone());
        restored.boxed()
    }

    async fn restore_from_any(&self, hash: ContentHash) -> Result<Option<BlobKey>, BlobStoreError> {
        if let Some(key) = self.files.find(None, hash).await?.filter(is_program) {
            return Ok(Some(key));
        }
        let mut damaged = BTreeSet::new();
        for _ in 0..LISTINGS {
            let known = damaged.len();
            if let Some(key) = self.restore_listed(hash, &mut damaged).await? {
                return Ok(Some(key));
            }
            if damaged.len() == known {
                break;
            }
        }
        Ok(None)
    }

    /// Restores from one of the copies that are listed now, but for those in `damaged`, which gets more of them.
    async fn restore_listed(
        &self,
        hash: ContentHash,
        damaged: &mut BTreeSet<LogId>,
    ) -> Result<Option<BlobKey>, BlobStoreError> {
        let names = self.objects.list(&of_program(hash)).await?;
        let mut copies: Vec<_> =
            names.iter().filter_map(|name| parse(name)).filter_map(Copied::whole).collect();
        copies.sort();
        for (id, size) in copies.into_iter().rev() {
            if damaged.contains(&id) {
                continue;
            }
            match self.read_copy(hash, id, size).await {
                Ok(key) => {
                    tracing::info!(%hash, bytes = size, "program restored from {}", self.objects.location());
                    return Ok(Some(key));
                }
                Err(
                    error @ (BlobStoreError::NotFound(_)
                    | BlobStoreError::WrongHash { .. }
                    | BlobStoreError::Store(StoreError::Corrupt { .. })),
                ) => {
                    tracing::warn!(%hash, %id, %error, "a copy of the program is damaged or gone");
                    damaged.insert(id);
                }
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

    /// Deletes the copies among `names` that are replaced: those with lower ids than a complete copy.
    async fn delete_replaced(&self, names: &[String]) -> Result<(), StoreError> {
        let mut newest: BTreeMap<ContentHash, LogId> = BTreeMap::new();
        let whole = names.iter().filter_map(|name| parse_copy_name(name));
        whole.for_each(|(hash, id)| {
            newest.entry(hash).and_modify(|known| *known = id.max(*known)).or_insert(id);
        });
        for name in names.iter().rev() {
            let is_replaced = |copied: Copied<'_>| newest.get(&copied.hash) > Some(&copied.id);
            if parse(name).is_some_and(is_replaced) {
                self.objects.delete(name).await?;
            }
        }
        Ok(())
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

    fn stored(&self, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        let store = self.clone();
        Box::pin(async move {
            match store.files.find(None, hash).await? {
                None => Ok(programs(&store.objects.list(&of_program(hash)).await?).pop()),
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
        let (below, kept, former) = if is_program(&key) {
            let mut copies = self.copies();
            let former = std::mem::take(&mut copies.former);
            (copies.next, copies.kept.remove(&key.hash), former)
        } else {
            (None, None, Vec::new())
        };
        Box::pin(async move {
            // A copy that is being made restores the program among the files and writes parts, so it comes to its end first.
            if let Some(kept) = kept {
                kept.give_up().await;
            }
            join_all(former).await;
            let was_here = store.files.remove(&key).await?;
            match below {
                Some(below) => {
                    let copies = store.delete_copies(of_program(key.hash), |id| id < below);
                    Ok(copies.await? || was_here)
                }
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
            // Copies are listed by a leader only: it may remove them, and here it removes those that are replaced.
            let leads = store.copies().next.is_some();
            if leads {
                let here = keys.iter().filter(|key| is_program(key)).map(|key| key.hash);
                let here: BTreeSet<ContentHash> = here.collect();
                let names = store.objects.list(PREFIX).await?;
                let copied = programs(&names).into_iter();
                keys.extend(copied.filter(|key| !here.contains(&key.hash)));
                keys.sort();
                store.delete_replaced(&names).await?;
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

/// Returns the programs that have copies among these names.
fn programs(names: &[String]) -> Vec<BlobKey> {
    let mut sizes = BTreeMap::new();
    for copied in names.iter().filter_map(|name| parse(name)) {
        let size: &mut u64 = sizes.entry(copied.hash).or_default();
        *size = copied.whole().map_or(*size, |(_, size)| size);
    }
    let key = |(hash, size)| BlobKey { job: None, hash, kind: BlobKind::Permanent, size };
    sizes.into_iter().map(key).collect()
}

fn of_program(hash: ContentHash) -> String {
    format!("{PREFIX}{hash}/")
}

/// Returns the program's hash and the copy's id if `name` is that of the object which completes a copy of a program,
/// `programs/<hash>/<id>/whole.<bytes>`. `None` for parts of copies and for other names.
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
