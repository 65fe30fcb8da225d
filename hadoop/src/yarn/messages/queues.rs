//! Queues and what users may do with them. Only declarations belong here.

use super::applications::ApplicationReport;
use super::basics::Resource;

/// A queue. Capacities are parts of the parent's, 0 to 1.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueInfo {
    /// Its name; the last part of its path, or in older versions of the fair scheduler all of it.
    #[prost(string, optional, tag = "1")]
    pub queue_name: Option<String>,
    /// What is its own.
    #[prost(float, optional, tag = "2")]
    pub capacity: Option<f32>,
    /// What it may take where others do not need it.
    #[prost(float, optional, tag = "3")]
    pub maximum_capacity: Option<f32>,
    /// In use, as a part of the queue's own capacity.
    #[prost(float, optional, tag = "4")]
    pub current_capacity: Option<f32>,
    /// A [`QueueState`].
    #[prost(enumeration = "QueueState", optional, tag = "5")]
    pub state: Option<i32>,
    /// Where they were asked for.
    #[prost(message, repeated, tag = "6")]
    pub child_queues: Vec<QueueInfo>,
    /// Where they were asked for.
    #[prost(message, repeated, tag = "7")]
    pub applications: Vec<ApplicationReport>,
    /// Labels that its applications may ask for; `*` for all.
    #[prost(string, repeated, tag = "8")]
    pub accessible_node_labels: Vec<String>,
    /// What applications get that ask for no label.
    #[prost(string, optional, tag = "9")]
    pub default_node_label_expression: Option<String>,
    /// Counts of what runs and waits.
    #[prost(message, optional, tag = "10")]
    pub queue_statistics: Option<QueueStatistics>,
    /// Whether its containers are not preempted for other queues.
    #[prost(bool, optional, tag = "11")]
    pub preemption_disabled: Option<bool>,
    /// Its settings by label; the default partition has the empty one.
    #[prost(message, repeated, tag = "12")]
    pub queue_configurations_map: Vec<QueueConfigurationsMap>,
    /// Whether its containers are not preempted for others of the queue.
    #[prost(bool, optional, tag = "13")]
    pub intra_queue_preemption_disabled: Option<bool>,
    /// Its share against its siblings, where capacities are given as weights.
    #[prost(float, optional, tag = "14")]
    pub weight: Option<f32>,
    /// The full path, such as `root.small`; not set by older versions.
    #[prost(string, optional, tag = "15")]
    pub queue_path: Option<String>,
    /// Applications that may run in it at a time.
    #[prost(int32, optional, tag = "16")]
    pub max_parallel_apps: Option<i32>,
    /// `CS`, `FS`, …: which of the fields below mean something.
    #[prost(string, optional, tag = "17")]
    pub scheduler_type: Option<String>,
    /// Fair scheduler: cores that it should have at least.
    #[prost(int32, optional, tag = "18")]
    pub min_resource_vcore: Option<i32>,
    /// Fair scheduler: mebibytes that it should have at least.
    #[prost(int64, optional, tag = "19")]
    pub min_resource_memory: Option<i64>,
    /// Fair scheduler: cores that it may have.
    #[prost(int32, optional, tag = "20")]
    pub max_resource_vcore: Option<i32>,
    /// Fair scheduler: mebibytes that it may have.
    #[prost(int64, optional, tag = "21")]
    pub max_resource_memory: Option<i64>,
    /// Fair scheduler: cores that are kept for its containers.
    #[prost(int32, optional, tag = "22")]
    pub reserved_resource_vcore: Option<i32>,
    /// Fair scheduler: mebibytes that are kept for its containers.
    #[prost(int64, optional, tag = "23")]
    pub reserved_resource_memory: Option<i64>,
    /// Fair scheduler: cores that would be its share if all queues were busy.
    #[prost(int32, optional, tag = "24")]
    pub steady_fair_share_vcore: Option<i32>,
    /// Fair scheduler: mebibytes that would be its share if all queues were busy.
    #[prost(int64, optional, tag = "25")]
    pub steady_fair_share_memory: Option<i64>,
    /// Of a federation: which cluster it is in.
    #[prost(string, optional, tag = "26")]
    pub sub_cluster_id: Option<String>,
    /// Fair scheduler: applications that may run in it at a time.
    #[prost(int32, optional, tag = "27")]
    pub max_running_app: Option<i32>,
}

