//! Checks the savepoint that a submitted job is to start from, before anything of the job is stored or started.

use super::jobs::NotStored;
use crate::stores::s3_settings;
use conf::{Options, state_recovery};
use model::JobGraph;
use platform::Platform;
use storage::state_reader::StateReader;

/// Reads the savepoint that the job names, if it names one, and checks that the job can start from it.
///
/// # Errors
/// [`NotStored::Restore`] with every reason, one a line.
pub(super) async fn check(
    graph: &JobGraph,
    options: &Options,
    platform: Platform,
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
    let checked = control::checkpoints::check(graph, &snapshot.metadata, allow_dropped);
    checked.map_err(|reasons| {
        let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        NotStored::Restore(format!("{path} does not fit the program: {}", reasons.join("\n")))
    })
}
