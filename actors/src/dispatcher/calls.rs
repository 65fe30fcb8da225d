//! Handlers of the Dispatcher's calls, except those about programs.

use super::ClusterEnd;
use super::ended::summary_of;
use super::leader::Dispatcher;
use crate::turns::spawn_then;
use actix::{Context, Handler, ResponseFuture};
use control::dispatcher::Origin;
use futures::future::join_all;
use gateways::dispatcher::{
    CancelJob, DeliverCoordinationRequest, JobError, JobSummary, JobsOverview,
    RequestJobCheckpoints, RequestJobDetails, RequestJobResult, RequestJobStatus,
    RequestJobsOverview, ShutDownCluster, SubmitJob,
};
use gateways::job_master::{Cancel, CoordinationError, CoordinationRequest};
use gateways::job_services::FindHost;
use gateways::program_host::{HandleCoordinationRequest, ProgramHostGateway};
use gateways::{Answer, Ask, Deadline, Remote};
use model::{JobId, JobStatus};
use std::time::Duration;

/// Maximum time for which the overview waits for one JobMaster.
const SUMMARY_WITHIN: Duration = Duration::from_secs(2);
/// Maximum time for which the end of a cluster waits until its jobs are cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(30);
/// Maximum time for which one question waits for the end of a job.
const RESULT_WAIT_MAX: Duration = Duration::from_secs(300);

impl Handler<Ask<SubmitJob>> for Dispatcher {
    type Result = ResponseFuture<Answer<SubmitJob>>;

    fn handle(&mut self, ask: Ask<SubmitJob>, ctx: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        self.submit(ask.body.graph, Origin::Client, ctx)
    }
}

impl Handler<Ask<CancelJob>> for Dispatcher {
    type Result = ResponseFuture<Answer<CancelJob>>;

    fn handle(&mut self, ask: Ask<CancelJob>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let job = ask.body.job_id;
        let (asked, ended) = (self.asked(job), self.ended_result(job));
        Box::pin(async move {
            match asked {
                Some(asked) => asked.ask(Cancel {}, ask.caller.deadline).await,
                None => Err(JobError::Terminated { job, status: ended?.status }),
            }
        })
    }
}

impl Handler<Ask<RequestJobStatus>> for Dispatcher {
    type Result = ResponseFuture<Answer<RequestJobStatus>>;

    fn handle(&mut self, ask: Ask<RequestJobStatus>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let job = ask.body.job_id;
        let (asked, ended) = (self.asked(job), self.ended_result(job));
        let is_being_stored = self.persisting.contains_key(&job);
        Box::pin(async move {
            match asked {
                Some(asked) => asked.status(ask.caller.deadline).await,
                None if is_being_stored => Ok(JobStatus::Initializing),
                None => ended.map(|result| result.status),
            }
        })
    }
}

impl Handler<Ask<RequestJobResult>> for Dispatcher {
    type Result = ResponseFuture<Answer<RequestJobResult>>;

    fn handle(&mut self, ask: Ask<RequestJobResult>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let job = ask.body.job_id;
        let wait = Duration::from_millis(ask.body.wait_ms).min(RESULT_WAIT_MAX);
        let (asked, ended) = (self.asked(job), self.ended_result(job));
        let platform = self.deps.services.platform.clone();
        Box::pin(async move {
            match asked {
                Some(asked) => Ok(asked.result(wait, || platform.unix_millis()).await),
                None => ended,
            }
        })
    }
}

impl Handler<Ask<RequestJobDetails>> for Dispatcher {
    type Result = ResponseFuture<Answer<RequestJobDetails>>;

    fn handle(&mut self, ask: Ask<RequestJobDetails>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let job = ask.body.job_id;
        let (asked, ended) = (self.asked(job), self.ended_details(job));
        Box::pin(async move {
            match asked {
                Some(asked) => asked.details(ask.caller.deadline).await,
                None => ended.await,
            }
        })
    }
}

impl Handler<Ask<RequestJobCheckpoints>> for Dispatcher {
    type Result = ResponseFuture<Answer<RequestJobCheckpoints>>;

    fn handle(&mut self, ask: Ask<RequestJobCheckpoints>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let job = ask.body.job_id;
        let (asked, ended) = (self.asked(job), self.ended_details(job));
        Box::pin(async move {
            match asked {
                Some(asked) => asked.checkpoints(ask.caller.deadline).await,
                None => Ok((*ended.await?.checkpoints).clone()),
            }
        })
    }
}

