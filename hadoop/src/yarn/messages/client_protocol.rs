//! The requests and responses of ApplicationClientProtocol. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::applications::{
    ApplicationAttemptReport, ApplicationReport, ApplicationSubmissionContext,
    ApplicationUpdateTimeoutMap, ApplicationsRequestScope, YarnApplicationState,
    YarnClusterMetrics,
};
use super::basics::{
    ApplicationAttemptId, ApplicationId, ContainerId, Priority, Resource, ResourceProfiles,
    ResourceTypeInfo,
};
use super::container_protocol::SignalContainerCommand;
use super::containers::ContainerReport;
use super::nodes::{
    AttributeToNodes, LabelsToNodeIds, NodeAttributeInfo, NodeAttributeKey, NodeIdToLabels,
    NodeLabel, NodeReport, NodeState, NodeToAttributes,
};
use super::queues::{QueueInfo, QueueUserAclInfo};
use crate::tokens::TokenProto;

/// The request of `getNewApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewApplicationRequest {}

/// The response to `getNewApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewApplicationResponse {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    /// The largest container that may be asked for.
    #[prost(message, optional, tag = "2")]
    pub maximum_capability: Option<Resource>,
}

/// The request of `getApplicationReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationReportRequest {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
}

/// The response to `getApplicationReport`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetApplicationReportResponse {
    #[prost(message, optional, tag = "1")]
    pub application_report: Option<ApplicationReport>,
}

/// The request of `submitApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmitApplicationRequest {
    #[prost(message, optional, tag = "1")]
    pub application_submission_context: Option<ApplicationSubmissionContext>,
}

/// The response to `submitApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmitApplicationResponse {}

/// The request of `failApplicationAttempt`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FailApplicationAttemptRequest {
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
}

/// The response to `failApplicationAttempt`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FailApplicationAttemptResponse {}

/// The request of `forceKillApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KillApplicationRequest {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    #[prost(string, optional, tag = "2")]
    pub diagnostics: Option<String>,
}

/// The response to `forceKillApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KillApplicationResponse {
    /// Ask again until this is true.
    #[prost(bool, optional, tag = "1", default = "false")]
    pub is_kill_completed: Option<bool>,
}

/// The request of `getClusterMetrics`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterMetricsRequest {}

/// The response to `getClusterMetrics`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterMetricsResponse {
    #[prost(message, optional, tag = "1")]
    pub cluster_metrics: Option<YarnClusterMetrics>,
}

/// The request of `getApplications`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationsRequest {
    #[prost(string, repeated, tag = "1")]
    pub application_types: Vec<String>,
    #[prost(enumeration = "YarnApplicationState", repeated, packed = "false", tag = "2")]
    pub application_states: Vec<i32>,
    #[prost(string, repeated, tag = "3")]
    pub users: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub queues: Vec<String>,
    #[prost(int64, optional, tag = "5")]
    pub limit: Option<i64>,
    /// Milliseconds since 1970, like the other times.
    #[prost(int64, optional, tag = "6")]
    pub start_begin: Option<i64>,
    #[prost(int64, optional, tag = "7")]
    pub start_end: Option<i64>,
    #[prost(int64, optional, tag = "8")]
    pub finish_begin: Option<i64>,
    #[prost(int64, optional, tag = "9")]
    pub finish_end: Option<i64>,
    #[prost(string, repeated, tag = "10")]
    pub application_tags: Vec<String>,
    #[prost(enumeration = "ApplicationsRequestScope", optional, tag = "11", default = "All")]
    pub scope: Option<i32>,
    #[prost(string, optional, tag = "12")]
    pub name: Option<String>,
}

/// The response to `getApplications`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetApplicationsResponse {
    #[prost(message, repeated, tag = "1")]
    pub applications: Vec<ApplicationReport>,
}

/// The request of `getClusterNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodesRequest {
    #[prost(enumeration = "NodeState", repeated, packed = "false", tag = "1")]
    pub node_states: Vec<i32>,
}

/// The response to `getClusterNodes`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetClusterNodesResponse {
    #[prost(message, repeated, tag = "1")]
    pub node_reports: Vec<NodeReport>,
}

/// The request of `getQueueInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetQueueInfoRequest {
    #[prost(string, optional, tag = "1")]
    pub queue_name: Option<String>,
    #[prost(bool, optional, tag = "2")]
    pub include_applications: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    pub include_child_queues: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub recursive: Option<bool>,
    #[prost(string, optional, tag = "5")]
    pub sub_cluster_id: Option<String>,
}

/// The response to `getQueueInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetQueueInfoResponse {
    #[prost(message, optional, tag = "1")]
    pub queue_info: Option<QueueInfo>,
}

/// The request of `getQueueUserAcls`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetQueueUserAclsInfoRequest {}

/// The response to `getQueueUserAcls`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetQueueUserAclsInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub queue_user_acls: Vec<QueueUserAclInfo>,
}

/// The request of `getDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetDelegationTokenRequest {
    #[prost(string, required, tag = "1")]
    pub renewer: String,
}

/// The response to `getDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetDelegationTokenResponse {
    #[prost(message, optional, tag = "1")]
    pub token: Option<TokenProto>,
}

/// The request of `renewDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenewDelegationTokenRequest {
    #[prost(message, required, tag = "1")]
    pub token: TokenProto,
}

