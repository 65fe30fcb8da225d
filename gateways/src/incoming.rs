//! The calls of one read of a connection, handed on at once: all for one lane as one task there. Threads that wait
//! are woken once per read, not once per frame.
//!
//! Must never change the order of calls: those of one connection reach their endpoints as they were sent.

use crate::{
    codec::Encoded,
    connection::Connection,
    disorder::{Disorder, Lines},
    endpoint::{Admitted, Registered, Target},
    error::FabricError,
    inner::Inner,
    serve::{ReplyTo, ServeSlot},
    served::{Asked, Batch, Calls, Queued, Room, To},
};
use platform::Lane;
use std::{
    borrow::Cow,
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bodies up to this are decoded on the thread that reads.
const SHORT_BYTES: usize = 1 << 20;

/// The calls of one read.
#[derive(Default)]
pub(crate) struct Incoming {
    open: Option<Open>,
    /// The endpoint that this read's last call was for: mostly the next is for it too.
    last: Option<Arc<Registered>>,
    /// Number of bytes of this read.
    bytes: usize,
    /// Batches that have not reached their endpoints yet: while there are any, no call may go another way.
    under_way: Arc<AtomicUsize>,
    /// Calls that the simulation holds back.
    lines: Arc<Lines>,
}

/// A batch that still grows.
struct Open {
    lane: Lane,
    calls: Calls,
    /// The last call of it that names its endpoint.
    named: usize,
    /// Room that the connection has besides this batch.
    room: Room,
}

impl Incoming {
    /// Begins a read of that number of bytes.
    pub(crate) fn begin(&mut self, bytes: usize) {
        self.bytes = bytes;
    }

    /// Takes in a call of the peer; it is handed on at the end of this read.
    pub(crate) fn call(&mut self, from: &Origin<'_>, to: To, endpoint: &str, body: Cow<'_, [u8]>) {
        let registered = match self.last.take_if(|last| last.name == endpoint) {
            Some(last) => last,
            None => match from.service.find(endpoint) {
                Ok(found) => found,
                Err(error) => return from.connection.refuse(to.id, &error),
            },
        };
        if let Some(disorder) = &from.service.options.disorder {
            self.hold_back(from, to, &registered, body, disorder);
            self.last = Some(registered);
            return;
        }
        let here = Lane::of_this_thread();
        let elsewhere = |lane: &Lane| here.is_some_and(|here| !here.shares_thread_with(*lane));
        let long = body.len() > SHORT_BYTES;
        match registered.lane.filter(elsewhere).or(long.then_some(Lane::Work)) {
            Some(lane) => self.push(from, to, lane, &registered, body),
            None => match from.connection.room().takes(&body) {
                true => from.let_in_alone(&to, &registered, &body),
                false => from.overloaded(to.id),
            },
        }
        self.last = Some(registered);
    }

    /// Delivers a call when its turn has come. Called only in the simulation, where all lanes are one thread.
    fn hold_back(
        &self,
        from: &Origin<'_>,
        to: To,
        endpoint: &Arc<Registered>,
        body: Cow<'_, [u8]>,
        disorder: &Arc<dyn Disorder>,
    ) {
        if !from.connection.room().takes(&body) {
            return from.overloaded(to.id);
        }
        let (lines, disorder) = (Arc::clone(&self.lines), Arc::clone(disorder));
        let (service, connection) = (Arc::clone(from.service), Arc::clone(from.connection));
        let (endpoint, body) = (Arc::clone(endpoint), body.into_owned());
        let lane = service.platform.lane(service.options.io_lane);
        lane.spawn_local(async move {
            lines.pass(&*disorder, &endpoint.name).await;
            if !connection.is_over() {
                let from = Origin { service: &service, connection: &connection };
                from.let_in_alone(&to, &endpoint, &body);
            }
        });
    }

    fn push(
        &mut self,
        from: &Origin<'_>,
        to: To,
        lane: Lane,
        endpoint: &Arc<Registered>,
        body: Cow<'_, [u8]>,
    ) {
        let long = body.len() > SHORT_BYTES;
        let fits = |open: &Open| open.lane.shares_thread_with(lane) && !long;
        if !self.open.as_ref().is_some_and(fits) {
            self.hand_over(from);
        }
        let open = self.open.get_or_insert_with(|| Open {
            lane,
            calls: Calls::expecting(self.bytes, body.len(), matches!(body, Cow::Owned(_))),
            named: 0,
            room: from.connection.room(),
        });
        if !open.room.takes(&body) {
            return from.overloaded(to.id);
        }
        from.connection.arm(to.context.deadline.at());
        open.push(to, endpoint, body);
    }

    /// Hands on what has been gathered.
    pub(crate) fn deliver(&mut self, from: &Origin<'_>) {
        self.last = None;
        self.hand_over(from);
    }

    fn hand_over(&mut self, from: &Origin<'_>) {
        let Some(Open { lane, mut calls, .. }) = self.open.take() else {
            return;
        };
        calls.give_back();
        let short = calls.calls.len() == 1 && calls.bodies.len() <= SHORT_BYTES;
        // A call on its own takes the shorter way, unless it would overtake one.
        if short && self.under_way.load(Ordering::Acquire) == 0 {
            return from.let_in(&calls, None);
        }
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let delivery = Delivery {
            batch: from.connection.served.queue(calls),
            connection: Arc::clone(from.connection),
            delivered: false,
            under_way: Arc::clone(&self.under_way),
        };
        let service = Arc::clone(from.service);
        from.service.platform.lane(lane).spawn_local(async move { delivery.let_in(&service) });
    }
}

impl Open {
    fn push(&mut self, to: To, endpoint: &Arc<Registered>, body: Cow<'_, [u8]>) {
        self.room.calls -= 1;
        self.room.bytes -= Queued::bytes(body.len());
        let Calls { calls, bodies } = &mut self.calls;
        let named = calls.get(self.named).and_then(|call| call.endpoint.as_ref());
        let same = named.is_some_and(|named| Arc::ptr_eq(named, endpoint));
        if !same {
            self.named = calls.len();
        }
        let endpoint = (!same).then(|| Arc::clone(endpoint));
        calls.push(Queued { to, endpoint, length: body.len(), over: false });
        match body {
            Cow::Owned(whole) if bodies.is_empty() => *bodies = whole,
            body => bodies.extend_from_slice(&body),
        }
    }
}

impl Room {
    fn takes(self, body: &[u8]) -> bool {
        self.calls > 0 && self.bytes >= Queued::bytes(body.len())
    }
}

/// A batch on its way to its lane. They are decoded there: a message that one thread allocates and another frees
/// costs more than it saves (measured: half as much again per call).
struct Delivery {
    batch: Arc<Batch>,
    connection: Arc<Connection>,
    delivered: bool,
    under_way: Arc<AtomicUsize>,
}

impl Delivery {
    fn let_in(mut self, service: &Arc<Inner>) {
        let calls = self.batch.take();
        Origin { service, connection: &self.connection }.let_in(&calls, Some(&self.batch));
        self.delivered = true;
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
        if !self.delivered {
            self.connection.close("a thread of this process has ended, and calls with it");
        }
    }
}

/// The connection that calls come from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) service: &'a Arc<Inner>,
    pub(crate) connection: &'a Arc<Connection>,
}

