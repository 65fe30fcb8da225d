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
use futures::task::{ArcWake, AtomicWaker, waker_ref};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
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
        let opened = self.read::<C>();
        scratch::give(self.body);
        opened
    }

    fn read<C: Call>(&self) -> Result<C::Reply, CallError<C::Error>> {
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
    Local(oneshot::Sender<Outcome>),
}

impl ReplyTo {
    pub(crate) fn fault(self, error: &FabricError) {
        self.send(Outcome::fault(error));
    }

    fn send(self, outcome: Outcome) {
        match self {
            Self::Connection { connection, id } => connection.answer(id, outcome),
            // A caller that has gone needs no answer.
            Self::Local(caller) => drop(caller.send(outcome)),
        }
    }
}

/// A served call, as the connection that it came over sees it.
pub(crate) trait Serving: Send + Sync {
    /// Hands the message to its actor.
    fn start(self: Arc<Self>);
    /// The deadline has passed: answer so, unless answered already.
    fn expire(&self);
    /// Nobody waits any more: a call that is still in the mailbox is not run.
    fn abandon(&self);
}

/// A message in a mailbox, in a place that is used again.
pub(crate) type Request<C> = Pin<Box<Option<Unconstrained<RecipientRequest<Ask<C>>>>>>;

/// How far a call has come. Its deadline may pass, and its connection end, on another thread at every moment.
enum Stage<C: Call> {
    /// Decoded.
    Prepared(C, CallContext, ReplyTo),
    /// It is being put into the mailbox.
    Starting,
    /// In the actor's hands.
    Asked(Request<C>, ReplyTo),
    /// The deadline passed while it was being put there.
    Expired,
    /// Answered, or nobody waits any more.
    Over,
}

/// A call that came as bytes. Once it has been started, `reply` is answered in every case, unless it is over by then.
pub(crate) struct ServeSlot<C: Call> {
    admitted: Admitted,
    stage: Mutex<Stage<C>>,
    /// Wakes not yet looked after; above zero: somebody looks.
    wakes: AtomicU32,
}

impl<C: Call> ServeSlot<C> {
    pub(crate) fn prepare(
        body: C,
        context: CallContext,
        admitted: Admitted,
        reply: ReplyTo,
    ) -> Arc<Self> {
        let stage = Mutex::new(Stage::Prepared(body, context, reply));
        // Whoever starts it is the first to look.
        Arc::new(Self { admitted, stage, wakes: AtomicU32::new(1) })
    }

    fn lock(&self) -> MutexGuard<'_, Stage<C>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the answer. A wake that comes during a look causes one more, by whoever looks.
    fn poll(self: &Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) == 0 {
            self.look(self.lock());
            self.looked(1);
        }
    }

    /// So many wakes have been looked after.
    fn looked(self: &Arc<Self>, mut wakes: u32) {
        loop {
            wakes = self.wakes.fetch_sub(wakes, Ordering::AcqRel).saturating_sub(wakes);
            if wakes == 0 {
                return;
            }
            self.look(self.lock());
        }
    }

    fn look(self: &Arc<Self>, mut stage: MutexGuard<'_, Stage<C>>) {
        let Stage::Asked(request, _) = &mut *stage else {
            return;
        };
        let Some(asked) = request.as_mut().as_pin_mut() else {
            return;
        };
        let waker = waker_ref(self);
        let Poll::Ready(result) = asked.poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let asked = std::mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        if let Stage::Asked(request, reply) = asked {
            if let Some(target) = self.admitted.target::<C>() {
                target.keep_place(request);
            }
            reply.send(Outcome::of::<C>(result.map_err(|_| self.admitted.unanswered())));
        }
    }
}

impl<C: Call> ArcWake for ServeSlot<C> {
    fn wake_by_ref(slot: &Arc<Self>) {
        if std::thread::panicking() {
            slot.admitted.note_panic();
        }
        slot.poll();
    }
}

impl<C: Call> Observer for ServeSlot<C> {
    fn released(&self, panicking: bool) {
        self.admitted.released(panicking);
    }
}

impl<C: Call> Serving for ServeSlot<C> {
    fn start(self: Arc<Self>) {
        let mut stage = self.lock();
        if !matches!(&*stage, Stage::Prepared(..)) {
            return;
        }
        let before = std::mem::replace(&mut *stage, Stage::Starting);
        drop(stage);
        let Stage::Prepared(body, context, reply) = before else {
            return;
        };
        let Some(target) = self.admitted.target::<C>() else {
            return reply.fault(&self.admitted.unanswered());
        };
        let observer: Arc<dyn Observer> = Arc::clone(&self) as Arc<dyn Observer>;
        let caller = Caller::observed(self.admitted.principal, context, observer);
        let mut request = target.place();
        request.set(Some(unconstrained(target.send(Ask { body, caller }))));
        let mut stage = self.lock();
        match &*stage {
            Stage::Starting => *stage = Stage::Asked(request, reply),
            // The message is skipped in the mailbox, since nobody waits for its answer.
            Stage::Expired => {
                drop(stage);
                drop(request);
                return reply.fault(&self.admitted.deadline_exceeded());
            }
            Stage::Prepared(..) | Stage::Asked(..) | Stage::Over => {
                drop(stage);
                return drop(request);
            }
        }
        self.look(stage);
        self.looked(1);
    }

    fn expire(&self) {
        let mut stage = self.lock();
        let next = match &*stage {
            Stage::Starting => Stage::Expired,
            Stage::Expired => return,
            Stage::Prepared(..) | Stage::Asked(..) | Stage::Over => Stage::Over,
        };
        let before = std::mem::replace(&mut *stage, next);
        drop(stage);
        let reply = match before {
            Stage::Prepared(_, _, reply) => reply,
            Stage::Asked(request, reply) => {
                drop(request);
                reply
            }
            Stage::Starting | Stage::Expired | Stage::Over => return,
        };
        reply.fault(&self.admitted.deadline_exceeded());
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
