//! Queues and what users may do with them. Only declarations belong here.
#![expect(missing_docs, reason = "names are Hadoop's; what they do not say is documented")]

use super::applications::ApplicationReport;
use super::basics::Resource;

/// A queue. Capacities are parts of the parent's, 0 to 1.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueInfo {
    #[prost(string, optional, tag = "1")]
    pub queue_name: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub capacity: Option<f32>,
    #[prost(float, optional, tag = "3")]
    pub maximum_capacity: Option<f32>,
    /// In use, as a part of the queue's own capacity.
    #[prost(float, optional, tag = "4")]
    pub current_capacity: Option<f32>,
    #[prost(enumeration = "QueueState", optional, tag = "5")]
    pub state: Option<i32>,
    #[prost(message, repeated, tag = "6")]
    pub child_queues: Vec<QueueInfo>,
    #[prost(message, repeated, tag = "7")]
    pub applications: Vec<ApplicationReport>,
    #[prost(string, repeated, tag = "8")]
    pub accessible_node_labels: Vec<String>,
    #[prost(string, optional, tag = "9")]
    pub default_node_label_expression: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub queue_statistics: Option<QueueStatistics>,
    #[prost(bool, optional, tag = "11")]
    pub preemption_disabled: Option<bool>,
    #[prost(message, repeated, tag = "12")]
    pub queue_configurations_map: Vec<QueueConfigurationsMap>,
    #[prost(bool, optional, tag = "13")]
    pub intra_queue_preemption_disabled: Option<bool>,
    #[prost(float, optional, tag = "14")]
    pub weight: Option<f32>,
    /// The full path, such as `root.small`; not set by older versions.
    #[prost(string, optional, tag = "15")]
    pub queue_path: Option<String>,
    #[prost(int32, optional, tag = "16")]
    pub max_parallel_apps: Option<i32>,
    /// `CS`, `FS`, …: which of the fields below mean something.
    #[prost(string, optional, tag = "17")]
    pub scheduler_type: Option<String>,
    #[prost(int32, optional, tag = "18")]
    pub min_resource_vcore: Option<i32>,
    #[prost(int64, optional, tag = "19")]
    pub min_resource_memory: Option<i64>,
    #[prost(int32, optional, tag = "20")]
    pub max_resource_vcore: Option<i32>,
    #[prost(int64, optional, tag = "21")]
    pub max_resource_memory: Option<i64>,
    #[prost(int32, optional, tag = "22")]
    pub reserved_resource_vcore: Option<i32>,
    #[prost(int64, optional, tag = "23")]
    pub reserved_resource_memory: Option<i64>,
    #[prost(int32, optional, tag = "24")]
    pub steady_fair_share_vcore: Option<i32>,
    #[prost(int64, optional, tag = "25")]
    pub steady_fair_share_memory: Option<i64>,
    #[prost(string, optional, tag = "26")]
    pub sub_cluster_id: Option<String>,
    #[prost(int32, optional, tag = "27")]
    pub max_running_app: Option<i32>,
}

/// What runs and waits in a queue.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueueStatistics {
    #[prost(int64, optional, tag = "1")]
    pub num_apps_submitted: Option<i64>,
    #[prost(int64, optional, tag = "2")]
    pub num_apps_running: Option<i64>,
    #[prost(int64, optional, tag = "3")]
    pub num_apps_pending: Option<i64>,
    #[prost(int64, optional, tag = "4")]
    pub num_apps_completed: Option<i64>,
    #[prost(int64, optional, tag = "5")]
    pub num_apps_killed: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub num_apps_failed: Option<i64>,
    #[prost(int64, optional, tag = "7")]
    pub num_active_users: Option<i64>,
    #[prost(int64, optional, tag = "8")]
    pub available_memory_mb: Option<i64>,
    #[prost(int64, optional, tag = "9")]
    pub allocated_memory_mb: Option<i64>,
    #[prost(int64, optional, tag = "10")]
    pub pending_memory_mb: Option<i64>,
    #[prost(int64, optional, tag = "11")]
    pub reserved_memory_mb: Option<i64>,
    #[prost(int64, optional, tag = "12")]
    pub available_vcores: Option<i64>,
    #[prost(int64, optional, tag = "13")]
    pub allocated_vcores: Option<i64>,
    #[prost(int64, optional, tag = "14")]
    pub pending_vcores: Option<i64>,
    #[prost(int64, optional, tag = "15")]
    pub reserved_vcores: Option<i64>,
    #[prost(int64, optional, tag = "16")]
    pub allocated_containers: Option<i64>,
    #[prost(int64, optional, tag = "17")]
    pub pending_containers: Option<i64>,
    #[prost(int64, optional, tag = "18")]
    pub reserved_containers: Option<i64>,
}

/// A queue's settings for one partition of the cluster.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueConfigurationsMap {
    #[prost(string, required, tag = "1")]
    pub partition_name: String,
    #[prost(message, optional, tag = "2")]
    pub queue_configurations: Option<QueueConfigurations>,
}

/// A queue's settings.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueConfigurations {
    #[prost(float, optional, tag = "1")]
    pub capacity: Option<f32>,
    #[prost(float, optional, tag = "2")]
    pub absolute_capacity: Option<f32>,
    #[prost(float, optional, tag = "3")]
    pub max_capacity: Option<f32>,
    #[prost(float, optional, tag = "4")]
    pub absolute_max_capacity: Option<f32>,
    #[prost(float, optional, tag = "5")]
    pub max_ampercentage: Option<f32>,
    #[prost(message, optional, tag = "6")]
    pub effective_min_capacity: Option<Resource>,
    #[prost(message, optional, tag = "7")]
    pub effective_max_capacity: Option<Resource>,
    #[prost(message, optional, tag = "8")]
    pub configured_min_capacity: Option<Resource>,
    #[prost(message, optional, tag = "9")]
    pub configured_max_capacity: Option<Resource>,
}

/// What the user may do with a queue.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct QueueUserAclInfo {
    #[prost(string, optional, tag = "1")]
    pub queue_name: Option<String>,
    #[prost(enumeration = "QueueAcl", repeated, packed = "false", tag = "2")]
    pub user_acls: Vec<i32>,
}

/// Whether a queue takes applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum QueueState {
    Stopped = 1,
    Running = 2,
    Draining = 3,
}

/// What somebody may do with a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum QueueAcl {
    SubmitApplications = 1,
    AdministerQueue = 2,
}
