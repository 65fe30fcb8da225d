//! The services that every process has below its components: heartbeats, metrics, values that all components get.

use crate::stacks;
use actors::heartbeat::{self, HeartbeatActor, HeartbeatDeps, StackLogger};
use actors::metric_query::{self, MetricQueryHandle};
use actors::probe::{NoProbe, Probe};
use actors::services::{
    FatalErrorHandler, HeartbeatHandle, LeaderRetrieval, ProcessServices, Running,
};
use conf::Options;
use control::liveness::Limits;
use control::mutation::Mutation;
use gateways::RpcService;
use metrics::Registry;
use model::{Epoch, LeaderSession, ProcessSession, ResourceId};
use platform::{Lane, LaneEnded, Platform};
use std::sync::Arc;
use thiserror::Error;

/// Errors of starting a component of a process, which then cannot start: a thread of actors that gave no answer, or, in a JobManager, the
/// REST endpoint's folder or server. Nothing is tried again; components that were started before are dropped.
#[derive(Debug, Error)]
pub enum ComponentError {
    /// The lane (a thread for actors) on which the component was to be started gave no answer: the lane has ended,
    /// because the process is ending, or the start itself panicked there.
    #[error("{component} could not be started: {source}")]
    Lane {
        /// Name of the component concerned.
        component: &'static str,
        /// Reason of the lane's end.
        source: LaneEnded,
    },
    /// The REST endpoint's folder of uploaded programs could not be made, or its server could not be set up on the bound port.
    #[error("{component} could not be started: {why}")]
    Storage {
        /// Name of the component concerned.
        component: &'static str,
        /// Message of the system; it names the folder if that is at fault.
        why: String,
    },
    /// The options contradict each other; the text says which and how. No component reports this at present.
    #[error("{0}")]
    Options(String),
}

/// The parts from which [`Base::start`] makes the services (heartbeats, metrics) that every process of a cluster has. The process's
/// entrypoint makes them by [`BaseParts::new`], once its RPC service runs.
#[derive(Clone)]
pub struct BaseParts {
    /// The process's clock, threads, random numbers and sockets.
    pub platform: Platform,
    /// RPC service of the process, on which its endpoints are served and by which it calls others.
    pub rpc: RpcService,
    /// The effective options of the process: file, environment and command line together.
    pub options: Arc<Options>,
    /// Id of this process (a JobManager or TaskManager) as a resource of the cluster.
    pub resource_id: ResourceId,
    /// Session of the process, new with each start; endpoints of the process refuse calls that name another
    /// one.
    pub session: ProcessSession,
    /// This host's name, as other processes and users see it.
    pub host: String,
    /// Receiver of errors that the process cannot survive. It logs each and keeps the first; the process's
    /// main loop waits for that one and ends the process.
    pub fatal: FatalErrorHandler,
    /// Observer of what components do, for the simulation's checks; elsewhere one that does nothing.
    pub probe: Arc<dyn Probe>,
    /// A rule that components break on purpose, to test the simulation's checks; [`Mutation::None`] outside
    /// of the simulation.
    pub mutation: Mutation,
}

impl BaseParts {
    /// Makes the parts for a process that starts now, with a new session and a new receiver of fatal errors, and with
    /// an observer and a mutation that do nothing, as outside of the simulation. `host` is this host's name as others
    /// see it. Starts nothing.
    pub fn new(
        platform: Platform,
        rpc: RpcService,
        options: Arc<Options>,
        resource_id: ResourceId,
        host: String,
    ) -> Self {
        let session = process_session(&platform);
        Self {
            platform,
            rpc,
            options,
            resource_id,
            session,
            host,
            fatal: FatalErrorHandler::default(),
            probe: Arc::new(NoProbe),
            mutation: Mutation::None,
        }
    }
}

/// Returns a session for a process that starts now, which endpoints of the process are fenced by: its epoch is the Unix
/// time in milliseconds, so that later starts are higher (if the clock is not put back), with a random nonce. Each call returns another
/// session; each program host gets one, too.
pub fn process_session(platform: &Platform) -> ProcessSession {
    ProcessSession(LeaderSession {
        epoch: Epoch { store: platform.unix_millis(), process: 1 },
        nonce: platform.random_u64(),
    })
}

/// The running services that every process of a cluster has below its components: heartbeats and metrics.
/// [`Base::stop`] ends them.
#[derive(Debug)]
pub struct Base {
    /// The services that the process's components share: platform, RPC, options, heartbeats, leader retrieval
    /// and metrics.
    pub services: ProcessServices,
    heartbeat: Running<HeartbeatActor>,
    metrics: MetricQueryHandle,
}

impl Base {
    /// Starts the heartbeat and metric services; `retrieval` becomes the components' source of leaders. Sends no
    /// heartbeats by itself: the components name the peers that get them. From then on an actor of the process that is stuck for longer
    /// than `heartbeat.stuck-after` is reported to `parts.fatal`, after the stacks of all threads were logged (once).
    ///
    /// # Errors
    /// Returns [`ComponentError::Lane`] if a lane (thread of actors) has ended, because the process is ending, or a
    /// start panicked there.
    pub async fn start(
        parts: BaseParts,
        retrieval: Arc<dyn LeaderRetrieval>,
    ) -> Result<Self, ComponentError> {
        let limits = Limits {
            interval: parts.options.get(&conf::heartbeat::INTERVAL),
            timeout: parts.options.get(&conf::heartbeat::TIMEOUT),
            stuck_after: parts.options.get(&conf::heartbeat::STUCK_AFTER),
        };
        let handle = HeartbeatHandle::new(parts.platform.clone(), limits);
        let deps = HeartbeatDeps {
            platform: parts.platform.clone(),
            rpc: parts.rpc.clone(),
            session: parts.session,
            fatal: parts.fatal.clone(),
            // Real threads have no part in a simulated process.
            stacks: (!parts.platform.is_simulated()).then(|| Arc::new(stacks::log) as StackLogger),
        };
        let heartbeat = heartbeat::start(&handle, deps).await.map_err(lane("heartbeat"))?;
        let services = ProcessServices {
            platform: parts.platform,
            rpc: parts.rpc,
            options: parts.options,
            resource_id: parts.resource_id,
            session: parts.session,
            heartbeat: handle,
            retrieval,
            fatal: parts.fatal,
            metrics: Arc::new(Registry::default()),
            host: parts.host,
            mutation: parts.mutation,
            probe: parts.probe,
        };
        let given = services.clone();
        let metrics = services
            .platform
            .lane(Lane::Work)
            .run(move || async move { metric_query::start(&given) })
            .await
            .map_err(lane("metric_query"))?;
        Ok(Self { services, heartbeat, metrics })
    }

    /// Stops the metric service at once, then the heartbeat service, and returns when the latter has ended. Must be
    /// called after the components that use them have stopped. Afterwards stuck actors are not noticed any more.
    pub async fn stop(self) {
        drop(self.metrics);
        self.heartbeat.stop().await;
    }
}

/// Makes a converter for `map_err` that names the component.
pub(super) fn lane(component: &'static str) -> impl Fn(LaneEnded) -> ComponentError {
    move |source| ComponentError::Lane { component, source }
}
