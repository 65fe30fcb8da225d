//! The two programs of the benchmark `allocator`, but for their allocators: each has this file in a crate of its own, because the library of the
//! benchmarks brings `flott`, and with it its allocator. The crate must have `word_count.rs` and `words.rs` at its root.

use crate::{word_count::word_count, words::WORDS_PER_LINE};
use std::{error::Error, process::ExitCode};
use streaming::{Args, Environment, ProgramEntry};

/// Runs the program in the role in which it was started. Its job counts the words of as many lines as its argument says, and prints
/// `records<TAB>checksum`.
pub fn run() -> ExitCode {
    streaming::program_note::mark();
    deploy::program_main(ProgramEntry::new().job("words", count))
}

fn count(env: &Environment, args: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lines: u64 = args.get(0).ok_or("how many lines?")?.parse()?;
    word_count(env, lines * WORDS_PER_LINE).collect();
    Ok(())
}
