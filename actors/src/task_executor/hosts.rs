//! Program hosts as the TaskExecutor's shell sees them: launched (and kept alive by beats) by their keeper,
//! started, watched for their end, and called in order.
//!
//! One host of a job at a time. A call of a former launch never reaches the present one.

use super::host_calls::{HostCall, Refusals, make_calls};
use super::{JobShell, TaskExecutor};
use crate::blob_server::BlobLease;
use crate::host_exit::{EXIT_WITHIN, is_lost};
use actix::{ActorFutureExt as _, AsyncContext as _, Context, WrapFuture as _};
use control::task_executor::Event;
use gateways::job_services::{
    AwaitHostExit, HostAddress, LaunchHost, ProgramHostsGateway, ReleaseHost,
};
use gateways::program_host::{
    BuildError, DeployToHost, HostStarted, ProgramHostGateway, StartHost,
};
use gateways::task_executor::{
    DeployError, DeployTasks, ForwardCheckpointAnswer, ForwardOperatorEvent, ReportTaskStates,
    TaskDeployment, TaskExecutorGateway,
};
use gateways::{
    Call as _, CallError, Entered, FabricError, NodeAddress, Registration, Remote, TraceContext,
};
use model::{
    AllocationId, BlobKey, ClusterId, ExecutionAttemptId, FailureCause, JobId, MemorySize,
    ProcessSession,
};
use platform::watch;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Calls that wait for one host.
const CALLS_MAX: usize = 1024;
/// Beyond the time that a host has to start, for its program to be fetched.
const FETCH_WITHIN: Duration = Duration::from_secs(120);
/// Time for which one request for a host's exit stays open.
const EXIT_WAIT: Duration = Duration::from_secs(30);
/// Beyond the time that tasks have to be cancelled, for a host to be gone.
const END_GRACE: Duration = Duration::from_secs(10);

/// The settings that each program host (process that runs a job's tasks) of this TaskManager receives when it is started: the
/// cluster's id, addresses and ports for the exchange of records, options, and the memory limit. Made once
/// at the process's start; the TaskExecutor sends them to each host, with what depends on the job (key, slots, program).
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// Id of the cluster the host belongs to.
    pub cluster_id: ClusterId,
    /// Local IP address or host name that the ports for the exchange of records are bound to.
    pub data_bind: String,
    /// Host name or address under which the hosts of other TaskManagers reach these ports.
    pub data_host: String,
    /// Ports that hosts may open for the exchange of records: `0` (any free one), a number, a list or a range.
    pub data_ports: String,
    /// Settings of the process that concern the exchange, state and execution of tasks, by the option's key, without defaults; every host
    /// gets them. They may contain the keys for S3 in clear text.
    pub options: BTreeMap<String, String>,
    /// True if hosts limit the memory of user code to their slots' part of `taskmanager.memory.task.size`; false: no
    /// limit.
    pub limits_memory: bool,
}

impl HostSettings {
    /// Reads the settings from the options: the data port, the bind address, and those options that are set and concern tasks (`s3.*`,
    /// `exchange.*`, `execution.*`, `task.*`, `taskmanager.network.*`, `taskmanager.memory.segment*`). The memory limit is on.
    pub fn from_options(options: &conf::Options, cluster_id: ClusterId, data_host: String) -> Self {
        const DATA_PLANE: [&str; 6] = [
            "s3.",
            "exchange.",
            "execution.",
            "taskmanager.network.",
            "task.",
            "taskmanager.memory.segment",
        ];
        let mut of_data_plane = options.to_map();
        of_data_plane.retain(|key, _| DATA_PLANE.iter().any(|prefix| key.starts_with(prefix)));
        let ports = options.get(&conf::taskmanager::DATA_PORT);
        Self {
            cluster_id,
            data_bind: options.get(&conf::taskmanager::BIND_HOST),
            data_host,
            data_ports: conf::OptionValue::show(&ports).unwrap_or_else(|| "0".to_owned()),
            options: of_data_plane,
            limits_memory: true,
        }
    }
}

