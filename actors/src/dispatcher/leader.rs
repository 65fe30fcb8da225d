//! The Dispatcher of one leadership: recovers the jobs of an earlier one and runs jobs until it is stopped.

use super::ended::Ended;
use super::ending::Ending;
use super::needs::RestoredFrom;
use super::{ClusterMode, DispatcherDeps, ENDPOINT};
use crate::job_manager_runner::JobManagerRunner;
use crate::probe::Fact;
use crate::services::{Running, Stop};
use crate::turns::takes_steps;
use actix::fut::ActorFutureExt;
use actix::{
    Actor, ActorContext, AsyncContext, Context, Handler, ResponseActFuture, SpawnHandle, WrapFuture,
};
use control::dispatcher::{AttachedClients, JobTable, Mode, Operations, Retention};
use gateways::Remote;
use gateways::dispatcher::DispatcherGateway;
use gateways::job_services::JobManagerRunnerGateway;
use gateways::leader_election::Component;
use model::{ContentHash, DispatcherId, Fence, JobGraph, JobId};
use platform::watch;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::jobs::{DetailsStore, JobLogs, JobResultEntry, OpenJobLog, Writer};

/// Shortest and longest interval between two checks for ended jobs that are to be forgotten: a quarter of their time.
const EXPIRY_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Maximum size of the details of all ended jobs together, in bytes.
pub(super) const DETAILS_BYTES_MAX: u64 = 64 << 20;

/// A job that runs or whose end steps are being done.
pub(super) struct Job {
    pub(super) graph: Arc<JobGraph>,
    /// The job's log, which its JobMaster appends to as well.
    pub(super) log: OpenJobLog,
    pub(super) submitted_ms: u64,
    /// The snapshot that the job was told to start from; it reads it until it has a checkpoint of its own.
    pub(super) restored_from: Option<RestoredFrom>,
    /// The directory of the job's checkpoints, as its JobMaster has it; `None` if the JobManager keeps the state.
    pub(super) checkpoint_directory: Option<String>,
    pub(super) runner: Running<JobManagerRunner>,
    pub(super) gateway: Remote<JobManagerRunnerGateway>,
    /// The recorded end of the job; `None` until it is recorded.
    pub(super) end: watch::Sender<Option<JobResultEntry>>,
}

/// A job whose graph is being built by a child process.
pub(super) struct Building {
    pub(super) program: ContentHash,
    /// The job's own options, and the cluster's with these applied over them.
    pub(super) options: (BTreeMap<String, String>, conf::Options),
}

/// The actor of a Dispatcher in one leadership: recovers the jobs that an earlier leader left in the store, in the background, and
/// accepts, stores, runs and cancels jobs and records their results. New jobs are accepted while it recovers. The leader shell starts the
/// Dispatcher when it gets the leadership and stops it when the leadership ends; the Dispatcher then suspends its jobs, which stay in the
/// store for the next leader. A stored job that can't be read or run again is failed; one that another leader has taken over is left alone.
#[derive(derive_more::Debug)]
#[debug("Dispatcher({}, {} jobs)", self.session, self.jobs.len())]
pub struct Dispatcher {
    pub(super) deps: DispatcherDeps,
    pub(super) session: DispatcherId,
    pub(super) table: JobTable,
    pub(super) logs: JobLogs,
    pub(super) details: DetailsStore,
    /// The identity with which this Dispatcher writes records.
    pub(super) writer: Writer,
    /// The number of logs that this Dispatcher has begun.
    pub(super) logs_created: u64,
    /// Jobs whose graph is being stored, with the time of their submission in Unix milliseconds.
    pub(super) persisting: BTreeMap<JobId, (Arc<JobGraph>, u64)>,
    /// Programs of jobs that are not known to run although their graphs may be stored: an earlier leader stored the graph,
    /// and its log is being read, or the storage failed. The next leader may run them.
    pub(super) unsettled: BTreeMap<JobId, ContentHash>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Jobs whose end steps are being done.
    pub(super) endings: BTreeMap<JobId, Ending>,
    /// Ended jobs that the Dispatcher remembers.
    pub(super) ended: BTreeMap<JobId, Ended>,
    /// Ended jobs that are to be forgotten; `deleting` is true while one of them is being deleted.
    pub(super) leaving: VecDeque<JobId>,
    pub(super) deleting: bool,
    /// Programs of jobs whose graph is being built.
    pub(super) building: BTreeMap<JobId, Building>,
    /// Ended jobs whose host still serves collected results, each with the time until when (monotonic).
    pub(super) collected: BTreeMap<JobId, Duration>,
    /// Jobs that are bound to their clients, and the timer of the next that may be deserted.
    pub(super) clients: AttachedClients,
    pub(super) client_timer: Option<SpawnHandle>,
    /// True if a bound client has last been seen to be gone.
    pub(super) client_gone: bool,
    pub(super) stopping: bool,
    /// Savepoints and disposals that clients have triggered.
    pub(super) operations: Operations,
    /// True once another leader was found to own a job: from then on that leader knows which blobs are needed.
    pub(super) superseded: bool,
}

