//! The steps after a job has ended: its details and its result are stored, then its blobs are deleted and its host is
//! ended. `control::dispatcher` decides the order.

use super::ended::{Ended, ended_job, entry_of};
use super::leader::{DETAILS_BYTES_MAX, Dispatcher};
use crate::turns::spawn_then;
use actix::{AsyncContext as _, Context};
use control::dispatcher::EndStep;
use gateways::TraceContext;
use gateways::blob_server::DeleteJobBlobs;
use gateways::job_master::JobDetails;
use gateways::job_services::ServeCollected;
use model::{JobGraph, JobId};
use std::time::Duration;
use storage::jobs::{
    AppendError, DetailsStore, JobFact, JobResultEntry, LogEnd, OpenJobLog, archive_name,
};
use storage::objects::StoreError;

/// Time for which the host of a finished job serves collected results after the last request for them.
const COLLECT_FOR: Duration = Duration::from_secs(60);
/// Maximum number of hosts that are kept for that.
const COLLECT_HOSTS_MAX: usize = 16;

/// An ended job whose end steps are being done.
pub(super) struct Ending {
    details: Box<JobDetails>,
    entry: JobResultEntry,
    log: OpenJobLog,
    /// The trace in which the job has ended.
    trace: TraceContext,
}

impl Dispatcher {
    /// Begins the end steps of a job whose runner has reported that it is in a terminal state.
    pub(super) fn runner_ended(
        &mut self,
        job: JobId,
        details: Box<JobDetails>,
        ctx: &mut Context<Self>,
    ) {
        if let Some(known) = self.jobs.get(&job) {
            let log = known.log.clone();
            self.job_ended(details, log, ctx);
        }
    }

    /// Begins the end steps of a job that has reached a terminal state. Does nothing if the job is not running.
    pub(super) fn job_ended(
        &mut self,
        details: Box<JobDetails>,
        log: OpenJobLog,
        ctx: &mut Context<Self>,
    ) {
        let job = details.graph.job_id;
        let Some(first) = self.table.ended(job, details.status) else { return };
        let (entry, trace) = (entry_of(&details), TraceContext::current());
        self.endings.insert(job, Ending { details, entry, log, trace });
        self.do_steps(job, Some(first), ctx);
    }

    /// Does the end steps until one has to wait for the store, or none is left.
    fn do_steps(&mut self, job: JobId, first: Option<EndStep>, ctx: &mut Context<Self>) {
        let _entered = self.endings.get(&job).map(|ending| ending.trace.enter());
        let mut next = first;
        while let Some(step) = next {
            match step {
                EndStep::StoreDetails => return self.store_details(job, ctx),
                EndStep::RecordResult => return self.record_result(job, ctx),
                EndStep::DeleteBlobs => {
                    if let Some(blobs) = &self.deps.blobs {
                        blobs.insist(DeleteJobBlobs { job });
                    }
                }
                EndStep::ReleaseHost => self.release_or_keep_host(job),
                EndStep::EndCluster(status) => {
                    let ending = self.endings.get(&job);
                    let cause = ending.and_then(|ending| ending.entry.cause.as_ref());
                    self.end_cluster(Some((job, status)), cause.map(ToString::to_string));
                }
            }
            next = self.step_done(job);
        }
        self.endings.remove(&job);
        self.forget_job(job);
    }

    fn step_done(&mut self, job: JobId) -> Option<EndStep> {
        let ended = ended_job(&self.endings.get(&job)?.entry);
        self.table.step_done(job, ended)
    }

    fn store_details(&mut self, job: JobId, ctx: &mut Context<Self>) {
        let Some(ending) = self.endings.get(&job) else { return };
        let name = archive_name(ending.log.opened(), self.writer.session);
        let encoded = DetailsStore::encode(&*ending.details)
            .map_err(|why| StoreError::Io { path: name.clone(), why });
        let encoded = encoded.and_then(|bytes| match bytes.len() as u64 {
            size if size <= DETAILS_BYTES_MAX => Ok((bytes, size)),
            size => Err(StoreError::Io {
                path: name.clone(),
                why: format!(
                    "{size} bytes of details are more than the {DETAILS_BYTES_MAX} allowed"
                ),
            }),
        });
        let details = self.details.clone();
        let stored = async move {
            let (bytes, size) = encoded?;
            details.put(name.clone(), bytes).await.map(|()| (name, size))
        };
        spawn_then(ctx, stored, move |actor, outcome, ctx| actor.details_stored(job, outcome, ctx));
    }

