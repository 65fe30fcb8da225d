//! Logs, against real daemons: what `yarn-apps logs` prints is what Hadoop's own `yarn logs` prints, in both
//! formats, compressed or not, of applications that run and that have ended. It writes the cluster's
//! configuration and starts its NodeManagers again, so it needs a cluster that nobody else uses meanwhile:
//!
//! ```text
//! eval "$(cargo xtask yarn up | tail -1)"
//! cargo test -p hadoop --examples --test logs -- --ignored
//! cargo xtask yarn down
//! ```
//!
//! The same with `--secure`, by the user whom containers run as: a NodeManager gives out a log only where the file
//! is its user's.
//!
//! ```text
//! eval "$(cargo xtask yarn up --secure --ha | tail -1)"
//! export KRB5KEYTAB=$HADOOP_CONF_DIR/../krb/$(id -un).keytab KRB5PRINCIPAL=$(id -un)@TEST.LOCAL
//! ```

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "whole processes, in real time")]

#[path = "shared/settings.rs"]
mod settings;

use hadoop::conf::Configuration;
use hadoop::hdfs::HdfsTokens;
use hadoop::login::Login;
use hadoop::tokens::Credentials;
use hadoop::yarn::messages::{
    ApplicationId, ApplicationSubmissionContext, ContainerLaunchContext, LogAggregationContext,
    LogAggregationStatus, Resource,
};
use hadoop::yarn::{
    AmRmClient, AmRmOptions, Ask, Finish, MasterEvent, NmClient, Registration, YarnClient, renewer,
};
use settings::{Settings, conf_dir};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(200);
/// Two workers that write to both of their logs, one of them a lot, and go on.
const COMMAND: &str = "echo oops >&2; echo hello; seq 1 60000; exec sleep 600";

/// An example, beside which this test was built.
fn example(name: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let built = own.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples").join(name);
    assert!(program.is_file(), "build the examples too: {}", program.display());
    Command::new(program)
}

/// One of the cluster's own commands.
fn cluster(name: &str) -> Command {
    Command::new(conf_dir().join("../bin").join(name))
}

fn succeeded(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    stdout
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(POLL);
    }
}

/// Container, node, kind and file.
type Log = (String, String, String, String);

/// Parses the output of `yarn logs`: each log follows a head that contains its length.
fn parsed(mut text: &[u8]) -> BTreeMap<Log, Vec<Vec<u8>>> {
    let mut logs: BTreeMap<Log, Vec<Vec<u8>>> = BTreeMap::new();
    let position = |text: &[u8], part: &[u8]| text.windows(part.len()).position(|w| w == part);
    while let Some(at) = position(text, b"Container: container_") {
        text = &text[at..];
        let mark = b"\nLogContents:\n";
        let end = position(text, mark).unwrap() + mark.len();
        let head = String::from_utf8(text[..end].to_vec()).unwrap();
        let after = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let (container, node) = after("Container: ").split_once(" on ").unwrap();
        let length: usize = after("LogLength:").parse().unwrap();
        let content = text[end..end + length].to_vec();
        text = &text[end + length..];
        let kind = after("LogAggregationType: ").to_owned();
        // Nodes are spelt as files are where the logs are in files.
        let node = node.replace(':', "_");
        let key = (container.to_owned(), node, kind, after("LogType:").to_owned());
        logs.entry(key).or_default().push(content);
    }
    logs
}

fn ours(id: &str, more: &[&str]) -> BTreeMap<Log, Vec<Vec<u8>>> {
    parsed(&succeeded(example("yarn-apps").args(["logs", id]).args(more)))
}

fn theirs(id: &str) -> BTreeMap<Log, Vec<Vec<u8>>> {
    parsed(&succeeded(cluster("yarn").args(["logs", "-applicationId", id])))
}

/// The property, name and value, of a cluster that writes indexed files.
const INDEXED: (&str, &str) = (
    "yarn.log-aggregation.file-controller.IFile.class",
    "org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.\
     LogAggregationIndexedFileController",
);

/// The cluster's NodeManagers, to be changed.
fn settings() -> Settings {
    let names = (1..).map(|number| format!("nodemanager{number}"));
    let is_there = |name: &String| conf_dir().join(format!("../logs/{name}.log")).is_file();
    Settings::of(names.take_while(is_there))
}

/// An application that runs; its client ends with it.
struct Running {
    shell: Child,
    id: String,
}

