//! The JobMaster's calls.

use super::{JobMaster, coordinators::unroutable};
use crate::probe::Fact;
use actix::{Context, Handler, ResponseFuture};
use gateways::dispatcher::JobSummary;
use gateways::job_master::{
    Cancel, CoordinationRequest, CoordinatorFailed, DisconnectResourceManager,
    DisconnectTaskManager, FailSlot, JobMasterError, NotifyNotEnoughResources, OfferSlots,
    OperatorEvent, RegisterTaskManager, RequestCheckpoints, RequestDetails, RequestStatus,
    RequestSummary, UpdateTaskStates, YieldSlots,
};
use gateways::leader_election::Component;
use gateways::program_host::{HandleCoordinationRequest, HandleOperatorEvent};
use gateways::{Answer, Ask, Call, TraceContext};
use model::{Fence, ResourceId};

fn not_registered(resource_id: &ResourceId) -> JobMasterError {
    JobMasterError::NotRegistered { resource_id: resource_id.clone() }
}

impl Handler<Ask<RegisterTaskManager>> for JobMaster {
    type Result = Answer<RegisterTaskManager>;

    fn handle(&mut self, ask: Ask<RegisterTaskManager>, ctx: &mut Context<Self>) -> Self::Result {
        self.register(ask.body, ctx)
    }
}

impl Handler<Ask<OfferSlots>> for JobMaster {
    type Result = Answer<OfferSlots>;

    fn handle(&mut self, ask: Ask<OfferSlots>, ctx: &mut Context<Self>) -> Answer<OfferSlots> {
        let OfferSlots { resource_id, instance_id, slots, data_address } = ask.body;
        if self.link_of(&resource_id, instance_id).is_none() {
            return Err(not_registered(&resource_id));
        }
        let now = self.now();
        let accepted =
            self.core.offer(now, &resource_id, instance_id, &slots, data_address.as_str());
        self.turn(ctx);
        accepted.map_err(|_| not_registered(&resource_id))
    }
}

impl Handler<Ask<UpdateTaskStates>> for JobMaster {
    type Result = Answer<UpdateTaskStates>;

    fn handle(&mut self, ask: Ask<UpdateTaskStates>, ctx: &mut Context<Self>) -> Self::Result {
        let UpdateTaskStates { resource_id, instance_id, updates } = ask.body;
        let unknown = self.core.update_tasks(self.now(), &resource_id, instance_id, updates);
        self.turn(ctx);
        unknown.map_err(|_| not_registered(&resource_id))
    }
}

impl Handler<Ask<FailSlot>> for JobMaster {
    type Result = Answer<FailSlot>;

    fn handle(&mut self, ask: Ask<FailSlot>, ctx: &mut Context<Self>) -> Answer<FailSlot> {
        let FailSlot { resource_id, allocation_id, accepted, cause } = ask.body;
        let Some(link) = self.task_managers.get_mut(&resource_id) else {
            return Err(not_registered(&resource_id));
        };
        // The slot's program host may be gone, and another host without the graph may answer at its address.
        link.graph_at = None;
        self.core.slot_failed(self.now(), &resource_id, allocation_id, accepted, &cause);
        self.turn(ctx);
        Ok(())
    }
}

impl Handler<Ask<DisconnectTaskManager>> for JobMaster {
    type Result = Answer<DisconnectTaskManager>;

    fn handle(&mut self, ask: Ask<DisconnectTaskManager>, ctx: &mut Context<Self>) -> Self::Result {
        let DisconnectTaskManager { resource_id, instance_id, cause } = ask.body;
        self.lose_task_manager(&resource_id, instance_id, cause, ctx);
        Ok(())
    }
}

impl Handler<Ask<DisconnectResourceManager>> for JobMaster {
    type Result = Answer<DisconnectResourceManager>;

    fn handle(
        &mut self,
        ask: Ask<DisconnectResourceManager>,
        ctx: &mut Context<Self>,
    ) -> Answer<DisconnectResourceManager> {
        let session = ask.body.resource_manager.session();
        self.lose_resource_manager(session, &ask.body.reason, ctx);
        Ok(())
    }
}

impl Handler<Ask<NotifyNotEnoughResources>> for JobMaster {
    type Result = Answer<NotifyNotEnoughResources>;

    fn handle(
        &mut self,
        ask: Ask<NotifyNotEnoughResources>,
        ctx: &mut Context<Self>,
    ) -> Answer<NotifyNotEnoughResources> {
        if self.obeys(&ask) {
            self.core.not_enough_resources(self.now(), &ask.body.message);
            self.turn(ctx);
        }
        Ok(())
    }
}

