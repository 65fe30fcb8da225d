//! Options of heartbeats.

use crate::declare::options;
use std::time::Duration;

options! {
    /// Interval between two heartbeats of a pair of processes.
    INTERVAL: Duration = "heartbeat.interval" => Duration::from_secs(1), must be_longer_than_zero;
    /// Silence after which a peer is declared dead. A closed connection is noticed at once. Tasks
    /// end already after 0.6 of this time without a sign of their JobMaster, so that they have
    /// ended before others take their place; a shorter pause of a process or of the network does no
    /// harm.
    TIMEOUT: Duration = "heartbeat.timeout" => Duration::from_secs(5), must be_longer_than_zero;
    /// Age of a peer's last finished turn above which the peer is declared dead although its
    /// heartbeats come; its own watchdog ends it.
    STUCK_AFTER: Duration = "heartbeat.stuck-after" => Duration::from_secs(10), must be_longer_than_zero;
    /// A closed connection is confirmed as a death, or cleared, within this time.
    CONFIRM_WITHIN: Duration = "heartbeat.confirm-within" => Duration::from_millis(500), must be_longer_than_zero;
}
