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
    /// The gateway of a program host.
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
    JobEnded => (), CoordinationError;
    ParentAlive => (), Never;
    DescribeProgram => ProgramDescription, Never;
    EndHost => (), Never;
}

/// Run the program's `build` and return its graph (JobManager side; also `flott info`).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuildGraph {
    /// The program and its inputs. Where `once` is empty, `env.once` is evaluated and its values come
    /// back in the graph.
    pub program: ProgramRef,
    /// The id that the graph gets.
    pub job_id: JobId,
    /// Default parallelism, at least 1 (`parallelism.default`).
    pub parallelism: u32,
    /// `pipeline.max-parallelism` and whatever else shapes the graph; `-D` options.
    pub options: BTreeMap<String, String>,
    /// True if relative paths are allowed (embedded mode).
    pub embedded: bool,
}

/// The reason why a program's graph could not be built.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum BuildError {
    /// `build` returned an error or panicked.
    #[error("the program's build failed: {0}")]
    Program(String),
    /// The graph differs from the submitted one.
    #[error(
        "the program built another graph here than where it was submitted: {0} (it may depend only on its arguments, declared environment variables and env.once)"
    )]
    Differs(String),
    /// The program refuses its arguments, or was asked for help; `text` is its own text.
    #[error("{text}")]
    Usage {
        /// Text to print: the program's help or complaint.
        text: String,
        /// True if help or the version was asked for: no failure.
        help: bool,
    },
    /// Bad paths, options, no such registered job.
    #[error("{0}")]
    Invalid(String),
    /// The process could not be started or died.
    #[error("the program's process failed: {0}")]
    Process(String),
    /// There is no room for another process now: no place among the JobManager's program hosts, or too few descriptors,
    /// processes or too little memory on its machine. The same request may succeed later.
    #[error("the program's process cannot be started now: {0}")]
    NoRoom(String),
}

/// A TaskManager's host prepares for tasks: binds its data port, keeps the graph's inputs.
#[derive(Clone, Serialize, Deserialize, derive_more::Debug)]
pub struct StartHost {
    /// Job that the value belongs to.
    pub job_id: JobId,
    /// Id of the cluster the host belongs to.
    pub cluster_id: ClusterId,
    /// A key derived from cluster secret and job id, for data connections between hosts of this job.
    #[serde(with = "serde_bytes")]
    #[debug("…")]
    pub data_key: Vec<u8>,
    /// Certificate, key and authority for data connections; `None` if the cluster's connections do not use TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_tls: Option<TlsPem>,
    /// Bind address of the data port, and the host name that is advertised.
    pub data_bind: String,
    /// Advertised host name.
    pub data_host: String,
    /// Ports to try: 0, a number, a list or a range.
    pub data_ports: String,
    /// Address of the parent's `TaskExecutorGateway`.
    pub parent: EndpointAddress,
    /// Session of the parent's process, by which calls to it are fenced.
    pub parent_session: ProcessSession,
    /// Exchange memory of this host.
    pub network_memory: MemorySize,
    /// Managed memory of this host.
    pub managed_memory: MemorySize,
    /// Memory of user code in this host; `None`: the host does not limit it.
    pub task_memory: Option<MemorySize>,
    /// `heartbeat.timeout`; a host that has not heard its parent for 0.6 of it exits (0: in process, never).
    pub heartbeat_timeout_ms: u64,
    /// Directory for temporary files of the host's tasks.
    pub tmp_dir: String,
    /// `exchange.force-serialization` and other data plane options.
    pub options: BTreeMap<String, String>,
}

/// Answer of a program host that has started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostStarted {
    /// Address for data connections of other hosts.
    pub data_address: NodeAddress,
}

/// Tasks to run. Answered with those that can't be; the others report their states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeployToHost {
    /// The deployment that the JobMaster sent.
    pub deployment: DeployTasks,
    /// The devices of its slots, of those that have any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<AllocationId, Devices>,
}

/// Asks a program host to cancel attempts; they report when they have ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CancelOnHost {
    /// Execution attempts that the message concerns.
    pub attempts: Vec<ExecutionAttemptId>,
}

/// Tells a host that a slot was returned; tasks that still run in it are cancelled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseSlot {
    /// Allocation of the slot concerned.
    pub allocation_id: AllocationId,
}

/// The barrier of a checkpoint, for tasks with sources.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TriggerOnHost {
    /// The attempts of tasks with sources.
    pub attempts: Vec<ExecutionAttemptId>,
    /// Barrier that the sources are to send.
    pub barrier: CheckpointBarrier,
}

/// Tells tasks how a checkpoint has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NotifyOnHost {
    /// Attempts that are notified.
    pub attempts: Vec<ExecutionAttemptId>,
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// True if it is complete; otherwise it was aborted.
    pub complete: bool,
}

/// Asks every coordinator for its snapshot of a checkpoint, on the JobManager side. The answer
/// comes when all snapshots are there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SnapshotCoordinators {
    /// The number of the checkpoint.
    pub checkpoint: u64,
}

/// JobManager side: a checkpoint has ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoordinatorsCheckpointEnded {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// True if it is complete; otherwise it was aborted.
    pub complete: bool,
}

/// JobManager side: (re)start the coordinators of some operators for an execution graph. Older ones of these operators are dropped, and
/// all that another JobMaster started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StartCoordinators {
    /// The graph whose coordinators run. Rebuilt and compared if this host did not build it.
    pub graph: Arc<JobGraph>,
    /// The job's JobMaster: a coordinator that fails outside a call is reported to it (`CoordinatorFailed`).
    pub job_master: EndpointAddress,
    /// Leadership of the job's JobMaster.
    pub job_master_id: JobMasterId,
    /// The number of this start; `CoordinatorFailed` repeats it.
    pub round: u64,
    /// Operators whose coordinators are started.
    pub operators: BTreeSet<OperatorId>,
    /// Opaque snapshots to restore from, by operator.
    pub restore: Vec<(OperatorId, serde_bytes::ByteBuf)>,
    /// True if relative paths are allowed (embedded mode).
    pub embedded: bool,
    /// The cluster's options that coordinators may need, those that begin with `s3.`; options of the job override them.
    pub options: BTreeMap<String, String>,
}

/// An operator's request to its coordinator, and its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleOperatorEvent {
    /// Execution attempt that sends the message.
    pub attempt: ExecutionAttemptId,
    /// Operator that the message concerns.
    pub operator: OperatorId,
    /// Event in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub event: Vec<u8>,
}

/// A client's request to a coordinator, and its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HandleCoordinationRequest {
    /// Operator that the message concerns.
    pub operator: OperatorId,
    /// Request in the operator's own encoding; the runtime does not read it.
    #[serde(with = "serde_bytes")]
    pub request: Vec<u8>,
}

/// JobManager side: the job is over; where every task has finished, coordinators publish (a collector completes
/// its result). An error means that the job has not finished.
/// Answered once all have; an error with `finished` is a failover of the job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobEnded {
    /// True if the job finished, false if it failed or was cancelled.
    pub finished: bool,
}

/// The parent lives; sent on its heartbeat lane.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ParentAlive {}

/// Asks for the description of the program. Of the user's code only `main` has run before.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DescribeProgram {}

/// A program, before any of its jobs is built.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramDescription {
    /// Names of its registered jobs, in the order of their registration.
    pub jobs: Vec<String>,
}

/// Cancel what runs and exit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndHost {}
