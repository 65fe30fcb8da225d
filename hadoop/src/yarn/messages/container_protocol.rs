//! The requests and responses of ContainerManagementProtocol. Only declarations belong here.

use super::basics::ContainerId;
use super::containers::{
    ContainerLaunchContext, ContainerStatus, StringBytesMap, StringLocalResourceMap,
};
use crate::proto::{enumerations, messages};
use crate::tokens::TokenProto;

messages! {
    /// The request of `startContainers`, by which an ApplicationMaster has a NodeManager start containers that were granted to it. Sent by
    /// `NmClient::start`.
    pub struct StartContainersRequest (Eq) {
        /// The containers to be started, all on the called node.
        repeated message<StartContainerRequest> start_container_request = 1;
    }

    /// The launch context and the token of one container that an ApplicationMaster has a node start, in a `StartContainersRequest`. Sent by
    /// `NmClient::start`.
    pub struct StartContainerRequest (Eq) {
        /// The command, files, environment and tokens with which the container is started.
        optional message<ContainerLaunchContext> container_launch_context = 1;
        /// The ContainerToken that was granted with the container; expired or for another node, it is refused.
        optional message<TokenProto> container_token = 2;
    }

    /// The response to `startContainers`: the containers that the node prepares, and those that it refused. A success of the whole call
    /// says nothing about a single container: each is in one of the two lists. Read by `NmClient::start`.
    pub struct StartContainersResponse (Eq) {
        /// The metadata of the node's auxiliary services, by their names.
        repeated message<StringBytesMap> services_meta_data = 1;
        /// Containers that the node has taken and prepares now; their statuses say later whether they run.
        repeated message<ContainerId> succeeded_requests = 2;
        /// Containers that were not started, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 3;
    }

    /// A container for which a request about several containers failed, and the node's exception. Methods of `NmClient`, which ask about
    /// one container each, return it as `YarnError::Container`.
    pub struct ContainerExceptionMap (Eq) {
        /// The container that the request failed for.
        optional message<ContainerId> container_id = 1;
        /// The exception that the node threw for the container.
        optional message<SerializedException> exception = 2;
    }

    /// A Java exception that a node reports inside a response, as text. `YarnError::Container` gets class and message of it, without trace
    /// and cause. Part of `ContainerExceptionMap`.
    pub struct SerializedException (Eq) {
        /// The exception's message.
        optional string message = 1;
        /// The exception's stack trace, as text.
        optional string trace = 2;
        /// The exception's Java class.
        optional string class_name = 3;
        /// The exception that caused this one; not set if none did.
        optional message<Box<SerializedException>> cause = 4 [boxed];
    }

    /// The request of `stopContainers`, by which an ApplicationMaster has a NodeManager stop containers. Sent by `NmClient::stop`.
    pub struct StopContainersRequest (Eq) {
        /// The containers to be stopped, all on the called node.
        repeated message<ContainerId> container_id = 1;
    }

    /// The response to `stopContainers`: the containers that the node stops, and those that it refused. Read by `NmClient::stop`.
    pub struct StopContainersResponse (Eq) {
        /// Containers that the node stops now; responses to `allocate` report their ends.
        repeated message<ContainerId> succeeded_requests = 1;
        /// Containers that could not be stopped, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `getContainerStatuses`, which asks a node for the states of containers. Sent by `NmClient::status`.
    pub struct GetContainerStatusesRequest (Eq) {
        /// The containers to report on, all on the called node.
        repeated message<ContainerId> container_id = 1;
    }

    /// The response to `getContainerStatuses`: the states of the containers that the node knows, and those that it cannot report on. Read
    /// by `NmClient::status`.
    pub struct GetContainerStatusesResponse (Eq) {
        /// The answers for those containers that the node knows, in no order.
        repeated message<ContainerStatus> status = 1;
        /// Containers that the node does not know, or may not report on.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `increaseContainersResource`, which has a node give running containers more resources, as the ResourceManager has
    /// granted. Newer Hadoop has `updateContainer` in its place. This library has no method for it; `NmClient::call` sends it.
    pub struct IncreaseContainersResourceRequest (Eq) {
        /// ContainerTokens with the new sizes, as they came with `allocate`.
        repeated message<TokenProto> increase_containers = 1;
    }

    /// The response to `increaseContainersResource`: the containers whose size was increased, and those for which that failed. It comes
    /// from `NmClient::call`; no method here reads it.
    pub struct IncreaseContainersResourceResponse (Eq) {
        /// Containers whose size the node has increased.
        repeated message<ContainerId> succeeded_requests = 1;
        /// Containers whose size was not increased, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `updateContainer`, which has a node change the sizes or execution types of running containers, as the ResourceManager
    /// has granted. This library has no method for it; `NmClient::call` sends it.
    pub struct ContainerUpdateRequest (Eq) {
        /// Container tokens with the new sizes or execution types, as they came with `allocate`.
        repeated message<TokenProto> update_container_token = 1;
    }

    /// The response to `updateContainer`: the containers that were changed, and those for which that failed. It comes from
    /// `NmClient::call`; no method here reads it.
    pub struct ContainerUpdateResponse (Eq) {
        /// Containers whose size or execution type the node has changed.
        repeated message<ContainerId> succeeded_requests = 1;
        /// Containers that were not updated, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `localize`, which has a node fetch more files for a running container. Sent by `NmClient::localize`.
    pub struct ResourceLocalizationRequest (Eq) {
        /// The container to fetch files for, which must be running.
        optional message<ContainerId> container_id = 1;
        /// The files to fetch, in addition to those of the container's start.
        repeated message<StringLocalResourceMap> local_resources = 2;
    }

    /// The response to `localize`. It is empty: the node has taken the request; the files come later.
    pub struct ResourceLocalizationResponse (Eq) {}

    /// The request of `reInitializeContainer`, which has a node stop the program of a container and start another one in the same
    /// container. The container keeps its id and place. This library has no method for it; `NmClient::call` sends it.
    pub struct ReInitializeContainerRequest (Eq) {
        /// The container to start again, which must be running.
        optional message<ContainerId> container_id = 1;
        /// The command, files, environment and tokens with which the container's program is started again.
        optional message<ContainerLaunchContext> container_launch_context = 2;
        /// True if the container cannot go back to its earlier program; false: it can, until `commitLastReInitialization`.
        optional bool auto_commit = 3 [default = "true"];
    }

    /// The response to `reInitializeContainer`. It is empty: the node has taken the request, and starts the new program later. It comes
    /// from `NmClient::call`; no method here reads it.
    pub struct ReInitializeContainerResponse (Eq) {}

    /// The response to `restartContainer`. It is empty: the node stops the container's program and starts the same one again. The request
    /// is a bare `ContainerId`, sent by `NmClient::call`; no method here does so.
    pub struct RestartContainerResponse (Eq) {}

    /// The response to `rollbackLastReInitialization`. It is empty: the node starts the program again that ran in the container before the
    /// last `reInitializeContainer`. The request is a bare `ContainerId`, sent by `NmClient::call`; no method here does so.
    pub struct RollbackResponse (Eq) {}

    /// The response to `commitLastReInitialization`. It is empty: the container's last change of its program, by `reInitializeContainer`,
    /// cannot be undone any more. The request is a bare `ContainerId`, sent by `NmClient::call`; no method here does so.
    pub struct CommitResponse (Eq) {}

    /// The request of `getLocalizationStatuses`, which asks a node how far it has fetched the files of the named containers. This library
    /// has no method for it; `NmClient::call` sends it.
    pub struct GetLocalizationStatusesRequest (Eq) {
        /// The containers to report on, all on the called node.
        repeated message<ContainerId> container_id = 1;
    }

    /// The response to `getLocalizationStatuses`: the progress for the containers that the node knows, and the containers that it cannot
    /// report on. It comes from `NmClient::call`; no method here reads it.
    pub struct GetLocalizationStatusesResponse (Eq) {
        /// The answers for those containers that the node knows, in no order.
        repeated message<ContainerLocalizationStatuses> cntn_localization_statuses = 1;
        /// Containers that the node does not know, or may not report on.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The progress of a node in fetching the files of one container. Part of `GetLocalizationStatusesResponse`.
    pub struct ContainerLocalizationStatuses (Eq) {
        /// The container that the files are for.
        optional message<ContainerId> container_id = 1;
        /// The progress of each file, in no order.
        repeated message<LocalizationStatus> localization_statuses = 2;
    }

    /// The progress of a node in fetching one file for a container. Part of `ContainerLocalizationStatuses`.
    pub struct LocalizationStatus (Eq) {
        /// The name that the file has in the container.
        optional string resource_key = 1;
        /// A [`LocalizationState`]: waited for, there, or failed.
        optional enumeration(LocalizationState) localization_state = 2;
        /// The reason why the file could not be fetched, for people.
        optional string diagnostics = 3;
    }
}

enumerations! {
    /// The signal that a node is to send to a container's program: `SIGQUIT`, `SIGTERM` or `SIGKILL`. A field of `SignalContainerRequest`
    /// holds its number.
    pub enum SignalContainerCommand {
        /// `SIGQUIT`: a JVM writes its threads to its standard output; other programs end.
        OutputThreadDump = 1,
        /// `SIGTERM`: the program may clean up before it ends.
        GracefulShutdown = 2,
        /// `SIGKILL`: the program ends at once, without cleaning up.
        ForcefulShutdown = 3,
    }

    /// The state of a file that a node fetches for a container. A field of `LocalizationStatus` holds its number.
    pub enum LocalizationState {
        /// The file has yet to be fetched, or is being fetched.
        Pending = 1,
        /// The file has been fetched and can be used.
        Completed = 2,
        /// The file could not be fetched; the `diagnostics` beside the state say why.
        Failed = 3,
    }
}
