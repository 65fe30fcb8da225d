//! Bodies about the cluster and the JobManager.

use serde::{Deserialize, Serialize};

/// The answer to `GET /overview`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterOverview {
    /// Number of registered TaskManagers.
    pub taskmanagers: u32,
    /// Number of slots, free or not.
    pub slots_total: u32,
    /// Number of slots that are free.
    pub slots_available: u32,
    /// Number of TaskManagers on blocked nodes; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taskmanagers_blocked: u32,
    /// Free slots on blocked nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slots_free_and_blocked: u32,
    /// Jobs that have not ended.
    pub jobs_running: u32,
    /// Number of jobs that finished.
    pub jobs_finished: u32,
    /// Number of jobs that were cancelled.
    pub jobs_cancelled: u32,
    /// Number of jobs that failed.
    pub jobs_failed: u32,
    /// Version of this runtime (the field keeps Flink's name).
    pub flink_version: String,
    /// Commit it was built from.
    pub flink_commit: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The answer to `GET /config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DashboardConfiguration {
    /// Milliseconds between refreshes of a page.
    pub refresh_interval: u64,
    /// Time zone of the JobManager.
    pub timezone_name: String,
    /// Offset of the time zone, in milliseconds east of UTC.
    pub timezone_offset: i64,
    /// Version of this runtime.
    pub flink_version: String,
    /// Commit it was built from.
    pub flink_revision: String,
    /// The features that this endpoint allows.
    pub features: Features,
}

/// The features that an endpoint allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Features {
    /// True if programs may be uploaded and run.
    pub web_submit: bool,
    /// True if jobs may be cancelled over REST.
    pub web_cancel: bool,
    /// True if the parallelism of a running job can be changed.
    pub web_rescale: bool,
    /// True if this is a history server.
    pub web_history: bool,
}

/// One line of `GET /jobmanager/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationEntry {
    /// Key of the option.
    pub key: String,
    /// Value of the option; secrets are masked.
    pub value: String,
}

/// The answer to `GET …/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogList {
    /// Log files, ordered by name.
    pub logs: Vec<LogInfo>,
}

/// The answer to `GET /jobs/:jobid/…/log-url`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogUrl {
    /// A page with the log files of the process, or the log file itself.
    pub url: String,
}

/// Name, size and time of one log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogInfo {
    /// Name of the log file.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Unix milliseconds of the last change.
    pub mtime: u64,
}

/// One metric: with a value where it was asked for by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSample {
    /// Name of the metric.
    pub id: String,
    /// Value of the metric as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// One metric over several subtasks: with values where it was asked for by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregatedMetric {
    /// Name of the metric.
    pub id: String,
    /// Smallest value over the subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value over the subtasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// The mean of all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// Sum of all values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
}

impl AggregatedMetric {
    /// Removes the values that are not named (`min`, `max`, `avg`, `sum`).
    pub fn keep(&mut self, names: &[&str]) {
        let kept = |name: &str| names.contains(&name);
        self.min = self.min.filter(|_| kept("min"));
        self.max = self.max.filter(|_| kept("max"));
        self.avg = self.avg.filter(|_| kept("avg"));
        self.sum = self.sum.filter(|_| kept("sum"));
    }
}

/// The body of `POST /blocklist/nodes/:node`. An empty body counts as one without fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockNodeBody {
    /// Duration of the block in milliseconds, at least 1; absent: 600,000 (10 min).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// The reason, which the list of blocked nodes shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A blocked node, which gets no new slots and workers: the answer to `POST /blocklist/nodes/:node`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockedNodeInfo {
    /// The node's host name, as its TaskManagers register with it.
    pub node: String,
    /// Time until the block ends, in milliseconds.
    pub remaining: u64,
    /// The reason that was given for the block.
    pub cause: String,
    /// Number of TaskManagers that are registered on the node.
    pub taskmanagers: u32,
}

/// The answer to `GET /blocklist/nodes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockedNodes {
    /// The blocked nodes, sorted by name.
    pub nodes: Vec<BlockedNodeInfo>,
}
