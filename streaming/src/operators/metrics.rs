//! Metrics that functions of a program keep. REST shows them beside those of the runtime, by the names of operator and metric.
//!
//! Looking a metric up takes a lock and a search, so functions do it once in `open`; changing a metric is a single addition.
//! Nothing here may be looked up by name per record.

use super::BoxError;
use crate::seam::FunctionMetrics;
use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// The access to the metrics (counters and gauges) of one operator's subtask, from
/// [`OperatorContext::metrics`](super::OperatorContext::metrics). A name that is registered already is no error: the same number is
/// returned, as a counter or a gauge. Invalid names, and more than 256 metrics in a task, are errors.
///
/// ```
/// use streaming::{
///     operators::{
///         BoxError, Collector, Counter, Gauge, Metrics, OperatorContext, ProcessFunction,
///     },
///     testing,
/// };
///
/// /// Lets numbers below 100 through. REST shows how many were refused, and the last of them, as
/// /// `NAME OF THE OPERATOR.refused` and `NAME OF THE OPERATOR.lastRefused`.
/// #[derive(Clone, Default)]
/// struct Small {
///     refused: Counter,
///     last: Gauge,
/// }
///
/// impl ProcessFunction<i64> for Small {
///     type Out = i64;
///     fn open(&mut self, ctx: &OperatorContext) -> Result<(), BoxError> {
///         let metrics: Metrics<'_> = ctx.metrics();
///         self.refused = metrics.counter("refused")?;
///         self.last = metrics.gauge("lastRefused")?;
///         Ok(())
///     }
///     fn process(&mut self, number: i64, out: &mut Collector<i64>) -> Result<(), BoxError> {
///         if number < 100 {
///             out.collect(number);
///         } else {
///             self.refused.inc();
///             self.last.set(number);
///         }
///         Ok(())
///     }
/// }
///
/// let mut test = testing::process(Small::default()).open()?;
/// test.push_batch([(7, 1_000), (700, 1_001)])?;
/// assert_eq!((test.metric("refused"), test.metric("lastRefused")), (Some(1), Some(700)));
/// # Ok::<(), streaming::TaskError>(())
/// ```
#[derive(Debug)]
pub struct Metrics<'a> {
    pub(super) operator: &'a str,
    pub(super) of_task: &'a FunctionMetrics,
}

impl Metrics<'_> {
    /// Returns the counter named `name`, which begins at 0 in every attempt. The first call registers it: REST shows it as `OPERATOR.name`,
    /// with at most 80 characters of the operator's name. The same name returns the same number, also as a gauge, and also in another
    /// operator of the task whose name has the same first 80 characters. Takes a lock, so call it in `open`, not per record.
    ///
    /// # Errors
    /// Fails with a text if the name is empty, longer than 128 characters or has control characters, or if it is new and the task has
    /// 256 metrics already; metrics of the runtime, such as `stateBytes`, count.
    pub fn counter(&self, name: &str) -> Result<Counter, BoxError> {
        self.of_task.find(self.operator, name).map(Counter)
    }
    /// Returns the gauge named `name`, which begins at 0 in every attempt; otherwise like [`Metrics::counter`]. A counter of this name is
    /// the same number: setting the gauge overwrites it.
    ///
    /// # Errors
    /// Fails as [`Metrics::counter`] does.
    pub fn gauge(&self, name: &str) -> Result<Gauge, BoxError> {
        self.of_task.find(self.operator, name).map(Gauge)
    }
}

/// A number that grows, from [`Metrics::counter`]. Clones of a counter share one number; a counter made by `default` belongs to no operator
/// and REST does not show it. The number is in no checkpoint: it begins at 0 after a restart.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicI64>);

impl Counter {
    /// Adds 1 to the counter.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }
    /// Adds `number`; the sum wraps around at 2^64, and REST shows a sum of 2^63 or more as a negative number.
    #[inline]
    pub fn add(&self, number: u64) {
        // Stored as an `i64`, so that what REST shows wraps above `i64::MAX`.
        self.0.fetch_add(number as i64, Ordering::Relaxed);
    }
    /// Returns the sum of all additions in this attempt so far, those of other clones of the counter included; setting a gauge of the same
    /// name replaces it.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) as u64
    }
}

/// A number that is set, from [`Metrics::gauge`]. Clones of a gauge share one number; a gauge made by `default` belongs to no operator and
/// REST does not show it. The number is in no checkpoint: it begins at 0 after a restart.
///
/// ```
/// use streaming::operators::Gauge;
///
/// let (waiting, same) = { let gauge = Gauge::default(); (gauge.clone(), gauge) };
/// waiting.set(7);
/// assert_eq!(same.get(), 7);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Replaces the number. REST shows the last one that was set when the task's metrics were read.
    #[inline]
    pub fn set(&self, number: i64) {
        self.0.store(number, Ordering::Relaxed);
    }
    /// Returns the number that was set last; 0 before.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}
