//! Savepoints: their folders are opened before the job is asked to take them, so that a bad directory is refused before a source
//! stops. When they are taken is decided in `control::job_master`.

use super::JobMaster;
use crate::stores::{open_store, s3_settings};
use crate::turns::spawn_then;
use actix::fut::ActorFutureExt;
use actix::{Context, Handler, ResponseActFuture, WrapFuture};
use bytes::Bytes;
use conf::Options;
use conf::checkpointing::{DIRECTORY, SAVEPOINT_DIRECTORY, TIMEOUT};
use control::job_master::SavepointRequest;
use futures::FutureExt;
use futures::channel::oneshot;
use gateways::job_master::{SavepointError, TakeSavepoint};
use gateways::{Answer, Ask, TraceContext};
use model::{CheckpointKind, CheckpointMetadata, JobId};
use platform::Platform;
use std::{sync::Arc, time::Duration};
use storage::checkpoints::CheckpointError;
use storage::objects::{self, ObjectStore, S3Settings, StoreError};
use storage::savepoints::{SavepointFolder, folder_name, is_within, leads_into};

/// Longest the opening of a savepoint's directory may take. A remote store ends each call after 30 s by itself.
const OPENED_WITHIN: Duration = Duration::from_secs(60);

/// A savepoint or checkpoint that was asked for, until it is answered.
pub(super) struct Asked {
    /// The savepoint's folder and its URI; `None` for a checkpoint.
    folder: Option<(SavepointFolder, String)>,
    answer: oneshot::Sender<Answer<TakeSavepoint>>,
    /// The trace of the request.
    trace: TraceContext,
    /// True if the job stops with the savepoint.
    stops: bool,
}

impl JobMaster {
    /// Asks the core for a savepoint in the folder `name` of this directory. Returns the receiver of the answer.
    fn ask_savepoint(
        &mut self,
        kind: CheckpointKind,
        (directory, name): (&str, String),
        opened: Result<Arc<dyn ObjectStore>, SavepointError>,
        ctx: &mut Context<Self>,
    ) -> Result<oneshot::Receiver<Answer<TakeSavepoint>>, SavepointError> {
        let objects = opened?;
        let uri = objects::below(directory, &name);
        self.ask_core(kind, Some((SavepointFolder::new(objects, name), uri)), ctx)
    }

    /// Asks the core for a savepoint in a folder with its URI, or for a checkpoint. Returns the receiver of the answer.
    fn ask_core(
        &mut self,
        kind: CheckpointKind,
        folder: Option<(SavepointFolder, String)>,
        ctx: &mut Context<Self>,
    ) -> Result<oneshot::Receiver<Answer<TakeSavepoint>>, SavepointError> {
        let (number, now) = (self.next_number(), self.now());
        let (answer, answered) = oneshot::channel();
        let uri = folder.as_ref().map(|(_, uri)| uri.clone()).unwrap_or_default();
        let (trace, stops) = (TraceContext::current(), kind.stops());
        self.savepoints.insert(number, Asked { folder, answer, trace, stops });
        let request = SavepointRequest { number, kind, folder: uri };
        let taken = self.core.take_savepoint(now, request);
        if stops && taken.is_ok() {
            self.trace.set(trace);
        }
        self.turn(ctx);
        match taken {
            Ok(()) => Ok(answered),
            Err(refused) => {
                self.savepoints.remove(&number);
                Err(SavepointError::Refused(refused.to_string()))
            }
        }
    }

    /// Returns the trace of the request that asked for a checkpoint; none for one that the job takes by itself.
    pub(super) fn trace_of(&self, checkpoint: u64) -> TraceContext {
        let asked =
            self.core.request_of(checkpoint).and_then(|number| self.savepoints.get(&number));
        asked.map(|asked| asked.trace).unwrap_or_default()
    }

    /// Copies the parts of a savepoint into its folder.
    pub(super) fn store_savepoint(
        &self,
        number: u64,
        metadata: Arc<CheckpointMetadata>,
        ctx: &mut Context<Self>,
    ) {
        let folder = self.savepoints.get(&number).and_then(|asked| asked.folder.clone());
        let (Some((folder, uri)), reader) = (folder, self.state_reader()) else { return };
        let (within, checkpoint) = (self.deps.options.get(&TIMEOUT), metadata.checkpoint);
        let stored = async move {
            let outcome = folder.write(&reader, &metadata, within).await;
            outcome.map_err(|error| not_stored(&uri, &error))
        };
        spawn_then(ctx, stored, move |actor, outcome, ctx| {
            actor.core.savepoint_stored(actor.now(), checkpoint, outcome);
            actor.turn(ctx);
        });
    }

    /// Answers the caller that asked for a savepoint.
    pub(super) fn answer_savepoint(&mut self, number: u64, outcome: Result<String, String>) {
        let job = self.job_id();
        if let Some(asked) = self.savepoints.remove(&number) {
            let _entered = asked.trace.enter();
            if asked.stops && outcome.is_err() && self.trace.get() == asked.trace {
                // The job goes on.
                self.trace.set(self.deps.trace);
            }
            if let (Some(_), Ok(folder)) = (&asked.folder, &outcome) {
                tracing::info!(%job, folder, "savepoint complete");
            }
            // Whoever asked may have gone.
            let _ = asked.answer.send(outcome.map_err(SavepointError::Failed));
        }
    }
}

impl Handler<Ask<TakeSavepoint>> for JobMaster {
    type Result = ResponseActFuture<Self, Answer<TakeSavepoint>>;

