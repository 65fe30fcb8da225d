//! Starts a child process on the launching thread. Nothing here may wait for an action of the child.

use super::{ExitCause, Kill, LaunchError, LaunchSpec};
use crate::sync::lock;
use futures::{FutureExt, channel::oneshot, future::BoxFuture};
use std::{
    fs::{File, OpenOptions},
    io,
    os::{
        fd::OwnedFd,
        unix::{fs::OpenOptionsExt, net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock, mpsc},
    time::Duration,
};
use streaming::{program_note, task::threads};

/// The number of retries, and the pause between two, for executing a file that is still open for writing.
const BUSY_TRIES: u32 = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A child process that [`start()`] has started; it may not have executed anything yet. Dropping `stream` ends the child, which watches its
/// end of the socket; dropping the other fields has no effect on it.
#[derive(Debug)]
pub struct Launched {
    /// The parent's end of the socket that is the child's standard input.
    pub stream: UnixStream,
    /// The child's process id, which is also the id of its process group.
    pub pid: u32,
    /// Completes when the child has ended and was reaped, with how it ended.
    pub exited: Exited,
    /// A handle by which the caller kills the child and its process group.
    pub kill: Kill,
}

/// A future that completes when the child has ended and was reaped, with how it ended. Dropping the future has no effect on the child.
#[derive(derive_more::Debug)]
#[debug("Exited")]
pub struct Exited(pub(super) BoxFuture<'static, ExitCause>);

impl Future for Exited {
    type Output = ExitCause;
    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<ExitCause> {
        self.0.as_mut().poll(cx)
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Starts a child on the launching thread, one after the other: checks the program's ELF note, opens the two log files for appending, and
/// runs the program as the leader of a process group of its own, with a socket as standard input. Completes when the process exists,
/// without waiting for any action of it. If the caller drops the future before, the child is killed.
///
/// # Errors
/// Returns [`LaunchError::NotAProgram`] if the file cannot be read or is not a Flott program for this system, [`LaunchError::Io`] if a log
/// file cannot be opened, the working directory does not exist, or the system refuses the socket, the process or a thread. No process is
/// left.
pub async fn start(spec: LaunchSpec) -> Result<Launched, LaunchError> {
    let path = spec.program.clone();
    let ending = |why: &str| LaunchError::Io {
        what: "can't start",
        path: path.clone(),
        source: io::Error::other(why.to_owned()),
    };
    let (reply, started) = oneshot::channel();
    on_launching_thread(Box::new(move || {
        if let Err(Ok(orphan)) = reply.send(launch(&spec)) {
            // The caller is gone, so nobody else would end the child.
            orphan.kill.kill();
        }
    }))
    .map_err(|e| ending(&e.to_string()))?;
    started.await.map_err(|_| ending("the launching thread has ended"))?
}

fn on_launching_thread(job: Job) -> io::Result<()> {
    static QUEUE: OnceLock<Mutex<Option<mpsc::Sender<Job>>>> = OnceLock::new();
    let mut queue = lock(QUEUE.get_or_init(Mutex::default));
    if queue.is_none() {
        let (sender, jobs) = mpsc::channel::<Job>();
        threads::spawn("flott-launch", threads::STACK_BYTES, move || {
            while let Ok(job) = jobs.recv() {
                job();
            }
        })?;
        *queue = Some(sender);
    }
    match queue.as_ref().map(|queue| queue.send(job)) {
        Some(Ok(())) => Ok(()),
        _ => Err(io::Error::other("the launching thread has ended")),
    }
}

fn launch(spec: &LaunchSpec) -> Result<Launched, LaunchError> {
    // Checked before anything of the file is executed.
    program_note::read(&spec.program)?;
    let refused = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| LaunchError::Io { what, path, source }
    };
    // A relative path is resolved here, so that it is searched neither in PATH nor in the child's working directory.
    let program =
        std::path::absolute(&spec.program).map_err(refused("can't find", &spec.program))?;
    let stdout = open_log(&spec.stdout, spec.output_mode)?;
    let stderr = open_log(&spec.stderr, spec.output_mode)?;
    let (ours, theirs) =
        UnixStream::pair().map_err(refused("cannot create a socket pair for", &spec.program))?;
    let mut command = Command::new(&program);
    command
        .env_clear()
        .envs(spec.environment())
        .current_dir(&spec.work_dir)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0);
    let child = spawn(&mut command).map_err(refused("can't start", &spec.program))?;
    // Dropping the command closes this process's copy of the child's end of the socket. Otherwise the stream would not
    // end when the child does.
    drop(command);
    let (pid, kill) = (child.id(), Kill::of(&child));
    let exited = watch(child, &kill)
        .map_err(refused("cannot start the thread that waits for", &spec.program))?;
    Ok(Launched { stream: ours, pid, exited, kill })
}

fn open_log(path: &PathBuf, mode: u32) -> Result<File, LaunchError> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(mode);
    options.open(path).map_err(|source| LaunchError::Io {
        what: "can't open the log",
        path: path.clone(),
        source,
    })
}

/// Spawns the command, and retries while the file is busy. A file that was just written may still be open for writing
/// in a child that another thread forked at that moment, until that child executes its own program.
fn spawn(command: &mut Command) -> io::Result<Child> {
    for _ in 0..BUSY_TRIES {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
    command.spawn()
}

fn watch(child: Child, kill: &Kill) -> io::Result<Exited> {
    let (ended, exit) = oneshot::channel();
    let (waiting, guard) = (kill.clone(), kill.clone());
    let started = threads::spawn("flott-reaper", 64 << 10, move || {
        // Sending fails if nobody waits for the end, which does not matter.
        let _ = ended.send(waiting.wait(child));
    });
    if let Err(error) = started {
        guard.kill();
        return Err(error);
    }
    Ok(Exited(exit.map(|exit| exit.unwrap_or(ExitCause::Unknown)).boxed()))
}