/// The host of a job, from the decision to launch it until it has ended.
pub(super) struct RunningHost {
    launch: u64,
    /// Set when it is not wanted any more: a launch under way stops where it is.
    unwanted: Rc<Cell<bool>>,
    /// Reason why the host could not be started; the exit of its process after that is ignored.
    failed: Option<FailureCause>,
    up: Option<Up>,
    /// Set when it has ended, to the way it ended.
    exit: watch::Sender<Option<String>>,
    /// Registration of the endpoint that the host reports to.
    _endpoint: Registration,
    /// Keeps its program in the cache.
    _lease: Option<BlobLease>,
}

/// A host that takes tasks.
struct Up {
    data_address: NodeAddress,
    calls: mpsc::Sender<(TraceContext, HostCall)>,
    /// Number of slots whose memory the host has.
    slots: usize,
    /// True if it is a process of its own.
    own_process: bool,
}

impl RunningHost {
    pub(super) fn data_address(&self) -> Option<NodeAddress> {
        self.up.as_ref().map(|up| up.data_address.clone())
    }

    /// Queues a call in the current trace, unless the host is not up or has too many waiting.
    fn call(&self, call: HostCall) -> Result<(), &'static str> {
        let up = self.up.as_ref().ok_or("the host is not up")?;
        up.calls
            .try_send((TraceContext::current(), call))
            .map_err(|_| "too many calls wait for the host")
    }
}

/// Returns the name of the endpoint that the hosts of a job report to.
pub(super) fn endpoint_for(job: JobId) -> String {
    format!("{}/{job}", super::ENDPOINT)
}

impl TaskExecutor {
    pub(super) fn launch_host(
        &mut self,
        job: JobId,
        launch: u64,
        program: Option<BlobKey>,
        ctx: &mut Context<Self>,
    ) {
        let unwanted = Rc::new(Cell::new(false));
        let calls =
            [ReportTaskStates::NAME, ForwardOperatorEvent::NAME, ForwardCheckpointAnswer::NAME];
        let endpoint = self.services.rpc.serve_for_job(
            endpoint_for(job),
            self.services.session,
            TaskExecutorGateway::endpoint(ctx.address()),
            job,
            &calls,
        );
        let host = RunningHost {
            launch,
            unwanted: Rc::clone(&unwanted),
            failed: None,
            up: None,
            exit: watch::Sender::new(None),
            _endpoint: endpoint,
            _lease: program.as_ref().map(|key| self.deps.blobs.lease(key)),
        };
        self.hosts.insert(job, host);
        let within = self.services.options.get(&conf::taskmanager::HOST_START_TIMEOUT);
        let keeper = self.deps.program_hosts.clone();
        let launching = launch_process(keeper, job, program, within, unwanted);
        let launched =
            launching.into_actor(self).map(move |launched, executor, ctx| match launched {
                Ok(Some(address)) => executor.host_launched(job, launch, address, within, ctx),
                // The host was ended meanwhile: the code that ended it does the rest.
                Ok(None) => {}
                Err(cause) => executor.host_failed(job, launch, cause, ctx),
            });
        ctx.spawn(launched);
    }

