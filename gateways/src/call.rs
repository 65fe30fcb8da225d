//! Types of calls: the traits of gateways and messages, the context that a handler gets, and the
//! macro that declares a gateway. Nothing here moves bytes.

use crate::{outbound::CHUNK_BYTES, trace::TraceContext};
use model::{Fence, JobId, LeaderSession};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A group of calls that one kind of endpoint answers, such as all calls to a Dispatcher. Implemented by
/// [`gateway!`](crate::gateway) for a marker type `G`: a [`Remote<G>`](crate::Remote) makes the calls, an
/// [`Endpoint<G>`](crate::Endpoint) answers them.
pub trait Gateway: Send + Sync + 'static {
    /// Name of the gateway, such as `dispatcher`: the first part of its calls' names.
    const NAME: &'static str;
    /// Names of the gateway's calls, `<gateway>.<message>`, in the order of their declaration.
    const CALLS: &'static [&'static str];
    /// Type of the leader session of its endpoints. Each call names the session that it is meant for, and an endpoint
    /// in another session refuses it.
    type Fence: Fence;
}

/// A message that is sent to an endpoint, with the types of its reply and of the error with which it may be refused.
/// Implemented by [`gateway!`](crate::gateway) for each message that it lists.
pub trait Call: Serialize + DeserializeOwned + fmt::Debug + Send + 'static {
    /// Name for logs and errors, `<gateway>.<message>`, such as `dispatcher.SubmitJob`.
    const NAME: &'static str;
    /// Number that the wire carries instead of the name: its [`call_id`].
    const ID: u32 = call_id(Self::NAME);
    /// Gateway that the message belongs to.
    type Gateway: Gateway;
    /// Answer to a call that succeeded.
    type Reply: Serialize + DeserializeOwned + fmt::Debug + Send + 'static;
    /// Error with which the callee's handler refuses the call. Failures of the fabric are
    /// [`FabricError`](crate::FabricError)s and not part of it.
    type Error: Serialize + DeserializeOwned + std::error::Error + Send + 'static;
}

/// The result with which a handler answers call `C`: the reply, or the typed error with which it refuses.
pub type Answer<C> = Result<<C as Call>::Reply, <C as Call>::Error>;

/// Returns the 32-bit FNV-1a hash of a call's name, by which frames name the call. A test checks that no two calls
/// share an id.
pub const fn call_id(name: &str) -> u32 {
    let mut rest = name.as_bytes();
    let mut hash = 0x811c_9dc5_u32;
    while let Some((byte, after)) = rest.split_first() {
        hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
        rest = after;
    }
    hash
}

/// A call with its caller, as an actor's mailbox receives it: the Actix message that the actor's handler for `C` gets.
#[derive(Debug)]
pub struct Ask<C: Call> {
    /// The call's message, as the caller gave it to its gateway.
    pub body: C,
    /// The caller's identity, session, deadline and trace.
    pub caller: Caller,
}

impl<C: Call> actix::Message for Ask<C> {
    type Result = Result<C::Reply, C::Error>;
}

/// The sender of a call, as the handler sees it: its identity, its leader session, its deadline and its trace. The call counts as waiting
/// in the mailbox until the handler drops this value, or a later call of the endpoint has had its turn; while the value is kept, the call
/// counts as under way. Dropping a clone has no effect.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Identity that the caller's connection proved; [`Principal::Local`] within the process.
    pub principal: Principal,
    /// The caller's own leader session, set by `Remote::with_session`; `None` if it set none. The fabric does not check
    /// it: the handler does.
    pub session: Option<LeaderSession>,
    /// Time at which the caller stops waiting for the answer, on this process's monotonic clock. The handler is not ended then: it
    /// bounds its own calls by it.
    pub deadline: Deadline,
    /// The trace (the user's request) that the call is part of. The fabric does not enter it: a handler whose log lines
    /// and own calls belong to it enters it ([`TraceContext::enter`]).
    pub trace: TraceContext,
    #[expect(dead_code, reason = "it tells by being dropped")]
    observed: Observed,
}

impl Caller {
    pub(crate) fn observed(
        principal: Principal,
        context: CallContext,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            principal,
            session: context.session,
            deadline: context.deadline,
            trace: context.trace,
            observed: Observed(Some(observer)),
        }
    }
}

/// The context that a caller sends along with each call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallContext {
    pub(crate) session: Option<LeaderSession>,
    pub(crate) deadline: Deadline,
    pub(crate) trace: TraceContext,
}

impl CallContext {
    /// Returns the context of a call whose request has that many bytes: its deadline is later by the time that a long request
    /// takes to arrive.
    pub(crate) fn with_time_for(self, request: usize) -> Self {
        if request <= CHUNK_BYTES {
            return self;
        }
        let bytes = u64::try_from(request).unwrap_or(u64::MAX);
        let more = Duration::from_millis(bytes.saturating_mul(1_000) / TRANSFER_BYTES);
        Self { deadline: Deadline::after_moment(self.deadline.at(), more), ..self }
    }
}

/// Bytes of a long request for which its call gets a second more: a network of 134 Mbit/s is quick enough.
const TRANSFER_BYTES: u64 = 16 << 20;

/// Learns that a handler has been given its call: Actix has no such hook, but a handler lets go of the
/// caller at the end of its turn at the latest, or else keeps it until it has answered.
pub(crate) trait Observer: Send + Sync {
    fn released(&self, panicking: bool);
}

