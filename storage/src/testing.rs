//! Helpers for tests and fuzz targets: stores without `await`, and the contract that every store must keep.

pub mod contract;

use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use std::sync::Arc;

/// Runs a future to its end on a new single-threaded runtime, which blocks the calling thread, and returns the future's value. The runtime
/// has timers but no I/O driver.
///
/// # Panics
/// If no runtime can be made, the caller is inside of another async runtime, or the future uses a socket.
#[expect(clippy::expect_used, reason = "tests only")]
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(future)
}

/// An object store for tests without `await`: each call blocks the calling thread until the wrapped store has answered, on a new runtime of
/// its own (see [`wait`]), and panics inside of another async runtime. Clones use the same store.
#[derive(Debug, Clone)]
pub struct Blocking(pub Arc<dyn ObjectStore>);

impl Blocking {
    /// Wraps a store, whose calls then block.
    pub fn new(store: impl ObjectStore + 'static) -> Self {
        Self(Arc::new(store))
    }
    /// Calls [`ObjectStore::get`] and waits for it.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        wait(self.0.get(name))
    }
    /// Calls [`ObjectStore::put_new`] and waits for it.
    pub fn put_new(&self, name: &str, bytes: Bytes) -> Result<PutNew, StoreError> {
        wait(self.0.put_new(name, bytes))
    }
    /// Calls [`ObjectStore::put`] and waits for it.
    pub fn put(&self, name: &str, bytes: Bytes) -> Result<(), StoreError> {
        wait(self.0.put(name, bytes))
    }
    /// Calls [`ObjectStore::delete`] and waits for it.
    pub fn delete(&self, name: &str) -> Result<bool, StoreError> {
        wait(self.0.delete(name))
    }
    /// Calls [`ObjectStore::list`] and waits for it.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        wait(self.0.list(prefix))
    }
}
