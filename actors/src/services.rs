//! The services that every component of one process shares: the process's clock, RPC, options,
//! identity, heartbeats, leader retrieval, metrics and fatal-error handler.
//!
//! Nothing here may be global: the value is made once by the process's entrypoint (or once per
//! simulated host) and handed to constructors.

pub use crate::heartbeat::{
    HeartbeatHandle, HeartbeatReport, LossCause, PeerWatch, Target, TurnMarker,
};
use crate::probe::Probe;
use actix::{Actor, Addr, Context, Handler, Recipient};
use control::mutation::Mutation;
use futures::future::BoxFuture;
use gateways::leader_election::{Component, LeaderInformation, NotLeader};
use gateways::{EndpointAddress, FabricError, Registration, RpcService};
use model::{LeaderSession, ProcessSession, ResourceId};
use platform::watch;
use platform::{Lane, Platform};
use std::{fmt, sync::Arc, time::Duration};
use thiserror::Error;
use tokio::sync::oneshot;

/// The services that the actors of one process share: made once by the process's entrypoint (or for each simulated
/// host) and handed to constructors. Clones name the same services and are cheap.
#[derive(Clone)]
pub struct ProcessServices {
    /// Source of time, entropy, sockets and lanes.
    pub platform: Platform,
    /// RPC service of the process: serves endpoints and makes gateways.
    pub rpc: RpcService,
    /// Options of the process, as read at its start; a job's own options are not among them.
    pub options: Arc<conf::Options>,
    /// Id of the process as a resource of the cluster: by it other processes name this TaskManager or JobManager in
    /// messages.
    pub resource_id: ResourceId,
    /// Session of this run of the process, new with each start. The process's own endpoints (those without a leader,
    /// such as heartbeats) are fenced by it: they refuse calls that name another session.
    pub session: ProcessSession,
    /// Handle of the process's heartbeat service, by which actors watch peers in other processes and mark their turns.
    pub heartbeat: HeartbeatHandle,
    /// Source of the current leaders of all components; in a JobManager also of those in its own process.
    pub retrieval: Arc<dyn LeaderRetrieval>,
    /// Receiver of errors that the process can't survive; the first report ends the process.
    pub fatal: FatalErrorHandler,
    /// Registry of the process's metrics, to which components add theirs; reporters and the MetricQueryService read it.
    pub metrics: Arc<metrics::Registry>,
    /// This host's name, as other processes reach it and users see it.
    pub host: String,
    /// The one rule that the actors of this process break on purpose, so that a simulation can show that its checks find the fault;
    /// [`Mutation::None`] (nothing is broken) outside of the simulation.
    pub mutation: Mutation,
    /// Observer to which actors give the facts of the control plane; [`crate::probe::NoProbe`] outside of the
    /// simulation.
    pub probe: Arc<dyn Probe>,
}

impl fmt::Debug for ProcessServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessServices")
            .field("resource_id", &self.resource_id)
            .field("session", &self.session)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl ProcessServices {
    /// Returns the address of this process's heartbeat endpoint, which a component names when it registers at a leader,
    /// so that the leader's process can send beats to it.
    pub fn heartbeat_address(&self) -> EndpointAddress {
        self.rpc.address_of(crate::heartbeat::ENDPOINT)
    }

    /// Makes the turn marker (counter of finished turns) of an actor, which the log calls `actor`. The process's
    /// watchdog looks at it until its last clone is dropped: an actor that finishes no turn for longer than
    /// `heartbeat.stuck-after`, counted from this call, ends the process. The actor must call [`TurnMarker::tick`] when it starts.
    pub fn turn_marker(&self, actor: impl Into<String>) -> TurnMarker {
        self.heartbeat.turn_marker(actor)
    }
}

/// Message that ends an actor in an orderly way: the actor first ends what it runs, such as actors of its own, then
/// itself. The answer comes once the actor takes no more turns. Sent by [`Running::stop`] and by the drop of a [`Running`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::Message)]
#[rtype(result = "()")]
pub struct Stop;

/// Makes an actor stop at once when it is told to.
macro_rules! stops_at_once {
    ($actor:ty) => {
        impl actix::Handler<$crate::services::Stop> for $actor {
            type Result = ();

            fn handle(&mut self, _: $crate::services::Stop, ctx: &mut Self::Context) {
                actix::ActorContext::stop(ctx);
            }
        }
    };
}
pub(crate) use stops_at_once;

/// The owner's handle of a running actor and of the name that it is served under. Dropping the handle withdraws the
/// name, so that calls fail, and asks the actor to stop, without waiting; [`Running::stop`] waits. The handle notices an actor that dies
/// of a panic only if it is [guarded](Running::guarded).
#[derive(derive_more::Debug)]
#[debug("Running({})", self.address)]
pub struct Running<A: Actor<Context = Context<A>> + Handler<Stop>> {
    address: EndpointAddress,
    addr: Addr<A>,
    registration: Option<Registration>,
    /// Guard; once it is dropped, the actor's end is not reported any more.
    guard: Option<oneshot::Sender<()>>,
}

