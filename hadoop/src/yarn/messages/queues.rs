//! Queues and what users may do with them. Only declarations belong here.

use super::applications::ApplicationReport;
use super::basics::Resource;
use crate::proto::{enumerations, messages};

messages! {
    /// A queue. Capacities are parts of the parent's, 0 to 1.
    pub struct QueueInfo () {
        /// Its name; the last part of its path, or in older versions of the fair scheduler all of it.
        optional string queue_name = 1;
        /// The queue's guaranteed share.
        optional float capacity = 2;
        /// The share that the queue may take when other queues do not need it.
        optional float maximum_capacity = 3;
        /// In use, as a part of the queue's own capacity.
        optional float current_capacity = 4;
        /// A [`QueueState`]: whether the queue takes applications.
        optional enumeration(QueueState) state = 5;
        /// The child queues, if the request asked for them.
        repeated message<QueueInfo> child_queues = 6;
        /// The applications, if the request asked for them.
        repeated message<ApplicationReport> applications = 7;
        /// Labels that its applications may ask for; `*` for all.
        repeated string accessible_node_labels = 8;
        /// The node label of applications that ask for none.
        optional string default_node_label_expression = 9;
        /// Counts of what runs and waits.
        optional message<QueueStatistics> queue_statistics = 10;
        /// Whether its containers are not preempted for other queues.
        optional bool preemption_disabled = 11;
        /// Its settings by label; the default partition has the empty one.
        repeated message<QueueConfigurationsMap> queue_configurations_map = 12;
        /// Whether its containers are not preempted for others of the queue.
        optional bool intra_queue_preemption_disabled = 13;
        /// Its share against its siblings, where capacities are given as weights.
        optional float weight = 14;
        /// The full path, such as `root.small`; not set by older versions.
        optional string queue_path = 15;
        /// Applications that may run in it at a time.
        optional int32 max_parallel_apps = 16;
        /// `CS`, `FS`, …: which of the fields below mean something.
        optional string scheduler_type = 17;
        /// Fair scheduler: cores that it should have at least.
        optional int32 min_resource_vcore = 18;
        /// Fair scheduler: mebibytes that it should have at least.
        optional int64 min_resource_memory = 19;
        /// Fair scheduler: cores that it may have.
        optional int32 max_resource_vcore = 20;
        /// Fair scheduler: mebibytes that it may have.
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
        /// Fair scheduler: applications that may run in it at a time.
        optional int32 max_running_app = 27;
    }

    /// The counts of running and waiting applications and resources of a queue.
    pub struct QueueStatistics (Eq) {
        /// Applications since the ResourceManager started.
        optional int64 num_apps_submitted = 1;
        /// Applications that run now.
        optional int64 num_apps_running = 2;
        /// Applications that wait now.
        optional int64 num_apps_pending = 3;
        /// Applications that ended by themselves, since the ResourceManager started.
        optional int64 num_apps_completed = 4;
        /// Applications that were killed, since the ResourceManager started.
        optional int64 num_apps_killed = 5;
        /// Applications that failed, since the ResourceManager started.
        optional int64 num_apps_failed = 6;
        /// Users whose applications wait for something.
        optional int64 num_active_users = 7;
        /// Mebibytes that could be had now.
        optional int64 available_memory_mb = 8;
        /// Mebibytes in containers.
        optional int64 allocated_memory_mb = 9;
        /// Mebibytes asked for and not granted.
        optional int64 pending_memory_mb = 10;
        /// Mebibytes kept for containers that do not fit yet.
        optional int64 reserved_memory_mb = 11;
        /// Cores that could be had now.
        optional int64 available_vcores = 12;
        /// Cores in containers.
        optional int64 allocated_vcores = 13;
        /// Cores asked for and not granted.
        optional int64 pending_vcores = 14;
        /// Cores kept for containers that do not fit yet.
        optional int64 reserved_vcores = 15;
        /// Containers that there are.
        optional int64 allocated_containers = 16;
        /// Containers asked for and not granted.
        optional int64 pending_containers = 17;
        /// Containers that do not fit yet and have a place kept.
        optional int64 reserved_containers = 18;
    }

    /// A queue's settings for one partition of the cluster.
    pub struct QueueConfigurationsMap () {
        /// The label; empty for the default partition.
        required string partition_name = 1;
        /// The settings that hold for the label.
        optional message<QueueConfigurations> queue_configurations = 2;
    }

    /// A queue's settings.
    pub struct QueueConfigurations () {
        /// The guaranteed share, as a part of the parent's.
        optional float capacity = 1;
        /// The same as a part of the partition.
        optional float absolute_capacity = 2;
        /// The maximum share, as a part of the parent's.
        optional float max_capacity = 3;
        /// The same as a part of the partition.
        optional float absolute_max_capacity = 4;
        /// The part of it that ApplicationMasters may take.
        optional float max_ampercentage = 5;
        /// The guaranteed resources, as amounts.
        optional message<Resource> effective_min_capacity = 6;
        /// The maximum resources, as amounts.
        optional message<Resource> effective_max_capacity = 7;
        /// The guaranteed resources of the configuration, if it gives amounts.
        optional message<Resource> configured_min_capacity = 8;
        /// The maximum resources of the configuration, if it gives amounts.
        optional message<Resource> configured_max_capacity = 9;
    }

    /// The permissions that the user has in a queue.
    pub struct QueueUserAclInfo (Eq) {
        /// The queue's name.
        optional string queue_name = 1;
        /// Each a [`QueueAcl`]; none where the user may do nothing.
        repeated enumeration(QueueAcl) user_acls = 2 [packed = "false"];
    }
}

enumerations! {
    /// Whether a queue takes applications.
    pub enum QueueState {
        /// It takes no applications.
        Stopped = 1,
        /// It takes applications.
        Running = 2,
        /// It takes no applications; those that there are go on.
        Draining = 3,
    }

    /// A permission in a queue.
    pub enum QueueAcl {
        /// Submit applications to it.
        SubmitApplications = 1,
        /// Kill and move its applications, whoever they belong to.
        AdministerQueue = 2,
    }
}
