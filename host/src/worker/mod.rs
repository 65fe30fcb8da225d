//! The side of a host that serves the TaskManager: the exchange, the tasks, and the connection to the parent. The
//! host's actor calls it; nothing here may block that actor.

mod bases;
mod deploy;
mod events;
mod memory;
mod reports;
mod snapshots;
mod tasks;
pub(crate) mod uploads;

use crate::program::Place;
use deploy::{Deployment, Surroundings};
use gateways::{
    NodeAddress, RpcService,
    program_host::{BuildError, DeployToHost, StartHost},
    task_executor::{DeployError, TaskExecutorGateway},
};
use memory::HostMemory;
use model::{AllocationId, ExecutionAttemptId, JobGraph, JobId, JobMasterId, parse_duration};
use platform::{Credentials, Identity, Platform, PortSpec, Secret, Tls};
use reports::{ReportingEnded::Orphaned, Reports, report};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, mpsc},
    time::Duration,
};
use streaming::{
    Mail, ProgramEntry,
    exchange::{DataPort, Exchange, ExchangeOptions},
    task::threads,
};
use tasks::{Admission, Tasks};
use tokio::runtime::{Builder, Runtime};
use uploads::Uploads;

/// The default of `task.cancellation.timeout`.
const CANCELLATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The tasks of one job in one TaskManager.
pub(crate) struct Worker {
    job_id: JobId,
    data_address: NodeAddress,
    exchange: Exchange,
    tasks: Arc<Tasks>,
    /// `None` if the memory of the tasks is not limited.
    memory: Option<Arc<HostMemory>>,
    uploads: Uploads,
    deployments: mpsc::Sender<Deployment>,
    /// The last graph that the host was sent, and the JobMaster that sent it.
    graph: Option<(JobMasterId, Arc<JobGraph>)>,
    /// Dropped last, because everything above runs on it.
    _runtime: DataRuntime,
}

/// The tokio runtime for sockets and timers of the data plane; `None` only while it is dropped.
struct DataRuntime(Option<Runtime>);

