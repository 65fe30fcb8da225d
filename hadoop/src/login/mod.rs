//! Names the user that this process is for Hadoop: a user name, or a Kerberos principal from a ticket cache or keytab;
//! the tokens that the user holds; and other users that this one acts for. Decides how each server is authenticated to.
//! Nothing secret is shown, and nothing here talks to a server but Kerberos'.
//!
//! # Renewal
//!
//! Kerberos tickets are renewed after four fifths of their life, by a task that ends with the last [`Login`] (or
//! [`Target`]) of the user, and before a connection is set up with older ones. Where a server refuses them, they
//! are renewed as well, and the connection is tried again a few times. Two renewals are at least
//! `hadoop.kerberos.min.seconds.before.relogin` (60) apart. One that fails is logged, and the old tickets stay in
//! use. So do they where somebody else has logged in to the ticket cache. Nothing is to be done by the program; but the
//! task belongs to the runtime that logged in, and ends with it.
//!
//! ```no_run
//! use hadoop::{conf::Configuration, login::{Login, Service}};
//!
//! # async fn example() -> Result<(), hadoop::login::LoginError> {
//! let conf = Configuration::load()?;
//! let login = Login::current(&conf).await?;
//! let target = login.target(Service::ResourceManager, "rm.example.org", 8032).await?;
//! # let _ = target;
//! # Ok(()) }
//! ```

mod host;
mod kerberos;
mod renewal;
mod service;
#[cfg(test)]
mod tests;

pub use service::Service;

use crate::client::{Auth, Target};
use crate::conf::{ConfError, Configuration};
use crate::gssapi::{CredentialSource, GssError, Initiator as _};
use crate::rpc::Protocol;
use crate::rpc::header::UserInformation;
use crate::sasl::{Cipher, Kerberos, Qop, SaslConfig, ServerPrincipal, SimpleFallback};
use crate::tokens::{Credentials, Token, TokenError, service_of};
use host::canonical;
use kerberos::Tickets;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// The reason why a login, the renewal of its Kerberos tickets (`Gss`, `Renew`, `OtherUser`, `Stopped`), or the choice of a way to
/// authenticate at a server (`Conf`) failed. After a failed renewal the old tickets stay in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The configuration could not be read, lacks a property, or has one with a wrong value.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// The token file that `HADOOP_TOKEN_FILE_LOCATION` names could not be read, or holds no token storage.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Kerberos refused, gave no tickets, or cannot be used on this machine.
    #[error(transparent)]
    Gss(#[from] GssError),
    /// The operating system does not know this process's user, and `HADOOP_USER_NAME` is not set.
    #[error("no user name: set HADOOP_USER_NAME")]
    NoUser,
    /// `KRB5KEYTAB` names a keytab, and `KRB5PRINCIPAL`, which has to name the user in it, is not set.
    #[error("KRB5KEYTAB is set and KRB5PRINCIPAL is not")]
    NoPrincipal,
    /// The command that renews a ticket cache (`kinit -R`) failed, and the cache holds no newer tickets either; the old Kerberos
    /// tickets stay in use.
    #[error("cannot renew Kerberos tickets by {command}: {reason}")]
    Renew {
        /// The command that was run.
        command: String,
        /// The command's error output, or why it did not run to its end, such as its limit of 60 s.
        reason: String,
    },
    /// Another user has logged in to the ticket cache since this login; this login's old tickets stay in use.
    #[error("{from} now holds tickets of {now}, this login was for {was}; log in again")]
    OtherUser {
        /// The ticket cache, in words for users, such as `the default ticket cache`.
        from: String,
        /// The principal that this login is for.
        was: String,
        /// The principal that the cache holds now.
        now: String,
    },
    /// The tokio runtime is shutting down, so that its threads do not wait for Kerberos any more.
    #[error("the runtime is shutting down")]
    Stopped,
}

/// The configuration's properties about security.
#[derive(Debug, Clone)]
struct Security {
    kerberos: bool,
    simple: SimpleFallback,
    qops: Vec<Qop>,
    use_ip: bool,
    /// Kerberos names of the services.
    principals: Vec<(Service, Option<ServerPrincipal>)>,
    kinit: String,
    /// Between two logins at least.
    between: Duration,
}

