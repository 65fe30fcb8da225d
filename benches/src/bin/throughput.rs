//! CPU-seconds per million records of each workload, beside a hand-written loop and, where asked for, beside Flink and Renoir.
//! See `benches::throughput`.
//!
//! | metric, after the workload's name | of what |
//! |---|---|
//! | `_cpu_seconds_per_million`, `_million_per_second`, `_peak_mib` | Flott: CPU, wall rate, peak of resident memory |
//! | `_hand_written_cpu_seconds_per_million` | the loop, or for `shuffle_tcp` two processes of one thread each |
//! | `_cpu_over_hand_written` | Flott's CPU ÷ the hand-written one's, in each pair |
//! | `_flink_cpu_seconds_per_million`, `_flink_million_per_second`, `_flink_peak_mib` | Flink's TaskManagers |
//! | `_flink_over_ours` | Flink's CPU ÷ Flott's, in each pair |
//! | `_renoir_cpu_seconds_per_million`, `_renoir_million_per_second`, `_renoir_peak_mib` | Renoir's process |
//! | `_renoir_over_ours` | Renoir's CPU ÷ Flott's, in each pair; for the record, without a goal |

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Result, ensure};
use benches::Report;
use benches::throughput::flink::{self, Flink, Installed};
use benches::throughput::outcome::{self, Outcome, Pair};
use benches::throughput::renoir::{self, Renoir};
use benches::throughput::{Place, Run, WORKLOADS, Workload, by_hand, measure, ours::Ours};
use clap::{Parser, Subcommand, ValueEnum};
use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    process::Command,
};

const EXAMPLES: &str = "Examples:
  cargo xtask bench throughput
  cargo xtask bench throughput -- --workload chain --workload count_1k
  cargo xtask bench throughput -- --workload word_count_p1 --pairs 1 --records 1000000
  cargo xtask bench throughput -- --against flink --pairs 5
  cargo xtask bench throughput -- --against flink,renoir

Figures are JSON lines on standard output, a table is written to standard error. A goal that is not reached is
shown as missed and is no failure; different checksums are one.";

/// Measures CPU-seconds per million records of each workload, in turn with a hand-written loop and with other systems.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench throughput", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    role: Option<Role>,
    /// Also measure another system; it is fetched, and its job is built, when it is not there. Several are separated by
    /// commas, or the option is given several times.
    #[arg(long, value_delimiter = ',')]
    against: Vec<Peer>,
    /// Only this workload; may be given several times.
    #[arg(long = "workload", value_name = "NAME", value_parser = workload)]
    workloads: Vec<&'static Workload>,
    /// Runs of each side that are counted; one more warms up.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pairs: u64,
    /// Records (or words) of one run instead of the workload's own number. With few, start-up is part of the figures.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..))]
    records: Option<u64>,
    /// Flink's distribution; `cargo xtask` sets it.
    #[arg(long, hide = true, value_name = "DIR", requires = "peer")]
    distribution: Option<PathBuf>,
    /// The jar of the job for Flink; `cargo xtask` sets it.
    #[arg(long, hide = true, value_name = "JAR")]
    peer: Option<PathBuf>,
    /// The program for Renoir; `cargo xtask` sets it.
    #[arg(long, hide = true, value_name = "PROGRAM")]
    renoir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// Apache Flink, run from its own distribution.
    Flink,
    /// The crate Renoir.
    Renoir,
}

/// The role in which a process of the hand-written side is started.
#[derive(Debug, Subcommand)]
enum Role {
    /// Run a workload's hand-written side.
    #[command(name = by_hand::BY_HAND, hide = true)]
    ByHand {
        #[arg(value_parser = workload)]
        workload: &'static Workload,
        records: u64,
    },
    /// Be the second process of the hand-written shuffle.
    #[command(name = by_hand::SECOND_HALF, hide = true)]
    SecondHalf { records: u64, port: u16 },
}

fn workload(name: &str) -> Result<&'static Workload, String> {
    Workload::named(name).map_err(|error| error.to_string())
}

impl Cli {
    /// The workloads that are wanted in one place, in the table's order.
    fn wanted(&self, place: Place) -> Vec<&'static Workload> {
        let wants = |name: &str| {
            self.workloads.is_empty() || self.workloads.iter().any(|wanted| wanted.name == name)
        };
        WORKLOADS.iter().filter(|of| of.place == place && wants(of.name)).collect()
    }

    /// Returns Flink's distribution and job if `--against` names Flink, `None` otherwise.
    fn flink(&self) -> Result<Option<Installed>> {
        if !self.against.contains(&Peer::Flink) {
            return Ok(None);
        }
        let (Some(distribution), Some(peer)) = (self.distribution.clone(), self.peer.clone())
        else {
            anyhow::bail!("Flink is fetched by: cargo xtask bench throughput -- --against flink");
        };
        let installed = Installed { distribution, peer };
        flink::check(&installed)?;
        Ok(Some(installed))
    }

    /// Returns Renoir's program if `--against` names Renoir, `None` otherwise.
    fn renoir(&self) -> Result<Option<Renoir>> {
        if !self.against.contains(&Peer::Renoir) {
            return Ok(None);
        }
        let Some(program) = self.renoir.clone() else {
            anyhow::bail!("Renoir is built by: cargo xtask bench throughput -- --against renoir");
        };
        Ok(Some(Renoir::new(program)?))
    }
}

/// The sides of workloads in one place.
struct Sides<'a> {
    ours: Ours,
    flink: Option<Flink>,
    renoir: Option<&'a Renoir>,
}

