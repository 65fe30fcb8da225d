//! The target `standalone`: what `standalone-job.sh` does here, plus `taskmanager.sh start --program` on every line of
//! `conf/workers`.

use super::{Application, ClusterDescriptor, ClusterSpecification, Deployed};
use crate::cli::args::ClusterArgs;
use crate::cli::{Context, Failure, client};
use crate::exit::Exit;
use crate::settings;
use conf::Options;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use rest::client::RestClient;
use serde_json::json;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Says where the scripts are.
const BIN_VARIABLE: &str = "FLOTT_BIN_DIR";
const STANDALONE_JOB: &str = "standalone-job.sh";
const TASKMANAGER: &str = "taskmanager.sh";
/// TaskManagers on this host take a fraction of a second.
const REGISTERED_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A cluster of plain processes for one program.
pub(super) struct Standalone<'a> {
    context: &'a Context,
    cluster: ClusterArgs,
}

impl<'a> Standalone<'a> {
    pub(super) fn new(context: &'a Context, cluster: &ClusterArgs) -> Self {
        Self { context, cluster: cluster.clone() }
    }

    /// Starts a TaskManager on every host, unless the job ends before. Returns the hosts with their processes.
    fn start_taskmanagers<'h>(
        &self,
        bin: &Path,
        program: &Path,
        hosts: &'h [String],
        jobmanager: &Started,
        started: &mut Vec<(&'h String, Option<u32>)>,
    ) -> Result<(), Failure> {
        for host in hosts {
            if !jobmanager.lives() {
                break;
            }
            let pid = start_taskmanager(self.context, bin, program, host)?;
            started.push((host, pid));
        }
        Ok(())
    }

    async fn start(&self, application: Application) -> Result<Deployed, Failure> {
        let context = self.context;
        let bin = scripts_folder()?;
        let workers = workers(context)?;
        let program = application.program.clone();
        let jobmanager = start_jobmanager(context, &bin, &application)?;
        let mut started = Vec::new();
        let all = self.start_taskmanagers(&bin, &program, &workers, &jobmanager, &mut started);
        let ended = match &all {
            Ok(()) => has_ended(context, &jobmanager, started.len()).await?,
            Err(_) => {
                stop_jobmanager(context, &bin, &jobmanager)?;
                true
            }
        };
        if ended {
            // Those that had not registered by then would wait for it, and find the next cluster.
            for (host, pid) in started {
                stop_taskmanager(context, &bin, host, pid)?;
            }
        }
        all?;
        Ok(deployed(&program, &workers, &jobmanager, ended))
    }
}

impl ClusterDescriptor for Standalone<'_> {
    fn deploy(
        &self,
        _: ClusterSpecification,
        application: Option<Application>,
    ) -> LocalBoxFuture<'_, Result<Deployed, Failure>> {
        match application {
            Some(application) => self.start(application).boxed_local(),
            None => {
                let why = "a standalone session is started with start-cluster.sh";
                std::future::ready(Err(Failure::usage(why))).boxed_local()
            }
        }
    }

    fn retrieve(&self) -> LocalBoxFuture<'_, Result<RestClient, Failure>> {
        std::future::ready(client::connect(self.context, &self.cluster)).boxed_local()
    }
}

fn deployed(program: &Path, workers: &[String], jobmanager: &Started, ended: bool) -> Deployed {
    let value = json!({
        "program": program,
        "taskmanagers": workers,
        "ended": ended,
        "rest": jobmanager.rest,
        "log": jobmanager.log,
        "results": jobmanager.results,
    });
    let hosts = workers.join(", ");
    let what = match (ended, workers.is_empty()) {
        (true, _) => "has ended already".to_owned(),
        (false, true) => {
            "started: JobManager here, TaskManagers on no host yet (conf/workers is empty)"
                .to_owned()
        }
        (false, false) => format!("started: JobManager here, TaskManagers on {hosts}"),
    };
    let text = format!("application {} {what}{jobmanager}", program.display());
    // Its JobManager writes the results into a file.
    Deployed { value, text, client: None, application: None }
}

/// A JobManager that a script started: its process, and where it writes to, as the script said it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Started {
    pid: Option<u32>,
    rest: Option<String>,
    log: Option<String>,
    /// The place to which the job's results go, as the script printed it.
    results: Option<String>,
}

impl Started {
    /// Returns true if the line is about a place.
    fn hear(&mut self, line: &str) -> bool {
        if let Some(url) = line.strip_prefix("rest: ") {
            self.rest = Some(url.to_owned());
        } else if let Some(path) = line.strip_prefix("log: ") {
            self.log = Some(path.to_owned());
        } else if let Some(path) = line.strip_prefix("results: ") {
            self.results = Some(path.to_owned());
        } else {
            self.pid = self.pid.or(pid_in(line));
            return false;
        }
        true
    }

