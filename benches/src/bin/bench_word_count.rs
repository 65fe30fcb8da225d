//! Word count with every update, embedded and with parallelism 1, against a single-threaded loop with the same hash map,
//! hasher, allocator and owned strings. Both run as processes of their own, in turn; their checksums must be equal.

#![expect(clippy::print_stderr, reason = "progress is for people; figures go to standard output")]

use anyhow::{Context, Result, ensure};
use benches::cluster::binaries;
use benches::words::{WORDS_PER_LINE, line};
use benches::{Report, cpu_of_children};
use flott::types::key_hash;
use hashbrown::{HashTable, hash_table::Entry};
use std::{env, process::Command};

const LINES: u64 = 1_000_000;
const RUNS: usize = 5;
/// The argument that makes this process the loop.
const LOOP: &str = "--loop";

fn main() -> Result<()> {
    let mut args = env::args().skip(1);
    if args.next().as_deref() == Some(LOOP) {
        let lines = args.next().context("how many lines?")?.parse()?;
        eprintln!("{}", hand_written(lines));
        return Ok(());
    }
    let report = Report::new("word_count");
    let million_words = (LINES * WORDS_PER_LINE) as f64 / 1e6;
    let (mut ours, mut hand, mut ratios) = (vec![], vec![], vec![]);
    for run in 0..=RUNS {
        let lines = LINES.to_string();
        let mut hand_loop = Command::new(env::current_exe()?);
        let (hand_cpu, expected) = cpu_of(hand_loop.args([LOOP, lines.as_str()]))?;
        let mut program = Command::new(binaries()?.join("splitmix_words"));
        let (our_cpu, result) = cpu_of(program.arg(&lines))?;
        ensure!(result == expected, "the job gave '{result}', the loop '{expected}'");
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

/// CPU seconds of a process, start to end, and the last line it wrote.
fn cpu_of(command: &mut Command) -> Result<(f64, String)> {
    let before = cpu_of_children();
    let output = command.output().with_context(|| format!("{command:?} can't be started"))?;
    let cpu = (cpu_of_children() - before).0;
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?} failed: {error}");
    let text = if out.trim().is_empty() { error } else { out };
    Ok((cpu, text.lines().next_back().unwrap_or_default().to_owned()))
}

/// One owned string and one clone per word, one table, one hash of every update.
fn hand_written(lines: u64) -> String {
    let mut counts: HashTable<(String, u64)> = HashTable::new();
    let (mut records, mut sum) = (0_u64, 0_u64);
    for number in 0..lines {
        for word in line(number).split_ascii_whitespace() {
            let word = word.to_owned();
            let hash = key_hash(&word);
            let entry = match counts.entry(hash, |(key, _)| *key == word, |(key, _)| key_hash(key))
            {
                Entry::Occupied(mut entry) => {
                    entry.get_mut().1 += 1;
                    entry
                }
                Entry::Vacant(entry) => entry.insert((word, 1)),
            };
            let (key, count) = entry.get();
            let update = (key.clone(), *count);
            records += 1;
            sum = sum.wrapping_add(key_hash(&update));
        }
    }
    format!("{records}\t{sum}")
}
