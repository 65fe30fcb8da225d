//! Names and the metrics behind them.

use crate::{Histogram, Meter};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A metric that is a count, which only grows, beginning at 0. Clones count together. Nothing is kept of when it grew; for a rate see
/// `Meter`.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds 1 to the counter.
    pub fn inc(&self) {
        self.add(1);
    }
    /// Adds `n` to the counter, which wraps around at 2^64.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
    /// Returns the count so far; nothing is reset.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A metric that is a value set by the program, which may go up and down and be fractional, beginning at 0. Clones share it. For a value
/// that is computed at each snapshot see `Scope::gauge_of`.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Sets the gauge's value, which replaces the earlier one.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
    /// Returns the value that was set last; 0 before the first.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

type Read = Arc<dyn Fn() -> f64 + Send + Sync>;

#[derive(Clone)]
enum Metric {
    Counter(Counter),
    Gauge(Gauge),
    Read(Read),
    Meter(Meter),
    Histogram(Histogram),
}

/// All metrics of a process by name, without history and without units: the component that makes a metric chooses both name and unit. Read
/// by the metrics of REST through `Registry::snapshot`. Clones are the same registry. Each process makes its own; there is no global one.
#[derive(Clone, Default)]
pub struct Registry(Arc<RwLock<BTreeMap<String, Metric>>>);

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.read().keys()).finish()
    }
}

impl Registry {
    /// Returns a handle by which metrics with names `name.…` are made and removed; registers nothing itself.
    pub fn scope(&self, name: impl Into<String>) -> Scope {
        Scope { registry: self.clone(), name: name.into() }
    }

    /// Returns the present value of every metric whose name begins with the text `prefix` (`job.1` also takes `job.10.…`), by ascending
    /// name; an empty prefix means all. A counter or gauge gives one value, a meter `NAME` (events per second) and `NAME.count`, a
    /// histogram `NAME.count`, `.min`, `.max`, `.mean`, `.p50`, `.p95` and `.p99`; a prefix is compared with `NAME` only, so `NAME.count`
    /// finds nothing. Calls the functions of `Scope::gauge_of`. Changes nothing. Values are read one after the other, not all at one
    /// moment.
    pub fn snapshot(&self, prefix: &str) -> Vec<(String, f64)> {
        // Values are read outside the lock: a gauge's function may take locks of its own.
        let metrics: Vec<(String, Metric)> = self
            .read()
            .range(prefix.to_owned()..)
            .take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, metric)| (name.clone(), metric.clone()))
            .collect();
        let mut values = Vec::with_capacity(metrics.len());
        for (name, metric) in metrics {
            metric.values(name, &mut values);
        }
        values.sort_by(|a, b| a.0.cmp(&b.0));
        values
    }

    /// Updates the rates of all meters; `elapsed` is the time since the last call, as the caller states it. The process calls it
    /// every few seconds: rates do not change otherwise. A meter that was registered in between counts as if it had been there for all of
    /// `elapsed`. Counters, gauges and histograms do not change.
    pub fn tick(&self, elapsed: Duration) {
        for metric in self.read().values() {
            if let Metric::Meter(meter) = metric {
                meter.tick(elapsed);
            }
        }
    }

    /// Removes every metric whose name begins with the text `prefix` (`job.1` also takes `job.10.…`, an empty one takes all), for instance
    /// those of a task that has ended. Handles to them still count, but no snapshot shows them, and their rates no longer change; a later
    /// call for the same name registers a new metric that begins at 0. Does nothing if there is none.
    pub fn remove(&self, prefix: &str) {
        self.write().retain(|name, _| !name.starts_with(prefix));
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Metric>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Metric>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the metric of this name. It is made if there is none, or if the name belongs to a
    /// metric of another kind.
    fn get_or_insert<T: Clone + Default>(
        &self,
        name: String,
        as_kind: fn(&Metric) -> Option<&T>,
        into_metric: fn(T) -> Metric,
    ) -> T {
        let mut metrics = self.write();
        if let Some(known) = metrics.get(&name).and_then(as_kind) {
            return known.clone();
        }
        let new = T::default();
        metrics.insert(name, into_metric(new.clone()));
        new
    }
}

macro_rules! kinds {
    ($($name:ident: $kind:ident),*) => {
        impl Metric {
            $(fn $name(&self) -> Option<&$kind> {
                match self {
                    Self::$kind(metric) => Some(metric),
                    _ => None,
                }
            })*
        }
    };
}
kinds!(counter: Counter, gauge: Gauge, meter: Meter, histogram: Histogram);

impl Metric {
    fn values(&self, name: String, into: &mut Vec<(String, f64)>) {
        match self {
            Self::Counter(counter) => into.push((name, counter.get() as f64)),
            Self::Gauge(gauge) => into.push((name, gauge.get())),
            Self::Read(read) => into.push((name, read())),
            Self::Meter(meter) => {
                into.push((format!("{name}.count"), meter.count() as f64));
                into.push((name, meter.per_second()));
            }
            Self::Histogram(histogram) => {
                let summary = histogram.summary();
                let values = [
                    ("count", summary.count as f64),
                    ("min", summary.min as f64),
                    ("max", summary.max as f64),
                    ("mean", summary.mean),
                    ("p50", summary.p50 as f64),
                    ("p95", summary.p95 as f64),
                    ("p99", summary.p99 as f64),
                ];
                into.extend(values.map(|(part, value)| (format!("{name}.{part}"), value)));
            }
        }
    }
}

