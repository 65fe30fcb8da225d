//! Objects in memory, for simulations and tests: clones share one store, as hosts share a disk.
//!
//! It keeps no checksum because memory does not rot; it can be told to fail like a disk. It must never
//! be used where something has to survive the process.

use super::{ObjectStore, PutNew, StoreError, check_name};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A store in memory; clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub struct MemoryObjects {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Bytes>,
    write_failure: Option<StoreError>,
    read_failure: Option<StoreError>,
}

impl MemoryObjects {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
    /// From now on every write and delete fails like this; `None` heals it.
    pub fn fail_writes(&self, failure: Option<StoreError>) {
        self.lock().write_failure = failure;
    }
    /// From now on every read fails like this; `None` heals it.
    pub fn fail_reads(&self, failure: Option<StoreError>) {
        self.lock().read_failure = failure;
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned map is still a whole map: every change is one insert or remove.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn writable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        match &state.write_failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state),
        }
    }
    fn readable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.lock();
        match &state.read_failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state),
        }
    }
}

impl ObjectStore for MemoryObjects {
    fn get(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        check_name(name)?;
        Ok(self.readable()?.objects.get(name).cloned())
    }
    fn put_new(&self, name: &str, bytes: Bytes) -> Result<PutNew, StoreError> {
        check_name(name)?;
        let mut state = self.writable()?;
        if state.objects.contains_key(name) {
            return Ok(PutNew::Exists);
        }
        state.objects.insert(name.to_owned(), bytes);
        Ok(PutNew::Created)
    }
    fn put(&self, name: &str, bytes: Bytes) -> Result<(), StoreError> {
        check_name(name)?;
        self.writable()?.objects.insert(name.to_owned(), bytes);
        Ok(())
    }
    fn delete(&self, name: &str) -> Result<bool, StoreError> {
        check_name(name)?;
        Ok(self.writable()?.objects.remove(name).is_some())
    }
    fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let state = self.readable()?;
        let from = state.objects.range(prefix.to_owned()..);
        Ok(from.map(|(name, _)| name.clone()).take_while(|name| name.starts_with(prefix)).collect())
    }
    fn location(&self) -> String {
        "memory".into()
    }
}
