//! The job's checkpoints: numbered, triggered, stored, recorded in the job's log, announced and deleted. The core decides
//! when; this module makes the calls.
//!
//! A checkpoint must never be reported to the core as persisted before its record is in the log, and never as failed once its
//! record may be there: the append is repeated until its outcome is known.
//!
//! Files that checkpoints of earlier JobMasters left are deleted after the first checkpoint of this one is complete, never before:
//! a JobMaster that was superseded while it read the log knows too little to delete anything. Files that an aborted
//! checkpoint left are deleted after the next complete one. `storage::checkpoints` says why a deletion that happens late deletes nothing of
//! a successor.

use super::JobMaster;
use super::coordinators::{SNAPSHOT, told_by_exit};
use crate::stores::{metadata_not_stored, retried};
use crate::turns::spawn_then;
use actix::{AsyncContext, Context, Handler};
use conf::checkpointing::{self, Retention};
use futures::FutureExt as _;
use gateways::job_master::CheckpointAnswer;
use gateways::program_host::{CoordinatorsCheckpointEnded, SnapshotCoordinators};
use gateways::task_executor::{NotifyCheckpoint, TriggerCheckpoint};
use gateways::{Answer, Ask, CallError};
use model::{
    CheckpointBarrier, CheckpointMetadata, CheckpointPointer, ClaimedSnapshot, ExecutionAttemptId,
    FailureCause, Fence, JobStatus, OperatorId, ResourceId, StateHandle,
};
use serde_bytes::ByteBuf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoints::CheckpointError;
use storage::jobs::{AppendError, OpenJobLog};
use storage::state_reader::StateReader;

/// Longest the coordinators may take for their snapshots.
const SNAPSHOT_WITHIN: Duration = Duration::from_secs(60);
/// The first and the longest pause before a store is tried again.
pub(super) const STORE_RETRY: (Duration, Duration) =
    (Duration::from_millis(50), Duration::from_secs(5));
/// Longest the end of a JobMaster waits for the deletion of its checkpoints.
const DELETE_WITHIN: Duration = Duration::from_secs(5);

impl JobMaster {
    /// Records in the job's log that a number is given out. A store that cannot be reached is tried again, until the core has given the
    /// checkpoint up; the log itself repeats an append without an outcome before the next one.
    pub(super) fn record_number(&self, checkpoint: u64, ctx: &mut Context<Self>) {
        let (log, session) = (self.deps.log.clone(), self.deps.session.session());
        let (job, within) = (self.job_id(), self.deps.options.get(&checkpointing::TIMEOUT));
        let recorded = async move {
            let append = || log.record_number(session, checkpoint);
            let what = "record the number of a checkpoint";
            let may_pass = |error: &AppendError| matches!(error, AppendError::Store(error) if error.may_pass());
            let recorded = retried(what, STORE_RETRY, may_pass, append);
            tokio::time::timeout(within, recorded).await
        };
        spawn_then(ctx, recorded, move |actor, outcome, ctx| {
            let outcome = match outcome {
                // By then the core has given the checkpoint up.
                Err(_) => return,
                Ok(Err(error)) if error.ends_ownership() => {
                    // Another leader runs the job; this JobMaster is stopped as soon as its Dispatcher knows it.
                    tracing::warn!(%job, checkpoint, %error, "the checkpoint does not begin");
                    return;
                }
                Ok(recorded) => recorded.map_err(|error| {
                    format!(
                        "{error}; see that the JobManager can write to high-availability.storageDir and that it has room"
                    )
                }),
            };
            actor.core.checkpoint_number_recorded(actor.now(), checkpoint, outcome);
            actor.turn(ctx);
        });
    }

    /// Gives the barrier of a checkpoint to sources.
    pub(super) fn trigger_checkpoint(
        &self,
        resource: &ResourceId,
        attempts: Vec<ExecutionAttemptId>,
        barrier: CheckpointBarrier,
    ) {
        if let Some(link) = self.task_managers.get(resource) {
            link.gateway.insist(TriggerCheckpoint { job_id: self.job_id(), attempts, barrier });
        }
    }

