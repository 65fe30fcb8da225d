//! Jobs that wait for slots cost the JobManager no process: the number of program hosts stays within its limit, and
//! every job gets a host together with its slots.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{Cluster, SOON, bin, eventually, program, request, succeeded};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tests::chaos::processes::children;

const JOBS: usize = 40;
const HOSTS_MAX: usize = 4;

/// Watches a process's children until it is stopped. The thread returns the highest number at one time.
fn watch_children(pid: i32, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let most = AtomicUsize::new(0);
        while !stop.load(Ordering::Relaxed) {
            most.fetch_max(children(pid).len(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
        most.into_inner()
    })
}

#[test]
fn forty_waiting_jobs_that_collect_share_four_hosts_and_all_finish() {
    // While TaskManagers may still come, no requirement counts as unfulfillable.
    let start_up = ("resourcemanager.standalone.start-up-time", "10 min");
    let max = HOSTS_MAX.to_string();
    let hosts_max = ("jobmanager.program-hosts.max", max.as_str());
    let slots = ("taskmanager.numberOfTaskSlots", "4");
    let mut cluster = Cluster::start(&[start_up, hosts_max, slots], 0);
    let client = cluster.client();
    let jar = cluster.block_on(client.upload(&bin("sequence_sum"), |_| ())).unwrap();
    let jobmanager = cluster.jobmanager.as_ref().unwrap().pid().as_raw();
    let no_child = || children(jobmanager).is_empty().then_some(());
    eventually(SOON, "the upload was looked at", no_child);

    let stop = Arc::new(AtomicBool::new(false));
    let watched = watch_children(jobmanager, stop.clone());
    let asked = request(&["--count", "1000", "--keys", "1"], 1);
    let jobs: Vec<String> = (0..JOBS)
        .map(|_| cluster.block_on(client.run(jar.jar_id(), &asked)).unwrap().jobid)
        .collect();
    eventually(SOON, "no host for jobs that wait", no_child);
    // One more job has a client, which reads the result once there is one.
    let mut attached = cluster.command(&bin("flott"), &["run", "-p", "1"]);
    attached.args([&*program("sequence_sum"), "--count", "1000", "--keys", "1"]);
    let attached = attached.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually(SOON, "it is submitted", || {
        let all = cluster.block_on(client.jobs_overview()).ok()?.jobs;
        (all.len() == JOBS + 1).then_some(())
    });

    cluster.start_taskmanager(&[]);
    for job in &jobs {
        cluster.await_state(job, "FINISHED", SOON);
        let failures = cluster.block_on(client.job_exceptions(job)).unwrap();
        assert_eq!(failures.exception_history.entries.len(), 0, "{failures:?}");
    }
    let attached = succeeded(attached.wait_with_output().unwrap());
    let result = String::from_utf8(attached.stdout).unwrap();
    assert_eq!(result, format!("0\t1000\t{}\n", (0..1000).sum::<u64>()));
    stop.store(true, Ordering::Relaxed);
    let most = watched.join().unwrap();
    // The attached client uploads its program, which runs in a process of its own to name its jobs.
    assert!((2..=HOSTS_MAX + 1).contains(&most), "{most} children at once");
}
