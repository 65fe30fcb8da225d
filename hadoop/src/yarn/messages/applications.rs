//! Applications: what is submitted and what is reported. Only declarations belong here.

use super::basics::{
    ApplicationAttemptId, ApplicationId, ContainerId, Priority, Resource, StringLongMap,
    StringStringMap,
};
use super::containers::ContainerLaunchContext;
use super::master_protocol::ResourceRequest;
use crate::proto::{enumerations, messages};
use crate::tokens::TokenProto;

messages! {
    /// The id of a reservation (resources of a queue that are kept for a later time); the ResourceManager assigns it.
    /// Values are ordered by `id`, then by `cluster_timestamp`.
    pub struct ReservationId (Copy, Eq, PartialOrd, Ord, Hash) {
        /// Counts the reservations since `cluster_timestamp`.
        optional int64 id = 1;
        /// The time at which the ResourceManager that made the reservation had started, in milliseconds since 1970.
        optional int64 cluster_timestamp = 2;
    }

    /// The ResourceManager's report of an application: its state, its ApplicationMaster, and the resources that it uses. Times are in
    /// milliseconds since 1970, and 0 for what has not happened; before the ApplicationMaster has registered its host is `N/A` and its port
    /// -1. Returned by `YarnClient::report`, `YarnClient::applications` and `Watch::next`; it is a copy that does not change later.
    pub struct ApplicationReport () {
        /// The application's id.
        optional message<ApplicationId> application_id = 1;
        /// The user who submitted the application, without realm.
        optional string user = 2;
        /// The queue: the leaf's name or its full path, depending on Hadoop's version.
        optional string queue = 3;
        /// The name given at submission; it need not be unique.
        optional string name = 4;
        /// The ApplicationMaster's host, as registered; `N/A` before.
        optional string host = 5;
        /// The ApplicationMaster's RPC port, as registered; -1 before.
        optional int32 rpc_port = 6;
        /// The token with which clients call the ApplicationMaster; on secure clusters only, and for users who may view the
        /// application.
        optional message<TokenProto> client_to_am_token = 7;
        /// A [`YarnApplicationState`], as the ResourceManager sees it.
        optional enumeration(YarnApplicationState) state = 8;
        /// The address of the application's web page through the ResourceManager's proxy.
        optional string tracking_url = 9;
        /// The reason for the application's state, for people.
        optional string diagnostics = 10 [default = "N/A"];
        /// The time at which the ResourceManager took the application in, in milliseconds since 1970.
        optional int64 start_time = 11;
        /// The time at which the application ended, in milliseconds since 1970; 0 before.
        optional int64 finish_time = 12;
        /// A [`FinalApplicationStatus`]: the application's own verdict; `Undefined` until it has ended.
        optional enumeration(FinalApplicationStatus) final_status = 13;
        /// The resources in use. All numbers are -1 for a user who may not view the application.
        optional message<ApplicationResourceUsageReport> resource_usage = 14;
        /// The tracking address that the ApplicationMaster has registered.
        optional string original_tracking_url = 15;
        /// Id of the application's attempt that runs, or of its last one.
        optional message<ApplicationAttemptId> current_application_attempt_id = 16;
        /// The progress that the ApplicationMaster has told, 0 to 1.
        optional float progress = 17;
        /// The type given at submission; `YARN` by default.
        optional string application_type = 18;
        /// The token for the scheduler; set only for unmanaged ApplicationMasters, and only in answers to their owners.
        optional message<TokenProto> am_rm_token = 19;
        /// The application's tags as given at submission, in lower case.
        repeated string application_tags = 20;
        /// A [`LogAggregationStatus`]: how far the logs are collected.
        optional enumeration(LogAggregationStatus) log_aggregation_status = 21;
        /// True if the ApplicationMaster runs outside of the cluster.
        optional bool unmanaged_application = 22 [default = "false"];
        /// The priority within the queue: higher ones are served first.
        optional message<Priority> priority = 23;
        /// The node label of containers that ask for none; empty for the default partition.
        optional string app_node_label_expression = 24;
        /// The node label of the ApplicationMaster's container; empty for the default partition.
        optional string am_node_label_expression = 25;
        /// The application's time-outs, one for each kind; empty if it has none.
        repeated message<AppTimeoutsMap> app_timeouts = 26;
        /// The time at which the first attempt's container was launched, in milliseconds since 1970; 0 before.
        optional int64 launch_time = 27;
        /// The time of the application's submission, in milliseconds since 1970.
        optional int64 submit_time = 28;
        /// Id (`yarn.resourcemanager.cluster-id`) of the cluster that the application runs in.
        optional string rm_cluster_id = 29;
    }

    /// The resources that an application uses now and has used over its life (amount times seconds, memory in MiB), in an
    /// [`ApplicationReport`]. All numbers are -1 for a user who may not view the application; shares are in percent.
    pub struct ApplicationResourceUsageReport () {
        /// Number of containers in use, the ApplicationMaster's among them; -1 if unknown.
        optional int32 num_used_containers = 1;
        /// Number of places that are kept for containers of the application; -1 if unknown.
        optional int32 num_reserved_containers = 2;
        /// The resources of the application's running containers.
        optional message<Resource> used_resources = 3;
        /// The resources reserved for containers that do not fit yet.
        optional message<Resource> reserved_resources = 4;
        /// The sum of `used_resources` and `reserved_resources`.
        optional message<Resource> needed_resources = 5;
        /// Mebibytes times seconds, over the application's whole life.
        optional int64 memory_seconds = 6;
        /// Cores times seconds, over the application's whole life.
        optional int64 vcore_seconds = 7;
        /// The part of its queue's capacity that the application uses, in percent.
        optional float queue_usage_percentage = 8;
        /// The part of the cluster that the application uses, in percent.
        optional float cluster_usage_percentage = 9;
        /// The part of `memory_seconds` in containers that were preempted.
        optional int64 preempted_memory_seconds = 10;
        /// The part of `vcore_seconds` in containers that were preempted.
        optional int64 preempted_vcore_seconds = 11;
        /// Amount times seconds by resource type, memory and cores among them, over the application's whole life.
        repeated message<StringLongMap> application_resource_usage_map = 12;
        /// The part of `application_resource_usage_map` in containers that were preempted.
        repeated message<StringLongMap> application_preempted_resource_usage_map = 13;
    }

    /// One of an application's time-outs, keyed by its kind, in an [`ApplicationReport`].
    pub struct AppTimeoutsMap (Eq) {
        /// An [`ApplicationTimeoutType`]: the kind of time-out that the entry is about.
        optional enumeration(ApplicationTimeoutType) application_timeout_type = 1;
        /// The time at which that kind of time-out is over, and the time left.
        optional message<ApplicationTimeout> application_timeout = 2;
    }

    /// A time-out of an application: YARN kills the application when it is over. Holds its end in ISO 8601 (`UNLIMITED` for never) and the
    /// seconds that are left (-1 for no end). Part of `AppTimeoutsMap`.
    pub struct ApplicationTimeout (Eq) {
        /// An [`ApplicationTimeoutType`]: the kind of time-out that this is.
        required enumeration(ApplicationTimeoutType) application_timeout_type = 1;
        /// The time at which the time-out is over, in ISO 8601; `UNLIMITED` for never.
        optional string expire_time = 2;
        /// Seconds until the time-out is over; -1 for no end.
        optional int64 remaining_time = 3;
    }

    /// The description of an application that a client submits: all that the ResourceManager needs to start its ApplicationMaster (launch,
    /// size, queue, priority, number of attempts), and how it treats the application's containers, tokens, logs and time-outs. Made by the
    /// caller of `YarnClient::submit`, with the id from `YarnClient::new_application`; fields that are not set have the defaults that they
    /// name. Part of `SubmitApplicationRequest`.
    pub struct ApplicationSubmissionContext (Eq) {
        /// The id that [`YarnClient::new_application`](crate::yarn::YarnClient::new_application) gave.
        optional message<ApplicationId> application_id = 1;
        /// The application's name, for people; it need not be unique.
        optional string application_name = 2 [default = "N/A"];
        /// The queue to submit to: a leaf's name or full path.
        optional string queue = 3 [default = "default"];
        /// The priority within the queue: higher ones are served first; at most the cluster's maximum. The queue's
        /// default if it is not set.
        optional message<Priority> priority = 4;
        /// The command, files, environment and tokens with which the ApplicationMaster is started.
        optional message<ContainerLaunchContext> am_container_spec = 5;
        /// True if the ResourceManager cancels the application's delegation tokens at its end. Set it to false if
        /// others use the same tokens.
        optional bool cancel_tokens_when_complete = 6 [default = "true"];
        /// True if the ApplicationMaster runs outside of the cluster, started by its user.
        optional bool unmanaged_am = 7 [default = "false"];
        /// Maximum number of attempts; at most the cluster's `yarn.resourcemanager.am.max-attempts`, which 0 stands
        /// for.
        optional int32 max_app_attempts = 8 [default = "0"];
        /// The size of the ApplicationMaster's container; rounded up to what the scheduler allots.
        optional message<Resource> resource = 9;
        /// The type by which `yarn application -list` filters, such as `MAPREDUCE`; cut after 20 characters.
        optional string application_type = 10 [default = "YARN"];
        /// True if the containers of an attempt outlive it and belong to the next attempt; false if YARN stops them with
        /// their attempt.
        optional bool keep_containers_across_application_attempts = 11 [default = "false"];
        /// Tags by which listings can be filtered; they are put into lower case.
        repeated string application_tags = 12;
        /// Milliseconds after which a failed attempt does not count any more; -1 for never.
        optional int64 attempt_failures_validity_interval = 13 [default = "-1"];
        /// Selects the log files that are collected; all if it is not set.
        optional message<LogAggregationContext> log_aggregation_context = 14;
        /// The reservation that the application is to run in; not set: none.
        optional message<ReservationId> reservation_id = 15;
        /// The node label of containers that ask for none; the queue's default if it is not set.
        optional string node_label_expression = 16;
        /// Requests for the ApplicationMaster's container, in place of `resource` and `node_label_expression`.
        repeated message<ResourceRequest> am_container_resource_request = 17;
        /// The time-outs, in seconds from the submission; YARN kills the application when one is over.
        repeated message<ApplicationTimeoutMap> application_timeouts = 18;
        /// Hints for the scheduler, by names that it defines.
        repeated message<StringStringMap> application_scheduling_properties = 19;
    }

    /// One permission for an application (to view or to change it), and the users and groups that have it besides the application's owner.
    /// Part of `ContainerLaunchContext` and `RegisterApplicationMasterResponse`.
    pub struct ApplicationAclMap (Eq) {
        /// An [`ApplicationAccessType`]: the permission that `acl` grants.
        optional enumeration(ApplicationAccessType) access_type = 1;
        /// Users and groups that have the permission: `u1,u2 g1,g2`; `*` for everybody.
        optional string acl = 2;
    }

    /// Selects the log files of an application's containers that nodes collect into the remote file system, at its end and while it runs,
    /// by Java regular expressions for their names: by default all at the end, none while it runs. Part of `ApplicationSubmissionContext`
    /// and `ContainerTokenIdentifier`.
    pub struct LogAggregationContext (Eq) {
        /// A Java regular expression for the names of the files that are collected at the end of the application.
        optional string include_pattern = 1 [default = ".*"];
        /// A Java regular expression for the names that are left out nevertheless.
        optional string exclude_pattern = 2;
        /// A Java regular expression for the names of the files that are collected while the application runs; none if
        /// it is empty.
        optional string rolled_logs_include_pattern = 3;
        /// A Java regular expression for the names that are not collected while the application runs, although they
        /// match.
        optional string rolled_logs_exclude_pattern = 4 [default = ".*"];
        /// The Java class on the nodes that chooses the containers whose logs are collected. If it is not set, the
        /// cluster's policy holds; by default all are.
        optional string log_aggregation_policy_class_name = 5;
        /// Parameters for the class in `log_aggregation_policy_class_name`, which alone knows what they mean.
        optional string log_aggregation_policy_parameters = 6;
    }

    /// One of the time-outs that an application is submitted with, in seconds from the submission. Part of `ApplicationSubmissionContext`.
    pub struct ApplicationTimeoutMap (Eq) {
        /// An [`ApplicationTimeoutType`]: the kind of time-out to be set.
        optional enumeration(ApplicationTimeoutType) application_timeout_type = 1;
        /// Seconds from the submission after which YARN kills the application.
        optional int64 timeout = 2;
    }

    /// The numbers of a cluster's NodeManagers by state, as the ResourceManager counts them. Returned by `YarnClient::metrics`.
    pub struct YarnClusterMetrics (Eq) {
        /// Number of registered nodes: active, unhealthy, or on their way out of service.
        optional int32 num_node_managers = 1;
        /// Number of nodes that were taken out of service.
        optional int32 num_decommissioned_nms = 2;
        /// Number of nodes that run and take containers.
        optional int32 num_active_nms = 3;
        /// Number of nodes that were not heard of for too long.
        optional int32 num_lost_nms = 4;
        /// Number of nodes that their own checks found unfit, such as for full disks.
        optional int32 num_unhealthy_nms = 5;
        /// Number of nodes that were told to start anew; they come back under a new registration.
        optional int32 num_rebooted_nms = 6;
        /// Number of nodes on their way out of service: they take no new containers.
        optional int32 num_decommissioning_nms = 7;
        /// Number of nodes that ended in an orderly way.
        optional int32 num_shutdown_nms = 8;
    }

    /// The ResourceManager's report of one attempt to run an application: the attempt's state, times (milliseconds since 1970; 0 for an end
    /// that has not come) and ApplicationMaster. Part of `GetApplicationAttemptReportResponse` and `GetApplicationAttemptsResponse`;
    /// returned by `YarnClient::attempt` and `YarnClient::attempts`.
    pub struct ApplicationAttemptReport (Eq) {
        /// The attempt's id.
        optional message<ApplicationAttemptId> application_attempt_id = 1;
        /// The ApplicationMaster's host, as registered; `N/A` before.
        optional string host = 2;
        /// The ApplicationMaster's RPC port, as registered; -1 before.
        optional int32 rpc_port = 3;
        /// The address of the attempt's web page through the ResourceManager's proxy.
        optional string tracking_url = 4;
        /// The reason for the attempt's state, for people.
        optional string diagnostics = 5 [default = "N/A"];
        /// A [`YarnApplicationAttemptState`], as the ResourceManager sees it.
        optional enumeration(YarnApplicationAttemptState) yarn_application_attempt_state = 6;
        /// The ApplicationMaster's container, once it was granted.
        optional message<ContainerId> am_container_id = 7;
        /// The tracking address that the ApplicationMaster has registered.
        optional string original_tracking_url = 8;
        /// The time at which the attempt began, in milliseconds since 1970.
        optional int64 start_time = 9;
        /// The time at which the attempt ended, in milliseconds since 1970; 0 before.
        optional int64 finish_time = 10;
    }

    /// One of an application's time-outs that is to be changed, with the new absolute time in ISO 8601. `YarnClient::set_timeout` makes it.
    /// Part of `UpdateApplicationTimeoutsRequest` and `UpdateApplicationTimeoutsResponse`.
    pub struct ApplicationUpdateTimeoutMap (Eq) {
        /// An [`ApplicationTimeoutType`]: the kind of time-out to be changed.
        optional enumeration(ApplicationTimeoutType) application_timeout_type = 1;
        /// The new time at which the time-out is over, such as `2026-01-31T23:59:59.000+0000`.
        optional string expire_time = 2;
    }
}

