//! The handlers of a TaskExecutor's calls.
//!
//! A call of a ResourceManager or JobMaster counts only if it comes from the connected session: [`TaskExecutor::of`]
//! determines the session of a call, and the core compares it with the connected one.

use super::{JobShell, TaskExecutor};
use crate::probe::Fact;
use actix::{
    ActorContext as _, ActorFutureExt as _, Context, Handler, Message, ResponseActFuture,
    ResponseFuture, WrapFuture as _,
};
use control::slot_table::AllocateError;
use control::task_executor::{Event, JobMasterRefusal, SlotRefusal, SlotRequest};
use futures::FutureExt as _;
use gateways::job_master::{CoordinationError, DisconnectTaskManager, OperatorEvent};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::DisconnectTaskExecutor;
use gateways::task_executor::{
    CancelTasks, DeployError, DeployTasks, DisconnectJobMaster, DisconnectResourceManager,
    ForwardOperatorEvent, FreeSlot, LogError, ReadLog, ReportTaskStates, RequestLogs, RequestSlot,
    SlotRequestError,
};
use gateways::{Answer, Ask, Call, Caller, Principal, TraceContext};
use model::{
    ExecutionAttemptId, FailureCause, Fence as _, JobId, JobMasterId, LeaderSession,
    ResourceManagerId, SlotId,
};
use std::collections::BTreeSet;
use std::future::ready;
use std::time::Duration;

/// Maximum time for which a leaving process waits for the answers to its goodbyes.
const GOODBYE: Duration = Duration::from_secs(1);

/// Say goodbye, end all hosts, end.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Leave {
    /// Failure that is the reason.
    pub(super) cause: String,
}

impl Handler<Leave> for TaskExecutor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, message: Leave, _: &mut Self::Context) -> Self::Result {
        self.leaving = true;
        let resource_id = self.services.resource_id.clone();
        let cause = FailureCause::recoverable("TaskManagerStopped", message.cause);
        let mut goodbyes = Vec::new();
        for (job, shell) in &mut self.jobs {
            let Some((connection, known)) = shell.connection.take().zip(self.core.job_master(*job))
            else {
                continue;
            };
            let message = DisconnectTaskManager {
                resource_id: resource_id.clone(),
                instance_id: known.instance,
                cause: cause.clone(),
            };
            let said = async move { connection.remote.ask_within(message, GOODBYE).await.is_ok() };
            goodbyes.push(said.boxed());
        }
        if let Some(manager) = self.manager.take() {
            let instance_id = manager.instance;
            let message = DisconnectTaskExecutor { resource_id, instance_id, cause };
            let said = async move { manager.remote.ask_within(message, GOODBYE).await.is_ok() };
            goodbyes.push(said.boxed());
        }
        let hosts = self.end_all_hosts();
        // Tasks end first: a peer must not hear that they have ended before they have.
        let all = async move {
            hosts.await;
            futures::future::join_all(goodbyes).await;
        };
        Box::pin(all.into_actor(self).map(|(), _, ctx: &mut Context<Self>| ctx.stop()))
    }
}

impl TaskExecutor {
    /// Makes the trace of a request that starts or ends work of a job the one in which this process works for the job.
    fn follow(&mut self, job: JobId, trace: TraceContext) {
        if let Some(shell) = self.jobs.get_mut(&job) {
            shell.trace = trace.or_else(|| shell.trace);
        }
    }

    /// Notes that a call of a session that is not the connected one changed nothing.
    pub(super) fn note_stale<C: Call>(&self, caller: LeaderSession) {
        self.services.probe.note(Fact::StaleCallerRefused { call: C::NAME, caller });
    }

    /// Returns the session of the leader that makes a call. This is the only place that reads a leader's token: every
    /// call of a leader carries its session, and if the message names a session too (`named`), the two must be equal.
    /// Returns `None` if the call has no valid session; it must then change nothing.
    pub(super) fn of<C: Call>(
        &self,
        caller: &Caller,
        named: Option<LeaderSession>,
    ) -> Option<LeaderSession> {
        let session = caller.session.filter(|session| named.is_none_or(|named| named == *session));
        if session.is_none() {
            tracing::debug!(call = C::NAME, ?named, carried = ?caller.session, "refused: not a leader");
            if let Some(caller) = caller.session.or(named) {
                self.note_stale::<C>(caller);
            }
        }
        session
    }
}

