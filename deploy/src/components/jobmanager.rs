//! A JobManager: election and retrieval, BlobServer, program hosts, ResourceManager, Dispatcher.

use super::base::{Base, BaseParts, ComponentError, lane};
use actors::blob_server::{self, BlobServerHandle, BlobsInUse};
use actors::dispatcher::{self, DispatcherDeps, DispatcherHandle};
use actors::leader_election::{self, ElectionDeps, ElectionService};
use actors::leader_retrieval::{
    self, LeaderNode, LeaderRetrievalActor, LeaderTable, RemoteRetrieval, RetrievalSettings,
};
use actors::program_hosts::{
    self, HostSide, HostsDeps, ProgramError, ProgramHostLauncher, ProgramHosts, Programs,
};
use actors::resource_manager::{self, ResourceManagerDeps, ResourceManagerService};
use actors::services::{LeaderElection, LeaderRetrieval, ProcessServices, Running};
use futures::future::BoxFuture;
use gateways::Remote;
use gateways::blob_server::BlobServerGateway;
use gateways::leader_election::{Component, LeaderInformation};
use model::{BlobKey, ContentHash};
use platform::Platform;
use platform::watch;
use std::path::PathBuf;
use std::sync::Arc;
use storage::blobs::{BlobStore, BlobStoreError, DurableBlobs};
use storage::ha::{Candidate, ElectionDriver};
use storage::objects::ObjectStore;

pub use actors::dispatcher::{ClusterEnd, ClusterMode};

/// The parts from which [`JobManagerComponents::start`] starts a JobManager in this process: the base parts, the driver of the
/// election, stores of jobs and blobs, the launcher of program hosts, the source of workers, and the mode of the cluster.
pub struct JobManagerParts {
    /// Parts that every role's process has: platform, RPC, metrics.
    pub base: BaseParts,
    /// Driver of the election, in which the whole process stands for one lease: it grants leadership, with a deadline, to
    /// this process or another one.
    pub election: Arc<dyn ElectionDriver>,
    /// True if other processes may lead instead: this process then finds the leaders through the record that the driver
    /// stores. False: only this process can lead.
    pub standby: bool,
    /// URL of this process's REST endpoint, which the leader's record shows to people who look into the store; empty
    /// if there is none.
    pub rest: String,
    /// The store of the jobs' logs (graphs, checkpoints, results); with high availability, shared with the other
    /// JobManagers, otherwise in this process's memory.
    pub objects: Arc<dyn ObjectStore>,
    /// The store of the details of ended jobs, which REST shows; with high availability, the same store as `objects`,
    /// otherwise files of this process, or its memory if it is an embedded cluster.
    pub details: Arc<dyn ObjectStore>,
    /// The directory (path or URI) for the checkpoints of jobs that name none, which all TaskManagers share; `None`: the
    /// JobMasters keep their state.
    pub checkpoint_directory: Option<String>,
    /// The store of this process's BlobServer: programs, and files that jobs ship.
    pub blobs: Arc<dyn BlobStore>,
    /// With high availability, the store in which programs survive this process for the next leader; `None`
    /// without.
    pub durable: Option<DurableBlobs>,
    /// Starts the program hosts (processes that run a program's code) in which job graphs are built and coordinators
    /// run.
    pub launcher: Arc<dyn ProgramHostLauncher>,
    /// The ResourceManager's mode: whether TaskManagers come by themselves or it requests them, and from
    /// which driver.
    pub workers: resource_manager::Mode,
    /// The mode of the cluster: a session (jobs of clients), or one job of its own.
    pub mode: ClusterMode,
    /// Hash of the program that this process's executable is: hosts for that program run inside this process. `None`
    /// for the binary `flott`, which runs each program in a child process.
    pub own_program: Option<ContentHash>,
    /// True if this is an embedded cluster, all in one process: nothing is shipped, relative paths are allowed.
    pub embedded: bool,
}

/// The components of a running JobManager, from election to Dispatcher. Dropping this value asks all of them to stop, in no
/// order and without waiting: call [`JobManagerComponents::stop`].
pub struct JobManagerComponents {
    base: Base,
    leaders: LeaderTable,
    retrieval: Running<LeaderRetrievalActor>,
    election: ElectionService,
    blobs: BlobServerHandle,
    hosts: Running<ProgramHosts>,
    resource_manager: ResourceManagerService,
    dispatcher: DispatcherHandle,
    end: watch::Receiver<Option<ClusterEnd>>,
}

