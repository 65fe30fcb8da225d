//! The requests and responses of ApplicationClientProtocol that are about applications and tokens. Only
//! declarations belong here.

use super::applications::{
    ApplicationAttemptReport, ApplicationReport, ApplicationSubmissionContext,
    ApplicationUpdateTimeoutMap, ApplicationsRequestScope, YarnApplicationState,
};
use super::basics::{ApplicationAttemptId, ApplicationId, ContainerId, Priority, Resource};
use super::container_protocol::SignalContainerCommand;
use super::containers::ContainerReport;
use crate::tokens::TokenProto;

/// The request of `getNewApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewApplicationRequest {}

/// The response to `getNewApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetNewApplicationResponse {
    /// To submit with.
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    /// The largest container that may be asked for.
    #[prost(message, optional, tag = "2")]
    pub maximum_capability: Option<Resource>,
}

/// The request of `getApplicationReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationReportRequest {
    /// Which application.
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
}

/// The response to `getApplicationReport`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetApplicationReportResponse {
    /// Always set.
    #[prost(message, optional, tag = "1")]
    pub application_report: Option<ApplicationReport>,
}

/// The request of `submitApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmitApplicationRequest {
    /// With an id that the ResourceManager gave out.
    #[prost(message, optional, tag = "1")]
    pub application_submission_context: Option<ApplicationSubmissionContext>,
}

/// The response to `submitApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubmitApplicationResponse {}

/// The request of `failApplicationAttempt`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FailApplicationAttemptRequest {
    /// The attempt that is to fail.
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
}

/// The response to `failApplicationAttempt`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FailApplicationAttemptResponse {}

/// The request of `forceKillApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KillApplicationRequest {
    /// Which application.
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
    /// Why, for people: it becomes part of the report.
    #[prost(string, optional, tag = "2")]
    pub diagnostics: Option<String>,
}

/// The response to `forceKillApplication`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KillApplicationResponse {
    /// Ask again until this is true.
    #[prost(bool, optional, tag = "1", default = "false")]
    pub is_kill_completed: Option<bool>,
}

/// The request of `getApplications`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationsRequest {
    /// Any of these types; any type where there is none.
    #[prost(string, repeated, tag = "1")]
    pub application_types: Vec<String>,
    /// Any of these [`YarnApplicationState`]s; any state where there is none.
    #[prost(enumeration = "YarnApplicationState", repeated, packed = "false", tag = "2")]
    pub application_states: Vec<i32>,
    /// Any of these users; anybody where there is none.
    #[prost(string, repeated, tag = "3")]
    pub users: Vec<String>,
    /// Any of these queues; any queue where there is none.
    #[prost(string, repeated, tag = "4")]
    pub queues: Vec<String>,
    /// As many at most; all where it is not set.
    #[prost(int64, optional, tag = "5")]
    pub limit: Option<i64>,
    /// Started at this time or after: milliseconds since 1970, like the other times.
    #[prost(int64, optional, tag = "6")]
    pub start_begin: Option<i64>,
    /// Started at this time or before.
    #[prost(int64, optional, tag = "7")]
    pub start_end: Option<i64>,
    /// Ended at this time or after.
    #[prost(int64, optional, tag = "8")]
    pub finish_begin: Option<i64>,
    /// Ended at this time or before.
    #[prost(int64, optional, tag = "9")]
    pub finish_end: Option<i64>,
    /// With any of these tags; with or without tags where there is none.
    #[prost(string, repeated, tag = "10")]
    pub application_tags: Vec<String>,
    /// An [`ApplicationsRequestScope`].
    #[prost(enumeration = "ApplicationsRequestScope", optional, tag = "11", default = "All")]
    pub scope: Option<i32>,
    /// Of this name; of any where it is not set.
    #[prost(string, optional, tag = "12")]
    pub name: Option<String>,
}

/// The response to `getApplications`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetApplicationsResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub applications: Vec<ApplicationReport>,
}

/// The request of `getDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetDelegationTokenRequest {
    /// Who may renew the token: a user, or a principal, of which the short name counts.
    #[prost(string, required, tag = "1")]
    pub renewer: String,
}

