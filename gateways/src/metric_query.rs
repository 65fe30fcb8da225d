//! The metric query gateway: values of a process's registry by scope. Diagnostics only.

use crate::{Never, gateway};
use model::ProcessSession;
use serde::{Deserialize, Serialize};

gateway! {
    /// What the MetricQueryService of a process answers.
    pub struct MetricQueryGateway = "metric_query", fenced by ProcessSession;
    QueryMetrics => Vec<MetricValue>, Never;
}

/// All metrics whose name starts with a prefix (empty: all).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QueryMetrics {
    /// E.g. `jobmanager.`.
    pub prefix: String,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricValue {
    /// Full name, dots between scopes.
    pub name: String,
    /// Value.
    pub value: f64,
}
