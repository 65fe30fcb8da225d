//! Options of heartbeats.

use crate::declare::options;
use std::time::Duration;

options! {
    /// Interval between two heartbeats of a pair of processes.
    INTERVAL: Duration = "heartbeat.interval" => Duration::from_secs(1), must be_longer_than_zero;
    /// A peer that is not heard for so long is dead. A closed connection is noticed at once. Tasks end already when nothing was heard
    /// of their JobMaster for 0.6 of it, so that they are over before others take their place; a pause may be as long as that.
    TIMEOUT: Duration = "heartbeat.timeout" => Duration::from_secs(5), must be_longer_than_zero;
    /// A peer whose last finished turn is so old is dead though its heartbeats come; its own watchdog ends it.
    STUCK_AFTER: Duration = "heartbeat.stuck-after" => Duration::from_secs(10), must be_longer_than_zero;
    /// A closed connection is confirmed as a death, or cleared, within this time.
    CONFIRM_WITHIN: Duration = "heartbeat.confirm-within" => Duration::from_millis(500), must be_longer_than_zero;
}
