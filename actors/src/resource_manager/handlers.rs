//! Handles the calls of TaskExecutors, JobMasters and REST to the ResourceManager.

use super::{ResourceManagerActor, TaskManagerConnection};
use crate::probe::Fact;
use crate::services::Target;
use actix::prelude::*;
use control::mutation::Rule;
use control::resource_manager::Command;
use gateways::heartbeat::Party;
use gateways::job_master::RegistrationRefused;
use gateways::resource_manager::{
    DeclareRequiredResources, DisconnectTaskExecutor, NotifySlotAvailable, RegisterTaskExecutor,
    RequestResourceOverview, RequestTaskManagers, ResourceOverview, SendSlotReport,
    TaskExecutorAccepted, TaskManagerSummary,
};
use gateways::slot_manager::{
    AddTaskExecutor, FreeSlot, ProcessRequirements, ReportSlots, RequestSlotOverview, SlotOverview,
};
use gateways::{Answer, Ask};
use model::{Fence, InstanceId, JobId, ResourceId, ResourceProfile};
use std::collections::BTreeMap;
use std::time::Duration;

/// The number of free slots of each TaskExecutor, and its allocated slots with their jobs.
type SlotsByTaskManager = BTreeMap<InstanceId, (u32, Vec<(JobId, ResourceProfile)>)>;
pub(super) type ActorAnswer<C> = ResponseActFuture<ResourceManagerActor, Answer<C>>;

pub(super) fn refused<T>(reason: impl Into<String>, retry: bool) -> Result<T, RegistrationRefused> {
    Err(RegistrationRefused { reason: reason.into(), retry })
}

pub(super) fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

impl Handler<Ask<RegisterTaskExecutor>> for ResourceManagerActor {
    type Result = Answer<RegisterTaskExecutor>;

    fn handle(&mut self, ask: Ask<RegisterTaskExecutor>, ctx: &mut Context<Self>) -> Self::Result {
        let info = ask.body;
        let (host, spec) = (info.host.clone(), info.spec.clone());
        let (instance_id, commands) =
            match self.core.register(self.now(), &info.resource_id, host, spec) {
                Ok(registered) => registered,
                Err(not_asked) => return refused(not_asked.to_string(), not_asked.retry),
            };
        for command in commands {
            if let Command::CloseTaskExecutor { instance_id, .. } = &command {
                // The TaskExecutor knows that it has registered again: no message is needed.
                self.task_managers.remove(instance_id);
            }
            self.obey(vec![command]);
        }
        tracing::info!(resource_id = %info.resource_id, %instance_id, host = info.host, "TaskExecutor registered");
        self.connect_task_manager(instance_id, info, ctx);
        let services = &self.deps.services;
        Ok(TaskExecutorAccepted {
            instance_id,
            resource_id: services.resource_id.clone(),
            heartbeat: services.heartbeat_address(),
            blob_server: self.deps.blob_server.clone(),
            blob_session: self.deps.blob_session,
        })
    }
}

impl ResourceManagerActor {
    fn connect_task_manager(
        &mut self,
        instance_id: InstanceId,
        info: RegisterTaskExecutor,
        ctx: &mut Context<Self>,
    ) {
        let services = &self.deps.services;
        let resource_id = info.resource_id.clone();
        let party = Party::TaskExecutor {
            resource_id: resource_id.clone(),
            session: info.session,
            instance_id,
        };
        let target = Target { party, address: info.heartbeat.clone(), session: info.session };
        let report_to = ctx.address().recipient();
        let watch = services.heartbeat.watch(self.me(), target, &self.marker, report_to);
        let session = self.fence.session();
        let gateway = services.rpc.gateway(&info.address, info.session).with_session(session);
        self.task_managers.insert(instance_id, TaskManagerConnection { info, gateway, watch });
        self.note(Fact::TaskManagerRegistered { session, resource_id, instance_id });
    }
}

impl Handler<Ask<SendSlotReport>> for ResourceManagerActor {
    type Result = Answer<SendSlotReport>;

    fn handle(&mut self, ask: Ask<SendSlotReport>, _: &mut Context<Self>) -> Self::Result {
        let SendSlotReport { resource_id, instance_id, report } = ask.body;
        let first = self.core.reported(&resource_id, instance_id);
        let (Some(first), Some(task_manager)) = (first, self.task_managers.get(&instance_id))
        else {
            return refused(
                format!("TaskExecutor {resource_id} is not registered as {instance_id}"),
                true,
            );
        };
        if !first {
            self.to_slot_manager.deliver(ReportSlots { instance_id, report });
            return Ok(());
        }
        let info = &task_manager.info;
        // For a requested TaskManager, the requested spec counts: the TaskManager's own computation may round
        // differently.
        let spec = self.core.get(&resource_id).map(|task_manager| task_manager.spec.clone());
        self.to_slot_manager.deliver(AddTaskExecutor {
            resource_id: resource_id.clone(),
            instance_id,
            address: info.address.clone(),
            session: info.session,
            host: info.host.clone(),
            spec: spec.unwrap_or_else(|| info.spec.clone()),
            report,
        });
        Ok(())
    }
}

