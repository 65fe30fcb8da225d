//! The figures of one workload: collected pair by pair, reported as JSON lines, and shown as a row for people.

use super::{Run, Workload};
use crate::report::{Goal, Report, median};
use anyhow::{Result, ensure};

/// The head of the table of [`Outcome::row`].
pub const HEAD: &str = "workload        CPU-s/million    by hand  ÷ by hand (goal)      million/s  peak MiB \
                        |     Flink  Flink ÷ ours (goal)  million/s  peak MiB";

/// Figures of one side.
#[derive(Debug, Default)]
struct Side {
    cpu_s_per_million: Vec<f64>,
    million_per_s: Vec<f64>,
    peak_mib: Vec<f64>,
}

impl Side {
    fn push(&mut self, run: &Run, millions: f64) {
        self.cpu_s_per_million.push(run.cpu_s / millions);
        self.million_per_s.push(millions / run.wall_s);
        self.peak_mib.push(run.peak_mib);
    }

    fn over(&self, other: &Self) -> Vec<f64> {
        let pairs = self.cpu_s_per_million.iter().zip(&other.cpu_s_per_million);
        pairs.map(|(cpu, other)| cpu / other).collect()
    }

    fn report(&self, report: &Report, name: &str, unit: &str) -> Result<()> {
        let rate = format!("million {unit}/s");
        report.runs(&format!("{name}_cpu_seconds_per_million"), &self.cpu_s_per_million, "s")?;
        report.runs(&format!("{name}_million_per_second"), &self.million_per_s, &rate)?;
        report.runs(&format!("{name}_peak_mib"), &self.peak_mib, "MiB")?;
        Ok(())
    }
}

/// All pairs of one workload.
#[derive(Debug)]
pub struct Outcome {
    workload: &'static Workload,
    millions: f64,
    by_hand: Side,
    ours: Side,
    flink: Side,
}

impl Outcome {
    /// Without pairs.
    pub fn new(workload: &'static Workload, records: u64) -> Self {
        let millions = records as f64 / 1e6;
        let side = Side::default;
        Self { workload, millions, by_hand: side(), ours: side(), flink: side() }
    }

    /// Takes the runs of one pair in.
    ///
    /// # Errors
    /// When their checksums differ: then at least one side computes something else.
    pub fn push(&mut self, by_hand: &Run, ours: &Run, flink: Option<&Run>) -> Result<()> {
        check(self.workload.name, by_hand, ours, flink)?;
        self.by_hand.push(by_hand, self.millions);
        self.ours.push(ours, self.millions);
        if let Some(flink) = flink {
            self.flink.push(flink, self.millions);
        }
        Ok(())
    }

    /// Writes the figures, each the median of all pairs.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn report(&self, report: &Report) -> Result<()> {
        let Workload { name, unit, over_hand_written, flink_over_ours, .. } = *self.workload;
        self.ours.report(report, name, unit)?;
        let by_hand = &self.by_hand.cpu_s_per_million;
        report.runs(&format!("{name}_hand_written_cpu_seconds_per_million"), by_hand, "s")?;
        let ratios = self.ours.over(&self.by_hand);
        let metric = format!("{name}_cpu_over_hand_written");
        report.runs_with_goal(&metric, &ratios, "ratio", over_hand_written)?;
        if self.has_flink() {
            self.flink.report(report, &format!("{name}_flink"), unit)?;
            let ratios = self.flink.over(&self.ours);
            let metric = format!("{name}_flink_over_ours");
            report.runs_with_goal(&metric, &ratios, "ratio", flink_over_ours)?;
        }
        Ok(())
    }

    fn has_flink(&self) -> bool {
        !self.flink.cpu_s_per_million.is_empty()
    }

    /// The medians as a row under [`HEAD`].
    pub fn row(&self) -> String {
        let over = median(&self.ours.over(&self.by_hand));
        let mut row = format!(
            "{:<15} {:>13.5} {:>10.5} {:>20} {:>12.1} {:>9.0}",
            self.workload.name,
            median(&self.ours.cpu_s_per_million),
            median(&self.by_hand.cpu_s_per_million),
            judged(over, self.workload.over_hand_written),
            median(&self.ours.million_per_s),
            median(&self.ours.peak_mib),
        );
        if self.has_flink() {
            let cpu = median(&self.flink.cpu_s_per_million);
            let times = median(&self.flink.over(&self.ours));
            row.push_str(&format!(
                " | {cpu:>9.4} {:>20} {:>10.1} {:>9.0}",
                judged(times, self.workload.flink_over_ours),
                median(&self.flink.million_per_s),
                median(&self.flink.peak_mib),
            ));
            if !self.workload.is_flink_as_known(cpu) {
                row.push_str(
                    "  Flink's figure is not within 20 % of the known one: does not count",
                );
            }
        }
        row
    }
}

/// The figure, its goal, and `missed` where it is not reached.
fn judged(value: f64, goal: Goal) -> String {
    let missed = if goal.is_met(value) { "met" } else { "missed" };
    format!("{value:.2} ({goal}) {missed}")
}

/// Fails unless all sides have the same checksum.
///
/// # Errors
/// When they differ; the text has all of them.
pub fn check(name: &str, by_hand: &Run, ours: &Run, flink: Option<&Run>) -> Result<()> {
    let flink = flink.map_or(ours.checksum, |flink| flink.checksum);
    ensure!(
        ours.checksum == by_hand.checksum && flink == by_hand.checksum,
        "{name}: checksums differ: ours '{}', by hand '{}', Flink '{flink}'",
        ours.checksum,
        by_hand.checksum
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::Checksum;

    fn run(cpu_s: f64, sum: u64) -> Run {
        Run { cpu_s, wall_s: 2.0, peak_mib: 10.0, checksum: Checksum { count: 1, sum } }
    }

    #[test]
    fn ratios_are_those_of_each_pair_and_a_missed_goal_is_shown() {
        let mut outcome = Outcome::new(Workload::named("chain").unwrap(), 10_000_000);
        outcome.push(&run(1.0, 5), &run(2.0, 5), Some(&run(40.0, 5))).unwrap();
        let row = outcome.row();
        assert!(row.contains("2.00 (≤ 1.7) missed"), "{row}");
        assert!(row.contains("20.00 (≥ 16) met") && row.contains("does not count"), "{row}");
        assert!(row.contains("0.20000") && row.contains("5.0"), "{row}");
    }

    #[test]
    fn different_checksums_are_an_error_that_shows_them() {
        let mut outcome = Outcome::new(Workload::named("chain").unwrap(), 1);
        let error = outcome.push(&run(1.0, 5), &run(1.0, 6), None).unwrap_err().to_string();
        assert!(error.contains("1\t5") && error.contains("1\t6"), "{error}");
        assert!(outcome.push(&run(1.0, 5), &run(1.0, 5), Some(&run(1.0, 7))).is_err());
    }
}
