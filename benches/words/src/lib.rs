//! The word count that benchmarks measure: its text, its job, and the job as a whole program.
//!
//! This crate must depend neither on `flott` nor on an allocator. The two programs of the benchmark `allocator`, which
//! have different allocators, link the same machine code from here: compiled into each of them, the job's functions would
//! be inlined differently, which costs more than what is measured.

pub mod text;

use std::{error::Error, process::ExitCode};
use streaming::{Args, Environment, ProgramEntry, Stream};
use text::{WORDS_PER_LINE, line};

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

/// Runs the calling process as a program, in the role in which it was started. Its job counts the words of as many lines as its argument
/// says, and prints `records<TAB>checksum`. Returns the process's exit code.
pub fn run() -> ExitCode {
    streaming::program_note::mark();
    deploy::program_main(ProgramEntry::new().job("words", count))
}

fn count(env: &Environment, args: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lines: u64 = args.get(0).ok_or("how many lines?")?.parse()?;
    word_count(env, lines * WORDS_PER_LINE).collect();
    Ok(())
}
