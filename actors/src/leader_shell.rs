//! The leader shell: an actor that stands for the leadership of one component of any kind, and runs one leader actor
//! while it leads.
//!
//! `control::leader_process` decides the order of steps: the shell starts a leader after the previous one has ended,
//! has its address published after it answers, stops it when the leadership is revoked, and notices when it dies. The
//! shell must never decide anything that is the component's own business.

#[cfg(test)]
#[path = "leader_shell_tests.rs"]
pub(crate) mod tests;

use crate::services::{ConfirmError, Contention, Leadership, ProcessServices, Running, Stop};
use actix::fut::ActorFutureExt;
use actix::{
    Actor, ActorContext, AsyncContext, Context, Handler, Recipient, ResponseFuture, WrapFuture,
};
use control::leader_process::{HandOver, Order};
use futures::future::BoxFuture;
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Call, CallError, FabricError, Gateway, Remote, TraceContext};
use model::{Fence, LeaderSession};
use platform::{Lane, LaneEnded};
use std::time::Duration;
use tokio::sync::oneshot;

/// Interval between two checks whether the leader has died.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// The first and the longest pause before a lost probe or confirmation is repeated; the pause doubles each time.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The part of a leader shell (the actor that stands for a component's leadership and runs its leader) that depends on
/// the kind of component: implemented for the Dispatcher, the ResourceManager and a job's JobMaster, and called by the
/// shell. Order: [`contend`](Self::contend) when the shell starts; for each session that is granted, [`start`](Self::start), the call
/// that [`probe`](Self::probe) returns until the leader answers it, then [`confirm`](Self::confirm). When the leader is stopped or has
/// died, or its start is given up, [`release`](Self::release); after a death also [`died`](Self::died).
pub trait Led: Sized + Unpin + 'static {
    /// The actor that leads.
    type Leader: Actor<Context = Context<Self::Leader>> + Handler<Stop>;
    /// A call by which the shell finds out whether a leader works; a refusal counts as an answer.
    type Probe: Call;

    /// Returns the component (Dispatcher, ResourceManager, a job's JobMaster) whose leadership the shell stands for.
    fn component(&self) -> Component;
    /// Returns the services of the process in which the shell runs; the shell calls the leader and reports fatal errors
    /// by them.
    fn services(&self) -> &ProcessServices;
    /// Returns the trace in which the shell logs: that of the request for which the component works; no trace by default.
    fn trace(&self) -> TraceContext {
        TraceContext::NONE
    }
    /// Stands for leadership. The election (for a JobMaster the shell itself, which sends one grant and no revocation) sends
    /// [`Leadership::Granted`] and [`Leadership::Revoked`] to `shell` until
    /// the shell drops the returned contention, which withdraws from the election and takes back a published address.
    /// Called when the shell starts, and again after [`Death::LeadAgain`].
    fn contend(&self, shell: Recipient<Leadership>) -> Contention;
    /// Publishes the address of a leader, so that others find it, if its session still leads. The shell calls this once
    /// the leader answers its probe, and again after a pause while the result is [`ConfirmError::Fabric`].
    ///
    /// # Errors
    /// Returns [`ConfirmError::NotLeader`] if the session leads no more; the shell then waits for the revocation.
    fn confirm(&self, leader: LeaderInformation) -> BoxFuture<'static, Result<(), ConfirmError>>;
    /// Starts the leader's actor and serves it under `session` (the granted leadership), on the shell's own lane
    /// (thread of actors). The shell drops the future if the leadership is revoked first. A leader that cannot start
    /// reports a fatal error, which ends the process, and its future never becomes ready.
    fn start(&self, session: LeaderSession) -> BoxFuture<'static, Running<Self::Leader>>;
    /// Returns the call by which the shell checks whether a leader that has just started works. Any answer of the
    /// leader counts, also a refusal; without one the shell repeats the call. It must not change anything.
    fn probe(&self) -> Self::Probe;
    /// Releases what belongs to a session besides its leader, such as a driver's connection; by default nothing. The
    /// shell polls the future after the session's leader has taken its last turn or its start was given up, and starts
    /// the next leader only after the future is ready.
    fn release(&self, _session: LeaderSession) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Decides what follows when the leader of `session` has died of a panic. The shell calls this after the session
    /// was released. By default the process ends, because the leader's work may be half done.
    fn died(&mut self, session: LeaderSession) -> Death {
        Death::EndProcess(format!("its actor of session {session} died, see the panic above"))
    }
}

/// The shell's reaction to the death of its leader by a panic, as [`Led::died`] decides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// The process ends: the shell reports a fatal error with this text as its cause.
    EndProcess(String),
    /// The shell withdraws and stands for leadership again; the next leader gets a new session.
    LeadAgain,
    /// Nothing happens, because the leader's work was done: the shell goes on without a leader until the next grant. The session is not
    /// given back.
    Ignore,
}