impl DataRuntime {
    fn start(threads: usize) -> Result<Self, BuildError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(16)
            .thread_name("flott-data")
            .thread_stack_size(512 << 10)
            .enable_all()
            .on_thread_stop(streaming::memory::allocator::settle)
            .build()
            .map_err(|e| BuildError::Process(format!("no threads for the data plane: {e}")))?;
        Ok(Self(Some(runtime)))
    }

    fn handle(&self) -> Option<tokio::runtime::Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for DataRuntime {
    fn drop(&mut self) {
        // Dropped on an actor's thread, which must not wait for the runtime's threads to end.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Worker {
    /// Binds the data port and starts the exchange, the deploying thread and the reports to the parent. Fails if an
    /// option is wrong, or if no port or thread is available.
    pub(crate) async fn start(
        start: StartHost,
        program: ProgramEntry,
        rpc: RpcService,
        tmp_dir: PathBuf,
        place: Place,
        embedded: bool,
    ) -> Result<Self, BuildError> {
        let options = Settings::read(&start.options)?;
        let runtime = DataRuntime::start(options.io_threads)?;
        let handle = runtime
            .handle()
            .ok_or_else(|| BuildError::Process("the data plane has no threads".to_owned()))?;
        let platform = rpc.platform().clone();
        let port = bind(&start, &platform, &handle).await?;
        let data_address = NodeAddress::new(port.address());
        let exchange = Exchange::new(
            ExchangeOptions { network_memory: start.network_memory.0, ..options.exchange },
            Some(port),
            handle.clone(),
        );
        let parent = rpc.gateway::<TaskExecutorGateway>(&start.parent, start.parent_session);
        let reports = Arc::new(Reports::default());
        let (within, runtime_of_tasks) = (options.cancellation_timeout, handle.clone());
        let tasks = Tasks::new(Arc::clone(&reports), place.clone(), within, runtime_of_tasks);
        let budget = Arc::clone(exchange.memory());
        let watch = |task| {
            let limits = memory::limits(task, start.managed_memory);
            memory::watch(platform.clone(), &tasks, budget, place, limits)
        };
        let memory = start.task_memory.map(watch).transpose();
        let memory = memory
            .map_err(|e| BuildError::Process(format!("cannot start the memory's thread: {e}")))?;
        let uploads = Uploads::default();
        let deployments = deploy::start(
            program,
            Surroundings {
                exchange: exchange.clone(),
                parent: parent.clone(),
                platform,
                runtime: handle.clone(),
                uploads: uploads.clone(),
                tmp_dir,
                options: Arc::new(start.options),
                stack_bytes: options.stack_bytes,
                embedded,
            },
        )
        .map_err(|e| BuildError::Process(format!("cannot start the deploying thread: {e}")))?;
        let (weak, job_id) = (Arc::downgrade(&tasks), start.job_id);
        handle.spawn(async move {
            if let Orphaned(error) = report(reports, weak.clone(), parent, job_id).await {
                tracing::error!(%job_id, %error, "the TaskManager no longer accepts task states from this host; the host cancels its tasks");
                if let Some(tasks) = weak.upgrade() {
                    tasks.cancel(|_, _| true);
                }
            }
        });
        Ok(Self {
            job_id,
            data_address,
            exchange,
            tasks,
            memory,
            uploads,
            deployments,
            graph: None,
            _runtime: runtime,
        })
    }

    /// Returns the address of the data port.
    pub(crate) fn data_address(&self) -> &NodeAddress {
        &self.data_address
    }

    pub(crate) fn job_id(&self) -> JobId {
        self.job_id
    }

    /// Changes the limits of memory to those of a repeated call.
    pub(crate) fn resize(&self, start: &StartHost) {
        self.exchange.memory().set_limit(start.network_memory.0);
        if let (Some(memory), Some(task)) = (&self.memory, start.task_memory) {
            memory.resize(memory::limits(task, start.managed_memory));
        }
    }

    /// Admits the tasks of a deployment and queues them for the deploying thread. Returns the attempts that were
    /// refused, each with the reason; a repeated attempt is ignored. An error concerns the whole call.
    pub(crate) fn deploy(
        &mut self,
        deploy: DeployToHost,
    ) -> Result<Vec<(ExecutionAttemptId, DeployError)>, DeployError> {
        let DeployToHost { deployment, devices } = deploy;
        if deployment.job_id != self.job_id {
            return Err(DeployError::Host(format!("this host runs job {}", self.job_id)));
        }
        let graph = self.graph_for(deployment.job_master_id, deployment.graph)?;
        let mut refused = Vec::new();
        let mut tasks = Vec::new();
        for task in deployment.tasks {
            let attempt = task.attempt;
            let Some(vertex) = graph.vertex(attempt.vertex) else {
                let why = format!("the graph has no vertex {}", attempt.vertex);
                refused.push((attempt, DeployError::Host(why)));
                continue;
            };
            match self.tasks.admit(attempt) {
                Admission::New => {}
                Admission::Known => continue,
                Admission::Superseded { by } => {
                    let why = format!("superseded by attempt {by} of this subtask");
                    refused.push((attempt, DeployError::Host(why)));
                    continue;
                }
            }
            let name = format!("{} ({}/{})", vertex.name, attempt.subtask + 1, vertex.parallelism);
            tasks.push((self.tasks.add(attempt, name, task.allocation_id), task));
        }
        if let Some((_, first)) = tasks.first() {
            for gone in self.tasks.keep_only(first.attempt.graph) {
                self.exchange.retire(gone);
            }
        }
        let deployment = Deployment {
            graph,
            producers: deployment.producers,
            tasks,
            devices,
            checkpoint_dir: deployment.checkpoint_dir,
            ends_with_checkpoint: deployment.ends_with_checkpoint,
        };
        deploy::queue(&self.deployments, deployment)?;
        Ok(refused)
    }

    fn graph_for(
        &mut self,
        job_master: JobMasterId,
        graph: Option<Arc<JobGraph>>,
    ) -> Result<Arc<JobGraph>, DeployError> {
        if let Some(graph) = graph {
            self.graph = Some((job_master, Arc::clone(&graph)));
            return Ok(graph);
        }
        match &self.graph {
            Some((from, graph)) if *from == job_master => Ok(Arc::clone(graph)),
            _ => Err(DeployError::Host(
                "the call contains no graph, and this JobMaster has not sent one before".to_owned(),
            )),
        }
    }

    /// Hands mail to execution attempts; those that do not run here are left out.
    pub(crate) fn deliver(&self, attempts: &[ExecutionAttemptId], mail: impl Fn() -> Mail) {
        self.tasks.deliver(attempts, mail);
    }

    /// Ends an aborted checkpoint for these attempts: drops what they have written for it, and tells them to write no more.
    pub(crate) fn checkpoint_aborted(&self, attempts: &[ExecutionAttemptId], checkpoint: u64) {
        self.uploads.aborted(attempts, checkpoint);
        self.tasks.deliver(attempts, || Mail::NotifyAborted(checkpoint));
    }

    /// Asks execution attempts to stop; returns at once.
    pub(crate) fn cancel(&self, attempts: &[ExecutionAttemptId]) {
        self.tasks.cancel_by_job_master(attempts);
    }

    /// Asks all tasks of a slot to stop; returns at once.
    pub(crate) fn release(&self, allocation: AllocationId) {
        self.tasks.cancel(|_, of| of == allocation);
    }

    /// Asks all tasks to stop at once; the returned future completes when they have ended.
    pub(crate) fn stop(&self) -> impl Future<Output = ()> + 'static {
        self.tasks.cancel(|_, _| true);
        let tasks = Arc::clone(&self.tasks);
        async move { tasks.all_ended().await }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks.cancel(|_, _| true);
        self.exchange.shutdown();
    }
}

