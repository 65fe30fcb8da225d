//! The client's side of one connection as a state machine: preface, authentication, context, then calls and
//! replies by number, in any order. It never reads a clock, and everything that it keeps is bounded.

mod ask;
mod send;

pub use ask::{Answered, Ask};

use super::frame::{FrameDecoder, take, take_body};
use super::header::{
    CALL_CONTEXT, CALL_PING, CALL_SASL, ConnectionContext, RETRY_NONE, ResponseHeader,
    ResponseStatus, SaslMessage, SaslState, UserInformation,
};
use super::retry::kerberos_again;
use super::setup::{AuthSetup, Event, Request, Setup, Time};
use super::{CallError, ConnectionError, ErrorCode, RemoteException};
use crate::sasl::{AuthMethod, Negotiation, Outcome, SecurityLayer};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Bytes of a frame before both sides know each other: a stranger is not trusted with more memory. The
/// longest tokens of Kerberos have 64 KiB.
const GREETING: usize = 256 << 10;

/// A call that waits.
#[derive(Debug)]
struct Waiting {
    method: String,
    deadline: Option<(Time, Duration)>,
    /// Whether the request went out; it is kept here until then.
    unsent: Option<Request>,
}

#[derive(Debug)]
enum Phase {
    Negotiating(Box<Negotiation>),
    /// The negotiation is out, asking: see [`Ask`].
    Asking,
    /// There is no stream: not yet, or Kerberos has failed on the one that there was.
    Streamless,
    Ready,
    Closed,
}

/// Protection of the stream, and the frames that come out of it.
struct Protected {
    layer: Box<dyn SecurityLayer>,
    inner: FrameDecoder,
}

