//! What YARN's tokens say inside. They are opaque to whoever only carries them. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::applications::LogAggregationContext;
use super::basics::{ApplicationAttemptId, ContainerId, ExecutionType, Priority, Resource};
use super::containers::ContainerType;
use super::nodes::NodeId;

/// Of an NMToken.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NmTokenIdentifier {
    #[prost(message, optional, tag = "1")]
    pub app_attempt_id: Option<ApplicationAttemptId>,
    #[prost(message, optional, tag = "2")]
    pub node_id: Option<NodeId>,
    #[prost(string, optional, tag = "3")]
    pub app_submitter: Option<String>,
    #[prost(int32, optional, tag = "4", default = "-1")]
    pub key_id: Option<i32>,
}

/// Of an AMRMToken.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AmRmTokenIdentifier {
    #[prost(message, optional, tag = "1")]
    pub app_attempt_id: Option<ApplicationAttemptId>,
    #[prost(int32, optional, tag = "2", default = "-1")]
    pub key_id: Option<i32>,
}

/// Of a ContainerToken: what its node may start.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerTokenIdentifier {
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    #[prost(string, optional, tag = "2")]
    pub nm_host_addr: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub app_submitter: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub resource: Option<Resource>,
    /// Milliseconds since 1970; a container cannot be started later.
    #[prost(int64, optional, tag = "5")]
    pub expiry_time_stamp: Option<i64>,
    #[prost(int32, optional, tag = "6", default = "-1")]
    pub master_key_id: Option<i32>,
    #[prost(int64, optional, tag = "7")]
    pub rm_identifier: Option<i64>,
    #[prost(message, optional, tag = "8")]
    pub priority: Option<Priority>,
    #[prost(int64, optional, tag = "9")]
    pub creation_time: Option<i64>,
    #[prost(message, optional, tag = "10")]
    pub log_aggregation_context: Option<LogAggregationContext>,
    #[prost(string, optional, tag = "11")]
    pub node_label_expression: Option<String>,
    #[prost(enumeration = "ContainerType", optional, tag = "12")]
    pub container_type: Option<i32>,
    #[prost(enumeration = "ExecutionType", optional, tag = "13", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    #[prost(int32, optional, tag = "14", default = "0")]
    pub version: Option<i32>,
    #[prost(int64, optional, tag = "15", default = "-1")]
    pub allocation_request_id: Option<i64>,
    #[prost(string, repeated, tag = "16")]
    pub allocation_tags: Vec<String>,
}

/// Of an RM_DELEGATION_TOKEN, behind a leading version byte.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RmDelegationTokenIdentifier {
    #[prost(string, optional, tag = "1")]
    pub owner: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub renewer: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub real_user: Option<String>,
    #[prost(int64, optional, tag = "4")]
    pub issue_date: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub max_date: Option<i64>,
    #[prost(int32, optional, tag = "6")]
    pub sequence_number: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub master_key_id: Option<i32>,
}