/// The response to `getDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetDelegationTokenResponse {
    /// Without its service, which clients fill in.
    #[prost(message, optional, tag = "1")]
    pub token: Option<TokenProto>,
}

/// The request of `renewDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenewDelegationTokenRequest {
    /// Whose renewer is who asks.
    #[prost(message, required, tag = "1")]
    pub token: TokenProto,
}

/// The response to `renewDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RenewDelegationTokenResponse {
    /// When it expires now, in milliseconds since 1970.
    #[prost(uint64, required, tag = "1")]
    pub new_expiry_time: u64,
}

/// The request of `cancelDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CancelDelegationTokenRequest {
    /// Whose owner or renewer is who asks.
    #[prost(message, required, tag = "1")]
    pub token: TokenProto,
}

/// The response to `cancelDelegationToken`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CancelDelegationTokenResponse {}

/// The request of `moveApplicationAcrossQueues`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MoveApplicationAcrossQueuesRequest {
    /// Which application.
    #[prost(message, required, tag = "1")]
    pub application_id: ApplicationId,
    /// The leaf's name or full path.
    #[prost(string, required, tag = "2")]
    pub target_queue: String,
}

/// The response to `moveApplicationAcrossQueues`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MoveApplicationAcrossQueuesResponse {}

/// The request of `getApplicationAttemptReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptReportRequest {
    /// Which attempt.
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
}

/// The response to `getApplicationAttemptReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptReportResponse {
    /// Always set.
    #[prost(message, optional, tag = "1")]
    pub application_attempt_report: Option<ApplicationAttemptReport>,
}

/// The request of `getApplicationAttempts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptsRequest {
    /// Whose attempts.
    #[prost(message, optional, tag = "1")]
    pub application_id: Option<ApplicationId>,
}

/// The response to `getApplicationAttempts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetApplicationAttemptsResponse {
    /// In no order.
    #[prost(message, repeated, tag = "1")]
    pub application_attempts: Vec<ApplicationAttemptReport>,
}

/// The request of `getContainerReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerReportRequest {
    /// Which container.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
}

/// The response to `getContainerReport`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainerReportResponse {
    /// Always set.
    #[prost(message, optional, tag = "1")]
    pub container_report: Option<ContainerReport>,
}

/// The request of `getContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainersRequest {
    /// Whose containers.
    #[prost(message, optional, tag = "1")]
    pub application_attempt_id: Option<ApplicationAttemptId>,
}

/// The response to `getContainers`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GetContainersResponse {
    /// Those that live, in no order; ended ones only where a history server answers.
    #[prost(message, repeated, tag = "1")]
    pub containers: Vec<ContainerReport>,
}

/// The request of `updateApplicationPriority`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationPriorityRequest {
    /// Which application.
    #[prost(message, required, tag = "1")]
    pub application_id: ApplicationId,
    /// What it is to have.
    #[prost(message, required, tag = "2")]
    pub application_priority: Priority,
}

/// The response to `updateApplicationPriority`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationPriorityResponse {
    /// What it has now: at most the cluster's greatest.
    #[prost(message, optional, tag = "1")]
    pub application_priority: Option<Priority>,
}

/// The request of `signalToContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignalContainerRequest {
    /// Which container.
    #[prost(message, required, tag = "1")]
    pub container_id: ContainerId,
    /// A [`SignalContainerCommand`].
    #[prost(enumeration = "SignalContainerCommand", required, tag = "2")]
    pub command: i32,
}

/// The response to `signalToContainer`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SignalContainerResponse {}

/// The request of `updateApplicationTimeouts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationTimeoutsRequest {
    /// Which application.
    #[prost(message, required, tag = "1")]
    pub application_id: ApplicationId,
    /// Those that are to change.
    #[prost(message, repeated, tag = "2")]
    pub application_timeouts: Vec<ApplicationUpdateTimeoutMap>,
}

/// The response to `updateApplicationTimeouts`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UpdateApplicationTimeoutsResponse {
    /// As they were asked for.
    #[prost(message, repeated, tag = "1")]
    pub application_timeouts: Vec<ApplicationUpdateTimeoutMap>,
}
