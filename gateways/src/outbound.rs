//! The queue of what waits to be written to one connection, and the writing of it. Small frames are
//! coalesced and go before parts of long bodies, so that a beat never waits behind a deployment.
//! This module must never block.

use crate::frame::{self, Frame, Kind};
use platform::net::BoxWrite;
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
    task::{Context, Poll, Waker},
};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

/// Bodies longer than this go in parts of this size.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;
/// A buffer that has grown beyond this is given back when it is empty.
const KEEP_BYTES: usize = 64 * 1024;

/// The outgoing side of a connection.
pub(crate) struct Outbound {
    queue: Mutex<Queue>,
    write: Mutex<WriteSide>,
    small_max: usize,
    /// Bytes of long bodies with which one more may be queued, of any length.
    long_max: usize,
    /// Notified when a long body has been written.
    written: Notify,
}

#[derive(Default)]
struct Queue {
    /// Whole small frames that are written together.
    small: Vec<u8>,
    /// Long bodies, each getting a turn.
    long: VecDeque<Long>,
    /// Sum of their lengths.
    long_bytes: usize,
}

struct Long {
    id: u64,
    of_answer: bool,
    body: Vec<u8>,
    sent: usize,
}

struct WriteSide {
    io: BoxWrite,
    buffer: Vec<u8>,
    written: usize,
    /// True if the socket was full: then only the connection's own task may write, because the
    /// socket wakes only that.
    blocked: bool,
    /// Something was written that has not been flushed.
    dirty: bool,
}

/// A queue is over its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// The behaviour of a message if the queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A call, which is refused when the queue is full.
    Refusable,
    /// An answer, which is only lost with the connection.
    Answer,
}

impl Outbound {
    pub(crate) fn new(io: BoxWrite, small_max: usize, long_max: usize) -> Self {
        Self {
            queue: Mutex::default(),
            write: Mutex::new(WriteSide {
                io,
                buffer: Vec::new(),
                written: 0,
                blocked: false,
                dirty: false,
            }),
            small_max,
            long_max,
            written: Notify::new(),
        }
    }

    /// Waits until one more long body may be queued: at once unless many wait.
    pub(crate) async fn until_long_fits(&self) {
        loop {
            let mut written = std::pin::pin!(self.written.notified());
            written.as_mut().enable();
            if self.queue().long_bytes <= self.long_max {
                return;
            }
            written.await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues one frame with this body, which is taken if it is longer than [`CHUNK_BYTES`] and then goes
    /// in parts.
    ///
    /// Answers have four times the room that calls have; a peer that lets even that fill up does not
    /// read, and its connection should be given up. The answer is how many bytes of small frames wait. Long calls are
    /// never refused for their number: their callers wait for [`Outbound::until_long_fits`] before.
    pub(crate) fn push(
        &self,
        frame: &Frame<'_>,
        body: &mut Vec<u8>,
        bound: Bound,
    ) -> Result<usize, Full> {
        let mut queue = self.queue();
        let factor = match bound {
            Bound::Refusable => 1,
            Bound::Answer => 4,
        };
        if queue.small.len() > self.small_max.saturating_mul(factor) {
            return Err(Full);
        }
        if body.len() <= CHUNK_BYTES {
            let whole = Frame { body, ..*frame };
            frame::encode(&whole, &mut queue.small);
            return Ok(queue.small.len());
        }
        if bound == Bound::Answer && queue.long_bytes > self.long_max.saturating_mul(factor) {
            return Err(Full);
        }
        let first = Frame {
            total: Some(u64::try_from(body.len()).unwrap_or(u64::MAX)),
            more: true,
            ..*frame
        };
        frame::encode(&first, &mut queue.small);
        queue.long_bytes = queue.long_bytes.saturating_add(body.len());
        queue.long.push_back(Long {
            id: frame.id,
            of_answer: frame.kind != Kind::Ask,
            body: std::mem::take(body),
            sent: 0,
        });
        Ok(queue.small.len())
    }

    /// Returns true if nothing waits. The socket may still hold bytes of its own.
    pub(crate) fn is_empty(&self) -> bool {
        let write = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = self.queue();
        write.written == write.buffer.len() && queue.small.is_empty() && queue.long.is_empty()
    }

    /// Returns true if only the connection's own task may go on writing.
    pub(crate) fn is_blocked(&self) -> bool {
        match self.write.try_lock() {
            Ok(write) => write.blocked,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().blocked,
            // Somebody else writes at this moment.
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Writes what waits. Only the connection's own task may call this: its waker is kept.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut write = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        self.poll_write(&mut write, cx)
    }

    /// Writes what waits on the calling thread, if the socket takes it at once; else says that the
    /// connection's own task has to.
    #[must_use]
    pub(crate) fn try_flush(&self) -> bool {
        let mut write = match self.write.try_lock() {
            Ok(write) => write,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if write.blocked {
            return false;
        }
        let mut cx = Context::from_waker(Waker::noop());
        matches!(self.poll_write(&mut write, &mut cx), Poll::Ready(Ok(())))
    }

    fn poll_write(&self, write: &mut WriteSide, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        write.blocked = true;
        while write.written < write.buffer.len() || self.refill(write) {
            let waiting = write.buffer.get(write.written..).unwrap_or_default();
            match Pin::new(&mut write.io).poll_write(cx, waiting) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(bytes)) => {
                    write.written += bytes;
                    write.dirty = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if write.dirty {
            match Pin::new(&mut write.io).poll_flush(cx) {
                Poll::Ready(Ok(())) => write.dirty = false,
                other => return other,
            }
        }
        write.blocked = false;
        Poll::Ready(Ok(()))
    }

    /// Takes the next bytes into the empty buffer; whether there are any.
    fn refill(&self, write: &mut WriteSide) -> bool {
        write.written = 0;
        write.buffer.clear();
        if write.buffer.capacity() > KEEP_BYTES {
            write.buffer = Vec::new();
        }
        let mut queue = self.queue();
        if !queue.small.is_empty() {
            std::mem::swap(&mut write.buffer, &mut queue.small);
            return true;
        }
        let Some(mut long) = queue.long.pop_front() else {
            return false;
        };
        let rest = long.body.get(long.sent..).unwrap_or_default();
        let part = rest.get(..CHUNK_BYTES).unwrap_or(rest);
        long.sent += part.len();
        let more = part.len() < rest.len();
        let chunk =
            Frame { of_answer: long.of_answer, more, ..Frame::answer(Kind::Chunk, long.id, part) };
        frame::encode(&chunk, &mut write.buffer);
        if more {
            queue.long.push_back(long);
        } else {
            queue.long_bytes = queue.long_bytes.saturating_sub(long.body.len());
            self.written.notify_waiters();
        }
        true
    }

    /// Ends the stream's outgoing direction.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut write = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut write.io).poll_shutdown(cx)
    }

    /// Lets go of what waits and of the stream's outgoing half.
    pub(crate) fn close(&self) {
        *self.queue() = Queue::default();
        self.written.notify_waiters();
        let mut write = self.write.lock().unwrap_or_else(PoisonError::into_inner);
        write.io = Box::new(Gone);
        write.buffer = Vec::new();
        write.written = 0;
        write.blocked = true;
    }
}

/// The mark that the stream is gone.
struct Gone;

impl AsyncWrite for Gone {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
