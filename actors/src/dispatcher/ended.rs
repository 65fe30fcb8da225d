//! Ended jobs: the answers about them, and when they are forgotten. Their results are in memory, their details in the
//! store. A job's objects are deleted only after its log says that it is removed (`storage::jobs::JobLogs`).

use super::leader::Dispatcher;
use crate::turns::spawn_then;
use actix::{Context, ResponseFuture};
use control::dispatcher::{EndedJob, JobPhase};
use gateways::dispatcher::{JobError, JobResult, JobSummary};
use gateways::job_master::JobDetails;
use model::JobId;
use std::collections::BTreeMap;
use storage::jobs::{AppendError, DetailsStore, JobFact, JobResultEntry, LogEnd};

/// The Dispatcher's record of an ended job.
pub(super) struct Ended {
    pub(super) entry: JobResultEntry,
    /// The position of the next record in the job's log.
    pub(super) log_end: LogEnd,
}

/// Returns the summary of an ended job.
pub(super) fn summary_of(entry: &JobResultEntry) -> JobSummary {
    JobSummary {
        job_id: entry.job_id,
        name: entry.name.clone(),
        status: entry.status,
        start_ms: entry.start_ms,
        end_ms: Some(entry.end_ms),
        last_modification_ms: entry.last_modification_ms,
        tasks: entry.tasks.clone(),
    }
}

/// Reads the details of an ended job. If they are gone or cannot be read, the error names the state in which the job
/// ended.
pub(super) async fn details_of(
    entry: &JobResultEntry,
    details: &DetailsStore,
) -> Result<JobDetails, JobError> {
    let job = entry.job_id;
    let gone = |why: String| JobError::DetailsGone { job, status: entry.status, why };
    let Some((name, _)) = entry.details.clone() else {
        return Err(gone("they were not stored, or had to make room for newer ones".to_owned()));
    };
    match details.clone().get::<JobDetails>(name.clone()).await {
        Ok(Some(details)) => Ok(details),
        Ok(None) => Err(gone(format!("{name} is not in the store any more"))),
        Err(error) => {
            tracing::error!(%job, %error, "cannot read the details of an ended job");
            Err(gone(error.to_string()))
        }
    }
}

/// Returns the result of an ended job.
pub(super) fn result_of(entry: &JobResultEntry) -> JobResult {
    JobResult {
        job_id: entry.job_id,
        name: entry.name.clone(),
        status: entry.status,
        cause: entry.cause.clone(),
        runtime_ms: entry.end_ms.saturating_sub(entry.start_ms),
    }
}

/// Returns the facts that the table of jobs keeps about an ended job.
pub(super) fn ended_job(entry: &JobResultEntry) -> EndedJob {
    EndedJob {
        status: entry.status,
        end_ms: entry.end_ms,
        details_bytes: entry.details.as_ref().map_or(0, |(_, bytes)| *bytes),
    }
}

/// Returns the record of a job's end, made from its details. The name of the stored details is not filled in yet.
pub(super) fn entry_of(details: &JobDetails) -> JobResultEntry {
    let mut tasks = BTreeMap::new();
    let mut changed = details.timestamps.values().copied().max().unwrap_or_default();
    for subtask in details.vertices.iter().flat_map(|vertex| &vertex.subtasks) {
        *tasks.entry(subtask.state).or_insert(0) += 1;
        changed = changed.max(subtask.timestamps.values().copied().max().unwrap_or_default());
    }
    JobResultEntry {
        job_id: details.graph.job_id,
        name: details.graph.name.clone(),
        status: details.status,
        cause: details.cause.clone(),
        start_ms: details.start_ms,
        end_ms: details.end_ms.unwrap_or(details.now_ms),
        last_modification_ms: changed,
        tasks,
        details: None,
    }
}

impl Dispatcher {
    /// Returns the result of a job that does not run here.
    pub(super) fn ended_result(&self, job: JobId) -> Result<JobResult, JobError> {
        if let Some(ended) = self.ended.get(&job) {
            return Ok(result_of(&ended.entry));
        }
        let building = self.table.phase(job) == Some(JobPhase::Building);
        if self.table.phase(job).is_some() && !building || self.table.may_turn_up(job) {
            return Err(JobError::Unavailable { job });
        }
        // A job whose graph is being built is not accepted yet, and may never be.
        Err(JobError::NotFound { job })
    }

    /// Reads the details of a job that does not run here.
    pub(super) fn ended_details(&self, job: JobId) -> ResponseFuture<Result<JobDetails, JobError>> {
        let entry = self.ended.get(&job).map(|ended| ended.entry.clone());
        let (unknown, details) = (self.ended_result(job), self.details.clone());
        Box::pin(async move {
            match entry {
                Some(entry) => details_of(&entry, &details).await,
                None => Err(unknown.err().unwrap_or(JobError::NotFound { job })),
            }
        })
    }

    /// Remembers an ended job, and forgets jobs beyond the limits of number and age.
    pub(super) fn remember(&mut self, ended: Ended, ctx: &mut Context<Self>) {
        self.ended.insert(ended.entry.job_id, ended);
        self.forget_old_jobs(ctx);
    }

    /// Deletes details beyond the limit of size, and forgets ended jobs beyond the limits of number and age.
    pub(super) fn forget_old_jobs(&mut self, ctx: &mut Context<Self>) {
        let now_ms = self.deps.services.platform.unix_millis();
        let ended_jobs = self.table.ended_jobs_mut();
        for job in ended_jobs.take_excess_details() {
            let object = self.ended.get_mut(&job).and_then(|ended| ended.entry.details.take());
            if let Some((name, _)) = object {
                let deleted = self.details.clone().delete(name);
                actix::spawn(async move {
                    if let Err(error) = deleted.await {
                        tracing::warn!(%job, %error, "cannot delete the details of an ended job");
                    }
                });
            }
        }
        self.leaving.extend(ended_jobs.take_due(now_ms));
        self.forget_next(ctx);
    }

    /// Deletes the stored objects of the next job to be forgotten. One job at a time is deleted, in the background.
    fn forget_next(&mut self, ctx: &mut Context<Self>) {
        if self.deleting || self.stopping {
            return;
        }
        let next = std::iter::from_fn(|| self.leaving.pop_front())
            .find_map(|job| Some((job, self.ended.get(&job)?.log_end)));
        let Some((job, log_end)) = next else { return };
        self.deleting = true;
        let (logs, details) = (self.logs.clone(), self.details.clone());
        let removed = logs.clone().append(log_end, JobFact::Removed, self.writer.clone());
        let deleted = async move {
            let log = [removed.await?.log];
            details.delete_job(job, &log).await?;
            logs.delete(job, &log).await
        };
        spawn_then(ctx, deleted, move |actor, outcome, ctx| actor.deleted(job, outcome, ctx));
    }

    /// Forgets an ended job whose stored objects are deleted, and goes on with the next one.
    fn deleted(&mut self, job: JobId, outcome: Result<(), AppendError>, ctx: &mut Context<Self>) {
        self.deleting = false;
        match outcome {
            Err(AppendError::Store(error)) => {
                tracing::warn!(%job, %error, "cannot delete an ended job; trying again later");
                self.table.ended_jobs_mut().forget_failed(job);
            }
            outcome => {
                if let Err(error) = outcome {
                    tracing::warn!(%job, %error, "an ended job is left to another leader");
                }
                self.table.ended_jobs_mut().forget(job);
                self.ended.remove(&job);
            }
        }
        self.forget_next(ctx);
    }
}
