//! Checks the savepoint that a submitted job is to start from, before anything of the job is stored or started.

use super::jobs::NotStored;
use super::leader::Dispatcher;
use super::needs::{Need, Needs, answered};
use crate::stores::s3_settings;
use actix::Addr;
use conf::Options;
use conf::state_recovery::{self, ClaimMode};
use model::{JobGraph, JobId};
use platform::Platform;
use std::sync::Arc;
use storage::state_reader::{Snapshot, StateReader};

/// Reads the savepoint that the job names, if it names one, and checks that the job can start from it. A job that would own
/// the snapshot (`execution.state-recovery.claim-mode`: `CLAIM`) gets neither a checkpoint of another job that `dispatcher` still
/// runs, nor a snapshot that another job was started from and still needs: the first checkpoint of the new job would delete what
/// the other one restores from. It does not get a checkpoint either on whose files other retained checkpoints build. Nor does any job
/// start from a snapshot that another one has claimed and will delete. Returns the graph that the job is to run with: `graph`, with the
/// snapshot's maximum parallelisms if the job sets none.
///
/// # Errors
/// [`NotStored::Restore`] with every reason, one a line.
pub(super) async fn check(
    mut graph: Arc<JobGraph>,
    options: &Options,
    platform: Platform,
    dispatcher: &Addr<Dispatcher>,
) -> Result<Arc<JobGraph>, NotStored> {
    let Some(path) = options.get(&state_recovery::PATH) else { return Ok(graph) };
    let allow_dropped = options.get(&state_recovery::IGNORE_UNCLAIMED_STATE);
    let reader = StateReader::new(None, platform, s3_settings(options));
    let snapshot = answered(&path, reader.snapshot(&path)).await.map_err(NotStored::Restore)?;
    if snapshot.checkpoint_of == Some(graph.job_id) {
        return Err(NotStored::Restore(format!(
            "{path} is a checkpoint of a job with the same id, which would delete it with its own: give the job another id \
             (--job-id, or with high availability high-availability.cluster-id)"
        )));
    }
    let needs = Needs::of(dispatcher).await.map_err(NotStored::Restore)?;
    let owner = needs.claimed_by(&reader, (&path, &snapshot), graph.job_id).await;
    if let Some(owner) = owner.map_err(NotStored::Restore)? {
        return Err(NotStored::Restore(format!(
            "{path} belongs to job {owner}, which was started from it with --claim-mode claim and deletes it with its first \
             checkpoint: start from a savepoint of that job, or end it first"
        )));
    }
    if options.get(&state_recovery::CLAIM_MODE) == ClaimMode::Claim {
        check_claim((graph.job_id, &path), &snapshot, &reader, &needs).await?;
    }
    control::checkpoints::adopt_max_parallelism(Arc::make_mut(&mut graph), &snapshot.metadata);
    let checked = control::checkpoints::check(&graph, &snapshot.metadata, allow_dropped);
    checked.map_err(|reasons| {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        NotStored::Restore(format!("{path} does not fit the program: {}", reasons.join("\n")))
    })?;
    Ok(graph)
}

/// Refuses to give a snapshot to `job`, which names it by `path`, while another job may need it.
async fn check_claim(
    (job, path): (JobId, &str),
    snapshot: &Snapshot,
    reader: &StateReader,
    needs: &Needs,
) -> Result<(), NotStored> {
    let refused = |what: &str, other: JobId| {
        Err(NotStored::Restore(format!(
            "{path} {what}: start from it with --claim-mode no_claim, or end job {other} first"
        )))
    };
    let need = needs.need_of(reader, (path, snapshot), Some(job)).await;
    match need.map_err(NotStored::Restore)? {
        None => Ok(()),
        Some(Need::BuiltOn(others)) => Err(NotStored::Restore(format!(
            "{path} has files that other checkpoints of its job build on: start from it with --claim-mode no_claim, or dispose of the \
             others first: {}",
            others.join(", ")
        ))),
        Some(Need::Runs(owner)) => {
            let what = format!("is a checkpoint of job {owner}, which still runs and needs it");
            refused(&what, owner)
        }
        Some(Need::Unknown) => Err(NotStored::Restore(format!(
            "a job may need {path}: the jobs of the JobManager before are still being read; start from it with \
             --claim-mode no_claim, or try again when they are there"
        ))),
        Some(Need::StartedFrom(other)) => {
            let what = format!(
                "is what job {other} was started from and needs until a checkpoint of its own is complete"
            );
            refused(&what, other)
        }
    }
}