/// Starts a leader shell for `led` on the work lane (thread of actors), where its leaders run as well. The shell stands
/// for leadership, starts a leader whenever it gets the leadership and stops it at the revocation, until the returned handle is stopped
/// or dropped; both also stop a running leader. Returns without waiting for the leadership. If the shell itself dies of a panic, the
/// process ends; if its leader does, [`Led::died`] decides.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start<L: Led + Send>(led: L) -> Result<Running<LeaderShell<L>>, LaneEnded> {
    let services = led.services().clone();
    let name = services.rpc.address_of(&format!("leader_shell/{}", led.component()));
    let lane = services.platform.lane(Lane::Work);
    let addr = lane.run(move || async move { LeaderShell::new(led).start() }).await?;
    Ok(Running::unserved(name, addr).guarded(&services.platform, &services.fatal))
}

/// The leader of a session, from its start until it is asked to stop or dies.
struct Live<A: Actor<Context = Context<A>> + Handler<Stop>> {
    session: LeaderSession,
    stage: Stage<A>,
}

enum Stage<A: Actor<Context = Context<A>> + Handler<Stop>> {
    /// Dropping the sender gives up the start.
    Starting {
        _give_up: oneshot::Sender<()>,
    },
    Running(Running<A>),
}

/// The actor of a leader shell: stands for one component's leadership, and runs one leader actor while the leadership
/// is granted. It starts the next leader only after everything of the previous one has ended.
#[derive(derive_more::Debug)]
#[debug("LeaderShell({})", self.led.component())]
pub struct LeaderShell<L: Led> {
    led: L,
    hand_over: HandOver,
    live: Option<Live<L::Leader>>,
    contention: Option<Contention>,
    /// Revocations that have not been answered. A sender is dropped when nothing of its session is left; the election
    /// waits for that.
    revocations: Vec<(LeaderSession, oneshot::Sender<()>)>,
    /// Callers of [`Stop`], which wait until the shell has ended and drops these senders.
    closings: Vec<oneshot::Sender<()>>,
}

/// A step of publishing a leader that is repeated until it succeeds.
type Step<L> = fn(&LeaderShell<L>, LeaderSession, Duration, &mut Context<LeaderShell<L>>);

impl<L: Led> LeaderShell<L> {
    pub(crate) fn new(led: L) -> Self {
        Self {
            led,
            hand_over: HandOver::default(),
            live: None,
            contention: None,
            revocations: Vec::new(),
            closings: Vec::new(),
        }
    }

    /// Returns the component's part of the shell.
    pub(crate) fn led(&mut self) -> &mut L {
        &mut self.led
    }

    /// Returns the session whose leader runs and was not asked to stop, and that leader once it
    /// answers.
    pub(crate) fn leading(&self) -> Option<(LeaderSession, Option<&Running<L::Leader>>)> {
        let (session, answers) = self.hand_over.leading()?;
        Some((session, self.running(session).filter(|_| answers)))
    }

    fn running(&self, session: LeaderSession) -> Option<&Running<L::Leader>> {
        match self.live.as_ref().filter(|live| live.session == session)?.stage {
            Stage::Running(ref running) => Some(running),
            Stage::Starting { .. } => None,
        }
    }

    fn contend(&mut self, ctx: &Context<Self>) {
        // The old contention is withdrawn before the new one begins.
        self.contention = None;
        self.contention = Some(self.led.contend(ctx.address().recipient()));
    }

    fn obey(&mut self, ctx: &mut Context<Self>) {
        for order in self.hand_over.take_orders() {
            match order {
                Order::Start(session) => self.start_leader(session, ctx),
                Order::Stop(session) => self.stop_leader(session, ctx),
                Order::Confirm(session) => self.confirm(session, RETRY.0, ctx),
                Order::Revoked(session) => {
                    self.revocations.retain(|(known, _)| *known != session);
                }
                Order::Died(session) => self.leader_died(session, ctx),
                Order::Closed => {
                    self.closings.clear();
                    ctx.stop();
                }
            }
        }
    }

    fn start_leader(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let (give_up, given_up) = oneshot::channel();
        self.live = Some(Live { session, stage: Stage::Starting { _give_up: give_up } });
        let starting = self.led.start(session);
        let started = async move {
            tokio::select! {
                biased;
                _ = given_up => None,
                running = starting => Some(running),
            }
        };
        ctx.spawn(started.into_actor(self).map(move |running, shell, ctx| match running {
            Some(running) => {
                shell.live = Some(Live { session, stage: Stage::Running(running) });
                shell.probe(session, RETRY.0, ctx);
            }
            None => shell.end(session, None, ctx),
        }));
    }

    fn stop_leader(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        match self.live.take_if(|live| live.session == session).map(|live| live.stage) {
            Some(Stage::Running(running)) => self.end(session, Some(running), ctx),
            // Dropping the stage gives up the start, whose future then ends the session; a dead leader is being ended
            // already.
            Some(Stage::Starting { .. }) | None => {}
        }
    }

