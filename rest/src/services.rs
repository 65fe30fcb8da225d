//! The services of the endpoint: leaders to ask, the folder of programs, and settings of what it
//! may show and allow.
//!
//! The endpoint reaches every component through its gateway, at the leader that is current when a request
//! comes; it keeps no state of jobs.

use crate::access::Access;
use crate::bodies::BodyLimits;
use crate::error::ApiError;
use crate::messages::ConfigurationEntry;
use crate::programs::ProgramStore;
use gateways::blob_server::BlobServerGateway;
use gateways::dispatcher::DispatcherGateway;
use gateways::leader_election::LeaderInformation;
use gateways::metric_query::MetricQueryGateway;
use gateways::resource_manager::ResourceManagerGateway;
use gateways::{Remote, RpcService};
use model::{DispatcherId, ResourceManagerId};
use platform::Platform;
use platform::watch;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The current leader of a component, `None` while there is none; can be watched.
pub type Leader = watch::Receiver<Option<LeaderInformation>>;

/// The services that handlers use.
#[derive(Clone)]
pub struct RestServices {
    /// Source of time and entropy.
    pub platform: Platform,
    /// RPC service of the process.
    pub rpc: RpcService,
    /// Leader of the Dispatcher.
    pub dispatcher: Leader,
    /// Leader of the ResourceManager.
    pub resource_manager: Leader,
    /// Gateway of this process's BlobServer.
    pub blobs: Remote<BlobServerGateway>,
    /// Store of the uploaded programs.
    pub programs: ProgramStore,
    /// Settings of what is shown and allowed.
    pub settings: RestSettings,
}

/// The settings of what the endpoint shows and allows.
#[derive(Debug, Clone)]
pub struct RestSettings {
    /// Version and commit of this build.
    pub version: String,
    /// Commit of this build.
    pub commit: String,
    /// The options of this process; secrets are masked already.
    pub configuration: Vec<ConfigurationEntry>,
    /// Folder of this process's log files.
    pub log_dir: Option<PathBuf>,
    /// Log file of this process, of `/jobmanager/log`.
    pub log_file: Option<String>,
    /// URL of the page where an external system shows this process's log files, if it does.
    pub log_page: Option<String>,
    /// Milliseconds between refreshes of a page.
    pub refresh_interval_ms: u64,
    /// The rules by which requests are allowed; `None`: every request is.
    pub access: Option<Access>,
    /// The reason why uploads and submissions are refused; `None`: they are allowed.
    pub submit_refused: Option<String>,
    /// True if jobs may be cancelled.
    pub cancel_allowed: bool,
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// Bounds on the size of bodies, and on the time they may take.
    pub bodies: BodyLimits,
    /// Maximum time a component takes to answer.
    pub answer_within: Duration,
    /// Maximum time a program takes to build its graph.
    pub build_within: Duration,
}

/// The address that the endpoint binds, and the one that it publishes.
#[derive(Debug, Clone)]
pub struct RestBind {
    /// IP address to bind.
    pub address: IpAddr,
    /// Ports to try in order.
    pub ports: Vec<u16>,
    /// Host name that is published to clients.
    pub advertised_host: String,
}

impl RestBind {
    /// Returns true if only this host can reach it.
    pub fn is_loopback(&self) -> bool {
        self.address.is_loopback()
    }
}

/// The address of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestAddress {
    /// Address that the listener is bound to, with its real port.
    pub bound: SocketAddr,
    /// URL under which clients reach the endpoint: `http://host:port`.
    pub url: String,
}

impl RestServices {
    /// Returns the gateway of the leading Dispatcher. The error is status 503 if there is none.
    pub fn dispatcher(&self) -> Result<Remote<DispatcherGateway>, ApiError> {
        let leader = self.dispatcher.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("Dispatcher"))?;
        Ok(self.rpc.gateway(&leader.address, DispatcherId(leader.session)))
    }

    /// Returns the gateway of the leading ResourceManager. The error is status 503 if there is
    /// none.
    pub fn resource_manager(&self) -> Result<Remote<ResourceManagerGateway>, ApiError> {
        let leader = self.resource_manager.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("ResourceManager"))?;
        Ok(self.rpc.gateway(&leader.address, ResourceManagerId(leader.session)))
    }

    /// Reads the wall clock, in Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.platform.unix_millis()
    }
}

/// Returns the gateway of the MetricQueryService of this endpoint's own process: its process-wide
/// endpoints share one fence, that of its BlobServer.
pub(crate) fn metric_query_of(
    rpc: &RpcService,
    blobs: &Remote<BlobServerGateway>,
) -> Remote<MetricQueryGateway> {
    rpc.gateway(&rpc.address_of("metric_query"), blobs.fence())
}
