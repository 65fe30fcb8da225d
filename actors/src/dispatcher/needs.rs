//! The jobs whose checkpoints must stay, which the Dispatcher is asked for before a snapshot is deleted or given to a job.

use super::leader::Dispatcher;
use actix::{Addr, Context, Handler, MessageResult};
use conf::Options;
use conf::state_recovery::{self, ClaimMode};
use model::JobId;
use std::collections::BTreeSet;
use std::time::Duration;
use storage::checkpoints::CheckpointError;
use storage::jobs::OpenJobLog;
use storage::state_reader::{Snapshot, StateReader};

/// The jobs of a Dispatcher that may still read their snapshots, as they were when the Dispatcher answered.
#[derive(Debug)]
pub(super) struct Needs {
    /// Jobs whose end is not recorded: another leader may run them again.
    running: BTreeSet<JobId>,
    /// Jobs that were started from a snapshot, and which; the log tells whether the job has a checkpoint of its own. No log: the graph
    /// is being stored.
    restored: Vec<(JobId, RestoredFrom, Option<OpenJobLog>)>,
    /// False while the jobs of an earlier leader are read: there may be more jobs than in `running`.
    complete: bool,
}

/// The snapshot that a job was started from.
#[derive(Debug, Clone)]
pub(super) struct RestoredFrom {
    /// Path or URI, as the user gave it.
    path: String,
    /// True if the snapshot is the job's own, which its first complete checkpoint deletes.
    claims: bool,
}

impl RestoredFrom {
    /// Returns the snapshot that a job with these options is started from; `None` if it starts without one.
    pub(super) fn of(options: &Options) -> Option<Self> {
        let claims = options.get(&state_recovery::CLAIM_MODE) == ClaimMode::Claim;
        options.get(&state_recovery::PATH).map(|path| Self { path, claims })
    }
}

impl Needs {
    /// Asks the Dispatcher. To be called after the snapshot in question was read, because a job may have been submitted meanwhile.
    ///
    /// # Errors
    /// Returns a text if the Dispatcher has stopped.
    pub(super) async fn of(dispatcher: &Addr<Dispatcher>) -> Result<Self, String> {
        let asked = dispatcher.send(AskNeeds).await;
        asked.map_err(|_| "the Dispatcher is shutting down".to_owned())
    }

    /// Returns why the snapshot, which a user has named by the path, must stay; `None` if nobody needs it but perhaps `asking`, the
    /// job for which this is asked.
    ///
    /// # Errors
    /// Returns a text if the path does not answer.
    pub(super) async fn need_of(
        &self,
        reader: &StateReader,
        (path, snapshot): (&str, &Snapshot),
        asking: Option<JobId>,
    ) -> Result<Option<Need>, String> {
        if let Some(owner) = snapshot.checkpoint_of.filter(|job| self.running.contains(job)) {
            return Ok(Some(Need::Runs(owner)));
        }
        if !self.complete {
            return Ok(Some(Need::Unknown));
        }
        let restores =
            async { Ok(self.restores_from(reader, &snapshot.uri, (asking, false)).await) };
        if let Some(job) = answered(path, restores).await? {
            return Ok(Some(Need::StartedFrom(job)));
        }
        let others = answered(path, reader.dependents(snapshot)).await?;
        Ok((!others.is_empty()).then_some(Need::BuiltOn(others)))
    }

    /// Returns the job, other than `asking`, that claims the snapshot and has not deleted it yet: its first complete checkpoint will,
    /// while `asking` may have to read the snapshot again after a failure. `None` if no job that is known here does.
    ///
    /// # Errors
    /// Returns a text if the path does not answer.
    pub(super) async fn claimed_by(
        &self,
        reader: &StateReader,
        (path, snapshot): (&str, &Snapshot),
        asking: JobId,
    ) -> Result<Option<JobId>, String> {
        let asking = (Some(asking), true);
        let claims = async { Ok(self.restores_from(reader, &snapshot.uri, asking).await) };
        answered(path, claims).await
    }

    /// Returns a job that runs here, was started from the snapshot at `uri`, and has no complete checkpoint of its own: it reads
    /// the snapshot, also after a failure. With `claims` only one that claims the snapshot. `None` if there is none but perhaps
    /// `asking`, the job for which this is asked.
    async fn restores_from(
        &self,
        reader: &StateReader,
        uri: &str,
        (asking, claims): (Option<JobId>, bool),
    ) -> Option<JobId> {
        let place = reader.place(uri).await;
        let others = self.restored.iter().filter(|(job, ..)| Some(*job) != asking);
        for (job, from, log) in others.filter(|(_, from, _)| from.claims || !claims) {
            if reader.place(&from.path).await != place {
                continue;
            }
            let has_own = match log {
                Some(log) => !log.checkpoints().await.is_empty(),
                None => false,
            };
            if !has_own {
                return Some(*job);
            }
        }
        None
    }
}

/// A reason why a snapshot must stay.
pub(super) enum Need {
    /// It is a checkpoint of this job, which runs here, or will run, or may be run again by another leader.
    Runs(JobId),
    /// Any job of an earlier leader may need it: they are still being read.
    Unknown,
    /// This job was started from it and has no complete checkpoint of its own.
    StartedFrom(JobId),
    /// It is a checkpoint on whose files these other checkpoints of its job build, by their folders.
    BuiltOn(Vec<String>),
}

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

#[derive(actix::Message)]
#[rtype(result = "Needs")]
struct AskNeeds;

impl Handler<AskNeeds> for Dispatcher {
    type Result = MessageResult<AskNeeds>;

    fn handle(&mut self, _: AskNeeds, _: &mut Context<Self>) -> Self::Result {
        let has_ended =
            |job: &JobId| self.jobs.get(job).is_some_and(|known| known.end.borrow().is_some());
        let running_here =
            self.jobs.iter().filter(|(job, _)| !has_ended(job)).filter_map(|(job, known)| {
                Some((*job, known.restored_from.clone()?, Some(known.log.clone())))
            });
        let persisting = self.persisting.iter().filter_map(|(job, (graph, _))| {
            let options = self.merged(&graph.options).ok()?;
            Some((*job, RestoredFrom::of(&options)?, None))
        });
        let restored = running_here.chain(persisting).collect();
        let running = self.table.jobs().map(|(job, _)| job).filter(|job| !has_ended(job));
        MessageResult(Needs {
            running: running.collect(),
            restored,
            complete: self.table.recovery_progress().is_none(),
        })
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
