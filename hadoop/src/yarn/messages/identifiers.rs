//! The contents of YARN's tokens, which are opaque to those who only carry them. Only declarations belong here.

use super::applications::LogAggregationContext;
use super::basics::{ApplicationAttemptId, ContainerId, ExecutionType, Priority, Resource};
use super::containers::ContainerType;
use super::nodes::NodeId;
use crate::proto::messages;

messages! {
    /// The identifier inside an NMToken, the token with which an ApplicationMaster calls a NodeManager: the attempt that may use this
    /// node's container service. This library neither makes nor reads it: a program that wants to look inside decodes the bytes of
    /// `Token::identifier`.
    pub struct NmTokenIdentifier (Eq) {
        /// The attempt that the token was issued to.
        optional message<ApplicationAttemptId> app_attempt_id = 1;
        /// The node whose container service accepts the token.
        optional message<NodeId> node_id = 2;
        /// The user who submitted the application.
        optional string app_submitter = 3;
        /// The number of the ResourceManager's key that made the password.
        optional int32 key_id = 4 [default = "-1"];
    }

    /// The identifier inside an AMRMToken, the token with which an ApplicationMaster calls the ResourceManager's scheduler: the attempt
    /// that may use it. This library neither makes nor reads it: a program that wants to look inside decodes the bytes of
    /// `Token::identifier`.
    pub struct AmRmTokenIdentifier (Eq) {
        /// The attempt that the token was issued to.
        optional message<ApplicationAttemptId> app_attempt_id = 1;
        /// The number of the ResourceManager's key that made the password; a new key brings a new token.
        optional int32 key_id = 2 [default = "-1"];
    }

    /// The identifier inside a ContainerToken, the token that goes with a request to start a container: it says what the container's node
    /// may start, and until when (times in milliseconds since 1970). This library neither makes nor reads it: a program that wants to look
    /// inside decodes the bytes of `Token::identifier`.
    pub struct ContainerTokenIdentifier (Eq) {
        /// The container that may be started with the token.
        optional message<ContainerId> container_id = 1;
        /// The node that may start the container, as `host:port`.
        optional string nm_host_addr = 2;
        /// The application's user, as whom the container runs on secure clusters.
        optional string app_submitter = 3;
        /// The resources that the container may use.
        optional message<Resource> resource = 4;
        /// The time until which the container can be started, in milliseconds since 1970.
        optional int64 expiry_time_stamp = 5;
        /// The number of the ResourceManager's key that made the password.
        optional int32 master_key_id = 6 [default = "-1"];
        /// The time at which the ResourceManager that granted the container had started, in milliseconds since 1970: nodes
        /// refuse containers of an earlier ResourceManager.
        optional int64 rm_identifier = 7;
        /// The priority of the request that is answered by the container.
        optional message<Priority> priority = 8;
        /// The time at which the container was made, in milliseconds since 1970.
        optional int64 creation_time = 9;
        /// Selects the log files of the container that are collected.
        optional message<LogAggregationContext> log_aggregation_context = 10;
        /// The node label under which the container was granted.
        optional string node_label_expression = 11;
        /// A [`ContainerType`]: whether it is the ApplicationMaster's container.
        optional enumeration(ContainerType) container_type = 12;
        /// An [`ExecutionType`]: whether the container may be queued or stopped in favour of others.
        optional enumeration(ExecutionType) execution_type = 13 [default = "Guaranteed"];
        /// Number of changes of size or execution type so far.
        optional int32 version = 14 [default = "0"];
        /// The `allocation_request_id` of the request that is answered by the container; -1 for none.
        optional int64 allocation_request_id = 15 [default = "-1"];
        /// The allocation tags of the request that is answered by the container.
        repeated string allocation_tags = 16;
    }

    /// The identifier inside a ResourceManager's delegation token (`RM_DELEGATION_TOKEN`), where it follows a version byte: whose token it
    /// is, who may renew it, and until when (milliseconds since 1970). This library neither makes nor reads it: a program that wants to
    /// look inside decodes what follows the first byte of `Token::identifier`.
    pub struct RmDelegationTokenIdentifier (Eq) {
        /// The user that the token's bearer is taken for.
        optional string owner = 1;
        /// The short name of the user who may renew the token; nobody if it is empty.
        optional string renewer = 2;
        /// The user who acted for the owner when the token was made; empty if the owner acted itself.
        optional string real_user = 3;
        /// The time at which the token was issued, in milliseconds since 1970.
        optional int64 issue_date = 4;
        /// The time after which the token cannot be renewed any more, in milliseconds since 1970.
        optional int64 max_date = 5;
        /// Number of the token, counted by the ResourceManager.
        optional int32 sequence_number = 6;
        /// The number of the ResourceManager's key that made the password.
        optional int32 master_key_id = 7;
    }
}
