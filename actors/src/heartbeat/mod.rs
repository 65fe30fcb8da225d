//! The heartbeat service of a process: an actor on a lane of its own that sends the beats
//! of the pairs in its table, answers those of others, and watches the turns of this process's actors.
//!
//! It decides nothing: it reports (party, lost) to the owner of a pair. The one thing that it ends is
//! its own process, when an actor of it is stuck.

mod handle;
mod table;
#[cfg(test)]
mod tests;

pub use handle::{HeartbeatHandle, HeartbeatReport, LossCause, PeerWatch, Target, TurnMarker};

use crate::services::{FatalErrorHandler, Running, stops_at_once};
use crate::turns::{take_step, takes_steps};
use actix::{Actor, AsyncContext, Context, Handler};
use control::liveness::Limits;
use gateways::heartbeat::{Beat, HeartbeatGateway};
use gateways::{Answer, Ask, CallError, FabricError, PeerEvent, RpcService};
use handle::Shared;
use model::ProcessSession;
use platform::{Lane, LaneEnded, Platform};
use std::sync::Arc;
use std::time::Duration;
use table::{DueBeat, Outcome};
use tokio::sync::broadcast;

/// The endpoint name that a process's heartbeat service is served under.
pub const ENDPOINT: &str = "heartbeat";

/// A function that writes the stacks of this process's threads to its log, and returns when that is done; the heartbeat service calls it
/// on its own thread, at most once.
pub type StackLogger = Arc<dyn Fn() + Send + Sync>;

/// The dependencies of a process's heartbeat service: platform, RPC, the process's session, and what happens when an actor is
/// stuck (a fatal error, before it a log of all stacks).
#[derive(Clone, derive_more::Debug)]
#[debug("HeartbeatDeps {{ session: {:?}, .. }}", self.session)]
pub struct HeartbeatDeps {
    /// Source of threads (lanes); the time is that of the service's handle.
    pub platform: Platform,
    /// RPC service of the process, by which the heartbeat service sends and answers beats.
    pub rpc: RpcService,
    /// Session of this run of the process, which calls to the service's endpoint have to name.
    pub session: ProcessSession,
    /// Receiver of the report that an actor of this process is stuck, which ends the process.
    pub fatal: FatalErrorHandler,
    /// Function that logs the stacks of all threads, called once before a stuck actor ends the process; `None`: no
    /// stacks are logged.
    pub stacks: Option<StackLogger>,
}

/// Starts the heartbeat service of `handle` on the heartbeat lane (thread of its own), and serves it as [`ENDPOINT`].
/// From then on, until the returned handle is stopped or dropped, beats are sent and answered, and an actor of this process that is
/// stuck ends the process. If the service dies of a panic, the process ends.
///
/// # Errors
/// Returns [`LaneEnded`] if the lane has ended, because the process is ending.
pub async fn start(
    handle: &HeartbeatHandle,
    deps: HeartbeatDeps,
) -> Result<Running<HeartbeatActor>, LaneEnded> {
    let actor =
        HeartbeatActor { shared: Arc::clone(&handle.shared), deps: deps.clone(), over: false };
    let (rpc, session) = (deps.rpc.clone(), deps.session);
    // Registered where the actor is: beats are handed over on the thread that reads them.
    let started = deps.platform.lane(Lane::Heartbeat).run(move || async move {
        let addr = actor.start();
        let endpoint = HeartbeatGateway::endpoint(addr.clone());
        let registration = rpc.serve(ENDPOINT, session, endpoint);
        (addr, registration)
    });
    let (addr, registration) = started.await?;
    let running = Running::new(deps.rpc.address_of(ENDPOINT), addr, registration);
    Ok(running.guarded(&deps.platform, &deps.fatal))
}

/// Reads the limits from the options `heartbeat.interval`, `heartbeat.timeout` and `heartbeat.stuck-after` (time after
/// which an actor that finishes no turn is stuck).
pub fn limits(options: &conf::Options) -> Limits {
    Limits {
        interval: options.get(&conf::heartbeat::INTERVAL),
        timeout: options.get(&conf::heartbeat::TIMEOUT),
        stuck_after: options.get(&conf::heartbeat::STUCK_AFTER),
    }
}

/// The actor that sends and answers the process's heartbeats, and watches the turns of its actors.
#[derive(derive_more::Debug)]
#[debug("HeartbeatActor")]
pub struct HeartbeatActor {
    shared: Arc<Shared>,
    deps: HeartbeatDeps,
    /// True once a stuck actor was reported; it is reported only once.
    over: bool,
}

impl Actor for HeartbeatActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        ctx.run_interval(self.shared.limits.interval / 8, |actor, _| actor.turn());
        let (addr, mut events) = (ctx.address(), self.deps.rpc.peer_events());
        actix::spawn(async move {
            loop {
                let event = match events.recv().await {
                    Ok(event) => event,
                    // Missed ones show as time-outs.
                    Err(broadcast::error::RecvError::Lagged(_)) => continue,
                    Err(broadcast::error::RecvError::Closed) => return,
                };
                if take_step(&addr, |actor, _| actor.peer_seen(event)).await.is_err() {
                    return;
                }
            }
        });
    }
}

impl HeartbeatActor {
    fn turn(&mut self) {
        let now = self.shared.platform.now();
        let stuck = self.shared.lock().observe_turns(now);
        if let Some((actor, age)) = stuck
            && !self.over
        {
            self.over = true;
            let cause = format!("{actor} has not finished a turn for {} ms", age.as_millis());
            tracing::error!(%cause, "the watchdog ends this process");
            if let Some(stacks) = &self.deps.stacks {
                stacks();
            }
            self.deps.fatal.report("watchdog", cause);
        }
        let due = self.shared.lock().turn(now, &self.deps.rpc);
        let within = self.patience();
        for beat in due {
            // A task each, not a future of this actor: actors poll all of theirs at each turn.
            actix::spawn(send(Arc::clone(&self.shared), beat, within));
        }
    }

    /// Takes note of what the fabric has seen of a peer. A suspicion is the fabric's to confirm or to clear.
    fn peer_seen(&self, event: PeerEvent) {
        if let PeerEvent::Confirmed { node, cause } = event {
            let now = self.shared.platform.now();
            self.shared.lock().confirmed(now, &node, &cause.to_string());
        }
    }

    /// Returns the time that one beat waits for its answer: less than the time-out, so that a lost
    /// answer alone does not end the pair.
    fn patience(&self) -> Duration {
        let limits = self.shared.limits;
        limits.interval.max(limits.timeout / 4)
    }
}

async fn send(shared: Arc<Shared>, due: DueBeat, within: Duration) {
    let outcome = match due.to.ask_within(due.beat, within).await {
        Ok(reply) => Outcome::Answered(reply),
        Err(CallError::Fabric(FabricError::Fenced { .. })) => Outcome::OtherIncarnation,
        Err(_) => Outcome::Nothing,
    };
    let now = shared.platform.now();
    shared.lock().settle(due.pair, now, outcome);
}

impl Handler<Ask<Beat>> for HeartbeatActor {
    type Result = Answer<Beat>;

    fn handle(&mut self, ask: Ask<Beat>, _: &mut Context<Self>) -> Self::Result {
        let now = self.shared.platform.now();
        Ok(self.shared.lock().receive(now, ask.body))
    }
}

stops_at_once!(HeartbeatActor);
takes_steps!(HeartbeatActor);
