//! Recovery: a new Dispatcher reads the logs of the jobs that an earlier one left, in the background, runs the jobs
//! that have not ended and remembers the others. A stored job that cannot run again fails, and that is recorded as its
//! result: it must never just disappear.

use super::directory;
use super::ended::{Ended, ended_job};
use super::leader::Dispatcher;
use crate::stores::retried;
use crate::turns::take_step;
use actix::{AsyncContext as _, Context};
use control::dispatcher::{Found, Recovered};
use futures::StreamExt as _;
use gateways::job_master::{FailureRecord, JobDetails};
use model::{ContentHash, FailureCause, JobGraph, JobId, JobStatus, LeaderSession, ProgramRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use storage::blobs::BlobStoreError;
use storage::jobs::{AppendError, JobLogs, JobState, LogId, OpenJobLog, TakenOver, Writer};

/// Name shown for a job whose stored graph, which contains its name, cannot be read.
const UNKNOWN_NAME: &str = "(unknown: its stored graph is damaged)";
/// Maximum number of logs that are read at the same time.
const READS_MAX: usize = 16;
/// The first and the longest pause between attempts to read.
const READ_RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));
/// Number of logs between two messages about the progress.
const PROGRESS_EVERY: usize = 100;

impl Dispatcher {
    /// Lists the logs of all jobs in the background; [`Dispatcher::listed`] follows.
    pub(super) fn recover(&mut self, ctx: &mut Context<Self>) {
        let (logs, session, addr) = (self.logs.clone(), self.writer.session, ctx.address());
        actix::spawn(async move {
            let listed = read_again("the jobs of this cluster", || {
                let logs = logs.clone();
                async move {
                    let mark = logs.clone().newest_mark(session).await?;
                    Ok((logs.list().await?, mark))
                }
            });
            if let Ok((jobs, mark)) = listed.await {
                let _ = take_step(&addr, move |actor, ctx| actor.listed(&jobs, mark, ctx)).await;
            }
        });
    }

    /// Reads the log of a job that a superseded leader created after this one had taken over. Called when a client
    /// submits the same job id again.
    pub(super) fn adopt(&mut self, job: JobId, ctx: &mut Context<Self>) {
        if self.table.adopt(job) {
            self.read_logs(vec![job], None, ctx);
        }
    }

    fn read_logs(&self, jobs: Vec<JobId>, mark: Option<LeaderSession>, ctx: &mut Context<Self>) {
        let (logs, writer, addr) = (self.logs.clone(), self.writer.clone(), ctx.address());
        actix::spawn(async move {
            let reads =
                jobs.into_iter().map(|job| take_over(logs.clone(), job, mark, writer.clone()));
            let mut reads = futures::stream::iter(reads).buffer_unordered(READS_MAX);
            while let Some((job, outcome)) = reads.next().await {
                let read = take_step(&addr, move |actor, ctx| actor.log_read(job, outcome, ctx));
                if read.await.is_err() {
                    return;
                }
            }
        });
    }

    fn recovered_all(&mut self, ctx: &mut Context<Self>) {
        tracing::info!(
            running = self.jobs.len(),
            ended = self.ended.len(),
            "all jobs are recovered"
        );
        let marked = self.logs.clone().mark_taken_over(self.writer.session);
        actix::spawn(async move {
            if let Err(error) = marked.await {
                tracing::warn!(%error, "cannot mark that all jobs were taken over");
            }
        });
        self.run_own_job(ctx);
        self.say_needed();
        self.forget_old_jobs(ctx);
    }

    fn delete_stale(&self, job: JobId, stale: Vec<LogId>) {
        tracing::info!(%job, logs = stale.len(), "deleting logs that are no job any more");
        let (logs, details) = (self.logs.clone(), self.details.clone());
        actix::spawn(async move {
            let deleted = async {
                details.delete_job(job, &stale).await?;
                logs.delete(job, &stale).await
            };
            if let Err(error) = deleted.await {
                tracing::warn!(%job, %error, "cannot delete logs that are no job any more");
            }
        });
    }

    /// Ends a stored job as FAILED because it can never run again.
    fn fail_stored(
        &mut self,
        graph: Arc<JobGraph>,
        cause: String,
        log: OpenJobLog,
        ctx: &mut Context<Self>,
    ) {
        let (job, now_ms) = (graph.job_id, self.deps.services.platform.unix_millis());
        tracing::error!(%job, cause, "a stored job has failed");
        let cause = FailureCause::fatal("JobLogDamaged", cause);
        let failure = FailureRecord {
            at_ms: now_ms,
            task: None,
            resource_id: None,
            cause: cause.clone(),
            concurrent: Vec::new(),
        };
        let details = Box::new(JobDetails {
            graph,
            status: JobStatus::Failed,
            timestamps: BTreeMap::from([(JobStatus::Failed, now_ms)]),
            start_ms: now_ms,
            end_ms: Some(now_ms),
            now_ms,
            vertices: Vec::new(),
            cause: Some(cause),
            failures: vec![failure],
            restarts: 0,
            checkpoints: Arc::default(),
        });
        self.job_ended(details, log, ctx);
    }
}

