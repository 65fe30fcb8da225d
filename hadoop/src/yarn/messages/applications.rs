//! Applications: what is submitted and what is reported. Only declarations belong here.

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
    /// Which application this is.
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    /// Who submitted it, without realm.
    #[prost(string, optional, tag = "2")]
    pub user: Option<String>,
    /// Where it runs: the leaf's name or its full path, as the version has it.
    #[prost(string, optional, tag = "3")]
    pub queue: Option<String>,
    /// As it was submitted; nothing has to be unique about it.
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
    /// A [`YarnApplicationState`].
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
    /// 0 until it has ended.
    #[prost(int64, optional, tag = "12")]
    pub finish_time: Option<i64>,
    /// The application's own word; `Undefined` until it has ended.
    #[prost(enumeration = "FinalApplicationStatus", optional, tag = "13")]
    pub final_status: Option<i32>,
    /// What it uses; for users that may not see it everything in it is -1.
    #[prost(message, optional, tag = "14")]
    pub resource_usage: Option<ApplicationResourceUsageReport>,
    /// As the ApplicationMaster registered it.
    #[prost(string, optional, tag = "15")]
    pub original_tracking_url: Option<String>,
    /// The attempt that runs, or the last one.
    #[prost(message, optional, tag = "16")]
    pub current_application_attempt_id: Option<ApplicationAttemptId>,
    /// 0 to 1, by the ApplicationMaster's own word.
    #[prost(float, optional, tag = "17")]
    pub progress: Option<f32>,
    /// As it was submitted; `YARN` where nothing was said.
    #[prost(string, optional, tag = "18")]
    pub application_type: Option<String>,
    /// Only for unmanaged ApplicationMasters, and only for their owners.
    #[prost(message, optional, tag = "19")]
    pub am_rm_token: Option<TokenProto>,
    /// As they were submitted, in lower case.
    #[prost(string, repeated, tag = "20")]
    pub application_tags: Vec<String>,
    /// A [`LogAggregationStatus`].
    #[prost(enumeration = "LogAggregationStatus", optional, tag = "21")]
    pub log_aggregation_status: Option<i32>,
    /// Whether its ApplicationMaster runs outside of the cluster.
    #[prost(bool, optional, tag = "22", default = "false")]
    pub unmanaged_application: Option<bool>,
    /// The higher, the sooner it is served within its queue.
    #[prost(message, optional, tag = "23")]
    pub priority: Option<Priority>,
    /// Where its containers go unless they ask otherwise: a label, or nothing for the default partition.
    #[prost(string, optional, tag = "24")]
    pub app_node_label_expression: Option<String>,
    /// The same for its ApplicationMaster's container.
    #[prost(string, optional, tag = "25")]
    pub am_node_label_expression: Option<String>,
    /// When its time is over, by what is limited.
    #[prost(message, repeated, tag = "26")]
    pub app_timeouts: Vec<AppTimeoutsMap>,
    /// When its first attempt's container was launched; 0 before.
    #[prost(int64, optional, tag = "27")]
    pub launch_time: Option<i64>,
    /// When it was submitted.
    #[prost(int64, optional, tag = "28")]
    pub submit_time: Option<i64>,
    /// `yarn.resourcemanager.cluster-id` of the cluster that it runs in.
    #[prost(string, optional, tag = "29")]
    pub rm_cluster_id: Option<String>,
}

