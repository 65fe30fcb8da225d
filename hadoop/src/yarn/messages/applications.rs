//! Applications: what is submitted and what is reported. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::basics::{
    ApplicationAttemptId, ApplicationId, ContainerId, Priority, Resource, StringLongMap,
    StringStringMap,
};
use super::containers::ContainerLaunchContext;
use super::master_protocol::ResourceRequest;
use super::reservations::ReservationId;
use crate::tokens::TokenProto;

/// What the ResourceManager says of an application.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ApplicationReport {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    #[prost(string, optional, tag = "2")]
    pub user: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub queue: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub name: Option<String>,
    /// Of the ApplicationMaster, as it registered; `N/A` before.
    #[prost(string, optional, tag = "5")]
    pub host: Option<String>,
    /// Of the ApplicationMaster, as it registered; -1 before.
    #[prost(int32, optional, tag = "6")]
    pub rpc_port: Option<i32>,
    /// For calls to the ApplicationMaster, on secure clusters.
    #[prost(message, optional, tag = "7")]
    pub client_to_am_token: Option<TokenProto>,
    #[prost(enumeration = "YarnApplicationState", optional, tag = "8")]
    pub state: Option<i32>,
    /// Through the ResourceManager's proxy.
    #[prost(string, optional, tag = "9")]
    pub tracking_url: Option<String>,
    /// Why the application is where it is, for people.
    #[prost(string, optional, tag = "10", default = "N/A")]
    pub diagnostics: Option<String>,
    /// Milliseconds since 1970, like the other times.
    #[prost(int64, optional, tag = "11")]
    pub start_time: Option<i64>,
    #[prost(int64, optional, tag = "12")]
    pub finish_time: Option<i64>,
    /// The application's own word; `Undefined` until it has ended.
    #[prost(enumeration = "FinalApplicationStatus", optional, tag = "13")]
    pub final_status: Option<i32>,
    #[prost(message, optional, tag = "14")]
    pub resource_usage: Option<ApplicationResourceUsageReport>,
    /// As the ApplicationMaster registered it.
    #[prost(string, optional, tag = "15")]
    pub original_tracking_url: Option<String>,
    #[prost(message, optional, tag = "16")]
    pub current_application_attempt_id: Option<ApplicationAttemptId>,
    /// 0 to 1, by the ApplicationMaster's own word.
    #[prost(float, optional, tag = "17")]
    pub progress: Option<f32>,
    #[prost(string, optional, tag = "18")]
    pub application_type: Option<String>,
    /// Only for unmanaged ApplicationMasters, and only for their owners.
    #[prost(message, optional, tag = "19")]
    pub am_rm_token: Option<TokenProto>,
    #[prost(string, repeated, tag = "20")]
    pub application_tags: Vec<String>,
    #[prost(enumeration = "LogAggregationStatus", optional, tag = "21")]
    pub log_aggregation_status: Option<i32>,
    #[prost(bool, optional, tag = "22", default = "false")]
    pub unmanaged_application: Option<bool>,
    #[prost(message, optional, tag = "23")]
    pub priority: Option<Priority>,
    #[prost(string, optional, tag = "24")]
    pub app_node_label_expression: Option<String>,
    #[prost(string, optional, tag = "25")]
    pub am_node_label_expression: Option<String>,
    #[prost(message, repeated, tag = "26")]
    pub app_timeouts: Vec<AppTimeoutsMap>,
    #[prost(int64, optional, tag = "27")]
    pub launch_time: Option<i64>,
    #[prost(int64, optional, tag = "28")]
    pub submit_time: Option<i64>,
    #[prost(string, optional, tag = "29")]
    pub rm_cluster_id: Option<String>,
}

