//! The requests and responses of ApplicationMasterProtocol. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::applications::{ApplicationAclMap, FinalApplicationStatus};
use super::basics::{
    ContainerId, ExecutionType, Priority, Resource, ResourceProfiles, ResourceTypeInfo,
};
use super::containers::{Container, ContainerStatus};
use super::nodes::{NodeId, NodeReport};
use super::placement::{PlacementConstraintMapEntry, RejectedSchedulingRequest, SchedulingRequest};
use crate::tokens::TokenProto;

/// How many containers of a size are wanted in one place. The number is an absolute total per priority, place, size and allocation id.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceRequest {
    #[prost(message, optional, tag = "1")]
    pub priority: Option<Priority>,
    /// A host, a rack, or `*`.
    #[prost(string, optional, tag = "2")]
    pub resource_name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub capability: Option<Resource>,
    /// The total wanted now; 0 takes the request back.
    #[prost(int32, optional, tag = "4")]
    pub num_containers: Option<i32>,
    /// Whether a container elsewhere will do.
    #[prost(bool, optional, tag = "5", default = "true")]
    pub relax_locality: Option<bool>,
    #[prost(string, optional, tag = "6")]
    pub node_label_expression: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub execution_type_request: Option<ExecutionTypeRequest>,
    /// Comes back with the containers; -1 for none.
    #[prost(int64, optional, tag = "8", default = "-1")]
    pub allocation_request_id: Option<i64>,
}

/// Which execution type is asked for.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ExecutionTypeRequest {
    #[prost(enumeration = "ExecutionType", optional, tag = "1", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    /// Whether a container of the other type is no use.
    #[prost(bool, optional, tag = "2", default = "false")]
    pub enforce_execution_type: Option<bool>,
}

/// The request of `registerApplicationMaster`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RegisterApplicationMasterRequest {
    #[prost(string, optional, tag = "1")]
    pub host: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub rpc_port: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub tracking_url: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub placement_constraints: Vec<PlacementConstraintMapEntry>,
}

/// The response to `registerApplicationMaster`. Its `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct RegisterApplicationMasterResponse {
    #[prost(message, optional, tag = "1")]
    pub maximum_capability: Option<Resource>,
    /// With which tokens of clients are checked: secret. On secure clusters only.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub client_to_am_token_master_key: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    pub application_acls: Vec<ApplicationAclMap>,
    /// That outlived an attempt, where the application keeps them.
    #[prost(message, repeated, tag = "4")]
    pub containers_from_previous_attempts: Vec<Container>,
    #[prost(string, optional, tag = "5")]
    pub queue: Option<String>,
    #[prost(message, repeated, tag = "6")]
    pub nm_tokens_from_previous_attempts: Vec<NmToken>,
    #[prost(enumeration = "SchedulerResourceTypes", repeated, packed = "false", tag = "7")]
    pub scheduler_resource_types: Vec<i32>,
    #[prost(message, optional, tag = "8")]
    pub resource_profiles: Option<ResourceProfiles>,
    #[prost(message, repeated, tag = "9")]
    pub resource_types: Vec<ResourceTypeInfo>,
}

/// The token for one node's container service. It comes once per node and attempt: keep it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct NmToken {
    #[prost(message, optional, tag = "1")]
    pub node_id: Option<NodeId>,
    #[prost(message, optional, tag = "2")]
    pub token: Option<TokenProto>,
}

/// The request of `finishApplicationMaster`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FinishApplicationMasterRequest {
    #[prost(string, optional, tag = "1")]
    pub diagnostics: Option<String>,
    /// Shown once the application has ended.
    #[prost(string, optional, tag = "2")]
    pub tracking_url: Option<String>,
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
    #[prost(message, repeated, tag = "2")]
    pub release: Vec<ContainerId>,
    #[prost(message, optional, tag = "3")]
    pub blacklist_request: Option<ResourceBlacklistRequest>,
    /// That of the last response; 0 after registering.
    #[prost(int32, optional, tag = "4")]
    pub response_id: Option<i32>,
    #[prost(float, optional, tag = "5")]
    pub progress: Option<f32>,
    #[prost(message, repeated, tag = "7")]
    pub update_requests: Vec<UpdateContainerRequest>,
    #[prost(message, repeated, tag = "10")]
    pub scheduling_requests: Vec<SchedulingRequest>,
    #[prost(string, optional, tag = "11")]
    pub tracking_url: Option<String>,
}

/// Hosts and racks to avoid from now on, and not to avoid any more.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceBlacklistRequest {
    #[prost(string, repeated, tag = "1")]
    pub blacklist_additions: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub blacklist_removals: Vec<String>,
}

