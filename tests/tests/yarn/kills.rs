//! What is killed while a bounded job runs, one at a time: the result stays exact, and there is one application.

use super::application::{Application, WITHIN, jobmanager, options};
use super::common::{bin, eventually, output_lines, request};
use hadoop::yarn::messages::{FinalApplicationStatus, SignalContainerCommand};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rest::client::{ClientTimeouts, RestClient};
use std::path::{Path, PathBuf};
use std::time::Instant;

const COUNT: u64 = 8_000;
const KEYS: u64 = 7;

/// Arguments of a job that takes eight seconds.
fn arguments(out: &Path) -> Vec<String> {
    let (count, keys) = (COUNT.to_string(), KEYS.to_string());
    let out = out.to_str().unwrap();
    let all = ["--count", &count, "--rate", "1000", "--keys", &keys, "--output", out];
    all.map(str::to_owned).to_vec()
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

/// One of Hadoop's own commands for this cluster.
fn hadoops_own(name: &str, args: &[&str]) {
    let conf = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").expect("HADOOP_CONF_DIR"));
    let told = std::process::Command::new(conf.join("../bin").join(name)).args(args).output();
    let told = told.unwrap();
    assert!(told.status.success(), "{args:?}: {}", String::from_utf8_lossy(&told.stderr));
}

/// A daemon of the cluster that is dead. It is started again when this is dropped, and then ready.
struct Daemon(String);

impl Daemon {
    fn kill(name: &str) -> Self {
        hadoops_own("daemon", &["kill", name]);
        Self(name.to_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        hadoops_own("daemon", &["start", &self.0]);
    }
}

/// A session with a job of two subtasks, each on a node of its own.
struct Session {
    application: Application,
    client: RestClient,
    job: String,
    folder: tempfile::TempDir,
}

impl Session {
    fn start() -> Self {
        let options = options(&[("taskmanager.numberOfTaskSlots", "1")]);
        let command = jobmanager("flott", "session");
        let flott = bin("flott");
        let application = Application::submit(&command, &[], &options, &[("flott", &flott)]);
        let (host, port) = application.rest();
        let client = RestClient::new(&host, port, ClientTimeouts::default());
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments(&folder.path().join("sums"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let job = application.block_on(async {
            let jar = client.upload(&bin("sequence_sum"), |_| ()).await.unwrap();
            client.run(jar.jar_id(), &request(&arguments, 2)).await.unwrap().jobid
        });
        let session = Self { application, client, job, folder };
        session.await_running("at first");
        session
    }

    fn await_running(&self, when: &str) {
        eventually(WITHIN, &format!("all tasks run {when}"), || {
            let details = self.application.block_on(self.client.job(&self.job)).ok()?;
            details.vertices.iter().all(|v| v.status == "RUNNING").then_some(())
        });
    }

    /// Processes of TaskManagers, with their containers.
    fn taskmanagers(&self) -> Vec<(Pid, String)> {
        let of = |(pid, command): (u32, String)| {
            let id = command.split("taskmanager.resource-id=").nth(1)?.split(' ').next()?;
            // The shell that waits for it has the same arguments.
            (!command.starts_with("/bin/bash"))
                .then(|| (Pid::from_raw(i32::try_from(pid).unwrap()), id.to_owned()))
        };
        self.application.processes().into_iter().filter_map(of).collect()
    }

    /// The job goes on in other containers, is right in the end, and the session ends without a trace.
    fn survives(self, what: &str, killed: Instant, restarts: bool) {
        if restarts {
            eventually(WITHIN, "the loss is noticed", || {
                let failures = self.application.block_on(self.client.job_exceptions(&self.job));
                (!failures.ok()?.exception_history.entries.is_empty()).then_some(())
            });
            let noticed = killed.elapsed();
            self.await_running("again");
            eprintln!(
                "{what}: noticed after {noticed:?}, all tasks run after {:?}",
                killed.elapsed()
            );
        }
        let mut last = String::new();
        eventually(WITHIN, "the job ends", || {
            let state = self.application.block_on(self.client.job_status(&self.job)).ok()?.status;
            last.clone_from(&state);
            matches!(state.as_str(), "FINISHED" | "FAILED" | "CANCELED").then_some(())
        });
        assert_eq!(last, "FINISHED");
        assert_exact(&self.folder.path().join("sums"));
        self.application.block_on(self.client.shut_down_cluster()).unwrap();
        let report = self.application.ended();
        let (status, why) = (report.final_status(), report.diagnostics());
        assert_eq!(status, FinalApplicationStatus::Succeeded, "{why}");
        let attempts =
            self.application.block_on(self.application.yarn.attempts(self.application.id));
        assert_eq!(attempts.unwrap().len(), 1, "it ran once");
        self.application.is_gone();
    }
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_killed_taskmanager_is_replaced() {
    let session = Session::start();
    let (pid, _) = session.taskmanagers()[0].clone();
    let killed = Instant::now();
    kill(pid, Signal::SIGKILL).unwrap();
    session.survives("TaskManager killed", killed, true);
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_container_that_its_node_kills_is_replaced() {
    let session = Session::start();
    let (_, id) = session.taskmanagers()[0].clone();
    let killed = Instant::now();
    let command = SignalContainerCommand::ForcefulShutdown;
    let (yarn, id) = (&session.application.yarn, id.parse().unwrap());
    session.application.block_on(yarn.signal(id, command)).unwrap();
    session.survives("container killed by its node", killed, true);
}

/// Its containers live on until the ResourceManager calls the node lost.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_lost_node_costs_its_taskmanager_alone() {
    let session = Session::start();
    let master = session.application.report().host().to_owned();
    assert_eq!(master, "localhost");
    // The node that the ApplicationMaster is not on.
    let of_master = session.application.master_node();
    let all = [1, 2].map(|n| format!("nodemanager{n}"));
    let name = all.iter().find(|name| **name != of_master).unwrap();
    let killed = Instant::now();
    let node = Daemon::kill(name);
    eprintln!("{name} killed, the ApplicationMaster is on {of_master}");
    eventually(WITHIN, "the job ends", || {
        let state = session.application.block_on(session.client.job_status(&session.job));
        (state.ok()?.status == "FINISHED").then_some(())
    });
    assert_exact(&session.folder.path().join("sums"));
    eprintln!("node lost: the job ended after {:?}", killed.elapsed());
    drop(node);
    session.survives("NodeManager killed", killed, false);
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_restarted_resourcemanager_is_not_noticed_by_the_job() {
    let session = Session::start();
    let killed = Instant::now();
    drop(Daemon::kill("resourcemanager"));
    eprintln!("ResourceManager restarted after {:?}", killed.elapsed());
    // It is asked for another container all the same.
    let (pid, _) = session.taskmanagers()[0].clone();
    let killed = Instant::now();
    kill(pid, Signal::SIGKILL).unwrap();
    session.survives("TaskManager killed after a restart of the ResourceManager", killed, true);
}

/// The application must not run a second time, although its goodbye finds nobody at first.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_application_that_ends_while_the_resourcemanager_is_away_has_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sums");
    let arguments = serde_json::to_string(&arguments(&out)).unwrap();
    let options = options(&[
        ("pipeline.program-args", &arguments),
        ("parallelism.default", "2"),
        ("resourcemanager.deregister.timeout", "90 s"),
    ]);
    let program = bin("sequence_sum");
    let command = jobmanager("program", "application");
    let role = [("FLOTT_ROLE", "cluster")];
    let application = Application::submit(&command, &role, &options, &[("program", &program)]);
    let (host, port) = application.rest();
    let client = RestClient::new(&host, port, ClientTimeouts::default());
    eventually(WITHIN, "all tasks run", || {
        let jobs = application.block_on(client.jobs_overview()).ok()?.jobs;
        let details = application.block_on(client.job(&jobs.first()?.jid)).ok()?;
        details.vertices.iter().all(|v| v.status == "RUNNING").then_some(())
    });
    let away = Daemon::kill("resourcemanager");
    eventually(WITHIN, "the job ends", || out.exists().then_some(()));
    drop(away);
    let report = application.ended();
    let (status, why) = (report.final_status(), report.diagnostics());
    assert_eq!(status, FinalApplicationStatus::Succeeded, "{why}");
    assert_exact(&out);
    let attempts = application.block_on(application.yarn.attempts(application.id)).unwrap();
    assert_eq!(attempts.len(), 1, "it ran once");
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn nothing_runs_on_after_yarns_own_kill() {
    let session = Session::start();
    assert_eq!(session.taskmanagers().len(), 2);
    let id = session.application.id.to_string();
    hadoops_own("yarn", &["application", "-kill", &id]);
    let killed = Instant::now();
    session.application.ended();
    session.application.has_no_process();
    eprintln!("killed by YARN: no process after {:?}", killed.elapsed());
}
