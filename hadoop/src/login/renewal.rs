//! When tickets are renewed: after four fifths of their life, as Hadoop does, or when a server refused them; and
//! not again right after a try. Plain values only: nothing here reads a clock or asks a KDC.

use crate::gssapi::Need;
use std::time::Duration;

/// The part of their life after which tickets are renewed, in tenths.
const RENEW_AT: u32 = 8;
/// Tickets that last longer than others by no more than this are the same: lifetimes are rounded.
const SAME: Duration = Duration::from_secs(5);

/// How old tickets are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    /// How long they lasted when they were got; `None` for ever.
    pub(super) lifetime: Option<Duration>,
    /// How long ago that was.
    pub(super) age: Duration,
    /// How long ago newer ones were last asked for, where they were.
    pub(super) tried: Option<Duration>,
}

impl Ages {
    /// How long until they should be renewed; `None` for ones that last for ever.
    pub(super) fn renew_in(self) -> Option<Duration> {
        let at = self.lifetime?.saturating_mul(RENEW_AT) / 10;
        Some(at.saturating_sub(self.age))
    }

    /// Whether they are to be renewed now, where tries are at least `between` apart.
    pub(super) fn is_due(self, need: Need, between: Duration) -> bool {
        let rested = self.tried.is_none_or(|tried| tried >= between);
        let needed = match need {
            Need::Refusal => true,
            Need::Connection => self.renew_in().is_some_and(|after| after.is_zero()),
        };
        rested && needed
    }

    /// Whether to wait while another is getting newer ones: what is still good serves meanwhile.
    pub(super) fn waits(self, need: Need) -> bool {
        let over = self.lifetime.is_some_and(|lifetime| self.age >= lifetime);
        need == Need::Refusal || over
    }

    /// How long until [`is_due`](Self::is_due) is true without a need.
    pub(super) fn due_in(self, between: Duration) -> Option<Duration> {
        let rest = self.tried.map_or(Duration::ZERO, |tried| between.saturating_sub(tried));
        Some(self.renew_in()?.max(rest))
    }
}

/// Returns true if tickets of the lifetime `read` last longer than tickets whose lifetime was `held` at a time that is `since` ago. `None`
/// lasts for ever.
pub(super) fn lasts_longer(
    read: Option<Duration>,
    held: Option<Duration>,
    since: Duration,
) -> bool {
    match (read, held) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(read), Some(held)) => read > held.saturating_sub(since).saturating_add(SAME),
    }
}
