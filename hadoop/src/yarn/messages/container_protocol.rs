//! The requests and responses of ContainerManagementProtocol. Only declarations belong here.

use super::basics::ContainerId;
use super::containers::{
    ContainerLaunchContext, ContainerStatus, StringBytesMap, StringLocalResourceMap,
};
use crate::proto::{enumerations, messages};
use crate::tokens::TokenProto;

messages! {
    /// The request of `startContainers`.
    pub struct StartContainersRequest (Eq) {
        /// All on the node that is asked.
        repeated message<StartContainerRequest> start_container_request = 1;
    }

    /// One container to be started.
    pub struct StartContainerRequest (Eq) {
        /// How it is started.
        optional message<ContainerLaunchContext> container_launch_context = 1;
        /// The token that was granted with the container.
        optional message<TokenProto> container_token = 2;
    }

    /// The response to `startContainers`.
    pub struct StartContainersResponse (Eq) {
        /// The metadata of the node's auxiliary services, by their names.
        repeated message<StringBytesMap> services_meta_data = 1;
        /// Containers that are being prepared now.
        repeated message<ContainerId> succeeded_requests = 2;
        /// Containers that were not started, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 3;
    }

    /// The failure of a request about one container.
    pub struct ContainerExceptionMap (Eq) {
        /// The container that the request failed for.
        optional message<ContainerId> container_id = 1;
        /// The exception that the node threw for it.
        optional message<SerializedException> exception = 2;
    }

    /// A Java exception inside a response.
    pub struct SerializedException (Eq) {
        /// The exception's message.
        optional string message = 1;
        /// Its stack trace, as text.
        optional string trace = 2;
        /// Its Java class.
        optional string class_name = 3;
        /// The exception behind it.
        optional message<Box<SerializedException>> cause = 4 [boxed];
    }

    /// The request of `stopContainers`.
    pub struct StopContainersRequest (Eq) {
        /// The containers to be stopped, all on the called node.
        repeated message<ContainerId> container_id = 1;
    }

    /// The response to `stopContainers`.
    pub struct StopContainersResponse (Eq) {
        /// Those for which it was done.
        repeated message<ContainerId> succeeded_requests = 1;
        /// Those for which it was not, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `getContainerStatuses`.
    pub struct GetContainerStatusesRequest (Eq) {
        /// The containers to report on, all on the called node.
        repeated message<ContainerId> container_id = 1;
    }

    /// The response to `getContainerStatuses`.
    pub struct GetContainerStatusesResponse (Eq) {
        /// The answers for those containers that the node knows, in no order.
        repeated message<ContainerStatus> status = 1;
        /// Those that it does not know, or may not say.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `increaseContainersResource`.
    pub struct IncreaseContainersResourceRequest (Eq) {
        /// Container tokens with the new sizes.
        repeated message<TokenProto> increase_containers = 1;
    }

    /// The response to `increaseContainersResource`.
    pub struct IncreaseContainersResourceResponse (Eq) {
        /// Those for which it was done.
        repeated message<ContainerId> succeeded_requests = 1;
        /// Those for which it was not, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `updateContainer`.
    pub struct ContainerUpdateRequest (Eq) {
        /// Container tokens with the new sizes or execution types, as they came with `allocate`.
        repeated message<TokenProto> update_container_token = 1;
    }

    /// The response to `updateContainer`.
    pub struct ContainerUpdateResponse (Eq) {
        /// Those for which it was done.
        repeated message<ContainerId> succeeded_requests = 1;
        /// Those for which it was not, although the call succeeded.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// The request of `localize`.
    pub struct ResourceLocalizationRequest (Eq) {
        /// The container, which must be running.
        optional message<ContainerId> container_id = 1;
        /// More files for it.
        repeated message<StringLocalResourceMap> local_resources = 2;
    }

    /// The response to `localize`.
    pub struct ResourceLocalizationResponse (Eq) {}

    /// The request of `reInitializeContainer`.
    pub struct ReInitializeContainerRequest (Eq) {
        /// The container, which must be running.
        optional message<ContainerId> container_id = 1;
        /// How it is started again.
        optional message<ContainerLaunchContext> container_launch_context = 2;
        /// Whether it cannot be rolled back to what it was before.
        optional bool auto_commit = 3 [default = "true"];
    }

    /// The response to `reInitializeContainer`.
    pub struct ReInitializeContainerResponse (Eq) {}

    /// The response to `restartContainer`.
    pub struct RestartContainerResponse (Eq) {}

    /// The response to `rollbackLastReInitialization`.
    pub struct RollbackResponse (Eq) {}

    /// The response to `commitLastReInitialization`.
    pub struct CommitResponse (Eq) {}

    /// The request of `getLocalizationStatuses`.
    pub struct GetLocalizationStatusesRequest (Eq) {
        /// The containers to report on, all on the called node.
        repeated message<ContainerId> container_id = 1;
    }

    /// The response to `getLocalizationStatuses`.
    pub struct GetLocalizationStatusesResponse (Eq) {
        /// The answers for those containers that the node knows, in no order.
        repeated message<ContainerLocalizationStatuses> cntn_localization_statuses = 1;
        /// Those that it does not know, or may not say.
        repeated message<ContainerExceptionMap> failed_requests = 2;
    }

    /// How far the files of a container are fetched.
    pub struct ContainerLocalizationStatuses (Eq) {
        /// The container that the files are for.
        optional message<ContainerId> container_id = 1;
        /// One for each file, in no order.
        repeated message<LocalizationStatus> localization_statuses = 2;
    }

    /// How far a file is fetched.
    pub struct LocalizationStatus (Eq) {
        /// The name that the file has in the container.
        optional string resource_key = 1;
        /// A [`LocalizationState`]: waited for, there, or failed.
        optional enumeration(LocalizationState) localization_state = 2;
        /// The reason of a failure, for people.
        optional string diagnostics = 3;
    }
}

enumerations! {
    /// The signal for a container.
    pub enum SignalContainerCommand {
        /// `SIGQUIT`: a JVM writes its threads to its standard output; other programs end.
        OutputThreadDump = 1,
        /// `SIGTERM`: the program may clean up before it ends.
        GracefulShutdown = 2,
        /// `SIGKILL`: the program ends at once.
        ForcefulShutdown = 3,
    }

    /// How far a file is fetched.
    pub enum LocalizationState {
        /// It has yet to be fetched, or is being fetched.
        Pending = 1,
        /// It is there.
        Completed = 2,
        /// It could not be fetched.
        Failed = 3,
    }
}