    /// Tells tasks how a checkpoint has ended.
    pub(super) fn notify_checkpoint(
        &self,
        resource: &ResourceId,
        attempts: Vec<ExecutionAttemptId>,
        checkpoint: u64,
        complete: bool,
    ) {
        if let Some(link) = self.task_managers.get(resource) {
            let job_id = self.job_id();
            link.gateway.insist(NotifyCheckpoint { job_id, attempts, checkpoint, complete });
        }
    }

    /// Has the coordinators take their snapshots.
    pub(super) fn snapshot_coordinators(&self, ask: SnapshotCoordinators, ctx: &mut Context<Self>) {
        let checkpoint = ask.checkpoint;
        let host = self.host.as_ref().map(|host| (host.gateway.clone(), host.session));
        let (addr, hosts, job) = (ctx.address(), self.deps.hosts.clone(), self.job_id());
        actix::spawn(async move {
            let outcome = match host {
                Some((gateway, session)) => match gateway.ask_within(ask, SNAPSHOT_WITHIN).await {
                    Err(CallError::Fabric(error)) => {
                        Err(told_by_exit(&hosts, job, session, SNAPSHOT, &error).await.message)
                    }
                    answered => answered.map_err(|error| error.to_string()),
                },
                None => Err("the job's coordinators are gone".to_owned()),
            };
            let outcome = outcome.map(|states| {
                let inline =
                    |(id, bytes): (_, ByteBuf)| (id, StateHandle::Inline(bytes.into_vec()));
                states.into_iter().map(inline).collect()
            });
            let _ = addr.send(CoordinatorsSnapshotted { checkpoint, outcome }).await;
        });
    }

    /// Tells the coordinators how a checkpoint has ended. One that fails on it fails the regions that it serves.
    pub(super) fn tell_coordinators(&self, checkpoint: u64, complete: bool) {
        if let Some(host) = &self.host {
            host.gateway.insist(CoordinatorsCheckpointEnded { checkpoint, complete });
        }
    }

    /// Stores a checkpoint's metadata, then records the pointer.
    pub(super) fn persist_checkpoint(
        &self,
        metadata: Arc<CheckpointMetadata>,
        ctx: &mut Context<Self>,
    ) {
        let Some(directory) = self.directory.clone() else { return };
        let (log, session) = (self.deps.log.clone(), self.deps.session.session());
        let uri = self.deps.options.get(&checkpointing::DIRECTORY);
        let (reader, is_shared) = (self.state_reader(), uri.is_some());
        let claimed = self.claimed.clone();
        let (job, addr, keep) = (self.job_id(), ctx.address(), self.core.kept_beside_next());
        actix::spawn(async move {
            let checkpoint = metadata.checkpoint;
            let stored = async {
                let metadata = adopted(&reader, metadata, is_shared).await?;
                let name = directory.put_metadata(&metadata).await?;
                Ok::<_, CheckpointError>((metadata, name))
            };
            let outcome = match stored.await {
                Ok((metadata, name)) => {
                    let (metadata_name, directory) = (name, uri);
                    let pointer = CheckpointPointer {
                        checkpoint,
                        metadata: metadata_name,
                        directory,
                        claimed,
                    };
                    match record(&log, session, &pointer, &keep).await {
                        Ok(()) => Ok(metadata),
                        Err(error) => {
                            // Another leader runs the job; this JobMaster is stopped as soon as its Dispatcher knows it.
                            tracing::warn!(%job, checkpoint, %error, "the checkpoint is not recorded");
                            return;
                        }
                    }
                }
                Err(error) => Err(metadata_not_stored(uri.as_deref(), &error)),
            };
            let _ = addr.send(CheckpointPersisted { checkpoint, outcome }).await;
        });
    }

    /// Deletes objects that no checkpoint refers to any more. Objects that can't be deleted now are
    /// deleted with the job.
    pub(super) fn discard_objects(&self, objects: BTreeSet<String>) {
        let Some(directory) = self.directory.clone() else { return };
        let job = self.job_id();
        actix::spawn(async move {
            if let Err(error) = directory.delete(&objects).await {
                tracing::warn!(%job, %error, "an old checkpoint is not deleted");
            }
        });
    }

