//! Endpoints: an actor's calls, erased to what the fabric needs; the places of their messages in its mailbox; and the
//! registration that admits calls to it. The fence, the principal and the bounds are checked here and nowhere else, before dispatch.
//!
//! Actix's own mailbox bound does not serve: a full mailbox parks the handle that it was filled through, and whoever
//! sends through a parked handle is never woken. So the bound is kept here, and a request is polled as soon as it is
//! made: one through a parked handle then goes through a fresh one. Actors that serve calls have room for many
//! ([`MAILBOX_CAPACITY`]), which spares each call the making of a handle.

use crate::{
    address::NodeAddress,
    call::{Ask, Call, Caller, Gateway, Principal},
    codec::Encoded,
    error::FabricError,
    options::Watch,
    pending::Outcome,
    witness::FabricFact,
};
use actix::{Actor, Addr, Context, Handler, Recipient, dev::RecipientRequest};
use model::{JobId, LeaderSession};
use platform::Lane;
use std::{
    any::Any,
    marker::PhantomData,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{self, Poll},
    time::Duration,
};
use tokio::sync::Notify;
use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::Instant;

/// Mailbox capacity, in messages, that actors which serve calls set through their [`actix::AsyncContext`] in
/// [`Actor::started`]; Actix's own default is 16. It does not limit calls (`RpcOptions::mailbox_max` does): each call
/// beyond it costs a new handle to the mailbox. A sender that is not asked, such as a heartbeat report, waits for room
/// there, so that old reports do not pile up.
pub const MAILBOX_CAPACITY: usize = 1024;

/// One call of an endpoint.
pub(crate) trait Target: Send + Sync {
    fn id(&self) -> u32;
    fn name(&self) -> &'static str;
    fn connected(&self) -> bool;
    /// Returns itself as `Any`, for a caller in this process that knows the type.
    fn as_any(&self) -> &dyn Any;
    /// Returns an empty place for a message.
    fn place(&self) -> Box<dyn Place>;
    /// Keeps an empty place for another message.
    fn keep(&self, place: Box<dyn Place>);
}

/// The typed form of [`Target`].
pub(crate) struct CallTarget<C: Call> {
    recipient: Recipient<Ask<C>>,
    /// Empty mailbox places for reuse.
    places: Mutex<Vec<Box<dyn Place>>>,
}

/// Places that are kept, of each call.
const KEEP_PLACES: usize = 256;

impl<C: Call> CallTarget<C> {
    /// Makes the future that sends the call. The caller must poll it before anything else is sent.
    pub(crate) fn send(&self, ask: Ask<C>) -> RecipientRequest<Ask<C>> {
        self.recipient.send(ask)
    }
}

impl<C: Call> Target for CallTarget<C> {
    fn id(&self) -> u32 {
        C::ID
    }
    fn name(&self) -> &'static str {
        C::NAME
    }
    fn connected(&self) -> bool {
        self.recipient.connected()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn place(&self) -> Box<dyn Place> {
        let kept = self.places.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Box::new(PlaceOf::<C>::new()))
    }
    fn keep(&self, place: Box<dyn Place>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() < KEEP_PLACES {
            places.push(place);
        }
    }
}

/// A message on its way through a mailbox. Places are used again: each is some hundred bytes.
pub(crate) trait Place: Send {
    /// Decodes a message.
    fn fill(&mut self, body: Encoded<'_>) -> Result<(), FabricError>;
    /// Puts the message into the mailbox. To be polled before anything else is sent there.
    fn send(&mut self, to: &dyn Target, caller: Caller);
    /// Polls the answer; `None` means that the handler dropped the call without one.
    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Outcome>>;
    /// Lets go of the message, wherever it is.
    fn clear(&mut self);
}

type Request<C> = Unconstrained<RecipientRequest<Ask<C>>>;

/// The place of a message of a kind: all that has to be there for each kind.
struct PlaceOf<C: Call> {
    body: Option<C>,
    request: Pin<Box<Option<Request<C>>>>,
}

impl<C: Call> PlaceOf<C> {
    fn new() -> Self {
        Self { body: None, request: Box::pin(None) }
    }
}

impl<C: Call> Place for PlaceOf<C> {
    fn fill(&mut self, body: Encoded<'_>) -> Result<(), FabricError> {
        self.body = Some(body.decode(C::NAME)?);
        Ok(())
    }

