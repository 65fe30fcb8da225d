//! Reads the bodies of requests before a handler sees them: small bodies are read whole within a
//! limit, a deadline and a budget that all of them share; uploads pass through and must keep
//! moving.
//!
//! This module must never hold more bytes of all requests together than the budget, and never wait
//! for a client without a bound.

use crate::error::ApiError;
use actix_web::HttpMessage;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest};
use actix_web::error::PayloadError;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Bytes, BytesMut};
use futures::{FutureExt, Stream, StreamExt};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// The upload path of programs, the one path whose bodies may be large.
const UPLOAD_PATHS: [&str; 2] = ["/jars/upload", "/v1/jars/upload"];

/// The bounds on the size of bodies, and on the time they may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyLimits {
    /// Most bytes of one body other than an upload.
    pub each: usize,
    /// Most bytes of all bodies together that are in memory; at least [`BodyLimits::each`] is used.
    pub together: usize,
    /// Maximum time that a body other than an upload takes.
    pub within: Duration,
    /// Number of uploads that may run at the same time.
    pub uploads: usize,
    /// Interval at which an upload's progress is checked.
    pub upload_window: Duration,
    /// Fewest bytes of an upload that must arrive within each interval; with fewer it is cut off.
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
    budget: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
}

/// A request's share of the budget: to be kept until it is answered.
pub(crate) struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Bodies {
    pub(crate) fn new(limits: BodyLimits) -> Self {
        let together = limits.together.max(limits.each).min(Semaphore::MAX_PERMITS);
        let uploads = limits.uploads.min(Semaphore::MAX_PERMITS);
        Self {
            limits,
            budget: Arc::new(Semaphore::new(together)),
            uploads: Arc::new(Semaphore::new(uploads)),
        }
    }

    /// Reads a small body completely and puts it back into the request, or lets an upload through
    /// at its pace.
    pub(crate) async fn admit(
        &self,
        request: &mut ServiceRequest,
        incoming: &Rc<Incoming>,
    ) -> Result<Share, ApiError> {
        if request.method() == Method::POST && UPLOAD_PATHS.contains(&request.path()) {
            let permit = self.uploads.clone().try_acquire_owned().map_err(|_| {
                busy(format!("{} programs are being uploaded already", self.limits.uploads))
            })?;
            let paced = Paced::new(incoming.clone(), &self.limits);
            request.set_payload(Payload::Stream { payload: Box::pin(paced) });
            return Ok(Share { _permit: Some(permit) });
        }
        let announced = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let announced = announced.and_then(|v| v.trim().parse::<u64>().ok()).unwrap_or(0);
        if announced > self.limits.each as u64 {
            return Err(self.too_large());
        }
        let read = tokio::time::timeout(self.limits.within, self.read(incoming)).await;
        let (body, permit) = read.map_err(|_| {
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request body was not whole within {:?}", self.limits.within),
            )
        })??;
        if !body.is_empty() {
            request.set_payload(Payload::from(body));
        }
        Ok(Share { _permit: permit })
    }

    async fn read(
        &self,
        incoming: &Incoming,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), ApiError> {
        let mut whole = BytesMut::new();
        let mut share: Option<OwnedSemaphorePermit> = None;
        while let Some(chunk) = incoming.next().await {
            let chunk = chunk
                .map_err(|e| ApiError::bad_request(format!("the request body broke off: {e}")))?;
            if whole.len().saturating_add(chunk.len()) > self.limits.each {
                return Err(self.too_large());
            }
            let more = self.share_of(chunk.len())?;
            match &mut share {
                Some(share) => share.merge(more),
                none => *none = Some(more),
            }
            whole.extend_from_slice(&chunk);
        }
        Ok((whole.freeze(), share))
    }

    fn share_of(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let permits = u32::try_from(bytes).map_err(|_| self.too_large())?;
        self.budget.clone().try_acquire_many_owned(permits).map_err(|_| {
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

fn busy(why: String) -> ApiError {
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

/// An upload that ends with an error when too little of it came for too long.
struct Paced {
    incoming: Rc<Incoming>,
    window: Duration,
    enough: u64,
    came: u64,
    over: Pin<Box<Sleep>>,
}

impl Paced {
    fn new(incoming: Rc<Incoming>, limits: &BodyLimits) -> Self {
        let window = limits.upload_window;
        let over = Box::pin(tokio::time::sleep(window));
        Self { incoming, window, enough: limits.upload_bytes.max(1), came: 0, over }
    }
}

impl Stream for Paced {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.incoming.poll(cx) {
            Poll::Ready(Some(Ok(chunk))) => {
                self.came = self.came.saturating_add(chunk.len() as u64);
                if self.came >= self.enough {
                    self.came = 0;
                    self.over = Box::pin(tokio::time::sleep(self.window));
                }
                Poll::Ready(Some(Ok(chunk)))
            }
            Poll::Pending if self.over.as_mut().poll(cx).is_ready() => {
                self.incoming.too_slow.set(true);
                let why = format!("fewer than {} bytes came in {:?}", self.enough, self.window);
                let error = std::io::Error::new(std::io::ErrorKind::TimedOut, why);
                Poll::Ready(Some(Err(PayloadError::Io(error))))
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
