//! Options of the containers that a JobManager on YARN asks for, and of how often it asks.

use crate::{Declaration, Family, declare::options};
use std::{marker::PhantomData, time::Duration};

options! {
    /// Interval at which the JobManager reports to YARN's ResourceManager while it waits for no
    /// containers. Must be well below `yarn.am.liveness-monitor.expiry-interval-ms` of the cluster.
    HEARTBEAT_INTERVAL: Duration = "yarn.heartbeat.interval" => Duration::from_secs(5), must be_a_heartbeat;
    /// The longest pause between two reports to YARN's ResourceManager while the JobManager waits for containers. Right
    /// after a request reports come more often.
    REQUEST_INTERVAL: Duration = "yarn.heartbeat.container-request-interval" => Duration::from_millis(500),
        must be_a_heartbeat;
    /// The virtual cores of a TaskManager's container; `taskmanager.cpu.cores`, rounded up, where it is not set.
    VCORES: Option<u32> = "yarn.containers.vcores" => None, must be_a_count;
    /// The node label of TaskManagers: their containers are only started on nodes with this label.
    NODE_LABEL: Option<String> = "yarn.taskmanager.node-label" => None;
}

/// The value of an environment variable that is set for TaskManagers on YARN and their program hosts (the processes
/// that run jobs' code). The name in the key `containerized.taskmanager.env.<name>` is the variable's.
pub static TASKMANAGER_ENV: Family<String> = Family {
    prefix: "containerized.taskmanager.env.",
    suffix: "",
    key: "containerized.taskmanager.env.<name>",
    doc: "An environment variable of TaskManagers and of their program hosts.",
    value: PhantomData,
};

/// The name, such as `yarn.io/gpu`, by which YARN is asked for an external resource. The name in the key
/// `external-resource.<name>.yarn.config-key` is the resource's, such as `gpu`. YARN is not asked for a resource
/// without this setting.
pub static EXTERNAL_RESOURCE_KEY: Family<String> = Family {
    prefix: "external-resource.",
    suffix: ".yarn.config-key",
    key: "external-resource.<name>.yarn.config-key",
    doc: "What YARN calls an external resource, such as `yarn.io/gpu`. A resource without it is not asked for.",
    value: PhantomData,
};

pub(crate) static FAMILIES: &[&dyn Declaration] = &[&TASKMANAGER_ENV, &EXTERNAL_RESOURCE_KEY];
