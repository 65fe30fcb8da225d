//! The command line on a real cluster: `flott run`, `run-application` and `yarn-session`, from the checks to the end of the
//! application; what is left when it is broken off.

use super::application::{WITHIN, hdfs, is_over};
use super::common::{
    bin, eventually, expected_counts, program, repository_text, sorted_lines, succeeded,
};
use hadoop::conf::Configuration;
use hadoop::login::Login;
use hadoop::yarn::YarnClient;
use hadoop::yarn::messages::GetApplicationsRequest;
use hdfs_native::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Small enough for two NodeManagers of 2 GiB.
pub(super) const SIZES: [&str; 6] = [
    "-D",
    "jobmanager.memory.process.size=512m",
    "-D",
    "taskmanager.memory.process.size=512m",
    "-D",
    "taskmanager.numberOfTaskSlots=2",
];

/// The commands that start a cluster for one program: it is its own JobManager, or the client builds its graph.
pub(super) const MODES: [&[&str]; 2] =
    [&["run-application", "-t", "yarn-application"], &["run", "-t", "yarn-per-job"]];

/// A user of the cluster with a place of its own for the session file.
pub(super) struct User {
    pub(super) folder: TempDir,
    pub(super) runtime: tokio::runtime::Runtime,
    pub(super) yarn: YarnClient,
    pub(super) hdfs: Client,
    pub(super) staging: String,
}

impl User {
    pub(super) fn new() -> Self {
        assert!(std::env::var_os("HADOOP_CONF_DIR").is_some(), "HADOOP_CONF_DIR names no cluster");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (yarn, hdfs, staging) = runtime.block_on(async {
            let conf = Configuration::load().unwrap();
            let login = Login::current(&conf).await.unwrap();
            let hdfs = hdfs(&conf, &login);
            let staging = format!("/user/{}/.flott", login.short_name());
            (YarnClient::new(&conf, login).await.unwrap(), hdfs, staging)
        });
        Self { folder: tempfile::tempdir().unwrap(), runtime, yarn, hdfs, staging }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(bin("flott"));
        let place = format!("yarn.properties-file.location={}", self.folder.path().display());
        command.arg(words[0]).args(["-D", &place]).args(&words[1..]);
        command.env_remove("FLOTT_CONF_DIR").stdin(Stdio::null());
        command
    }

    pub(super) fn flott(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Ids of applications that have not ended.
    pub(super) fn alive(&self) -> Vec<String> {
        let all = self.runtime.block_on(self.yarn.applications(&GetApplicationsRequest::default()));
        let alive = all.unwrap().into_iter().filter(|report| !is_over(report.state()));
        alive.map(|report| report.application_id.unwrap().to_string()).collect()
    }

    /// Lists the staging directories that are left in HDFS.
    fn staged(&self) -> Vec<String> {
        let listed = self.runtime.block_on(self.hdfs.list_status(&self.staging, false));
        listed.unwrap_or_default().into_iter().map(|status| status.path).collect()
    }

    /// Files with tokens of applications.
    pub(super) fn tokens(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join(format!("flott-{}", nix::unistd::getuid()));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.display().to_string().contains("/yarn-token-")).collect()
    }

    pub(super) fn nothing_is_left(&self) {
        eventually(WITHIN, "no application and no staged file is left", || {
            (self.alive().is_empty() && self.staged().is_empty()).then_some(())
        });
    }
}

