//! Turns the core's commands into calls.

use super::{JobMaster, coordinators::cause_of_fabric};
use crate::probe::Fact;
use crate::turns::spawn_then;
use actix::{AsyncContext, Context};
use control::job_master::Command;
use control::scheduler::{Deployment, ProducerTable};
use gateways::job_services::JobReachedTerminalState;
use gateways::program_host::SnapshotCoordinators;
use gateways::task_executor::{CancelTasks, DeployTasks, EdgeProducers, FreeSlot, TaskDeployment};
use gateways::{CallError, NodeAddress, until_answered};
use model::{EdgeId, ExecutionAttemptId, FailureCause, JobId, JobStatus};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest a deployment may take: it holds the graph and the producers of thousands of tasks.
const DEPLOY_WITHIN: Duration = Duration::from_secs(60);

/// Tables of one turn in the form of messages, each made once and shared by all deployments.
#[derive(Default)]
pub(super) struct TableCache(BTreeMap<EdgeId, (Arc<ProducerTable>, Arc<EdgeProducers>)>);

impl TableCache {
    fn message(&mut self, table: &Arc<ProducerTable>) -> Arc<EdgeProducers> {
        match self.0.get(&table.edge) {
            Some((known, message)) if Arc::ptr_eq(known, table) => message.clone(),
            _ => {
                let message = Arc::new(EdgeProducers {
                    edge: table.edge,
                    vertex: table.vertex,
                    addresses: table.addresses.iter().map(NodeAddress::new).collect(),
                    subtasks: table.subtasks.clone(),
                });
                self.0.insert(table.edge, (table.clone(), message.clone()));
                message
            }
        }
    }
}

impl JobMaster {
    pub(super) fn execute_all(&mut self, commands: Vec<Command>, ctx: &mut Context<Self>) {
        let mut tables = TableCache::default();
        for command in commands {
            self.execute(command, &mut tables, ctx);
        }
    }

    fn execute(&mut self, command: Command, tables: &mut TableCache, ctx: &mut Context<Self>) {
        match command {
            Command::Declare(_) => self.declare(ctx),
            Command::Deploy(deployment) => self.deploy(deployment, tables, ctx),
            Command::CancelTasks { task_manager, attempts } => {
                if let Some(link) = self.task_managers.get(&task_manager.resource_id) {
                    // A hint that may be lost: while a report lists the task as running, the core gives the command
                    // again.
                    link.gateway.tell(CancelTasks { job_id: self.job_id(), attempts });
                }
            }
            Command::FreeSlot { task_manager, allocation } => {
                if let Some(link) = self.task_managers.get(&task_manager.resource_id) {
                    let cause = "the job does not hold this slot any more".to_owned();
                    // A hint that may be lost: while a report lists the slot, the core gives the command again.
                    link.gateway.tell(FreeSlot { allocation_id: allocation, cause });
                }
            }
            Command::StartCoordinators { round, operators, restore } => {
                self.start_coordinators(round, operators, restore, ctx);
            }
            Command::ResetSubtasks { round, attempts, checkpoint } => {
                self.reset_subtasks(round, attempts, checkpoint, ctx);
            }
            Command::RecordCheckpointNumber(checkpoint) => self.record_number(checkpoint, ctx),
            Command::SnapshotCoordinators { checkpoint, operators } => {
                self.snapshot_coordinators(SnapshotCoordinators { checkpoint, operators }, ctx);
            }
            Command::TriggerCheckpoint { task_manager, attempts, barrier } => {
                self.trigger_checkpoint(&task_manager.resource_id, attempts, barrier);
            }
            Command::PersistCheckpoint(metadata) => self.persist_checkpoint(metadata, ctx),
            Command::StoreSavepoint { number, metadata } => {
                self.store_savepoint(number, metadata, ctx);
            }
            Command::SavepointEnded { number, outcome } => self.answer_savepoint(number, outcome),
            Command::NotifyCheckpoint { task_manager, attempts, checkpoint, complete } => {
                self.notify_checkpoint(&task_manager.resource_id, attempts, checkpoint, complete);
            }
            Command::CoordinatorsCheckpointEnded { checkpoint, complete } => {
                self.tell_coordinators(checkpoint, complete);
            }
            Command::CheckpointAborted { checkpoint, why } => {
                let _entered = self.trace_of(checkpoint).enter();
                tracing::warn!(job = %self.job_id(), checkpoint, why, "checkpoint aborted");
            }
            Command::DiscardObjects(objects) => self.discard_objects(objects),
            Command::DeleteOrphans { below, keep } => self.delete_orphans(below, keep),
            Command::PublishResults { round } => self.publish_results(round, ctx),
            Command::AbandonResults => self.abandon_results(),
            Command::StatusChanged(status) => self.log_status(status),
            Command::Ended(status) => self.end(status, ctx),
        }
    }

