//! The JobManager process: identity, folders, stores and ports, then REST and the components in order, and
//! the way back.

use super::application_end::ApplicationEnd;
use super::rest_endpoint::{self, EndpointPlan};
use super::stores::{HaData, Stores};
use super::{StartError, rpc};
use crate::cli;
use crate::components::{
    BaseParts, ClusterEnd, ClusterMode, JobManagerComponents, JobManagerParts,
};
use crate::exit::Exit;
use crate::host_memory::ProcessLimit;
use crate::launchers::{Launcher, LauncherParts};
use crate::logging::LogPlace;
use crate::results;
use crate::stop::{Behaviour, Stop, StopTrigger};
use crate::target::{self, External, ExternalParts, Role};
use crate::work_folder::WorkFolder;
use actors::program_hosts::ProgramHostLauncher;
use actors::services::LeaderRetrieval;
use conf::resourcemanager::DEREGISTER_TIMEOUT;
use conf::{Options, cluster, execution, jobmanager as options_of_jm};
use futures::future::LocalBoxFuture;
use gateways::RpcService;
use gateways::leader_election::Component;
use gateways::resource_manager::{ApplicationStatus, DeregisterApplication};
use model::{ContentHash, DispatcherId, JobId, JobStatus, ResourceId};
use platform::{Platform, PortSpec};
use rest::RestHandle;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::BlobStore;
use streaming::ProgramEntry;

/// The settings that a JobManager process is started with.
pub(crate) struct JobManagerProcess {
    /// The effective options of the process: configuration file, environment and command line together; they do not change
    /// later, except that drawn ports are filled in.
    pub options: Options,
    /// Place of the process's log, which is set up already: users are shown the files beside it.
    pub log: LogPlace,
    /// Limit on the memory of the process and its program hosts together; shortly before they exceed it, a host is ended.
    pub memory: ProcessLimit,
    /// Mode of the cluster: session, application or per job.
    pub mode: ClusterMode,
    /// Path of the program's file that TaskManagers may have to fetch: put into the blob store before anything runs.
    /// `None` in a session, and on YARN in application mode, where containers have the program already.
    pub ship: Option<PathBuf>,
    /// The program that this process's executable is, with the hash of its file, in application mode; `None` in other
    /// modes.
    pub entry: Option<(ProgramEntry, ContentHash)>,
    /// Called once, when the REST endpoint answers and the components are started, with the process's addresses.
    pub ready: Box<dyn FnOnce(&ReadyAddresses)>,
}

/// The addresses of a running JobManager, with the bound ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyAddresses {
    /// URL of the REST endpoint, `http://host:port`.
    pub rest: String,
    /// RPC address of the process, `host:port`, to which TaskManagers connect.
    pub rpc: String,
}

/// Runs a JobManager to its end. Must be polled inside a `LocalSet`.
pub(crate) async fn run(process: JobManagerProcess) -> Result<Exit, StartError> {
    let trigger = StopTrigger::of_signals();
    let within = process.options.get(&cluster::SHUTDOWN_TIMEOUT);
    // Else the log says it on standard error.
    let to_file = process.log.file.is_some();
    let starting = start(process, &trigger);
    let running = tokio::select! {
        biased;
        stop = trigger.pulled() => return Err(StartError::Stopped(stop)),
        started = starting => started?,
    };
    let for_client = running.serves_client();
    let results = if for_client { Box::pin(std::future::pending()) } else { running.own_results() };
    tokio::pin!(results);
    let mut printed = None;
    let stop = loop {
        tokio::select! {
            biased;
            stop = trigger.pulled() => break stop,
            outcome = &mut results, if printed.is_none() => printed = Some(outcome),
            end = running.components.ended() => {
                // A job that could not be submitted has nothing to fetch.
                if for_client && end.diagnostics.is_none() {
                    let fetched = running.components.dismissed();
                    tokio::select! {
                        biased;
                        stop = trigger.pulled() => tracing::info!(%stop, "stopped while waiting for the client to fetch results"),
                        _ = tokio::time::timeout(RESULTS_WITHIN, fetched) => {}
                    }
                }
                let finished = !for_client && matches!(end.job, Some((_, JobStatus::Finished)));
                if finished && printed.is_none() {
                    // They are all there now; the process must not end before they are out.
                    printed = tokio::time::timeout(RESULTS_WITHIN, &mut results).await.ok();
                }
                let stop = application_end(end);
                break if finished { with_results(stop, printed) } else { stop };
            }
        }
    };
    if stop.exit != Exit::Success && to_file {
        cli::complain(&stop.reason);
    }
    Ok(running.shut_down(stop, within).await)
}

/// Changes the exit of a job whose results could not be delivered: it has not done its work,
/// whatever its state.
fn with_results(stop: Stop, printed: Option<Result<(), Exit>>) -> Stop {
    match printed {
        Some(Ok(())) => stop,
        Some(Err(exit)) => Stop { exit, ..stop },
        None => {
            tracing::error!(within = ?RESULTS_WITHIN, "not all results could be printed");
            Stop { exit: Exit::Unknown, ..stop }
        }
    }
}

