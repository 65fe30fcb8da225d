//! The task of one connection: reads and dispatches frames, writes what waits, watches deadlines and
//! silence. One task per connection and none per call. Nothing a peer sends may make it panic, wait, or
//! hold more than the bounds say.

use crate::{
    assembly::{Assemblies, context},
    connection::Connection,
    frame::{self, AskHeader, Decoded, Frame, Kind},
    incoming::{Incoming, Origin},
    inner::Inner,
    pending::Read,
    served::To,
};
use bytes::{Buf, BytesMut};
use platform::net::BoxRead;
use std::{
    borrow::Cow,
    cell::RefCell,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak, atomic::Ordering},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 64 * 1024;
/// Reads in a row before others get their turn.
const READS_MAX: usize = 16;

thread_local! {
    /// One read buffer per thread, so that an idle connection holds none.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The task that reads and writes one connection.
pub(crate) struct Driver {
    connection: Arc<Connection>,
    service: Weak<Inner>,
    read: BoxRead,
    incoming: Incoming,
    /// The beginning of a frame whose rest has not arrived.
    carry: BytesMut,
    assemblies: Assemblies,
    limits: Limits,
    timer: Pin<Box<Sleep>>,
    timer_at: Option<Instant>,
    heard: Instant,
    /// Time of the ping that has not been answered; nothing has been received since.
    pinged: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    frame_max: usize,
    ping_after: Duration,
    /// Maximum time for the answer to a ping.
    answer_max: Duration,
}

impl Driver {
    pub(crate) fn new(connection: Arc<Connection>, service: &Arc<Inner>, read: BoxRead) -> Self {
        let options = &service.options;
        Self {
            connection,
            service: Arc::downgrade(service),
            read,
            incoming: Incoming::default(),
            carry: BytesMut::new(),
            assemblies: Assemblies::default(),
            limits: Limits {
                frame_max: options.frame_max,
                ping_after: options.ping_after,
                answer_max: options.silence_max.saturating_sub(options.ping_after),
            },
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            timer_at: None,
            heard: Instant::now(),
            pinged: None,
        }
    }

    /// Reads and dispatches what has come. Ready only when the connection is over.
    fn poll_reads(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        let mut buffer = READ_BUFFER.take();
        buffer.resize(READ_BYTES, 0);
        let mut result = Poll::Pending;
        let mut reads = 0;
        loop {
            if self.assemblies.is_full() {
                // The peer is not silent; it is not listened to.
                (self.heard, self.pinged) = (Instant::now(), None);
                break;
            }
            if reads == READS_MAX {
                cx.waker().wake_by_ref();
                break;
            }
            reads += 1;
            let mut into = ReadBuf::new(&mut buffer);
            match Pin::new(&mut self.read).poll_read(cx, &mut into) {
                Poll::Pending => break,
                Poll::Ready(Err(error)) => {
                    result = Poll::Ready(error.to_string());
                    break;
                }
                Poll::Ready(Ok(())) if into.filled().is_empty() => {
                    result = Poll::Ready("the peer closed it".to_owned());
                    break;
                }
                Poll::Ready(Ok(())) => {
                    self.heard = Instant::now();
                    self.pinged = None;
                    if let Err(why) = self.feed(into.filled()) {
                        result = Poll::Ready(why);
                        break;
                    }
                }
            }
        }
        READ_BUFFER.set(buffer);
        result
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(service) = self.service.upgrade() else {
            return Err("the service was dropped".to_owned());
        };
        if self.carry.is_empty() {
            let rest = self.frames(&service, bytes)?;
            self.carry.extend_from_slice(rest);
            return Ok(());
        }
        self.carry.extend_from_slice(bytes);
        let mut carry = std::mem::take(&mut self.carry);
        let rest = self.frames(&service, &carry)?.len();
        carry.advance(carry.len() - rest);
        if !carry.is_empty() || !self.assemblies.is_empty() {
            self.carry = carry;
        }
        Ok(())
    }

    /// Handles all whole frames, and returns the bytes that are left.
    fn frames<'a>(&mut self, service: &Arc<Inner>, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        let (mut rest, mut answers) = (bytes, Vec::new());
        self.incoming.begin(bytes.len());
        let fed = loop {
            match frame::decode(rest, self.limits.frame_max) {
                Ok(Decoded::Frame(frame, used)) => {
                    if let Err(why) = self.handle(service, &frame, &mut answers) {
                        break Err(why);
                    }
                    rest = rest.get(used..).unwrap_or_default();
                }
                Ok(Decoded::Incomplete(_)) => break Ok(rest),
                Err(error) => break Err(error.to_string()),
            }
        };
        // Frames before a malformed one are valid and are handled.
        let Self { incoming, connection, .. } = self;
        if !answers.is_empty() {
            connection.pending.answer_all(&answers);
        }
        incoming.deliver(&Origin { service, connection });
        fed
    }

    fn handle<'a>(
        &mut self,
        service: &Arc<Inner>,
        frame: &Frame<'a>,
        answers: &mut Vec<Read<'a>>,
    ) -> Result<(), String> {
        match frame.kind {
            Kind::Ask => match &frame.ask {
                Some(_) if frame.more => return self.begin(service, frame),
                Some(ask) => self.call(service, frame.id, ask, frame.body),
                None => return Err("an ask without its header".to_owned()),
            },
            Kind::Reply | Kind::Refused | Kind::Fault if frame.more => {
                return self.begin(service, frame);
            }
            Kind::Reply | Kind::Refused | Kind::Fault => {
                answers.push((frame.id, frame.kind, frame.body));
            }
            Kind::Chunk => {
                let whole = self.assemblies.part(&self.connection, frame, self.heard)?;
                if let Some((ask, body)) = whole {
                    self.place(service, ask.to(frame.id), &ask.endpoint, body.into());
                }
            }
            Kind::Ping => self.connection.control(Kind::Pong),
            Kind::Pong => {}
            Kind::Goodbye => {
                self.connection.left.store(true, Ordering::Release);
                service.peer_left(&self.connection);
            }
        }
        Ok(())
    }

    fn begin(&mut self, service: &Arc<Inner>, frame: &Frame<'_>) -> Result<(), String> {
        let from = Origin { service, connection: &self.connection };
        self.assemblies.begin(&from, frame, self.heard)
    }

    fn call(&mut self, service: &Arc<Inner>, id: u64, ask: &AskHeader<'_>, body: &[u8]) {
        let context = context(ask, self.heard);
        let to = To { id, call: ask.call, fence: ask.fence, context, came: self.heard };
        self.place(service, to, ask.endpoint, body.into());
    }

    /// Handles a whole call.
    fn place(&mut self, service: &Arc<Inner>, to: To, endpoint: &str, body: Cow<'_, [u8]>) {
        let from = Origin { service, connection: &self.connection };
        self.incoming.call(&from, to, endpoint, body);
    }

    /// Ends calls that are over, asks a silent peer, gives up a dead one, and sets the timer.
    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        loop {
            let now = Instant::now();
            let look = match self.pinged {
                None => self.heard + self.limits.ping_after,
                Some(pinged) => pinged + self.limits.answer_max,
            };
            if look <= now {
                if self.pinged.is_some() {
                    let silence = now.saturating_duration_since(self.heard);
                    return Poll::Ready(format!("nothing was heard for {silence:?}"));
                }
                // A process that was itself stopped asks first, before it gives anybody up.
                self.pinged = Some(now);
                self.connection.control(Kind::Ping);
                continue;
            }
            let due = self.connection.expire(now).map_or(look, |d| d.min(look));
            let late = self.assemblies.expire(&self.connection, now);
            let due = late.map_or(due, |late| late.min(due));
            // A timer that fires early looks and goes on; one that fires late would miss a deadline.
            if self.timer_at.is_none_or(|at| due < at || at <= now) {
                self.timer.as_mut().reset(due);
                self.timer_at = Some(due);
            }
            ready!(self.timer.as_mut().poll(cx));
            self.timer_at = None;
        }
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        self.connection.waker.register(cx.waker());
        let notified = self.connection.notified.swap(false, Ordering::AcqRel);
        if self.connection.is_over() {
            return Poll::Ready(String::new());
        }
        if let Poll::Ready(why) = self.poll_reads(cx) {
            return Poll::Ready(why);
        }
        if let Poll::Ready(why) = self.poll_time(cx) {
            return Poll::Ready(why);
        }
        let finishing = self.connection.finishing.load(Ordering::Acquire);
        if !notified && !finishing && self.connection.is_flushing() {
            return Poll::Pending;
        }
        match self.connection.outbound.poll_flush(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(error.to_string()),
            Poll::Ready(Ok(())) if finishing => {
                if self.connection.outbound.is_empty() {
                    let _ = ready!(self.connection.outbound.poll_shutdown(cx));
                    return Poll::Ready("this process is shutting down".to_owned());
                }
                cx.waker().wake_by_ref();
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        Poll::Pending
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let why = ready!(this.poll_all(cx));
        this.connection.close(&why);
        if let Some(service) = this.service.upgrade() {
            service.connection_ended(&this.connection);
        }
        Poll::Ready(())
    }
}

impl Drop for Driver {
    /// The lane ended, or the simulated host crashed.
    fn drop(&mut self) {
        self.connection.close("its task has ended");
    }
}
