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
    /// An ApplicationMaster's request for containers of one size in one place, sent with `allocate`. Its number is the total wanted now for
    /// this priority, place, size and allocation id, not an addition to earlier requests. `Master` makes these from an `Ask`: one for each
    /// place, and always one for `*`.
    pub struct ResourceRequest (Eq) {
        /// The priority within the application: lower numbers are served first.
        optional message<Priority> priority = 1;
        /// The place where containers are wanted: a host, a rack, or `*` for anywhere.
        optional string resource_name = 2;
        /// The size of one container that is wanted.
        optional message<Resource> capability = 3;
        /// The total number of containers wanted now; 0 takes the request back.
        optional int32 num_containers = 4;
        /// True if any node of this place will do. False, for a rack or `*`: containers come only to those hosts or racks
        /// in it that have requests of their own, so a request for one host alone sets it to false at the host's rack and
        /// at `*`.
        optional bool relax_locality = 5 [default = "true"];
        /// A label that the node must have; the application's default if it is not set.
        optional string node_label_expression = 6;
        /// The execution type of the containers; guaranteed if it is not set.
        optional message<ExecutionTypeRequest> execution_type_request = 7;
        /// Number that comes back with the containers of this request; -1 for none.
        optional int64 allocation_request_id = 8 [default = "-1"];
    }

    /// The execution type (guaranteed or opportunistic) of the containers that an ApplicationMaster requests. `AmRmClient` never sets it
    /// and so gets guaranteed containers. Part of `ResourceRequest` and `SchedulingRequest`.
    pub struct ExecutionTypeRequest (Eq) {
        /// The [`ExecutionType`] that is wanted for the containers.
        optional enumeration(ExecutionType) execution_type = 1 [default = "Guaranteed"];
        /// True if only containers of that type are granted; false if the scheduler may grant the other type.
        optional bool enforce_execution_type = 2 [default = "false"];
    }

    /// The request of `registerApplicationMaster`, by which an ApplicationMaster registers itself at the ResourceManager; its application
    /// is running from then on. A second registration of an attempt is refused with an exception, except after [`AmCommand::Resync`].
    /// `AmRmClient` sends it, without placement constraints, and takes that exception for success.
    pub struct RegisterApplicationMasterRequest (Eq) {
        /// The host at which the application's clients reach the ApplicationMaster.
        optional string host = 1;
        /// The port at which the application's clients reach the ApplicationMaster; -1 for none.
        optional int32 rpc_port = 2;
        /// The address of the web page that shows the application's progress; empty for none.
        optional string tracking_url = 3;
        /// Placement constraints for the scheduling requests of this attempt, by their tags.
        repeated message<PlacementConstraintMapEntry> placement_constraints = 4;
    }

    /// The response to `registerApplicationMaster`: limits, the key for clients' tokens, and the containers left by earlier attempts. Its
    /// `Debug` does not show the key. `Master::registered` reads the limit, tokens and containers; the whole comes as
    /// `MasterEvent::Registered`.
    #[prost(skip_debug)]
    pub struct RegisterApplicationMasterResponse (Eq) {
        /// The largest container that the ApplicationMaster may ask for; a larger request is an exception.
        optional message<Resource> maximum_capability = 1;
        /// The key with which tokens of clients are checked: secret. On secure clusters only.
        optional bytes client_to_am_token_master_key = 2;
        /// The users and groups who may access the application besides its owner.
        repeated message<ApplicationAclMap> application_acls = 3;
        /// The containers that have outlived an earlier attempt, if the application keeps containers across attempts.
        repeated message<Container> containers_from_previous_attempts = 4;
        /// The queue that the application runs in.
        optional string queue = 5;
        /// Tokens for the nodes of the containers of earlier attempts.
        repeated message<NmToken> nm_tokens_from_previous_attempts = 6;
        /// [`SchedulerResourceTypes`]: the resources by which the scheduler measures requests.
        repeated enumeration(SchedulerResourceTypes) scheduler_resource_types = 7 [packed = "false"];
        /// The resource profiles that the cluster has.
        optional message<ResourceProfiles> resource_profiles = 8;
        /// The resource types that the cluster knows.
        repeated message<ResourceTypeInfo> resource_types = 9;
    }

    /// An NMToken with its node: the token that an ApplicationMaster needs to start containers there. The ResourceManager sends it once per
    /// node and attempt, so the ApplicationMaster must keep it. `Master` keeps it for `Master::nm_token`, a newer one of the same node in
    /// place of the older one. Part of `AllocateResponse` and `RegisterApplicationMasterResponse`.
    pub struct NmToken (Eq) {
        /// The node whose container service accepts the token.
        optional message<NodeId> node_id = 1;
        /// The token that the node's container service accepts.
        optional message<TokenProto> token = 2;
    }

    /// The request of `finishApplicationMaster`, which unregisters an ApplicationMaster and so ends its application. It is repeated until
    /// the response says that this is done. Sent by `AmRmClient::finish`.
    pub struct FinishApplicationMasterRequest (Eq) {
        /// The reason of the end, for people; shown in the application's report.
        optional string diagnostics = 1;
        /// The address of a web page that is shown once the application has ended.
        optional string tracking_url = 2;
        /// A [`FinalApplicationStatus`]: the application's own verdict on its success.
        optional enumeration(FinalApplicationStatus) final_status = 3;
    }

    /// The response to `finishApplicationMaster`: tells whether the application is unregistered; if not, the request is repeated. Read by
    /// `AmRmClient::finish`.
    pub struct FinishApplicationMasterResponse (Eq) {
        /// True once the application is unregistered; until then the request is to be repeated.
        optional bool is_unregistered = 1 [default = "false"];
    }

    /// The request of `allocate`, an ApplicationMaster's heartbeat to the ResourceManager: it asks for containers and gives others back.
    /// `Master::allocate` makes it, with requests, releases, blocked places and progress only. A repetition with the same `response_id` is
    /// answered from memory, whatever else is in it.
    pub struct AllocateRequest () {
        /// The requests that have changed since the last call, as absolute totals.
        repeated message<ResourceRequest> ask = 1;
        /// Containers that the ApplicationMaster gives back, started or not; running ones are stopped.
        repeated message<ContainerId> release = 2;
        /// Changes of the places where no containers are wanted; not set: no change.
        optional message<ResourceBlacklistRequest> blacklist_request = 3;
        /// The `response_id` of the last response, by which the ResourceManager recognises a repeated request; 0 after
        /// registering.
        optional int32 response_id = 4;
        /// The application's progress for its report, 0 to 1.
        optional float progress = 5;
        /// Running containers that are to change their size or execution type.
        repeated message<UpdateContainerRequest> update_requests = 7;
        /// Containers that are wanted under placement constraints.
        repeated message<SchedulingRequest> scheduling_requests = 10;
        /// A new tracking address; not set: the last one stays.
        optional string tracking_url = 11;
    }

    /// An ApplicationMaster's changes to the hosts and racks on which it wants no more containers, sent with
    /// `allocate`. The ResourceManager keeps the resulting set.
    pub struct ResourceBlacklistRequest (Eq) {
        /// Hosts and racks where no containers are wanted from now on.
        repeated string blacklist_additions = 1;
        /// Hosts and racks where containers may be again from now on.
        repeated string blacklist_removals = 2;
    }

    /// An ApplicationMaster's request, sent with `allocate`, that one of its running containers become larger, smaller, guaranteed or
    /// opportunistic. The answer is an [`UpdatedContainer`] or an [`UpdateContainerError`]. `AmRmClient` sends none.
    pub struct UpdateContainerRequest (Eq) {
        /// The current [`Container::version`]; with an older one the request is refused.
        required int32 container_version = 1;
        /// The running container that is to change.
        required message<ContainerId> container_id = 2;
        /// A [`ContainerUpdateType`]: the change that is wanted.
        required enumeration(ContainerUpdateType) update_type = 3;
        /// The container's new size; set for a change of size only.
        optional message<Resource> capability = 4;
        /// The container's new [`ExecutionType`]; set for a change of the type only.
        optional enumeration(ExecutionType) execution_type = 5;
    }

    /// The response to `allocate`: what has happened to the application since the last response, such as containers granted and ended. Each
    /// event comes once, except that warnings of preemption may be repeated. `Master::allocated` turns it into `MasterEvent`s; it ignores
    /// priorities, collectors, updates of containers, rejected scheduling requests and the headroom of federations.
    pub struct AllocateResponse () {
        /// An [`AmCommand`], which the ApplicationMaster must obey; mostly not set.
        optional enumeration(AmCommand) am_command = 1;
        /// The number that the next request has to carry as its `response_id`.
        optional int32 response_id = 2;
        /// Containers that were granted since the last response; each comes once.
        repeated message<Container> allocated_containers = 3;
        /// Containers that have ended since the last response; each comes once.
        repeated message<ContainerStatus> completed_container_statuses = 4;
        /// The resources that the application could still get.
        optional message<Resource> limit = 5;
        /// Nodes that have become usable or unusable since the last response.
        repeated message<NodeReport> updated_nodes = 6;
        /// Number of the cluster's nodes that take containers.
        optional int32 num_cluster_nodes = 7;
        /// Containers of the application that are about to be taken away; mostly not set.
        optional message<PreemptionMessage> preempt = 8;
        /// Tokens for nodes; each comes once per node and attempt: keep them.
        repeated message<NmToken> nm_tokens = 9;
        /// A new AMRMToken, which replaces the one in use; mostly not set.
        optional message<TokenProto> am_rm_token = 12;
        /// The application's present priority; higher ones are served first.
        optional message<Priority> application_priority = 13;
        /// The application's timeline collector, if there is one.
        optional message<CollectorInfo> collector_info = 14;
        /// Requests to change containers that were refused.
        repeated message<UpdateContainerError> update_errors = 15;
        /// Changes of containers that were granted; their new tokens go to the nodes.
        repeated message<UpdatedContainer> updated_containers = 16;
        /// The containers of earlier attempts that were found after the registration.
        repeated message<Container> containers_from_previous_attempts = 17;
        /// Scheduling requests that cannot be met, and were dropped.
        repeated message<RejectedSchedulingRequest> rejected_scheduling_requests = 18;
        /// The cluster's load, for proxies of a federation; mostly not set.
        optional message<EnhancedHeadroom> enhanced_headroom = 19;
    }

    /// The ResourceManager's warning that it will take containers away from an application: which ones for certain, and how much the
    /// ApplicationMaster could give back in place of others. It comes as `MasterEvent::Preemption`, unless it names neither a container nor
    /// resources.
    pub struct PreemptionMessage (Eq) {
        /// The containers that are taken whatever the application does.
        optional message<StrictPreemptionContract> strict_contract = 1;
        /// The containers that are taken unless the application gives as much back.
        optional message<PreemptionContract> contract = 2;
    }

    /// The containers that the ResourceManager will take away whatever the ApplicationMaster does, in a
    /// [`PreemptionMessage`].
    pub struct StrictPreemptionContract (Eq) {
        /// All containers that will be taken whatever the ApplicationMaster does.
        repeated message<PreemptionContainer> container = 1;
    }

    /// A container that a [`PreemptionMessage`] names, because it is or may be taken away. Part of `PreemptionContract` and
    /// `StrictPreemptionContract`.
    pub struct PreemptionContainer (Eq) {
        /// Id of the container that is to be given back, or is taken.
        optional message<ContainerId> id = 1;
    }

    /// The resources that an ApplicationMaster should give back, and the containers that the ResourceManager takes if
    /// it does not; in a [`PreemptionMessage`].
    pub struct PreemptionContract (Eq) {
        /// The amounts to be given back; containers of any number and place may be released for it.
        repeated message<PreemptionResourceRequest> resource = 1;
        /// The containers that are taken if nothing is given back.
        repeated message<PreemptionContainer> container = 2;
    }

    /// A number of containers of one size that an ApplicationMaster should give back, in a [`PreemptionContract`].
    pub struct PreemptionResourceRequest (Eq) {
        /// The size of the containers to be given back, and their number.
        optional message<ResourceRequest> resource = 1;
    }

    /// The address of the application's timeline collector, a service that stores the history events which an ApplicationMaster may send.
    /// `AmRmClient` ignores it.
    pub struct CollectorInfo (Eq) {
        /// Address of the collector, as `host:port`.
        optional string collector_addr = 1;
        /// The token that the collector accepts, on secure clusters.
        optional message<TokenProto> collector_token = 2;
    }

    /// The ResourceManager's refusal of an [`UpdateContainerRequest`], in the response to `allocate`; the container stays as it is.
    /// `AmRmClient` ignores it.
    pub struct UpdateContainerError (Eq) {
        /// The reason of the refusal, as a name of Hadoop's such as `INCORRECT_CONTAINER_VERSION_ERROR`.
        optional string reason = 1;
        /// The refused request, as the ApplicationMaster sent it.
        optional message<UpdateContainerRequest> update_request = 2;
        /// The container's version now, for another try.
        optional int32 current_container_version = 3;
    }

    /// A change of a container's size or execution type that the ResourceManager has granted to an [`UpdateContainerRequest`], in the
    /// response to `allocate`. The ApplicationMaster passes the container's new token to its node (`updateContainer`), which makes the
    /// change. `AmRmClient` ignores it.
    pub struct UpdatedContainer (Eq) {
        /// A [`ContainerUpdateType`]: the change that was made.
        required enumeration(ContainerUpdateType) update_type = 1;
        /// The container as it becomes: its new size or type, a version higher by 1, and the new token.
        required message<Container> container = 2;
    }

    /// The load of the cluster, in the response to `allocate`; it is for the proxies of a federation (several clusters that appear as one),
    /// which choose between its clusters. `AmRmClient` ignores it.
    pub struct EnhancedHeadroom (Eq) {
        /// Number of containers that are asked for in the cluster and not granted yet.
        optional int32 total_pending_count = 1;
        /// Number of cores of the nodes that take containers.
        optional int32 total_active_cores = 2;
    }
}

