//! One multiplexed connection to a peer, as callers and handlers see it; its task is in `driver`.
//! It must never block, and never answer a call twice.

use crate::{
    address::NodeAddress,
    call::{CallContext, Principal},
    error::{Executed, FabricError},
    frame::{AskHeader, Frame, Kind},
    options::RpcOptions,
    outbound::{Bound, Full, Outbound},
    pending::{Outcome, Pending},
    scratch,
    served::{Room, Served},
};
use futures::task::AtomicWaker;
use model::LeaderSession;
use platform::{Lane, after_this_turn, net::BoxWrite};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The process at the other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct PeerInfo {
    /// The address by which the peer can be called; `None`: it takes no calls.
    pub(crate) node: Option<NodeAddress>,
    /// Text for messages about a peer without address.
    pub(crate) label: NodeAddress,
    pub(crate) principal: Principal,
    pub(crate) incarnation: u128,
    /// True if a lost connection can be made again by dialling the node.
    pub(crate) dialable: bool,
}

/// Number of waiting bytes that are written at once, before the turn has ended, so that the peer
/// can begin with them meanwhile.
const FULL_BYTES: usize = 48 * 1024;

/// A connection that has been authenticated.
#[derive(derive_more::Debug)]
#[debug("Connection({}, {})", self.number, self.peer.label)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) peer: PeerInfo,
    pub(crate) outbound: Outbound,
    pub(crate) pending: Pending,
    pub(crate) served: Served,
    limits: Limits,
    created: Instant,
    /// The earliest deadline in `pending` and `served`, in nanoseconds after `created`; may be too early.
    earliest: AtomicU64,
    pub(crate) waker: AtomicWaker,
    pub(crate) notified: AtomicBool,
    /// True while the work lane is about to write what waits.
    flushing: AtomicBool,
    /// The peer has said goodbye.
    pub(crate) left: AtomicBool,
    /// This side has said goodbye: close once everything is written.
    pub(crate) finishing: AtomicBool,
    why: Mutex<Option<String>>,
    /// True once `ended` is cancelled; readable without its lock, because every call and every turn
    /// of the connection's task checks it.
    over: AtomicBool,
    /// Ends with the connection.
    pub(crate) ended: CancellationToken,
    /// Notified when `served` becomes empty.
    pub(crate) idle: Arc<tokio::sync::Notify>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    pending_max: usize,
    queued_max: usize,
    answer_grace: Duration,
}

const NEVER: u64 = u64::MAX;

impl Connection {
    pub(crate) fn new(
        number: u64,
        peer: PeerInfo,
        write: BoxWrite,
        options: &RpcOptions,
        idle: Arc<tokio::sync::Notify>,
    ) -> Self {
        // Beside the bodies that the process keeps in memory, as many bytes may be on their way.
        let bodies_max = options.body_memory.saturating_mul(2);
        Self {
            number,
            peer,
            outbound: Outbound::new(write, options.outbound_max, bodies_max),
            pending: Pending::default(),
            served: Served::default(),
            limits: Limits {
                pending_max: options.pending_max,
                queued_max: bodies_max,
                answer_grace: options.answer_grace,
            },
            created: Instant::now(),
            earliest: AtomicU64::new(NEVER),
            waker: AtomicWaker::new(),
            notified: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            left: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            why: Mutex::default(),
            over: AtomicBool::new(false),
            ended: CancellationToken::new(),
            idle,
        }
    }

    /// Wakes the connection's task to check everything.
    pub(crate) fn notify(&self) {
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Returns true if it was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns true if calls can be made.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_over() && !self.left.load(Ordering::Acquire)
    }

