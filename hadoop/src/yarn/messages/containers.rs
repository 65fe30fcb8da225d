//! Containers: what is granted, started and reported. Only declarations belong here.

use super::applications::ApplicationAclMap;
use super::basics::{ContainerId, ExecutionType, Priority, Resource, StringStringMap};
use super::nodes::NodeId;
use crate::tokens::TokenProto;

/// How a container is started. Its `Debug` shows neither tokens nor values of the environment.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct ContainerLaunchContext {
    /// Files that are there before it starts.
    #[prost(message, repeated, tag = "1")]
    pub local_resources: Vec<StringLocalResourceMap>,
    /// A token storage, as `Credentials::to_bytes` makes it: secret.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub tokens: Option<Vec<u8>>,
    /// For auxiliary services of the node, by their names.
    #[prost(message, repeated, tag = "3")]
    pub service_data: Vec<StringBytesMap>,
    /// Beside what the node sets. `{{NAME}}` stands for another variable, as `$NAME` does: a shell sets them.
    #[prost(message, repeated, tag = "4")]
    pub environment: Vec<StringStringMap>,
    /// Run by a shell; `<LOG_DIR>` stands for the container's log directory.
    #[prost(string, repeated, tag = "5")]
    pub command: Vec<String>,
    /// Who else may do what with the application. For the ResourceManager those of the ApplicationMaster's launch
    /// count, for a node those of the first launch there.
    #[prost(message, repeated, tag = "6")]
    pub application_acls: Vec<ApplicationAclMap>,
    /// Whether the node starts it again when it fails; it does not where this is not set.
    #[prost(message, optional, tag = "7")]
    pub container_retry_context: Option<ContainerRetryContext>,
    /// Configuration with which the ResourceManager renews the tokens, as a Writable.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub tokens_conf: Option<Vec<u8>>,
}

/// A file for a container, by the name that it has there.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct StringLocalResourceMap {
    /// The file's name below the container's working directory.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// What is there.
    #[prost(message, optional, tag = "2")]
    pub value: Option<LocalResource>,
}

/// A file that a node fetches for a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LocalResource {
    /// Where it is, on a file system that nodes can read.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Url>,
    /// Must be the file's size, in bytes.
    #[prost(int64, optional, tag = "2")]
    pub size: Option<i64>,
    /// Must be the file's modification time, to the millisecond: a file that has changed is refused.
    #[prost(int64, optional, tag = "3")]
    pub timestamp: Option<i64>,
    /// A [`LocalResourceType`].
    #[prost(enumeration = "LocalResourceType", optional, tag = "4")]
    pub kind: Option<i32>,
    /// A [`LocalResourceVisibility`].
    #[prost(enumeration = "LocalResourceVisibility", optional, tag = "5")]
    pub visibility: Option<i32>,
    /// Of the names to unpack, for `Pattern`.
    #[prost(string, optional, tag = "6")]
    pub pattern: Option<String>,
    /// Whether it goes into the cluster's shared cache, where there is one.
    #[prost(bool, optional, tag = "7")]
    pub should_be_uploaded_to_shared_cache: Option<bool>,
}

/// Where a file is.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Url {
    /// Such as `hdfs`.
    #[prost(string, optional, tag = "1")]
    pub scheme: Option<String>,
    /// Or the logical name of a file system.
    #[prost(string, optional, tag = "2")]
    pub host: Option<String>,
    /// -1 for none.
    #[prost(int32, optional, tag = "3")]
    pub port: Option<i32>,
    /// The path, from `/`.
    #[prost(string, optional, tag = "4")]
    pub file: Option<String>,
    /// What stands before `@`.
    #[prost(string, optional, tag = "5")]
    pub user_info: Option<String>,
}

/// An entry of a map from texts to bytes. Its `Debug` shows the key only.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct StringBytesMap {
    /// Such as the name of an auxiliary service.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// What only that service knows to read.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub value: Option<Vec<u8>>,
}

/// When a node starts a container again by itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerRetryContext {
    /// A [`ContainerRetryPolicy`].
    #[prost(enumeration = "ContainerRetryPolicy", optional, tag = "1", default = "NeverRetry")]
    pub retry_policy: Option<i32>,
    /// For `RetryOnSpecificErrorCodes`: which exit codes.
    #[prost(int32, repeated, packed = "false", tag = "2")]
    pub error_codes: Vec<i32>,
    /// -1 for ever.
    #[prost(int32, optional, tag = "3", default = "0")]
    pub max_retries: Option<i32>,
    /// Milliseconds.
    #[prost(int32, optional, tag = "4", default = "0")]
    pub retry_interval: Option<i32>,
    /// Milliseconds after which a failure does not count any more; -1 for never.
    #[prost(int64, optional, tag = "5", default = "-1")]
    pub failures_validity_interval: Option<i64>,
}

