//! Errors of calls, with the answers to two questions: may the caller retry, and may the call have
//! been executed?

use crate::address::NodeAddress;
use model::LeaderSession;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Tells whether the called process may have executed a call that failed as [`FabricError::Unreachable`]: whether the caller may repeat a
/// call that must not run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Executed {
    /// The call certainly was not executed.
    No,
    /// The call may have been executed.
    Maybe,
}

/// A failure of the RPC service (the fabric): the call brought no answer of the callee's handler. [`FabricError::may_have_run`] tells
/// whether the call may have been executed all the same, [`FabricError::is_retriable`] whether the same call may succeed later. Made at
/// the caller, or by the called process and sent back.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum FabricError {
    /// The call brought no answer: no connection to the process was made (nobody listens, TLS failed, the peer closed or did not answer
    /// the handshake, it took longer than the call's time, or the address cannot be dialled; after a failed attempt calls fail at once in
    /// the pause that follows), the peer had said goodbye, the connection was lost, no answer came by the deadline plus
    /// `RpcOptions::answer_grace`, or the endpoint's actor stopped before it answered. `executed` says whether the call may have run: `No`
    /// without a connection.
    #[error("{peer} can't be reached: {why}")]
    Unreachable {
        /// The process that was called.
        peer: NodeAddress,
        /// Tells whether the called process may have run the call.
        executed: Executed,
        /// Reason as text for people.
        why: String,
    },
    /// The endpoint is in another leader session than the caller meant: the leader has changed, or the caller is late.
    /// Nothing was executed.
    #[error("fenced: the call was meant for session {yours}, the endpoint is in session {current}")]
    Fenced {
        /// Session that the caller meant: that of its gateway.
        yours: LeaderSession,
        /// Session that the endpoint is in.
        current: LeaderSession,
    },
    /// A bound of `RpcOptions` is reached: the mailbox or the unanswered calls of an endpoint, the calls or waiting bytes of a connection,
    /// or the number of long bodies that arrive (64 in files per process, 1,024 per connection). Nothing was executed, unless it was the
    /// call's own long answer that found no room at the caller. The same call may succeed later.
    #[error("overloaded: {what}")]
    Overloaded {
        /// The queue and its bound, as text.
        what: String,
    },
    /// The call's deadline passed before its handler answered, as the called process has measured it: while a long request was arriving,
    /// in the mailbox, or in the handler. If `running` is not zero, the handler has begun; if it is zero, the handler has not begun, or
    /// has begun and still holds its [`Caller`](crate::Caller). A handler that has begun goes on, and its answer is dropped; one that has
    /// not does not run any more.
    #[error(
        "deadline exceeded in {handler}: {queued:?} in the mailbox, {running:?} in the handler"
    )]
    DeadlineExceeded {
        /// Time that the call spent on its arrival and in the mailbox; zero if the handler has begun and it is not known when.
        queued: Duration,
        /// Time since the handler began. Zero: it has not begun (and will not), or it still holds its [`Caller`](crate::Caller), which
        /// counts as not begun unless a later call to the endpoint has begun.
        running: Duration,
        /// Endpoint and call as text, `endpoint (call)`; the endpoint alone, or with a remark, if the call did not reach the mailbox.
        handler: String,
    },
    /// The two processes speak different protocol versions or belong to different clusters, so they do not connect.
    /// Nothing was executed.
    #[error("incompatible: there {theirs}, here {ours}")]
    Incompatible {
        /// Protocol version or cluster at the other side.
        theirs: String,
        /// The same at this side.
        ours: String,
    },
    /// A handler of the endpoint panicked while it ran this call, or ran another one while this call waited in the mailbox. The actor has
    /// ended, unless only a future that the handler had returned panicked. May have been executed.
    #[error("the handler of {endpoint} panicked")]
    HandlerPanicked {
        /// Endpoint and call as text: `endpoint (call)`.
        endpoint: String,
    },
    /// No endpoint of that name is served there, or not any more, or its actor has ended. Nothing was executed; it may be served again
    /// later.
    #[error("there is no endpoint {endpoint} at {peer}")]
    NoSuchEndpoint {
        /// The process that was called.
        peer: NodeAddress,
        /// Name of the endpoint within its process.
        endpoint: String,
    },
    /// The endpoint exists but does not answer this call, because its gateway has no such call. Nothing was executed.
    #[error("endpoint {endpoint} does not answer {call}")]
    NoSuchCall {
        /// Name of the endpoint within its process.
        endpoint: String,
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: String,
    },
    /// The bytes of a request or reply can't be decoded, or the value can't be encoded. A malformed request was not
    /// executed; if the reply is malformed, the call was. [`codec`](crate::codec) also returns it for values that are no part of a call.
    #[error("{what} is malformed: {why}")]
    Malformed {
        /// The message that could not be encoded or decoded: `request ` or `reply of ` with the call's name, or the name alone.
        what: String,
        /// Description of the fault.
        why: String,
    },
    /// The caller's principal (the identity that it proved) may not make this call, for example a program host that calls an endpoint of
    /// the cluster; or the two processes do not share a secret, so that the handshake failed. Nothing was executed.
    #[error("forbidden: {why}")]
    Forbidden {
        /// The caller and the call, as text.
        why: String,
    },
    /// A long body did not fit into memory and could not be written to the receiver's disk, which may be full. If it
    /// was the request, nothing was executed; if it was the reply, the call was.
    #[error("{what} has {bytes} bytes, which cannot be kept in {folder} (io.tmp.dirs): {why}")]
    NoRoom {
        /// Request to an endpoint, or reply.
        what: String,
        /// Size of the encoded body in bytes.
        bytes: u64,
        /// Folder on the receiver's disk.
        folder: String,
        /// The disk's error as text.
        why: String,
    },
    /// The called process, or the caller's own, is shutting down (`RpcService::shutdown`) and takes no more calls; counts as not executed
    /// and as retriable.
    #[error("the process is shutting down")]
    ShuttingDown,
}

