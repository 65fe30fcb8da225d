//! The distribution of whole numbers (durations in µs, sizes in bytes), to within 1/16.
//!
//! Buckets are fixed, so that recording takes no lock and no memory grows.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Buckets per power of two, as a power of two: the relative error is at most 1/16.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// 0..16 exactly, then 16 buckets for each of the 60 powers of two from 2^4 on.
const BUCKETS: usize = (SUB as usize) * (64 - SUB_BITS as usize + 1);

/// A metric that counts whole numbers, such as durations in µs, in 976 fixed ranges, so that its memory does not grow. It covers all
/// values recorded since it was made; nothing is ever dropped. Percentiles are at most 1/16 too high. Clones record into the same metric.
#[derive(Debug, Clone)]
pub struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

/// The summary of all values that a [`Histogram`] has recorded since it was made, not only of recent ones; made by `Histogram::summary` for
/// each snapshot of the registry. Every field is zero before the first value. Percentiles are at most 1/16 too high, never too low, and
/// exact for values below 16.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HistogramSummary {
    /// Number of values that were recorded since the histogram was made.
    pub count: u64,
    /// Smallest recorded value, exact, in the unit of the values; 0 before the first.
    pub min: u64,
    /// Largest recorded value, exact, in the unit of the values; 0 before the first.
    pub max: u64,
    /// The arithmetic mean, in the unit of the values; wrong once the sum of all values has passed 2^64.
    pub mean: f64,
    /// The median, at most 1/16 too high: half of the values are at most this.
    pub p50: u64,
    /// The 95th percentile, at most 1/16 too high: 95 % of the values are at most this.
    pub p95: u64,
    /// The 99th percentile, at most 1/16 too high: 99 % of the values are at most this.
    pub p99: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self(Arc::new(Inner {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }))
    }
}

impl Histogram {
    /// Records one value, in the caller's unit: counts it in its range, and adds it to the sum, the minimum and the maximum. The value
    /// itself is not kept. Takes no lock.
    pub fn record(&self, value: u64) {
        let inner = &self.0;
        if let Some(bucket) = inner.buckets.get(bucket_of(value)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        inner.sum.fetch_add(value, Ordering::Relaxed);
        inner.min.fetch_min(value, Ordering::Relaxed);
        inner.max.fetch_max(value, Ordering::Relaxed);
    }

    /// Computes the summary of the values recorded so far; nothing is reset. A value that another thread records meanwhile may be in only
    /// some of its fields.
    pub fn summary(&self) -> HistogramSummary {
        let inner = &self.0;
        let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let counts: Vec<u64> = inner.buckets.iter().map(load).collect();
        let count: u64 = counts.iter().sum();
        if count == 0 {
            return HistogramSummary::default();
        }
        let (min, max) = (load(&inner.min), load(&inner.max));
        let at = |percent: u64| {
            let wanted = (u128::from(count) * u128::from(percent)).div_ceil(100);
            let mut seen = 0_u128;
            let bucket = counts.iter().position(|n| {
                seen += u128::from(*n);
                seen >= wanted
            });
            // min and max may lag behind the buckets by a value that is just being recorded.
            bucket.map_or(max, upper_of).min(max).max(min)
        };
        HistogramSummary {
            count,
            min,
            max,
            mean: load(&inner.sum) as f64 / count as f64,
            p50: at(50),
            p95: at(95),
            p99: at(99),
        }
    }
}

fn bucket_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let power = value.ilog2() - SUB_BITS;
    let sub = (value >> power) - SUB;
    ((u64::from(power) + 1) * SUB + sub) as usize
}

/// Returns the largest value of a bucket.
fn upper_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let (power, sub) = (bucket / SUB - 1, bucket % SUB);
    let upper = u128::from(SUB + sub + 1) << power;
    u64::try_from(upper - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_sixteenth() {
        let histogram = Histogram::default();
        assert_eq!(histogram.summary(), HistogramSummary::default());
        (1..=1000).for_each(|n| histogram.record(n));
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.min, summary.max, summary.mean), (1000, 1, 1000, 500.5));
        for (value, exact) in [(summary.p50, 500), (summary.p95, 950), (summary.p99, 990)] {
            assert!(value >= exact && value <= exact + exact / 16 + 1, "{value} for {exact}");
        }
    }

    #[test]
    fn every_value_has_a_bucket_that_holds_it() {
        let mut last = None;
        for value in
            (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, (1 << bit) | 5]).chain([u64::MAX])
        {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS && upper_of(bucket) >= value, "{value}");
            assert!(bucket == 0 || upper_of(bucket - 1) < value, "{value}");
            last = last.max(Some(bucket));
        }
        assert_eq!(last, Some(BUCKETS - 1));
    }

    #[test]
    fn a_single_value_is_every_percentile() {
        let histogram = Histogram::default();
        histogram.record(u64::MAX);
        let summary = histogram.summary();
        assert_eq!((summary.p50, summary.p99, summary.max), (u64::MAX, u64::MAX, u64::MAX));
    }
}
