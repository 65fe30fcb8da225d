//! The program host's gateway: the process (or part of the process) in which user code runs.
//!
//! A host serves one job. On a TaskManager it runs tasks; on the JobManager it builds the graph and runs
//! the coordinators. It is addressed over its inherited socket, or in process.

use crate::job_master::CoordinationError;
use crate::task_executor::{DeployError, DeployTasks};
use crate::{EndpointAddress, Never, NodeAddress, gateway};
use model::{
    AllocationId, CheckpointBarrier, ClusterId, Devices, ExecutionAttemptId, JobGraph, JobId,
    JobMasterId, MemorySize, OperatorId, ProcessSession, ProgramRef,
};
use platform::TlsPem;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use thiserror::Error;

gateway! {
    /// The gateway of a program host, the process that runs a job's program: on a TaskManager it runs the tasks of one
    /// job, on a JobManager it builds the graph and runs the coordinators. Called by its TaskExecutor, by the
    /// ProgramHosts that started it and, on a JobManager, by the JobMaster.
    pub struct ProgramHostGateway = "program_host", fenced by ProcessSession;
    BuildGraph => JobGraph, BuildError;
    StartHost => HostStarted, BuildError;
    DeployToHost => Vec<(ExecutionAttemptId, DeployError)>, DeployError;
    CancelOnHost => (), Never;
    ReleaseSlot => (), Never;
    TriggerOnHost => (), Never;
    NotifyOnHost => (), Never;
    StartCoordinators => (), BuildError;
    HandleOperatorEvent => serde_bytes::ByteBuf, CoordinationError;
    HandleCoordinationRequest => serde_bytes::ByteBuf, CoordinationError;
    SnapshotCoordinators => Vec<(OperatorId, serde_bytes::ByteBuf)>, CoordinationError;
    CoordinatorsCheckpointEnded => (), CoordinationError;
    ResetSubtasks => (), CoordinationError;
    JobEnded => (), CoordinationError;
    ParentAlive => (), Never;
    DescribeProgram => ProgramDescription, Never;
    EndHost => (), Never;
}

/// ProgramHosts (the JobManager's keeper of program hosts) or `flott info` → program host: runs the program's `build`; answered with its
/// graph, or with a [`BuildError`]. Runs no task; coordinators that run in the host are dropped, even if the build fails. Has no limit of
/// time of its own; builds and other requests of a host's coordinators wait for one another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuildGraph {
    /// The program and its inputs (arguments, environment). If its `once` (values that are computed once for all
    /// processes) is empty, `env.once` is evaluated here and its values come back in the graph; an empty `env` is filled likewise, from
    /// this process's environment variables.
    pub program: ProgramRef,
    /// The id that the graph gets; it has no influence on the graph's shape.
    pub job_id: JobId,
    /// Default parallelism of the job, at least 1: that of the submission, or else `parallelism.default` of the job's or
    /// the cluster's options.
    pub parallelism: u32,
    /// Options of the job (`-D`) that shape the graph, such as `pipeline.max-parallelism`.
    pub options: BTreeMap<String, String>,
    /// Settings of the cluster that shape a graph (`pipeline.…`, `execution.checkpointing.…`). The program's own override them, and
    /// `options` overrides both.
    #[serde(default)]
    pub defaults: BTreeMap<String, String>,
    /// True in embedded mode, where relative paths in the program are allowed; false: they are refused.
    pub embedded: bool,
}

/// The reason why a program's graph could not be built, its coordinators not started, or its program host (process) not started or
/// not prepared for tasks. Nothing that was refused runs, except where [`StartCoordinators`] says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BuildError {
    /// The program's `build` returned an error or panicked, or a coordinator could not be made or started by the program's code; the text
    /// says how.
    #[error("the program's build failed: {0}")]
    Program(String),
    /// The graph that the program builds here has another fingerprint than the submitted one (for example because
    /// `build` is not deterministic); the text names the first difference.
    #[error(
        "the program built another graph here than where it was submitted: {0} (it may depend only on its arguments, declared environment variables and env.once)"
    )]
    Differs(String),
    /// The program refuses its arguments, or was asked for help; `text` is what the program itself says.
    #[error("{text}")]
    Usage {
        /// Text to print: the program's help or complaint.
        text: String,
        /// True if help or the version was asked for: no failure.
        help: bool,
    },
    /// The request can't be met: bad paths, options or certificates, no such registered job, a host that serves another job or is
    /// starting already, or a program that is gone from the BlobServer. The text says which.
    #[error("{0}")]
    Invalid(String),
    /// The program could not be fetched (though it is not known to be gone); its process or a thread in it could not be started, did not
    /// answer in time, or died or was released before it answered; no data port can be bound; or 4,096 requests wait in the process. The
    /// text says which. The same request may succeed later.
    #[error("the program's process failed: {0}")]
    Process(String),
    /// There is no room for another process now: no place among the JobManager's program hosts, or too few descriptors,
    /// processes or too little memory on its machine. The same request may succeed later.
    #[error("the program's process cannot be started now: {0}")]
    NoRoom(String),
}

