//! Blobs: content-addressed bytes of any size, each kept for a job (or for none) permanently or for a
//! while.
//!
//! A blob's name is the SHA-256 of its content, so what is read can be checked by its name alone. One
//! content that several jobs use is kept once; it goes with its last user. A store must never give out
//! content that it has not verified in this process, and never read a clock: who decides that a
//! transient blob is old is the BlobServer.

mod file;
mod memory;
#[cfg(test)]
mod tests;

pub use file::FileBlobs;
pub use memory::MemoryBlobs;

use crate::objects::StoreError;
use bytes::Bytes;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use sha2::{Digest, Sha256};
use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Bytes that are hashed or copied at a time.
const STEP_BYTES: usize = 1 << 18;

/// Content-addressed bytes. All calls block until done.
pub trait BlobStore: Send + Sync + fmt::Debug {
    /// Begins to take in a blob; nothing of it is visible before [`BlobWriter::finish`].
    fn begin(&self) -> Result<Box<dyn BlobWriter>, BlobStoreError>;
    /// The blob of that content for that job, if it is here: the permanent one before the transient one.
    fn find(&self, job: Option<JobId>, hash: ContentHash) -> Option<BlobKey>;
    /// At most `max` bytes from `offset` on; empty at or beyond the end. Verified.
    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> Result<Bytes, BlobStoreError>;
    /// A file that holds exactly the blob, readable and executable by this user, valid while the blob is
    /// here; `None` if this store has no files. Verified.
    fn path(&self, key: &BlobKey) -> Result<Option<PathBuf>, BlobStoreError>;
    /// How many jobs and kinds hold this content.
    fn references(&self, key: &BlobKey) -> Result<u64, BlobStoreError>;
    /// Ends one reference; whether there was one. The content goes with the last.
    fn remove(&self, key: &BlobKey) -> Result<bool, BlobStoreError>;
    /// Ends all references of a job.
    fn remove_job(&self, job: JobId) -> Result<(), BlobStoreError>;
    /// Everything that is here, ascending.
    fn keys(&self) -> Result<Vec<BlobKey>, BlobStoreError>;
    /// Where it is, for messages.
    fn location(&self) -> String;
}

/// A blob that is coming in. Dropped before [`BlobWriter::finish`], it leaves nothing.
pub trait BlobWriter: Send {
    /// The next bytes.
    fn append(&mut self, bytes: &[u8]) -> Result<(), BlobStoreError>;
    /// Bytes so far.
    fn written(&self) -> u64;
    /// Checks the content against its expected name, makes it durable and visible.
    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> Result<BlobKey, BlobStoreError>;
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

/// The content hash and size of a file.
pub fn hash_file(path: &Path) -> Result<(ContentHash, u64), StoreError> {
    let mut hasher = Sha256::new();
    let size = read_steps(path, |bytes| {
        hasher.update(bytes);
        Ok::<(), StoreError>(())
    })?;
    Ok((ContentHash(hasher.finalize().into()), size))
}

/// Takes a local file into the store; its content may be there already.
pub fn store_file(
    store: &dyn BlobStore,
    path: &Path,
    job: Option<JobId>,
    kind: BlobKind,
) -> Result<BlobKey, BlobStoreError> {
    let (hash, size) = hash_file(path)?;
    match store.find(job, hash) {
        Some(key) if key.kind == kind && key.size == size => return Ok(key),
        _ => {}
    }
    let mut writer = store.begin()?;
    read_steps(path, |bytes| writer.append(bytes))?;
    writer.finish(job, kind, hash)
}

/// Takes bytes into the store.
pub fn store_bytes(
    store: &dyn BlobStore,
    bytes: &[u8],
    job: Option<JobId>,
    kind: BlobKind,
) -> Result<BlobKey, BlobStoreError> {
    let mut writer = store.begin()?;
    writer.append(bytes)?;
    writer.finish(job, kind, hash_bytes(bytes))
}

/// Hands a file's content on in steps; its size in bytes.
fn read_steps<E: From<StoreError>>(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<u64, E> {
    let failed = |e| E::from(StoreError::from_io(path, &e));
    let mut file = File::open(path).map_err(failed)?;
    let mut step = vec![0; STEP_BYTES];
    let mut size = 0u64;
    loop {
        let n = file.read(&mut step).map_err(failed)?;
        match step.get(..n) {
            Some(bytes) if n > 0 => each(bytes)?,
            _ => return Ok(size),
        }
        size = size.saturating_add(n as u64);
    }
}
