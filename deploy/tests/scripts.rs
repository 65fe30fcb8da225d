//! The scripts of `bin/` around a binary that is none: what they say, when they come back and with which
//! exit code.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test fails loudly")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

const SCRIPTS: [&str; 6] = [
    "start-cluster.sh",
    "stop-cluster.sh",
    "jobmanager.sh",
    "taskmanager.sh",
    "standalone-job.sh",
    "flott-daemon.sh",
];

/// A place for log and pid files of one test.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, script: &str, role: &str, words: &[&str]) -> Output {
        self.command(script, role, words).output().unwrap()
    }

    /// Runs a script without overriding its folders: it has to ask for the options that name them.
    fn run_anywhere(&self, script: &str, role: &str, words: &[&str]) -> Output {
        let mut command = self.command(script, role, words);
        for variable in ["FLOTT_PID_DIR", "FLOTT_LOG_DIR", "FLOTT_SSH_OPTS"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    }

    fn command(&self, script: &str, role: &str, words: &[&str]) -> Command {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(own.join("bin").join(script));
        command.args(words).stdin(Stdio::null());
        command.env("FLOTT_BINARY", own.join("tests/data/flott.sh"));
        command.env("FLOTT_PID_DIR", self.0.path().join("pid"));
        command.env("FLOTT_LOG_DIR", self.0.path().join("log"));
        command.env("FLOTT_IDENT_STRING", "test").env("FLOTT_SSH_OPTS", "-n");
        command.env("FAKE_FOLDER", self.0.path()).env("FAKE_ROLE", role);
        command
    }

    /// The arguments that the binary was called with.
    fn called(&self) -> String {
        std::fs::read_to_string(self.0.path().join("called")).unwrap_or_default()
    }

    fn has_pid_file(&self, daemon: &str) -> bool {
        self.0.path().join(format!("pid/flott-test-{daemon}.pid")).exists()
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_is_help_and_does_nothing() {
    let place = Place::new();
    for script in SCRIPTS {
        for words in [&["--help"][..], &["-h"], &["start", "--help"]] {
            let output = place.run(script, "session", words);
            assert_eq!(output.status.code(), Some(0), "{script} {words:?}: {}", err(&output));
            assert!(out(&output).starts_with(&format!("usage: {script}")), "{}", out(&output));
        }
    }
    assert_eq!(place.called(), "");
}

#[test]
fn wrong_usage_is_answered_by_the_script_that_was_called() {
    let place = Place::new();
    let wrong: [(&str, &[&str]); 6] = [
        ("start-cluster.sh", &["frob"]),
        ("stop-cluster.sh", &["frob"]),
        ("jobmanager.sh", &["frob"]),
        ("taskmanager.sh", &["frob"]),
        ("standalone-job.sh", &[]),
        ("standalone-job.sh", &["start", "--", "--help"]),
    ];
    for (script, words) in wrong {
        let output = place.run(script, "session", words);
        assert_eq!(output.status.code(), Some(64), "{script} {words:?}: {}", err(&output));
        assert!(err(&output).contains(&format!("usage: {script}")), "{}", err(&output));
    }
    assert_eq!(place.called(), "");
}

#[test]
fn the_binarys_exit_code_is_the_scripts() {
    let place = Place::new();
    let started: [(&str, &[&str]); 6] = [
        ("start-cluster.sh", &[]),
        ("stop-cluster.sh", &[]),
        ("jobmanager.sh", &["start"]),
        ("taskmanager.sh", &["stop-all"]),
        ("standalone-job.sh", &["start", "--program", "/p"]),
        ("flott-daemon.sh", &["start-foreground", "taskmanager"]),
    ];
    for (script, words) in started {
        // Every call of the binary answers as it does to a wrong flott.yaml.
        let output = place.run_anywhere(script, "misconfigured", words);
        assert_eq!(output.status.code(), Some(64), "{script} {words:?}: {}", err(&output));
        assert!(err(&output).contains("error: flott.yaml"), "{script}: {}", err(&output));
    }
    // Each role's script, and the one for both.
    for (script, words) in [("jobmanager.sh", &["start"][..]), ("start-cluster.sh", &[])] {
        let output = place.run(script, "portless", words);
        assert_eq!(output.status.code(), Some(3), "{script}: {}", err(&output));
    }
}

#[test]
fn a_session_is_started_once_it_is_up() {
    let place = Place::new();
    let started = place.run("jobmanager.sh", "session", &["start"]);
    assert_eq!(started.status.code(), Some(0), "{}", err(&started));
    assert!(out(&started).contains("started jobmanager"), "{}", out(&started));
    assert!(out(&started).contains("REST http://h:1, RPC h:2)"), "{}", out(&started));
    let again = place.run("jobmanager.sh", "session", &["start"]);
    assert!(err(&again).contains("running already"), "{}", err(&again));
    let stopped = place.run("jobmanager.sh", "session", &["stop"]);
    assert!(out(&stopped).contains("stopping jobmanager"), "{}", out(&stopped));
    assert!(!place.has_pid_file("jobmanager"));
}

#[test]
fn taskmanagers_are_told_which_port_of_a_range_was_free() {
    let place = Place::new();
    let started = place.run("start-cluster.sh", "session", &[]);
    assert_eq!(started.status.code(), Some(0), "{}", err(&started));
    let called = place.called();
    assert!(called.contains("taskmanager -D jobmanager.rpc.port=2\n"), "{called}");
    let stopped = place.run("stop-cluster.sh", "session", &[]);
    assert_eq!(stopped.status.code(), Some(0), "{}", err(&stopped));
    assert!(!place.has_pid_file("jobmanager") && !place.has_pid_file("taskmanager"));
}

#[test]
fn the_port_in_masters_counts_where_rest_port_has_its_default() {
    for (masters, rest_port, expected) in [
        ("localhost:9000", "8081", Some("--host localhost --webui-port 9000")),
        ("localhost:9000", "7000", None),
        ("localhost", "8081", None),
        // Where there are several, each is told its host; the port follows the same rule.
        ("localhost:9000\n127.0.0.1:9001", "8081", Some("--host localhost --webui-port 9000")),
        ("localhost:9000\n127.0.0.1:9001", "7000", Some("--host localhost\n")),
    ] {
        let place = Place::new();
        let conf = place.0.path().join("conf");
        std::fs::create_dir(&conf).unwrap();
        std::fs::write(conf.join("masters"), masters).unwrap();
        std::fs::write(conf.join("workers"), "").unwrap();
        let mut start = place.command("start-cluster.sh", "session", &[]);
        start.env("FLOTT_CONF_DIR", &conf).env("FAKE_REST_PORT", rest_port);
        let started = out(&start.output().unwrap());
        let called = place.called();
        let first = called.lines().find(|line| line.starts_with("jobmanager")).unwrap();
        match expected {
            Some(words) => assert!(format!("{first}\n").contains(words), "{masters}: {first}"),
            None => assert!(!first.contains("--host"), "{masters}: {first}"),
        }
        let warned = started.contains("give clients -m localhost:9000");
        assert_eq!(warned, masters.contains("9000") && rest_port == "8081", "{started}");
        let mut stop = place.command("stop-cluster.sh", "session", &[]);
        stop.env("FLOTT_CONF_DIR", &conf).output().unwrap();
        assert!(!place.has_pid_file("jobmanager"));
    }
}

#[test]
fn an_application_is_started_once_its_job_is_submitted_and_says_where_results_go() {
    let place = Place::new();
    let started = place.run("standalone-job.sh", "application", &["start", "--program", "/p"]);
    let text = out(&started);
    assert_eq!(started.status.code(), Some(0), "{}", err(&started));
    assert!(text.contains("job 0123456789abcdef0123456789abcdef 'a job' is submitted"), "{text}");
    for place in ["\nlog: ", "\nresults: "] {
        let path = text.split(place).nth(1).and_then(|rest| rest.lines().next()).unwrap();
        assert!(Path::new(path).is_absolute(), "{text}");
    }
    place.run("standalone-job.sh", "application", &["stop"]);
}

#[test]
fn options_on_standard_input_reach_the_role_and_nobody_else() {
    let place = Place::new();
    let read = || std::fs::read_to_string(place.0.path().join("read")).unwrap();
    for script in ["standalone-job.sh", "taskmanager.sh"] {
        let words = ["start", "--program", "/p", "--define-file", "-"];
        let mut command = place.command(script, "application", &words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let text = format!("program.password: of {script}\n");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(read(), text);
        assert!(!place.called().contains("password"), "{}", place.called());
        place.run(script, "application", &["stop"]);
    }
    // The program's own words are none of the script's.
    let words = ["start", "--program", "/p", "--", "--define-file", "-"];
    place.run("standalone-job.sh", "application", &words);
    assert_eq!(read(), "");
    place.run("standalone-job.sh", "application", &["stop"]);
}

#[test]
fn an_application_that_cannot_run_is_no_start() {
    let place = Place::new();
    let refused = place.run("standalone-job.sh", "refuses", &["start", "--program", "/p"]);
    assert_eq!(refused.status.code(), Some(3), "{}", out(&refused));
    assert!(err(&refused).contains("error: the path 'x' is relative"), "{}", err(&refused));
    assert!(!out(&refused).contains("started"), "{}", out(&refused));
    assert!(!place.has_pid_file("standalone-job"));
    let over = place.run("standalone-job.sh", "over", &["start", "--program", "/p"]);
    assert_eq!(over.status.code(), Some(0), "{}", err(&over));
    assert!(out(&over).contains("ended already"), "{}", out(&over));
}

#[test]
fn a_folder_that_takes_no_files_is_said_before_anything_starts() {
    let place = Place::new();
    let refused = |command: &mut Command, expected: [&str; 2]| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", out(&output));
        let said = err(&output);
        assert!(expected.iter().all(|words| said.contains(words)), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(place.called(), "", "nothing was started");
    };
    // Not even root may make files here.
    for (variable, option) in [("FLOTT_LOG_DIR", "env.log.dir"), ("FLOTT_PID_DIR", "env.pid.dir")] {
        let mut command = place.command("taskmanager.sh", "session", &["start"]);
        refused(command.env(variable, "/proc/self"), ["cannot write in /proc/self: ", option]);
    }
    // As on a full disk, a file can be made but not written.
    let start = place.command("taskmanager.sh", "session", &["start"]);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 0; trap '' XFSZ; exec \"$@\"", "bash"]);
    command.arg(start.get_program()).args(start.get_args()).stdin(Stdio::null());
    for (name, value) in start.get_envs() {
        command.env(name, value.unwrap());
    }
    refused(&mut command, ["/log: File too large; make room there", "env.log.dir"]);
}
