//! When to try again, and where: Hadoop's own rules as a pure function. It never sleeps and draws no random
//! number itself.

use super::setup::LONGEST;
use super::{Advice, CallError, ConnectionError, ErrorCode};
use crate::gssapi::GssError;
use crate::sasl::{AuthMethod, SaslError};
use std::time::Duration;

/// The rule by which a failed call is tried again: never, at the same server after a fixed pause (even if the server may have executed the
/// call), or with failover to other servers (a call that may have been executed only if it is idempotent). A
/// [`Proxy`](crate::client::Proxy) asks it after each failed try and waits the pause; a single connection does not use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Each call is tried once only.
    Never,
    /// Tries the same server again after a fixed pause, as YARN's clients do without failover, even where the server may have executed the
    /// call. Gives up at once where another try is of no use: after exceptions (other than standby and retriable ones, and that of a server
    /// that shuts down), a failed authentication, bytes that are not Hadoop RPC, a request that is too long, a connection whose bounds are
    /// reached, or an answer that cannot be decoded.
    Fixed {
        /// Pause between two tries.
        interval: Duration,
        /// Maximum number of tries after the first.
        retries: u32,
    },
    /// Tries another server if this one is not the active one, is not reached or, for idempotent calls, does not answer or does not speak
    /// Hadoop RPC; the same one again if it asks for that. The first failover comes at once, and so does a repetition after the very first
    /// try; later pauses double up to a bound, each varied at random by half up or down.
    FailOver {
        /// Maximum number of failovers of one call. After the last of them the call is not repeated at all, not even where the server asks
        /// for it; with 0 each call is tried once only.
        failovers: u32,
        /// Number of repetitions without a change of the server, counted over all servers, above which a call fails; as in Hadoop, one more
        /// than this is made.
        retries: u32,
        /// The time that is doubled for each pause: the first pause that is not zero is twice this.
        base: Duration,
        /// Upper bound of the doubled times; the random part may make a pause up to half longer.
        max: Duration,
    },
}

/// The facts about a try that failed, from which [`RetryPolicy::decide`] decides whether and where to try again. Made by a
/// [`Proxy`](crate::client::Proxy) after each failed try; holds nothing of the overall deadline, which the proxy checks itself.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The error that the try failed with, by which the rules tell whether the server may have executed the call.
    pub error: &'a CallError,
    /// Number of tries of this call before this one, those at other servers included. 0 for the first try.
    pub retries: u32,
    /// How often this call was told before to go on at the next server, which is the same one where a proxy has only one.
    pub failovers: u32,
    /// True if executing the call twice has the same effect as once, or the server notices a repetition. If false,
    /// [`RetryPolicy::FailOver`] does not repeat the call where the server may have executed it; [`RetryPolicy::Fixed`]
    /// does not look at this.
    pub idempotent: bool,
    /// A random number, evenly distributed in 0 to 1, by which pauses vary.
    pub random: f64,
}

/// The thing to do after a failed try, as [`RetryPolicy::decide`] decides it. The caller carries it out: [`RetryPolicy::decide`] itself
/// neither waits nor calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Give up, and give the error to the caller.
    Fail,
    /// Try the same server again after this pause.
    Retry(Duration),
    /// Try the next server after this pause.
    FailOver(Duration),
}

/// Kinds of failures that the rules distinguish.
enum Kind {
    /// It will fail again.
    Final,
    /// The server asks for another try.
    Again,
    /// The server is not the active one, or was not reached: nothing was done.
    Elsewhere,
    /// The connection broke with the request on it.
    Unknown,
    /// It is no server of Hadoop's, or speaks as none; another one may.
    Alien,
}

fn kind(error: &CallError) -> Kind {
    if let Some(exception) = error.remote() {
        return match exception.advice() {
            Advice::Retry => Kind::Again,
            Advice::FailOver => Kind::Elsewhere,
            // A server that ends says so to whoever is connected, and another may answer.
            Advice::Fail if exception.fatal && exception.code == ErrorCode::FatalUnknown => {
                Kind::Unknown
            }
            Advice::Fail => Kind::Final,
        };
    }
    match error {
        CallError::Connection {
            error: ConnectionError::Sasl(_) | ConnectionError::Shutdown,
            ..
        } => Kind::Final,
        CallError::Connection { error: ConnectionError::Protocol(_), .. } => Kind::Alien,
        CallError::Connection { .. } | CallError::Deadline { .. } => match error.may_have_run() {
            true => Kind::Unknown,
            false => Kind::Elsewhere,
        },
        _ => Kind::Final,
    }
}

impl RetryPolicy {
    /// Decides what to do after a try that failed: give up, or try this or the next server after a pause. A pure
    /// function: the caller waits, counts the tries and draws the random number.
    #[must_use]
    pub fn decide(&self, attempt: Attempt<'_>) -> Decision {
        let kind = kind(attempt.error);
        match (*self, kind) {
            (_, Kind::Final) | (Self::Never, _) | (Self::Fixed { .. }, Kind::Alien) => {
                Decision::Fail
            }
            // Without failover Hadoop's YARN clients repeat whatever did not come from the server's code:
            // YARN's methods are made for it.
            (Self::Fixed { interval, retries }, _) => match attempt.retries < retries {
                true => Decision::Retry(interval),
                false => Decision::Fail,
            },
            (Self::FailOver { failovers, retries, base, max }, kind) => {
                if attempt.failovers >= failovers
                    || attempt.retries.saturating_sub(attempt.failovers) > retries
                {
                    return Decision::Fail;
                }
                let after = |times: u32| match times {
                    0 => Duration::ZERO,
                    times => doubled(base, times, max, attempt.random),
                };
                match kind {
                    Kind::Elsewhere => Decision::FailOver(after(attempt.failovers)),
                    Kind::Again => Decision::Retry(after(attempt.retries)),
                    Kind::Unknown | Kind::Alien if attempt.idempotent => {
                        Decision::FailOver(after(attempt.failovers))
                    }
                    Kind::Unknown | Kind::Alien | Kind::Final => Decision::Fail,
                }
            }
        }
    }
}

/// Whether a connection whose authentication ended so is worth another stream: Kerberos may have failed for old
/// tickets, or because a server took two clients of one user for one that repeats itself. Tokens do not get better,
/// nor do servers that are not who they should be.
pub(super) fn kerberos_again(error: &ConnectionError, method: Option<AuthMethod>) -> bool {
    match error {
        ConnectionError::Sasl(SaslError::Gss(error)) => {
            matches!(error, GssError::Refused { .. } | GssError::Credential { .. })
        }
        ConnectionError::Fatal(_) => method == Some(AuthMethod::Kerberos),
        _ => false,
    }
}

/// `base` doubled so many times, at most `max`, times something between 0.5 and 1.5.
pub(crate) fn doubled(base: Duration, times: u32, max: Duration, random: f64) -> Duration {
    let factor = 1_u32.checked_shl(times.min(31)).unwrap_or(u32::MAX);
    let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.5 };
    base.saturating_mul(factor).min(max).min(LONGEST).mul_f64(0.5 + random)
}
