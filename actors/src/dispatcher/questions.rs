//! Questions about running jobs: they are asked of the job's JobMaster.

use super::leader::Dispatcher;
use gateways::dispatcher::{JobError, JobResult, JobSummary};
use gateways::job_master::{JobDetails, JobMasterGateway, RequestDetails, RequestSummary};
use gateways::job_services::{JobManagerRunnerGateway, RequestJobMaster};
use gateways::{Call, Deadline, Remote, RpcService};
use model::{JobId, JobStatus};
use platform::watch;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between looks for the JobMaster of a job that is changing leaders.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A running job, as a question needs it: nothing of the actor's.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) job: JobId,
    name: String,
    submitted_ms: u64,
    rpc: RpcService,
    runner: Remote<JobManagerRunnerGateway>,
    result: watch::Receiver<Option<JobResult>>,
}

impl Asked {
    /// The JobMaster that leads now; waits for it until the deadline.
    pub(super) async fn job_master(
        &self,
        deadline: Deadline,
    ) -> Result<Remote<JobMasterGateway>, JobError> {
        loop {
            if let Ok(Some(found)) = self.runner.ask(RequestJobMaster {}).await {
                return Ok(self.rpc.gateway(&found.address, found.job_master_id));
            }
            if deadline.remaining() <= LOOK_AGAIN {
                return Err(JobError::Unavailable { job: self.job });
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Asks the JobMaster that leads.
    pub(super) async fn ask<C: Call<Gateway = JobMasterGateway>>(
        &self,
        message: C,
        deadline: Deadline,
    ) -> Result<C::Reply, JobError> {
        let gateway = self.job_master(deadline).await?;
        let answer = gateway.ask_within(message, deadline.remaining()).await;
        answer.map_err(|_| JobError::Unavailable { job: self.job })
    }

    /// Returns the job in one line; while it has no JobMaster, what the Dispatcher knows.
    pub(super) async fn summary(&self, within: Duration) -> JobSummary {
        let found = self.ask(RequestSummary {}, Deadline::after(within)).await;
        match found {
            Ok(found) => JobSummary { status: unrecorded(found.status), ..found },
            Err(_) => initializing(self.job, &self.name, self.submitted_ms),
        }
    }

    /// How the job ended, or after `wait` what is known.
    pub(super) async fn result(&self, wait: Duration, now_ms: impl Fn() -> u64) -> JobResult {
        let mut result = self.result.clone();
        let ended = tokio::time::timeout(wait, result.wait_for(Option::is_some)).await;
        if let Ok(Ok(ended)) = &ended
            && let Some(ended) = &**ended
        {
            return ended.clone();
        }
        drop(ended);
        let summary = self.summary(Duration::from_secs(1)).await;
        JobResult {
            job_id: self.job,
            name: summary.name,
            status: summary.status,
            cause: None,
            runtime_ms: now_ms().saturating_sub(self.submitted_ms),
        }
    }
}

/// The state that is told of a job whose result is not recorded: it has not ended before that, because
/// another leader may have to run it again.
pub(super) fn unrecorded(status: JobStatus) -> JobStatus {
    match status {
        JobStatus::Finished => JobStatus::Running,
        JobStatus::Failed => JobStatus::Failing,
        JobStatus::Canceled => JobStatus::Cancelling,
        status => status,
    }
}

/// A job that has no JobMaster yet.
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
    /// Lists the jobs whose graph is being stored.
    pub(super) fn persisting(&self) -> Vec<JobSummary> {
        let persisting = self.persisting.iter();
        persisting.map(|(job, (graph, at))| initializing(*job, &graph.name, *at)).collect()
    }

    /// A job that runs here.
    pub(super) fn asked(&self, job: JobId) -> Option<Asked> {
        let known = self.jobs.get(&job)?;
        Some(Asked {
            job,
            name: known.graph.name.clone(),
            submitted_ms: known.submitted_ms,
            rpc: self.deps.services.rpc.clone(),
            runner: known.gateway.clone(),
            result: known.result.subscribe(),
        })
    }

    /// All jobs that run here.
    pub(super) fn all_asked(&self) -> Vec<Asked> {
        self.jobs.keys().filter_map(|job| self.asked(*job)).collect()
    }

    /// Details of a running job.
    pub(super) async fn details_of(
        asked: Asked,
        deadline: Deadline,
    ) -> Result<JobDetails, JobError> {
        let details = asked.ask(RequestDetails {}, deadline).await?;
        Ok(JobDetails { status: unrecorded(details.status), ..details })
    }
}
