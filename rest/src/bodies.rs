//! Reads the bodies of requests before a handler sees them: small bodies are read whole within a
//! limit, a deadline and a budget that all of them share; uploads pass through and must keep
//! moving.
//!
//! This module must never hold more bytes of all requests together than the budget, and never wait
//! for a client without a bound.

use crate::error::ApiError;
use crate::kinds::{self, Kinds, Place};
use actix_web::HttpMessage;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest};
use actix_web::error::PayloadError;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, BytesMut};
use futures::{FutureExt, Stream, StreamExt};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Sleep;

/// The upload path of programs, the one path whose bodies may be large.
const UPLOAD_PATHS: [&str; 2] = ["/jars/upload", "/v1/jars/upload"];

/// Part of the budget that is kept for small bodies: a quarter.
const RESERVE: usize = 4;
/// A body is small up to this part of the largest one: a sixteenth.
const SMALL: usize = 16;
/// An upload has got on when this part of what its window demands has come: a fifteenth.
const STEP: u64 = 15;

/// Limits on the bodies of requests: the size of one, and of all that are in memory together, the time for one, and the number and pace of
/// uploads. A body that is too large is refused with 413, one that comes too slowly with 408, one for which there is no room with 503.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum size in bytes of one body other than an upload (`rest.server.max-content-length`); 1 MiB by default. A
    /// longer one is refused with 413.
    pub each: usize,
    /// Maximum number of bytes in memory of all requests' bodies together, uploads apart; 32 MiB by default. If three quarters of it are
    /// less than [`BodyLimits::each`], the maximum is `each` and a quarter of this value. A quarter of it is for small bodies (up to a
    /// sixteenth of `each`) alone. A body that finds no room is refused with 503.
    pub together: usize,
    /// Maximum time from a request's head to the end of its body, uploads apart; then the request is refused with 408. 10 s by default. A
    /// body that has come with its head is not timed. Slow bodies take at most an eighth of the connections (those from one address of
    /// another machine a quarter of that): for a further one, the request among them that came first is refused with 503.
    pub within: Duration,
    /// Maximum number of uploads of programs at the same time, 64 by default (0 counts as 1); never more than a sixteenth of the endpoint's
    /// connections, and a quarter of that from one address of another machine. A further one takes the place of an upload that stood still
    /// for 2 s, which is cut off with 408; if there is none, the further one is refused with 503.
    pub uploads: usize,
    /// Interval within which [`BodyLimits::upload_bytes`] of an upload must arrive, else it is cut off; it begins anew each
    /// time they have arrived. 30 s by default.
    pub upload_window: Duration,
    /// Minimum number of bytes of an upload that must arrive within each `BodyLimits::upload_window`, 30 KiB by default (0 counts as 1);
    /// with fewer the upload is cut off and answered with 408.
    pub upload_bytes: u64,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            each: 1 << 20,
            together: 32 << 20,
            within: Duration::from_secs(10),
            uploads: 64,
            upload_window: Duration::from_secs(30),
            upload_bytes: 30 << 10,
        }
    }
}

/// The limits, and the part of them that is left.
#[derive(Debug, Clone)]
pub(crate) struct Bodies {
    limits: BodyLimits,
    kinds: Kinds,
    budget: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
}

/// A request's share of the budget: to be kept until it is answered.
#[derive(Default)]
pub(crate) struct Share(Vec<OwnedSemaphorePermit>);

impl Bodies {
    pub(crate) fn new(limits: BodyLimits, kinds: Kinds) -> Self {
        let reserve = (limits.together / RESERVE).min(Semaphore::MAX_PERMITS);
        let budget = (limits.together - reserve).max(limits.each).min(Semaphore::MAX_PERMITS);
        let semaphore = |bytes| Arc::new(Semaphore::new(bytes));
        Self { limits, kinds, budget: semaphore(budget), reserve: semaphore(reserve) }
    }

    /// Reads a small body completely and puts it back into the request, or lets an upload through
    /// at its pace.
    pub(crate) async fn admit(
        &self,
        request: &mut ServiceRequest,
        incoming: &Rc<Incoming>,
    ) -> Result<Share, ApiError> {
        let address = kinds::counted(request.peer_addr());
        if request.method() == Method::POST && UPLOAD_PATHS.contains(&request.path()) {
            let place = self.kinds.uploads.wait(address);
            let place = place.ok_or_else(|| busy("other programs are being uploaded already"))?;
            let paced = Paced::new(incoming.clone(), &self.limits, place);
            request.set_payload(Payload::Stream { payload: Box::pin(paced) });
            return Ok(Share::default());
        }
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let announced = announced.and_then(|v| v.trim().parse::<u64>().ok()).unwrap_or(0);
        if announced > self.limits.each as u64 {
            return Err(self.too_large());
        }
        let mut read = std::pin::pin!(self.read(incoming));
        let (body, share) = match read.as_mut().now_or_never() {
            Some(read) => read?,
            None => self.within_limits(address, read).await?,
        };
        if !body.is_empty() {
            request.set_payload(Payload::from(body));
        }
        Ok(share)
    }

    /// Waits for a body that was not there at once.
    async fn within_limits<T>(
        &self,
        address: Option<IpAddr>,
        read: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let place = self.kinds.bodies.wait(address);
        let (_place, gives_way) = place.ok_or_else(|| busy("other requests are being read"))?;
        tokio::select! {
            biased;
            read = tokio::time::timeout(self.limits.within, read) => read.map_err(|_| {
                let why = format!("the request body was not whole within {:?}", self.limits.within);
                ApiError::new(StatusCode::REQUEST_TIMEOUT, why)
            })?,
            _ = gives_way => Err(busy("the request body came slowly, and many others came")),
        }
    }

