//! A checkpoint directory: objects with state, and one object with the metadata of each checkpoint.
//!
//! Names are `<job id>/chk-<number>/…`. The metadata of a checkpoint is `_metadata-<graph>`, a state is
//! `<operator>-<subtask>-<graph>.<attempt>`, with `.<number>` at the end if it is stored in parts; `<graph>` is the id of the
//! JobMaster's execution graph in 16 hexadecimal digits. The content of metadata is the magic `FCK1`, then a
//! [`CheckpointMetadata`] in MessagePack with named fields. The object store checks that an object is whole. This module
//! must never delete anything that it was not told to delete.
//!
//! # A superseded JobMaster deletes nothing that its successor needs
//!
//! A call to a slow store may take effect at any later time, when its JobMaster A has been superseded by B long ago. Two rules make
//! that harmless:
//!
//! 1. *A name belongs to one JobMaster.* Every name contains the id of an execution graph, so nothing that A writes or deletes by
//!    name is an object that B has written. Nor do the two ever give one number to a checkpoint.
//! 2. *A listing is read with a bound.* [`CheckpointDirectory::delete_below`] deletes objects whose number is below that of a
//!    checkpoint `n` whose pointer is in the job's log, except those that `n` and other kept checkpoints refer to. B restores `n`
//!    or a newer checkpoint, or an older one that is still kept, and begins only checkpoints with higher numbers than the newest.
//!    An object of a lower number is in a checkpoint of B only if every complete checkpoint in between refers to it, as that of a
//!    subtask which has finished. `n` then refers to it, so it is spared.
//!
//! Files that checkpoints of earlier JobMasters left under numbers above `n` stay until a newer checkpoint is complete.
//! [`CheckpointDirectory::delete_others`] has no bound: it is for a job whose end is recorded in its log.

mod part;
pub(crate) mod ranges;

pub use {part::PartWriter, ranges::Ranges};

use crate::objects::{ObjectStore, PieceWriter, PutNew, StoreError};
use bytes::Bytes;
use model::{CheckpointMetadata, ExecutionAttemptId, JobId, OperatorId, StateHandle};
use part::{STORED_WITHIN, in_time};
use platform::messagepack;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use thiserror::Error;
use tokio::time::timeout;

