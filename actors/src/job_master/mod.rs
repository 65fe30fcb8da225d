//! The JobMaster of one job in one leadership: TaskExecutors register at it and offer slots, it
//! deploys and watches tasks, runs coordinators in the JobManager-side host, and declares to the
//! ResourceManager what the job needs. The decisions are made in `control::job_master`; this shell
//! turns messages into events and commands into calls.
//!
//! The JobMaster must never outlive its leadership, and never wait inside a turn.

mod calls;
mod checkpoints;
mod commands;
mod config;
mod coordinators;
mod fallback;
mod resource_manager;
mod restoring;
mod savepoints;
mod task_managers;
#[cfg(test)]
mod tests;

pub(crate) use savepoints::directory_of;

use crate::probe::Fact;
use crate::services::{ProcessServices, Running, Stop, TurnMarker};
use crate::stores::s3_settings;
use crate::turns::{Alarm, takes_steps};
use actix::fut::ActorFutureExt;
use actix::{Actor, ActorContext, Context, Handler, ResponseActFuture, WrapFuture};
use control::job_master::{JobCore, Now};
use control::restart::Repeats;
use coordinators::HostLink;
use gateways::heartbeat::Party;
use gateways::job_master::JobMasterGateway;
use gateways::job_services::{JobManagerRunnerGateway, ProgramHostsGateway, ReleaseHost};
use gateways::leader_election::Component;
use gateways::{Call, EndpointAddress, Remote, RpcService, TraceContext};
use model::{
    BlobKey, ClaimedSnapshot, FailureCause, Fence, JobGraph, JobId, JobMasterId, LeaderSession,
    ResourceId,
};
use resource_manager::ResourceManagerLink;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use storage::checkpoints::CheckpointDirectory;
use storage::jobs::OpenJobLog;
use storage::state_reader::StateReader;
use task_managers::TaskManagerLink;

/// Returns the endpoint name under which the JobMaster of a job is served in the JobManager's process:
/// `job_master/<job id>`.
pub fn endpoint_name(job: JobId) -> String {
    format!("job_master/{job}")
}

/// Longest the end of a JobMaster waits for the end of its program host.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// The dependencies of a JobMaster in one leadership, which the job's runner makes: services, the job's graph, options, program
/// and log, the session, and gateways of its runner and of the keeper of program hosts.
#[derive(Clone, derive_more::Debug)]
#[debug("JobMasterDeps({}, {})", self.graph.job_id, self.session)]
pub struct JobMasterDeps {
    /// Services of the process: platform, RPC, options, heartbeats, leader retrieval, metrics and others.
    pub services: ProcessServices,
    /// The job graph to run; it passed the Dispatcher's check (`control::job_graph::check`).
    pub graph: Arc<JobGraph>,
    /// The cluster's options with the job's own applied over them; without these if the job is recovered and they are no longer valid.
    pub options: conf::Options,
    /// Session of the leadership under which the JobMaster runs; its endpoint is fenced by it.
    pub session: JobMasterId,
    /// Time in Unix milliseconds at which the Dispatcher began to run the job, after its submission or recovery; users are
    /// shown it as the job's start.
    pub submitted_ms: u64,
    /// The trace of the request that submitted the job, in which the JobMaster works unless another request asks for something or ends
    /// the job; none for a recovered job.
    pub trace: TraceContext,
    /// Gateway of this process's keeper of program hosts (child processes that run the program), which starts the host
    /// of the job's coordinators.
    pub hosts: Remote<ProgramHostsGateway>,
    /// The job's log in the store, which records the checkpoints that are kept: read at the start, appended to at each
    /// checkpoint.
    pub log: OpenJobLog,
    /// Gateway of the job's runner (its leader shell at the Dispatcher), to which the JobMaster reports the job's end.
    pub runner: Remote<JobManagerRunnerGateway>,
    /// Blob of the program, which program hosts fetch and run (not where the process itself is that program); `None` in an embedded
    /// cluster, whose only process is the program.
    pub program: Option<BlobKey>,
    /// True if the program may use relative paths, as only in an embedded cluster.
    pub embedded: bool,
}

/// Starts a JobMaster on the calling lane and serves it as the job's [`endpoint_name`]. From its first turn on it reads
/// the job's last checkpoint and registers at the ResourceManager. Others learn its address only once the job's runner
/// has published it. Dropping the returned handle stops it: a job that has not ended is suspended for the next JobMaster, and of one
/// whose end is recorded in its log, the checkpoints are deleted that are not to be kept. The job's runner notices the actor's death by a
/// panic.
pub fn start(deps: JobMasterDeps) -> Running<JobMaster> {
    let (rpc, probe) = (deps.services.rpc.clone(), deps.services.probe.clone());
    let (job, session) = (deps.graph.job_id, deps.session);
    let name = endpoint_name(job);
    let job_master = JobMaster::new(deps);
    let trace = job_master.trace.clone();
    let actor = Context::new().into_future(job_master);
    let addr = actor.address();
    actix::spawn(TraceContext::carry_latest(trace, actor));
    let endpoint = JobMasterGateway::endpoint(addr.clone());
    let from_hosts = [gateways::job_master::CoordinatorFailed::NAME];
    let registration = rpc.serve_for_job(name.clone(), session, endpoint, job, &from_hosts);
    probe.note(Fact::ComponentAnswers {
        component: Component::JobMaster(job),
        session: session.session(),
    });
    Running::new(rpc.address_of(&name), addr, registration)
}

