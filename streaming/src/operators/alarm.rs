//! The moments of the machine's clock at which an operator wants to be woken.
//!
//! The host can't take a wake-up back, so one that is asked for again and again would come more and more often: a moment is only
//! asked for where every wake-up that is under way comes later.

use super::OperatorContext;
use std::time::Duration;

/// The ticket of every wake-up that is asked for here.
const DUE: u32 = 0;

/// The wake-ups that are under way.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// The moments in milliseconds since 1970, each earlier than the one before it.
    under_way: Vec<i64>,
}

impl Alarm {
    /// Asks for a wake-up at `moment`, which may be over, unless one comes by then.
    pub(super) fn set(&mut self, moment: i64, context: &OperatorContext) {
        if self.under_way.last().is_none_or(|next| moment < *next) {
            self.under_way.push(moment);
            let wait = u64::try_from(moment.saturating_sub(clock(context))).unwrap_or(0);
            context.wake_after(Duration::from_millis(wait), DUE);
        }
    }

    /// Asks for a wake-up soon, to go on with what found the output full or a key that was not resident.
    pub(super) fn set_soon(&mut self, context: &OperatorContext) {
        self.set(clock(context).saturating_add(SOON_MS), context);
    }

    /// The first of the wake-ups has come.
    pub(super) fn rang(&mut self) {
        self.under_way.pop();
    }
}

/// How soon an operator looks again whether the output has room.
const SOON_MS: i64 = 5;

/// Returns what the machine's clock shows, in milliseconds since 1970.
pub(super) fn clock(context: &OperatorContext) -> i64 {
    i64::try_from(context.now_unix_ms()).unwrap_or(i64::MAX)
}
