//! The requests and responses of ContainerManagementProtocol. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::basics::ContainerId;
use super::containers::{
    ContainerLaunchContext, ContainerStatus, StringBytesMap, StringLocalResourceMap,
};
use crate::tokens::TokenProto;

/// The request of `startContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainersRequest {
    #[prost(message, repeated, tag = "1")]
    pub start_container_request: Vec<StartContainerRequest>,
}

/// One container to be started.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainerRequest {
    #[prost(message, optional, tag = "1")]
    pub container_launch_context: Option<ContainerLaunchContext>,
    #[prost(message, optional, tag = "2")]
    pub container_token: Option<TokenProto>,
}

/// The response to `startContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StartContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub services_meta_data: Vec<StringBytesMap>,
    #[prost(message, repeated, tag = "2")]
    pub succeeded_requests: Vec<ContainerId>,
    /// Containers that were not started, although the call succeeded.
    #[prost(message, repeated, tag = "3")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// Why something could not be done with a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerExceptionMap {
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    #[prost(message, optional, tag = "2")]
    pub exception: Option<SerializedException>,
}

/// A Java exception inside a response.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SerializedException {
    #[prost(string, optional, tag = "1")]
    pub message: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub trace: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub class_name: Option<String>,
    #[prost(message, optional, boxed, tag = "4")]
    pub cause: Option<Box<SerializedException>>,
}

/// The request of `stopContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopContainersRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_id: Vec<ContainerId>,
}

/// The response to `stopContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StopContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub succeeded_requests: Vec<ContainerId>,
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `getContainerStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerStatusesRequest {
    #[prost(message, repeated, tag = "1")]
    pub container_id: Vec<ContainerId>,
}

/// The response to `getContainerStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerStatusesResponse {
    #[prost(message, repeated, tag = "1")]
    pub status: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `increaseContainersResource`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IncreaseContainersResourceRequest {
    #[prost(message, repeated, tag = "1")]
    pub increase_containers: Vec<TokenProto>,
}

/// The response to `increaseContainersResource`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct IncreaseContainersResourceResponse {
    #[prost(message, repeated, tag = "1")]
    pub succeeded_requests: Vec<ContainerId>,
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `updateContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerUpdateRequest {
    #[prost(message, repeated, tag = "1")]
    pub update_container_token: Vec<TokenProto>,
}

/// The response to `updateContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerUpdateResponse {
    #[prost(message, repeated, tag = "1")]
    pub succeeded_requests: Vec<ContainerId>,
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// The request of `localize`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceLocalizationRequest {
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    #[prost(message, repeated, tag = "2")]
    pub local_resources: Vec<StringLocalResourceMap>,
}

/// The response to `localize`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ResourceLocalizationResponse {}

/// The request of `reInitializeContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReInitializeContainerRequest {
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    #[prost(message, optional, tag = "2")]
    pub container_launch_context: Option<ContainerLaunchContext>,
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
    #[prost(message, repeated, tag = "1")]
    pub container_id: Vec<ContainerId>,
}

/// The response to `getLocalizationStatuses`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetLocalizationStatusesResponse {
    #[prost(message, repeated, tag = "1")]
    pub cntn_localization_statuses: Vec<ContainerLocalizationStatuses>,
    #[prost(message, repeated, tag = "2")]
    pub failed_requests: Vec<ContainerExceptionMap>,
}

/// How far the files of a container are fetched.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerLocalizationStatuses {
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    #[prost(message, repeated, tag = "2")]
    pub localization_statuses: Vec<LocalizationStatus>,
}

/// How far a file is fetched.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LocalizationStatus {
    #[prost(string, optional, tag = "1")]
    pub resource_key: Option<String>,
    #[prost(enumeration = "LocalizationState", optional, tag = "2")]
    pub localization_state: Option<i32>,
    #[prost(string, optional, tag = "3")]
    pub diagnostics: Option<String>,
}

/// What a container is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum SignalContainerCommand {
    OutputThreadDump = 1,
    GracefulShutdown = 2,
    ForcefulShutdown = 3,
}

/// How far a file is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum LocalizationState {
    Pending = 1,
    Completed = 2,
    Failed = 3,
}
