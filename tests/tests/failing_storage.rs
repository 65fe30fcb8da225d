//! A cluster whose storage hangs or is damaged: which jobs and requests suffer, and which do not.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::passthrough::PassthroughMount;
use common::{
    Cluster, Numbers, Process, SOON, bin, eventually, ha, output_lines, repository_text, request,
};
use rest::client::{ClientTimeouts, RestClient};
use rest::messages::JarRequest;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};
use storage::jobs::{JobFact, JobRecord};
use storage::objects::{FileObjects, ObjectStore, StoreError};

const LEASE: Duration = Duration::from_secs(10);
/// Minimum time for which a leader keeps its lease after the storage hangs. It stops 0.6 of the lease duration (10 s)
/// after its last renewal began, and renewals are a second apart.
const LEASE_HELD_AT_LEAST: Duration = Duration::from_secs(4);
/// Time between two requests of the load on the leader: 50 a second.
const PACE: Duration = Duration::from_millis(20);
/// Maximum time by which a busy machine may delay what a process does by its own clock.
const MARGIN: Duration = Duration::from_secs(20);
const SLOTS: (&str, &str) = ("taskmanager.numberOfTaskSlots", "4");
const DIR: &str = "high-availability.storageDir";
/// A cluster's folder in `high-availability.storageDir`.
const DEFAULT: &str = "default";
const ENDLESS: [&str; 4] = ["--count", "1000000000", "--rate", "100"];

/// Returns the records of a job's log in order, each with its object's name.
fn records(cluster: &Cluster, folder: &Path, job: &str) -> Vec<(String, JobRecord)> {
    let store = FileObjects::open(folder).unwrap();
    let names = cluster.block_on(store.list(&format!("jobs/{job}/"))).unwrap();
    let read = |name: String| {
        let bytes = cluster.block_on(store.get(&name)).unwrap().unwrap();
        (name, JobRecord::try_decode(&bytes).unwrap())
    };
    names.into_iter().map(read).collect()
}

/// Sends `GET /overview` every [`PACE`], whether or not the last request was answered, until `until` returns true.
/// Every successful answer must count a running job. Returns the latencies, and the times since the beginning of the
/// requests that were answered by an error.
fn load(port: u16, mut until: impl FnMut() -> bool) -> (Vec<Duration>, Vec<Duration>) {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
    let (sender, answers) = mpsc::channel();
    let begin = Instant::now();
    for n in 1.. {
        let (client, sender) = (client(port), sender.clone());
        runtime.spawn(async move {
            let asked = Instant::now();
            let answer = client.overview().await;
            let running = answer.ok().map(|overview| overview.jobs_running);
            sender.send((asked.elapsed(), running, asked.duration_since(begin))).ok();
        });
        if until() {
            break;
        }
        thread::sleep((begin + PACE * n).saturating_duration_since(Instant::now()));
    }
    drop(sender);
    let (mut latencies, mut refused) = (Vec::new(), Vec::new());
    for (latency, running, at) in answers {
        match running {
            Some(running) => {
                assert!(running > 0, "no job runs {at:?} after the storage hung");
                latencies.push(latency);
            }
            None => refused.push(at),
        }
    }
    latencies.sort();
    (latencies, refused)
}

fn client(port: u16) -> RestClient {
    RestClient::new("127.0.0.1", port, ClientTimeouts::default())
}

/// A cluster of two TaskManagers whose leader reaches the storage through a mount that can be frozen, and a
/// standby that reaches it directly, as the TaskManagers do.
struct Frozen {
    cluster: Cluster,
    mount: PassthroughMount,
    storage: tempfile::TempDir,
    standby: Process,
    standby_rest: u16,
}

impl Frozen {
    fn start() -> Self {
        let storage = tempfile::tempdir().unwrap();
        let mount = PassthroughMount::start(storage.path()).unwrap_or_else(|e| panic!("{e}"));
        let more = [
            ("high-availability.filesystem.lease-duration", "10 s"),
            ("restart-strategy.type", "none"),
            SLOTS,
        ];
        let ha = ha(storage.path().to_str().unwrap());
        let mut cluster = Cluster::new(&[&ha[..], &more].concat());
        let through = format!("{DIR}={}", mount.path().display());
        let first = ["jobmanager", "--output", "json"];
        cluster.start_jobmanager_with(&bin("flott"), &first, &["-D", &through]);
        for _ in 0..2 {
            cluster.start_taskmanager(&[]);
        }
        cluster.await_taskmanagers(2);
        let (standby, standby_rest) = cluster.start_standby();
        Self { cluster, mount, storage, standby, standby_rest }
    }

    fn leader(&mut self) -> &mut Process {
        self.cluster.jobmanager.as_mut().unwrap()
    }
}

