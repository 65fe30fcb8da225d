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
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bodies up to this are decoded on the thread that reads; longer ones where their endpoint is, so that beats do
/// not wait behind them.
const SHORT_BYTES: usize = 1 << 20;

/// The calls and answers of one read.
#[derive(Default)]
pub(crate) struct Incoming {
    answers: Vec<(u64, Result<Outcome, FabricError>)>,
    batch: Option<Batch>,
    /// Batches that have not reached their endpoints yet: while there are any, no call may go another way.
    under_way: Arc<AtomicUsize>,
}

/// Calls for endpoints of one lane. They are decoded there: a message that one thread allocates and another frees
/// costs more than it saves (measured: half as much again per call).
struct Batch {
    lane: Lane,
    calls: Vec<(To, usize)>,
    /// Their bodies, one behind the other; `calls` says where each ends.
    bodies: Vec<u8>,
}

/// Which call is meant, and for whom.
pub(crate) struct To {
    pub(crate) id: u64,
    pub(crate) call: u32,
    pub(crate) fence: LeaderSession,
    pub(crate) context: CallContext,
    pub(crate) registered: Arc<Registered>,
}

impl Incoming {
    /// The answer to a call of this side.
    pub(crate) fn answer(&mut self, id: u64, answer: Result<Outcome, FabricError>) {
        self.answers.push((id, answer));
    }

    /// A call of the peer, for this read's end.
    pub(crate) fn call(&mut self, from: &Origin<'_>, to: To, body: &[u8]) {
        let here = Lane::of_this_thread();
        let elsewhere = |lane: &Lane| here.is_some_and(|here| !here.shares_thread_with(*lane));
        let mut lane = to.registered.lane.filter(elsewhere);
        if body.len() > SHORT_BYTES {
            lane = lane.or(Some(Lane::Work));
        }
        let Some(lane) = lane else {
            return from.let_in(&to, body);
        };
        if self.batch.as_ref().is_some_and(|batch| !batch.lane.shares_thread_with(lane)) {
            self.hand_over(from);
        }
        let empty = || Batch { lane, calls: Vec::new(), bodies: Vec::new() };
        let batch = self.batch.get_or_insert_with(empty);
        batch.bodies.extend_from_slice(body);
        batch.calls.push((to, batch.bodies.len()));
    }

    /// Hands on what has been gathered.
    pub(crate) fn deliver(&mut self, from: &Origin<'_>) {
        if !self.answers.is_empty() {
            from.connection.pending.answer_all(&mut self.answers);
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
            return batch.let_in(from);
        }
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let arrived = Arrived(Arc::clone(&self.under_way));
        let (service, connection) = (Arc::clone(from.service), Arc::clone(from.connection));
        from.service.platform.lane(batch.lane).spawn_local(async move {
            batch.let_in(&Origin { service: &service, connection: &connection });
            drop(arrived);
        });
    }
}

impl Batch {
    fn let_in(&self, from: &Origin<'_>) {
        let mut start = 0;
        for (to, end) in &self.calls {
            from.let_in(to, self.bodies.get(start..*end).unwrap_or_default());
            start = *end;
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
    /// Hands a call to its endpoint, or answers why not.
    fn let_in(&self, to: &To, body: &[u8]) {
        let reply = ReplyTo::Connection { connection: Arc::clone(self.connection), id: to.id };
        match self.admit(to) {
            Ok((target, admitted)) => target.serve(body, to.context, admitted, reply),
            Err(error) => reply.fault(&error),
        }
    }

    fn admit<'t>(&self, to: &'t To) -> Result<(&'t dyn Target, Admitted), FabricError> {
        self.connection.admits()?;
        self.service.takes_calls()?;
        let target = to.registered.target(to.call).ok_or_else(|| FabricError::NoSuchCall {
            endpoint: to.registered.name.clone(),
            call: format!("call {:08x}", to.call),
        })?;
        let principal = self.connection.peer.principal;
        Ok((target, to.registered.admit(principal, target.name(), to.fence)?))
    }
}