/// Maximum time after a job's end for the application's results to be printed, or fetched by its
/// client.
const RESULTS_WITHIN: Duration = Duration::from_secs(30);
/// Interval at which the process checks whether they have been.
const RESULTS_POLL: Duration = Duration::from_millis(50);

fn application_end(end: ClusterEnd) -> Stop {
    let exit = match end.status {
        ApplicationStatus::Succeeded | ApplicationStatus::Canceled => Exit::Success,
        ApplicationStatus::Failed => Exit::JobFailed,
        ApplicationStatus::Unknown => Exit::Unknown,
    };
    let what = match end.job {
        Some((job, status)) => format!("job {job} ended as {status}"),
        None => format!("the cluster was asked to end ({:?})", end.status),
    };
    Stop {
        reason: match end.diagnostics {
            Some(text) => format!("{what}: {text}"),
            None => what,
        },
        behaviour: Behaviour::StopApplication(end.status),
        exit,
    }
}

/// Everything of a running process, in the order in which it was started.
struct Running {
    work: WorkFolder,
    rpc: RpcService,
    rest: RestHandle,
    components: JobManagerComponents,
    ha: HaData,
    /// The folder of the blobs, if it is not in the work folder.
    blob_folder: Option<WorkFolder>,
    /// The job of an application or per-job cluster.
    own_job: Option<JobId>,
    /// Source of workers of an external resource system, and what is left to remove there at the
    /// end.
    external: External,
}

async fn start(process: JobManagerProcess, trigger: &StopTrigger) -> Result<Running, StartError> {
    let platform = Platform::production();
    let options = process.options;
    let identity = target::identity(&platform, &options, Role::JobManager).await?;
    let rpc_service = rpc::start_jobmanager(&platform, &options, &identity).await?;
    let (bind, listener) = rest_endpoint::bind(&options)?;
    let options = Arc::new(written_back(options, &rpc_service, listener.address.bound.port()));
    let work = WorkFolder::on_all_disks(&options, "jobmanager", platform.random_u64())?;
    let stores = Stores::open(&platform, &options, &work).await?;
    ship(process.ship.as_deref(), &*stores.blobs).await?;
    let base = base_parts(&platform, &rpc_service, &options);
    tokio::task::spawn_local(trigger.clone().watch_fatal(base.fatal.clone()));
    let address = listener.address.clone();
    let external = target::external(ExternalParts {
        platform: &platform,
        options: &options,
        rest: &address.url,
        fatal: &base.fatal,
    })
    .await?;
    let plan = EndpointPlan {
        bind,
        access: target::rest_access(&platform, &options)?,
        options: options.clone(),
        log: process.log.clone(),
        uploads: sub(&work, "uploads")?,
        single_job: single_job(&process.mode),
    };
    let own_job = own_job(&process.mode);
    let own_program = process.entry.as_ref().map(|(_, hash)| *hash);
    let launcher: Arc<dyn ProgramHostLauncher> = Arc::new(Launcher::new(LauncherParts {
        rpc: rpc_service.clone(),
        options: options.clone(),
        fatal: base.fatal.clone(),
        entry: process.entry.map(|(entry, _)| entry),
        embedded: false,
        folders: platform::Disks::new(work.subs("hosts")?),
        log: process.log,
        memory: Some(process.memory),
    }));
    let parts = JobManagerParts {
        base,
        election: stores.election.clone(),
        standby: stores.standby,
        rest: address.url.clone(),
        objects: stores.ha.objects.clone(),
        details: stores.details.clone(),
        checkpoint_directory: stores.checkpoints.clone(),
        blobs: stores.blobs.clone(),
        durable: stores.ha.durable.clone(),
        launcher,
        workers: external.workers.clone(),
        mode: process.mode,
        own_program,
        embedded: false,
    };
    let mut rest = None;
    let slot = &mut rest;
    let components = JobManagerComponents::start(parts, async move |ready| {
        *slot = Some(rest_endpoint::start(plan, listener, ready)?);
        Ok(())
    })
    .await?;
    let rest = rest.ok_or_else(|| StartError::Invalid("REST was not started".to_owned()))?;
    let ready = ReadyAddresses { rest: address.url, rpc: rpc_service.node().to_string() };
    tracing::info!(rest = %ready.rest, rpc = %ready.rpc, "JobManager is up");
    (process.ready)(&ready);
    let Stores { ha, blob_folder, .. } = stores;
    Ok(Running { work, rpc: rpc_service, rest, components, ha, blob_folder, own_job, external })
}