/// Interval at which a guarded actor is checked.
const DEATH_CHECK: Duration = Duration::from_millis(500);

impl<A: Actor<Context = Context<A>> + Handler<Stop>> Running<A> {
    /// Makes the handle of an actor that is served at `address`; `registration` keeps it served while it lives. Nobody
    /// is told if the actor dies of a panic: see [`Running::guarded`].
    pub fn new(address: EndpointAddress, addr: Addr<A>, registration: Registration) -> Self {
        Self { address, addr, registration: Some(registration), guard: None }
    }

    /// Makes the handle of an actor that is not served to other processes, so that only its mailbox reaches it.
    /// `address` is its name in messages and in the report of its death.
    pub fn unserved(address: EndpointAddress, addr: Addr<A>) -> Self {
        Self { address, addr, registration: None, guard: None }
    }

    /// Guards the actor: from now on its end by anything but this handle (as a rule a handler that panicked), which is noticed
    /// within 0.5 s, is reported to `fatal` under the endpoint's name, which ends the process. Stopping or dropping the handle
    /// ends the guard. Used for every component that the process can't do without.
    #[must_use]
    pub fn guarded(mut self, platform: &Platform, fatal: &FatalErrorHandler) -> Self {
        let (until, mut ended) = oneshot::channel();
        self.guard = Some(until);
        let (addr, fatal) = (self.addr.clone(), fatal.clone());
        let component = self.address.endpoint.clone();
        platform.lane(Lane::Election).spawn_local(async move {
            loop {
                tokio::select! {
                    biased;
                    _ = &mut ended => return,
                    () = tokio::time::sleep(DEATH_CHECK) => {}
                }
                if !addr.connected() {
                    fatal.report(component, "its actor has died: a handler panicked");
                    return;
                }
            }
        });
        self
    }

    /// Returns the address of the actor's endpoint. Of an actor that is not served ([`Running::unserved`]) it is only a
    /// name.
    pub fn address(&self) -> &EndpointAddress {
        &self.address
    }

    /// Returns the address of the actor's mailbox, by which code of this process sends it messages.
    pub fn addr(&self) -> &Addr<A> {
        &self.addr
    }

    /// Ends the guard of [`Running::guarded`]: the actor's end is not reported any more. For an actor that is about to end in another way
    /// than by [`Running::stop`].
    pub fn unguard(&mut self) {
        self.guard.take();
    }

    /// Withdraws the actor's name, asks the actor to stop ([`Stop`]), and waits without a time limit until it has
    /// ended; returns at once if it has died. Its death is not reported from now on.
    pub async fn stop(mut self) {
        self.unguard();
        self.registration.take();
        // A fresh handle is never parked by a full mailbox; an actor that is dead has stopped too.
        let _ = self.addr.clone().send(Stop).await;
    }
}

impl<A: Actor<Context = Context<A>> + Handler<Stop>> Drop for Running<A> {
    fn drop(&mut self) {
        self.guard.take();
        self.registration.take();
        let _ = self.addr.clone().try_send(Stop);
    }
}

/// The error that ends the process, as a component reported it to the [`FatalErrorHandler`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{component} failed: {cause}")]
pub struct FatalError {
    /// Name of the component that can't go on, as the reporter chose it: as a rule its endpoint's name, such as `task_executor`; also
    /// `watchdog` for a stuck actor, or `program host of job …` for user code inside the process that can't be stopped.
    pub component: String,
    /// Reason as text for people.
    pub cause: String,
}

/// Receives errors that a process can't survive; one per process, shared by its clones. Only the first report counts:
/// the process's main loop waits for it and ends the process. Later ones are only logged.
#[derive(Debug, Clone)]
pub struct FatalErrorHandler {
    first: Arc<watch::Sender<Option<FatalError>>>,
}

impl Default for FatalErrorHandler {
    fn default() -> Self {
        Self { first: Arc::new(watch::Sender::new(None)) }
    }
}

impl FatalErrorHandler {
    /// Reports that `component` can't continue for `cause` (text for people) and must not be left half alive, and logs
    /// an error. Returns at once; the first report ends the process.
    pub fn report(&self, component: impl Into<String>, cause: impl Into<String>) {
        let error = FatalError { component: component.into(), cause: cause.into() };
        tracing::error!(component = %error.component, cause = %error.cause, "fatal error");
        self.first.set_first(error);
    }

    /// Waits, without a time limit, for the first report and returns it; at once if there was one. Every call returns the same report.
    pub async fn reported(&self) -> FatalError {
        match self.first.subscribe().some().await {
            Ok(error) => error,
            // Can't happen while `self` holds the sender; waiting is right if it did.
            Err(watch::Closed) => futures::future::pending().await,
        }
    }

    /// Returns the first report; `None` if nothing was reported yet. Does not wait.
    pub fn first(&self) -> Option<FatalError> {
        self.first.borrow().clone()
    }
}