    /// Handles that a host's process was launched: watches for its end, and sends it its settings.
    fn host_launched(
        &mut self,
        job: JobId,
        launch: u64,
        address: HostAddress,
        within: Duration,
        ctx: &mut Context<Self>,
    ) {
        let wanted = self.hosts.get(&job).is_some_and(|h| h.launch == launch && !h.unwanted.get());
        if !wanted {
            return;
        }
        let exit = await_exit(self.deps.program_hosts.clone(), job, address.session);
        let who = self.services.resource_id.clone();
        let ended = exit.into_actor(self).map(move |how, executor, ctx| {
            let message =
                format!("the program host of job {job} on TaskManager {who} ended: {how}");
            executor.host_gone(
                job,
                launch,
                FailureCause::recoverable("ProgramHostLost", message),
                ctx,
            );
        });
        ctx.spawn(ended);
        let remote: Remote<ProgramHostGateway> =
            self.services.rpc.gateway(&address.address, address.session);
        let _entered = enter(&self.jobs, job);
        let slots = self.core.slots_of(job);
        let start = self.start_host(job, slots, address.pid.is_some());
        let asked = remote.clone();
        let starting = async move {
            let started = asked.ask_within(start, within).await;
            if matches!(&started, Err(CallError::Fabric(error)) if is_lost(error)) {
                // If the host has ended, the word of how it ended comes meanwhile and takes the host away.
                tokio::time::sleep(EXIT_WITHIN).await;
            }
            started
        };
        let started = starting.into_actor(self).map(move |started, executor, ctx| match started {
            Ok(HostStarted { data_address }) => {
                let own_process = address.pid.is_some();
                let (calls, queue) = mpsc::channel(CALLS_MAX);
                let up = Up { data_address, calls, slots, own_process };
                executor.host_started(job, launch, up, remote, queue, ctx);
            }
            Err(error) => executor.host_failed(job, launch, start_failure(error), ctx),
        });
        ctx.spawn(started);
    }

    fn host_started(
        &mut self,
        job: JobId,
        launch: u64,
        up: Up,
        remote: Remote<ProgramHostGateway>,
        queue: mpsc::Receiver<(TraceContext, HostCall)>,
        ctx: &mut Context<Self>,
    ) {
        let Some(host) = self.hosts.get_mut(&job).filter(|h| h.launch == launch) else { return };
        let _entered = enter(&self.jobs, job);
        tracing::info!(%job, data_address = %up.data_address, "program host is up");
        host.up = Some(up);
        let calls = make_calls(remote, queue, host.exit.subscribe());
        ctx.spawn(calls.into_actor(self));
        self.step(Event::HostUp { job, launch }, ctx);
    }

    /// Handles a failed launch: ends what was started of it before the core hears of the failure.
    fn host_failed(
        &mut self,
        job: JobId,
        launch: u64,
        cause: FailureCause,
        ctx: &mut Context<Self>,
    ) {
        let ours = self.hosts.get_mut(&job).filter(|h| h.launch == launch && !h.unwanted.get());
        let Some(host) = ours else { return };
        let _entered = enter(&self.jobs, job);
        tracing::warn!(%job, %cause, "program host could not be started");
        host.failed = Some(cause.clone());
        let keeper = self.deps.program_hosts.clone();
        let release = async move { keeper.ask(ReleaseHost { job_id: job, at_once: true }).await };
        let released = release.into_actor(self).map(move |released, executor, ctx| {
            executor.check_keeper(released.err());
            executor.host_gone(job, launch, cause, ctx);
        });
        ctx.spawn(released);
    }

    /// Handles the end of a host, whether it ended by itself or not.
    fn host_gone(&mut self, job: JobId, launch: u64, cause: FailureCause, ctx: &mut Context<Self>) {
        if self.hosts.get(&job).is_some_and(|h| h.launch == launch) {
            let host = self.hosts.remove(&job);
            if let Some(host) = &host {
                host.exit.send_replace(Some(cause.message.clone()));
            }
            let cause = host.and_then(|host| host.failed).unwrap_or(cause);
            self.step(Event::HostLost { job, launch, cause }, ctx);
        }
    }

