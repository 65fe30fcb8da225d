//! The values that a connection takes and gives: its setup and bounds, requests and events. Bodies of calls may hold
//! passwords of tokens: `Debug` shows their lengths only.

use super::header::UserInformation;
use super::{CallError, ConnectionError};
use crate::sasl::{AuthMethod, Qop, SaslConfig};
use bytes::Bytes;
use std::fmt::{Debug, Formatter};
use std::time::Duration;

/// A moment, as the time since any fixed one.
pub type Time = Duration;

/// The longest time that anything waits, about a year. Times of callers and of configurations are cut to it where
/// they are added to others: no clock has room for every [`Duration`].
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Names a client across connections; with a call's number it names a request, so that a server can tell a
/// repeated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(pub [u8; 16]);

/// A protocol as Java names its interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol {
    /// Such as `org.apache.hadoop.yarn.api.ApplicationClientProtocolPB`.
    pub name: String,
    /// 1 for all of them so far.
    pub version: u64,
}

impl Protocol {
    /// Version 1 of a protocol.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: 1 }
    }
}

/// How a connection begins.
#[derive(Debug, Clone)]
pub enum AuthSetup {
    /// No authentication is offered or asked for.
    Simple,
    /// SASL. The entropy must be fresh for every connection.
    Sasl {
        /// The credentials that the client has and the methods that it accepts.
        config: Box<SaslConfig>,
        /// Random bytes from a secure source, used for one connection only.
        entropy: [u8; 16],
    },
}

/// Bounds of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame from the server (`ipc.maximum.response.length`).
    pub frame_in: usize,
    /// Bytes of a frame to the server (`ipc.maximum.data.length` there).
    pub frame_out: usize,
    /// Calls that wait for answers.
    pub calls: usize,
    /// Bytes that wait to be sent before the connection counts as full.
    pub unsent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_in: 128 << 20, frame_out: 128 << 20, calls: 1024, unsent: 4 << 20 }
    }
}

/// The purpose and the bounds of a connection.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The protocol of all calls on the connection.
    pub protocol: Protocol,
    /// The client's id.
    pub client: ClientId,
    /// In whose name (`effective`), and who really (`real`); left out for tokens, which say so themselves.
    pub user: UserInformation,
    /// How it begins.
    pub auth: AuthSetup,
    /// Bounds on frames and on calls that wait.
    pub limits: Limits,
    /// How long nothing may be heard before a ping is sent, while calls wait (`ipc.ping.interval`). A ping
    /// has no answer; it finds connections that are dead.
    pub ping: Option<Duration>,
    /// How long authentication may take.
    pub setup_timeout: Duration,
    /// How long it may have nothing to do before it closes (`ipc.client.connection.maxidletime`).
    pub idle: Option<Duration>,
    /// How often another stream is asked for after Kerberos has failed: see [`Event::Refused`].
    pub kerberos_retries: u32,
}

impl Setup {
    /// Without authentication, with Hadoop's defaults for the rest.
    #[must_use]
    pub fn simple(protocol: Protocol, client: ClientId, user: &str) -> Self {
        Self {
            protocol,
            client,
            user: UserInformation { effective: Some(user.to_owned()), real: None },
            auth: AuthSetup::Simple,
            limits: Limits::default(),
            ping: Some(Duration::from_secs(60)),
            setup_timeout: Duration::from_secs(60),
            idle: Some(Duration::from_secs(10)),
            kerberos_retries: 0,
        }
    }
}

/// A call to be made.
#[derive(Clone)]
pub struct Request {
    /// Its number, 0 or more; a repeated request keeps it.
    pub id: i32,
    /// How often it was sent before.
    pub retry: i32,
    /// Name of the remote method, such as `getApplicationReport`.
    pub method: String,
    /// The encoded request message.
    pub body: Bytes,
    /// When an answer is of no use any more, and how long the call had.
    pub deadline: Option<(Time, Duration)>,
}

impl Request {
    /// Makes a first try of call `id`, without a deadline. `body` is the encoded request message without its length.
    #[must_use]
    pub fn new(id: i32, method: impl Into<String>, body: Bytes) -> Self {
        Self { id, retry: 0, method: method.into(), body, deadline: None }
    }
}

impl Debug for Request {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("id", &self.id)
            .field("retry", &self.retry)
            .field("method", &self.method)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("deadline", &self.deadline)
            .finish()
    }
}

/// An event of a connection, in the order in which it happened.
pub enum Event {
    /// Both sides know each other.
    Ready {
        /// How the client was authenticated.
        method: AuthMethod,
        /// How the stream is protected.
        qop: Qop,
    },
    /// A call has ended.
    Reply {
        /// The number of the call's [`Request`].
        id: i32,
        /// The encoded response message, or why there is none.
        result: Result<Bytes, CallError>,
    },
    /// Kerberos has failed in a way that may pass: with newer tickets, or a little later where the server took
    /// two clients of one user for one that repeats itself. The stream is of no use any more; its calls wait for
    /// [`Connection::start`](super::Connection::start) on another. Those whose time is over before that end with this
    /// error.
    Refused(ConnectionError),
    /// The connection is of no use any more. Its calls have got their ends before this event.
    Closed(ConnectionError),
}

impl Debug for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready { method, qop } => {
                f.debug_struct("Ready").field("method", method).field("qop", qop).finish()
            }
            Self::Reply { id, result: Ok(body) } => {
                let body = format_args!("{} bytes", body.len());
                f.debug_struct("Reply").field("id", id).field("body", &body).finish()
            }
            Self::Reply { id, result: Err(error) } => {
                f.debug_struct("Reply").field("id", id).field("error", error).finish()
            }
            Self::Refused(error) => f.debug_tuple("Refused").field(error).finish(),
            Self::Closed(error) => f.debug_tuple("Closed").field(error).finish(),
        }
    }
}
