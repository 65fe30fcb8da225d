//! Jobs are stopped with savepoints and started from them, by the commands that a user types.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::visits::{committed, write_visits};
use common::{Cluster, Numbers, bin, eventually, output_lines, program, request, succeeded};
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
        self.submit_to("out")
    }

    /// Runs `visits` as [`World::submit`] does, with its output in the folder of this name.
    fn submit_to(&self, out: &str) -> String {
        let (input, out) = (self.below("in"), self.below(out));
        let args = ["--input", input.to_str().unwrap(), "--output", out.to_str().unwrap()];
        let job = self.cluster.submit(&bin("visits"), &request(&[&args[..], &work()].concat(), 2));
        self.await_checkpoints(&job, 2);
        job
    }

    /// Starts `visits` from a savepoint with another parallelism; returns the job's id.
    fn restart(&self, savepoint: &str, parallelism: &str, more: &[&str]) -> String {
        let (input, out) = (self.below("in"), self.below("out"));
        let (program, from) =
            (program("visits"), ["run", "-d", "-s", savepoint, "-p", parallelism]);
        let args = ["--input", input.to_str().unwrap(), "--output", out.to_str().unwrap()];
        let last = [&[&*program], &args[..], &work()].concat();
        let run = self.cluster.flott(&[&from[..], more].concat(), &last);
        text(run).trim().rsplit(' ').next().unwrap().to_owned()
    }

    /// Stops a job; returns the path of its savepoint.
    fn stop(&self, job: &str) -> String {
        self.savepoint_by(&["stop"], job)
    }

    /// Runs `flott` with this command for a job; returns the path of the savepoint that the command has printed, which is in the configured
    /// folder.
    fn savepoint_by(&self, command: &[&str], job: &str) -> String {
        let printed = self.cluster.flott(&[command, &["--output", "json"]].concat(), &[job]);
        let answer: serde_json::Value = serde_json::from_str(&text(printed)).unwrap();
        assert_eq!(answer["jobid"], job);
        let savepoint = answer["savepoint"].as_str().unwrap();
        assert!(Path::new(savepoint).starts_with(self.below("savepoints")), "{savepoint}");
        assert!(Path::new(savepoint).join("_metadata").is_file(), "{savepoint}");
        savepoint.to_owned()
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
fn text(output: Output) -> String {
    String::from_utf8(succeeded(output).stdout).unwrap()
}

/// Numbers with so many keys that the sums are some 20 MiB of state, most of which come again.
const MANY: Numbers = Numbers { count: 2_000_000, rate: 100_000, keys: 900_000 };

/// A cluster that keeps the state of checkpoints where `storage` says, with a job without an interval that has read all keys once; the
/// job's id, and the path of its output.
fn with_many_keys(storage: &[(&str, &str)], folder: &Path) -> (Cluster, String, PathBuf) {
    let (savepoints, out) = (folder.join("savepoints").display().to_string(), folder.join("out"));
    let own = [("execution.checkpointing.savepoint-dir", savepoints.as_str())];
    let cluster = Cluster::start(&[&own[..], storage].concat(), 1);
    let job = cluster.sum(MANY, &out, 1);
    eventually(WITHIN, "all keys have come", || {
        let vertices = cluster.block_on(cluster.client().job(&job)).ok()?.vertices;
        vertices.iter().any(|vertex| vertex.metrics.read_records >= MANY.keys).then_some(())
    });
    (cluster, job, out)
}

#[test]
fn a_job_without_an_interval_is_stopped_and_restored_with_more_state_than_the_jobmanager_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, job, out) = with_many_keys(&[], folder.path());
    let stopped = text(cluster.flott(&["stop", "--output", "json"], &[&job]));
    let answer: serde_json::Value = serde_json::from_str(&stopped).unwrap();
    cluster.await_state(&job, "FINISHED", WITHIN);
    assert!(!out.exists(), "the data has not ended");
    let savepoint = answer["savepoint"].as_str().unwrap();
    let program = program("sequence_sum");
    let args = MANY.args(&out);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let last = [&[&*program], &args[..]].concat();
    let run = text(cluster.flott(&["run", "-d", "-s", savepoint, "-p", "1"], &last));
    let job = run.trim().rsplit(' ').next().unwrap();
    cluster.await_state(job, "FINISHED", WITHIN);
    assert_eq!(output_lines(&out), MANY.sums());
}

#[test]
fn a_job_whose_state_nobody_keeps_is_neither_stopped_nor_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let storage = [("execution.checkpointing.storage", "jobmanager")];
    let (cluster, job, out) = with_many_keys(&storage, folder.path());
    for (command, part) in [("savepoint", ""), ("stop", "the job is not stopped")] {
        let refused = cluster.flott(&[command], &[&job]);
        let why = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{command}: {why}");
        assert!(why.contains("more than the 5242880 that the JobManager keeps"), "{why}");
        assert!(why.contains(part), "{command}: {why}");
        assert_eq!(cluster.block_on(cluster.client().job_status(&job)).unwrap().status, "RUNNING");
    }
    cluster.await_state(&job, "FINISHED", WITHIN);
    assert_eq!(output_lines(&out), MANY.sums(), "no number was read twice");
    let failures = cluster.block_on(cluster.client().job_exceptions(&job)).unwrap();
    assert_eq!(failures.root_exception, None);
}

