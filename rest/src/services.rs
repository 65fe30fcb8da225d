//! The services of the endpoint: leaders to ask, the folder of programs, and settings of what it
//! may show and allow.
//!
//! The endpoint reaches every component through its gateway, at the leader that is current when a request
//! comes; it keeps no state of jobs.

use crate::access::Access;
use crate::bodies::BodyLimits;
use crate::error::{AnswerStatus, ApiError};
use crate::messages::ConfigurationEntry;
use crate::programs::ProgramStore;
use gateways::blob_server::BlobServerGateway;
use gateways::dispatcher::{BlobServerLocation, DispatcherGateway, RequestBlobServer};
use gateways::leader_election::LeaderInformation;
use gateways::metric_query::MetricQueryGateway;
use gateways::resource_manager::ResourceManagerGateway;
use gateways::{Call, Remote, RpcService};
use model::{DispatcherId, ResourceManagerId};
use platform::Platform;
use platform::watch;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The present leader of a component with its address, which can be watched for changes; `None` while no leader is known. The process's
/// leader retrieval keeps it up to date, and the endpoint reads it anew for each request.
pub type Leader = watch::Receiver<Option<LeaderInformation>>;

/// The services that the endpoint's handlers use: gateways of the components, the uploaded programs and the settings. They keep no state of
/// jobs. The process that starts the endpoint makes them, for [`RestServer::start`](crate::RestServer::start).
#[derive(Clone)]
pub struct RestServices {
    /// Source of the time, and of the random numbers for the ids of uploads and operations.
    pub platform: Platform,
    /// RPC service of the process, by which leaders are called.
    pub rpc: RpcService,
    /// The leading Dispatcher, which is asked about jobs; `None` in it answers such requests with 503.
    pub dispatcher: Leader,
    /// The leading ResourceManager, which is asked about TaskManagers and blocked nodes; `None` in it answers such requests
    /// with 503.
    pub resource_manager: Leader,
    /// Gateway of this process's BlobServer, the store to which a program's file is uploaded before the program is planned
    /// or run, so that all processes of the cluster can fetch it. While another JobManager leads, the file goes to that one's
    /// BlobServer.
    pub blobs: Remote<BlobServerGateway>,
    /// The programs that were uploaded to this endpoint.
    pub programs: ProgramStore,
    /// The settings of what the endpoint shows and allows.
    pub settings: RestSettings,
}

/// The settings of what the endpoint shows and allows, fixed at its start: version, options, log files and the page of logs (an external
/// URL; without one the endpoint's own) to show; who may use the endpoint; whether clients may upload and run programs (all of `/jars`),
/// and whether they may end jobs (cancel, stop, savepoint with cancel) and delete savepoints; limits on connections, bodies and the time of
/// calls.
#[derive(Debug, Clone)]
pub struct RestSettings {
    /// Version of this build, which `/overview` and `/config` show as Flink's version.
    pub version: String,
    /// Commit of this build, which `/overview` and `/config` show as Flink's.
    pub commit: String,
    /// The options that are set for this process, without defaults, which `/jobmanager/config` shows; secrets are masked
    /// already.
    pub configuration: Vec<ConfigurationEntry>,
    /// Folder of this process's log files, of which `/jobmanager/logs` serves those whose names end in `.log` or `.out`, or
    /// contain `.log.` or `.out.` (rotated ones); `None`: the process logs to its console only, the list is empty, and a
    /// request for a file gets 404.
    pub log_dir: Option<PathBuf>,
    /// Name, in `log_dir`, of the log file that `/jobmanager/log` serves; `/jobmanager/stdout` serves the file with `.out` in place of its
    /// ending `.log`. `None`: there is none, and both answer 404.
    pub log_file: Option<String>,
    /// URL of the page where an external system such as YARN shows this process's log files, for `log-url`; `None`: the URL
    /// of `/jobmanager/log` at this endpoint is given instead.
    pub log_page: Option<String>,
    /// Milliseconds between two refreshes of a page that shows the cluster (`web.refresh-interval`, which cannot be 0); `/config` tells
    /// them to the page.
    pub refresh_interval_ms: u64,
    /// The rules by which a token protects the endpoint; `None`: everybody who reaches it may use it. In either case a
    /// request that a page of another site makes a browser send is refused with 403.
    pub access: Option<Access>,
    /// The reason why all requests for `/jars` and below (uploads, lists, plans, submissions, deletions) are refused with
    /// 403; `None`: they are allowed.
    pub submit_refused: Option<String>,
    /// True if jobs may be cancelled (also by a savepoint), stopped and bound to a client by heartbeats, and savepoints deleted; otherwise
    /// such requests get 403. The end of the cluster (`DELETE /cluster`), which cancels all jobs, is allowed in any case.
    pub cancel_allowed: bool,
    /// Maximum number of connections that are open at once (at least 1); further ones wait until one closes. At most a quarter
    /// of them may be without a request, half wait for the end of a job, an eighth send a slow body, a sixteenth upload. If such
    /// a part is full, its oldest member gives way to the next: it is closed, answered at once, or refused with 503 (uploads:
    /// see [`BodyLimits::uploads`]). One address of another machine gets at most a quarter of each part; beyond that its own
    /// oldest member gives way.
    pub connections_max: usize,
    /// Limits on the size of request bodies, and on the time that they may take.
    pub bodies: BodyLimits,
    /// Maximum time that a component takes to answer one call of a handler; then the client gets 504 (503 if the component cannot be
    /// reached). A request that waits for a job's end has its wait in addition.
    pub answer_within: Duration,
    /// Maximum time of each single call that sends a part of a program to the BlobServer, or builds its graph and submits it; then the
    /// client gets 504, and the job may be submitted all the same.
    pub build_within: Duration,
}

