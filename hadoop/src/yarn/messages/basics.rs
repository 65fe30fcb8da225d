//! Ids, resources and the small pairs that other messages are made of. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

/// An application: the ResourceManager's start time and a number. Shown as `application_1570379089091_0019`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ApplicationId {
    #[prost(int32, optional, tag = "1")]
    pub id: Option<i32>,
    /// When the ResourceManager that made it had started, in milliseconds since 1970.
    #[prost(int64, optional, tag = "2")]
    pub cluster_timestamp: Option<i64>,
}

/// An amount of resources.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Resource {
    /// Mebibytes.
    #[prost(int64, optional, tag = "1")]
    pub memory: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    pub virtual_cores: Option<i32>,
    /// All resource types, memory and cores among them, where the cluster has others.
    #[prost(message, repeated, tag = "3")]
    pub resource_value_map: Vec<ResourceInformation>,
}

/// An amount of one resource type.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceInformation {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(int64, optional, tag = "2")]
    pub value: Option<i64>,
    /// Such as `Mi`, or nothing.
    #[prost(string, optional, tag = "3")]
    pub units: Option<String>,
    #[prost(enumeration = "ResourceTypes", optional, tag = "4")]
    pub kind: Option<i32>,
    #[prost(string, repeated, tag = "5")]
    pub tags: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<StringStringMap>,
}

/// An entry of a map from texts to texts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StringStringMap {
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// An entry of a map from texts to numbers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StringLongMap {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(int64, required, tag = "2")]
    pub value: i64,
}

/// One of an application's attempts, numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ApplicationAttemptId {
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    #[prost(int32, optional, tag = "2")]
    pub attempt_id: Option<i32>,
}

/// A priority; among the requests of one application lower numbers come first, among applications higher ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Priority {
    #[prost(int32, optional, tag = "1")]
    pub priority: Option<i32>,
}

/// What a node or its containers use.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceUtilization {
    /// Mebibytes.
    #[prost(int32, optional, tag = "1")]
    pub pmem: Option<i32>,
    /// Mebibytes.
    #[prost(int32, optional, tag = "2")]
    pub vmem: Option<i32>,
    /// Cores.
    #[prost(float, optional, tag = "3")]
    pub cpu: Option<f32>,
    #[prost(message, repeated, tag = "4")]
    pub custom_resources: Vec<StringFloatMap>,
}

/// An entry of a map from texts to numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringFloatMap {
    #[prost(string, required, tag = "1")]
    pub key: String,
    #[prost(float, required, tag = "2")]
    pub value: f32,
}

/// A container of an attempt. Shown as `container_e01_1570379089091_0019_01_000002`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ContainerId {
    /// Not set by YARN: the attempt holds it.
    #[prost(message, optional, tag = "1")]
    pub app_id: Option<ApplicationId>,
    #[prost(message, optional, tag = "2")]
    pub app_attempt_id: Option<ApplicationAttemptId>,
    /// The number within the attempt in the lower 40 bits; above them how often the ResourceManager was restarted.
    #[prost(int64, optional, tag = "3")]
    pub id: Option<i64>,
}

/// Amounts of resources that the cluster has names for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceProfiles {
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles_map: Vec<ResourceProfileEntry>,
}

/// A named amount of resources.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceProfileEntry {
    #[prost(string, required, tag = "1")]
    pub name: String,
    #[prost(message, required, tag = "2")]
    pub resources: Resource,
}

/// A resource type that the cluster knows.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceTypeInfo {
    #[prost(string, required, tag = "1")]
    pub name: String,
    #[prost(string, optional, tag = "2")]
    pub units: Option<String>,
    #[prost(enumeration = "ResourceTypes", optional, tag = "3")]
    pub kind: Option<i32>,
}

/// What kind of quantity a resource type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ResourceTypes {
    Countable = 0,
}

/// Whether a container may be preempted by others on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ExecutionType {
    Guaranteed = 1,
    Opportunistic = 2,
}
