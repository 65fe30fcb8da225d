//! When a job has ended: it is archived, its result recorded, its traces removed, in this order.

use super::Archived;
use super::leader::Dispatcher;
use actix::{AsyncContext, Context, Handler};
use control::dispatcher::EndStep;
use gateways::blob_server::DeleteJobBlobs;
use gateways::dispatcher::{JobResult, JobSummary};
use gateways::job_master::JobDetails;
use gateways::job_services::ServeCollected;
use model::{JobGraph, JobId};
use std::collections::BTreeMap;
use std::time::Duration;
use storage::jobs::{JobResultEntry, RecordedResult};

/// How long the host of a finished job serves what was collected, after the last request for it.
const COLLECT_FOR: Duration = Duration::from_secs(60);
/// Most hosts that are kept for that.
const COLLECT_HOSTS_MAX: usize = 16;
/// Between tries to record a result, and how many.
const RECORD_RETRY: (Duration, u32) = (Duration::from_secs(1), 10);

/// A job has ended for good.
#[derive(actix::Message)]
#[rtype(result = "()")]
pub(super) struct JobEnded {
    pub(super) job: JobId,
    pub(super) details: Box<JobDetails>,
}

impl Handler<JobEnded> for Dispatcher {
    type Result = ();

    fn handle(&mut self, JobEnded { job, details }: JobEnded, ctx: &mut Context<Self>) {
        let steps = self.table.ended(job, details.status);
        if !steps.is_empty() {
            self.finish(Ending::new(job, details, steps), ctx);
        }
    }
}

/// An ended job on its way out.
pub(super) struct Ending {
    job: JobId,
    details: Box<JobDetails>,
    steps: std::collections::VecDeque<EndStep>,
    tries: u32,
}

impl Ending {
    pub(super) fn new(job: JobId, details: Box<JobDetails>, steps: Vec<EndStep>) -> Self {
        Self { job, details, steps: steps.into(), tries: 0 }
    }
}

impl Dispatcher {
    /// Does what is left to do. A result that can't be recorded holds the rest up: without it the job
    /// would be run again by the next Dispatcher.
    pub(super) fn finish(&mut self, mut ending: Ending, ctx: &mut Context<Self>) {
        while let Some(step) = ending.steps.front().copied() {
            let done = match step {
                EndStep::Archive => {
                    self.archive(ending.job, &ending.details);
                    true
                }
                EndStep::RecordResult => self.record(ending.job, &ending.details),
                EndStep::EndCluster(status) => {
                    let diagnostics = ending.details.cause.as_ref().map(ToString::to_string);
                    self.end_cluster(Some((ending.job, status)), diagnostics);
                    true
                }
                step => {
                    self.clean_step(ending.job, step, Some(&ending.details.graph));
                    true
                }
            };
            if done {
                ending.steps.pop_front();
                continue;
            }
            ending.tries += 1;
            if ending.tries >= RECORD_RETRY.1 {
                let cause = format!("the result of job {} can't be stored", ending.job);
                self.deps.services.fatal.report(self.name(), cause);
                return;
            }
            ctx.run_later(RECORD_RETRY.0, |actor, ctx| actor.finish(ending, ctx));
            return;
        }
        self.forget_job(ending.job);
    }

    fn forget_job(&mut self, job: JobId) {
        self.table.forget(job);
        if let Some(job) = self.jobs.remove(&job) {
            actix::spawn(job.runner.stop());
        }
        self.say_needed();
    }

    /// Puts the traces of a job in order that ended under an earlier Dispatcher.
    pub(super) fn clean_up(&mut self, job: JobId, steps: Vec<EndStep>, _: &mut Context<Self>) {
        for step in steps {
            match step {
                EndStep::EndCluster(status) => self.end_cluster(Some((job, status)), None),
                step => self.clean_step(job, step, None),
            }
        }
    }

    fn archive(&self, job: JobId, details: &JobDetails) {
        let archived = Archived { summary: summary_of(details), cause: details.cause.clone() };
        let ended_ms = details.end_ms.unwrap_or(details.now_ms);
        let put = self.deps.archive.lock().put(job, archived, details, ended_ms);
        if let Err(error) = put {
            tracing::warn!(%job, %error, "the ended job can't be archived");
        }
    }

