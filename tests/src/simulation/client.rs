//! The client of a run: submits the plan's jobs, cancels some, and in the end asks what became of them.
//!
//! Every submitted job must be in a terminal state or running once everything is healed.

use super::host_double::TASK_MS;
use super::hosts::World;
use super::lease::SimulatedElection;
use super::plan::{CLIENT, PlannedJob, RUN};
use actors::leader_retrieval::{LeaderNode, RemoteRetrieval, RetrievalSettings};
use actors::services::LeaderRetrieval;
use gateways::dispatcher::{
    CancelJob, DispatcherGateway, JobError, RequestJobsOverview, SubmitError, SubmitJob,
};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{CallError, FabricError, Remote, RpcService};
use model::graph::GraphNode;
use model::{
    ContentHash, DispatcherId, EdgeId, Fence, JobEdge, JobGraph, JobId, JobStatus, JobVertex,
    JobVertexId, NodeId, OperatorId, ProgramRef, ShipStrategy,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::jobs::JobResultStore;
use tokio::sync::watch;

/// Pause before a call is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// When the final question is asked.
const LAST_QUESTION: Duration = Duration::from_secs(RUN.as_secs() - 15);

#[derive(Clone)]
struct Client {
    rpc: RpcService,
    dispatcher: watch::Receiver<Option<LeaderInformation>>,
}

impl Client {
    fn gateway(&self) -> Option<Remote<DispatcherGateway>> {
        let leader = self.dispatcher.borrow().clone()?;
        Some(self.rpc.gateway(&leader.address, DispatcherId::from_session(leader.session)))
    }

    /// Tries until somebody who leads has taken the job.
    async fn submit(&self, graph: &JobGraph) {
        loop {
            if let Some(gateway) = self.gateway() {
                match gateway.ask(SubmitJob { graph: graph.clone() }).await {
                    Ok(_)
                    | Err(CallError::Refused(
                        SubmitError::DuplicateRunning { .. }
                        | SubmitError::DuplicateTerminated { .. },
                    )) => return,
                    Err(_) => {}
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn cancel(&self, job_id: JobId) {
        loop {
            if let Some(gateway) = self.gateway() {
                match gateway.ask(CancelJob { job_id }).await {
                    Ok(()) | Err(CallError::Refused(JobError::Terminated { .. })) => return,
                    Err(_) => {}
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn overview(&self) -> BTreeMap<JobId, JobStatus> {
        loop {
            if let Some(gateway) = self.gateway()
                && let Ok(jobs) = gateway.ask(RequestJobsOverview {}).await
            {
                return jobs.into_iter().map(|job| (job.job_id, job.status)).collect();
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// The client's host.
pub async fn run(world: World) -> anyhow::Result<()> {
    let (platform, rpc, _) = world.process(CLIENT).await?;
    let election = SimulatedElection::new(world.leases.clone(), CLIENT);
    let record = LeaderNode::Record(storage::ha::ElectionDriver::leader(&election));
    let retrieval =
        RemoteRetrieval::new(platform, rpc.clone(), record, None, RetrievalSettings::default());
    let dispatcher = retrieval.watch(Component::Dispatcher);
    let client = Client { rpc, dispatcher };
    let mut submitted = Vec::new();
    for (i, job) in world.plan.jobs.iter().enumerate() {
        let job_id = JobId((u128::from(world.plan.seed) << 64) | (i as u128 + 1));
        submitted.push(job_id);
        tokio::task::spawn_local(live(world.clone(), client.clone(), job.clone(), job_id));
    }
    tokio::task::spawn_local(call_as_of_old(world.clone(), client.clone()));
    until(LAST_QUESTION).await;
    let seen = client.overview().await;
    // Details of an ended job are archived by the process that led then; its result is in the common store.
    let results = JobResultStore::new(Arc::new(world.objects.clone()));
    for job_id in submitted {
        let ended = || results.get(job_id).ok().flatten().map(|entry| entry.status);
        judge(&world, job_id, seen.get(&job_id).copied().or_else(ended));
    }
    Ok(())
}

/// Calls whoever leads now under the session of whoever led before: it must be fenced, whatever it asks.
async fn call_as_of_old(world: World, mut client: Client) {
    let mut last: Option<LeaderInformation> = None;
    while client.dispatcher.changed().await.is_ok() {
        let now = client.dispatcher.borrow_and_update().clone();
        let (Some(before), Some(leader)) = (last.clone(), now.clone()) else {
            last = now.or(last);
            continue;
        };
        last = now;
        if before.session == leader.session {
            continue;
        }
        let stale = DispatcherId::from_session(before.session);
        let gateway: Remote<DispatcherGateway> = client.rpc.gateway(&leader.address, stale);
        match gateway.ask(CancelJob { job_id: JobId(0) }).await {
            Err(CallError::Fabric(FabricError::Fenced { .. })) => {
                world.observer.count("fenced calls", 1);
            }
            Err(CallError::Fabric(_)) => {}
            answered => {
                let what = format!("{stale} was answered by {}: {answered:?}", leader.session);
                world.observer.violation("superseded_changes_nothing", what);
            }
        }
    }
}

fn judge(world: &World, job_id: JobId, status: Option<JobStatus>) {
    let at = turmoil::sim_elapsed().unwrap_or_default();
    world.observer.remark(at, &format!("job {job_id} in the end: {status:?}"));
    let kind = match status {
        Some(JobStatus::Finished) => "jobs finished",
        Some(JobStatus::Canceled) => "jobs cancelled",
        Some(JobStatus::Failed) => "jobs failed",
        Some(JobStatus::Running) => "jobs running",
        _ => "jobs unsettled",
    };
    world.observer.count(kind, 1);
    if !status.is_some_and(|s| s.is_globally_terminal() || s == JobStatus::Running) {
        let what = format!("job {job_id} is {status:?} after healing");
        world.observer.violation("jobs_settle", what);
    }
}

async fn until(at: Duration) {
    let now = turmoil::sim_elapsed().unwrap_or_default();
    tokio::time::sleep(at.saturating_sub(now)).await;
}

async fn live(world: World, client: Client, job: PlannedJob, job_id: JobId) {
    until(job.at).await;
    client.submit(&graph(job_id, &job)).await;
    let at = turmoil::sim_elapsed().unwrap_or_default();
    world.observer.remark(at, &format!("job {job_id} is submitted"));
    if let Some(at) = job.cancel_at {
        until(at).await;
        client.cancel(job_id).await;
    }
}

/// A job whose vertices follow one another over hash edges.
fn graph(job_id: JobId, job: &PlannedJob) -> JobGraph {
    let vertex_id = |i: usize| JobVertexId(i as u128 + 1);
    let count = job.parallelism.len();
    let nodes = (0..count).map(|i| GraphNode {
        id: NodeId(i as u32),
        operator_id: OperatorId(i as u128 + 1),
        uid: None,
        kind: "double".to_owned(),
        name: format!("step {i}"),
        inputs: if i == 0 { Vec::new() } else { vec!["u64".to_owned()] },
        output: (i + 1 < count).then(|| "u64".to_owned()),
        reads: if i == 0 { Vec::new() } else { vec![NodeId(i as u32 - 1)] },
        states: Vec::new(),
        coordinated: false,
    });
    let vertices = job.parallelism.iter().enumerate().map(|(i, parallelism)| JobVertex {
        id: vertex_id(i),
        name: format!("step {i}"),
        nodes: vec![NodeId(i as u32)],
        parallelism: *parallelism,
        max_parallelism: 128,
        slot_sharing_group: "default".to_owned(),
        resources: None,
        source: i == 0,
    });
    let edges = (1..count).map(|i| JobEdge {
        id: EdgeId(i as u32 - 1),
        from: vertex_id(i - 1),
        to: vertex_id(i),
        from_node: NodeId(i as u32 - 1),
        to_node: NodeId(i as u32),
        output: 0,
        input: 0,
        ship: ShipStrategy::Hash,
        record: "u64".to_owned(),
    });
    let task_ms = job.task_time.map(|time| (TASK_MS.to_owned(), time.as_millis().to_string()));
    JobGraph {
        job_id,
        name: format!("job {}", job_id.0 & 0xff),
        program: ProgramRef {
            hash: ContentHash([1; 32]),
            name: "double".to_owned(),
            size: 1,
            args: Vec::new(),
            env: BTreeMap::new(),
            once: BTreeMap::new(),
            job: None,
        },
        nodes: nodes.collect(),
        vertices: vertices.collect(),
        edges: edges.collect(),
        bounded: job.task_time.is_some(),
        options: task_ms.into_iter().collect(),
        fingerprint: ContentHash([2; 32]),
    }
}
