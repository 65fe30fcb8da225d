//! The global committer of the file sink: publishes pending parts.

use crate::{
    lock,
    sinks::{
        CommitError, CommitRequest, GlobalCommitter,
        marks::{self, Mark, SHARE},
    },
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use storage::{
    objects::{S3Settings, StoreError},
    output::{OutputFolder, PendingOutput, Published},
};

/// Maximum number of parts that are published at a time.
const AT_ONCE: usize = 16;

/// A file of a [`FileSink`](super::FileSink) that is written to its end under a hidden name (on S3: as an unfinished upload) and
/// waits for the commit that gives it its final name: folder, hidden and final name, length, and which subtask wrote it on which machine.
/// [`PartWriter`](super::PartWriter) makes it; it is in checkpoints until [`PartCommitter`] has published it. The writer's announcement,
/// the name of a mark that it left in the folder, has this type too, and is not published.
#[derive(Debug, Clone, PartialEq, Eq, derive::FlottType)]
#[flott(crate = crate)]
pub struct PendingPart {
    folder: String,
    /// The subtask that wrote the part and the name of its machine, for messages.
    subtask: u32,
    host: String,
    name: String,
    hidden: String,
    /// The tags of an upload's parts.
    tags: Vec<String>,
    bytes: u64,
}

impl PendingPart {
    pub(super) fn of(folder: &str, subtask: u32, pending: PendingOutput) -> Self {
        let PendingOutput { name, hidden, parts, bytes } = pending;
        let (folder, host) = (folder.to_owned(), marks::host());
        Self { folder, subtask, host, name, hidden, tags: parts, bytes }
    }
    /// Returns the announcement of a mark in the folder, which is no part.
    pub(super) fn mark(folder: &str, subtask: u32, mark: String) -> Self {
        let (name, parts) = (String::new(), Vec::new());
        Self::of(folder, subtask, PendingOutput { name, hidden: mark, parts, bytes: 0 })
    }
}

#[cfg(test)]
impl PendingPart {
    /// Returns a part with every field set, of an upload in three pieces.
    pub(in crate::sinks) fn example() -> Self {
        Self {
            folder: "s3://bucket/out".to_owned(),
            subtask: 2,
            host: "node-1".to_owned(),
            name: "part-00002-00017-5b1f0c6ad2e94f37.csv".to_owned(),
            hidden: "upload-1".to_owned(),
            tags: ["a", "b", "c"].map(str::to_owned).to_vec(),
            bytes: 70_000,
        }
    }
}

/// The global committer of a [`FileSink`](super::FileSink): gives the pending parts of a checkpoint their final names, 16 at a time. A
/// part that is published already counts as done. A part that is neither hidden nor published fails the job at its first commit; when
/// the commit is repeated or restored it counts as done, with a warning, because a reader may have taken the published part away. A
/// hidden part whose length has changed fails the job, and so does a folder whose URI this program cannot open. Other errors are retried.
/// The committer also takes away the mark that a writer has announced; a mark that is not in the folder, because the TaskManagers do not
/// share the folder, fails the job.
#[derive(Debug)]
pub struct PartCommitter {
    s3: S3Settings,
    /// The folders of the parts so far, by URI: a restored part is in the folder that it was written to.
    folders: Mutex<BTreeMap<String, Arc<dyn OutputFolder>>>,
}

impl PartCommitter {
    pub(super) fn new(s3: S3Settings) -> Self {
        Self { s3, folders: Mutex::default() }
    }

    fn folder(&self, uri: &str) -> Result<Arc<dyn OutputFolder>, StoreError> {
        let mut folders = lock(&self.folders);
        if let Some(folder) = folders.get(uri) {
            return Ok(folder.clone());
        }
        let folder = storage::output::open(uri, &self.s3)?;
        folders.insert(uri.to_owned(), folder.clone());
        Ok(folder)
    }

    async fn publish(&self, part: PendingPart, repeated: bool) -> Result<(), CommitError> {
        let PendingPart { folder: uri, subtask, host, name, hidden, tags, bytes } = part;
        let folder = self.folder(&uri).map_err(|error| CommitError::Failed(error.to_string()))?;
        let here = marks::host();
        let missing = format!(
            "neither '{hidden}' nor '{name}', which subtask {subtask} has written on '{host}', is in the folder '{uri}' \
             on '{here}': the TaskManagers do not share the folder, or the file was deleted. {SHARE}"
        );
        let damaged = format!(
            "'{hidden}', which subtask {subtask} has written on '{host}' to the folder '{uri}',"
        );
        match folder.publish(PendingOutput { name, hidden, parts: tags, bytes }).await {
            Ok(Published::Done) => Ok(()),
            Ok(Published::Missing) if repeated => {
                tracing::warn!("taken as committed, and consumed by a reader: {missing}");
                Ok(())
            }
            Ok(Published::Damaged { found }) => Err(CommitError::Failed(format!(
                "{damaged} has {found} bytes instead of {bytes}: it was changed after it was written, and is not published"
            ))),
            Ok(Published::Missing) => Err(CommitError::Failed(missing)),
            Err(error) => Err(CommitError::Retry(error.to_string())),
        }
    }
}

impl GlobalCommitter<PendingPart> for PartCommitter {
    async fn commit(&self, request: CommitRequest<Vec<PendingPart>>) -> Result<(), CommitError> {
        let repeated = request.is_repeated();
        let parts = request.committable.into_iter().map(|part| self.publish(part, repeated));
        let parts: Vec<_> = parts.collect();
        let results: Vec<_> = stream::iter(parts).buffer_unordered(AT_ONCE).collect().await;
        // A permanent failure comes first, whatever else would be repeated.
        let failed =
            |result: &Result<(), CommitError>| matches!(result, Err(CommitError::Failed(_)));
        if let Some(failure) = results.iter().find(|result| failed(result)) {
            return failure.clone();
        }
        results.into_iter().collect()
    }

    async fn keep(&self, parts: Vec<PendingPart>) -> Result<(), CommitError> {
        let kept = parts.into_iter().map(|part| async move {
            let folder = self.folder(&part.folder);
            let kept =
                folder.map_err(|error| CommitError::Failed(error.to_string()))?.keep(part.hidden);
            kept.await.map_err(|error| CommitError::Retry(error.to_string()))
        });
        let kept: Vec<_> = kept.collect();
        stream::iter(kept).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn check(&self, announced: PendingPart) -> Result<(), CommitError> {
        let PendingPart { folder: uri, subtask, host, hidden, .. } = announced;
        let folder = self.folder(&uri).map_err(|error| CommitError::Failed(error.to_string()))?;
        marks::check(&*folder, &uri, Mark { mark: &hidden, subtask, host: &host }).await
    }
}
