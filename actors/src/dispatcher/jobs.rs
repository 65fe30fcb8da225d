//! Accepts and runs jobs, and tells the BlobServer which blobs they need.

use super::leader::{Dispatcher, Job};
use super::needs::RestoredFrom;
use super::{ClusterEnd, ClusterMode, directory, restoring};
use crate::blob_server::Needed;
use crate::job_manager_runner::{self, RunnerDeps, StartedRunner};
use crate::program_hosts::program_key;
use crate::turns::take_step;
use actix::{AsyncContext, Context, Handler, ResponseFuture};
use conf::Options;
use conf::checkpointing;
use conf::execution::misplaced;
use control::dispatcher::{Origin, Refusal};
use control::mutation::Rule;
use gateways::TraceContext;
use gateways::dispatcher::SubmitError;
use gateways::job_services::ReleaseHost;
use gateways::resource_manager::ApplicationStatus;
use model::{JobGraph, JobId, JobStatus};
use platform::watch;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::blobs::{BlobFuture, BlobStoreError};
use storage::jobs::{AppendError, CheckpointRecords, LogEnd, LogId, OpenJobLog};
use storage::objects::StoreError;

impl Dispatcher {
    /// In application and per-job mode, submits the cluster's job unless it was recovered or has ended already. To be
    /// called when recovery is done.
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
                        let end =
                            take_step(&addr, move |actor, _| actor.own_job_refused(job, &error));
                        let _ = end.await;
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
            // An earlier leader has submitted the job, or the next leader will.
            SubmitError::DuplicateRunning { .. } | SubmitError::ShuttingDown => return,
            _ => {}
        }
        tracing::error!(%job, %error, "the cluster's own job can't run");
        self.end_cluster(Some((job, JobStatus::Failed)), Some(error.to_string()));
    }

    /// Ends the cluster, because it has nothing left to do.
    pub(super) fn end_cluster(&self, job: Option<(JobId, JobStatus)>, diagnostics: Option<String>) {
        let status = match job.map(|(_, status)| status) {
            None | Some(JobStatus::Finished) => ApplicationStatus::Succeeded,
            Some(JobStatus::Canceled) => ApplicationStatus::Canceled,
            Some(JobStatus::Failed) => ApplicationStatus::Failed,
            Some(_) => ApplicationStatus::Unknown,
        };
        tracing::info!(?status, "the cluster has nothing left to do");
        let dismissed = job.is_none() || self.client_gone;
        self.deps.end.set_first(ClusterEnd { status, job, diagnostics, dismissed });
    }

    /// Checks a graph, stores its program and the graph, then runs the job. The answer comes when the graph is stored; the job runs even if
    /// the caller does not wait for the answer.
    pub(super) fn submit(
        &mut self,
        graph: JobGraph,
        origin: Origin,
        ctx: &mut Context<Self>,
    ) -> ResponseFuture<Result<JobId, SubmitError>> {
        let job = graph.job_id;
        let admitted = self.table.admit(&graph, origin).map_err(|why| refused(job, why));
        let options = match self.building.get(&job).map(|building| &building.options) {
            Some((own, merged)) if *own == graph.options => Ok(merged.clone()),
            building => match building.and_then(|(own, _)| misplaced(&graph.options, own)) {
                Some(key) => Err(SubmitError::InvalidGraph(format!(
                    "the program sets '{key}', which is not an option of a job but of the cluster's processes or its clients; set it in \
                     their flott.yaml"
                ))),
                None => self.merged(&graph.options),
            },
        };
        let options = match admitted.and_then(|()| options.inspect_err(|_| self.table.forget(job)))
        {
            Ok(options) => self.with_directory(options, &graph),
            Err(error) => return Box::pin(async move { Err(error) }),
        };
        let now_ms = self.deps.services.platform.unix_millis();
        let graph = Arc::new(graph);
        self.persisting.insert(job, (graph.clone(), now_ms));
        self.say_needed_by(job);
        let log = LogId { creator: self.writer.session, count: self.logs_created };
        self.logs_created += 1;
        let kept = self.keep_program(&graph);
        let (logs, writer) = (self.logs.clone(), self.writer.clone());
        let platform = self.deps.services.platform.clone();
        let addr = ctx.address();
        let trace = TraceContext::current();
        let stored = actix::spawn(trace.carry(async move {
            let prepared = async {
                let checked = restoring::check(graph.clone(), &options, platform.clone(), &addr);
                let graph = checked.await?;
                let marked = directory::mark(job, &options, platform).await?;
                // The next leader runs every job that has a record, so the program must be there before the record.
                let Some(kept) = kept else { return Ok(graph) };
                let kept = kept.await.map_err(|error| not_kept(&graph, error));
                if let (Err(_), Some(marked)) = (&kept, marked) {
                    marked.withdraw().await;
                }
                Ok(kept.map(|()| graph)?)
            };
            let prepared: Result<Arc<JobGraph>, NotStored> = prepared.await;
            let may_be_stored = prepared.is_ok();
            let (graph, outcome) = match prepared {
                Ok(graph) => {
                    let created = logs.create(graph.clone(), log, writer).await;
                    (graph, created.map_err(NotStored::Log))
                }
                Err(error) => (graph, Err(error)),
            };
            let stored = GraphStored { graph, options, outcome, may_be_stored, trace };
            addr.send(stored).await.unwrap_or(Err(SubmitError::ShuttingDown))
        }));
        Box::pin(async move { stored.await.unwrap_or(Err(SubmitError::ShuttingDown)) })
    }

    /// Copies a job's program to where another JobManager finds it. Returns `None` if it is there anyway: every
    /// JobManager of a cluster for one job is started with the program.
    pub(super) fn keep_program(&self, graph: &JobGraph) -> Option<BlobFuture<()>> {
        let keeps = self.deps.services.mutation.keeps(Rule::ProgramsKept);
        let is_session = matches!(self.deps.mode, ClusterMode::Session);
        let durable = self.deps.durable.as_ref().filter(|_| keeps && is_session)?;
        Some(durable.keep(&program_key(&graph.program)))
    }

    /// Returns true if this Dispatcher knows which blobs jobs need. While jobs are being recovered it does not, and no
    /// blob is removed.
    fn knows_needed(&self) -> bool {
        !self.stopping && !self.superseded && self.table.recovery_progress().is_none()
    }

    /// Tells the BlobServer which blobs a job needs. To be called whenever a job was added or removed.
    pub(super) fn say_needed_by(&self, job: JobId) {
        if !self.knows_needed() {
            return;
        }
        let running = self.jobs.get(&job).map(|job| job.graph.program.hash);
        let building = || self.building.get(&job).map(|building| building.program);
        let persisting = || Some(self.persisting.get(&job)?.0.program.hash);
        let unsettled = || self.unsettled.get(&job).copied();
        let program = running.or_else(building).or_else(persisting).or_else(unsettled);
        match (self.table.phase(job), program) {
            (None, None) => self.deps.in_use.remove_job(job),
            (_, program) => self.deps.in_use.set_job(job, program),
        }
    }

    /// Tells the BlobServer which blobs all jobs need. To be called when recovery is done.
    pub(super) fn say_needed(&self) {
        if !self.knows_needed() {
            return;
        }
        let running = self.jobs.iter().map(|(id, job)| (*id, job.graph.program.hash));
        let building = self.building.iter().map(|(id, building)| (*id, building.program));
        let persisting = self.persisting.iter().map(|(id, (graph, _))| (*id, graph.program.hash));
        let unsettled = self.unsettled.iter().map(|(id, program)| (*id, *program));
        let programs = unsettled.chain(running).chain(building).chain(persisting).collect();
        let jobs = self.table.jobs().map(|(job, _)| job).collect();
        self.deps.in_use.set(Some(Needed { programs, jobs }));
    }

    /// Returns the cluster's options with a job's own options applied over them.
    pub(super) fn merged(&self, own: &BTreeMap<String, String>) -> Result<Options, SubmitError> {
        let own = own.iter().map(|(key, value)| (key.as_str(), value.clone()));
        let merged = self.deps.services.options.overlaid(own, "the job");
        merged.map_err(|error| SubmitError::InvalidGraph(error.to_string()))
    }

    /// Returns the options of a job with its checkpoint directory; the others are [`Dispatcher::merged`] already.
    pub(super) fn with_directory(&self, options: Options, graph: &JobGraph) -> Options {
        directory::resolved(options, self.deps.checkpoint_directory.as_deref(), graph)
    }

    /// Opens the log of a job that this Dispatcher runs. `checkpoints` are the records about checkpoints in it.
    pub(super) fn open_log(&self, end: LogEnd, checkpoints: CheckpointRecords) -> OpenJobLog {
        OpenJobLog::new(self.logs.clone(), self.writer.clone(), end, checkpoints)
    }

    /// Starts the runner of a job. `options` are the cluster's with the job's own applied over them.
    pub(super) fn run(
        &mut self,
        graph: Arc<JobGraph>,
        options: Options,
        log: OpenJobLog,
        ctx: &mut Context<Self>,
    ) {
        let submitted_ms = self.deps.services.platform.unix_millis();
        let job = graph.job_id;
        self.bind_client(&graph, &options, ctx);
        let services = &self.deps.services;
        let coordinated = graph.nodes.iter().any(|node| node.coordinated);
        if !coordinated {
            // No coordinator will run in the host that built the graph.
            self.deps.hosts().insist(ReleaseHost { job_id: job, at_once: false });
        }
        let restored_from = RestoredFrom::of(&options);
        let checkpoint_directory = options.get(&checkpointing::DIRECTORY);
        let StartedRunner { running, end: ended } = job_manager_runner::start(RunnerDeps {
            services: services.clone(),
            leaders: self.deps.leaders.clone(),
            dispatcher: self.session,
            program: self.deps.ship_programs.then(|| program_key(&graph.program)),
            graph: graph.clone(),
            options,
            submitted_ms,
            trace: TraceContext::current(),
            hosts: self.deps.hosts(),
            log: log.clone(),
            embedded: self.deps.embedded,
        });
        let gateway = services.rpc.gateway(running.address(), self.session);
        let end = watch::Sender::new(None);
        let known = Job {
            graph,
            log,
            submitted_ms,
            restored_from,
            checkpoint_directory,
            runner: running,
            gateway,
            end,
        };
        self.jobs.insert(job, known);
        let addr = ctx.address();
        actix::spawn(async move {
            // No end comes if the runner is stopped before.
            if let Ok((details, trace)) = ended.await {
                let ended = take_step(&addr, move |actor, ctx| {
                    let _entered = trace.enter();
                    actor.runner_ended(job, details, ctx);
                });
                let _ = ended.await;
            }
        });
    }

    /// Releases a job's program host.
    pub(super) fn release_host(&self, job: JobId, at_once: bool) {
        self.deps.hosts().insist(ReleaseHost { job_id: job, at_once });
    }
}

