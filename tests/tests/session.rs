//! A session of one JobManager and three TaskManagers: the command line and plain REST, attached and
//! detached, two programs at once, any order of starts, too few slots, application mode.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{
    Cluster, ENDLESS, Numbers, Process, SOON, bin, eventually, expected_counts, free_port, ha,
    output_lines, program, repository_text, request, run, runs, sorted_lines, succeeded,
};
use gateways::TraceContext;
use platform::testing::Authority;
use rest::client::{ClientError, RestClient};
use rest::messages::{BlockNodeBody, CheckpointBody, SavepointBody, StopBody};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn an_attached_run_prints_what_the_embedded_one_prints() {
    let cluster = Cluster::start(&[], 3);
    let text = repository_text();
    let (program, text_arg) = (program("word_count"), text.to_str().unwrap());
    let last = [&*program, "--input", text_arg, "--parallelism", "3"];
    let attached = succeeded(cluster.flott(&["run", "-p", "3"], &last));
    let embedded = succeeded(run("word_count", ["--input", text_arg, "--parallelism", "2"]));
    assert_eq!(sorted_lines(&attached.stdout), expected_counts(&text));
    assert_eq!(sorted_lines(&embedded.stdout), sorted_lines(&attached.stdout));
}

#[test]
fn a_detached_run_goes_on_by_itself_and_is_listed() {
    let cluster = Cluster::start(&[], 3);
    let text = repository_text();
    let out = cluster.folder.path().join("counts");
    let (input, output) = (text.to_str().unwrap(), out.to_str().unwrap());
    let program = program("word_count");
    let last = [&*program, "--input", input, "--output", output, "--parallelism", "2"];
    let run = succeeded(cluster.flott(&["run", "-d", "--output", "json"], &last));
    let submitted: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let job = submitted["jobid"].as_str().unwrap();
    cluster.await_state(job, "FINISHED", SOON);
    assert_eq!(output_lines(&out), expected_counts(&text));
    let list = cluster.flott(&["list", "-a", "--output", "json"], &[]);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list["jobs"][0]["jid"], job);
    assert_eq!(list["jobs"][0]["state"], "FINISHED");
}

#[test]
fn logs_of_every_process_are_listed_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(&[("log.dir", folder.path().to_str().unwrap())], 2);
    let list = succeeded(cluster.flott(&["logs", "--output", "json"], &[]));
    let files: Vec<serde_json::Value> = serde_json::from_slice(&list.stdout).unwrap();
    let mut processes: Vec<&str> = files.iter().filter_map(|f| f["process"].as_str()).collect();
    processes.dedup();
    assert_eq!(processes.len(), 3, "{files:?}");
    let of = |process: &str| files.iter().find(|f| f["process"] == process).unwrap();
    let all = cluster.flott(&["logs"], &[]);
    let all = String::from_utf8(all.stdout).unwrap();
    for process in processes {
        let file = of(process)["file"].as_str().unwrap();
        let one = cluster.flott(&["logs", "--process", process, "--file", file], &[]);
        let written = std::fs::read(folder.path().join(file)).unwrap();
        assert!(!one.stdout.is_empty() && written.starts_with(&one.stdout), "{process}: {file}");
        assert!(all.contains(&format!("==> {process} on ")), "{all}");
    }
    let none = cluster.flott(&["logs", "--file", "no-such.log"], &[]);
    assert_eq!(none.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&none.stderr).contains("no such log files"));
}

/// A program host normalises the options that a program sets, so that one under an older name takes the place of the cluster's own.
#[test]
fn an_option_of_the_program_under_another_name_wins_over_the_clusters_own() {
    let folder = tempfile::tempdir().unwrap();
    let [of_cluster, of_program] =
        ["cluster", "program"].map(|name| format!("file://{}/{name}", folder.path().display()));
    let cluster = Cluster::start(&[("execution.checkpointing.dir", &of_cluster)], 1);
    let directory = |args: &[&str]| {
        let job = cluster.submit(&bin("large_graph"), &request(args, 1));
        cluster.await_state(&job, "FINISHED", SOON);
        cluster.block_on(cluster.client().checkpoint_config(&job)).unwrap().checkpoint_storage
    };
    assert_eq!(directory(&["1"]), of_cluster);
    let set = format!("state.checkpoints.dir={of_program}");
    assert_eq!(directory(&["1", &set]), of_program);
}

