//! Options of high availability.

use crate::{declare::options, value::choices};
use std::time::Duration;

choices! {
    /// The storage of everything that must survive the loss of a JobManager: job graphs, pointers to checkpoints, and the election of the
    /// leader (`high-availability.type`). With `None`, the default, nothing survives, and there is one JobManager without an election; with
    /// `Filesystem` it is a folder or bucket that several JobManagers share (`high-availability.storageDir`).
    pub enum HaType {
        /// No high availability: jobs are lost with the JobManager.
        None = "none",
        /// Jobs, checkpoints' pointers and the election are stored in
        /// `high-availability.storageDir`.
        Filesystem = "filesystem",
    }
}

options! {
    /// The storage of what has to survive a JobManager: `none` (nothing survives), or `filesystem`
    /// (jobs, checkpoints' pointers and the election itself in `high-availability.storageDir`).
    TYPE: HaType = "high-availability.type" => HaType::None, other ["high-availability"];
    /// The storage for everything that must survive a JobManager: a path or a URI that every JobManager and TaskManager
    /// can reach. `s3://bucket/prefix` and `hdfs://nameservice/path` need a build with the cargo feature `s3` or
    /// `hdfs`, and `blob.storage.directory`. An S3 server must support conditional writes (`If-None-Match`), as
    /// Amazon's does.
    STORAGE_DIR: Option<String> = "high-availability.storageDir" => None;
    /// The cluster's own name under `high-availability.storageDir`.
    CLUSTER_ID: String = "high-availability.cluster-id" => "default".to_owned();
    /// Time for which a leader's lease is valid without being renewed.
    LEASE_DURATION: Duration = "high-availability.filesystem.lease-duration" => Duration::from_secs(5),
        must be_longer_than_zero;
    /// Interval at which a leader renews its lease, and at which the other JobManagers look at it.
    LEASE_RENEW_INTERVAL: Duration = "high-availability.filesystem.renew-interval" => Duration::from_secs(1),
        must be_longer_than_zero;
}