    /// Returns true unless the process, which runs on this host, has ended. An ended process that
    /// was not reaped has an empty command line.
    fn lives(&self) -> bool {
        let line = |pid| std::fs::read(format!("/proc/{pid}/cmdline"));
        self.pid.is_none_or(|pid| line(pid).is_ok_and(|line| !line.is_empty()))
    }
}

/// Waits until that number of TaskManagers is registered, because only registered ones hear of the
/// job's end, or until the JobManager has ended. Returns true if it has ended. TaskManagers of
/// other hosts may take longer: the wait is bounded by [`REGISTERED_WITHIN`].
async fn has_ended(
    context: &Context,
    jobmanager: &Started,
    taskmanagers: usize,
) -> Result<bool, Failure> {
    let Some(url) = &jobmanager.rest else {
        return Ok(!jobmanager.lives());
    };
    let place = ClusterArgs { jobmanager: Some(url.clone()), ..ClusterArgs::default() };
    let client = client::connect(context, &place)?;
    let registered = async {
        while jobmanager.lives() {
            let known = client.task_managers().await;
            if known.is_ok_and(|known| known.taskmanagers.len() >= taskmanagers) {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        true
    };
    let ended = tokio::time::timeout(REGISTERED_WITHIN, registered).await;
    Ok(ended.unwrap_or_else(|_| !jobmanager.lives()))
}

/// Reads the process id from a script's line: "started taskmanager on node-1 (pid 123, log /…)".
fn pid_in(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("(pid ")?;
    rest.split([',', ')']).next()?.parse().ok()
}

impl fmt::Display for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(url) = &self.rest {
            write!(f, "\nrest: {url}")?;
        }
        if let Some(log) = &self.log {
            write!(f, "\nlog: {log}")?;
        }
        if let Some(results) = &self.results {
            write!(f, "\nresults: {results}")?;
        }
        Ok(())
    }
}

/// Finds the folder of the scripts: as named, else beside this binary, else of the source tree it
/// was built in.
fn scripts_folder() -> Result<PathBuf, Failure> {
    let named = std::env::var_os(BIN_VARIABLE).map(PathBuf::from);
    let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let built = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("bin"));
    [named, beside, built]
        .into_iter()
        .flatten()
        .find(|folder| folder.join(STANDALONE_JOB).is_file())
        .ok_or_else(|| {
            Failure::start(format!(
                "{STANDALONE_JOB} is not found: set {BIN_VARIABLE} to the folder of the scripts"
            ))
        })
}

/// Reads the hosts of `conf/workers`, one a line.
fn workers(context: &Context) -> Result<Vec<String>, Failure> {
    let Some(folder) = settings::config_folder(context.common.config_dir.clone()) else {
        return Ok(vec!["localhost".to_owned()]);
    };
    let file = folder.join("workers");
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => "localhost".to_owned(),
        Err(e) => return Err(Failure::start(format!("{}: {e}", file.display()))),
    };
    Ok(hosts(&text))
}