const MAGIC: &[u8; 4] = b"FCK1";
/// The beginning of names in the store of job logs.
const BESIDE_LOGS: &str = "checkpoints/";
/// The beginning of the last segment of a name of metadata; a savepoint's has no more.
pub(crate) const METADATA: &str = "_metadata";
/// The last part of the name of the object that marks the directory.
const SHARED: &str = "_shared";
/// Maximum nesting depth of the metadata, so that damaged bytes cannot exhaust the stack.
const DEPTH_MAX: usize = 64;
/// The reason why a checkpoint or savepoint, or the state in it, could not be stored, copied or read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// The object store failed, with its own error; or a call of [`CheckpointDirectory::put_state`] or [`PartWriter`] took longer than 30 s
    /// and a second for each 4 MiB, which is a [`StoreError::Unreachable`] made here. (A store in S3 or HDFS itself gives up after 30 s,
    /// however much is written.)
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object of this place (store and name) has other content than the metadata to be stored, and was not replaced. Only
    /// [`CheckpointDirectory::put_metadata`] reports it. The names of two JobMasters differ, so this is a fault of the runtime.
    #[error("{0} exists already with other content")]
    NameTaken(String),
    /// The object at this place (store and name) or URI, or the local folder that it should be in, does not exist. It is metadata, or
    /// state to which a checkpoint refers. [`CheckpointDirectory::read`] also reports this for every URI, whether its object exists or
    /// not, and [`CheckpointDirectory::check_objects`] for a name that is not in the given listing.
    #[error(
        "{0} does not exist: it was deleted, or the directory is not the same one on all machines (execution.checkpointing.dir, or where \
         that is not set, high-availability.storageDir)"
    )]
    Missing(String),
    /// The job has no checkpoint directory, neither its own (`execution.checkpointing.dir`) nor the cluster's. Either the state in this
    /// object, whose name is relative to the directory, has to be read, and the job can't be restored; or the state at this URI, in the
    /// snapshot that the job was started from, is too large for the metadata of a new checkpoint (5 MiB per state), which then fails.
    #[error(
        "state is in the object {0}, and the job has no checkpoint directory to read it from or copy it to: set execution.checkpointing.dir, \
         and execution.checkpointing.storage to filesystem"
    )]
    NoDirectory(String),
    /// A savepoint was not copied within this time (the checkpoint time-out). Only
    /// [`SavepointFolder::write`](crate::savepoints::SavepointFolder::write) reports it. The savepoint may be complete if only the answer
    /// to its last write is missing.
    #[error("its files are not copied within {0:?} (execution.checkpointing.timeout)")]
    Late(Duration),
    /// The handle to be read is [`StateHandle::Parts`]: the state is in several objects, each of which has to be read by itself. It is a
    /// fault of the caller, reported by [`CheckpointDirectory::read`] and [`StateReader::read`](crate::state_reader::StateReader::read).
    #[error("a state is in parts where it can't be")]
    IsInParts,
    /// The given path is that of no savepoint and of no retained checkpoint: there is no such folder, or it has no metadata or several;
    /// the text names the path and the reason. Only [`StateReader::snapshot`](crate::state_reader::StateReader::snapshot) reports it.
    #[error("{0}")]
    NoSnapshot(String),
    /// The metadata cannot be encoded (reported before anything of it is written); or metadata that was read cannot be decoded; or it
    /// refers to objects outside of its snapshot, which only [`StateReader::snapshot`](crate::state_reader::StateReader::snapshot) checks.
    #[error("{name} is not a checkpoint of a version that this program knows: {why}")]
    Metadata {
        /// Place of the object: its store and name, or its URI.
        name: String,
        /// Description of the fault in the object.
        why: String,
    },
}

impl CheckpointError {
    /// Returns true for `Missing`, `Metadata` and [`StoreError::Corrupt`]: an object is missing, damaged or not decodable by the store's
    /// own answer, so trying again is useless, and the job has to restore another checkpoint. False for all other errors, such as a store
    /// that does not answer or refuses access: the state may still be there.
    pub fn is_lost(&self) -> bool {
        use StoreError::Corrupt;
        matches!(self, Self::Missing(_) | Self::Metadata { .. } | Self::Store(Corrupt { .. }))
    }

    /// Returns true for [`StoreError::Unreachable`] and [`StoreError::Io`], after which callers repeat the call: the store did not answer,
    /// or failed for an unknown reason. A write that failed so may have been done all the same. False for all other errors, also for a full
    /// disk and for `Late`.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

/// The directory (in an object store) in which a JobMaster and its job's program hosts (the processes that run tasks) store checkpoints:
/// objects with state, and one object with metadata for each checkpoint. Names of objects are relative to the directory and begin with the
/// job's id. The value holds only the store and the directory's name in it; clones share the store.
#[derive(Clone, derive_more::Debug)]
#[debug("CheckpointDirectory({}/{})", self.objects.location(), self.prefix)]
pub struct CheckpointDirectory {
    objects: Arc<dyn ObjectStore>,
    /// The beginning of every name in the store.
    prefix: String,
    /// True once the directory was marked by this value or a clone of it.
    is_marked: Arc<AtomicBool>,
}

impl CheckpointDirectory {
    /// Returns the directory `execution.checkpointing.dir`, from which `objects` was opened. Writes nothing.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self::below_prefix(objects, String::new())
    }

    /// Returns the folder `checkpoints/` in the object store of job logs as a checkpoint directory: for the metadata of a job without
    /// a configured directory, whose state is inline in it. Writes nothing.
    pub fn beside_logs(objects: Arc<dyn ObjectStore>) -> Self {
        Self::below_prefix(objects, BESIDE_LOGS.to_owned())
    }

