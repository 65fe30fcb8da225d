//! A checkpoint directory: objects with state, and one object with the metadata of each checkpoint.
//!
//! Names are `<job id>/chk-<number>/…`; the metadata of a checkpoint is `<job id>/chk-<number>/_metadata`. Its content is the
//! magic `FCK1`, then a [`CheckpointMetadata`] in MessagePack with named fields. The object store checks that an object is whole.
//! This module must never delete anything that it was not told to delete.

use crate::objects::{ObjectStore, PutNew, StoreError};
use bytes::Bytes;
use model::{CheckpointMetadata, ExecutionAttemptId, JobId, OperatorId, StateHandle};
use std::{collections::BTreeSet, fmt, sync::Arc};
use thiserror::Error;

const MAGIC: &[u8; 4] = b"FCK1";
/// The beginning of names in the store of job logs.
const BESIDE_LOGS: &str = "checkpoints/";
/// The last part of the name of the object that marks the directory.
const SHARED: &str = "_shared";
/// Maximum nesting depth of the metadata, so that damaged bytes cannot exhaust the stack.
const DEPTH_MAX: usize = 64;

/// The reason why a checkpoint could not be stored or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another JobMaster of the job has stored a checkpoint of this number.
    #[error("{0} exists already: another JobMaster has taken a checkpoint of this number")]
    NumberTaken(String),
    /// An object that the checkpoint refers to does not exist.
    #[error(
        "{0} does not exist: it was deleted, or the directory is not the same one on all machines (execution.checkpointing.dir)"
    )]
    Missing(String),
    /// State is in the checkpoint directory, and the job has none any more.
    #[error("state is in the object {0}, and execution.checkpointing.dir is not set")]
    NoDirectory(String),
    /// The path of a savepoint or a retained checkpoint names neither.
    #[error("{0}")]
    NoSnapshot(String),
    /// The metadata cannot be decoded.
    #[error("{name} is no checkpoint of a version that this program knows: {why}")]
    Metadata {
        /// The object.
        name: String,
        /// The fault.
        why: String,
    },
}

/// The checkpoint directory of a job. Clones share it.
#[derive(Clone)]
pub struct CheckpointDirectory {
    objects: Arc<dyn ObjectStore>,
    /// The beginning of every name in the store.
    prefix: String,
}

impl fmt::Debug for CheckpointDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckpointDirectory({}/{})", self.objects.location(), self.prefix)
    }
}

