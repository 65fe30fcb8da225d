//! A program by itself: its job runs in a cluster inside its own process, its results are printed, the exit
//! code is the job's.
//!
//! The same components as in a cluster of processes; only ports for RPC and REST, shipped files and other hosts are missing.

mod run;

pub use run::run;

use crate::cluster_files::private_identity;
use crate::components::{
    BaseParts, ClusterMode, ComponentError, JobManagerComponents, JobManagerParts,
    TaskManagerComponents, TaskManagerParts,
};
use crate::entrypoint::StartError;
use crate::launchers::{Launcher, LauncherParts};
use crate::logging::LogPlace;
use crate::work_folder::WorkFolder;
use actors::resource_manager;
use actors::services::LeaderRetrieval;
use actors::task_executor::HostSettings;
use conf::{Options, taskmanager};
use gateways::dispatcher::DispatcherGateway;
use gateways::leader_election::Component;
use gateways::{Remote, RpcOptions, RpcService};
use model::{ClusterId, ContentHash, DispatcherId, ResourceId};
use platform::Platform;
use platform::handshake::{Credentials, Identity, Secret};
use std::sync::Arc;
use storage::blobs::MemoryBlobs;
use storage::ha::EmbeddedElection;
use storage::objects::MemoryObjects;
use streaming::ProgramEntry;

/// A cluster inside this process, in which a program runs its own job: one JobManager, one TaskManager, and a folder
/// for temporary files, which is removed when this value is dropped. It has neither an RPC port nor a REST endpoint; each job opens the TCP
/// port for the exchange of records (`taskmanager.data.port`, at `taskmanager.bind-host`), although its records stay inside the process. It
/// keeps jobs in memory only, and limits no task's memory. Dropping it asks both to stop, without waiting; [`stop`](Self::stop) waits.
pub struct EmbeddedCluster {
    jobmanager: JobManagerComponents,
    taskmanager: TaskManagerComponents,
    rpc: RpcService,
    _work: WorkFolder,
}

/// The content hash of a program that is never shipped: no file has it.
pub(crate) const OWN: ContentHash = ContentHash([0; 32]);

impl EmbeddedCluster {
    /// Starts a JobManager and one TaskManager with `slots` slots (0 counts as 1), whatever `taskmanager.numberOfTaskSlots`
    /// says. `entry` is the only program that the cluster can run. Submits no job, and returns before the Dispatcher leads and the
    /// TaskManager has registered.
    ///
    /// # Errors
    /// Returns a [`StartError`] if an option is wrong (memory above all), the temporary folder cannot be made, or the RPC service or a
    /// component does not start; what was started before is dropped.
    pub async fn start(
        entry: ProgramEntry,
        options: &Options,
        slots: u32,
    ) -> Result<Self, StartError> {
        let platform = Platform::production();
        let options = options
            .with(taskmanager::SLOTS.key(), slots.max(1).to_string())
            .map_err(|e| StartError::Invalid(e.to_string()))?;
        let options = Arc::new(options);
        let work = WorkFolder::on_all_disks(&options, "embedded", platform.random_u64())?;
        let identity = private_identity(&platform);
        let credentials = Credentials {
            cluster: ClusterId::new(identity.id),
            identity: Identity::Cluster,
            secret: Secret::new(identity.secret),
        };
        let plan = Plan { platform, options, entry, credentials, work: &work };
        let (rpc, jobmanager) = plan.jobmanager().await?;
        let taskmanager = plan.taskmanager(&jobmanager).await?;
        Ok(Self { jobmanager, taskmanager, rpc, _work: work })
    }

    /// Waits until the Dispatcher leads, without a time limit, and returns its gateway, by which jobs are submitted.
    ///
    /// # Errors
    /// Returns [`StartError::Invalid`] if the table of leaders is gone, which does not happen while this value lives. A JobManager that
    /// fails before is reported by [`EmbeddedCluster::failed`] only.
    pub async fn dispatcher(&self) -> Result<Remote<DispatcherGateway>, StartError> {
        let mut leader = self.jobmanager.own_leaders().watch(Component::Dispatcher);
        let known = leader
            .wait_for(Option::is_some)
            .await
            .map_err(|_| StartError::Invalid("the embedded JobManager has ended".to_owned()))?
            .clone();
        let leader =
            known.ok_or_else(|| StartError::Invalid("nobody leads the Dispatcher".to_owned()))?;
        Ok(self.rpc.gateway(&leader.address, DispatcherId(leader.session)))
    }

