//! What YARN's tokens say inside. They are opaque to whoever only carries them. Only declarations belong here.

use super::applications::LogAggregationContext;
use super::basics::{ApplicationAttemptId, ContainerId, ExecutionType, Priority, Resource};
use super::containers::ContainerType;
use super::nodes::NodeId;

/// Of an NMToken.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NmTokenIdentifier {
    /// Whose token it is.
    #[prost(message, optional, tag = "1")]
    pub app_attempt_id: Option<ApplicationAttemptId>,
    /// For which node.
    #[prost(message, optional, tag = "2")]
    pub node_id: Option<NodeId>,
    /// The application's user.
    #[prost(string, optional, tag = "3")]
    pub app_submitter: Option<String>,
    /// Which of the ResourceManager's keys made the password.
    #[prost(int32, optional, tag = "4", default = "-1")]
    pub key_id: Option<i32>,
}

/// Of an AMRMToken.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AmRmTokenIdentifier {
    /// Whose token it is.
    #[prost(message, optional, tag = "1")]
    pub app_attempt_id: Option<ApplicationAttemptId>,
    /// Which of the ResourceManager's keys made the password; a new key brings a new token.
    #[prost(int32, optional, tag = "2", default = "-1")]
    pub key_id: Option<i32>,
}

/// Of a ContainerToken: what its node may start.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerTokenIdentifier {
    /// Which container.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// The node that may start it, as `host:port`.
    #[prost(string, optional, tag = "2")]
    pub nm_host_addr: Option<String>,
    /// The application's user, as whom it runs on secure clusters.
    #[prost(string, optional, tag = "3")]
    pub app_submitter: Option<String>,
    /// What it may use.
    #[prost(message, optional, tag = "4")]
    pub resource: Option<Resource>,
    /// Milliseconds since 1970; a container cannot be started later.
    #[prost(int64, optional, tag = "5")]
    pub expiry_time_stamp: Option<i64>,
    /// Which of the ResourceManager's keys made the password.
    #[prost(int32, optional, tag = "6", default = "-1")]
    pub master_key_id: Option<i32>,
    /// When the ResourceManager that granted it had started, in milliseconds since 1970: nodes refuse those of earlier
    /// ones.
    #[prost(int64, optional, tag = "7")]
    pub rm_identifier: Option<i64>,
    /// Of the request that it answers.
    #[prost(message, optional, tag = "8")]
    pub priority: Option<Priority>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "9")]
    pub creation_time: Option<i64>,
    /// Which of its log files are collected.
    #[prost(message, optional, tag = "10")]
    pub log_aggregation_context: Option<LogAggregationContext>,
    /// The label under which it was granted.
    #[prost(string, optional, tag = "11")]
    pub node_label_expression: Option<String>,
    /// A [`ContainerType`].
    #[prost(enumeration = "ContainerType", optional, tag = "12")]
    pub container_type: Option<i32>,
    /// An [`ExecutionType`].
    #[prost(enumeration = "ExecutionType", optional, tag = "13", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    /// How often it was changed.
    #[prost(int32, optional, tag = "14", default = "0")]
    pub version: Option<i32>,
    /// Of the request that it answers; -1 for none.
    #[prost(int64, optional, tag = "15", default = "-1")]
    pub allocation_request_id: Option<i64>,
    /// Of the request that it answers.
    #[prost(string, repeated, tag = "16")]
    pub allocation_tags: Vec<String>,
}

/// Of an RM_DELEGATION_TOKEN, behind a leading version byte.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RmDelegationTokenIdentifier {
    /// Whom its bearer is taken for.
    #[prost(string, optional, tag = "1")]
    pub owner: Option<String>,
    /// Who may renew it, as a short name; nobody where it is empty.
    #[prost(string, optional, tag = "2")]
    pub renewer: Option<String>,
    /// Who acted for the owner when it was made, where somebody did.
    #[prost(string, optional, tag = "3")]
    pub real_user: Option<String>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "4")]
    pub issue_date: Option<i64>,
    /// After which it cannot be renewed any more, in milliseconds since 1970.
    #[prost(int64, optional, tag = "5")]
    pub max_date: Option<i64>,
    /// Counts the tokens.
    #[prost(int32, optional, tag = "6")]
    pub sequence_number: Option<i32>,
    /// Which of the ResourceManager's keys made the password.
    #[prost(int32, optional, tag = "7")]
    pub master_key_id: Option<i32>,
}
