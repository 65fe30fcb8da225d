//! Objects in memory, for tests, simulations and clusters whose facts need not survive the process. Clones share one
//! store, as hosts share a disk.
//!
//! The store keeps no checksums, because memory does not rot. It must never be used where a fact has to survive the
//! process.

use super::{ObjectStore, PutNew, StoreError, StoreFuture, check_name};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// An object store in memory, lost with the process; clones are handles to the same store. Calls have taken effect when they return their
/// future. It takes objects only whole (`begin` returns `None`).
#[derive(Debug, Clone, Default)]
pub struct MemoryObjects {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl MemoryObjects {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Bytes>> {
        // A poisoned map is still a whole map: every change is one insert or remove.
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks `name`, runs `work` on the objects at once and returns its result as a finished future.
    fn call<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&mut BTreeMap<String, Bytes>) -> T,
    ) -> StoreFuture<T> {
        let done: Result<T, StoreError> = check_name(name).map(|()| work(&mut self.lock()));
        Box::pin(ready(done))
    }
}

impl ObjectStore for MemoryObjects {
    fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
        self.call(name, |objects| objects.get(name).cloned())
    }

    fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
        self.call(name, |objects| {
            if objects.contains_key(name) {
                return PutNew::Exists;
            }
            objects.insert(name.to_owned(), bytes);
            PutNew::Created
        })
    }

    fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
        self.call(name, |objects| {
            objects.insert(name.to_owned(), bytes);
        })
    }

    fn delete(&self, name: &str) -> StoreFuture<bool> {
        self.call(name, |objects| objects.remove(name).is_some())
    }

    fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
        let objects = self.lock();
        let from = objects.range(prefix.to_owned()..).map(|(name, _)| name);
        let names = from.take_while(|name| name.starts_with(prefix)).cloned().collect();
        Box::pin(ready(Ok(names)))
    }

    fn location(&self) -> String {
        "memory".into()
    }
}
