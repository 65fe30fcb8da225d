//! A job with checkpoints is killed again and again; what it has committed in the end is what an undisturbed run commits.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::visits::{committed, write_visits};
use common::{Cluster, Numbers, Process, bin, eventually, ha, output_lines, request};
use model::StateHandle;
use nix::sys::signal::Signal;
use platform::Platform;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};
use storage::{objects::S3Settings, state_reader::StateReader};
use tests::chaos::points::{self, Point};

const WITHIN: Duration = Duration::from_secs(120);

struct Run {
    cluster: Cluster,
    job: String,
    out: PathBuf,
    expected: Vec<String>,
    random: ChaCha8Rng,
    data: tempfile::TempDir,
}

impl Run {
    fn start(seed: u64, more: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = folder.path().join("checkpoints").display().to_string();
        let mut options = vec![
            ("execution.checkpointing.interval", "100ms"),
            ("execution.checkpointing.dir", checkpoints.as_str()),
            // Everything but the smallest state goes through files.
            ("execution.checkpointing.data-inline-threshold", "64"),
            ("restart-strategy.type", "fixed-delay"),
            ("restart-strategy.fixed-delay.attempts", "1000"),
            ("restart-strategy.fixed-delay.delay", "50ms"),
            ("taskmanager.numberOfTaskSlots", "2"),
        ];
        options.retain(|(key, _)| more.iter().all(|(other, _)| key != other));
        options.extend_from_slice(more);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let expected = write_visits(&folder.path().join("in"), &mut random);
        let cluster = Cluster::start(&options, 3);
        let (input, out) = (folder.path().join("in"), folder.path().join("out"));
        let work = if cfg!(debug_assertions) { "20000" } else { "400000" };
        let args =
            ["--input", input.to_str().unwrap(), "--output", out.to_str().unwrap(), "--work", work];
        let job = cluster.submit(&bin("visits"), &request(&args, 2));
        Self { cluster, job, out, expected, random, data: folder }
    }

    /// Returns the number of checkpoints that the JobManagers have completed so far.
    fn checkpoints(logs: &[&Process]) -> usize {
        logs.iter().map(|process| process.log().matches("checkpoint complete").count()).sum()
    }

