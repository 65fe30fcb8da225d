//! Blobs in memory, for simulations and tests: clones share one store.
//!
//! It must never be used where programs are started from files: it has none.

use super::{BlobStore, BlobStoreError, BlobWriter, hash_bytes};
use crate::objects::StoreError;
use bytes::Bytes;
use model::{BlobKey, BlobKind, ContentHash, JobId};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A store in memory; clones are handles to the same one.
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
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
    /// From now on every write fails like this; `None` heals it.
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

impl BlobWriter for Incoming {
    fn append(&mut self, bytes: &[u8]) -> Result<(), BlobStoreError> {
        drop(self.store.writable()?);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
    fn written(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn finish(
        self: Box<Self>,
        job: Option<JobId>,
        kind: BlobKind,
        expected: ContentHash,
    ) -> Result<BlobKey, BlobStoreError> {
        let actual = hash_bytes(&self.bytes);
        if actual != expected {
            return Err(BlobStoreError::WrongHash { expected, actual });
        }
        let key = BlobKey { job, hash: expected, kind, size: self.written() };
        let Self { store, bytes } = *self;
        let mut state = store.writable()?;
        // One content is kept once: `Bytes` shares it.
        let same = state.blobs.iter().find(|(k, _)| k.hash == expected);
        let bytes = same.map_or_else(|| bytes.into(), |(_, bytes)| bytes.clone());
        state.blobs.insert(key, bytes);
        Ok(key)
    }
}

impl BlobStore for MemoryBlobs {
    fn begin(&self) -> Result<Box<dyn BlobWriter>, BlobStoreError> {
        drop(self.writable()?);
        Ok(Box::new(Incoming { store: self.clone(), bytes: Vec::new() }))
    }
    fn find(&self, job: Option<JobId>, hash: ContentHash) -> Option<BlobKey> {
        let state = self.lock();
        let mut of_job = state.blobs.keys().filter(|k| k.job == job && k.hash == hash);
        // Ascending by kind: the permanent one comes first.
        of_job.next().copied()
    }
    fn read(&self, key: &BlobKey, offset: u64, max: usize) -> Result<Bytes, BlobStoreError> {
        let content = self.content(key)?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let to = from.saturating_add(max).min(content.len());
        Ok(content.slice(from..to))
    }
    fn path(&self, key: &BlobKey) -> Result<Option<PathBuf>, BlobStoreError> {
        self.content(key).map(|_| None)
    }
    fn references(&self, key: &BlobKey) -> Result<u64, BlobStoreError> {
        let state = self.lock();
        Ok(state.blobs.keys().filter(|k| k.hash == key.hash).count() as u64)
    }
    fn remove(&self, key: &BlobKey) -> Result<bool, BlobStoreError> {
        Ok(self.lock().blobs.remove(key).is_some())
    }
    fn remove_job(&self, job: JobId) -> Result<(), BlobStoreError> {
        self.lock().blobs.retain(|k, _| k.job != Some(job));
        Ok(())
    }
    fn keys(&self) -> Result<Vec<BlobKey>, BlobStoreError> {
        Ok(self.lock().blobs.keys().copied().collect())
    }
    fn location(&self) -> String {
        "memory".into()
    }
}