impl Security {
    fn from_conf(conf: &Configuration) -> Result<Self, ConfError> {
        let wrong = |name: &str, expected| ConfError::Type { name: name.to_owned(), expected };
        let method = conf.get_trimmed("hadoop.security.authentication")?;
        let kerberos = match method.unwrap_or_default().to_ascii_lowercase().as_str() {
            "kerberos" => true,
            "" | "simple" => false,
            _ => return Err(wrong("hadoop.security.authentication", "simple or kerberos")),
        };
        let mut qops = Vec::new();
        for name in conf.get_list("hadoop.rpc.protection")? {
            let expected = "of authentication, integrity and privacy";
            qops.push(
                Qop::from_hadoop(&name).ok_or_else(|| wrong("hadoop.rpc.protection", expected))?,
            );
        }
        if qops.is_empty() {
            qops.push(Qop::Authentication);
        }
        let mut principals = Vec::new();
        for service in Service::ALL {
            let key = service.principal_property();
            let pattern =
                conf.get_trimmed(&format!("{key}.pattern"))?.map(ServerPrincipal::Pattern);
            let exact = conf.get_trimmed(key)?.map(ServerPrincipal::Exact);
            principals.push((service, pattern.or(exact)));
        }
        let fallback = conf.get_bool("ipc.client.fallback-to-simple-auth-allowed")?;
        let between = conf.get_i64("hadoop.kerberos.min.seconds.before.relogin")?.unwrap_or(60);
        let kinit = conf.get_trimmed("hadoop.kerberos.kinit.command")?;
        Ok(Self {
            kerberos,
            simple: match fallback {
                Some(true) => SimpleFallback::Allow,
                _ => SimpleFallback::Refuse,
            },
            qops,
            use_ip: conf.get_bool("hadoop.security.token.service.use_ip")?.unwrap_or(true),
            principals,
            kinit: kinit.unwrap_or_else(|| "kinit".to_owned()),
            between: Duration::from_secs(u64::try_from(between).unwrap_or(0)),
        })
    }
}

/// A user of Hadoop, as whom servers are called: a name, tokens, and perhaps Kerberos tickets, which a task of the runtime renews while a
/// clone lives; with what the configuration says about security when it was made. Tokens are never renewed. It has no connections:
/// [`Login::target`] makes what a [`Client`](crate::client::Client) connects with. Clones are the same user with the same tokens.
#[derive(Clone)]
pub struct Login(Arc<Inner>);

struct Inner {
    /// `alice`, or with Kerberos `alice@EXAMPLE.ORG`.
    user: String,
    /// The user that acts for this one; `None` if this user acts itself.
    real: Option<Login>,
    credentials: RwLock<Credentials>,
    tickets: Option<Tickets>,
    security: Security,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.0.user)
            .field("real", &self.0.real.as_ref().map(Self::user))
            .field("kerberos", &self.0.tickets.is_some())
            .finish_non_exhaustive()
    }
}

