//! The leader election of a JobManager process: one lease from a driver, one session for each contender.
//!
//! The order in which leadership is granted, revoked and published is `control::leadership`'s; this actor delivers them.
//! It must never start or stop a component itself.

#[cfg(test)]
mod tests;

use crate::heartbeat::HeartbeatHandle;
use crate::leader_retrieval::LeaderTable;
use crate::probe::{Fact, Probe};
use crate::services::{
    ConfirmError, Contention, FatalErrorHandler, LeaderElection, Leadership, Running, stops_at_once,
};
use crate::turns::{Then, spawn_then, take_step, takes_steps};
use actix::{Actor, Addr, AsyncContext, Context, Handler, Recipient};
use control::leadership::{Command, Leaderships};
use control::mutation::{Mutation, Rule};
use futures::future::BoxFuture;
use gateways::leader_election::{
    Component, ConfirmLeadership, LeaderElectionGateway, LeaderInformation, NotLeader,
};
use gateways::{Answer, Ask, CallError, EndpointAddress, Principal, Remote, RpcService};
use model::{LeaderSession, ProcessSession};
use platform::{Lane, LaneEnded, Platform};
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::ha::{Campaign, Candidate, ElectionDriver, LeaseEvent};
use tokio::sync::oneshot;

/// The endpoint name that a JobManager process's election service is served under, to its own process only.
pub const ENDPOINT: &str = "leader_election";

/// The dependencies of a process's election service: the driver of the lease, the process's addresses, the table in which leaders
/// are published, and services of the process.
#[derive(Clone, derive_more::Debug)]
#[debug("ElectionDeps {{ driver: {:?}, .. }}", self.driver)]
pub struct ElectionDeps {
    /// Source of time, threads (lanes) and random numbers.
    pub platform: Platform,
    /// RPC service of the process, on which the election service serves its endpoint.
    pub rpc: RpcService,
    /// Session of this run of the process, which calls to the service's endpoint have to name.
    pub session: ProcessSession,
    /// Driver of the election, such as the HA store: it grants this process the lease (permission to lead) or takes it
    /// back.
    pub driver: Arc<dyn ElectionDriver>,
    /// RPC and REST addresses of this process, which the driver writes into the leader's record while this process
    /// leads.
    pub candidate: Candidate,
    /// Table in which the service publishes leaders that have confirmed that they answer; leader retrieval reads it.
    pub leaders: LeaderTable,
    /// The one rule that the simulation breaks on purpose, to show that its checks find the fault; [`Mutation::None`]
    /// outside of the simulation.
    pub mutation: Mutation,
    /// Observer to which the service gives grants, revocations and publications; one that does nothing outside of
    /// tests.
    pub probe: Arc<dyn Probe>,
    /// Receiver of errors that end the process; the death of the service by a panic is reported to it.
    pub fatal: FatalErrorHandler,
    /// Handle of the process's heartbeat service: the election marks its turns there, so that the watchdog can notice a
    /// blocked lane.
    pub heartbeat: HeartbeatHandle,
}

/// The owner's handle of a JobManager process's running election service, which holds one lease and grants leaderships
/// to components. Dropping it stops the service and gives the lease up, without waiting for that.
#[derive(Debug)]
pub struct ElectionService {
    running: Running<LeaderElectionActor>,
    handle: Arc<ElectionHandle>,
    resign: oneshot::Sender<()>,
    resigned: oneshot::Receiver<()>,
}

impl ElectionService {
    /// Returns the handle by which components of this process stand for election and confirm their leaders.
    pub fn handle(&self) -> Arc<dyn LeaderElection> {
        Arc::clone(&self.handle) as Arc<dyn LeaderElection>
    }

    /// Returns the address of the service's endpoint, at which components of this process confirm leaderships.
    pub fn address(&self) -> &EndpointAddress {
        self.running.address()
    }

    /// Revokes all leaderships, gives the lease up, so that another process can lead at once, and ends; returns when
    /// the driver has given it up. Does not wait until the contenders have stopped their leaders: they should have
    /// withdrawn before.
    pub async fn stop(self) {
        self.running.stop().await;
        drop(self.resign);
        // Dropped once the driver has given the lease up.
        let _ = self.resigned.await;
    }
}

