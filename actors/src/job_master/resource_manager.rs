//! The JobMaster's connection to the ResourceManager that leads: register, expect its heartbeats, declare
//! what the job needs, and again at each new one.

use super::JobMaster;
use crate::probe::Fact;
use crate::services::PeerWatch;
use crate::turns::{spawn_then, take_step};
use actix::{AsyncContext, Context, Handler, WrapFuture};
use gateways::heartbeat::Party;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::{
    DeclareRequiredResources, DisconnectJobMaster, JobMasterAccepted, RegisterJobMaster,
    ResourceManagerGateway,
};
use gateways::{CallError, Remote};
use model::{Fence, LeaderSession, ResourceManagerId};
use platform::watch;
use std::time::Duration;

/// Pauses between attempts to register: from, to.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(5));
/// Maximum time that the first attempt waits until the JobMaster's own leadership is published.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// The JobMaster's connection to its ResourceManager.
#[derive(Debug, Default)]
pub(super) struct ResourceManagerLink {
    /// Leader now known; `None` while there is none.
    leader: Option<LeaderInformation>,
    /// Number of this connection, or of the attempt to make it.
    number: u64,
    connected: Option<Connected>,
    /// True while a declaration is under way.
    declaring: bool,
    /// True if another declaration must follow it.
    again: bool,
}

#[derive(Debug)]
struct Connected {
    gateway: Remote<ResourceManagerGateway>,
    _watch: PeerWatch,
}

impl JobMaster {
    /// Follows the leading ResourceManager as long as the JobMaster lives.
    pub(super) fn follow_resource_manager(&self, ctx: &mut Context<Self>) {
        let mut leader = self.deps.services.retrieval.watch(Component::ResourceManager);
        let addr = ctx.address();
        // The future belongs to the JobMaster: a spawned task would wait for the next leader long after the JobMaster
        // has ended, because one ResourceManager outlives most jobs.
        let follow = async move {
            loop {
                let newest = leader.borrow_and_update().clone();
                let told = take_step(&addr, move |actor, ctx| actor.leader_changed(newest, ctx));
                if told.await.is_err() || leader.changed().await.is_err() {
                    return;
                }
            }
        };
        ctx.spawn(follow.into_actor(self));
    }