impl CheckpointDirectory {
    /// Returns the directory `execution.checkpointing.dir`, which `objects` was opened from.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects, prefix: String::new() }
    }

    /// Returns the part of the store of job logs in which metadata is kept if no directory is configured.
    pub fn beside_logs(objects: Arc<dyn ObjectStore>) -> Self {
        Self { objects, prefix: BESIDE_LOGS.to_owned() }
    }

    /// Returns the folder of this name in a store.
    pub(crate) fn below(objects: Arc<dyn ObjectStore>, folder: &str) -> Self {
        Self { objects, prefix: format!("{folder}/") }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Creates or replaces an object.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.objects.put(&self.full(name), bytes).await
    }

    /// Returns the place of an object, for messages.
    pub(crate) fn shown(&self, name: &str) -> String {
        format!("{}/{}", self.objects.location(), self.full(name))
    }

    /// Marks the directory, so that other processes can tell whether theirs is the same one.
    ///
    /// # Errors
    /// The store's error.
    pub async fn mark_shared(&self, job: JobId) -> Result<(), CheckpointError> {
        Ok(self.put(&format!("{job}/{SHARED}"), Bytes::new()).await?)
    }

    /// Returns true if the JobMaster of the job has marked this directory.
    ///
    /// # Errors
    /// The store's error.
    pub async fn is_shared(&self, job: JobId) -> Result<bool, CheckpointError> {
        Ok(self.objects.get(&self.full(&format!("{job}/{SHARED}"))).await?.is_some())
    }

    /// Stores the state of an operator of one attempt, and returns its handle.
    ///
    /// # Errors
    /// The store's error.
    pub async fn put_state(
        &self,
        job: JobId,
        checkpoint: u64,
        attempt: ExecutionAttemptId,
        operator: OperatorId,
        state: Bytes,
    ) -> Result<StateHandle, CheckpointError> {
        let ExecutionAttemptId { graph, subtask, attempt, .. } = attempt;
        let name = format!("{job}/chk-{checkpoint}/{operator}-{subtask}-{graph:016x}.{attempt}");
        let bytes = state.len() as u64;
        self.objects.put(&self.full(&name), state).await?;
        Ok(StateHandle::Object { name, bytes })
    }

    /// Returns the bytes of a handle.
    ///
    /// # Errors
    /// The store's error; [`CheckpointError::Missing`] if the object is not there.
    pub async fn read(&self, handle: &StateHandle) -> Result<Bytes, CheckpointError> {
        let name = match handle {
            StateHandle::Inline(bytes) => return Ok(Bytes::copy_from_slice(bytes)),
            StateHandle::Object { name, .. } => name,
            StateHandle::External { uri, .. } => return Err(CheckpointError::Missing(uri.clone())),
        };
        let found = self.objects.get(&self.full(name)).await?;
        found.ok_or_else(|| CheckpointError::Missing(self.shown(name)))
    }

    /// Stores a checkpoint's metadata and returns its name. A checkpoint of this number that another JobMaster has stored is left
    /// as it is.
    ///
    /// # Errors
    /// The store's error, [`CheckpointError::NumberTaken`], or [`CheckpointError::Metadata`] if it can't be encoded.
    pub async fn put_metadata(
        &self,
        metadata: &CheckpointMetadata,
    ) -> Result<String, CheckpointError> {
        let name = metadata.object_name();
        let bytes = encode(metadata)
            .map_err(|why| CheckpointError::Metadata { name: self.shown(&name), why })?;
        if self.objects.put_new(&self.full(&name), bytes.clone()).await? == PutNew::Exists {
            // It may be from an earlier try of this call whose answer was lost.
            let there = self.objects.get(&self.full(&name)).await?;
            if there.is_some_and(|there| there != bytes) {
                return Err(CheckpointError::NumberTaken(self.shown(&name)));
            }
        }
        Ok(name)
    }

    /// Reads a checkpoint's metadata.
    ///
    /// # Errors
    /// The store's error, [`CheckpointError::Missing`], or [`CheckpointError::Metadata`].
    pub async fn metadata(&self, name: &str) -> Result<CheckpointMetadata, CheckpointError> {
        let bytes = self.objects.get(&self.full(name)).await?;
        let bytes = bytes.ok_or_else(|| CheckpointError::Missing(self.shown(name)))?;
        decode(&bytes).map_err(|why| CheckpointError::Metadata { name: self.shown(name), why })
    }

    /// Deletes objects; it is no error if one does not exist.
    ///
    /// # Errors
    /// The store's error; objects that were deleted before it stay deleted.
    pub async fn delete(&self, names: &BTreeSet<String>) -> Result<(), StoreError> {
        for name in names {
            self.objects.delete(&self.full(name)).await?;
        }
        Ok(())
    }

    /// Deletes everything of a job except the objects in `keep`, for instance what checkpoints left that were never complete.
    ///
    /// # Errors
    /// The store's error; objects that were deleted before it stay deleted.
    pub async fn delete_others(
        &self,
        job: JobId,
        keep: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        for name in self.objects.list(&self.full(&format!("{job}/"))).await? {
            let own = name.strip_prefix(self.prefix.as_str()).unwrap_or(&name);
            if !keep.contains(own) {
                self.objects.delete(&name).await?;
            }
        }
        Ok(())
    }
}

/// Returns the job and the number of the checkpoint whose metadata an object in the store of job logs contains; `None` if the
/// object's name is no such name.
pub fn parse_metadata_name(name: &str) -> Option<(JobId, u64)> {
    let (job, rest) = name.strip_prefix(BESIDE_LOGS)?.split_once('/')?;
    let number = rest.strip_prefix("chk-")?.strip_suffix("/_metadata")?;
    Some((job.parse().ok()?, number.parse().ok()?))
}

/// Encodes metadata.
///
/// # Errors
/// The encoder's message.
pub(crate) fn encode(metadata: &CheckpointMetadata) -> Result<Bytes, String> {
    use serde::Serialize;
    let mut bytes = MAGIC.to_vec();
    let mut out = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    metadata.serialize(&mut out).map_err(|error| error.to_string())?;
    Ok(bytes.into())
}

/// Decodes metadata.
///
/// # Errors
/// A description of what is wrong with the bytes.
pub fn decode(bytes: &[u8]) -> Result<CheckpointMetadata, String> {
    let body = bytes.strip_prefix(MAGIC).ok_or("it does not begin with FCK1")?;
    let mut decoder = rmp_serde::Deserializer::from_read_ref(body);
    decoder.set_max_depth(DEPTH_MAX);
    serde::Deserialize::deserialize(&mut decoder).map_err(|error| error.to_string())
}
