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

/// A client of a cluster's NodeManagers. Clones share connections.
#[derive(Debug, Clone)]
pub struct NmClient {
    client: Client,
    login: Login,
    policy: RetryPolicy,
    options: CallOptions,
}

impl NmClient {
    /// Makes a client without connections, which calls nodes as this user. The retries are those of
    /// `yarn.client.nodemanager-connect.…`.
    ///
    /// # Errors
    /// [`YarnError::Conf`] for a property that cannot be used.
    pub fn new(conf: &Configuration, login: &Login) -> Result<Self, YarnError> {
        let client = Client::new(Options::from_conf(conf)?);
        let (policy, total) = patience(conf)?;
        // One try at least, however little waiting is wanted.
        let deadline = total.map(|total| total.max(client.options().call_timeout));
        let options = CallOptions { deadline, ..CallOptions::default() };
        Ok(Self { client, login: login.clone(), policy, options })
    }

    /// Returns a client whose calls take at most this long with all their tries. Without it they
    /// take what `yarn.client.nodemanager-connect.max-wait-ms` allows (180 s by default), or one
    /// try where that takes longer.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// Calls any method of ContainerManagementProtocol on a node, and repeats it as the
    /// configuration says. `token` is the node's NMToken.
    ///
    /// # Errors
    /// `YarnError::Call` with the [`CallError`](crate::rpc::CallError) of the last try.
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

    /// Has the container's node start it; `token` is the node's NMToken. Success means that the
    /// node prepares the container: its sub-state says when it runs.
    ///
    /// # Errors
    /// [`YarnError::Container`] with the node's reason; `YarnError::Call` if the node does
    /// not answer after all tries, or for its exception.
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
        failed(response.failed_requests)
    }

    /// Returns the state of a container as its node sees it.
    ///
    /// # Errors
    /// [`YarnError::Container`] where the node does not know it; `YarnError::Call` if the node does
    /// not answer after all tries, or for its exception.
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

    /// Has a node stop a container: first politely, then by force, as the node is configured.
    /// Returns before the container has ended.
    ///
    /// # Errors
    /// [`YarnError::Container`] where the node does not know it; `YarnError::Call` if the node does
    /// not answer after all tries, or for its exception.
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

    /// Has a node send a signal to a container. Success does not say that the container exists.
    ///
    /// # Errors
    /// `YarnError::Call`: the node does not answer after all tries, or it throws an exception, as for a wrong token.
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

    /// Has a node fetch more files for a running container, under these names in its working
    /// directory. Returns before they are there.
    ///
    /// # Errors
    /// `YarnError::Call`: the node does not answer after all tries, or it throws an exception, as for a wrong token.
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