/// What the ResourceManager says of a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerReport {
    /// Which container this is.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// What it has.
    #[prost(message, optional, tag = "2")]
    pub resource: Option<Resource>,
    /// Where it is.
    #[prost(message, optional, tag = "3")]
    pub node_id: Option<NodeId>,
    /// Of the request that it answered.
    #[prost(message, optional, tag = "4")]
    pub priority: Option<Priority>,
    /// Milliseconds since 1970, like the other times.
    #[prost(int64, optional, tag = "5")]
    pub creation_time: Option<i64>,
    /// 0 until it has ended.
    #[prost(int64, optional, tag = "6")]
    pub finish_time: Option<i64>,
    /// How it ended, for people.
    #[prost(string, optional, tag = "7", default = "N/A")]
    pub diagnostics_info: Option<String>,
    /// Where its logs can be read, for people.
    #[prost(string, optional, tag = "8")]
    pub log_url: Option<String>,
    /// The program's own code, or one of Hadoop's; it means nothing until the container has ended.
    #[prost(int32, optional, tag = "9")]
    pub container_exit_status: Option<i32>,
    /// A [`ContainerState`].
    #[prost(enumeration = "ContainerState", optional, tag = "10")]
    pub container_state: Option<i32>,
    /// Its node's web pages, with `http://` or `https://` before `host:port`.
    #[prost(string, optional, tag = "11")]
    pub node_http_address: Option<String>,
    /// An [`ExecutionType`].
    #[prost(enumeration = "ExecutionType", optional, tag = "12", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    /// Ports of the container that its node has opened, for runtimes that do so; JSON.
    #[prost(string, optional, tag = "13")]
    pub exposed_ports: Option<String>,
}

/// A container that was granted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Container {
    /// Which container this is.
    #[prost(message, optional, tag = "1")]
    pub id: Option<ContainerId>,
    /// Where it is to be started.
    #[prost(message, optional, tag = "2")]
    pub node_id: Option<NodeId>,
    /// `host:port` of its node's web pages.
    #[prost(string, optional, tag = "3")]
    pub node_http_address: Option<String>,
    /// What it has: what was asked for, rounded up.
    #[prost(message, optional, tag = "4")]
    pub resource: Option<Resource>,
    /// Of the request that it answers.
    #[prost(message, optional, tag = "5")]
    pub priority: Option<Priority>,
    /// Goes with the request that starts it; expires.
    #[prost(message, optional, tag = "6")]
    pub container_token: Option<TokenProto>,
    /// An [`ExecutionType`].
    #[prost(enumeration = "ExecutionType", optional, tag = "7", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    /// Of the request that it answers.
    #[prost(int64, optional, tag = "8", default = "-1")]
    pub allocation_request_id: Option<i64>,
    /// How often it was changed.
    #[prost(int32, optional, tag = "9", default = "0")]
    pub version: Option<i32>,
    /// Of the request that it answers.
    #[prost(string, repeated, tag = "10")]
    pub allocation_tags: Vec<String>,
    /// As in its report.
    #[prost(string, optional, tag = "11")]
    pub exposed_ports: Option<String>,
}

/// How a container is, or how it ended.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ContainerStatus {
    /// Which container this is.
    #[prost(message, optional, tag = "1")]
    pub container_id: Option<ContainerId>,
    /// A [`ContainerState`].
    #[prost(enumeration = "ContainerState", optional, tag = "2")]
    pub state: Option<i32>,
    /// How it is or ended, for people.
    #[prost(string, optional, tag = "3", default = "N/A")]
    pub diagnostics: Option<String>,
    /// The program's own code, or one of Hadoop's; -1000 while it runs.
    #[prost(int32, optional, tag = "4", default = "-1000")]
    pub exit_status: Option<i32>,
    /// What it has.
    #[prost(message, optional, tag = "5")]
    pub capability: Option<Resource>,
    /// An [`ExecutionType`].
    #[prost(enumeration = "ExecutionType", optional, tag = "6", default = "Guaranteed")]
    pub execution_type: Option<i32>,
    /// What its runtime says of it, such as `HOST`, `IP` and `PORTS`.
    #[prost(message, repeated, tag = "7")]
    pub container_attributes: Vec<StringStringMap>,
    /// A [`ContainerSubState`].
    #[prost(enumeration = "ContainerSubState", optional, tag = "8")]
    pub container_sub_state: Option<i32>,
}

/// What a node does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum LocalResourceType {
    /// Unpacked.
    Archive = 1,
    /// As it is.
    File = 2,
    /// Unpacked in part, and kept.
    Pattern = 3,
}

/// Who shares a fetched file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum LocalResourceVisibility {
    /// Everybody on the node; the file must be readable by everybody.
    Public = 1,
    /// Applications of the same user on the node.
    Private = 2,
    /// Containers of the same application on the node.
    Application = 3,
}

/// After which ends a container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerRetryPolicy {
    /// After none.
    NeverRetry = 0,
    /// After any but 0, and but the ends by `SIGKILL` and `SIGTERM` (137, 143).
    RetryOnAllErrors = 1,
    /// After those that are listed.
    RetryOnSpecificErrorCodes = 2,
}

/// Where a container is. `Running` says only that it was started, not that its files are there: see
/// [`ContainerSubState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// It was granted, and its node has not been told to start it.
    New = 1,
    /// It was given to its node, which prepares or runs it.
    Running = 2,
    /// It has ended.
    Complete = 3,
}

/// Where a container is on its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerSubState {
    /// It waits, or its files are being fetched.
    Scheduled = 1,
    /// Its program runs, or is just being started.
    Running = 2,
    /// Its program was stopped for a while, to make room for others.
    Paused = 3,
    /// It was killed or has ended; its node cleans up.
    Completing = 4,
    /// It has ended, and its node has cleaned up.
    Done = 5,
}

/// What runs in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerType {
    /// An application's ApplicationMaster.
    ApplicationMaster = 1,
    /// Whatever that has asked for.
    Task = 2,
}