/// TaskExecutor → program host: the host prepares for tasks: binds its data port and divides its memory. Answered with the data
/// address. Refused with [`BuildError`] if no port of `data_ports` can be bound, a thread can't be started, an option or
/// certificate is wrong, the host serves another job, or an earlier call is still being carried out; after a refusal the call may be
/// repeated. A call for the same job after a success only changes the host's share of the memory, because the number of its slots has
/// changed; its other fields are ignored.
#[derive(Clone, Serialize, Deserialize, derive_more::Debug)]
pub struct StartHost {
    /// Job that the host serves; a host never serves a second one.
    pub job_id: JobId,
    /// Id of the cluster the host belongs to.
    pub cluster_id: ClusterId,
    /// A key of 32 bytes derived from cluster secret and job id, for data connections between hosts of this job.
    #[serde(with = "serde_bytes")]
    #[debug("…")]
    pub data_key: Vec<u8>,
    /// Certificate, key and authority for data connections; `None` if the cluster's connections do not use TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_tls: Option<TlsPem>,
    /// Local address that the data port is bound to.
    pub data_bind: String,
    /// Host name under which other hosts reach the data port.
    pub data_host: String,
    /// Ports to try for the data port, in order: 0 (any), a number, a list or a range.
    pub data_ports: String,
    /// Address of the `TaskExecutorGateway` of the parent, the TaskExecutor that started the host, to which the host
    /// reports.
    pub parent: EndpointAddress,
    /// Session (one run) of the parent's process, which calls to the parent must name; others are refused as fenced.
    pub parent_session: ProcessSession,
    /// Memory for the exchange of records in this host, in bytes: the part of its slots in the TaskManager's.
    pub network_memory: MemorySize,
    /// Managed memory of this host in bytes, the part of its slots in the TaskManager's: tables of operators' state up to it do not
    /// count as memory of user code (`task_memory`).
    pub managed_memory: MemorySize,
    /// Memory of user code in this host in bytes, the part of its slots; beyond it the host fails the task that holds most, or ends
    /// its own process. `None`: the host does not limit it.
    pub task_memory: Option<MemorySize>,
    /// `heartbeat.timeout` in milliseconds; a host that has not heard its parent for 0.6 of it exits. 0, for a host
    /// inside its parent's process: it never exits for this reason.
    pub heartbeat_timeout_ms: u64,
    /// Options of the data plane by key, such as `exchange.force-serialization`.
    pub options: BTreeMap<String, String>,
}

/// Answer of a program host to `StartHost`: the host takes tasks from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostStarted {
    /// Address to which other hosts of the job connect to exchange records.
    pub data_address: NodeAddress,
}

/// TaskExecutor → program host: starts tasks. Answered before they have started, with those that can't run (the graph lacks
/// their vertex, or a later attempt of the subtask was here), each with the reason; the others report their states
/// (`ReportTaskStates`), also if they fail to start. An attempt that is or was here already is not started again. The whole call
/// is refused with [`DeployError::Host`] before [`StartHost`] has been answered, for another job, and if the host lacks the graph.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeployToHost {
    /// The deployment that the JobMaster sent, without the tasks that the TaskExecutor refused.
    pub deployment: DeployTasks,
    /// The devices (GPUs, for example) of each slot that has any, by the slot's allocation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<AllocationId, Devices>,
}

/// TaskExecutor → program host: asks tasks to stop. Answered at once; each task reports when it has ended. A task that has not
/// ended after `task.cancellation.timeout` ends the host's process with all its tasks. Attempts that do not run here are skipped.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelOnHost {
    /// Execution attempts (tries of subtasks) to cancel.
    pub attempts: Vec<ExecutionAttemptId>,
}