    fn send(&mut self, to: &dyn Target, caller: Caller) {
        let target = to.as_any().downcast_ref::<CallTarget<C>>();
        if let (Some(body), Some(target)) = (self.body.take(), target) {
            self.request.set(Some(unconstrained(target.send(Ask { body, caller }))));
        }
    }

    fn poll(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Outcome>> {
        match self.request.as_mut().as_pin_mut() {
            Some(request) => request.poll(cx).map(|done| Some(Outcome::of::<C>(&done.ok()?))),
            None => Poll::Ready(None),
        }
    }

    fn clear(&mut self) {
        self.body = None;
        self.request.set(None);
    }
}

/// The calls of gateway `G` as one actor answers them, in the form that [`crate::RpcService::serve`] takes; made by the
/// gateway's function `endpoint`. Cheap to clone. Holds the actor's address, so the actor does not end because nobody else
/// has it; it may still stop by itself.
#[derive(derive_more::Debug)]
#[debug("Endpoint({}, {} calls)", G::NAME, self.targets.len())]
pub struct Endpoint<G: Gateway> {
    targets: Arc<[Box<dyn Target>]>,
    gateway: PhantomData<fn() -> G>,
}

impl<G: Gateway> Clone for Endpoint<G> {
    fn clone(&self) -> Self {
        Self { targets: Arc::clone(&self.targets), gateway: PhantomData }
    }
}

/// Collects the calls that an actor answers and makes an [`Endpoint`] of them; used only by the code that
/// [`crate::gateway!`] generates.
#[doc(hidden)]
pub struct EndpointBuilder<A: Actor<Context = Context<A>>> {
    actor: Addr<A>,
    targets: Vec<Box<dyn Target>>,
}

impl<A: Actor<Context = Context<A>>> EndpointBuilder<A> {
    #[doc(hidden)]
    pub fn new(actor: Addr<A>) -> Self {
        Self { actor, targets: Vec::new() }
    }
    #[doc(hidden)]
    pub fn answers<C: Call>(mut self) -> Self
    where
        A: Handler<Ask<C>>,
    {
        let recipient = self.actor.clone().recipient();
        let target = CallTarget::<C> { recipient, places: Mutex::default() };
        self.targets.push(Box::new(target));
        self
    }
    #[doc(hidden)]
    pub fn build<G: Gateway>(self) -> Endpoint<G> {
        Endpoint { targets: self.targets.into(), gateway: PhantomData }
    }
}

/// The callers and calls that a registration admits.
#[derive(Debug, Clone)]
pub(crate) enum Allow {
    /// Only components of the cluster are admitted.
    Cluster,
    /// Components of the cluster, and hosts of one job for the listed calls (empty: for all).
    Job { job: JobId, calls: Vec<String> },
}

/// A name under which an endpoint is served.
pub(crate) struct Registered {
    pub(crate) name: String,
    pub(crate) node: NodeAddress,
    pub(crate) fence: LeaderSession,
    /// Lane where the endpoint was registered; calls from other lanes are decoded and handed to the
    /// actor there.
    pub(crate) lane: Option<Lane>,
    targets: Arc<[Box<dyn Target>]>,
    /// Call ids of `targets`, in their order.
    ids: Box<[u32]>,
    allow: Allow,
    mailbox_max: u64,
    in_flight_max: u64,
    counts: Counts,
    panicked: AtomicBool,
    /// True once the registration was dropped: calls that had found the endpoint before are
    /// refused.
    withdrawn: AtomicBool,
    watch: Watch,
    pub(crate) died: Notify,
}

/// The counters that change with every call, apart from the data that calls read to find the
/// endpoint.
#[derive(Default)]
#[repr(align(128))]
struct Counts {
    /// Calls admitted that are not in the mailbox yet.
    admitted: AtomicU64,
    /// Calls put into the mailbox so far: the last one's number.
    entered: AtomicU64,
    /// The highest number whose handler has had its turn. Mailboxes are first in, first out, so every
    /// lower one has had it too.
    started: AtomicU64,
    in_flight: AtomicU64,
}

impl Counts {
    /// Returns the number of calls that wait for their handlers.
    fn waiting(&self) -> u64 {
        let entered = self.entered.load(Ordering::Relaxed);
        let waiting = entered.saturating_sub(self.started.load(Ordering::Relaxed));
        waiting.saturating_add(self.admitted.load(Ordering::Relaxed))
    }
}

/// The bounds of a registration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) mailbox_max: u64,
    pub(crate) in_flight_max: u64,
}

impl Registered {
    pub(crate) fn new<G: Gateway>(
        name: String,
        node: NodeAddress,
        fence: LeaderSession,
        endpoint: &Endpoint<G>,
        allow: Allow,
        bounds: Bounds,
        watch: Watch,
    ) -> Self {
        Self {
            name,
            node,
            fence,
            lane: Lane::of_this_thread(),
            targets: Arc::clone(&endpoint.targets),
            ids: endpoint.targets.iter().map(|target| target.id()).collect(),
            allow,
            mailbox_max: bounds.mailbox_max,
            in_flight_max: bounds.in_flight_max,
            counts: Counts::default(),
            panicked: AtomicBool::new(false),
            withdrawn: AtomicBool::new(false),
            watch,
            died: Notify::new(),
        }
    }

