//! The requests and responses of ApplicationClientProtocol that are about the cluster: its nodes, queues, labels
//! and resources. Only declarations belong here.

use super::applications::YarnClusterMetrics;
use super::basics::{Resource, ResourceProfiles, ResourceTypeInfo};
use super::nodes::{
    AttributeToNodes, LabelsToNodeIds, NodeAttributeInfo, NodeAttributeKey, NodeIdToLabels,
    NodeLabel, NodeReport, NodeState, NodeToAttributes,
};
use super::queues::{QueueInfo, QueueUserAclInfo};
use crate::proto::messages;

messages! {
    /// The request of `getClusterMetrics`, which asks the ResourceManager for the numbers of the cluster's nodes by state. Sent by
    /// `YarnClient::metrics`.
    pub struct GetClusterMetricsRequest (Eq) {}

    /// The response to `getClusterMetrics`: the numbers of the cluster's nodes by state. Read by `YarnClient::metrics`.
    pub struct GetClusterMetricsResponse (Eq) {
        /// The numbers of nodes; always set by the ResourceManager.
        optional message<YarnClusterMetrics> cluster_metrics = 1;
    }

    /// The request of `getClusterNodes`, which asks the ResourceManager for the reports of the nodes in given states. Sent by
    /// `YarnClient::nodes`.
    pub struct GetClusterNodesRequest (Eq) {
        /// Selects nodes in any of these [`NodeState`]s; in any state if there is none.
        repeated enumeration(NodeState) node_states = 1 [packed = "false"];
    }

    /// The response to `getClusterNodes`: the reports of the nodes in the requested states. Read by `YarnClient::nodes`.
    pub struct GetClusterNodesResponse () {
        /// Reports of the selected nodes, in no order.
        repeated message<NodeReport> node_reports = 1;
    }

    /// The request of `getQueueInfo`, which asks the ResourceManager for the report of a queue, and if wanted of its applications and the
    /// queues below it. Sent by `YarnClient::queue`.
    pub struct GetQueueInfoRequest (Eq) {
        /// Name of the queue that is asked for, or its full path.
        optional string queue_name = 1;
        /// True if the answer is to list the applications in the queue.
        optional bool include_applications = 2;
        /// True if the answer is to list the queue's direct children.
        optional bool include_child_queues = 3;
        /// True if all queues below the children are to be listed too.
        optional bool recursive = 4;
        /// The cluster of a federation that is asked; all clusters if it is not set.
        optional string sub_cluster_id = 5;
    }

    /// The response to `getQueueInfo`: the queue's capacities, state and content, or nothing if there is no such queue. Read by
    /// `YarnClient::queue`.
    pub struct GetQueueInfoResponse () {
        /// The queue; not set if there is none of that name.
        optional message<QueueInfo> queue_info = 1;
    }

    /// The request of `getQueueUserAcls`, which asks for the permissions that the calling user has in each queue. Sent by
    /// `YarnClient::queue_acls`.
    pub struct GetQueueUserAclsInfoRequest (Eq) {}

    /// The response to `getQueueUserAcls`: the calling user's permissions by queue. Read by `YarnClient::queue_acls`.
    pub struct GetQueueUserAclsInfoResponse (Eq) {
        /// The calling user's permissions in every queue, in no order.
        repeated message<QueueUserAclInfo> queue_user_acls = 1;
    }

    /// The request of `getNodeToLabels`, which asks for the nodes with their node labels (names of partitions of the cluster). Sent by
    /// `YarnClient::nodes_to_labels`.
    pub struct GetNodesToLabelsRequest (Eq) {}

    /// The response to `getNodeToLabels`: the nodes that have labels, with these. Read by `YarnClient::nodes_to_labels`.
    pub struct GetNodesToLabelsResponse (Eq) {
        /// Nodes with at least one label, in no order.
        repeated message<NodeIdToLabels> node_to_labels = 1;
    }

    /// The request of `getLabelsToNodes`, which asks for the nodes that have given node labels. Sent by `YarnClient::labels_to_nodes`.
    pub struct GetLabelsToNodesRequest (Eq) {
        /// Selects any of these labels; all labels if there is none.
        repeated string node_labels = 1;
    }

    /// The response to `getLabelsToNodes`: the requested node labels, each with the nodes that have it. Read by
    /// `YarnClient::labels_to_nodes`.
    pub struct GetLabelsToNodesResponse (Eq) {
        /// Labels with at least one node, in no order.
        repeated message<LabelsToNodeIds> labels_to_nodes = 1;
    }

    /// The request of `getClusterNodeLabels`, which asks for the node labels that the cluster knows. Sent by `YarnClient::node_labels`.
    pub struct GetClusterNodeLabelsRequest (Eq) {}

    /// The response to `getClusterNodeLabels`: the node labels that the cluster knows. Read by `YarnClient::node_labels`.
    pub struct GetClusterNodeLabelsResponse (Eq) {
        /// Names of the labels only, for old clients.
        repeated string deprecated_node_labels = 1;
        /// The node labels that the cluster knows, in no order.
        repeated message<NodeLabel> node_labels = 2;
    }

    /// The request of `getResourceProfiles`, which asks for all resource profiles (named sizes of containers) of the cluster. This
    /// library has no method for it; `YarnClient::call` sends it.
    pub struct GetAllResourceProfilesRequest (Eq) {}

    /// The response to `getResourceProfiles`: all resource profiles of the cluster. It comes from `YarnClient::call`; no method here reads
    /// it.
    pub struct GetAllResourceProfilesResponse (Eq) {
        /// All profiles that the cluster has.
        required message<ResourceProfiles> resource_profiles = 1;
    }

    /// The request of `getResourceProfile`, which asks for one resource profile (a named size of containers) of the cluster. A cluster
    /// without profiles, or without this one, answers with an exception. This library has no method for it; `YarnClient::call` sends it.
    pub struct GetResourceProfileRequest (Eq) {
        /// Name of a profile that the ResourceManager has.
        required string profile = 1;
    }

    /// The response to `getResourceProfile`: the resources of a container of the requested profile. It comes from `YarnClient::call`; no
    /// method here reads it.
    pub struct GetResourceProfileResponse (Eq) {
        /// The resources of a container of the profile.
        required message<Resource> resources = 1;
    }

    /// The request of `getResourceTypeInfo`, which asks for the resource types of which containers can have an amount. Sent by
    /// `YarnClient::resource_types`.
    pub struct GetAllResourceTypeInfoRequest (Eq) {}

    /// The response to `getResourceTypeInfo`: the resource types of the cluster, memory and cores among them. Read by
    /// `YarnClient::resource_types`.
    pub struct GetAllResourceTypeInfoResponse (Eq) {
        /// The resource types, memory and cores among them.
        repeated message<ResourceTypeInfo> resource_type_info = 1;
    }

    /// The request of `getClusterNodeAttributes`, which asks for the attributes (named values of nodes) that some node has. This library
    /// has no method for it; `YarnClient::call` sends it.
    pub struct GetClusterNodeAttributesRequest (Eq) {}

    /// The response to `getClusterNodeAttributes`: the names and types of the attributes that some node has. It comes from
    /// `YarnClient::call`; no method here reads it.
    pub struct GetClusterNodeAttributesResponse (Eq) {
        /// The attributes that nodes have, in no order.
        repeated message<NodeAttributeInfo> node_attributes = 1;
    }

    /// The request of `getAttributesToNodes`, which asks for the nodes that have given attributes. This library has no method for it;
    /// `YarnClient::call` sends it.
    pub struct GetAttributesToNodesRequest (Eq) {
        /// Selects any of these attributes; all if there is none.
        repeated message<NodeAttributeKey> node_attributes = 1;
    }

    /// The response to `getAttributesToNodes`: the requested attributes, each with the nodes that have it and their values. It comes from
    /// `YarnClient::call`; no method here reads it.
    pub struct GetAttributesToNodesResponse (Eq) {
        /// The selected attributes with their nodes, in no order.
        repeated message<AttributeToNodes> attributes_to_nodes = 1;
    }

    /// The request of `getNodesToAttributes`, which asks for the attributes of given hosts. This library has no method for it;
    /// `YarnClient::call` sends it.
    pub struct GetNodesToAttributesRequest (Eq) {
        /// Selects any of these hosts; all if there is none.
        repeated string hostnames = 1;
    }

    /// The response to `getNodesToAttributes`: the requested hosts with their attributes. It comes from `YarnClient::call`; no method here
    /// reads it.
    pub struct GetNodesToAttributesResponse (Eq) {
        /// The selected hosts with their attributes, in no order.
        repeated message<NodeToAttributes> nodes_to_attributes = 1;
    }
}
