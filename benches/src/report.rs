//! One JSON line per figure: `{"bench":"…","metric":"…","value":…,"unit":"…"}`.
//!
//! Must never print anything else on standard output.

use serde::Serialize;
use std::{fmt, io::Write};

/// The output of one benchmark: prints a JSON line for each figure to standard output, under the benchmark's name.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    goal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

/// The goal of a figure, in the figure's unit; it is reported beside the figure, and a missed one never fails a benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The figure is to be at most this number.
    AtMost(f64),
    /// The figure is to be at least this number.
    AtLeast(f64),
}

impl Goal {
    /// Returns true if `value` reaches the goal. NaN reaches none.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
        }
    }
}

impl Report {
    /// Makes the report of the benchmark of that name; prints nothing.
    pub fn new(bench: &'static str) -> Self {
        Self { bench }
    }

    /// Prints a single figure as a JSON line; fails if standard output is closed. NaN becomes `null`.
    pub fn value(&self, metric: &str, value: f64, unit: &str) -> std::io::Result<()> {
        self.line(metric, value, unit, &[], None)
    }

    /// Prints the median of several runs as a JSON line, with the runs in it, in their order; fails if standard output is closed. Without
    /// runs the value is `null`.
    pub fn runs(&self, metric: &str, runs: &[f64], unit: &str) -> std::io::Result<()> {
        self.line(metric, median(runs), unit, runs, None)
    }

    /// Prints the same as [`Report::runs`], with the goal and whether the median reaches it.
    pub fn runs_with_goal(
        &self,
        metric: &str,
        runs: &[f64],
        unit: &str,
        goal: Goal,
    ) -> std::io::Result<()> {
        self.line(metric, median(runs), unit, runs, Some(goal))
    }

    fn line(
        &self,
        metric: &str,
        value: f64,
        unit: &str,
        runs: &[f64],
        goal: Option<Goal>,
    ) -> std::io::Result<()> {
        let met = goal.map(|goal| goal.is_met(value));
        let goal = goal.map(|goal| goal.to_string());
        let line = Line { bench: self.bench, metric, value, unit, runs, goal, met };
        let text = serde_json::to_string(&line).map_err(std::io::Error::other)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}

/// Returns the median: for an even number of values the mean of the two in the middle, NaN for none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    let (lower, upper) = (at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
    f64::midpoint(lower, upper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_run() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_goal_is_reached_on_its_own_side_and_by_no_missing_figure() {
        assert!(Goal::AtMost(1.4).is_met(1.4) && !Goal::AtMost(1.4).is_met(1.41));
        assert!(Goal::AtLeast(3.2).is_met(3.2) && !Goal::AtLeast(3.2).is_met(3.19));
        assert!(!Goal::AtMost(1.0).is_met(f64::NAN) && !Goal::AtLeast(1.0).is_met(f64::NAN));
        assert_eq!(Goal::AtMost(1.4).to_string(), "≤ 1.4");
    }
}