/// Translates the reason why a job's program was not copied.
fn not_kept(graph: &JobGraph, error: BlobStoreError) -> AppendError {
    AppendError::Store(match error {
        BlobStoreError::Store(error) => error,
        other => {
            let path = format!("program {} of job {}", graph.program.name, graph.job_id);
            StoreError::Io { path, why: other.to_string() }
        }
    })
}

/// The reason why a submitted graph was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotStored {
    /// The job's log or program could not be written.
    #[error(transparent)]
    Log(#[from] AppendError),
    /// The job can't start from the savepoint that it names.
    #[error("{0}")]
    Restore(String),
    /// The job can't use its checkpoint directory.
    #[error("{0}")]
    Directory(String),
}

/// The outcome of storing a submitted graph in its job's log.
#[derive(actix::Message)]
#[rtype(result = "Result<JobId, SubmitError>")]
struct GraphStored {
    graph: Arc<JobGraph>,
    options: Options,
    outcome: Result<LogEnd, NotStored>,
    /// False if storing the graph was not even tried.
    may_be_stored: bool,
    trace: TraceContext,
}

impl Handler<GraphStored> for Dispatcher {
    type Result = Result<JobId, SubmitError>;

    fn handle(&mut self, stored: GraphStored, ctx: &mut Context<Self>) -> Self::Result {
        let GraphStored { graph, options, outcome, may_be_stored, trace } = stored;
        let _entered = trace.enter();
        let job = graph.job_id;
        self.persisting.remove(&job);
        let error = match outcome {
            Ok(log_end) => {
                self.unsettled.remove(&job);
                if !self.stopping && self.table.stored(job) {
                    tracing::info!(%job, name = ?graph.name, tasks = graph.total_subtasks(), "job submitted");
                    let log = self.open_log(log_end, CheckpointRecords::default());
                    self.run(graph, options, log, ctx);
                    self.say_needed_by(job);
                }
                return Ok(job);
            }
            Err(NotStored::Restore(why)) => SubmitError::Restore(why),
            Err(NotStored::Directory(why)) => SubmitError::CheckpointDirectory(why),
            Err(NotStored::Log(AppendError::Exists { .. })) => {
                SubmitError::DuplicateRunning { job }
            }
            Err(NotStored::Log(AppendError::Superseded { .. } | AppendError::LeaseOver { .. })) => {
                self.leave_blobs();
                SubmitError::ShuttingDown
            }
            Err(NotStored::Log(error @ (AppendError::Store(_) | AppendError::Encode { .. }))) => {
                SubmitError::Storage(error.to_string())
            }
        };
        if may_be_stored {
            self.unsettled.insert(job, graph.program.hash);
        }
        tracing::warn!(%job, %error, "the job graph was not stored");
        self.table.forget(job);
        self.say_needed_by(job);
        if matches!(error, SubmitError::DuplicateRunning { .. }) {
            self.adopt(job, ctx);
        }
        Err(error)
    }
}

/// Translates a refusal into the call's error.
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