#[test]
fn curl_alone_is_enough() {
    let cluster = Cluster::start(&[], 1);
    let base = format!("http://127.0.0.1:{}", cluster.rest_port);
    let curl = |args: &[&str]| -> serde_json::Value {
        let out = Command::new("curl").arg("-sS").args(args).output().unwrap();
        serde_json::from_slice(&succeeded(out).stdout).unwrap()
    };
    let text = repository_text();
    let out = cluster.folder.path().join("counts");
    let form = format!("jarfile=@{}", bin("word_count").display());
    let uploaded = curl(&["-F", &form, &format!("{base}/jars/upload")]);
    assert_eq!(uploaded["status"], "success");
    let jar = uploaded["filename"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    let body = serde_json::json!({
        "programArgsList": ["--input", text, "--output", out, "--parallelism", "1"],
    });
    let run = curl(&["-d", &body.to_string(), &format!("{base}/v1/jars/{jar}/run")]);
    let job = run["jobid"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned();
    cluster.await_state(&job, "FINISHED", SOON);
    assert_eq!(output_lines(&out), expected_counts(&text));
    let details = curl(&[&format!("{base}/jobs/{job}")]);
    assert_eq!(details["state"], "FINISHED");
    let source = details["vertices"][0].clone();
    assert!(source["metrics"]["write-records"].as_u64().unwrap() > 0, "{source}");
    let missing = curl(&[&format!("{base}/jobs/{:032x}", 1)]);
    assert!(missing["errors"][0].as_str().unwrap().contains("not known"), "{missing}");
    let listed = curl(&[&format!("{base}/jars")]);
    assert_eq!(listed["files"][0]["name"], "word_count");
}

#[test]
fn two_programs_share_one_session() {
    let cluster = Cluster::start(&[], 3);
    let text = repository_text();
    let (first, second) =
        (cluster.folder.path().join("counts"), cluster.folder.path().join("sums"));
    let words = cluster.count_words(text.to_str().unwrap(), &first, "1");
    let sums = cluster.sum(Numbers { count: 2_000, rate: 1_000, keys: 10 }, &second, 1);
    cluster.await_state(&words, "FINISHED", SOON);
    cluster.await_state(&sums, "FINISHED", SOON);
    assert_eq!(output_lines(&first), expected_counts(&text));
    let total: u64 = output_lines(&second)
        .iter()
        .map(|l| l.split('\t').nth(1).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, 2000);
}

#[test]
fn taskmanagers_may_come_first() {
    let mut cluster = Cluster::new(&[]);
    let platform = platform::Platform::production();
    let options = conf::Options::from_map(cluster.options.clone()).unwrap();
    deploy::cluster_files::ClusterFiles::of(&options).make(&platform).unwrap();
    cluster.start_taskmanager(&[]);
    cluster.start_taskmanager(&[]);
    for tm in &mut cluster.taskmanagers {
        assert!(tm.is_running());
    }
    cluster.start_jobmanager();
    cluster.await_taskmanagers(2);
}

#[test]
fn a_job_that_needs_more_slots_than_there_are_says_so() {
    let cluster = Cluster::start(&[("resourcemanager.standalone.start-up-time", "1 s")], 2);
    let text = repository_text();
    let last = [&*program("word_count"), "--input", text.to_str().unwrap(), "--parallelism", "8"];
    let run = cluster.flott(&["run"], &last);
    assert_eq!(run.status.code(), Some(3));
    let why = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(why.contains("needs 8 slots") && why.contains("2 registered"), "{why}");
}

#[test]
fn an_application_runs_its_own_program_and_ends() {
    let mut cluster = Cluster::new(&[]);
    let text = repository_text();
    let out = cluster.folder.path().join("counts");
    let program = program("word_count");
    let (input, output) = (text.to_str().unwrap(), out.to_str().unwrap());
    let first = ["jobmanager", "--mode", "application", "--output", "json", "--program", &*program];
    let last = ["--", "--input", input, "--output", output, "--parallelism", "2"];
    let ready = cluster.start_jobmanager_with(&bin("flott"), &first, &last);
    assert!(ready["rest"].as_str().unwrap().starts_with("http://"));
    let refused = cluster.block_on(cluster.client().jars()).unwrap_err();
    assert_eq!(refused.status(), Some(403), "{refused}");
    // One TaskManager is the program itself, the other one fetches it.
    cluster.start_taskmanager(&["--program", &program]);
    cluster.start_taskmanager(&[]);
    let mut jobmanager = cluster.jobmanager.take().unwrap();
    assert_eq!(jobmanager.wait(SOON), 0, "{}", jobmanager.log());
    assert_eq!(output_lines(&out), expected_counts(&text));
}

/// Writes the configuration that the scripts read, with this many workers on this host. Returns what runs a script with the
/// real binary, and returns what it has said when it succeeded.
fn scripts(cluster: &Cluster, workers: usize) -> impl Fn(&str, &[&str]) -> String {
    let folder = cluster.folder.path().to_owned();
    let lines = cluster.options.iter().map(|(key, value)| format!("{key}: {value}\n"));
    std::fs::write(folder.join("flott.yaml"), lines.collect::<String>()).unwrap();
    std::fs::write(folder.join("workers"), "localhost\n".repeat(workers)).unwrap();
    move |name, words| {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/bin");
        let mut command = Command::new(scripts.join(name));
        command.env("FLOTT_CONF_DIR", &folder).env("FLOTT_BINARY", bin("flott"));
        command.env("FLOTT_LOG_DIR", folder.join("log")).env("FLOTT_IDENT_STRING", "test");
        command.env_remove("FLOTT_PID_DIR").env_remove("FLOTT_SSH_OPTS");
        let output = command.args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }
}

/// The processes that a role's pid file names.
fn pids(cluster: &Cluster, daemon: &str) -> Vec<i32> {
    let file = cluster.folder.path().join(format!("pid/flott-test-{daemon}.pid"));
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|pid| pid.parse().unwrap()).collect()
}

/// Stops what the scripts have started when a test fails.
struct Stopping<F: Fn(&str, &[&str]) -> String>(F);
impl<F: Fn(&str, &[&str]) -> String> Drop for Stopping<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)("stop-cluster.sh", &[]);
        }
    }
}

