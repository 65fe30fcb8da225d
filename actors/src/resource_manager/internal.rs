//! Handlers of the messages from the ResourceManager's own SlotManager. They must never accept a
//! message from another sender.

use super::ResourceManagerActor;
use actix::{Context, Handler};
use gateways::job_master::{NotifyNotEnoughResources, YieldSlots};
use gateways::resource_manager::{
    AskToYield, DeclareNeededTaskManagers, ReleaseIdleTaskManager, ReportShortage,
    ResourceManagerFact, TakeFacts,
};
use gateways::{Answer, Ask, Call, Principal};

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
                    ResourceManagerFact::DeclareNeededTaskManagers(DeclareNeededTaskManagers {
                        seen,
                        missing,
                    }) => self.core.need(self.now(), seen, missing.into_iter().collect()),
                    ResourceManagerFact::ReleaseIdleTaskManager(ReleaseIdleTaskManager {
                        instance_id,
                    }) => {
                        self.core.release(instance_id, "it has been idle for too long".to_owned())
                    }
                };
                self.obey(commands);
            }
        }
        Ok(self.facts.expected())
    }
}

impl Handler<Ask<ReportShortage>> for ResourceManagerActor {
    type Result = Answer<ReportShortage>;

    fn handle(&mut self, ask: Ask<ReportShortage>, _: &mut Context<Self>) -> Self::Result {
        let own = is_own(&ask);
        let ReportShortage { job_id, job_master_id, mut message } = ask.body;
        let job = self.jobs.get(&job_id).filter(|job| own && job.job_master_id == job_master_id);
        if let Some(job) = job {
            if let Some(error) = self.core.last_driver_error() {
                message = format!("{message}; the resource system's last error: {error}");
            }
            job.gateway.tell(NotifyNotEnoughResources { message });
        }
        Ok(())
    }
}

impl Handler<Ask<AskToYield>> for ResourceManagerActor {
    type Result = Answer<AskToYield>;

    fn handle(&mut self, ask: Ask<AskToYield>, _: &mut Context<Self>) -> Self::Result {
        let own = is_own(&ask);
        let AskToYield { job_id, job_master_id, slots } = ask.body;
        let job = self.jobs.get(&job_id).filter(|job| own && job.job_master_id == job_master_id);
        if let Some(job) = job {
            job.gateway.tell(YieldSlots { slots });
        }
        Ok(())
    }
}
