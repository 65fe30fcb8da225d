//! The workloads as Flott programs, each from the number of records to the stream of its checksum.

use super::loops::{WINDOW_MS, first_map, is_kept, last_map};
use crate::words::{WORDS_PER_LINE, line, splitmix64};
use flott::prelude::*;
use std::time::Duration;

/// Lines → owned words → key by word → running count → every update. `records` are words.
pub fn word_count(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    env.sequence(0..records / WORDS_PER_LINE)
        .map(line)
        .flat_map(|line: String, out| {
            out.collect_all(line.split_ascii_whitespace().map(str::to_owned));
        })
        .key_by(|word| word)
        .count()
        .checksum()
}

/// The word count with words that need no heap.
pub fn word_count_text(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    env.sequence(0..records / WORDS_PER_LINE)
        .map(line)
        .flat_map(|line: String, out| {
            out.collect_all(line.split_ascii_whitespace().map(CompactString::new));
        })
        .key_by(|word| word)
        .count()
        .checksum()
}

fn mapped(env: &Environment, records: u64) -> Stream<u64> {
    env.sequence(0..records).map(first_map)
}

fn filtered(numbers: &Stream<u64>) -> Stream<u64> {
    numbers.filter(|number| is_kept(*number)).map(last_map)
}

/// Map → filter → map, chained.
pub fn chain(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    filtered(&mapped(env, records)).checksum()
}

/// The chain, and a process function that hands every record on.
pub fn chain_process(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    filtered(&mapped(env, records)).process(HandOn).checksum()
}

/// The chain with its records dealt out to all subtasks before the filter.
pub fn shuffle(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    filtered(&mapped(env, records).rebalance()).checksum()
}

/// Numbers → key of `KEYS` → running count → every update.
pub fn count<const KEYS: u64>(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    env.sequence(0..records).key_by_value(|number| splitmix64(*number) % KEYS).count().checksum()
}

/// Numbers, `PER_MS` to a millisecond of event time → key of `KEYS` → count of each key in each window of [`WINDOW_MS`].
pub fn window<const KEYS: u64, const PER_MS: u64>(
    env: &Environment,
    records: u64,
) -> Stream<(u64, u64)> {
    let times = WatermarkStrategy::for_monotonous_timestamps(|number: &u64| {
        i64::try_from(*number / PER_MS).unwrap_or(i64::MAX)
    });
    env.sequence(0..records)
        .assign_timestamps_and_watermarks(times)
        .key_by_value(|number| splitmix64(*number) % KEYS)
        .window(TumblingEventTimeWindows::of(Duration::from_millis(WINDOW_MS)))
        .count()
        .checksum()
}

/// Emits each record unchanged.
#[derive(Clone)]
struct HandOn;

impl ProcessFunction<u64> for HandOn {
    type Out = u64;
    fn process(&mut self, record: u64, out: &mut Collector<u64>) -> Result<()> {
        out.collect(record);
        Ok(())
    }
}
