//! Shows a witness what the fabric serves, lets in and keeps out, each in the one place where that is decided, and how
//! calls to other processes ended. A witness must never wait, call back or change what happens.
//!
//! Only the simulation has a witness, but the module is part of every build and behind no feature: the fabric shows its facts
//! in the middle of admission, and with a feature the simulation would check another program than the one that is shipped. In
//! production `RpcOptions::witness` is `None`, and a fact costs one comparison.

use crate::address::NodeAddress;
use model::LeaderSession;
use std::{fmt, time::Duration};

/// Something that the fabric (the RPC service) of one process has just done, as it is shown to a [`Witness`]. Refusals for another
/// reason than session or overload, and failures inside the process, are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FabricFact<'a> {
    /// An endpoint answers under this name and session from now on.
    Served {
        /// Name of the endpoint within its process.
        endpoint: &'a str,
        /// Session that the endpoint is served under.
        session: LeaderSession,
    },
    /// The endpoint is not served any more: its registration was dropped. Not shown for a registration that another one has replaced.
    Withdrawn {
        /// Name of the endpoint within its process.
        endpoint: &'a str,
        /// The session that it was served under.
        session: LeaderSession,
    },
    /// A call, from this or another process, has passed the checks of caller, session and limits. If its body came as bytes, it is decoded
    /// now, and handed to the endpoint's actor unless it is malformed.
    Admitted {
        /// The endpoint's name.
        endpoint: &'a str,
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
        /// Session that the caller meant.
        meant_for: LeaderSession,
    },
    /// A call was answered with `Fenced` instead of being handed to the endpoint's actor, because it was meant for
    /// another session: nothing changed.
    Fenced {
        /// The endpoint's name.
        endpoint: &'a str,
        /// Name of the call, such as `dispatcher.SubmitJob`.
        call: &'static str,
        /// Session that the caller meant.
        yours: LeaderSession,
        /// Session that is served.
        current: LeaderSession,
    },
    /// An endpoint answered a call with `Overloaded`: its mailbox or its number of unanswered calls has reached the
    /// limit (`RpcOptions::mailbox_max`, `in_flight_max`). Nothing changed. Not shown for the limits of a connection.
    Overloaded {
        /// The endpoint's name.
        endpoint: &'a str,
        /// The name of the call.
        call: &'static str,
    },
    /// A call to another process has ended at its caller. Calls that the caller gave up (whose future was dropped) are
    /// not shown.
    Asked {
        /// The process that was called.
        to: &'a NodeAddress,
        /// The name of the call.
        call: &'static str,
        /// Time from the call to the answer or failure.
        took: Duration,
        /// True if the fabric brought no answer: the process was unreachable or the deadline passed.
        lost: bool,
    },
}

/// Observes every [`FabricFact`] of a process, as it happens and in its order, for the simulation. It must neither wait
/// nor call back.
pub trait Witness: Send + Sync + fmt::Debug {
    /// Called once for each fact, on the thread where it happens.
    fn sees(&self, fact: FabricFact<'_>);
}
