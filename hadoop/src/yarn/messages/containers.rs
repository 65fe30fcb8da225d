//! Containers: what is granted, started and reported. Only declarations belong here.

use super::applications::ApplicationAclMap;
use super::basics::{ContainerId, ExecutionType, Priority, Resource, StringStringMap};
use super::nodes::NodeId;
use crate::proto::{enumerations, messages};
use crate::tokens::TokenProto;

messages! {
    /// The command, files, environment and tokens with which a NodeManager starts a container. Its `Debug` shows neither tokens nor values
    /// of the environment. Made by `ContainerLaunchContext::of_command`; given to `NmClient::start`, or for the ApplicationMaster to
    /// `YarnClient::submit`.
    #[prost(skip_debug)]
    pub struct ContainerLaunchContext (Eq) {
        /// The files that the node fetches before the container starts.
        repeated message<StringLocalResourceMap> local_resources = 1;
        /// A token storage, as `Credentials::to_bytes` makes it: secret.
        optional bytes tokens = 2;
        /// Data for auxiliary services of the node, by the services' names.
        repeated message<StringBytesMap> service_data = 3;
        /// Environment variables beside those that the node sets. `{{NAME}}` stands for another variable, as `$NAME`
        /// does: a shell sets them.
        repeated message<StringStringMap> environment = 4;
        /// The command, which a shell runs; `<LOG_DIR>` stands for the container's log directory.
        repeated string command = 5;
        /// The users and groups who may access the application besides its owner. The ResourceManager uses those of the
        /// ApplicationMaster's launch, a node those of the first launch there.
        repeated message<ApplicationAclMap> application_acls = 6;
        /// The rule by which the node starts the container again when it fails; not set: the node does not start it again.
        optional message<ContainerRetryContext> container_retry_context = 7;
        /// Configuration with which the ResourceManager renews the tokens, as a Writable.
        optional bytes tokens_conf = 8;
    }

    /// A file for a container, with the name that the file has in the container's working directory. Part of `ContainerLaunchContext` and
    /// `ResourceLocalizationRequest`.
    pub struct StringLocalResourceMap (Eq) {
        /// The file's name below the container's working directory.
        optional string key = 1;
        /// The file's place, size and time of modification.
        optional message<LocalResource> value = 2;
    }

    /// A file of a remote file system that a node fetches for a container: its address, its size in bytes and its modification time in
    /// milliseconds since 1970, which must be the file's own, and whether it is unpacked. The node keeps its copy and may share it with
    /// other containers. Made by `LocalResource::file`. Part of `StringLocalResourceMap`.
    pub struct LocalResource (Eq) {
        /// The file's address on a file system that nodes can read.
        optional message<Url> resource = 1;
        /// The file's size in bytes, by which a node chooses a disk with enough room for its copy; it is not compared with the file's own.
        optional int64 size = 2;
        /// The file's modification time in milliseconds since 1970; a node refuses a file that has changed.
        optional int64 timestamp = 3;
        /// A [`LocalResourceType`]: whether and how it is unpacked.
        optional enumeration(LocalResourceType) kind = 4;
        /// A [`LocalResourceVisibility`]: who shares the node's copy.
        optional enumeration(LocalResourceVisibility) visibility = 5;
        /// For `Pattern`: a Java regular expression for the names to unpack.
        optional string pattern = 6;
        /// True if the file goes into the cluster's shared cache, where there is one.
        optional bool should_be_uploaded_to_shared_cache = 7;
    }

    /// The address of a file on a file system that nodes can read, in its parts. Part of `LocalResource`.
    pub struct Url (Eq) {
        /// The scheme, such as `hdfs`.
        optional string scheme = 1;
        /// The host, or the logical name of a file system.
        optional string host = 2;
        /// The port of `host`; -1 for none.
        optional int32 port = 3;
        /// The path on the file system, from `/`.
        optional string file = 4;
        /// The user information, which stands before `@`.
        optional string user_info = 5;
    }

    /// An entry of a map from texts to bytes, such as data for a node's auxiliary services. Its `Debug` shows the key only. Part of
    /// `ContainerLaunchContext` and `StartContainersResponse`.
    #[prost(skip_debug)]
    pub struct StringBytesMap (Eq) {
        /// The key, such as the name of an auxiliary service.
        optional string key = 1;
        /// Bytes whose meaning only the named service knows.
        optional bytes value = 2;
    }

    /// The rule by which a node starts a container's program again by itself after a failure, of which the ApplicationMaster is not told:
    /// after which ends, how often (-1 for ever), after which pause in milliseconds. By default never. It is part of a
    /// `ContainerLaunchContext`, where it is not set by default.
    pub struct ContainerRetryContext (Eq) {
        /// A [`ContainerRetryPolicy`]: the ends after which it is started again.
        optional enumeration(ContainerRetryPolicy) retry_policy = 1 [default = "NeverRetry"];
        /// The exit codes after which the program is started again; they count only for `RetryOnSpecificErrorCodes`.
        repeated int32 error_codes = 2 [packed = "false"];
        /// Maximum number of further starts; -1 for no limit.
        optional int32 max_retries = 3 [default = "0"];
        /// Milliseconds between an end and the next start.
        optional int32 retry_interval = 4 [default = "0"];
        /// Milliseconds after which a failure no longer counts; -1 for never.
        optional int64 failures_validity_interval = 5 [default = "-1"];
    }

    /// The ResourceManager's report of a container, for clients: its node, state, times (milliseconds since 1970; 0 for an end that has not
    /// come) and end; the exit status means nothing before the end. Part of `GetContainerReportResponse` and `GetContainersResponse`;
    /// returned by `YarnClient::container` and `YarnClient::containers`.
    pub struct ContainerReport (Eq) {
        /// The container's id.
        optional message<ContainerId> container_id = 1;
        /// The resources that were allocated to the container.
        optional message<Resource> resource = 2;
        /// The node that the container is on.
        optional message<NodeId> node_id = 3;
        /// The priority of the request that was answered by the container.
        optional message<Priority> priority = 4;
        /// The time at which the container was made, in milliseconds since 1970.
        optional int64 creation_time = 5;
        /// The time at which the container ended, in milliseconds since 1970; 0 before.
        optional int64 finish_time = 6;
        /// The reason of the container's end, for people; `N/A` before.
        optional string diagnostics_info = 7 [default = "N/A"];
        /// The address of a web page with the container's logs.
        optional string log_url = 8;
        /// The exit code of the container's program, or a number of Hadoop's own (`ContainerExitStatus`); it means
        /// nothing until the container has ended.
        optional int32 container_exit_status = 9;
        /// A [`ContainerState`], as the ResourceManager sees it.
        optional enumeration(ContainerState) container_state = 10;
        /// The address of the node's web pages, with `http://` or `https://` before `host:port`.
        optional string node_http_address = 11;
        /// An [`ExecutionType`]: whether the container may be queued or stopped in favour of others.
        optional enumeration(ExecutionType) execution_type = 12 [default = "Guaranteed"];
        /// Ports of the container that its node has opened, for runtimes that do so; JSON.
        optional string exposed_ports = 13;
    }

    /// A container that the ResourceManager has granted to an ApplicationMaster, which has to start it on its node. If it is not started
    /// before its token expires, it is lost. `MasterEvent::Allocated` brings it, and `NmClient::start` starts it;
    /// `MasterEvent::Recovered` brings one that an earlier attempt got, which may run already.
    pub struct Container (Eq) {
        /// The container's id.
        optional message<ContainerId> id = 1;
        /// The node on which the container must be started.
        optional message<NodeId> node_id = 2;
        /// Address of the web pages of the container's node, as `host:port`.
        optional string node_http_address = 3;
        /// The container's resources: those requested, rounded up.
        optional message<Resource> resource = 4;
        /// The priority of the request that is answered by the container.
        optional message<Priority> priority = 5;
        /// The token that goes with the request to start the container. It expires; the container cannot be started
        /// after that.
        optional message<TokenProto> container_token = 6;
        /// An [`ExecutionType`]: whether the container may be queued or stopped in favour of others.
        optional enumeration(ExecutionType) execution_type = 7 [default = "Guaranteed"];
        /// The `allocation_request_id` of the request that is answered by the container.
        optional int64 allocation_request_id = 8 [default = "-1"];
        /// Number of changes of size or execution type so far.
        optional int32 version = 9 [default = "0"];
        /// The allocation tags of the request that is answered by the container.
        repeated string allocation_tags = 10;
        /// The ports that the node has opened for the container, as in [`ContainerReport::exposed_ports`].
        optional string exposed_ports = 11;
    }

    /// The state of a container, or how it ended (its exit status, -1000 while it runs). A node reports it when asked, the ResourceManager
    /// once the container has ended. Part of `AllocateResponse` and `GetContainerStatusesResponse`. Returned by `NmClient::status`;
    /// `Master` makes a `MasterEvent::Completed` of the ResourceManager's.
    pub struct ContainerStatus (Eq) {
        /// The container's id.
        optional message<ContainerId> container_id = 1;
        /// A [`ContainerState`], as the node sees it.
        optional enumeration(ContainerState) state = 2;
        /// The container's state or the reason of its end, for people.
        optional string diagnostics = 3 [default = "N/A"];
        /// The exit code of the container's program, or a number of Hadoop's own (`ContainerExitStatus`); -1000 while
        /// the container runs.
        optional int32 exit_status = 4 [default = "-1000"];
        /// The resources that were allocated to the container, not those that it uses.
        optional message<Resource> capability = 5;
        /// An [`ExecutionType`]: whether the container may be queued or stopped in favour of others.
        optional enumeration(ExecutionType) execution_type = 6 [default = "Guaranteed"];
        /// The container runtime's attributes, such as `HOST`, `IP` and `PORTS`.
        repeated message<StringStringMap> container_attributes = 7;
        /// A [`ContainerSubState`], finer than `state`; older nodes leave it out.
        optional enumeration(ContainerSubState) container_sub_state = 8;
    }
}

