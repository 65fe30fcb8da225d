//! The typed gateway that callers hold: local and remote endpoints look alike through it.

use crate::{
    address::EndpointAddress,
    call::{Call, CallContext, Deadline, Gateway, Principal},
    codec::{self, Encoded},
    connection::Asking,
    disorder,
    endpoint::{Admitted, CallTarget, Target},
    error::{CallError, Executed, FabricError, REPLY, REQUEST},
    inner::Inner,
    outbound::CHUNK_BYTES,
    pending::Outcome,
    scratch,
    serve::{ReplyTo, ServeSlot, ask_local},
    served::Serving,
    trace::TraceContext,
    witness::FabricFact,
};
use model::{Fence, LeaderSession};
use platform::Lane;
use std::{future::Future, marker::PhantomData, pin::Pin, sync::Arc, task::Poll, time::Duration};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A gateway to one endpoint in one leader session (one leadership of the called component), made by
/// [`RpcService::gateway`](crate::RpcService::gateway): makes its calls, inside the process or over the network. `ask` waits for the
/// answer, `tell` for nothing, and `insist` repeats the call until it is answered. An endpoint in another session refuses them with
/// `FabricError::Fenced`. Cheap to clone. Keeps its [`RpcService`](crate::RpcService) alive. A clone of a gateway without a trace of its
/// own is bound to the trace that is current when it is cloned.
#[derive(derive_more::Debug)]
#[debug("Remote({}, {})", self.shared.address, self.shared.fence)]
pub struct Remote<G: Gateway> {
    shared: Arc<Shared>,
    session: Option<LeaderSession>,
    /// The trace of all calls; none: that which is current when a call is made.
    trace: TraceContext,
    gateway: PhantomData<fn() -> G>,
}

struct Shared {
    service: Arc<Inner>,
    address: EndpointAddress,
    fence: LeaderSession,
}

impl<G: Gateway> Clone for Remote<G> {
    /// Returns a gateway to the same endpoint. One that has no trace of its own takes the current one: futures call through
    /// clones, and are polled after the turn in which a trace was entered.
    fn clone(&self) -> Self {
        self.with(self.session, self.trace.or_else(TraceContext::current))
    }
}

impl<G: Gateway> Remote<G> {
    pub(crate) fn new(service: Arc<Inner>, address: EndpointAddress, fence: G::Fence) -> Self {
        Self {
            shared: Arc::new(Shared { service, address, fence: fence.session() }),
            session: None,
            trace: TraceContext::default(),
            gateway: PhantomData,
        }
    }

    /// Returns a gateway to the same endpoint whose every call carries `session`, the caller's own leader session, which
    /// the callee reads as [`Caller::session`](crate::Caller::session). This gateway is not changed.
    #[must_use]
    pub fn with_session(&self, session: LeaderSession) -> Self {
        self.with(Some(session), self.trace)
    }

    /// Returns a gateway to the same endpoint whose calls are part of `trace`, whatever the current trace is; if `trace` is
    /// none, of the trace that is current when a call is made.
    #[must_use]
    pub fn with_trace(&self, trace: TraceContext) -> Self {
        self.with(self.session, trace)
    }

    fn with(&self, session: Option<LeaderSession>, trace: TraceContext) -> Self {
        Self { shared: Arc::clone(&self.shared), session, trace, gateway: PhantomData }
    }

    /// Returns the address of the endpoint that is called.
    pub fn address(&self) -> &EndpointAddress {
        &self.shared.address
    }

    /// Returns the leader session that calls are meant for; an endpoint in another session refuses them.
    pub fn fence(&self) -> G::Fence {
        G::Fence::from_session(self.shared.fence)
    }

    /// Makes a call and waits for the answer as [`Remote::ask_within`] does, with `RpcOptions::ask_timeout` as the time. Connects first
    /// if necessary. Dropping the future gives the call up; it may be executed all the same.
    ///
    /// # Errors
    /// Returns the handler's refusal, or a failure of the fabric;
    /// [`FabricError::may_have_run`](crate::FabricError::may_have_run) says whether the call may have been executed.
    pub async fn ask<C: Call<Gateway = G>>(
        &self,
        body: C,
    ) -> Result<C::Reply, CallError<C::Error>> {
        let within = self.shared.service.options.ask_timeout;
        self.ask_within(body, within).await
    }