enumerations! {
    /// A resource type by which the scheduler measures requests, as an ApplicationMaster learns at its registration. A field of
    /// `RegisterApplicationMasterResponse` holds its number.
    pub enum SchedulerResourceTypes {
        /// Memory, which every scheduler counts.
        Memory = 0,
        /// Cores, where the scheduler counts them.
        Cpu = 1,
    }

    /// The kind of change that is wanted for, or granted to, a container: more or fewer resources, or the execution type guaranteed
    /// (promoted) or opportunistic (demoted). Fields of `UpdateContainerRequest` and `UpdatedContainer` hold its number.
    pub enum ContainerUpdateType {
        /// The container gets more resources.
        IncreaseResource = 0,
        /// The container gets fewer resources.
        DecreaseResource = 1,
        /// The container becomes guaranteed instead of opportunistic.
        PromoteExecutionType = 2,
        /// The container becomes opportunistic instead of guaranteed.
        DemoteExecutionType = 3,
    }

    /// A command of the ResourceManager, in the response to `allocate`, that the ApplicationMaster must obey. `AmRmClient` obeys `Resync`
    /// by itself and hands out `Shutdown` as `MasterEvent::Shutdown`; newer ResourceManagers send exceptions instead, with the same effect.
    pub enum AmCommand {
        /// Register again: the ResourceManager has been restarted.
        Resync = 1,
        /// End: another attempt has taken over, or the application is gone.
        Shutdown = 2,
    }
}
