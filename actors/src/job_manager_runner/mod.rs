//! The runner of one job at its Dispatcher: stands for election as the job's leader, has a JobMaster for
//! as long as it leads, and hands over how the job ended.
//!
//! A JobMaster is started only after the one before it has ended, its leadership confirmed only after it
//! answers and only if it still leads. The runner must never decide anything about the job itself.

#[cfg(test)]
mod tests;

use crate::hand_over::Waiting;
use crate::job_master::{self, JobMaster, JobMasterDeps};
use crate::services::{
    ConfirmError, Contention, LeaderElection, Leadership, ProcessServices, Running, Stop,
};
use actix::{Actor, ActorContext, AsyncContext, Context, Handler, ResponseFuture};
use control::leader_process::{HandOver, Order};
use gateways::job_master::{JobDetails, JobMasterGateway, RequestStatus};
use gateways::job_services::{
    JobManagerRunnerGateway, JobMasterAddress, JobReachedTerminalState, ProgramHostsGateway,
    RequestJobMaster,
};
use gateways::leader_election::{Component, LeaderInformation};
use gateways::{Answer, Ask, Remote};
use model::{BlobKey, DispatcherId, Fence, JobGraph, JobId, JobMasterId, LeaderSession};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The name that the runner of a job is served under.
pub fn endpoint_name(job: JobId) -> String {
    format!("job_manager_runner/{job}")
}

/// How often a JobMaster is looked after: one that died of a panic is replaced under a new leadership.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// JobMasters that may die of a panic before the process is given up.
const DEATHS_MAX: u32 = 3;

/// What a runner is made with.
#[derive(Clone)]
pub struct RunnerDeps {
    /// The process.
    pub services: ProcessServices,
    /// Where it stands for election.
    pub election: Arc<dyn LeaderElection>,
    /// The Dispatcher that it belongs to.
    pub dispatcher: DispatcherId,
    /// The job; it passed `control::job_graph::check`.
    pub graph: Arc<JobGraph>,
    /// Unix milliseconds of the submission.
    pub submitted_ms: u64,
    /// The keeper of program hosts.
    pub hosts: Remote<ProgramHostsGateway>,
    /// As in [`JobMasterDeps`].
    pub program: Option<BlobKey>,
    /// As in [`JobMasterDeps`].
    pub embedded: bool,
}

impl fmt::Debug for RunnerDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunnerDeps({})", self.graph.job_id)
    }
}

/// A running runner, and how its job ends. The end never comes where the runner is stopped before.
#[derive(Debug)]
pub struct StartedRunner {
    /// The runner.
    pub running: Running<JobManagerRunner>,
    /// Everything about the job, once it has ended for good.
    pub end: oneshot::Receiver<Box<JobDetails>>,
}

/// Starts a runner on the calling lane and serves it.
pub fn start(deps: RunnerDeps) -> StartedRunner {
    let rpc = deps.services.rpc.clone();
    let (platform, fatal) = (deps.services.platform.clone(), deps.services.fatal.clone());
    let name = endpoint_name(deps.graph.job_id);
    let fence = deps.dispatcher;
    let (told, end) = oneshot::channel();
    let addr = JobManagerRunner::new(deps, told).start();
    let endpoint = JobManagerRunnerGateway::endpoint(addr.clone());
    let registration = rpc.serve(name.clone(), fence, endpoint);
    let running = Running::new(rpc.address_of(&name), addr, registration);
    StartedRunner { running: running.guarded(&platform, &fatal), end }
}

struct Live {
    session: LeaderSession,
    running: Running<JobMaster>,
}

/// The actor.
pub struct JobManagerRunner {
    deps: RunnerDeps,
    hand_over: HandOver,
    live: Option<Live>,
    contention: Option<Contention>,
    end: Option<oneshot::Sender<Box<JobDetails>>>,
    waiting: Waiting,
    deaths: u32,
}

impl fmt::Debug for JobManagerRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobManagerRunner({})", self.job_id())
    }
}

impl JobManagerRunner {
    fn new(deps: RunnerDeps, end: oneshot::Sender<Box<JobDetails>>) -> Self {
        Self {
            deps,
            hand_over: HandOver::default(),
            live: None,
            contention: None,
            end: Some(end),
            waiting: Waiting::default(),
            deaths: 0,
        }
    }

    fn job_id(&self) -> JobId {
        self.deps.graph.job_id
    }

    fn contend(&mut self, ctx: &Context<Self>) {
        let component = Component::JobMaster(self.job_id());
        self.contention = Some(self.deps.election.contend(component, ctx.address().recipient()));
    }

    fn obey(&mut self, ctx: &mut Context<Self>) {
        for order in self.hand_over.take_orders() {
            match order {
                Order::Start(session) => self.start_job_master(session, ctx),
                Order::Stop(session) => self.stop_job_master(session, ctx),
                Order::Confirm(session) => self.confirm(session),
                Order::Revoked(session) => self.waiting.revoked(session),
                Order::Died(session) => self.job_master_died(session, ctx),
                Order::Closed => {
                    self.waiting.closed();
                    ctx.stop();
                }
            }
        }
    }

    fn start_job_master(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let services = &self.deps.services;
        let runner = services.rpc.address_of(&endpoint_name(self.job_id()));
        let running = job_master::start(JobMasterDeps {
            services: services.clone(),
            graph: self.deps.graph.clone(),
            session: JobMasterId::from_session(session),
            submitted_ms: self.deps.submitted_ms,
            hosts: self.deps.hosts.clone(),
            runner: services.rpc.gateway(&runner, self.deps.dispatcher),
            program: self.deps.program,
            embedded: self.deps.embedded,
        });
        let gateway: Remote<JobMasterGateway> =
            services.rpc.gateway(running.address(), JobMasterId::from_session(session));
        self.live = Some(Live { session, running });
        let addr = ctx.address();
        actix::spawn(async move {
            if gateway.ask(RequestStatus {}).await.is_ok() {
                let _ = addr.send(Answers(session)).await;
            }
        });
    }

