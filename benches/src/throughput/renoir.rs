//! Renoir's side of a workload: the program of `benches/peers/renoir`, which `cargo xtask` builds, in a process of its own
//! for each run.
//!
//! Renoir must never be a dependency of the workspace: its licence and one of its dependencies are not allowed there.

use super::measure::{self, Run};
use super::{Place, Workload};
use anyhow::{Result, ensure};
use std::{path::PathBuf, process::Command};

/// Workloads that Renoir does not run, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("word_count_text", "it is word_count_p1 with a record type of Flott's"),
    ("chain_process", "Renoir has no process functions"),
    ("shuffle_tcp", "Renoir starts its other processes by SSH"),
];

/// Returns why Renoir does not run the workload of that name, `None` if it does.
pub fn reason_left_out(name: &str) -> Option<&'static str> {
    LEFT_OUT.iter().find(|(left_out, _)| *left_out == name).map(|(_, why)| *why)
}

/// Renoir's side of the workloads (Renoir is a Rust library for data streams, with which Flott is compared): the program with all
/// workloads that Renoir runs, started anew for each run.
#[derive(Debug)]
pub struct Renoir {
    program: PathBuf,
}

impl Renoir {
    /// Takes the path of the program; starts nothing.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn new(program: PathBuf) -> Result<Self> {
        ensure!(
            program.is_file(),
            "{} is absent; it is built by: cargo xtask bench throughput -- --against renoir",
            program.display()
        );
        Ok(Self { program })
    }

    /// Runs the workload once, with as many threads for each of Renoir's blocks as the workload has subtasks. CPU, duration and memory are
    /// those of the process from start to end, without a time limit. Returns `None`, without starting one, if the workload is left out
    /// ([`reason_left_out`]).
    ///
    /// # Errors
    /// When the program cannot be started, fails, or prints no checksum, or the workload is for two TaskManagers and not left out.
    pub fn run(&self, workload: &Workload, records: u64) -> Result<Option<Run>> {
        if reason_left_out(workload.name).is_some() {
            return Ok(None);
        }
        ensure!(
            workload.place == Place::OneProcess,
            "{}: Renoir runs in one process; name the workload among those that are left out in {}",
            workload.name,
            file!()
        );
        measure::of_process(&mut self.command(workload, records)).map(Some)
    }

    fn command(&self, workload: &Workload, records: u64) -> Command {
        let mut program = Command::new(&self.program);
        program.args([workload.name, &records.to_string(), &workload.parallelism.to_string()]);
        program
    }
}

/// The hash of the program's records.
#[cfg(test)]
#[path = "../../peers/renoir/src/key_hash.rs"]
mod key_hash;

#[cfg(test)]
mod tests {
    use super::key_hash::KeyHash;
    use super::*;
    use crate::throughput::WORKLOADS;
    use std::fs;

    #[test]
    fn the_copied_hash_is_the_original() {
        // Fixed values: the original and its copy must not change together either.
        assert_eq!(42_u64.key_hash(), 0xe5da_51ae_fc51_5b10);
        assert_eq!((7_u64, 3_u64).key_hash(), 0xdd1d_40bd_3a0b_5fb0);
        assert_eq!(("w4711".to_owned(), 3_u64).key_hash(), 0xf480_f8d0_f29c_f76c);
        for number in [0, 1, 7, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(number.key_hash(), flott::types::key_hash(&number), "{number}");
            let counted = (number, number.wrapping_add(1));
            assert_eq!(counted.key_hash(), flott::types::key_hash(&counted), "{number}");
        }
        for length in 0..40 {
            let word: String = ('!'..'~').cycle().skip(length).take(length).collect();
            let counted = (word, length as u64);
            assert_eq!(counted.key_hash(), flott::types::key_hash(&counted), "{counted:?}");
        }
    }

    #[test]
    fn what_is_left_out_are_workloads_and_all_of_two_taskmanagers() {
        for (name, _) in LEFT_OUT {
            Workload::named(name).unwrap();
        }
        for workload in WORKLOADS.iter().filter(|of| of.place == Place::TwoTaskManagers) {
            assert!(reason_left_out(workload.name).is_some(), "{}", workload.name);
        }
        assert_eq!(reason_left_out("chain"), None);
    }

    #[test]
    fn the_program_is_told_workload_records_and_parallelism() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("renoir-peer");
        let error = Renoir::new(program.clone()).unwrap_err().to_string();
        assert!(error.contains("cargo xtask bench throughput -- --against renoir"), "{error}");
        fs::write(&program, "").unwrap();
        let renoir = Renoir::new(program).unwrap();
        let command = renoir.command(Workload::named("shuffle_local").unwrap(), 100);
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["shuffle_local", "100", "2"]);
    }

    #[test]
    fn a_workload_that_is_left_out_starts_no_process() {
        let program = PathBuf::from("/absent");
        let run =
            |name: &str| Renoir { program: program.clone() }.run(Workload::named(name).unwrap(), 1);
        assert_eq!(run("chain_process").unwrap(), None);
        assert!(run("chain").unwrap_err().to_string().contains("/absent"));
    }
}