impl Handler<Ask<NotifySlotAvailable>> for ResourceManagerActor {
    type Result = Answer<NotifySlotAvailable>;

    fn handle(&mut self, ask: Ask<NotifySlotAvailable>, _: &mut Context<Self>) -> Self::Result {
        let NotifySlotAvailable { instance_id, slot_id, allocation_id } = ask.body;
        if self.core.is_current(&slot_id.resource_id, instance_id) {
            self.to_slot_manager.deliver(FreeSlot { instance_id, slot_id, allocation_id });
        }
        Ok(())
    }
}

impl Handler<Ask<DisconnectTaskExecutor>> for ResourceManagerActor {
    type Result = Answer<DisconnectTaskExecutor>;

    fn handle(&mut self, ask: Ask<DisconnectTaskExecutor>, _: &mut Context<Self>) -> Self::Result {
        let DisconnectTaskExecutor { instance_id, cause, .. } = ask.body;
        // The TaskExecutor itself leaves: no message is needed.
        self.task_managers.remove(&instance_id);
        let commands = self.core.disconnect(instance_id, cause.to_string());
        self.obey(commands);
        Ok(())
    }
}

impl Handler<Ask<DeclareRequiredResources>> for ResourceManagerActor {
    type Result = Answer<DeclareRequiredResources>;

    fn handle(
        &mut self,
        ask: Ask<DeclareRequiredResources>,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let DeclareRequiredResources {
            job_id,
            job_master_id,
            target,
            job_name,
            program,
            requirements,
        } = ask.body;
        let strict = self.deps.services.mutation.keeps(Rule::OnlyLeaderDeclares);
        let Some(job) =
            self.jobs.get_mut(&job_id).filter(|job| job.job_master_id == job_master_id || !strict)
        else {
            self.stale("DeclareRequiredResources", job_master_id);
            return refused(format!("JobMaster {job_master_id} is not registered here"), true);
        };
        let slots = requirements.iter().map(|r| r.slots).fold(0, u32::saturating_add);
        let declared =
            ProcessRequirements { job_id, job_master_id, target, job_name, program, requirements };
        job.declared = Some(declared.clone());
        self.to_slot_manager.deliver(declared);
        let (session, job_master) = (self.fence.session(), job_master_id.session());
        self.note(Fact::SlotsDeclared { session, job_id, job_master, slots });
        Ok(())
    }
}

impl Handler<Ask<RequestTaskManagers>> for ResourceManagerActor {
    type Result = ActorAnswer<RequestTaskManagers>;

    fn handle(&mut self, ask: Ask<RequestTaskManagers>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let slot_manager = self.slot_manager.clone();
        let asked = async move { slot_manager.ask(RequestSlotOverview {}).await };
        Box::pin(asked.into_actor(self).map(|slots, actor, _| {
            let slots = slots
                .map_or_else(|_| Vec::new(), |SlotOverview { task_managers, .. }| task_managers);
            let mut slots: SlotsByTaskManager =
                slots.into_iter().map(|(id, free, allocated)| (id, (free, allocated))).collect();
            let all = actor.core.registered();
            Ok(all
                .filter_map(|(resource_id, task_manager)| {
                    actor.summary(resource_id, task_manager.instance_id, &mut slots)
                })
                .collect())
        }))
    }
}

impl ResourceManagerActor {
    fn summary(
        &self,
        resource_id: &ResourceId,
        instance_id: InstanceId,
        slots: &mut SlotsByTaskManager,
    ) -> Option<TaskManagerSummary> {
        let task_manager = self.task_managers.get(&instance_id)?;
        let (free_slots, allocated) = slots.remove(&instance_id).unwrap_or_default();
        Some(TaskManagerSummary {
            resource_id: resource_id.clone(),
            address: task_manager.info.address.clone(),
            session: task_manager.info.session,
            host: task_manager.info.host.clone(),
            pid: task_manager.info.pid,
            spec: task_manager.info.spec.clone(),
            process_memory: task_manager.info.process_memory,
            facts: task_manager.info.facts.clone(),
            free_slots,
            allocated,
            last_heartbeat_age_ms: millis(task_manager.watch.silence()),
            blocked: self.core.blocked().contains_key(&task_manager.info.host),
        })
    }
}

impl Handler<Ask<RequestResourceOverview>> for ResourceManagerActor {
    type Result = ResponseFuture<Answer<RequestResourceOverview>>;

    fn handle(&mut self, ask: Ask<RequestResourceOverview>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let slot_manager = self.slot_manager.clone();
        Box::pin(async move {
            let slots = slot_manager.ask(RequestSlotOverview {}).await;
            // It dies with this ResourceManager: there is nothing then.
            Ok(slots.map_or_else(|_| ResourceOverview::default(), |slots| slots.totals))
        })
    }
}
