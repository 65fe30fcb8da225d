//! The requests and responses of ContainerManagementProtocol. Only declarations belong here.

use super::basics::ContainerId;
use super::containers::{
    ContainerLaunchContext, ContainerStatus, StringBytesMap, StringLocalResourceMap,
};
use crate::tokens::TokenProto;

/// The request of `startContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainersRequest {
    /// All on the node that is asked.
    #[prost(message, repeated, tag = "1")]
    pub start_container_request: Vec<StartContainerRequest>,
}

/// One container to be started.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainerRequest {
    /// How it is started.
    #[prost(message, optional, tag = "1")]
    pub container_launch_context: Option<ContainerLaunchContext>,
    /// As it came with the container.
    #[prost(message, optional, tag = "2")]
    pub container_token: Option<TokenProto>,
}

/// The response to `startContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainersResponse {
    /// What the node's auxiliary services say of themselves, by their names.
    #[prost(message, repeated, tag = "1")]
    pub services_meta_data: Vec<StringBytesMap>,
    /// Containers that are being prepared now.
    #[prost(message, repeated, tag = "2")]
    pub succeeded_requests: Vec<ContainerId>,
    /// Containers that were not started, although the call succeeded.
    #[prost(message, repeated, tag = "3")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// Why something could not be done with a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerExceptionMap {
    /// Which container.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// Why not.
    #[prost(message, optional, tag = "2")]
    pub exception: Option<SerializedException>,
}

/// A Java exception inside a response.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SerializedException {
    /// The exception's message.
    #[prost(string, optional, tag = "1")]
    pub message: Option<String>,
    /// Its stack trace, as text.
    #[prost(string, optional, tag = "2")]
    pub trace: Option<String>,
    /// Its Java class.
    #[prost(string, optional, tag = "3")]
    pub class_name: Option<String>,
    /// The exception behind it.
    #[prost(message, optional, boxed, tag = "4")]
    pub cause: Option<Box<SerializedException>>,
}

/// The request of `stopContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopContainersRequest {
    /// Which containers.
    #[prost(message, repeated, tag = "1")]
    pub container_id: Vec<ContainerId>,
}

/// The response to `stopContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopContainersResponse {
    /// Those for which it was done.
    #[prost(message, repeated, tag = "1")]
    pub succeeded_requests: Vec<ContainerId>,
    /// Those for which it was not, although the call succeeded.
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `getContainerStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerStatusesRequest {
    /// Which containers.
    #[prost(message, repeated, tag = "1")]
    pub container_id: Vec<ContainerId>,
}

/// The response to `getContainerStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerStatusesResponse {
    /// Of those that the node knows, in no order.
    #[prost(message, repeated, tag = "1")]
    pub status: Vec<ContainerStatus>,
    /// Those that it does not know, or may not say.
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `increaseContainersResource`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IncreaseContainersResourceRequest {
    /// Container tokens with the new sizes.
    #[prost(message, repeated, tag = "1")]
    pub increase_containers: Vec<TokenProto>,
}

/// The response to `increaseContainersResource`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IncreaseContainersResourceResponse {
    /// Those for which it was done.
    #[prost(message, repeated, tag = "1")]
    pub succeeded_requests: Vec<ContainerId>,
    /// Those for which it was not, although the call succeeded.
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `updateContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerUpdateRequest {
    /// Container tokens with the new sizes or execution types, as they came with `allocate`.
    #[prost(message, repeated, tag = "1")]
    pub update_container_token: Vec<TokenProto>,
}

/// The response to `updateContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerUpdateResponse {
    /// Those for which it was done.
    #[prost(message, repeated, tag = "1")]
    pub succeeded_requests: Vec<ContainerId>,
    /// Those for which it was not, although the call succeeded.
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `localize`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceLocalizationRequest {
    /// Which container; it must be running.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// More files for it.
    #[prost(message, repeated, tag = "2")]
    pub local_resources: Vec<StringLocalResourceMap>,
}

/// The response to `localize`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceLocalizationResponse {}

/// The request of `reInitializeContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReInitializeContainerRequest {
    /// Which container; it must be running.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// How it is started again.
    #[prost(message, optional, tag = "2")]
    pub container_launch_context: Option<ContainerLaunchContext>,
    /// Whether it cannot be rolled back to what it was before.
    #[prost(bool, optional, tag = "3", default = "true")]
    pub auto_commit: Option<bool>,
}

/// The response to `reInitializeContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReInitializeContainerResponse {}

/// The response to `restartContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RestartContainerResponse {}

/// The response to `rollbackLastReInitialization`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RollbackResponse {}

/// The response to `commitLastReInitialization`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CommitResponse {}

/// The request of `getLocalizationStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLocalizationStatusesRequest {
    /// Which containers.
    #[prost(message, repeated, tag = "1")]
    pub container_id: Vec<ContainerId>,
}

/// The response to `getLocalizationStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLocalizationStatusesResponse {
    /// Of those that the node knows, in no order.
    #[prost(message, repeated, tag = "1")]
    pub cntn_localization_statuses: Vec<ContainerLocalizationStatuses>,
    /// Those that it does not know, or may not say.
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// How far the files of a container are fetched.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerLocalizationStatuses {
    /// Whose files.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// One for each file, in no order.
    #[prost(message, repeated, tag = "2")]
    pub localization_statuses: Vec<LocalizationStatus>,
}

/// How far a file is fetched.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LocalizationStatus {
    /// The name that the file has in the container.
    #[prost(string, optional, tag = "1")]
    pub resource_key: Option<String>,
    /// A [`LocalizationState`].
    #[prost(enumeration = "LocalizationState", optional, tag = "2")]
    pub localization_state: Option<i32>,
    /// Why it failed, for people.
    #[prost(string, optional, tag = "3")]
    pub diagnostics: Option<String>,
}

/// What a container is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SignalContainerCommand {
    /// `SIGQUIT`: a JVM writes its threads to its standard output; other programs end.
    OutputThreadDump = 1,
    /// `SIGTERM`.
    GracefulShutdown = 2,
    /// `SIGKILL`.
    ForcefulShutdown = 3,
}

/// How far a file is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum LocalizationState {
    /// It has yet to be fetched, or is being fetched.
    Pending = 1,
    /// It is there.
    Completed = 2,
    /// It could not be fetched.
    Failed = 3,
}
