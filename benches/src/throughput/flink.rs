//! Flink's side of a workload: a standalone JobManager and TaskManagers of Flink's distribution, which stay warm over all
//! runs, and the peer job of `benches/peers/flink`.
//!
//! Everything is ended and removed when the value is dropped. The peer job is on the processes' own class path: with a
//! class loader for each job the compiled code would be thrown away after every run.

use super::measure::{Run, Span};
use super::ours::{request_of, run_to_end};
use super::{Checksum, Place, Workload};
use crate::cluster::{free_port, wait_a_moment};
use crate::yarn::flink::{LOGGING, opened};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use rest::client::{ClientTimeouts, RestClient};
use serde::Deserialize;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;
use tokio::time::Instant;

const JOB_MANAGER: &str = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint";
const TASK_MANAGER: &str = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner";
/// Works out the options of a TaskManager's JVM, as Flink's own scripts have it do.
const OPTIONS: &str = "org.apache.flink.runtime.util.bash.BashJavaUtils";
/// Begins each line of its result.
const RESULT: &str = "BASH_JAVA_UTILS_EXEC_RESULT:";
/// The peer job's class.
const PEER: &str = "peer.Throughput";

/// The paths of Flink's distribution and of the jar with the peer jobs, as `cargo xtask` has installed them.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The folder with `lib` and `bin`.
    pub distribution: PathBuf,
    /// The peer job's jar.
    pub peer: PathBuf,
}

/// The command line options of a benchmark that may measure Flink beside Flott: `--against flink`, and the paths `--distribution` and
/// `--peer`, which `cargo xtask` sets when it has installed Flink.
#[derive(Debug, Args)]
pub struct Against {
    /// Also measure Flink; it is fetched, and its job is built, when it is not there.
    #[arg(long, value_name = "PEER")]
    against: Option<OnlyFlink>,
    /// Flink's distribution; `cargo xtask` sets it.
    #[arg(long, hide = true, value_name = "DIR", requires = "peer")]
    distribution: Option<PathBuf>,
    /// The jar of the jobs for Flink; `cargo xtask` sets it.
    #[arg(long, hide = true, value_name = "JAR")]
    peer: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OnlyFlink {
    Flink,
}

impl Against {
    /// Returns the paths of Flink's distribution and jobs; `None` without `--against flink`.
    ///
    /// # Errors
    /// When Flink is to be measured, and one of the paths was not given or does not exist.
    pub fn flink(&self) -> Result<Option<Installed>> {
        if self.against.is_none() {
            return Ok(None);
        }
        let (Some(distribution), Some(peer)) = (self.distribution.clone(), self.peer.clone())
        else {
            anyhow::bail!("Flink is fetched by: cargo xtask bench NAME -- --against flink");
        };
        let installed = Installed { distribution, peer };
        check(&installed)?;
        Ok(Some(installed))
    }
}

/// The part of Flink's answer that is asked for.
#[derive(Deserialize)]
struct TaskManagers {
    taskmanagers: Vec<TaskManager>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaskManager {
    id: String,
    free_slots: u32,
}

/// A running standalone cluster of Flink on this machine: a JobManager and TaskManagers, which stay warm over all runs, with the peer jobs
/// uploaded. Dropping it kills the processes and deletes its folder.
pub struct Flink {
    installed: Installed,
    folder: TempDir,
    rest: RestClient,
    jar: String,
    jobmanager: Child,
    taskmanagers: Vec<Child>,
}

impl Flink {
    /// Starts a cluster for workloads of throughput: one TaskManager with two slots, or two with one each. Returns once all are registered
    /// and the peer jobs are uploaded.
    ///
    /// # Errors
    /// Those of [`Flink::start_with`]. The processes that were started are killed.
    pub async fn start(installed: &Installed, place: Place) -> Result<Self> {
        let (taskmanagers, slots) = match place {
            Place::OneProcess => (1, 2),
            Place::TwoTaskManagers => (2, 1),
        };
        let slots = format!("taskmanager.numberOfTaskSlots: {slots}\n");
        Self::start_with(installed, taskmanagers, &slots).await
    }