    /// Deletes the snapshot that the job was started from, if the job owns it, as soon as the job has a checkpoint of its own and no
    /// task is being restored. Every JobMaster of the job does that, because the one before may have ended just before it did.
    pub(super) fn delete_claimed(&mut self, ctx: &mut Context<Self>) {
        if self.deletes_claimed || self.core.needs_start_snapshot() {
            return;
        }
        let Some(claimed) = self.claimed.clone() else { return };
        self.deletes_claimed = true;
        let (reader, job, addr) = (self.state_reader(), self.job_id(), ctx.address());
        actix::spawn(async move {
            let uri = &claimed.uri;
            let deleted = delete_snapshot(&reader, &claimed).await;
            if deleted.is_ok() {
                let _ = addr.send(ClaimedDeleted).await;
            }
            match deleted {
                Ok(Deleted::Now) => {
                    tracing::info!(%job, snapshot = uri, "the claimed snapshot is deleted");
                }
                Ok(Deleted::Before) => {}
                Ok(Deleted::Replaced) => {
                    tracing::warn!(%job, snapshot = uri, "another snapshot is in the place of the claimed one, and stays");
                }
                Err(error) => {
                    tracing::warn!(%job, snapshot = uri, %error, "the claimed snapshot is not deleted");
                }
            }
        });
    }

    /// Deletes what checkpoints with lower numbers left, of this JobMaster or earlier ones, except `keep`. What stays because the
    /// store fails is deleted with the next call, or with the job.
    pub(super) fn delete_orphans(&self, below: u64, keep: BTreeSet<String>) {
        let Some(directory) = self.directory.clone() else { return };
        let job = self.job_id();
        actix::spawn(async move {
            if let Err(error) = directory.delete_below(job, below, &keep).await {
                tracing::warn!(%job, %error, "objects that earlier checkpoints left are not deleted yet");
            }
        });
    }

    /// Deletes the checkpoints of a job that has ended. If they are to be kept, everything else is deleted.
    pub(super) fn delete_checkpoints(&self) -> impl Future<Output = ()> + use<> {
        let (if_failed, if_canceled) = kept(self.deps.options.get(&checkpointing::RETENTION));
        let keeps = match self.core.status() {
            JobStatus::Failed => if_failed,
            JobStatus::Canceled => if_canceled,
            _ => false,
        };
        let keep = if keeps { self.core.kept_objects() } else { BTreeSet::new() };
        let directory = self.directory.clone();
        let (log, job) = (self.deps.log.clone(), self.job_id());
        let delete = async move {
            let Some(directory) = directory else { return };
            // Unless the job's end is recorded, another leader runs the job and needs them.
            if log.has_ended().await
                && let Err(error) = directory.delete_others(job, &keep).await
            {
                tracing::warn!(%job, %error, "the checkpoints of the job are not deleted");
            }
        };
        tokio::time::timeout(DELETE_WITHIN, delete).map(drop)
    }
}

/// Returns whether checkpoints outlive a job that fails, and one that is cancelled.
pub(super) fn kept(retention: Retention) -> (bool, bool) {
    match retention {
        Retention::DeleteOnCancellation => (true, false),
        Retention::RetainOnCancellation => (true, true),
        Retention::NoExternalizedCheckpoints => (false, false),
    }
}

/// Returns the bytes that coordinators are restored from.
pub(super) async fn states_of(
    reader: &StateReader,
    handles: Vec<(OperatorId, StateHandle)>,
) -> Result<Vec<(OperatorId, ByteBuf)>, FailureCause> {
    let mut states = Vec::new();
    for (operator, handle) in handles {
        let read = reader.read(&handle).await;
        let bytes = read.map_err(|error| unreadable(&error))?;
        states.push((operator, ByteBuf::from(bytes.to_vec())));
    }
    Ok(states)
}

/// Returns a checkpoint that refers to nothing outside of the checkpoint directory.
async fn adopted(
    reader: &StateReader,
    metadata: Arc<CheckpointMetadata>,
    is_shared: bool,
) -> Result<Arc<CheckpointMetadata>, CheckpointError> {
    let is_external = |handle: &StateHandle| matches!(handle, StateHandle::External { .. });
    if !metadata.handles().any(is_external) {
        return Ok(metadata);
    }
    let mut own = CheckpointMetadata::clone(&metadata);
    reader.adopt(&mut own, is_shared).await?;
    Ok(Arc::new(own))
}

