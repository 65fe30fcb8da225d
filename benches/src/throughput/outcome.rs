//! The figures of one workload: collected pair by pair, reported as JSON lines, and shown as a row for people.

use super::{Run, Workload};
use crate::report::{Goal, Report, median};
use anyhow::{Result, ensure};

/// Returns the head of the table of [`Outcome::row`], with the columns of Flink and Renoir only where they are measured.
pub fn head(flink: bool, renoir: bool) -> String {
    let mut head =
        "workload        CPU-s/million    by hand  ÷ by hand (goal)      million/s  peak MiB"
            .to_owned();
    if flink {
        head.push_str(" |     Flink  Flink ÷ ours (goal)  million/s  peak MiB");
    }
    if renoir {
        head.push_str(" |    Renoir        Renoir ÷ ours  million/s  peak MiB");
    }
    head
}

/// One run of each side of a workload (two to four), made one after the other, so that their ratio is of the same time on the machine.
#[derive(Debug)]
pub struct Pair {
    /// The run of the hand-written loop.
    pub by_hand: Run,
    /// The run of Flott's program.
    pub ours: Run,
    /// The run of Flink's job; `None` if Flink is not measured.
    pub flink: Option<Run>,
    /// The run of Renoir's program; `None` if Renoir is not measured or leaves the workload out.
    pub renoir: Option<Run>,
}

impl Pair {
    /// Checks that all sides have the same checksum; `name` is the workload's, for the error.
    ///
    /// # Errors
    /// When checksums differ: then at least one side computes something else. The text has the checksums of all sides.
    pub fn check(&self, name: &str) -> Result<()> {
        let peers = [("Flink", &self.flink), ("Renoir", &self.renoir)];
        let peers = peers.into_iter().filter_map(|(side, run)| Some((side, run.as_ref()?)));
        let sides: Vec<(&str, &Run)> =
            [("ours", &self.ours), ("by hand", &self.by_hand)].into_iter().chain(peers).collect();
        let shown = |(side, run): &(&str, &Run)| format!("{side} '{}'", run.checksum);
        ensure!(
            sides.iter().all(|(_, run)| run.checksum == self.by_hand.checksum),
            "{name}: checksums differ: {}",
            sides.iter().map(shown).collect::<Vec<_>>().join(", ")
        );
        Ok(())
    }
}

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

    fn is_measured(&self) -> bool {
        !self.cpu_s_per_million.is_empty()
    }

    /// Returns the CPU of this side ÷ that of the other, in each pair.
    fn over(&self, other: &Self) -> Vec<f64> {
        let pairs = self.cpu_s_per_million.iter().zip(&other.cpu_s_per_million);
        pairs.map(|(cpu, other)| cpu / other).collect()
    }

    /// Returns the medians of a peer as columns of a row, with its ratio as text.
    fn columns(&self, ratio: &str) -> String {
        format!(
            " | {:>9.4} {ratio:>20} {:>10.1} {:>9.0}",
            median(&self.cpu_s_per_million),
            median(&self.million_per_s),
            median(&self.peak_mib),
        )
    }

    fn report(&self, report: &Report, name: &str, unit: &str) -> Result<()> {
        let rate = format!("million {unit}/s");
        report.runs(&format!("{name}_cpu_seconds_per_million"), &self.cpu_s_per_million, "s")?;
        report.runs(&format!("{name}_million_per_second"), &self.million_per_s, &rate)?;
        report.runs(&format!("{name}_peak_mib"), &self.peak_mib, "MiB")?;
        Ok(())
    }
}

/// The figures of all pairs of one workload, by side: CPU-seconds per million, million per second, and peak memory in MiB.
#[derive(Debug)]
pub struct Outcome {
    workload: &'static Workload,
    millions: f64,
    by_hand: Side,
    ours: Side,
    flink: Side,
    renoir: Side,
}

impl Outcome {
    /// Makes an outcome without any pair; each pair must have run so many words or records, by which its figures are divided.
    pub fn new(workload: &'static Workload, records: u64) -> Self {
        let millions = records as f64 / 1e6;
        let side = Side::default;
        let (by_hand, ours, flink, renoir) = (side(), side(), side(), side());
        Self { workload, millions, by_hand, ours, flink, renoir }
    }

    /// Adds the figures of one pair.
    ///
    /// # Errors
    /// When the checksums of its sides differ; then nothing is added.
    pub fn push(&mut self, pair: &Pair) -> Result<()> {
        pair.check(self.workload.name)?;
        self.by_hand.push(&pair.by_hand, self.millions);
        self.ours.push(&pair.ours, self.millions);
        for (side, run) in [(&mut self.flink, &pair.flink), (&mut self.renoir, &pair.renoir)] {
            if let Some(run) = run {
                side.push(run, self.millions);
            }
        }
        Ok(())
    }