    /// Registers at the leader, until that succeeds, is refused for good, or another one leads.
    fn connect(&mut self, ctx: &mut Context<Self>) {
        let number = self.next_number();
        self.note_left();
        let link = &mut self.resource_manager;
        link.connected = None;
        link.number = number;
        link.declaring = false;
        link.again = false;
        let Some(leader) = link.leader.clone() else { return };
        let services = &self.deps.services;
        let gateway: Remote<ResourceManagerGateway> =
            services.rpc.gateway(&leader.address, ResourceManagerId::from_session(leader.session));
        let gateway = gateway.with_session(self.session());
        let request = RegisterJobMaster {
            job_id: self.job_id(),
            job_master_id: self.deps.session,
            resource_id: services.resource_id.clone(),
            address: self.address.clone(),
            heartbeat: services.heartbeat_address(),
            heartbeat_session: services.session,
        };
        let addr = ctx.address();
        let me = services.retrieval.watch(Component::JobMaster(self.job_id()));
        let session = self.session();
        actix::spawn(self.trace.get().carry(async move {
            // The ResourceManager takes JobMasters only that it knows to lead: before, asking is in vain.
            let _ = tokio::time::timeout(KNOWN_WITHIN, leads(me, session)).await;
            let mut pause = RETRY.0;
            while addr.connected() {
                match gateway.ask(request.clone()).await {
                    Ok(accepted) => {
                        let known = take_step(&addr, move |actor, ctx| {
                            actor.registered(number, gateway, &accepted, ctx);
                        });
                        let _ = known.await;
                        return;
                    }
                    Err(CallError::Refused(refused)) if !refused.retry => {
                        tracing::error!(reason = %refused, "the ResourceManager refuses the JobMaster");
                        return;
                    }
                    Err(error) => {
                        tracing::debug!(%error, "not registered at the ResourceManager; trying again");
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
                if !addr.send(IsCurrent(number)).await.unwrap_or(false) {
                    return;
                }
            }
        }));
    }

    /// Notes to the probe that the JobMaster stops obeying the ResourceManager that it is
    /// registered at, if there is one.
    fn note_left(&self) {
        if let Some(connected) = &self.resource_manager.connected {
            self.deps.services.probe.note(Fact::LeaderLeft {
                by: self.address.endpoint.clone(),
                leader: Component::ResourceManager,
                session: connected.gateway.fence().session(),
            });
        }
    }

    /// Tells the ResourceManager what the job needs in all; one call at a time, the newest wins.
    pub(super) fn declare(&mut self, ctx: &mut Context<Self>) {
        let link = &mut self.resource_manager;
        let Some(connected) = &link.connected else { return };
        if std::mem::replace(&mut link.declaring, true) {
            link.again = true;
            return;
        }
        let (gateway, number) = (connected.gateway.clone(), link.number);
        let declaration = DeclareRequiredResources {
            job_id: self.job_id(),
            job_master_id: self.deps.session,
            target: self.address.clone(),
            job_name: self.core.graph().name.clone(),
            program: self.deps.program,
            requirements: self.core.requirements(),
        };
        let declared = async move {
            match gateway.ask(declaration).await {
                Ok(()) => Declared::Done,
                Err(CallError::Refused(refused)) => Declared::Refused(refused.reason),
                Err(CallError::Fabric(error)) => {
                    tokio::time::sleep(RETRY.0).await;
                    Declared::Again(error.to_string())
                }
            }
        };
        spawn_then(ctx, declared, move |actor, outcome, ctx| {
            actor.declare_ended(number, outcome, ctx);
        });
    }

    /// Records that the connection is lost, and registers again at the present leader.
    pub(super) fn lose_resource_manager(
        &mut self,
        session: LeaderSession,
        why: &str,
        ctx: &mut Context<Self>,
    ) {
        let current = self.resource_manager.connected.as_ref();
        if self.ended || current.is_none_or(|c| c.gateway.fence().session() != session) {
            return;
        }
        tracing::warn!(job = %self.job_id(), why, "connection to the ResourceManager lost");
        self.connect(ctx);
    }

    /// Leaves the ResourceManager, because the JobMaster ends.
    pub(super) fn leave_resource_manager(&mut self, finished: bool) {
        self.resource_manager.number = self.next_number();
        self.resource_manager.leader = None;
        self.note_left();
        if let Some(connected) = self.resource_manager.connected.take() {
            // A hint that may be lost: the ResourceManager drops the requirements when the heartbeats stop, and the job
            // after `resourcemanager.job.timeout`.
            connected.gateway.tell(DisconnectJobMaster {
                job_id: self.job_id(),
                job_master_id: self.deps.session,
                finished,
            });
        }
    }

    /// Returns true if a call whose caller names `session` comes from the ResourceManager that the JobMaster is registered at. A caller
    /// without a session is nobody's leader.
    pub(super) fn is_my_resource_manager(&self, session: Option<LeaderSession>) -> bool {
        let mine = self.resource_manager.connected.as_ref().map(|c| c.gateway.fence().session());
        session.is_some() && session == mine
    }
}

/// Waits until the session is published as the leader's.
async fn leads(mut leader: watch::Receiver<Option<LeaderInformation>>, session: LeaderSession) {
    let mine = |leader: &Option<LeaderInformation>| {
        leader.as_ref().is_some_and(|leader| leader.session == session)
    };
    let _ = leader.wait_for(mine).await;
}

impl JobMaster {
    /// Connects to another ResourceManager that leads; does nothing if none leads now.
    fn leader_changed(&mut self, leader: Option<LeaderInformation>, ctx: &mut Context<Self>) {
        if self.ended || self.resource_manager.leader == leader {
            return;
        }
        // A time without a leader is no reason to leave the ResourceManager that the job is
        // registered at: the job keeps its slots in any case.
        if leader.is_some() {
            self.resource_manager.leader = leader;
            self.connect(ctx);
        }
    }

    /// Connects to the ResourceManager that has accepted the JobMaster.
    fn registered(
        &mut self,
        number: u64,
        gateway: Remote<ResourceManagerGateway>,
        accepted: &JobMasterAccepted,
        ctx: &mut Context<Self>,
    ) {
        if self.ended || self.resource_manager.number != number {
            return;
        }
        let peer = Party::ResourceManager { session: gateway.fence().session() };
        let heartbeat = &self.deps.services.heartbeat;
        let node = accepted.heartbeat.node.clone();
        let report_to = ctx.address().recipient();
        let watch = heartbeat.expect(self.party(), peer, node, &self.marker, report_to);
        tracing::info!(job = %self.job_id(), leader = %gateway.address(), "registered at the ResourceManager");
        self.deps.services.probe.note(Fact::LeaderFollowed {
            by: self.address.endpoint.clone(),
            leader: Component::ResourceManager,
            session: gateway.fence().session(),
        });
        self.resource_manager.connected = Some(Connected { gateway, _watch: watch });
        self.declare(ctx);
    }

    /// Goes on after a declaration was answered.
    fn declare_ended(&mut self, number: u64, outcome: Declared, ctx: &mut Context<Self>) {
        let link = &mut self.resource_manager;
        if link.number != number {
            return;
        }
        link.declaring = false;
        let again = std::mem::take(&mut link.again);
        match outcome {
            Declared::Done if again => self.declare(ctx),
            Declared::Done => {}
            Declared::Refused(reason) => {
                tracing::warn!(job = %self.job_id(), reason, "the ResourceManager does not know the JobMaster");
                self.connect(ctx);
            }
            Declared::Again(error) => {
                tracing::debug!(job = %self.job_id(), error, "requirements were not declared; trying again");
                self.declare(ctx);
            }
        }
    }
}

/// Whether an attempt to register is still wanted.
#[derive(actix::Message)]
#[rtype(result = "bool")]
struct IsCurrent(u64);

impl Handler<IsCurrent> for JobMaster {
    type Result = bool;
    fn handle(&mut self, IsCurrent(number): IsCurrent, _: &mut Context<Self>) -> bool {
        self.resource_manager.number == number
    }
}

/// The answer to a declaration.
enum Declared {
    Done,
    Refused(String),
    Again(String),
}