/// The client's side of one Hadoop RPC connection as a state machine: it authenticates, sends calls, and matches answers to them by number.
/// It has no socket, clock, thread or retry of its own: the caller moves the bytes, tells the time, and takes the events.
/// [`Client`](crate::client::Client) runs one in a task for each connection.
pub struct Connection {
    setup: Setup,
    phase: Phase,
    outer: FrameDecoder,
    protected: Option<Protected>,
    outbound: BytesMut,
    calls: BTreeMap<i32, Waiting>,
    deadlines: BTreeSet<(Time, i32)>,
    /// Calls that wait for authentication, in order, and the bytes of their bodies.
    queue: VecDeque<i32>,
    queued: usize,
    events: VecDeque<Event>,
    setup_ends: Time,
    /// How often Kerberos has failed, and how the last time, until it has not.
    refused: u32,
    refusal: Option<ConnectionError>,
    /// When something was last heard, or a ping sent.
    heard: Time,
    /// When the last call ended.
    idle_since: Time,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("protocol", &self.setup.protocol.name)
            .field("phase", &self.phase)
            .field("calls", &self.calls.len())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Makes a connection on a stream (such as TCP's) that exists already. The greeting is ready in
    /// [`take_outbound`](Self::take_outbound), and calls can be made at once.
    #[must_use]
    pub fn new(setup: Setup, now: Time) -> Self {
        let mut connection = Self::without_stream(setup);
        connection.begin_stream(now);
        connection
    }

    /// Makes a connection that has no stream yet: calls are kept until [`start`](Self::start), and only their deadlines
    /// run.
    #[must_use]
    pub fn without_stream(setup: Setup) -> Self {
        Self {
            phase: Phase::Streamless,
            outer: FrameDecoder::new(0),
            protected: None,
            outbound: BytesMut::new(),
            calls: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            queue: VecDeque::new(),
            queued: 0,
            events: VecDeque::new(),
            setup_ends: Time::ZERO,
            refused: 0,
            refusal: None,
            heard: Time::ZERO,
            idle_since: Time::ZERO,
            setup,
        }
    }

    /// Begins on a stream, with the calls that wait: on the first one after [`without_stream`](Self::without_stream),
    /// or on another after [`Event::Refused`]. On any other connection nothing happens. `entropy` is random bytes for
    /// SASL on this stream only.
    pub fn start(&mut self, entropy: [u8; 16], now: Time) {
        if !matches!(self.phase, Phase::Streamless) {
            return;
        }
        if let AuthSetup::Sasl { entropy: old, .. } = &mut self.setup.auth {
            *old = entropy;
        }
        self.begin_stream(now);
    }

    fn begin_stream(&mut self, now: Time) {
        self.outer = FrameDecoder::new(self.setup.limits.frame_in.min(GREETING));
        self.setup_ends = now.saturating_add(self.setup.setup_timeout);
        self.heard = now;
        self.idle_since = now;
        self.greet(now);
    }

    /// Puts a call into the outgoing bytes, or keeps it until authentication has succeeded. Its result comes as an [`Event::Reply`].
    ///
    /// # Errors
    /// Fails with [`CallError::Overloaded`] if the connection [is full](Self::is_full) or the call's number is waiting
    /// already, [`CallError::TooLong`] above [`Limits::frame_out`](super::Limits::frame_out), and
    /// [`CallError::Connection`] if the connection has ended. Nothing was sent then, and no event comes.
    pub fn call(&mut self, request: Request, now: Time) -> Result<(), CallError> {
        if let Phase::Closed = self.phase {
            let error = ConnectionError::Closed("it had ended before".to_owned());
            return Err(CallError::Connection { error, sent: false });
        }
        if self.is_full() || self.calls.contains_key(&request.id) {
            return Err(CallError::Overloaded { waiting: self.calls.len() });
        }
        // The headers are short; leave room for them.
        let (length, max) = (request.body.len() + 4096, self.setup.limits.frame_out);
        if length > max {
            return Err(CallError::TooLong { length, max });
        }
        if self.calls.is_empty() {
            // Silence counts from the first call that waits.
            self.heard = now;
        }
        let id = request.id;
        let mut waiting =
            Waiting { method: request.method.clone(), deadline: request.deadline, unsent: None };
        if let Some((at, _)) = request.deadline {
            self.deadlines.insert((at, id));
        }
        if let Phase::Ready = self.phase {
            self.calls.insert(id, waiting);
            self.put_call(&request);
        } else {
            self.queued += request.body.len();
            self.queue.push_back(id);
            waiting.unsent = Some(request);
            self.calls.insert(id, waiting);
        }
        Ok(())
    }

    /// Forgets a call whose caller has gone: no event comes for it. Does nothing if no call of this number waits. A call that still waits
    /// for authentication is never sent. One whose bytes are in the output already may still be sent, even if nobody has taken them yet;
    /// the server may then carry it out, and an answer that still comes is skipped.
    pub fn cancel(&mut self, id: i32, now: Time) {
        self.remove(id, now);
    }

    /// Returns true if [`call`](Self::call) would refuse another call now, because the number of calls or of unsent
    /// bytes has reached its bound in [`Limits`](super::Limits).
    #[must_use]
    pub fn is_full(&self) -> bool {
        let limits = &self.setup.limits;
        self.calls.len() >= limits.calls || self.outbound.len() + self.queued >= limits.unsent
    }

    /// Returns the number of calls that have no result yet, unsent ones among them.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if the connection has ended: it takes no more calls, and cannot be started again.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Takes all bytes that are to be sent to the server now; empty if there are none. The caller must write them in this order. Bytes that
    /// were taken no longer count against [`Limits::unsent`](super::Limits::unsent). A call counts as sent as soon as its request is
    /// among these bytes, also before they are taken.
    pub fn take_outbound(&mut self) -> Bytes {
        self.outbound.split().freeze()
    }

    /// Returns true if [`take_outbound`](Self::take_outbound) has bytes for the server.
    #[must_use]
    pub fn has_outbound(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// Takes the oldest event that was not taken yet; `None` if there is none.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes bytes from the server and acts on them, up to a step of authentication that may ask a Kerberos server (KDC) and so block. Such
    /// a step is returned: run it and give its outcome to [`resume`](Self::resume), and take no more bytes until then. Calls may be made
    /// meanwhile, and deadlines and the setup timeout run. `None` means that all was handled; an error in the bytes, or sent in them, comes
    /// as [`Event::Closed`] or [`Event::Refused`]. Without a stream or after its end the bytes are dropped.
    #[must_use]
    pub fn take(&mut self, bytes: &[u8], now: Time) -> Option<Ask> {
        if matches!(self.phase, Phase::Closed | Phase::Streamless) {
            return None;
        }
        self.heard = now;
        self.outer.push(bytes);
        self.frames(now)
    }

    fn frames(&mut self, now: Time) -> Option<Ask> {
        while !matches!(self.phase, Phase::Closed | Phase::Asking) {
            let taken = match self.outer.next_frame() {
                Ok(None) => return None,
                Ok(Some(frame)) => self.frame(frame, now),
                Err(error) => Err(error),
            };
            match taken {
                Ok(None) => {}
                Ok(ask) => return ask,
                Err(error) => {
                    self.fail(error);
                    return None;
                }
            }
        }
        None
    }

    /// Gives this stream up. Asks for another one ([`Event::Refused`]) if Kerberos failed in a way that may pass and
    /// retries are left; otherwise closes the connection with `error`.
    fn fail(&mut self, error: ConnectionError) {
        if let Phase::Negotiating(negotiation) = &self.phase
            && self.refused < self.setup.kerberos_retries
            && kerberos_again(&error, negotiation.method())
        {
            self.refused += 1;
            self.refusal = Some(error.clone());
            self.phase = Phase::Streamless;
            self.outbound.clear();
            return self.events.push_back(Event::Refused(error));
        }
        self.close(error);
    }

    /// Ends the connection with `error`, because the stream has ended or something outside of this value went wrong.
    /// Every call that waits gets the error as its result, then [`Event::Closed`] follows; outgoing bytes that were not taken are dropped.
    /// Does nothing if the connection has ended already.
    pub fn close(&mut self, error: ConnectionError) {
        if self.is_closed() {
            return;
        }
        self.phase = Phase::Closed;
        self.outbound.clear();
        self.queue.clear();
        self.deadlines.clear();
        for (id, waiting) in std::mem::take(&mut self.calls) {
            let sent = waiting.unsent.is_none();
            let result = Err(CallError::Connection { error: error.clone(), sent });
            self.events.push_back(Event::Reply { id, result });
        }
        self.events.push_back(Event::Closed(error));
    }

    /// Returns the moment at which [`on_time`](Self::on_time) has something to do next; `None` if nothing is due as
    /// things stand, or if the connection has ended.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        if self.is_closed() {
            return None;
        }
        let setup = self.greets().then_some(self.setup_ends);
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        [setup, deadline, self.ping_at(), self.idle_at()].into_iter().flatten().min()
    }

