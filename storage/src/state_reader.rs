//! Reads state wherever its handle says it is: in the checkpoint directory of the job, or in the objects of a snapshot that the job
//! was started from. This module must never write to such a snapshot; it deletes one only if the job owns it.

mod paths;

use self::paths::{folder_and_file, is_file, last, normalised, parent, resolved, resolved_path};
use crate::checkpoints::{CheckpointDirectory, CheckpointError, METADATA, is_metadata, ranges};
use crate::objects::{self, ObjectStore, S3Settings, StoreError};
use crate::savepoints::base;
use bytes::Bytes;
use model::{CheckpointMetadata, JobId, StateHandle};
use platform::Platform;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of a state that the metadata takes over, as of tasks without a checkpoint directory.
const INLINE_MAX: usize = 5 << 20;
/// The reason why a file with a name that metadata never has is refused.
const OTHER_FILE: &str = "it is a file whose name does not begin with _metadata; name the folder of the savepoint or checkpoint, or the file \
    _metadata in it";

/// Reads the state of one job, wherever its handles say that it is: in the handle itself, in the job's checkpoint directory, or in the
/// snapshot that the job was started from; also reads, copies (`adopt`) and deletes such snapshots. JobMasters and program hosts have one
/// per job; the Dispatcher makes one to read or delete a snapshot. The store of each folder is opened once and stays open; clones share the
/// stores.
#[derive(Clone, derive_more::Debug)]
#[debug("StateReader({:?})", self.directory)]
pub struct StateReader {
    directory: Option<CheckpointDirectory>,
    platform: Platform,
    s3: S3Settings,
    /// The stores of other snapshots, by the URIs that they were opened with.
    opened: Arc<Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>>,
}

/// A savepoint, or a checkpoint that a job may be started from, as [`StateReader::snapshot`] has read it: its metadata without the states.
/// Whether the job that took it still runs is not known here. Nothing is locked: another process may delete the snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The URI of the snapshot's metadata object.
    pub uri: String,
    /// The job that took the snapshot if it is a checkpoint, as its metadata shows, however its path is spelled (only if the metadata
    /// refers to no object and the name of its file does not tell, the path decides); `None` if it is a savepoint, which belongs to its
    /// user.
    pub checkpoint_of: Option<JobId>,
    /// The snapshot's metadata, in which the handles of objects are [`StateHandle::External`]: URIs, which any reader can read.
    pub metadata: CheckpointMetadata,
}

/// A checkpoint in the folder of a job, of which only its place and its objects matter.
struct Other {
    /// The URI of its folder.
    folder: String,
    /// The URIs of the objects that its metadata refers to; `None` if the metadata is damaged or of an unknown version.
    objects: Option<BTreeSet<String>>,
}

impl StateReader {
    /// Makes a reader for a job with this checkpoint directory (`None`: the job's own state is inline, in its handles). `s3` is for
    /// snapshots in S3. Opens nothing yet.
    pub fn new(directory: Option<CheckpointDirectory>, platform: Platform, s3: S3Settings) -> Self {
        Self { directory, platform, s3, opened: Arc::default() }
    }

    /// Reads the bytes of a handle that has no parts: those in the handle, or an object of the checkpoint directory or at a URI, whole or
    /// in ranges, which are joined.
    ///
    /// # Errors
    /// Returns the store's error, [`StoreError::Corrupt`] also if a range is cut or changed; [`CheckpointError::Missing`] if the object, or
    /// the local folder of its URI, is not there; [`CheckpointError::NoDirectory`] for an object of the checkpoint directory if this reader
    /// has none; [`CheckpointError::IsInParts`] for [`StateHandle::Parts`].
    pub async fn read(&self, handle: &StateHandle) -> Result<Bytes, CheckpointError> {
        match (handle, &self.directory) {
            (StateHandle::Inline(bytes), _) => Ok(Bytes::copy_from_slice(bytes)),
            (StateHandle::Object { bytes, .. } | StateHandle::External { bytes, .. }, _) => {
                Ok(ranges::state_in(self.content(handle).await?, *bytes))
            }
            (StateHandle::Parts(_), _) => Err(CheckpointError::IsInParts),
            (StateHandle::Ranges { of, ranges, index }, directory) => match (&**of, directory) {
                (StateHandle::External { uri, .. }, _) => {
                    let objects = self.store_of(uri).await?;
                    ranges::read(&*objects, (last(uri), uri), ranges, index.as_ref()).await
                }
                (_, Some(directory)) => directory.read(handle).await,
                (of, None) => {
                    Err(CheckpointError::NoDirectory(of.object().unwrap_or_default().to_owned()))
                }
            },
        }
    }

    /// Reads the content of the object that a handle refers to, with what follows the state in it; of an inline handle its bytes.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::read`], and [`CheckpointError::IsInParts`] for ranges too.
    pub(crate) async fn content(&self, handle: &StateHandle) -> Result<Bytes, CheckpointError> {
        match (handle, &self.directory) {
            (StateHandle::Object { name, .. }, Some(directory)) => directory.content(name).await,
            (StateHandle::Object { name, .. }, None) => {
                Err(CheckpointError::NoDirectory(name.clone()))
            }
            (StateHandle::External { uri, .. }, _) => self.object(uri).await,
            (StateHandle::Inline(bytes), _) => Ok(Bytes::copy_from_slice(bytes)),
            (StateHandle::Parts(_) | StateHandle::Ranges { .. }, _) => {
                Err(CheckpointError::IsInParts)
            }
        }
    }