/// What an application uses and has used.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ApplicationResourceUsageReport {
    /// Containers that it has now, the ApplicationMaster among them; -1 where it is not known.
    #[prost(int32, optional, tag = "1")]
    pub num_used_containers: Option<i32>,
    /// Places that are kept for containers of it; -1 where it is not known.
    #[prost(int32, optional, tag = "2")]
    pub num_reserved_containers: Option<i32>,
    /// What its containers have now.
    #[prost(message, optional, tag = "3")]
    pub used_resources: Option<Resource>,
    /// What is kept for containers that do not fit yet.
    #[prost(message, optional, tag = "4")]
    pub reserved_resources: Option<Resource>,
    /// `used_resources` and `reserved_resources` together.
    #[prost(message, optional, tag = "5")]
    pub needed_resources: Option<Resource>,
    /// Mebibytes times seconds, over its whole life.
    #[prost(int64, optional, tag = "6")]
    pub memory_seconds: Option<i64>,
    /// Cores times seconds, over its whole life.
    #[prost(int64, optional, tag = "7")]
    pub vcore_seconds: Option<i64>,
    /// How much of its queue's capacity it has, in percent.
    #[prost(float, optional, tag = "8")]
    pub queue_usage_percentage: Option<f32>,
    /// How much of the cluster it has, in percent.
    #[prost(float, optional, tag = "9")]
    pub cluster_usage_percentage: Option<f32>,
    /// The part of `memory_seconds` in containers that were preempted.
    #[prost(int64, optional, tag = "10")]
    pub preempted_memory_seconds: Option<i64>,
    /// The part of `vcore_seconds` in containers that were preempted.
    #[prost(int64, optional, tag = "11")]
    pub preempted_vcore_seconds: Option<i64>,
    /// Amount times seconds by resource type, memory and cores among them.
    #[prost(message, repeated, tag = "12")]
    pub application_resource_usage_map: Vec<StringLongMap>,
    /// The same for containers that were preempted.
    #[prost(message, repeated, tag = "13")]
    pub application_preempted_resource_usage_map: Vec<StringLongMap>,
}

/// An entry of an application's time-outs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AppTimeoutsMap {
    /// An [`ApplicationTimeoutType`].
    #[prost(enumeration = "ApplicationTimeoutType", optional, tag = "1")]
    pub application_timeout_type: Option<i32>,
    /// When that is over.
    #[prost(message, optional, tag = "2")]
    pub application_timeout: Option<ApplicationTimeout>,
}

/// A time-out of an application.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationTimeout {
    /// An [`ApplicationTimeoutType`].
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
    /// From [`YarnClient::new_application`](crate::yarn::YarnClient::new_application).
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    /// For people.
    #[prost(string, optional, tag = "2", default = "N/A")]
    pub application_name: Option<String>,
    /// A leaf's name or full path.
    #[prost(string, optional, tag = "3", default = "default")]
    pub queue: Option<String>,
    /// The higher, the sooner it is served within its queue; at most the cluster's greatest. The queue's default
    /// where it is not set.
    #[prost(message, optional, tag = "4")]
    pub priority: Option<Priority>,
    /// How the ApplicationMaster is started.
    #[prost(message, optional, tag = "5")]
    pub am_container_spec: Option<ContainerLaunchContext>,
    /// Whether the ResourceManager cancels the application's delegation tokens at its end. Say no where others use
    /// the same tokens.
    #[prost(bool, optional, tag = "6", default = "true")]
    pub cancel_tokens_when_complete: Option<bool>,
    /// Whether the ApplicationMaster runs outside of the cluster.
    #[prost(bool, optional, tag = "7", default = "false")]
    pub unmanaged_am: Option<bool>,
    /// At most the cluster's `yarn.resourcemanager.am.max-attempts`; 0 for that.
    #[prost(int32, optional, tag = "8", default = "0")]
    pub max_app_attempts: Option<i32>,
    /// The size of the ApplicationMaster's container.
    #[prost(message, optional, tag = "9")]
    pub resource: Option<Resource>,
    /// What `yarn application -list` filters by, such as `MAPREDUCE`; cut after 20 characters.
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
    /// Which log files are collected; all, where it is not set.
    #[prost(message, optional, tag = "14")]
    pub log_aggregation_context: Option<LogAggregationContext>,
    /// The reservation that it runs in, where there is one.
    #[prost(message, optional, tag = "15")]
    pub reservation_id: Option<ReservationId>,
    /// Where its containers go unless they ask otherwise: a label, or nothing for the default of the queue.
    #[prost(string, optional, tag = "16")]
    pub node_label_expression: Option<String>,
    /// In place of `resource` and `node_label_expression`.
    #[prost(message, repeated, tag = "17")]
    pub am_container_resource_request: Vec<ResourceRequest>,
    /// When it is to be over, after its submission.
    #[prost(message, repeated, tag = "18")]
    pub application_timeouts: Vec<ApplicationTimeoutMap>,
    /// Hints for the scheduler, by names that it defines.
    #[prost(message, repeated, tag = "19")]
    pub application_scheduling_properties: Vec<StringStringMap>,
}