    /// Stops a leader and releases everything that belongs to its session.
    fn end(
        &self,
        session: LeaderSession,
        running: Option<Running<L::Leader>>,
        ctx: &mut Context<Self>,
    ) {
        let release = self.led.release(session);
        let ended = async move {
            if let Some(running) = running {
                running.stop().await;
            }
            release.await;
        };
        ctx.spawn(ended.into_actor(self).map(move |(), shell, ctx| {
            shell.hand_over.ended(session);
            shell.obey(ctx);
        }));
    }

    /// Asks a leader whether it works, repeatedly, until it answers or has ended.
    fn probe(&self, session: LeaderSession, pause: Duration, ctx: &mut Context<Self>) {
        let Some(running) = self.running(session) else { return };
        let fence = <<L::Probe as Call>::Gateway as Gateway>::Fence::from_session(session);
        let gateway: Remote<<L::Probe as Call>::Gateway> =
            self.led.services().rpc.gateway(running.address(), fence);
        let probe = self.led.probe();
        let answer = async move { gateway.ask(probe).await };
        ctx.spawn(answer.into_actor(self).map(move |answer, shell, ctx| match answer {
            Ok(_) | Err(CallError::Refused(_)) => {
                shell.hand_over.answers(session);
                shell.obey(ctx);
            }
            Err(CallError::Fabric(error)) => {
                shell.repeat(Self::probe, session, pause, "does not answer", &error, ctx);
            }
        }));
    }

    /// Has the address of a leader that answers published, unless it no longer leads.
    fn confirm(&self, session: LeaderSession, pause: Duration, ctx: &mut Context<Self>) {
        let Some(running) = self.running(session) else { return };
        let component = self.led.component();
        let leader = LeaderInformation { session, address: running.address().clone() };
        let confirmed = self.led.confirm(leader);
        ctx.spawn(confirmed.into_actor(self).map(move |confirmed, shell, ctx| {
            let _entered = shell.led.trace().enter();
            match confirmed {
                Ok(()) => tracing::info!(%component, %session, "leads"),
                // The revocation will follow.
                Err(ConfirmError::NotLeader(_)) => {
                    tracing::info!(%component, %session, "does not lead any more");
                }
                Err(ConfirmError::Fabric(error)) => {
                    shell.repeat(Self::confirm, session, pause, "is not confirmed", &error, ctx);
                }
            }
        }));
    }

    fn repeat(
        &self,
        step: Step<L>,
        session: LeaderSession,
        pause: Duration,
        what: &str,
        error: &FabricError,
        ctx: &mut Context<Self>,
    ) {
        if self.running(session).is_none() {
            return;
        }
        let component = self.led.component();
        let _entered = self.led.trace().enter();
        tracing::warn!(%component, %session, %error, "the leader {what}; trying again in {pause:?}");
        let next = pause.saturating_mul(2).min(RETRY.1);
        ctx.run_later(pause, move |shell, ctx| step(shell, session, next, ctx));
    }

    fn leader_died(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let component = self.led.component();
        let _entered = self.led.trace().enter();
        tracing::error!(%component, %session, "the leader died of a panic");
        match self.led.died(session) {
            Death::EndProcess(cause) => {
                self.led.services().fatal.report(component.to_string(), cause);
            }
            Death::LeadAgain => self.contend(ctx),
            Death::Ignore => {}
        }
    }

    fn look_after(&mut self, ctx: &mut Context<Self>) {
        let is_dead = |live: &mut Live<L::Leader>| match &live.stage {
            Stage::Running(running) => !running.addr().connected(),
            Stage::Starting { .. } => false,
        };
        if let Some(Live { session, stage: Stage::Running(running) }) = self.live.take_if(is_dead) {
            self.end(session, Some(running), ctx);
        }
    }
}

impl<L: Led> Actor for LeaderShell<L> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.contend(ctx);
        ctx.run_interval(LOOK_AFTER, Self::look_after);
    }
}

/// Handles grants and revocations. A revocation is answered when nothing of its session is left.
impl<L: Led> Handler<Leadership> for LeaderShell<L> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, leadership: Leadership, ctx: &mut Context<Self>) -> Self::Result {
        match leadership {
            Leadership::Granted(session) => {
                self.hand_over.granted(session);
                self.obey(ctx);
                Box::pin(std::future::ready(()))
            }
            Leadership::Revoked(session) => {
                let (done, over) = oneshot::channel();
                self.revocations.push((session, done));
                self.hand_over.revoked(session);
                self.obey(ctx);
                Box::pin(dropped(over))
            }
        }
    }
}

/// Withdraws the contention, stops the leader, then ends the shell.
impl<L: Led> Handler<Stop> for LeaderShell<L> {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) -> Self::Result {
        let (done, over) = oneshot::channel();
        self.closings.push(done);
        self.contention = None;
        self.hand_over.close();
        self.obey(ctx);
        Box::pin(dropped(over))
    }
}

/// Waits until the shell drops the sender: the session or the shell itself has ended.
async fn dropped(sender: oneshot::Receiver<()>) {
    let _ = sender.await;
}
