//! Gateways of the services that belong to one component: called inside one process.

use crate::leader_election::LeaderInformation;
use crate::program_host::BuildError;
use crate::{EndpointAddress, Facts, Never, facts, gateway};
use model::{DispatcherId, JobGraph, JobId, JobMasterId, JobStatus, ProcessSession, ProgramRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

gateway! {
    /// The gateway of a JobManagerRunner, which runs the JobMaster of one job in the Dispatcher's process and delivers
    /// the job's end. Called by the Dispatcher and the job's JobMaster.
    pub struct JobManagerRunnerGateway = "job_manager_runner", fenced by DispatcherId;
    RequestJobMaster => Option<JobMasterAddress>, Never;
    JobReachedTerminalState => (), Never;
}

gateway! {
    /// The gateway of a TaskExecutor's JobLeaderService, which finds the JobMasters of the TaskExecutor's jobs and
    /// registers the TaskExecutor there; its TaskExecutor calls it.
    pub struct JobLeaderServiceGateway = "job_leader_service", fenced by ProcessSession;
    FollowJobs => u64, Never;
}

/// TaskExecutor → its JobLeaderService: carries facts (messages that must arrive exactly once and in order) about the
/// jobs to follow. The answer is the number of the fact that is expected next (see [`crate::delivery`]).
pub type FollowJobs = Facts<JobLeaderFact>;

facts! {
    /// The facts (messages that must arrive exactly once and in order) that the JobLeaderService receives from its
    /// TaskExecutor.
    pub enum JobLeaderFact {
        WatchJob,
        ForgetJob,
        Reconnect,
    }
}

gateway! {
    /// The gateway of a process's keeper of program hosts (ProgramHosts), which starts, finds, watches and ends the
    /// hosts of jobs in that process; a host is the process that runs a job's program. Called by the TaskExecutor, or
    /// on a JobManager by the Dispatcher and JobMasters.
    pub struct ProgramHostsGateway = "program_hosts", fenced by ProcessSession;
    BuildInHost => BuiltInHost, BuildError;
    LaunchHost => HostAddress, BuildError;
    FindHost => Option<HostAddress>, Never;
    AwaitHostExit => Option<HostExit>, Never;
    ServeCollected => (), Never;
    ReleaseHost => (), Never;
}

/// Dispatcher → the job's runner: asks for the job's current JobMaster. The answer is `None` while no JobMaster answers: it
/// starts, stops, or has died. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestJobMaster {}

/// The address and leadership of a job's JobMaster, which runs in its Dispatcher's process: the answer to
/// `RequestJobMaster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMasterAddress {
    /// Address of the JobMaster's endpoint.
    pub address: EndpointAddress,
    /// Leadership of the job's JobMaster.
    pub job_master_id: JobMasterId,
}

/// JobMaster → its runner: the job has finished, failed for good or been cancelled; the runner hands the details to the
/// Dispatcher, which archives them and records the end. Answered before that: the job counts as ended only when its end is recorded. A
/// repeated report changes nothing. The JobMaster repeats the call until it is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobReachedTerminalState {
    /// Leadership of the JobMaster that reports; a report of one that does not lead any more is answered the same, but ignored.
    pub job_master_id: JobMasterId,
    /// All details of the job at its end.
    pub details: Box<crate::job_master::JobDetails>,
    /// State in which the job ended for good; same as `details.status`.
    pub status: JobStatus,
}

/// TaskExecutor → JobLeaderService: begins to follow a job. The service registers the TaskExecutor at the job's
/// JobMaster, and again at each new one. It reports each registration, the end of that JobMaster's leadership, and a
/// refusal for good. For a job that is followed already, the message replaces the TaskExecutor's incarnation (its
/// registration at the ResourceManager), which counts from the next registration at a JobMaster on, and the leader, if
/// the session of `hint` is newer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WatchJob {
    /// Job to follow.
    pub job_id: JobId,
    /// The JobMaster as the ResourceManager's slot request named it. The service registers there until the leader retrieval
    /// names a leader; after that only if this one's session is newer. `None`: only the retrieval counts.
    pub hint: Option<LeaderInformation>,
    /// Incarnation of the TaskExecutor (the id that the ResourceManager gave to its latest registration), under which
    /// the service registers it at JobMasters from now on.
    pub instance_id: model::InstanceId,
}

/// TaskExecutor → JobLeaderService: stops following a job, whose last slot on the TaskExecutor was freed. The JobMaster is
/// not told, and the service reports nothing about the job any more, not even a registration that is under way.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForgetJob {
    /// Job to follow no longer; one that is not followed changes nothing.
    pub job_id: JobId,
}

/// TaskExecutor → JobLeaderService: registers again at the job's current leader, because the connection was lost; the first
/// attempt follows after a pause (`cluster.registration.error-delay`). Does nothing if the service is not registered at
/// a JobMaster of the job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reconnect {
    /// Job to whose JobMaster the connection was lost.
    pub job_id: JobId,
}

