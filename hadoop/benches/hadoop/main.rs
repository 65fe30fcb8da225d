//! How fast a program of this library is beside Hadoop's own, on a cluster of `cargo xtask yarn up` that
//! nobody else uses: `cargo xtask bench hadoop`. One JSON line per figure on standard output, medians with
//! their runs; remarks for people go to standard error. Nothing is asserted.
//!
//! | metric | what it is |
//! |---|---|
//! | `first_call_ms` | the example `yarn-nodes`, from its start to its end: nodes and queues listed |
//! | `yarn_cli_ms`, `yarn_cli_over_ours` | `yarn node -list` the same way, and the ratio |
//! | `report_calls_per_cpu_s`, `java_report_calls_per_cpu_s`, `report_calls_over_java` | `getApplicationReport` by eight callers at a time, calls for each second of the client's CPU time, both warm |
//! | `*_one_by_one` | the same by one caller |
//! | `container_start_ms`, `container_start_over_floor` | from the ask to the first line of a worker that came through HDFS, against the floor; on warm NodeManagers that beat every second, as YARN has it where nobody says otherwise |
//! | `container_floor_ms` | of the same containers, by the daemons' logs: the wait for a NodeManager's heartbeat, and from the node's start request to its files being there |
//! | `container_start_over_daemons` | the same against all that the daemons' logs tell: until the node begins to launch it |
//! | `container_*_ms` | the parts of it |
//! | `container_*_100ms` | all of these with NodeManagers that beat every 100 ms: so soon one of ten nodes beats that beat every second |
//! | `allocate_daemon_cpu_us`, `allocate_us` | what a question of an ApplicationMaster costs the ResourceManager's process, and how long it takes |
//! | `idle_mib` | resident memory of the example `distributed-shell` as ApplicationMaster of 100 containers |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a benchmark fails loudly, speaks on its standard output and reads the clock"
)]

mod cluster;
mod first_call;
mod idle;
mod polls;
mod reports;
mod start;
mod unmanaged;

use std::error::Error;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Minimum number of runs for each figure.
const RUNS: usize = 5;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let only = match args[..] {
        ["worker", address] => return start::worker(address),
        ["--only", part] => Some(part),
        [] => None,
        _ => return Err("usage: hadoop [--only first_call|reports|start|polls|idle]".into()),
    };
    let wanted = |part| only.is_none_or(|only| only == part);
    runtime.block_on(async {
        if wanted("first_call") {
            first_call::run()?;
        }
        if wanted("reports") {
            reports::run().await?;
        }
        if wanted("start") {
            start::run().await?;
        }
        if wanted("polls") {
            polls::run().await?;
        }
        if wanted("idle") {
            idle::run().await?;
        }
        Ok(())
    })
}

/// Prints a figure: the median of its runs, and the runs.
fn report(metric: &str, unit: &str, runs: &[f64]) -> f64 {
    let value = median(runs);
    let runs: Vec<String> = runs.iter().map(|run| format!("{run:.3}")).collect();
    let runs = runs.join(",");
    println!(
        "{{\"bench\":\"hadoop\",\"metric\":\"{metric}\",\"value\":{value:.3},\"unit\":\"{unit}\",\"runs\":[{runs}]}}"
    );
    value
}

/// Prints a figure that is made of others.
fn ratio(metric: &str, value: f64) {
    println!(
        "{{\"bench\":\"hadoop\",\"metric\":\"{metric}\",\"value\":{value:.3},\"unit\":\"1\"}}"
    );
}

fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
}
