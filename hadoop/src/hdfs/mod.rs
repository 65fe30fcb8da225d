//! Delegation tokens of HDFS: the one thing that an application on YARN needs of a NameNode and that
//! HDFS clients may not offer. Files are not read or written here.
//!
//! A user with Kerberos gets tokens here before submitting, hands them to its containers in a token storage
//! (`ContainerLaunchContext.tokens`), and any HDFS client there finds them through
//! `HADOOP_TOKEN_FILE_LOCATION`.

mod name_nodes;
#[cfg(test)]
mod tests;

pub use name_nodes::{FileSystem, NameNode};

use crate::client::{CallOptions, Client, Options, Proxy, connect_retries};
use crate::conf::{ConfError, Configuration};
use crate::login::{Login, LoginError, Service};
use crate::rpc::{CallError, RetryPolicy};
use crate::tokens::{Token, TokenProto, kinds, service_of};
use crate::yarn::messages::{
    CancelDelegationTokenRequest, CancelDelegationTokenResponse, GetDelegationTokenRequest,
    GetDelegationTokenResponse, RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};
use std::time::Duration;

/// The reason why a request about HDFS's delegation tokens failed: a call, the configuration or login for it, a cluster that gives no
/// tokens, or a NameNode without an address. [`HdfsTokens`] returns it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HdfsError {
    /// A call to a NameNode failed after all tries, or with an exception of the NameNode's that is not tried again.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The configuration could not be read, lacks a property, or has a wrong value; also for a URI that is none of
    /// HDFS.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The user is to authenticate at a NameNode by Kerberos, and the configuration does not name the NameNode's principal
    /// (from [`HdfsTokens::new`]); or a program has turned the error of its own login into this one.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The NameNode gave no token, because security is off in its cluster; the value is the file system's URI.
    #[error("the NameNode of {0} gives no tokens: security is off there")]
    NoToken(String),
    /// The NameNode's host has no address to name the service of a new token by; the value is the file system's URI. The NameNode
    /// has issued the token already; it is lost.
    #[error("the NameNode's host {0} has no address")]
    NoAddress(String),
}

/// Returns the URI of the file system that a token is for, as the token names it: `hdfs://10.1.2.3:8020` or
/// `hdfs://name`. `None` for a token that is no HDFS delegation token, or has no service. Looks nothing up.
///
/// Hadoop's clients look for a token by the address of their NameNode. Others, such as `hdfs-native`, look for it by
/// the host in their URI, and miss it if that is a name and the token's service an address. A process in a container,
/// which has nothing but its tokens, should give such a client this URI.
#[must_use]
pub fn uri_of(token: &Token) -> Option<String> {
    let service = token.service();
    let is_one = token.kind() == kinds::HDFS_DELEGATION && !service.is_empty();
    is_one.then(|| format!("hdfs://{}", service.strip_prefix("ha-hdfs:").unwrap_or(service)))
}

/// A client of one file system's NameNodes that gets, renews and cancels delegation tokens, by which an application's processes
/// authenticate there; reads and writes no files. Asks the NameNodes in turn until the active one answers (at most 15 failovers). The
/// tokens are returned, not kept, and it renews none by itself. It authenticates with what the login had when it was made.
#[derive(Debug)]
pub struct HdfsTokens {
    proxy: Proxy,
    file_system: FileSystem,
    use_ip: bool,
}

impl HdfsTokens {
    /// Makes a client for the file system of a URI (`hdfs://name-or-host:port`), or of `fs.defaultFS` where none is
    /// given. Calls no NameNode, but may look hosts up.
    ///
    /// # Errors
    /// Fails with [`HdfsError::Conf`] for a configuration or URI that is wrong, [`HdfsError::Login`] if Kerberos is to be
    /// used and the configuration does not name the NameNodes' principal. A user of a secure cluster without tokens and
    /// tickets is no error here; the calls fail then.
    pub async fn new(
        conf: &Configuration,
        login: &Login,
        uri: Option<&str>,
    ) -> Result<Self, HdfsError> {
        let file_system = FileSystem::from_conf(conf, uri)?;
        let held = login.credentials();
        let mut targets = Vec::new();
        for node in &file_system.name_nodes {
            let service = Service::NameNode;
            // The token of a file system with several NameNodes is for all of them.
            let logical = file_system.logical_service();
            let token =
                logical.and_then(|name| held.by_service(service.token_kind(), &name).cloned());
            targets.push(match token {
                Some(token) => {
                    login.target_with(service, &node.host, node.port, Some(token)).await?
                }
                None => login.target(service, &node.host, node.port).await?,
            });
        }
        let use_ip = conf.get_bool("hadoop.security.token.service.use_ip")?.unwrap_or(true);
        let mut options = Options::from_conf(conf)?;
        if targets.len() > 1 {
            // The next one is asked rather than the same one again.
            let retries = "dfs.client.failover.connection.retries";
            options.connect_retries = connect_retries(conf, retries)?;
        }
        let client = Client::new(options);
        // Hadoop's own values of dfs.client.failover.….
        let policy = RetryPolicy::FailOver {
            failovers: 15,
            retries: 10,
            base: Duration::from_millis(500),
            max: Duration::from_secs(15),
        };
        Ok(Self { proxy: Proxy::new(client, targets, policy), file_system, use_ip })
    }

