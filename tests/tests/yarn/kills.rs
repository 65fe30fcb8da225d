//! Kills processes one at a time while a bounded job runs: the result stays exact, and there is one
//! application.

use super::application::{Application, WITHIN, run_in};
use super::common::{Numbers, bin, eventually, output_lines, request};
use hadoop::yarn::messages::SignalContainerCommand;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rest::client::RestClient;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Numbers of a job that takes eight seconds.
const NUMBERS: Numbers = Numbers { count: 8_000, rate: 1_000, keys: 7 };

/// Numbers of a job that takes that many times as long.
fn times(times: u64) -> Numbers {
    Numbers { count: times * NUMBERS.count, ..NUMBERS }
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
    numbers: Numbers,
    folder: tempfile::TempDir,
}

impl Session {
    fn start() -> Self {
        Self::with(NUMBERS)
    }

    fn with(numbers: Numbers) -> Self {
        let application = Application::session(&[("taskmanager.numberOfTaskSlots", "1")]);
        let client = application.client();
        let folder = tempfile::tempdir().unwrap();
        let arguments = numbers.args(&folder.path().join("sums"));
        let job = application.block_on(async {
            let jar = client.upload(&bin("sequence_sum"), |_| ()).await.unwrap();
            client.run(jar.jar_id(), &request(&arguments, 2)).await.unwrap().jobid
        });
        let session = Self { application, client, job, numbers, folder };
        session.await_running("at first");
        // The job has no coordinators, so the JobManager has no host for it.
        assert!(session.application.shows_no_secret() >= 2, "two hosts of tasks");
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

    /// Waits until a failure of the job is shown.
    fn await_failure(&self) {
        eventually(WITHIN, "the loss is noticed", || {
            let failures = self.application.block_on(self.client.job_exceptions(&self.job));
            (!failures.ok()?.exception_history.entries.is_empty()).then_some(())
        });
    }

    /// Checks that the job continues in other containers, that its result is right, and that the
    /// session ends without a trace.
    fn survives(self, what: &str, killed: Instant, restarts: bool) {
        if restarts {
            self.await_failure();
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
        assert_eq!(output_lines(&self.folder.path().join("sums")), self.numbers.sums());
        self.application.block_on(self.client.shut_down_cluster()).unwrap();
        self.application.has_succeeded();
        assert_eq!(self.application.attempts().len(), 1, "it ran once");
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

/// The node's containers live on when it is killed. When YARN's ResourceManager declares the node
/// lost, after ten seconds, they are asked to end.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_lost_node_costs_its_taskmanager_alone() {
    let session = Session::with(times(3));
    let killed = Instant::now();
    let node = Daemon::kill(&session.application.other_node());
    session.await_failure();
    eprintln!("NodeManager killed: lost after {:?}", killed.elapsed());
    session.survives("NodeManager killed", killed, true);
    drop(node);
}

/// The node's directory is a file: nothing can be put there, and nothing starts.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_node_on_which_every_start_fails_is_avoided_until_it_has_been_repaired() {
    let application = Application::session(&[
        ("taskmanager.numberOfTaskSlots", "1"),
        ("resourcemanager.start-worker.retry-interval", "300 ms"),
    ]);
    let client = application.client();
    let other = application.other_node();
    let number = other.trim_start_matches("nodemanager");
    let conf = PathBuf::from(std::env::var_os("HADOOP_CONF_DIR").unwrap());
    let local = conf.parent().unwrap().join("nodes").join(number).join("local");
    let (cache, away) = (local.join("usercache"), local.join("usercache.away"));
    std::fs::rename(&cache, &away).unwrap();
    std::fs::write(&cache, "").unwrap();

    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, parallelism: u32| {
        let (began, out) = (Instant::now(), folder.path().join(name));
        let numbers = Numbers { count: 1_000, ..NUMBERS };
        run_in(&client, parallelism, "sequence_sum", &numbers.args(&out));
        assert_eq!(output_lines(&out), numbers.sums());
        began.elapsed()
    };
    let broken = run("broken", 2);
    std::fs::remove_file(&cache).unwrap();
    std::fs::rename(&away, &cache).unwrap();
    // More than the first node holds.
    let repaired = run("repaired", 4);
    eprintln!("one node of two broken: {broken:?}; repaired: {repaired:?}");
    application.block_on(client.shut_down_cluster()).unwrap();
    application.has_succeeded();
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_restarted_resourcemanager_is_not_noticed_by_the_job() {
    // A busy machine takes longer for the restart than the shorter job runs.
    let session = Session::with(times(3));
    let killed = Instant::now();
    drop(Daemon::kill("resourcemanager"));
    eprintln!("ResourceManager restarted after {:?}", killed.elapsed());
    // It is asked for another container all the same.
    let (pid, _) = session.taskmanagers()[0].clone();
    let killed = Instant::now();
    kill(pid, Signal::SIGKILL).unwrap();
    session.survives("TaskManager killed after a restart of the ResourceManager", killed, true);
}

/// Jobs are cancelled while their containers are asked for, granted, launched and registered.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn cancelled_jobs_leave_no_container() {
    let application = Application::session(&[
        ("taskmanager.numberOfTaskSlots", "1"),
        ("resourcemanager.taskmanager-timeout", "1 s"),
    ]);
    let client = application.client();
    let folder = tempfile::tempdir().unwrap();
    let arguments = times(100).args(&folder.path().join("sums"));
    let jar = application.block_on(client.upload(&bin("sequence_sum"), |_| ())).unwrap();
    let attempt = application.attempts().first().unwrap().application_attempt_id.unwrap();
    // The ApplicationMaster's is one of them.
    let running = || {
        let all = application.block_on(application.yarn.containers(attempt)).unwrap();
        all.iter().filter(|container| container.finish_time() == 0).count()
    };
    let workers = || application.block_on(client.task_managers()).unwrap().taskmanagers.len();
    let processes = || {
        let all = application.processes();
        all.iter().filter(|(_, c)| c.starts_with("./flott taskmanager")).count()
    };
    let stages: [&dyn Fn() -> bool; 5] =
        [&|| true, &|| running() > 1, &|| running() > 3, &|| processes() > 0, &|| workers() > 1];
    for stage in stages.iter().chain(&stages) {
        let job = application.block_on(client.run(jar.jar_id(), &request(&arguments, 4))).unwrap();
        eventually(WITHIN, "it has come so far", || stage().then_some(()));
        application.block_on(client.cancel(&job.jobid)).unwrap();
    }
    eventually(WITHIN, "all containers are let go", || {
        (running() == 1 && processes() == 0 && workers() == 0).then_some(())
    });
    application.block_on(client.shut_down_cluster()).unwrap();
    application.ended();
    application.is_gone();
}

/// Without high availability nothing survives: the second attempt runs the job from its beginning,
/// in containers of its own.
fn second_attempt(what: &str, ends: impl Fn(&Application)) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sums");
    let two = ("parallelism.default", "2");
    let application =
        Application::of_program(2, "sequence_sum", &json!(NUMBERS.args(&out)), &[two]);
    let first = application.rest();
    eventually(WITHIN, "its TaskManager runs", || {
        let processes = application.processes();
        processes.iter().any(|(_, c)| c.starts_with("./program taskmanager")).then_some(())
    });
    let killed = Instant::now();
    ends(&application);
    eventually(WITHIN, "the second attempt runs", || {
        (application.attempts().len() == 2 && application.rest() != first).then_some(())
    });
    eprintln!("{what}: the second attempt runs after {:?}", killed.elapsed());
    application.has_succeeded();
    assert_eq!(output_lines(&out), NUMBERS.sums());
    assert_eq!(application.attempts().len(), 2);
    application.is_gone();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_killed_applicationmaster_is_started_again() {
    second_attempt("ApplicationMaster killed", |application| {
        let processes = application.processes();
        let master = processes.iter().find(|(_, c)| c.starts_with("./program jobmanager")).unwrap();
        kill(Pid::from_raw(i32::try_from(master.0).unwrap()), Signal::SIGKILL).unwrap();
    });
}

/// The attempt must not unregister the application, which continues without it.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_attempt_that_yarn_has_ended_leaves_the_application_to_the_next_one() {
    second_attempt("attempt ended by YARN", |application| {
        let first = application.attempts().first().unwrap().application_attempt_id.unwrap();
        application.block_on(application.yarn.fail_attempt(first)).unwrap();
    });
}

/// The application must not run a second time, although its goodbye finds nobody at first.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_application_that_ends_while_the_resourcemanager_is_away_has_succeeded() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sums");
    let more = [("parallelism.default", "2"), ("resourcemanager.deregister.timeout", "90 s")];
    let application = Application::of_program(1, "sequence_sum", &json!(NUMBERS.args(&out)), &more);
    let client = application.client();
    eventually(WITHIN, "all tasks run", || {
        let jobs = application.block_on(client.jobs_overview()).ok()?.jobs;
        let details = application.block_on(client.job(&jobs.first()?.jid)).ok()?;
        details.vertices.iter().all(|v| v.status == "RUNNING").then_some(())
    });
    let away = Daemon::kill("resourcemanager");
    eventually(WITHIN, "the job ends", || out.exists().then_some(()));
    drop(away);
    application.has_succeeded();
    assert_eq!(output_lines(&out), NUMBERS.sums());
    assert_eq!(application.attempts().len(), 1, "it ran once");
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

mod failover {
    use super::*;

    /// With two ResourceManagers the application continues under the other one.
    #[test]
    #[ignore = "needs the YARN of `cargo xtask yarn up --ha`"]
    fn another_resourcemanager_takes_the_application_over() {
        let session = Session::with(times(4));
        // Whichever is the active one now, the other one is afterwards.
        for name in ["resourcemanager1", "resourcemanager2"] {
            drop(Daemon::kill(name));
        }
        let (pid, _) = session.taskmanagers()[0].clone();
        let killed = Instant::now();
        kill(pid, Signal::SIGKILL).unwrap();
        session.survives("TaskManager killed after both ResourceManagers in turn", killed, true);
    }
}
