//! While a bounded job runs, processes are killed and stopped; the result stays exact. Every job has more subtasks than a TaskManager
//! has slots, so it runs on two TaskManagers at least and its records cross between their program hosts.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{Cluster, ENDLESS, Numbers, Process, SOON, bin, eventually, ha, output_lines, runs};
use nix::sys::signal::Signal;
use rest::messages::VertexDetailsInfo;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tests::chaos::processes::children;

const NUMBERS: Numbers = Numbers { count: 6_000, rate: 1_000, keys: 7 };

/// Slots of each TaskManager.
const SLOTS: (&str, &str) = ("taskmanager.numberOfTaskSlots", "2");
/// Parallelism of every job: one more than the slots of a TaskManager.
const PARALLELISM: i64 = 3;

/// Starts a cluster as [`Cluster::start`] does, with [`SLOTS`] slots in each TaskManager.
fn start_cluster(options: &[(&str, &str)], taskmanagers: usize) -> Cluster {
    Cluster::start(&[options, &[SLOTS]].concat(), taskmanagers)
}

/// Starts a job that takes some seconds in any build, and waits until it runs, on more than one TaskManager.
fn start_job(cluster: &Cluster) -> (String, PathBuf) {
    let out = cluster.folder.path().join("sums");
    let job = cluster.sum(NUMBERS, &out, PARALLELISM);
    cluster.await_state(&job, "RUNNING", SOON);
    await_all_running(cluster, &job);
    (job, out)
}

/// Name of the one vertex that has a single subtask whatever the job's parallelism is.
const GLOBAL: &str = "file sink global committer";

/// Waits until every subtask of the job runs; panics unless every vertex but [`GLOBAL`] has [`PARALLELISM`] subtasks, on more than one
/// TaskManager.
fn await_all_running(cluster: &Cluster, job: &str) {
    let vertices = eventually(SOON, "all subtasks run", || {
        let vertices = vertices_of(cluster, job)?;
        let mut subtasks = vertices.iter().flat_map(|vertex| &vertex.subtasks);
        subtasks.all(|subtask| subtask.status == "RUNNING").then_some(vertices)
    });
    let parallel: Vec<_> = vertices.into_iter().filter(|vertex| vertex.name != GLOBAL).collect();
    assert!(parallel.len() > 1, "records are exchanged between vertices: {parallel:?}");
    for VertexDetailsInfo { name, subtasks, .. } in parallel {
        assert_eq!(i64::try_from(subtasks.len()), Ok(PARALLELISM), "{name}");
        let places: BTreeSet<String> = subtasks.into_iter().map(|s| s.taskmanager_id).collect();
        assert!(places.len() > 1, "{name} runs on {places:?} only");
    }
}

/// Returns the vertices of a job with their subtasks, `None` if they cannot be asked for yet.
fn vertices_of(cluster: &Cluster, job: &str) -> Option<Vec<VertexDetailsInfo>> {
    let client = cluster.client();
    cluster.block_on(async {
        let mut vertices = Vec::new();
        for vertex in client.job(job).await.ok()?.vertices {
            vertices.push(client.vertex(job, &vertex.id).await.ok()?);
        }
        Some(vertices)
    })
}

fn assert_exact(out: &Path) {
    assert_eq!(output_lines(out), NUMBERS.sums());
}

/// The children of a process that have not ended: its program hosts.
fn hosts_of(process: &Process) -> Vec<i32> {
    let hosts = children(process.pid().as_raw());
    hosts.into_iter().filter(|host| runs(*host)).collect()
}

fn restarted(cluster: &Cluster, job: &str) -> bool {
    cluster
        .block_on(cluster.client().job_exceptions(job))
        .is_ok_and(|e| !e.exception_history.entries.is_empty())
}

#[test]
fn a_killed_taskmanager_is_noticed_within_a_second_and_replaced() {
    let mut cluster = start_cluster(&[], 3);
    let (job, out) = start_job(&cluster);
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

/// Two jobs of three subtasks fill the six slots of three TaskManagers: on one of these both have a program host, and that of one job is
/// killed there.
#[test]
fn a_killed_program_host_restarts_its_own_job_only() {
    let cluster = start_cluster(&[], 3);
    let other_out = cluster.folder.path().join("other");
    let other_numbers = Numbers { count: 16_000, rate: 1_000, keys: 10 };
    let other = cluster.sum(other_numbers, &other_out, PARALLELISM);
    await_all_running(&cluster, &other);
    let others: Vec<Vec<i32>> = cluster.taskmanagers.iter().map(hosts_of).collect();
    let (job, out) = start_job(&cluster);
    let all = cluster.taskmanagers.iter().map(hosts_of);
    let shared = all.zip(&others).find(|(all, others)| others.len() == 1 && all.len() == 2);
    let (mut hosts, others) = shared.expect("both jobs have a host on one TaskManager");
    hosts.retain(|host| !others.contains(host));
    assert_eq!(hosts.len(), 1);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(hosts[0]), Signal::SIGKILL).unwrap();
    eventually(SOON, "the job restarts", || restarted(&cluster, &job).then_some(()));
    cluster.await_state(&job, "FINISHED", SOON);
    cluster.await_state(&other, "FINISHED", SOON);
    assert_exact(&out);
    assert_eq!(output_lines(&other_out), other_numbers.sums());
    assert!(!restarted(&cluster, &other), "the other job was disturbed");
}

