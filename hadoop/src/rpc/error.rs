//! Errors of calls and connections, and what Hadoop's clients do about each kind.

use crate::sasl::SaslError;

/// An exception that the server threw, for one call or for the whole connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", self.short_class(), self.summary())]
pub struct RemoteException {
    /// The Java class: `org.apache.hadoop.ipc.StandbyException`.
    pub class: String,
    /// The exception's message, often followed by a stack trace.
    pub message: String,
    /// Hadoop's classification of the error, as the response's header gives it.
    pub code: ErrorCode,
    /// True if the server closed the connection with it; other calls on the connection are lost as well then.
    pub fatal: bool,
}

/// The advice that an exception's class gives to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Give up: the same call will fail the same way.
    Fail,
    /// Ask the same server again, later.
    Retry,
    /// Ask another server: this one is not the active one.
    FailOver,
}

impl RemoteException {
    /// Returns the exception's class without its package and without the class around it, such as `InvalidToken`.
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

    /// Returns true if the same server may answer later: after `RetriableException` and its like.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        self.advice() == Advice::Retry
    }

    /// Returns what Hadoop's clients do about this exception: they fail over after `StandbyException` and its like, ask
    /// again after `RetriableException` and its like, and fail after others. An exception that wraps one of these
    /// counts as the wrapped one.
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

/// Hadoop's classification of errors (`RpcErrorCodeProto`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The method threw the exception.
    Application,
    /// The protocol has no such method.
    NoSuchMethod,
    /// The server has no such protocol.
    NoSuchProtocol,
    /// The server itself failed.
    RpcServer,
    /// The response could not be encoded.
    SerializingResponse,
    /// The client and the server have different versions of the protocol.
    RpcVersionMismatch,
    /// Fatal, for no stated reason.
    FatalUnknown,
    /// Fatal: an encoding that the server does not know.
    FatalUnsupportedSerialization,
    /// Fatal: a header that makes no sense.
    FatalInvalidRpcHeader,
    /// Fatal: a request that cannot be decoded.
    FatalDeserializingRequest,
    /// Fatal: another version of Hadoop RPC.
    FatalVersionMismatch,
    /// Fatal: the caller is not authenticated, or not allowed to connect.
    FatalUnauthorized,
    /// No code, or one unknown to this library; 0 stands for none.
    Other(i32),
}

impl ErrorCode {
    /// Returns the code with this number on the wire; `None` becomes `Other(0)`.
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

/// The reason why a connection can no longer be used. Every call that waits on the connection gets a copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The server sent this exception for the connection itself and closes it.
    #[error(transparent)]
    Fatal(RemoteException),
    /// Authentication failed on this side.
    #[error("authentication: {0}")]
    Sasl(#[from] SaslError),
    /// The server sent bytes that are not Hadoop RPC.
    #[error("the peer does not speak Hadoop RPC as it should: {0}")]
    Protocol(String),
    /// The connection was closed or reset; the text says how.
    #[error("the connection was closed: {0}")]
    Closed(String),
    /// The server took too long to greet or authenticate.
    #[error("the server did not finish its greeting in time")]
    SetupTimeout,
    /// This side closed the connection after it had had nothing to do for the configured time.
    #[error("the connection was idle and has been closed")]
    Idle,
    /// The connection never came about: nobody listens there, no way there, no such host.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The server's `host:port`.
        address: String,
        /// The I/O error, as text.
        reason: String,
    },
    /// The connection did not come about within the connect timeout.
    #[error("connecting to {address} took too long")]
    ConnectTimeout {
        /// The server's `host:port`.
        address: String,
    },
    /// The client was dropped or shut down, so the connection ended.
    #[error("the client was shut down")]
    Shutdown,
}

impl ConnectionError {
    /// Returns true if a request that had been sent on this connection may have been carried out. False for a failed
    /// greeting, because nothing is sent before both sides know each other. A broken protection of the stream says
    /// nothing about what went over it before: true.
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

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The server threw an exception for this call; the connection lives on.
    #[error(transparent)]
    Remote(#[from] RemoteException),
    /// The connection failed before the result came, or none could be made.
    #[error("{error}")]
    Connection {
        /// The reason why the connection failed.
        error: ConnectionError,
        /// Whether the request had been handed to the network by then: it may have been carried out.
        sent: bool,
    },
    /// No answer came before the call's deadline.
    #[error("no answer to {method} within {after:?}")]
    Deadline {
        /// Name of the remote method that was called.
        method: String,
        /// The time that the call was given.
        after: std::time::Duration,
        /// Whether the request had been handed to the network by then: it may have been carried out.
        sent: bool,
    },
    /// Too many calls or unsent bytes wait already; nothing was sent.
    #[error("{waiting} calls wait on this connection already")]
    Overloaded {
        /// Number of calls that have no answer yet.
        waiting: usize,
    },
    /// The request is longer than the server takes; nothing was sent.
    #[error("a request of {length} bytes; at most {max} may be sent")]
    TooLong {
        /// Length of the request in bytes, with room for its headers.
        length: usize,
        /// Largest length that may be sent, in bytes.
        max: usize,
    },
    /// The server's answer is not the message that the method returns.
    #[error("the answer to {method} cannot be decoded: {reason}")]
    Undecodable {
        /// Name of the remote method that was called.
        method: String,
        /// The decoder's error, as text.
        reason: String,
    },
}

impl CallError {
    /// Returns true if the server may have carried the request out although no result came. An exception of the server
    /// counts as true.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Remote(_) | Self::Undecodable { .. } => true,
            Self::Connection { error, sent } => *sent && error.may_have_run(),
            Self::Deadline { sent, .. } => *sent,
            Self::Overloaded { .. } | Self::TooLong { .. } => false,
        }
    }

    /// Returns the server's exception, whether it was for this call or for the connection; `None` for any other error.
    #[must_use]
    pub fn remote(&self) -> Option<&RemoteException> {
        match self {
            Self::Remote(exception)
            | Self::Connection { error: ConnectionError::Fatal(exception), .. } => Some(exception),
            _ => None,
        }
    }
}
