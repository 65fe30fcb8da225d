//! Calls under way: the one allocation that links a message in an actor's mailbox with whoever waits
//! for its answer. It must never hold a lock while an actor or a socket is asked for something.
//!
//! A served call has no task of its own: the reply channel's waker itself encodes the answer and hands
//! it on, on the thread where the handler answered.

use crate::{
    call::{Answer, Ask, Call, CallContext, Caller, Observer},
    codec,
    connection::Connection,
    endpoint::{Admitted, CallTarget},
    error::{CallError, FabricError, REPLY},
    frame::Kind,
    scratch,
};
use actix::dev::RecipientRequest;
use futures::task::AtomicWaker;
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};
use tokio::sync::oneshot;
use tokio::task::coop::{Unconstrained, unconstrained};

/// An answer in bytes.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `Reply`, `Refused` or `Fault`.
    pub(crate) kind: Kind,
    pub(crate) body: Vec<u8>,
}

impl Outcome {
    /// From what a handler said or the fabric found.
    fn of<C: Call>(result: Result<Answer<C>, FabricError>) -> Self {
        let mut body = scratch::take();
        let (kind, written) = match &result {
            Ok(Ok(reply)) => (Kind::Reply, codec::encode_into(&mut body, C::NAME, reply)),
            Ok(Err(error)) => (Kind::Refused, codec::encode_into(&mut body, C::NAME, error)),
            Err(error) => (Kind::Fault, codec::encode_into(&mut body, C::NAME, error)),
        };
        match written {
            Ok(()) => Self { kind, body },
            Err(error) => Self::fault(&FabricError::Malformed {
                what: format!("{REPLY}{}", C::NAME),
                why: error.to_string(),
            }),
        }
    }

    pub(crate) fn fault(error: &FabricError) -> Self {
        Self {
            kind: Kind::Fault,
            // A fabric error always has an encoding; an empty body would be read as malformed.
            body: codec::encode(error).unwrap_or_default(),
        }
    }

    /// What the caller gets.
    pub(crate) fn open<C: Call>(self) -> Result<C::Reply, CallError<C::Error>> {
        let what = format_args!("{REPLY}{}", C::NAME);
        match self.kind {
            Kind::Reply => Ok(codec::decode(what, &self.body)?),
            Kind::Refused => Err(CallError::Refused(codec::decode(what, &self.body)?)),
            _ => Err(CallError::Fabric(codec::decode(what, &self.body)?)),
        }
    }
}

/// Where an answer in bytes goes.
pub(crate) enum ReplyTo {
    /// Back over a connection.
    Connection {
        connection: Arc<Connection>,
        /// The caller's correlation id.
        id: u64,
    },
    /// To a caller in this process that wants bytes (the test mode).
    Local(oneshot::Sender<Outcome>, ServedHere),
}

impl ReplyTo {
    pub(crate) fn fault(self, error: &FabricError) {
        self.send(Outcome::fault(error));
    }

    fn send(self, outcome: Outcome) {
        match self {
            Self::Connection { connection, id } => connection.answer(id, outcome),
            // A caller that has gone needs no answer.
            Self::Local(caller, _) => drop(caller.send(outcome)),
        }
    }
}

/// A served call, as the connection that it came over sees it.
pub(crate) trait Serving: Send + Sync {
    /// The deadline has passed: answer so, unless answered already.
    fn expire(&self);
    /// Nobody waits any more: a call that is still in the mailbox is not run.
    fn abandon(&self);
}

/// Where a caller in this process finds its served call, to expire it.
pub(crate) type ServedHere = Arc<OnceLock<Arc<dyn Serving>>>;

type Request<C> = Pin<Box<Unconstrained<RecipientRequest<Ask<C>>>>>;

/// How far a call has come. Its deadline may pass, and its connection end, on another thread at every moment.
enum Stage<C: Call> {
    /// It is being put into the mailbox.
    Starting,
    /// In the actor's hands.
    Asked(Request<C>, ReplyTo),
    /// The deadline passed while it was being put there.
    Expired,
    /// Answered, or nobody waits any more.
    Over,
}

/// A call that came as bytes, in an actor's hands.
pub(crate) struct ServeSlot<C: Call> {
    admitted: Admitted,
    stage: Mutex<Stage<C>>,
    /// Wakes not yet looked after; above zero: somebody looks.
    wakes: AtomicU32,
}