    /// Makes a call and waits at most `within` for the answer; connects first if necessary, within that time. For another process the
    /// wait may be longer by `RpcOptions::answer_grace`, for the answer that the time is over; a call longer than 256 KiB gets a second
    /// more for each 16 MiB; a long answer gets the time that it takes, as long as parts of it arrive. Dropping the future gives the call
    /// up; it may be executed all the same.
    ///
    /// # Errors
    /// Returns the handler's refusal, or a failure of the fabric, of which
    /// [`FabricError::may_have_run`](crate::FabricError::may_have_run) says whether the call may have been executed.
    pub async fn ask_within<C: Call<Gateway = G>>(
        &self,
        body: C,
        within: Duration,
    ) -> Result<C::Reply, CallError<C::Error>> {
        let now = Instant::now();
        let context = CallContext {
            session: self.session,
            deadline: Deadline::after_moment(now, within),
            trace: self.trace.or_else(TraceContext::current),
        };
        self.shared.ask(body, context, now).await
    }

    /// Sends a hint, a call for whose answer nobody waits, and returns at once, before the call is made; a failure, or the handler's
    /// refusal, is only logged, at debug. `RpcOptions::ask_timeout` limits the call. Use it only for messages whose loss something else
    /// makes up for; what must arrive is a fact (see [`crate::delivery`]). Hints of at most 256 KiB that are sent to one endpoint one after
    /// the other arrive in that order (longer ones may be overtaken), but may overtake an `ask` or be overtaken by one. A hint that a limit
    /// of `RpcOptions` refuses is lost like one whose connection fails; none is repeated.
    pub fn tell<C: Call<Gateway = G>>(&self, body: C) {
        let gateway = self.clone();
        let hint = async move { gateway.ask(body).await.err().map(|error| error.to_string()) };
        self.shared.tell(C::NAME, Box::pin(hint));
    }
}

impl<G: Gateway> Remote<G> {
    /// Runs a task on this thread's lane; on a thread without a lane, on the lane of the sockets.
    pub(crate) fn spawn_here(&self, task: impl Future<Output = ()> + Send + 'static) {
        let service = &self.shared.service;
        let lane = Lane::of_this_thread().unwrap_or(service.options.io_lane);
        service.platform.lane(lane).spawn_local(task);
    }
}

/// The future of a call whose answer is not needed; its value is the error.
type Hint = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

impl Shared {
    async fn ask<C: Call>(
        &self,
        body: C,
        context: CallContext,
        now: Instant,
    ) -> Result<C::Reply, CallError<C::Error>> {
        if self.address.node == self.service.node {
            return self.ask_here(body, context, now).await;
        }
        let mut bytes = scratch::take();
        codec::encode_into(&mut bytes, format_args!("{REQUEST}{}", C::NAME), &body)?;
        drop(body);
        let context = context.with_time_for(bytes.len());
        let answer = self.ask_there((C::ID, C::NAME), bytes, context, now).await;
        self.ended(C::NAME, now, answer.as_ref().err());
        let outcome = answer?;
        if outcome.file.is_none() {
            return outcome.open::<C>();
        }
        match Box::pin(platform::blocking(move || outcome.open::<C>())).await {
            Ok(opened) => opened,
            Err(error) => Err(CallError::Fabric(FabricError::Malformed {
                what: format!("{REPLY}{}", C::NAME),
                why: error.to_string(),
            })),
        }
    }

    /// Shows a witness the end of a call to another process.
    fn ended(&self, call: &'static str, asked: Instant, error: Option<&FabricError>) {
        if let Some(witness) = &self.service.options.witness {
            let lost = matches!(
                error,
                Some(FabricError::Unreachable { .. } | FabricError::DeadlineExceeded { .. })
            );
            let (to, took) = (&self.address.node, asked.elapsed());
            witness.sees(FabricFact::Asked { to, call, took, lost });
        }
    }