/// TaskExecutor → program host: a slot was given back; tasks that still run in it are asked to stop and report their
/// ends. Answered at once, before they have ended. The host itself goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseSlot {
    /// Allocation of the slot that was returned: the id under which the job had it.
    pub allocation_id: AllocationId,
}

/// TaskExecutor → program host: has tasks with sources send the barrier of a checkpoint. Answered once it is in the tasks'
/// mailboxes (a task whose mailbox is full fails); each answers later through `ForwardCheckpointAnswer`. Without tasks here it does
/// nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriggerOnHost {
    /// The attempts (tries of subtasks) of tasks with sources, which send the barrier; those that run here no more are
    /// skipped.
    pub attempts: Vec<ExecutionAttemptId>,
    /// Barrier that the sources are to send: the checkpoint's number and how the sources go on after it.
    pub barrier: CheckpointBarrier,
}

/// TaskExecutor → program host: tells tasks how a checkpoint has ended; sinks commit with a complete one, and state that was being
/// written for an aborted one is dropped. Answered at once, before the tasks have acted; a task whose mailbox is full fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifyOnHost {
    /// Attempts (tries of subtasks) whose tasks are notified; those that run here no more are skipped.
    pub attempts: Vec<ExecutionAttemptId>,
    /// The number of the checkpoint that has ended.
    pub checkpoint: u64,
    /// True if the checkpoint is complete, so that sinks commit; false: it was aborted, or is a savepoint after which the job goes on.
    pub complete: bool,
}

/// JobMaster → program host: asks coordinators (operators' parts that run once per job, here on the JobManager) for their snapshots of
/// a checkpoint. Answered with the snapshots by operator, in the operators' own encodings, when all are there (the JobMaster waits 60 s).
/// One failure fails the call: `CoordinationError::Unavailable` if one of the coordinators was not started, or 4,096 requests wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SnapshotCoordinators {
    /// The number of the checkpoint that the snapshots are for.
    pub checkpoint: u64,
    /// The operators whose coordinators take a snapshot, and no others: these may be starting.
    pub operators: BTreeSet<OperatorId>,
}

/// JobMaster → program host: tells the coordinators (the operators' parts that run once per job, here on the
/// JobManager) that a checkpoint has ended. Answered once they have been told, not when they have acted; at once if there are none. A
/// coordinator that fails on it reports [`CoordinatorFailed`](crate::job_master::CoordinatorFailed); one for which 4,096 requests wait is
/// not told.
/// `CoordinationError::Unavailable` if the host has built no graph and started no coordinator, or 4,096 requests wait in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoordinatorsCheckpointEnded {
    /// The number of the checkpoint that has ended.
    pub checkpoint: u64,
    /// True if the checkpoint is complete, so that a restart may begin from it; false: it was aborted, or is a savepoint after which the
    /// job goes on.
    pub complete: bool,
}

/// JobMaster → program host: tells coordinators (operators' parts that run once per job, here on the JobManager) that attempts of subtasks
/// have ended and that these subtasks begin anew from a checkpoint, so that enumerators take back what they had assigned since. Answered
/// when all have; the JobMaster deploys the next attempts then, and takes no checkpoint before. One failure fails the call;
/// `CoordinationError::Unavailable` if one of the coordinators is not started, or 4,096 requests wait for it or in the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResetSubtasks {
    /// The attempts that have ended, by the operator whose coordinator is told.
    pub attempts: BTreeMap<OperatorId, Vec<ExecutionAttemptId>>,
    /// The number of the complete checkpoint that the subtasks begin with; `None`: they begin without state.
    pub checkpoint: Option<u64>,
}

