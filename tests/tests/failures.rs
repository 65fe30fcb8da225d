//! While a bounded job runs, processes are killed and stopped; the result stays exact.

#![allow(clippy::indexing_slicing, reason = "functions of tests")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails loudly, and measures real time"
)]

mod common;

use common::{Cluster, SOON, bin, eventually, output_lines, request};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const COUNT: u64 = 6_000;
const KEYS: u64 = 7;

/// A job that takes some seconds in any build.
fn start_job(cluster: &Cluster, parallelism: i64) -> (String, PathBuf) {
    let out = cluster.folder.path().join("sums");
    let (count, keys) = (COUNT.to_string(), KEYS.to_string());
    let args =
        ["--count", &count, "--rate", "1000", "--keys", &keys, "--output", out.to_str().unwrap()];
    let job = cluster.submit(&bin("sequence_sum"), &request(&args, parallelism));
    cluster.await_state(&job, "RUNNING", SOON);
    await_all_running(cluster, &job);
    (job, out)
}

fn await_all_running(cluster: &Cluster, job: &str) {
    eventually(SOON, "all tasks run", || {
        let details = cluster.block_on(cluster.client().job(job)).ok()?;
        details.vertices.iter().all(|v| v.status == "RUNNING").then_some(())
    });
}

fn assert_exact(out: &Path) {
    let mut expected: Vec<String> = (0..KEYS)
        .map(|key| {
            let all: Vec<u64> = (0..COUNT).filter(|i| i % KEYS == key).collect();
            format!("{key}\t{}\t{}", all.len(), all.iter().sum::<u64>())
        })
        .collect();
    expected.sort();
    assert_eq!(output_lines(out), expected);
}

/// The processes whose parent is `pid`: its program hosts.
fn children_of(pid: u32) -> Vec<i32> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // After the name in brackets: state, parent.
        let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        if state != Some("Z") && parent == Some(&pid.to_string()) {
            children.push(child);
        }
    }
    children
}

fn restarted(cluster: &Cluster, job: &str) -> bool {
    cluster
        .block_on(cluster.client().job_exceptions(job))
        .is_ok_and(|e| !e.exception_history.entries.is_empty())
}

#[test]
fn a_killed_taskmanager_is_noticed_within_a_second_and_replaced() {
    let mut cluster = Cluster::start(&[], 3);
    let (job, out) = start_job(&cluster, 1);
    let place = cluster.place_of_taskmanager(&job);
    cluster.taskmanagers[place].signal(Signal::SIGKILL);
    let begin = Instant::now();
    eventually(SOON, "the loss is noticed", || restarted(&cluster, &job).then_some(()));
    let noticed = begin.elapsed();
    assert!(noticed < Duration::from_secs(1), "noticed after {noticed:?}");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_exact(&out);
    cluster.taskmanagers[place].kill();
    cluster.await_taskmanagers(2);
}

#[test]
fn a_killed_program_host_restarts_its_own_job_only() {
    let cluster = Cluster::start(&[("taskmanager.numberOfTaskSlots", "2")], 1);
    let (job, out) = start_job(&cluster, 1);
    let manager = cluster.taskmanagers[0].child.id();
    let hosts = children_of(manager);
    assert_eq!(hosts.len(), 1);
    let other_out = cluster.folder.path().join("other");
    let other = cluster.submit(
        &bin("sequence_sum"),
        &request(
            &["--count", "4000", "--rate", "1000", "--output", other_out.to_str().unwrap()],
            1,
        ),
    );
    await_all_running(&cluster, &other);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(hosts[0]), Signal::SIGKILL).unwrap();
    eventually(SOON, "the job restarts", || restarted(&cluster, &job).then_some(()));
    cluster.await_state(&job, "FINISHED", SOON);
    cluster.await_state(&other, "FINISHED", SOON);
    assert_exact(&out);
    assert!(!restarted(&cluster, &other), "the other job was disturbed");
}

#[test]
fn a_stopped_taskmanager_is_fenced_and_comes_back() {
    let mut cluster = Cluster::start(&[("heartbeat.timeout", "3 s")], 2);
    let (job, out) = start_job(&cluster, 1);
    let place = cluster.place_of_taskmanager(&job);
    let stopped = cluster.taskmanagers[place].child.id();
    assert!(!children_of(stopped).is_empty());
    cluster.taskmanagers[place].signal(Signal::SIGSTOP);
    eventually(SOON, "the time-out is noticed", || restarted(&cluster, &job).then_some(()));
    assert_eq!(children_of(stopped), Vec::<i32>::new(), "its hosts are gone by then");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_exact(&out);
    cluster.taskmanagers[place].signal(Signal::SIGCONT);
    cluster.await_taskmanagers(2);
    assert!(cluster.taskmanagers[place].is_running());
}

#[test]
fn a_jobmanager_with_ha_goes_on_where_it_was() {
    let storage = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", storage.path().display());
    let mut cluster = Cluster::start(
        &[("high-availability.type", "filesystem"), ("high-availability.storageDir", &uri)],
        2,
    );
    let (job, out) = start_job(&cluster, 1);
    cluster.jobmanager.as_mut().unwrap().kill();
    cluster.start_jobmanager();
    cluster.await_taskmanagers(2);
    cluster.await_state(&job, "FINISHED", SOON);
    assert_exact(&out);
}

#[test]
fn without_ha_the_job_is_lost_and_the_client_is_told() {
    let mut cluster = Cluster::start(&[], 2);
    let out = cluster.folder.path().join("sums");
    let mut command = cluster.command(&bin("flott"), &["run"]);
    command.arg(bin("sequence_sum")).args([
        "--count",
        "1000000",
        "--rate",
        "100",
        "--output",
        out.to_str().unwrap(),
    ]);
    let mut client = cluster.spawn("client", command);
    let job = eventually(SOON, "the job runs", || {
        let jobs = cluster.block_on(cluster.client().jobs_overview()).ok()?.jobs;
        let job = jobs.into_iter().find(|job| job.state == "RUNNING")?;
        Some(job.jid)
    });
    await_all_running(&cluster, &job);
    let hosts: Vec<i32> =
        cluster.taskmanagers.iter().flat_map(|tm| children_of(tm.child.id())).collect();
    assert!(!hosts.is_empty());
    cluster.jobmanager.as_mut().unwrap().kill();
    cluster.start_jobmanager();
    let begin = Instant::now();
    cluster.await_taskmanagers(2);
    let registered = begin.elapsed();
    assert!(registered < Duration::from_secs(2), "registered after {registered:?}");
    assert_eq!(client.wait(SOON), 4, "{}", client.log());
    assert!(client.log().contains("lost"), "{}", client.log());
    eventually(SOON, "old hosts are gone", || {
        let left: Vec<i32> =
            cluster.taskmanagers.iter().flat_map(|tm| children_of(tm.child.id())).collect();
        left.is_empty().then_some(())
    });
}

#[test]
fn hosts_end_with_their_killed_taskmanager() {
    let mut cluster = Cluster::start(&[], 1);
    let (_, _) = start_job(&cluster, 1);
    let hosts = children_of(cluster.taskmanagers[0].child.id());
    assert_eq!(hosts.len(), 1);
    cluster.taskmanagers[0].kill();
    eventually(Duration::from_secs(10), "the host is gone", || {
        let alive = nix::sys::signal::kill(nix::unistd::Pid::from_raw(hosts[0]), None).is_ok();
        (!alive).then_some(())
    });
}
