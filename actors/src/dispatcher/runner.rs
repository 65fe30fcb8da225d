//! The contender: one Dispatcher per leadership, started after the last one has ended, confirmed after it
//! answers, stopped when leadership is revoked.

use super::{Dispatcher, DispatcherDeps, leader};
use crate::hand_over::Waiting;
use crate::services::{ConfirmError, Contention, Leadership, Running, Stop};
use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, ResponseFuture};
use control::leader_process::{HandOver, Order};
use gateways::dispatcher::{DispatcherGateway, RequestJobStatus};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{CallError, Remote};
use model::{DispatcherId, Fence, JobId, LeaderSession};
use platform::{Lane, LaneEnded};
use std::fmt;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often the Dispatcher is looked after.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A running contender. Dropping it ends everything without waiting.
#[derive(Debug)]
pub struct DispatcherHandle {
    addr: Addr<DispatcherRunner>,
    /// While this lives, the contender's death ends the process (I-9).
    guard: Option<oneshot::Sender<()>>,
}

impl DispatcherHandle {
    /// Stops the Dispatcher and its jobs' JobMasters (jobs are suspended), then the contender.
    pub async fn stop(mut self) {
        self.guard.take();
        // An error says that it has ended already.
        let _ = self.addr.clone().send(Stop).await;
    }
}

impl Drop for DispatcherHandle {
    fn drop(&mut self) {
        self.guard.take();
        let _ = self.addr.clone().try_send(Stop);
    }
}

/// Starts the contender on the work lane.
///
/// # Errors
/// The lane has ended.
pub async fn start(deps: DispatcherDeps) -> Result<DispatcherHandle, LaneEnded> {
    let (platform, fatal) = (deps.services.platform.clone(), deps.services.fatal.clone());
    let lane = platform.lane(Lane::Work);
    let addr = lane.run(move || async move { DispatcherRunner::new(deps).start() }).await?;
    let (guard, mut ended) = oneshot::channel::<()>();
    let watched = addr.clone();
    platform.lane(Lane::Election).spawn_local(async move {
        loop {
            tokio::select! {
                biased;
                _ = &mut ended => return,
                () = tokio::time::sleep(LOOK_AFTER) => {}
            }
            if !watched.connected() {
                fatal.report("Dispatcher", "its contender has died: a handler panicked");
                return;
            }
        }
    });
    Ok(DispatcherHandle { addr, guard: Some(guard) })
}

struct Live {
    session: LeaderSession,
    running: Running<Dispatcher>,
}

/// The actor.
pub struct DispatcherRunner {
    deps: DispatcherDeps,
    hand_over: HandOver,
    live: Option<Live>,
    contention: Option<Contention>,
    waiting: Waiting,
}

impl fmt::Debug for DispatcherRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DispatcherRunner")
    }
}

impl DispatcherRunner {
    fn new(deps: DispatcherDeps) -> Self {
        Self {
            deps,
            hand_over: HandOver::default(),
            live: None,
            contention: None,
            waiting: Waiting::default(),
        }
    }

    fn obey(&mut self, ctx: &mut Context<Self>) {
        for order in self.hand_over.take_orders() {
            match order {
                Order::Start(session) => self.start_dispatcher(session, ctx),
                Order::Stop(session) => self.stop_dispatcher(session, ctx),
                Order::Confirm(session) => self.confirm(session),
                Order::Revoked(session) => self.waiting.revoked(session),
                Order::Died(session) => {
                    // Half of what it was doing is unknown: the process starts over.
                    let cause = format!("its actor of session {session} died, see the panic above");
                    self.deps.services.fatal.report("Dispatcher", cause);
                }
                Order::Closed => {
                    self.waiting.closed();
                    ctx.stop();
                }
            }
        }
    }

    fn start_dispatcher(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let fence = DispatcherId::from_session(session);
        let running = leader::start(self.deps.clone(), fence);
        let gateway: Remote<DispatcherGateway> =
            self.deps.services.rpc.gateway(running.address(), fence);
        self.live = Some(Live { session, running });
        let addr = ctx.address();
        actix::spawn(async move {
            // Any answer of its own will do; this one waits for no job.
            let answer = gateway.ask(RequestJobStatus { job_id: JobId(0) }).await;
            if matches!(answer, Ok(_) | Err(CallError::Refused(_))) {
                let _ = addr.send(Answers(session)).await;
            }
        });
    }

    fn stop_dispatcher(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let live = self.live.take_if(|live| live.session == session);
        let addr = ctx.address();
        actix::spawn(async move {
            if let Some(live) = live {
                live.running.stop().await;
            }
            let _ = addr.send(DispatcherEnded(session)).await;
        });
    }

    fn confirm(&self, session: LeaderSession) {
        let Some(live) = &self.live else { return };
        let leader = LeaderInformation { session, address: live.running.address().clone() };
        let confirmed = self.deps.election.confirm(Component::Dispatcher, leader);
        actix::spawn(async move {
            match confirmed.await {
                Ok(()) => tracing::info!(%session, "Dispatcher leads"),
                // A revocation is on its way.
                Err(ConfirmError::NotLeader(_)) => {
                    tracing::info!(%session, "Dispatcher does not lead any more");
                }
                Err(error) => tracing::error!(%error, "leadership was not confirmed"),
            }
        });
    }

    fn look_after(&mut self, ctx: &mut Context<Self>) {
        let dead = self.live.as_ref().filter(|live| !live.running.addr().connected());
        if let Some(session) = dead.map(|live| live.session) {
            self.live = None;
            self.hand_over.ended(session);
            self.obey(ctx);
        }
    }
}

impl Actor for DispatcherRunner {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let me = ctx.address().recipient();
        self.contention = Some(self.deps.election.contend(Component::Dispatcher, me));
        ctx.run_interval(LOOK_AFTER, Self::look_after);
    }
}

impl Handler<Leadership> for DispatcherRunner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, leadership: Leadership, ctx: &mut Context<Self>) -> Self::Result {
        match leadership {
            Leadership::Granted(session) => {
                self.hand_over.granted(session);
                self.obey(ctx);
                Box::pin(async {})
            }
            Leadership::Revoked(session) => {
                let wait = self.waiting.for_revocation(session);
                self.hand_over.revoked(session);
                self.obey(ctx);
                Box::pin(wait.over())
            }
        }
    }
}

impl Handler<Stop> for DispatcherRunner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) -> Self::Result {
        let wait = self.waiting.for_close();
        self.contention = None;
        self.hand_over.close();
        self.obey(ctx);
        Box::pin(wait.over())
    }
}

/// The Dispatcher of a session answers calls.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Answers(LeaderSession);

impl Handler<Answers> for DispatcherRunner {
    type Result = ();
    fn handle(&mut self, Answers(session): Answers, ctx: &mut Context<Self>) {
        self.hand_over.answers(session);
        self.obey(ctx);
    }
}

/// The Dispatcher of a session has taken its last turn, and its jobs' JobMasters theirs.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct DispatcherEnded(LeaderSession);

impl Handler<DispatcherEnded> for DispatcherRunner {
    type Result = ();
    fn handle(&mut self, DispatcherEnded(session): DispatcherEnded, ctx: &mut Context<Self>) {
        self.hand_over.ended(session);
        self.obey(ctx);
    }
}
