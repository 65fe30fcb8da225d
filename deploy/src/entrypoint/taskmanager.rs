//! The TaskManager process: identity, folders and ports, then its components, and the way back.

use super::{StartError, ha_store, opened, rpc};
use crate::components::{BaseParts, TaskManagerComponents, TaskManagerParts};
use crate::container;
use crate::exit::Exit;
use crate::facts;
use crate::host_memory::ProcessLimit;
use crate::hosts;
use crate::launchers::{Launcher, LauncherParts};
use crate::logging::LogPlace;
use crate::stop::{Behaviour, Stop, StopTrigger};
use crate::target::{self, Role};
use crate::work_folder::WorkFolder;
use actors::leader_retrieval::{LeaderNode, RemoteRetrieval, RetrievalSettings};
use actors::services::FatalErrorHandler;
use actors::task_executor::{HostSettings, LogFolder};
use conf::high_availability::{self as ha, HaType};
use conf::memory::{self, Machine};
use conf::{
    Options, cluster, jobmanager as options_of_jm, taskmanager as options_of_tm, taskmanager_memory,
};
use gateways::{NodeAddress, RpcService};
use model::{ContentHash, JobId, MemorySize, ResourceId, WorkerResourceSpec};
use platform::{Platform, PortSpec};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::FileBlobs;
use storage::ha::{ElectionDriver, FileElection, FileElectionSettings};
use streaming::ProgramEntry;

/// The settings that a TaskManager process is started with.
pub(crate) struct TaskManagerProcess {
    /// The effective options of the process: configuration file, environment and command line together.
    pub options: Options,
    /// Place of the process's log, which is set up already: users are shown the files beside it.
    pub log: LogPlace,
    /// The program that this process's executable is, with the hash of its file; its tasks run in this process.
    /// `None` for the binary `flott`, which runs each program in a child.
    pub entry: Option<(ProgramEntry, ContentHash)>,
    /// Called once, when the components are up, with the RPC address `host:port`.
    pub ready: Box<dyn FnOnce(&str)>,
}

/// Runs a TaskManager to its end. Must be polled inside a `LocalSet`.
pub(crate) async fn run(process: TaskManagerProcess) -> Result<Exit, StartError> {
    let trigger = StopTrigger::of_signals();
    let within = process.options.get(&cluster::SHUTDOWN_TIMEOUT);
    let starting = start(process, &trigger);
    let running = tokio::select! {
        biased;
        stop = trigger.pulled() => return Err(StartError::Stopped(stop)),
        started = starting => started?,
    };
    let stop = tokio::select! {
        biased;
        stop = trigger.pulled() => stop,
        why = running.components.released() => Stop {
            reason: format!("released by the ResourceManager: {why}"),
            behaviour: Behaviour::StopProcess,
            exit: Exit::Success,
        },
    };
    Ok(running.shut_down(stop, within).await)
}

/// Returns the resources that a TaskManager offers and the memory of its process, from the options, this machine and the
/// container that it runs in.
pub(crate) fn offer(options: &Options) -> Result<(WorkerResourceSpec, MemorySize), StartError> {
    let cores = std::thread::available_parallelism()
        .ok()
        .and_then(|n| u32::try_from(n.get()).ok())
        .and_then(NonZeroU32::new)
        .unwrap_or(NonZeroU32::MIN);
    let machine = Machine { cores, memory_limit: container::taskmanager_limit(options) };
    let failed = |e: memory::MemoryError| StartError::Memory(e.to_string());
    let spec = memory::worker_resource_spec(options, &machine).map_err(failed)?;
    let parts = memory::task_manager_memory(options, machine.memory_limit).map_err(failed)?;
    tracing::info!(memory = %parts, slots = spec.slots, "what this TaskManager is made of");
    Ok((spec, parts.total()))
}

/// Everything of a running process, in the order in which it was started.
struct Running {
    work: WorkFolder,
    rpc: RpcService,
    components: TaskManagerComponents,
}

