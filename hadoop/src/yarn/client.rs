//! A client of the ResourceManager: nodes, queues, applications. It survives restarts and failovers of
//! ResourceManagers as the configuration says; what a failure means is decided below it.

use super::messages::*;
use super::resource_manager::connections;
use super::{ResourceManager, YarnError, resource_managers, retry_policy};
use crate::client::{CallOptions, Client, Proxy};
use crate::conf::Configuration;
use crate::login::{Login, Service};
use crate::tokens::{Token, TokenProto, service_of};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

/// Between two questions whether something asked for has happened.
const POLL: Duration = Duration::from_millis(200);
/// Between two reports until an application runs.
const POLL_STARTING: Duration = Duration::from_millis(250);
/// Between two reports of a running application.
const POLL_RUNNING: Duration = Duration::from_secs(1);

/// A client of a cluster's ResourceManager. Clones share connections.
///
/// ```no_run
/// use hadoop::{conf::Configuration, login::Login, yarn::YarnClient};
///
/// # async fn example() -> Result<(), hadoop::yarn::YarnError> {
/// let conf = Configuration::load()?;
/// let yarn = YarnClient::new(&conf, Login::current(&conf).await?).await?;
/// for node in yarn.nodes(&[]).await? {
///     println!("{} {:?}", node.node_id.clone().unwrap_or_default(), node.node_state());
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct YarnClient {
    proxy: Arc<Proxy>,
    options: CallOptions,
    servers: Arc<[ResourceManager]>,
    /// Whether services of tokens are addresses rather than names.
    use_ip: bool,
}