#[test]
fn the_scripts_start_and_stop_a_cluster_of_the_real_binary() {
    let cluster = Cluster::new(&[("parallelism.default", "2")]);
    let running = Stopping(scripts(&cluster, 2));
    let script = &running.0;
    let said = script("start-cluster.sh", &[]);
    assert_eq!(said.matches("started ").count(), 3, "{said}");
    assert!(said.contains(&format!("REST http://localhost:{}", cluster.rest_port)), "{said}");
    cluster.await_taskmanagers(2);
    assert!(script("taskmanager.sh", &["start"]).contains("started taskmanager on "));
    cluster.await_taskmanagers(3);
    assert_eq!((pids(&cluster, "jobmanager").len(), pids(&cluster, "taskmanager").len()), (1, 3));
    let text = repository_text();
    let words = ["run", &*program("word_count"), "--input", text.to_str().unwrap()];
    let counted = sorted_lines(script("flott", &words).as_bytes());
    assert!(expected_counts(&text).iter().all(|line| counted.contains(line)), "{counted:?}");
    assert!(script("flott", &["list", "-a"]).contains("FINISHED"));
    // A host logs the options of its cluster.
    let logs = cluster.folder.path().join("log").read_dir().unwrap();
    let mut logs = logs.map(|entry| entry.unwrap().path());
    let host = logs.find(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.contains("taskmanager") && name.contains("-host-") && name.ends_with(".log")
    });
    let host = std::fs::read_to_string(host.unwrap()).unwrap();
    assert!(
        host.contains("role: program host") && host.contains("option: parallelism.default = 2"),
        "{host}"
    );
    let all: Vec<i32> =
        ["jobmanager", "taskmanager"].into_iter().flat_map(|role| pids(&cluster, role)).collect();
    script("taskmanager.sh", &["stop"]);
    assert_eq!(pids(&cluster, "taskmanager").len(), 2);
    let said = script("stop-cluster.sh", &[]);
    assert_eq!(said.matches("stopping ").count(), 3, "{said}");
    assert!(!all.iter().any(|pid| runs(*pid)), "{all:?}");
    assert_eq!((pids(&cluster, "jobmanager"), pids(&cluster, "taskmanager")), (vec![], vec![]));
}

#[test]
fn an_application_that_has_ended_leaves_no_process_and_no_pid_file() {
    let cluster = Cluster::new(&[]);
    let folder = cluster.folder.path();
    // More than the job waits for: it may be over before the last one is up.
    let script = scripts(&cluster, 3);
    let (program, text) = (program("word_count"), repository_text());
    script("flott", &["run-application", &program, "--", "--input", text.to_str().unwrap()]);
    let pids = |daemon: &str| folder.join(format!("pid/flott-test-{daemon}.pid"));
    eventually(SOON, "all processes end and take their pids out", || {
        let left = pids("standalone-job").exists() || pids("taskmanager").exists();
        (!left).then_some(())
    });
    assert!(script("standalone-job.sh", &["stop"]).contains("no standalone-job to stop"));
    assert!(script("taskmanager.sh", &["stop-all"]).contains("no taskmanager to stop"));
    let results = folder.join("log").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let results = results.filter(|path| path.to_string_lossy().contains("standalone-job"));
    let results: Vec<_> =
        results.filter(|path| path.extension().is_some_and(|e| e == "out")).collect();
    let counted = output_lines(&results[0]);
    assert!(expected_counts(&text).iter().all(|line| counted.contains(line)), "{counted:?}");
}

#[test]
fn a_job_bound_to_its_client_is_cancelled_when_the_client_is_killed() {
    let mut cluster = Cluster::start(&[], 1);
    let out = cluster.folder.path().join("sums");
    let mut command = cluster.command(&bin("flott"), &["run", "-sae"]);
    command.args(["-D", "client.heartbeat.timeout=1 s"]);
    command.args(["-D", "client.heartbeat.interval=200 ms"]);
    command.arg(bin("sequence_sum")).args(ENDLESS.args(&out));
    let mut client = cluster.spawn("client", command);
    let list = || cluster.block_on(cluster.client().jobs_overview()).unwrap().jobs;
    let job = eventually(SOON, "the job runs", || {
        list().into_iter().find(|job| job.state == "RUNNING").map(|job| job.jid)
    });
    // Longer than the time-out: the client's beats arrive.
    std::thread::sleep(Duration::from_secs(2));
    cluster.await_state(&job, "RUNNING", SOON);
    client.kill();
    cluster.await_state(&job, "CANCELED", SOON);
}