    fn handle(&mut self, ask: Ask<TakeSavepoint>, ctx: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let TakeSavepoint { kind, directory } = ask.body;
        if !kind.is_savepoint() {
            let asked = self.ask_core(kind, None, ctx);
            return Box::pin(answered(asked).into_actor(self));
        }
        let (options, job) = (&self.deps.options, self.job_id());
        let directory = match directory_of(directory, options, job) {
            Ok(directory) => directory,
            Err(error) => return Box::pin(async { Err(error) }.into_actor(self)),
        };
        let (platform, s3) = (self.deps.services.platform.clone(), s3_settings(options));
        let name = folder_name(job, platform.random_u64());
        let (probe, own) = (format!("{name}.probe"), folder_of(options, job));
        let target = directory.clone();
        let opened = async move {
            if let Some(own) = own {
                let leads = tokio::time::timeout(OPENED_WITHIN, leads_into(&target, &own));
                if leads.await.unwrap_or(false) {
                    return Err(inside(&target, &own));
                }
            }
            let opened = open_writable(target.clone(), probe, platform, s3).await;
            opened.map_err(|error| unusable(&target, &error))
        };
        let trace = ask.caller.trace;
        Box::pin(opened.into_actor(self).then(move |opened, actor, ctx| {
            let _entered = trace.enter();
            let asked = actor.ask_savepoint(kind, (&directory, name), opened, ctx);
            answered(asked).boxed_local().into_actor(actor)
        }))
    }
}

/// Opens the directory of a savepoint, and checks that it can be written to: opening a local one does that, and into a remote one the
/// object `probe` is written, which is deleted again.
///
/// # Errors
/// Returns the store's error; [`StoreError::Unreachable`] after [`OPENED_WITHIN`].
async fn open_writable(
    directory: String,
    probe: String,
    platform: Platform,
    s3: S3Settings,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let opened = async {
        let objects = open_store(directory.clone(), platform, s3).await?;
        if objects::is_remote(&directory) {
            objects.put(&probe, Bytes::new()).await?;
            objects.delete(&probe).await?;
        }
        Ok(objects)
    };
    tokio::time::timeout(OPENED_WITHIN, opened).await.unwrap_or_else(|_| {
        let why = format!("it did not answer within {OPENED_WITHIN:?}");
        Err(StoreError::Unreachable { path: directory.clone(), why })
    })
}

/// Returns the reason of a savepoint that has failed because it could not be written into its folder, with the remedy.
fn not_stored(folder: &str, error: &CheckpointError) -> String {
    format!(
        "the savepoint is not stored in '{folder}': {error}; see that the JobManager can write there and has room, or name another \
         directory, and take the savepoint again"
    )
}

/// Returns the refusal of a savepoint whose directory cannot be used, with the remedy.
fn unusable(directory: &str, error: &StoreError) -> SavepointError {
    SavepointError::Directory(format!(
        "the savepoint cannot be stored in '{directory}': {error}; name a directory that the JobManager can write to, in the \
         request or by execution.checkpointing.savepoint-dir"
    ))
}

/// Returns the refusal of a savepoint in the folder `own` of the job's checkpoints, with the remedy.
fn inside(directory: &str, own: &str) -> SavepointError {
    SavepointError::Directory(format!(
        "the savepoint cannot be stored in '{directory}', which is in the folder of the job's checkpoints, {own}: the job deletes the \
         folders chk-… in there with its checkpoints; name a directory outside of it, in the request or by execution.checkpointing.savepoint-dir"
    ))
}

/// Returns the folder of the job's checkpoints; `None` if the job has no checkpoint directory.
fn folder_of(options: &Options, job: JobId) -> Option<String> {
    options.get(&DIRECTORY).map(|directory| objects::below(&directory, &job.to_string()))
}

/// Waits for the answer to a savepoint or checkpoint that was asked for.
async fn answered(
    asked: Result<oneshot::Receiver<Answer<TakeSavepoint>>, SavepointError>,
) -> Answer<TakeSavepoint> {
    let given_up = |_| Err(SavepointError::Failed("the JobMaster has given the job up".to_owned()));
    asked?.await.unwrap_or_else(given_up)
}

/// Returns the directory in which the folder of the job's savepoint is made: the one that was asked for, or else that of the job's options
/// (`execution.checkpointing.savepoint-dir`). Touches no store, so that a symbolic link into the folder of the job's checkpoints is not
/// found here.
///
/// # Errors
/// [`SavepointError::NoDirectory`] if there is none, [`SavepointError::Directory`] if it is a relative path, cannot be understood, or is in
/// the folder of the job's checkpoints, which are deleted.
pub(crate) fn directory_of(
    asked: Option<String>,
    options: &Options,
    job: JobId,
) -> Result<String, SavepointError> {
    let directory = asked.or_else(|| options.get(&SAVEPOINT_DIRECTORY));
    let directory = directory.ok_or(SavepointError::NoDirectory)?;
    check(&directory)?;
    match folder_of(options, job).filter(|own| is_within(&directory, own)) {
        Some(own) => Err(inside(&directory, &own)),
        None => Ok(directory),
    }
}

/// Refuses a relative path, which would depend on the folder that the JobManager was started in.
fn check(directory: &str) -> Result<(), SavepointError> {
    if objects::is_remote(directory) {
        return Ok(());
    }
    match objects::local_path(directory) {
        Ok(path) if path.is_absolute() => Ok(()),
        Ok(path) => Err(SavepointError::Directory(format!(
            "'{}' is a relative path; the directory for savepoints must be an absolute path or a URI",
            path.display()
        ))),
        Err(error) => Err(unusable(directory, &error)),
    }
}