async fn start(process: TaskManagerProcess, trigger: &StopTrigger) -> Result<Running, StartError> {
    let platform = Platform::production();
    let options = process.options;
    let (spec, process_memory) = offer(&options)?;
    let identity = target::identity(&platform, &options, Role::TaskManager).await?;
    let host = hosts::of_taskmanager(&options);
    let rpc_service = rpc::start_taskmanager(&platform, &options, &identity, &host).await?;
    let options = Arc::new(written_back(options, &rpc_service));
    let work = WorkFolder::on_all_disks(&options, "taskmanager", platform.random_u64())?;
    let resource_id = options
        .get(&options_of_tm::RESOURCE_ID)
        .unwrap_or_else(|| format!("{}-{:08x}", rpc_service.node(), platform.random_u64() >> 32));
    let base = BaseParts::new(
        platform.clone(),
        rpc_service.clone(),
        options.clone(),
        ResourceId::new(resource_id),
        host.clone(),
    );
    tokio::task::spawn_local(trigger.clone().watch_fatal(base.fatal.clone()));
    let cache = work.subs("blobs")?;
    let blobs = opened("blob cache", || FileBlobs::open_on(cache)).await?;
    let own_program = process.entry.as_ref().map(|(_, hash)| *hash);
    let launcher = Launcher::new(LauncherParts {
        rpc: rpc_service.clone(),
        options: options.clone(),
        fatal: base.fatal.clone(),
        entry: process.entry.map(|(entry, _)| entry),
        embedded: false,
        folders: platform::Disks::new(work.subs("hosts")?),
        log: process.log.clone(),
        memory: Some(ProcessLimit {
            size: process_memory,
            option: taskmanager_memory::PROCESS_SIZE.key(),
        }),
    });
    let retrieval = retrieval(&platform, &options, &rpc_service).await?;
    watch_refusals(retrieval.clone(), base.fatal.clone());
    let keys = rpc_service.clone();
    let parts = TaskManagerParts {
        retrieval: Arc::new(retrieval),
        blobs: Arc::new(blobs),
        shares_blobs: false,
        launcher: Arc::new(launcher),
        own_program,
        embedded: false,
        spec,
        process_memory,
        facts: facts::of_this_process(&options),
        pid: std::process::id(),
        hosts: HostSettings::from_options(&options, rpc_service.cluster_id().clone(), host),
        data_key: Arc::new(move |job| job_key(&keys, job)),
        logs: log_folder(&process.log),
        base,
    };
    let components = TaskManagerComponents::start(parts).await?;
    facts::publish_memory(&components.services().metrics);
    tracing::info!(rpc = %rpc_service.node(), "TaskManager is up");
    (process.ready)(&rpc_service.node().to_string());
    Ok(Running { work, rpc: rpc_service, components })
}

impl Running {
    /// Shuts the components down in the reverse order of their start. After `within` the process
    /// ends without waiting for the rest.
    async fn shut_down(self, stop: Stop, within: Duration) -> Exit {
        tracing::info!(reason = %stop, exit = stop.exit.code(), "TaskManager is shutting down");
        let Self { work, rpc, components } = self;
        let ordered = async {
            components.stop(&stop.reason).await;
            rpc.shutdown(Duration::from_secs(1)).await;
        };
        if tokio::time::timeout(within, ordered).await.is_err() {
            tracing::warn!(?within, "the shutdown took too long: ending without order");
        }
        drop(work);
        stop.exit
    }
}

/// Returns the key of a job's data connections.
pub(crate) fn job_key(rpc: &RpcService, job: JobId) -> [u8; 32] {
    let secret = rpc.job_key(job);
    let mut key = [0; 32];
    for (to, from) in key.iter_mut().zip(secret.expose()) {
        *to = *from;
    }
    key
}

fn log_folder(log: &LogPlace) -> Option<LogFolder> {
    Some(LogFolder::new(log.folder()?, vec![log.stem()?]))
}

fn written_back(options: Options, rpc: &RpcService) -> Options {
    match rpc.node().port() {
        Some(port) => options.with_value(&options_of_tm::RPC_PORT, &PortSpec::one(port)),
        None => options,
    }
}

/// Ends the process if the JobManager refuses it, because it will not accept it later.
fn watch_refusals(refusing: RemoteRetrieval, fatal: FatalErrorHandler) {
    tokio::task::spawn_local(async move {
        let why = refusing.refused().await;
        fatal.report(
            "leader_retrieval",
            format!("the JobManager does not take this TaskManager: {why}"),
        );
    });
}

/// Returns the source of leader information: the JobManager, at the address in the options or in
/// the HA store's record.
async fn retrieval(
    platform: &Platform,
    options: &Options,
    rpc: &RpcService,
) -> Result<RemoteRetrieval, StartError> {
    let node = match options.get(&ha::TYPE) {
        HaType::None => {
            let host = options.get(&options_of_jm::RPC_ADDRESS);
            let port = options.get(&options_of_jm::RPC_PORT).first();
            if port == 0 {
                return Err(StartError::Invalid(
                    "jobmanager.rpc.port is 0: a TaskManager needs the port that the JobManager bound"
                        .to_owned(),
                ));
            }
            LeaderNode::Fixed(NodeAddress::of(&host, port))
        }
        HaType::Filesystem => {
            let objects = ha_store::open(options, platform).await?;
            let settings = FileElectionSettings {
                lease_duration: options.get(&ha::LEASE_DURATION),
                renew_interval: options.get(&ha::LEASE_RENEW_INTERVAL),
            };
            LeaderNode::Record(FileElection::new(platform.clone(), objects, settings).leader())
        }
    };
    let settings = RetrievalSettings::default();
    Ok(RemoteRetrieval::new(platform.clone(), rpc.clone(), node, None, settings))
}
