//! The start of a job: which checkpoint or snapshot it continues from, and which numbers of checkpoints were given out before, is read
//! from its log and the checkpoint directory. No checkpoint must begin before that is known.

use super::JobMaster;
use super::checkpoints::STORE_RETRY;
use super::fallback::{self, Kept, ReadError};
use crate::stores::{open_store, retried, s3_settings};
use actix::{AsyncContext, Context, Handler};
use conf::checkpointing;
use conf::state_recovery::{self, ClaimMode};
use model::{CheckpointMetadata, ClaimedSnapshot, Fence};
use storage::checkpoints::{CheckpointDirectory, CheckpointError};
use storage::jobs::{AppendError, OpenJobLog};
use storage::objects::S3Settings;
use storage::state_reader::{Snapshot, StateReader};

impl JobMaster {
    /// Reads which checkpoint the job continues from; the job starts when that is known.
    pub(super) fn read_checkpoint(&mut self, ctx: &mut Context<Self>) {
        let uri = self.deps.options.get(&checkpointing::DIRECTORY);
        let (log, session) = (self.deps.log.clone(), self.deps.session.session());
        let (platform, s3) = (self.deps.services.platform.clone(), s3_settings(&self.deps.options));
        let snapshot = self.deps.options.get(&state_recovery::PATH);
        let reader = self.state_reader();
        let (job, addr) = (self.job_id(), ctx.address());
        let policy = fallback::Policy::of(&self.deps.options);
        actix::spawn(async move {
            let lead = || log.lead(session);
            let what = "repeat what an earlier JobMaster was appending to the job's log";
            if let Err(error) = retried(what, STORE_RETRY, AppendError::may_pass, lead).await {
                // Another leader runs the job; this JobMaster is stopped as soon as its Dispatcher knows it.
                tracing::warn!(%job, %error, "the job is not continued here");
                return;
            }
            let (pointers, given_out) = (log.checkpoints().await, log.newest_number().await);
            let outcome = async {
                let directory = open_directory(uri.clone(), &log, &platform, &s3).await?;
                let kept = fallback::read(job, &directory, &pointers, policy).await?;
                let started_from = match snapshot {
                    Some(uri) if pointers.is_empty() => Some(read_snapshot(&reader, &uri).await?),
                    _ => None,
                };
                if let Some(uri) = uri {
                    let mark = || directory.mark_shared(job);
                    let what = "mark the checkpoint directory";
                    let marked = retried(what, STORE_RETRY, CheckpointError::may_pass, mark).await;
                    marked.map_err(|error| ReadError::unusable(&uri, &error))?;
                }
                let claimed = pointers.last().and_then(|newest| newest.claimed.clone());
                Ok(Restored { directory, kept, given_out, started_from, claimed })
            };
            let _ = addr.send(CheckpointRead(outcome.await)).await;
        });
    }
}

async fn open_directory(
    uri: Option<String>,
    log: &OpenJobLog,
    platform: &platform::Platform,
    s3: &S3Settings,
) -> Result<CheckpointDirectory, ReadError> {
    let Some(uri) = uri else {
        return Ok(CheckpointDirectory::beside_logs(log.logs().objects().clone()));
    };
    let opened = open_store(uri.clone(), platform.clone(), s3.clone()).await;
    Ok(CheckpointDirectory::new(opened.map_err(|error| ReadError::unusable(&uri, &error))?))
}

/// Reads the snapshot that a job is started from; a store that does not answer is tried again.
async fn read_snapshot(reader: &StateReader, uri: &str) -> Result<Snapshot, CheckpointError> {
    let read = || reader.snapshot(uri);
    let what = "read the savepoint that the job starts from";
    retried(what, STORE_RETRY, CheckpointError::may_pass, read).await
}

fn claim_of(snapshot: &Snapshot) -> ClaimedSnapshot {
    let CheckpointMetadata { job_id, checkpoint, graph, .. } = snapshot.metadata;
    ClaimedSnapshot { uri: snapshot.uri.clone(), job_id, checkpoint, graph }
}

/// The state that a job begins with.
struct Restored {
    directory: CheckpointDirectory,
    /// The checkpoints of the job itself.
    kept: Kept,
    /// The newest number of a checkpoint that is recorded by itself; 0 if there is none.
    given_out: u64,
    /// The snapshot that the job is started from, if it has no checkpoint of its own.
    started_from: Option<Snapshot>,
    /// The snapshot that the JobMaster before had yet to delete.
    claimed: Option<ClaimedSnapshot>,
}

/// The checkpoint that the job continues from was read, or can't be.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct CheckpointRead(Result<Restored, ReadError>);

impl Handler<CheckpointRead> for JobMaster {
    type Result = ();

    fn handle(&mut self, CheckpointRead(outcome): CheckpointRead, ctx: &mut Context<Self>) {
        if self.ended {
            return;
        }
        let now = self.now();
        match outcome {
            Ok(Restored {
                directory,
                kept: Kept { newest, mut checkpoints, passed_over },
                given_out,
                started_from,
                claimed,
            }) => {
                let job = self.job_id();
                self.directory = Some(directory);
                self.claimed = claimed.or_else(|| {
                    let mode = self.deps.options.get(&state_recovery::CLAIM_MODE);
                    started_from.as_ref().filter(|_| mode == ClaimMode::Claim).map(claim_of)
                });
                if let Some(restored) = checkpoints.pop() {
                    let checkpoint = restored.checkpoint;
                    tracing::info!(%job, checkpoint, "the job continues from a checkpoint");
                    self.core.restore(now, restored);
                    self.core.fell_back(now, &passed_over, checkpoint);
                } else if let Some(snapshot) = started_from {
                    tracing::info!(%job, from = snapshot.uri, "the job starts from a snapshot");
                    let metadata = CheckpointMetadata { job_id: job, ..snapshot.metadata.clone() };
                    self.core.start_from(now, metadata, snapshot.uri);
                }
                self.core.restore_older(checkpoints, newest, given_out);
                self.core.start(now);
            }
            Err(error) => {
                self.core.start(now);
                self.core.fail(now, error.cause());
            }
        }
        self.turn(ctx);
    }
}
