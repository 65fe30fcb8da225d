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
/// with `prefix` (empty: all). A prefix that no name has gives an empty answer. Changes nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueryMetrics {
    /// Prefix that each metric's name must have, such as `jobmanager.`.
    pub prefix: String,
}

/// One metric of a process, as `QueryMetrics` is answered: its full name, and its value at that time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Full name of the metric, with dots between its scopes, such as `jobmanager.taskSlotsTotal`.
    pub name: String,
    /// Value of the metric at the time of the answer, in the metric's own unit.
    pub value: f64,
}
