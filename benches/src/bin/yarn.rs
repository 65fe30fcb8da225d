//! Measures on a real YARN the time from the start of the client until all tasks run, beside the
//! floor and beside Flink; what the client uploads, and what the application holds.
//!
//! | metric | of what |
//! |---|---|
//! | `yarn_running_ms` | Flott: from the start of `flott run-application -d` until REST says that all tasks run |
//! | `yarn_floor_ms` | the floor: from the start of its client until its worker's first line of code has run |
//! | `yarn_over_floor_ms` | what Flott takes longer than the floor, in each pair |
//! | `flink_running_ms`, `flink_over_ours` | Flink, and how many times as long it takes as Flott, in each pair |
//! | `uploaded_mib`, `flink_uploaded_mib` | put into HDFS by the client |
//! | `application_mib`, `application_pss_mib`, `flink_application_mib` | of the JobManager, the TaskManager and its program hosts |
//!
//! `_empty_cache` has an empty `yarn.provided.lib.dirs` for each run of both sides, other metrics have it filled. NodeManagers
//! beat every second, with `_100ms` every 100 ms. `cargo xtask bench yarn` starts the clusters.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::Result;
use benches::yarn::{Running, Yarn, flink::Flink, floor, floor::Floor, flott, flott::Flott};
use benches::{Report, cluster::binaries, median};
use clap::Parser;
use std::{path::PathBuf, time::Duration};

/// Pairs that fill the caches of the cluster and of its nodes, and are not counted.
const WARM_UP: usize = 2;
/// Runs whose memory is measured.
const MEASURED: usize = 3;
/// YARN's own, whose metrics have no ending.
const USUAL_HEARTBEAT: u32 = 1000;

/// Measures on the cluster of `HADOOP_CONF_DIR`.
#[derive(Parser)]
struct Cli {
    /// Milliseconds from one heartbeat of that cluster's NodeManagers to the next.
    #[arg(long)]
    heartbeat: u32,
    /// Pairs beside the floor, with each of the two caches.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Pairs beside Flink.
    #[arg(long, default_value_t = 5)]
    flink_pairs: usize,
    /// The command `flott`.
    #[arg(long)]
    flott: PathBuf,
    /// The unbounded program.
    #[arg(long)]
    program: PathBuf,
    /// Folder of an unpacked Flink distribution; `None` leaves Flink out.
    #[arg(long)]
    flink: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let bench = Bench {
        heartbeat: Duration::from_millis(cli.heartbeat.into()),
        report: Report::new("yarn"),
        ending: match cli.heartbeat {
            USUAL_HEARTBEAT => String::new(),
            ms => format!("_{ms}ms"),
        },
        yarn: Yarn::connect().await?,
        floor: Floor::new(&binaries()?.join("yarn_floor"), &cli.program).await?,
        flott: Flott::new(cli.flott, cli.program)?,
    };
    bench.beside_floor(cli.pairs, false).await?;
    bench.beside_floor(cli.pairs, true).await?;
    match cli.flink {
        Some(flink) if cli.flink_pairs > 0 => {
            bench.beside_flink(Flink::new(flink)?, cli.flink_pairs).await
        }
        _ => Ok(()),
    }
}

struct Bench {
    heartbeat: Duration,
    report: Report,
    /// The last part of every metric's name.
    ending: String,
    yarn: Yarn,
    floor: Floor,
    flott: Flott,
}

/// Figures of the runs of one side.
#[derive(Default)]
struct Side {
    took_ms: Vec<f64>,
    uploaded_mib: Vec<f64>,
    resident_mib: Vec<f64>,
    proportional_mib: Vec<f64>,
}

impl Side {
    /// Takes a run's figures and ends it.
    async fn take(&mut self, yarn: &Yarn, running: Running) -> Result<()> {
        self.took_ms.push(running.took_ms);
        self.uploaded_mib.push(running.uploaded_mib);
        if self.resident_mib.len() < MEASURED {
            let memory = running.memory().await?;
            self.resident_mib.push(memory.resident);
            self.proportional_mib.push(memory.proportional);
        }
        yarn.end(running).await
    }
}

