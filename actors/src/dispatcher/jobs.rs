//! Taking jobs in and running them, and which blobs they need.

use super::leader::{Dispatcher, Job};
use super::{ClusterEnd, ClusterMode, ENDPOINT};
use crate::blob_server::Needed;
use crate::job_manager_runner::{self, RunnerDeps, StartedRunner};
use crate::program_hosts::program_key;
use actix::{AsyncContext, Context};
use control::dispatcher::{Origin, Refusal};
use gateways::dispatcher::SubmitError;
use gateways::job_services::ReleaseHost;
use gateways::resource_manager::ApplicationStatus;
use model::{JobGraph, JobId, JobStatus};
use platform::watch;
use std::sync::Arc;
use storage::jobs::JobStoreError;

impl Dispatcher {
    /// In application and per-job mode: the job that the cluster is for, unless it was recovered or has
    /// ended already.
    pub(super) fn run_own_job(&mut self, ctx: &mut Context<Self>) {
        match self.deps.mode.clone() {
            ClusterMode::Session => {}
            ClusterMode::PerJob(graph) => {
                let job = graph.job_id;
                if self.table.phase(job).is_some() {
                    return;
                }
                if let Err(error) = self.submit(*graph, Origin::Own, ctx) {
                    self.own_job_refused(job, &error);
                }
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
        if let SubmitError::DuplicateTerminated { status, .. } = error {
            self.end_cluster(Some((job, *status)), None);
            return;
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

    /// How a job of that id ended, if it did.
    pub(super) fn ended_as(&self, job: JobId) -> Result<Option<JobStatus>, SubmitError> {
        let result = self.deps.results.get(job);
        let result = result.map_err(|error| SubmitError::Storage(error.to_string()))?;
        Ok(result.map(|result| result.status))
    }

    /// Takes a graph in: checks it, stores it, runs it. Nothing of it is kept where that fails.
    pub(super) fn submit(
        &mut self,
        graph: JobGraph,
        origin: Origin,
        ctx: &mut Context<Self>,
    ) -> Result<JobId, SubmitError> {
        let job = graph.job_id;
        let ended = self.ended_as(job)?;
        self.table.admit(&graph, ended, origin).map_err(|why| refused(job, why))?;
        let admitted = self.check_options(&graph).and_then(|()| {
            self.deps.graphs.put(&graph).map_err(|error| match error {
                JobStoreError::Exists { .. } => SubmitError::DuplicateRunning { job },
                error => SubmitError::Storage(error.to_string()),
            })
        });
        if let Err(error) = admitted {
            self.table.forget(job);
            return Err(error);
        }
        if self.table.stored(job) {
            tracing::info!(%job, name = %graph.name, tasks = graph.total_subtasks(), "job submitted");
            self.run(Arc::new(graph), ctx);
            self.say_needed();
        }
        Ok(job)
    }

    /// Lets the BlobServer know which blobs have to stay. To be called whenever a job has come or gone.
    pub(super) fn say_needed(&self) {
        if self.stopping {
            return;
        }
        let running = self.jobs.iter().map(|(id, job)| (*id, job.graph.program.hash));
        let building = self.building.iter().map(|(id, program)| (*id, *program));
        let programs = running.chain(building).collect();
        let jobs = self.table.jobs().map(|(job, _)| job).collect();
        self.deps.in_use.set(Some(Needed { programs, jobs }));
    }

    fn check_options(&self, graph: &JobGraph) -> Result<(), SubmitError> {
        let own = graph.options.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let checked = self.deps.services.options.overlaid(own, "the job");
        checked.map(drop).map_err(|error| SubmitError::InvalidGraph(error.to_string()))
    }

    /// Gives a job its runner.
    pub(super) fn run(&mut self, graph: Arc<JobGraph>, ctx: &mut Context<Self>) {
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
        self.jobs.insert(job, Job { graph, submitted_ms, runner: running, gateway, result });
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

    pub(super) fn name(&self) -> String {
        format!("{ENDPOINT} {}", self.session)
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