impl Handler<Ask<RequestSlot>> for TaskExecutor {
    type Result = Answer<RequestSlot>;

    fn handle(&mut self, ask: Ask<RequestSlot>, ctx: &mut Self::Context) -> Answer<RequestSlot> {
        let _entered = ask.caller.trace.enter();
        let Ask { body, caller } = ask;
        let by = body.resource_manager_id;
        if self.leaving || self.of::<RequestSlot>(&caller, Some(by.session())).is_none() {
            return Err(SlotRequestError::NotMyResourceManager);
        }
        if body.slot_id.resource_id != self.services.resource_id {
            return Err(SlotRequestError::NoSuchSlot(body.slot_id.to_string()));
        }
        let request = SlotRequest {
            by,
            index: body.slot_id.index,
            job: body.job_id,
            allocation: body.allocation_id,
            need: body.profile,
            program: body.program,
        };
        match self.core.request_slot(self.now(), &request) {
            Ok(commands) => {
                let session = body.job_master_id.session();
                let hint = LeaderInformation { session, address: body.job_master };
                let shell: &mut JobShell = self.jobs.entry(body.job_id).or_default();
                if shell.hint.as_ref().is_none_or(|known| known.session <= session) {
                    shell.hint = Some(hint);
                }
                self.follow(body.job_id, caller.trace);
                self.note_obeyed::<RequestSlot>(Component::ResourceManager, by.session());
                self.apply(commands, ctx);
                Ok(())
            }
            Err(refusal) => {
                if refusal == SlotRefusal::NotMyResourceManager {
                    self.note_stale::<RequestSlot>(by.session());
                }
                Err(slot_error(body.slot_id, refusal))
            }
        }
    }
}

fn slot_error(slot: SlotId, refusal: SlotRefusal) -> SlotRequestError {
    match refusal {
        SlotRefusal::NotMyResourceManager => SlotRequestError::NotMyResourceManager,
        SlotRefusal::Table(AllocateError::NoSuchSlot(_)) => {
            SlotRequestError::NoSuchSlot(slot.to_string())
        }
        SlotRefusal::Table(AllocateError::Occupied { job, allocation }) => {
            SlotRequestError::Occupied { slot, job, allocation_id: allocation }
        }
        SlotRefusal::Table(
            other @ (AllocateError::AllocatedElsewhere(_) | AllocateError::TooSmall { .. }),
        ) => SlotRequestError::Unsuitable(other.to_string()),
    }
}

impl Handler<Ask<FreeSlot>> for TaskExecutor {
    type Result = Answer<FreeSlot>;

    fn handle(&mut self, ask: Ask<FreeSlot>, ctx: &mut Self::Context) -> Answer<FreeSlot> {
        let _entered = ask.caller.trace.enter();
        let FreeSlot { allocation_id, cause } = ask.body;
        let by = self.of::<FreeSlot>(&ask.caller, None).ok_or(SlotRequestError::NotMyJobMaster)?;
        let now = self.now();
        let manager = ResourceManagerId::from_session(by);
        if let Some(commands) = self.core.take_back_slot(now, manager, allocation_id) {
            tracing::debug!(allocation = %allocation_id, cause, "the ResourceManager took a slot back");
            self.note_obeyed::<FreeSlot>(Component::ResourceManager, by);
            self.apply(commands, ctx);
            return Ok(());
        }
        match self.core.free_slot(now, JobMasterId::from_session(by), allocation_id) {
            Ok(commands) => {
                tracing::debug!(allocation = %allocation_id, cause, "the JobMaster gave a slot back");
                let held = self.noted.iter().flatten().find(|a| a.allocation_id == allocation_id);
                if let Some(job) = held.map(|a| a.job_id) {
                    self.follow(job, ask.caller.trace);
                    self.note_obeyed::<FreeSlot>(Component::JobMaster(job), by);
                }
                self.apply(commands, ctx);
                Ok(())
            }
            Err(JobMasterRefusal::NoSuchAllocation(allocation)) => {
                Err(SlotRequestError::NoSuchSlot(allocation.to_string()))
            }
            Err(_) => {
                self.note_stale::<FreeSlot>(by);
                Err(SlotRequestError::NotMyJobMaster)
            }
        }
    }
}

