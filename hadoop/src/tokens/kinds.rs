//! The kinds of tokens that this library meets. Only names belong here.

/// The kind of the token with which an ApplicationMaster calls the ResourceManager's scheduler.
pub const AM_RM: &str = "YARN_AM_RM_TOKEN";
/// The kind of the token with which an ApplicationMaster calls a NodeManager's container service.
pub const NODE_MANAGER: &str = "NMToken";
/// The kind of the token by which a NodeManager knows that a container was granted; an ApplicationMaster sends it
/// inside the request that starts the container.
pub const CONTAINER: &str = "ContainerToken";
/// The kind of the delegation token with which a user calls the ResourceManager.
pub const RM_DELEGATION: &str = "RM_DELEGATION_TOKEN";
/// The kind of the delegation token with which a user calls a NameNode.
pub const HDFS_DELEGATION: &str = "HDFS_DELEGATION_TOKEN";
/// The kind of the token with which a client calls an ApplicationMaster.
pub const CLIENT_TO_AM: &str = "YARN_CLIENT_TOKEN";
/// The kind of the delegation token with which a user calls the timeline service.
pub const TIMELINE_DELEGATION: &str = "TIMELINE_DELEGATION_TOKEN";
