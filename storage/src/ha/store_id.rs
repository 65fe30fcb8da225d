//! Tells the cluster's store from another one under the same path. If the file system with the store is not mounted any
//! more, its mount point is an empty directory: a process that claimed an epoch there would lead without any of the
//! jobs, perhaps while the old leader is alive on another host. The first leader therefore creates the object
//! `store-id` with random bytes, and every process remembers what it has read there.
//!
//! This module must never replace that object.

use crate::objects::{ObjectStore, StoreError};
use bytes::Bytes;
use platform::Platform;
use std::sync::OnceLock;

const NAME: &str = "store-id";
const ID_BYTES: usize = 16;

/// The identity of the store that a process uses; empty until it has been read.
#[derive(Debug, Default)]
pub(super) struct StoreIdentity(OnceLock<Bytes>);

impl StoreIdentity {
    /// Reads the store's identity, unless it is known.
    pub(super) async fn learn(&self, store: &dyn ObjectStore) -> Result<(), StoreError> {
        if self.0.get().is_none()
            && let Some(id) = store.get(NAME).await?
        {
            self.0.get_or_init(|| id);
        }
        Ok(())
    }

    /// Reads the store's identity, unless it is known; creates it if there is none.
    pub(super) async fn establish(
        &self,
        store: &dyn ObjectStore,
        platform: &Platform,
    ) -> Result<(), StoreError> {
        self.learn(store).await?;
        if self.0.get().is_none() {
            let id = Bytes::copy_from_slice(&platform.random_bytes::<ID_BYTES>());
            // Another process may be quicker; then its bytes are the identity.
            let _ = store.put_new(NAME, id).await?;
            self.learn(store).await?;
        }
        Ok(())
    }

    /// Checks that the store still is the one whose identity is known.
    ///
    /// # Errors
    /// Returns the store's error, or [`StoreError::Io`] if it has another identity or none.
    pub(super) async fn check(&self, store: &dyn ObjectStore) -> Result<(), StoreError> {
        let Some(known) = self.0.get() else { return Ok(()) };
        if store.get(NAME).await?.as_ref() == Some(known) {
            return Ok(());
        }
        let why = "it is not the storage that was there before (its object 'store-id' is gone or another one): is the \
                   file system mounted? If it was emptied on purpose, restart the JobManagers"
            .to_owned();
        Err(StoreError::Io { path: store.location(), why })
    }
}
