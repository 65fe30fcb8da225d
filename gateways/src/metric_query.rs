//! The metric query gateway: values of a process's registry by scope. Diagnostics only.

use crate::{Never, gateway};
use model::ProcessSession;
use serde::{Deserialize, Serialize};

gateway! {
    /// The gateway of a process's MetricQueryService, which gives out the values of the process's
    /// metrics.
    pub struct MetricQueryGateway = "metric_query", fenced by ProcessSession;
    QueryMetrics => Vec<MetricValue>, Never;
}

/// REST → a process's MetricQueryService: asks for the present values of all metrics of the process whose names start
/// with `prefix` (empty: all), sorted by name. A prefix that no name has gives an empty answer. Rates are those of the last update, which
/// the service makes every 5 s. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueryMetrics {
    /// Text that each metric's name must begin with, such as `jobmanager.`; it need not end with a dot, so `job.1` also takes `job.10.x`.
    /// It is compared with the metric's own name: the values `NAME.count` of a meter or histogram are found by a prefix of `NAME` only.
    pub prefix: String,
}

/// One value of a metric of a process, as `QueryMetrics` is answered: its full name, and its value at that time. A meter or histogram has
/// several (`NAME.count`, `NAME.p99`, for example).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Full name of the metric, with dots between its scopes, such as `jobmanager.taskSlotsTotal`.
    pub name: String,
    /// Value of the metric at the time of the answer, in the metric's own unit.
    pub value: f64,
}
