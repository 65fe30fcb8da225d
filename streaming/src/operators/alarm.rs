//! Wake-ups of an operator at moments of the machine's clock.
//!
//! The host cannot take a wake-up back, so wake-ups would pile up if an operator asked for one with every batch. A moment is
//! therefore only asked for if every wake-up under way comes later.

use super::OperatorContext;
use std::time::Duration;

/// Ticket of every wake-up that is requested here.
const DUE: u32 = 0;

/// The wake-ups that are under way.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    /// Their moments in milliseconds since 1970, each earlier than the one before it.
    under_way: Vec<i64>,
}

impl Alarm {
    /// Asks for a wake-up at `moment`, in milliseconds since 1970, unless one comes by then. A moment that has passed wakes the
    /// operator at once.
    pub(super) fn set(&mut self, moment: i64, context: &OperatorContext) {
        if self.under_way.last().is_none_or(|next| moment < *next) {
            self.under_way.push(moment);
            let wait = u64::try_from(moment.saturating_sub(clock(context))).unwrap_or(0);
            context.wake_after(Duration::from_millis(wait), DUE);
        }
    }

    /// Asks for a wake-up to continue with what is due: within [`SOON_MS`] if it is `held_up`, because the output is full or a key is
    /// not resident; otherwise at once, because only the step was interrupted. The task makes a step between two wake-ups.
    pub(super) fn set_to_continue(&mut self, held_up: bool, context: &OperatorContext) {
        let wait = if held_up { SOON_MS } else { 0 };
        self.set(clock(context).saturating_add(wait), context);
    }

    /// Records that the earliest wake-up has come.
    pub(super) fn rang(&mut self) {
        self.under_way.pop();
    }
}

/// Milliseconds after which an operator looks again whether the output has room.
const SOON_MS: i64 = 5;

/// Returns the time of the machine's clock, in milliseconds since 1970.
pub(super) fn clock(context: &OperatorContext) -> i64 {
    i64::try_from(context.now_unix_ms()).unwrap_or(i64::MAX)
}
