//! The table of workloads: a further one is one entry here, a program in [`programs`] and a loop in [`loops`]; for
//! Flink and Renoir it is a case of the same name in `benches/peers/flink` and `benches/peers/renoir`.

use super::{Checksum, by_hand, loops, programs};
use crate::report::Goal;
use anyhow::{Context, Result};
use flott::prelude::{Args, Environment, ProgramEntry, Stream};

/// The place where a workload's tasks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// One process: the program by itself, for Flink one TaskManager with two slots.
    OneProcess,
    /// Two TaskManagers with one slot each, in processes of their own on this machine.
    TwoTaskManagers,
}

/// One workload, which Flott's program, a hand-written loop, Flink and mostly Renoir run with the same checksum: its size, its code, and
/// the goals for the comparison.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    /// Name of the workload, of its job, and first part of its metrics' names; unique.
    pub name: &'static str,
    /// Unit that is counted: words or records.
    pub unit: &'static str,
    /// Number of words or records in one run, unless the command line sets another.
    pub records: u64,
    /// Number of subtasks of every operator of the program.
    pub parallelism: u32,
    /// Place where the tasks run, for all systems.
    pub place: Place,
    /// Declares the job of that many words or records, and returns the stream of its checksum: count and sum.
    pub program: fn(&Environment, u64) -> Stream<(u64, u64)>,
    /// Computes the same without Flott's runtime, single-threaded (`shuffle_tcp` with a second process), for that many words or records.
    pub by_hand: fn(u64) -> Result<Checksum>,
    /// Goal of the CPU time of Flott's program ÷ that of the hand-written one, as the median over all pairs; a missed goal is only shown.
    pub over_hand_written: Goal,
    /// Goal of Flink's CPU time ÷ that of Flott's program.
    pub flink_over_ours: Goal,
    /// Flink's CPU-seconds per million on a quiet machine, lowest and highest, where they were measured before. The ratio beside Flink
    /// counts when the run's figure is within 20 % of them, else the row remarks that it does not; with `None` it always does.
    pub flink_known: Option<(f64, f64)>,
}

const MILLION: u64 = 1_000_000;
/// Records of a millisecond of event time, where records have one.
const PER_MS: u64 = 1_000;

/// All workloads, in the order in which they run.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        flink_known: Some((0.31, 0.31)),
        ..words("word_count_p1", 1, Goal::AtMost(1.4), Goal::AtLeast(3.2))
    },
    words("word_count_p2", 2, Goal::AtMost(1.9), Goal::AtLeast(2.2)),
    Workload {
        program: programs::word_count_text,
        flink_known: Some((0.31, 0.31)),
        ..words("word_count_text", 1, Goal::AtMost(0.75), Goal::AtLeast(6.0))
    },
    Workload {
        flink_known: Some((0.033, 0.040)),
        ..numbers("chain", 400 * MILLION, programs::chain, 1.7, 16.0)
    },
    numbers("chain_process", 300 * MILLION, programs::chain_process, 2.4, 11.0),
    Workload {
        by_hand: |records| Ok(loops::count::<1_000>(records)),
        ..numbers("count_1k", 60 * MILLION, programs::count::<1_000>, 3.0, 12.0)
    },
    Workload {
        by_hand: |records| Ok(loops::count::<MILLION>(records)),
        ..numbers("count_1m", 30 * MILLION, programs::count::<MILLION>, 1.0, 12.0)
    },
    Workload {
        by_hand: |records| Ok(loops::window::<1_000, PER_MS>(records)),
        flink_known: Some((0.34, 0.34)),
        ..numbers("window_1k", 60 * MILLION, programs::window::<1_000, PER_MS>, 2.0, 20.0)
    },
    Workload {
        by_hand: |records| Ok(loops::window::<MILLION, PER_MS>(records)),
        flink_known: Some((2.0, 2.0)),
        ..numbers("window_1m", 30 * MILLION, programs::window::<MILLION, PER_MS>, 1.5, 25.0)
    },
    Workload {
        parallelism: 2,
        flink_known: Some((0.084, 0.084)),
        ..numbers("shuffle_local", 200 * MILLION, programs::shuffle, 6.0, 12.0)
    },
    Workload {
        parallelism: 2,
        place: Place::TwoTaskManagers,
        by_hand: by_hand::shuffle_tcp,
        flink_known: Some((0.22, 0.22)),
        ..numbers("shuffle_tcp", 100 * MILLION, programs::shuffle, 1.6, 15.0)
    },
];

const fn words(name: &'static str, parallelism: u32, by_hand: Goal, flink: Goal) -> Workload {
    Workload {
        name,
        unit: "words",
        records: 10 * MILLION,
        parallelism,
        place: Place::OneProcess,
        program: programs::word_count,
        by_hand: |records| Ok(loops::word_count(records)),
        over_hand_written: by_hand,
        flink_over_ours: flink,
        flink_known: None,
    }
}

/// A workload on numbers with the loop of the chain, parallelism 1, in one process.
const fn numbers(
    name: &'static str,
    records: u64,
    program: fn(&Environment, u64) -> Stream<(u64, u64)>,
    by_hand: f64,
    flink: f64,
) -> Workload {
    Workload {
        name,
        unit: "records",
        records,
        parallelism: 1,
        place: Place::OneProcess,
        program,
        by_hand: |records| Ok(loops::chain(records)),
        over_hand_written: Goal::AtMost(by_hand),
        flink_over_ours: Goal::AtLeast(flink),
        flink_known: None,
    }
}

