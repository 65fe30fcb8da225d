//! The kinds of tokens that this library meets. Only names belong here.

/// The token of an ApplicationMaster for the ResourceManager's scheduler.
pub const AM_RM: &str = "YARN_AM_RM_TOKEN";
/// The token of an application for a NodeManager's container service.
pub const NODE_MANAGER: &str = "NMToken";
/// The token of one container, sent inside requests to a NodeManager.
pub const CONTAINER: &str = "ContainerToken";
/// The delegation token of a user for the ResourceManager.
pub const RM_DELEGATION: &str = "RM_DELEGATION_TOKEN";
/// The delegation token of a user for a NameNode.
pub const HDFS_DELEGATION: &str = "HDFS_DELEGATION_TOKEN";
/// The token of a client for an ApplicationMaster.
pub const CLIENT_TO_AM: &str = "YARN_CLIENT_TOKEN";
/// The delegation token of a user for the timeline service.
pub const TIMELINE_DELEGATION: &str = "TIMELINE_DELEGATION_TOKEN";
