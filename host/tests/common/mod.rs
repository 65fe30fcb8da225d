//! A cluster of program hosts without a control plane: a parent that takes reports and forwards events, and
//! the few calls that a JobMaster would make.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test binary uses its part")]

pub mod programs;

use actix::{Actor, Context, Handler, ResponseFuture};
use futures::{FutureExt, StreamExt, channel::mpsc};
use gateways::{
    Answer, Ask, CallError, EndpointAddress, ListenOptions, NodeAddress, Registration, Remote,
    RpcOptions, RpcService, job_master::CoordinationError, job_services::HostAddress,
    program_host::*, task_executor::*,
};
use host::{InProcess, InProcessHost, in_process};
use model::{job::TaskStateUpdate, *};
use platform::{Lane, Platform, PortSpec};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use streaming::{
    ProgramEntry,
    sinks::{CollectChunk, CollectRequest},
};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const JOB: JobId = JobId(0x10b);
pub const KEY: &[u8] = b"a key of the job that has 32 byte";

pub fn session(n: u64) -> ProcessSession {
    ProcessSession(LeaderSession { epoch: Epoch { store: 1, process: n }, nonce: n })
}

pub fn job_master(n: u64) -> JobMasterId {
    JobMasterId(LeaderSession { epoch: Epoch { store: 1, process: n }, nonce: n })
}

/// Waits for the work, and fails the test if it takes too long.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long: {what}"),
    }
}