    /// Returns the folder of this name in a store.
    pub(crate) fn below(objects: Arc<dyn ObjectStore>, folder: &str) -> Self {
        Self::below_prefix(objects, format!("{folder}/"))
    }

    fn below_prefix(objects: Arc<dyn ObjectStore>, prefix: String) -> Self {
        Self { objects, prefix, is_marked: Arc::default() }
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

    /// Writes the job's mark, the empty object `<job>/_shared`, into the directory, and returns true; returns false, and writes nothing, if
    /// the mark is there, so that a JobMaster can take a job over while the disk is full. The Dispatcher calls this when a job is
    /// submitted, and a JobMaster before its job starts, if the directory is configured; TaskManagers' program hosts look for the mark by
    /// [`Self::is_shared`], to see that the path means the JobMaster's directory on their machine too. The mark stays until
    /// [`Self::delete_others`]; if it is lost before, [`Self::put_metadata`] writes it again. Nobody waits until a disk has the mark,
    /// which would delay every start of a job (only its folder, if that is new): a machine that stops may lose or damage the mark, and the
    /// next JobMaster writes it again.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn mark_shared(&self, job: JobId) -> Result<bool, CheckpointError> {
        let is_new = match self.is_shared(job).await {
            // A machine that stopped may have left it damaged.
            Err(CheckpointError::Store(StoreError::Corrupt { .. })) => true,
            is_there => !is_there?,
        };
        if is_new {
            self.objects.mark(&self.full(&format!("{job}/{SHARED}"))).await?;
        }
        self.is_marked.store(true, Ordering::Relaxed);
        Ok(is_new)
    }

