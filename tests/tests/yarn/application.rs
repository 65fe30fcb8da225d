//! An application that a test stages and submits as the client does it.

use super::common::{bin, eventually, program, run, succeeded};
use hadoop::conf::Configuration;
use hadoop::hdfs::HdfsTokens;
use hadoop::login::Login;
use hadoop::tokens::{Credentials, Secret};
use hadoop::yarn::messages::{
    ApplicationAttemptReport, ApplicationId, ApplicationReport, ApplicationSubmissionContext,
    ContainerLaunchContext, FinalApplicationStatus, LocalResource, NodeState, Resource,
    YarnApplicationState,
};
use hadoop::yarn::{YarnClient, renewer};
use hdfs_native::{Client, ClientBuilder, WriteOptions};
use rest::client::{ClientTimeouts, RestClient};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum time for each step of an application on a busy machine.
pub(super) const WITHIN: Duration = Duration::from_secs(120);
/// The cluster's secret. It must be nowhere but in credentials.
const SECRET: &str = "b5c0ffee00112233445566778899aabb";
/// Memory of the ApplicationMaster, and of a TaskManager, in MiB.
const MEMORY: i64 = 512;

/// An application that is staged and submitted; killed when dropped.
pub(super) struct Application {
    runtime: tokio::runtime::Runtime,
    pub(super) yarn: YarnClient,
    hdfs: Client,
    pub(super) id: ApplicationId,
    /// Staging directory of the application in HDFS.
    staging: String,
    pub(super) submitted: Instant,
}

/// The source of a container's file.
enum Content {
    File(PathBuf),
    Text(String),
}

/// A client of HDFS for the login of the test.
pub(super) fn hdfs(conf: &Configuration, login: &Login) -> Client {
    let property = |name: &str| (name.to_owned(), conf.get(name).unwrap().unwrap_or_default());
    let properties: Vec<_> = conf.names().map(property).collect();
    let hdfs = ClientBuilder::new().with_config(properties);
    let hdfs = match login.keytab() {
        Some((principal, keytab)) => {
            hdfs.with_kerberos_principal(principal).with_kerberos_keytab(keytab.to_string_lossy())
        }
        None => hdfs.with_user(login.user()),
    };
    hdfs.build().unwrap()
}

/// Returns the credentials by which the application's processes prove their user.
async fn credentials(conf: &Configuration, login: &Login) -> Credentials {
    let mut credentials = Credentials::new();
    credentials.add_secret("flott.cluster.secret", Secret::new(SECRET.as_bytes().to_vec()));
    if login.is_secure() {
        let renewer = renewer(conf).await.unwrap();
        let tokens = HdfsTokens::new(conf, login, None).await.unwrap();
        let hdfs = tokens.get(&renewer).await.unwrap();
        credentials.add(hdfs.service().to_owned(), hdfs);
    }
    credentials
}

impl Application {
    pub(super) fn submit(
        command: &str,
        env: &[(&str, &str)],
        options: &[(&str, &str)],
        files: &[(&str, &Path)],
    ) -> Self {
        Self::of_attempts(1, command, env, options, files)
    }

    /// A session of the binary `flott`, with these options beside those of [`options`].
    pub(super) fn session(more: &[(&str, &str)]) -> Self {
        let command = jobmanager("flott", "session");
        Self::submit(&command, &[], &options(more), &[("flott", &bin("flott"))])
    }

    /// A program as its own JobManager, with these arguments, and these options beside those of [`options`].
    pub(super) fn of_program(
        attempts: i32,
        program: &str,
        args: &Value,
        more: &[(&str, &str)],
    ) -> Self {
        let args = args.to_string();
        let options = options(&[&[("pipeline.program-args", &*args)], more].concat());
        let (command, role) = (jobmanager("program", "application"), [("FLOTT_ROLE", "cluster")]);
        Self::of_attempts(attempts, &command, &role, &options, &[("program", &bin(program))])
    }

    pub(super) fn of_attempts(
        attempts: i32,
        command: &str,
        env: &[(&str, &str)],
        options: &[(&str, &str)],
        files: &[(&str, &Path)],
    ) -> Self {
        assert!(std::env::var_os("HADOOP_CONF_DIR").is_some(), "HADOOP_CONF_DIR names no cluster");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let (yarn, hdfs, id, staging) =
            runtime.block_on(staged_and_submitted(attempts, command, env, options, files));
        eprintln!("{id} is submitted");
        Self { runtime, yarn, hdfs, id, staging, submitted: Instant::now() }
    }