/// Who else may do what with an application.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationAclMap {
    /// An [`ApplicationAccessType`].
    #[prost(enumeration = "ApplicationAccessType", optional, tag = "1")]
    pub access_type: Option<i32>,
    /// Users and groups: `u1,u2 g1,g2`; `*` for everybody.
    #[prost(string, optional, tag = "2")]
    pub acl: Option<String>,
}

/// Which log files are collected, and when.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LogAggregationContext {
    /// Which files are collected at the end of the application: a Java regular expression for their names.
    #[prost(string, optional, tag = "1", default = ".*")]
    pub include_pattern: Option<String>,
    /// Which of these are not, after all.
    #[prost(string, optional, tag = "2")]
    pub exclude_pattern: Option<String>,
    /// Which files are collected while the application runs: a Java regular expression for their names; none
    /// where it is empty.
    #[prost(string, optional, tag = "3")]
    pub rolled_logs_include_pattern: Option<String>,
    /// Which of these are not, after all.
    #[prost(string, optional, tag = "4", default = ".*")]
    pub rolled_logs_exclude_pattern: Option<String>,
    /// Whose containers' logs are collected: a Java class on the nodes. All, or what the cluster says, where it is not
    /// set.
    #[prost(string, optional, tag = "5")]
    pub log_aggregation_policy_class_name: Option<String>,
    /// For that class, which knows what they mean.
    #[prost(string, optional, tag = "6")]
    pub log_aggregation_policy_parameters: Option<String>,
}

/// An entry of the time-outs that an application is submitted with, in seconds.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationTimeoutMap {
    /// An [`ApplicationTimeoutType`].
    #[prost(enumeration = "ApplicationTimeoutType", optional, tag = "1")]
    pub application_timeout_type: Option<i32>,
    /// Seconds from the submission.
    #[prost(int64, optional, tag = "2")]
    pub timeout: Option<i64>,
}

/// How many NodeManagers there are, by state.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct YarnClusterMetrics {
    /// Those that are registered: active, unhealthy, or on their way out of service.
    #[prost(int32, optional, tag = "1")]
    pub num_node_managers: Option<i32>,
    /// Taken out of service.
    #[prost(int32, optional, tag = "2")]
    pub num_decommissioned_nms: Option<i32>,
    /// Those that take containers.
    #[prost(int32, optional, tag = "3")]
    pub num_active_nms: Option<i32>,
    /// Not heard of for too long.
    #[prost(int32, optional, tag = "4")]
    pub num_lost_nms: Option<i32>,
    /// Found unfit by their own checks, such as for full disks.
    #[prost(int32, optional, tag = "5")]
    pub num_unhealthy_nms: Option<i32>,
    /// Told to start anew; they come back under a new registration.
    #[prost(int32, optional, tag = "6")]
    pub num_rebooted_nms: Option<i32>,
    /// On their way out of service: they take no new containers.
    #[prost(int32, optional, tag = "7")]
    pub num_decommissioning_nms: Option<i32>,
    /// Ended in an orderly way.
    #[prost(int32, optional, tag = "8")]
    pub num_shutdown_nms: Option<i32>,
}

/// What the ResourceManager says of an attempt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationAttemptReport {
    /// Which attempt this is.
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
    /// Of the ApplicationMaster, as it registered; `N/A` before.
    #[prost(string, optional, tag = "2")]
    pub host: Option<String>,
    /// Of the ApplicationMaster, as it registered; -1 before.
    #[prost(int32, optional, tag = "3")]
    pub rpc_port: Option<i32>,
    /// Through the ResourceManager's proxy.
    #[prost(string, optional, tag = "4")]
    pub tracking_url: Option<String>,
    /// Why the attempt is where it is, for people.
    #[prost(string, optional, tag = "5", default = "N/A")]
    pub diagnostics: Option<String>,
    /// A [`YarnApplicationAttemptState`].
    #[prost(enumeration = "YarnApplicationAttemptState", optional, tag = "6")]
    pub yarn_application_attempt_state: Option<i32>,
    /// The ApplicationMaster's container, once it was granted.
    #[prost(message, optional, tag = "7")]
    pub am_container_id: Option<ContainerId>,
    /// As the ApplicationMaster registered it.
    #[prost(string, optional, tag = "8")]
    pub original_tracking_url: Option<String>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "9")]
    pub start_time: Option<i64>,
    /// Milliseconds since 1970; 0 until it has ended.
    #[prost(int64, optional, tag = "10")]
    pub finish_time: Option<i64>,
}

