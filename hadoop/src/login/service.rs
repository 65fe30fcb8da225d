//! The services that this library calls: their protocols, tokens and principals. Only names belong here.

use crate::tokens::kinds;

/// A service of Hadoop that this library calls: the ResourceManager's for clients or for ApplicationMasters, a NodeManager's, or a
/// NameNode's. It determines protocol, kind of token and Kerberos principal. Given to [`Login::target`](super::Login::target).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Service {
    /// The ResourceManager's service for clients, who submit and watch applications.
    ResourceManager,
    /// The ResourceManager's scheduler, which ApplicationMasters ask for containers.
    Scheduler,
    /// A NodeManager's service for ApplicationMasters, who start and stop containers there.
    NodeManager,
    /// A NameNode's service for clients of HDFS.
    NameNode,
}

impl Service {
    /// All services, in the order of their declaration.
    pub const ALL: [Self; 4] =
        [Self::ResourceManager, Self::Scheduler, Self::NodeManager, Self::NameNode];

    /// Returns the name of the service's protocol, which is that of its Java interface, package included.
    #[must_use]
    pub fn protocol(self) -> &'static str {
        match self {
            Self::ResourceManager => "org.apache.hadoop.yarn.api.ApplicationClientProtocolPB",
            Self::Scheduler => "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB",
            Self::NodeManager => "org.apache.hadoop.yarn.api.ContainerManagementProtocolPB",
            Self::NameNode => "org.apache.hadoop.hdfs.protocol.ClientProtocol",
        }
    }

    /// Returns the kind of token that the service takes, one of [`kinds`].
    #[must_use]
    pub fn token_kind(self) -> &'static str {
        match self {
            Self::ResourceManager => kinds::RM_DELEGATION,
            Self::Scheduler => kinds::AM_RM,
            Self::NodeManager => kinds::NODE_MANAGER,
            Self::NameNode => kinds::HDFS_DELEGATION,
        }
    }

    /// Returns the name of the configuration property that holds the service's Kerberos principal, such as
    /// `dfs.namenode.kerberos.principal`.
    #[must_use]
    pub fn principal_property(self) -> &'static str {
        match self {
            Self::ResourceManager | Self::Scheduler => "yarn.resourcemanager.principal",
            Self::NodeManager => "yarn.nodemanager.principal",
            Self::NameNode => "dfs.namenode.kerberos.principal",
        }
    }

    /// Returns true if clients can authenticate to the service by Kerberos as well as by tokens (ResourceManager, NameNode); false if by
    /// tokens only (scheduler, NodeManager).
    #[must_use]
    pub fn takes_kerberos(self) -> bool {
        matches!(self, Self::ResourceManager | Self::NameNode)
    }
}