    /// Reads the metadata of the snapshot at a path or URI, which names the snapshot's folder or the metadata object in it. The states
    /// themselves are not read. A savepoint may have been moved; a checkpoint with state in objects must be in a folder
    /// `<job>/chk-<number>`, beside those of the checkpoints whose objects it shares.
    ///
    /// # Errors
    /// Returns [`CheckpointError::NoSnapshot`] if the folder is absent, is a file or has no metadata or several, the store's error, or
    /// [`CheckpointError::Metadata`] if the metadata can't be decoded or refers to objects outside of its snapshot, as that of a checkpoint
    /// with objects does in any other folder.
    pub async fn snapshot(&self, uri: &str) -> Result<Snapshot, CheckpointError> {
        let given = normalised(uri);
        let (folder, file, bytes) = self.metadata_at(&given).await?;
        let name = objects::below(&folder, &file);
        let mut metadata = crate::checkpoints::decode(&bytes)
            .map_err(|why| CheckpointError::Metadata { name, why })?;
        // The objects of a checkpoint are below the checkpoint directory, two folders above; names begin with the job's id. Those of a
        // savepoint are in its folder.
        let place = format!("/{}/chk-{}", metadata.job_id, metadata.checkpoint);
        let says = says_checkpoint(&metadata, &file);
        let (mut folder, mut in_place) = (folder.clone(), folder.ends_with(&place));
        if !in_place
            && says != Some(false)
            && let Some(real) = resolved(&folder).await.filter(|real| real.ends_with(&place))
        {
            (folder, in_place) = (real, true);
        }
        let is_checkpoint = says.unwrap_or(in_place);
        let base = match (is_checkpoint, in_place) {
            (false, _) => Some(folder.as_str()),
            (true, true) => Some(parent(parent(&folder))),
            (true, false) => None,
        };
        let uri = objects::below(&folder, &file);
        make_external(&mut metadata, is_checkpoint, base, &uri)?;
        Ok(Snapshot { uri, checkpoint_of: is_checkpoint.then_some(metadata.job_id), metadata })
    }

    /// Returns the folder of the snapshot at a path or URI (of the folder or of the metadata object in it), in a form that is equal for two
    /// spellings of one folder: the path without symbolic links for a local folder that exists, otherwise the URI without empty parts and
    /// `.`. Reads no metadata; the folder need not exist.
    pub async fn place(&self, uri: &str) -> String {
        let given = normalised(uri);
        let (folder, _) = folder_and_file(&given);
        resolved(folder).await.unwrap_or_else(|| folder.to_owned())
    }

    /// Deletes a snapshot: first the objects of an incremental checkpoint in the folders of older checkpoints, except those to which the
    /// metadata of another checkpoint of the job refers; then the objects in the snapshot's own folder; then its metadata. If a call fails
    /// or the process ends before the metadata is deleted, another call of this function for the same snapshot finds the metadata and
    /// deletes the rest. Folders that are empty then go too: those of older checkpoints, and a local folder of the snapshot itself, even if
    /// the snapshot's URI names it by a symbolic link; that of the job as well if the snapshot is a checkpoint. If the metadata of another
    /// checkpoint of the job is damaged or of an unknown version, nobody knows what it refers to: the objects in older folders stay, and a
    /// warning says so. Nothing outside of the folder of the snapshot's job is deleted. Does not check that nobody uses the snapshot or
    /// builds on it ([`Self::dependents`]), nor that it is still the one that was read.
    ///
    /// # Errors
    /// Returns the store's error, [`StoreError::NotFound`] if a local folder that this reader has not opened yet is gone; what was deleted
    /// before it stays deleted. An object that is gone already is no error.
    pub async fn delete(&self, snapshot: &Snapshot) -> Result<(), StoreError> {
        let folder = parent(&snapshot.uri);
        let local = resolved_path(folder).await;
        let older = objects_of(&snapshot.metadata).filter(|uri| parent(uri) != folder);
        let shared = self.delete_unshared(snapshot, older.map(str::to_owned).collect()).await?;
        for uri in objects_of(&snapshot.metadata).filter(|uri| parent(uri) == folder) {
            self.delete_object(uri).await?;
        }
        self.delete_object(&snapshot.uri).await?;
        // Another call may have deleted the last other checkpoint that needed these meanwhile.
        self.delete_unshared(snapshot, shared).await?;
        if let Some(local) = local {
            remove_if_empty(local, snapshot.checkpoint_of).await;
        }
        Ok(())
    }