/// Makes an empty graph that stands in for one that can't be read.
fn nameless(job_id: JobId) -> JobGraph {
    JobGraph {
        job_id,
        name: UNKNOWN_NAME.to_owned(),
        program: ProgramRef::default(),
        nodes: Vec::new(),
        vertices: Vec::new(),
        edges: Vec::new(),
        bounded: true,
        options: BTreeMap::new(),
        fingerprint: ContentHash([0; 32]),
    }
}

/// Repeats a read after pauses until it succeeds or fails for another reason than a store error.
async fn read_again<T, F>(what: &str, read: impl Fn() -> F) -> Result<T, AppendError>
where
    F: Future<Output = Result<T, AppendError>>,
{
    retried(&format!("read {what}"), READ_RETRY, AppendError::may_pass, read).await
}

async fn take_over(
    logs: JobLogs,
    job: JobId,
    mark: Option<LeaderSession>,
    writer: Writer,
) -> (JobId, Result<TakenOver, AppendError>) {
    let what = format!("the log of job {job}");
    let read = || logs.clone().take_over(job, mark, writer.clone());
    (job, read_again(&what, read).await)
}

impl Dispatcher {
    /// Recovers the jobs that have logs. `mark` is the newest one of an earlier leader.
    fn listed(&mut self, jobs: &[JobId], mark: Option<LeaderSession>, ctx: &mut Context<Self>) {
        if self.stopping {
            return;
        }
        let left = self.table.listed(jobs);
        if self.table.recovery_progress().is_none() {
            return self.recovered_all(ctx);
        }
        tracing::info!(jobs = left.len(), "recovering jobs");
        self.read_logs(left, mark, ctx);
    }

    /// Takes the job in whose log was read, or leaves it to another leader.
    fn log_read(
        &mut self,
        job: JobId,
        outcome: Result<TakenOver, AppendError>,
        ctx: &mut Context<Self>,
    ) {
        if self.stopping {
            return;
        }
        let was_recovering = self.table.recovery_progress().is_some();
        match outcome {
            Ok(taken) => {
                self.unsettled.remove(&job);
                self.take_in(job, taken, ctx);
                self.say_needed_by(job);
            }
            Err(error) => {
                tracing::warn!(%job, %error, "the job is left to another leader");
                self.leave_blobs();
                self.table.recovered(job, Found::Superseded);
            }
        }
        match self.table.recovery_progress() {
            Some((read, total)) if read % PROGRESS_EVERY == 0 => {
                tracing::info!(read, total, "recovering jobs");
            }
            None if was_recovering => self.recovered_all(ctx),
            _ => {}
        }
    }

    /// Copies the program of a recovered job: an earlier leader may still delete its own copy, because it does not know
    /// of the job or because it removed the program before the job came.
    fn keep_recovered(&self, graph: &JobGraph) {
        let Some(kept) = self.keep_program(graph) else { return };
        let job = graph.job_id;
        actix::spawn(async move {
            match kept.await {
                // A program that is gone is that of a job which ended meanwhile, or the job says so itself.
                Ok(()) | Err(BlobStoreError::NotFound(_)) => {}
                Err(error) => {
                    tracing::warn!(%job, %error, "no new copy of the program was made; the earlier leader's has to do");
                }
            }
        });
    }

    /// Handles the log of a job that an earlier Dispatcher left.
    fn take_in(&mut self, job: JobId, taken: TakenOver, ctx: &mut Context<Self>) {
        let TakenOver { state, end, stale, checkpoints } = taken;
        let found = match &state {
            JobState::Running(graph) => Found::Running(graph),
            JobState::Ended(entry) => Found::Ended(ended_job(entry)),
            JobState::Damaged { .. } => Found::Damaged,
            JobState::Ghost | JobState::Removed => Found::Nothing,
        };
        let next = self.table.recovered(job, found);
        if next != Recovered::Leave && !stale.is_empty() {
            self.delete_stale(job, stale);
        }
        let Some(end) = end else { return };
        match (next, state) {
            (Recovered::Run, JobState::Running(graph)) => {
                tracing::info!(%job, name = ?graph.name, "job recovered");
                let options = self.merged(&graph.options).unwrap_or_else(|error| {
                    // The options were valid for the version that accepted the job.
                    tracing::warn!(%job, %error, "the job's own options are ignored");
                    self.deps.services.options.as_ref().clone()
                });
                let options = self.with_directory(options, &graph);
                let newest = checkpoints.complete.last().map(|(_, newest)| newest);
                let options = directory::of_recovered(options, newest);
                self.keep_recovered(&graph);
                let log = self.open_log(end, checkpoints);
                self.run(graph, options, log, ctx);
            }
            (Recovered::Keep, JobState::Ended(entry)) => {
                // No job needs the blobs that the earlier Dispatcher did not delete, so the BlobServer removes them.
                self.ended.insert(job, Ended { entry: *entry, log_end: end });
            }
            (Recovered::Fail(Some(error)), JobState::Running(graph)) => {
                let cause = format!("its stored graph is invalid, it cannot run again: {error}");
                self.fail_stored(graph, cause, self.open_log(end, checkpoints), ctx);
            }
            (Recovered::Fail(_), JobState::Damaged { graph, why }) => {
                let cause = format!("its log is damaged, it cannot run again: {why}");
                let graph = graph.unwrap_or_else(|| Arc::new(nameless(job)));
                self.fail_stored(graph, cause, self.open_log(end, checkpoints), ctx);
            }
            _ => {}
        }
    }
}
