//! Hosts as real processes. This binary is test runner and program at once: started with the role of a program
//! host it is one, so it brings its own `main`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod common;

use common::{programs, *};
use gateways::{CallError, TraceContext, program_host::*};
use host::launch::{self, ExitCause, LaunchError, LaunchSpec, LaunchedHost};
use model::{ExecutionState as S, JobId, ProcessSession};
use platform::{
    Platform,
    testing::{Authority, Wiretap},
};
use std::{
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

const ANSWER_WITHIN: Duration = Duration::from_secs(10);

type Test = fn() -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        const TESTS: &[(&str, Test)] = &[$((stringify!($name), || Box::pin($name()))),+];
    };
}

tests!(
    words_are_counted_by_three_processes,
    a_killed_host_is_noticed_at_once,
    a_host_is_killed_with_what_it_has_started,
    a_host_ends_with_the_socket_to_its_parent,
    a_silent_parent_ends_the_host_and_a_living_one_does_not,
    code_that_does_not_return_costs_its_own_process_only,
    a_slow_function_is_cancelled_behind_the_record_at_work,
    a_stalled_consumer_holds_no_more_than_the_network_memory,
    a_host_that_is_told_to_end_ends_well,
    what_is_no_host_is_told_with_its_last_words,
    a_stack_overflow_at_the_start_is_told_by_its_signal,
    a_stack_overflow_of_a_task_is_told_with_its_name,
    a_launch_that_is_given_up_leaves_no_process,
    a_launch_without_descriptors_left_is_told_apart_and_leaves_none_open,
    nothing_of_the_parents_environment_reaches_the_host,
    another_data_key_fails_the_tasks_and_names_the_peer,
    no_record_crosses_the_wire_in_clear_with_tls,
    a_panic_in_a_child_is_a_failed_task_and_not_a_dead_process,
);

