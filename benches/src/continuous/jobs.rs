//! The program with all jobs, and of these `latency`, `state` and `slow`.

use super::{cancelled, histogram::Histogram, now_unix_ns, write_whole};
use crate::words::splitmix64;
use flott::prelude::*;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use streaming::operators::BoxError;

/// Keys of the latency job.
const KEYS: u64 = 10_000;
/// Keys of the job with state, and bytes of each one's state: 100 MiB.
const STATE_KEYS: u64 = 102_400;
const STATE_BYTES: usize = 1_024;
/// Updates per second of the job with state, once every key has its state.
const UPDATES: f64 = 5_000.0;
/// Keys that get their state with one number of the source, at the beginning.
const FILL: u64 = 50;
/// The job `latency` measures the latency of one of so many records: a look at the clock takes longer than the job needs for a record.
pub const SAMPLED: u64 = 16;
/// Nanoseconds between two files of a histogram.
const MARK_EVERY: u64 = 1_000_000_000;

/// A key, and when its record was due, in nanoseconds since 1970.
type Due = (u64, u64);

/// Gives numbers of a sequence with a rate the times at which they are due.
///
/// The first number of a subtask is due when the source begins, which is the millisecond in which the first number comes; from
/// then on the rate decides, whether the job keeps up or not.
#[derive(Clone)]
struct Schedule {
    /// Nanoseconds from one number to the next, over all subtasks; 0 if numbers are due when they come.
    every: f64,
    /// Time at which record number 0 was due.
    began: Option<u64>,
}

impl ProcessFunction<u64> for Schedule {
    type Out = Due;
    fn process(&mut self, n: u64, out: &mut Collector<Due>) -> Result<(), BoxError> {
        let key = splitmix64(n) % KEYS;
        if self.every == 0.0 {
            out.collect((key, 0));
            return Ok(());
        }
        let after = (n as f64 * self.every) as u64;
        let began = *self.began.get_or_insert_with(|| {
            let now = now_unix_ns();
            (now - now % 1_000_000).saturating_sub(after)
        });
        out.collect((key, began + after));
        Ok(())
    }
}

/// Counts how late records come, and writes the counts down every second.
#[derive(Clone)]
struct Latencies {
    folder: PathBuf,
    subtask: u32,
    histogram: Histogram,
    records: u64,
    /// Time of the first record, and of the last writing of the counts.
    first: u64,
    marked: u64,
    /// Nanoseconds after the first record from which on records count.
    warm_up: u64,
}

impl ProcessFunction<(u64, u64)> for Latencies {
    type Out = u64;
    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        self.subtask = context.subtask();
        Ok(())
    }
    fn process(&mut self, (_, due): (u64, u64), _: &mut Collector<u64>) -> Result<(), BoxError> {
        self.records += 1;
        // With and without times alike, so that half of the top rate is half of what the measured job can take.
        if !self.records.is_multiple_of(SAMPLED) {
            return Ok(());
        }
        let now = now_unix_ns();
        if self.first == 0 {
            (self.first, self.marked) = (now, now);
        }
        if due > 0 && due >= self.first + self.warm_up {
            self.histogram.add(now.saturating_sub(due));
        }
        if now - self.marked >= MARK_EVERY {
            self.marked = now;
            let text = format!("{now} {}\n{}", self.records, self.histogram.to_text());
            write_whole(&self.folder.join(format!("latencies-{}", self.subtask)), &text)?;
        }
        Ok(())
    }
}

/// Returns an argument as a number.
pub(super) fn number(args: &Args, index: usize) -> flott::Result<f64> {
    Ok(args.get(index).ok_or("an argument is missing")?.parse()?)
}

/// Returns the first argument as a folder.
pub(super) fn folder(args: &Args) -> flott::Result<PathBuf> {
    Ok(Path::new(args.get(0).ok_or("which folder?")?).to_owned())
}