impl JobManagerComponents {
    /// Starts all components in order; the process stands for the lease at once. Calls `before_leaders` once, when the base
    /// services, the election, leader retrieval and the BlobServer are up and neither ResourceManager nor Dispatcher stands for
    /// leadership yet: the place to start the REST endpoint. Returns when the components stand for leadership; does not wait until this
    /// process leads, which with other JobManagers may never happen.
    ///
    /// # Errors
    /// Returns the [`ComponentError`] of the first component that cannot be started, or of `before_leaders`; what was
    /// started before is dropped.
    pub async fn start<F>(parts: JobManagerParts, before_leaders: F) -> Result<Self, ComponentError>
    where
        F: AsyncFnOnce(&ReadyServices) -> Result<(), ComponentError>,
    {
        let leaders = LeaderTable::default();
        let lookup = retrieval_of(&parts, &leaders);
        let base = Base::start(parts.base, lookup).await?;
        let services = base.services.clone();
        let lease = parts.election.lease();
        let election =
            start_election(&services, parts.election, parts.rest, leaders.clone()).await?;
        let retrieval =
            leader_retrieval::start(&services.platform, &services.rpc, leaders.clone()).await;
        let retrieval = retrieval.map_err(lane("leader_retrieval"))?;
        let blobs =
            blob_server::start(&services, parts.blobs).await.map_err(lane("blob_server"))?;
        let ready = ReadyServices::new(&services, &blobs);
        before_leaders(&ready).await?;
        let hosts = program_hosts::start(HostsDeps {
            services: services.clone(),
            launcher: parts.launcher,
            programs: Arc::new(StoredPrograms(blobs.store())),
            side: HostSide::JobManager,
            own_program: parts.own_program,
            embedded: parts.embedded,
        })
        .await
        .map_err(lane("program_hosts"))?;
        let contenders = election.handle();
        let resource_manager =
            start_resource_manager(&services, parts.workers, &blobs, contenders.clone()).await?;
        let (end, ended) = watch::channel(None);
        let dispatcher = dispatcher::start(DispatcherDeps {
            services: services.clone(),
            election: contenders,
            leaders: leaders.clone(),
            hosts: (hosts.address().clone(), services.session),
            blobs: (!parts.embedded).then(|| ready.blobs.clone()),
            durable: parts.durable,
            in_use: blobs.in_use(),
            objects: parts.objects,
            details: parts.details,
            checkpoint_directory: parts.checkpoint_directory,
            lease,
            mode: parts.mode,
            end,
            ship_programs: !parts.embedded,
            embedded: parts.embedded,
        })
        .await
        .map_err(lane("dispatcher"))?;
        Ok(Self {
            base,
            leaders,
            retrieval,
            election,
            blobs,
            hosts,
            resource_manager,
            dispatcher,
            end: ended,
        })
    }

    /// Returns the services that the components share: platform, RPC, options, heartbeats, leader retrieval, metrics,
    /// and the receiver of fatal errors.
    pub fn services(&self) -> &ProcessServices {
        &self.base.services
    }

    /// Returns the table of the leaders in this process: components that its own election has published, and JobMasters
    /// of its Dispatcher. It never contains leaders of other processes.
    pub fn own_leaders(&self) -> &LeaderTable {
        &self.leaders
    }

    /// Waits until the cluster has nothing left to do, because its own job has ended or was refused, or a client has shut it down, and
    /// returns its outcome, at each later call too. Stops nothing: the caller then stops the process. Never returns while another
    /// process leads, nor if the Dispatcher dies, which is reported as a fatal error.
    pub async fn ended(&self) -> ClusterEnd {
        match self.end.clone().some().await {
            Ok(end) => end,
            // The Dispatcher has ended without a word: its death is reported elsewhere.
            Err(watch::Closed) => std::future::pending().await,
        }
    }

    /// Waits until no client needs the cluster any more: a client has shut it down, or its job has ended after the client that the job
    /// was bound to had gone. Never returns otherwise, also if that client goes after the job's end. Stops nothing.
    pub async fn dismissed(&self) {
        let is_dismissed = |end: &Option<ClusterEnd>| end.as_ref().is_some_and(|end| end.dismissed);
        if self.end.clone().wait_for(is_dismissed).await.is_err() {
            std::future::pending().await
        }
    }

    /// Removes the programs that were uploaded to this process and that no job needs; waits at most 2 s for
    /// the store, then logs a warning and they stay. Must be called before [`JobManagerComponents::stop`]: blobs are removed
    /// only while a Dispatcher of this process leads and has recovered its jobs.
    pub async fn forget_uploads(&self) {
        self.blobs.forget_uploads().await;
    }

