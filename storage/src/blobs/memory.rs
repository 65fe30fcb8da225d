//! Blobs in memory, for simulations and tests: clones share one store.
//!
//! It must never be used where programs are started from files: it has none.

use super::{BlobFuture, BlobStore, BlobStoreError, BlobWriter, hash_bytes};
use crate::objects::StoreError;
use bytes::Bytes;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use std::{
    collections::BTreeMap,
    future::ready,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A blob store in memory, for tests and simulations, lost with the process. It has no files ([`BlobStore::path`] returns `None`); only
/// uploads check hashes. Clones are handles to the same store. Calls have taken effect when they return their future.
#[derive(Debug, Clone, Default)]
pub struct MemoryBlobs {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    blobs: BTreeMap<BlobKey, Bytes>,
    write_failure: Option<StoreError>,
}

impl MemoryBlobs {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }
    /// Makes every step of an upload (`begin`, `append`, `finish`) fail with this error from now on, for tests, also of uploads that have
    /// begun; `None` ends that. Reads and removals still succeed.
    pub fn fail_writes(&self, failure: Option<StoreError>) {
        self.lock().write_failure = failure;
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned map is still a whole map: every change is one insert or remove.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn writable(&self) -> Result<MutexGuard<'_, State>, BlobStoreError> {
        let state = self.lock();
        match &state.write_failure {
            Some(failure) => Err(failure.clone().into()),
            None => Ok(state),
        }
    }
    fn content(&self, key: &BlobKey) -> Result<Bytes, BlobStoreError> {
        let found = self.lock().blobs.get(key).cloned();
        found.ok_or(BlobStoreError::NotFound(key.hash))
    }
}

struct Incoming {
    store: MemoryBlobs,
    bytes: Vec<u8>,
}

impl Incoming {
    fn finished(
        self,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> Result<BlobKey, BlobStoreError> {
        let Self { store, bytes } = self;
        let actual = hash_bytes(&bytes);
        if actual != expected {
            return Err(BlobStoreError::WrongHash { expected, actual });
        }
        let key = BlobKey { job, hash: expected, kind, size: bytes.len() as u64 };
        let mut state = store.writable()?;
        // One content is kept once: `Bytes` shares it.
        let same = state.blobs.iter().find(|(k, _)| k.hash == expected);
        let bytes = same.map_or_else(|| bytes.into(), |(_, bytes)| bytes.clone());
        state.blobs.insert(key, bytes);
        Ok(key)
    }
}

impl BlobWriter for Incoming {
    fn append(mut self: Box<Self>, bytes: Bytes) -> BlobFuture<Box<dyn BlobWriter>> {
        self.bytes.extend_from_slice(&bytes);
        let writable = self.store.writable().map(drop);
        Box::pin(ready(writable.map(|()| self as Box<dyn BlobWriter>)))
    }
    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> BlobFuture<BlobKey> {
        Box::pin(ready(self.finished(job, kind, expected)))
    }
}

impl BlobStore for MemoryBlobs {
    fn begin(&self) -> BlobFuture<Box<dyn BlobWriter>> {
        let incoming = Incoming { store: self.clone(), bytes: Vec::new() };
        let writable = self.writable().map(drop);
        Box::pin(ready(writable.map(|()| Box::new(incoming) as Box<dyn BlobWriter>)))
    }
    fn find(&self, job: Option<JobId>, hash: ContentHash) -> BlobFuture<Option<BlobKey>> {
        let state = self.lock();
        let mut of_job = state.blobs.keys().filter(|k| k.job == job && k.hash == hash);
        // Ascending by kind: the permanent one comes first.
        Box::pin(ready(Ok(of_job.next().copied())))
    }
    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> BlobFuture<Bytes> {
        Box::pin(ready(self.content(key).map(|content| {
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            let to = from.saturating_add(max).min(content.len());
            content.slice(from..to)
        })))
    }
    fn path(&self, key: &BlobKey) -> BlobFuture<Option<PathBuf>> {
        Box::pin(ready(self.content(key).map(|_| None)))
    }
    fn references(&self, key: &BlobKey) -> BlobFuture<u64> {
        let count = self.lock().blobs.keys().filter(|k| k.hash == key.hash).count();
        Box::pin(ready(Ok(count as u64)))
    }
    fn remove(&self, key: &BlobKey) -> BlobFuture<bool> {
        Box::pin(ready(Ok(self.lock().blobs.remove(key).is_some())))
    }
    fn remove_job(&self, job: JobId) -> BlobFuture<()> {
        self.lock().blobs.retain(|k, _| k.job != Some(job));
        Box::pin(ready(Ok(())))
    }
    fn keys(&self) -> BlobFuture<Vec<BlobKey>> {
        Box::pin(ready(Ok(self.lock().blobs.keys().copied().collect())))
    }
    fn location(&self) -> String {
        "memory".into()
    }
}
