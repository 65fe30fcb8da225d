//! A client of NodeManagers: starts, asks after and stops containers, over one connection per node. What the
//! answers say failed is an error here, although the call succeeded.

use super::YarnError;
use super::messages::*;
use super::resource_manager::{times, wait};
use crate::client::{CallOptions, Client, Options, Proxy};
use crate::conf::{ConfError, Configuration};
use crate::login::{Login, Service};
use crate::rpc::RetryPolicy;
use crate::tokens::Token;
use prost::Message;
use std::time::Duration;

/// A client of a cluster's NodeManagers, by which an ApplicationMaster starts, watches and stops containers. Clones share connections. It
/// keeps neither tokens nor states of containers: each call names node and NMToken, which `AmRmClient::nm_token` has.
#[derive(Debug, Clone)]
pub struct NmClient {
    client: Client,
    login: Login,
    policy: RetryPolicy,
    options: CallOptions,
}

impl NmClient {
    /// Makes a client that has no connections yet and calls nodes as this user. Failed calls are tried again as
    /// `yarn.client.nodemanager-connect.…` says.
    ///
    /// # Errors
    /// Fails with [`YarnError::Conf`] for a property that cannot be used.
    pub fn new(conf: &Configuration, login: &Login) -> Result<Self, YarnError> {
        let client = Client::new(Options::from_conf(conf)?);
        let (policy, total) = patience(conf)?;
        // One try at least, however little waiting is wanted.
        let deadline = total.map(|total| total.max(client.options().call_timeout));
        let options = CallOptions { deadline, ..CallOptions::default() };
        Ok(Self { client, login: login.clone(), policy, options })
    }

    /// Returns this client with a bound for each of its calls, all tries together. Without it a call takes at most what
    /// `yarn.client.nodemanager-connect.max-wait-ms` allows (180 s by default; with -1 there is no bound), or one try where
    /// that takes longer.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// Calls any method of ContainerManagementProtocol, a NodeManager's service for containers, and repeats it as the
    /// configuration says: the method must be idempotent. `token` is the NMToken for this node.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` and the [`CallError`](crate::rpc::CallError) of the last try,
    /// `YarnError::Incomplete` if the node's id has no valid port.
    pub async fn call<Q: Message, R: Message + Default>(
        &self,
        node: &NodeId,
        token: &Token,
        method: &'static str,
        request: &Q,
    ) -> Result<R, YarnError> {
        let incomplete = |_| YarnError::Incomplete { method, field: "port of the node" };
        let port = u16::try_from(node.port()).map_err(incomplete)?;
        let token = Some(token.clone());
        let target = self.login.target_with(Service::NodeManager, node.host(), port, token).await?;
        let proxy = Proxy::new(self.client.clone(), vec![target], self.policy);
        Ok(proxy.call(method, request, self.options).await?)
    }

    /// Has the container's node start it; `token` is the node's NMToken. Success means that the node has begun to prepare the container,
    /// perhaps at an earlier call whose answer was lost: its sub-state (`ContainerStatus`) says when it runs.
    ///
    /// # Errors
    /// Fails with [`YarnError::Container`] and the node's reason, for example an expired container token; `YarnError::Call` if the node
    /// does not answer after all tries (the container may have been started then), or for its exception; `YarnError::Incomplete` for a
    /// container without a node, or whose node has no valid port.
    pub async fn start(
        &self,
        container: &Container,
        token: &Token,
        launch: ContainerLaunchContext,
    ) -> Result<(), YarnError> {
        let method = "startContainers";
        let node = container.node_id.as_ref();
        let node = node.ok_or(YarnError::Incomplete { method, field: "node of the container" })?;
        let one = StartContainerRequest {
            container_launch_context: Some(launch),
            container_token: container.container_token.clone(),
        };
        let request = StartContainersRequest { start_container_request: vec![one] };
        let response: StartContainersResponse = self.call(node, token, method, &request).await?;
        match failed(response.failed_requests) {
            // A try whose answer was lost has started it: nobody else has its token.
            Err(YarnError::Container { message, .. }) if message.contains(RUNS_ALREADY) => Ok(()),
            outcome => outcome,
        }
    }