/// `FOLDER RATE WARM_UP_S`: rate-limited source → key → running count → sink; rate 0: as fast as possible.
fn latency(env: &Environment, args: &Args) -> flott::Result<()> {
    let (folder, rate, warm_up_s) = (folder(args)?, number(args, 1)?, number(args, 2)?);
    let numbers = match rate > 0.0 {
        true => env.sequence_with_rate(0.., rate),
        false => env.sequence(0..u64::MAX),
    };
    let every = if rate > 0.0 { 1e9 / rate } else { 0.0 };
    numbers
        .uid("numbers")
        .process(Schedule { every, began: None })
        .key_by(|due: &Due| &due.0)
        .flat_map_with_state("count", |_, (_, due), count: &mut Option<u64>, out| {
            let count = count.get_or_insert(0);
            *count += 1;
            out.collect((*count, due));
        })
        .uid("count")
        .process(Latencies {
            folder,
            subtask: 0,
            histogram: Histogram::default(),
            records: 0,
            first: 0,
            marked: 0,
            warm_up: (warm_up_s * 1e9) as u64,
        })
        .discard();
    Ok(())
}

/// Writes down when each attempt was opened (`opened-SUBTASK-NS`), and when its first record came (`first-SUBTASK-NS`).
#[derive(Clone)]
pub(super) struct First {
    folder: PathBuf,
    subtask: u32,
    seen: bool,
}

impl First {
    /// Makes the function that writes its marks into this folder.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, subtask: 0, seen: false }
    }

    fn mark(&self, name: &str) -> Result<(), BoxError> {
        let now = now_unix_ns();
        let name = format!("{name}-{}-{now}", self.subtask);
        Ok(write_whole(&self.folder.join(name), &now.to_string())?)
    }
}

impl ProcessFunction<u64> for First {
    type Out = u64;
    fn open(&mut self, context: &OperatorContext) -> Result<(), BoxError> {
        self.subtask = context.subtask();
        self.mark("opened")
    }
    fn process(&mut self, _: u64, _: &mut Collector<u64>) -> Result<(), BoxError> {
        if !std::mem::replace(&mut self.seen, true) {
            self.mark("first")?;
        }
        Ok(())
    }
}

/// `FOLDER`: every key gets a kibibyte of state, then keys are updated at a constant rate.
fn state(env: &Environment, args: &Args) -> flott::Result<()> {
    let folder = folder(args)?;
    env.sequence_with_rate(0.., UPDATES)
        .uid("numbers")
        .flat_map(|n: u64, out| match n < STATE_KEYS / FILL {
            true => out.collect_all(n * FILL..(n + 1) * FILL),
            false => out.collect(splitmix64(n) % STATE_KEYS),
        })
        .key_by_value(|key| *key)
        .flat_map_with_state("body", |key, _, body: &mut Option<(u64, Vec<u8>)>, out| {
            let word = |i: u64| splitmix64(*key + i * STATE_KEYS).to_le_bytes();
            let (updates, _) = body
                .get_or_insert_with(|| (0, (0..STATE_BYTES as u64 / 8).flat_map(word).collect()));
            *updates += 1;
            out.collect(*updates);
        })
        .uid("body")
        .process(First::new(folder))
        .discard();
    Ok(())
}

/// `MICROS`: producers as fast as they can → one consumer that works so long on each record.
fn slow(env: &Environment, args: &Args) -> flott::Result<()> {
    let each = Duration::from_micros(number(args, 0)? as u64);
    env.sequence(0..u64::MAX)
        .uid("numbers")
        .rebalance()
        .map(move |n: u64| {
            std::thread::sleep(each);
            n
        })
        .set_parallelism(1)
        .discard();
    Ok(())
}

/// Returns the program with the jobs `latency` (arguments: folder, records per second, seconds of warm-up), `state` (folder), `slow`
/// (microseconds for each record), `slow_map` (folder, milliseconds for each record) and `stalled` (none). Those with a folder write marks
/// into it: histograms of latencies, times of first records. With 0 records per second `latency` runs as fast as possible, and counts
/// records but no latencies.
pub fn entry() -> ProgramEntry {
    ProgramEntry::new()
        .job("latency", |env: &Environment, args: Args| latency(env, &args))
        .job("state", |env: &Environment, args: Args| state(env, &args))
        .job("slow", |env: &Environment, args: Args| slow(env, &args))
        .job("slow_map", |env: &Environment, args: Args| cancelled::slow_map(env, &args))
        .job("stalled", |env: &Environment, _: Args| cancelled::stalled(env))
}