pub(super) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn an_attached_client_gets_every_line_before_the_job_manager_goes() {
    let (user, text) = (User::new(), repository_text());
    let expected = expected_counts(&text);
    let (program, input) = (program("word_count"), text.to_str().unwrap());
    for mode in MODES {
        let began = Instant::now();
        let words = [mode, &SIZES, &["-p", "4", &*program, "--input", input]].concat();
        let run = user.flott(&words);
        let said = text_of(&run.stderr);
        eprintln!("{mode:?} in {:?}:\n{said}", began.elapsed());
        assert!(run.status.success(), "{said}");
        assert_eq!(sorted_lines(&run.stdout), expected);
        for step in ["staged ", "launched: ", "running: ", "finished in "] {
            assert!(said.contains(step), "{step}: {said}");
        }
        user.nothing_is_left();
        assert!(user.tokens().is_empty());
    }
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_session_is_found_by_its_file_and_stopped() {
    let (user, text) = (User::new(), repository_text());
    let (program, input) = (program("word_count"), text.to_str().unwrap());
    let run = ["run", "-t", "yarn-session", &*program, "--input", input];
    let none = user.flott(&run);
    assert_eq!(none.status.code(), Some(64));
    assert!(text_of(&none.stderr).contains("no session is known"), "{}", text_of(&none.stderr));
    let start = ["yarn-session", "-d", "-jm", "512", "-tm", "512", "-s", "2", "-nm", "of a test"];
    let started = succeeded(user.flott(&start));
    let alive = user.alive();
    assert_eq!(alive.len(), 1);
    assert!(text_of(&started.stdout).contains(&alive[0]), "{}", text_of(&started.stdout));
    let counted = succeeded(user.flott(&run));
    assert_eq!(sorted_lines(&counted.stdout), expected_counts(&text));
    let listed = user.flott(&["list", "-a", "-t", "yarn-session"]);
    assert!(text_of(&listed.stdout).contains("FINISHED"), "{}", text_of(&listed.stdout));
    // Attached by its id, and ended by a word on standard input.
    let attach = ["yarn-session", "-id", alive[0].as_str()];
    let mut attached = user.command(&attach).stdin(Stdio::piped()).spawn().unwrap();
    attached.stdin.take().unwrap().write_all(b"stop\n").unwrap();
    assert!(attached.wait().unwrap().success());
    user.nothing_is_left();
    let ended = user.flott(&[
        "list",
        "-t",
        "yarn-session",
        "-D",
        &format!("yarn.application.id={}", alive[0]),
    ]);
    assert!(text_of(&ended.stderr).contains("has ended"), "{}", text_of(&ended.stderr));
    assert!(text_of(&user.flott(&run).stderr).contains("no session is known"));
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn what_is_broken_off_leaves_nothing() {
    let (user, text) = (User::new(), repository_text());
    let (program, input) = (program("word_count"), text.to_str().unwrap());
    let words = [
        &["run-application", "-d", "-t", "yarn-application"][..],
        &SIZES,
        &[&*program, "--input", input],
    ]
    .concat();
    let interrupted = |mut child: Child| {
        kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        let output = child.wait().unwrap();
        assert_eq!(output.code(), Some(1));
        user.nothing_is_left();
        assert!(user.tokens().is_empty());
    };
    let started = || user.command(&words).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
    // While files are staged; once YARN knows the application.
    let child = started().unwrap();
    eventually(WITHIN, "files are staged", || (!user.staged().is_empty()).then_some(()));
    interrupted(child);
    let child = started().unwrap();
    eventually(WITHIN, "it is submitted", || (!user.alive().is_empty()).then_some(()));
    interrupted(child);
    // A client that was killed can remove nothing: the next one does.
    let mut child = started().unwrap();
    eventually(WITHIN, "it is submitted", || (!user.alive().is_empty()).then_some(()));
    child.kill().unwrap();
    child.wait().unwrap();
    let id = user.alive().pop();
    if let Some(id) = id {
        user.runtime.block_on(user.yarn.kill(id.parse().unwrap(), None)).unwrap();
    }
    succeeded(user.flott(&words));
    user.nothing_is_left();
    assert_eq!(user.tokens().len(), 1, "that of the client that was killed is removed");
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn every_bad_input_has_its_own_words() {
    let user = User::new();
    let program = &*program("word_count");
    let cases: [(&[&str], i32, &str); 6] = [
        (&["-D", "yarn.application.queue=nosuch"], 64, "there are: root.default, root.small"),
        (&["-D", "taskmanager.memory.process.size=1t"], 64, "taskmanager.memory.process.size"),
        (&["-D", "jobmanager.memory.process.size=1t"], 64, "jobmanager.memory.process.size"),
        (&["-D", "yarn.staging-directory=file:///tmp"], 64, "on HDFS only"),
        (&["-D", "yarn.staging-directory=hdfs://localhost:9/x"], 1, "is the NameNode of"),
        (&["-D", "yarn.ship-files=/absent"], 64, "'/absent' cannot be shipped"),
    ];
    for (more, code, expected) in cases {
        let words = [&["run-application", "-t", "yarn-application"], &SIZES[..], more].concat();
        let refused = user.flott(&[&words[..], &[program, "--input", "/x"]].concat());
        let said = text_of(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(expected), "{more:?}: {said}");
    }
    let words = ["run-application", "-t", "yarn-application"];
    let empty = user.folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = (empty.to_str().unwrap(), "has no configuration of Hadoop");
    for (directory, expected) in
        [("", "HADOOP_CONF_DIR is not set"), ("/absent", "no such directory"), empty]
    {
        let mut command = user.command(&words);
        command
            .arg(program)
            .env("HADOOP_CONF_DIR", directory)
            .env_remove("YARN_CONF_DIR")
            .env_remove("HADOOP_HOME");
        let refused = command.output().unwrap();
        assert_eq!(refused.status.code(), Some(64));
        assert!(text_of(&refused.stderr).contains(expected), "{}", text_of(&refused.stderr));
    }
    without_a_resource_manager(&user, &words, program);
    let other = user.folder.path().join("other");
    for (other_program, code, expected) in [
        (for_another_machine(program), 1, "it is built for aarch64"),
        (without_yarn(program), 64, "was built without the feature 'yarn'"),
    ] {
        std::fs::write(&other, other_program).unwrap();
        let refused = user.command(&words).arg(&other).args(["--input", "/x"]).output().unwrap();
        let said = text_of(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    // Somebody without a home directory, who may not make one.
    let mut command = user.command(&[&words[..], &SIZES].concat());
    let refused = command.arg(program).args(["--input", "/x"]).env("HADOOP_USER_NAME", "nobody");
    let refused = refused.output().unwrap();
    let said = text_of(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Permission denied") && said.contains("yarn.staging-directory"),
        "{said}"
    );
    user.nothing_is_left();
}

/// The program with another machine's number, which is at offset 18 of an ELF file.
fn for_another_machine(program: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(program).unwrap();
    bytes[18..20].copy_from_slice(&183_u16.to_le_bytes());
    bytes
}

/// The program with a note that names no feature: the bits of its features are behind the name and the version, 3.0.
fn without_yarn(program: &str) -> Vec<u8> {
    let mut bytes = std::fs::read(program).unwrap();
    let note = b"FLOTT\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0";
    let found: Vec<usize> =
        (0..bytes.len() - note.len()).filter(|at| bytes[*at..].starts_with(note)).collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at + note.len() - 4] = 0;
    }
    bytes
}

/// A JobManager of this size never gets its container in the queue `small`.
#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn who_waits_in_a_full_queue_is_told_why_and_can_end_it() {
    let (user, text) = (User::new(), repository_text());
    let program = program("word_count");
    let words = [
        &["run-application", "-t", "yarn-application"][..],
        &["-D", "yarn.application.queue=small", "-D", "jobmanager.memory.process.size=1300m"],
        &["-D", "taskmanager.memory.process.size=512m", &*program],
        &["--input", text.to_str().unwrap()],
    ]
    .concat();
    for killed in [false, true] {
        let mut child = user.command(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let waits = said.find(|line| line.contains("waits for a container")).unwrap();
        assert!(waits.contains("Queue's Absolute max capacity = 25.0 %"), "{waits}");
        if killed {
            let id = user.alive()[0].parse().unwrap();
            user.runtime.block_on(user.yarn.kill(id, None)).unwrap();
        } else {
            kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
        }
        let end = said.collect::<Vec<_>>().join("\n");
        assert_eq!(child.wait().unwrap().code(), Some(1), "{end}");
        assert!(end.contains(if killed { "killed" } else { "interrupted" }), "{end}");
        user.nothing_is_left();
        assert!(user.tokens().is_empty());
    }
}

/// A configuration whose ResourceManager is down: a line for each try, an end in the time that was said.
fn without_a_resource_manager(user: &User, words: &[&str], program: &str) {
    let site = "<configuration><property><name>yarn.resourcemanager.address</name>\
                <value>localhost:9</value></property></configuration>";
    let conf = user.folder.path().join("conf");
    std::fs::create_dir_all(&conf).unwrap();
    std::fs::write(Path::new(&conf).join("yarn-site.xml"), site).unwrap();
    let began = Instant::now();
    let mut command = user.command(words);
    let refused =
        command.args(["-D", "client.timeout=7 s"]).arg(program).env("HADOOP_CONF_DIR", &conf);
    let refused = refused.output().unwrap();
    let said = text_of(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("localhost:9 within 7 s"), "{said}");
    assert!(said.matches("trying again").count() >= 2, "{said}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_program_finds_what_was_shipped_in_every_mode() {
    let (user, text) = (User::new(), repository_text());
    let stop = user.folder.path().join("stop.txt");
    std::fs::write(&stop, "the of and").unwrap();
    let counted = |line: &String| !["the\t", "of\t", "and\t"].iter().any(|w| line.starts_with(w));
    let expected: Vec<String> = expected_counts(&text).into_iter().filter(counted).collect();
    let (program, input) = (program("word_count"), text.to_str().unwrap());
    let job = [&*program, "--input", input, "--without", "stop.txt"];
    let option = format!("yarn.ship-files={}", stop.display());
    let ship = ["-D", &option];
    for mode in MODES {
        let run = user.flott(&[mode, &SIZES, &ship, &["-p", "4"], &job].concat());
        assert!(run.status.success(), "{mode:?}: {}", text_of(&run.stderr));
        assert_eq!(sorted_lines(&run.stdout), expected, "{mode:?}");
        user.nothing_is_left();
    }
    let ship = ["--ship", stop.to_str().unwrap()];
    succeeded(user.flott(&[&["yarn-session", "-d"][..], &SIZES, &ship].concat()));
    let words = [&["run", "-t", "yarn-session", "-p", "4"][..], &job].concat();
    let run = succeeded(user.flott(&words));
    assert_eq!(sorted_lines(&run.stdout), expected);
    let absent = [&["run", "-t", "yarn-session"][..], &job[..3], &["--without", "other"]].concat();
    let refused = user.flott(&absent);
    assert!(!refused.status.success());
    let said = text_of(&refused.stderr);
    assert!(said.contains("shipped(\"other\")") && said.contains("stop.txt"), "{said}");
    assert!(user.flott(&["yarn-session", "--stop"]).status.success());
    user.nothing_is_left();
}

#[test]
#[ignore = "needs the YARN of `cargo xtask yarn`"]
fn a_program_in_the_shared_cache_is_not_uploaded_again() {
    let (user, text) = (User::new(), repository_text());
    let expected = expected_counts(&text);
    let (program, input) = (program("word_count"), text.to_str().unwrap());
    let run = |dir: &str| {
        let option = format!("yarn.provided.lib.dirs={dir}");
        let job = ["-p", "2", &*program, "--input", input];
        let words = ["run", "-t", "yarn-per-job", "-D", &option];
        let run = succeeded(user.flott(&[&words[..], &SIZES, &job].concat()));
        assert_eq!(sorted_lines(&run.stdout), expected);
        text_of(&run.stderr)
    };
    let open = format!("/provided-{}", std::process::id());
    let first = run(&open);
    assert!(!first.contains("yarn.provided.lib.dirs"), "{first}");
    let second = run(&format!("{open}/"));
    assert!(second.contains("(0.0 MiB)") && second.contains("; 2 ("), "{second}");
    let kept = user.runtime.block_on(user.hdfs.list_status(&open, false)).unwrap();
    assert!(kept.len() == 2 && kept.iter().all(|file| file.permission == 0o444), "{kept:?}");
    // Nodes share nothing that not everybody can reach; the application runs all the same.
    user.runtime.block_on(user.hdfs.set_permission(&open, 0o700)).unwrap();
    let closed = run(&open);
    assert!(closed.contains("not everybody may enter") && closed.contains("; 2 ("), "{closed}");
    user.runtime.block_on(user.hdfs.delete(&open, true)).unwrap();
    // A place that cannot be made.
    let file = format!("{open}-file");
    let mut writer = user
        .runtime
        .block_on(user.hdfs.create(&file, hdfs_native::WriteOptions::default()))
        .unwrap();
    user.runtime.block_on(writer.close()).unwrap();
    let refused = run(&format!("{file}/below"));
    assert!(refused.contains("is not kept in yarn.provided.lib.dirs"), "{refused}");
    user.runtime.block_on(user.hdfs.delete(&file, true)).unwrap();
    user.nothing_is_left();
    let words = ["run", "-t", "yarn-per-job", "-D", "yarn.provided.lib.dirs=s3://b/x"];
    let elsewhere = user.flott(&[&words[..], &SIZES, &[&*program]].concat());
    assert_eq!(elsewhere.status.code(), Some(64), "{}", text_of(&elsewhere.stderr));
}
