//! Starts program hosts: in this process where it is the program, else as children.
//!
//! Each launch gets folders of its own, so that nothing of an earlier host is found by a later one.

use crate::host_logs;
use crate::host_memory::{HostMemory, ProcessLimit};
use crate::log_files::{self, LogLimits};
use crate::logging::LogPlace;
use actors::program_hosts::{ExitCause, HostRequest, HostSide, LaunchedHost, ProgramHostLauncher};
use actors::services::FatalErrorHandler;
use conf::{Options, taskmanager};
use futures::FutureExt;
use futures::future::BoxFuture;
use gateways::program_host::BuildError;
use gateways::{RpcService, TraceContext};
use host::launch::{self, LaunchSpec};
use host::{InProcess, in_process};
use model::JobId;
use platform::Disks;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use streaming::ProgramEntry;

/// Variables that a host is started with, where this process has them; declared ones come with the graph.
const INHERITED: [&str; 11] = [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "RUST_BACKTRACE",
    "LD_LIBRARY_PATH",
    "HADOOP_CONF_DIR",
    "HADOOP_USER_NAME",
    streaming::SHIPPED_VARIABLE,
];

/// Pause between two looks at the size of a host's output.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes free on a disk below which no host gets its folder there while another disk has more: hosts spill to it.
const ROOM_BYTES: u64 = 256 << 20;

/// The parts of which the launcher of a process's program hosts is made.
pub(crate) struct LauncherParts {
    /// RPC service of this process, by which it talks to its hosts.
    pub rpc: RpcService,
    /// The effective options of this process: configuration file, environment and command line together.
    pub options: Arc<Options>,
    /// Receiver of fatal errors of this process: told when user code inside this process cannot be stopped.
    pub fatal: FatalErrorHandler,
    /// The program that this process's executable is, whose hosts run inside this process; `None` for the binary
    /// `flott`, which starts each host as a child.
    pub entry: Option<ProgramEntry>,
    /// True if relative paths in programs resolve against the working directory of this process, as in an embedded
    /// cluster.
    pub embedded: bool,
    /// Folders for the working directories and temporary files of hosts, one on each disk; hosts take them in turn. A disk that
    /// fails or is nearly full is passed over.
    pub folders: Disks,
    /// Place of this process's log; its hosts log beside it.
    pub log: LogPlace,
    /// Limit on the memory of this process and its hosts together. Shortly before they exceed it, a host is ended: one that only
    /// serves collected results, else the largest; none if the process alone takes it all. `None`: no limit.
    pub memory: Option<ProcessLimit>,
}

/// Starts program hosts.
pub(crate) struct Launcher {
    parts: Arc<LauncherParts>,
    memory: HostMemory,
    /// Number of launches so far, by which folders of one job have different names.
    launches: Arc<AtomicU64>,
}

impl Launcher {
    /// A launcher of one process.
    pub(crate) fn new(parts: LauncherParts) -> Self {
        let memory = HostMemory::new(parts.rpc.platform().clone(), parts.memory);
        Self { parts: Arc::new(parts), memory, launches: Arc::default() }
    }
}

impl ProgramHostLauncher for Launcher {
    fn launch(&self, request: HostRequest) -> BoxFuture<'static, Result<LaunchedHost, BuildError>> {
        let (parts, memory) = (self.parts.clone(), self.memory.clone());
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let (job, program) = (request.job_id, request.program.clone());
            let on_disk = parts.clone();
            // On a thread that may block: a disk that hangs stops this launch, and not the actor that waits for it.
            let made = move || Places::make(&on_disk, &request, number);
            let made = tokio::task::spawn_blocking(made).await;
            let made = made.map_err(|error| refused(error.to_string(), false))?;
            let places = made.map_err(|(folder, error)| {
                let why = format!("io.tmp.dirs: '{}': {error}", folder.display());
                refused(why, launch::is_no_room(&error))
            })?;
            match program {
                None => inside(&parts, job, places).await,
                Some(program) => child(&parts, &memory, (job, program), places).await,
            }
        })
    }

    fn serves_collected(&self, pid: u32) {
        self.memory.serves_collected(pid);
    }
}