fn deploy_error(job: JobId, refusal: JobMasterRefusal) -> DeployError {
    match refusal {
        JobMasterRefusal::NoJobMaster(job) => DeployError::NoJobMaster { job },
        JobMasterRefusal::OtherJobMaster => DeployError::OtherJobMaster,
        JobMasterRefusal::NoSuchAllocation(allocation_id) => {
            DeployError::NoSuchAllocation { allocation_id, job }
        }
        JobMasterRefusal::HostNotUp => DeployError::Host(refusal.to_string()),
    }
}

impl Handler<Ask<DeployTasks>> for TaskExecutor {
    type Result = ResponseActFuture<Self, Answer<DeployTasks>>;

    fn handle(&mut self, ask: Ask<DeployTasks>, ctx: &mut Self::Context) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let Ask { body: mut deployment, caller } = ask;
        let job = deployment.job_id;
        let by = deployment.job_master_id;
        if self.of::<DeployTasks>(&caller, Some(by.session())).is_none() {
            return Box::pin(ready(Err(DeployError::OtherJobMaster)).into_actor(self));
        }
        let tasks: Vec<_> = deployment.tasks.iter().map(|t| (t.attempt, t.allocation_id)).collect();
        let decided = match self.core.deploy(self.now(), job, by, &tasks) {
            Ok(decided) => decided,
            Err(refusal) => {
                if refusal == JobMasterRefusal::OtherJobMaster {
                    self.note_stale::<DeployTasks>(by.session());
                }
                return Box::pin(ready(Err(deploy_error(job, refusal))).into_actor(self));
            }
        };
        self.note_obeyed::<DeployTasks>(Component::JobMaster(job), by.session());
        self.follow(job, caller.trace);
        self.apply(decided.commands, ctx);
        let refused = decided.refused.into_iter();
        let refused: Vec<_> = refused.map(|(a, refusal)| (a, deploy_error(job, refusal))).collect();
        let accepted: BTreeSet<ExecutionAttemptId> = decided.accepted.into_iter().collect();
        if accepted.is_empty() {
            return Box::pin(ready(Ok(refused)).into_actor(self));
        }
        deployment.tasks.retain(|task| accepted.contains(&task.attempt));
        let answer = self.deploy_on_host(deployment);
        Box::pin(answer.into_actor(self).map(move |answer, executor, ctx| {
            let gone = || DeployError::Host("it ended before it answered".into());
            match answer.unwrap_or_else(|_| Err(gone())) {
                Ok(by_host) => {
                    let attempts = by_host.iter().map(|(attempt, _)| *attempt).collect();
                    executor.step(Event::NotDeployed { job, attempts }, ctx);
                    Ok(refused.into_iter().chain(by_host).collect())
                }
                Err(error) => {
                    let attempts = accepted.into_iter().collect();
                    executor.step(Event::NotDeployed { job, attempts }, ctx);
                    Err(error)
                }
            }
        }))
    }
}

impl Handler<Ask<CancelTasks>> for TaskExecutor {
    type Result = Answer<CancelTasks>;

    fn handle(&mut self, ask: Ask<CancelTasks>, ctx: &mut Self::Context) -> Answer<CancelTasks> {
        let _entered = ask.caller.trace.enter();
        let CancelTasks { job_id, attempts } = ask.body;
        let Some(by) = self.of::<CancelTasks>(&ask.caller, None) else { return Ok(()) };
        match self.core.cancel(job_id, JobMasterId::from_session(by), &attempts) {
            Ok(commands) => {
                self.follow(job_id, ask.caller.trace);
                self.note_obeyed::<CancelTasks>(Component::JobMaster(job_id), by);
                self.apply(commands, ctx);
            }
            Err(refusal) => {
                tracing::debug!(job = %job_id, %refusal, "a cancellation is ignored");
                self.note_stale::<CancelTasks>(by);
            }
        }
        Ok(())
    }
}

impl Handler<Ask<DisconnectJobMaster>> for TaskExecutor {
    type Result = Answer<DisconnectJobMaster>;

