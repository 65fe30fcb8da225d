//! Jobs that wait for slots beside each other: whatever goes wrong, they get on one after the other.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{Cluster, Numbers, SOON, eventually, ha, output_lines};
use nix::sys::signal::Signal;
use std::path::PathBuf;

/// The numbers of a job, which takes three seconds.
const NUMBERS: Numbers = Numbers { count: 3_000, rate: 1_000, keys: 1 };
/// More than half of three TaskManagers' slots, and more than one's.
const WIDE: i64 = 8;
const SLOTS: (&str, &str) = ("taskmanager.numberOfTaskSlots", "4");

/// A job that needs two of three TaskManagers; its result will be in a file of that name.
fn submit(cluster: &Cluster, name: &str) -> (String, PathBuf) {
    let out = cluster.folder.path().join(name);
    (cluster.sum(NUMBERS, &out, WIDE), out)
}

/// Returns the number of a job's tasks that wait for slots.
fn waiting(cluster: &Cluster, job: &str) -> Option<u32> {
    let details = cluster.block_on(cluster.client().job(job)).ok()?;
    Some(details.vertices.iter().filter_map(|vertex| vertex.tasks.get("SCHEDULED")).sum())
}

fn await_slots(cluster: &Cluster, job: &str) {
    eventually(SOON, "it has its slots", || {
        let status = cluster.block_on(cluster.client().job_status(job)).ok()?.status;
        let started = matches!(status.as_str(), "RUNNING" | "FINISHED");
        (started && waiting(cluster, job)? == 0).then_some(())
    });
}

fn free_slots(cluster: &Cluster) -> Option<u32> {
    Some(cluster.block_on(cluster.client().overview()).ok()?.slots_available)
}

#[test]
fn jobs_that_a_killed_taskmanager_leaves_with_a_part_each_both_finish() {
    let cluster = Cluster::start(&[SLOTS], 3);
    let first = submit(&cluster, "first");
    await_slots(&cluster, &first.0);
    let second = submit(&cluster, "second");
    eventually(SOON, "the second has the rest", || (free_slots(&cluster)? == 0).then_some(()));
    // Eight slots are left: four have what the first still needs, four what the second does.
    let place = cluster.place_of_taskmanager(&first.0);
    cluster.taskmanagers[place].signal(Signal::SIGKILL);
    for (job, out) in [first, second] {
        cluster.await_state(&job, "FINISHED", SOON);
        assert_eq!(output_lines(&out), NUMBERS.sums());
    }
}

#[test]
fn jobs_in_the_queue_of_a_killed_jobmanager_all_finish() {
    let storage = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", storage.path().display());
    let mut cluster = Cluster::start(&[&[SLOTS], &ha(&uri)[..]].concat(), 3);
    let jobs: Vec<_> = (0..5).map(|n| submit(&cluster, &format!("job-{n}"))).collect();
    await_slots(&cluster, &jobs[0].0);
    cluster.jobmanager.as_mut().unwrap().kill();
    cluster.start_jobmanager();
    for (job, out) in jobs {
        cluster.await_state(&job, "FINISHED", SOON);
        assert_eq!(output_lines(&out), NUMBERS.sums());
    }
}

#[test]
fn a_job_that_is_too_large_keeps_no_other_waiting() {
    let cluster = Cluster::start(&[SLOTS], 2);
    let out = cluster.folder.path().join("large");
    let large = cluster.sum(Numbers { keys: 10, ..NUMBERS }, &out, WIDE + 1);
    eventually(SOON, "it has all there is", || (free_slots(&cluster)? == 0).then_some(()));
    let (job, out) = submit(&cluster, "small");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_eq!(output_lines(&out), NUMBERS.sums());
    // Nine subtasks of each operator, and the committer of the file sink, which has one.
    let details = cluster.block_on(cluster.client().job(&large)).unwrap();
    let tasks: u32 = details.vertices.iter().flat_map(|vertex| vertex.tasks.values()).sum();
    assert!(tasks > 9, "{tasks}");
    assert_eq!(waiting(&cluster, &large), Some(tasks), "all wait for a ninth slot");
}

#[test]
fn jobs_wait_for_each_other_long_after_the_cluster_has_started() {
    let start_up = ("resourcemanager.standalone.start-up-time", "100 ms");
    let cluster = Cluster::start(&[SLOTS, start_up], 2);
    let jobs: Vec<_> = (0..3).map(|n| submit(&cluster, &format!("job-{n}"))).collect();
    for (job, out) in jobs {
        cluster.await_state(&job, "FINISHED", SOON);
        assert_eq!(output_lines(&out), NUMBERS.sums());
    }
}
