//! Questions about running jobs, which the job's JobMaster answers. If a job ends while a question about it is pending,
//! its recorded end answers. A question must never be refused because the job has just ended.

use super::ended::{details_of, result_of, summary_of};
use super::leader::Dispatcher;
use gateways::dispatcher::{JobError, JobResult, JobSummary};
use gateways::job_master::{
    JobDetails, JobMasterGateway, RequestCheckpoints, RequestDetails, RequestStatus, RequestSummary,
};
use gateways::job_services::{JobManagerRunnerGateway, RequestJobMaster};
use gateways::{Call, Deadline, Remote, RpcService, TraceContext};
use model::{CheckpointReport, JobId, JobStatus};
use platform::watch;
use std::collections::BTreeMap;
use std::time::Duration;
use storage::jobs::{DetailsStore, JobResultEntry};

/// Pause between two looks for the JobMaster of a job whose leader is changing.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Everything that a question about a running job needs, independent of the actor.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) job: JobId,
    name: String,
    submitted_ms: u64,
    rpc: RpcService,
    runner: Remote<JobManagerRunnerGateway>,
    /// The trace of the request that asks.
    trace: TraceContext,
    details: DetailsStore,
    end: watch::Receiver<Option<JobResultEntry>>,
}

impl Asked {
    /// Returns the JobMaster that leads, waiting for one until the deadline. Returns [`JobError::Terminated`] if the
    /// job has ended meanwhile.
    pub(super) async fn job_master(
        &self,
        deadline: Deadline,
    ) -> Result<Remote<JobMasterGateway>, JobError> {
        loop {
            if let Ok(Some(found)) = self.runner.ask(RequestJobMaster {}).await {
                let job_master = self.rpc.gateway(&found.address, found.job_master_id);
                return Ok(job_master.with_trace(self.trace));
            }
            if let Some(end) = self.end() {
                return Err(JobError::Terminated { job: self.job, status: end.status });
            }
            if deadline.remaining() <= LOOK_AGAIN {
                return Err(JobError::Unavailable { job: self.job });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Returns the job's end if it was recorded after the question arrived; the JobMaster does not answer any more
    /// then.
    fn end(&self) -> Option<JobResultEntry> {
        self.end.borrow().clone()
    }

    /// Asks the leading JobMaster. Returns [`JobError::Terminated`] if the job has ended meanwhile.
    pub(super) async fn ask<C: Call<Gateway = JobMasterGateway>>(
        &self,
        message: C,
        deadline: Deadline,
    ) -> Result<C::Reply, JobError> {
        let gateway = self.job_master(deadline).await?;
        let answer = gateway.ask_within(message, deadline.remaining()).await;
        answer.map_err(|_| match self.end() {
            Some(end) => JobError::Terminated { job: self.job, status: end.status },
            None => JobError::Unavailable { job: self.job },
        })
    }

    /// Returns the job's state.
    pub(super) async fn status(&self, deadline: Deadline) -> Result<JobStatus, JobError> {
        match self.ask(RequestStatus {}, deadline).await {
            Ok(status) => Ok(unrecorded(status)),
            Err(JobError::Terminated { status, .. }) => Ok(status),
            Err(error) => Err(error),
        }
    }

    /// Returns the job's summary; if no JobMaster answers within `within`, the part that the Dispatcher knows.
    pub(super) async fn summary(&self, within: Duration) -> JobSummary {
        let found = self.ask(RequestSummary {}, Deadline::after(within)).await;
        match (found, self.end()) {
            (Ok(found), _) => {
                let status = unrecorded(found.status);
                let end_ms = found.end_ms.filter(|_| status == found.status);
                JobSummary { status, end_ms, ..found }
            }
            (Err(_), Some(end)) => summary_of(&end),
            (Err(_), None) => initializing(self.job, &self.name, self.submitted_ms),
        }
    }

    /// Returns the job's result; if the job has not ended after `wait`, its current state.
    pub(super) async fn result(&self, wait: Duration, now_ms: impl Fn() -> u64) -> JobResult {
        let mut end = self.end.clone();
        // An error means that the sender is gone; its last value can still be read.
        let _ = tokio::time::timeout(wait, end.wait_for(Option::is_some)).await;
        if let Some(end) = self.end() {
            return result_of(&end);
        }
        let summary = self.summary(Duration::from_secs(1)).await;
        JobResult {
            job_id: self.job,
            name: summary.name,
            status: summary.status,
            cause: None,
            runtime_ms: now_ms().saturating_sub(self.submitted_ms),
        }
    }

    /// Returns the report of the job's checkpoints.
    pub(super) async fn checkpoints(
        &self,
        deadline: Deadline,
    ) -> Result<CheckpointReport, JobError> {
        match (self.ask(RequestCheckpoints {}, deadline).await, self.end()) {
            (Ok(report), _) => Ok(report),
            (Err(_), Some(end)) => {
                Ok((*details_of(&end, &self.details).await?.checkpoints).clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Returns all details of the job.
    pub(super) async fn details(&self, deadline: Deadline) -> Result<JobDetails, JobError> {
        match (self.ask(RequestDetails {}, deadline).await, self.end()) {
            (Ok(mut details), _) => {
                let shown = unrecorded(details.status);
                if shown != details.status {
                    details.timestamps.remove(&details.status);
                    (details.status, details.end_ms) = (shown, None);
                }
                Ok(details)
            }
            (Err(_), Some(end)) => details_of(&end, &self.details).await,
            (Err(error), None) => Err(error),
        }
    }
}

/// Returns the state to report for a job whose result is not recorded yet. Until then the job does not count as ended,
/// because another leader may have to run it again.
pub(super) fn unrecorded(status: JobStatus) -> JobStatus {
    match status {
        JobStatus::Finished => JobStatus::Running,
        JobStatus::Failed => JobStatus::Failing,
        JobStatus::Canceled => JobStatus::Cancelling,
        status => status,
    }
}

/// Returns the summary of a job that has no JobMaster yet.
fn initializing(job_id: JobId, name: &str, submitted_ms: u64) -> JobSummary {
    JobSummary {
        job_id,
        name: name.to_owned(),
        status: JobStatus::Initializing,
        start_ms: submitted_ms,
        end_ms: None,
        last_modification_ms: submitted_ms,
        tasks: BTreeMap::new(),
    }
}

impl Dispatcher {
    /// Returns the summaries of the jobs whose graph is being stored.
    pub(super) fn persisting(&self) -> Vec<JobSummary> {
        let persisting = self.persisting.iter();
        persisting.map(|(job, (graph, at))| initializing(*job, &graph.name, *at)).collect()
    }

    /// Returns the job if it runs here.
    pub(super) fn asked(&self, job: JobId) -> Option<Asked> {
        let known = self.jobs.get(&job)?;
        Some(Asked {
            job,
            name: known.graph.name.clone(),
            submitted_ms: known.submitted_ms,
            rpc: self.deps.services.rpc.clone(),
            runner: known.gateway.clone(),
            trace: TraceContext::current(),
            details: self.details.clone(),
            end: known.end.subscribe(),
        })
    }

    /// Returns all jobs that run here.
    pub(super) fn all_asked(&self) -> Vec<Asked> {
        self.jobs.keys().filter_map(|job| self.asked(*job)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::ended::entry_of;
    use crate::job_testing::{graph, job};
    use crate::testing::{TestProcess, session};
    use model::{DispatcherId, Fence as _};
    use std::sync::Arc;
    use storage::objects::MemoryObjects;

    const SECOND: Duration = Duration::from_secs(1);

    fn ended_details() -> JobDetails {
        JobDetails {
            graph: Arc::new(graph(1, 1, false)),
            status: JobStatus::Finished,
            cause: None,
            start_ms: 1_000,
            end_ms: Some(1_500),
            now_ms: 2_000,
            timestamps: BTreeMap::new(),
            vertices: Vec::new(),
            failures: Vec::new(),
            restarts: 0,
            checkpoints: Arc::default(),
        }
    }

    /// Returns a question about a job whose JobMaster and runner are gone.
    fn asked(
        process: &TestProcess,
        details: DetailsStore,
    ) -> (Asked, watch::Sender<Option<JobResultEntry>>) {
        let rpc = process.services.rpc.clone();
        let runner = rpc.gateway(&rpc.address_of("gone"), DispatcherId::from_session(session(1)));
        let end = watch::Sender::new(None);
        let asked = Asked {
            job: job(1),
            name: "job 1".to_owned(),
            submitted_ms: 1_000,
            rpc,
            runner,
            trace: TraceContext::NONE,
            details,
            end: end.subscribe(),
        };
        (asked, end)
    }

    #[tokio::test(flavor = "local", start_paused = true)]
    async fn a_job_that_ended_while_it_was_asked_about_is_answered_from_its_recorded_end() {
        let process = TestProcess::start(&[]).await;
        let store = DetailsStore::new(Arc::new(MemoryObjects::new()));
        let (asked, end) = asked(&process, store.clone());
        let within = || Deadline::after(SECOND);
        let unavailable = JobError::Unavailable { job: job(1) };
        assert_eq!(asked.status(within()).await, Err(unavailable.clone()), "not recorded yet");
        assert_eq!(asked.details(within()).await.unwrap_err(), unavailable);

        let ended = ended_details();
        let bytes = DetailsStore::encode(&ended).unwrap();
        let size = bytes.len() as u64;
        store.put("details".to_owned(), bytes).await.unwrap();
        let details = Some(("details".to_owned(), size));
        end.send_replace(Some(JobResultEntry { details, ..entry_of(&ended) }));
        drop(end);

        assert_eq!(asked.status(within()).await, Ok(JobStatus::Finished));
        assert_eq!(asked.details(within()).await.unwrap().end_ms, Some(1_500));
        let summary = asked.summary(SECOND).await;
        assert_eq!((summary.status, summary.end_ms), (JobStatus::Finished, Some(1_500)));
        let result = asked.result(SECOND, || 2_000).await;
        assert_eq!((result.status, result.runtime_ms), (JobStatus::Finished, 500));
        let cancelled = asked.ask(gateways::job_master::Cancel {}, within()).await;
        let terminated = JobError::Terminated { job: job(1), status: JobStatus::Finished };
        assert_eq!(cancelled, Err(terminated));
    }
}
