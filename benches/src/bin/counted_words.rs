//! The word count of the benchmark `allocator` with the allocator of all programs. `counted_words LINES` prints
//! `records<TAB>checksum`. Must be the same as `uncounted_words` but for the allocator.

use mimalloc::MiMalloc;
use std::process::ExitCode;
use streaming::memory::allocator::Counting;

#[path = "../throughput/word_count.rs"]
pub mod word_count;
#[path = "../words.rs"]
pub mod words;
#[path = "../throughput/words_program.rs"]
pub mod words_program;

#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

fn main() -> ExitCode {
    words_program::run()
}
