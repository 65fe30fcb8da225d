//! Flink's own client against a cluster of ours: every call that its `RestClusterClient` makes of a running cluster ends without an
//! exception, and its command line (`flink savepoint`, `stop`, `checkpoint`, `cancel`, `list`) does what it says. `cargo xtask
//! flink-client` builds the client and runs this.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly, and measures real time")]

mod common;

use common::{Cluster, SOON, bin, request};
use std::path::Path;
use std::process::{Command, Output};

/// The directory with the client's jar and, in `jars`, those of Flink.
const CLIENT: &str = "FLINK_CLIENT";

/// Returns a JVM with Flink's client in its class path, before the name of a class.
fn java() -> Command {
    let folder = std::env::var(CLIENT).expect("cargo xtask flink-client names the client's folder");
    let mut java = Command::new("java");
    java.arg("-cp").arg(format!("{folder}/client.jar:{folder}/jars/*"));
    java
}

/// Makes the calls, and returns what each has printed.
fn calls(cluster: &Cluster, steps: &[String]) -> Vec<String> {
    let mut java = java();
    java.args(["check.Client", "127.0.0.1", &cluster.rest_port.to_string()]).args(steps);
    let output = java.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{steps:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs Flink's client: cargo xtask flink-client"]
fn flinks_own_client_understands_every_answer() {
    let folder = tempfile::tempdir().unwrap();
    let savepoints = folder.path().display();
    let options = [("taskmanager.numberOfTaskSlots", "4"), ("restart-strategy.type", "none")];
    let cluster = Cluster::start(&options, 1);
    let run = |program, args: &[&str]| cluster.submit(&bin(program), &request(args, 1));
    let (running, stopped) = (run("ticker", &["--rate", "100"]), run("ticker", &["--rate", "100"]));
    let finished = run("sequence_sum", &["--count", "100"]);
    let failed = run("sequence_sum", &["--count", "100", "--fail-at", "5"]);
    for (job, state) in [(&running, "RUNNING"), (&finished, "FINISHED"), (&failed, "FAILED")] {
        cluster.await_state(job, state, SOON);
    }
    let mut steps = vec!["list".to_owned(), "overview".to_owned()];
    for job in [&running, &finished] {
        steps.extend(["details", "status", "plan"].map(|verb| format!("{verb}={job}")));
    }
    steps.push(format!("result={finished}"));
    steps.push(format!("result={failed}"));
    steps.push(format!("savepoint={running}={savepoints}"));
    steps.push(format!("checkpoints={running}"));
    steps.push(format!("stop={stopped}={savepoints}"));
    steps.push(format!("cancel={running}"));
    let told = calls(&cluster, &steps);
    assert_eq!(told.len(), steps.len(), "{told:?}");
    for job in [&running, &stopped, &finished, &failed] {
        assert!(told[0].contains(job.as_str()), "{}", told[0]);
    }
    assert_eq!(told[1], "overview: 1 TaskManagers");
    assert_eq!(told[2..5], ["details: 2 vertices", "status: RUNNING", "plan: 2 nodes"]);
    assert_eq!(told[6], "status: FINISHED");
    assert_eq!(told[8], "result: SUCCEEDED");
    assert!(
        told[9].starts_with("result: FAILED because of UserError: task 'sequence"),
        "{}",
        told[9]
    );
    assert!(told[9].contains("--fail-at asks the job to fail"), "{}", told[9]);
    assert_eq!(
        told[11],
        "checkpoints: 1 completed, newest is savepoint true, latest true, 2 vertices, 1 subtasks"
    );
    for line in [&told[10], &told[12]] {
        let path = line.split_once(": ").unwrap().1;
        assert!(std::path::Path::new(path).join("_metadata").is_file(), "{line}");
    }
    cluster.await_state(&stopped, "FINISHED", SOON);
    cluster.await_state(&running, "CANCELED", SOON);
    let path = told[10].split_once(": ").unwrap().1;
    assert_eq!(calls(&cluster, &[format!("dispose=={path}")]), ["dispose: disposed"]);
    assert!(!std::path::Path::new(path).join("_metadata").exists());
}

/// Runs `flink …` with the configuration in `conf`.
fn flink(conf: &Path, args: &[&str]) -> Output {
    let mut java = java();
    java.arg("org.apache.flink.client.cli.CliFrontend").args(args);
    java.env("FLINK_CONF_DIR", conf).output().unwrap()
}

/// Runs `flink …`, which must succeed, and returns what it has printed.
fn done(conf: &Path, args: &[&str]) -> String {
    let Output { status, stdout, stderr } = flink(conf, args);
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "flink {args:?}: {out}{err}");
    out.into_owned()
}

/// Returns the folder that `flink savepoint` and `flink stop` print.
fn savepoint_of(printed: &str) -> &Path {
    let path = printed.lines().find_map(|line| line.strip_prefix("Savepoint completed. Path: "));
    let path = Path::new(path.unwrap_or_else(|| panic!("no path: {printed}")));
    assert!(path.join("_metadata").is_file(), "{printed}");
    path
}

#[test]
#[ignore = "needs Flink's client: cargo xtask flink-client"]
fn flinks_own_command_line_takes_savepoints_stops_jobs_with_them_and_disposes_of_them() {
    let cluster = Cluster::start(&[("taskmanager.numberOfTaskSlots", "4")], 1);
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path();
    let rest = format!("rest.address: 127.0.0.1\nrest.port: {}\n", cluster.rest_port);
    std::fs::write(conf.join("config.yaml"), rest).unwrap();
    let run = || cluster.submit(&bin("ticker"), &request(&["--rate", "100"], 1));
    let (drained, suspended) = (run(), run());
    for job in [&drained, &suspended] {
        cluster.await_state(job, "RUNNING", SOON);
    }
    let listed = done(conf, &["list"]);
    assert!(listed.contains(&drained) && listed.contains("ticker (RUNNING)"), "{listed}");
    let savepoints = folder.path().join("savepoints").display().to_string();

    let printed = done(conf, &["savepoint", &drained, &savepoints]);
    let taken = savepoint_of(&printed);
    done(conf, &["savepoint", "-d", taken.to_str().unwrap()]);
    assert!(!taken.join("_metadata").exists(), "it is disposed of");
    let again = flink(conf, &["savepoint", "-d", taken.to_str().unwrap()]);
    assert!(!again.status.success(), "{again:?}");
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("there is no such folder"),
        "{again:?}"
    );

    savepoint_of(&done(conf, &["stop", "--drain", "-p", &savepoints, &drained]));
    cluster.await_state(&drained, "FINISHED", SOON);
    let ended = flink(conf, &["stop", "-p", &savepoints, &drained]);
    assert!(!ended.status.success(), "{ended:?}");

    let printed = done(conf, &["checkpoint", &suspended]);
    assert!(printed.contains(&format!(" 1 for job {suspended} completed.")), "{printed}");
    savepoint_of(&done(conf, &["stop", "-p", &savepoints, &suspended]));
    cluster.await_state(&suspended, "FINISHED", SOON);
}