enumerations! {
    /// The way in which a node prepares a fetched file for a container: unpacked as an archive, left as it is, or unpacked in part. A field
    /// of `LocalResource` holds its number.
    pub enum LocalResourceType {
        /// An archive, unpacked into a directory that has the file's name.
        Archive = 1,
        /// The file is left as it is, not unpacked.
        File = 2,
        /// The file is an archive of which the entries that match `pattern` are unpacked; the archive is kept beside
        /// them.
        Pattern = 3,
    }

    /// The containers that share a node's copy of a fetched file: everybody's, the same user's, or the same application's. A field of
    /// `LocalResource` holds its number.
    pub enum LocalResourceVisibility {
        /// Everybody on the node shares the file, which must be readable by everybody.
        Public = 1,
        /// Applications of the same user on the node share the file.
        Private = 2,
        /// Containers of the same application on the node share the file.
        Application = 3,
    }

    /// The kinds of ends of a container's program after which its node starts the program again: none, any failure, or some exit codes. A
    /// field of `ContainerRetryContext` holds its number.
    pub enum ContainerRetryPolicy {
        /// No end: each is final.
        NeverRetry = 0,
        /// Any end but code 0 and the ends by `SIGKILL` and `SIGTERM` (137, 143).
        RetryOnAllErrors = 1,
        /// Ends with one of the exit codes that are listed.
        RetryOnSpecificErrorCodes = 2,
    }

    /// The state of a container. From a node, `Running` means that its start was requested, not that its files are there (see
    /// [`ContainerSubState`]); the ResourceManager reports each container as `Running` that has not ended, even before its start. Fields of
    /// `ContainerReport` and `ContainerStatus` hold its number.
    pub enum ContainerState {
        /// The container was granted, and its node has not been told to start it.
        New = 1,
        /// The container was given to its node, which prepares or runs it; from the ResourceManager: it has not ended.
        Running = 2,
        /// The container has ended, whatever the reason.
        Complete = 3,
    }

    /// The state of a container on its node, finer than [`ContainerState`]: it says whether the program runs already, is held, or is being
    /// ended. A field of `ContainerStatus` holds its number; older nodes leave it out.
    pub enum ContainerSubState {
        /// The container waits, or its files are being fetched.
        Scheduled = 1,
        /// The container's program runs, or is just being started.
        Running = 2,
        /// The container's program was stopped for a while, to make room for others.
        Paused = 3,
        /// The container was killed or has ended; its node cleans up.
        Completing = 4,
        /// The container has ended, and its node has cleaned up.
        Done = 5,
    }

    /// The kind of a container's program: an ApplicationMaster or anything else. A node reads it in the token of a container; no message of
    /// an ApplicationMaster has it. A field of `ContainerTokenIdentifier` holds its number.
    pub enum ContainerType {
        /// The container runs an application's ApplicationMaster.
        ApplicationMaster = 1,
        /// The container runs something that an ApplicationMaster has asked for.
        Task = 2,
    }
}
