//! Options of the RPC fabric and the BlobServer.

use crate::declare::options;
use model::MemorySize;
use std::{num::NonZeroU32, path::PathBuf, time::Duration};

options! {
    /// Maximum time of a call that does not set its own.
    ASK_TIMEOUT: Duration = "rpc.ask-timeout" => Duration::from_secs(10),
        other ["akka.ask.timeout", "pekko.ask.timeout"], must be_longer_than_zero;
    /// Maximum time to set up a connection; the handshake after it may take 5 s more.
    CONNECT_TIMEOUT: Duration = "rpc.connect-timeout" => Duration::from_secs(5),
        other ["akka.tcp.timeout", "pekko.tcp.timeout"], must be_longer_than_zero;
    /// The longest pause between two attempts to connect to a process; calls to it fail at once meanwhile.
    RECONNECT_BACKOFF_MAX: Duration = "rpc.reconnect-backoff.max" => Duration::from_secs(2),
        must be_longer_than_zero;
    /// The largest frame that a process takes from another one. Calls and answers over 256 KiB come in frames of that size.
    FRAME_MAX: MemorySize = "rpc.frame-max" => MemorySize::from_mib(8), must be_a_frame_size;
    /// Memory of a process for calls and answers over 256 KiB while they arrive. One that does not fit is written to a file in
    /// `io.tmp.dirs` meanwhile, so a call or answer may be of any size.
    PAYLOAD_MEMORY: MemorySize = "rpc.payload-memory" => MemorySize::from_mib(256);
    /// The most calls that wait for one endpoint; more are answered `Overloaded` at once.
    MAILBOX_SIZE: NonZeroU32 = "rpc.mailbox-size" => NonZeroU32::new(4096).unwrap_or(NonZeroU32::MIN);
    /// The most connections of a process at once; while there are so many, further ones that come in are closed at once.
    CONNECTIONS_MAX: u32 = "rpc.connections-max" => 16_384;
    /// The directory in which a JobManager makes a directory of its own for blobs; by default under `io.tmp.dirs`. With
    /// high availability, `high-availability.storageDir` holds copies of the programs that jobs need.
    BLOB_DIRECTORY: Option<PathBuf> = "blob.storage.directory" => None;
    /// Time for which a blob is kept that no job uses yet, and one that a cache has fetched and
    /// nothing uses. Blobs of a job are deleted with it.
    BLOB_CLEANUP_INTERVAL: Duration = "blob.cleanup-interval" => Duration::from_secs(3600),
        must be_longer_than_zero;
    /// Number of times a cache repeats the fetch of a blob that failed.
    BLOB_FETCH_RETRIES: u32 = "blob.fetch.retries" => 5;
    /// The most bytes of programs and blobs that a cache keeps on disk; beyond it those that nothing uses are removed, the longest
    /// unused first.
    BLOB_CACHE_MAX: MemorySize = "blob.cache.size-max" => MemorySize::from_mib(10 << 10);
}
