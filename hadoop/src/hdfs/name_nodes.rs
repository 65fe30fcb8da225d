//! Finds the NameNodes of a file system in the configuration. Nothing is looked up or connected here.

use crate::conf::{ConfError, Configuration};

/// The port of a NameNode that says none.
const DEFAULT_PORT: u16 = 8020;

/// A NameNode's address for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameNode {
    /// Host name or address, from the configuration or a URI.
    pub host: String,
    /// The NameNode's RPC port.
    pub port: u16,
}

/// A file system of HDFS, as the configuration describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// The URI without a path: `hdfs://name` or `hdfs://host:port`.
    pub uri: String,
    /// Its name service, if it has several NameNodes; otherwise `None`.
    pub name_service: Option<String>,
    /// All its NameNodes, active or not, in the configuration's order; at least one.
    pub name_nodes: Vec<NameNode>,
}

impl FileSystem {
    /// Finds the file system of a URI, or of `fs.defaultFS` where none is given. A NameNode without
    /// a port has 8020.
    ///
    /// # Errors
    /// [`ConfError::Type`] for a URI or address that is wrong; [`ConfError::Missing`] for a
    /// NameNode without an address, or no URI at all.
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

    /// Returns the service that tokens for all NameNodes together carry, `ha-hdfs:NAME`; `None` if
    /// there is one NameNode only.
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