#[test]
fn no_value_of_an_option_is_an_argument_of_a_process() {
    const SECRET: &str = "correct horse battery staple";
    let cluster = Cluster::new(&[]);
    let script = scripts(&cluster, 2);
    let define = format!("program.password={SECRET}");
    let words = ["run-application", "-D", &define, &*program("sequence_sum")].map(str::to_owned);
    let words = [&words[..], &ENDLESS.args(&cluster.folder.path().join("sums"))].concat();
    script("flott", &words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut seen = 0;
    for daemon in ["standalone-job", "taskmanager"] {
        for pid in pids(&cluster, daemon) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(line.contains("--define-file\0-"), "{line}");
            assert!(!line.contains("horse"), "{line}");
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
    // It has arrived all the same.
    let config = cluster.block_on(cluster.client().configuration()).unwrap();
    let password = config.iter().find(|entry| entry.key == "program.password").unwrap();
    assert_eq!(password.value, "******");
    script("standalone-job.sh", &["stop"]);
    script("taskmanager.sh", &["stop-all"]);
}

#[test]
fn a_job_can_be_cancelled() {
    let cluster = Cluster::start(&[], 1);
    let out = cluster.folder.path().join("sums");
    let job = cluster.sum(ENDLESS, &out, 1);
    cluster.await_state(&job, "RUNNING", SOON);
    succeeded(cluster.flott(&["cancel"], &[&job]));
    cluster.await_state(&job, "CANCELED", SOON);
    assert!(!out.exists(), "a cancelled job shows nothing");
    let again = cluster.flott(&["cancel"], &[&job]);
    assert_eq!(again.status.code(), Some(1));
}

#[test]
fn a_blocked_node_gets_no_job_until_it_is_unblocked() {
    let cluster = Cluster::start(&[], 1);
    cluster.await_taskmanagers(1);
    let client = cluster.client();
    let node = cluster.block_on(client.task_managers()).unwrap().taskmanagers[0].host.clone();
    let json = |args: &[&str]| -> serde_json::Value {
        let all: Vec<&str> =
            ["block-node", "--output", "json"].iter().chain(args).copied().collect();
        serde_json::from_slice(&succeeded(cluster.flott(&all, &[])).stdout).unwrap()
    };
    let blocked = json(&["--for", "1h", "--cause", "disk", &node]);
    assert_eq!(blocked["nodes"][0]["taskmanagers"], 1);
    assert_eq!(blocked["nodes"][0]["remaining"], 3_600_000);
    let job = cluster.submit(&bin("sequence_sum"), &request(&["--count", "10"], 1));
    eventually(SOON, "the TaskManager is shown as blocked", || {
        let overview = cluster.block_on(client.overview()).unwrap();
        (overview.taskmanagers_blocked == 1 && overview.slots_free_and_blocked == 1).then_some(())
    });
    let listed = cluster.flott(&["block-node", "--list"], &[]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains(&node) && listed.trim_end().ends_with("disk"), "{listed}");
    let status = cluster.block_on(client.job_status(&job)).unwrap();
    assert_eq!(status.status, "RUNNING", "it waits for a slot");
    assert_eq!(json(&["--unblock", &node])["unblocked"][0], node.as_str());
    cluster.await_state(&job, "FINISHED", SOON);
    let again = cluster.flott(&["block-node", "--unblock", &node], &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("is not blocked"));
    let odd = succeeded(cluster.flott(&["block-node", "--for", "1h", "a\u{1b}[2J"], &[])).stdout;
    let odd = String::from_utf8(odd).unwrap();
    assert!(odd.starts_with("node a\\u{1b}[2J is blocked"), "{odd}");
    let log = cluster.jobmanager.as_ref().unwrap().log();
    for what in ["node blocked", "node unblocked"] {
        let line = log.lines().find(|line| line.contains(what)).unwrap();
        assert!(line.contains(" trace="), "{line}");
    }
}

#[test]
fn the_cluster_ends_when_told_by_rest() {
    let mut cluster = Cluster::start(&[], 1);
    cluster.block_on(cluster.client().shut_down_cluster()).unwrap();
    let mut jobmanager = cluster.jobmanager.take().unwrap();
    assert_eq!(jobmanager.wait(SOON), 0, "{}", jobmanager.log());
}

/// The start of the names of blobs' files, and of the objects each of which completes a program's copy.
const BLOB: &str = "permanent-";
const COPY: &str = "whole.";

/// Returns the files below a folder whose names start with `prefix`.
fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        // One that has just gone holds nothing.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let named = entry.file_name().to_string_lossy().starts_with(prefix);
            if path.is_dir() {
                folders.push(path);
            } else if named {
                found.push(path);
            }
        }
    }
    found
}

fn await_copies(folder: &Path, count: usize) {
    eventually(SOON, &format!("copies of {count} programs are left"), || {
        (files(folder, COPY).len() == count).then_some(())
    });
}