/// A source of the current leaders of components: a process's own table of leaders, or questions to the JobManager process that leads.
/// Components [`watch`](Self::watch) a leader and follow its changes; the last known one stays while nobody can be asked.
pub trait LeaderRetrieval: Send + Sync {
    /// Returns a receiver of the newest known address and session of the component's leader, at once; its value is `None` while none is
    /// known: before the first answer of another process, and after a leader was withdrawn. A known leader need not be alive: while the
    /// asked process does not answer, the last known one stays. The first receiver of a component begins the questions to another process
    /// if these are necessary; they end once its last receiver is dropped.
    fn watch(&self, component: Component) -> watch::Receiver<Option<LeaderInformation>>;
    /// Returns the obstacle that keeps leaders from being found, as text for users: the error of the last failed question to another
    /// process (not reached, another secret, …), until a question is answered. `None` if there is none, and always for a process's own
    /// table. A TaskExecutor that gives up finding the ResourceManager adds it to its fatal error.
    fn obstacle(&self) -> Option<String> {
        None
    }
}

/// A message of an election to a contender (the leader shell of a component that stands for leadership). The answer to
/// [`Leadership::Revoked`] (its handler's future) means that everything the contender had started under the session has
/// ended: the next grant waits for it. A JobMaster's shell, which is the job's runner, grants itself the leadership instead and gets no
/// revocations: the Dispatcher stops it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, actix::Message)]
#[rtype(result = "()")]
pub enum Leadership {
    /// The component is led under this session from now on. The contender starts its leader, then confirms it by
    /// [`LeaderElection::confirm`], which publishes the leader's address.
    Granted(LeaderSession),
    /// The session has ended, because the process lost its lease or the election service stops; its address is withdrawn already. The
    /// contender stops everything that it had started under the session. Not sent to a contender that has withdrawn or was replaced.
    Revoked(LeaderSession),
}

/// The election service of a JobManager process, as its components (Dispatcher and ResourceManager) see it.
/// The process holds one lease for all of them; each gets sessions of its own. Order: a component's leader shell calls
/// [`contend`](Self::contend) once; for each session that is granted to it, it starts its leader, then calls
/// [`confirm`](Self::confirm), until the session is revoked or the shell drops its [`Contention`].
pub trait LeaderElection: Send + Sync {
    /// Stands for leadership of `component`, and returns at once. There is one contender per component and process: a later one takes
    /// its place, and the earlier one gets no further message, not even a revocation. Grants and revocations are sent to `contender`,
    /// the first grant as soon as the process holds the lease. Dropping the returned contention withdraws from the
    /// election and takes back a published address, unless a later contender has taken its place; the contender must have ended its
    /// leader, or end it by itself.
    fn contend(&self, component: Component, contender: Recipient<Leadership>) -> Contention;

    /// Confirms that the component answers at `leader.address` under `leader.session`: the election publishes the
    /// address, so that others find the leader, if the session still leads.
    ///
    /// # Errors
    /// Returns [`ConfirmError::NotLeader`] if the session leads no more, [`ConfirmError::Fabric`] if the service did
    /// not answer. A repetition for the same session is allowed, and publishes the address anew.
    fn confirm(
        &self,
        component: Component,
        leader: LeaderInformation,
    ) -> BoxFuture<'static, Result<(), ConfirmError>>;
}

/// The error of [`LeaderElection::confirm`], by which a leader's address is published: the session does not lead, or the election service
/// gave no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfirmError {
    /// The session does not lead (any more), or another process made the call; nothing was published.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// The election service did not answer; the address may have been published all the same, and the call may be
    /// repeated.
    #[error("the election service did not answer: {0}")]
    Fabric(FabricError),
}

/// A contender's place in an election, as [`LeaderElection::contend`] returns it, for as long as this value lives: dropping it withdraws
/// from the election and takes back a published address, soon after the drop has returned. No revocation is sent then.
#[derive(derive_more::Debug)]
#[debug("Contention")]
pub struct Contention {
    withdraw: Option<Box<dyn FnOnce() + Send>>,
}

impl Contention {
    /// Makes a contention that calls `withdraw` once, when it is dropped.
    pub fn new(withdraw: impl FnOnce() + Send + 'static) -> Self {
        Self { withdraw: Some(Box::new(withdraw)) }
    }
}

impl Drop for Contention {
    fn drop(&mut self) {
        if let Some(withdraw) = self.withdraw.take() {
            withdraw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_fatal_error_wins() {
        let handler = FatalErrorHandler::default();
        assert_eq!(handler.first(), None);
        let waiting = handler.clone();
        let waiter = async move { waiting.reported().await };
        let reporter = async {
            handler.report("dispatcher", "no disk");
            handler.report("resource_manager", "late");
        };
        let (seen, ()) = futures::join!(waiter, reporter);
        assert_eq!(seen.to_string(), "dispatcher failed: no disk");
        assert_eq!(handler.first(), Some(seen));
    }
}