/// The address that the endpoint binds, with the ports to try in order, and the host name that it publishes in its URL. The process's
/// options decide it; for [`RestListener::bind`](crate::RestListener::bind).
#[derive(Debug, Clone)]
pub struct RestBind {
    /// IP address of the interface to bind.
    pub address: IpAddr,
    /// Ports to try in order, of which the first free one is bound; 0 means any free one. If none is free, or the list is empty, the
    /// endpoint does not start.
    pub ports: Vec<u16>,
    /// Host name or IP address under which clients reach the endpoint, for its URL; it is not checked.
    pub advertised_host: String,
}

impl RestBind {
    /// Returns true if the bound address is a loopback one, so that only this host can reach the endpoint; requests whose `Host` names
    /// another machine are refused with 403 then.
    pub fn is_loopback(&self) -> bool {
        self.address.is_loopback()
    }
}

/// The address of a bound endpoint: the one that it listens on, and the URL for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestAddress {
    /// Address that the listener is bound to, with its real port.
    pub bound: SocketAddr,
    /// URL under which clients reach the endpoint: `http://host:port`, with the advertised host.
    pub url: String,
}

impl RestServices {
    /// Returns a gateway to the Dispatcher that leads now; status 503 if none is known. Sends nothing. The gateway is for that leader
    /// alone: if the leader was superseded a moment ago, or changes later, calls through the gateway fail, and the caller needs a new one.
    pub fn dispatcher(&self) -> Result<Remote<DispatcherGateway>, ApiError> {
        let leader = self.dispatcher.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("Dispatcher"))?;
        Ok(self.rpc.gateway(&leader.address, DispatcherId(leader.session)))
    }

    /// Returns a gateway to the ResourceManager that leads now; status 503 if none is known. Sends nothing. The gateway is for that leader
    /// alone: if the leader was superseded a moment ago, or changes later, calls through the gateway fail, and the caller needs a new one.
    pub fn resource_manager(&self) -> Result<Remote<ResourceManagerGateway>, ApiError> {
        let leader = self.resource_manager.borrow().clone();
        let leader = leader.ok_or_else(|| ApiError::no_leader("ResourceManager"))?;
        Ok(self.rpc.gateway(&leader.address, ResourceManagerId(leader.session)))
    }

    /// Asks the Dispatcher that leads now; the answer may take `RestSettings::answer_within`.
    pub(crate) async fn ask<C>(&self, call: C) -> Result<C::Reply, ApiError>
    where
        C: Call<Gateway = DispatcherGateway, Error: AnswerStatus>,
    {
        Ok(self.dispatcher()?.ask_within(call, self.settings.answer_within).await?)
    }

    /// Asks the ResourceManager that leads now; the answer may take `RestSettings::answer_within`.
    pub(crate) async fn ask_resource_manager<C>(&self, call: C) -> Result<C::Reply, ApiError>
    where
        C: Call<Gateway = ResourceManagerGateway, Error: AnswerStatus>,
    {
        Ok(self.resource_manager()?.ask_within(call, self.settings.answer_within).await?)
    }

    /// Returns a gateway to the BlobServer in which this Dispatcher looks for programs: that of this process if the Dispatcher runs here,
    /// otherwise that of the Dispatcher's process, for which the Dispatcher is asked. An error (status 503 or 504) means that it did not
    /// answer, as when it was superseded a moment ago.
    pub(crate) async fn blobs_of(
        &self,
        dispatcher: &Remote<DispatcherGateway>,
    ) -> Result<Remote<BlobServerGateway>, ApiError> {
        if dispatcher.address().node == *self.rpc.node() {
            return Ok(self.blobs.clone());
        }
        let BlobServerLocation { address, session } =
            dispatcher.ask_within(RequestBlobServer {}, self.settings.answer_within).await?;
        Ok(self.rpc.gateway(&address, session))
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
