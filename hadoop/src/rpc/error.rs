//! Errors of calls and connections, and what Hadoop's clients do about each kind.

use crate::sasl::SaslError;

/// An exception that the server threw, for one call or for the whole connection: its Java class, message and code. It reaches callers in
/// `CallError::Remote` or `ConnectionError::Fatal`; its class says whether another try is of use ([`RemoteException::advice`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.short_class(), self.summary())]
pub struct RemoteException {
    /// The Java class: `org.apache.hadoop.ipc.StandbyException`; empty if the server names none.
    pub class: String,
    /// The exception's message, often followed by a stack trace; empty if the server sends none.
    pub message: String,
    /// The server's classification of the error, from the response's header.
    pub code: ErrorCode,
    /// True if the exception came for the connection and not for one call, after which the connection ends: the server marked it as fatal,
    /// threw it during authentication, or sent it without a call's number. Other calls on the connection are lost as well then.
    pub fatal: bool,
}

/// The thing that a client should do about a server's exception, judged by the exception's class. Returned by [`RemoteException::advice`];
/// [`RetryPolicy::decide`](super::RetryPolicy::decide) makes a decision of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Give up: the same call will fail the same way.
    Fail,
    /// Try the same server again, later.
    Retry,
    /// Try another server: this one is not the active one.
    FailOver,
}

impl RemoteException {
    /// Returns the name of the exception's class without package and outer class, such as `InvalidToken`.
    #[must_use]
    pub fn short_class(&self) -> &str {
        self.class.rsplit(['.', '$']).next().unwrap_or(&self.class)
    }

    /// Returns the first line of the exception's message, which mostly leaves out the stack trace; empty if there is
    /// no message.
    #[must_use]
    pub fn summary(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }

    /// Returns true if this is the exception of that class, which may be named in full
    /// (`org.apache.hadoop.security.token.SecretManager$InvalidToken`), without the package
    /// (`SecretManager$InvalidToken`), or alone (`InvalidToken`).
    #[must_use]
    pub fn is(&self, class: &str) -> bool {
        is_class(&self.class, class)
    }

    /// Returns true if the same server may answer a later try: if [`advice`](Self::advice) is [`Advice::Retry`].
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        self.advice() == Advice::Retry
    }

    /// Returns what Hadoop's clients do about this exception: they try another server after `StandbyException` and
    /// `ObserverRetryOnActiveException`, the same one again after `RetriableException`, `ServerTooBusyException` and
    /// `NMNotYetReadyException`, and fail after others. An exception whose message begins with the full name (with its package) of one of
    /// these, because it wraps it, counts as that one.
    #[must_use]
    pub fn advice(&self) -> Advice {
        const STANDBY: &[&str] = &["StandbyException", "ObserverRetryOnActiveException"];
        const RETRIABLE: &[&str] =
            &["RetriableException", "ServerTooBusyException", "NMNotYetReadyException"];
        let named = |names: &[&str]| names.contains(&self.short_class());
        // Some methods wrap the exception, and its name leads the message then.
        let wrapped = |names: &[&str]| {
            let first = self.summary().split([':', ' ']).next().unwrap_or_default();
            first.contains('.') && names.contains(&first.rsplit('.').next().unwrap_or_default())
        };
        match () {
            () if named(STANDBY) || wrapped(STANDBY) => Advice::FailOver,
            () if named(RETRIABLE) || wrapped(RETRIABLE) => Advice::Retry,
            () => Advice::Fail,
        }
    }
}

/// Whether a Java class is meant by a name, with or without its package and the class around it.
pub(crate) fn is_class(class: &str, name: &str) -> bool {
    let unpackaged = class.rsplit('.').next().unwrap_or(class);
    class == name || unpackaged == name || unpackaged.rsplit('$').next() == Some(name)
}

