//! Ids, resources and the small pairs that other messages are made of. Only declarations belong here.

/// An application: the ResourceManager's start time and a number. Shown as `application_1570379089091_0019`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ApplicationId {
    /// Counts the applications since `cluster_timestamp`, from 1.
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
    /// Cores as nodes count them (`yarn.nodemanager.resource.cpu-vcores`).
    #[prost(int32, optional, tag = "2")]
    pub virtual_cores: Option<i32>,
    /// All resource types, memory and cores among them, where the cluster has others.
    #[prost(message, repeated, tag = "3")]
    pub resource_value_map: Vec<ResourceInformation>,
}

/// An amount of one resource type.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceInformation {
    /// The type's name: `memory-mb`, `vcores`, `yarn.io/gpu`.
    #[prost(string, required, tag = "1")]
    pub key: String,
    /// In `units`.
    #[prost(int64, optional, tag = "2")]
    pub value: Option<i64>,
    /// Such as `Mi`, or nothing.
    #[prost(string, optional, tag = "3")]
    pub units: Option<String>,
    /// A [`ResourceTypes`].
    #[prost(enumeration = "ResourceTypes", optional, tag = "4")]
    pub kind: Option<i32>,
    /// Words that administrators have given to the type; mostly none.
    #[prost(string, repeated, tag = "5")]
    pub tags: Vec<String>,
    /// Pairs that administrators have given to the type; mostly none.
    #[prost(message, repeated, tag = "6")]
    pub attributes: Vec<StringStringMap>,
}

/// An entry of a map from texts to texts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StringStringMap {
    /// What the entry is found by; unique in its map.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// What it says; may be empty.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// An entry of a map from texts to numbers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StringLongMap {
    /// What the entry is found by, such as the name of a resource type.
    #[prost(string, required, tag = "1")]
    pub key: String,
    /// Its number; the map says of what.
    #[prost(int64, required, tag = "2")]
    pub value: i64,
}

/// One of an application's attempts, numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ApplicationAttemptId {
    /// Whose attempt it is.
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    /// From 1.
    #[prost(int32, optional, tag = "2")]
    pub attempt_id: Option<i32>,
}

/// A priority; among the requests of one application lower numbers come first, among applications higher ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Priority {
    /// 0 where it is not set.
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
    /// Of other resource types, by their names.
    #[prost(message, repeated, tag = "4")]
    pub custom_resources: Vec<StringFloatMap>,
}

/// An entry of a map from texts to numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringFloatMap {
    /// What the entry is found by, such as the name of a resource type.
    #[prost(string, required, tag = "1")]
    pub key: String,
    /// Its number; the map says of what.
    #[prost(float, required, tag = "2")]
    pub value: f32,
}

/// A container of an attempt. Shown as `container_e01_1570379089091_0019_01_000002`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct ContainerId {
    /// Not set by YARN: the attempt holds it.
    #[prost(message, optional, tag = "1")]
    pub app_id: Option<ApplicationId>,
    /// Whose container it is: the attempt that got it, also where a later one has taken it over.
    #[prost(message, optional, tag = "2")]
    pub app_attempt_id: Option<ApplicationAttemptId>,
    /// The number within the attempt in the lower 40 bits; above them how often the ResourceManager was restarted.
    #[prost(int64, optional, tag = "3")]
    pub id: Option<i64>,
}

/// Amounts of resources that the cluster has names for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceProfiles {
    /// The profiles, in no order.
    #[prost(message, repeated, tag = "1")]
    pub resource_profiles_map: Vec<ResourceProfileEntry>,
}

/// A named amount of resources.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceProfileEntry {
    /// Such as `minimum`, `default`, `maximum`.
    #[prost(string, required, tag = "1")]
    pub name: String,
    /// What a container of this profile gets.
    #[prost(message, required, tag = "2")]
    pub resources: Resource,
}

/// A resource type that the cluster knows.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceTypeInfo {
    /// `memory-mb`, `vcores`, `yarn.io/gpu`.
    #[prost(string, required, tag = "1")]
    pub name: String,
    /// In which amounts of it are given, such as `Mi`; empty for plain numbers.
    #[prost(string, optional, tag = "2")]
    pub units: Option<String>,
    /// A [`ResourceTypes`].
    #[prost(enumeration = "ResourceTypes", optional, tag = "3")]
    pub kind: Option<i32>,
}

/// What kind of quantity a resource type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ResourceTypes {
    /// It can be counted and split, as memory can.
    Countable = 0,
}

/// Whether a container may be preempted by others on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ExecutionType {
    /// It starts at once on resources of its own.
    Guaranteed = 1,
    /// It may wait on its node, and is stopped when a guaranteed one needs the place.
    Opportunistic = 2,
}