async fn bind(
    start: &StartHost,
    platform: &Platform,
    runtime: &tokio::runtime::Handle,
) -> Result<DataPort, BuildError> {
    let ports: PortSpec = start
        .data_ports
        .parse()
        .map_err(|e| BuildError::Invalid(format!("taskmanager.data.port: {e}")))?;
    let credentials = Credentials {
        cluster: start.cluster_id.clone(),
        identity: Identity::Host(start.job_id),
        secret: Secret::new(start.data_key.clone()),
    };
    let tls = start.data_tls.clone().map(Tls::new).transpose();
    let tls = tls.map_err(|e| BuildError::Invalid(e.to_string()))?;
    let platform = platform.clone();
    let (bind, host) = (start.data_bind.clone(), start.data_host.clone());
    // Bound on the data runtime, because a socket belongs to the runtime that polls it.
    let bound = runtime
        .spawn(
            async move { DataPort::bind(&platform, &bind, &host, &ports, credentials, tls).await },
        )
        .await;
    match bound {
        Ok(Ok(port)) => Ok(port),
        Ok(Err(error)) => Err(BuildError::Process(format!(
            "{error}; each process of a job on this TaskManager needs a port: set taskmanager.data.port to more ports, or \
             taskmanager.bind-host"
        ))),
        Err(error) => Err(BuildError::Process(format!("the data port was not bound: {error}"))),
    }
}

/// The options of the data plane that this host uses, from those that the TaskManager sends.
struct Settings {
    exchange: ExchangeOptions,
    cancellation_timeout: Duration,
    stack_bytes: usize,
    io_threads: usize,
}

impl Settings {
    fn read(options: &BTreeMap<String, String>) -> Result<Self, BuildError> {
        let defaults = ExchangeOptions::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            exchange: ExchangeOptions {
                connect_timeout: duration(
                    options,
                    "exchange.connect-timeout",
                    defaults.connect_timeout,
                )?,
                producer_timeout: duration(
                    options,
                    "exchange.producer-timeout",
                    defaults.producer_timeout,
                )?,
                debloat_target: debloat_target(options, defaults.debloat_target)?,
                ..defaults
            },
            cancellation_timeout: duration(
                options,
                "task.cancellation.timeout",
                CANCELLATION_TIMEOUT,
            )?,
            stack_bytes: threads::STACK_BYTES,
            io_threads: (cores / 2).clamp(1, 4),
        })
    }
}

/// Returns the time within which consumers are to have taken what waits for them; `None` if that is disabled.
fn debloat_target(
    options: &BTreeMap<String, String>,
    default: Option<Duration>,
) -> Result<Option<Duration>, BuildError> {
    let enabled = options.get("taskmanager.network.memory.buffer-debloat.enabled");
    if enabled.is_some_and(|enabled| enabled == "false") {
        return Ok(None);
    }
    let key = "taskmanager.network.memory.buffer-debloat.target";
    default.map(|default| duration(options, key, default)).transpose()
}

/// Returns a duration option; `default` if it is not set.
fn duration(
    options: &BTreeMap<String, String>,
    key: &str,
    default: Duration,
) -> Result<Duration, BuildError> {
    let Some(text) = options.get(key) else { return Ok(default) };
    let wrong = || BuildError::Invalid(format!("{key}: '{text}' is not a duration, e.g. 10 s"));
    parse_duration(text).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_each_unit_that_the_configuration_takes() {
        let read = |text: &str| {
            let options = [("task.cancellation.timeout".to_owned(), text.to_owned())];
            Settings::read(&options.into()).map(|read| read.cancellation_timeout)
        };
        for text in ["10 sec", "10 seconds", "10000", "10000000 us"] {
            assert_eq!(read(text).unwrap(), Duration::from_secs(10), "{text}");
        }
        assert_eq!(read("1 d").unwrap(), Duration::from_secs(86_400));
        let error = read("10 parsecs").unwrap_err().to_string();
        assert!(error.contains("task.cancellation.timeout: '10 parsecs'"), "{error}");
    }

    #[test]
    fn what_waits_for_a_consumer_is_bounded_in_time_unless_that_is_disabled() {
        let read = |key: &str, text: &str| {
            let key = format!("taskmanager.network.memory.buffer-debloat.{key}");
            Settings::read(&[(key, text.to_owned())].into())
                .map(|read| read.exchange.debloat_target)
        };
        assert_eq!(read("enabled", "true").unwrap(), Some(Duration::from_secs(1)));
        assert_eq!(read("enabled", "false").unwrap(), None);
        assert_eq!(read("target", "300 ms").unwrap(), Some(Duration::from_millis(300)));
        assert!(read("target", "soon").is_err());
    }
}
