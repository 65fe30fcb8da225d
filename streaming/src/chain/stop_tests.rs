//! A job that is stopped before the end of its data.

use crate::harness::{Harness, Outcome};
use proptest::prelude::*;

const RECORDS: u64 = 20_000;

/// Runs a job of three vertices that is stopped after that number of steps.
fn stopped(steps: u64, drain: bool, serialize: bool) -> Outcome {
    let job = crate::api::tests::built(2, |env| {
        let numbers = env.sequence(0..RECORDS);
        numbers.rebalance().map(|n| n).set_parallelism(3).checksum().collect();
        numbers.map(|n| n % 10).key_by(|n| n).at_end().count().checksum().collect();
    });
    let tmp = tempfile::tempdir().unwrap();
    let mut harness = Harness::new(tmp.path()).channel_batches(2).budget(100);
    if serialize {
        harness = harness.serialize();
    }
    harness.stop_after(steps, drain).run(&job).unwrap()
}

/// The number of records in a line of a checksum.
fn count(line: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(line);
    text.split('\t').next().and_then(|count| count.parse().ok()).expect("a count")
}

/// The number of records that the sources have emitted, over all of their outputs.
fn read(outcome: &Outcome) -> u64 {
    outcome.records.iter().filter(|(chain, _)| chain.contains("sequence")).map(|(_, r)| r.1).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Wherever it is stopped: with draining the operators emit what they hold, for exactly the records that were read; without,
    /// they emit nothing. Either way all tasks finish, and all of them are in the checkpoint.
    #[test]
    fn a_drained_job_emits_what_it_holds_and_a_stopped_one_nothing(
        steps in 1_u64..40, drain: bool, serialize: bool,
    ) {
        let outcome = stopped(steps, drain, serialize);
        prop_assert_eq!(outcome.acknowledged.len() as u64, 1);
        let counts = outcome.collected.iter().map(|lines| lines.iter().map(|line| count(line)).sum());
        let counts: Vec<u64> = counts.collect();
        prop_assert!(read(&outcome) < 2 * RECORDS, "it was stopped before the end");
        prop_assert!(steps < 20 || read(&outcome) > 0);
        if drain {
            prop_assert_eq!(counts[0], read(&outcome) / 2, "each record goes to two outputs");
            prop_assert_eq!(counts[1] > 0, read(&outcome) > 0);
        } else {
            prop_assert_eq!(counts, [0, 0]);
            prop_assert!(outcome.collected.iter().all(Vec::is_empty));
        }
    }
}
