//! Nodes, their labels and attributes. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::basics::{Resource, ResourceUtilization};

/// What the ResourceManager says of a node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeReport {
    #[prost(message, optional, tag = "1")]
    pub node_id: Option<NodeId>,
    /// `host:port` of its web pages.
    #[prost(string, optional, tag = "2")]
    pub http_address: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub rack_name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub used: Option<Resource>,
    #[prost(message, optional, tag = "5")]
    pub capability: Option<Resource>,
    #[prost(int32, optional, tag = "6")]
    pub num_containers: Option<i32>,
    #[prost(enumeration = "NodeState", optional, tag = "7")]
    pub node_state: Option<i32>,
    #[prost(string, optional, tag = "8")]
    pub health_report: Option<String>,
    /// Milliseconds since 1970.
    #[prost(int64, optional, tag = "9")]
    pub last_health_report_time: Option<i64>,
    #[prost(string, repeated, tag = "10")]
    pub node_labels: Vec<String>,
    #[prost(message, optional, tag = "11")]
    pub containers_utilization: Option<ResourceUtilization>,
    #[prost(message, optional, tag = "12")]
    pub node_utilization: Option<ResourceUtilization>,
    /// Seconds.
    #[prost(uint32, optional, tag = "13")]
    pub decommissioning_timeout: Option<u32>,
    #[prost(enumeration = "NodeUpdateType", optional, tag = "14")]
    pub node_update_type: Option<i32>,
    #[prost(message, repeated, tag = "15")]
    pub node_attributes: Vec<NodeAttribute>,
}

/// A NodeManager: its host and the port of its container service.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct NodeId {
    #[prost(string, optional, tag = "1")]
    pub host: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub port: Option<i32>,
}

/// An attribute of a node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeAttribute {
    #[prost(message, required, tag = "1")]
    pub attribute_key: NodeAttributeKey,
    #[prost(enumeration = "NodeAttributeType", optional, tag = "2", default = "String")]
    pub attribute_type: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub attribute_value: Option<String>,
}

/// An attribute's name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeAttributeKey {
    #[prost(string, optional, tag = "1", default = "rm.yarn.io")]
    pub attribute_prefix: Option<String>,
    #[prost(string, required, tag = "2")]
    pub attribute_name: String,
}

/// A node's labels.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeIdToLabels {
    #[prost(message, optional, tag = "1")]
    pub node_id: Option<NodeId>,
    #[prost(string, repeated, tag = "2")]
    pub node_labels: Vec<String>,
}

/// The nodes of a label.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LabelsToNodeIds {
    /// One label, in spite of its name.
    #[prost(string, optional, tag = "1")]
    pub node_labels: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub node_id: Vec<NodeId>,
}

/// A label that the cluster knows.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeLabel {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(bool, optional, tag = "2", default = "true")]
    pub is_exclusive: Option<bool>,
}

/// An attribute that some node has.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeAttributeInfo {
    #[prost(message, required, tag = "1")]
    pub attribute_key: NodeAttributeKey,
    #[prost(enumeration = "NodeAttributeType", required, tag = "2")]
    pub attribute_type: i32,
}

/// The nodes that have an attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AttributeToNodes {
    #[prost(message, required, tag = "1")]
    pub node_attribute: NodeAttributeKey,
    #[prost(message, repeated, tag = "2")]
    pub node_value_map: Vec<NodeToAttributeValue>,
}

/// A node's value of an attribute.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeToAttributeValue {
    #[prost(string, required, tag = "1")]
    pub hostname: String,
    #[prost(string, required, tag = "2")]
    pub attribute_value: String,
}

/// A node's attributes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NodeToAttributes {
    #[prost(string, optional, tag = "1")]
    pub node: Option<String>,
    #[prost(message, repeated, tag = "2")]
    pub node_attributes: Vec<NodeAttribute>,
}

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeState {
    New = 1,
    Running = 2,
    Unhealthy = 3,
    Decommissioned = 4,
    Lost = 5,
    Rebooted = 6,
    Decommissioning = 7,
    Shutdown = 8,
}

/// What a changed node means for an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeUpdateType {
    Usable = 0,
    Unusable = 1,
    Decommissioning = 2,
}

/// What an attribute holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum NodeAttributeType {
    String = 1,
}