/// Dispatcher → ProgramHosts: starts a child process on the JobManager that runs the program's `build` (if the JobManager itself is the
/// program, the host is inside it); answered with the graph, or the program's [`BuildError`]. Waits for a place among the hosts
/// (`jobmanager.program-hosts.max`) for at most four fifths of the time until the call's deadline, and at most 120 s for the build; refused
/// with [`BuildError::NoRoom`] if no place is free in time, or at once if 256 builds wait. With `keep` the child stays for the job's
/// coordinators, in case the job gets its slots at once; it is ended when another request needs its place, when four newer children wait,
/// or after 10 s; a host inside the JobManager stays until [`ReleaseHost`]. Otherwise it is ended before the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuildInHost {
    /// The program and its inputs: arguments, environment and once-computed values.
    pub program: ProgramRef,
    /// Id of the job, which the graph gets; the child counts as this job's host.
    pub job_id: JobId,
    /// Default parallelism of the job, at least 1: that of the submission, or else `parallelism.default` of the job's or
    /// the cluster's options.
    pub parallelism: u32,
    /// The job's own options (`-D`), which override the cluster's and may change the graph.
    pub options: BTreeMap<String, String>,
    /// Settings of the cluster that shape a graph (`pipeline.…`, `execution.checkpointing.…`). The program's own override them, and
    /// `options` overrides both.
    #[serde(default)]
    pub defaults: BTreeMap<String, String>,
    /// True if the child is kept for the job's coordinators; otherwise, and after a failed build, it is ended.
    pub keep: bool,
}

/// The answer to [`BuildInHost`]: the graph alone. With `keep` the child that built it stays for a while, at most 10 s unless
/// the job's coordinators are started in it (a host inside the JobManager stays); [`FindHost`] or [`LaunchHost`] names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BuiltInHost {
    /// Graph that the program built.
    pub graph: JobGraph,
}

/// TaskExecutor or JobMaster → ProgramHosts: provides the job's program host of this process: the existing one, or a
/// new one, after the former has ended. Answered when the host's gateway answers. Refused with [`BuildError::NoRoom`]
/// if no place is free in time (10 s on a JobManager; on a TaskManager, 120 s for the end of the job's former host) or the
/// machine lacks room for a process, with `BuildError::Invalid` if the program is not in the BlobServer any more, and with
/// `BuildError::Process` if it could not be fetched, or if the host could not be started, did not answer within
/// `taskmanager.program-host.start-timeout` or was released meanwhile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LaunchHost {
    /// Job that the host serves.
    pub job_id: JobId,
    /// Program of the job; `None`: this process itself is the program.
    pub program: Option<model::BlobKey>,
}

/// The address of a running program host, by which its gateway is made: the answer to [`LaunchHost`] and [`FindHost`]. Valid for this run
/// of the host only: a later host of the job has another session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAddress {
    /// Address of the host's `ProgramHostGateway`.
    pub address: EndpointAddress,
    /// Session (one run) of the host's process, which calls to the host must name; others are refused as fenced.
    pub session: ProcessSession,
    /// Process id of the host; `None` if it runs inside this process.
    pub pid: Option<u32>,
}

/// Dispatcher → ProgramHosts: asks for the address of a job's host of this process; the answer is `None` if there is none,
/// or it is starting or being ended. Starts no host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FindHost {
    /// Job whose host is looked up.
    pub job_id: JobId,
}

/// TaskExecutor or JobMaster → ProgramHosts: waits until the host of a job has ended; answered with the way in which it
/// ended, or with `None` if it has not after `wait_ms`. If the job has another host here, or none, the one that is
/// meant counts as ended by itself, and the answer comes at once. Ends no host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AwaitHostExit {
    /// Job whose host is watched.
    pub job_id: JobId,
    /// Session (run) of the host that is meant, as its `HostAddress` named it, so that a later host of the job is not
    /// meant.
    pub session: ProcessSession,
    /// Maximum time to wait, in milliseconds; more than 60,000 count as that. 0 answers at once.
    pub wait_ms: u64,
}

/// The end of a program host, the answer to [`AwaitHostExit`]: how it ended, and whether that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostExit {
    /// The way in which the host ended, as text for users: "ended with exit code 101", "was ended by SIGKILL" followed by the reason
    /// that the host has left, or "released while it started", for example.
    pub cause: String,
    /// True if the keeper of the hosts has ended the host, on request or by itself (to free its place, for example); false: the host died
    /// by itself.
    pub released: bool,
}

/// Dispatcher → ProgramHosts: says that the job has finished, and that its host goes on to serve the results that the
/// job collected for its client; repeated at each request for them. For 5 s after each call the host is not ended to make
/// room; after that it may be, once no idle host is left to end, the one whose latest `ServeCollected` is the oldest first. When memory
/// runs short, such a host is ended before all others, unless its latest call was within the last 2 s. Does nothing if the job has no
/// host here or its host is being ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServeCollected {
    /// Job that has finished, whose host keeps its results.
    pub job_id: JobId,
}

/// Dispatcher, JobMaster or TaskExecutor → ProgramHosts: ends the host of a job, and withdraws requests for one that still wait
/// ([`LaunchHost`], [`BuildInHost`]), which fail with `BuildError::Process`. Answered when the host has ended, at once if there is none or
/// it was starting; if a killed host is not seen to end, after `task.cancellation.timeout` (twice that with `at_once`). May be repeated.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseHost {
    /// Job whose host is ended.
    pub job_id: JobId,
    /// True: the host is killed. False: it is asked to cancel its tasks and end, and killed if it has not ended within
    /// `task.cancellation.timeout` after its answer (which it gives at once). A host that is starting is given up in both cases.
    pub at_once: bool,
}
