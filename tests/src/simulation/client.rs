//! The client of a run: submits the plan's jobs, cancels some, and in the end asks for their
//! states.
//!
//! The client only reports what it sees; `invariants/` judges it.

use super::ghosts;
use super::host_double;
use super::hosts::World;
use super::observer::Noticed;
use super::plan::{CLIENT, Checkpointing, PlannedJob, RUN};
use super::uploads;
use actors::leader_retrieval::{LeaderNode, RemoteRetrieval, RetrievalSettings};
use actors::services::LeaderRetrieval;
use gateways::dispatcher::{
    CancelJob, DispatcherGateway, JobError, JobSummary, RequestJobsOverview, SubmitError, SubmitJob,
};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::resource_manager::RequestTaskManagers;
use gateways::{CallError, FabricError, Remote, RpcService};
use model::testing::{coordinate, edge, enumerate, vertex};
use model::{DispatcherId, Fence, JobGraph, JobId, JobStatus, ProgramRef, ShipStrategy};
use platform::watch;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause before a call is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Virtual time of the final question.
const LAST_QUESTION: Duration = Duration::from_secs(RUN.as_secs() - 15);
/// Time after its start from which a worker must be registered, or released: one that never comes up is given up after
/// 30 s, one that is not needed after 20 s.
const WORKER_KNOWN_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time for its answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The client of a run, which reaches the cluster from a host of its own. Clones share connections.
#[derive(Clone)]
pub struct Client {
    /// The client's fabric, by which it calls the cluster's components.
    pub rpc: RpcService,
    /// Follows, from the shared store, which process leads each component.
    pub retrieval: RemoteRetrieval,
    dispatcher: watch::Receiver<Option<LeaderInformation>>,
}

impl Client {
    /// Returns a gateway to the Dispatcher that is published as leader now; `None` if none is published. It may have been superseded.
    pub fn gateway(&self) -> Option<Remote<DispatcherGateway>> {
        let leader = self.dispatcher.borrow().clone()?;
        Some(self.rpc.gateway(&leader.address, DispatcherId::from_session(leader.session)))
    }

    /// Submits the job, repeatedly, until a leading Dispatcher has accepted it.
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