impl FabricError {
    /// Returns true if the handler may have run (in part or whole), false if it has not. False is not certain for
    /// [`DeadlineExceeded`](Self::DeadlineExceeded): a handler that still holds its [`Caller`](crate::Caller) counts as not begun.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::Unreachable { executed, .. } => *executed == Executed::Maybe,
            Self::DeadlineExceeded { running, .. } => !running.is_zero(),
            Self::HandlerPanicked { .. } => true,
            // A reply that could not be carried: the handler had run.
            Self::NoRoom { what, .. }
            | Self::Malformed { what, .. }
            | Self::Overloaded { what } => what.starts_with(REPLY),
            Self::Fenced { .. }
            | Self::Incompatible { .. }
            | Self::NoSuchEndpoint { .. }
            | Self::NoSuchCall { .. }
            | Self::Forbidden { .. }
            | Self::ShuttingDown => false,
        }
    }

    /// Returns true if the same call, made again later at the same address, may succeed. False for calls that are
    /// fenced, incompatible, malformed, forbidden or not answered by the endpoint (`NoSuchCall`), or whose handler
    /// panicked; a missing endpoint counts as retriable. Only a repeatable call should be made again if it also [may
    /// have run](Self::may_have_run).
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Overloaded { .. }
            | Self::DeadlineExceeded { .. }
            | Self::NoSuchEndpoint { .. }
            | Self::NoRoom { .. }
            | Self::ShuttingDown => true,
            Self::Fenced { .. }
            | Self::Incompatible { .. }
            | Self::HandlerPanicked { .. }
            | Self::NoSuchCall { .. }
            | Self::Malformed { .. }
            | Self::Forbidden { .. } => false,
        }
    }
}

/// The beginning of `what` in errors about a reply; see [`FabricError::may_have_run`].
pub(crate) const REPLY: &str = "reply of ";
/// The beginning of `what` in errors about a request.
pub(crate) const REQUEST: &str = "request ";

/// The reason why a call has no reply: the callee's handler refused it, or the RPC service (the fabric) failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError<E> {
    /// The callee's handler refused the call with its typed error.
    #[error(transparent)]
    Refused(E),
    /// The RPC service brought no answer of the handler: the call failed on its way, or the callee could not take it.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl<E> CallError<E> {
    /// Returns the failure of the RPC service (the fabric), `None` if the callee's handler refused.
    pub fn fabric(&self) -> Option<&FabricError> {
        match self {
            Self::Refused(_) => None,
            Self::Fabric(error) => Some(error),
        }
    }
    /// Returns the refusal of the callee's handler, `None` if the RPC service (the fabric) failed.
    pub fn refused(self) -> Option<E> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Fabric(_) => None,
        }
    }
}
