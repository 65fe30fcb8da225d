//! Savepoints: a folder with the metadata of one checkpoint and all of its objects, which belongs to a user. Names of objects in
//! the metadata are relative to the folder, so that it can be moved.

use crate::checkpoints::{CheckpointDirectory, CheckpointError, METADATA, encode};
use crate::objects::{self, ObjectStore};
use crate::state_reader::StateReader;
use bytes::Bytes;
use model::{CheckpointMetadata, JobId, StateHandle};
use std::path::{Component, Path, PathBuf};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, timeout, timeout_at};

/// The time within which what was copied of a savepoint that failed is deleted again.
const DELETE_WITHIN: Duration = Duration::from_secs(30);

/// Returns the name of a new savepoint's folder: `savepoint-`, the first six digits of the job's id, `-`, and the low 48 bits
/// of `random` in twelve hex digits. Creates nothing; only a random number keeps the name unique.
pub fn folder_name(job: JobId, random: u64) -> String {
    let job = job.to_string();
    format!("savepoint-{}-{:012x}", job.get(..6).unwrap_or(&job), random & 0xffff_ffff_ffff)
}

/// Returns true if `target` names `folder` or a folder in it; both are paths or URIs. Compares only the texts, without `.`, `..` and empty
/// segments: false if `target` leads into `folder` by a symbolic link ([`leads_into`] follows links), or if one of the two is no usable
/// URI. Touches no file.
pub fn is_within(target: &str, folder: &str) -> bool {
    let (target, folder) = (given(target), given(folder));
    target.zip(folder).is_some_and(|(target, folder)| plain(&target).starts_with(plain(&folder)))
}

/// Returns true if [`is_within`] is true, or if both are local and `target`, without symbolic links as far as it exists, is `folder` or in
/// it. Creates nothing. False also if the system does not tell.
pub async fn leads_into(target: &str, folder: &str) -> bool {
    if is_within(target, folder) {
        return true;
    }
    let is_remote = objects::is_remote(target) || objects::is_remote(folder);
    let (Some(target), Some(folder), false) = (given(target), given(folder), is_remote) else {
        return false;
    };
    let leads = move || resolved(&target).starts_with(resolved(&folder));
    platform::blocking(leads).await.unwrap_or(false)
}

/// Returns the path that a local path or URI names, or the text of a remote URI as a path; `None` if no file system has it.
fn given(uri: &str) -> Option<PathBuf> {
    match objects::is_remote(uri) {
        true => Some(uri.trim().into()),
        false => objects::local_path(uri).ok(),
    }
}

/// Returns the path without `.`, `..` and empty segments.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the path without symbolic links in that part of it which exists. Blocks the calling thread.
fn resolved(path: &Path) -> PathBuf {
    let real = path
        .ancestors()
        .find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)));
    plain(real.as_deref().unwrap_or(path))
}

/// The folder of one savepoint, below the target directory that the user named; once written it contains copies of all objects of one
/// checkpoint and the metadata `_metadata`, and can be moved. The JobMaster writes it; [`StateReader`] reads it. The value holds only the
/// store and the folder's name.
#[derive(Debug, Clone)]
pub struct SavepointFolder(CheckpointDirectory);

impl SavepointFolder {
    /// Returns the folder of this name below the directory that `objects` was opened from. Creates nothing.
    pub fn new(objects: Arc<dyn ObjectStore>, name: impl AsRef<str>) -> Self {
        Self(CheckpointDirectory::below(objects, name.as_ref()))
    }

    /// Copies the objects of a checkpoint, which `from` reads, into the folder, one by one, each whole through memory, then writes the
    /// metadata: a folder with metadata is complete. Objects of the same names are replaced. Returns once the metadata is durable. After a
    /// failure the copies are deleted again (best effort, at most 30 s longer), unless the metadata may have been written: a write whose
    /// answer is missing may take effect at any time, and a folder with metadata must have all objects. The checkpoint stays as it is.
    ///
    /// # Errors
    /// Returns the store's error, the errors of [`StateReader::read`] for an object that cannot be read, [`CheckpointError::Late`] after
    /// the time `within` (for copies and metadata together), or [`CheckpointError::Metadata`] if the metadata can't be encoded.
    pub async fn write(
        &self,
        from: &StateReader,
        metadata: &CheckpointMetadata,
        within: Duration,
    ) -> Result<(), CheckpointError> {
        let end = Instant::now() + within;
        let late = || CheckpointError::Late(within);
        let copied = timeout_at(end, self.copy(from, metadata)).await;
        let (outcome, may_be_complete) = match copied.unwrap_or_else(|_| Err(late())) {
            Err(error) => (Err(error), false),
            Ok(bytes) => match timeout_at(end, self.0.put(METADATA, bytes)).await {
                Err(_) => (Err(late()), true),
                Ok(put) => {
                    let outcome = put.map_err(CheckpointError::from);
                    let unclear = outcome.as_ref().is_err_and(CheckpointError::may_pass);
                    (outcome, unclear)
                }
            },
        };
        if outcome.is_err() && !may_be_complete {
            // Best effort: the folder may be unreachable now.
            let copies = metadata.handles().filter_map(source).map(base);
            let _ = timeout(DELETE_WITHIN, self.0.delete(&copies.collect())).await;
        }
        outcome
    }