impl YarnClient {
    /// A client for the ResourceManagers of the configuration, with connections of its own. Nothing is sent
    /// yet.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub async fn new(conf: &Configuration, login: Login) -> Result<Self, YarnError> {
        Self::with_client(conf, login, Client::new(connections(conf)?)).await
    }

    /// The same over the connections of a client that there is.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub async fn with_client(
        conf: &Configuration,
        login: Login,
        client: Client,
    ) -> Result<Self, YarnError> {
        let mut targets = Vec::new();
        let servers = resource_managers(conf, Service::ResourceManager)?;
        for rm in &servers {
            targets.push(login.target(Service::ResourceManager, &rm.host, rm.port).await?);
        }
        let proxy = Arc::new(Proxy::new(client, targets, retry_policy(conf)?));
        let use_ip = conf.get_bool("hadoop.security.token.service.use_ip")?.unwrap_or(true);
        Ok(Self { proxy, options: CallOptions::default(), servers: servers.into(), use_ip })
    }

    /// A client whose calls take at most this long with all their tries, where the configuration allows more.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// Calls any method of ApplicationClientProtocol.
    ///
    /// # Errors
    /// See [`CallError`](crate::rpc::CallError).
    pub async fn call<Q: Message, R: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<R, YarnError> {
        Ok(self.proxy.call(method, request, self.options).await?)
    }

    /// The nodes in these states; in all states where none is given.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn nodes(&self, states: &[NodeState]) -> Result<Vec<NodeReport>, YarnError> {
        let node_states = states.iter().map(|state| i32::from(*state)).collect();
        let request = GetClusterNodesRequest { node_states };
        let response: GetClusterNodesResponse = self.call("getClusterNodes", &request).await?;
        Ok(response.node_reports)
    }

    /// How many nodes there are, by state.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn metrics(&self) -> Result<YarnClusterMetrics, YarnError> {
        let method = "getClusterMetrics";
        let response: GetClusterMetricsResponse =
            self.call(method, &GetClusterMetricsRequest {}).await?;
        response.cluster_metrics.ok_or(YarnError::Incomplete { method, field: "metrics" })
    }

    /// A queue with all queues below it, by its name or full path.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn queue(&self, name: &str) -> Result<QueueInfo, YarnError> {
        let method = "getQueueInfo";
        let request = GetQueueInfoRequest {
            queue_name: Some(name.to_owned()),
            include_applications: Some(false),
            include_child_queues: Some(true),
            recursive: Some(true),
            sub_cluster_id: None,
        };
        let response: GetQueueInfoResponse = self.call(method, &request).await?;
        response.queue_info.ok_or(YarnError::Incomplete { method, field: "queue" })
    }

    /// The queues that applications can be submitted to, by their full paths, in order.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn leaf_queues(&self) -> Result<Vec<(String, QueueInfo)>, YarnError> {
        let mut leaves = Vec::new();
        let mut open = vec![(String::new(), self.queue("root").await?)];
        while let Some((parent, mut queue)) = open.pop() {
            let path = path_of(&parent, &queue);
            match std::mem::take(&mut queue.child_queues) {
                children if children.is_empty() => leaves.push((path, queue)),
                children => open.extend(children.into_iter().map(|child| (path.clone(), child))),
            }
        }
        leaves.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(leaves)
    }

    /// The leaf that a name or full path means, for a submission to it.
    ///
    /// # Errors
    /// [`YarnError::Queue`] with the queues that there are, [`YarnError::QueueAmbiguous`],
    /// [`YarnError::QueueStopped`].
    pub async fn check_queue(&self, name: &str) -> Result<QueueInfo, YarnError> {
        let leaves = self.leaf_queues().await?;
        let is_meant = |path: &str| path == name || path.rsplit('.').next() == Some(name);
        let (mut meant, others): (Vec<_>, Vec<_>) =
            leaves.into_iter().partition(|(path, _)| is_meant(path));
        let exact = meant.iter().position(|(path, _)| path == name);
        let queue = name.to_owned();
        match (exact, meant.len()) {
            (_, 0) => {
                let there_are = others.into_iter().map(|(path, _)| path).collect();
                Err(YarnError::Queue { queue, there_are })
            }
            (None, 2..) => {
                let candidates = meant.into_iter().map(|(path, _)| path).collect();
                Err(YarnError::QueueAmbiguous { queue, candidates })
            }
            (exact, _) => {
                let (path, queue) = meant.swap_remove(exact.unwrap_or(0));
                match queue.state.is_none() || queue.state() == QueueState::Running {
                    true => Ok(queue),
                    false => Err(YarnError::QueueStopped { queue: path }),
                }
            }
        }
    }

    /// What the user may do with each queue.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn queue_acls(&self) -> Result<Vec<QueueUserAclInfo>, YarnError> {
        let request = GetQueueUserAclsInfoRequest {};
        let response: GetQueueUserAclsInfoResponse =
            self.call("getQueueUserAcls", &request).await?;
        Ok(response.queue_user_acls)
    }

    /// The resource types that the cluster knows.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn resource_types(&self) -> Result<Vec<ResourceTypeInfo>, YarnError> {
        let request = GetAllResourceTypeInfoRequest {};
        let response: GetAllResourceTypeInfoResponse =
            self.call("getResourceTypeInfo", &request).await?;
        Ok(response.resource_type_info)
    }

    /// The node labels that the cluster knows.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn node_labels(&self) -> Result<Vec<NodeLabel>, YarnError> {
        let request = GetClusterNodeLabelsRequest {};
        let response: GetClusterNodeLabelsResponse =
            self.call("getClusterNodeLabels", &request).await?;
        Ok(response.node_labels)
    }

    /// A new application's id, and the largest container that it may ask for.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn new_application(&self) -> Result<(ApplicationId, Resource), YarnError> {
        let method = "getNewApplication";
        let response: GetNewApplicationResponse =
            self.call(method, &GetNewApplicationRequest {}).await?;
        let id = response.application_id.ok_or(YarnError::Incomplete { method, field: "id" })?;
        Ok((id, response.maximum_capability.unwrap_or_default()))
    }

    /// Submits an application and waits until the scheduler has seen it; submits it again where a
    /// ResourceManager was lost before it had written it down. It waits as long as that takes:
    /// [`with_deadline`](Self::with_deadline) bounds each question, [`tokio::time::timeout`] the whole, after
    /// which the application may have been submitted or not.
    ///
    /// # Errors
    /// [`YarnError::Ended`] when it was refused, with the reason; see [`YarnError`] for others.
    pub async fn submit(
        &self,
        context: ApplicationSubmissionContext,
    ) -> Result<ApplicationId, YarnError> {
        let method = "submitApplication";
        let id =
            context.application_id.ok_or(YarnError::Incomplete { method, field: "application" })?;
        let request = SubmitApplicationRequest { application_submission_context: Some(context) };
        let _: SubmitApplicationResponse = self.call(method, &request).await?;
        loop {
            match self.report(id).await {
                Err(error) if error.is_remote("ApplicationNotFoundException") => {
                    let _: SubmitApplicationResponse = self.call(method, &request).await?;
                }
                Err(error) => return Err(error),
                Ok(report) => match report.state() {
                    YarnApplicationState::New
                    | YarnApplicationState::NewSaving
                    | YarnApplicationState::Submitted => {}
                    state @ (YarnApplicationState::Failed | YarnApplicationState::Killed) => {
                        let diagnostics = report.diagnostics().to_owned();
                        return Err(YarnError::Ended { application: id, state, diagnostics });
                    }
                    _ => return Ok(id),
                },
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// What the ResourceManager says of an application.
    ///
    /// # Errors
    /// An exception `ApplicationNotFoundException` where there is none; see [`YarnError`] for others.
    pub async fn report(&self, id: ApplicationId) -> Result<ApplicationReport, YarnError> {
        let method = "getApplicationReport";
        let request = GetApplicationReportRequest { application_id: Some(id) };
        let response: GetApplicationReportResponse = self.call(method, &request).await?;
        response.application_report.ok_or(YarnError::Incomplete { method, field: "report" })
    }

    /// The applications that a request describes; the default one describes all.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn applications(
        &self,
        request: &GetApplicationsRequest,
    ) -> Result<Vec<ApplicationReport>, YarnError> {
        let response: GetApplicationsResponse = self.call("getApplications", request).await?;
        Ok(response.applications)
    }

    /// Reports of an application, one for each change of its state, attempt or diagnostics.
    #[must_use]
    pub fn watch(&self, id: ApplicationId) -> Watch {
        Watch { client: self.clone(), id, last: None }
    }

    /// Kills an application and waits until it is dead, however long that takes: [`tokio::time::timeout`] bounds
    /// it, and [`with_deadline`](Self::with_deadline) each question. One that has ended before is fine.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn kill(
        &self,
        id: ApplicationId,
        diagnostics: Option<String>,
    ) -> Result<(), YarnError> {
        let request = KillApplicationRequest { application_id: Some(id), diagnostics };
        loop {
            let response: KillApplicationResponse =
                self.call("forceKillApplication", &request).await?;
            if response.is_kill_completed() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Moves an application to another queue.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn move_to_queue(&self, id: ApplicationId, queue: &str) -> Result<(), YarnError> {
        let request = MoveApplicationAcrossQueuesRequest {
            application_id: id,
            target_queue: queue.to_owned(),
        };
        let method = "moveApplicationAcrossQueues";
        let _: MoveApplicationAcrossQueuesResponse = self.call(method, &request).await?;
        Ok(())
    }

    /// Changes an application's priority; gives what it is now.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn set_priority(&self, id: ApplicationId, priority: i32) -> Result<i32, YarnError> {
        let application_priority = Priority { priority: Some(priority) };
        let request = UpdateApplicationPriorityRequest { application_id: id, application_priority };
        let response: UpdateApplicationPriorityResponse =
            self.call("updateApplicationPriority", &request).await?;
        Ok(response.application_priority.map_or(priority, |now| now.priority()))
    }

    /// An application's attempts.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn attempts(
        &self,
        id: ApplicationId,
    ) -> Result<Vec<ApplicationAttemptReport>, YarnError> {
        let request = GetApplicationAttemptsRequest { application_id: Some(id) };
        let response: GetApplicationAttemptsResponse =
            self.call("getApplicationAttempts", &request).await?;
        Ok(response.application_attempts)
    }

    /// An attempt's containers.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn containers(
        &self,
        id: ApplicationAttemptId,
    ) -> Result<Vec<ContainerReport>, YarnError> {
        let request = GetContainersRequest { application_attempt_id: Some(id) };
        let response: GetContainersResponse = self.call("getContainers", &request).await?;
        Ok(response.containers)
    }

    /// A delegation token for the ResourceManagers, which `renewer` may renew. On secure clusters only users with
    /// Kerberos get one. Its service is set to what clients look for.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn delegation_token(&self, renewer: &str) -> Result<Token, YarnError> {
        let method = "getDelegationToken";
        let request = GetDelegationTokenRequest { renewer: renewer.to_owned() };
        let response: GetDelegationTokenResponse = self.call(method, &request).await?;
        let token = response.token.ok_or(YarnError::Incomplete { method, field: "token" })?;
        Ok(Token::from(token).with_service(self.token_service().await?))
    }

    /// What the service of a token is: all ResourceManagers, whichever of them is active. They leave it out.
    async fn token_service(&self) -> Result<String, YarnError> {
        let mut services = Vec::new();
        for rm in self.servers.iter() {
            let found = tokio::net::lookup_host((rm.host.as_str(), rm.port)).await;
            let address = found.ok().and_then(|mut addresses| addresses.next());
            let unknown = || YarnError::Address { host: rm.host.clone() };
            services.push(service_of(&rm.host, address.ok_or_else(unknown)?, self.use_ip));
        }
        Ok(services.join(","))
    }

    /// Renews a delegation token; gives when it expires now, in milliseconds since 1970.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn renew_delegation_token(&self, token: &Token) -> Result<u64, YarnError> {
        let request = RenewDelegationTokenRequest { token: TokenProto::from(token) };
        let response: RenewDelegationTokenResponse =
            self.call("renewDelegationToken", &request).await?;
        Ok(response.new_expiry_time)
    }

    /// Cancels a delegation token.
    ///
    /// # Errors
    /// See [`YarnError`].
    pub async fn cancel_delegation_token(&self, token: &Token) -> Result<(), YarnError> {
        let request = CancelDelegationTokenRequest { token: TokenProto::from(token) };
        let _: CancelDelegationTokenResponse = self.call("cancelDelegationToken", &request).await?;
        Ok(())
    }
}