#[derive(derive_more::Debug)]
#[debug("_")]
struct Observed(Option<Arc<dyn Observer>>);

impl Clone for Observed {
    /// A copy that a handler keeps says nothing about its turn.
    fn clone(&self) -> Self {
        Self(None)
    }
}
impl Drop for Observed {
    fn drop(&mut self) {
        if let Some(observer) = self.0.take() {
            observer.released(std::thread::panicking());
        }
    }
}

/// The identity that a caller proved, one of three. [`Local`](Self::Local) and [`Cluster`](Self::Cluster), as clients with the cluster
/// secret are too, may call every endpoint; [`Host`](Self::Host) only those that are served for its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, derive_more::Display)]
pub enum Principal {
    /// A caller in the same process; it may make every call.
    #[display("a component of this process")]
    Local,
    /// A process that knows the cluster secret; it may make every call.
    #[display("a process of the cluster")]
    Cluster,
    /// A program host (process that runs one job's program); it may call only endpoints that are served for that job
    /// ([`RpcService::serve_for_job`](crate::RpcService::serve_for_job)).
    #[display("a program host of job {job}")]
    Host {
        /// Job that the host belongs to.
        job: JobId,
    },
}

/// The moment at which a caller stops waiting for an answer, on this process's monotonic clock. Frames carry the remaining time
/// instead, so a callee's deadline is later by the time that the request was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// Returns the deadline `within` from now; more than a century (36,500 days) counts as one.
    pub fn after(within: Duration) -> Self {
        Self::after_moment(Instant::now(), within)
    }
    /// The deadline `within` from the given moment.
    pub(crate) fn after_moment(moment: Instant, within: Duration) -> Self {
        // A century is for ever, and can be added to any clock.
        const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
        Self { at: moment + within.min(FOR_EVER) }
    }
    /// Returns the time until the deadline; zero when it has passed.
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
    /// Returns the deadline as a moment of the monotonic clock of this process.
    pub fn at(self) -> Instant {
        self.at
    }
}

/// The error type of calls that no handler refuses. It has no value: such a call can only fail with a
/// [`FabricError`](crate::FabricError).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
impl std::error::Error for Never {}
impl Serialize for Never {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}
impl<'de> Deserialize<'de> for Never {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("this call has no errors"))
    }
}

/// Declares a gateway: its name, its fence and, line by line, each call with its reply and error. Implements
/// [`Gateway`] and [`Call`], and a function `endpoint` that makes an [`Endpoint`](crate::Endpoint) of an actor. The
/// messages are ordinary serde types declared beside it.
#[macro_export]
macro_rules! gateway {
    (
        $(#[$doc:meta])*
        $vis:vis struct $gateway:ident = $name:literal, fenced by $fence:ty;
        $($call:ident => $reply:ty, $error:ty;)+
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $gateway;

        impl $crate::Gateway for $gateway {
            const NAME: &'static str = $name;
            const CALLS: &'static [&'static str] =
                &[$(concat!($name, ".", stringify!($call))),+];
            type Fence = $fence;
        }

        impl $gateway {
            /// Makes the endpoint through which `actor` answers all calls of this gateway. Serves nothing yet:
            /// `RpcService::serve` does.
            pub fn endpoint<A>(actor: $crate::reexport::Addr<A>) -> $crate::Endpoint<$gateway>
            where
                A: $crate::reexport::Actor<Context = $crate::reexport::Context<A>>
                    $(+ $crate::reexport::Handler<$crate::Ask<$call>>)+,
            {
                $crate::EndpointBuilder::new(actor)$(.answers::<$call>())+.build()
            }

            /// Decodes bytes as the message of the call of this name (and tries its reply and error), for tests that
            /// feed bytes to all decoders. `None`: the gateway has no call of this name; `Some(Err)`: the bytes are not
            /// the message. Panics if decoding from memory and from a reader disagree.
            #[doc(hidden)]
            pub fn decode_by_name(
                name: &str,
                bytes: &[u8],
            ) -> Option<Result<(), $crate::FabricError>> {
                $(
                    if name == <$call as $crate::Call>::NAME {
                        return Some($crate::messages::decode_all::<$call>(bytes));
                    }
                )+
                None
            }

            $crate::made_up_messages! { $($call),+ }
        }

        $(
            impl $crate::Call for $call {
                const NAME: &'static str = concat!($name, ".", stringify!($call));
                type Gateway = $gateway;
                type Reply = $reply;
                type Error = $error;
            }
        )+
    };
}

/// Adds the function of a gateway that makes up messages.
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
#[macro_export]
macro_rules! made_up_messages {
    ($($call:ident),+) => {
        /// Makes up a message of a call, by the call's name, from the random numbers of `draw`, and encodes it; for tests. `None` if the
        /// gateway has no such call, or no made-up value is a valid message.
        #[doc(hidden)]
        pub fn sample_by_name(name: &str, draw: $crate::sample::Draw<'_>) -> Option<Vec<u8>> {
            $(
                if name == <$call as $crate::Call>::NAME {
                    return $crate::sample::message::<$call>(draw);
                }
            )+
            None
        }
    };
}

/// Adds nothing: only tests make up messages.
#[cfg(not(any(test, feature = "testing")))]
#[doc(hidden)]
#[macro_export]
macro_rules! made_up_messages {
    ($($call:ident),+) => {};
}