    pub(super) fn report(&self) -> ApplicationReport {
        self.runtime.block_on(self.yarn.report(self.id)).unwrap()
    }

    /// Waits until it runs; where its REST endpoint answers.
    pub(super) fn rest(&self) -> (String, u16) {
        let report = eventually(WITHIN, "the application runs", || {
            let report = self.report();
            let state = report.state();
            assert!(
                !matches!(state, YarnApplicationState::Failed | YarnApplicationState::Killed),
                "{state:?}: {}",
                report.diagnostics()
            );
            (state == YarnApplicationState::Running).then_some(report)
        });
        eprintln!("{} runs after {:?}", self.id, self.submitted.elapsed());
        let url = report.original_tracking_url().trim_start_matches("http://").to_owned();
        let (host, port) = url.trim_end_matches('/').rsplit_once(':').unwrap();
        (host.to_owned(), port.parse().unwrap())
    }

    /// Waits until it runs; a client of its REST endpoint.
    pub(super) fn client(&self) -> RestClient {
        let (host, port) = self.rest();
        RestClient::new(&host, port, ClientTimeouts::default())
    }

    /// The attempts to run it so far.
    pub(super) fn attempts(&self) -> Vec<ApplicationAttemptReport> {
        self.block_on(self.yarn.attempts(self.id)).unwrap()
    }

    /// Waits for the end; its report.
    pub(super) fn ended(&self) -> ApplicationReport {
        eventually(WITHIN, "the application ends", || {
            let report = self.report();
            is_over(report.state()).then_some(report)
        })
    }

    /// Waits for the end, which must be a success.
    pub(super) fn has_succeeded(&self) {
        let report = self.ended();
        let (status, why) = (report.final_status(), report.diagnostics());
        assert_eq!(status, FinalApplicationStatus::Succeeded, "{why}");
    }

    pub(super) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Processes of its containers and their program hosts: from `/proc`, by directories of the application in their
    /// environment.
    pub(super) fn processes(&self) -> Vec<(u32, String)> {
        let mark = self.id.to_string();
        let of = |entry: std::fs::DirEntry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let ours = String::from_utf8_lossy(&environment).contains(&mark);
            let command = std::fs::read(entry.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            ours.then_some((pid, command))
        };
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    }

    /// Checks that neither arguments nor environments show the secret, and that the program hosts,
    /// of which there are some, do not get the container's credentials. Returns the number of
    /// hosts.
    pub(super) fn shows_no_secret(&self) -> usize {
        let mut hosts = 0;
        for (pid, command) in self.processes() {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            assert!(!command.contains(SECRET) && !environment.contains(SECRET), "{command}");
            let of = |name: &str| {
                let start = format!("{name}=");
                environment.split('\0').find_map(|pair| pair.strip_prefix(&start))
            };
            if of("FLOTT_ROLE") == Some("program-host") {
                hosts += 1;
                let tokens = of("HADOOP_TOKEN_FILE_LOCATION").unwrap();
                assert!(tokens.ends_with("/host-tokens"), "{tokens}");
                let read = Credentials::read_file(Path::new(tokens)).unwrap();
                assert_eq!(read.secrets().count(), 0);
            }
        }
        hosts
    }

    /// The NodeManager of two that its ApplicationMaster is not on, as `cargo xtask yarn` calls it.
    pub(super) fn other_node(&self) -> String {
        let id = self.attempts().first().unwrap().am_container_id.unwrap();
        let node = self.block_on(self.yarn.container(id)).unwrap().node_id.unwrap();
        // Ports of the nodes go up with their numbers.
        let nodes = self.block_on(self.yarn.nodes(&[NodeState::Running])).unwrap();
        let mut ports: Vec<i32> =
            nodes.iter().map(|node| node.node_id.as_ref().unwrap().port()).collect();
        ports.sort_unstable();
        let place = ports.iter().position(|port| *port != node.port()).unwrap();
        format!("nodemanager{}", place + 1)
    }

    /// Checks that nothing of the application is left: no process, no staged file.
    pub(super) fn is_gone(&self) {
        self.has_no_process();
        let left = self.block_on(self.hdfs.get_file_info(&self.staging));
        assert!(left.is_err(), "{} stays behind: {left:?}", self.staging);
    }

    pub(super) fn has_no_process(&self) {
        let began = Instant::now();
        eventually(WITHIN, "its processes end", || {
            let left = self.processes();
            if began.elapsed() > WITHIN / 2 {
                eprintln!("{left:?}");
            }
            left.is_empty().then_some(())
        });
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // It has mostly ended.
        let _ = self.block_on(self.yarn.kill(self.id, Some("the test is over".to_owned())));
    }
}

