//! The requests and responses of ApplicationClientProtocol that are about applications and tokens. Only
//! declarations belong here.

use super::applications::{
    ApplicationAttemptReport, ApplicationReport, ApplicationSubmissionContext,
    ApplicationUpdateTimeoutMap, ApplicationsRequestScope, YarnApplicationState,
};
use super::basics::{ApplicationAttemptId, ApplicationId, ContainerId, Priority, Resource};
use super::container_protocol::SignalContainerCommand;
use super::containers::ContainerReport;
use crate::proto::messages;
use crate::tokens::TokenProto;

messages! {
    /// The request of `getNewApplication`, which asks the ResourceManager for the id of an application to submit. Sent by
    /// `YarnClient::new_application`.
    pub struct GetNewApplicationRequest (Eq) {}

    /// The response to `getNewApplication`: an unused application id, and the size of the largest container that the cluster grants. The id
    /// reserves nothing and may stay unused. Read by `YarnClient::new_application`.
    pub struct GetNewApplicationResponse (Eq) {
        /// The new application's id, with which the caller submits it.
        optional message<ApplicationId> application_id = 1;
        /// The largest container that an application may ask for.
        optional message<Resource> maximum_capability = 2;
    }

    /// The request of `getApplicationReport`, which asks for the report of one application. Sent by `YarnClient::report`.
    pub struct GetApplicationReportRequest (Eq) {
        /// The application to report on.
        optional message<ApplicationId> application_id = 1;
    }

    /// The response to `getApplicationReport`: the ResourceManager's report of the application; an unknown one is an exception. Read by
    /// `YarnClient::report`.
    pub struct GetApplicationReportResponse () {
        /// Always set: an unknown application is an exception.
        optional message<ApplicationReport> application_report = 1;
    }

    /// The request of `submitApplication`, which submits an application to the ResourceManager; it may be repeated with the same id. Sent
    /// by `YarnClient::submit`.
    pub struct SubmitApplicationRequest (Eq) {
        /// The application to submit, with an id that the ResourceManager gave out.
        optional message<ApplicationSubmissionContext> application_submission_context = 1;
    }

    /// The response to `submitApplication`. It is empty: the ResourceManager has taken the submission, but may lose it
    /// if it ends before writing it down.
    pub struct SubmitApplicationResponse (Eq) {}

    /// The request of `failApplicationAttempt`, which has the ResourceManager end an attempt as failed, and start another one if the
    /// application may have one. If the application has ended, nothing happens. Sent by `YarnClient::fail_attempt`.
    pub struct FailApplicationAttemptRequest (Eq) {
        /// The attempt that the ResourceManager ends as failed; the application may get another one.
        optional message<ApplicationAttemptId> application_attempt_id = 1;
    }

    /// The response to `failApplicationAttempt`. It is empty: the attempt is being ended, or its application has ended before.
    pub struct FailApplicationAttemptResponse (Eq) {}

    /// The request of `forceKillApplication`, which kills an application. The client repeats it until the response says that the
    /// application is dead, which it says at once of one that has ended before. Sent by `YarnClient::kill`.
    pub struct KillApplicationRequest (Eq) {
        /// The application to be killed.
        optional message<ApplicationId> application_id = 1;
        /// The reason, for people; it becomes part of the report's diagnostics.
        optional string diagnostics = 2;
    }

    /// The response to `forceKillApplication`: tells whether the application is dead; if not, the client repeats the request. Read by
    /// `YarnClient::kill`.
    pub struct KillApplicationResponse (Eq) {
        /// True once the application is dead; until then the request is to be repeated.
        optional bool is_kill_completed = 1 [default = "false"];
    }

    /// The request of `getApplications`, which lists the applications that fulfil every filter that is set; an empty filter takes all, one
    /// with several values takes applications that fit any of them. Times are in milliseconds since 1970, and their bounds inclusive. Sent
    /// by `YarnClient::applications`.
    pub struct GetApplicationsRequest (Eq) {
        /// Selects applications of any of these types; of any type if there is none.
        repeated string application_types = 1;
        /// Selects applications in any of these [`YarnApplicationState`]s; in any state if there is none.
        repeated enumeration(YarnApplicationState) application_states = 2 [packed = "false"];
        /// Selects applications of any of these users; of anybody if there is none.
        repeated string users = 3;
        /// Selects applications in any of these queues; in any queue if there is none.
        repeated string queues = 4;
        /// The maximum number of reports; all if it is not set.
        optional int64 limit = 5;
        /// Selects applications that started at this time or after, in milliseconds since 1970.
        optional int64 start_begin = 6;
        /// Selects applications that started at this time or before, in milliseconds since 1970.
        optional int64 start_end = 7;
        /// Selects applications that ended at this time or after, in milliseconds since 1970.
        optional int64 finish_begin = 8;
        /// Selects applications that ended at this time or before, in milliseconds since 1970.
        optional int64 finish_end = 9;
        /// Selects applications with any of these tags; with or without tags if there is none.
        repeated string application_tags = 10;
        /// An [`ApplicationsRequestScope`]: selects everybody's, the visible or the user's own applications.
        optional enumeration(ApplicationsRequestScope) scope = 11 [default = "All"];
        /// Selects applications of this name; of any name if it is not set.
        optional string name = 12;
    }

    /// The response to `getApplications`: the reports of the applications that fulfil the request's filters. Read by
    /// `YarnClient::applications`.
    pub struct GetApplicationsResponse () {
        /// Reports of the selected applications, in no order.
        repeated message<ApplicationReport> applications = 1;
    }

    /// The request of `getDelegationToken`, which has the server issue a token by which its bearer acts as the user who asks, without
    /// Kerberos. On secure clusters the user must have come with Kerberos, not with a token. Sent by `YarnClient::delegation_token` and
    /// `HdfsTokens::get`.
    pub struct GetDelegationTokenRequest (Eq) {
        /// The user who may renew the token, or a principal, of which only the short name counts.
        required string renewer = 1;
    }

    /// The response to `getDelegationToken`: the new delegation token, without its service; no token if the cluster has no security. Read
    /// by `YarnClient::delegation_token` and `HdfsTokens::get`, which fill the service in.
    pub struct GetDelegationTokenResponse (Eq) {
        /// The new token, without its service, which clients fill in.
        optional message<TokenProto> token = 1;
    }

    /// The request of `renewDelegationToken`, which makes a delegation token valid for longer, at most to the end that was set when it was
    /// issued. Sent by `YarnClient::renew_delegation_token` and `HdfsTokens::renew`.
    pub struct RenewDelegationTokenRequest (Eq) {
        /// The token to renew; an exception unless its renewer asks.
        required message<TokenProto> token = 1;
    }

    /// The response to `renewDelegationToken`: the time at which the token now expires, in milliseconds since 1970. Read by
    /// `YarnClient::renew_delegation_token` and `HdfsTokens::renew`.
    pub struct RenewDelegationTokenResponse (Eq) {
        /// The time at which the token expires now, in milliseconds since 1970.
        required uint64 new_expiry_time = 1;
    }

    /// The request of `cancelDelegationToken`, which makes a delegation token invalid at once; its owner and its renewer may do so. Sent by
    /// `YarnClient::cancel_delegation_token` and `HdfsTokens::cancel`.
    pub struct CancelDelegationTokenRequest (Eq) {
        /// The token to cancel; an exception unless its owner or renewer asks.
        required message<TokenProto> token = 1;
    }

    /// The response to `cancelDelegationToken`. It is empty: the token is invalid from now on.
    pub struct CancelDelegationTokenResponse (Eq) {}

    /// The request of `moveApplicationAcrossQueues`, which moves an application with its containers to another queue. The ResourceManager
    /// answers with an exception, and moves nothing, if the user may not do so, the application has ended, or the queue does not exist or
    /// has no room. Sent by `YarnClient::move_to_queue`.
    pub struct MoveApplicationAcrossQueuesRequest (Eq) {
        /// The application to be moved.
        required message<ApplicationId> application_id = 1;
        /// The queue to move to: the leaf's name or full path.
        required string target_queue = 2;
    }

    /// The response to `moveApplicationAcrossQueues`. It is empty: the application has been moved.
    pub struct MoveApplicationAcrossQueuesResponse (Eq) {}

    /// The request of `getApplicationAttemptReport`, which asks for the report of one attempt. Sent by `YarnClient::attempt`.
    pub struct GetApplicationAttemptReportRequest (Eq) {
        /// The attempt to report on.
        optional message<ApplicationAttemptId> application_attempt_id = 1;
    }

    /// The response to `getApplicationAttemptReport`: the ResourceManager's report of the attempt; an unknown one is an exception. Read by
    /// `YarnClient::attempt`.
    pub struct GetApplicationAttemptReportResponse (Eq) {
        /// Always set: an unknown attempt is an exception.
        optional message<ApplicationAttemptReport> application_attempt_report = 1;
    }

    /// The request of `getApplicationAttempts`, which asks for the reports of all attempts of an application. Sent by
    /// `YarnClient::attempts`.
    pub struct GetApplicationAttemptsRequest (Eq) {
        /// The application whose attempts are listed.
        optional message<ApplicationId> application_id = 1;
    }

    /// The response to `getApplicationAttempts`: the reports of the application's attempts. Read by `YarnClient::attempts`.
    pub struct GetApplicationAttemptsResponse (Eq) {
        /// Reports of the application's attempts, in no order.
        repeated message<ApplicationAttemptReport> application_attempts = 1;
    }

    /// The request of `getContainerReport`, which asks for the report of one container. Sent by `YarnClient::container`.
    pub struct GetContainerReportRequest (Eq) {
        /// The container to report on.
        optional message<ContainerId> container_id = 1;
    }

    /// The response to `getContainerReport`: the ResourceManager's report of the container; an unknown one is an exception. Read by
    /// `YarnClient::container`.
    pub struct GetContainerReportResponse (Eq) {
        /// Always set: an unknown container is an exception.
        optional message<ContainerReport> container_report = 1;
    }

    /// The request of `getContainers`, which asks for the reports of the containers of one attempt. Sent by `YarnClient::containers`.
    pub struct GetContainersRequest (Eq) {
        /// The attempt whose containers are listed.
        optional message<ApplicationAttemptId> application_attempt_id = 1;
    }

    /// The response to `getContainers`: the reports of the attempt's live containers; ended ones only where a history server answers. Read
    /// by `YarnClient::containers`.
    pub struct GetContainersResponse (Eq) {
        /// Reports of the containers that live, in no order; of ended ones only where a history server answers.
        repeated message<ContainerReport> containers = 1;
    }

    /// The request of `updateApplicationPriority`, which changes an application's priority within its queue: higher ones are served first.
    /// Nothing changes for an application that has ended. Sent by `YarnClient::set_priority`.
    pub struct UpdateApplicationPriorityRequest (Eq) {
        /// The application whose priority is to change.
        required message<ApplicationId> application_id = 1;
        /// The application's new priority; higher ones are served first, and the cluster's maximum bounds it.
        required message<Priority> application_priority = 2;
    }

    /// The response to `updateApplicationPriority`: the priority that the application has now. Read by `YarnClient::set_priority`.
    pub struct UpdateApplicationPriorityResponse (Eq) {
        /// The priority that now holds: the requested one, or the cluster's maximum if that is lower.
        optional message<Priority> application_priority = 1;
    }

    /// The request of `signalToContainer`, to the ResourceManager or the container's node: the node sends a signal to the container's
    /// program. The ResourceManager refuses it with an exception for a container that it does not know (any more); a node takes it all the
    /// same. Sent by `YarnClient::signal` to the ResourceManager and by `NmClient::signal` to the node.
    pub struct SignalContainerRequest (Eq) {
        /// The container to be signalled.
        required message<ContainerId> container_id = 1;
        /// A [`SignalContainerCommand`] that its node carries out.
        required enumeration(SignalContainerCommand) command = 2;
    }

    /// The response to `signalToContainer`. It is empty: the request was accepted, but the signal may not have been
    /// delivered yet.
    pub struct SignalContainerResponse (Eq) {}

    /// The request of `updateApplicationTimeouts`, which changes the times at which YARN kills an application. Nothing changes for an
    /// application that has ended. Sent by `YarnClient::set_timeout`.
    pub struct UpdateApplicationTimeoutsRequest (Eq) {
        /// The application whose time-outs are to change.
        required message<ApplicationId> application_id = 1;
        /// The time-outs that are to change, with their new absolute times; others stay.
        repeated message<ApplicationUpdateTimeoutMap> application_timeouts = 2;
    }

    /// The response to `updateApplicationTimeouts`: the time-outs that were changed, with their new times. `YarnClient::set_timeout`
    /// receives it and does not look into it.
    pub struct UpdateApplicationTimeoutsResponse (Eq) {
        /// The changed time-outs, with the times that were requested.
        repeated message<ApplicationUpdateTimeoutMap> application_timeouts = 1;
    }
}