    pub(super) fn end_host(
        &mut self,
        job: JobId,
        launch: u64,
        at_once: bool,
        ctx: &mut Context<Self>,
    ) {
        if let Some(host) = self.hosts.get(&job).filter(|h| h.launch == launch) {
            host.unwanted.set(true);
        }
        let _entered = enter(&self.jobs, job);
        tracing::info!(%job, at_once, "ending the program host");
        let cancellation = self.services.options.get(&conf::taskmanager::CANCELLATION_TIMEOUT);
        let keeper = self.deps.program_hosts.clone();
        let message = ReleaseHost { job_id: job, at_once };
        let within = cancellation.saturating_add(END_GRACE);
        let release = async move { keeper.ask_within(message, within).await };
        let released = release.into_actor(self).map(move |released, executor, ctx| {
            executor.check_keeper(released.err());
            if executor.hosts.get(&job).is_some_and(|h| h.launch == launch) {
                executor.hosts.remove(&job);
            }
            executor.step(Event::HostEnded { job, launch }, ctx);
        });
        ctx.spawn(released);
    }

    /// Ends the process if its keeper of program hosts is gone, because without it hosts could
    /// neither be ended nor their end be noticed. Other errors are logged.
    fn check_keeper<E: std::fmt::Display>(&self, error: Option<CallError<E>>) {
        match error {
            None => {}
            Some(CallError::Fabric(
                e @ (FabricError::NoSuchEndpoint { .. } | FabricError::HandlerPanicked { .. }),
            )) => {
                let cause = format!("the keeper of program hosts is gone: {e}");
                self.services.fatal.report(super::ENDPOINT, cause);
            }
            Some(error) => tracing::warn!(%error, "a program host could not be released"),
        }
    }

    pub(super) fn resize_host(&mut self, job: JobId, launch: u64) {
        let slots = self.core.slots_of(job);
        let mut start = None;
        if let Some(host) = self.hosts.get(&job).filter(|h| h.launch == launch)
            && let Some(up) = host.up.as_ref().filter(|up| up.slots != slots)
        {
            start = Some(self.start_host(job, slots, up.own_process));
        }
        if let (Some(start), Some(host)) = (start, self.hosts.get_mut(&job)) {
            match host.call(HostCall::Resize(Box::new(start))) {
                Ok(()) => host.up.iter_mut().for_each(|up| up.slots = slots),
                Err(why) => tracing::warn!(%job, why, "cannot tell a program host its memory"),
            }
        }
    }

    pub(super) fn cancel_on_host(&mut self, job: JobId, attempts: Vec<ExecutionAttemptId>) {
        self.call_host(job, HostCall::Cancel(attempts));
    }

    pub(super) fn release_slot_on_host(&mut self, job: JobId, allocation: AllocationId) {
        self.call_host(job, HostCall::Release(allocation));
    }

    /// Hands a deployment on; the receiver gets the host's answer.
    pub(super) fn deploy_on_host(
        &mut self,
        deployment: DeployTasks,
    ) -> oneshot::Receiver<Result<Refusals, DeployError>> {
        let (reply, answer) = oneshot::channel();
        let devices_of = |task: &TaskDeployment| {
            let slot = self.core.slot_index(task.allocation_id)?;
            let devices = self.deps.spec.devices(slot);
            (!devices.is_empty()).then_some((task.allocation_id, devices))
        };
        let devices = deployment.tasks.iter().filter_map(devices_of).collect();
        let job = deployment.job_id;
        self.call_host(job, HostCall::Deploy(DeployToHost { deployment, devices }, reply));
        answer
    }

    pub(super) fn call_host(&mut self, job: JobId, call: HostCall) {
        let called = match self.hosts.get(&job) {
            Some(host) => host.call(call),
            None => Err("there is no host"),
        };
        if let Err(why) = called {
            tracing::warn!(%job, why, "a call to a program host was given up");
        }
    }

