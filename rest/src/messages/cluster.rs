//! Bodies about the cluster and the JobManager.

use serde::{Deserialize, Serialize};

/// The answer to `GET /overview`: numbers of TaskManagers, slots and jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterOverview {
    /// Number of registered TaskManagers.
    pub taskmanagers: u32,
    /// Number of slots of all TaskManagers, free or not.
    pub slots_total: u32,
    /// Number of slots that are free, those on blocked nodes included.
    pub slots_available: u32,
    /// Number of TaskManagers on blocked nodes; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taskmanagers_blocked: u32,
    /// Number of free slots on blocked nodes; absent if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slots_free_and_blocked: u32,
    /// Number of jobs that have not ended for good, waiting and restarting ones included.
    pub jobs_running: u32,
    /// Number of jobs that finished: those that this Dispatcher remembers, and those that it has forgotten since its start.
    pub jobs_finished: u32,
    /// Number of jobs that were cancelled, counted like `jobs_finished`.
    pub jobs_cancelled: u32,
    /// Number of jobs that failed, counted like `jobs_finished`.
    pub jobs_failed: u32,
    /// Version of this runtime (the field keeps Flink's name).
    pub flink_version: String,
    /// Commit that this runtime was built from (the field keeps Flink's name).
    pub flink_commit: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The answer to `GET /config`: settings for a page that shows the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DashboardConfiguration {
    /// Milliseconds between refreshes of the page (`web.refresh-interval`).
    pub refresh_interval: u64,
    /// Time zone of the answers' times, always `Coordinated Universal Time`.
    pub timezone_name: String,
    /// Offset of the time zone in milliseconds, always 0.
    pub timezone_offset: i64,
    /// Version of this runtime (the field keeps Flink's name).
    pub flink_version: String,
    /// Commit that this runtime was built from (the field keeps Flink's name).
    pub flink_revision: String,
    /// The features that this endpoint allows.
    pub features: Features,
}

/// The features that an endpoint allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Features {
    /// True if programs may be uploaded and run over REST.
    pub web_submit: bool,
    /// True if jobs may be cancelled and stopped over REST.
    pub web_cancel: bool,
    /// Always false: the parallelism of a running job can't be changed.
    pub web_rescale: bool,
    /// Always false: this is not a history server.
    pub web_history: bool,
}

/// One option in the answer to `GET /jobmanager/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationEntry {
    /// Key of the option, such as `parallelism.default`.
    pub key: String,
    /// Value of the option as text; that of a secret is masked.
    pub value: String,
}

/// The answer to `GET /jobmanager/logs` and `GET /taskmanagers/:id/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogList {
    /// Log files, ordered by name; empty if the process logs to its console only.
    pub logs: Vec<LogInfo>,
}

/// The answer to `GET /jobs/:jobid/jobmanager/log-url` and `…/taskmanagers/:id/log-url`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogUrl {
    /// URL of the page with the process's log files in an external system such as YARN, or else of its log file at this
    /// endpoint.
    pub url: String,
}

/// Name, size and time of one log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogInfo {
    /// Name of the log file, without a folder, as it stands in `/jobmanager/logs/:file`.
    pub name: String,
    /// Size of the log file in bytes.
    pub size: u64,
    /// Time of the log file's last change, in Unix milliseconds.
    pub mtime: u64,
}

/// One metric of a process, a vertex or a subtask, as an answer to a query of metrics lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSample {
    /// Name of the metric, as the request's `get` names it.
    pub id: String,
    /// Value of the metric as text, in the metric's own unit; absent unless the request named metrics by `get`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// One metric over several subtasks. Values are absent unless the request named metrics by `get` and the aggregation by `agg`
/// (by default all).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregatedMetric {
    /// Name of the metric, as the request's `get` names it.
    pub id: String,
    /// Smallest value over the subtasks; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value over the subtasks; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Arithmetic mean over the subtasks; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// Sum over the subtasks; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
}

impl AggregatedMetric {
    /// Removes the aggregations whose names (`min`, `max`, `avg`, `sum`) are not among `names`.
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
    /// The reason, which the list of blocked nodes shows; at most 1,000 bytes; absent: `no reason given`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A blocked node, which gets no new slots and workers: the answer to `POST /blocklist/nodes/:node`, and an entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockedNodeInfo {
    /// The node's host name, as its TaskManagers register with it.
    pub node: String,
    /// Milliseconds from the answer until the block ends.
    pub remaining: u64,
    /// The reason that was given for the node's block.
    pub cause: String,
    /// Number of TaskManagers that are registered on the node.
    pub taskmanagers: u32,
}

/// The answer to `GET /blocklist/nodes`: the nodes that get no new slots and workers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockedNodes {
    /// The nodes that are blocked now, sorted by name.
    pub nodes: Vec<BlockedNodeInfo>,
}
