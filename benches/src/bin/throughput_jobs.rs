//! The program of the throughput benchmark, with one job for each workload: `RECORDS [OUTPUT]`. The job's result is
//! `records<TAB>checksum`, in the file OUTPUT or on standard output; `FLOTT_PIPELINE_ENTRY` names the job.

use std::process::ExitCode;

fn main() -> ExitCode {
    flott::run(benches::throughput::workloads::entry())
}
