//! Queues and what users may do with them. Only declarations belong here.

use super::applications::ApplicationReport;
use super::basics::Resource;
use crate::proto::{enumerations, messages};

messages! {
    /// The ResourceManager's report of a queue: capacities, state, applications and the queues below it. Capacities are parts of the parent
    /// queue's, 0 to 1, unless a field says otherwise. Part of `GetQueueInfoResponse`. Returned by `YarnClient::queue`, with all queues
    /// below and without applications.
    pub struct QueueInfo () {
        /// The queue's name: the last part of its path, or in older versions of the fair scheduler all of it.
        optional string queue_name = 1;
        /// The queue's guaranteed share of the parent queue's capacity, 0 to 1.
        optional float capacity = 2;
        /// The share, 0 to 1, that the queue may take when other queues do not need it.
        optional float maximum_capacity = 3;
        /// The part of the queue's own capacity that is in use; above 1 if the queue has more than its share.
        optional float current_capacity = 4;
        /// A [`QueueState`]: whether the queue takes applications.
        optional enumeration(QueueState) state = 5;
        /// The child queues, if the request asked for them.
        repeated message<QueueInfo> child_queues = 6;
        /// The applications, if the request asked for them.
        repeated message<ApplicationReport> applications = 7;
        /// Labels that the queue's applications may ask for; `*` for all.
        repeated string accessible_node_labels = 8;
        /// The node label of applications that ask for none.
        optional string default_node_label_expression = 9;
        /// Numbers of applications, containers and resources of the queue.
        optional message<QueueStatistics> queue_statistics = 10;
        /// True if the queue's containers are not preempted for other queues.
        optional bool preemption_disabled = 11;
        /// The queue's settings by node label; the default partition has the empty label.
        repeated message<QueueConfigurationsMap> queue_configurations_map = 12;
        /// True if the queue's containers are not preempted for others of the same queue.
        optional bool intra_queue_preemption_disabled = 13;
        /// The queue's share against its siblings, where capacities are given as weights.
        optional float weight = 14;
        /// The full path, such as `root.small`; not set by older versions.
        optional string queue_path = 15;
        /// Maximum number of applications that may run in the queue at a time.
        optional int32 max_parallel_apps = 16;
        /// The scheduler, `CS`, `FS`, …: it determines which of the fields below mean something.
        optional string scheduler_type = 17;
        /// Fair scheduler: minimum cores of the queue.
        optional int32 min_resource_vcore = 18;
        /// Fair scheduler: minimum mebibytes of the queue.
        optional int64 min_resource_memory = 19;
        /// Fair scheduler: maximum cores of the queue.
        optional int32 max_resource_vcore = 20;
        /// Fair scheduler: maximum mebibytes of the queue.
        optional int64 max_resource_memory = 21;
        /// Fair scheduler: cores that are kept for its containers.
        optional int32 reserved_resource_vcore = 22;
        /// Fair scheduler: mebibytes that are kept for its containers.
        optional int64 reserved_resource_memory = 23;
        /// Fair scheduler: cores that would be its share if all queues were busy.
        optional int32 steady_fair_share_vcore = 24;
        /// Fair scheduler: mebibytes that would be its share if all queues were busy.
        optional int64 steady_fair_share_memory = 25;
        /// The cluster of a federation to which the queue belongs.
        optional string sub_cluster_id = 26;
        /// Fair scheduler: maximum number of applications that may run in the queue at a time.
        optional int32 max_running_app = 27;
    }

    /// The numbers of a queue's applications, containers and resources, as the ResourceManager counts them: submitted, completed, killed
    /// and failed applications since it started, everything else as of now; memory in MiB. Part of `QueueInfo`.
    pub struct QueueStatistics (Eq) {
        /// Number of applications submitted to the queue since the ResourceManager started.
        optional int64 num_apps_submitted = 1;
        /// Number of the queue's applications that run now.
        optional int64 num_apps_running = 2;
        /// Number of applications that were accepted and do not run yet.
        optional int64 num_apps_pending = 3;
        /// Number of applications whose ApplicationMaster unregistered, since the ResourceManager started.
        optional int64 num_apps_completed = 4;
        /// Number of applications that were killed since the ResourceManager started.
        optional int64 num_apps_killed = 5;
        /// Number of applications that failed since the ResourceManager started.
        optional int64 num_apps_failed = 6;
        /// Number of users whose applications wait for containers.
        optional int64 num_active_users = 7;
        /// Free memory that the queue could get now, in mebibytes.
        optional int64 available_memory_mb = 8;
        /// Memory of the queue's allocated containers, in mebibytes.
        optional int64 allocated_memory_mb = 9;
        /// Memory that applications asked for and did not get yet, in mebibytes.
        optional int64 pending_memory_mb = 10;
        /// Memory kept on nodes for containers that do not fit yet, in mebibytes.
        optional int64 reserved_memory_mb = 11;
        /// Free virtual cores that the queue could get now.
        optional int64 available_vcores = 12;
        /// Virtual cores of the queue's allocated containers.
        optional int64 allocated_vcores = 13;
        /// Virtual cores that applications asked for and did not get yet.
        optional int64 pending_vcores = 14;
        /// Virtual cores kept on nodes for containers that do not fit yet.
        optional int64 reserved_vcores = 15;
        /// Number of containers that are allocated now.
        optional int64 allocated_containers = 16;
        /// Number of containers that applications asked for and did not get yet.
        optional int64 pending_containers = 17;
        /// Number of containers that do not fit yet and have a place kept on a node.
        optional int64 reserved_containers = 18;
    }

    /// The capacities of a queue in one partition of the cluster (the nodes with one node label). Part of `QueueInfo`.
    pub struct QueueConfigurationsMap () {
        /// The label; empty for the default partition.
        required string partition_name = 1;
        /// The queue's capacities in the partition `partition_name`.
        optional message<QueueConfigurations> queue_configurations = 2;
    }

    /// The capacities of a queue in one partition of the cluster; shares are 0 to 1. Part of `QueueConfigurationsMap`.
    pub struct QueueConfigurations () {
        /// The guaranteed share, as a part of the parent's.
        optional float capacity = 1;
        /// The guaranteed share, as a part of the partition.
        optional float absolute_capacity = 2;
        /// The maximum share, as a part of the parent's.
        optional float max_capacity = 3;
        /// The maximum share, as a part of the partition.
        optional float absolute_max_capacity = 4;
        /// The part of the queue's capacity that ApplicationMasters may take.
        optional float max_ampercentage = 5;
        /// The guaranteed resources as amounts, computed by the ResourceManager from the shares or amounts of the configuration.
        optional message<Resource> effective_min_capacity = 6;
        /// The maximum resources as amounts, computed by the ResourceManager from the shares or amounts of the configuration.
        optional message<Resource> effective_max_capacity = 7;
        /// The guaranteed resources of the configuration, if it gives amounts.
        optional message<Resource> configured_min_capacity = 8;
        /// The maximum resources of the configuration, if it gives amounts.
        optional message<Resource> configured_max_capacity = 9;
    }

    /// The permissions that the calling user has in one queue. Returned by `YarnClient::queue_acls`. Part of
    /// `GetQueueUserAclsInfoResponse`.
    pub struct QueueUserAclInfo (Eq) {
        /// Name of the queue that the permissions are for.
        optional string queue_name = 1;
        /// The user's permissions, each a [`QueueAcl`]; none if the user may do nothing.
        repeated enumeration(QueueAcl) user_acls = 2 [packed = "false"];
    }
}

enumerations! {
    /// The state of a queue: whether it takes new applications, which only a `Running` one does. A field of `QueueInfo` holds its number.
    pub enum QueueState {
        /// The queue takes no applications and has none running.
        Stopped = 1,
        /// The queue takes applications.
        Running = 2,
        /// The queue takes no applications; those that it has go on.
        Draining = 3,
    }

    /// A permission that a user may have in a queue. A field of `QueueUserAclInfo` holds its number.
    pub enum QueueAcl {
        /// The permission to submit applications to the queue.
        SubmitApplications = 1,
        /// The permission to kill and move the queue's applications, whoever they belong to.
        AdministerQueue = 2,
    }
}