    /// Prints the figures as JSON lines, each the median of all pairs with the runs beside it: Flott's, the hand-written loop's CPU, the
    /// ratios with their goals, and those of the peers that were measured.
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
        if self.flink.is_measured() {
            self.flink.report(report, &format!("{name}_flink"), unit)?;
            let ratios = self.flink.over(&self.ours);
            let metric = format!("{name}_flink_over_ours");
            report.runs_with_goal(&metric, &ratios, "ratio", flink_over_ours)?;
        }
        if self.renoir.is_measured() {
            self.renoir.report(report, &format!("{name}_renoir"), unit)?;
            let ratios = self.renoir.over(&self.ours);
            report.runs(&format!("{name}_renoir_over_ours"), &ratios, "ratio")?;
        }
        Ok(())
    }

    /// Returns the medians as a row under [`head`], with the goals, whether each is met or missed, and a remark if Flink's figure is not
    /// near the known one.
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
        let mut remark = "";
        if self.flink.is_measured() {
            let times = median(&self.flink.over(&self.ours));
            row.push_str(&self.flink.columns(&judged(times, self.workload.flink_over_ours)));
            if !self.workload.is_flink_as_known(median(&self.flink.cpu_s_per_million)) {
                remark = "  Flink's figure is not within 20 % of the known one: does not count";
            }
        }
        if self.renoir.is_measured() {
            let times = median(&self.renoir.over(&self.ours));
            row.push_str(&self.renoir.columns(&format!("{times:.2}")));
        }
        row.push_str(remark);
        row
    }
}

/// The figure, its goal, and `missed` where it is not reached.
fn judged(value: f64, goal: Goal) -> String {
    let missed = if goal.is_met(value) { "met" } else { "missed" };
    format!("{value:.2} ({goal}) {missed}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throughput::Checksum;

    fn run(cpu_s: f64, sum: u64) -> Run {
        Run { cpu_s, wall_s: 2.0, peak_mib: 10.0, checksum: Checksum { count: 1, sum } }
    }

    fn pair(by_hand: Run, ours: Run) -> Pair {
        Pair { by_hand, ours, flink: None, renoir: None }
    }

    #[test]
    fn ratios_are_those_of_each_pair_and_a_missed_goal_is_shown() {
        let mut outcome = Outcome::new(Workload::named("chain").unwrap(), 10_000_000);
        let flink = Some(run(40.0, 5));
        outcome.push(&Pair { flink, ..pair(run(1.0, 5), run(2.0, 5)) }).unwrap();
        let row = outcome.row();
        assert!(row.contains("2.00 (≤ 1.7) missed"), "{row}");
        assert!(row.contains("20.00 (≥ 16) met") && row.contains("does not count"), "{row}");
        assert!(row.contains("0.20000") && row.contains("5.0"), "{row}");
    }

    #[test]
    fn a_peer_without_a_goal_has_its_ratio_alone_behind_flink() {
        let mut outcome = Outcome::new(Workload::named("chain").unwrap(), 10_000_000);
        let renoir = Some(run(3.0, 5));
        outcome.push(&Pair { renoir, ..pair(run(1.0, 5), run(2.0, 5)) }).unwrap();
        let row = outcome.row();
        let (ours, renoir) = row.split_once(" | ").unwrap();
        assert!(ours.contains("met") || ours.contains("missed"), "{row}");
        let columns: Vec<&str> = renoir.split_whitespace().collect();
        assert_eq!(columns, ["0.3000", "1.50", "5.0", "10"], "{row}");
        assert!(head(true, true).find("Flink") < head(true, true).find("Renoir"));
        assert!(!head(false, true).contains("Flink") && !head(false, false).contains('|'));
    }

    #[test]
    fn different_checksums_are_an_error_that_shows_them() {
        let mut outcome = Outcome::new(Workload::named("chain").unwrap(), 1);
        let error = outcome.push(&pair(run(1.0, 5), run(1.0, 6))).unwrap_err().to_string();
        assert!(error.contains("1\t5") && error.contains("1\t6"), "{error}");
        let same = || pair(run(1.0, 5), run(1.0, 5));
        let other = || Some(run(1.0, 7));
        let error = Pair { flink: other(), ..same() }.check("chain").unwrap_err().to_string();
        assert!(error.contains("Flink '1\t7'") && !error.contains("Renoir"), "{error}");
        let error = outcome.push(&Pair { renoir: other(), ..same() }).unwrap_err().to_string();
        assert!(error.contains("Renoir '1\t7'"), "{error}");
    }
}
