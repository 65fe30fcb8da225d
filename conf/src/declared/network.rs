//! Options of the exchange of records between tasks.

use crate::declare::options;
use model::MemorySize;
use std::{num::NonZeroU32, time::Duration};

options! {
    /// The size of one exchange buffer.
    SEGMENT_SIZE: MemorySize = "taskmanager.memory.segment-size" => MemorySize(32 << 10);
    /// Buffers that a receiver grants to one channel once data flows.
    BUFFERS_PER_CHANNEL: NonZeroU32 = "taskmanager.network.memory.buffers-per-channel" => nonzero(2);
    /// Buffers that the channels of one input share on top.
    FLOATING_BUFFERS_PER_GATE: u32 = "taskmanager.network.memory.floating-buffers-per-gate" => 8;
    /// How long a task waits for a connection to the process of its producer.
    CONNECT_TIMEOUT: Duration = "taskmanager.network.connect-timeout" => Duration::from_secs(10), must be_longer_than_zero;
    /// How often a lost or refused data connection is tried again.
    CONNECT_RETRIES: u32 = "taskmanager.network.retries" => 3;
    /// Serialises records also where both tasks run in one process; for tests of codecs.
    FORCE_SERIALIZATION: bool = "exchange.force-serialization" => false;
    /// How long a batch of records may wait for more of them before it is sent on; `0 ms` sends every record at once.
    BUFFER_TIMEOUT: Duration = "execution.buffer-timeout" => Duration::from_millis(100),
        other ["execution.buffer-timeout.interval"];
}

/// `n`, where it is not 0.
fn nonzero(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN)
}