/// Waits until user code has made this file.
pub async fn made(file: &Path) {
    soon("a file of the user's code", async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

// ---------------------------------------------------------------------------------------------- parent

/// A TaskExecutor that only listens, and forwards events to the host with the coordinators.
struct Parent {
    updates: mpsc::UnboundedSender<TaskStateUpdate>,
    coordinators: Arc<Mutex<Option<Remote<ProgramHostGateway>>>>,
    /// Number of reports that are refused first, to see that they are repeated.
    deaf: Arc<AtomicU64>,
}

impl Actor for Parent {
    type Context = Context<Self>;
}

impl Handler<Ask<ReportTaskStates>> for Parent {
    type Result = ResponseFuture<Answer<ReportTaskStates>>;
    fn handle(&mut self, ask: Ask<ReportTaskStates>, _: &mut Self::Context) -> Self::Result {
        let deaf = self
            .deaf
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
            .is_ok();
        if deaf {
            return futures::future::pending().boxed_local();
        }
        for update in ask.body.updates {
            let _ = self.updates.unbounded_send(update);
        }
        futures::future::ready(Ok(())).boxed_local()
    }
}

impl Handler<Ask<ForwardOperatorEvent>> for Parent {
    type Result = ResponseFuture<Answer<ForwardOperatorEvent>>;
    fn handle(&mut self, ask: Ask<ForwardOperatorEvent>, _: &mut Self::Context) -> Self::Result {
        let coordinators = self.coordinators.lock().unwrap().clone();
        let ForwardOperatorEvent { attempt, operator, event, .. } = ask.body;
        async move {
            let Some(host) = coordinators else {
                return Err(CoordinationError::Unavailable("not started".to_owned()));
            };
            match host.ask(HandleOperatorEvent { attempt, operator, event }).await {
                Ok(answer) => Ok(answer),
                Err(CallError::Refused(error)) => Err(error),
                Err(error) => Err(CoordinationError::Failed(error.to_string())),
            }
        }
        .boxed_local()
    }
}

macro_rules! not_asked {
    ($($call:ty),+) => {$(
        impl Handler<Ask<$call>> for Parent {
            type Result = ResponseFuture<Answer<$call>>;
            fn handle(&mut self, _: Ask<$call>, _: &mut Self::Context) -> Self::Result {
                panic!("a host does not ask this")
            }
        }
    )+};
}
not_asked!(
    RequestSlot,
    FreeSlot,
    DeployTasks,
    CancelTasks,
    TriggerCheckpoint,
    NotifyCheckpoint,
    ForwardCheckpointAnswer,
    DisconnectJobMaster,
    DisconnectResourceManager,
    RequestLogs,
    ReadLog
);

// --------------------------------------------------------------------------------------------- cluster

/// One process with a parent; hosts are added to it.
pub struct Cluster {
    pub rpc: RpcService,
    pub platform: Platform,
    pub tmp: tempfile::TempDir,
    parent: EndpointAddress,
    _registration: Registration,
    coordinators: Arc<Mutex<Option<Remote<ProgramHostGateway>>>>,
    pub deaf: Arc<AtomicU64>,
    updates: mpsc::UnboundedReceiver<TaskStateUpdate>,
    /// Every update so far, in order of arrival.
    pub seen: Vec<TaskStateUpdate>,
    pub fatal: Arc<Mutex<Vec<String>>>,
    hosts: u64,
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_on(Platform::production()).await
    }

    pub async fn start_on(platform: Platform) -> Self {
        let options = RpcOptions {
            // A port, so that children can tell its name from their own.
            listen: Some(ListenOptions {
                bind_host: "127.0.0.1".to_owned(),
                advertised_host: "127.0.0.1".to_owned(),
                ports: PortSpec::any(),
            }),
            ..RpcOptions::in_process()
        };
        let rpc = RpcService::start(platform.clone(), options).await.unwrap();
        let (sender, updates) = mpsc::unbounded();
        let coordinators: Arc<Mutex<Option<Remote<ProgramHostGateway>>>> = Arc::default();
        let deaf = Arc::new(AtomicU64::new(0));
        let parent = Parent {
            updates: sender,
            coordinators: Arc::clone(&coordinators),
            deaf: Arc::clone(&deaf),
        };
        let serving = rpc.clone();
        let registration = platform
            .lane(Lane::Work)
            .run(move || async move {
                let address = parent.start();
                let endpoint = TaskExecutorGateway::endpoint(address);
                serving.serve_for_job("task_executor", session(1), endpoint, JOB, &[])
            })
            .await
            .unwrap();
        Self {
            parent: rpc.address_of("task_executor"),
            rpc,
            platform,
            tmp: tempfile::tempdir().unwrap(),
            _registration: registration,
            coordinators,
            deaf,
            updates,
            seen: Vec::new(),
            fatal: Arc::default(),
            hosts: 0,
        }
    }

    /// A host in this process.
    pub async fn in_process(&mut self, program: &ProgramEntry) -> (InProcessHost, Host) {
        self.hosts += 1;
        let fatal = Arc::clone(&self.fatal);
        let options = InProcess {
            name: format!("program_host/{}", self.hosts),
            session: session(100 + self.hosts),
            embedded: false,
            tmp_dir: self.tmp.path().to_owned(),
            fatal: Arc::new(move |why| fatal.lock().unwrap().push(why)),
        };
        let started = in_process(&self.rpc, program.clone(), options).await.unwrap();
        let host = self.host(&started.address);
        (started, host)
    }

    pub fn host(&self, address: &HostAddress) -> Host {
        Host {
            gateway: self.rpc.gateway(&address.address, address.session),
            data_address: NodeAddress::new("not:1"),
        }
    }

    pub fn start_host(&self, options: &[(&str, &str)]) -> StartHost {
        StartHost {
            job_id: JOB,
            cluster_id: ClusterId::new("test"),
            data_key: KEY.to_vec(),
            data_tls: None,
            data_bind: "127.0.0.1".to_owned(),
            data_host: "127.0.0.1".to_owned(),
            data_ports: "0".to_owned(),
            parent: self.parent.clone(),
            parent_session: session(1),
            network_memory: MemorySize::from_mib(16),
            managed_memory: MemorySize::from_mib(16),
            task_memory: None,
            heartbeat_timeout_ms: 0,
            options: options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        }
    }

    /// A started TaskManager-side host in this process.
    pub async fn worker(&mut self, program: &ProgramEntry, options: &[(&str, &str)]) -> Host {
        let (_, mut host) = self.in_process(program).await;
        let start = self.start_host(options);
        host.data_address = host.gateway.ask(start).await.unwrap().data_address;
        host
    }

    /// Builds the graph and starts its coordinators on a JobManager-side host.
    pub async fn build(&mut self, host: &Host, parallelism: u32, args: &[&str]) -> Arc<JobGraph> {
        let graph = host.build(parallelism, args).await.unwrap();
        let graph = Arc::new(graph);
        host.gateway.ask(self.start_coordinators(&graph)).await.unwrap();
        *self.coordinators.lock().unwrap() = Some(host.gateway.clone());
        graph
    }

    pub fn start_coordinators(&self, graph: &Arc<JobGraph>) -> StartCoordinators {
        let coordinated = graph.nodes.iter().filter(|node| node.coordinated);
        StartCoordinators {
            graph: Arc::clone(graph),
            job_master: self.rpc.address_of("job_master"),
            job_master_id: job_master(1),
            round: 1,
            operators: coordinated.map(|node| node.operator_id).collect(),
            restore: Vec::new(),
            embedded: false,
            options: BTreeMap::new(),
        }
    }

    /// Waits until `done` says so of the newest states by attempt.
    pub async fn until(
        &mut self,
        what: &str,
        done: impl Fn(&BTreeMap<ExecutionAttemptId, TaskStateUpdate>) -> bool,
    ) -> BTreeMap<ExecutionAttemptId, TaskStateUpdate> {
        loop {
            let newest: BTreeMap<_, _> =
                self.seen.iter().map(|update| (update.attempt, update.clone())).collect();
            if done(&newest) {
                return newest;
            }
            match tokio::time::timeout(PATIENCE, self.updates.next()).await {
                Ok(Some(update)) => self.seen.push(update),
                _ => panic!("waited too long: {what}; states: {newest:#?}"),
            }
        }
    }

    pub async fn all(&mut self, state: ExecutionState, n: usize) {
        let what = format!("{n} tasks {state}");
        self.until(&what, |newest| newest.len() == n && newest.values().all(|u| u.state == state))
            .await;
    }

    /// States of one attempt, in order, without repetitions.
    pub fn states_of(&self, attempt: ExecutionAttemptId) -> Vec<ExecutionState> {
        let mut states: Vec<_> =
            self.seen.iter().filter(|u| u.attempt == attempt).map(|u| u.state).collect();
        states.dedup();
        states
    }
}

/// A host as a JobMaster sees it.
#[derive(Clone)]
pub struct Host {
    pub gateway: Remote<ProgramHostGateway>,
    pub data_address: NodeAddress,
}

impl Host {
    pub async fn build(
        &self,
        parallelism: u32,
        args: &[&str],
    ) -> Result<JobGraph, CallError<BuildError>> {
        let program = ProgramRef {
            hash: ContentHash([7; 32]),
            name: "test".to_owned(),
            size: 1,
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            ..ProgramRef::default()
        };
        self.gateway
            .ask(BuildGraph {
                program,
                job_id: JOB,
                parallelism,
                options: BTreeMap::new(),
                defaults: BTreeMap::new(),
                embedded: false,
            })
            .await
    }

    pub async fn cancel(&self, attempts: Vec<ExecutionAttemptId>) {
        self.gateway.ask(CancelOnHost { attempts }).await.unwrap();
    }
}

pub fn attempt_of(vertex: JobVertexId, subtask: u32, attempt: u32) -> ExecutionAttemptId {
    ExecutionAttemptId { graph: 77, vertex, subtask, attempt }
}

/// Subtask `i` of every vertex in slot `i`, slots dealt out over the hosts in turn.
pub async fn deploy(
    graph: &Arc<JobGraph>,
    hosts: &[&Host],
    attempt: u32,
) -> Vec<ExecutionAttemptId> {
    deploy_with(graph, hosts, attempt, None).await
}

/// The deployment of [`deploy`], of a job with this checkpoint directory.
pub async fn deploy_with(
    graph: &Arc<JobGraph>,
    hosts: &[&Host],
    attempt: u32,
    checkpoint_dir: Option<&str>,
) -> Vec<ExecutionAttemptId> {
    let mut attempts = Vec::new();
    let extended = [("gpu".to_owned(), 4)].into();
    let two_gpus = WorkerResourceSpec { slots: 2, extended, ..Default::default() };
    let at = |subtask: u32| subtask as usize % hosts.len();
    let addresses: Vec<_> = hosts.iter().map(|h| h.data_address.clone()).collect();
    let producers: Vec<_> = graph
        .edges
        .iter()
        .map(|edge| {
            let parallelism = graph.vertex(edge.from).unwrap().parallelism;
            Arc::new(EdgeProducers {
                edge: edge.id,
                vertex: edge.from,
                addresses: addresses.clone(),
                subtasks: (0..parallelism)
                    .map(|s| (attempt, u32::try_from(at(s)).unwrap()))
                    .collect(),
            })
        })
        .collect();
    for (index, host) in hosts.iter().enumerate() {
        let mut tasks = Vec::new();
        for vertex in &graph.vertices {
            for subtask in (0..vertex.parallelism).filter(|s| at(*s) == index) {
                let attempt = attempt_of(vertex.id, subtask, attempt);
                attempts.push(attempt);
                tasks.push(TaskDeployment {
                    attempt,
                    allocation_id: AllocationId(u128::from(subtask)),
                    restore: Vec::new(),
                    ended: false,
                });
            }
        }
        let deployment = DeployTasks {
            job_id: JOB,
            job_master_id: job_master(1),
            graph: Some(Arc::clone(graph)),
            producers: producers.clone(),
            tasks,
            checkpoint_dir: checkpoint_dir.map(str::to_owned),
            ends_with_checkpoint: false,
        };
        let devices = deployment
            .tasks
            .iter()
            .map(|task| (task.allocation_id, two_gpus.devices(task.attempt.subtask)));
        let devices = devices.collect();
        let refused = host.gateway.ask(DeployToHost { deployment, devices }).await.unwrap();
        assert_eq!(refused, []);
    }
    attempts
}

/// Tells the coordinators that the job has finished; every line that its collect sink has then.
pub async fn results(host: &Host, graph: &JobGraph) -> BTreeSet<String> {
    soon("the end", host.gateway.ask(JobEnded { finished: true })).await.unwrap();
    collected(host, graph).await
}

/// Every line that the job's collect sink has.
async fn collected(host: &Host, graph: &JobGraph) -> BTreeSet<String> {
    let operator = graph.nodes.iter().find(|n| n.kind == "collect").unwrap().operator_id;
    let mut lines = BTreeSet::new();
    let mut offset = 0;
    loop {
        let request = CollectRequest { offset, max_bytes: 1 << 20 }.encode();
        let ask = HandleCoordinationRequest { operator, request };
        let answer = host.gateway.ask(ask).await.unwrap();
        let chunk = CollectChunk::decode(&answer).unwrap();
        offset += chunk.lines.len() as u64;
        lines.extend(chunk.lines.iter().map(|l| String::from_utf8(l.clone()).unwrap()));
        if chunk.end {
            return lines;
        }
    }
}

pub fn text(dir: &Path, name: &str, content: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}
