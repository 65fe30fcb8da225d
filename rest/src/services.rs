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

/// The current leader of a component, as its retrieval reports it, which can be watched; `None` while there is none.
pub type Leader = watch::Receiver<Option<LeaderInformation>>;

/// The services that the endpoint's handlers use; they keep no state of jobs.
#[derive(Clone)]
pub struct RestServices {
    /// Source of time and entropy.
    pub platform: Platform,
    /// RPC service of the process, by which leaders are called.
    pub rpc: RpcService,
    /// The leading Dispatcher, for requests about jobs.
    pub dispatcher: Leader,
    /// The leading ResourceManager, for requests about TaskManagers.
    pub resource_manager: Leader,
    /// Gateway of this process's BlobServer, which takes programs that are run.
    pub blobs: Remote<BlobServerGateway>,
    /// The programs that were uploaded to this endpoint.
    pub programs: ProgramStore,
    /// The settings of what the endpoint shows and allows.
    pub settings: RestSettings,
}

/// The settings of what the endpoint shows and allows, fixed at its start.
#[derive(Debug, Clone)]
pub struct RestSettings {
    /// Version of this build, shown as Flink's version.
    pub version: String,
    /// Commit of this build.
    pub commit: String,
    /// The options of this process for `/jobmanager/config`; secrets are masked already.
    pub configuration: Vec<ConfigurationEntry>,
    /// Folder of this process's log files, of which `/jobmanager/logs` serves those with `.log` or `.out` in their names;
    /// `None`: it logs to its console only.
    pub log_dir: Option<PathBuf>,
    /// Name, in `log_dir`, of the log file that `/jobmanager/log` serves; `None`: there is none, and the answer is 404.
    pub log_file: Option<String>,
    /// URL of the page where an external system such as YARN shows this process's log files; `None` if there is none.
    pub log_page: Option<String>,
    /// Milliseconds between refreshes of a page, for `/config`.
    pub refresh_interval_ms: u64,
    /// The rules by which a token protects the endpoint; `None`: everybody who reaches it may use it.
    pub access: Option<Access>,
    /// The reason why uploads and submissions are refused with 403; `None`: they are allowed.
    pub submit_refused: Option<String>,
    /// True if jobs may be cancelled and stopped, and savepoints deleted; otherwise such requests get 403.
    pub cancel_allowed: bool,
    /// Maximum number of connections that are open at once (at least 1); waiting, uploading and idle ones get parts of it.
    pub connections_max: usize,
    /// Limits on the size of request bodies, and on the time that they may take.
    pub bodies: BodyLimits,
    /// Maximum time that a component takes to answer; then the client gets 504.
    pub answer_within: Duration,
    /// Maximum time that it takes to ship a program and build its graph; then the client gets 504.
    pub build_within: Duration,
}

/// The address that the endpoint binds, and the host name that it publishes.
#[derive(Debug, Clone)]
pub struct RestBind {
    /// IP address of the interface to bind.
    pub address: IpAddr,
    /// Ports to try in order; 0 means any free one.
    pub ports: Vec<u16>,
    /// Host name or IP address under which clients reach the endpoint.
    pub advertised_host: String,
}

impl RestBind {
    /// Returns true if the bound address is a loopback one, so that only this host can reach the endpoint.
    pub fn is_loopback(&self) -> bool {
        self.address.is_loopback()
    }
}

/// The address of a bound endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestAddress {
    /// Address that the listener is bound to, with its real port.
    pub bound: SocketAddr,
    /// URL under which clients reach the endpoint: `http://host:port`, with the advertised host.
    pub url: String,
}

impl RestServices {
    /// Returns a gateway to the Dispatcher that leads now; status 503 if none is known. Sends nothing. If the leader
    /// changes, later calls through the gateway fail.
    pub fn dispatcher(&self) -> Result<Remote<DispatcherGateway>, ApiError> {
        let leader = self.dispatcher.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("Dispatcher"))?;
        Ok(self.rpc.gateway(&leader.address, DispatcherId(leader.session)))
    }

    /// Returns a gateway to the ResourceManager that leads now; status 503 if none is known. Sends nothing. If the leader
    /// changes, later calls through the gateway fail.
    pub fn resource_manager(&self) -> Result<Remote<ResourceManagerGateway>, ApiError> {
        let leader = self.resource_manager.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("ResourceManager"))?;
        Ok(self.rpc.gateway(&leader.address, ResourceManagerId(leader.session)))
    }

    /// Returns the wall-clock time in Unix milliseconds.
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