#[test]
fn programs_go_with_their_last_job_and_uploaded_ones_with_their_upload() {
    let storage = tempfile::tempdir().unwrap();
    let uri = format!("file://{}", storage.path().display());
    let mut cluster = Cluster::start(&ha(&uri), 2);
    let text = repository_text();
    let (count, words) = (bin("word_count"), ["--input", text.to_str().unwrap()]);
    for _ in 0..2 {
        succeeded(cluster.flott(&["run"], &[&[count.to_str().unwrap()], &words[..]].concat()));
        await_copies(storage.path(), 0);
    }
    // A program that stays uploaded stays available, and is not copied again for the next job.
    let jar = cluster.block_on(cluster.client().upload(&count, |_| ())).unwrap();
    let mut copies = Vec::new();
    for _ in 0..2 {
        let run =
            cluster.block_on(cluster.client().run(jar.jar_id(), &request(&words, 1))).unwrap();
        cluster.await_state(&run.jobid, "FINISHED", SOON);
        let inodes: Vec<u64> =
            files(storage.path(), COPY).iter().map(|path| path.metadata().unwrap().ino()).collect();
        copies.push(inodes);
    }
    assert!(copies[0].len() == 1 && copies[0] == copies[1], "{copies:?}");
    cluster.block_on(cluster.client().delete_jar(jar.jar_id())).unwrap();
    await_copies(storage.path(), 0);
    // A stopped process leaves what the jobs need that have not ended, and nothing else.
    cluster.block_on(cluster.client().upload(&count, |_| ())).unwrap();
    let slow = request(&["--count", "100000000", "--rate", "100"], 1);
    let job = cluster.submit(&bin("sequence_sum"), &slow);
    let counted = cluster.submit(&count, &request(&words, 1));
    cluster.await_state(&counted, "FINISHED", SOON);
    cluster.await_state(&job, "RUNNING", SOON);
    await_copies(storage.path(), 2);
    let mut stopped = cluster.jobmanager.take().unwrap();
    stopped.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(stopped.wait(SOON), 0, "{}", stopped.log());
    assert_eq!(files(storage.path(), COPY).len(), 1);
    assert_eq!(files(storage.path(), BLOB), Vec::<PathBuf>::new());
    cluster.start_jobmanager();
    cluster.await_taskmanagers(2);
    cluster.await_state(&job, "RUNNING", SOON);
    // A cluster that is over leaves nothing.
    cluster.block_on(cluster.client().shut_down_cluster()).unwrap();
    let mut ended = cluster.jobmanager.take().unwrap();
    assert_eq!(ended.wait(SOON), 0, "{}", ended.log());
    assert!(!storage.path().join("default/programs").exists());
}

#[test]
fn without_ha_a_stopped_jobmanager_leaves_nothing_in_the_blob_folder() {
    let folder = tempfile::tempdir().unwrap();
    let options = [("blob.storage.directory", folder.path().to_str().unwrap())];
    let mut cluster = Cluster::start(&options, 1);
    let slow = request(&["--count", "100000000", "--rate", "100"], 1);
    let job = cluster.submit(&bin("sequence_sum"), &slow);
    cluster.await_state(&job, "RUNNING", SOON);
    assert_eq!(files(folder.path(), BLOB).len(), 1);
    let mut stopped = cluster.jobmanager.take().unwrap();
    stopped.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(stopped.wait(SOON), 0, "{}", stopped.log());
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn results_of_a_job_with_large_parallelism_are_exact() {
    let cluster = Cluster::start(&[("taskmanager.numberOfTaskSlots", "4")], 3);
    let text = repository_text();
    for parallelism in ["1", "5", "12"] {
        let out = cluster.folder.path().join(format!("counts-{parallelism}"));
        let job = cluster.count_words(text.to_str().unwrap(), &out, parallelism);
        cluster.await_state(&job, "FINISHED", SOON);
        assert_eq!(output_lines(&out), expected_counts(&text), "parallelism {parallelism}");
    }
    // Slots come back: nothing of ended jobs holds them.
    eventually(Duration::from_secs(20), "all slots are free again", || {
        let overview = cluster.block_on(cluster.client().overview()).ok()?;
        (overview.slots_available == 12).then_some(())
    });
}

#[test]
fn with_internal_tls_jobs_run_and_data_ports_answer_nothing_but_tls() {
    let folder = tempfile::tempdir().unwrap();
    let pem = Authority::new().issue(&["localhost"]);
    let mut options = vec![
        ("security.ssl.internal.enabled".to_owned(), "true".to_owned()),
        ("taskmanager.host".to_owned(), "localhost".to_owned()),
        ("log.dir".to_owned(), folder.path().join("log").display().to_string()),
    ];
    for (name, text) in [("ca", &pem.authority), ("cert", &pem.chain), ("key", &pem.key)] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        options.push((format!("security.ssl.internal.{name}"), file.display().to_string()));
    }
    let options: Vec<(&str, &str)> = options.iter().map(|(k, v)| (&**k, &**v)).collect();
    let mut cluster = Cluster::start(&options, 0);
    let ports = [free_port(), free_port()];
    for port in ports {
        cluster.start_taskmanager(&["-D", &format!("taskmanager.data.port={port}")]);
    }
    cluster.await_taskmanagers(2);
    let text = repository_text();
    let out = cluster.folder.path().join("counts");
    let job = cluster.count_words(text.to_str().unwrap(), &out, "2");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_eq!(output_lines(&out), expected_counts(&text));

    let job = cluster.sum(ENDLESS, &cluster.folder.path().join("sums"), 2);
    cluster.await_state(&job, "RUNNING", SOON);
    let mut stream = eventually(SOON, "a program host listens", || {
        ports.iter().find_map(|port| std::net::TcpStream::connect(("localhost", *port)).ok())
    });
    stream.set_read_timeout(Some(SOON)).unwrap();
    // As a process without TLS begins: the length of a greeting, and its magic.
    stream.write_all(b"\x00\x57FLOT\x01\x01\x00").unwrap();
    let mut answer = [0; 3];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [0x15, 3, 3], "an alert of TLS");
    // A flood of strangers costs the job nothing, and its log ten lines at most.
    let address = stream.peer_addr().unwrap();
    for _ in 0..50 {
        let mut stranger = std::net::TcpStream::connect(address).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // Ends with the connection; the alert may be lost when it is reset.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    let logs = files(&folder.path().join("log"), "flott-");
    let logs: String = logs.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let refused = logs.matches("a connection to the data port was refused").count();
    assert!((1..=10).contains(&refused), "{refused} lines: {logs}");
    cluster.await_state(&job, "RUNNING", SOON);
    succeeded(cluster.flott(&["cancel"], &[&job]));
}

