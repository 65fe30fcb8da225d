//! The JobLeaderIdService of a ResourceManager: which session leads each registered job, and which jobs
//! nobody has led for too long.
//!
//! It watches through the process's retrieval and tells its ResourceManager; it removes and frees nothing.

#[cfg(test)]
mod tests;

use crate::services::{ProcessServices, Running, Stop, TurnMarker};
use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, ResponseFuture};
use control::job_leader_id::JobLeaderIds;
use gateways::job_services::{AddJob, JobLeaderIdGateway, RemoveJobLeader};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::{NotifyJobLeader, NotifyJobTimedOut, ResourceManagerGateway};
use gateways::{Answer, Ask, Remote};
use model::{JobId, ResourceManagerId};
use platform::watch;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

/// The name that it is served under.
pub const ENDPOINT: &str = "job_leader_ids";

/// A job's first leader may be published a moment after its JobMaster registers.
const FIRST_LEADER_WITHIN: Duration = Duration::from_secs(1);
/// How often waiting times are looked at.
const TICK: Duration = Duration::from_millis(500);

/// Starts the service of a ResourceManager, on the current thread. `timeout`:
/// `resourcemanager.job.timeout`.
pub fn start(
    services: &ProcessServices,
    resource_manager_id: ResourceManagerId,
    resource_manager: Remote<ResourceManagerGateway>,
    timeout: Duration,
) -> Running<JobLeaderIdActor> {
    let actor = JobLeaderIdActor {
        core: JobLeaderIds::new(timeout),
        watched: BTreeMap::new(),
        marker: services.turn_marker(ENDPOINT),
        services: services.clone(),
        resource_manager,
    };
    let addr = actor.start();
    let endpoint = JobLeaderIdGateway::endpoint(addr.clone());
    let registration = services.rpc.serve(ENDPOINT, resource_manager_id, endpoint);
    Running::new(services.rpc.address_of(ENDPOINT), addr, registration)
        .guarded(&services.platform, &services.fatal)
}

#[derive(Debug)]
struct Watched {
    leader: watch::Receiver<Option<LeaderInformation>>,
    /// Dropped: the task that watches ends.
    _until: oneshot::Sender<()>,
}

/// The actor.
#[derive(Debug)]
pub struct JobLeaderIdActor {
    core: JobLeaderIds,
    watched: BTreeMap<JobId, Watched>,
    marker: TurnMarker,
    services: ProcessServices,
    resource_manager: Remote<ResourceManagerGateway>,
}

impl Actor for JobLeaderIdActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        self.marker.tick(ctx, self.services.heartbeat.limits().interval);
        ctx.run_interval(TICK, |actor, _| {
            let now = actor.services.platform.now();
            for job_id in actor.core.timed_out(now) {
                tracing::warn!(%job_id, "nobody has led the job for too long: it is removed");
                actor.watched.remove(&job_id);
                actor.resource_manager.tell(NotifyJobTimedOut { job_id });
            }
        });
    }
}

impl JobLeaderIdActor {
    fn watch(&mut self, job_id: JobId, addr: Addr<Self>) {
        let leader = self.services.retrieval.watch(Component::JobMaster(job_id));
        let (until, ended) = oneshot::channel();
        actix::spawn(follow(job_id, leader.clone(), addr, ended));
        self.watched.insert(job_id, Watched { leader, _until: until });
    }
}

async fn follow(
    job_id: JobId,
    mut leader: watch::Receiver<Option<LeaderInformation>>,
    addr: Addr<JobLeaderIdActor>,
    mut ended: oneshot::Receiver<()>,
) {
    loop {
        let session = leader.borrow_and_update().as_ref().map(|leader| leader.session);
        if addr.send(LeaderSeen { job_id, session }).await.is_err() {
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

/// Retrieval says who leads a job.
#[derive(Debug, actix::Message)]
#[rtype(result = "()")]
struct LeaderSeen {
    job_id: JobId,
    session: Option<model::LeaderSession>,
}

impl Handler<LeaderSeen> for JobLeaderIdActor {
    type Result = ();

    fn handle(&mut self, seen: LeaderSeen, _: &mut Context<Self>) {
        let now = self.services.platform.now();
        if let Some(change) = self.core.notice(now, seen.job_id, seen.session) {
            let (job_id, leader) = (change.job_id, change.now);
            self.resource_manager.tell(NotifyJobLeader { job_id, leader });
        }
    }
}

impl Handler<Ask<AddJob>> for JobLeaderIdActor {
    type Result = ResponseFuture<Answer<AddJob>>;

    fn handle(&mut self, ask: Ask<AddJob>, ctx: &mut Context<Self>) -> Self::Result {
        let job_id = ask.body.job_id;
        if self.core.add(self.services.platform.now(), job_id) {
            self.watch(job_id, ctx.address());
        }
        let leader = self.watched.get(&job_id).map(|watched| watched.leader.clone());
        Box::pin(async move {
            let Some(mut leader) = leader else {
                return Ok(None);
            };
            // Nobody by then is an answer too.
            let _ =
                tokio::time::timeout(FIRST_LEADER_WITHIN, leader.wait_for(Option::is_some)).await;
            let known = leader.borrow().clone();
            Ok(known)
        })
    }
}

impl Handler<Ask<RemoveJobLeader>> for JobLeaderIdActor {
    type Result = Answer<RemoveJobLeader>;

    fn handle(&mut self, ask: Ask<RemoveJobLeader>, _: &mut Context<Self>) -> Self::Result {
        self.core.remove(ask.body.job_id);
        self.watched.remove(&ask.body.job_id);
        Ok(())
    }
}

impl Handler<Stop> for JobLeaderIdActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) {
        ctx.stop();
    }
}
