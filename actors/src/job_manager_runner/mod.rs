//! The runner of one job at its Dispatcher: runs a JobMaster for the job while the Dispatcher leads, and delivers the
//! job's end. It is the job's leader shell.
//!
//! A job is led by the process that leads its Dispatcher: the session of a JobMaster follows from the Dispatcher's, and
//! its address is published only while the Dispatcher's is. The runner must never decide anything about the job itself.

#[cfg(test)]
mod tests;

use crate::job_master::{self, JobMaster, JobMasterDeps};
use crate::leader_retrieval::LeaderTable;
use crate::leader_shell::{Death, LeaderShell, Led};
use crate::probe::Fact;
use crate::services::{ConfirmError, Contention, Leadership, ProcessServices, Running};
use actix::{Actor, Context, Handler, Recipient};
use control::leadership::job_session;
use futures::future::BoxFuture;
use gateways::job_master::{JobDetails, RequestStatus};
use gateways::job_services::{
    JobManagerRunnerGateway, JobMasterAddress, JobReachedTerminalState, ProgramHostsGateway,
    RequestJobMaster,
};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Answer, Ask, Remote, TraceContext};
use model::{BlobKey, DispatcherId, Fence, JobGraph, JobId, JobMasterId, LeaderSession};
use std::sync::Arc;
use storage::jobs::OpenJobLog;
use tokio::sync::oneshot;

/// Returns the endpoint name under which the runner of a job is served in its Dispatcher's process:
/// `job_manager_runner/<job id>`.
pub fn endpoint_name(job: JobId) -> String {
    format!("job_manager_runner/{job}")
}

/// Number of JobMasters of one job that die of a panic before the process ends.
const DEATHS_MAX: u8 = 3;

/// The dependencies of a job's runner and of the JobMasters that it starts, which the Dispatcher makes: services, the job's graph,
/// options, program and log, the time when it began to run here, the Dispatcher's session, and the table in which JobMasters are published.
#[derive(Clone, derive_more::Debug)]
#[debug("RunnerDeps({})", self.graph.job_id)]
pub struct RunnerDeps {
    /// Services of the process: platform, RPC, options, heartbeats, leader retrieval, metrics and others.
    pub services: ProcessServices,
    /// Table in which the runner publishes the address of the job's JobMaster; visible only while the Dispatcher leads.
    pub leaders: LeaderTable,
    /// Session of the Dispatcher that started the runner; the runner's endpoint is fenced by it.
    pub dispatcher: DispatcherId,
    /// The job graph to run; it passed the Dispatcher's check (`control::job_graph::check`).
    pub graph: Arc<JobGraph>,
    /// The cluster's options with the job's own applied over them; without these if the job is recovered and they are no longer valid.
    pub options: conf::Options,
    /// Time in Unix milliseconds at which the Dispatcher began to run the job, after its submission or recovery; users are
    /// shown it as the job's start.
    pub submitted_ms: u64,
    /// The trace of the request that submitted the job, under which the job's spans are; none for a job that was
    /// recovered.
    pub trace: TraceContext,
    /// Gateway of this process's keeper of program hosts, which starts the host of the job's coordinators.
    pub hosts: Remote<ProgramHostsGateway>,
    /// The job's log in the store, to which its JobMaster appends checkpoints.
    pub log: OpenJobLog,
    /// Blob of the program, which program hosts fetch and run; `None` in an embedded cluster, whose only process is the
    /// program. Passed to the JobMaster.
    pub program: Option<BlobKey>,
    /// True if the program may use relative paths, as only in an embedded cluster. Passed to the JobMaster.
    pub embedded: bool,
}

/// The runner of a job: the leader shell that runs the job's JobMaster while the Dispatcher leads. Stopping it stops
/// the JobMaster, which suspends the job but does not end it; if the job's end is recorded in its log, the JobMaster deletes its
/// checkpoints before, except those that are to be kept.
pub type JobManagerRunner = LeaderShell<JobLeader>;

/// A running runner of a job, and the receiver of the job's end; the result of [`start`].
#[derive(Debug)]
pub struct StartedRunner {
    /// Handle of the runner: stopping or dropping it stops the runner.
    pub running: Running<JobManagerRunner>,
    /// Receiver of all details of the job, and of the trace in which the job has ended; sent once when the job has ended (finished,
    /// failed or cancelled); an error if the runner was stopped or dropped before.
    pub end: oneshot::Receiver<(Box<JobDetails>, TraceContext)>,
}

/// Starts the runner of a job on the calling lane and serves it as the job's [`endpoint_name`]. The runner starts a
/// JobMaster; if that dies of a panic it starts another one, unless the job has ended, and at the third death the process ends. It
/// runs until [`StartedRunner::running`] is stopped or dropped; if it dies itself before, the process ends.
pub fn start(deps: RunnerDeps) -> StartedRunner {
    let rpc = deps.services.rpc.clone();
    let (platform, fatal) = (deps.services.platform.clone(), deps.services.fatal.clone());
    let name = endpoint_name(deps.graph.job_id);
    let fence = deps.dispatcher;
    let (told, end) = oneshot::channel();
    let addr = LeaderShell::create(|ctx| {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        LeaderShell::new(JobLeader { deps, end: Some(told), deaths: 0 })
    });
    let endpoint = JobManagerRunnerGateway::endpoint(addr.clone());
    let registration = rpc.serve(name.clone(), fence, endpoint);
    let running = Running::new(rpc.address_of(&name), addr, registration);
    StartedRunner { running: running.guarded(&platform, &fatal), end }
}

