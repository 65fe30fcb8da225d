//! Options of the cluster as a whole.

use crate::{List, declare::options, value::choices};
use std::{path::PathBuf, time::Duration};

choices! {
    /// The system that starts the cluster's processes and, if it can, more TaskManagers on demand (`cluster.driver`): only YARN can. The
    /// client that deploys the cluster sets it; `standalone` by default.
    pub enum Driver {
        /// A person, a script or the client starts the processes: the cluster requests no TaskManagers, and uses those that register.
        Standalone = "standalone",
        /// YARN: each process runs in a container of one application, and the ResourceManager requests TaskManagers as jobs need them.
        Yarn = "yarn",
    }
}

options! {
    /// The cluster's id. Processes of different clusters refuse each other. Made by `start-cluster.sh` or the
    /// client where it is not set.
    ID: Option<String> = "cluster.id" => None;
    /// A file that holds the cluster's id; every role waits for it and reads it. Made by `start-cluster.sh`.
    ID_FILE: Option<PathBuf> = "cluster.id-file" => None;
    /// The system that starts the cluster's processes. Set by the client that deploys a cluster,
    /// never by users.
    DRIVER: Driver = "cluster.driver" => Driver::Standalone;
    /// Maximum time a role waits for the files of `cluster.id-file` and `security.cluster-secret-file` to appear; then its start
    /// fails.
    FILES_TIMEOUT: Duration = "cluster.files-timeout" => Duration::from_secs(10);
    /// Maximum time of an orderly shutdown; then the process ends anyway.
    SHUTDOWN_TIMEOUT: Duration = "cluster.shutdown-timeout" => Duration::from_secs(10), must be_longer_than_zero;
    /// Directories for blobs, programs, spilled data and working directories of program hosts, on as many disks. Working
    /// directories, the blobs of a JobManager, those in the cache of a TaskManager, and the bodies of calls that do not fit into
    /// memory go to them in turn, passing over a disk that is full or read-only. Uploads, the details of ended jobs, and the
    /// checkpoints of jobs without a directory, where only this machine reaches the JobManager and there is no high availability, are
    /// in the first directory. Where a container has local directories of its own, those are the default.
    TMP_DIRS: List = "io.tmp.dirs" => List(vec!["/tmp".to_owned()]),
        other ["taskmanager.tmp.dirs", "web.tmpdir"];
}
