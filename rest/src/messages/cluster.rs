//! Bodies about the cluster and the JobManager.

use serde::{Deserialize, Serialize};

/// The answer to `GET /overview`: numbers of TaskManagers, slots and jobs, and the build's version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterOverview {
    /// Number of registered TaskManagers that have reported their slots, as each does right after its registration.
    pub taskmanagers: u32,
    /// Number of slots of these TaskManagers, free or not.
    pub slots_total: u32,
    /// Number of free slots of these TaskManagers, those on blocked nodes included.
    pub slots_available: u32,
    /// Number of TaskManagers on blocked nodes (which get no new slots and TaskManagers for a time); absent in JSON if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub taskmanagers_blocked: u32,
    /// Number of free slots on blocked nodes, which no job gets; absent in JSON if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slots_free_and_blocked: u32,
    /// Number of jobs that have not ended for good: those that are being stored, wait for slots or restart are included, those whose graph
    /// is being built or that are still being recovered are not.
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

/// The answer to `GET /config`: settings of this endpoint for a page that shows the cluster. No component is asked.
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

/// The features that an endpoint allows: to submit programs, and to cancel and stop jobs; two of Flink's are never there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Features {
    /// True if programs may be uploaded, listed, planned, run and removed over REST; otherwise all requests for `/jars` and below get 403.
    /// Always false on a cluster that runs one application. Otherwise `web.submit.enable` decides; without it, true if the endpoint is
    /// bound to loopback or protected by a token.
    pub web_submit: bool,
    /// True if jobs may be cancelled, stopped and bound to a client, and savepoints deleted, over REST (`web.cancel.enable`); otherwise
    /// such requests get 403.
    pub web_cancel: bool,
    /// Always false: the parallelism of a running job can't be changed.
    pub web_rescale: bool,
    /// Always false: this is not a history server.
    pub web_history: bool,
}

/// One option (key and value) that is set, in the answer to `GET /jobmanager/config`; secrets are masked, and options with
/// their default values are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationEntry {
    /// Key of the option, such as `parallelism.default`.
    pub key: String,
    /// Value of the option as text; `******` for a secret.
    pub value: String,
}

/// The answer to `GET /jobmanager/logs` and `GET /taskmanagers/:id/logs`: the log files that can be read, rotated ones and those with
/// standard output included. The files are on the process's own machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LogList {
    /// Log files, ordered by name; empty if the process logs to its console only.
    pub logs: Vec<LogInfo>,
}

/// The answer to `GET /jobs/:jobid/jobmanager/log-url` and `…/taskmanagers/:id/log-url`: where users read a process's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogUrl {
    /// URL of the page with the process's log files in an external system such as YARN, or else of its log file at this endpoint, under the
    /// host by which the client reached it. Whether anything is there is not checked.
    pub url: String,
}

/// Name, size and time of one log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogInfo {
    /// Name of the log file, without a folder, by which `…/logs/:file` serves it.
    pub name: String,
    /// Size of the log file in bytes when the list was made; a file that is written grows.
    pub size: u64,
    /// Time of the log file's last change, in Unix milliseconds; 0 if the system does not tell it.
    pub mtime: u64,
}

/// One metric of a process, a vertex or a subtask: its name, and its value if the request asks for values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSample {
    /// Name of the metric, by which the request's parameter `get` asks for its value.
    pub id: String,
    /// Value of the metric as text, in the metric's own unit; absent unless the request's parameter `get` names the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// One metric aggregated over those subtasks of a vertex that have it (of the ones that the parameter `subtasks` names, by default all).
/// Values are absent unless the request named the metric by its parameter `get`, and the aggregation by `agg` (by default all four).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AggregatedMetric {
    /// Name of the metric, by which the request's parameter `get` asks for its values.
    pub id: String,
    /// Smallest value over the subtasks, in the metric's unit; absent unless asked for by `get` and `agg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest value over the subtasks, in the metric's unit; absent unless asked for by `get` and `agg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Arithmetic mean over the subtasks, in the metric's unit; absent unless asked for by `get` and `agg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avg: Option<f64>,
    /// Sum over the subtasks, in the metric's unit; absent unless asked for by `get` and `agg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
}

impl AggregatedMetric {
    /// Sets those of the four aggregations to `None`, and so leaves them out of the JSON, whose names (`min`, `max`, `avg`,
    /// `sum`) are not among `names`.
    pub fn keep(&mut self, names: &[&str]) {
        let kept = |name: &str| names.contains(&name);
        self.min = self.min.filter(|_| kept("min"));
        self.max = self.max.filter(|_| kept("max"));
        self.avg = self.avg.filter(|_| kept("avg"));
        self.sum = self.sum.filter(|_| kept("sum"));
    }
}

/// The body of `POST /blocklist/nodes/:node`, which blocks a node for a time: how long, and why. An empty body counts as one without
/// fields; an unknown field is refused with 400. A block of the node that ends later stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockNodeBody {
    /// Duration of the block in milliseconds, at least 1 (0 is refused with 400); absent: 600,000 (10 min).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
    /// The reason, which the list of blocked nodes shows; at most 1,000 bytes, a longer one is refused with 400; absent: `no
    /// reason given`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A blocked node, whose TaskManagers get no new slots and on which no TaskManager is started: the answer to `POST
/// /blocklist/nodes/:node`, and an entry of the list.
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

/// The answer to `GET /blocklist/nodes`: the nodes whose TaskManagers get no new slots and on which none is started.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockedNodes {
    /// The nodes that are blocked now, sorted by name.
    pub nodes: Vec<BlockedNodeInfo>,
}