/// A queue's full path; older ResourceManagers give names only, and some of those are paths already.
fn path_of(parent: &str, queue: &QueueInfo) -> String {
    let name = queue.queue_name();
    match queue.queue_path.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => path.to_owned(),
        None if parent.is_empty() || name.starts_with(&format!("{parent}.")) => name.to_owned(),
        None => format!("{parent}.{name}"),
    }
}

impl Resource {
    /// Whether a container of this size may be asked for where `maximum` is the largest.
    ///
    /// # Errors
    /// [`YarnError::Capability`] with the first resource of which it is too much.
    pub fn check(&self, maximum: &Self) -> Result<(), YarnError> {
        let over = |resource: &str, wanted: i64, maximum: i64| match wanted > maximum {
            true => Err(YarnError::Capability { resource: resource.to_owned(), wanted, maximum }),
            false => Ok(()),
        };
        over("MiB of memory", self.memory(), maximum.memory())?;
        over("cores", self.virtual_cores().into(), maximum.virtual_cores().into())?;
        for wanted in &self.resource_value_map {
            let known = maximum.resource_value_map.iter().find(|known| known.key == wanted.key);
            // Units differ where somebody chose others; the ResourceManager converts and checks those.
            let known = known.filter(|known| known.units() == wanted.units());
            if let Some(known) = known {
                over(&wanted.key, wanted.value(), known.value())?;
            }
        }
        Ok(())
    }
}