/// Hadoop's classification of errors, as the server sends it with an exception (`RpcErrorCodeProto`). After a code
/// whose name begins with `Fatal` the server closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The called method itself threw the exception.
    Application,
    /// The server's protocol has no method of the called name.
    NoSuchMethod,
    /// The server does not offer the called protocol.
    NoSuchProtocol,
    /// The RPC server itself failed, not the called method.
    RpcServer,
    /// The server could not encode the response.
    SerializingResponse,
    /// The client and the server have different versions of the protocol.
    RpcVersionMismatch,
    /// Fatal error for which the server states no kind, for example because it is shutting down.
    FatalUnknown,
    /// Fatal: the client uses an encoding that the server does not know.
    FatalUnsupportedSerialization,
    /// Fatal: the client sent a header that the server cannot make sense of.
    FatalInvalidRpcHeader,
    /// Fatal: the client sent a request that the server cannot decode.
    FatalDeserializingRequest,
    /// Fatal: the server speaks another version of Hadoop RPC than the client.
    FatalVersionMismatch,
    /// Fatal: the caller is not authenticated, or not allowed to connect.
    FatalUnauthorized,
    /// A code that this library does not know; 0 if the server sent none.
    Other(i32),
}

impl ErrorCode {
    /// Returns the code with this number on the wire; `None` becomes `Other(0)`, an unknown number `Other` with it.
    #[must_use]
    pub fn from_wire(number: Option<i32>) -> Self {
        match number.unwrap_or(0) {
            1 => Self::Application,
            2 => Self::NoSuchMethod,
            3 => Self::NoSuchProtocol,
            4 => Self::RpcServer,
            5 => Self::SerializingResponse,
            6 => Self::RpcVersionMismatch,
            10 => Self::FatalUnknown,
            11 => Self::FatalUnsupportedSerialization,
            12 => Self::FatalInvalidRpcHeader,
            13 => Self::FatalDeserializingRequest,
            14 => Self::FatalVersionMismatch,
            15 => Self::FatalUnauthorized,
            other => Self::Other(other),
        }
    }
}

/// The reason why a connection could not be made or can no longer be used: the server's exception, a failed authentication, bytes that are
/// not Hadoop RPC, the network, a time-out, or idleness. Every call that waits on the connection fails with a copy, in
/// [`CallError::Connection`]. The connection is of no use then; a [`Client`](crate::client::Client) makes another for the next call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The server sent this exception for the connection itself and closes it, for example because it refused the
    /// authentication, could not read a header, or is shutting down.
    #[error(transparent)]
    Fatal(RemoteException),
    /// The client gave up the authentication, or refused a message of a protected stream.
    #[error("authentication: {0}")]
    Sasl(#[from] SaslError),
    /// The server sent bytes that are not Hadoop RPC, a frame above [`Limits::frame_in`](super::Limits::frame_in), an answer
    /// for another client, or a message without the agreed protection; or a header or authentication message of this side
    /// was too long to send. The text says what is wrong.
    #[error("the peer does not speak Hadoop RPC as it should: {0}")]
    Protocol(String),
    /// The connection was closed or reset by the server or the network, had ended before the call, or ends with the caller's tokio runtime
    /// or because the Kerberos library panicked; the text says which.
    #[error("the connection was closed: {0}")]
    Closed(String),
    /// Authentication was not through within the setup timeout ([`Setup::setup_timeout`](super::Setup::setup_timeout)).
    #[error("the server did not finish its greeting in time")]
    SetupTimeout,
    /// This side closed the connection because no call had waited on it for the configured time
    /// ([`Setup::idle`](super::Setup::idle)). A [`Client`](crate::client::Client) gives a call that comes in this very moment to
    /// a new connection, and lets the call fail with this only after four such connections.
    #[error("the connection was idle and has been closed")]
    Idle,
    /// The connection could not be made: the host is unknown, has no address or cannot be reached, or nobody listens at its port. A
    /// [`Proxy`](crate::client::Proxy) without servers fails with it too, with the address `nowhere`.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The server's `host:port`.
        address: String,
        /// The I/O error, as text.
        reason: String,
    },
    /// The connection, or the look-up of the host, was not through within the connect timeout.
    #[error("connecting to {address} took too long")]
    ConnectTimeout {
        /// The server's `host:port`.
        address: String,
    },
    /// The last clone of the [`Client`](crate::client::Client) was dropped and the connection's calls had ended, so the
    /// connection closed. No call fails with this: none is left.
    #[error("the client was shut down")]
    Shutdown,
}

