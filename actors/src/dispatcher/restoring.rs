//! Checks the savepoint that a submitted job is to start from, before anything of the job is stored or started.

use super::jobs::NotStored;
use super::leader::Dispatcher;
use super::needs::needs;
use crate::stores::s3_settings;
use actix::Addr;
use conf::Options;
use conf::state_recovery::{self, ClaimMode};
use model::{JobGraph, JobId};
use platform::Platform;
use std::time::Duration;
use storage::checkpoints::CheckpointError;
use storage::state_reader::{Snapshot, StateReader};

/// Longest a snapshot's metadata may take to be read. It is a small object, and the client that submits the job waits; a remote
/// store's own limits are shorter, but a network file system that hangs has none.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// Waits for the answer of a store about the snapshot at `path`.
///
/// # Errors
/// Returns the store's error as text; after [`READ_WITHIN`] a text that names the path.
pub(super) async fn answered<T>(
    path: &str,
    read: impl Future<Output = Result<T, CheckpointError>>,
) -> Result<T, String> {
    match tokio::time::timeout(READ_WITHIN, read).await {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "{path} did not answer within {READ_WITHIN:?}: check the file system or store that it is on"
        )),
    }
}

/// Reads the savepoint that the job names, if it names one, and checks that the job can start from it. A job that would own
/// the snapshot (`execution.state-recovery.claim-mode`: `CLAIM`) gets neither a checkpoint of another job that `dispatcher` still
/// runs, nor a snapshot that another job was started from and still needs: the first checkpoint of the new job would delete what
/// the other one restores from.
///
/// # Errors
/// [`NotStored::Restore`] with every reason, one a line.
pub(super) async fn check(
    graph: &JobGraph,
    options: &Options,
    platform: Platform,
    dispatcher: &Addr<Dispatcher>,
) -> Result<(), NotStored> {
    let Some(path) = options.get(&state_recovery::PATH) else { return Ok(()) };
    let allow_dropped = options.get(&state_recovery::IGNORE_UNCLAIMED_STATE);
    let reader = StateReader::new(None, platform, s3_settings(options));
    let snapshot = answered(&path, reader.snapshot(&path)).await.map_err(NotStored::Restore)?;
    if snapshot.checkpoint_of == Some(graph.job_id) {
        return Err(NotStored::Restore(format!(
            "{path} is a checkpoint of a job with the same id, which would delete it with its own: give the job another id \
             (--job-id, or with high availability high-availability.cluster-id)"
        )));
    }
    if options.get(&state_recovery::CLAIM_MODE) == ClaimMode::Claim {
        check_claim((graph.job_id, &path), &snapshot, &reader, dispatcher).await?;
    }
    let checked = control::checkpoints::check(graph, &snapshot.metadata, allow_dropped);
    checked.map_err(|reasons| {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        NotStored::Restore(format!("{path} does not fit the program: {}", reasons.join("\n")))
    })
}

/// Refuses to give a snapshot to `job`, which names it by `path`, while another job may need it.
async fn check_claim(
    (job, path): (JobId, &str),
    snapshot: &Snapshot,
    reader: &StateReader,
    dispatcher: &Addr<Dispatcher>,
) -> Result<(), NotStored> {
    let refused = |what: &str, other: JobId| {
        NotStored::Restore(format!(
            "{path} {what}: start from it with --claim-mode no_claim, or end job {other} first"
        ))
    };
    let Some(needs) = needs(dispatcher).await else {
        return Err(NotStored::Restore("the Dispatcher is shutting down".to_owned()));
    };
    if let Some(owner) = snapshot.checkpoint_of.filter(|owner| needs.runs(*owner)) {
        let what = format!("is a checkpoint of job {owner}, which still runs and needs it");
        return Err(refused(&what, owner));
    }
    if !needs.is_complete() {
        return Err(NotStored::Restore(format!(
            "a job may need {path}: the jobs of the JobManager before are still being read; start from it with \
             --claim-mode no_claim, or try again when they are there"
        )));
    }
    let restores = async { Ok(needs.restores_from(reader, &snapshot.uri, Some(job)).await) };
    match answered(path, restores).await.map_err(NotStored::Restore)? {
        None => Ok(()),
        Some(other) => {
            let what = format!(
                "is what job {other} was started from and needs until a checkpoint of its own is complete"
            );
            Err(refused(&what, other))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_hangs_does_not_leave_a_job_initializing() {
        let hangs = std::future::pending::<Result<(), CheckpointError>>();
        let why = answered("/mnt/savepoint-1", hangs).await.unwrap_err();
        assert!(why.contains("/mnt/savepoint-1 did not answer within 60s"), "{why}");
    }
}