impl Login {
    /// Logs in the user that Hadoop's own commands would be here. Where `hadoop.security.authentication` is `kerberos`, that is
    /// `KRB5PRINCIPAL` by the keytab `KRB5KEYTAB` if they are set, else the owner of the ticket cache (`kinit -R` is run if that gives no
    /// valid ticket); a KDC may be asked, and the tickets are renewed from then on. Otherwise it is `HADOOP_USER_NAME` or the operating
    /// system's user. The user has the tokens of `HADOOP_TOKEN_FILE_LOCATION`. If `HADOOP_PROXY_USER` is set, returns the user that it
    /// names, for whom the other one acts, and who begins without tokens ([`Login::proxy`]). A process that has tokens and gets no Kerberos
    /// tickets, such as a container, logs in by its user name.
    ///
    /// # Errors
    /// Fails with a [`LoginError`] if a security property or the token file cannot be used, there is no user name, `KRB5KEYTAB` is set
    /// without `KRB5PRINCIPAL`, or, without tokens, Kerberos gives no tickets.
    pub async fn current(conf: &Configuration) -> Result<Self, LoginError> {
        let security = Security::from_conf(conf)?;
        let credentials = Credentials::from_environment()?;
        let login = if security.kerberos {
            let keytab = std::env::var_os("KRB5KEYTAB").filter(|path| !path.is_empty());
            let principal = std::env::var("KRB5PRINCIPAL").ok().filter(|name| !name.is_empty());
            let source = match (keytab.map(PathBuf::from), principal) {
                (None, _) => CredentialSource::TicketCache(None),
                (Some(_), None) => return Err(LoginError::NoPrincipal),
                (Some(keytab), Some(principal)) => {
                    CredentialSource::Keytab { principal: with_own_host(&principal), keytab }
                }
            };
            match Tickets::acquire(source, &security).await {
                Ok(tickets) => Self::new(tickets.principal(), Some(tickets), credentials, security),
                Err(error) if credentials.tokens().next().is_none() => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "no Kerberos tickets; tokens are used");
                    Self::new(user_name(conf)?, None, credentials, security)
                }
            }
        } else {
            Self::new(user_name(conf)?, None, credentials, security)
        };
        let proxied = std::env::var("HADOOP_PROXY_USER").ok().filter(|user| !user.is_empty());
        Ok(match proxied {
            Some(user) => login.proxy(user),
            None => login,
        })
    }

    /// Returns the user of this name, with these tokens and without Kerberos. Asks no server and reads no token file.
    ///
    /// # Errors
    /// Fails with [`LoginError::Conf`] for a property about security that cannot be used.
    pub fn simple(
        conf: &Configuration,
        user: impl Into<String>,
        credentials: Credentials,
    ) -> Result<Self, LoginError> {
        Ok(Self::new(user.into(), None, credentials, Security::from_conf(conf)?))
    }

    /// Logs in a principal by its key in a keytab file, with the tokens of `HADOOP_TOKEN_FILE_LOCATION`. `_HOST` in the
    /// principal is replaced by this machine's name. Asks a Kerberos server (KDC), and renews the tickets from then on.
    ///
    /// # Errors
    /// Fails with a [`LoginError`] if a security property or the token file cannot be used, or Kerberos gives no
    /// tickets.
    pub async fn from_keytab(
        conf: &Configuration,
        principal: &str,
        keytab: &Path,
    ) -> Result<Self, LoginError> {
        let security = Security::from_conf(conf)?;
        let principal = with_own_host(principal);
        let source = CredentialSource::Keytab { principal, keytab: keytab.to_owned() };
        let tickets = Tickets::acquire(source, &security).await?;
        let credentials = Credentials::from_environment()?;
        Ok(Self::new(tickets.principal(), Some(tickets), credentials, security))
    }

    fn new(
        user: String,
        tickets: Option<Tickets>,
        credentials: Credentials,
        security: Security,
    ) -> Self {
        let credentials = RwLock::new(credentials);
        Self(Arc::new(Inner { user, real: None, credentials, tickets, security }))
    }

    /// Returns another user, for whom this one acts (a proxy user). The other begins without tokens and authenticates by this user's
    /// Kerberos tickets; this user's tokens are not used. Servers must allow it (`hadoop.proxyuser.…`), which is not checked here. Asks no
    /// server.
    #[must_use]
    pub fn proxy(&self, user: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            user: user.into(),
            real: Some(self.clone()),
            credentials: RwLock::default(),
            tickets: None,
            security: self.0.security.clone(),
        }))
    }

    /// Returns the user's full name: `alice`, or with Kerberos the principal `alice@EXAMPLE.ORG`.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.0.user
    }

    /// Returns the user's name without host and realm, which is what Hadoop's default rule makes of a principal:
    /// `alice` of `alice/host@EXAMPLE.ORG`.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.0.user.split(['/', '@']).next().unwrap_or_default()
    }

    /// Returns the real user, who acts for this proxy user; `None` if this is no proxy user.
    #[must_use]
    pub fn real(&self) -> Option<&Self> {
        self.0.real.as_ref()
    }

    /// Returns true if the configuration says that the cluster authenticates by Kerberos
    /// (`hadoop.security.authentication` is `kerberos`).
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.security.kerberos
    }

    /// Returns the principal and the path of the keytab that this user logged in with, for libraries that log in by
    /// themselves; `None` for any other login.
    #[must_use]
    pub fn keytab(&self) -> Option<(&str, &Path)> {
        self.0.tickets.as_ref().and_then(Tickets::keytab)
    }

    /// Returns a copy of the user's tokens and secret keys as they are now.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        self.0.credentials.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds tokens and secret keys to those of this user and all its clones, in place of those with the same aliases.
    /// Targets that were made before keep their token.
    pub fn add_credentials(&self, more: Credentials) {
        self.0.credentials.write().unwrap_or_else(PoisonError::into_inner).extend(more);
    }

    /// Adds one token to those of this user and all its clones, in place of one with the same alias. Targets that were
    /// made before keep their token.
    pub fn add_token(&self, alias: impl Into<String>, token: Token) {
        self.0.credentials.write().unwrap_or_else(PoisonError::into_inner).add(alias, token);
    }

    /// Returns the target by which a client calls this service as this user: with the user's token for it, Kerberos
    /// tickets (if there are both, the server chooses), or without authentication where the cluster has none. Calls no
    /// server, but looks the host up if the user has a token of the service's kind, or if the principal has `_HOST` and
    /// `host` is an address. In a secure cluster a user with neither gets a target, too, whose connections fail
    /// (unless `ipc.client.fallback-to-simple-auth-allowed` is set and the server wants no authentication).
    ///
    /// # Errors
    /// Fails with [`LoginError::Conf`] if there is no token, the user has Kerberos tickets that the service takes, and
    /// the configuration does not name the service's principal.
    pub async fn target(
        &self,
        service: Service,
        host: &str,
        port: u16,
    ) -> Result<Target, LoginError> {
        let token = self.token_for(service, host, port).await;
        self.target_with(service, host, port, token).await
    }

    /// Returns the target by which a client calls this service as this user with `token`, such as a NodeManager's; with
    /// `None` by Kerberos, or without authentication where the cluster has none. The user's own tokens are not used.
    /// Looks the host's name up only if the principal has `_HOST` and `host` is an address.
    ///
    /// # Errors
    /// Fails as [`Login::target`] does.
    pub async fn target_with(
        &self,
        service: Service,
        host: &str,
        port: u16,
        token: Option<Token>,
    ) -> Result<Target, LoginError> {
        let security = &self.0.security;
        let tickets = match &self.0.real {
            Some(real) => real.0.tickets.as_ref(),
            None => self.0.tickets.as_ref(),
        };
        let kerberos = match tickets.filter(|_| security.kerberos && service.takes_kerberos()) {
            None => None,
            Some(tickets) => match (self.principal(service, host).await, &token) {
                (Some(server), _) => Some(Kerberos { initiator: tickets.initiator(), server }),
                (None, Some(_)) => None,
                (None, None) => {
                    let name = service.principal_property().to_owned();
                    let why = "the server's Kerberos principal must be known";
                    return Err(ConfError::Missing { name, why }.into());
                }
            },
        };
        let auth = match token.is_some() || security.kerberos {
            false => Auth::Simple,
            true => Auth::Sasl(Box::new(SaslConfig {
                token,
                kerberos,
                simple: security.simple,
                qops: security.qops.clone(),
                ciphers: Cipher::STRONG.to_vec(),
            })),
        };
        let real = self.0.real.as_ref().map(|real| real.user().to_owned());
        let user = UserInformation { effective: Some(self.0.user.clone()), real };
        let protocol = Protocol::new(service.protocol());
        Ok(Target { host: host.to_owned(), port, protocol, user, auth })
    }

    /// Returns the principal that the service on `host` must have; `None` if the configuration names none. `_HOST`
    /// becomes the host's name, also where `host` is an address; an address without a name stays as it is, as with
    /// Java's clients.
    async fn principal(&self, service: Service, host: &str) -> Option<ServerPrincipal> {
        let known = self.0.security.principals.iter().find(|(known, _)| *known == service);
        match known.and_then(|(_, principal)| principal.clone())? {
            ServerPrincipal::Exact(name) => {
                // As Java's clients: an address without a name stays.
                let named = with_named_host(&name, host).await;
                Some(ServerPrincipal::Exact(named.unwrap_or_else(|| with_host(&name, host))))
            }
            pattern @ ServerPrincipal::Pattern(_) => Some(pattern),
        }
    }

    /// The token for a service, by its address in either spelling, or one of its kind for any address.
    async fn token_for(&self, service: Service, host: &str, port: u16) -> Option<Token> {
        let kind = service.token_kind();
        let credentials = self.credentials();
        credentials.by_kind(kind)?;
        let addresses: Vec<_> = match tokio::net::lookup_host((host, port)).await {
            Ok(addresses) => addresses.collect(),
            // Whoever connects says that there is no such host.
            Err(_) => Vec::new(),
        };
        let use_ip = self.0.security.use_ip;
        let by_name = format!("{}:{port}", host.to_ascii_lowercase());
        let services = addresses.iter().map(|address| service_of(host, *address, use_ip));
        let found = services
            .chain([by_name])
            .find_map(|service| credentials.by_service(kind, &service).cloned());
        // YARN gives the token of an ApplicationMaster without its service.
        found.or_else(|| {
            let anywhere =
                |token: &&Token| token.service().is_empty() || service == Service::Scheduler;
            credentials.by_kind(kind).filter(anywhere).cloned()
        })
    }

    /// Returns the time until the Kerberos tickets are due for renewal: until four fifths of the life that they had
    /// when this process acquired them; zero after that. A proxy user's are those of the real user. `None` without
    /// tickets, or with ones that last for ever.
    #[must_use]
    pub fn renew_in(&self) -> Option<Duration> {
        match (&self.0.tickets, &self.0.real) {
            (Some(tickets), _) => tickets.renew_in(),
            (None, Some(real)) => real.renew_in(),
            (None, None) => None,
        }
    }

    /// Makes the Kerberos tickets look older by `by`.
    #[cfg(test)]
    pub(crate) fn age(&self, by: Duration) {
        self.0.tickets.as_ref().unwrap().age(by);
    }

    /// Renews the Kerberos tickets now, also if they were renewed just before: a keytab's by a new login, a ticket cache's by `kinit -R`
    /// or, if that fails, by newer ones that somebody else has put into the cache; of a proxy user, those of the real user. Waits for a
    /// renewal that is under way first, and then for its own; it goes on if this future is dropped. Does nothing without tickets; open
    /// connections stay as they are. Seldom needed, because tickets are renewed as they age, as [the module says](self).
    ///
    /// # Errors
    /// Fails with a [`LoginError`] (`Gss`, `Renew`, `OtherUser` or `Stopped`) if no newer tickets can be had, or they are another user's.
    /// The old tickets stay in use.
    pub async fn renew(&self) -> Result<(), LoginError> {
        match (&self.0.tickets, &self.0.real) {
            (Some(tickets), _) => tickets.renew().await,
            (None, Some(real)) => Box::pin(real.renew()).await,
            (None, None) => Ok(()),
        }
    }
}