#[test]
fn a_stopped_taskmanager_is_fenced_and_comes_back() {
    let mut cluster = start_cluster(&[("heartbeat.timeout", "3 s")], 3);
    let (job, out) = start_job(&cluster);
    let place = cluster.place_of_taskmanager(&job);
    let stopped = &cluster.taskmanagers[place];
    assert!(!hosts_of(stopped).is_empty());
    stopped.signal(Signal::SIGSTOP);
    eventually(SOON, "the time-out is noticed", || restarted(&cluster, &job).then_some(()));
    assert_eq!(hosts_of(stopped), Vec::<i32>::new(), "its hosts are gone by then");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_exact(&out);
    stopped.signal(Signal::SIGCONT);
    cluster.await_taskmanagers(3);
    assert!(cluster.taskmanagers[place].is_running());
}

#[test]
fn a_jobmanager_with_ha_goes_on_where_it_was() {
    let storage = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", storage.path().display());
    let mut cluster = start_cluster(&ha(&uri), 2);
    let (job, out) = start_job(&cluster);
    cluster.jobmanager.as_mut().unwrap().kill();
    cluster.start_jobmanager();
    cluster.await_taskmanagers(2);
    cluster.await_state(&job, "FINISHED", SOON);
    assert_exact(&out);
}

#[test]
fn a_program_is_submitted_to_a_standby_and_runs() {
    let storage = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", storage.path().display());
    let mut cluster = start_cluster(&ha(&uri), 2);
    let (_standby, rest_port) = cluster.start_standby();
    cluster.rest_port = rest_port;
    eventually(SOON, "the standby knows the leader", || {
        cluster.block_on(cluster.client().jobs_overview()).ok()
    });
    let (job, out) = start_job(&cluster);
    cluster.await_state(&job, "FINISHED", SOON);
    assert_exact(&out);
}

#[test]
fn without_ha_the_job_is_lost_and_the_client_is_told() {
    let mut cluster = start_cluster(&[], 2);
    let out = cluster.folder.path().join("sums");
    let mut command = cluster.command(&bin("flott"), &["run"]);
    command.arg(bin("sequence_sum")).args(ENDLESS.args(&out));
    command.args(["--parallelism", &PARALLELISM.to_string()]);
    let mut client = cluster.spawn("client", command);
    let job = eventually(SOON, "the job runs", || {
        let jobs = cluster.block_on(cluster.client().jobs_overview()).ok()?.jobs;
        let job = jobs.into_iter().find(|job| job.state == "RUNNING")?;
        Some(job.jid)
    });
    await_all_running(&cluster, &job);
    assert!(cluster.taskmanagers.iter().all(|tm| !hosts_of(tm).is_empty()));
    cluster.jobmanager.as_mut().unwrap().kill();
    cluster.start_jobmanager();
    let begin = Instant::now();
    cluster.await_taskmanagers(2);
    let registered = begin.elapsed();
    assert!(registered < Duration::from_secs(2), "registered after {registered:?}");
    assert_eq!(client.wait(SOON), 4, "{}", client.log());
    assert!(client.log().contains("lost"), "{}", client.log());
    eventually(SOON, "old hosts are gone", || {
        cluster.taskmanagers.iter().all(|tm| hosts_of(tm).is_empty()).then_some(())
    });
}

#[test]
fn hosts_end_with_their_killed_taskmanager() {
    let mut cluster = start_cluster(&[], 2);
    let (_, _) = start_job(&cluster);
    let hosts = hosts_of(&cluster.taskmanagers[0]);
    assert_eq!(hosts.len(), 1);
    assert_eq!(hosts_of(&cluster.taskmanagers[1]).len(), 1);
    cluster.taskmanagers[0].kill();
    eventually(Duration::from_secs(10), "the host is gone", || {
        let alive = nix::sys::signal::kill(nix::unistd::Pid::from_raw(hosts[0]), None).is_ok();
        (!alive).then_some(())
    });
}
