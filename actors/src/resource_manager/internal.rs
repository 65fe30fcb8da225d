//! What the ResourceManager's own SlotManager tells it. It must never believe anybody else.

use super::ResourceManagerActor;
use actix::{Context, Handler};
use gateways::job_master::{GiveWay, NotifyNotEnoughResources};
use gateways::resource_manager::{
    AskToGiveWay, DeclareNeededWorkers, ReleaseIdleWorker, ReportLackOfSlots,
};
use gateways::{Answer, Ask, Call, Principal};

fn is_own<C: Call>(ask: &Ask<C>) -> bool {
    let own = ask.caller.principal == Principal::Local;
    if !own {
        tracing::warn!(call = C::NAME, principal = %ask.caller.principal, "refused: internal call");
    }
    own
}

impl Handler<Ask<DeclareNeededWorkers>> for ResourceManagerActor {
    type Result = Answer<DeclareNeededWorkers>;

    fn handle(&mut self, ask: Ask<DeclareNeededWorkers>, _: &mut Context<Self>) -> Self::Result {
        if is_own(&ask) {
            let missing = ask.body.missing.into_iter().collect();
            let commands = self.core.need(self.now(), ask.body.seen, missing);
            self.obey(commands);
        }
        Ok(())
    }
}

impl Handler<Ask<ReleaseIdleWorker>> for ResourceManagerActor {
    type Result = Answer<ReleaseIdleWorker>;

    fn handle(&mut self, ask: Ask<ReleaseIdleWorker>, _: &mut Context<Self>) -> Self::Result {
        if is_own(&ask) {
            let cause = "it has been idle for too long".to_owned();
            let commands = self.core.release(ask.body.instance_id, cause);
            self.obey(commands);
        }
        Ok(())
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