impl Workload {
    /// Returns the workload of that name from [`WORKLOADS`].
    ///
    /// # Errors
    /// When there is none of that name; the text names all.
    pub fn named(name: &str) -> Result<&'static Self> {
        let known = || WORKLOADS.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        let found = WORKLOADS.iter().find(|workload| workload.name == name);
        found.with_context(|| format!("there is no workload '{name}'; there are {}", known()))
    }

    /// Declares the job: `RECORDS [OUTPUT]`. The checksum is written to the file OUTPUT, without it given to the client.
    fn declare(&self, env: &Environment, args: &Args) -> flott::Result<()> {
        let records: u64 = args.get(0).ok_or("how many records?")?.parse()?;
        env.set_parallelism(self.parallelism);
        let checksum = (self.program)(env, records);
        match args.get(1) {
            Some(path) => checksum.write_text(path),
            None => checksum.collect(),
        };
        Ok(())
    }

    /// Returns true if Flink's CPU-seconds per million are within 20 % of `flink_known`, or nothing is known there.
    pub fn is_flink_as_known(&self, cpu_seconds_per_million: f64) -> bool {
        self.flink_known.is_none_or(|(lowest, highest)| {
            (lowest * 0.8..=highest * 1.2).contains(&cpu_seconds_per_million)
        })
    }
}

/// Returns the program with one job for each workload, under the workload's name. A job's arguments are the number of records and, if
/// wanted, a file for the checksum; without the file the client gets it.
pub fn entry() -> ProgramEntry {
    WORKLOADS.iter().fold(ProgramEntry::new(), |entry, workload| {
        entry.job(workload.name, |env: &Environment, args: Args| workload.declare(env, &args))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ContentHash, JobId};
    use std::collections::{BTreeMap, BTreeSet};
    use streaming::{BuildInputs, build, harness::Harness};

    /// Runs the workload's job in this thread.
    fn checksum(workload: &'static Workload, records: u64) -> Checksum {
        let inputs = BuildInputs {
            args: vec![records.to_string()],
            env: None,
            once: None,
            job: Some(workload.name.to_owned()),
            job_id: JobId(1),
            parallelism: 1,
            options: BTreeMap::new(),
            defaults: BTreeMap::new(),
            embedded: false,
            program_hash: ContentHash([1; 32]),
            program_name: "throughput_jobs".into(),
            program_size: 1,
        };
        let entry = ProgramEntry::new()
            .job(workload.name, |env: &Environment, args: Args| workload.declare(env, &args));
        let job = build(&entry, inputs).unwrap();
        let parallelism = job.graph().vertices.iter().map(|vertex| vertex.parallelism).max();
        assert_eq!(parallelism, Some(workload.parallelism), "{}", workload.name);
        let folder = tempfile::tempdir().unwrap();
        let collected = Harness::new(folder.path()).run(&job).unwrap().collected.concat();
        let [line] = collected.as_slice() else { panic!("{}: {collected:?}", workload.name) };
        String::from_utf8(line.clone()).unwrap().parse().unwrap()
    }

    #[test]
    fn every_program_has_the_checksum_of_its_loop() {
        for workload in WORKLOADS.iter().filter(|of| of.place == Place::OneProcess) {
            for records in [10, 20_000] {
                let by_hand = (workload.by_hand)(records).unwrap();
                assert!(by_hand.count > 0, "{}", workload.name);
                assert_eq!(checksum(workload, records), by_hand, "{} {records}", workload.name);
            }
        }
    }

    #[test]
    fn a_job_of_several_windows_has_the_checksum_of_its_loop() {
        // A record a millisecond: 5,000 records are a window.
        static WINDOWS: Workload = Workload {
            by_hand: |records| Ok(loops::window::<100, 1>(records)),
            ..numbers("windows", 0, programs::window::<100, 1>, 2.0, 20.0)
        };
        for (records, windows) in [(5_000, 1), (5_001, 2), (17_000, 4)] {
            let by_hand = (WINDOWS.by_hand)(records).unwrap();
            assert!(by_hand.count > (windows - 1) * 100 && by_hand.count <= windows * 100);
            assert_eq!(checksum(&WINDOWS, records), by_hand, "{records}");
        }
    }

    #[test]
    fn the_shuffle_has_the_checksum_of_the_chain_wherever_it_runs() {
        let tcp = Workload::named("shuffle_tcp").unwrap();
        assert_eq!(checksum(tcp, 20_000), loops::chain(20_000));
    }

    #[test]
    fn names_are_unique_and_an_unknown_one_lists_them() {
        let names: BTreeSet<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        assert_eq!(names.len(), WORKLOADS.len());
        let error = Workload::named("chains").unwrap_err().to_string();
        assert!(names.iter().all(|name| error.contains(name)), "{error}");
    }

    #[test]
    fn a_ratio_beside_flink_counts_only_near_the_known_figure() {
        let chain = Workload::named("chain").unwrap();
        assert!(chain.is_flink_as_known(0.027) && chain.is_flink_as_known(0.047));
        assert!(!chain.is_flink_as_known(0.026) && !chain.is_flink_as_known(0.049));
        assert!(Workload::named("count_1k").unwrap().is_flink_as_known(7.0));
    }
}