    /// Records the result, and lets those know who wait for it. False: try again.
    fn record(&self, job: JobId, details: &JobDetails) -> bool {
        let entry = JobResultEntry {
            job_id: job,
            name: details.graph.name.clone(),
            status: details.status,
            cause: details.cause.clone(),
            start_ms: details.start_ms,
            end_ms: details.end_ms.unwrap_or(details.now_ms),
        };
        let entry = match self.deps.results.record(&entry) {
            Ok(RecordedResult::Recorded) => entry,
            Ok(RecordedResult::EndedBefore(first)) => {
                tracing::warn!(%job, first = %first.status, now = %entry.status, "the job had ended before");
                first
            }
            Err(error) => {
                tracing::error!(%job, %error, "the result of the job can't be stored; trying again");
                return false;
            }
        };
        if let Some(job) = self.jobs.get(&job) {
            job.result.send_replace(Some(result_of(&entry)));
        }
        true
    }

    fn clean_step(&mut self, job: JobId, step: EndStep, graph: Option<&JobGraph>) {
        let outcome = match step {
            EndStep::RemoveGraph => self.deps.graphs.remove(job),
            EndStep::MarkClean => self.deps.results.mark_clean(job),
            EndStep::DeleteBlobs => {
                if let Some(blobs) = &self.deps.blobs {
                    blobs.tell(DeleteJobBlobs { job });
                }
                Ok(())
            }
            EndStep::ReleaseHost => {
                self.release_or_keep_host(job, graph);
                Ok(())
            }
            EndStep::Archive | EndStep::RecordResult | EndStep::EndCluster(_) => Ok(()),
        };
        if let Err(error) = outcome {
            // The result is recorded: the next Dispatcher finds it dirty and does this again.
            tracing::error!(%job, ?step, %error, "a trace of the ended job could not be put in order");
        }
    }

    /// The host of a job that collected its result serves it for a while; any other ends.
    fn release_or_keep_host(&mut self, job: JobId, graph: Option<&JobGraph>) {
        let finished = self.jobs.get(&job).is_some_and(|job| {
            job.result.borrow().as_ref().is_some_and(|r| r.status == model::JobStatus::Finished)
        });
        if !finished || !graph.is_some_and(collects) {
            self.release_host(job, false);
            return;
        }
        self.keep_collected(job);
        if self.collected.len() > COLLECT_HOSTS_MAX {
            let oldest =
                self.collected.iter().min_by_key(|(_, until)| **until).map(|(job, _)| *job);
            if let Some(oldest) = oldest {
                self.collected.remove(&oldest);
                self.release_host(oldest, false);
            }
        }
    }

    /// What a finished job collected is served for a while from now on.
    pub(super) fn keep_collected(&mut self, job: JobId) {
        let until = self.deps.services.platform.now() + COLLECT_FOR;
        self.deps.hosts().tell(ServeCollected { job_id: job });
        self.collected.insert(job, until);
    }

    /// Ends hosts that nobody asks any more.
    pub(super) fn release_collected(&mut self) {
        let now = self.deps.services.platform.now();
        let over: Vec<JobId> = self
            .collected
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(job, _)| *job)
            .collect();
        for job in over {
            self.collected.remove(&job);
            self.release_host(job, false);
        }
    }
}

/// Whether a client may read the job's result from a coordinator.
fn collects(graph: &JobGraph) -> bool {
    graph.nodes.iter().any(|node| node.coordinated && node.kind.contains("collect"))
}

pub(super) fn result_of(entry: &JobResultEntry) -> JobResult {
    JobResult {
        job_id: entry.job_id,
        name: entry.name.clone(),
        status: entry.status,
        cause: entry.cause.clone(),
        runtime_ms: entry.end_ms.saturating_sub(entry.start_ms),
    }
}

/// An ended job in one line.
fn summary_of(details: &JobDetails) -> JobSummary {
    let mut tasks = BTreeMap::new();
    let mut changed = details.timestamps.values().copied().max().unwrap_or_default();
    for subtask in details.vertices.iter().flat_map(|vertex| &vertex.subtasks) {
        *tasks.entry(subtask.state).or_insert(0) += 1;
        changed = changed.max(subtask.timestamps.values().copied().max().unwrap_or_default());
    }
    JobSummary {
        job_id: details.graph.job_id,
        name: details.graph.name.clone(),
        status: details.status,
        start_ms: details.start_ms,
        end_ms: details.end_ms,
        last_modification_ms: changed,
        tasks,
    }
}