/// Starts the service on the election lane (thread of actors) and serves it as [`ENDPOINT`]. It stands for the lease
/// (permission to lead, with a deadline) at once, also while nobody contends, and grants sessions to contenders while it has it. Returns
/// before the lease is granted. If the service dies of a panic, the process ends.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start(deps: ElectionDeps) -> Result<ElectionService, LaneEnded> {
    let lane = deps.platform.lane(Lane::Election);
    let (resign, resign_seen) = oneshot::channel();
    let (resigned_in, resigned) = oneshot::channel();
    let actor = LeaderElectionActor {
        core: Leaderships::new(deps.platform.random_u128(), deps.mutation),
        contenders: BTreeMap::new(),
        confirmed: BTreeMap::new(),
        deps: deps.clone(),
        campaign: Some((resign_seen, resigned_in)),
    };
    let addr = lane.run(|| async move { actor.start() }).await?;
    let endpoint = LeaderElectionGateway::endpoint(addr.clone());
    let registration = deps.rpc.serve(ENDPOINT, deps.session, endpoint);
    let address = deps.rpc.address_of(ENDPOINT);
    let gateway = deps.rpc.gateway(&address, deps.session);
    let (platform, fatal) = (deps.platform, deps.fatal);
    let handle = ElectionHandle { addr: addr.clone(), gateway, platform: platform.clone() };
    Ok(ElectionService {
        running: Running::new(address, addr, registration).guarded(&platform, &fatal),
        handle: Arc::new(handle),
        resign,
        resigned,
    })
}

/// The election service as components of its process see it: implements [`LeaderElection`]. Cheap to clone; dropping it
/// stops nothing.
#[derive(Clone, derive_more::Debug)]
#[debug("ElectionHandle")]
pub struct ElectionHandle {
    addr: Addr<LeaderElectionActor>,
    gateway: Remote<LeaderElectionGateway>,
    platform: Platform,
}

impl LeaderElection for ElectionHandle {
    fn contend(&self, component: Component, contender: Recipient<Leadership>) -> Contention {
        let place = self.platform.random_u64();
        // A fresh handle is never parked by a full mailbox; a service that has ended grants nothing.
        let contend = Then::<LeaderElectionActor>::new(move |actor, ctx| {
            actor.contend(component, place, contender, ctx);
        });
        let _ = self.addr.clone().try_send(contend);
        let addr = self.addr.clone();
        Contention::new(move || {
            let withdraw = Then::<LeaderElectionActor>::new(move |actor, ctx| {
                actor.withdraw(component, place, ctx);
            });
            let _ = addr.try_send(withdraw);
        })
    }

    fn confirm(
        &self,
        component: Component,
        leader: LeaderInformation,
    ) -> BoxFuture<'static, Result<(), ConfirmError>> {
        let gateway = self.gateway.clone();
        Box::pin(async move {
            match gateway.ask(ConfirmLeadership { component, leader }).await {
                Ok(()) => Ok(()),
                Err(CallError::Refused(not_leader)) => Err(not_leader.into()),
                Err(CallError::Fabric(error)) => Err(ConfirmError::Fabric(error)),
            }
        })
    }
}

/// The actor of a JobManager process's leader election: holds the lease, grants and revokes leaderships of its
/// components and publishes their leaders.
#[derive(Debug)]
pub struct LeaderElectionActor {
    core: Leaderships<Component>,
    contenders: BTreeMap<Component, Contender>,
    /// Addresses that contenders confirmed.
    confirmed: BTreeMap<Component, LeaderInformation>,
    deps: ElectionDeps,
    /// Receiver of the request to give the lease up, and sender of its completion; taken at the
    /// start.
    campaign: Option<(oneshot::Receiver<()>, oneshot::Sender<()>)>,
}

#[derive(Debug)]
struct Contender {
    place: u64,
    tell: ContenderRecipient,
}

#[derive(derive_more::Debug)]
#[debug("Recipient")]
struct ContenderRecipient(Recipient<Leadership>);

impl Actor for LeaderElectionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        let heartbeat = &self.deps.heartbeat;
        heartbeat.turn_marker(ENDPOINT).tick(ctx, heartbeat.limits().interval);
        let Some((resign, resigned)) = self.campaign.take() else { return };
        let campaign = self.deps.driver.campaign(self.deps.candidate.clone());
        let addr = ctx.address();
        actix::spawn(async move {
            forward(campaign, addr, resign).await;
            drop(resigned);
        });
    }

    fn stopping(&mut self, ctx: &mut Context<Self>) -> actix::Running {
        let commands = self.core.lease_lost();
        self.obey(commands, ctx);
        actix::Running::Stop
    }
}

/// Hands the driver's events on until the actor ends, then gives the lease up.
async fn forward(
    mut campaign: Campaign,
    to: Addr<LeaderElectionActor>,
    mut resign: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            biased;
            _ = &mut resign => break,
            event = campaign.next() => match event {
                // An actor that has ended cannot receive the event; the lease is given up below.
                Some(event) => {
                    let _ = take_step(&to, move |actor, ctx| actor.lease(event, ctx)).await;
                }
                // A driver that has no more to say has not taken back what it said.
                None => {
                    let _ = (&mut resign).await;
                    break;
                }
            },
        }
    }
    campaign.resign().await;
}

