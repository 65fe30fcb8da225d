//! What one read of a connection brought, handed on at once: all answers under one lock of the table of calls,
//! all calls for one lane as one task there. Threads that wait are woken once per read, not once per frame.
//!
//! Must never change the order of calls: those of one connection reach their endpoints as they were sent.

use crate::{
    call::CallContext,
    connection::Connection,
    endpoint::{Admitted, Registered, Target},
    error::FabricError,
    rpc::Inner,
    serve::{Outcome, ReplyTo},
};
use model::LeaderSession;
use platform::Lane;
use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::time::Instant;

/// Bodies up to this are decoded on the thread that reads.
const SHORT_BYTES: usize = 1 << 20;
/// Answers of one read for which room is kept.
const KEEP_ANSWERS: usize = 64;

/// The calls and answers of one read.
#[derive(Default)]
pub(crate) struct Incoming {
    answers: Vec<(u64, Result<Outcome, FabricError>)>,
    batch: Option<Batch>,
    /// Batches that have not reached their endpoints yet: while there are any, no call may go another way.
    under_way: Arc<AtomicUsize>,
}

/// Which call is meant, and for whom.
pub(crate) struct To {
    pub(crate) id: u64,
    pub(crate) call: u32,
    pub(crate) fence: LeaderSession,
    pub(crate) context: CallContext,
    /// When it was read.
    pub(crate) came: Instant,
    pub(crate) registered: Arc<Registered>,
}

impl Incoming {
    /// The answer to a call of this side.
    pub(crate) fn answer(&mut self, id: u64, answer: Result<Outcome, FabricError>) {
        self.answers.push((id, answer));
    }

    /// A call of the peer, for this read's end. It is under way from now on.
    pub(crate) fn call(&mut self, from: &Origin<'_>, to: To, body: Cow<'_, [u8]>) {
        if let Err(error) = from.connection.queued(&to, body.len()) {
            return from.reply(&to).fault(&error);
        }
        let here = Lane::of_this_thread();
        let elsewhere = |lane: &Lane| here.is_some_and(|here| !here.shares_thread_with(*lane));
        let long = body.len() > SHORT_BYTES;
        let lane = to.registered.lane.filter(elsewhere).or(long.then_some(Lane::Work));
        let Some(lane) = lane else {
            return from.let_in(&to, &body);
        };
        let fits = |batch: &Batch| batch.lane.shares_thread_with(lane) && !long;
        if !self.batch.as_ref().is_some_and(fits) {
            self.hand_over(from);
        }
        let batch = self.batch.get_or_insert_with(|| Batch::new(from, lane));
        batch.push(to, body);
    }

    /// Hands on what has been gathered.
    pub(crate) fn deliver(&mut self, from: &Origin<'_>) {
        if !self.answers.is_empty() {
            from.connection.pending.answer_all(&mut self.answers);
            if self.answers.capacity() > KEEP_ANSWERS {
                self.answers = Vec::new();
            }
        }
        self.hand_over(from);
    }

    fn hand_over(&mut self, from: &Origin<'_>) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        let short = batch.calls.len() == 1 && batch.bodies.len() <= SHORT_BYTES;
        // A call on its own takes the shorter way, unless it would overtake one.
        if short && self.under_way.load(Ordering::Acquire) == 0 {
            return batch.let_in(from.service);
        }
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let arrived = Arrived(Arc::clone(&self.under_way));
        let service = Arc::clone(from.service);
        from.service.platform.lane(batch.lane).spawn_local(async move {
            batch.let_in(&service);
            drop(arrived);
        });
    }
}

/// Calls for endpoints of one lane. They are decoded there: a message that one thread allocates and another frees
/// costs more than it saves (measured: half as much again per call).
struct Batch {
    connection: Arc<Connection>,
    lane: Lane,
    calls: VecDeque<(To, usize)>,
    /// Their bodies, one behind the other; `calls` says how long each is.
    bodies: Vec<u8>,
}

impl Batch {
    fn new(from: &Origin<'_>, lane: Lane) -> Self {
        let connection = Arc::clone(from.connection);
        Self { connection, lane, calls: VecDeque::new(), bodies: Vec::new() }
    }

    fn push(&mut self, to: To, body: Cow<'_, [u8]>) {
        self.connection.undecoded.fetch_add(body.len(), Ordering::AcqRel);
        self.calls.push_back((to, body.len()));
        match body {
            Cow::Owned(whole) if self.bodies.is_empty() => self.bodies = whole,
            body => self.bodies.extend_from_slice(&body),
        }
    }

    fn let_in(mut self, service: &Arc<Inner>) {
        let connection = Arc::clone(&self.connection);
        let from = Origin { service, connection: &connection };
        let mut start = 0;
        while let Some((to, length)) = self.calls.pop_front() {
            from.let_in(&to, self.bodies.get(start..start + length).unwrap_or_default());
            start += length;
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.connection.undecoded.fetch_sub(self.bodies.len(), Ordering::AcqRel);
        if !self.calls.is_empty() {
            self.connection.close("a thread of this process has ended, and calls with it");
        }
    }
}

/// Counts a batch as arrived when it is dropped, let in or not.
struct Arrived(Arc<AtomicUsize>);

impl Drop for Arrived {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where calls come from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) service: &'a Arc<Inner>,
    pub(crate) connection: &'a Arc<Connection>,
}

impl Origin<'_> {
    fn reply(&self, to: &To) -> ReplyTo {
        ReplyTo::Connection { connection: Arc::clone(self.connection), id: to.id }
    }

    /// Hands a call to its endpoint, or answers why not. One that is over meanwhile is dropped.
    fn let_in(&self, to: &To, body: &[u8]) {
        if !self.connection.is_served(to.id) {
            return;
        }
        match self.admit(to) {
            Ok((target, admitted)) => target.serve(body, to.context, admitted, self.reply(to)),
            Err(error) => self.reply(to).fault(&error),
        }
    }

    fn admit<'t>(&self, to: &'t To) -> Result<(&'t dyn Target, Admitted), FabricError> {
        self.service.takes_calls()?;
        let target = to.registered.target(to.call).ok_or_else(|| FabricError::NoSuchCall {
            endpoint: to.registered.name.clone(),
            call: format!("call {:08x}", to.call),
        })?;
        let principal = self.connection.peer.principal;
        Ok((target, to.registered.admit(principal, target.name(), to.fence)?))
    }
}
