//! Savepoints and their disposal, which take longer than a call: a client triggers them, and then asks how they stand.

use super::leader::Dispatcher;
use super::needs::{Need, Needs, answered};
use super::questions::Asked;
use crate::job_master::directory_of;
use crate::stores::s3_settings;
use crate::turns::spawn_then;
use actix::{AsyncContext, Context, Handler};
use conf::checkpointing;
use control::dispatcher::OperationKey;
use gateways::dispatcher::{
    DisposeSavepoint, JobError, OperationState, OperationUnknown, RequestSavepoint,
    TriggerSavepoint,
};
use gateways::job_master::{Cancel, SavepointError, TakeSavepoint};
use gateways::{Answer, Ask, Deadline, TraceContext};
use model::{FailureCause, JobId};
use std::time::Duration;
use storage::state_reader::StateReader;

/// Longest an operation may take. The checkpoint's own time-out (`execution.checkpointing.timeout`) is what ends a slow savepoint; this
/// one only ends the wait for a JobMaster that never answers.
const OPERATION_WITHIN: Duration = Duration::from_secs(6 * 3600);
/// Longest an operation waits for the job's JobMaster, for its cancellation, or until the end of a stopped job is recorded.
const STEP_WITHIN: Duration = Duration::from_secs(60);

fn failed(why: &impl ToString) -> FailureCause {
    FailureCause::recoverable("SavepointFailed", why.to_string())
}

/// Takes a savepoint and does what has to follow it. Returns the URI of its folder.
async fn take(asked: Asked, ask: TriggerSavepoint) -> Result<String, FailureCause> {
    let deadline = Deadline::after(STEP_WITHIN);
    let job_master = asked.job_master(deadline).await.map_err(|error| failed(&error))?;
    let take = TakeSavepoint { kind: ask.kind, directory: ask.directory };
    let taken = job_master.ask_within(take, OPERATION_WITHIN).await;
    let folder = taken.map_err(|error| failed(&error))?;
    if ask.kind.stops() {
        // A client that hears of the stop must find the job finished.
        asked.result(STEP_WITHIN, || 0).await;
    } else if ask.cancel {
        let cancelled = asked.ask(Cancel {}, Deadline::after(STEP_WITHIN)).await;
        cancelled.map_err(|error| {
            failed(&format!(
                "the savepoint {folder} is complete, but the job is not cancelled: {error}"
            ))
        })?;
    }
    Ok(folder)
}

impl Handler<Ask<TriggerSavepoint>> for Dispatcher {
    type Result = Answer<TriggerSavepoint>;

    fn handle(&mut self, ask: Ask<TriggerSavepoint>, ctx: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let (job, trigger_id) = (ask.body.job_id, ask.body.trigger_id);
        let Some(asked) = self.asked(job) else {
            return Err(JobError::Terminated { job, status: self.ended_result(job)?.status });
        };
        let kind = ask.body.kind;
        if kind.is_savepoint() {
            self.check_directory(job, ask.body.directory.clone())?;
        }
        let is_checkpoint = !kind.is_savepoint();
        let key = OperationKey { job: Some(job), is_checkpoint, trigger: trigger_id };
        self.operate(key, take(asked, ask.body), ctx);
        Ok(())
    }
}

impl Handler<Ask<DisposeSavepoint>> for Dispatcher {
    type Result = Answer<DisposeSavepoint>;

    fn handle(&mut self, ask: Ask<DisposeSavepoint>, ctx: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let DisposeSavepoint { trigger_id, path } = ask.body;
        let services = &self.deps.services;
        let (platform, s3) = (services.platform.clone(), s3_settings(&services.options));
        let reader = StateReader::new(None, platform, s3);
        let addr = ctx.address();
        let dispose = async move {
            let snapshot =
                answered(&path, reader.snapshot(&path)).await.map_err(|why| failed(&why))?;
            let needs = Needs::of(&addr).await.map_err(|why| failed(&why))?;
            let need = needs.need_of(&reader, (&path, &snapshot), None).await;
            let stays = match need.map_err(|why| failed(&why))? {
                None => {
                    reader.delete(&snapshot).await.map_err(|error| failed(&error))?;
                    return Ok(path);
                }
                Some(Need::Runs(job)) => {
                    format!("{path} is a checkpoint of job {job}, which runs and needs it")
                }
                Some(Need::Unknown) => format!(
                    "a job may need {path}: the jobs of the JobManager before are still being read; try again when they are there"
                ),
                Some(Need::StartedFrom(job)) => format!(
                    "job {job} was started from {path} and needs it until a checkpoint of its own is complete"
                ),
                Some(Need::BuiltOn(others)) => format!(
                    "{path} has files that other checkpoints of its job build on: dispose of them first: {}",
                    others.join(", ")
                ),
            };
            Err(failed(&stays))
        };
        let key = OperationKey { job: None, is_checkpoint: false, trigger: trigger_id };
        self.operate(key, dispose, ctx);
        Ok(())
    }
}

impl Handler<Ask<RequestSavepoint>> for Dispatcher {
    type Result = Answer<RequestSavepoint>;

    fn handle(&mut self, ask: Ask<RequestSavepoint>, _: &mut Context<Self>) -> Self::Result {
        let RequestSavepoint { job_id, is_checkpoint, trigger_id } = ask.body;
        let key = OperationKey { job: job_id, is_checkpoint, trigger: trigger_id };
        match self.operations.get(&key) {
            None => Err(OperationUnknown(trigger_id)),
            Some(None) => Ok(OperationState::InProgress),
            Some(Some(Ok(folder))) => Ok(OperationState::Done(folder.clone())),
            Some(Some(Err(cause))) => Ok(OperationState::Failed(cause.clone())),
        }
    }
}

impl Dispatcher {
    /// Refuses a savepoint of a running job that has no directory to go to, a relative one, or one among the job's checkpoints. Whether the
    /// directory can be written to shows later.
    fn check_directory(&self, job: JobId, asked: Option<String>) -> Result<(), JobError> {
        let Some(known) = self.jobs.get(&job) else { return Ok(()) };
        // The options were merged when the job was submitted or recovered, so that they merge now.
        let Ok(options) = self.merged(&known.graph.options) else { return Ok(()) };
        // Where the checkpoints of a recovered job are, its options need not say any more.
        let options = options.with_value(&checkpointing::DIRECTORY, &known.checkpoint_directory);
        let wrong = |error: SavepointError| JobError::SavepointDirectory(error.to_string());
        directory_of(asked, &options, job).map(drop).map_err(wrong)
    }

    /// Runs an operation unless it was begun before.
    fn operate(
        &mut self,
        key: OperationKey,
        operation: impl Future<Output = Result<String, FailureCause>> + 'static,
        ctx: &mut Context<Self>,
    ) {
        if self.operations.begin(key) {
            let trace = TraceContext::current();
            spawn_then(ctx, operation, move |actor, outcome, _| {
                let _entered = trace.enter();
                actor.operation_ended(key, outcome);
            });
        }
    }

    /// Records the outcome of an operation.
    fn operation_ended(&mut self, key: OperationKey, outcome: Result<String, FailureCause>) {
        if let Err(cause) = &outcome {
            // Whoever asked may never ask how it stands: YARN's proxy does not.
            let (job, trigger) = (key.job.map(tracing::field::display), key.trigger);
            tracing::warn!(job, %trigger, %cause, "a savepoint, or the disposal of one, has failed");
        }
        self.operations.end(key, outcome);
    }
}