fn unreadable(error: &CheckpointError) -> FailureCause {
    let kind = match error.is_lost() {
        true => FailureCause::CHECKPOINT_UNREADABLE,
        false => "IoError",
    };
    FailureCause::recoverable(kind, error.to_string())
}

/// The outcome of [`delete_snapshot`].
enum Deleted {
    Now,
    /// No snapshot is there any more.
    Before,
    /// Another snapshot is there: a user may have put it there after an earlier JobMaster had deleted the claimed one.
    Replaced,
}

/// Deletes a claimed snapshot, unless another one is in its place.
async fn delete_snapshot(
    reader: &StateReader,
    claimed: &ClaimedSnapshot,
) -> Result<Deleted, CheckpointError> {
    let snapshot = match reader.snapshot(&claimed.uri).await {
        Ok(snapshot) => snapshot,
        Err(CheckpointError::NoSnapshot(_)) => return Ok(Deleted::Before),
        Err(error) => return Err(error),
    };
    if !claimed.is(&snapshot.metadata) {
        return Ok(Deleted::Replaced);
    }
    reader.delete(&snapshot).await?;
    Ok(Deleted::Now)
}

/// Records a checkpoint; repeats the append until its outcome is known.
async fn record(
    log: &OpenJobLog,
    session: model::LeaderSession,
    pointer: &CheckpointPointer,
    keep: &BTreeSet<u64>,
) -> Result<(), AppendError> {
    let append = || log.record_checkpoint(session, pointer.clone(), keep);
    retried("record a checkpoint", STORE_RETRY, AppendError::may_pass, append).await
}

/// The claimed snapshot is deleted: later checkpoints do not name it.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct ClaimedDeleted;

impl Handler<ClaimedDeleted> for JobMaster {
    type Result = ();

    fn handle(&mut self, _: ClaimedDeleted, _: &mut Context<Self>) {
        self.claimed = None;
    }
}

/// The coordinators have taken their snapshots.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct CoordinatorsSnapshotted {
    checkpoint: u64,
    outcome: Result<BTreeMap<OperatorId, StateHandle>, String>,
}

impl Handler<CoordinatorsSnapshotted> for JobMaster {
    type Result = ();

    fn handle(&mut self, snapshotted: CoordinatorsSnapshotted, ctx: &mut Context<Self>) {
        let CoordinatorsSnapshotted { checkpoint, outcome } = snapshotted;
        let now = self.now();
        self.core.coordinators_snapshotted(now, checkpoint, outcome);
        self.turn(ctx);
    }
}

/// A checkpoint is in the job's log, or its metadata could not be stored.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct CheckpointPersisted {
    checkpoint: u64,
    outcome: Result<Arc<CheckpointMetadata>, String>,
}

impl Handler<CheckpointPersisted> for JobMaster {
    type Result = ();

    fn handle(&mut self, persisted: CheckpointPersisted, ctx: &mut Context<Self>) {
        let CheckpointPersisted { checkpoint, outcome } = persisted;
        if let Ok(metadata) = &outcome {
            let took_ms = metadata.completed_ms.saturating_sub(metadata.triggered_ms);
            let (job, bytes) = (self.job_id(), metadata.state_bytes());
            let pause_us = self.core.checkpoint_pause_us(checkpoint);
            let _entered = self.trace_of(checkpoint).enter();
            tracing::info!(%job, checkpoint, took_ms, bytes, pause_us, "checkpoint complete");
        }
        let now = self.now();
        self.core.checkpoint_persisted(now, checkpoint, outcome);
        self.turn(ctx);
    }
}

impl Handler<Ask<CheckpointAnswer>> for JobMaster {
    type Result = Answer<CheckpointAnswer>;

    fn handle(
        &mut self,
        ask: Ask<CheckpointAnswer>,
        ctx: &mut Context<Self>,
    ) -> Answer<CheckpointAnswer> {
        let CheckpointAnswer { attempt, checkpoint, answer } = ask.body;
        let now = self.now();
        match answer {
            Ok(part) => self.core.acknowledged(now, &attempt, checkpoint, part),
            Err(why) => self.core.declined(now, &attempt, checkpoint, &why),
        }
        self.turn(ctx);
        Ok(())
    }
}
