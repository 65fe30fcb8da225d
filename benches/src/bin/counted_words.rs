//! The word count of the benchmark `allocator` with the allocator of all programs, which `flott` brings. `counted_words LINES`
//! prints `records<TAB>checksum`. Must be the same as `uncounted_words` but for the allocator.

use flott as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    words::run()
}