    /// Returns the folders of the job's other checkpoints that refer to objects which [`Self::delete`] of this snapshot would delete, in
    /// the order of their names: incremental checkpoints, and those with subtasks that had finished before. Reads the metadata of each
    /// checkpoint in the job's folder. Empty for a savepoint, and for a checkpoint that was moved elsewhere, to which nothing refers.
    /// Leaves out a checkpoint whose metadata is missing or damaged: no job can be started from it. Nothing is locked.
    ///
    /// # Errors
    /// Returns the store's error, except one about damage.
    pub async fn dependents(&self, snapshot: &Snapshot) -> Result<Vec<String>, CheckpointError> {
        let folder = parent(&snapshot.uri);
        let own: BTreeSet<String> = objects_of(&snapshot.metadata)
            .filter(|uri| parent(uri) == folder)
            .map(str::to_owned)
            .collect();
        if snapshot.checkpoint_of.is_none() || own.is_empty() {
            return Ok(Vec::new());
        }
        let others = self.others(&snapshot.uri).await?;
        let refers = |other: &Other| {
            let objects = other.objects.as_ref();
            other.folder != folder && objects.is_some_and(|objects| !objects.is_disjoint(&own))
        };
        let dependents = others.into_iter().filter(refers).map(|other| other.folder);
        Ok(dependents.collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// Deletes those of the objects of a checkpoint in the folders of older checkpoints, `older`, that nothing else needs, and the folders
    /// that are empty then. Returns those that another checkpoint needs; none if nobody knows. Does nothing for a savepoint, all of whose
    /// objects are in its own folder.
    async fn delete_unshared(
        &self,
        snapshot: &Snapshot,
        mut older: BTreeSet<String>,
    ) -> Result<BTreeSet<String>, StoreError> {
        if snapshot.checkpoint_of.is_none() || older.is_empty() {
            return Ok(BTreeSet::new());
        }
        let unshared = match unshared(older.clone(), &self.others(&snapshot.uri).await?) {
            Ok(unshared) => unshared,
            Err(other) => {
                tracing::warn!(
                    checkpoint = snapshot.uri,
                    "files of older checkpoints that the deleted checkpoint refers to stay: the metadata in {other} cannot be read, so \
                     that nobody knows whether that checkpoint needs them; delete them by hand once it is gone"
                );
                return Ok(BTreeSet::new());
            }
        };
        let of_job = parent(parent(&snapshot.uri));
        let store = self.store(of_job).await?;
        for uri in &unshared {
            // Below the folder of the job, the store removes the folder of a checkpoint with its last object.
            if let Some(name) = uri.strip_prefix(of_job).and_then(|name| name.strip_prefix('/')) {
                store.delete(name).await?;
            }
        }
        older.retain(|object| !unshared.contains(object));
        Ok(older)
    }

    /// Reads all metadata that [`Self::snapshot`] would read in the folder of a job, a copy `_metadata.bak` too, except that at `uri`.
    async fn others(&self, uri: &str) -> Result<Vec<Other>, StoreError> {
        let of_job = parent(parent(uri));
        let directory = parent(of_job);
        let store = self.store(of_job).await?;
        let mut others = Vec::new();
        for name in store.list("chk-").await? {
            let Some((folder, file)) = name.split_once('/') else {
                // It may be a symbolic link to a folder, into which a listing does not look.
                if name.strip_prefix("chk-").is_some_and(|number| number.parse::<u64>().is_ok()) {
                    others.push(Other { folder: objects::below(of_job, &name), objects: None });
                }
                continue;
            };
            let is_read = file.starts_with(METADATA) && !file.contains('/');
            if !is_read || objects::below(of_job, &name) == uri {
                continue;
            }
            let metadata = match store.get(&name).await {
                Ok(Some(bytes)) => crate::checkpoints::decode(&bytes).ok(),
                // It was deleted meanwhile.
                Ok(None) => continue,
                Err(StoreError::Corrupt { .. }) => None,
                Err(error) => return Err(error),
            };
            let objects = metadata.map(|metadata| {
                let names = metadata.objects().into_iter();
                names.map(|name| objects::below(directory, &name)).collect()
            });
            others.push(Other { folder: objects::below(of_job, folder), objects });
        }
        Ok(others)
    }

    /// Makes a new checkpoint independent of the snapshot that its job was started from and may not own: copies every object that
    /// `metadata` refers to by a URI, and changes its handle in `metadata`; the metadata is not stored, and the snapshot stays. The
    /// JobMaster calls this for each checkpoint that still refers to such objects. The copies are objects of the checkpoint directory,
    /// durable when this returns, or inline in the metadata (at most 5 MiB per state) if tasks can't read the directory (`is_shared` is
    /// false) or there is none.
    ///
    /// # Errors
    /// Returns the store's error, [`CheckpointError::Missing`] if an object is not there, or [`CheckpointError::NoDirectory`] if a state is
    /// too large to be inline. Handles that were changed before stay changed, and copies that were made stay.
    pub async fn adopt(
        &self,
        metadata: &mut CheckpointMetadata,
        is_shared: bool,
    ) -> Result<(), CheckpointError> {
        let (job, checkpoint, graph) = (metadata.job_id, metadata.checkpoint, metadata.graph);
        for state in metadata.states_mut() {
            let mut inline = 0;
            for handle in state.places_mut() {
                let StateHandle::External { uri, bytes } = &*handle else { continue };
                let (content, length) = (self.object(uri).await?, *bytes);
                *handle = match self.directory.as_ref().filter(|_| is_shared) {
                    None => {
                        let bytes = ranges::state_in(content, length);
                        inline += bytes.len();
                        if inline > INLINE_MAX {
                            return Err(CheckpointError::NoDirectory(uri.clone()));
                        }
                        StateHandle::Inline(bytes.into())
                    }
                    Some(directory) => {
                        // The name belongs to the JobMaster that takes the checkpoint, like every other one.
                        let name = format!("{job}/chk-{checkpoint}/{}-{graph:016x}", base(uri));
                        directory.put(&name, content).await?;
                        StateHandle::Object { name, bytes: length }
                    }
                };
            }
        }
        Ok(())
    }

    /// Reads the metadata that `given` names: a file, or the only one in a folder. Returns the folder, the name of the file, and its bytes.
    ///
    /// A named file is read first. The folder is listed if `given` is the folder, or its file `_metadata` and that does not exist: the
    /// metadata of a checkpoint has a longer name, which nobody needs to know.
    async fn metadata_at(&self, given: &str) -> Result<(String, String, Bytes), CheckpointError> {
        let (folder, named) = folder_and_file(given);
        if let Some(file) = named {
            match self.object(given).await {
                Err(CheckpointError::Missing(_)) if file == METADATA => {}
                Err(CheckpointError::Missing(_)) => {
                    return Err(no_snapshot(given, "it has no metadata"));
                }
                read => return Ok((folder.to_owned(), file.to_owned(), read?)),
            }
        }
        let file = self.metadata_in(folder, given).await?;
        // It may have been deleted meanwhile.
        let bytes =
            self.object(&objects::below(folder, &file)).await.map_err(|error| match error {
                CheckpointError::Missing(_) => no_snapshot(given, "it has no metadata"),
                other => other,
            })?;
        Ok((folder.to_owned(), file, bytes))
    }

    /// Returns the name of the only metadata in a folder. `given` is the folder itself, or the file `_metadata` in it, which does not
    /// exist.
    async fn metadata_in(&self, folder: &str, given: &str) -> Result<String, CheckpointError> {
        let is_folder = folder == given;
        let objects = match self.store(folder).await {
            Err(StoreError::NotFound { .. }) if is_folder && is_file(folder).await => {
                return Err(no_snapshot(given, OTHER_FILE));
            }
            Err(StoreError::NotFound { .. }) => {
                return Err(no_snapshot(given, "there is no such folder"));
            }
            opened => opened?,
        };
        let mut names = objects.list(METADATA).await?.into_iter().filter(|name| is_metadata(name));
        match (names.next(), names.next()) {
            (Some(name), None) => Ok(name),
            (Some(first), Some(second)) => {
                let has = if is_folder { "it has" } else { "its folder has instead" };
                Err(no_snapshot(given, &format!("{has} {first} and {second}; name one of them")))
            }
            (None, _) if is_folder => Err(no_snapshot(given, "it has no _metadata")),
            (None, _) => Err(no_snapshot(given, "it has no metadata")),
        }
    }

    async fn object(&self, uri: &str) -> Result<Bytes, CheckpointError> {
        let found = self.store_of(uri).await?.get(last(uri)).await?;
        found.ok_or_else(|| CheckpointError::Missing(uri.to_owned()))
    }

    /// Opens the store of an object.
    async fn store_of(&self, uri: &str) -> Result<Arc<dyn ObjectStore>, CheckpointError> {
        self.store(parent(uri)).await.map_err(|error| match error {
            StoreError::NotFound { .. } => CheckpointError::Missing(uri.to_owned()),
            other => other.into(),
        })
    }

    async fn delete_object(&self, uri: &str) -> Result<(), StoreError> {
        self.store(parent(uri)).await?.delete(last(uri)).await?;
        Ok(())
    }

    /// Opens the store at a URI, once.
    async fn store(&self, uri: &str) -> Result<Arc<dyn ObjectStore>, StoreError> {
        let opened = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(objects) = opened().get(uri) {
            return Ok(objects.clone());
        }
        let (place, platform, s3) = (uri.to_owned(), self.platform.clone(), self.s3.clone());
        let open = move || objects::open_existing(&place, &platform, &s3);
        let objects = platform::blocking(open).await;
        let objects = objects
            .map_err(|why| StoreError::Io { path: uri.to_owned(), why: why.to_string() })??;
        opened().insert(uri.to_owned(), objects.clone());
        Ok(objects)
    }
}

/// Returns what the metadata says of itself, whatever its path is: true for a checkpoint, false for a savepoint, `None` if nothing in it
/// shows that: it refers to no object, and its file is not named as a checkpoint's.
fn says_checkpoint(metadata: &CheckpointMetadata, file: &str) -> Option<bool> {
    let of_job = format!("{}/chk-", metadata.job_id);
    match metadata.handles().find_map(StateHandle::object) {
        Some(name) => Some(name.starts_with(&of_job)),
        None => (file != METADATA && file == last(&metadata.object_name())).then_some(true),
    }
}

/// Makes the handles of objects external, below `base`. Whoever wrote the file must not choose what else is read and deleted.
/// `base` is `None` for a checkpoint outside of its place, whose objects are nowhere known.
fn make_external(
    metadata: &mut CheckpointMetadata,
    is_checkpoint: bool,
    base: Option<&str>,
    uri: &str,
) -> Result<(), CheckpointError> {
    let outside = |name: &str| CheckpointError::Metadata {
        name: uri.to_owned(),
        why: format!("it refers to '{}', which is not part of it", name.escape_default()),
    };
    let of_job = format!("{}/chk-", metadata.job_id);
    for handle in metadata.handles_mut() {
        if let StateHandle::External { uri, .. } = handle {
            return Err(outside(uri));
        }
        if let StateHandle::Object { name, bytes } = handle {
            let is_part =
                if is_checkpoint { name.starts_with(&of_job) } else { !name.contains('/') };
            let base = base.filter(|_| is_part && objects::check_name(name).is_ok());
            let uri = objects::below(base.ok_or_else(|| outside(name))?, name);
            *handle = StateHandle::External { uri, bytes: *bytes };
        }
    }
    Ok(())
}

/// Returns the URIs of the objects that the metadata of a snapshot refers to.
fn objects_of(metadata: &CheckpointMetadata) -> impl Iterator<Item = &str> {
    metadata.handles().filter_map(|handle| match handle {
        StateHandle::External { uri, .. } => Some(uri.as_str()),
        _ => None,
    })
}

/// Returns those of the objects, given by their URIs, to which none of the other checkpoints refers.
///
/// # Errors
/// Returns the folder of a checkpoint of which it is not known what it refers to.
fn unshared(mut objects: BTreeSet<String>, others: &[Other]) -> Result<BTreeSet<String>, &str> {
    for other in others {
        let needed = other.objects.as_ref().ok_or(other.folder.as_str())?;
        objects.retain(|object| !needed.contains(object));
    }
    Ok(objects)
}

/// Removes a local folder if nothing is in it, and then the folder of the job that it is in if it was a checkpoint's. A failure is
/// ignored: an empty folder does no harm.
async fn remove_if_empty(folder: PathBuf, checkpoint_of: Option<JobId>) {
    let remove = move || {
        std::fs::remove_dir(&folder)?;
        // A checkpoint may have been moved to any other folder, which is not the job's.
        let of_job =
            |above: &&Path| checkpoint_of.is_some_and(|job| above.ends_with(job.to_string()));
        folder.parent().filter(of_job).map_or(Ok(()), std::fs::remove_dir)
    };
    let _ = platform::blocking(remove).await;
}

fn no_snapshot(path: &str, why: &str) -> CheckpointError {
    CheckpointError::NoSnapshot(format!(
        "'{path}' is neither a savepoint nor a retained checkpoint: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoints::tests::metadata;
    use crate::objects::{FileObjects, PutNew, StoreFuture};
    use crate::savepoints::SavepointFolder;
    use model::{ExecutionAttemptId, JobVertexId, OperatorId, OperatorSubtaskState};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn reader(directory: Option<&CheckpointDirectory>) -> StateReader {
        StateReader::new(directory.cloned(), Platform::production(), S3Settings::default())
    }

    fn directory(path: &std::path::Path) -> CheckpointDirectory {
        CheckpointDirectory::new(Arc::new(FileObjects::open(path).unwrap()))
    }

    /// A checkpoint of one subtask whose state is an object.
    async fn checkpoint(directory: &CheckpointDirectory) -> CheckpointMetadata {
        let (job, operator) = (JobId(7), OperatorId(9));
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
        let put = directory.put_state(job, 5, attempt, operator, Bytes::from_static(b"state"));
        let metadata = metadata(5, 1, vec![put.await.unwrap()]);
        directory.put_metadata(&metadata).await.unwrap();
        metadata
    }

    fn state(metadata: &CheckpointMetadata) -> &StateHandle {
        let saved = metadata.operators.values().next().unwrap();
        saved.subtasks[0].state.as_ref().unwrap()
    }

    #[tokio::test]
    async fn savepoints_and_retained_checkpoints_are_read_wherever_they_are_moved() {
        let home = tempfile::tempdir().unwrap();
        let checkpoints = directory(&home.path().join("checkpoints"));
        let metadata = checkpoint(&checkpoints).await;
        let savepoints: Arc<dyn ObjectStore> =
            Arc::new(FileObjects::open(home.path().join("savepoints")).unwrap());
        let folder = SavepointFolder::new(savepoints, "savepoint-1");
        let within = std::time::Duration::from_secs(600);
        folder.write(&reader(Some(&checkpoints)), &metadata, within).await.unwrap();
        let moved = home.path().join("moved");
        std::fs::rename(home.path().join("savepoints/savepoint-1"), &moved).unwrap();
        let retained = home.path().join(format!("checkpoints/{}/chk-5", metadata.job_id));
        for place in [&moved, &moved.join("_metadata"), &retained, &retained.join("_metadata")] {
            let snapshot = reader(None).snapshot(place.to_str().unwrap()).await.unwrap();
            assert!(matches!(state(&snapshot.metadata), StateHandle::External { .. }));
            let read = reader(None).read(state(&snapshot.metadata)).await.unwrap();
            assert_eq!(read, "state", "{}", place.display());
        }
        let snapshot = reader(None).snapshot(moved.to_str().unwrap()).await.unwrap();
        std::fs::write(moved.join("mine"), "").unwrap();
        reader(None).delete(&snapshot).await.unwrap();
        let left: Vec<_> =
            std::fs::read_dir(&moved).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["mine"]);
    }

    #[tokio::test]
    async fn a_checkpoint_takes_over_what_it_needs_of_a_savepoint() {
        let home = tempfile::tempdir().unwrap();
        let old = directory(&home.path().join("old"));
        let metadata = checkpoint(&old).await;
        let retained = home.path().join(format!("old/{}/chk-5", metadata.job_id));
        let new = directory(&home.path().join("new"));
        let reader = reader(Some(&new));
        let mut own = reader.snapshot(retained.to_str().unwrap()).await.unwrap().metadata;
        (own.job_id, own.checkpoint) = (JobId(8), 6);
        let mut inline = own.clone();
        reader.adopt(&mut own, true).await.unwrap();
        reader.adopt(&mut inline, false).await.unwrap();
        std::fs::remove_dir_all(home.path().join("old")).unwrap();
        let name = state(&own).object().unwrap();
        assert!(name.starts_with(&format!("{}/chk-6/", JobId(8))), "{name}");
        assert_eq!(reader.read(state(&own)).await.unwrap(), "state");
        assert_eq!(*state(&inline), StateHandle::Inline(b"state".to_vec()));
    }

    /// A part of 200 chunks goes with its index into a savepoint and from there into a checkpoint; inline, it is the state alone.
    #[tokio::test]
    async fn a_part_keeps_its_index_in_copies_and_is_state_alone_where_it_is_read_whole() {
        let home = tempfile::tempdir().unwrap();
        let old = directory(&home.path().join("old"));
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
        let mut writer = old.begin_part(JobId(7), 5, attempt, (OperatorId(9), 0), 0);
        let (mut chunks, mut whole) = (ranges::Ranges::default(), Vec::new());
        for group in 0..200_u8 {
            let chunk = Bytes::from(vec![group; 50]);
            chunks.add((group.into(), group.into()), &chunk);
            whole.extend_from_slice(&chunk);
            writer.write(chunk).await.unwrap();
        }
        let (index, bytes) = chunks.index().unwrap();
        let stored = writer.finish(bytes).await.unwrap();
        assert_eq!(stored.bytes(), 10_000);
        let part = model::StatePart {
            groups: vec![(0, 199)],
            state: stored,
            ranges: chunks.take(),
            index: Some(index),
        };
        let taken = metadata(5, 1, vec![StateHandle::Parts(vec![part])]);
        let savepoints: Arc<dyn ObjectStore> =
            Arc::new(FileObjects::open(home.path().join("savepoints")).unwrap());
        let within = std::time::Duration::from_secs(600);
        let folder = SavepointFolder::new(savepoints, "savepoint-1");
        folder.write(&reader(Some(&old)), &taken, within).await.unwrap();
        let savepoint = home.path().join("savepoints/savepoint-1");
        let new = directory(&home.path().join("new"));
        let reader = reader(Some(&new));
        let saved = reader.snapshot(savepoint.to_str().unwrap()).await.unwrap().metadata;
        let (mut own, mut inline) = (saved.clone(), saved.clone());
        (own.job_id, own.checkpoint) = (JobId(8), 6);
        reader.adopt(&mut own, true).await.unwrap();
        reader.adopt(&mut inline, false).await.unwrap();
        for (metadata, is_inline) in [(&saved, false), (&own, false), (&inline, true)] {
            let StateHandle::Parts(parts) = state(metadata) else { panic!("no parts") };
            assert_eq!(reader.read(&parts[0].state).await.unwrap(), whole, "{parts:?}");
            assert_eq!(metadata.state_bytes(), 10_000);
            let needed = parts[0].needed(&(77..79)).unwrap();
            let expected = if is_inline { &whole[..] } else { &whole[77 * 50..79 * 50] };
            assert_eq!(reader.read(&needed).await.unwrap(), expected, "{needed:?}");
        }
    }

    /// Stores an object of checkpoint `number`, whose content is its number.
    async fn object(directory: &CheckpointDirectory, number: u64) -> StateHandle {
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 0, attempt: 0 };
        let bytes = Bytes::from(number.to_string());
        directory.put_state(JobId(7), number, attempt, OperatorId(9), bytes).await.unwrap()
    }

    /// Stores the metadata of an incremental checkpoint with these parts, and returns its folder.
    async fn incremental(
        home: &std::path::Path,
        number: u64,
        parts: &[&StateHandle],
    ) -> std::path::PathBuf {
        let part =
            |state: &&StateHandle| model::StatePart::whole(Vec::new(), StateHandle::clone(state));
        let parts = StateHandle::Parts(parts.iter().map(part).collect());
        directory(home).put_metadata(&metadata(number, 1, vec![parts])).await.unwrap();
        home.join(format!("{}/chk-{number}", JobId(7)))
    }

    async fn dispose(folder: &std::path::Path) {
        let snapshot = reader(None).snapshot(folder.to_str().unwrap()).await.unwrap();
        reader(None).delete(&snapshot).await.unwrap();
    }

    #[tokio::test]
    async fn of_a_checkpoint_only_what_no_other_one_refers_to_is_deleted() {
        let home = tempfile::tempdir().unwrap();
        let directory = directory(home.path());
        let mut metadata = checkpoint(&directory).await;
        let own = state(&metadata).clone();
        // The second subtask had finished before checkpoint 4.
        let attempt =
            ExecutionAttemptId { graph: 1, vertex: JobVertexId(1), subtask: 1, attempt: 0 };
        let put =
            directory.put_state(JobId(7), 4, attempt, OperatorId(9), Bytes::from_static(b"old"));
        let older = put.await.unwrap();
        let four = crate::checkpoints::tests::metadata(4, 1, vec![older.clone()]);
        directory.put_metadata(&four).await.unwrap();
        let saved = metadata.operators.values_mut().next().unwrap();
        saved.subtasks.push(OperatorSubtaskState { ended: true, state: Some(older.clone()) });
        (metadata.checkpoint, metadata.graph) = (5, 2);
        let retained = home.path().join(format!("{}/chk-5", metadata.job_id));
        std::fs::remove_file(retained.join(format!("_metadata-{:016x}", 1))).unwrap();
        directory.put_metadata(&metadata).await.unwrap();
        let reader = reader(None);
        let snapshot = reader.snapshot(retained.to_str().unwrap()).await.unwrap();
        assert_eq!(snapshot.checkpoint_of, Some(JobId(7)));
        reader.delete(&snapshot).await.unwrap();
        assert!(directory.read(&own).await.is_err());
        assert_eq!(directory.read(&older).await.unwrap(), "old");
        dispose(&retained.with_file_name("chk-4")).await;
        assert!(directory.read(&older).await.is_err());
        assert!(!retained.parent().unwrap().exists());
    }

    #[test]
    fn objects_are_unshared_if_no_other_checkpoint_refers_to_them_and_all_others_are_known() {
        let objects =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let other = |folder: &str, names: &[&str]| Other {
            folder: folder.to_owned(),
            objects: Some(objects(names)),
        };
        let own = || objects(&["chk-5/a", "chk-5/b", "chk-7/a"]);
        let mut others = vec![other("chk-8", &["chk-5/a", "chk-8/a"]), other("chk-10", &[])];
        assert_eq!(unshared(own(), &[]), Ok(own()));
        assert_eq!(unshared(own(), &others), Ok(objects(&["chk-5/b", "chk-7/a"])));
        others.push(Other { folder: "chk-11".to_owned(), objects: None });
        assert_eq!(unshared(own(), &others), Err("chk-11"));
    }

    #[tokio::test]
    async fn files_of_older_checkpoints_go_with_the_last_retained_checkpoint_that_refers_to_them() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let chk = directory(home);
        let (five, seven) = (object(&chk, 5).await, object(&chk, 7).await);
        let eight = incremental(home, 8, &[&five, &object(&chk, 8).await]).await;
        let nine = incremental(home, 9, &[&five, &seven, &object(&chk, 9).await]).await;
        // Neither another job's files nor what a user has put into an older folder is touched.
        let stranger = home.join(format!("{}/chk-5/9-0-0000000000000001.0", JobId(8)));
        std::fs::create_dir_all(stranger.parent().unwrap()).unwrap();
        std::fs::write(&stranger, "another job's").unwrap();
        let of = |number: u64| nine.with_file_name(format!("chk-{number}"));
        dispose(&nine).await;
        assert!(!nine.exists() && !of(7).exists(), "nothing needs them");
        let snapshot = reader(None).snapshot(eight.to_str().unwrap()).await.unwrap();
        let mut read = Vec::new();
        for handle in snapshot.metadata.handles() {
            read.extend(reader(None).read(handle).await.unwrap());
        }
        assert_eq!(read, b"58", "the older one is whole");
        std::fs::write(of(5).join("mine"), "a user's").unwrap();
        dispose(&eight).await;
        assert!(!eight.exists() && chk.read(&five).await.is_err());
        assert!(of(5).join("mine").exists() && stranger.exists());
    }

    #[tokio::test]
    async fn a_deletion_of_files_of_older_checkpoints_that_was_interrupted_is_completed_later() {
        for deletes in 0..3 {
            let home = tempfile::tempdir().unwrap();
            let home = home.path();
            let chk = directory(home);
            let parts = [object(&chk, 5).await, object(&chk, 7).await, object(&chk, 9).await];
            let nine = incremental(home, 9, &parts.each_ref()).await;
            let uri = nine.to_str().unwrap();
            let of_job = nine.parent().unwrap();
            let inner: Arc<dyn ObjectStore> = Arc::new(FileObjects::open(of_job).unwrap());
            let dying = Arc::new(Dying { inner, deletes: deletes.into() });
            let interrupted = reader(None);
            let opened = (of_job.to_str().unwrap().to_owned(), dying as Arc<dyn ObjectStore>);
            interrupted.opened.lock().unwrap().extend([opened]);
            let snapshot = interrupted.snapshot(uri).await.unwrap();
            let outcome = interrupted.delete(&snapshot).await;
            assert_eq!(outcome.is_ok(), deletes == 2, "two objects in older folders");
            if deletes < 2 {
                dispose(&nine).await;
            }
            assert!(!of_job.exists(), "after {deletes} deletions");
        }
    }

    #[tokio::test]
    async fn files_of_older_checkpoints_stay_beside_metadata_that_cannot_be_read() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let chk = directory(home);
        let (five, nine) = (object(&chk, 5).await, object(&chk, 9).await);
        let eight = incremental(home, 8, &[&five]).await;
        let folder = incremental(home, 9, &[&five, &nine]).await;
        let file = eight.join(format!("_metadata-{:016x}", 1));
        std::fs::write(&file, "nonsense").unwrap();
        dispose(&folder).await;
        assert!(!folder.exists() && file.exists());
        assert_eq!(chk.read(&five).await.unwrap(), "5", "checkpoint 8 may need it");
        // A copy of metadata under another name can be restored from, so that it counts.
        std::fs::remove_file(&file).unwrap();
        directory(home).put_metadata(&metadata(8, 1, vec![five.clone()])).await.unwrap();
        std::fs::rename(&file, eight.join("_metadata.bak")).unwrap();
        let folder = incremental(home, 9, &[&five]).await;
        dispose(&folder).await;
        assert_eq!(chk.read(&five).await.unwrap(), "5", "the copy needs it");
        // A listing does not look into a folder that is somewhere else.
        std::fs::remove_dir_all(&eight).unwrap();
        std::os::unix::fs::symlink(home, &eight).unwrap();
        let folder = incremental(home, 9, &[&five]).await;
        dispose(&folder).await;
        assert_eq!(chk.read(&five).await.unwrap(), "5");
    }

