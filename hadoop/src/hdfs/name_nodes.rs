//! Finds the NameNodes of a file system in the configuration. Nothing is looked up or connected here.

use crate::conf::{ConfError, Configuration};

/// The port of a NameNode that says none.
const DEFAULT_PORT: u16 = 8020;

/// The address at which clients call a NameNode of HDFS. Part of a [`FileSystem`]; nobody has looked whether it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameNode {
    /// Host name or address, from the configuration or a URI.
    pub host: String,
    /// TCP port of the NameNode's RPC service for clients.
    pub port: u16,
}

/// A file system of HDFS and its NameNodes, as the configuration describes them. Made by [`FileSystem::from_conf`]; holds no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// The URI without a path: `hdfs://name` or `hdfs://host:port`.
    pub uri: String,
    /// Name of the file system's name service (in `dfs.ha.namenodes.NAME`), which stands for several NameNodes; `None`
    /// if the URI names the NameNode's host.
    pub name_service: Option<String>,
    /// All NameNodes of the file system, active or not, in the configuration's order; at least one.
    pub name_nodes: Vec<NameNode>,
}

impl FileSystem {
    /// Reads from the configuration which NameNodes the file system of a URI has, or that of `fs.defaultFS` where none
    /// is given. A path in the URI is left out, and a NameNode without a port has 8020. Looks no host up.
    ///
    /// # Errors
    /// Fails with [`ConfError::Type`] for a URI that is not `hdfs://…` or an address that is wrong, [`ConfError::Missing`]
    /// for a NameNode without an address or no URI at all, [`ConfError::Expansion`] for endless `${…}`.
    pub fn from_conf(conf: &Configuration, uri: Option<&str>) -> Result<Self, ConfError> {
        const DEFAULT: &str = "fs.defaultFS";
        let uri = match uri {
            Some(uri) => uri.to_owned(),
            None => conf.require(DEFAULT, "it says which file system is meant")?,
        };
        let expected = "a URI of HDFS, such as hdfs://host:8020";
        let wrong = || ConfError::Type { name: format!("{DEFAULT} or '{uri}'"), expected };
        let rest = uri.strip_prefix("hdfs://").ok_or_else(wrong)?;
        let authority = rest.split('/').next().filter(|name| !name.is_empty()).ok_or_else(wrong)?;
        let ids = conf.get_list(&format!("dfs.ha.namenodes.{authority}"))?;
        let mut name_nodes = Vec::new();
        for id in &ids {
            let property = format!("dfs.namenode.rpc-address.{authority}.{id}");
            let address = conf.require(&property, "it says where one of the NameNodes is")?;
            let expected = "an address, such as host:8020";
            let wrong = || ConfError::Type { name: property.clone(), expected };
            name_nodes.push(split(&address).ok_or_else(wrong)?);
        }
        let name_service = (!ids.is_empty()).then(|| authority.to_owned());
        if name_nodes.is_empty() {
            name_nodes.push(split(authority).ok_or_else(wrong)?);
        }
        Ok(Self { uri: format!("hdfs://{authority}"), name_service, name_nodes })
    }

    /// Returns the service name, `ha-hdfs:NAME`, of tokens that are for all NameNodes of a name service together;
    /// `None` if the file system has none.
    #[must_use]
    pub fn logical_service(&self) -> Option<String> {
        self.name_service.as_ref().map(|name| format!("ha-hdfs:{name}"))
    }
}

fn split(address: &str) -> Option<NameNode> {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (address, DEFAULT_PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    (!host.is_empty()).then_some(NameNode { host, port })
}