    pub(crate) fn is_served(&self) {
        self.watch.sees(FabricFact::Served { endpoint: &self.name, session: self.fence });
    }

    /// Lets no call in from now on, not even one that had found the endpoint before.
    pub(crate) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_withdrawn(&self) {
        self.watch.sees(FabricFact::Withdrawn { endpoint: &self.name, session: self.fence });
    }

    pub(crate) fn connected(&self) -> bool {
        self.targets.first().is_some_and(|t| t.connected())
    }

    /// Returns the target of a call with its index, `None` if the endpoint does not answer it.
    pub(crate) fn target(&self, call: u32) -> Option<(usize, &dyn Target)> {
        let index = self.ids.iter().position(|id| *id == call)?;
        Some((index, &**self.targets.get(index)?))
    }

    /// Admits a call, the one place where this is decided: principal, fence, liveness, bounds.
    /// `call` is the index of its target; the call arrived at the given moment.
    pub(crate) fn admit(
        self: &Arc<Self>,
        principal: Principal,
        (target, call): (usize, &'static str),
        fence: LeaderSession,
        at: Instant,
    ) -> Result<Admitted, FabricError> {
        self.check_principal(principal, call)?;
        if fence != self.fence && self.watch.compares_fences() {
            let (endpoint, current) = (&*self.name, self.fence);
            self.watch.sees(FabricFact::Fenced { endpoint, call, yours: fence, current });
            return Err(FabricError::Fenced { yours: fence, current });
        }
        if self.withdrawn.load(Ordering::Relaxed) && self.watch.heeds_withdrawal() {
            return Err(self.gone());
        }
        if !self.connected() {
            self.died.notify_waiters();
            return Err(self.gone());
        }
        if self.counts.waiting() >= self.mailbox_max {
            return Err(self.overloaded(call, "mailbox", self.mailbox_max));
        }
        if self.counts.in_flight.load(Ordering::Relaxed) >= self.in_flight_max {
            return Err(self.overloaded(call, "calls under way", self.in_flight_max));
        }
        self.counts.in_flight.fetch_add(1, Ordering::Relaxed);
        self.counts.admitted.fetch_add(1, Ordering::Relaxed);
        self.watch.sees(FabricFact::Admitted { endpoint: &self.name, call, meant_for: fence });
        Ok(Admitted {
            number: AtomicU64::new(0),
            target,
            call,
            principal,
            at,
            began: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            registered: Arc::clone(self),
        })
    }

    fn gone(&self) -> FabricError {
        let (peer, endpoint) = (self.node.clone(), self.name.clone());
        FabricError::NoSuchEndpoint { peer, endpoint }
    }

    fn overloaded(&self, call: &'static str, what: &str, bound: u64) -> FabricError {
        self.watch.sees(FabricFact::Overloaded { endpoint: &self.name, call });
        FabricError::Overloaded { what: format!("{what} of {} ({bound})", self.name) }
    }

    fn check_principal(&self, principal: Principal, call: &str) -> Result<(), FabricError> {
        let allowed = match (principal, &self.allow) {
            (Principal::Local | Principal::Cluster, _) => true,
            (Principal::Host { .. }, Allow::Cluster) => false,
            (Principal::Host { job }, Allow::Job { job: mine, calls }) => {
                job == *mine && (calls.is_empty() || calls.iter().any(|c| c == call))
            }
        };
        if allowed {
            return Ok(());
        }
        Err(FabricError::Forbidden {
            why: format!("{principal} may not call {call} of {}", self.name),
        })
    }
}

/// A call that was let in: counts as under way until dropped, and measures where its time goes.
pub(crate) struct Admitted {
    registered: Arc<Registered>,
    /// Position of the call in the mailbox; 0: it is not there yet.
    number: AtomicU64,
    target: usize,
    call: &'static str,
    pub(crate) principal: Principal,
    at: Instant,
    /// Nanoseconds after `at`, plus one; 0: the handler has not begun.
    began: AtomicU64,
    panicked: AtomicBool,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if *self.number.get_mut() == 0 {
            self.registered.counts.admitted.fetch_sub(1, Ordering::Relaxed);
        }
        self.registered.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admitted {
    /// Records that the call is put into the mailbox now. Must be called only once.
    pub(crate) fn enters(&self) {
        let counts = &self.registered.counts;
        let number = counts.entered.fetch_add(1, Ordering::Relaxed) + 1;
        self.number.store(number, Ordering::Relaxed);
        counts.admitted.fetch_sub(1, Ordering::Relaxed);
    }

    /// A later call has had its turn, so this one has too.
    fn has_begun(&self) -> bool {
        let started = self.registered.counts.started.load(Ordering::Relaxed);
        self.number() != 0 && self.number() <= started
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Records that the handler dropped the caller: the call has had its turn, or is unwinding in
    /// it.
    pub(crate) fn released(&self, panicking: bool) {
        let nanos = u64::try_from(self.at.elapsed().as_nanos()).unwrap_or(u64::MAX - 1);
        self.began.store(nanos + 1, Ordering::Relaxed);
        self.registered.counts.started.fetch_max(self.number(), Ordering::Relaxed);
        if panicking {
            self.note_panic();
        }
    }

    /// Records that the reply was dropped by a thread that unwinds.
    pub(crate) fn note_panic(&self) {
        self.panicked.store(true, Ordering::Relaxed);
        self.registered.panicked.store(true, Ordering::Relaxed);
    }

    /// Returns the target that the call goes to; `None` if there is none.
    pub(crate) fn target(&self) -> Option<&dyn Target> {
        Some(&**self.registered.targets.get(self.target)?)
    }

    /// Returns the endpoint and call as text: `endpoint (call)`.
    pub(crate) fn handler(&self) -> String {
        format!("{} ({})", self.registered.name, self.call)
    }

    /// Makes the error of a call whose deadline has passed.
    pub(crate) fn deadline_exceeded(&self) -> FabricError {
        let age = self.at.elapsed();
        let queued = match self.began.load(Ordering::Relaxed) {
            0 if self.has_begun() => Duration::ZERO,
            0 => age,
            began => Duration::from_nanos(began - 1),
        };
        FabricError::DeadlineExceeded {
            queued,
            running: age.saturating_sub(queued),
            handler: self.handler(),
        }
    }

    /// Makes the error of a call whose handler dropped it without an answer.
    pub(crate) fn unanswered(&self) -> FabricError {
        let alive = self.registered.connected();
        if !alive {
            self.registered.died.notify_waiters();
        }
        // An endpoint that lives drops an answer only when the handler's own future panicked.
        let panicked = alive
            || self.panicked.load(Ordering::Relaxed)
            || self.registered.panicked.load(Ordering::Relaxed);
        if panicked {
            FabricError::HandlerPanicked { endpoint: self.handler() }
        } else {
            FabricError::Unreachable {
                peer: self.registered.node.clone(),
                executed: crate::error::Executed::Maybe,
                why: format!("{} ended before it answered", self.handler()),
            }
        }
    }
}