/// What runs and waits in a queue.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueueStatistics {
    /// Applications since the ResourceManager started.
    #[prost(int64, optional, tag = "1")]
    pub num_apps_submitted: Option<i64>,
    /// Applications that run now.
    #[prost(int64, optional, tag = "2")]
    pub num_apps_running: Option<i64>,
    /// Applications that wait now.
    #[prost(int64, optional, tag = "3")]
    pub num_apps_pending: Option<i64>,
    /// Applications that ended by themselves, since the ResourceManager started.
    #[prost(int64, optional, tag = "4")]
    pub num_apps_completed: Option<i64>,
    /// Applications that were killed, since the ResourceManager started.
    #[prost(int64, optional, tag = "5")]
    pub num_apps_killed: Option<i64>,
    /// Applications that failed, since the ResourceManager started.
    #[prost(int64, optional, tag = "6")]
    pub num_apps_failed: Option<i64>,
    /// Users whose applications wait for something.
    #[prost(int64, optional, tag = "7")]
    pub num_active_users: Option<i64>,
    /// Mebibytes that could be had now.
    #[prost(int64, optional, tag = "8")]
    pub available_memory_mb: Option<i64>,
    /// Mebibytes in containers.
    #[prost(int64, optional, tag = "9")]
    pub allocated_memory_mb: Option<i64>,
    /// Mebibytes asked for and not granted.
    #[prost(int64, optional, tag = "10")]
    pub pending_memory_mb: Option<i64>,
    /// Mebibytes kept for containers that do not fit yet.
    #[prost(int64, optional, tag = "11")]
    pub reserved_memory_mb: Option<i64>,
    /// Cores that could be had now.
    #[prost(int64, optional, tag = "12")]
    pub available_vcores: Option<i64>,
    /// Cores in containers.
    #[prost(int64, optional, tag = "13")]
    pub allocated_vcores: Option<i64>,
    /// Cores asked for and not granted.
    #[prost(int64, optional, tag = "14")]
    pub pending_vcores: Option<i64>,
    /// Cores kept for containers that do not fit yet.
    #[prost(int64, optional, tag = "15")]
    pub reserved_vcores: Option<i64>,
    /// Containers that there are.
    #[prost(int64, optional, tag = "16")]
    pub allocated_containers: Option<i64>,
    /// Containers asked for and not granted.
    #[prost(int64, optional, tag = "17")]
    pub pending_containers: Option<i64>,
    /// Containers that do not fit yet and have a place kept.
    #[prost(int64, optional, tag = "18")]
    pub reserved_containers: Option<i64>,
}

/// A queue's settings for one partition of the cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueConfigurationsMap {
    /// The label; empty for the default partition.
    #[prost(string, required, tag = "1")]
    pub partition_name: String,
    /// What holds there.
    #[prost(message, optional, tag = "2")]
    pub queue_configurations: Option<QueueConfigurations>,
}

/// A queue's settings.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueConfigurations {
    /// What is its own, as a part of its parent's.
    #[prost(float, optional, tag = "1")]
    pub capacity: Option<f32>,
    /// The same as a part of the partition.
    #[prost(float, optional, tag = "2")]
    pub absolute_capacity: Option<f32>,
    /// What it may take, as a part of its parent's.
    #[prost(float, optional, tag = "3")]
    pub max_capacity: Option<f32>,
    /// The same as a part of the partition.
    #[prost(float, optional, tag = "4")]
    pub absolute_max_capacity: Option<f32>,
    /// The part of it that ApplicationMasters may take.
    #[prost(float, optional, tag = "5")]
    pub max_ampercentage: Option<f32>,
    /// What is its own, as amounts.
    #[prost(message, optional, tag = "6")]
    pub effective_min_capacity: Option<Resource>,
    /// What it may take, as amounts.
    #[prost(message, optional, tag = "7")]
    pub effective_max_capacity: Option<Resource>,
    /// What the configuration says is its own, where it says amounts.
    #[prost(message, optional, tag = "8")]
    pub configured_min_capacity: Option<Resource>,
    /// What the configuration says it may take, where it says amounts.
    #[prost(message, optional, tag = "9")]
    pub configured_max_capacity: Option<Resource>,
}

/// What the user may do with a queue.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueueUserAclInfo {
    /// Which queue.
    #[prost(string, optional, tag = "1")]
    pub queue_name: Option<String>,
    /// [`QueueAcl`]s.
    #[prost(enumeration = "QueueAcl", repeated, packed = "false", tag = "2")]
    pub user_acls: Vec<i32>,
}

/// Whether a queue takes applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum QueueState {
    /// It takes no applications.
    Stopped = 1,
    /// It takes applications.
    Running = 2,
    /// It takes no applications; those that there are go on.
    Draining = 3,
}

/// What somebody may do with a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum QueueAcl {
    /// Submit applications to it.
    SubmitApplications = 1,
    /// Kill and move its applications, whoever they belong to.
    AdministerQueue = 2,
}