impl Sides<'_> {
    /// Runs the workload once on each side, one side after the other.
    async fn run(&self, workload: &Workload, records: u64) -> Result<Pair> {
        let mut by_hand = Command::new(env::current_exe()?);
        by_hand.args([by_hand::BY_HAND, workload.name, records.to_string().as_str()]);
        let by_hand = measure::of_process(&mut by_hand)?;
        ensure!(by_hand.checksum.count > 0, "{}: nothing was computed", workload.name);
        let ours = self.ours.run(workload, records).await?;
        let flink = match &self.flink {
            Some(flink) => Some(flink.run(workload, records).await?),
            None => None,
        };
        let renoir = match self.renoir {
            Some(renoir) => renoir.run(workload, records)?,
            None => None,
        };
        Ok(Pair { by_hand, ours, flink, renoir })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let checksum = match cli.role {
        Some(Role::ByHand { workload, records }) => (workload.by_hand)(records)?,
        Some(Role::SecondHalf { records, port }) => by_hand::second_half(records, port)?,
        None => return measure_all(&cli).await,
    };
    Ok(writeln!(io::stdout(), "{checksum}")?)
}

async fn measure_all(cli: &Cli) -> Result<()> {
    let (installed, renoir) = (cli.flink()?, cli.renoir()?);
    let report = Report::new("throughput");
    let mut rows = Vec::new();
    for place in [Place::OneProcess, Place::TwoTaskManagers] {
        let wanted = cli.wanted(place);
        if wanted.is_empty() {
            continue;
        }
        let ours = Ours::prepare(place).await?;
        let flink = match &installed {
            Some(installed) => Some(Flink::start(installed, place).await?),
            None => None,
        };
        let sides = Sides { ours, flink, renoir: renoir.as_ref() };
        for workload in wanted {
            if let (Some(_), Some(why)) = (&renoir, renoir::reason_left_out(workload.name)) {
                eprintln!("throughput: {}: not measured with Renoir: {why}", workload.name);
            }
            let records = cli.records.unwrap_or(workload.records);
            let mut outcome = Outcome::new(workload, records);
            // The first runs warm everything up.
            for number in 0..=cli.pairs {
                let pair = sides.run(workload, records).await?;
                match number {
                    0 => pair.check(workload.name)?,
                    _ => outcome.push(&pair)?,
                }
                remark(workload, number, cli.pairs, &pair);
            }
            outcome.report(&report)?;
            rows.push(outcome.row());
        }
    }
    eprintln!("\n{}\n{}", outcome::head(installed.is_some(), renoir.is_some()), rows.join("\n"));
    Ok(())
}

fn remark(of: &Workload, number: u64, pairs: u64, pair: &Pair) {
    let counted = if number == 0 { " (not counted)" } else { "" };
    let beside = |name: &str, run: &Option<Run>| {
        run.map(|run| format!(", {name} {:.2} s", run.cpu_s)).unwrap_or_default()
    };
    eprintln!(
        "throughput: {}, pair {number} of {pairs}{counted}: CPU {:.2} s, by hand {:.2} s{}{}",
        of.name,
        pair.ours.cpu_s,
        pair.by_hand.cpu_s,
        beside("Flink", &pair.flink),
        beside("Renoir", &pair.renoir),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from([&["throughput"], args].concat())
    }

    #[test]
    fn without_arguments_all_workloads_are_measured_five_times() {
        let cli = parsed(&[]).unwrap();
        assert_eq!((cli.pairs, cli.records, cli.against.as_slice()), (5, None, &[][..]));
        let all = cli.wanted(Place::OneProcess).len() + cli.wanted(Place::TwoTaskManagers).len();
        assert_eq!(all, WORKLOADS.len());
        assert!(cli.flink().unwrap().is_none() && cli.renoir().unwrap().is_none());
    }

    #[test]
    fn peers_are_separated_by_commas_or_given_several_times() {
        let against = |args: &[&str]| parsed(args).unwrap().against;
        let both = [Peer::Flink, Peer::Renoir];
        assert_eq!(against(&["--against", "renoir"]), [Peer::Renoir]);
        assert_eq!(against(&["--against", "flink,renoir"]), both);
        assert_eq!(against(&["--against=flink", "--against", "renoir"]), both);
    }

    #[test]
    fn workloads_are_chosen_by_name_and_keep_the_order_of_the_table() {
        let cli = parsed(&["--workload", "count_1k", "--workload", "chain"]).unwrap();
        let names: Vec<_> = cli.wanted(Place::OneProcess).iter().map(|of| of.name).collect();
        assert_eq!(names, ["chain", "count_1k"]);
        assert!(cli.wanted(Place::TwoTaskManagers).is_empty());
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for wrong in [
            &["--workload", "chains"][..],
            &["--pairs", "0"],
            &["--records", "9"],
            &["--against", "spark"],
            &["--against", "renoir,spark"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
        let error = parsed(&["--against", "flink"]).unwrap().flink().unwrap_err().to_string();
        assert!(error.contains("cargo xtask bench throughput"), "{error}");
        for absent in
            [&["--against", "renoir"][..], &["--against", "renoir", "--renoir", "/absent"]]
        {
            let error = parsed(absent).unwrap().renoir().unwrap_err().to_string();
            assert!(error.contains("cargo xtask bench throughput -- --against renoir"), "{error}");
        }
    }

    #[test]
    fn the_hand_written_side_is_a_role_of_its_own() {
        let cli = parsed(&[by_hand::BY_HAND, "chain", "100"]).unwrap();
        let Some(Role::ByHand { workload, records }) = cli.role else { panic!("{cli:?}") };
        assert_eq!((workload.name, records), ("chain", 100));
        assert!(parsed(&[by_hand::SECOND_HALF, "100", "4711"]).is_ok());
    }
}