    #[tokio::test]
    async fn the_checkpoints_that_build_on_another_are_named_and_damaged_ones_are_left_out() {
        let home = tempfile::tempdir().unwrap();
        let directory = directory(home.path());
        let five = checkpoint(&directory).await;
        let others = [
            (6, vec![state(&five).clone()]),
            (
                7,
                vec![StateHandle::Parts(vec![model::StatePart::whole(
                    Vec::new(),
                    state(&five).clone(),
                )])],
            ),
            (8, vec![StateHandle::Inline(vec![1])]),
            (9, vec![state(&five).clone()]),
        ];
        let of_job = home.path().join(five.job_id.to_string());
        for (number, states) in others {
            let metadata = crate::checkpoints::tests::metadata(number, 1, states);
            directory.put_metadata(&metadata).await.unwrap();
        }
        std::fs::write(of_job.join(format!("chk-9/_metadata-{:016x}", 1)), "nonsense").unwrap();
        let folder = |number: u64| of_job.join(format!("chk-{number}")).display().to_string();
        let reader = reader(None);
        let dependents =
            async |n| reader.dependents(&reader.snapshot(&folder(n)).await.unwrap()).await.unwrap();
        assert_eq!(dependents(5).await, [folder(6), folder(7)]);
        for newer in [6, 7, 8] {
            assert!(dependents(newer).await.is_empty(), "nothing is deleted that {newer} has not");
        }
    }

