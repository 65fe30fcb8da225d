//! Details of ended jobs as bytes in a store of objects, each under a name that no two leaders share. How many
//! are kept, and for how long, is the Dispatcher's decision; this must never delete on its own.

use crate::objects::{ObjectStore, StoreError};
use model::{JobId, LeaderSession};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

pub(super) const PREFIX: &str = "archive/";

/// Details of ended jobs. Clones share the store.
#[derive(Debug, Clone)]
pub struct DetailsStore {
    objects: Arc<dyn ObjectStore>,
}

/// Returns the name of the object that the leader of `writer` stores a job's details in: a leader that was
/// superseded cannot replace the details of the one that recorded the result.
pub fn archive_name(job: JobId, writer: LeaderSession) -> String {
    let LeaderSession { epoch, nonce } = writer;
    format!("{PREFIX}{job}/{:020}-{:020}-{nonce:016x}", epoch.store, epoch.process)
}

impl DetailsStore {
    /// Returns the details in `objects`.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects }
    }

    /// Encodes details, to be stored with [`DetailsStore::put`].
    ///
    /// # Errors
    /// The encoder's words.
    pub fn encode<T: Serialize>(details: &T) -> Result<bytes::Bytes, String> {
        rmp_serde::to_vec_named(details).map(Into::into).map_err(|e| e.to_string())
    }

    /// Stores encoded details.
    ///
    /// # Errors
    /// As the store's.
    pub async fn put(self, name: String, details: bytes::Bytes) -> Result<(), StoreError> {
        self.objects.put(&name, details).await
    }

    /// Reads details; `None` if there are none of that name.
    ///
    /// # Errors
    /// As the store's; [`StoreError::Corrupt`] if the bytes are not details.
    pub async fn get<T: DeserializeOwned>(self, name: String) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.objects.get(&name).await? else {
            return Ok(None);
        };
        super::decode(&bytes).map(Some).map_err(|e| StoreError::Corrupt {
            path: format!("{}/{name}", self.objects.location()),
            why: e.to_string(),
        })
    }

    /// Deletes the details of one name; deleting what is not there is no error.
    ///
    /// # Errors
    /// As the store's.
    pub async fn delete(self, name: String) -> Result<(), StoreError> {
        self.objects.delete(&name).await.map(|_| ())
    }

    /// Deletes everything that any leader stored about a job.
    ///
    /// # Errors
    /// As the store's; details that were deleted stay deleted.
    pub async fn delete_job(self, job: JobId) -> Result<(), StoreError> {
        for name in self.objects.list(&format!("{PREFIX}{job}/")).await? {
            self.objects.delete(&name).await?;
        }
        Ok(())
    }
}
