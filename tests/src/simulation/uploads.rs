//! The program files of every simulated JobManager: the one program of all jobs, as if each client had uploaded it just
//! before it submits its job.
//!
//! A removal must never take the program away: no client of a simulation uploads it again.

use bytes::Bytes;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use std::future::ready;
use std::path::PathBuf;
use storage::blobs::{BlobFuture, BlobStore, BlobStoreError, BlobWriter, MemoryBlobs, hash_bytes};

const CONTENT: &[u8] = b"double";

/// Returns the blob key of the one program that all jobs of a simulation have.
pub fn program() -> BlobKey {
    let (hash, size) = (hash_bytes(CONTENT), CONTENT.len() as u64);
    BlobKey { job: None, hash, kind: BlobKind::Permanent, size }
}

/// The program files of a simulated JobManager: blobs in memory, with [`program`] always among them, also after its removal.
#[derive(Debug, Default)]
pub struct Uploads(MemoryBlobs);

impl BlobStore for Uploads {
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>> {
        self.0.begin()
    }
    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        let key = program();
        match job.is_none() && hash == key.hash {
            true => Box::pin(ready(Ok(Some(key)))),
            false => self.0.find(job, hash),
        }
    }
    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes> {
        if *key != program() {
            return self.0.read(key, offset, max);
        }
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = CONTENT.iter().skip(offset).take(max).copied();
        Box::pin(ready(Ok(rest.collect())))
    }
    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>> {
        self.0.path(key)
    }
    fn references(&self, key: &BlobKey) -> BlobFuture<u64> {
        self.0.references(key)
    }
    fn remove(&self, key: &BlobKey) -> BlobFuture<bool> {
        self.0.remove(key)
    }
    fn remove_job(&self, job: JobId) -> BlobFuture<()> {
        self.0.remove_job(job)
    }
    fn keys(&self) -> BlobFuture<Vec<BlobKey>> {
        Box::pin(ready(Ok::<_, BlobStoreError>(vec![program()])))
    }
    fn location(&self) -> String {
        self.0.location()
    }
}
