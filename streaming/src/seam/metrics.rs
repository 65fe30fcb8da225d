//! The metrics of one task's functions, as the host reports them. The lock here is for registration and reports; a record must
//! never take it.

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

/// Maximum number of metrics in one task: the host reports each to the JobMaster every second in which it changes.
const METRICS_MAX: usize = 256;
/// Maximum number of characters in a metric's name, without the operator's.
const NAME_MAX: usize = 128;
/// Characters of the operator's name that precede it; as many as in Flink.
const OPERATOR_MAX: usize = 80;

/// The metrics that the program's functions, and the runtime for its operators (`stateBytes`, `numLateRecordsDropped`), have registered in
/// one task: numbers by `OPERATOR.NAME`. The operator's name is there without control characters and cut to 80 characters; the metric's own
/// name is whole, and registering one that is empty, longer than 128 characters or with control characters fails. There are at most 256
/// metrics; registering another one fails. The host reports all of them to the JobMaster with each state of the task, and once a second if
/// one has changed. Not kept in checkpoints.
#[derive(Debug, Default)]
pub struct FunctionMetrics(Mutex<BTreeMap<String, Arc<AtomicI64>>>);

impl FunctionMetrics {
    /// Returns the metric of an operator and name, registering it with the value 0 if it does not exist. Only the first 80
    /// characters of the operator's name count. Fails if the name is invalid or the task has 256 metrics already.
    pub(crate) fn find(
        &self,
        operator: &str,
        name: &str,
    ) -> Result<Arc<AtomicI64>, Box<dyn Error + Send + Sync>> {
        if name.is_empty() || name.chars().count() > NAME_MAX || name.contains(char::is_control) {
            let why = "a name has 1 to 128 characters, none of them a control character";
            return Err(format!("invalid name of a metric, {name:?}: {why}").into());
        }
        let operator: String =
            operator.chars().filter(|c| !c.is_control()).take(OPERATOR_MAX).collect();
        let mut metrics = lock(&self.0);
        let there = metrics.len();
        let full = format!("{operator}.{name}");
        if there >= METRICS_MAX && !metrics.contains_key(&full) {
            let why = "are the most for one task; keep values with many names in the records";
            return Err(format!("cannot add metric '{name}': {METRICS_MAX} metrics {why}").into());
        }
        Ok(metrics.entry(full).or_default().clone())
    }

    /// Returns the current values of all metrics, by `OPERATOR.NAME`; empty if none is registered. They are read one after the other while
    /// functions may change them.
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
