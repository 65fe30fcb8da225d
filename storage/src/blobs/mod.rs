//! Blobs: content-addressed bytes of any size, each kept for a job (or for none) permanently or for a
//! while.
//!
//! A blob's name is the SHA-256 of its content, so what is read can be checked by its name alone. One
//! content that several jobs use is kept once; it goes with its last user. Every call returns a future at
//! once and waits for the storage inside it, so that no actor's thread waits (I-12). A store must never
//! give out content that it has not verified in this process, and never read a clock: the BlobServer
//! decides when a transient blob is old.

#[cfg(any(test, feature = "testing"))]
mod faulty;
mod file;
mod memory;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "testing"))]
pub use faulty::FaultyBlobs;
pub use file::FileBlobs;
pub use memory::MemoryBlobs;

use crate::objects::StoreError;
use bytes::Bytes;
use futures::future::BoxFuture;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

/// Bytes that are hashed or copied at a time.
const STEP_BYTES: usize = 1 << 18;

/// The answer of a store, in some time. Dropping it gives up waiting; a change that has begun may still
/// take effect.
pub type BlobFuture<T> = BoxFuture<'static, Result<T, BlobStoreError>>;

/// Content-addressed bytes. Calls at the same time do not disturb one another: each change of a blob's name
/// happens before or after any other.
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// Begins to take in a blob; nothing of it is visible before [`BlobWriter::finish`].
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>>;
    /// Looks for a blob of that content for that job: the permanent one before the transient one. `None` if
    /// there is neither. Not verified.
    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>>;
    /// Reads at most `max` bytes from `offset` on; empty at or beyond the end. Verified.
    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes>;
    /// Returns a file that holds exactly the blob, readable and executable by this user, valid while the
    /// blob is here; `None` if this store has no files. Verified.
    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>>;
    /// Counts the jobs and kinds that hold this content.
    fn references(&self, key: &BlobKey) -> BlobFuture<u64>;
    /// Ends one reference; returns whether there was one. The content goes with the last.
    fn remove(&self, key: &BlobKey) -> BlobFuture<bool>;
    /// Ends all references of a job.
    fn remove_job(&self, job: JobId) -> BlobFuture<()>;
    /// Lists all blobs, ascending.
    fn keys(&self) -> BlobFuture<Vec<BlobKey>>;
    /// The store's place, for messages.
    fn location(&self) -> String;
}

/// A blob that is coming in. Dropped before [`BlobWriter::finish`], it leaves nothing.
pub trait BlobWriter: Send {
    /// Writes the next bytes; the writer comes back once they are written. After an error nothing of the
    /// blob stays.
    fn append(self: Box<Self>, bytes: Bytes) -> BlobFuture<Box<dyn BlobWriter>>;
    /// Checks the content against its expected name, makes it durable and visible.
    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> BlobFuture<BlobKey>;
}

/// Why a blob could not be kept or given out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobStoreError {
    /// It is not here.
    #[error("there is no blob {0} here")]
    NotFound(ContentHash),
    /// Its content is not what its name says. A kept blob that turns out so is removed.
    #[error("the content of the blob has hash {actual}, not {expected}")]
    WrongHash {
        /// As named.
        expected: ContentHash,
        /// As computed.
        actual: ContentHash,
    },
    /// The file system failed; a full disk among other things.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The content hash of some bytes.
pub fn hash_bytes(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

/// Computes the content hash and size of a file, on a blocking thread.
pub async fn hash_file(path: &Path) -> Result<(ContentHash, u64), StoreError> {
    let (file, failed) = (path.to_owned(), path.display().to_string());
    let hashed = tokio::task::spawn_blocking(move || hash_file_now(&file));
    let ended = |e: tokio::task::JoinError| StoreError::Io { path: failed, why: e.to_string() };
    hashed.await.map_err(ended)?
}

/// [`hash_file`] for those that block already.
fn hash_file_now(path: &Path) -> Result<(ContentHash, u64), StoreError> {
    let failed = |e| StoreError::from_io(path, &e);
    let mut file = File::open(path).map_err(failed)?;
    let mut hasher = Sha256::new();
    let mut step = vec![0; STEP_BYTES];
    let mut size = 0u64;
    loop {
        let n = file.read(&mut step).map_err(failed)?;
        match step.get(..n) {
            Some(bytes) if n > 0 => hasher.update(bytes),
            _ => return Ok((ContentHash(hasher.finalize().into()), size)),
        }
        size = size.saturating_add(n as u64);
    }
}

/// Takes a local file into the store; its content may be there already.
pub async fn store_file(
    store: &dyn BlobStore,
    path: &Path,
    job: Option<JobId>,
    kind: BlobKind,
) -> Result<BlobKey, BlobStoreError> {
    let (hash, size) = hash_file(path).await?;
    match store.find(job, hash).await? {
        Some(key) if key.kind == kind && key.size == size => return Ok(key),
        _ => {}
    }
    let failed = |e| StoreError::from_io(path, &e);
    let mut file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut writer = store.begin().await?;
    loop {
        let mut step = Vec::with_capacity(STEP_BYTES);
        let mut rest = (&mut file).take(STEP_BYTES as u64);
        rest.read_to_end(&mut step).await.map_err(failed)?;
        if step.is_empty() {
            return writer.finish(job, kind, hash).await;
        }
        writer = writer.append(step.into()).await?;
    }
}

/// Takes bytes into the store.
pub async fn store_bytes(
    store: &dyn BlobStore,
    bytes: &[u8],
    job: Option<JobId>,
    kind: BlobKind,
) -> Result<BlobKey, BlobStoreError> {
    let writer = store.begin().await?;
    let writer = writer.append(Bytes::copy_from_slice(bytes)).await?;
    writer.finish(job, kind, hash_bytes(bytes)).await
}
