//! The metrics that the functions of one task keep, as the host reports them. It must never be on a record's way.

use crate::lock;
use model::job::TaskMetrics;
use std::{
    collections::BTreeMap,
    error::Error,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

/// Metrics of one task: each is told to the JobMaster every second in which it changes.
const METRICS_MAX: usize = 256;
/// Characters of a metric's own name.
const NAME_MAX: usize = 128;
/// Characters of an operator's name in front of it: Flink's number.
const OPERATOR_MAX: usize = 80;

/// Metrics by `OPERATOR.NAME`.
#[derive(Debug, Default)]
pub struct FunctionMetrics(Mutex<BTreeMap<String, Arc<AtomicI64>>>);

impl FunctionMetrics {
    /// Returns the metric of that operator and name; it is made where there is none.
    pub(crate) fn find(
        &self,
        operator: &str,
        name: &str,
    ) -> Result<Arc<AtomicI64>, Box<dyn Error + Send + Sync>> {
        if name.is_empty() || name.chars().count() > NAME_MAX || name.contains(char::is_control) {
            let why = "has 1 to 128 characters, none of them a control character";
            return Err(format!("the name of a metric {why}: {name:?} is none").into());
        }
        let operator: String =
            operator.chars().filter(|c| !c.is_control()).take(OPERATOR_MAX).collect();
        let mut metrics = lock(&self.0);
        let there = metrics.len();
        let full = format!("{operator}.{name}");
        if there >= METRICS_MAX && !metrics.contains_key(&full) {
            let why = "metrics are many for one task: keep what has many names in the records";
            return Err(format!("{METRICS_MAX} {why} (asked for '{name}')").into());
        }
        Ok(metrics.entry(full).or_default().clone())
    }

    /// Returns the values of all.
    pub fn values(&self) -> TaskMetrics {
        let metrics = lock(&self.0);
        metrics.iter().map(|(name, n)| (name.clone(), n.load(Ordering::Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_one_name_is_one_metric() {
        let metrics = FunctionMetrics::default();
        metrics.find("map", "seen").unwrap().store(7, Ordering::Relaxed);
        assert_eq!(metrics.find("map", "seen").unwrap().load(Ordering::Relaxed), 7);
        metrics.find(&"x".repeat(200), "seen").unwrap();
        let long = format!("{}.seen", "x".repeat(80));
        assert_eq!(metrics.values(), TaskMetrics::from([("map.seen".into(), 7), (long, 0)]));
        for wrong in ["", "a\nb", &"y".repeat(129)] {
            assert!(metrics.find("map", wrong).is_err(), "{wrong:?}");
        }
        for n in 2..METRICS_MAX {
            metrics.find("map", &n.to_string()).unwrap();
        }
        let error = metrics.find("map", "one more").unwrap_err().to_string();
        assert!(error.contains("256") && error.contains("one more"), "{error}");
        assert!(metrics.find("map", "seen").is_ok(), "those that are there are found");
    }
}