#[test]
fn one_submission_is_one_trace_in_the_logs_of_jobmanager_and_taskmanager() {
    let cluster = Cluster::start(&[], 1);
    let text = repository_text();
    let run = |out: &str, trace: Option<TraceContext>| {
        let out = cluster.folder.path().join(out);
        let (text, out) = (text.to_str().unwrap(), out.to_str().unwrap());
        let request = request(&["--input", text, "--output", out], 1);
        let client = cluster.client().with_trace(trace.unwrap_or(TraceContext::NONE));
        let job = cluster.block_on(async {
            let jar = client.upload(&bin("word_count"), |_| ()).await.unwrap();
            client.run(jar.jar_id(), &request).await.unwrap().jobid
        });
        cluster.await_state(&job, "FINISHED", SOON);
        job
    };
    // The trace of the line about a job, in the log of a process.
    let trace_of = |process: &Process, what: &str, job: &str| {
        eventually(
            SOON,
            &format!("'{what}' of job {job} is in the log of {}", process.name),
            || {
                let log = process.log();
                let line = log.lines().find(|line| line.contains(what) && line.contains(job))?;
                let (_, trace) = line.rsplit_once(" trace=").unwrap_or_else(|| panic!("{line}"));
                Some(u128::from_str_radix(trace, 16).unwrap())
            },
        )
    };
    let (jobmanager, taskmanager) =
        (cluster.jobmanager.as_ref().unwrap(), &cluster.taskmanagers[0]);
    let logs = || [jobmanager, taskmanager].map(Process::log);
    let traces = |job: &str| {
        [
            trace_of(jobmanager, "program host is up", job),
            trace_of(jobmanager, "job submitted", job),
            trace_of(jobmanager, "JobMaster started", job),
            trace_of(jobmanager, "JobMaster registered", job),
            trace_of(taskmanager, "program host is up", job),
            trace_of(jobmanager, "the job has ended", job),
        ]
    };
    let named = TraceContext { trace: 0x5eed_0000_0000_0000_0000_0000_0000_0007, span: 1 };
    eventually(SOON, "the TaskManager has registered", || {
        taskmanager.log().contains("registered at the ResourceManager").then_some(())
    });
    let before = logs();
    let job = run("one", Some(named));
    assert_eq!(traces(&job), [named.trace; 6]);
    for (process, last) in [(jobmanager, "job removed"), (taskmanager, "program host has ended")] {
        assert_eq!(trace_of(process, last, &job), named.trace);
    }
    for (log, before) in logs().iter().zip(&before) {
        let lines = log.strip_prefix(before.as_str()).unwrap();
        assert_eq!(events_without(lines, named), [""; 0]);
        assert!(lines.contains(&job), "{lines}");
    }
    // A request that names none gets one of its own.
    let [first, second] = [run("two", None), run("three", None)].map(|job| traces(&job));
    assert_ne!(first, second);
    for [trace, others @ ..] in [first, second] {
        assert!(trace != 0 && trace != named.trace);
        assert_eq!(others, [trace; 5]);
    }
}

#[test]
fn a_program_host_logs_in_the_trace_of_its_jobs_submission() {
    let logs = tempfile::tempdir().unwrap();
    let options = [("log.dir", logs.path().to_str().unwrap()), ("log.level", "info,host=debug")];
    let cluster = Cluster::start(&options, 1);
    let named = TraceContext { trace: 0x5eed_0000_0000_0000_0000_0000_0000_0008, span: 1 };
    let client = cluster.client().with_trace(named);
    let job = cluster.block_on(async {
        let jar = client.upload(&bin("sequence_sum"), |_| ()).await.unwrap();
        let request = request(&["--count", "100", "--keys", "7"], 1);
        client.run(jar.jar_id(), &request).await.unwrap().jobid
    });
    cluster.await_state(&job, "FINISHED", SOON);
    let files = logs.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let of_host = |name: &str| {
        name.contains("taskmanager") && name.contains("-host-") && name.ends_with(".log")
    };
    let host = files.filter(|path| of_host(path.file_name().unwrap().to_str().unwrap()));
    let [host] = &host.collect::<Vec<_>>()[..] else { panic!("one host has run") };
    let host = std::fs::read_to_string(host).unwrap();
    assert!(host.contains("task state"), "{host}");
    assert!(host.contains("deploy::environment: starting"), "{host}");
    assert_eq!(events_without(&host, named), [""; 0]);
}

/// Returns the events of a log that do not end with the trace, each as one line.
fn events_without(log: &str, trace: TraceContext) -> Vec<String> {
    let ends = format!(" trace={:032x}", trace.trace);
    // Each further line of an event begins so.
    let events = log.replace("\n    | ", " | ");
    events.lines().filter(|event| !event.ends_with(&ends)).map(str::to_owned).collect()
}

/// The log files of a cluster's processes, program hosts included, and how far they were read.
struct Logs<'a> {
    cluster: &'a Cluster,
    folder: &'a Path,
    read: BTreeMap<PathBuf, usize>,
    requests: u128,
}

