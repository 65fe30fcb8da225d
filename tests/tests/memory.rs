//! Tests of the limits of memory: a job that takes too much fails with an error that names the task; other jobs and the
//! processes of the cluster go on, and their memory together stays below the one number that was configured.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{Cluster, Process, SOON, bin, eventually, program, request, sorted_lines, succeeded};
use rest::messages::JobExceptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tests::chaos::processes::children;

const MIB: u64 = 1 << 20;

/// Resident memory: all pages, or without those of files, which a program of a debug build has many of.
const ALL: &str = "VmRSS:";
const ANONYMOUS: &str = "RssAnon:";

/// The resident memory of a process, in bytes.
fn resident(pid: i32, kind: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(kind));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    kib * 1024
}

/// Watches how much memory a process and its children take, until it is asked for the most.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Watch {
    fn start(process: &Process, kind: &'static str) -> Self {
        let (stop, pid) = (Arc::new(AtomicBool::new(false)), process.pid().as_raw());
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let most = AtomicU64::new(0);
            while !stopped.load(Ordering::Relaxed) {
                let all = std::iter::once(pid).chain(children(pid));
                most.fetch_max(all.map(|pid| resident(pid, kind)).sum(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
            most.into_inner()
        });
        Self { stop, thread }
    }

    fn most(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Options of a cluster whose jobs fail at their first failure.
fn options<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut options = vec![("restart-strategy.type", "none")];
    options.extend(more);
    options
}

fn exceptions(cluster: &Cluster, job: &str) -> JobExceptions {
    cluster.block_on(cluster.client().job_exceptions(job)).unwrap()
}

/// Starts a job that takes little and outlasts the test; returns its id once it runs.
fn start_other(cluster: &Cluster) -> String {
    let args = ["--count", "1000000", "--rate", "1000", "--keys", "7"];
    let job = cluster.submit(&bin("sequence_sum"), &request(&args, 1));
    cluster.await_state(&job, "RUNNING", SOON);
    job
}

/// Runs a hoarder beside another job in a TaskManager with the default memory. Returns the hoarder's failure.
fn hoard(args: &[&str]) -> String {
    let cluster = Cluster::start(&options(&[("taskmanager.numberOfTaskSlots", "2")]), 1);
    let other = start_other(&cluster);
    let watch = Watch::start(&cluster.taskmanagers[0], ALL);
    let hoarder = cluster.submit(&bin("hoarder"), &request(args, 1));
    cluster.await_state(&hoarder, "FAILED", SOON);
    let most = watch.most();
    let why = exceptions(&cluster, &hoarder).root_exception.unwrap_or_default();
    eprintln!("{args:?}: at most {} MiB; {why}", most / MIB);
    assert!(most < 1728 * MIB, "{} MiB", most / MIB);
    assert!(most > 200 * MIB, "the hoarder had no time: {} MiB", most / MIB);

    // The others have noticed nothing.
    cluster.await_state(&other, "RUNNING", SOON);
    assert_eq!(exceptions(&cluster, &other).exception_history.entries.len(), 0);
    let managers = cluster.block_on(cluster.client().task_managers()).unwrap().taskmanagers;
    assert_eq!(managers.len(), 1);
    eventually(SOON, "the hoarder's slot is free", || {
        let managers = cluster.block_on(cluster.client().task_managers()).ok()?.taskmanagers;
        managers.iter().all(|manager| manager.free_slots == 1).then_some(())
    });
    why
}

/// Asserts that a failure names the task, how much was used and allowed, and the option. Half of the slots have half of
/// the 650 MiB that a TaskManager of 1728 MiB has for user code.
fn assert_named(why: &str, task: &str) {
    assert!(why.contains(task), "{why}");
    assert!(why.contains("(taskmanager.memory.task.size)"), "{why}");
    let (_, amounts) = why.split_once(" used ").unwrap();
    let mut words = amounts.split(' ');
    let mib = |word: Option<&str>| -> f64 { word.unwrap().trim_end_matches('m').parse().unwrap() };
    let used = mib(words.next());
    assert_eq!(words.next(), Some("of"));
    let limit = mib(words.next());
    assert!((300.0..330.0).contains(&limit) && used > limit, "{why}");
}

#[test]
fn a_task_that_keeps_too_much_fails_by_name_and_the_others_go_on() {
    assert_named(&hoard(&["task"]), "keep");
}

#[test]
fn a_quick_hoarder_of_small_records_stays_within_the_number_too() {
    assert_named(&hoard(&["task", "--rate", "4000", "--piece", "100"]), "keep");
}

#[test]
fn the_task_that_keeps_strings_is_blamed_and_not_the_one_that_makes_them() {
    let why = hoard(&["consumer", "--piece", "1000"]);
    assert_named(&why, "task 'keep");
}

#[test]
fn a_task_that_does_not_return_costs_its_host_with_the_same_message() {
    let why = hoard(&["record"]);
    assert_named(&why, "keep");
    assert!(why.contains("was ended by SIGKILL"), "{why}");
}

/// One call emits twice what its task may use, to a task that takes 150 MiB per second.
#[test]
fn a_call_that_emits_more_than_its_task_may_use_waits_for_its_consumer() {
    for serialized in ["false", "true"] {
        let more =
            [("taskmanager.numberOfTaskSlots", "2"), ("exchange.force-serialization", serialized)];
        let cluster = Cluster::start(&options(&more), 1);
        let watch = Watch::start(&cluster.taskmanagers[0], ANONYMOUS);
        let args = ["call", "--rate", "150", "--piece", "1000"];
        let job = cluster.submit(&bin("hoarder"), &request(&args, 1));
        cluster.await_state(&job, "FINISHED", SOON);
        let most = watch.most();
        eprintln!("serialized {serialized}: at most {} MiB", most / MIB);
        assert!(most < 250 * MIB, "{} MiB", most / MIB);
    }
}

#[test]
fn a_build_that_keeps_too_much_is_refused_and_the_jobmanager_and_its_other_hosts_go_on() {
    let cluster = Cluster::start(&options(&[("jobmanager.memory.process.size", "600m")]), 1);
    let other = start_other(&cluster);
    let watch = Watch::start(cluster.jobmanager.as_ref().unwrap(), ANONYMOUS);
    // The JobManager ends the build a thirty-second below the limit. At this rate it has more than 0.3 s for that, on a busy
    // machine too; at ten times the rate the build might take what is left before it is gone.
    let build = [&*program("hoarder"), "build", "--rate", "50"];
    let run = cluster.flott(&["run", "-d"], &build);
    let most = watch.most();
    let said = String::from_utf8_lossy(&run.stderr);
    eprintln!("at most {} MiB; {said}", most / MIB);
    assert!(!run.status.success());
    assert!(said.contains("of 600m (jobmanager.memory.process.size)"), "{said}");
    assert!((300 * MIB..=600 * MIB).contains(&most), "{} MiB", most / MIB);
    cluster.await_state(&other, "RUNNING", SOON);
    assert_eq!(exceptions(&cluster, &other).exception_history.entries.len(), 0);
}

/// The graph is 20 times as large as the memory that a process has for messages while they arrive.
#[test]
fn a_graph_that_is_larger_than_the_memory_for_messages_is_submitted_and_deployed() {
    let cluster = Cluster::start(&options(&[("rpc.payload-memory", "1m")]), 1);
    let bytes = (20 * MIB).to_string();
    let run = succeeded(cluster.flott(&["run"], &[&program("large_graph"), &bytes]));
    assert_eq!(sorted_lines(&run.stdout), [0, 1, 2].map(|n| (20 * MIB + n).to_string()));
}

#[test]
fn a_host_with_many_small_tasks_takes_memory_for_what_they_hold_and_not_a_huge_page_for_each() {
    const TASKS: u64 = 64;
    let slots = TASKS.to_string();
    let cluster = Cluster::start(&options(&[("taskmanager.numberOfTaskSlots", &slots)]), 1);
    let args = ["--count", "1000000", "--rate", "100", "--keys", "7"];
    let job = cluster.submit(&bin("sequence_sum"), &request(&args, TASKS.try_into().unwrap()));
    eventually(SOON, "all tasks run", || {
        let jobs = cluster.block_on(cluster.client().jobs_overview()).ok()?.jobs;
        let line = jobs.into_iter().find(|line| line.jid == job)?;
        let of = |state: &str| line.tasks.get(state).copied().unwrap_or(0);
        (of("total") > 0 && of("running") == of("total")).then_some(())
    });
    let hosts = children(cluster.taskmanagers[0].pid().as_raw());
    let held: u64 = hosts.iter().map(|pid| resident(*pid, ANONYMOUS)).sum();
    eprintln!("{TASKS} subtasks: {} MiB", held / MIB);
    assert!(held > 4 * MIB && held < TASKS * MIB, "{} MiB", held / MIB);
    // On a machine without huge pages the number above is small in any case.
    for pid in hosts {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(!status.contains("THP_enabled:\t1"), "{status}");
    }
}
