//! Options of the REST endpoint and the dashboard.

use crate::declare::options;
use model::MemorySize;
use model::PortSpec;
use std::{path::PathBuf, time::Duration};

options! {
    /// The host name or address under which clients reach REST.
    ADDRESS: String = "rest.address" => "localhost".to_owned(), falls_back "jobmanager.rpc.address";
    /// The port under which clients reach REST; also bound, unless `rest.bind-port` says otherwise.
    PORT: PortSpec = "rest.port" => PortSpec::one(8081);
    /// The interface that REST binds to. On YARN REST asks for a token; elsewhere it has no credentials, and anywhere but
    /// on loopback uploads are off unless `web.submit.enable` is set.
    BIND_ADDRESS: String = "rest.bind-address" => "localhost".to_owned();
    /// The port that REST binds to, where it differs from the advertised one.
    BIND_PORT: PortSpec = "rest.bind-port" => PortSpec::one(8081), falls_back "rest.port";
    /// The largest request body, uploads aside: these are streamed to disk. Bodies of requests under way share a
    /// budget of 32 MiB, or this where it is more.
    MAX_CONTENT_LENGTH: MemorySize = "rest.server.max-content-length" => MemorySize::from_mib(1);
    /// The most connections to REST at once.
    MAX_CONNECTIONS: u32 = "rest.server.max-connections" => 1024;
    /// Maximum time for which a client of REST (the command line) tries to connect.
    CONNECT_TIMEOUT: Duration = "rest.connection-timeout" => Duration::from_secs(15), must be_longer_than_zero;
    /// Whether programs may be uploaded and run through REST. Where it is not set: while REST binds to loopback, and on YARN,
    /// where a token protects it.
    SUBMIT_ENABLE: Option<bool> = "web.submit.enable" => None;
    /// Whether jobs may be cancelled through REST.
    CANCEL_ENABLE: bool = "web.cancel.enable" => true;
    /// Directory of uploaded programs. If it is not set, a directory under `io.tmp.dirs` that is
    /// emptied at the end.
    UPLOAD_DIR: Option<PathBuf> = "web.upload.dir" => None;
    /// The largest program that can be uploaded.
    MAX_UPLOAD_SIZE: MemorySize = "web.max-upload-size" => MemorySize::from_mib(1024);
    /// Number of failures of a job that are kept and shown, the newest, at least one.
    EXCEPTION_HISTORY_SIZE: u32 = "web.exception-history-size" => 16;
    /// Number of checkpoints and savepoints of a job that are shown, failed ones included, the newest, at least one.
    CHECKPOINT_HISTORY_SIZE: u32 = "web.checkpoints.history" => 10;
    /// Interval at which the dashboard asks for what it shows again; REST tells it by `/config`.
    REFRESH_INTERVAL: Duration = "web.refresh-interval" => Duration::from_secs(3), must be_longer_than_zero;
}
