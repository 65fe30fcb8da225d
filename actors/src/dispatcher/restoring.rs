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
use storage::state_reader::StateReader;

/// Reads the savepoint that the job names, if it names one, and checks that the job can start from it. A job that would own
/// the snapshot (`execution.state-recovery.claim-mode`: `CLAIM`) does not get a checkpoint of another job that `dispatcher` still
/// runs: the first checkpoint of the new job would delete what the other one restores from.
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
    let snapshot = reader.snapshot(&path).await;
    let snapshot = snapshot.map_err(|error| NotStored::Restore(error.to_string()))?;
    if snapshot.checkpoint_of == Some(graph.job_id) {
        return Err(NotStored::Restore(format!(
            "{path} is a checkpoint of a job with the same id, which would delete it with its own: give the job another id \
             (--job-id, or with high availability high-availability.cluster-id)"
        )));
    }
    if options.get(&state_recovery::CLAIM_MODE) == ClaimMode::Claim
        && let Some(owner) = snapshot.checkpoint_of
    {
        check_claim(&path, owner, dispatcher).await?;
    }
    let checked = control::checkpoints::check(graph, &snapshot.metadata, allow_dropped);
    checked.map_err(|reasons| {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        NotStored::Restore(format!("{path} does not fit the program: {}", reasons.join("\n")))
    })
}

/// Refuses to give a checkpoint of the job `owner` to another job while `owner` may need it.
async fn check_claim(
    path: &str,
    owner: JobId,
    dispatcher: &Addr<Dispatcher>,
) -> Result<(), NotStored> {
    let refused = |why: &str| {
        NotStored::Restore(format!(
            "{path} is a checkpoint of job {owner}, {why}: start from it with --claim-mode no_claim, or end job {owner} first"
        ))
    };
    match needs(dispatcher).await {
        None => Err(NotStored::Restore("the Dispatcher is shutting down".to_owned())),
        Some(needs) if needs.runs(owner) => Err(refused("which still runs and needs it")),
        Some(needs) if !needs.is_complete() => Err(refused(
            "which may still run (the jobs of the JobManager before are still being read)",
        )),
        Some(_) => Ok(()),
    }
}