async fn staged_and_submitted(
    attempts: i32,
    command: &str,
    env: &[(&str, &str)],
    options: &[(&str, &str)],
    files: &[(&str, &Path)],
) -> (YarnClient, Client, ApplicationId, String) {
    let conf = Configuration::load().unwrap();
    let login = Login::current(&conf).await.unwrap();
    let yarn = YarnClient::new(&conf, login.clone()).await.unwrap();
    let hdfs = hdfs(&conf, &login);
    let (id, _) = yarn.new_application().await.unwrap();
    let staging = format!("/user/{}/.flott/{id}", login.short_name());
    let root = conf.require("fs.defaultFS", "files go there").unwrap();
    let root = root.trim_end_matches('/').to_owned();

    let mut yaml = String::from("cluster.driver: yarn\n");
    for (key, value) in options {
        yaml.push_str(&format!("{key}: {}\n", json!(value)));
    }
    let mut contents: Vec<(&str, Content)> =
        files.iter().map(|(name, path)| (*name, Content::File((*path).to_owned()))).collect();
    contents.push(("flott.yaml", Content::Text(yaml)));
    contents.push(("hadoop-site.xml", Content::Text(conf.to_xml(true).unwrap())));
    let (mut listed, mut launch) = (Vec::new(), ContainerLaunchContext::of_command(command));
    for (name, content) in contents {
        let (bytes, mode) = match content {
            Content::File(path) => (std::fs::read(path).unwrap(), 0o700),
            Content::Text(text) => (text.into_bytes(), 0o600),
        };
        let path = format!("{staging}/{name}");
        let mut writer =
            hdfs.create(&path, WriteOptions::default().permission(mode)).await.unwrap();
        writer.write_bytes(bytes.into()).await.unwrap();
        writer.close().await.unwrap();
        let status = hdfs.get_file_info(&path).await.unwrap();
        let size = i64::try_from(status.length).unwrap();
        let time = i64::try_from(status.modification_time).unwrap();
        let url = format!("{root}{path}");
        launch = launch.with_file(name, LocalResource::file(&url, size, time).unwrap());
        listed.push(json!({
            "name": name, "url": url, "size": size, "timestamp": time, "archive": false, "public": false
        }));
    }
    let credentials = credentials(&conf, &login).await;
    launch = launch
        .with_env("FLOTT_YARN_FILES", json!(listed).to_string())
        .with_env("FLOTT_YARN_STAGING", format!("{root}{staging}"))
        .with_env("HADOOP_USER_NAME", login.short_name())
        .with_tokens(&credentials);
    for (name, value) in env {
        launch = launch.with_env(*name, *value);
    }
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        application_name: Some("flott".to_owned()),
        application_type: Some("Flott".to_owned()),
        am_container_spec: Some(launch),
        resource: Some(Resource {
            memory: Some(MEMORY),
            virtual_cores: Some(1),
            ..Resource::default()
        }),
        max_app_attempts: Some(attempts),
        ..ApplicationSubmissionContext::default()
    };
    yarn.submit(context).await.unwrap();
    (yarn, hdfs, id, staging)
}

/// Whether an application in this state has ended.
pub(super) fn is_over(state: YarnApplicationState) -> bool {
    use YarnApplicationState::{Failed, Finished, Killed};
    matches!(state, Finished | Failed | Killed)
}

/// Runs a program by `flott run` in the session of this client, to its end, which must be a success.
pub(super) fn run_in<A: AsRef<str>>(
    session: &RestClient,
    parallelism: u32,
    name: &str,
    args: &[A],
) {
    let (parallelism, program) = (parallelism.to_string(), program(name));
    let words = ["run", "-p", &parallelism, "-m", session.authority(), &program];
    succeeded(run("flott", words.into_iter().chain(args.iter().map(A::as_ref))));
}

/// Containers that are small and quickly asked for.
pub(super) fn options<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![
        ("jobmanager.memory.process.size", "512m"),
        ("taskmanager.memory.process.size", "512m"),
        ("taskmanager.numberOfTaskSlots", "2"),
        ("yarn.heartbeat.interval", "500 ms"),
        ("resourcemanager.taskmanager-timeout", "5 s"),
    ];
    all.retain(|(key, _)| more.iter().all(|(other, _)| key != other));
    all.extend(more);
    all
}

pub(super) fn jobmanager(binary: &str, mode: &str) -> String {
    format!(
        "./{binary} jobmanager --mode {mode} --config-dir . \
         1><LOG_DIR>/jobmanager.out 2><LOG_DIR>/jobmanager.stderr"
    )
}
