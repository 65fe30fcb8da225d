//! HDFS of a cluster without Kerberos, by the crate `hdfs-native`.

use anyhow::Result;
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hdfs_native::{Client, ClientBuilder};

/// Returns a client of the HDFS that `fs.defaultFS` names, for the user of `login` without Kerberos. Calls no NameNode.
///
/// # Errors
/// A property's `${…}` never stop expanding, or the properties name no file system.
pub fn hdfs(conf: &Configuration, login: &Login) -> Result<Client> {
    let mut properties = Vec::new();
    for name in conf.names() {
        properties.push((name.to_owned(), conf.get(name)?.unwrap_or_default()));
    }
    Ok(ClientBuilder::new().with_config(properties).with_user(login.user()).build()?)
}
