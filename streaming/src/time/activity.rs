//! Idleness: for how long a subtask, or a split of a source, has had no record. Nothing here reads a clock: the owner looks at
//! the interval that [`look_interval`] returns.

use std::time::Duration;

/// The time since a subtask or a split had its last record, in looks. The look after a record may follow it at once, so two whole
/// intervals have passed for certain only at the third look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// A record arrived since the last look.
    Busy,
    /// No record arrived since the last look.
    Quiet,
    /// No record arrived since the look before the last one.
    Silent,
    /// No record arrived between the last three looks: for at least the timeout.
    Idle,
}

impl Activity {
    /// Returns the activity after one more look. If the output holds the subtask up, nothing becomes idle.
    pub(crate) fn after_look(self, held_up: bool) -> Self {
        match self {
            Self::Busy => Self::Quiet,
            Self::Quiet => Self::Silent,
            Self::Silent if held_up => Self::Silent,
            Self::Silent | Self::Idle => Self::Idle,
        }
    }
}

/// Returns the interval between looks for an idleness timeout: half of the timeout, rounded up to whole milliseconds, at least
/// 1 ms. With 100 ms there is a look every 50 ms, and whatever has no records is idle 100 to 150 ms after its last one. With 0 ms
/// the least interval keeps the timer from being due again at once, for ever.
pub(crate) fn look_interval(timeout: Duration) -> Duration {
    let half_ms = timeout.as_nanos().div_ceil(2_000_000);
    Duration::from_millis(u64::try_from(half_ms).unwrap_or(u64::MAX).max(1))
}
