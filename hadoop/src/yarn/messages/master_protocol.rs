//! The requests and responses of ApplicationMasterProtocol. Only declarations belong here.

use super::applications::{ApplicationAclMap, FinalApplicationStatus};
use super::basics::{
    ContainerId, ExecutionType, Priority, Resource, ResourceProfiles, ResourceTypeInfo,
};
use super::containers::{Container, ContainerStatus};
use super::nodes::{NodeId, NodeReport};
use super::placement::{PlacementConstraintMapEntry, RejectedSchedulingRequest, SchedulingRequest};
use crate::tokens::TokenProto;

/// How many containers of a size are wanted in one place. The number is an absolute total per priority, place,
/// size and allocation id.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceRequest {
    /// The lower, the sooner it is served within the application.
    #[prost(message, optional, tag = "1")]
    pub priority: Option<Priority>,
    /// A host, a rack, or `*`.
    #[prost(string, optional, tag = "2")]
    pub resource_name: Option<String>,
    /// The size of one container.
    #[prost(message, optional, tag = "3")]
    pub capability: Option<Resource>,
    /// The total wanted now; 0 takes the request back.
    #[prost(int32, optional, tag = "4")]
    pub num_containers: Option<i32>,
    /// Whether a container elsewhere will do.
    #[prost(bool, optional, tag = "5", default = "true")]
    pub relax_locality: Option<bool>,
    /// A label that the node must have; nothing for the default of the application.
    #[prost(string, optional, tag = "6")]
    pub node_label_expression: Option<String>,
    /// Guaranteed, where it is not set.
    #[prost(message, optional, tag = "7")]
    pub execution_type_request: Option<ExecutionTypeRequest>,
    /// Comes back with the containers; -1 for none.
    #[prost(int64, optional, tag = "8", default = "-1")]
    pub allocation_request_id: Option<i64>,
}

/// Which execution type is asked for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecutionTypeRequest {
    /// An [`ExecutionType`].
    #[prost(enumeration = "ExecutionType", optional, tag = "1", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    /// Whether a container of the other type is no use.
    #[prost(bool, optional, tag = "2", default = "false")]
    pub enforce_execution_type: Option<bool>,
}

/// The request of `registerApplicationMaster`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterApplicationMasterRequest {
    /// Where the application's clients reach it.
    #[prost(string, optional, tag = "1")]
    pub host: Option<String>,
    /// At which port they do; -1 for none.
    #[prost(int32, optional, tag = "2")]
    pub rpc_port: Option<i32>,
    /// Where people see how it goes; empty for nowhere.
    #[prost(string, optional, tag = "3")]
    pub tracking_url: Option<String>,
    /// For the scheduling requests of this attempt, by their tags.
    #[prost(message, repeated, tag = "4")]
    pub placement_constraints: Vec<PlacementConstraintMapEntry>,
}

/// The response to `registerApplicationMaster`. Its `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct RegisterApplicationMasterResponse {
    /// The largest container that may be asked for.
    #[prost(message, optional, tag = "1")]
    pub maximum_capability: Option<Resource>,
    /// With which tokens of clients are checked: secret. On secure clusters only.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub client_to_am_token_master_key: Option<Vec<u8>>,
    /// Who else may do what with the application.
    #[prost(message, repeated, tag = "3")]
    pub application_acls: Vec<ApplicationAclMap>,
    /// That outlived an attempt, where the application keeps them.
    #[prost(message, repeated, tag = "4")]
    pub containers_from_previous_attempts: Vec<Container>,
    /// Where the application runs.
    #[prost(string, optional, tag = "5")]
    pub queue: Option<String>,
    /// For the nodes of the containers that are left.
    #[prost(message, repeated, tag = "6")]
    pub nm_tokens_from_previous_attempts: Vec<NmToken>,
    /// [`SchedulerResourceTypes`]: what requests are measured by.
    #[prost(enumeration = "SchedulerResourceTypes", repeated, packed = "false", tag = "7")]
    pub scheduler_resource_types: Vec<i32>,
    /// Those that the cluster has.
    #[prost(message, optional, tag = "8")]
    pub resource_profiles: Option<ResourceProfiles>,
    /// Those that the cluster knows.
    #[prost(message, repeated, tag = "9")]
    pub resource_types: Vec<ResourceTypeInfo>,
}

/// The token for one node's container service. It comes once per node and attempt: keep it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NmToken {
    /// Which node.
    #[prost(message, optional, tag = "1")]
    pub node_id: Option<NodeId>,
    /// What its container service takes.
    #[prost(message, optional, tag = "2")]
    pub token: Option<TokenProto>,
}