/// What an application uses and has used.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ApplicationResourceUsageReport {
    #[prost(int32, optional, tag = "1")]
    pub num_used_containers: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub num_reserved_containers: Option<i32>,
    #[prost(message, optional, tag = "3")]
    pub used_resources: Option<Resource>,
    #[prost(message, optional, tag = "4")]
    pub reserved_resources: Option<Resource>,
    #[prost(message, optional, tag = "5")]
    pub needed_resources: Option<Resource>,
    #[prost(int64, optional, tag = "6")]
    pub memory_seconds: Option<i64>,
    #[prost(int64, optional, tag = "7")]
    pub vcore_seconds: Option<i64>,
    #[prost(float, optional, tag = "8")]
    pub queue_usage_percentage: Option<f32>,
    #[prost(float, optional, tag = "9")]
    pub cluster_usage_percentage: Option<f32>,
    #[prost(int64, optional, tag = "10")]
    pub preempted_memory_seconds: Option<i64>,
    #[prost(int64, optional, tag = "11")]
    pub preempted_vcore_seconds: Option<i64>,
    #[prost(message, repeated, tag = "12")]
    pub application_resource_usage_map: Vec<StringLongMap>,
    #[prost(message, repeated, tag = "13")]
    pub application_preempted_resource_usage_map: Vec<StringLongMap>,
}

/// An entry of an application's time-outs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AppTimeoutsMap {
    #[prost(enumeration = "ApplicationTimeoutType", optional, tag = "1")]
    pub application_timeout_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub application_timeout: Option<ApplicationTimeout>,
}

/// A time-out of an application.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationTimeout {
    #[prost(enumeration = "ApplicationTimeoutType", required, tag = "1")]
    pub application_timeout_type: i32,
    /// In ISO 8601, or `UNLIMITED`.
    #[prost(string, optional, tag = "2")]
    pub expire_time: Option<String>,
    /// Seconds; -1 for no end.
    #[prost(int64, optional, tag = "3")]
    pub remaining_time: Option<i64>,
}

/// All that the ResourceManager needs to start an application.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationSubmissionContext {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    #[prost(string, optional, tag = "2", default = "N/A")]
    pub application_name: Option<String>,
    /// A leaf's name or full path.
    #[prost(string, optional, tag = "3", default = "default")]
    pub queue: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub priority: Option<Priority>,
    #[prost(message, optional, tag = "5")]
    pub am_container_spec: Option<ContainerLaunchContext>,
    #[prost(bool, optional, tag = "6", default = "true")]
    pub cancel_tokens_when_complete: Option<bool>,
    /// Whether the ApplicationMaster runs outside of the cluster.
    #[prost(bool, optional, tag = "7", default = "false")]
    pub unmanaged_am: Option<bool>,
    /// At most the cluster's `yarn.resourcemanager.am.max-attempts`; 0 for that.
    #[prost(int32, optional, tag = "8", default = "0")]
    pub max_app_attempts: Option<i32>,
    #[prost(message, optional, tag = "9")]
    pub resource: Option<Resource>,
    #[prost(string, optional, tag = "10", default = "YARN")]
    pub application_type: Option<String>,
    /// Whether the containers of an attempt outlive it.
    #[prost(bool, optional, tag = "11", default = "false")]
    pub keep_containers_across_application_attempts: Option<bool>,
    /// Lower case; searchable.
    #[prost(string, repeated, tag = "12")]
    pub application_tags: Vec<String>,
    /// Milliseconds after which a failed attempt does not count any more; -1 for never.
    #[prost(int64, optional, tag = "13", default = "-1")]
    pub attempt_failures_validity_interval: Option<i64>,
    #[prost(message, optional, tag = "14")]
    pub log_aggregation_context: Option<LogAggregationContext>,
    #[prost(message, optional, tag = "15")]
    pub reservation_id: Option<ReservationId>,
    #[prost(string, optional, tag = "16")]
    pub node_label_expression: Option<String>,
    /// In place of `resource` and `node_label_expression`.
    #[prost(message, repeated, tag = "17")]
    pub am_container_resource_request: Vec<ResourceRequest>,
    #[prost(message, repeated, tag = "18")]
    pub application_timeouts: Vec<ApplicationTimeoutMap>,
    #[prost(message, repeated, tag = "19")]
    pub application_scheduling_properties: Vec<StringStringMap>,
}

/// Who else may do what with an application.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationAclMap {
    #[prost(enumeration = "ApplicationAccessType", optional, tag = "1")]
    pub access_type: Option<i32>,
    /// Users and groups: `u1,u2 g1,g2`; `*` for everybody.
    #[prost(string, optional, tag = "2")]
    pub acl: Option<String>,
}

