//! The examples, as processes of their own.

use super::hadoops_own;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// An example, beside which this test was built.
pub(super) fn example(name: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().and_then(|deps| deps.parent()).map(PathBuf::from).unwrap();
    let program = built.join("examples").join(name);
    assert!(program.is_file(), "build the examples too: {}", program.display());
    Command::new(program)
}

pub(super) fn ended(command: &mut Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.success(), text(&stdout) + &text(&stderr))
}

/// The application that a distributed shell speaks of.
pub(super) fn application(output: &str) -> String {
    let id = output.split_whitespace().find(|word| word.starts_with("application_"));
    id.unwrap_or_else(|| panic!("no application in: {output}")).to_owned()
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
fn nodes_are_listed_as_hadoop_lists_them() {
    let (ok, ours) = ended(&mut example("yarn-nodes"));
    assert!(ok, "{ours}");
    let (ok, theirs) = ended(hadoops_own("yarn").args(["node", "-list", "-all"]));
    assert!(ok, "{theirs}");
    let nodes: Vec<&str> = theirs
        .lines()
        .filter(|line| line.contains("RUNNING"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(!nodes.is_empty(), "{theirs}");
    for node in nodes {
        assert!(ours.contains(&format!("{node}\tRunning")), "{node} is not in: {ours}");
    }
    assert!(ours.contains("root.default\tRunning"), "{ours}");
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
fn a_distributed_shell_succeeds_and_hadoop_sees_it() {
    let (ok, output) = ended(example("distributed-shell").args(["--containers", "3"]));
    assert!(ok, "{output}");
    assert!(output.contains("Finished\tSucceeded\t3 succeeded"), "{output}");
    let id = application(&output);

    let (ok, status) = ended(hadoops_own("yarn").args(["application", "-status", &id]));
    assert!(ok, "{status}");
    for expected in ["State : FINISHED", "Final-State : SUCCEEDED", "Diagnostics : 3 succeeded"] {
        assert!(status.contains(expected), "{expected} is not in: {status}");
    }
    let list = ["application", "-list", "-appStates", "FINISHED"];
    let (ok, listed) = ended(hadoops_own("yarn").args(list));
    let line = listed.lines().find(|line| line.contains(&id)).unwrap_or_default();
    assert!(ok && line.contains("NATIVE") && line.contains("SUCCEEDED"), "{listed}");

    let (ok, report) = ended(example("yarn-apps").args(["report", &id]));
    assert!(ok && report.contains("Finished\tSucceeded"), "{report}");
    // Nothing stays in HDFS.
    let directory = format!("/user/*/.distributed-shell/{id}");
    let (found, listed) = ended(hadoops_own("hdfs").args(["dfs", "-ls", &directory]));
    assert!(!found, "{listed}");
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
fn a_command_that_fails_fails_its_application() {
    let (ok, output) = ended(example("distributed-shell").args(["--command", "exit 7"]));
    assert!(!ok && output.contains("Finished\tFailed") && output.contains("Code(7)"), "{output}");
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
fn what_cannot_be_is_refused_before_it_is_submitted() {
    let (ok, output) = ended(example("distributed-shell").args(["--queue", "none"]));
    assert!(!ok && output.contains("root.default, root.small"), "{output}");
    let (ok, output) = ended(example("distributed-shell").args(["--memory", "999999"]));
    assert!(!ok && output.contains("more than the cluster's maximum"), "{output}");
}

/// Starts a shell that would run for long, and kills it once it runs.
fn killed_by(kill: impl FnOnce(&str) -> (bool, String)) -> String {
    let mut shell = example("distributed-shell");
    shell.args(["--command", "sleep 600"]);
    shell.stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map_while(Result::ok);
    let running = lines.find(|line| line.contains("\tRunning\t")).unwrap();
    let (ok, said) = kill(&application(&running));
    assert!(ok, "{said}");
    let rest: Vec<String> = lines.collect();
    assert!(!shell.wait().unwrap().success(), "{rest:?}");
    rest.join("\n")
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR"]
fn applications_are_killed_by_us_and_by_hadoop() {
    let last = killed_by(|id| ended(example("yarn-apps").args(["kill", id])));
    assert!(last.contains("Killed\tKilled") && last.contains("killed by yarn-apps"), "{last}");
    let last = killed_by(|id| ended(hadoops_own("yarn").args(["application", "-kill", id])));
    assert!(last.contains("Killed\tKilled"), "{last}");
}
