//! Taking jobs in and running them, and which blobs they need.

use super::leader::{Dispatcher, Job};
use super::{ClusterEnd, ClusterMode};
use crate::blob_server::Needed;
use crate::job_manager_runner::{self, RunnerDeps, StartedRunner};
use crate::program_hosts::program_key;
use actix::{AsyncContext, Context, Handler, ResponseFuture};
use control::dispatcher::{Origin, Refusal};
use gateways::dispatcher::SubmitError;
use gateways::job_services::ReleaseHost;
use gateways::resource_manager::ApplicationStatus;
use model::{JobGraph, JobId, JobStatus};
use platform::watch;
use std::sync::Arc;
use storage::jobs::{AppendError, LogEnd};

impl Dispatcher {
    /// In application and per-job mode, submits the job that the cluster is for, unless it was recovered or
    /// has ended already. To be called when recovery is over.
    pub(super) fn run_own_job(&mut self, ctx: &mut Context<Self>) {
        match self.deps.mode.clone() {
            ClusterMode::Session => {}
            ClusterMode::PerJob(graph) => {
                let job = graph.job_id;
                if self.table.phase(job).is_some() {
                    return;
                }
                let (submitted, addr) = (self.submit(*graph, Origin::Own, ctx), ctx.address());
                actix::spawn(async move {
                    if let Err(error) = submitted.await {
                        let _ = addr.send(OwnJobRefused { job, error }).await;
                    }
                });
            }
            ClusterMode::Application(submission) => {
                let Some(job) = submission.job_id else {
                    self.deps
                        .services
                        .fatal
                        .report("Dispatcher", "the application's job has no id");
                    return;
                };
                if self.table.phase(job).is_none() {
                    self.build_own_job(job, *submission, ctx);
                }
            }
        }
    }

    pub(super) fn own_job_refused(&self, job: JobId, error: &SubmitError) {
        match error {
            SubmitError::DuplicateTerminated { status, .. } => {
                self.end_cluster(Some((job, *status)), None);
                return;
            }
            // An earlier leader has submitted it, or the next one will.
            SubmitError::DuplicateRunning { .. } | SubmitError::ShuttingDown => return,
            _ => {}
        }
        tracing::error!(%job, %error, "the cluster's own job can't run");
        self.end_cluster(Some((job, JobStatus::Failed)), Some(error.to_string()));
    }

    /// The cluster has nothing left to do.
    pub(super) fn end_cluster(&self, job: Option<(JobId, JobStatus)>, diagnostics: Option<String>) {
        let status = match job.map(|(_, status)| status) {
            None | Some(JobStatus::Finished) => ApplicationStatus::Succeeded,
            Some(JobStatus::Canceled) => ApplicationStatus::Canceled,
            Some(JobStatus::Failed) => ApplicationStatus::Failed,
            Some(_) => ApplicationStatus::Unknown,
        };
        tracing::info!(?status, "the cluster has nothing left to do");
        self.deps.end.set_first(ClusterEnd { status, job, diagnostics });
    }

    /// Takes a graph in: checks it, stores it, then runs it. The answer comes when the graph is stored; the
    /// job runs also if nobody waits for the answer.
    pub(super) fn submit(
        &mut self,
        graph: JobGraph,
        origin: Origin,
        ctx: &mut Context<Self>,
    ) -> ResponseFuture<Result<JobId, SubmitError>> {
        let job = graph.job_id;
        let admitted = self.table.admit(&graph, origin).map_err(|why| refused(job, why));
        let admitted = admitted
            .and_then(|()| self.check_options(&graph).inspect_err(|_| self.table.forget(job)));
        if let Err(error) = admitted {
            return Box::pin(async move { Err(error) });
        }
        let now_ms = self.deps.services.platform.unix_millis();
        let graph = Arc::new(graph);
        self.persisting.insert(job, (graph.clone(), now_ms));
        self.say_needed();
        let log = self.deps.services.platform.random_u64();
        let created = self.logs.clone().create(graph.clone(), log, self.writer.clone());
        let addr = ctx.address();
        let stored = actix::spawn(async move {
            let stored = GraphStored { graph, outcome: created.await };
            addr.send(stored).await.unwrap_or(Err(SubmitError::ShuttingDown))
        });
        Box::pin(async move { stored.await.unwrap_or(Err(SubmitError::ShuttingDown)) })
    }

    /// Lets the BlobServer know which blobs have to stay. To be called whenever a job has come or gone. As
    /// long as jobs are being recovered nothing is said, and every blob stays.
    pub(super) fn say_needed(&self) {
        if self.stopping || self.superseded || self.table.recovery_progress().is_some() {
            return;
        }
        let running = self.jobs.iter().map(|(id, job)| (*id, job.graph.program.hash));
        let building = self.building.iter().map(|(id, program)| (*id, *program));
        let persisting = self.persisting.iter().map(|(id, (graph, _))| (*id, graph.program.hash));
        let programs = running.chain(building).chain(persisting).collect();
        let jobs = self.table.jobs().map(|(job, _)| job).collect();
        self.deps.in_use.set(Some(Needed { programs, jobs }));
    }