impl ConnectionError {
    /// Returns true if a request that had been sent on this connection may have been carried out. False if the
    /// connection could not be made, closed idle, or ran out of time to authenticate, because requests go out only
    /// after that; true for all others, a broken protection of the stream among them.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::ConnectTimeout { .. } => false,
            Self::SetupTimeout | Self::Idle => false,
            Self::Fatal(_) | Self::Protocol(_) | Self::Closed(_) => true,
            Self::Sasl(_) | Self::Shutdown => true,
        }
    }
}

/// The reason why a call failed: the server's exception, a connection that failed, a deadline, a bound of the connection,
/// or an answer that cannot be decoded. [`may_have_run`](Self::may_have_run) says whether the server may have acted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server threw an exception for this call; the connection lives on. Whether the method had an effect before it threw is unknown:
    /// [`may_have_run`](Self::may_have_run) is true.
    #[error(transparent)]
    Remote(#[from] RemoteException),
    /// The connection failed before the result came, or no connection could be made.
    #[error("{error}")]
    Connection {
        /// The reason why the connection failed.
        error: ConnectionError,
        /// True if the request had been put into the outgoing bytes by then; if false, it was surely not carried out.
        sent: bool,
    },
    /// No answer came before the call's deadline. The call is given up; the connection lives on, and skips a late answer.
    #[error("no answer to {method} within {after:?}")]
    Deadline {
        /// Name of the remote method that was called.
        method: String,
        /// The time that the call was given.
        after: std::time::Duration,
        /// True if the request had been put into the outgoing bytes by then; if false, it was surely not carried out.
        sent: bool,
    },
    /// The connection's bounds on waiting calls and unsent bytes are reached, or the call's number is waiting already;
    /// nothing was sent. A [`Client`](crate::client::Client) lets calls wait in line at the bounds instead.
    #[error("{waiting} calls wait on this connection already")]
    Overloaded {
        /// Number of calls that have no answer yet.
        waiting: usize,
    },
    /// The request is longer than a frame to the server may be ([`Limits::frame_out`](super::Limits::frame_out));
    /// nothing was sent, and the connection lives on.
    #[error("a request of {length} bytes; at most {max} may be sent")]
    TooLong {
        /// Length of the request in bytes, with 4,096 more for its headers.
        length: usize,
        /// Largest length that may be sent, in bytes.
        max: usize,
    },
    /// The server's answer is not the message that the method returns; the server has carried the call out all the same.
    #[error("the answer to {method} cannot be decoded: {reason}")]
    Undecodable {
        /// Name of the remote method that was called.
        method: String,
        /// The decoder's error, as text.
        reason: String,
    },
}

impl CallError {
    /// Returns true if the server may have carried the request out: after any exception for this call, an answer that
    /// cannot be decoded, and wherever the request was sent and no answer came. False if it was surely not executed.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Remote(_) | Self::Undecodable { .. } => true,
            Self::Connection { error, sent } => *sent && error.may_have_run(),
            Self::Deadline { sent, .. } => *sent,
            Self::Overloaded { .. } | Self::TooLong { .. } => false,
        }
    }

    /// Returns the server's exception, whether it was for this call or for the connection (a [`ConnectionError::Fatal`]); `None` for any
    /// other error, and for authentication that this side gave up.
    #[must_use]
    pub fn remote(&self) -> Option<&RemoteException> {
        match self {
            Self::Remote(exception)
            | Self::Connection { error: ConnectionError::Fatal(exception), .. } => Some(exception),
            _ => None,
        }
    }
}
