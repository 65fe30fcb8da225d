//! Jobs are stopped with savepoints and started from them, by the commands that a user types.

#![allow(clippy::indexing_slicing, reason = "functions of tests")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and measures real time"
)]

mod common;

use common::visits::{committed, write_visits};
use common::{Cluster, bin, eventually, request};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use tempfile::TempDir;

const WITHIN: Duration = Duration::from_secs(120);

/// A cluster, the input of `visits`, and the lines that the job has to commit.
struct World {
    cluster: Cluster,
    folder: TempDir,
    expected: Vec<String>,
}

impl World {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &str| folder.path().join(name).display().to_string();
        let (checkpoints, savepoints) = (below("checkpoints"), below("savepoints"));
        let options = [
            ("execution.checkpointing.interval", "100ms"),
            ("execution.checkpointing.dir", checkpoints.as_str()),
            ("execution.checkpointing.savepoint-dir", savepoints.as_str()),
            // Everything but the smallest state goes through files.
            ("execution.checkpointing.data-inline-threshold", "64"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.delay", "50ms"),
            ("taskmanager.numberOfTaskSlots", "3"),
        ];
        let expected = write_visits(&folder.path().join("in"), &mut ChaCha8Rng::seed_from_u64(1));
        Self { cluster: Cluster::start(&options, 2), folder, expected }
    }

    fn below(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `visits` until it is stopped; returns the job's id.
    fn submit(&self) -> String {
        let (input, out) = (self.below("in"), self.below("out"));
        let args = ["--input", input.to_str().unwrap(), "--output", out.to_str().unwrap()];
        let job = self.cluster.submit(&bin("visits"), &request(&[&args[..], &work()].concat(), 2));
        self.await_checkpoints(&job, 2);
        job
    }

    /// Starts `visits` from a savepoint with another parallelism; returns the job's id.
    fn restart(&self, savepoint: &str, parallelism: &str, more: &[&str]) -> String {
        let (input, out) = (self.below("in"), self.below("out"));
        let (program, from) = (bin("visits"), ["run", "-d", "-s", savepoint, "-p", parallelism]);
        let args = ["--input", input.to_str().unwrap(), "--output", out.to_str().unwrap()];
        let last = [&[program.to_str().unwrap()], &args[..], &work()].concat();
        let run = self.cluster.flott(&[&from[..], more].concat(), &last);
        text(&run).trim().rsplit(' ').next().unwrap().to_owned()
    }

    /// Stops a job; returns the path of its savepoint.
    fn stop(&self, job: &str) -> String {
        let stopped = self.cluster.flott(&["stop", "--output", "json"], &[job]);
        let answer: serde_json::Value = serde_json::from_str(&text(&stopped)).unwrap();
        answer["savepoint"].as_str().unwrap().to_owned()
    }

    fn await_checkpoints(&self, job: &str, count: u64) {
        let client = self.cluster.client();
        eventually(WITHIN, "checkpoints", || {
            let report = self.cluster.block_on(client.checkpoints(job)).ok()?;
            (report.counts.completed >= count).then_some(())
        });
    }
}

/// Arguments that make the job last for some seconds.
fn work() -> [&'static str; 2] {
    ["--work", if cfg!(debug_assertions) { "20000" } else { "400000" }]
}

/// Returns what a command has printed.
fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_job_is_rescaled_up_and_down_by_savepoints_and_commits_the_same() {
    let world = World::start();
    let two = world.stop(&world.submit());
    let job = world.restart(&two, "5", &[]);
    world.await_checkpoints(&job, 1);
    let five = world.stop(&job);
    let before = committed(&world.below("out")).len();
    let job = world.restart(&five, "3", &[]);
    world.cluster.await_state(&job, "FINISHED", WITHIN);
    assert!(before < world.expected.len(), "nothing was left to do for the last job");
    assert_eq!(committed(&world.below("out")), world.expected);
    assert!(Path::new(&two).join("_metadata").is_file(), "a savepoint is its user's");
}
