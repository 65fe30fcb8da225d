//! A cluster of real processes for one test: temporary folders, ports that the system chooses, everything
//! killed at the end. Waits are bounded and end with an event; nothing sleeps for a guess.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod passthrough;
pub mod visits;

use rest::client::{ClientTimeouts, RestClient};
use rest::messages::JarRequest;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything that should happen in milliseconds, on a busy machine.
pub const SOON: Duration = Duration::from_secs(60);

static BUILD: Once = Once::new();

/// Returns the folder of the binaries, that of this test's own build. The first call builds `flott` and the examples there, unless
/// `FLOTT_TESTS_PREBUILT` is set; panics if that fails.
pub fn bin_folder() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    BUILD.call_once(|| build(&folder));
    folder
}

/// Builds `flott` and the examples in the same profile, with the features that this crate asks for, unless
/// `FLOTT_TESTS_PREBUILT` says that this was done.
fn build(folder: &Path) {
    if std::env::var_os("FLOTT_TESTS_PREBUILT").is_some() {
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .args(["build", "--quiet", "-p", "tests", "-p", "deploy", "-p", "examples", "--bins"]);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    if let Some(target) = folder.parent() {
        command.env("CARGO_TARGET_DIR", target);
    }
    assert!(command.status().unwrap().success(), "the binaries could not be built");
}

/// Returns the path of a binary of the workspace, built as by [`bin_folder`]; panics if there is none of this name.
pub fn bin(name: &str) -> PathBuf {
    let path = bin_folder().join(name);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// Returns the path of a binary as [`bin`] does, as text for an argument.
pub fn program(name: &str) -> String {
    bin(name).to_str().unwrap().to_owned()
}

/// Runs a binary of the workspace to its end, with no configuration named by the environment; returns its exit status and output.
pub fn run<A: AsRef<OsStr>>(name: &str, args: impl IntoIterator<Item = A>) -> Output {
    Command::new(bin(name)).args(args).env_remove("FLOTT_CONF_DIR").output().unwrap()
}

/// Returns the output of a command that must have succeeded; panics with what it has written to standard error if it has not.
#[track_caller]
pub fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// One process of a test. Dropping it kills the process, even a stopped one, and prints the end of its log if the test fails.
pub struct Process {
    /// The process itself; its standard output is a pipe.
    pub child: Child,
    /// Name of the process in messages and in its log file's name.
    pub name: String,
    /// The file that gets the process's standard error, its log.
    pub stderr: PathBuf,
}

impl Process {
    /// Returns the process's id.
    pub fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
    /// Sends the process a signal; panics if the process is gone.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(self.pid(), signal).unwrap();
    }
    /// Kills the process by SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    /// Waits for the process's end and returns its exit code, -1 if a signal ended it; panics if it does not end within the time.
    pub fn wait(&mut self, within: Duration) -> i32 {
        let status =
            eventually(within, &format!("{} ends", self.name), || self.child.try_wait().unwrap());
        status.code().unwrap_or(-1)
    }
    /// Returns true if the process has not ended.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
    /// Returns the text that the process has written to standard error so far; empty if it cannot be read.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.pid(), nix::sys::signal::Signal::SIGCONT);
        self.kill();
        if std::thread::panicking() {
            eprintln!("---- {} ----\n{}", self.name, tail(&self.log(), 200));
        }
    }
}

/// The `log.dir` of a cluster, if it has one. When a test fails, the ends of the files there are printed: the processes' standard error is
/// empty then.
struct ShownLogs(Option<PathBuf>);

impl Drop for ShownLogs {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let files = self.0.iter().flat_map(std::fs::read_dir).flatten().flatten();
        let mut files: Vec<PathBuf> = files.map(|file| file.path()).collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            eprintln!("---- {} ----\n{}", file.display(), tail(&text, 100));
        }
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all.split_at(all.len().saturating_sub(lines)).1.join("\n")
}

