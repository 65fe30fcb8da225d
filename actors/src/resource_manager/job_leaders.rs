//! Follows the leader of each job, and registers the JobMasters that lead.
//!
//! `control::resource_manager` decides whether a JobMaster leads; a JobMaster's own claim must never count.

use super::handlers::{ActorAnswer, refused};
use super::{JobConnection, ResourceManagerActor};
use crate::services::Target;
use crate::turns::take_step;
use actix::prelude::*;
use gateways::heartbeat::Party;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::{DisconnectJobMaster, JobMasterAccepted, RegisterJobMaster};
use gateways::{Answer, Ask};
use model::{Fence, JobId, LeaderSession};
use platform::watch;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum time for which a registration waits for the job's first leader, which may be published after its JobMaster
/// registers.
const FIRST_LEADER_WITHIN: Duration = Duration::from_secs(1);

type Leader = watch::Receiver<Option<LeaderInformation>>;

/// The watch of one job's leader.
#[derive(Debug)]
pub(super) struct Watched {
    leader: Leader,
    /// Dropping the sender ends the task that follows the leader.
    _until: oneshot::Sender<()>,
}

fn session_of(leader: &Option<LeaderInformation>) -> Option<LeaderSession> {
    leader.as_ref().map(|leader| leader.session)
}

async fn follow(
    job_id: JobId,
    mut leader: Leader,
    addr: Addr<ResourceManagerActor>,
    mut ended: oneshot::Receiver<()>,
) {
    loop {
        let leader_now = session_of(&leader.borrow_and_update());
        let seen = take_step(&addr, move |actor, _| actor.leader_seen(job_id, leader_now));
        if seen.await.is_err() {
            return;
        }
        tokio::select! {
            biased;
            _ = &mut ended => return,
            changed = leader.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

impl Handler<Ask<RegisterJobMaster>> for ResourceManagerActor {
    type Result = ActorAnswer<RegisterJobMaster>;

    fn handle(&mut self, ask: Ask<RegisterJobMaster>, ctx: &mut Context<Self>) -> Self::Result {
        let trace = ask.caller.trace;
        let registering = ask.body;
        let mut leader = self.leader_of(registering.job_id, ctx);
        let known = async move {
            // A time-out is fine: then no leader is known.
            let first = leader.wait_for(Option::is_some);
            let _ = tokio::time::timeout(FIRST_LEADER_WITHIN, first).await;
            session_of(&leader.borrow())
        };
        Box::pin(known.into_actor(self).map(move |leader, actor, ctx| {
            let _entered = trace.enter();
            let (job_id, job_master_id) = (registering.job_id, registering.job_master_id);
            actor.leader_seen(job_id, leader);
            match actor.core.register_job_master(job_id, job_master_id) {
                Ok(()) => Ok(actor.connect_job(registering, ctx)),
                Err(not_leading) => {
                    actor.stale("RegisterJobMaster", job_master_id);
                    refused(not_leading.to_string(), true)
                }
            }
        }))
    }
}

impl ResourceManagerActor {
    /// Follows what the retrieval service reports of a job's leader.
    fn leader_seen(&mut self, job_id: JobId, leader: Option<LeaderSession>) {
        let commands = self.core.leader_seen(self.now(), job_id, leader);
        self.obey(commands);
    }

    /// Returns the watch of a job's leader; begins to watch the job if it is not watched yet.
    fn leader_of(&mut self, job_id: JobId, ctx: &Context<Self>) -> Leader {
        if !self.core.watch_job(self.now(), job_id)
            && let Some(watched) = self.watched.get(&job_id)
        {
            return watched.leader.clone();
        }
        let leader = self.deps.services.retrieval.watch(Component::JobMaster(job_id));
        let (until, ended) = oneshot::channel();
        actix::spawn(follow(job_id, leader.clone(), ctx.address(), ended));
        self.watched.insert(job_id, Watched { leader: leader.clone(), _until: until });
        leader
    }

    fn connect_job(
        &mut self,
        registering: RegisterJobMaster,
        ctx: &mut Context<Self>,
    ) -> JobMasterAccepted {
        let RegisterJobMaster { job_id, job_master_id, address, heartbeat, .. } = registering;
        let services = &self.deps.services;
        let target = Target {
            party: Party::JobMaster { job_id, session: job_master_id.session() },
            address: heartbeat,
            session: registering.heartbeat_session,
        };
        let report_to = ctx.address().recipient();
        let watch = services.heartbeat.watch(self.me(), target, &self.marker, report_to);
        let gateway =
            services.rpc.gateway(&address, job_master_id).with_session(self.fence.session());
        // The removed connection is of the same JobMaster: that of another one was closed when it lost its leadership.
        let declared = self.jobs.remove(&job_id).and_then(|job| job.declared);
        let connection = JobConnection { job_master_id, gateway, _watch: watch, declared };
        self.jobs.insert(job_id, connection);
        tracing::info!(%job_id, %job_master_id, "JobMaster registered");
        JobMasterAccepted {
            resource_id: services.resource_id.clone(),
            heartbeat: services.heartbeat_address(),
        }
    }
}

impl Handler<Ask<DisconnectJobMaster>> for ResourceManagerActor {
    type Result = Answer<DisconnectJobMaster>;

    fn handle(&mut self, ask: Ask<DisconnectJobMaster>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let DisconnectJobMaster { job_id, job_master_id, finished } = ask.body;
        let commands = if finished {
            self.core.job_ended(job_id, job_master_id)
        } else {
            let reason = "its JobMaster has left".to_owned();
            self.core.job_master_gone(job_id, job_master_id.session(), reason)
        };
        if commands.is_empty() {
            self.stale("DisconnectJobMaster", job_master_id);
        }
        self.obey(commands);
        Ok(())
    }
}