    fn handle(&mut self, ask: Ask<DisconnectJobMaster>, ctx: &mut Self::Context) -> Self::Result {
        let DisconnectJobMaster { job_id, job_master_id, cause } = ask.body;
        let named = Some(job_master_id.session());
        if self.of::<DisconnectJobMaster>(&ask.caller, named).is_some() {
            let _entered = ask.caller.trace.enter();
            self.follow(job_id, ask.caller.trace);
            let reason = format!("the JobMaster ended the connection: {cause}");
            let lost =
                Event::JobMasterLost { job: job_id, id: job_master_id, reason, reconnect: true };
            self.step(lost, ctx);
        }
        Ok(())
    }
}

impl Handler<Ask<DisconnectResourceManager>> for TaskExecutor {
    type Result = Answer<DisconnectResourceManager>;

    fn handle(
        &mut self,
        ask: Ask<DisconnectResourceManager>,
        ctx: &mut Self::Context,
    ) -> Answer<DisconnectResourceManager> {
        let DisconnectResourceManager { resource_manager_id: id, cause: reason, terminate } =
            ask.body;
        let _entered = ask.caller.trace.enter();
        if self.of::<DisconnectResourceManager>(&ask.caller, Some(id.session())).is_some() {
            if terminate {
                ask.caller.trace.enter_process();
            }
            self.step(
                match terminate {
                    true => Event::ResourceManagerReleases { id, reason },
                    false => Event::ResourceManagerLost { id, reason },
                },
                ctx,
            );
        }
        Ok(())
    }
}

impl Handler<Ask<ReportTaskStates>> for TaskExecutor {
    type Result = Answer<ReportTaskStates>;

    fn handle(&mut self, ask: Ask<ReportTaskStates>, ctx: &mut Self::Context) -> Self::Result {
        let ReportTaskStates { job_id: job, updates } = ask.body;
        if is_of_job(ask.caller.principal, job) {
            self.step(Event::TaskStates { job, updates }, ctx);
        }
        Ok(())
    }
}

/// Returns true if the caller may act for the job: a host may do so for its own job only.
pub(super) fn is_of_job(principal: Principal, job: JobId) -> bool {
    match principal {
        Principal::Local | Principal::Cluster => true,
        Principal::Host { job: own } => own == job,
    }
}

impl Handler<Ask<ForwardOperatorEvent>> for TaskExecutor {
    type Result = ResponseFuture<Answer<ForwardOperatorEvent>>;

    fn handle(&mut self, ask: Ask<ForwardOperatorEvent>, _: &mut Self::Context) -> Self::Result {
        let ForwardOperatorEvent { job_id, attempt, operator, event } = ask.body;
        let principal = ask.caller.principal;
        if !is_of_job(principal, job_id) || !self.core.is_running(job_id, attempt) {
            return Box::pin(ready(Err(CoordinationError::StaleAttempt { attempt })));
        }
        let connection = self.jobs.get(&job_id).and_then(|shell| shell.connection.as_ref());
        let Some(remote) = connection.map(|connection| connection.remote.clone()) else {
            let why = "no JobMaster is connected".to_owned();
            return Box::pin(ready(Err(CoordinationError::Unavailable(why))));
        };
        let within = ask.caller.deadline.remaining();
        Box::pin(async move {
            let message = OperatorEvent { attempt, operator, event };
            remote.ask_within(message, within).await.map_err(CoordinationError::from)
        })
    }
}

impl Handler<Ask<RequestLogs>> for TaskExecutor {
    type Result = ResponseFuture<Answer<RequestLogs>>;

    fn handle(&mut self, _: Ask<RequestLogs>, _: &mut Self::Context) -> Self::Result {
        let Some(folder) = self.deps.logs.clone() else { return Box::pin(ready(Ok(Vec::new()))) };
        Box::pin(folder.list())
    }
}

impl Handler<Ask<ReadLog>> for TaskExecutor {
    type Result = ResponseFuture<Answer<ReadLog>>;

    fn handle(&mut self, ask: Ask<ReadLog>, _: &mut Self::Context) -> Self::Result {
        let ReadLog { name, offset, max } = ask.body;
        let Some(folder) = self.deps.logs.clone() else {
            return Box::pin(ready(Err(LogError::NoSuchFile(name))));
        };
        Box::pin(folder.read(name, offset, max).map(|read| read.map(serde_bytes::ByteBuf::from)))
    }
}