    fn stop_job_master(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        let live = self.live.take_if(|live| live.session == session);
        let addr = ctx.address();
        actix::spawn(async move {
            if let Some(live) = live {
                live.running.stop().await;
            }
            let _ = addr.send(JobMasterEnded(session)).await;
        });
    }

    fn confirm(&self, session: LeaderSession) {
        let Some(live) = &self.live else { return };
        let component = Component::JobMaster(self.job_id());
        let leader = LeaderInformation { session, address: live.running.address().clone() };
        let confirmed = self.deps.election.confirm(component, leader);
        let job = self.job_id();
        actix::spawn(async move {
            match confirmed.await {
                Ok(()) => tracing::info!(%job, %session, "JobMaster leads"),
                // A revocation is on its way.
                Err(ConfirmError::NotLeader(_)) => {
                    tracing::info!(%job, %session, "JobMaster does not lead any more");
                }
                Err(error) => tracing::error!(%job, %error, "leadership was not confirmed"),
            }
        });
    }

    /// A JobMaster that panicked has left nothing that could go on: the job starts over under a new
    /// leadership. A job that kills its JobMaster again and again is a fault that people must see.
    fn job_master_died(&mut self, session: LeaderSession, ctx: &mut Context<Self>) {
        self.deaths += 1;
        let job = self.job_id();
        tracing::error!(%job, %session, deaths = self.deaths, "the JobMaster died");
        self.live = None;
        if self.deaths >= DEATHS_MAX {
            let cause = format!("its actor died {} times, see the panics above", self.deaths);
            self.deps.services.fatal.report(format!("JobMaster of job {job}"), cause);
            return;
        }
        self.contention = None;
        self.contend(ctx);
    }

    fn look_after(&mut self, ctx: &mut Context<Self>) {
        let dead = self.live.as_ref().filter(|live| !live.running.addr().connected());
        if let Some(session) = dead.map(|live| live.session) {
            self.hand_over.ended(session);
            self.obey(ctx);
        }
    }

    fn leader(&self) -> Option<JobMasterAddress> {
        let (session, answers) = self.hand_over.leading()?;
        let live = self.live.as_ref().filter(|live| live.session == session && answers)?;
        Some(JobMasterAddress {
            address: live.running.address().clone(),
            job_master_id: JobMasterId::from_session(session),
        })
    }
}

impl Actor for JobManagerRunner {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        self.contend(ctx);
        ctx.run_interval(LOOK_AFTER, Self::look_after);
    }
}

impl Handler<Leadership> for JobManagerRunner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, leadership: Leadership, ctx: &mut Context<Self>) -> Self::Result {
        match leadership {
            Leadership::Granted(session) => {
                self.hand_over.granted(session);
                self.obey(ctx);
                Box::pin(async {})
            }
            Leadership::Revoked(session) => {
                let wait = self.waiting.for_revocation(session);
                self.hand_over.revoked(session);
                self.obey(ctx);
                Box::pin(wait.over())
            }
        }
    }
}

/// Stops the JobMaster, then the runner: the job is suspended, not ended.
impl Handler<Stop> for JobManagerRunner {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Stop, ctx: &mut Context<Self>) -> Self::Result {
        let wait = self.waiting.for_close();
        self.contention = None;
        self.hand_over.close();
        self.obey(ctx);
        Box::pin(wait.over())
    }
}

/// The JobMaster of a session answers calls.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct Answers(LeaderSession);

impl Handler<Answers> for JobManagerRunner {
    type Result = ();
    fn handle(&mut self, Answers(session): Answers, ctx: &mut Context<Self>) {
        self.hand_over.answers(session);
        self.obey(ctx);
    }
}

/// The JobMaster of a session has taken its last turn.
#[derive(actix::Message)]
#[rtype(result = "()")]
struct JobMasterEnded(LeaderSession);

impl Handler<JobMasterEnded> for JobManagerRunner {
    type Result = ();
    fn handle(&mut self, JobMasterEnded(session): JobMasterEnded, ctx: &mut Context<Self>) {
        self.hand_over.ended(session);
        self.obey(ctx);
    }
}

impl Handler<Ask<RequestJobMaster>> for JobManagerRunner {
    type Result = Answer<RequestJobMaster>;

    fn handle(&mut self, _: Ask<RequestJobMaster>, _: &mut Context<Self>) -> Self::Result {
        Ok(self.leader())
    }
}

impl Handler<Ask<JobReachedTerminalState>> for JobManagerRunner {
    type Result = Answer<JobReachedTerminalState>;

    fn handle(&mut self, ask: Ask<JobReachedTerminalState>, _: &mut Context<Self>) -> Self::Result {
        let JobReachedTerminalState { job_master_id, details, status } = ask.body;
        let leads = self.hand_over.leading().map(|(session, _)| session);
        if leads != Some(job_master_id.session()) {
            tracing::warn!(job = %self.job_id(), %job_master_id, "the end of the job is told by one that does not lead");
            return Ok(());
        }
        tracing::info!(job = %self.job_id(), %status, "the job has ended");
        if let Some(end) = self.end.take() {
            let _ = end.send(details);
        }
        Ok(())
    }
}
