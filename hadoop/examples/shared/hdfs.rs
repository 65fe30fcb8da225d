//! The bridge from this library, which knows nothing of files, to HDFS by the crate `hdfs-native`. It decides who
//! asks HDFS and how that is proven, and nothing else.

use hadoop::conf::Configuration;
use hadoop::hdfs::uri_of;
use hadoop::login::Login;
use hadoop::tokens::kinds;
use hdfs_native::{Client, ClientBuilder};
use std::error::Error;

/// HDFS for this user: by the login's keytab, by the container's token, or by the ticket cache.
pub(crate) fn hdfs(conf: &Configuration, login: &Login) -> Result<Client, Box<dyn Error>> {
    let mut properties = Vec::new();
    for name in conf.names() {
        properties.push((name.to_owned(), conf.get(name)?.unwrap_or_default()));
    }
    let hdfs = ClientBuilder::new().with_config(properties);
    let hdfs = match login.keytab() {
        Some((principal, keytab)) => {
            let keytab = keytab.to_string_lossy();
            hdfs.with_kerberos_principal(principal).with_kerberos_keytab(keytab)
        }
        // It finds tickets and token files by itself; the address is the one that a token is for.
        None if login.is_secure() => {
            let tokens = login.credentials();
            match tokens.by_kind(kinds::HDFS_DELEGATION).and_then(uri_of) {
                Some(uri) => hdfs.with_url(uri),
                None => hdfs,
            }
        }
        None => hdfs.with_user(login.user()),
    };
    Ok(hdfs.build()?)
}