    /// A store whose calls of `delete` fail but for the first ones, as if the process had ended after them.
    #[derive(Debug)]
    struct Dying {
        inner: Arc<dyn ObjectStore>,
        deletes: AtomicUsize,
    }

    impl ObjectStore for Dying {
        fn get(&self, name: &str) -> StoreFuture<Option<Bytes>> {
            self.inner.get(name)
        }
        fn put_new(&self, name: &str, bytes: Bytes) -> StoreFuture<PutNew> {
            self.inner.put_new(name, bytes)
        }
        fn put(&self, name: &str, bytes: Bytes) -> StoreFuture<()> {
            self.inner.put(name, bytes)
        }
        fn delete(&self, name: &str) -> StoreFuture<bool> {
            let less = |left: usize| left.checked_sub(1);
            match self.deletes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
                Ok(_) => self.inner.delete(name),
                Err(_) => {
                    let path = name.to_owned();
                    Box::pin(async { Err(StoreError::DiskFull { path }) })
                }
            }
        }
        fn list(&self, prefix: &str) -> StoreFuture<Vec<String>> {
            self.inner.list(prefix)
        }
        fn location(&self) -> String {
            self.inner.location()
        }
    }

    #[tokio::test]
    async fn a_deletion_that_a_crash_has_interrupted_is_completed_later() {
        for deletes in 0..3 {
            let home = tempfile::tempdir().unwrap();
            let directory = directory(&home.path().join("checkpoints"));
            let metadata = checkpoint(&directory).await;
            let objects = Arc::new(FileObjects::open(home.path()).unwrap());
            let within = std::time::Duration::from_secs(600);
            let savepoint = SavepointFolder::new(objects, "savepoint-1");
            savepoint.write(&reader(Some(&directory)), &metadata, within).await.unwrap();
            let folder = home.path().join("savepoint-1");
            let uri = folder.to_str().unwrap();
            let snapshot = reader(None).snapshot(uri).await.unwrap();
            let interrupted = reader(None);
            let inner: Arc<dyn ObjectStore> = Arc::new(FileObjects::open(&folder).unwrap());
            let dying = Arc::new(Dying { inner, deletes: deletes.into() });
            interrupted.opened.lock().unwrap().insert(uri.to_owned(), dying);
            let outcome = interrupted.delete(&snapshot).await;
            assert_eq!(outcome.is_ok(), deletes == 2, "an object and the metadata");
            // The next JobMaster knows the URI alone.
            match reader(None).snapshot(uri).await {
                Ok(again) => reader(None).delete(&again).await.unwrap(),
                Err(error) => assert!(deletes == 2, "{error}"),
            }
            assert!(!folder.exists(), "after {deletes} deletions");
        }
    }

    #[tokio::test]
    async fn metadata_that_refers_to_files_outside_of_the_snapshot_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        std::fs::write(&victim, "").unwrap();
        let (bytes, victim) = (5, victim.display().to_string());
        let outside = [
            StateHandle::Object { name: "other/victim".to_owned(), bytes },
            StateHandle::Object { name: "a/../../victim".to_owned(), bytes },
            StateHandle::Object { name: victim.clone(), bytes },
            StateHandle::External { uri: victim, bytes },
        ];
        let mut metadata = checkpoint(&directory(&home.path().join("old"))).await;
        for handle in outside {
            for saved in metadata.operators.values_mut() {
                saved.subtasks[0].state = Some(handle.clone());
            }
            let folder = home.path().join("forged");
            let store = FileObjects::open(&folder).unwrap();
            let forged = crate::checkpoints::encode(&metadata).unwrap();
            store.put("_metadata", forged).await.unwrap();
            let error = reader(None).snapshot(folder.to_str().unwrap()).await.unwrap_err();
            assert!(error.to_string().contains("is not part of it"), "{handle:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_checkpoint_is_one_however_its_path_is_spelled_and_a_savepoint_is_none() {
        let home = tempfile::tempdir().unwrap();
        let directory = directory(&home.path().join("chk"));
        let metadata = checkpoint(&directory).await;
        let (job, home) = (metadata.job_id, home.path().display().to_string());
        std::os::unix::fs::symlink(format!("{home}/chk/{job}/chk-5"), format!("{home}/link"))
            .unwrap();
        for path in [
            format!("{home}/chk/{job}//chk-5"),
            format!("{home}/chk/{job}/./chk-5/."),
            format!("{home}/chk/{job}/../{job}/chk-5"),
            format!("file://{home}/chk/{job}//chk-5/"),
            format!("{home}/link"),
        ] {
            let snapshot = reader(None).snapshot(&path).await.unwrap();
            assert_eq!(snapshot.checkpoint_of, Some(job), "{path}");
            assert_eq!(reader(None).read(state(&snapshot.metadata)).await.unwrap(), "state");
        }
        // Without objects, the name of the metadata says it, in a copy of the folder too.
        let inline = crate::checkpoints::tests::metadata(6, 1, vec![StateHandle::Inline(vec![1])]);
        directory.put_metadata(&inline).await.unwrap();
        std::fs::rename(format!("{home}/chk/{job}/chk-6"), format!("{home}/moved")).unwrap();
        let moved = reader(None).snapshot(&format!("{home}/moved")).await.unwrap();
        assert_eq!(moved.checkpoint_of, Some(job));
        for (name, metadata) in [("savepoint-1", &metadata), ("savepoint-2", &inline)] {
            let store = Arc::new(FileObjects::open(&home).unwrap());
            let within = std::time::Duration::from_secs(600);
            let folder = SavepointFolder::new(store, name);
            folder.write(&reader(Some(&directory)), metadata, within).await.unwrap();
            let savepoint = reader(None).snapshot(&format!("{home}/{name}")).await.unwrap();
            assert_eq!(savepoint.checkpoint_of, None, "{name}");
        }
    }

    #[tokio::test]
    async fn a_savepoint_that_is_named_by_a_link_is_deleted_with_its_folder() {
        let home = tempfile::tempdir().unwrap();
        let checkpoints = directory(&home.path().join("checkpoints"));
        let metadata = checkpoint(&checkpoints).await;
        let store = Arc::new(FileObjects::open(home.path()).unwrap());
        let within = std::time::Duration::from_secs(600);
        let savepoint = SavepointFolder::new(store, "savepoint-1");
        savepoint.write(&reader(Some(&checkpoints)), &metadata, within).await.unwrap();
        let (folder, link) = (home.path().join("savepoint-1"), home.path().join("link"));
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let snapshot = reader(None).snapshot(link.to_str().unwrap()).await.unwrap();
        reader(None).delete(&snapshot).await.unwrap();
        assert!(!folder.exists());
        assert!(link.is_symlink(), "the link is its user's");
    }

    #[tokio::test]
    async fn the_last_checkpoint_of_a_job_is_deleted_with_the_folder_of_the_job() {
        let home = tempfile::tempdir().unwrap();
        let directory = directory(home.path());
        let first = checkpoint(&directory).await;
        let job = home.path().join(first.job_id.to_string());
        let second = crate::checkpoints::tests::metadata(6, 1, vec![]);
        directory.put_metadata(&second).await.unwrap();
        for (number, others) in [(5, true), (6, false)] {
            let folder = job.join(format!("chk-{number}/_metadata-{:016x}", 1));
            let snapshot = reader(None).snapshot(folder.to_str().unwrap()).await.unwrap();
            assert_eq!(snapshot.checkpoint_of, Some(first.job_id));
            reader(None).delete(&snapshot).await.unwrap();
            assert!(!folder.parent().unwrap().exists());
            assert_eq!(job.exists(), others, "after checkpoint {number}");
        }
        assert!(home.path().is_dir());
        // In another place, the folder above is not the job's.
        directory.put_metadata(&second).await.unwrap();
        let moved = home.path().join("mine/moved");
        std::fs::create_dir(home.path().join("mine")).unwrap();
        std::fs::rename(job.join("chk-6"), &moved).unwrap();
        let snapshot = reader(None).snapshot(moved.to_str().unwrap()).await.unwrap();
        assert_eq!(snapshot.checkpoint_of, Some(first.job_id));
        reader(None).delete(&snapshot).await.unwrap();
        assert!(!moved.exists() && home.path().join("mine").is_dir());
    }

    #[tokio::test]
    async fn a_path_of_a_file_that_is_no_metadata_says_so_and_what_is_wanted() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("report.txt");
        std::fs::write(&file, "text").unwrap();
        let error = reader(None).snapshot(file.to_str().unwrap()).await.unwrap_err().to_string();
        for part in [file.to_str().unwrap(), "it is a file", "name the folder", "_metadata"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(!error.contains("no such folder"), "{error}");
    }

    /// A JobMaster and its predecessor may both have stored metadata of one number.
    #[tokio::test]
    async fn of_two_metadata_files_in_a_folder_one_has_to_be_named() {
        let home = tempfile::tempdir().unwrap();
        let directory = directory(home.path());
        let files = [1, 2].map(|graph| format!("_metadata-{graph:016x}"));
        for graph in [1, 2] {
            directory.put_metadata(&metadata(5, graph, vec![])).await.unwrap();
        }
        let folder = home.path().join(format!("{}/chk-5", JobId(7)));
        let at = |file: &str| folder.join(file).display().to_string();
        for (path, has) in
            [(folder.display().to_string(), "it has"), (at("_metadata"), "its folder has")]
        {
            let error = reader(None).snapshot(&path).await.unwrap_err().to_string();
            for part in [path.as_str(), has, &files[0], &files[1], "name one of them"] {
                assert!(error.contains(part), "{part}: {error}");
            }
        }
        for (n, file) in files.iter().enumerate() {
            let snapshot = reader(None).snapshot(&at(file)).await.unwrap();
            assert_eq!(snapshot.metadata.graph, n as u64 + 1);
        }
        // What is named and there is read, whatever else the folder has.
        directory.put_metadata(&metadata(5, 0, vec![])).await.unwrap();
        let snapshot = reader(None).snapshot(&at("_metadata")).await.unwrap();
        assert_eq!(snapshot.metadata.graph, 0);
        std::fs::remove_file(at("_metadata")).unwrap();
        std::fs::rename(at(&files[0]), at("_metadata.bak")).unwrap();
        let snapshot = reader(None).snapshot(&at("_metadata")).await.unwrap();
        assert_eq!(snapshot.metadata.graph, 2);
    }

    #[tokio::test]
    async fn a_path_without_a_snapshot_is_named_and_nothing_is_created() {
        let home = tempfile::tempdir().unwrap();
        let absent = home.path().join("absent");
        for (path, why) in [
            (absent.clone(), "there is no such folder"),
            (home.path().to_owned(), "it has no _metadata"),
            (home.path().join("_metadata"), "it has no metadata"),
        ] {
            let error = reader(None).snapshot(path.to_str().unwrap()).await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(why) && text.contains(path.to_str().unwrap()), "{text}");
        }
        assert!(!absent.exists());
        std::fs::write(home.path().join("_metadata"), "nonsense").unwrap();
        assert!(reader(None).snapshot(home.path().to_str().unwrap()).await.is_err());
    }
}