    fn check_options(&self, graph: &JobGraph) -> Result<(), SubmitError> {
        let own = graph.options.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let checked = self.deps.services.options.overlaid(own, "the job");
        checked.map(drop).map_err(|error| SubmitError::InvalidGraph(error.to_string()))
    }

    /// Gives a job its runner.
    pub(super) fn run(&mut self, graph: Arc<JobGraph>, log_end: LogEnd, ctx: &mut Context<Self>) {
        let services = &self.deps.services;
        let submitted_ms = services.platform.unix_millis();
        let job = graph.job_id;
        let coordinated = graph.nodes.iter().any(|node| node.coordinated);
        if !coordinated {
            // Nothing runs in the host that built the graph.
            self.deps.hosts().tell(ReleaseHost { job_id: job, at_once: false });
        }
        let StartedRunner { running, end } = job_manager_runner::start(RunnerDeps {
            services: services.clone(),
            leaders: self.deps.leaders.clone(),
            dispatcher: self.session,
            program: self.deps.ship_programs.then(|| program_key(&graph.program)),
            graph: graph.clone(),
            submitted_ms,
            hosts: self.deps.hosts(),
            embedded: self.deps.embedded,
        });
        let gateway = services.rpc.gateway(running.address(), self.session);
        let result = watch::Sender::new(None);
        let known = Job { graph, log_end, submitted_ms, runner: running, gateway, result };
        self.jobs.insert(job, known);
        let addr = ctx.address();
        actix::spawn(async move {
            // No end comes where the runner is stopped before.
            if let Ok(details) = end.await {
                let _ = addr.send(super::ending::JobEnded { job, details }).await;
            }
        });
    }

    /// The keeper's host of a job goes.
    pub(super) fn release_host(&self, job: JobId, at_once: bool) {
        self.deps.hosts().tell(ReleaseHost { job_id: job, at_once });
    }
}

/// A submitted graph is in its job's log, or could not be stored.
#[derive(actix::Message)]
#[rtype(result = "Result<JobId, SubmitError>")]
struct GraphStored {
    graph: Arc<JobGraph>,
    outcome: Result<LogEnd, AppendError>,
}

impl Handler<GraphStored> for Dispatcher {
    type Result = Result<JobId, SubmitError>;

    fn handle(&mut self, stored: GraphStored, ctx: &mut Context<Self>) -> Self::Result {
        let GraphStored { graph, outcome } = stored;
        let job = graph.job_id;
        self.persisting.remove(&job);
        let error = match outcome {
            Ok(log_end) => {
                if !self.stopping && self.table.stored(job) {
                    tracing::info!(%job, name = %graph.name, tasks = graph.total_subtasks(), "job submitted");
                    self.run(graph, log_end, ctx);
                    self.say_needed();
                }
                return Ok(job);
            }
            Err(AppendError::Exists { .. }) => SubmitError::DuplicateRunning { job },
            Err(AppendError::Superseded { .. } | AppendError::LeaseOver { .. }) => {
                SubmitError::ShuttingDown
            }
            Err(error @ (AppendError::Store(_) | AppendError::Encode { .. })) => {
                SubmitError::Storage(error.to_string())
            }
        };
        tracing::warn!(%job, %error, "the job graph was not stored");
        self.table.forget(job);
        if matches!(error, SubmitError::DuplicateRunning { .. }) {
            self.adopt(job, ctx);
        }
        Err(error)
    }
}

/// The cluster's own job was not taken.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct OwnJobRefused {
    job: JobId,
    error: SubmitError,
}

impl Handler<OwnJobRefused> for Dispatcher {
    type Result = ();
    fn handle(&mut self, refused: OwnJobRefused, _: &mut Context<Self>) {
        self.own_job_refused(refused.job, &refused.error);
    }
}

/// In the words of the call.
pub(super) fn refused(job: JobId, why: Refusal) -> SubmitError {
    match why {
        Refusal::DuplicateRunning => SubmitError::DuplicateRunning { job },
        Refusal::DuplicateTerminated(status) => SubmitError::DuplicateTerminated { job, status },
        Refusal::PartialResources(vertices) => SubmitError::PartialResources { vertices },
        Refusal::Graph(error) => SubmitError::InvalidGraph(error.to_string()),
        Refusal::SingleJob(mode) => SubmitError::SingleJob { mode: mode.as_str().to_owned() },
        Refusal::Closing => SubmitError::ShuttingDown,
    }
}
