//! What a call is: the traits of gateways and messages, what a handler is given, and the macro that
//! declares a gateway. Nothing here moves bytes.

use model::{Fence, JobId, LeaderSession};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A group of calls that one kind of endpoint answers.
pub trait Gateway: Send + Sync + 'static {
    /// E.g. `dispatcher`; the first part of its calls' names.
    const NAME: &'static str;
    /// Names of its calls.
    const CALLS: &'static [&'static str];
    /// The leader session of its endpoints.
    type Fence: Fence;
}

/// A message with its reply and its error.
pub trait Call: Serialize + DeserializeOwned + fmt::Debug + Send + 'static {
    /// E.g. `dispatcher.SubmitJob`.
    const NAME: &'static str;
    /// What the wire carries instead of the name.
    const ID: u32 = call_id(Self::NAME);
    /// Who answers it.
    type Gateway: Gateway;
    /// The answer.
    type Reply: Serialize + DeserializeOwned + fmt::Debug + Send + 'static;
    /// The callee's typed refusal.
    type Error: Serialize + DeserializeOwned + std::error::Error + Send + 'static;
}

/// What a handler of a call returns when it answers at once.
pub type Answer<C> = Result<<C as Call>::Reply, <C as Call>::Error>;

/// FNV-1a over the name. That no two calls share an id is a test.
pub const fn call_id(name: &str) -> u32 {
    let mut rest = name.as_bytes();
    let mut hash = 0x811c_9dc5_u32;
    while let Some((byte, after)) = rest.split_first() {
        hash = (hash ^ *byte as u32).wrapping_mul(0x0100_0193);
        rest = after;
    }
    hash
}

/// What an actor handles.
#[derive(Debug)]
pub struct Ask<C: Call> {
    /// The message.
    pub body: C,
    /// Who asks, and how long it waits.
    pub caller: Caller,
}

impl<C: Call> actix::Message for Ask<C> {
    type Result = Result<C::Reply, C::Error>;
}

/// Who makes a call.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What the connection proved.
    pub principal: Principal,
    /// The caller's own leader session, where the callee answers to one.
    pub session: Option<LeaderSession>,
    /// When the caller stops waiting.
    pub deadline: Deadline,
    /// Where the call belongs in a trace.
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

/// What a caller sends along with each call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallContext {
    pub(crate) session: Option<LeaderSession>,
    pub(crate) deadline: Deadline,
    pub(crate) trace: TraceContext,
}

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

/// What a caller proved about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, derive_more::Display)]
pub enum Principal {
    /// In the same process.
    #[display("a component of this process")]
    Local,
    /// A process that knows the cluster secret.
    #[display("a process of the cluster")]
    Cluster,
    /// A program host of one job.
    #[display("a program host of job {job}")]
    Host {
        /// Which.
        job: JobId,
    },
}

/// A moment on this process's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// So much from now.
    pub fn after(within: Duration) -> Self {
        Self::after_moment(Instant::now(), within)
    }
    /// So much from a moment.
    pub(crate) fn after_moment(moment: Instant, within: Duration) -> Self {
        // A century is for ever, and can be added to any clock.
        const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
        Self { at: moment + within.min(FOR_EVER) }
    }
    /// What is left; zero when it has passed.
    pub fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
    /// The moment.
    pub fn at(self) -> Instant {
        self.at
    }
}

/// Where a call belongs in a trace; all zero: in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    /// The whole.
    pub trace: u128,
    /// The part that makes the call.
    pub span: u64,
}

/// An error that never happens.
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

/// Declares a gateway: its name, its fence and, line by line, each call with reply and error. The
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
            /// An endpoint whose calls are handled by one actor.
            pub fn endpoint<A>(actor: $crate::reexport::Addr<A>) -> $crate::Endpoint<$gateway>
            where
                A: $crate::reexport::Actor<Context = $crate::reexport::Context<A>>
                    $(+ $crate::reexport::Handler<$crate::Ask<$call>>)+,
            {
                $crate::EndpointBuilder::new(actor)$(.answers::<$call>())+.build()
            }

            /// Decodes the message of a call by the call's name; `None`: not one of these.
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

            /// A made-up message of a call by the call's name; `None`: not one of these.
            #[doc(hidden)]
            pub fn sample_by_name(
                name: &str,
                draw: $crate::sample::Draw<'_>,
            ) -> Option<Vec<u8>> {
                $(
                    if name == <$call as $crate::Call>::NAME {
                        return $crate::sample::message::<$call>(draw);
                    }
                )+
                None
            }
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
