//! Savepoints: a folder with the metadata of one checkpoint and all of its objects, which belongs to a user. Names of objects in
//! the metadata are relative to the folder, so that it can be moved.

use crate::checkpoints::{CheckpointDirectory, CheckpointError, METADATA, encode};
use crate::objects::ObjectStore;
use model::{CheckpointMetadata, JobId, StateHandle};
use std::sync::Arc;

/// Returns the name of a new savepoint's folder: `savepoint-`, the first six digits of the job's id, and twelve random digits.
pub fn folder_name(job: JobId, random: u64) -> String {
    let job = job.to_string();
    format!("savepoint-{}-{:012x}", job.get(..6).unwrap_or(&job), random & 0xffff_ffff_ffff)
}

/// Splits the URI of a savepoint into the URI of its parent directory and the folder's name. The URI may name the `_metadata` in the
/// folder, as Flink's may. Returns `None` if it names no folder.
pub fn split(uri: &str) -> Option<(&str, &str)> {
    let uri = uri.trim().trim_end_matches('/');
    let uri = uri.strip_suffix(METADATA).map_or(uri, |uri| uri.trim_end_matches('/'));
    let (parent, name) = uri.rsplit_once('/')?;
    let parent = if parent.is_empty() { "/" } else { parent };
    (!name.is_empty() && !parent.ends_with([':', '/']) || parent == "/").then_some((parent, name))
}

/// The folder of one savepoint.
#[derive(Debug, Clone)]
pub struct SavepointFolder(CheckpointDirectory);

impl SavepointFolder {
    /// Returns the folder of this name below the directory that `objects` was opened from.
    pub fn new(objects: Arc<dyn ObjectStore>, name: impl AsRef<str>) -> Self {
        Self(CheckpointDirectory::below(objects, name.as_ref()))
    }

    /// Copies the objects of a checkpoint into the folder, one by one, then writes the metadata: a folder with metadata is
    /// complete. What was copied is deleted again if that fails.
    ///
    /// # Errors
    /// The store's error, [`CheckpointError::Missing`], or [`CheckpointError::Metadata`] if the metadata can't be encoded.
    pub async fn write(
        &self,
        from: &CheckpointDirectory,
        metadata: &CheckpointMetadata,
    ) -> Result<(), CheckpointError> {
        let outcome = self.copy(from, metadata).await;
        if outcome.is_err() {
            // Best effort: the folder may be unreachable now.
            let copies = metadata.objects().iter().map(|name| base(name).to_owned()).collect();
            let _ = self.0.delete(&copies).await;
        }
        outcome
    }

    async fn copy(
        &self,
        from: &CheckpointDirectory,
        metadata: &CheckpointMetadata,
    ) -> Result<(), CheckpointError> {
        for name in metadata.objects() {
            let state = from.read(&StateHandle::Object { name: name.clone(), bytes: 0 }).await?;
            self.0.put(base(&name), state).await?;
        }
        let mut own = metadata.clone();
        own.rename_objects(|name| base(name).to_owned());
        let bytes = encode(&own)
            .map_err(|why| CheckpointError::Metadata { name: self.0.shown(METADATA), why })?;
        Ok(self.0.put(METADATA, bytes).await?)
    }

    /// Reads the metadata. Names of objects are relative to the folder.
    ///
    /// # Errors
    /// The store's error, [`CheckpointError::Missing`] if the folder has no metadata, or [`CheckpointError::Metadata`].
    pub async fn metadata(&self) -> Result<CheckpointMetadata, CheckpointError> {
        self.0.metadata(METADATA).await
    }

    /// Deletes the savepoint: its metadata first, then its objects. Other files of the folder stay.
    ///
    /// # Errors
    /// See [`SavepointFolder::metadata`]; objects that were deleted before a failure stay deleted.
    pub async fn delete(&self) -> Result<(), CheckpointError> {
        let objects = self.metadata().await?.objects();
        self.0.delete(&[METADATA.to_owned()].into()).await?;
        Ok(self.0.delete(&objects).await?)
    }
}

