//! Calls under way: the one allocation that links a message in an actor's mailbox with the caller
//! that waits for its answer. This module must never hold a lock while an actor or a socket is
//! asked for something.
//!
//! A served call has no task of its own: the reply channel's waker itself encodes the answer and hands
//! it on, on the thread where the handler answered.

use crate::{
    call::{Ask, Call, CallContext, Caller, Observer},
    codec::Encoded,
    connection::Connection,
    endpoint::{Admitted, CallTarget, Place, Target},
    error::{CallError, FabricError},
    pending::Outcome,
    served::Serving,
};
use futures::task::{ArcWake, AtomicWaker, waker_ref};
use std::{
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};
use tokio::sync::oneshot;

/// The receiver of an encoded answer.
pub(crate) enum ReplyTo {
    /// A caller at the other end of a connection.
    Connection {
        connection: Arc<Connection>,
        /// The caller's correlation id.
        id: u64,
    },
    /// A caller in this process that wants bytes (the test mode).
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

/// The stage of a call. Its deadline may pass, and its connection end, on another thread at every
/// moment.
enum Stage {
    /// A call whose body has been decoded, with the place that it will be put into.
    Prepared(Box<dyn Place>, CallContext, ReplyTo),
    /// The call is being put into the mailbox.
    Starting,
    /// The call is in the mailbox or being handled.
    Asked(Box<dyn Place>, ReplyTo),
    /// The deadline passed while the call was being put into the mailbox.
    Expired,
    /// The call was answered, or its caller does not wait any more.
    Over,
}

/// A call that came as bytes. Once it has been started, `reply` is answered in every case, unless it is over by then.
pub(crate) struct ServeSlot {
    admitted: Admitted,
    stage: Mutex<Stage>,
    /// Number of wakes not yet looked after; above zero means that a thread is looking.
    wakes: AtomicU32,
}

impl ServeSlot {
    /// Decodes a call. Once it is started, `reply` is answered.
    pub(crate) fn prepare(
        target: &dyn Target,
        body: Encoded<'_>,
        (context, admitted): (CallContext, Admitted),
        reply: ReplyTo,
    ) -> Result<Arc<Self>, FabricError> {
        let mut place = target.place();
        place.fill(body)?;
        let stage = Mutex::new(Stage::Prepared(place, context, reply));
        // Whoever starts it is the first to look.
        Ok(Arc::new(Self { admitted, stage, wakes: AtomicU32::new(1) }))
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for the answer. A wake that comes during a look causes one more, by the same thread.
    fn poll(self: &Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) == 0 {
            self.look(self.lock());
            self.looked(1);
        }
    }

    /// Takes `wakes` off the count of open wakes, and looks again while others have come meanwhile.
    fn looked(self: &Arc<Self>, mut wakes: u32) {
        loop {
            wakes = self.wakes.fetch_sub(wakes, Ordering::AcqRel).saturating_sub(wakes);
            if wakes == 0 {
                return;
            }
            self.look(self.lock());
        }
    }

    fn look(self: &Arc<Self>, mut stage: MutexGuard<'_, Stage>) {
        let Stage::Asked(place, _) = &mut *stage else {
            return;
        };
        let waker = waker_ref(self);
        let Poll::Ready(outcome) = place.poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let asked = std::mem::replace(&mut *stage, Stage::Over);
        drop(stage);
        if let Stage::Asked(place, reply) = asked {
            self.give_back(place);
            reply.send(outcome.unwrap_or_else(|| Outcome::fault(&self.admitted.unanswered())));
        }
    }

    fn give_back(&self, mut place: Box<dyn Place>) {
        place.clear();
        if let Some(target) = self.admitted.target() {
            target.keep(place);
        }
    }
}

impl ArcWake for ServeSlot {
    fn wake_by_ref(slot: &Arc<Self>) {
        if std::thread::panicking() {
            slot.admitted.note_panic();
        }
        slot.poll();
    }
}

impl Observer for ServeSlot {
    fn released(&self, panicking: bool) {
        self.admitted.released(panicking);
    }
}

impl Serving for ServeSlot {
    fn start(self: Arc<Self>) {
        let mut stage = self.lock();
        if !matches!(&*stage, Stage::Prepared(..)) {
            return;
        }
        let before = std::mem::replace(&mut *stage, Stage::Starting);
        drop(stage);
        let Stage::Prepared(mut place, context, reply) = before else {
            return;
        };
        let observer: Arc<dyn Observer> = Arc::clone(&self) as Arc<dyn Observer>;
        let caller = Caller::observed(self.admitted.principal, context, observer);
        self.admitted.enters();
        if let Some(target) = self.admitted.target() {
            place.send(target, caller);
        }
        let mut stage = self.lock();
        match &*stage {
            Stage::Starting => *stage = Stage::Asked(place, reply),
            // The message is skipped in the mailbox, since nobody waits for its answer.
            Stage::Expired => {
                drop(stage);
                drop(place);
                return reply.fault(&self.admitted.deadline_exceeded());
            }
            Stage::Prepared(..) | Stage::Asked(..) | Stage::Over => {
                drop(stage);
                return drop(place);
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
            Stage::Asked(place, reply) => {
                drop(place);
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
    admitted.enters();
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