    /// Returns the longest pauses in microseconds that each complete checkpoint has made in a task, as the JobManager has logged them.
    fn pauses_us(&self) -> Vec<u64> {
        let log = self.cluster.jobmanager.as_ref().unwrap().log();
        let complete = log.lines().filter(|line| line.contains("checkpoint complete"));
        let pause = |line: &str| {
            let digits = line.split("pause_us=").nth(1).unwrap_or_else(|| panic!("{line}"));
            digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        complete.map(pause).collect()
    }

    fn await_checkpoints(&self, more: usize) {
        let jobmanager = self.cluster.jobmanager.as_ref().unwrap();
        let before = Self::checkpoints(&[jobmanager]);
        eventually(WITHIN, "checkpoints", || {
            let ended = self.status() == "FINISHED";
            (ended || Self::checkpoints(&[jobmanager]) >= before + more).then_some(())
        });
    }

    fn status(&self) -> String {
        let status = self.cluster.block_on(self.cluster.client().job_status(&self.job));
        status.map(|status| status.status).unwrap_or_default()
    }

    fn assert_exact(&self, seed: u64) {
        self.cluster.await_state(&self.job, "FINISHED", WITHIN);
        assert_eq!(committed(&self.out), self.expected, "seed {seed}");
    }
}

/// Changes the last byte of each state object of the newest checkpoint of the only job below `checkpoints`, once only the two that
/// are kept are there. Returns the number of the checkpoint before.
///
/// The JobManager deletes a checkpoint that is no longer kept beside its other work, so a third one may still be there when the
/// newest is complete. What an aborted checkpoint leaves is no checkpoint: it has no metadata.
fn damage_newest(checkpoints: &Path) -> u64 {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let number = |path: &PathBuf| -> Option<u64> {
        let number = path.file_name()?.to_str()?.strip_prefix("chk-")?.parse().ok()?;
        let mut files = std::fs::read_dir(path).ok()?.flatten();
        let complete =
            files.any(|file| file.file_name().to_string_lossy().starts_with("_metadata"));
        complete.then_some(number)
    };
    let [job] = list(checkpoints).try_into().unwrap();
    let [before, newest] = eventually(WITHIN, "only the two checkpoints that are kept", || {
        let mut numbers: Vec<u64> = list(&job).iter().filter_map(number).collect();
        numbers.sort_unstable();
        <[u64; 2]>::try_from(numbers).ok()
    });
    let mut damaged = 0;
    for path in list(&job.join(format!("chk-{newest}"))) {
        if !path.to_string_lossy().contains("_metadata") {
            let mut bytes = std::fs::read(&path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            std::fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0, "checkpoint {newest} has no object");
    before
}

fn seeds() -> impl Iterator<Item = u64> {
    let count = std::env::var("EXACTLY_ONCE_SEEDS").ok().and_then(|count| count.parse().ok());
    1..=count.unwrap_or(3)
}

#[test]
fn killed_taskmanagers_change_nothing_in_what_is_committed() {
    let mut pauses = Vec::new();
    for seed in seeds() {
        let mut run = Run::start(seed, &[]);
        let mut kills = 0;
        while kills < 4 && run.status() != "FINISHED" {
            let more = run.random.random_range(0..4);
            run.await_checkpoints(more);
            let place = run.random.random_range(0..3);
            run.cluster.replace_taskmanager(place);
            kills += 1;
        }
        run.assert_exact(seed);
        let done = Run::checkpoints(&[run.cluster.jobmanager.as_ref().unwrap()]);
        eprintln!("seed {seed}: {kills} TaskManagers killed, {done} checkpoints");
        assert!(kills >= 2 && done >= 3, "seed {seed}: {kills} kills, {done} checkpoints");
        pauses.extend(run.pauses_us());
    }
    pauses.sort_unstable();
    let ms = |place: usize| pauses[place] as f64 / 1_000.0;
    let (n, last) = (pauses.len(), pauses.len() - 1);
    eprintln!(
        "longest pause of a task in each of {n} checkpoints: median {} ms, 99 % {} ms, longest {} ms",
        ms(last / 2),
        ms(last * 99 / 100),
        ms(last)
    );
    assert!(pauses.iter().any(|pause| *pause > 0), "no pause is measured");
}

/// Returns true if an object of a state is in the folder of an older checkpoint than all that are complete and kept.
fn refers_to_older(job: &Path) -> bool {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("chk-")?.parse().ok();
    let mut files: Vec<(u64, bool)> = Vec::new();
    for folder in std::fs::read_dir(job).into_iter().flatten().flatten() {
        let Some(number) = number(&folder.path()) else { continue };
        for file in std::fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            files.push((number, file.file_name().to_string_lossy().starts_with("_metadata")));
        }
    }
    let complete = files.iter().filter(|(_, is_metadata)| *is_metadata).map(|(n, _)| *n).min();
    let older = |complete| files.iter().any(|(n, is_metadata)| *n + 1 < complete && !is_metadata);
    complete.is_some_and(older)
}

#[test]
fn incremental_checkpoints_refer_to_older_files_and_a_job_goes_on_from_them() {
    const NUMBERS: Numbers = Numbers { count: 320_000, rate: 30_000, keys: 40_000 };
    let folder = tempfile::tempdir().unwrap();
    let (checkpoints, out) = (folder.path().join("checkpoints"), folder.path().join("sums"));
    let options = [
        ("execution.checkpointing.interval", "200ms"),
        ("execution.checkpointing.dir", checkpoints.to_str().unwrap()),
        ("pipeline.auto-generate-uids", "true"),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1000"),
        ("restart-strategy.fixed-delay.delay", "50ms"),
    ];
    let mut cluster = Cluster::start(&options, 2);
    let job = cluster.sum(NUMBERS, &out, 1);
    let counts = |cluster: &Cluster| {
        let client = cluster.client();
        cluster.block_on(client.checkpoints(&job)).map(|report| report.counts).ok()
    };
    for restores in 1..=2 {
        let before = counts(&cluster).map_or(0, |counts| counts.completed);
        eventually(WITHIN, "checkpoints that refer to older files", || {
            let more = counts(&cluster)?.completed >= before + 3;
            (more && refers_to_older(&checkpoints.join(&job))).then_some(())
        });
        let place = cluster.place_of_taskmanager(&job);
        cluster.replace_taskmanager(place);
        eventually(WITHIN, "the job goes on from a checkpoint", || {
            (counts(&cluster)?.restored >= restores).then_some(())
        });
        cluster.await_state(&job, "RUNNING", WITHIN);
    }
    cluster.await_state(&job, "FINISHED", WITHIN);
    let (lines, expected) = (output_lines(&out), NUMBERS.sums());
    assert!(lines == expected, "{} lines, {} expected", lines.len(), expected.len());
    let restored = cluster.jobmanager.as_ref().unwrap().log();
    assert!(restored.matches("checkpoint complete").count() > 5);
    assert!(!checkpoints.join(&job).join("chk-1").exists(), "what nothing refers to is deleted");
}

/// Returns the files of state to which both complete checkpoints of the only job below `checkpoints` refer, once only the two that are
/// kept are there: others are deleted beside other work.
fn shared_files(cluster: &Cluster, checkpoints: &Path) -> BTreeSet<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let is_complete = |folder: &PathBuf| {
        let is_metadata = |path: &PathBuf| path.to_string_lossy().contains("_metadata");
        folder.to_string_lossy().contains("/chk-") && list(folder).iter().any(is_metadata)
    };
    let [job] = list(checkpoints).try_into().unwrap();
    let kept = eventually(WITHIN, "only the two checkpoints that are kept", || {
        let complete: Vec<PathBuf> = list(&job).into_iter().filter(is_complete).collect();
        <[PathBuf; 2]>::try_from(complete).ok()
    });
    let reader = StateReader::new(None, Platform::production(), S3Settings::default());
    let [one, other] = kept.map(|folder| -> BTreeSet<PathBuf> {
        let snapshot = reader.snapshot(folder.to_str().unwrap());
        let mut metadata = cluster.block_on(snapshot).unwrap().metadata;
        let places = metadata.states_mut().flat_map(|state| state.places());
        let files = places.filter_map(|place| match place {
            StateHandle::External { uri, .. } => {
                Some(uri.strip_prefix("file://").unwrap_or(uri).into())
            }
            _ => None,
        });
        files.collect()
    });
    &one & &other
}

#[test]
fn a_job_all_of_whose_checkpoints_share_a_damaged_file_fails_with_the_name_of_the_file() {
    const NUMBERS: Numbers = Numbers { count: 100_000_000, rate: 1_000, keys: 4_000 };
    let folder = tempfile::tempdir().unwrap();
    let (checkpoints, out) = (folder.path().join("checkpoints"), folder.path().join("sums"));
    let options = [
        ("execution.checkpointing.interval", "200ms"),
        ("execution.checkpointing.dir", checkpoints.to_str().unwrap()),
        ("execution.checkpointing.num-retained", "2"),
        ("execution.checkpointing.fallback", "true"),
        ("execution.checkpointing.incremental", "true"),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "6"),
        // Time to damage the file before it is read.
        ("restart-strategy.fixed-delay.delay", "2s"),
    ];
    let mut cluster = Cluster::start(&options, 2);
    let job = cluster.sum(NUMBERS, &out, 1);
    let client = cluster.client();
    let counts = |cluster: &Cluster| {
        cluster.block_on(client.checkpoints(&job)).map(|report| report.counts).ok()
    };
    let shared = loop {
        let before = counts(&cluster).map_or(0, |counts| counts.completed);
        eventually(WITHIN, "checkpoints that refer to older files", || {
            let more = counts(&cluster)?.completed >= before + 8;
            (more && refers_to_older(&checkpoints.join(&job))).then_some(())
        });
        let place = cluster.place_of_taskmanager(&job);
        cluster.replace_taskmanager(place);
        cluster.await_state(&job, "RESTARTING", WITHIN);
        eventually(WITHIN, "no checkpoint is being recorded", || {
            (counts(&cluster)?.in_progress == 0).then_some(())
        });
        let shared = shared_files(&cluster, &checkpoints);
        if !shared.is_empty() {
            break shared;
        }
        // The newest one happens to be full.
        cluster.await_state(&job, "RUNNING", WITHIN);
    };
    for path in &shared {
        let mut bytes = std::fs::read(path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    cluster.await_state(&job, "FAILED", WITHIN);
    let failures = cluster.block_on(client.job_exceptions(&job)).unwrap();
    let newest = &failures.exception_history.entries[0];
    let newest = serde_json::to_string(newest).unwrap();
    assert!(newest.contains("CheckpointUnreadable"), "{newest}");
    let is_named = |path: &PathBuf| newest.contains(path.file_name().unwrap().to_str().unwrap());
    assert!(shared.iter().any(is_named), "{shared:?}: {newest}");
    let all = serde_json::to_string(&failures).unwrap();
    assert!(all.contains("the job continues from checkpoint"), "the one before was tried: {all}");
}

#[test]
fn a_killed_jobmanager_goes_on_from_the_checkpoint_in_the_jobs_log() {
    let storage = tempfile::tempdir().unwrap();
    let storage_dir = storage.path().display().to_string();
    let id = [("high-availability.cluster-id", "test")];
    let high_availability = [&ha(&storage_dir)[..], &id].concat();
    for seed in seeds().take(2) {
        let mut run = Run::start(seed, &high_availability);
        run.await_checkpoints(3);
        let mut dead = run.cluster.jobmanager.take().unwrap();
        dead.signal(Signal::SIGKILL);
        dead.wait(WITHIN);
        run.cluster.start_jobmanager();
        run.assert_exact(seed);
        let log = run.cluster.jobmanager.as_ref().unwrap().log();
        assert!(log.contains("the job continues from a checkpoint"), "{log}");
    }
}

#[test]
fn a_job_whose_newest_checkpoint_has_a_damaged_file_goes_on_from_the_one_before() {
    let mut run = Run::start(
        1,
        &[
            ("execution.checkpointing.num-retained", "2"),
            ("execution.checkpointing.fallback", "true"),
            // Time to damage the file before it is read.
            ("restart-strategy.fixed-delay.delay", "2s"),
        ],
    );
    run.await_checkpoints(3);
    let place = run.cluster.place_of_taskmanager(&run.job);
    run.cluster.replace_taskmanager(place);
    run.cluster.await_state(&run.job, "RESTARTING", WITHIN);
    let client = run.cluster.client();
    eventually(WITHIN, "no checkpoint is being recorded", || {
        let report = run.cluster.block_on(client.checkpoints(&run.job)).ok()?;
        (report.counts.in_progress == 0).then_some(())
    });
    let before = damage_newest(&run.data.path().join("checkpoints"));
    let message = format!("the job continues from checkpoint {before}, so output");
    eventually(WITHIN, "the failure says so", || {
        let failures = run.cluster.block_on(client.job_exceptions(&run.job)).ok()?;
        serde_json::to_string(&failures).unwrap().contains(&message).then_some(())
    });
    run.cluster.await_state(&run.job, "FINISHED", WITHIN);
    // Output that the damaged checkpoint had committed may be there twice; nothing is missing, and
    // nothing is wrong.
    let (mut lines, mut expected) = (committed(&run.out), run.expected);
    lines.dedup();
    expected.dedup();
    assert_eq!(lines, expected);
}

/// Runs a job whose first commit can never succeed, because its pending files are deleted when the checkpoint is complete. Returns
/// the failures that the job ends with. `options` say whether that checkpoint is a periodic one or the final one.
fn fails_to_commit(options: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (out, stops) = (folder.path().join("out"), folder.path().join("points"));
    std::fs::create_dir(&stops).unwrap();
    let checkpoints = folder.path().join("checkpoints").display().to_string();
    let mut all = vec![
        ("execution.checkpointing.dir", checkpoints.as_str()),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "1000"),
        ("restart-strategy.fixed-delay.delay", "50ms"),
        ("taskmanager.numberOfTaskSlots", "2"),
    ];
    all.extend_from_slice(options);
    let cluster = Cluster::start(&all, 1);
    points::arm(&stops, Point::BeforeCommit).unwrap();
    let (output, points) = (out.to_str().unwrap(), stops.to_str().unwrap());
    let args = ["--seed", "1", "--output", output, "--points", points, "--pace", "1"];
    let job = cluster.submit(&bin("chaos_job"), &request(&args, 2));
    let pid =
        eventually(WITHIN, "a commit begins", || points::waiting(&stops, Point::BeforeCommit));
    let is_pending = |path: &PathBuf| path.to_string_lossy().ends_with(".pending");
    let paths = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let pending: Vec<PathBuf> = paths.filter(is_pending).collect();
    assert!(!pending.is_empty(), "nothing is to be committed");
    pending.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    points::release(&stops, Point::BeforeCommit, pid);
    // A job that had finished would end this wait at once.
    cluster.await_state(&job, "FAILED", WITHIN);
    assert_eq!(committed(&out), [""; 0]);
    let failures = cluster.block_on(cluster.client().job_exceptions(&job)).unwrap();
    let entries = &failures.exception_history.entries;
    assert_eq!(entries.len(), 1, "no restart: {failures:?}");
    serde_json::to_string(&failures).unwrap()
}

#[test]
fn a_commit_that_can_never_succeed_fails_the_job_without_a_restart_also_the_last_one() {
    for options in [&[("execution.checkpointing.interval", "100ms")][..], &[]] {
        let failures = fails_to_commit(options);
        for part in ["OutputError", "can never be committed", ".pending"] {
            assert!(failures.contains(part), "{options:?}: {failures}");
        }
    }
}