/// An entry of time-outs to be changed: absolute times in ISO 8601.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ApplicationUpdateTimeoutMap {
    /// An [`ApplicationTimeoutType`].
    #[prost(enumeration = "ApplicationTimeoutType", optional, tag = "1")]
    pub application_timeout_type: Option<i32>,
    /// Such as `2026-01-31T23:59:59.000+0000`.
    #[prost(string, optional, tag = "2")]
    pub expire_time: Option<String>,
}

/// Where an application is. From `NewSaving` to `Accepted` it waits; the last three are ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum YarnApplicationState {
    /// The submission has just come.
    New = 1,
    /// The ResourceManager writes it down.
    NewSaving = 2,
    /// It was written down; the scheduler has yet to take it.
    Submitted = 3,
    /// By the scheduler: it waits for its ApplicationMaster's container, or for that to register.
    Accepted = 4,
    /// Its ApplicationMaster has registered.
    Running = 5,
    /// Its ApplicationMaster unregistered; the final status says with what result.
    Finished = 6,
    /// Its last attempt ended without unregistering, or it was never accepted.
    Failed = 7,
    /// By its user or an administrator, or because its time was over.
    Killed = 8,
}

/// How an application says that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum FinalApplicationStatus {
    /// Nothing was said, or it has not ended.
    Undefined = 0,
    /// It did what it was for.
    Succeeded = 1,
    /// It did not.
    Failed = 2,
    /// Somebody ended it.
    Killed = 3,
    /// Several things were done, with results of their own.
    Ended = 4,
}

/// How far the logs of an application are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum LogAggregationStatus {
    /// The cluster does not collect logs.
    Disabled = 1,
    /// Nothing was collected yet.
    NotStart = 2,
    /// Some nodes collect, or have yet to.
    Running = 3,
    /// All are collected.
    Succeeded = 4,
    /// On some node it failed.
    Failed = 5,
    /// Some node has not said for too long how far it is.
    TimeOut = 6,
    /// It goes on, and has failed on some node.
    RunningWithFailure = 7,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationTimeoutType {
    /// How long the application may take from its submission, waiting included.
    Lifetime = 1,
}

/// What somebody may do with an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationAccessType {
    /// See its reports, pages and logs.
    ViewApp = 1,
    /// Kill it, move it, change its priority.
    ModifyApp = 2,
}

/// Whose applications are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ApplicationsRequestScope {
    /// Everybody's; what the user may not see is left out of the reports.
    All = 0,
    /// Those that the user may see.
    Viewable = 1,
    /// The user's own.
    Own = 2,
}

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum YarnApplicationAttemptState {
    /// It has been made.
    New = 1,
    /// It was handed to the scheduler.
    Submitted = 2,
    /// It waits for its container.
    Scheduled = 3,
    /// It has a container; the ResourceManager writes it down.
    AllocatedSaving = 4,
    /// It has a container, which is to be launched.
    Allocated = 5,
    /// Its container was launched; the ApplicationMaster has yet to register.
    Launched = 6,
    /// Its ApplicationMaster ended without unregistering, or never registered.
    Failed = 7,
    /// Its ApplicationMaster has registered.
    Running = 8,
    /// Its ApplicationMaster has unregistered; its container has yet to end.
    Finishing = 9,
    /// Its ApplicationMaster unregistered, and its container has ended.
    Finished = 10,
    /// It ended because somebody killed the application.
    Killed = 11,
}
