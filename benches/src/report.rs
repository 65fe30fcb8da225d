//! One JSON line per figure: `{"bench":"…","metric":"…","value":…,"unit":"…"}`.
//!
//! Must never print anything else on standard output.

use serde::Serialize;
use std::io::Write;

/// The output of one benchmark.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
}

#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    metric: &'a str,
    value: f64,
    unit: &'a str,
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    runs: &'a [f64],
}

impl Report {
    /// For the benchmark of that name.
    pub fn new(bench: &'static str) -> Self {
        Self { bench }
    }

    /// A single figure.
    pub fn value(&self, metric: &str, value: f64, unit: &str) -> std::io::Result<()> {
        self.line(metric, value, unit, &[])
    }

    /// The median of several runs; the runs themselves are printed with it.
    pub fn runs(&self, metric: &str, runs: &[f64], unit: &str) -> std::io::Result<()> {
        self.line(metric, median(runs), unit, runs)
    }

    fn line(&self, metric: &str, value: f64, unit: &str, runs: &[f64]) -> std::io::Result<()> {
        let line = Line { bench: self.bench, metric, value, unit, runs };
        let text = serde_json::to_string(&line).map_err(std::io::Error::other)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}

/// The median; of an even number the lower middle; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_run() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
