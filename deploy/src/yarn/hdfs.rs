//! Clients of the cluster's HDFS, made from Hadoop's configuration and the user's login. It never reads or writes.

use super::error::YarnFailure;
use hadoop::conf::Configuration;
use hadoop::hdfs::uri_of;
use hadoop::login::Login;
use hadoop::tokens::kinds;
use hadoop::yarn::YarnError;
use hdfs_native::{Client, ClientBuilder};

/// Bounds of the HDFS client where Hadoop's files set none: a NameNode that refuses connections is given up after about
/// five seconds.
const LIMITS: [(&str, &str); 3] = [
    ("dfs.client.failover.max.attempts", "6"),
    ("dfs.client.failover.sleep.base.millis", "200"),
    ("dfs.client.failover.sleep.max.millis", "1000"),
];

/// Returns a client of `file_system`, `hdfs://authority`. Nothing is asked of it yet.
///
/// # Errors
/// A configuration that cannot be read or names no such file system.
pub(super) fn client(
    conf: &Configuration,
    login: &Login,
    file_system: &str,
) -> Result<Client, YarnFailure> {
    let mut properties = Vec::new();
    for name in conf.names() {
        let value = conf.get(name).map_err(YarnError::from)?;
        properties.push((name.to_owned(), value.unwrap_or_default()));
    }
    let unset = LIMITS.iter().filter(|(name, _)| conf.source(name).is_none());
    properties.extend(unset.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let hdfs = ClientBuilder::new().with_config(properties);
    let tokens = login.credentials();
    // A token is for the address that it names.
    let url = match tokens.by_kind(kinds::HDFS_DELEGATION).and_then(uri_of) {
        Some(url) if login.is_secure() => url,
        _ => file_system.to_owned(),
    };
    let hdfs = hdfs.with_url(url);
    let hdfs = match login.keytab() {
        Some((principal, keytab)) => {
            hdfs.with_kerberos_principal(principal).with_kerberos_keytab(keytab.to_string_lossy())
        }
        None if login.is_secure() => hdfs,
        None => hdfs.with_user(login.user()),
    };
    hdfs.build().map_err(|error| {
        YarnFailure::configuration(format!("no client of {file_system} can be made: {error}"))
    })
}