#[test]
fn a_job_is_rescaled_up_and_down_by_savepoints_and_commits_the_same() {
    let world = World::start();
    let job = world.submit();
    // The job goes on after its savepoint, and commits what comes behind it.
    let kept = world.savepoint_by(&["savepoint"], &job);
    world.cluster.await_state(&job, "RUNNING", WITHIN);
    let two = world.stop(&job);
    assert_ne!(kept, two);
    let job = world.restart(&two, "5", &[]);
    world.await_checkpoints(&job, 1);
    let five = world.stop(&job);
    let before = committed(&world.below("out")).len();
    let job = world.restart(&five, "3", &[]);
    world.cluster.await_state(&job, "FINISHED", WITHIN);
    assert!(before < world.expected.len(), "nothing was left to do for the last job");
    assert_eq!(committed(&world.below("out")), world.expected);
    for savepoint in [&kept, &two] {
        let metadata = Path::new(savepoint).join("_metadata");
        assert!(metadata.is_file(), "a savepoint is its user's");
    }
}

#[test]
fn a_claimed_savepoint_is_deleted_and_another_is_needed_no_more_after_the_first_checkpoint() {
    let world = World::start();
    let savepoint = world.stop(&world.submit());
    let job = world.restart(&savepoint, "2", &["--claim-mode", "claim"]);
    let metadata = Path::new(&savepoint).join("_metadata");
    eventually(WITHIN, "the claimed savepoint is gone", || (!metadata.exists()).then_some(()));
    let savepoint = world.stop(&job);
    let job = world.restart(&savepoint, "2", &[]);
    world.await_checkpoints(&job, 1);
    text(world.cluster.flott(&["savepoint", "dispose"], &[&savepoint]));
    let (mut cluster, folder, expected) = (world.cluster, world.folder, world.expected);
    let place = cluster.place_of_taskmanager(&job);
    cluster.replace_taskmanager(place);
    cluster.await_state(&job, "FINISHED", WITHIN);
    assert_eq!(committed(&folder.path().join("out")), expected);
}

#[test]
fn a_program_that_does_not_fit_a_savepoint_is_refused_with_its_operators() {
    let world = World::start();
    let savepoint = world.stop(&world.submit());
    let run = |name: &str, options: &[&str], args: &[&str]| {
        let program = program(name);
        let last = [&[&*program], args].concat();
        let run = world.cluster.flott(&[&["run", "-d", "-s"], options].concat(), &last);
        (run.status.code(), String::from_utf8(run.stderr).unwrap())
    };
    let input = world.below("in");
    let args = ["--input", input.to_str().unwrap()];
    let (code, words) = run("word_count", &[&savepoint], &args);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("(uid 'counts') has the"), "{words}");
    assert!(words.contains("has state in it and is not in the program"), "{words}");
    assert!(words.contains("--allowNonRestoredState"), "{words}");
    // Nothing of the refused job is left.
    let jobs = world.cluster.block_on(world.cluster.client().jobs_overview()).unwrap();
    assert_eq!(jobs.jobs.len(), 1, "{jobs:?}");
    let out = world.below("out");
    let own = [&args[..], &["--output", out.to_str().unwrap()]].concat();
    let (code, words) = run("visits", &[&savepoint, "-D", "pipeline.max-parallelism=7"], &own);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("set pipeline.max-parallelism to 128"), "{words}");
    let absent = world.below("absent");
    let (code, words) = run("visits", &[absent.to_str().unwrap()], &own);
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("there is no such folder") && !absent.exists(), "{words}");
    // The state that has no place is dropped where that is asked for: the job counts from where the lines were read to.
    let (code, words) = run("line_lengths", &[&savepoint, "-n", "--job", "lengths"], &args);
    assert_eq!(code, Some(0), "{words}");
    check_drain(&world);
}

#[test]
fn a_program_whose_keys_or_values_are_of_another_type_is_refused_before_anything_is_stopped() {
    let world = World::start();
    let args = ["--count", "100000000", "--rate", "1000", "--keys", "100"];
    let job = world.cluster.submit(&bin("sequence_sum"), &request(&args, 1));
    world.await_checkpoints(&job, 1);
    let savepoint = world.savepoint_by(&["savepoint"], &job);
    for changed in ["key", "value"] {
        let last = [&*program("other_types"), changed];
        let run = world.cluster.flott(&["run", "-d", "-s", &savepoint], &last);
        let (code, words) = (run.status.code(), String::from_utf8(run.stderr).unwrap());
        assert_eq!(code, Some(1), "{words}");
        let what = format!("the {changed} of the state '");
        for part in [&*what, "(uid 'sums') is of another type in it than in the program"] {
            assert!(words.contains(part), "{changed}: {words}");
        }
        assert_eq!(words.matches("is of another type").count(), 1, "{changed}: {words}");
    }
    // The job that is to be replaced goes on, and nothing of the refused ones is left.
    let jobs = world.cluster.block_on(world.cluster.client().jobs_overview()).unwrap();
    let states: Vec<_> = jobs.jobs.iter().map(|known| (&*known.jid, &*known.state)).collect();
    assert_eq!(states, [(&*job, "RUNNING")]);
    world.await_checkpoints(&job, 2);
}

/// Stops a job with `--drain` while it has open windows. They fire and are committed with what they have counted so far; a job that was
/// stopped without it has committed whole windows only.
fn check_drain(world: &World) {
    let partial = |out: &str| {
        let lines = committed(&world.below(out));
        lines.into_iter().filter(|line| !world.expected.contains(line)).count()
    };
    assert_eq!(partial("out"), 0, "of the job that was stopped without --drain");
    let job = world.submit_to("drained");
    world.savepoint_by(&["stop", "--drain"], &job);
    world.cluster.await_state(&job, "FINISHED", WITHIN);
    assert!(partial("drained") > 0, "{:?}", committed(&world.below("drained")));
}