impl Handler<Ask<YieldSlots>> for JobMaster {
    type Result = Answer<YieldSlots>;

    fn handle(&mut self, ask: Ask<YieldSlots>, ctx: &mut Context<Self>) -> Answer<YieldSlots> {
        if self.obeys(&ask) {
            self.core.yield_slots(self.now(), &ask.body.slots);
            self.turn(ctx);
        }
        Ok(())
    }
}

impl JobMaster {
    /// Returns true if a call comes from the ResourceManager that the JobMaster is registered at; then it is obeyed.
    fn obeys<C: Call>(&self, ask: &Ask<C>) -> bool {
        let mine = self.is_my_resource_manager(ask.caller.session);
        if let Some(session) = ask.caller.session.filter(|_| mine) {
            self.deps.services.probe.note(Fact::LeaderObeyed {
                by: self.address.endpoint.clone(),
                leader: Component::ResourceManager,
                session,
                call: C::NAME,
            });
        }
        mine
    }
}

impl Handler<Ask<OperatorEvent>> for JobMaster {
    type Result = ResponseFuture<Answer<OperatorEvent>>;

    fn handle(&mut self, ask: Ask<OperatorEvent>, _: &mut Context<Self>) -> Self::Result {
        let within = ask.caller.deadline.remaining();
        let OperatorEvent { attempt, operator, event } = ask.body;
        let routed = self.core.route_event(&attempt, operator);
        let routed = routed.map_err(|why| unroutable(why, Some(attempt), operator));
        self.to_coordinator(routed, HandleOperatorEvent { attempt, operator, event }, within)
    }
}

impl Handler<Ask<CoordinationRequest>> for JobMaster {
    type Result = ResponseFuture<Answer<CoordinationRequest>>;

    fn handle(&mut self, ask: Ask<CoordinationRequest>, _: &mut Context<Self>) -> Self::Result {
        let within = ask.caller.deadline.remaining();
        let CoordinationRequest { operator, request } = ask.body;
        let routed = self.core.route_request(operator);
        let routed = routed.map_err(|why| unroutable(why, None, operator));
        self.to_coordinator(routed, HandleCoordinationRequest { operator, request }, within)
    }
}

impl Handler<Ask<CoordinatorFailed>> for JobMaster {
    type Result = Answer<CoordinatorFailed>;

    fn handle(&mut self, ask: Ask<CoordinatorFailed>, ctx: &mut Context<Self>) -> Self::Result {
        let CoordinatorFailed { round, cause } = ask.body;
        self.core.coordinator_reported(self.now(), round, cause);
        self.turn(ctx);
        Ok(())
    }
}

impl Handler<Ask<Cancel>> for JobMaster {
    type Result = Answer<Cancel>;

    fn handle(&mut self, ask: Ask<Cancel>, ctx: &mut Context<Self>) -> Answer<Cancel> {
        let _entered = ask.caller.trace.enter();
        let before = self.core.status();
        self.core.cancel(self.now());
        if self.core.status() != before {
            self.trace.set(TraceContext::current());
        }
        self.turn(ctx);
        Ok(())
    }
}

impl Handler<Ask<RequestStatus>> for JobMaster {
    type Result = Answer<RequestStatus>;

    fn handle(&mut self, _: Ask<RequestStatus>, _: &mut Context<Self>) -> Answer<RequestStatus> {
        Ok(self.core.status())
    }
}

impl Handler<Ask<RequestSummary>> for JobMaster {
    type Result = Answer<RequestSummary>;

    fn handle(&mut self, _: Ask<RequestSummary>, _: &mut Context<Self>) -> Answer<RequestSummary> {
        let (start_ms, end_ms, last_modification_ms) = self.core.times();
        Ok(JobSummary {
            job_id: self.job_id(),
            name: self.core.graph().name.clone(),
            status: self.core.status(),
            start_ms,
            end_ms,
            last_modification_ms,
            tasks: self.core.execution().states(),
        })
    }
}

impl Handler<Ask<RequestDetails>> for JobMaster {
    type Result = Answer<RequestDetails>;

    fn handle(&mut self, _: Ask<RequestDetails>, _: &mut Context<Self>) -> Answer<RequestDetails> {
        Ok(self.core.details(self.now()))
    }
}

impl Handler<Ask<RequestCheckpoints>> for JobMaster {
    type Result = Answer<RequestCheckpoints>;

    fn handle(&mut self, _: Ask<RequestCheckpoints>, _: &mut Context<Self>) -> Self::Result {
        Ok(self.core.checkpoint_report())
    }
}
