//! The word count of the benchmark `allocator` with the allocator below the counting one. `uncounted_words LINES` prints
//! `records<TAB>checksum`. Must be the same as `counted_words` but for the allocator.

use mimalloc::MiMalloc;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    words::run()
}