/// A running container that is to become larger, smaller, guaranteed or opportunistic.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainerRequest {
    #[prost(int32, required, tag = "1")]
    pub container_version: i32,
    #[prost(message, required, tag = "2")]
    pub container_id: ContainerId,
    #[prost(enumeration = "ContainerUpdateType", required, tag = "3")]
    pub update_type: i32,
    #[prost(message, optional, tag = "4")]
    pub capability: Option<Resource>,
    #[prost(enumeration = "ExecutionType", optional, tag = "5")]
    pub execution_type: Option<i32>,
}

/// The response to `allocate`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AllocateResponse {
    #[prost(enumeration = "AmCommand", optional, tag = "1")]
    pub am_command: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub response_id: Option<i32>,
    #[prost(message, repeated, tag = "3")]
    pub allocated_containers: Vec<Container>,
    #[prost(message, repeated, tag = "4")]
    pub completed_container_statuses: Vec<ContainerStatus>,
    /// What the application could still get now.
    #[prost(message, optional, tag = "5")]
    pub limit: Option<Resource>,
    #[prost(message, repeated, tag = "6")]
    pub updated_nodes: Vec<NodeReport>,
    #[prost(int32, optional, tag = "7")]
    pub num_cluster_nodes: Option<i32>,
    #[prost(message, optional, tag = "8")]
    pub preempt: Option<PreemptionMessage>,
    /// Once per node and attempt: keep them.
    #[prost(message, repeated, tag = "9")]
    pub nm_tokens: Vec<NmToken>,
    /// Replaces the AMRMToken in use.
    #[prost(message, optional, tag = "12")]
    pub am_rm_token: Option<TokenProto>,
    #[prost(message, optional, tag = "13")]
    pub application_priority: Option<Priority>,
    #[prost(message, optional, tag = "14")]
    pub collector_info: Option<CollectorInfo>,
    #[prost(message, repeated, tag = "15")]
    pub update_errors: Vec<UpdateContainerError>,
    #[prost(message, repeated, tag = "16")]
    pub updated_containers: Vec<UpdatedContainer>,
    /// That were found after the registration.
    #[prost(message, repeated, tag = "17")]
    pub containers_from_previous_attempts: Vec<Container>,
    #[prost(message, repeated, tag = "18")]
    pub rejected_scheduling_requests: Vec<RejectedSchedulingRequest>,
    #[prost(message, optional, tag = "19")]
    pub enhanced_headroom: Option<EnhancedHeadroom>,
}

/// Containers that will be taken away, and ones that could be given back instead.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionMessage {
    #[prost(message, optional, tag = "1")]
    pub strict_contract: Option<StrictPreemptionContract>,
    #[prost(message, optional, tag = "2")]
    pub contract: Option<PreemptionContract>,
}

/// Containers that will be taken away whatever is done.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StrictPreemptionContract {
    #[prost(message, repeated, tag = "1")]
    pub container: Vec<PreemptionContainer>,
}

/// A container in a preemption message.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionContainer {
    #[prost(message, optional, tag = "1")]
    pub id: Option<ContainerId>,
}

/// Resources to be given back, and the containers that are taken otherwise.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionContract {
    #[prost(message, repeated, tag = "1")]
    pub resource: Vec<PreemptionResourceRequest>,
    #[prost(message, repeated, tag = "2")]
    pub container: Vec<PreemptionContainer>,
}

/// Resources to be given back.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreemptionResourceRequest {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<ResourceRequest>,
}

/// Where the application's timeline collector is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CollectorInfo {
    #[prost(string, optional, tag = "1")]
    pub collector_addr: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub collector_token: Option<TokenProto>,
}

/// A change of a container that was refused.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateContainerError {
    #[prost(string, optional, tag = "1")]
    pub reason: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub update_request: Option<UpdateContainerRequest>,
    #[prost(int32, optional, tag = "3")]
    pub current_container_version: Option<i32>,
}

/// A container that has changed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdatedContainer {
    #[prost(enumeration = "ContainerUpdateType", required, tag = "1")]
    pub update_type: i32,
    #[prost(message, required, tag = "2")]
    pub container: Container,
}

/// How busy the cluster is for opportunistic containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnhancedHeadroom {
    #[prost(int32, optional, tag = "1")]
    pub total_pending_count: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub total_active_cores: Option<i32>,
}

/// What the scheduler looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SchedulerResourceTypes {
    Memory = 0,
    Cpu = 1,
}

/// What is to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerUpdateType {
    IncreaseResource = 0,
    DecreaseResource = 1,
    PromoteExecutionType = 2,
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