/// A job's part of its leader shell (its runner): grants the JobMaster leadership at once, publishes its address, and
/// delivers the job's end to the Dispatcher.
#[derive(derive_more::Debug)]
#[debug("JobLeader({})", self.job_id())]
pub struct JobLeader {
    deps: RunnerDeps,
    /// The channel for the job's end; `None` once the end was sent.
    end: Option<oneshot::Sender<(Box<JobDetails>, TraceContext)>>,
    /// Number of JobMasters that died of a panic.
    deaths: u8,
}

impl JobLeader {
    fn job_id(&self) -> JobId {
        self.deps.graph.job_id
    }
}

impl Led for JobLeader {
    type Leader = JobMaster;
    type Probe = RequestStatus;

    fn component(&self) -> Component {
        Component::JobMaster(self.job_id())
    }

    fn services(&self) -> &ProcessServices {
        &self.deps.services
    }

    fn trace(&self) -> TraceContext {
        self.deps.trace
    }

    /// Grants leadership at once: the runner lives only while its Dispatcher leads.
    fn contend(&self, shell: Recipient<Leadership>) -> Contention {
        let (job, component) = (self.job_id(), self.component());
        let session = job_session(self.deps.dispatcher, job, self.deaths).session();
        let (leaders, probe) = (self.deps.leaders.clone(), self.deps.services.probe.clone());
        probe.note(Fact::LeadershipGranted { component, session });
        actix::spawn(async move {
            // An error means that the shell has ended.
            let _ = shell.send(Leadership::Granted(session)).await;
        });
        Contention::new(move || {
            leaders.remove_job(job, session);
            probe.note(Fact::LeadershipRevoked { component, session });
        })
    }

    fn confirm(&self, leader: LeaderInformation) -> BoxFuture<'static, Result<(), ConfirmError>> {
        let component = self.component();
        self.deps.services.probe.note(Fact::LeaderPublished { component, leader: leader.clone() });
        self.deps.leaders.add_job(self.deps.dispatcher, self.job_id(), leader);
        Box::pin(std::future::ready(Ok(())))
    }

    fn start(&self, session: LeaderSession) -> BoxFuture<'static, Running<JobMaster>> {
        let RunnerDeps {
            services,
            dispatcher,
            graph,
            options,
            submitted_ms,
            trace,
            hosts,
            log,
            ..
        } = self.deps.clone();
        let runner = services.rpc.address_of(&endpoint_name(graph.job_id));
        let deps = JobMasterDeps {
            runner: services.rpc.gateway(&runner, dispatcher),
            services,
            graph,
            options,
            session: JobMasterId::from_session(session),
            submitted_ms,
            trace,
            hosts,
            log,
            program: self.deps.program,
            embedded: self.deps.embedded,
        };
        Box::pin(async move { job_master::start(deps) })
    }

    fn probe(&self) -> RequestStatus {
        RequestStatus {}
    }

    fn release(&self, session: LeaderSession) -> BoxFuture<'static, ()> {
        let (component, probe) = (self.component(), self.deps.services.probe.clone());
        Box::pin(async move { probe.note(Fact::LeadershipEnded { component, session }) })
    }

    /// Restarts the job under a new session, because a JobMaster that panicked has left nothing that could continue;
    /// does nothing if the job had ended. After `DEATHS_MAX` deaths the process ends, so that people notice the fault.
    fn died(&mut self, _: LeaderSession) -> Death {
        self.deaths = self.deaths.saturating_add(1);
        if self.deaths >= DEATHS_MAX {
            let cause = format!("its actor died {} times, see the panics above", self.deaths);
            return Death::EndProcess(cause);
        }
        if self.end.is_some() { Death::LeadAgain } else { Death::Ignore }
    }
}

impl Handler<Ask<RequestJobMaster>> for JobManagerRunner {
    type Result = Answer<RequestJobMaster>;

    fn handle(&mut self, _: Ask<RequestJobMaster>, _: &mut Context<Self>) -> Self::Result {
        let leader = self.leading().and_then(|(session, running)| Some((session, running?)));
        Ok(leader.map(|(session, running)| JobMasterAddress {
            address: running.address().clone(),
            job_master_id: JobMasterId::from_session(session),
        }))
    }
}

impl Handler<Ask<JobReachedTerminalState>> for JobManagerRunner {
    type Result = Answer<JobReachedTerminalState>;

    fn handle(&mut self, ask: Ask<JobReachedTerminalState>, _: &mut Context<Self>) -> Self::Result {
        let _entered = ask.caller.trace.enter();
        let JobReachedTerminalState { job_master_id, details, status } = ask.body;
        let leads = self.leading().map(|(session, _)| session);
        let job = self.led().job_id();
        if leads != Some(job_master_id.session()) {
            tracing::warn!(%job, %job_master_id, "ignored a job end reported by an old JobMaster");
            return Ok(());
        }
        tracing::info!(%job, %status, "the job has ended");
        if let Some(end) = self.led().end.take() {
            let _ = end.send((details, ask.caller.trace));
        }
        Ok(())
    }
}
