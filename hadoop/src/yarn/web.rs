//! Finds YARN's web proxy, through which applications' pages are read, in the configuration. Nothing is connected or
//! resolved here.

use super::resource_manager::split;
use crate::conf::{ConfError, Configuration};

/// An address under which YARN's web proxy, through which users open the applications' own pages, answers. Returned by [`web_proxies`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress {
    /// Name or address of the proxy's host.
    pub host: String,
    /// TCP port of the proxy.
    pub port: u16,
    /// True if the proxy speaks HTTPS.
    pub https: bool,
}

impl WebAddress {
    /// Returns the address as browsers write it: `http://host:port`, a name in lower case and an IPv6 address in brackets,
    /// without a port that is the scheme's default.
    pub fn origin(&self) -> String {
        let (scheme, default) = if self.https { ("https", 443) } else { ("http", 80) };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.to_lowercase(),
        };
        match self.port == default {
            true => format!("{scheme}://{host}"),
            false => format!("{scheme}://{host}:{}", self.port),
        }
    }
}

/// Returns true if YARN's web pages are served by HTTPS alone (`yarn.http.policy` is `HTTPS_ONLY`).
///
/// # Errors
/// Fails with [`ConfError::Expansion`] if the property's `${…}` never stop expanding.
pub fn https_only(conf: &Configuration) -> Result<bool, ConfError> {
    let policy = conf.get_trimmed("yarn.http.policy")?;
    Ok(policy.is_some_and(|policy| policy.eq_ignore_ascii_case("HTTPS_ONLY")))
}

/// Returns the addresses of YARN's web proxy: the one of `yarn.web-proxy.address` (port 80 if it names none), else those of the
/// ResourceManagers' pages, each of which is a proxy: `yarn.resourcemanager.webapp.address`, or `….webapp.https.address` if
/// [`https_only`], else the host of `yarn.resourcemanager.hostname`; the port is 8088, with HTTPS 8090, if none is named. With failover
/// those of each id count, and those without an id only if no id has a page. The list is empty if the configuration has none of these. A
/// page's address that stands for all interfaces (`0.0.0.0`, `[::]:PORT`) gives its port only: the host is that of
/// `yarn.resourcemanager.hostname`, and without one the page is left out. In `yarn.web-proxy.address`, `0.0.0.0` becomes `127.0.0.1`.
/// Hadoop's filter, which lets only the proxy open an ApplicationMaster's pages, finds the proxies in these properties too. Looks no host
/// up.
///
/// # Errors
/// Fails with [`ConfError::Type`] for a property that is no address, [`ConfError::Expansion`] for endless `${…}`.
pub fn web_proxies(conf: &Configuration) -> Result<Vec<WebAddress>, ConfError> {
    let https = https_only(conf)?;
    let name = "yarn.web-proxy.address";
    if let Some(address) = conf.get_trimmed(name)?.filter(|address| !address.is_empty()) {
        let (host, port) = split(name, &address, 80)?;
        return Ok(vec![WebAddress { host, port, https }]);
    }
    let ids = match conf.get_bool("yarn.resourcemanager.ha.enabled")?.unwrap_or(false) {
        true => conf.get_list("yarn.resourcemanager.ha.rm-ids")?,
        false => Vec::new(),
    };
    let mut found = Vec::new();
    for id in &ids {
        found.extend(page_of(conf, &format!(".{id}"), https)?);
    }
    if found.is_empty() {
        found.extend(page_of(conf, "", https)?);
    }
    Ok(found)
}

/// The page of the ResourceManager whose properties end with `suffix`. An address that stands for all interfaces says
/// nothing about the host: its name is then that of the ResourceManager.
fn page_of(
    conf: &Configuration,
    suffix: &str,
    https: bool,
) -> Result<Option<WebAddress>, ConfError> {
    let (name, default_port) = match https {
        true => ("yarn.resourcemanager.webapp.https.address", 8090),
        false => ("yarn.resourcemanager.webapp.address", 8088),
    };
    let name = format!("{name}{suffix}");
    let everywhere = |address: &str| matches!(address, "" | "0.0.0.0" | "::" | "[::]");
    let hostname = conf.get_trimmed(&format!("yarn.resourcemanager.hostname{suffix}"))?;
    let hostname = hostname.filter(|host| !everywhere(host));
    let (host, port) = match conf.get_trimmed(&name)?.filter(|address| !address.is_empty()) {
        None => (None, default_port),
        Some(address) => {
            let (host, port) = split(&name, &address, default_port)?;
            // `split` has made of it what clients on the same machine need.
            let named = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
            ((!everywhere(named)).then_some(host), port)
        }
    };
    Ok(host.or(hostname).map(|host| WebAddress { host, port, https }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(pairs: &[(&str, &str)]) -> Vec<String> {
        let mut conf = Configuration::with_defaults();
        for (name, value) in pairs {
            conf.set(&format!("yarn.{name}"), *value);
        }
        web_proxies(&conf).unwrap().iter().map(WebAddress::origin).collect()
    }

    #[test]
    fn the_proxy_is_its_own_or_the_resourcemanagers_page() {
        let rm = ("resourcemanager.hostname", "Rm");
        assert_eq!(origins(&[rm]), ["http://rm:8088"]);
        assert_eq!(origins(&[rm, ("http.policy", "HTTPS_ONLY")]), ["https://rm:8090"]);
        let page = ("resourcemanager.webapp.address", "pages:80");
        assert_eq!(origins(&[rm, page]), ["http://pages"]);
        let everywhere = ("resourcemanager.webapp.address", "0.0.0.0:9000");
        assert_eq!(origins(&[rm, everywhere]), ["http://rm:9000"]);
        assert_eq!(origins(&[everywhere]), [""; 0]);
        let own = ("web-proxy.address", "proxy:9099");
        assert_eq!(origins(&[rm, page, own]), ["http://proxy:9099"]);
        let v6 = ("web-proxy.address", "[fd00::1]:9099");
        assert_eq!(origins(&[v6]), ["http://[fd00::1]:9099"]);
    }

    #[test]
    fn each_of_several_resourcemanagers_is_a_proxy() {
        let mut pairs = vec![
            ("resourcemanager.ha.enabled", "true"),
            ("resourcemanager.ha.rm-ids", "a,b"),
            ("resourcemanager.hostname.a", "one"),
            ("resourcemanager.webapp.address.b", "two:9000"),
        ];
        assert_eq!(origins(&pairs), ["http://one:8088", "http://two:9000"]);
        pairs.push(("http.policy", "HTTPS_ONLY"));
        pairs.push(("resourcemanager.webapp.https.address.b", "two:9443"));
        assert_eq!(origins(&pairs), ["https://one:8090", "https://two:9443"]);
    }

    #[test]
    fn an_address_that_is_none_is_named() {
        let mut conf = Configuration::with_defaults();
        conf.set("yarn.web-proxy.address", "proxy:x");
        let error = web_proxies(&conf).unwrap_err().to_string();
        assert!(error.contains("yarn.web-proxy.address"), "{error}");
    }
}
