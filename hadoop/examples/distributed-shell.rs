//! Runs a shell command in containers of YARN. One program is all three: the client, which puts itself into HDFS
//! and submits; the ApplicationMaster, which asks for containers; and the worker in each of them.
//!
//! ```text
//! HADOOP_CONF_DIR=… cargo run -p hadoop --example distributed-shell -- [--containers N] [--memory MIB]
//!     [--queue NAME] [--command COMMAND]
//! ```
//!
//! With Kerberos it logs in from a keytab (`KRB5KEYTAB`, `KRB5PRINCIPAL`) or the ticket cache, and gives the
//! application tokens for HDFS and YARN, which the ResourceManager renews.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "that is what it is for")]

#[path = "shared/hdfs.rs"]
mod hdfs;

use hadoop::conf::Configuration;
use hadoop::hdfs::HdfsTokens;
use hadoop::login::Login;
use hadoop::tokens::{Credentials, kinds};
use hadoop::yarn::messages::{
    ApplicationId, ApplicationSubmissionContext, Container, ContainerId, ContainerLaunchContext,
    FinalApplicationStatus, LocalResource, Resource,
};
use hadoop::yarn::{
    AmRmClient, AmRmOptions, Ask, ContainerExit, Finish, MasterEvent, NmClient, Registration,
    YarnClient, YarnError, renewer,
};
use hdfs::hdfs;
use hdfs_native::WriteOptions;
use std::collections::BTreeSet;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::str::FromStr;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str =
    "usage: distributed-shell [--containers N] [--memory MIB] [--queue NAME] [--command COMMAND]";