/// A principal with `_HOST` as its host part replaced by this machine's name.
fn with_own_host(principal: &str) -> String {
    let host = nix::unistd::gethostname().ok().and_then(|host| host.into_string().ok());
    with_host(principal, &host.unwrap_or_default())
}

/// A principal with `_HOST` as its host part replaced by a host's name, which may be looked up; `None` where there
/// is no name.
pub(crate) async fn with_named_host(principal: &str, host: &str) -> Option<String> {
    match with_host(principal, host) {
        same if same == principal => Some(same),
        _ => Some(with_host(principal, &canonical(host).await?)),
    }
}

/// A principal with `_HOST` as its host part replaced.
fn with_host(principal: &str, host: &str) -> String {
    match principal.split_once("/_HOST") {
        Some((service, realm)) if realm.is_empty() || realm.starts_with('@') => {
            format!("{service}/{}{realm}", host.to_ascii_lowercase())
        }
        _ => principal.to_owned(),
    }
}

/// `HADOOP_USER_NAME`, or the operating system's name for this process's user.
fn user_name(conf: &Configuration) -> Result<String, LoginError> {
    if let Some(name) = conf.environment("HADOOP_USER_NAME") {
        return Ok(name.to_owned());
    }
    if let Ok(name) = std::env::var("HADOOP_USER_NAME")
        && !name.is_empty()
    {
        return Ok(name);
    }
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    user.map(|user| user.name).ok_or(LoginError::NoUser)
}
