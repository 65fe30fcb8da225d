//! The metric registry: counters, gauges, meters and histograms under dotted, ordered names.
//!
//! ```
//! let registry = metrics::Registry::default();
//! let slots = registry.scope("jobmanager").gauge("taskSlotsTotal");
//! slots.set(4.0);
//! assert_eq!(registry.snapshot("jobmanager."), [("jobmanager.taskSlotsTotal".to_owned(), 4.0)]);
//! ```
//!
//! Updating a metric is one or a few atomic operations and takes no lock. This crate must never do
//! I/O or read a clock: who wants rates calls [`Registry::tick`] with the time that passed.

mod histogram;
mod meter;
mod registry;

pub use histogram::{Histogram, HistogramSummary};
pub use meter::Meter;
pub use registry::{Counter, Gauge, Registry, Scope};
