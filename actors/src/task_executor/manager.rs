//! The TaskExecutor's connection to the ResourceManager: finds it, registers, reports slots.

use super::{ManagerConnection, TaskExecutor};
use crate::services::HeartbeatReport;
use actix::{
    ActorFutureExt as _, AsyncContext as _, Context, Handler, StreamHandler, WrapFuture as _,
};
use control::task_executor::Event;
use gateways::CallError;
use gateways::heartbeat::{BeatPayload, Party};
use gateways::job_master::RegistrationRefused;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::{
    NotifySlotAvailable, RegisterTaskExecutor, ResourceManagerGateway, SendSlotReport,
    TaskExecutorAccepted,
};
use model::{AllocationId, Fence as _, InstanceId, JobMasterId, ResourceManagerId, SlotId};

/// Message: the leader of the ResourceManagers has changed; `None`: there is none now.
pub(super) struct ManagerLeader(pub(super) Option<LeaderInformation>);

impl StreamHandler<ManagerLeader> for TaskExecutor {
    fn handle(&mut self, ManagerLeader(leader): ManagerLeader, ctx: &mut Self::Context) {
        self.manager_leader = leader;
        let session = self.manager_leader.as_ref().map(|leader| leader.session);
        self.step(Event::ResourceManager(session.map(ResourceManagerId::from_session)), ctx);
    }

    /// The retrieval has ended with its process.
    fn finished(&mut self, _: &mut Self::Context) {}
}

impl TaskExecutor {
    pub(super) fn party(&self, instance_id: InstanceId) -> Party {
        Party::TaskExecutor {
            resource_id: self.services.resource_id.clone(),
            session: self.services.session,
            instance_id,
        }
    }

    pub(super) fn register(&mut self, at: ResourceManagerId, ctx: &mut Context<Self>) {
        let leader = self.manager_leader.clone().filter(|leader| leader.session == at.session());
        let Some(leader) = leader else {
            return; // The core asks again with the next leader.
        };
        let remote = self.services.rpc.gateway::<ResourceManagerGateway>(&leader.address, at);
        let message = RegisterTaskExecutor {
            resource_id: self.services.resource_id.clone(),
            address: self.address.clone(),
            session: self.services.session,
            heartbeat: self.services.heartbeat_address(),
            host: self.services.host.clone(),
            spec: self.deps.spec.clone(),
            pid: self.deps.pid,
            process_memory: self.deps.process_memory,
            facts: self.deps.facts.clone(),
        };
        let asked = async move { (remote.ask(message).await, remote) };
        let answered = asked.into_actor(self).map(move |(answer, remote), executor, ctx| {
            executor.registration_answered(at, remote, answer, ctx);
        });
        ctx.spawn(answered);
    }

    fn registration_answered(
        &mut self,
        by: ResourceManagerId,
        remote: gateways::Remote<ResourceManagerGateway>,
        answer: Result<TaskExecutorAccepted, CallError<RegistrationRefused>>,
        ctx: &mut Context<Self>,
    ) {
        if self.leaving {
            return;
        }
        match answer {
            Ok(accepted) => {
                let me = self.party(accepted.instance_id);
                let peer = Party::ResourceManager { session: by.session() };
                let reports = ctx.address().recipient();
                let node = accepted.heartbeat.node.clone();
                let watch = self.services.heartbeat.expect(me, peer, node, &self.marker, reports);
                let instance = accepted.instance_id;
                // Made before the core knows, so that what it connects is there; dropped if it does not.
                self.manager = Some(ManagerConnection { instance, remote, watch });
                self.deps.blobs.set_server(accepted.blob_server, accepted.blob_session);
                self.step(Event::RegistrationAccepted { by, instance }, ctx);
                if self.core.registered_at() != Some((by, instance)) {
                    self.manager = None;
                }
            }
            Err(CallError::Refused(RegistrationRefused { reason, retry })) => {
                tracing::info!(%reason, retry, "the ResourceManager refused the registration");
                self.step(Event::RegistrationRefused { by, reason, retry }, ctx);
            }
            Err(error @ CallError::Fabric(_)) => {
                self.note_fenced::<RegisterTaskExecutor>(&error);
                tracing::debug!(%error, "registration at the ResourceManager failed");
                let reason = error.to_string();
                self.step(Event::RegistrationFailed { at: by, reason }, ctx);
            }
        }
    }