    fn greets(&self) -> bool {
        matches!(self.phase, Phase::Negotiating(_) | Phase::Asking)
    }

    fn ping_at(&self) -> Option<Time> {
        let waits = matches!(self.phase, Phase::Ready) && !self.calls.is_empty();
        self.setup.ping.filter(|_| waits).map(|every| self.heard.saturating_add(every))
    }

    fn idle_at(&self) -> Option<Time> {
        let idle = matches!(self.phase, Phase::Ready) && self.calls.is_empty();
        self.setup.idle.filter(|_| idle).map(|after| self.idle_since.saturating_add(after))
    }

    /// Does what is due at `now`: ends calls whose deadline has passed, each with a [`Event::Reply`]; closes the connection if
    /// authentication takes too long or no call has waited for [`Setup::idle`]; or puts a ping into the outgoing bytes. To be called at
    /// [`next_time`](Self::next_time); a call before that does nothing. Does nothing once the connection has ended.
    pub fn on_time(&mut self, now: Time) {
        if self.is_closed() {
            return;
        }
        self.expire(now);
        if self.greets() && now >= self.setup_ends {
            return self.close(ConnectionError::SetupTimeout);
        }
        if self.ping_at().is_some_and(|at| now >= at) {
            self.heard = now;
            let header = self.request_header(CALL_PING, RETRY_NONE, false);
            self.put_frame(&[&header], None);
        }
        if self.idle_at().is_some_and(|at| now >= at) {
            self.close(ConnectionError::Idle);
        }
    }