    /// Deletes the job's mark ([`Self::mark_shared`]), and the job's folder if it is empty then. For a job that was refused: a job that
    /// runs needs its mark. It is no error if there is none.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn unmark(&self, job: JobId) -> Result<(), CheckpointError> {
        self.objects.delete(&self.full(&format!("{job}/{SHARED}"))).await?;
        Ok(())
    }

    /// Returns true if this directory has the job's mark, which the Dispatcher or the job's JobMaster wrote by [`Self::mark_shared`]. False
    /// means to a program host that the path is another directory on its machine: it runs no task of the job then.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn is_shared(&self, job: JobId) -> Result<bool, CheckpointError> {
        Ok(self.objects.get(&self.full(&format!("{job}/{SHARED}"))).await?.is_some())
    }

    /// Stores the state that an operator of one execution attempt has in a checkpoint, as one object, and returns its handle
    /// ([`StateHandle::Object`]) once the object is durable. The object's name is made of job, checkpoint, attempt and operator, so no
    /// other attempt uses it; a repeated call replaces the object. Program hosts call this for state that was not uploaded in parts, if it
    /// is too large to be inline or has only the changes since an earlier checkpoint. No checkpoint refers to the object before its
    /// metadata is stored.
    ///
    /// # Errors
    /// Returns the store's error; [`StoreError::Unreachable`] if it takes longer than 30 s and one more second per 4 MiB: the object may be
    /// stored all the same.
    pub async fn put_state(
        &self,
        job: JobId,
        checkpoint: u64,
        attempt: ExecutionAttemptId,
        operator: OperatorId,
        state: Bytes,
    ) -> Result<StateHandle, CheckpointError> {
        self.put_object(state_name(job, checkpoint, attempt, operator), state).await
    }

    /// Begins one part, an object, of the state that an operator of one execution attempt has in a checkpoint, and returns its writer;
    /// nothing is written yet. `part` is the part's number, which no other part of the state may have. `expected` is roughly
    /// the part's length in bytes: so much memory is reserved at once if the store takes only whole objects.
    pub fn begin_part(
        &self,
        job: JobId,
        checkpoint: u64,
        attempt: ExecutionAttemptId,
        (operator, part): (OperatorId, u32),
        expected: usize,
    ) -> PartWriter {
        let name = format!("{}.{part}", state_name(job, checkpoint, attempt, operator));
        let writer = PieceWriter::begin(&self.objects, self.full(&name), expected);
        PartWriter { writer, shown: self.shown(&name), name }
    }

    async fn put_object(&self, name: String, state: Bytes) -> Result<StateHandle, CheckpointError> {
        let bytes = state.len() as u64;
        let put = self.objects.put(&self.full(&name), state);
        in_time(bytes, &self.shown(&name), put).await?;
        Ok(StateHandle::Object { name, bytes })
    }

    /// Deletes the parts with the numbers 0 to `parts` (exclusive) that were begun by [`Self::begin_part`] with the same arguments; parts
    /// that do not exist are skipped. A program host calls this when the upload failed or was given up: no checkpoint will refer to them.
    /// Best effort within 30 s, without an error: failures are logged at debug level, and what stays is deleted once a newer checkpoint is
    /// complete.
    pub async fn delete_parts(
        &self,
        job: JobId,
        checkpoint: u64,
        attempt: ExecutionAttemptId,
        (operator, parts): (OperatorId, u32),
    ) {
        let name = state_name(job, checkpoint, attempt, operator);
        self.give_up(&(0..parts).map(|part| format!("{name}.{part}")).collect()).await;
    }

    /// Deletes the objects with these names (relative to the directory), to which no checkpoint refers or will refer. Best effort within
    /// 30 s, and never an error: failures are logged, and what stays is deleted once a newer checkpoint is complete.
    pub async fn give_up(&self, names: &BTreeSet<String>) {
        match timeout(STORED_WITHIN, self.delete(names)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(%error, "objects of a checkpoint that was given up stay for now")
            }
            Err(_) => {
                tracing::debug!(directory = ?self, "objects of a checkpoint that was given up stay for now")
            }
        }
    }

    /// Stores a checkpoint's metadata under [`CheckpointMetadata::object_name`] and returns that name. Existing metadata is never replaced;
    /// a repeated call with the same metadata succeeds. Returns once the object is durable. The JobMaster calls this before it records the
    /// checkpoint's pointer in the job's log; without that no later JobMaster restores the checkpoint by itself. Where the directory was
    /// marked ([`Self::mark_shared`]), writes a mark again that is not there any more: without it no task of the job could be restarted.
    ///
    /// # Errors
    /// Returns the store's error, [`CheckpointError::NameTaken`] if the object exists with other content, [`CheckpointError::Missing`] if
    /// an existing one is deleted meanwhile, or [`CheckpointError::Metadata`] if the metadata can't be encoded.
    pub async fn put_metadata(
        &self,
        metadata: &CheckpointMetadata,
    ) -> Result<String, CheckpointError> {
        let name = metadata.object_name();
        let bytes = encode(metadata)
            .map_err(|why| CheckpointError::Metadata { name: self.shown(&name), why })?;
        if self.objects.put_new(&self.full(&name), bytes.clone()).await? == PutNew::Exists {
            // It may be from an earlier try of this call whose answer was lost.
            match self.objects.get(&self.full(&name)).await? {
                Some(there) if there == bytes => {}
                Some(_) => return Err(CheckpointError::NameTaken(self.shown(&name))),
                // Somebody deletes in this directory at the same time.
                None => return Err(CheckpointError::Missing(self.shown(&name))),
            }
        }
        if self.is_marked.load(Ordering::Relaxed) {
            self.mark_shared(metadata.job_id).await?;
        }
        Ok(name)
    }

    /// Reads the metadata of a checkpoint from the object of this name, relative to the directory: as `put_metadata` has returned it, such
    /// as `<job>/chk-7/_metadata-<graph>`. Reads no state.
    ///
    /// # Errors
    /// Returns the store's error, [`CheckpointError::Missing`] if there is no such object, or [`CheckpointError::Metadata`] if its
    /// content can't be decoded.
    pub async fn metadata(&self, name: &str) -> Result<CheckpointMetadata, CheckpointError> {
        let bytes = self.objects.get(&self.full(name)).await?;
        let bytes = bytes.ok_or_else(|| CheckpointError::Missing(self.shown(name)))?;
        decode(&bytes).map_err(|why| CheckpointError::Metadata { name: self.shown(name), why })
    }

    /// Lists the names, relative to the directory, of all objects of a job, whichever checkpoint or JobMaster they are of. Names of objects
    /// of other kinds in the job's folder are among them. Empty for an unknown job.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn names(&self, job: JobId) -> Result<BTreeSet<String>, CheckpointError> {
        Ok(self.list(&format!("{job}/")).await?.into_iter().collect())
    }

    /// Checks that every object of this directory that a checkpoint refers to is among the names in `there` (see [`Self::names`]).
    /// Reads nothing.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Missing`] with the place of the first object, by name, that is not among them.
    pub fn check_objects(
        &self,
        metadata: &CheckpointMetadata,
        there: &BTreeSet<String>,
    ) -> Result<(), CheckpointError> {
        match metadata.objects().difference(there).next() {
            Some(name) => Err(CheckpointError::Missing(self.shown(name))),
            None => Ok(()),
        }
    }

    /// Lists the names that begin with `prefix`, relative to the directory.
    async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let own = |name: String| name.strip_prefix(&self.prefix).map(str::to_owned).unwrap_or(name);
        Ok(self.objects.list(&self.full(prefix)).await?.into_iter().map(own).collect())
    }

    /// Deletes the objects with these names (relative to the directory), one after another; it is no error if one does not exist.
    ///
    /// # Errors
    /// Returns the store's error; objects that were deleted before it stay deleted.
    pub async fn delete(&self, names: &BTreeSet<String>) -> Result<(), StoreError> {
        for name in names {
            self.objects.delete(&self.full(name)).await?;
        }
        Ok(())
    }

    /// Deletes the objects of a job's checkpoints with numbers below `checkpoint` except those in `keep`, then what is left there of writes
    /// that were cut off, and the folders that are empty then. The JobMaster calls this to remove what earlier checkpoints left. The
    /// pointer of `checkpoint` must be in the job's log, and `keep` must contain the names of all objects of complete checkpoints that may
    /// still be restored. The call is then safe even if it takes effect after another JobMaster has taken the job over (see the module).
    /// The job's mark and what is not in a folder `chk-<number>` stay.
    ///
    /// # Errors
    /// Returns the store's error; objects that were deleted before it stay deleted, and a later call deletes the rest.
    pub async fn delete_below(
        &self,
        job: JobId,
        checkpoint: u64,
        keep: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let below =
            move |name: &str| number_of(job, name).is_some_and(|number| number < checkpoint);
        let prefix = format!("{job}/chk-");
        self.delete_listed(&prefix, |name| below(name) && !keep.contains(name)).await?;
        self.sweep(&prefix, move |folder| below(&format!("{folder}/"))).await
    }

    /// Deletes all objects of a job's checkpoints except those whose names are in `keep`; also the job's mark, what is left of writes that
    /// were cut off, and folders that are empty then. Whatever else is in the job's folder stays, such as a savepoint that a user has put
    /// there. The JobMaster calls this when the job has ended. The job's end must be in its log: otherwise a later JobMaster that runs the
    /// job would lose its checkpoints.
    ///
    /// # Errors
    /// Returns the store's error; objects that were deleted before it stay deleted.
    pub async fn delete_others(
        &self,
        job: JobId,
        keep: &BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let (prefix, mark) = (format!("{job}/"), format!("{job}/{SHARED}"));
        let own = |name: &str| number_of(job, name).is_some() || name == mark;
        self.delete_listed(&prefix, |name| own(name) && !keep.contains(name)).await?;
        let home = job.to_string();
        let own =
            move |folder: &str| folder == home || number_of(job, &format!("{folder}/")).is_some();
        self.sweep(&prefix, own).await
    }

    /// Removes what interrupted writes have left in the chosen folders whose names, relative to the directory, begin with `prefix`. A
    /// writer that is still there was aborted or superseded: it may fail.
    async fn sweep(
        &self,
        prefix: &str,
        chosen: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<(), StoreError> {
        let own = self.prefix.clone();
        let chosen = Box::new(move |name: &str| name.strip_prefix(&own).is_some_and(&chosen));
        self.objects.sweep(&self.full(prefix), chosen).await
    }

    /// Deletes the objects whose names begin with `prefix` and are chosen.
    async fn delete_listed(
        &self,
        prefix: &str,
        chosen: impl Fn(&str) -> bool,
    ) -> Result<(), StoreError> {
        let names = self.list(prefix).await?.into_iter().filter(|name| chosen(name));
        self.delete(&names.collect()).await
    }
}

