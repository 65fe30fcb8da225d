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

/// The parts from which a TaskManager is started.
pub struct TaskManagerParts {
    /// Parts that every role's process has: platform, RPC, metrics.
    pub base: BaseParts,
    /// Source of leader information: the JobManager's process.
    pub retrieval: Arc<dyn LeaderRetrieval>,
    /// Store of the programs that were fetched.
    pub blobs: Arc<dyn BlobStore>,
    /// True if `blobs` is the BlobServer's own store (embedded): nothing is ever fetched.
    pub shares_blobs: bool,
    /// Launcher of program hosts.
    pub launcher: Arc<dyn ProgramHostLauncher>,
    /// The program that this process is.
    pub own_program: Option<ContentHash>,
    /// True if programs may use relative paths.
    pub embedded: bool,
    /// The resources and slots that the TaskManager offers.
    pub spec: WorkerResourceSpec,
    /// All memory of its processes.
    pub process_memory: MemorySize,
    /// Facts about the machine and the rest of the process's memory, shown to users.
    pub facts: TaskManagerFacts,
    /// Process id, shown to users.
    pub pid: u32,
    /// The settings of its program hosts.
    pub hosts: HostSettings,
    /// The key of a job's data connections.
    pub data_key: Arc<dyn Fn(JobId) -> [u8; 32] + Send + Sync>,
    /// Folder of the process's log files; `None` if it logs elsewhere.
    pub logs: Option<LogFolder>,
}

/// The components of a running TaskManager.
pub struct TaskManagerComponents {
    base: Base,
    hosts: Running<ProgramHosts>,
    executor: TaskExecutorHandle,
}

impl TaskManagerComponents {
    /// Starts everything; it registers by itself from here on.
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

    /// Returns the services that the components share.
    pub fn services(&self) -> &ProcessServices {
        &self.base.services
    }

    /// Ends when the ResourceManager does not need this process any more; why.
    pub async fn released(&self) -> String {
        self.executor.released().await
    }

    /// Says goodbye, ends all program hosts, then the rest in reverse order.
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