    /// Returns the file system that the tokens are for: that of the URI given to `new`, or of `fs.defaultFS`.
    #[must_use]
    pub fn file_system(&self) -> &FileSystem {
        &self.file_system
    }

    /// Gets a new delegation token of this user from the active NameNode; only `renewer` may renew it (for YARN the ResourceManager's
    /// principal). Its service is set to the name by which HDFS clients look for tokens of this file system, for which the NameNode's host
    /// may be looked up. The token is not added to the login. Each call has a token issued; one whose answer was lost stays valid until it
    /// expires.
    ///
    /// # Errors
    /// Fails with `HdfsError::NoToken` if the cluster has no security, `HdfsError::NoAddress` if the NameNode's host is not found,
    /// `HdfsError::Call` if no active NameNode answers after all tries, or for its exception, for example because the user has come with a
    /// token and not with Kerberos.
    pub async fn get(&self, renewer: &str) -> Result<Token, HdfsError> {
        let request = GetDelegationTokenRequest { renewer: renewer.to_owned() };
        let options = CallOptions { idempotent: true, ..CallOptions::default() };
        let response: GetDelegationTokenResponse =
            self.proxy.call("getDelegationToken", &request, options).await?;
        let none = || HdfsError::NoToken(self.file_system.uri.clone());
        let token = Token::from(response.token.ok_or_else(none)?);
        Ok(token.with_service(self.service().await?))
    }

    /// Returns the service that a token for this file system carries: `ha-hdfs:NAME` for a logical name, else the
    /// NameNode's address. Looks the NameNode's host up.
    ///
    /// # Errors
    /// Fails with [`HdfsError::NoAddress`].
    async fn service(&self) -> Result<String, HdfsError> {
        if let Some(service) = self.file_system.logical_service() {
            return Ok(service);
        }
        let node = self.file_system.name_nodes.first();
        let none = || HdfsError::NoAddress(self.file_system.uri.clone());
        let node = node.ok_or_else(none)?;
        let found = tokio::net::lookup_host((node.host.as_str(), node.port)).await;
        let address = found.ok().and_then(|mut addresses| addresses.next()).ok_or_else(none)?;
        Ok(service_of(&node.host, address, self.use_ip))
    }

    /// Renews a delegation token at the active NameNode. Returns its new expiry in milliseconds since 1970, at most the end that was set
    /// when the token was issued. Only the token's renewer may do this, authenticated by Kerberos. The token itself stays the same.
    ///
    /// # Errors
    /// Fails with `HdfsError::Call` if no active NameNode answers after all tries, or for its exception, for example because the user may
    /// not do this, or the token is cancelled or expired already.
    pub async fn renew(&self, token: &Token) -> Result<u64, HdfsError> {
        let request = RenewDelegationTokenRequest { token: TokenProto::from(token) };
        let response: RenewDelegationTokenResponse =
            self.proxy.call("renewDelegationToken", &request, CallOptions::default()).await?;
        Ok(response.new_expiry_time)
    }

    /// Cancels a delegation token at the active NameNode; nobody can use it afterwards. Its owner and its renewer may do this.
    ///
    /// # Errors
    /// Fails with `HdfsError::Call` if no active NameNode answers after all tries, or for its exception, for example because the user may
    /// not do this, or the token is cancelled or expired already.
    pub async fn cancel(&self, token: &Token) -> Result<(), HdfsError> {
        let request = CancelDelegationTokenRequest { token: TokenProto::from(token) };
        let _: CancelDelegationTokenResponse =
            self.proxy.call("cancelDelegationToken", &request, CallOptions::default()).await?;
        Ok(())
    }
}
