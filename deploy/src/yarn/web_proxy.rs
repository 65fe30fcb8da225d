//! Decides who may use the REST endpoint of this application: holders of the token in the container's credentials, and YARN's
//! web proxy, whose hosts are in the application's Hadoop configuration.
//!
//! Hosts are looked up when a request without the token comes, never at the start or the end of the process.

use super::container::{Container, ContainerError};
use super::contract::USER_VARIABLE;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use hadoop::conf::{ConfError, Configuration};
use hadoop::yarn::{WebAddress, web_proxies};
use platform::Platform;
use rest::access::{Access, ProxyAddresses, WebProxy};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Time for which addresses are used before they are looked up again; Hadoop's own filter has the
/// same.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// Pause before a host that was not found is looked up again.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Longest a lookup delays a request.
const LOOKUP_WITHIN: Duration = Duration::from_secs(5);
/// The user of pages on clusters without authentication, unless the configuration names another.
const STATIC_USER: &str = "dr.who";

/// Returns the rules by which the REST endpoint allows requests; `None` if the application was
/// submitted without a token.
///
/// # Errors
/// Credentials or a configuration that cannot be read.
pub(crate) fn access(
    container: &Container,
    platform: &Platform,
) -> Result<Option<Access>, ContainerError> {
    let Some(token) = container.rest_token()? else { return Ok(None) };
    let submitter = std::env::var(USER_VARIABLE).ok();
    let proxy = web_proxy(&container.hadoop_conf()?, submitter, platform);
    // The token opens the endpoint all the same.
    let proxy = proxy.inspect_err(|error| {
        tracing::warn!(%error, "REST answers nothing through YARN's web proxy: its address is unknown");
    });
    Ok(Some(Access { token, proxy: proxy.ok() }))
}

fn web_proxy(
    conf: &Configuration,
    submitter: Option<String>,
    platform: &Platform,
) -> Result<WebProxy, ConfError> {
    let addresses = web_proxies(conf)?;
    let mut users: Vec<String> = submitter.into_iter().collect();
    let method = conf.get_trimmed("hadoop.security.authentication")?;
    if !method.is_some_and(|method| method.eq_ignore_ascii_case("kerberos")) {
        let user = conf.get_trimmed("hadoop.http.staticuser.user")?;
        users.push(user.unwrap_or_else(|| STATIC_USER.to_owned()));
    }
    Ok(WebProxy {
        origins: addresses.iter().map(WebAddress::origin).collect(),
        addresses: Arc::new(Hosts::new(
            platform.clone(),
            addresses.into_iter().map(|address| address.host),
        )),
        users,
    })
}

/// Hosts with the addresses that they had when they were looked up last.
struct Hosts {
    platform: Platform,
    known: Arc<Mutex<Known>>,
}

struct Known {
    hosts: Vec<(String, Vec<IpAddr>)>,
    /// Monotonic time at which the addresses are looked up again; `None`: at the next request.
    until: Option<Duration>,
}

impl Hosts {
    fn new(platform: Platform, hosts: impl Iterator<Item = String>) -> Self {
        let hosts = hosts.map(|host| (host, Vec::new())).collect();
        Self { platform, known: Arc::new(Mutex::new(Known { hosts, until: None })) }
    }
}

impl ProxyAddresses for Hosts {
    fn addresses(&self) -> BoxFuture<'static, Arc<[IpAddr]>> {
        let (platform, known) = (self.platform.clone(), self.known.clone());
        async move {
            // Others wait here for the lookup that is under way.
            let mut known = known.lock().await;
            if known.until.is_none_or(|until| until <= platform.now()) {
                let all_found = known.look_up().await;
                let fresh_for = if all_found { FRESH_FOR } else { RETRY_AFTER };
                known.until = Some(platform.now() + fresh_for);
            }
            known.hosts.iter().flat_map(|(_, addresses)| addresses).copied().collect()
        }
        .boxed()
    }
}

impl Known {
    /// Looks all hosts up, on threads for such waits. Returns whether all were found; one that was not keeps the
    /// addresses that it had.
    async fn look_up(&mut self) -> bool {
        let found = join_all(self.hosts.iter().map(|(host, _)| look_up(host))).await;
        let mut all_found = true;
        for ((_, addresses), found) in self.hosts.iter_mut().zip(found) {
            match found {
                Some(found) => *addresses = found,
                None => all_found = false,
            }
        }
        all_found
    }
}

/// Looks up the addresses of a host; `None` if they are not known in time.
async fn look_up(host: &str) -> Option<Vec<IpAddr>> {
    let looked = tokio::time::timeout(LOOKUP_WITHIN, tokio::net::lookup_host((host, 0))).await;
    let why = match looked {
        Ok(Ok(found)) => return Some(found.map(|address| address.ip()).collect()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", LOOKUP_WITHIN.as_secs()),
    };
    tracing::warn!(host, why, "the address of YARN's web proxy is not found");
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(pairs: &[(&str, &str)]) -> Configuration {
        let mut conf = Configuration::with_defaults();
        for (name, value) in pairs {
            conf.set(name, *value);
        }
        conf
    }

    fn users(pairs: &[(&str, &str)]) -> Vec<String> {
        let platform = Platform::production();
        web_proxy(&conf(pairs), Some("alice".to_owned()), &platform).unwrap().users
    }

    #[test]
    fn changes_are_for_the_submitter_and_without_authentication_for_the_user_of_all_pages() {
        assert_eq!(users(&[]), ["alice", "dr.who"]);
        assert_eq!(users(&[("hadoop.http.staticuser.user", "web")]), ["alice", "web"]);
        assert_eq!(users(&[("hadoop.security.authentication", "Kerberos")]), ["alice"]);
    }

    #[tokio::test]
    async fn hosts_are_looked_up_once_and_one_that_is_lost_keeps_its_addresses() {
        let hosts = ["localhost", "nowhere.invalid"].map(str::to_owned);
        let hosts = Hosts::new(Platform::production(), hosts.into_iter());
        let found = hosts.addresses().await;
        assert!(found.contains(&IpAddr::from([127, 0, 0, 1])), "{found:?}");
        let until = hosts.known.lock().await.until;
        assert_eq!(hosts.addresses().await, found);
        assert_eq!(hosts.known.lock().await.until, until, "not looked up again");
        let mut known = hosts.known.lock().await;
        known.hosts[1].1 = vec![IpAddr::from([10, 0, 0, 1])];
        assert!(!known.look_up().await);
        assert_eq!(known.hosts[1].1, [IpAddr::from([10, 0, 0, 1])]);
    }
}