    pub(super) fn connect_manager(
        &mut self,
        id: ResourceManagerId,
        instance_id: InstanceId,
        ctx: &mut Context<Self>,
    ) {
        let Some(manager) = self.manager.as_ref().filter(|m| m.instance == instance_id) else {
            return;
        };
        tracing::info!(session = %id, instance = %instance_id, "registered at the ResourceManager");
        self.note_followed(Component::ResourceManager, id.session());
        let report = self.core.slot_report();
        manager.watch.publish(BeatPayload::Slots(report.clone()));
        let remote = manager.remote.clone();
        let resource_id = self.services.resource_id.clone();
        let message = SendSlotReport { resource_id, instance_id, report };
        let asked = async move { remote.ask(message).await };
        let answered = asked.into_actor(self).map(move |answer, executor, ctx| {
            if let Err(error) = answer {
                // It does not know this incarnation, or can't be reached: from the beginning.
                executor.note_fenced::<SendSlotReport>(&error);
                let reason = format!("it did not take the slot report: {error}");
                executor.step(Event::ResourceManagerLost { id, reason }, ctx);
            }
        });
        ctx.spawn(answered);
    }

    pub(super) fn drop_manager(&mut self, id: ResourceManagerId, instance: InstanceId) {
        tracing::info!(session = %id, %instance, "the connection to the ResourceManager is over");
        self.note_left(Component::ResourceManager, id.session());
        if self.manager.as_ref().is_some_and(|m| m.instance == instance) {
            self.manager = None;
        }
    }

    pub(super) fn notify_slot_available(
        &mut self,
        id: ResourceManagerId,
        instance_id: InstanceId,
        index: u32,
        allocation_id: AllocationId,
    ) {
        let registered = self.registered_manager().filter(|(current, _)| *current == id);
        if let Some((_, manager)) = registered {
            let resource_id = self.services.resource_id.clone();
            let slot_id = SlotId { resource_id, index };
            // A hint that may be lost: the next heartbeat's report contains the same.
            manager.remote.tell(NotifySlotAvailable { instance_id, slot_id, allocation_id });
        }
    }
}

impl Handler<HeartbeatReport> for TaskExecutor {
    type Result = ();

    fn handle(&mut self, report: HeartbeatReport, ctx: &mut Self::Context) {
        match report {
            // The peers reconcile their own beliefs: they receive every slot and task in the beats.
            HeartbeatReport::Payload { .. } => {}
            HeartbeatReport::Silent { party: Party::JobMaster { job_id, session }, since } => {
                tracing::warn!(job = %job_id, ?since, "the JobMaster is silent");
                let id = JobMasterId::from_session(session);
                self.step(Event::JobMasterSilent { job: job_id, id }, ctx);
            }
            HeartbeatReport::Silent { .. } => {}
            HeartbeatReport::Lost { party: Party::JobMaster { job_id, session }, cause } => {
                let id = JobMasterId::from_session(session);
                let reason = format!("the JobMaster is lost: {cause}");
                let lost = Event::JobMasterLost { job: job_id, id, reason, reconnect: true };
                self.step(lost, ctx);
            }
            HeartbeatReport::Lost { party: Party::ResourceManager { session }, cause } => {
                let id = ResourceManagerId::from_session(session);
                let reason = format!("the ResourceManager is lost: {cause}");
                self.step(Event::ResourceManagerLost { id, reason }, ctx);
            }
            HeartbeatReport::Lost { party: Party::TaskExecutor { .. }, .. } => {}
        }
    }
}