impl<C: Call> ServeSlot<C> {
    /// Hands a message to the actor. `reply` is answered in every case, unless the call is over already.
    pub(crate) fn start(
        target: &CallTarget<C>,
        body: C,
        context: CallContext,
        admitted: Admitted,
        reply: ReplyTo,
    ) {
        let principal = admitted.principal;
        let slot = Arc::new(Self {
            admitted,
            stage: Mutex::new(Stage::Starting),
            wakes: AtomicU32::new(0),
        });
        let serving: Arc<dyn Serving> = Arc::clone(&slot) as Arc<dyn Serving>;
        match &reply {
            ReplyTo::Connection { connection, id } => {
                if !connection.asked(*id, serving) {
                    return;
                }
            }
            ReplyTo::Local(_, here) => drop(here.set(serving)),
        }
        let observer: Arc<dyn Observer> = Arc::clone(&slot) as Arc<dyn Observer>;
        let caller = Caller::observed(principal, context, observer);
        let request = Box::pin(unconstrained(target.send(Ask { body, caller })));
        let mut stage = slot.lock();
        match &*stage {
            Stage::Starting => *stage = Stage::Asked(request, reply),
            // The message is skipped in the mailbox, since nobody waits for its answer.
            Stage::Expired => {
                drop(stage);
                drop(request);
                return reply.fault(&slot.admitted.deadline_exceeded());
            }
            Stage::Asked(..) | Stage::Over => {
                drop(stage);
                return drop(request);
            }
        }
        drop(stage);
        slot.poll();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stage<C>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the answer. A wake that comes during a look causes one more, by whoever looks.
    fn poll(self: &Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut seen = 1;
        loop {
            self.look();
            let before = self.wakes.fetch_sub(seen, Ordering::AcqRel);
            seen = before.saturating_sub(seen);
            if seen == 0 {
                return;
            }
        }
    }

    fn look(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        let mut stage = self.lock();
        let Stage::Asked(request, _) = &mut *stage else {
            return;
        };
        let polled = request.as_mut().poll(&mut Context::from_waker(&waker));
        let Poll::Ready(result) = polled else {
            return;
        };
        let asked = std::mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        if let Stage::Asked(_, reply) = asked {
            reply.send(Outcome::of::<C>(result.map_err(|_| self.admitted.unanswered())));
        }
    }
}

impl<C: Call> Wake for ServeSlot<C> {
    fn wake(self: Arc<Self>) {
        if std::thread::panicking() {
            self.admitted.note_panic();
        }
        self.poll();
    }
}

impl<C: Call> Observer for ServeSlot<C> {
    fn released(&self, panicking: bool) {
        self.admitted.released(panicking);
    }
}

impl<C: Call> Serving for ServeSlot<C> {
    fn expire(&self) {
        let mut stage = self.lock();
        let next = match &*stage {
            Stage::Starting => Stage::Expired,
            Stage::Expired => return,
            Stage::Asked(..) | Stage::Over => Stage::Over,
        };
        let before = std::mem::replace(&mut *stage, next);
        drop(stage);
        if let Stage::Asked(request, reply) = before {
            drop(request);
            reply.fault(&self.admitted.deadline_exceeded());
        }
    }

    fn abandon(&self) {
        let before = std::mem::replace(&mut *self.lock(), Stage::Over);
        drop(before);
    }
}

/// A call from this process, passed by value.
struct LocalSlot {
    admitted: Admitted,
    waker: AtomicWaker,
}

impl Wake for LocalSlot {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if std::thread::panicking() {
            self.admitted.note_panic();
        }
        self.waker.wake();
    }
}

impl Observer for LocalSlot {
    fn released(&self, panicking: bool) {
        self.admitted.released(panicking);
    }
}

/// Calls an actor of this process without serialising anything.
pub(crate) async fn ask_local<C: Call>(
    target: &CallTarget<C>,
    body: C,
    context: CallContext,
    admitted: Admitted,
) -> Result<C::Reply, CallError<C::Error>> {
    let principal = admitted.principal;
    let slot = Arc::new(LocalSlot { admitted, waker: AtomicWaker::new() });
    let observer: Arc<dyn Observer> = Arc::clone(&slot) as Arc<dyn Observer>;
    let caller = Caller::observed(principal, context, observer);
    let waker = Waker::from(Arc::clone(&slot));
    let mut request = std::pin::pin!(target.send(Ask { body, caller }));
    let mut timer = std::pin::pin!(tokio::time::sleep_until(context.deadline.at()));
    std::future::poll_fn(|cx| {
        slot.waker.register(cx.waker());
        match request.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(Ok(reply))) => Poll::Ready(Ok(reply)),
            Poll::Ready(Ok(Err(error))) => Poll::Ready(Err(CallError::Refused(error))),
            Poll::Ready(Err(_)) => Poll::Ready(Err(slot.admitted.unanswered().into())),
            Poll::Pending => {
                timer.as_mut().poll(cx).map(|()| Err(slot.admitted.deadline_exceeded().into()))
            }
        }
    })
    .await
}