impl Origin<'_> {
    fn reply(&self, id: u64) -> ReplyTo {
        ReplyTo::Connection { connection: Arc::clone(self.connection), id }
    }

    fn overloaded(&self, id: u64) {
        self.connection.refuse(id, &self.connection.overloaded("calls under way from"));
    }

    /// Hands one call to its endpoint, or answers why not.
    fn let_in_alone(&self, to: &To, endpoint: &Arc<Registered>, body: &[u8]) {
        if let Some(asked) = self.prepare(to, endpoint, Encoded::Bytes(body)) {
            self.start(asked);
        }
    }

    /// Decodes a call whose body is in a file, or answers why it is not let in. Blocks the thread.
    pub(crate) fn prepare_from(&self, to: &To, endpoint: &str, body: &File) -> Option<Asked> {
        match self.service.find(endpoint) {
            Ok(_) if self.connection.room().calls == 0 => self.overloaded(to.id),
            Ok(endpoint) => return self.prepare(to, &endpoint, Encoded::File(body)),
            Err(error) => self.connection.refuse(to.id, &error),
        }
        None
    }

    /// Hands a decoded call to its endpoint.
    pub(crate) fn start(&self, asked: Asked) {
        let call = Arc::clone(&asked.call);
        self.connection.arm(asked.deadline);
        if self.connection.served.ask(None, std::iter::once(asked)) {
            call.start();
        }
    }

    /// Hands calls to their endpoints, or answers with the reason why not. Calls that have ended
    /// meanwhile are dropped.
    fn let_in(&self, calls: &Calls, waited: Option<&Arc<Batch>>) {
        let mut endpoint = None;
        let mut rest = &*calls.bodies;
        let mut prepared: Vec<Asked> = Vec::with_capacity(calls.calls.len());
        for Queued { to, endpoint: other, length, over } in &calls.calls {
            endpoint = other.as_ref().or(endpoint);
            let (body, after) = rest.split_at_checked(*length).unwrap_or_default();
            rest = after;
            if let Some(endpoint) = endpoint.filter(|_| !over) {
                prepared.extend(self.prepare(to, endpoint, Encoded::Bytes(body)));
            }
        }
        let asked = prepared.iter().map(Asked::clone);
        if !self.connection.served.ask(waited.map(|batch| (batch, calls)), asked) {
            return;
        }
        if let Some(first) = prepared.iter().map(|call| call.deadline).min() {
            self.connection.arm(first);
        } else {
            self.connection.note_idle();
        }
        for Asked { call, .. } in prepared {
            call.start();
        }
    }

    /// Prepares a call that its endpoint admits; a call that is refused is answered.
    fn prepare(&self, to: &To, endpoint: &Arc<Registered>, body: Encoded<'_>) -> Option<Asked> {
        let prepared = self.admit(to, endpoint).and_then(|(target, admitted)| {
            ServeSlot::prepare(target, body, (to.context, admitted), self.reply(to.id))
        });
        match prepared {
            Ok(call) => Some(Asked { id: to.id, deadline: to.context.deadline.at(), call }),
            Err(error) => {
                self.connection.refuse(to.id, &error);
                None
            }
        }
    }

    fn admit<'t>(
        &self,
        to: &To,
        endpoint: &'t Arc<Registered>,
    ) -> Result<(&'t dyn Target, Admitted), FabricError> {
        self.service.takes_calls()?;
        let (index, target) = endpoint.target(to.call).ok_or_else(|| FabricError::NoSuchCall {
            endpoint: endpoint.name.clone(),
            call: format!("call {:08x}", to.call),
        })?;
        let principal = self.connection.peer.principal;
        Ok((target, endpoint.admit(principal, (index, target.name()), to.fence, to.came)?))
    }
}