/// The response to `renewDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenewDelegationTokenResponse {
    #[prost(uint64, required, tag = "1")]
    pub new_expiry_time: u64,
}

/// The request of `cancelDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CancelDelegationTokenRequest {
    #[prost(message, required, tag = "1")]
    pub token: TokenProto,
}

/// The response to `cancelDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CancelDelegationTokenResponse {}

/// The request of `moveApplicationAcrossQueues`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MoveApplicationAcrossQueuesRequest {
    #[prost(message, required, tag = "1")]
    pub application_id: ApplicationId,
    #[prost(string, required, tag = "2")]
    pub target_queue: String,
}

/// The response to `moveApplicationAcrossQueues`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MoveApplicationAcrossQueuesResponse {}

/// The request of `getApplicationAttemptReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptReportRequest {
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
}

/// The response to `getApplicationAttemptReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptReportResponse {
    #[prost(message, optional, tag = "1")]
    pub application_attempt_report: Option<ApplicationAttemptReport>,
}

/// The request of `getApplicationAttempts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptsRequest {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
}

/// The response to `getApplicationAttempts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptsResponse {
    #[prost(message, repeated, tag = "1")]
    pub application_attempts: Vec<ApplicationAttemptReport>,
}

/// The request of `getContainerReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerReportRequest {
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
}

/// The response to `getContainerReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerReportResponse {
    #[prost(message, optional, tag = "1")]
    pub container_report: Option<ContainerReport>,
}

/// The request of `getContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
}

/// The response to `getContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerReport>,
}

/// The request of `getNodeToLabels`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToLabelsRequest {}

/// The response to `getNodeToLabels`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToLabelsResponse {
    #[prost(message, repeated, tag = "1")]
    pub node_to_labels: Vec<NodeIdToLabels>,
}

/// The request of `getLabelsToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLabelsToNodesRequest {
    #[prost(string, repeated, tag = "1")]
    pub node_labels: Vec<String>,
}

/// The response to `getLabelsToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLabelsToNodesResponse {
    #[prost(message, repeated, tag = "1")]
    pub labels_to_nodes: Vec<LabelsToNodeIds>,
}

/// The request of `getClusterNodeLabels`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodeLabelsRequest {}

/// The response to `getClusterNodeLabels`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodeLabelsResponse {
    /// Names only, for old clients.
    #[prost(string, repeated, tag = "1")]
    pub deprecated_node_labels: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub node_labels: Vec<NodeLabel>,
}

/// The request of `updateApplicationPriority`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationPriorityRequest {
    #[prost(message, required, tag = "1")]
    pub application_id: ApplicationId,
    #[prost(message, required, tag = "2")]
    pub application_priority: Priority,
}

/// The response to `updateApplicationPriority`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationPriorityResponse {
    #[prost(message, optional, tag = "1")]
    pub application_priority: Option<Priority>,
}

/// The request of `signalToContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignalContainerRequest {
    #[prost(message, required, tag = "1")]
    pub container_id: ContainerId,
    #[prost(enumeration = "SignalContainerCommand", required, tag = "2")]
    pub command: i32,
}

/// The response to `signalToContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignalContainerResponse {}

/// The request of `updateApplicationTimeouts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationTimeoutsRequest {
    #[prost(message, required, tag = "1")]
    pub application_id: ApplicationId,
    #[prost(message, repeated, tag = "2")]
    pub application_timeouts: Vec<ApplicationUpdateTimeoutMap>,
}

/// The response to `updateApplicationTimeouts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationTimeoutsResponse {
    #[prost(message, repeated, tag = "1")]
    pub application_timeouts: Vec<ApplicationUpdateTimeoutMap>,
}

/// The request of `getResourceProfiles`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceProfilesRequest {}

/// The response to `getResourceProfiles`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceProfilesResponse {
    #[prost(message, required, tag = "1")]
    pub resource_profiles: ResourceProfiles,
}

/// The request of `getResourceProfile`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResourceProfileRequest {
    #[prost(string, required, tag = "1")]
    pub profile: String,
}

/// The response to `getResourceProfile`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResourceProfileResponse {
    #[prost(message, required, tag = "1")]
    pub resources: Resource,
}

/// The request of `getResourceTypeInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceTypeInfoRequest {}

/// The response to `getResourceTypeInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceTypeInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub resource_type_info: Vec<ResourceTypeInfo>,
}

/// The request of `getClusterNodeAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodeAttributesRequest {}

/// The response to `getClusterNodeAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodeAttributesResponse {
    #[prost(message, repeated, tag = "1")]
    pub node_attributes: Vec<NodeAttributeInfo>,
}

/// The request of `getAttributesToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAttributesToNodesRequest {
    #[prost(message, repeated, tag = "1")]
    pub node_attributes: Vec<NodeAttributeKey>,
}

/// The response to `getAttributesToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAttributesToNodesResponse {
    #[prost(message, repeated, tag = "1")]
    pub attributes_to_nodes: Vec<AttributeToNodes>,
}

/// The request of `getNodesToAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToAttributesRequest {
    #[prost(string, repeated, tag = "1")]
    pub hostnames: Vec<String>,
}

/// The response to `getNodesToAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToAttributesResponse {
    #[prost(message, repeated, tag = "1")]
    pub nodes_to_attributes: Vec<NodeToAttributes>,
}