impl Logs<'_> {
    /// Returns the lines that were added since the last request, by their files.
    fn added(&self) -> BTreeMap<PathBuf, String> {
        let logs = self.folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
        let logs = logs.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
        logs.map(|path| {
            let mut log = std::fs::read_to_string(&path).unwrap();
            log.drain(..self.read.get(&path).copied().unwrap_or(0));
            (path, log)
        })
        .collect()
    }

    /// Makes a request in a trace of its own. Waits until the logs have got a line with each of these texts, as often as it says, and
    /// panics unless all lines that they have got are in the trace.
    fn ask<T>(
        &mut self,
        ends: &[(&str, usize)],
        request: impl AsyncFnOnce(RestClient) -> Result<T, ClientError>,
    ) -> T {
        self.requests += 1;
        let trace = TraceContext { trace: (0x5eed << 112) + self.requests, span: 1 };
        let client = self.cluster.client().with_trace(trace);
        let answer = self.cluster.block_on(request(client)).unwrap();
        eventually(SOON, &format!("the logs say {ends:?}"), || {
            let added: String = self.added().into_values().collect();
            let is_there = |(end, times): &(&str, usize)| added.matches(end).count() >= *times;
            ends.iter().all(is_there).then_some(())
        });
        for (path, log) in self.added() {
            let without = events_without(&log, trace);
            assert_eq!(without, [""; 0], "of request {} in {}", self.requests, path.display());
            *self.read.entry(path).or_default() += log.len();
        }
        answer
    }
}

/// All processes log what a request makes them do in its trace: also what follows after the answer, and what the request makes of a job that
/// another one has submitted. The job takes no checkpoints by itself meanwhile, whose lines would be no request's.
#[test]
fn every_request_is_a_trace_of_its_own_in_the_logs_of_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let below = |name: &str| folder.path().join(name).display().to_string();
    let (log, checkpoints, savepoints) = (below("log"), below("checkpoints"), below("savepoints"));
    let options = [
        ("log.dir", log.as_str()),
        ("log.level", "info,host=debug"),
        ("execution.checkpointing.interval", "1h"),
        ("execution.checkpointing.dir", checkpoints.as_str()),
        ("execution.checkpointing.savepoint-dir", savepoints.as_str()),
    ];
    let mut cluster = Cluster::start(&options, 1);
    let [mut jobmanager, mut taskmanager] =
        [cluster.jobmanager.take().unwrap(), cluster.taskmanagers.remove(0)];
    let (logs, requests) = (Path::new(&log), 0);
    let mut logs = Logs { cluster: &cluster, folder: logs, read: BTreeMap::new(), requests };
    eventually(SOON, "the TaskManager has registered", || {
        let log: String = logs.added().into_values().collect();
        log.contains("registered at the ResourceManager").then_some(())
    });
    logs.read = logs.added().into_iter().map(|(path, log)| (path, log.len())).collect();

    let upload = async |client: RestClient| client.upload(&bin("sequence_sum"), |_| ()).await;
    let jar = logs.ask(&[], upload);
    let other = logs.ask(&[], async |client| client.upload(&bin("word_count"), |_| ()).await);
    logs.ask(&[], async |client| client.delete_jar(other.jar_id()).await);
    let numbers = request(&ENDLESS.args(&folder.path().join("sums")), 1);
    // The host that built the graph ends at once, because the job has no coordinators.
    let runs = [("state=RUNNING", 3), ("program host has ended", 1)];
    let run = async |client: RestClient| client.run(jar.jar_id(), &numbers).await;
    let job = logs.ask(&runs, run).jobid;
    logs.ask(&[], async |client| {
        let _ = (client.overview().await?, client.jobs_overview().await?, client.job(&job).await?);
        let _ = (client.job_exceptions(&job).await?, client.checkpoints(&job).await?);
        let _ = (client.task_managers().await?, client.logs().await?);
        client.jars().await
    });
    let now = CheckpointBody::default();
    let complete = [("checkpoint complete", 1)];
    logs.ask(&complete, async |client| client.trigger_checkpoint(&job, &now).await);
    let (now, complete) = (SavepointBody::default(), [("savepoint complete", 1)]);
    logs.ask(&complete, async |client| client.savepoint(&job, &now).await);
    let (nothing, failed) = (below("nothing"), [("the disposal of one, has failed", 1)]);
    logs.ask(&failed, async |client| client.dispose_savepoint(&nothing).await);
    let block = BlockNodeBody::default();
    logs.ask(&[("node blocked", 1)], async |client| client.block_node("other", &block).await);
    logs.ask(&[("node unblocked", 1)], async |client| client.unblock_node("other").await);
    let ended = [("job removed", 1), ("program host has ended", 1), ("state=CANCELED", 3)];
    logs.ask(&ended, async |client| client.cancel(&job).await);

    // A job with a coordinator has a host beside the JobManager too. This one reads for a quarter of an hour.
    let ranges = request(&[&below("squares"), "10000"], 1);
    let runs = [("state=RUNNING", 1)];
    let job = logs.ask(&runs, async |client| {
        let jar = client.upload(&bin("paced_ranges"), |_| ()).await?;
        client.run(jar.jar_id(), &ranges).await
    });
    let job = job.jobid;
    let ended = [("job removed", 1), ("program host has ended", 2), ("savepoint complete", 1)];
    let stop = StopBody::default();
    logs.ask(&ended, async |client| client.stop(&job, &stop).await);

    logs.ask(&[("state=RUNNING", 3), ("program host has ended", 1)], run);
    let ended = [("Dispatcher stopped", 1), ("TaskManager is shutting down", 1)];
    logs.ask(&ended, async |client| client.shut_down_cluster().await);
    assert_eq!([jobmanager.wait(SOON), taskmanager.wait(SOON)], [0, 0]);
    let shutdown = TraceContext { trace: (0x5eed << 112) + logs.requests, span: 1 };
    for (path, log) in logs.added() {
        assert_eq!(events_without(&log, shutdown), [""; 0], "{}", path.display());
    }
}

