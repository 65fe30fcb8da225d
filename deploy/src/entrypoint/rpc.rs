//! The fabric's settings from the options.

use crate::cluster_files::ClusterIdentity;
use crate::entrypoint::StartError;
use conf::{Opt, Options, jobmanager, rpc, security, taskmanager};
use gateways::{ListenOptions, RpcOptions, RpcService, RpcStartError};
use model::ClusterId;
use platform::handshake::{Credentials, Identity, Secret};
use platform::{Platform, Tls, TlsPem};
use std::path::PathBuf;

/// Binds a JobManager's port.
pub(super) async fn start_jobmanager(
    platform: &Platform,
    options: &Options,
    identity: &ClusterIdentity,
) -> Result<RpcService, StartError> {
    let settings = settings(options, Some(of_jobmanager(options)), identity)?;
    let ports = match options.get(&jobmanager::RPC_BIND_PORT) {
        Some(_) => jobmanager::RPC_BIND_PORT.key(),
        None => jobmanager::RPC_PORT.key(),
    };
    let host = jobmanager::BIND_HOST.key();
    let started = RpcService::start(platform.clone(), settings).await;
    started.map_err(|e| not_bound("the JobManager's RPC", e, ports, host))
}

/// Binds a TaskManager's port.
pub(super) async fn start_taskmanager(
    platform: &Platform,
    options: &Options,
    identity: &ClusterIdentity,
    host: &str,
) -> Result<RpcService, StartError> {
    let settings = settings(options, Some(of_taskmanager(options, host)), identity)?;
    let (ports, host) = (taskmanager::RPC_PORT.key(), taskmanager::BIND_HOST.key());
    let started = RpcService::start(platform.clone(), settings).await;
    started.map_err(|e| not_bound("the TaskManager's RPC", e, ports, host))
}

fn not_bound(
    what: &str,
    RpcStartError::Bind { host: at, ports: tried, why }: RpcStartError,
    ports: &'static str,
    host: &'static str,
) -> StartError {
    let why = format!("{what}: no port of {tried} can be bound on {at}: {why}");
    StartError::Port { why, ports, host }
}

/// Returns the addresses and ports on which a JobManager listens.
fn of_jobmanager(options: &Options) -> ListenOptions {
    let ports = options
        .get(&jobmanager::RPC_BIND_PORT)
        .unwrap_or_else(|| options.get(&jobmanager::RPC_PORT));
    ListenOptions {
        bind_host: options.get(&jobmanager::BIND_HOST),
        advertised_host: options.get(&jobmanager::RPC_ADDRESS),
        ports,
    }
}

/// Returns the addresses and ports on which a TaskManager listens.
fn of_taskmanager(options: &Options, host: &str) -> ListenOptions {
    ListenOptions {
        bind_host: options.get(&taskmanager::BIND_HOST),
        advertised_host: host.to_owned(),
        ports: options.get(&taskmanager::RPC_PORT),
    }
}

/// Collects all settings of a process's RPC service.
fn settings(
    options: &Options,
    listen: Option<ListenOptions>,
    identity: &ClusterIdentity,
) -> Result<RpcOptions, StartError> {
    let bytes = |size: model::MemorySize| usize::try_from(size.0).unwrap_or(usize::MAX);
    let mut settings = RpcOptions::in_process();
    settings.listen = listen;
    settings.credentials = Credentials {
        cluster: ClusterId::new(identity.id.clone()),
        identity: Identity::Cluster,
        secret: Secret::new(identity.secret.clone()),
    };
    settings.tls = tls(options)?;
    settings.ask_timeout = options.get(&rpc::ASK_TIMEOUT);
    settings.connect_timeout = options.get(&rpc::CONNECT_TIMEOUT);
    settings.reconnect_max = options.get(&rpc::RECONNECT_BACKOFF_MAX);
    settings.frame_max = bytes(options.get(&rpc::FRAME_MAX));
    settings.body_memory = bytes(options.get(&rpc::PAYLOAD_MEMORY));
    let folders = options.get(&conf::cluster::TMP_DIRS).0;
    settings.body_folders = folders.into_iter().map(PathBuf::from).collect();
    settings.mailbox_max = u64::from(options.get(&rpc::MAILBOX_SIZE).get());
    settings.connections_max =
        usize::try_from(options.get(&rpc::CONNECTIONS_MAX)).unwrap_or(usize::MAX);
    settings.suspicion_max = options.get(&conf::heartbeat::CONFIRM_WITHIN);
    Ok(settings)
}

/// Reads the TLS settings between the processes of the cluster; `None` if TLS is switched off.
fn tls(options: &Options) -> Result<Option<Tls>, StartError> {
    if !options.get(&security::SSL_INTERNAL_ENABLED) {
        return Ok(None);
    }
    let pem = TlsPem {
        authority: pem(options, &security::SSL_INTERNAL_CA)?,
        chain: pem(options, &security::SSL_INTERNAL_CERT)?,
        key: pem(options, &security::SSL_INTERNAL_KEY)?,
    };
    Tls::new(pem).map(Some).map_err(|e| StartError::Invalid(e.to_string()))
}

fn pem(options: &Options, option: &Opt<Option<PathBuf>>) -> Result<String, StartError> {
    let Some(path) = options.get(option) else {
        return Err(StartError::Invalid(format!(
            "security.ssl.internal.enabled is set: {} is missing",
            option.key()
        )));
    };
    std::fs::read_to_string(&path)
        .map_err(|e| StartError::storage(format!("{} {}", option.key(), path.display()), e))
}
