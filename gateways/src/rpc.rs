//! The RPC service of a process: hosts endpoints under names and hands out gateways to local and
//! remote ones. It must never decide what a failed call means.

use crate::{
    address::{EndpointAddress, NodeAddress},
    call::Gateway,
    endpoint::{Allow, Bounds, Endpoint, Registered},
    options::RpcOptions,
    remote::Remote,
};
use dashmap::DashMap;
use model::{Fence, JobId};
use platform::Platform;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};
use thiserror::Error;

/// Why a service could not be started.
#[derive(Debug, Error)]
pub enum RpcStartError {
    /// None of the ports could be bound.
    #[error("no port of {ports} can be bound on {host}: {why}")]
    Bind {
        /// Local address.
        host: String,
        /// The setting.
        ports: String,
        /// The last attempt's failure.
        why: std::io::Error,
    },
}

/// A process's end of the fabric. A cheap handle.
#[derive(Clone)]
pub struct RpcService(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) platform: Platform,
    pub(crate) options: RpcOptions,
    pub(crate) node: NodeAddress,
    pub(crate) endpoints: DashMap<String, Arc<Registered>>,
}

impl fmt::Debug for RpcService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RpcService({})", self.0.node)
    }
}

impl RpcService {
    /// Binds the configured port, or makes a service without one.
    pub async fn start(platform: Platform, options: RpcOptions) -> Result<Self, RpcStartError> {
        let node = NodeAddress::of("local", 1);
        Ok(Self(Arc::new(Inner { platform, options, node, endpoints: DashMap::new() })))
    }

    /// How peers reach this process: the advertised host and the bound port.
    pub fn node(&self) -> &NodeAddress {
        &self.0.node
    }

    /// The platform that the service runs on.
    pub fn platform(&self) -> &Platform {
        &self.0.platform
    }

    /// Hosts an endpoint under a name until the registration is dropped. Its callers must name exactly
    /// this fence. The same name again replaces the earlier registration. Program hosts may not call it.
    pub fn serve<G: Gateway>(
        &self,
        name: impl Into<String>,
        fence: G::Fence,
        endpoint: Endpoint<G>,
    ) -> Registration {
        self.register(name.into(), fence, &endpoint, Allow::Cluster)
    }

    /// Like [`RpcService::serve`], and program hosts of `job` may make the calls in `calls` too (their
    /// names, e.g. `SubmitJob::NAME`; empty: all).
    pub fn serve_for_job<G: Gateway>(
        &self,
        name: impl Into<String>,
        fence: G::Fence,
        endpoint: Endpoint<G>,
        job: JobId,
        calls: &[&str],
    ) -> Registration {
        let calls = calls.iter().map(|c| (*c).to_owned()).collect();
        self.register(name.into(), fence, &endpoint, Allow::Job { job, calls })
    }

    fn register<G: Gateway>(
        &self,
        name: String,
        fence: G::Fence,
        endpoint: &Endpoint<G>,
        allow: Allow,
    ) -> Registration {
        let bounds = Bounds {
            mailbox_max: self.0.options.mailbox_max,
            in_flight_max: self.0.options.in_flight_max,
        };
        let node = self.0.node.clone();
        let registered =
            Registered::new(name.clone(), node, fence.session(), endpoint, allow, bounds);
        let registered = Arc::new(registered);
        if let Some(replaced) = self.0.endpoints.insert(name, Arc::clone(&registered)) {
            replaced.died.notify_waiters();
        }
        Registration { service: Arc::downgrade(&self.0), registered }
    }

    /// A gateway to a local or remote endpoint in the leader session `fence`. Nothing is connected
    /// before the first call.
    pub fn gateway<G: Gateway>(&self, address: &EndpointAddress, fence: G::Fence) -> Remote<G> {
        Remote::new(Arc::clone(&self.0), address.clone(), fence)
    }

    /// The address of an endpoint of this process.
    pub fn address_of(&self, name: &str) -> EndpointAddress {
        EndpointAddress::new(self.0.node.clone(), name)
    }
}

/// A name that is served. Dropping it ends that.
#[must_use = "dropping a registration ends it"]
pub struct Registration {
    service: Weak<Inner>,
    registered: Arc<Registered>,
}

/// How often [`Registration::died`] looks, where no call has found the actor dead before.
const DEATH_CHECK: Duration = Duration::from_secs(1);

impl Registration {
    /// Whether the actor lives.
    pub fn is_alive(&self) -> bool {
        self.registered.connected()
    }

    /// Ends when the actor has ended: with the first call that finds it so, or a second later.
    pub async fn died(&self) {
        while self.registered.connected() {
            let _ = tokio::time::timeout(DEATH_CHECK, self.registered.died.notified()).await;
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({})", self.registered.name)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(service) = self.service.upgrade() {
            service.endpoints.remove_if(&self.registered.name, |_, current| {
                Arc::ptr_eq(current, &self.registered)
            });
        }
    }
}