#[test]
fn a_jobmanager_that_is_bound_to_the_ipv6_loopback_runs_jobs() {
    let loopback = std::net::TcpListener::bind("[::1]:0");
    assert!(loopback.is_ok(), "the test needs IPv6 on the loopback interface: {loopback:?}");
    let options = [("jobmanager.rpc.address", "[::1]"), ("jobmanager.bind-host", "[::1]")];
    let mut cluster = Cluster::new(&options);
    let ready = cluster.start_jobmanager().to_string();
    assert!(ready.contains(&format!("\"[::1]:{}\"", cluster.rpc_port)), "{ready}");
    assert!(std::net::TcpStream::connect(("127.0.0.1", cluster.rpc_port)).is_err());
    cluster.start_taskmanager(&[]);
    cluster.await_taskmanagers(1);
    let text = repository_text();
    let out = cluster.folder.path().join("counts");
    let job = cluster.count_words(text.to_str().unwrap(), &out, "1");
    cluster.await_state(&job, "FINISHED", SOON);
    assert_eq!(output_lines(&out), expected_counts(&text));
}

/// Number of jobs with log files of program hosts, by the log file of the process that they are beside.
fn jobs_with_logs(folder: &Path) -> BTreeMap<String, usize> {
    let mut jobs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Some((process, rest)) = name.split_once("-host-") {
            let job = rest.split('.').next().unwrap_or_default();
            jobs.entry(process.to_owned()).or_default().insert(job.to_owned());
        }
    }
    jobs.into_iter().map(|(process, jobs)| (process, jobs.len())).collect()
}

/// Seven jobs run at once, so that each process has seven logs: of the JobManager's eight program hosts one is reserved for builds. Then 60
/// short jobs, of which at most 8 run at once. The logs of 3 that have ended are kept.
#[test]
fn a_burst_of_short_jobs_leaves_the_logs_of_a_few() {
    const KEPT: usize = 3;
    const AT_ONCE: usize = 8;
    const LASTING: usize = AT_ONCE - 1;
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("log");
    let cluster = Cluster::start(
        &[
            ("log.dir", logs.to_str().unwrap()),
            ("log.jobs.max", &KEPT.to_string()),
            ("taskmanager.numberOfTaskSlots", &AT_ONCE.to_string()),
            ("taskmanager.memory.process.size", "3g"),
            ("jobmanager.program-hosts.max", &AT_ONCE.to_string()),
        ],
        1,
    );
    let client = cluster.client();
    let run = |name: &str, args: &[&str], count: usize| -> Vec<String> {
        cluster.block_on(async {
            let jar = client.upload(&bin(name), |_| ()).await.unwrap();
            let request = request(args, 1);
            let run = (0..count).map(|_| client.run(jar.jar_id(), &request));
            let jobs = futures::future::join_all(run).await;
            jobs.into_iter().map(|job| job.unwrap().jobid).collect()
        })
    };
    let states = |jobs: &[String], state: &str| {
        let list = cluster.block_on(client.jobs_overview()).ok()?;
        let there = list.jobs.iter().filter(|job| job.state == state && jobs.contains(&job.jid));
        (there.count() == jobs.len()).then_some(())
    };
    let lasting = run("sequence_sum", &["--count", "1000000", "--rate", "10"], LASTING);
    eventually(SOON, "each process has a log of each running job", || {
        let kept = jobs_with_logs(&logs);
        (kept.len() == 2 && kept.values().all(|jobs| *jobs == LASTING)).then_some(())
    });
    for job in &lasting {
        succeeded(cluster.flott(&["cancel"], &[job]));
    }
    eventually(SOON, "the lasting jobs are cancelled", || states(&lasting, "CANCELED"));
    let jobs = run("sequence_sum", &["--count", "100", "--keys", "7"], 60);
    eventually(10 * SOON, "all jobs have finished", || {
        for (process, jobs) in jobs_with_logs(&logs) {
            assert!(jobs <= KEPT + AT_ONCE, "{process} keeps the logs of {jobs} jobs");
        }
        states(&jobs, "FINISHED")
    });
    eventually(SOON, "the logs of a few are kept", || {
        let kept = jobs_with_logs(&logs);
        // The last hosts of the JobManager still serve the results of their jobs.
        let max = |process: &str| if process.contains("jobmanager") { AT_ONCE } else { KEPT };
        kept.iter().all(|(process, jobs)| *jobs <= max(process)).then_some(())
    });
}