    /// Ends the calls that are due. Where Kerberos keeps failing, that is what they hear.
    fn expire(&mut self, now: Time) {
        while let Some((at, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            let Some(waiting) = self.remove(id, now) else { continue };
            let after = waiting.deadline.map_or(Duration::ZERO, |(_, after)| after);
            let (method, sent) = (waiting.method, waiting.unsent.is_none());
            let error = match self.refusal.clone().filter(|_| !sent) {
                Some(error) => CallError::Connection { error, sent },
                None => CallError::Deadline { method, after, sent },
            };
            self.events.push_back(Event::Reply { id, result: Err(error) });
        }
    }

    /// Takes a call out of all tables.
    fn remove(&mut self, id: i32, now: Time) -> Option<Waiting> {
        let waiting = self.calls.remove(&id)?;
        if let Some((at, _)) = waiting.deadline {
            self.deadlines.remove(&(at, id));
        }
        if let Some(request) = &waiting.unsent {
            self.queued = self.queued.saturating_sub(request.body.len());
            self.queue.retain(|queued| *queued != id);
        }
        if self.calls.is_empty() {
            self.idle_since = now;
        }
        Some(waiting)
    }

    /// One frame as it came over the wire.
    fn frame(&mut self, mut frame: Bytes, now: Time) -> Result<Option<Ask>, ConnectionError> {
        if self.protected.is_some() {
            return self.wrapped(frame, now).map(|()| None);
        }
        if !matches!(self.phase, Phase::Negotiating(_)) {
            return self.response(frame, now).map(|()| None);
        }
        let header: ResponseHeader = take(&mut frame, "a response header")?;
        if header.status != i32::from(ResponseStatus::Success) {
            return Err(ConnectionError::Fatal(exception(header, true)));
        }
        let message = sasl_message(&header, &mut frame)?;
        self.negotiate(message, now)
    }

    /// A frame of a protected stream: part of it, to be opened.
    fn wrapped(&mut self, mut frame: Bytes, now: Time) -> Result<(), ConnectionError> {
        let header: ResponseHeader = take(&mut frame, "a response header")?;
        let message = sasl_message(&header, &mut frame)?;
        let token = message.token.filter(|_| message.state == i32::from(SaslState::Wrap));
        let (Some(token), Some(protected)) = (token, &mut self.protected) else {
            return Err(ConnectionError::Protocol("an unprotected message".to_owned()));
        };
        let plain = protected.layer.unwrap(&token)?;
        protected.inner.push(&plain);
        while let Some(protected) = &mut self.protected
            && let Some(frame) = protected.inner.next_frame()?
        {
            self.response(frame, now)?;
        }
        Ok(())
    }

    /// The answer to a call, or an end.
    fn response(&mut self, mut frame: Bytes, now: Time) -> Result<(), ConnectionError> {
        let header: ResponseHeader = take(&mut frame, "a response header")?;
        let client = header.client_id.as_deref().filter(|client| !client.is_empty());
        if client.is_some_and(|client| client != self.setup.client.0) {
            return Err(ConnectionError::Protocol("an answer for another client".to_owned()));
        }
        // Negative numbers come as their two's complement.
        let id = i32::from_be_bytes(header.call_id.to_be_bytes());
        let result = match ResponseStatus::try_from(header.status) {
            Ok(ResponseStatus::Success) => Ok(frame),
            Ok(ResponseStatus::Error) if id >= 0 => Err(exception(header, false)),
            Ok(ResponseStatus::Error | ResponseStatus::Fatal) => {
                return Err(ConnectionError::Fatal(exception(header, true)));
            }
            Err(_) => return Err(ConnectionError::Protocol("an unknown status".to_owned())),
        };
        // Answers to calls that have expired or were cancelled still come.
        if !self.calls.contains_key(&id) {
            return Ok(());
        }
        let result = match result {
            Ok(mut body) => Ok(take_body(&mut body, "a response")?),
            Err(exception) => Err(CallError::Remote(exception)),
        };
        self.remove(id, now);
        self.events.push_back(Event::Reply { id, result });
        Ok(())
    }

    /// Authentication is through: says who calls, and sends what has waited.
    fn begin(&mut self, outcome: Outcome, now: Time) {
        let Outcome { method, qop, layer } = outcome;
        let frame_in = self.setup.limits.frame_in;
        // Protection makes frames a little longer.
        self.outer.set_max(match layer {
            Some(_) => frame_in.saturating_add(GREETING),
            None => frame_in,
        });
        let inner = FrameDecoder::new(frame_in);
        self.protected = layer.map(|layer| Protected { layer, inner });
        self.phase = Phase::Ready;
        let named = self.setup.user.clone();
        let user = match method {
            AuthMethod::Simple => named,
            // The server knows the real user from Kerberos.
            AuthMethod::Kerberos => UserInformation { real: None, ..named },
            // Both from the token. Hadoop's clients send a user without names all the same.
            AuthMethod::Token => UserInformation::default(),
        };
        let protocol = Some(self.setup.protocol.name.clone());
        let context = ConnectionContext { user: Some(user), protocol };
        let header = self.request_header(CALL_CONTEXT, RETRY_NONE, true);
        self.put_frame(&[&header, &context], None);
        self.events.push_back(Event::Ready { method, qop });
        self.refusal = None;
        // Whoever has been told that no answer came must not have the request carried out after that.
        self.expire(now);
        while let Some(id) = self.queue.pop_front() {
            let request = self.calls.get_mut(&id).and_then(|waiting| waiting.unsent.take());
            if let Some(request) = request {
                self.queued = self.queued.saturating_sub(request.body.len());
                self.put_call(&request);
            }
        }
    }
}

/// The SASL message of a frame that must hold one and nothing else.
fn sasl_message(
    header: &ResponseHeader,
    frame: &mut Bytes,
) -> Result<SaslMessage, ConnectionError> {
    let wrong = |what: &str| ConnectionError::Protocol(what.to_owned());
    if i32::from_be_bytes(header.call_id.to_be_bytes()) != CALL_SASL {
        return Err(wrong("an answer where authentication was expected"));
    }
    let message = take(frame, "a SASL message")?;
    match frame.is_empty() {
        true => Ok(message),
        false => Err(wrong("bytes behind a SASL message")),
    }
}

fn exception(header: ResponseHeader, fatal: bool) -> RemoteException {
    RemoteException {
        class: header.exception_class.unwrap_or_default(),
        message: header.error.unwrap_or_default(),
        code: ErrorCode::from_wire(header.error_code),
        fatal,
    }
}
