//! The program of the benchmarks of jobs that do not end; see `benches::continuous`.

use std::process::ExitCode;

fn main() -> ExitCode {
    flott::run(benches::continuous::jobs::entry())
}