/// Calls `look` every 10 ms until it returns a value; panics with `what` if there is none within the time.
pub fn eventually<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(begin.elapsed() < within, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a port as [`tests::chaos::cluster::free_port`] does.
pub fn free_port() -> u16 {
    tests::chaos::cluster::free_port().unwrap()
}

/// Returns true if there is a process with this id that has not ended. One that has ended is listed until its parent has asked for
/// its exit code.
pub fn runs(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Returns the options by which a cluster keeps its jobs in the directory `storage`, a path or a URI.
pub fn ha(storage: &str) -> [(&'static str, &str); 2] {
    [("high-availability.type", "filesystem"), ("high-availability.storageDir", storage)]
}

/// A cluster of real processes on this machine: one JobManager and TaskManagers, with files in a temporary folder. Dropping it kills the
/// processes and deletes the folder.
pub struct Cluster {
    /// The options that every process gets by `-D`, as keys and values.
    pub options: Vec<(String, String)>,
    /// Port of the JobManager's RPC.
    pub rpc_port: u16,
    /// Port of the JobManager's REST endpoint.
    pub rest_port: u16,
    /// The JobManager; `None` before it is started.
    pub jobmanager: Option<Process>,
    /// The TaskManagers in the order in which they were started, ended ones included.
    pub taskmanagers: Vec<Process>,
    started: usize,
    runtime: tokio::runtime::Runtime,
    _shown: ShownLogs,
    /// Dropped last: when a test fails, its processes still show their logs.
    pub folder: TempDir,
}

impl Cluster {
    /// Prepares a cluster of which nothing runs yet; ports are chosen so that processes can be started in any order. `options` are
    /// options of all processes, in place of those that the test sets.
    pub fn new(options: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (rpc_port, rest_port) = (free_port(), free_port());
        let mut all: Vec<(String, String)> = vec![
            ("jobmanager.rpc.port".into(), rpc_port.to_string()),
            ("rest.port".into(), rest_port.to_string()),
            ("env.pid.dir".into(), folder.path().join("pid").display().to_string()),
            ("io.tmp.dirs".into(), folder.path().join("tmp").display().to_string()),
            ("log.level".into(), std::env::var("FLOTT_TESTS_LOG").unwrap_or("info".into())),
        ];
        std::fs::create_dir_all(folder.path().join("tmp")).unwrap();
        for (key, value) in options {
            all.retain(|(k, _)| k != key);
            all.push(((*key).to_owned(), (*value).to_owned()));
        }
        Self {
            folder,
            options: all,
            rpc_port,
            rest_port,
            jobmanager: None,
            taskmanagers: Vec::new(),
            started: 0,
            _shown: ShownLogs(
                options.iter().find(|(key, _)| *key == "log.dir").map(|(_, dir)| dir.into()),
            ),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    /// Starts a JobManager and that number of TaskManagers, and waits until all are registered; panics after [`SOON`].
    pub fn start(options: &[(&str, &str)], taskmanagers: usize) -> Self {
        let mut cluster = Self::new(options);
        cluster.start_jobmanager();
        for _ in 0..taskmanagers {
            cluster.start_taskmanager(&[]);
        }
        cluster.await_taskmanagers(taskmanagers);
        cluster
    }

    /// Returns a command that runs `binary` with the arguments `first` and this cluster's options, without Flott's own environment
    /// variables.
    pub fn command(&self, binary: &Path, first: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command.args(first);
        for (key, value) in &self.options {
            command.arg("-D").arg(format!("{key}={value}"));
        }
        for variable in ["FLOTT_CONF_DIR", "RUST_LOG", "FLOTT_LOG_FILE", "FLOTT_PID_FILE"] {
            command.env_remove(variable);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Starts a command as a process of this cluster, with a log file of its own in the cluster's folder.
    pub fn spawn(&mut self, name: &str, mut command: Command) -> Process {
        self.started += 1;
        let stderr = self.folder.path().join(format!("{}-{name}.log", self.started));
        let file = std::fs::File::create(&stderr).unwrap();
        let child = command.stderr(file).stdout(Stdio::piped()).spawn().unwrap();
        Process { child, name: name.to_owned(), stderr }
    }

    /// Starts the JobManager and waits for the JSON line by which it says that it is ready; returns that line.
    pub fn start_jobmanager(&mut self) -> Value {
        self.start_jobmanager_with(&bin("flott"), &["jobmanager", "--output", "json"], &[])
    }

    /// Starts a JobManager like [`Cluster::start_jobmanager`], by `binary` with the arguments `first`, the cluster's options, and `last`.
    pub fn start_jobmanager_with(&mut self, binary: &Path, first: &[&str], last: &[&str]) -> Value {
        let mut command = self.command(binary, first);
        command.args(last);
        let mut process = self.spawn("jobmanager", command);
        let out = process.child.stdout.take().unwrap();
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line);
        let ready: Value = ready.unwrap_or_else(|e| panic!("'{line}': {e}\n{}", process.log()));
        self.jobmanager = Some(process);
        ready
    }

    /// Starts a second JobManager, which does not lead while the first one does; returns it and the port of its REST endpoint. The cluster
    /// must have high availability.
    pub fn start_standby(&mut self) -> (Process, u16) {
        let (rpc, rest) = (free_port(), free_port());
        let mut command = self.command(&bin("flott"), &["jobmanager", "--output", "json"]);
        for (key, port) in [("jobmanager.rpc.port", rpc), ("rest.port", rest)] {
            command.arg("-D").arg(format!("{key}={port}"));
        }
        let mut standby = self.spawn("standby", command);
        let mut line = String::new();
        BufReader::new(standby.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Result<Value, _> = serde_json::from_str(&line);
        assert!(ready.is_ok(), "'{line}'\n{}", standby.log());
        (standby, rest)
    }

    /// Starts one more TaskManager with the arguments `more`, without waiting; returns its place in [`Cluster::taskmanagers`].
    pub fn start_taskmanager(&mut self, more: &[&str]) -> usize {
        let mut command = self.command(&bin("flott"), &["taskmanager"]);
        command.args(more);
        let process = self.spawn("taskmanager", command);
        self.taskmanagers.push(process);
        self.taskmanagers.len() - 1
    }

    /// Returns a client of the JobManager's REST endpoint.
    pub fn client(&self) -> RestClient {
        RestClient::new("127.0.0.1", self.rest_port, ClientTimeouts::default())
    }

    /// Runs a future to its end on the cluster's own runtime.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Waits until exactly `count` TaskManagers are registered; panics after [`SOON`].
    pub fn await_taskmanagers(&self, count: usize) {
        let client = self.client();
        eventually(SOON, &format!("{count} TaskManagers are registered"), || {
            let list = self.block_on(client.task_managers()).ok()?;
            (list.taskmanagers.len() == count).then_some(())
        });
    }

    /// Returns the place in [`Cluster::taskmanagers`] of the one that runs the first subtask of the job's first vertex.
    pub fn place_of_taskmanager(&self, job: &str) -> usize {
        let client = self.client();
        let details = self.block_on(client.job(job)).unwrap();
        let first = details.vertices.first().unwrap();
        let vertex = self.block_on(client.vertex(job, &first.id)).unwrap();
        let id = vertex.subtasks.first().unwrap().taskmanager_id.clone();
        let pid = self.block_on(client.task_manager(&id)).unwrap().pid;
        self.taskmanagers.iter().position(|tm| tm.child.id() == pid).unwrap()
    }

    /// Waits until a job has the status `wanted`, such as `RUNNING`, and prints each change; panics after the time, or if the job ends with
    /// another status.
    pub fn await_state(&self, job: &str, wanted: &str, within: Duration) {
        let client = self.client();
        let mut last = String::new();
        eventually(within, &format!("job {job} is {wanted}"), || {
            let state = self.block_on(client.job_status(job)).ok()?.status;
            if state != last {
                eprintln!("job {job}: {state}");
                last.clone_from(&state);
            }
            if state != wanted && matches!(state.as_str(), "FAILED" | "FINISHED" | "CANCELED") {
                let why = self.block_on(client.job_exceptions(job)).ok();
                panic!("job {job} is {state}, not {wanted}: {why:?}");
            }
            (state == wanted).then_some(())
        });
    }

    /// Uploads a program and runs it; returns the job's id. Panics if the JobManager refuses it.
    pub fn submit(&self, program: &Path, request: &JarRequest) -> String {
        let client = self.client();
        self.block_on(async {
            let jar = client.upload(program, |_| ()).await.unwrap();
            client.run(jar.jar_id(), request).await.unwrap().jobid
        })
    }

    /// Submits `word_count` of this parallelism for a text or a folder; returns the job's id.
    pub fn count_words(&self, text: &str, out: &Path, parallelism: &str) -> String {
        let args =
            ["--input", text, "--output", out.to_str().unwrap(), "--parallelism", parallelism];
        self.submit(&bin("word_count"), &request(&args, 1))
    }

    /// Submits `sequence_sum` for these numbers; returns the job's id.
    pub fn sum(&self, numbers: Numbers, out: &Path, parallelism: i64) -> String {
        self.submit(&bin("sequence_sum"), &request(&numbers.args(out), parallelism))
    }

    /// Kills a TaskManager by its place in [`Cluster::taskmanagers`], forgets it and starts another one.
    pub fn replace_taskmanager(&mut self, place: usize) {
        self.taskmanagers[place].kill();
        self.taskmanagers.remove(place);
        self.start_taskmanager(&[]);
    }

    /// Runs `flott` to its end with the arguments `first`, this cluster's options, and `last`; returns its exit status and output.
    pub fn flott(&self, first: &[&str], last: &[&str]) -> Output {
        let mut command = self.command(&bin("flott"), first);
        command.args(last);
        command.output().unwrap()
    }
}

/// Makes the request to run an uploaded program with these arguments and this parallelism.
pub fn request<A: AsRef<str>>(args: &[A], parallelism: i64) -> JarRequest {
    JarRequest {
        program_args_list: Some(args.iter().map(|a| a.as_ref().to_owned()).collect()),
        parallelism: Some(parallelism),
        ..JarRequest::default()
    }
}

/// The numbers from 0 that `sequence_sum` sums up by their remainders, and how many of them it emits in a second.
#[derive(Clone, Copy)]
pub struct Numbers {
    /// How many numbers there are.
    pub count: u64,
    /// How many of them are emitted in a second.
    pub rate: u64,
    /// How many keys there are: a number's key is its remainder.
    pub keys: u64,
}

/// More numbers than any test waits for.
pub const ENDLESS: Numbers = Numbers { count: 1_000_000_000, rate: 100, keys: 10 };

impl Numbers {
    /// Returns the arguments by which `sequence_sum` sums up these numbers and writes the sums to `out`.
    pub fn args(&self, out: &Path) -> Vec<String> {
        let Self { count, rate, keys } = self;
        let words = format!("--count {count} --rate {rate} --keys {keys} --output");
        words.split(' ').chain([out.to_str().unwrap()]).map(str::to_owned).collect()
    }

    /// Returns the lines that `sequence_sum` has to write, sorted: key, how many numbers have it, and their sum.
    pub fn sums(&self) -> Vec<String> {
        let of_key = |key| (key..self.count).step_by(usize::try_from(self.keys).unwrap());
        let line = |key| format!("{key}\t{}\t{}", of_key(key).count(), of_key(key).sum::<u64>());
        let mut lines: Vec<String> = (0..self.keys).map(line).collect();
        lines.sort();
        lines
    }
}

/// Returns the lines of a text, such as what a command has printed, sorted.
pub fn sorted_lines(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> =
        String::from_utf8(text.to_vec()).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Counts the words of a file without Flott, by `tr | sort | uniq -c`: returns lines `word<TAB>count` in byte order.
pub fn expected_counts(text: &Path) -> Vec<String> {
    let script = r"tr -s '[:space:]' '\n' < $0 | grep -av '^$' | LC_ALL=C sort | uniq -c";
    let output =
        Command::new("sh").env("LC_ALL", "C").args(["-c", script]).arg(text).output().unwrap();
    let mut lines: Vec<String> = String::from_utf8(succeeded(output).stdout)
        .unwrap()
        .lines()
        .map(|line| {
            let (count, word) = line.trim_start().split_once(' ').unwrap();
            format!("{word}\t{count}")
        })
        .collect();
    lines.sort();
    lines
}

/// Returns the lines of an output, sorted: those of a file, or of all files in a folder of parts.
pub fn output_lines(path: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let files: Vec<PathBuf> = if path.is_dir() {
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![path.to_owned()]
    };
    for file in files {
        let mut text = String::new();
        std::fs::File::open(&file).unwrap().read_to_string(&mut text).unwrap();
        lines.extend(text.lines().map(str::to_owned));
    }
    lines.sort();
    lines
}

/// Writes the file `text` with that number of words, ten to a line, into a folder, the same text every time; returns its path.
pub fn text_file(folder: &Path, words: u64) -> PathBuf {
    use std::io::Write;
    let path = folder.join("text");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for i in 0..words {
        let mut z = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let end = if i % 10 == 9 { "\n" } else { " " };
        write!(file, "w{}{end}", z % 10_000).unwrap();
    }
    file.flush().unwrap();
    path
}

/// Returns the path of a text that every clone of the repository has: its licence.
pub fn repository_text() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../LICENSE")
}
