//! The leader shell: one actor that stands for the leadership of one component, whichever it is, and has
//! one leader actor for as long as it leads.
//!
//! The order of steps is `control::leader_process`'s: the shell starts a leader after the one before it has
//! ended, has its address published after it answers, stops it when the leadership is revoked, and looks
//! after its death. The shell must never decide anything that the component itself is for.

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
use gateways::{Call, CallError, FabricError, Gateway, Remote};
use model::{Fence, LeaderSession};
use platform::{Lane, LaneEnded};
use std::fmt;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often a shell looks whether its leader has died.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// The pause before a lost probe or confirmation is repeated: the first one, which doubles, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A component that is led: what its shell has to know about it.
pub trait Led: Sized + Unpin + 'static {
    /// The actor that leads.
    type Leader: Actor<Context = Context<Self::Leader>> + Handler<Stop>;
    /// A call that a leader answers as soon as it works; its refusal is an answer too.
    type Probe: Call;

    /// Names the component.
    fn component(&self) -> Component;
    /// Returns the services of the process.
    fn services(&self) -> &ProcessServices;
    /// Stands for leadership: `shell` is told of grants and revocations until the returned contention is
    /// dropped, which also takes back what was published.
    fn contend(&self, shell: Recipient<Leadership>) -> Contention;
    /// Has the address of a leader that answers published, if its session still leads.
    fn confirm(&self, leader: LeaderInformation) -> BoxFuture<'static, Result<(), ConfirmError>>;
    /// Starts a leader and serves it under `session`, on the shell's own lane. The shell drops the future if
    /// the leadership is revoked before the future is ready. A leader that cannot start reports a fatal
    /// error; its future never becomes ready.
    fn start(&self, session: LeaderSession) -> BoxFuture<'static, Running<Self::Leader>>;
    /// Makes the call that asks whether a leader works.
    fn probe(&self) -> Self::Probe;
    /// Lets go what belongs to a session besides its leader. Polled after the leader has taken its last turn
    /// or its start was given up; the next leader starts after it.
    fn release(&self, _session: LeaderSession) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Says what becomes of the component whose leader died of a panic. Half of what the leader was doing is
    /// unknown, so by default the process starts over.
    fn died(&mut self, session: LeaderSession) -> Death {
        Death::EndProcess(format!("its actor of session {session} died, see the panic above"))
    }
}

/// What the death of a leader entails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Death {
    /// The process ends with this cause.
    EndProcess(String),
    /// The component stands for leadership anew.
    LeadAgain,
    /// Nothing: the leader had done all that it was for.
    Ignore,
}

/// Starts a shell on the work lane. Its own death ends the process (I-9).
///
/// # Errors
/// The lane has ended.
pub async fn start<L: Led + Send>(led: L) -> Result<Running<LeaderShell<L>>, LaneEnded> {
    let services = led.services().clone();
    let name = services.rpc.address_of(&format!("leader_shell/{}", led.component()));
    let lane = services.platform.lane(Lane::Work);
    let addr = lane.run(move || async move { LeaderShell::new(led).start() }).await?;
    Ok(Running::unserved(name, addr).guarded(&services.platform, &services.fatal))
}

/// The leader of a session, from its start until it is told to stop or has died.
struct Live<A: Actor<Context = Context<A>> + Handler<Stop>> {
    session: LeaderSession,
    stage: Stage<A>,
}

enum Stage<A: Actor<Context = Context<A>> + Handler<Stop>> {
    /// Dropping the sender gives the start up.
    Starting {
        _give_up: oneshot::Sender<()>,
    },
    Running(Running<A>),
}

/// The actor.
pub struct LeaderShell<L: Led> {
    led: L,
    hand_over: HandOver,
    live: Option<Live<L::Leader>>,
    contention: Option<Contention>,
    /// Dropped when nothing of the revoked session is left: elections wait for that.
    revocations: Vec<(LeaderSession, oneshot::Sender<()>)>,
    /// Dropped when everything has ended: callers of [`Stop`] wait for that.
    closings: Vec<oneshot::Sender<()>>,
}

impl<L: Led> fmt::Debug for LeaderShell<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaderShell({})", self.led.component())
    }
}

/// A step towards the publication of a leader, as it is repeated.
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

    /// The component.
    pub(crate) fn led(&mut self) -> &mut L {
        &mut self.led
    }

    /// Returns the session that runs and was not told to stop, and its leader once that answers.
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
        // Withdrawn before the new one stands.
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
            // Dropping the stage gives the start up, and its future goes on; a dead leader's end is under way.
            Some(Stage::Starting { .. }) | None => {}
        }
    }

    /// Ends a leader and all that belongs to its session.
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

    /// Asks a leader whether it works, until it answers or is not running any more.
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

    /// Has the address of a leader that answers published, unless it leads no more.
    fn confirm(&self, session: LeaderSession, pause: Duration, ctx: &mut Context<Self>) {
        let Some(running) = self.running(session) else { return };
        let component = self.led.component();
        let leader = LeaderInformation { session, address: running.address().clone() };
        let confirmed = self.led.confirm(leader);
        ctx.spawn(confirmed.into_actor(self).map(move |confirmed, shell, ctx| match confirmed {
            Ok(()) => tracing::info!(%component, %session, "leads"),
            // A revocation is on its way.
            Err(ConfirmError::NotLeader(_)) => {
                tracing::info!(%component, %session, "does not lead any more");
            }
            Err(ConfirmError::Fabric(error)) => {
                shell.repeat(Self::confirm, session, pause, "is not confirmed", &error, ctx);
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
        tracing::warn!(%component, %session, %error, "the leader {what}; trying again in {pause:?}");
        let next = pause.saturating_mul(2).min(RETRY.1);
        ctx.run_later(pause, move |shell, ctx| step(shell, session, next, ctx));
    }

    fn leader_died(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let component = self.led.component();
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

/// A revocation is answered when nothing of its session is left.
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

/// Withdraws, stops the leader, then the shell.
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

/// Waits until the shell drops the sender, because what is waited for is over or the shell itself is gone.
async fn dropped(sender: oneshot::Receiver<()>) {
    let _ = sender.await;
}