    /// Stops all components, the Dispatcher first, and gives this process's leadership up. Returns when they have ended, without a time
    /// limit. Running jobs are suspended, not ended: with high availability their data stay as they are, so that another JobManager can
    /// continue the jobs; without it the jobs are lost.
    pub async fn stop(self) {
        self.dispatcher.stop().await;
        self.resource_manager.stop().await;
        self.hosts.stop().await;
        self.retrieval.stop().await;
        self.election.stop().await;
        drop(self.blobs);
        self.base.stop().await;
    }
}

/// The services of a JobManager that run before Dispatcher and ResourceManager stand for election, as [`JobManagerComponents::start`]
/// gives them to its closure `before_leaders`, which may start the REST endpoint on them and keep clones.
pub struct ReadyServices {
    /// The process's clock, random numbers, threads and sockets.
    pub platform: Platform,
    /// The services that the components share: RPC, options, heartbeats, leader retrieval and metrics.
    pub services: ProcessServices,
    /// Gateway of this process's BlobServer, for components that upload or look for blobs.
    pub blobs: Remote<BlobServerGateway>,
    /// The record of the blobs (programs, files) that jobs and uploads need; the BlobServer keeps these when it cleans
    /// up.
    pub blobs_in_use: BlobsInUse,
}

impl ReadyServices {
    fn new(services: &ProcessServices, blobs: &BlobServerHandle) -> Self {
        Self {
            platform: services.platform.clone(),
            services: services.clone(),
            blobs: services.rpc.gateway(&blobs.address, blobs.session),
            blobs_in_use: blobs.in_use(),
        }
    }

    /// Returns at once a receiver that follows the leader of a component, of this process or another; its value is `None` while no leader
    /// is known. A leader that does not answer may still be shown.
    pub fn leader(&self, component: Component) -> watch::Receiver<Option<LeaderInformation>> {
        self.services.retrieval.watch(component)
    }
}

async fn start_election(
    services: &ProcessServices,
    driver: Arc<dyn ElectionDriver>,
    rest: String,
    leaders: LeaderTable,
) -> Result<ElectionService, ComponentError> {
    let node = services.rpc.node().to_string();
    let deps = ElectionDeps {
        platform: services.platform.clone(),
        rpc: services.rpc.clone(),
        session: services.session,
        driver,
        candidate: Candidate { node, rest },
        leaders,
        fatal: services.fatal.clone(),
        mutation: services.mutation,
        probe: services.probe.clone(),
        heartbeat: services.heartbeat.clone(),
    };
    leader_election::start(deps).await.map_err(lane("leader_election"))
}

async fn start_resource_manager(
    services: &ProcessServices,
    mode: resource_manager::Mode,
    blobs: &BlobServerHandle,
    contenders: Arc<dyn LeaderElection>,
) -> Result<ResourceManagerService, ComponentError> {
    let deps = ResourceManagerDeps {
        services: services.clone(),
        mode,
        blob_server: blobs.address.clone(),
        blob_session: blobs.session,
    };
    resource_manager::start(deps, contenders).await.map_err(lane("resource_manager"))
}

fn retrieval_of(parts: &JobManagerParts, own: &LeaderTable) -> Arc<dyn LeaderRetrieval> {
    if !parts.standby {
        return Arc::new(own.clone());
    }
    Arc::new(RemoteRetrieval::new(
        parts.base.platform.clone(),
        parts.base.rpc.clone(),
        LeaderNode::Record(parts.election.leader()),
        Some(own.clone()),
        RetrievalSettings::default(),
    ))
}

/// Programs from the BlobServer's own store. The first access to a program reads all of it to check it.
struct StoredPrograms(Arc<dyn BlobStore>);

impl Programs for StoredPrograms {
    fn fetch(&self, key: BlobKey) -> BoxFuture<'static, Result<PathBuf, ProgramError>> {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            match store.path(&key).await {
                Ok(Some(path)) => Ok(path),
                Ok(None) => Err(ProgramError::Failed("this process keeps no files".to_owned())),
                Err(error @ (BlobStoreError::NotFound(_) | BlobStoreError::WrongHash { .. })) => {
                    Err(ProgramError::Gone(format!("{error} ({})", store.location())))
                }
                Err(BlobStoreError::Store(error)) => Err(ProgramError::Failed(error.to_string())),
            }
        })
    }
}
