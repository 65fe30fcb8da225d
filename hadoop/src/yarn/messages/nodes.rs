//! Nodes, their labels and attributes. Only declarations belong here.

use super::basics::{Resource, ResourceUtilization};

/// What the ResourceManager says of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeReport {
    /// Which node this is.
    #[prost(message, optional, tag = "1")]
    pub node_id: Option<NodeId>,
    /// `host:port` of its web pages.
    #[prost(string, optional, tag = "2")]
    pub http_address: Option<String>,
    /// Such as `/default-rack`.
    #[prost(string, optional, tag = "3")]
    pub rack_name: Option<String>,
    /// What containers have there.
    #[prost(message, optional, tag = "4")]
    pub used: Option<Resource>,
    /// What containers may have there in all.
    #[prost(message, optional, tag = "5")]
    pub capability: Option<Resource>,
    /// Containers there now.
    #[prost(int32, optional, tag = "6")]
    pub num_containers: Option<i32>,
    /// A [`NodeState`].
    #[prost(enumeration = "NodeState", optional, tag = "7")]
    pub node_state: Option<i32>,
    /// What its own checks found; empty where all is well.
    #[prost(string, optional, tag = "8")]
    pub health_report: Option<String>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "9")]
    pub last_health_report_time: Option<i64>,
    /// Its labels; one at most, so far.
    #[prost(string, repeated, tag = "10")]
    pub node_labels: Vec<String>,
    /// What its containers use, as it measures.
    #[prost(message, optional, tag = "11")]
    pub containers_utilization: Option<ResourceUtilization>,
    /// What the whole machine uses, as it measures.
    #[prost(message, optional, tag = "12")]
    pub node_utilization: Option<ResourceUtilization>,
    /// While it is on its way out of service: how long it still waits for its containers, in seconds.
    #[prost(uint32, optional, tag = "13")]
    pub decommissioning_timeout: Option<u32>,
    /// In answers to ApplicationMasters: a [`NodeUpdateType`].
    #[prost(enumeration = "NodeUpdateType", optional, tag = "14")]
    pub node_update_type: Option<i32>,
    /// Its attributes.
    #[prost(message, repeated, tag = "15")]
    pub node_attributes: Vec<NodeAttribute>,
}

/// A NodeManager: its host and the port of its container service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct NodeId {
    /// As the node calls itself.
    #[prost(string, optional, tag = "1")]
    pub host: Option<String>,
    /// Of its container service.
    #[prost(int32, optional, tag = "2")]
    pub port: Option<i32>,
}

/// An attribute of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeAttribute {
    /// Its name.
    #[prost(message, required, tag = "1")]
    pub attribute_key: NodeAttributeKey,
    /// A [`NodeAttributeType`].
    #[prost(enumeration = "NodeAttributeType", optional, tag = "2", default = "String")]
    pub attribute_type: Option<i32>,
    /// Its value; empty where only being there counts.
    #[prost(string, optional, tag = "3")]
    pub attribute_value: Option<String>,
}

/// An attribute's name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeAttributeKey {
    /// Who has given it: `rm.yarn.io` for administrators, `nm.yarn.io` for the node itself.
    #[prost(string, optional, tag = "1", default = "rm.yarn.io")]
    pub attribute_prefix: Option<String>,
    /// Unique below the prefix.
    #[prost(string, required, tag = "2")]
    pub attribute_name: String,
}

/// A node's labels.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeIdToLabels {
    /// A port of 0 stands for all of the host's nodes.
    #[prost(message, optional, tag = "1")]
    pub node_id: Option<NodeId>,
    /// At least one.
    #[prost(string, repeated, tag = "2")]
    pub node_labels: Vec<String>,
}

/// The nodes of a label.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LabelsToNodeIds {
    /// One label, in spite of its name.
    #[prost(string, optional, tag = "1")]
    pub node_labels: Option<String>,
    /// A port of 0 stands for all of the host's nodes.
    #[prost(message, repeated, tag = "2")]
    pub node_id: Vec<NodeId>,
}

/// A label that the cluster knows.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeLabel {
    /// Unique in the cluster.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Whether its nodes stay idle where nobody asks for the label.
    #[prost(bool, optional, tag = "2", default = "true")]
    pub is_exclusive: Option<bool>,
}

/// An attribute that some node has.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeAttributeInfo {
    /// Its name.
    #[prost(message, required, tag = "1")]
    pub attribute_key: NodeAttributeKey,
    /// A [`NodeAttributeType`].
    #[prost(enumeration = "NodeAttributeType", required, tag = "2")]
    pub attribute_type: i32,
}

/// The nodes that have an attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttributeToNodes {
    /// Which attribute.
    #[prost(message, required, tag = "1")]
    pub node_attribute: NodeAttributeKey,
    /// Its nodes, each with its value.
    #[prost(message, repeated, tag = "2")]
    pub node_value_map: Vec<NodeToAttributeValue>,
}

/// A node's value of an attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeToAttributeValue {
    /// The node.
    #[prost(string, required, tag = "1")]
    pub hostname: String,
    /// Empty where only being there counts.
    #[prost(string, required, tag = "2")]
    pub attribute_value: String,
}

/// A node's attributes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeToAttributes {
    /// Its host.
    #[prost(string, optional, tag = "1")]
    pub node: Option<String>,
    /// All that it has.
    #[prost(message, repeated, tag = "2")]
    pub node_attributes: Vec<NodeAttribute>,
}

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeState {
    /// It has just registered.
    New = 1,
    /// It takes containers.
    Running = 2,
    /// Its own checks found it unfit; it takes no containers.
    Unhealthy = 3,
    /// It was taken out of service.
    Decommissioned = 4,
    /// It was not heard of for too long.
    Lost = 5,
    /// It was told to start anew.
    Rebooted = 6,
    /// It is on its way out of service: it takes no new containers.
    Decommissioning = 7,
    /// It ended in an orderly way.
    Shutdown = 8,
}

/// What a changed node means for an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeUpdateType {
    /// It takes containers again.
    Usable = 0,
    /// It takes none, and those there were are lost.
    Unusable = 1,
    /// It will leave; what runs there goes on for a while.
    Decommissioning = 2,
}

/// What an attribute holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeAttributeType {
    /// Text.
    String = 1,
}