#[test]
fn a_leader_whose_storage_hangs_serves_until_its_lease_is_over_and_then_nothing_of_it_counts() {
    let mut f = Frozen::start();
    let leader_rest = f.cluster.rest_port;
    let program = bin("sequence_sum");
    let endless = f.cluster.submit(&program, &request(&ENDLESS, 1));
    // This job ends while the storage hangs: the leader tries to record its result.
    let out = f.cluster.folder.path().join("sums");
    let uploaded = f.cluster.block_on(client(leader_rest).upload(&program, |_| ())).unwrap();
    f.cluster.await_state(&endless, "RUNNING", SOON);
    let short = f.cluster.sum(Numbers { count: 3_000, rate: 1_000, keys: 10 }, &out, 1);
    f.cluster.await_state(&short, "RUNNING", SOON);

    f.mount.freeze();
    let frozen = Instant::now();
    let submission = JarRequest { job_id: Some("5b".repeat(16)), ..request(&ENDLESS, 1) };
    let submitted = {
        let (sender, submitted) = mpsc::channel();
        let jar = uploaded.jar_id().to_owned();
        let timeouts = ClientTimeouts { build: SOON * 3, ..ClientTimeouts::default() };
        let client = RestClient::new("127.0.0.1", leader_rest, timeouts);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let answer = runtime.unwrap().block_on(client.run(&jar, &submission));
            sender.send((Instant::now(), answer)).ok();
        });
        submitted
    };
    let log = f.leader().stderr.clone();
    let (mut answer, mut lost) = (None, Duration::ZERO);
    let (latencies, refused) = load(leader_rest, || {
        if answer.is_none() {
            answer = match submitted.try_recv() {
                Ok(answered) => Some(answered),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => panic!("the submission's thread is gone"),
            };
        }
        lost = frozen.elapsed();
        assert!(lost < LEASE + MARGIN, "the leader's lease does not end");
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("has lost the leader's lease")
    });
    let p99 = latencies[latencies.len() * 99 / 100];
    eprintln!("the lease was over {lost:?} after the storage hung");
    eprintln!("GET /overview until then: {} answers, p99 {p99:?}", latencies.len());
    eprintln!("refused at {refused:?}; the submission had: {answer:?}");
    assert!(p99 < Duration::from_millis(500), "p99 {p99:?}");
    let early =
        |at: Duration| at < LEASE_HELD_AT_LEAST.min(lost.saturating_sub(Duration::from_secs(1)));
    assert!(!refused.iter().any(|at| early(*at)), "{refused:?}");
    assert!(lost > LEASE_HELD_AT_LEAST, "lost after {lost:?}");
    if let Some((at, answer)) = &answer {
        assert!(!early(at.duration_since(frozen)), "the submission did not wait");
        assert!(answer.is_err(), "{answer:?}");
    }

    eventually(LEASE + MARGIN, "the standby leads", || {
        f.standby.log().contains("this process holds the leader's lease").then_some(())
    });
    eprintln!("the standby led {:?} after the storage hung", frozen.elapsed());
    f.cluster.rest_port = f.standby_rest;
    f.cluster.await_state(&endless, "RUNNING", SOON);
    f.cluster.await_state(&short, "FINISHED", SOON);
    let sums = output_lines(&out);
    assert!(sums.len() == 10 && sums.iter().all(|line| line.contains("\t300\t")), "{sums:?}");

    f.mount.thaw();
    let (_, answer) = answer.unwrap_or_else(|| submitted.recv_timeout(SOON).unwrap());
    assert!(answer.is_err(), "{answer:?}");
    eprintln!("the submission's answer: {answer:?}");
    let old = f.cluster.jobmanager.as_mut().unwrap();
    let follows = eventually(SOON, "the old leader has ended or follows the new one", || {
        if let Some(status) = old.child.try_wait().unwrap() {
            return Some(Err(status));
        }
        // The process answers again, from the new leader's knowledge.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let jobs = runtime.block_on(client(leader_rest).jobs_overview()).ok()?.jobs;
        jobs.iter().any(|job| job.jid == short && job.state == "FINISHED").then_some(Ok(()))
    });
    eprintln!("the old leader: {follows:?}");
    assert!(follows.is_ok_and(|()| true) || follows.is_err_and(|status| status.code().is_some()));
    assert_eq!(f.leader().log().matches("this process holds the leader's lease").count(), 1);

    let mut listed: Vec<String> = {
        let jobs = f.cluster.block_on(f.cluster.client().jobs_overview()).unwrap().jobs;
        jobs.into_iter().map(|job| format!("{} {}", job.jid, job.state)).collect()
    };
    listed.sort();
    let mut wanted = [format!("{endless} RUNNING"), format!("{short} FINISHED")];
    wanted.sort();
    assert_eq!(listed, wanted);
    for job in [&endless, &short] {
        let records = records(&f.cluster, &f.storage.path().join(DEFAULT), job);
        let first = &records.first().unwrap().1;
        assert!(matches!(first.fact, JobFact::Graph(_)), "{records:?}");
        let sessions: Vec<_> = records.iter().map(|(_, record)| record.writer.session).collect();
        let taken = records.iter().position(|(_, r)| r.writer.session > first.writer.session);
        let taken = taken.unwrap_or_else(|| panic!("no record of a new leader: {records:?}"));
        assert_eq!(records[taken].1.fact, JobFact::Owner);
        assert!(
            sessions[taken..].iter().all(|session| *session == sessions[taken]),
            "{sessions:?}"
        );
    }
}

