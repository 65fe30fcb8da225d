//! The workloads as Flott programs, each from the number of records to the stream of its checksum.

use super::loops::{WINDOW_MS, first_map, is_kept, last_map};
use crate::words::{WORDS_PER_LINE, line, splitmix64};
use flott::prelude::*;
use std::time::Duration;

pub use ::words::word_count;

/// Declares the word count of [`word_count`] with words of the type `CompactString`, which need no heap.
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

/// Declares the chain: the numbers below `records` → map → filter → map → checksum.
pub fn chain(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    filtered(&mapped(env, records)).checksum()
}

/// Declares the chain of [`chain`] with a process function after the last map that hands every record on.
pub fn chain_process(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    filtered(&mapped(env, records)).process(HandOn).checksum()
}

/// Declares the chain of [`chain`] with its records dealt out to all subtasks (`rebalance`) between the first map and the filter.
pub fn shuffle(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    filtered(&mapped(env, records).rebalance()).checksum()
}

/// Declares the running count: the numbers below `records` → one of `KEYS` keys → running count → checksum of every update.
pub fn count<const KEYS: u64>(env: &Environment, records: u64) -> Stream<(u64, u64)> {
    env.sequence(0..records).key_by_value(|number| splitmix64(*number) % KEYS).count().checksum()
}

/// Declares the windows: the numbers below `records`, `PER_MS` to a millisecond of event time → one of `KEYS` keys → count of each key in
/// each window of [`WINDOW_MS`] → checksum of the counts.
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
