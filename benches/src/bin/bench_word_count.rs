//! Word count with every update, embedded and with parallelism 1, against a single-threaded loop with the same hash map,
//! hasher, allocator and owned strings. Both run as processes of their own, in turn; their checksums must be equal.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result, ensure};
use benches::Report;
use benches::cluster::binaries;
use benches::throughput::{loops, measure};
use benches::words::WORDS_PER_LINE;
use std::io::Write;
use std::{env, io, process::Command};

const LINES: u64 = 1_000_000;
const RUNS: usize = 5;
/// The argument that makes this process the loop.
const LOOP: &str = "--loop";

fn main() -> Result<()> {
    let mut args = env::args().skip(1);
    if args.next().as_deref() == Some(LOOP) {
        let lines: u64 = args.next().context("how many lines?")?.parse()?;
        writeln!(io::stdout(), "{}", loops::word_count(lines * WORDS_PER_LINE))?;
        return Ok(());
    }
    let report = Report::new("word_count");
    let million_words = (LINES * WORDS_PER_LINE) as f64 / 1e6;
    let (mut ours, mut hand, mut ratios) = (vec![], vec![], vec![]);
    for run in 0..=RUNS {
        let lines = LINES.to_string();
        let mut hand_loop = Command::new(env::current_exe()?);
        let by_hand = measure::of_process(hand_loop.args([LOOP, lines.as_str()]))?;
        let mut program = Command::new(binaries()?.join("splitmix_words"));
        let our = measure::of_process(program.arg(&lines))?;
        ensure!(
            our.checksum == by_hand.checksum,
            "the job gave '{}', the loop '{}'",
            our.checksum,
            by_hand.checksum
        );
        let (our_cpu, hand_cpu) = (our.cpu_s, by_hand.cpu_s);
        eprintln!("word_count: run {run} of {RUNS}: {our_cpu:.3} s against {hand_cpu:.3} s of CPU");
        // The first run warms the machine up.
        if run > 0 {
            ours.push(our_cpu / million_words);
            hand.push(hand_cpu / million_words);
            ratios.push(our_cpu / hand_cpu);
        }
    }
    report.runs("cpu_seconds_per_million_words", &ours, "s")?;
    report.runs("hand_written_cpu_seconds_per_million_words", &hand, "s")?;
    report.runs("cpu_over_hand_written", &ratios, "ratio")?;
    Ok(())
}
