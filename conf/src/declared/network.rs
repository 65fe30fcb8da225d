//! Options of the exchange of records between tasks.

use crate::declare::options;
use std::time::Duration;

options! {
    /// Time for which a task tries to connect to the data port of another task process before it
    /// fails.
    CONNECT_TIMEOUT: Duration = "exchange.connect-timeout" => Duration::from_secs(30),
        other ["taskmanager.network.connect-timeout"], must be_longer_than_zero;
    /// Maximum time a task waits for producers that are not deployed yet; then it fails.
    PRODUCER_TIMEOUT: Duration = "exchange.producer-timeout" => Duration::from_secs(300), must be_longer_than_zero;
    /// Serialises records also where both tasks run in one process; for tests of codecs. A job may set it for
    /// itself.
    FORCE_SERIALIZATION: bool = "exchange.force-serialization" => false;
    /// Bounds what waits for a subtask by the time that the subtask needs for it, so that a checkpoint's barrier passes a slow one
    /// soon; otherwise only by `taskmanager.memory.network.*` and 64 batches per channel.
    DEBLOAT_ENABLED: bool = "taskmanager.network.memory.buffer-debloat.enabled" => true;
    /// The time within which a subtask is to have consumed what waits for it in all its channels together. Each channel holds one
    /// record at least.
    DEBLOAT_TARGET: Duration = "taskmanager.network.memory.buffer-debloat.target" => Duration::from_secs(1),
        must be_longer_than_zero;
    /// Maximum time a batch of records waits for more of them before it is sent; `0 ms` sends every
    /// record at once.
    BUFFER_TIMEOUT: Duration = "execution.buffer-timeout" => Duration::from_millis(100),
        other ["execution.buffer-timeout.interval"];
    /// Interval at which a watermark generator that works by the clock is asked for a watermark
    /// while no records arrive; `0 ms`: never.
    AUTO_WATERMARK_INTERVAL: Duration = "pipeline.auto-watermark-interval" => Duration::from_millis(200);
}
