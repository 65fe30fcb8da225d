//! The requests and responses of ApplicationMasterProtocol. Only declarations belong here.

use super::applications::{ApplicationAclMap, FinalApplicationStatus};
use super::basics::{
    ContainerId, ExecutionType, Priority, Resource, ResourceProfiles, ResourceTypeInfo,
};
use super::containers::{Container, ContainerStatus};
use super::nodes::{NodeId, NodeReport};
use super::placement::{PlacementConstraintMapEntry, RejectedSchedulingRequest, SchedulingRequest};
use crate::proto::{enumerations, messages};
use crate::tokens::TokenProto;

messages! {
    /// How many containers of a size are wanted in one place. The number is an absolute total per priority, place,
    /// size and allocation id.
    pub struct ResourceRequest (Eq) {
        /// The lower, the sooner it is served within the application.
        optional message<Priority> priority = 1;
        /// A host, a rack, or `*`.
        optional string resource_name = 2;
        /// The size of one container.
        optional message<Resource> capability = 3;
        /// The total wanted now; 0 takes the request back.
        optional int32 num_containers = 4;
        /// Whether a container elsewhere will do.
        optional bool relax_locality = 5 [default = "true"];
        /// A label that the node must have; nothing for the default of the application.
        optional string node_label_expression = 6;
        /// Guaranteed, where it is not set.
        optional message<ExecutionTypeRequest> execution_type_request = 7;
        /// Comes back with the containers; -1 for none.
        optional int64 allocation_request_id = 8 [default = "-1"];
    }

    /// A request for an execution type.
    pub struct ExecutionTypeRequest (Eq) {
        /// The preferred [`ExecutionType`] of the containers.
        optional enumeration(ExecutionType) execution_type = 1 [default = "Guaranteed"];
        /// Whether a container of the other type is no use.
        optional bool enforce_execution_type = 2 [default = "false"];
    }

    /// The request of `registerApplicationMaster`.
    pub struct RegisterApplicationMasterRequest (Eq) {
        /// The host at which the application's clients reach the ApplicationMaster.
        optional string host = 1;
        /// At which port they do; -1 for none.
        optional int32 rpc_port = 2;
        /// The address of the web page that shows the application's progress; empty for none.
        optional string tracking_url = 3;
        /// For the scheduling requests of this attempt, by their tags.
        repeated message<PlacementConstraintMapEntry> placement_constraints = 4;
    }

    /// The response to `registerApplicationMaster`. Its `Debug` does not show the key.
    #[prost(skip_debug)]
    pub struct RegisterApplicationMasterResponse (Eq) {
        /// The largest container that may be asked for.
        optional message<Resource> maximum_capability = 1;
        /// With which tokens of clients are checked: secret. On secure clusters only.
        optional bytes client_to_am_token_master_key = 2;
        /// The users and groups who may access the application besides its owner.
        repeated message<ApplicationAclMap> application_acls = 3;
        /// The containers that have outlived an earlier attempt, if the application keeps containers across attempts.
        repeated message<Container> containers_from_previous_attempts = 4;
        /// The application's queue.
        optional string queue = 5;
        /// For the nodes of the containers that are left.
        repeated message<NmToken> nm_tokens_from_previous_attempts = 6;
        /// [`SchedulerResourceTypes`]: what requests are measured by.
        repeated enumeration(SchedulerResourceTypes) scheduler_resource_types = 7 [packed = "false"];
        /// Those that the cluster has.
        optional message<ResourceProfiles> resource_profiles = 8;
        /// Those that the cluster knows.
        repeated message<ResourceTypeInfo> resource_types = 9;
    }

    /// The token for one node's container service. It comes once per node and attempt: keep it.
    pub struct NmToken (Eq) {
        /// The node whose container service accepts the token.
        optional message<NodeId> node_id = 1;
        /// The token that the node's container service accepts.
        optional message<TokenProto> token = 2;
    }

    /// The request of `finishApplicationMaster`.
    pub struct FinishApplicationMasterRequest (Eq) {
        /// Becomes part of the application's report.
        optional string diagnostics = 1;
        /// Shown once the application has ended.
        optional string tracking_url = 2;
        /// A [`FinalApplicationStatus`]: the application's own verdict on its success.
        optional enumeration(FinalApplicationStatus) final_status = 3;
    }

    /// The response to `finishApplicationMaster`.
    pub struct FinishApplicationMasterResponse (Eq) {
        /// Ask again until this is true.
        optional bool is_unregistered = 1 [default = "false"];
    }

    /// The request of `allocate`.
    pub struct AllocateRequest () {
        /// The requests that have changed since the last call, as absolute totals.
        repeated message<ResourceRequest> ask = 1;
        /// Containers that are not wanted any more, started or not.
        repeated message<ContainerId> release = 2;
        /// Changes of the places to avoid.
        optional message<ResourceBlacklistRequest> blacklist_request = 3;
        /// The `response_id` of the last response; 0 after registering.
        optional int32 response_id = 4;
        /// 0 to 1, for reports.
        optional float progress = 5;
        /// Running containers that are to change.
        repeated message<UpdateContainerRequest> update_requests = 7;
        /// Containers that are wanted under placement constraints.
        repeated message<SchedulingRequest> scheduling_requests = 10;
        /// A new one, where it has changed.
        optional string tracking_url = 11;
    }

    /// Hosts and racks to avoid from now on, and not to avoid any more.
    pub struct ResourceBlacklistRequest (Eq) {
        /// To be avoided from now on.
        repeated string blacklist_additions = 1;
        /// Not to be avoided any more.
        repeated string blacklist_removals = 2;
    }

    /// A running container that is to become larger, smaller, guaranteed or opportunistic.
    pub struct UpdateContainerRequest (Eq) {
        /// The current [`Container::version`].
        required int32 container_version = 1;
        /// The running container that is to change.
        required message<ContainerId> container_id = 2;
        /// A [`ContainerUpdateType`]: the change that is wanted.
        required enumeration(ContainerUpdateType) update_type = 3;
        /// For a change of size: the new one.
        optional message<Resource> capability = 4;
        /// For a change of the type: the new [`ExecutionType`].
        optional enumeration(ExecutionType) execution_type = 5;
    }

    /// The response to `allocate`.
    pub struct AllocateResponse () {
        /// An [`AmCommand`]; mostly none.
        optional enumeration(AmCommand) am_command = 1;
        /// For the next request.
        optional int32 response_id = 2;
        /// New ones, each said once.
        repeated message<Container> allocated_containers = 3;
        /// Those that have ended, each said once.
        repeated message<ContainerStatus> completed_container_statuses = 4;
        /// The resources that the application could still get.
        optional message<Resource> limit = 5;
        /// Nodes that have become usable or unusable.
        repeated message<NodeReport> updated_nodes = 6;
        /// Nodes that take containers.
        optional int32 num_cluster_nodes = 7;
        /// Containers that are about to be taken away.
        optional message<PreemptionMessage> preempt = 8;
        /// Once per node and attempt: keep them.
        repeated message<NmToken> nm_tokens = 9;
        /// Replaces the AMRMToken in use.
        optional message<TokenProto> am_rm_token = 12;
        /// The application's, as it is now.
        optional message<Priority> application_priority = 13;
        /// The application's timeline collector, if there is one.
        optional message<CollectorInfo> collector_info = 14;
        /// Changes that were refused.
        repeated message<UpdateContainerError> update_errors = 15;
        /// Changes that were granted: their tokens go to the nodes.
        repeated message<UpdatedContainer> updated_containers = 16;
        /// The containers of earlier attempts that were found after the registration.
        repeated message<Container> containers_from_previous_attempts = 17;
        /// Requests that cannot be met.
        repeated message<RejectedSchedulingRequest> rejected_scheduling_requests = 18;
        /// For proxies of a federation; mostly not set.
        optional message<EnhancedHeadroom> enhanced_headroom = 19;
    }

    /// Containers that will be taken away, and ones that could be given back instead.
    pub struct PreemptionMessage (Eq) {
        /// The containers that are taken whatever the application does.
        optional message<StrictPreemptionContract> strict_contract = 1;
        /// The containers that are taken unless the application gives as much back.
        optional message<PreemptionContract> contract = 2;
    }

    /// Containers that will be taken away whatever is done.
    pub struct StrictPreemptionContract (Eq) {
        /// All of them.
        repeated message<PreemptionContainer> container = 1;
    }

    /// A container in a preemption message.
    pub struct PreemptionContainer (Eq) {
        /// Id of a container that is to be given back.
        optional message<ContainerId> id = 1;
    }

    /// Resources to be given back, and the containers that are taken otherwise.
    pub struct PreemptionContract (Eq) {
        /// How much; containers of any number and place may be released for it.
        repeated message<PreemptionResourceRequest> resource = 1;
        /// The containers that are taken otherwise.
        repeated message<PreemptionContainer> container = 2;
    }

    /// Resources to be given back.
    pub struct PreemptionResourceRequest (Eq) {
        /// How many of which size.
        optional message<ResourceRequest> resource = 1;
    }

    /// The address of the application's timeline collector.
    pub struct CollectorInfo (Eq) {
        /// Address of the collector, as `host:port`.
        optional string collector_addr = 1;
        /// The token that the collector accepts, on secure clusters.
        optional message<TokenProto> collector_token = 2;
    }

    /// A change of a container that was refused.
    pub struct UpdateContainerError (Eq) {
        /// Such as `INCORRECT_CONTAINER_VERSION_ERROR`.
        optional string reason = 1;
        /// The refused request, as it was sent.
        optional message<UpdateContainerRequest> update_request = 2;
        /// The container's current version.
        optional int32 current_container_version = 3;
    }

    /// A container that has changed.
    pub struct UpdatedContainer (Eq) {
        /// A [`ContainerUpdateType`]: the change that was made.
        required enumeration(ContainerUpdateType) update_type = 1;
        /// The container as it is now, with a new token.
        required message<Container> container = 2;
    }

    /// How busy the cluster is, for proxies that choose between the clusters of a federation.
    pub struct EnhancedHeadroom (Eq) {
        /// Containers that wait in the cluster.
        optional int32 total_pending_count = 1;
        /// Cores of the nodes that take containers.
        optional int32 total_active_cores = 2;
    }
}

enumerations! {
    /// A resource type that the scheduler takes into account.
    pub enum SchedulerResourceTypes {
        /// Memory, which every scheduler counts.
        Memory = 0,
        /// Cores, where the scheduler counts them.
        Cpu = 1,
    }

    /// The kind of a container's change.
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

    /// A command for an ApplicationMaster.
    pub enum AmCommand {
        /// Register again: the ResourceManager has been restarted.
        Resync = 1,
        /// End: another attempt has taken over, or the application is gone.
        Shutdown = 2,
    }
}
