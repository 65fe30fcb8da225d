//! The JobMaster's side of its connections to TaskExecutors.

use super::JobMaster;
use crate::services::{HeartbeatReport, LossCause, PeerWatch, Target};
use actix::{AsyncContext, Context, Handler};
use control::execution_graph::TaskManager;
use control::slot_pool::Registration;
use gateways::heartbeat::{BeatPayload, Party};
use gateways::job_master::{RegisterTaskManager, RegistrationRefused, TaskManagerAccepted};
use gateways::task_executor::{DisconnectJobMaster, FreeSlot, TaskExecutorGateway};
use gateways::{EndpointAddress, Remote};
use model::{FailureCause, InstanceId, ProcessSession, ResourceId};
use std::sync::Arc;

/// The connection to a registered TaskExecutor.
#[derive(Debug)]
pub(super) struct TaskManagerLink {
    pub(super) instance_id: InstanceId,
    pub(super) gateway: Remote<TaskExecutorGateway>,
    pub(super) party: Party,
    _watch: PeerWatch,
    /// The host (by data address) that was sent the graph.
    pub(super) graph_at: Option<Arc<str>>,
}

impl JobMaster {
    pub(super) fn register(
        &mut self,
        request: RegisterTaskManager,
        ctx: &mut Context<Self>,
    ) -> Result<TaskManagerAccepted, RegistrationRefused> {
        if self.ended {
            let status = self.core.status();
            let reason = format!("job {} is {status} here", self.job_id());
            return Err(RegistrationRefused { reason, retry: !status.is_globally_terminal() });
        }
        let task_manager = TaskManager {
            resource_id: request.resource_id.clone(),
            instance_id: request.instance_id,
            host: request.host.clone(),
        };
        let registration = self.core.register_task_manager(self.now(), task_manager);
        let same = registration == Registration::Known
            && self.link_of(&request.resource_id, request.instance_id).is_some_and(|link| {
                *link.gateway.address() == request.address
                    && link.gateway.fence() == request.session
            });
        if !same {
            let link = self.link(&request, ctx);
            self.task_managers.insert(request.resource_id.clone(), link);
        }
        tracing::info!(
            job = %self.job_id(), task_manager = %request.resource_id, ?registration, "TaskManager registered"
        );
        self.turn(ctx);
        Ok(TaskManagerAccepted {
            resource_id: self.deps.services.resource_id.clone(),
            heartbeat: self.deps.services.heartbeat_address(),
        })
    }

    fn link(&self, request: &RegisterTaskManager, ctx: &mut Context<Self>) -> TaskManagerLink {
        let party = Party::TaskExecutor {
            resource_id: request.resource_id.clone(),
            session: request.session,
            instance_id: request.instance_id,
        };
        let target = Target {
            party: party.clone(),
            address: request.heartbeat.clone(),
            session: request.session,
        };
        let heartbeat = &self.deps.services.heartbeat;
        let report_to = ctx.address().recipient();
        let watch = heartbeat.watch(self.party(), target, &self.marker, report_to);
        TaskManagerLink {
            instance_id: request.instance_id,
            gateway: self.task_executor(&request.address, request.session),
            party,
            _watch: watch,
            graph_at: None,
        }
    }

    fn task_executor(
        &self,
        address: &EndpointAddress,
        session: ProcessSession,
    ) -> Remote<TaskExecutorGateway> {
        self.rpc().gateway(address, session).with_session(self.session())
    }

    pub(super) fn link_of(
        &self,
        resource: &ResourceId,
        instance: InstanceId,
    ) -> Option<&TaskManagerLink> {
        self.task_managers.get(resource).filter(|link| link.instance_id == instance)
    }

    /// Removes a connection that is lost; the tasks that ran there have failed.
    pub(super) fn lose_task_manager(
        &mut self,
        resource: &ResourceId,
        instance: InstanceId,
        cause: FailureCause,
        ctx: &mut Context<Self>,
    ) {
        if self.link_of(resource, instance).is_none() {
            return;
        }
        if let Some(link) = self.task_managers.remove(resource) {
            // A hint that may be lost. A TaskExecutor that lives but was cut off learns from it, or from the missing
            // heartbeats, that the connection has ended.
            link.gateway.tell(self.disconnect(&cause));
        }
        let job = self.job_id();
        if cause.is_consequence() {
            tracing::info!(%job, task_manager = %resource, %cause, "TaskManager disconnected");
        } else {
            tracing::warn!(%job, task_manager = %resource, %cause, "TaskManager lost");
        }
        self.core.task_manager_lost(self.now(), resource, instance, &cause);
        self.turn(ctx);
    }

    fn disconnect(&self, cause: &FailureCause) -> DisconnectJobMaster {
        DisconnectJobMaster {
            job_id: self.job_id(),
            job_master_id: self.deps.session,
            cause: cause.clone(),
        }
    }

    /// Ends all connections. If `free` is true, slots go back to the ResourceManager; otherwise
    /// TaskExecutors keep them for the next JobMaster for a while.
    pub(super) fn disconnect_task_managers(&mut self, cause: &FailureCause, free: bool) {
        for (resource, link) in std::mem::take(&mut self.task_managers) {
            if free {
                for allocation_id in self.core.slots_on(&resource) {
                    // A hint that may be lost: a slot without a JobMaster is freed after `taskmanager.slot.timeout`.
                    link.gateway.tell(FreeSlot { allocation_id, cause: cause.message.clone() });
                }
            }
            // A hint that may be lost: the missing heartbeats have the same effect.
            link.gateway.tell(self.disconnect(cause));
        }
    }
}

impl Handler<HeartbeatReport> for JobMaster {
    type Result = ();

    fn handle(&mut self, report: HeartbeatReport, ctx: &mut Context<Self>) {
        match report {
            HeartbeatReport::Payload { party, payload } => {
                self.task_manager_reports(&party, payload, ctx);
            }
            HeartbeatReport::Lost { party, cause } => match &party {
                Party::TaskExecutor { resource_id, instance_id, .. } => {
                    let (resource, instance) = (resource_id.clone(), *instance_id);
                    let current = self.link_of(&resource, instance);
                    if current.is_some_and(|link| link.party == party) {
                        let cause = lost(&resource, &cause);
                        self.lose_task_manager(&resource, instance, cause, ctx);
                    }
                }
                Party::ResourceManager { session } => {
                    self.lose_resource_manager(*session, &cause.to_string(), ctx);
                }
                Party::JobMaster { .. } => {}
            },
            // The ResourceManager's silence ends nothing here.
            HeartbeatReport::Silent { .. } => {}
        }
    }
}

fn lost(resource: &ResourceId, cause: &LossCause) -> FailureCause {
    FailureCause::recoverable("TaskManagerLost", format!("TaskManager {resource} is lost: {cause}"))
}

impl JobMaster {
    fn task_manager_reports(
        &mut self,
        party: &Party,
        payload: BeatPayload,
        ctx: &mut Context<Self>,
    ) {
        let (
            Party::TaskExecutor { resource_id, instance_id, .. },
            BeatPayload::Job { allocations, tasks },
        ) = (party, payload)
        else {
            return;
        };
        if self.link_of(resource_id, *instance_id).is_none_or(|link| link.party != *party) {
            return;
        }
        self.core.reconcile(self.now(), resource_id, *instance_id, &allocations, tasks);
        self.turn(ctx);
    }
}