/// The request of `finishApplicationMaster`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FinishApplicationMasterRequest {
    /// Becomes part of the application's report.
    #[prost(string, optional, tag = "1")]
    pub diagnostics: Option<String>,
    /// Shown once the application has ended.
    #[prost(string, optional, tag = "2")]
    pub tracking_url: Option<String>,
    /// A [`FinalApplicationStatus`].
    #[prost(enumeration = "FinalApplicationStatus", optional, tag = "3")]
    pub final_status: Option<i32>,
}

/// The response to `finishApplicationMaster`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FinishApplicationMasterResponse {
    /// Ask again until this is true.
    #[prost(bool, optional, tag = "1", default = "false")]
    pub is_unregistered: Option<bool>,
}

/// The request of `allocate`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateRequest {
    /// What has changed since the last time, as absolute totals.
    #[prost(message, repeated, tag = "1")]
    pub ask: Vec<ResourceRequest>,
    /// Containers that are not wanted any more, started or not.
    #[prost(message, repeated, tag = "2")]
    pub release: Vec<ContainerId>,
    /// Changes of the places to avoid.
    #[prost(message, optional, tag = "3")]
    pub blacklist_request: Option<ResourceBlacklistRequest>,
    /// That of the last response; 0 after registering.
    #[prost(int32, optional, tag = "4")]
    pub response_id: Option<i32>,
    /// 0 to 1, for reports.
    #[prost(float, optional, tag = "5")]
    pub progress: Option<f32>,
    /// Running containers that are to change.
    #[prost(message, repeated, tag = "7")]
    pub update_requests: Vec<UpdateContainerRequest>,
    /// Containers that are wanted under placement constraints.
    #[prost(message, repeated, tag = "10")]
    pub scheduling_requests: Vec<SchedulingRequest>,
    /// A new one, where it has changed.
    #[prost(string, optional, tag = "11")]
    pub tracking_url: Option<String>,
}

/// Hosts and racks to avoid from now on, and not to avoid any more.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceBlacklistRequest {
    /// To be avoided from now on.
    #[prost(string, repeated, tag = "1")]
    pub blacklist_additions: Vec<String>,
    /// Not to be avoided any more.
    #[prost(string, repeated, tag = "2")]
    pub blacklist_removals: Vec<String>,
}

/// A running container that is to become larger, smaller, guaranteed or opportunistic.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainerRequest {
    /// That of the container as it is now: see [`Container`].
    #[prost(int32, required, tag = "1")]
    pub container_version: i32,
    /// Which container.
    #[prost(message, required, tag = "2")]
    pub container_id: ContainerId,
    /// A [`ContainerUpdateType`].
    #[prost(enumeration = "ContainerUpdateType", required, tag = "3")]
    pub update_type: i32,
    /// For a change of size: the new one.
    #[prost(message, optional, tag = "4")]
    pub capability: Option<Resource>,
    /// For a change of the type: the new [`ExecutionType`].
    #[prost(enumeration = "ExecutionType", optional, tag = "5")]
    pub execution_type: Option<i32>,
}

/// The response to `allocate`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateResponse {
    /// An [`AmCommand`]; mostly none.
    #[prost(enumeration = "AmCommand", optional, tag = "1")]
    pub am_command: Option<i32>,
    /// For the next request.
    #[prost(int32, optional, tag = "2")]
    pub response_id: Option<i32>,
    /// New ones, each said once.
    #[prost(message, repeated, tag = "3")]
    pub allocated_containers: Vec<Container>,
    /// Those that have ended, each said once.
    #[prost(message, repeated, tag = "4")]
    pub completed_container_statuses: Vec<ContainerStatus>,
    /// What the application could still get now.
    #[prost(message, optional, tag = "5")]
    pub limit: Option<Resource>,
    /// Nodes that have become usable or unusable.
    #[prost(message, repeated, tag = "6")]
    pub updated_nodes: Vec<NodeReport>,
    /// Nodes that take containers.
    #[prost(int32, optional, tag = "7")]
    pub num_cluster_nodes: Option<i32>,
    /// Containers that are about to be taken away.
    #[prost(message, optional, tag = "8")]
    pub preempt: Option<PreemptionMessage>,
    /// Once per node and attempt: keep them.
    #[prost(message, repeated, tag = "9")]
    pub nm_tokens: Vec<NmToken>,
    /// Replaces the AMRMToken in use.
    #[prost(message, optional, tag = "12")]
    pub am_rm_token: Option<TokenProto>,
    /// The application's, as it is now.
    #[prost(message, optional, tag = "13")]
    pub application_priority: Option<Priority>,
    /// Where its timeline collector is, where there is one.
    #[prost(message, optional, tag = "14")]
    pub collector_info: Option<CollectorInfo>,
    /// Changes that were refused.
    #[prost(message, repeated, tag = "15")]
    pub update_errors: Vec<UpdateContainerError>,
    /// Changes that were granted: their tokens go to the nodes.
    #[prost(message, repeated, tag = "16")]
    pub updated_containers: Vec<UpdatedContainer>,
    /// That were found after the registration.
    #[prost(message, repeated, tag = "17")]
    pub containers_from_previous_attempts: Vec<Container>,
    /// Requests that cannot be met.
    #[prost(message, repeated, tag = "18")]
    pub rejected_scheduling_requests: Vec<RejectedSchedulingRequest>,
    /// For proxies of a federation; mostly not set.
    #[prost(message, optional, tag = "19")]
    pub enhanced_headroom: Option<EnhancedHeadroom>,
}

