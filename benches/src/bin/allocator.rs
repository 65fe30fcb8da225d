//! The cost of counting what a program allocates: the word count of `cargo xtask bench word_count` with the allocator that
//! programs have (`Counting` over mimalloc), against the same program with mimalloc alone. Both run as processes of their
//! own, in pairs; every other pair begins with the other side. Their checksums must be equal.
//!
//! `allocator [--pairs N] [--lines N]`.
//!
//! | metric | of what |
//! |---|---|
//! | `counted_cpu_seconds_per_million_words` | CPU-seconds of the program as it is shipped, start-up included |
//! | `uncounted_cpu_seconds_per_million_words` | the same with mimalloc alone |
//! | `counted_over_uncounted` | the first ÷ the second of each pair |
//!
//! What the exchange adds for each batch that changes hands, `hand_over` and `take_over`, is in both.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Result, ensure};
use benches::Report;
use benches::cluster::binaries;
use benches::report::Goal;
use benches::throughput::{Run, measure};
use benches::words::WORDS_PER_LINE;
use clap::Parser;
use std::process::Command;

/// The programs: the one that counts, and the one that does not.
const SIDES: [&str; 2] = ["counted_words", "uncounted_words"];

#[derive(Parser)]
#[command(name = "cargo xtask bench allocator")]
struct Cli {
    /// Number of pairs that are measured, after one that warms the machine up.
    #[arg(long, default_value_t = 11)]
    pairs: u32,
    /// Number of lines of ten words; a run of the default takes some five seconds, so that pairs differ by a few hundredths only.
    #[arg(long, default_value_t = 6_000_000)]
    lines: u64,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let million_words = (cli.lines * WORDS_PER_LINE) as f64 / 1e6;
    let (mut counted, mut uncounted, mut ratios) = (vec![], vec![], vec![]);
    for pair in 0..=cli.pairs {
        let [with, without] = runs(cli.lines, pair % 2 == 1)?;
        ensure!(
            with.checksum == without.checksum,
            "one gave '{}', the other '{}'",
            with.checksum,
            without.checksum
        );
        let (with, without) = (with.cpu_s, without.cpu_s);
        eprintln!(
            "allocator: pair {pair} of {}: {with:.3} s against {without:.3} s of CPU",
            cli.pairs
        );
        if pair > 0 {
            counted.push(with / million_words);
            uncounted.push(without / million_words);
            ratios.push(with / without);
        }
    }
    let report = Report::new("allocator");
    report.runs("counted_cpu_seconds_per_million_words", &counted, "s")?;
    report.runs("uncounted_cpu_seconds_per_million_words", &uncounted, "s")?;
    report.runs_with_goal("counted_over_uncounted", &ratios, "ratio", Goal::AtMost(1.02))?;
    Ok(())
}

/// Runs both sides one after the other; returns the one that counts first.
fn runs(lines: u64, counted_last: bool) -> Result<[Run; 2]> {
    let of = |program: &str| {
        measure::of_process(Command::new(binaries()?.join(program)).arg(lines.to_string()))
    };
    let [counted, uncounted] = SIDES;
    if counted_last {
        let without = of(uncounted)?;
        return Ok([of(counted)?, without]);
    }
    Ok([of(counted)?, of(uncounted)?])
}
