//! The word count of the benchmark `allocator` with the allocator of all programs. `counted_words LINES` prints
//! `records<TAB>checksum`. Must be the same as `uncounted_words` but for the allocator.

use mimalloc::MiMalloc;
use std::{error::Error, process::ExitCode};
use streaming::memory::allocator::Counting;
use streaming::{Args, Environment, ProgramEntry};

// The library of the benchmarks brings `flott`, and with it its allocator.
#[path = "../throughput/word_count.rs"]
pub mod word_count;
#[path = "../words.rs"]
pub mod words;

#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

fn main() -> ExitCode {
    streaming::program_note::mark();
    deploy::program_main(ProgramEntry::new().job("words", count))
}

fn count(env: &Environment, args: Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let lines: u64 = args.get(0).ok_or("how many lines?")?.parse()?;
    word_count::word_count(env, lines * words::WORDS_PER_LINE).collect();
    Ok(())
}
