//! The word count of the benchmark `allocator` with the allocator below the counting one. `uncounted_words LINES` prints
//! `records<TAB>checksum`. Must be the same as `counted_words` but for the allocator.

use mimalloc::MiMalloc;
use std::process::ExitCode;

#[path = "../throughput/word_count.rs"]
pub mod word_count;
#[path = "../words.rs"]
pub mod words;
#[path = "../throughput/words_program.rs"]
pub mod words_program;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    words_program::run()
}