/// A prefix of names in a [`Registry`], under which the metrics of one component, job or task are registered: the metric `n` of the scope
/// `job` is called `job.n`. Scopes of one name are the same. A cheap handle; dropping it removes nothing.
#[derive(Debug, Clone)]
pub struct Scope {
    registry: Registry,
    name: String,
}

impl Scope {
    /// Returns the scope `name` inside this one: its metrics are called `<name of this scope>.<name>.…`. Registers nothing.
    pub fn scope(&self, name: impl fmt::Display) -> Self {
        Self { registry: self.registry.clone(), name: self.full(name) }
    }
    /// Returns the counter `name` of this scope, making and registering it if there is none. A metric of another kind with this
    /// name is replaced: its handles still work, but no snapshot shows it any more.
    pub fn counter(&self, name: &str) -> Counter {
        self.registry.get_or_insert(self.full(name), Metric::counter, Metric::Counter)
    }
    /// Returns the gauge `name` of this scope, making and registering it if there is none. A metric of another kind with this name, or one
    /// of `Scope::gauge_of`, is replaced: its handles still work, but no snapshot shows it any more.
    pub fn gauge(&self, name: &str) -> Gauge {
        self.registry.get_or_insert(self.full(name), Metric::gauge, Metric::Gauge)
    }
    /// Registers a gauge whose value is what `read` returns at each snapshot, on the snapshot's thread and without a lock of the registry
    /// held. Replaces any metric of this name. `read` is kept until the metric is removed or replaced.
    pub fn gauge_of(&self, name: &str, read: impl Fn() -> f64 + Send + Sync + 'static) {
        let metric = Metric::Read(Arc::new(read));
        self.registry.write().insert(self.full(name), metric);
    }
    /// Returns the meter `name` of this scope, making and registering it if there is none. A metric of another kind with this
    /// name is replaced: its handles still work, but no snapshot shows it any more.
    pub fn meter(&self, name: &str) -> Meter {
        self.registry.get_or_insert(self.full(name), Metric::meter, Metric::Meter)
    }
    /// Returns the histogram `name` of this scope, making and registering it if there is none. A metric of another kind with
    /// this name is replaced: its handles still work, but no snapshot shows it any more.
    pub fn histogram(&self, name: &str) -> Histogram {
        self.registry.get_or_insert(self.full(name), Metric::histogram, Metric::Histogram)
    }
    /// Removes the metrics of this scope and of the scopes inside it from the registry, for all clones. Handles to them still count, but no
    /// snapshot shows them; the scope itself can be used again, and makes new metrics. Does nothing if there are none.
    pub fn remove(&self) {
        self.registry.remove(&self.full(""));
    }
    fn full(&self, name: impl fmt::Display) -> String {
        format!("{}.{name}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_ordered_and_of_one_prefix() {
        let registry = Registry::default();
        let job = registry.scope("job");
        job.counter("b").add(2);
        job.scope("task").gauge("a").set(0.5);
        job.gauge_of("c", || 7.0);
        registry.scope("jobs").counter("running").inc();
        let expected = [("job.b", 2.0), ("job.c", 7.0), ("job.task.a", 0.5)];
        assert_eq!(registry.snapshot("job."), expected.map(|(n, v)| (n.to_owned(), v)));
        assert_eq!(registry.snapshot("").len(), 4);
    }

    #[test]
    fn the_same_name_is_the_same_metric_until_its_scope_is_removed() {
        let registry = Registry::default();
        let scope = registry.scope("x");
        scope.counter("n").inc();
        scope.counter("n").inc();
        assert_eq!(scope.counter("n").get(), 2);
        registry.scope("xy").counter("n").inc();
        scope.remove();
        assert_eq!(registry.snapshot(""), [("xy.n".to_owned(), 1.0)]);
        assert_eq!(scope.counter("n").get(), 0);
    }

    #[test]
    fn a_name_of_another_kind_is_made_anew() {
        let scope = Registry::default().scope("x");
        scope.counter("n").inc();
        scope.gauge("n").set(9.0);
        assert_eq!(scope.gauge("n").get(), 9.0);
    }

    #[test]
    fn a_gauge_may_ask_the_registry_itself() {
        let registry = Registry::default();
        let scope = registry.scope("x");
        let (own, weak) = (scope.counter("n"), scope.clone());
        own.inc();
        scope.gauge_of("total", move || weak.counter("n").get() as f64);
        assert_eq!(registry.snapshot("x.total"), [("x.total".to_owned(), 1.0)]);
    }

    #[test]
    fn a_meter_and_a_histogram_show_their_parts() {
        let registry = Registry::default();
        let scope = registry.scope("x");
        scope.meter("m").mark(10);
        registry.tick(Duration::from_secs(5));
        scope.histogram("h").record(3);
        let names: Vec<_> = registry.snapshot("").into_iter().map(|(n, _)| n).collect();
        let expected = "x.h.count x.h.max x.h.mean x.h.min x.h.p50 x.h.p95 x.h.p99 x.m x.m.count";
        assert_eq!(names.join(" "), expected);
        assert_eq!(
            registry.snapshot("x.m"),
            [("x.m".to_owned(), 2.0), ("x.m.count".to_owned(), 10.0)]
        );
    }
}