    /// Makes the start message of a host with that number of slots.
    fn start_host(&self, job_id: JobId, slots: usize, own_process: bool) -> StartHost {
        let settings = &self.deps.hosts;
        let spec = &self.deps.spec;
        let all = u64::from(spec.slots.max(1));
        let share = |whole: MemorySize| {
            // Exact for all slots together, so that nothing is left unused by rounding.
            let slots = u64::try_from(slots).unwrap_or(all).min(all);
            let bytes = u128::from(whole.0) * u128::from(slots) / u128::from(all);
            MemorySize(u64::try_from(bytes).unwrap_or(whole.0))
        };
        let timeout = self.services.heartbeat.limits().timeout;
        let heartbeat_timeout_ms = match own_process {
            true => u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            false => 0,
        };
        StartHost {
            job_id,
            cluster_id: settings.cluster_id.clone(),
            data_key: (self.deps.data_key)(job_id).to_vec(),
            data_tls: self.services.rpc.tls().map(|tls| tls.pem().clone()),
            data_bind: settings.data_bind.clone(),
            data_host: settings.data_host.clone(),
            data_ports: settings.data_ports.clone(),
            parent: self.services.rpc.address_of(&endpoint_for(job_id)),
            parent_session: self.services.session,
            network_memory: share(spec.network),
            managed_memory: share(spec.managed),
            task_memory: settings.limits_memory.then(|| share(spec.task)),
            heartbeat_timeout_ms,
            options: settings.options.clone(),
        }
    }

    /// Ends all hosts. The future resolves when they have ended.
    pub(super) fn end_all_hosts(&mut self) -> impl Future<Output = ()> + use<> {
        let keeper = self.deps.program_hosts.clone();
        let jobs: Vec<JobId> = std::mem::take(&mut self.hosts).into_keys().collect();
        let releases = jobs.into_iter().map(move |job_id| {
            let keeper = keeper.clone();
            async move {
                if let Err(error) = keeper.ask(ReleaseHost { job_id, at_once: true }).await {
                    tracing::warn!(job = %job_id, %error, "a program host could not be released");
                }
            }
        });
        let all = futures::future::join_all(releases);
        async move {
            all.await;
        }
    }
}

/// Enters the trace in which this process works for a job.
fn enter(jobs: &BTreeMap<JobId, JobShell>, job: JobId) -> Entered {
    jobs.get(&job).map(|shell| shell.trace).unwrap_or_default().enter()
}

/// Asks the keeper to fetch the program and start it. Returns `None` if the host is not wanted any
/// more.
async fn launch_process(
    keeper: Remote<ProgramHostsGateway>,
    job_id: JobId,
    program: Option<BlobKey>,
    start_within: Duration,
    unwanted: Rc<Cell<bool>>,
) -> Result<Option<HostAddress>, FailureCause> {
    let within = start_within.saturating_add(FETCH_WITHIN);
    let launched = keeper.ask_within(LaunchHost { job_id, program }, within).await;
    if unwanted.get() {
        return Ok(None);
    }
    launched.map(Some).map_err(start_failure)
}

/// Waits until the host has ended, and returns the way it ended, as text for users.
async fn await_exit(
    keeper: Remote<ProgramHostsGateway>,
    job_id: JobId,
    session: ProcessSession,
) -> String {
    let wait_ms = u64::try_from(EXIT_WAIT.as_millis()).unwrap_or(u64::MAX);
    loop {
        let question = AwaitHostExit { job_id, session, wait_ms };
        match keeper.ask_within(question, EXIT_WAIT.saturating_add(END_GRACE)).await {
            Ok(Some(exit)) => return exit.cause,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(job = %job_id, %error, "a program host's end can't be watched");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Makes the job's failure from the reason why a host was not started.
fn start_failure(error: CallError<BuildError>) -> FailureCause {
    let message = error.to_string();
    match error {
        CallError::Refused(BuildError::Program(_)) => FailureCause::fatal("UserError", message),
        CallError::Refused(BuildError::Differs(_)) => FailureCause::fatal("Differs", message),
        CallError::Refused(BuildError::Invalid(_) | BuildError::Usage { .. }) => {
            FailureCause::fatal("InvalidProgram", message)
        }
        CallError::Refused(BuildError::Process(_) | BuildError::NoRoom(_))
        | CallError::Fabric(_) => FailureCause::recoverable("ProgramHostFailed", message),
    }
}
