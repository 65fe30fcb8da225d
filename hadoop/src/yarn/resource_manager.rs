//! Finds the ResourceManagers, and the number of retries, in the configuration. Nothing is connected here.

use crate::client::{Options, connect_retries};
use crate::conf::{ConfError, Configuration};
use crate::login::{Service, with_named_host};
use crate::rpc::RetryPolicy;
use std::time::Duration;

/// The address of one ResourceManager's service, from the configuration. Returned by [`resource_managers`]; whether it is the active one is
/// not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceManager {
    /// Id of the ResourceManager (one of `yarn.resourcemanager.ha.rm-ids`) where there are several; `None` if it is the
    /// only one.
    pub id: Option<String>,
    /// Host name or address, from the configuration; `127.0.0.1` for `0.0.0.0`.
    pub host: String,
    /// TCP port of the service.
    pub port: u16,
}

/// Returns the addresses of the ResourceManagers' scheduler (`yarn.resourcemanager.scheduler.address`, default port 8030) for
/// `Service::Scheduler`, for any other value those of their service for clients (`yarn.resourcemanager.address`, default port 8032): one
/// address, or with `yarn.resourcemanager.ha.enabled` one for each of `yarn.resourcemanager.ha.rm-ids`, in this order, from the property
/// with the id at its end, else from the host `yarn.resourcemanager.hostname.ID`. Never an empty list. Looks no host up.
///
/// # Errors
/// Fails with [`ConfError::Type`] for a property that is no address, or if `yarn.resourcemanager.ha.enabled` is neither `true` nor `false`;
/// [`ConfError::Expansion`] for endless `${…}`; [`ConfError::Missing`] for failover without ids, or a ResourceManager
/// without an address.
pub fn resource_managers(
    conf: &Configuration,
    service: Service,
) -> Result<Vec<ResourceManager>, ConfError> {
    let (property, default_port) = match service {
        Service::Scheduler => ("yarn.resourcemanager.scheduler.address", 8030),
        _ => ("yarn.resourcemanager.address", 8032),
    };
    if !conf.get_bool("yarn.resourcemanager.ha.enabled")?.unwrap_or(false) {
        let address = conf.require(property, "it says where the ResourceManager is")?;
        let (host, port) = split(property, &address, default_port)?;
        return Ok(vec![ResourceManager { id: None, host, port }]);
    }
    let ids = "yarn.resourcemanager.ha.rm-ids";
    let mut found = Vec::new();
    for id in conf.get_list(ids)? {
        let property = format!("{property}.{id}");
        let (host, port) = match conf.get_trimmed(&property)? {
            Some(address) => split(&property, &address, default_port)?,
            None => {
                let hostname = format!("yarn.resourcemanager.hostname.{id}");
                let why = "it says where one of the ResourceManagers is";
                (conf.require(&hostname, why)?, default_port)
            }
        };
        found.push(ResourceManager { id: Some(id), host, port });
    }
    match found.is_empty() {
        true => Err(ConfError::Missing {
            name: ids.to_owned(),
            why: "failover between ResourceManagers is on",
        }),
        false => Ok(found),
    }
}

/// Returns the name to request delegation tokens with for an application, so that the ResourceManager may renew them: the Kerberos
/// principal of the ResourceManagers. If it has `_HOST`, that becomes the first ResourceManager's host, whose name is looked up (for at
/// most 10 s) where the configuration has an address.
///
/// # Errors
/// Fails with [`ConfError::Missing`] if the configuration names no principal, as on a cluster without Kerberos; [`ConfError::Type`] if the
/// principal has `_HOST` and the ResourceManager has an address without a name, because nobody could renew a token with that renewer; the
/// errors of [`resource_managers`].
pub async fn renewer(conf: &Configuration) -> Result<String, ConfError> {
    let why = "tokens name it as their renewer";
    let principal = conf.require(Service::ResourceManager.principal_property(), why)?;
    let servers = resource_managers(conf, Service::ResourceManager)?;
    let host = servers.first().map_or("", |rm| &rm.host);
    let unnamed = || ConfError::Type {
        name: Service::ResourceManager.principal_property().to_owned(),
        expected: "a principal of a host with a name: _HOST stands for an address of which none is known",
    };
    with_named_host(&principal, host).await.ok_or_else(unnamed)
}