/// Which log files are collected, and when.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LogAggregationContext {
    #[prost(string, optional, tag = "1", default = ".*")]
    pub include_pattern: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub exclude_pattern: Option<String>,
    /// Collected while the application runs.
    #[prost(string, optional, tag = "3")]
    pub rolled_logs_include_pattern: Option<String>,
    #[prost(string, optional, tag = "4", default = ".*")]
    pub rolled_logs_exclude_pattern: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub log_aggregation_policy_class_name: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub log_aggregation_policy_parameters: Option<String>,
}

/// An entry of the time-outs that an application is submitted with, in seconds.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationTimeoutMap {
    #[prost(enumeration = "ApplicationTimeoutType", optional, tag = "1")]
    pub application_timeout_type: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub timeout: Option<i64>,
}

/// How many NodeManagers there are, by state.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct YarnClusterMetrics {
    #[prost(int32, optional, tag = "1")]
    pub num_node_managers: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub num_decommissioned_nms: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub num_active_nms: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub num_lost_nms: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub num_unhealthy_nms: Option<i32>,
    #[prost(int32, optional, tag = "6")]
    pub num_rebooted_nms: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub num_decommissioning_nms: Option<i32>,
    #[prost(int32, optional, tag = "8")]
    pub num_shutdown_nms: Option<i32>,
}

/// What the ResourceManager says of an attempt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationAttemptReport {
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
    #[prost(string, optional, tag = "2")]
    pub host: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub rpc_port: Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub tracking_url: Option<String>,
    #[prost(string, optional, tag = "5", default = "N/A")]
    pub diagnostics: Option<String>,
    #[prost(enumeration = "YarnApplicationAttemptState", optional, tag = "6")]
    pub yarn_application_attempt_state: Option<i32>,
    #[prost(message, optional, tag = "7")]
    pub am_container_id: Option<ContainerId>,
    #[prost(string, optional, tag = "8")]
    pub original_tracking_url: Option<String>,
    #[prost(int64, optional, tag = "9")]
    pub start_time: Option<i64>,
    #[prost(int64, optional, tag = "10")]
    pub finish_time: Option<i64>,
}

/// An entry of time-outs to be changed: absolute times in ISO 8601.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationUpdateTimeoutMap {
    #[prost(enumeration = "ApplicationTimeoutType", optional, tag = "1")]
    pub application_timeout_type: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub expire_time: Option<String>,
}

/// Where an application is. From `NewSaving` to `Accepted` it waits; the last three are ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum YarnApplicationState {
    New = 1,
    NewSaving = 2,
    Submitted = 3,
    /// By the scheduler: it waits for its ApplicationMaster's container, or for that to register.
    Accepted = 4,
    /// Its ApplicationMaster has registered.
    Running = 5,
    /// Its ApplicationMaster unregistered; the final status says with what result.
    Finished = 6,
    /// Its last attempt ended without unregistering, or it was never accepted.
    Failed = 7,
    Killed = 8,
}

/// How an application says that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum FinalApplicationStatus {
    Undefined = 0,
    Succeeded = 1,
    Failed = 2,
    Killed = 3,
    Ended = 4,
}

/// How far the logs of an application are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum LogAggregationStatus {
    Disabled = 1,
    NotStart = 2,
    Running = 3,
    Succeeded = 4,
    Failed = 5,
    TimeOut = 6,
    RunningWithFailure = 7,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationTimeoutType {
    Lifetime = 1,
}

/// What somebody may do with an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationAccessType {
    ViewApp = 1,
    ModifyApp = 2,
}

/// Whose applications are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationsRequestScope {
    All = 0,
    Viewable = 1,
    Own = 2,
}

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum YarnApplicationAttemptState {
    New = 1,
    Submitted = 2,
    Scheduled = 3,
    AllocatedSaving = 4,
    Allocated = 5,
    Launched = 6,
    Failed = 7,
    Running = 8,
    Finishing = 9,
    Finished = 10,
    Killed = 11,
}
