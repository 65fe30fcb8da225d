//! The request on whose behalf this process is working. A REST request opens a trace, each gateway call carries it in its
//! envelope, and the log shows it. A trace must never decide anything: losing one changes nothing but the log.
//!
//! The current trace is a value of the thread. A handler enters the trace of its call for its turn, and a
//! [`Remote`](crate::Remote) that is used or cloned meanwhile makes its calls in that trace; a future that outlives the turn
//! is carried in it.

use platform::Platform;
use serde::{Deserialize, Serialize};
use std::{
    cell::Cell,
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::pin,
    rc::Rc,
    sync::{PoisonError, RwLock},
};

/// The user's request on whose behalf a call or a thread works, for the log: a trace and a span in it. Made where a request
/// begins (a command or the REST API), and carried by every call to its callee; nothing but log lines and spans depends on it. All zero if
/// there is none. Displays as the trace's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// Id of the trace, drawn at random where the request came in, or taken from its `traceparent` header; 0: no trace.
    pub trace: u128,
    /// Id of the span (a step within the trace) that the request came with, or was given at its entry; 0 if this is no
    /// trace.
    pub span: u64,
}

thread_local! {
    static CURRENT: Cell<TraceContext> = const { Cell::new(TraceContext::NONE) };
}

/// The trace of whatever has none of its own, in a process that works for one request: a program host, or a process that is told to end.
static OF_PROCESS: RwLock<TraceContext> = RwLock::new(TraceContext::NONE);

impl TraceContext {
    /// The value for no trace, all zero; also the default.
    pub const NONE: Self = Self { trace: 0, span: 0 };

    /// Returns a new trace with one span, both drawn at random from the platform.
    pub fn draw(platform: &Platform) -> Self {
        Self { trace: platform.random_u128(), span: platform.random_u64() }
    }

    /// Returns true if this is no trace.
    pub fn is_none(self) -> bool {
        self.trace == 0
    }

    /// Returns this trace, or the result of `other` if this is none; `other` is called only then.
    #[must_use]
    pub fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if self.is_none() { other() } else { self }
    }

    /// Reads the value of an HTTP header `traceparent` (W3C Trace Context, version 00); `None` if its version, trace id or span id is
    /// missing or malformed, it is of another version, or its trace id is zero. What follows the span id is ignored.
    pub fn from_traceparent(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if version != "00"
            || (trace.len(), span.len()) != (32, 16)
            || !is_hex(trace)
            || !is_hex(span)
        {
            return None;
        }
        let trace = u128::from_str_radix(trace, 16).ok()?;
        Some(Self { trace, span: u64::from_str_radix(span, 16).ok()? }).filter(|it| !it.is_none())
    }

    /// Returns the value of an HTTP header `traceparent` (version 00, sampled). That of no trace is all zeros, which readers ignore.
    pub fn traceparent(self) -> String {
        format!("00-{:032x}-{:016x}-01", self.trace, self.span)
    }

    /// Returns the trace in which this thread works: the one that was entered last, else that of the process, else none.
    pub fn current() -> Self {
        CURRENT.get().or_else(|| *OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes this the current trace of this thread until the returned guard is dropped. If this is no trace, the current
    /// one stays.
    pub fn enter(self) -> Entered {
        let before = CURRENT.get();
        CURRENT.set(self.or_else(|| before));
        Entered { before, of_thread: PhantomData }
    }

    /// Runs a future in this trace: while it is polled, this is the current trace of the polling thread. If this is no trace, the
    /// thread's own stays. Tasks that the future spawns are not in it.
    pub async fn carry<F: Future>(self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _entered = self.enter();
            future.as_mut().poll(cx)
        })
        .await
    }

    /// Makes this the trace of all work of the process that has none of its own, until the next call with a trace; no trace changes
    /// nothing. For child processes that run one job, and for processes that end on request.
    pub fn enter_process(self) {
        if !self.is_none() {
            *OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner) = self;
        }
    }

    /// Runs a future as [`TraceContext::carry`] does, in the trace that `trace` holds at each poll.
    pub async fn carry_latest<F: Future>(trace: Rc<Cell<Self>>, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            let _entered = trace.get().enter();
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// Shows the trace's id, 32 hexadecimal digits.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.trace)
    }
}

/// The guard that [`TraceContext::enter`] returns. When dropped, it makes the trace current again that was current
/// before; it stays on its thread. Guards must be dropped in the reverse order of their making.
#[derive(Debug)]
#[must_use = "the trace is left when this is dropped"]
pub struct Entered {
    before: TraceContext,
    /// A guard must be dropped on the thread that it was made on.
    of_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ONE: TraceContext = TraceContext { trace: 1, span: 10 };
    const TWO: TraceContext = TraceContext { trace: 2, span: 20 };

    #[test]
    fn the_inner_trace_is_current_until_its_guard_is_dropped() {
        assert_eq!(TraceContext::current(), TraceContext::NONE);
        let outer = ONE.enter();
        {
            let _inner = TWO.enter();
            assert_eq!(TraceContext::current(), TWO);
            let _none = TraceContext::NONE.enter();
            assert_eq!(TraceContext::current(), TWO);
        }
        assert_eq!(TraceContext::current(), ONE);
        drop(outer);
        assert_eq!(TraceContext::current(), TraceContext::NONE);
    }

    #[tokio::test(start_paused = true)]
    async fn futures_that_take_turns_keep_their_own_traces() {
        let check = |trace: TraceContext| {
            trace.carry(async move {
                for _ in 0..3 {
                    assert_eq!(TraceContext::current(), trace);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        };
        tokio::join!(check(ONE), check(TWO));
        assert_eq!(TraceContext::current(), TraceContext::NONE);
    }

    #[test]
    fn the_header_is_read_as_it_is_written_and_anything_else_is_none() {
        assert_eq!(ONE.traceparent(), "00-00000000000000000000000000000001-000000000000000a-01");
        assert_eq!(TraceContext::from_traceparent(&ONE.traceparent()), Some(ONE));
        let zero = "00-00000000000000000000000000000000-000000000000000a-01";
        let signed = "00-+0000000000000000000000000000001-000000000000000a-01";
        for wrong in [
            "",
            "00",
            "00-1-2-01",
            "ff-00000000000000000000000000000001-000000000000000a-01",
            zero,
            signed,
        ] {
            assert_eq!(TraceContext::from_traceparent(wrong), None, "{wrong}");
        }
    }
}