impl Bench {
    async fn beside_floor(&self, pairs: usize, empty: bool) -> Result<()> {
        let (mut ours, mut floor) = (Side::default(), Side::default());
        let cache = if empty { "empty" } else { "filled" };
        for pair in 0..if empty { pairs } else { pairs + WARM_UP } {
            if empty {
                for cache in [flott::CACHE, floor::CACHE] {
                    self.yarn.remove(cache).await?;
                }
            }
            let counts = empty || pair >= WARM_UP;
            let (mut no_ours, mut no_floor) = (Side::default(), Side::default());
            let sides =
                if counts { (&mut ours, &mut floor) } else { (&mut no_ours, &mut no_floor) };
            self.spread(pair, pairs).await;
            sides.0.take(&self.yarn, self.flott.start(&self.yarn).await?).await?;
            self.spread(pair, pairs).await;
            sides.1.take(&self.yarn, self.floor.start(&self.yarn).await?).await?;
            let last = |side: &Side| side.took_ms.last().copied().unwrap_or(f64::NAN);
            let (ours, floor) = (last(sides.0), last(sides.1));
            let counted = if counts { "" } else { " (not counted)" };
            eprintln!(
                "yarn: cache {cache}, pair {} of {pairs}{counted}: {ours:.0} ms beside {floor:.0} ms",
                (pair + 1).saturating_sub(if empty { 0 } else { WARM_UP })
            );
        }
        let of_cache = |metric: &str| match empty {
            true => format!("{metric}_empty_cache"),
            false => metric.to_owned(),
        };
        let over = paired(&ours.took_ms, &floor.took_ms, |ours, floor| ours - floor);
        self.runs(&of_cache("yarn_running_ms"), &ours.took_ms, "ms")?;
        self.runs(&of_cache("yarn_floor_ms"), &floor.took_ms, "ms")?;
        self.runs(&of_cache("yarn_over_floor_ms"), &over, "ms")?;
        self.runs(&of_cache("uploaded_mib"), &ours.uploaded_mib, "MiB")?;
        self.runs(&of_cache("floor_uploaded_mib"), &floor.uploaded_mib, "MiB")?;
        if !empty {
            goal("yarn_over_floor_ms", median(&over), "≤ 150", median(&over) <= 150.0);
            self.runs("application_mib", &ours.resident_mib, "MiB")?;
            self.runs("application_pss_mib", &ours.proportional_mib, "MiB")?;
        }
        Ok(())
    }

    async fn beside_flink(&self, beside: Flink, pairs: usize) -> Result<()> {
        let (mut ours, mut flink) = (Side::default(), Side::default());
        for pair in 1..=pairs {
            self.spread(pair, pairs).await;
            ours.take(&self.yarn, self.flott.start(&self.yarn).await?).await?;
            self.spread(pair, pairs).await;
            flink.take(&self.yarn, beside.start(&self.yarn).await?).await?;
            let last = |side: &Side| side.took_ms.last().copied().unwrap_or(f64::NAN);
            let (ours, flink) = (last(&ours), last(&flink));
            eprintln!("yarn: Flink, pair {pair} of {pairs}: {ours:.0} ms beside {flink:.0} ms");
        }
        let times = paired(&ours.took_ms, &flink.took_ms, |ours, flink| flink / ours);
        self.runs("yarn_running_beside_flink_ms", &ours.took_ms, "ms")?;
        self.runs("flink_running_ms", &flink.took_ms, "ms")?;
        self.runs("flink_over_ours", &times, "")?;
        self.runs("flink_uploaded_mib", &flink.uploaded_mib, "MiB")?;
        self.runs("flink_application_mib", &flink.resident_mib, "MiB")?;
        goal("flink_over_ours", median(&times), "≥ 15, at 100 ms", median(&times) >= 15.0);
        let (ours, theirs) = (median(&ours.resident_mib), median(&flink.resident_mib));
        let fifth = format!("≤ {:.1}, a fifth of Flink's {theirs:.1}", theirs / 5.0);
        goal("application_mib", ours, &fifth, ours <= theirs / 5.0);
        Ok(())
    }

    /// Spreads the pairs evenly over the time between two heartbeats, both sides of a pair alike. An application's end is
    /// seen when a node beats: each next one would meet the same moment between two beats.
    async fn spread(&self, pair: usize, pairs: usize) {
        let part = (pair % pairs.max(1)) as f64 / pairs.max(1) as f64;
        tokio::time::sleep(self.heartbeat.mul_f64(part)).await;
    }

    fn runs(&self, metric: &str, runs: &[f64], unit: &str) -> Result<()> {
        Ok(self.report.runs(&format!("{metric}{}", self.ending), runs, unit)?)
    }
}

fn paired(ours: &[f64], others: &[f64], figure: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    ours.iter().zip(others).map(|(ours, other)| figure(*ours, *other)).collect()
}

fn goal(metric: &str, value: f64, goal: &str, met: bool) {
    let met = if met { "met" } else { "not met" };
    eprintln!("yarn: {metric} {value:.1}, goal {goal}: {met}");
}
