//! Ids, resources and the small pairs that other messages are made of. Only declarations belong here.

use crate::proto::{enumerations, messages};

messages! {
    /// The id of an application: the ResourceManager's start time and a number since then. Shown as, and parsed by `FromStr` from,
    /// `application_1570379089091_0019`. Values are ordered by `id`, then by `cluster_timestamp`. Fields that are not set count as 0.
    pub struct ApplicationId (Copy, Eq, PartialOrd, Ord, Hash) {
        /// Number of the application since `cluster_timestamp`, from 1.
        optional int32 id = 1;
        /// The time at which the ResourceManager that made the id had started, in milliseconds since 1970.
        optional int64 cluster_timestamp = 2;
    }

    /// An amount of resources: memory in MiB, cores as nodes count them, and further types by name, such as a container's size, a request's
    /// or what a node offers. Fields that are not set count as 0.
    pub struct Resource (Eq) {
        /// Memory in mebibytes (MiB).
        optional int64 memory = 1;
        /// Cores as nodes count them (`yarn.nodemanager.resource.cpu-vcores`).
        optional int32 virtual_cores = 2;
        /// Amounts by resource type, memory and cores among them; empty where the cluster has no other types.
        repeated message<ResourceInformation> resource_value_map = 3;
    }

    /// An amount of one resource type within a [`Resource`]: the type's name (`memory-mb`, `vcores`, `yarn.io/gpu`), the amount, and its
    /// unit.
    pub struct ResourceInformation (Eq) {
        /// The type's name: `memory-mb`, `vcores`, `yarn.io/gpu`.
        required string key = 1;
        /// Amount of the resource, counted in `units`.
        optional int64 value = 2;
        /// Unit of `value`, such as `Mi`; empty for plain numbers.
        optional string units = 3;
        /// A [`ResourceTypes`]: how the resource is counted.
        optional enumeration(ResourceTypes) kind = 4;
        /// Tags that administrators have given to the type; mostly none.
        repeated string tags = 5;
        /// Pairs that administrators have given to the type; mostly none.
        repeated message<StringStringMap> attributes = 6;
    }

    /// An entry of a map from texts to texts, as protocol buffers of version 2 spell maps.
    pub struct StringStringMap (Eq) {
        /// The key, unique in its map.
        optional string key = 1;
        /// The value that belongs to the key; may be empty.
        optional string value = 2;
    }

    /// An entry of a map from texts to whole numbers, such as amounts by resource type. Part of `ApplicationResourceUsageReport`.
    pub struct StringLongMap (Eq) {
        /// The key, such as the name of a resource type.
        required string key = 1;
        /// The number that belongs to the key; the field that holds the map says what is counted.
        required int64 value = 2;
    }

    /// The id of one attempt to run an application: the application and a number from 1. Each attempt has an
    /// ApplicationMaster of its own.
    pub struct ApplicationAttemptId (Copy, Eq, PartialOrd, Ord, Hash) {
        /// The application that the attempt belongs to.
        optional message<ApplicationId> application_id = 1;
        /// Number of the attempt within its application, from 1.
        optional int32 attempt_id = 2;
    }

    /// A priority, of an application or a request for containers; 0 if it is not set. Among the requests of one application lower numbers
    /// are served first, among applications higher ones.
    pub struct Priority (Copy, Eq, PartialOrd, Ord, Hash) {
        /// The priority's number; 0 if it is not set.
        optional int32 priority = 1;
    }

    /// The measured use of resources by a node, or by all its containers together, at the node's last report: memory in MiB, cores with
    /// fractions. Part of `NodeReport`.
    pub struct ResourceUtilization () {
        /// Physical memory in use, in mebibytes.
        optional int32 pmem = 1;
        /// Virtual memory in use, in mebibytes.
        optional int32 vmem = 2;
        /// Cores in use, fractions included.
        optional float cpu = 3;
        /// The use of other resource types, by their names.
        repeated message<StringFloatMap> custom_resources = 4;
    }

    /// An entry of a map from texts to fractional numbers, such as the use of each resource type. Part of `ResourceUtilization`.
    pub struct StringFloatMap () {
        /// The key, such as the name of a resource type.
        required string key = 1;
        /// The number that belongs to the key; the field that holds the map says what is counted.
        required float value = 2;
    }

    /// The id of a container: its attempt and a number. Shown as `container_e01_1570379089091_0019_01_000002`, where `e01` counts the
    /// ResourceManager's restarts. Two ids of one container may differ in `app_id`, which messages may leave out.
    pub struct ContainerId (Copy, Eq, PartialOrd, Ord, Hash) {
        /// The application of the container; not set by YARN, because the attempt's id holds it.
        optional message<ApplicationId> app_id = 1;
        /// The attempt that got the container, also where a later attempt has taken it over.
        optional message<ApplicationAttemptId> app_attempt_id = 2;
        /// The container's number within the attempt in the lower 40 bits; above them the number of restarts of the
        /// ResourceManager.
        optional int64 id = 3;
    }

    /// The resource profiles of a cluster: amounts of resources that have names, by which containers can be asked for. Part of
    /// `GetAllResourceProfilesResponse` and `RegisterApplicationMasterResponse`.
    pub struct ResourceProfiles (Eq) {
        /// The profiles, in no order.
        repeated message<ResourceProfileEntry> resource_profiles_map = 1;
    }

    /// One resource profile of a cluster: a named amount of resources. Part of `ResourceProfiles`.
    pub struct ResourceProfileEntry (Eq) {
        /// Name of the profile, such as `minimum`, `default`, `maximum`.
        required string name = 1;
        /// The resources of a container that is asked for by this profile.
        required message<Resource> resources = 2;
    }

    /// A resource type of which containers can have an amount in this cluster, with the unit of the amounts. Part of
    /// `GetAllResourceTypeInfoResponse` and `RegisterApplicationMasterResponse`.
    pub struct ResourceTypeInfo (Eq) {
        /// The type's name: `memory-mb`, `vcores`, `yarn.io/gpu`.
        required string name = 1;
        /// The unit in which amounts of the type are given, such as `Mi`; empty for plain numbers.
        optional string units = 2;
        /// A [`ResourceTypes`]: how the resource is counted.
        optional enumeration(ResourceTypes) kind = 3;
    }
}

enumerations! {
    /// The way in which a resource type is measured; there is one so far.
    pub enum ResourceTypes {
        /// The resource can be counted and split, as memory can.
        Countable = 0,
    }

    /// The execution type of a container: guaranteed, which starts at once on resources of its own, or opportunistic, which may be queued
    /// or stopped in favour of others on its node.
    pub enum ExecutionType {
        /// The container starts at once on resources of its own.
        Guaranteed = 1,
        /// The container may wait on its node, and is stopped when a guaranteed one needs the place.
        Opportunistic = 2,
    }
}