/// Containers that will be taken away, and ones that could be given back instead.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionMessage {
    /// What is taken whatever is done.
    #[prost(message, optional, tag = "1")]
    pub strict_contract: Option<StrictPreemptionContract>,
    /// What is taken unless as much is given back.
    #[prost(message, optional, tag = "2")]
    pub contract: Option<PreemptionContract>,
}

/// Containers that will be taken away whatever is done.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StrictPreemptionContract {
    /// All of them.
    #[prost(message, repeated, tag = "1")]
    pub container: Vec<PreemptionContainer>,
}

/// A container in a preemption message.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionContainer {
    /// Which container.
    #[prost(message, optional, tag = "1")]
    pub id: Option<ContainerId>,
}

/// Resources to be given back, and the containers that are taken otherwise.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionContract {
    /// How much; containers of any number and place may be released for it.
    #[prost(message, repeated, tag = "1")]
    pub resource: Vec<PreemptionResourceRequest>,
    /// What is taken otherwise.
    #[prost(message, repeated, tag = "2")]
    pub container: Vec<PreemptionContainer>,
}

/// Resources to be given back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionResourceRequest {
    /// How many of which size.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<ResourceRequest>,
}

/// Where the application's timeline collector is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectorInfo {
    /// `host:port`.
    #[prost(string, optional, tag = "1")]
    pub collector_addr: Option<String>,
    /// What it takes, on secure clusters.
    #[prost(message, optional, tag = "2")]
    pub collector_token: Option<TokenProto>,
}

/// A change of a container that was refused.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainerError {
    /// Such as `INCORRECT_CONTAINER_VERSION_ERROR`.
    #[prost(string, optional, tag = "1")]
    pub reason: Option<String>,
    /// What was asked for.
    #[prost(message, optional, tag = "2")]
    pub update_request: Option<UpdateContainerRequest>,
    /// That of the container as it is now.
    #[prost(int32, optional, tag = "3")]
    pub current_container_version: Option<i32>,
}

/// A container that has changed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdatedContainer {
    /// A [`ContainerUpdateType`].
    #[prost(enumeration = "ContainerUpdateType", required, tag = "1")]
    pub update_type: i32,
    /// As it is now, with a new token.
    #[prost(message, required, tag = "2")]
    pub container: Container,
}

/// How busy the cluster is, for proxies that choose between the clusters of a federation.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnhancedHeadroom {
    /// Containers that wait in the cluster.
    #[prost(int32, optional, tag = "1")]
    pub total_pending_count: Option<i32>,
    /// Cores of the nodes that take containers.
    #[prost(int32, optional, tag = "2")]
    pub total_active_cores: Option<i32>,
}

/// What the scheduler looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SchedulerResourceTypes {
    /// Memory; always.
    Memory = 0,
    /// Cores, where the scheduler counts them.
    Cpu = 1,
}

/// What is to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerUpdateType {
    /// It gets more.
    IncreaseResource = 0,
    /// It gets less.
    DecreaseResource = 1,
    /// From opportunistic to guaranteed.
    PromoteExecutionType = 2,
    /// From guaranteed to opportunistic.
    DemoteExecutionType = 3,
}

/// What an ApplicationMaster must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum AmCommand {
    /// Register again: the ResourceManager has been restarted.
    Resync = 1,
    /// End: another attempt has taken over, or the application is gone.
    Shutdown = 2,
}