/// JobMaster → program host: starts the coordinators of some operators anew (the operators' parts that run once per job, here on the
/// JobManager). Former coordinators of these operators are dropped; all are, if another JobMaster started them or the host has to build the
/// graph first; a new one starts when the former one of its operator has ended the requests that wait for it. Answered once all have
/// started (the JobMaster waits 120 s); [`BuildError::Differs`] if this host rebuilds another graph, and then none runs;
/// [`BuildError::Program`] if one can't be made or started, while the others may run; another [`BuildError`] if the rebuild fails, a thread
/// can't be started, or 4,096 requests wait in the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartCoordinators {
    /// The graph whose coordinators run. If this host has not built it (the job or the fingerprint differs), the host runs
    /// the program's `build` again and compares the fingerprints; another one is refused with [`BuildError::Differs`].
    pub graph: Arc<JobGraph>,
    /// Address of the job's JobMaster, to which a coordinator that fails outside a call is reported
    /// (`CoordinatorFailed`).
    pub job_master: EndpointAddress,
    /// Leadership of the job's JobMaster; when it differs from the last one's, all earlier coordinators are dropped.
    pub job_master_id: JobMasterId,
    /// The number of this start, counted by the JobMaster; `CoordinatorFailed` repeats it, so that reports of earlier
    /// starts are recognised.
    pub round: u64,
    /// Operators whose coordinators are started; those of other operators go on, unless all are dropped.
    pub operators: BTreeSet<OperatorId>,
    /// Snapshots to restore the coordinators from, by operator, in the operators' own encodings; an operator without
    /// one begins anew.
    pub restore: Vec<(OperatorId, serde_bytes::ByteBuf)>,
    /// True in embedded mode, where relative paths in the program are allowed; false: they are refused.
    pub embedded: bool,
    /// The cluster's options that coordinators may need, those that begin with `s3.`; options of the job override them.
    pub options: BTreeMap<String, String>,
}

/// JobMaster → program host: carries a task's event to its operator's coordinator (the operator's part that runs once
/// per job, here on the JobManager); answered with the coordinator's answer, in the operator's own encoding. Errors:
/// `CoordinationError::NoSuchOperator`, `CoordinationError::Failed` if the coordinator fails on it,
/// `CoordinationError::Unavailable` if none is started or too many requests wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleOperatorEvent {
    /// Execution attempt (one try of a subtask) that sends the event.
    pub attempt: ExecutionAttemptId,
    /// Operator whose coordinator gets the event.
    pub operator: OperatorId,
    /// Event in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub event: Vec<u8>,
}

/// JobMaster → program host: carries a client's request to an operator's coordinator (the operator's part that runs once per job,
/// here on the JobManager); answered with the coordinator's answer, in the operator's own encoding. After a job has finished, the
/// Dispatcher sends requests for collected results itself. Errors: `CoordinationError::NoSuchOperator`, `CoordinationError::Failed`
/// if the coordinator fails on it, `CoordinationError::Unavailable` if none is started or too many requests wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleCoordinationRequest {
    /// Operator whose coordinator gets the request.
    pub operator: OperatorId,
    /// Request in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub request: Vec<u8>,
}

/// JobMaster → program host: tells the coordinators (the operators' parts that run once per job, here on the
/// JobManager) that all tasks have finished, or that the job has failed or was cancelled. In the first case they publish their
/// results (a collector completes its result; the JobMaster waits 600 s), otherwise they drop them (a hint: the host is ended soon
/// anyway). Answered once all have, at once without coordinators. The first failure of a coordinator is the answer
/// (`CoordinationError::Failed`), `Unavailable` if 4,096 requests wait; an error with `finished` means that the job has not finished: it
/// fails over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobEnded {
    /// True if all tasks have finished, so that results are published; false if the job failed or was cancelled.
    pub finished: bool,
}

/// TaskManager → program host: the parent process lives; sent from its heartbeat lane to hosts in processes of their own, at most twice per
/// `heartbeat.interval`. Such a host that does not hear the parent for 0.6 of `heartbeat.timeout` kills itself and its process group, so
/// that its tasks end. It is also the first call to a new process, on a JobManager too, whose answer shows that the process is up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ParentAlive {}

/// JobManager → program host: asks for the names of the jobs that the program registers, as for an uploaded one. Of the
/// user's code only `main` has run before; `build` is not called. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DescribeProgram {}

/// The part of a program that is known before any of its jobs is built: the answer to `DescribeProgram`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramDescription {
    /// Names of the program's registered jobs, in the order of their registration.
    pub jobs: Vec<String>,
}

/// Parent process → program host: the host is to cancel its tasks, and to end when they have ended, after 15 s at the
/// latest. Answered at once, before anything has ended. Coordinators end with the host. The caller kills a host that does not end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndHost {}