    /// Waits for the first fatal error (one that its process cannot survive) of the JobManager or the TaskManager, and
    /// returns its text; never returns if there is none. Stops nothing.
    pub async fn failed(&self) -> String {
        let jobmanager = self.jobmanager.services().fatal.clone();
        let taskmanager = self.taskmanager.services().fatal.clone();
        let error = tokio::select! {
            biased;
            error = jobmanager.reported() => error,
            error = taskmanager.reported() => error,
        };
        error.to_string()
    }

    /// Stops the TaskManager, then the JobManager, and returns when both have ended, without a time limit; jobs that still run are lost.
    pub async fn stop(self) {
        self.taskmanager.stop("the embedded cluster ends").await;
        self.jobmanager.stop().await;
    }
}

/// The parts from which both the JobManager and the TaskManager are started.
struct Plan<'a> {
    platform: Platform,
    options: Arc<Options>,
    entry: ProgramEntry,
    credentials: Credentials,
    work: &'a WorkFolder,
}

impl Plan<'_> {
    async fn base(&self, name: &str) -> Result<BaseParts, StartError> {
        let settings =
            RpcOptions { credentials: self.credentials.clone(), ..RpcOptions::in_process() };
        let rpc = RpcService::start(self.platform.clone(), settings).await?;
        Ok(BaseParts::new(
            self.platform.clone(),
            rpc,
            self.options.clone(),
            ResourceId::new(format!("embedded-{name}")),
            "localhost".to_owned(),
        ))
    }

    fn launcher(&self, base: &BaseParts, name: &str) -> Result<Arc<Launcher>, StartError> {
        Ok(Arc::new(Launcher::new(LauncherParts {
            rpc: base.rpc.clone(),
            options: self.options.clone(),
            fatal: base.fatal.clone(),
            entry: Some(self.entry.clone()),
            embedded: true,
            folders: platform::Disks::new(self.work.subs(name)?),
            log: LogPlace::default(),
            memory: None,
        })))
    }

    async fn jobmanager(&self) -> Result<(RpcService, JobManagerComponents), StartError> {
        let base = self.base("jobmanager").await?;
        let rpc = base.rpc.clone();
        let parts = JobManagerParts {
            launcher: self.launcher(&base, "coordinators")?,
            base,
            election: Arc::new(EmbeddedElection::new(self.platform.unix_millis())),
            standby: false,
            rest: String::new(),
            objects: Arc::new(MemoryObjects::default()),
            details: Arc::new(MemoryObjects::default()),
            checkpoint_directory: Some(self.work.checkpoints()),
            blobs: Arc::new(MemoryBlobs::new()),
            durable: None,
            workers: resource_manager::Mode::Standalone,
            mode: ClusterMode::Session,
            own_program: Some(OWN),
            embedded: true,
        };
        let components =
            JobManagerComponents::start(parts, async |_| Result::<(), ComponentError>::Ok(()))
                .await?;
        Ok((rpc, components))
    }

    async fn taskmanager(
        &self,
        jobmanager: &JobManagerComponents,
    ) -> Result<TaskManagerComponents, StartError> {
        let (spec, process_memory) = crate::entrypoint::offer(&self.options)?;
        let base = self.base("taskmanager").await?;
        let keys = base.rpc.clone();
        let parts = TaskManagerParts {
            launcher: self.launcher(&base, "tasks")?,
            retrieval: Arc::new(jobmanager.own_leaders().clone()),
            blobs: Arc::new(MemoryBlobs::new()),
            shares_blobs: true,
            own_program: Some(OWN),
            embedded: true,
            spec,
            process_memory,
            facts: crate::facts::of_this_process(&self.options),
            pid: std::process::id(),
            hosts: HostSettings {
                // The process is the user's own, with all that the program does beside its job.
                limits_memory: false,
                ..HostSettings::from_options(
                    &self.options,
                    base.rpc.cluster_id().clone(),
                    "localhost".to_owned(),
                )
            },
            data_key: Arc::new(move |job| crate::entrypoint::job_key(&keys, job)),
            logs: None,
            base,
        };
        Ok(TaskManagerComponents::start(parts).await?)
    }
}