/// Returns the number of the checkpoint that an object of a job belongs to; `None` if its name is no such name.
fn number_of(job: JobId, name: &str) -> Option<u64> {
    let rest = name.strip_prefix(&job.to_string())?.strip_prefix("/chk-")?;
    rest.split_once('/')?.0.parse().ok()
}

/// Returns the job and the checkpoint number if `name`, in the store of job logs, is that of a checkpoint's metadata
/// (`checkpoints/<job>/chk-<number>/_metadata…`); `None` for any other name.
pub fn parse_metadata_name(name: &str) -> Option<(JobId, u64)> {
    let (job, rest) = name.strip_prefix(BESIDE_LOGS)?.split_once('/')?;
    let (number, file) = rest.strip_prefix("chk-")?.split_once('/')?;
    is_metadata(file).then_some((job.parse().ok()?, number.parse().ok()?))
}

/// Returns true for the last segment of the name of a checkpoint's metadata.
pub(crate) fn is_metadata(file: &str) -> bool {
    let graph = file.strip_prefix(METADATA).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    graph.is_some_and(|graph| graph.is_empty() || u64::from_str_radix(graph, 16).is_ok())
}

fn state_name(
    job: JobId,
    checkpoint: u64,
    attempt: ExecutionAttemptId,
    operator: OperatorId,
) -> String {
    let ExecutionAttemptId { graph, subtask, attempt, .. } = attempt;
    format!("{job}/chk-{checkpoint}/{operator}-{subtask}-{graph:016x}.{attempt}")
}

