//! A client of the ResourceManager: nodes, queues, applications, tokens. It survives restarts and failovers of
//! ResourceManagers as the configuration says; what a failure means is decided below it.

mod applications;
mod attempts;
mod nodes;
mod queues;
mod tokens;

pub use applications::Watch;
#[cfg(test)]
pub(super) use applications::iso8601;

use super::resource_manager::connections;
use super::{ResourceManager, YarnError, resource_managers, retry_policy};
use crate::client::{CallOptions, Client, Proxy};
use crate::conf::Configuration;
use crate::login::{Login, Service};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

/// A client of a cluster's ResourceManager, by which users submit, watch and end applications, look at queues and nodes, and get delegation
/// tokens. Each call goes to the active ResourceManager and is tried again as the configuration says ([`retry_policy`]), by default until
/// the pauses between its tries come to about 15 minutes. The client has the login's tokens of the time when it was made; it keeps nothing
/// of what it asked. Clones share connections.
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
    /// Makes a client for the ResourceManagers of the configuration, with connections of its own. Calls no
    /// ResourceManager yet, but may look their hosts up.
    ///
    /// # Errors
    /// Fails with [`YarnError::Conf`] for a configuration that is wrong or incomplete, [`YarnError::Login`] if Kerberos is
    /// to be used and the configuration does not name the ResourceManagers' principal. A user of a secure cluster without
    /// tokens and tickets is no error here; the calls fail then.
    pub async fn new(conf: &Configuration, login: Login) -> Result<Self, YarnError> {
        Self::with_client(conf, login, Client::new(connections(conf)?)).await
    }

    /// Makes a client for the ResourceManagers of the configuration, like [`YarnClient::new`], that uses the
    /// connections and the options of `client` instead of its own.
    ///
    /// # Errors
    /// Fails as [`YarnClient::new`] does.
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

    /// Returns this client with a bound for each of its calls: all tries and pauses of one call together take at most
    /// `deadline`, even if the configuration allows more. Clones that were made before do not change.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.options.deadline = Some(deadline);
        self
    }

    /// Calls any method of ApplicationClientProtocol, the ResourceManager's service for clients, at the active one, and
    /// repeats the call there or at another one as the configuration says: the method must be idempotent.
    ///
    /// # Errors
    /// Fails with `YarnError::Call` and the last try's [`CallError`](crate::rpc::CallError).
    pub async fn call<Q: Message, R: Message + Default>(
        &self,
        method: &str,
        request: &Q,
    ) -> Result<R, YarnError> {
        Ok(self.proxy.call(method, request, self.options).await?)
    }
}