    /// Asks a node for the state of one of its containers; `token` is the node's NMToken.
    ///
    /// # Errors
    /// Fails with [`YarnError::Container`] where the node does not know the container (any more); `YarnError::Call` if the node does not
    /// answer after all tries, or for its exception; `YarnError::Incomplete` for an answer without a state, or a node without a valid port.
    pub async fn status(
        &self,
        node: &NodeId,
        token: &Token,
        id: ContainerId,
    ) -> Result<ContainerStatus, YarnError> {
        let method = "getContainerStatuses";
        let request = GetContainerStatusesRequest { container_id: vec![id] };
        let response: GetContainerStatusesResponse =
            self.call(node, token, method, &request).await?;
        failed(response.failed_requests)?;
        let status = response.status.into_iter().next();
        status.ok_or(YarnError::Incomplete { method, field: "status" })
    }

    /// Has a node stop a container: its program first gets a signal to end and, after the time that the node is configured with, is killed.
    /// Returns before the container has ended; its end comes to the ApplicationMaster as
    /// [`ContainerExit::KilledByMaster`](super::ContainerExit::KilledByMaster). `token` is the node's NMToken.
    ///
    /// # Errors
    /// Fails with [`YarnError::Container`] where the node does not know the container (one that has just ended is no error);
    /// `YarnError::Call` if the node does not answer after all tries (the container may be stopped then), or for its exception;
    /// `YarnError::Incomplete` for a node without a valid port.
    pub async fn stop(
        &self,
        node: &NodeId,
        token: &Token,
        id: ContainerId,
    ) -> Result<(), YarnError> {
        let request = StopContainersRequest { container_id: vec![id] };
        let response: StopContainersResponse =
            self.call(node, token, "stopContainers", &request).await?;
        failed(response.failed_requests)
    }

    /// Has a node send a signal to a container's program; `token` is the node's NMToken. Succeeds even if the node has no such container;
    /// success does not say that the signal was delivered.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if the node does not answer after all tries, or for its exception, for example because the token is
    /// wrong; `YarnError::Incomplete` for a node without a valid port.
    pub async fn signal(
        &self,
        node: &NodeId,
        token: &Token,
        id: ContainerId,
        signal: SignalContainerCommand,
    ) -> Result<(), YarnError> {
        let request = SignalContainerRequest { container_id: id, command: signal.into() };
        let _: SignalContainerResponse =
            self.call(node, token, "signalToContainer", &request).await?;
        Ok(())
    }

    /// Has a node fetch more files for a running container; each comes with the name that it gets in the container's working directory.
    /// Returns before they are there, and nothing here says when they are. `token` is the node's NMToken.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` if the node does not answer after all tries, or for its exception, for example because the token is
    /// wrong or the container does not run there; `YarnError::Incomplete` for a node without a valid port.
    pub async fn localize(
        &self,
        node: &NodeId,
        token: &Token,
        id: ContainerId,
        files: Vec<(String, LocalResource)>,
    ) -> Result<(), YarnError> {
        let entry =
            |(name, resource)| StringLocalResourceMap { key: Some(name), value: Some(resource) };
        let request = ResourceLocalizationRequest {
            container_id: Some(id),
            local_resources: files.into_iter().map(entry).collect(),
        };
        let _: ResourceLocalizationResponse = self.call(node, token, "localize", &request).await?;
        Ok(())
    }
}

/// The NodeManager's text for a container that it has begun to start before (`ContainerManagerImpl.startContainerInternal`).
const RUNS_ALREADY: &str = "already is running on this node";

/// How nodes are asked again, and for how long in all; `None` for ever.
pub(super) fn patience(conf: &Configuration) -> Result<(RetryPolicy, Option<Duration>), ConfError> {
    let interval = conf.get_duration("yarn.client.nodemanager-connect.retry-interval-ms")?;
    let interval = interval.unwrap_or(Duration::from_secs(10)).max(Duration::from_millis(1));
    let total = "yarn.client.nodemanager-connect.max-wait-ms";
    let total = wait(conf, total, Duration::from_secs(180))?;
    Ok((RetryPolicy::Fixed { interval, retries: times(total, interval) }, total))
}

/// The first failure that an answer tells of.
fn failed(failures: Vec<ContainerExceptionMap>) -> Result<(), YarnError> {
    let Some(failure) = failures.into_iter().next() else { return Ok(()) };
    let exception = failure.exception.unwrap_or_default();
    Err(YarnError::Container {
        id: failure.container_id.unwrap_or_default(),
        class: exception.class_name.unwrap_or_default(),
        message: exception.message.unwrap_or_default(),
    })
}