/// Starts a Dispatcher on the calling lane and serves it.
pub(super) fn start(deps: DispatcherDeps, session: DispatcherId) -> Running<Dispatcher> {
    let (rpc, probe) = (deps.services.rpc.clone(), deps.services.probe.clone());
    let mode = match &deps.mode {
        ClusterMode::Session => Mode::Session,
        ClusterMode::Application(_) => Mode::Application,
        ClusterMode::PerJob(_) => Mode::PerJob,
    };
    let platform = deps.services.platform.clone();
    if let Some(durable) = &deps.durable {
        durable.lead(session.session());
    }
    let dispatcher = Dispatcher {
        session,
        table: JobTable::new(mode, retention(&deps.services.options)),
        logs: JobLogs::new(deps.objects.clone(), platform, deps.lease.clone()),
        details: DetailsStore::new(deps.details.clone()),
        writer: Writer { session: session.session(), address: rpc.node().to_string() },
        logs_created: 0,
        deps,
        persisting: BTreeMap::new(),
        unsettled: BTreeMap::new(),
        jobs: BTreeMap::new(),
        endings: BTreeMap::new(),
        ended: BTreeMap::new(),
        leaving: VecDeque::new(),
        deleting: false,
        building: BTreeMap::new(),
        collected: BTreeMap::new(),
        clients: AttachedClients::default(),
        client_timer: None,
        client_gone: false,
        stopping: false,
        operations: Operations::default(),
        superseded: false,
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

/// Returns the limits from the options `jobstore.*`.
fn retention(options: &conf::Options) -> Retention {
    let age: Duration = options.get(&conf::jobmanager::STORE_EXPIRATION);
    Retention {
        jobs_max: options.get(&conf::jobmanager::STORE_CAPACITY) as usize,
        details_bytes_max: DETAILS_BYTES_MAX,
        age_ms_max: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
    }
}

impl Actor for Dispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.set_mailbox_capacity(gateways::MAILBOX_CAPACITY);
        let marker = self.deps.services.turn_marker(ENDPOINT);
        marker.tick(ctx, self.deps.services.heartbeat.limits().interval);
        tracing::info!(session = %self.session, mode = self.table.mode().as_str(), "Dispatcher started");
        self.recover(ctx);
        let age: Duration = self.deps.services.options.get(&conf::jobmanager::STORE_EXPIRATION);
        let (shortest, longest) = EXPIRY_INTERVAL;
        ctx.run_interval((age / 4).clamp(shortest, longest), |actor, ctx| {
            actor.forget_old_jobs(ctx);
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
        // From here on another process may be the one that knows which blobs are needed.
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

takes_steps!(Dispatcher);
