//! The values that a connection takes and gives: its setup and bounds, requests and events. Bodies of calls may hold
//! passwords of tokens: `Debug` shows their lengths only.

use super::header::UserInformation;
use super::{CallError, ConnectionError};
use crate::sasl::{AuthMethod, Qop, SaslConfig};
use bytes::Bytes;
use std::fmt::{Debug, Formatter};
use std::time::Duration;

/// A moment on the caller's monotonic clock, as the time since a fixed moment that the caller chooses; all times of
/// one connection must count from the same one.
pub type Time = Duration;

/// The longest time that anything waits, about a year. Times of callers and of configurations are cut to it where
/// they are added to others: no clock has room for every [`Duration`].
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The id of a client, 16 random bytes, the same on all its connections. Together with a call's number it names a request, so that a server
/// can recognise a repeated one. A [`Client`](crate::client::Client) draws it at random when it is made; it is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId(pub [u8; 16]);

/// A protocol of Hadoop RPC: the name of a Java interface and a version. The server refuses calls of one that it does
/// not have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol {
    /// Name of the protocol's Java interface, such as `org.apache.hadoop.yarn.api.ApplicationClientProtocolPB`.
    pub name: String,
    /// Version of the protocol; 1 for all of them so far.
    pub version: u64,
}

impl Protocol {
    /// Makes a protocol of this name (its Java interface, package included) with version 1.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), version: 1 }
    }
}

/// The way in which a new connection authenticates, part of its [`Setup`]. With `Simple` nothing is exchanged, and calls go out at once;
/// with `Sasl` they wait until the exchange has succeeded.
#[derive(Debug, Clone)]
pub enum AuthSetup {
    /// No authentication is offered, and none is asked for: the server believes the user's name.
    Simple,
    /// By SASL, with a token or Kerberos tickets.
    Sasl {
        /// The credentials that the client has and the methods that it accepts.
        config: Box<SaslConfig>,
        /// Random bytes from a secure source, used for one connection only.
        entropy: [u8; 16],
    },
}

/// Bounds of one connection on the length of frames, the calls that wait, and the bytes that wait to be sent; the defaults
/// are Hadoop's where it has any. A frame that is too long ends the connection, or is not sent; with too many calls or
/// bytes further calls are refused, or wait in line where a [`Client`](crate::client::Client) makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a frame from the server (`ipc.maximum.response.length`); a longer one ends the connection, and all
    /// its calls, with [`ConnectionError::Protocol`]. 128 MiB by default; until authentication has succeeded 256 KiB.
    pub frame_in: usize,
    /// Maximum bytes of a frame to the server (whose own bound is `ipc.maximum.data.length`); a longer request, with 4,096
    /// bytes counted for its headers, is refused with [`CallError::TooLong`]. 128 MiB by default.
    pub frame_out: usize,
    /// Maximum number of calls that have no result yet; 1,024 by default. A further one is refused with
    /// [`CallError::Overloaded`]; a [`Client`](crate::client::Client) lets it wait in line instead, until its deadline.
    pub calls: usize,
    /// Number of bytes waiting to be sent, or for authentication, from which further calls are refused or wait in line as
    /// those above `calls` do; 4 MiB by default. The call that crosses the bound is still taken.
    pub unsent: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_in: 128 << 20, frame_out: 128 << 20, calls: 1024, unsent: 4 << 20 }
    }
}