/// Returns the last segment of an object's name. Within one checkpoint it is unique: it names operator, subtask and attempt.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::MemoryObjects;
    use bytes::Bytes;
    use model::{ExecutionAttemptId, JobVertexId, OperatorId, OperatorState, OperatorSubtaskState};
    use std::collections::BTreeSet;

    async fn checkpoint(directory: &CheckpointDirectory) -> CheckpointMetadata {
        let mut subtasks = Vec::new();
        for subtask in 0..2 {
            let attempt =
                ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask, attempt: 0 };
            // The first subtask has finished before: its state is of an older checkpoint.
            let (number, state) = (u64::from(subtask) + 4, Bytes::from(vec![subtask as u8; 3]));
            let put = directory.put_state(JobId(7), number, attempt, OperatorId(9), state);
            let state = Some(put.await.unwrap());
            subtasks.push(OperatorSubtaskState { ended: subtask == 0, state });
        }
        let state = OperatorState {
            name: "count".into(),
            uid: None,
            max_parallelism: 128,
            subtasks,
            coordinator: Some(StateHandle::Inline(vec![5])),
        };
        CheckpointMetadata {
            job_id: JobId(7),
            checkpoint: 5,
            graph: 1,
            triggered_ms: 1,
            completed_ms: 2,
            operators: [(OperatorId(9), state)].into(),
        }
    }

    #[tokio::test]
    async fn a_savepoint_has_copies_of_everything_under_names_of_its_own() {
        let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
        let metadata = checkpoint(&directory).await;
        let store = Arc::new(MemoryObjects::new());
        let folder = SavepointFolder::new(store.clone(), "savepoint-1");
        assert!(matches!(folder.metadata().await, Err(CheckpointError::Missing(_))));
        folder.write(&directory, &metadata).await.unwrap();
        directory.delete(&metadata.objects()).await.unwrap();
        let read = folder.metadata().await.unwrap();
        let states = &read.operators[&OperatorId(9)];
        for (n, subtask) in states.subtasks.iter().enumerate() {
            let name = subtask.state.as_ref().unwrap().object().unwrap();
            assert!(!name.contains('/'), "{name}");
            assert_eq!(
                store.get(&format!("savepoint-1/{name}")).await.unwrap().unwrap(),
                vec![n as u8; 3]
            );
        }
        assert_eq!(states.coordinator, Some(StateHandle::Inline(vec![5])));
        store.put("savepoint-1/mine", Bytes::new()).await.unwrap();
        folder.delete().await.unwrap();
        assert_eq!(store.list("").await.unwrap(), ["savepoint-1/mine"]);
        assert!(folder.delete().await.is_err(), "there is none any more");
    }

    #[tokio::test]
    async fn a_savepoint_that_misses_a_part_is_not_written() {
        let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
        let metadata = checkpoint(&directory).await;
        let lost: BTreeSet<String> = metadata.objects().into_iter().skip(1).collect();
        directory.delete(&lost).await.unwrap();
        let store = Arc::new(MemoryObjects::new());
        let error =
            SavepointFolder::new(store.clone(), "savepoint-1").write(&directory, &metadata).await;
        assert!(matches!(error, Err(CheckpointError::Missing(_))), "{error:?}");
        assert!(store.list("").await.unwrap().is_empty());
    }

    #[test]
    fn the_folder_is_named_after_the_job() {
        let name = folder_name(JobId(0xabcdef << 104), u64::MAX);
        assert_eq!(name, "savepoint-abcdef-ffffffffffff");
        for (uri, parts) in [
            ("/s/savepoint-1", Some(("/s", "savepoint-1"))),
            ("/savepoint-1/", Some(("/", "savepoint-1"))),
            ("s3://b/s/savepoint-1/_metadata", Some(("s3://b/s", "savepoint-1"))),
            ("hdfs://host", None),
            ("savepoint-1", None),
        ] {
            assert_eq!(split(uri), parts, "{uri}");
        }
    }
}
