//! Blobs: content-addressed bytes of any size, each kept for one job (or for no job), permanently or transiently.
//!
//! A blob's name is the SHA-256 of its content, so a reader can check the content by the name alone. Content that
//! several jobs use is stored once and removed with its last reference. Every call returns a future at once, and only
//! the future waits for the storage, so that no actor's thread waits. A store must never give out content that
//! it has not verified in this process, and never read a clock: the BlobServer decides when a transient blob has
//! expired.

mod copying;
mod durable;
#[cfg(test)]
mod durable_tests;
#[cfg(any(test, feature = "testing"))]
mod faulty;
mod file;
mod layout;
mod memory;
#[cfg(test)]
mod tests;

pub use durable::{DurableBlobs, parse_copy_name};
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
    path::{Path, PathBuf},
};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

/// Bytes that are hashed or copied at a time.
const STEP_BYTES: usize = 1 << 18;

/// The future answer of a blob store. Dropping it gives up waiting; a change that has begun may still take effect.
pub type BlobFuture<T> = BoxFuture<'static, Result<T, BlobStoreError>>;

/// A store of blobs (bytes named by their SHA-256 hash, such as programs), each held for a job or for none, permanently or transiently: one
/// reference for each. It gives out only content that it has verified, and removes content with its last reference; it never removes a
/// transient blob by itself, because the BlobServer decides when that has expired. A blob is written by `begin` and a [`BlobWriter`].
/// Concurrent calls are safe: each change of a blob's name happens wholly before or wholly after any other. All calls fail with a
/// [`BlobStoreError`]. Kinds: [`FileBlobs`], [`MemoryBlobs`], and [`DurableBlobs`] over one of them.
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// Begins to take in a blob and returns its writer; nothing of it is visible before [`BlobWriter::finish`]. A store in files creates a
    /// temporary file.
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>>;
    /// Looks up a blob by the hash of its content and job (`None`: blobs of no job), the permanent one before the transient one. Returns
    /// `None` if there is neither. Does not verify the content. [`DurableBlobs`] first restores a missing blob of no job from a copy.
    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>>;
    /// Looks up a blob of no job in order to remove it, like [`BlobStore::find`]; but [`DurableBlobs`] restores nothing, and also finds a
    /// program of which there are only copies.
    fn stored(&self, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        self.find(None, hash)
    }
    /// Verifies the blob, unless this process has before, and reads `max` bytes from `offset` (in bytes) on, or fewer if the blob ends
    /// before; empty at or beyond the end. Fails with [`BlobStoreError::NotFound`] if it is absent or has another size than `key` says,
    /// with [`BlobStoreError::WrongHash`] if it is damaged; a damaged blob is removed. [`DurableBlobs`] first tries to restore a missing or
    /// damaged program from a copy, and fails only if there is none.
    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes>;
    /// Verifies the blob, unless this process has before, and returns a file that holds exactly its content, readable and
    /// executable by this user. The file is valid until the blob is removed. `None` if this store has no files. Fails as
    /// [`BlobStore::read`] does.
    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>>;
    /// Returns the number of references to the content of `key`: one for each job (or none) and kind that holds it. If `key` itself is not
    /// stored, a store in files fails with [`BlobStoreError::NotFound`], and one in memory returns the number of the others.
    fn references(&self, key: &BlobKey) -> BlobFuture<u64>;
    /// Removes one reference, that of the key's job and kind; returns false if there was none. The content is removed with its last
    /// reference. [`DurableBlobs`] also deletes the copies of a program, if this process has led, and returns true if there was any.
    fn remove(&self, key: &BlobKey) -> BlobFuture<bool>;
    /// Removes all references of a job, of either kind; it is no error if there are none. Content that others refer to stays.
    fn remove_job(&self, job: JobId) -> BlobFuture<()>;
    /// Lists the keys of all blobs, in ascending order. A store on several disks leaves out those on a disk that cannot be read, and fails
    /// if it can read none. In [`DurableBlobs`] of a leader also the programs of which there are only copies;
    /// it then deletes copies that newer ones replace.
    fn keys(&self) -> BlobFuture<Vec<BlobKey>>;
    /// Returns the store's place as text, for messages: a directory's path, or `memory`.
    fn location(&self) -> String;
}

/// A blob that is being written, made by [`BlobStore::begin`]: `append` for each piece, then `finish`. Dropping it before
/// [`BlobWriter::finish`] leaves nothing behind.
pub trait BlobWriter: Send {
    /// Appends bytes and returns the writer, for the next call, once they are written. After an error nothing of the blob remains.
    fn append(self: Box<Self>, bytes: Bytes) -> BlobFuture<Box<dyn BlobWriter>>;
    /// Checks that the content has the hash `expected`, makes it durable, and makes it visible for this job (`None`: no job)
    /// and kind. Returns its key. Content that the store already has is shared.
    ///
    /// # Errors
    /// Returns [`BlobStoreError::WrongHash`] if the content has another hash, or the store's error. Nothing of the upload remains, unless
    /// the disk failed in the last step, which makes the blob's name durable: the blob may then be there.
    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> BlobFuture<BlobKey>;
}

/// The reason why a blob could not be stored, read or removed: it is not there, its content is wrong, or the storage failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BlobStoreError {
    /// The store has no blob of this hash under the wanted job and kind, or one of another size than the key says; or the copy of a
    /// program was given up before it was complete ([`DurableBlobs::keep`]).
    #[error("there is no blob {0} here")]
    NotFound(ContentHash),
    /// The content of the blob does not have the hash that names it. An upload with such content is refused; a stored blob is removed.
    #[error("the content of the blob has hash {actual}, not {expected}")]
    WrongHash {
        /// The hash in the blob's name.
        expected: ContentHash,
        /// The hash of the actual content.
        actual: ContentHash,
    },
    /// The file system or object store failed, for example because the disk is full; or a file to be stored could not be read. Holds that
    /// error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Computes the content hash (SHA-256) of some bytes.
pub fn hash_bytes(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

/// Copies a local file into the store as a blob of this job (`None`: no job) and kind, and returns its key. The file is read once for its
/// hash; it is not copied, and the blob not verified, if the store has one of that hash and size under that job and kind. The file stays.
///
/// # Errors
/// Returns the store's error, also if the file can't be read or changes meanwhile ([`BlobStoreError::WrongHash`]).
pub async fn store_file(
    store: &dyn BlobStore,
    path: &Path,
    job: Option<JobId>,
    kind: BlobKind,
) -> Result<BlobKey, BlobStoreError> {
    let failed = |e| StoreError::from_io(path, &e);
    let (hash, size) = platform::content::hash_file(path).await.map_err(failed)?;
    match store.find(job, hash).await? {
        Some(key) if key.kind == kind && key.size == size => return Ok(key),
        _ => {}
    }
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

/// Stores bytes as a blob of this job (`None`: no job) and kind, and returns its key, which contains their hash.
///
/// # Errors
/// Returns the store's error.
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
