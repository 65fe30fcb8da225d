//! A TaskManager: blob cache, keeper of program hosts, TaskExecutor.

use super::base::{Base, BaseParts, ComponentError, lane};
use actors::blob_server::{BlobCache, CacheSettings};
use actors::program_hosts::{
    self, HostSide, HostsDeps, ProgramError, ProgramHostLauncher, ProgramHosts, Programs,
};
use actors::services::{LeaderRetrieval, ProcessServices, Running};
use actors::task_executor::{self, HostSettings, LogFolder, TaskExecutorDeps, TaskExecutorHandle};
use futures::future::BoxFuture;
use model::{BlobKey, ContentHash, JobId, MemorySize, TaskManagerFacts, WorkerResourceSpec};
use platform::Lane;
use std::path::PathBuf;
use std::sync::Arc;
use storage::blobs::BlobStore;

/// The parts from which [`TaskManagerComponents::start`] starts a TaskManager in this process: the base parts, the source of
/// leaders, the store of blobs, the launcher and settings of program hosts, and the slots and resources to offer.
pub struct TaskManagerParts {
    /// Parts that every role's process has: platform, RPC, metrics.
    pub base: BaseParts,
    /// Source of leader information: tells which processes lead the ResourceManager and the jobs.
    pub retrieval: Arc<dyn LeaderRetrieval>,
    /// Local store of the programs and files that were fetched from the JobManager's BlobServer.
    pub blobs: Arc<dyn BlobStore>,
    /// True if nothing is ever fetched from a BlobServer, as in an embedded cluster, whose only program is in this
    /// process: blobs are looked for in `blobs` alone. False: those that are missing there are fetched.
    pub shares_blobs: bool,
    /// Starts the program hosts (processes that run a program's code) in which the jobs' tasks run.
    pub launcher: Arc<dyn ProgramHostLauncher>,
    /// Hash of the program that this process's executable is: its tasks run in this process; `None` for the
    /// binary `flott`, which runs each program in a child process.
    pub own_program: Option<ContentHash>,
    /// True in an embedded cluster: relative paths in programs resolve against the working directory.
    pub embedded: bool,
    /// The slots and resources that the TaskManager offers to the ResourceManager.
    pub spec: WorkerResourceSpec,
    /// Memory of the TaskManager and its program hosts together, in bytes; only shown to users.
    pub process_memory: MemorySize,
    /// Facts about the machine and the rest of the process's memory, shown to users.
    pub facts: TaskManagerFacts,
    /// Id of this operating system process; shown to users.
    pub pid: u32,
    /// The settings that each program host of the TaskManager receives at its start.
    pub hosts: HostSettings,
    /// Function that returns the secret key, 32 bytes, of a job's data connections, derived from the cluster's secret
    /// and the job's id: both ends of a connection must prove that they have the same. Called when a program host is started and when the
    /// number of its slots changes.
    pub data_key: Arc<dyn Fn(JobId) -> [u8; 32] + Send + Sync>,
    /// Folder of the process's log files, which the TaskExecutor serves to users; `None` if the process logs
    /// elsewhere, so that it serves none.
    pub logs: Option<LogFolder>,
}

/// The components of a running TaskManager: the base services (heartbeats and metrics), the keeper of its program hosts,
/// and the TaskExecutor. [`stop`](Self::stop) ends them in order. Dropping this value asks them to stop, in no order and without a goodbye
/// to the leaders.
pub struct TaskManagerComponents {
    base: Base,
    hosts: Running<ProgramHosts>,
    executor: TaskExecutorHandle,
}

impl TaskManagerComponents {
    /// Starts all components. The TaskExecutor then finds the ResourceManager and registers by itself, again after each
    /// loss; this method does not wait for it. A refusal for good, or no registration within `taskmanager.registration.timeout`, is
    /// reported as a fatal error.
    ///
    /// # Errors
    /// Returns [`ComponentError::Lane`] if a lane (thread of actors) has ended, because the process is ending, or a
    /// start panicked there.
    pub async fn start(parts: TaskManagerParts) -> Result<Self, ComponentError> {
        let base = Base::start(parts.base, parts.retrieval).await?;
        let services = base.services.clone();
        let blobs = if parts.shares_blobs {
            BlobCache::of_server(services.platform.clone(), parts.blobs)
        } else {
            let settings = CacheSettings::from_options(&services.options);
            let (platform, rpc) = (services.platform.clone(), services.rpc.clone());
            BlobCache::new(platform, rpc, parts.blobs, settings)
        };
        let hosts = program_hosts::start(HostsDeps {
            services: services.clone(),
            launcher: parts.launcher,
            programs: Arc::new(CachedPrograms(blobs.clone())),
            side: HostSide::TaskManager,
            own_program: parts.own_program,
            embedded: parts.embedded,
        })
        .await
        .map_err(lane("program_hosts"))?;
        let deps = TaskExecutorDeps {
            spec: parts.spec,
            process_memory: parts.process_memory,
            facts: parts.facts,
            pid: parts.pid,
            blobs,
            program_hosts: services.rpc.gateway(hosts.address(), services.session),
            hosts: parts.hosts,
            data_key: parts.data_key,
            logs: parts.logs,
        };
        let given = services.clone();
        let executor = services
            .platform
            .lane(Lane::Work)
            .run(move || async move { task_executor::start(&given, deps) })
            .await
            .map_err(lane("task_executor"))?;
        Ok(Self { base, hosts, executor })
    }

    /// Returns the services that the components share: platform, RPC, options, heartbeats, leader retrieval, metrics,
    /// and the receiver of fatal errors.
    pub fn services(&self) -> &ProcessServices {
        &self.base.services
    }

    /// Waits until the ResourceManager has released this TaskManager, because it was idle for too long, its worker is reported as ended
    /// (its node is lost, say), or the application has ended, and returns the reason as text. The loss of a ResourceManager is no release.
    /// Never returns if the TaskExecutor dies, which is reported as a fatal error. Stops nothing: the caller then stops the process.
    pub async fn released(&self) -> String {
        self.executor.released().await
    }

    /// Stops the TaskManager in order: kills all program hosts, tells the ResourceManager and the JobMasters that it
    /// leaves with `cause` (waits at most 1 s for their answers), then stops the other services. Returns when all have ended. To the jobs
    /// it is a recoverable failure of their tasks here.
    pub async fn stop(self, cause: &str) {
        self.executor.stop(cause).await;
        self.hosts.stop().await;
        self.base.stop().await;
    }
}

/// Programs out of the blob cache.
struct CachedPrograms(BlobCache);

impl Programs for CachedPrograms {
    fn fetch(&self, key: BlobKey) -> BoxFuture<'static, Result<PathBuf, ProgramError>> {
        let cache = self.0.clone();
        Box::pin(async move {
            cache.fetch(&key).await.map_err(|error| {
                let why = error.to_string();
                if error.is_gone() { ProgramError::Gone(why) } else { ProgramError::Failed(why) }
            })
        })
    }
}