impl LeaderElectionActor {
    fn obey(&mut self, commands: Vec<Command<Component>>, ctx: &mut Context<Self>) {
        for command in commands {
            match command {
                Command::Grant { component, session } => self.grant(component, session, ctx),
                Command::Revoke { component, session } => self.revoke(component, session, ctx),
                Command::Publish { component, session } => {
                    let leader = self.confirmed.get(&component).cloned();
                    if let Some(leader) = leader.filter(|leader| leader.session == session) {
                        self.publish(component, leader);
                    }
                }
                Command::Retract { component, session } => {
                    tracing::info!(%component, %session, "leader's address taken back");
                    self.confirmed.remove(&component);
                    self.deps.leaders.set(component, None);
                }
            }
        }
    }

    fn publish(&self, component: Component, leader: LeaderInformation) {
        tracing::info!(%component, session = %leader.session, address = %leader.address, "leader published");
        self.deps.probe.note(Fact::LeaderPublished { component, leader: leader.clone() });
        self.deps.leaders.set(component, Some(leader));
    }

    fn grant(&mut self, component: Component, session: LeaderSession, ctx: &mut Context<Self>) {
        let Some(contender) = self.contenders.get(&component) else { return };
        tracing::info!(%component, %session, "leadership granted");
        self.deps.probe.note(Fact::LeadershipGranted { component, session });
        if !self.deps.mutation.keeps(Rule::PublishAfterAnswer) {
            let address = self.deps.rpc.address_of(&component.to_string());
            self.publish(component, LeaderInformation { session, address });
        }
        if contender.tell.0.clone().try_send(Leadership::Granted(session)).is_err() {
            // It has died without withdrawing.
            self.contenders.remove(&component);
            let commands = self.core.withdraw(component);
            self.obey(commands, ctx);
        }
    }

    fn revoke(&mut self, component: Component, session: LeaderSession, ctx: &mut Context<Self>) {
        let Some(contender) = self.contenders.get(&component) else { return };
        tracing::info!(%component, %session, "leadership revoked");
        self.deps.probe.note(Fact::LeadershipRevoked { component, session });
        let revoked = contender.tell.0.clone().send(Leadership::Revoked(session));
        // A contender that is dead has ended too.
        spawn_then(ctx, revoked, move |actor, _, ctx| actor.ended(component, session, ctx));
    }

    /// Enters a component that stands for election.
    fn contend(
        &mut self,
        component: Component,
        place: u64,
        contender: Recipient<Leadership>,
        ctx: &mut Context<Self>,
    ) {
        let contender = Contender { place, tell: ContenderRecipient(contender) };
        self.contenders.insert(component, contender);
        let commands = self.core.contend(component);
        self.obey(commands, ctx);
    }

    /// Removes a component that stands no more.
    fn withdraw(&mut self, component: Component, place: u64, ctx: &mut Context<Self>) {
        // Another contender may have taken its place.
        if self.contenders.get(&component).is_some_and(|contender| contender.place == place) {
            let commands = self.core.withdraw(component);
            self.obey(commands, ctx);
            self.contenders.remove(&component);
        }
    }

    /// Follows an event of the driver.
    fn lease(&mut self, event: LeaseEvent, ctx: &mut Context<Self>) {
        let commands = match event {
            LeaseEvent::Granted { store_epoch } => self.core.lease_granted(store_epoch),
            LeaseEvent::Lost => self.core.lease_lost(),
        };
        self.obey(commands, ctx);
    }

    /// Notes that everything that a contender had started under a revoked session has ended.
    fn ended(&mut self, component: Component, session: LeaderSession, ctx: &mut Context<Self>) {
        self.deps.probe.note(Fact::LeadershipEnded { component, session });
        let commands = self.core.ended(component, session);
        self.obey(commands, ctx);
    }
}

impl Handler<Ask<ConfirmLeadership>> for LeaderElectionActor {
    type Result = Answer<ConfirmLeadership>;

    fn handle(&mut self, ask: Ask<ConfirmLeadership>, ctx: &mut Context<Self>) -> Self::Result {
        let ConfirmLeadership { component, leader } = ask.body;
        let session = leader.session;
        let not_leader = Err(NotLeader { session });
        // Leadership is decided within this process: no other process may confirm it.
        if ask.caller.principal != Principal::Local {
            return not_leader;
        }
        let Some(commands) = self.core.confirm(component, session) else {
            self.deps
                .probe
                .note(Fact::StaleCallerRefused { call: "ConfirmLeadership", caller: session });
            return not_leader;
        };
        self.confirmed.insert(component, leader);
        self.obey(commands, ctx);
        Ok(())
    }
}

stops_at_once!(LeaderElectionActor);
takes_steps!(LeaderElectionActor);