enumerations! {
    /// The state of an application. It waits from `NewSaving` to `Accepted`; it runs once the ApplicationMaster of an attempt has
    /// registered. The last three states are final: `Finished` means unregistered, with whatever verdict ([`FinalApplicationStatus`]).
    /// Fields of `ApplicationReport` and `GetApplicationsRequest` hold its number.
    pub enum YarnApplicationState {
        /// The ResourceManager has just received the application's submission.
        New = 1,
        /// The ResourceManager writes the application to its state store.
        NewSaving = 2,
        /// The application was written down; the scheduler has yet to take it.
        Submitted = 3,
        /// The scheduler has accepted the application, which waits for its ApplicationMaster's container or
        /// registration.
        Accepted = 4,
        /// The ApplicationMaster of the application's present attempt has registered.
        Running = 5,
        /// The ApplicationMaster has unregistered; the final status says with what result.
        Finished = 6,
        /// The last attempt ended without unregistering, or the application was never accepted.
        Failed = 7,
        /// The application was killed by its user or an administrator, or because its time was over.
        Killed = 8,
    }

    /// An application's own verdict on how it ended, which its ApplicationMaster sends when it unregisters; YARN does not act on it.
    /// `Undefined` until then. Fields of `ApplicationReport` and `FinishApplicationMasterRequest` hold its number.
    pub enum FinalApplicationStatus {
        /// The application has said nothing, or has not ended.
        Undefined = 0,
        /// The application says that it has done what it was for.
        Succeeded = 1,
        /// The application says that it has not done what it was for.
        Failed = 2,
        /// The application says that somebody ended it.
        Killed = 3,
        /// The application did several things, with results of their own.
        Ended = 4,
    }

    /// The progress of the nodes in collecting the logs of an application's containers into the remote file system, all nodes taken
    /// together. After `Failed` or `TimeOut` the logs of some nodes are missing. A field of `ApplicationReport` holds its number.
    pub enum LogAggregationStatus {
        /// The cluster does not collect logs.
        Disabled = 1,
        /// No node has begun to collect the application's logs.
        NotStart = 2,
        /// Some nodes collect the application's logs, or have yet to begin.
        Running = 3,
        /// The application's logs of all nodes are collected.
        Succeeded = 4,
        /// The collection of the application's logs failed on some node.
        Failed = 5,
        /// Some node has not told its progress for too long.
        TimeOut = 6,
        /// The collection goes on, and has failed on some node.
        RunningWithFailure = 7,
    }

    /// The period of an application's life that a time-out limits, from the submission on; YARN kills the application when it is over.
    /// There is one so far.
    pub enum ApplicationTimeoutType {
        /// The time that the application may take from its submission, waiting included.
        Lifetime = 1,
    }

    /// A permission for an application, beside those of its owner and of administrators: to see it, or to change and kill it. A field of
    /// `ApplicationAclMap` holds its number.
    pub enum ApplicationAccessType {
        /// The permission to see the application's reports, pages and logs.
        ViewApp = 1,
        /// The permission to kill the application, to move it, and to change its priority.
        ModifyApp = 2,
    }

    /// The owners whose applications a listing (`getApplications`) includes: everybody, those whose applications the user may see, or the
    /// user alone. A field of `GetApplicationsRequest` holds its number.
    pub enum ApplicationsRequestScope {
        /// Everybody's applications; details that the user may not see are left out of the reports.
        All = 0,
        /// The applications that the calling user may see.
        Viewable = 1,
        /// The calling user's own applications.
        Own = 2,
    }

    /// The state of an attempt to run an application, as the ResourceManager sees it: up to `Launched` its ApplicationMaster has not
    /// registered; `Failed`, `Finished` and `Killed` are final. The numbers are YARN's, not an order. A field of `ApplicationAttemptReport`
    /// holds its number.
    pub enum YarnApplicationAttemptState {
        /// The ResourceManager has made the attempt, and nothing more.
        New = 1,
        /// The attempt was handed to the scheduler.
        Submitted = 2,
        /// The scheduler has the attempt, which waits for the container of its ApplicationMaster.
        Scheduled = 3,
        /// The attempt has a container; the ResourceManager writes it down.
        AllocatedSaving = 4,
        /// The attempt has a container, which is to be launched.
        Allocated = 5,
        /// The attempt's container was launched; the ApplicationMaster has yet to register.
        Launched = 6,
        /// The ApplicationMaster ended without unregistering, or never registered.
        Failed = 7,
        /// The attempt's ApplicationMaster has registered.
        Running = 8,
        /// The ApplicationMaster has unregistered; its container has yet to end.
        Finishing = 9,
        /// The ApplicationMaster has unregistered, and its container has ended.
        Finished = 10,
        /// The attempt ended because somebody killed the application.
        Killed = 11,
    }
}