/// The setup of a client's connection to one server: protocol, user, authentication, bounds and times. It names no server: the caller
/// connects. Given to [`Connection::new`](super::Connection::new); a [`Client`](crate::client::Client) makes one for each connection.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The protocol that all calls on the connection belong to.
    pub protocol: Protocol,
    /// The client's id, the same on all connections of a client.
    pub client: ClientId,
    /// The user in whose name calls are made (`effective`), and the one that really makes them (`real`). With a token
    /// neither is sent, because the token names both; with Kerberos `real` is not.
    pub user: UserInformation,
    /// The way in which the connection authenticates.
    pub auth: AuthSetup,
    /// Bounds on the connection's frames, waiting calls and unsent bytes; [`Limits`] says what happens at each.
    pub limits: Limits,
    /// Time without a byte from the server after which a ping is sent while calls wait (`ipc.ping.interval`), and again
    /// after each further one; `None`: no pings. A ping has no answer; sending it makes the system notice a dead connection.
    pub ping: Option<Duration>,
    /// Maximum time of authentication on one stream; after it the connection ends, and its calls fail, with
    /// [`ConnectionError::SetupTimeout`].
    pub setup_timeout: Duration,
    /// Time since the stream began or the last call ended, without a call that waits, after which the connection closes
    /// with [`ConnectionError::Idle`] (`ipc.client.connection.maxidletime`); `None`: never.
    pub idle: Option<Duration>,
    /// Maximum number of times that the connection asks for another stream ([`Event::Refused`]) after Kerberos has failed on one; then it
    /// closes with the error. 0: never, the first failure closes it.
    pub kerberos_retries: u32,
}

impl Setup {
    /// Makes a setup without authentication, with Hadoop's defaults for the rest: a ping after 60 s of silence, 60 s for the setup (which
    /// takes no time without authentication), closed after 10 s without calls, the default [`Limits`], no retries of Kerberos. `user` is
    /// believed by the server.
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

/// A call that a client is to make on a connection: method, encoded request, number and deadline. Given to
/// [`Connection::call`](super::Connection::call) or [`Client::attempt`](crate::client::Client::attempt), which replaces the deadline; the
/// protocol is that of the connection.
#[derive(Clone)]
pub struct Request {
    /// The call's number, 0 or more, by which its answer is found; a repetition of the call keeps it.
    pub id: i32,
    /// Number of times that the request was tried before, which its header tells the server; 0 for the first try.
    pub retry: i32,
    /// Name of the remote method, such as `getApplicationReport`.
    pub method: String,
    /// The encoded (protobuf) request message, without a length before it and without Hadoop's headers; the connection adds
    /// both.
    pub body: Bytes,
    /// The moment, on the clock of the connection's `now` arguments, at which the connection ends the call with an error if no
    /// answer has come, and the time that the call was given, which only the error shows. `None`: the call waits as long as the
    /// connection lives.
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

/// An event of a connection, in the order in which it happened: `Ready` when calls can go out, a `Reply` for each call, `Refused` if
/// another stream is needed, and `Closed` as the last. Taken from a [`Connection`](super::Connection) by
/// [`poll_event`](super::Connection::poll_event), each once; the connection keeps those that nobody takes, without a bound.
pub enum Event {
    /// Authentication has succeeded on this stream, or none was asked for; the calls that were kept until now are being sent. Comes at most
    /// once for a connection.
    Ready {
        /// How the client was authenticated.
        method: AuthMethod,
        /// How the stream is protected.
        qop: Qop,
    },
    /// A call has ended, with its answer or an error. Comes exactly once for each call that [`Connection::call`](super::Connection::call)
    /// took, unless the call is cancelled.
    Reply {
        /// The number of the call's [`Request`].
        id: i32,
        /// The encoded response message, or why there is none.
        result: Result<Bytes, CallError>,
    },
    /// Kerberos has failed in a way that may pass: newer tickets may help, or a later try where the server mistook two clients of one user
    /// for a replay. The stream is of no use any more; the calls wait until the caller gives the connection another one by
    /// [`Connection::start`](super::Connection::start). Calls whose deadline passes before a stream is authenticated end with this error.
    /// Comes at most [`Setup::kerberos_retries`] times for a connection; the next failure closes it.
    Refused(ConnectionError),
    /// The connection has ended and is of no use any more. All its calls have had their [`Reply`](Event::Reply) before
    /// this event.
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