    async fn read(&self, incoming: &Incoming) -> Result<(Bytes, Share), ApiError> {
        let mut whole = BytesMut::new();
        let mut share = Share::default();
        while let Some(chunk) = incoming.next().await {
            let chunk = chunk
                .map_err(|e| ApiError::bad_request(format!("the request body broke off: {e}")))?;
            if whole.len().saturating_add(chunk.len()) > self.limits.each {
                return Err(self.too_large());
            }
            share.add(self.share_of(chunk.len(), whole.len())?);
            whole.extend_from_slice(&chunk);
        }
        Ok((whole.freeze(), share))
    }

    /// Returns the share for `bytes` more of a body of which `known` bytes have come. A small body may take it from the
    /// reserve.
    fn share_of(&self, bytes: usize, known: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let permits = u32::try_from(bytes).map_err(|_| self.too_large())?;
        let of_budget = self.budget.clone().try_acquire_many_owned(permits);
        let small = known.saturating_add(bytes) <= self.limits.each / SMALL;
        let share = match of_budget {
            Err(_) if small => self.reserve.clone().try_acquire_many_owned(permits),
            of_budget => of_budget,
        };
        share.map_err(|_| {
            busy(format!(
                "the bodies of other requests take all of the {} bytes that there are for them",
                self.limits.together.max(self.limits.each)
            ))
        })
    }

    fn too_large(&self) -> ApiError {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the request body is larger than {} bytes (rest.server.max-content-length)",
                self.limits.each
            ),
        )
    }
}

impl Share {
    /// Adds permits, merged where they are of the same semaphore: a body may come in many chunks.
    fn add(&mut self, more: OwnedSemaphorePermit) {
        let same =
            |held: &&mut OwnedSemaphorePermit| Arc::ptr_eq(held.semaphore(), more.semaphore());
        match self.0.iter_mut().find(same) {
            Some(held) => held.merge(more),
            None => self.0.push(more),
        }
    }
}

fn busy(why: impl std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, format!("{why}; ask again"))
}

/// A request's body as it arrives, shared by its reader and the guard that answers the request.
pub(crate) struct Incoming {
    payload: RefCell<Payload>,
    ended: Cell<bool>,
    too_slow: Cell<bool>,
}

impl Incoming {
    /// Takes the body of a request, which has none then.
    pub(crate) fn of(request: &mut ServiceRequest) -> Rc<Self> {
        Rc::new(Self {
            payload: RefCell::new(request.take_payload()),
            ended: Cell::new(false),
            too_slow: Cell::new(false),
        })
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, PayloadError>>> {
        if self.ended.get() {
            return Poll::Ready(None);
        }
        let polled = self.payload.borrow_mut().poll_next_unpin(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.ended.set(true);
        }
        polled
    }

    async fn next(&self) -> Option<Result<Bytes, PayloadError>> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// Returns true if all of it was read; what is left may still come, or never.
    pub(crate) fn is_read(&self) -> bool {
        // A reader that has found what it looks for does not read to the end.
        self.ended.get() || matches!(self.next().now_or_never(), Some(None))
    }

    /// Returns true if it was cut off because it came too slowly.
    pub(crate) fn was_too_slow(&self) -> bool {
        self.too_slow.get()
    }
}

/// An upload that ends with an error when too little of it came for too long, or when it stands still and others wait.
struct Paced {
    incoming: Rc<Incoming>,
    window: Duration,
    enough: u64,
    came: u64,
    over: Pin<Box<Sleep>>,
    place: Place,
    gives_way: oneshot::Receiver<()>,
    /// Bytes that came since the last step.
    stepped: u64,
}

impl Paced {
    fn new(
        incoming: Rc<Incoming>,
        limits: &BodyLimits,
        (place, gives_way): (Place, oneshot::Receiver<()>),
    ) -> Self {
        let window = limits.upload_window;
        let over = Box::pin(tokio::time::sleep(window));
        let enough = limits.upload_bytes.max(1);
        Self { incoming, window, enough, came: 0, over, place, gives_way, stepped: 0 }
    }

    fn took(&mut self, bytes: u64) {
        self.came = self.came.saturating_add(bytes);
        self.stepped = self.stepped.saturating_add(bytes);
        if self.came >= self.enough {
            self.came = 0;
            self.over = Box::pin(tokio::time::sleep(self.window));
        }
        if self.stepped >= self.enough / STEP {
            self.stepped = 0;
            self.place.progressed();
        }
    }

    fn cut(&self, why: String) -> PayloadError {
        self.incoming.too_slow.set(true);
        PayloadError::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, why))
    }
}

impl Stream for Paced {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.incoming.poll(cx) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.took(chunk.len() as u64);
                Poll::Ready(Some(Ok(chunk)))
            }
            Poll::Pending if self.over.as_mut().poll(cx).is_ready() => {
                let why = format!("fewer than {} bytes came in {:?}", self.enough, self.window);
                Poll::Ready(Some(Err(self.cut(why))))
            }
            Poll::Pending if self.gives_way.poll_unpin(cx).is_ready() => {
                let why = "it stood still, and others wait".to_owned();
                Poll::Ready(Some(Err(self.cut(why))))
            }
            other => other,
        }
    }
}

/// An answer to a request whose body was not read: as long as the body is held, the server knows that the
/// connection can't be used again and closes it behind the answer.
pub(crate) struct Unread {
    answer: BoxBody,
    _incoming: Rc<Incoming>,
}

impl Unread {
    pub(crate) fn boxed(answer: BoxBody, incoming: Rc<Incoming>) -> BoxBody {
        BoxBody::new(Self { answer, _incoming: incoming })
    }
}

impl MessageBody for Unread {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.answer.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.answer).poll_next(cx)
    }
}