/// Name of the working directory in a launch's folder.
const WORK: &str = "work";
/// Name of the directory for temporary files in a launch's folder.
const TMP: &str = "tmp";

/// The files of one launch.
struct Places {
    name: String,
    _root: Root,
    work: PathBuf,
    tmp: PathBuf,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Places {
    fn make(
        parts: &Arc<LauncherParts>,
        request: &HostRequest,
        number: u64,
    ) -> Result<Self, (PathBuf, std::io::Error)> {
        let side = match request.side {
            HostSide::JobManager => "coordinators",
            HostSide::TaskManager => "tasks",
        };
        let name = format!("{}-{side}-{number}", request.job_id);
        let folder = folder_on(&parts.folders, &name)?;
        let root = Root { folder, parts: parts.clone() };
        let (work, tmp) = (root.folder.join(WORK), root.folder.join(TMP));
        let job = request.job_id;
        root.prune();
        let (stdout, stderr) = host_logs::places(&parts.log, &root.folder, job);
        Ok(Self { name, _root: root, work, tmp, stdout, stderr })
    }
}

/// Makes the folder of a launch, with those for its work and its temporary files, on the next disk in turn that takes it.
///
/// # Errors
/// All disks fail: the folder on the first of them, and its error.
fn folder_on(disks: &Disks, name: &str) -> Result<PathBuf, (PathBuf, std::io::Error)> {
    disks.place(ROOM_BYTES, |disk: &Path| {
        let folder = disk.join(name);
        let made = [WORK, TMP].iter().try_for_each(|of| std::fs::create_dir_all(folder.join(of)));
        match made {
            Ok(()) => Ok(folder),
            Err(error) => {
                // Best effort: half a folder on a disk that fails goes with the process's own.
                let _ = std::fs::remove_dir_all(&folder);
                Err((folder, error))
            }
        }
    })
}

/// The folder of one launch. It is removed when this value is dropped: its host is gone, or the launch was given up. From
/// then on the job's log files are those of a job that does not run, which may be too many.
struct Root {
    folder: PathBuf,
    parts: Arc<LauncherParts>,
}

impl Root {
    fn prune(&self) {
        let LauncherParts { log, folders, options, .. } = &*self.parts;
        host_logs::prune(log, folders.folders(), options.get(&conf::logging::JOBS_MAX));
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, folder = %self.folder.display(), "cannot remove a program host's folder");
            }
            _ => {}
        }
        self.prune();
    }
}

