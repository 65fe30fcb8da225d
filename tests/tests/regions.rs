//! A process is killed that runs one region of a job; the other regions and the enumerator go on.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::visits::committed;
use common::{Cluster, SOON, bin, eventually, request, runs};
use nix::{sys::signal::Signal, unistd::Pid};
use rest::messages::SubtaskInfo;
use std::collections::BTreeMap;
use tests::chaos::processes::children;

/// Splits of ten numbers each; two subtasks read them in some ten seconds.
const SPLITS: u64 = 200;

/// Returns the subtasks of the job's only vertex, by number; `None` while it can't be asked for.
fn subtasks(cluster: &Cluster, job: &str) -> Option<BTreeMap<u32, SubtaskInfo>> {
    let client = cluster.client();
    cluster.block_on(async {
        let vertices = client.job(job).await.ok()?.vertices;
        assert_eq!(vertices.len(), 1, "one chain: {vertices:?}");
        let vertex = client.vertex(job, &vertices.first()?.id).await.ok()?;
        Some(vertex.subtasks.into_iter().map(|subtask| (subtask.subtask, subtask)).collect())
    })
}

fn is_running(subtasks: &BTreeMap<u32, SubtaskInfo>) -> bool {
    subtasks.len() == 2 && subtasks.values().all(|subtask| subtask.status == "RUNNING")
}

#[test]
fn a_region_whose_host_is_killed_restarts_alone_and_the_others_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints").display().to_string();
    let options = [
        ("execution.checkpointing.interval", "300ms"),
        ("execution.checkpointing.dir", checkpoints.as_str()),
        ("restart-strategy.type", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "10"),
        ("restart-strategy.fixed-delay.delay", "50ms"),
        ("taskmanager.numberOfTaskSlots", "1"),
    ];
    let cluster = Cluster::start(&options, 2);
    let out = folder.path().join("out");
    let args = [out.display().to_string(), SPLITS.to_string()];
    let job = cluster.submit(&bin("paced_ranges"), &request(&args, 2));
    let before =
        eventually(SOON, "both subtasks run", || subtasks(&cluster, &job).filter(is_running));
    let jobmanager = cluster.jobmanager.as_ref().unwrap();
    let completed = || jobmanager.log().matches("checkpoint complete").count();
    eventually(SOON, "a checkpoint", || (completed() >= 2).then_some(()));
    let killed = &cluster.taskmanagers[0];
    let hosts: Vec<i32> =
        children(killed.pid().as_raw()).into_iter().filter(|host| runs(*host)).collect();
    let [host] = hosts[..] else { panic!("one host each: {hosts:?}") };
    nix::sys::signal::kill(Pid::from_raw(host), Signal::SIGKILL).unwrap();
    let after = eventually(SOON, "the killed one runs again", || {
        let now = subtasks(&cluster, &job).filter(is_running)?;
        now.values().any(|subtask| subtask.attempt > 0).then_some(now)
    });
    let attempts: Vec<u32> = after.values().map(|subtask| subtask.attempt).collect();
    assert!(attempts == [0, 1] || attempts == [1, 0], "{attempts:?}");
    for (number, subtask) in after.iter().filter(|(_, subtask)| subtask.attempt == 0) {
        assert_eq!(subtask.start_time, before[number].start_time, "it was not touched");
    }
    cluster.await_state(&job, "FINISHED", SOON);
    let mut expected: Vec<String> = (0..SPLITS * 10).map(|n| (n * n).to_string()).collect();
    expected.sort();
    assert_eq!(committed(&out), expected);
    let last = subtasks(&cluster, &job).unwrap();
    assert_eq!(last.values().map(|subtask| subtask.attempt).collect::<Vec<_>>(), attempts);
    let log = jobmanager.log();
    assert!(log.contains("subtasks are reset"), "{log}");
}