/// The program's name in containers.
const PROGRAM: &str = "distributed-shell";
/// The configuration's name there.
const SITE: &str = "yarn-site.xml";
/// Memory of the ApplicationMaster, in MiB.
const MASTER_MEMORY: i64 = 256;
/// A container that ended through no fault of its command is replaced, so many times in all.
const REPLACEMENTS: u32 = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let ended = match args.first().map(String::as_str) {
        Some("master") => master().await,
        Some("worker") => worker(),
        _ => client(&args).await,
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// The work of this application. The client and the ApplicationMaster pass it on in the environment of containers.
#[derive(Debug, Clone)]
struct Job {
    containers: u32,
    memory: i64,
    queue: String,
    command: String,
    /// The directory of the application's files in HDFS, which is deleted when the application ends.
    directory: String,
    /// The program and the configuration in HDFS: URI, size, time.
    files: [(String, i64, i64); 2],
}

fn number<T: FromStr>(name: &str, text: &str) -> Outcome<T> {
    Ok(text.parse().map_err(|_| format!("{name} takes a number, not '{text}'"))?)
}

impl Job {
    fn from_args(args: &[String]) -> Outcome<Self> {
        let mut job = Self {
            containers: 2,
            memory: 128,
            queue: "default".to_owned(),
            command: "echo \"$CONTAINER_ID runs on $NM_HOST:$NM_PORT\"".to_owned(),
            directory: String::new(),
            files: Default::default(),
        };
        for pair in args.chunks(2) {
            match pair {
                [name, value] if name == "--containers" => job.containers = number(name, value)?,
                [name, value] if name == "--memory" => job.memory = number(name, value)?,
                [name, value] if name == "--queue" => job.queue.clone_from(value),
                [name, value] if name == "--command" => job.command.clone_from(value),
                other => return Err(format!("what is {}?\n{USAGE}", other.join(" ")).into()),
            }
        }
        Ok(job)
    }

    fn from_environment() -> Outcome<Self> {
        let get = |name: &str| std::env::var(name).map_err(|e| format!("{name}: {e}"));
        let file = |prefix: &str| -> Outcome<(String, i64, i64)> {
            let get = |what: &str| get(&format!("SHELL_{prefix}_{what}"));
            Ok((get("URI")?, get("SIZE")?.parse()?, get("TIME")?.parse()?))
        };
        Ok(Self {
            containers: get("SHELL_CONTAINERS")?.parse()?,
            memory: get("SHELL_MEMORY")?.parse()?,
            queue: get("SHELL_QUEUE")?,
            command: String::from_utf8(from_hex(&get("SHELL_COMMAND")?)?)?,
            directory: get("SHELL_DIRECTORY")?,
            files: [file("PROGRAM")?, file("SITE")?],
        })
    }

    /// A container that runs this program in one of its roles.
    fn launch(&self, role: &str, tokens: &Credentials) -> Outcome<ContainerLaunchContext> {
        let command = format!("./{PROGRAM} {role} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr");
        let mut launch = ContainerLaunchContext::of_command(command)
            // The working directory, where the configuration is.
            .with_expanded_env("HADOOP_CONF_DIR", "{{PWD}}")
            .with_env("SHELL_CONTAINERS", self.containers.to_string())
            .with_env("SHELL_MEMORY", self.memory.to_string())
            .with_env("SHELL_QUEUE", &self.queue)
            .with_env("SHELL_DIRECTORY", &self.directory)
            .with_tokens(tokens)
            // NodeManagers write values into a script as they are: `$` and quotes would be read there.
            .with_env("SHELL_COMMAND", to_hex(self.command.as_bytes()));
        let names = [("PROGRAM", PROGRAM), ("SITE", SITE)];
        for ((prefix, name), (uri, size, time)) in names.into_iter().zip(&self.files) {
            launch = launch
                .with_env(format!("SHELL_{prefix}_URI"), uri)
                .with_env(format!("SHELL_{prefix}_SIZE"), size.to_string())
                .with_env(format!("SHELL_{prefix}_TIME"), time.to_string())
                .with_file(name, LocalResource::file(uri, *size, *time)?);
        }
        Ok(launch)
    }
}

fn size(memory: i64) -> Resource {
    Resource { memory: Some(memory), virtual_cores: Some(1), ..Resource::default() }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Outcome<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    Ok(bytes.ok_or("not hexadecimal")?)
}

/// Puts the files into HDFS, submits, and tells what becomes of it.
async fn client(args: &[String]) -> Outcome<ExitCode> {
    let mut job = Job::from_args(args)?;
    let conf = Configuration::load()?;
    let login = Login::current(&conf).await?;
    let yarn = YarnClient::new(&conf, login.clone()).await?;
    yarn.check_queue(&job.queue).await?;
    let (id, maximum) = yarn.new_application().await?;
    size(job.memory).check(&maximum)?;
    size(MASTER_MEMORY).check(&maximum)?;
    let tokens = tokens(&conf, &login, &yarn).await?;

    job.directory = format!("/user/{}/.distributed-shell/{id}", login.short_name());
    let hdfs = hdfs(&conf, &login)?;
    let program = std::fs::read(std::env::current_exe()?)?;
    let site = conf.to_xml(true)?.into_bytes();
    let root = conf.require("fs.defaultFS", "files go there")?;
    for ((name, bytes), file) in [(PROGRAM, program), (SITE, site)].into_iter().zip(&mut job.files)
    {
        let path = format!("{}/{name}", job.directory);
        // A configuration may hold passwords. Nodes fetch an application's files as its user.
        let permission = if name == SITE { 0o600 } else { 0o644 };
        let options = WriteOptions::default().permission(permission);
        let mut writer = hdfs.create(&path, options).await?;
        writer.write_bytes(bytes.into()).await?;
        writer.close().await?;
        let status = hdfs.get_file_info(&path).await?;
        // Exactly these: nodes refuse a file that is not what was submitted.
        let time = i64::try_from(status.modification_time)?;
        *file =
            (format!("{}{path}", root.trim_end_matches('/')), i64::try_from(status.length)?, time);
    }
    let ended = submitted(&yarn, id, &job, &tokens).await;
    // An ApplicationMaster that was killed could not do it.
    if hdfs.delete(&job.directory, true).await? {
        println!("{id}\tits files are removed");
    }
    Ok(match ended? {
        FinalApplicationStatus::Succeeded => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Fetches the tokens by which the application's processes authenticate themselves: they have no Kerberos tickets.
async fn tokens(conf: &Configuration, login: &Login, yarn: &YarnClient) -> Outcome<Credentials> {
    let mut tokens = Credentials::new();
    if login.is_secure() {
        let renewer = renewer(conf).await?;
        let hdfs = HdfsTokens::new(conf, login, None).await?.get(&renewer).await?;
        let yarn = yarn.delegation_token(&renewer).await?;
        for token in [hdfs, yarn] {
            tokens.add(token.service().to_owned(), token);
        }
    }
    Ok(tokens)
}

async fn submitted(
    yarn: &YarnClient,
    id: ApplicationId,
    job: &Job,
    tokens: &Credentials,
) -> Outcome<FinalApplicationStatus> {
    let context = ApplicationSubmissionContext {
        application_id: Some(id),
        application_name: Some(PROGRAM.to_owned()),
        application_type: Some("NATIVE".to_owned()),
        queue: Some(job.queue.clone()),
        am_container_spec: Some(job.launch("master", tokens)?),
        resource: Some(size(MASTER_MEMORY)),
        keep_containers_across_application_attempts: Some(true),
        ..ApplicationSubmissionContext::default()
    };
    yarn.submit(context).await?;
    let mut reports = yarn.watch(id);
    let mut end = FinalApplicationStatus::Undefined;
    while let Some(report) = reports.next().await? {
        end = report.final_status();
        println!("{id}\t{:?}\t{end:?}\t{}", report.state(), report.diagnostics().trim());
    }
    Ok(end)
}

/// Asks for containers, starts a worker in each, waits for all of them.
async fn master() -> Outcome<ExitCode> {
    let job = &Job::from_environment()?;
    let conf = Configuration::load()?;
    let login = Login::current(&conf).await?;
    let host = std::env::var("NM_HOST").unwrap_or_default();
    let registration = Registration { host, rpc_port: -1, tracking_url: String::new() };
    // Ends of containers are heard of at the next heartbeat.
    let options = AmRmOptions { idle: Duration::from_millis(250), ..AmRmOptions::default() };
    let (yarn, mut events) = AmRmClient::register(&conf, &login, registration, options).await?;
    let mut tokens = login.credentials();
    // Whoever has that one is the ApplicationMaster.
    tokens.retain(|_, token| token.kind() != kinds::AM_RM);
    let mut work = Work {
        job,
        tokens,
        nodes: NmClient::new(&conf, &login)?,
        yarn,
        asked: false,
        recovered: 0,
        running: BTreeSet::new(),
        succeeded: 0,
        failed: Vec::new(),
        replaced: 0,
    };
    while work.is_open() {
        match events.next().await? {
            Some(MasterEvent::Registered(response)) if !work.asked => {
                let earlier = response.containers_from_previous_attempts.len();
                work.ask(job.containers.saturating_sub(u32::try_from(earlier)?))?;
            }
            Some(MasterEvent::Recovered(container)) => work.recover(&container).await?,
            Some(MasterEvent::Allocated { container, .. }) => work.start(&container).await?,
            Some(MasterEvent::Completed { id, exit, diagnostics }) => {
                work.ended(id, exit, &diagnostics)?;
            }
            Some(MasterEvent::Refused { reason, .. }) => work.failed.push(reason),
            Some(MasterEvent::Shutdown) | None => return Err("told to end".into()),
            Some(_) => {}
        }
    }
    // Nothing is left when the end is told.
    hdfs(&conf, &login)?.delete(&job.directory, true).await?;
    let (status, diagnostics) = work.outcome();
    println!("{status:?}: {diagnostics}");
    work.yarn.finish(Finish { status, diagnostics, tracking_url: String::new() }).await?;
    Ok(ExitCode::SUCCESS)
}

/// The ApplicationMaster's record of its workers.
struct Work<'a> {
    job: &'a Job,
    /// Handed to each worker: all tokens but the ApplicationMaster's own for the ResourceManager.
    tokens: Credentials,
    yarn: AmRmClient,
    nodes: NmClient,
    asked: bool,
    /// Workers that an earlier attempt started.
    recovered: u32,
    running: BTreeSet<ContainerId>,
    succeeded: u32,
    failed: Vec<String>,
    replaced: u32,
}

impl Work<'_> {
    fn is_open(&self) -> bool {
        self.failed.is_empty() && self.succeeded < self.job.containers
    }

    fn outcome(&self) -> (FinalApplicationStatus, String) {
        match (self.failed.first(), self.recovered) {
            (Some(first), _) => (FinalApplicationStatus::Failed, first.clone()),
            (None, 0) => {
                (FinalApplicationStatus::Succeeded, format!("{} succeeded", self.succeeded))
            }
            (None, recovered) => {
                let of_earlier = format!("{recovered} of them started by an earlier attempt");
                let told = format!("{} succeeded, {of_earlier}", self.succeeded);
                (FinalApplicationStatus::Succeeded, told)
            }
        }
    }

    fn ask(&mut self, count: u32) -> Outcome<()> {
        self.asked = true;
        if count > 0 {
            self.yarn.request(Ask::new(count, size(self.job.memory)))?;
        }
        Ok(())
    }

    /// Takes over a worker of an earlier attempt. One that ended while there was none is run again.
    async fn recover(&mut self, container: &Container) -> Outcome<()> {
        let id = container.id.ok_or("a container without an id")?;
        let node = container.node_id.clone().unwrap_or_default();
        let token = self.yarn.nm_token(&node).ok_or("no token for a container's node")?;
        match self.nodes.status(&node, &token, id).await {
            Ok(status) => println!("{id} recovered: {:?}", status.container_sub_state()),
            // It has ended; its status follows.
            Err(error @ YarnError::Container { .. }) => println!("{error}"),
            Err(error) => return Err(error.into()),
        }
        self.running.insert(id);
        self.recovered += 1;
        Ok(())
    }

    async fn start(&mut self, container: &Container) -> Outcome<()> {
        let id = container.id.ok_or("a container without an id")?;
        let node = container.node_id.clone().unwrap_or_default();
        let token = self.yarn.nm_token(&node).ok_or("no token for a container's node")?;
        let launch = self.job.launch("worker", &self.tokens)?;
        match self.nodes.start(container, &token, launch).await {
            Ok(()) => {
                println!("{id} started on {node}");
                self.running.insert(id);
                Ok(())
            }
            Err(error @ (YarnError::Container { .. } | YarnError::Call(_))) => {
                self.yarn.release(id);
                self.replace(&format!("{id} was not started: {error}"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn ended(&mut self, id: ContainerId, exit: ContainerExit, why: &str) -> Outcome<()> {
        if !self.running.remove(&id) {
            return Ok(());
        }
        println!("{id} ended: {exit:?} {}", why.trim());
        match exit {
            ContainerExit::Success => self.succeeded += 1,
            exit if exit.is_own_fault() => self.failed.push(format!("{id}: {exit:?}")),
            exit => self.replace(&format!("{id}: {exit:?}"))?,
        }
        self.yarn.set_progress(self.succeeded as f32 / self.job.containers.max(1) as f32);
        Ok(())
    }

    fn replace(&mut self, why: &str) -> Outcome<()> {
        println!("{why}");
        self.replaced += 1;
        match self.replaced > REPLACEMENTS {
            true => self.failed.push(why.to_owned()),
            false => self.ask(1)?,
        }
        Ok(())
    }
}

/// Runs the command; its end is the container's.
fn worker() -> Outcome<ExitCode> {
    let job = Job::from_environment()?;
    let status = Command::new("/bin/sh").args(["-c", &job.command]).status()?;
    // No code: a signal ended it.
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1))?))
}