    /// Sends a call. One alone is written by this thread at once; many at once are gathered.
    pub(crate) fn ask(
        self: &Arc<Self>,
        call: u32,
        to: (LeaderSession, &str),
        asking: &Asking<'_>,
        body: &mut Vec<u8>,
    ) -> Result<Waiting, FabricError> {
        let (fence, endpoint) = to;
        let Asking { context, remaining, waker } = *asking;
        let until = context.deadline.at() + self.limits.answer_grace;
        let reserved = self.pending.reserve(until, self.limits.pending_max, waker)?;
        let reserved = reserved.ok_or_else(|| self.overloaded("calls under way to"))?;
        let (connection, id) = (Arc::clone(self), reserved.id);
        let waiting = Waiting { connection, id, asked_now: true, done: false };
        let ask = AskHeader {
            call,
            remaining,
            trace: context.trace,
            fence,
            session: context.session,
            endpoint,
        };
        let frame = Frame { ask: Some(ask), ..Frame::answer(Kind::Ask, reserved.id, &[]) };
        let pushed = self.outbound.push(&frame, body, Bound::Refusable);
        let waiting_bytes = pushed.map_err(|_| self.overloaded("frames that wait for"))?;
        self.arm(until);
        self.flush(reserved.alone, waiting_bytes);
        Ok(waiting)
    }

    pub(crate) fn overloaded(&self, what: &str) -> FabricError {
        FabricError::Overloaded { what: format!("{what} {}", self.peer.label) }
    }

    fn flush(self: &Arc<Self>, alone: bool, waiting_bytes: usize) {
        if !alone && waiting_bytes < FULL_BYTES {
            self.flush_after_this_turn();
        } else if !self.outbound.try_flush() {
            self.notify();
        }
    }

    /// Requests that calls or answers which are made at the same time are written together. The
    /// work lane writes at the end of its turn, so no other thread has to be woken. For other lanes
    /// the connection's task writes, so that a beat never waits for the end of another actor's
    /// turn.
    fn flush_after_this_turn(self: &Arc<Self>) {
        if Lane::of_this_thread() != Some(Lane::Work) {
            return self.notify();
        }
        if self.flushing.swap(true, Ordering::AcqRel) {
            return;
        }
        let connection = Arc::clone(self);
        let flush = move || {
            connection.flushing.store(false, Ordering::Release);
            if !connection.outbound.try_flush() {
                connection.notify();
            }
        };
        if let Err(flush) = after_this_turn(flush) {
            flush();
        }
    }