/// Bounds the files into which a host prints and logs, until it has ended. Returns how it ended.
async fn until_ended<T>(exited: impl Future<Output = T>, files: [PathBuf; 2], bytes_max: u64) -> T {
    let mut exited = std::pin::pin!(exited);
    loop {
        tokio::select! {
            biased;
            exit = &mut exited => return exit,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let files = files.clone();
        let bounded = move || files.iter().try_for_each(|file| log_files::bound(file, bytes_max));
        if let Ok(Err(error)) = tokio::task::spawn_blocking(bounded).await {
            tracing::warn!(%error, "cannot empty a full log file of a program host");
        }
    }
}

async fn inside(
    parts: &LauncherParts,
    job: JobId,
    places: Places,
) -> Result<LaunchedHost, BuildError> {
    let Some(entry) = parts.entry.clone() else {
        return Err(BuildError::Process(
            "this process is no program: the job must name one".to_owned(),
        ));
    };
    let fatal = parts.fatal.clone();
    let options = InProcess {
        name: format!("program_host/{}", places.name),
        session: crate::components::process_session(parts.rpc.platform()),
        embedded: parts.embedded,
        tmp_dir: places.tmp.clone(),
        fatal: Arc::new(move |why| fatal.report(format!("program host of job {job}"), why)),
    };
    let host = in_process(&parts.rpc, entry, options)
        .await
        .map_err(|e| BuildError::Process(e.to_string()))?;
    let end = host.end;
    let exited = host.ended.map(move |()| {
        drop(places);
        ExitCause("ended".to_owned())
    });
    Ok(LaunchedHost {
        address: host.address,
        exited: exited.boxed(),
        kill: Box::new(move || end()),
    })
}

fn refused(why: String, no_room: bool) -> BuildError {
    if no_room { BuildError::NoRoom(why) } else { BuildError::Process(why) }
}

async fn child(
    parts: &Arc<LauncherParts>,
    memory: &HostMemory,
    (job, program): (JobId, PathBuf),
    places: Places,
) -> Result<LaunchedHost, BuildError> {
    let within: Duration = parts.options.get(&taskmanager::HOST_START_TIMEOUT);
    let spec = LaunchSpec {
        program,
        job_id: job,
        session: crate::components::process_session(parts.rpc.platform()),
        parent: parts.rpc.node().clone(),
        trace: TraceContext::current(),
        work_dir: places.work.clone(),
        tmp_dir: places.tmp.clone(),
        env: environment(&parts.options),
        stdout: places.stdout.clone(),
        stderr: places.stderr.clone(),
        output_mode: crate::target::log_mode(&parts.options),
    };
    let bytes_max = LogLimits::of(&parts.options).bytes_max;
    // Earlier hosts of the job have written into the same file.
    let said_before = std::fs::metadata(&places.stderr).map_or(0, |file| file.len());
    let launched = launch::host(&parts.rpc, spec, within).await;
    let launched = launched.map_err(|error| refused(error.to_string(), error.is_no_room()))?;
    let (kill, memory, pid) = (launched.kill, memory.clone(), launched.address.pid);
    if let Some(pid) = pid {
        memory.add(pid, kill.clone());
    }
    let exited = async move {
        let files = [places.stdout.clone(), places.stderr.clone()];
        let exit = until_ended(launched.exited, files, bytes_max).await;
        let over = pid.and_then(|pid| memory.remove(pid));
        let why = over
            .or_else(|| launch::last_words(&places.tmp))
            .or_else(|| launch::overflowed_stack(exit, &places.stderr, said_before));
        drop(places);
        ExitCause(why.map_or_else(|| exit.to_string(), |why| format!("{exit}: {why}")))
    };
    Ok(LaunchedHost {
        address: launched.address,
        exited: exited.boxed(),
        kill: Box::new(move || kill.kill()),
    })
}

/// Returns the environment variables that a program host inherits from this process.
pub(crate) fn environment(options: &Options) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    env.insert("RUST_LOG".to_owned(), crate::logging::level(options));
    let facts = crate::environment::facts(options);
    env.insert(crate::environment::FACTS_VARIABLE.to_owned(), facts);
    crate::target::host_environment(options, &mut env);
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_a_process_take_its_disks_in_turn_and_pass_over_one_that_fails() {
        let home = tempfile::tempdir().unwrap();
        let [one, two] = ["disk-1", "disk-2"].map(|name| home.path().join(name));
        let disks = Disks::new(vec![one.clone(), two.clone()]);
        let taken = ["a", "b", "c"].map(|name| folder_on(&disks, name).unwrap());
        assert_eq!(taken, [one.join("a"), two.join("b"), one.join("c")]);
        assert!(taken.iter().all(|folder| folder.join(WORK).is_dir() && folder.join(TMP).is_dir()));

        // The second disk fails: a file is where its folder was.
        std::fs::remove_dir_all(&two).unwrap();
        std::fs::write(&two, "").unwrap();
        let taken = ["d", "e"].map(|name| folder_on(&disks, name).unwrap());
        assert_eq!(taken, [one.join("d"), one.join("e")]);

        // One disk takes the working directory, but not that for temporary files.
        std::fs::create_dir_all(one.join("f")).unwrap();
        std::fs::write(one.join("f").join(TMP), "").unwrap();
        let (folder, _) = folder_on(&disks, "f").unwrap_err();
        assert_eq!(folder, two.join("f"), "the error is that of the disk whose turn it was");
        assert!(!one.join("f").exists(), "nothing of a launch stays on a disk that fails");
    }
}