pub(super) fn split(
    property: &str,
    address: &str,
    default_port: u16,
) -> Result<(String, u16), ConfError> {
    let wrong =
        || ConfError::Type { name: property.to_owned(), expected: "an address, such as host:8032" };
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (address, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "" => Err(wrong()),
        // The address that it listens on everywhere; clients on its machine reach it here.
        "0.0.0.0" => Ok(("127.0.0.1".to_owned(), port)),
        host => Ok((host.to_owned(), port)),
    }
}

/// How connections to ResourceManagers behave. Where there are several, the next one is asked rather than the same
/// one again, unless `yarn.client.failover-retries` says otherwise.
pub(super) fn connections(conf: &Configuration) -> Result<Options, ConfError> {
    let mut options = Options::from_conf(conf)?;
    if conf.get_bool("yarn.resourcemanager.ha.enabled")?.unwrap_or(false) {
        options.connect_retries = connect_retries(conf, "yarn.client.failover-retries")?;
    }
    Ok(options)
}

/// How long to wait by a property in milliseconds; `None` for ever, which is -1.
pub(super) fn wait(
    conf: &Configuration,
    name: &str,
    or: Duration,
) -> Result<Option<Duration>, ConfError> {
    match conf.get_i64(name) {
        Ok(Some(-1)) => Ok(None),
        Err(_) | Ok(None) => Ok(Some(conf.get_duration(name)?.unwrap_or(or))),
        Ok(Some(number)) => match u64::try_from(number) {
            Ok(number) => Ok(Some(Duration::from_millis(number))),
            Err(_) => Err(ConfError::Type {
                name: name.to_owned(),
                expected: "a number of milliseconds, or -1 for ever",
            }),
        },
    }
}

/// How often an interval, which is not zero, fits into a time.
pub(super) fn times(total: Option<Duration>, interval: Duration) -> u32 {
    let times = total.and_then(|total| total.as_nanos().checked_div(interval.as_nanos()));
    times.and_then(|times| u32::try_from(times).ok()).unwrap_or(u32::MAX)
}

/// Returns the policy by which YARN's clients try again, from `yarn.resourcemanager.connect.…` and `yarn.client.failover-…`: with one
/// ResourceManager at a fixed interval (by default 30 s, for 15 minutes), with several by turning to the next one,
/// `yarn.client.failover-max-attempts` times or, by default, as often as the pause fits into `yarn.resourcemanager.connect.max-wait.ms` (if
/// that is -1, tries go on for ever), with pauses from `yarn.client.failover-sleep-base-ms` to `….failover-sleep-max-ms`, by default the
/// fixed interval. The policy bounds the number of tries, not the time of each.
///
/// # Errors
/// Fails with [`ConfError::Type`] for properties of the wrong type, [`ConfError::Expansion`] for endless `${…}`.
pub fn retry_policy(conf: &Configuration) -> Result<RetryPolicy, ConfError> {
    let seconds = Duration::from_secs;
    let total = wait(conf, "yarn.resourcemanager.connect.max-wait.ms", seconds(900))?;
    let interval = wait(conf, "yarn.resourcemanager.connect.retry-interval.ms", seconds(30))?;
    let interval = interval.unwrap_or(seconds(30)).max(Duration::from_millis(1));
    let times = |interval: Duration| times(total, interval);
    if !conf.get_bool("yarn.resourcemanager.ha.enabled")?.unwrap_or(false) {
        return Ok(RetryPolicy::Fixed { interval, retries: times(interval) });
    }
    let sleep = |name: &str| Ok(conf.get_duration(name)?.filter(|s| !s.is_zero()));
    let base = sleep("yarn.client.failover-sleep-base-ms")?.unwrap_or(interval);
    let max = sleep("yarn.client.failover-sleep-max-ms")?.unwrap_or(interval);
    let failovers = conf.get_i64("yarn.client.failover-max-attempts")?.unwrap_or(-1);
    let failovers = u32::try_from(failovers).unwrap_or_else(|_| times(base));
    // Hadoop's clients never ask the same ResourceManager again on top.
    Ok(RetryPolicy::FailOver { failovers, retries: 0, base, max })
}