async fn ship(program: Option<&Path>, blobs: &dyn BlobStore) -> Result<(), StartError> {
    let Some(path) = program else { return Ok(()) };
    storage::blobs::store_file(blobs, path, None, model::BlobKind::Permanent)
        .await
        .map(drop)
        .map_err(|e| StartError::storage(format!("program {}", path.display()), e))
}

fn base_parts(platform: &Platform, rpc: &RpcService, options: &Arc<conf::Options>) -> BaseParts {
    let resource_id = options
        .get(&options_of_jm::RESOURCE_ID)
        .unwrap_or_else(|| format!("{}-{:08x}", rpc.node(), platform.random_u64() >> 32));
    BaseParts::new(
        platform.clone(),
        rpc.clone(),
        options.clone(),
        ResourceId::new(resource_id),
        options.get(&options_of_jm::RPC_ADDRESS),
    )
}

/// Returns the name of the mode if the cluster runs one job only.
fn single_job(mode: &ClusterMode) -> Option<&'static str> {
    match mode {
        ClusterMode::Session => None,
        ClusterMode::Application(_) => Some("application"),
        ClusterMode::PerJob(_) => Some("per-job"),
    }
}

fn own_job(mode: &ClusterMode) -> Option<JobId> {
    match mode {
        ClusterMode::Session => None,
        ClusterMode::Application(submit) => submit.job_id,
        ClusterMode::PerJob(graph) => Some(graph.job_id),
    }
}

impl Running {
    /// Returns true if a client fetches what the job of the application collects: this process then prints none of it (what one
    /// reader has read is forgotten), and waits a while for the client before it ends.
    fn serves_client(&self) -> bool {
        let options = &self.components.services().options;
        // Only a client that waits sets it in the staged options.
        let attached = options.is_set(&execution::ATTACHED) && options.get(&execution::ATTACHED);
        attached && self.external.is_active() && self.own_job.is_some()
    }

    /// Prints the results that the job of an application collects: this process is the job's client. If the results can't be
    /// printed, logs and prints why, and returns the exit code of the process.
    fn own_results(&self) -> LocalBoxFuture<'static, Result<(), Exit>> {
        let Some(job_id) = self.own_job else {
            return Box::pin(std::future::pending());
        };
        let mut leader = self.components.own_leaders().watch(Component::Dispatcher);
        let rpc = self.rpc.clone();
        Box::pin(async move {
            let known = match leader.wait_for(Option::is_some).await {
                Ok(known) => known.clone(),
                Err(_) => return Ok(()),
            };
            let Some(leader) = known else { return Ok(()) };
            let dispatcher = rpc.gateway(&leader.address, DispatcherId(leader.session));
            results::print_own(dispatcher, job_id, RESULTS_POLL).await.map_err(|error| {
                tracing::error!(%error, "results");
                cli::complain(&error.to_string());
                error.exit()
            })
        })
    }

    /// Ends all components in reverse order; each step and the whole have a time limit. Deregistering the application
    /// comes first and has its own time-out. Returns the exit code.
    async fn shut_down(self, stop: Stop, within: Duration) -> Exit {
        tracing::info!(reason = %stop, exit = stop.exit.code(), "JobManager is shutting down");
        let Self { work, rpc, rest, components, ha, blob_folder, own_job, external } = self;
        // Else uploads are there after this process, too.
        let forget_uploads = components.services().options.get(&conf::rest::UPLOAD_DIR).is_none();
        let mut exit = stop.exit;
        if let Behaviour::StopApplication(status) = stop.behaviour {
            let end = ApplicationEnd {
                leader: components.own_leaders().watch(Component::ResourceManager),
                goodbye: DeregisterApplication { status, diagnostics: Some(stop.reason.clone()) },
                within: components.services().options.get(&DEREGISTER_TIMEOUT),
                external: external.is_active(),
            };
            exit = end.deregister(&rpc, exit).await;
        }
        let ordered = async {
            rest.stop().await;
            if forget_uploads {
                components.forget_uploads().await;
            }
            components.stop().await;
            rpc.shutdown(Duration::from_secs(1)).await;
        };
        if tokio::time::timeout(within, ordered).await.is_err() {
            tracing::warn!(?within, "the shutdown took too long: ending without order");
        }
        if let Behaviour::StopApplication(_) = stop.behaviour {
            ha.clean(own_job.is_some()).await;
            if exit != Exit::Fatal {
                external.clean().await;
            }
        }
        drop((blob_folder, work));
        exit
    }
}

/// Returns the options with the bound ports, where others look for them.
fn written_back(options: Options, rpc: &RpcService, rest: u16) -> Options {
    let mut options = options;
    if let Some(port) = rpc.node().port() {
        options = options.with_value(&options_of_jm::RPC_PORT, &PortSpec::one(port));
    }
    options.with_value(&conf::rest::PORT, &PortSpec::one(rest))
}

fn sub(work: &WorkFolder, name: &str) -> Result<PathBuf, StartError> {
    work.sub(name).map_err(|e| StartError::storage(name, e))
}