    /// Starts a JobManager and so many TaskManagers with these further lines of configuration, waits until they are registered, and uploads
    /// the peer jobs.
    ///
    /// # Errors
    /// When `java` cannot be started or gives no options for a TaskManager, a process ends (the text has the ends of the logs), the
    /// JobManager or the TaskManagers are not there within 60 s each, or the upload fails. The processes that were started are killed.
    pub async fn start_with(
        installed: &Installed,
        taskmanagers: usize,
        options: &str,
    ) -> Result<Self> {
        let folder = TempDir::new()?;
        let rest_port = free_port()?;
        configure(folder.path(), rest_port, options)?;
        let rest = RestClient::new("127.0.0.1", rest_port, ClientTimeouts::default());
        let heap = ["-Xmx1024m".to_owned()];
        let jobmanager = spawn(installed, folder.path(), JOB_MANAGER, "jobmanager", &heap, &[])?;
        let mut cluster = Self {
            installed: installed.clone(),
            rest,
            jar: String::new(),
            jobmanager,
            taskmanagers: Vec::new(),
            folder,
        };
        cluster.wait_for("Flink's JobManager", 0).await?;
        let (jvm, dynamic) = cluster.taskmanager_options()?;
        for n in 1..=taskmanagers {
            let name = format!("taskmanager{n}");
            let (installed, folder) = (&cluster.installed, cluster.folder.path());
            let named = ["-D".to_owned(), format!("taskmanager.resource-id={name}")];
            let options = [dynamic.as_slice(), &named].concat();
            let child = spawn(installed, folder, TASK_MANAGER, &name, &jvm, &options)?;
            cluster.taskmanagers.push(child);
        }
        cluster.wait_for("the registration of Flink's TaskManagers", taskmanagers).await?;
        let jar = cluster.rest.upload(&cluster.installed.peer, |_| {}).await?;
        cluster.jar = jar.jar_id().to_owned();
        Ok(cluster)
    }

    /// Waits until the REST endpoint knows that many TaskManagers.
    async fn wait_for(&mut self, what: &str, taskmanagers: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            if let Ok(known) = self.rest.overview().await
                && known.taskmanagers as usize >= taskmanagers
            {
                return Ok(());
            }
            for child in std::iter::once(&mut self.jobmanager).chain(&mut self.taskmanagers) {
                if let Some(status) = child.try_wait()? {
                    let logs = logs(self.folder.path());
                    anyhow::bail!("{what}: a process of Flink ended ({status}): {logs}");
                }
            }
            wait_a_moment(began, what)?;
        }
    }