    /// Returns true if the work lane writes what waits, as soon as its turn is over. Two threads that write by turns cost
    /// each other more than they save.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.load(Ordering::Acquire) && !self.outbound.is_blocked()
    }

    /// Sees to it that the connection's task wakes at a deadline.
    pub(crate) fn arm(&self, deadline: Instant) {
        let after = deadline.saturating_duration_since(self.created).as_nanos();
        let after = u64::try_from(after).unwrap_or(NEVER);
        // Most deadlines are later than one that is known already.
        let later = after >= self.earliest.load(Ordering::Acquire);
        if !later && after < self.earliest.fetch_min(after, Ordering::AcqRel) {
            self.notify();
        }
    }

    /// Returns how many more calls, and bytes of waiting calls, the peer may have under way.
    pub(crate) fn room(&self) -> Room {
        self.served.room(self.limits.pending_max, self.limits.queued_max)
    }

    /// Notifies those that wait for it if no call of the peer is under way.
    pub(crate) fn note_idle(&self) {
        if self.served.len() == 0 {
            self.idle.notify_waiters();
        }
    }

    /// Sends the answer to a call of the peer that is with its actor.
    pub(crate) fn answer(self: &Arc<Self>, id: u64, outcome: Outcome) {
        self.push_and_flush(id, outcome, || self.served.answered(id));
    }

    /// Sends the answer to a call of the peer that was not let in.
    pub(crate) fn refuse(self: &Arc<Self>, id: u64, error: &FabricError) {
        self.push_and_flush(id, Outcome::fault(error), || self.served.len() == 0);
    }

    fn push_and_flush(self: &Arc<Self>, id: u64, outcome: Outcome, last: impl FnOnce() -> bool) {
        let over = self.is_over();
        let mut waiting_bytes = 0;
        if !over {
            match self.push_answer(id, outcome) {
                Ok(bytes) => waiting_bytes = bytes,
                Err(Full) => return self.close("the peer does not read its answers"),
            }
        }
        // Whoever waits for the last call to be answered finds its answer in the queue.
        let alone = last();
        if alone {
            self.idle.notify_waiters();
        }
        if !over {
            self.flush(alone, waiting_bytes);
        }
    }

    fn push_answer(&self, id: u64, mut outcome: Outcome) -> Result<usize, Full> {
        let frame = Frame::answer(outcome.kind, id, &[]);
        let pushed = self.outbound.push(&frame, &mut outcome.body, Bound::Answer);
        scratch::give(outcome.body);
        pushed
    }

    /// Sends a frame of the connection itself.
    pub(crate) fn control(&self, kind: Kind) {
        let frame = Frame::bare(kind);
        let pushed = self.outbound.push(&frame, &mut Vec::new(), Bound::Answer);
        if pushed.is_err() {
            self.close("the peer does not read");
        }
        self.notify();
    }

    /// Ends calls whose deadlines have passed; when the next look is due.
    pub(crate) fn expire(self: &Arc<Self>, now: Instant) -> Option<Instant> {
        let due = self.earliest.load(Ordering::Acquire);
        if due == NEVER {
            return None;
        }
        let due = self.created + Duration::from_nanos(due);
        if now < due {
            return Some(due);
        }
        self.earliest.store(NEVER, Ordering::Release);
        let next = self.pending.expire(now, || FabricError::Unreachable {
            peer: self.peer.label.clone(),
            executed: Executed::Maybe,
            why: "no answer by the deadline, though the connection is open".to_owned(),
        });
        let expired = self.served.expire(now);
        for (id, came, endpoint) in expired.queued {
            let exceeded = FabricError::DeadlineExceeded {
                queued: came.elapsed(),
                running: Duration::ZERO,
                handler: endpoint.name.clone(),
            };
            self.refuse(id, &exceeded);
        }
        expired.asked.into_values().for_each(|call| call.expire());
        let next = [next, expired.next].into_iter().flatten().min();
        if let Some(next) = next {
            self.arm(next);
        }
        next
    }

    /// Gives the connection up: calls that wait are answered, calls of the peer are given up.
    pub(crate) fn close(&self, why: &str) {
        let mut reason = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        if reason.is_some() {
            return;
        }
        *reason = Some(why.to_owned());
        drop(reason);
        self.over.store(true, Ordering::Release);
        self.ended.cancel();
        let lost = |executed| FabricError::Unreachable {
            peer: self.peer.label.clone(),
            executed,
            why: format!("the connection was lost: {why}"),
        };
        self.pending.close(&lost(Executed::Maybe), lost(Executed::No));
        self.served.close();
        self.idle.notify_waiters();
        self.outbound.close();
        self.notify();
    }

    /// Returns the reason why the connection was closed; empty while it is open.
    pub(crate) fn why(&self) -> String {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().unwrap_or_default()
    }
}

/// The context of a call that is sent.
pub(crate) struct Asking<'a> {
    pub(crate) context: CallContext,
    /// Time until the deadline.
    pub(crate) remaining: Duration,
    /// Waker of the caller, which awaits the answer in this same turn.
    pub(crate) waker: &'a Waker,
}

/// A call whose answer is awaited. Dropping it gives the answer up.
pub(crate) struct Waiting {
    connection: Arc<Connection>,
    id: u64,
    /// The table knows the waker already.
    asked_now: bool,
    done: bool,
}

impl Future for Waiting {
    type Output = Result<Outcome, FabricError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if std::mem::take(&mut self.asked_now) {
            return Poll::Pending;
        }
        match self.connection.pending.poll(self.id, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(answer) => {
                self.done = true;
                // A slot is only empty for its owner when the table was closed under it.
                Poll::Ready(answer.unwrap_or(Err(FabricError::ShuttingDown)))
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.done {
            self.connection.pending.release(self.id);
        }
    }
}
