//! Details of ended jobs as bytes in an object store, each under a name that no two leaders share. The Dispatcher
//! decides how many are kept and for how long; this module must never delete on its own.

use super::log::{LogEnd, LogId, session_text};
use crate::objects::{ObjectStore, StoreError};
use model::{JobId, LeaderSession};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

pub(super) const PREFIX: &str = "archive/";

/// The store of the details of ended jobs (their vertices, subtasks, failures and times, as REST shows them), as encoded bytes in an object
/// store. The Dispatcher writes them when a job ends, and reads them when REST is asked for the job. Deletes nothing on its own and sets no
/// limit of size. Clones share the object store.
#[derive(Debug, Clone)]
pub struct DetailsStore {
    objects: Arc<dyn ObjectStore>,
}

/// Returns the name of the object in which the leader `writer` stores the details of the job whose log ends at `end`.
/// The name contains the log's id and the leader's session, so a superseded leader can neither overwrite the details of
/// the leader that recorded the result nor delete those of a later job of the same id.
pub fn archive_name(end: LogEnd, writer: LeaderSession) -> String {
    format!("{}{}", prefix_of(end.job, end.log), session_text(writer))
}

fn prefix_of(job: JobId, log: LogId) -> String {
    format!("{PREFIX}{job}/{log}-")
}

impl DetailsStore {
    /// Returns the details store in `objects`. Reads and writes nothing.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects }
    }

    /// Encodes details (MessagePack with named fields) for [`DetailsStore::put`]. Stores nothing.
    ///
    /// # Errors
    /// Returns the encoder's message.
    pub fn encode<T: Serialize>(details: &T) -> Result<bytes::Bytes, String> {
        rmp_serde::to_vec_named(details).map(Into::into).map_err(|e| e.to_string())
    }

    /// Stores encoded details under `name` (see [`archive_name`]), replacing earlier ones of that name. Unlike appends to job logs, this
    /// does not check the lease: the name keeps leaders apart.
    ///
    /// # Errors
    /// Returns the object store's error; the details may be stored all the same.
    pub async fn put(self, name: String, details: bytes::Bytes) -> Result<(), StoreError> {
        self.objects.put(&name, details).await
    }

    /// Reads and decodes the details that were stored under `name`; `None` if there are none, or they were deleted to make room.
    ///
    /// # Errors
    /// Returns the object store's error; [`StoreError::Corrupt`] if the object is damaged or its bytes cannot be decoded.
    pub async fn get<T: DeserializeOwned>(self, name: String) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.objects.get(&name).await? else {
            return Ok(None);
        };
        super::decode(&bytes).map(Some).map_err(|e| StoreError::Corrupt {
            path: format!("{}/{name}", self.objects.location()),
            why: e.to_string(),
        })
    }

    /// Deletes the details that were stored under `name` (see `archive_name`); it is no error if there are none.
    ///
    /// # Errors
    /// Returns the object store's error.
    pub async fn delete(self, name: String) -> Result<(), StoreError> {
        self.objects.delete(&name).await.map(|_| ())
    }

    /// Deletes all details that any leader stored for these logs of the job; details of its other logs (earlier or later submissions under
    /// the same job id) stay.
    ///
    /// # Errors
    /// Returns the object store's error; objects that were deleted before it stay deleted.
    pub async fn delete_job(self, job: JobId, logs: &[LogId]) -> Result<(), StoreError> {
        let prefixes: Vec<String> = logs.iter().map(|log| prefix_of(job, *log)).collect();
        for name in self.objects.list(&format!("{PREFIX}{job}/")).await? {
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                self.objects.delete(&name).await?;
            }
        }
        Ok(())
    }
}