    /// Options of the JVM and of the TaskManager, which share its memory out.
    fn taskmanager_options(&self) -> Result<(Vec<String>, Vec<String>)> {
        let bin = self.installed.distribution.join("bin/bash-java-utils.jar");
        let mut java = Command::new("java");
        java.arg("-cp").arg(format!("{}:{}", bin.display(), class_path(&self.installed)));
        java.args([OPTIONS, "GET_TM_RESOURCE_PARAMS", "--configDir"]).arg(self.folder.path());
        let output = java.output().context("java can't be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut results = text.lines().filter_map(|line| line.strip_prefix(RESULT));
        let mut next = || -> Option<Vec<String>> {
            Some(results.next()?.split_whitespace().map(str::to_owned).collect())
        };
        let error = String::from_utf8_lossy(&output.stderr);
        let none = || format!("Flink gives no options for a TaskManager: {text}{error}");
        Ok((next().with_context(none)?, next().with_context(none)?))
    }

    /// Returns the client of the REST endpoint.
    pub fn rest(&self) -> &RestClient {
        &self.rest
    }

    /// Returns the folder with the configuration and the logs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a job of a class of the peer's jar and returns its id, without waiting until it runs.
    ///
    /// # Errors
    /// When the endpoint refuses the job or does not answer.
    pub async fn submit(&self, class: &str, parallelism: i64, args: Vec<String>) -> Result<String> {
        let request = request_of(class, args, parallelism);
        Ok(self.rest.run(&self.jar, &request).await?.jobid)
    }

    /// Returns the process ids of the JobManager, which is first, and of the TaskManagers.
    pub fn processes(&self) -> Vec<u32> {
        std::iter::once(&self.jobmanager).chain(&self.taskmanagers).map(Child::id).collect()
    }

    /// Returns the process id of a TaskManager whose slots are all taken, the first that the endpoint lists; `None` if there is none.
    ///
    /// # Errors
    /// When the endpoint does not answer.
    pub async fn busy_taskmanager(&self) -> Result<Option<u32>> {
        let known: TaskManagers = self.rest.get("/taskmanagers").await?;
        let busy = known.taskmanagers.iter().find(|one| one.free_slots == 0);
        let number = busy.and_then(|one| one.id.strip_prefix("taskmanager")?.parse::<usize>().ok());
        let child = number.and_then(|n| self.taskmanagers.get(n.checked_sub(1)?));
        Ok(child.map(Child::id))
    }

    /// Runs the workload once with so many records. CPU is that of all TaskManagers between submission and FINISHED; the peak of memory is
    /// the sum of theirs since they were started, earlier runs included. The JobManager's do not count.
    ///
    /// # Errors
    /// When the job fails, does not end within 600 s (it runs on then), or writes no checksum.
    pub async fn run(&self, workload: &Workload, records: u64) -> Result<Run> {
        let output = self.folder.path().join("checksum");
        fs::create_dir_all(&output)?;
        let args =
            vec![workload.name.to_owned(), records.to_string(), output.display().to_string()];
        let request = request_of(PEER, args, workload.parallelism.into());
        let span = Span::begin(self.taskmanagers.iter().map(Child::id).collect())?;
        run_to_end(&self.rest, &self.jar, &request).await?;
        let wall_s = span.seconds();
        let run = span.end(wall_s, sum_of(&output, workload.parallelism)?)?;
        fs::remove_dir_all(&output)?;
        Ok(run)
    }
}

impl Drop for Flink {
    fn drop(&mut self) {
        for child in self.taskmanagers.iter_mut().chain(std::iter::once(&mut self.jobmanager)) {
            // The process may have ended already; either way nothing of it is left.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sums the checksums that the sink's subtasks wrote, each to a file of its own.
fn sum_of(folder: &Path, subtasks: u32) -> Result<Checksum> {
    let mut sum = Checksum::default();
    for subtask in 0..subtasks {
        let path = folder.join(subtask.to_string());
        let text = fs::read_to_string(&path)
            .with_context(|| format!("Flink's job has not written {}", path.display()))?;
        sum = sum + text.parse()?;
    }
    Ok(sum)
}

fn configure(folder: &Path, rest_port: u16, options: &str) -> Result<()> {
    let rpc_port = free_port()?;
    let tmp = folder.join("tmp");
    fs::create_dir_all(&tmp)?;
    fs::write(
        folder.join("config.yaml"),
        format!(
            "jobmanager.rpc.address: 127.0.0.1\njobmanager.rpc.port: {rpc_port}\n\
             jobmanager.bind-host: 127.0.0.1\njobmanager.memory.process.size: 1600m\n\
             rest.address: 127.0.0.1\nrest.bind-address: 127.0.0.1\nrest.port: {rest_port}\n\
             taskmanager.host: 127.0.0.1\ntaskmanager.bind-host: 127.0.0.1\n\
             taskmanager.memory.process.size: 1728m\n\
             classloader.resolve-order: parent-first\nio.tmp.dirs: {}\n{options}",
            tmp.display()
        ),
    )?;
    Ok(fs::write(folder.join("log4j.properties"), LOGGING)?)
}

fn class_path(installed: &Installed) -> String {
    format!("{}/lib/*:{}", installed.distribution.display(), installed.peer.display())
}

/// Returns a command that starts a program which the system kills when the thread that starts it ends. A benchmark that a signal ends
/// drops nothing, and its Flink would run on.
fn ends_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

fn spawn(
    installed: &Installed,
    folder: &Path,
    class: &str,
    name: &str,
    jvm: &[String],
    options: &[String],
) -> Result<Child> {
    let mut java = ends_with_us("java");
    java.args(jvm).args(opened().split(' '));
    java.arg(format!("-Dlog.file={}", folder.join(format!("{name}.log")).display()));
    java.arg(format!("-Dlog4j.configurationFile={}/log4j.properties", folder.display()));
    java.arg("-cp").arg(class_path(installed));
    java.args([class, "--configDir"]).arg(folder).args(options);
    let out = File::create(folder.join(format!("{name}.out")))?;
    java.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
    java.spawn()
        .context("Flink can't be started; it needs setpriv (util-linux) and a JDK on the PATH")
}

/// Returns the end of each file that the processes wrote.
fn logs(folder: &Path) -> String {
    const LINES: usize = 20;
    let files = ["jobmanager", "taskmanager1", "taskmanager2", "taskmanager3"].iter();
    let mut all = String::new();
    for file in files.flat_map(|name| [format!("{name}.out"), format!("{name}.log")]) {
        let text = fs::read_to_string(folder.join(&file)).unwrap_or_default();
        let skipped = text.lines().count().saturating_sub(LINES);
        for line in text.lines().skip(skipped) {
            all.push_str(&format!("\n{file}: {line}"));
        }
    }
    all
}

/// Checks that both paths exist.
///
/// # Errors
/// When one does not; the text names it and says how to get it.
pub fn check(installed: &Installed) -> Result<()> {
    for path in [&installed.distribution, &installed.peer] {
        ensure!(path.exists(), "{} is absent; run the benchmark by cargo xtask", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_of_the_files_of_all_subtasks() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("0"), "3\t5\n").unwrap();
        assert!(sum_of(folder.path(), 2).is_err(), "the second is absent");
        fs::write(folder.path().join("1"), "4\t18446744073709551615").unwrap();
        assert_eq!(sum_of(folder.path(), 2).unwrap(), Checksum { count: 7, sum: 4 });
    }
}