    fn record_result(&mut self, job: JobId, ctx: &mut Context<Self>) {
        let Some(ending) = self.endings.get(&job) else { return };
        let fact = JobFact::Result(Box::new(ending.entry.clone()));
        let log = ending.log.clone();
        let recorded = async move { log.append_last(fact).await };
        spawn_then(ctx, recorded, move |actor, outcome, ctx| {
            actor.result_recorded(job, outcome, ctx);
        });
    }

    /// Leaves a job to the leader that owns it now. The job's blobs belong to that leader too, so this process must no
    /// longer declare which blobs are needed.
    fn give_up(&mut self, job: JobId) {
        self.table.forget(job);
        self.leave_blobs();
        self.forget_job(job);
    }

    /// Removes no blob from now on: another leader may need any of them.
    pub(super) fn leave_blobs(&mut self) {
        self.superseded = true;
        self.deps.in_use.set(None);
    }

    fn forget_job(&mut self, job: JobId) {
        if let Some(known) = self.jobs.remove(&job) {
            actix::spawn(known.runner.stop());
        }
        self.say_needed_by(job);
    }

    /// Keeps the host of a job that collected its result for a while; releases any other host.
    fn release_or_keep_host(&mut self, job: JobId) {
        let finished = self.jobs.get(&job).is_some_and(|job| {
            job.end.borrow().as_ref().is_some_and(|end| end.status == model::JobStatus::Finished)
        });
        let graph = self.jobs.get(&job).map(|job| &job.graph);
        if !finished || !graph.is_some_and(|graph| collects(graph)) {
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

    /// Starts the time again for which a finished job's collected results are served.
    pub(super) fn keep_collected(&mut self, job: JobId) {
        let until = self.deps.services.platform.now() + COLLECT_FOR;
        self.deps.hosts().tell(ServeCollected { job_id: job });
        self.collected.insert(job, until);
    }

    /// Ends hosts that are not needed any more.
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

    /// Goes on after an attempt to store the details of an ended job: the object's name and its size in bytes.
    fn details_stored(
        &mut self,
        job: JobId,
        outcome: Result<(String, u64), StoreError>,
        ctx: &mut Context<Self>,
    ) {
        let Some(ending) = self.endings.get_mut(&job) else { return };
        let _entered = ending.trace.enter();
        match outcome {
            Ok(object) => ending.entry.details = Some(object),
            Err(error) => tracing::warn!(%job, %error, "cannot store the details of the ended job"),
        }
        let next = self.step_done(job);
        self.do_steps(job, next, ctx);
    }

    /// Goes on after an attempt to record a job's result in its log.
    fn result_recorded(
        &mut self,
        job: JobId,
        outcome: Result<LogEnd, AppendError>,
        ctx: &mut Context<Self>,
    ) {
        let Some(ending) = self.endings.get(&job) else { return };
        let _entered = ending.trace.enter();
        match outcome {
            Ok(log_end) => {
                let entry = ending.entry.clone();
                if let Some(known) = self.jobs.get(&job) {
                    known.end.send_replace(Some(entry.clone()));
                }
                let next = self.step_done(job);
                self.remember(Ended { entry, log_end }, ctx);
                self.do_steps(job, next, ctx);
            }
            Err(error @ (AppendError::Store(_) | AppendError::Encode { .. })) => {
                let Some(pause) = self.table.record_failed(job) else { return };
                tracing::error!(%job, %error, retry_after = ?pause, "cannot record the job's result");
                ctx.run_later(pause, move |actor, ctx| actor.record_result(job, ctx));
            }
            Err(error) => {
                tracing::warn!(%job, %error, "this leader must not record the end of the job");
                self.endings.remove(&job);
                self.give_up(job);
            }
        }
    }
}

/// Returns true if a client may read the job's result from a coordinator.
fn collects(graph: &JobGraph) -> bool {
    graph.nodes.iter().any(|node| node.coordinated && node.kind.contains("collect"))
}