    async fn overview(&self) -> BTreeMap<JobId, JobSummary> {
        loop {
            if let Some(gateway) = self.gateway()
                && let Ok(jobs) = gateway.ask(RequestJobsOverview {}).await
            {
                return jobs.jobs.into_iter().map(|job| (job.job_id, job)).collect();
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Says which workers run and which are registered.
    async fn compare_workers(&self, world: &World) {
        let mut manager = self.retrieval.watch(Component::ResourceManager);
        loop {
            let leader = manager.borrow_and_update().clone();
            if let Some(leader) = leader
                && let Ok(known) =
                    ghosts::manager_at(self, &leader).ask(RequestTaskManagers {}).await
            {
                let now = turmoil::sim_elapsed().unwrap_or_default();
                let started = world.system.started_before(now.saturating_sub(WORKER_KNOWN_WITHIN));
                let registered = known.into_iter().map(|worker| worker.resource_id).collect();
                return world.observer.notice(&Noticed::WorkersInTheEnd { started, registered });
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Calls every Dispatcher as soon as it is said to lead: then it must be there.
    async fn greet_dispatchers(self, world: World) {
        let mut known = self.dispatcher.clone();
        loop {
            let leader = known.borrow_and_update().clone();
            if let (Some(leader), Some(gateway)) = (leader, self.gateway()) {
                let answer = gateway.ask(RequestJobsOverview {}).await;
                if let Err(CallError::Fabric(FabricError::Fenced { yours, current })) = answer
                    && current < yours
                {
                    world.observer.notice(&Noticed::NotThereYet { leader, current });
                }
            }
            if known.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Runs the client's host: submits and cancels the plan's jobs at their times, lets ghosts and floods call, and 15 s before the end of the
/// run asks for workers and jobs. What it learns goes to the observer as [`Noticed`] facts.
///
/// # Errors
/// The client's fabric cannot be started. A cluster that does not answer is no error: the invariants judge that.
pub async fn run(world: World) -> anyhow::Result<()> {
    let (platform, rpc, _) = world.process(CLIENT).await?;
    let election = world.storage.election(&platform, CLIENT);
    let record = LeaderNode::Record(storage::ha::ElectionDriver::leader(&election));
    let retrieval =
        RemoteRetrieval::new(platform, rpc.clone(), record, None, RetrievalSettings::default());
    let dispatcher = retrieval.watch(Component::Dispatcher);
    let client = Client { rpc, retrieval, dispatcher };
    let mut submitted = Vec::new();
    for (i, job) in world.plan.jobs.iter().enumerate() {
        let job_id = JobId((u128::from(world.plan.seed) << 64) | (i as u128 + 1));
        submitted.push(job_id);
        tokio::task::spawn_local(live(world.clone(), client.clone(), job.clone(), job_id));
    }
    tokio::task::spawn_local(client.clone().greet_dispatchers(world.clone()));
    ghosts::raise(&world, &client, &submitted);
    tokio::task::spawn_local(world.flood.clone().run(client.clone(), world.observer.clone()));
    until(LAST_QUESTION).await;
    if world.plan.active {
        // A missing answer is judged by the jobs' final states.
        let _ = tokio::time::timeout(PATIENCE, client.compare_workers(&world)).await;
    }
    let Ok(mut seen) = tokio::time::timeout(PATIENCE, client.overview()).await else {
        return Ok(()); // That nothing is known of the jobs is judged at the end of the run.
    };
    for job_id in submitted {
        let found = seen.remove(&job_id).map(|job| (Some(job.status), job.tasks));
        let (status, tasks) = found.unwrap_or_default();
        world.observer.count(counted(status), 1);
        world.observer.notice(&Noticed::JobInTheEnd { job_id, status, tasks });
    }
    Ok(())
}

async fn until(at: Duration) {
    let now = turmoil::sim_elapsed().unwrap_or_default();
    tokio::time::sleep(at.saturating_sub(now)).await;
}

async fn live(world: World, client: Client, job: PlannedJob, job_id: JobId) {
    let subtasks = job.parallelism.iter().map(|n| *n as usize).sum();
    let checkpoints = job.checkpointing.is_some();
    let bounded = job.task_time.is_some();
    world.observer.notice(&Noticed::JobWanted { job_id, subtasks, checkpoints, bounded });
    until(job.at).await;
    client.submit(&graph(job_id, &job)).await;
    world.observer.notice(&Noticed::JobTaken { job_id });
    if let Some(at) = job.cancel_at {
        until(at).await;
        client.cancel(job_id).await;
    }
}

fn counted(status: Option<JobStatus>) -> &'static str {
    match status {
        Some(JobStatus::Finished) => "jobs finished",
        Some(JobStatus::Canceled) => "jobs cancelled",
        Some(JobStatus::Failed) => "jobs failed",
        Some(JobStatus::Running) => "jobs running",
        _ => "jobs unsettled",
    }
}

/// A job whose vertices follow one another over hash edges.
fn graph(job_id: JobId, job: &PlannedJob) -> JobGraph {
    let vertices: Vec<_> = (1..).zip(&job.parallelism).map(|(id, n)| vertex(id, *n)).collect();
    let edges = (1..vertices.len() as u32).map(|id| edge(id, id, id + 1, ShipStrategy::Hash));
    let mut graph = model::testing::graph(vertices, edges.collect());
    match job.coordinated {
        // The coordinators of half of them take back what subtasks had that begin anew; the others begin anew with them.
        true if job_id.0.is_multiple_of(2) => enumerate(&mut graph, 1),
        true => coordinate(&mut graph, 1),
        false => {}
    }
    if let Some(sink) = graph.nodes.last_mut() {
        // Without periodic checkpoints only commits make a job wait for a final one.
        sink.commits = job.checkpointing.is_some_and(|c| c.interval.is_none());
    }
    let mut options = host_double::options_of(job);
    options.extend(job.checkpointing.iter().flat_map(Checkpointing::options));
    if let Some(restarts) = job.restarts {
        options.insert("restart-strategy.type".to_owned(), "fixed-delay".to_owned());
        let attempts = "restart-strategy.fixed-delay.attempts".to_owned();
        options.insert(attempts, restarts.to_string());
    }
    let program = uploads::program();
    let program = ProgramRef { hash: program.hash, size: program.size, ..graph.program };
    let (name, bounded) = (format!("job {}", job_id.0 & 0xff), job.task_time.is_some());
    JobGraph { job_id, name, program, bounded, options, ..graph }
}
