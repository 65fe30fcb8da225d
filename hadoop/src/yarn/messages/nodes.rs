//! Nodes, their labels and attributes. Only declarations belong here.

use super::basics::{Resource, ResourceUtilization};
use crate::proto::{enumerations, messages};

messages! {
    /// The ResourceManager's report of a node: the node's state, its resources, their use, and its last health report (in milliseconds
    /// since 1970). Part of `AllocateResponse` and `GetClusterNodesResponse`; `YarnClient::nodes` returns it, and `MasterEvent::Nodes`
    /// brings it.
    pub struct NodeReport () {
        /// The node's id.
        optional message<NodeId> node_id = 1;
        /// The address of the node's web pages, as `host:port`.
        optional string http_address = 2;
        /// The node's rack, such as `/default-rack`.
        optional string rack_name = 3;
        /// The resources that containers on the node have.
        optional message<Resource> used = 4;
        /// The resources that the node offers to containers in total.
        optional message<Resource> capability = 5;
        /// Number of containers on the node now.
        optional int32 num_containers = 6;
        /// A [`NodeState`], as the ResourceManager sees it.
        optional enumeration(NodeState) node_state = 7;
        /// The findings of the node's own health checks; empty if it is healthy.
        optional string health_report = 8;
        /// The time of the node's last health report, in milliseconds since 1970.
        optional int64 last_health_report_time = 9;
        /// The node's labels; one at most, so far.
        repeated string node_labels = 10;
        /// The measured use of the node's containers.
        optional message<ResourceUtilization> containers_utilization = 11;
        /// The measured use of the whole machine.
        optional message<ResourceUtilization> node_utilization = 12;
        /// Seconds that a node on its way out of service still waits for its containers.
        optional uint32 decommissioning_timeout = 13;
        /// A [`NodeUpdateType`]: the meaning of the change; set only in answers to ApplicationMasters.
        optional enumeration(NodeUpdateType) node_update_type = 14;
        /// Attributes that administrators or the node itself have set.
        repeated message<NodeAttribute> node_attributes = 15;
    }

    /// The id of a NodeManager: its host and the port of the service by which it starts containers. Shown as `host:port`. `NmClient` calls
    /// a node at this address.
    pub struct NodeId (Eq, PartialOrd, Ord, Hash) {
        /// The host name under which the node has registered.
        optional string host = 1;
        /// The port of the node's container service, which ApplicationMasters call.
        optional int32 port = 2;
    }

    /// An attribute of a node (a name with a value); placement constraints of requests may demand it. Part of `NodeReport` and
    /// `NodeToAttributes`.
    pub struct NodeAttribute (Eq) {
        /// Prefix and name of the attribute, which together are unique.
        required message<NodeAttributeKey> attribute_key = 1;
        /// A [`NodeAttributeType`]: the type of `attribute_value`.
        optional enumeration(NodeAttributeType) attribute_type = 2 [default = "String"];
        /// The attribute's value; empty where only being there counts.
        optional string attribute_value = 3;
    }

    /// The name of a node attribute, with the prefix that says whether administrators or the node gave it. Both together identify the
    /// attribute.
    pub struct NodeAttributeKey (Eq) {
        /// The giver of the attribute: `rm.yarn.io` for administrators, `nm.yarn.io` for the node itself.
        optional string attribute_prefix = 1 [default = "rm.yarn.io"];
        /// The attribute's name, unique below the prefix.
        required string attribute_name = 2;
    }

    /// A node and the node labels that it has. Part of `GetNodesToLabelsResponse`.
    pub struct NodeIdToLabels (Eq) {
        /// The node; a port of 0 stands for all of the host's nodes.
        optional message<NodeId> node_id = 1;
        /// The node's labels, at least one.
        repeated string node_labels = 2;
    }

    /// A node label and the nodes that have it. Part of `GetLabelsToNodesResponse`.
    pub struct LabelsToNodeIds (Eq) {
        /// Name of the label (one, in spite of the field's name).
        optional string node_labels = 1;
        /// The label's nodes; a port of 0 stands for all of the host's nodes.
        repeated message<NodeId> node_id = 2;
    }

    /// A node label that the cluster knows: the name of a partition of its nodes, which requests for containers may demand. Part of
    /// `GetClusterNodeLabelsResponse`.
    pub struct NodeLabel (Eq) {
        /// The label's name, unique in the cluster.
        optional string name = 1;
        /// True if its nodes stay idle where nobody asks for the label; false if requests without a label may use their idle
        /// resources.
        optional bool is_exclusive = 2 [default = "true"];
    }

    /// The name and type of an attribute that some node has, without a value. Part of `GetClusterNodeAttributesResponse`.
    pub struct NodeAttributeInfo (Eq) {
        /// Prefix and name of the attribute.
        required message<NodeAttributeKey> attribute_key = 1;
        /// A [`NodeAttributeType`]: the type of its values.
        required enumeration(NodeAttributeType) attribute_type = 2;
    }

    /// An attribute and the nodes that have it, each with its value. Part of `GetAttributesToNodesResponse`.
    pub struct AttributeToNodes (Eq) {
        /// Prefix and name of the attribute.
        required message<NodeAttributeKey> node_attribute = 1;
        /// The attribute's nodes, each with its value.
        repeated message<NodeToAttributeValue> node_value_map = 2;
    }

    /// A host and the value that its node has for an attribute, in an [`AttributeToNodes`].
    pub struct NodeToAttributeValue (Eq) {
        /// Host name of the node, without a port.
        required string hostname = 1;
        /// The node's value of the attribute; empty where only being there counts.
        required string attribute_value = 2;
    }

    /// A host and all attributes of its node, with their values. Part of `GetNodesToAttributesResponse`.
    pub struct NodeToAttributes (Eq) {
        /// Host name of the node, without a port.
        optional string node = 1;
        /// All attributes of the node.
        repeated message<NodeAttribute> node_attributes = 2;
    }
}

enumerations! {
    /// The state of a node, as the ResourceManager sees it. Only a node that is `Running` takes new containers; those of a `Lost` one are
    /// lost. Fields of `GetClusterNodesRequest` and `NodeReport` hold its number.
    pub enum NodeState {
        /// The node has just registered and takes no containers yet.
        New = 1,
        /// The node is registered and healthy, sends heartbeats, and takes containers.
        Running = 2,
        /// The node's own checks found it unfit; it takes no containers.
        Unhealthy = 3,
        /// The node was taken out of service.
        Decommissioned = 4,
        /// The node was not heard of for too long; its containers count as lost.
        Lost = 5,
        /// The ResourceManager has told the node to start anew.
        Rebooted = 6,
        /// The node is on its way out of service: it takes no new containers.
        Decommissioning = 7,
        /// The node ended in an orderly way.
        Shutdown = 8,
    }

    /// The consequence of a node's change of state for an application that has containers there: it takes containers again, they are lost,
    /// or the node leaves soon. Set in the reports of `MasterEvent::Nodes` by newer ResourceManagers only. A field of `NodeReport` holds
    /// its number.
    pub enum NodeUpdateType {
        /// The node takes containers again.
        Usable = 0,
        /// The node takes no containers, and those that it had are lost.
        Unusable = 1,
        /// The node will leave; what runs there goes on for a while.
        Decommissioning = 2,
    }

    /// The type of a node attribute's value.
    pub enum NodeAttributeType {
        /// The value is any text; there is no other type so far.
        String = 1,
    }
}