fn main() -> ExitCode {
    streaming::program_note::mark();
    if std::env::var_os("DIE").is_some() {
        eprintln!("what a day");
        return ExitCode::from(7);
    }
    if let Some(file) = std::env::var_os("SILENT") {
        std::fs::write(file, std::process::id().to_string()).unwrap();
        loop {
            std::thread::park();
        }
    }
    if std::env::var_os("OVERFLOW").is_some() {
        return ExitCode::from(recurse(&[0; 4096]));
    }
    if std::env::var_os(host::child::ROLE_VARIABLE).is_some() {
        return host::child::run(programs::entry());
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let mut failed = Vec::new();
    for (name, test) in TESTS {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match catch_unwind(AssertUnwindSafe(|| runtime.block_on(test()))) {
            Ok(()) => println!("test {name} ... ok"),
            Err(_) => {
                println!("test {name} ... FAILED");
                failed.push(*name);
            }
        }
    }
    println!("{} failed: {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Calls itself until the stack is full.
#[expect(unconditional_recursion, reason = "it is to overflow")]
fn recurse(frame: &[u8; 4096]) -> u8 {
    let next = std::hint::black_box(*frame);
    recurse(&next).wrapping_add(next[0])
}

struct Child {
    launched: LaunchedHost,
    host: Host,
    pid: u32,
    logs: PathBuf,
}

fn spec(cluster: &Cluster, program: PathBuf, n: u64) -> LaunchSpec {
    let dir = cluster.tmp.path().join(format!("child-{n}"));
    let work_dir = dir.join("work");
    std::fs::create_dir_all(&work_dir).unwrap();
    LaunchSpec {
        program,
        job_id: JOB,
        session: session(n),
        parent: cluster.rpc.node().clone(),
        trace: TraceContext::NONE,
        work_dir,
        tmp_dir: dir.clone(),
        env: BTreeMap::from([("DECLARED".to_owned(), "yes".to_owned())]),
        stdout: dir.join("out"),
        stderr: dir.join("err"),
        output_mode: 0o600,
    }
}

async fn launch(cluster: &Cluster) -> Child {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(500);
    let n = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let spec = spec(cluster, std::env::current_exe().unwrap(), n);
    let logs = spec.tmp_dir.clone();
    let launched = launch::host(&cluster.rpc, spec, ANSWER_WITHIN).await.unwrap();
    let host = cluster.host(&launched.address);
    let pid = launched.address.pid.unwrap();
    Child { launched, host, pid, logs }
}

/// Returns a cluster with a host for coordinators, and one that is started with these options for tasks.
async fn hosts(options: &[(&str, &str)]) -> (Cluster, Child, Child) {
    let cluster = Cluster::start().await;
    let coordinators = launch(&cluster).await;
    let mut worker = launch(&cluster).await;
    worker.start(cluster.start_host(options)).await;
    (cluster, coordinators, worker)
}

impl Child {
    async fn start(&mut self, start: StartHost) {
        let started = soon("the host to start", self.host.gateway.ask(start)).await.unwrap();
        self.host.data_address = started.data_address;
    }

    async fn exit(self) -> ExitCause {
        soon("the end of the process", self.launched.exited).await
    }
}

/// Ended, but its parent has not asked how.
fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/stat")).exists()
}

async fn words_are_counted_by_three_processes() {
    let mut cluster = Cluster::start().await;
    let coordinators = launch(&cluster).await;
    let (mut a, mut b) = (launch(&cluster).await, launch(&cluster).await);
    let start = cluster.start_host(&[]);
    a.start(start.clone()).await;
    b.start(start).await;
    let text = text(cluster.tmp.path(), "text", &"a b c a b a\n".repeat(1_000));
    let graph = cluster.build(&coordinators.host, 4, &["words", &text]).await;
    let attempts = deploy(&graph, &[&a.host, &b.host], 0).await;
    cluster.all(S::Finished, attempts.len()).await;
    let lines: Vec<String> = results(&coordinators.host, &graph).await.into_iter().collect();
    assert_eq!(lines, ["a\t3000", "b\t2000", "c\t1000"]);
}

async fn a_killed_host_is_noticed_at_once() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators.host, 2, &["forever"]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    cluster.all(S::Running, attempts.len()).await;
    let pid = i32::try_from(worker.pid).unwrap();
    let killed = Instant::now();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    let gateway = worker.host.gateway.clone();
    assert_eq!(worker.exit().await, ExitCause::Signal(9));
    assert!(killed.elapsed() < Duration::from_millis(500), "{:?}", killed.elapsed());
    let gone = soon("an answer", gateway.ask(ParentAlive {})).await;
    assert!(matches!(gone, Err(CallError::Fabric(_))), "{gone:?}");
    // The other process has not noticed anything.
    coordinators.host.gateway.ask(ParentAlive {}).await.unwrap();
}

async fn a_host_is_killed_with_what_it_has_started() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let pid_file = cluster.tmp.path().join("grandchild");
    let path = pid_file.display().to_string();
    let graph = cluster.build(&coordinators.host, 1, &["starts-a-process", &path]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    cluster.all(S::Running, attempts.len()).await;
    let grandchild = soon("the process that user code starts", async {
        loop {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n').and_then(|pid| pid.parse::<u32>().ok()) {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(alive(grandchild));
    // Somebody waits for the host's end all the while: killing must not wait for that.
    let asked = Instant::now();
    worker.launched.kill.kill();
    assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    let again = worker.launched.kill.clone();
    assert_eq!(worker.exit().await, ExitCause::Signal(9));
    again.kill();
    soon("the end of what it has started", async {
        while alive(grandchild) && !is_zombie(grandchild) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn a_host_ends_with_the_socket_to_its_parent() {
    // Without the fabric in between: the socket is closed although both processes live.
    let cluster = Cluster::start().await;
    let spec = spec(&cluster, std::env::current_exe().unwrap(), 900);
    let started = launch::start(spec).await.unwrap();
    assert!(alive(started.pid));
    drop(started.stream);
    assert_eq!(soon("its end", started.exited).await, ExitCause::Signal(9));
}

async fn a_silent_parent_ends_the_host_and_a_living_one_does_not() {
    let cluster = Cluster::start().await;
    let mut worker = launch(&cluster).await;
    let mut start = cluster.start_host(&[]);
    start.heartbeat_timeout_ms = 1_000;
    worker.start(start).await;
    // Longer than the 600 ms of silence that are allowed.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        worker.host.gateway.ask(ParentAlive {}).await.unwrap();
    }
    let heard = Instant::now();
    assert_eq!(worker.exit().await, ExitCause::Signal(9));
    let after = heard.elapsed();
    assert!(
        after > Duration::from_millis(450) && after < Duration::from_millis(1_000),
        "{after:?}"
    );
}

async fn code_that_does_not_return_costs_its_own_process_only() {
    let (mut cluster, coordinators, worker) =
        hosts(&[("task.cancellation.timeout", "200ms")]).await;
    let entered = cluster.tmp.path().join("entered");
    let graph = cluster.build(&coordinators.host, 1, &["loop", &entered.to_string_lossy()]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    made(&entered).await;
    let asked = Instant::now();
    worker.host.cancel(attempts.clone()).await;
    cluster.all(S::Canceling, attempts.len()).await;
    assert_eq!(worker.exit().await, ExitCause::Signal(9));
    assert!(asked.elapsed() >= Duration::from_millis(200));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    coordinators.host.gateway.ask(ParentAlive {}).await.unwrap();
}

async fn a_slow_function_is_cancelled_behind_the_record_at_work() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let begun = cluster.tmp.path().join("begun");
    let graph = cluster.build(&coordinators.host, 1, &["slow", &begun.to_string_lossy()]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    let records = || std::fs::metadata(&begun).map_or(0, |file| file.len());
    soon("three records", async {
        while records() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    worker.host.cancel(attempts.clone()).await;
    let asked = records();
    cluster.all(S::Canceled, attempts.len()).await;
    // The one at work, and one that may have begun before the task heard of it.
    assert!(records() <= asked + 1, "{} records were begun after {asked}", records() - asked);
}

async fn a_stalled_consumer_holds_no_more_than_the_network_memory() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let before = resident_kib(worker.pid);
    let stalled = cluster.tmp.path().join("stalled");
    std::fs::write(&stalled, "").unwrap();
    let graph =
        cluster.build(&coordinators.host, 2, &["stalled", &stalled.to_string_lossy()]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    cluster.all(S::Running, attempts.len()).await;
    // Until it grows no more.
    let mut most = before;
    soon("the producers to stop", async {
        let mut unchanged = 0;
        while unchanged < 20 {
            tokio::time::sleep(Duration::from_millis(25)).await;
            let now = resident_kib(worker.pid);
            unchanged = if now > most { 0 } else { unchanged + 1 };
            most = most.max(now);
        }
    })
    .await;
    // 16 MiB of network memory, the batches in the hands of four tasks, and what the allocator keeps of each thread.
    assert!(most - before < 48 * 1_024, "{before} KiB before, {most} KiB at most");
    worker.host.cancel(attempts.clone()).await;
    std::fs::remove_file(&stalled).unwrap();
    cluster.all(S::Canceled, attempts.len()).await;
}

/// Returns the resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

async fn a_host_that_is_told_to_end_ends_well() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators.host, 2, &["forever"]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    cluster.all(S::Running, attempts.len()).await;
    worker.host.gateway.ask(EndHost {}).await.unwrap();
    assert_eq!(worker.exit().await, ExitCause::Code(0));
    coordinators.host.gateway.ask(EndHost {}).await.unwrap();
    assert_eq!(coordinators.exit().await, ExitCause::Code(0));
}

async fn what_is_no_host_is_told_with_its_last_words() {
    let cluster = Cluster::start().await;
    let script = cluster.tmp.path().join("script");
    std::fs::write(&script, "#!/bin/sh\ntouch executed\n").unwrap();
    let mut permissions = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&script, permissions).unwrap();
    let spec_of_script = spec(&cluster, script, 901);
    let executed = spec_of_script.work_dir.join("executed");
    let error = launch::host(&cluster.rpc, spec_of_script, ANSWER_WITHIN).await.unwrap_err();
    assert!(error.to_string().contains("is not a Flott program"), "{error}");
    assert!(!executed.exists(), "it was not even started");
    let mut dying = spec(&cluster, std::env::current_exe().unwrap(), 903);
    dying.env.insert("DIE".to_owned(), "yes".to_owned());
    let error = launch::host(&cluster.rpc, dying, ANSWER_WITHIN).await.unwrap_err();
    match &error {
        LaunchError::Ended { exit: ExitCause::Code(7), log_tail } => {
            assert_eq!(log_tail, "what a day");
        }
        other => panic!("{other}"),
    }
    let absent = spec(&cluster, PathBuf::from("/no/such/program"), 902);
    let error = launch::host(&cluster.rpc, absent, ANSWER_WITHIN).await.unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

async fn a_stack_overflow_at_the_start_is_told_by_its_signal() {
    let cluster = Cluster::start().await;
    let mut overflowing = spec(&cluster, std::env::current_exe().unwrap(), 904);
    overflowing.env.insert("OVERFLOW".to_owned(), "yes".to_owned());
    let error = launch::host(&cluster.rpc, overflowing, ANSWER_WITHIN).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("SIGABRT") && said.contains("overflowed its stack"), "{said}");
}

async fn a_stack_overflow_of_a_task_is_told_with_its_name() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators.host, 1, &["overflow"]).await;
    deploy(&graph, &[&worker.host], 0).await;
    let stderr = worker.logs.join("err");
    let exit = worker.exit().await;
    assert_eq!(exit, ExitCause::Signal(6));
    let said = launch::overflowed_stack(exit, &stderr, 0).unwrap();
    assert!(said.contains("deep") && said.contains("(1/1)"), "{said}");
    assert!(said.ends_with("has overflowed its stack"), "{said}");
    // What the file had before this process is not its own; a file that was emptied has nothing before it.
    let len = std::fs::metadata(&stderr).unwrap().len();
    assert_eq!(launch::overflowed_stack(exit, &stderr, len), None);
    assert_eq!(launch::overflowed_stack(exit, &stderr, len + 1), Some(said));
    assert_eq!(launch::overflowed_stack(ExitCause::Code(6), &stderr, 0), None);
}

async fn a_launch_that_is_given_up_leaves_no_process() {
    let cluster = Cluster::start().await;
    let file = cluster.tmp.path().join("pid");
    let mut silent = spec(&cluster, std::env::current_exe().unwrap(), 905);
    silent.env.insert("SILENT".to_owned(), file.display().to_string());
    tokio::select! {
        biased;
        launched = launch::host(&cluster.rpc, silent, ANSWER_WITHIN) => panic!("{launched:?}"),
        () = made(&file) => {}
    }
    let pid = soon("the process's id", async {
        loop {
            if let Ok(pid) = std::fs::read_to_string(&file).unwrap().parse() {
                break pid;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let pid = pid.await;
    soon("its end", async {
        while alive(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

/// Waits until exactly `files` descriptors are open, because a background task closes connections.
async fn only_open(files: u64) {
    let begin = Instant::now();
    while open_files() != files {
        assert!(begin.elapsed() < ANSWER_WITHIN, "{} open instead of {files}", open_files());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn a_launch_without_descriptors_left_is_told_apart_and_leaves_none_open() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let cluster = Cluster::start().await;
    let before = open_files();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The limit rises by one descriptor each time, from none free, so that each step of a launch once finds no
    // descriptor.
    let mut refused = 0;
    for more in 0..64 {
        let next = spec(&cluster, std::env::current_exe().unwrap(), 950 + more);
        setrlimit(Resource::RLIMIT_NOFILE, before - 1 + more, hard).unwrap();
        let launched = launch::host(&cluster.rpc, next, ANSWER_WITHIN).await;
        setrlimit(Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        match launched {
            Err(error) => {
                assert!(error.is_no_room(), "{error}");
                only_open(before).await;
                refused += 1;
            }
            Ok(launched) => {
                launched.kill.kill();
                launched.exited.await;
                only_open(before).await;
                break;
            }
        }
    }
    assert!((2..64).contains(&refused), "{refused}");
}

async fn nothing_of_the_parents_environment_reaches_the_host() {
    let cluster = Cluster::start().await;
    let mut worker = launch(&cluster).await;
    worker.start(cluster.start_host(&[])).await;
    let environment = std::fs::read(format!("/proc/{}/environ", worker.pid)).unwrap();
    let mut names: Vec<String> = environment
        .split(|b| *b == 0)
        .filter(|v| !v.is_empty())
        .map(|v| String::from_utf8_lossy(v).split('=').next().unwrap().to_owned())
        .collect();
    names.sort();
    let own = [
        "FLOTT_HOST_JOB",
        "FLOTT_HOST_PARENT",
        "FLOTT_HOST_SESSION",
        "FLOTT_HOST_TMP",
        "FLOTT_HOST_TRACE",
        "FLOTT_ROLE",
    ];
    assert_eq!(names[0], "DECLARED");
    assert_eq!(names[1..], own);
    let arguments = std::fs::read(format!("/proc/{}/cmdline", worker.pid)).unwrap();
    for secret in [&environment, &arguments] {
        assert!(!secret.windows(KEY.len()).any(|w| w == KEY));
    }
    // It has no descriptor of this process but its own three and what it opened itself.
    let ours = std::fs::read_link(worker.logs.join("out")).unwrap_or(worker.logs.join("out"));
    let stdout = std::fs::read_link(format!("/proc/{}/fd/1", worker.pid)).unwrap();
    assert_eq!(stdout, ours);
    for log in ["out", "err"] {
        let permissions = std::fs::metadata(worker.logs.join(log)).unwrap().permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&permissions);
        assert_eq!(mode & 0o777, 0o600, "what programs print is for this user alone");
    }
    let stdin = std::fs::read_link(format!("/proc/{}/fd/0", worker.pid)).unwrap();
    assert_eq!(stdin, Path::new("/dev/null"));
    let cwd = std::fs::read_link(format!("/proc/{}/cwd", worker.pid)).unwrap();
    assert_eq!(cwd, worker.logs.join("work"));
}

async fn another_data_key_fails_the_tasks_and_names_the_peer() {
    let mut cluster = Cluster::start().await;
    let coordinators = launch(&cluster).await;
    let (mut a, mut b) = (launch(&cluster).await, launch(&cluster).await);
    a.start(cluster.start_host(&[])).await;
    let mut other = cluster.start_host(&[]);
    other.data_key = b"some other key, not of this job!".to_vec();
    b.start(other).await;
    let graph = cluster.build(&coordinators.host, 2, &["shuffle", "1000"]).await;
    deploy(&graph, &[&a.host, &b.host], 0).await;
    let newest =
        cluster.until("a failure", |newest| newest.values().any(|u| u.state == S::Failed)).await;
    let cause = newest.values().find_map(|u| u.cause.clone()).unwrap();
    assert_eq!(cause.kind, "DataConnectionFailed");
    assert!(cause.message.contains("handshake"), "{cause}");
    let named = [&a, &b].iter().any(|c| cause.message.contains(c.host.data_address.as_str()));
    assert!(named, "{cause}");
}

async fn no_record_crosses_the_wire_in_clear_with_tls() {
    let words: Vec<String> = (0..40).map(|n| format!("a-secret-word-{n:04}")).collect();
    for tls in [None, Some(Authority::new().issue(&["127.0.0.1"]))] {
        // Every data connection has one end in this process, whichever of the two hosts dials.
        let wire = Wiretap::default();
        let platform = Platform::production_on(Arc::new(wire.clone()));
        let mut cluster = Cluster::start_on(platform).await;
        let (_, coordinators) = cluster.in_process(&programs::entry()).await;
        let (_, mut a) = cluster.in_process(&programs::entry()).await;
        let mut b = launch(&cluster).await;
        let start = StartHost { data_tls: tls.clone(), ..cluster.start_host(&[]) };
        a.data_address = a.gateway.ask(start.clone()).await.unwrap().data_address;
        b.start(start).await;
        let text = text(cluster.tmp.path(), "text", &words.join(" ").repeat(100));
        let graph = cluster.build(&coordinators, 4, &["words", &text]).await;
        let attempts = deploy(&graph, &[&a, &b.host], 0).await;
        cluster.all(S::Finished, attempts.len()).await;
        assert!(wire.len() > 1_000, "{} bytes crossed the wire", wire.len());
        let in_clear = words.iter().filter(|word| wire.saw(word.as_bytes())).count();
        assert_eq!(in_clear > 0, tls.is_none(), "{in_clear} words are on the wire in clear");
        let Some(tls) = tls else { continue };
        let line = tls.key.lines().nth(1).unwrap().as_bytes();
        let process = PathBuf::from(format!("/proc/{}", b.pid));
        for place in ["environ", "cmdline"].map(|file| process.join(file)) {
            let bytes = std::fs::read(&place).unwrap();
            assert!(!bytes.windows(line.len()).any(|w| w == line), "{}", place.display());
        }
        for log in ["out", "err"].map(|file| b.logs.join(file)) {
            let bytes = std::fs::read(&log).unwrap();
            assert!(!bytes.windows(line.len()).any(|w| w == line), "{}", log.display());
        }
    }
}

async fn a_panic_in_a_child_is_a_failed_task_and_not_a_dead_process() {
    let (mut cluster, coordinators, worker) = hosts(&[]).await;
    let graph = cluster.build(&coordinators.host, 1, &["panic"]).await;
    let attempts = deploy(&graph, &[&worker.host], 0).await;
    let newest =
        cluster.until("a failure", |newest| newest.values().any(|u| u.state == S::Failed)).await;
    let cause = newest.values().find_map(|u| u.cause.clone()).unwrap();
    assert!(cause.message.contains("five hundred"), "{cause}");
    worker.host.cancel(attempts).await;
    worker.host.gateway.ask(ParentAlive {}).await.unwrap();
    let log = std::fs::read_to_string(worker.logs.join("err")).unwrap();
    assert!(log.contains("five hundred is too much"), "its log has it too: {log}");
    let _: (JobId, ProcessSession) = (JOB, worker.launched.address.session);
}
