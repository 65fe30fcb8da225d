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

/// A component could not be started.
#[derive(Debug, Error)]
pub enum ComponentError {
    /// The component's lane has ended.
    #[error("{component} could not be started: {source}")]
    Lane {
        /// Name of the component concerned.
        component: &'static str,
        /// Reason of the lane's end.
        source: LaneEnded,
    },
    /// A store that the component needs could not be opened.
    #[error("{component} could not be started: {why}")]
    Storage {
        /// Name of the component concerned.
        component: &'static str,
        /// Message of the store.
        why: String,
    },
    /// The options do not fit together.
    #[error("{0}")]
    Options(String),
}

/// The parts from which a process's services are made.
#[derive(Clone)]
pub struct BaseParts {
    /// Source of time, threads, entropy and sockets.
    pub platform: Platform,
    /// RPC service of the process.
    pub rpc: RpcService,
    /// Options of the process.
    pub options: Arc<Options>,
    /// The process as a resource.
    pub resource_id: ResourceId,
    /// Session of the process, new with each start.
    pub session: ProcessSession,
    /// This host's name, as others see it.
    pub host: String,
    /// Receiver of fatal errors.
    pub fatal: FatalErrorHandler,
    /// Probe that watches facts; does nothing outside of the simulation.
    pub probe: Arc<dyn Probe>,
    /// A rule that is broken on purpose; none outside of the simulation.
    pub mutation: Mutation,
}

impl BaseParts {
    /// Makes the parts without a probe or a mutation.
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

/// Makes the session of a new process incarnation; later ones are higher.
pub fn process_session(platform: &Platform) -> ProcessSession {
    ProcessSession(LeaderSession {
        epoch: Epoch { store: platform.unix_millis(), process: 1 },
        nonce: platform.random_u64(),
    })
}

/// Heartbeats and metrics of a process, and the services that they are part of.
#[derive(Debug)]
pub struct Base {
    /// The services that the components share.
    pub services: ProcessServices,
    heartbeat: Running<HeartbeatActor>,
    metrics: MetricQueryHandle,
}

impl Base {
    /// Starts the heartbeat and metric services.
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

    /// Stops the metrics and the heartbeat service, and waits for the latter.
    pub async fn stop(self) {
        drop(self.metrics);
        self.heartbeat.stop().await;
    }
}

/// Makes a converter for `map_err` that names the component.
pub(super) fn lane(component: &'static str) -> impl Fn(LaneEnded) -> ComponentError {
    move |source| ComponentError::Lane { component, source }
}
