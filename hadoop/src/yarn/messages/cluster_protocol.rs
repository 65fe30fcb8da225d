//! The requests and responses of ApplicationClientProtocol that are about the cluster: its nodes, queues, labels
//! and resources. Only declarations belong here.

use super::applications::YarnClusterMetrics;
use super::basics::{Resource, ResourceProfiles, ResourceTypeInfo};
use super::nodes::{
    AttributeToNodes, LabelsToNodeIds, NodeAttributeInfo, NodeAttributeKey, NodeIdToLabels,
    NodeLabel, NodeReport, NodeState, NodeToAttributes,
};
use super::queues::{QueueInfo, QueueUserAclInfo};

/// The request of `getClusterMetrics`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterMetricsRequest {}

/// The response to `getClusterMetrics`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterMetricsResponse {
    /// Always set.
    #[prost(message, optional, tag = "1")]
    pub cluster_metrics: Option<YarnClusterMetrics>,
}

/// The request of `getClusterNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodesRequest {
    /// Any of these [`NodeState`]s; any state where there is none.
    #[prost(enumeration = "NodeState", repeated, packed = "false", tag = "1")]
    pub node_states: Vec<i32>,
}

/// The response to `getClusterNodes`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetClusterNodesResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub node_reports: Vec<NodeReport>,
}

/// The request of `getQueueInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetQueueInfoRequest {
    /// Its name, or its full path.
    #[prost(string, optional, tag = "1")]
    pub queue_name: Option<String>,
    /// Whether the applications in it are listed.
    #[prost(bool, optional, tag = "2")]
    pub include_applications: Option<bool>,
    /// Whether its children are listed.
    #[prost(bool, optional, tag = "3")]
    pub include_child_queues: Option<bool>,
    /// Whether their children are, and so on.
    #[prost(bool, optional, tag = "4")]
    pub recursive: Option<bool>,
    /// Of a federation: which cluster is asked; all where it is not set.
    #[prost(string, optional, tag = "5")]
    pub sub_cluster_id: Option<String>,
}

/// The response to `getQueueInfo`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetQueueInfoResponse {
    /// Not set where there is no such queue.
    #[prost(message, optional, tag = "1")]
    pub queue_info: Option<QueueInfo>,
}

/// The request of `getQueueUserAcls`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetQueueUserAclsInfoRequest {}

/// The response to `getQueueUserAcls`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetQueueUserAclsInfoResponse {
    /// Every queue, in no order.
    #[prost(message, repeated, tag = "1")]
    pub queue_user_acls: Vec<QueueUserAclInfo>,
}

/// The request of `getNodeToLabels`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToLabelsRequest {}

/// The response to `getNodeToLabels`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToLabelsResponse {
    /// Nodes with at least one label, in no order.
    #[prost(message, repeated, tag = "1")]
    pub node_to_labels: Vec<NodeIdToLabels>,
}

/// The request of `getLabelsToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLabelsToNodesRequest {
    /// Any of these labels; all labels where there is none.
    #[prost(string, repeated, tag = "1")]
    pub node_labels: Vec<String>,
}

/// The response to `getLabelsToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLabelsToNodesResponse {
    /// Labels with at least one node, in no order.
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
    /// In no order.
    #[prost(message, repeated, tag = "2")]
    pub node_labels: Vec<NodeLabel>,
}

/// The request of `getResourceProfiles`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceProfilesRequest {}

/// The response to `getResourceProfiles`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceProfilesResponse {
    /// All that the cluster has.
    #[prost(message, required, tag = "1")]
    pub resource_profiles: ResourceProfiles,
}

/// The request of `getResourceProfile`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResourceProfileRequest {
    /// Its name.
    #[prost(string, required, tag = "1")]
    pub profile: String,
}

/// The response to `getResourceProfile`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetResourceProfileResponse {
    /// What a container of it gets.
    #[prost(message, required, tag = "1")]
    pub resources: Resource,
}

/// The request of `getResourceTypeInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceTypeInfoRequest {}

/// The response to `getResourceTypeInfo`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAllResourceTypeInfoResponse {
    /// Memory and cores among them.
    #[prost(message, repeated, tag = "1")]
    pub resource_type_info: Vec<ResourceTypeInfo>,
}

/// The request of `getClusterNodeAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodeAttributesRequest {}

/// The response to `getClusterNodeAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetClusterNodeAttributesResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub node_attributes: Vec<NodeAttributeInfo>,
}

/// The request of `getAttributesToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAttributesToNodesRequest {
    /// Any of these attributes; all where there is none.
    #[prost(message, repeated, tag = "1")]
    pub node_attributes: Vec<NodeAttributeKey>,
}

/// The response to `getAttributesToNodes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetAttributesToNodesResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub attributes_to_nodes: Vec<AttributeToNodes>,
}

/// The request of `getNodesToAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToAttributesRequest {
    /// Any of these hosts; all where there is none.
    #[prost(string, repeated, tag = "1")]
    pub hostnames: Vec<String>,
}

/// The response to `getNodesToAttributes`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNodesToAttributesResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub nodes_to_attributes: Vec<NodeToAttributes>,
}