/// Encodes metadata.
///
/// # Errors
/// Returns the encoder's message.
pub(crate) fn encode(metadata: &CheckpointMetadata) -> Result<Bytes, String> {
    use serde::Serialize;
    let mut bytes = MAGIC.to_vec();
    let mut out = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    metadata.serialize(&mut out).map_err(|error| error.to_string())?;
    Ok(bytes.into())
}

/// Decodes the content of a checkpoint's metadata object: the magic `FCK1`, then MessagePack. Bytes after it are ignored. Never panics,
/// whatever the bytes are.
///
/// # Errors
/// Returns what is wrong with the bytes: no magic, no such MessagePack, or a handle that metadata never has (nested parts, ranges).
pub fn decode(bytes: &[u8]) -> Result<CheckpointMetadata, String> {
    let mut body = bytes.strip_prefix(MAGIC).ok_or("it does not begin with FCK1")?;
    let metadata = messagepack::decode::<CheckpointMetadata>(&mut body, DEPTH_MAX);
    let metadata = metadata.map_err(|error| error.to_string())?;
    let refused = metadata.handles().find_map(|place| match place {
        StateHandle::Parts(_) => Some("a part of a state has parts"),
        StateHandle::Ranges { .. } => {
            Some("a state is ranges of an object, which only a restore has")
        }
        StateHandle::Inline(_) | StateHandle::Object { .. } | StateHandle::External { .. } => None,
    });
    refused.map_or(Ok(metadata), |why| Err(why.to_owned()))
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
pub(crate) mod tests;