/// The actor of a job's JobMaster in one leadership: gets slots, deploys and restarts the job's tasks, and takes its checkpoints.
/// [`control::job_master::JobCore`] decides; the actor calls TaskExecutors, the ResourceManager and the job's coordinators.
#[derive(derive_more::Debug)]
#[debug("JobMaster({}, {})", self.job_id(), self.deps.session)]
pub struct JobMaster {
    deps: JobMasterDeps,
    core: JobCore,
    address: EndpointAddress,
    marker: TurnMarker,
    task_managers: BTreeMap<ResourceId, TaskManagerLink>,
    resource_manager: ResourceManagerLink,
    host: Option<HostLink>,
    /// The trace in which the JobMaster works: that of the submission, from a request on that ends the job that of this request.
    trace: Rc<Cell<TraceContext>>,
    /// Number of the last request, so that a late answer can be recognised.
    asked: u64,
    timer: Alarm,
    /// The job has ended, or was given up: nothing is begun any more.
    ended: bool,
    /// Directory of the job's checkpoints; `None` until the log was read.
    directory: Option<CheckpointDirectory>,
    /// The snapshot that the job was started from, until it is deleted; `None` if the job does not own it.
    claimed: Option<ClaimedSnapshot>,
    /// True once this JobMaster has begun to delete the claimed snapshot. If that fails, later
    /// checkpoints still name it, and the next JobMaster tries again.
    deletes_claimed: bool,
    /// Savepoints that were asked for, by the number of the request.
    savepoints: BTreeMap<u64, savepoints::Asked>,
    /// The failure that was logged last.
    repeats: Repeats,
}

impl JobMaster {
    fn new(deps: JobMasterDeps) -> Self {
        let services = &deps.services;
        let now = now(services);
        let name = endpoint_name(deps.graph.job_id);
        let config = config::job_config(&deps, services.platform.random_u64());
        let mut core = JobCore::new(deps.graph.clone(), config, now);
        if services.probe.watches_tasks() {
            core.watch_tasks();
        }
        Self {
            core,
            address: services.rpc.address_of(&name),
            marker: services.turn_marker(name),
            task_managers: BTreeMap::new(),
            resource_manager: ResourceManagerLink::default(),
            host: None,
            trace: Rc::new(Cell::new(deps.trace)),
            asked: 0,
            timer: Alarm::default(),
            ended: false,
            directory: None,
            claimed: None,
            deletes_claimed: false,
            savepoints: BTreeMap::new(),
            repeats: Repeats::default(),
            deps,
        }
    }

    fn job_id(&self) -> JobId {
        self.deps.graph.job_id
    }

    fn session(&self) -> LeaderSession {
        self.deps.session.session()
    }

    fn rpc(&self) -> &RpcService {
        &self.deps.services.rpc
    }

    /// Returns this JobMaster as one side of a heartbeat pair.
    fn party(&self) -> Party {
        Party::JobMaster { job_id: self.job_id(), session: self.session() }
    }

    fn now(&self) -> Now {
        now(&self.deps.services)
    }

    /// Returns a reader of the job's state.
    fn state_reader(&self) -> StateReader {
        let platform = self.deps.services.platform.clone();
        StateReader::new(self.directory.clone(), platform, s3_settings(&self.deps.options))
    }

    fn next_number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Ends a turn: carries out the core's commands and sets the timer for its next deadline.
    fn turn(&mut self, ctx: &mut Context<Self>) {
        self.note_tasks();
        let commands = self.core.take_commands();
        self.execute_all(commands, ctx);
        self.delete_claimed(ctx);
        let (due, now) = (self.core.next_deadline(), self.now().mono);
        self.timer.set(due, now, ctx, |actor, ctx| {
            actor.timer.clear();
            actor.core.tick(actor.now());
            actor.turn(ctx);
        });
    }

    fn note_tasks(&mut self) {
        let (session, job_id) = (self.session(), self.job_id());
        for (attempt, state) in self.core.take_task_changes() {
            let probe = &self.deps.services.probe;
            probe.note(Fact::TaskState { session, job_id, attempt, state });
        }
    }
}

fn now(services: &ProcessServices) -> Now {
    Now { mono: services.platform.now(), unix_ms: services.platform.unix_millis() }
}

impl Actor for JobMaster {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        self.marker.tick(ctx, self.deps.services.heartbeat.limits().interval);
        self.follow_resource_manager(ctx);
        self.read_checkpoint(ctx);
        tracing::info!(job = %self.job_id(), session = %self.deps.session, "JobMaster started");
    }
}

/// Gives the job up for another JobMaster. It has ended when the process of its coordinators is gone too:
/// the next one starts them in a process of its own.
impl Handler<Stop> for JobMaster {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: Stop, _: &mut Context<Self>) -> Self::Result {
        if self.ended {
            let cleaned = self.delete_checkpoints();
            return Box::pin(cleaned.into_actor(self).map(|(), _, ctx| ctx.stop()));
        }
        self.core.suspend(self.now());
        self.ended = true;
        let cause = FailureCause::recoverable(
            "JobMasterStopped",
            "the JobMaster gives the job up; another one takes it over",
        );
        self.disconnect_task_managers(&cause, false);
        self.leave_resource_manager(false);
        let (hosts, job_id) = (self.deps.hosts.clone(), self.job_id());
        let release = async move {
            let release = ReleaseHost { job_id, at_once: true };
            if let Err(error) = hosts.ask_within(release, RELEASE_WITHIN).await {
                tracing::warn!(job = %job_id, %error, "the job's program host was not released");
            }
        };
        Box::pin(release.into_actor(self).map(|(), actor, ctx| {
            tracing::info!(job = %actor.job_id(), session = %actor.deps.session, "JobMaster stopped");
            ctx.stop();
        }))
    }
}

takes_steps!(JobMaster);