    /// Copies the objects, and returns the bytes of metadata that refers to the copies.
    async fn copy(
        &self,
        from: &StateReader,
        metadata: &CheckpointMetadata,
    ) -> Result<Bytes, CheckpointError> {
        for handle in metadata.handles() {
            if let Some(name) = source(handle) {
                self.0.put(&base(name), from.content(handle).await?).await?;
            }
        }
        let mut own = metadata.clone();
        for handle in own.handles_mut() {
            if let Some(name) = source(handle) {
                *handle = StateHandle::Object { name: base(name), bytes: handle.bytes() };
            }
        }
        encode(&own).map_err(|why| CheckpointError::Metadata { name: self.0.shown(METADATA), why })
    }
}

/// Returns the name of the object that a handle refers to, or its URI.
fn source(handle: &StateHandle) -> Option<&str> {
    match handle {
        StateHandle::Inline(_) | StateHandle::Parts(_) | StateHandle::Ranges { .. } => None,
        StateHandle::Object { name, .. } | StateHandle::External { uri: name, .. } => Some(name),
    }
}

/// Returns a name for the copy of an object, made of the last two segments of its name: the folder, which is that of a checkpoint, and
/// the file, whose name is unique within one checkpoint, because it names operator, subtask, attempt and part.
pub(crate) fn base(name: &str) -> String {
    let mut segments = name.rsplit('/');
    let (file, folder) = (segments.next().unwrap_or(name), segments.next());
    folder.map_or_else(|| file.to_owned(), |folder| format!("{folder}-{file}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::tests::metadata;
    use crate::objects::{Fault, FaultyObjects, FileObjects, MemoryObjects, S3Settings};
    use model::{ExecutionAttemptId, JobVertexId, OperatorId};
    use platform::Platform;
    use std::collections::BTreeSet;

    const WITHIN: Duration = Duration::from_secs(600);

    fn reader(directory: &CheckpointDirectory) -> StateReader {
        StateReader::new(Some(directory.clone()), Platform::production(), S3Settings::default())
    }

    async fn checkpoint(directory: &CheckpointDirectory) -> CheckpointMetadata {
        let mut states = Vec::new();
        for subtask in 0..2 {
            let attempt =
                ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask, attempt: 0 };
            // The first subtask has finished before: its state is of an older checkpoint.
            let (number, state) = (u64::from(subtask) + 4, Bytes::from(vec![subtask as u8; 3]));
            let put = directory.put_state(JobId(7), number, attempt, OperatorId(9), state);
            states.push(put.await.unwrap());
        }
        let mut metadata = metadata(5, 1, states);
        for saved in metadata.operators.values_mut() {
            saved.subtasks[0].ended = true;
            saved.coordinator = Some(StateHandle::Inline(vec![5]));
        }
        metadata
    }

    #[tokio::test]
    async fn a_savepoint_has_copies_of_everything_under_names_of_its_own() {
        let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
        let metadata = checkpoint(&directory).await;
        let store = Arc::new(MemoryObjects::new());
        let folder = SavepointFolder::new(store.clone(), "savepoint-1");
        folder.write(&reader(&directory), &metadata, WITHIN).await.unwrap();
        directory.delete(&metadata.objects()).await.unwrap();
        let read = folder.0.metadata(METADATA).await.unwrap();
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
    }

    #[tokio::test]
    async fn a_savepoint_that_misses_a_part_is_not_written() {
        let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
        let metadata = checkpoint(&directory).await;
        let lost: BTreeSet<String> = metadata.objects().into_iter().skip(1).collect();
        directory.delete(&lost).await.unwrap();
        let store = Arc::new(MemoryObjects::new());
        let folder = SavepointFolder::new(store.clone(), "savepoint-1");
        let error = folder.write(&reader(&directory), &metadata, WITHIN).await;
        assert!(matches!(error, Err(CheckpointError::Missing(_))), "{error:?}");
        assert!(store.list("").await.unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_savepoint_whose_store_does_not_answer_fails_in_time_and_leaves_nothing() {
        let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
        let metadata = checkpoint(&directory).await;
        let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
        let folder = SavepointFolder::new(Arc::new(store.clone()), "savepoint-1");
        store.set_writes(Fault::Slow(Duration::from_secs(350)));
        let (begin, error) = (tokio::time::Instant::now(), CheckpointError::Late(WITHIN));
        let outcome = folder.write(&reader(&directory), &metadata, WITHIN).await;
        assert_eq!(outcome, Err(error.clone()));
        assert_eq!(begin.elapsed(), WITHIN + DELETE_WITHIN);
        assert_eq!(
            error.to_string(),
            "its files are not copied within 600s (execution.checkpointing.timeout)"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_savepoint_whose_metadata_may_still_be_written_keeps_its_copies() {
        let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
        let metadata = checkpoint(&directory).await;
        let store = FaultyObjects::new(Arc::new(MemoryObjects::new()));
        let folder = SavepointFolder::new(Arc::new(store.clone()), "savepoint-1");
        // Two copies take 500 s, so the time ends while the metadata is being written.
        store.set_writes(Fault::Slow(Duration::from_secs(250)));
        let outcome = folder.write(&reader(&directory), &metadata, WITHIN).await;
        assert_eq!(outcome, Err(CheckpointError::Late(WITHIN)));
        store.set_writes(Fault::None);
        assert_eq!(store.list("savepoint-1").await.unwrap().len(), 2);
    }

    /// The folder with the savepoint of [`checkpoint`] as a released version has written it. To make it anew, run the test below
    /// with `FLOTT_WRITE_FIXTURES=1`; a folder that exists is never replaced.
    async fn fixture() -> std::path::PathBuf {
        let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let folder = fixtures.join("savepoint");
        if std::env::var_os("FLOTT_WRITE_FIXTURES").is_some() && !folder.exists() {
            let directory = CheckpointDirectory::new(Arc::new(MemoryObjects::new()));
            let metadata = checkpoint(&directory).await;
            let store = FileObjects::open(&fixtures).unwrap();
            let written = SavepointFolder::new(Arc::new(store), "savepoint");
            written.write(&reader(&directory), &metadata, WITHIN).await.unwrap();
        }
        folder
    }

    #[tokio::test]
    async fn a_savepoint_of_a_released_version_is_read_where_it_lies_and_damage_is_found_and_named()
    {
        let reader = StateReader::new(None, Platform::production(), S3Settings::default());
        let folder = fixture().await;
        let tmp = tempfile::tempdir().unwrap();
        let copy = tmp.path().join("moved");
        std::fs::create_dir(&copy).unwrap();
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let to = copy.join(path.file_name().unwrap());
            std::fs::copy(&path, &to).unwrap();
            files.push(to);
        }
        assert_eq!(files.len(), 3, "the metadata and two states");
        let uri = copy.to_str().unwrap();
        let read = reader.snapshot(uri).await.unwrap();
        assert_eq!((read.metadata.job_id, read.checkpoint_of), (JobId(7), None));
        let states = &read.metadata.operators[&OperatorId(9)];
        assert_eq!((states.name.as_str(), states.subtasks[0].ended), ("count", true));
        assert_eq!(states.coordinator, Some(StateHandle::Inline(vec![5])));
        let state = |n: usize| states.subtasks[n].state.clone().unwrap();
        for n in 0..2 {
            assert_eq!(reader.read(&state(n)).await.unwrap(), vec![n as u8; 3]);
        }
        for path in files {
            let whole = std::fs::read(&path).unwrap();
            let damaged = (0..whole.len() * 8).map(|bit| {
                let mut flipped = whole.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            });
            for bytes in (0..whole.len()).map(|length| whole[..length].to_vec()).chain(damaged) {
                std::fs::write(&path, &bytes).unwrap();
                let read = async {
                    reader.snapshot(uri).await?;
                    reader.read(&state(0)).await?;
                    reader.read(&state(1)).await
                };
                let error = read.await.unwrap_err().to_string();
                assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
            }
            std::fs::write(&path, whole).unwrap();
        }
    }

    #[tokio::test]
    async fn a_target_in_a_folder_is_known_however_it_is_spelled() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().display().to_string();
        std::fs::create_dir_all(format!("{home}/chk/7/chk-5")).unwrap();
        std::os::unix::fs::symlink(format!("{home}/chk/7"), format!("{home}/link")).unwrap();
        let folder = format!("{home}/chk/7");
        for (target, by_text) in [
            (folder.clone(), true),
            (format!("{home}/chk//7/./chk-5/new"), true),
            (format!("file://{home}/chk/8/../7/"), true),
            (format!("{home}/link/chk-5/new"), false),
            (format!("{home}/link/../7"), false),
        ] {
            assert_eq!(is_within(&target, &folder), by_text, "{target}");
            assert!(leads_into(&target, &folder).await, "{target}");
        }
        for target in ["chk", "chk/70", "chk/7/..", "link/..", "savepoints/new"] {
            let target = format!("{home}/{target}");
            assert!(!leads_into(&target, &folder).await, "{target}");
        }
        let remote = "hdfs://nn/chk/7";
        assert!(leads_into("hdfs://nn/chk//7/chk-5", remote).await);
        for target in ["hdfs://nn/chk/8", "hdfs://other/chk/7/a", "/chk/7", "gopher://nn/chk/7"] {
            assert!(!leads_into(target, remote).await, "{target}");
        }
    }

    #[test]
    fn the_folder_is_named_after_the_job() {
        let name = folder_name(JobId(0xabcdef << 104), u64::MAX);
        assert_eq!(name, "savepoint-abcdef-ffffffffffff");
    }
}