/// Reports of one application.
#[derive(Debug)]
pub struct Watch {
    client: YarnClient,
    id: ApplicationId,
    last: Option<ApplicationReport>,
}

impl Watch {
    /// The next report that says something new: of the state, the attempt or the diagnostics. Asks every
    /// 250 ms until the application runs, then every second. `None` after the report of its end.
    ///
    /// # Errors
    /// See [`YarnError`]. It can be asked again then.
    pub async fn next(&mut self) -> Result<Option<ApplicationReport>, YarnError> {
        loop {
            match self.last.as_ref().map(ApplicationReport::state) {
                None => {}
                Some(
                    YarnApplicationState::Finished
                    | YarnApplicationState::Failed
                    | YarnApplicationState::Killed,
                ) => return Ok(None),
                Some(YarnApplicationState::Running) => tokio::time::sleep(POLL_RUNNING).await,
                Some(_) => tokio::time::sleep(POLL_STARTING).await,
            }
            let report = self.client.report(self.id).await?;
            let says = |report: &ApplicationReport| {
                (report.state(), report.current_application_attempt_id, report.diagnostics.clone())
            };
            let is_new = self.last.as_ref().is_none_or(|last| says(last) != says(&report));
            self.last = Some(report.clone());
            if is_new {
                return Ok(Some(report));
            }
        }
    }
}
