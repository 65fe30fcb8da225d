//! What the endpoint is given: leaders to ask, the folder of programs, what it may show and allow.
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

/// A value to watch: who leads.
pub type Leader = watch::Receiver<Option<LeaderInformation>>;

/// Everything that handlers use.
#[derive(Clone)]
pub struct RestServices {
    /// Clock and entropy.
    pub platform: Platform,
    /// The fabric.
    pub rpc: RpcService,
    /// Who leads the Dispatcher.
    pub dispatcher: Leader,
    /// Who leads the ResourceManager.
    pub resource_manager: Leader,
    /// This process's BlobServer.
    pub blobs: Remote<BlobServerGateway>,
    /// Uploaded programs.
    pub programs: ProgramStore,
    /// What is shown and allowed.
    pub settings: RestSettings,
}

/// What is shown and allowed.
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
    /// The rules of who may use the endpoint; `None`: whoever reaches it.
    pub access: Option<Access>,
    /// Why uploads and submissions are refused; `None`: allowed.
    pub submit_refused: Option<String>,
    /// Whether jobs may be cancelled.
    pub cancel_allowed: bool,
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// How much clients may send, and how slowly.
    pub bodies: BodyLimits,
    /// How long a component may take to answer.
    pub answer_within: Duration,
    /// How long a program may take to build its graph.
    pub build_within: Duration,
}

/// Where the endpoint listens and what it is called.
#[derive(Debug, Clone)]
pub struct RestBind {
    /// Address to bind.
    pub address: IpAddr,
    /// Ports to try in order.
    pub ports: Vec<u16>,
    /// Host name that others are told.
    pub advertised_host: String,
}

impl RestBind {
    /// Whether only this host can reach it.
    pub fn is_loopback(&self) -> bool {
        self.address.is_loopback()
    }
}

/// Where the endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestAddress {
    /// As bound.
    pub bound: SocketAddr,
    /// As others reach it: `http://host:port`.
    pub url: String,
}

impl RestServices {
    /// The leading Dispatcher.
    pub fn dispatcher(&self) -> Result<Remote<DispatcherGateway>, ApiError> {
        let leader = self.dispatcher.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("Dispatcher"))?;
        Ok(self.rpc.gateway(&leader.address, DispatcherId(leader.session)))
    }

    /// The leading ResourceManager.
    pub fn resource_manager(&self) -> Result<Remote<ResourceManagerGateway>, ApiError> {
        let leader = self.resource_manager.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("ResourceManager"))?;
        Ok(self.rpc.gateway(&leader.address, ResourceManagerId(leader.session)))
    }

    /// Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.platform.unix_millis()
    }
}

/// The MetricQueryService of the process that this endpoint lives in: its process-wide endpoints share
/// one fence, that of its BlobServer.
pub(crate) fn metric_query_of(
    rpc: &RpcService,
    blobs: &Remote<BlobServerGateway>,
) -> Remote<MetricQueryGateway> {
    rpc.gateway(&rpc.address_of("metric_query"), blobs.fence())
}