impl Handler<Ask<RequestJobsOverview>> for Dispatcher {
    type Result = ResponseFuture<Answer<RequestJobsOverview>>;

    fn handle(&mut self, ask: Ask<RequestJobsOverview>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let running = self.all_asked();
        let ended = self.ended.iter().filter(|(job, _)| !self.jobs.contains_key(job));
        let mut others: Vec<JobSummary> =
            ended.map(|(_, ended)| summary_of(&ended.entry)).collect();
        others.extend(self.persisting());
        let forgotten = self.table.ended_jobs().forgotten().clone();
        Box::pin(async move {
            let summaries = running.iter().map(|asked| asked.summary(SUMMARY_WITHIN));
            let mut jobs = join_all(summaries).await;
            jobs.extend(others);
            Ok(JobsOverview { jobs, forgotten })
        })
    }
}

impl Handler<Ask<DeliverCoordinationRequest>> for Dispatcher {
    type Result = ResponseFuture<Answer<DeliverCoordinationRequest>>;

    fn handle(
        &mut self,
        ask: Ask<DeliverCoordinationRequest>,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let DeliverCoordinationRequest { job_id, operator, request } = ask.body;
        let deadline = ask.caller.deadline;
        if let Some(asked) = self.asked(job_id) {
            return Box::pin(async move {
                let unavailable =
                    |error: JobError| CoordinationError::Unavailable(error.to_string());
                let gateway = asked.job_master(deadline).await.map_err(unavailable)?;
                let request = CoordinationRequest { operator, request };
                let answer = gateway.ask_within(request, deadline.remaining()).await;
                answer.map_err(CoordinationError::from)
            });
        }
        if self.collected.contains_key(&job_id) {
            self.keep_collected(job_id);
            let request = HandleCoordinationRequest { operator, request };
            return self.ask_collected(job_id, request, deadline);
        }
        let error = match self.ended_result(job_id) {
            Ok(result) => CoordinationError::Failed(format!(
                "job {job_id} has ended as {} and serves no results any more",
                result.status
            )),
            Err(JobError::Unavailable { .. }) => {
                CoordinationError::Unavailable(format!("job {job_id} is being started"))
            }
            Err(_) => CoordinationError::NoSuchJob { job: job_id },
        };
        Box::pin(async move { Err(error) })
    }
}

impl Dispatcher {
    /// Forwards a request for collected results to the host of a finished job.
    fn ask_collected(
        &self,
        job_id: JobId,
        request: HandleCoordinationRequest,
        deadline: Deadline,
    ) -> ResponseFuture<Answer<DeliverCoordinationRequest>> {
        let (hosts, rpc) = (self.deps.hosts(), self.deps.services.rpc.clone());
        Box::pin(async move {
            let Ok(Some(host)) = hosts.ask_within(FindHost { job_id }, deadline.remaining()).await
            else {
                let gone = "the process that kept the result of the job is gone".to_owned();
                return Err(CoordinationError::Failed(gone));
            };
            let gateway: Remote<ProgramHostGateway> = rpc.gateway(&host.address, host.session);
            let answer = gateway.ask_within(request, deadline.remaining()).await;
            answer.map_err(CoordinationError::from)
        })
    }
}

impl Handler<Ask<ShutDownCluster>> for Dispatcher {
    type Result = Answer<ShutDownCluster>;

    fn handle(&mut self, ask: Ask<ShutDownCluster>, ctx: &mut Context<Self>) -> Self::Result {
        // Whatever this process does from here on, it does for this request.
        ask.caller.trace.enter_process();
        let _entered = ask.caller.trace.enter();
        tracing::info!(jobs = self.jobs.len(), "the cluster is shut down on request");
        self.table.close();
        let running = self.all_asked();
        let ended = async move {
            let deadline = Deadline::after(CANCEL_WITHIN);
            let cancelled = running.iter().map(|asked| async {
                if asked.ask(Cancel {}, deadline).await.is_ok() {
                    asked.result(deadline.remaining(), || 0).await;
                }
            });
            join_all(cancelled).await;
        };
        spawn_then(ctx, ended, |actor, (), _| actor.jobs_ended());
        Ok(())
    }
}

impl Dispatcher {
    /// Ends the cluster, whose jobs have ended or did not end in time.
    fn jobs_ended(&self) {
        let dismiss = |end: &mut Option<ClusterEnd>| match end {
            Some(end) => !std::mem::replace(&mut end.dismissed, true),
            None => false,
        };
        if !self.deps.end.send_if_modified(dismiss) {
            self.end_cluster(None, Some("shut down on request".to_owned()));
        }
    }
}
