//! Checks the checkpoint directory of a submitted job, before anything of the job is stored or started.

use super::jobs::NotStored;
use crate::stores::{open_store, s3_settings, unusable_directory};
use conf::{Options, checkpointing};
use model::JobId;
use platform::Platform;
use std::time::Duration;
use storage::checkpoints::{CheckpointDirectory, CheckpointError};

/// Longest the check of a directory may take: the client that submits the job waits. One call of a remote store ends after 30 s by
/// itself; a network file system that hangs has no limit of its own.
const CHECK_WITHIN: Duration = Duration::from_secs(40);
/// Longest the deletion of a mark may take.
const WITHDRAW_WITHIN: Duration = Duration::from_secs(10);

/// A mark that [`mark`] has written, in the directory and for the job.
#[derive(Debug)]
pub(super) struct Marked(CheckpointDirectory, JobId);

impl Marked {
    /// Deletes the mark, because the job is refused for another reason. Best effort within 10 s: a mark that stays is an empty
    /// object, which a later job of the same id uses.
    pub(super) async fn withdraw(self) {
        let Self(directory, job) = self;
        let deleted = tokio::time::timeout(WITHDRAW_WITHIN, directory.unmark(job)).await;
        if !matches!(deleted, Ok(Ok(()))) {
            tracing::warn!(%job, ?directory, "the mark of a refused job stays in its checkpoint directory");
        }
    }
}

/// Opens the directory that the job's checkpoints are to be in, which creates a local one, and writes the job's mark into it, as its
/// JobMaster does at its start: so the directory answers and can be written to. Returns `None` if no directory is configured, or if the
/// mark was there before.
///
/// # Errors
/// [`NotStored::Directory`] with the directory, the reason and the remedy, also after 40 s without an answer. Nothing of the job is there
/// then, unless the store does what it has not confirmed.
pub(super) async fn mark(
    job: JobId,
    options: &Options,
    platform: Platform,
) -> Result<Option<Marked>, NotStored> {
    let Some(uri) = options.get(&checkpointing::DIRECTORY) else { return Ok(None) };
    let place = uri.clone();
    let marked = async {
        let objects = open_store(place, platform, s3_settings(options)).await?;
        let directory = CheckpointDirectory::new(objects);
        let is_new = directory.mark_shared(job).await?;
        Ok::<_, CheckpointError>(is_new.then_some(Marked(directory, job)))
    };
    in_time(&uri, marked).await
}

/// Waits for the check of the directory at `uri`.
///
/// # Errors
/// [`NotStored::Directory`] with the store's error, or after [`CHECK_WITHIN`] with the time.
async fn in_time<T>(
    uri: &str,
    check: impl Future<Output = Result<T, CheckpointError>>,
) -> Result<T, NotStored> {
    match tokio::time::timeout(CHECK_WITHIN, check).await {
        Ok(checked) => {
            checked.map_err(|error| NotStored::Directory(unusable_directory(uri, &error)))
        }
        Err(_) => {
            let why = format!("it did not answer within {CHECK_WITHIN:?}");
            Err(NotStored::Directory(unusable_directory(uri, &why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_directory_that_hangs_does_not_leave_a_job_initializing() {
        let hangs = std::future::pending::<Result<(), CheckpointError>>();
        let why = in_time("/mnt/checkpoints", hangs).await.unwrap_err().to_string();
        assert!(
            why.contains(
                "'/mnt/checkpoints', which cannot be used: it did not answer within 40s; set it to"
            ),
            "{why}"
        );
    }
}
