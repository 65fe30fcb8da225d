//! The kinds of tokens that this library meets. Only names belong here.

/// Of an ApplicationMaster, for the ResourceManager's scheduler.
pub const AM_RM: &str = "YARN_AM_RM_TOKEN";
/// Of an application, for a NodeManager's container service.
pub const NODE_MANAGER: &str = "NMToken";
/// Of one container, inside requests to a NodeManager.
pub const CONTAINER: &str = "ContainerToken";
/// Of a user, for the ResourceManager.
pub const RM_DELEGATION: &str = "RM_DELEGATION_TOKEN";
/// Of a user, for a NameNode.
pub const HDFS_DELEGATION: &str = "HDFS_DELEGATION_TOKEN";
/// Of a client, for an ApplicationMaster.
pub const CLIENT_TO_AM: &str = "YARN_CLIENT_TOKEN";
/// Of a user, for the timeline service.
pub const TIMELINE_DELEGATION: &str = "TIMELINE_DELEGATION_TOKEN";
