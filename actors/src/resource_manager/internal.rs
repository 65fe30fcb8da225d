//! What the ResourceManager's own SlotManager and JobLeaderIdService tell it. Nobody else is believed.

use super::ResourceManagerActor;
use actix::{Context, Handler};
use gateways::job_master::{GiveWay, NotifyNotEnoughResources};
use gateways::resource_manager::{
    AskToGiveWay, DeclareNeededWorkers, NotifyJobLeader, NotifyJobTimedOut, ReleaseIdleWorker,
    ReportLackOfSlots, ResourceManagerFact, TakeFacts,
};
use gateways::slot_manager::RemoveJob;
use gateways::{Answer, Ask, Call, Principal};
use model::Fence;

fn is_own<C: Call>(ask: &Ask<C>) -> bool {
    let own = ask.caller.principal == Principal::Local;
    if !own {
        tracing::warn!(call = C::NAME, principal = %ask.caller.principal, "refused: internal call");
    }
    own
}

impl Handler<Ask<TakeFacts>> for ResourceManagerActor {
    type Result = Answer<TakeFacts>;

    fn handle(&mut self, ask: Ask<TakeFacts>, _: &mut Context<Self>) -> Self::Result {
        if is_own(&ask) {
            for fact in self.facts.take(ask.body) {
                let commands = match fact {
                    ResourceManagerFact::DeclareNeededWorkers(DeclareNeededWorkers {
                        seen,
                        missing,
                    }) => self.core.need(self.now(), seen, missing.into_iter().collect()),
                    ResourceManagerFact::ReleaseIdleWorker(ReleaseIdleWorker { instance_id }) => {
                        self.core.release(instance_id, "it has been idle for too long".to_owned())
                    }
                };
                self.obey(commands);
            }
        }
        Ok(self.facts.expected())
    }
}

impl Handler<Ask<ReportLackOfSlots>> for ResourceManagerActor {
    type Result = Answer<ReportLackOfSlots>;

    fn handle(&mut self, ask: Ask<ReportLackOfSlots>, _: &mut Context<Self>) -> Self::Result {
        let own = is_own(&ask);
        let ReportLackOfSlots { job_id, job_master_id, acquired, mut message } = ask.body;
        let job = self.jobs.get(&job_id).filter(|job| own && job.job_master_id == job_master_id);
        if let Some(job) = job {
            if let Some(error) = self.core.last_driver_error() {
                message = format!("{message}; the resource system's last error: {error}");
            }
            job.gateway.tell(NotifyNotEnoughResources { acquired, message });
        }
        Ok(())
    }
}

impl Handler<Ask<AskToGiveWay>> for ResourceManagerActor {
    type Result = Answer<AskToGiveWay>;

    fn handle(&mut self, ask: Ask<AskToGiveWay>, _: &mut Context<Self>) -> Self::Result {
        let own = is_own(&ask);
        let AskToGiveWay { job_id, job_master_id, slots } = ask.body;
        let job = self.jobs.get(&job_id).filter(|job| own && job.job_master_id == job_master_id);
        if let Some(job) = job {
            job.gateway.tell(GiveWay { slots });
        }
        Ok(())
    }
}

impl Handler<Ask<NotifyJobLeader>> for ResourceManagerActor {
    type Result = Answer<NotifyJobLeader>;

    fn handle(&mut self, ask: Ask<NotifyJobLeader>, _: &mut Context<Self>) -> Self::Result {
        let own = is_own(&ask);
        let NotifyJobLeader { job_id, leader } = ask.body;
        let registered = self.jobs.get(&job_id).map(|job| job.job_master_id.session());
        // One that registers under the new session may have been faster than this notice.
        if own
            && registered.is_some()
            && registered != leader
            && leader.is_none_or(|new| Some(new) > registered)
        {
            self.close_job(job_id, "it leads the job no more");
        }
        Ok(())
    }
}

impl Handler<Ask<NotifyJobTimedOut>> for ResourceManagerActor {
    type Result = Answer<NotifyJobTimedOut>;

    fn handle(&mut self, ask: Ask<NotifyJobTimedOut>, _: &mut Context<Self>) -> Self::Result {
        if is_own(&ask) {
            let job_id = ask.body.job_id;
            self.close_job(job_id, "nobody has led the job for too long");
            self.to_slot_manager.deliver(RemoveJob { job_id });
        }
        Ok(())
    }
}
