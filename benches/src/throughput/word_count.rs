//! The word count as a program. This file names neither `flott` nor an allocator, so that the two programs of the benchmark
//! `allocator`, which bring allocators of their own, are made of the same text.

use crate::words::{WORDS_PER_LINE, line};
use streaming::{Environment, Stream};

/// Declares the word count: lines → owned words → key by word → running count → checksum of every update. `records` are words, ten to a
/// line; a rest below ten is left out. The stream has one record, at the end: the number of updates, and the wrapping sum of their hashes.
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