/// Returns true if a thread of the process waits for an answer of a FUSE server.
fn waits_for_storage(process: &Process) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.pid())).unwrap();
    let waits_in = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("wchan"));
    threads.flatten().any(|thread| waits_in(thread).is_ok_and(|at| at.contains("request_wait")))
}

#[test]
fn a_process_that_is_started_while_its_storage_hangs_ends_on_sigterm() {
    let storage = tempfile::tempdir().unwrap();
    let mount = PassthroughMount::start(storage.path()).unwrap_or_else(|e| panic!("{e}"));
    let folder = mount.path().to_str().unwrap();
    let mut cluster = Cluster::new(&ha(folder));
    mount.freeze();
    for role in ["jobmanager", "taskmanager"] {
        let command = cluster.command(&bin("flott"), &[role]);
        let mut process = cluster.spawn(role, command);
        eventually(SOON, "the process waits for its storage", || {
            waits_for_storage(&process).then_some(())
        });
        process.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(process.wait(SOON), 0, "{}", process.log());
    }
}

/// Changes one bit of the content, which follows a header of 20 bytes.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = 20 + (bytes.len() - 20) / 2;
    *bytes.get_mut(at).unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_record_costs_its_job_and_no_other() {
    let storage = tempfile::tempdir().unwrap();
    let folder = storage.path().join(DEFAULT);
    let ha = ha(storage.path().to_str().unwrap());
    let mut cluster = Cluster::start(&[&ha[..], &[SLOTS]].concat(), 2);
    let text = repository_text();
    let counted = ["--input", text.to_str().unwrap()];
    let ended = cluster.submit(&bin("word_count"), &request(&counted, 1));
    cluster.await_state(&ended, "FINISHED", SOON);
    let [graph, owner, healthy] = [(); 3].map(|()| {
        cluster.submit(&bin("sequence_sum"), &request(&["--count", "1000000", "--rate", "10"], 1))
    });
    let restart = |cluster: &mut Cluster| {
        cluster.jobmanager.as_mut().unwrap().kill();
        cluster.start_jobmanager();
        cluster.await_taskmanagers(2);
    };
    for job in [&graph, &owner, &healthy] {
        cluster.await_state(job, "RUNNING", SOON);
    }
    // The next leader appends to each log.
    restart(&mut cluster);
    cluster.await_state(&owner, "RUNNING", SOON);
    let path_of = |job: &str, is: fn(&JobFact) -> bool| -> PathBuf {
        let all = records(&cluster, &folder, job);
        let (name, _) = all.iter().find(|(_, r)| is(&r.fact)).unwrap_or_else(|| panic!("{all:?}"));
        folder.join(name)
    };
    let damaged = [
        (&ended, path_of(&ended, |fact| matches!(fact, JobFact::Result(_)))),
        (&graph, path_of(&graph, |fact| matches!(fact, JobFact::Graph(_)))),
        (&owner, path_of(&owner, |fact| *fact == JobFact::Owner)),
    ];
    cluster.jobmanager.as_mut().unwrap().kill();
    let store = FileObjects::open(&folder).unwrap();
    for (_, path) in &damaged {
        damage(path);
        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        let read = cluster.block_on(store.get(name));
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
    }
    cluster.start_jobmanager();
    cluster.await_taskmanagers(2);
    cluster.await_state(&healthy, "RUNNING", SOON);
    for (job, path) in &damaged {
        // The JobManager answers 503 only while the jobs are being read.
        let details = eventually(SOON, &format!("job {job} is answered"), || {
            cluster.block_on(cluster.client().job(job)).ok()
        });
        assert_eq!(details.state, "FAILED", "{job}");
        let log = cluster.jobmanager.as_ref().unwrap().log();
        assert!(log.contains(path.to_str().unwrap()), "{} is not named", path.display());
    }
    cluster.await_state(&healthy, "RUNNING", SOON);
    assert!(cluster.jobmanager.as_mut().unwrap().is_running());
}
