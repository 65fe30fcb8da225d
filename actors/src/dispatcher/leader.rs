//! The Dispatcher of one leadership: recovers what an earlier one left, runs jobs until it is stopped.

use super::{ClusterMode, DispatcherDeps, ENDPOINT};
use crate::job_manager_runner::JobManagerRunner;
use crate::probe::Fact;
use crate::services::{Running, Stop};
use actix::fut::ActorFutureExt;
use actix::{Actor, ActorContext, AsyncContext, Context, Handler, ResponseActFuture, WrapFuture};
use control::dispatcher::{JobTable, Mode};
use gateways::Remote;
use gateways::dispatcher::{DispatcherGateway, JobResult};
use gateways::job_services::JobManagerRunnerGateway;
use gateways::leader_election::Component;
use model::{ContentHash, DispatcherId, Fence, JobGraph, JobId};
use platform::watch;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How often archived jobs are looked through for old ones.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// A job that runs or is being put in order.
pub(super) struct Job {
    pub(super) graph: Arc<JobGraph>,
    pub(super) submitted_ms: u64,
    pub(super) runner: Running<JobManagerRunner>,
    pub(super) gateway: Remote<JobManagerRunnerGateway>,
    /// How it ended, once that was recorded.
    pub(super) result: watch::Sender<Option<JobResult>>,
}

/// The actor.
pub struct Dispatcher {
    pub(super) deps: DispatcherDeps,
    pub(super) session: DispatcherId,
    pub(super) table: JobTable,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Programs of jobs whose graph is being built.
    pub(super) building: BTreeMap<JobId, ContentHash>,
    /// Ended jobs whose host still serves what was collected, and until when (monotonic).
    pub(super) collected: BTreeMap<JobId, Duration>,
    pub(super) stopping: bool,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dispatcher({}, {} jobs)", self.session, self.jobs.len())
    }
}

/// Starts a Dispatcher on the calling lane and serves it.
pub(super) fn start(deps: DispatcherDeps, session: DispatcherId) -> Running<Dispatcher> {
    let (rpc, probe) = (deps.services.rpc.clone(), deps.services.probe.clone());
    let mode = match &deps.mode {
        ClusterMode::Session => Mode::Session,
        ClusterMode::Application(_) => Mode::Application,
        ClusterMode::PerJob(_) => Mode::PerJob,
    };
    let dispatcher = Dispatcher {
        deps,
        session,
        table: JobTable::new(mode),
        jobs: BTreeMap::new(),
        building: BTreeMap::new(),
        collected: BTreeMap::new(),
        stopping: false,
    };
    let addr = dispatcher.start();
    let endpoint = DispatcherGateway::endpoint(addr.clone());
    let registration = rpc.serve(ENDPOINT, session, endpoint);
    probe.note(Fact::ComponentAnswers {
        component: Component::Dispatcher,
        session: session.session(),
    });
    Running::new(rpc.address_of(ENDPOINT), addr, registration)
}

impl Actor for Dispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        let marker = self.deps.services.turn_marker(ENDPOINT);
        marker.tick(ctx, self.deps.services.heartbeat.limits().interval);
        tracing::info!(session = %self.session, mode = self.table.mode().as_str(), "Dispatcher started");
        if let Err(error) = self.recover(ctx) {
            self.deps
                .services
                .fatal
                .report("Dispatcher", format!("jobs can't be recovered: {error}"));
            return;
        }
        self.run_own_job(ctx);
        self.say_needed();
        ctx.run_interval(EXPIRY_INTERVAL, |actor, _| {
            let now_ms = actor.deps.services.platform.unix_millis();
            actor.deps.archive.lock().expire(now_ms);
            actor.release_collected();
        });
    }
}

/// Stops the runners of all jobs (their JobMasters suspend them), then the Dispatcher.
impl Handler<Stop> for Dispatcher {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _: Stop, _: &mut Context<Self>) -> Self::Result {
        self.table.close();
        self.stopping = true;
        // From here on another process may know better.
        self.deps.in_use.set(None);
        let jobs = std::mem::take(&mut self.jobs);
        let stops: Vec<_> = jobs.into_values().map(|job| job.runner.stop()).collect();
        let all = futures::future::join_all(stops).into_actor(self);
        Box::pin(all.map(|_, actor, ctx| {
            tracing::info!(session = %actor.session, "Dispatcher stopped");
            ctx.stop();
        }))
    }
}
