//! HDFS of a cluster without Kerberos, by the crate `hdfs-native`.

use anyhow::Result;
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hdfs_native::{Client, ClientBuilder};

/// Returns a client of HDFS for this user.
pub fn hdfs(conf: &Configuration, login: &Login) -> Result<Client> {
    let mut properties = Vec::new();
    for name in conf.names() {
        properties.push((name.to_owned(), conf.get(name)?.unwrap_or_default()));
    }
    Ok(ClientBuilder::new().with_config(properties).with_user(login.user()).build()?)
}