    /// Logs that the job has another status. A failure that repeats is logged once a minute, with a count.
    fn log_status(&mut self, status: JobStatus) {
        let (job, name) = (self.job_id(), &self.core.graph().name);
        self.deps.services.probe.note(Fact::JobStatusChanged {
            session: self.session(),
            job_id: job,
            status,
            cause: self.core.last_failure().map(|failure| failure.cause.kind.clone()),
        });
        let failing = matches!(status, JobStatus::Restarting | JobStatus::Failing);
        let now = self.now().mono;
        match self.core.last_failure().filter(|_| failing) {
            Some(failure) => {
                let task = failure.task.as_deref().unwrap_or("-");
                let place = failure.resource_id.as_ref().map(ToString::to_string);
                let task_manager = place.as_deref().unwrap_or("-");
                let cause = &failure.cause;
                match self.repeats.count(&format!("{status} {cause}"), now) {
                    Some(repeats) => {
                        log_repeats(job, repeats);
                        tracing::warn!(%job, name, %status, task, task_manager, %cause, "job status");
                    }
                    None => {
                        tracing::debug!(%job, name, %status, task, task_manager, %cause, "job status");
                    }
                }
            }
            None if status == JobStatus::Running && self.repeats.is_counting() => {
                tracing::debug!(%job, name, %status, "job status");
            }
            None => {
                log_repeats(job, self.repeats.take());
                tracing::info!(%job, name, %status, "job status");
            }
        }
    }

    fn deploy(&mut self, deployment: Deployment, tables: &mut TableCache, ctx: &mut Context<Self>) {
        let resource = deployment.task_manager.resource_id.clone();
        let attempts: Vec<ExecutionAttemptId> =
            deployment.tasks.iter().map(|t| t.attempt).collect();
        let (job_id, job_master_id) = (self.job_id(), self.deps.session);
        let Some(link) = self.task_managers.get_mut(&resource) else {
            // Lost in this very turn: its loss ends the tasks too.
            return;
        };
        let knows_graph = link.graph_at.as_deref() == Some(&*deployment.data_address);
        let message = DeployTasks {
            job_id,
            job_master_id,
            graph: (!knows_graph).then(|| self.core.graph().clone()),
            producers: deployment.producers.iter().map(|table| tables.message(table)).collect(),
            tasks: deployment
                .tasks
                .into_iter()
                .map(|task| TaskDeployment {
                    attempt: task.attempt,
                    allocation_id: task.allocation,
                    restore: task.restore,
                    ended: task.ended,
                })
                .collect(),
            checkpoint_dir: self.deps.options.get(&conf::checkpointing::DIRECTORY),
            ends_with_checkpoint: self.core.tasks_await_checkpoint(),
        };
        let (gateway, data_address) = (link.gateway.clone(), deployment.data_address);
        let answered = async move {
            match gateway.ask_within(message, DEPLOY_WITHIN).await {
                Ok(refused) => Ok(refused
                    .into_iter()
                    .map(|(attempt, error)| (attempt, refusal(&error.to_string())))
                    .collect()),
                Err(CallError::Refused(error)) => Err(refusal(&error.to_string())),
                Err(CallError::Fabric(error)) => {
                    Err(cause_of_fabric("DeploymentFailed", "the deployment", &error))
                }
            }
        };
        spawn_then(ctx, answered, move |actor, answer, ctx| {
            if let Some(link) = actor.task_managers.get_mut(&resource) {
                // A host that has taken one deployment has the graph; after a failure that is unknown.
                link.graph_at = answer.is_ok().then_some(data_address);
            }
            actor.core.deploy_answered(actor.now(), &resource, &attempts, answer);
            actor.turn(ctx);
        });
    }

    /// Ends the job for good: leaves the ResourceManager, so that returned slots are not given to
    /// the job again; disconnects the TaskExecutors; then reports the end to the runner until it
    /// answers.
    fn end(&mut self, status: JobStatus, ctx: &mut Context<Self>) {
        self.ended = true;
        let cause = FailureCause::fatal("JobEnded", format!("the job has ended as {status}"));
        // First of all the job needs nothing any more: slots that come back are not given to it again.
        self.leave_resource_manager(true);
        self.disconnect_task_managers(&cause, true);
        let details = Box::new(self.core.details(self.now()));
        let runner = self.deps.runner.clone();
        let job_master_id = self.deps.session;
        let addr = ctx.address();
        actix::spawn(async move {
            let report = JobReachedTerminalState { job_master_id, details, status };
            if let Some(Err(error)) = until_answered(&runner, &report, || addr.connected()).await {
                tracing::warn!(%error, "cannot report the job's end to its runner");
            }
        });
    }
}

fn refusal(message: &str) -> FailureCause {
    FailureCause::recoverable("DeploymentRefused", message)
}

fn log_repeats(job: JobId, repeats: u64) {
    if repeats > 0 {
        tracing::warn!(%job, repeats, "the last failure of the job came again");
    }
}