    /// Sends a call in bytes and waits for its answer. This part is the same for all calls, so it
    /// is compiled once.
    async fn ask_there(
        &self,
        call: (u32, &'static str),
        mut bytes: Vec<u8>,
        context: CallContext,
        mut now: Instant,
    ) -> Result<Outcome, FabricError> {
        let node = &self.address.node;
        let connection = match self.service.peers.up(node) {
            Some(connection) => connection,
            None => {
                let connect = self.service.connect(node);
                let connected = tokio::time::timeout_at(context.deadline.at(), connect).await;
                now = Instant::now();
                connected.map_err(|_| FabricError::Unreachable {
                    peer: node.clone(),
                    executed: Executed::No,
                    why: "no connection could be made by the deadline".to_owned(),
                })??
            }
        };
        if bytes.len() > CHUNK_BYTES {
            let fits = connection.outbound.until_long_fits();
            let fits = tokio::time::timeout_at(context.deadline.at(), fits).await;
            fits.map_err(|_| connection.overloaded("long bodies that wait for"))?;
            now = Instant::now();
        }
        let to = (self.fence, self.address.endpoint.as_str());
        let remaining = context.deadline.at().saturating_duration_since(now);
        let waiting = std::future::poll_fn(|cx| {
            let asking = Asking { context, remaining, waker: cx.waker() };
            Poll::Ready(connection.ask(call.0, to, &asking, &mut bytes))
        });
        let waiting = waiting.await;
        scratch::give(bytes);
        let waiting = waiting?;
        drop(connection);
        let answer = waiting.await;
        if let Some(disorder) = &self.service.options.disorder {
            disorder::hold(&**disorder).await;
        }
        match answer?.sort() {
            // The callee knows the call by its number only.
            Err(FabricError::NoSuchCall { .. }) => Err(self.no_such_call(call.1)),
            sorted => sorted,
        }
    }

    async fn ask_here<C: Call>(
        &self,
        body: C,
        context: CallContext,
        now: Instant,
    ) -> Result<C::Reply, CallError<C::Error>> {
        if let Some(disorder) = &self.service.options.disorder {
            self.service.lines.pass(&**disorder, &self.address.endpoint).await;
        }
        let registered = self.service.find(&self.address.endpoint)?;
        let (index, target) = registered.target(C::ID).ok_or_else(|| self.no_such_call(C::NAME))?;
        let admitted = registered.admit(Principal::Local, (index, C::NAME), self.fence, now)?;
        if self.service.options.force_serialization {
            let mut bytes = Vec::new();
            codec::encode_into(&mut bytes, format_args!("{REQUEST}{}", C::NAME), &body)?;
            return ask_in_bytes(target, &bytes, context, admitted).await?.sort()?.open::<C>();
        }
        let typed = target.as_any().downcast_ref::<CallTarget<C>>();
        let typed = typed.ok_or_else(|| self.no_such_call(C::NAME))?;
        ask_local(typed, body, context, admitted).await
    }

    /// Runs a call whose answer is not needed; an error is logged.
    fn tell(self: &Arc<Self>, call: &'static str, hint: Hint) {
        let shared = Arc::clone(self);
        let lane = self.service.platform.lane(self.service.options.io_lane);
        lane.spawn_local(async move {
            if let Some(error) = hint.await {
                tracing::debug!(call, to = %shared.address, error, "a hint was lost");
            }
        });
    }

    fn no_such_call(&self, name: &str) -> FabricError {
        FabricError::NoSuchCall { endpoint: self.address.endpoint.clone(), call: name.to_owned() }
    }
}

/// Makes a call like [`ask_local`], but through bytes like a call from another process (the test
/// mode).
async fn ask_in_bytes(
    target: &dyn Target,
    bytes: &[u8],
    context: CallContext,
    admitted: Admitted,
) -> Result<Outcome, FabricError> {
    let (reply, mut answer) = oneshot::channel();
    let serving = ServeSlot::prepare(
        target,
        Encoded::Bytes(bytes),
        (context, admitted),
        ReplyTo::Local(reply),
    )?;
    Arc::clone(&serving).start();
    let answered = tokio::time::timeout_at(context.deadline.at(), &mut answer).await;
    let outcome = match answered {
        Ok(outcome) => outcome,
        Err(_) => {
            serving.expire();
            answer.await
        }
    };
    // A served call is always answered; only a lost thread could drop it.
    outcome.map_err(|_| FabricError::ShuttingDown)
}