fn hosts(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Returns the options of this command line for the standard input of a role: `-D` may hold secrets, and arguments are
/// visible to every user of a host. Empty without options.
fn definitions(context: &Context) -> Result<String, Failure> {
    let options = Options::from_map(context.overrides.iter().cloned())?.to_map();
    Ok(conf::to_yaml(options.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
}

/// Returns the arguments that go with [`definitions`].
fn definition_arguments(definitions: &str) -> &'static [&'static str] {
    if definitions.is_empty() { &[] } else { &["--define-file", settings::STANDARD_INPUT] }
}

fn start_jobmanager(
    context: &Context,
    bin: &Path,
    application: &Application,
) -> Result<Started, Failure> {
    let mut command = script(context, &bin.join(STANDALONE_JOB));
    command.arg("start").arg("--program").arg(&application.program);
    if let Some(id) = &application.job_id {
        command.args(["--job-id", &id.to_string()]);
    }
    if let Some(job) = &application.args.job {
        command.args(["--job", job]);
    }
    if let Some(n) = application.args.parallelism {
        command.args(["-p", &n.to_string()]);
    }
    let definitions = definitions(context)?;
    command.args(definition_arguments(&definitions));
    command.arg("--").args(application.args.args());
    let mut started = Started::default();
    succeed(context, command, &definitions, |line| started.hear(line))?;
    Ok(started)
}

/// Ends a JobManager that was started for nothing. One that has ended meanwhile is fine.
fn stop_jobmanager(context: &Context, bin: &Path, jobmanager: &Started) -> Result<(), Failure> {
    let mut command = script(context, &bin.join(STANDALONE_JOB));
    command.arg("stop").args(jobmanager.pid.map(|pid| pid.to_string()));
    succeed(context, command, "", |_| false)
}

fn start_taskmanager(
    context: &Context,
    bin: &Path,
    program: &Path,
    host: &str,
) -> Result<Option<u32>, Failure> {
    let mut arguments =
        vec!["start".to_owned(), "--program".to_owned(), program.display().to_string()];
    let definitions = definitions(context)?;
    arguments.extend(definition_arguments(&definitions).iter().map(|word| (*word).to_owned()));
    let mut pid = None;
    succeed(context, taskmanager(context, bin, host, &arguments), &definitions, |line| {
        pid = pid.or(pid_in(line));
        false
    })?;
    Ok(pid)
}

/// Stops a TaskManager; one that has ended meanwhile is not an error.
fn stop_taskmanager(
    context: &Context,
    bin: &Path,
    host: &str,
    pid: Option<u32>,
) -> Result<(), Failure> {
    let Some(pid) = pid else { return Ok(()) };
    let arguments = ["stop".to_owned(), pid.to_string()];
    succeed(context, taskmanager(context, bin, host, &arguments), "", |_| false)
}

/// Makes the call of the script of TaskManagers on a host.
fn taskmanager(context: &Context, bin: &Path, host: &str, arguments: &[String]) -> Command {
    let script_path = bin.join(TASKMANAGER);
    let local = matches!(host, "localhost" | "127.0.0.1" | "::1");
    let command = if local {
        let mut command = script(context, &script_path);
        command.args(arguments);
        command
    } else {
        let options = context.options.get(&conf::logging::SSH_OPTS);
        let mut command = Command::new("ssh");
        command.args(options.split_whitespace()).arg(host);
        let words = std::iter::once(script_path.display().to_string());
        let words = words.chain(arguments.iter().cloned());
        command.arg("--").arg(words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" "));
        command
    };
    tracing::debug!(host, ?command, "the script of TaskManagers");
    command
}

fn script(context: &Context, path: &Path) -> Command {
    let mut command = Command::new(path);
    if let Some(folder) = settings::config_folder(context.common.config_dir.clone()) {
        command.env("FLOTT_CONF_DIR", folder);
    }
    command
}

/// Runs a script to its end with `input` as its standard input. A line of its output that `hear` does not take is
/// printed as a note: standard output is for the result of this command.
fn succeed(
    context: &Context,
    mut command: Command,
    input: &str,
    mut hear: impl FnMut(&str) -> bool,
) -> Result<(), Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| Failure::start(format!("{name}: {e}"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A script that ends without reading has a reason, which it says.
        let _ = stdin.write_all(input.as_bytes());
    }
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).lines() {
            let line = line.map_err(failed)?;
            if !hear(&line) {
                context.print.note(&line);
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    // The process has printed its own message; its exit code becomes this command's.
    let exit = status.code().and_then(Exit::from_code).unwrap_or(Exit::StartUpFailed);
    Err(Failure::new(exit, format!("{name} failed: {status}")))
}

/// Quotes a word so that a remote shell takes it literally.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_lines_without_comments() {
        assert_eq!(hosts("localhost\n# none\n\n  node-1  # rack 2\n"), ["localhost", "node-1"]);
    }

    #[test]
    fn a_script_says_where_log_and_results_are() {
        let mut places = Started::default();
        assert_eq!(places.to_string(), "");
        let lines = [
            "started standalone-job on h (pid 1)",
            "rest: http://h:8081",
            "log: /l/a.log",
            "results: /l/a b.out",
        ];
        for line in lines {
            assert_eq!(places.hear(line), !line.starts_with("started"), "{line}");
        }
        assert_eq!(places.results.as_deref(), Some("/l/a b.out"));
        assert_eq!(places.to_string(), "\nrest: http://h:8081\nlog: /l/a.log\nresults: /l/a b.out");
    }

    #[test]
    fn a_script_says_which_process_it_started() {
        let line = "started taskmanager on node-1 (pid 123, log /l/a (1).log)";
        assert_eq!(pid_in(line), Some(123));
        assert_eq!(pid_in("standalone-job on h ended already (pid 7)"), Some(7));
        assert_eq!((pid_in("log: /l/a.log"), pid_in("(pid x)")), (None, None));
        let mut started = Started::default();
        assert!(started.lives(), "nothing is known");
        started.hear(&format!("started standalone-job on h (pid {})", std::process::id()));
        assert!(started.lives());
        // There is no process of this number: it is larger than the kernel gives.
        assert!(!Started { pid: Some(u32::MAX), ..Started::default() }.lives());
    }

    #[test]
    fn words_for_a_remote_shell_stay_whole() {
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
    }
}