impl Running {
    fn start() -> Self {
        let mut shell = example("distributed-shell");
        shell.args(["--containers", "2", "--command", COMMAND]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let lines = std::io::BufReader::new(shell.stdout.take().unwrap());
        let mut lines = std::io::BufRead::lines(lines).map_while(Result::ok);
        let line = lines.find(|line| line.contains("\tRunning\t")).expect("it runs");
        // Read on, so that the client never waits for somebody to read.
        std::thread::spawn(move || lines.for_each(drop));
        Self { shell, id: line.split('\t').next().unwrap().to_owned() }
    }

    fn end(mut self) -> String {
        succeeded(example("yarn-apps").args(["kill", &self.id]));
        self.shell.wait().unwrap();
        collected(self.id.parse().unwrap());
        self.id.clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed leaves none behind; of one that did not, it has ended.
        let _ = example("yarn-apps").args(["kill", &self.id]).output();
        let _ = self.shell.wait();
    }
}

/// Waits until an application's logs are all in HDFS.
fn collected(id: ApplicationId) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    until("logs in HDFS", || {
        let status = runtime.block_on(aggregation(id));
        assert_ne!(status, LogAggregationStatus::Failed);
        (status == LogAggregationStatus::Succeeded).then_some(())
    });
}

async fn aggregation(id: ApplicationId) -> LogAggregationStatus {
    let conf = Configuration::load().unwrap();
    let login = Login::current(&conf).await.unwrap();
    let yarn = YarnClient::new(&conf, login).await.unwrap();
    yarn.report(id).await.unwrap().log_aggregation_status()
}

fn stdouts(logs: &BTreeMap<Log, Vec<Vec<u8>>>, kind: &str) -> Vec<String> {
    let wanted = |key: &&Log| key.2 == kind && key.3 == "stdout";
    let hello = |key: &&Log| logs[*key].iter().any(|log| log.starts_with(b"hello\n1\n2\n"));
    logs.keys().filter(wanted).filter(hello).map(|key| key.0.clone()).collect()
}

/// A running application's logs, then the same application's when it has ended.
fn as_hadoop_prints_them() -> String {
    let running = Running::start();
    let logs = until("two workers' logs", || {
        // Before the first of them runs there are none.
        let printed = example("yarn-apps").args(["logs", &running.id]).output().unwrap();
        let logs = parsed(&printed.stdout);
        // Files are listed first and read afterwards, so that one may have been missing that is there a moment later.
        let whole = |logs: &BTreeMap<Log, Vec<Vec<u8>>>| {
            let ending =
                |end: &[u8]| logs.values().flatten().filter(|log| log.ends_with(end)).count();
            ending(b"\n59999\n60000\n") == 2 && ending(b"oops\n") == 2
        };
        (stdouts(&logs, "LOCAL").len() == 2 && whole(&logs)).then_some(logs)
    });
    assert_eq!(logs, theirs(&running.id));
    let id = running.end();
    let logs = ours(&id, &[]);
    assert_eq!(logs, theirs(&id));
    let workers = stdouts(&logs, "AGGREGATED");
    assert_eq!(workers.len(), 2, "{:?}", logs.keys());

    let one = ours(&id, &["--container", &workers[0], "--file", "stderr"]);
    let [(key, contents)] = &one.into_iter().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((&key.0, key.3.as_str()), (&workers[0], "stderr"));
    assert_eq!(contents, &[b"oops\n"]);
    id
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR, for itself"]
fn logs_are_what_hadoops_own_command_prints() {
    let settings = settings();
    let mut last = String::new();
    for (formats, compression) in
        [("IFile,TFile", "gz"), ("IFile,TFile", "none"), ("TFile,IFile", "gz"), ("TFile", "none")]
    {
        settings.set(&[
            ("yarn.log-aggregation.file-formats", formats),
            INDEXED,
            ("yarn.nodemanager.log-aggregation.compression-type", compression),
        ]);
        last = as_hadoop_prints_them();
    }
    // Where Hadoop before 3.3 put them.
    let before = ours(&last, &[]);
    let user = String::from_utf8(succeeded(Command::new("id").arg("-un"))).unwrap();
    let user = format!("/app-logs/{}", user.trim());
    let old = format!("{user}/logs-tfile/");
    succeeded(cluster("hdfs").args(["dfs", "-mkdir", "-p", &old]));
    let new = format!("{user}/bucket-logs-tfile/*/{last}");
    succeeded(cluster("hdfs").args(["dfs", "-mv", &new, &old]));
    assert_eq!(ours(&last, &[]), before);

    let nobody = example("yarn-apps").args(["logs", "application_1_0001"]).output().unwrap();
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(!nobody.status.success() && said.contains("no such logs"), "{said}");
}

/// Returns the tokens by which a node writes an application's logs to HDFS; none without security.
async fn tokens(conf: &Configuration, login: &Login) -> Credentials {
    let mut tokens = Credentials::new();
    if login.is_secure() {
        let hdfs = HdfsTokens::new(conf, login, None).await.unwrap();
        let token = hdfs.get(&renewer(conf).await.unwrap()).await.unwrap();
        tokens.add(token.service().to_owned(), token);
    }
    tokens
}

/// An application of one container, whose ApplicationMaster is this process; its logs are collected while it
/// runs.
async fn rolling() -> (ApplicationId, AmRmClient) {
    let size = || Resource { memory: Some(64), virtual_cores: Some(1), ..Resource::default() };
    let conf = Configuration::load().unwrap();
    let login = Login::current(&conf).await.unwrap();
    let tokens = tokens(&conf, &login).await;
    // The ApplicationMaster's token is given to the user by the short name, which a proxied one goes by.
    let login = if login.is_secure() { login.proxy(login.short_name()) } else { login };
    let yarn = YarnClient::new(&conf, login).await.unwrap();
    let (id, _) = yarn.new_application().await.unwrap();
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        unmanaged_am: Some(true),
        max_app_attempts: Some(1),
        am_container_spec: Some(ContainerLaunchContext::default().with_tokens(&tokens)),
        resource: Some(size()),
        log_aggregation_context: Some(LogAggregationContext {
            rolled_logs_include_pattern: Some(".*[.]log".to_owned()),
            rolled_logs_exclude_pattern: Some(String::new()),
            ..LogAggregationContext::default()
        }),
        ..ApplicationSubmissionContext::default()
    };
    yarn.submit(context).await.unwrap();
    let token = loop {
        if let Some(token) = yarn.report(id).await.unwrap().am_rm_token {
            break token.into();
        }
        tokio::time::sleep(POLL).await;
    };
    let mut credentials = Credentials::new();
    credentials.add("master", token);
    let login = Login::simple(&conf, "anybody", credentials).unwrap();
    let registration = Registration { rpc_port: -1, ..Registration::default() };
    let (master, mut events) =
        AmRmClient::register(&conf, &login, registration, AmRmOptions::default()).await.unwrap();
    master.request(Ask::new(1, size())).unwrap();
    let container = loop {
        if let MasterEvent::Allocated { container, .. } = events.next().await.unwrap().unwrap() {
            break *container;
        }
    };
    // The second log is written after the first was collected.
    let command =
        "echo one > <LOG_DIR>/one.log; sleep 5; echo two > <LOG_DIR>/two.log; exec sleep 600";
    let token = master.nm_token(container.node_id.as_ref().unwrap()).unwrap();
    let launch = ContainerLaunchContext::of_command(command).with_tokens(&tokens);
    let nodes = NmClient::new(&conf, &login).unwrap();
    nodes.start(&container, &token, launch).await.unwrap();
    (id, master)
}

#[test]
#[ignore = "needs the cluster of `cargo xtask yarn up`, named by HADOOP_CONF_DIR, for itself"]
fn logs_that_are_collected_while_their_application_runs_are_there_at_once() {
    let settings = settings();
    for formats in ["TFile", "IFile,TFile"] {
        settings.set(&[
            ("yarn.log-aggregation.file-formats", formats),
            INDEXED,
            ("yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds", "2"),
            ("yarn.nodemanager.log-aggregation.debug-enabled", "true"),
        ]);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (id, master) = runtime.block_on(rolling());
        let text = id.to_string();
        // Nodes that write indexed files collect a log again in each round, as long as it is there.
        let part = |logs: &BTreeMap<Log, Vec<Vec<u8>>>, name: &str| -> Option<Vec<u8>> {
            let found = logs.iter().find(|(key, _)| key.2 == "AGGREGATED" && key.3 == name)?;
            assert!(found.1.iter().all(|log| *log == found.1[0]), "{found:?}");
            found.1.first().cloned()
        };
        until("two logs, one after the other", || {
            // An index that is just being added to is no error: what was there before is told.
            let printed = example("yarn-apps").args(["logs", &text]).output().unwrap();
            let logs = parsed(&printed.stdout);
            let both = (part(&logs, "one.log")?, part(&logs, "two.log")?);
            assert_eq!(both, (b"one\n".to_vec(), b"two\n".to_vec()));
            Some(())
        });
        let finish = Finish {
            status: hadoop::yarn::messages::FinalApplicationStatus::Succeeded,
            diagnostics: String::new(),
            tracking_url: String::new(),
        };
        runtime.block_on(master.finish(finish)).unwrap();
        collected(id);
        let logs = ours(&text, &[]);
        assert_eq!(logs, theirs(&text));
        assert_eq!(part(&logs, "two.log").unwrap(), b"two\n");
    }
}
